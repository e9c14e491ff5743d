"""Change streams: what `watch` tells, on a standalone and on a set of one, and how a stream is resumed."""

import hashlib
import itertools
import pathlib
import threading
import time

import bson
import pytest
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp
from conftest import ENGINES
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern
from quarry_process import Quarry
from wire_client import WireClient

NAMES = itertools.count(1)
LONG_SECONDS = 30
# More than the changes of a test take. The engine in memory keeps 16 MiB by default: less than one update of a large document with its images,
# which a stream that has not come to it yet loses when a checkpoint comes.
WINDOW = ("--journalRetentionMB", "256")


@pytest.fixture(scope="module", params=[(engine, flags) for engine in ENGINES[:1] for flags in ((), ("--replSet", "rs0"))], ids=str)
def watched(request, tmp_path_factory):
    engine, flags = request.param
    quarry = Quarry(tmp_path_factory.mktemp("changes") / "data", engine, (*flags, *WINDOW))
    quarry.start()
    with MongoClient(quarry.uri, serverSelectionTimeoutMS=5000) as client:
        yield client
    assert quarry.stop() == 0, quarry.tail()


@pytest.fixture
def things(watched):
    database = watched[f"changes_{next(NAMES)}"]
    yield database.things
    watched.drop_database(database.name)


def events(stream, count):
    """The next events; a stream that does not have them in time fails the test."""
    deadline = time.monotonic() + LONG_SECONDS
    found = []
    while len(found) < count:
        assert time.monotonic() < deadline, found
        event = stream.try_next()
        if event is not None:
            found.append(event)
    return found


def kinds(found):
    return [event["operationType"] for event in found]


def test_the_changes_of_a_collection_come_in_order(things):
    with things.watch() as stream:
        things.insert_one({"_id": 1, "a": 1})
        things.replace_one({"_id": 1}, {"a": 2})
        things.delete_one({"_id": 1})
        things.database.others.insert_one({"_id": "not watched"})
        things.insert_many([{"_id": number} for number in (2, 3)])
        found = events(stream, 5)
    assert kinds(found) == ["insert", "replace", "delete", "insert", "insert"]
    insert, replace, delete = found[:3]
    assert insert["fullDocument"] == {"_id": 1, "a": 1} and insert["documentKey"] == {"_id": 1}
    assert insert["ns"] == {"db": things.database.name, "coll": "things"}
    assert replace["fullDocument"] == {"_id": 1, "a": 2}
    assert delete["documentKey"] == {"_id": 1} and "fullDocument" not in delete
    tokens = [event["_id"]["_data"] for event in found]
    assert tokens == sorted(set(tokens)), "tokens order as their events do"
    times = [event["clusterTime"] for event in found]
    assert times == sorted(times)
    assert "wallTime" in insert and "lsid" not in insert


def test_a_stream_wakes_with_the_change(things):
    things.insert_one({"_id": 0})
    with things.watch(max_await_time_ms=LONG_SECONDS * 1000) as stream:
        threading.Timer(0.05, lambda: things.insert_one({"_id": 1})).start()
        begun = time.monotonic()
        assert stream.next()["documentKey"] == {"_id": 1}
        assert time.monotonic() - begun < LONG_SECONDS / 2


def test_a_stream_is_resumed_behind_each_event(things):
    with things.watch() as stream:
        things.insert_many([{"_id": number} for number in range(5)])
        found = events(stream, 5)
    for place, event in enumerate(found):
        for option in ({"resume_after": event["_id"]}, {"start_after": event["_id"]}):
            with things.watch(max_await_time_ms=50, **option) as resumed:
                rest = events(resumed, 4 - place)
                assert [one["documentKey"]["_id"] for one in rest] == list(range(place + 1, 5))
                assert resumed.try_next() is None
    with things.watch(start_at_operation_time=found[2]["clusterTime"]) as later:
        assert later.next()["documentKey"]["_id"] <= 2
    with things.watch() as idle:
        assert idle.try_next() is None
        token = idle.resume_token
    things.insert_one({"_id": 5})
    with things.watch(resume_after=token) as resumed:
        assert resumed.next()["documentKey"] == {"_id": 5}


def test_a_stream_from_the_time_of_a_write_has_that_write(watched, things):
    if "setName" not in watched.admin.command("hello"):
        # A standalone tells no operationTime; the time of the event stands for it.
        with things.watch() as stream:
            things.insert_one({"_id": 0})
            time_of_event = stream.next()["clusterTime"]
        with things.watch(start_at_operation_time=time_of_event) as later:
            assert later.next()["documentKey"] == {"_id": 0}
        return

    written = {}

    def write(writer):
        # Others commit beside it, in the same groups and between the commit and its answer.
        for number in range(25):
            with watched.start_session() as session:
                things.insert_one({"_id": f"{writer}-{number}"}, session=session)
                written[f"{writer}-{number}"] = session.operation_time

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(written) == 100
    for key, told in written.items():
        with things.watch([{"$match": {"documentKey._id": key}}], start_at_operation_time=told) as stream:
            (event,) = events(stream, 1)
        assert event["documentKey"] == {"_id": key} and event["clusterTime"] == told


