"""Sessions: writes that are sent again, and transactions, also over a server that is killed between the two."""

import hashlib
import json
import os
import random
import threading
import time
import urllib.request
import uuid

import pymongo
import pytest
from bson import Binary, Int64
from conftest import ENGINES
from pymongo import MongoClient, monitoring
from pymongo.errors import OperationFailure
from quarry_process import Quarry
from stream_follower import Follower, beginning, tokens_again
from wire_client import CommandFailed, WireClient

KILLS = int(os.environ.get("QUARRY_SESSION_KILLS", "3"))
PATIENCE_SECONDS = 60
CLIENTS = 4


class Session:
    """A session of one client, which connects again and sends again until it is answered."""

    def __init__(self, port):
        self.port = port
        self.lsid = {"id": Binary(uuid.uuid4().bytes, 4)}
        self.number = 0
        self.connection = None

    def fields(self, **more):
        return {"lsid": self.lsid, "txnNumber": Int64(self.number), **more}

    def send(self, command, database="test"):
        """The reply, from a first try or a later one."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                if self.connection is None:
                    self.connection = WireClient(self.port())
                return self.connection.run(command, database)
            except OSError:
                assert time.monotonic() < end, "the server does not come back"
                self.close()
                time.sleep(0.01)  # between two attempts to connect

    def write(self, command):
        self.number += 1
        return self.send({**command, **self.fields()})

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def increment(collection, key):
    return {"update": collection, "updates": [{"q": {"_id": key}, "u": {"$inc": {"n": 1}}, "upsert": True}]}


def test_a_write_that_is_sent_again_after_a_kill_is_answered_again(durable):
    with WireClient(durable.port) as connection:
        connection.run({"insert": "c", "documents": [{"_id": 1, "n": 0}]})
    session = Session(lambda: durable.port)
    commands = [
        {"insert": "c", "documents": [{"_id": n} for n in range(1000, 3500)]},
        increment("c", 1),
        increment("c", 2),
        {"findAndModify": "c", "query": {"_id": 1}, "update": {"$inc": {"n": 1}}, "new": True},
        {"delete": "c", "deletes": [{"q": {"_id": 1000}, "limit": 1}]},
    ]
    for command in commands:
        first = session.write(command)
        durable.kill()
        durable.start()
        session.close()
        again = session.send({**command, **session.fields()})
        assert again.pop("retriedStmtIds", None) or again.pop("retriedStmtId", None) == 0
        assert {name: again[name] for name in first if name[0] != "$"} == {n: v for n, v in first.items() if n[0] != "$"}
        with WireClient(durable.port) as connection:
            state = connection.run({"aggregate": "c", "pipeline": [{"$count": "n"}], "cursor": {}})
    assert state["cursor"]["firstBatch"] == [{"n": 2501}]
    session.close()


COUNTED = ("alone", "left", "right")


def add(collection, number, session=None):
    collection.update_one({"_id": number}, {"$inc": {"n": 1}}, upsert=True, session=session)


def turn_over(turned, number, turn):
    """Documents come, change in each way, and partly go: six changes in five writes."""
    ids = [f"{number}/{turn}/{place}" for place in range(3)]
    turned.insert_many([{"_id": one, "list": [1]} for one in ids])
    turned.replace_one({"_id": ids[0]}, {"replaced": turn})
    turned.find_one_and_update({"_id": ids[1]}, {"$push": {"list": 2}, "$set": {"turn": turn}})
    turned.delete_one({"_id": ids[2]})


class Retries(monitoring.CommandListener):
    """Counts the writes and commits that the driver has sent again, by their sessions and txnNumbers."""

    def __init__(self):
        self.last = None
        self.count = 0

    def started(self, event):
        number = event.command.get("txnNumber")
        is_in_transaction = "autocommit" in event.command and event.command_name != "commitTransaction"
        if number is None or is_in_transaction:
            return
        write = (event.command["lsid"]["id"], number)
        self.count += write == self.last
        self.last = write

    def succeeded(self, event):
        pass

    def failed(self, event):
        pass


class Writer(threading.Thread):
    """A client of the driver that writes until it is told to stop: it sends again by itself what was not answered. It tells each
    round of its writes that is done to those who wait for that."""

    def __init__(self, uri, number, stop, progress):
        super().__init__(daemon=True)
        self.uri, self.number, self.stop, self.progress = uri, number, stop, progress
        self.alone = self.both = self.turns = 0
        self.retries = Retries()
        self.failure = None

    def run(self):
        try:
            with MongoClient(self.uri, replicaSet="rs0", heartbeatFrequencyMS=500, event_listeners=[self.retries]) as client:
                while not self.stop.is_set():
                    self.work(client)
                    with self.progress:
                        self.progress.notify_all()
        except Exception as failure:  # the main thread tells it
            self.failure = failure

    def work(self, client):
        # Within a timeout of its own the driver sends a write as often as it takes, and not twice at most.
        with pymongo.timeout(PATIENCE_SECONDS):
            add(client.test.alone, self.number)
            self.alone += 1
        with client.start_session() as session:
            session.with_transaction(self.add_to_both)
        self.both += 1
        if self.alone % 4 == 0:
            with pymongo.timeout(PATIENCE_SECONDS):
                turn_over(client.test.turned, self.number, self.turns)
            self.turns += 1

    def add_to_both(self, session):
        for name in ("left", "right"):
            add(session.client.test[name], self.number, session)


def wait_until_written(writers, progress, count):
    """Waits until the writers have done so many rounds more, all together."""
    wanted = sum(writer.alone for writer in writers) + count
    is_over = lambda: any(writer.failure for writer in writers) or sum(writer.alone for writer in writers) >= wanted
    with progress:
        assert progress.wait_for(is_over, PATIENCE_SECONDS), "the writers do not go on"


SET = {"$set": {"n": 1}}


@pytest.mark.parametrize(
    ("first", "again", "code"),
    [
        ({"update": SET}, {"update": SET, "new": True}, 40611),
        ({"update": SET, "new": True}, {"update": SET}, 40612),
        ({"update": SET}, {"remove": True}, 40606),
        ({"remove": True}, {"update": SET}, 40606),
        ({"update": SET, "upsert": True, "query": {"_id": 2}}, {"update": SET, "query": {"_id": 2}}, 40608),
    ],
)
def test_a_find_and_modify_that_is_sent_again_in_another_shape_is_refused(durable, first, again, code):
    session = Session(lambda: durable.port)
    session.send({"insert": "things", "documents": [{"_id": 1, "n": 0}]})
    command = {"findAndModify": "things", "query": {"_id": 1}}
    answered = session.write({**command, **first})
    # What it was is known over a kill as well.
    session.close()
    durable.kill()
    durable.start()
    with pytest.raises(CommandFailed) as refused:
        session.send({**command, **again, **session.fields()})
    assert refused.value.code == code
    repeated = session.send({**command, **first, **session.fields()})
    assert repeated["value"] == answered["value"] and repeated["retriedStmtId"] == 0
    session.close()


def test_every_write_happens_once_over_kills(durable):
    """Clients of the driver add to counters, alone and in transactions over two collections, and turn documents over; another
    follows their changes. The server is killed under them. The driver writes again by itself in a set alone."""
    # What a stream goes back to must still be there, however far it lags behind: each life takes two segments at most.
    durable.kill()
    durable.arguments = ["--replSet", "rs0", "--journalRetentionMB", str(1000 + 150 * KILLS)]
    durable.keep_port()
    durable.start()
    stop, progress = threading.Event(), threading.Condition()
    writers = [Writer(durable.uri, number, stop, progress) for number in range(CLIENTS)]
    # The collections are there before transactions, which then cannot meet each other making them.
    with WireClient(durable.port) as connection:
        for collection in (*COUNTED, "turned"):
            connection.run({"create": collection, "changeStreamPreAndPostImages": {"enabled": True}})
    begun = beginning(durable.port)
    follower = Follower(lambda: durable.port, begun, seed=7)
    for thread in (*writers, follower):
        thread.start()
    chance = random.Random(7)
    for kill in range(KILLS):
        follower.wait_until_resumed(kill + 1)
        wait_until_written(writers, progress, chance.randrange(CLIENTS, 20 * CLIENTS))
        durable.kill()
        durable.start()
    wait_until_written(writers, progress, CLIENTS)
    stop.set()
    for writer in writers:
        writer.join(2 * PATIENCE_SECONDS)
        assert not writer.is_alive() and writer.failure is None, writer.failure
    # Else the kills say nothing of what is sent again.
    assert sum(writer.retries.count for writer in writers) > 0
    counts = [(writer.alone, writer.both, writer.turns) for writer in writers]
    with WireClient(durable.port) as connection:
        connection.run({"insert": "markers", "documents": [{"_id": "end"}]})
        for place, collection in ((0, "alone"), (1, "left"), (1, "right")):
            found = connection.run({"find": collection, "sort": {"_id": 1}})["cursor"]["firstBatch"]
            wanted = [{"_id": n, "n": counts[n][place]} for n in range(CLIENTS) if counts[n][place]]
            assert found == wanted, collection
    check_followed(durable, follower, begun, [sum(count) for count in zip(*counts)])


def check_followed(quarry, follower, begun, counts):
    """The stream has told every change once, and again the same when it is read in one go."""
    alone, both, turns = counts
    follower.wait_until_over()
    assert follower.resumed > KILLS
    model = follower.model
    with MongoClient(quarry.uri) as client:
        names = (*COUNTED, "turned")
        found = {(name, document["_id"]): document for name in names for document in client.test[name].find()}
    assert model.documents == found
    assert len(model.tokens) == alone + 2 * both + 6 * turns
    assert list(model.transactions.values()) == [2] * both
    assert tokens_again(quarry.port, begun) == model.tokens


@pytest.fixture(scope="module", params=["standalone", "set"])
def driver(request, tmp_path_factory):
    arguments = ["--replSet", "rs0"] if request.param == "set" else []
    quarry = Quarry(tmp_path_factory.mktemp(request.param) / "data", ENGINES[0], arguments)
    quarry.start()
    with MongoClient(quarry.uri, serverSelectionTimeoutMS=5000) as client:
        yield client
    assert quarry.stop() == 0, quarry.tail()


def test_a_driver_runs_transactions(driver):
    driver.drop_database("test_driver")
    things, others = driver.test_driver.things, driver.test_driver.others
    things.insert_one({"_id": 1, "n": 0})
    with driver.start_session() as session:
        def move(session):
            things.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session)
            others.insert_one({"_id": 1}, session=session)
            assert others.find_one({}, session=session) == {"_id": 1}
            assert others.find_one({}) is None
            return "moved"

        assert session.with_transaction(move) == "moved"
        assert things.find_one() == {"_id": 1, "n": 1} and others.find_one() == {"_id": 1}
        session.start_transaction()
        things.delete_many({}, session=session)
        assert list(things.aggregate([{"$count": "n"}], session=session)) == []
        session.abort_transaction()
        assert things.find_one() == {"_id": 1, "n": 1}
        session.start_transaction()
        things.update_one({"_id": 1}, {"$set": {"n": 5}}, session=session)
        with driver.start_session() as rival, pytest.raises(OperationFailure) as conflict:
            rival.start_transaction()
            things.update_one({"_id": 1}, {"$set": {"n": 6}}, session=rival)
        assert conflict.value.code == 112 and conflict.value.has_error_label("TransientTransactionError")
        idle = list(driver.admin.aggregate([{"$currentOp": {}}, {"$match": {"type": "idleSession"}}]))
        parameters = [entry["transaction"]["parameters"] for entry in idle]
        assert [(one["autocommit"], one["readConcern"]["level"]) for one in parameters] == [(False, "local")]
        assert driver.admin.command("serverStatus")["transactions"]["currentOpen"] == 1
        session.commit_transaction()
    assert things.find_one()["n"] == 5
    listed = driver.config["system.sessions"].aggregate([{"$listSessions": {"allUsers": True}}])
    assert all(set(entry["_id"]) == {"id", "uid"} for entry in listed)


def test_sessions_are_a_collection_to_read(driver):
    sessions = driver.config["system.sessions"]
    with driver.start_session() as session:
        driver.test_driver.things.find_one({}, session=session)
        mine = {"_id.id": session.session_id["id"]}
        found = sessions.find_one(mine)
        assert set(found) == {"_id", "lastUse"} and set(found["_id"]) == {"id", "uid"}
        assert list(sessions.aggregate([{"$match": mine}, {"$count": "n"}])) == [{"n": 1}]
    for write in (lambda: sessions.insert_one({}), lambda: sessions.delete_many({}), sessions.drop):
        with pytest.raises(OperationFailure) as refused:
            write()
        assert refused.value.code == 20


def test_transactions_are_killed_by_patterns(driver):
    things = driver.test_driver.patterns
    things.drop()
    things.insert_one({"_id": 1})
    nobody = bytes(32)
    for pattern, ends in [
        (lambda lsid: {"lsid": {"id": Binary(bytes(16), 4), "uid": nobody}}, False),
        (lambda lsid: {"uid": nobody}, False),
        (lambda lsid: {"lsid": lsid}, True),
        (lambda lsid: {"users": [{"user": "a", "db": "b"}]}, False),
        (lambda lsid: {"roles": [{"role": "root", "db": "admin"}]}, False),
        (lambda lsid: {"lsid": lsid, "users": [{"user": "a", "db": "b"}]}, False),
        (lambda lsid: {"lsid": lsid, "users": [], "roles": []}, True),
        (lambda lsid: {}, True),
    ]:
        with driver.start_session() as session:
            session.start_transaction()
            things.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session)
            driver.admin.command({"killAllSessionsByPattern": [pattern(session.session_id)]})
            if ends:
                with pytest.raises(OperationFailure) as ended:
                    session.commit_transaction()
                assert ended.value.code == 251
            else:
                session.commit_transaction()
    assert things.find_one() == {"_id": 1, "n": 5}
    for pattern in ({"users": ["a"]}, {"roles": [{"role": "root"}]}, {"users": 1}, {"sessions": []}):
        with pytest.raises(OperationFailure) as refused:
            driver.admin.command({"killAllSessionsByPattern": [pattern]})
        assert refused.value.code in (14, 40415), pattern


def test_sessions_are_named_as_they_are_listed(driver):
    """`$listSessions` shows the digest of the user beside the id, and so it may come back."""
    things = driver.test_driver.named
    things.drop()
    things.insert_one({"_id": 1})
    with driver.start_session() as session:
        session.start_transaction()
        things.update_one({"_id": 1}, {"$set": {"a": 1}}, session=session)
        listed = [one["_id"] for one in driver.config["system.sessions"].aggregate([{"$listSessions": {"allUsers": True}}])]
        (own,) = [one for one in listed if one["id"] == session.session_id["id"]]
        assert own == lsid_of(session)
        driver.admin.command("refreshSessions", [own])
        driver.admin.command("killSessions", [{**own, "uid": bytes(32)}])
        things.update_one({"_id": 1}, {"$set": {"a": 2}}, session=session)
        driver.admin.command("killSessions", [own])
        with pytest.raises(OperationFailure) as ended:
            session.commit_transaction()
        assert ended.value.code == 251
        driver.admin.command("endSessions", [own])
        left = driver.config["system.sessions"].find_one({"_id.id": own["id"]})
        assert left is None
        with pytest.raises(OperationFailure) as refused:
            driver.admin.command("killSessions", [{**own, "uid": "text"}])
        assert refused.value.code == 14


NOBODY = hashlib.sha256(b"").digest()
TIMES = {"timeOpenMicros", "timeActiveMicros", "timeInactiveMicros"}


def lsid_of(session):
    return {**session.session_id, "uid": NOBODY}


def wait_for_operation(client, **wanted):
    """The entry of `$currentOp` that has all of that; None in place of a value is any value."""
    match = {field: {"$exists": True} if value is None else value for field, value in wanted.items()}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        found = list(client.admin.aggregate([{"$currentOp": {}}, {"$match": match}]))
        if found:
            return found[0]
        assert time.monotonic() < deadline, match


def check_transaction(shown, number):
    assert shown["parameters"] == {"txnNumber": number, "autocommit": False, "readConcern": {"level": "local"}}
    assert set(shown) >= TIMES | {"startWallClockTime", "expiryTime", "stagedBytes"} and "readTimestamp" not in shown
    assert shown["timeOpenMicros"] == pytest.approx(shown["timeActiveMicros"] + shown["timeInactiveMicros"], abs=2)
    assert shown["timeActiveMicros"] > 0


def test_who_waits_for_a_transaction_is_shown_its_session(driver):
    """The operation that took the lock has ended, so that its number says nothing."""
    things = driver.test_driver.waited
    things.drop()
    things.insert_one({"_id": 1})
    is_set = "setName" in driver.admin.command("hello")
    with driver.start_session() as session:
        session.start_transaction()
        things.update_one({"_id": 1}, {"$set": {"a": 1}}, session=session)
        waiter = threading.Thread(target=lambda: things.update_one({"_id": 1}, {"$set": {"a": 2}}, comment="waits"))
        waiter.start()
        waiting = wait_for_operation(driver, **{"command.comment": "waits", "quarry.waits.lockHolder": None})
        number = waiting["quarry"]["waits"]["lockHolder"]["txnNumber"]
        assert waiting["quarry"]["waits"]["lockHolder"] == {"lsid": lsid_of(session), "txnNumber": number, "op": "transaction"}
        assert set(waiting["lsid"]) == {"id", "uid"} and waiting["lsid"]["uid"] == NOBODY
        # A retryable write has its number alone, and only a set's clients write retryably.
        assert waiting.get("transaction") == ({"parameters": {"txnNumber": waiting["command"]["txnNumber"]}} if is_set else None)
        idle = wait_for_operation(driver, type="idleSession")
        assert idle["lsid"] == lsid_of(session)
        check_transaction(idle["transaction"], number)
        session.commit_transaction()
        waiter.join(PATIENCE_SECONDS)
    assert things.find_one() == {"_id": 1, "a": 2}


# Some millions of steps, so that it runs until it is killed.
LONG = {"$sum": {"$map": {"input": {"$range": [0, 100_000]}, "in": {"$sum": {"$range": ["$_id", 10_000]}}}}}


def test_the_transaction_of_a_running_operation_is_shown(driver):
    things = driver.test_driver.running
    things.drop()
    things.insert_one({"_id": 1})
    ended = []

    def run(session):
        with pytest.raises(OperationFailure) as killed:
            list(things.aggregate([{"$project": {"long": LONG}}], session=session, comment="runs"))
        ended.append(killed.value.code)

    with driver.start_session() as session:
        session.start_transaction()
        things.update_one({"_id": 1}, {"$set": {"a": 1}}, session=session)
        thread = threading.Thread(target=run, args=(session,))
        thread.start()
        # It is noted as running a moment before it has its session.
        running = wait_for_operation(driver, **{"command.comment": "runs", "transaction": None})
        assert running["active"] is True and running["lsid"] == lsid_of(session)
        check_transaction(running["transaction"], running["command"]["txnNumber"])
        later = wait_for_operation(driver, **{"command.comment": "runs", "transaction": None})["transaction"]
        assert later["timeActiveMicros"] > running["transaction"]["timeActiveMicros"]
        assert later["timeInactiveMicros"] == pytest.approx(running["transaction"]["timeInactiveMicros"], abs=2)
        driver.admin.command("killOp", op=running["opid"])
        thread.join(PATIENCE_SECONDS)
        assert ended == [11601]
        session.abort_transaction()


def test_slow_operations_name_their_sessions(durable):
    with MongoClient(durable.uri) as client, client.start_session() as session:
        client.test.things.insert_one({"_id": 1})
        client.admin.command("setParameter", 1, slowOpThresholdMs=-1)
        client.test.command("profile", 2)
        session.start_transaction()
        client.test.things.find_one({}, session=session, comment="noted")
        session.abort_transaction()
        client.test.command("profile", 0)
        client.admin.command("setParameter", 1, slowOpThresholdMs=100)
        profiled = client.test["system.profile"].find_one({"command.comment": "noted"})
        lsid = lsid_of(session)
    assert profiled["lsid"] == lsid and profiled["txnNumber"] == profiled["command"]["txnNumber"]
    lines = [json.loads(line)["attr"] for line in durable.log.read_text().splitlines() if '"Slow query"' in line]
    lines = [line for line in lines if line["command"].get("comment") == "noted"]
    assert len(lines) == 1 and lines[0]["txnNumber"] == profiled["txnNumber"]
    assert set(lines[0]["lsid"]) == {"id", "uid"} and lines[0]["lsid"] != lines[0]["command"]["lsid"]


def test_pinned_snapshots_are_counted(driver):
    if "setName" not in driver.admin.command("hello"):
        pytest.skip("only a set reads at one time outside of transactions")
    things = driver.test_driver.pinned
    things.drop()
    things.insert_many([{} for _ in range(5)])

    def pinned():
        return driver.admin.command("serverStatus")["transactions"]["quarry"]

    with driver.start_session(snapshot=True) as session:
        cursor = things.find({}, session=session, batch_size=2)
        next(cursor)
        status = pinned()
        assert status["pinnedSnapshots"] >= 1 and status["oldestPinnedMicros"] > 0
        idle = list(driver.admin.aggregate([{"$currentOp": {"idleCursors": True}}, {"$match": {"lsid.id": session.session_id["id"]}}]))
        assert len(idle) == 1 and idle[0]["cursor"]["pinnedSnapshotMicros"] > 0 and idle[0]["lsid"] == lsid_of(session)
        # None is kept for others any more, but the cursor reads on in its own.
        driver.admin.command({"setParameter": 1, "minSnapshotHistoryWindowInSeconds": 0})
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while pinned()["pinnedSnapshots"] != 1:
                assert time.monotonic() < deadline
            things.delete_many({})
            with pytest.raises(OperationFailure) as gone:
                things.find_one({}, session=session)
            assert gone.value.code == 239
            assert len(list(cursor)) == 4
            assert pinned()["pinnedSnapshots"] == 0
        finally:
            driver.admin.command({"setParameter": 1, "minSnapshotHistoryWindowInSeconds": 300})


def test_what_pins_too_much_space_is_ended(driver):
    things = driver.test_driver.pinning
    things.drop()
    things.insert_many([{"_id": n} for n in range(5)])
    is_set = "setName" in driver.admin.command("hello")

    def transactions():
        return driver.admin.command("serverStatus")["transactions"]

    given_up = transactions()["quarry"]["givenUpSnapshots"]
    with driver.start_session() as session, driver.start_session(snapshot=is_set) as reader:
        session.start_transaction()
        things.find_one({}, session=session)
        cursor = things.find({}, session=reader, batch_size=2)
        next(cursor)
        for text in "abcde":
            things.update_one({"_id": 1}, {"$set": {"text": text * 500_000}})
        assert transactions()["quarry"]["pinnedBytesAtMost"] > 1 << 20
        driver.admin.command({"setParameter": 1, "snapshotPinnedMaxMB": 1})
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while transactions()["currentOpen"] != 0 or (is_set and transactions()["quarry"]["givenUpSnapshots"] == given_up):
                assert time.monotonic() < deadline, transactions()
            with pytest.raises(OperationFailure) as ended:
                things.find_one({}, session=session)
            assert ended.value.code == 251 and ended.value.has_error_label("TransientTransactionError")
            if is_set:
                with pytest.raises(OperationFailure) as old:
                    list(cursor)
                assert old.value.code == 239
            else:
                assert len(list(cursor)) == 4
        finally:
            assert driver.admin.command({"setParameter": 1, "snapshotPinnedMaxMB": 10240})["was"] == 1
    with pytest.raises(OperationFailure) as refused:
        driver.admin.command({"setParameter": 1, "snapshotPinnedMaxMB": -1})
    assert refused.value.code == 2


def figures(quarry):
    """What a monitor is told, by name."""
    with urllib.request.urlopen(f"{quarry.admin_url}metrics", timeout=PATIENCE_SECONDS) as answer:
        lines = answer.read().decode().splitlines()
    lines = [line.split() for line in lines if line.startswith(("quarry_transactions_", "quarry_snapshots_"))]
    return {name: float(value) for name, value in lines}


def test_monitors_are_told_what_transactions_and_snapshots_hold(tmp_path):
    quarry = Quarry(tmp_path / "data", ENGINES[0], ["--replSet", "rs0", "--adminPort", "0"]).start()
    with MongoClient(quarry.uri) as client, client.start_session() as session, client.start_session(snapshot=True) as snapshot:
        client.test.things.insert_one({"_id": 1})
        none = {f"quarry_{name}": 0 for name in ("transactions_open", "transactions_staged_bytes", "snapshots_pinned")}
        assert figures(quarry).items() >= none.items()
        session.start_transaction()
        client.test.things.insert_one({"_id": 2}, session=session)
        client.test.things.find_one({}, session=snapshot)
        held = figures(quarry)
        assert held["quarry_transactions_open"] == held["quarry_snapshots_pinned"] == held["quarry_transactions_started_total"] == 1
        assert held["quarry_transactions_staged_bytes"] > 0
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not all(figures(quarry)[f"quarry_{name}_oldest_seconds"] >= 1 for name in ("transactions", "snapshots_pinned")):
            assert time.monotonic() < deadline, figures(quarry)
        session.commit_transaction()
        session.start_transaction()
        client.test.things.insert_one({"_id": 3}, session=session)
        session.abort_transaction()
        ended = figures(quarry)
        assert [ended[f"quarry_transactions_{name}_total"] for name in ("started", "committed", "aborted")] == [2, 1, 1]
        assert ended["quarry_transactions_open"] == ended["quarry_transactions_staged_bytes"] == 0
    assert quarry.stop() == 0, quarry.tail()


def test_views_are_read_in_transactions_and_the_servers_own_are_not(driver):
    database = driver.test_driver
    database.things_seen.drop()
    database.view.drop()
    database.things_seen.insert_one({"_id": 1})
    database.create_collection("view", viewOn="things_seen", pipeline=[{"$match": {"_id": {"$gt": 0}}}])

    def refused(work):
        with driver.start_session() as session:
            session.start_transaction()
            with pytest.raises(OperationFailure) as error:
                work(session)
            return error.value.code

    with driver.start_session() as session:
        session.start_transaction()
        database.things_seen.insert_one({"_id": 2}, session=session)
        assert [one["_id"] for one in database.view.find({}, session=session)] == [1, 2]
        assert list(database.view.aggregate([{"$count": "n"}], session=session)) == [{"n": 2}]
        assert [one["_id"] for one in database.view.find({})] == [1]
        session.commit_transaction()
    assert refused(lambda session: database.create_collection("another", viewOn="things_seen", pipeline=[], session=session, check_exists=False)) == 263
    assert refused(lambda session: driver.config["system.sessions"].find_one({}, session=session)) == 263
    assert refused(lambda session: list(driver.config["system.sessions"].aggregate([], session=session))) == 263
    assert refused(lambda session: driver.local["oplog.rs"].find_one({}, session=session)) == 263


def test_windows_and_timeouts_are_given_at_the_start(tmp_path):
    given = {"localLogicalSessionTimeoutMinutes": 7, "minSnapshotHistoryWindowInSeconds": 11}
    arguments = [word for name, value in given.items() for word in ("--setParameter", f"{name}={value}")]
    quarry = Quarry(tmp_path / "data", ENGINES[0], arguments)
    quarry.start()
    with MongoClient(quarry.uri) as client:
        shown = client.admin.command({"getParameter": "*"})
        assert {name: shown[name] for name in given} == given
        assert client.admin.command("hello")["logicalSessionTimeoutMinutes"] == 7
        assert client.admin.command("startSession")["timeoutMinutes"] == 7
        for name, code in [("localLogicalSessionTimeoutMinutes", 20), ("minSnapshotHistoryWindowInSeconds", 2)]:
            with pytest.raises(OperationFailure) as refused:
                client.admin.command({"setParameter": 1, name: -1})
            assert refused.value.code == code
    assert quarry.stop() == 0, quarry.tail()
    for name in given:
        wrong = Quarry(tmp_path / "other", ENGINES[0], ["--setParameter", f"{name}=-1"])
        with pytest.raises(RuntimeError, match=name):
            wrong.start()


def test_retries_are_counted(driver):
    def counts():
        status = driver.admin.command("serverStatus")["transactions"]
        return [status[name] for name in ("retriedCommandsCount", "retriedStatementsCount", "transactionsCollectionWriteCount")]

    before = counts()
    command = {"insert": "retried", "documents": [{} for _ in range(3)], "lsid": {"id": Binary(uuid.uuid4().bytes, 4)}}
    host, port = driver.address
    with WireClient(port) as connection:
        for _ in range(2):
            connection.run({**command, "txnNumber": Int64(1)}, "test_driver")
    assert [now - then for now, then in zip(counts(), before)] == [1, 3, 1]


def test_an_old_transaction_ends(driver):
    things = driver.test_driver.old
    things.drop()
    things.insert_one({"_id": 1})
    driver.admin.command({"setParameter": 1, "transactionLifetimeLimitSeconds": 1})
    try:
        with driver.start_session() as session:
            session.start_transaction()
            things.update_one({"_id": 1}, {"$set": {"a": 1}}, session=session)
            # Waits for the lock of the transaction, which nobody ends but the server.
            assert things.update_one({"_id": 1}, {"$set": {"a": 2}}).modified_count == 1
            with pytest.raises(OperationFailure) as ended:
                things.find_one({}, session=session)
            assert ended.value.code == 251
    finally:
        driver.admin.command({"setParameter": 1, "transactionLifetimeLimitSeconds": 60})


def test_a_transaction_waits_for_a_definition_as_long_as_it_is_told(driver):
    things = driver.test_driver.defined
    things.drop()
    things.insert_one({"_id": 1})

    def refused(session):
        """The error of a transaction that reads, and how long it waited; none if it was served."""
        begun = time.monotonic()
        session.start_transaction()
        try:
            things.find_one({}, session=session)
        except OperationFailure as error:
            return error, time.monotonic() - begun
        finally:
            session.abort_transaction()
        return None, 0

    parameter = "maxTransactionLockRequestTimeoutMillis"
    with driver.start_session() as holder, driver.start_session() as other:
        holder.start_transaction()
        things.find_one({}, session=holder)
        dropping = threading.Thread(target=things.drop)
        dropping.start()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (error := refused(other)[0]) is None:
            assert time.monotonic() < deadline, "the drop does not wait for the reader"
        assert error.code == 24 and error.has_error_label("TransientTransactionError")
        driver.admin.command({"setParameter": 1, parameter: 500})
        try:
            error, waited = refused(other)
            assert error.code == 24 and waited >= 0.5
        finally:
            assert driver.admin.command({"setParameter": 1, parameter: 5})["was"] == 500
        assert dropping.is_alive()
        holder.abort_transaction()
        dropping.join(PATIENCE_SECONDS)
    assert things.name not in things.database.list_collection_names()


def test_a_cursor_of_a_session_lives_as_long_as_that(driver):
    things = driver.test_driver.lasting
    things.drop()
    things.insert_many([{"_id": number} for number in range(5)])

    def timed_out():
        return driver.admin.command("serverStatus")["metrics"]["cursor"]["timedOut"]

    def wait_until_timed_out(count):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while timed_out() < count:
            assert time.monotonic() < deadline

    begun = timed_out()
    # Drivers give each cursor a session. These two are older than the one that has none.
    cursor = things.find({}, batch_size=2)
    next(cursor)
    with things.watch() as stream, WireClient(driver.address[1]) as connection:
        alone = connection.run({"find": "lasting", "batchSize": 2}, "test_driver")["cursor"]["id"]
        driver.admin.command({"setParameter": 1, "cursorTimeoutMillis": 100})
        try:
            wait_until_timed_out(begun + 1)
            with pytest.raises(CommandFailed) as gone:
                connection.run({"getMore": Int64(alone), "collection": "lasting"}, "test_driver")
            assert gone.value.code == 43 and timed_out() == begun + 1
            assert len(list(cursor)) == 4
            things.insert_one({"_id": 5})
            assert stream.next()["documentKey"] == {"_id": 5}
            driver.admin.command({"setParameter": 1, "enableTimeoutOfInactiveSessionCursors": True})
            wait_until_timed_out(begun + 2)
        finally:
            driver.admin.command({"setParameter": 1, "enableTimeoutOfInactiveSessionCursors": False})
            driver.admin.command({"setParameter": 1, "cursorTimeoutMillis": 600_000})
