"""Counts, seeds and findings of all runs of one commit, kept in build/soak, and the goals that they are held to."""

from __future__ import annotations

import fcntl
import hashlib
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.soak.unit import ROOT

FOLDER = ROOT / "build" / "soak"

GOALS = {"kills": 20_000, "hostile messages": 1_000_000, "worlds": 100_000}
EXECUTIONS = 10_000_000
PARSERS = sorted(path.stem.removeprefix("fuzz_") for path in (ROOT / "tests" / "fuzz").glob("fuzz_*.cc"))
GOALS |= {f"executions of {name}": EXECUTIONS for name in PARSERS}


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False).stdout


def commit() -> str:
    """The commit that is checked out; with a hash of what was changed since, where there is something. Without git
    there is one total for all runs."""
    head = _git("rev-parse", "--short=12", "HEAD").decode().strip() or "no-commit"
    changes = _git("diff", "HEAD", "--", "src", "include", "python", "tests")
    return f"{head}-{hashlib.sha256(changes).hexdigest()[:8]}" if changes else head


@dataclass
class Totals:
    """`kinds`: by the kind's name, its units, seconds and counts, each a number."""

    commit: str
    kinds: dict[str, dict[str, Any]] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)

    def add(self, kind: str, seconds: float, counts: dict[str, int]) -> None:
        entry = self.kinds.setdefault(kind, {"units": 0, "seconds": 0.0, "counts": {}})
        entry["units"] += 1
        entry["seconds"] = round(entry["seconds"] + seconds, 1)
        for name, number in counts.items():
            entry["counts"][name] = entry["counts"].get(name, 0) + number

    def merge(self, other: Totals) -> None:
        for name, of in other.kinds.items():
            entry = self.kinds.setdefault(name, {"units": 0, "seconds": 0.0, "counts": {}})
            entry["units"] += of["units"]
            entry["seconds"] = round(entry["seconds"] + of["seconds"], 1)
            for count, number in of["counts"].items():
                entry["counts"][count] = entry["counts"].get(count, 0) + number
        self.findings += other.findings
        self.runs += other.runs

    def count(self, name: str) -> int:
        return sum(of["counts"].get(name, 0) for of in self.kinds.values())


def load(commit: str, folder: Path) -> Totals:
    path = folder / f"{commit}.json"
    return Totals(**json.loads(path.read_text())) if path.exists() else Totals(commit)


def accumulate(run: Totals, folder: Path) -> Totals:
    """Adds a run to the file of its commit; all runs together. Two runs may end at the same time."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        totals = load(run.commit, folder)
        totals.merge(run)
        text = json.dumps(vars(totals), indent=1)
        new = folder / f"{run.commit}.json.new"
        new.write_text(text)
        new.rename(folder / f"{run.commit}.json")
    return totals
