"""Clients that work on a few registers at once, each in a process of its own, and the server killed below them.

Every operation is noted with its interval and its result, so that `register_history` can judge the whole. Reads go all the
ways that a server has to a document: by `_id`, by a unique index, by a plain one, by an index alone, through a pipeline, by a
scan of the whole collection, and in batches, each of which must be as new as its own getMore. The server is killed by a client, at once after one of its replies: what the server does
behind a reply is then still to be done. Nothing else may end a client: one that waits in vain, or that loses its server before
that was ended, fails the test.
"""

import multiprocessing
import os
import random
import signal
import time
import traceback
from typing import Any, NamedTuple

import bson

from register_history import UNKNOWN, Operation, check
from wire_client import BODY_AT, CommandFailed, WireClient

DATABASE = "registers"
THINGS = "things"
KEYS = ["a", "b", "c", "d", "e"]
# The first key is where the clients meet.
KEY_WEIGHTS = [6, 2, 1, 1, 1]
FILLER_BYTES_MAX = 3000
NOISE_DOCUMENTS_MAX = 200
DUPLICATE_KEY = 11000
# What a server that is going down answers; whether it did what was asked is not known.
GOING_DOWN = {91, 11600, 11602}
# No client makes as many values in one life.
VALUES_A_CLIENT = 10_000_000
# Larger than what `add` adds, so that a value tells which operation made it.
VALUE_STEP = 10
NEVER_A_VALUE = -1
# So long a client waits for one reply, and the test for its clients.
REPLY_SECONDS_MAX = 60
LIFE_SECONDS_MAX = 300
# As long as another client has waited this long for one reply, the server is not ended: that client shall see its reply or miss it.
LONG_WAIT_NS = 250_000_000

WRITE_CONCERNS = [None, {"w": 1, "j": True}, {"w": "majority"}]
WRITE_CONCERN_WEIGHTS = [14, 3, 1]
READ_CONCERNS = [None, {"level": "majority"}]
READ_CONCERN_WEIGHTS = [10, 1]

INDEXES = [
    {"key": {"u": 1}, "name": "unique", "unique": True},
    {"key": {"k": 1}, "name": "plain"},
    {"key": {"k": 1, "v": 1}, "name": "covering"},
]


class Shape(NamedTuple):
    """So many clients with so many connections each, and the most operations that one of them does in a life."""

    clients: int
    connections: int
    operations_max: int


SHAPES = {
    "one connection": Shape(1, 1, 1200),
    "one writer and its readers": Shape(1, 4, 1200),
    "many connections": Shape(8, 1, 400),
}


class Told(NamedTuple):
    """What a client says at its end. The moments are of the monotonic clock, None for what did not happen."""

    operations: list
    failure: Any
    # When it ended the server.
    ended: Any
    # When the server was lost to it.
    lost: Any


def live_and_die(quarry, shape, lives, seed):
    """Starts the server `lives` times and ends it each time below its clients; all that was seen must have one explanation.

    The last life ends by SIGTERM, the others by SIGKILL. Returns how many operations were judged.
    """
    chance = random.Random(seed)
    held = {}
    total = 0
    try:
        for life in range(lives):
            quarry.start()
            if life == 0:
                make_indexes(quarry)
            ending = signal.SIGTERM if life == lives - 1 else signal.SIGKILL
            operations = look(quarry) + work_until_the_end(quarry, shape, life, ending, chance)
            held = check(operations, held)
            total += len(operations)
        quarry.start()
        check(look(quarry), held)
        assert quarry.stop() == 0, quarry.tail()
    finally:
        if quarry.running():
            quarry.kill()
    return total


def live_once(quarry, shape, seed):
    """One life of a server that keeps nothing."""
    quarry.start()
    try:
        make_indexes(quarry)
        operations = work_until_the_end(quarry, shape, 0, signal.SIGKILL, random.Random(seed))
        check(operations)
    finally:
        if quarry.running():
            quarry.kill()
    return len(operations)


