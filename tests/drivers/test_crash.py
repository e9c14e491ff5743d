"""SIGKILL under load: every acknowledged write is there afterwards, and every index agrees with its documents.

Several connections insert, update and delete while the process is killed at a random moment. What was acknowledged
must be found after the restart; what was in flight may be there or not, but never half of it.
"""

import os

import pytest

from crash_load import given_seed, kill_under_load
from quarry_process import Quarry

ROUNDS = int(os.environ.get("QUARRY_CRASH_ROUNDS", "20"))
# Of the policies other than the default: a few rounds, or as many as are asked for.
POLICY_ROUNDS = int(os.environ.get("QUARRY_CRASH_ROUNDS", "4"))
ENGINES = [engine for engine in os.environ.get("QUARRY_ENGINES", "rocksdb,mdbx,memory").split(",") if engine != "memory"]
POLICIES = ["journaled", "strict", "relaxed"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_acknowledged_write_survives_sigkill(engine, policy, tmp_path):
    rounds = ROUNDS if policy == "journaled" else POLICY_ROUNDS
    seed = given_seed()
    print(f"\n{engine}, {policy}: {rounds} rounds, repeat with")
    print(f"  QUARRY_CRASH_SEED={seed} QUARRY_CRASH_ROUNDS={rounds} pytest -s tests/drivers/test_crash.py -k '{policy} and {engine}'")
    kill_under_load(Quarry(tmp_path / "data", engine, ["--durability", policy]), rounds, seed)
