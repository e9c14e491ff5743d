"""What a server holds when it has nothing to do: idle connections, open cursors and what is over cost little of its memory.

Every test makes the server hold much, ends that, and waits until its memory is back: what is kept by a connection,
by a cursor or by the allocator is the same to whoever pays for the machine.
"""

import functools
import itertools
import os
import struct
import threading
import time

import bson
import pytest
from pymongo.compression_support import ZstdContext

from quarry_process import Quarry
from wire_client import HEADER, OP_MSG, WireClient

# What these tests look at does not depend on the engine: the first one named does.
ENGINE = os.environ.get("QUARRY_ENGINES", "rocksdb").split(",")[0]
MIB = 1 << 20
OP_COMPRESSED = 2012
ZSTD = 3
# Of a request, unpacked, and of a document: next to what the protocol allows.
UNPACKED_BYTES = 47_000_000
LARGE_BYTES = 15_000_000
CONNECTIONS = 50
# Of one idle connection, its thread's stack and the kernel's part aside.
IDLE_BYTES_MAX = 64 << 10
# It holds no more when it has sent no request for a tenth of a second, and is asked for that until it is so.
IDLE_SECONDS_MAX = 0.1 + 0.05
# A processor that is shared is late now and then; a server that keeps what it has is late each time.
ATTEMPTS_MAX = 8
# Enough that what a connection costs stands out of the noise, and fewer than a process may have open files.
PARKED = 900
# As the server promises, all that the process holds for it included.
PARKED_BYTES_MAX = 24 << 10
# What comes and goes with the engine's and the allocator's own work.
NOISE_BYTES = 24 * MIB
CURSORS = 10_000
CURSOR_BYTES_MAX = 4 << 10
SESSIONS = 100_000
# Of a session that has only been used, and of what one holds besides that has written retryably, the engine's part of its record included.
SESSION_BYTES_MAX = 256
SESSION_RECORD_BYTES_MAX = 1 << 10
# An allocator gives back what has been free for some seconds.
PATIENCE_SECONDS = 40


@pytest.fixture
def quarry(tmp_path):
    quarry = Quarry(tmp_path / "data", ENGINE).start()
    yield quarry
    alive = quarry.running()
    code = quarry.stop() if alive else quarry.process.returncode
    assert (alive, code) == (True, 0), quarry.tail()


def comes_back(quarry, before, allowed):
    """Waits until no more than `allowed` is held beyond `before`."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (held := quarry.own_bytes() - before) > allowed:
        assert time.monotonic() < deadline, f"{held / MIB:.0f} MiB are still held, {allowed / MIB:.0f} are allowed"
        time.sleep(0.05)


def in_sessions(connection, command, database):
    """Sends the command once in each of many sessions, always the same ones, and checks that each is answered with ok."""
    placeholder = bytes(range(1, 17))
    lsid = {"id": bson.Binary(placeholder, 4)}
    body = bson.encode({**command, "lsid": lsid, "$db": database})
    message = HEADER.pack(HEADER.size + 5 + len(body), 1, 0, OP_MSG) + b"\0\0\0\0\0" + body
    head, tail = message.split(placeholder)
    pipelined = 500
    for first in range(0, SESSIONS, pipelined):
        numbers = range(first, first + pipelined)
        connection.socket.sendall(b"".join(head + number.to_bytes(16, "big") + tail for number in numbers))
        for _ in numbers:
            reply = connection.receive()
            assert reply["ok"] == 1 and "writeErrors" not in reply, reply


def test_a_session_costs_little(quarry):
    """The figures of docs/transactions.md: `pytest -s tests/drivers/test_memory.py -k session`."""
    update = {"update": "things", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]}
    with WireClient(quarry.port) as connection:
        connection.run({"insert": "things", "documents": [{"_id": 1, "n": 0}]})
        before = quarry.own_bytes()
        in_sessions(connection, {"ping": 1}, "admin")
        fresh = quarry.own_bytes()
        # What the engine and the journal take for the writes themselves is there before the sessions write retryably.
        in_sessions(connection, update, "test")
        plain = quarry.own_bytes()
        in_sessions(connection, {**update, "txnNumber": bson.Int64(1)}, "test")
        written = quarry.own_bytes()
        status = connection.run({"serverStatus": 1}, "admin")
        assert status["logicalSessionRecordCache"]["activeSessionsCount"] >= SESSIONS
        assert connection.run({"find": "things"})["cursor"]["firstBatch"] == [{"_id": 1, "n": 2 * SESSIONS}]
    of_session, of_record = (fresh - before) / SESSIONS, (written - plain) / SESSIONS
    print(f"\n{SESSIONS} sessions: {of_session:.0f} bytes each, fresh; {of_record:.0f} more with the record of a retryable write")
    print(f"resident: {' -> '.join(f'{one / MIB:.1f}' for one in (before, fresh, plain, written))} MiB")
    assert of_session <= SESSION_BYTES_MAX and of_record <= SESSION_RECORD_BYTES_MAX


def test_a_parked_connection_costs_next_to_nothing(quarry):
    """Each has inserted, changed and found something, as a connection of a driver's pool has."""
    def work(connection, number):
        connection.run({"insert": "things", "documents": [{"_id": number}]})
        connection.run({"update": "things", "updates": [{"q": {"_id": number}, "u": {"$set": {"a": "x" * 100}}}]})
        connection.run({"find": "things", "filter": {"_id": number}})

    with WireClient(quarry.port) as watcher:
        work(watcher, -1)
        wait_parked(watcher, 0)
        before = quarry.own_bytes()
        connections = [WireClient(quarry.port) for _ in range(PARKED)]
        try:
            for number, connection in enumerate(connections):
                work(connection, number)
            wait_parked(watcher, PARKED)
            comes_back(quarry, before, PARKED * PARKED_BYTES_MAX + NOISE_BYTES)
            assert watcher.run({"serverStatus": 1})["connections"]["threaded"] == 1
            for number, connection in enumerate(connections):
                assert connection.run({"find": "things", "filter": {"_id": number}})["cursor"]["firstBatch"][0]["a"]
        finally:
            for connection in connections:
                connection.close()


