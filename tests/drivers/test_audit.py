"""The audit log: what is written of whom, that no secret is, and what happens where it cannot be written."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import bson
import pytest
from pymongo import MongoClient, UpdateOne
from pymongo.errors import OperationFailure

from test_access import Guarded, login, refused
from wire_client import WireClient

PATIENCE_SECONDS = 20
OPERATION_FAILED = 96
NO_SUCH_KEY = 4
FILE_RENAME_FAILED = 37


def start(directory, *arguments, path=None, auth=True):
    path = path or directory / "audit.json"
    audit = ["--auditDestination", "file", "--auditPath", str(path), *arguments]
    quarry = Guarded(directory / "data", "memory", [*(["--auth"] if auth else []), *audit])
    quarry.audit = path
    quarry.start()
    return quarry


def events(quarry, kind=None):
    """Every line is an event, whole and for itself."""
    found = [json.loads(line) for line in quarry.audit.read_text().splitlines()]
    return [event for event in found if kind in (None, event["atype"])]


def wait_for(quarry, kind, is_it=lambda event: True):
    """The events of that kind that are it, once there is one: a client that goes is noticed a moment later."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := [event for event in events(quarry, kind) if is_it(event)]):
        assert time.monotonic() < deadline, events(quarry)
        time.sleep(0.01)
    return found


def test_what_is_done_leaves_events_in_the_shape_of_the_manual(tmp_path):
    quarry = start(tmp_path)
    with MongoClient(quarry.uri, appname="first") as first:
        first.admin.command("createUser", "root", pwd="hunter2hunter2", roles=["root"])
    with login(quarry, "root", "hunter2hunter2") as root:
        root.db.made.insert_one({"_id": 1})
        root.db.create_collection("asked")
        root.db.asked.create_index("a")
        root.db.asked.drop_index("a_1")
        root.db.asked.rename("named")
        root.db.drop_collection("named")
        root.db.command("createRole", "r", privileges=[{"resource": {"db": "db", "collection": ""}, "actions": ["find"]}], roles=["read"])
        root.db.command("createUser", "reader", pwd="hunter2hunter2", roles=["r"], customData={"desk": 5})
        root.db.command("updateUser", "reader", pwd="hunter3hunter3")
        root.db.command("grantRolesToUser", "reader", roles=["readWrite"])
        root.db.command("revokeRolesFromUser", "reader", roles=["readWrite"])
        with login(quarry, "reader", "hunter3hunter3", "db") as reader:
            with refused(13):
                reader.db.made.insert_one({"_id": 2, "note": "mine"})
            with refused(13):
                reader.db.command("createUser", "mallory", pwd="hunter2hunter2", roles=[])
        with pytest.raises(OperationFailure), login(quarry, "reader", "wrong", "db") as wrong:
            wrong.db.made.find_one()
        root.admin["system.users"].update_one({"user": "reader"}, {"$set": {"customData": {}}})
        root.db.command("dropUser", "reader")
        with refused(11):
            root.db.command("dropUser", "reader")
        root.db.command("dropRole", "r")
        root.admin.command("logApplicationMessage", "deployed")
        root.drop_database("db")
        wait_for(quarry, "logout", lambda event: event["users"] == [{"user": "reader", "db": "db"}])
    wait_for(quarry, "logout", lambda event: event["users"] == [{"user": "root", "db": "admin"}])
    assert quarry.stop() == 0

    shown = events(quarry)
    for event in shown:
        assert list(event) == ["atype", "ts", "uuid", "local", "remote", "users", "roles", "param", "result"], event
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", event["ts"]["$date"])
        assert event["uuid"]["$type"] == "04"
        if event["atype"] not in ("startup", "shutdown"):
            assert event["local"] == {"ip": "127.0.0.1", "port": quarry.port} and event["remote"]["ip"] == "127.0.0.1"
    assert "hunter" not in quarry.audit.read_text()

    one = lambda kind, result=0: next(event for event in shown if (event["atype"], event["result"]) == (kind, result))  # noqa: E731
    root_user = [{"user": "root", "db": "admin"}]
    assert shown[0]["atype"] == "startup"
    # Connections that the stop closes leave their logouts before and behind it.
    assert [event["atype"] for event in shown].count("shutdown") == 1
    assert one("startup")["local"] == {"isSystemUser": True}
    assert one("clientMetadata")["param"]["clientMetadata"]["application"] == {"name": "first"}
    # The localhost exception has no user.
    assert (one("createUser")["users"], one("createUser")["param"]["user"]) == ([], "root")
    assert one("authenticate")["param"] == {"user": "root", "db": "admin", "mechanism": "SCRAM-SHA-256"}
    assert one("authenticate")["users"] == root_user
    assert one("authenticate", 18)["param"] == {"user": "reader", "db": "db", "mechanism": "SCRAM-SHA-256"}
    made = [event["param"]["ns"] for event in shown if event["atype"] == "createCollection"]
    assert [name for name in made if name.startswith("db.")] == ["db.made", "db.asked"]
    by_root = next(event for event in shown if event["param"] == {"ns": "db.made"})
    assert by_root["users"] == root_user and {"role": "root", "db": "admin"} in by_root["roles"]
    assert one("createIndex")["param"] == {"ns": "db.asked", "indexName": "a_1", "indexSpec": {"name": "a_1", "key": {"a": 1}}}
    assert one("dropIndex")["param"] == {"ns": "db.asked", "indexName": "a_1"}
    assert one("renameCollection")["param"] == {"old": "db.asked", "new": "db.named"}
    assert one("dropCollection")["param"] == {"ns": "db.named"}
    assert one("dropDatabase")["param"] == {"ns": "db"}
    assert one("createRole")["param"]["roles"] == [{"role": "read", "db": "db"}]
    reader = [event for event in shown if event["atype"] == "createUser"][1]
    assert reader["param"] == {"user": "reader", "db": "db", "customData": {"desk": 5}, "roles": [{"role": "r", "db": "db"}]}
    assert one("updateUser")["param"] == {"user": "reader", "db": "db", "passwordChanged": True}
    assert one("grantRolesToUser")["param"] == one("revokeRolesFromUser")["param"] == {"user": "reader", "db": "db", "roles": [{"role": "readWrite", "db": "db"}]}
    assert one("directAuthMutation")["param"]["ns"] == "admin.system.users"
    assert one("dropUser")["param"] == one("dropUser", 11)["param"] == {"user": "reader", "db": "db"}
    assert one("applicationMessage")["param"] == {"msg": "deployed"}
    checks = [event for event in shown if event["atype"] == "authCheck"]
    assert {event["result"] for event in checks} == {13}
    by_reader = [event for event in checks if event["users"]]
    assert [(event["param"]["command"], event["param"]["ns"]) for event in by_reader] == [("insert", "db.made"), ("createUser", "db")]
    assert by_reader[1]["param"]["args"].keys() <= {"createUser", "$db", "lsid"}
    assert len({event["uuid"]["$binary"] for event in by_reader}) == 1


