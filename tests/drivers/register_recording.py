"""Histories of a register server that only exists on paper, recorded faultless or with one fault, to judge the checker with.

A script says what clients ask and at which moment the server does it; playing it gives the history that the clients would
note, over two lives of the server. A fault is put where no order of the operations can hide it: behind a write that was
answered before the one that gets lost or overlooked began, so that the register cannot hold the older value any more.
"""

from typing import NamedTuple

from register_history import KINDS, UNKNOWN, Operation

KEYS = ["a", "b"]
CLIENTS = 4
LIVES = 2
STEPS_A_LIFE = 30
# Kinds with the number of values that they are given, and kinds whose answer tells what the register held.
VALUES = {"read": 0, "insert": 1, "put": 1, "assign": 1, "swap": 1, "add": 1, "take": 0, "delete": 0}
WEIGHTS = [8, 3, 4, 4, 3, 2, 1, 1]
TELLING = {"read", "swap", "add", "take"}
VALUE_MAX = 1 << 40


class Step(NamedTuple):
    """One request. The server does it at `moment`; one that the server's death interrupted is never answered."""

    key: str
    kind: str
    arguments: tuple
    invoked: int
    moment: int
    returned: int
    is_answered: bool
    life: int


class Played(NamedTuple):
    """A step with the register's value before and after it, and the result that its client was told."""

    step: Step
    before: object
    after: object
    result: object

    @property
    def operation(self):
        step = self.step
        return Operation(step.key, step.kind, step.arguments, self.result, step.invoked, step.returned)


def script(chance):
    """Random steps of some clients, each of which asks one thing after the other, in the order of their moments."""
    steps = []
    length = 1000 * STEPS_A_LIFE
    for life in range(LIVES):
        end = (life + 1) * length
        for _ in range(CLIENTS):
            now = life * length
            while now < end:
                invoked = now + chance.randrange(1, 500)
                moment = invoked + chance.randrange(1, 800)
                returned = moment + chance.randrange(1, 800)
                now = returned
                if invoked >= end:
                    break
                kind = chance.choices(list(VALUES), WEIGHTS)[0]
                arguments = tuple(chance.randrange(1, VALUE_MAX) for _ in range(VALUES[kind]))
                is_answered = returned < end
                steps.append(Step(chance.choice(KEYS), kind, arguments, invoked, moment, min(returned, end), is_answered, life))
    # What the server had not come to when it died never happens.
    return sorted((one for one in steps if one.moment < (one.life + 1) * length or not one.is_answered), key=lambda one: one.moment)


def play(steps, overlooked=None, forgotten_from=None):
    """What clients see of a server without a fault; of one that answers the step `overlooked` and does not do it; or of one
    that comes back after its death with a register as it was before the step `forgotten_from`."""
    values = dict.fromkeys(KEYS)
    comes_back_with = {}
    played = []
    life = 0
    for step in steps:
        if step.life != life:
            life = step.life
            values.update(comes_back_with)
        before = values[step.key]
        if step is forgotten_from:
            comes_back_with = {step.key: before}
        is_done = step.is_answered or step.moment < step.returned
        result, after = KINDS[step.kind](before, *step.arguments) if is_done else (UNKNOWN, before)
        values[step.key] = before if step is overlooked else after
        played.append(Played(step, before, after, result if step.is_answered else UNKNOWN))
    return played


def history(played):
    return [one.operation for one in played]


def triples(played):
    """Of each key the neighbours writer, change, telling: each was answered or gone before the next was asked, the telling one
    was answered, and nothing else happened to the key between the first and the last."""
    for key in KEYS:
        of_key = [one for one in played if one.step.key == key and (one.before != one.after or one.step.kind in TELLING)]
        for writer, change, telling in zip(of_key, of_key[1:], of_key[2:]):
            in_turn = writer.step.returned < change.step.invoked and change.step.returned < telling.step.invoked
            changes = None not in (writer.after, change.after) and writer.before != writer.after and change.before != change.after
            if in_turn and changes and telling.step.kind in TELLING and telling.step.is_answered:
                yield writer.step, change.step, telling.step


def stale_reads(steps):
    """The faultless history with one read that overlooks the newest write."""
    played = play(steps)
    for writer, change, telling in triples(played):
        if telling.kind == "read" and change.is_answered:
            older = next(one.after for one in played if one.step is writer)
            yield [one._replace(result=older).operation if one.step is telling else one.operation for one in played]


def lost_updates(steps):
    """A write is answered and has no effect; all later answers follow from that."""
    for _, change, _ in triples(play(steps)):
        if change.is_answered:
            yield history(play(steps, overlooked=change))


def reads_of_lost_writes(steps):
    """A write, answered or not, is read by somebody; the server dies and comes back without it and what followed."""
    played = play(steps)
    for key in KEYS:
        of_key = [one for one in played if one.step.key == key and (one.before != one.after or one.step.kind in TELLING)]
        later = next((one for one in steps if one.key == key and one.life == 1), None)
        if later is None or later.kind not in TELLING or not later.is_answered:
            continue
        for writer, change, reader in zip(of_key, of_key[1:], of_key[2:]):
            is_write = change.before != change.after and None not in (writer.after, change.after)
            is_seen = reader.step.kind == "read" and reader.step.is_answered and reader.step.life == 0
            if is_write and is_seen and writer.before != writer.after and writer.step.returned < change.step.invoked:
                yield history(play(steps, forgotten_from=change.step))


FAULTS = {
    "a stale read": stale_reads,
    "a lost update": lost_updates,
    "a read of a write that was then lost": reads_of_lost_writes,
}
