"""Clients on shared registers see one order of their operations, over SIGKILL and restart; and the judge of it is judged.

The first half shows that the checker accepts what is right and catches what is wrong; the second runs real servers. A
history that has no explanation prints the operation that does not fit and what was done shortly before.
"""

import itertools
import os
import random
import signal
import socket
import subprocess
import threading

import pytest

import register_load
from crash_load import given_seed
from quarry_process import Quarry
from register_history import KINDS, UNKNOWN, NotLinearizable, Operation, check
from register_load import SHAPES, Shape, live_and_die, live_once, work_until_the_end
from register_recording import FAULTS, history as noted, play, script

ENGINES = os.environ.get("QUARRY_ENGINES", "rocksdb,mdbx,memory").split(",")
LIVES = int(os.environ.get("QUARRY_CRASH_ROUNDS", "4"))


def history(*operations):
    """Operations on one register from (kind, arguments, result, invoked, returned)."""
    return [Operation("k", *one) for one in operations]


RIGHT = {
    "one after the other": history(
        ("insert", (1,), True, 0, 1), ("read", (), 1, 2, 3), ("assign", (2,), 1, 4, 5), ("read", (), 2, 6, 7),
        ("delete", (), 1, 8, 9), ("read", (), None, 10, 11), ("assign", (3,), 0, 12, 13),
    ),
    "a reader during a write sees either, and the next reader the same or newer": history(
        ("insert", (1,), True, 0, 1), ("assign", (2,), 1, 2, 9), ("read", (), 1, 3, 4), ("read", (), 2, 5, 6),
    ),
    "of two claimants at once one wins": history(
        ("insert", (1,), True, 0, 1), ("compare_and_set", (1, 2), 1, 2, 5), ("compare_and_set", (1, 3), 0, 2, 5),
        ("read", (), 2, 6, 7),
    ),
    "what was never answered happened": history(
        ("insert", (1,), True, 0, 1), ("assign", (2,), UNKNOWN, 2, 10), ("read", (), 2, 11, 12),
    ),
    "what was never answered did not happen": history(
        ("insert", (1,), True, 0, 1), ("assign", (2,), UNKNOWN, 2, 10), ("read", (), 1, 11, 12),
    ),
    "two that were never answered happened in the order that nobody expected": history(
        ("assign", (2,), UNKNOWN, 2, 10), ("put", (1,), UNKNOWN, 3, 10), ("read", (), 2, 11, 12),
    ),
}

