"""The settings of queries by their shape: what they do to plans, whom they refuse, and that they outlive the server."""

import pytest
from conftest import ENGINES
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from quarry_process import Quarry

REJECTED = 411


@pytest.fixture(scope="module", params=ENGINES[:1])
def member(request, tmp_path_factory):
    quarry = Quarry(tmp_path_factory.mktemp("set") / "data", request.param, ["--replSet", "rs0"])
    quarry.start()
    yield quarry
    assert quarry.stop() == 0, quarry.tail()


@pytest.fixture(scope="module")
def client(member):
    with MongoClient(member.uri, replicaSet="rs0", serverSelectionTimeoutMS=5000) as connected:
        yield connected


@pytest.fixture
def things(client):
    """A collection with two ways to the same documents."""
    things = client.settings.things
    things.insert_many([{"_id": number, "a": number % 50, "b": number % 2} for number in range(400)])
    things.create_index("a")
    things.create_index("b")
    yield things
    for entry in shown(client):
        client.admin.command("removeQuerySettings", entry["queryShapeHash"])
    client.drop_database("settings")


def shown(client, **options):
    return list(client.admin.aggregate([{"$querySettings": options}]))


def set_for(client, subject, **settings):
    return client.admin.command({"setQuerySettings": subject, "settings": settings})


def hints(collection, *indexes):
    return {"ns": {"db": collection.database.name, "coll": collection.name}, "allowedIndexes": list(indexes)}


def explained(collection, command):
    return collection.database.command({"explain": command, "verbosity": "queryPlanner"})


def stages(plan):
    """The stages of a plan from its root to its first leaf, and the index that it reads."""
    names, index = [], None
    while plan is not None:
        names.append(plan["stage"])
        index = plan.get("indexName", index)
        plan = plan.get("inputStage")
    return names, index


def index_of(collection, command):
    return stages(explained(collection, command)["queryPlanner"]["winningPlan"])[1]


def code_of(work):
    with pytest.raises(OperationFailure) as raised:
        work()
    return raised.value.code


def test_hints_of_settings_choose_the_index(client, things):
    query = {"find": "things", "filter": {"a": 7, "b": 1}}
    assert index_of(things, query) == "a_1"
    expected = sorted(document["_id"] for document in things.find({"a": 7, "b": 1}))
    set_for(client, {**query, "$db": "settings"}, indexHints=hints(things, "b_1"))
    for command in (query, {**query, "filter": {"a": 3, "b": 0}}, {**query, "hint": "a_1"}):
        assert index_of(things, command) == "b_1", command
    assert sorted(document["_id"] for document in things.find({"a": 7, "b": 1})) == expected
    # Another shape is another query.
    assert index_of(things, {**query, "filter": {"a": 7}}) == "a_1"
    assert index_of(things, {**query, "limit": 1}) == "a_1"
    # By key pattern, and several.
    set_for(client, {**query, "$db": "settings"}, indexHints=[hints(things, {"b": 1}, {"a": 1})])
    assert index_of(things, query) == "a_1"
    planner = explained(things, query)["queryPlanner"]
    assert planner["querySettings"] == {"indexHints": [hints(things, {"b": 1}, {"a": 1})]}
    assert planner["indexFilterSet"] is False


def test_settings_that_serve_nothing_are_passed_over(client, things):
    query = {"find": "things", "filter": {"a": 7, "b": 1}}
    subject = {**query, "$db": "settings"}
    for indexes in (["gone"], ["_id_"], [{"c": 1}]):
        set_for(client, subject, indexHints=hints(things, *indexes))
        assert index_of(things, query) == "a_1", indexes
        # The query's own hint counts again.
        assert index_of(things, {**query, "hint": "b_1"}) == "b_1", indexes
    elsewhere = {"ns": {"db": "settings", "coll": "others"}, "allowedIndexes": ["b_1"]}
    set_for(client, subject, indexHints=elsewhere)
    assert index_of(things, query) == "a_1"


def test_a_scan_is_allowed_by_its_natural_order(client, things):
    query = {"find": "things", "filter": {"a": 7, "b": 1}}
    subject = {**query, "$db": "settings"}
    for order, direction in ((1, "forward"), (-1, "backward")):
        set_for(client, subject, indexHints=hints(things, {"$natural": order}))
        plan = explained(things, query)["queryPlanner"]["winningPlan"]
        assert (plan["stage"], plan["direction"]) == ("COLLSCAN", direction)
        found = [document["_id"] for document in things.find(query["filter"])]
        assert found == sorted(found, reverse=order < 0) and len(found) == 8
    set_for(client, subject, indexHints=hints(things, {"$natural": 1}, "b_1"))
    assert index_of(things, query) == "b_1"


