#!/usr/bin/env python3
"""Draws docs/pictures/handoff.svg from the table of `./dev bench handoff` in docs/explanation/performance.md.

    tools/plot_handoff.py [--root FOLDER] [--check]

With --check it draws nothing, and exits with 1 if the picture isn't that of the table.
"""

import argparse
import math
import re
import sys
from pathlib import Path

TABLE = re.compile(r"^\| way \| 64 KiB \| 1 MiB \| 64 MiB \| 1 GiB \|\n\|[- |]+\|\n((?:\|.*\|\n)+)", re.MULTILINE)
PICTURE = Path("docs/pictures/handoff.svg")
SECONDS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
SIZES = ["64 KiB", "1 MiB", "64 MiB", "1 GiB"]
BYTES = [1 << 16, 1 << 20, 1 << 26, 1 << 30]

# The rows that are drawn, by their names in the table: class of the line, and label.
SHOWN = {
    "pyarrow Flight, Unix socket": ("other", "pyarrow Flight"),
    "pyarrow IPC stream, Unix socket": ("other dashed", "pyarrow IPC, socket"),
    "memcpy, one thread": ("other dotted", "memcpy"),
    "Crossdock, Python, spin": ("ours dashed", "Crossdock, Python"),
    "Crossdock, C++, spin": ("ours", "Crossdock, C++"),
}

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 62, 486, 24, 342
LEAST, MOST = 1e-6, 10.0

STYLE = """\
    .picture { color: #1f2328; font-family: sans-serif; --accent: #0b63c5; --soft: #d0d7de; }
    @media (prefers-color-scheme: dark) { .picture { color: #e6edf3; --accent: #6cb0ff; --soft: #3d444d; } }
    .picture text { fill: currentColor; font-size: 14px; }
    .picture .small { font-size: 12px; }
    .picture .grid { stroke: var(--soft); stroke-width: 1; }
    .picture .other { fill: none; stroke: currentColor; stroke-width: 1.6; }
    .picture .ours { fill: none; stroke: var(--accent); stroke-width: 2.6; }
    .picture .dashed { stroke-dasharray: 7 4; }
    .picture .dotted { stroke-dasharray: 2 3; }
    .picture .accent { fill: var(--accent); font-weight: bold; }"""


def measured(page: str) -> dict[str, list[float]]:
    """The rows of the table, in seconds."""
    table = TABLE.search(page)
    if table is None:
        raise ValueError("there is no table of hand-overs, which begins `| way | 64 KiB | 1 MiB | 64 MiB | 1 GiB |`")
    rows = {}
    for line in table[1].splitlines():
        way, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows[way] = [float(number) * SECONDS[unit] for number, unit in (cell.split() for cell in cells)]
    return rows


def x_of(size: int) -> float:
    share = math.log(size / BYTES[0]) / math.log(BYTES[-1] / BYTES[0])
    return LEFT + share * (RIGHT - LEFT)


def y_of(seconds: float) -> float:
    share = math.log(seconds / LEAST) / math.log(MOST / LEAST)
    return BOTTOM - share * (BOTTOM - TOP)


def drawn(rows: dict[str, list[float]]) -> str:
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-labelledby="handoff-title">',
        '  <title id="handoff-title">The time to hand a batch to another process, by its size, on logarithmic axes: '
        "Crossdock's doesn't grow.</title>",
        f"  <style>\n{STYLE}\n  </style>",
    ]
    for power in range(-6, 2):
        y = y_of(10.0**power)
        label = {-6: "1 µs", -5: "10 µs", -4: "100 µs", -3: "1 ms", -2: "10 ms", -1: "100 ms", 0: "1 s", 1: "10 s"}[
            power
        ]
        lines.append(f'  <path class="grid" d="M{LEFT} {y:.1f} H{RIGHT}"/>')
        lines.append(f'  <text class="small" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for size, name in zip(BYTES, SIZES, strict=True):
        x = x_of(size)
        lines.append(f'  <path class="grid" d="M{x:.1f} {TOP} V{BOTTOM}"/>')
        lines.append(f'  <text class="small" x="{x:.1f}" y="{BOTTOM + 20}" text-anchor="middle">{name}</text>')
    label_y = 0.0
    for way, (kind, label) in SHOWN.items():  # from the top to the bottom
        points = [f"{x_of(size):.1f} {y_of(seconds):.1f}" for size, seconds in zip(BYTES, rows[way], strict=True)]
        lines.append(f'  <path class="{kind}" d="M{" L".join(points)}"/>')
        accent = ' class="accent"' if kind.startswith("ours") else ""
        label_y = max(label_y + 16, y_of(rows[way][-1]) + 5)
        lines.append(f'  <text{accent} x="{RIGHT + 8}" y="{label_y:.1f}">{label}</text>')
    middle = (LEFT + RIGHT) / 2
    text = "A batch to another process, 8 columns, a byte of each read; both axes are logarithmic"
    lines.append(f'  <text class="small" x="{middle:.1f}" y="{HEIGHT - 14}" text-anchor="middle">{text}</text>')
    return "\n".join([*lines, "</svg>", ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--check", action="store_true", help="draw nothing, and say whether the picture is right")
    arguments = parser.parse_args()
    pages = sorted((arguments.root / "docs" / "explanation").glob("**/*.md"))
    (page,) = [text for text in (path.read_text() for path in pages) if TABLE.search(text)]
    picture = drawn(measured(page))
    path = arguments.root / PICTURE
    if not arguments.check:
        path.write_text(picture)
    elif not path.exists() or path.read_text() != picture:
        print(f"{PICTURE} isn't that of the table: run tools/plot_handoff.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