def test_what_was_allowed_is_written_where_it_is_asked_for(tmp_path):
    quarry = start(tmp_path, "--auditFilter", '{"atype": "authCheck", "param.ns": "db.c"}')
    with MongoClient(quarry.uri) as first:
        first.admin.command("createUser", "root", pwd="x", roles=["root"])
    with login(quarry, "root", "x") as root:
        root.db.c.insert_one({"_id": 1})
        root.admin.command("setParameter", 1, auditAuthorizationSuccess=True)
        root.db.c.insert_one({"_id": 2})
        root.db.other.insert_one({"_id": 2})
        root.db.c.find_one({"_id": 2})
        root.admin.command("setParameter", 1, auditAuthorizationSuccess=False)
        root.db.c.find_one({"_id": 2})
        root.db.c.drop()
    assert quarry.stop() == 0
    shown = [(event["param"]["command"], event["param"]["ns"], event["result"]) for event in events(quarry)]
    assert shown == [("insert", "db.c", 0), ("find", "db.c", 0)]
    assert events(quarry)[1]["param"]["args"]["filter"] == {"_id": 2}


def test_what_comes_about_without_a_command_for_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("QUARRY_INITDB_ROOT_USERNAME", "root")
    monkeypatch.setenv("QUARRY_INITDB_ROOT_PASSWORD", "hunter2hunter2")
    quarry = start(tmp_path)
    with login(quarry, "root", "hunter2hunter2") as root:
        root.db.made.insert_one({"_id": 1})
        root.db.made.aggregate([{"$out": "copied"}])
        root.db.made.aggregate([{"$out": {"db": "other", "coll": "copied"}}])
        root.db.made.aggregate([{"$merge": "merged"}])
    assert quarry.stop() == 0
    [first] = events(quarry, "createUser")
    assert (first["users"], first["local"], first["result"]) == ([], {"isSystemUser": True}, 0)
    assert first["param"] == {"user": "root", "db": "admin", "roles": [{"role": "root", "db": "admin"}]}
    assert events(quarry).index(first) == 1
    made = [event for event in events(quarry, "createCollection") if event["users"]]
    assert [event["param"]["ns"] for event in made] == ["db.made", "db.copied", "other.copied", "db.merged"]


