"""The packages of the binary under test, made once, and what it takes to run their servers."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest
from pymongo import MongoClient

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/drivers"))

from quarry_process import binary  # noqa: E402  (found through the line above)

# A user who has the package waits this long for the first document at most, from an empty directory on.
FIRST_INSERT_SECONDS_MAX = 30
LOOK_SECONDS = 0.02


@pytest.fixture(scope="session")
def pack(tmp_path_factory):
    """Makes the packages of a kind and returns where they are."""
    made = {}

    def packed(kind, **environment):
        key = (kind, *sorted(environment.items()))
        if key not in made:
            dist = tmp_path_factory.mktemp(kind)
            command = [ROOT / "scripts/package.sh", kind]
            settings = {**os.environ, "QUARRY": str(pathlib.Path(binary()).resolve()), "DIST": str(dist), **environment}
            done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stdout + done.stderr
            made[key] = dist
        return made[key]

    return packed


@contextlib.contextmanager
def soon():
    """Fails a block that takes longer than a new user would wait, who has the package."""
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < FIRST_INSERT_SECONDS_MAX


@contextlib.contextmanager
def serving(command, directory, port_file, **options):
    """Runs a server until the end of the block; gives its port."""
    log = pathlib.Path(directory) / "said"
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, **options)
    try:
        deadline = time.monotonic() + FIRST_INSERT_SECONDS_MAX
        while not port_file.exists() or not port_file.read_text():
            assert process.poll() is None, log.read_text(errors="replace")
            assert time.monotonic() < deadline, log.read_text(errors="replace")
            time.sleep(LOOK_SECONDS)
        yield int(port_file.read_text())
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    assert code == 0, log.read_text(errors="replace")


def insert_one(port, **options):
    """What every package is for."""
    with MongoClient("127.0.0.1", port, serverSelectionTimeoutMS=5000, **options) as client:
        assert client.shop.things.insert_one({"name": "hammer"}).acknowledged
        assert client.shop.things.count_documents({}) == 1


def needs(program):
    """The path of a program that bootstrap.sh installs."""
    found = shutil.which(program)
    assert found, f"{program} is missing: scripts/bootstrap.sh package"
    return found
