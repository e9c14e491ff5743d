"""An OTLP collector: takes traces over HTTP, keeps their spans, and can be told to refuse."""

import http.server
import threading
import time

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

SECONDS_MAX = 20


class Collector:
    """Serves on a free port of loopback until the block ends."""

    def __init__(self):
        self.requests = []
        self.status = 200
        self.refused = 0
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = collector.take(self.path, self.headers["Content-Type"], body)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def take(self, path, content_type, body):
        if self.status != 200:
            self.refused += 1
            return self.status
        assert (path, content_type) == ("/v1/traces", "application/x-protobuf")
        self.requests.append(ExportTraceServiceRequest.FromString(body))
        return 200

    def spans(self):
        """Every span so far, with what it is of."""
        return [
            span
            for request in list(self.requests)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def wait_for(self, is_wanted):
        """The operation's span that is as wanted, and its children in the order of their beginnings."""
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            spans = self.spans()
            found = [span for span in spans if span.kind == span.SPAN_KIND_SERVER and is_wanted(span)]
            if found:
                children = [span for span in spans if span.parent_span_id == found[0].span_id]
                return found[0], sorted(children, key=lambda span: span.start_time_unix_nano)
            assert time.monotonic() < deadline, [span.name for span in spans]
            time.sleep(0.05)


def attributes(owner):
    """The attributes of a span or a resource, as a dictionary."""
    return {
        attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value")) for attribute in owner.attributes
    }
