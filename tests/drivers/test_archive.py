"""`--journalArchive` and `quarry restore --to`: data as it was at any moment, whatever was killed in between."""

import contextlib
import datetime
import os
import random
import shutil
import threading
import time

import pytest
from bson import Timestamp
from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, OperationFailure
from quarry_process import Quarry
from test_backup import PATIENCE_SECONDS, create, quarry, succeed, wait_until
from validation import validate_everything

ENGINES = [engine for engine in os.environ.get("QUARRY_ENGINES", "rocksdb,mdbx").split(",") if engine != "memory"]
# `make torture` asks for more.
ROUNDS = int(os.environ.get("QUARRY_BACKUP_ROUNDS", "3"))
WRITERS = 3
KEYS_OF_WRITER = 20
# So many moments are restored to and compared, beside the first and the last one.
MOMENTS = 4
MISSING = object()


class Writer(threading.Thread):
    """Changes documents that nobody else changes, and notes of each change when it was made, by the server's own time."""

    def __init__(self, model, name):
        super().__init__(daemon=True)
        self.model = model
        self.name = name
        self.random = random.Random(name)
        # Of each key: (time, value), in order.
        self.history = {}
        # The change that was never answered, with the time of the last one that was: {key: (time before, value)}.
        self.doubt = None
        self.client = None
        self.answered = 0
        self.failure = None
        self.is_over = False
        self.last_time = Timestamp(0, 1)

    def run(self):
        number = 0
        while not self.is_over:
            number += 1
            try:
                if self.client is None:
                    self.connect()
                self.change(number)
            except ConnectionFailure:
                if self.client is not None:
                    self.client.close()
                self.client = None
                self.model.is_up.wait(PATIENCE_SECONDS)
            except Exception as failure:  # told to the test, which ends with it
                self.failure = failure
                return

    def connect(self):
        client = MongoClient(self.model.uri(), retryWrites=False, serverSelectionTimeoutMS=5000)
        self.settle(client)
        self.client = client

    def settle(self, client):
        """Looks what became of the changes that were not answered."""
        if self.doubt is None:
            return
        reply = client.model.command({"find": "things", "filter": {"_id": {"$in": list(self.doubt)}}})
        found = {document["_id"]: document["v"] for document in reply["cursor"]["firstBatch"]}
        for key, (before, value) in self.doubt.items():
            now = found.get(key, MISSING)
            old = self.value(key)
            assert now in (old, value), (self.name, key, now, old, value)
            if now is not old:
                # It was made at some time between the two.
                self.history.setdefault(key, []).append((before, now, reply["operationTime"]))
        self.last_time = reply["operationTime"]
        self.doubt = None

    def value(self, key):
        history = self.history.get(key)
        return history[-1][1] if history else MISSING

    def change(self, number):
        key = f"{self.name} {self.random.randrange(KEYS_OF_WRITER)}"
        other = f"{self.name} {self.random.randrange(KEYS_OF_WRITER)}"
        filler = "x" * self.random.randrange(400)
        value = [number, filler]
        kind = self.random.randrange(10)
        if kind < 5 or key == other:
            changes = {key: value}
        elif kind < 7:
            changes = {key: MISSING}
        else:
            # Both or none.
            changes = {key: value, other: value}
        self.doubt = {key: (self.last_time, value) for key, value in changes.items()}
        told = self.send(changes)
        for key, value in changes.items():
            if self.value(key) is not MISSING or value is not MISSING:
                self.history.setdefault(key, []).append((told, value, told))
        self.doubt = None
        self.last_time = told
        self.answered += 1

    def send(self, changes):
        database = self.client.model
        if len(changes) == 1:
            [(key, value)] = changes.items()
            if value is MISSING:
                command = {"delete": "things", "deletes": [{"q": {"_id": key}, "limit": 1}]}
            else:
                command = {"update": "things", "updates": [{"q": {"_id": key}, "u": {"v": value}, "upsert": True}]}
            if self.random.randrange(3) == 0:
                command["writeConcern"] = {"w": "majority"}
            return database.command(command)["operationTime"]
        with self.client.start_session() as session:
            with session.start_transaction():
                for key, value in changes.items():
                    database.things.replace_one({"_id": key}, {"v": value}, upsert=True, session=session)
            return session.operation_time

    def end(self):
        self.is_over = True
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive() and self.failure is None, self.failure
        # One that had no answer since the last kill: its client waits for the server in vain for a while, and others go on.
        if self.doubt is not None:
            self.connect()


