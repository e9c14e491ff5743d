"""`quarry backup` and `quarry restore`: under load, killed at any moment, damaged, and by whom they are allowed."""

import contextlib
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest
from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, OperationFailure
from quarry_process import Quarry, binary
from test_encryption import holding, key_file
from validation import validate_everything

ENGINES = [engine for engine in os.environ.get("QUARRY_ENGINES", "rocksdb,mdbx").split(",") if engine != "memory"]
# `make torture` asks for more.
ROUNDS = int(os.environ.get("QUARRY_BACKUP_ROUNDS", "3"))
# So many backups are kept beside each other; the oldest is checked and removed for another one.
KEPT_MAX = 10
WRITERS = 3
# A writer keeps its last documents alone. Beside other work a backup takes minutes, and ten backups of all that three writers
# insert meanwhile fill a disk.
DOCUMENTS_KEPT = 2000
# So many backups of data that no flush has come by, and whose journal is in one segment; more would end both.
UNFLUSHED_MAX = 3
PATIENCE_SECONDS = 60
# A backup has the lowest priority: beside a machine's worth of other work it takes as long as that leaves it nothing.
QUARRY_SECONDS = 1800


def quarry(*arguments, text=None):
    """The ended process of a subcommand."""
    command = [binary(), *map(str, arguments)]
    return subprocess.run(command, input=text or "", capture_output=True, text=True, timeout=QUARRY_SECONDS, check=False)


def succeed(*arguments, text=None):
    """What a subcommand that succeeds says."""
    ended = quarry(*arguments, text=text)
    assert ended.returncode == 0, (arguments, ended.stdout, ended.stderr)
    return ended.stdout


def create(server, repository, *arguments):
    """The name of a new backup, and how many MB of how many were new."""
    said = succeed("backup", "create", "--dbpath", server.directory, "--to", repository, *arguments)
    name, all_mb, new_mb = re.match(r"(\S+): \d+ files, ([\d.]+) MB, ([\d.]+) MB of them new", said).groups()
    return name, float(all_mb), float(new_mb)


def restored(repository, directory, engine, *arguments):
    """A server over what a backup restores."""
    succeed("restore", "--from", repository, "--dbpath", directory, *arguments)
    return Quarry(directory, engine).start()


def wait_until(is_so):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Writer(threading.Thread):
    """Inserts numbered documents, and in the same transaction counts them and deletes the one that is too old: a copy has all of that
    or nothing. While it may not go on it rests, so that a check does not run beside its load."""

    def __init__(self, uri, name, may_go_on):
        super().__init__(daemon=True)
        self.may_go_on = may_go_on
        self.client = MongoClient(uri, serverSelectionTimeoutMS=5000, retryWrites=False)
        self.name = name
        self.acknowledged = 0
        self.failure = None
        self.is_over = False

    def run(self):
        things, counts = self.client.load.things, self.client.load.counts
        filler = "x" * 500
        try:
            while self.may_go_on.wait() and not self.is_over:
                number = self.acknowledged
                with self.client.start_session() as session, session.start_transaction():
                    things.insert_one({"_id": f"{self.name} {number}", "w": self.name, "f": filler}, session=session)
                    count = {"$set": {"n": number + 1}}
                    counts.update_one({"_id": self.name}, count, upsert=True, session=session)
                    things.delete_one({"_id": f"{self.name} {number - DOCUMENTS_KEPT}"}, session=session)
                self.acknowledged += 1
        except ConnectionFailure:
            pass
        except Exception as failure:  # told to the test, which ends with it
            self.failure = failure

    def end(self):
        self.is_over = True
        self.may_go_on.set()
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive() and self.failure is None, self.failure
        self.client.close()


