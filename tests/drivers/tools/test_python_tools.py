"""Libraries of Python that build on MongoDB, unchanged. Each does its work in a program of its own (`python/`), run by the virtual
environment that has them all; a test holds what the program read against what is right, and reads what it left with PyMongo."""

import datetime
import json
import os
import pathlib
import shutil
import signal
import subprocess

import pytest
from bson import Decimal128
from pymongo import MongoClient

PROGRAMS = pathlib.Path(__file__).parent / "python"
PYTHON = pathlib.Path(os.environ["DRIVERS_DIR"]) / "tools" / "python" / "bin" / "python"
SECONDS_MAX = 180
STOP_SECONDS_MAX = 30


def environment(**more):
    """What a program finds of the one who runs the tests: nothing but where programs are."""
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/root"), "PYTHONDONTWRITEBYTECODE": "1", **more}


def ran(*arguments, directory=PROGRAMS, **more):
    """What a program says before it ends well."""
    done = subprocess.run(
        [PYTHON, *arguments], capture_output=True, text=True, timeout=SECONDS_MAX, cwd=directory, env=environment(**more), check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def said(*arguments, **more):
    """The JSON in the last line of a program."""
    return json.loads(ran(*arguments, **more).splitlines()[-1])


@pytest.fixture
def reader(standalone):
    """The second client, of the standalone."""
    with MongoClient(standalone) as client:
        yield client


@pytest.fixture
def set_reader(set_of_one):
    """The second client, of the set."""
    with MongoClient(set_of_one) as client:
        yield client


def test_mongoengine(standalone, reader):
    """Saves documents with references, inheritance, unique fields, points and files, queries and aggregates them, deletes by cascade."""
    shop = said("use_mongoengine.py", standalone, "mongoengine")
    assert shop["asked"] == {
        "taken": True,
        "people": ["Author", "Person", "Author"],
        "authors": 2,
        "by city": ["Mary", "Carl"],
        "of ada": ["Notes on the engine", "Poetical science"],
        "either": [2, 3],
        "two subjects": [1, 3],
        "near": [1, 4],
        "text": [1],
        "cities": ["Brunswick", "Jedburgh"],
        "reader": "Carl",
    }
    assert shop["aggregated"] == {
        "sum": "32.50",
        "average": 2.0,
        "frequencies": [["numbers", 2], ["engines", 1], ["physics", 1], ["poems", 1]],
    }
    assert shop["changed"] == {
        "subjects": ["engines", "numbers", "looms"],
        "sold": 10,
        "upserted": 50,
        "many": [3, 3],
        "cover": [600_000, "image/png"],
        "indexes": {"missing": [], "extra": []},
    }
    assert shop["counted"] == [0, 2]
    assert shop["refused"][0] == 59 and "JavaScript" in shop["refused"][1]
    assert shop["readers left"] == ["Ada"] and shop["left"] == [1, 2, 50]

    kept = reader.mongoengine
    ada = kept.people.find_one({"name": "Ada"})
    assert ada["_cls"] == "Person.Author" and ada["born"] == datetime.datetime(1815, 12, 10)
    assert [book["_id"] for book in kept.books.find({"author": ada["_id"]}).sort("_id")] == [1, 2]
    assert kept.books.find_one({"_id": 1})["price"] == Decimal128("12.50")
    assert kept.books.find_one({"_id": 50}) == {"_id": 50, "title": "Tides", "price": Decimal128("5.00")}
    assert kept["mongoengine.counters"].find_one() == {"_id": "books.number", "next": 4}
    assert kept.people.index_information()["email_1"]["unique"] is True
    assert kept.fs.files.find_one()["length"] == 600_000


def test_beanie(set_of_one, set_reader):
    """Saves documents with links, indexes, views and revisions, saves their changes alone, writes in bulk and in transactions, and measures a time series."""
    goods = said("use_beanie.py", set_of_one, "beanie")
    assert goods["asked"] == {
        "taken": True,
        "on high": [["bolt", "high"], ["glue", "high"]],
        "classes": ["Good", "Good", "Good", "Perishable"],
        "on window": ["lamp"],
        "lazy": "low",
        "totals": [["high", 900], ["low", 4], ["window", 0]],
        "average": 452,
        "most": 900,
        "count": 4,
        "labels": ["iron", "small"],
        "by label": [["iron", 904], ["small", 900]],
    }
    assert goods["changed"] == {
        "unchanged": False,
        "differences": {"stock": 850},
        "clash": True,
        "new": [10, ["iron", "long"]],
        "stock": {"beam": 10, "bolt": 850, "glue": 20, "lamp": 0, "nail": 1, "rope": 70},
    }
    assert goods["transacted"] == {"inside": 750, "back": 850, "after": [["bolt", 800], ["screw", 50]]}
    assert goods["left"] == ["beam", "bolt", "glue", "rope", "screw"]
    assert goods["measured"] == [["hall", 22], ["hall", 21], ["hall", 20], ["cellar", 30]]

    kept = set_reader.beanie
    bolt = kept.goods.find_one({"title": "bolt"})
    assert (bolt["stock"], bolt["price"]) == (800, Decimal128("0.15"))
    assert bolt["shelf"].id == kept.shelves.find_one({"name": "high"})["_id"]
    assert kept.goods.find_one({"title": "glue"})["_class_id"] == "Good.Perishable"
    assert kept.goods.index_information()["labels"]["partialFilterExpression"] == {"stock": {"$gt": 0}}
    [readings] = kept.list_collections(filter={"name": "readings"})
    assert readings["options"]["timeseries"]["granularity"] == "hours" and readings["options"]["expireAfterSeconds"] == 10**9
    assert kept.command("listCollections", filter={"name": "stock_by_label"})["cursor"]["firstBatch"][0]["type"] == "view"


def test_motor(set_of_one, set_reader):
    """Inserts in bulk, aggregates, follows a change stream, runs transactions and keeps files in GridFS."""
    answers = said("use_motor.py", set_of_one, "motor")
    assert answers == {
        "bulk": [2, [11000]],
        "groups": [sum(range(group, 100, 7)) for group in range(7)],
        "last": list(range(101, 91, -1)),
        "replaced": 1007,
        "followed": [["insert", "new"], ["update", "new"], ["delete", "new"]],
        "transacted": [53, "moved", 101],
        "filed": [7000, "fff", ["letters.txt"]],
    }
    kept = set_reader.motor
    assert [each["n"] for each in kept.moved.find()] == [0] and kept.things.count_documents({"n": 0}) == 0
    assert kept.fs.chunks.count_documents({}) == 7


def test_async_pymongo(set_of_one, set_reader):
    """Writes to several collections by one bulkWrite, counts from a hundred tasks, follows changes with what was before them."""
    answers = said("use_async_pymongo.py", set_of_one, "async_pymongo")
    assert answers == {
        "bulk": [2, 1],
        "outside": [1, 2],
        "file": 600_000,
        "followed": [["insert", None], ["replace", 1]],
        "together": [True, 100],
        "ended": [50, "ExecutionTimeout"],
    }
    assert list(set_reader.async_pymongo.first.find().sort("_id")) == [{"_id": 1, "a": 5}, {"_id": 2}]
    assert set_reader.async_pymongo.counters.find_one() == {"_id": "counter", "n": 100}


@pytest.fixture
def django(set_of_one, tmp_path):
    """Runs Python beside a copy of the project, into which the migrations of Django's own applications are written."""
    project = tmp_path / "project"
    shutil.copytree(PROGRAMS / "django_project", project)
    return lambda *arguments: ran(*arguments, directory=project, QUARRY_URI=set_of_one, QUARRY_DATABASE="django")


FILTERED = {
    "by author": ["Connexion", "Heavens"],
    "excluded": ["Ideals", "Invariants"],
    "either": ["Heavens", "Ideals"],
    "in range": ["Connexion", "Heavens"],
    "of year": ["Invariants"],
    "tagged": ["Heavens", "Notes"],
    "embedded": ["Notes"],
    "reviewed": ["Notes"],
    "json": ["Notes"],
    "no language": ["Connexion", "Heavens", "Invariants"],
    "expression": ["Connexion", "Heavens"],
    "pattern": ["Ideals"],
    "many": ["Heavens", "Ideals", "Notes"],
    "exists": ["numbers", "skies"],
    "subquery": ["Connexion", "Heavens"],
}
ANNOTATED = {
    "whole": {"mean": "247.4", "most": "35.25", "all": "85.50", "authors": "3"},
    "by author": [["Mary Somerville", 2, 1079], ["Emmy Noether", 2, 92], ["Ada Lovelace", 1, 66]],
    "having": [["numbers", 3]],
    "latest": ["Notes", "Ideals", "Connexion"],
    "months": [["1831-11", 1], ["1834-08", 1], ["1843-08", 1], ["1918-09", 1], ["1921-09", 1]],
    "years": [1918, 1843],
    "sized": [["large", 2], ["small", 3]],
    "names": [["GB: ada lovelace", 12], ["DE: emmy noether", 12], ["GB: mary somerville", 15]],
    "union": ["Heavens", "Ideals"],
    "joined": [
        ["Heavens", "Mary Somerville"], ["Connexion", "Mary Somerville"], ["Notes", "Ada Lovelace"],
        ["Invariants", "Emmy Noether"], ["Ideals", "Emmy Noether"],
    ],
    "fetched": {"Ada Lovelace": ["Notes"], "Mary Somerville": ["Connexion", "Heavens"]},
    "raw": ["Connexion", "Heavens"],
}


def test_django(django, set_reader):
    """Migrates a project with users and sessions, filters, joins, annotates and aggregates by the ORM, runs transactions."""
    django("-m", "django", "makemigrations", "auth", "contenttypes", "--settings", "project.settings")
    applied = django("-m", "django", "migrate", "--settings", "project.settings")
    assert applied.count("OK") == applied.count("Applying") >= 5
    answers = json.loads(django("use_django.py").splitlines()[-1])
    assert answers["filtered"] == FILTERED
    assert answers["annotated"] == ANNOTATED
    assert answers["changed"] == {
        "taken": True,
        "updated": 2,
        "made": [False, True],
        "inside": 0,
        "countries": [["Ada Lovelace", "GB"], ["Emmy Noether", "US"], ["Mary Somerville", "GB"], ["Sofia Kovalevskaya", "RU"]],
    }
    assert answers["used"] == {
        "logged in": "grace@example.com",
        "refused": True,
        "may": True,
        "loans": 6,
        "basket": [1, 2],
    }
    assert answers["deleted"] == {"library.Author": 1, "library.Book": 2, "library.Book_subjects": 3}

    kept = set_reader.django
    assert sorted(book["title"] for book in kept.library_book.find()) == ["Ideals", "Invariants", "Notes"]
    notes = kept.library_book.find_one({"title": "Notes"})
    assert notes["price"] == Decimal128("12.50") and notes["reviews"][1]["stars"] == 3
    assert "library_loan" in kept.list_collection_names() and "library_borrowing" not in kept.list_collection_names()
    indexes = kept.library_book.index_information()
    assert indexes["one_title"]["unique"] is True and "by_pages" not in indexes
    assert indexes["by_author"]["key"] == [("author_id", 1), ("published", -1)]
    assert kept.library_author.count_documents({"birthday": {"$exists": True}}) == 0


@pytest.fixture
def celery(standalone, reader, tmp_path):
    """The environment of an application whose worker runs."""
    # The worker tails this collection from its end, and a server keeps no tailable cursor of an empty one.
    broadcast = reader.celery_broker.create_collection("messages.broadcast", capped=True, size=100_000)
    broadcast.insert_one({"queue": "celery.pidbox", "payload": "{}"})
    variables = environment(QUARRY_URI=standalone, QUARRY_DATABASE="celery")
    with open(tmp_path / "worker.log", "w", encoding="utf-8") as log:
        worker = subprocess.Popen(
            [PYTHON, "-m", "celery", "-A", "celery_tasks", "worker", "--pool", "solo", "--loglevel", "INFO"],
            cwd=PROGRAMS, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )
        try:
            yield {"QUARRY_URI": standalone, "QUARRY_DATABASE": "celery"}
            assert worker.poll() is None, (tmp_path / "worker.log").read_text(encoding="utf-8")
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.wait(STOP_SECONDS_MAX)
    assert worker.returncode == 0, (tmp_path / "worker.log").read_text(encoding="utf-8")


def test_celery(celery, reader):
    """Sends tasks through a broker on MongoDB, alone, in chains, groups and chords, and reads their results from its collections."""
    answers = said("use_celery.py", **celery)
    first = answers.pop("id")
    assert answers == {
        "one": 5,
        "failed": ["FAILURE", "ValueError", "no such file"],
        "chain": 113,
        "group": [0, 2, 4, 6, 8],
        "chord": 6,
        "flaky": 2,
        "later": 8,
        "answered": [{"ok": "pong"}],
    }
    results = reader.celery.celery_taskmeta
    assert results.count_documents({"_id": first}) == 0
    [broken] = results.find({"name": "celery_tasks.broken"})
    assert (broken["status"], broken["retries"]) == ("FAILURE", 0) and "no such file" in broken["traceback"]
    assert results.count_documents({"name": "celery_tasks.add", "status": "SUCCESS"}) == 11
    broker = reader.celery_broker
    assert broker.messages.count_documents({"queue": "celery"}) == 0
    assert broker["messages.broadcast"].options()["capped"] is True


def test_odmantic(set_of_one, set_reader):
    """Saves models with references and embedded models, finds them sorted and in pages, commits and aborts transactions."""
    stable = said("use_odmantic.py", set_of_one, "odmantic")
    assert stable == {
        "taken": True,
        "inside": 4,
        "count": 3,
        "heavy": [["Dune", "Ann"], ["Comet", "Ann"]],
        "last": ["Comet", "Ascot"],
        "at Epsom": ["Dune"],
        "paged": ["Dune"],
        "groups": [{"weight": 1450.5}],
        "left": [["Comet", 2, 480.5], ["Ember", 0, 460.0]],
    }
    horses = set_reader.odmantic.horses
    comet = horses.find_one({"name": "Comet"})
    assert comet["races"][1] == {"place": "York", "rank": 3}
    assert set_reader.odmantic.owner.find_one({"_id": comet["owner"]})["name"] == "Ann"
    assert horses.index_information()["by_name"]["key"] == [("name", 1), ("born", -1)]


def test_umongo(standalone, reader):
    """Saves documents with inheritance, references and unique fields, and writes their changes alone."""
    choir = said("use_umongo.py", standalone, "umongo")
    assert choir == {
        "taken": {"name": "Field value must be unique."},
        "changes": ["$set"],
        "teacher": "Ruth",
        "songs": [["Ave", "3.5"], ["Lark", "4"]],
        "by age": ["Lena", "Ruth"],
        "soloists": ["alto"],
        "dumped": 18,
        "left": 1,
    }
    [lena] = reader.umongo.singers.find()
    assert (lena["_cls"], lena["v"], lena["age"]) == ("Soloist", "alto", 18)
    assert lena["songs"][0]["minutes"] == Decimal128("3.5")
    assert reader.umongo.singers.index_information()["name_1"]["unique"] is True


def test_flask_pymongo(standalone, reader):
    """Answers pages out of a collection, and saves and sends files in GridFS, also to one who has them already."""
    pages = said("use_flask_pymongo.py", standalone, "flask_pymongo")
    assert pages == {
        "first": "Ada",
        "all": [{"to": "Carl", "words": 300}, {"to": "Ada", "words": 120}],
        "missing": 404,
        "file": [200, "text/plain", True],
        "known": 304,
        "no file": 404,
    }
    assert reader.flask_pymongo.fs.files.find_one({"filename": "letter.txt"})["length"] == 400_000


def test_flask_session(standalone, reader):
    """Keeps sessions of several browsers in a collection whose entries expire."""
    baskets = said("use_flask_session.py", standalone, "flask_session")
    assert baskets == {
        "ann": {"basket": ["tea", "salt"]},
        "bob": {"basket": ["milk"]},
        "stranger": {"basket": []},
        "cleared": {"basket": []},
    }
    sessions = reader.flask_session.sessions
    [ann] = sessions.find()
    assert ann["id"].startswith("session:") and ann["expiration"] > datetime.datetime.now() + datetime.timedelta(days=30)
    assert sessions.index_information()["expiration_1"]["expireAfterSeconds"] == 0


def test_apscheduler(standalone, reader):
    """Stores jobs that one scheduler adds and another one runs, pauses and removes."""
    jobs = said("use_apscheduler.py", standalone, "apscheduler")
    assert jobs == {"taken": True, "ran": ["often", "once"], "left": {"nightly": False, "often": True}}
    stored = {job["_id"]: job for job in reader.apscheduler.jobs.find()}
    assert sorted(stored) == ["nightly", "often"]
    assert stored["nightly"]["next_run_time"] is None and isinstance(stored["often"]["next_run_time"], float)
    assert reader.apscheduler.jobs.index_information()["next_run_time_1"]["sparse"] is True


def test_pymongoarrow(standalone, reader):
    """Writes a pandas frame and reads it back as a frame, as an Arrow table and as NumPy arrays, also out of an aggregation."""
    weather = said("use_pymongoarrow.py", standalone, "pymongoarrow")
    hot = sum(1 for number in range(5000) if number % 40 - 10 + 0.5 > 25)
    assert weather == {
        "wrote": 5000,
        "same": True,
        "rows": 1000,
        "means": [[f"s{station}", 1000] for station in range(5)],
        "mean": True,
        "table": [hot, ["_id", "degrees", "at"]],
        "numbers": 4950,
    }
    assert reader.pymongoarrow.weather.find_one({"_id": 4999}) == {
        "_id": 4999, "station": "s4", "degrees": 29.5, "at": datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=4999),
    }


