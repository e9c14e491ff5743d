"""The options of find about keys and RecordIds, as drivers send them: min, max, returnKey, showRecordId and $meta."""

import pytest
from bson import Binary, MaxKey
from pymongo import ASCENDING, DESCENDING
from pymongo.errors import OperationFailure


@pytest.fixture
def things(collection):
    collection.insert_many([{"_id": number, "a": number % 5, "b": number} for number in range(200)])
    collection.create_index([("a", ASCENDING), ("b", DESCENDING)])
    return collection


BY_BOTH = [("a", ASCENDING), ("b", DESCENDING)]


def test_bounds_of_keys_go_on_from_batch_to_batch(things):
    found = things.find(min={"_id": 20}, max={"_id": 120}, hint=[("_id", 1)], batch_size=7)
    assert [thing["_id"] for thing in found] == list(range(20, 120))
    found = list(things.find(min={"a": 1, "b": 100}, max={"a": 2, "b": 150}, hint=BY_BOTH, batch_size=7))
    # Within one value of `a` the keys descend by `b`: those of 1 from 100 on down, and those of 2 above 150.
    assert [thing["b"] for thing in found] == [b for b in range(96, 0, -5)] + [b for b in range(197, 150, -5)]
    plan = things.find(min={"_id": 20}, hint="_id_").explain()["queryPlanner"]["winningPlan"]
    assert plan["inputStage"]["indexBounds"] == {"_id": ["[20, MaxKey]"]}


@pytest.mark.parametrize(("options", "code"), [
    ({"min": {"a": 1}}, 51173),
    ({"min": {"a": 1}, "hint": "_id_"}, 51174),
    ({"min": {"a": 1}, "hint": {"a": 1, "b": -1}}, 51174),
    ({"min": {"_id": 1}, "max": {"_id": 1}, "hint": "_id_"}, 51175),
    ({"min": {"_id": 1}, "max": {"a": 1}, "hint": "_id_"}, 51176),
    ({"min": {"_id": 1}, "hint": {"$natural": 1}}, 291),
    ({"min": {"_id": 1}, "hint": "none"}, 2),
    ({"min": 1}, 14),
])
def test_bounds_that_mean_nothing_are_refused(things, options, code):
    with pytest.raises(OperationFailure) as refused:
        things.database.command("find", things.name, **options)
    assert refused.value.code == code, refused.value


def test_keys_are_returned_in_place_of_documents(things):
    keys = list(things.find({"a": 3, "b": {"$lt": 20}}, return_key=True, batch_size=2))
    assert keys == [{"a": 3, "b": b} for b in (18, 13, 8, 3)]
    assert list(things.find({"_id": {"$lt": 3}}, return_key=True)) == [{"_id": number} for number in range(3)]
    assert list(things.find({"b": 5}, return_key=True)) == [{}]
    plan = things.database.command("explain", {"find": things.name, "filter": {"a": 3}, "returnKey": True})
    plan = plan["queryPlanner"]["winningPlan"]
    assert (plan["stage"], plan["inputStage"]["stage"]) == ("RETURN_KEY", "IXSCAN")


def test_record_ids_are_shown(things, database):
    shown = list(things.find({"a": 3}, {"b": 1}, show_record_id=True, batch_size=9).sort("b", 1))
    assert [thing["b"] for thing in shown] == list(range(3, 200, 5))
    record_ids = [thing["$recordId"] for thing in shown]
    assert all(isinstance(record_id, (bytes, Binary)) for record_id in record_ids)
    assert record_ids == sorted(set(record_ids))
    capped = database.create_collection("capped", capped=True, size=4096)
    capped.insert_many([{"_id": name} for name in "cab"])
    assert [(thing["_id"], thing["$recordId"]) for thing in capped.find(show_record_id=True)] == [("c", 1), ("a", 2), ("b", 3)]
    database.create_collection("seen", viewOn="capped", pipeline=[])
    with pytest.raises(OperationFailure) as refused:
        list(database.seen.find(show_record_id=True))
    assert refused.value.code == 168


def test_metadata_is_projected(things):
    found = list(things.find({"a": 3, "b": {"$lt": 10}}, {"_id": 1, "k": {"$meta": "sortKey"}}).sort([("b", -1), ("c", 1)]))
    assert found == [{"_id": 8, "k": [8, None]}, {"_id": 3, "k": [3, None]}]
    pipeline = [{"$match": {"a": 4}}, {"$limit": 2}, {"$project": {"key": {"$meta": "indexKey"}}}]
    assert list(things.aggregate(pipeline)) == [{"_id": 199, "key": {"a": 4, "b": 199}}, {"_id": 194, "key": {"a": 4, "b": 194}}]
    bounded = things.find({}, {"_id": 1, "k": {"$meta": "indexKey"}}, hint=BY_BOTH, min={"a": 4, "b": 9}, max={"a": MaxKey(), "b": 0})
    assert list(bounded) == [{"_id": 9, "k": {"a": 4, "b": 9}}, {"_id": 4, "k": {"a": 4, "b": 4}}]
    for projection, code in [({"k": {"$meta": "textScore"}}, 40218), ({"k": {"$meta": "sortKey"}}, 2)]:
        with pytest.raises(OperationFailure) as refused:
            list(things.find({}, projection))
        assert refused.value.code == code
