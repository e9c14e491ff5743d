"""Tools from npm, unchanged. Each script of `node` uses one, and says in JSON what the tool told it; pymongo reads what is stored.

The first line of each docstring is the tool's cell in docs/works-with.md.
"""

import collections.abc
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import time

import gridfs
import pytest

HERE = pathlib.Path(__file__).parent
SECONDS_MAX = 120
PATIENCE_S = 20
DUPLICATE_KEY, VALIDATION_FAILED = 11000, 121

Node = collections.abc.Callable[..., subprocess.CompletedProcess]


@pytest.fixture(scope="session")
def workshop(tmp_path_factory):
    """The scripts beside the packages: Node looks for those from where a script lies."""
    directory = tmp_path_factory.mktemp("node") / "scripts"
    shutil.copytree(HERE / "node", directory)
    (directory / "node_modules").symlink_to(pathlib.Path(os.environ["DRIVERS_DIR"]) / "tools" / "node" / "node_modules")
    return directory


@pytest.fixture
def node(workshop) -> Node:
    """Runs a script of the workshop, in a directory of it and with variables where some are given."""
    program = (pathlib.Path(os.environ["DRIVERS_DIR"]) / "tools" / "node-path").read_text().strip()

    def run(script: str, *arguments: str, directory: str = ".", **variables: str) -> subprocess.CompletedProcess:
        command = [program, str(workshop / script), *arguments]
        settings = {"PATH": os.environ["PATH"], "HOME": str(workshop), **variables}
        return subprocess.run(command, cwd=workshop / directory, capture_output=True, text=True, timeout=SECONDS_MAX, env=settings, check=False)

    return run


def said(done: subprocess.CompletedProcess) -> dict:
    """What the script's last line tells."""
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def keys(collection) -> dict[str, dict]:
    """The options of each index but that of `_id`, by its keys: `name:1`."""
    found = {}
    for index in collection.list_indexes():
        pattern = ",".join(f"{field}:{direction}" for field, direction in index.pop("key").items())
        if pattern != "_id:1":
            found[pattern] = {option: value for option, value in index.items() if option not in ("v", "name", "ns")}
    return found


def wait_until(is_so):
    begun = time.monotonic()
    while not is_so():
        assert time.monotonic() - begun < PATIENCE_S, "it never came"
        time.sleep(0.02)


def test_mongoose(node, on_set):
    """Schemas with their indexes, populate, lean and text queries, aggregates, cursors, bulk writes, versions, transactions, a change stream, a time series."""
    told = said(node("mongoose.mjs", on_set.uri))
    assert told["duplicate"] == {"code": DUPLICATE_KEY, "keyValue": {"name": "Lem"}}
    assert (told["invalid"], told["version"], told["aborted"]) == ("min", "VersionError", "given up")
    assert told["events"] == [["insert", "Solaris", 2], ["insert", "Fiasco", 1], ["update", "Fiasco", 2]]
    assert (told["populated"], told["lean"], told["text"]) == ("Lem", [{"title": "Solaris"}, {"title": "Fiasco"}], ["Fiasco"])
    assert told["aggregate"] == [{"_id": "contact", "pages": 322}, {"_id": "love", "pages": 204}, {"_id": "sea", "pages": 526}]
    assert (told["cursor"], told["returned"], told["bulk"]) == (["Fiasco", "Solaris"], 203, 1)
    # Indexes are compared with the schema's: nothing but the new one is missing, nothing is there that it lacks.
    assert (told["diff"], told["dropped"]) == ([{"tags": 1}], [])
    assert (told["measures"], told["moved"]) == ([22, 21], 1)
    assert "Cannot perform a non-multi update on a time-series collection" in told["one"] and "$where" in told["where"]

    [measures] = on_set.database.list_collections(filter={"name": "measures"})
    assert measures["type"] == "timeseries" and measures["options"]["expireAfterSeconds"] == 10**9
    books, authors = on_set.database.books, on_set.database.authors
    assert sorted(author["name"] for author in authors.find()) == ["Dick", "Lem"]
    solaris, ubik = books.find({}, sort=[("title", 1)])
    assert (solaris["tags"], solaris["prices"], solaris["__v"]) == (["sea"], {"eur": 12}, 1)
    assert (ubik["pages"], ubik["tags"], ubik["author"]) == (203, ["half-life"], authors.find_one({"name": "Dick"})["_id"])
    assert set(keys(books)) == {"pages:1", "title:1,pages:-1", "tags:1", "_fts:text,_ftsx:1"}
    # `background`, which Mongoose asks for, is taken, changes nothing and is not listed.
    assert keys(authors) == {"name:1": {"unique": True}}


