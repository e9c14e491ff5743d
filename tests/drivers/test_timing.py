"""Where the time went, as pymongo asks for it: commands, profiler, latencies, and the example of docs/timing.md."""

import pathlib
import subprocess
import sys
import threading
import time

import pytest
from pymongo import MongoClient, WriteConcern
from pymongo.errors import OperationFailure

ROOT = pathlib.Path(__file__).resolve().parents[2]


def breakdown_sums(timing):
    return sum(timing["phases"].values()) + timing["unattributedMicros"]


@pytest.fixture
def timed(client):
    client.admin.command("resetOpTiming")
    yield client
    client.admin.command("setOpTimingEnabled", True)


def test_a_reply_tells_its_breakdown(database):
    reply = database.command("insert", "things", documents=[{"_id": 1}], **{"$quarry": {"timing": True}})
    timing = reply["quarry"]["timing"]
    assert breakdown_sums(timing) == pytest.approx(timing["wallMicros"], abs=0.01)
    assert timing["phases"]["journal_append"] > 0 and timing["phases"]["engine_write"] > 0
    assert timing["waits"]["groupWriters"] == timing["work"]["commits"] >= 1
    reply = database.command("find", "things", filter={"_id": 1}, **{"$quarry": {"timing": True}})
    work = reply["quarry"]["timing"]["work"]
    assert work.get("recordCacheHits") == 1 or work["engineGets"] >= 1 and work["bytesRead"] > 0
    assert "quarry" not in database.command("find", "things")


def test_op_timing_counts_what_was_run(timed, database):
    for number in range(20):
        database.things.insert_one({"_id": number})
    durable = database.things.with_options(write_concern=WriteConcern(w=1, j=True))
    durable.insert_one({"_id": "durable"})
    # Figures are taken when a reply is out; the pool may answer on another connection first.
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        insert = timed.admin.command("getOpTiming")["operations"].get("insert", {"count": 0})
        if insert["count"] >= 21:
            break
    assert insert["count"] == 21 and insert["phases"]["wall"]["count"] == 21
    assert insert["phases"]["sync_wait"]["count"] == 1
    parts = sum(figures["totalMicros"] for name, figures in insert["phases"].items() if name != "wall")
    assert parts == pytest.approx(insert["phases"]["wall"]["totalMicros"], rel=1e-6)
    assert insert["phases"]["unattributed"]["p50Micros"] < 0.05 * insert["phases"]["wall"]["p50Micros"]
    summary = timed.admin.command("getOpTiming", summary=True)["operations"]["insert"]["layers"]
    assert sum(summary[layer]["share"] for layer in ("wire", "query", "engine", "journal", "unattributed")) == pytest.approx(1)
    timing = timed.admin.command("getOpTiming", collections=True, shapes=True)
    assert any(entry["ns"] == f"{database.name}.things" for entry in timing["collections"])
    stats = timed.admin.command("getOperationTimingStats", op="insert")
    assert stats["windows"]["sinceStart"]["count"] >= 21
    timed.admin.command("resetOperationTimingStats", op="insert")
    assert "sinceReset" not in timed.admin.command("getOperationTimingStats", op="insert")["windows"]


def test_timing_can_be_switched_off(timed, database):
    assert timed.admin.command("setOpTimingEnabled", False)["was"] is True
    before = timed.admin.command("getOpTiming", window="sinceStart")["operations"]["insert"]["count"]
    database.things.insert_one({})
    after = timed.admin.command("getOpTiming", window="sinceStart")
    assert after["enabled"] is False and after["operations"]["insert"]["count"] == before


def test_timing_commands_belong_to_admin(database):
    for command in ("getOpTiming", "resetOpTiming", "setOpTimingEnabled", "getOperationTimingStats"):
        with pytest.raises(OperationFailure) as error:
            database.command(command)
        assert error.value.code == 13


def test_the_profiler_stores_what_was_run(database):
    assert database.command("profile", 2)["was"] == 0
    database.things.insert_many([{"a": number} for number in range(10)])
    list(database.things.find({"a": 3}))
    database.command("profile", 0)
    query = database["system.profile"].find_one({"op": "query", "ns": f"{database.name}.things"})
    assert query["planSummary"] == "COLLSCAN" and query["docsExamined"] == 10 and query["nreturned"] == 1
    assert query["command"]["filter"] == {"a": 3} and query["responseLength"] > 0
    assert sum(query["phases"].values()) + query["unattributedMicros"] == pytest.approx(query["micros"], abs=0.01)
    assert database["system.profile"].find_one({"op": "insert"})["ninserted"] == 10
    assert database["system.profile"].options()["capped"] is True


