"""`fsync` with `lock: true`: writes wait, reads go on, and what `cp -a` takes meanwhile is the data."""

import os
import shutil
import subprocess
import threading
import time

import pytest
from pymongo import MongoClient, WriteConcern
from pymongo.errors import ExecutionTimeout, OperationFailure
from quarry_process import Quarry
from test_backup import CURSOR, PATIENCE_SECONDS, wait_until
from validation import validate_everything
from wire_client import WireClient


def lock(client):
    return client.admin.command("fsync", lock=True)


def unlock(client):
    return client.admin.command("fsyncUnlock")


def is_locked(client):
    return client.admin.command("currentOp").get("fsyncLock", False)


def stats_of_files(directory):
    """Of each file of engine and journal its length and the times of its last changes."""
    found = {}
    for engine_or_journal in ("rocksdb", "mdbx", "journal"):
        for path in (directory / engine_or_journal).glob("*"):
            # What RocksDB writes about itself, and where readers of libmdbx register, is no data.
            if path.name.startswith("LOG") or path.suffix in (".lck", ".lock"):
                continue
            status = path.stat()
            found[str(path)] = (status.st_size, status.st_mtime_ns, status.st_ino)
    return found


class Waiting(threading.Thread):
    """A call on a thread of its own, with what came of it."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self.call = call
        self.outcome = None
        self.start()

    def run(self):
        try:
            self.outcome = self.call()
        except Exception as failure:  # the outcome
            self.outcome = failure

    def result(self):
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive()
        return self.outcome


def waiting_operations(client, name):
    return [found for found in client.admin.command("currentOp")["inprog"] if name in found.get("command", {})]


@pytest.fixture
def locked(durable):
    with MongoClient(durable.uri) as client:
        client.db.things.insert_many([{"_id": number, "v": os.urandom(500)} for number in range(3000)])
        client.db.things.create_index("v")
        reply = lock(client)
        assert reply["info"] == "now locked against writes, use db.fsyncUnlock() to unlock"
        assert reply["lockCount"] == 1
        yield durable, client
        if durable.running():
            while is_locked(client):
                unlock(client)


def test_writes_wait_and_reads_go_on(locked):
    _, client = locked
    assert is_locked(client)
    calls = {
        "insert": lambda: client.db.things.insert_one({"_id": "new"}),
        "update": lambda: client.db.things.with_options(write_concern=WriteConcern("majority")).update_one({"_id": 1}, {"$set": {"v": b"changed"}}),
        "create": lambda: client.db.create_collection("more"),
    }
    writes = {name: Waiting(call) for name, call in calls.items()}
    for name in calls:
        wait_until(lambda name=name: waiting_operations(client, name))
    assert client.db.things.count_documents({}) == 3000
    assert client.db.things.find_one({"_id": 1})["v"] != b"changed"
    assert unlock(client) == {"info": "fsyncUnlock completed", "lockCount": 0, "ok": 1.0}
    for write in writes.values():
        assert not isinstance(write.result(), Exception), write.outcome
    assert client.db.things.count_documents({}) == 3001
    assert client.db.things.find_one({"_id": 1})["v"] == b"changed"
    assert not is_locked(client)
    with pytest.raises(OperationFailure) as refused:
        unlock(client)
    assert (refused.value.code, refused.value.details["errmsg"]) == (20, "fsyncUnlock called when not locked")


def test_locks_are_counted_whoever_takes_them(locked):
    durable, client = locked
    with MongoClient(durable.uri) as other:
        assert lock(other)["lockCount"] == 2
        # All is durable already: a flush waits for nobody.
        assert other.admin.command("fsync")["numFiles"] == 1
        with pytest.raises(OperationFailure) as refused:
            other.admin.command("fsync", lock=True, fsyncLockAcquisitionTimeoutMillis=0)
        assert refused.value.code == 24
    # Whoever took it has gone, and the lock has not.
    assert unlock(client)["lockCount"] == 1
    write = Waiting(lambda: client.db.things.insert_one({"_id": "new"}))
    wait_until(lambda: waiting_operations(client, "insert"))
    assert unlock(client)["lockCount"] == 0
    assert not isinstance(write.result(), Exception)


def test_a_write_that_waits_can_be_ended(locked):
    durable, client = locked
    with pytest.raises(ExecutionTimeout):
        client.db.command({"insert": "things", "documents": [{"_id": "late"}], "maxTimeMS": 100})
    write = Waiting(lambda: client.db.things.insert_one({"_id": "killed"}))
    wait_until(lambda: waiting_operations(client, "insert"))
    client.admin.command("killOp", op=waiting_operations(client, "insert")[0]["opid"])
    assert write.result().code == 11601
    with WireClient(durable.port) as connection:
        connection.send({"insert": "things", "documents": [{"_id": "gone"}]}, "db")
        wait_until(lambda: waiting_operations(client, "insert"))
    wait_until(lambda: not waiting_operations(client, "insert"))
    unlock(client)
    assert client.db.things.count_documents({"_id": {"$in": ["late", "killed", "gone"]}}) == 0


def test_files_stand_still_and_a_copy_of_them_is_the_data(durable, tmp_path):
    with MongoClient(durable.uri) as client:
        # So much that the engine has compactions to do, and the journal segments to free and to make.
        for round_number in range(40):
            client.db.things.insert_many(
                [{"_id": round_number * 5000 + number, "v": os.urandom(200)} for number in range(5000)]
            )
        client.db.things.delete_many({"_id": {"$lt": 20_000}})
        client.other.gone.insert_many([{"v": os.urandom(1000)} for _ in range(5000)])
        client.drop_database("other")
        lock(client)
        before = stats_of_files(durable.directory)
        write = Waiting(lambda: client.db.things.insert_one({"_id": "later"}))
        subprocess.run(["cp", "-a", durable.directory, tmp_path / "copy"], check=True)
        # Several times what passes between two looks of the threads that work on files.
        begun = time.monotonic()
        while time.monotonic() < begun + 3:
            assert client.db.things.count_documents({}, limit=10) == 10
        assert stats_of_files(durable.directory) == before
        unlock(client)
        assert not isinstance(write.result(), Exception)
    copy = Quarry(tmp_path / "copy", durable.engine).start()
    try:
        validate_everything(copy.port)
        with MongoClient(copy.uri) as client:
            assert client.db.things.count_documents({}) == 180_000
            assert client.db.things.find_one({"_id": "later"}) is None
            # Nothing was left to be replayed.
            assert client.admin.command("serverStatus")["quarry"]["journal"]["replayedRecords"] == 0
    finally:
        copy.kill()
        shutil.rmtree(tmp_path / "copy")


def test_a_stop_ends_the_lock(locked):
    durable, client = locked
    write = Waiting(lambda: client.db.things.insert_one({"_id": "waits"}))
    wait_until(lambda: waiting_operations(client, "insert"))
    begun = time.monotonic()
    durable.process.terminate()
    assert durable.process.wait(30) == 0
    assert time.monotonic() < begun + 8
    assert isinstance(write.result(), Exception)
    durable.start()
    with MongoClient(durable.uri) as again:
        assert not is_locked(again)
        assert again.db.things.count_documents({}) == 3000
    assert durable.stop() == 0


def test_a_lock_and_a_backup_cursor_keep_each_other_out(durable):
    with MongoClient(durable.uri) as client, MongoClient(durable.uri) as other:
        lock(client)
        with pytest.raises(OperationFailure) as refused:
            other.admin.command(CURSOR)
        assert refused.value.code == 50887
        unlock(client)
        cursor = other.admin.command(CURSOR)["cursor"]
        with pytest.raises(OperationFailure) as refused:
            lock(client)
        assert refused.value.code == 50884
        other.admin.command("killCursors", "$cmd.aggregate", cursors=[cursor["id"]])
        lock(client)
        unlock(client)
