"""One server per engine for the whole run, and a database of its own for every test."""

import itertools
import os
import pathlib
import sys

import pytest
from pymongo import MongoClient

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from quarry_process import Quarry  # noqa: E402  (found through the line above)
from validation import validate_database, validate_everything  # noqa: E402
from wire_client import WireClient  # noqa: E402

ENGINES = os.environ.get("QUARRY_ENGINES", "rocksdb,mdbx,memory").split(",")
NAMES = itertools.count(1)


@pytest.fixture(scope="session", params=ENGINES)
def server(request, tmp_path_factory):
    quarry = Quarry(tmp_path_factory.mktemp(request.param) / "data", request.param)
    quarry.start()
    yield quarry
    alive = quarry.running()
    code = quarry.stop() if alive else quarry.process.returncode
    assert (alive, code) == (True, 0), quarry.tail()


@pytest.fixture(scope="session")
def client(server):
    with MongoClient(server.uri, serverSelectionTimeoutMS=5000) as connected:
        yield connected


@pytest.fixture
def database(client, server):
    """An empty database, whose collections must all be valid when the test has ended."""
    name = f"test_{next(NAMES)}"
    yield client[name]
    try:
        with WireClient(server.port) as connection:
            validate_database(connection, name)
    finally:
        client.drop_database(name)


@pytest.fixture
def collection(database):
    return database["things"]


@pytest.fixture(params=[engine for engine in ENGINES if engine != "memory"])
def durable(request, tmp_path):
    """A server over an engine that survives a restart, for the tests that stop it."""
    quarry = Quarry(tmp_path / "data", request.param)
    quarry.start()
    yield quarry
    if quarry.running():
        try:
            validate_everything(quarry.port)
        finally:
            quarry.kill()
