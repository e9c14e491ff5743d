"""convertToCapped, cloneCollectionAsCapped, and collMod with other bounds of a capped collection."""

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure, WriteError


def code_of(database, command):
    with pytest.raises(OperationFailure) as refused:
        database.command(command)
    return refused.value.code


def options(collection):
    [entry] = collection.database.list_collections(filter={"name": collection.name})
    return entry["options"]


def test_a_collection_is_made_a_capped_one(collection):
    database = collection.database
    collection.insert_many([{"_id": number, "text": "x" * 100} for number in range(1000)])
    collection.create_index("text")
    size = 500 * 131 // 256 * 256
    assert database.command("convertToCapped", collection.name, size=size)["ok"] == 1
    assert options(collection) == {"capped": True, "size": size}
    stats = database.command("collStats", collection.name)
    assert stats["capped"] is True and stats["maxSize"] == size
    kept = [found["_id"] for found in collection.find()]
    assert kept == list(range(1000 - len(kept), 1000)) and 400 < len(kept) < 600
    assert sorted(collection.index_information()) == ["_id_"]
    collection.insert_one({"_id": 5000, "text": "x" * 100})
    assert [found["_id"] for found in collection.find()] == [*kept[1:], 5000]
    assert collection.find_one({"_id": 5000})["_id"] == 5000
    assert database.list_collection_names() == [collection.name]


def test_a_copy_is_made_beside_a_collection(collection):
    database = collection.database
    collection.insert_many([{"_id": number} for number in range(100)])
    command = {"cloneCollectionAsCapped": collection.name, "toCollection": "copy", "size": 1 << 20}
    assert database.command(command)["ok"] == 1
    assert [found["_id"] for found in database["copy"].find()] == list(range(100))
    assert options(database["copy"]) == {"capped": True, "size": 1 << 20}
    assert options(collection) == {}
    assert code_of(database, command) == 48


def test_what_cannot_be_capped_is_refused(collection):
    database = collection.database
    collection.insert_one({})
    database.create_collection("view", viewOn=collection.name, pipeline=[])
    database.create_collection("series", timeseries={"timeField": "t"})
    for name, code in [("none", 26), ("view", 166), ("series", 166), (collection.name, 72)]:
        size = 0 if code == 72 else 4096
        assert code_of(database, {"convertToCapped": name, "size": size}) == code
        assert code_of(database, {"cloneCollectionAsCapped": name, "toCollection": "copy", "size": size}) == code
    assert code_of(database, {"convertToCapped": collection.name}) == 72
    assert code_of(database, {"cloneCollectionAsCapped": collection.name, "size": 4096}) == 40414
    assert sorted(database.list_collection_names()) == sorted([collection.name, "view", "series"])


def test_documents_that_do_not_suit_the_validator_are_copied(database):
    things = database.create_collection("things", validator={"a": 1}, validationAction="error")
    things.insert_one({"_id": 1}, bypass_document_validation=True)
    database.command("convertToCapped", "things", size=4096)
    assert list(things.find()) == [{"_id": 1}]
    assert options(things)["validator"] == {"a": 1}
    with pytest.raises(WriteError):
        things.insert_one({"_id": 2})


def test_other_bounds_hold_from_the_next_insert_on(database):
    capped = database.create_collection("capped", capped=True, size=1 << 20, max=100)
    capped.insert_many([{"_id": number} for number in range(100)])
    assert database.command("collMod", "capped", cappedMax=10)["ok"] == 1
    assert capped.count_documents({}) == 100
    assert options(capped) == {"capped": True, "size": 1 << 20, "max": 10}
    capped.insert_one({"_id": 100})
    assert [found["_id"] for found in capped.find()] == list(range(91, 101))
    # The size is rounded up to 256 bytes, and no number of documents is the greatest.
    database.command("collMod", "capped", cappedSize=1000, cappedMax=0)
    assert options(capped) == {"capped": True, "size": 1024, "max": 2**31 - 1}
    capped.insert_many([{"_id": number, "text": "x" * 80} for number in range(200, 240)])
    stats = database.command("collStats", "capped")
    assert 900 < stats["size"] <= 1024 == stats["maxSize"]
    database["plain"].insert_one({})
    for options_, code in [({"cappedSize": 0}, 2), ({"cappedSize": 1 << 60}, 2), ({"cappedMax": 1 << 31}, 2)]:
        assert code_of(database, {"collMod": "capped", **options_}) == code
    assert code_of(database, {"collMod": "plain", "cappedSize": 4096}) == 72
    assert code_of(database, {"collMod": "plain", "cappedMax": 1}) == 72


def test_all_of_it_survives_a_restart(durable):
    with MongoClient(durable.uri) as client:
        client.db.things.insert_many([{"_id": number} for number in range(3000)])
        client.db.command("cloneCollectionAsCapped", "things", toCollection="copy", size=1 << 20)
        client.db.command("convertToCapped", "things", size=1024)
        client.db.command("collMod", "copy", cappedMax=5)
        kept = [found["_id"] for found in client.db.things.find()]
    assert durable.stop() == 0, durable.tail()
    durable.start()
    with MongoClient(durable.uri) as client:
        assert sorted(client.db.list_collection_names()) == ["copy", "things"]
        assert [found["_id"] for found in client.db.things.find()] == kept
        client.db.copy.insert_one({"_id": 3000})
        assert [found["_id"] for found in client.db.copy.find()] == list(range(2996, 3001))
