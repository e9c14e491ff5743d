"""Indexes and plans: what they find, what they forbid, and what explain and validate say about them."""

import threading

import pytest
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.errors import DuplicateKeyError, OperationFailure


def stages(plan):
    """The names of a winning plan's stages, from the top."""
    names = []
    while plan:
        names.append(plan["stage"])
        plan = plan.get("inputStage")
    return names


def explain(collection, query, **options):
    command = {"find": collection.name, "filter": query, **options}
    return collection.database.command("explain", command, verbosity="executionStats")


def test_listing_creating_and_dropping(collection):
    assert collection.create_index([("a", ASCENDING), ("b", DESCENDING)]) == "a_1_b_-1"
    assert collection.create_indexes([IndexModel("c", unique=True), IndexModel("d", sparse=True, name="mine")]) == ["c_1", "mine"]
    listed = {index["name"]: index for index in collection.list_indexes()}
    assert list(listed) == ["_id_", "a_1_b_-1", "c_1", "mine"]
    assert listed["_id_"]["key"] == {"_id": 1} and listed["_id_"]["v"] == 2
    assert listed["c_1"]["unique"] is True and listed["mine"]["sparse"] is True
    assert collection.create_index("c", unique=True) == "c_1", "the same index again is no error"
    collection.drop_index("c_1")
    collection.drop_index([("a", ASCENDING), ("b", DESCENDING)])
    assert [index["name"] for index in collection.list_indexes()] == ["_id_", "mine"]
    collection.drop_indexes()
    assert [index["name"] for index in collection.list_indexes()] == ["_id_"]


def test_index_errors_have_their_codes(collection):
    collection.create_index("a", name="x")
    for work, code in [
        (lambda: collection.create_index("a", name="y"), 85),
        (lambda: collection.create_index("b", name="x"), 86),
        (lambda: collection.drop_index("nothing"), 27),
        (lambda: collection.drop_index("_id_"), 72),
        (lambda: collection.find({}).hint("nothing").to_list(), 2),
    ]:
        with pytest.raises(OperationFailure) as raised:
            work()
        assert raised.value.code == code


def test_an_index_answers_as_a_scan_does(collection):
    documents = [{"_id": i, "a": i % 10, "b": [i % 7, i % 3], "c": {"d": str(i % 11)}, "e": i % 4 or None} for i in range(300)]
    collection.insert_many(documents)
    queries = [
        {"a": 3}, {"a": {"$gt": 7}}, {"a": {"$in": [1, 5, 99]}}, {"b": 6}, {"b": {"$gt": 1, "$lt": 4}}, {"c.d": "7"},
        {"a": 3, "b": 2}, {"a": {"$gte": 2, "$lte": 4}, "c.d": {"$gt": "5"}}, {"e": None}, {"e": {"$ne": None}},
        {"e": {"$exists": True}}, {"$or": [{"a": 1}, {"c.d": "2"}]}, {"b": {"$elemMatch": {"$gte": 2, "$lt": 3}}},
        {"a": {"$not": {"$gt": 2}}}, {"b": {"$all": [1, 2]}}, {"b": [1, 1]},
    ]

    def answers():
        return [sorted(document["_id"] for document in collection.find(query)) for query in queries]

    before = answers()
    for keys in (["a"], ["b"], ["c.d"], ["e"], [("a", 1), ("b", -1)], [("c.d", -1), ("a", 1)]):
        collection.create_index(keys if isinstance(keys[0], tuple) else keys[0])
    assert answers() == before
    collection.update_many({"a": 3}, {"$inc": {"a": 4}, "$push": {"b": 6}})
    after = answers()
    collection.drop_indexes()
    assert answers() == after


def test_explain_names_the_index_and_counts_what_was_examined(collection):
    collection.insert_many([{"_id": i, "a": i % 100, "b": i} for i in range(1000)])
    scan = explain(collection, {"a": 5})
    assert stages(scan["queryPlanner"]["winningPlan"])[-1] == "COLLSCAN"
    assert scan["executionStats"]["totalDocsExamined"] == 1000 and scan["executionStats"]["nReturned"] == 10
    collection.create_index("a")
    found = explain(collection, {"a": 5})
    assert stages(found["queryPlanner"]["winningPlan"])[-2:] == ["FETCH", "IXSCAN"]
    statistics = found["executionStats"]
    assert (statistics["nReturned"], statistics["totalKeysExamined"], statistics["totalDocsExamined"]) == (10, 10, 10)
    assert statistics["executionSuccess"] is True
    assert found["queryPlanner"]["namespace"] == collection.full_name
    plan = found["queryPlanner"]["winningPlan"]
    while "inputStage" in plan:
        plan = plan["inputStage"]
    assert plan["indexName"] == "a_1" and plan["keyPattern"] == {"a": 1} and plan["direction"] == "forward"
    assert plan["indexBounds"] == {"a": ["[5, 5]"]}


def test_an_index_gives_the_sort(collection):
    collection.insert_many([{"_id": i, "a": (i * 37) % 500} for i in range(500)])
    collection.create_index("a")
    assert "SORT" not in stages(explain(collection, {}, sort={"a": -1})["queryPlanner"]["winningPlan"])
    assert [d["a"] for d in collection.find().sort("a", -1).limit(5)] == [499, 498, 497, 496, 495]
    assert "SORT" in stages(explain(collection, {}, sort={"b": 1})["queryPlanner"]["winningPlan"])


