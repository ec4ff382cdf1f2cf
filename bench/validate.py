"""Full validation of columns of a million elements, ours and pyarrow's in turns over the same bytes.

  ./dev bench validate [--quick] [--out FOLDER]

Ours: `array::check_full`. Its peer: `validate(full=True)` of the same column in pyarrow. Writes
build/bench/validate.json.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from bench import _report
from bench._children import ROOT, build_folder, program
from bench._report import Target, duration, median

ROWS = 1_000_000


def columns() -> dict[str, pa.Array]:
    """Text of words, plain and not; lists of all lengths up to 7; and what else is validated element by element."""
    chance = np.random.default_rng(20)
    words = np.array(["cross", "dock", "", "a lorry", "goods that are never unpacked", "train"])
    others = np.array(["\u00fcber", "dock", "", "\u8ca8\u7269", "goods that are never unpacked", "gare \u2603"])
    plain = pa.array(words[chance.integers(0, len(words), ROWS)])
    nulls = pa.array(chance.random(ROWS) < 0.1)
    offsets = np.concatenate([[0], np.cumsum(chance.integers(0, 8, ROWS))])
    flat = pa.array(np.arange(offsets[-1], dtype="i4"))
    return {
        "utf8": plain,
        "utf8_with_nulls": pc.if_else(nulls, pa.scalar(None, pa.string()), plain),
        "utf8_of_many_scripts": pa.array(others[chance.integers(0, len(others), ROWS)]),
        "large_utf8": plain.cast(pa.large_string()),
        "utf8_view": plain.cast(pa.string_view()),
        "binary": plain.cast(pa.binary()),
        "list": pa.ListArray.from_arrays(pa.array(offsets.astype("i4")), flat),
        "large_list": pa.LargeListArray.from_arrays(pa.array(offsets), flat),
        "list_of_utf8": pa.ListArray.from_arrays(pa.array(np.arange(0, ROWS + 1, 4, dtype="i4")), plain),
    }


class Ours:
    """The C++ program, which measures when it is told to."""

    def __init__(self, file: Path) -> None:
        self.child = subprocess.Popen(
            program("validate", file=file), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self) -> Ours:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.communicate(timeout=30)

    def time(self, column: str, times: int) -> float:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write(f"{column} {times}\n")
        self.child.stdin.flush()
        return float(self.child.stdout.readline())


def write(array: pa.Array, name: str, file: Path) -> pa.Array:
    """Writes one column as a file, and returns it as read from the file."""
    batch = pa.record_batch({name: array})
    with pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_file(file.read_bytes()).get_batch(0).column(0)


def time_pyarrow(array: pa.Array, times: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(times):
        array.validate(full=True)
    return (time.perf_counter_ns() - start) / times


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench validate", description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a look at everything; the numbers mean little")
    parser.add_argument("--out", type=Path, help="the folder for the results; build/bench if it isn't given")
    given = parser.parse_args()
    pairs, times = (3, 1) if given.quick else (31, 5)

    out = given.out or build_folder()
    info = _report.machine()
    _report.print_machine(info)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, array in columns().items():
            file = Path(folder) / f"{name}.arrow"
            theirs = write(array, name, file)
            found: dict[str, list[float]] = {"ours": [], "pyarrow": []}
            with Ours(file) as ours:
                for _ in range(pairs):
                    found["ours"].append(ours.time(name, times))
                    found["pyarrow"].append(time_pyarrow(theirs, times))
            ratios = [peer / own for own, peer in zip(found["ours"], found["pyarrow"], strict=True)]
            rows.append(
                {
                    "column": name, "bytes": array.nbytes, "pairs": pairs, "ours": median(found["ours"]),
                    "pyarrow": median(found["pyarrow"]), "ratio": median(ratios),
                }
            )  # fmt: skip
    _report.print_table(
        f"Full validation of {ROWS:,} elements; medians of {pairs} pairs in turns",
        ["column", "MB", "ours", "pyarrow", "ratio"],
        [
            [
                row["column"], f"{row['bytes'] / 1e6:.1f}", duration(row["ours"]), duration(row["pyarrow"]),
                f"{row['ratio']:.1f}",
            ]
            for row in rows
        ],
    )  # fmt: skip
    targets = [Target(f"{row['column']}, against pyarrow", row["ratio"], 1, False, "x") for row in rows]
    _report.print_targets(targets)
    _report.write_json(out / "validate.json", {"machine": info, "quick": given.quick, "rows": rows}, targets)


if __name__ == "__main__":
    main()