@pytest.fixture
def writers(durable):
    # Transactions do not make collections side by side.
    with MongoClient(durable.uri) as client:
        client.load.things.create_index("w")
        client.load.create_collection("counts")
    may_go_on = threading.Event()
    may_go_on.set()
    writers = [Writer(durable.uri, f"writer {number}", may_go_on) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    yield writers
    for writer in writers:
        writer.end()


@contextlib.contextmanager
def resting(writers):
    may_go_on = writers[0].may_go_on
    may_go_on.clear()
    yield
    may_go_on.set()


def check_load(port, at_least, at_most):
    """Of each writer everything that it kept with one of its commits is there, and nothing else."""
    validate_everything(port)
    with MongoClient(f"mongodb://127.0.0.1:{port}/") as client:
        for name, least in at_least.items():
            counted = (client.load.counts.find_one({"_id": name}) or {"n": 0})["n"]
            assert least <= counted <= at_most[name], (name, least, counted, at_most[name])
            found = {document["_id"] for document in client.load.things.find({"w": name}, {"_id": 1})}
            assert found == {f"{name} {number}" for number in range(max(counted - DOCUMENTS_KEPT, 0), counted)}


def acknowledged(writers):
    return {writer.name: writer.acknowledged for writer in writers}


def test_a_backup_under_load_holds_what_was_acknowledged_before_and_no_part_of_a_transaction(durable, writers, tmp_path):
    repository = tmp_path / "repository"
    backups, shared_mb = [], 0

    def check(name, before, after):
        server = restored(repository, tmp_path / name, durable.engine, "--id", name)
        try:
            check_load(server.port, before, after)
        finally:
            assert server.stop() == 0
        shutil.rmtree(tmp_path / name)

    for number in range(ROUNDS):
        wait_until(lambda: min(acknowledged(writers).values()) >= 20 * (number + 1))
        before = acknowledged(writers)
        name, all_mb, new_mb = create(durable, repository)
        # One that was not acknowledged yet may be in the copy.
        after = {writer: count + 1 for writer, count in acknowledged(writers).items()}
        # A compaction of so little data leaves none of it as it was, so that single ones may share nothing with those before.
        shared_mb += all_mb - new_mb
        backups.append((name, before, after))
        if len(backups) > KEPT_MAX:
            # The oldest one goes, whatever it shares with the others.
            with resting(writers):
                check(*backups.pop(0))
            succeed("backup", "remove", "--from", repository, "--keep", KEPT_MAX)
    assert shared_mb > 0
    for writer in writers:
        writer.end()
    assert [line.split()[0] for line in succeed("backup", "list", "--from", repository).splitlines()] == [
        name for name, _, _ in backups
    ]
    assert succeed("backup", "verify", "--from", repository).count(": whole") == len(backups)
    for backup in backups:
        check(*backup)
    # The latest one without a name; the others go, and what they shared stays.
    succeed("backup", "remove", "--from", repository, "--keep", 1)
    server = restored(repository, tmp_path / "latest", durable.engine)
    try:
        check_load(server.port, *backups[-1][1:])
    finally:
        server.kill()


def test_backups_are_kept_for_their_number_and_their_age(durable, tmp_path):
    repository = tmp_path / "repository"
    names = sorted(create(durable, repository)[0] for _ in range(4))

    def kept(*rules):
        succeed("backup", "remove", "--from", repository, *rules)
        return [line.split()[0] for line in succeed("backup", "list", "--from", repository).splitlines()]

    # Neither rule removes what the other one keeps.
    assert kept("--keep-within", "1h") == names
    assert kept("--keep-within", "1h", "--keep", 1) == names
    assert kept("--keep-within", "0m", "--keep", 3) == names[1:]
    # One that does not tell its age, or what it needs, is in the way of all removing.
    manifest = repository / "backups" / names[2]
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[:-1])
    refused = quarry("backup", "remove", "--from", repository, "--keep-within", "0m")
    assert refused.returncode == 1 and names[2] in refused.stderr
    manifest.write_bytes(whole)
    assert kept("--keep-within", "1w") == names[1:]
    # The latest one stays whatever its age.
    assert kept("--keep-within", "0m") == names[3:]
    refused = quarry("backup", "remove", "--from", repository, "--keep-within", "30")
    assert refused.returncode == 2 and "30d" in refused.stderr


