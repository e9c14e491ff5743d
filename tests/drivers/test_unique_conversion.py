"""collMod makes an index unique: `prepareUnique` first, then `unique`, and `dryRun` says whether it would go."""

import threading

import pytest
from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError, OperationFailure

CANNOT_CONVERT = 359
INVALID_OPTIONS = 72
BAD_VALUE = 2


def modify(collection, *, dry_run=None, **index):
    index.setdefault("keyPattern", {"a": 1})
    command = {"collMod": collection.name, "index": index}
    if dry_run is not None:
        command["dryRun"] = dry_run
    return collection.database.command(command)


def refusal(collection, **options):
    with pytest.raises(OperationFailure) as refused:
        modify(collection, **options)
    return refused.value.details


def spec(collection):
    return next(index for index in collection.list_indexes() if index["name"] == "a_1")


def test_an_index_is_made_unique_in_two_steps(collection):
    collection.insert_many([{"_id": 1, "a": 1}, {"_id": 2, "a": 1}, {"_id": 3, "a": 2}])
    collection.create_index("a")
    for dry_run in (True, False):
        assert refusal(collection, unique=True, dry_run=dry_run)["code"] == INVALID_OPTIONS
    reply = modify(collection, prepareUnique=True)
    assert (reply["prepareUnique_old"], reply["prepareUnique_new"]) == (False, True)
    assert spec(collection)["prepareUnique"] is True and "unique" not in spec(collection)
    assert "prepareUnique_new" not in modify(collection, prepareUnique=True), "nothing has changed"
    with pytest.raises(DuplicateKeyError) as duplicate:
        collection.insert_one({"_id": 4, "a": 2})
    assert duplicate.value.details["keyPattern"] == {"a": 1} and duplicate.value.details["keyValue"] == {"a": 2}
    with pytest.raises(DuplicateKeyError):
        collection.update_one({"_id": 3}, {"$set": {"a": 1}})
    # Those that share a key go on as they are.
    assert collection.update_one({"_id": 2}, {"$set": {"b": 1}}).modified_count == 1
    for dry_run in (True, False):
        refused = refusal(collection, unique=True, dry_run=dry_run)
        assert refused["code"] == CANNOT_CONVERT and refused["codeName"] == "CannotConvertIndexToUnique"
        assert refused["violations"] == [{"ids": [1, 2]}]
    collection.delete_one({"_id": 2})
    assert "unique_new" not in modify(collection, unique=True, dry_run=True)
    assert "unique" not in spec(collection)
    assert modify(collection, unique=True)["unique_new"] is True
    assert spec(collection)["unique"] is True and "prepareUnique" not in spec(collection)
    assert "unique_new" not in modify(collection, unique=True), "it is unique already"
    with pytest.raises(DuplicateKeyError):
        collection.insert_one({"_id": 4, "a": 1})
    plan = collection.find({"a": 1}).hint("a_1").explain()["queryPlanner"]["winningPlan"]
    assert plan["inputStage"]["isUnique"] is True
    assert [found["_id"] for found in collection.find({"a": 1})] == [1]


def test_what_cannot_be_asked_is_refused(collection):
    collection.create_index("a")
    collection.create_index([("h", "hashed")])
    assert refusal(collection, unique=False)["code"] == BAD_VALUE
    assert refusal(collection, prepareUnique=True, hidden=True)["code"] == INVALID_OPTIONS
    assert refusal(collection, prepareUnique=True, dry_run=True)["code"] == INVALID_OPTIONS
    assert refusal(collection, hidden=True, dry_run=True)["code"] == INVALID_OPTIONS
    assert refusal(collection, keyPattern={"none": 1}, prepareUnique=True)["code"] == 27
    assert refusal(collection, keyPattern={"a": 1}, name="a_1", prepareUnique=True)["code"] == INVALID_OPTIONS
    assert refusal(collection, keyPattern={"h": "hashed"}, prepareUnique=True)["code"] == 16764
    modify(collection, prepareUnique=True)
    assert refusal(collection, unique=True, hidden=True, dry_run=True)["code"] == INVALID_OPTIONS
    with pytest.raises(OperationFailure) as refused:
        collection.database.command("collMod", "none", index={"keyPattern": {"a": 1}, "unique": True})
    assert refused.value.code == 26
    # The index on _id is unique as it is.
    assert set(modify(collection, keyPattern={"_id": 1}, unique=True)) == {"ok"}
    # Both at once change both.
    reply = modify(collection, unique=True, hidden=True)
    assert reply["unique_new"] is True and reply["hidden_new"] is True


