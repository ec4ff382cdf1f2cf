"""One published table and many consumers at once: how fast they are together, and whether each gets its share.

  ./dev bench consumers [--quick] [--consumers N] [--seconds S] [--out FOLDER]

Each consumer is a process that reads a stream of 64 KiB batches in wait mode `block`, as does the server; first one
alone, then all at the same time, for the same time. Their rates are added up over the time in which all of them run.
Writes build/bench/consumers.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from pathlib import Path
from typing import Any

from bench import _report
from bench._children import ROOT, build_folder, program, serving
from bench._report import Target

# The table's length. One consumer alone may come to its end before the time is over: that measures it as well.
BATCHES = 1_500_000


def read(uri: str, consumers: int, seconds: int, batches: int) -> list[dict[str, Any]]:
    """What each of `consumers` processes measured, all running at once."""
    command = program("handoff_client", uri=uri, wait="block", warm_up=128, batches=batches - 128, seconds=seconds)
    children = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        for _ in range(consumers)
    ]
    results = []
    try:
        for child in children:
            out, _ = child.communicate(timeout=seconds * 4 + 60)
            if child.returncode != 0:
                raise RuntimeError(f"a consumer ended with status {child.returncode}")
            results.append(json.loads(out))
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
                child.communicate()
    return results


def rate(result: dict[str, Any]) -> float:
    """Batches a second."""
    return 1e9 / result["per_batch"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench consumers", description=__doc__.split("\n\n")[0])
    parser.add_argument("--consumers", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="the folder for the results; build/bench if it isn't given")
    parser.add_argument("--quick", action="store_true", help="4 consumers of a shorter table")
    given = parser.parse_args()
    batches = BATCHES
    if given.quick:
        given.consumers, given.seconds, batches = 4, 1, 20_000
    info = _report.machine()
    _report.print_machine(info)
    with serving(program("handoff_server", source="arena", batches=batches, wait="block")) as (server, _):
        (alone,) = read(server["uri"], 1, given.seconds, batches)
        together = read(server["uri"], given.consumers, given.seconds, batches)
    rates = sorted(rate(result) for result in together)
    mean = statistics.fmean(rates)
    _report.console.print(
        f"batches a second: one consumer alone {rate(alone):,.0f}; {given.consumers} together {sum(rates):,.0f}, "
        f"the slowest {rates[0]:,.0f}, the mean {mean:,.0f}, the fastest {rates[-1]:,.0f}"
    )
    targets = [
        Target(f"{given.consumers} consumers together, against one alone", sum(rates) / rate(alone), 0.6, False, "x"),
        Target("the slowest of them, against the mean", rates[0] / mean, 0.5, False, "x"),
    ]
    _report.print_targets(targets)
    result = {
        "machine": info,
        "consumers": given.consumers,
        "seconds": given.seconds,
        "alone": rate(alone),
        "rates": rates,
    }
    _report.write_json((given.out or build_folder()) / "consumers.json", result, targets)


if __name__ == "__main__":
    main()
