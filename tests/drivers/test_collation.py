"""Collations through a real client: operations, collections, views and indexes that compare strings by the rules of a language."""

import pytest
from pymongo import ASCENDING, DeleteMany, IndexModel, UpdateMany
from pymongo.collation import Collation, CollationAlternate, CollationCaseFirst, CollationStrength
from pymongo.errors import BulkWriteError, OperationFailure

WEAK = Collation("en", strength=CollationStrength.PRIMARY)
DEFAULTS = {
    "locale": "en", "caseLevel": False, "caseFirst": "off", "strength": 1, "numericOrdering": False, "alternate": "non-ignorable",
    "maxVariable": "punct", "normalization": False, "backwards": False, "version": "57.1",
}


def fill(collection):
    collection.insert_many([{"_id": n, "a": a} for n, a in enumerate(["Café", "cafe", "CAFE", "tea", "Tea", "été"])])


def stages(explained):
    stage, names = explained["queryPlanner"]["winningPlan"], []
    while stage:
        names.append(stage["stage"])
        stage = stage.get("inputStage")
    return names


def test_reads_compare_by_the_collation_that_they_name(collection):
    fill(collection)
    assert collection.count_documents({"a": "cafe"}) == 1
    assert collection.count_documents({"a": "cafe"}, collation=WEAK) == 3
    assert len(list(collection.find({"a": {"$in": ["cafe", "ETE"]}}).collation(WEAK))) == 4
    assert len(collection.distinct("a", collation=WEAK)) == 3
    assert [found["a"] for found in collection.find().sort("a").collation(Collation("fr"))] == ["cafe", "CAFE", "Café", "été", "tea", "Tea"]
    upper = Collation("en", caseFirst=CollationCaseFirst.UPPER)
    assert [found["a"] for found in collection.find({"_id": {"$in": [3, 4]}}).sort("a").collation(upper)] == ["Tea", "tea"]
    grouped = collection.aggregate([{"$group": {"_id": "$a", "n": {"$sum": 1}}}], collation=WEAK)
    assert sorted(group["n"] for group in grouped) == [1, 2, 3]
    cursor = collection.find({"a": "cafe"}, batch_size=1).collation(WEAK)
    assert len(list(cursor)) == 3


def test_writes_compare_by_the_collation_that_they_name(collection):
    fill(collection)
    assert collection.update_many({"a": "CAFÉ"}, {"$set": {"b": 1}}, collation=WEAK).modified_count == 3
    assert collection.update_one({"a": "TEA"}, {"$set": {"b": 1}}, upsert=True, collation=WEAK).upserted_id is None
    assert collection.find_one_and_update({"a": "ete"}, {"$set": {"b": 2}}, collation=WEAK)["_id"] == 5
    assert collection.replace_one({"a": "ete"}, {"a": "x"}, collation=WEAK).modified_count == 1
    written = collection.bulk_write([
        UpdateMany({"a": "tea"}, {"$set": {"c": 1}}, collation=WEAK), DeleteMany({"a": "X"}, collation=WEAK),
        UpdateMany({"a": "tea"}, {"$set": {"c": 2}}),
    ])
    assert (written.modified_count, written.deleted_count) == (3, 1)
    assert collection.delete_many({"a": "café"}, collation=WEAK).deleted_count == 3
    assert collection.find_one_and_delete({"a": "TEA"}, collation=WEAK)["_id"] == 3


def test_a_collection_has_a_default(collection):
    database, name = collection.database, collection.name
    database.create_collection(name, collation=WEAK)
    assert collection.options()["collation"] == DEFAULTS
    fill(collection)
    assert collection.count_documents({"a": "cafe"}) == 3
    assert collection.count_documents({"a": "cafe"}, collation=Collation("simple")) == 1
    assert collection.update_many({"a": "TEA"}, {"$set": {"b": 1}}).modified_count == 2
    collection.insert_one({"_id": "key"})
    collection.insert_one({"_id": "KEY"})
    assert collection.count_documents({"_id": "Key"}) == 2
    assert len(list(collection.find({"_id": "key"}))) == 2
    collection.create_index("a", name="inherited")
    collection.create_index("a", name="bytes", collation=Collation("simple"))
    indexes = collection.index_information()
    assert indexes["inherited"]["collation"] == DEFAULTS
    assert "collation" not in indexes["bytes"] and "collation" not in indexes["_id_"]
    explained = collection.find({"a": "cafe"}).explain()
    assert explained["queryPlanner"]["collation"] == DEFAULTS
    assert explained["queryPlanner"]["winningPlan"]["inputStage"]["collation"] == DEFAULTS
    view = database.create_collection(name + "_view", viewOn=name, pipeline=[], collation=WEAK)
    assert view.count_documents({"a": "CAFE"}) == 3
    with pytest.raises(OperationFailure) as refused:
        list(view.find().collation(Collation("fr")))
    assert refused.value.code == 167
    view.drop()


