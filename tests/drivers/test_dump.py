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
def test_a_collection_without_its_file_of_documents_is_not_dropped(server, filled, tmp_path, flags):
    fill_series(filled)
    succeed("dump", "--uri", server.uri, "--db", filled.name, "--out", tmp_path, *flags)
    before, series_before = state(filled), series_state(filled)
    restore = ["restore-dump", "--uri", server.uri]
    ending = ".gz" if flags else ""
    for name, written_under in (("many", "many"), ("empty", "empty"), ("weather", "system.buckets.weather")):
        file = tmp_path / filled.name / f"{written_under}.bson{ending}"
        whole = file.read_bytes()
        file.unlink()
        for more in ([], ["--dryRun"]):
            said = fail(*restore, "--drop", tmp_path, *more)
            assert f"{written_under}.bson{ending}`: the file is missing" in said and f"`{filled.name}.{name}`" in said
        one = ["--db", filled.name, "--collection", name, file]
        assert f"{written_under}.bson{ending}`" in fail(*restore, "--drop", *one)
        assert state(filled) == before and series_state(filled) == series_before
        ended = quarry(*restore, tmp_path, "--dryRun")
        assert ended.returncode == 0 and f"`{filled.name}.{name}` has no file of documents" in ended.stderr.decode()
        file.write_bytes(whole)
    # A view has none.
    succeed(*restore, "--drop", tmp_path)
    assert state(filled)[0] == before[0]


def test_a_collection_without_its_metadata_is_restored_and_named(server, database, tmp_path):
    database.things.insert_one({"_id": 1})
    database.things.create_index("a")
    succeed("dump", "--uri", server.uri, "--db", database.name, "--out", tmp_path)
    (tmp_path / database.name / "things.metadata.json").unlink()
    file = tmp_path / database.name / "things.bson"
    said = f"`{database.name}.things` has no metadata in the dump: its options and indexes are not known"
    for chosen in ([tmp_path], ["--db", database.name, "--collection", "things", file]):
        ended = quarry("restore-dump", "--uri", server.uri, "--drop", *chosen)
        assert ended.returncode == 0 and said in ended.stderr.decode()
        assert list(database.things.find()) == [{"_id": 1}] and set(database.things.index_information()) == {"_id_"}


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
    assert "a time series without a `timeField`" in fail(*restore, tmp_path / "dump")
    succeed(*restore, tmp_path / "dump", "--nsExclude", "*.weather")
    assert list(database.good.find()) == [{"_id": 1}]

    entries = [("", "oplog", "collection"), (database.name, "empty", "collection"), (database.name, "weather", "timeseries")]
    documents = {"system.buckets.weather": bson.encode({})}
    ended = quarry(*restore, "--archive", "--nsExclude", "*.weather", data=archive_of(entries, documents))
    assert ended.returncode == 0 and b"oplog is left out" in ended.stderr, ended.stderr
    assert "empty" in database.list_collection_names()


def crc(data):
    """ECMA-182's CRC-64, reflected, as archives have it: a bit at a time."""
    value = 0xFFFF_FFFF_FFFF_FFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0xC96C_5795_D787_0F42 if value & 1 else 0)
    value ^= 0xFFFF_FFFF_FFFF_FFFF
    return Int64(value - (1 << 64) if value >> 63 else value)


def archive_of(entries, documents, metadata=None):
    """An archive put together from the description of the format: its collections, and the documents by the names of their blocks."""
    end = b"\xff" * 4
    header = {"concurrent_collections": 4, "version": "0.1", "server_version": "8.0.4", "tool_version": "100.10.0"}
    archive = b"\x6d\xe2\x99\x81" + bson.encode(header)
    blocks = b""
    for db, name, kind in entries:
        text = (metadata or {}).get(name) or json.dumps({"type": kind})
        archive += bson.encode({"db": db, "collection": name, "metadata": text, "size": 0, "type": kind})
        # The documents of a time series come under another name than the prelude's.
        block = {"db": db, "collection": f"system.buckets.{name}" if kind == "timeseries" else name}
        data = documents.get(block["collection"], b"")
        if data:
            blocks += bson.encode(block | {"EOF": False, "CRC": Int64(0)}) + data + end
        blocks += bson.encode(block | {"EOF": True, "CRC": crc(data)}) + end
    return archive + end + blocks