def test_small_batches_lose_nothing(things):
    with things.watch(batch_size=3) as stream:
        things.insert_many([{"_id": number, "x": "x" * 1000} for number in range(100)])
        seen = [event["documentKey"]["_id"] for event in events(stream, 40)]
        token = stream.resume_token
    with things.watch(resume_after=token) as resumed:
        seen += [event["documentKey"]["_id"] for event in events(resumed, 60)]
    assert seen == list(range(100))


def test_databases_and_clusters_are_watched(watched, things):
    with things.database.watch() as of_database, watched.watch() as of_cluster:
        things.insert_one({"_id": 1})
        things.database.others.insert_one({"_id": 2})
        watched.elsewhere.things.insert_one({"_id": 3})
        assert [event["documentKey"]["_id"] for event in events(of_database, 2)] == [1, 2]
        assert [event["documentKey"]["_id"] for event in events(of_cluster, 3)] == [1, 2, 3]
        assert of_database.try_next() is None
    watched.drop_database("elsewhere")


def test_a_drop_ends_the_stream_of_its_collection(things):
    things.insert_one({"_id": 1})
    with things.watch() as stream:
        things.drop()
        drop, invalidate = events(stream, 2)
        assert kinds([drop, invalidate]) == ["drop", "invalidate"]
        assert not stream.alive
    with pytest.raises(OperationFailure) as raised:
        things.watch(resume_after=invalidate["_id"])
    assert raised.value.code == 260
    with things.watch(start_after=invalidate["_id"]) as again:
        things.insert_one({"_id": 2})
        assert again.next()["documentKey"] == {"_id": 2}
    assert invalidate["wallTime"] == drop["wallTime"] and invalidate["clusterTime"] == drop["clusterTime"]
    with things.watch(resume_after=drop["_id"]) as resumed:
        assert events(resumed, 1) == [invalidate]


def test_renames_and_dropped_databases_end_streams(watched, things):
    things.insert_one({"_id": 1})
    database = things.database
    with things.watch() as of_collection, database.watch() as of_database:
        things.rename("renamed")
        rename, invalidate = events(of_collection, 2)
        assert kinds([rename, invalidate]) == ["rename", "invalidate"]
        assert rename["to"] == {"db": database.name, "coll": "renamed"}
        watched.drop_database(database.name)
        rename, drop, last, invalidate = events(of_database, 4)
        assert kinds([rename, drop, last, invalidate]) == ["rename", "drop", "dropDatabase", "invalidate"]
        assert drop["ns"]["coll"] == "renamed"
    with database.watch(start_after=invalidate["_id"]) as again:
        things.insert_one({"_id": 2})
        assert again.next()["documentKey"] == {"_id": 2}
    with things.watch() as of_collection:
        watched.drop_database(database.name)
        drop, invalidate = events(of_collection, 2)
        assert kinds([drop, invalidate]) == ["drop", "invalidate"]
    with things.watch(start_after=invalidate["_id"]) as again:
        # The drop of the database comes behind it, and is no drop of the collection again.
        things.insert_one({"_id": 3})
        assert again.next()["documentKey"] == {"_id": 3}


def test_expanded_events_tell_of_definitions(things):
    with things.database.watch(show_expanded_events=True) as stream:
        things.insert_one({"_id": 1, "a": 1})
        things.create_index("a")
        things.drop_index("a_1")
        found = events(stream, 4)
    assert kinds(found) == ["create", "insert", "createIndexes", "dropIndexes"]
    assert all("collectionUUID" in event for event in found)
    assert found[0]["operationDescription"] == {"idIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_"}}
    assert found[2]["operationDescription"]["indexes"][0]["name"] == "a_1"
    assert found[3]["operationDescription"]["indexes"][0]["key"] == {"a": 1}
    database, other = things.database, things.database.other
    with database.watch(show_expanded_events=True) as stream:
        things.create_index("a")
        database.command("collMod", "things", index={"name": "a_1", "hidden": True})
        database.command("collMod", "things", changeStreamPreAndPostImages={"enabled": True})
        other.insert_one({})
        things.rename("other", dropTarget=True)
        other.drop()
        _, hidden, images, create, _, rename, drop = events(stream, 7)
        things.insert_one({})
        database.command("collMod", "things")
        nothing = events(stream, 3)[2]
    assert kinds([nothing]) == ["modify"] and nothing["operationDescription"] == {}
    uuid = hidden["collectionUUID"]
    assert hidden["operationDescription"] == {"index": {"name": "a_1", "hidden": True}}
    assert hidden["stateBeforeChange"] == {"collectionOptions": {"uuid": uuid}, "indexOptions": {"hidden": False}}
    assert images["operationDescription"] == {"changeStreamPreAndPostImages": {"enabled": True}}
    before = images["stateBeforeChange"]
    assert before == {"collectionOptions": {"uuid": uuid, "changeStreamPreAndPostImages": {"enabled": False}}}
    to = {"db": database.name, "coll": "other"}
    assert rename["to"] == to and rename["collectionUUID"] == uuid
    assert rename["operationDescription"] == {"to": to, "dropTarget": create["collectionUUID"]}
    assert kinds([drop]) == ["drop"] and drop["collectionUUID"] == uuid and "operationDescription" not in drop


