"""Quarry as a process of a Python program: started on a free port, stopped with the block.

    import pymongo, quarry_server

    with quarry_server.Server() as uri:
        pymongo.MongoClient(uri).shop.things.insert_one({"name": "hammer"})

Without `dbpath` the data is in memory and goes with the server. The package also puts `quarry` on the PATH, and gives pytest
the fixtures `quarry_server` and `quarry_uri`.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time

__all__ = ["Server", "ServerError", "binary"]

_START_SECONDS = 60
_STOP_SECONDS = 60
_LOOK_SECONDS = 0.01


class ServerError(RuntimeError):
    """The server did not start; the message holds what it said."""


def binary():
    """The path of the server's binary: the one that was installed with this package, else that of the PATH."""
    for directory in (sysconfig.get_path("scripts"), pathlib.Path(sys.executable).parent):
        path = pathlib.Path(directory) / "quarry"
        if os.access(path, os.X_OK):
            return str(path)
    found = shutil.which("quarry")
    if found is None:
        raise ServerError("no binary `quarry`: neither beside this Python nor on the PATH")
    return found


class Server:
    """A running server.

    `dbpath`: a directory to keep the data in; without it the data is in memory. `replica_set`: the name of a set of one, for
    clients that insist on a set. `arguments`: further flags of `quarry serve`.
    """

    def __init__(self, dbpath=None, *, port=0, replica_set=None, arguments=()):
        self.port = port
        self._dbpath = None if dbpath is None else pathlib.Path(dbpath)
        self._replica_set = replica_set
        self._arguments = list(arguments)
        self._process = None
        self._scratch = None

    @property
    def uri(self):
        """What a driver connects to."""
        options = f"?replicaSet={self._replica_set}" if self._replica_set else ""
        return f"mongodb://127.0.0.1:{self.port}/{options}"

    @property
    def pid(self):
        """The number of the process; none where it does not run."""
        return None if self._process is None else self._process.pid

    def start(self):
        """Starts the server, and returns it when clients can connect."""
        if self._process is not None:
            raise ServerError("the server runs already")
        self._scratch = tempfile.TemporaryDirectory(prefix="quarry-")
        scratch = pathlib.Path(self._scratch.name)
        directory = self._dbpath or scratch / "data"
        command = [binary(), "serve", "--dbpath", str(directory), "--port", str(self.port), "--adminPort", "off"]
        if self._dbpath is None:
            command += ["--engine", "memory"]
        if self._replica_set:
            command += ["--replSet", self._replica_set]
        log = scratch / "log"
        with open(log, "wb") as output:
            self._process = subprocess.Popen(
                command + self._arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        port_file = directory / "quarry.port"
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                said = log.read_text(errors="replace")[-4000:]
                code = self._process.returncode
                self.stop()
                raise ServerError(f"the server ended with {code}:\n{said}")
            port = _port_of(port_file, self._process.pid)
            if port is not None:
                self.port = port
                return self
            time.sleep(_LOOK_SECONDS)
        self.stop()
        raise ServerError(f"the server did not start within {_START_SECONDS} s")

    def stop(self):
        """Stops the server as SIGTERM does; what was acknowledged is on the disk if there is a `dbpath`."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        scratch, self._scratch = self._scratch, None
        if scratch is not None:
            scratch.cleanup()

    def __enter__(self):
        return self.start().uri

    def __exit__(self, *_):
        self.stop()


def _port_of(path, pid):
    """The port that this process wrote; a file that an earlier one left says nothing."""
    try:
        holder = int((path.parent / "quarry.lock").read_text())
        return int(path.read_text()) if holder == pid else None
    except (OSError, ValueError):
        return None
