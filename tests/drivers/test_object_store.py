"""`quarry backup` and `quarry restore` with a repository in an object store: an S3 of moto, in a process of its own on loopback.

Google's stores speak nearly the same protocol, so that moto serves them as well; Azure's are Azurite."""

import base64
import contextlib
import email.utils
import hashlib
import hmac
import json
import os
import pathlib
import re
import secrets
import socket
import subprocess
import sys
import time
import urllib.request

import boto3
import pytest
from botocore.config import Config
from pymongo import MongoClient
from quarry_process import Quarry, binary
from test_backup import (
    ENGINES,
    PATIENCE_SECONDS,
    acknowledged,
    check_load,
    fill,
    quarry,
    restored,
    succeed,
    wait_until,
    writers,  # noqa: F401  (a fixture)
)
from test_encryption import key_file, with_key

BUCKET = "backups"
# A store that refuses or cannot be reached is given up well before.
GIVEN_UP_SECONDS = 180
# Prints its port, and serves until nobody holds its input any more.
SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


class Store:
    """A running store, and a bucket in it as its owner sees it."""

    def __init__(self, environment):
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | environment,
        )
        self.endpoint = f"http://127.0.0.1:{int(self.process.stdout.readline())}"
        self.secret = secrets.token_hex(20)
        self.client = self.client_of("s3")
        self.client.create_bucket(Bucket=BUCKET)

    def client_of(self, service):
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id="AKIAOWNER",
            aws_secret_access_key=self.secret,
            config=Config(retries={"max_attempts": 0}),
        )

    def objects(self, prefix=""):
        """The names of all objects with their tags, which change with what is in them, and the times when they were written."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        listed = [each for page in pages for each in page.get("Contents", [])]
        return {each["Key"]: (each["ETag"], each["LastModified"]) for each in listed}

    def read(self, name):
        return self.client.get_object(Bucket=BUCKET, Key=name)["Body"].read()

    def stop(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE_SECONDS)


@contextlib.contextmanager
def running(monkeypatch, **environment):
    store = Store(environment)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.endpoint)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOWNER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", store.secret)
    try:
        yield store
    finally:
        store.stop()


@pytest.fixture
def store(monkeypatch):
    with running(monkeypatch) as store:
        yield store


@pytest.fixture
def repository():
    return f"s3://{BUCKET}/of/tests"


def chunks(store):
    return store.objects("of/tests/chunks/")


def create(server, repository, *arguments):
    """The name of a new backup, and how many MB of how many were new."""
    said = succeed("backup", "create", "--dbpath", server.directory, "--to", repository, *arguments)
    name, all_mb, new_mb = re.match(r"(\S+): \d+ files, ([\d.]+) MB, ([\d.]+) MB of them new", said).groups()
    return name, float(all_mb), float(new_mb)


def fails(*arguments):
    """What a subcommand that fails says, and that it takes no longer than it may."""
    began = time.monotonic()
    ended = quarry(*arguments)
    assert ended.returncode == 1, (arguments, ended.stdout, ended.stderr)
    assert time.monotonic() - began < GIVEN_UP_SECONDS
    assert "panicked" not in ended.stderr
    return ended.stderr


def test_backups_under_load_go_to_a_store_and_come_back(durable, writers, store, repository, tmp_path):  # noqa: F811
    fill(durable)
    backups = []
    for number in range(2):
        wait_until(lambda: min(acknowledged(writers).values()) >= 20 * (number + 1))
        before, held = acknowledged(writers), chunks(store)
        name, all_mb, new_mb = create(durable, repository)
        after = {writer: count + 1 for writer, count in acknowledged(writers).items()}
        backups.append((name, before, after))
        # What was there was not sent again.
        assert held.items() <= chunks(store).items()
        assert new_mb < all_mb or number == 0
    assert held
    for writer in writers:
        writer.end()
    listed = succeed("backup", "list", "--from", repository).splitlines()
    assert [line.split()[0] for line in listed] == [name for name, _, _ in backups]
    assert succeed("backup", "verify", "--from", repository).count(": whole") == 2
    for name, before, after in backups:
        server = restored(repository, tmp_path / name, durable.engine, "--id", name)
        try:
            check_load(server.port, before, after)
        finally:
            assert server.stop() == 0
    # Nobody who may read the repository learns how it was written.
    for name in store.objects():
        assert store.secret.encode() not in store.read(name), name
    # The other one goes, and what the two shared stays; no lease does.
    succeed("backup", "remove", "--from", repository, "--keep", 1)
    assert succeed("backup", "verify", "--from", repository).count(": whole") == 1
    manifest = store.read(f"of/tests/backups/{backups[-1][0]}").decode()
    named = set(re.findall(r"^chunk (\w+)$", manifest, re.MULTILINE))
    assert {name.rsplit("/", 1)[1] for name in chunks(store)} == named
    assert not store.objects("of/tests/leases/")


def test_damage_in_a_store_is_named_and_not_restored(durable, store, repository, tmp_path):
    fill(durable, 2_000)
    create(durable, repository)
    chunk = max(chunks(store), key=lambda name: len(store.read(name).strip(b"\0")))
    content = bytearray(store.read(chunk))
    content[len(content) // 2] ^= 1
    store.client.put_object(Bucket=BUCKET, Key=chunk, Body=bytes(content))
    found = quarry("backup", "verify", "--from", repository)
    assert found.returncode == 1
    assert f"chunk {chunk.rsplit('/', 1)[1]} is damaged" in found.stdout
    assert "is damaged" in fails("restore", "--from", repository, "--dbpath", tmp_path / "new")
    with pytest.raises(RuntimeError, match="was being restored into it"):
        Quarry(tmp_path / "new", durable.engine).start()
    # A backup that reads what is there is whole, whether it needs that chunk or not.
    later, _, _ = create(durable, repository, "--reread")
    assert succeed("backup", "verify", "--from", repository, later).count(": whole") == 1
    # A chunk that is gone is missed by its name, and sent again by who needs it.
    manifest = store.read(f"of/tests/backups/{later}").decode()
    gone = re.search(r"^chunk (\w+)$", manifest, re.MULTILINE).group(1)
    store.client.delete_object(Bucket=BUCKET, Key=f"of/tests/chunks/{gone[:2]}/{gone}")
    found = quarry("backup", "verify", "--from", repository, later)
    assert found.returncode == 1 and f"chunk {gone} is missing" in found.stdout
    latest, _, _ = create(durable, repository, "--reread")
    assert succeed("backup", "verify", "--from", repository, latest).count(": whole") == 1


def begin_slowly(server, store, repository):
    """A backup that takes long, begun: some of its chunks are there."""
    held = len(chunks(store))
    command = [binary(), "backup", "create", "--dbpath", server.directory, "--to", repository, "--rate", "1"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_until(lambda: len(chunks(store)) > held or process.poll() is not None)
    assert process.poll() is None, process.stdout.read()
    return process


def test_a_killed_backup_leaves_nothing_in_the_way(durable, store, repository, tmp_path):
    fill(durable)
    begun = begin_slowly(durable, store, repository)
    begun.kill()
    begun.wait()
    assert succeed("backup", "list", "--from", repository) == "the repository holds no backup\n"
    assert "holds no backup" in fails("restore", "--from", repository, "--dbpath", tmp_path / "none")
    left = chunks(store)

    def is_made():
        return quarry("backup", "create", "--dbpath", durable.directory, "--to", repository).returncode == 0

    # The server sees that whoever wanted the copy has gone as soon as it hears of the closed connection.
    wait_until(is_made)
    assert left.items() <= chunks(store).items()
    with MongoClient(durable.uri) as client:
        client.load.filler.drop()
        fill(durable)
    begin_slowly(durable, store, repository).kill()
    assert succeed("backup", "verify", "--from", repository).count(": whole") == 1
    server = restored(repository, tmp_path / "new", durable.engine)
    try:
        with MongoClient(server.uri) as client:
            assert client.load.filler.count_documents({}) == 20_000
    finally:
        assert server.stop() == 0
    # Nobody removes beside a backup that may be under way; it is named, and so is the time after which it is nobody's.
    refused = fails("backup", "remove", "--from", repository, "--keep", 1)
    lease = re.search(r"`(leases/add-\w+)`", refused).group(1)
    assert re.search(r"process \d+ on .* is in the way for 600 s", refused)
    leases = store.objects("of/tests/leases/")
    assert f"of/tests/{lease}" in leases
    for name in leases:
        store.client.delete_object(Bucket=BUCKET, Key=name)
    held = len(chunks(store))
    succeed("backup", "remove", "--from", repository, "--keep", 1)
    assert len(chunks(store)) < held
    assert succeed("backup", "verify", "--from", repository).count(": whole") == 1
    assert not store.objects("of/tests/leases/")


def test_a_store_that_refuses_is_an_error_in_time(durable, repository, monkeypatch, tmp_path):
    calls = [
        ("backup", "create", "--dbpath", durable.directory, "--to", repository),
        ("backup", "verify", "--from", repository),
        ("restore", "--from", repository, "--dbpath", tmp_path / "new"),
    ]
    # The store takes one request from anybody, for its bucket; then it asks who it is.
    with running(monkeypatch, INITIAL_NO_AUTH_ACTION_COUNT="1") as store:
        for call in calls:
            refused = fails(*call)
            assert "refuses access: InvalidAccessKeyId" in refused, refused
            assert store.secret not in refused and "AKIAOWNER" not in refused
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        refused = fails(*calls[0])
        assert f"`{repository}`: " in refused and "onnection refused" in refused, refused
        # One that takes connections and says nothing.
        with socket.create_server(("127.0.0.1", 0)) as silent:
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
            monkeypatch.setenv("AWS_TIMEOUT", "1 second")
            refused = fails(*calls[1])
            assert "timed out" in refused, refused
    assert not (tmp_path / "new").exists()


@contextlib.contextmanager
def google(monkeypatch):
    """The environment of a store that speaks Google's protocol."""
    with running(monkeypatch) as store:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("GOOGLE_BASE_URL", store.endpoint)
        monkeypatch.setenv("GOOGLE_ALLOW_HTTP", "true")
        # S3 does not know this token, and lets anybody do everything.
        monkeypatch.setenv("GOOGLE_BEARER_TOKEN", store.secret)
        places = [f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/*"]
        policy = {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": places}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [policy]})
        store.client.put_bucket_policy(Bucket=BUCKET, Policy=policy)
        yield f"gs://{BUCKET}/of/tests"


@contextlib.contextmanager
def azure(monkeypatch, directory):
    """The environment of a store that speaks Azure's protocol, with an account of its own."""
    account, key = "quarrytests", base64.b64encode(secrets.token_bytes(64)).decode()
    drivers = pathlib.Path(os.environ["DRIVERS_DIR"]) / "tools"
    azurite = drivers / "node/node_modules/azurite/dist/src/blob/main.js"
    flags = ["--blobPort", "0", "--silent", "--inMemoryPersistence", "--disableTelemetry"]
    command = [(drivers / "node-path").read_text().strip(), azurite, *flags]
    environment = os.environ | {"AZURITE_ACCOUNTS": f"{account}:{key}"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=directory)
    try:
        listening = (re.search(r"listen\w* (?:at|on) (http://127\.0\.0\.1:(?!0\b)\d+)", line) for line in process.stdout)
        endpoint = next(found.group(1) for found in listening if found)
        make_container(endpoint, account, key)
        monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
        monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", endpoint)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", account)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", key)
        yield f"az://{BUCKET}/of/tests"
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def make_container(endpoint, account, key):
    headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    lines = [f"{name}:{value}" for name, value in sorted(headers.items())]
    signed = "\n".join(["PUT", *[""] * 11, *lines, f"/{account}/{account}/{BUCKET}", "restype:container"])
    signature = hmac.new(base64.b64decode(key), signed.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {account}:{base64.b64encode(signature).decode()}"
    url = f"{endpoint}/{account}/{BUCKET}?restype=container"
    headers["Content-Length"] = "0"
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers, method="PUT")) as made:
        assert made.status == 201


@pytest.mark.parametrize("kind", ["gs", "az"])
def test_a_repository_may_be_in_other_stores(kind, monkeypatch, tmp_path):
    engine = ENGINES[0]
    with google(monkeypatch) if kind == "gs" else azure(monkeypatch, tmp_path) as repository:
        assert repository.startswith(f"{kind}://")
        server = Quarry(tmp_path / "data", engine).start()
        try:
            fill(server)
            first, _, _ = create(server, repository)
            with MongoClient(server.uri) as client:
                client.load.things.insert_one({"_id": "behind"})
            _, all_mb, new_mb = create(server, repository)
            assert new_mb < all_mb
        finally:
            assert server.stop() == 0
        assert succeed("backup", "verify", "--from", repository).count(": whole") == 2
        succeed("backup", "remove", "--from", repository, first)
        assert len(succeed("backup", "list", "--from", repository).splitlines()) == 1
        new = restored(repository, tmp_path / "new", engine)
        try:
            with MongoClient(new.uri) as client:
                assert client.load.filler.count_documents({}) == 20_000
                assert client.load.things.find_one() == {"_id": "behind"}
        finally:
            assert new.stop() == 0
        elsewhere = fails("backup", "list", "--from", f"{kind}://elsewhere/of/tests")
        assert "NoSuchBucket" in elsewhere or "ContainerNotFound" in elsewhere


def test_what_is_no_repository_is_named(durable, store, repository):
    for what in ("list", "verify"):
        assert f"`{repository}`: it is no repository of backups" in fails("backup", what, "--from", repository)
    store.client.put_object(Bucket=BUCKET, Key="of/tests/letter", Body=b"dear")
    refused = fails("backup", "create", "--dbpath", durable.directory, "--to", repository)
    assert "it holds objects and is no repository" in refused
    assert list(store.objects()) == ["of/tests/letter"]
    assert "NoSuchBucket" in fails("backup", "create", "--dbpath", durable.directory, "--to", "s3://elsewhere")
    assert "NoSuchBucket" in fails("backup", "list", "--from", "s3://elsewhere/of/tests")
    for address in ["s3://AKIAOWNER:hidden@backups/a", "s3://backups/a?secret=hidden"]:
        assert "hidden" not in fails("backup", "list", "--from", address)
    assert "`ftp://`" in fails("backup", "list", "--from", "ftp://backups/a")


@pytest.mark.parametrize("key", ["no key", "a key"])
def test_an_archive_goes_on_from_a_backup_in_a_store(store, repository, tmp_path, key):
    engine = ENGINES[0]
    archive = tmp_path / "archive"
    with_backup_key = ["--backupKeyFile", key_file(tmp_path)] if key == "a key" else []
    server = Quarry(tmp_path / "data", engine, ["--journalArchive", str(archive)]).start()
    try:
        with MongoClient(server.uri) as client:
            client.load.things.insert_one({"_id": "before"})
            create(server, repository, *with_backup_key)
            client.load.things.insert_one({"_id": "behind"})
        succeed("archive", "flush", "--dbpath", server.directory)
    finally:
        assert server.stop() == 0
    place = ("--journalArchive", archive, "--from", repository, *with_backup_key)
    assert "can be restored to any moment from" in succeed("archive", "list", *place)
    succeed("archive", "remove", *place)
    new = restored(repository, tmp_path / "new", engine, "--journalArchive", archive, "--to", "latest", *with_backup_key)
    try:
        with MongoClient(new.uri) as client:
            assert [thing["_id"] for thing in client.load.things.find().sort("_id", 1)] == ["before", "behind"]
    finally:
        assert new.stop() == 0


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine == "rocksdb"])
def test_an_encrypted_backup_is_carried_as_it_is(engine, store, repository, tmp_path):
    flags = with_key(key_file(tmp_path))
    server = Quarry(tmp_path / "data", engine, flags).start()
    try:
        with MongoClient(server.uri) as client:
            client.load.things.insert_one({"_id": 1, "word": "letter from abroad"})
        create(server, repository)
    finally:
        assert server.stop() == 0
    for name in store.objects():
        assert b"letter from abroad" not in store.read(name), name
    succeed("restore", "--from", repository, "--dbpath", tmp_path / "new")
    with pytest.raises(RuntimeError, match="encrypt"):
        Quarry(tmp_path / "new", engine).start()
    new = Quarry(tmp_path / "new", engine, flags).start()
    try:
        with MongoClient(new.uri) as client:
            assert client.load.things.find_one() == {"_id": 1, "word": "letter from abroad"}
    finally:
        assert new.stop() == 0