def test_what_passwords_are_checked_by_is_shown_nowhere(tmp_path):
    quarry = start(tmp_path, "--slowms", "-1", "--setParameter", "auditAuthorizationSuccess=true", auth=False)
    secret = "bm90IGEga2V5IGF0IGFsbA=="
    change = {"$set": {"credentials.SCRAM-SHA-256.storedKey": secret}}
    with MongoClient(quarry.uri) as client, WireClient(quarry.port) as wire:
        client.admin.command("createUser", "app", pwd="hunter2hunter2", roles=["readWrite"])
        updates = [{"q": {"user": "app"}, "u": change}]
        another = {"_id": "admin.b", "user": "b", "db": "admin", "credentials": {"x": secret}}
        wire.run({"update": "system.users", "updates": updates}, "admin")
        wire.run({"findAndModify": "system.users", "query": {"user": "app"}, "update": change}, "admin")
        wire.run({"insert": "system.users", "documents": [another]}, "admin")
        bulk = {"ops": [{"update": 0, "filter": {"user": "app"}, "updateMods": change}], "nsInfo": [{"ns": "admin.system.users"}]}
        wire.run({"bulkWrite": 1, **bulk}, "admin")
        wire.run({"explain": {"update": "system.users", "updates": updates}, "verbosity": "queryPlanner"}, "admin")
        wire.run({"find": "system.users", "filter": {"credentials.SCRAM-SHA-256.storedKey": secret}}, "admin")
        # Its lists stand beside the command.
        client.bulk_write([UpdateOne({"user": "app"}, change, namespace="admin.system.users")])
        wire.run({"insert": "c", "documents": [{"seen": "shown"}]}, "db")
    assert quarry.stop() == 0
    shown = quarry.audit.read_text()
    assert secret not in shown and secret not in quarry.log.read_text()
    assert '"seen":"shown"' in shown
    operations = [event["param"]["operation"] for event in events(quarry, "directAuthMutation")]
    assert operations == ["update", "update", "insert", "bulkWrite", "bulkWrite"]


def test_lines_are_whole_whoever_writes_at_once(tmp_path):
    quarry = start(tmp_path, "--setParameter", "auditAuthorizationSuccess=true", auth=False)
    clients, each = 8, 60

    def work(number):
        with MongoClient(quarry.uri) as client:
            for index in range(each):
                client.db.c.insert_one({"number": number, "index": index, "text": "x\n" * 1000})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with MongoClient(quarry.uri) as client:
        client.db.c.find_one({"text": "y" * 1_000_000})
    assert quarry.stop() == 0
    inserts = [event for event in events(quarry, "authCheck") if event["param"]["command"] == "insert"]
    assert len(inserts) == clients * each
    assert max(map(len, quarry.audit.read_text().splitlines())) < 64 << 10


def test_bson_and_rotation(tmp_path):
    quarry = start(tmp_path, "--auditFormat", "BSON", path=tmp_path / "audit.bson", auth=False)
    with MongoClient(quarry.uri) as client:
        client.db.create_collection("before")
        assert client.admin.command("getCmdLineOpts")["parsed"]["auditLog"]["format"] == "BSON"
        client.admin.command("logRotate", 1)
        client.db.create_collection("between")
        aside = [path for path in tmp_path.iterdir() if path.name.startswith("audit.bson.")]
        assert len(aside) == 1
        quarry.process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(list(tmp_path.glob("audit.bson*"))) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        client.db.create_collection("after")
    assert quarry.stop() == 0
    files = sorted(tmp_path.glob("audit.bson.*")) + [quarry.audit]
    made = [[event["param"]["ns"] for event in bson.decode_all(path.read_bytes()) if event["atype"] == "createCollection"] for path in files]
    assert made == [["db.before"], ["db.between"], ["db.after"]]


