"""What an operator meets: who may read the files, what the log says of a start and of damage, and how a service manager and a
terminal hear of a server that does or does not come up."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from bson.errors import InvalidBSON
from bson.int64 import Int64
from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.server_api import ServerApi

from certificates import Authority
from quarry_process import START_SECONDS_MAX, Quarry, binary
from wire_client import CommandFailed, WireClient

DATA_CORRUPTION_DETECTED = 301
ILLEGAL_OPERATION = 20
# mongod's for a data directory that cannot be used.
DATA_DIRECTORY_EXIT = 100
# So long a compaction is waited for that meets damage.
DAMAGE_SECONDS_MAX = 60


@pytest.fixture
def quarry(tmp_path):
    """Not started, over RocksDB. It may leave damaged data, which nobody validates."""
    made = Quarry(tmp_path / "data", "rocksdb")
    yield made
    if made.running():
        made.kill()


def logged(quarry, message):
    """The attributes of the log's lines with this message."""
    lines = [json.loads(line) for line in quarry.log.read_text().splitlines() if line.startswith("{")]
    return [line.get("attr", {}) for line in lines if line["msg"] == message]


def end(quarry):
    quarry.process.send_signal(signal.SIGTERM)
    assert quarry.process.wait(START_SECONDS_MAX) == 0, quarry.tail()


def open_to_others(directory):
    """The files below the directory, and itself, with which the group or others may do anything."""
    paths = [pathlib.Path(directory), *pathlib.Path(directory).rglob("*")]
    return [path for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o077]


@pytest.fixture
def generous_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize("engine", ["rocksdb", "mdbx"])
def test_the_data_and_its_copies_are_their_owners_alone(tmp_path, generous_umask, engine):
    log, repository, restored = tmp_path / "server.log", tmp_path / "repository", tmp_path / "restored"
    archive = tmp_path / "archive"
    quarry = Quarry(tmp_path / "made" / "data", engine, ["--logpath", str(log), "--journalArchive", str(archive)])
    # The server itself makes the directory.
    quarry.directory.parent.mkdir()
    quarry.start()
    try:
        quarry.directory.chmod(0o700)
        with MongoClient(quarry.uri) as client:
            client.d.c.insert_one({"secret": "of others"})
        places = ["--dbpath", str(quarry.directory), "--to", str(repository)]
        subprocess.run([binary(), "backup", "create", *places], check=True, capture_output=True)
    finally:
        end(quarry)
    places = ["--from", str(repository), "--dbpath", str(restored)]
    subprocess.run([binary(), "restore", *places], check=True, capture_output=True)
    for made in (quarry.directory, repository, restored, archive):
        assert open_to_others(made) == [], made
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_the_systems_umask_is_honoured_on_request(tmp_path, generous_umask):
    log = tmp_path / "server.log"
    quarry = Quarry(tmp_path / "data", "memory", ["--logpath", str(log), "--setParameter", "honorSystemUmask=true"])
    quarry.start()
    try:
        with MongoClient(quarry.uri) as client:
            assert client.admin.command("getParameter", honorSystemUmask=1)["honorSystemUmask"] is True
        assert stat.S_IMODE(log.stat().st_mode) == 0o644
    finally:
        end(quarry)


def test_a_start_says_what_it_replayed(quarry):
    quarry.start()
    with MongoClient(quarry.uri) as client:
        for number in range(20):
            client.d.c.insert_one({"_id": number})
    quarry.kill()
    quarry.start()
    end(quarry)
    quarry.start()
    first, after_crash, after_stop = logged(quarry, "data opened")
    assert first["replayedRecords"] == 0
    # At least a record for each insert, and those that made the collection.
    assert after_crash["replayedRecords"] >= 20
    assert after_crash["lastRecord"] >= after_crash["replayedRecords"]
    assert after_stop["replayedRecords"] == 0
    assert all(line["durationMillis"] >= 0 and line["journalBytes"] > 0 for line in (first, after_crash, after_stop))
    end(quarry)