class Model:
    """A server that archives its journal, writers on it, and what each document was at which time."""

    def __init__(self, directory, engine):
        self.directory = directory
        self.archive = directory / "archive"
        self.repository = directory / "repository"
        self.server = Quarry(directory / "data", engine, ["--replSet", "rs0", "--journalArchive", str(self.archive)])
        self.is_up = threading.Event()
        self.start()
        with MongoClient(self.uri()) as client:
            client.model.create_collection("things")
            client.model.things.create_index("v")
        self.writers = [Writer(self, f"writer {number}") for number in range(WRITERS)]

    def uri(self):
        return f"{self.server.uri}?directConnection=true"

    def start(self):
        self.server.start()
        self.is_up.set()

    def kill(self):
        self.is_up.clear()
        self.server.kill()

    def answered(self):
        for writer in self.writers:
            assert writer.failure is None, writer.failure
        return min(writer.answered for writer in self.writers)

    def write_more(self, count=30):
        wanted = self.answered() + count
        wait_until(lambda: self.answered() >= wanted)

    def times(self):
        """The times of all changes that were answered, in order."""
        return sorted({told for writer in self.writers for changes in writer.history.values() for _, _, told in changes})

    def check(self, found, moment):
        """The documents are exactly those of that moment; a change that was not answered may or may not be made by then."""
        for writer in self.writers:
            for key in [f"{writer.name} {number}" for number in range(KEYS_OF_WRITER)]:
                possible = [MISSING]
                for earliest, value, latest in writer.history.get(key, []):
                    if latest <= moment:
                        possible = [value]
                    elif earliest <= moment and earliest != latest:
                        possible.append(value)
                assert found.pop(key, MISSING) in possible, (key, moment)
        assert found == {}


@pytest.fixture(params=ENGINES)
def model(request, tmp_path):
    model = Model(tmp_path, request.param)
    yield model
    for writer in model.writers:
        writer.is_over = True
    model.is_up.set()
    if model.server.running():
        model.server.kill()


@contextlib.contextmanager
def restored(model, *moment):
    """A server over what is restored to a moment, and the moment's documents."""
    directory = model.directory / "restored"
    flags = ["--from", model.repository, "--journalArchive", model.archive, "--dbpath", directory]
    said = succeed("restore", *flags, *moment)
    server = Quarry(directory, model.server.engine, ["--replSet", "rs0"]).start()
    try:
        validate_everything(server.port)
        with MongoClient(f"{server.uri}?directConnection=true") as client:
            yield said, client, {document["_id"]: document["v"] for document in client.model.things.find()}
    finally:
        server.kill()
        shutil.rmtree(directory)


def test_any_moment_can_be_restored_whatever_was_killed_in_between(model):
    backups = [create(model.server, model.repository)[0]]
    for writer in model.writers:
        writer.start()
    for number in range(ROUNDS):
        model.write_more()
        if number % 3 == 0:
            model.kill()
            model.start()
            model.write_more()
        elif number % 3 == 1:
            backups.append(create(model.server, model.repository)[0])
            model.write_more()
            # Whoever flushes need not come to the end of it.
            begun = threading.Thread(target=quarry, args=("archive", "flush", "--dbpath", model.server.directory))
            begun.start()
            model.kill()
            begun.join()
            model.start()
            model.write_more()
        else:
            succeed("archive", "flush", "--dbpath", model.server.directory)
    for writer in model.writers:
        writer.end()
    succeed("archive", "flush", "--dbpath", model.server.directory)
    assert succeed("archive", "verify", "--journalArchive", model.archive).startswith("whole")
    listed = succeed("archive", "list", "--journalArchive", model.archive, "--from", model.repository)
    assert "gap" not in listed and "can be restored to any moment" in listed, listed
    times = model.times()
    assert len(times) > WRITERS * 30
    chosen = [times[0], *random.Random(len(times)).sample(times[1:-1], MOMENTS), times[-1]]
    for moment in chosen:
        with restored(model, "--to-timestamp", f"{moment.time},{moment.inc}") as (_, client, found):
            model.check(found, moment)
            # Life goes on, and no time is given twice.
            reply = client.model.command({"insert": "more", "documents": [{"_id": 1}]})
            assert reply["operationTime"] > moment
    with restored(model, "--to", "latest") as (_, _, found):
        model.check(found, times[-1])
    # What only older backups need may go once they have.
    assert "MB free" in succeed("archive", "remove", "--journalArchive", model.archive, "--from", model.repository)
    # The way from an older backup is another one, with the same end.
    with restored(model, "--to", "latest", "--id", backups[0]) as (said, _, found):
        assert said.startswith(backups[0])
        model.check(found, times[-1])


