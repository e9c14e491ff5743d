"""Collections that are made with a clusteredIndex, which is what every collection but a capped one is here."""

import pytest
from pymongo.errors import OperationFailure

CLUSTERED = {"key": {"_id": 1}, "unique": True}


def test_a_clustered_index_is_shown(database):
    things = database.create_collection("things", clusteredIndex=CLUSTERED)
    [entry] = database.list_collections(filter={"name": "things"})
    assert entry["options"] == {"clusteredIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_", "unique": True}}
    assert "idIndex" not in entry
    things.create_index("a")
    listed = [dict(index) for index in things.list_indexes()]
    assert listed == [
        {"v": 2, "key": {"_id": 1}, "name": "_id_", "unique": True, "clustered": True},
        {"v": 2, "key": {"a": 1}, "name": "a_1"},
    ]
    things.insert_many([{"_id": number} for number in (3, 1, 2)])
    assert [thing["_id"] for thing in things.find()] == [1, 2, 3]
    assert [thing["_id"] for thing in things.find().hint([("_id", 1)])] == [1, 2, 3]
    # Made again as it is.
    database.command("create", "things", clusteredIndex=CLUSTERED)


def test_a_clustered_index_has_the_name_that_it_was_given(database):
    things = database.create_collection("things", clusteredIndex=CLUSTERED | {"name": "by number"})
    [entry] = database.list_collections(filter={"name": "things"})
    assert entry["options"] == {"clusteredIndex": {"v": 2, "key": {"_id": 1}, "name": "by number", "unique": True}}
    listed = [dict(index) for index in things.list_indexes()]
    assert listed == [{"v": 2, "key": {"_id": 1}, "name": "by number", "unique": True, "clustered": True}]
    things.insert_many([{"_id": number} for number in (3, 1, 2)])
    found = things.find({"_id": {"$gt": 1}})
    assert [thing["_id"] for thing in found.hint("by number")] == [2, 3]
    assert list(database.command("collStats", "things")["indexSizes"]) == ["by number"]
    assert list(database.command("validate", "things")["keysPerIndex"]) == ["by number"]
    with pytest.raises(OperationFailure) as raised:
        things.insert_one({"_id": 1})
    assert raised.value.code == 11000 and "index: by number " in str(raised.value), raised.value
    for change, code in [
        (lambda: things.drop_index("by number"), 72),
        (lambda: things.create_index("a", name="by number"), 86),
        (lambda: things.find().hint("_id_").to_list(), 2),
        (lambda: things.drop_index("_id_"), 27),
    ]:
        with pytest.raises(OperationFailure) as raised:
            change()
        assert raised.value.code == code, raised.value
    things.create_index("_id")
    # Made again as it is, and not by another name.
    database.command("create", "things", clusteredIndex=CLUSTERED | {"name": "by number"})
    with pytest.raises(OperationFailure) as raised:
        database.command("create", "things", clusteredIndex=CLUSTERED)
    assert raised.value.code == 48, raised.value


@pytest.mark.parametrize(("options", "code"), [
    ({"clusteredIndex": {"key": {"a": 1}, "unique": True}}, 197),
    ({"clusteredIndex": {"key": {"_id": 1}}}, 5979700),
    ({"clusteredIndex": {"key": {"_id": 1}, "unique": False}}, 5979700),
    ({"clusteredIndex": {"unique": True}}, 40414),
    ({"clusteredIndex": {"key": {"_id": 1}, "unique": True, "x": 1}}, 40415),
    ({"clusteredIndex": {"key": {"_id": 1}, "unique": True, "name": ""}}, 67),
    ({"clusteredIndex": {"key": {"_id": 1}, "unique": True, "name": "*"}}, 2),
    ({"clusteredIndex": CLUSTERED, "capped": True, "size": 4096}, 72),
    ({"clusteredIndex": CLUSTERED, "idIndex": {"key": {"_id": 1}, "name": "_id_"}}, 72),
    ({"clusteredIndex": CLUSTERED, "viewOn": "other"}, 72),
    ({"clusteredIndex": CLUSTERED, "expireAfterSeconds": -1}, 72),
])
def test_a_clustered_index_that_cannot_be_is_refused(database, options, code):
    with pytest.raises(OperationFailure) as raised:
        database.command("create", "things", **options)
    assert raised.value.code == code, raised.value
