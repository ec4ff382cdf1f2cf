"""One snapshot in plain text, and as an object for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crossdock._text import counted
from crossdock.cli.layout import table_lines, wrapped
from crossdock.cli.monitor import view
from crossdock.cli.monitor.rates import Snapshot
from crossdock.cli.output import print_json


def text_lines(uri: str, snapshot: Snapshot, width: int | None) -> list[str]:
    """Returns a line for each thing about the server, and the tables of consumers and of what is published. Without a
    width, nothing is cut."""
    lines = []
    pairs = view.about_server(uri, snapshot)
    label = max(len(title) for title, _ in pairs)
    for title, text in pairs:
        lines += wrapped(
            f"{title:<{label}}  {text}" if width is None or width >= 60 else f"{title}: {text}", width
        ).splitlines()
    for name in ("consumers", "tables"):
        lines += ["", *_table(name, snapshot, width)]
    return lines


def _table(name: view.ViewName, snapshot: Snapshot, width: int | None) -> list[str]:
    columns = view.COLUMNS[name]
    rows = view.in_order(view.rows_of(name, snapshot), columns[view.FIRST_ORDER[name]], True)
    left_out = view.left_out(name, snapshot)
    if not rows and not left_out:
        return [view.EMPTY[name]]
    right = frozenset(i for i, column in enumerate(columns) if not column.is_text)
    lines, cut = table_lines(
        [column.title for column in columns], [view.cells(row, columns) for row in rows], right=right, width=width
    )
    more = [counted(number, f"more {what}") for number, what in ((left_out, "row"), (cut, "column")) if number]
    if more:
        lines += wrapped(f"... and {', '.join(more)}", width).splitlines()
    return lines


def print_object(uri: str, snapshot: Snapshot) -> None:
    """Prints one line of JSON. A name that isn't text is null, with its bytes in hexadecimal as `ticket`; `previous`
    has `previous_ticket`."""
    print_json(
        {
            "uri": uri,
            "error": None,
            "seconds": snapshot.seconds,
            "server": {key: value for key, value in snapshot.stats.items() if key not in ("consumers", "sources")}
            | snapshot.totals,
            "consumers": [_named(row) for row in snapshot.consumers],
            "tables": [_named(row) for row in snapshot.tables],
        }
    )


def print_error_object(uri: str, error: str) -> None:
    print_json({"uri": uri, "error": error})


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    named = dict(row)
    for key, ticket in (("name", "ticket"), ("previous", "previous_ticket")):
        if key in row:
            name = row[key]
            named[key] = name if isinstance(name, str) else None
            named[ticket] = name.hex() if isinstance(name, bytes) else None
    return named
