"""A table through a relay, beside the same table from its server over tcp; and how long trees of relays take.

  ./dev bench relay [--quick] [--rounds N] [--out FOLDER]

The server, the relay and the consumer are processes of their own. "direct" is get() from the server over tcp until one
value of the table was read; "through the relay" the same from the relay over shm, for a table that it holds: it asks
the server each time whether the table has changed ("asks"), or not ("max_age"). The two take turns. "first" is the
get() that makes the relay fetch the table, into new memory; "into an arena" is a direct get() into new memory. The tree
is computed (bench/_tree.py), with the bandwidth of the largest fetch, and with that of a network of 25 Gbit/s. Writes
build/bench/relay.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bench import _report
from bench._children import ROOT, build_folder, role, said
from bench._report import Target, duration, median
from bench._report import size as size_text
from bench._tree import spread
from bench._turns import Cost, in_turns, ratio

import crossdock as xd

MACHINES, PROCESSES = 1000, 8
FAN_OUTS = (1000, 32, 10, 4, 3, 2)
NETWORK = 25e9 / 8  # bytes a second
FIRSTS = 5


def table(size: int) -> pa.Table:
    return pa.table({"n": np.arange(size // 8)})


def serve(sizes: list[int]) -> None:
    sources = {str(size): table(size) for size in sizes}
    sources |= {f"{size} {number}": sources[str(size)] for size in sizes for number in range(FIRSTS)}
    with xd.serve(sources, "tcp:") as server:
        print(json.dumps({"uri": server.uri}), flush=True)
        sys.stdin.readline()


def relay(upstream: str, max_age: float) -> None:
    with xd.relay(upstream, max_age=max_age) as made:
        print(json.dumps({"uri": made.uri}), flush=True)
        sys.stdin.readline()


@contextlib.contextmanager
def child(command: list[str]) -> Iterator[str]:
    """Starts a role; its URI. It ends with its input."""
    running = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield said(running)["uri"]
    finally:
        running.communicate("\n", timeout=60)


def timed(client: xd.Client, name: str, *, arena: bool = False) -> Cost:
    start = time.perf_counter_ns()
    got = pa.table(client.get(name, arena=xd.Arena() if arena else None))
    assert got["n"][1].as_py() == 1
    return Cost(time.perf_counter_ns() - start)


def measured(direct: xd.Client, asking: xd.Client, fresh: xd.Client, size: int, rounds: int) -> dict[str, Any]:
    first, into_arena = [], []
    for number in range(FIRSTS):
        first.append(timed(asking, f"{size} {number}").wall)
        into_arena.append(timed(direct, f"{size} {number}", arena=True).wall)
    name = str(size)
    for client in (direct, asking, fresh):
        timed(client, name)
    ours, theirs = in_turns(rounds, lambda: timed(asking, name), lambda: timed(direct, name))
    without, beside = in_turns(rounds, lambda: timed(fresh, name), lambda: timed(direct, name))
    return {
        "bytes": size,
        "direct": median(cost.wall for cost in theirs),
        "first": median(first),
        "into_arena": median(into_arena),
        "asks": median(cost.wall for cost in ours),
        "asks_ratio": ratio(ours, theirs),
        "max_age": median(cost.wall for cost in without),
        "max_age_ratio": ratio(without, beside),
    }


def trees(bandwidth: float, latency: float) -> list[dict[str, Any]]:
    """1,000 machines with 8 processes each, which all want a table of 1 GiB."""
    size = 1 << 30
    none = spread(MACHINES, MACHINES, size, bandwidth, latency, PROCESSES)
    rows = [{"fan_out": None, "seconds": none.seconds, "depth": 1, "sent_by_source": none.sent_by_source}]
    for fan_out in FAN_OUTS:
        made = spread(MACHINES, fan_out, size, bandwidth, latency)
        rows.append(
            {"fan_out": fan_out, "seconds": made.seconds, "depth": made.depth, "sent_by_source": made.sent_by_source}
        )
    return rows


def print_tree(title: str, rows: list[dict[str, Any]]) -> None:
    _report.print_table(
        title,
        ["relays below each machine", "levels", "sent by the source", "until all have it"],
        [
            [
                "no relay" if row["fan_out"] is None else f"{row['fan_out']:,}",
                str(row["depth"]),
                f"{row['sent_by_source'] / 2**30:,.0f} GiB",
                duration(row["seconds"] * 1e9),
            ]
            for row in rows
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench relay", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("role", nargs="?", choices=["serve", "relay"])
    parser.add_argument("--quick", action="store_true", help="few rounds and small tables: a look")
    parser.add_argument("--rounds", type=int, help="how often each is measured")
    parser.add_argument("--out", type=Path, default=build_folder(), help="a folder for the results")
    parser.add_argument("--sizes", help=argparse.SUPPRESS)
    parser.add_argument("--upstream", help=argparse.SUPPRESS)
    parser.add_argument("--max-age", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role == "serve":
        serve([int(word) for word in given.sizes.split(",")])
        return
    if given.role == "relay":
        relay(given.upstream, given.max_age)
        return

    info = _report.machine()
    _report.print_machine(info)
    sizes = [1 << 16, 1 << 20] if given.quick else [1 << 16, 1 << 20, 64 << 20, 256 << 20]
    rounds = given.rounds or (5 if given.quick else 31)
    with (
        child(role("relay", "serve", sizes=",".join(map(str, sizes)))) as upstream,
        child(role("relay", "relay", upstream=upstream, max_age=0)) as asking,
        child(role("relay", "relay", upstream=upstream, max_age=3600)) as fresh,
        xd.connect(upstream) as direct,
        xd.connect(asking) as ask,
        xd.connect(fresh) as keep,
    ):
        rows = [measured(direct, ask, keep, size, rounds) for size in sizes]
    _report.print_table(
        "Until one value of a table was read",
        [
            "size",
            "direct, tcp",
            "into an arena",
            "first, relay",
            "held, asks",
            "times faster",
            "held, max_age",
            "times faster",
        ],
        [
            [
                size_text(row["bytes"]),
                *(duration(row[key]) for key in ("direct", "into_arena", "first", "asks")),
                f"{row['asks_ratio']:.2f}",
                duration(row["max_age"]),
                f"{row['max_age_ratio']:.1f}",
            ]
            for row in rows
        ],
    )
    largest = rows[-1]
    bandwidth = largest["bytes"] / (largest["first"] / 1e9)
    latency = rows[0]["first"] / 1e9
    measured_tree, network_tree = trees(bandwidth, latency), trees(NETWORK, latency)
    what = f"{MACHINES:,} machines, {PROCESSES} processes each, a table of 1 GiB; computed"
    print_tree(f"{what} for {bandwidth / 1e9:.2f} GB/s, the measured fetch of a relay", measured_tree)
    print_tree(f"{what} for {NETWORK / 1e9:.3g} GB/s (25 Gbit/s)", network_tree)
    targets = [
        Target("the largest held table through the relay, of a get over tcp", 1 / largest["asks_ratio"], 0.5, True, "x")
    ]
    _report.print_targets(targets)
    result = {
        "machine": info,
        "rows": rows,
        "bandwidth": bandwidth,
        "trees": {"measured": measured_tree, "network": network_tree},
    }
    _report.write_json(given.out / "relay.json", result, targets)


if __name__ == "__main__":
    main()
