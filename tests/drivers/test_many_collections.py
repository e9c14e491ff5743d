"""Collections cost a few keys: a smoke of what `make bench-collections` measures with 100,000 of them."""

import time

from pymongo import MongoClient

COUNT = 1000


def test_many_collections_do_not_slow_a_start(durable):
    with MongoClient(durable.uri) as client:
        many = client.many
        for number in range(COUNT):
            name = f"c{number:05}"
            many.command("createIndexes", name, indexes=[
                {"key": {"a": 1}, "name": "a_1"}, {"key": {"b": 1, "c": -1}, "name": "b_1_c_-1"},
            ])
            many[name].insert_one({"_id": 1, "a": number})
    assert durable.stop() == 0, durable.tail()
    started = time.monotonic()
    durable.start()
    with MongoClient(durable.uri) as client:
        assert client.many[f"c{COUNT // 2:05}"].find_one({"a": COUNT // 2}) == {"_id": 1, "a": COUNT // 2}
        assert time.monotonic() - started < 3, "a start must not walk the collections"
        assert len(client.many.list_collection_names()) == COUNT
