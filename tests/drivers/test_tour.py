"""The tour of README.md, typed into mongosh as it stands: every step answers what the page says, and prints little."""

import os
import pathlib
import re
import subprocess

import pytest

from quarry_process import Quarry

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"
# A screen holds the whole tour.
LINES_MAX = 50


@pytest.fixture
def directory(tmp_path):
    """What `npm install vega-datasets` leaves."""
    modules = pathlib.Path(os.environ["DRIVERS_DIR"]) / "node/node_modules"
    (tmp_path / "node_modules").symlink_to(modules)
    return tmp_path


@pytest.fixture
def server(tmp_path):
    """The first engine: `tour.mongosh.js` goes over all of them."""
    quarry = Quarry(tmp_path / "data", os.environ.get("QUARRY_ENGINES", "rocksdb").split(",")[0]).start()
    yield quarry
    assert quarry.stop() == 0


def test_the_tour_answers_and_prints_little(server, directory):
    tour = README.read_text().split("## A tour in five minutes", 1)[1].split("\n## ", 1)[0]
    typed = "\n".join(re.findall(r"```js\n(.*?)```", tour, re.DOTALL))
    drivers = pathlib.Path(os.environ["DRIVERS_DIR"])
    node = (drivers / "node-path").read_text().strip()
    shell = [node, drivers / "node/node_modules/mongosh/bin/mongosh.js", "--quiet", "--norc", f"{server.uri}tour"]
    home = {**os.environ, "HOME": str(directory)}
    done = subprocess.run(shell, input=typed, capture_output=True, text=True, cwd=directory, env=home, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    assert not re.search(r"Error|Uncaught", said), said
    for answer in ("3201", "The Shawshank Redemption", "{ _id: 'Drama', count: ", "[ 'COLLSCAN', 3201 ]", "[ 'FETCH', 23 ]",
                   "Director_1_IMDB Rating_-1", "p99Micros"):
        assert answer in said, said
    assert re.search(r"> 23\n.*> true\n", said), said
    assert len(said.splitlines()) <= LINES_MAX, said