def test_typeorm(node, on_standalone):
    """Repositories save, find, page, update, delete and aggregate entities whose indexes are declared by decorators."""
    told = said(node("typeorm.mjs", on_standalone.uri))
    assert told["duplicate"] == DUPLICATE_KEY
    assert (told["found"], told["paged"]) == ([["Ada", 37], ["Grace", 86]], [["Ada"], 2])
    assert (told["one"], told["byId"], told["gone"], told["count"]) == (True, "Grace", None, 1)
    assert told["aggregate"] == [{"_id": None, "oldest": 86}]
    # With `_id`; synchronizing again makes no other.
    assert told["indexes"] == told["afterwards"] == 5

    users = on_standalone.database.user
    stored = list(users.find({}, {"_id": 0, "name": 1, "age": 1, "address": 1}, sort=[("name", 1)]))
    assert stored == [
        {"name": "Ada", "age": 37, "address": {"city": "London"}},
        {"name": "Grace", "age": 86, "address": {"city": "Arlington"}},
    ]
    assert keys(users) == {
        "name:1": {"background": False},
        "email:1": {"unique": True, "sparse": True, "background": False},
        "seen:1": {"expireAfterSeconds": 3600, "background": False},
        "name:1,age:1": {"background": False},
    }


def test_agenda(node, on_set):
    """Jobs run when they are due, repeat, fail with their reason and are cancelled, found by polling and by a change stream."""
    told = said(node("agenda.mjs", on_set.uri))
    assert (sorted(told["ran"]), told["failed"], told["told"]) == (["Ada", "Grace"], ["no paper"], 3)
    assert told["ticks"] >= 2 and (told["queued"], told["cancelled"]) == (3, 1)

    jobs = on_set.database.agendaJobs
    tick = jobs.find_one({"name": "tick"})
    assert tick["repeatInterval"] == "1 second" and tick["nextRunAt"] > tick["lastRunAt"]
    broken = jobs.find_one({"name": "broken"})
    assert (broken["failCount"], broken["failReason"]) == (1, "no paper")
    letters = {letter["data"]["to"]: letter for letter in jobs.find({"name": "letter"})}
    assert sorted(letters) == ["Ada", "Grace", "Linus"]
    assert letters["Linus"]["lastRunAt"] is None and letters["Grace"]["lastFinishedAt"] is not None
    assert jobs.count_documents({"lockedAt": {"$ne": None}}) == 0


def test_connect_mongo(node, on_standalone):
    """Sessions of an express application are stored, read, touched, destroyed, and expire by the index that it makes."""
    told = said(node("connect_mongo.mjs", on_standalone.uri))
    assert told == {"users": ["ada", "grace", None], "touched": True, "length": 3, "afterLogout": None}
    sessions = on_standalone.database.sessions
    assert keys(sessions) == {"expires:1": {"expireAfterSeconds": 0, "background": True}}
    # Grace's was cut to a second; the server deletes it.
    wait_until(lambda: sessions.count_documents({"session.user": "grace"}) == 0)
    (kept,) = sessions.find()
    assert (kept["session"]["user"], kept["session"]["cookie"]["originalMaxAge"]) == ("ada", 3_600_000)


