"""Views through a driver: made, listed, read by every command that reads, refused by every one that writes, changed and dropped."""

import pytest
from pymongo.errors import OperationFailure


@pytest.fixture
def adults(collection):
    collection.insert_many([{"_id": i, "age": age, "team": "xy"[i % 2]} for i, age in enumerate([10, 20, 30, 40])])
    collection.create_index("age")
    database = collection.database
    database.create_collection("adults", viewOn=collection.name, pipeline=[{"$match": {"age": {"$gte": 18}}}])
    return database["adults"]


def code_of(work):
    with pytest.raises(OperationFailure) as raised:
        work()
    return raised.value.code


def test_a_view_is_listed_and_read(adults, collection):
    database = adults.database
    listed = {entry["name"]: entry for entry in database.list_collections()}
    assert listed["adults"]["type"] == "view" and listed["adults"]["info"] == {"readOnly": True}
    assert listed["adults"]["options"] == {"viewOn": collection.name, "pipeline": [{"$match": {"age": {"$gte": 18}}}]}
    assert "idIndex" not in listed["adults"] and listed[collection.name]["type"] == "collection"
    names = database.command("listCollections", nameOnly=True, filter={"type": "view"})["cursor"]["firstBatch"]
    assert names == [{"name": "adults", "type": "view"}]
    assert [document["_id"] for document in adults.find({}, batch_size=1).sort("age", -1)] == [3, 2, 1]
    assert adults.find_one({"_id": 0}) is None and adults.find_one({"_id": 1}, {"age": 1, "_id": 0}) == {"age": 20}
    assert adults.count_documents({"age": {"$gt": 20}}) == 2 and adults.estimated_document_count() == 3
    assert sorted(adults.distinct("team")) == ["x", "y"]
    grouped = adults.aggregate([{"$group": {"_id": "$team", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}])
    assert list(grouped) == [{"_id": "x", "n": 1}, {"_id": "y", "n": 2}]
    joined = collection.aggregate([{"$lookup": {"from": "adults", "localField": "_id", "foreignField": "_id", "as": "a"}}])
    assert [len(document["a"]) for document in joined] == [0, 1, 1, 1]
    explained = str(database.command("explain", {"find": "adults", "filter": {}}))
    assert "IXSCAN" in explained and collection.name in explained


def test_nothing_writes_to_a_view(adults, collection):
    database = adults.database
    for work in [
        lambda: adults.insert_one({}),
        lambda: adults.update_one({}, {"$set": {"a": 1}}),
        lambda: adults.delete_many({}),
        lambda: adults.find_one_and_delete({"_id": 1}),
        lambda: adults.create_index("a"),
        lambda: adults.rename("other"),
        lambda: database.command("validate", "adults"),
    ]:
        assert code_of(work) == 166
    assert collection.count_documents({}) == 4
    assert code_of(lambda: database.create_collection("again", viewOn="again", pipeline=[])) == 5
    assert code_of(lambda: database.create_collection("writes", viewOn="adults", pipeline=[{"$out": "x"}])) == 167
    assert code_of(lambda: database.command("create", "alone", pipeline=[])) == 72


def test_a_view_is_changed_and_dropped(adults, collection):
    database = adults.database
    database.command("collMod", "adults", viewOn=collection.name, pipeline=[{"$match": {"age": 10}}])
    assert [document["_id"] for document in adults.find()] == [0]
    assert code_of(lambda: database.command("collMod", "adults", viewOn=collection.name)) == 72
    adults.drop()
    assert database.list_collection_names(filter={"name": "adults"}) == [] and collection.count_documents({}) == 4
