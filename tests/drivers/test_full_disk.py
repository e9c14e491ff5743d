"""A disk that another process fills up: writes are refused with MongoDB's code, reads go on, and when there is room again
so do writes, without a restart; nothing that was acknowledged is missing, whatever happens next.

The disk is a tmpfs, which only root may mount; for anybody else the test says so and checks nothing.
"""

import contextlib
import json
import os
import subprocess
import threading
import time
import urllib.request

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from conftest import ENGINES
from quarry_process import Quarry, binary

DISK_BYTES = 768 << 20
# What the engines keep free for themselves.
KEPT_FREE_BYTES = 256 << 20
OUT_OF_DISK_SPACE = 14031
PATIENCE_SECONDS = 60
FILLER = "x" * 4096
REFUSED_IN_A_ROW = 100


@contextlib.contextmanager
def small_disk(directory, disk_bytes=DISK_BYTES):
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={disk_bytes}", "tmpfs", str(directory)]
    mounted = subprocess.run(mount, capture_output=True, check=False)
    if mounted.returncode != 0:
        print("a tmpfs may not be mounted here: nothing was checked")
        yield None
        return
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def fill_up(disk, leave_bytes):
    """Takes the room on the disk but for so much."""
    ballast = disk / "ballast"
    with open(ballast, "ab") as file:
        while (more := free_bytes(disk) - leave_bytes) > 0:
            try:
                os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, more)
            except OSError:  # the server was faster
                continue
    return ballast


def free_bytes(disk):
    stat = os.statvfs(disk)
    return stat.f_bavail * stat.f_frsize


class Writer(threading.Thread):
    """Inserts one document after the other, until nothing is taken any more: here and there a write may fit yet."""

    def __init__(self, collection, first):
        super().__init__(daemon=True)
        self.collection, self.next, self.codes = collection, first, set()

    def run(self):
        refused = 0
        while refused < REFUSED_IN_A_ROW:
            try:
                self.collection.insert_one({"_id": self.next, "n": self.next % 10, "filler": FILLER})
                self.next += 1
                refused = 0
            except OperationFailure as refusal:
                self.codes.add(refusal.code)
                refused += 1
                time.sleep(0.01)


def logged(quarry, message):
    lines = (json.loads(line) for line in quarry.log.read_text().splitlines())
    return [line["attr"] for line in lines if line["msg"] == message]


def eventually(look):
    """What `look` returns, once that is true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)
    return found


def metric(quarry, name):
    with urllib.request.urlopen(quarry.admin_url + "metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(name + " ")).split()[1])


@pytest.mark.parametrize("leave_bytes", [KEPT_FREE_BYTES, 0], ids=["below what is kept free", "to the last page"])
@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "memory"])
def test_a_full_disk_refuses_writes_and_nothing_is_lost(engine, leave_bytes, tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        if disk is None:
            return
        # The log is elsewhere.
        quarry = Quarry(tmp_path / "data", engine, ["--adminPort", "0"])
        quarry.directory.symlink_to(disk / "data")
        (disk / "data").mkdir()
        quarry.start()
        try:
            check(quarry, disk, leave_bytes)
        finally:
            if quarry.running():
                quarry.kill()


def check(quarry, disk, leave_bytes):
    client = MongoClient(quarry.uri, retryWrites=False)
    things = client.full.things
    things.create_index("n")
    things.insert_many([{"_id": number, "n": number % 10} for number in range(1000)])

    writer = Writer(things, 1000)
    writer.start()
    ballast = fill_up(disk, leave_bytes)
    writer.join(PATIENCE_SECONDS)
    assert not writer.is_alive() and writer.codes == {OUT_OF_DISK_SPACE}, writer.codes
    acknowledged = writer.next

    # Reads go on, every acknowledged document is seen, and the refusal is told once.
    assert things.count_documents({}) == acknowledged
    assert things.find_one({"_id": acknowledged - 1})["n"] == (acknowledged - 1) % 10
    with pytest.raises(OperationFailure) as again:
        things.update_one({"_id": 1}, {"$set": {"n": 11}})
    assert again.value.code == OUT_OF_DISK_SPACE
    refused = client.admin.command("serverStatus")["quarry"]["refusedWrites"]
    assert refused["count"] > REFUSED_IN_A_ROW and "no space" in refused["reason"], refused
    assert len(logged(quarry, "writes are refused")) == 1
    assert metric(quarry, "quarry_is_refusing_writes") == 1

    # With room again it goes on by itself.
    ballast.unlink()
    eventually(lambda: accepts(things))
    eventually(lambda: accepts(things) and logged(quarry, "writes are taken again"))
    assert "reason" not in client.admin.command("serverStatus")["quarry"]["refusedWrites"]
    assert metric(quarry, "quarry_is_refusing_writes") == 0
    validate(client, acknowledged)
    client.close()

    # Nor does a killed process lose any of it.
    quarry.kill()
    quarry.start()
    with MongoClient(quarry.uri) as client:
        assert client.full.things.find_one({"_id": 1})["n"] == 1, "a refused update left nothing"
        validate(client, acknowledged)
    assert quarry.stop() == 0, quarry.tail()


def test_a_copy_that_would_take_the_space_of_writers_is_refused(tmp_path):
    with small_disk(tmp_path / "disk", 2 * DISK_BYTES) as disk:
        if disk is None:
            return
        quarry = Quarry(tmp_path / "data", "mdbx")
        quarry.directory.symlink_to(disk / "data")
        (disk / "data").mkdir()
        quarry.start()
        try:
            with MongoClient(quarry.uri) as client:
                things = client.full.things
                for start in range(0, 32_000, 1000):
                    things.insert_many([{"_id": start + n, "filler": FILLER} for n in range(1000)])
                # Less than the copy takes, and room for a segment of the journal that is made ahead.
                ballast = fill_up(disk, KEPT_FREE_BYTES + (112 << 20))
                backup = [binary(), "backup", "create", "--dbpath", str(quarry.directory), "--to", str(tmp_path / "repository")]
                ended = subprocess.run(backup, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
                assert ended.returncode == 1 and "a copy takes" in ended.stderr and "OutOfDiskSpace" in ended.stderr, ended.stderr
                assert "lastBackup" not in client.admin.command("serverStatus")["quarry"]["upkeep"]
                # Writers have noticed nothing.
                things.insert_one({"_id": "beside"})
                assert logged(quarry, "writes are refused") == []
                ballast.unlink()
                assert subprocess.run(backup, capture_output=True, timeout=PATIENCE_SECONDS, check=False).returncode == 0
                assert "lastBackup" in client.admin.command("serverStatus")["quarry"]["upkeep"]
            assert quarry.stop() == 0
        finally:
            if quarry.running():
                quarry.kill()


def accepts(things):
    try:
        things.update_one({"_id": "after"}, {"$inc": {"n": 1}}, upsert=True)
        return True
    except OperationFailure as refusal:
        assert refusal.code == OUT_OF_DISK_SPACE, refusal
        return False


def validate(client, acknowledged):
    """`validate` finds no fault, and the documents are those acknowledged and the one written afterwards."""
    assert client.full.validate_collection("things", full=True)["valid"] is True
    ids = [document["_id"] for document in client.full.things.find({}, {"_id": 1}).sort("_id", 1)]
    assert ids == [*range(acknowledged), "after"]
