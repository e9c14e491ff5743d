"""A set of one: what clients that insist on a replica set find, and the fail points of test mode."""

import threading
import time
import uuid

import pytest
from bson import Binary, Int64, Timestamp
from conftest import ENGINES
from pymongo import DeleteMany, InsertOne, MongoClient, ReadPreference, UpdateOne, WriteConcern
from pymongo.errors import AutoReconnect, ExecutionTimeout, OperationFailure, ServerSelectionTimeoutError, WriteConcernError
from pymongo.read_concern import ReadConcern
from quarry_process import Quarry
from wire_client import CommandFailed, WireClient

SET = ["--replSet", "rs0", "--setParameter", "enableTestCommands=1"]
LONG_MS = 60_000


@pytest.fixture(scope="module", params=ENGINES[:1])
def member(request, tmp_path_factory):
    quarry = Quarry(tmp_path_factory.mktemp("set") / "data", request.param, SET)
    quarry.start()
    yield quarry
    assert quarry.stop() == 0, quarry.tail()


@pytest.fixture(scope="module")
def set_client(member):
    # After an error of a server that stops, the driver waits for the next look at it.
    with MongoClient(member.uri, replicaSet="rs0", serverSelectionTimeoutMS=5000, heartbeatFrequencyMS=500) as connected:
        yield connected


@pytest.fixture
def things(set_client):
    set_client.test_set.drop_collection("things")
    yield set_client.test_set.things
    set_client.drop_database("test_set")


def test_a_client_finds_the_set_and_its_primary(member, set_client):
    set_client.admin.command("ping")
    assert set_client.primary == ("127.0.0.1", member.port)
    assert set_client.nodes == {("127.0.0.1", member.port)}
    hello = set_client.admin.command("hello")
    address = f"127.0.0.1:{member.port}"
    assert hello["setName"] == "rs0" and hello["hosts"] == [address]
    assert hello["me"] == hello["primary"] == address
    assert hello["isWritablePrimary"] is True and hello["secondary"] is False
    assert hello["lastWrite"]["majorityOpTime"]["ts"] <= hello["lastWrite"]["opTime"]["ts"]
    assert set_client.admin.command("isMaster")["ismaster"] is True
    with MongoClient(member.uri, directConnection=True) as direct:
        assert direct.test.command("ping", read_preference=ReadPreference.SECONDARY_PREFERRED)["ok"] == 1
    with MongoClient(member.uri, replicaSet="another", serverSelectionTimeoutMS=200) as stranger:
        with pytest.raises(ServerSelectionTimeoutError):
            stranger.admin.command("ping")


def test_a_bulk_write_that_lost_its_answer_is_done_once(member, set_client, things):
    models = [
        InsertOne({"_id": 1, "n": 0}, namespace="test_set.things"),
        InsertOne({"_id": 2}, namespace="test_set.things"),
        UpdateOne({"_id": 1}, {"$inc": {"n": 1}}, namespace="test_set.things"),
    ]
    lost = {"failCommands": ["bulkWrite"], "closeConnection": True}
    set_client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=lost)
    result = set_client.bulk_write(models)
    assert (result.inserted_count, result.modified_count) == (2, 1)
    with WireClient(member.port) as connection:
        bulk = {
            "bulkWrite": 1, "nsInfo": [{"ns": "test_set.things"}],
            "ops": [{"update": 0, "filter": {"_id": 1}, "updateMods": {"$inc": {"n": 1}}}],
            "lsid": {"id": Binary(uuid.uuid4().bytes, 4)}, "txnNumber": Int64(1),
        }
        first, again = connection.run(bulk, "admin"), connection.run(bulk, "admin")
        assert again["retriedStmtIds"] == [0]
        assert first["nModified"] == again["nModified"] == 1
        assert first["cursor"]["firstBatch"] == again["cursor"]["firstBatch"]
    assert things.find_one({"_id": 1}) == {"_id": 1, "n": 2}
    with set_client.start_session() as session, session.start_transaction():
        set_client.bulk_write([DeleteMany({}, namespace="test_set.things")], session=session)
        assert things.count_documents({}) == 2
    assert things.count_documents({}) == 0
    with WireClient(member.port) as connection, pytest.raises(CommandFailed) as failure:
        operations = [{"delete": 0, "filter": {}, "multi": True}]
        connection.run({"bulkWrite": 1, "ops": operations, "nsInfo": [{"ns": "local.oplog.rs"}]}, "admin")
    assert failure.value.code == 20


