"""Tables of pymongoarrow, with pandas: `use_pymongoarrow.py URI DATABASE`. Prints what it read through it as JSON."""

import datetime
import json
import sys

import pandas
import pyarrow
from pymongo import MongoClient
from pymongoarrow.api import (
    Schema,
    aggregate_pandas_all,
    find_arrow_all,
    find_numpy_all,
    find_pandas_all,
    write,
)

ROWS = 5_000


def main(uri, name):
    with MongoClient(uri) as client:
        weather = client[name].weather
        start = datetime.datetime(2024, 1, 1)
        frame = pandas.DataFrame({
            "_id": range(ROWS),
            "station": [f"s{number % 5}" for number in range(ROWS)],
            "degrees": [number % 40 - 10 + 0.5 for number in range(ROWS)],
            "at": [start + datetime.timedelta(hours=number) for number in range(ROWS)],
        })
        wrote = write(weather, frame)
        read = find_pandas_all(weather, {"station": "s3"}, sort=[("_id", 1)])
        means = aggregate_pandas_all(weather, [
            {"$group": {"_id": "$station", "mean": {"$avg": "$degrees"}, "n": {"$sum": 1}}}, {"$sort": {"_id": 1}},
        ])
        expected = frame[frame.station == "s3"].groupby("station").degrees.mean().iloc[0]
        schema = Schema({"_id": pyarrow.int64(), "degrees": pyarrow.float64(), "at": pyarrow.timestamp("ms")})
        table = find_arrow_all(weather, {"degrees": {"$gt": 25}}, schema=schema)
        numbers = find_numpy_all(weather, {"_id": {"$lt": 100}}, schema=Schema({"_id": int}))
        print(json.dumps({
            "wrote": wrote.inserted_count,
            "same": bool((read.degrees.values == frame[frame.station == "s3"].degrees.values).all() and (read["at"].max() == frame[frame.station == "s3"]["at"].max())),
            "rows": len(read),
            "means": [(row._1, int(row.n)) for row in means.itertuples()],
            "mean": abs(float(means["mean"].iloc[3]) - float(expected)) < 1e-9,
            "table": (table.num_rows, table.column_names),
            "numbers": int(numbers["_id"].sum()),
        }))


if __name__ == "__main__":
    main(*sys.argv[1:])
