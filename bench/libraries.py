"""A Parquet file that five processes read at the same time, each with another library: served once, and read by each.

  ./dev bench libraries [--quick] [--out FOLDER]

The readers are pandas, polars, DuckDB, torch and NumPy. Each says when it has imported its library and connected, reads
all columns, adds up their values, and keeps the table until all have been looked at. "served": crossdock serves the
file, and Client.table() gives the table. "itself": each reads the file with its library, or with pyarrow. The memory is
the proportional set size (PSS) from /proc/PID/smaps_rollup, in which memory that processes share counts once: of the
readers what it has grown by, of the server all. Writes build/bench/libraries.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from bench import _report
from bench._children import ROOT, build_folder, role, said, serving, tell
from bench._report import Target
from bench.memory import rollup

LIBRARIES = ("pandas", "polars", "duckdb", "torch", "numpy")
COLUMNS, ROW_GROUP = 8, 1 << 20


def serve(path: str) -> None:
    import crossdock as xd

    with xd.serve({"t": path}) as server:
        print(json.dumps({"uri": server.uri}), flush=True)
        sys.stdin.read()


def _total_of(library: str) -> Callable[[Any], tuple[object, float]]:
    """Returns what reads a table, and adds up its values: the table in the library's form, and the sum."""
    if library == "pandas":
        import pandas

        def with_pandas(table: Any) -> tuple[object, float]:
            is_served = hasattr(table, "to_arrow")
            frame = table.to_pandas() if is_served else pandas.read_parquet(table, dtype_backend="pyarrow")
            return frame, float(frame.sum().sum())

        return with_pandas
    if library == "polars":
        import polars

        def with_polars(table: Any) -> tuple[object, float]:
            frame = table.to_polars() if hasattr(table, "to_arrow") else polars.read_parquet(table)
            return frame, float(frame.sum().sum_horizontal()[0])

        return with_polars
    if library == "duckdb":
        import duckdb

        def with_duckdb(table: Any) -> tuple[object, float]:
            held = table.to_arrow() if hasattr(table, "to_arrow") else pa.parquet.read_table(table)
            names = " + ".join(f"sum({name})" for name in held.column_names)
            return held, float(duckdb.sql(f"select {names} from held").fetchall()[0][0])

        return with_duckdb

    def arrays_of(table: Any) -> list[Any]:
        held = table.to_arrow() if hasattr(table, "to_arrow") else pa.parquet.read_table(table)
        return [chunk.to_numpy() for column in held.columns for chunk in column.chunks]

    if library == "torch":
        import torch

        def with_torch(table: Any) -> tuple[object, float]:
            arrays = arrays_of(table)
            for array in arrays:
                array.flags.writeable = False
            tensors = [torch.frombuffer(memoryview(array), dtype=torch.float64) for array in arrays]
            return (arrays, tensors), sum(float(tensor.sum()) for tensor in tensors)

        return with_torch

    def with_numpy(table: Any) -> tuple[object, float]:
        arrays = arrays_of(table)
        return arrays, sum(float(np.add.reduce(array)) for array in arrays)

    return with_numpy


def read(library: str, uri: str, path: str) -> None:
    """Goes on at each line of standard input: reads, then ends. `uri`: "" to read the file itself."""
    import warnings

    import crossdock as xd

    warnings.filterwarnings("ignore", message=".*buffer is not writable.*")
    total_of = _total_of(library)
    total_of(_small_file(Path(path).parent))  # what a library takes when it is first used isn't the table's
    client = xd.connect(uri) if uri else None
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()
    start = time.monotonic()
    held, total = total_of(client.table("t") if client is not None else path)
    print(json.dumps({"sum": total, "seconds": time.monotonic() - start}), flush=True)
    sys.stdin.readline()
    del held


def _small_file(folder: Path) -> str:
    return str(folder / "small.parquet")


def write_files(folder: Path, rows: int) -> tuple[str, float]:
    names = [f"c{i}" for i in range(COLUMNS)]
    draws = np.random.default_rng(7)
    table = pa.table([draws.integers(0, 1000, rows).astype("f8") for _ in names], names=names)
    path = str(folder / "t.parquet")
    pa.parquet.write_table(table, path, row_group_size=ROW_GROUP)
    pa.parquet.write_table(table.slice(0, 10), _small_file(folder))
    return path, sum(float(np.add.reduce(column.chunk(0).to_numpy())) for column in table.columns)


def look(readers: list[subprocess.Popen[str]], server: subprocess.Popen[str] | None) -> list[int]:
    return [rollup(process.pid)["pss"] for process in (*readers, *([server] if server else []))]


def measure(uri: str, path: str, server: subprocess.Popen[str] | None, total: float) -> dict[str, Any]:
    readers = [
        subprocess.Popen(
            role("libraries", "read", library=library, uri=uri, path=path),
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for library in LIBRARIES
    ]  # fmt: skip
    try:
        for reader in readers:
            said(reader)
        before = look(readers, None)
        for reader in readers:
            tell(reader)
        answers = [said(reader) for reader in readers]
        for answer in answers:
            assert answer["sum"] == total, answers
        after = look(readers, None)
        served = rollup(server.pid)["pss"] if server is not None else 0
    finally:
        for reader in readers:
            reader.kill()
            reader.communicate()
    grown = dict(zip(LIBRARIES, (now - was for now, was in zip(after, before, strict=True)), strict=True))
    seconds = {library: answer["seconds"] for library, answer in zip(LIBRARIES, answers, strict=True)}
    return {"grown": grown, "server": served, "seconds": seconds}


def bench(quick: bool, out: Path) -> None:
    rows = (1 << 20) if quick else (1 << 24)
    size = rows * 8 * COLUMNS
    with tempfile.TemporaryDirectory() as folder:
        path, total = write_files(Path(folder), rows)
        with serving(role("libraries", "serve", path=path)) as (answer, server):
            new = rollup(server.pid)["pss"]
            served = measure(answer["uri"], path, server, total)
        itself = measure("", path, None, total)
    mib = 1 << 20
    _report.print_table(
        f"{COLUMNS} columns of float64, {_report.size(size)}, read by five processes at once (PSS grown, MiB; seconds)",
        ["", *LIBRARIES, "server", "all"],
        [
            [
                name,
                *(f"{one['grown'][library] / mib:,.0f}; {one['seconds'][library]:.2f}" for library in LIBRARIES),
                f"{one['server'] / mib:,.0f}",
                f"{(sum(one['grown'].values()) + one['server']) / mib:,.0f}",
            ]
            for name, one in (("served", served), ("itself", itself))
        ],
    )
    everything = (sum(served["grown"].values()) + served["server"]) / size
    targets = [Target("memory of all processes, beside the table's size", everything, 1.3, True, "x")]
    _report.print_targets(targets)
    result = {"size": size, "served": served, "itself": itself, "server_new": new}
    _report.write_json(out / "libraries.json", result, targets)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench libraries", description=__doc__, add_help=True)
    parser.add_argument("role", nargs="?", choices=("serve", "read"), help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--library", choices=LIBRARIES, help=argparse.SUPPRESS)
    parser.add_argument("--uri", default="", help=argparse.SUPPRESS)
    parser.add_argument("--path", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role == "serve":
        serve(given.path)
    elif given.role == "read":
        read(given.library, given.uri, given.path)
    else:
        bench(given.quick, given.out or build_folder())


if __name__ == "__main__":
    main()