def test_a_backup_holds_what_the_engine_has_in_memory_alone(durable, tmp_path):
    repository = tmp_path / "repository"
    numbers = range(5_000)
    with MongoClient(durable.uri) as client:

        def flushes():
            return client.admin.command("serverStatus")["quarry"]["engineCounters"]["flushes"]

        def change(by):
            """Documents come and go, and each that stays is another one."""
            client.load.held.delete_many({"_id": {"$in": [number for number in numbers if number % 7 == by]}})
            client.load.held.update_many({}, {"$inc": {"n": by}})
            client.load[f"made {by}"].insert_one({"_id": by})
            client.load.drop_collection(f"made {by - 1}")
            return list(client.load.held.find().sort("_id")), sorted(client.load.list_collection_names())

        client.load.held.insert_many([{"_id": number, "n": 0, "f": os.urandom(200)} for number in numbers])
        client.load.held.create_index("n")
        before = flushes()
        states = []
        for by in range(1, UNFLUSHED_MAX + 1):
            state = change(by)
            name, all_mb, new_mb = create(durable, repository)
            states.append((name, state))
            assert by == 1 or new_mb < all_mb, "what two backups share of the journal is kept once"
            # What a drop leaves behind is a reason for one, some time later; the first round drops nothing.
            is_flushed = flushes() != before and durable.engine == "rocksdb"
            assert by > 1 or not is_flushed, "a backup is no reason for a flush"
        # What is acknowledged later is in none of them.
        change(UNFLUSHED_MAX + 1)
    durable.kill()
    for name, (documents, collections) in states:
        server = restored(repository, tmp_path / name, durable.engine, "--id", name)
        try:
            validate_everything(server.port)
            with MongoClient(server.uri) as client:
                assert list(client.load.held.find().sort("_id")) == documents
                assert sorted(client.load.list_collection_names()) == collections
                client.load.held.insert_one({"_id": "later"})
        finally:
            assert server.stop() == 0
    # So has a server that was killed when it took a backup, and a backup of what that one has.
    durable.start()
    name, _, _ = create(durable, repository)
    server = restored(repository, tmp_path / "again", durable.engine, "--id", name)
    try:
        with MongoClient(durable.uri) as client, MongoClient(server.uri) as other:
            assert list(other.load.held.find().sort("_id")) == list(client.load.held.find().sort("_id"))
    finally:
        assert server.stop() == 0


