"""Time-series collections: what they take, how they are read, what goes by itself, and what MongoDB refuses of them."""

import datetime
import random
import subprocess
import time

import pytest
from bson import SON
from pymongo import MongoClient
from pymongo.errors import BulkWriteError, OperationFailure
from quarry_process import Quarry, binary

BAD_VALUE, CANNOT_CREATE_INDEX, INVALID_OPTIONS, ON_VIEW, NOT_SERVED, IN_TRANSACTION = 2, 67, 72, 166, 238, 263
NOON = datetime.datetime(2024, 5, 1, 12)
PATIENCE_S = 20
SERIES = {"timeField": "ts", "metaField": "at"}


def wait_until(is_so):
    begun = time.monotonic()
    while not is_so():
        assert time.monotonic() - begun < PATIENCE_S, "it never came"
        time.sleep(0.02)


def refused(act, code, part=""):
    with pytest.raises(OperationFailure) as raised:
        act()
    assert raised.value.code == code and part in str(raised.value), raised.value


def minute(number):
    return NOON + datetime.timedelta(minutes=number)


def measurements(count):
    return [{"ts": minute(number), "at": {"room": number % 3}, "celsius": number} for number in range(count)]


@pytest.fixture
def series(database):
    return database.create_collection("weather", timeseries=SERIES)


@pytest.fixture
def filled(series):
    shuffled = measurements(60)
    random.Random(7).shuffle(shuffled)
    series.insert_many(shuffled)
    return series


def celsius(cursor):
    return [document["celsius"] for document in cursor]


def stages(plan):
    inner = [plan["inputStage"]] if "inputStage" in plan else plan.get("inputStages", [])
    return [plan["stage"], *(stage for one in inner for stage in stages(one))]


def winning(collection, filter, **options):
    command = SON([("find", collection.name), ("filter", filter), *options.items()])
    return collection.database.command("explain", command)["queryPlanner"]["winningPlan"]


def test_a_series_is_listed_as_mongodb_lists_it(database, series):
    [entry] = database.list_collections(filter={"name": "weather"})
    assert entry["type"] == "timeseries" and entry["info"] == {"readOnly": False} and "idIndex" not in entry
    kept = {**SERIES, "granularity": "seconds", "bucketMaxSpanSeconds": 3600}
    assert entry["options"] == {"timeseries": kept}
    named = database.command("listCollections", nameOnly=True)["cursor"]["firstBatch"]
    assert named == [{"name": "weather", "type": "timeseries"}]
    assert [dict(index) for index in series.list_indexes()] == [{"v": 2, "key": {"at": 1, "ts": 1}, "name": "at_1_ts_1"}]
    # Made again as it is, and not as another one.
    database.command("create", "weather", timeseries=SERIES)
    refused(lambda: database.command("create", "weather", timeseries={"timeField": "ts"}), 48)
    plain = database.create_collection("plain", timeseries={"timeField": "ts"}, expireAfterSeconds=60)
    assert list(plain.list_indexes()) == []
    [entry] = database.list_collections(filter={"name": "plain"})
    assert entry["options"]["expireAfterSeconds"] == 60
    custom = {"timeField": "ts", "bucketMaxSpanSeconds": 100, "bucketRoundingSeconds": 100}
    database.create_collection("custom", timeseries=custom)
    [entry] = database.list_collections(filter={"name": "custom"})
    assert entry["options"]["timeseries"] == custom
    stats = database.command("collStats", "weather")
    assert stats["timeseries"]["bucketsNs"] == f"{database.name}.system.buckets.weather" and stats["nindexes"] == 1
    [stats] = series.aggregate([{"$collStats": {"storageStats": {}}}])
    assert stats["storageStats"]["timeseries"]["bucketCount"] == 0