def test_too_many_ids_are_not_told(collection):
    names = ["x" * (1 << 10) + f"{number:05}" for number in range(9000)]
    collection.insert_many([{"_id": name, "a": 1} for name in names])
    collection.create_index("a")
    modify(collection, prepareUnique=True)
    refused = refusal(collection, unique=True)
    [violation] = refused["violations"]
    assert "Too many conflicting documents" in refused["errmsg"]
    assert 7000 < len(violation["ids"]) < 8500
    assert violation["ids"] == names[: len(violation["ids"])]


def test_createIndexes_takes_the_option(collection):
    collection.insert_many([{"a": 1}, {"a": 1}])
    collection.create_index("a", prepareUnique=True)
    assert spec(collection)["prepareUnique"] is True
    with pytest.raises(DuplicateKeyError):
        collection.insert_one({"a": 1})
    with pytest.raises(OperationFailure) as refused:
        collection.create_index("t", name="t", prepareUnique="yes")
    assert refused.value.code == 14


def test_merge_goes_by_an_index_that_was_made_unique(collection):
    collection.create_index("a")
    merge = {"$merge": {"into": collection.name, "on": "a", "whenMatched": "merge"}}
    stages = [{"$documents": [{"a": 1, "b": 2}]}, merge]
    with pytest.raises(OperationFailure) as refused:
        collection.database.aggregate(stages)
    assert refused.value.code == 51183
    collection.insert_one({"_id": 1, "a": 1})
    modify(collection, prepareUnique=True)
    modify(collection, unique=True)
    collection.database.aggregate(stages)
    assert collection.find_one() == {"_id": 1, "a": 1, "b": 2}


def test_no_duplicate_slips_in_beside_a_conversion(collection):
    """Writers race for the same keys while the index goes from one form to the next."""
    collection.create_index("a")
    modify(collection, prepareUnique=True)
    won = []

    def write(writer):
        for key in range(400):
            try:
                collection.insert_one({"a": key, "writer": writer})
                won.append(key)
            except DuplicateKeyError:
                pass

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    modify(collection, unique=True)
    for writer in writers:
        writer.join()
    assert sorted(won) == list(range(400))
    assert collection.count_documents({}) == 400


def test_both_forms_survive_a_restart(durable):
    with MongoClient(durable.uri) as client:
        for name in ("prepared", "unique"):
            client.db[name].insert_many([{"_id": 1, "a": 1}, {"_id": 2, "a": 2}])
            client.db[name].create_index("a")
            modify(client.db[name], prepareUnique=True)
        modify(client.db.unique, unique=True)
    assert durable.stop() == 0, durable.tail()
    durable.start()
    with MongoClient(durable.uri) as client:
        assert spec(client.db.prepared)["prepareUnique"] is True
        assert spec(client.db.unique)["unique"] is True
        for name in ("prepared", "unique"):
            with pytest.raises(DuplicateKeyError):
                client.db[name].insert_one({"a": 1})
            client.db[name].insert_one({"a": 3})
            assert client.db[name].find_one({"a": 2})["_id"] == 2


def test_reIndex_builds_the_indexes_anew(collection):
    collection.insert_many([{"_id": number, "a": number % 7, "b": [number]} for number in range(500)])
    collection.create_index("a", hidden=True)
    collection.create_index("b", unique=True)
    collection.create_index([("t", "text")])
    before = list(collection.list_indexes())
    reply = collection.database.command("reIndex", collection.name)
    assert (reply["nIndexesWas"], reply["nIndexes"]) == (4, 4)
    assert reply["indexes"] == before == list(collection.list_indexes())
    assert collection.find({"b": 77}).hint("b_1").to_list() == [{"_id": 77, "a": 0, "b": [77]}]
    with pytest.raises(DuplicateKeyError):
        collection.insert_one({"b": 77})
    collection.database.create_collection("view", viewOn=collection.name, pipeline=[])
    for name, code in [("none", 26), ("view", 166)]:
        with pytest.raises(OperationFailure) as refused:
            collection.database.command("reIndex", name)
        assert refused.value.code == code
