"""Commands that tools and scripts of operators call, sizes, hashes, locks, pools, plans, and what small arguments may be."""

import pytest
from pymongo.errors import OperationFailure


def code_of(work):
    with pytest.raises(OperationFailure) as raised:
        work()
    return raised.value.code


def test_data_size_is_that_of_the_documents(collection):
    collection.insert_many([{"_id": number} for number in range(10)])
    reply = collection.database.command("dataSize", collection.full_name)
    assert (reply["size"], reply["numObjects"], reply["estimate"]) == (140, 10, False)
    reply = collection.database.command("dataSize", f"{collection.database.name}.nowhere")
    assert (reply["size"], reply["numObjects"]) == (0, 0)
    assert code_of(lambda: collection.database.command("dataSize", "nodot")) == 73
    assert code_of(lambda: collection.database.command("dataSize", collection.full_name, min={"_id": 1})) == 238


def test_db_hash_is_of_the_documents_alone(client, database):
    other = client[f"{database.name}_other"]
    try:
        for place in (database, other):
            place["a"].insert_many([{"_id": 2, "x": 1}, {"_id": 1}])
            place["b"].insert_one({"_id": 1})
        first, second = database.command("dbHash"), other.command("dbHash")
        assert first["collections"] == second["collections"] and first["md5"] == second["md5"]
        assert list(first["collections"]) == ["a", "b"] == list(first["uuids"]) and first["capped"] == []
        # The MD5 of the one document {_id: 1}.
        assert first["collections"]["b"] == "ac31f467545a7db3022b1c5083a9a0a0"
        other["a"].update_one({"_id": 1}, {"$set": {"x": 1}})
        changed = other.command("dbHash")
        assert changed["collections"]["a"] != first["collections"]["a"] and changed["md5"] != first["md5"]
        assert changed["collections"]["b"] == first["collections"]["b"]
        assert list(other.command("dbHash", collections=["b"])["collections"]) == ["b"]
    finally:
        client.drop_database(other.name)


def test_compact_frees_nothing_and_looks_for_the_collection(collection):
    collection.insert_one({})
    database = collection.database
    assert database.command("compact", collection.name)["bytesFreed"] == 0
    assert database.command("compact", collection.name, dryRun=True)["estimatedBytesFreed"] == 0
    assert code_of(lambda: database.command("compact", "nowhere")) == 26
    database.create_collection("v", viewOn=collection.name, pipeline=[])
    assert code_of(lambda: database.command("compact", "v")) == 166


def test_there_are_no_locks_and_no_pools(client):
    assert client.admin.command("lockInfo")["lockInfo"] == []
    assert code_of(lambda: client.test.command("lockInfo")) == 13
    pools = client.admin.command("connPoolStats")
    assert (pools["numClientConnections"], pools["totalInUse"], pools["hosts"], pools["pools"]) == (0, 0, {}, {})


def test_chosen_plans_can_be_forgotten(collection):
    collection.create_index("a")
    collection.create_index("b")
    collection.insert_many([{"a": number % 2, "b": number} for number in range(100)])
    for _ in range(3):
        assert len(list(collection.find({"a": 1, "b": {"$gte": 90}}))) == 5
    database = collection.database
    assert database.command("planCacheClear", collection.name)["ok"] == 1.0
    assert database.command("planCacheClear", collection.name, query={"a": 1}, sort={"b": 1})["ok"] == 1.0
    assert database.command("planCacheClear", "nowhere")["ok"] == 1.0
    assert code_of(lambda: database.command("planCacheClear", collection.name, sort={"b": 1})) == 2
    assert len(list(collection.find({"a": 1, "b": {"$gte": 90}}))) == 5


def test_an_index_has_a_name_and_a_database_is_dropped_with_one(database):
    assert code_of(lambda: database.command("createIndexes", "c", indexes=[{"key": {"a": 1}}])) == 9
    assert code_of(lambda: database.command("dropDatabase", 2)) == 5255100


@pytest.mark.parametrize(("command", "options"), [
    ("count", {"skip": -1}), ("aggregate", {"pipeline": [], "cursor": {"batchSize": -1}}), ("listIndexes", {"cursor": {"batchSize": -1}}),
    ("find", {"skip": -1}), ("find", {"limit": -1}), ("find", {"batchSize": -1}),
])
def test_a_negative_count_is_refused_by_one_code(collection, command, options):
    collection.insert_one({})
    assert code_of(lambda: collection.database.command(command, collection.name, **options)) == 51024
