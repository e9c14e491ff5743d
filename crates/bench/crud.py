"""The CRUD workloads from pymongo on one connection: `crud.py [--passes N] [--iterations N] NAME=URI...`, the canned
replies first.

Every operation runs on all sides in short turns, and begins when the processors are idle; the figures, in microseconds,
go to standard output as JSON. `added` is what a side adds to the first one: the median, over all rounds, of the
difference between the medians of their turns in the same round. A machine's mood outlasts a round, so that the
difference is far steadier than either figure. It also outlasts a case: all cases are gone through several times, and
the rounds of all passes count alike.
*simple*: {_id: "prefix_seq", seq, data: 100 characters}, the `_id` index only. *complex*: about 800 bytes and eleven
indexes: `_id`, a unique triple, nine compound ones of ten distinct fields each. *shuffled*: the simple documents with
other names in another order, because a path keyed to this bench would be no path at all.
"""

import argparse
import gc
import itertools
import json
import os
import random
import statistics
import sys
import time

from pymongo import InsertOne, MongoClient

DATABASE = "quarry_crud"
DATA = ("abcdefghijklmnopqrstuvwxyz" * 4)[:100]
PRELOADED = 20_000
# Filler that makes the engine flush several times before anything is measured: 160 MiB.
FILLER_BATCHES, FILLER_BATCH, FILLER = 40, 512, "x" * 8192
TURN = 20
WARM_UP = 100
# What preloading, or the case before, leaves to the servers' background threads is over when the processors are idle: so
# many looks in a row.
IDLE_LOOKS, LOOK_SECONDS, BUSY_MAX = 3, 0.5, 0.08
LOOKS_MAX_AFTER_PRELOADING, LOOKS_MAX_AFTER_A_CASE = 240, 20
FIELDS = 30


def simple(prefix, seq):
    return {"_id": f"{prefix}_{seq}", "seq": seq, "data": DATA}


def shuffled(prefix, seq):
    return {"payload": DATA, "_id": f"{prefix}_{seq}", "ordinal": seq}


def complex_document(prefix, seq):
    document = {"_id": f"{prefix}_{seq}", "bn": f"branch-{seq % 100:03}", "on": seq, "vi": seq % 7}
    for field in range(FIELDS):
        document[f"f{field:02}"] = f"v{seq * (field + 31) % 1_000_003:08}"
    document["amount"] = seq * 1.25
    document["note"] = "a note that no index ever names " * 4
    return document


def complex_indexes(collection):
    collection.create_index([("bn", 1), ("on", 1), ("vi", 1)], unique=True)
    for index in range(9):
        keys = [(f"f{(index * 7 + position * 3) % FIELDS:02}", 1) for position in range(10)]
        assert len({key for key, _ in keys}) == 10
        collection.create_index(keys, name=f"compound_{index}")


def compound(index, seq, fields):
    """The first `fields` fields of compound index `index`, as the document of `seq` has them."""
    chosen = [(index * 7 + position * 3) % FIELDS for position in range(fields)]
    return {f"f{field:02}": f"v{seq * (field + 31) % 1_000_003:08}" for field in chosen}


class Side:
    """One server. `fresh` numbers the documents that measuring inserts."""

    def __init__(self, name, uri):
        self.name = name
        self.client = MongoClient(uri, maxPoolSize=1, retryWrites=False, retryReads=False, directConnection=True)
        self.database = self.client[DATABASE]
        self.simple, self.complex, self.shuffled = (self.database[kind] for kind in ("simple", "complex", "shuffled"))
        self.fresh = itertools.count(10_000_000)
        self.random = random.Random(7)

    def key(self):
        return self.random.randrange(PRELOADED)

    def preload(self, is_brief):
        self.client.drop_database(DATABASE)
        complex_indexes(self.complex)
        for collection, make in ((self.simple, simple), (self.shuffled, shuffled), (self.complex, complex_document)):
            for start in range(0, PRELOADED, 1000):
                collection.insert_many([make("p", seq) for seq in range(start, start + 1000)])
        for batch in range(0 if is_brief else FILLER_BATCHES):
            self.database.filler.insert_many(
                [{"_id": batch * FILLER_BATCH + number, "filler": FILLER} for number in range(FILLER_BATCH)]
            )


# Each maker prepares what is not measured and returns the call that is.


def insert_one(kind, make):
    def prepare(side):
        collection, document = getattr(side, kind), make("n", next(side.fresh))
        return lambda: collection.insert_one(document)

    return prepare


def insert_ten(kind, make):
    def prepare(side):
        collection = getattr(side, kind)
        batch = [InsertOne(make("n", next(side.fresh))) for _ in range(10)]
        return lambda: collection.bulk_write(batch)

    return prepare


def find(kind, query, limit):
    def prepare(side):
        collection, built = getattr(side, kind), query(side)
        return lambda: list(collection.find(built).limit(limit))

    return prepare


def find_one(kind, query):
    def prepare(side):
        collection, built = getattr(side, kind), query(side)
        return lambda: collection.find_one(built)

    return prepare


def update_one(kind, change):
    def prepare(side):
        collection, query, update = getattr(side, kind), {"_id": f"p_{side.key()}"}, change(side)
        return lambda: collection.update_one(query, update)

    return prepare


def update_many(kind, name):
    def prepare(side):
        collection, seq = getattr(side, kind), side.key() // 10 * 10
        query = {"_id": {"$in": [f"p_{seq + i}" for i in range(10)]}}
        return lambda: collection.update_many(query, {"$inc": {name: 1}})

    return prepare


