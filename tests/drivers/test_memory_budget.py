"""Many clients that each stay within their own bounds, and together want more than there is: the server gives what its
budget has, refuses the rest by name, and goes on serving those who want little.

How much is served meanwhile depends on the machine, and no test asks for a number of it.
"""

import concurrent.futures
import contextlib
import itertools
import os
import select
import socket
import struct
import threading
import time

import pytest

from conftest import ENGINES
from quarry_process import Quarry
from wire_client import OP_MSG, CommandFailed, WireClient

# What is looked at here does not depend on the engine: the first one named does.
ENGINE = os.environ.get("QUARRY_ENGINES", "rocksdb").split(",")[0]
MIB = 1 << 20
BUDGET_MIB = 256
# What a thread may hold without asking, what is held twice for a moment while a buffer grows, and what the allocator gives back late.
SLACK = 2
THREAD_BYTES = 2 * MIB
EXCEEDED_MEMORY_LIMIT = 146
DUPLICATE_KEY = 11000
PATIENCE_SECONDS = 240
LARGE_BYTES = 15 * MIB
# A budget beside which what threads hold without asking is little: the server keeps to it, whatever is measured.
ROOMY_MIB = 1024
# What nobody counts of the memory that a server holds.
UNACCOUNTED_SHARE = 0.1
# An operation that has failed has let go of all that it held long before.
SETTLED_SECONDS = 5


@pytest.fixture
def quarry(tmp_path):
    yield from serve(tmp_path, BUDGET_MIB)


@pytest.fixture
def roomy(tmp_path):
    yield from serve(tmp_path, ROOMY_MIB)


def serve(tmp_path, budget_mib):
    quarry = Quarry(tmp_path / "data", ENGINE, ["--setParameter", f"memoryBudgetMB={budget_mib}"]).start()
    with client(quarry) as connection:
        connection.run({"insert": "one", "documents": [{"_id": 1, "s": "x" * 1000}]})
        connection.run({"insert": "large", "documents": [{"_id": 1, "s": "x" * LARGE_BYTES}]})
    yield quarry
    alive = quarry.running()
    code = quarry.stop() if alive else quarry.process.returncode
    assert (alive, code) == (True, 0), quarry.tail()


def client(quarry):
    return WireClient(quarry.port, timeout_seconds=PATIENCE_SECONDS)


def memory(connection):
    return connection.run({"serverStatus": 1})["quarry"]["memory"]


@contextlib.contextmanager
def within_budget(quarry, clients, budget_mib=None):
    """Watches what the server holds while the block runs, and serves somebody honest beside it. With a budget that is held to the byte."""
    peak = before = quarry.own_bytes()
    is_over = threading.Event()
    failures = []

    def watch():
        nonlocal peak
        while not is_over.is_set():
            peak = max(peak, quarry.own_bytes())
            time.sleep(0.005)

    def be_honest():
        try:
            with client(quarry) as connection:
                number = 0
                while number == 0 or not is_over.is_set():
                    connection.run({"insert": "honest", "documents": [{"_id": f"{clients} {number}"}]})
                    found = connection.run({"find": "honest", "filter": {"_id": f"{clients} {number}"}})
                    assert len(found["cursor"]["firstBatch"]) == 1
                    number += 1
        except Exception as failure:
            failures.append(failure)

    beside = [threading.Thread(target=watch), threading.Thread(target=be_honest)]
    for thread in beside:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in beside:
            thread.join()
    assert not failures, failures
    if budget_mib:
        assert peak <= budget_mib * MIB, f"{peak / MIB:.0f} MiB were held, of {budget_mib}"
        return
    allowed = SLACK * BUDGET_MIB * MIB + clients * THREAD_BYTES
    assert peak - before < allowed, f"{(peak - before) / MIB:.0f} MiB were held, {allowed / MIB:.0f} are allowed"


