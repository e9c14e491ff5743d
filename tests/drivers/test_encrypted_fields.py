"""`encryptedFields` of a collection: kept, shown, and held against MongoDB's rules; what is asked of the server for it is refused by name."""

import uuid

import pytest
from bson import Binary, Int64
from conftest import ENGINES
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from quarry_process import Quarry
from test_dump import succeed


def key():
    return Binary(uuid.uuid4().bytes, 4)


def field(path="a", **options):
    return {"keyId": key(), "path": path, "bsonType": "string", **options}


@pytest.fixture(scope="module")
def member(tmp_path_factory):
    engine = next((engine for engine in ENGINES if engine != "memory"), ENGINES[0])
    quarry = Quarry(tmp_path_factory.mktemp("encrypted") / "data", engine, ["--replSet", "rs0"])
    quarry.start()
    yield quarry
    assert quarry.stop() == 0, quarry.tail()


@pytest.fixture
def database(member):
    with MongoClient(member.uri, replicaSet="rs0") as client:
        yield client.encrypted
        client.drop_database("encrypted")


def options(database, name):
    [entry] = database.list_collections(filter={"name": name})
    return entry["options"]


def code_of(database, **options):
    with pytest.raises(OperationFailure) as refused:
        database.command("create", "refused", **options)
    return refused.value.code


def test_the_option_is_kept_shown_and_dumped(member, database, tmp_path):
    fields = {
        "escCollection": "enxcol_.things.esc",
        "ecocCollection": "enxcol_.things.ecoc",
        "fields": [
            field(),
            field("b.c", queries={"queryType": "equality", "contention": Int64(4)}),
            field("d", bsonType="int", queries=[{"queryType": "range", "min": 0, "max": 9, "sparsity": Int64(1), "trimFactor": 2}]),
            {"keyId": key(), "path": "e", "bsonType": "object"},
        ],
    }
    database.command("create", "things", encryptedFields=fields)
    assert options(database, "things") == {"encryptedFields": fields}
    # What drivers make beside it, and write by themselves.
    database.command("create", "enxcol_.things.esc", clusteredIndex={"key": {"_id": 1}, "unique": True})
    database.things.create_index("__safeContent__")
    database.things.insert_one({"_id": 1, "a": Binary(b"\x00encrypted", 6)})
    assert database.command("collStats", "things")["count"] == 1
    with pytest.raises(OperationFailure) as refused:
        database.command("convertToCapped", "things", size=4096)
    assert refused.value.code == 6367302
    succeed("dump", "--uri", member.uri, "--db", "encrypted", "--out", tmp_path)
    database.client.drop_database("encrypted")
    succeed("restore-dump", "--uri", member.uri, tmp_path)
    assert options(database, "things") == {"encryptedFields": fields}
    database.command("drop", "things", encryptedFields=fields)
    assert "things" not in database.list_collection_names()


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "memory"])
def test_the_option_survives_a_restart(engine, tmp_path):
    quarry = Quarry(tmp_path / "data", engine, ["--replSet", "rs0"])
    quarry.start()
    fields = {"fields": [field()]}
    with MongoClient(quarry.uri, replicaSet="rs0") as client:
        client.db.command("create", "things", encryptedFields=fields)
    assert quarry.stop() == 0, quarry.tail()
    quarry.start()
    try:
        with MongoClient(quarry.uri, replicaSet="rs0") as client:
            assert options(client.db, "things") == {"encryptedFields": fields}
    finally:
        quarry.stop()


def test_what_mongodb_refuses_is_refused(database):
    def of_fields(*fields, **options):
        return code_of(database, encryptedFields={"fields": list(fields), **options})

    assert code_of(database, encryptedFields={}) == 40414
    assert of_fields(field(), extra=1) == 40415
    assert of_fields({"path": "a"}) == 40414
    assert of_fields({"keyId": "text", "path": "a"}) == 14
    assert of_fields(field(""), ) == 6316402
    assert of_fields(field("_id.x")) == 6316403
    assert of_fields(field("a"), field("a")) == 6338402
    assert of_fields(field("a.b"), field("a")) == 6338403
    same = field("a")
    assert of_fields(same, {**same, "path": "b"}) == 6338401
    assert of_fields(field(), escCollection="mine") == 7406900
    assert of_fields(field(), ecocCollection="mine") == 7406902
    assert of_fields(field(bsonType="nonsense")) == 2
    assert of_fields(field(bsonType="minKey")) == 6338406
    assert of_fields({"keyId": key(), "path": "a", "queries": {"queryType": "equality"}}) == 6412601
    assert of_fields(field(queries={"queryType": "other"})) == 2
    assert of_fields(field(queries={"queryType": "rangePreview"})) == 8575605
    assert of_fields(field(queries={"queryType": "range"})) == 6775201
    assert of_fields(field(bsonType="double", queries={"queryType": "equality"})) == 6338405
    assert of_fields(field(queries={"queryType": "equality", "min": 1})) == 6775206
    assert of_fields(field(queries={"queryType": "equality", "contention": -1})) == 2
    assert of_fields(field(queries=[{"queryType": "equality"}, {"queryType": "equality"}])) == 6338404
    fields = {"fields": [field()]}
    assert code_of(database, encryptedFields=fields, capped=True, size=4096) == 6367301
    assert code_of(database, encryptedFields=fields, viewOn="things", pipeline=[]) == 6346401
    assert code_of(database, encryptedFields=fields, timeseries={"timeField": "t"}) == 6346401
    assert database.list_collection_names() == []


def test_what_the_server_would_have_to_do_is_refused(database):
    database.command("create", "things", encryptedFields={"fields": [field()]})
    information = {"type": 1, "schema": {}}
    for command in (
        {"insert": "things", "documents": [{}]},
        {"update": "things", "updates": []},
        {"delete": "things", "deletes": []},
        {"find": "things"},
        {"count": "things"},
        {"findAndModify": "things", "remove": True},
        {"aggregate": "things", "pipeline": [], "cursor": {}},
    ):
        with pytest.raises(OperationFailure) as refused:
            database.command({**command, "encryptionInformation": information})
        assert refused.value.code == 238 and "encryptionInformation" in refused.value.details["errmsg"], command
    for name in ("compactStructuredEncryptionData", "cleanupStructuredEncryptionData"):
        with pytest.raises(OperationFailure, match="queryable encryption"):
            database.command(name, "things")
    assert database.things.count_documents({}) == 0


def test_a_standalone_has_no_encrypted_collections(client):
    assert code_of(client.standalone, encryptedFields={"fields": [field()]}) == 6346402
