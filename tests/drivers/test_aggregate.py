"""The aggregation pipeline, as far as it is served."""

import pytest
from pymongo.errors import OperationFailure


@pytest.fixture
def sales(collection):
    collection.insert_many([
        {"_id": 1, "item": "a", "price": 10, "n": 2, "tags": ["x", "y"]},
        {"_id": 2, "item": "b", "price": 20, "n": 1, "tags": ["x"]},
        {"_id": 3, "item": "a", "price": 5, "n": 10, "tags": []},
        {"_id": 4, "item": "c", "price": None, "n": 1},
    ])
    return collection


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        ([{"$match": {"item": "a"}}, {"$project": {"n": 1, "_id": 0}}], [{"n": 2}, {"n": 10}]),
        ([{"$match": {"_id": 1}}, {"$project": {"total": {"$multiply": ["$price", "$n"]}}}], [{"_id": 1, "total": 20}]),
        ([{"$match": {"_id": 1}}, {"$addFields": {"d.e": "$item"}}, {"$unset": ["tags", "price"]}],
         [{"_id": 1, "item": "a", "n": 2, "d": {"e": "a"}}]),
        ([{"$sort": {"n": -1, "_id": 1}}, {"$skip": 1}, {"$limit": 2}, {"$project": {"_id": 1}}], [{"_id": 1}, {"_id": 2}]),
        ([{"$match": {"item": {"$ne": "c"}}}, {"$count": "many"}], [{"many": 3}]),
        ([{"$group": {"_id": "$item", "n": {"$sum": "$n"}, "p": {"$avg": "$price"}, "k": {"$sum": 1}}}, {"$sort": {"_id": 1}}],
         [{"_id": "a", "n": 12, "p": 7.5, "k": 2}, {"_id": "b", "n": 1, "p": 20.0, "k": 1}, {"_id": "c", "n": 1, "p": None, "k": 1}]),
        ([{"$sort": {"_id": 1}}, {"$group": {"_id": None, "lo": {"$min": "$price"}, "hi": {"$max": "$n"}, "f": {"$first": "$_id"},
                                             "l": {"$last": "$_id"}, "all": {"$push": "$item"}}}],
         [{"_id": None, "lo": 5, "hi": 10, "f": 1, "l": 4, "all": ["a", "b", "a", "c"]}]),
        ([{"$unwind": "$tags"}, {"$sortByCount": "$tags"}], [{"_id": "x", "count": 2}, {"_id": "y", "count": 1}]),
        ([{"$match": {"_id": {"$gt": 2}}}, {"$unwind": {"path": "$tags", "preserveNullAndEmptyArrays": True}},
          {"$project": {"_id": 1}}, {"$sort": {"_id": 1}}], [{"_id": 3}, {"_id": 4}]),
        ([{"$match": {"_id": 2}}, {"$replaceRoot": {"newRoot": {"only": "$item", "all": "$$ROOT.n"}}}], [{"only": "b", "all": 1}]),
        ([{"$match": {"_id": {"$in": [1, 4]}}}, {"$sort": {"_id": 1}},
          {"$project": {"v": {"$cond": [{"$gt": ["$n", 1]}, "many", "one"]}, "p": {"$ifNull": ["$price", "none"]}}}],
         [{"_id": 1, "v": "many", "p": 10}, {"_id": 4, "v": "one", "p": "none"}]),
        ([{"$match": {"_id": 1}}, {"$project": {"_id": 0, "s": {"$concat": ["$item", "-", "z"]}, "d": {"$divide": ["$price", 4]},
                                                "m": {"$mod": ["$price", 3]}, "l": {"$literal": "$x"}}}],
         [{"s": "a-z", "d": 2.5, "m": 1, "l": "$x"}]),
        ([{"$match": {"_id": 1}}, {"$project": {"_id": 0, "b": {"$and": [True, {"$not": [False]}]}, "c": {"$cmp": ["$n", 3]},
                                                "missing": "$nowhere"}}],
         [{"b": True, "c": -1}]),
    ],
)
def test_pipelines(sales, pipeline, expected):
    assert list(sales.aggregate(pipeline)) == expected


def test_sample_takes_as_many_as_asked(sales):
    taken = [document["_id"] for document in sales.aggregate([{"$sample": {"size": 3}}])]
    assert len(taken) == len(set(taken)) == 3


def test_lookup_joins_by_equality(sales, database):
    database.items.insert_many([{"_id": "a", "name": "apple"}, {"_id": "b", "name": "bread"}])
    joined = sales.aggregate([
        {"$lookup": {"from": "items", "localField": "item", "foreignField": "_id", "as": "found"}},
        {"$sort": {"_id": 1}}, {"$project": {"name": "$found.name"}},
    ])
    assert [document["name"] for document in joined] == [["apple"], ["bread"], ["apple"], []]


def test_a_large_result_comes_in_batches(collection):
    collection.insert_many([{"_id": i} for i in range(1000)])
    assert len(list(collection.aggregate([{"$match": {}}, {"$sort": {"_id": 1}}], batchSize=7))) == 1000