@pytest.mark.parametrize(("options", "code", "part"), [
    ({"timeseries": {}}, 40414, "timeField"),
    ({"timeseries": {"timeField": 5}}, 14, "timeField"),
    ({"timeseries": {"timeField": "a.b"}}, 72, "must be a top-level field"),
    ({"timeseries": {"timeField": "t", "metaField": "a.b"}}, 72, "must be a top-level field"),
    ({"timeseries": {"timeField": "t", "metaField": "_id"}}, 72, "cannot be \"_id\""),
    ({"timeseries": {"timeField": "t", "metaField": "t"}}, 72, "same as 'timeField'"),
    ({"timeseries": {"timeField": "t", "granularity": "days"}}, 2, "not a valid value"),
    ({"timeseries": {"timeField": "t", "unknown": 1}}, 40415, "unknown"),
    ({"timeseries": {"timeField": "t", "bucketMaxSpanSeconds": 100}}, 72, "alongside"),
    ({"timeseries": {"timeField": "t", "bucketMaxSpanSeconds": 100, "bucketRoundingSeconds": 99}}, 72, "equal"),
    ({"timeseries": {"timeField": "t", "granularity": "hours", "bucketMaxSpanSeconds": 100}}, 72, "not configurable"),
    ({"timeseries": {"timeField": "t", "bucketMaxSpanSeconds": 0, "bucketRoundingSeconds": 0}}, 51024, ">= 1"),
    ({"timeseries": SERIES, "capped": True, "size": 4096}, 72, "'timeseries' is not allowed with 'capped'"),
    ({"timeseries": SERIES, "validator": {"a": 1}}, 72, "'timeseries' is not allowed with 'validator'"),
    ({"timeseries": SERIES, "viewOn": "a"}, 72, "'timeseries' is not allowed with 'viewOn'"),
    ({"timeseries": SERIES, "clusteredIndex": {"key": {"_id": 1}, "unique": True}}, 72, "not allowed with 'clusteredIndex'"),
    ({"timeseries": SERIES, "changeStreamPreAndPostImages": {"enabled": True}}, 72, "not allowed with"),
    ({"expireAfterSeconds": 5}, 72, "only supported on time-series"),
])
def test_a_series_that_cannot_be_is_refused(database, options, code, part):
    refused(lambda: database.command("create", "weather", **options), code, part)
    assert database.list_collection_names() == []


def test_measurements_need_a_time_and_no_unique_id(series):
    series.insert_many([{"_id": 1, "ts": NOON, "celsius": 1}, {"_id": 1, "ts": NOON, "celsius": 2}])
    assert sorted(celsius(series.find({"_id": 1}))) == [1, 2]
    without = series.database.command("insert", "weather", documents=[{"ts": NOON, "celsius": 3}])
    assert without["n"] == 1 and series.find_one({"celsius": 3})["_id"] is not None
    text = "'ts' must be present and contain a valid BSON UTC datetime value"
    for bad in ({"celsius": 4}, {"ts": 5}, {"ts": None}, {"inner": {"ts": NOON}}):
        refused(lambda: series.insert_one(dict(bad)), BAD_VALUE, text)
    with pytest.raises(BulkWriteError) as raised:
        series.insert_many([{"ts": NOON, "celsius": 5}, {"ts": "now"}, {"ts": NOON, "celsius": 6}], ordered=False)
    [error] = raised.value.details["writeErrors"]
    assert (error["index"], error["code"], error["errmsg"], raised.value.details["nInserted"]) == (1, BAD_VALUE, text, 2)
    assert series.count_documents({}) == 5
    # Times from the first to the last that there are, in their order.
    first, last = datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)
    series.insert_many([{"ts": last, "celsius": 9}, {"ts": first, "celsius": 0}])
    assert celsius(series.find())[0] == 0 and celsius(series.find())[-1] == 9


