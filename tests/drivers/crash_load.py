"""Writers under load, the server killed below them with SIGKILL, and a comparison with what must be there afterwards.

Every write here is one piece to the server, at most 500 documents and less than 1 MiB, so it is atomic: what was
acknowledged is there, and what was in flight is there whole or not at all. Each writer changes documents of its own,
so at most one write a writer is in doubt.
"""

import os
import random
import reprlib
import threading
import time
from typing import NamedTuple

from pymongo import MongoClient
from pymongo.errors import ConnectionFailure
from pymongo.write_concern import WriteConcern

WRITTEN = WriteConcern(w=1)
JOURNALED = WriteConcern(w=1, j=True)

# Documents of one write, and how often each number is taken. The largest is the server's piece.
COUNTS = [1, 10, 100, 500]
COUNT_WEIGHTS = [75, 18, 5, 2]
# With `COUNTS` at its largest this stays below the bytes of a piece.
FILLER_BYTES_MAX = 1500
# Where inserts and deletes are equally likely.
DOCUMENTS_A_WRITER = 1000
VALUES = 20
LOAD_SECONDS = (0.1, 0.6)

SHORT = reprlib.Repr()
SHORT.maxdict = 10


def given_seed():
    """$QUARRY_CRASH_SEED, or one that nobody chose."""
    return int(os.environ.get("QUARRY_CRASH_SEED", time.time_ns() % 1_000_000))


def kill_under_load(quarry, rounds, seed, concerns=(JOURNALED, WRITTEN, WRITTEN, WRITTEN)):
    """Starts a server and kills it `rounds` times below one writer a write concern; each restart must have everything."""
    chance = random.Random(seed)
    known = [{} for _ in concerns]
    total = 0
    quarry.start()
    try:
        make_indexes(quarry)
        for life in range(rounds):
            writers = [
                Writer(quarry.uri, f"{number}_{life}", known[number], concern, chance.random())
                for number, concern in enumerate(concerns)
            ]
            kill_below(quarry, writers, chance.uniform(*LOAD_SECONDS))
            total += sum(writer.acknowledged for writer in writers)
            quarry.start()
            with MongoClient(quarry.uri) as client:
                done = check(client.crash.things, writers)
            print(
                f"round {life + 1}: {total} acknowledged writes so far, {sum(map(len, known))} documents;"
                f" done of those in flight: {done or 'none'}"
            )
        assert total >= rounds * len(concerns), "the load never got going"
        assert quarry.stop() == 0, quarry.tail()
    finally:
        if quarry.running():
            quarry.kill()


class Change(NamedTuple):
    """What one write does: each document by its id as it was and as it will be, None where there is none."""

    before: dict
    after: dict


class Writer(threading.Thread):
    """One connection. `known` is what it had acknowledged, `in_flight` the write that has no reply yet."""

    def __init__(self, uri, prefix, known, concern, seed):
        super().__init__(daemon=True)
        self.uri, self.prefix, self.known, self.concern = uri, prefix, known, concern
        self.random = random.Random(seed)
        self.in_flight = None
        self.acknowledged = 0
        self.made = 0
        self.failure = None

    def run(self):
        try:
            with MongoClient(self.uri, retryWrites=False, serverSelectionTimeoutMS=2000) as client:
                things = client.crash.get_collection("things", write_concern=self.concern)
                while True:
                    self.step(things)
        except ConnectionFailure:
            return
        except Exception as error:  # any other end of a writer fails the test
            self.failure = error

    def step(self, things):
        count = self.random.choices(COUNTS, COUNT_WEIGHTS)[0]
        names = self.random.sample(list(self.known), min(count, len(self.known)))
        grows = self.random.randrange(2 * DOCUMENTS_A_WRITER) >= len(self.known)
        if names and self.random.random() < 0.4:
            self.update(things, names)
        elif names and not grows:
            self.delete(things, names)
        else:
            self.insert(things, count)
        apply(self.known, self.in_flight.after)
        self.in_flight = None
        self.acknowledged += 1

    def insert(self, things, count):
        documents = [self.document() for _ in range(count)]
        names = [document["_id"] for document in documents]
        self.in_flight = Change(dict.fromkeys(names), dict(zip(names, documents)))
        things.insert_many(documents)

    def document(self):
        self.made += 1
        name = f"{self.prefix}_{self.made}"
        filler = "x" * self.random.randrange(FILLER_BYTES_MAX)
        return {"_id": name, "u": name, "a": self.random.randrange(VALUES), "n": 0, "t": [1, 2], "filler": filler}

    def update(self, things, names):
        value = self.random.randrange(VALUES)
        fields = {"a": value, "t": [value, value + 1]}
        before = {name: self.known[name] for name in names}
        after = {name: {**old, **fields, "n": old["n"] + 1} for name, old in before.items()}
        self.in_flight = Change(before, after)
        update = things.update_one if len(names) == 1 else things.update_many
        result = update(of_names(names), {"$set": fields, "$inc": {"n": 1}})
        assert result.modified_count == len(names), f"{result} of {len(names)} documents"

    def delete(self, things, names):
        self.in_flight = Change({name: self.known[name] for name in names}, dict.fromkeys(names))
        delete = things.delete_one if len(names) == 1 else things.delete_many
        result = delete(of_names(names))
        assert result.deleted_count == len(names), f"{result} of {len(names)} documents"

    def settle(self, found):
        """Takes the write in flight as it turned out; says how many documents it changed, none where it is not there."""
        if self.in_flight is None:
            return 0
        before, after = self.in_flight
        turned_out = {name: found.get(name) for name in after}
        if turned_out == before:
            return 0
        strange = [name for name in after if turned_out[name] not in (before[name], after[name])]
        for name in strange[:1]:
            raise AssertionError(
                f"{name} is {SHORT.repr(turned_out[name])}, the write in flight makes {SHORT.repr(after[name])}"
                f" of {SHORT.repr(before[name])}"
            )
        done = sum(turned_out[name] == after[name] for name in after)
        assert turned_out == after, f"a write in flight of {len(after)} documents is done in {done} of them"
        apply(self.known, after)
        return done


