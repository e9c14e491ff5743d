"""`quarry dump` and `quarry restore-dump`: what goes into files comes back, and damaged files are refused with the place."""

import datetime
import gzip
import json
import subprocess

import bson
import pytest
from bson import Binary, Decimal128, Int64, ObjectId, Regex, Timestamp
from cutter import Cutter, names
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from quarry_process import Quarry, binary


# CRC-64/XZ of the five bytes, as archives have it.
CRC_OF_AN_EMPTY_DOCUMENT = 8477136882698379158


def quarry(*arguments, data=None):
    """The ended process of a subcommand."""
    command = [binary(), *map(str, arguments)]
    return subprocess.run(command, input=data, capture_output=True, timeout=120, check=False)


def succeed(*arguments, data=None):
    ended = quarry(*arguments, data=data)
    assert ended.returncode == 0, (arguments, ended.stdout[:1000], ended.stderr[:4000])
    return ended.stdout


def fail(*arguments, data=None):
    """What a subcommand that fails says."""
    ended = quarry(*arguments, data=data)
    assert ended.returncode == 1, (arguments, ended.returncode, ended.stderr[:4000])
    return ended.stderr.decode()


def fill(database):
    """Collections of several kinds; their names in order, without the view."""
    every_type = {
        "_id": ObjectId(),
        "double": -0.0,
        "text": "käse\u0000",
        "list": [1, [Int64(2)], {}],
        "binary": Binary(b"\x00\xff", 5),
        "date": datetime.datetime(2020, 2, 29, tzinfo=datetime.timezone.utc),
        "regex": Regex("^a", "i"),
        "decimal": Decimal128("1.50"),
        "timestamp": Timestamp(7, 8),
        "nothing": None,
    }
    database.types.insert_one(every_type)
    database.many.insert_many([{"_id": n, "n": n % 7, "text": "x" * (n % 100)} for n in range(5000)])
    database.many.create_index([("n", 1), ("text", -1)], name="both")
    database.many.create_index("text", partialFilterExpression={"n": {"$gt": 3}})
    database.create_collection("capped", capped=True, size=100_000, max=500)
    database.capped.insert_many([{"_id": -n} for n in range(300)])
    database.create_collection("checked", validator={"a": {"$gt": 0}}, validationAction="error")
    database.checked.insert_one({"a": 1})
    database.checked.create_index("a", unique=True)
    database.create_collection("clustered", clusteredIndex={"key": {"_id": 1}, "unique": True, "name": "by number"})
    database.clustered.create_index("a")
    database.create_collection("empty")
    stamp = {"_id": 1, "stamp": Timestamp(0, 0)}
    database.command("insert", "stamps", documents=[stamp], bypassEmptyTsReplacement=True)
    database["with/slash %"].insert_one({"_id": "x"})
    database.create_collection("view", viewOn="many", pipeline=[{"$match": {"n": 1}}])
    return ["capped", "checked", "clustered", "empty", "many", "stamps", "types", "with/slash %"]


def without(document, *names):
    return {name: value for name, value in document.items() if name not in names}


def state(database):
    """Everything that a dump keeps, as it can be compared. Documents as bytes, in their natural order."""
    raw = database.with_options(bson.CodecOptions(document_class=bson.raw_bson.RawBSONDocument))
    definitions, documents = {}, {}
    for entry in database.list_collections():
        name = entry["name"]
        entry["info"].pop("uuid", None)
        definitions[name] = (entry, [dict(index) for index in database[name].list_indexes()] if entry["type"] == "collection" else [])
        documents[name] = [document.raw for document in raw[name].find()]
    return definitions, documents


@pytest.fixture
def filled(database):
    fill(database)
    return database


def check_restored(client, database, restored):
    before, after = state(database), state(client[restored])
    client.drop_database(restored)
    assert after == before