@pytest.mark.parametrize(
    ("pipeline", "code"),
    [
        ([{"$bogus": 1}], 40324), ([{"$project": {"a": {"$bogus": 1}}}], 31325), ([{"$addFields": {"a": {"$bogus": 1}}}], 168),
        ([{"$limit": 0}], 15958), ([{"$match": 1}], 15959), ([{"$group": {}}], 15955), ([{"$unwind": "a"}], 28818),
        ([{"$match": {}, "$limit": 1}], 40323), ([{"$count": 1}], 40156), ([{"$count": ""}], 40157),
    ],
)
def test_a_wrong_pipeline_is_an_error_with_the_documented_code(sales, pipeline, code):
    with pytest.raises(OperationFailure) as raised:
        list(sales.aggregate(pipeline))
    assert raised.value.code == code


def test_lookup_runs_a_pipeline_with_variables(sales, database):
    database.items.insert_many([{"_id": i, "item": "ab"[i % 2], "stock": i} for i in range(20)])
    database.items.create_index("item")
    lookup = {"from": "items", "as": "found", "let": {"item": "$item", "n": "$n"}, "pipeline": [
        {"$match": {"$expr": {"$and": [{"$eq": ["$item", "$$item"]}, {"$lt": ["$stock", "$$n"]}]}}},
        {"$sort": {"stock": -1}}, {"$project": {"_id": 0, "stock": 1}}]}
    joined = sales.aggregate([{"$lookup": lookup}, {"$sort": {"_id": 1}}])
    stocks = [[found["stock"] for found in document["found"]] for document in joined]
    assert stocks == [[0], [], [8, 6, 4, 2, 0], []]


def test_a_union_comes_in_batches(sales, database):
    database.items.insert_many([{"_id": 100 + i} for i in range(300)])
    ids = [document["_id"] for document in sales.aggregate([{"$unionWith": "items"}], batchSize=7)]
    assert ids == [1, 2, 3, 4, *range(100, 400)]


def test_a_union_ends_with_its_collection(sales, database):
    database.items.insert_many([{"_id": 100 + i} for i in range(300)])
    with sales.aggregate([{"$unionWith": "items"}], batchSize=7) as cursor:
        for _ in range(7):
            next(cursor)
        database.items.drop()
        with pytest.raises(OperationFailure) as raised:
            list(cursor)
    assert raised.value.code == 175


def test_facets_see_the_same_documents(sales):
    facets = {"by_item": [{"$sortByCount": "$item"}, {"$limit": 1}], "total": [{"$group": {"_id": None, "n": {"$sum": "$n"}}}]}
    assert list(sales.aggregate([{"$facet": facets}])) == [{"by_item": [{"_id": "a", "count": 2}], "total": [{"_id": None, "n": 14}]}]


def test_a_graph_is_followed(collection):
    collection.insert_many([{"_id": 1, "to": 2}, {"_id": 2, "to": [3, 1]}, {"_id": 3, "to": 4}, {"_id": 4}])
    search = {"from": collection.name, "startWith": "$to", "connectFromField": "to", "connectToField": "_id", "as": "way",
              "depthField": "steps", "maxDepth": 1}
    [found] = collection.aggregate([{"$match": {"_id": 1}}, {"$graphLookup": search}])
    assert {document["_id"]: document["steps"] for document in found["way"]} == {2: 0, 3: 1, 1: 1}


def test_a_result_takes_the_place_of_a_collection(sales, database):
    database.totals.insert_one({"_id": "old"})
    database.totals.create_index("n", unique=True)
    group = {"$group": {"_id": "$item", "n": {"$sum": "$n"}}}
    assert list(sales.aggregate([{"$match": {"item": {"$ne": "c"}}}, group, {"$out": "totals"}])) == []
    assert {total["_id"]: total["n"] for total in database.totals.find()} == {"a": 12, "b": 1}
    assert database.totals.index_information()["n_1"]["unique"]
    # A document that an index refuses: what was there stays, and nothing else does.
    with pytest.raises(OperationFailure) as raised:
        sales.aggregate([group, {"$out": "totals"}])
    assert raised.value.code == 11000
    assert database.totals.count_documents({}) == 2
    assert sorted(database.list_collection_names()) == sorted([sales.name, "totals"])


def test_a_result_is_merged_into_a_collection(sales, database, client):
    merge = {"$merge": {"into": {"db": database.name, "coll": "totals"}, "let": {"more": "$n"},
                        "whenMatched": [{"$set": {"n": {"$add": ["$n", "$$more"]}}}]}}
    pipeline = [{"$group": {"_id": "$item", "n": {"$sum": "$n"}}}, merge]
    for _ in range(2):
        assert list(sales.aggregate(pipeline)) == []
    assert {total["_id"]: total["n"] for total in database.totals.find()} == {"a": 24, "b": 2, "c": 2}
    with pytest.raises(OperationFailure) as raised:
        sales.aggregate([{"$merge": {"into": "totals", "on": "n"}}])
    assert raised.value.code == 51183
    with pytest.raises(OperationFailure) as raised:
        sales.aggregate([{"$project": {"_id": "$item"}}, {"$merge": {"into": "totals", "whenMatched": "fail"}}])
    assert raised.value.code == 11000
    assert raised.value.details["keyPattern"] == {"_id": 1}
