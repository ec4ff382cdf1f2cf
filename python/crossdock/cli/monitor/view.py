"""What is shown of a server, the same in text, on a terminal and on a page: columns, their order, and lines about one
row. Every text that is returned is safe for a terminal, on one line, and bounded."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from crossdock._names import shown_name
from crossdock._text import shown
from crossdock.cli.monitor.rates import Row, Snapshot, per_second
from crossdock.cli.units import UNKNOWN, bytes_in_prose, in_bytes, in_counts, in_full, in_prose, in_time

Pairs = list[tuple[str, str]]
ViewName = Literal["consumers", "tables", "rejected"]

_LONGEST = 200  # Characters of a foreign text.
_MOST_REASONS = 8  # In one line.

REJECTIONS = {
    "version": "no version of the protocol in common",
    "not_allowed": "the user, the token or the certificate isn't allowed",
    "malformed": "the handshake breaks the rules",
    "late": "there was no handshake in time",
    "full": "there are max_connections already",
    "resources": "no memory or descriptors are left, or too many handshakes are under way",
    "protection": "one end demands TLS or checksums, and the other has none",
}


def foreign(text: str | bytes | None) -> str:
    return UNKNOWN if text is None else shown(shown_name(text), _LONGEST)


@dataclass(frozen=True)
class Column:
    title: str
    value: Callable[[Row], Any]
    """What rows are sorted by."""
    text: Callable[[Row], str]
    width: int
    """On a terminal."""
    about: str
    is_text: bool = False


def _number(title: str, key: str, form: Callable[[Any], str], width: int, about: str) -> Column:
    return Column(title, lambda row: row[key], lambda row: form(row[key]), width, about)


def _words(title: str, text: Callable[[Row], str], width: int, about: str) -> Column:
    return Column(title, text, text, width, about, is_text=True)


def _client(row: Row) -> str:
    if row["pid"]:
        return f"process {row['pid']}{' (this)' if row['pid'] == os.getpid() and row['carrier'] == 'shm' else ''}"
    return foreign(row["peer"]) or UNKNOWN


def _reads(row: Row) -> str:
    if row["name"]:
        return foreign(row["name"])
    return f"({foreign(row['previous'])})" if row["previous"] else ""


def _by(row: Row) -> str:
    return foreign(f"{row['carrier']} {row['way'] or ''}".strip())


_BYTES, _COUNT, _TIME = 10, 8, 11

_RATES = [
    _number("data/s", per_second("bytes"), in_bytes, _BYTES, "bytes of batches sent in a second"),
    _number("batches/s", per_second("batches"), in_counts, 10, "batches sent in a second"),
    _number("rows/s", per_second("rows"), in_counts, _COUNT, "rows sent in a second"),
]

CONSUMERS = [
    _words("consumer", _client, 22, "the process, or the address of one on another machine"),
    _words("reads", _reads, 18, "the stream that it reads; in parentheses, the one that it has read last"),
    *_RATES,
    _number("held", "leased_bytes", in_bytes, _BYTES, "memory of the server that it holds by leases"),
    _number("held for", "oldest_lease", in_time, _TIME, "age of its oldest lease"),
    _number("leases", "leases", in_full, _COUNT, "buffers that it holds"),
    _number("behind", "in_flight", in_full, 7, "messages that were sent to it and that it has not taken"),
    _words("by", _by, 11, "what moves the bytes, and the way of its stream"),
    _number("data", "bytes", in_bytes, _BYTES, "bytes of batches sent since it connected"),
    _number("batches", "batches", in_counts, _COUNT, "batches sent since it connected"),
    _number("rows", "rows", in_counts, _COUNT, "rows sent since it connected"),
    _number("by value", "bytes_by_value", in_bytes, _BYTES, "the part of its data that was sent by value"),
]

TABLES = [
    _words("table", lambda row: foreign(row["name"]), 24, "its name"),
    _number("readers", "readers", in_full, _COUNT, "consumers that read it now"),
    *_RATES,
    _number(
        "held",
        "leased_bytes",
        in_bytes,
        _BYTES,
        "memory held by consumers that read it, or have read it last",
    ),
    _number("streams", "streams", in_full, _COUNT, "streams that were started since it was published"),
    _number("streams/s", per_second("streams"), in_counts, 10, "streams started in a second"),
    _words("kind", lambda row: foreign(row["kind"]), 8, "what was published"),
    _number("rows", "rows", in_counts, _COUNT, "its rows"),
    _number("size", "bytes", in_bytes, _BYTES, "its bytes"),
    _number("copied", "bytes_copied", in_bytes, _BYTES, "bytes that were copied to serve it"),
]

REJECTED = [
    _number("rejected", "count", in_full, _COUNT, "clients since the server's start"),
    _words("reason", lambda row: foreign(row["reason"]), 12, "as the server counts it"),
    _words("what it means", lambda row: REJECTIONS.get(row["reason"], ""), 60, ""),
]

COLUMNS: dict[ViewName, list[Column]] = {"consumers": CONSUMERS, "tables": TABLES, "rejected": REJECTED}
# What is shown first is what costs most.
FIRST_ORDER: dict[ViewName, int] = {"consumers": 2, "tables": 2, "rejected": 0}
EMPTY: dict[ViewName, str] = {
    "consumers": "No consumer is connected.",
    "tables": "Nothing is published.",
    "rejected": "No client was rejected since the server's start.",
}


def rows_of(view: ViewName, snapshot: Snapshot) -> list[Row]:
    if view == "consumers":
        return snapshot.consumers
    if view == "tables":
        return snapshot.tables
    rows = [
        {"reason": reason, "count": count} for reason, count in snapshot.stats["rejected_connections"].items() if count
    ]
    broken = snapshot.stats["protocol_errors"]
    return [*rows, *([{"reason": "protocol_errors", "count": broken}] if broken else [])]


def left_out(view: ViewName, snapshot: Snapshot) -> int:
    """How many rows the server has left out of its answer."""
    if view == "rejected":
        return 0
    return int(snapshot.stats["consumers_left_out" if view == "consumers" else "sources_left_out"])


def key_of(view: ViewName, row: Row) -> str:
    """A short text that stands for one row as long as it is there."""
    if view == "consumers":
        return str(row["id"])
    name = row["reason" if view == "rejected" else "name"]
    return hashlib.sha256(name.encode() if isinstance(name, str) else b"\xff" + name).hexdigest()[:24]


def in_order(rows: Iterable[Row], column: Column, descending: bool) -> list[Row]:
    """Sorts rows by a column. What isn't known comes last, and equal rows stay as the server listed them."""
    known = [(column.value(row), row) for row in rows]
    there = [pair for pair in known if pair[0] is not None]
    there.sort(key=lambda pair: pair[0], reverse=descending)
    return [row for _, row in there] + [row for value, row in known if value is None]


