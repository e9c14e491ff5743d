"""Libraries of compiled languages that talk to MongoDB, unchanged. Each does its work in a program of its own (`java/`, `go/`, `rust/`) and prints
what it saw as one line of JSON; a test holds that against what is right, and reads what the program left with PyMongo."""

import json
import os
import pathlib
import subprocess

import gridfs
import pytest
from bson import Decimal128
from bson.dbref import DBRef
from pymongo import MongoClient

HERE = pathlib.Path(__file__).parent
SECONDS_MAX = 240
#: A program that lives for seconds: nothing that pays off later.
JAVA = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
FILE = bytes(place * 31 % 251 for place in range(700_000))


def environment():
    """What a program finds of the one who runs the tests: nothing but where programs are."""
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/root")}


def said(command):
    """The JSON in the last line of a program that ended well."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, env=environment(), check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def java(tmp_path_factory):
    """Runs a class of the Maven project, which is compiled once."""
    target = tmp_path_factory.mktemp("java")
    where = [f"-DbuildDirectory={target}", f"-DoutputDirectory={target}/lib"]
    subprocess.run(["mvn", "-q", "-B", *where, "compile", "dependency:copy-dependencies"], cwd=HERE / "java", check=True, stdout=subprocess.DEVNULL)
    return lambda name, uri: said([*JAVA, "-cp", f"{target}/classes:{target}/lib/*", name, uri])


@pytest.fixture(scope="module")
def go(tmp_path_factory):
    """The program of the Go module."""
    program = tmp_path_factory.mktemp("go") / "driver"
    settings = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=HERE / "go", env={**os.environ, **settings}, check=True)
    return str(program)


@pytest.fixture(scope="module")
def rust():
    """The program over the mongodb crate: an example of the crate that has the driver among its dependencies."""
    build = ["cargo", "build", "-q", "--release", "-p", "quarry-server", "-p", "quarry-bench"]
    subprocess.run([*build, "--example", "tools_driver"], cwd=HERE, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", HERE.parents[2] / "target")
    return str(pathlib.Path(target) / "release/examples/tools_driver")


@pytest.fixture
def reader(set_of_one):
    """The second client."""
    with MongoClient(set_of_one) as client:
        yield client


def kept_by_a_driver(database):
    """What the tours of the drivers leave alike."""
    assert [(each["_id"], each["has"]) for each in database.accounts.find().sort("_id")] == [("a", 71), ("b", 30)]
    bucket = gridfs.GridFSBucket(database, "attachments")
    assert bucket.open_download_stream_by_name("renamed").read() == FILE
    assert database.attachments.files.count_documents({}) == 1
    assert [chunk["n"] for chunk in database.attachments.chunks.find().sort("n")] == [0, 1, 2]
    assert database.watched.count_documents({}) == 0


def kept_books(database):
    """What those leave that keep books."""
    assert database.books.index_information()["title_1"]["unique"] is True
    dick = list(database.books.find({"author": "Dick"}).sort("_id"))
    assert [book["tags"] for book in dick] == [["first", f"b{number}"] for number in (2, 4, 6, 8, 10)]
    assert dick[0] == {"_id": 2, "title": "Ubik", "author": "Dick", "year": 1962, "tags": ["first", "b2"]}


def events(updated):
    """The stream of a document's life, from its insert to its end; `updated` is the document that its update shows."""
    return [
        {"kind": "insert", "key": 1, "before": None, "after": {"_id": 1, "v": "new"}, "updated": None},
        {"kind": "update", "key": 1, "before": {"_id": 1, "v": "new"}, "after": updated, "updated": {"v": "newer"}},
        {"kind": "delete", "key": 1, "before": {"_id": 1, "v": "newer"}, "after": None, "updated": None},
    ]