def begin_slowly(server, repository):
    """A backup that takes long, begun: some of its chunks are there."""
    command = [binary(), "backup", "create", "--dbpath", server.directory, "--to", repository, "--rate", "1"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    chunks = pathlib.Path(repository) / "chunks"
    wait_until(lambda: any(chunks.glob("*/*")) or process.poll() is not None)
    assert process.poll() is None, process.stdout.read()
    return process


def fill(server, count=20_000):
    """More than a backup at the slowest rate reads in the time of a test."""
    with MongoClient(server.uri) as client:
        documents = [{"_id": number, "f": os.urandom(400)} for number in range(count)]
        client.load.filler.insert_many(documents)


def last_backup(server):
    """When the server says that it was backed up last."""
    with MongoClient(server.uri) as client:
        return client.admin.command("serverStatus")["quarry"]["upkeep"].get("lastBackup")


def test_the_last_backup_is_one_that_was_made(durable, tmp_path):
    assert last_backup(durable) is None
    (tmp_path / "letter").write_text("dear")
    assert quarry("backup", "create", "--dbpath", durable.directory, "--to", tmp_path).returncode == 1
    with MongoClient(durable.uri) as client:
        # All files are told, and their reader is gone before it closes the cursor.
        list(client.admin.command({"aggregate": 1, "pipeline": [{"$backupCursor": {}}], "cursor": {"batchSize": 10_000}})["cursor"]["firstBatch"])
    assert last_backup(durable) is None
    create(durable, tmp_path / "repository")
    made = last_backup(durable)
    assert made is not None
    durable.kill()
    durable.start()
    assert last_backup(durable) == made, "a start does not forget it"


def test_a_killed_backup_leaves_nothing_in_the_way(durable, tmp_path):
    repository = tmp_path / "repository"
    fill(durable)
    for _ in range(ROUNDS):
        begun = begin_slowly(durable, repository)
        begun.kill()
        begun.wait()
        assert succeed("backup", "list", "--from", repository) == "the repository holds no backup\n"
    copies = durable.directory / "quarry.backup"
    assert len(list(copies.iterdir())) == 1, "the last copy stands until somebody wants another"
    # The server sees that whoever wanted it has gone as soon as it hears of the closed connection.
    def is_made():
        return quarry("backup", "create", "--dbpath", durable.directory, "--to", repository).returncode == 0
    wait_until(is_made)
    assert succeed("backup", "verify", "--from", repository).count(": whole") == 1
    assert not copies.exists()


def test_a_repository_is_of_one_database_and_outside_of_it(durable, tmp_path):
    repository = tmp_path / "repository"
    create(durable, repository)
    other = Quarry(tmp_path / "other", durable.engine).start()
    try:
        refused = quarry("backup", "create", "--dbpath", other.directory, "--to", repository)
        assert refused.returncode == 1 and "is one of another database" in refused.stderr, refused
    finally:
        other.kill()
    assert len(succeed("backup", "list", "--from", repository).splitlines()) == 1
    # What is restored is the same database, which goes on in the same repository.
    back = tmp_path / "back"
    succeed("restore", "--from", repository, "--dbpath", back)
    again = Quarry(back, durable.engine).start()
    try:
        create(again, repository)
    finally:
        again.kill()
    within = durable.directory / "made" / "repository"
    refused = quarry("backup", "create", "--dbpath", durable.directory, "--to", within)
    assert refused.returncode == 1 and "within the data directory" in refused.stderr, refused
    assert not within.parent.exists()


def test_a_manifest_that_was_being_written_goes_with_the_next_removal(durable, tmp_path):
    repository = tmp_path / "repository"
    create(durable, repository)
    last = create(durable, repository)[0]
    (repository / "backups" / f"{last}0.new").write_text("cut off")
    assert len(succeed("backup", "list", "--from", repository).splitlines()) == 2
    succeed("backup", "remove", "--from", repository, "--keep", "1")
    assert [path.name for path in (repository / "backups").iterdir()] == [last]


def test_a_backup_gives_way_to_the_server(durable, tmp_path):
    fill(durable)
    begun = begin_slowly(durable, tmp_path / "repository")
    try:
        assert os.getpriority(os.PRIO_PROCESS, begun.pid) == 19
        assert os.getpriority(os.PRIO_PROCESS, durable.process.pid) == os.getpriority(os.PRIO_PROCESS, 0)
    finally:
        begun.kill()
        begun.wait()


def test_a_backup_of_a_killed_server_is_none(durable, tmp_path):
    repository = tmp_path / "repository"
    fill(durable)
    begun = begin_slowly(durable, repository)
    durable.kill()
    said, _ = begun.communicate(timeout=PATIENCE_SECONDS)
    assert begun.returncode == 1, said
    assert succeed("backup", "list", "--from", repository) == "the repository holds no backup\n"
    durable.start()
    assert not (durable.directory / "quarry.backup").exists()
    create(durable, repository)


def test_a_report_that_nobody_reads_to_its_end_is_no_failure(durable, tmp_path):
    repository = tmp_path / "repository"
    create(durable, repository)
    read_end, write_end = os.pipe()
    os.close(read_end)
    for what in ("list", "verify"):
        command = [binary(), "backup", what, "--from", repository]
        ended = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, timeout=QUARRY_SECONDS, check=False)
        assert (ended.returncode, ended.stderr) == (0, b"")
    os.close(write_end)


