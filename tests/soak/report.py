"""What a run found and how far all runs of its commit have come, as text."""

from __future__ import annotations

from tests.soak.totals import GOALS, Totals


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in counts.items()) or "nothing"


def text(run: Totals, totals: Totals, left_out: dict[str, str]) -> str:
    lines = ["", "this run:"]
    for name, of in sorted(run.kinds.items()):
        lines.append(f"  {name:<24} {of['units']:>4} units {of['seconds']:>8.1f} s  {_counts(of['counts'])}")
    lines += [f"  {name:<24} left out: {why}" for name, why in sorted(left_out.items())]
    lines += ["", f"all runs of {totals.commit}:"]
    missed = 0
    for name, goal in GOALS.items():
        reached = totals.count(name)
        missed += reached < goal
        lines.append(f"  {name:<32} {reached:>12,} of {goal:>12,}  {'not ' if reached < goal else ''}reached")
    lines += [f"  {len(GOALS) - missed} of {len(GOALS)} goals reached"]
    lines += ["", f"{len(run.findings)} findings in this run, {len(totals.findings)} in all runs of this commit"]
    earlier = [finding for finding in totals.findings if finding not in run.findings]
    for finding in run.findings + earlier:
        lines += [f"  {finding['kind']}: {finding['text']}", f"    again: {finding['again']}"]
        lines += [f"      | {line}" for line in finding["log"].splitlines()]
    return "\n".join(lines)
