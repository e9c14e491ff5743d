"""Hashed and wildcard indexes as drivers make and use them."""

import pytest
from pymongo import ASCENDING, HASHED
from pymongo.errors import OperationFailure, WriteError


def scan_of(found):
    return found.explain()["queryPlanner"]["winningPlan"].get("inputStage", {})


def test_a_hashed_index_finds_single_values(collection):
    collection.insert_many([{"_id": number, "user": f"u{number % 50}", "at": number} for number in range(500)])
    assert collection.create_index([("user", HASHED)]) == "user_hashed"
    assert collection.index_information()["user_hashed"]["key"] == [("user", "hashed")]
    assert {thing["_id"] % 50 for thing in collection.find({"user": "u7"}, batch_size=3)} == {7}
    assert scan_of(collection.find({"user": "u7"}))["indexName"] == "user_hashed"
    assert collection.count_documents({"user": {"$in": ["u1", "u2", "none"]}}) == 20
    assert scan_of(collection.find({"user": {"$gt": "u7"}})) == {}
    collection.create_index([("at", ASCENDING), ("user", HASHED)])
    assert [thing["_id"] for thing in collection.find({"at": {"$gte": 497}, "user": "u48"})] == [498]
    with pytest.raises(WriteError) as refused:
        collection.insert_one({"user": ["a"]})
    assert refused.value.code == 16766
    for keys, options, code in [([("a", HASHED)], {"unique": True}, 16764), ([("a", HASHED), ("b", HASHED)], {}, 31303)]:
        with pytest.raises(OperationFailure) as refused:
            collection.create_index(keys, **options)
        assert refused.value.code == code
    assert collection.database.command("validate", collection.name)["valid"]


def test_a_wildcard_index_finds_any_path(collection):
    collection.insert_many([{"_id": number, "props": {f"p{number % 10}": number, "tags": [number, "x"]}} for number in range(500)])
    assert collection.create_index([("$**", ASCENDING)]) == "$**_1"
    assert [thing["_id"] for thing in collection.find({"props.p3": {"$gte": 450}}, batch_size=2)] == [453, 463, 473, 483, 493]
    scan = scan_of(collection.find({"props.p3": {"$gte": 450}}))
    assert (scan["indexName"], scan["keyPattern"], scan["isMultiKey"]) == ("$**_1", {"$_path": 1, "props.p3": 1}, False)
    newest = list(collection.find({"props.p3": {"$gt": 0}}).sort("props.p3", -1).limit(2))
    assert [thing["_id"] for thing in newest] == [493, 483]
    assert collection.count_documents({"props.tags": "x"}) == 500
    assert collection.count_documents({"props.p4": {"$exists": True}}) == 50
    assert scan_of(collection.find({"props.p4": {"$exists": False}})) == {}
    collection.update_many({"props.p3": {"$exists": True}}, {"$rename": {"props.p3": "props.q3"}})
    assert collection.count_documents({"props.q3": {"$gte": 0}}) == 50
    with pytest.raises(OperationFailure) as refused:
        list(collection.find({"props": None}).hint("$**_1"))
    assert refused.value.code == 291
    assert collection.database.command("validate", collection.name)["valid"]


def test_a_wildcard_projection_is_listed_and_kept(collection):
    collection.insert_many([{"_id": number, "a": {"b": number}, "c": number} for number in range(20)])
    collection.create_index([("$**", ASCENDING)], wildcardProjection={"a": 1})
    assert collection.index_information()["$**_1"]["wildcardProjection"] == {"a": 1}
    assert scan_of(collection.find({"a.b": 5}))["indexName"] == "$**_1"
    assert scan_of(collection.find({"c": 5})) == {}
    collection.create_index([("c", ASCENDING), ("a.$**", ASCENDING)], name="both")
    assert [thing["_id"] for thing in collection.find({"c": 5, "a.b": {"$lt": 9}}, hint="both")] == [5]
    with pytest.raises(OperationFailure) as refused:
        collection.create_index([("$**", ASCENDING)], unique=True, name="unique")
    assert refused.value.code == 67
