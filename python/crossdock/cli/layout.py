"""Tables in plain text: cut to the width of a terminal, and complete if the output isn't a terminal."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence, Set
from typing import TextIO

from rich.cells import cell_len, set_cell_size

_GAP = "  "
# The width that cells are cut to if the table is too wide for the terminal.
_NARROW = 24
_NARROWEST = 8  # The least width of the last column; with less room it is left out.


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Returns the width of the terminal that `stream` (default: stdout) writes to, or None if it isn't a terminal."""
    return shutil.get_terminal_size().columns if (stream or sys.stdout).isatty() else None


def wrapped(text: str, width: int | None) -> str:
    """Wraps `text` between words at `width`, and indents the lines after the first. Without a width, returns `text`."""
    if width is None:
        return text
    return textwrap.fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def fitted(widths: Sequence[int], width: int) -> list[int]:
    """Returns the widths of the columns that are shown in `width`: as many from the left as fit, and at least one.

    If not all columns fit, wide columns are cut to `_NARROW`, and the last one to the room that is left, if that is at
    least `_NARROWEST`. Room that is left over goes to the cut columns, from the left.
    """
    if sum(widths) + len(_GAP) * (len(widths) - 1) <= width:
        return list(widths)
    shown: list[int] = []
    left = width
    for i, one in enumerate(widths):
        cut = min(one, _NARROW)
        gap = len(_GAP) if shown else 0
        if i == len(widths) - 1 and left - gap >= _NARROWEST:
            cut = min(cut, left - gap)
        needed = cut + gap
        if needed > left and shown:
            break
        shown.append(min(cut, left))
        left -= needed
    for i, now in enumerate(shown):
        more = min(widths[i] - now, max(left, 0))
        shown[i] += more
        left -= more
    return shown


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def _aligned(text: str, width: int, right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def table_lines(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Set[int] = frozenset(),
    width: int | None = None,
) -> tuple[list[str], int]:
    """Returns the lines of a table, and the number of columns that were left out because there is no room.

    Each cell must be a text of one line. Columns in `right` are aligned to the right. Without a width, nothing is cut.
    """
    everything = (header, *rows)
    widths = [max(cell_len(row[i]) for row in everything) for i in range(len(header))]
    kept = widths if width is None else fitted(widths, width)
    lines = [
        _GAP.join(_aligned(_cut(row[i], room), room, i in right) for i, room in enumerate(kept)).rstrip()
        for row in everything
    ]
    return lines, len(widths) - len(kept)
