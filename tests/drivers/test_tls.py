"""Encrypted connections, as pymongo, sockets, the Node driver and mongosh meet them."""

import base64
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from bson import decode, encode
from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, OperationFailure, ServerSelectionTimeoutError

from certificates import Authority
from quarry_process import Quarry, binary
from wire_client import BODY_AT, HEADER, OP_MSG

INVALID_SSL_CONFIGURATION = 140
PATIENCE_SECONDS = 20


class Encrypted(Quarry):
    """A server that `stop` cannot validate: validation does not encrypt."""

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("authority") / "ca")
    made.server()
    made.sign("client", "/C=US/ST=New York/O=Quarry/OU=Services/CN=app")
    made.sign("expired", "/O=Quarry/CN=late", expired=True)
    made.sign("revoked", "/O=Quarry/CN=lost")
    made.revoke("revoked")
    made.write_list()
    return made


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """An authority that nobody trusts."""
    made = Authority(tmp_path_factory.mktemp("stranger") / "ca", "Strange Authority")
    made.server()
    made.sign("client", "/O=Quarry/CN=app")
    return made


@contextlib.contextmanager
def serving(directory, authority, *arguments, mode="requireTLS", engine="memory"):
    key = str(authority.directory / "server.pem")
    quarry = Encrypted(directory / "data", engine, ["--tlsMode", mode, "--tlsCertificateKeyFile", key, *map(str, arguments)])
    quarry.start()
    try:
        yield quarry
        assert quarry.stop() == 0, quarry.tail()
    finally:
        if quarry.running():
            quarry.kill()


def connect(quarry, authority, certificate=None, **options):
    if certificate:
        options["tlsCertificateKeyFile"] = str(authority.directory / f"{certificate}.pem")
    options = {"tls": True, "tlsCAFile": str(authority.file), "serverSelectionTimeoutMS": 20_000, **options}
    return MongoClient("127.0.0.1", quarry.port, **options)


def is_refused(quarry, authority, certificate=None, **options):
    """Whether no connection comes about, which the log says, too: a driver tries until its time is over."""
    before = quarry.log.read_text().count("TLS handshake failed")
    with connect(quarry, authority, certificate, serverSelectionTimeoutMS=300, **options) as client, pytest.raises(ConnectionFailure):
        client.admin.command("ping")
    wait_until(lambda: quarry.log.read_text().count("TLS handshake failed") > before)
    return True


def wait_until(is_so):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def raw(quarry, authority, version=None, certificate=None):
    """An encrypted socket without a driver."""
    context = ssl.create_default_context(cafile=authority.file)
    if certificate:
        context.load_cert_chain(authority.directory / f"{certificate}.pem")
    if version:
        context.minimum_version = context.maximum_version = version
    plain = socket.create_connection(("127.0.0.1", quarry.port), timeout=PATIENCE_SECONDS)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(plain, server_hostname="localhost")


def message(command, database="admin"):
    body = encode({**command, "$db": database})
    return HEADER.pack(BODY_AT + len(body), 1, 0, OP_MSG) + b"\0\0\0\0\0" + body


def run(stream, command, database="admin"):
    stream.sendall(message(command, database))
    return receive(stream)


def receive(stream):
    head = read(stream, 4)
    return decode((head + read(stream, int.from_bytes(head, "little") - 4))[BODY_AT:])


def read(stream, count):
    got = b""
    while len(got) < count:
        part = stream.recv(count - len(got))
        assert part, "the connection has ended"
        got += part
    return got


