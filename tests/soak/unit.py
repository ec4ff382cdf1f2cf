"""One unit of work: a kind, a seed, and some seconds, in a process of its own. `python -m tests.soak.unit` runs it."""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# How long a unit may go on beyond its time for want of work done.
MOST_EXTRA_SECONDS = 30


@dataclass
class Unit:
    """What a kind is given, and where it says what it did."""

    seed: int
    seconds: float
    folder: Path
    """For its own files. Its sockets lie in XDG_RUNTIME_DIR, which must be empty in the end."""
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        random.seed(self.seed)  # for what draws where no unit can be handed in
        self._end = time.monotonic() + self.seconds
        self._lock = threading.Lock()

    def left(self) -> float:
        """Seconds; 0 when the time is up."""
        return max(0.0, self._end - time.monotonic())

    def rounds(self, *works: str) -> Iterator[None]:
        """Once, and again until the time is up and each of these counts was added to: a machine that is busy doesn't
        leave a unit without work. What can't be done at all ends it some seconds later."""
        yield
        while self.left() or (
            time.monotonic() < self._end + MOST_EXTRA_SECONDS and not all(self.counts[name] for name in works)
        ):
            yield

    def count(self, name: str, number: int = 1) -> None:
        """Thread-safe."""
        with self._lock:
            self.counts[name] += number

    def finding(self, text: str) -> None:
        """A promise that did not hold. The unit goes on, or not, as its kind decides. Thread-safe."""
        self.findings.append(text)


@dataclass(frozen=True)
class Kind:
    name: str
    does: str
    """In a few words, for the list of kinds."""
    run: Callable[[Unit], None]
    works: tuple[str, ...]
    """The names of the counts that say that it did its work. A unit that adds nothing to one of them is a finding."""
    missing: Callable[[], str | None] = lambda: None
    """Why it can't run here, if it can't."""
    build: str = "dev"
    """The folder under build/ whose programs it runs."""


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> bool:
    """For what another process does without telling anybody. False: it didn't come true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def main(arguments: list[str]) -> None:
    from tests.soak.kinds import all_kinds

    name, seed, seconds, folder = arguments
    (kind,) = [kind for kind in all_kinds() if kind.name == name]
    unit = Unit(int(seed), float(seconds), Path(folder))
    kind.run(unit)
    result = {"counts": {name: number for name, number in unit.counts.items() if number}, "findings": unit.findings}
    (unit.folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1:])
