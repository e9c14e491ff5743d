"""Users, roles and logins over the newest pymongo: who gets in, and what each may do."""

import base64
import contextlib
import hashlib
import itertools
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest
from bson import Timestamp
from bson.int64 import Int64
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from conftest import ENGINES
from quarry_process import Quarry, binary
from wire_client import WireClient

BAD_VALUE = 2
UNAUTHORIZED = 13
INVALID_NAMESPACE = 73
AUTHENTICATION_FAILED = 18
USER_NOT_FOUND = 11
ROLE_NOT_FOUND = 31
CURSOR_NOT_FOUND = 43
NO_SUCH_TRANSACTION = 251
NAMES = itertools.count(1)


class Guarded(Quarry):
    """A server that `stop` cannot validate: validation does not log in."""

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with access control and one user, `root` of admin."""
    quarry = Guarded(tmp_path_factory.mktemp("access") / "data", "memory", ["--auth"])
    quarry.start()
    with MongoClient(quarry.uri) as first:
        first.admin.command("createUser", "root", pwd="geheim", roles=["root"])
    yield quarry
    assert quarry.stop() == 0, quarry.tail()


def login(quarry, user, password, database="admin", **options):
    return MongoClient(
        quarry.uri, username=user, password=password, authSource=database, serverSelectionTimeoutMS=5000, **options
    )


@pytest.fixture(scope="module")
def root(guarded):
    with login(guarded, "root", "geheim") as client:
        yield client


@contextlib.contextmanager
def refused(code):
    with pytest.raises(OperationFailure) as failure:
        yield
    assert failure.value.code == code, failure.value.details


@pytest.fixture
def names():
    """A database and a user of its own."""
    number = next(NAMES)
    return f"db{number}", f"user{number}"


def test_the_localhost_exception_makes_one_user_and_is_over(tmp_path):
    quarry = Guarded(tmp_path / "data", "memory", ["--auth"]).start()
    with MongoClient(quarry.uri) as client:
        client.admin.command("ping")
        for command in ({"find": "things"}, {"insert": "things", "documents": [{}]}, {"createRole": "r", "privileges": [], "roles": []}):
            with refused(UNAUTHORIZED):
                client.db.command(command)
        with refused(UNAUTHORIZED):
            client.db.command("createUser", "mallory", pwd="x", roles=[])
        client.admin.command("createUser", "first", pwd="secret", roles=[{"role": "userAdminAnyDatabase", "db": "admin"}])
        with pytest.raises(OperationFailure, match="requires authentication") as failure:
            client.admin.command("createUser", "second", pwd="secret", roles=["root"])
        assert failure.value.code == UNAUTHORIZED
    with login(quarry, "first", "secret") as client:
        client.admin.command("createUser", "second", pwd="secret", roles=[])
        assert [user["user"] for user in client.admin.command("usersInfo", 1)["users"]] == ["first", "second"]
    assert quarry.stop() == 0


def test_the_exception_can_be_switched_off(tmp_path):
    quarry = Guarded(tmp_path / "data", "memory", ["--auth", "--setParameter", "enableLocalhostAuthBypass=false"]).start()
    with MongoClient(quarry.uri) as client, refused(UNAUTHORIZED):
        client.admin.command("createUser", "first", pwd="secret", roles=["root"])
    assert quarry.stop() == 0


@pytest.mark.parametrize("engine", ["rocksdb", "mdbx"])
def test_users_outlive_the_server(tmp_path, engine):
    quarry = Guarded(tmp_path / "data", engine, ["--auth"]).start()
    with MongoClient(quarry.uri) as client:
        client.admin.command("createUser", "root", pwd="geheim", roles=["root"])
    assert quarry.stop() == 0
    quarry.start()
    with MongoClient(quarry.uri) as client, refused(UNAUTHORIZED):
        client.admin.command("createUser", "other", pwd="x", roles=["root"])
    with login(quarry, "root", "geheim") as client:
        client.db.c.insert_one({"_id": 1})
        assert client.db.c.count_documents({}) == 1
    assert quarry.stop() == 0


def test_the_environment_names_the_first_user(tmp_path, monkeypatch):
    monkeypatch.setenv("QUARRY_INITDB_ROOT_USERNAME", "captain")
    monkeypatch.setenv("QUARRY_INITDB_ROOT_PASSWORD", "ahoy")
    quarry = Guarded(tmp_path / "data", "memory", ["--auth"]).start()
    with login(quarry, "captain", "ahoy") as client:
        client.db.c.insert_one({})
    assert quarry.stop() == 0
    # Whoever names a user wants to be asked for one, and nobody else is let in; unless they say that, too.
    quarry = Guarded(tmp_path / "data", "memory", []).start()
    with MongoClient(quarry.uri) as client, refused(UNAUTHORIZED):
        client.db.c.insert_one({})
    with login(quarry, "captain", "ahoy") as client:
        client.db.c.insert_one({})
    assert quarry.stop() == 0
    quarry = Guarded(tmp_path / "data", "memory", ["--noauth"]).start()
    with MongoClient(quarry.uri) as client:
        client.db.c.insert_one({})
    assert quarry.stop() == 0
    monkeypatch.delenv("QUARRY_INITDB_ROOT_PASSWORD")
    with pytest.raises(RuntimeError, match="needed together"):
        Guarded(tmp_path / "data", "memory", ["--auth"]).start()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256"])
def test_each_mechanism_lets_in_who_knows_the_password(guarded, root, names, mechanism):
    database, user = names
    root[database].command("createUser", user, pwd="p\u00e4ss", roles=["readWrite"], mechanisms=[mechanism])
    other = {"SCRAM-SHA-1": "SCRAM-SHA-256", "SCRAM-SHA-256": "SCRAM-SHA-1"}[mechanism]
    with login(guarded, user, "p\u00e4ss", database, authMechanism=mechanism) as client:
        client[database].c.insert_one({"_id": 1})
        status = client.admin.command("connectionStatus")["authInfo"]
        assert status["authenticatedUsers"] == [{"user": user, "db": database}]
    with login(guarded, user, "p\u00e4ss", database) as client:
        assert client[database].c.count_documents({}) == 1
    for attempt in (("wrong", mechanism, database), ("p\u00e4ss", other, database), ("p\u00e4ss", mechanism, "admin")):
        password, how, source = attempt
        with login(guarded, user, password, source, authMechanism=how) as client, refused(AUTHENTICATION_FAILED):
            client[database].c.find_one()
    forgive(guarded)


def test_a_password_is_prepared_as_the_standard_says(guarded, root, names):
    database, user = names
    root[database].command("createUser", user, pwd="\u2168", roles=["read"], mechanisms=["SCRAM-SHA-256"])
    for password in ("IX", "I\u00adX", "\u2168"):
        with login(guarded, user, password, database) as client:
            assert client[database].c.find_one() is None


def test_what_is_kept_of_a_password_has_mongodbs_shape(root, names):
    database, user = names
    root[database].command("createUser", user, pwd="x", roles=["read"], customData={"team": 1})
    found = root[database].command("usersInfo", user, showCredentials=True)["users"][0]
    assert found["_id"] == f"{database}.{user}"
    assert (found["user"], found["db"], found["customData"]) == (user, database, {"team": 1})
    assert found["roles"] == [{"role": "read", "db": database}]
    assert sorted(found["mechanisms"]) == ["SCRAM-SHA-1", "SCRAM-SHA-256"]
    assert found["userId"].version == 4 if hasattr(found["userId"], "version") else len(found["userId"]) == 16
    for mechanism, iterations in (("SCRAM-SHA-1", 10000), ("SCRAM-SHA-256", 15000)):
        credentials = found["credentials"][mechanism]
        assert set(credentials) == {"iterationCount", "salt", "storedKey", "serverKey"}
        assert credentials["iterationCount"] == iterations
    assert "credentials" not in root[database].command("usersInfo", user)["users"][0]
    stored = root.admin["system.users"].find_one({"_id": f"{database}.{user}"})
    assert stored["credentials"].keys() == found["credentials"].keys()
    assert "x" not in [value for value in stored.values() if isinstance(value, str)]


def test_hello_tells_nobody_which_users_there_are(guarded, root, names):
    database, user = names
    root[database].command("createUser", user, pwd="x", roles=[], mechanisms=["SCRAM-SHA-256"])
    with MongoClient(guarded.uri) as client:
        hello = client.admin.command("hello", saslSupportedMechs=f"{database}.{user}")
        assert hello["saslSupportedMechs"] == ["SCRAM-SHA-256"]
        hello = client.admin.command("hello", saslSupportedMechs=f"{database}.nobody")
        assert sorted(hello["saslSupportedMechs"]) == ["SCRAM-SHA-1", "SCRAM-SHA-256"]
        starts = []
        for _ in range(2):
            start = client.admin.command("saslStart", mechanism="SCRAM-SHA-256", payload=b"n,,n=nobody,r=abc")
            starts.append(start["payload"].split(b",")[1:])
        # As for a user who is there: always the same salt, and the iterations of a new user.
        assert starts[0] == starts[1] and starts[0][1] == b"i=15000"


def forgive(quarry):
    """Lets the address of these tests begin anew: after failures its next ones are answered late."""
    with login(quarry, "root", "geheim") as client:
        client.admin.command("ping")


def test_a_login_that_is_no_login_is_refused(guarded):
    with MongoClient(guarded.uri) as client:
        with refused(17):
            client.admin.command("saslContinue", conversationId=1, payload=b"")
        with refused(334):
            client.admin.command("saslStart", mechanism="PLAIN", payload=b"\0root\0geheim")
        for payload in (b"", b"n,,", b"p=tls-unique,,n=root,r=x", b"\xff\xff", b"x" * 100_000):
            forgive(guarded)
            with refused(AUTHENTICATION_FAILED):
                client.admin.command("saslStart", mechanism="SCRAM-SHA-256", payload=payload)
        start = client.admin.command("saslStart", mechanism="SCRAM-SHA-256", payload=b"n,,n=root,r=x")
        with refused(17):
            client.admin.command("saslContinue", conversationId=start["conversationId"] + 1, payload=b"")
        with refused(UNAUTHORIZED):
            client.db.c.find_one()
    forgive(guarded)


def test_users_are_changed_and_removed(guarded, root, names):
    database, user = names
    here = root[database]
    here.command("createUser", user, pwd="old", roles=["read"])
    with refused(51003):
        here.command("createUser", user, pwd="old", roles=[])
    with refused(ROLE_NOT_FOUND):
        here.command("createUser", "other", pwd="x", roles=["nothing"])
    here.command("updateUser", user, pwd="new", roles=["readWrite"])
    with login(guarded, user, "old", database) as client, refused(AUTHENTICATION_FAILED):
        client[database].c.find_one()
    with login(guarded, user, "new", database) as client:
        client[database].c.insert_one({})
        # What changes holds for a connection that is open.
        here.command("revokeRolesFromUser", user, roles=["readWrite"])
        with refused(UNAUTHORIZED):
            client[database].c.find_one()
        here.command("grantRolesToUser", user, roles=["read"])
        assert client[database].c.find_one() is not None
        with refused(UNAUTHORIZED):
            client[database].c.insert_one({})
        with refused(UNAUTHORIZED):
            client[database].command("updateUser", user, roles=["readWrite"])
        here.command("dropUser", user)
        with pytest.raises(OperationFailure, match="requires authentication"):
            client[database].c.find_one()
    with refused(USER_NOT_FOUND):
        here.command("dropUser", user)
    with refused(USER_NOT_FOUND):
        here.command("updateUser", user, pwd="x")
    here.command("createUser", user, pwd="x", roles=[])
    assert here.command("dropAllUsersFromDatabase")["n"] == 1


def test_a_user_that_is_made_again_is_another(guarded, root, names):
    database, user = names
    root[database].command("createUser", user, pwd="x", roles=["read"])
    with login(guarded, user, "x", database) as client:
        client[database].c.find_one()
        root[database].command("dropUser", user)
        root[database].command("createUser", user, pwd="y", roles=["readWrite"])
        with refused(UNAUTHORIZED):
            client[database].c.find_one()


def test_where_a_user_logs_in_from_is_held_at_the_login_and_at_each_change(guarded, root, names):
    database, user = names
    here = root[database]
    away = [{"clientSource": ["10.0.0.0/8"]}, {"clientSource": ["127.0.0.1"], "serverAddress": ["10.0.0.1"]}]
    near = [{"clientSource": ["127.0.0.0/8"], "serverAddress": ["127.0.0.1", "::1"]}]
    here.command("createUser", user, pwd="x", roles=["read"], authenticationRestrictions=away)
    assert here.command("usersInfo", user, showAuthenticationRestrictions=True)["users"][0]["authenticationRestrictions"] == away
    with login(guarded, user, "x", database) as client, refused(AUTHENTICATION_FAILED):
        client[database].c.find_one()
    here.command("updateUser", user, authenticationRestrictions=near)
    with login(guarded, user, "x", database) as client:
        client[database].c.find_one()
        # Those of a role hold as well, for connections that are open, too.
        here.command("createRole", "far", privileges=[], roles=[], authenticationRestrictions=away)
        here.command("grantRolesToUser", user, roles=["far"])
        with refused(UNAUTHORIZED):
            client[database].c.find_one()
        with login(guarded, user, "x", database) as anew, refused(AUTHENTICATION_FAILED):
            anew[database].c.find_one()
        here.command("updateRole", "far", authenticationRestrictions=[])
        with login(guarded, user, "x", database) as anew:
            anew[database].c.find_one()
    for bad in ([{}], [{"clientSource": ["here"]}], [{"clientSource": "127.0.0.1"}], [{"source": ["127.0.0.1"]}], ["127.0.0.1"]):
        with refused(BAD_VALUE):
            here.command("updateUser", user, authenticationRestrictions=bad)
    here.command("createUser", f"{user}admin", pwd="x", roles=["userAdmin"])
    here.command("createRole", "plain", privileges=[], roles=[])
    here.command("createUser", f"{user}maker", pwd="x", roles=[])
    here.command("createRole", "maker", privileges=[{"resource": {"db": database, "collection": ""}, "actions": ["createUser"]}], roles=[])
    here.command("grantRolesToUser", f"{user}maker", roles=["maker"])
    with login(guarded, f"{user}maker", "x", database) as client:
        client[database].command("createUser", "free", pwd="x", roles=[])
        with refused(UNAUTHORIZED):
            client[database].command("createUser", "bound", pwd="x", roles=[], authenticationRestrictions=near)
    with login(guarded, f"{user}admin", "x", database) as client:
        client[database].command("createUser", "bound", pwd="x", roles=[], authenticationRestrictions=near)


def test_a_password_that_the_client_digests_is_for_one_mechanism(guarded, root, names):
    database, user = names
    digest = hashlib.md5(f"{user}:mongo:geheim".encode()).hexdigest()
    sha1 = ["SCRAM-SHA-1"]
    root[database].command("createUser", user, pwd=digest, roles=["read"], digestPassword=False, mechanisms=sha1)
    with login(guarded, user, "geheim", database, authMechanism="SCRAM-SHA-1") as client:
        client[database].c.find_one()
    for options in ({"pwd": digest}, {"pwd": digest, "mechanisms": ["SCRAM-SHA-256"]}, {"pwd": "geheim", "mechanisms": sha1}):
        with refused(BAD_VALUE):
            root[database].command("updateUser", user, digestPassword=False, **options)
    with refused(BAD_VALUE):
        root[database].command("createUser", user, roles=[])


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "memory"])
def test_a_user_is_made_without_a_server(tmp_path, engine):
    data = tmp_path / "data"

    def add(*arguments, password="geheim\n"):
        command = [binary(), "user", "add", *arguments, "--dbpath", str(data), "--engine", engine]
        return subprocess.run(command, input=password, capture_output=True, text=True, timeout=60)

    made = add("root")
    assert (made.returncode, made.stdout) == (0, "user root was made\n"), made.stderr
    secret = tmp_path / "password"
    secret.write_text("x y\nnot this\n")
    made = add("app@shop", "--role", "readWrite@shop", "--role", "clusterMonitor", "--passwordFile", str(secret), password="")
    assert made.returncode == 0, made.stderr
    for bad, why in (
        (add("root"), "there already"),
        (add("other", "--role", "nothing"), "Could not find role"),
        (add("other", password=""), "a password is needed"),
        (add("CN=a@$external"), "no password"),
    ):
        assert bad.returncode == 2 and why in bad.stderr and "geheim" not in bad.stderr, bad
    quarry = Guarded(data, engine, ["--auth"]).start()
    assert add("late").returncode == 100
    with login(quarry, "root", "geheim") as client:
        client.shop.things.insert_one({})
    with login(quarry, "app", "x y", "shop") as client:
        client.shop.things.insert_one({})
        client.admin.command("serverStatus")
        with refused(UNAUTHORIZED):
            client.other.things.insert_one({})
    assert quarry.stop() == 0


def test_guessing_over_many_connections_is_slow_and_counted(tmp_path):
    quarry = Guarded(tmp_path / "data", "memory", ["--auth"]).start()
    with MongoClient(quarry.uri) as client:
        client.admin.command("createUser", "root", pwd="geheim", roles=["root"])
    guessers = [WireClient(quarry.port) for _ in range(40)]
    for guesser in guessers[:4]:
        assert guess(guesser) == AUTHENTICATION_FAILED
    begun = time.monotonic()
    for guesser in guessers[4:]:
        start_guess(guesser)
    for guesser in guessers[4:]:
        end_guess(guesser)
    # One that leaves gives up its wait.
    guessers[5].close()
    # All are answered before somebody honest comes, who would be one too many beside eight that wait.
    answered = [guesser.receive()["code"] for guesser in guessers[4:] if guesser is not guessers[5]]
    assert set(answered) == {AUTHENTICATION_FAILED}
    with login(quarry, "root", "geheim") as client:
        counted = client.admin.command("serverStatus")["security"]["authentication"]
    assert counted["failed"] >= 32 and counted["refused"] >= 20 and counted["delayed"] >= 8, counted
    for guesser in guessers:
        guesser.close()
    assert quarry.stop() == 0
    assert time.monotonic() - begun < 30


def start_guess(client):
    start = {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"n,,n=root,r=abc"}
    client.conversation = client.run(start, "admin")


def end_guess(client):
    nonce = client.conversation["payload"].split(b",")[0]
    proof = b"c=biws," + nonce + b",p=" + base64.b64encode(bytes(32))
    client.send({"saslContinue": 1, "conversationId": client.conversation["conversationId"], "payload": proof}, "admin")


def guess(client):
    start_guess(client)
    end_guess(client)
    return client.receive()["code"]


def counted_failures(client):
    return client.admin.command("serverStatus")["security"]["authentication"]


def test_an_account_of_ones_own_makes_no_guess_faster(tmp_path):
    quarry = Guarded(tmp_path / "data", "memory", ["--auth"]).start()
    with MongoClient(quarry.uri) as client:
        client.admin.command("createUser", "root", pwd="geheim", roles=["root"])
    with login(quarry, "root", "geheim") as root:
        root.admin.command("createUser", "mine", pwd="mine", roles=[])
        for _ in range(2):
            for _ in range(2):
                with WireClient(quarry.port) as guesser:
                    assert guess(guesser) == AUTHENTICATION_FAILED
            with login(quarry, "mine", "mine") as mine:
                mine.admin.command("ping")
        assert counted_failures(root)["delayed"] == 0
        with WireClient(quarry.port) as guesser:
            assert guess(guesser) == AUTHENTICATION_FAILED
        assert counted_failures(root)["delayed"] == 1
    assert quarry.stop() == 0


def test_the_admin_port_looks_at_no_guess_before_its_wait(tmp_path):
    quarry = Guarded(tmp_path / "data", "memory", ["--auth", "--adminPort", "0"]).start()
    with MongoClient(quarry.uri) as client:
        client.admin.command("createUser", "root", pwd="geheim", roles=["root"])

    def ask(password):
        header = "Basic " + base64.b64encode(f"root:{password}".encode()).decode()
        try:
            with urllib.request.urlopen(urllib.request.Request(quarry.admin_url + "metrics", headers={"Authorization": header}), timeout=30) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    assert [ask(f"guess {number}") for number in range(4)] == [401] * 4
    begun = time.monotonic()
    # The right one waits like the others.
    assert ask("geheim") == 200
    assert time.monotonic() - begun >= 0.1
    with login(quarry, "root", "geheim") as root:
        assert counted_failures(root)["delayed"] == 1
        assert [ask(f"guess {number}") for number in range(5)] == [401] * 5
        assert counted_failures(root)["delayed"] == 2
        # What was right is remembered, and waits no more.
        assert ask("geheim") == 200
        assert counted_failures(root)["delayed"] == 2
        # Who guesses on many connections at once is refused on most of them without a look.
        guessers = [threading.Thread(target=ask, args=(f"guess {number}",)) for number in range(24)]
        for guesser in guessers:
            guesser.start()
        for guesser in guessers:
            guesser.join()
        counted = counted_failures(root)
        assert counted["refused"] >= 8, counted
    assert quarry.stop() == 0


def test_roles_inherit_and_change_at_once(guarded, root, names):
    database, user = names
    here = root[database]
    find = [{"resource": {"db": database, "collection": "open"}, "actions": ["find"]}]
    here.command("createRole", "inner", privileges=find, roles=[])
    here.command("createRole", "outer", privileges=[], roles=["inner"])
    with refused(51002):
        here.command("createRole", "outer", privileges=[], roles=[])
    with refused(49):
        here.command("grantRolesToRole", "inner", roles=["outer"])
    with refused(49):
        here.command("createRole", "far", privileges=[{"resource": {"cluster": True}, "actions": ["shutdown"]}], roles=[])
    with refused(49):
        here.command("updateRole", "read", roles=[])
    with refused(2):
        here.command("createRole", "odd", privileges=[{"resource": {"db": "", "collection": ""}, "actions": ["dance"]}], roles=[])
    here.command("createUser", user, pwd="x", roles=["outer"])
    with login(guarded, user, "x", database) as client:
        mine = client[database]
        assert mine.open.find_one() is None
        with refused(UNAUTHORIZED):
            mine.shut.find_one()
        here.command("grantPrivilegesToRole", "inner", privileges=[{"resource": {"db": database, "collection": "shut"}, "actions": ["find", "insert"]}])
        mine.shut.insert_one({})
        here.command("revokePrivilegesFromRole", "inner", privileges=[{"resource": {"db": database, "collection": "shut"}, "actions": ["insert"]}])
        with refused(UNAUTHORIZED):
            mine.shut.insert_one({})
        assert mine.shut.find_one() is not None
        here.command("revokeRolesFromRole", "outer", roles=["inner"])
        with refused(UNAUTHORIZED):
            mine.open.find_one()
        here.command("updateRole", "outer", roles=["inner"])
        mine.open.find_one()
        info = here.command("rolesInfo", "outer", showPrivileges=True)["roles"][0]
        assert info["inheritedRoles"] == [{"role": "inner", "db": database}] and not info["isBuiltin"]
        here.command("dropRole", "inner")
        assert here.command("rolesInfo", "outer")["roles"][0]["roles"] == []
        with refused(UNAUTHORIZED):
            mine.open.find_one()
    with refused(ROLE_NOT_FOUND):
        here.command("dropRole", "inner")
    assert here.command("dropAllRolesFromDatabase")["n"] == 1
    built_in = here.command("rolesInfo", 1, showBuiltinRoles=True)["roles"]
    assert {role["role"] for role in built_in} == {"read", "readWrite", "dbAdmin", "dbOwner", "userAdmin"}


def test_a_cursor_gives_nothing_more_once_its_privilege_is_gone(guarded, root, names):
    database, user = names
    root[database].c.insert_many([{"_id": number} for number in range(10)])
    root[database].command("createUser", user, pwd="x", roles=["read"])
    with login(guarded, user, "x", database) as client, client.start_session() as session:
        commands = (
            {"find": "c", "batchSize": 2},
            {"aggregate": "c", "pipeline": [{"$unionWith": "c"}], "cursor": {"batchSize": 2}},
            {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}},
        )
        cursors = [client[database].command(command, session=session)["cursor"]["id"] for command in commands]
        more = [{"getMore": Int64(cursor), "collection": "c", "batchSize": 1, "maxTimeMS": 1} for cursor in cursors]
        for command in more[:2]:
            del command["maxTimeMS"]
        for command in more:
            client[database].command(command, session=session)
        root[database].command("revokeRolesFromUser", user, roles=["read"])
        for command in more:
            with pytest.raises(OperationFailure, match="not authorized for getMore") as failure:
                client[database].command(command, session=session)
            assert failure.value.code == UNAUTHORIZED
        root[database].command("grantRolesToUser", user, roles=["read"])
        for command in more:
            client[database].command(command, session=session)


def test_a_cursor_is_its_users_alone(guarded, root, names):
    database, user = names
    root[database].c.insert_many([{"_id": n} for n in range(20)])
    for name in (user, user + "b"):
        root[database].command("createUser", name, pwd="x", roles=["read"])
    with login(guarded, user, "x", database) as one, login(guarded, user + "b", "x", database) as two:
        cursor = one[database].command("find", "c", batchSize=2)["cursor"]["id"]
        with refused(UNAUTHORIZED):
            two[database].command({"getMore": Int64(cursor), "collection": "c"})
        root[database].command("revokeRolesFromUser", user + "b", roles=["read"])
        with refused(UNAUTHORIZED):
            two[database].command("killCursors", "c", cursors=[cursor])
        # The cursor was made without a session only by `command` with an implicit one: its owner names it again.
        assert one[database].command("killCursors", "c", cursors=[cursor])["cursorsKilled"] == [cursor]


def test_lists_show_what_a_user_may_see(guarded, root, names):
    database, user = names
    root[database].open.insert_one({})
    root[database].shut.insert_one({})
    see = [{"resource": {"db": database, "collection": "open"}, "actions": ["find"]}]
    root[database].command("createRole", "see", privileges=see, roles=[])
    root[database].command("createUser", user, pwd="x", roles=["see"])
    with login(guarded, user, "x", database) as client:
        assert client.list_database_names() == [database]
        with refused(UNAUTHORIZED):
            client.admin.command("listDatabases", authorizedDatabases=False)
        with refused(UNAUTHORIZED):
            client[database].list_collections()
        listed = client[database].command("listCollections", nameOnly=True, authorizedCollections=True)
        assert [entry["name"] for entry in listed["cursor"]["firstBatch"]] == ["open"]
        mine = list(client.admin.aggregate([{"$currentOp": {"idleConnections": True}}]))
        assert mine and all(entry["clientMetadata"] for entry in mine)
        with refused(UNAUTHORIZED):
            list(client.admin.aggregate([{"$currentOp": {"allUsers": True}}]))
        with refused(UNAUTHORIZED):
            client.admin.command("currentOp")
        client.admin.command("currentOp", **{"$ownOps": True})


#: Everything that the server has, tried by those who must not: (database, command).
ATTACKS = [
    ("DB", {"find": "secret"}),
    ("DB", {"count": "secret"}),
    ("DB", {"distinct": "secret", "key": "a"}),
    ("DB", {"aggregate": "secret", "pipeline": [], "cursor": {}}),
    ("DB", {"aggregate": "mine", "pipeline": [{"$lookup": {"from": "secret", "localField": "a", "foreignField": "a", "as": "b"}}], "cursor": {}}),
    ("DB", {"aggregate": "mine", "pipeline": [{"$lookup": {"from": "secret", "pipeline": [], "as": "b"}}], "cursor": {}}),
    ("DB", {"aggregate": "mine", "pipeline": [{"$lookup": {"from": "mine", "pipeline": [{"$lookup": {"from": "secret", "pipeline": [], "as": "b"}}], "as": "b"}}], "cursor": {}}),
    ("DB", {"aggregate": "mine", "pipeline": [{"$unionWith": "secret"}], "cursor": {}}),
    ("DB", {"aggregate": "mine", "pipeline": [{"$unionWith": {"coll": "secret", "pipeline": []}}], "cursor": {}}),
    ("DB", {"aggregate": "mine", "pipeline": [{"$facet": {"a": [{"$lookup": {"from": "secret", "pipeline": [], "as": "b"}}]}}], "cursor": {}}),
    ("DB", {"aggregate": "mine", "pipeline": [{"$graphLookup": {"from": "secret", "startWith": "$a", "connectFromField": "a", "connectToField": "b", "as": "c"}}], "cursor": {}}),
    ("DB", {"aggregate": "mine", "pipeline": [{"$out": "secret"}], "cursor": {}}),
    ("DB", {"aggregate": "mine", "pipeline": [{"$merge": {"into": "secret"}}], "cursor": {}}),
    ("DB", {"aggregate": "mine", "pipeline": [{"$out": "mine"}], "cursor": {}}),
    ("DB", {"aggregate": "mine", "pipeline": [{"$out": {"db": "other", "coll": "secret"}}], "cursor": {}}),
    ("DB", {"aggregate": "mine", "pipeline": [{"$merge": {"into": "mine", "whenMatched": "fail"}}], "cursor": {}}),
    ("DB", {"aggregate": "secret", "pipeline": [{"$collStats": {"storageStats": {}}}], "cursor": {}}),
    ("DB", {"aggregate": "mine", "pipeline": [{"$changeStream": {}}], "cursor": {}}),
    ("DB", {"aggregate": 1, "pipeline": [{"$changeStream": {}}], "cursor": {}}),
    ("admin", {"aggregate": 1, "pipeline": [{"$changeStream": {"allChangesForCluster": True}}], "cursor": {}}),
    ("DB", {"explain": {"find": "secret"}}),
    ("DB", {"explain": {"aggregate": "secret", "pipeline": [], "cursor": {}}}),
    ("DB", {"insert": "mine", "documents": [{}]}),
    ("DB", {"insert": "secret", "documents": [{}]}),
    ("DB", {"update": "mine", "updates": [{"q": {}, "u": {"$set": {"a": 1}}}]}),
    ("DB", {"update": "mine", "updates": [{"q": {"_id": 7}, "u": {"$set": {"a": 1}}, "upsert": True}]}),
    ("DB", {"delete": "mine", "deletes": [{"q": {}, "limit": 0}]}),
    ("DB", {"findAndModify": "mine", "update": {"$set": {"a": 1}}}),
    ("DB", {"findAndModify": "mine", "remove": True}),
    ("admin", {"bulkWrite": 1, "ops": [{"insert": 0, "document": {}}], "nsInfo": [{"ns": "DB.mine"}]}),
    ("admin", {"bulkWrite": 1, "ops": [{"update": 0, "filter": {}, "updateMods": {"$set": {"a": 1}}}], "nsInfo": [{"ns": "DB.mine"}]}),
    ("admin", {"bulkWrite": 1, "ops": [{"delete": 1, "filter": {}, "multi": True}], "nsInfo": [{"ns": "DB.secret"}, {"ns": "DB.mine"}]}),
    ("admin", {"bulkWrite": 1, "ops": [{"update": 0, "filter": {}, "updateMods": {"$set": {"roles": []}}}], "nsInfo": [{"ns": "admin.system.users"}]}),
    ("DB", {"create": "made"}),
    ("DB", {"createIndexes": "mine", "indexes": [{"key": {"a": 1}, "name": "a"}]}),
    ("DB", {"dropIndexes": "mine", "index": "*"}),
    ("DB", {"drop": "mine"}),
    ("DB", {"dropDatabase": 1}),
    ("DB", {"collMod": "mine", "index": {"name": "a", "hidden": True}}),
    ("DB", {"cloneCollectionAsCapped": "secret", "toCollection": "made", "size": 4096}),
    ("DB", {"cloneCollectionAsCapped": "mine", "toCollection": "made", "size": 4096}),
    ("admin", {"cloneCollectionAsCapped": "system.users", "toCollection": "made", "size": 4096}),
    ("DB", {"convertToCapped": "mine", "size": 4096}),
    ("admin", {"convertToCapped": "system.users", "size": 4096}),
    ("DB", {"reIndex": "mine"}),
    ("DB", {"collStats": "secret"}),
    ("DB", {"listIndexes": "secret"}),
    ("DB", {"listCollections": 1}),
    ("DB", {"dbStats": 1}),
    ("DB", {"dataSize": "DB.secret"}),
    ("DB", {"dbHash": 1}),
    ("DB", {"compact": "mine"}),
    ("DB", {"planCacheClear": "mine"}),
    ("DB", {"planCacheClearFilters": "mine"}),
    ("DB", {"planCacheListFilters": "mine"}),
    ("DB", {"planCacheSetFilter": "mine", "query": {"a": 1}, "indexes": ["a"]}),
    ("DB", {"aggregate": "secret", "pipeline": [{"$indexStats": {}}], "cursor": {}}),
    ("DB", {"aggregate": "secret", "pipeline": [{"$planCacheStats": {}}], "cursor": {}}),
    ("admin", {"aggregate": 1, "pipeline": [{"$queryStats": {}}], "cursor": {}}),
    ("admin", {"aggregate": 1, "pipeline": [{"$querySettings": {}}], "cursor": {}}),
    ("admin", {"setQuerySettings": {"find": "mine", "filter": {"a": 1}, "$db": "DB"}, "settings": {"reject": True}}),
    ("admin", {"removeQuerySettings": {"find": "mine", "filter": {"a": 1}, "$db": "DB"}}),
    ("admin", {"connPoolStats": 1}),
    ("admin", {"lockInfo": 1}),
    ("DB", {"validate": "mine"}),
    ("DB", {"profile": 2}),
    ("DB", {"createUser": "mallory", "pwd": "x", "roles": []}),
    ("DB", {"updateUser": "root", "pwd": "x"}),
    ("DB", {"dropUser": "USER"}),
    ("DB", {"dropAllUsersFromDatabase": 1}),
    ("DB", {"grantRolesToUser": "USER", "roles": ["dbOwner"]}),
    ("DB", {"grantRolesToUser": "USER", "roles": [{"role": "root", "db": "admin"}]}),
    ("DB", {"revokeRolesFromUser": "USER", "roles": ["dbOwner"]}),
    ("DB", {"createRole": "r", "privileges": [], "roles": []}),
    ("DB", {"updateRole": "reader", "privileges": []}),
    ("DB", {"dropRole": "reader"}),
    ("DB", {"dropAllRolesFromDatabase": 1}),
    ("DB", {"grantPrivilegesToRole": "reader", "privileges": [{"resource": {"db": "DB", "collection": ""}, "actions": ["find"]}]}),
    ("DB", {"revokePrivilegesFromRole": "reader", "privileges": [{"resource": {"db": "DB", "collection": ""}, "actions": ["find"]}]}),
    ("DB", {"grantRolesToRole": "reader", "roles": ["dbOwner"]}),
    ("DB", {"revokeRolesFromRole": "reader", "roles": ["dbOwner"]}),
    ("DB", {"usersInfo": 1}),
    ("DB", {"rolesInfo": 1}),
    ("admin", {"usersInfo": {"forAllDBs": True}}),
    ("admin", {"usersInfo": "root", "showCredentials": True}),
    ("admin", {"updateUser": "root", "pwd": "mine"}),
    ("admin", {"dropUser": "root"}),
    ("admin", {"createUser": "mallory", "pwd": "x", "roles": ["root"]}),
    ("admin", {"find": "system.users"}),
    ("admin", {"find": "system.roles"}),
    ("admin", {"aggregate": "system.users", "pipeline": [], "cursor": {}}),
    ("admin", {"insert": "system.users", "documents": [{"_id": "admin.mallory"}]}),
    ("admin", {"update": "system.users", "updates": [{"q": {}, "u": {"$set": {"roles": []}}}]}),
    ("admin", {"delete": "system.users", "deletes": [{"q": {}, "limit": 0}]}),
    ("admin", {"drop": "system.users"}),
    ("admin", {"dropDatabase": 1}),
    ("admin", {"renameCollection": "DB.mine", "to": "DB.other"}),
    ("admin", {"renameCollection": "DB.mine", "to": "admin.system.users", "dropTarget": True}),
    ("admin", {"renameCollection": "admin.system.users", "to": "DB.mine", "dropTarget": True}),
    ("admin", {"listDatabases": 1, "authorizedDatabases": False}),
    ("admin", {"currentOp": 1}),
    ("admin", {"killOp": 1, "op": 1}),
    ("admin", {"killAllSessions": []}),
    ("admin", {"killAllSessionsByPattern": []}),
    ("admin", {"serverStatus": 1}),
    ("admin", {"hostInfo": 1}),
    ("admin", {"getCmdLineOpts": 1}),
    ("admin", {"getLog": "global"}),
    ("admin", {"getParameter": "*"}),
    ("admin", {"setParameter": 1, "quiet": True}),
    ("admin", {"logRotate": 1}),
    ("admin", {"rotateCertificates": 1}),
    ("admin", {"fsync": 1}),
    ("admin", {"fsync": 1, "lock": True}),
    ("admin", {"fsyncUnlock": 1}),
    ("admin", {"flushJournalArchive": 1}),
    ("admin", {"top": 1}),
    ("admin", {"shutdown": 1}),
    ("admin", {"logApplicationMessage": "mine"}),
    ("admin", {"invalidateUserCache": 1}),
    ("admin", {"replSetGetStatus": 1}),
    ("admin", {"replSetGetConfig": 1}),
    ("admin", {"getClusterParameter": "*"}),
    ("admin", {"setClusterParameter": {"changeStreamOptions": {"preAndPostImages": {"expireAfterSeconds": 1}}}}),
    ("admin", {"getDefaultRWConcern": 1}),
    ("admin", {"setDefaultRWConcern": 1, "defaultReadConcern": {"level": "local"}}),
    ("admin", {"setFeatureCompatibilityVersion": "8.0", "confirm": True}),
    ("admin", {"replSetInitiate": {}}),
    ("admin", {"replSetReconfig": {}}),
    ("admin", {"replSetStepDown": 1}),
]

#: Commands that say who they are for: without a login they are refused, with one they only reach what is the user's own.
OWN = {"abortTransaction", "commitTransaction", "startSession", "endSessions", "refreshSessions", "killSessions", "getMore", "killCursors"}
#: Before a login.
OPEN = {"authenticate", "hello", "isMaster", "ping", "buildInfo", "saslStart", "saslContinue", "logout", "connectionStatus", "whatsmyuri", "listCommands"}


def spelled_out(value, database, user):
    if isinstance(value, str):
        return user if value == "USER" else value.replace("DB", database)
    if isinstance(value, dict):
        return {key: spelled_out(inner, database, user) for key, inner in value.items()}
    if isinstance(value, list):
        return [spelled_out(inner, database, user) for inner in value]
    return value


def state_of(root, database):
    """What an attack must not change."""
    return (
        sorted(document["_id"] for document in root.admin["system.users"].find()),
        [root[database][name].count_documents({}) for name in ("mine", "secret")],
        sorted(root[database].list_collection_names()),
        sorted(root[database].mine.index_information()),
    )


def prepare(root, database, user):
    for name in ("mine", "secret"):
        root[database][name].insert_many([{"_id": n, "a": n} for n in range(3)])
    read = [{"resource": {"db": database, "collection": "mine"}, "actions": ["find"]}]
    root[database].command("createRole", "reader", privileges=read, roles=[])
    root[database].command("createUser", user, pwd="x", roles=["reader"])


def test_a_bulk_write_needs_for_each_collection_what_its_operations_do(guarded, root, names):
    database, user = names
    prepare(root, database, user)
    on = lambda name, *actions: {"resource": {"db": database, "collection": name}, "actions": list(actions)}  # noqa: E731
    root[database].command("updateRole", "reader", privileges=[on("mine", "insert", "update"), on("secret", "update")])
    insert, update = {"document": {"_id": 9}}, {"filter": {"_id": 8}, "updateMods": {"$set": {"a": 5}}}
    info = [{"ns": f"{database}.mine"}, {"ns": f"{database}.secret"}]
    with login(guarded, user, "x", database) as client:
        allowed = [{"insert": 0, **insert}, {"update": 0, **update, "upsert": True}, {"update": 1, **update}]
        reply = client.admin.command("bulkWrite", ops=allowed, nsInfo=info)
        assert (reply["nErrors"], reply["nInserted"], reply["nUpserted"]) == (0, 1, 1)
        for operation in [
            {"insert": 1, **insert},
            {"update": 1, **update, "upsert": True},
            {"delete": 0, "filter": {}},
        ]:
            with refused(UNAUTHORIZED):
                client.admin.command("bulkWrite", ops=[allowed[2], operation], nsInfo=info)
        with refused(UNAUTHORIZED):
            client.admin.command("bulkWrite", ops=allowed, nsInfo=info, bypassDocumentValidation=True)


#: Stages that may be not served at all are refused either way.
REFUSALS = {"aggregate": {UNAUTHORIZED, 40324, 238}}


def attack(client, commands):
    """Runs commands that must all be refused, and counts them; those that were not are shown."""
    tried, leaks = 0, []
    for name, command in commands:
        tried += 1
        try:
            leaks.append((name, command, client[name].command(command)))
        except OperationFailure as failure:
            if failure.code not in REFUSALS.get(next(iter(command)), {UNAUTHORIZED}):
                leaks.append((name, command, failure.details))
    print(f"{tried} commands tried, {len(leaks)} leaks")
    assert not leaks
    return tried


def attacks(database, user):
    return [(spelled_out(name, database, user), spelled_out(command, database, user)) for name, command in ATTACKS]


def test_nobody_does_anything_without_a_login(guarded, root, names):
    database, user = names
    prepare(root, database, user)
    before = state_of(root, database)
    with MongoClient(guarded.uri) as client:
        every = sorted(set(root.admin.command("listCommands")["commands"]) - OPEN)
        of_transaction = {"txnNumber": Int64(1), "autocommit": False}
        bare = [("admin", {name: 1, **(of_transaction if name.endswith("Transaction") else {})}) for name in every]
        assert attack(client, attacks(database, user) + bare) == len(ATTACKS) + len(every)
    assert state_of(root, database) == before


def test_a_reader_of_one_collection_does_nothing_else(guarded, root, names):
    database, user = names
    prepare(root, database, user)
    before = state_of(root, database)
    with login(guarded, user, "x", database) as client:
        assert client[database].mine.count_documents({}) == 3
        assert attack(client, attacks(database, user)) == len(ATTACKS)
    assert state_of(root, database) == before


def test_who_may_read_and_write_one_database_does_nothing_in_another(guarded, root, names):
    database, user = names
    prepare(root, database, user)
    neighbour = f"{database}_neighbour"
    root[neighbour].command("createUser", "neighbour", pwd="x", roles=["dbOwner"])
    before = state_of(root, database)
    with login(guarded, "neighbour", "x", neighbour) as client:
        client[neighbour].own.insert_one({"_id": 1})
        assert attack(client, attacks(database, user)) == len(ATTACKS)
        target = {"db": database, "coll": "secret"}
        own = [{"$match": {}}], [{"$project": {"a": 1}}]
        ways_out = [[*before_it, last] for before_it in own for last in ({"$out": target}, {"$merge": {"into": target}})]
        ways_out = [(neighbour, {"aggregate": "own", "pipeline": pipeline, "cursor": {}}) for pipeline in ways_out]
        names_of_both = [("admin", {"renameCollection": f"{neighbour}.own", "to": f"{database}.stolen"}), ("admin", {"renameCollection": f"{database}.secret", "to": f"{neighbour}.stolen"})]
        assert attack(client, ways_out + names_of_both) == 6
    assert state_of(root, database) == before
    root.drop_database(neighbour)


#: What the role `read` grants on its own database; every other command of the attacks is refused there.
READS = {"find", "count", "distinct", "explain", "collStats", "dbStats", "dataSize", "dbHash", "listIndexes", "listCollections"}


def test_a_read_only_user_changes_nothing(guarded, root, names):
    database, user = names
    prepare(root, database, user)
    root[database].command("createUser", f"r{user}", pwd="x", roles=["read"])
    before = state_of(root, database)

    def is_read(name, command):
        stages = [next(iter(stage)) for stage in command.get("pipeline", [])]
        is_pipeline = "aggregate" in command and not {"$out", "$merge"} & set(stages) and "allChanges" not in str(command)
        return name == database and (next(iter(command)) in READS or is_pipeline)

    with login(guarded, f"r{user}", "x", database) as client:
        forbidden = [one for one in attacks(database, user) if not is_read(*one)]
        assert len(forbidden) > 80
        attack(client, forbidden)
    assert state_of(root, database) == before


def test_no_command_reaches_the_cursor_of_another(guarded, root, names):
    database, user = names
    root[database].c.insert_many([{"_id": number} for number in range(30)])
    sources = [
        {"find": "c", "batchSize": 2},
        {"aggregate": "c", "pipeline": [], "cursor": {"batchSize": 2}},
        {"listCollections": 1, "cursor": {"batchSize": 0}},
        {"listIndexes": "c", "cursor": {"batchSize": 0}},
    ]
    for name in ("one", "two"):
        root[database].command("createUser", f"{name}{user}", pwd="x", roles=["readWrite"])
    with login(guarded, f"one{user}", "x", database) as one, login(guarded, f"two{user}", "x", database) as two, MongoClient(guarded.uri) as nobody:
        opened = [one[database].command(source)["cursor"] for source in sources]
        tries = []
        for cursor in opened:
            collection = cursor["ns"].partition(".")[2]
            tries.append((database, {"getMore": Int64(cursor["id"]), "collection": collection}))
        assert all(cursor["id"] for cursor in opened)
        assert attack(two, tries) == attack(nobody, tries) == len(sources)
        ends = [(database, {"killCursors": "c", "cursors": [Int64(opened[0]["id"])]}), (database, {"killCursors": "c", "cursors": [Int64(opened[1]["id"])]})]
        attack(nobody, ends)
        # Each is still its user's, who goes on where it was.
        assert len(one[database].command(tries[0][1])["cursor"]["nextBatch"]) == 28


def test_every_attack_names_a_command_and_every_command_is_attacked(root):
    every = set(root.admin.command("listCommands")["commands"])
    named = {next(iter(command)) for _, command in ATTACKS}
    assert named <= every
    untried = every - named - OPEN - OWN
    timing = {name for name in untried if "Timing" in name or "imingStats" in name}
    assert not untried - timing, untried - timing


def test_secrets_stand_in_no_log(guarded, root, names):
    database, user = names
    root.admin.command("setParameter", 1, slowOpThresholdMs=0)
    try:
        root[database].command("createUser", user, pwd="hunter2hunter2", roles=["read"])
        with login(guarded, user, "hunter2hunter2", database) as client:
            client[database].c.find_one()
            with refused(UNAUTHORIZED):
                client[database].command("createUser", "other", pwd="hunter2hunter2", roles=[])
            with refused(UNAUTHORIZED):
                client[database].command("explain", {"createUser": "other", "pwd": "hunter2hunter2"})
        with pytest.raises(OperationFailure, match="frobnicate"):
            root[database].command("createUser", "other", pwd="hunter2hunter2", roles=[], frobnicate=1)
        # Whoever mistypes a name gives the password all the same.
        with pytest.raises(OperationFailure, match="no such command"):
            root[database].command("creatUser", "other", pwd="hunter2hunter2", roles=[])
        payload = b"n,,n=u,r=hunter2hunter2"
        start = {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": payload, "db": database}
        for name in ("hello", "isMaster"):
            root[database].command(name, speculativeAuthenticate=start)
        for explained in ({"createUser": "other", "pwd": "hunter2hunter2"}, {"explain": {"createUser": "other", "pwd": "hunter2hunter2"}}):
            with pytest.raises(OperationFailure):
                root[database].command("explain", explained)
    finally:
        root.admin.command("setParameter", 1, slowOpThresholdMs=100)
    text = guarded.log.read_text()
    assert base64.b64encode(payload).decode() not in text
    assert "createUser" in text and "Authentication succeeded" in text
    assert "hunter2hunter2" not in text


def test_the_ids_of_sessions_are_for_those_who_may_list_them(tmp_path):
    quarry = Guarded(tmp_path / "data", "memory", ["--auth", "--replSet", "rs", "--setParameter", "enableTestCommands=1"])
    quarry.start()
    with MongoClient(quarry.uri, directConnection=True) as first:
        first.admin.command("createUser", "root", pwd="geheim", roles=["root"])
        # A fault is for users alone, whoever started the server for tests.
        with refused(UNAUTHORIZED):
            first.admin.command("configureFailPoint", "failCommand", mode="off")
    with login(quarry, "root", "geheim", directConnection=True) as root:
        root.db.command("createUser", "reader", pwd="x", roles=["read"])
        with root.start_session() as session, session.start_transaction():
            root.db.c.insert_one({}, session=session)
            with login(quarry, "reader", "x", "db", directConnection=True) as client:
                assert not [entry for entry in client.admin.aggregate([{"$currentOp": {}}]) if entry["type"] == "idleSession"]
                stages = [(client.admin, "$listLocalSessions"), (client.config["system.sessions"], "$listSessions")]
                for over, stage in stages:
                    # One's own session, in which the list is asked for.
                    (own,) = over.aggregate([{stage: {}}])
                    assert own["_id"]["uid"] == hashlib.sha256(b"reader@db").digest()
                    assert [own["_id"]["id"]] == [one["_id"]["id"] for one in over.aggregate([{stage: {"users": [{"user": "reader", "db": "db"}]}}])]
                    for options in ({"allUsers": True}, {"users": [{"user": "root", "db": "admin"}]}):
                        with refused(UNAUTHORIZED):
                            list(over.aggregate([{stage: options}]))
                mine = root.admin.aggregate([{"$listLocalSessions": {"users": [{"user": "root", "db": "admin"}]}}])
                assert session.session_id["id"] in [one["_id"]["id"] for one in mine]
            assert [entry for entry in root.admin.aggregate([{"$currentOp": {"allUsers": True}}]) if entry["type"] == "idleSession"]
            assert list(root.admin.aggregate([{"$listLocalSessions": {"allUsers": True}}]))
            session.abort_transaction()
    assert quarry.stop() == 0


def test_a_session_is_its_users_alone(tmp_path):
    quarry = Guarded(tmp_path / "data", "memory", ["--auth", "--replSet", "rs"])
    quarry.start()
    with MongoClient(quarry.uri, directConnection=True) as first:
        first.admin.command("createUser", "root", pwd="geheim", roles=["root"])
    with login(quarry, "root", "geheim", directConnection=True) as root, WireClient(quarry.port) as nobody:
        for user in ("one", "two"):
            root.db.command("createUser", user, pwd="x", roles=["readWrite"])
        root.db.create_collection("c")
        with (
            login(quarry, "one", "x", "db", directConnection=True) as one,
            login(quarry, "two", "x", "db", directConnection=True) as two,
            one.start_session() as session,
            two.start_session() as other,
        ):
            one.db.command("ping", session=session)
            with root.db.c.watch() as stream:
                with one.start_session() as another, another.start_transaction():
                    one.db.c.insert_one({"_id": "of one"}, session=another)
                    lsid = another.session_id["id"]
                assert stream.next()["lsid"] == {"id": lsid, "uid": hashlib.sha256(b"one@db").digest()}
            written = {"insert": "c", "documents": [{"_id": 1}], "lsid": session.session_id, "txnNumber": Int64(0)}
            run_as_it_is(one, written)
            # Who knows the id is not answered for the write, and ends nothing.
            for command in (
                {"ping": 1, "lsid": session.session_id},
                written,
                {"find": "c", "lsid": session.session_id, "txnNumber": Int64(8), "autocommit": False, "startTransaction": True},
            ):
                with refused(UNAUTHORIZED):
                    run_as_it_is(two, command)
            two.admin.command("endSessions", [session.session_id])
            two.admin.command("refreshSessions", [session.session_id])
            assert run_as_it_is(one, written)["retriedStmtIds"] == [0]
            # Nor does any client move the clock by a time that nobody has signed.
            far = Timestamp(int(time.time()) + 300 * 86400, 1)
            for client in (nobody.run, lambda command, name: one[name].command(command)):
                assert client({"ping": 1, "$clusterTime": {"clusterTime": far}}, "db")["operationTime"] < far
            # A client without a login has no session to lose or to take.
            nobody.run({"ping": 1, "lsid": session.session_id}, "db")

            def begin(client, its, key):
                its.start_transaction()
                client.db.c.insert_one({"_id": key}, session=its)

            def ends(client, its):
                try:
                    client.db.c.find_one(session=its)
                except OperationFailure as error:
                    assert error.code == 251
                    return True
                return False

            users = lambda *names: [{"user": name, "db": "db"} for name in names]  # noqa: E731
            digest = lambda name: hashlib.sha256(f"{name}@db".encode()).digest()  # noqa: E731
            begin(one, session, 2), begin(two, other, 3)
            root.admin.command("killAllSessions", users("nobody"))
            root.admin.command("killAllSessionsByPattern", [{"lsid": {**session.session_id, "uid": digest("two")}}])
            assert not ends(one, session) and not ends(two, other)
            root.admin.command("killAllSessions", users("one"))
            assert ends(one, session) and not ends(two, other)
            root.admin.command("killAllSessionsByPattern", [{"uid": digest("two")}])
            assert ends(two, other)

            def begin_both():
                for client, its, key in ((one, session, 4), (two, other, 5)):
                    if its.in_transaction:
                        its.abort_transaction()
                    begin(client, its, key)

            # Its own sessions everybody may end, and says so as they are listed or by the id; those of others stay.
            mine, others = session.session_id, other.session_id
            for named, ended in [([others], False), ([{**mine, "uid": digest("one")}], True), ([mine], True), ([], True)]:
                begin_both()
                run_as_it_is(one, {"killSessions": named})
                assert ends(one, session) == ended and not ends(two, other)
            for command in ("killSessions", "endSessions", "refreshSessions"):
                with refused(UNAUTHORIZED):
                    run_as_it_is(one, {command: [{**others, "uid": digest("two")}]})
            begin_both()
            root.admin.command("killSessions", [{**mine, "uid": digest("two")}, {**others, "uid": digest("two")}])
            assert not ends(one, session) and ends(two, other)
    assert quarry.stop() == 0


def test_sessions_are_ended_by_the_names_and_the_roles_of_their_users(guarded, root):
    users = {"ann": ["readWrite"], "bob": ["readWrite", "dbAdmin"], "eve": ["deputy"]}
    base = root.patterns
    base.command("createRole", "deputy", privileges=[], roles=["readWrite", "dbAdmin"])
    for user, roles in users.items():
        base.command("createUser", user, pwd="x", roles=roles)
    ender = [{"resource": {"cluster": True}, "actions": ["killAnySession", "impersonate"]}]
    root.admin.command("createRole", "ender", privileges=ender, roles=[])
    root.admin.command("createUser", "ender", pwd="x", roles=["ender"])
    base.c.insert_one({"_id": 1})
    ann = lambda *more: [{"user": name, "db": "patterns"} for name in ("ann", *more)]  # noqa: E731
    role = lambda *names: [{"role": name, "db": "patterns"} for name in names]  # noqa: E731
    digest = lambda name: hashlib.sha256(f"{name}@patterns".encode()).digest()  # noqa: E731

    def ended(client, patterns):
        """The users whose transactions the patterns have ended."""
        with contextlib.ExitStack() as stack:
            sessions = {}
            for user in users:
                driver = stack.enter_context(login(guarded, user, "x", "patterns"))
                session = sessions[user] = stack.enter_context(driver.start_session())
                session.start_transaction()
                driver.patterns.c.find_one(session=session)
            client.admin.command("killAllSessionsByPattern", [pattern(sessions) for pattern in patterns])
            gone = set()
            for user, session in sessions.items():
                try:
                    session.commit_transaction()
                except OperationFailure as error:
                    assert error.code == NO_SUCH_TRANSACTION
                    gone.add(user)
        return gone

    with login(guarded, "ender", "x", "admin") as client:
        for patterns, gone in [
            ([{"users": ann()}], {"ann"}),
            ([{"users": ann("eve")}], {"ann", "eve"}),
            ([{"users": ann("nobody")}], {"ann"}),
            ([{"users": [{"user": "ann", "db": "other"}]}], set()),
            # What a user has by another role was not granted to it.
            ([{"roles": role("readWrite")}], {"ann", "bob"}),
            ([{"roles": role("dbAdmin", "deputy")}], {"bob", "eve"}),
            ([{"roles": [{"role": "readWrite", "db": "admin"}]}], set()),
            # All of a pattern, and any of the patterns.
            ([{"users": ann("eve"), "roles": role("readWrite")}], {"ann"}),
            ([{"uid": digest("bob"), "roles": role("dbAdmin")}], {"bob"}),
            ([{"uid": digest("ann"), "roles": role("dbAdmin")}], set()),
            ([{"users": ann()}, {"roles": role("deputy")}], {"ann", "eve"}),
        ]:
            assert ended(client, [lambda _, pattern=pattern: pattern for pattern in patterns]) == gone, patterns
        by_id = lambda user, users: lambda sessions: {"lsid": sessions[user].session_id, "users": users}  # noqa: E731
        assert ended(client, [by_id("ann", ann())]) == {"ann"}
        assert ended(client, [by_id("bob", ann())]) == set()
    for field in ("users", "roles"):
        with refused(UNAUTHORIZED):
            root.admin.command("killAllSessionsByPattern", [{}, {field: []}])
    assert ended(root, [lambda _: {"uid": digest("bob")}]) == {"bob"}
    for database, role in ((base, "deputy"), (root.admin, "ender")):
        database.command("dropRole", role)
    base.command("dropAllUsersFromDatabase")
    root.admin.command("dropUser", "ender")
    root.drop_database("patterns")


def run_as_it_is(client, command):
    """Sends a command that names another's session: a driver would not."""
    with client._conn_for_writes(None, None) as connection:
        return connection.command("db", dict(command))