def make_indexes(quarry):
    with WireClient(quarry.port) as connection:
        connection.run({"createIndexes": THINGS, "indexes": INDEXES}, DATABASE)


def look(quarry):
    """Reads of every register in every way, and a full `validate`, by one client alone."""
    client = Client(quarry.port, 1, "look", seed=0)
    for way in READS:
        for key in KEYS:
            client.read(key, way)
    result = client.connections[0].run({"validate": THINGS, "full": True}, DATABASE)
    assert result["valid"] is True and result["errors"] == [], result
    client.close()
    return client.operations


def work_until_the_end(quarry, shape, life, ending, chance):
    """What all clients did and saw until the server's process was gone."""
    fork = multiprocessing.get_context("fork")
    waits = fork.RawArray("q", shape.clients)
    clients = []
    for number in range(shape.clients):
        client = Client(quarry.port, shape.connections, f"{life}/{number}", chance.random())
        client.value = (life * shape.clients + number + 1) * VALUES_A_CLIENT
        client.waits, client.number = waits, number
        clients.append(client)
    clients[0].will_end(quarry.process.pid, ending, after=chance.randrange(20, shape.operations_max))
    workers = []
    for client in clients:
        hears, tells = fork.Pipe(duplex=False)
        worker = fork.Process(target=client.work, args=(tells, quarry.process.pid), daemon=True)
        worker.start()
        # A client that dies without a word is the end of what is heard.
        tells.close()
        workers.append((worker, hears))
    for client in clients:
        client.close()
    told = [hear(client, *worker) for client, worker in zip(clients, workers)]
    failures = [one.failure for one in told if one.failure] or lost_too_early(clients, told)
    assert not failures, "\n".join([*failures, quarry.tail()])
    code = quarry.process.wait(30)
    dead = time.monotonic_ns()
    assert code == (0 if ending == signal.SIGTERM else -signal.SIGKILL), (code, quarry.tail())
    operations = [one for of_client in told for one in of_client.operations]
    return [one._replace(returned=dead) if one.result is UNKNOWN else one for one in operations]


def hear(client, worker, hears):
    """What the client tells at its end."""
    try:
        if hears.poll(LIFE_SECONDS_MAX):
            told = hears.recv()
        else:
            told = Told([], f"{client.name} did not end within {LIFE_SECONDS_MAX} s", None, None)
    except EOFError:
        told = Told([], f"{client.name} died without a word", None, None)
    if told.failure:
        worker.kill()
    worker.join()
    return told


def lost_too_early(clients, told):
    """A line for each client that lost the server before the first client had ended it."""
    ended = told[0].ended
    return [
        f"{client.name} lost the server before that was ended"
        for client, one in zip(clients, told)
        if one.lost is not None and (ended is None or one.lost < ended)
    ]