def test_streams_tell_of_views_only_where_they_are_asked_to(things):
    database = things.database
    with database.watch() as plain, database.watch(show_expanded_events=True) as expanded:
        with database.named.watch(show_expanded_events=True) as of_name:
            database.create_collection("named", viewOn="things", pipeline=[])
            with pytest.raises(OperationFailure) as refused:
                database.named.watch()
            assert refused.value.code == 166
            database.command("collMod", "named", viewOn="other", pipeline=[{"$match": {"a": 1}}])
            database.drop_collection("named")
            database.create_collection("named")
            database.named.insert_one({"_id": 1})
            # The name is a collection's only from the second time on.
            assert kinds(events(of_name, 2)) == ["create", "insert"]
        made, changed, dropped, collection = events(expanded, 4)
        assert kinds([made, changed, dropped, collection]) == ["create", "modify", "drop", "create"]
        assert made["operationDescription"] == {"viewOn": "things", "pipeline": []}
        assert changed["operationDescription"] == {"viewOn": "other", "pipeline": [{"$match": {"a": 1}}]}
        assert "collectionUUID" in collection
        assert not any("collectionUUID" in event for event in (made, changed, dropped))
        assert kinds(events(plain, 1)) == ["insert"]


def test_stages_behind_select_and_shape(things):
    pipeline = [{"$match": {"fullDocument.keep": True}}, {"$project": {"fullDocument.a": 1, "operationType": 1}}]
    with things.watch(pipeline) as stream:
        things.insert_many([{"_id": number, "keep": number % 2 == 0, "a": number} for number in range(6)])
        found = events(stream, 3)
    assert [event["fullDocument"] for event in found] == [{"a": 0}, {"a": 2}, {"a": 4}]
    for stage, code in [({"$group": {"_id": 1}}, 20), ({"$sort": {"_id": 1}}, 20), ({"$unsupported": 1}, 40324)]:
        with pytest.raises(OperationFailure) as raised:
            things.watch([stage])
        assert raised.value.code == code
    with things.watch([{"$project": {"_id": 0}}]) as stream:
        things.insert_one({"_id": 10})
        with pytest.raises(OperationFailure) as raised:
            stream.next()
        assert raised.value.code == 280 and raised.value.has_error_label("NonResumableChangeStreamError")
    for level, code in [("local", 72), ("available", 72), ("majority", None)]:
        try:
            things.with_options(read_concern=ReadConcern(level)).watch().close()
        except OperationFailure as refused:
            assert refused.code == code
        else:
            assert code is None


def test_the_changes_of_a_transaction_come_with_its_commit_and_name_it(watched, things):
    things.insert_one({"_id": 0})
    others = things.database.others
    with things.database.watch() as stream, watched.start_session() as session:
        with session.start_transaction():
            things.insert_one({"_id": 1}, session=session)
            things.delete_one({"_id": 0}, session=session)
            others.insert_one({"_id": 2}, session=session)
            things.insert_one({"_id": "outside"})
        session.start_transaction()
        things.insert_one({"_id": "aborted"}, session=session)
        session.abort_transaction()
        others.insert_one({"_id": "end"})
        found, lsid = events(stream, 5), session.session_id["id"]
    keys = [event["documentKey"]["_id"] for event in found]
    assert keys == ["outside", 1, 0, 2, "end"]
    of_transaction = found[1:4]
    assert [event["lsid"] for event in of_transaction] == [{"id": lsid, "uid": hashlib.sha256(b"").digest()}] * 3
    assert len({event["txnNumber"] for event in of_transaction}) == 1
    assert len({event["clusterTime"] for event in of_transaction}) == 1
    assert all("txnNumber" not in event and "lsid" not in event for event in (found[0], found[4]))