def test_what_nobody_sends_is_bounded(guarded):
    with MongoClient(guarded.uri) as client:
        with refused(INVALID_NAMESPACE):
            client["d" * 64].command("ping")
        client["d" * 63].command("ping")
        with refused(AUTHENTICATION_FAILED):
            client.admin.command("saslStart", 1, mechanism="SCRAM-SHA-256", payload=b"n,,n=u,r=" + b"x" * 9000)
        with refused(AUTHENTICATION_FAILED):
            client.admin.command("saslContinue", 1, conversationId=1, payload=b"x" * 9000)
        start = {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"n,,n=u,r=abcdefgh"}
        for database, begins in (("admin", True), ("d" * 64, False), ("d" * 1_000_000, False)):
            answer = client.admin.command("hello", speculativeAuthenticate={**start, "db": database})
            assert ("speculativeAuthenticate" in answer) is begins


def test_a_list_of_roles_is_bounded_and_asked_for_before_anything_waits(guarded, root, names):
    database, user = names
    root[database].command("createUser", user, pwd="x", roles=["read"])
    many = [f"r{number}" for number in range(1001)]
    for command in ("grantRolesToUser", "revokeRolesFromUser"):
        with refused(BAD_VALUE):
            root[database].command(command, user, roles=many)
        with login(guarded, user, "x", database) as client, refused(UNAUTHORIZED):
            client[database].command(command, user, roles=many[:2])
    with refused(BAD_VALUE):
        root[database].command("createUser", "other", pwd="x", roles=many)


