"""A TCP proxy that notes the op code of every message that passes, each way."""

import socket
import struct
import threading

OP_COMPRESSED = 2012
HEADER = struct.Struct("<iiii")


class WireTap:
    """Listens on a free loopback port and forwards to `target_port`."""

    def __init__(self, target_port):
        self.target_port = target_port
        self.to_server = []
        self.to_client = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._sockets = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.close()
        for one in self._sockets:
            one.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target_port))
            self._sockets += [client, server]
            for source, sink, seen in ((client, server, self.to_server), (server, client, self.to_client)):
                threading.Thread(target=self._forward, args=(source, sink, seen), daemon=True).start()

    @staticmethod
    def _forward(source, sink, seen):
        buffered = b""
        try:
            while chunk := source.recv(65536):
                sink.sendall(chunk)
                buffered += chunk
                while len(buffered) >= HEADER.size:
                    length, _, _, op_code = HEADER.unpack_from(buffered)
                    if len(buffered) < length:
                        break
                    seen.append((op_code, buffered[HEADER.size : length]))
                    buffered = buffered[length:]
        except OSError:
            pass
        finally:
            for one in (source, sink):
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


def compressors(seen):
    """The compressor ids of the compressed messages: 1 snappy, 2 zlib, 3 zstd."""
    return {body[8] for op_code, body in seen if op_code == OP_COMPRESSED}
