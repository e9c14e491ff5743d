"""Logins by the drivers of five languages: each mechanism, wrong names and passwords, TLS with good and bad certificates.

Every client is a small program that is given a connection string and says in one line who it is, or why it is nobody.
"""

import os
import pathlib
import subprocess
import urllib.parse

import pytest
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from certificates import Authority
from test_access import Guarded
from test_tls import connect

HERE = pathlib.Path(__file__).parent
SECONDS_MAX = 120
PASSWORD = "p@ss:w/rd%"
STORE_PASSWORD = "changeit"
SUBJECT = "/C=US/ST=New York/O=Quarry/OU=Services/CN=app"
SUBJECT_AS_USER = "CN=app,OU=Services,O=Quarry,ST=New York,C=US"
#: How long a driver looks for a server that it can talk to, where there is one and where there is none.
FINDS_MS, FINDS_NONE_MS = 30_000, 2_000


def environment():
    """What a client finds of the one who runs the tests: nothing but where programs are."""
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/root")}


def said(command):
    """The line that a client says."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, env=environment(), check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("ok ", "error "))]
    return lines[-1] if lines else f"error {done.stdout} {done.stderr}"


class Python:
    name = "python"

    def run(self, uri, tls):
        try:
            with MongoClient(uri) as client:
                users = client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]
                client.db.logins.insert_one({"by": "python"})
                assert client.db.logins.find_one({"by": "python"})
                return "ok " + (users[0]["user"] if users else "nobody")
        except PyMongoError as error:
            return f"error {error}"


class Node:
    name = "node"

    def __init__(self, scratch):
        modules = pathlib.Path(os.environ["DRIVERS_DIR"]) / "node" / "node_modules"
        self.node = (pathlib.Path(os.environ["DRIVERS_DIR"]) / "node-path").read_text().strip()
        # Node looks for packages from where the script lies.
        (scratch / "node_modules").symlink_to(modules)
        self.script = scratch / "login.mjs"
        self.script.write_text((HERE / "login.mjs").read_text())

    def run(self, uri, tls):
        return said([self.node, str(self.script), uri])


class Go:
    name = "go"

    def __init__(self, scratch):
        self.program = scratch / "login-go"
        settings = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
        subprocess.run(["go", "build", "-o", str(self.program), "."], cwd=HERE / "go", env={**os.environ, **settings}, check=True)

    def run(self, uri, tls):
        return said([str(self.program), uri])


class Java:
    """The driver takes certificates from the stores of Java alone."""

    name = "java"

    def __init__(self, scratch):
        self.scratch = scratch
        target = scratch / "java"
        where = [f"-DbuildDirectory={target}", f"-DoutputDirectory={target}/lib"]
        subprocess.run(["mvn", "-q", "-B", *where, "compile", "dependency:copy-dependencies"], cwd=HERE / "java", check=True, stdout=subprocess.DEVNULL)
        self.classes = f"{target}/classes:{target}/lib/*"

    def run(self, uri, tls):
        properties = []
        if tls:
            authority, certificate = tls
            trusted = self.scratch / f"{authority.directory.parent.name}.p12"
            if not trusted.exists():
                subprocess.run(["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(authority.file), "-keystore", str(trusted),
                                "-storetype", "PKCS12", "-storepass", STORE_PASSWORD], check=True, capture_output=True)
            properties += [f"-Djavax.net.ssl.trustStore={trusted}", f"-Djavax.net.ssl.trustStorePassword={STORE_PASSWORD}"]
            if certificate:
                own = self.scratch / f"{certificate.parent.parent.name}-{certificate.stem}.p12"
                subprocess.run(["openssl", "pkcs12", "-export", "-in", str(certificate), "-passout", f"pass:{STORE_PASSWORD}", "-out", str(own)],
                               check=True, capture_output=True)
                properties += [f"-Djavax.net.ssl.keyStore={own}", f"-Djavax.net.ssl.keyStorePassword={STORE_PASSWORD}"]
            # The stores take the place of the files that the string names.
            uri = "&".join(part for part in uri.split("&") if not part.startswith("tlsC"))
        return said(["java", *properties, "-cp", self.classes, "Login", uri])


class Mongosh:
    name = "mongosh"

    def __init__(self, scratch):
        self.home = scratch
        drivers = pathlib.Path(os.environ["DRIVERS_DIR"])
        self.command = [(drivers / "node-path").read_text().strip(), str(drivers / "node/node_modules/mongosh/bin/mongosh.js"), "--quiet", "--norc"]

    def run(self, uri, tls):
        return said(["env", f"HOME={self.home}", *self.command, uri, "--file", str(HERE / "login.mongosh.js")])


@pytest.fixture(scope="module", params=["python", "node", "go", "java", "mongosh"])
def client(request, tmp_path_factory):
    if request.param == "python":
        return Python()
    kinds = {"node": Node, "go": Go, "java": Java, "mongosh": Mongosh}
    return kinds[request.param](tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    quarry = Guarded(tmp_path_factory.mktemp("logins") / "data", "memory", ["--auth"])
    quarry.start()
    with MongoClient(quarry.uri) as first:
        first.admin.command("createUser", "root", pwd=PASSWORD, roles=["root"])
    with MongoClient(quarry.uri, username="root", password=PASSWORD) as root:
        root.admin.command("createUser", "both", pwd=PASSWORD, roles=["readWriteAnyDatabase"])
        for number in ("1", "256"):
            mechanism = f"SCRAM-SHA-{number}"
            root.admin.command("createUser", f"sha{number}", pwd=PASSWORD, roles=["readWriteAnyDatabase"], mechanisms=[mechanism])
    yield quarry
    assert quarry.stop() == 0, quarry.tail()


def uri(quarry, user=None, password=PASSWORD, finds_ms=FINDS_MS, **options):
    quoted = [urllib.parse.quote(part, safe="") for part in (user, password) if part] if user else []
    options = {"directConnection": "true", "serverSelectionTimeoutMS": finds_ms, **options}
    login = f"{':'.join(quoted)}@" if quoted else ""
    asked = "&".join(f"{name}={urllib.parse.quote(str(value), safe='')}" for name, value in options.items())
    return f"mongodb://{login}localhost:{quarry.port}/?{asked}"


@pytest.mark.parametrize(
    ("user", "mechanism"),
    [("both", None), ("both", "SCRAM-SHA-256"), ("both", "SCRAM-SHA-1"), ("sha1", None), ("sha1", "SCRAM-SHA-1"), ("sha256", None)],
)
def test_who_knows_the_password_is_let_in(client, guarded, user, mechanism):
    options = {"authMechanism": mechanism} if mechanism else {}
    assert client.run(uri(guarded, user, authSource="admin", **options), None) == f"ok {user}"


@pytest.mark.parametrize(
    ("user", "password", "options"),
    [
        ("both", "wrong", {}),
        ("nobody", PASSWORD, {}),
        ("both", PASSWORD, {"authSource": "elsewhere"}),
        ("sha1", PASSWORD, {"authMechanism": "SCRAM-SHA-256"}),
        ("sha256", PASSWORD, {"authMechanism": "SCRAM-SHA-1"}),
    ],
)
def test_who_does_not_is_refused(client, guarded, user, password, options):
    answer = client.run(uri(guarded, user, password, **{"authSource": "admin", **options}), None)
    assert answer.startswith("error ") and "uthentication failed" in answer, answer


def test_who_does_not_log_in_does_nothing(client, guarded):
    answer = client.run(uri(guarded), None)
    assert answer.startswith("error ") and "requires authentication" in answer, answer


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("good") / "ca")
    made.server()
    made.sign("client", SUBJECT)
    made.sign("other", "/O=Quarry/CN=other")
    made.sign("expired", SUBJECT, expired=True)
    return made


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """An authority that nobody trusts."""
    made = Authority(tmp_path_factory.mktemp("strange") / "ca", "Strange Authority")
    made.server()
    made.sign("client", SUBJECT)
    return made


def encrypted(directory, authority, *more):
    key = authority.directory / "server.pem"
    quarry = Guarded(directory / "data", "memory", ["--auth", "--tlsMode", "requireTLS", "--tlsCertificateKeyFile", str(key), *map(str, more)])
    quarry.start()
    with connect(quarry, authority, "client") as first:
        first.admin.command("createUser", "root", pwd=PASSWORD, roles=["root"])
    with connect(quarry, authority, "client", username="root", password=PASSWORD) as root:
        root["$external"].command("createUser", SUBJECT_AS_USER, roles=[{"role": "readWriteAnyDatabase", "db": "admin"}])
    return quarry


@pytest.fixture(scope="module")
def asking(tmp_path_factory, authority):
    """A server that asks for certificates."""
    quarry = encrypted(tmp_path_factory.mktemp("asking"), authority, "--tlsCAFile", authority.file)
    yield quarry
    assert quarry.stop() == 0, quarry.tail()


@pytest.fixture(scope="module")
def lenient(tmp_path_factory, authority):
    """A server that takes connections with any certificate, or none."""
    more = ("--tlsCAFile", authority.file, "--tlsAllowConnectionsWithoutCertificates", "--tlsAllowInvalidCertificates")
    quarry = encrypted(tmp_path_factory.mktemp("lenient"), authority, *more)
    yield quarry
    assert quarry.stop() == 0, quarry.tail()


def over_tls(client, quarry, trusted, certificate=None, user=None, **options):
    files = {"tls": "true", "tlsCAFile": trusted.file}
    if certificate:
        files["tlsCertificateKeyFile"] = certificate
    return client.run(uri(quarry, user, **files, **options), (trusted, certificate))


X509 = {"authMechanism": "MONGODB-X509", "authSource": "$external"}


def test_a_password_over_tls_with_and_without_a_certificate(client, asking, lenient, authority):
    certificate = authority.directory / "client.pem"
    assert over_tls(client, asking, authority, certificate, "root", authSource="admin") == "ok root"
    assert over_tls(client, lenient, authority, None, "root", authSource="admin") == "ok root"
    refused = over_tls(client, asking, authority, None, "root", authSource="admin", finds_ms=FINDS_NONE_MS)
    assert refused.startswith("error "), refused


def test_a_certificate_logs_in_its_user(client, asking, authority):
    assert over_tls(client, asking, authority, authority.directory / "client.pem", **X509) == f"ok {SUBJECT_AS_USER}"
    # It is good, and no user has its name.
    refused = over_tls(client, asking, authority, authority.directory / "other.pem", **X509)
    assert refused.startswith("error ") and "uthentication failed" in refused, refused


@pytest.mark.parametrize("bad", ["expired", "strange"])
def test_a_bad_certificate_opens_no_connection_or_logs_nobody_in(client, asking, lenient, authority, stranger, bad):
    certificate = {"expired": authority.directory / "expired.pem", "strange": stranger.directory / "client.pem"}[bad]
    closed = over_tls(client, asking, authority, certificate, finds_ms=FINDS_NONE_MS, **X509)
    assert closed.startswith("error "), closed
    refused = over_tls(client, lenient, authority, certificate, **X509)
    assert refused.startswith("error ") and "No verified subject name" in refused, refused


def test_a_client_does_not_trust_a_strange_server(client, asking, stranger):
    refused = over_tls(client, asking, stranger, stranger.directory / "client.pem", finds_ms=FINDS_NONE_MS, **X509)
    assert refused.startswith("error ") and "uthentication failed" not in refused, refused
    # Nor does one without encryption get an answer.
    plain = client.run(uri(asking, "root", authSource="admin", finds_ms=FINDS_NONE_MS), None)
    assert plain.startswith("error "), plain
