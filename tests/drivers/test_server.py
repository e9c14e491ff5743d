"""Cursors, sessions, administration and the wire: what a driver relies on without being asked."""

import threading
import time

import pytest
from bson import Int64
from pymongo import CursorType, MongoClient
from pymongo.errors import CursorNotFound, ExecutionTimeout, OperationFailure

from wire_tap import WireTap, compressors


def slow_scan(collection, **options):
    """A query that takes many seconds: forty expressions that backtrack, over every document, none of which fits."""
    return collection.find({"$or": [{"s": {"$regex": f"b.*a.*{i}$"}} for i in range(40)]}, **options)


@pytest.fixture(scope="module")
def big(client):
    database = client["test_big"]
    if database.things.estimated_document_count() == 0:
        for start in range(0, 60000, 5000):
            database.things.insert_many([{"_id": i, "s": "ab" * 60} for i in range(start, start + 5000)])
    yield database.things
    client.drop_database("test_big")


def test_hello_and_build_info(client):
    hello = client.admin.command("hello")
    assert hello["isWritablePrimary"] is True and hello["maxBsonObjectSize"] == 16777216
    assert hello["maxMessageSizeBytes"] == 48000000 and hello["logicalSessionTimeoutMinutes"] == 30
    assert hello["minWireVersion"] == 0 and hello["maxWireVersion"] == 25 and "setName" not in hello
    assert client.server_info()["version"].startswith("8.0.")
    assert client.admin.command("ismaster")["ismaster"] is True


@pytest.mark.parametrize(
    "command",
    ["ping", "buildinfo", "hostInfo", "serverStatus", "connectionStatus", "getCmdLineOpts", "whatsmyuri", "listCommands",
     "listDatabases", "top", "currentOp"],
)
def test_administration_answers(client, command):
    assert client.admin.command(command)["ok"] == 1.0


def test_server_status_has_the_phases(client, collection):
    collection.insert_one({})
    phases = client.admin.command("serverStatus")["quarry"]["phases"]
    assert phases


def strict(database, pipeline):
    fields = {"apiVersion": "1", "apiStrict": True}
    return database.command("aggregate", 1, pipeline=pipeline, cursor={}, **fields)


def test_unknown_things_have_their_codes(database):
    for work, code in [
        (lambda: database.command("bogus"), 59),
        (lambda: database.command("find", "things", bogus=1), 40415),
        (lambda: database.command("insert", "things", documents=[{}], bogus=1), 40415),
        (lambda: database.command("find", 7), 73),
        (lambda: database.command("find", "things", filter=7), 14),
        (lambda: database.command("insert", "things", documents=[]), 16),
        (lambda: database.command("validate", "things", full=True, background=True), 72),
        (lambda: strict(database, [{"$listLocalSessions": {}}]), 323),
    ]:
        with pytest.raises(OperationFailure) as raised:
            work()
        assert raised.value.code in (code, 9 if code in (73, 16) else code), raised.value


@pytest.mark.parametrize("option", [{"requestResumeToken": True}])
def test_what_is_not_served_yet_says_so(collection, option):
    collection.insert_one({"_id": 1})
    with pytest.raises(OperationFailure) as raised:
        collection.database.command("find", collection.name, **option)
    assert next(iter(option)) in str(raised.value)


def test_generic_fields_are_understood(collection):
    collection.insert_one({"_id": 1}, comment={"any": ["type"]})
    reply = collection.database.command("find", collection.name, comment=5, maxTimeMS=5000)
    assert len(reply["cursor"]["firstBatch"]) == 1


def test_cursors_in_batches(collection):
    collection.insert_many([{"_id": i} for i in range(250)])
    assert len(list(collection.find())) == 250
    assert len(list(collection.find(batch_size=7))) == 250
    reply = collection.database.command("find", collection.name, batchSize=0)
    assert reply["cursor"]["firstBatch"] == [] and reply["cursor"]["id"] != 0
    more = collection.database.command("getMore", reply["cursor"]["id"], collection=collection.name, batchSize=3)
    assert [document["_id"] for document in more["cursor"]["nextBatch"]] == [0, 1, 2]
    killed = collection.database.command("killCursors", collection.name, cursors=[reply["cursor"]["id"], Int64(12345)])
    assert killed["cursorsKilled"] == [reply["cursor"]["id"]] and killed["cursorsNotFound"] == [12345]
    with pytest.raises(CursorNotFound) as raised:
        collection.database.command("getMore", reply["cursor"]["id"], collection=collection.name)
    assert raised.value.code == 43
    single = collection.database.command("find", collection.name, batchSize=2, singleBatch=True)
    assert single["cursor"]["id"] == 0 and len(single["cursor"]["firstBatch"]) == 2


