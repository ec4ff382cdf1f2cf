"""The fuzz targets under libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer, each a kind of its own."""

from __future__ import annotations

import re
import subprocess
from functools import partial

from tests.soak.totals import PARSERS
from tests.soak.unit import ROOT, Kind, Unit

BUILD = ROOT / "build" / "fuzz"
# Three units of four try short inputs only, several times as many in the same time: a corpus that has grown is mostly
# long ones, which cost most and seldom reach code that short ones don't.
SHORT = "-max_len=1024"


def missing(name: str) -> str | None:
    program = BUILD / "tests" / "fuzz" / f"fuzz_{name}"
    return None if program.exists() else f"{program.relative_to(ROOT)} isn't built"


def fuzz(unit: Unit, name: str) -> None:
    grown = BUILD / "corpus" / name  # what it learns; the committed corpus is only read
    findings = BUILD / "findings"
    for folder in (grown, findings):
        folder.mkdir(parents=True, exist_ok=True)
    command = [
        BUILD / "tests" / "fuzz" / f"fuzz_{name}",
        *([] if unit.seed % 4 == 0 else [SHORT]),
        f"-seed={unit.seed % (1 << 31) + 1}",  # 0 would mean a random one
        f"-max_total_time={max(1, round(unit.seconds))}",
        "-timeout=20",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        f"-artifact_prefix={findings}/{name}-",
        grown,
        ROOT / "tests" / "fuzz" / "corpus" / name,
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    said = done.stdout.decode(errors="replace")
    executed = re.search(r"stat::number_of_executed_units:\s*(\d+)", said)
    if executed:
        unit.count(f"executions of {name}", int(executed[1]))
    if done.returncode != 0:
        print(said[-20_000:])
        written = re.search(r"Test unit written to (\S+)", said)
        unit.finding(f"the fuzzer ended with status {done.returncode}; its input: {written[1] if written else 'none'}")
    elif not executed:
        unit.finding("the fuzzer doesn't say how many inputs it tried")


KINDS = [
    Kind(f"fuzz-{name}", f"libFuzzer on {name}", partial(fuzz, name=name), (f"executions of {name}",),
         partial(missing, name), "fuzz")
    for name in PARSERS
]  # fmt: skip
