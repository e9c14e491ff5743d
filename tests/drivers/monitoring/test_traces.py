"""Traces over OTLP: spans nest, their times sum, and they join the client's trace; a collector's failure stays its own."""

import time
import urllib.request

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from pymongo import MongoClient

from collector import SECONDS_MAX, Collector, attributes
from quarry_process import Quarry

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{CALLER}-01"


@pytest.fixture
def collector():
    with Collector() as serving:
        yield serving


@pytest.fixture
def traced(start, collector):
    """A client of a server that traces nothing but what is slow or what its client traces."""
    server = start("--otlpEndpoint", collector.url, "--setParameter", "traceSampleRate=0")
    with MongoClient(server.uri) as client:
        client.server = server
        yield client


@pytest.mark.parametrize(
    "comment",
    [TRACEPARENT, f'{{"traceparent": "{TRACEPARENT}"}}', {"traceparent": TRACEPARENT, "user": 7}],
    ids=["string", "json", "document"],
)
def test_a_span_joins_the_clients_trace(traced, collector, comment):
    things = traced.shop.things
    things.insert_many([{"_id": number, "group": number % 3} for number in range(500)])
    found = things.find({"group": 1}, limit=10, comment=comment)
    assert len(list(found)) == 10
    span, children = collector.wait_for(lambda span: span.name == "find shop.things")
    assert span.trace_id.hex() == TRACE and span.parent_span_id.hex() == CALLER
    shown = attributes(span)
    assert shown["db.namespace"] == "shop" and shown["db.collection.name"] == "things"
    assert shown["db.operation.name"] == "find" and shown["quarry.plan_summary"] == "COLLSCAN"
    assert shown["quarry.work.returned"] == 10 and shown["quarry.work.docsExamined"] >= 10
    assert {"read", "decode", "plan", "execute", "engine_scan", "match", "encode", "send"} <= {child.name for child in children}
    assert all(child.trace_id.hex() == TRACE for child in children)
    # The insert was not traced, and its share is 0.
    assert not [span for span in collector.spans() if span.name.startswith("insert")]


def test_children_nest_and_sum(traced, collector):
    things = traced.shop.things
    for number in range(50):
        things.insert_one({"_id": number}, comment=TRACEPARENT)
        things.find_one({"_id": number}, comment=TRACEPARENT)
    shares = []
    for operation in ["insert shop.things"] * 50 + ["find shop.things"] * 50:
        seen = set()

        def is_next(span):
            return span.name == operation and span.span_id not in seen

        span, children = collector.wait_for(is_next)
        seen.add(span.span_id)
        wall = span.end_time_unix_nano - span.start_time_unix_nano
        place = span.start_time_unix_nano
        for child in children:
            assert child.start_time_unix_nano == place
            place = child.end_time_unix_nano
        assert place <= span.end_time_unix_nano
        unattributed = attributes(span)["quarry.unattributed_ns"]
        assert wall == place - span.start_time_unix_nano + unattributed
        shares.append(unattributed / wall)
    shares.sort()
    assert shares[len(shares) // 2] < 0.05, shares
    names = {child.name for child in collector.spans()}
    assert {"journal_append", "engine_write", "engine_read"} <= names


def test_slow_and_failed_operations_are_traced(traced, collector):
    traced.admin.command("setParameter", 1, slowOpThresholdMs=0)
    traced.shop.command("count", "things")
    with pytest.raises(Exception, match="unknown operator"):
        traced.shop.things.find_one({"$nor": [{"a": {"$nothing": 1}}]})
    span, _ = collector.wait_for(lambda span: span.name == "count shop.things")
    assert span.parent_span_id == b"" and len(span.trace_id) == 16 and any(span.trace_id)
    span, _ = collector.wait_for(lambda span: span.name == "find shop.things")
    assert span.status.code == span.status.STATUS_CODE_ERROR and "unknown operator" in span.status.message
    assert attributes(span)["error.type"] == "BadValue"
    resource = attributes(collector.requests[0].resource_spans[0].resource)
    assert resource["service.name"] == "quarry" and resource["server.port"] == traced.server.port


def test_a_durable_write_names_its_group_and_its_sync(traced, collector):
    traced.shop.create_collection("things")
    traced.shop.command("insert", "things", documents=[{}], writeConcern={"w": 1, "j": True}, comment=TRACEPARENT)
    _, children = collector.wait_for(lambda span: span.name == "insert shop.things")
    by_name = {child.name: attributes(child) for child in children}
    assert by_name["journal_append"]["quarry.journal.group_writers"] == 1
    assert by_name["sync_wait"]["quarry.journal.sync"] > 0


def test_the_share_chooses_others(traced, collector):
    assert traced.admin.command("setParameter", 1, traceSampleRate=0.5)["was"] == 0
    for number in range(200):
        traced.shop.things.insert_one({"_id": number})
    traced.admin.command("setParameter", 1, traceSampleRate=0)
    traced.shop.things.find_one(comment=TRACEPARENT)
    collector.wait_for(lambda span: span.name == "find shop.things")
    inserts = [span for span in collector.spans() if span.name == "insert shop.things"]
    assert 80 <= len(inserts) <= 120
    assert len({span.trace_id for span in inserts}) == len(inserts)
    unsampled = TRACEPARENT[:-1] + "0"
    traced.admin.command("setParameter", 1, traceSampleRate=1)
    traced.shop.command("count", "things", comment=unsampled)
    traced.shop.command("distinct", "things", key="_id")
    collector.wait_for(lambda span: span.name == "distinct shop.things")
    assert not [span for span in collector.spans() if span.name == "count shop.things"]


def counts(client):
    return client.admin.command("serverStatus")["quarry"]["traces"]


def wait_until(is_so):
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_collector_that_refuses_costs_operations_nothing(traced, collector):
    collector.status = 400
    traced.admin.command("setParameter", 1, traceSampleRate=1)
    for number in range(300):
        traced.shop.things.insert_one({"_id": number})
    wait_until(lambda: counts(traced)["failed"] >= 300)
    assert traced.shop.things.count_documents({}) == 300
    assert traced.server.tail().count("traces not taken by the collector") == 1
    # Statuses that ask for patience are tried again, and nothing is lost.
    collector.status = 503
    sent = counts(traced)["sent"]
    traced.shop.things.find_one()
    wait_until(lambda: collector.refused >= 3)
    collector.status = 200
    wait_until(lambda: counts(traced)["sent"] > sent)


def test_what_is_queued_is_sent_at_the_end(collector, tmp_path):
    quarry = Quarry(tmp_path / "data", "memory", ["--otlpEndpoint", collector.url]).start()
    with MongoClient(quarry.uri) as client:
        client.shop.things.insert_one({}, comment=TRACEPARENT)
    assert quarry.stop() == 0
    assert [span for span in collector.spans() if span.name == "insert shop.things"]


def test_an_exemplar_names_the_trace(start):
    server = start("--slowms", "0")
    with MongoClient(server.uri) as client:
        client.shop.things.find_one({"_id": 7}, comment=TRACEPARENT)

        def is_named():
            request = urllib.request.Request(
                server.admin_url + "metrics", headers={"Accept": "application/openmetrics-text"}
            )
            with urllib.request.urlopen(request, timeout=10) as answer:
                families = list(text_string_to_metric_families(answer.read().decode()))
            exemplars = [sample.exemplar for family in families for sample in family.samples if sample.exemplar]
            return TRACE in [exemplar.labels.get("trace_id") for exemplar in exemplars]

        wait_until(is_named)
