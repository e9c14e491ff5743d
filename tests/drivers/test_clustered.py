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


@pytest.mark.parametrize(("options", "code"), [
    ({"clusteredIndex": {"key": {"a": 1}, "unique": True}}, 197),
    ({"clusteredIndex": {"key": {"_id": 1}}}, 5979700),
    ({"clusteredIndex": {"key": {"_id": 1}, "unique": False}}, 5979700),
    ({"clusteredIndex": {"unique": True}}, 40414),
    ({"clusteredIndex": {"key": {"_id": 1}, "unique": True, "x": 1}}, 40415),
    ({"clusteredIndex": {"key": {"_id": 1}, "unique": True, "name": "other"}}, 238),
    ({"clusteredIndex": CLUSTERED, "capped": True, "size": 4096}, 72),
    ({"clusteredIndex": CLUSTERED, "idIndex": {"key": {"_id": 1}, "name": "_id_"}}, 72),
    ({"clusteredIndex": CLUSTERED, "viewOn": "other"}, 72),
    ({"clusteredIndex": CLUSTERED, "expireAfterSeconds": -1}, 72),
])
def test_a_clustered_index_that_cannot_be_is_refused(database, options, code):
    with pytest.raises(OperationFailure) as raised:
        database.command("create", "things", **options)
    assert raised.value.code == code, raised.value
