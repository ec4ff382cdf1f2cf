"""What a page is sent of a look: one bounded object, in which every number is a text already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from crossdock._text import quoted
from crossdock.cli.monitor import view
from crossdock.cli.monitor.look import Look
from crossdock.cli.monitor.rates import Row, Snapshot
from crossdock.cli.units import bytes_in_prose, in_time

MOST_ROWS = 256
_LONGEST_FILTER = 100
_MOST_FIELDS = 10


@dataclass(frozen=True)
class Choice:
    """What a page wants to see. What it asks for that isn't there is as if it hadn't asked."""

    name: view.ViewName = "consumers"
    order: int = view.FIRST_ORDER["consumers"]
    descending: bool = True
    wanted: str = ""
    row: str = ""

    @staticmethod
    def of(query: str) -> Choice:
        try:
            fields = dict(parse_qsl(query, max_num_fields=_MOST_FIELDS))
        except ValueError:
            fields = {}
        name: view.ViewName = next((one for one in view.COLUMNS if one == fields.get("view")), "consumers")
        asked = fields.get("order", "")
        known = asked.isascii() and asked.isdigit() and len(asked) < 4 and int(asked) < len(view.COLUMNS[name])
        return Choice(
            name,
            int(asked) if known else view.FIRST_ORDER[name],
            fields.get("descending", "true") == "true",
            fields.get("wanted", "")[:_LONGEST_FILTER],
            fields.get("row", "")[:_LONGEST_FILTER],
        )


def event_of(look: Look, choice: Choice) -> dict[str, Any]:
    columns = view.COLUMNS[choice.name]
    snapshot = look.snapshot
    rows = [] if snapshot is None else _rows(snapshot, choice)
    everything = [] if snapshot is None else view.rows_of(choice.name, snapshot)
    return {
        "title": f"{view.foreign(look.uri)} - crossdock top",
        "state": _state(look),
        "lost": look.error is not None,
        "about": [] if snapshot is None else view.about_server(look.uri, snapshot),
        "views": [] if snapshot is None else [_tab(name, snapshot) for name in view.COLUMNS],
        "view": choice.name,
        "columns": [(column.title, column.about, column.is_text) for column in columns],
        "order": choice.order,
        "descending": choice.descending,
        "rows": [(view.key_of(choice.name, row), view.cells(row, columns)) for row in rows[:MOST_ROWS]],
        "empty": _empty(choice, snapshot, everything),
        "more": _more(choice, snapshot, len(rows), len(everything)),
        "history": [round(rate) for rate in look.history],
        "highest": f"highest {bytes_in_prose(max(look.history))}/s" if look.history else "",
        "details": _details(snapshot, choice),
    }


def _rows(snapshot: Snapshot, choice: Choice) -> list[Row]:
    columns = view.COLUMNS[choice.name]
    found = view.matching(view.rows_of(choice.name, snapshot), columns, choice.wanted)
    return view.in_order(found, columns[choice.order], choice.descending)


def _state(look: Look) -> str:
    if look.error is None:
        return ""
    age = "" if look.snapshot is None else f" What is shown is {in_time(look.age)} old."
    return f"No server: {look.error} Trying again.{age}"


def _tab(name: view.ViewName, snapshot: Snapshot) -> tuple[str, str, str]:
    return (name, name.capitalize(), view.count_of(name, snapshot))


def _empty(choice: Choice, snapshot: Snapshot | None, everything: list[Row]) -> str:
    if snapshot is None:
        return "Connecting ..."
    return f"Nothing has {quoted(choice.wanted)} in it." if everything and choice.wanted else view.EMPTY[choice.name]


def _more(choice: Choice, snapshot: Snapshot | None, found: int, there: int) -> str:
    if snapshot is None:
        return ""
    parts = []
    if choice.wanted:
        parts.append(f"{found:,} of {there:,}")
    if found > MOST_ROWS:
        parts.append(f"the first {MOST_ROWS:,} of {found:,} are shown: filter, or sort by another column")
    if left_out := view.left_out(choice.name, snapshot):
        parts.append(f"{left_out:,} more that the server left out")
    return "; ".join(parts)


def _details(snapshot: Snapshot | None, choice: Choice) -> dict[str, Any] | None:
    if snapshot is None or not choice.row:
        return None
    for row in view.rows_of(choice.name, snapshot):
        if view.key_of(choice.name, row) == choice.row:
            return {"title": view.title_of(choice.name, row), "pairs": view.about_row(choice.name, row), "gone": False}
    return {"title": "", "pairs": [], "gone": True}