def test_each_statement_of_a_transaction_has_its_event(watched, things):
    things.insert_one({"_id": 0, "n": 0})
    with things.watch() as stream, watched.start_session() as session:
        with session.start_transaction():
            things.insert_one({"_id": 1, "n": 0}, session=session)
            things.update_one({"_id": 1}, {"$set": {"n": 1}}, session=session)
            things.update_one({"_id": 0}, {"$set": {"a": {"b": 1}}}, session=session)
            things.update_one({"_id": 0}, {"$set": {"a.b": 2}, "$unset": {"n": 1}}, session=session)
            things.insert_one({"_id": 2}, session=session)
            things.delete_one({"_id": 2}, session=session)
        things.insert_one({"_id": "end"})
        found = events(stream, 7)
    told = [(event["operationType"], event["documentKey"]["_id"]) for event in found]
    assert told == [("insert", 1), ("update", 1), ("update", 0), ("update", 0), ("insert", 2), ("delete", 2), ("insert", "end")]
    assert found[0]["fullDocument"] == {"_id": 1, "n": 0}
    described = [(event["updateDescription"]["updatedFields"], event["updateDescription"]["removedFields"]) for event in found[1:4]]
    assert described == [({"n": 1}, []), ({"a": {"b": 1}}, []), ({"a.b": 2}, ["n"])]
    with things.watch(resume_after=found[2]["_id"]) as stream:
        assert [event["_id"] for event in events(stream, 4)] == [event["_id"] for event in found[3:]]


def test_the_document_of_an_update_is_looked_up(things):
    things.insert_one({"_id": 1, "a": 1, "b": 1})
    with things.watch(full_document="updateLookup") as stream:
        things.update_one({"_id": 1}, {"$set": {"a": 2}})
        things.update_one({"_id": 1}, {"$set": {"a": 3}, "$unset": {"b": 1}})
        things.delete_one({"_id": 1})
        first, second, _ = events(stream, 3)
        # As it is when the event is read: it may have gone by then.
        assert first["fullDocument"] is None and second["fullDocument"] is None
    things.insert_one({"_id": 2, "a": 1})
    with things.watch(full_document="updateLookup") as stream:
        for n in (2, 3):
            things.update_one({"_id": 2}, {"$set": {"a": n}})
        assert [event["fullDocument"] for event in events(stream, 2)] == [{"_id": 2, "a": 3}] * 2


def test_an_update_is_looked_up_in_its_own_collection(things):
    """Not in another one that has got its name since, nor through a view."""
    database = things.database
    things.insert_one({"_id": 1, "a": 1})
    with database.watch([{"$match": {"operationType": "update"}}], full_document="updateLookup") as stream:
        things.update_one({"_id": 1}, {"$set": {"a": 2}})
        things.rename("moved")
        things.insert_one({"_id": 1, "a": "another"})
        (update,) = events(stream, 1)
        assert update["ns"]["coll"] == "things" and update["fullDocument"] is None
        things.update_one({"_id": 1}, {"$set": {"a": "still another"}})
        things.drop()
        database.create_collection("things", viewOn="moved", pipeline=[])
        (update,) = events(stream, 1)
        assert things.find_one() == {"_id": 1, "a": 2} and update["fullDocument"] is None
        database.moved.update_one({"_id": 1}, {"$set": {"a": 3}})
        assert events(stream, 1)[0]["fullDocument"] == {"_id": 1, "a": 3}


def test_an_event_that_cannot_be_made_comes_behind_those_before_it(things):
    with things.watch(full_document="required", batch_size=2) as stream:
        things.insert_many([{"_id": number} for number in range(4)])
        things.update_one({"_id": 0}, {"$set": {"a": 1}})
        assert [event["documentKey"]["_id"] for event in events(stream, 4)] == [0, 1, 2, 3]
        token = stream.resume_token
        with pytest.raises(OperationFailure) as raised:
            stream.next()
        assert raised.value.code == 47
    with things.watch(resume_after=token) as resumed:
        assert kinds(events(resumed, 1)) == ["update"]