def test_mikroorm(node, on_set):
    """Entities with relations, a unit of work in transactions, unique keys, optimistic locks and upserts."""
    told = said(node("mikro_orm.mjs", on_set.uri, on_set.name))
    assert (told["populated"], told["sorted"], told["counted"]) == (["Lem", ["sea"]], ["Fiasco"], 2)
    assert told["aggregate"] == [{"_id": None, "pages": 527}]
    assert (told["duplicate"], told["version"], told["rolledBack"]) == (True, True, "given up")

    database = on_set.database
    authors = {author["name"]: author for author in database.author.find()}
    assert sorted(authors) == ["Dick", "Stanislaw Lem"]
    assert (authors["Stanislaw Lem"]["version"], authors["Dick"]["version"]) == (2, 7)
    (solaris,) = database.book.find()
    assert (solaris["pages"], solaris["author"]) == (205, authors["Stanislaw Lem"]["_id"])
    assert solaris["tags"] == [database.tag.find_one({"label": "sea"})["_id"]]
    assert keys(database.author)["name:1"]["unique"] is True
    assert set(keys(database.book)) == {"pages:1", "title:1,pages:1"}


def test_migrate_mongo(node, on_set):
    """Migrations run up, in a transaction too, stop at one that fails, are listed by status and run down again; a lock is held."""
    database = on_set.database

    def migrate(command: str) -> subprocess.CompletedProcess:
        program = "node_modules/migrate-mongo/bin/migrate-mongo.js"
        return node(program, command, directory="migrate_mongo", URI=on_set.uri, DATABASE=on_set.name)

    up = migrate("up")
    assert up.returncode == 1
    assert "Could not migrate up 20260103000000-refused.js: Document failed validation" in up.stderr
    assert [change["fileName"] for change in database.changelog.find(sort=[("fileName", 1)])] == [
        "20260101000000-people.js",
        "20260102000000-split-names.js",
    ]
    assert database.people.find_one({"name": "Ada Lovelace"}, {"_id": 0}) == {"name": "Ada Lovelace", "first": "Ada", "last": "Lovelace"}
    assert database.counts.find_one({}, {"_id": 0}) == {"people": 2}
    assert keys(database.changelog_lock) == {"createdAt:1": {"expireAfterSeconds": 60}}
    assert database.changelog_lock.count_documents({}) == 0
    status = migrate("status")
    assert status.returncode == 0 and status.stdout.count("PENDING") == 1

    database.changelog_lock.insert_one({"by": "another"})
    locked = migrate("down")
    assert locked.returncode == 1 and "a lock is in place" in locked.stderr
    database.changelog_lock.delete_many({})
    assert migrate("down").returncode == 0
    assert database.people.find_one({"name": "Ada Lovelace"}, {"_id": 0}) == {"name": "Ada Lovelace"}
    assert migrate("down").returncode == 0
    assert "people" not in database.list_collection_names()
    assert database.changelog.count_documents({}) == 0


def test_nestjs_mongoose(node, on_set):
    """The module of an application connects and makes its models' indexes; a transaction, and the error of a unique key."""
    told = said(node("nestjs_mongoose.mjs", on_set.uri))
    assert told == {"duplicate": DUPLICATE_KEY, "invalid": "ValidationError", "found": [["Tom", 4], ["Felix", 9]]}
    cats = on_set.database.cats
    assert [(cat["name"], cat["age"]) for cat in cats.find(sort=[("age", 1)])] == [("Tom", 4), ("Felix", 9)]
    assert {pattern: options.get("unique", False) for pattern, options in keys(cats).items()} == {"name:1": True, "age:1": False}


