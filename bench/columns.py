"""C++'s typed columns and builders beside loops over bare memory, and the time that the main header costs a compiler.

  ./dev bench columns [--quick] [--out FOLDER]

Measured in turns over a million rows in one program, which is compiled as the library is. The header: `g++ -std=c++20`
of a file that includes `crossdock/crossdock.hpp` alone, checked (`-fsyntax-only`) and compiled (`-c`, without and with
`-O2`). Writes build/bench/columns.json.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

from bench import _report
from bench._children import ROOT, build_folder, build_tree, measure, program
from bench._report import Target, duration, median

MOST = {"sum of values()": 1.05}


def processor_time_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def time_header(flags: list[str], rounds: int) -> float:
    """The median of the compiler's processor time, in seconds, for a file that includes the main header."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        raise SystemExit("the header's cost needs a C++ compiler")
    includes = [f"-I{ROOT / 'include'}", f"-I{build_tree() / 'include'}"]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "one.cc"
        source.write_text("#include <crossdock/crossdock.hpp>\n")
        seconds = []
        for _ in range(rounds):
            start = processor_time_of_children()
            subprocess.run([compiler, "-std=c++20", *includes, *flags, source], check=True, cwd=folder)
            seconds.append(processor_time_of_children() - start)
    return median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench columns", description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a look at everything; the numbers mean little")
    parser.add_argument("--out", type=Path, help="the folder for the results; build/bench if it isn't given")
    given = parser.parse_args()

    info = _report.machine()
    _report.print_machine(info)
    found = measure(program("columns", pairs=5 if given.quick else 201))
    rows = found.pop("rows")
    _report.print_table(
        f"Columns of {rows:,} rows; medians of pairs in turns",
        ["case", "ours", "bare loop", "ratio"],
        [
            [name, duration(case["ours"]), duration(case["bare"]), f"{case['ratio']:.3f}"]
            for name, case in found.items()
        ],
    )
    headers = {
        " ".join(flags): time_header(flags, 1 if given.quick else 7)
        for flags in (["-fsyntax-only"], ["-c"], ["-c", "-O2"])
    }
    _report.print_table(
        "A file that includes crossdock/crossdock.hpp alone",
        ["g++ -std=c++20", "time"],
        [[flags, f"{seconds:.2f} s"] for flags, seconds in headers.items()],
    )
    targets = [
        Target(f"{name}, beside a bare loop", found[name]["ratio"], most, True, "x") for name, most in MOST.items()
    ]
    targets += [Target(f"the main header, {flags}", seconds, 1, True, "s") for flags, seconds in headers.items()]
    _report.print_targets(targets)
    result = {"machine": info, "quick": given.quick, "rows": rows, "cases": found, "header_seconds": headers}
    _report.write_json((given.out or build_folder()) / "columns.json", result, targets)


if __name__ == "__main__":
    main()
