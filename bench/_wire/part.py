"""What the parts of `./dev bench wire` have in common: how much is run, and what is found."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench import _report
from bench._report import Target, duration, median, size
from bench._turns import Cost, in_turns, ratio

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True)
class Plan:
    quick: bool
    rounds: int

    def pick(self, quick: Any, full: Any) -> Any:
        return quick if self.quick else full

    def count_of(self, body_bytes: int) -> int:
        """How many bodies of a size are a measurement."""
        return max(8, min(20_000, self.pick(128, 1024) * MIB // body_bytes))


@dataclass
class Part:
    """What one part has found."""

    name: str
    plan: Plan
    comparisons: list[dict[str, Any]] = field(default_factory=list)
    facts: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    other_work: float = 0.0

    def leave_out(self, what: str, why: str) -> None:
        self.left_out.append(f"{what}: {why}")

    def must(self, name: str, measured: float, *, at_most: float | None = None, at_least: float | None = None,
             unit: str = "x") -> None:  # fmt: skip
        bound = at_most if at_most is not None else at_least
        assert bound is not None
        self.targets.append(Target(f"{self.name}: {name}", measured, bound, at_most is not None, unit))

    def fact(self, what: str, value: float, unit: str, **more: object) -> None:
        """Something that has no other beside it."""
        self.facts.append({"what": what, "value": value, "unit": unit, **more})

    def compare(self, what: str, where: str, nbytes: int, peer: str, ours: Callable[[], Cost],
                theirs: Callable[[], Cost], *, at_least: float | None = None,
                at_most: float | None = None) -> None:  # fmt: skip
        """Both in turns. `at_least`: how many times faster ours must be; `at_most`: how many times the other's time it
        may take."""
        our_costs, their_costs = in_turns(self.plan.rounds, ours, theirs)
        factor = ratio(our_costs, their_costs)
        self.comparisons.append(
            {
                "what": what, "where": where, "bytes": nbytes, "beside": peer, "rounds": self.plan.rounds,
                "ours": median(one.wall for one in our_costs), "theirs": median(one.wall for one in their_costs),
                "ours_cpu": _cpu(our_costs), "theirs_cpu": _cpu(their_costs), "ratio": factor,
                "load_average": round(os.getloadavg()[0], 2),
            }
        )  # fmt: skip
        name = f"{what}, {where}, {size(nbytes)}"
        if at_least is not None:
            self.must(f"{name}, speed of {peer}", factor, at_least=at_least)
        if at_most is not None:
            self.must(f"{name}, time of {peer}", 1 / factor, at_most=at_most)

    def show(self) -> None:
        title = f"{self.name}; other work kept {self.other_work:.2f} processors busy meanwhile"
        if self.comparisons:
            _report.print_table(
                title,
                ["what", "where", "size", "ours", "processor", "beside", "theirs", "processor", "ratio", "load"],
                [
                    [
                        row["what"], row["where"], size(row["bytes"]), duration(row["ours"]), duration(row["ours_cpu"]),
                        row["beside"], duration(row["theirs"]), duration(row["theirs_cpu"]), f"{row['ratio']:.2f}",
                        str(row["load_average"]),
                    ]
                    for row in self.comparisons
                ],
            )  # fmt: skip
        if self.facts:
            _report.print_table(
                title, ["what", "measured"],
                [[row["what"], f"{row['value']:,.4g} {row['unit']}".strip()] for row in self.facts],
            )  # fmt: skip
        for line in self.left_out:
            _report.console.print(f"{self.name}: left out: {line}", markup=False)

    def result(self) -> dict[str, Any]:
        return {
            "comparisons": self.comparisons, "facts": self.facts, "left_out": self.left_out,
            "other_work": self.other_work,
        }  # fmt: skip


def _cpu(costs: list[Cost]) -> float | None:
    known = [one.cpu for one in costs if one.cpu is not None]
    return median(known) if known else None
