"""The simulator's worlds: seeds that no run of this commit has tried yet."""

from __future__ import annotations

import os
import subprocess

from tests.soak.unit import ROOT, Kind, Unit

PROGRAM = ROOT / "build" / "dev" / "tests" / "simulation" / "simulation_tests"
AT_ONCE = 100


def missing() -> str | None:
    return None if PROGRAM.exists() else f"{PROGRAM.relative_to(ROOT)} isn't built"


def worlds(unit: Unit) -> None:
    first = unit.random.randrange(1, 1 << 48)
    for _ in unit.rounds():
        done = subprocess.run(
            [PROGRAM, "--gtest_filter=Simulation.EveryWorldDoesWhatTheModelSays"],
            env={**os.environ, "CROSSDOCK_SIM_FIRST": str(first), "CROSSDOCK_SIM_SEEDS": str(AT_ONCE)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0 or f"\n{AT_ONCE} worlds from {first} on\n" not in done.stdout:
            print(done.stdout)
            unit.finding(f"the simulation ended with status {done.returncode}: {done.stdout.strip()[-2000:]}")
            return
        unit.count("worlds", AT_ONCE)
        first += AT_ONCE


KINDS = [Kind("worlds", "simulated worlds", worlds, ("worlds",), missing)]