def test_the_backups_of_another_database_remove_nothing(model, tmp_path):
    succeed("archive", "flush", "--dbpath", model.server.directory)
    stranger = Quarry(tmp_path / "stranger", model.server.engine, ["--replSet", "rs0"]).start()
    try:
        create(stranger, tmp_path / "theirs")
    finally:
        stranger.kill()
    before = sorted(path.name for path in model.archive.iterdir())
    refused = quarry("archive", "remove", "--journalArchive", model.archive, "--from", tmp_path / "theirs")
    assert refused.returncode == 1 and "not one of the database whose archive this is" in refused.stderr, refused
    assert sorted(path.name for path in model.archive.iterdir()) == before


def test_an_archive_that_has_lost_its_end_is_not_taken_for_whole(model):
    create(model.server, model.repository)
    with MongoClient(model.uri()) as client:
        for number in range(3):
            client.model.things.insert_one({"_id": number, "v": "x" * 10_000 * 4 ** (2 - number)})
            succeed("archive", "flush", "--dbpath", model.server.directory)
    model.kill()
    pieces = sorted(model.archive.glob("*.piece"), key=lambda path: path.stat().st_mtime)
    pieces[-1].unlink()
    listed = quarry("archive", "list", "--journalArchive", model.archive)
    assert listed.returncode == 1 and "pieces are missing" in listed.stderr, listed
    flags = ["--from", model.repository, "--journalArchive", model.archive, "--dbpath", model.directory / "no"]
    refused = quarry("restore", *flags, "--to", "latest")
    assert refused.returncode == 1 and "pieces of the archive are missing" in refused.stderr, refused
    assert not (model.directory / "no").exists()


def test_an_archive_within_the_data_directory_is_refused(tmp_path):
    within = ["--journalArchive", str(tmp_path / "data" / "archive")]
    with pytest.raises(Exception, match="within the data directory"):
        Quarry(tmp_path / "data", ENGINES[0], within).start()


def test_a_wall_time_and_a_record_name_a_moment(model):
    create(model.server, model.repository)
    with MongoClient(model.uri()) as client:
        things = client.model.things
        things.insert_one({"_id": "before", "v": 1})
        # The next one is in a later millisecond, by the server's clock.
        between = client.admin.command("hello")["localTime"]
        wait_until(lambda: client.admin.command("hello")["localTime"] > between + datetime.timedelta(milliseconds=50))
        things.insert_one({"_id": "after", "v": 2})
        flushed = client.admin.command("flushJournalArchive")
        later = client.admin.command("hello")["localTime"]
    between = between + datetime.timedelta(milliseconds=25)
    with restored(model, "--to", between.isoformat(timespec="milliseconds") + "Z") as (said, _, found):
        assert found == {"before": 1}
    with restored(model, "--to-lsn", flushed["lsn"]) as (said, _, found):
        assert found == {"before": 1, "after": 2}
        assert f"record {flushed['lsn']}," in said
    # Of what comes nobody knows yet; a second without writes is known as such once the archive has been looked after since.
    flags = ["--from", model.repository, "--journalArchive", model.archive, "--dbpath", model.directory / "no"]
    future = later + datetime.timedelta(hours=1)
    refused = quarry("restore", *flags, "--to", future.isoformat(timespec="milliseconds") + "Z")
    assert refused.returncode == 1 and "the archive ends at record" in refused.stderr
    assert not (model.directory / "no").exists()
    with MongoClient(model.uri()) as client:
        client.admin.command("flushJournalArchive")
    with restored(model, "--to", later.isoformat(timespec="milliseconds") + "Z") as (_, _, found):
        assert found == {"before": 1, "after": 2}


