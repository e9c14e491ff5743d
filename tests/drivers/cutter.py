"""A proxy between a tool and a server that does something when it sees a request, such as losing the reply."""

import socket
import threading


def message(connection):
    """The next message of the protocol; none at the end."""
    bytes_read = b""
    length = 4
    while len(bytes_read) < length:
        part = connection.recv(min(1 << 20, length - len(bytes_read)))
        if not part:
            return None
        bytes_read += part
        length = int.from_bytes(bytes_read[:4], "little") if len(bytes_read) >= 4 else 4
    return bytes_read


def names(request, command, collection=None):
    """Whether the message is that command, and on the collection if one is given: both stand in the first field of the body."""
    # The header, the flags, the kind of the section, the length of the body, the type of its first field.
    first = request[16 + 4 + 1 + 4 + 1 :]
    name, _, value = first.partition(b"\x00")
    is_on = collection is None or value[4:].startswith(collection.encode() + b"\x00")
    return name == command.encode() and is_on


class Cutter(threading.Thread):
    """Stands between clients and a server. `cuts` is asked of each request: where it says yes, the server gets the request, and the client
    finds its connection closed in place of the reply. `before` is called with each request before the server gets it."""

    def __init__(self, port, cuts=lambda request: False, before=lambda request: None):
        super().__init__(daemon=True)
        self.to = port
        self.should_cut = cuts
        self.before = before
        self.cuts = 0
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"mongodb://127.0.0.1:{self.listener.getsockname()[1]}/"
        self.start()

    def run(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.pass_on, args=(client,), daemon=True).start()

    def pass_on(self, client):
        try:
            with client, socket.create_connection(("127.0.0.1", self.to)) as server:
                while (request := message(client)) is not None:
                    with self.lock:
                        self.before(request)
                        is_cut = self.should_cut(request)
                        self.cuts += is_cut
                    server.sendall(request)
                    reply = message(server)
                    if is_cut or reply is None:
                        return
                    client.sendall(reply)
        except OSError:
            # A side that is gone ends the other one.
            return

    def stop(self):
        self.listener.close()
