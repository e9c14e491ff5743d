"""Kinds of work that are long in one place each: over many documents, within one, while parsing, sorting or splicing.

A table of names and commands over data that `fill` makes. None ends by itself within a second or so, so that whoever is to
end one early shows it. As a program it prints what each takes under maxTimeMS 100: `QUARRY=... python interrupt_cases.py`.
"""

import pathlib
import sys
import tempfile
import time

from quarry_process import Quarry
from wire_client import CommandFailed, WireClient

DATABASE = "interrupts"
DOCUMENTS = 60_000
ELEMENTS = 300_000
LONG_TEXT = "ab" * 60
RANGE = {"$range": [0, 1_000_000]}


def find(query, **options):
    return {"find": "many", "filter": query, **options}


def pipeline(*stages, collection="many"):
    return {"aggregate": collection, "pipeline": list(stages), "cursor": {}}


def computed(expression, times=1):
    """The expression over the one document with long arrays."""
    return pipeline({"$project": {f"f{number}": expression for number in range(times)}}, collection="wide")


def update(query, change, collection="wide", **options):
    return {"update": collection, "updates": [{"q": query, "u": change, **options}]}


def looped(expression):
    """The expression a million times, within one document."""
    return computed({"$reduce": {"input": RANGE, "initialValue": 0, "in": {"$max": [expression, 0]}}})


