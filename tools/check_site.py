#!/usr/bin/env python3
"""Checks that the search of the site finds every name of the Python reference.

    tools/check_site.py [FOLDER]

Reads searchindex.js of the site, by default of build/docs, and the pages of the reference. Prints a line for each
name, such as `crossdock.serve`, that a page lists and the index doesn't have. Exits with 1 if there is one.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import reference

ROOT = Path(__file__).resolve().parents[1]
ALWAYS = "crossdock.serve"  # so that pages without entries aren't taken for a site without faults


def searched_names(index: str) -> set[str]:
    """The full names of the objects that an index of Sphinx's has: `crossdock.serve`."""
    begin, end = index.index("{"), index.rindex("}") + 1
    objects: dict[str, list[list[Any]]] = json.loads(index[begin:end])["objects"]
    return {f"{prefix}.{one[4]}" if prefix else str(one[4]) for prefix, found in objects.items() for one in found}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "build" / "docs")
    index: Path = parser.parse_args().folder / "searchindex.js"
    if not index.exists():
        print(f"{index} isn't there: ./dev docs makes the site")
        return 1
    known, listed = searched_names(index.read_text()), reference.entries()
    missing = [name for name in dict.fromkeys([ALWAYS, *listed]) if name not in known]
    print(*(f"the search doesn't know {name}" for name in missing), sep="\n", end="\n" if missing else "")
    print(f"{len(listed)} names, {len(missing)} that the search doesn't know")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