def test_the_order_of_time_is_the_order_of_storage(filled):
    assert celsius(filled.find()) == list(range(60))
    assert celsius(filled.find().sort("ts", -1)) == list(range(59, -1, -1))
    assert celsius(filled.find().sort("$natural", -1)) == list(range(59, -1, -1))
    for filter, expected in [
        ({"ts": {"$gte": minute(10), "$lt": minute(13)}}, [10, 11, 12]),
        ({"ts": {"$gt": minute(10), "$lte": minute(13)}}, [11, 12, 13]),
        ({"ts": minute(20)}, [20]),
        ({"ts": {"$in": [minute(40), minute(2)]}}, [2, 40]),
        ({"ts": {"$lt": minute(7)}, "at.room": 1}, [1, 4]),
        ({"ts": {"$gte": minute(58)}, "celsius": {"$gt": 58}}, [59]),
        ({"ts": {"$exists": False}}, []),
        ({"ts": "noon"}, []),
        ({"$or": [{"ts": minute(3)}, {"ts": {"$gt": minute(57)}}]}, [3, 58, 59]),
    ]:
        assert sorted(celsius(filled.find(filter))) == expected, filter
        assert filled.count_documents(filter) == len(expected), filter
        assert celsius(filled.find(filter).sort("ts", -1)) == expected[::-1], filter
        plan = stages(winning(filled, filter, sort={"ts": 1}))
        # The branches of an $or are read by themselves, and the few documents that they leave are sorted.
        assert ("SORT" in plan) == ("$or" in filter) and "COLLSCAN" not in plan, (filter, plan)
    between = filled.database.command("explain", {"find": "weather", "filter": {"ts": {"$lt": minute(5)}}}, verbosity="executionStats")
    assert between["executionStats"]["totalDocsExamined"] == 5
    # Batches go on where they ended, also when measurements come in between.
    cursor = filled.find({"ts": {"$gte": minute(30)}}, batch_size=7)
    seen = [next(cursor)["celsius"] for _ in range(7)]
    filled.insert_one({"ts": minute(31), "celsius": -1})
    assert seen + celsius(cursor) == list(range(30, 60))


def test_series_are_read_by_every_way(database, filled):
    assert filled.distinct("at.room") == [0, 1, 2]
    assert filled.distinct("celsius", {"ts": {"$lt": minute(3)}}) == [0, 1, 2]
    grouped = list(filled.aggregate([
        {"$match": {"ts": {"$gte": minute(30)}}},
        {"$group": {"_id": "$at.room", "most": {"$max": "$celsius"}, "count": {"$sum": 1}}}, {"$sort": {"_id": 1}},
    ]))
    assert grouped == [{"_id": 0, "most": 57, "count": 10}, {"_id": 1, "most": 58, "count": 10}, {"_id": 2, "most": 59, "count": 10}]
    last = list(filled.aggregate([{"$sort": {"ts": -1}}, {"$group": {"_id": "$at", "last": {"$first": "$celsius"}}}, {"$sort": {"last": 1}}]))
    assert [each["last"] for each in last] == [57, 58, 59]
    rooms = database.rooms
    rooms.insert_many([{"_id": room, "name": name} for room, name in enumerate(["hall", "attic", "cellar"])])
    joined = list(rooms.aggregate([
        {"$lookup": {"from": "weather", "localField": "_id", "foreignField": "at.room", "as": "found"}},
        {"$project": {"count": {"$size": "$found"}}}, {"$sort": {"_id": 1}},
    ]))
    assert [each["count"] for each in joined] == [20, 20, 20]
    named = list(filled.aggregate([
        {"$limit": 2}, {"$lookup": {"from": "rooms", "localField": "at.room", "foreignField": "_id", "as": "room"}},
    ]))
    assert [each["room"][0]["name"] for each in named] == ["hall", "attic"]
    by_hour = list(filled.aggregate([{"$group": {"_id": {"$dateTrunc": {"date": "$ts", "unit": "hour"}}, "mean": {"$avg": "$celsius"}}}]))
    assert by_hour == [{"_id": NOON, "mean": 29.5}]
    assert winning(filled, {"at.room": 1})["stage"] == "COLLSCAN"
    by_meta = winning(filled, {"at": {"room": 1}, "ts": {"$gt": minute(3)}})
    assert by_meta["inputStage"]["indexName"] == "at_1_ts_1"
    assert celsius(filled.find({"at": {"room": 1}, "ts": {"$gt": minute(50)}}).hint("at_1_ts_1")) == [52, 55, 58]
    refused(lambda: list(filled.find({}).hint({"ts": 1})), BAD_VALUE, "hint")
    database.create_collection("view", viewOn="weather", pipeline=[{"$match": {"celsius": {"$gte": 58}}}])
    assert celsius(database.view.find()) == [58, 59]