def test_java_driver(java, set_of_one, reader):
    """Maps records, retries a transaction that conflicts, resumes a change stream with images, keeps files, writes two collections by one command."""
    seen = java("tools.DriverTour", set_of_one)
    assert seen["documents"] == {
        "index": "author_1_year_-1",
        "years": list(range(1970, 1962, -1)),
        "updated": 1,
        "upserted": 11,
        "after": "Book[id=2, title=Ubik, author=Dick, year=1962, tags=[first, b2]]",
        "duplicate": 11000,
        "deleted": 1,
        "count": 10,
        "estimate": 10,
        "authors": ["Dick", "Herbert"],
        "groups": [{"_id": "Dick", "books": 5, "last": 1970}, {"_id": "Herbert", "books": 5, "last": 1969}],
    }
    assert seen["transactions"] == {"moved": 101, "attempts": 2, "inside": 0, "outside": 2, "aborted": "changed my mind"}
    assert seen["changes"]["events"] == events(updated={"_id": 1, "v": "newer"})
    assert seen["files"] == {"names": ["renamed 700000"], "same": True}
    assert seen["bulk"] == {
        "inserted": 3,
        "modified": 2,
        "deleted": 1,
        "verbose": [3, 2, 1],
        "failed": {"0": 11000, "2": 11000},
        "insertedBeside": 1,
    }
    assert seen["strict"] == {
        "before": 1,
        "snapshot": 1,
        "now": 2,
        "heard": ["java_driver_strict.notes", "java_driver_strict.notes"],
        "short": 1,
        "collections": ["copies", "notes", "short"],
        "refused": "APIStrictError",
    }

    kept = reader.java_driver
    kept_by_a_driver(kept)
    kept_books(kept)
    assert kept.books.find_one({"_id": 1}) == {"_id": 1, "title": "title 1", "author": "Herbert", "year": 1962, "tags": ["a", "b1", "c"]}
    assert list(kept.people.find()) == [{"_id": 1, "name": "Ada"}]
    assert list(kept.things.find().sort("_id")) == [{"_id": 1, "owner": 1, "seen": True}, {"_id": 3}]
    assert list(reader.java_driver_strict.copies.find().sort("_id")) == [{"_id": 1}, {"_id": 2}]


def test_spring_data(java, set_of_one, reader):
    """Creates indexes from annotations, derives queries from names, pages, probes, aggregates, locks by version, runs transactions, hears changes."""
    seen = java("tools.spring.SpringTour", set_of_one)
    assert seen["derived"] == {
        "greater": ["Valis", "Ubik"],
        "starting": ["Dubliners", "Dune"],
        "tagged": ["Valis"],
        "priced": ["Ubik"],
        "first": "Dubliners",
        "count": 2,
        "exists": [True, False],
        "publisher": "New York",
        "streamed": [1914, 1961, 1965, 1969, 1981],
        "near": ["Dune 0", "Valis 13"],
        "words": ["Solaris", "Dune"],
        "deleted": 1,
    }
    assert seen["pages"] == {
        "total": 2,
        "pages": 2,
        "titles": [["Valis"], ["Ubik"]],
        "last": True,
        "windows": [["Solaris", "Dune"], ["Ubik", "Valis"]],
        "more": False,
    }
    assert seen["written"] == {"between": ["Solaris", "Dune"], "left out": None, "moved": 2, "byAuthor": ["Dick 2", "Herbert 1", "Lem 1"]}
    assert seen["examples"] == {"found": ["Ubik"], "count": 1}
    assert seen["aggregations"] == {
        "tags": [
            {"_id": "time", "books": 2, "last": 1982},
            {"_id": "desert", "books": 1, "last": 1965},
            {"_id": "god", "books": 1, "last": 1982},
            {"_id": "sea", "books": 1, "last": 1961},
            {"_id": "spice", "books": 1, "last": 1965},
        ],
        "facets": {
            "decades": [{"_id": 1960, "books": 2}, {"_id": 1970, "books": 1}, {"_id": "late", "books": 1}],
            "all": [{"_id": None, "mean": 1969.5}],
        },
    }
    assert seen["locking"] == {"version": 1, "stale": "OptimisticLockingFailureException", "duplicate": "DuplicateKeyException"}
    assert seen["template"] == {"changed": {"_id": "counter", "value": 5, "kind": "number"}, "bulk": [1, 2, 0]}
    assert seen["schema"] == {"refused": "DataIntegrityViolationException"}
    assert seen["files"] == {"same": True, "type": "text/plain"}
    wider = seen["wider"]
    # Nobody asked for an order.
    assert {**wider, "view": sorted(wider["view"]), "distinct": sorted(wider["distinct"])} == {
        "view": ["Cid", "bob"],
        "above": ["bob", "Ann"],
        "cities": ["New York"],
        "latest": [1965, 1961, 1970, 1982],
        "collated": ["bob", "Cid"],
        "distinct": ["Ann", "bob"],
        "greeting": "hello bob",
        "estimate": 3,
    }
    assert seen["transactions"] == {"committed": True, "inside": 0, "undone": "IllegalStateException", "count": 5}
    assert seen["changes"] == {"events": ["insert Persuasion", "replace Persuasion"]}

    kept = reader.java_spring
    years = {book["title"]: book["year"] for book in kept.books.find()}
    assert years == {"Dune": 1965, "Ubik": 1970, "Valis": 1982, "Solaris": 1961, "Emma": 1815, "Persuasion": 1818}
    ubik = kept.books.find_one({"title": "Ubik"})
    assert (ubik["price"], ubik["publisher"], ubik["tags"]) == (Decimal128("9.90"), DBRef("publishers", "ace"), ["time", "moved"])
    indexes = kept.books.index_information()
    assert indexes["title"]["unique"] is True and indexes["author_year"]["key"] == [("author", 1), ("year", -1)]
    assert indexes["lentAt"]["expireAfterSeconds"] == 30 * 24 * 3600
    assert indexes["place"]["key"] == [("place", "2dsphere")]
    assert [index["weights"] for index in indexes.values() if "weights" in index] == [{"summary": 1}]
    assert list(kept.counters.find().sort("_id")) == [{"_id": "counter", "kind": "number", "value": 0}, {"_id": "other", "value": 10}]
    assert kept.members.distinct("name") == ["Ada"]
    people = {name: {**index, "key": dict(index["key"])} for name, index in kept.people.index_information().items()}
    assert people["boss"]["hidden"] is True
    assert {"details.$**": 1} in [index["key"] for index in people.values()]
    assert kept.members.options()["validator"]["$jsonSchema"]["required"] == ["name"]