def wait_parked(watcher, count):
    """Waits until so many connections are parked beside the one that asks."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (parked := watcher.run({"serverStatus": 1})["connections"]["parked"]) != count:
        assert time.monotonic() < deadline, f"{parked} of {count}"
        time.sleep(0.05)


def large_request(connection):
    connection.run({"ping": 1, "comment": "x" * LARGE_BYTES})


def large_reply(connection):
    connection.run({"find": "large", "filter": {}})


def large_when_unpacked(connection):
    connection.socket.sendall(packed_request())
    connection.receive_message()


@functools.cache
def packed_request():
    """Some KB that unpack to nearly the largest message that there is."""
    message = b"\0\0\0\0\0" + bson.encode({"ping": 1, "comment": ["x" * LARGE_BYTES] * (UNPACKED_BYTES // LARGE_BYTES), "$db": "test"})
    packed = ZstdContext.compress(message)
    length = HEADER.size + 9 + len(packed)
    return HEADER.pack(length, 1, 0, OP_COMPRESSED) + struct.pack("<iiB", OP_MSG, len(message), ZSTD) + packed


def counted_bytes(watcher):
    """What the server counts for all connections together."""
    shares = watcher.run({"serverStatus": 1})["quarry"]["memory"]["shares"]
    return shares["requests"] + shares["replies"] + shares["connectionBuffers"]


def seconds_until_idle(watcher, connections):
    begun = time.monotonic()
    while (held := counted_bytes(watcher)) > connections * IDLE_BYTES_MAX:
        assert time.monotonic() < begun + PATIENCE_SECONDS, held
        time.sleep(0.002)
    return time.monotonic() - begun


def test_an_idle_connection_gives_its_memory_back(quarry):
    connections = [WireClient(quarry.port) for _ in range(CONNECTIONS)]
    watcher = WireClient(quarry.port)
    try:
        connections[0].run({"insert": "large", "documents": [{"_id": 1, "s": "x" * LARGE_BYTES}]})
        for connection in connections:
            connection.run({"ping": 1})
        kinds = [large_request, large_reply, large_when_unpacked]
        for large in kinds:
            large(connections[0])
        before = quarry.own_bytes()
        for connection, large in itertools.product(connections, kinds):
            large(connection)
        for large in kinds:
            seconds = []
            while not seconds or (seconds[-1] > IDLE_SECONDS_MAX and len(seconds) < ATTEMPTS_MAX):
                large(connections[len(seconds)])
                seconds.append(seconds_until_idle(watcher, CONNECTIONS + 1))
            print(f"{large.__name__}: {seconds[-1] * 1000:.0f} ms, then {counted_bytes(watcher) / (CONNECTIONS + 1):.0f} bytes each")
            assert seconds[-1] <= IDLE_SECONDS_MAX, (large.__name__, seconds)
        comes_back(quarry, before, CONNECTIONS * IDLE_BYTES_MAX + NOISE_BYTES)
        print(f"resident: {before / MIB:.1f} -> {quarry.own_bytes() / MIB:.1f} MiB")
        for connection in connections:
            connection.run({"ping": 1})
    finally:
        for connection in [*connections, watcher]:
            connection.close()


def test_memory_comes_back_after_sorts(quarry):
    with WireClient(quarry.port) as connection:
        connection.run({"insert": "one", "documents": [{"_id": 1, "s": "x" * 1000}]})
    before = quarry.own_bytes()
    sort = {"aggregate": "one", "cursor": {}, "pipeline": [
        {"$project": {"s": 1, "n": {"$range": [0, 60_000]}}}, {"$unwind": "$n"}, {"$sort": {"n": -1}}, {"$skip": 59_999}]}
    workers = [threading.Thread(target=run_once, args=(quarry.port, sort)) for _ in range(8)]
    for worker in workers:
        worker.start()
    peak = before
    while any(worker.is_alive() for worker in workers):
        peak = max(peak, quarry.own_bytes())
        time.sleep(0.01)
    assert peak - before > 200 * MIB, "the sorts held less than this test is about"
    comes_back(quarry, before, NOISE_BYTES)


def run_once(port, command):
    with WireClient(port) as connection:
        reply = connection.run(command)
        assert [one["n"] for one in reply["cursor"]["firstBatch"]] == [0]


def test_an_open_cursor_costs_little(quarry):
    with WireClient(quarry.port) as connection:
        connection.run({"insert": "things", "documents": [{"_id": n, "s": "x" * 200} for n in range(1000)]})
        find = {"find": "things", "filter": {}, "batchSize": 2}
        # The first ones take what the engine and the allocator take once.
        cursors = [connection.run(find)["cursor"]["id"] for _ in range(CURSORS)]
        before = quarry.own_bytes()
        cursors += [connection.run(find)["cursor"]["id"] for _ in range(CURSORS)]
        held = quarry.own_bytes() - before
        assert held < CURSORS * CURSOR_BYTES_MAX, f"{held / CURSORS:.0f} bytes a cursor"
        more = connection.run({"getMore": cursors[0], "collection": "things", "batchSize": 2})
        assert [one["_id"] for one in more["cursor"]["nextBatch"]] == [2, 3]
        for start in range(0, len(cursors), 1000):
            connection.run({"killCursors": "things", "cursors": cursors[start : start + 1000]})