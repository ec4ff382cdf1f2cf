"""Runs units of all kinds for as long as it is told, several at once."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.soak.processes import Running
from tests.soak.totals import GOALS, Totals
from tests.soak.unit import Kind

# Time that goes to a kind counts this much more once its goals are reached.
REACHED = 8
LATE_CHECK_SECONDS = 5


@dataclass(frozen=True)
class Plan:
    seed: int
    seconds: float | None
    """None: one unit of each kind."""
    unit_seconds: float
    at_once: int


class Schedule:
    """Which kind is next: the one that had least time."""

    def __init__(self, kinds: Sequence[Kind], before: Totals) -> None:
        self._kinds = list(kinds)
        self._spent = {kind.name: 0.0 for kind in kinds}
        self._counts = {name: before.count(name) for name in GOALS}

    def next(self, seconds: float) -> Kind:
        kind = min(self._kinds, key=lambda kind: self._spent[kind.name])
        goals = [name for name in kind.works if name in GOALS]
        reached = bool(goals) and all(self._counts[name] >= GOALS[name] for name in goals)
        self._spent[kind.name] += seconds * (REACHED if reached else 1)
        return kind

    def add(self, counts: dict[str, int]) -> None:
        for name in self._counts:
            self._counts[name] += counts.get(name, 0)


def again(kind: Kind, seed: int, seconds: float) -> str:
    """The command that repeats a unit."""
    return f"./dev soak --once --only {kind.name} --seed {seed} --unit-seconds {seconds:g}"


def _units(kinds: Sequence[Kind], schedule: Schedule, plan: Plan) -> Iterator[tuple[Kind, float]]:
    """Kinds and seconds, until the plan's time is over."""
    if plan.seconds is None:
        yield from ((kind, plan.unit_seconds) for kind in kinds)
        return
    end = time.monotonic() + plan.seconds
    while (left := end - time.monotonic()) >= 1:
        seconds = min(plan.unit_seconds, left)
        yield schedule.next(seconds), seconds


def run(
    kinds: Sequence[Kind],
    plan: Plan,
    before: Totals,
    keep: Callable[[Totals], None],
    say: Callable[[str], None],
) -> None:
    """Has what came of each unit kept as soon as it has ended. The first unit has the plan's seed, the next one the
    number after it."""
    schedule = Schedule(kinds, before)
    units = _units(kinds, schedule, plan)
    seed = plan.seed
    running: list[Running] = []
    try:
        while True:
            while len(running) < plan.at_once and (unit := next(units, None)) is not None:
                running.append(Running(unit[0], seed, unit[1]))
                seed += 1
            if not running:
                return
            ended, _, _ = select.select([one.descriptor for one in running], [], [], LATE_CHECK_SECONDS)
            for one in [one for one in running if one.descriptor in ended or one.late()]:
                running.remove(one)
                _take(one, before.commit, schedule, keep, say)
    finally:
        for one in running:
            one.end()


def _take(
    one: Running, commit: str, schedule: Schedule, keep: Callable[[Totals], None], say: Callable[[str], None]
) -> None:
    result = one.finish()
    of_unit = Totals(commit)
    of_unit.add(one.kind.name, result.seconds, result.counts)
    schedule.add(result.counts)
    for text in result.findings:
        command = again(one.kind, one.seed, one.seconds)
        of_unit.findings.append(
            {"kind": one.kind.name, "seed": one.seed, "text": text, "log": result.log, "again": command}
        )
        say(f"  {one.kind.name} with seed {one.seed}: {text}")
    keep(of_unit)