def test_indexes_are_those_that_mongodb_has(filled):
    filled.create_index("celsius")
    assert winning(filled, {"celsius": 5})["inputStage"]["indexName"] == "celsius_1"
    assert celsius(filled.find({"celsius": {"$gte": 57}})) == [57, 58, 59]
    filled.create_index([("at.room", 1), ("ts", -1)], sparse=True)
    filled.create_index("ts")
    assert celsius(filled.find({"ts": minute(4)}).hint("ts_1")) == [4]
    for keys, options, code, part in [
        ("at", {"unique": True}, INVALID_OPTIONS, "Unique indexes are not supported on time-series collections"),
        ([("at", "text")], {}, INVALID_OPTIONS, "Text indexes are not supported on time-series collections"),
        ("celsius", {"sparse": True}, INVALID_OPTIONS, "Sparse indexes are not supported on time-series measurements"),
        ("ts", {"expireAfterSeconds": 5, "name": "t"}, INVALID_OPTIONS, "require a partialFilterExpression on the metaField"),
        ("$**", {}, CANNOT_CREATE_INDEX, ""),
    ]:
        refused(lambda: filled.create_index(keys, **options), code, part)
    before = len(list(filled.list_indexes()))
    filled.drop_index("at_1_ts_1")
    filled.drop_indexes()
    assert before == 4 and list(filled.list_indexes()) == []


def test_updates_change_what_was_measured_and_nothing_else(filled):
    done = filled.update_many({"at.room": 1}, {"$set": {"at.name": "attic"}})
    assert (done.matched_count, done.modified_count) == (20, 20)
    assert filled.count_documents({"at": {"room": 1, "name": "attic"}}) == 20
    done = filled.update_many({"at.name": "attic"}, {"$rename": {"at.name": "at.called"}})
    assert done.modified_count == 20
    for update, part in [
        (lambda: filled.update_one({"at.room": 1}, {"$set": {"at.x": 1}}), "non-multi update"),
        (lambda: filled.replace_one({}, {"ts": NOON}), "non-multi update"),
        (lambda: filled.update_many({"at.room": 1}, {"$set": {"at.x": 1}}, upsert=True), "upsert"),
        (lambda: filled.update_many({"celsius": 1}, {"$set": {"at.x": 1}}), "querying on a field that is not the metaField 'at'"),
        (lambda: filled.update_many({"at.room": 1}, {"$set": {"celsius": 1}}), "updates a field that is not the metaField 'at'"),
        (lambda: filled.update_many({"at.room": 1}, {"$set": {"at.x": 1, "ts": NOON}}), "updates a field that is not the metaField"),
        (lambda: filled.update_many({"at.room": 1}, {"$rename": {"at.room": "room"}}), "updates a field that is not the metaField"),
        (lambda: filled.update_many({"at.room": 1}, [{"$set": {"at.x": 1}}]), "pipeline"),
    ]:
        refused(update, INVALID_OPTIONS, part)
    plain = filled.database.create_collection("plain", timeseries={"timeField": "ts"})
    refused(lambda: plain.update_many({}, {"$set": {"at": 1}}), INVALID_OPTIONS, "does not have a metaField")
    refused(lambda: filled.find_one_and_update({"at.room": 1}, {"$set": {"at.x": 1}}), ON_VIEW)
    refused(lambda: filled.find_one_and_delete({}), ON_VIEW)
    one = {"update": "weather", "updates": [{"q": {}, "u": {"$set": {"at.x": 1}}}]}
    refused(lambda: filled.database.command("explain", one), INVALID_OPTIONS, "non-multi update")
    assert filled.count_documents({"at.x": 1}) == 0 and filled.count_documents({}) == 60


def test_deletes_take_any_filter(filled):
    assert filled.delete_one({"celsius": 7}).deleted_count == 1
    assert filled.delete_many({"ts": {"$lt": minute(10)}}).deleted_count == 9
    assert filled.delete_many({"at.room": 1, "celsius": {"$gt": 30}}).deleted_count == 10
    assert filled.delete_many({}).deleted_count == 40
    assert filled.count_documents({}) == 0
    # No key tells an `_id`, and several may have it.
    filled.insert_many([{"_id": 1, "ts": minute(0)}, {"_id": 1, "ts": minute(1)}])
    assert filled.delete_one({"_id": 1}).deleted_count == 1
    assert filled.delete_many({"_id": 1}).deleted_count == 1


