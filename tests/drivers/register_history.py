"""Histories of single-key registers, and whether one order of the operations on a key explains what every client saw.

A register is a document: absent (None) or holding one integer. An operation has an interval, from before its request was
sent until after its reply was read, and a result. A history is linearizable if each operation can be given one moment
within its interval so that, taken in the order of these moments, every result follows. An operation that was never
answered has the result UNKNOWN: it happened at one moment of its interval or not at all, and its interval ends when the
server that had it was dead. So a write that a killed server acknowledged must be there afterwards, and one that it did not
acknowledge is either there from then on or never.

Keys are independent, so each is checked alone. The check walks the events of a key by time with the set of all
configurations that are possible so far (the register's state, and which of the running operations have had their moment):
an operation is given its moment only when a reply forces it to have had one (the just-in-time linearization of Lowe,
"Testing for linearizability", 2016). When no configuration is left, the history has no explanation, and the event at which
that happened says where to look.
"""

import enum
from typing import Any, NamedTuple


class Outcome(enum.Enum):
    """The results that are no value of a register; an enumeration, because its members survive a pipe between processes."""

    UNKNOWN = "unknown"


UNKNOWN = Outcome.UNKNOWN
# Above this a history has too many operations on one key at once to be judged, which is a fault of the load.
CONFIGURATIONS_MAX = 200_000


class Operation(NamedTuple):
    """What one client asked of one register between two moments, in nanoseconds of the monotonic clock, and what it was told."""

    key: Any
    kind: str
    arguments: tuple
    result: Any
    invoked: int
    returned: int
    client: str = ""


def read(state):
    return state, state


def insert(state, value):
    """Whether the document was inserted; false is the duplicate key."""
    return (True, value) if state is None else (False, state)


def put(state, value):
    """A replacement that may insert: whether there was a document before."""
    return state is not None, value


def assign(state, value):
    """An update without upsert: how many documents matched."""
    return (0, None) if state is None else (1, value)


def compare_and_set(state, old, new):
    return (1, new) if state == old else (0, state)


def swap(state, value):
    """findAndModify that gives the document before."""
    return state, None if state is None else value


def add(state, amount):
    """findAndModify that gives the document after."""
    after = None if state is None else state + amount
    return after, after


def take(state):
    """findAndModify that removes: what it removed."""
    return state, None


def delete(state):
    return (0 if state is None else 1), None


# Of each kind what it answers and leaves, given the register's state.
KINDS = {
    step.__name__: step for step in (read, insert, put, assign, compare_and_set, swap, add, take, delete)
}
# The results that say that nothing was changed, whatever the state was.
WITHOUT_EFFECT = {
    "insert": False, "assign": 0, "compare_and_set": 0, "swap": None, "add": None, "take": None, "delete": 0,
}


def changes_nothing(operation):
    if operation.kind == "read":
        return True
    nothing = WITHOUT_EFFECT.get(operation.kind, UNKNOWN)
    return operation.result is not UNKNOWN and nothing is not UNKNOWN and operation.result == nothing


class NotLinearizable(AssertionError):
    """No order of the operations on one key explains their results."""


def check(operations, held=None):
    """What each register may hold after these operations, by key; raises NotLinearizable where nothing explains them.

    `held` is what each may hold before them, as an earlier call gave it back; a register that it does not name is absent.
    """
    held = dict(held or {})
    by_key = {}
    for operation in operations:
        by_key.setdefault(operation.key, []).append(operation)
    for key, of_key in by_key.items():
        held[key] = check_key(of_key, held.get(key, {None}))
    return held


def check_key(operations, held):
    # What was never answered and changes nothing says nothing.
    told = [one for one in operations if not (one.result is UNKNOWN and one.kind == "read")]
    # At equal times an operation begins before another ends: they ran at once.
    events = sorted(
        [(one.invoked, 0, number) for number, one in enumerate(told)]
        + [(one.returned, 1, number) for number, one in enumerate(told)]
    )
    configurations = {(state, 0) for state in held}
    running = Running(told)
    for _, is_return, number in events:
        if not is_return:
            running.begin(number)
            continue
        before = configurations
        configurations = running.end(number, configurations)
        if not configurations:
            raise NotLinearizable(explanation(told, number, before))
    return {state for state, _ in configurations}


class Running:
    """The operations that were invoked and have not returned, each with a bit in the configurations' masks."""

    def __init__(self, operations):
        self.operations = operations
        self.bits = {}

    def begin(self, number):
        taken = set(self.bits.values())
        bit = 1
        while bit in taken:
            bit <<= 1
        self.bits[number] = bit

    def end(self, number, configurations):
        """The configurations in which the operation has had its moment, or, of an unknown outcome, may have had none."""
        bit = self.bits[number]
        is_optional = self.operations[number].result is UNKNOWN
        ended = set()
        seen = {self.with_reads(one) for one in configurations}
        left = list(seen)
        while left:
            state, done = left.pop()
            if is_optional or done & bit:
                ended.add((state, done & ~bit))
            if done & bit:
                continue
            for successor in self.successors(state, done):
                if successor not in seen:
                    seen.add(successor)
                    left.append(successor)
            if len(seen) > CONFIGURATIONS_MAX:
                raise RuntimeError(f"{len(self.bits)} operations at once on one key are too many to be judged")
        del self.bits[number]
        return ended

    def successors(self, state, done):
        for number, bit in self.bits.items():
            operation = self.operations[number]
            if done & bit or changes_nothing(operation):
                continue
            result, after = KINDS[operation.kind](state, *operation.arguments)
            if operation.result is UNKNOWN or operation.result == result:
                yield self.with_reads((after, done | bit))

    def with_reads(self, configuration):
        """What changes nothing has its moment as soon as its result fits: later would allow no more."""
        state, done = configuration
        for number, bit in self.bits.items():
            operation = self.operations[number]
            if not done & bit and changes_nothing(operation):
                result, _ = KINDS[operation.kind](state, *operation.arguments)
                if result == operation.result:
                    done |= bit
        return state, done


def explanation(operations, number, configurations):
    """The operation that nothing explains, what the register may have held, and what was done shortly before."""
    failed = operations[number]
    held = sorted({str(state) for state, _ in configurations})
    earlier = [one for one in operations if one.invoked < failed.returned]
    lines = [
        f"no order explains the register {failed.key!r}:",
        f"  {line(failed, failed)}",
        f"  when it returned the register had held one of {', '.join(held[:8])}; the last operations on it were",
    ]
    lines += [f"    {line(one, failed)}" for one in sorted(earlier, key=lambda one: one.returned)[-20:]]
    return "\n".join(lines)


def line(operation, failed):
    """One operation; its times are in microseconds, relative to the invocation of the one that failed."""
    begun, ended = ((moment - failed.invoked) / 1000 for moment in (operation.invoked, operation.returned))
    arguments = ", ".join(map(str, operation.arguments))
    return f"{operation.client:>12} {begun:12.1f} .. {ended:12.1f} us  {operation.kind}({arguments}) -> {operation.result}"
