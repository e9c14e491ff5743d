"""Commands that tools and scripts of operators call, sizes, hashes, locks, pools, plans, and what small arguments may be."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from pymongo.errors import OperationFailure

#: So many builds are begun at most until one is met while it runs.
BUILDS_MAX = 50
SCANNING = "Index Build: scanning collection"


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


def test_data_size_between_two_keys(collection):
    collection.insert_many([{"_id": number, "a": -number, "text": "x" * number} for number in range(100)])
    collection.create_index([("a", -1)])

    def data_size(**options):
        return collection.database.command("dataSize", collection.full_name, **options)

    for options in (
        {"min": {"_id": 10}, "max": {"_id": 20}},
        {"keyPattern": {"a": -1}, "min": {"a": -10}, "max": {"a": -20}},
    ):
        reply = data_size(**options)
        # Each has 32 bytes and its text.
        assert (reply["size"], reply["numObjects"], reply["estimate"]) == (10 * 32 + sum(range(10, 20)), 10, False)
    average = collection.database.command("collStats", collection.name)["avgObjSize"]
    reply = data_size(min={"_id": 10}, max={"_id": 20}, estimate=True)
    assert (reply["size"], reply["numObjects"], reply["estimate"]) == (10 * int(average), 10, True)
    reply = data_size(min={"_id": 10}, max={"_id": 20}, maxObjects=3)
    assert (reply["numObjects"], reply["maxReached"]) == (4, True)
    assert data_size(min={}, max={})["numObjects"] == data_size(estimate=True)["numObjects"] == 100
    assert code_of(lambda: data_size(min={"_id": 1})) == 2
    assert code_of(lambda: data_size(min={"none": 1}, max={"none": 2})) == 96


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


def uses_of(collection):
    return {entry["name"]: entry for entry in collection.aggregate([{"$indexStats": {}}])}


def test_index_stats_count_what_plans_read(collection):
    collection.insert_many([{"_id": number, "a": number % 5, "b": number} for number in range(50)])
    collection.create_index("a")
    collection.create_index("b", sparse=True)
    first = uses_of(collection)
    assert list(first) == ["_id_", "a_1", "b_1"]
    assert {name: entry["accesses"]["ops"] for name, entry in first.items()} == {"_id_": 0, "a_1": 0, "b_1": 0}
    assert (first["b_1"]["key"], first["b_1"]["spec"]["sparse"]) == ({"b": 1}, True)
    assert first["a_1"]["host"] == collection.database.command("serverStatus")["host"]
    assert first["_id_"]["accesses"]["since"] <= first["a_1"]["accesses"]["since"]
    collection.find_one({"_id": 1})
    collection.find_one({"a": 1})
    collection.count_documents({"a": 1})
    collection.distinct("a", {"a": {"$gt": 1}})
    collection.update_many({"a": 2}, {"$set": {"x": 1}})
    collection.find_one_and_update({"_id": 2}, {"$set": {"x": 2}})
    collection.delete_one({"b": 7})
    collection.find({"a": 1}).explain()
    list(collection.find({"x": 1}))
    second = uses_of(collection)
    assert {name: entry["accesses"]["ops"] for name, entry in second.items()} == {"_id_": 2, "a_1": 4, "b_1": 1}
    assert second["a_1"]["accesses"]["since"] == first["a_1"]["accesses"]["since"]
    [scans] = collection.aggregate([{"$collStats": {"queryExecStats": {}}}])
    assert scans["queryExecStats"] == {"collectionScans": {"total": 1, "nonTailable": 1}}
    # A $match behind it finds the indexes that nobody uses.
    collection.create_index("unused")
    unused = collection.aggregate([{"$indexStats": {}}, {"$match": {"accesses.ops": 0}}, {"$project": {"name": 1}}])
    assert list(unused) == [{"name": "unused_1"}]
    collection.drop_index("a_1")
    collection.create_index("a")
    assert uses_of(collection)["a_1"]["accesses"]["ops"] == 0


def test_index_stats_are_of_a_collection(collection):
    database = collection.database
    assert list(database["nowhere"].aggregate([{"$indexStats": {}}])) == []
    assert code_of(lambda: collection.aggregate([{"$indexStats": {"a": 1}}])) == 28803
    assert code_of(lambda: collection.aggregate([{"$match": {}}, {"$indexStats": {}}])) == 40602
    assert code_of(lambda: database.aggregate([{"$indexStats": {}}])) == 73
    collection.insert_one({})
    database.create_collection("v", viewOn=collection.name, pipeline=[])
    assert code_of(lambda: database["v"].aggregate([{"$indexStats": {}}])) == 166


def with_two_ways(collection):
    """Half of the documents have one `half`, one in fifty has one `rare`: both indexes would do, and one is better."""
    collection.insert_many([{"_id": number, "half": number % 2, "rare": number % 50, "c": number} for number in range(1000)])
    collection.create_index("half")
    collection.create_index("rare")


def cached(collection):
    return list(collection.aggregate([{"$planCacheStats": {}}]))


def test_plan_cache_stats_list_what_trials_chose(collection):
    with_two_ways(collection)
    assert cached(collection) == []
    query = {"half": 1, "rare": 7}
    list(collection.find(query))
    [entry] = cached(collection)
    assert (entry["isActive"], entry["indexFilterSet"], entry["version"]) == (False, False, "1")
    assert entry["createdFromQuery"] == {"query": query, "sort": {}, "projection": {}}
    assert entry["cachedPlan"]["inputStage"]["indexName"] == "rare_1" and entry["works"] > 0
    assert entry["queryHash"] == entry["planCacheShapeHash"] and entry["estimatedSizeBytes"] > 100
    assert entry["host"] == collection.database.command("serverStatus")["host"]
    list(collection.find({"half": 0, "rare": 8}))
    [again] = cached(collection)
    assert again["isActive"] and again["planCacheKey"] == entry["planCacheKey"]
    assert again["timeOfCreation"] == entry["timeOfCreation"]
    # Explain names both.
    planner = collection.find({"rare": 1, "half": 0}).explain()["queryPlanner"]
    assert (planner["planCacheShapeHash"], planner["planCacheKey"]) == (entry["queryHash"], entry["planCacheKey"])
    # What has one good index is never tried.
    list(collection.find({"rare": 3}))
    assert len(cached(collection)) == 1
    assert code_of(lambda: collection.aggregate([{"$planCacheStats": {"x": 1}}])) == 9
    assert code_of(lambda: collection.database.aggregate([{"$planCacheStats": {}}])) == 73
    assert list(collection.database["nowhere"].aggregate([{"$planCacheStats": {}}])) == []


def test_the_plans_of_one_shape_are_forgotten(collection):
    with_two_ways(collection)
    database, name = collection.database, collection.name
    for sort in (None, [("c", 1)]):
        list(collection.find({"half": 1, "rare": 7}, sort=sort))
    assert len(cached(collection)) == 2
    database.command("planCacheClear", name, query={"c": 1})
    assert len(cached(collection)) == 2
    database.command("planCacheClear", name, query={"rare": 1, "half": 5}, sort={"c": 1})
    assert [entry["createdFromQuery"]["sort"] for entry in cached(collection)] == [{}]
    database.command("planCacheClear", name, query={"rare": 1, "half": 5})
    assert cached(collection) == []
    assert code_of(lambda: database.command("planCacheClear", name, query={"a": {"$nope": 1}})) == 2


def test_an_index_filter_says_what_plans_may_use(collection):
    with_two_ways(collection)
    database, name = collection.database, collection.name

    def plan(query, **options):
        planner = collection.find(query, **options).explain()["queryPlanner"]
        return planner["indexFilterSet"], planner["winningPlan"].get("inputStage", planner["winningPlan"]).get("indexName")

    query = {"half": 1, "rare": 7}
    assert plan(query) == (False, "rare_1")
    assert database.command("planCacheListFilters", name)["filters"] == []
    database.command("planCacheSetFilter", name, query=query, indexes=[{"half": 1}])
    [listed] = database.command("planCacheListFilters", name)["filters"]
    assert listed == {"query": query, "sort": {}, "projection": {}, "indexes": [{"half": 1}]}
    # Other values and another order of the conditions are the same shape; another sort is another one.
    assert plan({"rare": 3, "half": 0}) == (True, "half_1")
    assert plan({"rare": 3, "half": 0}, sort=[("c", 1)])[0] is False
    assert plan({"rare": 3}) == (False, "rare_1")
    # It counts more than a hint, and finds the same.
    assert plan(query, hint="rare_1") == (True, "half_1")
    assert len(list(collection.find(query))) == 20 == len(list(collection.find(query, hint="rare_1")))
    uses = {key: entry["accesses"]["ops"] for key, entry in uses_of(collection).items()}
    assert uses["half_1"] == 2
    # By name, and for what is written and counted.
    database.command("planCacheSetFilter", name, query=query, indexes=["half_1", "rare_1"])
    assert plan(query) == (True, "rare_1")
    database.command("planCacheSetFilter", name, query={"rare": 1}, indexes=["gone"])
    assert plan({"rare": 1}) == (True, None)
    before = uses_of(collection)["rare_1"]["accesses"]["ops"]
    collection.update_many({"rare": 1}, {"$set": {"x": 1}})
    assert collection.count_documents({"x": 1}) == 20
    assert uses_of(collection)["rare_1"]["accesses"]["ops"] == before
    # It outlives other indexes.
    collection.create_index("c")
    assert len(database.command("planCacheListFilters", name)["filters"]) == 2
    database.command("planCacheClearFilters", name, query={"rare": 8})
    assert plan({"rare": 1}) == (False, "rare_1") and plan(query)[0] is True
    database.command("planCacheClearFilters", name)
    assert plan(query) == (False, "rare_1")
    assert database.command("planCacheListFilters", name)["filters"] == []


def test_index_filters_are_checked(collection):
    collection.insert_one({})
    database, name = collection.database, collection.name
    for arguments in (
        {"indexes": ["a"]},
        {"query": {"a": 1}},
        {"query": {"a": 1}, "indexes": []},
        {"query": {"a": 1}, "indexes": [1]},
        {"query": {"a": 1}, "indexes": [{}]},
        {"query": {"a": {"$nope": 1}}, "indexes": ["a"]},
        {"sort": {"a": 1}, "indexes": ["a"]},
    ):
        assert code_of(lambda arguments=arguments: database.command("planCacheSetFilter", name, **arguments)) == 2, arguments
    assert code_of(lambda: database.command("planCacheSetFilter", "nowhere", query={"a": 1}, indexes=["a"])) == 2
    assert database.command("planCacheListFilters", "nowhere")["filters"] == []
    assert database.command("planCacheClearFilters", "nowhere")["ok"] == 1.0


@pytest.fixture
def counting(client):
    """A server that counts all queries for $queryStats."""
    client.admin.command("setParameter", 1, internalQueryStatsRateLimit=-1)
    yield client
    client.admin.command("setParameter", 1, internalQueryStatsRateLimit=0)


def query_stats(client, collection):
    entries = client.admin.aggregate([{"$queryStats": {}}, {"$match": {"key.queryShape.cmdNs.db": collection.database.name}}])
    return list(entries)


def test_query_stats_are_by_shape(counting, collection):
    collection.insert_many([{"_id": number, "a": number % 10} for number in range(300)])
    for value in (1, 2):
        assert len(list(collection.find({"a": value}, {"a": 1}).sort("_id", 1).limit(5))) == 5
    # All batches are one execution, however many there are.
    assert len(list(collection.find({"a": {"$gte": 0}}).batch_size(50))) == 300
    list(collection.aggregate([{"$match": {"a": 3}}, {"$group": {"_id": "$a", "n": {"$sum": 1}}}]))
    first, second, third = sorted(query_stats(counting, collection), key=lambda entry: -entry["metrics"]["execCount"])
    shape = first["key"]["queryShape"]
    assert shape == {
        "cmdNs": {"db": collection.database.name, "coll": collection.name}, "command": "find", "filter": {"a": {"$eq": "?number"}},
        "sort": {"_id": 1}, "projection": {"a": True}, "limit": "?number",
    }
    assert first["key"]["client"]["driver"]["name"].startswith("PyMongo") and len(first["queryShapeHash"]) == 64
    metrics = first["metrics"]
    assert (metrics["execCount"], metrics["docsReturned"]["sum"], metrics["docsReturned"]["min"]) == (2, 10, 5)
    assert str(metrics["docsReturned"]["sumOfSquares"]) == "50"
    assert metrics["totalExecMicros"]["sum"] >= metrics["totalExecMicros"]["max"] >= metrics["firstResponseExecMicros"]["min"] > 0
    assert metrics["firstSeenTimestamp"] <= metrics["latestSeenTimestamp"]
    find, aggregate = sorted((second, third), key=lambda entry: entry["key"]["queryShape"]["command"], reverse=True)
    assert (find["metrics"]["execCount"], find["metrics"]["docsReturned"]["sum"], find["metrics"]["docsExamined"]["sum"]) == (1, 300, 300)
    assert find["key"]["batchSize"] == "?number"
    assert aggregate["key"]["queryShape"]["pipeline"] == [
        {"$match": {"a": {"$eq": "?number"}}}, {"$group": {"_id": "$a", "n": {"$sum": "?number"}}},
    ]


def test_query_stats_are_off_until_somebody_asks(client, collection):
    collection.insert_one({})
    list(collection.find({"a": 1}))
    assert query_stats(client, collection) == []
    assert client.admin.command("getParameter", 1, internalQueryStatsRateLimit=1)["internalQueryStatsRateLimit"] == 0
    assert code_of(lambda: client.admin.command("setParameter", 1, internalQueryStatsRateLimit=-2)) == 2
    assert code_of(lambda: collection.aggregate([{"$queryStats": {}}])) == 73
    assert code_of(lambda: collection.database.aggregate([{"$queryStats": {}}])) == 73
    secret = {"transformIdentifiers": {"algorithm": "hmac-sha-256", "hmacKey": b"x" * 32}}
    assert code_of(lambda: client.admin.aggregate([{"$queryStats": secret}])) == 238


def test_views_are_counted_apart_and_the_disk_is_measured(collection):
    database = collection.database
    collection.insert_one({})
    database.create_collection("v", viewOn=collection.name, pipeline=[])
    database.create_collection("w", viewOn="v", pipeline=[])
    stats = database.command("dbStats")
    assert (stats["collections"], stats["views"], stats["indexes"]) == (1, 2, 1)
    assert 0 < stats["fsUsedSize"] <= stats["fsTotalSize"]
    in_kib = database.command("dbStats", scale=1024)
    assert in_kib["fsTotalSize"] == stats["fsTotalSize"] / 1024


def test_server_status_has_the_sections_that_tools_for_mongod_read(client, collection):
    before = client.admin.command("serverStatus")
    collection.insert_many([{"_id": number, "a": number} for number in range(20)])
    assert len(list(collection.find({"a": {"$gte": 5}}))) == 15
    assert code_of(lambda: collection.database.command("nosuch")) == 59
    after = client.admin.command("serverStatus")
    assert after["asserts"]["user"] >= before["asserts"]["user"] + 1
    assert set(after["asserts"]) == {"regular", "warning", "msg", "user", "tripwire", "rollovers"}
    scanned = [status["metrics"]["queryExecutor"]["scannedObjects"] for status in (before, after)]
    assert scanned[1] >= scanned[0] + 20
    lock = after["globalLock"]
    assert lock["totalTime"] > 0 and set(lock["currentQueue"]) == set(lock["activeClients"]) == {"total", "readers", "writers"}
    # The command itself is at work, and is neither a reader nor a writer.
    assert lock["activeClients"]["total"] >= 1
    assert after["extra_info"]["page_faults"] >= 0 and after["extra_info"]["user_time_us"] > 0
    assert "asserts" not in client.admin.command("serverStatus", asserts=0)


def test_a_running_operation_has_the_fields_that_tools_for_mongod_read(client):
    shown = client.admin.command("currentOp")["inprog"]
    own = next(entry for entry in shown if "currentOp" in entry["command"])
    assert own["host"] == client.admin.command("serverStatus")["host"]
    assert own["isFromUserConnection"] is True and own["waitingForLock"] is False and own["numYields"] == 0
    assert own["locks"] == own["lockStats"] == own["flowControlStats"] == {}


def test_the_log_has_one_verbosity(client):
    assert client.admin.command({"getParameter": 1, "logComponentVerbosity": 1})["logComponentVerbosity"] == {"verbosity": 0}
    client.admin.command({"setParameter": 1, "logComponentVerbosity": {"verbosity": 0, "query": {"verbosity": -1}}})
    with pytest.raises(OperationFailure) as raised:
        client.admin.command({"setParameter": 1, "logComponentVerbosity": {"query": {"verbosity": 2}}})
    assert raised.value.code == 72 and "the log has one verbosity" in raised.value.details["errmsg"]


def test_a_command_without_a_plan_is_not_explained(database):
    assert code_of(lambda: database.command("explain", {"insert": "things", "documents": [{}]})) == 20
    assert code_of(lambda: database.command("explain", {"nosuch": "things"})) == 59


def test_a_validated_collection_is_named_by_its_identity(collection):
    collection.insert_one({})
    [listed] = collection.database.list_collections()
    assert collection.database.command("validate", collection.name)["uuid"] == listed["info"]["uuid"]


def test_collection_statistics_name_the_server_as_server_status_does(client, collection):
    collection.insert_one({})
    [stats] = collection.aggregate([{"$collStats": {"latencyStats": {}}}])
    assert stats["host"] == client.admin.command("serverStatus")["host"]


def test_the_profiler_names_the_shape_that_explain_names(database):
    things = database["things"]
    things.insert_many([{"_id": number, "a": number % 3, "b": "x"} for number in range(9)])
    database.create_collection("french", collation={"locale": "fr"})
    asked = [
        ("things", {"find": "things", "filter": {"a": 1}, "sort": {"b": 1}, "projection": {"a": 1}}),
        ("things", {"count": "things", "query": {"a": {"$gt": 1}}}),
        ("things", {"aggregate": "things", "pipeline": [{"$match": {"$expr": {"$eq": ["$a", "$$x"]}}}, {"$sort": {"b": 1}},
                                                        {"$group": {"_id": "$b"}}], "cursor": {}, "let": {"x": 1}}),
        ("things", {"update": "things", "updates": [{"q": {"a": 5, "b": 1}, "u": {"$set": {"c": 1}}}]}),
        ("things", {"findAndModify": "things", "query": {"b": "z"}, "sort": {"a": -1}, "remove": True}),
        ("french", {"find": "french", "filter": {"b": "x"}}),
    ]
    database.command("profile", 2)
    try:
        for _, command in asked:
            database.command(command)
        database.command("dbStats")
    finally:
        database.command("profile", 0)
    for name, command in asked:
        explained = database.command("explain", command, verbosity="queryPlanner")
        planner = explained.get("queryPlanner") or explained["stages"][0]["$cursor"]["queryPlanner"]
        kind = next(iter(command))
        profiled = database["system.profile"].find_one({"ns": f"{database.name}.{name}", f"command.{kind}": name})
        assert profiled["queryHash"] == profiled["planCacheShapeHash"] == planner["queryHash"], command
        assert profiled["planCacheKey"] == planner["planCacheKey"], command
    # A command that is on no collection.
    assert database["system.profile"].find_one({"command.dbStats": 1})["ns"] == f"{database.name}.$cmd"


def test_an_index_build_shows_how_far_it_has_come(client, collection):
    documents = 20_000
    collection.insert_many([{"_id": number} for number in range(documents)])
    seen = []
    with ThreadPoolExecutor(1) as builder:
        for number in range(BUILDS_MAX):
            building = builder.submit(collection.create_index, f"a{number}")
            while not building.done() and not seen:
                running = client.admin.command("currentOp", ns=collection.full_name)["inprog"]
                seen = [entry for entry in running if "progress" in entry]
            building.result()
            if seen:
                break
    [entry] = seen
    done, total = entry["progress"]["done"], entry["progress"]["total"]
    assert 0 <= done <= total == documents
    assert entry["msg"] == f"{SCANNING} {SCANNING}: {done}/{total} {100 * done // total}%"


def test_no_database_is_made_beside_one_that_differs_by_case(client, database):
    database["things"].insert_one({})
    other = client[database.name.upper()]
    assert other.name != database.name
    assert code_of(lambda: other.create_collection("things")) == 13297
    assert code_of(lambda: other["things"].insert_one({})) == 13297
    assert other.name not in client.list_database_names()


def test_the_last_step_of_an_upgrade_is_acknowledged(client):
    assert client.admin.command("setFeatureCompatibilityVersion", "8.0", confirm=True)["ok"] == 1
    assert code_of(lambda: client.admin.command("setFeatureCompatibilityVersion", "8.0")) == 7369100
    assert code_of(lambda: client.admin.command("setFeatureCompatibilityVersion", "7.0", confirm=True)) == 332
    assert code_of(lambda: client.admin.command("setFeatureCompatibilityVersion", "6.0", confirm=True)) == 4926900


def test_a_pipeline_that_reads_no_collection_has_the_form_of_other_plans(database):
    explained = database.command("explain", {"aggregate": 1, "pipeline": [{"$documents": [{"a": 1}]}], "cursor": {}})
    assert explained["explainVersion"] == "1" and "$documents" in explained["stages"][0]


def test_explain_shows_the_bounds_of_queries(client, collection):
    collection.insert_one({"a": 1})
    sort_bytes = "internalQueryMaxBlockingSortMemoryUsageBytes"
    whole = client.admin.command("getParameter", 1, **{sort_bytes: 1})[sort_bytes]
    for command in ({"find": collection.name}, {"aggregate": collection.name, "pipeline": [{"$group": {"_id": "$a"}}], "cursor": {}}):
        reply = collection.database.command("explain", command)
        assert list(reply)[-3:] == ["serverInfo", "serverParameters", "ok"]
        assert reply["serverParameters"] == {
            "internalQueryFacetBufferSizeBytes": 104857600,
            "internalQueryFacetMaxOutputDocSizeBytes": 64 << 20,
            "internalLookupStageIntermediateDocumentMaxSizeBytes": 104857600,
            "internalDocumentSourceGroupMaxMemoryBytes": 104857600,
            sort_bytes: whole,
            "internalQueryProhibitBlockingMergeOnMongoS": 0,
            "internalDocumentSourceSetWindowFieldsMaxMemoryBytes": 104857600,
            "internalQueryFrameworkControl": "forceClassicEngine",
        }
    client.admin.command("setParameter", 1, **{sort_bytes: 1 << 20})
    try:
        reply = collection.database.command("explain", {"find": collection.name})
        assert reply["serverParameters"][sort_bytes] == 1 << 20
    finally:
        client.admin.command("setParameter", 1, **{sort_bytes: whole})
