#!/usr/bin/env python3
"""Compares libcrossdock_c with the stored description of its ABI, tests/abi/crossdock_c.abi, by libabigail's abidiff.

    tools/check_abi.py LIBRARY                   # exits with 1 for any difference, and prints it
    tools/check_abi.py --update LIBRARY          # writes the description anew
    tools/check_abi.py --stored FILE LIBRARY     # another description

An addition is a difference, too: once it is described, its removal is found. LIBRARY needs debug information, as
build/dev has it.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STORED = ROOT / "tests" / "abi" / "crossdock_c.abi"

# Bits of abidiff's exit status.
FAILED, CHANGED, INCOMPATIBLE = 1 | 2, 4, 8


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)


def describe(library: Path, description: Path) -> None:
    """Writes what the exported functions of a library take and return. Types that the public headers only name, which
    are the handles, are left out."""
    # fmt: off
    done = run(
        "abidw", "--headers-dir", ROOT / "include", "--drop-private-types", "--exported-interfaces-only",
        "--no-architecture", "--no-comp-dir-path", "--no-corpus-path", "--no-elf-needed", "--no-show-locs",
        "--type-id-style", "hash", "--out-file", description, library.resolve(),
    )
    # fmt: on
    if done.returncode != 0 or "function-decl" not in description.read_text():
        sys.exit(f"abidw finds no description of {library}:\n{done.stdout}{done.stderr}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("library", type=Path)
    parser.add_argument("--stored", type=Path, default=STORED)
    parser.add_argument("--update", action="store_true", help="write the description anew")
    options = parser.parse_args()
    for tool in ("abidw", "abidiff"):
        if shutil.which(tool) is None:
            sys.exit(f"{tool} isn't installed; Debian's package is abigail-tools")

    with tempfile.TemporaryDirectory() as folder:
        now = Path(folder) / "now.abi"
        describe(options.library, now)
        if options.update and not options.stored.exists():
            options.stored.parent.mkdir(exist_ok=True)
            shutil.copy(now, options.stored)
            print(f"{options.stored}: written")
            return 0
        done = run("abidiff", "--no-default-suppression", options.stored, now)
        if done.returncode & FAILED:
            sys.exit(f"abidiff failed:\n{done.stdout}{done.stderr}")
        if not done.returncode & (CHANGED | INCOMPATIBLE):
            print("the ABI is the one described")
            return 0
        breaks = done.returncode & INCOMPATIBLE
        print(done.stdout)
        print(
            "Programs that were built before can break: the soname's number in src/c_api/CMakeLists.txt must change."
            if breaks
            else "Check that programs that were built before still run: abidiff can't tell for changed types."
        )
        if options.update:
            shutil.copy(now, options.stored)
            print(f"{options.stored}: written")
            return 0
        print("If the change is intended: ./dev abi --update")
        return 1


if __name__ == "__main__":
    sys.exit(main())
