"""What a clean stop keeps, that a first start may be cut off, and what the process says when it cannot start."""

import random
import subprocess
import time

import pytest
from pymongo import MongoClient

from quarry_process import Quarry, binary


def test_everything_is_there_after_a_restart(durable):
    with MongoClient(durable.uri) as client:
        kept = client.kept.things
        kept.insert_many([{"_id": i, "a": i % 10} for i in range(2000)])
        kept.create_index("a")
        kept.update_many({"a": 3}, {"$set": {"b": [1, {"c": 2}]}})
        kept.delete_many({"a": 4})
        client.kept.create_collection("capped", capped=True, size=65536).insert_many([{"_id": i} for i in (3, 1, 2)])
        client.kept.gone.insert_one({})
        client.kept.gone.drop()
        before = list(kept.find().sort("_id", 1))
    assert durable.stop() == 0, durable.tail()
    durable.start()
    with MongoClient(durable.uri) as client:
        kept = client.kept.things
        assert list(kept.find().sort("_id", 1)) == before
        assert kept.estimated_document_count() == len(before) == 1800
        assert sorted(kept.index_information()) == ["_id_", "a_1"]
        assert sorted(client.kept.list_collection_names()) == ["capped", "things"]
        assert [d["_id"] for d in client.kept.capped.find()] == [3, 1, 2]
        assert client.kept.validate_collection("things", full=True)["valid"] is True
        kept.insert_one({"_id": "new", "a": 3})
        assert kept.count_documents({"a": 3}) == 201


@pytest.mark.parametrize("engine", ["rocksdb", "mdbx"])
def test_a_first_start_that_was_killed_is_made_up_for(engine, tmp_path):
    seed = time.time_ns() % 1_000_000
    print(f"seed {seed}")
    chance = random.Random(seed)
    for number in range(20):
        directory = tmp_path / str(number)
        directory.mkdir()
        quarry = Quarry(directory, engine)
        command = [binary(), "serve", "--dbpath", str(directory), "--engine", engine, "--port", "0", "--adminPort", "off"]
        with open(quarry.log, "ab") as log:
            first = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        time.sleep(chance.uniform(0, 0.03))
        first.kill()
        first.wait()
        quarry.start()
        try:
            with MongoClient(quarry.uri) as client:
                client.db.things.insert_one({"_id": number})
        finally:
            quarry.kill()


def test_a_second_server_over_the_same_directory_is_refused(durable):
    command = [binary(), "serve", "--dbpath", str(durable.directory), "--engine", durable.engine, "--port", "0"]
    second = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
    assert second.returncode == 100, second


def test_a_port_in_use_is_exit_code_48(durable, tmp_path):
    command = [binary(), "serve", "--dbpath", str(tmp_path / "other"), "--engine", "memory", "--port", str(durable.port)]
    second = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
    assert second.returncode == 48, second


def test_unknown_options_are_exit_code_2(tmp_path):
    for extra in (["--bogus"], ["--engine", "bogus"], ["--auditDestination", "syslog"]):
        command = [binary(), "serve", "--dbpath", str(tmp_path / "x"), "--port", "0", *extra]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
        assert done.returncode == 2, (extra, done)
    assert b"not supported yet" in done.stdout + done.stderr


def test_another_engine_over_the_same_directory_is_refused(durable):
    with MongoClient(durable.uri) as client:
        client.kept.things.insert_one({"_id": 1})
    assert durable.stop() == 0
    other = Quarry(durable.directory, "mdbx" if durable.engine == "rocksdb" else "rocksdb")
    try:
        other.start()
    except RuntimeError:
        assert other.process.returncode == 100
    else:
        other.kill()
        raise AssertionError("the other engine started over a foreign data format")
