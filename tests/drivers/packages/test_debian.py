"""The Debian package in a system made of Debian's packages alone: installed, started, upgraded, removed, purged. Needs root, the
network and some minutes; `make package-test` runs it."""

import os
import pathlib
import shlex
import subprocess

import pytest
from conftest import needs, serving
from pymongo import MongoClient
from test_packages import VERSION, one

SUITE = os.environ.get("DEBIAN_SUITE", "bookworm")


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    tree = tmp_path_factory.mktemp("debian") / "system"
    command = [needs("mmdebstrap"), "--variant=minbase", "--quiet", SUITE, tree]
    subprocess.run(command, check=True, timeout=900)
    return tree


def within(system, *command):
    # A maintainer's script must not start anything on the machine around it.
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LANG": "C.UTF-8"}
    done = subprocess.run(["chroot", system, *command], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def install(system, package):
    target = system / "tmp" / package.name
    target.write_bytes(package.read_bytes())
    within(system, "apt-get", "install", "-q", "-y", "--no-install-recommends", f"/tmp/{package.name}")


def as_the_unit_says(system):
    """The command, user and group of the service."""
    unit = (system / "lib/systemd/system/quarry.service").read_text()
    settings = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line and not line.startswith("#"))
    user = ["--userspec", f"{settings['User']}:{settings['Group']}"]
    return ["chroot", *user, system, *shlex.split(settings["ExecStart"]), "--port", "0"]


def test_installed_started_upgraded_removed(pack, system, tmp_path):
    assert os.geteuid() == 0, "a system of its own is made by root"
    first = one(pack("deb"), "quarry-server_*.deb")
    within(system, "apt-get", "update", "-q")
    install(system, first)
    data = system / "var/lib/quarry"
    assert within(system, "stat", "-c", "%U %a", "/var/lib/quarry", "/var/log/quarry") == "quarry 750\n" * 2
    with serving(as_the_unit_says(system), tmp_path, data / "quarry.port") as port, MongoClient("127.0.0.1", port) as client:
        client.shop.things.insert_one({"_id": 1})
    assert "listening" in (system / "var/log/quarry/quarry.log").read_text()

    # The administrator's settings and the data outlive an upgrade.
    settings = system / "etc/quarry.conf"
    settings.write_text(settings.read_text() + "\noperationProfiling:\n  slowOpThresholdMs: 5\n")
    newer = one(pack("deb", PACKAGE_VERSION=f"{VERSION}+1"), "quarry-server_*.deb")
    install(system, newer)
    assert within(system, "dpkg-query", "-f", "${Version}", "-W", "quarry-server") == f"{VERSION}+1"
    with serving(as_the_unit_says(system), tmp_path, data / "quarry.port") as port, MongoClient("127.0.0.1", port) as client:
        assert client.shop.things.count_documents({}) == 1
        assert client.admin.command("getParameter", slowOpThresholdMs=1)["slowOpThresholdMs"] == 5

    within(system, "apt-get", "remove", "-q", "-y", "quarry-server")
    assert not (system / "usr/bin/quarry").exists() and settings.exists() and (data / "journal").exists()
    within(system, "apt-get", "purge", "-q", "-y", "quarry-server")
    assert not settings.exists() and not (system / "var/log/quarry").exists() and (data / "journal").exists()


def test_logrotate_takes_its_file(system):
    within(system, "apt-get", "install", "-q", "-y", "--no-install-recommends", "logrotate")
    source = pathlib.Path(__file__).resolve().parents[3] / "packaging/system/quarry.logrotate"
    (system / "etc/logrotate.d/quarry").write_bytes(source.read_bytes())
    (system / "etc/logrotate.d/quarry").chmod(0o644)
    within(system, "logrotate", "--debug", "/etc/logrotate.d/quarry")
