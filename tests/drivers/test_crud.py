"""Create, read, update, delete: what the documentation of MongoDB promises an application."""

import datetime
import re

import pytest
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from pymongo import ASCENDING, DESCENDING, DeleteOne, InsertOne, ReplaceOne, ReturnDocument, UpdateMany, UpdateOne
from pymongo.errors import BulkWriteError, ClientBulkWriteException, DuplicateKeyError, OperationFailure, WriteError
from pymongo.write_concern import WriteConcern


def ids(cursor):
    return [document["_id"] for document in cursor]


def test_every_type_comes_back_as_it_was_sent(collection):
    document = {
        "_id": ObjectId(), "double": 1.5, "string": "grüße\0x", "document": {"a": {"b": []}}, "array": [1, "x", None],
        "binary": Binary(b"\0\1", 5), "true": True, "date": datetime.datetime(2001, 2, 3, 4, 5, 6, 7000),
        "null": None, "regex": Regex("^a", "i"), "code": Code("return 1"), "scope": Code("x", {"x": 1}), "int": 7,
        "timestamp": Timestamp(5, 6), "long": Int64(2**40), "decimal": Decimal128("1.10"), "min": MinKey(), "max": MaxKey(),
    }
    collection.insert_one(document)
    found = collection.find_one({"_id": document["_id"]})
    assert found == document
    assert list(found) == list(document), "the order of fields is the client's"


def test_an_id_is_made_by_the_server_when_missing(database):
    database.command("insert", "things", documents=[{"a": 1}])
    assert isinstance(database.things.find_one()["_id"], ObjectId)