def test_pipelines_write_a_series_whole_or_not_at_all(database, filled):
    database.raw.insert_many([{"_id": number, "ts": minute(number), "at": "a", "n": number} for number in range(5)])
    out = {"db": database.name, "coll": "made", "timeseries": {"timeField": "ts", "metaField": "at", "granularity": "minutes"}}
    database.raw.aggregate([{"$out": out}])
    [entry] = database.list_collections(filter={"name": "made"})
    assert entry["type"] == "timeseries" and entry["options"]["timeseries"]["granularity"] == "minutes" and "temp" not in entry["options"]
    assert [each["n"] for each in database.made.find()] == [0, 1, 2, 3, 4]
    assert [index["name"] for index in database.made.list_indexes()] == ["at_1_ts_1"]
    # It stays one that is not asked to be one again.
    database.raw.aggregate([{"$match": {"n": {"$gt": 2}}}, {"$out": "made"}])
    assert [each["n"] for each in database.made.find()] == [3, 4]
    [entry] = database.list_collections(filter={"name": "made"})
    assert entry["type"] == "timeseries"
    other = {**out, "timeseries": {"timeField": "ts"}}
    refused(lambda: database.raw.aggregate([{"$out": other}]), 7406103)
    refused(lambda: database.raw.aggregate([{"$out": {**out, "coll": "raw"}}]), 7268700)
    refused(lambda: database.raw.aggregate([{"$project": {"ts": 0}}, {"$out": out}]), BAD_VALUE, "must be present")
    assert [each["n"] for each in database.made.find()] == [3, 4]
    refused(lambda: database.raw.aggregate([{"$merge": {"into": "weather"}}]), INVALID_OPTIONS, "time-series")
    filled.aggregate([{"$limit": 3}, {"$out": "plain"}])
    assert database.plain.count_documents({}) == 3


def test_definitions_change_as_in_mongodb(database, series):
    def modify(**options):
        return database.command("collMod", "weather", **options)

    def options():
        [entry] = database.list_collections(filter={"name": "weather"})
        return entry["options"]

    refused(lambda: modify(timeseries={"granularity": "hours"}), INVALID_OPTIONS, "Invalid transition")
    modify(timeseries={"granularity": "minutes"})
    assert options()["timeseries"]["granularity"] == "minutes" and options()["timeseries"]["bucketMaxSpanSeconds"] == 86400
    refused(lambda: modify(timeseries={"granularity": "seconds"}), INVALID_OPTIONS, "Invalid transition")
    modify(expireAfterSeconds=3600)
    assert options()["expireAfterSeconds"] == 3600
    modify(expireAfterSeconds="off")
    assert "expireAfterSeconds" not in options()
    refused(lambda: modify(validator={"a": 1}), INVALID_OPTIONS, "not supported on a time-series collection: validator")
    refused(lambda: modify(changeStreamPreAndPostImages={"enabled": True}), INVALID_OPTIONS, "not supported on a time-series")
    refused(lambda: series.rename("other"), ON_VIEW)
    database.other.insert_one({})
    refused(lambda: database.other.rename("weather", dropTarget=True), 48)
    refused(lambda: database.command("collMod", "other", timeseries={"granularity": "hours"}), INVALID_OPTIONS)
    buckets = database["system.buckets.weather"]
    for act in (lambda: buckets.find_one(), lambda: buckets.insert_one({}), lambda: list(buckets.aggregate([]))):
        refused(act, NOT_SERVED, "system.buckets.weather")
    assert sorted(database.list_collection_names()) == ["other", "weather"]
    series.drop()
    assert database.list_collection_names() == ["other"]
    long = "x" * (255 - len(database.name) - len(".system.buckets.") + 1)
    refused(lambda: database.create_collection(long, timeseries=SERIES), 73)


def test_what_was_measured_long_ago_goes(client, database):
    client.admin.command({"setParameter": 1, "ttlMonitorSleepSecs": 1})
    try:
        now = datetime.datetime.now(datetime.timezone.utc)
        series = database.create_collection("weather", timeseries=SERIES, expireAfterSeconds=1000)
        series.insert_many([{"ts": now - datetime.timedelta(seconds=10 * number), "at": number % 2} for number in range(1200)])
        wait_until(lambda: 99 <= series.count_documents({}) <= 100)
        database.command("collMod", "weather", expireAfterSeconds=500)
        wait_until(lambda: 47 <= series.count_documents({}) <= 50)
        database.command("collMod", "weather", expireAfterSeconds="off")
        series.create_index("ts", expireAfterSeconds=100, partialFilterExpression={"at": {"$eq": 1}})
        wait_until(lambda: series.count_documents({"at": 1}) <= 5)
        assert series.count_documents({"at": 0}) >= 23
    finally:
        client.admin.command({"setParameter": 1, "ttlMonitorSleepSecs": 60})