def test_payload(node, on_set):
    """Collections with unique fields, relations, joins, points, locales, drafts and their versions, logins; a transaction is rolled back."""
    told = said(node("payload.mjs", on_set.uri))
    assert (told["duplicate"], told["login"], told["deleted"]) == ("ValidationError", "Ada", 2)
    assert (told["near"], told["within"]) == (["Post 0", "Post 1"], ["Post 2", "Post 3"])
    assert (told["paged"], told["like"], told["joined"]) == (["Post 3", "Post 2"], ["Post 0", "Post 5"], 6)
    assert (told["locales"], told["versions"]) == ({"en": "Post 5", "de": "Beitrag 5"}, 3)

    database = on_set.database
    (sea,) = database.categories.find()
    assert sea["title"] == "Sea"
    posts = list(database.posts.find({}, sort=[("number", 1)]))
    assert [post["number"] for post in posts] == [2, 3, 4, 5] and {post["category"] for post in posts} == {sea["_id"]}
    assert posts[0]["place"] == {"type": "Point", "coordinates": [15, 52]}
    drafts = database["_posts_versions"].find({"parent": posts[3]["_id"]}, sort=[("createdAt", 1), ("_id", 1)])
    assert [draft["version"]["title"]["en"] for draft in drafts] == ["Post 5", "Post 5", "Draft"]
    assert keys(database.categories)["title:1"]["unique"] is True and "place:2dsphere" in keys(database.posts)


def test_papr(node, on_standalone):
    """Schemas become validators of collections, are changed by collMod, and refuse what breaks them; queries, upserts, timestamps."""
    told = said(node("papr.mjs", on_standalone.uri))
    assert (told["short"], told["kind"], told["extra"]) == (VALIDATION_FAILED,) * 3
    assert (told["updated"], told["upserted"], told["deleted"], told["exists"]) == (37, "guest", 1, False)
    assert told["projected"] == [{"name": "Grace"}, {"name": "Ken"}, {"name": "Linus"}]
    assert told["distinct"] == ["admin", "guest"]

    database = on_standalone.database
    (users,) = database.list_collections(filter={"name": "users"})
    schema = users["options"]["validator"]["$jsonSchema"]
    assert schema["additionalProperties"] is False and "name" in schema["required"]
    ada = database.users.find_one({"name": "Ada"})
    assert (ada["age"], ada["kind"], ada["tags"]) == (37, "guest", ["a", "b"]) and ada["updatedAt"] > ada["createdAt"]
    assert sorted(database.users.distinct("name")) == ["Ada", "Ken", "Linus"]


def test_monk(node, on_standalone):
    """Queries, updates, cursors, indexes and bulk writes through the Node driver 3.7, which it brings."""
    told = said(node("monk.mjs", on_standalone.uri))
    assert (told["duplicate"], told["updated"], told["counted"], told["distinct"]) == (DUPLICATE_KEY, 86, 2, 3)
    assert (told["sorted"], told["aggregate"]) == ([{"name": "Grace"}, {"name": "Linus"}], [{"_id": None, "age": 177}])
    assert (told["removed"], told["bulk"], told["each"], told["byId"]) == (1, 1, ["Ada", "Grace", "Ken"], "Ada")
    assert (sorted(told["indexes"]), told["collections"]) == (["_id_", "name_1"], ["users"])
    stored = on_standalone.database.users.find({}, {"_id": 0}, sort=[("name", 1)])
    assert list(stored) == [{"name": "Ada", "age": 37}, {"name": "Grace", "age": 86}, {"name": "Ken", "age": 80}]


def test_multer_gridfs_storage(node, on_standalone):
    """Uploads of an express application are stored in GridFS, and read in whole and in part, renamed and deleted by the driver's bucket."""
    told = said(node("multer_gridfs_storage.mjs", on_standalone.uri))
    assert told["uploaded"] == [["large.txt", 1_234_567], ["small.txt", 5], ["empty.txt", 0]]
    assert (told["whole"], told["part"], told["missing"]) == (True, True, "ENOENT")

    database = on_standalone.database
    bucket = gridfs.GridFSBucket(database, bucket_name="uploads")
    with bucket.open_download_stream_by_name("large.txt") as large:
        assert hashlib.sha256(large.read()).hexdigest() == told["sha256"]
        assert (large.length, large.chunk_size, large.metadata["by"]) == (1_234_567, 100_000, "ada")
    assert bucket.open_download_stream_by_name("renamed.txt").read() == b"small"
    assert database["uploads.files"].count_documents({}) == 2
    assert database["uploads.chunks"].count_documents({}) == 13 + 1
    assert keys(database["uploads.chunks"])["files_id:1,n:1"]["unique"] is True