def test_a_missing_document_is_none(collection):
    assert collection.find_one({"_id": 1}) is None
    assert list(collection.find({"a": 1})) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"a": 1}, [1, 4]),
        ({"a": {"$eq": 1.0}}, [1, 4]),
        ({"a": Int64(2)}, [2, 4]),
        ({"a": {"$gt": 1}}, [2, 4]),
        ({"a": {"$gte": 2}}, [2, 4]),
        ({"a": {"$lt": 2}}, [1, 4]),
        ({"a": {"$lte": 0}}, []),
        ({"a": {"$ne": 1}}, [2, 3, 5, 6]),
        ({"a": {"$in": [2, "x"]}}, [2, 4, 5]),
        ({"a": {"$in": [re.compile("^x")]}}, [5]),
        ({"a": {"$nin": [1, "x"]}}, [2, 3, 6]),
        ({"a": None}, [3, 6]),
        ({"a": {"$exists": True}}, [1, 2, 3, 4, 5]),
        ({"a": {"$exists": False}}, [6]),
        ({"a": {"$type": "string"}}, [5]),
        ({"a": {"$type": ["null", 2]}}, [3, 5]),
        ({"a": {"$type": "number"}}, [1, 2, 4]),
        ({"a": [1, 2]}, [4]),
        ({"a": {"$all": [1, 2]}}, [4]),
        ({"a": {"$size": 2}}, [4]),
        ({"a": {"$not": {"$gt": 1}}}, [1, 3, 5, 6]),
        ({"a": {"$mod": [2, 0]}}, [2, 4]),
        ({"a": {"$elemMatch": {"$gt": 1, "$lt": 3}}}, [4]),
        ({"a": re.compile("X", re.I)}, [5]),
        ({"$or": [{"a": 2}, {"b.c": 1}]}, [2, 4, 6]),
        ({"$and": [{"a": {"$exists": True}}, {"b": {"$exists": True}}]}, [5]),
        ({"$nor": [{"a": 1}, {"a": None}]}, [2, 5]),
        ({"b.c": 1}, [6]),
        ({"b.c": {"$gt": 1}}, [5]),
        ({"b.0.c": 2}, [5]),
        ({"b": {"$elemMatch": {"c": 3, "d": 4}}}, [5]),
        ({"b": {"c": 1}}, [6]),
        ({"a.1": 2}, [4]),
        ({}, [1, 2, 3, 4, 5, 6]),
    ],
)
def test_filters(collection, query, expected):
    collection.insert_many([
        {"_id": 1, "a": 1}, {"_id": 2, "a": 2}, {"_id": 3, "a": None}, {"_id": 4, "a": [1, 2]},
        {"_id": 5, "a": "x", "b": [{"c": 2}, {"c": 3, "d": 4}]}, {"_id": 6, "b": {"c": 1}},
    ])
    assert ids(collection.find(query).sort("_id", 1)) == expected
    assert collection.count_documents(query) == len(expected)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"$bogus": 1}, 2), ({"a": {"$bogus": 1}}, 2), ({"a": {"$in": 1}}, 2), ({"$or": []}, 2), ({"$and": 1}, 2),
        ({"a": {"$mod": [1]}}, 2), ({"a": {"$type": "nothing"}}, 2),
    ],
)
def test_a_wrong_filter_is_an_error_with_the_documented_code(collection, query, code):
    collection.insert_one({})
    with pytest.raises(OperationFailure) as raised:
        collection.find_one(query)
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("projection", "expected"),
    [
        ({"a": 1}, {"_id": 1, "a": 1}),
        ({"a": 1, "_id": 0}, {"a": 1}),
        ({"a": 0, "n": 0}, {"_id": 1, "b": {"c": 2, "d": 3}, "s": [{"k": 1}, {"k": 2}, {"k": 3}]}),
        ({"b.c": 1}, {"_id": 1, "b": {"c": 2}}),
        ({"b": {"d": 1}, "_id": 0}, {"b": {"d": 3}}),
        ({"b.c": 0, "s": 0, "n": 0}, {"_id": 1, "a": 1, "b": {"d": 3}}),
        ({"n": {"$slice": 2}, "s": 0, "b": 0}, {"_id": 1, "a": 1, "n": [1, 2]}),
        ({"n": {"$slice": -1}, "a": 1}, {"_id": 1, "a": 1, "n": [4]}),
        ({"n": {"$slice": [1, 2]}, "_id": 1}, {"_id": 1, "n": [2, 3]}),
        ({"s": {"$elemMatch": {"k": {"$gt": 1}}}}, {"_id": 1, "s": [{"k": 2}]}),
        ({"s.k": 1, "_id": 0}, {"s": [{"k": 1}, {"k": 2}, {"k": 3}]}),
    ],
)
def test_projections(collection, projection, expected):
    collection.insert_one(
        {"_id": 1, "a": 1, "b": {"c": 2, "d": 3}, "n": [1, 2, 3, 4], "s": [{"k": 1}, {"k": 2}, {"k": 3}]}
    )
    assert collection.find_one({}, projection) == expected


def test_the_positional_projection_gives_the_element_that_matched(collection):
    collection.insert_one({"_id": 1, "n": [1, 5, 9]})
    assert collection.find_one({"n": {"$gt": 4}}, {"n.$": 1}) == {"_id": 1, "n": [5]}


def test_inclusion_and_exclusion_do_not_mix(collection):
    collection.insert_one({})
    with pytest.raises(OperationFailure) as raised:
        collection.find_one({}, {"a": 1, "b": 0})
    assert raised.value.code == 31254


def test_sort_skip_and_limit(collection):
    collection.insert_many([{"_id": i, "k": i % 3, "n": [i, 10 - i]} for i in range(10)])
    assert ids(collection.find().sort([("k", ASCENDING), ("_id", DESCENDING)])) == [9, 6, 3, 0, 7, 4, 1, 8, 5, 2]
    assert ids(collection.find().sort("_id", -1).skip(2).limit(3)) == [7, 6, 5]
    smallest = [min(i, 10 - i) for i in ids(collection.find().sort("n", 1))]
    assert smallest == sorted(smallest), "an array sorts ascending by its smallest element"
    largest = [max(i, 10 - i) for i in ids(collection.find().sort("n", -1))]
    assert largest == sorted(largest, reverse=True), "and descending by its largest"


