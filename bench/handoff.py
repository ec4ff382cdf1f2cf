"""What it costs to hand a batch of 8 float64 columns from one process to another: ours beside what users would pick
instead. Every way runs in two processes of its own, in turns with the others, round after round. The cost of a batch is
that in a typical stretch of a stream: the median, over stretches of up to 256 batches in a row, of time / batches; then
the median over the rounds. So neither bursts nor moments in which the machine did something else count.

  ./dev bench handoff [--quick] [--rounds N] [--sizes BYTES...] [--out FOLDER]

Writes build/bench/handoff.json and build/bench/handoff.png.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import _report
from bench._children import build_folder, measure, program, role, serving
from bench._report import Target, duration, median, size
from rich.progress import Progress

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SIZES = [64 * KIB, MIB, 64 * MIB, GIB]
ZERO_COPY_BATCHES = 100_000


@dataclass(frozen=True)
class Way:
    """A row of the table: who hands over, how it waits, and what is read of each batch."""

    name: str
    wake: str  # how both ends wait: "spin", "block", "auto", or "-" where the way knows only its own
    read: str  # "first": one byte of every buffer; "columns": by batch[i]; "sum": everything; "all": a copy reads it


@dataclass(frozen=True)
class Plan:
    """How much is run."""

    rounds: int
    zero_copy_batches: int
    seconds: float  # of one measurement of one peer
    python_batches: int
    sum_seconds: int

    @staticmethod
    def full(rounds: int) -> Plan:
        return Plan(rounds, ZERO_COPY_BATCHES, 2.0, 100_000, 2)

    @staticmethod
    def quick() -> Plan:
        return Plan(1, 2000, 0.1, 500, 1)


def sets_of(batch_bytes: int) -> int:
    """Distinct sets of addresses that ours goes round."""
    return 64 if batch_bytes < GIB else 4


def peer_sets_of(batch_bytes: int) -> int:
    """Those of the peers, in ordinary memory: fewer where copies need room, which can only help them."""
    return max(1, min(64, 256 * MIB // batch_bytes))


QUANTILES = ("p50", "p90", "p99")
MEASURES = (*QUANTILES, "stretch", "per_batch")


class Results:
    """All measurements, by size and way."""

    def __init__(self) -> None:
        self.runs: dict[tuple[int, Way], list[dict[str, Any]]] = {}

    def add(self, batch_bytes: int, way: Way, run: dict[str, Any]) -> None:
        self.runs.setdefault((batch_bytes, way), []).append(run)

    def of(self, batch_bytes: int, name: str, wake: str, read: str, field: str = "p50") -> float:
        """The median over the rounds; NaN where it wasn't run."""
        runs = self.runs.get((batch_bytes, Way(name, wake, read)))
        if not runs:
            return float("nan")
        return median(run["per_batch"] if field == "per_batch" else run["period"][field] for run in runs)

    def ways(self) -> list[Way]:
        return list(dict.fromkeys(way for _, way in self.runs))

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "way": way.name, "wake": way.wake, "read": way.read, "batch_bytes": batch_bytes, "rounds": len(runs),
                "batches": sum(run["period"]["n"] for run in runs),
                "address_sets": runs[0].get("address_sets"),
                **{f: self.of(batch_bytes, way.name, way.wake, way.read, f) for f in MEASURES},
            }
            for (batch_bytes, way), runs in self.runs.items()
        ]  # fmt: skip


# ---- the ways -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def our_server(batch_bytes: int, wait: str, batches: int) -> Iterator[str]:
    """The table in an arena, long enough for the longest consumer."""
    command = program(
        "handoff_server", source="arena", batch_bytes=batch_bytes, sets=sets_of(batch_bytes), batches=batches, wait=wait
    )
    with serving(command) as (said, _):
        yield said["uri"]


def run_ours(uri: str, batch_bytes: int, wait: str, read: str, plan: Plan) -> dict[str, Any]:
    return measure(
        program(
            "handoff_client", uri=uri, wait=wait, read=read, warm_up=2 * sets_of(batch_bytes),
            batches=plan.zero_copy_batches, seconds=3600 if read == "first" else plan.sum_seconds,
        )
    )  # fmt: skip