# Makes a pipeline run to its end, and answer nothing.
NONE = {"$skip": 1_000_000_000}
BACKTRACKING = {"$or": [{"s": {"$regex": f"b.*a.*{number}$"}} for number in range(40)]}
CASES = {
    # Filters.
    "find regex": lambda: find(BACKTRACKING),
    "find regex, exponential": lambda: find({"t": {"$regex": "^(a+)+$"}}),
    "find $in of strings over all": lambda: find({"s": {"$in": [f"ab{n}" for n in range(700_000)]}}),
    "find $nin over all": lambda: find({"s": {"$nin": [f"ab{n}" for n in range(700_000)]}}),
    "find $in of a million _ids": lambda: find({"_id": {"$in": list(range(1_000_000))}}),
    "find $in of documents": lambda: find({"d": {"$in": [{"a": [1] * 500, "b": n} for n in range(2000)]}}),
    "find $or of 100,000": lambda: find({"$or": [{"n": n} for n in range(100_000)]}),
    "find $and of 100,000": lambda: find({"$and": [{"n": {"$gte": -n}} for n in range(100_000)]}),
    "find $nor of 100,000": lambda: find({"$nor": [{"n": -n - 1} for n in range(100_000)]}),
    "find $or of 100,000 on _id": lambda: find({"$or": [{"_id": {"$gt": n, "$lt": n + 2}} for n in range(100_000)]}),
    "find 100,000 fields": lambda: find({f"f{n}": None for n in range(100_000)}),
    "find $all": lambda: {"find": "wide", "filter": {"n": {"$all": list(range(ELEMENTS // 2, ELEMENTS))}}},
    "find $elemMatch": lambda: {"find": "wide", "filter": {"d": {"$elemMatch": {"$or": [{"x": n} for n in range(2000)]}}}},
    "find path over arrays": lambda: {"find": "wide", "filter": {"$or": [{"d.e.f": n} for n in range(1, 2000)]}},
    "find path through a long array": lambda: {"find": "wide", "filter": {
        "$and": [{f"n.{n}": n} for n in range(ELEMENTS - 5000, ELEMENTS)]}},
    "find $expr": lambda: find({"$expr": {"$gt": [{"$reduce": {"input": RANGE, "initialValue": 0, "in": {
        "$add": ["$$value", "$$this"]}}}, "$n"]}}),
    # Sorts, projections, cursors.
    "find sort": lambda: find({}, sort={f"k{n}": 1 for n in range(20)} | {"s": 1, "n": -1}),
    "find sort by an array": lambda: {"find": "arrays", "sort": {f"n.{n}": 1 for n in range(30)}},
    "find skip": lambda: find({"$or": [{"s": {"$regex": "b.*a.*z$"}}, {"s": {"$regex": "^a.*b$"}}] * 20}, skip=59_000),
    "find projection computed": lambda: find({}, projection={"c": {"$reduce": {
        "input": RANGE, "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}}}),
    "find projection of 100,000 fields": lambda: find({}, projection={f"f{n}": 1 for n in range(100_000)}),
    "find projection $elemMatch": lambda: {"find": "wide", "projection": {"d": {"$elemMatch": {
        "$or": [{"x": n} for n in range(2000)]}}}},
    # Other readers.
    "count": lambda: {"count": "many", "query": BACKTRACKING},
    "distinct over filter": lambda: {"distinct": "many", "key": "n", "query": BACKTRACKING},
    "distinct of arrays": lambda: {"distinct": "arrays", "key": "n"},
    "distinct of strings": lambda: {"distinct": "arrays", "key": "t"},
    "explain": lambda: {"explain": find(BACKTRACKING), "verbosity": "executionStats"},
    "validate": lambda: {"validate": "indexed", "full": True},
    # Stages.
    "$match": lambda: pipeline({"$match": BACKTRACKING}),
    "$unwind": lambda: pipeline({"$unwind": "$n"}, {"$count": "n"}, collection="arrays"),
    "$group": lambda: pipeline({"$unwind": "$n"}, {"$group": {"_id": {"$mod": ["$n", 1000]}, "n": {"$sum": 1}}}, collection="arrays"),
    "$group of one value": lambda: pipeline(
        {"$group": {"_id": None, **{f"n{n}": {"$sum": {"$size": {"$filter": {"input": "$n", "cond": {"$gt": ["$$this", n]}}}}}
        for n in range(20)}}}, collection="arrays"),
    "$sortByCount": lambda: pipeline({"$unwind": "$n"}, {"$sortByCount": {"$mod": ["$n", 1000]}}, collection="arrays"),
    "$sort": lambda: pipeline({"$project": {"k": {"$concat": ["$s", {"$toString": "$n"}]}}}, *[
        {"$sort": {"k": (-1) ** n}} for n in range(20)]),
    "$sort of many": lambda: pipeline({"$unwind": "$n"}, {"$project": {"n": 1}}, *[{"$sort": {"n": (-1) ** n}} for n in range(20)],
        collection="sorted"),
    "$lookup": lambda: pipeline({"$lookup": {"from": "many", "localField": "n", "foreignField": "g", "as": "x"}}),
    "$setWindowFields": lambda: pipeline({"$setWindowFields": {"sortBy": {"g": 1}, "output": {
        f"w{n}": {"$max": "$n", "window": {"documents": [-5000, 5000]}} for n in range(10)}}}, NONE),
    "$setWindowFields over ranges": lambda: pipeline({"$setWindowFields": {"sortBy": {"n": 1}, "output": {
        "w": {"$covariancePop": ["$n", "$g"], "window": {"range": [-10_000, 10_000]}}}}}, NONE),
    "$redact": lambda: pipeline(*[{"$redact": {"$cond": [{"$gte": ["$n", -n]}, "$$DESCEND", "$$PRUNE"]}} for n in range(300)], NONE),
    "$merge": lambda: pipeline({"$unwind": "$n"}, {"$project": {"_id": "$n"}}, {"$merge": {"into": "merged"}}, collection="arrays"),
    "$out": lambda: pipeline({"$unwind": "$n"}, {"$project": {"_id": 0, "n": 1}}, {"$out": "replaced"}, collection="arrays"),
    "$sample": lambda: pipeline({"$project": {"n": 1}}, {"$unwind": "$n"}, {"$sample": {"size": 1000}}, collection="arrays"),
    "$addFields": lambda: pipeline(*[{"$addFields": {f"a{n}": {"$concat": ["$s", str(n)]}}} for n in range(400)], NONE),
    "$range through 400 stages": lambda: pipeline(
        {"$project": {"r": {"$range": [0, 4_500_000]}}}, *[{"$addFields": {f"a{n}": n}} for n in range(400)], {"$count": "n"}, collection="one"),
    "$replaceRoot": lambda: pipeline(*[{"$replaceRoot": {"newRoot": {"$mergeObjects": ["$$ROOT", {"a": n}]}}} for n in range(300)], NONE),
    "$skip": lambda: pipeline({"$unwind": "$n"}, NONE, collection="arrays"),
    "$unset": lambda: pipeline({"$unset": [f"x{n}" for n in range(100_000)]}),
    "999 stages": lambda: pipeline(*[{"$match": {"g": {"$gte": -n}}} for n in range(998)], NONE),
    # Expressions, within one document.
    "expression $reduce": lambda: computed({"$reduce": {"input": RANGE, "initialValue": 0, "in": {"$add": [
        "$$value", {"$reduce": {"input": RANGE, "initialValue": 0, "in": "$$this"}}]}}}),
    "expression $map": lambda: computed({"$size": {"$map": {"input": RANGE, "in": {"$size": "$n"}}}}),
    "expression $filter": lambda: computed({"$size": {"$filter": {"input": RANGE, "cond": {"$in": ["$$this", [-1] * 1000]}}}}),
    "expression $regexFindAll": lambda: computed({"$size": {"$map": {"input": RANGE, "in": {"$size": {"$regexFindAll": {
        "input": {"$reduce": {"input": {"$range": [0, 200]}, "initialValue": "", "in": {"$concat": ["$$value", "ab"]}}}, "regex": "(a)|(b)"}}}}}}),
    "expression $in": lambda: computed({"$size": {"$filter": {"input": "$n", "cond": {"$in": ["$$this", {"$reverseArray": "$n"}]}}}}),
    "expression $in of an array": lambda: looped({"$cond": [{"$in": [-1, "$n"]}, 1, 0]}),
    "expression $indexOfArray": lambda: looped({"$indexOfArray": ["$n", -1]}),
    "expression $concatArrays": lambda: looped({"$size": {"$concatArrays": ["$n", "$n"]}}),
    "expression $reverseArray": lambda: looped({"$size": {"$reverseArray": "$n"}}),
    "expression $slice": lambda: looped({"$size": {"$slice": ["$n", 200_000]}}),
    "expression $arrayElemAt": lambda: looped({"$arrayElemAt": ["$n", 299_999]}),
    "expression $last": lambda: looped({"$last": "$n"}),
    "expression $sum": lambda: looped({"$sum": "$n"}),
    "expression $max": lambda: looped({"$max": "$n"}),
    "expression $objectToArray": lambda: looped({"$size": {"$objectToArray": "$o"}}),
    "expression $arrayToObject": lambda: computed({"$reduce": {"input": RANGE, "initialValue": {}, "in": {"$arrayToObject": [{
        "$map": {"input": {"$range": [0, 100_000]}, "in": {"k": {"$toString": "$$this"}, "v": 1}}}]}}}),
    "expression $mergeObjects": lambda: computed({"$reduce": {"input": RANGE, "initialValue": {}, "in": {"$mergeObjects": [
        "$$value", {"$arrayToObject": [[{"k": {"$toString": "$$this"}, "v": 1}]]}]}}}),
    "expression $eq of arrays": lambda: looped({"$cond": [{"$eq": ["$n", {"$slice": ["$n", 400_000]}]}, 1, 0]}),
    "expression path over arrays": lambda: looped({"$size": "$d.e.f"}),
    "expression $split": lambda: looped({"$size": {"$split": ["$long", "b"]}}),
    "expression $strLenCP": lambda: looped({"$strLenCP": "$long"}),
    "expression $substrCP": lambda: looped({"$strLenCP": {"$substrCP": ["$long", 900_000, 10]}}),
    "expression $toUpper": lambda: looped({"$strLenCP": {"$toUpper": "$long"}}),
    "expression $concat": lambda: looped({"$strLenCP": {"$concat": ["$long", "$long"]}}),
    "expression $switch": lambda: looped({"$switch": {"branches": [
        {"case": {"$eq": ["$$this", -n]}, "then": n} for n in range(1, 10_000)], "default": 0}}),
    "expression $and": lambda: looped({"$cond": [{"$and": [{"$gte": ["$$this", -n]} for n in range(10_000)]}, 1, 0]}),
    "expression $add": lambda: looped({"$add": ["$$this"] * 10_000}),
    "expression $literal": lambda: looped({"$size": {"$literal": list(range(200_000))}}),
    "expression of 100,000 fields": lambda: pipeline({"$addFields": {f"f{n}": "$n" for n in range(100_000)}}),
    # Updates.
    "update $set of 100,000 fields": lambda: update({}, {"$set": {f"f{n}": n for n in range(100_000)}}, "many", multi=True),
    "update $set at places": lambda: update({}, {"$set": {f"n.{n}": 0 for n in range(100_000, 200_000)}}),
    "update $inc of 100,000 fields": lambda: update({}, {"$inc": {f"f{n}": n for n in range(100_000)}}, "many", multi=True),
    "update $unset of 100,000 fields": lambda: update({}, {"$unset": {f"f{n}": n for n in range(100_000)}}, "many", multi=True),
    "update $addToSet": lambda: update({}, {"$addToSet": {"n": {"$each": list(range(-100_000, 0))}}}),
    "update $pull": lambda: update({}, {"$pull": {"d": {"$or": [{"x": n} for n in range(2000)]}}}),
    "update $pullAll": lambda: update({}, {"$pullAll": {"n": list(range(-100_000, 0))}}),
    "update $push sorted": lambda: update({}, {"$push": {"d": {"$each": [{"e": n} for n in range(100_000)], "$sort": {
        f"k{n}": 1 for n in range(30)}}}}),
    "update $[]": lambda: update({}, {"$inc": {"n.$[]": 1}}, "arrays", multi=True),
    "update many": lambda: update({}, {"$set": {"x": 1}}, "many", multi=True),
    "update filter": lambda: update(BACKTRACKING, {"$set": {"x": 1}}, "many", multi=True),
    "update of 100,000 statements": lambda: {"update": "many", "updates": [
        {"q": {"_id": n % DOCUMENTS}, "u": {"$set": {"x": n}}} for n in range(100_000)]},
    "findAndModify": lambda: {"findAndModify": "many", "query": BACKTRACKING, "sort": {"n": 1}, "update": {"$set": {"x": 1}}},
    "delete filter": lambda: {"delete": "many", "deletes": [{"q": BACKTRACKING, "limit": 0}]},
    "delete of 100,000 statements": lambda: {"delete": "many", "deletes": [{"q": {"_id": -n - 1}, "limit": 1} for n in range(100_000)]},
    "insert of 100,000": lambda: {"insert": "indexed", "documents": [{"a": [n, n + 1, n + 2], "b": n} for n in range(100_000)]},
    "insert of long arrays": lambda: {"insert": "indexed", "documents": [{"a": list(range(n, n + 300)), "b": n} for n in range(3000)]},
    # Definitions and listings.
    "createIndexes": lambda: {"createIndexes": "arrays", "indexes": [{"key": {"n": 1}, "name": "n"}]},
    "createIndexes of 20": lambda: {"createIndexes": "many", "indexes": [{"key": {f"k{n}": 1}, "name": f"k{n}"} for n in range(20)]},
}


def fill(connection):
    """The collections that the cases are about."""
    for start in range(0, DOCUMENTS, 5000):
        numbers = range(start, start + 5000)
        insert(connection, "many", [
            {"_id": n, "n": n, "g": n % 100, "s": LONG_TEXT, "t": "a" * 30 + "!", "d": {"a": [1] * 20, "b": -1}} for n in numbers])
        insert(connection, "indexed", [{"_id": n, "a": [n, n + 1, n + 2], "b": n} for n in numbers])
    for number in range(8):
        numbers = range(number * ELEMENTS, (number + 1) * ELEMENTS)
        insert(connection, "arrays", [{"_id": number, "n": list(numbers), "t": [str(n) for n in numbers[:ELEMENTS // 3]]}])
    insert(connection, "sorted", [{"_id": number, "n": list(range(number * 100_000, (number + 1) * 100_000))} for number in range(5)])
    insert(connection, "one", [{"_id": 1}])
    insert(connection, "wide", [{
        "_id": 1, "n": list(range(ELEMENTS)), "t": list(range(-1000, ELEMENTS // 2)), "long": "ab" * 500_000,
        "d": [{"y": 1, "e": [{"g": 1}] * 2}] * 30_000, "o": {f"f{n}": n for n in range(50_000)}}])
    keys = [{"a": 1}, {"a": 1, "b": 1}, {"b": 1, "a": -1}, {"a": -1}]
    indexes = [{"key": key, "name": "_".join(f"{field}_{way}" for field, way in key.items())} for key in keys]
    connection.run({"createIndexes": "indexed", "indexes": indexes}, DATABASE)


def insert(connection, collection, documents):
    connection.run({"insert": collection, "documents": documents}, DATABASE)


def measure(part_of_name=""):
    with tempfile.TemporaryDirectory() as scratch:
        quarry = Quarry(pathlib.Path(scratch) / "data", "rocksdb").start()
        try:
            with WireClient(quarry.port) as connection:
                fill(connection)
            for name, command in CASES.items():
                if part_of_name in name:
                    measure_one(quarry, name, command())
        finally:
            quarry.kill()


def measure_one(quarry, name, command):
    with WireClient(quarry.port) as connection:
        spent = quarry.cpu_seconds_of_work()
        started = time.monotonic()
        connection.send({**command, "maxTimeMS": 100}, DATABASE)
        sent = time.monotonic()
        try:
            reply = connection.receive()
            outcome = CommandFailed(reply).code or "ok"
            spent = quarry.cpu_seconds_of_work() - spent
        except TimeoutError:
            outcome = "no answer"
            quarry.kill()
            quarry.start()
        ended = time.monotonic()
    times = f"{(sent - started) * 1000:6.0f} + {(ended - sent) * 1000:8.0f} ms, {spent * 1000:8.0f} ms of processors"
    print(f"{times}  {outcome:>10}  {name}", flush=True)


if __name__ == "__main__":
    measure(*sys.argv[1:])