def test_the_order_of_types(collection):
    ordered = [MinKey(), None, 1, "a", {"a": 1}, Binary(b"a", 5), ObjectId(), True,
               datetime.datetime(2020, 1, 1), Timestamp(1, 1), Regex("a"), MaxKey()]
    collection.insert_many([{"_id": i, "v": v} for i, v in reversed(list(enumerate(ordered)))])
    assert ids(collection.find().sort("v", 1)) == list(range(len(ordered)))
    assert ids(collection.find().sort("v", -1)) == list(reversed(range(len(ordered))))


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        ({"$set": {"a": 5, "n.x.y": 1}}, {"a": 5, "b": [1, 2, 3], "n": {"x": {"y": 1}}}),
        ({"$set": {"b.1": 9}}, {"a": 1, "b": [1, 9, 3]}),
        ({"$set": {"b.5": 9}}, {"a": 1, "b": [1, 2, 3, None, None, 9]}),
        ({"$unset": {"a": ""}}, {"b": [1, 2, 3]}),
        ({"$inc": {"a": 2, "c": 3}}, {"a": 3, "b": [1, 2, 3], "c": 3}),
        ({"$inc": {"a": 0.5}}, {"a": 1.5, "b": [1, 2, 3]}),
        ({"$mul": {"a": 3, "c": 3}}, {"a": 3, "b": [1, 2, 3], "c": 0}),
        ({"$min": {"a": 0}}, {"a": 0, "b": [1, 2, 3]}),
        ({"$max": {"a": 0}}, {"a": 1, "b": [1, 2, 3]}),
        ({"$rename": {"a": "z"}}, {"b": [1, 2, 3], "z": 1}),
        ({"$setOnInsert": {"z": 1}}, {"a": 1, "b": [1, 2, 3]}),
        ({"$bit": {"a": {"or": 6}}}, {"a": 7, "b": [1, 2, 3]}),
        ({"$push": {"b": 4}}, {"a": 1, "b": [1, 2, 3, 4]}),
        ({"$push": {"b": {"$each": [9, 0], "$sort": 1, "$slice": 3}}}, {"a": 1, "b": [0, 1, 2]}),
        ({"$push": {"b": {"$each": [7], "$position": 1}}}, {"a": 1, "b": [1, 7, 2, 3]}),
        ({"$push": {"b": {"$each": [], "$slice": -2}}}, {"a": 1, "b": [2, 3]}),
        ({"$addToSet": {"b": 2}}, {"a": 1, "b": [1, 2, 3]}),
        ({"$addToSet": {"b": {"$each": [3, 4, 4]}}}, {"a": 1, "b": [1, 2, 3, 4]}),
        ({"$pop": {"b": 1}}, {"a": 1, "b": [1, 2]}),
        ({"$pop": {"b": -1}}, {"a": 1, "b": [2, 3]}),
        ({"$pull": {"b": {"$gte": 2}}}, {"a": 1, "b": [1]}),
        ({"$pullAll": {"b": [1, 3]}}, {"a": 1, "b": [2]}),
    ],
)
def test_update_operators(collection, update, expected):
    collection.insert_one({"_id": 1, "a": 1, "b": [1, 2, 3]})
    result = collection.update_one({"_id": 1}, update)
    assert result.matched_count == 1
    assert collection.find_one() == {"_id": 1, **expected}


def test_current_date(collection):
    collection.insert_one({"_id": 1})
    collection.update_one({"_id": 1}, {"$currentDate": {"at": True, "ts": {"$type": "timestamp"}}})
    found = collection.find_one()
    assert abs((datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None) - found["at"]).total_seconds()) < 60
    assert isinstance(found["ts"], Timestamp)


