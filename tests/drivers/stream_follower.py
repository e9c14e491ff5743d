"""A client that follows a change stream over kills of its server, and holds each event against what those before it made.

Each event comes once and in order: its token is higher than the last one's, the document that it changes is as the events
before left it (`fullDocumentBeforeChange`), and the changed fields of an update make the one of the other. The changes of a
transaction come together. What all events make is compared with what is there in the end.
"""

import random
import threading
import time

from pymongo import MongoClient
from pymongo.errors import AutoReconnect, ConnectionFailure
from pymongo.monitoring import CommandListener

PATIENCE_SECONDS = 60
OPTIONS = {"full_document": "required", "full_document_before_change": "required"}


class Model:
    """The documents that a stream's events make."""

    def __init__(self):
        self.documents = {}
        self.tokens = []
        self.time = None
        # The changes of each transaction, by session and txnNumber.
        self.transactions = {}
        self.last_transaction = None

    def take(self, event):
        token = event["_id"]["_data"]
        assert not self.tokens or token > self.tokens[-1], "an event comes again, or behind a later one"
        assert self.time is None or event["clusterTime"] >= self.time
        self.tokens.append(token)
        self.time = event["clusterTime"]
        self.note_transaction(event)
        key = (event["ns"]["coll"], event["documentKey"]["_id"])
        before = self.documents.pop(key, None)
        kind = event["operationType"]
        assert (before is None) == (kind == "insert"), f"{kind} of {key}: {before}"
        assert event.get("fullDocumentBeforeChange") == before, key
        if kind == "delete":
            return
        after = event["fullDocument"]
        if kind == "update":
            assert changed(before, event["updateDescription"]) == after, event
        self.documents[key] = after

    def note_transaction(self, event):
        transaction = None
        if "txnNumber" in event:
            transaction = event["lsid"]["id"], event["txnNumber"]
            is_begun = transaction in self.transactions
            assert is_begun == (transaction == self.last_transaction), "a transaction is told in two parts"
            self.transactions[transaction] = self.transactions.get(transaction, 0) + 1
        self.last_transaction = transaction


def changed(before, description):
    """The document with the changed fields of an update, none of whose names has a dot."""
    after = dict(before)
    for name in description["removedFields"]:
        del after[name]
    for path, value in description["updatedFields"].items():
        name, _, index = path.partition(".")
        if not index:
            after[name] = value
            continue
        after[name] = list(after[name])
        assert int(index) <= len(after[name])
        after[name][int(index) :] = [value, *after[name][int(index) + 1 :]]
    return after


class Opened(CommandListener):
    """Tells of each stream that was opened: the driver resumes one by itself where the server is back soon enough."""

    def __init__(self, tell):
        self.tell = tell

    def started(self, event):
        pass

    def succeeded(self, event):
        if event.command_name == "aggregate":
            self.tell()

    def failed(self, event):
        pass


class Follower(threading.Thread):
    """Follows one database until the document `{_id: "end"}` is inserted; `port` is asked anew for each connection."""

    def __init__(self, port, token, seed):
        super().__init__(daemon=True)
        self.port, self.token = port, token
        self.random = random.Random(seed)
        self.model = Model()
        self.failure = None
        # How often it has opened the stream; told to those who wait for that.
        self.resumed = 0
        self.has_resumed = threading.Condition()
        self.last_resumed = time.monotonic()

    def run(self):
        try:
            while not self.follow():
                assert time.monotonic() < self.last_resumed + PATIENCE_SECONDS, "the server does not come back"
        except Exception as failure:  # the main thread tells it
            self.failure = failure

    def follow(self):
        """Whether the end has come; false where the connection was lost."""
        size = self.random.choice([1, 3, 100])
        try:
            uri, listeners = f"mongodb://127.0.0.1:{self.port()}/", [Opened(self.note_resumed)]
            with MongoClient(uri, serverSelectionTimeoutMS=1000, retryReads=False, event_listeners=listeners) as client:
                with client.test.watch(resume_after=self.token, batch_size=size, max_await_time_ms=100, **OPTIONS) as stream:
                    while True:
                        event = stream.try_next()
                        self.token = stream.resume_token
                        if event is None:
                            continue
                        if event["documentKey"] == {"_id": "end"}:
                            return True
                        self.model.take(event)
        except (AutoReconnect, ConnectionFailure):
            return False

    def note_resumed(self):
        with self.has_resumed:
            self.resumed, self.last_resumed = self.resumed + 1, time.monotonic()
            self.has_resumed.notify_all()

    def wait_until_resumed(self, times):
        with self.has_resumed:
            come = self.has_resumed.wait_for(lambda: self.resumed >= times or self.failure, PATIENCE_SECONDS)
        assert come and self.failure is None, self.failure

    def wait_until_over(self):
        """Waits for the end of the stream as long as events come: after many kills the writers are far ahead."""
        told = -1
        while self.is_alive() and told < len(self.model.tokens):
            told = len(self.model.tokens)
            self.join(PATIENCE_SECONDS)
        assert not self.is_alive() and self.failure is None, self.failure


def beginning(port):
    """The token of now."""
    with MongoClient(f"mongodb://127.0.0.1:{port}/") as client, client.test.watch() as stream:
        assert stream.try_next() is None
        return stream.resume_token


def tokens_again(port, token):
    """The tokens of all events behind `token`, read in one go."""
    found = []
    with MongoClient(f"mongodb://127.0.0.1:{port}/") as client, client.test.watch(resume_after=token) as stream:
        while True:
            event = stream.try_next()
            if event is None:
                continue
            if event["documentKey"] == {"_id": "end"}:
                return found
            found.append(event["_id"]["_data"])
