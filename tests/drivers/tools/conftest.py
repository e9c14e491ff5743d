"""Servers for tools that others made, a standalone and a set of one for the whole run, and a database of each test's own."""

import dataclasses
import os
import pathlib
import sys

import pytest
from pymongo import MongoClient
from pymongo.database import Database

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from quarry_process import Quarry  # noqa: E402  (found through the line above)

# Tools know nothing of engines: the first one named serves them.
ENGINE = os.environ.get("QUARRY_ENGINES", "rocksdb").split(",")[0]
TTL_EVERY_SECOND = ["--setParameter", "ttlMonitorSleepSecs=1"]
SET_NAME = "rs0"


@dataclasses.dataclass
class Place:
    """Where a tool works: a database named after the test, and the same database as pymongo sees it."""

    port: int
    uri: str
    database: Database

    @property
    def name(self) -> str:
        return self.database.name


def serve(directory, arguments):
    """Runs a server until the fixture ends; every collection is validated then."""
    quarry = Quarry(directory / "data", ENGINE, [*TTL_EVERY_SECOND, *arguments]).start()
    yield quarry
    alive = quarry.running()
    code = quarry.stop() if alive else quarry.process.returncode
    assert (alive, code) == (True, 0), quarry.tail()


@pytest.fixture(scope="session")
def lone_server(tmp_path_factory):
    yield from serve(tmp_path_factory.mktemp("standalone"), [])


@pytest.fixture(scope="session")
def set_server(tmp_path_factory):
    yield from serve(tmp_path_factory.mktemp("set"), ["--replSet", SET_NAME])


def place(quarry, test, options=""):
    name = test.name.removeprefix("test_")
    with MongoClient(quarry.uri, serverSelectionTimeoutMS=5000, tz_aware=True) as client:
        yield Place(quarry.port, f"{quarry.uri}{name}{options}", client[name])


@pytest.fixture
def on_standalone(lone_server, request):
    yield from place(lone_server, request.node)


@pytest.fixture
def on_set(set_server, request):
    """For tools that want transactions or change streams, which ask for a set."""
    yield from place(set_server, request.node, f"?replicaSet={SET_NAME}")


@pytest.fixture(scope="session")
def standalone(lone_server):
    """The URI of a server that is by itself."""
    return lone_server.uri


@pytest.fixture(scope="session")
def set_of_one(set_server):
    """The URI of a server that is a replica set."""
    return set_server.uri
