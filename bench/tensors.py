"""Tensors by name, from another process: taken over shared memory, and received into memory of the caller's, beside a
table of the same bytes and beside memcpy.

  ./dev bench tensors [--quick] [--out FOLDER]

Taken: `client.tensor()` and one value read, both ends spinning; medians of stretches of 100, the sizes in turns;
regions are mapped beforehand. Received over tcp: into `out`, in turns with a table of one column of the same size,
whose body is received into memory that is used again. Into `out` over shm: one copy, in turns with NumPy's. Writes
build/bench/tensors.json.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from bench import _report
from bench._children import build_folder, role, serving
from bench._report import Target, duration, median
from bench._report import size as size_text

import crossdock as xd

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def timed(call: Callable[[], object]) -> int:
    start = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - start


def take(client: xd.Client, size: int) -> None:
    if client.tensor(f"tensor {size}", wait="spin")[0].item() != 1:
        raise ValueError("a wrong value")


def read_table(client: xd.Client, size: int) -> None:
    for batch in client.get(f"table {size}"):
        if batch.num_rows != size // 8:
            raise ValueError("a wrong table")


def in_turns(calls: list[Callable[[], object]], count: int) -> list[list[int]]:
    """The times of each call; the first round isn't counted."""
    times: list[list[int]] = [[] for _ in calls]
    for i in range(count + 1):
        for call, taken in zip(calls, times, strict=True):
            spent = timed(call)
            if i:
                taken.append(spent)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small tensors, few times: shows that it works")
    parser.add_argument("--out", type=Path, default=build_folder())
    given = parser.parse_args()
    info = _report.machine()
    _report.print_machine(info)
    sizes = [64 * KIB, MIB, 4 * MIB] if given.quick else [64 * KIB, MIB, 64 * MIB, GIB]
    takes = 200 if given.quick else 5000

    names = [str(size) for size in sizes]
    with serving(role("_tensors", "shm:", *names)) as (ready, _), xd.connect(ready["uri"]) as client:
        kept = [client.tensor(f"tensor {size}") for size in sizes]  # what nobody holds is unmapped, and mapped anew
        stretches = [[] for _ in sizes]  # the median of each: how long the machine lets both ends run changes with time
        for _ in range(takes // 100):
            for size, medians in zip(sizes, stretches, strict=True):
                medians.append(median(in_turns([lambda size=size: take(client, size)], 100)[0]))
        taken = [median(medians) for medians in stretches]
        growth = median(last / first for first, last in zip(stretches[0], stretches[-1], strict=True))
        into_shm = []
        for size in sizes:
            out, source = np.zeros(size // 8), np.asarray(client.tensor(f"tensor {size}"))
            into_shm.append(
                in_turns(
                    [
                        lambda size=size, out=out: client.tensor(f"tensor {size}", out=out),
                        lambda out=out, source=source: np.copyto(out, source),
                    ],
                    5 if size > 64 * MIB else 50,
                )
            )
        del kept
    with serving(role("_tensors", "tcp:", *names)) as (ready, _), xd.connect(ready["uri"]) as client:
        by_value = []
        for size in sizes:
            out = np.zeros(size // 8)
            by_value.append(
                in_turns(
                    [
                        lambda size=size, out=out: client.tensor(f"tensor {size}", out=out),
                        lambda size=size: read_table(client, size),
                    ],
                    7 if size > 64 * MIB else 50,
                )
            )

    rows = []
    for size, mapped, (into, copy), (received, table) in zip(sizes, taken, into_shm, by_value, strict=True):
        rows.append(
            {
                "bytes": size,
                "mapped": mapped,
                "into_shm": median(into),
                "numpy_copy": median(copy),
                "into_tcp": median(received),
                "table_tcp": median(table),
                "tcp_ratio": median(one / other for one, other in zip(received, table, strict=True)),
            }
        )
    _report.print_table(
        "A tensor of another process",
        ["size", "mapped, shm", "into out, shm", "numpy.copyto", "into out, tcp", "a table, tcp", "tensor / table"],
        [
            [
                size_text(row["bytes"]),
                *(duration(row[key]) for key in ("mapped", "into_shm", "numpy_copy", "into_tcp", "table_tcp")),
                f"{row['tcp_ratio']:.2f}",
            ]
            for row in rows
        ],
    )
    largest = rows[-1]
    targets = [
        Target("the largest mapped tensor, of one of 64 KiB", growth, 1.2, True, "x"),
        Target("the largest tensor over tcp, of a table's time", largest["tcp_ratio"], 1.1, True, "x"),
    ]
    _report.print_targets(targets)
    _report.write_json(given.out / "tensors.json", {"machine": info, "rows": rows}, targets)


if __name__ == "__main__":
    main()
