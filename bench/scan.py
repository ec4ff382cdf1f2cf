"""Parts of a served table, beside Parquet and Feather files in the page cache.

  ./dev bench scan [--quick] [--rounds N] [--out FOLDER]

The server is a process of its own. "few rows": a filter that keeps 1 % of clustered rows, over tcp and over shm, beside
the whole table that is filtered here; and the bytes of columns and statistics that the server sends for it, by its
stats(). "queries": DuckDB and polars filter and sum a table of 512 MiB: the handle's dataset or LazyFrame, and files of
the same rows, which are in the page cache. The ways take turns. Writes build/bench/scan.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather
import pyarrow.parquet
from bench import _report
from bench._children import ROOT, build_folder, role, said
from bench._report import Target, duration, median

import crossdock as xd

COLUMNS = 4  # of 8 bytes a row
BATCHES = 500


def table(size: int) -> pa.Table:
    """Rows in the order of `key`, in batches of 1/500 of it."""
    rows = size // (8 * COLUMNS) // BATCHES * BATCHES
    random = np.random.default_rng(1)
    return pa.table(
        {"key": np.arange(rows), "kind": np.arange(rows) % 97, "x": random.random(rows), "y": random.random(rows)}
    )


def in_batches(whole: pa.Table) -> list[pa.RecordBatch]:
    return whole.to_batches(max_chunksize=whole.num_rows // BATCHES)


def serve(size: int) -> None:
    with xd.serve({"t": in_batches(table(size))}, ["shm:", "tcp:"]) as server:
        print(json.dumps({"uris": server.uris}), flush=True)
        for _ in sys.stdin:  # each line asks for the bytes that were sent so far
            print(sum(one["bytes"] for one in server.stats()["consumers"]), flush=True)


class Serving:
    """The server's process."""

    def __init__(self, size: int) -> None:
        command = role("scan", "serve", size=str(size))
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.shm, self.tcp = said(self._process)["uris"]

    def bytes_sent(self) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate("", timeout=60)


def timed(work: Callable[[], Any], expected: Any) -> int:
    start = time.perf_counter_ns()
    found = work()
    took = time.perf_counter_ns() - start
    assert found == expected, (found, expected)
    return took