class Client:
    """The first connection writes; where there are others, they read."""

    def __init__(self, port, connections, name, seed):
        self.connections = [WireClient(port, REPLY_SECONDS_MAX) for _ in range(connections)]
        self.name = name
        self.random = random.Random(seed)
        self.operations = []
        self.value = 0
        # A server may write behind a reply as long as nobody else asks.
        self.reads_elsewhere = self.random.choice([1, 0.1, 0.01])
        # Of each key the value seen last, for comparing and setting.
        self.seen = {}
        self.end = None
        self.replies_left = None
        self.ended = None
        self.lost = None
        # Since when each client waits for a reply, 0 if it does not; shared by the clients' processes.
        self.waits = [0]
        self.number = 0

    def will_end(self, process, ending, after):
        """The client sends this signal to the server's process at once after so many of its replies."""
        self.end = lambda: os.kill(process, ending)
        self.replies_left = after

    def end_when_due(self):
        """Ends the server behind the last reply, or behind the first later one at which no other client waits for long."""
        self.replies_left -= 1
        if self.replies_left > 0 or self.ended is not None:
            return
        now = time.monotonic_ns()
        if all(since == 0 or now - since < LONG_WAIT_NS for since in self.waits):
            self.ended = now
            self.end()

    def note_loss(self):
        if self.lost is None:
            self.lost = time.monotonic_ns()

    def close(self):
        for connection in self.connections:
            connection.close()

    def work(self, tells, server):
        """Works until the connection is lost, then tells what was done; any other end is told, and ends the server."""
        failure = None
        try:
            while True:
                self.step()
        except ConnectionError:
            self.note_loss()
            self.waits[self.number] = 0
        except Exception:  # any other end fails the test, a reply that does not come among them
            failure = f"{self.name}: {traceback.format_exc()}"
            os.kill(server, signal.SIGKILL)
        tells.send(Told(self.operations, failure, self.ended, self.lost))
        # Nothing that the test's process would do at its end is done here.
        os._exit(0)

    def step(self):
        key = self.random.choices(KEYS, KEY_WEIGHTS)[0]
        kind = self.random.choices(CHOICES, CHOICE_WEIGHTS)[0]
        if kind == "read":
            self.read(key, self.random.choice(list(READS)))
        elif kind == "batches":
            self.read_in_batches()
        elif kind == "noise":
            self.noise()
        else:
            self.write(key, kind)

    def new_value(self):
        self.value += VALUE_STEP
        return self.value

    # What a client does beside the registers: large groups of writes, and the engine made durable.

    def noise(self):
        if self.random.random() < 0.2:
            self.ask(self.connections[0], {"fsync": 1}, "admin")
            return
        documents = [{"filler": "x" * 100}] * self.random.randrange(1, NOISE_DOCUMENTS_MAX)
        self.ask(self.connections[0], {"insert": "noise", "documents": documents}, DATABASE)

    def read(self, key, way):
        command = READS[way](key)
        concern = self.random.choices(READ_CONCERNS, READ_CONCERN_WEIGHTS)[0]
        if concern:
            command["readConcern"] = concern
        reply, invoked, returned = self.ask(self.reader(), command, DATABASE)
        if reply is None:
            return
        found = reply["cursor"]["firstBatch"]
        assert reply["cursor"]["id"] == 0, reply
        for one in KEYS if way == "scan" else [key]:
            values = [document["v"] for document in found if document.get("k", one) == one]
            assert len(values) <= 1, f"{way} finds {one} more than once: {found}"
            value = values[0] if values else None
            self.note(one, "read", (), value, invoked, returned, way)

    def reader(self):
        """Any connection but the first; that one, too, where others may not see yet what it has just written."""
        if self.random.random() < self.reads_elsewhere:
            return self.random.choice(self.connections[1:] or self.connections)
        return self.connections[0]

    def read_in_batches(self):
        """A find that takes one document at a time. What it does not show says nothing: it has no interval of its own."""
        connection = self.reader()
        command = find({"v": {"$gt": 0}}, hint={"$natural": 1}, batchSize=1)
        batch = "firstBatch"
        while command is not None:
            reply, invoked, returned = self.ask(connection, command, DATABASE)
            if reply is None:
                return
            for document in reply["cursor"][batch]:
                self.note(document["k"], "read", (), document["v"], invoked, returned, "in batches")
            cursor, batch = reply["cursor"]["id"], "nextBatch"
            command = {"getMore": bson.Int64(cursor), "collection": THINGS, "batchSize": 1} if cursor else None

    def write(self, key, kind):
        value = self.new_value()
        arguments = {"add": (self.random.randrange(1, VALUE_STEP),), "take": (), "delete": ()}.get(kind, (value,))
        if kind == "compare_and_set":
            arguments = (self.seen.get(key, NEVER_A_VALUE), value)
        filler = "x" * self.random.randrange(FILLER_BYTES_MAX) if self.random.random() < 0.2 else ""
        command = WRITES[kind](key, filler, *arguments)
        concern = self.random.choices(WRITE_CONCERNS, WRITE_CONCERN_WEIGHTS)[0]
        if concern:
            command["writeConcern"] = concern
        invoked = time.monotonic_ns()
        try:
            reply, invoked, returned = self.ask(self.connections[0], command, DATABASE)
        except ConnectionError:
            self.note(key, kind, arguments, UNKNOWN, invoked, invoked, "")
            raise
        assert reply is None or kind == "insert" or "writeErrors" not in reply, (kind, reply)
        result = UNKNOWN if reply is None else ANSWERS[kind](reply)
        self.note(key, kind, arguments, result, invoked, returned, "")

    def note(self, key, kind, arguments, result, invoked, returned, way):
        self.operations.append(Operation(key, kind, arguments, result, invoked, returned, f"{self.name} {way}"))
        value = result if kind in ("read", "add") else arguments[-1] if kind in ("put", "assign", "swap") else None
        if value is not None and result is not UNKNOWN:
            self.seen[key] = value

    def ask(self, connection, command, database):
        """The reply, or none where the server is going down, and the moments before and after."""
        invoked = time.monotonic_ns()
        self.waits[self.number] = invoked
        connection.send(command, database)
        message = connection.receive_message()
        self.waits[self.number] = 0
        if self.replies_left is not None:
            self.end_when_due()
        returned = time.monotonic_ns()
        reply = bson.decode(message[BODY_AT:])
        codes = {error["code"] for error in reply.get("writeErrors", [])} | {reply.get("code")} - {None}
        if codes & GOING_DOWN:
            self.note_loss()
            return None, invoked, returned
        if "writeConcernError" in reply or codes - {DUPLICATE_KEY}:
            raise CommandFailed(reply)
        return reply, invoked, returned


