"""`quarry restore` of some collections out of a whole backup: into a data directory, and into a server that runs."""

import datetime
import pathlib
import signal
import subprocess
import tempfile

import pytest
from pymongo import MongoClient
from quarry_process import Quarry, binary
from test_backup import ENGINES, PATIENCE_SECONDS, create, quarry, restored, succeed, wait_until
from test_encryption import key_file, with_key
from validation import validate_everything

# More than one batch of an insert, a find and a cursor.
ORDERS = 12_000


def fill(client):
    """Collections of every kind in three databases; the names that are in the backup."""
    shop = client.shop
    shop.orders.insert_many([{"_id": n, "n": n % 7, "f": "x" * 100} for n in range(ORDERS)])
    shop.orders.create_index("n", name="by n")
    shop.orders.create_index("email", unique=True, sparse=True)
    shop.create_collection("log", capped=True, size=1 << 16)
    shop.log.insert_many([{"n": n} for n in range(50)])
    shop.create_collection("weather", timeseries={"timeField": "at", "metaField": "where"})
    begun = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    measured = [{"at": begun + datetime.timedelta(minutes=n), "where": n % 3, "c": n} for n in range(100)]
    shop.weather.insert_many(measured)
    shop.create_collection("sevens", viewOn="orders", pipeline=[{"$match": {"n": 0}}])
    client.hr.people.insert_many([{"_id": n} for n in range(20)])
    client["odd-name"]["with and ü"].insert_one({"_id": 1})
    return {
        "shop": {"orders", "log", "weather", "sevens"},
        "hr": {"people"},
        "odd-name": {"with and ü"},
    }


def names(client):
    """The collections and views of users, by database."""
    found = {}
    for database in client.list_database_names():
        if database not in ("admin", "config", "local"):
            listed = {name for name in client[database].list_collection_names() if not name.startswith("system.")}
            if listed:
                found[database] = listed
    return found


def check_orders(collection):
    assert collection.count_documents({}) == ORDERS
    assert [each["_id"] for each in collection.find({"n": 3}, hint="by n").sort("_id", 1)] == list(range(3, ORDERS, 7))
    assert set(collection.index_information()) == {"_id_", "by n", "email_1"}
    assert collection.index_information()["email_1"]["unique"] is True


@pytest.fixture
def backed_up(durable, tmp_path):
    """A repository with a backup of `fill`, and behind the backup, in the same server, what must not be met again."""
    with MongoClient(durable.uri) as client:
        held = fill(client)
        create(durable, tmp_path / "repository")
        client.shop.orders.update_many({}, {"$set": {"n": 99}})
        client.shop.orders.delete_many({"_id": {"$lt": 100}})
        client.hr.people.insert_one({"_id": "later"})
    return tmp_path / "repository", held


def test_a_data_directory_has_the_chosen_collections_alone(durable, backed_up, tmp_path):
    repository, held = backed_up
    for number, (arguments, expected) in enumerate(
        [
            (["--nsInclude", "shop.orders"], {"shop": {"orders"}}),
            (["--nsInclude", "shop.*", "--nsExclude", "shop.log"], {"shop": held["shop"] - {"log"}}),
            (["--nsExclude", "shop.*"], {"hr": held["hr"], "odd-name": held["odd-name"]}),
            (["--nsInclude", "odd-name.with * ü"], {"odd-name": held["odd-name"]}),
        ]
    ):
        directory = tmp_path / f"part {number}"
        server = restored(repository, directory, durable.engine, *arguments)
        try:
            with MongoClient(server.uri) as client:
                assert names(client) == expected
                if "orders" in expected.get("shop", ()):
                    check_orders(client.shop.orders)
                if "weather" in expected.get("shop", ()):
                    assert client.shop.weather.count_documents({"where": 1}) == 33
                    assert client.shop.sevens.count_documents({}) == len(range(0, ORDERS, 7))
            validate_everything(server.port)
        finally:
            assert server.stop() == 0