def test_the_positional_operator_updates_the_element_that_matched(collection):
    collection.insert_one({"_id": 1, "n": [{"k": 1}, {"k": 2}]})
    collection.update_one({"n.k": 2}, {"$set": {"n.$.seen": True}})
    assert collection.find_one()["n"] == [{"k": 1}, {"k": 2, "seen": True}]


def test_array_filters_choose_the_elements_that_an_update_changes(collection):
    collection.insert_many([{"_id": n, "n": [{"k": 1}, {"k": 2}, {"k": 3}]} for n in (1, 2)])
    result = collection.update_many({}, {"$set": {"n.$[big].seen": True}}, array_filters=[{"big.k": {"$gte": 2}}])
    assert (result.matched_count, result.modified_count) == (2, 2)
    assert collection.find_one(1)["n"] == [{"k": 1}, {"k": 2, "seen": True}, {"k": 3, "seen": True}]
    after = collection.find_one_and_update(
        {"_id": 1}, {"$inc": {"n.$[].k": 10, "n.$[one].k2": 1}}, array_filters=[{"one.k": 1}], return_document=True
    )
    assert after["n"] == [{"k": 11, "k2": 1}, {"k": 12, "seen": True}, {"k": 13, "seen": True}]


def test_an_update_of_one_document_changes_the_first_in_an_order(collection):
    collection.insert_many([{"_id": n, "a": a} for n, a in ((1, 5), (2, 9), (3, 7))])
    assert collection.update_one({}, {"$set": {"first": True}}, sort={"a": -1}).modified_count == 1
    assert collection.replace_one({}, {"a": 0}, sort={"a": 1}).modified_count == 1
    assert list(collection.find()) == [{"_id": 1, "a": 0}, {"_id": 2, "a": 9, "first": True}, {"_id": 3, "a": 7}]


def test_a_pipeline_updates_each_document_by_itself(collection):
    collection.create_index("n")
    collection.insert_many([{"_id": place, "n": place} for place in range(1000)])
    result = collection.update_many({"n": {"$gte": 0}}, [{"$set": {"n": {"$add": ["$n", 5000]}, "was": "$n"}}])
    assert (result.matched_count, result.modified_count) == (1000, 1000)
    assert collection.count_documents({"$expr": {"$eq": ["$n", {"$add": ["$was", 5000]}]}}) == 1000
    assert collection.count_documents({"n": {"$gte": 5000}}, hint="n_1") == 1000
    upserted = collection.update_one({"_id": "new", "a": 1}, [{"$set": {"b": "$a"}}], upsert=True)
    assert upserted.upserted_id == "new" and collection.find_one({"b": 1}) == {"_id": "new", "a": 1, "b": 1}
    found = collection.find_one_and_update(
        {"_id": 3}, [{"$set": {"n": "$$by"}}], let={"by": 7}, return_document=ReturnDocument.AFTER
    )
    assert found == {"_id": 3, "n": 7, "was": 3}
    database = collection.database
    constant = {"q": {"_id": 3}, "u": [{"$set": {"n": "$$c"}}], "c": {"c": 8}}
    assert database.command("update", collection.name, updates=[constant])["nModified"] == 1
    assert collection.find_one({"_id": 3})["n"] == 8
    refused = database.command("update", collection.name, updates=[{**constant, "u": {"$set": {"n": 1}}}])
    assert refused["writeErrors"][0]["code"] == 51198
    with pytest.raises(OperationFailure) as refused:
        # No statement is run, and none is at fault.
        unknown = {**constant, "u": [{"$invalid": 1}]}
        database.command("update", collection.name, updates=[{**constant, "u": [{"$set": {"n": 0}}]}, unknown])
    assert refused.value.code == 40324 and collection.find_one({"_id": 3})["n"] == 8
    with pytest.raises(OperationFailure) as refused:
        collection.update_one({"_id": 3}, [{"$set": {"_id": 4}}])
    assert refused.value.code == 66


