"""What `/metrics` serves, as Prometheus' own tools read it: promtool the classic text, prometheus_client OpenMetrics."""

import os
import pathlib
import subprocess
import time
import urllib.request

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as classic_families
from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError, OperationFailure

PROMTOOL = pathlib.Path(os.environ["DRIVERS_DIR"]) / "prometheus/usr/bin/promtool"


@pytest.fixture
def busy(start):
    """A server where every operation is slow, so that each of its buckets has an exemplar."""
    server = start("--slowms", "0")
    with MongoClient(server.uri) as client:
        for number in range(300):
            client.shop.things.insert_one({"_id": number})
            list(client.shop.things.find({"_id": number}))
        client.shop["odd \\ \"name\""].insert_one({})
        yield server, client


def scrape(server, accept):
    request = urllib.request.Request(server.admin_url + "metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def test_promtool_accepts_the_classic_text(busy):
    server, _ = busy
    content_type, text = scrape(server, "text/plain")
    assert content_type.startswith("text/plain; version=0.0.4")
    checked = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, timeout=30)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    families = {family.name: family for family in classic_families(text)}
    assert {"quarry_operation_seconds", "quarry_phase_seconds", "quarry_collection_seconds"} <= families.keys()
    # Exemplars exist in OpenMetrics only.
    assert " # {" not in text


def test_the_classic_text_agrees_with_the_command(busy):
    server, client = busy
    _, text = scrape(server, "text/plain")
    samples = [sample for family in classic_families(text) for sample in family.samples]
    asked = client.admin.command("getOpTiming", window="sinceStart")["operations"]["insert"]

    def value(name, **labels):
        found = [sample.value for sample in samples if sample.name == name and sample.labels == labels]
        assert len(found) == 1, (name, labels)
        return found[0]

    assert value("quarry_operation_seconds_count", operation="insert") == asked["count"] == 301
    wall = value("quarry_operation_seconds_sum", operation="insert")
    assert wall == pytest.approx(asked["phases"]["wall"]["totalMicros"] / 1e6, rel=1e-3)
    phases = [s for s in samples if s.name == "quarry_phase_seconds_sum" and s.labels["operation"] == "insert"]
    assert sum(sample.value for sample in phases) == pytest.approx(wall, rel=1e-6)
    label = 'shop.odd \\ "name"'
    assert value("quarry_collection_seconds_count", collection=label) == 1


def test_a_dashboard_has_the_process_the_disk_and_the_errors(busy):
    server, client = busy
    for _ in range(2):
        with pytest.raises(DuplicateKeyError):
            client.shop.things.insert_one({"_id": 0})
    with pytest.raises(OperationFailure):
        client.shop.command("noSuchCommand")
    _, text = scrape(server, "text/plain")
    samples = [sample for family in classic_families(text) for sample in family.samples]

    def values(name):
        return {tuple(sorted(sample.labels.items())): sample.value for sample in samples if sample.name == name}

    errors = values("quarry_errors_total")
    assert errors[("code", "11000"), ("name", "DuplicateKey")] == 2
    assert errors[("code", "59"), ("name", "CommandNotFound")] == 1
    ((labels, one),) = values("quarry_build_info").items()
    assert one == 1 and dict(labels)["engine"] == server.engine
    status = client.admin.command("serverStatus")
    assert abs(time.time() - values("process_start_time_seconds")[()] - status["uptime"]) < 10
    resident = values("process_resident_memory_bytes")[()] / 2**20
    assert resident == pytest.approx(status["mem"]["resident"], rel=0.3)
    assert values("quarry_connections_accepted_total")[()] >= status["connections"]["current"] > 0
    assert values("quarry_disk_size_bytes")[()] > values("quarry_disk_free_bytes")[()] > 0
    for name in (
        "process_cpu_seconds_total", "process_open_fds", "process_max_fds", "process_threads", "process_virtual_memory_bytes",
        "quarry_connections_max", "quarry_engine_memory_bytes", "quarry_engine_disk_bytes", "quarry_journal_bytes",
        "quarry_journal_syncs_total", "quarry_journal_sync_seconds_total",
    ):
        assert len(values(name)) == 1, name


def test_prometheus_client_reads_openmetrics_with_exemplars(busy):
    server, _ = busy
    content_type, text = scrape(server, "application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    exemplars = [(sample, sample.exemplar) for sample in samples if sample.exemplar]
    assert {sample.labels["operation"] for sample, _ in exemplars} >= {"insert", "find"}
    for sample, exemplar in exemplars:
        assert exemplar.value <= float(sample.labels["le"]) and exemplar.labels["opid"].isdigit()
        assert abs(float(exemplar.timestamp) - time.time()) < 300
