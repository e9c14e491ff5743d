"""Each package from an empty directory to a served insert, in a place that has nothing but the package."""

import os
import pathlib
import re
import subprocess
import sys
import sysconfig

import pytest
from conftest import ROOT, insert_one, needs, serving, soon
from pymongo.errors import OperationFailure

VERSION = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE).group(1)
# Neither Rust nor anything else of the machine's is found by name.
BARE = {"PATH": "/nonexistent", "HOME": "/nonexistent", "LANG": "C"}
# Pages, completions and files that a system has where it looks for them.
SYSTEM_FILES = (
    "etc/logrotate.d/quarry", "etc/quarry.conf", "lib/systemd/system/quarry.service", "usr/bin/quarry",
    "usr/share/bash-completion/completions/quarry", "usr/share/doc/quarry-server/copyright",
    "usr/share/fish/vendor_completions.d/quarry.fish", "usr/share/man/man1/quarry-serve.1.gz",
    "usr/share/man/man1/quarry.1.gz", "usr/share/zsh/vendor-completions/_quarry",
)


def one(directory, pattern):
    """The only file of that name."""
    (found,) = pathlib.Path(directory).glob(pattern)
    return found


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_tarball(pack, tmp_path):
    package = one(pack("tarball"), "quarry-*.tar.gz")
    with soon():
        run("tar", "-xzf", package, "-C", tmp_path)
        tree = one(tmp_path, "quarry-*")
        data = tmp_path / "data"
        command = [tree / "bin/quarry", "serve", "--dbpath", data, "--port", "0", "--adminPort", "off"]
        with serving(command, tmp_path, data / "quarry.port", env=BARE) as port:
            insert_one(port)
    assert "db version v8.0." in run(tree / "bin/mongod", "--version", env=BARE)
    assert b".symtab" not in (tree / "bin/quarry").read_bytes()


def test_the_same_build_gives_the_same_tarball(pack):
    moment = {"SOURCE_DATE_EPOCH": "1700000000"}
    twice = [one(pack("tarball", N=number, **moment), "quarry-*.tar.gz").read_bytes() for number in "12"]
    assert twice[0] == twice[1]


def test_wheel(pack, tmp_path):
    venv = tmp_path / "venv"
    package = one(pack("wheel"), "quarry_server-*.whl")
    insert = "import pymongo, quarry_server as q\nwith q.Server() as uri: print(pymongo.MongoClient(uri).a.b.insert_one({'_id': 7}).inserted_id)"
    # The driver and pytest are those of the tests: the package asks for neither.
    drivers = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    with soon():
        run(sys.executable, "-m", "venv", venv)
        run(venv / "bin/pip", "install", "--quiet", "--no-index", package)
        assert run(venv / "bin/python", "-c", insert, env=drivers, cwd=tmp_path) == "7\n"
    assert VERSION in run(venv / "bin/quarry", "--version", env=BARE)
    program = (
        "import pymongo, quarry_server\n"
        "with quarry_server.Server('kept', replica_set='rs0') as uri:\n"
        "    print(pymongo.MongoClient(uri).admin.command('hello')['setName'])\n"
        "try:\n"
        "    quarry_server.Server(arguments=['--nonsense']).start()\n"
        "except quarry_server.ServerError as error:\n"
        "    print('--nonsense' in str(error))\n"
    )
    assert run(venv / "bin/python", "-c", program, env=drivers, cwd=tmp_path).split() == ["rs0", "True"]
    (tmp_path / "test_fixture.py").write_text(
        "import pymongo\n\n\ndef test_insert(quarry_uri):\n"
        "    assert pymongo.MongoClient(quarry_uri).shop.things.insert_one({}).acknowledged\n"
    )
    assert "1 passed" in run(venv / "bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_fixture.py", env=drivers, cwd=tmp_path)


