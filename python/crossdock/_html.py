"""Objects as HTML, for notebooks: what their `_repr_html_()` returns.

The size has a limit, whatever is shown: the first rows and columns, and the beginning of long texts. Foreign text is
escaped. No memory of a device is read, no device is waited for, no server is asked, and nothing is consumed. There are
no colours but those of the page, so that it can be read on dark and on light ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from crossdock._names import shown_name
from crossdock._text import counted, shown
from crossdock._values import short_text
from crossdock.errors import Error

if TYPE_CHECKING:
    from crossdock._check.report import Report
    from crossdock._native import FileReader, RecordBatch, RecordBatchReader, Schema, Tensor
    from crossdock.server import Server
    from crossdock.table import Table

_ROWS = 10  # of a batch
_COLUMNS = 20  # of a batch
_LINES = 50  # of other tables: the fields of a schema, for example
_LONGEST = 80  # characters of one text
_VALUE = 40  # characters of one value, and of the name above it

_CELL = (
    "padding:0.15em 0.6em;border:none;border-bottom:1px solid rgba(128,128,128,0.35);text-align:{};vertical-align:top"
)
_TABLE = "border-collapse:collapse;border:none;margin:0.3em 0;font-size:0.9em;background:transparent;color:inherit"
_SMALL = "opacity:0.7;font-weight:normal"


def _text(text: object, limit: int = _LONGEST) -> str:
    """A foreign text: on one line, cut, and escaped."""
    text = str(text)
    return escape(shown(text[:limit])) + ("…" if len(text) > limit else "")


def _cells(tag: str, cells: Iterable[str], right: Sequence[bool]) -> str:
    aligned = ("right" if one else "left" for one in right)
    return "".join(
        f'<{tag} style="{_CELL.format(side)}">{one}</{tag}>' for one, side in zip(cells, aligned, strict=True)
    )


def _table(
    header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool] | None = None, more: str = ""
) -> str:
    """A table of cells that are HTML already. `right`: the columns of numbers; `more`: of its style."""
    right = right or [False] * len(header)
    head = f"<thead><tr>{_cells('th', header, right)}</tr></thead>" if any(header) else ""
    body = "".join(f"<tr style='background:transparent'>{_cells('td', row, right)}</tr>" for row in rows)
    return f'<table style="{_TABLE}{more}">{head}<tbody>{body}</tbody></table>'


def _properties(rows: dict[str, object | None]) -> str:
    """A table of names and values, without those that are None."""
    return _table(("", ""), [(f"<b>{name}</b>", _text(value)) for name, value in rows.items() if value is not None])


def _page(name: str, about: str, *parts: str) -> str:
    more = f' <span style="{_SMALL}">{about}</span>' if about else ""
    return f"<div style='overflow-x:auto;max-width:100%'><div><b>crossdock.{name}</b>{more}</div>{''.join(parts)}</div>"


def _note(text: str) -> str:
    return f'<div style="{_SMALL}">{text}</div>' if text else ""


def _left_out(count: int, what: str) -> str:
    return _note(f"and {counted(count, what)} more") if count > 0 else ""


def _rows(batch: RecordBatch, columns: int, rows: int) -> list[list[str]] | None:
    """The beginnings of the first values of a batch: row by row. None where the host can't read them now, and for
    damaged ones."""
    if batch.device.type != "cpu" or not batch._ready:
        return None
    there = [batch[i] for i in range(min(columns, batch.num_columns))]
    try:
        return [[short_text(column, row) for column in there] for row in range(min(rows, batch.num_rows))]
    except (Error, ValueError):
        return None


# ---- Objects --------------------------------------------------------------------------------------------------------


def _fields(schema: Schema) -> str:
    fields = [(_text(name), _text(kind)) for name, kind in schema._first_fields(_LINES)]
    return _table(("column", "type"), fields) + _left_out(len(schema) - len(fields), "column")


def of_schema(schema: Schema) -> str:
    return _page("Schema", counted(len(schema), "column"), _fields(schema))


def of_batch(batch: RecordBatch) -> str:
    about = f"{counted(batch.num_rows, 'row')}, {counted(batch.num_columns, 'column')}, {counted(batch.nbytes, 'byte')}"
    if batch.device.type != "cpu":
        about += f" on {_text(batch.device)}"
    rows = _rows(batch, _COLUMNS, _ROWS)
    if rows is None:
        return _page("RecordBatch", about, _fields(batch.schema))
    fields = batch.schema._first_fields(_COLUMNS)
    header = [f'{_text(name, _VALUE)}<br><span style="{_SMALL}">{_text(kind, _VALUE)}</span>' for name, kind in fields]
    numbers = [kind.startswith(("int", "uint", "float", "decimal")) for _, kind in fields]
    table = (
        _table(header, ([_text(one, _VALUE) for one in row] for row in rows), numbers, ";white-space:nowrap")
        if fields
        else ""
    )
    return _page(
        "RecordBatch",
        about,
        table,
        _left_out(batch.num_rows - len(rows), "row"),
        _left_out(batch.num_columns - len(fields), "column"),
    )


def of_reader(reader: RecordBatchReader) -> str:
    place = f", from {_text(reader.location)}" if reader.location else ""
    state = repr(reader).rpartition(", ")[2].rstrip(">")
    return _page(
        "RecordBatchReader",
        f"{counted(len(reader.schema), 'column')}, {_text(state)}{place}",
        _fields(reader.schema),
    )


def of_file(reader: FileReader) -> str:
    if reader.closed:
        return _page("FileReader", "closed")
    about = f"{counted(reader.num_rows, 'row')}, {counted(reader.num_batches, 'batch', 'batches')}"
    return _page("FileReader", about, _fields(reader.schema))


def of_tensor(tensor: Tensor, strides: tuple[int, ...] | None) -> str:
    """`strides`: those to show; None for C order."""
    rows: dict[str, object | None] = {
        "shape": tensor.shape,
        "dtype": tensor.dtype,
        "device": tensor.device,
        "usm_type": tensor.usm_type,
        "bytes": f"{tensor.nbytes:,}",
        "strides": strides,
        "read-only": "yes" if tensor.readonly else None,
        "mask": None if tensor.mask is None else "yes",
    }
    return _page("Tensor", "", _properties(rows))


def of_table(table: Table) -> str:
    chosen = table.columns
    names = [[_text(one)] for one in (chosen or [])[:_LINES]]
    return _page(
        "Table",
        f"{_text(shown_name(table.name))}, {'all columns' if chosen is None else counted(len(chosen), 'column')}",
        _table(("column",), names) + _left_out(len(chosen or []) - len(names), "column") if names else "",
        _note("read by to_pandas(), to_polars() and to_arrow(); the server is asked then"),
    )


def of_server(server: Server) -> str:
    if server.closed:
        return _page("Server", "closed")
    sources = server.stats()["sources"]
    count: Callable[[Any], str] = lambda value: "" if value is None else f"{value:,}"  # noqa: E731
    rows = [
        (
            _text(shown_name(one["name"])),
            _text(one["kind"]),
            count(one["rows"]),
            count(one["bytes"]),
            count(one["streams"]),
        )
        for one in sources[:_LINES]
    ]
    return _page(
        "Server",
        ", ".join(_text(uri) for uri in server.uris[:_LINES]),
        _table(("name", "kind", "rows", "bytes", "streams"), rows, [False, False, True, True, True]),
        _left_out(len(sources) - len(rows), "source"),
    )


def of_report(report: Report) -> str:
    findings = list(report)
    rows = [
        (f"<b>{one.severity}</b>", _text(one.rule), _text(one.protocol), _text(one.message, 300), _text(one.wants, 300))
        for one in findings[:_LINES]
    ]
    about = f"of {_text(report.what)}: {'right' if report.ok else 'wrong'}, {_text(str(report).rpartition(chr(10))[2])}"
    return _page(
        "check",
        about,
        _table(("severity", "rule", "protocol", "found", "wants"), rows) if rows else "",
        _left_out(len(findings) - len(rows), "finding"),
        _note(f"exercised {_text(', '.join(report.protocols), 300)}"),
    )
