"""Asks another process for some rows of its table: only the batches that are needed are sent.

python parts_of_a_table.py
"""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import crossdock as xd

try:
    import duckdb
    import polars as pl
except ModuleNotFoundError:
    sys.exit("this needs DuckDB and polars: pip install duckdb polars")

ROWS, BATCH = 1_000_000, 10_000


def serve() -> None:
    """The other process: measurements in the order of their time, in 100 batches, until its input ends."""
    minute = np.arange(ROWS)
    table = pa.table({"minute": minute, "station": minute % 100, "celsius": minute % 100 / 4 + 1.5})
    with xd.serve({"weather": table.to_batches(max_chunksize=BATCH)}, "tcp://127.0.0.1:0") as server:
        print(server.uri, flush=True)
        sys.stdin.read()


def ask(uri: str) -> None:
    with xd.connect(uri) as client:
        weather = client.table("weather")
        print("rows:", client.table("weather", rows=range(499_995, 500_005)).to_arrow()["minute"].to_pylist())

        # The server knows the lowest and the highest value of each column in each batch.
        night = weather.filter((pc.field("minute") >= 600_000) & (pc.field("minute") < 600_360))
        print("filter:", night.select(["celsius"]).to_arrow().num_rows)

        dataset = weather.to_dataset()  # DuckDB passes on its columns and filters to a dataset
        query = "SELECT station, count(*) FROM dataset WHERE minute < 500 AND station < 2 GROUP BY 1 ORDER BY 1"
        counts = duckdb.sql(query)
        assert counts is not None
        assert dataset is not None
        print("DuckDB:", counts.fetchall())

        warm = weather.to_lazy().filter((pl.col("minute") > 999_000) & (pl.col("celsius") > 26))
        print("polars:", warm.select(pl.len()).collect().item())


def main() -> None:
    with subprocess.Popen(
        [sys.executable, __file__, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        ask(server.stdout.readline().strip())


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
