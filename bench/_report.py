"""What a benchmark found: tables for people, JSON for programs, and the targets beside what was measured."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

# Wide enough for every column also where there is no terminal.
console = Console(width=None if Console().is_terminal else 140)


@dataclass
class Target:
    """What the project promised, beside what this run gave."""

    name: str
    measured: float
    bound: float
    at_most: bool
    unit: str

    @property
    def met(self) -> bool:
        return self.measured <= self.bound if self.at_most else self.measured >= self.bound


def machine() -> dict[str, Any]:
    """What the numbers depend on, in words that name no machine."""
    import pyarrow as pa

    info = platform.freedesktop_os_release() if Path("/etc/os-release").exists() else {}
    return {
        "cores": os.cpu_count(),
        "system": f"{info.get('PRETTY_NAME', platform.system())}, kernel {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "pyarrow": pa.__version__,
        "load_average": [round(value, 2) for value in os.getloadavg()],
    }


def print_machine(info: dict[str, Any]) -> None:
    console.print(
        f"{info['cores']} cores, {info['system']}, Python {info['python']}, pyarrow {info['pyarrow']}; "
        f"load average at the start {info['load_average'][0]}"
    )
    if info["load_average"][0] > 0.5:
        console.print("[yellow]The machine is busy with other work: look at ratios, and run again when it is idle.[/]")


def print_table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=i == 0)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def print_targets(targets: list[Target]) -> None:
    print_table(
        "What it must reach",
        ["measure", "measured", "target", ""],
        [
            [
                target.name,
                f"{target.measured:,.4g} {target.unit}",
                f"{'≤' if target.at_most else '≥'} {target.bound:,g} {target.unit}",
                "[green]met[/]" if target.met else "[red]missed[/]",
            ]
            for target in targets
        ],
    )


def write_json(path: Path, result: dict[str, Any], targets: list[Target]) -> None:
    result = {**result, "targets": [{**asdict(target), "met": target.met} for target in targets]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    console.print(f"written: {path}")


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def duration(ns: float | None) -> str:
    """Nanoseconds as people read them, to three digits."""
    if ns is None:
        return "-"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}" if ns / size < 999.5 else f"{ns / size:.0f} {unit}"
    return f"{ns:.0f} ns"


def size(n: int) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= scale:
            return f"{n / scale:g} {unit}"
    return f"{n} B"
