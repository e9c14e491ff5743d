"""Sorts and groups that outgrow their memory go on in files under the data directory, and nothing of them stays behind.

The bounds are a server's parameters: made small, they let a few thousand documents cross them.
"""

import os

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from quarry_process import Quarry

# What these tests look at does not depend on the engine: the first one named does.
ENGINE = os.environ.get("QUARRY_ENGINES", "rocksdb").split(",")[0]
DOCUMENTS = 20_000
SORT_BYTES = "internalQueryMaxBlockingSortMemoryUsageBytes"
GROUP_BYTES = "internalDocumentSourceGroupMaxMemoryBytes"
FREE_BYTES = "internalQuerySpillingMinAvailableDiskSpaceBytes"
NO_DISK_USE_ALLOWED = 292
OUT_OF_DISK_SPACE = 14031


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A server whose stages hold 256 KiB."""
    quarry = Quarry(tmp_path_factory.mktemp("spilling") / "data", ENGINE)
    quarry.start()
    quarry.kill()
    (quarry.directory / "quarry.spill" / "spill-7").write_bytes(b"left by a crash")
    quarry.start()
    with MongoClient(quarry.uri) as client:
        for name in (SORT_BYTES, GROUP_BYTES):
            client.admin.command("setParameter", 1, **{name: 256 << 10})
        client.admin.command("setParameter", 1, **{FREE_BYTES: 0})
        documents = ({"_id": n, "k": n * 7919 % DOCUMENTS, "g": n % 5000, "pad": "x" * 60} for n in range(DOCUMENTS))
        client.test.things.insert_many(documents)
        yield quarry, client
    assert quarry.stop() == 0, quarry.tail()


def spills(client, kind):
    return client.admin.command("serverStatus")["metrics"]["query"][kind]["spills"]


def open_files(quarry):
    folder = f"/proc/{quarry.process.pid}/fd"
    links = []
    for name in os.listdir(folder):
        try:
            links.append(os.readlink(f"{folder}/{name}"))
        except FileNotFoundError:  # closed meanwhile
            continue
    return [link for link in links if "/quarry.spill/" in link]


def test_a_find_sorts_on_disk_and_explain_says_so(small):
    quarry, client = small
    things = client.test.things
    before = spills(client, "sort")
    assert [found["k"] for found in things.find(sort=[("k", 1)], projection={"k": 1})] == list(range(DOCUMENTS))
    assert spills(client, "sort") > before
    explained = client.test.command("explain", {"find": "things", "sort": {"pad": 1, "k": 1}}, verbosity="executionStats")
    sort = explained["executionStats"]["executionStages"]
    assert (sort["stage"], sort["usedDisk"]) == ("SORT", True)
    assert sort["spills"] > 1 and sort["spilledRecords"] > DOCUMENTS / 2
    assert sort["spilledBytes"] > sort["spilledDataStorageSize"] > 0
    small_one = client.test.command("explain", {"find": "things", "sort": {"k": 1}, "limit": 3}, verbosity="executionStats")
    assert small_one["executionStats"]["executionStages"]["inputStage"]["usedDisk"] is False
    assert open_files(quarry) == []
    assert os.listdir(quarry.directory / "quarry.spill") == []


def test_a_group_on_disk_has_every_group(small):
    quarry, client = small
    before = spills(client, "group")
    groups = list(client.test.things.aggregate([
        {"$group": {"_id": "$g", "n": {"$sum": 1}, "ids": {"$push": "$_id"}, "pads": {"$push": "$pad"}}},
    ]))
    assert {group["_id"]: (group["n"], group["ids"]) for group in groups} == {
        g: (4, list(range(g, DOCUMENTS, 5000))) for g in range(5000)}
    assert len(groups) == 5000
    assert spills(client, "group") > before
    assert open_files(quarry) == []


def test_an_idle_cursor_holds_its_files_until_it_is_killed(small):
    quarry, client = small
    cursor = client.test.things.aggregate([{"$match": {"k": {"$gte": 0}}}, {"$set": {"a": 1}}, {"$sort": {"k": -1}}], batchSize=2)
    assert next(cursor)["k"] == DOCUMENTS - 1
    assert open_files(quarry) != []
    cursor.close()
    assert open_files(quarry) == []


def test_without_leave_or_room_the_error_is_mongodbs(small):
    _, client = small
    things = client.test.things
    for read in (
        lambda: list(things.aggregate([{"$sort": {"k": 1}}], allowDiskUse=False)),
        lambda: list(things.aggregate([{"$group": {"_id": "$_id"}}], allowDiskUse=False)),
        lambda: list(things.find(sort=[("k", 1)], allow_disk_use=False)),
    ):
        with pytest.raises(OperationFailure) as refusal:
            read()
        assert refusal.value.code == NO_DISK_USE_ALLOWED
    client.admin.command("setParameter", 1, allowDiskUseByDefault=False)
    try:
        with pytest.raises(OperationFailure) as refusal:
            list(things.find(sort=[("k", 1)]))
        assert refusal.value.code == NO_DISK_USE_ALLOWED
        assert len(list(things.find(sort=[("k", 1)], allow_disk_use=True))) == DOCUMENTS
    finally:
        client.admin.command("setParameter", 1, allowDiskUseByDefault=True)
    client.admin.command("setParameter", 1, **{FREE_BYTES: 1 << 60})
    try:
        with pytest.raises(OperationFailure) as refusal:
            list(things.find(sort=[("k", 1)]))
        assert refusal.value.code == OUT_OF_DISK_SPACE
    finally:
        client.admin.command("setParameter", 1, **{FREE_BYTES: 0})
    with pytest.raises(OperationFailure):
        client.admin.command("setParameter", 1, **{SORT_BYTES: 0})
