"""`quarry migrate`: a server that is written to into another one, as it is in the end."""

import collections
import contextlib
import itertools
import signal
import subprocess
import threading

import pytest
from cutter import Cutter, names
from pymongo import MongoClient
from quarry_process import Quarry, binary
from test_dump import NOON, fill, fill_series, series_state, state

PATIENCE_SECONDS = 60


@pytest.fixture
def pair(tmp_path):
    """A source and the server that gets everything."""
    servers = [Quarry(tmp_path / name, "memory").start() for name in ("source", "destination")]
    yield servers
    for server in servers:
        server.stop()


def migrate(source, destination, *arguments):
    command = [binary(), "migrate", source.uri, destination.uri, *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def ended(process):
    said = process.communicate(timeout=PATIENCE_SECONDS)[1]
    assert process.returncode == 0, said
    return said


class Load(threading.Thread):
    """Changes documents and definitions until it is stopped, or has done so many rounds."""

    def __init__(self, uri, first=0, rounds=None):
        super().__init__()
        self.uri = uri
        self.first = first
        self.rounds = rounds
        self.is_stopped = threading.Event()
        self.error = None

    def run(self):
        try:
            with MongoClient(self.uri) as client:
                self.write(client.shop)
        except Exception as error:  # noqa: BLE001  (told by `end`)
            self.error = error

    def write(self, database):
        for n in itertools.count(self.first + 1):
            if self.is_stopped.is_set() or (self.rounds is not None and n > self.first + self.rounds):
                return
            database.many.update_one({"_id": n % 5000}, {"$set": {"touched": n}, "$push": {"list": n}})
            database.many.insert_one({"_id": 10_000 + n, "n": n})
            database.many.delete_one({"_id": 10_000 + n - 50})
            # Two documents exchange a unique value.
            database.unique.update_one({"_id": 1}, {"$set": {"u": -n}})
            database.unique.update_one({"_id": 2}, {"$set": {"u": n % 2}})
            database.unique.update_one({"_id": 1}, {"$set": {"u": (n + 1) % 2}})
            if n % 100 == 0:
                database[f"new_{n}"].insert_one({"_id": n})
                database[f"new_{n}"].create_index("a")
                database[f"new_{n}"].rename(f"renamed_{n}")
                database.drop_collection(f"renamed_{n - 100}")

    def end(self):
        self.is_stopped.set()
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive() and self.error is None, self.error


def prepare(uri):
    with MongoClient(uri) as client:
        fill(client.shop)
        client.shop.unique.insert_many([{"_id": 1, "u": 0}, {"_id": 2, "u": 1}])
        client.shop.unique.create_index("u", unique=True)
        client.other.things.insert_one({"_id": 1})
        client.shop.command("createUser", "ada", pwd="p", roles=["read"])


def check_equal(source, destination):
    with MongoClient(source.uri) as one, MongoClient(destination.uri) as other:
        assert sorted(one.list_database_names()) == sorted(other.list_database_names())
        for name in ("shop", "other"):
            assert state(other[name]) == state(one[name])


def test_a_quiet_server_is_copied_once(pair):
    source, destination = pair
    prepare(source.uri)
    said = ended(migrate(source, destination, "--once"))
    assert "their counts are equal" in said
    check_equal(source, destination)
    with MongoClient(f"mongodb://ada:p@127.0.0.1:{destination.port}/shop") as client:
        assert client.other.things.find_one() == {"_id": 1}
    again = migrate(source, destination, "--once")
    assert "is there already; --drop removes it first" in again.communicate(timeout=PATIENCE_SECONDS)[1]
    ended(migrate(source, destination, "--once", "--drop", "--quiet"))
    check_equal(source, destination)


def test_a_server_that_is_written_to_is_followed(pair):
    source, destination = pair
    prepare(source.uri)
    load = Load(source.uri)
    load.start()
    process = migrate(source, destination)
    lines = []
    for line in process.stderr:
        lines.append(line)
        if "following the changes" in line:
            break
    load.end()
    # Changes made while it follows and nobody else writes.
    more = Load(source.uri, first=1_000_000, rounds=300)
    more.start()
    more.join(PATIENCE_SECONDS)
    more.end()
    process.send_signal(signal.SIGINT)
    assert "their counts are equal" in ended(process), lines
    check_equal(source, destination)


def test_chosen_collections_get_other_names(pair):
    source, destination = pair
    prepare(source.uri)
    ended(migrate(source, destination, "--once", "--nsInclude", "shop.m*", "--nsFrom", "shop.*", "--nsTo", "copy.of_*"))
    with MongoClient(source.uri) as one, MongoClient(destination.uri) as other:
        assert other.list_database_names() == ["admin", "copy"] or other.list_database_names() == ["copy"]
        assert other.copy.list_collection_names() == ["of_many"]
        assert other.copy.of_many.count_documents({}) == one.shop.many.count_documents({})


def follow(source, destination, *arguments):
    """A migration that follows changes, and what it said until then."""
    process = migrate(source, destination, *arguments)
    lines = []
    for line in process.stderr:
        lines.append(line)
        if "following the changes" in line:
            return process
    raise AssertionError("".join(lines))


def finish(process):
    process.send_signal(signal.SIGINT)
    said = ended(process)
    assert "their counts are equal" in said
    return said


@contextlib.contextmanager
def one_batch(process, database):
    """Changes that are made within come to the migration together: it is stopped meanwhile, and has the reply before theirs to read."""
    process.send_signal(signal.SIGSTOP)
    database.marks.insert_one({})
    yield
    process.send_signal(signal.SIGCONT)


def every(count, begins=None):
    """Cuts one of so many requests, as soon as the event is set if there is one; none more than twice, so that who sends it again comes through."""
    numbers = itertools.count(1)
    cut = collections.Counter()

    def cuts(request):
        is_counted = (begins is None or begins.is_set()) and not names(request, "hello")
        if not is_counted or next(numbers) % count:
            return False
        # Without the header: a request that is sent again has another number.
        cut[request[16:]] += 1
        return cut[request[16:]] <= 2

    return cuts


def test_connections_that_are_lost_are_made_again(pair):
    """Every seventh reply of the destination is lost from the beginning, and some of the source's while it is followed."""
    source, destination = pair
    prepare(source.uri)
    following = threading.Event()
    to = Cutter(destination.port, cuts=every(7))
    of = Cutter(source.port, cuts=every(11, begins=following))
    load = Load(source.uri)
    load.start()
    process = follow(of, to)
    following.set()
    load.end()
    more = Load(source.uri, first=1_000_000, rounds=300)
    more.start()
    more.join(PATIENCE_SECONDS)
    more.end()
    finish(process)
    assert to.cuts > 10 and of.cuts > 3
    check_equal(source, destination)


def test_a_rename_that_comes_twice_removes_nothing(pair):
    source, destination = pair
    prepare(source.uri)
    to = Cutter(destination.port, cuts=lambda request: names(request, "update", "other") and to.cuts < 4)
    with MongoClient(source.uri) as client:
        client.shop.other.insert_one({"_id": 0})
        process = follow(source, to)
        with one_batch(process, client.shop):
            client.shop.many.insert_one({"_id": "late"})
            client.shop.many.rename("moved")
            # The replies to this one are lost as often as it is sent, so that the batch comes again from its beginning.
            client.shop.other.insert_one({"_id": 1})
        finish(process)
        assert to.cuts == 4
        check_equal(source, destination)
        assert client.shop.moved.count_documents({}) == 5001


def test_an_update_before_a_rename_is_not_lost(pair):
    source, destination = pair
    prepare(source.uri)
    process = follow(source, destination)
    with MongoClient(source.uri) as client, one_batch(process, client.shop):
        client.shop.many.update_one({"_id": 5}, {"$set": {"touched": True}})
        client.shop.many.rename("moved")
        client.shop.many.insert_one({"_id": 5, "of": "another collection"})
        client.shop.types.rename("moved", dropTarget=True)
        client.shop.moved.insert_one({"_id": "last"})
        client.shop.view.drop()
    finish(process)
    check_equal(source, destination)


def test_collections_that_are_renamed_while_they_are_copied(pair):
    """Renamed when the place in the changes is taken and nothing is listed, and again when everything is listed and nothing copied."""
    source, destination = pair
    prepare(source.uri)
    with MongoClient(source.uri) as client:
        shop = client.shop
        shop.swapped.insert_many([{"_id": n, "of": "swapped"} for n in range(100)])
        shop.gone.insert_one({"_id": 1})

        def between_place_and_list():
            shop.many.insert_one({"_id": "late"})
            shop.many.rename("moved")
            shop.gone.drop()
            shop.gone.insert_one({"_id": 2})
            shop.checked.rename("hidden")
            shop.checked.insert_one({"_id": "new"})

        def between_list_and_copy():
            shop.moved.update_one({"_id": 1}, {"$set": {"touched": True}})
            shop.moved.rename("parked")
            shop.swapped.rename("moved")
            shop.parked.rename("swapped")
            shop.types.rename("renamed_types")
            shop.empty.drop()

        steps = [("listDatabases", between_place_and_list), ("create", between_list_and_copy)]

        def before(request):
            if steps and names(request, steps[0][0]):
                steps.pop(0)[1]()

        of, to = Cutter(source.port, before=before), Cutter(destination.port, before=before)
        ended(migrate(of, to, "--once"))
        assert not steps
        check_equal(source, destination)
        assert shop.swapped.count_documents({}) == 5001


def test_one_server_is_not_copied_onto_itself(pair):
    source = pair[0]
    prepare(source.uri)
    with MongoClient(source.uri) as client:
        before = state(client.shop)
        for flags in ([], ["--nsFrom", "shop.*", "--nsTo", "copy.*"]):
            process = migrate(source, source, "--once", "--drop", *flags)
            assert "both sides are one server" in process.communicate(timeout=PATIENCE_SECONDS)[1]
            assert process.returncode == 1
        names_of_copy = ["--nsFrom", "shop.*", "--nsTo", "copy.*", "--nsInclude", "shop.*"]
        ended(migrate(source, source, "--once", *names_of_copy))
        assert state(client.shop) == before == state(client.copy)


def test_changes_that_cannot_be_followed_end_it_by_name(pair):
    source, destination = pair
    prepare(source.uri)

    def failed(process):
        said = process.communicate(timeout=PATIENCE_SECONDS)[1]
        assert process.returncode == 1, said
        return said

    with MongoClient(source.uri) as client, MongoClient(destination.uri) as other:
        client.admin.settings.insert_one({"_id": 1})
        said = failed(migrate(source, destination))
        assert "changes of `admin.settings` cannot be followed" in said and "shop" not in other.list_database_names()
        assert "is copied or not" in ended(migrate(source, destination, "--once", "--nsInclude", "admin.*"))
        process = follow(source, destination, "--nsInclude", "shop.m*")
        client.shop.types.rename("most_types")
        said = failed(process)
        assert "`shop.types`, which was not copied, has been renamed to `shop.most_types`" in said


def test_everything_is_looked_at_before_anything_is_made(pair):
    source, destination = pair
    prepare(source.uri)
    with MongoClient(destination.uri) as client:
        client.shop.types.insert_one({"_id": "is there"})
        said = migrate(source, destination, "--once").communicate(timeout=PATIENCE_SECONDS)[1]
        assert "`shop.types` is there already" in said
        assert client.shop.list_collection_names() == ["types"]
        both = ["--nsFrom", "shop.many", "--nsTo", "all.x", "--nsFrom", "shop.types", "--nsTo", "all.x"]
        said = migrate(source, destination, "--once", "--drop", *both).communicate(timeout=PATIENCE_SECONDS)[1]
        assert "would both be named `all.x`" in said and "all" not in client.list_database_names()


def test_a_change_of_a_document_that_is_as_large_as_one_may_be(pair):
    source, destination = pair
    with MongoClient(source.uri) as client:
        text = "x" * (8 << 20)
        client.shop.large.insert_one({"_id": 1})
        process = follow(source, destination)
        client.shop.large.update_one({"_id": 1}, {"$set": {"one": text, "two": text[:-100]}})
        finish(process)
    check_equal(source, destination)


@pytest.mark.parametrize("flags", [["--once"], []], ids=str)
def test_time_series_are_copied_at_the_end(pair, flags):
    source, destination = pair
    prepare(source.uri)
    with MongoClient(source.uri) as client, MongoClient(destination.uri) as other:
        fill_series(client.climate)
        if flags:
            said = ended(migrate(source, destination, *flags))
        else:
            process = follow(source, destination)
            assert "weather" not in other.climate.list_collection_names()
            client.climate.weather.insert_one({"ts": NOON, "at": {"room": 9}, "celsius": 1})
            client.climate.weather.delete_many({"at.room": 1})
            client.climate.plain.drop()
            client.climate.create_collection("later", timeseries={"timeField": "ts"}).insert_one({"ts": NOON})
            client.shop.many.update_one({"_id": 1}, {"$set": {"touched": True}})
            said = finish(process)
        count = client.climate.weather.count_documents({})
        assert "3 time series copied" in said and (count == 3000 if flags else 1000 < count < 3000)
        assert series_state(other.climate) == series_state(client.climate)
        with MongoClient(source.uri) as one:
            assert state(other.shop) == state(one.shop)
        again = migrate(source, destination, "--once", "--nsInclude", "climate.*")
        assert "is there already; --drop removes it first" in again.communicate(timeout=PATIENCE_SECONDS)[1]
        ended(migrate(source, destination, "--once", "--drop", "--nsInclude", "climate.*"))
        assert series_state(other.climate) == series_state(client.climate)


def test_options_that_change_are_followed(pair):
    source, destination = pair
    prepare(source.uri)
    process = follow(source, destination)
    with MongoClient(source.uri) as client:
        shop = client.shop
        shop.command("collMod", "checked", validator={"a": {"$gt": -5}}, validationLevel="moderate")
        shop.command("collMod", "many", index={"name": "text_1", "hidden": True})
        shop.many.create_index([("at", 1)], expireAfterSeconds=10**9)
        shop.command("collMod", "many", index={"keyPattern": {"at": 1}, "expireAfterSeconds": 10**8})
        shop.command("collMod", "capped", cappedSize=200_000)
        shop.command("collMod", "view", viewOn="types", pipeline=[])
        shop.command("collMod", "types", changeStreamPreAndPostImages={"enabled": True})
        shop.many.rename("moved")
        shop.command("collMod", "moved", validator={"n": {"$lt": 1000}})
    finish(process)
    check_equal(source, destination)