NOON = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.timezone.utc)


def fill_series(database):
    options = {"timeField": "ts", "metaField": "at", "granularity": "minutes"}
    weather = database.create_collection("weather", timeseries=options, expireAfterSeconds=10**9)
    measurements = [
        {"_id": n, "ts": NOON + datetime.timedelta(minutes=n), "at": {"room": n % 3}, "celsius": n if n % 5 else str(n), "deep": {"list": [n, {"x": n % 7}]}}
        for n in range(3000)
    ]
    measurements[7]["more"] = None
    del measurements[8]["at"], measurements[9]["deep"]
    weather.insert_many(measurements)
    weather.create_index([("at.room", 1), ("celsius", -1)])
    plain = database.create_collection("plain", timeseries={"timeField": "t"})
    plain.insert_many([{"t": NOON - datetime.timedelta(days=40_000 * n), "n": n} for n in range(4)])
    plain.create_index("t")
    bare = database.create_collection("bare", timeseries={"timeField": "t", "metaField": "m"})
    # The index that it was made with.
    bare.drop_index("m_1_t_1")


def series_state(database):
    """Each time series with its options, indexes and measurements as bytes, in no order."""
    raw = database.with_options(bson.CodecOptions(document_class=bson.raw_bson.RawBSONDocument))
    found = {}
    for entry in database.list_collections(filter={"type": "timeseries"}):
        name = entry["name"]
        indexes = sorted((dict(index) for index in database[name].list_indexes()), key=lambda index: index["name"])
        found[name] = (entry["options"], indexes, sorted(document.raw for document in raw[name].find()))
    return found


@pytest.mark.parametrize("way", WAYS)
def test_time_series_come_back(server, client, database, tmp_path, way):
    fill_series(database)
    database.create_collection("view", viewOn="weather", pipeline=[])
    before = series_state(database)
    assert set(before) == {"weather", "plain", "bare"} and len(before["weather"][2]) == 3000
    write, read = WAYS[way](tmp_path / "dump")
    succeed("dump", "--uri", server.uri, "--db", database.name, *write)
    names = ["--nsFrom", f"{database.name}.*", "--nsTo", f"{database.name}_restored.*"]
    succeed("restore-dump", "--uri", server.uri, *read, *names)
    restored = client[f"{database.name}_restored"]
    after = series_state(restored)
    client.drop_database(restored.name)
    assert after == before


def test_a_time_series_is_dumped_as_buckets(server, database, tmp_path):
    fill_series(database)
    succeed("dump", "--uri", server.uri, "--db", database.name, "--out", tmp_path)
    directory = tmp_path / database.name
    assert {path.name for path in directory.iterdir()} == {
        "prelude.json",
        *(f"{name}.metadata.json" for name in ("weather", "plain", "bare")),
        *(f"system.buckets.{name}.bson" for name in ("weather", "plain", "bare")),
    }
    metadata = json.loads((directory / "weather.metadata.json").read_text())
    assert (metadata["type"], metadata["collectionName"]) == ("timeseries", "weather")
    assert metadata["options"]["timeseries"]["granularity"] == "minutes"
    options = bson.CodecOptions(tz_aware=True)
    buckets = bson.decode_all((directory / "system.buckets.weather.bson").read_bytes(), options)
    count = 0
    for bucket in buckets:
        # What MongoDB's validator of buckets asks for.
        assert {"_id", "control", "data"} <= set(bucket) <= {"_id", "control", "meta", "data"}
        assert set(bucket["control"]) == {"version", "min", "max"} and bucket["control"]["version"] == 1
        least, greatest, data = bucket["control"]["min"], bucket["control"]["max"], bucket["data"]
        assert list(least) == list(greatest) == list(data)
        times = list(data["ts"].values())
        assert list(data["ts"]) == [str(n) for n in range(len(times))]
        assert least["ts"].minute == least["ts"].second == 0 and bucket["_id"].generation_time == least["ts"]
        assert least["ts"] <= min(times) and max(times) == greatest["ts"] < least["ts"] + datetime.timedelta(days=1)
        for name in set(data) - {"ts", "deep"}:
            values = [value for value in data[name].values() if value is not None]
            assert not values or (least[name], greatest[name]) == (min(values), max(values))
        if "deep" in data:
            elements = [deep["list"][1]["x"] for deep in data["deep"].values()]
            assert (least["deep"]["list"][1]["x"], greatest["deep"]["list"][1]["x"]) == (min(elements), max(elements))
        count += len(times)
    assert count == 3000 and len({bucket["_id"] for bucket in buckets}) == len(buckets)
    one = ["--db", database.name, "--collection", "weather"]
    chosen = succeed("dump", "--uri", server.uri, *one, "--query", '{"at.room": 1}', "--out=-")
    assert {bucket["meta"]["room"] for bucket in bson.decode_all(chosen)} == {1}
    database.weather.drop()
    succeed("restore-dump", "--uri", server.uri, *one, directory / "system.buckets.weather.bson")
    assert database.weather.count_documents({}) == 3000


