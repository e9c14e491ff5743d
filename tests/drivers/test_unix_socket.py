"""Sockets of the file system, which clients of this machine open instead of the port."""

import json
import os
import shutil
import stat
import subprocess
import tempfile
import urllib.parse

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from quarry_process import Quarry, binary


def uri(path, options="", login=""):
    return f"mongodb://{login}{urllib.parse.quote(str(path), safe='')}/{options}"


@pytest.fixture
def prefix():
    """A directory with a short path: that of a socket has 107 bytes at most."""
    made = tempfile.mkdtemp(prefix="quarry-socket-")
    yield made
    shutil.rmtree(made)


@pytest.fixture
def start(tmp_path, prefix):
    """Starts servers of the memory engine whose socket is in `prefix`."""
    started = []

    def start(*arguments, name="data"):
        quarry = Quarry(tmp_path / name, "memory", ["--unixSocketPrefix", prefix, *arguments])
        started.append(quarry)
        quarry.start()
        return quarry

    yield start
    for quarry in started:
        if quarry.running():
            quarry.kill()


def socket_of(quarry, prefix):
    return os.path.join(prefix, f"mongodb-{quarry.port}.sock")


def started_line(quarry):
    said = [json.loads(line) for line in quarry.log.read_text().splitlines() if '"listening"' in line]
    return said[-1]["attr"]


def test_a_client_works_over_the_path_as_over_the_port(start, prefix):
    quarry = start()
    path = socket_of(quarry, prefix)
    assert started_line(quarry)["socket"] == path
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
    with MongoClient(uri(path)) as client, MongoClient(quarry.uri) as by_port:
        things = client.test.things
        things.insert_many([{"_id": i, "s": "x" * 10_000} for i in range(3_000)])
        assert sum(1 for _ in things.find()) == 3_000
        assert by_port.test.things.count_documents({}) == 3_000
        assert client.admin.command("whatsmyuri")["you"] == "anonymous unix socket"
        running = client.admin.aggregate([{"$currentOp": {}}, {"$match": {"command.aggregate": 1}}])
        assert [operation["client"] for operation in running] == ["anonymous unix socket"]
        client.test.command("profile", 2)
        things.find_one({"_id": 7})
        assert client.test["system.profile"].find_one({"op": "query"})["client"] == "anonymous unix socket"
        shown = client.admin.command("getCmdLineOpts")["parsed"]["net"]["unixDomainSocket"]
        assert shown == {"enabled": True, "filePermissions": "0700"}
    assert quarry.stop() == 0
    assert not os.path.exists(path)


def test_changes_are_followed_and_transactions_run_on_a_set(start, prefix):
    quarry = start("--replSet", "rs0")
    # Who is told an address is told one that it can reach.
    with MongoClient(uri(socket_of(quarry, prefix)), directConnection=True) as client:
        assert client.admin.command("hello")["me"] == f"127.0.0.1:{quarry.port}"
        with client.test.things.watch() as stream, client.start_session() as session:
            with session.start_transaction():
                client.test.things.insert_one({"_id": 1}, session=session)
            assert next(stream)["documentKey"] == {"_id": 1}
    with MongoClient(uri(socket_of(quarry, prefix), "?replicaSet=rs0")) as client:
        assert client.test.things.find_one() == {"_id": 1}


def test_a_killed_server_leaves_a_file_that_the_next_one_takes_over(start, prefix):
    quarry = start("--filePermissions", "0666")
    path = socket_of(quarry, prefix)
    quarry.kill()
    assert os.path.exists(path)
    again = start("--port", str(quarry.port), "--filePermissions", "0666", name="again")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o666
    with MongoClient(uri(path)) as client:
        client.test.things.insert_one({})
    # Nobody takes the clients of a server that runs.
    taken = ["--bind_ip", path, "--dbpath", str(again.directory) + "-other", "--engine", "memory", "--adminPort", "off"]
    refused = subprocess.run([binary(), "serve", *taken], capture_output=True, text=True, timeout=30)
    assert refused.returncode == 48 and "another server listens there" in refused.stdout
    with MongoClient(uri(path)) as client:
        assert client.test.things.count_documents({}) == 1


def test_a_path_may_be_all_that_is_listened_on(start, prefix):
    path = os.path.join(prefix, "own.sock")
    quarry = start("--bind_ip", path, "--port", "4711")
    # The socket of the port stands for an address, of which there is none.
    assert os.listdir(prefix) == ["own.sock"]
    assert tcp_listeners(quarry) == set()
    with MongoClient(uri(path)) as client:
        assert client.admin.command("ping")["ok"] == 1


def tcp_listeners(quarry):
    """The sockets of the network that the process listens on."""
    listening = set()
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{quarry.process.pid}/net/{table}", encoding="ascii") as lines:
            listening |= {fields[9] for fields in map(str.split, lines) if fields[3] == "0A"}
    own = f"/proc/{quarry.process.pid}/fd"
    opened = {os.readlink(f"{own}/{name}") for name in os.listdir(own)}
    return {inode for inode in listening if f"socket:[{inode}]" in opened}


def test_no_socket_is_made_where_none_is_wanted(start, prefix):
    start("--nounixsocket")
    assert os.listdir(prefix) == []


def test_a_login_over_the_path_is_one_of_this_machine_without_an_address(start, prefix, tmp_path):
    audit = tmp_path / "audit.json"
    audited = ["--auditDestination", "file", "--auditFormat", "JSON", "--auditPath", str(audit)]
    quarry = start("--auth", *audited)
    path = socket_of(quarry, prefix)
    with MongoClient(uri(path)) as client:
        # The first user is made from this machine.
        client.admin.command("createUser", "root", pwd="secret", roles=["root"])
        with pytest.raises(OperationFailure) as refused:
            client.test.things.insert_one({})
        assert refused.value.code == 13
    with MongoClient(uri(path, login="root:secret@")) as client:
        client.test.things.insert_one({})
        restricted = [{"clientSource": ["127.0.0.1"]}]
        client.admin.command("createUser", "far", pwd="secret", roles=["root"], authenticationRestrictions=restricted)
    with MongoClient(quarry.uri, username="far", password="secret") as client:
        client.test.things.insert_one({})
    with MongoClient(uri(path, login="far:secret@")) as client, pytest.raises(OperationFailure) as refused:
        client.test.things.insert_one({})
    assert refused.value.code == 18
    events = [json.loads(line) for line in audit.read_text().splitlines()]
    login = next(event for event in events if event["atype"] == "authenticate")
    assert (login["local"], login["remote"]) == ({"unix": path}, {"unix": "anonymous"})


def test_our_own_tools_open_the_path(start, prefix, tmp_path):
    quarry = start()
    path = socket_of(quarry, prefix)
    lines = tmp_path / "things.json"
    lines.write_text('{"_id": 1}\n{"_id": 2}\n')
    imported = [binary(), "import", "--uri", uri(path), "--db", "test", "--collection", "things", str(lines)]
    subprocess.run(imported, check=True, capture_output=True, timeout=60)
    with MongoClient(uri(path)) as client:
        assert client.test.things.count_documents({}) == 2