def test_chosen_collections_come_into_a_running_server(durable, backed_up, tmp_path):
    repository, _ = backed_up
    into = ["--into", durable.uri]
    scratch = tmp_path / "scratch"

    def restore(*arguments):
        return quarry("restore", "--from", repository, "--dbpath", scratch, *into, *arguments)

    with MongoClient(durable.uri) as client:
        # Beside what is there, under another name.
        said = restore("--nsInclude", "shop.orders", "--nsFrom", "shop.orders", "--nsTo", "shop.orders_before")
        assert said.returncode == 0, said.stderr
        assert not scratch.exists()
        check_orders(client.shop.orders_before)
        assert client.shop.orders.count_documents({"n": 99}) == ORDERS - 100
        # What is there stays, unless somebody says otherwise.
        refused = restore("--nsInclude", "shop.orders")
        assert refused.returncode == 1 and "`shop.orders` is there already; --drop removes it first" in refused.stderr
        assert not scratch.exists()
        assert client.shop.orders.count_documents({"n": 99}) == ORDERS - 100
        said = restore("--nsInclude", "shop.*", "--drop")
        assert said.returncode == 0, said.stderr
        check_orders(client.shop.orders)
        assert client.shop.weather.count_documents({}) == 100
        assert client.shop.command("collStats", "log")["capped"] is True
        assert client.shop.sevens.count_documents({}) == len(range(0, ORDERS, 7))
        # The rest of the server is as it was.
        assert client.hr.people.find_one({"_id": "later"}) is not None
    validate_everything(durable.port)


def test_a_directory_that_was_there_is_emptied_also_behind_a_link(durable, backed_up, tmp_path):
    repository, _ = backed_up
    there, link = tmp_path / "there", tmp_path / "link"
    (there / "lost+found").mkdir(parents=True)
    link.symlink_to(there)
    part = ["--into", durable.uri, "--nsInclude", "shop.orders", "--nsFrom", "shop.orders", "--nsTo", "shop.copy"]
    for dbpath in (there, link):
        succeed("restore", "--from", repository, "--dbpath", dbpath, *part, "--drop")
        assert [path.name for path in there.iterdir()] == ["lost+found"] and link.is_symlink()
        with MongoClient(durable.uri) as client:
            check_orders(client.shop.copy)
            client.shop.copy.drop()


def test_a_server_that_is_not_reached_is_told_before_anything_is_restored(backed_up, tmp_path):
    repository, _ = backed_up
    # What is there already says whether anything was looked at or written before.
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "letter").write_text("dear")
    ended = quarry("restore", "--from", repository, "--dbpath", tmp_path / "taken", "--into", "mongodb://127.0.0.1:1/")
    assert ended.returncode == 1 and "127.0.0.1:1" in ended.stderr and "is not empty" not in ended.stderr


