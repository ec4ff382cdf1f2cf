"""Bodies over TCP: our connections beside a raw pair of sockets with the same options and buffers, over loopback and
between two network namespaces; with checksums beside without; and whole tables, Server to Client, beside pyarrow
Flight over TCP. The ways take turns, round after round; a ratio is the median of the rounds' ratios, so that what else
the machine does weighs on both sides.

  ./dev bench tcp [--quick] [--rounds N] [--out FOLDER]

The namespaces need root and iproute2; without, that part is left out, and said so. Writes build/bench/tcp.json.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import Any

from bench import _report
from bench._children import build_folder, measure, program, serving
from bench._places import LOOPBACK, Place, places, why_no_namespaces
from bench._report import Target, duration, median, size
from bench._transfers import bodies, flight_table, our_table, shared_arguments

MIB = 1 << 20
SIZES = (MIB, 64 * MIB)
CHECKSUM_SIZES = (64 << 10, MIB, 64 * MIB)


def transfer(place: Place, way: str, body_bytes: int, batches: int, checksum: str = "auto") -> tuple[float, float]:
    """What a body cost, in ns: over the whole run, since both ways come in bursts; and in processor time, of both ends
    (0 for `raw`, which doesn't tell)."""
    shared = shared_arguments(body_bytes, batches)
    if way == "ours":
        cost = bodies(place, f"tcp://{place.host}:0", shared, checksum=checksum)
        assert cost.cpu is not None
        return cost.wall, cost.cpu
    server = program("tcp_raw", role="serve", host=place.host, **shared)
    with serving([*place.server, *server]) as (said, _):
        client = program("tcp_raw", role="consume", address=said["address"], **shared)
        return float(measure([*place.client, *client])["per_batch"]), 0.0


def table(way: str, batch_bytes: int, batches: int) -> float:
    """What a batch of a table cost, from server to client, in ns."""
    return our_table("tcp:", batch_bytes, batches) if way == "ours" else flight_table(LOOPBACK, batch_bytes, batches)


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench tcp", description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a look at everything; the numbers mean little")
    parser.add_argument("--rounds", type=int, help="how often each way has its turn; 9 if it isn't given")
    parser.add_argument("--out", type=Path, help="the folder for the results; build/bench if it isn't given")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # leaves no namespace and no process
    rounds = given.rounds or (1 if given.quick else 9)
    volume = (64 if given.quick else 512) * MIB

    out = given.out or build_folder()
    info = _report.machine()
    _report.print_machine(info)
    rows: list[dict[str, Any]] = []
    targets = []

    def compare(what: str, place: str, peer: str, bytes_each: int, bound: float, run: Any) -> None:
        batches = max(4, volume // bytes_each)
        ours, theirs = [], []
        for _ in range(rounds):
            theirs.append(run(peer, bytes_each, batches))
            ours.append(run("ours", bytes_each, batches))
        ratio = median([t / o for t, o in zip(theirs, ours, strict=True)])
        rows.append(
            {
                "what": what, "place": place, "bytes": bytes_each, "rounds": rounds, "batches": batches,
                "ours": median(ours), "peer": peer, "theirs": median(theirs), "ratio": ratio,
            }
        )  # fmt: skip
        targets.append(Target(f"{what}, {place}, {size(bytes_each)}, against {peer}", ratio, bound, False, "x"))

    checksum_rows: list[dict[str, Any]] = []

    def compare_checksums(place: Place, bytes_each: int) -> None:
        batches = max(4, volume // bytes_each)
        off, on = [], []
        for i in range(rounds):
            for checksum in ("off", "on") if i % 2 == 0 else ("on", "off"):
                (on if checksum == "on" else off).append(transfer(place, "ours", bytes_each, batches, checksum))
        time, cpu = (median([b[k] / a[k] for a, b in zip(off, on, strict=True)]) for k in (0, 1))
        checksum_rows.append(
            {
                "place": place.name, "bytes": bytes_each, "rounds": rounds, "batches": batches,
                "off": median([a[0] for a in off]), "on": median([b[0] for b in on]),
                "off_cpu": median([a[1] for a in off]), "on_cpu": median([b[1] for b in on]),
                "ratio": time, "cpu_ratio": cpu,
            }
        )  # fmt: skip

    if why := why_no_namespaces():
        _report.console.print(f"{why}: that part is left out")
    with places() as all_places:
        for place in all_places:
            for n in SIZES:
                compare("connection", place.name, "raw", n, 0.9,
                        lambda way, size_, count, at=place: transfer(at, way, size_, count)[0])  # fmt: skip
            for n in CHECKSUM_SIZES:
                compare_checksums(place, n)
    for n in SIZES:
        compare("table", "loopback", "Flight", n, 3.0, table)
    _report.print_table(
        f"Over TCP; medians of {rounds} rounds in turns",
        ["what", "where", "size", "ours", "", "beside", "theirs", "", "ratio"],
        [
            [
                row["what"], row["place"], size(row["bytes"]), duration(row["ours"]),
                f"{row['bytes'] / row['ours']:.2f} GB/s", row["peer"], duration(row["theirs"]),
                f"{row['bytes'] / row['theirs']:.2f} GB/s", f"{row['ratio']:.2f}",
            ]
            for row in rows
        ],
    )  # fmt: skip
    _report.print_table(
        f"With checksums and without; medians of {rounds} rounds in turns",
        ["where", "size", "without", "with", "ratio", "processor, without", "with", "ratio"],
        [
            [
                row["place"], size(row["bytes"]), duration(row["off"]), duration(row["on"]), f"{row['ratio']:.3f}",
                duration(row["off_cpu"]), duration(row["on_cpu"]), f"{row['cpu_ratio']:.3f}",
            ]
            for row in checksum_rows
        ],
    )  # fmt: skip
    _report.print_targets(targets)
    _report.write_json(
        out / "tcp.json", {"machine": info, "quick": given.quick, "rows": rows, "checksums": checksum_rows}, targets
    )


if __name__ == "__main__":
    main()