def test_every_reply_tells_the_time(member, things):
    with WireClient(member.port) as connection:
        times = []
        for number in range(3):
            reply = connection.run({"insert": "things", "documents": [{"_id": number}]}, "test_set")
            assert reply["$clusterTime"]["signature"] == {"hash": b"\0" * 20, "keyId": 0}
            assert reply["operationTime"] <= reply["$clusterTime"]["clusterTime"]
            times.append(reply["operationTime"])
        assert sorted(set(times)) == times
        with pytest.raises(CommandFailed) as raised:
            connection.run({"bogus": 1})
        assert raised.value.reply["operationTime"] >= times[-1]
        # A time that a client has seen elsewhere is followed; one far ahead of the clock is not.
        later = Timestamp(times[-1].time + 100, 7)
        reply = connection.run({"ping": 1, "$clusterTime": {"clusterTime": later}})
        assert reply["$clusterTime"]["clusterTime"] == later
        written = connection.run({"insert": "things", "documents": [{}]}, "test_set")["operationTime"]
        assert written > later
        with pytest.raises(CommandFailed) as raised:
            connection.run({"ping": 1, "$clusterTime": {"clusterTime": Timestamp(2**32 - 1, 1)}})
        assert raised.value.code == 205


def test_a_causally_consistent_session_reads_what_it_wrote(set_client, things):
    with set_client.start_session(causal_consistency=True) as session:
        things.insert_one({"_id": 1}, session=session)
        assert session.operation_time is not None
        # Writes and definitions come after what the session has seen, too.
        after = {"afterClusterTime": session.operation_time}
        for command in ({"update": "things", "updates": [{"q": {}, "u": {"$set": {"a": 1}}}]}, {"create": "made"}, {"drop": "made"}):
            things.database.command(command, readConcern=after)
        things.update_one({}, {"$unset": {"a": 1}}, session=session)
        with pytest.raises(OperationFailure) as raised:
            things.database.command({"drop": "things"}, readConcern={"level": "majority"})
        assert raised.value.code == 72
        for level in ("local", "majority"):
            read = things.with_options(read_concern=ReadConcern(level))
            assert read.find_one({}, session=session) == {"_id": 1}
    assert things.with_options(read_concern=ReadConcern("linearizable")).find_one() == {"_id": 1}
    with pytest.raises(OperationFailure) as raised:
        things.database.command("find", "things", readConcern={"afterClusterTime": Timestamp(2**32 - 1, 1)})
    assert raised.value.code == 72


def test_a_snapshot_session_reads_one_moment(set_client, things):
    documents = [{"_id": number, "n": number % 3} for number in range(300)]
    things.insert_many(documents)
    with set_client.start_session(snapshot=True) as session:
        cursor = things.find({}, batch_size=10, session=session)
        found = [next(cursor)]
        things.delete_many({"n": 0})
        things.update_many({}, {"$set": {"n": 9}})
        assert found + list(cursor) == documents
        assert things.distinct("n", session=session) == [0, 1, 2]
        assert list(things.aggregate([{"$match": {"n": 0}}, {"$count": "n"}], session=session)) == [{"n": 100}]
    assert things.distinct("n") == [9]


def test_a_snapshot_is_asked_for_again_by_its_time(member, things):
    things.insert_many([{"_id": number} for number in range(10)])

    def run(command, at=None):
        concern = {"level": "snapshot"} if at is None else {"level": "snapshot", "atClusterTime": at}
        return connection.run({**command, "readConcern": concern}, things.database.name)

    with WireClient(member.port) as connection:
        first = run({"find": "things", "batchSize": 2})["cursor"]
        time = first["atClusterTime"]
        things.delete_many({})
        more = connection.run({"getMore": first["id"], "collection": "things"}, things.database.name)["cursor"]
        assert more["atClusterTime"] == time
        assert [document["_id"] for document in first["firstBatch"] + more["nextBatch"]] == list(range(10))
        again = run({"distinct": "things", "key": "_id"}, time)
        assert (again["values"], again["atClusterTime"]) == (list(range(10)), time)
        now = run({"aggregate": "things", "pipeline": [], "cursor": {}})["cursor"]
        assert now["firstBatch"] == [] and now["atClusterTime"] > time
        find = {"find": "things"}
        stage = {"aggregate": "things", "pipeline": [{"$collStats": {"count": {}}}], "cursor": {}}
        refused = [(239, find, Timestamp(1, 1)), (72, find, Timestamp(2**32 - 1, 1)), (72, stage, None), (72, {"count": "things"}, None)]
        for code, command, at in refused:
            with pytest.raises(CommandFailed) as raised:
                run(command, at)
            assert raised.value.code == code, command