def test_damage_is_found_named_and_not_restored(durable, tmp_path):
    repository = tmp_path / "repository"
    fill(durable, 2_000)
    create(durable, repository)
    chunk = max(repository.glob("chunks/*/*"), key=lambda path: (path.read_bytes().strip(b"\0") != b"", path.stat().st_size))
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    found = quarry("backup", "verify", "--from", repository)
    assert found.returncode == 1
    assert f"chunk {chunk.name} is damaged" in found.stdout
    refused = quarry("restore", "--from", repository, "--dbpath", tmp_path / "new")
    assert refused.returncode == 1
    assert "is damaged" in refused.stderr
    with pytest.raises(RuntimeError, match="was being restored into it"):
        Quarry(tmp_path / "new", durable.engine).start()
    # A later backup that shares the chunk does not believe it.
    later, _, _ = create(durable, repository)
    assert succeed("backup", "verify", "--from", repository, later).count(": whole") == 1
    # One that cannot be read is named, and no list of backups that are all there.
    manifest = repository / "backups" / later
    manifest.write_text(manifest.read_text()[:-10])
    listed = quarry("backup", "list", "--from", repository)
    assert listed.returncode == 1
    assert len(listed.stdout.splitlines()) == 2 and f"backup `{later}`: " in listed.stdout


def test_a_plain_directory_is_backed_up_encrypted(durable, tmp_path):
    repository, marker = tmp_path / "repository", b"a word that is nowhere else/7Kq"
    key, new_key = key_file(tmp_path, "backup key"), key_file(tmp_path, "new backup key")
    with_backup_key = ["--backupKeyFile", key]

    def write(number):
        with MongoClient(durable.uri) as client:
            client.load.things.insert_one({"_id": number, "text": marker.decode()})

    fill(durable, 2_000)
    write(1)
    first, _, _ = create(durable, repository, *with_backup_key)
    write(2)
    second, all_mb, new_mb = create(durable, repository, *with_backup_key)
    assert new_mb < all_mb
    assert holding(durable.directory, marker), "it stands in the directory itself"
    for shown in (marker, b"quarry backup 1\n", b"journal", second.encode()):
        assert not holding(repository, shown)
    # Nothing goes without the key, or with another one; nor is a plain repository taken for an encrypted one.
    place = ["--from", repository]
    into = ["--dbpath", tmp_path / "new"]
    for command in (["backup", "list", *place], ["backup", "verify", *place], ["restore", *place, *into]):
        for arguments, why in (([], "give --backupKeyFile"), (["--backupKeyFile", new_key], "another key")):
            ended = quarry(*command, *arguments)
            assert ended.returncode == 1 and why in ended.stderr, ended.stderr
    assert not (tmp_path / "new").exists()
    for arguments, why in (([], "give --backupKeyFile"), (["--backupKeyFile", new_key], "another key")):
        ended = quarry("backup", "create", "--dbpath", durable.directory, "--to", repository, *arguments)
        assert ended.returncode == 1 and why in ended.stderr, ended.stderr
    create(durable, tmp_path / "plain")
    ended = quarry("backup", "list", "--from", tmp_path / "plain", *with_backup_key)
    assert ended.returncode == 1 and "it is not encrypted" in ended.stderr
    open_to_all = key_file(tmp_path, "open to all", mode=0o644)
    ended = quarry("backup", "list", *place, "--backupKeyFile", open_to_all)
    assert ended.returncode == 1 and "backupKeyFile" in ended.stderr and "too open" in ended.stderr
    # Another key takes the place of the first, and no chunk is written for it.
    chunks = {path: path.stat().st_mtime_ns for path in repository.glob("chunks/*/*")}
    rotated = ["--backupKeyFile", key, "--newKeyFile", new_key]
    succeed("backup", "rotate-key", *place, *rotated)
    assert quarry("backup", "rotate-key", *place, *rotated).returncode == 1
    assert quarry("backup", "list", *place, *with_backup_key).returncode == 1
    assert {path: path.stat().st_mtime_ns for path in repository.glob("chunks/*/*")} == chunks
    with_backup_key = ["--backupKeyFile", new_key]
    # Damage is found, named and mended as in a plain one.
    chunk = max(chunks, key=lambda path: path.stat().st_size)
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    found = quarry("backup", "verify", *place, *with_backup_key)
    assert found.returncode == 1 and f"chunk {chunk.name} is damaged" in found.stdout
    write(3)
    third, _, _ = create(durable, repository, *with_backup_key)
    assert succeed("backup", "verify", *place, third, *with_backup_key).count(": whole") == 1
    succeed("backup", "remove", *place, first, *with_backup_key)
    assert [line.split()[0] for line in succeed("backup", "list", *place, *with_backup_key).splitlines()] == [second, third]
    server = restored(repository, tmp_path / "new", durable.engine, "--id", third, *with_backup_key)
    try:
        validate_everything(server.port)
        with MongoClient(server.uri) as client:
            assert {thing["_id"] for thing in client.load.things.find({"text": marker.decode()})} == {1, 2, 3}
    finally:
        assert server.stop() == 0