def test_transactions_read_and_do_not_write_and_streams_do_not_tell(tmp_path):
    quarry = Quarry(tmp_path / "data", "memory", ["--replSet", "rs"])
    quarry.start()
    try:
        with MongoClient(quarry.uri, directConnection=True) as client:
            database = client.db
            series = database.create_collection("weather", timeseries=SERIES)
            series.insert_many(measurements(10))
            with client.start_session() as session:
                with session.start_transaction():
                    assert len(list(series.find({"ts": {"$lt": minute(4)}}, session=session))) == 4
                for write in (
                    lambda: series.insert_one({"ts": NOON}, session=session),
                    lambda: series.delete_one({}, session=session),
                    lambda: series.update_many({}, {"$set": {"at.x": 1}}, session=session),
                    lambda: database.create_collection("another", timeseries=SERIES, session=session),
                ):
                    session.start_transaction()
                    refused(write, IN_TRANSACTION)
                    session.abort_transaction()
            refused(lambda: series.watch(), ON_VIEW, "is not supported on time-series collections")
            with database.watch() as stream:
                series.insert_many(measurements(10))
                series.update_many({"at.room": 1}, {"$set": {"at.x": 1}})
                series.delete_many({"at.room": 1})
                database.create_collection("second", timeseries=SERIES).drop()
                series.drop()
                database.other.insert_one({"_id": 1})
                event = next(stream)
            assert (event["operationType"], event["ns"]["coll"]) == ("insert", "other")
    finally:
        quarry.stop()


def test_a_retried_insert_is_done_once(series):
    session = series.database.client.start_session()
    with session:
        command = {"insert": "weather", "documents": [{"_id": 1, "ts": NOON}], "txnNumber": 7, "lsid": session.session_id}
        first = series.database.command(dict(command))
        assert series.database.command(dict(command))["n"] == first["n"] == 1
    assert series.count_documents({}) == 1


def test_a_series_is_there_after_a_crash(durable):
    with MongoClient(durable.uri) as client:
        series = client.db.create_collection("weather", timeseries=SERIES, expireAfterSeconds=10**9)
        series.create_index("celsius")
        series.insert_many(measurements(1500))
        series.delete_many({"celsius": {"$gte": 1400}})
        client.db.command({"insert": "weather", "documents": [{"ts": minute(-1), "celsius": -1}], "writeConcern": {"j": True}})
    durable.kill()
    durable.start()
    with MongoClient(durable.uri) as client:
        series = client.db.weather
        assert celsius(series.find()) == list(range(-1, 1400))
        assert celsius(series.find({"celsius": 77})) == [77]
        # Numbers of this run meet none of those of the run before.
        series.insert_many(measurements(1500))
        assert series.count_documents({}) == 2901
        assert client.db.validate_collection("weather")["valid"]


def test_tools_take_the_measurements_and_the_series(server, series, tmp_path):
    series.insert_many(measurements(30))
    name = series.database.name

    def run(*arguments):
        return subprocess.run([binary(), *map(str, arguments)], capture_output=True, text=True)

    dumped = run("dump", "--uri", server.uri, "--db", name, "--out", tmp_path / "dump")
    assert dumped.returncode == 0, dumped.stderr
    # In buckets, where MongoDB's tools look for the measurements.
    assert (tmp_path / "dump" / name / "system.buckets.weather.bson").exists()
    series.drop()
    restored = run("restore-dump", "--uri", server.uri, tmp_path / "dump")
    assert restored.returncode == 0, restored.stderr
    assert celsius(series.find()) == list(range(30))
    exported = run("export", "--uri", server.uri, "--db", name, "--collection", "weather", "--out", tmp_path / "weather.json")
    assert exported.returncode == 0, exported.stderr
    assert len((tmp_path / "weather.json").read_text().splitlines()) == 30
    series.delete_many({})
    imported = run("import", "--uri", server.uri, "--db", name, "--collection", "weather", tmp_path / "weather.json")
    assert imported.returncode == 0, imported.stderr
    assert celsius(series.find()) == list(range(30))