def test_a_stream_from_a_time_to_come_is_resumed_at_that_time(watched, things):
    """Whoever loses the connection before the time comes is told of nothing earlier for that."""
    with things.watch() as stream:
        things.insert_one({"_id": 0})
        now = stream.next()["clusterTime"]
    begun = Timestamp(now.time + 100, 1)
    with things.watch(start_at_operation_time=begun, max_await_time_ms=50) as stream:
        things.insert_one({"_id": 1})
        assert stream.try_next() is None
        token = stream.resume_token
        things.database.others.insert_one({})
        assert stream.try_next() is None and stream.resume_token == token
    things.insert_one({"_id": 2})
    with things.watch(resume_after=token, max_await_time_ms=50) as resumed:
        things.insert_one({"_id": 3})
        assert resumed.try_next() is None and resumed.resume_token == token
        if "setName" in watched.admin.command("hello"):
            # A set follows the time that a client has seen.
            with WireClient(watched.address[1]) as connection:
                connection.run({"ping": 1, "$clusterTime": {"clusterTime": begun}})
            things.insert_one({"_id": 4})
            assert events(resumed, 1)[0]["documentKey"] == {"_id": 4}


def test_documents_after_an_update_are_told_where_images_are_kept(watched):
    database = watched[f"changes_{next(NAMES)}"]
    kept = database.create_collection("kept", changeStreamPreAndPostImages={"enabled": True})

    def change(collection):
        collection.insert_one({"_id": 1, "a": 1, "b": 1})
        collection.update_one({"_id": 1}, {"$set": {"a": 2}})
        collection.update_one({"_id": 1}, {"$set": {"a": 3}, "$unset": {"b": 1}})
        collection.replace_one({"_id": 1}, {"a": 4})
        collection.delete_one({"_id": 1})

    def told(found):
        return [event["fullDocument"]["a"] if event.get("fullDocument") else None for event in found]

    with kept.watch(full_document="required") as required, kept.watch(full_document="whenAvailable") as available:
        change(kept)
        assert told(events(required, 5)) == told(events(available, 5)) == [1, 2, 3, 4, None]
    things = database.things
    with things.watch(full_document="required") as required, things.watch(full_document="whenAvailable") as available:
        change(things)
        found = events(available, 5)
        # Inserts and replacements have their document in any case.
        assert told(found) == [1, None, None, 4, None]
        assert found[1]["fullDocument"] is None and "fullDocument" not in found[4]
        with pytest.raises(OperationFailure) as raised:
            events(required, 2)
        assert raised.value.code == 47
    watched.drop_database(database.name)


def test_an_update_says_what_it_changed(things):
    things.insert_one({"_id": 1, "a": 1, "b": {"c": 1, "d": 1}})
    with things.watch() as stream:
        things.update_one({"_id": 1}, {"$set": {"a": 2, "b.c": 3}, "$unset": {"b.d": 1}})
        update = stream.next()
    assert update["operationType"] == "update" and "fullDocument" not in update
    described = update["updateDescription"]
    assert described["updatedFields"] == {"a": 2, "b.c": 3}
    assert described["removedFields"] == ["b.d"] and described["truncatedArrays"] == []


def test_an_update_by_a_pipeline_says_what_differs(things):
    text = "longer than what changes"
    things.insert_one({"_id": 1, "text": text, "a": 1, "b": {"c": 1, "d": 1}, "list": [1, 2], "old": 1})
    with things.watch() as stream:
        things.update_one({"_id": 1}, [{"$set": {"a": {"$add": ["$a", 1]}, "b.c": 3, "list": [1, 2, 3]}}, {"$unset": "old"}])
        things.update_one({"_id": 1}, [{"$set": {"a": "$a"}}])
        things.update_one({"_id": 1}, [{"$set": {"list": [0]}}])
        things.update_one({"_id": 1}, [{"$set": {"list": []}}])
        things.find_one_and_update({"_id": 1}, [{"$replaceWith": {"other": "$a"}}])
        update, cut, emptied, replace = events(stream, 4)
    assert cut["updateDescription"]["updatedFields"] == {"list.0": 0}
    assert cut["updateDescription"]["truncatedArrays"] == [{"field": "list", "newSize": 1}]
    assert emptied["updateDescription"]["updatedFields"] == {} and emptied["updateDescription"]["removedFields"] == []
    assert emptied["updateDescription"]["truncatedArrays"] == [{"field": "list", "newSize": 0}]
    assert update["operationType"] == "update"
    described = update["updateDescription"]
    assert described["updatedFields"] == {"a": 2, "b.c": 3, "list.2": 3}
    assert described["removedFields"] == ["old"] and described["truncatedArrays"] == []
    # What would take more to tell than the document itself is told as the document, as in MongoDB.
    assert replace["operationType"] == "replace" and "updateDescription" not in replace
    assert replace["fullDocument"] == {"_id": 1, "other": 2}