def test_morphia(java, set_of_one, reader):
    """Maps entities with references and versions, creates their indexes, updates and aggregates them, commits and undoes transactions."""
    seen = java("tools.MorphiaTour", set_of_one)
    assert seen == {
        "well": ["Ada", "Cy"],
        "boss": "Ada",
        "raised": 2,
        "stale": "VersionMismatchException",
        "duplicate": "MongoWriteException",
        "undone": "IllegalStateException",
        "groups": [{"pay": 410, "people": 2}, {"pay": 700, "people": 2}],
        "deleted": 1,
    }
    employees = reader.java_morphia.employees
    assert [(each["name"], each["pay"]) for each in employees.find().sort("name")] == [("Ada", 300), ("Cy", 260), ("Dee", 400)]
    assert employees.find_one({"name": "Cy"})["boss"].id == employees.find_one({"name": "Ada"})["_id"]
    indexes = employees.index_information()
    assert indexes["by_pay"]["key"] == [("pay", 1)] and indexes["one_name"]["unique"] is True


def test_go_driver(go, set_of_one, reader):
    """Maps structs, retries a transaction that conflicts, resumes a change stream with images, keeps files, writes in bulk to one and two collections."""
    seen = said([go, set_of_one])
    assert seen["documents"] == {
        "indexes": ["author_1_year_-1", "title_1"],
        "years": list(range(1970, 1962, -1)),
        "upserted": 11,
        "updated": 5,
        "after": {"_id": 2, "title": "Ubik", "author": "Dick", "year": 1962, "tags": ["first", "b2"]},
        "duplicate": True,
        "deleted": 2,
        "count": 9,
        "authors": ["Dick", "Herbert"],
    }
    assert seen["transactions"] == {"attempts": 2, "inside": 0, "outside": 2, "undone": True}
    # Looked up when the document is gone already.
    assert seen["changes"]["events"] == events(updated=None)
    assert seen["files"] == {"length": 700_000, "same": True}
    assert seen["bulk"] == {"inserted": 2, "modified": 1, "deleted": 1, "upserted": 3, "failed": [0, 11000]}
    assert seen["clientBulk"] == {"inserted": 3, "modified": 2, "deleted": 1, "verbose": [3, 2, 1], "failed": [11000, 11000]}

    kept = reader.go_driver
    kept_by_a_driver(kept)
    kept_books(kept)
    assert list(kept.people.find().sort("_id")) == [{"_id": 2, "name": "Bob"}, {"_id": 3, "name": "Cy"}, {"_id": 4, "name": "Dee"}]
    assert list(kept.owners.find()) == [{"_id": 1, "name": "Ada"}]
    assert list(kept.things.find()) == [{"_id": 1, "owner": 1, "seen": True}]


def test_rust_driver(rust, set_of_one, reader):
    """Retries a transaction that conflicts, resumes a change stream with images, keeps files, writes two collections by one command."""
    seen = said([rust, set_of_one])
    assert seen["transactions"] == {"attempts": 2, "inside": 0, "undone": "changed my mind"}
    assert seen["changes"]["events"] == events(updated={"_id": 1, "v": "newer"})
    assert seen["files"] == {"same": True}
    assert seen["bulk"] == {"inserted": 3, "modified": 2, "deleted": 1, "third": 2, "failed": [11000, 11000]}

    kept = reader.rust_driver
    kept_by_a_driver(kept)
    assert list(kept.people.find()) == [{"_id": 1, "name": "Ada"}]
    assert list(kept.things.find()) == [{"_id": 1, "owner": 1, "seen": True}]