def of_names(names):
    return {"_id": names[0] if len(names) == 1 else {"$in": names}}


def apply(known, state):
    for name, document in state.items():
        if document is None:
            known.pop(name, None)
        else:
            known[name] = document


def make_indexes(quarry):
    with MongoClient(quarry.uri) as client:
        client.crash.things.create_index("u", unique=True)
        client.crash.things.create_index([("a", 1), ("n", -1)])
        client.crash.things.create_index("t")


def kill_below(quarry, writers, seconds):
    for writer in writers:
        writer.start()
    time.sleep(seconds)
    assert quarry.running(), quarry.tail()
    for writer in writers:
        assert writer.is_alive(), f"a writer ended before the kill: {writer.failure!r}\n{quarry.tail()}"
    quarry.kill()
    for writer in writers:
        writer.join(30)
        assert not writer.is_alive(), "a writer still waits for the killed server"
        assert writer.failure is None, repr(writer.failure)


def check(things, writers):
    """What is stored must be what was acknowledged and, whole or not at all, what was in flight; the indexes must agree.

    Returns the documents that each write in flight has changed, of those that are there.
    """
    found = {document["_id"]: document for document in things.find().hint([("$natural", 1)])}
    done = [writer.settle(found) for writer in writers]
    known = {name: document for writer in writers for name, document in writer.known.items()}
    for name in found.keys() | known.keys():
        assert name in found, f"acknowledged write of {name} is missing"
        assert name in known, f"{name} is there, but was deleted or never written"
        assert found[name] == known[name], (
            f"{name} is {SHORT.repr(found[name])}, acknowledged was {SHORT.repr(known[name])}"
        )
    assert things.estimated_document_count() == len(found), "the count is exact after a crash"
    check_indexes(things, found)
    result = things.database.validate_collection(things, full=True)
    assert result["valid"] is True and result["errors"] == [], result
    return [count for count in done if count > 0]


def check_indexes(things, found):
    """Through each index every document is found, once and under each value that it has, and no entry is left over."""
    entries = {"u_1": len(found), "a_1_n_-1": len(found), "t_1": sum(len(d["t"]) for d in found.values())}
    for index, expected in entries.items():
        through = [document["_id"] for document in things.find({}, {"_id": 1}).hint(index)]
        assert sorted(through) == sorted(found), f"index {index} finds {len(through)} of {len(found)} documents"
        # An entry that points nowhere is passed over by a query, but examined.
        examined = things.find().hint(index).explain()["executionStats"]["totalKeysExamined"]
        assert examined == expected, f"index {index} has {examined} entries, the documents ask for {expected}"
    every = list(range(VALUES + 1))
    check_lookup(things, found, "u_1", {"u": {"$in": [d["u"] for d in found.values()]}}, lambda d: True)
    for value in every:
        check_lookup(things, found, "a_1_n_-1", {"a": value}, lambda d: d["a"] == value)
        check_lookup(things, found, "t_1", {"t": value}, lambda d: value in d["t"])
    for n in {d["n"] for d in found.values()}:
        check_lookup(things, found, "a_1_n_-1", {"a": {"$in": every}, "n": n}, lambda d: d["n"] == n)


def check_lookup(things, found, index, query, matches):
    through = {document["_id"] for document in things.find(query, {"_id": 1}).hint(index)}
    expected = {name for name, document in found.items() if matches(document)}
    wrong = sorted(through ^ expected)
    assert not wrong, f"{str(query)[:100]} through index {index} is wrong about {len(wrong)} documents: {wrong[:3]}"