def test_an_array_filter_that_no_path_names_is_an_error(collection):
    for call in (collection.update_one, collection.find_one_and_update):
        with pytest.raises(OperationFailure) as refused:
            call({}, {"$set": {"a.$[x]": 1}}, array_filters=[{"x": 1}, {"y": 1}])
        assert refused.value.code == 9


def test_an_update_that_changes_nothing_says_so(collection):
    collection.insert_one({"_id": 1, "a": 1})
    result = collection.update_one({"_id": 1}, {"$set": {"a": 1}})
    assert (result.matched_count, result.modified_count) == (1, 0)


@pytest.mark.parametrize(
    ("update", "code"),
    [
        ({"$inc": {"s": 1}}, 14), ({"$set": {"_id": 2}}, 66), ({"$bogus": {"a": 1}}, 9),
        ({"$set": {"a": 1}, "$inc": {"a": 1}}, 40), ({"$push": {"s": 1}}, 2), ({"$set": {"s.x": 1}}, 28),
        ({"$pop": {"b": 2}}, 9),
    ],
)
def test_a_wrong_update_is_an_error_and_changes_nothing(collection, update, code):
    collection.insert_one({"_id": 1, "s": "x", "b": [1]})
    with pytest.raises(WriteError) as raised:
        collection.update_one({"_id": 1}, update)
    assert raised.value.code == code
    assert collection.find_one() == {"_id": 1, "s": "x", "b": [1]}


def test_replacement_and_upsert(collection):
    assert collection.replace_one({"_id": 1}, {"a": 1}, upsert=True).upserted_id == 1
    assert collection.replace_one({"_id": 1}, {"b": 2}).modified_count == 1
    assert collection.find_one() == {"_id": 1, "b": 2}
    result = collection.update_one({"k": 7, "n": {"$gt": 3}}, {"$set": {"a": 1}, "$setOnInsert": {"new": True}}, upsert=True)
    made = collection.find_one({"_id": result.upserted_id})
    assert {k: v for k, v in made.items() if k != "_id"} == {"k": 7, "a": 1, "new": True}


def test_update_many_and_delete_many(collection):
    collection.insert_many([{"_id": i, "k": i % 2} for i in range(1500)])
    result = collection.update_many({"k": 1}, {"$inc": {"k": 1}})
    assert (result.matched_count, result.modified_count) == (750, 750)
    assert collection.delete_one({"k": 2}).deleted_count == 1
    assert collection.delete_many({"k": 2}).deleted_count == 749
    assert collection.delete_many({"k": 2}).deleted_count == 0
    assert collection.estimated_document_count() == 750


def test_find_and_modify(collection):
    collection.insert_many([{"_id": i, "n": i} for i in range(3)])
    assert collection.find_one_and_update({"_id": 1}, {"$inc": {"n": 5}})["n"] == 1
    after = collection.find_one_and_update(
        {"_id": 1}, {"$inc": {"n": 5}}, return_document=ReturnDocument.AFTER, projection={"_id": 0}
    )
    assert after == {"n": 11}
    assert collection.find_one_and_replace({"_id": 2}, {"x": 1}, return_document=ReturnDocument.AFTER) == {"_id": 2, "x": 1}
    assert collection.find_one_and_delete({}, sort=[("_id", -1)])["_id"] == 2
    assert collection.find_one_and_update({"_id": 99}, {"$set": {"a": 1}}) is None
    made = collection.find_one_and_update({"_id": 99}, {"$set": {"a": 1}}, upsert=True, return_document=ReturnDocument.AFTER)
    assert made == {"_id": 99, "a": 1}


def test_distinct(collection):
    collection.insert_many([{"a": 1}, {"a": [1, 2]}, {"a": {"b": 3}}, {"a": 1.0}, {}])
    values = collection.distinct("a")
    assert len(values) == 3 and 1 in values and 2 in values and {"b": 3} in values
    assert collection.distinct("a.b") == [3]
    assert sorted(collection.distinct("a", {"a": 2})) == [1, 2]


