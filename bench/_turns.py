"""Ways that take turns, so that what else the machine does weighs on all of them."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench._report import median


@dataclass(frozen=True)
class Cost:
    """Of one thing, in ns: by the clock, and in processor time of both ends with their start; None: not known."""

    wall: float
    cpu: float | None = None


def children_ns() -> float:
    """Processor time of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1e9


def with_cpu(run: Callable[[], float], things: int) -> Cost:
    """What `run` returns, by the clock, and the processor time for each of `things` of the children that it ran."""
    before = children_ns()
    wall = run()
    return Cost(wall, (children_ns() - before) / things)


def in_turns(rounds: int, ours: Callable[[], Cost], theirs: Callable[[], Cost]) -> tuple[list[Cost], list[Cost]]:
    """Each begins every other round."""
    costs: tuple[list[Cost], list[Cost]] = ([], [])
    for i in range(rounds):
        for which in (0, 1) if i % 2 else (1, 0):
            costs[which].append((ours, theirs)[which]())
    return costs


def ratio(ours: list[Cost], theirs: list[Cost]) -> float:
    """How many times faster ours are: the median of the rounds' ratios."""
    return median(b.wall / a.wall for a, b in zip(ours, theirs, strict=True))


def _busy_seconds() -> float:
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle_and_waiting = ticks[3] + ticks[4]
    return (sum(ticks) - idle_and_waiting) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    usage = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in usage)


class OtherWork:
    """How many processors others kept busy meanwhile; known after the block, in which all children must end."""

    processors = 0.0


@contextlib.contextmanager
def other_work() -> Iterator[OtherWork]:
    measured = OtherWork()
    start, busy, own = time.monotonic(), _busy_seconds(), _own_seconds()
    yield measured
    others = (_busy_seconds() - busy) - (_own_seconds() - own)
    measured.processors = max(0.0, others / (time.monotonic() - start))
