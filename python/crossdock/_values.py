"""Elements of columns as Python objects, and as texts: what the native module leaves to Python."""

from __future__ import annotations

import datetime
import functools
import re
import zoneinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from crossdock._text import counted, quoted, shown
from crossdock.errors import ExportError, InvalidDataError, UnsupportedTypeError

if TYPE_CHECKING:
    from crossdock._native import Column, RecordBatch

_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")


def decimal(number: bytes, scale: int) -> Decimal:
    """Returns the decimal of an unscaled number, little-endian with a sign: exactly, whatever decimal's context is."""
    return Decimal(f"{int.from_bytes(number, 'little', signed=True)}E{-scale}")


@functools.lru_cache(maxsize=64)
def _zone(name: str) -> datetime.tzinfo:
    offset = _OFFSET.fullmatch(name)
    try:
        if offset is None:
            return zoneinfo.ZoneInfo(name)
        minutes = int(offset[2]) * 60 + int(offset[3])
        return datetime.timezone(datetime.timedelta(minutes=minutes if offset[1] == "+" else -minutes))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        text = f"the time zone {quoted(name)} isn't known here; column.values has the moments, in UTC"
        raise InvalidDataError(text) from None


def in_zone(moment: datetime.datetime, zone: str) -> datetime.datetime:
    """Returns a moment in UTC in an Arrow time zone: a name as "Europe/Paris", or an offset as "+02:00"."""
    try:
        return moment.astimezone(_zone(zone))
    except OverflowError:
        raise ValueError(
            f"{moment} is outside of the years 1 to 9999 in {quoted(zone)}; column.values has it"
        ) from None


def _names(batch: RecordBatch) -> list[str]:
    names = batch.schema.names
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UnsupportedTypeError(
            f"two columns have the name {quoted(twice)}, which a dict can't have; batch[i] has each"
        )
    return names


def columns_of(batch: RecordBatch) -> dict[str, list[Any]]:
    return {name: column.to_pylist() for name, column in zip(_names(batch), batch, strict=True)}


def rows_of(batch: RecordBatch) -> list[dict[str, Any]]:
    names = _names(batch)
    if not names:
        return [{} for _ in range(len(batch))]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns_of(batch).values(), strict=True)]


# Texts that people read.

_MOST_ROWS = 10
_MOST_COLUMNS = 8
_MOST_OF_A_CELL = 32


def _cut(text: str) -> str:
    safe = shown(text, 4 * _MOST_OF_A_CELL)
    return safe if len(safe) <= _MOST_OF_A_CELL else safe[: _MOST_OF_A_CELL - 1] + "…"


def _plain(value: Any) -> str:
    """Returns a value as people read it: null, bytes in hexadecimal, texts without quotes."""
    if value is None:
        return "null"
    if value is ...:
        return "…"
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, list):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_plain, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_plain(one)}' for key, one in value.items())}}}"
    return str(value)


def text_of(column: Column, index: int) -> str:
    """Returns an element as a text: whole, but for nanoseconds."""
    try:
        return _plain(column[index])
    except InvalidDataError:
        raise
    except ValueError:
        return _plain(column._shown(index))


def short_text(column: Column, index: int) -> str:
    """Returns the beginning of an element as a text: of bounded length, whatever the element is."""
    return _plain(column._shown(index))


def cell(column: Column, index: int) -> str:
    """Returns the beginning of an element as a short text of one line."""
    return _cut(short_text(column, index))


def column_text(column: Column) -> str:
    """Returns what the column is, and below it its first elements, if the host can read them."""
    elements = counted(len(column), "element")
    summary = f"<crossdock.Column {shown(column.name, 100)!r}: {shown(column.type, 100)}, {elements}>"
    try:
        cells = [cell(column, i) for i in range(min(len(column), _MOST_ROWS))]
    except (ExportError, InvalidDataError, ValueError) as error:
        return f"{summary}\n({error})"
    return f"{summary}\n[{', '.join(cells)}{', ...' if len(column) > len(cells) else ''}]"


def batch_text(batch: RecordBatch, summary: str) -> str:
    """Returns the summary, and below it the first rows, if the host can read them."""
    columns = [batch[i] for i in range(min(batch.num_columns, _MOST_COLUMNS))]
    if not columns:
        return summary
    rows = range(min(len(batch), _MOST_ROWS))
    try:
        cells = [[_cut(column.name), *(cell(column, i) for i in rows)] for column in columns]
    except (ExportError, InvalidDataError, ValueError) as error:
        return f"{summary}\n({error})"
    widths = [max(map(len, one)) for one in cells]
    lines = [
        "  ".join(one[i].ljust(width) for one, width in zip(cells, widths, strict=True)).rstrip()
        for i in range(len(rows) + 1)
    ]
    left_out = ((len(batch) - len(rows), "more row"), (batch.num_columns - len(columns), "more column"))
    more = [counted(count, what) for count, what in left_out if count]
    return "\n".join([summary, *lines, *([f"... and {', '.join(more)}"] if more else [])])