def packed_column(first, scale, *words):
    """A column of BSON's subtype 7: a literal, and a piece of words of differences."""
    kind_and_value = bson.encode({"": first})[4:-1]
    piece = bytes([scale << 4 | len(words) - 1]) + b"".join(word.to_bytes(8, "little") for word in words)
    return Binary(kind_and_value + piece + b"\x00", 7)


def mongodb_buckets():
    """A bucket of version 1 and one of version 2, as MongoDB 5.0 and 8.0 store them, and their measurements."""
    at = [NOON + datetime.timedelta(seconds=10 * n) for n in range(5)]
    oid = lambda when: ObjectId.from_datetime(when)  # noqa: E731
    control = {"min": {"ts": NOON}, "max": {"ts": at[1]}}
    plain = {
        "_id": oid(NOON),
        "control": {"version": 1} | control | {"closed": False},
        "meta": {"room": 1},
        "data": {"_id": {"0": "a", "1": "b"}, "ts": {"0": at[0], "1": at[1]}, "celsius": {"1": 20.5}},
    }
    # The time in steps of ten seconds: the first difference, then none of the differences, in a word of sixty bits and one of thirty.
    times = packed_column(at[2], 9, 20_000 << 4 | 14, 0xE)
    # 20.5, 20.6 and 20.4 in tenths: +1 and -2, in two slots of thirty bits.
    celsius = packed_column(20.5, 0xA, 13 | 2 << 4 | 3 << 34)
    # A text, one that is missing, and the text again.
    texts = packed_column("ok", 9, 0xFFFF_FFFF_FFFF_FFFE, 0xE)
    packed = {
        "_id": oid(at[2]),
        "control": {"version": 2} | control | {"count": 3},
        "meta": {"room": 2},
        # 1, 2 and 3: the difference 1, twice.
        "data": {"_id": packed_column(1, 9, 13 | 2 << 4 | 2 << 34), "ts": times, "celsius": celsius, "said": texts},
    }
    measurements = [
        {"_id": "a", "ts": at[0], "at": {"room": 1}},
        {"_id": "b", "ts": at[1], "at": {"room": 1}, "celsius": 20.5},
        {"_id": 1, "ts": at[2], "at": {"room": 2}, "celsius": 20.5, "said": "ok"},
        {"_id": 2, "ts": at[3], "at": {"room": 2}, "celsius": 20.6},
        {"_id": 3, "ts": at[4], "at": {"room": 2}, "celsius": 20.4, "said": "ok"},
    ]
    return [plain, packed], measurements


SERIES_METADATA = json.dumps(
    {
        "options": {"timeseries": {"timeField": "ts", "metaField": "at", "granularity": "seconds", "bucketMaxSpanSeconds": {"$numberInt": "3600"}}},
        "indexes": [{"v": {"$numberInt": "2"}, "key": {"at": {"$numberInt": "1"}, "ts": {"$numberInt": "1"}}, "name": "at_1_ts_1"}],
        "uuid": "0123456789abcdef0123456789abcdef",
        "collectionName": "weather",
        "type": "timeseries",
    }
)