def test_documents_before_a_change_are_told_where_they_are_kept(watched):
    database = watched[f"changes_{next(NAMES)}"]
    kept = database.create_collection("kept", changeStreamPreAndPostImages={"enabled": True})
    with kept.watch(full_document_before_change="required") as stream:
        kept.insert_one({"_id": 1, "a": 1})
        kept.update_one({"_id": 1}, {"$set": {"a": 2}})
        kept.delete_one({"_id": 1})
        insert, update, delete = events(stream, 3)
    assert "fullDocumentBeforeChange" not in insert
    assert update["fullDocumentBeforeChange"] == {"_id": 1, "a": 1}
    assert delete["fullDocumentBeforeChange"] == {"_id": 1, "a": 2}
    with database.things.watch(full_document_before_change="whenAvailable") as stream:
        database.things.insert_one({"_id": 1})
        database.things.delete_one({"_id": 1})
        assert events(stream, 2)[1]["fullDocumentBeforeChange"] is None
    with database.things.watch(full_document_before_change="required") as stream:
        database.things.insert_one({"_id": 2})
        database.things.delete_one({"_id": 2})
        with pytest.raises(OperationFailure) as raised:
            events(stream, 2)
        assert raised.value.code == 47
    watched.drop_database(database.name)


def test_a_large_event_comes_in_fragments(watched):
    database = watched[f"changes_{next(NAMES)}"]
    things = database.create_collection("things", changeStreamPreAndPostImages={"enabled": True})
    large = 9 << 20
    things.insert_one({"_id": 1, "x": "a" * large})
    images = {"full_document": "required", "full_document_before_change": "required"}
    split = [{"$changeStreamSplitLargeEvent": {}}]
    stages = [{"$match": {"operationType": {"$ne": "delete"}}}, *split]
    with things.watch(stages, **images) as stream, things.watch(**images) as whole:
        things.update_one({"_id": 1}, {"$set": {"x": "b" * large}})
        things.insert_one({"_id": 2})
        with pytest.raises(OperationFailure) as raised:
            whole.next()
        assert raised.value.code == 10334
        found = events(stream, 4)
    fragments, last = found[:3], found[3]
    assert [fragment["splitEvent"] for fragment in fragments] == [{"fragment": n, "of": 3} for n in (1, 2, 3)]
    assert "splitEvent" not in last and last["documentKey"] == {"_id": 2}
    event = {name: value for fragment in fragments for name, value in fragment.items()}
    assert event["fullDocumentBeforeChange"]["x"] == "a" * large and event["fullDocument"]["x"] == "b" * large
    assert {"operationType", "clusterTime", "ns", "documentKey"} < set(fragments[0])
    tokens = [event["_id"]["_data"] for event in found]
    assert tokens == sorted(set(tokens))
    for place, fragment in enumerate(fragments):
        with things.watch(split, resume_after=fragment["_id"], **images) as resumed:
            rest = events(resumed, 3 - place)
            assert [one["_id"]["_data"] for one in rest] == tokens[place + 1 :]
    # What is small enough behind the stages is not split, and nobody goes on within it.
    small = [{"$unset": ["fullDocument", "fullDocumentBeforeChange", "updateDescription"]}]
    with things.watch(small, start_at_operation_time=fragments[0]["clusterTime"], **images) as stream:
        assert "splitEvent" not in stream.next()
    for pipeline, after in [([], fragments[0]), (small + split, fragments[0])]:
        with pytest.raises(OperationFailure) as raised:
            things.watch(pipeline, resume_after=after["_id"], **images).next()
        assert raised.value.code == 280
    for pipeline, code in [(split + small, 7182802), ([{"$changeStreamSplitLargeEvent": {"a": 1}}], 7182800)]:
        with pytest.raises(OperationFailure) as raised:
            things.watch(pipeline)
        assert raised.value.code == code
    watched.drop_database(database.name)


def test_documents_before_a_change_expire(watched):
    database = watched[f"changes_{next(NAMES)}"]
    kept = database.create_collection("kept", changeStreamPreAndPostImages={"enabled": True})
    admin = watched.admin

    def expire(seconds):
        options = {"changeStreamOptions": {"preAndPostImages": {"expireAfterSeconds": seconds}}}
        admin.command({"setClusterParameter": options})
        shown = admin.command({"getClusterParameter": "changeStreamOptions"})["clusterParameters"]
        assert [one["preAndPostImages"]["expireAfterSeconds"] for one in shown] == [seconds]

    with kept.watch() as stream:
        begun = stream.resume_token
    kept.insert_one({"_id": 1})
    kept.update_one({"_id": 1}, {"$set": {"a": 1}})
    kept.delete_one({"_id": 1})

    def image():
        with kept.watch(resume_after=begun, full_document_before_change="whenAvailable") as stream:
            return events(stream, 3)[1]["fullDocumentBeforeChange"]

    try:
        assert image() == {"_id": 1}
        expire(1)
        deadline = time.monotonic() + LONG_SECONDS
        while image() is not None:
            assert time.monotonic() < deadline, "it does not expire"
        with pytest.raises(OperationFailure) as raised:
            events(kept.watch(resume_after=begun, full_document_before_change="required"), 2)
        assert raised.value.code == 47
        with kept.watch(resume_after=begun, full_document="whenAvailable") as stream:
            assert events(stream, 3)[1]["fullDocument"] is None
        # It is the reader that leaves them out: the journal has them for as long as its segments.
        expire(1000)
        assert image() == {"_id": 1}
    finally:
        expire("off")
    refused = [(4, {"bogus": {}}), (2, {"changeStreamOptions": {"preAndPostImages": {"expireAfterSeconds": 0}}})]
    for code, parameter in refused:
        with pytest.raises(OperationFailure) as raised:
            admin.command({"setClusterParameter": parameter})
        assert raised.value.code == code
    watched.drop_database(database.name)


