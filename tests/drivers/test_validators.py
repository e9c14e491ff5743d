"""Validators of collections: what they refuse, with which details, what goes past them, and how they are changed and shown."""

import pytest
from pymongo import InsertOne, UpdateOne
from pymongo.errors import BulkWriteError, OperationFailure, WriteError

SCHEMA = {"$jsonSchema": {"required": ["name"], "properties": {"age": {"bsonType": "int", "minimum": 0, "description": "years"}}}}
AGE_FAILURE = {
    "operatorName": "$jsonSchema",
    "schemaRulesNotSatisfied": [{
        "operatorName": "properties",
        "propertiesNotSatisfied": [{
            "propertyName": "age", "description": "years",
            "details": [{"operatorName": "minimum", "specifiedAs": {"minimum": 0}, "reason": "comparison failed", "consideredValue": -1}],
        }],
    }],
}


@pytest.fixture
def people(database):
    return database.create_collection("people", validator=SCHEMA)


def refusal(work, kind=WriteError):
    with pytest.raises(kind) as raised:
        work()
    assert raised.value.code == 121, raised.value
    return raised.value.details


def test_an_insert_is_refused_with_the_details(people):
    details = refusal(lambda: people.insert_one({"_id": 1, "name": "a", "age": -1}))
    assert details["errmsg"] == "Document failed validation"
    assert details["errInfo"] == {"failingDocumentId": 1, "details": AGE_FAILURE}
    with pytest.raises(BulkWriteError) as raised:
        people.insert_many([{"_id": 2, "name": "b"}, {"_id": 3}, {"_id": 4, "name": "d"}])
    assert raised.value.details["nInserted"] == 1
    [error] = raised.value.details["writeErrors"]
    assert (error["index"], error["code"], error["errInfo"]["failingDocumentId"]) == (1, 121, 3)
    with pytest.raises(BulkWriteError) as raised:
        people.insert_many([{"_id": 5}, {"_id": 6, "name": "f"}, {"_id": 7}], ordered=False)
    assert [error["index"] for error in raised.value.details["writeErrors"]] == [0, 2]
    assert sorted(document["_id"] for document in people.find()) == [2, 6]


def test_every_command_that_writes_asks_the_validator(people, client):
    people.insert_one({"_id": 1, "name": "a", "age": 1})
    refusal(lambda: people.update_one({"_id": 1}, {"$set": {"age": -1}}))
    refusal(lambda: people.update_many({}, [{"$set": {"age": "x"}}]))
    refusal(lambda: people.replace_one({"_id": 1}, {"age": 3}))
    refusal(lambda: people.update_one({"_id": 2}, {"$set": {"age": 3}}, upsert=True))
    details = refusal(lambda: people.find_one_and_update({"_id": 1}, {"$unset": {"name": 1}}), OperationFailure)
    assert details["errInfo"]["failingDocumentId"] == 1 and details["codeName"] == "DocumentValidationFailure"
    with pytest.raises(BulkWriteError) as raised:
        people.bulk_write([UpdateOne({"_id": 1}, {"$inc": {"age": 1}}), InsertOne({"_id": 3})])
    assert raised.value.details["writeErrors"][0]["errInfo"]["failingDocumentId"] == 3
    reply = client.admin.command("bulkWrite", 1, ops=[{"insert": 0, "document": {"_id": 4}}], nsInfo=[{"ns": people.full_name}])
    [item] = reply["cursor"]["firstBatch"]
    assert (item["code"], item["errInfo"]["failingDocumentId"]) == (121, 4)
    source = people.database["source"]
    source.insert_one({"_id": 5})
    for stage in ({"$merge": "people"}, {"$out": "people"}):
        refusal(lambda stage=stage: source.aggregate([stage]), OperationFailure)
    assert list(people.find()) == [{"_id": 1, "name": "a", "age": 2}]