def damage_largest_table(directory):
    """Flips a byte in the middle of the largest table of RocksDB, and gives the table's name."""
    table = max((directory / "rocksdb").glob("*.sst"), key=lambda path: path.stat().st_size)
    with table.open("r+b") as opened:
        middle = table.stat().st_size // 2
        opened.seek(middle)
        byte = opened.read(1)[0]
        opened.seek(middle)
        opened.write(bytes([byte ^ 0xFF]))
    return table.name


def test_damage_that_a_read_meets_is_logged_counted_and_invalid(quarry):
    quarry.start()
    with MongoClient(quarry.uri) as client:
        client.d.c.insert_many([{"_id": number, "x": os.urandom(200)} for number in range(3000)])
        client.admin.command("fsync")
    end(quarry)
    table = damage_largest_table(quarry.directory)
    quarry.start()
    with MongoClient(quarry.uri) as client:
        for _ in range(3):
            with pytest.raises(OperationFailure) as failed:
                list(client.d.c.find())
            assert failed.value.code == DATA_CORRUPTION_DETECTED
            assert table in str(failed.value)
        # A write that reads the damaged block first.
        with pytest.raises(OperationFailure):
            client.d.c.update_many({}, {"$set": {"seen": True}})
        report = client.d.command("validate", "c")
        assert report["valid"] is False and table in report["errors"][0]
        errors = client.admin.command("serverStatus")["quarry"]["errors"]
        assert str(DATA_CORRUPTION_DETECTED) in json.dumps(errors, default=str)
    lines = logged(quarry, "stored data is damaged")
    assert lines and all(line["namespace"] == "d.c" and table in line["error"] for line in lines)
    # Each place once, however often it is met.
    assert len({line["error"] for line in lines}) == len(lines)
    quarry.kill()


def flip_in_file(path, *places):
    """Flips the last bit of the byte at the end of each place, wherever in the file that stands; there must be some of each."""
    content = bytearray(path.read_bytes())
    for place in places:
        found = [match.end() - 1 for match in re.finditer(re.escape(place), content)]
        assert found, place
        for at in found:
            content[at] ^= 1
    path.write_bytes(content)


def test_a_server_on_libmdbx_says_that_damage_to_its_file_is_not_noticed(tmp_path):
    """And what docs/durability.md says of it: a flipped bit in a value is returned as it is, and `validate` sees it only where it
    breaks an index entry or a document."""
    quarry = Quarry(tmp_path / "data", "mdbx").start()
    try:
        with MongoClient(quarry.uri) as client:
            for name in ("plain", "indexed", "broken"):
                client.d[name].create_index("a")
                client.d[name].insert_many([{"_id": number, "a": f"{name} {number}", "b": f"text of {name} {number}"} for number in range(100)])
        end(quarry)
        # Texts that no index has; texts as their document has them, their keys of an index aside; the type of a field.
        flip_in_file(quarry.directory / "mdbx/mdbx.dat", b"text of plain 55", b"\x02a\0\x0b\0\0\0indexed 55", b"broken 55\0\x02")
        quarry.start()
        with MongoClient(quarry.uri) as client:
            said = [line for line in client.admin.command("getLog", "startupWarnings")["log"] if "keeps no checksums" in line]
            assert len(said) == 1 and "damage that the disk does to its file is not noticed" in said[0], said
            assert client.d.plain.find_one(55) == {"_id": 55, "a": "plain 55", "b": "text of plain 54"}
            valid = {name: client.d.command("validate", name, full=True)["valid"] for name in ("plain", "indexed", "broken")}
            assert valid == {"plain": True, "indexed": False, "broken": False}
            with pytest.raises(InvalidBSON):
                client.d.broken.find_one(55)
            assert client.d.broken.find_one(54)["b"] == "text of broken 54"
    finally:
        quarry.kill()
    # At each start.
    assert quarry.log.read_text().count("libmdbx keeps no checksums of its pages") == 2