def in_turns(rounds: int, ways: dict[str, Callable[[], Any]], expected: Any) -> dict[str, float]:
    """Returns the median of each way's times, in ns. The first round isn't counted."""
    times: dict[str, list[int]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, work in ways.items():
            took = timed(work, expected)
            if number > 0:
                times[name].append(took)
    return {name: median(found) for name, found in times.items()}


def few_rows(server: Serving, whole: pa.Table, rounds: int) -> list[dict[str, Any]]:
    low, high = whole.num_rows // 2, whole.num_rows // 2 + whole.num_rows // 100
    expression = (pc.field("key") >= low) & (pc.field("key") < high)
    rows = []
    for scheme, uri in (("tcp", server.tcp), ("shm", server.shm)):
        with xd.connect(uri) as client:
            handle = client.table("t")
            before = server.bytes_sent()
            assert handle.filter(expression).num_rows == high - low
            sent = server.bytes_sent() - before
            ways = {
                "filtered": lambda of=handle: of.filter(expression).to_arrow().num_rows,
                "whole": lambda of=handle: of.to_arrow().filter(expression).num_rows,
            }
            found = in_turns(rounds, ways, high - low)
        rows.append({"scheme": scheme, "bytes": sent, "share": sent / whole.nbytes, **found})
    return rows


@contextlib.contextmanager
def files(whole: pa.Table) -> Iterator[tuple[str, str]]:
    """Writes the table to a Parquet and a Feather file, and reads each once."""
    with tempfile.TemporaryDirectory() as folder:
        parquet, feather = f"{folder}/t.parquet", f"{folder}/t.feather"
        each = whole.num_rows // BATCHES
        pyarrow.parquet.write_table(whole, parquet, row_group_size=16 * each)
        pyarrow.feather.write_feather(whole, feather, compression="uncompressed", chunksize=each)
        for path in (parquet, feather):
            Path(path).read_bytes()
        yield parquet, feather


def queries(server: Serving, whole: pa.Table, rounds: int) -> list[dict[str, Any]]:
    """A filter that keeps half of the rows in every batch, and one that keeps 1 % in a few."""
    import pyarrow.dataset

    rows = []
    low, high = whole.num_rows // 2, whole.num_rows // 2 + whole.num_rows // 100
    expressions = {
        "half of each batch": ("x > 0.5", pl.col("x") > 0.5),
        "1 % of the rows": (f"key >= {low} and key < {high}", (pl.col("key") >= low) & (pl.col("key") < high)),
    }

    def answer(query: str) -> Any:
        return connection.sql(query).fetchall()

    with files(whole) as (parquet, feather), xd.connect(server.shm) as client:
        handle = client.table("t")
        connection = duckdb.connect()
        connection.register("served", handle.to_dataset())
        connection.register("of_feather", pyarrow.dataset.dataset(feather, format="feather"))
        connection.register("whole", whole)
        for name, (condition, predicate) in expressions.items():
            sources = {"served": "served", "parquet": f"'{parquet}'", "feather": "of_feather"}
            add = f"select sum(kind), count(*) from {{}} where {condition}"
            wanted = answer(add.format("whole"))
            ways: dict[str, Callable[[], Any]] = {
                way: partial(answer, add.format(source)) for way, source in sources.items()
            }
            rows.append({"engine": "duckdb", "filter": name, **in_turns(rounds, ways, wanted)})
            frames = {
                "served": lambda: handle.to_lazy(),
                "parquet": lambda: pl.scan_parquet(parquet),
                "feather": lambda: pl.scan_ipc(feather),
            }
            ways = {
                way: lambda scan=scan, of=predicate: (
                    scan().filter(of).select(pl.col("kind").sum(), n=pl.len()).collect().row(0)
                )
                for way, scan in frames.items()
            }
            rows.append({"engine": "polars", "filter": name, **in_turns(rounds, ways, tuple(map(int, wanted[0])))})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench scan", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("role", nargs="?", choices=["serve"])
    parser.add_argument("--quick", action="store_true", help="few rounds and a small table: a look")
    parser.add_argument("--rounds", type=int, help="how often each is measured")
    parser.add_argument("--out", type=Path, default=build_folder(), help="a folder for the results")
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role == "serve":
        serve(given.size)
        return

    info = _report.machine()
    _report.print_machine(info)
    size = 16 << 20 if given.quick else 512 << 20
    rounds = given.rounds or (2 if given.quick else 9)
    whole = table(size)
    server = Serving(size)
    try:
        few = few_rows(server, whole, rounds)
        asked = queries(server, whole, rounds)
    finally:
        server.close()
    _report.print_table(
        f"1 % of {whole.num_rows:,} clustered rows, {whole.nbytes >> 20} MiB in {BATCHES} batches",
        ["over", "sent", "of the whole", "filtered", "the whole, filtered here"],
        [
            [
                row["scheme"],
                _report.size(row["bytes"]),
                f"{row['share']:.2%}",
                duration(row["filtered"]),
                duration(row["whole"]),
            ]
            for row in few
        ],
    )
    _report.print_table(
        "Filter and sum, over shm and from the page cache",
        ["engine", "filter", "served", "Parquet", "Feather"],
        [
            [row["engine"], row["filter"], duration(row["served"]), duration(row["parquet"]), duration(row["feather"])]
            for row in asked
        ],
    )
    share = max(row["share"] for row in few if row["scheme"] == "tcp")
    targets = [Target("1 % of clustered rows over tcp, of the bytes", 100 * share, 5, True, "%")]
    _report.print_targets(targets)
    _report.write_json(given.out / "scan.json", {"machine": info, "few_rows": few, "queries": asked}, targets)


if __name__ == "__main__":
    main()
