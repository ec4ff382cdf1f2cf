"""Rates of a server, its consumers and its tables, from the counters in its statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]

COUNTERS = ("batches", "rows", "bytes")


def per_second(counter: str) -> str:
    return f"{counter}_per_second"


@dataclass(frozen=True)
class Snapshot:
    """A server at one moment. `stats` are its own words; the rows add rates, which are None where they aren't known."""

    stats: Mapping[str, Any]
    seconds: float | None
    """The time that the rates are over; None of the first snapshot of a server."""
    totals: Row
    consumers: list[Row]
    tables: list[Row]


class Rates:
    """Turns statistics, one snapshot after another, into rates.

    The time between two is the difference of the server's uptimes: neither the network nor this machine's clock is part
    of it. A server that was started again begins anew. Not thread-safe.
    """

    def __init__(self) -> None:
        self._last: Mapping[str, Any] | None = None
        self._consumers: dict[int, Row] = {}

    def add(self, stats: Mapping[str, Any]) -> Snapshot:
        last = self._last
        if last is not None and (stats["pid"] != last["pid"] or stats["uptime"] < last["uptime"]):
            last = None  # Another server is at this address now.
        if last is None:
            self._consumers = {}
        seconds = None if last is None else float(stats["uptime"] - last["uptime"]) or None
        totals = _rates(stats, last, ("streams", *COUNTERS), seconds)
        # A consumer that wasn't listed before is new, unless the list was cut.
        new = dict.fromkeys(COUNTERS, 0) if last is not None and not last["consumers_left_out"] else None
        consumers = [self._consumer(one, new, seconds) for one in stats["consumers"]]
        before = {} if last is None else {one["name"]: one for one in last["sources"]}
        tables = _tables(stats["sources"], before, consumers, seconds)
        self._last = stats
        self._consumers = {one["id"]: one for one in consumers}
        return Snapshot(stats, seconds, totals, consumers, tables)

    def _consumer(self, now: Mapping[str, Any], new: Mapping[str, Any] | None, seconds: float | None) -> Row:
        before = self._consumers.get(now["id"])
        return {**now, **_rates(now, new if before is None else before, COUNTERS, seconds)}


def _rates(
    now: Mapping[str, Any], before: Mapping[str, Any] | None, counters: Iterable[str], seconds: float | None
) -> Row:
    """Returns the rates of counters. One that has decreased is unknown: what happened between can't be said."""
    known = before is not None and seconds is not None
    rates: Row = {}
    for counter in counters:
        rate = None
        if known and before is not None and seconds is not None and now[counter] >= before[counter]:
            rate = (now[counter] - before[counter]) / seconds
        rates[per_second(counter)] = rate
    return rates


def _tables(
    sources: Iterable[Mapping[str, Any]],
    before: Mapping[str | bytes, Mapping[str, Any]],
    consumers: Iterable[Row],
    seconds: float | None,
) -> list[Row]:
    """Returns a row for each source: its own words, and sums over the consumers that read it, or have read it last."""
    readers: dict[str | bytes, list[Row]] = {}
    held: dict[str | bytes, int] = {}
    for one in consumers:
        readers.setdefault(one["name"], []).append(one)
        holds = one["name"] or one["previous"]
        held[holds] = held.get(holds, 0) + one["leased_bytes"]
    rows = []
    for source in sources:
        reading = readers.get(source["name"], [])
        row = {**source, **_rates(source, before.get(source["name"]), ("streams",), seconds)}
        row["readers"] = len(reading)
        for counter in COUNTERS:
            rates = [one[per_second(counter)] for one in reading]
            row[per_second(counter)] = None if None in rates or seconds is None else sum(rates)
        row["leased_bytes"] = held.get(source["name"], 0)
        rows.append(row)
    return rows
