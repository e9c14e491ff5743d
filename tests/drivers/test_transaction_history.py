"""Transactions over several lists, collections and databases are isolated and atomic, over sockets, SIGKILL and restart.

What clients of a real driver did and saw is judged by `quarry-judge`, by the same rules as the histories of the database's own
tests. Then faults are put into the very history that was accepted, and the judge must name each of them: a history in which
none could be found would prove nothing.
"""

import copy
import os

import pytest

from append_faults import FAULTS
from append_load import KILLS_A_HISTORY, SHAPES, judged, lists_in, live_and_die
from crash_load import given_seed
from quarry_process import Quarry

ENGINES = os.environ.get("QUARRY_ENGINES", "rocksdb,mdbx,memory").split(",")
LIVES = int(os.environ.get("QUARRY_CRASH_ROUNDS", "4"))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", SHAPES)
def test_transactions_are_isolated_over_kills(engine, shape, tmp_path):
    seed = given_seed()
    # The engine in memory keeps nothing over the end of a life.
    kills = 0 if engine == "memory" else LIVES
    print(f"\n{engine}, {shape}: {kills} kills, repeat with")
    print(f"  QUARRY_CRASH_SEED={seed} QUARRY_CRASH_ROUNDS={LIVES} pytest -s tests/drivers/test_transaction_history.py -k '{shape} and {engine}'")
    for number, begun in enumerate(range(0, max(kills, 1), KILLS_A_HISTORY)):
        directory = tmp_path / str(number)
        directory.mkdir()
        quarry = Quarry(directory / "data", engine, ["--replSet", "rs0"])
        quarry.keep_port()
        quarry.start()
        try:
            recorded = live_and_die(quarry, SHAPES[shape], min(kills - begun, KILLS_A_HISTORY), seed + number)
            if engine != "memory":
                assert quarry.stop() == 0, quarry.tail()
                quarry.start()
            lists = lists_in(quarry)
            assert quarry.stop() == 0, quarry.tail()
        finally:
            if quarry.running():
                quarry.kill()
        said, is_isolated = judged(recorded, lists, directory / "history.jsonl")
        assert is_isolated, said
        print(f"  {said.strip()}")
        check_the_judge(recorded, lists, directory / "faults.jsonl")


def check_the_judge(recorded, lists, path):
    for fault, wanted in FAULTS.items():
        faulty = fault(*copy.deepcopy((recorded, lists)))
        assert faulty is not None, f"the history has no place for {fault.__name__}"
        said, _ = judged(*faulty, path)
        assert wanted in said, (fault.__name__, said)