def test_npm(pack, tmp_path):
    package = one(pack("npm"), "quarry-server-*.tgz")
    drivers = pathlib.Path(os.environ["DRIVERS_DIR"])
    node = (drivers / "node-path").read_text().strip()
    (tmp_path / "package.json").write_text('{"private": true}')
    (tmp_path / "try.mjs").write_text(
        'import { MongoClient } from "mongodb";\n'
        'import { start } from "quarry-server";\n'
        "const server = await start();\n"
        "const client = new MongoClient(server.uri);\n"
        'console.log((await client.db("shop").collection("things").insertOne({ _id: 7 })).insertedId);\n'
        "await client.close();\n"
        "await server.stop();\n"
        'await start({ args: ["--nonsense"] }).catch((error) => console.log(/--nonsense/.test(error.message)));\n'
    )
    with soon():
        run("npm", "install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", package, cwd=tmp_path)
        (tmp_path / "node_modules/mongodb").symlink_to(drivers / "node/node_modules/mongodb")
        assert run(node, "try.mjs", cwd=tmp_path).split() == ["7", "true"]
    assert VERSION in run("npx", "--offline", "quarry-server", "--version", cwd=tmp_path)
    data = tmp_path / "data"
    command = [node, "node_modules/quarry-server/cli.js", "--dbpath", data, "--port", "0", "--adminPort", "off"]
    with serving(command, tmp_path, data / "quarry.port", cwd=tmp_path) as port:
        insert_one(port)


def test_deb(pack, tmp_path):
    package = one(pack("deb", DEB_COMPRESSION="gzip"), "quarry-server_*.deb")
    data, log = tmp_path / "data", tmp_path / "log"
    command = [tmp_path / "usr/bin/quarry", "serve", "--config", tmp_path / "etc/quarry.conf"]
    command += ["--dbpath", data, "--logpath", log, "--port", "0", "--adminPort", "off"]
    with soon():
        run("dpkg-deb", "-x", package, tmp_path)
        with serving(command, tmp_path, data / "quarry.port", env=BARE) as port:
            insert_one(port)
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert files >= set(SYSTEM_FILES), files
    control = run("dpkg-deb", "-f", package)
    assert f"Version: {VERSION}\n" in control and re.search(r"Depends: libc6 \(>= 2\.[0-9]+\)", control), control
    page = run("gzip", "-dc", tmp_path / "usr/share/man/man1/quarry-serve.1.gz")
    assert ".TH" in page and "dbpath" in page
    # A shell takes what it is to complete by.
    run("bash", "-n", tmp_path / "usr/share/bash-completion/completions/quarry")


def test_image(pack, tmp_path):
    umoci = needs("umoci")
    layout = one(pack("image"), "quarry-*-oci")
    bundle = tmp_path / "bundle"
    tree = bundle / "rootfs"
    is_root = os.geteuid() == 0
    entrypoint = ["/usr/bin/quarry", "serve", "--dbpath", "/data/db", "--bind_ip", "0.0.0.0"]
    command = ["chroot", *(["--userspec=999:999"] if is_root else []), tree, *entrypoint]
    command += ["--port", "0", "--adminPort", "off"]
    environment = {"PATH": os.environ["PATH"], "MONGO_INITDB_ROOT_USERNAME": "captain", "MONGO_INITDB_ROOT_PASSWORD": "ahoy"}
    with soon():
        run(umoci, "unpack", *([] if is_root else ["--rootless"]), "--image", f"{layout}:{VERSION}", bundle)
        as_root = [] if is_root else ["unshare", "--map-root-user"]
        with serving([*as_root, *command], tmp_path, tree / "data/db/quarry.port", env=environment) as port:
            insert_one(port, username="captain", password="ahoy")
            with pytest.raises(OperationFailure, match="requires authentication"):
                insert_one(port)
    assert all(f'"{word}"' in (bundle / "config.json").read_text() for word in entrypoint)
    # The image holds the server and its libraries: no shell and no package manager.
    assert not (tree / "bin/sh").exists() and not (tree / "usr/bin/dpkg").exists()
