"""Analytic pipelines over a million documents: `pipeline.py --quarry BINARY [--documents N] [--rounds N] [--report FILE] [NAME=URI...]`.

The sides are a Quarry that this starts, every server given, and, where their packages are installed, DuckDB (a table made of the
same documents as JSON) and SQLite (one JSON text a row). They take turns case by case, because a machine's mood differs more between runs
than sides do; a figure is the best of the rounds. A case's goal stands beside it. Of the Quarry that this starts there are the processor's
seconds, the peak of memory and the bytes that it read from its engine for each document; of the libraries, which run in a child process
each time, the peak.

A document has about 300 bytes: {_id, user (100,000 of them), kind (20), day (a date of 1000), amount, quantity, tags (10 of 50), note}.
"""

import argparse
import dataclasses
import datetime
import json
import multiprocessing
import os
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
DOCUMENTS = 1_000_000
# The share of the processors whose use by others is said to spoil the seconds.
BUSY = 0.1
MIB = 1 << 20
FIRST_DAY = datetime.datetime(2024, 1, 1)


def order(number):
    mixed = number * 2_654_435_761 % (1 << 32)
    return {
        "_id": number, "user": mixed % USERS, "kind": f"kind-{mixed % KINDS:02}",
        "day": FIRST_DAY + datetime.timedelta(days=mixed // 7 % DAYS), "amount": mixed % 100_000 / 100,
        "quantity": mixed // 100 % 10, "tags": [f"t{(mixed + step * 7) % TAGS:02}" for step in range(10)], "note": "n" * 60,
    }


# Name, seconds that are the goal for a million documents (None: there is none), pipelines that are run one after the other, DuckDB's
# query, SQLite's query (None: it has none).
FACETS = {field: [{"$sortByCount": f"${field}"}, {"$limit": 5}] for field in ("kind", "day", "quantity", "user", "amount")}
FACET, PARTS, FACET_OVER_PARTS_MAX = "facet of five", "its five pipelines one by one", 1.3
FIVE = {"$group": {"_id": "$kind", "n": {"$sum": 1}, "sum": {"$sum": "$amount"}, "avg": {"$avg": "$amount"},
                   "min": {"$min": "$amount"}, "max": {"$max": "$quantity"}}}
GROUP, BY_TWO, TIMES_MIN = "group, five accumulators", "group, five accumulators, two threads", 1.7
THREADS = {BY_TWO: 2}
CASES = [
    (GROUP, 1 / 1.5, [[FIVE]],
     "select kind, count(*), sum(amount), avg(amount), min(amount), max(quantity) from orders group by kind",
     "select j->>'kind', count(*), sum(j->>'amount'), avg(j->>'amount'), min(j->>'amount'), max(j->>'quantity') from orders group by 1"),
    (BY_TWO, None, [[FIVE]], None, None),
    ("match 10 %, project", 1 / 2.5,
     [[{"$match": {"quantity": 3}}, {"$project": {"user": 1, "amount": 1}}, {"$group": {"_id": None, "n": {"$sum": "$amount"}}}]],
     "select sum(amount) from (select user, amount from orders where quantity = 3)",
     "select sum(j->>'amount') from orders where j->>'quantity' = 3"),
    ("sort, limit 100", 0.5, [[{"$sort": {"amount": -1, "_id": 1}}, {"$limit": 100}]],
     "select * from orders order by amount desc, _id limit 100",
     "select j from orders order by j->>'amount' desc, j->>'_id' limit 100"),
    ("sort of all in memory", 1.5, [[{"$sort": {"amount": 1}}, {"$group": {"_id": None, "last": {"$last": "$_id"}}}]],
     "select last(_id) from (select _id, amount from orders order by amount)",
     "select max(place) from (select row_number() over (order by j->>'amount') place from orders)"),
    ("sort of all on disk", 4.0, [[{"$sort": {"amount": 1}}, {"$group": {"_id": None, "last": {"$last": "$$ROOT"}}}]],
     "select last(o) from (select * from orders order by amount) o",
     "select max(j) from (select j, row_number() over (order by j->>'amount') place from orders)"),
    ("group by 100,000 users", 2.0, [[{"$group": {"_id": "$user", "sum": {"$sum": "$amount"}}}, {"$count": "n"}]],
     "select count(*) from (select user, sum(amount) from orders group by user)",
     "select count(*) from (select j->>'user' u, sum(j->>'amount') from orders group by u)"),
    ("lookup of 100,000", 1.2,
     [[{"$limit": 100_000}, {"$lookup": {"from": "users", "localField": "user", "foreignField": "_id", "as": "who"}},
       {"$group": {"_id": None, "n": {"$sum": {"$size": "$who"}}}}]],
     "select count(u._id) from (select * from orders limit 100000) o left join users u on o.user = u._id", None),
    ("unwind 10, group", 8.0, [[{"$unwind": "$tags"}, {"$group": {"_id": "$tags", "n": {"$sum": 1}}}]],
     "select tag, count(*) from (select unnest(tags) tag from orders) group by tag",
     "select value, count(*) from orders, json_each(j, '$.tags') group by value"),
    ("rolling sum", 2.0,
     [[{"$setWindowFields": {"partitionBy": "$kind", "sortBy": {"day": 1}, "output": {
         "sum": {"$sum": "$amount", "window": {"documents": [-6, 0]}}}}}, {"$group": {"_id": None, "n": {"$max": "$sum"}}}]],
     "select max(s) from (select sum(amount) over (partition by kind order by day rows 6 preceding) s from orders)",
     "select max(s) from (select sum(j->>'amount') over (partition by j->>'kind' order by j->>'day' rows 6 preceding) s from orders)"),
    (FACET, None, [[{"$facet": FACETS}]], None, None),
    (PARTS, None, list(FACETS.values()), None, None),
]


@dataclasses.dataclass
class Figure:
    """What one run of a case took; None is what cannot be told of a side."""

    seconds: float
    processor: float | None = None
    peak: int | None = None
    read_bytes: int | None = None
    spilled: int | None = None


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
        if self.process:
            self.database.client.admin.command("setParameter", 1, internalQueryPipelineThreadsMax=THREADS.get(case[0], 1))
        (read, spilled), processor, started = self.counters(), self.processor(), time.perf_counter()
        for pipeline in case[2]:
            list(self.database.orders.aggregate(pipeline, allowDiskUse=True))
        seconds = time.perf_counter() - started
        if not self.process:
            return Figure(seconds)
        processor, (read_now, spilled_now) = self.processor() - processor, self.counters()
        return Figure(seconds, processor, self.peak(), read_now - read, spilled_now - spilled)

    def processor(self):
        """The seconds of a processor that the server has used."""
        if not self.process:
            return None
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def counters(self):
        """The bytes of keys and values that the engine has handed out, and those that stages have written to disk."""
        if not self.process:
            return None, None
        status = self.database.client.admin.command("serverStatus")
        return status["quarry"]["work"]["bytesRead"], sum(of["spilledBytes"] for of in status["metrics"]["query"].values() if "spilledBytes" in of)

    def forget_peak(self):
        if self.process:
            pathlib.Path(f"/proc/{self.process.pid}/clear_refs").write_text("5", encoding="ascii")

    def peak(self):
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
        seconds, peak = parent.recv()
        process.join()
        return Figure(seconds, peak=peak)


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
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="the cases whose names contain this")
    parser.add_argument("--report", type=pathlib.Path, help="the page to write")
    parser.add_argument("servers", nargs="*", metavar="NAME=URI")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        own = [start(options.quarry, scratch)] if options.quarry else []
        try:
            sides = own + [Server(*server.split("=", 1)) for server in options.servers] + libraries(scratch)
            for side in sides:
                side.load(options.documents)
            table, others = measure(sides, options)
        finally:
            for server in own:
                server.process.terminate()
                server.process.wait()
    text = page(table, others, options)
    print(text)
    if options.report:
        options.report.write_text(text, encoding="utf-8")