def find(key_filter, **options):
    return {"find": THINGS, "filter": key_filter, **options}


READS = {
    "by _id": lambda key: find({"_id": key}),
    "by a unique index": lambda key: find({"u": key}),
    "by an index": lambda key: find({"k": key}, hint="plain"),
    "covered": lambda key: find({"k": key}, hint="covering", projection={"_id": 0, "k": 1, "v": 1}),
    "aggregate": lambda key: {"aggregate": THINGS, "pipeline": [{"$match": {"_id": key}}], "cursor": {}},
    "scan": lambda _: find({"v": {"$gt": 0}}, hint={"$natural": 1}),
}


def document(key, filler, value):
    return {"_id": key, "u": key, "k": key, "v": value, "f": filler}


def update(query, change, upsert=False):
    return {"update": THINGS, "updates": [{"q": query, "u": change, "upsert": upsert}]}


def modify(key, **what):
    return {"findAndModify": THINGS, "query": {"_id": key}, **what}


WRITES = {
    "insert": lambda key, filler, value: {"insert": THINGS, "documents": [document(key, filler, value)]},
    "put": lambda key, filler, value: update({"_id": key}, document(key, filler, value), upsert=True),
    "assign": lambda key, filler, value: update({"_id": key}, {"$set": {"v": value, "f": filler}}),
    "compare_and_set": lambda key, _, old, new: update({"_id": key, "v": old}, {"$set": {"v": new}}),
    "swap": lambda key, filler, value: modify(key, update={"$set": {"v": value, "f": filler}}),
    "add": lambda key, _, amount: modify(key, update={"$inc": {"v": amount}}, new=True),
    "take": lambda key, _: modify(key, remove=True),
    "delete": lambda key, _: {"delete": THINGS, "deletes": [{"q": {"_id": key}, "limit": 1}]},
}


def value_of(reply):
    return reply["value"] and reply["value"]["v"]


ANSWERS = {
    "insert": lambda reply: "writeErrors" not in reply,
    "put": lambda reply: "upserted" not in reply,
    "assign": lambda reply: reply["n"],
    "compare_and_set": lambda reply: reply["n"],
    "swap": value_of,
    "add": value_of,
    "take": value_of,
    "delete": lambda reply: reply["n"],
}

CHOICES = ["read", "batches", "assign", "put", "compare_and_set", "swap", "add", "insert", "delete", "take", "noise"]
CHOICE_WEIGHTS = [40, 2, 16, 8, 8, 6, 6, 8, 3, 2, 1]