def logged(quarry, text):
    """Waits for a line of the log that holds the text."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        found = [line for line in quarry.log.read_text().splitlines() if text in line]
        if found:
            return json.loads(found[-1])
        time.sleep(0.01)
    raise AssertionError(f"no line with {text}:\n{quarry.tail()}")


def test_a_driver_is_served_and_every_compressor_works(tmp_path, authority):
    with serving(tmp_path, authority) as quarry:
        for compressor in ("snappy", "zlib", "zstd"):
            with connect(quarry, authority, compressors=compressor) as client:
                things = client.db[compressor]
                things.insert_many([{"_id": number, "text": "x" * 20_000} for number in range(500)])
                assert sum(len(thing["text"]) for thing in things.find()) == 10_000_000
        with connect(quarry, authority) as client:
            # Larger than what a session holds at once, in both directions.
            client.db.large.insert_one({"_id": 1, "bytes": os.urandom(15_000_000)})
            assert len(client.db.large.find_one()["bytes"]) == 15_000_000
            status = client.admin.command("serverStatus")
            assert status["transportSecurity"]["1.3"] > 0 and status["transportSecurity"]["failed"] == 0
            assert status["security"]["SSLServerSubjectName"] == "CN=server,O=Quarry"
            assert client.admin.command("getCmdLineOpts")["parsed"]["net"]["tls"]["mode"] == "requireTLS"


def test_both_versions_are_spoken_and_one_can_be_disabled(tmp_path, authority):
    with serving(tmp_path, authority) as quarry:
        for version, name in ((ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")):
            with raw(quarry, authority, version) as stream:
                assert stream.version() == name and run(stream, {"ping": 1})["ok"] == 1
    with serving(tmp_path / "one", authority, "--tlsDisabledProtocols", "TLS1_0,TLS1_1,TLS1_2") as quarry:
        with pytest.raises(ssl.SSLError):
            raw(quarry, authority, ssl.TLSVersion.TLSv1_2)
        with raw(quarry, authority) as stream:
            assert stream.version() == "TLSv1.3"


def test_a_client_trusts_only_its_authority(tmp_path, authority, stranger):
    with serving(tmp_path, authority) as quarry:
        assert is_refused(quarry, stranger)
        with connect(quarry, stranger, tlsAllowInvalidCertificates=True) as client:
            client.admin.command("ping")


def test_clients_are_asked_for_a_certificate_of_the_authority(tmp_path, authority, stranger):
    ask = ("--tlsCAFile", authority.file, "--tlsCRLFile", authority.lists)
    with serving(tmp_path / "strict", authority, *ask) as quarry:
        with connect(quarry, authority, "client") as client:
            client.db.things.insert_one({})
        assert is_refused(quarry, authority)
        for bad in ("expired", "revoked"):
            assert is_refused(quarry, authority, bad), bad
        assert is_refused(quarry, authority, tlsCertificateKeyFile=str(stranger.directory / "client.pem"))
        assert "handshake" in logged(quarry, "TLS handshake failed")["msg"]
    with serving(tmp_path / "optional", authority, *ask, "--tlsAllowConnectionsWithoutCertificates") as quarry:
        for certificate in (None, "client"):
            with connect(quarry, authority, certificate) as client:
                client.admin.command("ping")
        assert is_refused(quarry, authority, "revoked")
    with serving(tmp_path / "lenient", authority, *ask, "--tlsAllowInvalidCertificates") as quarry:
        for certificate in ("client", "expired", "revoked"):
            with connect(quarry, authority, certificate) as client:
                client.admin.command("ping")
        assert is_refused(quarry, authority)


@pytest.mark.parametrize("mode", ["allowTLS", "preferTLS"])
def test_both_kinds_are_served_where_tls_is_allowed(tmp_path, authority, mode):
    with serving(tmp_path, authority, mode=mode) as quarry:
        with connect(quarry, authority) as encrypted, MongoClient(quarry.uri) as plain:
            encrypted.db.things.insert_one({"_id": 1})
            assert plain.db.things.find_one() == {"_id": 1}
        # A message whose first bytes are those of a record: only its header tells.
        with socket.create_connection(("127.0.0.1", quarry.port), timeout=PATIENCE_SECONDS) as stream:
            filler = "x" * (0x0316 - len(message({"ping": 1, "comment": ""})))
            stream.sendall(message({"ping": 1, "comment": filler}))
            assert receive(stream)["ok"] == 1


def http(port, request=b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"):
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as stream:
        stream.sendall(request)
        answer = b""
        while part := stream.recv(4096):
            answer += part
    return answer.decode()


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (b"", "nothing was sent"),
        (b"PING\r\n", "Redis"),
        (b"*1\r\n$4\r\nPING\r\n", "Redis"),
        (b"\0\0\0\x08\x04\xd2\x16\x2f", "PostgreSQL"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH"),
        (b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n", "the PROXY protocol"),
        (b"\xff\xff\xff\xff", "length -1"),
    ],
)
def test_a_health_check_or_a_client_of_something_else_is_named_and_not_kept_waiting(tmp_path, said, named):
    quarry = Quarry(tmp_path / "data", "memory", ["--console", "off", "--adminPort", "0"]).start()
    try:
        with socket.create_connection(("127.0.0.1", quarry.port), timeout=PATIENCE_SECONDS) as stream:
            stream.sendall(said)
            if not said:
                stream.shutdown(socket.SHUT_WR)
            # Its few bytes are fewer than a header, and nobody waits for the rest.
            with contextlib.suppress(ConnectionResetError):
                assert stream.recv(1) == b""
        assert logged(quarry, named)["msg"].startswith("connection ended")
        # There is no console.
        answer = http(quarry.port)
        assert "native driver port" in answer and "console" not in answer
    finally:
        assert quarry.stop() == 0


def test_what_does_not_belong_on_the_port_is_named(tmp_path, authority):
    with serving(tmp_path / "tls", authority, "--adminPort", "0") as quarry:
        answer = http(quarry.port)
        assert answer.startswith("HTTP/1.0 200 OK\r\n") and f"https://127.0.0.1:{quarry.admin_port}/" in answer, answer
        with MongoClient(quarry.uri, serverSelectionTimeoutMS=500) as plain, pytest.raises(ServerSelectionTimeoutError):
            plain.admin.command("ping")
        assert logged(quarry, "only encrypted connections")["msg"] == "connection ended: its client speaks another protocol"
    quarry = Quarry(tmp_path / "plain" / "data", "memory", ["--adminPort", "0"]).start()
    try:
        answer = http(quarry.port)
        assert "It looks like you are trying to access MongoDB over HTTP on the native driver port." in answer
        assert f"http://127.0.0.1:{quarry.admin_port}/" in answer
        logged(quarry, "an HTTP request on the port for drivers")
        with connect(quarry, authority, serverSelectionTimeoutMS=500) as client, pytest.raises(ServerSelectionTimeoutError):
            client.admin.command("ping")
        logged(quarry, "this server has no TLS")
        with socket.create_connection(("127.0.0.1", quarry.port), timeout=PATIENCE_SECONDS) as stream:
            stream.sendall(b"\xff" * 64)
            assert stream.recv(1) == b""
        logged(quarry, "malformed message")
    finally:
        quarry.stop()


def test_certificates_are_rotated_without_a_restart(tmp_path, authority, stranger):
    key = tmp_path / "rotating.pem"
    shutil.copy(authority.directory / "server.pem", key)
    lists = tmp_path / "revoked.pem"
    shutil.copy(authority.lists, lists)
    authority.sign("leaving", "/O=Quarry/CN=leaving")
    arguments = ["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", str(key), "--tlsCAFile", str(authority.file),
                 "--tlsCRLFile", str(lists)]
    quarry = Encrypted(tmp_path / "data", "memory", arguments).start()
    with connect(quarry, authority, "leaving", maxPoolSize=1) as client:
        client.admin.command("ping")
        authority.revoke("leaving")
        shutil.copy(authority.write_list(), lists)
        client.admin.command("rotateCertificates", message="tonight")
        assert logged(quarry, "certificates rotated")["attr"]["message"] == "tonight"
        # The connection that is open goes on, and the next one is refused.
        client.admin.command("ping")
        assert is_refused(quarry, authority, "leaving")
    with connect(quarry, authority, "client") as client:
        shutil.copy(stranger.directory / "server.pem", key)
        client.admin.command("rotateCertificates")
        assert is_refused(quarry, authority, "client")
        good = key.read_text()
        key.write_text("no certificate")
        with pytest.raises(OperationFailure) as failure:
            client.admin.command("rotateCertificates")
        assert failure.value.code == INVALID_SSL_CONFIGURATION and "rotating.pem" in str(failure.value)
        key.write_text(good)
    with connect(quarry, authority, "client", tlsCAFile=str(stranger.file)) as client:
        client.admin.command("ping")
    assert quarry.stop() == 0


def test_files_that_cannot_be_used_refuse_the_start(tmp_path, authority, stranger):
    mixed = tmp_path / "mixed.pem"
    mixed.write_text((authority.directory / "server.crt").read_text() + (stranger.directory / "server.key").read_text())
    encrypted = tmp_path / "encrypted.pem"
    subprocess.run(["openssl", "pkey", "-in", authority.directory / "server.key", "-aes256", "-passout", "pass:x", "-out", encrypted], check=True)
    encrypted.write_text((authority.directory / "server.crt").read_text() + encrypted.read_text())
    for path in (mixed, encrypted, tmp_path / "missing.pem", authority.directory / "server.key"):
        quarry = Encrypted(tmp_path / "data", "memory", ["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", str(path)])
        with pytest.raises(RuntimeError, match=path.name):
            quarry.start()
        assert quarry.process.returncode == 2


def test_a_client_that_leaves_ends_what_it_asked_for(tmp_path, authority):
    with serving(tmp_path, authority) as quarry, connect(quarry, authority) as client:
        client.db.many.insert_many([{"n": number} for number in range(2000)])
        slow = {"aggregate": "many", "pipeline": [{"$lookup": {"from": "many", "pipeline": [{"$lookup": {
            "from": "many", "pipeline": [{"$match": {"$expr": {"$gt": [{"$rand": {}}, 2]}}}], "as": "c"}}], "as": "b"}}],
            "cursor": {}, "comment": "left behind"}
        for says_farewell in (True, False):
            stream = raw(quarry, authority)
            stream.sendall(message(slow, "db"))
            assert is_running(client, True)
            if says_farewell:
                # Sends the farewell of TLS, and waits for none.
                stream.settimeout(0)
                with contextlib.suppress(ssl.SSLError, OSError):
                    stream.unwrap()
            stream.close()
            assert is_running(client, False)


def is_running(client, wanted):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        found = list(client.admin.aggregate([{"$currentOp": {}}, {"$match": {"command.comment": "left behind"}}]))
        if bool(found) == wanted:
            return True
        time.sleep(0.01)
    return False


def half_records(authority, quarry):
    """Connections that have begun a record and send no more of it."""
    for count in (1, 5, 20):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=authority.file)
        session = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        plain = socket.create_connection(("127.0.0.1", quarry.port), timeout=PATIENCE_SECONDS)
        while True:
            try:
                session.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.sendall(outgoing.read())
                incoming.write(plain.recv(65536))
        plain.sendall(outgoing.read())
        session.write(message({"ping": 1}))
        plain.sendall(outgoing.read()[:count])
        yield plain


def test_a_half_sent_record_holds_up_no_stop(tmp_path, authority):
    quarry = Encrypted(tmp_path / "data", "memory", [
        "--tlsMode", "requireTLS", "--tlsCertificateKeyFile", str(authority.directory / "server.pem")]).start()
    open_ones = list(half_records(authority, quarry))
    # And one that has begun a handshake, and one that has not.
    for begun in (b"\x16\x03\x01\x02\x00\x01", b""):
        plain = socket.create_connection(("127.0.0.1", quarry.port))
        plain.sendall(begun)
        open_ones.append(plain)
    with connect(quarry, authority) as client:
        client.admin.command("ping")
    begun = time.monotonic()
    assert quarry.stop() == 0, quarry.tail()
    assert time.monotonic() - begun < 5
    for plain in open_ones:
        plain.close()


def test_broken_handshakes_leave_nothing(tmp_path, authority):
    with serving(tmp_path, authority, "--quiet") as quarry, connect(quarry, authority) as client:
        chance = random.Random(18)
        hello = client_hello()
        before = client.admin.command("serverStatus")
        for number in range(1000):
            broken = bytearray(hello)
            kind = number % 4
            if kind == 0:
                del broken[chance.randrange(len(broken)):]
            elif kind == 1:
                broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
            elif kind == 2:
                broken = bytearray(hello[:5]) + chance.randbytes(len(hello) - 5)
            else:
                broken = bytearray(chance.randbytes(chance.randrange(1, 300)))
            with socket.create_connection(("127.0.0.1", quarry.port), timeout=PATIENCE_SECONDS) as stream:
                stream.sendall(broken)
                stream.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionError):
                    while stream.recv(4096):
                        pass
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (after := client.admin.command("serverStatus"))["connections"]["current"] > before["connections"]["current"]:
            assert time.monotonic() < deadline, after["connections"]
            time.sleep(0.01)
        assert after["connections"]["totalCreated"] - before["connections"]["totalCreated"] >= 1000
        assert after["quarry"].get("backgroundPanics", 0) == 0
        # Less than 16 KiB for each of them, were it kept.
        assert after["mem"]["resident"] - before["mem"]["resident"] < 16


def client_hello():
    outgoing = ssl.MemoryBIO()
    session = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


def test_the_node_driver_and_mongosh_are_served(tmp_path, authority):
    modules = pathlib.Path(os.environ.get("QUARRY_NODE_MODULES", ""))
    drivers = pathlib.Path(os.environ["DRIVERS_DIR"])
    node = (drivers / "node-path").read_text().strip()
    modules = modules if modules.is_dir() else drivers / "node/node_modules"
    with serving(tmp_path, authority, "--tlsCAFile", authority.file) as quarry:
        key = authority.directory / "client.pem"
        script = tmp_path / "tls.mjs"
        script.write_text(f"""
            import {{ createRequire }} from 'node:module';
            const {{ MongoClient }} = createRequire('{modules}/')('mongodb');
            const client = new MongoClient('mongodb://localhost:{quarry.port}/?tls=true', {{
                tlsCAFile: '{authority.file}', tlsCertificateKeyFile: '{key}' }});
            await client.db('db').collection('node').insertOne({{ _id: 1 }});
            console.log(JSON.stringify(await client.db('db').collection('node').findOne()));
            await client.close();
        """)
        said = subprocess.run([node, script], capture_output=True, text=True, timeout=60)
        assert said.stdout.strip() == '{"_id":1}', said.stderr
        shell = [node, modules / "mongosh/bin/mongosh.js", "--quiet", "--norc", "--tls", "--tlsCAFile", authority.file,
                 "--tlsCertificateKeyFile", key, "--host", "localhost", "--port", str(quarry.port),
                 "--eval", "db.getSiblingDB('db').node.countDocuments()"]
        said = subprocess.run(shell, capture_output=True, text=True, timeout=120, env={**os.environ, "HOME": str(tmp_path)})
        assert said.stdout.strip() == "1", said.stdout + said.stderr


APP = "CN=app,OU=Services,O=Quarry,ST=New York,C=US"


@contextlib.contextmanager
def guarded(directory, authority, *arguments):
    """A server with access control, the user `root`, and the user that the certificate `client` names."""
    with serving(directory, authority, "--auth", "--tlsCAFile", authority.file, "--tlsCRLFile", authority.lists,
                 "--tlsAllowConnectionsWithoutCertificates", *arguments) as quarry:
        with connect(quarry, authority) as first:
            first.admin.command("createUser", "root", pwd="geheim", roles=["root"])
        with connect(quarry, authority, username="root", password="geheim") as root:
            root["$external"].command("createUser", APP, roles=[{"role": "readWrite", "db": "db"}])
            yield quarry, root


def x509(quarry, authority, certificate, **options):
    return connect(quarry, authority, certificate, authMechanism="MONGODB-X509", authSource="$external", **options)


def test_a_certificate_logs_in_the_user_that_it_names(tmp_path, authority):
    with guarded(tmp_path, authority) as (quarry, root):
        for options in ({}, {"username": APP}):
            with x509(quarry, authority, "client", **options) as client:
                client.db.things.insert_one({})
                status = client.admin.command("connectionStatus")["authInfo"]
                assert status["authenticatedUsers"] == [{"user": APP, "db": "$external"}]
                with pytest.raises(OperationFailure, match="not authorized"):
                    client.other.things.insert_one({})
        user, = root["$external"].command("usersInfo", APP, showCredentials=True)["users"]
        assert (user["credentials"], user["mechanisms"], user["db"]) == ({"external": True}, ["external"], "$external")
        counted = root.admin.command("serverStatus")["security"]["authentication"]["mechanisms"]["MONGODB-X509"]
        assert counted["speculativeAuthenticate"]["successful"] >= 2 and counted["authenticate"]["successful"] >= 2
        # A change of roles holds for the connection that is open; a user that is gone is nobody.
        with x509(quarry, authority, "client") as client:
            client.db.things.find_one()
            root["$external"].command("revokeRolesFromUser", APP, roles=[{"role": "readWrite", "db": "db"}])
            with pytest.raises(OperationFailure, match="not authorized"):
                client.db.things.find_one()
            root["$external"].command("dropUser", APP)
            with pytest.raises(OperationFailure, match="requires authentication"):
                client.db.things.find_one()


def test_idle_connections_give_up_their_threads_and_keep_their_encryption_and_logins(tmp_path, authority):
    with guarded(tmp_path, authority, "--setParameter", "connectionParkMillis=50") as (quarry, root):
        streams = [raw(quarry, authority, certificate="client") for _ in range(50)]
        for stream in streams:
            assert run(stream, {"authenticate": 1, "mechanism": "MONGODB-X509"}, "$external")["ok"] == 1
        for number in range(3):
            # Those of the driver beside them may be parked as well.
            wait_until(lambda: root.admin.command("serverStatus")["connections"]["parked"] >= len(streams))
            for stream in streams:
                reply = run(stream, {"insert": "things", "documents": [{"round": number}]}, "db")
                assert reply.get("n") == 1, reply
        assert root.db.things.count_documents({}) == 3 * len(streams)
        wait_until(lambda: root.admin.command("serverStatus")["connections"]["parked"] >= len(streams))
        # A client that lives on would look for the server where it was.
        root.close()
        # They do not hold up the server when it stops, and are told goodbye.
        quarry.process.send_signal(signal.SIGTERM)
        assert quarry.process.wait(30) == 0
        for stream in streams:
            assert stream.recv(1) == b""
            stream.close()
        quarry.start()


def test_who_proves_nothing_is_not_logged_in(tmp_path, authority, stranger):
    with guarded(tmp_path, authority, "--tlsAllowInvalidCertificates") as (quarry, root):
        for subject in ("CN=late,O=Quarry", "CN=lost,O=Quarry"):
            root["$external"].command("createUser", subject, roles=[{"role": "root", "db": "admin"}])
        # Connections are opened, and nobody is let in by them.
        cases = [
            x509(quarry, authority, "expired"),
            x509(quarry, authority, "revoked"),
            x509(quarry, authority, None, tlsCertificateKeyFile=str(stranger.directory / "client.pem")),
            x509(quarry, authority, "client", username="CN=root"),
            x509(quarry, authority, None),
        ]
        for number, client in enumerate(cases):
            with client, pytest.raises(OperationFailure) as failure:
                client.db.things.find_one()
            assert failure.value.code == 18, (number, failure.value.details)
        root["$external"].command("dropUser", APP)
        with x509(quarry, authority, "client") as client, pytest.raises(OperationFailure, match="Authentication failed"):
            client.db.things.find_one()
        with raw(quarry, authority) as stream:
            for command, code in (
                ({"authenticate": 1, "mechanism": "PLAIN", "$db": "$external"}, 334),
                ({"authenticate": 1, "mechanism": "MONGODB-X509", "$db": "admin"}, 17),
                ({"saslStart": 1, "mechanism": "PLAIN", "payload": b"\0a\0b", "$db": "$external"}, 334),
            ):
                database = command.pop("$db")
                stream.sendall(message(command, database))
                assert receive(stream)["code"] == code


def test_users_of_external_have_no_password(tmp_path, authority):
    with guarded(tmp_path, authority) as (_, root):
        external = root["$external"]
        for command in (
            {"createUser": "CN=a", "pwd": "x", "roles": []},
            {"createUser": "CN=a", "mechanisms": ["SCRAM-SHA-256"], "roles": []},
            {"updateUser": APP, "pwd": "x"},
            {"createRole": "r", "roles": [], "privileges": []},
        ):
            with pytest.raises(OperationFailure) as failure:
                external.command(command)
            assert failure.value.code == 2, failure.value.details
        external.command("updateUser", APP, customData={"team": 1}, roles=[{"role": "read", "db": "db"}])
        user, = external.command("usersInfo", APP)["users"]
        assert user["customData"] == {"team": 1} and user["roles"] == [{"role": "read", "db": "db"}]


def ask(quarry, path, authorization=None, authority=None):
    """The status of a request to the admin port, and its body."""
    scheme = "https" if authority else "http"
    request = urllib.request.Request(f"{scheme}://127.0.0.1:{quarry.admin_port}{path}")
    if authorization:
        request.add_header("Authorization", authorization)
    context = ssl.create_default_context(cafile=authority.file) if authority else None
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers.get("WWW-Authenticate", "")


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_the_admin_port_asks_who_is_there(tmp_path):
    token = tmp_path / "token"
    token.write_text("0123456789abcdef-token\n")
    quarry = Encrypted(tmp_path / "data", "memory", ["--auth", "--adminPort", "0", "--adminTokenFile", str(token)]).start()
    try:
        with MongoClient(quarry.uri) as first:
            first.admin.command("createUser", "root", pwd="geheim", roles=["root"])
        root = MongoClient(quarry.uri, username="root", password="geheim")
        root.admin.command("createUser", "monitor", pwd="a:b", roles=["clusterMonitor"])
        root.admin.command("createUser", "reader", pwd="x", roles=["readAnyDatabase"])
        root.db.command("createUser", "elsewhere", pwd="x", roles=[{"role": "root", "db": "admin"}])
        assert ask(quarry, "/health") == (200, "ok\n")
        for path in ("/", "/metrics", "/timing.json", "/nothing"):
            status, asked = ask(quarry, path)
            assert status == 401 and asked.startswith("Basic realm="), path
        for authorization, wanted in (
            (basic("monitor", "a:b"), 200),
            (basic("root", "geheim"), 200),
            ("Bearer 0123456789abcdef-token", 200),
            (basic("reader", "x"), 403),
            (basic("monitor", "wrong"), 401),
            (basic("nobody", "x"), 401),
            (basic("elsewhere", "x"), 401),
            ("Bearer 0123456789abcdef", 401),
            ("Basic !", 401),
        ):
            assert ask(quarry, "/metrics", authorization)[0] == wanted, authorization
        # What was right is remembered, and no longer right once it has changed.
        assert ask(quarry, "/metrics", basic("monitor", "a:b"))[0] == 200
        root.admin.command("updateUser", "monitor", pwd="new")
        assert ask(quarry, "/metrics", basic("monitor", "a:b"))[0] == 401
        assert ask(quarry, "/metrics", basic("monitor", "new"))[0] == 200
        root.admin.command("revokeRolesFromUser", "monitor", roles=["clusterMonitor"])
        assert ask(quarry, "/metrics", basic("monitor", "new"))[0] == 403
        root.close()
        assert "geheim" not in quarry.log.read_text() and "a:b" not in quarry.log.read_text()
        assert quarry.stop() == 0
    finally:
        if quarry.running():
            quarry.kill()
    short = tmp_path / "short"
    short.write_text("secret")
    with pytest.raises(RuntimeError, match="16 to"):
        Encrypted(tmp_path / "data", "memory", ["--adminPort", "0", "--adminTokenFile", str(short)]).start()


def test_the_admin_port_speaks_tls_with_the_same_certificate(tmp_path, authority):
    # It asks no certificate of anybody, whatever drivers have to show.
    asks = ("--adminPort", "0", "--tlsCAFile", authority.file)
    with serving(tmp_path / "required", authority, *asks) as quarry:
        assert ask(quarry, "/health", authority=authority) == (200, "ok\n")
        assert "quarry_" in ask(quarry, "/metrics", authority=authority)[1]
        with pytest.raises(OSError):
            ask(quarry, "/health")
    with serving(tmp_path / "allowed", authority, *asks, mode="allowTLS") as quarry:
        assert ask(quarry, "/health", authority=authority) == ask(quarry, "/health") == (200, "ok\n")
        # One that has begun a handshake holds up nobody.
        with socket.create_connection(("127.0.0.1", quarry.admin_port)) as stream:
            stream.sendall(b"\x16\x03\x01")
            assert ask(quarry, "/health") == (200, "ok\n")


def run_tool(*arguments):
    return subprocess.run([binary(), *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


def test_the_tools_encrypt(authority, stranger, tmp_path):
    with serving(tmp_path, authority, "--tlsCAFile", authority.file) as quarry:
        with connect(quarry, authority, "client") as client:
            client.shop.things.insert_one({"_id": 1})
        export = ["export", "--db", "shop", "--collection", "things", "--uri"]
        plain = f"mongodb://localhost:{quarry.port}/"
        shown = f"tlsCertificateKeyFile={authority.directory}/client.pem"
        ended = run_tool(*export, f"{plain}?{shown}&tlsCAFile={authority.file}&compressors=zstd")
        assert (ended.returncode, ended.stdout) == (0, '{"_id":1}\n'), ended.stderr
        assert run_tool(*export, f"{plain}?{shown}&tlsAllowInvalidCertificates=true").returncode == 0
        for uri, said in [
            (f"{plain}?{shown}&tlsCAFile={stranger.file}", "UnknownIssuer"),
            (f"{plain}?{shown}", "UnknownIssuer"),
            (f"{plain}?tls=true&tlsCAFile={authority.file}", "CertificateRequired"),
            (plain, "the server has closed it"),
        ]:
            ended = run_tool(*export, uri)
            assert ended.returncode == 1 and said in ended.stderr, ended.stderr
        top = ["top", "--once", "--host", "localhost", "--port", quarry.port, "--tls", "--tlsCAFile", authority.file]
        ended = run_tool(*top, "--tlsCertificateKeyFile", authority.directory / "client.pem")
        assert ended.returncode == 0 and "find" in ended.stdout, ended
        assert run_tool(*top).returncode == 1


def test_a_silent_client_holds_no_thread_where_it_may_be_any(tmp_path, authority):
    parking = ["--setParameter", "connectionParkMillis=50"]
    with serving(tmp_path, authority, *parking, mode="allowTLS") as quarry, MongoClient(quarry.uri) as watcher:
        parked = lambda: watcher.admin.command("serverStatus")["connections"]["parked"]  # noqa: E731
        silent = [socket.create_connection(("127.0.0.1", quarry.port), timeout=PATIENCE_SECONDS) for _ in range(20)]
        wait_until(lambda: parked() >= len(silent))
        for number, plain in enumerate(silent):
            if number % 2:
                assert run(plain, {"ping": 1})["ok"] == 1
                continue
            context = ssl.create_default_context(cafile=authority.file)
            with context.wrap_socket(plain, server_hostname="localhost") as encrypted:
                assert run(encrypted, {"ping": 1})["ok"] == 1
        for plain in silent:
            plain.close()
