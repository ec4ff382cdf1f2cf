"""Encoding and decoding a record batch's metadata: 8 and 512 columns of one row, ours and pyarrow's in turns.

  ./dev bench codec [--quick] [--out FOLDER]

Encode: ours to IPC metadata, pyarrow `batch.serialize()` (its copy of 8 bytes a column included). Decode: ours to an
exported ArrowArray with all its children, and its release; pyarrow `ipc.read_record_batch()`. Writes
build/bench/codec.json.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bench import _report
from bench._children import ROOT, build_folder, program
from bench._report import Target, duration, median

COLUMNS = (8, 512)
BOUNDS = {"encode": 8, "decode": 6}


class Ours:
    """The C++ program, which measures when it is told to."""

    def __init__(self) -> None:
        self.child = subprocess.Popen(
            program("codec"), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Ours:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.communicate(timeout=30)

    def time(self, operation: str, columns: int, times: int) -> float:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write(f"{operation} {columns} {times}\n")
        self.child.stdin.flush()
        return float(self.child.stdout.readline())


def pyarrow_operations(columns: int) -> dict[str, Callable[[], object]]:
    batch = pa.record_batch([pa.array(np.full(1, 1.0))] * columns, names=[f"f{i}" for i in range(columns)])
    message, schema = batch.serialize(), batch.schema
    return {"encode": batch.serialize, "decode": lambda: pa.ipc.read_record_batch(message, schema)}


def time_python(operation: Callable[[], object], times: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(times):
        operation()
    return (time.perf_counter_ns() - start) / times


def run(columns: int, pairs: int, times: int, ours: Ours) -> list[dict[str, Any]]:
    rows = []
    for operation, peer in pyarrow_operations(columns).items():
        # What a Reader does beside decoding, checking what the offsets point into, is shown, not compared.
        operations = [operation, "checked"] if operation == "decode" else [operation]
        found: dict[str, list[float]] = {name: [] for name in [*operations, "pyarrow"]}
        for _ in range(pairs):
            for name in operations:
                found[name].append(ours.time(name, columns, times * 4))
            found["pyarrow"].append(time_python(peer, times))
        ratios = [theirs / mine for mine, theirs in zip(found[operation], found["pyarrow"], strict=True)]
        rows.append(
            {
                "operation": operation, "columns": columns, "pairs": pairs, "ours": median(found[operation]),
                "ours_checked": median(found["checked"]) if "checked" in found else None,
                "pyarrow": median(found["pyarrow"]), "ratio": median(ratios),
            }
        )  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench codec", description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a look at everything; the numbers mean little")
    parser.add_argument("--out", type=Path, help="the folder for the results; build/bench if it isn't given")
    given = parser.parse_args()
    pairs = 3 if given.quick else 201

    out = given.out or build_folder()
    info = _report.machine()
    _report.print_machine(info)
    rows = []
    with Ours() as ours:
        for columns in COLUMNS:
            rows += run(columns, pairs, 20 if given.quick else 4000 // columns, ours)
    _report.print_table(
        f"Codec, one row; medians of {pairs} pairs in turns",
        ["operation", "columns", "ours", "with the reader's checks", "pyarrow", "ratio"],
        [
            [
                row["operation"], str(row["columns"]), duration(row["ours"]), duration(row["ours_checked"]),
                duration(row["pyarrow"]), f"{row['ratio']:.1f}",
            ]
            for row in rows
        ],
    )  # fmt: skip
    targets = [
        Target(f"{row['operation']}, {row['columns']} columns, against pyarrow", row["ratio"], BOUNDS[row["operation"]],
               False, "x")
        for row in rows
    ]  # fmt: skip
    _report.print_targets(targets)
    _report.write_json(out / "codec.json", {"machine": info, "quick": given.quick, "rows": rows}, targets)


if __name__ == "__main__":
    main()
