"""The same buffers again and again: each region is made known once, and no round is slower than the first."""

from __future__ import annotations

from bench._children import ask, role, serving
from bench._report import median
from bench._wire.networks import SCHEMES, uri, why_not
from bench._wire.part import MIB, Part

ROUNDS = 55
WARM_UP = 5
COMPARED = 10
BATCHES = 8


def run(part: Part) -> None:
    measure(part, "shm", "shm:")
    measure(part, "shm, simulated device", "shm:", device="sim:1")
    for scheme in SCHEMES:
        if why := why_not(scheme):
            part.leave_out(scheme, why)
            continue
        measure(part, f"{scheme}, messages", uri(scheme))
        measure(part, f"{scheme}, reads", uri(scheme), columns=4)


def measure(part: Part, name: str, listen_at: str, *, columns: int = 0, **device: str) -> None:
    server = role("_wire.ends", "serve", listen_at, batch_bytes=MIB, batches=BATCHES, **device)
    with serving(server) as (said, _):
        reader = role("_wire.ends", "read", said["uri"], rounds=ROUNDS, columns=columns, **device)
        with serving(reader) as (_, reading):
            run = ask(reading)
    rounds = run["rounds"][WARM_UP:]
    factor = median(rounds[-COMPARED:]) / median(rounds[:COMPARED])
    part.must(f"{name}, the last {COMPARED} rounds of the first {COMPARED}", factor, at_most=1.05)
    if device:
        part.must(f"{name}, regions opened in {ROUNDS} rounds", run["driver"]["opened"], at_most=4, unit="")
    elif listen_at.startswith("shm"):
        part.must(f"{name}, regions mapped in {ROUNDS} rounds", run["mapped"], at_most=1, unit="")