def test_a_cursor_over_a_dropped_collection_ends_in_an_error(collection):
    collection.insert_many([{"_id": i} for i in range(100)])
    cursor = collection.find(batch_size=10)
    next(cursor)
    collection.drop()
    collection.insert_one({"_id": "another life"})
    with pytest.raises(OperationFailure) as raised:
        list(cursor)
    assert raised.value.code in (175, 43)


def test_capped_and_tailable(database):
    capped = database.create_collection("capped", capped=True, size=100000, max=5)
    capped.insert_many([{"_id": i} for i in (9, 8, 7)])
    assert [d["_id"] for d in capped.find()] == [9, 8, 7], "natural order of a capped collection is insertion order"
    cursor = capped.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(2000)
    assert [next(cursor)["_id"] for _ in range(3)] == [9, 8, 7]
    threading.Timer(0.2, lambda: capped.insert_one({"_id": 1})).start()
    started = time.monotonic()
    assert next(cursor)["_id"] == 1
    assert time.monotonic() - started < 1.8, "the insert wakes the tailable cursor"
    cursor.close()
    capped.insert_many([{"_id": i} for i in range(100, 110)])
    assert [d["_id"] for d in capped.find()] == [105, 106, 107, 108, 109], "max keeps the newest five"
    assert capped.options()["capped"] is True


def test_sessions(client, collection):
    with client.start_session() as session:
        collection.insert_one({"_id": 1}, session=session)
        assert collection.find_one({"_id": 1}, session=session) == {"_id": 1}
    client.admin.command("endSessions", [])
    with pytest.raises(OperationFailure) as raised:
        collection.database.command("find", collection.name, txnNumber=Int64(1))
    assert raised.value.code == 50768


def test_databases_and_collections_are_listed(client, database):
    database.one.insert_one({})
    database.create_collection("two")
    assert sorted(database.list_collection_names()) == ["one", "two"]
    listed = {entry["name"]: entry for entry in database.list_collections()}
    assert listed["one"]["type"] == "collection" and listed["one"]["info"]["readOnly"] is False
    assert listed["one"]["idIndex"]["name"] == "_id_"
    assert database.list_collection_names(filter={"name": "two"}) == ["two"]
    assert database.name in client.list_database_names()
    with pytest.raises(OperationFailure) as raised:
        database.command("create", "two", capped=True, size=4096)
    assert raised.value.code == 48
    database.two.drop()
    assert database.list_collection_names() == ["one"]
    client.drop_database(database.name)
    assert database.name not in client.list_database_names()


def test_rename(client, database):
    database.one.insert_many([{"_id": i, "a": i} for i in range(10)])
    database.one.create_index("a")
    database.one.rename("two")
    assert database.list_collection_names() == ["two"]
    assert database.two.find_one({"a": 3}) == {"_id": 3, "a": 3}
    assert "a_1" in database.two.index_information()
    database.three.insert_one({})
    with pytest.raises(OperationFailure) as raised:
        database.two.rename("three")
    assert raised.value.code == 48
    database.two.rename("three", dropTarget=True)
    assert database.three.count_documents({}) == 10
    with pytest.raises(OperationFailure) as raised:
        database.nowhere.rename("x")
    assert raised.value.code == 26


def test_coll_mod_refuses_what_does_not_exist(database):
    with pytest.raises(OperationFailure) as raised:
        database.command("collMod", "nowhere")
    assert raised.value.code == 26
    database.one.insert_one({})
    assert database.command("collMod", "one")["ok"] == 1.0


def test_statistics_are_measured(database):
    database.one.insert_many([{"_id": i, "s": "x" * 100} for i in range(100)])
    database.one.create_index("s")
    stats = database.command("collStats", "one")
    assert stats["count"] == 100 and stats["ns"] == f"{database.name}.one" and stats["nindexes"] == 2
    assert stats["size"] == 100 * len("x" * 100) + 100 * (4 + 1 + 4 + 4 + 1 + 2 + 4 + 1 + 1)
    assert stats["avgObjSize"] == stats["size"] // 100
    whole = database.command("dbStats")
    assert whole["collections"] == 1 and whole["objects"] == 100 and whole["indexes"] == 2
    database.one.delete_many({"_id": {"$lt": 40}})
    assert database.command("collStats", "one")["count"] == 60


def test_max_time_ends_a_long_scan(big):
    started = time.monotonic()
    with pytest.raises(ExecutionTimeout) as raised:
        list(slow_scan(big, max_time_ms=100))
    assert raised.value.code == 50 and time.monotonic() - started < 1.1


