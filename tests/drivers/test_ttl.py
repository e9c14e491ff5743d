"""Documents that expire: the thread that deletes them, its parameters and figures, and what clients and a restart see of it."""

import datetime
import time

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from quarry_process import Quarry

PATIENCE_S = 20


def wait_until(is_so):
    begun = time.monotonic()
    while not is_so():
        assert time.monotonic() - begun < PATIENCE_S, "it never came"
        time.sleep(0.02)


def ago(seconds):
    return datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=seconds)


def figures(client):
    return client.admin.command("serverStatus")["metrics"]["ttl"]


@pytest.fixture
def ttl(client):
    """A server whose passes follow each other within a second."""
    client.admin.command({"setParameter": 1, "ttlMonitorSleepSecs": 1})
    yield client
    client.admin.command({"setParameter": 1, "ttlMonitorSleepSecs": 60})
    client.admin.command({"setParameter": 1, "ttlMonitorEnabled": True})


def test_what_has_expired_goes_and_the_figures_tell(ttl, collection):
    before = figures(ttl)
    collection.insert_many([{"_id": i, "at": ago(100 if i % 2 else -100)} for i in range(1200)])
    collection.create_index("at", expireAfterSeconds=50)
    wait_until(lambda: collection.count_documents({}) == 600)
    after = figures(ttl)
    assert after["deletedDocuments"] - before["deletedDocuments"] == 600
    wait_until(lambda: figures(ttl)["passes"] > before["passes"])
    assert collection.count_documents({"at": {"$lt": ago(0)}}) == 0


def test_a_switched_off_monitor_deletes_nothing_until_it_is_on_again(ttl, collection):
    was = ttl.admin.command({"setParameter": 1, "ttlMonitorEnabled": False})["was"]
    assert was is True and ttl.admin.command("getParameter", 1, ttlMonitorEnabled=1)["ttlMonitorEnabled"] is False
    passes = figures(ttl)["passes"]
    collection.insert_one({"_id": 1, "at": ago(100)})
    collection.create_index("at", expireAfterSeconds=0)
    # A pass that was under way when it was switched off may still end.
    assert figures(ttl)["passes"] <= passes + 1
    ttl.admin.command({"setParameter": 1, "ttlMonitorEnabled": True})
    wait_until(lambda: collection.count_documents({}) == 0)
    with pytest.raises(OperationFailure):
        ttl.admin.command({"setParameter": 1, "ttlMonitorSleepSecs": 0})


def test_collmod_changes_the_time_and_makes_an_index_one_that_expires(ttl, collection):
    database = collection.database
    collection.insert_one({"_id": 1, "at": ago(100)})
    collection.create_index("at")
    change = {"keyPattern": {"at": 1}, "expireAfterSeconds": 1000}
    reply = database.command("collMod", collection.name, index=change)
    assert reply["expireAfterSeconds_new"] == 1000 and "expireAfterSeconds_old" not in reply
    assert collection.index_information()["at_1"]["expireAfterSeconds"] == 1000
    reply = database.command("collMod", collection.name, index={"name": "at_1", "expireAfterSeconds": 10})
    assert (reply["expireAfterSeconds_old"], reply["expireAfterSeconds_new"]) == (1000, 10)
    wait_until(lambda: collection.count_documents({}) == 0)


def test_an_expired_document_is_a_delete_to_a_change_stream(tmp_path):
    quarry = Quarry(tmp_path / "data", "memory", ["--replSet", "rs", "--setParameter", "ttlMonitorSleepSecs=1"])
    quarry.start()
    try:
        with MongoClient(quarry.uri, directConnection=True) as client:
            collection = client.db.things
            collection.create_index("at", expireAfterSeconds=1)
            with collection.watch() as stream:
                collection.insert_one({"_id": 7, "at": ago(100)})
                events = [next(stream), next(stream)]
            assert [event["operationType"] for event in events] == ["insert", "delete"]
            assert events[1]["documentKey"] == {"_id": 7}
    finally:
        quarry.stop()


def test_expiry_goes_on_after_a_restart(durable):
    with MongoClient(durable.uri) as client:
        collection = client.db.things
        collection.create_index("at", expireAfterSeconds=3600)
        collection.insert_many([{"_id": 1, "at": ago(7200)}, {"_id": 2, "at": ago(0)}])
    durable.kill()
    durable.start()
    with MongoClient(durable.uri) as client:
        client.admin.command({"setParameter": 1, "ttlMonitorSleepSecs": 1})
        wait_until(lambda: [document["_id"] for document in client.db.things.find()] == [2])


def test_documents_of_a_clustered_collection_go_by_their_ids(ttl, database):
    clustered = {"key": {"_id": 1}, "unique": True}
    things = database.create_collection("things", clusteredIndex=clustered, expireAfterSeconds=50)
    [entry] = database.list_collections(filter={"name": "things"})
    assert entry["options"]["expireAfterSeconds"] == 50
    things.insert_many([{"_id": ago(100 + i)} for i in range(500)] + [{"_id": ago(-100)}, {"_id": "no date"}])
    wait_until(lambda: things.count_documents({}) == 2)
    database.command("collMod", "things", expireAfterSeconds="off")
    [entry] = database.list_collections(filter={"name": "things"})
    assert "expireAfterSeconds" not in entry["options"]
    things.insert_one({"_id": ago(1000)})
    passes = figures(ttl)["passes"]
    wait_until(lambda: figures(ttl)["passes"] > passes + 1)
    assert things.count_documents({}) == 3
    database.command("collMod", "things", expireAfterSeconds=10)
    wait_until(lambda: things.count_documents({}) == 2)
    for refused in (
        {"create": "other", "expireAfterSeconds": 5},
        {"create": "other", "clusteredIndex": clustered, "expireAfterSeconds": -1},
        {"create": "other", "clusteredIndex": clustered, "expireAfterSeconds": "soon"},
        {"collMod": "things", "expireAfterSeconds": 1e12},
    ):
        with pytest.raises(OperationFailure) as raised:
            database.command(refused)
        assert raised.value.code == 72, refused
    database["plain"].insert_one({})
    with pytest.raises(OperationFailure) as raised:
        database.command("collMod", "plain", expireAfterSeconds=5)
    assert raised.value.code == 72