@pytest.mark.parametrize("moment", ["writing", "opened"])
@pytest.mark.parametrize("signal_sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_neither_directory_nor_socket(durable, backed_up, tmp_path, moment, signal_sent):
    repository, _ = backed_up
    scratch = tmp_path / "scratch"
    command = [binary(), "restore", "--from", str(repository), "--dbpath", str(scratch), "--into", durable.uri, "--drop"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    socket = pathlib.Path(tempfile.gettempdir()) / f"quarry-alone-{process.pid}.sock"
    wait_until((scratch / "quarry.restoring" if moment == "writing" else socket).exists)
    process.send_signal(signal_sent)
    _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1 and "ended by a signal" in said, said
    assert not scratch.exists() and not socket.exists()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_part_is_taken_as_it_was_at_a_moment(tmp_path, engine):
    archive, repository = tmp_path / "archive", tmp_path / "repository"
    server = Quarry(tmp_path / "data", engine, ["--journalArchive", str(archive)]).start()
    try:
        with MongoClient(server.uri) as client:
            fill(client)
            create(server, repository)
            client.shop.orders.insert_one({"_id": "after the backup"})
            lsn = client.admin.command("flushJournalArchive")["lsn"]
            client.shop.orders.delete_many({})
            client.admin.command("flushJournalArchive")
            moment = ["--journalArchive", archive, "--to-lsn", lsn]
            part = ["--into", server.uri, "--nsInclude", "shop.orders", "--drop"]
            succeed("restore", "--from", repository, "--dbpath", tmp_path / "scratch", *moment, *part)
            assert client.shop.orders.count_documents({}) == ORDERS + 1
            assert client.shop.orders.find_one({"_id": "after the backup"}) is not None
    finally:
        assert server.stop() == 0


def test_what_cannot_be_is_said_and_serves_nobody(durable, backed_up, tmp_path):
    repository, _ = backed_up
    restore = ("restore", "--from", repository, "--dbpath", tmp_path / "part")
    for arguments, why in [
        (["--nsFrom", "a.b", "--nsTo", "a.c"], "--nsFrom and --nsTo go with --into"),
        (["--nsInclude", "a.$b"], "a variable is written as `$name$`"),
        (["--drop"], "--into"),
        (["--encryptionKeyFile", key_file(tmp_path)], "--encryptionKeyFile goes with a part"),
    ]:
        ended = quarry(*restore, *arguments)
        assert ended.returncode != 0 and why in ended.stderr, ended.stderr
        assert not (tmp_path / "part").exists()
    ended = quarry(*restore, "--nsInclude", "shop.nothing")
    assert ended.returncode == 1 and "has no collection of that name" in ended.stderr
    into = ["--dbpath", tmp_path / "scratch", "--into", durable.uri]
    ended = quarry(*restore[:3], *into, "--nsInclude", "shop.nothing")
    assert ended.returncode == 1 and "has no collection of that name" in ended.stderr
    assert not (tmp_path / "scratch").exists()
    # A directory that is not what was asked for is not served.
    ended = quarry("serve", "--dbpath", tmp_path / "part", "--engine", durable.engine, "--port", "0")
    assert ended.returncode != 0
    nobody = quarry(*restore[:3], "--dbpath", tmp_path / "scratch", "--into", "mongodb://127.0.0.1:1/")
    assert nobody.returncode == 1 and not (tmp_path / "scratch").exists()


def end(server):
    """Like `stop`, but of a server that asks who looks at its data."""
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine == "rocksdb"])
def test_an_encrypted_part_needs_its_key_and_the_server_its_user(tmp_path, engine):
    key, password = key_file(tmp_path), tmp_path / "password"
    password.write_text("pass of it\n")
    data, repository = tmp_path / "data", tmp_path / "repository"
    key_option = ["--encryptionKeyFile", key]
    succeed("user", "add", "ada", "--role", "root", "--dbpath", data, "--engine", engine, *key_option, text="pass of it\n")
    server = Quarry(data, engine, [*with_key(key), "--auth"]).start()
    try:
        with MongoClient(server.uri, username="ada", password="pass of it") as client:
            fill(client)
            succeed("backup", "create", "--dbpath", data, "--to", repository, "--user", "ada", "--passwordFile", password)
            client.shop.orders.drop()
            restore = ["restore", "--from", repository, "--dbpath", tmp_path / "scratch", "--nsInclude", "shop.orders"]
            into = ["--into", f"mongodb://ada@127.0.0.1:{server.port}/", "--intoPasswordFile"]
            (tmp_path / "wrong").write_text("another\n")
            for arguments, why in [
                ([*into, password], "encryptionKeyFile"),
                ([*into, tmp_path / "wrong", *key_option], "Authentication failed"),
            ]:
                ended = quarry(*restore, *arguments)
                assert ended.returncode == 1 and why in ended.stderr, ended.stderr
                assert not (tmp_path / "scratch").exists()
            ended = quarry(*restore, *into, password, *key_option)
            assert ended.returncode == 0, ended.stderr
            check_orders(client.shop.orders)
            # In a directory of its own the part has the users of the whole.
            succeed(*restore, *key_option)
        part = Quarry(tmp_path / "scratch", engine, [*with_key(key), "--auth"]).start()
        try:
            with MongoClient(part.uri, username="ada", password="pass of it") as client:
                assert names(client) == {"shop": {"orders"}}
        finally:
            end(part)
    finally:
        end(server)
