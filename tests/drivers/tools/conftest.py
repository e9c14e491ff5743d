"""Servers for the tests of other people's tools: a standalone and a set of one, for the whole run."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from quarry_process import Quarry  # noqa: E402  (found through the line above)

# What the tools see does not depend on the engine: the first one named does.
ENGINE = os.environ.get("QUARRY_ENGINES", "rocksdb").split(",")[0]


def served(directory, arguments=()):
    quarry = Quarry(directory / "data", ENGINE, arguments)
    quarry.start()
    yield quarry.uri
    alive = quarry.running()
    code = quarry.stop() if alive else quarry.process.returncode
    assert (alive, code) == (True, 0), quarry.tail()


@pytest.fixture(scope="session")
def standalone(tmp_path_factory):
    """The URI of a server that is by itself."""
    yield from served(tmp_path_factory.mktemp("standalone"))


@pytest.fixture(scope="session")
def set_of_one(tmp_path_factory):
    """The URI of a server that is a replica set."""
    yield from served(tmp_path_factory.mktemp("set"), ["--replSet", "rs0"])
