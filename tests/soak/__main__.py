"""`python -m tests.soak`: the command behind `./dev soak`, once everything is built."""

from __future__ import annotations

import argparse
import json
import os
import resource
import secrets
import signal
import sys
import textwrap
import time
from pathlib import Path
from types import FrameType

from tests.soak import report, totals
from tests.soak.kinds import all_kinds
from tests.soak.processes import adopt_orphans
from tests.soak.run import Plan, run

MOST_UNIT_SECONDS = 20.0


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev soak", allow_abbrev=False, description=__doc__)
    parser.add_argument("--hours", type=float, default=0.0)
    parser.add_argument("--minutes", type=float, default=0.0, help="5, if neither is said")
    parser.add_argument("--once", action="store_true", help="one unit of each kind")
    parser.add_argument("--only", action="append", metavar="KIND", help="this kind; may be said again")
    parser.add_argument("--build", action="append", metavar="NAME", help="kinds that run programs of build/NAME alone")
    parser.add_argument("--seed", type=int, help="of the first unit, to repeat it: not added to the totals")
    parser.add_argument("--unit-seconds", type=float, help="how long each unit takes")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1, help="units that run at the same time")
    parser.add_argument("--folder", type=Path, default=totals.FOLDER, help="where reports and totals are kept")
    parser.add_argument("--list", action="store_true", help="say what kinds there are")
    parser.add_argument("--check", action="store_true", help="say whether these arguments are right, and do nothing")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    given = _arguments(words)
    try:
        kinds = all_kinds()
    except ModuleNotFoundError:
        if given.check:
            return 0  # Nothing is installed yet: their names are looked at then.
        raise
    if given.list:
        for kind in kinds:
            print(f"  {kind.name:<26} {kind.does}")
        return 0
    unknown = set(given.only or ()) - {kind.name for kind in kinds}
    if unknown:
        names = textwrap.fill(" ".join(kind.name for kind in kinds), 80, break_on_hyphens=False)
        sys.exit(f"soak: no kind {', '.join(sorted(unknown))}; there are:\n{textwrap.indent(names, '  ')}")
    if given.check:
        return 0
    if given.only:
        kinds = [kind for kind in kinds if kind.name in given.only]
    if given.build:
        kinds = [kind for kind in kinds if kind.build in given.build]
    left_out = {kind.name: why for kind in kinds if (why := kind.missing())}
    kinds = [kind for kind in kinds if kind.name not in left_out]
    if not kinds:
        sys.exit(f"soak: nothing can run: {'; '.join(left_out.values()) or 'no kind is of that build'}")
    seconds = None if given.once else (given.hours * 3600 + given.minutes * 60) or 300.0
    share = MOST_UNIT_SECONDS if seconds is None else seconds * given.at_once / len(kinds)
    plan = Plan(
        seed=secrets.randbelow(1 << 40) if given.seed is None else given.seed,
        seconds=seconds,
        unit_seconds=given.unit_seconds or max(1.0, min(MOST_UNIT_SECONDS, share)),
        at_once=given.at_once,
    )
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    adopt_orphans()
    signal.signal(signal.SIGTERM, _interrupt)
    given.folder.mkdir(parents=True, exist_ok=True)
    of_this_run = totals.Totals(totals.commit())
    before = totals.load(of_this_run.commit, given.folder)
    how_long = "one unit of each kind" if seconds is None else f"{seconds / 60:g} minutes"
    repeats = given.seed is not None

    def keep(units: totals.Totals) -> None:
        of_this_run.merge(units)
        if not repeats:  # what was counted before counts once
            totals.accumulate(units, given.folder)

    started = time.time()
    stopped = False
    try:
        print(f"soak of {of_this_run.commit}: {how_long}, seed {plan.seed}", flush=True)
        run(kinds, plan, before, keep, lambda text: print(text, flush=True))
    except KeyboardInterrupt:
        stopped = True
    took = round(time.time() - started, 1)
    run_itself = {"seed": plan.seed, "started": round(started), "seconds": took, "stopped": stopped}
    keep(totals.Totals(of_this_run.commit, runs=[run_itself]))
    together = totals.load(of_this_run.commit, given.folder)
    (given.folder / "report.json").write_text(
        json.dumps({"run": vars(of_this_run), "left_out": left_out, "totals": vars(together)}, indent=1)
    )
    print(report.text(of_this_run, together, left_out))
    if stopped:
        return 130
    return 1 if of_this_run.findings else 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
