"""What is refused changes nothing, and what is done is done as asked: findAndModify in all its forms, and `_id`s of equal value."""

import itertools

import pytest
from bson import Decimal128, Int64
from pymongo.errors import OperationFailure

BAD_VALUE = 2
STORED = [{"_id": 1, "a": [5, 6], "n": 0, "s": "x"}, {"_id": 2, "a": [7], "n": 0, "s": "y"}]
QUERIES = [{"_id": 1}, {"a": 6}, {"a": {"$elemMatch": {"$gt": 5}}, "_id": 1}, {"_id": 9}]
CHANGES = [
    {"remove": True},
    {"update": {"$inc": {"n": 1}}},
    {"update": {"$set": {"a.0": {"deep": [1]}}}},
    {"update": {"z": 1}},
    {"update": {"$inc": {"s": 1}}},
    {"update": {"$set": {"_id": 3}}},
]
PROJECTIONS = [
    None, {}, {"n": 1}, {"n": 0}, {"a.$": 1}, {"a": {"$slice": 1}}, {"a": {"$elemMatch": {"$gt": 5}}}, {"n": 1, "s": 0},
    {"b": {"$divide": [1, "$n"]}}, {"b": {"$divide": [1, 0]}}, {"b": {"$add": ["$s", 1]}}, {"b": {"$bogus": 1}}, {"a.$": 1, "n": 0},
    {"b": {"$arrayElemAt": ["$a", 0]}}, {"": 1}, {"a..b": 1},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_refused_find_and_modify_changes_nothing(collection, change):
    collection.create_index("n")
    collection.create_index("a")
    outcomes = {"refused": 0, "done": 0}
    for query, fields, new, upsert in itertools.product(QUERIES, PROJECTIONS, [False, True], [False, True]):
        collection.delete_many({})
        collection.insert_many(STORED)
        command = {"query": query, **change}
        command |= {"fields": fields} if fields is not None else {}
        command |= {"new": True} if new else {}
        command |= {"upsert": True} if upsert else {}
        try:
            reply = collection.database.command("findAndModify", collection.name, **command)
        except OperationFailure as refusal:
            outcomes["refused"] += 1
            assert list(collection.find()) == STORED, (command, refusal)
            continue
        outcomes["done"] += 1
        assert not (new and fields and "a.$" in fields), command
        assert list(collection.find().sort("_id", 1)) == expected_after(query, change, upsert), (command, reply)
    assert outcomes["refused"] > 50, outcomes


def expected_after(query, change, upsert):
    """What the collection holds after a findAndModify that was done."""
    is_found = query["_id"] != 9 if "_id" in query else True
    first, second = STORED
    if not is_found:
        return [*STORED, {"_id": 9, **upserted(change)}] if upsert else STORED
    if "remove" in change:
        return [second]
    update = change["update"]
    if "$inc" in update:
        return [{**first, "n": first["n"] + update["$inc"]["n"]}, second]
    if "$set" in update:
        return [{**first, "a": [update["$set"]["a.0"], *first["a"][1:]]}, second]
    return [{"_id": 1, **update}, second]


def upserted(change):
    update = change["update"]
    if "$inc" in update:
        return update["$inc"]
    if "$set" in update:
        return {"a": {"0": update["$set"]["a.0"]}}
    return update


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("upsert", [False, True])
def test_a_positional_projection_of_the_new_document_is_bad_value(collection, new, upsert):
    collection.insert_many(STORED)
    command = {"query": {"a": 6}, "update": {"$inc": {"n": 1}}, "fields": {"a.$": 1}, "new": new, "upsert": upsert}
    if not new:
        assert collection.database.command("findAndModify", collection.name, **command)["value"] == {"_id": 1, "a": [6]}
        return
    with pytest.raises(OperationFailure) as refused:
        collection.database.command("findAndModify", collection.name, **command)
    assert refused.value.code == BAD_VALUE
    assert list(collection.find()) == STORED


EQUAL_IDS = [
    [1, 1.0, Int64(1), Decimal128("1"), Decimal128("1.0")],
    [{"k": 1}, {"k": 1.0}, {"k": Int64(1)}],
    [{"k": {"m": [1, 2]}}, {"k": {"m": [1.0, Int64(2)]}}],
]
WRITES = {
    "replace": lambda things, old, new: things.replace_one({"_id": old}, {"_id": new, "a": 1, "u": 5}),
    "replace by another field": lambda things, _, new: things.replace_one({"u": {"$exists": True}}, {"_id": new, "a": 1, "u": 6}),
    "set": lambda things, old, new: things.update_one({"_id": old}, {"$set": {"_id": new, "a": 2}}),
    "upsert": lambda things, old, new: things.replace_one({"_id": old}, {"_id": new, "a": 3, "u": 7}, upsert=True),
    "findAndModify": lambda things, old, new: things.find_one_and_replace({"_id": old}, {"_id": new, "a": 4, "u": 8}),
    "update many": lambda things, _, new: things.update_many({}, {"$set": {"_id": new, "a": 5}}),
}


@pytest.mark.parametrize("write", WRITES)
def test_an_equal_id_of_another_type_leaves_the_stored_one(collection, write):
    """The database is validated at the end, with the type bits of every index entry."""
    collection.create_index("a")
    collection.create_index("u", unique=True)
    collection.create_index([("_id", -1), ("a", 1)])
    for equal in EQUAL_IDS:
        for old, new in itertools.permutations(equal, 2):
            collection.delete_many({})
            collection.insert_one({"_id": old, "a": 0, "u": 1})
            WRITES[write](collection, old, new)
            found = collection.find_one()
            assert repr(found["_id"]) == repr(old), (old, new, found)
            for hint in ("a_1", "u_1", "_id_-1_a_1"):
                assert list(collection.find({}, hint=hint)) == [found], (old, new, hint)
            covered = collection.find_one({"a": found["a"]}, {"_id": 1, "a": 1}, hint="_id_-1_a_1")
            assert repr(covered["_id"]) == repr(old), (old, new, covered)
            result = collection.database.validate_collection(collection, full=True)
            assert result["valid"] is True and result["errors"] == [], (old, new, result)
