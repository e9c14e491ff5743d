"""Whatever the planner chooses, and whatever index a hint names, is what a scan of the collection finds: the same documents, as many, in
an order, and the same after a write. On every engine, over random data (`random_queries`).

`QUARRY_PLAN_SEED=S QUARRY_PLAN_ROUNDS=N` repeats a run, or makes it longer.
"""

import os
import random
import time

import pytest
from bson import Decimal128
from pymongo.errors import OperationFailure

import random_queries

ROUNDS = int(os.environ.get("QUARRY_PLAN_ROUNDS", 6))
SEED = int(os.environ.get("QUARRY_PLAN_SEED", time.time_ns() % 1_000_000))
DOCUMENTS = 60
FILTERS = 40
NATURAL = {"$natural": 1}


def indexed(database, name, documents, indexes):
    """A collection with documents and those of the indexes that these do not keep from being made; their names."""
    collection = database[name]
    collection.insert_many(documents)
    names = []
    for number, index in enumerate(indexes):
        options = {option: value for option, value in index.items() if option != "key"}
        try:
            names.append(collection.create_index(list(index["key"].items()), name=f"index_{number}", **options))
        except OperationFailure as failure:
            # Arrays beside each other, an array that is to be hashed.
            assert failure.code in (171, 16766), failure
    return collection, names


def is_whole(index):
    """Whether a hint of the index finds all documents that match."""
    return not any(option in index for option in ("sparse", "partialFilterExpression")) and "$**" not in index["key"]


def ids(cursor):
    return sorted(document["_id"] for document in cursor)


def keys_in_order(collection, query, order, **options):
    """The sort keys that a sorted find gives, each as the server compares it: two that are equal are written alike."""
    pipeline = [{"$match": query}, {"$sort": order}, {"$project": {"key": {"$meta": "sortKey"}}}]
    found = list(collection.aggregate(pipeline, **options))
    return [alike(document["key"]) for document in found], sorted(document["_id"] for document in found)


def alike(part):
    """A sort key in which equal numbers of different types are one."""
    if isinstance(part, dict):
        return {name: alike(inner) for name, inner in part.items()}
    if isinstance(part, list):
        return [alike(inner) for inner in part]
    is_number = isinstance(part, (int, float, Decimal128)) and not isinstance(part, bool)
    return float(str(part)) if is_number else part


def held_against_a_scan(collection, query, hints, chosen):
    wanted = ids(collection.find(query).hint(list(NATURAL.items())))
    assert ids(collection.find(query)) == wanted
    assert ids(collection.find(query).batch_size(3)) == wanted
    assert collection.count_documents(query) == len(wanted)
    for hint in hints:
        assert ids(collection.find(query).hint(hint)) == wanted, hint
    order = chosen.choice(random_queries.ORDERS)
    try:
        by_scan = keys_in_order(collection, query, order, hint=NATURAL)
    except OperationFailure as failure:
        # Two arrays beside each other have no order.
        assert "parallel arrays" in str(failure)
        return
    for options in ({}, *({"hint": hint} for hint in hints)):
        assert repr(keys_in_order(collection, query, order, **options)) == repr(by_scan), (order, options)


@pytest.mark.parametrize("number", range(ROUNDS))
def test_every_plan_finds_what_a_scan_finds(database, number):
    seed = SEED + number
    chosen = random.Random(seed)
    indexes = chosen.sample(random_queries.INDEXES, 5)
    documents = random_queries.documents(chosen, DOCUMENTS)
    collection, names = indexed(database, "indexed", documents, indexes)
    bare, _ = indexed(database, "bare", documents, [])
    hints = [name for name in names if is_whole(indexes[int(name.removeprefix("index_"))])]
    for _ in range(FILTERS):
        query = random_queries.filter_of(chosen)
        told = f"QUARRY_PLAN_SEED={seed} QUARRY_PLAN_ROUNDS=1: {query} over {indexes}"
        try:
            held_against_a_scan(collection, query, hints, chosen)
        except (AssertionError, OperationFailure) as difference:
            raise AssertionError(f"{told}: {difference}") from difference
        if chosen.random() < 0.2:
            update = chosen.choice(random_queries.UPDATES)
            changed_alike((collection, bare), query, update, documents, told)


def changed_alike(sides, query, update, documents, told):
    """Updates what matches of both collections, one of which has no indexes. What is refused is done in part, and both begin anew."""
    try:
        for side in sides:
            side.update_many(query, update)
    except OperationFailure as failure:
        # A path through a scalar, a field that is no array, a second array in an index, an array that is to be hashed.
        assert failure.code in (2, 28, 171, 16766), (told, failure)
        for side in sides:
            side.delete_many({})
            side.insert_many(documents)
        return
    indexed, bare = (repr(list(side.find().sort("_id", 1))) for side in sides)
    assert indexed == bare, f"{told}: {update}"