def test_a_transaction_reads_the_state_of_a_time(member, things):
    things.insert_many([{"_id": number, "n": 0} for number in range(3)])
    lsid = {"id": Binary(uuid.uuid4().bytes, 4)}
    name = things.database.name
    with WireClient(member.port) as connection:
        snapshot = connection.run({"find": "things", "readConcern": {"level": "snapshot"}}, name)["cursor"]
        time = snapshot["atClusterTime"]
        things.update_one({"_id": 1}, {"$set": {"n": 1}})

        def run(number, command, at=None):
            first = {} if at is None else {"startTransaction": True, "readConcern": at}
            fields = {"lsid": lsid, "txnNumber": Int64(number), "autocommit": False, **first}
            return connection.run({**command, **fields}, "admin" if "commitTransaction" in command else name)

        at = {"level": "snapshot", "atClusterTime": time}
        found = run(1, {"find": "things"}, at)["cursor"]["firstBatch"]
        assert [document["n"] for document in found] == [0, 0, 0]
        run(1, {"update": "things", "updates": [{"q": {"_id": 2}, "u": {"$inc": {"n": 5}}}]})
        run(1, {"commitTransaction": 1})
        with pytest.raises(CommandFailed) as raised:
            run(2, {"update": "things", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 5}}}]}, at)
        assert raised.value.code == 112
        for code, concern in [
            (239, {"level": "snapshot", "atClusterTime": Timestamp(1, 1)}),
            (72, {"level": "snapshot", "atClusterTime": Timestamp(2**32 - 1, 1)}),
            (72, {"level": "local", "atClusterTime": time}),
        ]:
            with pytest.raises(CommandFailed) as raised:
                run(3 + code, {"find": "things"}, concern)
            assert raised.value.code == code, concern
    assert [document["n"] for document in things.find({}, sort={"_id": 1})] == [0, 1, 5]


def test_the_defaults_of_concerns_are_set_and_kept(tmp_path):
    quarry = Quarry(tmp_path / "data", ENGINES[0], SET).start()

    def defaults(connection):
        shown = connection.run({"getDefaultRWConcern": 1}, "admin")
        return shown["defaultWriteConcern"], shown["defaultWriteConcernSource"], shown["defaultReadConcern"]["level"]

    with WireClient(quarry.port) as connection:
        assert defaults(connection) == ({"w": "majority", "wtimeout": 0}, "implicit", "local")
        for code, concern in [(2, {"w": 0}), (100, {"w": 2}), (20, {})]:
            with pytest.raises(CommandFailed) as raised:
                connection.run({"setDefaultRWConcern": 1, "defaultWriteConcern": concern}, "admin")
            assert raised.value.code == code, concern
        with pytest.raises(CommandFailed) as raised:
            connection.run({"setDefaultRWConcern": 1, "defaultReadConcern": {"level": "snapshot"}}, "admin")
        assert raised.value.code == 2
        connection.run({"setDefaultRWConcern": 1, "defaultReadConcern": {"level": "majority"}}, "admin")
        connection.run({"setDefaultRWConcern": 1, "defaultWriteConcern": {"w": 1}}, "admin")
    quarry.kill()
    quarry.start()
    with WireClient(quarry.port) as connection:
        assert defaults(connection) == ({"w": 1}, "global", "majority")
        syncs = connection.run({"serverStatus": 1}, "admin")["quarry"]["journal"]["syncs"]
        connection.run({"insert": "things", "documents": [{}], "writeConcern": {"w": "majority"}})
        assert connection.run({"serverStatus": 1}, "admin")["quarry"]["journal"]["syncs"] > syncs
        # A transaction that names no read concern has the set's.
        fields = {"lsid": {"id": Binary(uuid.uuid4().bytes, 4)}, "txnNumber": Int64(1), "autocommit": False}
        connection.run({"find": "things", **fields, "startTransaction": True})
        pipeline = [{"$currentOp": {}}, {"$match": {"type": "idleSession"}}]
        idle = connection.run({"aggregate": 1, "pipeline": pipeline, "cursor": {}}, "admin")["cursor"]["firstBatch"]
        assert [one["transaction"]["parameters"]["readConcern"] for one in idle] == [{"level": "majority"}]
        with pytest.raises(CommandFailed) as raised:
            connection.run({"create": "made", **fields})
        assert raised.value.code == 72
    assert quarry.stop() == 0, quarry.tail()