def test_a_command_can_pass_by_the_validator(people, client):
    people.insert_one({"_id": 1}, bypass_document_validation=True)
    people.update_one({"_id": 1}, {"$set": {"age": "x"}}, bypass_document_validation=True)
    people.find_one_and_update({"_id": 1}, {"$set": {"b": 1}}, bypassDocumentValidation=True)
    people.bulk_write([InsertOne({"_id": 2})], bypass_document_validation=True)
    operations = [{"insert": 0, "document": {"_id": 3}}]
    client.admin.command("bulkWrite", 1, ops=operations, nsInfo=[{"ns": people.full_name}], bypassDocumentValidation=True)
    source = people.database["source"]
    source.insert_one({"_id": 4})
    source.aggregate([{"$merge": "people"}], bypassDocumentValidation=True)
    assert sorted(document["_id"] for document in people.find()) == [1, 2, 3, 4]
    report = people.database.command("validate", "people")
    assert (report["valid"], report["nNonCompliantDocuments"], len(report["warnings"])) == (True, 4, 1)
    source.aggregate([{"$out": "people"}], bypassDocumentValidation=True)
    refusal(lambda: people.insert_one({"_id": 5}))
    people.drop()


def test_a_moderate_validator_leaves_alone_what_did_not_suit_before(database):
    things = database["things"]
    things.insert_many([{"_id": 1, "a": "x"}, {"_id": 2, "a": 1}])
    database.command("collMod", "things", validator={"a": {"$type": "number"}}, validationLevel="moderate")
    things.update_one({"_id": 1}, {"$set": {"a": "y"}})
    details = refusal(lambda: things.update_one({"_id": 2}, {"$set": {"a": "y"}}))
    assert details["errInfo"]["details"] == {
        "operatorName": "$type", "specifiedAs": {"a": {"$type": "number"}}, "reason": "type did not match",
        "consideredValue": "y", "consideredType": "string",
    }
    refusal(lambda: things.insert_one({"_id": 3, "a": "x"}))
    database.command("collMod", "things", validationLevel="strict")
    refusal(lambda: things.update_one({"_id": 1}, {"$set": {"b": 1}}))
    database.command("collMod", "things", validationLevel="off")
    things.insert_one({"_id": 3, "a": "x"})
    database.command("collMod", "things", validationLevel="strict", validationAction="warn")
    things.insert_one({"_id": 4, "a": "x"})
    warned = [line for line in database.client.admin.command("getLog", "global")["log"] if "would fail validation" in line]
    assert len(warned) == 1 and things.full_name in warned[0]
    database.command("collMod", "things", validator={})
    assert "validator" not in next(database.list_collections(filter={"name": "things"}))["options"]
    things.insert_one({"_id": 5, "a": "x"})


def test_a_validator_is_shown_as_it_was_given(database):
    database.create_collection("c", validator=SCHEMA, validationLevel="moderate", validationAction="warn")
    options = next(database.list_collections(filter={"name": "c"}))["options"]
    assert options == {"validator": SCHEMA, "validationLevel": "moderate", "validationAction": "warn"}
    database.command("collMod", "c", validationAction="error")
    options = next(database.list_collections(filter={"name": "c"}))["options"]
    assert (options["validator"], options["validationAction"]) == (SCHEMA, "error")


@pytest.mark.parametrize(("options", "code"), [
    ({"validator": {"$jsonSchema": {"type": "integer"}}}, 9),
    ({"validator": {"a": {"$nothing": 1}}}, 2),
    ({"validator": 1}, 14),
    ({"validationLevel": "some"}, 2),
    ({"validationAction": "shout"}, 2),
    ({"validator": {"a": 1}, "viewOn": "other"}, 72),
])
def test_a_validator_that_cannot_be_is_refused(database, options, code):
    with pytest.raises(OperationFailure) as raised:
        database.command("create", "c", **options)
    assert raised.value.code == code, raised.value
    assert database.list_collection_names() == []


def test_there_is_no_validator_in_the_databases_of_the_server(client):
    for database in ("admin", "config", "local"):
        with pytest.raises(OperationFailure) as raised:
            client[database].command("create", "c", validator={"a": 1})
        assert raised.value.code == 72


def test_a_filter_takes_a_schema(collection):
    collection.insert_many([{"_id": 1, "a": 1}, {"_id": 2, "a": "x"}])
    assert [found["_id"] for found in collection.find({"$jsonSchema": {"properties": {"a": {"type": "string"}}}})] == [2]
    assert [found["_id"] for found in collection.aggregate([{"$match": {"_id": 1, "$jsonSchema": {"required": ["a"]}}}])] == [1]