def test_a_duplicate_id_has_the_documented_shape(collection):
    collection.insert_one({"_id": 1})
    with pytest.raises(DuplicateKeyError) as raised:
        collection.insert_one({"_id": 1})
    details = raised.value.details
    assert details["code"] == 11000 and details["keyPattern"] == {"_id": 1} and details["keyValue"] == {"_id": 1}
    assert details["errmsg"].startswith("E11000 duplicate key error collection: ")


def test_the_message_of_a_taken_key_can_be_taken_apart(collection):
    collection.create_index([("name", 1), ("at", -1), ("n", 1)], unique=True)
    thing = {"name": "it's x", "at": datetime.datetime(2020, 1, 1), "n": 2.0}
    collection.insert_one(dict(thing))
    with pytest.raises(DuplicateKeyError) as raised:
        collection.insert_one(dict(thing))
    shown = '{ name: "it\'s x", at: new Date(1577836800000), n: 2.0 }'
    assert raised.value.details["errmsg"].endswith(f" index: name_1_at_-1_n_1 dup key: {shown}")


def test_an_ordered_batch_stops_at_the_first_error(collection):
    with pytest.raises(BulkWriteError) as raised:
        collection.insert_many([{"_id": 1}, {"_id": 1}, {"_id": 2}])
    details = raised.value.details
    assert details["nInserted"] == 1 and [error["index"] for error in details["writeErrors"]] == [1]
    assert collection.count_documents({}) == 1


def test_an_unordered_batch_goes_on(collection):
    with pytest.raises(BulkWriteError) as raised:
        collection.insert_many([{"_id": 1}, {"_id": 1}, {"_id": 2}, {"_id": 2}, {"_id": 3}], ordered=False)
    details = raised.value.details
    assert details["nInserted"] == 3 and [error["index"] for error in details["writeErrors"]] == [1, 3]
    assert collection.count_documents({}) == 3


def test_a_mixed_bulk_write(collection):
    result = collection.bulk_write([
        InsertOne({"_id": 1, "a": 1}), InsertOne({"_id": 2, "a": 1}), UpdateMany({"a": 1}, {"$set": {"a": 2}}),
        UpdateOne({"_id": 3}, {"$set": {"a": 3}}, upsert=True), ReplaceOne({"_id": 1}, {"b": 1}), DeleteOne({"_id": 2}),
    ])
    assert (result.inserted_count, result.matched_count, result.deleted_count) == (2, 3, 1)
    assert result.upserted_ids == {3: 3}
    assert ids(collection.find().sort("_id", 1)) == [1, 3]


def test_a_bulk_write_over_several_collections(client, database):
    one, other = f"{database.name}.one", f"{database.name}.other"
    models = [
        InsertOne({"_id": 1, "a": 1}, namespace=one),
        InsertOne({"_id": 2, "a": 1}, namespace=one),
        InsertOne({"_id": 1}, namespace=other),
        UpdateMany({"a": 1}, {"$inc": {"a": 1}}, namespace=one),
        UpdateOne({}, {"$set": {"last": True}}, sort={"_id": -1}, namespace=one),
        UpdateOne({"_id": 3}, {"$set": {"list.$[e]": 0}}, array_filters=[{"e": 1}], namespace=one),
        ReplaceOne({"_id": 7}, {"b": 1}, upsert=True, hint="_id_", namespace=other),
        DeleteOne({"_id": 1}, namespace=other),
    ]
    result = client.bulk_write(models, verbose_results=True)
    assert (result.inserted_count, result.matched_count, result.modified_count) == (3, 3, 3)
    assert (result.upserted_count, result.deleted_count) == (1, 1)
    assert {place: inserted.inserted_id for place, inserted in result.insert_results.items()} == {0: 1, 1: 2, 2: 1}
    assert result.update_results[3].modified_count == 2
    assert result.update_results[6].upserted_id == 7
    assert result.delete_results[7].deleted_count == 1
    assert list(database.one.find()) == [{"_id": 1, "a": 2}, {"_id": 2, "a": 2, "last": True}]
    assert list(database.other.find()) == [{"_id": 7, "b": 1}]
    short = client.bulk_write([UpdateOne({"a": 2}, [{"$set": {"a": "$_id"}}], namespace=one)])
    assert (short.matched_count, short.has_verbose_results) == (1, False)