def test_what_is_no_place_to_resume_at_is_refused(things):
    for options, code in [
        ({"resumeAfter": {"_data": "82"}}, 260),
        ({"resumeAfter": {"_data": "no"}}, 9),
        ({"bogus": 1}, 40415),
    ]:
        with pytest.raises(OperationFailure) as raised:
            things.aggregate([{"$changeStream": options}])
        assert raised.value.code == code
    with pytest.raises(OperationFailure) as raised:
        things.database.client.local.things.watch()
    assert raised.value.code == 73


def test_the_token_of_an_event_that_the_stream_does_not_tell_is_refused(watched, things):
    other, elsewhere = things.database.other, watched[f"{things.database.name}_elsewhere"].things
    with things.database.watch() as stream, elsewhere.watch() as stream_elsewhere:
        other.insert_one({"_id": 1})
        things.insert_one({"_id": 2})
        other.insert_one({"_id": 3})
        elsewhere.insert_one({"_id": 4})
        foreign, mine, _ = events(stream, 3)
        far = events(stream_elsewhere, 1)[0]
    for option in ("resume_after", "start_after"):
        for event in (foreign, far):
            with pytest.raises(OperationFailure) as raised:
                things.watch(**{option: event["_id"]})
            assert raised.value.code == 280 and raised.value.has_error_label("NonResumableChangeStreamError")
        with things.watch(**{option: mine["_id"]}) as resumed, things.database.watch(**{option: foreign["_id"]}) as wider:
            assert resumed.try_next() is None
            assert [event["documentKey"]["_id"] for event in events(wider, 2)] == [2, 3]
    # The place of a stream that has told nothing is no event's.
    with other.watch() as quiet:
        assert quiet.try_next() is None
        token = quiet.resume_token
    things.insert_one({"_id": 5})
    with things.watch(resume_after=token) as resumed:
        assert resumed.next()["documentKey"] == {"_id": 5}
    # So is not that of an invalidate.
    with other.watch() as stream:
        other.drop()
        _, invalidate = events(stream, 2)
    with pytest.raises(OperationFailure) as raised:
        things.watch(start_after=invalidate["_id"])
    assert raised.value.code == 280
    watched.drop_database(elsewhere.database.name)


def test_tokens_never_go_back(things):
    """What a reply without events carries is no earlier than the event before it."""
    with things.watch() as stream:
        tokens = []
        for number in range(3):
            things.insert_one({"_id": number})
            tokens.append(events(stream, 1)[0]["_id"]["_data"])
            assert stream.try_next() is None
            tokens.append(stream.resume_token["_data"])
    assert tokens == sorted(tokens)


def test_stages_of_streams_have_their_places(things):
    stream, split = {"$changeStream": {}}, {"$changeStreamSplitLargeEvent": {}}
    lookup = {"$lookup": {"from": "things", "pipeline": [stream], "as": "a"}}
    for pipeline, code in [
        ([{"$match": {}}, stream], 40602),
        ([stream, stream], 20),
        ([{"$facet": {"a": [stream]}}], 40600),
        ([lookup], 51047),
        ([{"$unionWith": {"coll": "things", "pipeline": [stream]}}], 31441),
        ([split], 20),
        ([{"$match": {}}, split], 20),
    ]:
        with pytest.raises(OperationFailure) as raised:
            things.aggregate(pipeline)
        assert raised.value.code == code, pipeline
    with pytest.raises(OperationFailure) as raised:
        things.database.create_collection("view", viewOn="things", pipeline=[stream])
    assert raised.value.code == 167
    with pytest.raises(OperationFailure) as raised:
        things.database.command("aggregate", "things", pipeline=[stream], explain=True)
    assert raised.value.code == 238


