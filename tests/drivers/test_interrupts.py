"""Every kind of work is interrupted soon: by maxTimeMS and by killOp, within one document as between many.

A server that looks for an interrupt only every so many documents, or not while it parses, sorts, compares or splices,
answers late. What counts is the time that the threads of its connections have had of the processors: on a busy machine an
answer takes longer, but nothing is computed for it meanwhile. The bars are some times the 50 ms that it promises, because a request of 14 MB has
to be read first.
"""

import os
import select

import pytest

from interrupt_cases import CASES, DATABASE, fill
from quarry_process import Quarry
from wire_client import CommandFailed, WireClient

# What these tests look at does not depend on the engine: the first one named does.
ENGINE = os.environ.get("QUARRY_ENGINES", "rocksdb").split(",")[0]
LIMIT_MS = 100
# Of the processors, reading the request included.
LIMITED_SECONDS_MAX = LIMIT_MS / 1000 + 0.25
# From the reply to killOp.
KILLED_SECONDS_MAX = 0.2
MAX_TIME_EXPIRED = 50
INTERRUPTED = 11601
# A late answer is looked at so often.
ATTEMPTS_MAX = 8
# A pattern that backtracks meets a bound of its own first.
REGEX_BOUND = 51156


@pytest.fixture(scope="module")
def quarry(tmp_path_factory):
    quarry = Quarry(tmp_path_factory.mktemp("interrupts") / "data", ENGINE).start()
    with WireClient(quarry.port) as connection:
        fill(connection)
    yield quarry
    alive = quarry.running()
    code = quarry.stop() if alive else quarry.process.returncode
    assert (alive, code) == (True, 0), quarry.tail()


@pytest.mark.parametrize("name", CASES)
def test_max_time_ends_it(quarry, name):
    command = {**CASES[name](), "maxTimeMS": LIMIT_MS}

    def limited():
        with WireClient(quarry.port) as connection:
            before = quarry.cpu_seconds_of_work()
            connection.send(command, DATABASE)
            code = CommandFailed(connection.receive()).code
            return code, quarry.cpu_seconds_of_work() - before

    # Work may end by itself about when its time does.
    soon_in_one_of_some(limited, (None, MAX_TIME_EXPIRED, REGEX_BOUND), LIMITED_SECONDS_MAX)


@pytest.mark.parametrize("name", CASES)
def test_kill_op_ends_it(quarry, name):
    command = CASES[name]()

    def killed():
        with WireClient(quarry.port) as connection, WireClient(quarry.port) as other:
            connection.send(command, DATABASE)
            reply = Reply(connection)
            # Long enough to be in the midst of it, whatever comes first.
            reply.wait(LIMIT_MS / 1000)
            killed_at = kill(quarry, other, reply)
            reply.wait()
            return reply.code, quarry.cpu_seconds_of_work() - killed_at

    soon_in_one_of_some(killed, (None, INTERRUPTED, REGEX_BOUND), KILLED_SECONDS_MAX)


def soon_in_one_of_some(attempt, codes, seconds_max):
    """Holds every attempt's code to `codes`, and the least of their seconds to a bar.

    A processor that is shared with other machines takes several times as long for the same work now and then. Work that
    does not look for its interrupt is late each time.
    """
    spent = []
    while not spent or (spent[-1] >= seconds_max and len(spent) < ATTEMPTS_MAX):
        code, seconds = attempt()
        assert code in codes, code
        spent.append(seconds)
    assert spent[-1] < seconds_max, (code, spent)


def kill(quarry, connection, reply):
    """Kills what the reply is waited for, or finds that it has ended; what the server had of the processors then."""
    host, port = reply.connection.socket.getsockname()
    while not reply.has_come():
        running = connection.run({"currentOp": 1}, "admin")["inprog"]
        numbers = [one["opid"] for one in running if one.get("client") == f"{host}:{port}" and "opid" in one]
        if numbers:
            connection.run({"killOp": 1, "op": numbers[0]}, "admin")
            break
    return quarry.cpu_seconds_of_work()


class Reply:
    """Of the command that was sent; waited for without reading from it."""

    def __init__(self, connection):
        self.connection = connection
        self.code = None

    def has_come(self, seconds=0):
        return bool(select.select([self.connection.socket], [], [], seconds)[0])

    def wait(self, seconds=None):
        """Until it has come, or for so many seconds."""
        if seconds is not None:
            self.has_come(seconds)
        else:
            self.code = CommandFailed(self.connection.receive()).code
