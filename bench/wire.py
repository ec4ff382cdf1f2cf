"""Every way for a body, beside what users would pick instead: what the transports must reach, measured in turns.

  ./dev bench wire [PART...] [--quick] [--rounds N] [--out FOLDER] [--install-peers]

The parts: ucx (beside ucx_perftest and Flight), reads (some columns by remote read), fabric (beside a bare loop over
libfabric), tls (beside a bare pair of SSL_write and SSL_read), nixl, device (a device's table over shm), idle (64
connections with nothing to do), rounds (the same buffers again and again), handoff (shm beside a cache line), faults
(killed peers, pulled cables). All of them if none is named. What this machine lacks is left out, with the reason.
`--install-peers` installs NIXL and a newer UCX into build/peers.
Writes build/bench/wire.json.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from pathlib import Path

from bench import _peers, _report
from bench._children import build_folder
from bench._turns import other_work
from bench._wire.part import Part, Plan

PARTS = ("ucx", "reads", "fabric", "tls", "nixl", "device", "idle", "rounds", "handoff", "faults")


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench wire", description=__doc__.split("\n\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all if none is given")
    parser.add_argument("--quick", action="store_true", help="a look at everything; the numbers mean little")
    parser.add_argument("--rounds", type=int, help="how often each way has its turn; 5 if it isn't given")
    parser.add_argument("--out", type=Path, help="the folder for the results; build/bench if it isn't given")
    parser.add_argument("--install-peers", action="store_true", help="install NIXL and a newer UCX into build/peers")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # leaves no process
    if given.install_peers:
        _peers.install()

    plan = Plan(given.quick, given.rounds or (1 if given.quick else 5))
    out = given.out or build_folder()
    info = _report.machine()
    _report.print_machine(info)
    parts = []
    for name in given.parts or PARTS:
        part = Part(name, plan)
        with other_work() as measured:
            importlib.import_module(f"bench._wire.{name}").run(part)
        part.other_work = measured.processors
        part.show()
        parts.append(part)
    targets = [target for part in parts for target in part.targets]
    _report.print_targets(targets)
    result = {"machine": info, "quick": given.quick, "parts": {part.name: part.result() for part in parts}}
    _report.write_json(out / "wire.json", result, targets)


if __name__ == "__main__":
    main()