def test_the_scan_of_an_index_build_is_logged(quarry):
    quarry.start()
    with MongoClient(quarry.uri) as client:
        client.d.c.create_index("empty")
        client.d.c.insert_many([{"_id": number} for number in range(10)])
        client.d.c.create_index("a")
    [line] = logged(quarry, "Index build: collection scan done")
    assert (line["namespace"], line["totalRecords"]) == ("d.c", 10) and line["durationMillis"] >= 0
    end(quarry)


def health(quarry):
    """Status and text of /health."""
    try:
        with urllib.request.urlopen(quarry.admin_url + "health") as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def test_damage_that_a_compaction_meets_refuses_writes_and_is_shown(tmp_path):
    quarry = Quarry(tmp_path / "data", "rocksdb", ["--adminPort", "0"])
    quarry.start()
    try:
        with MongoClient(quarry.uri) as client:
            client.d.c.insert_many([{"_id": number, "x": os.urandom(200)} for number in range(3000)])
        end(quarry)
        table = damage_largest_table(quarry.directory)
        quarry.start()
        with MongoClient(quarry.uri, retryWrites=False) as client:
            assert health(quarry) == (200, "ok\n")
            deadline = time.monotonic() + DAMAGE_SECONDS_MAX
            while health(quarry)[0] == 200:
                assert time.monotonic() < deadline, "no compaction meets the damage"
                with contextlib.suppress(PyMongoError):
                    client.d.other.insert_one({})
                    # Each lock flushes a table of the first level; some of those are compacted together.
                    client.admin.command("fsync", lock=True)
                    client.admin.command("fsyncUnlock")
            assert table in client.admin.command("serverStatus")["quarry"]["refusedWrites"]["reason"]
            with pytest.raises(PyMongoError, match="damage was met in the background"):
                client.d.other.insert_one({})
            assert client.d.other.find_one() is not None
            assert health(quarry) == (503, "stored data is damaged: writes are refused\n")
            warnings = client.admin.command("getLog", "startupWarnings")["log"]
            assert any("stored data is damaged" in line and table in line for line in warnings)
        lines = logged(quarry, "writes are refused")
        # A write that the engine refuses before anybody has looked at the engine has its own line.
        assert 1 <= len(lines) <= 2 and all(table in line["reason"] for line in lines)
        quarry.process.send_signal(signal.SIGTERM)
        assert quarry.process.wait(START_SECONDS_MAX) == DATA_DIRECTORY_EXIT
    finally:
        if quarry.running():
            quarry.kill()


class ServiceManager:
    """The socket on which systemd would listen."""

    def __init__(self, path):
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(START_SECONDS_MAX)

    def next(self):
        return self.socket.recv(4096).decode().splitlines()


