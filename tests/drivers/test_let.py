"""The variables of `let`, in every command that takes them, and pipelines whose first stage makes the documents."""

import pytest
from pymongo.errors import OperationFailure


@pytest.fixture
def things(collection):
    collection.insert_many([{"_id": i, "a": i % 3, "s": "x" * i} for i in range(9)])
    return collection


def expr(field):
    return {"$expr": {"$eq": [f"${field}", "$$wanted"]}}


def test_find_and_its_projection_read_variables(things):
    found = things.find(expr("a"), {"sum": {"$add": ["$a", "$$more"]}}, let={"wanted": 2, "more": {"$add": [1, 1]}})
    assert list(found.sort("_id")) == [{"_id": i, "sum": 4} for i in (2, 5, 8)]


def test_a_variable_holds_for_later_batches(things):
    found = things.find({"$expr": {"$gte": ["$_id", "$$from"]}}, let={"from": 3}, batch_size=2)
    assert [document["_id"] for document in found] == list(range(3, 9))


def test_an_aggregate_reads_variables_in_every_stage(things):
    pipeline = [{"$match": expr("a")}, {"$group": {"_id": "$$wanted", "n": {"$sum": "$$wanted"}}}]
    assert list(things.aggregate(pipeline, let={"wanted": 1})) == [{"_id": 1, "n": 3}]


def test_writes_read_variables(things):
    assert things.update_many(expr("a"), {"$set": {"b": 1}}, let={"wanted": 0}).modified_count == 3
    assert things.find_one_and_update(expr("_id"), {"$inc": {"b": 1}}, let={"wanted": 3})["b"] == 1
    assert things.delete_many(expr("a"), let={"wanted": 0}).deleted_count == 3
    assert things.count_documents({}) == 6


def test_now_is_one_moment_for_a_command(things):
    stages = [{"$set": {"early": "$$NOW"}}, {"$match": {"$expr": {"$ne": ["$early", "$$NOW"]}}}]
    assert list(things.aggregate(stages)) == []
    assert things.count_documents({"$expr": {"$eq": [{"$type": "$$NOW"}, "date"]}}) == 9


@pytest.mark.parametrize("variables, code", [({"x": "$a"}, 4890500), ({"X": 1}, 9), ({"x": {"$divide": [1, 0]}}, 2)])
def test_what_no_variable_can_be(things, variables, code):
    for command in ("find", "aggregate"):
        options = {"pipeline": [], "cursor": {}} if command == "aggregate" else {}
        with pytest.raises(OperationFailure) as raised:
            things.database.command(command, things.name, let=variables, **options)
        assert raised.value.code == code


def test_documents_of_the_pipeline_itself(things):
    stages = [{"$documents": [{"a": 1}, {"a": 2}]}, {"$lookup": {"from": things.name, "localField": "a", "foreignField": "a", "as": "same"}}]
    found = list(things.database.aggregate(stages + [{"$project": {"a": 1, "n": {"$size": "$same"}}}]))
    assert found == [{"a": 1, "n": 3}, {"a": 2, "n": 3}]
    with pytest.raises(OperationFailure) as raised:
        things.aggregate(stages)
    assert raised.value.code == 73
    with pytest.raises(OperationFailure) as raised:
        things.database.aggregate([{"$match": {}}])
    assert raised.value.code == 73


def test_any_stage_may_follow_what_the_server_tells_of_itself(things):
    admin = things.database.client.admin
    counted = admin.aggregate([{"$currentOp": {}}, {"$group": {"_id": None, "n": {"$sum": 1}}}, {"$project": {"_id": 0}}])
    assert list(counted)[0]["n"] >= 1
    stats = things.aggregate([{"$collStats": {"count": {}}}, {"$project": {"count": {"$add": ["$count", 1]}}}])
    assert list(stats) == [{"count": 10}]
    with pytest.raises(OperationFailure) as raised:
        things.aggregate([{"$match": {}}, {"$collStats": {"count": {}}}])
    assert raised.value.code == 40602