def test_a_stream_is_resumed_across_a_kill(durable):
    with MongoClient(durable.uri) as client, client.test.things.watch() as stream:
        client.test.things.insert_many([{"_id": number} for number in range(3)])
        token = events(stream, 2)[1]["_id"]
        client.test.things.insert_one({"_id": 3})
        events(stream, 2)
    durable.kill()
    durable.start()
    with MongoClient(durable.uri) as client, client.test.things.watch(resume_after=token) as stream:
        client.test.things.insert_one({"_id": 4})
        assert [event["documentKey"]["_id"] for event in events(stream, 3)] == [2, 3, 4]


def test_a_stream_is_resumed_across_checkpoints_and_restarts_by_default(durable):
    with MongoClient(durable.uri) as client, client.test.kept.watch() as stream:
        client.test.kept.insert_many([{"_id": number} for number in range(3)])
        token = events(stream, 1)[0]["_id"]
        begun = client.test.command("ping").get("operationTime")
    for number in range(3, 5):
        with MongoClient(durable.uri) as client:
            client.admin.command("fsync")
            client.test.kept.insert_one({"_id": number})
        assert durable.stop() == 0, durable.tail()
        durable.start()
    with MongoClient(durable.uri) as client:
        window = client.admin.command("serverStatus")["quarry"]["journal"]["window"]
        assert (window["hours"], window["firstLsn"]) == (24, 1)
        with client.test.kept.watch(resume_after=token) as stream:
            assert [event["documentKey"]["_id"] for event in events(stream, 4)] == [1, 2, 3, 4]
        if begun is not None:
            with client.test.kept.watch(start_at_operation_time=begun) as stream:
                assert [event["documentKey"]["_id"] for event in events(stream, 2)][-1] == 4


def test_a_token_does_not_tell_what_the_journals_groups_are_known_by(durable):
    with MongoClient(durable.uri) as client, client.test.told.watch() as stream:
        client.test.told.insert_one({"_id": 1})
        event = events(stream, 1)[0]
        tokens = [bytes.fromhex(token["_data"]) for token in (event["_id"], stream.resume_token)]
    segments = sorted(durable.directory.glob("**/*.segment"))
    assert segments
    for segment in segments:
        # docs/formats/journal.md: the salt is the lower half of the incarnation.
        salt = segment.read_bytes()[72:76]
        for token in tokens:
            assert salt not in token
            assert salt[::-1] not in token


def test_text_that_is_not_utf_8_is_told_as_it_was_stored(watched):
    raw = CodecOptions(document_class=RawBSONDocument)
    texts = watched.changes_of_text.get_collection("texts", codec_options=raw)
    stored = bson.encode({"_id": 1, "text": "A?"}).replace(b"A?", b"\xff?")
    with texts.watch() as stream:
        texts.insert_one(RawBSONDocument(stored))
        assert stored in events(stream, 1)[0].raw
    watched.drop_database("changes_of_text")


@pytest.mark.parametrize(("killed", "code"), [("operation", 11601), ("cursor", 237)])
def test_a_get_more_that_waits_for_an_event_ends_with_its_operation(durable, killed, code):
    """Nobody who waits for an event is looked at often: whoever ends the wait wakes it."""
    with MongoClient(durable.uri) as client:
        ended = []
        session = client.start_session()
        opened = client.test.command("aggregate", "quiet", pipeline=[{"$changeStream": {}}], cursor={}, session=session)

        def wait():
            begun = time.monotonic()
            try:
                more = {"collection": "quiet", "maxTimeMS": LONG_SECONDS * 1000}
                client.test.command("getMore", opened["cursor"]["id"], **more, session=session)
            except OperationFailure as error:
                ended.append((time.monotonic() - begun, error.code))

        def waiting():
            operations = client.admin.aggregate([{"$currentOp": {}}, {"$match": {"command.getMore": {"$exists": True}}}])
            return [operation["opid"] for operation in operations]

        thread = threading.Thread(target=wait)
        thread.start()
        deadline = time.monotonic() + LONG_SECONDS
        while not waiting():
            assert time.monotonic() < deadline
        if killed == "operation":
            client.admin.command("killOp", op=waiting()[0])
        else:
            ids = [opened["cursor"]["id"]]
            assert client.test.command("killCursors", "quiet", cursors=ids)["cursorsKilled"] == ids
        thread.join(LONG_SECONDS)
        assert len(ended) == 1 and ended[0][0] < LONG_SECONDS / 2 and ended[0][1] == code, ended


def test_the_example_of_the_documentation_works(watched):
    page = (pathlib.Path(__file__).parents[2] / "docs/change-streams.md").read_text(encoding="utf-8")
    example = page.split("```python\n")[1].split("```")[0]
    address, port = watched.address
    exec(compile(example, "docs/change-streams.md", "exec"), {"uri": f"mongodb://{address}:{port}/"})
