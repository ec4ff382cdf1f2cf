"""Consumers over UCX that are connected and have nothing to do."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench._children import role, said, serving, tell
from bench._wire.networks import why_not
from bench._wire.part import MIB, Part

CONSUMERS = 64


def cpu_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def memory(pid: int) -> int:
    """Its proportional set size: what is shared counts by its part."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("smaps_rollup has no Pss")


def run(part: Part) -> None:
    if why := why_not("ucx"):
        part.leave_out("all of it", why)
        return
    consumers = part.plan.pick(16, CONSUMERS)
    with (
        serving(role("_wire.ends", "serve", "ucx://127.0.0.1:0")) as (server, serving_process),
        serving(role("_wire.ends", "connect", server["uri"], clients=consumers)) as (_, client),
    ):
        ends = {"server": serving_process.pid, "clients": client.pid}
        before = {name: (descriptors(pid), memory(pid)) for name, pid in ends.items()}
        tell(client)
        said(client)
        after = {name: (descriptors(pid), memory(pid)) for name, pid in ends.items()}
        start = {name: cpu_seconds(pid) for name, pid in ends.items()}
        seconds = part.plan.pick(2, 30)
        time.sleep(seconds)  # the measurement: nothing is to happen
        busy = {name: (cpu_seconds(pid) - start[name]) / seconds * 100 for name, pid in ends.items()}
    for name in ends:
        part.must(f"{name} of {consumers}, of a processor", busy[name], at_most=1, unit="%")
        each = [(b - a) / (consumers - 1) for a, b in zip(before[name], after[name], strict=True)]
        part.must(f"{name}, descriptors of each further one", each[0], at_most=10, unit="")
        part.must(f"{name}, memory of each further one", each[1] / MIB, at_most=1, unit="MiB")
