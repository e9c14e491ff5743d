"""Tailable cursors over capped collections: every document once and in order, or the news that some are gone."""

import threading

import pytest
from bson import Int64

from wire_client import CommandFailed, WireClient

CAPPED_POSITION_LOST = 136
CURSOR_NOT_FOUND = 43
KEPT = 50
WRITERS = 4
A_WRITER = 300


@pytest.fixture
def capped(database):
    return database.create_collection("capped", capped=True, size=1 << 20, max=KEPT)


@pytest.fixture
def tail(server, capped):
    """Opens tailable cursors over the collection, on a connection of their own and without sessions."""
    with WireClient(server.port) as connection:
        yield lambda batch_size=100, **options: Tail(connection, capped, batch_size, options)


class Tail:
    """A tailable cursor; `first` holds the `_id`s of its first batch."""

    def __init__(self, connection, capped, batch_size, options):
        self.connection, self.collection, self.database = connection, capped.name, capped.database.name
        command = {"find": self.collection, "tailable": True, "batchSize": batch_size, **options}
        cursor = connection.run(command, self.database)["cursor"]
        self.id = cursor["id"]
        self.first = ids(cursor["firstBatch"])

    def more(self, **options):
        command = {"getMore": Int64(self.id), "collection": self.collection, **options}
        return ids(self.connection.run(command, self.database)["cursor"]["nextBatch"])

    def code(self):
        """Of the error that the next getMore ends in."""
        with pytest.raises(CommandFailed) as failed:
            self.more()
        return failed.value.code


def ids(batch):
    return [document["_id"] for document in batch]


@pytest.mark.parametrize("left", [2, 0])
def test_a_tailable_cursor_whose_document_was_deleted_is_told(capped, tail, left):
    """Nothing that comes later may take the place where it stands, or it would be missed in silence."""
    capped.insert_many([{"_id": n} for n in range(3)])
    cursor = tail()
    assert cursor.first == [0, 1, 2]
    capped.delete_many({"_id": {"$gte": left}})
    capped.insert_one({"_id": 3})
    assert cursor.code() == CAPPED_POSITION_LOST
    assert cursor.code() == CURSOR_NOT_FOUND


def test_a_tailable_cursor_passes_over_what_was_deleted_before_it_came(capped, tail):
    capped.insert_many([{"_id": n} for n in range(3)])
    cursor = tail()
    for number in range(3, 9, 2):
        capped.insert_one({"_id": number})
        capped.delete_one({"_id": number})
        capped.insert_one({"_id": number + 1})
        assert cursor.more() == [number + 1]


def test_a_tailable_cursor_that_was_overrun_is_told(capped, tail):
    capped.insert_many([{"_id": n} for n in range(10)])
    cursor = tail(batch_size=4)
    assert cursor.first == [0, 1, 2, 3]
    capped.insert_many([{"_id": n} for n in range(10, 200)])
    assert cursor.code() == CAPPED_POSITION_LOST
    assert cursor.code() == CURSOR_NOT_FOUND


def test_a_tailable_cursor_at_the_end_is_overrun_too(capped, tail):
    capped.insert_many([{"_id": n} for n in range(10)])
    cursor = tail()
    assert cursor.first == list(range(10)) and cursor.more() == []
    capped.insert_many([{"_id": n} for n in range(10, 200)])
    assert cursor.code() == CAPPED_POSITION_LOST


def test_an_awaiting_cursor_is_woken_by_each_insert(capped, tail):
    capped.insert_one({"_id": 0})
    cursor = tail(awaitData=True)
    for number in range(1, 20):
        threading.Thread(target=capped.insert_one, args=({"_id": number},)).start()
        assert cursor.more(maxTimeMS=20_000) == [number]


def test_readers_beside_writers_and_trimming_see_all_in_order_or_are_told(capped, tail):
    """Each writer's numbers rise, and trimming never takes a document in silence from under a cursor."""
    capped.insert_one({"_id": -1})
    cursor = tail()
    seen = cursor.first
    writers = [threading.Thread(target=write, args=(capped, number)) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        while any(writer.is_alive() for writer in writers):
            seen += cursor.more()
        while more := cursor.more():
            seen += more
        assert sorted(seen) == [-1, *range(WRITERS * A_WRITER)]
    except CommandFailed as lost:
        assert lost.code == CAPPED_POSITION_LOST, lost
    finally:
        for writer in writers:
            writer.join()
    for number in range(WRITERS):
        of_writer = [one for one in seen if one // A_WRITER == number]
        assert of_writer == list(range(number * A_WRITER, number * A_WRITER + len(of_writer)))
    assert capped.count_documents({}) == capped.estimated_document_count() == KEPT


def write(capped, number):
    for offset in range(A_WRITER):
        capped.insert_one({"_id": number * A_WRITER + offset})


def test_the_time_of_a_find_does_not_end_the_waits_of_its_cursor(capped, server):
    capped.insert_one({"_id": 1})
    with WireClient(server.port) as connection:
        find = {"find": capped.name, "tailable": True, "awaitData": True, "maxTimeMS": 300}
        cursor = connection.run(find, capped.database.name)["cursor"]
        more = {"getMore": Int64(cursor["id"]), "collection": capped.name}
        # It waits for a second, as long as its find may have taken thrice.
        assert connection.run(more, capped.database.name)["cursor"]["nextBatch"] == []
