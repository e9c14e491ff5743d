"""SIGKILL under load: every acknowledged write is there afterwards, and every index agrees with its documents.

Several connections insert, update and delete while the process is killed at a random moment. What was acknowledged
must be found after the restart; what was in flight may be there or not, but never half of it.
"""

import os
import random
import threading
import time

import pytest
from pymongo import MongoClient
from pymongo.errors import PyMongoError
from pymongo.write_concern import WriteConcern

from quarry_process import Quarry

ROUNDS = int(os.environ.get("QUARRY_CRASH_ROUNDS", "20"))
# Of the policies other than the default: a few rounds, or as many as are asked for.
POLICY_ROUNDS = int(os.environ.get("QUARRY_CRASH_ROUNDS", "4"))
WRITERS = 4
ENGINES = [engine for engine in os.environ.get("QUARRY_ENGINES", "rocksdb,mdbx,memory").split(",") if engine != "memory"]
POLICIES = ["journaled", "strict", "relaxed"]


class Writer(threading.Thread):
    """One connection. `known` holds what was acknowledged, `doubtful` the ids of what was in flight."""

    def __init__(self, uri, number, known, seed):
        super().__init__(daemon=True)
        self.uri, self.number, self.known = uri, number, known
        self.random = random.Random(seed)
        self.doubtful = set()
        self.acknowledged = 0

    def run(self):
        concern = WriteConcern(w=1, j=True) if self.number == 0 else WriteConcern(w=1)
        client = MongoClient(self.uri, retryWrites=False, serverSelectionTimeoutMS=2000)
        collection = client.crash.get_collection("things", write_concern=concern)
        sequence = len(self.known) + 1_000_000 * self.random.randrange(1, 1000)
        try:
            while True:
                self.step(collection, sequence)
                sequence += 12
        except PyMongoError:
            return
        finally:
            client.close()

    def step(self, collection, sequence):
        choice = self.random.random()
        mine = [f"{self.number}_{sequence + i}" for i in range(10 if choice < 0.2 else 1)]
        if choice < 0.6 or not self.known:
            made = {name: {"_id": name, "u": name, "a": self.random.randrange(50), "n": 0, "t": [1, 2]} for name in mine}
            self.doubtful = set(made)
            collection.insert_many(list(made.values()))
            self.known.update(made)
        elif choice < 0.85:
            name = self.random.choice(list(self.known))
            value = self.random.randrange(50)
            self.doubtful = {name}
            collection.update_one({"_id": name}, {"$set": {"a": value, "t": [value, value + 1]}, "$inc": {"n": 1}})
            before = self.known[name]
            self.known[name] = {**before, "a": value, "t": [value, value + 1], "n": before["n"] + 1}
        else:
            name = self.random.choice(list(self.known))
            self.doubtful = {name}
            collection.delete_one({"_id": name})
            del self.known[name]
        self.doubtful = set()
        self.acknowledged += 1


def check(collection, known, doubtful):
    """Compares what is stored with what was acknowledged, then takes the doubtful as it turned out."""
    found = {document["_id"]: document for document in collection.find()}
    for name, document in known.items():
        if name in doubtful:
            continue
        assert name in found, f"acknowledged write of {name} is missing"
        assert found[name] == document, f"{name} is {found[name]}, acknowledged was {document}"
    for name in found.keys() - known.keys():
        assert name in doubtful, f"{name} is there, but was deleted or never written"
    assert collection.estimated_document_count() == len(found), "the count is exact after a crash"
    for name in doubtful:
        if name in found:
            known[name] = found[name]
        else:
            known.pop(name, None)
    result = collection.database.validate_collection(collection, full=True)
    assert result["valid"] is True and result["errors"] == [], result


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_acknowledged_write_survives_sigkill(engine, policy, tmp_path):
    rounds = ROUNDS if policy == "journaled" else POLICY_ROUNDS
    seed = int(os.environ.get("QUARRY_CRASH_SEED", time.time_ns() % 1_000_000))
    print(f"\n{engine}, {policy}: {rounds} rounds, repeat with")
    print(f"  QUARRY_CRASH_SEED={seed} QUARRY_CRASH_ROUNDS={rounds} pytest -s tests/drivers/test_crash.py -k '{policy} and {engine}'")
    chance = random.Random(seed)
    quarry = Quarry(tmp_path / "data", engine, ["--durability", policy]).start()
    with MongoClient(quarry.uri) as client:
        client.crash.things.create_index("u", unique=True)
        client.crash.things.create_index([("a", 1), ("n", -1)])
        client.crash.things.create_index("t")
    known = [{} for _ in range(WRITERS)]
    total = 0
    try:
        for round_number in range(rounds):
            writers = [Writer(quarry.uri, i, known[i], chance.random()) for i in range(WRITERS)]
            for writer in writers:
                writer.start()
            time.sleep(chance.uniform(0.1, 0.6))
            assert quarry.running(), quarry.tail()
            quarry.kill()
            for writer in writers:
                writer.join(30)
                assert not writer.is_alive()
            total += sum(writer.acknowledged for writer in writers)
            quarry.start()
            with MongoClient(quarry.uri) as client:
                everything = {name: document for part in known for name, document in part.items()}
                doubtful = set().union(*(writer.doubtful for writer in writers))
                check(client.crash.things, everything, doubtful)
                for number, part in enumerate(known):
                    part.clear()
                    part.update({k: v for k, v in everything.items() if k.startswith(f"{number}_")})
            print(f"round {round_number + 1}: {total} acknowledged writes so far, {sum(map(len, known))} documents")
        assert total >= rounds * WRITERS, "the load never got going"
        assert quarry.stop() == 0, quarry.tail()
    finally:
        if quarry.running():
            quarry.kill()
