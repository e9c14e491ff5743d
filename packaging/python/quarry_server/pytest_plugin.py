"""Fixtures for pytest: one server for the run, its data in memory."""

import pytest

from quarry_server import Server


@pytest.fixture(scope="session")
def quarry_server():
    """A running server."""
    server = Server().start()
    yield server
    server.stop()


@pytest.fixture
def quarry_uri(quarry_server):
    """The connection string of the run's server."""
    return quarry_server.uri
