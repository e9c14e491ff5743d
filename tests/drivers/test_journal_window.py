"""How much of the journal is kept, and in what form, as an operator asks for it and finds it."""

import contextlib
import random
import subprocess
import time

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from quarry_process import Quarry, binary

MIB = 1 << 20
NO_WINDOW = ["--journalRetentionHours", "0"]
# The last one is the default.
WINDOWS = [["--journalRetentionHours", "1"], ["--journalRetentionMB", "1000"], []]


@contextlib.contextmanager
def server(directory, engine, arguments):
    """A client of a server that is stopped afterwards."""
    quarry = Quarry(directory, engine, arguments).start()
    try:
        with MongoClient(quarry.uri) as client:
            yield client
        assert quarry.stop() == 0, quarry.tail()
    finally:
        if quarry.running():
            quarry.kill()


def first_change(client):
    """The event of a change that is made for it, the first one of its server."""
    with client.db.marks.watch() as stream:
        client.db.marks.insert_one({"_id": "first"})
        return stream.next()


def streams_from(client, change):
    """Streams behind that change and from its time on, as they are opened."""
    for place in ({"resume_after": change["_id"]}, {"start_after": change["_id"]}, {"start_at_operation_time": change["clusterTime"]}):
        yield lambda: client.db.marks.watch(**place)  # noqa: B023 (called before the next one)


@pytest.mark.parametrize("engine", ["rocksdb", "mdbx"])
@pytest.mark.parametrize("window", WINDOWS)
def test_segments_within_the_window_outlive_checkpoints(engine, window, tmp_path):
    first = "journal/0000000001.segment"
    kept, freed = tmp_path / "kept", tmp_path / "freed"
    chance = random.Random(7)
    # The second round leaves the first segment behind.
    for round_number in range(2):
        with server(kept, engine, window) as one, server(freed, engine, NO_WINDOW) as other:
            if round_number == 0:
                first_of_kept, first_of_freed = first_change(one), first_change(other)
            for client in (one, other):
                for _ in range(10):
                    client.db.things.insert_one({"b": chance.randbytes(MIB)})
                client.admin.command("fsync")
    with server(kept, engine, window) as one, server(freed, engine, NO_WINDOW) as other:
        for client in (one, other):
            client.db.things.insert_one({})
            client.admin.command("fsync")
        deadline = time.monotonic() + 30
        while (freed / first).exists():
            assert time.monotonic() < deadline, "no checkpoint frees anything"
            time.sleep(0.05)
        for client in (one, other):
            client.db.marks.insert_one({"_id": "last"})
        for open_stream in streams_from(one, first_of_kept):
            with open_stream() as stream:
                told = [stream.next()["documentKey"]["_id"]]
                if told == ["first"]:
                    told.append(stream.next()["documentKey"]["_id"])
                assert told[-1] == "last"
        for open_stream in streams_from(other, first_of_freed):
            with pytest.raises(OperationFailure) as lost:
                open_stream()
            assert lost.value.code == 286 and lost.value.has_error_label("NonResumableChangeStreamError")
    assert (kept / first).exists()


@pytest.mark.parametrize("engine", ["rocksdb", "mdbx"])
@pytest.mark.parametrize("above, is_compressed", [("1", True), ("4000", False)])
def test_large_groups_are_compressed_above_a_size(engine, above, is_compressed, tmp_path):
    data = tmp_path / "data"
    documents = [{"_id": n, "text": "over and over " * 100} for n in range(300)]
    with server(data, engine, ["--journalCompressAboveKB", above]) as client:
        asked = client.admin.command("getCmdLineOpts")["parsed"]["storage"]
        assert asked["journalCompressAboveKB"] == int(above)
        client.db.things.insert_many(documents)
    command = [binary(), "journal", "dump", "--dbpath", str(data)]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert ("bytes with LZ4" in listed) == is_compressed
    with server(data, engine, []) as client:
        assert list(client.db.things.find().sort("_id")) == documents
