"""Each package from an empty directory to a served insert, in a place that has nothing but the package."""

import os
import pathlib
import re
import subprocess
import sys
import sysconfig

from conftest import ROOT, insert_one, needs, serving

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


def test_tarball(pack, tmp_path, stopwatch):
    run("tar", "-xzf", one(pack("tarball"), "quarry-*.tar.gz"), "-C", tmp_path)
    tree = one(tmp_path, "quarry-*")
    assert "db version v8.0." in run(tree / "bin/mongod", "--version", env=BARE)
    assert b".symtab" not in (tree / "bin/quarry").read_bytes()
    data = tmp_path / "data"
    command = [tree / "bin/quarry", "serve", "--dbpath", data, "--port", "0", "--adminPort", "off"]
    with serving(command, tmp_path, data / "quarry.port", env=BARE) as port:
        insert_one(port)


def test_the_same_build_gives_the_same_tarball(pack):
    moment = {"SOURCE_DATE_EPOCH": "1700000000"}
    twice = [one(pack("tarball", N=number, **moment), "quarry-*.tar.gz").read_bytes() for number in "12"]
    assert twice[0] == twice[1]


def test_wheel(pack, tmp_path, stopwatch):
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", venv)
    run(venv / "bin/pip", "install", "--quiet", "--no-index", one(pack("wheel"), "quarry_server-*.whl"))
    assert VERSION in run(venv / "bin/quarry", "--version", env=BARE)
    # The driver and pytest are those of the tests: the package asks for neither.
    drivers = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    program = (
        "import pymongo, quarry_server\n"
        "with quarry_server.Server() as uri:\n"
        "    print(pymongo.MongoClient(uri).shop.things.insert_one({'_id': 7}).inserted_id)\n"
        "with quarry_server.Server('kept', replica_set='rs0') as uri:\n"
        "    print(pymongo.MongoClient(uri).admin.command('hello')['setName'])\n"
        "try:\n"
        "    quarry_server.Server(arguments=['--engine', 'none']).start()\n"
        "except quarry_server.ServerError as error:\n"
        "    print('possible values' in str(error))\n"
    )
    assert run(venv / "bin/python", "-c", program, env=drivers, cwd=tmp_path).split() == ["7", "rs0", "True"]
    (tmp_path / "test_fixture.py").write_text(
        "import pymongo\n\n\ndef test_insert(quarry_uri):\n"
        "    assert pymongo.MongoClient(quarry_uri).shop.things.insert_one({}).acknowledged\n"
    )
    assert "1 passed" in run(venv / "bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_fixture.py", env=drivers, cwd=tmp_path)


def test_npm(pack, tmp_path, stopwatch):
    package = one(pack("npm"), "quarry-server-*.tgz")
    (tmp_path / "package.json").write_text('{"private": true}')
    quiet = ("--offline", "--no-audit", "--no-fund", "--loglevel=error")
    run("npm", "install", *quiet, package, cwd=tmp_path)
    assert VERSION in run("npx", "--offline", "quarry-server", "--version", cwd=tmp_path)
    (tmp_path / "node_modules/mongodb").symlink_to(pathlib.Path(os.environ["DRIVERS_DIR"]) / "node/node_modules/mongodb")
    (tmp_path / "try.mjs").write_text(
        'import { MongoClient } from "mongodb";\n'
        'import { start } from "quarry-server";\n'
        "const server = await start();\n"
        "const client = new MongoClient(server.uri);\n"
        'console.log((await client.db("shop").collection("things").insertOne({ _id: 7 })).insertedId);\n'
        "await client.close();\n"
        "await server.stop();\n"
        'await start({ args: ["--engine", "none"] }).catch((error) => console.log(/possible values/.test(error.message)));\n'
    )
    node = (pathlib.Path(os.environ["DRIVERS_DIR"]) / "node-path").read_text().strip()
    assert run(node, "try.mjs", cwd=tmp_path).split() == ["7", "true"]
    data = tmp_path / "data"
    command = [node, "node_modules/quarry-server/cli.js", "--dbpath", data, "--port", "0", "--adminPort", "off"]
    with serving(command, tmp_path, data / "quarry.port", cwd=tmp_path) as port:
        insert_one(port)


def test_deb(pack, tmp_path, stopwatch):
    package = one(pack("deb"), "quarry-server_*.deb")
    run("dpkg-deb", "-x", package, tmp_path)
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert files >= set(SYSTEM_FILES), files
    control = run("dpkg-deb", "-f", package)
    assert f"Version: {VERSION}\n" in control and re.search(r"Depends: libc6 \(>= 2\.[0-9]+\)", control), control
    page = run("man", "--warnings", "-l", tmp_path / "usr/share/man/man1/quarry-serve.1.gz", env={**os.environ, "MANWIDTH": "120"}) \
        if os.path.exists("/usr/bin/man") else run("gzip", "-dc", tmp_path / "usr/share/man/man1/quarry-serve.1.gz")
    assert "dbpath" in page
    # A shell takes what it is to complete by.
    run("bash", "-n", tmp_path / "usr/share/bash-completion/completions/quarry")
    data, log = tmp_path / "data", tmp_path / "log"
    command = [tmp_path / "usr/bin/quarry", "serve", "--config", tmp_path / "etc/quarry.conf"]
    command += ["--dbpath", data, "--logpath", log, "--port", "0", "--adminPort", "off"]
    with serving(command, tmp_path, data / "quarry.port", env=BARE) as port:
        insert_one(port)


def test_image(pack, tmp_path, stopwatch):
    umoci = needs("umoci")
    layout = one(pack("image"), "quarry-*-oci")
    bundle = tmp_path / "bundle"
    run(umoci, "unpack", *([] if os.geteuid() == 0 else ["--rootless"]), "--image", f"{layout}:{VERSION}", bundle)
    tree = bundle / "rootfs"
    # No shell and no package manager: what the image holds is the server and its libraries.
    assert not (tree / "bin/sh").exists() and not (tree / "usr/bin/dpkg").exists()
    entrypoint = ["/usr/bin/quarry", "serve", "--dbpath", "/data/db", "--bind_ip", "0.0.0.0"]
    assert all(f'"{word}"' in (bundle / "config.json").read_text() for word in entrypoint)
    within = [] if os.geteuid() == 0 else ["unshare", "--map-root-user"]
    user = ["--userspec=999:999"] if os.geteuid() == 0 else []
    environment = {"MONGO_INITDB_ROOT_USERNAME": "captain", "MONGO_INITDB_ROOT_PASSWORD": "ahoy"}
    command = [*within, "/usr/sbin/chroot", *user, tree, *entrypoint, "--auth", "--port", "0", "--adminPort", "off"]
    port_file = tree / "data/db/quarry.port"
    with serving(command, tmp_path, port_file, env=environment) as port:
        insert_one(port, username="captain", password="ahoy")