WRONG = {
    "a stale read": history(
        ("insert", (1,), True, 0, 1), ("assign", (2,), 1, 2, 3), ("read", (), 1, 4, 5),
    ),
    "a lost update": history(
        ("insert", (1,), True, 0, 1), ("swap", (2,), 1, 2, 9), ("swap", (3,), 1, 2, 9),
    ),
    "a sum that misses one": history(
        ("insert", (1,), True, 0, 1), ("add", (5,), 6, 2, 9), ("add", (3,), 4, 2, 9),
    ),
    "two winners": history(
        ("insert", (1,), True, 0, 1), ("compare_and_set", (1, 2), 1, 2, 9), ("compare_and_set", (1, 3), 1, 2, 9),
    ),
    "two inserts of one key": history(("insert", (1,), True, 0, 9), ("insert", (2,), True, 0, 9)),
    "a read that goes back": history(
        ("insert", (1,), True, 0, 1), ("assign", (2,), 1, 2, 9), ("read", (), 2, 3, 4), ("read", (), 1, 5, 6),
    ),
    "a suffix lost by a crash": history(
        ("insert", (1,), True, 0, 1), ("assign", (2,), 1, 2, 3), ("assign", (3,), 1, 4, 5), ("read", (), 2, 20, 21),
    ),
    "all lost by a crash": history(("insert", (1,), True, 0, 1), ("read", (), None, 20, 21)),
    "a write that was never answered comes and goes": history(
        ("insert", (1,), True, 0, 1), ("assign", (2,), UNKNOWN, 2, 10), ("read", (), 2, 11, 12), ("read", (), 1, 13, 14),
    ),
    "a write comes back after the server that had it died": history(
        ("insert", (1,), True, 0, 1), ("assign", (2,), UNKNOWN, 2, 10), ("read", (), 1, 11, 12), ("read", (), 2, 13, 14),
    ),
    "a deleted document comes back": history(
        ("insert", (1,), True, 0, 1), ("delete", (), 1, 2, 3), ("read", (), 1, 4, 5),
    ),
    "a value that nobody wrote": history(("insert", (1,), True, 0, 1), ("read", (), 7, 2, 3)),
    "a write before it was asked for": history(
        ("insert", (1,), True, 0, 1), ("read", (), 2, 2, 3), ("assign", (2,), 1, 4, 5),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_accepted(name):
    check(RIGHT[name])


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_caught(name):
    with pytest.raises(NotLinearizable):
        check(WRONG[name])


def test_a_later_call_begins_where_an_earlier_one_ended():
    held = check(history(("insert", (1,), True, 0, 1), ("assign", (2,), UNKNOWN, 2, 3)))
    assert held == {"k": {1, 2}}
    assert check(history(("read", (), 2, 4, 5)), held) == {"k": {2}}
    with pytest.raises(NotLinearizable):
        check(history(("read", (), None, 4, 5)), held)


def test_the_checker_says_what_trying_every_order_says():
    chance = random.Random(11)
    verdicts = [0, 0]
    for _ in range(1500):
        operations = random_history(chance)
        expected = has_an_order(operations)
        try:
            check(operations)
            verdict = True
        except NotLinearizable:
            verdict = False
        assert verdict == expected, operations
        verdicts[verdict] += 1
    assert min(verdicts) > 200, verdicts


# So many scripts are recorded, and so many faults put into them at the least.
RECORDINGS = 60
FAULTS_MIN = 20


def test_recordings_without_a_fault_are_accepted():
    for seed in range(RECORDINGS):
        check(noted(play(script(random.Random(seed)))))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_put_into_a_recording_is_caught(fault):
    count = 0
    for seed in range(RECORDINGS):
        for operations in FAULTS[fault](script(random.Random(seed))):
            count += 1
            with pytest.raises(NotLinearizable):
                check(operations)
    assert count >= FAULTS_MIN, count


class PaperServer:
    """A process that does nothing, beside a port at which `answer` is called with every connection."""

    def __init__(self, answer):
        self.process = subprocess.Popen(["sleep", "60"])
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.connections = []
        self.answer = answer
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            self.answer(connection)

    def tail(self):
        return ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        for connection in self.connections:
            connection.close()
        self.process.kill()
        self.process.wait()


def hang(_):
    """Never replies."""


def hang_up(connection):
    """Ends the connection, of which a client that was forked at this moment may hold a copy: closing it alone would not end it."""
    connection.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("answer", "reply_seconds_max", "failure"),
    [(hang, 0.1, "TimeoutError"), (hang_up, 60, "lost the server before")],
    ids=["hangs", "hangs up"],
)
def test_a_client_that_gets_no_reply_from_a_living_server_fails_the_test(
    answer, reply_seconds_max, failure, monkeypatch
):
    monkeypatch.setattr(register_load, "REPLY_SECONDS_MAX", reply_seconds_max)
    with PaperServer(answer) as server, pytest.raises(AssertionError, match=failure):
        work_until_the_end(server, Shape(2, 1, 50), 0, signal.SIGKILL, random.Random(1))


def random_history(chance):
    operations = []
    for number in range(chance.randrange(1, 7)):
        kind = chance.choice(list(KINDS))
        count = {"read": 0, "take": 0, "delete": 0, "compare_and_set": 2}.get(kind, 1)
        arguments = tuple(chance.randrange(1, 4) for _ in range(count))
        result, _ = KINDS[kind](chance.choice([None, 1, 2, 3]), *arguments)
        if chance.random() < 0.2:
            result = UNKNOWN
        invoked = chance.randrange(10)
        returned = invoked + chance.randrange(1, 6)
        operations.append(Operation("k", kind, arguments, result, invoked * 10 + number, returned * 10 + number))
    return operations


def has_an_order(operations):
    """Whether some order of some of the operations, with all that were answered, keeps to time and gives every result."""
    answered = [one for one in operations if one.result is not UNKNOWN]
    others = [one for one in operations if one.result is UNKNOWN]
    return any(
        keeps_to_time(order) and gives_every_result(order)
        for count in range(len(others) + 1)
        for some in itertools.combinations(others, count)
        for order in itertools.permutations([*answered, *some])
    )


def keeps_to_time(order):
    return all(later.returned >= earlier.invoked for earlier, later in itertools.combinations(order, 2))


def gives_every_result(order):
    state = None
    for one in order:
        result, state = KINDS[one.kind](state, *one.arguments)
        if one.result not in (UNKNOWN, result):
            return False
    return True


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_register_is_linearizable(engine, shape, tmp_path):
    seed = given_seed()
    print(f"\n{engine}, {shape}: {LIVES} lives, repeat with")
    print(f"  QUARRY_CRASH_SEED={seed} QUARRY_CRASH_ROUNDS={LIVES} pytest -s tests/drivers/test_history.py -k '{shape} and {engine}'")
    quarry = Quarry(tmp_path / "data", engine)
    # The engine in memory keeps nothing over the end of a life.
    judged = live_once(quarry, SHAPES[shape], seed) if engine == "memory" else live_and_die(quarry, SHAPES[shape], LIVES, seed)
    print(f"  {judged} operations judged")