def test_hint_forces_a_plan(collection):
    collection.insert_many([{"a": i, "b": i} for i in range(50)])
    collection.create_index("a")
    plan = explain(collection, {"a": 1}, hint={"$natural": 1})["queryPlanner"]["winningPlan"]
    assert stages(plan)[-1] == "COLLSCAN"
    plan = explain(collection, {"b": 1}, hint="a_1")["queryPlanner"]["winningPlan"]
    assert stages(plan)[-1] == "IXSCAN"


def test_unique_is_kept_by_every_way_of_writing(collection):
    collection.create_index([("a", 1), ("b", 1)], unique=True)
    collection.insert_many([{"_id": 1, "a": 1, "b": 1}, {"_id": 2, "a": 1, "b": 2}])
    for work in (
        lambda: collection.insert_one({"a": 1, "b": 2}),
        lambda: collection.update_one({"_id": 1}, {"$set": {"b": 2}}),
        lambda: collection.replace_one({"_id": 1}, {"a": 1, "b": 2}),
        lambda: collection.find_one_and_update({"_id": 1}, {"$inc": {"b": 1}}),
        lambda: collection.update_one({"_id": 9}, {"$set": {"a": 1, "b": 2}}, upsert=True),
    ):
        with pytest.raises((DuplicateKeyError, OperationFailure)) as raised:
            work()
        assert raised.value.code == 11000
    assert collection.count_documents({}) == 2
    collection.delete_one({"_id": 2})
    collection.update_one({"_id": 1}, {"$set": {"b": 2}})


def test_a_unique_index_over_duplicates_is_not_built(collection):
    collection.insert_many([{"a": 1}, {"a": 1}])
    with pytest.raises(OperationFailure) as raised:
        collection.create_index("a", unique=True)
    assert raised.value.code == 11000
    assert [index["name"] for index in collection.list_indexes()] == ["_id_"]


def test_drop_dups_is_taken_and_drops_nothing(collection):
    collection.insert_many([{"_id": 1, "a": 1}, {"_id": 2, "a": 1}, {"_id": 3, "b": 1}])
    for drops in (True, False):
        with pytest.raises(DuplicateKeyError):
            collection.create_index("a", unique=True, dropDups=drops)
    assert collection.count_documents({}) == 3 and len(list(collection.list_indexes())) == 1
    assert collection.create_index("b", dropDups=False) == "b_1"
    assert {"key": {"b": 1}, "name": "b_1", "v": 2} in [dict(index) for index in collection.list_indexes()]


def test_background_is_shown_as_it_was_given_and_does_nothing(collection):
    given = {"a": True, "b": False, "c": 1, "d": None}
    for name, background in given.items():
        collection.create_index(name, **({} if background is None else {"background": background}))
    # The same index, with and without it.
    assert collection.create_index("a") == "a_1" and collection.create_index("d", background=True) == "d_1"
    listed = {index["name"]: index.get("background") for index in collection.list_indexes()}
    assert listed == {"_id_": None, **{f"{name}_1": background for name, background in given.items()}}
    assert type(listed["a_1"]) is bool and type(listed["c_1"]) is int
    with pytest.raises(OperationFailure) as refused:
        collection.create_index("e", background="yes")
    assert refused.value.code == 14


def test_sparse_and_unique_lets_the_missing_be_many(collection):
    collection.create_index("a", unique=True, sparse=True)
    collection.insert_many([{"b": 1}, {"b": 2}, {"a": 1}])
    with pytest.raises(DuplicateKeyError):
        collection.insert_one({"a": 1})
    assert collection.count_documents({"a": None}) == 2, "a sparse index must not hide documents"


def test_an_index_is_built_while_writes_go_on(collection):
    collection.insert_many([{"_id": i, "a": i % 50} for i in range(5000)])
    stop = threading.Event()
    failures = []

    def write():
        number = 5000
        try:
            while not stop.is_set():
                collection.insert_one({"_id": number, "a": number % 50})
                collection.update_one({"_id": number - 4000}, {"$inc": {"a": 1}})
                collection.delete_one({"_id": number - 5000})
                number += 1
        except Exception as error:  # noqa: BLE001  (handed to the test's own thread)
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    collection.create_index("a")
    stop.set()
    writer.join()
    assert not failures
    result = collection.database.validate_collection(collection, full=True)
    assert result["valid"] is True and result["errors"] == []
    for key in (0, 7, 49):
        scanned = sorted(d["_id"] for d in collection.find({"a": key}).hint([("$natural", 1)]))
        assert sorted(d["_id"] for d in collection.find({"a": key}).hint("a_1")) == scanned


def test_validate_counts_every_index(collection):
    collection.create_index("a")
    collection.create_index("b", unique=True)
    collection.insert_many([{"a": [1, 2, 3], "b": i} for i in range(20)])
    result = collection.database.validate_collection(collection, full=True)
    assert result["valid"] is True and result["nrecords"] == 20 and result["nIndexes"] == 3
    assert result["keysPerIndex"] == {"_id_": 20, "a_1": 60, "b_1": 20}
    specs = {spec["name"]: spec for spec in collection.database.command("listIndexes", collection.name)["cursor"]["firstBatch"]}
    assert result["indexDetails"] == {name: {"valid": True, "spec": dict(spec)} for name, spec in specs.items()}
    for findings in ("warnings", "errors", "extraIndexEntries", "missingIndexEntries", "corruptRecords"):
        assert result[findings] == []
