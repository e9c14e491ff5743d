"""`quarry migrate`: a server that is written to into another one, as it is in the end."""

import itertools
import signal
import subprocess
import threading

import pytest
from pymongo import MongoClient
from quarry_process import Quarry, binary
from test_dump import fill, state

PATIENCE_SECONDS = 60


@pytest.fixture
def pair(tmp_path):
    """A source and the server that gets everything."""
    servers = [Quarry(tmp_path / name, "memory").start() for name in ("source", "destination")]
    yield servers
    for server in servers:
        server.stop()


def migrate(source, destination, *arguments):
    command = [binary(), "migrate", source.uri, destination.uri, *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def ended(process):
    said = process.communicate(timeout=PATIENCE_SECONDS)[1]
    assert process.returncode == 0, said
    return said


class Load(threading.Thread):
    """Changes documents and definitions until it is stopped, or has done so many rounds."""

    def __init__(self, uri, first=0, rounds=None):
        super().__init__()
        self.uri = uri
        self.first = first
        self.rounds = rounds
        self.is_stopped = threading.Event()
        self.error = None

    def run(self):
        try:
            with MongoClient(self.uri) as client:
                self.write(client.shop)
        except Exception as error:  # noqa: BLE001  (told by `end`)
            self.error = error

    def write(self, database):
        for n in itertools.count(self.first + 1):
            if self.is_stopped.is_set() or (self.rounds is not None and n > self.first + self.rounds):
                return
            database.many.update_one({"_id": n % 5000}, {"$set": {"touched": n}, "$push": {"list": n}})
            database.many.insert_one({"_id": 10_000 + n, "n": n})
            database.many.delete_one({"_id": 10_000 + n - 50})
            # Two documents exchange a unique value.
            database.unique.update_one({"_id": 1}, {"$set": {"u": -n}})
            database.unique.update_one({"_id": 2}, {"$set": {"u": n % 2}})
            database.unique.update_one({"_id": 1}, {"$set": {"u": (n + 1) % 2}})
            if n % 100 == 0:
                database[f"new_{n}"].insert_one({"_id": n})
                database[f"new_{n}"].create_index("a")
                database[f"new_{n}"].rename(f"renamed_{n}")
                database.drop_collection(f"renamed_{n - 100}")

    def end(self):
        self.is_stopped.set()
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive() and self.error is None, self.error


def prepare(uri):
    with MongoClient(uri) as client:
        fill(client.shop)
        client.shop.unique.insert_many([{"_id": 1, "u": 0}, {"_id": 2, "u": 1}])
        client.shop.unique.create_index("u", unique=True)
        client.other.things.insert_one({"_id": 1})
        client.shop.command("createUser", "ada", pwd="p", roles=["read"])


def check_equal(source, destination):
    with MongoClient(source.uri) as one, MongoClient(destination.uri) as other:
        assert sorted(one.list_database_names()) == sorted(other.list_database_names())
        for name in ("shop", "other"):
            assert state(other[name]) == state(one[name])


def test_a_quiet_server_is_copied_once(pair):
    source, destination = pair
    prepare(source.uri)
    said = ended(migrate(source, destination, "--once"))
    assert "their counts are equal" in said
    check_equal(source, destination)
    with MongoClient(f"mongodb://ada:p@127.0.0.1:{destination.port}/shop") as client:
        assert client.other.things.find_one() == {"_id": 1}
    again = migrate(source, destination, "--once")
    assert "is there already; --drop removes it first" in again.communicate(timeout=PATIENCE_SECONDS)[1]
    ended(migrate(source, destination, "--once", "--drop", "--quiet"))
    check_equal(source, destination)


def test_a_server_that_is_written_to_is_followed(pair):
    source, destination = pair
    prepare(source.uri)
    load = Load(source.uri)
    load.start()
    process = migrate(source, destination)
    lines = []
    for line in process.stderr:
        lines.append(line)
        if "following the changes" in line:
            break
    load.end()
    # Changes made while it follows and nobody else writes.
    more = Load(source.uri, first=1_000_000, rounds=300)
    more.start()
    more.join(PATIENCE_SECONDS)
    more.end()
    process.send_signal(signal.SIGINT)
    assert "their counts are equal" in ended(process), lines
    check_equal(source, destination)


def test_chosen_collections_get_other_names(pair):
    source, destination = pair
    prepare(source.uri)
    ended(migrate(source, destination, "--once", "--nsInclude", "shop.m*", "--nsFrom", "shop.*", "--nsTo", "copy.of_*"))
    with MongoClient(source.uri) as one, MongoClient(destination.uri) as other:
        assert other.list_database_names() == ["admin", "copy"] or other.list_database_names() == ["copy"]
        assert other.copy.list_collection_names() == ["of_many"]
        assert other.copy.of_many.count_documents({}) == one.shop.many.count_documents({})