WAYS = {
    "directory": lambda path: (["--out", path], [path]),
    "compressed directory": lambda path: (["--out", path, "--gzip"], [path]),
    "archive": lambda path: ([f"--archive={path}"], [f"--archive={path}"]),
    "compressed archive": lambda path: ([f"--archive={path}", "--gzip"], [f"--archive={path}", "--gzip"]),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_dumped_comes_back(server, client, filled, tmp_path, way):
    write, read = WAYS[way](tmp_path / "dump")
    succeed("dump", "--uri", server.uri, "--db", filled.name, *write)
    restored = f"{filled.name}_restored"
    names = ["--nsFrom", f"{filled.name}.*", "--nsTo", f"{restored}.*"]
    succeed("restore-dump", "--uri", server.uri, *read, *names)
    check_restored(client, filled, restored)


def test_an_archive_goes_through_a_pipe_and_replaces_what_is_there(server, client, filled):
    archive = succeed("dump", "--uri", server.uri, "--db", filled.name, "--archive")
    before = state(filled)
    filled.many.delete_many({"n": 2})
    filled.many.insert_one({"_id": "new"})
    filled.types.drop()
    succeed("restore-dump", "--uri", server.uri, "--archive", "--drop", data=archive)
    assert state(filled) == before


def test_one_collection_by_a_filter(server, filled, tmp_path):
    chosen = ["--db", filled.name, "--collection", "many", "--query", '{"n": {"$in": [1, 2]}}']
    succeed("dump", "--uri", server.uri, *chosen, "--out", tmp_path)
    found = bson.decode_all((tmp_path / filled.name / "many.bson").read_bytes())
    assert {document["n"] for document in found} == {1, 2}
    assert len(found) == filled.many.count_documents({"n": {"$in": [1, 2]}})
    assert succeed("dump", "--uri", server.uri, *chosen, "--out=-") == (tmp_path / filled.name / "many.bson").read_bytes()
    metadata = json.loads((tmp_path / filled.name / "many.metadata.json").read_text())
    assert [index["name"] for index in metadata["indexes"]] == ["_id_", "both", "text_1"]
    assert (metadata["collectionName"], metadata["type"]) == ("many", "collection")


def test_patterns_choose_and_a_dry_run_writes_nothing(server, client, filled, tmp_path):
    succeed("dump", "--uri", server.uri, "--db", filled.name, "--out", tmp_path)
    names = ["--nsFrom", f"{filled.name}.$what$", "--nsTo", f"{filled.name}_b.$what$_copy"]
    chosen = ["--nsInclude", f"{filled.name}.*e*", "--nsExclude", "*.v*", *names]
    said = quarry("restore-dump", "--uri", server.uri, tmp_path, *chosen, "--dryRun").stderr.decode()
    assert "would be restored" in said and f"{filled.name}_b" not in client.list_database_names()
    succeed("restore-dump", "--uri", server.uri, tmp_path, *chosen)
    restored = client[f"{filled.name}_b"]
    assert sorted(restored.list_collection_names()) == ["capped_copy", "checked_copy", "clustered_copy", "empty_copy", "types_copy"]
    client.drop_database(restored.name)


def test_documents_that_are_refused_are_named_and_counted(server, filled, tmp_path):
    succeed("dump", "--uri", server.uri, "--db", filled.name, "--collection", "many", "--out", tmp_path)
    filled.many.delete_many({"_id": {"$gte": 10}})
    said = fail("restore-dump", "--uri", server.uri, tmp_path)
    assert "E11000" in said and "10 documents were refused" in said
    assert filled.many.count_documents({}) == 5000
    assert "stopped" in fail("restore-dump", "--uri", server.uri, tmp_path, "--stopOnError")


def test_damaged_files_are_refused_with_the_place(server, filled, tmp_path):
    succeed("dump", "--uri", server.uri, "--db", filled.name, "--out", tmp_path / "dump")
    archive = succeed("dump", "--uri", server.uri, "--db", filled.name, "--archive")
    file = tmp_path / "dump" / filled.name / "many.bson"
    whole = file.read_bytes()
    first = len(bson.encode(filled.many.find_one({"_id": 0})))
    target = ["restore-dump", "--uri", server.uri, "--drop"]
    file.write_bytes(whole[:-3])
    assert "many.bson` at byte" in (said := fail(*target, tmp_path / "dump")) and "cut off" in said
    file.write_bytes(whole[:first] + b"\xff\xff\xff\x7f" + whole[first + 4 :])
    assert f"many.bson` at byte {first}: a document of 2147483647 bytes" in fail(*target, tmp_path / "dump")
    file.unlink()
    emptied = quarry(*target, tmp_path / "dump")
    assert emptied.returncode == 0, emptied.stderr
    assert f"`{filled.name}.many` has no file of documents" in emptied.stderr.decode()
    unfinished = file.with_name("many.bson.part")
    unfinished.write_bytes(whole[:-3])
    assert "many.bson.part`: the dump was cut off" in fail(*target, tmp_path / "dump")
    unfinished.rename(file)
    file.write_bytes(whole)
    for cut in (3, 100, len(archive) // 2, len(archive) - 1):
        assert "`-` at byte" in fail(*target, "--archive", "--dryRun", data=archive[:cut])
    # Between two blocks, too, where nothing is missing but the rest.
    ends = [at + 4 for at in range(len(archive) - 4) if archive[at : at + 4] == b"\xff" * 4]
    for cut in {*ends[:12], *ends[-12:]}:
        assert "`-` at byte" in fail(*target, "--archive", "--dryRun", data=archive[:cut])
    packed = gzip.compress(archive)
    assert "`-` at byte" in fail(*target, "--archive", "--dryRun", data=packed[: len(packed) // 2])
    at = archive.index(bson.encode({"_id": 17, "n": 3, "text": "x" * 17}))
    changed = archive[: at + 9] + b"\x18" + archive[at + 10 :]
    assert "checksum" in fail(*target, "--archive", "--dryRun", data=changed)


@pytest.mark.parametrize("flags", [[], ["--gzip"]], ids=str)
def test_collections_with_long_names_go_along(server, database, tmp_path, flags):
    # Those of the files are as long as names may be, and the second one is cut.
    names = ["c" * 220, "\u00e4" * 100, "\u00e4" * 101]
    for number, name in enumerate(names):
        database[name].insert_one({"_id": number})
        database[name].create_index("x")
    succeed("dump", "--uri", server.uri, "--db", database.name, "--out", tmp_path / "dump", *flags)
    assert not list((tmp_path / "dump").rglob("*.part"))
    succeed("restore-dump", "--uri", server.uri, "--drop", tmp_path / "dump")
    for number, name in enumerate(names):
        assert list(database[name].find()) == [{"_id": number}]
        assert "x_1" in database[name].index_information()
    metadata = sorted((tmp_path / "dump").rglob("*.metadata.json*"), key=lambda path: len(path.name))[-1]
    metadata.unlink()
    assert "nor metadata tell the collection" in fail("restore-dump", "--uri", server.uri, "--drop", tmp_path / "dump")


def test_a_dump_written_by_hand_from_the_format(server, client, tmp_path, database):
    directory = tmp_path / "dump" / database.name
    directory.mkdir(parents=True)
    (directory / "a%2Fb.bson").write_bytes(bson.encode({"_id": 1}) + bson.encode({"_id": 2, "x": [1]}))
    (directory / "a%2Fb.metadata.json").write_text(
        '{"options":{},"indexes":[{"v":{"$numberInt":"2"},"key":{"_id":{"$numberInt":"1"}},"name":"_id_"},'
        '{"v":1,"key":{"x":{"$numberDouble":"1.0"}},"name":"x_1","ns":"other.a/b","sparse":true}],'
        '"uuid":"0123456789abcdef0123456789abcdef","collectionName":"a/b","type":"collection"}'
    )
    (directory / "alone.bson").write_bytes(bson.encode({"_id": 3}))
    (tmp_path / "dump" / "oplog.bson").write_bytes(b"")
    (directory / "prelude.json").write_text('{"ServerVersion":"8.0.4","ToolVersion":"100.10.0"}')
    succeed("restore-dump", "--uri", server.uri, tmp_path / "dump")
    assert list(database["a/b"].find()) == [{"_id": 1}, {"_id": 2, "x": [1]}]
    assert database["a/b"].index_information()["x_1"]["sparse"] is True
    assert list(database.alone.find()) == [{"_id": 3}]


def test_users_and_roles_go_along(tmp_path):
    source = Quarry(tmp_path / "source", "memory").start()
    target = Quarry(tmp_path / "target", "memory", ["--auth"])
    try:
        with MongoClient(source.uri) as client:
            client.shop.command("createRole", "reader", privileges=[], roles=[{"role": "read", "db": "shop"}])
            client.admin.command("createUser", "root", pwd="geheim", roles=["root"])
            client.shop.command("createUser", "ada", pwd="p@ss", roles=["reader"])
            client.shop.orders.insert_one({"_id": 1})
        succeed("dump", "--uri", source.uri, "--out", tmp_path / "dump")
        target.start()
        with MongoClient(target.uri) as client:
            client.admin.command("createUser", "first", pwd="x", roles=["root"])
        (tmp_path / "password").write_text("x\n")
        uri = f"mongodb://first@127.0.0.1:{target.port}/"
        succeed("restore-dump", "--uri", uri, "--passwordFile", tmp_path / "password", tmp_path / "dump")
        with MongoClient(f"mongodb://ada:p%40ss@127.0.0.1:{target.port}/shop") as client:
            assert client.shop.orders.find_one() == {"_id": 1}
            with pytest.raises(OperationFailure):
                client.shop.orders.insert_one({})
        assert "login: Authentication failed" in fail("dump", "--uri", f"mongodb://ada:no@127.0.0.1:{target.port}/shop")
    finally:
        source.kill()
        target.kill()


def test_what_is_not_served_is_refused_by_name(server, tmp_path):
    assert "--oplog is not supported yet" in fail("dump", "--uri", server.uri, "--oplog", "--out", tmp_path)
    assert "--oplogReplay is not supported yet" in fail("restore-dump", "--uri", server.uri, "--oplogReplay")
    for name in ("..", ".", "a/b"):
        assert "is no name of a database" in fail("dump", "--uri", server.uri, "--db", name, "--out", tmp_path / "x")
    secret = ["--uri", server.uri.replace("mongodb://", "mongodb://ada@"), "--passwordFile", "-"]
    assert "cannot both be the standard input" in fail("restore-dump", *secret, "--archive", data=b"secret\n")
    assert "`gssapiServiceName`" in fail("dump", "--uri", f"{server.uri}?gssapiServiceName=x")
    assert "cannot connect to 127.0.0.1:1" in fail("dump", "--uri", "mongodb://127.0.0.1:1/")


def test_nothing_behind_a_refused_document_of_a_capped_collection_is_lost(server, database, tmp_path):
    database.create_collection("log", capped=True, size=20_000_000)
    database.log.insert_many([{"_id": n, "text": "x" * 1000} for n in range(5000, 0, -1)])
    succeed("dump", "--uri", server.uri, "--db", database.name, "--out", tmp_path)
    database.log.drop()
    database.create_collection("log", capped=True, size=20_000_000)
    database.log.insert_one({"_id": 4900})
    assert "1 documents were refused" in fail("restore-dump", "--uri", server.uri, tmp_path)
    found = [document["_id"] for document in database.log.find({}, {"text": 0})]
    assert found == [4900, *(n for n in range(5000, 0, -1) if n != 4900)]


def test_a_file_of_documents_that_begins_as_a_compressed_one(server, database, tmp_path):
    # The length of the first document is 1F 8B, the mark of gzip.
    length = 0x8B1F
    document = {"_id": 1, "text": ""}
    document["text"] = "x" * (length - len(bson.encode(document)))
    database.things.insert_one(document)
    succeed("dump", "--uri", server.uri, "--db", database.name, "--out", tmp_path)
    assert (tmp_path / database.name / "things.bson").read_bytes()[:2] == b"\x1f\x8b"
    succeed("restore-dump", "--uri", server.uri, "--drop", tmp_path)
    assert database.things.find_one() == document


def test_a_dump_goes_into_new_files(server, filled, tmp_path):
    one = ["dump", "--uri", server.uri, "--db", filled.name]
    succeed(*one, "--out", tmp_path)
    assert "has an earlier dump of" in fail(*one, "--out", tmp_path, "--gzip")
    assert "has an earlier dump of" in fail(*one, "--collection", "many", "--out", tmp_path, "--gzip")
    # As an older tool could have left it.
    (tmp_path / filled.name / "many.bson.gz").write_bytes(gzip.compress(b""))
    said = fail("restore-dump", "--uri", server.uri, "--drop", tmp_path)
    assert "`many.bson` and `many.bson.gz` are of two dumps" in said
    packed = succeed(*one, "--collection", "many", "--out=-", "--gzip")
    assert gzip.decompress(packed) == (tmp_path / filled.name / "many.bson").read_bytes()


def test_a_dump_that_fails_leaves_no_file_that_looks_whole(server, filled, tmp_path):
    cutter = Cutter(server.port, cuts=lambda request: names(request, "getMore"))
    one = ["dump", "--uri", cutter.uri, "--db", filled.name, "--collection", "many"]
    archive = tmp_path / "a.archive"
    archive.write_text("of yesterday")
    for flags in (["--out", tmp_path / "dump"], ["--out", tmp_path / "packed", "--gzip"], [f"--archive={archive}"]):
        assert "lost" in fail(*one, *flags)
    ended = quarry(*one, "--archive", "--gzip")
    cutter.stop()
    assert ended.returncode == 1
    with pytest.raises((EOFError, gzip.BadGzipFile)):
        gzip.decompress(ended.stdout or b"\x1f")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files == [archive] and archive.read_text() == "of yesterday"


def test_what_is_left_out_may_be_of_a_kind_that_is_not_served(server, database, tmp_path):
    directory = tmp_path / "dump" / database.name
    directory.mkdir(parents=True)
    (directory / "good.bson").write_bytes(bson.encode({"_id": 1}))
    (directory / "weather.metadata.json").write_text('{"type":"timeseries","collectionName":"weather"}')
    restore = ["restore-dump", "--uri", server.uri, "--drop"]
    assert "time series" in fail(*restore, tmp_path / "dump")
    succeed(*restore, tmp_path / "dump", "--nsExclude", "*.weather")
    assert list(database.good.find()) == [{"_id": 1}]

    end = b"\xff" * 4
    header = {"concurrent_collections": 4, "version": "0.1", "server_version": "8.0.4", "tool_version": "100.10.0"}
    entries = [("", "oplog", "collection"), (database.name, "empty", "collection"), (database.name, "weather", "timeseries")]
    prelude = b"".join(
        bson.encode({"db": db, "collection": name, "metadata": json.dumps({"type": kind}), "size": 0, "type": kind}) for db, name, kind in entries
    )
    # The checksum of no documents is 0.
    blocks = b"".join(bson.encode({"db": db, "collection": name, "EOF": True, "CRC": Int64(0)}) + end for db, name, _ in entries[:2])
    # The documents of a time series come under another name than the prelude's.
    buckets = {"db": database.name, "collection": "system.buckets.weather"}
    blocks += bson.encode(buckets | {"EOF": False, "CRC": Int64(0)}) + bson.encode({}) + end
    blocks += bson.encode(buckets | {"EOF": True, "CRC": Int64(CRC_OF_AN_EMPTY_DOCUMENT)}) + end
    archive = b"\x6d\xe2\x99\x81" + bson.encode(header) + prelude + end + blocks
    ended = quarry(*restore, "--archive", "--nsExclude", "*.weather", data=archive)
    assert ended.returncode == 0 and b"oplog is left out" in ended.stderr, ended.stderr
    assert "empty" in database.list_collection_names()


def test_only_what_the_dump_has_of_users_and_roles_is_replaced(tmp_path):
    source = Quarry(tmp_path / "source", "memory").start()
    target = Quarry(tmp_path / "target", "memory").start()
    try:
        with MongoClient(source.uri) as client:
            client.shop.command("createUser", "ada", pwd="p", roles=["read"])
        with MongoClient(target.uri) as client:
            client.shop.command("createRole", "kept", privileges=[], roles=[])
            client.shop.command("createUser", "other", pwd="p", roles=["kept"])
        succeed("dump", "--uri", source.uri, "--out", tmp_path / "dump")
        succeed("restore-dump", "--uri", target.uri, "--drop", tmp_path / "dump")
        with MongoClient(target.uri) as client:
            assert [user["user"] for user in client.shop.command("usersInfo", 1)["users"]] == ["ada"]
            assert [role["role"] for role in client.shop.command("rolesInfo", 1)["roles"]] == ["kept"]
            assert not {"tempusers", "temproles"} & set(client.admin.list_collection_names())
        # By these mongorestore knows what it has before it.
        versions = bson.decode((tmp_path / "dump/admin/system.version.bson").read_bytes())
        assert versions == {"_id": "authSchema", "currentVersion": 5}
        assert set(json.loads((tmp_path / "dump/prelude.json").read_text())) == {"ServerVersion", "ToolVersion"}
    finally:
        source.kill()
        target.kill()
