"""A connection that speaks OP_MSG and nothing else: no pool, no monitoring, no retries, little time of its own.

Tests use it where a driver would be in the way: to send what a driver does not, to hold many connections, or to know to
some microseconds when a request was on its way.
"""

import itertools
import socket
import struct

import bson

OP_MSG = 2013
HEADER = struct.Struct("<iiii")
# The header, the flags and the kind of the only section.
BODY_AT = HEADER.size + 5
NUMBERS = itertools.count(1)


class CommandFailed(Exception):
    """A reply that is not ok, or that reports write errors."""

    def __init__(self, reply):
        super().__init__(str(reply)[:500])
        self.reply = reply
        errors = reply.get("writeErrors") or ([reply["writeConcernError"]] if "writeConcernError" in reply else [])
        self.code = errors[0]["code"] if errors else reply.get("code")


class WireClient:
    """One connection to a port on loopback. A server that goes away is a ConnectionError."""

    def __init__(self, port, timeout_seconds=60):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def run(self, command, database="test"):
        """The reply of a command that succeeds."""
        self.send(command, database)
        reply = self.receive()
        if reply.get("ok") != 1 or "writeErrors" in reply or "writeConcernError" in reply:
            raise CommandFailed(reply)
        return reply

    def send(self, command, database="test"):
        body = bson.encode({**command, "$db": database})
        length = BODY_AT + len(body)
        self.socket.sendall(HEADER.pack(length, next(NUMBERS), 0, OP_MSG) + b"\0\0\0\0\0" + body)

    def receive(self):
        return bson.decode(self.receive_message()[BODY_AT:])

    def receive_message(self):
        head = self.receive_bytes(4)
        return head + self.receive_bytes(int.from_bytes(head, "little") - 4)

    def receive_bytes(self, count):
        parts = []
        while count > 0:
            part = self.socket.recv(min(count, 1 << 20))
            if not part:
                raise ConnectionError("the server closed the connection")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)