def test_each_log_is_rotated_by_its_name_and_both_together(tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    quarry = start(tmp_path, "--logpath", str(logs / "server.log"), auth=False)
    aside = lambda: (len(list(logs.glob("server.log.*"))), len(list(tmp_path.glob("audit.json.*"))))  # noqa: E731
    with MongoClient(quarry.uri) as client:
        for what, expected in [("audit", (0, 1)), ("server", (1, 1)), (1, (2, 2))]:
            client.admin.command("logRotate", what)
            assert aside() == expected, what
        with refused(NO_SUCH_KEY):
            client.admin.command("logRotate", "journal")
        # A log that cannot be rotated does not keep the other from it.
        shutil.rmtree(logs)
        with refused(FILE_RENAME_FAILED):
            client.admin.command("logRotate", 1)
        assert aside() == (0, 3)
    quarry.kill()
    quarry = Guarded(tmp_path / "plain", "memory").start()
    with MongoClient(quarry.uri) as client, refused(NO_SUCH_KEY):
        client.admin.command("logRotate", "audit")
    assert quarry.stop() == 0


@contextlib.contextmanager
def login_elsewhere(quarry):
    """A process with a client that is logged in, says nothing any more and does not say farewell."""
    program = f"""
import time
from pymongo import MongoClient
client = MongoClient({quarry.uri!r}, username="root", password="x", maxPoolSize=1)
client.db.command("ping")
print("ready", flush=True)
time.sleep({10 * PATIENCE_SECONDS})
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()


def fill(pipe):
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(pipe, b"\n" * 512)


def test_a_disk_that_hangs_keeps_nobody_from_waking(tmp_path):
    # A pipe that nobody reads stands for it.
    path = tmp_path / "audit.json"
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    quarry = start(tmp_path, "--setParameter", "connectionParkMillis=50", "--auditFilter", '{"atype": "logout"}', path=path)
    with MongoClient(quarry.uri) as first:
        first.admin.command("createUser", "root", pwd="x", roles=["root"])
    with contextlib.ExitStack() as stack:
        sleepers = [stack.enter_context(WireClient(quarry.port, timeout_seconds=PATIENCE_SECONDS)) for _ in range(3)]
        elsewhere = stack.enter_context(login_elsewhere(quarry))
        watcher = stack.enter_context(login(quarry, "root", "x"))
        parked = lambda: watcher.admin.command("serverStatus")["connections"]["parked"]  # noqa: E731
        deadline = time.monotonic() + PATIENCE_SECONDS
        while parked() < len(sleepers) + 1:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        fill(pipe)
        elsewhere.kill()
        elsewhere.wait()
        # The event of its logout hangs; all others go on.
        for sleeper in sleepers:
            assert sleeper.run({"ping": 1})["ok"] == 1
        deadline = time.monotonic() + PATIENCE_SECONDS
        while parked() < len(sleepers):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        for sleeper in sleepers:
            assert sleeper.run({"ping": 1})["ok"] == 1
        quarry.kill()
    os.close(pipe)


def test_nothing_to_be_audited_is_done_where_no_event_can_be_written(tmp_path):
    # A device that is always full.
    quarry = start(tmp_path, "--auditFilter", '{"atype": "authenticate"}', path="/dev/full")
    with MongoClient(quarry.uri) as first:
        first.admin.command("createUser", "root", pwd="x", roles=["root"])
        with pytest.raises(OperationFailure) as failure, login(quarry, "root", "x") as root:
            root.db.c.find_one()
        assert failure.value.code == OPERATION_FAILED
    assert "the audit log cannot be written" in quarry.log.read_text()
    quarry.kill()
    # An event that fails first is of something that was done, and is not acknowledged. From there on nothing like it is done.
    quarry = start(tmp_path / "first", "--auditFilter", '{"atype": {"$in": ["createCollection", "dropCollection"]}}', path="/dev/full", auth=False)
    with MongoClient(quarry.uri) as client:
        with refused(OPERATION_FAILED):
            client.db.create_collection("c")
        assert client.db.list_collection_names() == ["c"]
        with refused(OPERATION_FAILED):
            client.db.drop_collection("c")
        assert client.db.list_collection_names() == ["c"]
    quarry.kill()
    # Who connects is let in without a trail of its driver.
    quarry = start(tmp_path / "open", "--auditFilter", '{"atype": {"$ne": "startup"}}', path="/dev/full", auth=False)
    with MongoClient(quarry.uri) as client:
        client.db.c.find_one()
        with refused(OPERATION_FAILED):
            client.db.create_collection("c")
        # What the client said of itself could not be written: nothing is done.
        assert client.db.list_collection_names() == []
        client.db.command("ping")
    quarry.kill()


def test_a_full_disk_keeps_nobody_from_writing_documents(tmp_path):
    quarry = start(tmp_path, "--auditFilter", '{"atype": {"$ne": "startup"}, "param.ns": {"$ne": "db.c"}}', path="/dev/full", auth=False)
    with MongoClient(quarry.uri) as client:
        # What the client said of itself cannot be written; that this collection is made need not be.
        client.db.c.insert_one({"_id": 1})
        client.db.c.insert_many([{"_id": number} for number in range(2, 10)])
        client.db.c.update_one({"_id": 1}, {"$set": {"a": 1}}, upsert=True)
        client.db.c.delete_one({"_id": 9})
        client.bulk_write([UpdateOne({"_id": 2}, {"$set": {"a": 2}}, namespace="db.c")])
        assert client.db.c.count_documents({}) == 8
        with refused(OPERATION_FAILED):
            client.db.other.insert_one({"_id": 1})
        with refused(OPERATION_FAILED):
            client.admin.command("bulkWrite", 1, ops=[{"insert": 0, "document": {}}], nsInfo=[{"ns": "db.other"}])
        with refused(OPERATION_FAILED):
            client.admin["system.users"].delete_one({"_id": "nobody"})
        assert client.db.list_collection_names() == ["c"]
    quarry.kill()


def test_a_file_that_cannot_be_opened_refuses_the_start(tmp_path):
    with pytest.raises(RuntimeError, match=r"(?s)ended with 2.*auditPath"):
        start(tmp_path, path=tmp_path / "nowhere" / "audit.json")
