"""What handing an array over costs in one process, beside the same hand-over from and to other libraries.

  ./dev bench exchange [--quick] [--rounds N] [--out FOLDER]

Each comparison is made in pairs: ours and a peer's in turn, so that both meet the same moments of the machine; the
ratio is the median over the rounds. "The fastest peer" is whichever of the others the same consumer takes the quickest.
Writes build/bench/exchange.json.
"""

from __future__ import annotations

import argparse
import array
import gc
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import nanoarrow as na
import numpy as np
import pyarrow as pa
import torch
from bench import _report
from bench._children import build_folder
from bench._report import Target

import crossdock as xd
from crossdock import _native
from crossdock.testing import simulated_devices

Call = Callable[[], Any]
COLUMNS = 8
MIB = 1 << 20


def calls_for(call: Call, seconds: float) -> int:
    """How many calls take about that long."""
    n = 1
    while timeit.timeit(call, number=n) < seconds / 4 and n < 1 << 20:
        n *= 2
    return n * 4


def ns(call: Call, n: int) -> float:
    return timeit.timeit(call, number=n) / n * 1e9


def in_turns(calls: dict[str, Call], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Nanoseconds a call of each, round by round."""
    n = {name: calls_for(call, seconds) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    gc.collect()
    for turn in range(rounds):
        for name in list(calls) if turn % 2 == 0 else reversed(list(calls)):
            times[name].append(ns(calls[name], n[name]))
    return times


def against_fastest(times: dict[str, list[float]], ours: str) -> tuple[str, float]:
    """The peer with the lowest median, and the median of our ratio to it, pair by pair."""
    peers = {name: statistics.median(values) for name, values in times.items() if name != ours}
    fastest = min(peers, key=lambda name: peers[name])
    return fastest, statistics.median(a / b for a, b in zip(times[ours], times[fastest], strict=True))


def ways_in(rounds: int, seconds: float) -> dict[str, float]:
    """asarray() of other libraries' arrays, in nanoseconds: medians."""
    shape = (2, 3, 4)
    numbers = np.zeros(shape)
    tensor = torch.zeros(shape)
    flat, deep = np.zeros(24), np.zeros((1,) * 7 + (24,))
    large = np.zeros(64 * MIB // 8)
    column = pa.array(flat)
    calls: dict[str, Call] = {
        "xd.asarray(np)": lambda: xd.asarray(numbers),
        "xd.asarray(torch)": lambda: xd.asarray(tensor),
        "xd.asarray(np), 1 dimension": lambda: xd.asarray(flat),
        "xd.asarray(np), 8 dimensions": lambda: xd.asarray(deep),
        "xd.asarray(np), 64 MiB": lambda: xd.asarray(large),
        "xd.asarray(pyarrow)": lambda: xd.asarray(column),
        "memoryview(np)": lambda: memoryview(numbers),
        "nothing (an empty call)": lambda: None,
    }
    times = in_turns(calls, rounds, seconds)
    empty = times["nothing (an empty call)"]
    # What the loop and the lambda around each call cost is not the call's.
    return {
        name: statistics.median(t - e for t, e in zip(values, empty, strict=True))
        for name, values in times.items()
        if values is not empty
    }


def ways_out(rounds: int, seconds: float) -> dict[str, dict[str, Any]]:
    """Each consumer with a tensor of ours, and with arrays of its peers: one dimension, 24 float64."""
    numbers = np.zeros(24)
    ours = xd.asarray(numbers)
    peers = {
        "numpy": numbers,
        "torch": torch.from_numpy(numbers),
        "pyarrow": pa.array(numbers),
        "jax": jnp.zeros(24),
        "array.array": array.array("d", numbers),
        "memoryview": memoryview(numbers),
    }

    def calls(consume: Callable[[Any], Any], names: list[str]) -> dict[str, Call]:
        return {"crossdock": lambda: consume(ours), **{name: (lambda of=peers[name]: consume(of)) for name in names}}

    consumers = {
        "np.asarray": calls(np.asarray, ["torch", "pyarrow", "jax", "array.array", "memoryview"]),
        "np.from_dlpack": calls(np.from_dlpack, ["numpy", "torch", "pyarrow", "jax"]),
        "torch.from_dlpack": calls(torch.from_dlpack, ["numpy", "torch", "pyarrow", "jax"]),
    }
    results = {}
    for name, these in consumers.items():
        times = in_turns(these, rounds, seconds)
        fastest, ratio = against_fastest(times, "crossdock")
        medians = {peer: statistics.median(values) for peer, values in times.items()}
        results[name] = {"medians": medians, "fastest": fastest, "ratio": ratio}
    return results


def batches(rounds: int, seconds: float) -> dict[str, Any]:
    """A batch of 8 float64 columns from pyarrow through us, or through nanoarrow, and back to pyarrow.

    nanoarrow's `Array` is its counterpart of our `RecordBatch`; its `c_array` hands the capsules' content on as it is.
    And pyarrow alone, from its own capsules: what nobody can be quicker than.
    """
    batch = pa.record_batch({f"c{i}": np.zeros(1000) for i in range(COLUMNS)})
    calls: dict[str, Call] = {
        "crossdock": lambda: pa.record_batch(xd.RecordBatch(batch)),
        "nanoarrow": lambda: pa.record_batch(na.Array(batch)),
        "nanoarrow, c_array": lambda: pa.record_batch(na.c_array(batch)),
        "nothing between": lambda: pa.RecordBatch._import_from_c_capsule(*batch.__arrow_c_array__()),
    }
    times = in_turns(calls, rounds, seconds)

    def against(peer: str) -> float:
        return statistics.median(a / b for a, b in zip(times["crossdock"], times[peer], strict=True))

    return {
        "medians": {name: statistics.median(values) for name, values in times.items()},
        "ratio": against("nanoarrow"),
        "ratio_to_c_array": against("nanoarrow, c_array"),
    }


def copies(rounds: int, nbytes: int) -> dict[str, Any]:
    """A batch of 8 columns to a simulated device and back, against the driver's own copies of the same bytes.

    Those are one of all bytes, and one for each column, which is what a batch needs: the C library copies more than
    what its cache holds by other instructions. All into fresh memory, and each with its wait; the driver's are its
    verbs alone, called from C++. The device's copies are memcpy on a thread of its own.
    """
    rows = nbytes // 8 // COLUMNS
    nbytes = rows * 8 * COLUMNS
    plain = np.ones(nbytes // 8)
    columns = {f"c{i}": plain[i * rows : (i + 1) * rows] for i in range(COLUMNS)}
    batch = xd.RecordBatch(pa.record_batch(columns))

    def there_and_back() -> tuple[float, float]:
        start = time.perf_counter()
        there = batch.to("sim:0")
        there.wait()
        there_at = time.perf_counter()
        there.to("cpu").wait()
        return there_at - start, time.perf_counter() - there_at

    ways: dict[str, Callable[[], tuple[float, float]]] = {
        "one copy": lambda: _native.sim_plain_copies(plain.ctypes.data, nbytes, 1),
        "a copy of each column": lambda: _native.sim_plain_copies(plain.ctypes.data, nbytes, COLUMNS),
        "batch": there_and_back,
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    calls: dict[str, dict[str, int]] = {}
    with simulated_devices(1) as devices:
        for turn in range(rounds + 1):
            # What one leaves in the cache is the next one's to find: each comes after each.
            first = turn % len(ways)
            for name in [*ways][first:] + [*ways][:first]:
                taken = ways[name]()
                if turn > 0:  # the first one faults the driver's memory in
                    times[name].append(taken)
        # Columns below 32 KiB go together in one copy: fewer calls. Above that their number is that of the buffers.
        for n_rows in (rows, max(rows // 64, 8192)):
            part = xd.RecordBatch(pa.record_batch({f"c{i}": np.arange(n_rows, dtype="f8") for i in range(COLUMNS)}))
            before = devices.counters()
            part.to("sim:0").to("cpu")
            after = devices.counters()
            made = {name: after[name] - before[name] for name in after}
            # How often it is asked, whether it is waited for, and when memory is freed, depends on the time that a
            # copy takes.
            made["total"] -= made["query"] + made["wait"] + made["free"]
            calls[str(n_rows)] = {name: made[name] for name in ("allocate", "copy", "free", "record", "total")}
    return {
        "bytes": nbytes,
        "speed": {
            other: [
                statistics.median(a[way] / b[way] for a, b in zip(times[other], times["batch"], strict=True))
                for way in (0, 1)
            ]
            for other in ("one copy", "a copy of each column")
        },
        "driver_calls": calls,
    }


def imports(rounds: int) -> dict[str, Any]:
    """What importing the package adds to an interpreter's start, in milliseconds."""

    def start(code: str) -> float:
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return (time.perf_counter() - begin) * 1e3

    times = [start("import crossdock") - start("pass") for _ in range(rounds)]
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, crossdock; print(*sys.modules)"], check=True, capture_output=True, text=True
    ).stdout.split()
    return {
        "milliseconds": statistics.median(times),
        "also_imported": [name for name in ("numpy", "pyarrow", "torch") if name in loaded],
    }


def print_results(result: dict[str, Any]) -> None:
    _report.print_table("In", ["call", "time"], [[name, _report.duration(t)] for name, t in result["in"].items()])
    for consumer, one in result["out"].items():
        rows = [[name, _report.duration(t), ""] for name, t in sorted(one["medians"].items(), key=lambda it: it[1])]
        for row in rows:
            if row[0] == "crossdock":
                row[2] = f"{one['ratio']:.2f} of {one['fastest']}'s"
        _report.print_table(f"{consumer}(...)", ["an array of", "time", ""], rows)
    _report.print_table(
        "A batch of 8 columns: pyarrow, through, pyarrow",
        ["through", "time"],
        [[name, _report.duration(t)] for name, t in result["batch"]["medians"].items()],
    )
    moved = result["copies"]
    _report.console.print(
        f"a batch of {_report.size(moved['bytes'])}, to the device and to the host, at the speed of the driver's: "
        + ", ".join(f"{name} {there:.2f} and {back:.2f}" for name, (there, back) in moved["speed"].items())
        + "; driver calls there and back: "
        + ", ".join(f"{calls['total']} for {int(rows):,} rows" for rows, calls in moved["driver_calls"].items())
    )
    _report.console.print(f"import crossdock: {result['import']['milliseconds']:.1f} ms")


def targets_of(result: dict[str, Any]) -> list[Target]:
    into, out = result["in"], result["out"]
    calls = [one["total"] for one in result["copies"]["driver_calls"].values()]
    flat = into["xd.asarray(np), 1 dimension"]
    return [
        Target("xd.asarray(np)", into["xd.asarray(np)"] / 1e3, 0.35, True, "µs"),
        Target("xd.asarray(torch)", into["xd.asarray(torch)"] / 1e3, 0.5, True, "µs"),
        Target("xd.asarray(np) of 64 MiB, against 24 numbers", into["xd.asarray(np), 64 MiB"] / flat, 1.2, True, "x"),
        Target("xd.asarray(np) of 8 dimensions, to 1", into["xd.asarray(np), 8 dimensions"] / flat, 1.2, True, "x"),
        *(
            Target(f"{name}(xd), against its fastest peer", one["ratio"], 1.1, True, "x") for name, one in out.items()
        ),
        Target("pyarrow, crossdock, pyarrow: against nanoarrow", result["batch"]["ratio"], 0.6, True, "x"),
        Target("the same, against nanoarrow's c_array", result["batch"]["ratio_to_c_array"], 0.6, True, "x"),
        *(
            Target(f"a batch's .to(), against {name}", min(speeds), 0.9, False, "x")
            for name, speeds in result["copies"]["speed"].items()
        ),
        Target("driver calls, against those for fewer rows", calls[0] / calls[1], 1, True, "x"),
        Target("import crossdock", result["import"]["milliseconds"], 40, True, "ms"),
        Target("of NumPy, pyarrow and torch imported with it", len(result["import"]["also_imported"]), 0, True, ""),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench exchange", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--out", type=Path, help="the folder for the results; build/bench if it isn't given")
    parser.add_argument("--quick", action="store_true", help="few rounds, and 1 MiB to copy")
    given = parser.parse_args()
    rounds, seconds, nbytes = given.rounds, 0.01, 64 * MIB
    if given.quick:
        rounds, seconds, nbytes = 3, 0.001, MIB
    info = {**_report.machine(), "numpy": np.__version__, "torch": torch.__version__}
    _report.print_machine(info)
    result = {
        "machine": info,
        "rounds": rounds,
        "in": ways_in(rounds, seconds),
        "out": ways_out(rounds, seconds),
        "batch": batches(rounds, seconds),
        "copies": copies(max(rounds // 3, 2), nbytes),
        "import": imports(max(rounds // 3, 3)),
    }
    print_results(result)
    targets = targets_of(result)
    _report.print_targets(targets)
    _report.write_json((given.out or build_folder()) / "exchange.json", result, targets)


if __name__ == "__main__":
    main()
