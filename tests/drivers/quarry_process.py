"""Quarry as a process of its own: on loopback, on a free port, stopped by its pid."""

import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import time

from validation import validate_everything

START_SECONDS_MAX = 30
LOOK_SECONDS = 0.01
START_LOOKS_MAX = int(START_SECONDS_MAX / LOOK_SECONDS)
STOP_SECONDS_MAX = 30
# Below those that the kernel gives to connections: none of them takes the port of a server that is about to come back.
KEPT_PORTS = range(20_000, 32_000)
# The names of threads that work for clients: of a connection, of a long pipeline's helper, of one that reads ahead for an index build.
THREADS_AT_WORK = ("conn", "pipeline", "build")


def binary():
    """The server's binary: $QUARRY, or the release build in the target directory."""
    given = os.environ.get("QUARRY")
    if given:
        return given
    home = pathlib.Path.home() / ".cache/quarry/target"
    return str(pathlib.Path(os.environ.get("CARGO_TARGET_DIR", home)) / "release/quarry")


class Quarry:
    """A running server over `directory`."""

    def __init__(self, directory, engine, arguments=()):
        self.directory = pathlib.Path(directory)
        self.engine = engine
        self.arguments = list(arguments)
        self.process = None
        self.port = None
        self.admin_port = None

    @property
    def uri(self):
        return f"mongodb://127.0.0.1:{self.port}/"

    @property
    def admin_url(self):
        """Of the admin port; `arguments` must ask for one."""
        return f"http://127.0.0.1:{self.admin_port}/"

    @property
    def log(self):
        return self.directory.parent / f"{self.directory.name}.log"

    def start(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        port_file = self.directory / "quarry.port"
        port_file.unlink(missing_ok=True)
        command = [binary(), "serve", "--dbpath", str(self.directory), "--engine", self.engine]
        if "--adminPort" not in self.arguments:
            command += ["--adminPort", "off"]
        if "--port" not in self.arguments:
            command += ["--port", "0"]
        command += self.arguments
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        # Looks are counted, not the clock read: the time of a test that was stopped and goes on is no slow start.
        for _ in range(START_LOOKS_MAX):
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}:\n{self.tail()}")
            text = port_file.read_text().strip() if port_file.exists() else ""
            if text:
                self.port = int(text)
                self.admin_port = self.logged_admin_port()
                return self
            time.sleep(LOOK_SECONDS)
        self.kill()
        raise RuntimeError(f"no port after {START_SECONDS_MAX} s:\n{self.tail()}")

    def keep_port(self):
        """Every later start is on one port, for drivers that go on over restarts."""
        while "--port" not in self.arguments:
            port = random.choice(KEPT_PORTS)
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) != 0:
                    self.arguments += ["--port", str(port)]

    def logged_admin_port(self):
        """What the line `listening` says last; none where the admin port is off."""
        if "--adminPort" not in self.arguments:
            return None
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            said = [json.loads(line) for line in self.log.read_text().splitlines() if '"listening"' in line]
            if said and said[-1]["attr"]["port"] == self.port:
                return said[-1]["attr"]["adminPort"]
            time.sleep(0.01)
        raise RuntimeError(f"no line `listening`:\n{self.tail()}")

    def tail(self):
        return self.log.read_text(errors="replace")[-4000:]

    def stop(self):
        """SIGTERM and wait; returns the exit code. What a test leaves must be valid: every collection is validated first."""
        try:
            validate_everything(self.port)
        finally:
            self.process.send_signal(signal.SIGTERM)
            code = self.process.wait(STOP_SECONDS_MAX)
        return code

    def kill(self):
        """SIGKILL and wait: nothing is flushed, nothing is said."""
        self.process.kill()
        self.process.wait(STOP_SECONDS_MAX)

    def cpu_seconds_of_work(self):
        """What work for clients has had of the processors, in the kernel too: the process's own time but for that of its other
        threads, so that neither another process nor the engine's work changes it. Threads that help a connection and end with
        its operation count."""
        # The clock of a process's processor time, as <linux/posix-timers.h> numbers it.
        seconds = time.clock_gettime((~self.process.pid << 3) | 2)
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            try:
                if not (task / "comm").read_text(encoding="ascii").startswith(THREADS_AT_WORK):
                    seconds -= int((task / "schedstat").read_text(encoding="ascii").split()[0]) / 1e9
            except (FileNotFoundError, ProcessLookupError):
                # It has ended since it was listed.
                continue
        return seconds

    def own_bytes(self):
        """The memory that is the process's own: no pages of files, which the kernel takes back by itself."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))

    def running(self):
        return self.process is not None and self.process.poll() is None