def test_a_damaged_backup_stands_in_the_way_of_nothing_but_itself(model):
    def segments(backup):
        """The first chunk of each segment in a backup."""
        lines = (model.repository / "backups" / backup).read_text().splitlines()
        named = [following for line, following in zip(lines, lines[1:]) if line.startswith("file ") and line.endswith(".segment")]
        return {line.split()[1] for line in named}

    with MongoClient(model.uri()) as client:
        backups = []
        for number in range(2):
            client.model.things.insert_one({"_id": number, "v": number})
            backups.append(create(model.server, model.repository)[0])
        client.model.things.insert_one({"_id": 2, "v": 2})
        client.admin.command("flushJournalArchive")
    own = segments(backups[1]) - segments(backups[0])
    assert own, "the later backup has more records"
    for chunk in own:
        (model.repository / "chunks" / chunk[:2] / chunk).write_bytes(b"damaged")
    with restored(model, "--to", "latest") as (said, _, found):
        assert said.startswith(backups[0])
        assert found == {0: 0, 1: 1, 2: 2}
    flags = ["--from", model.repository, "--journalArchive", model.archive, "--dbpath", model.directory / "no"]
    refused = quarry("restore", *flags, "--to", "latest", "--id", backups[1])
    assert refused.returncode == 1 and "is damaged" in refused.stderr
    assert not (model.directory / "no").exists()


def test_a_lost_future_is_refused_to_streams_and_can_be_come_back_to(model):
    create(model.server, model.repository)
    with MongoClient(model.uri()) as client:
        things = client.model.things
        with things.watch() as stream:
            things.insert_one({"_id": "kept", "v": 1})
            kept = stream.next()["_id"]
            moment = client.model.command({"insert": "things", "documents": [{"_id": "last", "v": 2}]})["operationTime"]
            stream.next()
            things.insert_one({"_id": "lost", "v": 3})
            lost = stream.next()["_id"]
        client.admin.command("flushJournalArchive")
    assert model.server.stop() == 0
    again = model.directory / "again"
    flags = ["--from", model.repository, "--journalArchive", model.archive]
    succeed("restore", *flags, "--dbpath", again, "--to-timestamp", f"{moment.time},{moment.inc}")
    # It keeps the same archive.
    second = Quarry(again, model.server.engine, model.server.arguments).start()
    try:
        with MongoClient(f"{second.uri}?directConnection=true") as client:
            things = client.model.things
            things.insert_one({"_id": "new", "v": 4})
            # A place that the restored data has come by is one to go on from, even here.
            with things.watch(resume_after=kept) as stream:
                assert [stream.next()["documentKey"]["_id"] for _ in range(2)] == ["last", "new"]
            with pytest.raises(OperationFailure) as refused:
                things.watch(resume_after=lost)
            assert refused.value.code == 286
            client.admin.command("flushJournalArchive")
        assert second.stop() == 0
    finally:
        if second.running():
            second.kill()
    listed = succeed("archive", "list", "--journalArchive", model.archive, "--from", model.repository)
    lines = [line.split()[1].rstrip(",") for line in listed.splitlines() if line.startswith("line ")]
    assert len(lines) == 2 and listed.count("can be restored") == 2, listed
    with restored(model, "--to", "latest") as (_, _, found):
        assert found == {"kept": 1, "last": 2, "new": 4}
    with restored(model, "--to", "latest", "--line", lines[0]) as (_, _, found):
        assert found == {"kept": 1, "last": 2, "lost": 3}


