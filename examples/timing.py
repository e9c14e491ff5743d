"""Makes four operations slow, each for its own reason, and shows where Quarry says the time went (docs/timing.md).

    python examples/timing.py mongodb://127.0.0.1:27017/

Needs pymongo. Uses the database `timing_example` and drops it at the end; resets the server's timing figures.
"""

import socket
import struct
import sys
import threading
import time
from urllib.parse import urlparse

import bson
from pymongo import MongoClient, WriteConcern

DATABASE = "timing_example"


def figures(client, op, **options):
    """The figures of one kind of operation since the last reset."""
    return client.admin.command("getOpTiming", **options)["operations"].get(op, {})


def show(title, figures, phases):
    print(f"\n{title}")
    print(f"  {figures['count']} operations")
    for phase in ("wall", *phases):
        measured = figures["phases"].get(phase)
        if measured:
            print(
                f"  {phase:<14} count {measured['count']:>6}  p50 {measured['p50Micros']:>10.1f} us"
                f"  p99 {measured['p99Micros']:>10.1f} us  total {measured['totalMicros'] / 1e3:>9.1f} ms"
            )


def slow_fsync(client):
    """Durable writes beside writes that are not waited for: the difference is `sync_wait`."""
    things = client[DATABASE].things
    for concern in (WriteConcern(w=1, j=True), WriteConcern(w=1)):
        client.admin.command("resetOpTiming")
        writer = things.with_options(write_concern=concern)
        for number in range(200):
            writer.insert_one({"n": number})
        show(f"fsync: inserts with {concern.document}", figures(client, "insert"), ["journal_append", "sync_wait"])


def lock_holder(client):
    """Many clients update one document: those that wait name who held its lock."""
    counters = client[DATABASE].counters
    counters.insert_one({"_id": "one", "n": 0, "filler": "x" * 1_000_000})
    client.admin.command("resetOpTiming")
    holders = {}

    def work():
        for _ in range(50):
            command = {"$inc": {"n": 1}}
            reply = client[DATABASE].command(
                "update", "counters", updates=[{"q": {"_id": "one"}, "u": command}], **{"$quarry": {"timing": True}}
            )
            timing = reply["quarry"]["timing"]
            holder = timing.get("waits", {}).get("lockHolder")
            if holder:
                holders[holder["opid"]] = (holder["op"], timing["phases"]["lock_wait"])

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    show("lock: updates of one document by four clients", figures(client, "update"), ["lock_wait", "splice"])
    for opid, (op, waited) in sorted(holders.items(), key=lambda held: -held[1][1])[:3]:
        print(f"  waited {waited:.1f} us for operation {opid}, which is of kind {op}")


def bad_plan(client):
    """A query without an index, and the same with one."""
    things = client[DATABASE].plans
    things.insert_many([{"customer": number % 1000, "text": "x" * 100} for number in range(20_000)])
    for with_index in (False, True):
        if with_index:
            things.create_index("customer")
        client.admin.command("resetOpTiming")
        for customer in range(20):
            list(things.find({"customer": customer}))
        timing = client.admin.command("getOpTiming", shapes=True)
        found = timing["operations"]["find"]
        show(f"plan: a query {'with' if with_index else 'without'} an index", found, ["engine_scan", "match"])
        shape = next(shape for shape in timing["shapes"] if shape["shape"].startswith(f"find {DATABASE}.plans"))
        work = shape["work"]
        print(f"  {shape['shape']}: examined {work['docsExamined']} documents to return {work['returned']}")


def slow_client(client, host, port):
    """A client that sends its request in two pieces: the pause between them is `read`."""
    client.admin.command("resetOpTiming")
    body = bson.encode({"ping": 1, "$db": "admin"})
    message = struct.pack("<iiiiiB", 21 + len(body), 1, 0, 2013, 0, 0) + body
    with socket.create_connection((host, port)) as connection:
        connection.sendall(message[:30])
        time.sleep(0.3)
        connection.sendall(message[30:])
        connection.recv(4096)
    show("client: a ping that arrives in two pieces", figures(client, "command"), ["read", "execute", "send"])


def main():
    uri = sys.argv[1] if len(sys.argv) > 1 else "mongodb://127.0.0.1:27017/"
    client = MongoClient(uri)
    client.drop_database(DATABASE)
    try:
        slow_fsync(client)
        lock_holder(client)
        bad_plan(client)
        parsed = urlparse(uri)
        slow_client(client, parsed.hostname, parsed.port or 27017)
    finally:
        client.drop_database(DATABASE)


if __name__ == "__main__":
    main()