def test_a_retryable_write_fails_before_or_behind_its_commit(set_client, things):
    point = {"configureFailPoint": "onPrimaryTransactionalWrite", "mode": {"times": 1}}
    set_client.admin.command({**point, "data": {"failBeforeCommitExceptionCode": 8, "closeConnection": False}})
    with pytest.raises(OperationFailure) as raised:
        things.insert_one({"_id": 1})
    assert raised.value.code == 8 and things.count_documents({}) == 0
    # The driver loses its connection, and sends the write again, which is done already.
    set_client.admin.command(point)
    things.insert_one({"_id": 2})
    assert things.count_documents({}) == 1


def test_the_log_tells_how_far_back_it_reaches(set_client, things):
    log = set_client.local["oplog.rs"]
    first, last = (next(log.find().sort("$natural", order).limit(1)) for order in (1, -1))
    with things.watch() as stream:
        things.insert_one({"_id": 1})
        time = stream.next()["clusterTime"]
    newest = next(log.find().sort("$natural", -1).limit(1))
    assert first["ts"] <= last["ts"] < newest["ts"] and newest["ts"] >= time
    # A stream can begin there, and not before.
    set_client.watch(start_at_operation_time=first["ts"]).close()
    repl = set_client.admin.command("serverStatus")["repl"]
    hello = set_client.admin.command("hello")
    for field in ("setName", "hosts", "me", "primary", "isWritablePrimary", "topologyVersion", "electionId"):
        assert repl[field] == hello[field]


