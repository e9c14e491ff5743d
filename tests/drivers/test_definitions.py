"""Definitions are writes: at `{j: true}` and majority they wait for the disk, also where they find all as it was asked for,
and what was acknowledged is there after a SIGKILL."""

import itertools

import pytest
from pymongo.errors import OperationFailure

from conftest import ENGINES
from quarry_process import Quarry
from wire_client import WireClient

INDEX = {"key": {"a": 1}, "name": "a_1"}
# Each leaves what it needs for itself to change nothing when it comes again.
REPEATED = [
    {"create": "made"},
    {"createIndexes": "made", "indexes": [INDEX]},
    {"collMod": "made"},
    {"drop": "gone"},
]
ONCE = [
    {"dropIndexes": "made", "index": "a_1"},
    {"drop": "made"},
    {"dropDatabase": 1},
    {"dropDatabase": 1},
]
CONCERNS = [{"w": 1}, {"w": 1, "j": True}, {"w": "majority"}]


@pytest.fixture(params=[engine for engine in ENGINES if engine != "memory"])
def relaxed(request, tmp_path):
    """A server that syncs when it is asked to, and hardly ever otherwise."""
    quarry = Quarry(tmp_path / "data", request.param, ["--durability", "relaxed"]).start()
    yield quarry
    if quarry.running():
        assert quarry.stop() == 0, quarry.tail()


def test_a_definition_waits_for_the_disk_as_it_was_asked_to(relaxed):
    with WireClient(relaxed.port) as connection:
        for concern, definition in itertools.product(CONCERNS, [*REPEATED, *REPEATED, *ONCE]):
            # What a definition that changes nothing has seen may be as young as this.
            connection.run({"insert": "other", "documents": [{}]}, "elsewhere")
            command = {**definition, "writeConcern": concern, "$quarry": {"timing": True}}
            reply = connection.run(command, "defined")
            waited = reply["quarry"]["timing"]["phases"].get("sync_wait", 0) > 0
            assert waited == (concern != {"w": 1}), (command, reply)


def test_acknowledged_definitions_survive_a_kill(durable):
    for round_number in range(5):
        with WireClient(durable.port) as connection:
            for number in range(20):
                name = f"c{round_number}_{number}"
                connection.run({"createIndexes": name, "indexes": [INDEX]})
                connection.run({"insert": name, "documents": [{"_id": number, "a": number}]})
                if number % 3 == 0:
                    connection.run({"dropIndexes": name, "index": "a_1"})
                if number % 4 == 0:
                    connection.run({"drop": name})
        durable.kill()
        durable.start()
        with WireClient(durable.port) as connection:
            listed = connection.run({"listCollections": 1, "nameOnly": True})["cursor"]["firstBatch"]
            names = {one["name"] for one in listed if one["name"].startswith(f"c{round_number}_")}
            assert names == {f"c{round_number}_{number}" for number in range(20) if number % 4}
            for number in (number for number in range(20) if number % 4):
                indexes = connection.run({"listIndexes": f"c{round_number}_{number}"})["cursor"]["firstBatch"]
                assert len(indexes) == (1 if number % 3 == 0 else 2)
            connection.run({"dropDatabase": 1})


def test_more_members_than_there_are_is_refused_before_anything_is_defined(database):
    for definition in ({"create": "new"}, {"createIndexes": "new", "indexes": [INDEX]}, {"dropDatabase": 1}):
        with pytest.raises(OperationFailure) as refused:
            database.command({**definition, "writeConcern": {"w": 3}})
        assert refused.value.code == 2
    assert database.list_collection_names() == []


@pytest.mark.parametrize(
    "make",
    [
        lambda database: database["system.foo"].insert_one({}),
        lambda database: database["system.views"].insert_one({}),
        lambda database: database["system.buckets.x"].update_one({"_id": 1}, {"$set": {"a": 1}}, upsert=True),
        lambda database: database.create_collection("system.foo"),
        lambda database: database["system.foo"].create_index("a"),
        lambda database: database["things"].rename("system.foo"),
        lambda database: database["things"].aggregate([{"$out": "system.foo"}]),
    ],
    ids=["insert", "views", "upsert", "create", "createIndexes", "rename", "$out"],
)
def test_no_collection_of_the_systems_is_made_that_means_nothing(database, make):
    database["things"].insert_one({"_id": 1})
    with pytest.raises(OperationFailure) as refused:
        make(database)
    # The names of MongoDB's buckets are refused as such, whatever is asked of them.
    assert refused.value.code in (73, 17385, 238), refused.value
    assert database.list_collection_names() == ["things"]
    database["system.js"].insert_one({"_id": "kept"})


def test_an_explain_refuses_the_updates_that_a_run_refuses(database):
    database["things"].insert_one({"_id": 1})
    for update in [
        {"q": {}, "u": {"a": 1}, "multi": True},
        {"q": {}, "u": {"$set": {"a": 1}}, "multi": True, "sort": {"a": 1}},
    ]:
        command = {"update": "things", "updates": [update]}
        with pytest.raises(OperationFailure) as refused:
            database.command("explain", command)
        assert refused.value.code == 9
        assert database.command(command, check=False)["writeErrors"][0]["code"] == 9
    with pytest.raises(OperationFailure) as refused:
        database.command("findAndModify", "things", query={}, remove=True, arrayFilters=[{"x": 1}])
    assert refused.value.code == 9
