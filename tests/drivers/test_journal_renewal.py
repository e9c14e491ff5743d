"""`quarry journal renew`: a journal that is lost or damaged is begun anew behind what the engine holds, and says what that costs."""

import re
import shutil
import signal
import subprocess

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from quarry_process import START_SECONDS_MAX, Quarry, binary
from test_encryption import key_file, with_key

CHANGE_STREAM_HISTORY_LOST = 286
KEPT = range(100)
LOST = range(100, 150)
ACCEPTED = "--accept-loss"
# Times are told, and the journal is kept for streams, however small the disk is.
FLAGS = ["--replSet", "rs0", "--journalRetentionMB", "512"]


@pytest.fixture(params=["rocksdb", "mdbx", "rocksdb, encrypted"])
def quarry(request, tmp_path):
    engine, _, encrypted = request.param.partition(", ")
    key = with_key(key_file(tmp_path)) if encrypted else []
    made = Quarry(tmp_path / "data", engine, [*FLAGS, *key])
    yield made
    if made.running():
        made.kill()


def journal_command(quarry, command, *flags):
    key = [flag for flag in quarry.arguments[len(FLAGS) :] if flag != "--enableEncryption"]
    ran = [binary(), "journal", command, "--dbpath", str(quarry.directory), *key, *flags]
    return subprocess.run(ran, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)


def stop(quarry):
    quarry.process.send_signal(signal.SIGTERM)
    assert quarry.process.wait(START_SECONDS_MAX) == 0, quarry.tail()


def documents(numbers):
    return [{"_id": number, "x": "y" * 1000} for number in numbers]


def write_and_die(quarry):
    """The engine holds KEPT after a clean stop; LOST are in the journal alone, durably. The last place and time of a stream."""
    quarry.start()
    with MongoClient(quarry.uri) as client:
        client.d.c.create_index("x")
        client.d.c.insert_many(documents(KEPT))
    stop(quarry)
    quarry.start()
    with MongoClient(quarry.uri, w="majority") as client:
        with client.d.c.watch() as stream:
            for document in documents(LOST):
                client.d.c.insert_one(document)
            token = [stream.next() for _ in LOST][-1]["_id"]
        time = client.admin.command("ping")["operationTime"]
    quarry.kill()
    return token, time


def check_lost(client, token, time):
    """No stream goes on from the place, nor from the time."""
    for place in ({"resume_after": token}, {"start_at_operation_time": time}):
        with pytest.raises(OperationFailure) as lost, client.d.c.watch(**place) as stream:
            stream.try_next()
        assert lost.value.code == CHANGE_STREAM_HISTORY_LOST


def check_renewed(quarry, token, time):
    """The server serves what the engine held, its streams begin anew, and its times are later than all that were told."""
    quarry.start()
    with MongoClient(quarry.uri) as client:
        assert [found["_id"] for found in client.d.c.find().sort("_id")] == list(KEPT)
        assert client.admin.command("ping")["operationTime"] >= time
        check_lost(client, token, time)
        with client.d.c.watch() as stream:
            client.d.c.insert_one({"_id": "new"})
            event = stream.next()
        assert event["clusterTime"] > time
    for _ in range(2):
        assert quarry.stop() == 0
        quarry.start()
        with MongoClient(quarry.uri) as client:
            check_lost(client, token, time)
            client.d.c.insert_one({})
            # What came behind the new beginning is told.
            with client.d.c.watch(start_at_operation_time=event["clusterTime"]) as stream:
                assert stream.next()["documentKey"] == {"_id": "new"}
            with client.d.c.watch(start_after=event["_id"]) as stream:
                assert stream.next()["operationType"] == "insert"
    assert journal_command(quarry, "verify").returncode != 0, "the server runs"
    stop(quarry)
    verified = journal_command(quarry, "verify")
    assert verified.returncode == 0, verified.stderr


def refuse_start(quarry):
    with pytest.raises(RuntimeError, match="ended with 100"):
        quarry.start()