def test_a_waiting_hello_wakes_with_a_new_configuration(member):
    with WireClient(member.port) as waiting, WireClient(member.port) as other:
        version = other.run({"hello": 1}, "admin")["topologyVersion"]
        waiting.send({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": LONG_MS}, "admin")
        config = other.run({"replSetGetConfig": 1}, "admin")["config"]
        config["version"] += 1
        config["members"][0]["tags"] = {"dc": "east"}
        other.run({"replSetReconfig": config}, "admin")
        begun = time.monotonic()
        woken = waiting.receive()
        assert time.monotonic() - begun < LONG_MS / 2000
        assert woken["topologyVersion"]["counter"] == version["counter"] + 1
        assert woken["tags"] == {"dc": "east"} and woken["setVersion"] == config["version"]
        # The host was sent back as it was shown: each client is still told the address that it came to.
        assert woken["me"] == f"127.0.0.1:{member.port}"
        with pytest.raises(CommandFailed) as raised:
            other.run({"replSetReconfig": config}, "admin")
        assert raised.value.code == 103


def test_a_waiting_hello_learns_that_the_member_stops(tmp_path):
    quarry = Quarry(tmp_path / "data", "memory", SET).start()
    with WireClient(quarry.port) as waiting:
        version = waiting.run({"hello": 1}, "admin")["topologyVersion"]
        waiting.send({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": LONG_MS}, "admin")
        # Answered on another connection, the wait has been sent before.
        with WireClient(quarry.port) as other:
            other.run({"ping": 1})
        stopping = threading.Thread(target=quarry.stop)
        stopping.start()
        told = waiting.receive()
        assert (told["ok"], told["code"]) == (0, 91) and "topologyVersion" in told
        stopping.join()


def test_the_set_is_administered(member, set_client):
    status = set_client.admin.command("replSetGetStatus")
    assert status["set"] == "rs0" and status["myState"] == 1
    assert [(one["stateStr"], one["self"]) for one in status["members"]] == [("PRIMARY", True)]
    config = set_client.admin.command("replSetGetConfig")["config"]
    assert config["_id"] == "rs0" and config["members"][0]["host"] == f"127.0.0.1:{member.port}"
    for command, code in [({"replSetInitiate": {}}, 23), ({"replSetStepDown": 60}, 262)]:
        with pytest.raises(OperationFailure) as raised:
            set_client.admin.command(command)
        assert raised.value.code == code


def test_a_standalone_has_no_set(client):
    for name in ["replSetGetStatus", "replSetGetConfig", "replSetInitiate", "replSetReconfig", "replSetStepDown"]:
        with pytest.raises(OperationFailure) as raised:
            client.admin.command(name, {})
        assert raised.value.code == 76
    assert "$clusterTime" not in client.admin.command("ping")


def test_write_concerns_that_one_member_cannot_satisfy_are_told_beside_the_write(things):
    for concern, code in [({"w": 2}, 100), ({"w": "nobody"}, 79)]:
        with pytest.raises(WriteConcernError) as raised:
            things.with_options(write_concern=WriteConcern(**concern)).insert_one({"_id": str(concern)})
        assert raised.value.code == code
        assert things.find_one({"_id": str(concern)}) is not None
    things.with_options(write_concern=WriteConcern(w="majority")).insert_one({})


def test_a_command_that_fails_tells_of_its_write_concern_too(member, things):
    things.insert_one({"_id": 1})
    rename = {"renameCollection": "test_set.things", "to": "test_set.things"}
    with WireClient(member.port) as connection:
        for concern, code in [({"w": 2, "wtimeout": 1}, 100), ({"w": "nobody"}, 79), ({"w": "majority"}, None)]:
            connection.send({**rename, "writeConcern": concern}, "admin")
            reply = connection.receive()
            assert reply["ok"] == 0 and reply["code"] in (20, 48), reply
            assert reply.get("writeConcernError", {}).get("code") == code, reply


def test_the_log_has_a_first_and_a_last_entry(set_client, things):
    written = set_client.test_set.command("insert", "things", documents=[{}])["operationTime"]
    log = set_client.local["oplog.rs"]
    first = next(log.find().sort("$natural", 1).limit(1))
    last = next(log.find().sort("$natural", -1).limit(1))
    assert first["ts"] < last["ts"] and last["ts"] >= written
    assert [entry["ts"] for entry in log.aggregate([{"$match": {"ts": last["ts"]}}])] == [last["ts"]]
    assert "oplog.rs" in set_client.local.list_collection_names()
    with pytest.raises(OperationFailure):
        log.insert_one({})


def test_what_the_set_knows_by_itself_is_not_dropped_or_renamed(set_client, things):
    things.insert_one({})
    full, admin = f"{things.database.name}.{things.name}", set_client.admin
    for work in (
        lambda: admin.command("renameCollection", full, to="config.system.sessions"),
        lambda: admin.command("renameCollection", full, to="local.oplog.rs"),
        lambda: admin.command("renameCollection", full, to="local.system.replset", dropTarget=True),
        lambda: admin.command("renameCollection", "local.system.replset", to="local.other"),
        lambda: set_client.local.command("drop", "system.replset"),
        lambda: set_client.local.command("dropDatabase"),
    ):
        with pytest.raises(OperationFailure) as raised:
            work()
        assert raised.value.code == 20
    assert things.count_documents({}) == 1


def test_the_configuration_outlives_the_process(durable):
    durable.stop()
    durable.arguments = ["--replSet", "rs0"]
    durable.start()
    with WireClient(durable.port) as connection:
        config = connection.run({"replSetGetConfig": 1}, "admin")["config"]
        config["version"] = 7
        config["members"][0]["tags"] = {"rack": "a"}
        connection.run({"replSetReconfig": config}, "admin")
        before = connection.run({"hello": 1}, "admin")
    durable.kill()
    durable.start()
    with WireClient(durable.port) as connection:
        after = connection.run({"hello": 1}, "admin")
        assert (after["setVersion"], after["tags"]) == (7, {"rack": "a"})
        assert after["electionId"] == before["electionId"]
        assert after["topologyVersion"]["processId"] != before["topologyVersion"]["processId"]
        # The clock of the set goes on where it was.
        assert after["operationTime"] >= before["operationTime"]
    durable.stop()
    durable.arguments = ["--replSet", "rs1"]
    with pytest.raises(RuntimeError, match="`rs0`"):
        durable.start()
    durable.arguments = []
    durable.start()


def test_fail_points_are_for_test_mode_alone(client, set_client):
    point = {"configureFailPoint": "failCommand", "mode": "off"}
    with pytest.raises(OperationFailure) as raised:
        client.admin.command(point)
    assert raised.value.code == 59
    assert client.admin.command("getParameter", "*")["enableTestCommands"] is False
    assert set_client.admin.command("getParameter", "*")["enableTestCommands"] is True
    assert "configureFailPoint" in set_client.admin.command("listCommands")["commands"]
    assert "configureFailPoint" not in client.admin.command("listCommands")["commands"]


@pytest.fixture
def fail(set_client):
    """Sets `failCommand` for the length of a test."""

    def configure(mode, **data):
        return set_client.admin.command("configureFailPoint", "failCommand", mode=mode, data=data)["count"]

    yield configure
    set_client.admin.command("configureFailPoint", "failCommand", mode="off")


def test_a_driver_meets_the_faults_that_it_asked_for(member, fail, things):
    things.insert_one({"_id": 1})
    before = fail({"times": 1}, failCommands=["find"], closeConnection=True)
    assert things.find_one() == {"_id": 1}, "the driver reads again"
    # Written with everything off, the counter says how often a fail point was met.
    assert fail("off") == before + 1
    with MongoClient(member.uri, replicaSet="rs0", retryReads=False, appName="stubborn") as stubborn:
        fail({"times": 1}, failCommands=["find"], closeConnection=True, appName="stubborn")
        assert things.find_one() == {"_id": 1}, "another application is not meant"
        with pytest.raises(AutoReconnect):
            stubborn.test_set.things.find_one()
        fail({"times": 1}, failCommands=["find"], errorCode=8, errorLabels=["Strange"])
        with pytest.raises(OperationFailure) as raised:
            stubborn.test_set.things.find_one()
        assert raised.value.code == 8 and raised.value.has_error_label("Strange")
    fail("alwaysOn", failCommands=["insert"], writeConcernError={"code": 64, "errmsg": "waited"}, namespace="test_set.things")
    with pytest.raises(WriteConcernError) as raised:
        things.insert_one({"_id": 2})
    assert raised.value.code == 64 and not raised.value.has_error_label("RetryableWriteError")
    fail("alwaysOn", failCommands=["insert"], writeConcernError={"code": 91, "errmsg": "stopping"}, namespace="test_set.things")
    with pytest.raises(WriteConcernError) as raised:
        things.insert_one({"_id": 3})
    assert raised.value.code == 91 and raised.value.has_error_label("RetryableWriteError")
    fail("off")
    assert things.count_documents({}) == 3


def test_what_a_fail_point_refuses_has_not_touched_its_transaction(member, things, fail):
    fields = {"lsid": {"id": Binary(uuid.uuid4().bytes, 4)}, "txnNumber": Int64(1), "autocommit": False}
    with WireClient(member.port) as connection:
        for number, begin in enumerate(({"startTransaction": True}, {})):
            insert = {"insert": "things", "documents": [{"_id": number}], **fields, **begin}
            fail({"times": 1}, failCommands=["insert"], errorCode=462)
            with pytest.raises(CommandFailed) as raised:
                connection.run(insert, things.database.name)
            assert raised.value.code == 462
            assert connection.run(insert, things.database.name)["n"] == 1
        connection.run({"commitTransaction": 1, **fields}, "admin")
    assert things.count_documents({}) == 2


def test_a_getmore_has_what_its_cursor_has_left_of_its_time(set_client, things):
    things.insert_many([{"_id": number} for number in range(10)])
    limited, free = things.find(batch_size=2).max_time_ms(60_000), things.find(batch_size=2)
    next(limited), next(free)
    point = "maxTimeAlwaysTimeOut"
    set_client.admin.command("configureFailPoint", point, mode="alwaysOn")
    try:
        assert len(list(free)) == 9
        with pytest.raises(ExecutionTimeout):
            list(limited)
    finally:
        set_client.admin.command("configureFailPoint", point, mode="off")


def test_a_cursor_fails_after_it_was_taken(set_client, things):
    things.insert_many([{"_id": number} for number in range(10)])
    cursor = things.find(batch_size=2)
    next(cursor)
    point = "failGetMoreAfterCursorCheckout"
    set_client.admin.command("configureFailPoint", point, mode={"times": 1}, data={"errorCode": 8})
    with pytest.raises(OperationFailure) as raised:
        list(cursor)
    assert raised.value.code == 8


def test_a_set_does_not_reindex(things):
    things.insert_one({})
    with pytest.raises(OperationFailure, match="only allowed on a standalone") as refused:
        things.database.command("reIndex", things.name)
    assert refused.value.code == 20
