"""libmdbx's four sync modes: each keeps what it acknowledged over a SIGKILL under load; the one that may lose the file says so."""

import os

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure, WriteConcernError, WriteError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from crash_load import JOURNALED, WRITTEN, given_seed, kill_under_load
from quarry_process import Quarry

# Of each mode a few rounds, or as many as are asked for.
ROUNDS = int(os.environ.get("QUARRY_CRASH_ROUNDS", "3"))
MODES = {
    "durable": [],
    "no-meta-sync": [],
    "safe-no-sync": ["--durability", "strict"],
    "utterly-no-sync": ["--durability", "relaxed"],
}


def mdbx_server(tmp_path, mode):
    return Quarry(tmp_path / "data", "mdbx", ["--mdbx-sync", mode, *MODES[mode]])


@pytest.mark.parametrize("mode", MODES)
def test_a_killed_process_loses_nothing_in_any_mode(mode, tmp_path):
    seed = given_seed()
    print(f"\n{mode}: {ROUNDS} rounds, repeat with")
    print(f"  QUARRY_CRASH_SEED={seed} QUARRY_CRASH_ROUNDS={ROUNDS} pytest -s tests/drivers/test_mdbx_sync.py -k 'any_mode and {mode}'")
    quarry = mdbx_server(tmp_path, mode)
    # Where nothing is ever synced, {j: true} is refused.
    concerns = [WRITTEN if mode == "utterly-no-sync" else JOURNALED, WRITTEN, WRITTEN, WRITTEN]
    kill_under_load(quarry, ROUNDS, seed, concerns)
    quarry.start()
    try:
        with MongoClient(quarry.uri) as client:
            parsed = client.admin.command("getCmdLineOpts")["parsed"]
            assert parsed["storage"]["mdbxSync"] == mode
        assert quarry.stop() == 0, quarry.tail()
    finally:
        if quarry.running():
            quarry.kill()


@pytest.mark.parametrize("concern", [{"w": 1, "j": True}, {"w": "majority"}])
def test_what_may_be_damaged_promises_nothing(concern, tmp_path):
    quarry = mdbx_server(tmp_path, "utterly-no-sync").start()
    try:
        with MongoClient(quarry.uri) as client:
            things = client.db.things
            durable = things.with_options(write_concern=WriteConcern(**concern))
            for write in (
                lambda: durable.insert_one({"_id": 1}),
                lambda: durable.update_one({"_id": 1}, {"$set": {"n": 1}}, upsert=True),
                lambda: durable.delete_one({"_id": 1}),
                lambda: durable.create_index("n"),
            ):
                with pytest.raises((OperationFailure, WriteError, WriteConcernError)) as refused:
                    write()
                assert refused.value.code == 2
                assert "utterly-no-sync" in str(refused.value)
            assert things.count_documents({}) == 0, "a refused write leaves nothing"
            things.insert_one({"_id": 1})
            with pytest.raises(OperationFailure) as refused:
                things.with_options(read_concern=ReadConcern("majority")).find_one()
            assert refused.value.code == 148
            with pytest.raises(OperationFailure) as refused:
                client.admin.command("fsync")
            assert refused.value.code == 2
            assert things.find_one() == {"_id": 1}
        assert quarry.stop() == 0, quarry.tail()
    finally:
        if quarry.running():
            quarry.kill()


def test_plain_relaxed_still_syncs_when_asked(tmp_path):
    quarry = Quarry(tmp_path / "data", "mdbx", ["--durability", "relaxed"]).start()
    try:
        with MongoClient(quarry.uri) as client:
            things = client.db.get_collection("things", write_concern=WriteConcern(w=1, j=True))
            things.insert_one({"_id": 1})
            assert things.with_options(read_concern=ReadConcern("majority")).find_one() == {"_id": 1}
        assert quarry.stop() == 0, quarry.tail()
    finally:
        if quarry.running():
            quarry.kill()
