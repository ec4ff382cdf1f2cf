"""The command line that the checks of this folder share."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol


class Checker(Protocol):
    """Checks the files of one repository."""

    checked: int
    """Files that run() has checked."""

    def run(self) -> Iterator[str]:
        """Yields `file:line: what is wrong` for each fault."""


def main(doc: str | None, checker: type, faults: str = "faults") -> int:
    """Runs `checker(root)`, prints its faults and a summary, and returns the exit code: 1 if there is a fault.

    doc: the program's docstring, whose first line is its help.
    """
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    root: Path = parser.parse_args().root
    check: Checker = checker(root)
    found = list(check.run())
    print(*found, sep="\n", end="\n" if found else "")
    if check.checked == 0:
        print(f"{root}: no file found, so nothing was checked")
        return 1
    print(f"{check.checked} files, {len(found)} {faults}")
    return 1 if found else 0