def test_indexes_serve_their_own_collation(collection):
    fill(collection)
    collection.create_indexes([
        IndexModel([("a", ASCENDING)], name="weak", collation=WEAK), IndexModel([("a", ASCENDING)], name="fr", collation=Collation("fr")),
    ])
    assert stages(collection.find({"a": "cafe"}).collation(WEAK).explain()) == ["FETCH", "IXSCAN"]
    assert stages(collection.find().sort("a").collation(Collation("fr")).explain()) == ["FETCH", "IXSCAN"]
    assert stages(collection.find({"a": "cafe"}).explain()) == ["COLLSCAN"]
    assert len(list(collection.find({"a": {"$gte": "CAFE", "$lt": "f"}}).collation(WEAK))) == 4
    with pytest.raises(OperationFailure) as refused:
        collection.create_index("a", name="weak", collation=Collation("de"))
    assert refused.value.code == 86
    collection.drop_index("weak")
    assert stages(collection.find({"a": "cafe"}).collation(WEAK).explain()) == ["COLLSCAN"]


def test_a_unique_index_is_unique_by_its_collation(collection):
    collection.create_index("a", unique=True, collation=WEAK)
    collection.insert_one({"a": "x"})
    with pytest.raises(BulkWriteError) as refused:
        collection.insert_many([{"a": "y"}, {"a": "X"}, {"a": "z"}], ordered=False)
    errors = refused.value.details["writeErrors"]
    assert [(error["index"], error["code"]) for error in errors] == [(1, 11000)]
    assert errors[0]["keyValue"]["a"].startswith("0x") and "collation: {" in errors[0]["errmsg"]
    assert collection.count_documents({}) == 3


@pytest.mark.parametrize("specification, code", [
    ({"locale": "xx"}, 2), ({"locale": "en", "strength": 6}, 2), ({"locale": "en", "caseFirst": "x"}, 2), ({"strength": 1}, 40414),
    ({"locale": "en", "odd": 1}, 40415), ({"locale": 1}, 14), ({"locale": "en", "version": "1"}, 161), ({"locale": "de", "backwards": True}, 238),
])
def test_bad_specifications_are_refused(collection, specification, code):
    fill(collection)
    database, name = collection.database, collection.name
    for command in [
        {"find": name, "collation": specification}, {"aggregate": name, "pipeline": [], "cursor": {}, "collation": specification},
        {"create": name + "_new", "collation": specification}, {"explain": {"count": name, "collation": specification}},
        {"createIndexes": name, "indexes": [{"key": {"a": 1}, "name": "a", "collation": specification}]},
    ]:
        with pytest.raises(OperationFailure) as refused:
            database.command(command)
        assert refused.value.code == code, command
    reply = database.command({"update": name, "updates": [{"q": {}, "u": {"$set": {"b": 1}}, "collation": specification}]})
    assert reply["writeErrors"][0]["code"] == code


def test_options_change_what_is_equal(collection):
    collection.insert_many([{"a": "black-bird"}, {"a": "Blackbird"}, {"a": "a2"}, {"a": "a10"}])
    shifted = Collation("en", strength=2, alternate=CollationAlternate.SHIFTED)
    assert collection.count_documents({"a": "blackbird"}, collation=shifted) == 2
    numeric = Collation("en", numericOrdering=True)
    assert [found["a"] for found in collection.find({"a": {"$lt": "b"}}).sort("a").collation(numeric)] == ["a2", "a10"]


def test_aggregates_that_write_and_look_up_compare_by_their_collation(collection):
    fill(collection)
    database, name = collection.database, collection.name
    other = database[name + "_other"]
    other.drop()
    other.insert_many([{"_id": 1, "k": "CAFÉ"}, {"_id": 2, "k": "x"}])
    looked_up = list(collection.aggregate([{"$lookup": {"from": other.name, "localField": "a", "foreignField": "k", "as": "f"}}], collation=WEAK))
    assert [len(found["f"]) for found in looked_up] == [1, 1, 1, 0, 0, 0]
    other.create_index("k", unique=True, collation=WEAK)
    merge = [{"$match": {"a": "tea"}}, {"$project": {"_id": 0, "k": "$a", "m": "$a"}}, {"$merge": {"into": other.name, "on": "k"}}]
    with pytest.raises(OperationFailure) as refused:
        collection.aggregate(merge)
    assert refused.value.code == 51183
    collection.aggregate(merge, collation=WEAK)
    assert other.count_documents({"k": "TEA"}, collation=WEAK) == 1
    other.drop()


def test_a_bulk_write_of_the_client_goes_by_the_collection(collection):
    database, name = collection.database, collection.name
    database.create_collection(name, collation=WEAK)
    fill(collection)
    reply = database.client.admin.command({
        "bulkWrite": 1, "nsInfo": [{"ns": f"{database.name}.{name}"}],
        "ops": [
            {"update": 0, "filter": {"a": "CAFE"}, "updateMods": {"$set": {"b": 1}}, "multi": True},
            {"delete": 0, "filter": {"a": "TEA"}, "multi": True, "collation": {"locale": "simple"}},
            {"delete": 0, "filter": {"a": "TEA"}, "multi": True},
        ],
    })
    assert (reply["nModified"], reply["nDeleted"]) == (3, 2)