def test_nothing_is_restored_over_what_is_there(durable, tmp_path):
    repository = tmp_path / "repository"
    create(durable, repository)
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "letter").write_text("dear")
    refused = quarry("restore", "--from", repository, "--dbpath", taken)
    assert refused.returncode == 1
    assert "is not empty" in refused.stderr
    assert [path.name for path in taken.iterdir()] == ["letter"]
    assert "there is none" in quarry("backup", "remove", "--from", repository, "another").stderr


def test_a_repository_without_a_backup_is_not_verified(durable, tmp_path):
    repository = tmp_path / "repository"
    name, _, _ = create(durable, repository)
    succeed("backup", "remove", "--from", repository, name)
    verified = quarry("backup", "verify", "--from", repository)
    assert verified.returncode == 1 and verified.stdout == ""
    assert verified.stderr == "quarry backup: the repository holds no backup\n"
    assert succeed("backup", "list", "--from", repository) == "the repository holds no backup\n"


def test_a_backup_of_an_unknown_engine_is_not_restored(durable, tmp_path):
    repository, new = tmp_path / "repository", tmp_path / "new"
    name, _, _ = create(durable, repository)
    manifest = repository / "backups" / name
    lines = manifest.read_text().replace(f"engine {durable.engine}\n", "engine nosuch\n").splitlines(keepends=True)
    assert "engine nosuch\n" in lines and lines[-1].startswith("end ")
    lines[-1] = f"end {hashlib.sha256(''.join(lines[:-1]).encode()).hexdigest()}\n"
    manifest.write_text("".join(lines))
    refused = quarry("restore", "--from", repository, "--dbpath", new)
    assert refused.returncode == 1 and "an engine `nosuch` is not known" in refused.stderr
    assert not new.exists()