def run_at_once(quarry, commands):
    """The outcome of each command, all on connections of their own: None, or the code of its error."""
    outcomes = [ConnectionError] * len(commands)
    begin = threading.Barrier(len(commands))

    def run(number, command):
        with client(quarry) as connection:
            begin.wait()
            try:
                connection.run(command)
                outcomes[number] = None
            except CommandFailed as failure:
                outcomes[number] = failure.code
            except ConnectionError:
                pass

    threads = [threading.Thread(target=run, args=one) for one in enumerate(commands)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def all_is_given_back(quarry):
    deadline = time.monotonic() + PATIENCE_SECONDS
    with client(quarry) as connection:
        while any(shown := [memory(connection)["shares"][share] for share in ("requests", "operations", "replies")]):
            assert time.monotonic() < deadline, shown
            time.sleep(0.05)


SORT = {"aggregate": "one", "cursor": {}, "pipeline": [
    {"$project": {"s": 1, "n": {"$range": [0, 40_000]}}}, {"$unwind": "$n"}, {"$sort": {"n": -1}}, {"$skip": 39_999}]}


def test_many_sorts(quarry):
    with within_budget(quarry, 50):
        outcomes = run_at_once(quarry, [SORT] * 50)
    assert set(outcomes) <= {None, EXCEEDED_MEMORY_LIMIT}, outcomes
    all_is_given_back(quarry)
    # Who was refused comes again when others are through.
    with client(quarry) as connection:
        assert [one["n"] for one in connection.run(SORT)["cursor"]["firstBatch"]] == [0]
        assert memory(connection)["refused"] == outcomes.count(EXCEEDED_MEMORY_LIMIT)


def test_many_sorts_within_all_that_the_server_may_hold(roomy):
    with within_budget(roomy, 50, ROOMY_MIB):
        for _ in range(2):
            outcomes = run_at_once(roomy, [SORT] * 50)
            assert set(outcomes) <= {None, EXCEEDED_MEMORY_LIMIT}, outcomes
    all_is_given_back(roomy)


def test_untaken_answers_within_all_that_the_server_may_hold(roomy):
    with contextlib.ExitStack() as stack, within_budget(roomy, 150, ROOMY_MIB):
        clients = [stack.enter_context(client(roomy)) for _ in range(150)]
        for one in clients:
            one.send({"find": "large"})
        for one in clients:
            assert select.select([one.socket], [], [], PATIENCE_SECONDS)[0]
        # Whoever is refused holds nothing, and what is held is counted by what it is held for.
        with client(roomy) as connection:
            deadline = time.monotonic() + SETTLED_SECONDS
            while (unaccounted := unaccounted_share(connection, roomy)) > UNACCOUNTED_SHARE:
                assert time.monotonic() < deadline, (unaccounted, memory(connection))
                time.sleep(0.05)
    all_is_given_back(roomy)


def unaccounted_share(connection, quarry):
    """The share of the server's memory that it does not know the use of."""
    counted = memory(connection)["sumBytes"]
    own = quarry.own_bytes()
    return abs(own - counted) / own


def test_many_clients_that_do_not_take_their_answers(quarry):
    with contextlib.ExitStack() as stack, within_budget(quarry, 150):
        clients = [stack.enter_context(client(quarry)) for _ in range(150)]
        for one in clients:
            one.send({"find": "large"})
        waiting = {one.socket: one for one in clients}
        deadline = time.monotonic() + PATIENCE_SECONDS
        # Each has the beginning of an answer, or of an error.
        while waiting:
            assert time.monotonic() < deadline, len(waiting)
            for ready in select.select(list(waiting), [], [], 1)[0]:
                del waiting[ready]
        lengths = [struct.unpack("<i", one.socket.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL))[0] for one in clients]
        answered = [length for length in lengths if length > LARGE_BYTES]
        assert 0 < len(answered) <= BUDGET_MIB * MIB // LARGE_BYTES, len(answered)
        with client(quarry) as connection:
            assert memory(connection)["shares"]["replies"] >= len(answered) * LARGE_BYTES
        for one, length in zip(clients, lengths, strict=True):
            if length < LARGE_BYTES:
                reply = one.receive()
                assert (reply["code"], reply["codeName"]) == (EXCEEDED_MEMORY_LIMIT, "ExceededMemoryLimit"), reply
    all_is_given_back(quarry)
    with client(quarry) as connection:
        assert len(connection.run({"find": "large"})["cursor"]["firstBatch"][0]["s"]) == LARGE_BYTES


def test_many_messages_of_which_half_has_come(quarry):
    header = struct.pack("<iiii", 40_000_000, 1, 0, OP_MSG)
    with contextlib.ExitStack() as stack, within_budget(quarry, 100):
        for _ in range(100):
            one = stack.enter_context(client(quarry))
            one.socket.setblocking(False)
            # Each sends as much as the server and the kernel take.
            with contextlib.suppress(BlockingIOError):
                one.socket.send(header + b"\0" * 20_000_000)
        with client(quarry) as connection:
            assert memory(connection)["requestsMaxBytes"] == BUDGET_MIB * MIB // 4
    all_is_given_back(quarry)


def test_many_large_inserts(quarry):
    insert = {"insert": "same", "documents": [{"_id": 1, "s": "x" * LARGE_BYTES}]}
    with within_budget(quarry, 100):
        outcomes = run_at_once(quarry, [insert] * 100)
    # Who waits for long for the memory of a request is turned away with its connection.
    assert outcomes.count(None) == 1 and set(outcomes) <= {None, DUPLICATE_KEY, ConnectionError}, outcomes
    all_is_given_back(quarry)