def measure(sides, options):
    """The best figures by case and side, and the share of the processors that went to anything but the side that was measured."""
    table, others = {}, []
    for case in CASES:
        if options.only not in case[0]:
            continue
        best = table.setdefault(case[0], {})
        for _ in range(options.rounds):
            for side in sides:
                before = busy_seconds()
                figure = side.run(case)
                if figure is None:
                    continue
                if figure.processor is not None:
                    others.append(max(0.0, busy_seconds() - before - figure.processor) / figure.seconds / os.cpu_count())
                known = best.setdefault(side.name, figure)
                for field in dataclasses.fields(Figure):
                    values = [getattr(of, field.name) for of in (known, figure)]
                    setattr(known, field.name, None if None in values else min(values))
        print(case[0], {name: round(figure.seconds, 3) for name, figure in best.items()}, file=sys.stderr)
    return table, sum(others) / len(others) if others else None


def busy_seconds():
    """The seconds that all processors have worked, whoever for."""
    ticks = [int(field) for field in pathlib.Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]]
    idle, waiting = ticks[3:5]
    return (sum(ticks[:8]) - idle - waiting) / os.sysconf("SC_CLK_TCK")


def goal_of(case, options):
    """The seconds that are the goal for as many documents as there are; a pipeline that begins with a limit takes no more of them."""
    if case[1] is None:
        return None
    most = case[2][0][0].get("$limit")
    return case[1] * (min(1, options.documents / most) if most else options.documents / DOCUMENTS)