def test_a_role_that_cannot_be_read_grants_nothing_and_locks_nobody_out(guarded, root, names):
    database, user = names
    root[database].command("createRole", "strange", privileges=[], roles=[])
    root[database].command("createUser", user, pwd="x", roles=["strange", "readWrite"])
    root.admin.command("createUser", f"god{user}", pwd="x", roles=["__system"])
    strange = [{"resource": {"db": database, "collection": ""}, "actions": ["fly"]}]
    with login(guarded, user, "x", database) as client, login(guarded, f"god{user}", "x") as god:
        client[database].c.insert_one({})
        changed = god.admin["system.roles"].update_one({"_id": f"{database}.strange"}, {"$set": {"privileges": strange}})
        assert changed.modified_count == 1
        client[database].c.insert_one({})
        with login(guarded, user, "x", database) as anew:
            assert anew[database].c.count_documents({}) == 2
        assert "a role grants nothing" in guarded.log.read_text()
        with refused(BAD_VALUE):
            root[database].command("createUser", "other", pwd="x", roles=["strange"])
        root[database].command("dropRole", "strange")
        client[database].c.insert_one({})
    with refused(ROLE_NOT_FOUND):
        root[database].command("dropRole", "strange")
    with pytest.raises(OperationFailure, match="built-in"):
        root[database].command("dropRole", "read")


def test_a_list_of_collections_ends_with_its_privilege(guarded, root, names):
    database, user = names
    root[database].command("createUser", user, pwd="x", roles=["read"])
    for number in range(5):
        root[database].create_collection(f"c{number}")
    with login(guarded, user, "x", database) as client:
        opened = client[database].command("listCollections", cursor={"batchSize": 1})["cursor"]
        more = {"getMore": Int64(opened["id"]), "collection": "$cmd.listCollections", "batchSize": 1}
        assert len(client[database].command(more)["cursor"]["nextBatch"]) == 1
        root[database].command("revokeRolesFromUser", user, roles=["read"])
        with refused(UNAUTHORIZED):
            client[database].command(more)


def test_an_explain_and_what_it_explains_are_of_one_database(root, names):
    database, _ = names
    for explained in ({"find": "c", "$db": "elsewhere"}, {"aggregate": "c", "pipeline": [], "cursor": {}, "$db": "elsewhere"}):
        with pytest.raises(OperationFailure, match="Mismatched") as failure:
            root[database].command("explain", explained)
        assert failure.value.code == INVALID_NAMESPACE
    root[database].command("explain", {"find": "c", "$db": database})
