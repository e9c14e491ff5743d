"""Analytic pipelines over a million documents: `pipeline.py --quarry BINARY [--documents N] [--rounds N] [NAME=URI...]`.

The sides are a Quarry that this starts, every server given, and, where their packages are installed, DuckDB (a table made of the
same documents as JSON) and SQLite (one JSON text a row). They take turns case by case, because a machine's mood differs more between runs
than sides do; a figure is the best of the rounds. A case's goal stands beside it. Memory is the peak of the side's process
during the case: of a server on this machine, of a child process for the libraries.

A document has about 300 bytes: {_id, user (100,000 of them), kind (20), day (a date of 1000), amount, quantity, tags (10 of 50), note}.
"""

import argparse
import datetime
import json
import multiprocessing
import pathlib
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time

from pymongo import MongoClient

DATABASE = "quarry_pipeline"
USERS, KINDS, DAYS, TAGS = 100_000, 20, 1000, 50
BATCH = 10_000
START_SECONDS_MAX = 60
MIB = 1 << 20
FIRST_DAY = datetime.datetime(2024, 1, 1)


def order(number):
    mixed = number * 2_654_435_761 % (1 << 32)
    return {
        "_id": number, "user": mixed % USERS, "kind": f"kind-{mixed % KINDS:02}",
        "day": FIRST_DAY + datetime.timedelta(days=mixed // 7 % DAYS), "amount": mixed % 100_000 / 100,
        "quantity": mixed // 100 % 10, "tags": [f"t{(mixed + step * 7) % TAGS:02}" for step in range(10)], "note": "n" * 60,
    }


# Name, seconds that are the goal for a million documents, pipeline, DuckDB's query, SQLite's query (None: it has none).
CASES = [
    ("group, five accumulators", 1 / 1.5,
     [{"$group": {"_id": "$kind", "n": {"$sum": 1}, "sum": {"$sum": "$amount"}, "avg": {"$avg": "$amount"},
                  "min": {"$min": "$amount"}, "max": {"$max": "$quantity"}}}],
     "select kind, count(*), sum(amount), avg(amount), min(amount), max(quantity) from orders group by kind",
     "select j->>'kind', count(*), sum(j->>'amount'), avg(j->>'amount'), min(j->>'amount'), max(j->>'quantity') from orders group by 1"),
    ("match 10 %, project", 1 / 2.5,
     [{"$match": {"quantity": 3}}, {"$project": {"user": 1, "amount": 1}}, {"$group": {"_id": None, "n": {"$sum": "$amount"}}}],
     "select sum(amount) from (select user, amount from orders where quantity = 3)",
     "select sum(j->>'amount') from orders where j->>'quantity' = 3"),
    ("sort, limit 100", 0.5, [{"$sort": {"amount": -1, "_id": 1}}, {"$limit": 100}],
     "select * from orders order by amount desc, _id limit 100",
     "select j from orders order by j->>'amount' desc, j->>'_id' limit 100"),
    ("sort of all", 4.0, [{"$sort": {"amount": 1}}, {"$group": {"_id": None, "last": {"$last": "$_id"}}}],
     "select last(_id) from (select * from orders order by amount)",
     "select max(place) from (select row_number() over (order by j->>'amount') place from orders)"),
    ("group by 100,000 users", 2.0, [{"$group": {"_id": "$user", "sum": {"$sum": "$amount"}}}, {"$count": "n"}],
     "select count(*) from (select user, sum(amount) from orders group by user)",
     "select count(*) from (select j->>'user' u, sum(j->>'amount') from orders group by u)"),
    ("lookup of 100,000", 1.2,
     [{"$limit": 100_000}, {"$lookup": {"from": "users", "localField": "user", "foreignField": "_id", "as": "who"}},
      {"$group": {"_id": None, "n": {"$sum": {"$size": "$who"}}}}],
     "select count(u._id) from (select * from orders limit 100000) o left join users u on o.user = u._id", None),
    ("unwind 10, group", 8.0, [{"$unwind": "$tags"}, {"$group": {"_id": "$tags", "n": {"$sum": 1}}}],
     "select tag, count(*) from (select unnest(tags) tag from orders) group by tag",
     "select value, count(*) from orders, json_each(j, '$.tags') group by value"),
    ("rolling sum", 2.0,
     [{"$setWindowFields": {"partitionBy": "$kind", "sortBy": {"day": 1}, "output": {
         "sum": {"$sum": "$amount", "window": {"documents": [-6, 0]}}}}}, {"$group": {"_id": None, "n": {"$max": "$sum"}}}],
     "select max(s) from (select sum(amount) over (partition by kind order by day rows 6 preceding) s from orders)",
     "select max(s) from (select sum(j->>'amount') over (partition by j->>'kind' order by j->>'day' rows 6 preceding) s from orders)"),
    ("facet of five", 6.0,
     [{"$facet": {field: [{"$sortByCount": f"${field}"}, {"$limit": 5}] for field in ("kind", "day", "quantity", "user", "amount")}}],
     None, None),
]


class Server:
    """A server by its address; `process` is the one that this has started."""

    def __init__(self, name, uri, process=None):
        self.name, self.process = name, process
        self.database = MongoClient(uri, directConnection=True)[DATABASE]

    def load(self, documents):
        self.database.client.drop_database(DATABASE)
        for start in range(0, documents, BATCH):
            self.database.orders.insert_many([order(number) for number in range(start, min(start + BATCH, documents))])
        for start in range(0, USERS, BATCH):
            self.database.users.insert_many([{"_id": user, "name": f"user {user}"} for user in range(start, start + BATCH)])

    def run(self, case):
        self.forget_peak()
        started = time.perf_counter()
        list(self.database.orders.aggregate(case[2], allowDiskUse=True))
        return time.perf_counter() - started, self.peak()

    def forget_peak(self):
        if self.process:
            pathlib.Path(f"/proc/{self.process.pid}/clear_refs").write_text("5", encoding="ascii")

    def peak(self):
        if not self.process:
            return None
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))


