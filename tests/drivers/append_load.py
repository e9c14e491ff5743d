"""Clients of a real driver that append to lists and read them, in transactions and outside, and a server that is killed below them.

A list is a document, and a value is appended once in all. Clients append by `$push`, by findAndModify that tells the list, by
writing a list back that they have read, and by a bulk write over several databases; they read by `_id`, by an index, several
lists at once, by pipelines over two collections, and at one cluster time. Each client is a process with a driver of its own,
which goes on over restarts as an application would: what it repeats, and what it gives up, is the driver's choice. Half of them
are impatient: their driver waits for no server and repeats no single write, so that it seldom learns what became of what was under way.
What all of them did and saw is noted as `quarry-judge` reads it. An answer that got lost makes an unknown outcome.
"""

import json
import multiprocessing
import os
import pathlib
import random
import subprocess
import time
import traceback
from typing import NamedTuple

from pymongo import MongoClient, ReturnDocument, UpdateOne
from pymongo.errors import ClientBulkWriteException, ConnectionFailure, OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from quarry_process import binary

INDEXED = [("lists_a", "things"), ("lists_b", "things")]
# The lists of one epoch: more than one in a collection, and collections that nobody has made before.
LISTS = [*INDEXED, INDEXED[0], ("lists_a", "others"), ("lists_b", "made_{epoch}")]
LIST_WEIGHTS = [5, 4, 2, 2, 2]
ACTIONS_MAX = 4
WRITE_CONCERNS = [WriteConcern(w="majority"), WriteConcern(w=1, j=True), WriteConcern(w=1)]
READ_CONCERNS = [ReadConcern("local"), ReadConcern("majority"), ReadConcern("snapshot")]
READ_CONCERNS_ALONE = [*READ_CONCERNS[:2], ReadConcern("linearizable")]
# A moment that is not kept any more, or at which a collection was not what it is now.
SNAPSHOT_IS_GONE = {239, 246}
PATIENCE_SECONDS = 120
# No client appends as many values.
VALUES_A_CLIENT = 10_000_000
# More kills in one history would make lists and the judge's work long for nothing.
KILLS_A_HISTORY = 10


# A lost connection shall mean that the server is dead: the driver itself gives none up.
OPTIONS = {"connectTimeoutMS": 60_000, "heartbeatFrequencyMS": 500}
PATIENT = {**OPTIONS, "serverSelectionTimeoutMS": 60_000}
IMPATIENT = {**OPTIONS, "serverSelectionTimeoutMS": 100, "retryWrites": False}


class Shape(NamedTuple):
    """So many clients, and about so many things that they do between two kills."""

    clients: int
    done_a_life: int


SHAPES = {"two clients": Shape(2, 60), "sixteen clients": Shape(16, 160)}


class Place(NamedTuple):
    database: str
    collection: str
    id: str

    @property
    def key(self):
        return f"{self.database}.{self.collection}/{self.id}"


def places(epoch):
    """The lists of an epoch."""
    return [
        Place(database, collection.format(epoch=epoch), f"{epoch}-{number}")
        for number, (database, collection) in enumerate(LISTS)
    ]


