"""The instructions that it costs each end to hand over a batch of 8 columns over shm, counted by valgrind's callgrind.
The count depends on the compiler and little on the machine's load, so that two versions can be compared on a busy one.

  ./dev bench instructions [--quick] [--out FOLDER]

Each end is counted alone, in streams of two lengths: the difference of the counts, divided by the difference of the
lengths. Each count is the least of several runs, because an end that waits for the other one counts its looking for it.
"whole" is the consumer from asking for a batch until it is released: next(), the export to an ArrowDeviceArray, one
byte of each column, and the release. "alone" is next() and the release of the RecordBatch, without the export. "server"
is what the turns of its connection cost, which send batches and take leases back, and not the search for work in
between. Batches "alike" have the same metadata, as equally long batches without nulls have; of those "no two alike",
each has other metadata than the one before. Writes build/bench/instructions.json.
"""

from __future__ import annotations

import argparse
import collections
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import _report
from bench._children import build_folder, measure, program, serving
from bench._report import Target

CONSUMER, SERVER = 4000, 2000
TAKE, NEXT = "bench::(anonymous namespace)::Consumer::take()", "session::Reader::next()"
EXPORT, RELEASE = "array::export_batch(", "array::(anonymous namespace)::release_array("
TURN = "session::ServerConnection::turn("


@dataclass(frozen=True)
class Plan:
    """Batches of the two streams, and how often each runs."""

    short: int
    long: int
    rounds: int


class Profile:
    """What callgrind counted: the cost of the calls of each function, with all that they called, and their number."""

    def __init__(self, path: Path) -> None:
        self.cost: collections.Counter[str] = collections.Counter()
        self.calls: collections.Counter[str] = collections.Counter()
        names: dict[str, str] = {}
        called = ""
        cost_follows = False
        for line in path.read_text().splitlines():
            if found := re.match(r"(c?)fn=(\(\d+\))(?: (.*))?", line):
                number, name = found[2], found[3]
                names.setdefault(number, name)
                if found[1]:
                    called = names[number]
            elif line.startswith("calls="):
                self.calls[called] += int(line[6:].split()[0])
                cost_follows = True
            elif cost_follows:
                self.cost[called] += int(line.split()[-1])
                cost_follows = False

    def of(self, function: str) -> int:
        return sum(cost for name, cost in self.cost.items() if function in name)

    def calls_of(self, function: str) -> int:
        return sum(calls for name, calls in self.calls.items() if name == function)


def callgrind(path: Path) -> list[str]:
    log = path.with_suffix(".log")  # of system calls that this valgrind doesn't know
    return ["valgrind", "--tool=callgrind", f"--callgrind-out-file={path}", f"--log-file={log}"]


def profile(end: str, batches: int, folder: Path, how: dict[str, object]) -> Profile:
    """Runs a stream whose server or consumer is counted."""
    path = folder / f"{end}-{batches}"
    server = program("handoff_server", batch_bytes=64 << 10, batches=batches, wait="spin", **how)
    wait = "spin" if end == "server" else "block"  # a consumer that waits sleeps, so that little of it is counted
    client = {"batches": batches, "warm_up": 0, "wait": wait, "export": int(end != "alone")}
    with serving([*callgrind(path), *server] if end == "server" else server) as (said, _):
        consumer = program("handoff_client", uri=said["uri"], **client)
        measure(consumer if end == "server" else [*callgrind(path), *consumer])
    return Profile(path)


def per_batch(
    end: str, functions: dict[str, str], plan: Plan, folder: Path, how: dict[str, object]
) -> dict[str, float]:
    def counts(batches: int) -> dict[str, int]:
        profiles = [profile(end, batches, folder, how) for _ in range(plan.rounds)]
        found = {name: min(each.of(function) for each in profiles) for name, function in functions.items()}
        return {**found, "allocations": min(each.calls_of("malloc") for each in profiles)}

    short, long = counts(plan.short), counts(plan.long)
    return {name: (long[name] - short[name]) / (plan.long - plan.short) for name in short}


def run(plan: Plan, folder: Path, ragged: bool) -> dict[str, Any]:
    how: dict[str, object] = {"ragged": int(ragged)}
    parts = {"whole": TAKE, "next": NEXT, "export": EXPORT, "release": RELEASE}
    whole = per_batch("whole", parts, plan, folder, how)
    alone = per_batch("alone", {"alone": TAKE}, plan, folder, how)
    server = per_batch("server", {"server": TURN}, plan, folder, how)
    return {"ragged": ragged, **whole, "alone": alone["alone"], "server": server["server"]}


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench instructions", description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a look at everything; the numbers mean little")
    parser.add_argument("--out", type=Path, help="the folder for the results; build/bench if it isn't given")
    given = parser.parse_args()
    if shutil.which("valgrind") is None:
        raise SystemExit("instructions are counted by valgrind, which isn't installed (Debian: valgrind)")
    out = given.out or build_folder()
    info = _report.machine()
    _report.print_machine(info)
    plan = Plan(200, 400, 1) if given.quick else Plan(2_000, 6_000, 3)
    with tempfile.TemporaryDirectory(prefix="crossdock-bench-") as folder:
        rows = [run(plan, Path(folder), ragged) for ragged in (False, True)]
    names = ["whole", "next", "export", "release", "alone", "allocations", "server"]
    _report.print_table(
        "Instructions for a batch of 8 columns",
        ["batches", *names],
        [["no two alike" if row["ragged"] else "alike", *(f"{row[name]:,.0f}" for name in names)] for row in rows],
    )
    targets = [
        Target("Instructions of the consumer, whole", rows[0]["whole"], CONSUMER, True, ""),
        Target("Instructions of the server", rows[0]["server"], SERVER, True, ""),
    ]
    _report.print_targets(targets)
    _report.write_json(out / "instructions.json", {"machine": info, "quick": given.quick, "rows": rows}, targets)


if __name__ == "__main__":
    main()
