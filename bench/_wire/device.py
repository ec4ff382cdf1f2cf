"""A table in memory of a device, handed to another process over shm: at a cost that doesn't depend on its size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench._children import ask, build_tree, role, serving
from bench._places import LOOPBACK, Place
from bench._report import duration, median, size
from bench._wire.ends import MEMORY
from bench._wire.part import GIB, KIB, MIB, Part

FAKE = build_tree() / "tests/fakes/cuda/libcuda_fake.so"
BATCHES = 8  # of a table


def run(part: Part) -> None:
    devices = {"simulated device": ("sim:1", LOOPBACK)}
    if FAKE.exists():
        variables = {"CROSSDOCK_CUDA_LIBRARY": str(FAKE), "CROSSDOCK_CUDA_FAKE_MEMORY": str(MEMORY)}
        devices["CUDA double"] = ("cuda:0", LOOPBACK.with_variables(variables))
    else:
        part.leave_out("CUDA double", f"{FAKE} isn't built; ./dev build builds it")
    large = part.plan.pick(16 * MIB, GIB)
    if (needed := (BATCHES + 3) * large) > (free := available_memory()):
        part.leave_out("1 GiB", f"it needs {size(needed)} of memory, and {free / GIB:.1f} GiB are free")
        large = 64 * MIB
    for name, (device, place) in devices.items():
        small_runs, large_runs = [], []
        for _ in range(part.plan.rounds):
            small_runs.append(hand_over(part, device, place, 64 * KIB))
            large_runs.append(hand_over(part, device, place, large))
        report(part, name, large, small_runs, large_runs)


def regions_of(batch_bytes: int) -> int:
    """Of the published table: each is as large as all before it, but for 1 GiB at most (DeviceArena)."""
    regions = room = total = 0
    for _ in range(BATCHES):
        if room < batch_bytes:
            room = max(batch_bytes, min(total, GIB))
            total += room
            regions += 1
        room -= batch_bytes
    return regions


def available_memory() -> int:
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024


def hand_over(part: Part, device: str, place: Place, batch_bytes: int) -> dict[str, Any]:
    """A first read, which opens all regions, and then many."""
    server = role(
        "_wire.ends", "serve", "shm:", device=device, batch_bytes=batch_bytes, batches=BATCHES, wait="spin"
    )  # fmt: skip
    with serving([*place.server, *server]) as (said, child):
        before = ask(child)
        reader = role("_wire.ends", "read", said["uri"], device=device, wait="spin", rounds=part.plan.pick(10, 100))
        with serving([*place.client, *reader]) as (_, reading):
            first, rest = ask(reading), ask(reading)
        after = ask(child)
    return {
        "batch": median(rest["between"]), "regions": regions_of(batch_bytes),
        "opened": first["driver"]["opened"] + rest["driver"]["opened"],
        "copied": sum(run["driver"]["copied"] + run["bytes_copied"] for run in (first, rest))
        + after["copied"] - before["copied"],
    }  # fmt: skip


def report(part: Part, name: str, large: int, small_runs: list[Any], large_runs: list[Any]) -> None:
    for batch_bytes, runs in ((64 * KIB, small_runs), (large, large_runs)):
        time = median(run["batch"] for run in runs)
        part.fact(f"{name}, a batch of {size(batch_bytes)}", time / 1000, "µs", text=duration(time))
    factor = median(b["batch"] / a["batch"] for a, b in zip(small_runs, large_runs, strict=True))
    part.must(f"{name}, {size(large)} against 64 KiB", factor, at_most=1.2)
    runs = [*small_runs, *large_runs]
    part.must(f"{name}, copies", max(run["copied"] for run in runs), at_most=0, unit="")
    opened = max(run["opened"] / run["regions"] for run in runs)
    part.must(f"{name}, imports of each region", opened, at_most=1, unit="")
