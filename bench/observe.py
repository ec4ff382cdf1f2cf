"""What it costs to look at a server: its metrics scraped, and its statistics asked for, beside many consumers.

  ./dev bench observe [--quick] [--readers N] [--rounds N] [--seconds S] [--out FOLDER]

The consumers are threads of two processes, which read streams of 64 KiB batches without a pause. Of the server, batches
a second and processor time for each batch are measured, in turns: while nobody looks, while its metrics are scraped
each second, and while a client asks for its statistics ten times a second. Then how long one scrape and one request
take beside them, and 100 scrapes at once. Writes build/bench/observe.json.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench import _report
from bench._children import build_folder, role, serving
from bench._report import Target, duration, median

import crossdock as xd

LOOKS = ("nobody", "scraped each second", "asked 10 times a second")
MOST_SCRAPES = 100  # at once


def processor_ns(pid: int) -> float:
    """The processor time of another process."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK") * 1e9


def scrape(uri: str) -> int:
    with urllib.request.urlopen(uri, timeout=60) as answer:
        return len(answer.read())


@contextlib.contextmanager
def repeated(call: Callable[[], object], seconds: float) -> Iterator[None]:
    """Calls it again and again on a thread."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(seconds):
            call()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def measure(client: xd.Client, seconds: float) -> dict[str, float]:
    """Batches a second, and the server's processor time for each, in ns."""
    before = client.server_stats()
    cpu, start = processor_ns(before["pid"]), time.perf_counter()
    time.sleep(seconds)
    cpu, took = processor_ns(before["pid"]) - cpu, time.perf_counter() - start
    batches = client.server_stats()["batches"] - before["batches"]
    return {"rate": batches / took, "cpu": cpu / batches}


def quantiles(call: Callable[[], object], times: int) -> dict[str, float]:
    took = []
    for _ in range(times):
        start = time.perf_counter_ns()
        call()
        took.append(time.perf_counter_ns() - start)
    took.sort()
    return {"p50": took[times // 2], "p99": took[min(times * 99 // 100, times - 1)]}


def at_once(uri: str) -> float:
    """How long so many scrapes take that begin together, in ns."""
    with ThreadPoolExecutor(MOST_SCRAPES) as pool:
        start = time.perf_counter_ns()
        list(pool.map(scrape, [uri] * MOST_SCRAPES))
        return time.perf_counter_ns() - start


def run(readers: int, rounds: int, seconds: float, times: int) -> dict[str, Any]:
    with contextlib.ExitStack() as stack:
        said, _ = stack.enter_context(serving(role("_crowd", "serve", metrics="127.0.0.1:0")))
        for n in (readers // 2, readers - readers // 2):
            stack.enter_context(serving(role("_crowd", "read", uri=said["uri"], readers=n)))
        client = stack.enter_context(xd.connect(said["uri"], timeout=60))
        looking = {
            LOOKS[0]: contextlib.nullcontext,
            LOOKS[1]: lambda: repeated(lambda: scrape(said["metrics"]), 1),
            LOOKS[2]: lambda: repeated(client.server_stats, 0.1),
        }
        measure(client, 0.5)  # until each has its stream
        turns: dict[str, list[dict[str, float]]] = {name: [] for name in LOOKS}
        for i in range(rounds):
            for name in LOOKS if i % 2 else reversed(LOOKS):
                with looking[name]():
                    turns[name].append(measure(client, seconds))
        return {
            "turns": turns,
            "connections": client.server_stats()["connections"],
            "bytes": scrape(said["metrics"]),
            "scrape": quantiles(lambda: scrape(said["metrics"]), times),
            "request": quantiles(client.server_stats, times),
            "at_once": at_once(said["metrics"]),
        }


def relative(turns: dict[str, list[dict[str, float]]], name: str, what: str) -> float:
    """The median of the rounds' ratios to the turn in which nobody looks."""
    return median(turn[what] / plain[what] for turn, plain in zip(turns[name], turns[LOOKS[0]], strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench observe", description=__doc__.split("\n\n")[0])
    parser.add_argument("--readers", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each turn")
    parser.add_argument("--out", type=Path, help="the folder for the results; build/bench if it isn't given")
    parser.add_argument("--quick", action="store_true", help="8 readers, 2 short rounds")
    given = parser.parse_args()
    times = 200
    if given.quick:
        given.readers, given.rounds, given.seconds, times = 8, 2, 0.5, 5
    info = _report.machine()
    _report.print_machine(info)
    found = run(given.readers, given.rounds, given.seconds, times)
    turns = found["turns"]
    _report.print_table(
        f"a server with {given.readers} busy readers, beside who looks at it",
        ["who looks", "batches a second", "of nobody's", "processor time a batch", "of nobody's"],
        (
            [
                name,
                f"{median(turn['rate'] for turn in turns[name]):,.0f}",
                f"{relative(turns, name, 'rate'):.3f}",
                duration(median(turn["cpu"] for turn in turns[name])),
                f"{relative(turns, name, 'cpu'):.3f}",
            ]
            for name in LOOKS
        ),
    )
    _report.print_table(
        "how long it takes beside them",
        ["", "p50", "p99"],
        ([name, duration(found[name]["p50"]), duration(found[name]["p99"])] for name in ("scrape", "request")),
    )
    _report.console.print(
        f"{MOST_SCRAPES} scrapes at once: {duration(found['at_once'])}; one has {found['bytes']} bytes"
    )
    targets = [
        Target(f"the server's processor time a batch, {name}", relative(turns, name, "cpu"), 1.01, True, "x")
        for name in LOOKS[1:]
    ]
    _report.print_targets(targets)
    result = {"machine": info, "readers": given.readers, **found}
    _report.write_json((given.out or build_folder()) / "observe.json", result, targets)


if __name__ == "__main__":
    main()
