"""Random documents, filters, orders, updates and indexes, small enough that a difference can be read."""

import math

from bson import Decimal128, Int64
from bson.datetime_ms import DatetimeMS

PATHS = ["a", "a.b", "a.c", "d", "e", "e.b"]
# With their options.
INDEXES = [
    {"key": {"a": 1}},
    {"key": {"d": 1}},
    {"key": {"d": -1, "a": 1}},
    {"key": {"a": 1, "d": -1}},
    {"key": {"a.b": 1, "a.c": -1}},
    {"key": {"d": 1, "e": 1, "a.b": 1}},
    {"key": {"e.b": 1, "d": 1}},
    {"key": {"e": "hashed"}},
    {"key": {"d": 1, "a": "hashed"}},
    {"key": {"$**": 1}},
    {"key": {"a": 1}, "collation": {"locale": "en", "strength": 1}},
    {"key": {"e": 1}, "sparse": True},
    {"key": {"d": 1, "e": -1}, "partialFilterExpression": {"d": {"$gt": 0}}},
]
ORDERS = [{"d": 1}, {"d": -1, "a": 1}, {"a": 1}, {"a": 1, "d": -1}, {"e": -1}, {"e.b": 1, "d": 1}]
UPDATES = [
    {"$inc": {"n": 1}}, {"$set": {"d": 7}}, {"$set": {"a.b": 3}}, {"$unset": {"e": 1}}, {"$push": {"list": 1}},
    {"$set": {"e": [1, {"b": 2}]}}, {"$set": {"a": None}}, [{"$set": {"d": "$e"}}],
]


def scalar(random):
    number = random.randrange(4)
    return random.choice([
        number, number, number, number, float(number), number + 0.5, Int64(number), Decimal128(str(number)), "", "a", "B", "ab", "b", None,
        True, DatetimeMS(254 + number), {"x": number}, math.nan, math.inf,
    ])


def value(random):
    """A scalar, a document, an array, or an array of documents or arrays."""
    part = lambda: {name: scalar(random) for name in ("b", "c") if random.random() < 0.8}  # noqa: E731
    kind = random.randrange(10)
    if kind < 5:
        return scalar(random)
    if kind < 7:
        return [scalar(random) for _ in range(random.randrange(4))]
    if kind == 7:
        return part()
    if kind == 8:
        return [part() for _ in range(random.randrange(4))]
    return random.choice([[[scalar(random)], 1], [[part()]], [part(), scalar(random)]])


def documents(random, count):
    made = []
    for number in range(count):
        document = {"_id": number}
        # Two arrays beside each other have no place in a compound index.
        array_at = random.choice(["a", "e"])
        for name in ("a", "d", "e"):
            if random.random() < 0.85:
                document[name] = value(random) if name == array_at else scalar(random)
        made.append(document)
    return made


def part_of_filter(random):
    """Operators that ask one thing of a path."""
    comparison = lambda: random.choice(["$eq", "$gt", "$gte", "$lt", "$lte", "$ne"])  # noqa: E731
    kind = random.randrange(16)
    if kind < 6:
        return {comparison(): value(random) if random.random() < 0.1 else scalar(random)}
    if kind < 8:
        return {"$gte": random.randrange(2), "$lt": random.randrange(1, 5)}
    if kind < 10:
        return {random.choice(["$in", "$nin"]): [scalar(random) for _ in range(random.randrange(4))]}
    if kind == 10:
        return {"$not": random.choice([{comparison(): scalar(random)}, {"$type": "number"}, {"$gt": 1, "$lt": 3}])}
    return random.choice([
        {"$exists": random.random() < 0.5}, {"$type": random.choice(["string", "number", "null", ["bool", "date"], "array"])}, {"$mod": [2, 1]},
        {"$regex": random.choice(["^a", "b", "^"])}, {"$size": 2}, {"$all": [scalar(random), scalar(random)]}, {"$bitsAllSet": [0]},
        {"$elemMatch": random.choice([{"b": scalar(random)}, {"b": scalar(random), "c": {"$gte": 1}}, {"$gte": 1, "$lt": 3}])},
    ])


def filter_of(random, depth=2):
    kind = random.randrange(10) if depth else 0
    branches = lambda: [filter_of(random, depth - 1) for _ in range(random.randrange(1, 4))]  # noqa: E731
    if kind < 7:
        return {path: part_of_filter(random) for path in random.sample(PATHS, random.choice([1, 1, 2, 3]))}
    if kind == 7:
        return {"$expr": {random.choice(["$eq", "$gt", "$lte"]): ["$" + random.choice(PATHS), {"$literal": scalar(random)}]}}
    if kind == 8:
        return {random.choice(["$and", "$nor"]): branches()}
    return {"d": part_of_filter(random), "$or": branches()}