def test_a_restore_that_a_signal_ends_is_said_to_be_cut_off(durable, tmp_path):
    repository, new = tmp_path / "repository", tmp_path / "new"
    with MongoClient(durable.uri) as client:
        client.load.things.insert_many([{"f": os.urandom(100_000)} for _ in range(400)])
    create(durable, repository)
    command = [binary(), "restore", "--from", str(repository), "--dbpath", str(new)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_until((new / "quarry.restoring").exists)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1 and "ended by a signal" in said
    verified = quarry("journal", "verify", "--dbpath", new)
    assert verified.returncode != 0 and "a backup was being restored into it, and that has not ended" in verified.stderr


def test_a_new_file_system_is_empty(durable, tmp_path):
    repository, new = tmp_path / "repository", tmp_path / "new"
    create(durable, repository)
    (new / "lost+found").mkdir(parents=True)
    server = restored(repository, new, durable.engine)
    assert server.stop() == 0 and (new / "lost+found").is_dir()


CURSOR = {"aggregate": 1, "pipeline": [{"$backupCursor": {}}], "cursor": {"batchSize": 1}}


def test_one_backup_cursor_is_open_and_keeps_its_files(durable):
    copies = durable.directory / "quarry.backup"
    with MongoClient(durable.uri) as client, MongoClient(durable.uri) as other:
        cursor = client.admin.command(CURSOR)["cursor"]
        metadata = cursor["firstBatch"][0]["metadata"]
        assert metadata["quarry"]["engine"] == durable.engine
        with pytest.raises(OperationFailure) as refused:
            other.admin.command(CURSOR)
        assert refused.value.code == 50886
        more = {"getMore": cursor["id"], "collection": "$cmd.aggregate"}
        files = client.admin.command(more)["cursor"]["nextBatch"]
        assert all(pathlib.Path(file["filename"]).stat().st_size == file["fileSize"] for file in files)
        # It stays open behind its last file.
        behind = client.admin.command(more)["cursor"]
        assert (behind["nextBatch"], behind["id"]) == ([], cursor["id"])
        client.admin.command("killCursors", "$cmd.aggregate", cursors=[cursor["id"]])
        assert not copies.exists()
        cursor = other.admin.command(CURSOR)["cursor"]
        other.admin.command("killCursors", "$cmd.aggregate", cursors=[cursor["id"]])


@pytest.mark.parametrize(
    ("database", "command", "code"),
    [
        ("load", CURSOR, 73),
        ("admin", CURSOR | {"aggregate": "things"}, 73),
        ("admin", CURSOR | {"pipeline": [{"$backupCursor": 1}]}, 9),
        ("admin", CURSOR | {"pipeline": [{"$backupCursor": {"incrementalBackup": True}}]}, 238),
        ("admin", CURSOR | {"pipeline": [{"$backupCursor": {}}, {"$limit": 1}]}, 238),
        ("admin", CURSOR | {"pipeline": [{"$limit": 1}, {"$backupCursor": {}}]}, None),
    ],
)
def test_a_backup_cursor_elsewhere_is_refused(durable, database, command, code):
    with MongoClient(durable.uri) as client:
        with pytest.raises(OperationFailure) as refused:
            client[database].command(command)
        assert code is None or refused.value.code == code
    assert not (durable.directory / "quarry.backup").exists()


def test_an_engine_in_memory_has_nothing_to_back_up(tmp_path):
    server = Quarry(tmp_path / "data", "memory").start()
    try:
        refused = quarry("backup", "create", "--dbpath", server.directory, "--to", tmp_path / "repository")
        assert refused.returncode == 1
        assert "no files to copy" in refused.stderr
    finally:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0


@pytest.mark.parametrize("engine", ENGINES[:1])
def test_under_access_control_a_backup_takes_a_user_who_may(tmp_path, engine):
    for name, role in [("keeper", "hostManager"), ("reader", "read"), ("od=d,one", "root")]:
        given = ["user", "add", name, "--role", role, "--dbpath", tmp_path / "data", "--engine", engine]
        succeed(*given, text="pass of it\n")
    server = Quarry(tmp_path / "data", engine, ["--auth"]).start()
    try:
        password = tmp_path / "password"
        password.write_text("pass of it\n")
        wrong = tmp_path / "wrong"
        wrong.write_text("another\n")
        flags = ["backup", "create", "--dbpath", server.directory, "--to", tmp_path / "repository"]
        for user, file, expected in [
            (None, None, "requires authentication"),
            ("reader", password, "not authorized"),
            ("keeper", wrong, "Authentication failed"),
            ("keeper", password, None),
            ("od=d,one", password, None),
        ]:
            login = ["--user", user, "--passwordFile", file] if user else []
            ended = quarry(*flags, *login)
            assert (ended.returncode == 0) == (expected is None), (user, ended.stderr)
            assert expected is None or expected in ended.stderr, (user, ended.stderr)
        shown = quarry("top", "--once", "--port", server.port, "--user", "od=d,one", "--passwordFile", password)
        assert shown.returncode == 0, shown.stderr
    finally:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