@pytest.mark.parametrize("way", ["directory", "archive"])
def test_buckets_of_a_mongodb_are_restored(server, client, database, tmp_path, way):
    buckets, measurements = mongodb_buckets()
    data = b"".join(bson.encode(bucket) for bucket in buckets)
    restore = ["restore-dump", "--uri", server.uri]
    if way == "directory":
        directory = tmp_path / "dump" / database.name
        directory.mkdir(parents=True)
        (directory / "weather.metadata.json").write_text(SERIES_METADATA)
        (directory / "system.buckets.weather.bson").write_bytes(data)
        succeed(*restore, tmp_path / "dump")
    else:
        entries = [(database.name, "weather", "timeseries")]
        archive = archive_of(entries, {"system.buckets.weather": data}, {"weather": SERIES_METADATA})
        succeed(*restore, "--archive", data=archive)
    options = bson.CodecOptions(tz_aware=True)
    assert list(database.get_collection("weather", options).find().sort("ts")) == measurements
    assert [index["name"] for index in database.weather.list_indexes()] == ["at_1_ts_1"]


def test_buckets_that_are_none_are_refused(server, database, tmp_path):
    directory = tmp_path / "dump" / database.name
    directory.mkdir(parents=True)
    buckets, _ = mongodb_buckets()
    file = directory / "system.buckets.weather.bson"
    file.write_bytes(bson.encode(buckets[0]))
    restore = ["restore-dump", "--uri", server.uri, "--dryRun", tmp_path / "dump"]
    assert "`weather` has no metadata beside its buckets" in fail(*restore)
    (directory / "weather.metadata.json").write_text(SERIES_METADATA)
    succeed(*restore)
    for change, said in [
        ({"control": {"version": 9}}, "a bucket of version 9 is not supported"),
        ({"data": {"ts": Binary(b"\x09\x00\x00", 7)}}, "cut off"),
        ({"data": {}}, "0 times in `ts`"),
    ]:
        file.write_bytes(bson.encode(buckets[1] | change))
        assert said in (error := fail(*restore)) and f"`{database.name}.weather`" in error


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


def change_documents(shop):
    """Changes of each kind, of what `fill` makes."""
    shop.many.update_one({"_id": 1}, {"$set": {"deep": {"list": [1, {"x": 1}, 3]}, "new": 1}})
    shop.many.update_one({"_id": 1}, {"$set": {"deep.list.1.x": 2, "deep.list.4": 5}, "$unset": {"text": 1}})
    shop.many.update_one({"_id": 2}, {"$set": {"list": list(range(20)), "7": {"8": 1}}})
    shop.many.update_one({"_id": 2}, {"$push": {"list": {"$each": [], "$slice": 11}}, "$set": {"7.8": 2}})
    shop.many.update_one({"_id": 2}, {"$push": {"list": "end"}})
    shop.many.replace_one({"_id": 3}, {"replaced": True})
    shop.many.update_many({"n": 4}, [{"$set": {"by": {"$add": ["$_id", 1]}}}])
    shop.many.delete_many({"n": 5})
    shop.many.insert_many([{"_id": f"late {n}"} for n in range(50)])
    shop.many.delete_one({"_id": "late 7"})
    shop.capped.insert_one({"_id": "late"})
    shop.clustered.insert_one({"_id": 1})


def change_definitions(shop):
    shop.create_collection("new", capped=True, size=4096)
    shop.new.insert_many([{"_id": -n} for n in range(3)])
    shop.new.create_index("a")
    shop.empty.drop()
    shop.empty.insert_one({"_id": "anew"})
    shop.many.drop_index("both")
    shop.many.create_index([("late", 1)], sparse=True)
    shop.command("collMod", "checked", validator={"a": {"$gt": -5}})
    shop.command("collMod", "many", index={"name": "text_1", "hidden": True})
    shop.create_collection("later", viewOn="new", pipeline=[])
    shop.command("collMod", "view", viewOn="many", pipeline=[{"$match": {"n": 2}}])
    shop.types.drop()


@pytest.fixture
def two(tmp_path):
    servers = [Quarry(tmp_path / name, "memory").start() for name in ("source", "target")]
    yield servers
    for server in servers:
        server.kill()