def test_eve(standalone, reader):
    """Serves collections by REST: filters, sorts, embeds, validates, edits by etag, keeps versions, deletes softly, aggregates."""
    service = said("use_eve.py", standalone, "eve")
    assert service == {
        "made": ["OK", "OK", "OK"],
        "taken": [422, ["pages", "title"]],
        "found": {
            "sorted": [["Heavens", "Notes"], 3],
            "near": ["Notes"],
            "text": ["Heavens"],
            "projected": ["title"],
            "tags": [["numbers", 2], ["engines", 1], ["skies", 1]],
        },
        "author": "Ada",
        "stale": 412,
        "patched": [200, 200],
        "versions": [66, 70, 71],
        "deleted": 204,
        "gone": 404,
    }
    kept = reader.eve
    assert kept.authors.find_one()["_deleted"] is True
    assert kept.books.find_one({"title": "Notes II"})["_version"] == 3
    assert kept.books_versions.count_documents({}) == 5
    assert kept.books.index_information()["shop"]["key"] == [("shop", "2dsphere")]


def test_limits(standalone, reader):
    """Counts requests in fixed, moving and sliding windows that expire, each by one update with a pipeline."""
    let = [[True, True, True, False, False], True, 0, True]
    assert said("use_limits.py", standalone, "limits") == {
        "healthy": True,
        "FixedWindowRateLimiter": let,
        "MovingWindowRateLimiter": let,
        "SlidingWindowCounterRateLimiter": let,
    }
    assert reader.limits.counters.index_information()["expireAt_1"]["expireAfterSeconds"] == 0
    assert [each["count"] for each in reader.limits.counters.find({"_id": {"$regex": "Fixed.*bob"}})] == [1]