class Client:
    """Does one thing after the other; `recorded` is what it notes of each."""

    def __init__(self, uri, number, seed, epoch):
        self.uri, self.name, self.epoch = uri, str(number), epoch
        self.random = random.Random(seed)
        self.value = (number + 1) * VALUES_A_CLIENT
        self.recorded = []
        self.options = IMPATIENT if number % 2 else PATIENT
        self.driver = None
        # Whether the server has answered what the client did last.
        self.is_answered = True

    def work(self, done, stop, failed, tells):
        """Works until it is told to stop, then tells what was noted; any other end is told, too."""
        failure = None
        try:
            with MongoClient(self.uri, **self.options) as self.driver:
                while not stop.is_set():
                    self.is_answered = True
                    self.random.choices(THINGS_TO_DO, WEIGHTS)[0](self)
                    if self.is_answered:
                        done.release()
        except Exception:  # fails the test
            failure = f"client {self.name}: {traceback.format_exc()}"
            failed.set()
            done.release()
        tells.send((self.recorded, failure))

    def pick(self):
        """A list: mostly of this epoch, sometimes of the one before."""
        epoch = max(0, self.epoch.value - (self.random.random() < 0.05))
        return self.random.choices(places(epoch), LIST_WEIGHTS)[0]

    def new_value(self):
        self.value += 1
        return self.value

    def collection(self, place, session=None):
        """The collection of a list, with concerns of its own outside of transactions."""
        if session is not None:
            return self.driver[place.database][place.collection]
        return self.driver[place.database].get_collection(
            place.collection,
            read_concern=self.random.choice(READ_CONCERNS_ALONE),
            write_concern=self.random.choice(WRITE_CONCERNS),
        )

    # What is noted.

    def note(self, begun, outcome, actions):
        self.recorded.append(
            {"client": self.name, "begun": begun, "ended": time.monotonic_ns(), "outcome": outcome, "actions": actions}
        )

    # What a client does.

    def transact(self):
        """A transaction that the client commits or aborts itself, and commits again until it knows, or gives up."""
        begun, actions = time.monotonic_ns(), []
        with self.driver.start_session(causal_consistency=self.random.random() < 0.5) as session:
            self.start(session)
            try:
                self.act(session, actions)
                if self.random.random() < 0.15:
                    session.abort_transaction()
                    self.note(begun, "given up", actions)
                    return
                outcome = self.commit(session)
            except PyMongoError as error:
                check_transient(error)
                self.is_answered = not isinstance(error, ConnectionFailure)
                outcome = "given up"
        self.note(begun, outcome, actions)

    def start(self, session):
        session.start_transaction(
            read_concern=self.random.choice(READ_CONCERNS), write_concern=self.random.choice(WRITE_CONCERNS)
        )

    def commit(self, session):
        """Whether the transaction is committed."""
        while True:
            try:
                session.commit_transaction()
                return "committed"
            except PyMongoError as error:
                if not error.has_error_label("UnknownTransactionCommitResult"):
                    raise
                self.is_answered = False
                if self.random.random() < 0.5:
                    return "unknown"

    def transact_until_committed(self):
        """A transaction that the driver repeats: each try is one of its own, and all but the last were given up."""
        tries = []

        def run(session):
            if tries:
                self.note(*tries.pop())
            begun, actions = time.monotonic_ns(), []
            tries.append((begun, "given up", actions))
            self.act(session, actions)

        with self.driver.start_session() as session:
            session.with_transaction(
                run, read_concern=self.random.choice(READ_CONCERNS), write_concern=self.random.choice(WRITE_CONCERNS)
            )
        begun, _, actions = tries.pop()
        self.note(begun, "committed", actions)

    def act(self, session, actions):
        for _ in range(self.random.randrange(1, ACTIONS_MAX + 1)):
            self.random.choices(ACTS, ACT_WEIGHTS)[0](self, session, actions)

    def read_alone(self):
        begun, actions = time.monotonic_ns(), []
        try:
            self.read(None, actions)
        except ConnectionFailure:
            self.is_answered = False
            return
        self.note(begun, "committed", actions)

    def append_alone(self):
        """One write outside of a transaction, which a patient driver repeats once."""
        begun, actions = time.monotonic_ns(), []
        act = self.random.choice([Client.push, Client.push_and_tell])
        try:
            act(self, None, actions)
        except ConnectionFailure:
            self.is_answered = False
            self.note(begun, "unknown", [action for action in actions if action[0] == "append"])
            return
        self.note(begun, "committed", actions)

    def append_in_bulk_alone(self):
        """Writes of one command, each of which is one of its own."""
        begun, actions = time.monotonic_ns(), []
        try:
            self.push_many(None, actions)
            outcome = "committed"
        except ConnectionFailure:
            self.is_answered = False
            outcome = "unknown"
        for action in actions:
            self.note(begun, outcome, [action])

    def read_at_one_time(self):
        """Reads lists of several databases at one cluster time, outside of a transaction."""
        begun, actions = time.monotonic_ns(), []
        outcome = "committed"
        with self.driver.start_session(snapshot=True) as session:
            try:
                for place in self.random.sample(places(self.epoch.value), 4):
                    found = self.driver[place.database][place.collection].find_one({"_id": place.id}, session=session)
                    actions.append(["read", place.key, list_of(found)])
            except ConnectionFailure:
                self.is_answered = False
                outcome = "given up"
            except OperationFailure as error:
                if error.code not in SNAPSHOT_IS_GONE:
                    raise
                outcome = "given up"
        self.note(begun, outcome, actions)

    # Appends, each of which notes itself before it is sent, and what it tells behind that.

    def push(self, session, actions):
        place, value = self.pick(), self.new_value()
        actions.append(["append", place.key, value])
        self.collection(place, session).update_one({"_id": place.id}, pushed(place, value), upsert=True, session=session)

    def push_and_tell(self, session, actions):
        place, value = self.pick(), self.new_value()
        returned = self.random.choice([ReturnDocument.BEFORE, ReturnDocument.AFTER])
        append = ["append", place.key, value]
        actions.append(append)
        found = self.collection(place, session).find_one_and_update(
            {"_id": place.id}, pushed(place, value), upsert=True, return_document=returned, session=session
        )
        read = ["read", place.key, list_of(found)]
        actions.insert(len(actions) - (returned == ReturnDocument.BEFORE), read)

    def write_back(self, session, actions):
        """Reads a list and puts a longer one in its place: whoever appends in between would be lost."""
        place, value = self.pick(), self.new_value()
        things = self.collection(place, session)
        values = list_of(things.find_one({"_id": place.id}, session=session))
        actions.append(["read", place.key, values])
        actions.append(["append", place.key, value])
        document = {"k": place.id, "list": [*values, value]}
        things.replace_one({"_id": place.id}, document, upsert=True, session=session)

    def push_many(self, session, actions):
        models = []
        for place in self.random.sample(places(self.epoch.value), 2):
            value = self.new_value()
            actions.append(["append", place.key, value])
            namespace = f"{place.database}.{place.collection}"
            models.append(UpdateOne({"_id": place.id}, pushed(place, value), upsert=True, namespace=namespace))
        concern = None if session is not None else self.random.choice(WRITE_CONCERNS)
        try:
            self.driver.bulk_write(models, session=session, write_concern=concern)
        except ClientBulkWriteException as failed:
            # What has ended it tells whether it may be repeated.
            raise failed.error or failed from failed

    # Reads.

    def read(self, session, actions):
        place = self.pick()
        things = self.collection(place, session)
        way = self.random.choice(["by _id", "by index", "pipeline"])
        if way == "by _id":
            found = things.find_one({"_id": place.id}, session=session)
        elif way == "by index" and (place.database, place.collection) in INDEXED:
            found = next(iter(things.find({"k": place.id}, session=session).hint("k")), None)
        else:
            found = next(iter(things.aggregate([{"$match": {"_id": place.id}}], session=session)), None)
        actions.append(["read", place.key, list_of(found)])

    def read_several(self, session, actions):
        """Lists of two collections by one pipeline, in a transaction."""
        first, second, third = (places(self.epoch.value)[number] for number in (0, 2, 3))
        pipeline = [
            {"$match": {"_id": {"$in": [first.id, second.id]}}},
            {"$unionWith": {"coll": third.collection, "pipeline": [{"$match": {"_id": third.id}}]}},
        ]
        things = self.driver[first.database][first.collection]
        found = {one["_id"]: one for one in things.aggregate(pipeline, session=session, batchSize=self.random.choice([1, 100]))}
        for place in (first, second, third):
            actions.append(["read", place.key, list_of(found.get(place.id))])


