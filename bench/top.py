"""What a look at a server costs: 64 consumers of one table with `crossdock top` beside them, and without it.

  ./dev bench top [--quick] [--consumers N] [--seconds S] [--rounds N] [--out FOLDER]

Each round runs the consumers twice, with and without a look at its usual interval, and each begins every other round.
Three looks are compared: the live view on a terminal, the page with one that reads its events, and lines for programs.
Compared are the batches a second of all consumers, and the processor time that a batch takes at both its ends: how
much of the processors the view itself has is said beside them. What is measured begins when the view shows the server:
a program's start is the same beside anything. Writes build/bench/top.json.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pty
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench import _report
from bench._children import ROOT, build_folder, program, serving
from bench._report import Target, median
from bench._turns import Cost, children_ns, in_turns, other_work
from bench.consumers import BATCHES, rate, read


def process_ns(pid: int) -> int:
    """Processor time of a process that runs, by the clock that Linux has for it."""
    return time.clock_gettime_ns((~pid << 3) | 2)


def drain(descriptor: int) -> None:
    with contextlib.suppress(OSError):  # EIO: the other end of the terminal is closed
        while os.read(descriptor, 1 << 16):
            pass


def read_until(descriptor: int, end: bytes) -> bytes:
    """What was written up to `end`, and perhaps more."""
    written = b""
    while end not in written:
        more = os.read(descriptor, 1 << 16)
        if not more:
            raise RuntimeError(f"the view ended after {written[-500:]!r}")
        written += more
    return written


@contextlib.contextmanager
def looking(uri: str, how: str) -> Iterator[int]:
    """Runs `crossdock top` beside what is measured, and reads what it writes. Its process."""
    arguments = {"terminal": [], "page": ["--web", "0"], "lines": ["--json"]}[how]
    master, slave = pty.openpty() if how == "terminal" else os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-m", "crossdock", "top", uri, *arguments],
        cwd=ROOT,
        stdin=slave if how == "terminal" else subprocess.DEVNULL,
        stdout=slave,
        stderr=slave if how == "terminal" else None,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"},
    )
    os.close(slave)
    events: Any = None
    try:
        shown = {"terminal": b"in all", "page": b"\n", "lines": b"\n"}[how]
        first = read_until(master, shown)
        reader = threading.Thread(target=drain, args=(master,))
        if how == "page":
            events = urllib.request.urlopen(first.decode().strip() + "events", timeout=60)
            reader = threading.Thread(target=lambda: list(events))
        reader.start()
        yield child.pid
    finally:
        child.terminate()
        child.wait()
        reader.join()
        if events is not None:
            events.close()
        os.close(master)


class Run:
    """One way to run the consumers; what each run measured."""

    def __init__(self, server: tuple[str, int], how: str | None, given: argparse.Namespace, batches: int) -> None:
        self._uri, self._server = server
        self._how = how
        self._read: Callable[[], list[dict[str, Any]]] = lambda: read(
            self._uri, given.consumers, given.seconds, batches
        )
        self._seconds = given.seconds
        self.speeds: list[float] = []
        self.own: list[float] = []

    def __call__(self) -> Cost:
        with looking(self._uri, self._how) if self._how else contextlib.nullcontext() as pid:
            server, children = process_ns(self._server), children_ns()
            own = process_ns(pid) if pid else 0.0
            results = self._read()
            ends = process_ns(self._server) - server + children_ns() - children
            if pid:
                self.own.append((process_ns(pid) - own) / (self._seconds * 1e9))
        count = sum(result["batches"] for result in results)
        speed = sum(rate(result) for result in results)
        self.speeds.append(speed)
        return Cost(wall=1e9 / speed, cpu=ends / count)


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench top", description=__doc__.split("\n\n")[0])
    parser.add_argument("--consumers", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="the folder for the results; build/bench if it isn't given")
    parser.add_argument("--quick", action="store_true", help="4 consumers of a shorter table, one round")
    given = parser.parse_args()
    batches = BATCHES * given.seconds // 5
    if given.quick:
        given.consumers, given.seconds, given.rounds, batches = 4, 1, 1, 20_000
    info = _report.machine()
    _report.print_machine(info)
    rows = []
    with (
        other_work() as others,
        serving(program("handoff_server", source="arena", batches=batches, wait="block")) as (server, child),
    ):
        read(server["uri"], given.consumers, 1, batches)  # The table's pages, and the processes' files, are there then.
        for how in ("terminal", "page", "lines"):
            ends = (server["uri"], child.pid)
            looked, alone = Run(ends, how, given, batches), Run(ends, None, given, batches)
            with_it, without = in_turns(given.rounds, looked, alone)
            pairs = list(zip(with_it, without, strict=True))
            rows.append(
                {
                    "how": how,
                    "speed": median(looked.speeds),
                    "alone": median(alone.speeds),
                    "slower": median(a.wall / b.wall for a, b in pairs) - 1,
                    "more_processor_time": median((a.cpu or 0) / (b.cpu or 1) for a, b in pairs) - 1,
                    "own_processors": median(looked.own),
                }
            )
    _report.print_table(
        f"{given.consumers} consumers, with a look at its usual interval and without",
        ["look", "batches/s with it", "without", "slower by", "processor time a batch", "the view's own"],
        [
            [
                row["how"],
                f"{row['speed']:,.0f}",
                f"{row['alone']:,.0f}",
                f"{row['slower']:.2%}",
                f"{row['more_processor_time']:+.2%}",
                f"{row['own_processors']:.2%} of one",
            ]
            for row in rows
        ],
    )
    _report.console.print(f"others kept {others.processors:.2f} processors busy")
    targets = [Target(f"{row['how']}: slower by", row["slower"] * 100, 1, True, "%") for row in rows] + [
        Target(f"{row['how']}: more processor time a batch", row["more_processor_time"] * 100, 1, True, "%")
        for row in rows
    ]
    _report.print_targets(targets)
    result = {"machine": info, "consumers": given.consumers, "rounds": given.rounds, "rows": rows}
    _report.write_json((given.out or build_folder()) / "top.json", result, targets)


if __name__ == "__main__":
    main()