@pytest.mark.parametrize("way", WAYS)
def test_a_dump_with_its_oplog_is_of_one_moment(two, tmp_path, way):
    source, target = two
    write, read = WAYS[way](tmp_path / "dump")
    with MongoClient(source.uri) as client, MongoClient(target.uri) as restored:
        fill(client.shop)
        client.gone.things.insert_one({"_id": 1})
        fill_changes = [
            # When nothing is listed, and when some collections are read and others not.
            ("listDatabases", lambda: change_documents(client.shop)),
            ("listIndexes", lambda: client.drop_database("gone")),
            ("find", lambda: (change_definitions(client.shop), client.shop.many.update_many({}, {"$inc": {"n": 100}}))),
        ]

        def before(request):
            if fill_changes and names(request, fill_changes[0][0]) and not names(request, "local"):
                fill_changes.pop(0)[1]()

        cutter = Cutter(source.port, before=before)
        try:
            said = quarry("dump", "--uri", cutter.uri, "--oplog", "--numParallelCollections", 1, *write)
        finally:
            cutter.stop()
        assert said.returncode == 0 and not fill_changes, said.stderr
        # What is made behind the dump is not in it.
        wanted = state(client.shop)
        client.shop.many.delete_many({})
        if way == "directory":
            entries = bson.decode_all((tmp_path / "dump" / "oplog.bson").read_bytes())
            assert {entry["op"] for entry in entries} == {"i", "u", "d", "c"} and all(entry["v"] == 2 for entry in entries)
        said = succeed("restore-dump", "--uri", target.uri, "--oplogReplay", *read)
        assert state(restored.shop) == wanted
        assert restored.list_database_names() == ["shop"]
        # Twice is not too often.
        succeed("restore-dump", "--uri", target.uri, "--oplogReplay", "--drop", *read)
        assert state(restored.shop) == wanted
        succeed("restore-dump", "--uri", target.uri, "--drop", *read)
        assert state(restored.shop) != wanted


def test_what_a_dump_of_one_moment_cannot_have_is_refused(two, tmp_path):
    source, _ = two
    with MongoClient(source.uri) as client:
        client.shop.things.insert_one({"_id": 1})
        renames = [lambda: client.shop.things.rename("others")]

        def before(request):
            if renames and names(request, "find"):
                renames.pop()()

        cutter = Cutter(source.port, before=before)
        said = fail("dump", "--uri", cutter.uri, "--oplog", "--out", tmp_path / "renamed")
        cutter.stop()
        assert "`shop.things` was renamed while it was dumped" in said
        assert not (tmp_path / "renamed" / "oplog.bson").exists()
        client.shop.create_collection("weather", timeseries={"timeField": "ts"})
        said = fail("dump", "--uri", source.uri, "--oplog", "--out", tmp_path / "series")
        assert "`shop.weather` is a time series, of whose changes nothing tells" in said
    ended = quarry("dump", "--uri", source.uri, "--oplog", "--db", "shop")
    assert ended.returncode == 2 and b"cannot be used with" in ended.stderr
    assert "has no oplog" in fail("restore-dump", "--uri", source.uri, "--oplogReplay", tmp_path / "renamed")


class Oplog:
    """Entries as a MongoDB 8.0 writes them, from the description of their form."""

    def __init__(self, database):
        self.database = database
        self.entries = []
        self.second = 1_700_000_000

    def add(self, op, name, o, o2=None, **more):
        self.second += 1
        entry = {"op": op, "ns": f"{self.database}.{name}", "ui": Binary(b"u" * 16, 4), "o": o, **({"o2": o2} if o2 else {})}
        entry |= {"ts": Timestamp(self.second, 1), "t": Int64(1), "v": Int64(2), "wall": NOON, **more}
        self.entries.append(entry)
        return entry

    def command(self, **o):
        return self.add("c", "$cmd", o)

    def bytes(self):
        return b"".join(bson.encode(entry) for entry in self.entries)