class Library:
    """A database in a file, asked by a child process for each run, whose peak of memory is its own."""

    def __init__(self, name, file, column, load, ask):
        self.name, self.file, self.column, self.fill, self.ask = name, file, column, load, ask

    def load(self, documents):
        lines = self.file.with_suffix(".json")
        with lines.open("w", encoding="utf-8") as out:
            for number in range(documents):
                json.dump(order(number), out, default=lambda day: day.isoformat())
                out.write("\n")
        self.fill(self.file, lines)
        lines.unlink()

    def run(self, case):
        query = case[self.column]
        if query is None:
            return None
        parent, child = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=measured, args=(self.ask, self.file, query, child))
        process.start()
        result = parent.recv()
        process.join()
        return result


def measured(ask, file, query, pipe):
    started = ask(file, query)
    pipe.send((time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10))


def load_duckdb(file, lines):
    import duckdb

    with duckdb.connect(str(file)) as database:
        database.execute("create table orders as select * from read_json(?, format='newline_delimited')", [str(lines)])
        database.execute(f"create table users as select range as _id, 'user ' || range as name from range({USERS})")


def ask_duckdb(file, query):
    import duckdb

    with duckdb.connect(str(file), read_only=True, config={"threads": 1}) as database:
        started = time.perf_counter()
        database.execute(query).fetchall()
        return started


def load_sqlite(file, lines):
    with sqlite3.connect(file) as database, lines.open(encoding="utf-8") as texts:
        database.execute("create table orders (j text)")
        database.executemany("insert into orders values (?)", ((text,) for text in texts))


def ask_sqlite(file, query):
    database = sqlite3.connect(file)
    started = time.perf_counter()
    database.execute(query).fetchall()
    return started


def libraries(scratch):
    found = [Library("sqlite", scratch / "sqlite.db", 4, load_sqlite, ask_sqlite)]
    try:
        import duckdb  # noqa: F401  (is it there?)
    except ImportError:
        print("duckdb is not installed: it is left out", file=sys.stderr)
    else:
        found.append(Library("duckdb", scratch / "duck.db", 3, load_duckdb, ask_duckdb))
    return found


def start(binary, scratch):
    directory = scratch / "data"
    process = subprocess.Popen(
        [binary, "serve", "--dbpath", str(directory), "--port", "0", "--adminPort", "off"],
        stdin=subprocess.DEVNULL, stdout=(scratch / "log").open("wb"), stderr=subprocess.STDOUT)
    deadline = time.monotonic() + START_SECONDS_MAX
    while not (directory / "quarry.port").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit((scratch / "log").read_text(errors="replace"))
        time.sleep(0.05)
    return Server("quarry", f"mongodb://127.0.0.1:{(directory / 'quarry.port').read_text().strip()}/", process)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quarry", help="the binary to start")
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("servers", nargs="*", metavar="NAME=URI")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        own = [start(options.quarry, scratch)] if options.quarry else []
        try:
            sides = own + [Server(*server.split("=", 1)) for server in options.servers] + libraries(scratch)
            for side in sides:
                side.load(options.documents)
            report(sides, options)
        finally:
            for server in own:
                server.process.terminate()
                server.process.wait()


def report(sides, options):
    scale = options.documents / 1_000_000
    print(f"{options.documents} documents of about 300 bytes, the best of {options.rounds} rounds; seconds, documents a second, peak MiB")
    for case in CASES:
        best = {}
        for _ in range(options.rounds):
            for side in sides:
                result = side.run(case)
                if result is not None:
                    best[side.name] = min(best.get(side.name, result), result)
        print(f"\n{case[0]} (goal {case[1] * scale:.2f} s)")
        for name, (seconds, peak) in best.items():
            memory = "" if peak is None else f"{peak / MIB:8.0f}"
            print(f"  {name:10} {seconds:8.3f} {options.documents / seconds:12.0f} {memory}")


if __name__ == "__main__":
    main()
