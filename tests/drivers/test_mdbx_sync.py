"""libmdbx's four sync modes: each keeps what was acknowledged over a SIGKILL, and the one that may lose the file says so."""

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure, WriteConcernError, WriteError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from quarry_process import Quarry

MODES = {
    "durable": [],
    "no-meta-sync": [],
    "safe-no-sync": ["--durability", "strict"],
    "utterly-no-sync": ["--durability", "relaxed"],
}


def serve(tmp_path, mode):
    return Quarry(tmp_path / "data", "mdbx", ["--mdbx-sync", mode, *MODES[mode]]).start()


@pytest.mark.parametrize("mode", MODES)
def test_a_killed_process_loses_nothing_in_any_mode(mode, tmp_path):
    quarry = serve(tmp_path, mode)
    try:
        for life in range(3):
            with MongoClient(quarry.uri) as client:
                things = client.db.things
                assert things.count_documents({}) == life * 50
                things.create_index("n")
                for n in range(50):
                    things.insert_one({"_id": f"{life}-{n}", "n": n})
            quarry.kill()
            quarry.start()
        with MongoClient(quarry.uri) as client:
            assert client.db.things.count_documents({"n": 7}) == 3
            result = client.db.validate_collection("things", full=True)
            assert result["valid"] is True and result["errors"] == []
            parsed = client.admin.command("getCmdLineOpts")["parsed"]
            assert parsed["storage"]["mdbxSync"] == mode
        assert quarry.stop() == 0, quarry.tail()
    finally:
        if quarry.running():
            quarry.kill()


@pytest.mark.parametrize("concern", [{"w": 1, "j": True}, {"w": "majority"}])
def test_what_may_be_damaged_promises_nothing(concern, tmp_path):
    quarry = serve(tmp_path, "utterly-no-sync")
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
