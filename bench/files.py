"""Arrow files: opening a mapped one and taking all its batches, ours and pyarrow's in turns; decoding compressed bodies
beside the codecs' libraries alone.

  ./dev bench files [--quick] [--out FOLDER]

The file is in the page cache. Private memory is what the process has beside mapped files (RssAnon). Decoding: the
fastest of the repetitions on frames in memory, into memory that is used again, on one thread and on all cores. Writes
build/bench/files.json.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bench import _report
from bench._children import build_folder, measure, program
from bench._report import Target, duration, median

import crossdock as xd

COLUMNS = 8
BATCH_BYTES = 1 << 20


def private_bytes() -> int:
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def make_file(path: Path, size: int) -> int:
    values = np.arange(BATCH_BYTES // COLUMNS // 8, dtype="f8")
    batch = pa.record_batch([pa.array(values)] * COLUMNS, names=[f"f{i}" for i in range(COLUMNS)])
    count = size // BATCH_BYTES
    with pa.ipc.new_file(str(path), batch.schema) as sink:
        for _ in range(count):
            sink.write_batch(batch)
    return count


def ours(path: Path) -> list[Any]:
    with xd.open(path) as reader:
        return list(reader)


def theirs(path: Path) -> list[Any]:
    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    return [reader.get_batch(i) for i in range(reader.num_record_batches)]


def taken(read: Callable[[Path], list[Any]], path: Path, count: int) -> tuple[float, int]:
    before = private_bytes()
    start = time.perf_counter_ns()
    batches = read(path)
    spent = time.perf_counter_ns() - start
    grown = private_bytes() - before
    if len(batches) != count:
        raise ValueError(f"{len(batches)} batches were read of {count}")
    return spent, grown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small file and few repetitions: shows that it works")
    parser.add_argument("--out", type=Path, default=build_folder())
    given = parser.parse_args()
    size, pairs = (64 << 20, 3) if given.quick else (1 << 30, 15)
    columns, rows, repetitions = (8, 20_000, 3) if given.quick else (16, 250_000, 15)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plain.arrow"
        count = make_file(path, size)
        taken(ours, path, count)
        taken(theirs, path, count)
        found: dict[str, list[tuple[float, int]]] = {"ours": [], "pyarrow": []}
        for _ in range(pairs):
            found["ours"].append(taken(ours, path, count))
            found["pyarrow"].append(taken(theirs, path, count))
    times = {name: [spent for spent, _ in runs] for name, runs in found.items()}
    ratio = median(mine / other for mine, other in zip(times["ours"], times["pyarrow"], strict=True))
    grown = max(growth for _, growth in found["ours"])
    decode = [
        {"codec": codec, **measure([*program("decompress"), codec, str(columns), str(rows), str(repetitions)])}
        for codec in ("lz4", "zstd")
    ]

    _report.print_table(
        f"All {count} batches of a mapped file of {_report.size(size)}",
        ["", "ours", "pyarrow", "ours / pyarrow", "private memory"],
        [["open and read", duration(median(times["ours"])), duration(median(times["pyarrow"])), f"{ratio:.2f}",
          f"{grown / 1024:.0f} KiB"]],
    )  # fmt: skip
    _report.print_table(
        f"Decoding a body of {columns} buffers",
        ["codec", "ours", "library", "ours, all cores", "library, all cores", "compressed to"],
        [[row["codec"], *(duration(row[name]) for name in ("ours", "library", "ours_threads", "library_threads")),
          f"{row['compressed_to']:.2f}"] for row in decode],
    )  # fmt: skip
    targets = [
        Target("time to open and read all batches, of pyarrow's", ratio, 1.2, True, "x"),
        # Batches and metadata are objects; none of the data is.
        Target("private memory that grows, of the file", grown / size, 0.01, True, ""),
    ]
    for row in decode:
        name = row["codec"].upper()
        targets.append(Target(f"{name} decode, of the library's time", row["ours"] / row["library"], 1.1, True, "x"))
        targets.append(
            Target(f"{name} decode on all cores, of the library's time",
                   row["ours_threads"] / row["library_threads"], 1.1, True, "x")
        )  # fmt: skip
    _report.print_targets(targets)
    result = {
        "machine": _report.machine(), "quick": given.quick, "file_bytes": size, "batches": count,
        "open": {"ours": times["ours"], "pyarrow": times["pyarrow"], "ratio": ratio, "private_bytes": grown},
        "decode": decode,
    }  # fmt: skip
    _report.write_json(given.out / "files.json", result, targets)


if __name__ == "__main__":
    main()