def matching(rows: Sequence[Row], columns: Sequence[Column], wanted: str) -> list[Row]:
    """The rows of which a text has `wanted` in it, in any case."""
    if not wanted:
        return list(rows)
    texts = [column.text for column in columns if column.is_text]
    return [row for row in rows if any(wanted.casefold() in text(row).casefold() for text in texts)]


def cells(row: Row, columns: Iterable[Column]) -> list[str]:
    return [column.text(row) for column in columns]


def title_of(view: ViewName, row: Row) -> str:
    return COLUMNS[view][0 if view != "rejected" else 1].text(row)


def about_row(view: ViewName, row: Row) -> Pairs:
    """Everything that is known about one row."""
    pairs = [(column.title, in_prose(column.text(row))) for column in COLUMNS[view]]
    if view == "consumers":
        pairs[0] = ("peer", foreign(row["peer"]))
        pairs += [("window", f"{row['window']:,} messages"), ("why this way", foreign(row["why"]))]
    return pairs


def count_of(view: ViewName, snapshot: Snapshot) -> str:
    """How many there are, those that the server has left out among them; rejected clients are counted one by one."""
    rows = rows_of(view, snapshot)
    return in_full(sum(row["count"] for row in rows) if view == "rejected" else len(rows) + left_out(view, snapshot))


def about_server(uri: str, snapshot: Snapshot) -> Pairs:
    """The lines about the whole server."""
    stats, rates = snapshot.stats, snapshot.totals

    def counts(values: Mapping[str, Any], key: Callable[[str], str], per: str) -> str:
        return ", ".join(
            f"{in_prose(in_counts(values[key(name)]))} {name}{per}" for name in ("batches", "rows", "streams")
        )

    pairs = [
        (
            "server",
            f"{foreign(uri)}, up {in_time(stats['uptime'])}, crossdock {foreign(stats['version'])}, "
            f"process {stats['pid']}",
        ),
        ("now", f"{bytes_in_prose(rates[per_second('bytes')])}/s, {counts(rates, per_second, '/s')}"),
        (
            "in all",
            f"{bytes_in_prose(stats['bytes'])} ({bytes_in_prose(stats['bytes_by_value'])} by value), "
            f"{counts(stats, str, '')}, {in_full(stats['accepted_connections'])} accepted connections",
        ),
        (
            "held",
            f"{bytes_in_prose(stats['leased_bytes'])} in {in_full(stats['leases'])} buffers"
            + (f", the oldest for {in_time(stats['oldest_lease'])}" if stats["oldest_lease"] is not None else ""),
        ),
        ("rejected", _rejected(snapshot)),
    ]
    if "upstream" in stats:
        source = f"from {foreign(stats['upstream'])}" if stats["upstream"] else "not connected to its source"
        held = f"{bytes_in_prose(stats['bytes_used'])} of {bytes_in_prose(stats['max_memory'])} used"
        pairs.insert(1, ("relay", f"{source}, {held}, {stats['hits']:,} hits, {stats['fetches']:,} fetches"))
    return pairs


def _rejected(snapshot: Snapshot) -> str:
    rows = sorted(rows_of("rejected", snapshot), key=lambda row: -row["count"])
    if not rows:
        return "none"
    parts = [f"{row['count']:,} {foreign(row['reason'])}" for row in rows[:_MOST_REASONS]]
    if len(rows) > _MOST_REASONS:
        parts.append("others")
    return f"{sum(row['count'] for row in rows):,} ({', '.join(parts)})"