@pytest.mark.parametrize("ordered", [True, False])
def test_the_errors_of_a_bulk_write_over_several_collections(client, database, ordered):
    name = f"{database.name}.things"
    models = [InsertOne({"_id": place}, namespace=name) for place in (1, 1, 2, 2, 3)]
    with pytest.raises(ClientBulkWriteException) as raised:
        client.bulk_write(models, ordered=ordered)
    errors = [(error["idx"], error["code"], error["keyValue"]) for error in raised.value.write_errors]
    expected = [(1, 11000, {"_id": 1}), (3, 11000, {"_id": 2})]
    assert errors == (expected[:1] if ordered else expected)
    assert raised.value.partial_result.inserted_count == (1 if ordered else 3)
    assert database.things.count_documents({}) == (1 if ordered else 3)


def test_the_results_of_a_large_bulk_write_come_in_batches(client, database):
    models = [InsertOne({"_id": place}, namespace=f"{database.name}.things") for place in range(500)]
    names = [{"ns": f"{database.name}.things"}]
    operations = [{"insert": 0, "document": {"_id": place}} for place in range(500)]
    reply = client.admin.command("bulkWrite", ops=operations, nsInfo=names, cursor={"batchSize": 300})
    cursor = reply["cursor"]
    assert (reply["nInserted"], len(cursor["firstBatch"]), cursor["ns"]) == (500, 300, "admin.$cmd.bulkWrite")
    rest = client.admin.command("getMore", cursor["id"], collection="$cmd.bulkWrite")["cursor"]
    assert [result["idx"] for result in rest["nextBatch"]] == list(range(300, 500)) and rest["id"] == 0
    with pytest.raises(ClientBulkWriteException) as raised:
        client.bulk_write(models, ordered=False)
    assert len(raised.value.write_errors) == 500


@pytest.mark.parametrize("concern", [{"w": 1}, {"w": 1, "j": True}, {"w": "majority"}, {"w": "majority", "wtimeout": 5000}])
def test_write_concerns_that_are_acknowledged(collection, concern):
    result = collection.with_options(write_concern=WriteConcern(**concern)).insert_one({"_id": 1})
    assert result.acknowledged
    assert collection.count_documents({}) == 1


def test_an_unacknowledged_write_is_applied(client, collection):
    quiet = collection.with_options(write_concern=WriteConcern(w=0))
    assert not quiet.insert_one({"_id": 1}).acknowledged
    for _ in range(200):
        if collection.find_one({"_id": 1}):
            return
    pytest.fail("{w: 0} never became visible")


def test_more_members_than_a_standalone_has_is_bad_value(database):
    for concern in ({"w": 2}, {"w": "elsewhere"}):
        with pytest.raises(OperationFailure) as raised:
            database.command("insert", "things", documents=[{"_id": 1}], writeConcern=concern)
        assert raised.value.code == 2


def test_sixteen_megabytes_fit_and_more_does_not(collection):
    collection.insert_one({"_id": 1, "s": "x" * (16 * 1024 * 1024 - 64)})
    assert len(collection.find_one()["s"]) == 16 * 1024 * 1024 - 64
    with pytest.raises(OperationFailure) as raised:
        collection.update_one({"_id": 1}, {"$set": {"t": "y" * 1000}})
    assert raised.value.code in (17419, 10334), raised.value