def test_a_service_manager_is_told_when_clients_can_connect_and_when_the_server_stops(quarry, tmp_path, monkeypatch):
    manager = ServiceManager(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", str(manager.path))
    quarry.start()
    assert "READY=1" in manager.next()
    with MongoClient(quarry.uri) as client:
        client.admin.command("ping")
    end(quarry)
    assert "STOPPING=1" in manager.next()


def run_in_background(port, *arguments):
    command = [binary(), "mongod", "--fork", "--port", str(port), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS_MAX)


def test_whoever_starts_a_server_in_the_background_is_told_why_it_does_not_serve(tmp_path):
    log = ["--logpath", str(tmp_path / "mongod.log")]
    missing = run_in_background(0, "--dbpath", str(tmp_path / "missing"), *log)
    assert missing.returncode == 100
    assert f"Data directory {tmp_path / 'missing'} not found" in missing.stdout
    assert "child process failed, exited with 100" in missing.stderr
    data = tmp_path / "data"
    data.mkdir()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = run_in_background(port, "--dbpath", str(data), *log)
    assert refused.returncode == 48
    assert f"cannot listen on 127.0.0.1:{port}" in refused.stderr
    nowhere = run_in_background(0, "--dbpath", str(data), "--logpath", str(tmp_path / "nowhere" / "mongod.log"))
    assert nowhere.returncode == 2
    assert f"the log `{tmp_path / 'nowhere' / 'mongod.log'}` cannot be written" in nowhere.stderr


def test_a_changed_parameter_is_logged(tmp_path):
    quarry = Quarry(tmp_path / "data", "memory")
    quarry.start()
    try:
        with MongoClient(quarry.uri) as client:
            client.admin.command("setParameter", 1, cursorTimeoutMillis=300_000)
        lines = logged(quarry, "Successfully set parameter to new value")
        assert lines == [{"parameterName": "cursorTimeoutMillis", "newValue": "300000"}]
    finally:
        end(quarry)


def test_a_journal_that_is_gone_is_damage_and_refuses_the_start(quarry):
    quarry.start()
    with MongoClient(quarry.uri) as client:
        client.d.c.insert_one({})
    quarry.kill()
    for segment in (quarry.directory / "journal").glob("*.segment"):
        segment.unlink()
    verified = subprocess.run([binary(), "journal", "verify", "--dbpath", str(quarry.directory)], capture_output=True, text=True)
    assert verified.returncode == 1 and "no segments, and there is data of the engine `rocksdb`" in verified.stderr
    with pytest.raises(RuntimeError, match="ended with 100"):
        quarry.start()


OPERATIONS = pathlib.Path(__file__).parents[2] / "docs" / "operations.md"


def table(heading):
    """The cells of the rows of the table behind a heading of the manual, without its first two lines."""
    section = OPERATIONS.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def metrics_of(quarry):
    """Name, kind and help of every metric."""
    with urllib.request.urlopen(quarry.admin_url + "metrics") as answer:
        lines = answer.read().decode().splitlines()
    described = [line.split(" ", 3) for line in lines if line.startswith("# ")]
    helps = {name: text for _, what, name, text in described if what == "HELP"}
    kinds = {name: text for _, what, name, text in described if what == "TYPE"}
    return [[f"`{name}`", kinds[name], helps[name]] for name in sorted(helps)]


def test_the_manual_has_every_metric(tmp_path):
    archive = ["--journalArchive", str(tmp_path / "archive"), "--otlpEndpoint", "http://127.0.0.1:9"]
    # Encryption is offered, and the admin port speaks without it, too.
    authority = Authority(tmp_path / "authority")
    encryption = ["--tlsMode", "allowTLS", "--tlsCertificateKeyFile", str(authority.server())]
    quarry = Quarry(tmp_path / "data", "rocksdb", ["--adminPort", "0", *archive, *encryption])
    quarry.start()
    try:
        with MongoClient(quarry.uri) as client:
            client.d.c.insert_one({})
        assert table("Metrics") == metrics_of(quarry)
    finally:
        end(quarry)


def shown(value):
    """A default as the manual writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_the_manual_has_every_parameter_with_its_default_and_when_it_can_be_changed(quarry):
    # Those that depend on the machine, the flags or the engine are described in words.
    described = {"memoryBudgetMB", "networkMessageCompressors", "recordCacheMB", "commitShortcutsOff", "featureCompatibilityVersion",
                 "logComponentVerbosity", "internalQueryPipelineThreadsMax"}
    quarry.start()
    with MongoClient(quarry.uri) as client:
        parameters = client.admin.command("getParameter", "*")
        del parameters["ok"]
        rows = {name.strip("`"): (default, changed) for name, default, changed, _ in table("Parameters")}
        assert sorted(rows) == sorted(parameters)
        for name, value in parameters.items():
            default, changed = rows[name]
            assert name in described or default == shown(value), name
            try:
                client.admin.command("setParameter", 1, **{name: value})
                assert changed == "any time", name
            except OperationFailure as refused:
                assert refused.code == ILLEGAL_OPERATION and changed in ("at the start", "never"), name
    end(quarry)


def test_a_server_that_requires_a_version_serves_those_who_name_one(tmp_path):
    quarry = Quarry(tmp_path / "data", "memory", ["--replSet", "rs0", "--setParameter", "requireApiVersion=true"])
    quarry.start()
    strict = ServerApi("1", strict=True, deprecation_errors=True)
    # Without sessions, of which each driver has its own.
    with MongoClient(quarry.uri, server_api=strict) as client, WireClient(quarry.port) as other:
        things = client.test.things
        things.insert_many([{"_id": number} for number in range(10)])
        assert len(things.find(batch_size=3).to_list()) == 10
        with client.start_session() as session, session.start_transaction():
            things.update_one({"_id": 0}, {"$set": {"a": 1}}, session=session)
            assert len(things.find(batch_size=3, session=session).to_list()) == 10
        version, lax = {"apiVersion": "1", "apiStrict": True}, {"apiVersion": "1"}
        found = other.run({"find": "things", "batchSize": 3, **version})["cursor"]
        more = {"getMore": Int64(found["id"]), "collection": "things"}
        with pytest.raises(CommandFailed) as mismatch:
            other.run({**more, **lax})
        assert mismatch.value.code == 347
        assert len(other.run({**more, **version})["cursor"]["nextBatch"]) == 7
        with MongoClient(quarry.uri, directConnection=True, serverSelectionTimeoutMS=2000) as unversioned:
            with pytest.raises(PyMongoError) as refused:
                unversioned.admin.command("ping")
            assert "The apiVersion parameter is required" in str(refused.value)
            other.run({"setParameter": 1, "requireApiVersion": False, **lax}, "admin")
            assert unversioned.admin.command("ping")["ok"] == 1
    end(quarry)


@pytest.mark.parametrize(("expired", "warning"), [(False, "expires soon"), (True, "has expired")])
def test_a_certificate_that_ends_is_warned_of(tmp_path, expired, warning):
    authority = Authority(tmp_path / "authority")
    # It is good for thirty days, or for none any more.
    certificate = authority.sign("server", "/CN=localhost", "DNS:localhost,IP:127.0.0.1", expired=expired)
    encryption = ["--tlsMode", "allowTLS", "--tlsCertificateKeyFile", str(certificate)]
    quarry = Quarry(tmp_path / "data", "memory", encryption)
    quarry.start()
    try:
        warned = logged(quarry, f"the server's certificate {warning}")
        assert [line["subject"] for line in warned] == ["CN=localhost"]
        assert (warned[0]["daysLeft"] > 0) is not expired
        with MongoClient(quarry.uri) as client:
            shown_to_shells = client.admin.command("getLog", "startupWarnings")["log"]
        assert any(warning in line for line in shown_to_shells)
    finally:
        end(quarry)


COMMANDS = [
    "journal verify", "journal dump", "journal truncate", "journal renew", "user add", "backup create", "backup list", "backup verify", "backup remove",
    "archive list", "archive flush", "archive verify", "archive remove", "restore", "rotate-key", "dump", "restore-dump", "import",
    "export", "migrate", "top",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_manual_has_every_flag_of_a_tool(command):
    root = OPERATIONS.parents[1]
    manual = "\n".join(page.read_text() for page in [root / "README.md", *OPERATIONS.parent.glob("*.md")])
    told = subprocess.run([binary(), *command.split(), "--help"], capture_output=True, text=True, check=True).stdout
    flags = set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", told, re.MULTILINE)) - {"--help"}
    assert flags, told
    assert [flag for flag in sorted(flags) if not re.search(rf"{flag}(?![\w-])", manual)] == []