THINGS_TO_DO = [
    Client.transact, Client.transact_until_committed, Client.append_alone, Client.append_in_bulk_alone,
    Client.read_alone, Client.read_at_one_time,
]
WEIGHTS = [40, 20, 14, 4, 12, 10]
ACTS = [Client.push, Client.push_and_tell, Client.write_back, Client.push_many, Client.read, Client.read_several]
ACT_WEIGHTS = [5, 3, 3, 2, 6, 3]


def pushed(place, value):
    return {"$push": {"list": value}, "$setOnInsert": {"k": place.id}}


def list_of(document):
    return [] if document is None else document["list"]


def check_transient(error):
    """An error behind which the transaction is given up for certain; any other one fails the test."""
    if not error.has_error_label("TransientTransactionError"):
        raise error


def live_and_die(quarry, shape, kills, seed):
    """The lines of a history: of clients that work on over as many kills, and of the lists as they are in the end."""
    chance = random.Random(seed)
    with MongoClient(quarry.uri) as driver:
        for database, collection in INDEXED:
            driver[database][collection].create_index("k", name="k")
    fork = multiprocessing.get_context("fork")
    done, stop, failed, epoch = fork.Semaphore(0), fork.Event(), fork.Event(), fork.RawValue("q", 0)
    workers = []
    for number in range(shape.clients):
        hears, tells = fork.Pipe(duplex=False)
        client = Client(f"{quarry.uri}?replicaSet=rs0", number, chance.random(), epoch)
        worker = fork.Process(target=client.work, args=(done, stop, failed, tells), daemon=True)
        worker.start()
        tells.close()
        workers.append((worker, hears))
    try:
        for _ in range(kills):
            wait_for(done, failed, chance.randrange(shape.done_a_life))
            # In the midst of a life, so that each list is there over a kill.
            epoch.value += 1
            wait_for(done, failed, chance.randrange(shape.done_a_life // 4, shape.done_a_life))
            if failed.is_set():
                break
            assert quarry.running(), quarry.tail()
            quarry.kill()
            quarry.start()
        wait_for(done, failed, shape.done_a_life)
    finally:
        stop.set()
    told = [hear(*worker) for worker in workers]
    failures = [failure for _, failure in told if failure]
    assert not failures, "\n".join([*failures, quarry.tail()])
    return [one for recorded, _ in told for one in recorded]


def wait_for(done, failed, count):
    """Waits until the clients have done so many things, or one of them has failed."""
    for _ in range(count):
        assert done.acquire(timeout=PATIENCE_SECONDS), "the clients do not go on"
        if failed.is_set():
            return


def hear(worker, hears):
    """What a client tells at its end."""
    try:
        told = hears.recv() if hears.poll(PATIENCE_SECONDS) else ([], "a client does not end")
    except EOFError:
        told = [], "a client died without a word"
    if told[1]:
        worker.kill()
    worker.join()
    return told


def lists_in(quarry):
    """All lists as they are now."""
    lists = {}
    with MongoClient(quarry.uri) as driver:
        for database in sorted({database for database, _ in LISTS}):
            for collection in driver[database].list_collection_names():
                for document in driver[database][collection].find():
                    lists[Place(database, collection, document["_id"]).key] = document["list"]
    return lists


def judge():
    """The program that judges: $QUARRY_JUDGE, or the one beside the server's."""
    beside = pathlib.Path(binary()).with_name("quarry-judge")
    path = pathlib.Path(os.environ.get("QUARRY_JUDGE", beside))
    assert path.exists(), f"{path} is not there: cargo build --release -p quarry-isolation"
    return str(path)


def judged(recorded, lists, path):
    """What the judge says of a history, and whether it finds it isolated."""
    with open(path, "w", encoding="ascii") as file:
        for one in [*recorded, {"lists": lists}]:
            file.write(json.dumps(one) + "\n")
    result = subprocess.run([judge(), str(path)], capture_output=True, text=True, check=False)
    assert result.returncode in (0, 1), result
    return result.stdout, result.returncode == 0