def fill_oplog(oplog):
    """Entries of each kind; some are older than the copy in the dump."""
    oplog.add("n", "", {"msg": "periodic noop"})
    oplog.add("i", "things", {"_id": 1, "a": "older than the copy"})
    oplog.add("u", "things", {"$v": 2, "diff": {"u": {"a": 2}, "i": {"b": {"c": [1, 2, 3]}}}}, {"_id": 1})
    oplog.add("u", "things", {"$v": 2, "diff": {"sb": {"sc": {"a": True, "l": 2, "u0": 9}}}}, {"_id": 1})
    oplog.add("u", "things", {"$v": 1, "$set": {"x.y": 5, "list.1": "b"}, "$unset": {"gone": True}}, {"_id": 2})
    oplog.add("u", "things", {"_id": 3, "replaced": True}, {"_id": 3})
    oplog.add("u", "things", {"$v": 2, "diff": {"u": {"a": 1}}}, {"_id": "is gone"})
    oplog.add("i", "things", {"_id": "late"})
    oplog.add("d", "things", {"_id": 4})
    oplog.command(create="made", capped=True, size=4096, idIndex={"v": 2, "key": {"_id": 1}, "name": "_id_"})
    oplog.add("i", "made", {"_id": 1})
    oplog.command(createIndexes="made", v=2, key={"a": 1}, name="a_1")
    oplog.command(commitIndexBuild="things", indexBuildUUID=Binary(b"b" * 16, 4), indexes=[{"v": 2, "key": {"late": 1}, "name": "late_1"}])
    oplog.command(startIndexBuild="things", indexes=[])
    oplog.command(dropIndexes="things", index="dropped_1")
    oplog.command(collMod="things", index={"name": "kept_1", "hidden": True}, validator={"a": {"$ne": 7}})
    oplog.command(drop="dropped")
    oplog.command(renameCollection=f"{oplog.database}.named", to=f"{oplog.database}.renamed", dropTarget=False)
    oplog.add("i", "system.views", {"_id": f"{oplog.database}.view", "viewOn": "things", "pipeline": []})
    one = {"op": "i", "ns": f"{oplog.database}.things", "o": {"_id": "of applyOps"}}
    oplog.add("c", "$cmd", {"applyOps": [one, {"op": "d", "ns": f"{oplog.database}.things", "o": {"_id": 5}}]})
    session = {"lsid": {"id": Binary(b"s" * 16, 4), "uid": Binary(b"x" * 32)}, "txnNumber": Int64(3)}

    def part(number, o, txn=session, first=False):
        before = Timestamp(0, 0) if first else Timestamp(oplog.second, 1)
        written = {"op": "i", "ns": f"{oplog.database}.things", "o": {"_id": f"transaction {number}"}}
        entry = {"applyOps": [written], **o} if "applyOps" in o or not o or "partialTxn" in o or "prepare" in o else o
        oplog.add("c", "$cmd", entry, prevOpTime={"ts": before, "t": Int64(-1)}, **txn)

    part(1, {"partialTxn": True}, first=True)
    part(2, {"prepare": True})
    part(0, {"commitTransaction": True, "prepared": True})
    aborted = session | {"txnNumber": Int64(4)}
    part(3, {"prepare": True}, aborted, first=True)
    part(0, {"abortTransaction": True}, aborted)
    part(4, {}, session | {"txnNumber": Int64(5)}, first=True)


def dump_with_oplog(path, database, oplog):
    directory = path / database
    directory.mkdir(parents=True)
    things = [{"_id": 1, "a": 1}, {"_id": 2, "list": ["a"], "gone": 1}, {"_id": 3}, {"_id": 4}, {"_id": 5}]
    (directory / "things.bson").write_bytes(b"".join(bson.encode(one) for one in things))
    indexes = [{"v": 2, "key": {"_id": 1}, "name": "_id_"}, *({"v": 2, "key": {name: 1}, "name": f"{name}_1"} for name in ("kept", "dropped"))]
    (directory / "things.metadata.json").write_text(json.dumps({"options": {}, "indexes": indexes, "collectionName": "things", "type": "collection"}))
    for name in ("dropped", "named"):
        (directory / f"{name}.bson").write_bytes(bson.encode({"_id": name}))
    (path / "oplog.bson").write_bytes(oplog.bytes())