def run_ours_from_python(uri: str, batch_bytes: int, wait: str, read: str, plan: Plan) -> dict[str, Any]:
    return measure(
        role(
            "_roles", "consume", "crossdock", address=uri, wait=wait, read=read, sets=sets_of(batch_bytes),
            warm_up=2 * sets_of(batch_bytes), batches=plan.python_batches,
            seconds=plan.sum_seconds if read == "sum" else 3600,
        )
    )  # fmt: skip


def run_pyarrow_here(batch_bytes: int, read: str, plan: Plan) -> dict[str, Any]:
    return measure(
        role(
            "_roles", "consume", "here", batch_bytes=batch_bytes, read=read, sets=peer_sets_of(batch_bytes),
            warm_up=64, batches=plan.python_batches, seconds=plan.seconds,
        )
    )  # fmt: skip


def run_memcpy(batch_bytes: int, plan: Plan) -> dict[str, Any]:
    sets = min(peer_sets_of(batch_bytes), 8 * 64 * MIB // batch_bytes) or 1
    run = measure(
        program(
            "handoff_memcpy", batch_bytes=batch_bytes, sets=sets, batches=100_000, seconds=max(1, round(plan.seconds))
        )
    )
    return {**run, "per_batch": run["period"]["mean"]}


PEERS = {
    "pyarrow Flight, Unix socket": "flight-unix",
    "pyarrow Flight, TCP loopback": "flight-tcp",
    "pyarrow IPC stream, Unix socket": "ipc-socket",
    "pyarrow IPC file in shared memory, mapped": "ipc-file",
}


@contextlib.contextmanager
def peer_server(way: str, batch_bytes: int, plan: Plan) -> Iterator[Callable[[str], dict[str, Any]]]:
    """A peer's producer, and what runs a consumer for it."""
    # Files in shared memory are what that way is about; sockets may lie anywhere.
    with tempfile.TemporaryDirectory(
        prefix="crossdock-bench-", dir="/dev/shm" if way == "ipc-file" else None
    ) as folder:
        batches = 200_000 if batch_bytes < MIB else 20_000
        command = role(
            "_roles", "serve", way, folder=folder, batch_bytes=batch_bytes, sets=peer_sets_of(batch_bytes),
            batches=batches,
        )  # fmt: skip
        with serving(command) as (said, _):

            def consumer(read: str) -> dict[str, Any]:
                return measure(
                    role(
                        "_roles", "consume", way, address=said["address"], folder=folder, read=read,
                        sets=peer_sets_of(batch_bytes), warm_up=2 if batch_bytes > MIB else 64, batches=batches,
                        seconds=plan.seconds,
                    )
                )  # fmt: skip

            yield consumer


def run_size(batch_bytes: int, plan: Plan, results: Results, step: Callable[[str], None]) -> None:
    """Everything at one size. In each round every way has its turn; what is compared runs side by side in time."""
    longest = max(plan.zero_copy_batches, plan.python_batches) + 2 * sets_of(batch_bytes)
    reads = ("first", "sum")
    with our_server(batch_bytes, "spin", longest) as uri:
        for _ in range(plan.rounds):
            for read in reads:
                step("Crossdock, spinning")
                results.add(
                    batch_bytes, Way("Crossdock, C++", "spin", read), run_ours(uri, batch_bytes, "spin", read, plan)
                )
                step("Crossdock from Python, spinning")
                run = run_ours_from_python(uri, batch_bytes, "spin", read, plan)
                results.add(batch_bytes, Way("Crossdock, Python", "spin", read), run)
                if read == "first":
                    step("Crossdock from Python, by batch[i]")
                    run = run_ours_from_python(uri, batch_bytes, "spin", "columns", plan)
                    results.add(batch_bytes, Way("Crossdock, Python", "spin", "columns"), run)
                step("pyarrow alone")
                run = run_pyarrow_here(batch_bytes, read, plan)
                results.add(batch_bytes, Way("pyarrow alone: its C stream in one process", "-", read), run)
            for name, way in PEERS.items():
                with peer_server(way, batch_bytes, plan) as consumer:
                    for read in reads:
                        step(name)
                        results.add(batch_bytes, Way(name, "-", read), consumer(read))
            step("memcpy")
            results.add(batch_bytes, Way("memcpy, one thread", "-", "all"), run_memcpy(batch_bytes, plan))
    with our_server(batch_bytes, "block", longest) as uri:
        for _ in range(plan.rounds):
            for read in reads:
                step("Crossdock, blocking")
                run = run_ours(uri, batch_bytes, "block", read, plan)
                results.add(batch_bytes, Way("Crossdock, C++", "block", read), run)
                step("Crossdock from Python, blocking")
                run = run_ours_from_python(uri, batch_bytes, "block", read, plan)
                results.add(batch_bytes, Way("Crossdock, Python", "block", read), run)


def run_latency(wait: str, plan: Plan) -> dict[str, Any]:
    """One batch of 64 KiB at a time, in turns with the least that it takes to tell another process anything. The state
    of the machine differs from one pair of processes to the next: the median of several."""
    batches = {"spin": plan.zero_copy_batches, "block": plan.zero_copy_batches // 5}[wait]
    runs, limits = [], []
    for _ in range(5 if plan.rounds > 1 else 1):
        limits.append(measure(program("latency_limit", wait=wait, batches=batches))["one_way"])
        with serving(program("latency_server", wait=wait, batches=batches + 200)) as (said, _):
            server = said["uri"]
            runs.append(
                measure(program("handoff_client", uri=server, wait=wait, warm_up=128, batches=batches, latency=1))
            )
    return {
        "wake": wait, "batches": runs[0]["batches"],
        "one_way": {f: median(run["one_way"][f] for run in runs) for f in QUANTILES},
        "runs": [run["one_way"]["p50"] for run in runs],
        "half_round_trip": median(run["period"]["p50"] for run in runs) / 2,
        "limit": median(limit["p50"] for limit in limits), "limits": [limit["p50"] for limit in limits],
    }  # fmt: skip


def run_heap(batch_bytes: int, plan: Plan) -> dict[str, Any]:
    """A live stream of heap batches, each copied once, in turns with memcpy of the same; and a cold publish."""
    sets = min(64, 256 * MIB // batch_bytes)
    # Enough that regions are made, touched and gone round before the measurement.
    warm_up = max(64, 2 * GIB // batch_bytes if plan.rounds > 1 else 0)
    batches = max(100, min(100_000, round(plan.seconds * 10 * GIB / batch_bytes)))
    live, copy, cold = [], [], []
    for _ in range(plan.rounds):
        server = program("handoff_server", source="live", batch_bytes=batch_bytes, sets=sets, batches=batches + warm_up)
        with serving(server) as (said, _):
            run = measure(program("handoff_client", uri=said["uri"], wait="auto", warm_up=warm_up, batches=batches))
            live.append(run["period"]["stretch"])
        copy.append(
            measure(
                program(
                    "handoff_memcpy", batch_bytes=batch_bytes, sets=sets, batches=batches,
                    seconds=max(1, round(plan.seconds)),
                )
            )["period"]["stretch"]
        )  # fmt: skip
        with serving(program("handoff_server", source="table", batch_bytes=batch_bytes, sets=sets, batches=sets)) as (
            said,
            _,
        ):
            cold.append(said["publish_ns"] / sets)
    return {
        "batch_bytes": batch_bytes, "wake": "auto", "read": "first", "batches": batches, "live": median(live),
        "memcpy": median(copy), "cold_publish": median(cold),
        "live_share": median([m / p for m, p in zip(copy, live, strict=True)]),
        "cold_factor": median([p / m for m, p in zip(copy, cold, strict=True)]),
    }  # fmt: skip


# ---- the report -----------------------------------------------------------------------------------------------------


def make_targets(results: Results, latency: list[dict[str, Any]], heap: list[dict[str, Any]]) -> list[Target]:
    """Those that this run has numbers for."""
    flight = "pyarrow Flight, Unix socket"
    targets = []

    def add(name: str, measured: float, bound: float, unit: str, *, at_most: bool) -> None:
        if measured == measured:  # not NaN: it was run
            targets.append(Target(name, measured, bound, at_most, unit))

    def ours(batch_bytes: int) -> float:
        return results.of(batch_bytes, "Crossdock, C++", "spin", "first")

    for batch_bytes in SIZES:
        name = f"hand-over in a stream, C++, spin, {size(batch_bytes)}: p50"
        add(name, ours(batch_bytes) / 1000, 2, "µs", at_most=True)
    add("the same, 1 GiB against 64 KiB", ours(GIB) / ours(64 * KIB), 1.2, "x", at_most=True)
    # Against others, costs: what comes in bursts has a p50 that says little.
    for name, way, bounds in (
        ("C++, spin", "Crossdock, C++", (25, 180, 30_000)),
        ("Python, spin", "Crossdock, Python", (10, 75, 12_000)),
    ):
        for batch_bytes, bound in zip(SIZES[:3], bounds, strict=True):
            theirs = results.of(batch_bytes, flight, "-", "first", "stretch")
            ratio = theirs / results.of(batch_bytes, way, "spin", "first", "stretch")
            add(f"{name}, against Flight over a Unix socket, {size(batch_bytes)}", ratio, bound, "x", at_most=False)
    by_column = [results.of(n, "Crossdock, Python", "spin", "columns", "stretch") for n in SIZES]
    for batch_bytes, cost in zip(SIZES, by_column, strict=True):
        name = f"Python, spin, a value of each of 8 columns by index, {size(batch_bytes)}"
        add(name, cost / 1000, 4, "µs", at_most=True)
    for row in latency:
        bound = 1.5 if row["wake"] == "spin" else 35
        add(f"one-way latency of a batch, {row['wake']}: p50", row["one_way"]["p50"] / 1000, bound, "µs", at_most=True)
    for row in heap:
        if row["batch_bytes"] == 64 * MIB:
            add("heap source, live, 64 MiB, of memcpy's speed", 100 * row["live_share"], 85, "%", at_most=False)
            add("heap source, cold publish, against memcpy", row["cold_factor"], 8, "x", at_most=True)
    return targets


def print_results(
    results: Results, sizes: list[int], latency: list[dict[str, Any]], heap: list[dict[str, Any]]
) -> None:
    reads = {"first": "1 byte a buffer", "columns": "by column index", "sum": "all, summed", "all": "all, copied"}
    rows = []
    for way in sorted(results.ways(), key=lambda way: way.read == "sum"):
        costs = [duration(results.of(n, way.name, way.wake, way.read, "stretch")) for n in sizes]
        p50s = [duration(results.of(n, way.name, way.wake, way.read)) for n in sizes]
        rows.append(
            [way.name, way.wake, reads[way.read], *(f"{cost} ({p50})" for cost, p50 in zip(costs, p50s, strict=True))]
        )
    _report.print_table(
        "Cost of a batch in a stream (and p50 of the time from one to the next)",
        ["way", "wake mode", "payload read", *map(size, sizes)],
        rows,
    )
    _report.print_table(
        "Zero-copy stream, C++: distribution, and the cost of a region that isn't mapped yet",
        ["size", "wake mode", "p50", "p90", "p99", "address sets", "batches", "first batch of a region", "first touch"],
        [
            [
                size(n), wake, *(duration(results.of(n, "Crossdock, C++", wake, "first", f)) for f in QUANTILES),
                str(runs[0]["address_sets"]), f"{sum(run['batches'] for run in runs):,}",
                duration(median(run["first_batch"] for run in runs)),
                duration(median(run["first_touch"]["p50"] for run in runs)),
            ]
            for n in sizes for wake in ("spin", "block")
            if (runs := results.runs.get((n, Way("Crossdock, C++", wake, "first"))))
        ],
    )  # fmt: skip
    _report.print_table(
        "One batch of 64 KiB at a time, the next after all leases of the one before were freed",
        ["wake mode", "one way p50", "p90", "p99", "p50 of each run", "half a round trip", "machine alone", "batches"],
        [
            [
                row["wake"], *(duration(row["one_way"][f]) for f in QUANTILES),
                ", ".join(map(duration, row["runs"])), duration(row["half_round_trip"]),
                f"{duration(row['limit'])} ({', '.join(map(duration, row['limits']))})", f"{row['batches']:,}",
            ]
            for row in latency
        ],
    )  # fmt: skip
    _report.print_table(
        "Heap source, one copy: live stream in steady state, and publishing cold (both wake mode auto)",
        ["size", "live", "memcpy", "of memcpy's speed", "cold publish", "times memcpy"],
        [
            [
                size(row["batch_bytes"]), duration(row["live"]), duration(row["memcpy"]),
                f"{100 * row['live_share']:.0f} %", duration(row["cold_publish"]), f"{row['cold_factor']:.1f}",
            ]
            for row in heap
        ],
    )  # fmt: skip


def plot(results: Results, sizes: list[int], path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 6), layout="constrained")
    for way in results.ways():
        if way.read == "sum":
            continue
        ours = way.name.startswith("Crossdock")
        label = way.name if way.wake == "-" else f"{way.name}, {way.wake}"
        costs = [results.of(n, way.name, way.wake, way.read, "stretch") / 1000 for n in sizes]
        axes.plot(sizes, costs, marker="o" if ours else "s", linestyle="-" if ours else "--", label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [size(n) for n in sizes])
    axes.set_xlabel("batch of 8 float64 columns")
    axes.set_ylabel("µs a batch")
    axes.set_title("Handing a batch to another process; one byte of every buffer is read there")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench handoff", description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a look at everything; the numbers mean little")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", help="bytes of a batch")
    parser.add_argument("--out", type=Path, help="the folder for the results; build/bench if it isn't given")
    given = parser.parse_args()
    plan = Plan.quick() if given.quick else Plan.full(given.rounds)
    sizes = given.sizes or (SIZES[:2] if given.quick else SIZES)

    out = given.out or build_folder()
    info = _report.machine()
    _report.print_machine(info)
    results = Results()
    latency: list[dict[str, Any]] = []
    heap: list[dict[str, Any]] = []
    with Progress(console=_report.console, transient=True) as progress:
        steps = len(sizes) * plan.rounds * (11 + 2 * len(PEERS)) + 2 + len(sizes)
        task = progress.add_task("", total=steps)

        def step(what: str) -> None:
            progress.update(task, advance=1, description=what)

        for wait in ("spin", "block"):
            step(f"latency, {wait}")
            latency.append(run_latency(wait, plan))
        for batch_bytes in sizes:
            run_size(batch_bytes, plan, results, lambda what, n=batch_bytes: step(f"{size(n)}: {what}"))
        for batch_bytes in sizes:
            step(f"heap, {size(batch_bytes)}")
            if batch_bytes < GIB:
                heap.append(run_heap(batch_bytes, plan))

    targets = make_targets(results, latency, heap)
    print_results(results, sizes, latency, heap)
    _report.print_targets(targets)
    result = {"machine": info, "quick": given.quick, "rows": results.rows(), "latency": latency, "heap": heap}
    result["mapping"] = [
        {
            "batch_bytes": n, "wake": way.wake, "first_batch": median(run["first_batch"] for run in runs),
            "first_touch": median(run["first_touch"]["p50"] for run in runs),
        }
        for (n, way), runs in results.runs.items() if way.name == "Crossdock, C++" and way.read == "first"
    ]  # fmt: skip
    _report.write_json(out / "handoff.json", result, targets)
    picture = out / "handoff.png"
    plot(results, sizes, picture)
    _report.console.print(f"written: {picture}")


if __name__ == "__main__":
    main()
