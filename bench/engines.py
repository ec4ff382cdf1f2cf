"""Large data between worker processes, by each engine's own way and by Crossdock.

  ./dev bench engines [--quick] [--only ENGINE]... [--rounds N] [--out FOLDER]

Both take turns within one run. A hand-over lasts until the other process has read one byte and has said so. "Pool" is
data that lies in a pool, "heap" is data that doesn't. The processor time is that of all processes. Also: what it costs
to allocate memory of a used size in a pool and to fill it, beside filling memory that is there already. The rows of
engines that aren't installed are left out.
Writes build/bench/engines.json.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from bench import _engines_dask, _engines_ray, _report
from bench._children import ROOT
from bench._report import Target, median

import crossdock as xd
import crossdock.multiprocessing

MIB = 1 << 20
# Each has NAME, available(), costs() and GOALS.
ENGINES = [_engines_dask, _engines_ray]


def _cpu_seconds(processes: list[int]) -> float:
    """Processor time of this process and the others, as long as they live."""
    total = time.process_time()
    for pid in processes:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(words[11]) + int(words[12])) / 100
    return total


def _answer(inbox: Any, outbox: Any) -> None:
    while (item := inbox.get()) is not None:
        if isinstance(item, str):  # SharedMemory, by hand
            memory = (
                SharedMemory(item, track=False)
                if "track" in SharedMemory.__init__.__annotations__
                else SharedMemory(item)
            )
            outbox.put(int(memory.buf[0]))
            memory.close()
        else:
            outbox.put(float(item.reshape(-1)[0]))


def _first(frame: Any) -> float:
    return float(frame.iloc[0, 0])


def queue_costs(size: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Seconds by the clock and of processors for one array through a `multiprocessing.Queue`, of each way."""
    ctx = mp.get_context("spawn")
    inbox, outbox = ctx.Queue(), ctx.Queue()
    process = ctx.Process(target=_answer, args=(inbox, outbox))
    process.start()
    heap = np.ones(size // 8)
    lies_in_pool = xd.pool.default().empty(size // 8)
    lies_in_pool[:] = 1

    def put(item: Any) -> None:
        inbox.put(item)
        outbox.get()

    def by_hand() -> None:
        memory = SharedMemory(create=True, size=size)
        np.ndarray(size // 8, buffer=memory.buf)[:] = heap
        put(memory.name)
        memory.close()
        memory.unlink()

    def changed() -> None:
        heap[0] += 1  # else it would be known from the last round
        put(heap)

    ways: dict[str, Callable[[], None]] = {
        "queue": lambda: put(heap), "by hand": by_hand, "heap": changed, "pool": lambda: put(lies_in_pool),
    }  # fmt: skip
    costs: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for number in range(rounds + 1):
        for way, run in ways.items():
            if way in ("heap", "pool"):
                crossdock.multiprocessing.install(1 << 16)
            else:
                crossdock.multiprocessing.uninstall()
            cpu, start = _cpu_seconds([process.pid or 0]), time.perf_counter()
            run()
            wall, used = time.perf_counter() - start, _cpu_seconds([process.pid or 0]) - cpu
            if number:  # the first is not counted
                costs[way].append((wall, used))
    inbox.put(None)
    process.join()
    return costs


def executor_costs(size: int, tasks: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """The same for one frame that is given to several tasks of a `ProcessPoolExecutor`."""
    frame = pd.DataFrame(np.ones((size // 8 // 4, 4)), columns=list("abcd"))
    costs: dict[str, list[tuple[float, float]]] = {"executor": [], "heap": []}
    with ProcessPoolExecutor(2, mp_context=mp.get_context("spawn")) as executor:
        list(executor.map(_first, [frame.head(1)] * 4))
        pids = list(executor._processes)
        for number in range(rounds + 1):
            for way, samples in costs.items():
                if way == "heap":
                    crossdock.multiprocessing.install(1 << 16)
                    frame.iloc[0, 0] += 1
                else:
                    crossdock.multiprocessing.uninstall()
                cpu, start = _cpu_seconds(pids), time.perf_counter()
                list(executor.map(_first, [frame] * tasks))
                wall, used = time.perf_counter() - start, _cpu_seconds(pids) - cpu
                if number:
                    samples.append((wall, used))
    return costs


def joblib_costs(size: int, tasks: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """The same for a frame of integers and text, by joblib's processes, which map plain arrays themselves."""
    rows = size // 64
    frame = pd.DataFrame({name: np.arange(rows) for name in "abcd"})
    frame["text"] = np.char.add("a text of this row: ", np.arange(rows).astype("U8"))
    costs: dict[str, list[tuple[float, float]]] = {"joblib": [], "heap": []}
    with joblib.Parallel(2) as parallel:
        pids = parallel([joblib.delayed(os.getpid)()] * 4)
        for number in range(rounds + 1):
            for way, samples in costs.items():
                if way == "heap":
                    crossdock.multiprocessing.install(1 << 16)
                    frame.iloc[0, 0] += 1
                else:
                    crossdock.multiprocessing.uninstall()
                cpu, start = _cpu_seconds(sorted(set(pids))), time.perf_counter()
                parallel(joblib.delayed(_first)(frame) for _ in range(tasks))
                wall, used = time.perf_counter() - start, _cpu_seconds(sorted(set(pids))) - cpu
                if number:
                    samples.append((wall, used))
    return costs


def fill_ratio(size: int, rounds: int) -> float:
    """How much longer it takes to allocate memory of a used size and fill it than to fill memory that is there."""
    pool = xd.Pool()
    source = np.ones(size, "u1")
    there = pool.empty(size, "u1")
    ratios = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        there[:] = source
        plain = time.perf_counter() - start
        start = time.perf_counter()
        fresh = pool.empty(size, "u1")
        fresh[:] = source
        ratios.append((time.perf_counter() - start) / plain)
        del fresh
    return median(ratios[1:])


def compare(costs: dict[str, list[tuple[float, float]]], theirs: str) -> dict[str, dict[str, float]]:
    """Of each way: medians in ms, and how many times faster it is than `theirs`, by rounds."""
    return {
        way: {
            "wall_ms": median(wall for wall, _ in samples) * 1e3,
            "cpu_ms": median(cpu for _, cpu in samples) * 1e3,
            "times_faster": median(b[0] / a[0] for a, b in zip(samples, costs[theirs], strict=True)),
        }
        for way, samples in costs.items()
    }


def python_costs(rounds: int, scale: int) -> dict[str, tuple[dict[str, list[tuple[float, float]]], str]]:
    """Of what comes with Python, and of joblib: as costs() of the engines."""
    return {
        "queue 64 MiB array": (queue_costs(64 * MIB // scale, rounds), "queue"),
        "executor 256 MiB frame, 8 tasks": (executor_costs(256 * MIB // scale, 8, rounds), "executor"),
        "joblib 128 MiB frame with text, 8 tasks": (joblib_costs(128 * MIB // scale, 8, rounds), "joblib"),
    }


def python_targets(results: dict[str, dict[str, dict[str, float]]], filled: float) -> list[Target]:
    goals = (
        ("Queue, 64 MiB on the heap", "queue 64 MiB array", "heap", 8),
        ("Queue, 64 MiB in a pool", "queue 64 MiB array", "pool", 30),
        ("Executor, one frame for 8 tasks", "executor 256 MiB frame, 8 tasks", "heap", 25),
        ("joblib, a frame with text for 8 tasks", "joblib 128 MiB frame with text, 8 tasks", "heap", 15),
    )
    return [
        *(Target(name, results[row][way]["times_faster"], bound, False, "x") for name, row, way, bound in goals),
        Target("allocate a used size and fill it", filled, 1.2, True, "x of a memcpy"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small data and few rounds: whether it runs")
    parser.add_argument("--only", action="append", choices=["Python", *(engine.NAME for engine in ENGINES)])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench")
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    scale = 16 if options.quick else 1
    machine = _report.machine()
    _report.print_machine(machine)
    wanted = [engine for engine in ENGINES if not options.only or engine.NAME in options.only]
    engines = [engine for engine in wanted if engine.available()]
    costs, targets, report = {}, [], {}
    with_python = not options.only or "Python" in options.only
    if with_python:
        costs |= python_costs(rounds, scale)
        report["fill_ratio"] = fill_ratio(64 * MIB // scale, rounds)
    growth = _engines_dask.growth_of_memory(scale) if _engines_dask in engines else {}
    for engine in engines:
        costs |= engine.costs(rounds, scale, _cpu_seconds)
    results = {name: compare(ways, theirs) for name, (ways, theirs) in costs.items()}
    for name, ways in results.items():
        rows = [
            [way, f"{cost['wall_ms']:#.3g}", f"{cost['cpu_ms']:#.3g}", f"{cost['times_faster']:.3g}"]
            for way, cost in ways.items()
        ]
        _report.print_table(name, ["way", "ms", "ms of processors", "times faster"], rows)
    if with_python:
        targets += python_targets(results, report["fill_ratio"])
    targets += [
        Target(f"{row}: {way}", results[row][way]["times_faster"], bound, False, "x")
        for engine in engines
        for row, way, bound in engine.GOALS
    ]
    if growth:
        rows = [[way, f"{grown:.2f}"] for way, grown in growth.items()]
        _report.print_table("Dask, 4 workers read one 512 MiB array", ["way", "growth of memory, arrays"], rows)
        report["dask_growth_of_memory"] = growth
        targets.append(
            Target("Dask, memory of 4 readers: pool", growth["pool"], _engines_dask.MOST_GROWTH, True, "arrays")
        )
    _report.print_targets(targets)
    for engine in wanted:
        if engine not in engines:
            _report.console.print(f"{engine.NAME} isn't installed: its rows are left out")
    report |= {"machine": machine, "results": results}
    _report.write_json(options.out / "engines.json", report, targets)


if __name__ == "__main__":
    main()