def test_a_journal_that_is_gone_is_begun_anew(quarry):
    token, time = write_and_die(quarry)
    shutil.rmtree(quarry.directory / "journal")
    refuse_start(quarry)
    asked = journal_command(quarry, "renew")
    assert asked.returncode == 1 and "say --accept-loss" in asked.stderr and "is lost" in asked.stdout
    refuse_start(quarry)
    # The refused start has made the directory again.
    renewed = journal_command(quarry, "renew", ACCEPTED)
    assert renewed.returncode == 0, renewed.stderr
    assert re.search(r"a new journal begins behind record \d+;", renewed.stdout)
    check_renewed(quarry, token, time)


def test_a_journal_that_is_damaged_in_its_middle_is_begun_anew(quarry):
    token, time = write_and_die(quarry)
    dumped = journal_command(quarry, "dump").stdout
    groups = re.findall(r"^(\d+\.segment) +(\d+)  records? (\d+)", dumped, re.MULTILINE)
    last = int(groups[-1][2])
    name, offset, _ = groups[-len(LOST) // 2]
    segment = quarry.directory / "journal" / name
    content = bytearray(segment.read_bytes())
    content[int(offset) + 200] ^= 1
    segment.write_bytes(content)
    refuse_start(quarry)
    asked = journal_command(quarry, "renew")
    assert asked.returncode == 1
    told = re.search(r"has records up to (\d+): those behind (\d+) are given up", asked.stdout)
    assert int(told[1]) >= last and int(told[2]) <= last - len(LOST)
    assert segment.read_bytes() == content
    renewed = journal_command(quarry, "renew", ACCEPTED)
    assert renewed.returncode == 0, renewed.stderr
    kept = quarry.directory / "journal.lost-1" / name
    assert kept.read_bytes() == content
    check_renewed(quarry, token, time)


def test_a_journal_that_is_whole_is_kept_unless_nothing_is_in_it_alone(quarry):
    write_and_die(quarry)
    refused = journal_command(quarry, "renew", ACCEPTED)
    assert refused.returncode == 1 and "the journal is whole: a start replays its records" in refused.stderr
    quarry.start()
    in_use = journal_command(quarry, "renew", ACCEPTED)
    assert in_use.returncode == 100 and "in use by process" in in_use.stderr
    with MongoClient(quarry.uri) as client:
        assert client.d.c.count_documents({}) == len(KEPT) + len(LOST)
    stop(quarry)
    renewed = journal_command(quarry, "renew", ACCEPTED)
    assert renewed.returncode == 0 and "no record that the engine lacks" in renewed.stdout, renewed.stderr
    quarry.start()
    with MongoClient(quarry.uri) as client:
        assert client.d.c.count_documents({}) == len(KEPT) + len(LOST)
    assert quarry.stop() == 0


def test_an_engine_that_holds_nothing_durably_gets_no_journal(quarry):
    quarry.start()
    with MongoClient(quarry.uri) as client:
        client.d.c.insert_many(documents(KEPT))
    quarry.kill()
    shutil.rmtree(quarry.directory / "journal")
    refused = journal_command(quarry, "renew", ACCEPTED)
    assert refused.returncode == 1 and "the engine holds nothing durably" in refused.stderr
    refuse_start(quarry)


def test_an_engine_without_a_steady_point_gets_no_journal(tmp_path):
    flags = ["--mdbx-sync", "utterly-no-sync", "--durability", "relaxed"]
    quarry = Quarry(tmp_path / "data", "mdbx", flags)
    quarry.start()
    with MongoClient(quarry.uri) as client:
        client.d.c.insert_many(documents(KEPT))
    quarry.kill()
    shutil.rmtree(quarry.directory / "journal")
    ran = [binary(), "journal", "renew", "--dbpath", str(quarry.directory), ACCEPTED]
    refused = subprocess.run(ran, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 1, refused
    assert "durably" in refused.stderr
