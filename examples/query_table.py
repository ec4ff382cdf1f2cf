"""Queries a table of another process with DuckDB and with polars, where it lies.

python query_table.py
"""

import subprocess
import sys

import numpy as np
import pyarrow as pa

import crossdock as xd

try:
    import duckdb
    import polars as pl
except ModuleNotFoundError:
    sys.exit("this needs DuckDB and polars: pip install duckdb polars")

ROWS = 1_000_000


def serve() -> None:
    """The other process: a table of 16 MB, until its input ends."""
    station = np.arange(ROWS) % 100
    table = pa.table({"station": station, "celsius": station / 4 + 1.5})
    with xd.serve({"weather": table}) as server:
        print(server.uri, flush=True)
        sys.stdin.read()


def query(uri: str) -> None:
    with xd.connect(uri) as client:
        weather = pa.table(client.get("weather"))  # the other process's memory, mapped here: nothing is copied

    # DuckDB reads the columns that it needs from that memory. It may read a table as often as it likes, a reader once.
    means = duckdb.from_arrow(weather).aggregate("station, avg(celsius) AS mean", "station")
    print("DuckDB:", means.filter("mean > 26").fetchall())

    # polars takes fixed-width columns as they are; text it converts to its own layout, with a copy.
    frame = pl.DataFrame(weather)
    warmest = frame.group_by("station").agg(pl.col("celsius").mean()).sort("celsius").tail(1)
    print("polars:", warmest.rows())
    print("polars reads the same memory:", address(frame["celsius"].to_arrow()) == address(weather["celsius"].chunk(0)))


def address(column: pa.Array) -> int:
    values = column.buffers()[1]
    assert values is not None
    return int(values.address)


def main() -> None:
    with subprocess.Popen(
        [sys.executable, __file__, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        query(server.stdout.readline().strip())


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
