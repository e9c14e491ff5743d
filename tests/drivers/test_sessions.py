"""Sessions: writes that are sent again, and transactions, also over a server that is killed between the two."""

import os
import random
import threading
import time
import uuid

import pytest
from bson import Binary, Int64
from conftest import ENGINES
from pymongo import MongoClient
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

    def transact(self, commands):
        """Whether the transaction is committed; false if it is to be run again."""
        self.number += 1
        first = {"startTransaction": True}
        try:
            for command in commands:
                self.send({**command, **self.fields(autocommit=False, **first)})
                first = {}
            self.send({"commitTransaction": 1, **self.fields(autocommit=False)}, "admin")
            return True
        except CommandFailed as failed:
            assert "TransientTransactionError" in failed.reply.get("errorLabels", []), failed
            return False

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


def turn_over(session, number, turn):
    """Documents come, change in each way, and partly go: six changes in five writes."""
    ids = [f"{number}/{turn}/{place}" for place in range(3)]
    session.write({"insert": "turned", "documents": [{"_id": one, "list": [1]} for one in ids]})
    session.write({"update": "turned", "updates": [{"q": {"_id": ids[0]}, "u": {"replaced": turn}}]})
    update = {"$push": {"list": 2}, "$set": {"turn": turn}}
    session.write({"findAndModify": "turned", "query": {"_id": ids[1]}, "update": update})
    session.write({"delete": "turned", "deletes": [{"q": {"_id": ids[2]}, "limit": 1}]})


def test_every_write_happens_once_over_kills(durable):
    """Clients add to counters, alone and in transactions over two collections, and turn documents over; another follows their
    changes. The server is killed under them."""
    # What a stream goes back to must still be there, however far it lags behind: each life takes two segments at most.
    durable.kill()
    durable.arguments = ["--journalRetentionMB", str(1000 + 150 * KILLS)]
    durable.start()
    port = [durable.port]
    stop = threading.Event()
    counts, failures = {}, []

    def work(number):
        session = Session(lambda: port[0])
        alone = both = turns = 0
        try:
            while not stop.is_set():
                session.write(increment("alone", number))
                alone += 1
                if session.transact([increment("left", number), increment("right", number)]):
                    both += 1
                if alone % 4 == 0:
                    turn_over(session, number, turns)
                    turns += 1
            counts[number] = alone, both, turns
        except Exception as failure:  # the main thread tells it
            failures.append(failure)
        finally:
            session.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(CLIENTS)]
    # The collections are there before transactions, which then cannot meet each other making them.
    with WireClient(durable.port) as connection:
        for collection in (*COUNTED, "turned"):
            connection.run({"create": collection, "changeStreamPreAndPostImages": {"enabled": True}})
    begun = beginning(durable.port)
    follower = Follower(lambda: port[0], begun, seed=7)
    for thread in (*threads, follower):
        thread.start()
    chance = random.Random(7)
    for kill in range(KILLS):
        follower.wait_until_resumed(kill + 1)
        stop.wait(chance.uniform(0.05, 0.4))
        durable.kill()
        durable.start()
        port[0] = durable.port
    stop.wait(0.2)
    stop.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert not failures, failures
    assert len(counts) == CLIENTS
    with WireClient(durable.port) as connection:
        connection.run({"insert": "markers", "documents": [{"_id": "end"}]})
        for place, collection in ((0, "alone"), (1, "left"), (1, "right")):
            found = connection.run({"find": collection, "sort": {"_id": 1}})["cursor"]["firstBatch"]
            wanted = [{"_id": n, "n": counts[n][place]} for n in range(CLIENTS) if counts[n][place]]
            assert found == wanted, collection
    check_followed(durable, follower, begun, [sum(count) for count in zip(*counts.values())])


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
    assert things.find_one() == {"_id": 1, "n": 2}
    with pytest.raises(OperationFailure) as refused:
        driver.admin.command({"killAllSessionsByPattern": [{"users": [{"user": "a", "db": "b"}]}]})
    assert refused.value.code == 238


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