def delete_one(kind, make):
    def prepare(side):
        collection, document = getattr(side, kind), make("d", next(side.fresh))
        collection.insert_one(document)
        query = {"_id": document["_id"]}
        return lambda: collection.delete_one(query)

    return prepare


def point(side):
    return {"_id": f"p_{side.key()}"}


def id_range(side):
    return {"_id": {"$gte": f"p_{side.key()}"}}


def ten_ids(side):
    return {"_id": {"$in": [f"p_{side.key()}" for _ in range(10)]}}


def operations():
    for kind, make, plain in (
        ("simple", simple, "seq"), ("shuffled", shuffled, "ordinal"), ("complex", complex_document, "amount"),
    ):
        yield f"{kind}/insert one", insert_one(kind, make)
        yield f"{kind}/insert batch of 10", insert_ten(kind, make)
        yield f"{kind}/point query", find_one(kind, point)
        yield f"{kind}/range scan of 100", find(kind, id_range, 100)
        yield f"{kind}/$in of 10", find(kind, ten_ids, 10)
        yield f"{kind}/update unindexed field", update_one(kind, lambda side, name=plain: {"$set": {name: side.key()}})
        yield f"{kind}/update many of 10", update_many(kind, plain)
        yield f"{kind}/delete one", delete_one(kind, make)
    yield "complex/compound exact", find_one("complex", lambda side: compound(3, side.key(), 10))
    yield "complex/compound partial", find_one("complex", lambda side: compound(3, side.key(), 3))
    yield "complex/unique exact", find_one("complex", lambda side: unique(side.key()))
    yield "complex/$gt with limit", find("complex", lambda side: {"bn": f"branch-{side.key() % 100:03}", "on": {"$gt": 5}}, 10)
    yield "complex/update indexed field", update_one("complex", lambda side: {"$set": {"f29": f"u{side.key():08}"}})


def unique(seq):
    return {"bn": f"branch-{seq % 100:03}", "on": seq, "vi": seq % 7}


def processor_times():
    """Busy and all ticks of all processors."""
    with open("/proc/stat", encoding="ascii") as stat:
        ticks = [int(word) for word in stat.readline().split()[1:]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def wait_until_idle(looks_max):
    """Flushes, compactions and checkpoints of all sides would be measured as the first operations' time."""
    idle, before = 0, processor_times()
    for _ in range(looks_max):
        time.sleep(LOOK_SECONDS)
        now = processor_times()
        busy = (now[0] - before[0]) / max(now[1] - before[1], 1)
        idle, before = (idle + 1 if busy <= BUSY_MAX else 0), now
        if idle == IDLE_LOOKS:
            return
    print("the processors did not become idle", file=sys.stderr)


def percentile(ordered, share):
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] / 1000


def measure(prepare, sides, iterations):
    """For each side the nanoseconds of its calls, a list a round; sides take turns, another one first each round."""
    rounds = {side.name: [] for side in sides}
    clock = time.perf_counter_ns
    for side in sides:
        for _ in range(WARM_UP):
            prepare(side)()
    for number in range(-(-iterations // TURN)):
        first = number % len(sides)
        for side in sides[first:] + sides[:first]:
            taken = []
            for _ in range(TURN):
                call = prepare(side)
                started = clock()
                call()
                taken.append(clock() - started)
            rounds[side.name].append(taken)
        gc.collect()
    return rounds


def added(turns, bare):
    """Microseconds at the median over `bare`, the first side's turns of the same rounds."""
    pairs = zip(turns, bare, strict=True)
    return statistics.median(statistics.median(ours) - statistics.median(its) for ours, its in pairs) / 1000


def figures_of(case, rounds):
    """A figure a side; `rounds` has the first side's first."""
    bare = next(iter(rounds.values()))
    for name, turns in rounds.items():
        taken = sorted(itertools.chain.from_iterable(turns))
        p50, p90, p99 = (percentile(taken, share) for share in (0.5, 0.9, 0.99))
        yield {"case": case, "name": name, "p50": p50, "p90": p90, "p99": p99, "added": added(turns, bare)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=300, help="of each case in each pass")
    parser.add_argument("--only", default="")
    parser.add_argument("--brief", action="store_true", help="no filler, and no waiting between cases")
    parser.add_argument("servers", nargs="+")
    options = parser.parse_args()
    sides = [Side(*server.split("=", 1)) for server in options.servers]
    for side in sides:
        print(f"preloading {side.name}", file=sys.stderr)
        side.preload(options.brief)
    wait_until_idle(LOOKS_MAX_AFTER_PRELOADING)
    # As timeit does: a collection in the middle of a call would be counted as the server's.
    gc.disable()
    cases = [(case, prepare) for case, prepare in operations() if options.only in case]
    rounds = {case: {side.name: [] for side in sides} for case, _ in cases}
    for number in range(options.passes):
        for case, prepare in cases:
            measured = measure(prepare, sides, options.iterations)
            if not options.brief:
                wait_until_idle(LOOKS_MAX_AFTER_A_CASE)
            for name, turns in measured.items():
                rounds[case][name] += turns
            line = "  ".join(f"{one['name']} {one['p50']:.1f} ({one['added']:+.1f})" for one in figures_of(case, measured))
            print(f"{number + 1}/{options.passes} {case:32} {line}", file=sys.stderr)
    figures = [figure for case, _ in cases for figure in figures_of(case, rounds[case])]
    for side in sides:
        side.client.drop_database(DATABASE)
    json.dump(figures, sys.stdout)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