def can_find(connection):
    try:
        return len(connection.run({"find": "large"})["cursor"]["firstBatch"]) == 1
    except CommandFailed as failure:
        assert failure.code == EXCEEDED_MEMORY_LIMIT, failure
        return False


@pytest.mark.parametrize("comment_bytes", [0, 100_000])
def test_an_operation_that_waits_for_memory_can_be_ended(quarry, comment_bytes):
    """A request with a long comment holds a share of the memory of requests, beside that of its reply. Those that hold the budget are clients that do not take their answers; the others wait for a moment longer than maxTimeMS."""
    with contextlib.ExitStack() as stack:
        def hold():
            holder = stack.enter_context(client(quarry))
            holder.send({"find": "large", "comment": "x" * comment_bytes})
            select.select([holder.socket], [], [], PATIENCE_SECONDS)

        for _ in range(BUDGET_MIB // 16):
            hold()
        with client(quarry) as connection:
            assert memory(connection)["shares"]["replies"] > 0
            with pytest.raises(CommandFailed) as failure:
                # The budget grows where the process holds less beside it: somebody takes what has come.
                while connection.run({"find": "large", "maxTimeMS": 20}):
                    hold()
            assert failure.value.code in (50, EXCEEDED_MEMORY_LIMIT)
            # Whoever wants little has it.
            assert connection.run({"find": "one"})["cursor"]["firstBatch"]
            # Who takes nothing for long while others wait is seen off, so that they come to have it.
            deadline = time.monotonic() + PATIENCE_SECONDS
            while "its client takes no reply" not in quarry.log.read_text():
                assert time.monotonic() < deadline
                if can_find(connection):
                    hold()
            while not can_find(connection):
                assert time.monotonic() < deadline
    all_is_given_back(quarry)


# As large as documents may be, but for what is beside the text.
LARGEST_BYTES = 16 * MIB - 100
# Some engines write many times what they are given in the background, and take a minute for 64.
LARGE_INSERTS = int(os.environ.get("QUARRY_LARGE_INSERTS", "16"))
SMALL_DOCUMENTS = 1000
SMALL_MS_MAX = 500


def time_small_updates(port, begin, is_over, times):
    with WireClient(port) as connection:
        begin.wait()
        for number in itertools.count():
            if is_over.is_set():
                return
            update = {"q": {"_id": number % SMALL_DOCUMENTS}, "u": {"$inc": {"n": 1}}}
            begun = time.perf_counter()
            assert connection.run({"update": "small", "updates": [update]})["nModified"] == 1
            times.append(time.perf_counter() - begun)


@pytest.mark.parametrize("engine", ENGINES)
def test_large_documents_do_not_shut_out_small_ones(engine, tmp_path):
    """`QUARRY_LARGE_INSERTS=64 pytest -s tests/drivers/test_memory_budget.py -k shut_out`"""
    quarry = Quarry(tmp_path / "data", engine).start()
    begin, is_over, times = threading.Barrier(2), threading.Event(), []
    try:
        with concurrent.futures.ThreadPoolExecutor(1) as pool, client(quarry) as connection:
            connection.run({"insert": "small", "documents": [{"_id": number, "n": 0} for number in range(SMALL_DOCUMENTS)]})
            small = pool.submit(time_small_updates, quarry.port, begin, is_over, times)
            try:
                begin.wait(PATIENCE_SECONDS)
                begun = time.perf_counter()
                for number in range(LARGE_INSERTS):
                    connection.run({"insert": "large", "documents": [{"_id": number, "s": "x" * LARGEST_BYTES}]})
                took = time.perf_counter() - begun
            finally:
                is_over.set()
            small.result(PATIENCE_SECONDS)
            assert connection.run({"count": "large"})["n"] == LARGE_INSERTS
            connection.run({"dropDatabase": 1})
    finally:
        code = quarry.stop() if quarry.running() else quarry.process.returncode
    assert code == 0, quarry.tail()
    times.sort()
    p50, p99, longest = (times[int(len(times) * share)] * 1000 for share in (0.5, 0.99, 1 - 1 / len(times)))
    print(f"{engine}: {len(times)} small updates beside {LARGE_INSERTS} large inserts in {took:.1f} s: p50 {p50:.2f} ms, p99 {p99:.1f}, longest {longest:.0f}")
    # Enough of them that a percentile means something.
    assert len(times) >= 100, len(times)
    assert p99 < SMALL_MS_MAX, times[-100:]