RANGE = {"$range": [0, 1_000_000]}
# 10^12 steps over one document.
LOOP = {"$reduce": {"input": RANGE, "initialValue": 0, "in": {"$add": ["$$value", {"$reduce": {
    "input": RANGE, "initialValue": 0, "in": "$$this"}}]}}}


def test_max_time_ends_work_within_one_document(collection):
    strings = ["a" * 30 + "!"] * 400
    collection.insert_one({"_id": 1, "n": list(range(300_000)), "s": strings, "d": [{"y": 1}] * 50_000})
    objects = {"$mergeObjects": {"$map": {"input": {"$range": [0, 50_000]}, "in": {"$arrayToObject": [[{
        "k": {"$toString": "$$this"}, "v": 1}]]}}}}
    for run in (
        lambda: collection.find_one({"$expr": LOOP}, max_time_ms=100),
        lambda: collection.find_one({}, {"computed": LOOP}, max_time_ms=100),
        lambda: collection.find_one({}, {"computed": objects}, max_time_ms=100),
        lambda: collection.find_one({"n": {"$all": list(range(200_000, 300_000))}}, max_time_ms=100),
        lambda: collection.find_one({"s": {"$regex": "^(a+)+$"}}, max_time_ms=100),
        lambda: collection.aggregate([{"$match": {"$expr": LOOP}}], maxTimeMS=100),
        lambda: collection.database.command("update", collection.name, maxTimeMS=100, updates=[
            {"q": {"$expr": LOOP}, "u": {"$set": {"x": 1}}}]),
        lambda: collection.database.command("update", collection.name, maxTimeMS=100, updates=[
            {"q": {}, "u": {"$pull": {"d": {"$or": [{"x": i} for i in range(2000)]}}}}]),
    ):
        started = time.monotonic()
        with pytest.raises(OperationFailure) as raised:
            run()
        # The regular expression may meet its own bound first.
        assert raised.value.code in (50, 51156) and time.monotonic() - started < 1.5, raised.value


def test_what_is_computed_is_bounded(collection):
    collection.insert_one({"_id": 1, "a": "x" * 10_000_000, "many": [0] * 200})
    for run, code in (
        (lambda: collection.find_one({}, {"b": "$a", "c": "$a"}), 10334),
        (lambda: collection.find_one({}, {"many.b": "$a"}), 146),
        (lambda: list(collection.aggregate([{"$addFields": {"many.b": "$a"}}])), 146),
    ):
        with pytest.raises(OperationFailure) as raised:
            run()
        assert raised.value.code == code, raised.value


def test_kill_op_ends_a_long_scan(client, big):
    outcome = {}

    def scan():
        try:
            outcome["found"] = len(list(slow_scan(big, comment="to be killed")))
        except OperationFailure as error:
            outcome["code"] = error.code
        outcome["ended"] = time.monotonic()

    thread = threading.Thread(target=scan)
    thread.start()
    deadline = time.monotonic() + 5
    running = []
    while not running and time.monotonic() < deadline:
        operations = client.admin.command("currentOp")["inprog"]
        running = [op for op in operations if op.get("command", {}).get("comment") == "to be killed" and "find" in op["command"]]
    assert running, "currentOp never showed the scan"
    killed = time.monotonic()
    client.admin.command("killOp", op=running[0]["opid"])
    thread.join(30)
    assert outcome.get("code") == 11601, outcome
    assert outcome["ended"] - killed < 1.0


@pytest.mark.parametrize(("name", "number"), [("snappy", 1), ("zlib", 2), ("zstd", 3)])
def test_compression_is_on_the_wire_both_ways(server, name, number):
    with WireTap(server.port) as tap, MongoClient(f"mongodb://127.0.0.1:{tap.port}/", compressors=name) as client:
        collection = client["test_compression"][name]
        collection.drop()
        collection.insert_many([{"_id": i, "s": "compressible " * 50} for i in range(50)])
        assert len(list(collection.find())) == 50
        client.drop_database("test_compression")
        assert compressors(tap.to_server) == {number}
        assert compressors(tap.to_client) == {number}


def test_malformed_bytes_end_that_connection_and_nothing_else(server, collection):
    import socket

    for attack in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\x15\0\0\0" + b"\0" * 17, b"\x10\0\0\0" + b"\0" * 8 + b"\xdd\x07\0\0"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as raw:
            raw.sendall(attack)
            try:
                raw.shutdown(socket.SHUT_WR)
                while raw.recv(4096):
                    pass
            except OSError:
                pass
    collection.insert_one({"_id": 1})
    assert collection.count_documents({}) == 1