def test_explain_tells_times_of_reads_and_writes(database):
    database.things.insert_many([{"_id": number, "a": [number, 7], "n": 0} for number in range(300)])

    def stats(**command):
        return database.command("explain", command, verbosity="executionStats")["executionStats"]

    read = stats(find="things", filter={"a": {"$gt": 100}})
    assert read["executionTimeMicros"] > 0 and read["phases"]["engine_scan"] > 0
    assert sum(read["phases"].values()) <= read["executionTimeMicros"] + 1000
    update = {"q": {"a": {"$gt": 100}}, "u": {"$set": {"a.$": 8}, "$max": {"n": 0}}, "multi": True}
    write = stats(update="things", updates=[update])
    assert write["executionStages"]["stage"] == "UPDATE"
    assert (write["executionStages"]["nMatched"], write["executionStages"]["nWouldModify"]) == (199, 199)
    assert write["phases"]["splice"] > 0
    nothing = stats(update="things", updates=[{"q": {}, "u": {"$set": {"n": 0}}, "multi": True}])
    assert (nothing["executionStages"]["nMatched"], nothing["executionStages"]["nWouldModify"]) == (300, 0)
    delete = stats(delete="things", deletes=[{"q": {"_id": {"$lt": 5}}, "limit": 0}])
    assert delete["executionStages"]["nWouldDelete"] == 5
    assert database.things.count_documents({"a": 7}) == 300
    with pytest.raises(OperationFailure) as error:
        stats(update="things", updates=[{"q": {}, "u": {"$inc": {"a": 1}}, "multi": True}])
    assert error.value.code == 14


def test_latencies_have_mongodbs_shape(client, database):
    for _ in range(5):
        database.things.insert_one({})
    latencies = client.admin.command("serverStatus")["opLatencies"]
    assert latencies["writes"]["ops"] >= 5 and latencies["writes"]["latency"] > 0
    stats = next(database.things.aggregate([{"$collStats": {"latencyStats": {"histograms": True}}}]))["latencyStats"]
    assert stats["transactions"]["ops"] == 0
    assert stats["writes"]["ops"] == 5
    assert sum(bucket["count"] for bucket in stats["writes"]["histogram"]) == 5
    assert client.admin.command("top")["totals"][f"{database.name}.things"]["insert"]["count"] == 5


def test_latencies_of_transactions_count_the_committed_and_the_aborted(client, database):
    shown = lambda: client.admin.command("serverStatus", opLatencies={"histograms": True})["opLatencies"]["transactions"]
    database.things.insert_one({})
    before = shown()
    with client.start_session() as session:
        with session.start_transaction():
            database.things.insert_one({}, session=session)
            assert shown()["ops"] == before["ops"], "it is open"
        session.start_transaction()
        database.things.insert_one({}, session=session)
        session.abort_transaction()
    after = shown()
    assert after["ops"] == before["ops"] + 2 and after["latency"] > before["latency"]
    assert sum(bucket["count"] for bucket in after["histogram"]) == after["ops"]


def test_a_running_operation_shows_its_phase(server, database):
    database.things.insert_many([{"s": "ab" * 60} for _ in range(5000)])
    seen = threading.Event()

    def scan():
        slow = {"$or": [{"s": {"$regex": f"b.*a.*{i}$"}} for i in range(40)]}
        with MongoClient(server.uri) as other:
            while not seen.is_set():
                list(other[database.name].things.find(slow))

    worker = threading.Thread(target=scan)
    worker.start()
    deadline = time.monotonic() + 20
    phases = set()
    try:
        while time.monotonic() < deadline and not phases & {"match", "engine_scan"}:
            for entry in database.client.admin.aggregate([{"$currentOp": {}}]):
                if entry.get("ns") == f"{database.name}.things":
                    phases.add(entry["quarry"]["phase"])
                    assert breakdown_sums(entry["quarry"]) == pytest.approx(entry["quarry"]["wallMicros"], abs=0.01)
    finally:
        seen.set()
        worker.join()
    assert phases & {"match", "engine_scan"}, phases


def test_the_example_finds_its_four_causes(server):
    ran = subprocess.run(
        [sys.executable, str(ROOT / "examples/timing.py"), server.uri], capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    for title in ("fsync:", "lock:", "plan:", "client:"):
        assert title in ran.stdout
    assert "examined 400000 documents to return 400" in ran.stdout
    assert "examined 400 documents to return 400" in ran.stdout
