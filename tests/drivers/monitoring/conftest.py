"""One server with its admin port for the tests of what people and monitoring systems look at, and a load on it."""

import contextlib
import os
import pathlib
import sys
import threading

import pytest
from pymongo import MongoClient

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from quarry_process import Quarry  # noqa: E402  (found through the line above)

# What these tests look at does not depend on the engine: the first one named does.
ENGINE = os.environ.get("QUARRY_ENGINES", "rocksdb").split(",")[0]


@pytest.fixture
def start(tmp_path):
    """Starts a server with the arguments given; each is stopped at the end and must have run until then."""
    with contextlib.ExitStack() as stack:

        def started(*arguments):
            quarry = Quarry(tmp_path / "data", ENGINE, ["--adminPort", "0", *arguments]).start()
            stack.callback(stop, quarry)
            return quarry

        yield started


def stop(quarry):
    alive = quarry.running()
    code = quarry.stop() if alive else quarry.process.returncode
    assert (alive, code) == (True, 0), quarry.tail()


@pytest.fixture
def server(start):
    return start()


@pytest.fixture
def load(server):
    """Inserts, point reads and scans, from a client of its own until the block ends."""

    @contextlib.contextmanager
    def running():
        ended = threading.Event()
        worker = threading.Thread(target=work, args=(server.uri, ended))
        worker.start()
        try:
            yield
        finally:
            ended.set()
            worker.join()

    return running


def work(uri, ended):
    with MongoClient(uri) as client:
        things = client.shop.things
        number = things.estimated_document_count()
        while not ended.is_set():
            things.insert_one({"_id": number, "group": number % 7})
            things.find_one({"_id": number})
            if number % 50 == 0:
                list(things.find({"group": 3}, limit=20))
            number += 1