def page(table, others, options):
    names = list(dict.fromkeys(name for best in table.values() for name in best))
    models = [line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    lines = [
        f"# Pipelines over {options.documents:,} documents", "",
        f"Reproduce with `make bench-pipeline`{'' if options.documents == DOCUMENTS else ', which takes ' + format(DOCUMENTS, ',')}. Measured on {os.cpu_count()} cores of {models[0] if models else 'an unknown processor'}.", "",
        f"{options.documents:,} documents of about 300 bytes each, and {USERS:,} users to look up, on RocksDB with default options; "
        f"{'one round' if options.rounds == 1 else f'the best of {options.rounds} rounds'}, in which the sides take turns. A pipeline runs on one core where its name does not say otherwise (`internalQueryPipelineThreadsMax`). `processor` is the time that the server's "
        "process used of it, `peak` the most memory that the process had, caches of the engine among it, `read` what the "
        "engine handed out, and `spilled` what stages wrote to disk, all for `quarry`. DuckDB (one thread) reads columns of a table that was made of the same documents, SQLite "
        "takes the fields out of one JSON text a row with each query.", "",
    ]
    if others is not None:
        lines += [f"While `quarry` was measured, other processes (the client and whatever else ran) used {others:.0%} of the processors." + (
            " On so busy a machine the seconds are mostly those of waiting for a processor, on every side." if others > BUSY else ""), ""]
    titles = ["case", "goal s", "quarry s", "documents/s", "processor s", "peak MiB", "read bytes/document", "spilled MiB"]
    titles += [title for name in names if name != "quarry" for title in (f"{name} s", f"{name} peak MiB")]
    lines += [row(titles), row(["---"] + ["---:"] * (len(titles) - 1))]
    for case in CASES:
        name, goal = case[0], goal_of(case, options)
        if name not in table:
            continue
        own = table[name].get("quarry", Figure(0))
        cells = [name, "" if goal is None else f"{goal:.2f}"]
        if own.seconds:
            cells += [f"{own.seconds:.3f}", f"{options.documents / own.seconds:,.0f}", f"{own.processor:.2f}", f"{own.peak / MIB:.0f}",
                      f"{own.read_bytes / options.documents:.0f}", f"{own.spilled / MIB:.0f}"]
        else:
            cells += [""] * 6
        for side in names:
            if side != "quarry":
                figure = table[name].get(side)
                cells += ["", ""] if figure is None else [
                    f"{figure.seconds:.3f}", "" if figure.peak is None else f"{figure.peak / MIB:.0f}"]
        lines.append(row(cells))
    lines += [""] + list(verdicts(table, options))
    return "\n".join(lines).rstrip() + "\n"


def row(cells):
    return "| " + " | ".join(cells) + " |"


def verdicts(table, options):
    own = {name: best["quarry"] for name, best in table.items() if "quarry" in best}
    for case in CASES:
        name, goal = case[0], goal_of(case, options)
        if name in own and goal is not None:
            figure = own[name]
            reached = "reached" if figure.seconds <= goal else "reached in processor seconds alone" if figure.processor <= goal else "missed"
            yield f"- {name}: {figure.seconds:.2f} s, {figure.processor:.2f} of a processor, at most {goal:.2f} s asked for: {reached}."
    if GROUP in own and BY_TWO in own:
        times = own[GROUP].seconds / own[BY_TWO].seconds
        reached = "reached" if times >= TIMES_MIN else "missed"
        yield f"- {BY_TWO}: {times:.2f} times as fast as by one, at least {TIMES_MIN} times asked for: {reached}."
    if FACET in own and PARTS in own:
        ratio = own[FACET].seconds / own[PARTS].seconds
        reached = "reached" if ratio <= FACET_OVER_PARTS_MAX else "missed"
        yield f"- {FACET} over {PARTS}: {ratio:.2f}, at most {FACET_OVER_PARTS_MAX} asked for: {reached}."


if __name__ == "__main__":
    main()