def test_an_archive_that_cannot_be_written_stops_no_writer_and_is_told(model):
    status = lambda client: client.admin.command("serverStatus")["quarry"]["journal"]["archive"]  # noqa: E731
    with MongoClient(model.uri()) as client:
        wait_until(lambda: "lastRound" in status(client))
        asked = client.admin.command("getCmdLineOpts")["parsed"]["storage"]
        assert (asked["journalArchive"], asked["journalArchiveHoldMB"]) == (str(model.archive), 4096)
        # Somebody takes the directory away.
        hidden = model.directory / "hidden"
        model.archive.rename(hidden)
        client.model.things.insert_one({"_id": 1, "v": "x" * 1000})
        with pytest.raises(OperationFailure, match="the journal is not archived"):
            client.admin.command("flushJournalArchive")
        failing = status(client)
        assert failing["failures"] > 0 and failing["failure"]
        client.model.things.insert_many([{"_id": number, "v": number} for number in range(2, 100)])
        hidden.rename(model.archive)
        wait_until(lambda: "failure" not in status(client))
        flushed = client.admin.command("flushJournalArchive")
        assert status(client)["lsn"] == flushed["lsn"]
    log = model.server.log.read_text()
    assert "the journal is not archived" in log and "the journal is archived again" in log
    assert succeed("archive", "verify", "--journalArchive", model.archive).startswith("whole")


def test_a_gap_is_told_and_nothing_is_restored_over_it(model, tmp_path):
    create(model.server, model.repository)
    with MongoClient(model.uri()) as client:
        client.model.things.insert_one({"_id": 1, "v": 1})
        client.admin.command("flushJournalArchive")
    assert model.server.stop() == 0
    # Meanwhile somebody starts the server without its archive, and what it writes leaves the journal.
    journal = lambda client: client.admin.command("serverStatus")["quarry"]["journal"]  # noqa: E731
    elsewhere = Quarry(model.server.directory, model.server.engine, ["--replSet", "rs0", "--journalRetentionHours", "0"])
    lost = None
    try:
        while lost is None or first_lsn <= lost:
            elsewhere.start()
            with MongoClient(f"{elsewhere.uri}?directConnection=true") as client:
                client.model.things.insert_one({"v": 2})
                lost = lost or journal(client)["acceptedLsn"]
                # The checkpoint thread looks twice a second; what the last start left is freed by then or by the next one.
                begun = time.monotonic()
                first_lsn = 0
                while first_lsn <= lost and time.monotonic() < begun + 2:
                    first_lsn = journal(client)["window"]["firstLsn"]
            assert elsewhere.stop() == 0
    finally:
        if elsewhere.running():
            elsewhere.kill()
    model.start()
    with MongoClient(model.uri()) as client:
        client.model.things.insert_one({"_id": 4, "v": 4})
        flushed = client.admin.command("flushJournalArchive")
        status = client.admin.command("serverStatus")["quarry"]["journal"]["archive"]
        assert status["gaps"] == 1, status
    assert "the archive of the journal has a gap" in model.server.log.read_text()
    listed = succeed("archive", "list", "--journalArchive", model.archive, "--from", model.repository)
    assert "gap: records" in listed, listed
    flags = ["--from", model.repository, "--journalArchive", model.archive, "--dbpath", tmp_path / "no"]
    refused = quarry("restore", *flags, "--to-lsn", flushed["lsn"])
    assert refused.returncode == 1 and "no backup leads to record" in refused.stderr, refused.stderr
    # A backup behind the gap is a way again.
    create(model.server, model.repository)
    with MongoClient(model.uri()) as client:
        client.model.things.insert_one({"_id": 5, "v": 5})
        client.admin.command("flushJournalArchive")
    with restored(model, "--to", "latest") as (_, _, found):
        assert {1, 4, 5} <= set(found)


def test_flags_that_make_no_sense_are_refused(tmp_path):
    for flags, why in [
        (["--engine", "memory", "--journalArchive", tmp_path / "archive"], "no journal to archive"),
        (["--journalArchiveHoldMB", "10"], "there is no archive"),
    ]:
        ended = quarry("serve", "--dbpath", tmp_path / "data", "--port", "0", *flags)
        assert ended.returncode == 2 and why in ended.stderr, ended.stderr
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "letter").write_text("dear")
    with pytest.raises(RuntimeError, match="is no archive"):
        Quarry(tmp_path / "data", ENGINES[0], ["--journalArchive", str(tmp_path / "taken")]).start()
    restore = ["restore", "--from", tmp_path, "--dbpath", tmp_path / "new"]
    assert quarry(*restore, "--to", "latest").returncode == 2
    assert quarry(*restore, "--journalArchive", tmp_path).returncode == 2