def test_settings_come_before_index_filters(client, things):
    query = {"a": 7, "b": 1}
    command = {"find": "things", "filter": query}
    things.database.command("planCacheSetFilter", "things", query=query, indexes=["a_1"])
    subject = {**command, "$db": "settings"}
    set_for(client, subject, indexHints=hints(things, "b_1"))
    planner = explained(things, command)["queryPlanner"]
    assert stages(planner["winningPlan"])[1] == "b_1" and planner["indexFilterSet"] is False
    # Where the settings serve nothing, the filter is asked again.
    set_for(client, subject, indexHints=hints(things, "gone"))
    assert index_of(things, {**command, "hint": "b_1"}) == "a_1"


def test_distincts_and_aggregates_have_settings(client, things):
    things.create_index([("b", 1), ("a", 1)])
    distinct = {"distinct": "things", "key": "a", "query": {"b": 1}}
    assert index_of(things, distinct) == "b_1_a_1"
    set_for(client, {**distinct, "$db": "settings"}, indexHints=hints(things, "b_1"))
    assert index_of(things, distinct) == "b_1"
    assert sorted(things.distinct("a", {"b": 0})) == list(range(0, 50, 2))
    values = {"distinct": "things", "key": "a"}
    set_for(client, {**values, "$db": "settings"}, indexHints=hints(things, "gone"))
    assert "DISTINCT_SCAN" in stages(explained(things, values)["queryPlanner"]["winningPlan"])[0]
    pipeline = [{"$match": {"a": 7, "b": 1}}, {"$group": {"_id": None, "n": {"$sum": 1}}}]
    aggregate = {"aggregate": "things", "pipeline": pipeline, "cursor": {}}
    set_for(client, {**aggregate, "$db": "settings"}, indexHints=hints(things, "b_1"))
    cursor = explained(things, aggregate)["stages"][0]["$cursor"]["queryPlanner"]
    assert stages(cursor["winningPlan"])[1] == "b_1"
    assert next(things.aggregate(pipeline))["n"] == 8


def test_a_lookup_is_planned_by_the_settings_of_its_query(client, things):
    others = things.database.others
    others.insert_many([{"_id": number, "x": 7, "y": number % 3} for number in range(30)])
    others.create_index([("x", 1), ("y", 1)])
    others.create_index("x")
    lookup = {"$lookup": {"from": "others", "localField": "a", "foreignField": "x", "as": "found"}}
    pipeline = [{"$match": {"a": 7}}, lookup]
    uses = lambda: {entry["name"]: entry["accesses"]["ops"] for entry in others.aggregate([{"$indexStats": {}}])}  # noqa: E731
    subject = {"aggregate": "things", "pipeline": pipeline, "cursor": {}, "$db": "settings"}
    for index in ("x_1", "x_1_y_1"):
        set_for(client, subject, indexHints=[hints(things, "a_1"), hints(others, index)])
        before = uses()
        assert all(len(document["found"]) == 30 for document in things.aggregate(pipeline))
        after = uses()
        assert [name for name in after if after[name] > before[name]] == [index]


def test_a_view_has_settings_of_its_own(client, things):
    database = things.database
    database.command({"create": "seen", "viewOn": "things", "pipeline": [{"$match": {"b": 1}}]})
    query = {"find": "seen", "filter": {"a": 7}}
    set_for(client, {**query, "$db": "settings"}, indexHints=hints(things, "b_1"))
    assert index_of(database.seen, query) == "b_1"
    assert len(list(database.seen.find({"a": 7}))) == 8
    set_for(client, {**query, "$db": "settings"}, reject=True)
    assert code_of(lambda: list(database.seen.find({"a": 9}))) == REJECTED
    assert len(list(things.find({"a": 7, "b": 1}))) == 8


