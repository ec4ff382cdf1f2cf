"""What commands print: tables, sizes, and what they need to read files."""

from __future__ import annotations

import datetime
import importlib
import json
import math
from base64 import b64encode
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

from crossdock._text import counted, shown
from crossdock.cli.layout import table_lines, terminal_width, wrapped
from crossdock.cli.reporting import MissingPackageError


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Set[int] = frozenset()) -> int:
    """Prints a table of foreign texts. Returns the number of columns that were left out."""
    safe = [[shown(cell) for cell in row] for row in (header, *rows)]
    lines, left_out = table_lines(safe[0], safe[1:], right=right, width=terminal_width())
    for line in lines:
        print(line)
    return left_out


def print_left_out(columns: int, rows: int = 0, hint: str = "") -> None:
    """Prints a line under a table that doesn't show so many columns and rows. Prints nothing if it shows all."""
    parts = [counted(count, f"more {one}") for count, one in ((rows, "row"), (columns, "column")) if count]
    if parts:
        print(wrapped(f"... and {', '.join(parts)}{hint}", terminal_width()))


def pyarrow_for(path: Path, doing: str) -> Any:
    """Imports pyarrow and its module for this file, which takes longer than writing a small table."""
    try:
        import pyarrow
    except ImportError:
        raise MissingPackageError(f"{doing} {path} needs pyarrow: pip install pyarrow") from None
    if path.suffix.lower() in (".parquet", ".csv"):
        importlib.import_module(f"pyarrow.{path.suffix.lower()[1:]}")
    return pyarrow


def number(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def print_json(value: Any) -> None:
    print(json.dumps(value), flush=True)


def json_value(value: Any) -> Any:
    """Returns what JSON has for a value: NaN and infinities become null, bytes base64, times ISO 8601, and all
    others texts."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: json_value(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(one) for one in value]
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    return value if value is None or isinstance(value, (int, str)) else str(value)