def test_an_oplog_written_by_hand_from_the_format_is_applied(server, database, tmp_path):
    oplog = Oplog(database.name)
    fill_oplog(oplog)
    dump_with_oplog(tmp_path, database.name, oplog)
    restore = ["restore-dump", "--uri", server.uri, "--oplogReplay", "--drop", tmp_path]
    succeed(*restore, "--dryRun")
    assert database.list_collection_names() == []
    succeed(*restore)
    assert list(database.things.find()) == [
        {"_id": 1, "a": 2, "b": {"c": [9, 2]}},
        {"_id": 2, "list": ["a", "b"], "x": {"y": 5}},
        {"_id": 3, "replaced": True},
        *({"_id": name} for name in ("late", "of applyOps", "transaction 1", "transaction 2", "transaction 4")),
    ]
    assert sorted(database.list_collection_names()) == ["made", "renamed", "things", "view"]
    information = database.things.index_information()
    assert set(information) == {"_id_", "kept_1", "late_1"} and information["kept_1"]["hidden"] is True
    assert set(database.made.index_information()) == {"_id_", "a_1"} and database.made.options()["capped"] is True
    assert database.things.options()["validator"] == {"a": {"$ne": 7}}
    assert list(database.renamed.find()) == [{"_id": "named"}]
    before = state(database)
    # Applied to what is newer already.
    again = tmp_path / "again.bson"
    again.write_bytes(b"".join(bson.encode(entry) for entry in oplog.entries if entry["o"].keys().isdisjoint({"renameCollection", "drop"})))
    (tmp_path / database.name / "named.bson").unlink()
    fail("restore-dump", "--uri", server.uri, "--oplogReplay", "--oplogFile", again, tmp_path)
    changed = state(database)
    assert changed[1]["things"] == before[1]["things"] and changed[0]["things"] == before[0]["things"]


def test_an_oplog_is_applied_up_to_a_limit(server, database, tmp_path):
    oplog = Oplog(database.name)
    for n in range(10):
        oplog.add("i", "late", {"_id": n})
    dump_with_oplog(tmp_path, database.name, oplog)
    restore = ["restore-dump", "--uri", server.uri, "--drop", tmp_path]
    for limit, count in [("1700000004", 3), ("1700000004:1", 3), ("1700000004:2", 4), ("1800000000", 10)]:
        succeed(*restore, "--oplogReplay", "--oplogLimit", limit)
        assert database.late.count_documents({}) == count, limit
        database.late.drop()
    ended = quarry(*restore, "--oplogReplay", "--oplogLimit", "tomorrow")
    assert ended.returncode == 2 and b"seconds since 1970" in ended.stderr
    assert quarry(*restore, "--oplogLimit", "7").returncode == 2
    assert b"the dump's oplog is left out" in quarry(*restore).stderr
    assert "late" not in database.list_collection_names()


def test_entries_that_are_not_known_are_refused_by_name(server, database, tmp_path):
    for number, (add, said) in enumerate(
        [
            (lambda oplog: oplog.command(emptycapped="things"), "the command `emptycapped` is not supported"),
            (lambda oplog: oplog.add("xi", "things", {"_id": 1}), "the kind `xi` is not supported"),
            (lambda oplog: oplog.add("u", "things", {"$v": 2, "diff": {"bx": {"o": 1}}}, {"_id": 1}), "a difference with `bx` is not supported"),
            (lambda oplog: oplog.add("u", "things", {"$inc": {"a": 1}}, {"_id": 1}), "an update by `$inc` is not supported"),
            (lambda oplog: oplog.add("i", "system.buckets.weather", {"_id": 1}), f"time series `{database.name}.weather` are not supported"),
        ]
    ):
        oplog = Oplog(database.name)
        add(oplog)
        path = tmp_path / str(number)
        dump_with_oplog(path, database.name, oplog)
        restore = ["restore-dump", "--uri", server.uri, "--oplogReplay", "--drop", path]
        assert said in fail(*restore)
        if "time series" in said:
            succeed(*restore, "--nsExclude", "*.weather")
    oplog = Oplog(database.name)
    oplog.add("i", "things", {"_id": 1})
    (path / "oplog.bson").write_bytes(oplog.bytes()[:-3])
    assert "oplog.bson` at byte 0: the file is cut off" in fail(*restore)