def test_rejected_queries_are_refused_and_explained(client, things):
    reply = set_for(client, {"find": "things", "filter": {"a": 1}, "$db": "settings"}, reject=True)
    digest = reply["queryShapeHash"]
    open_before = things.find({"b": 1}).batch_size(2)
    next(open_before)
    assert code_of(lambda: list(things.find({"a": 2}))) == REJECTED
    assert len(list(things.find({"a": {"$gte": 0}}))) == 400
    shown_plan = explained(things, {"find": "things", "filter": {"a": 3}})
    assert shown_plan["queryShapeHash"] == digest
    assert shown_plan["queryPlanner"]["querySettings"] == {"reject": True}
    # A cursor that is open goes on; writes and counts have no settings.
    set_for(client, {"find": "things", "filter": {"b": 1}, "batchSize": 2, "$db": "settings"}, reject=True)
    assert len(list(open_before)) == 199
    assert things.update_many({"a": 1}, {"$set": {"c": 1}}).modified_count == 8
    assert client.admin.command("removeQuerySettings", digest)["ok"] == 1.0
    assert len(list(things.find({"a": 2}))) == 8
    aggregate = {"aggregate": "things", "pipeline": [{"$match": {"a": 1}}], "cursor": {}}
    set_for(client, {**aggregate, "$db": "settings"}, reject=True)
    assert code_of(lambda: list(things.aggregate([{"$match": {"a": 5}}]))) == REJECTED
    assert explained(things, aggregate)["queryPlanner"]["querySettings"] == {"reject": True}
    set_for(client, {"distinct": "things", "key": "a", "$db": "settings"}, reject=True)
    assert code_of(lambda: things.distinct("a")) == REJECTED
    assert len(things.distinct("b")) == 2


def test_settings_are_listed_with_their_shapes(client, things):
    assert shown(client) == []
    query = {"find": "things", "filter": {"a": 1}, "sort": {"b": 1}, "$db": "settings"}
    reply = set_for(client, query, queryFramework="sbe", comment={"by": "operator"})
    settings = {"queryFramework": "sbe", "comment": {"by": "operator"}}
    [entry] = shown(client)
    assert entry == {"queryShapeHash": reply["queryShapeHash"], "settings": settings, "representativeQuery": query}
    [entry] = shown(client, showDebugQueryShape=True)
    assert entry["debugQueryShape"] == {
        "cmdNs": {"db": "settings", "coll": "things"}, "command": "find", "filter": {"a": {"$eq": "?number"}}, "sort": {"b": 1},
    }
    assert code_of(lambda: shown(client, unknown=True)) == 40415
    assert code_of(lambda: client.admin.aggregate([{"$querySettings": 1}])) == 7746801
    assert code_of(lambda: things.aggregate([{"$querySettings": {}}])) == 73
    client.admin.command({"removeQuerySettings": {**query, "filter": {"a": 2}}})
    assert shown(client) == []


def test_query_stats_know_the_shape_by_the_same_hash(client, things):
    client.admin.command("setParameter", 1, internalQueryStatsRateLimit=-1)
    list(things.find({"a": 1, "b": 1}, hint="a_1"))
    client.admin.command("setParameter", 1, internalQueryStatsRateLimit=0)
    [entry] = client.admin.aggregate([{"$queryStats": {}}, {"$match": {"key.queryShape.filter.$and": {"$exists": True}}}])
    assert entry["key"]["hint"] == "a_1" and "hint" not in entry["key"]["queryShape"]
    set_for(client, entry["queryShapeHash"], reject=True)
    assert code_of(lambda: list(things.find({"a": 5, "b": 0}))) == REJECTED


def test_settings_outlive_the_server(durable):
    durable.stop()
    durable.arguments = ["--replSet", "rs0"]
    durable.start()
    subject = {"find": "things", "filter": {"a": 1}, "$db": "settings"}
    with MongoClient(durable.uri, directConnection=True) as client:
        client.settings.things.insert_one({"a": 1})
        kept = set_for(client, subject, reject=True)
    durable.kill()
    durable.start()
    with MongoClient(durable.uri, directConnection=True) as client:
        assert [entry["queryShapeHash"] for entry in shown(client)] == [kept["queryShapeHash"]]
        assert code_of(lambda: list(client.settings.things.find({"a": 2}))) == REJECTED
        client.admin.command("removeQuerySettings", kept["queryShapeHash"])
    durable.kill()
    durable.start()
    with MongoClient(durable.uri, directConnection=True) as client:
        assert shown(client) == [] and len(list(client.settings.things.find({"a": 1}))) == 1
