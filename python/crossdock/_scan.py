"""Reads the parts of a table that a filter needs: the batch statistics decide which batches are requested."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crossdock import _native
from crossdock._rows import first_and_count
from crossdock.errors import InvalidArgumentError, InvalidDataError, ResourceError, TimeoutError, UnsupportedError

if TYPE_CHECKING:
    from crossdock._batch_statistics import BatchStatistics

_TRIES = 8
"""How often a table is asked for if it is replaced each time between its statistics and its data."""


@dataclass(frozen=True)
class Requests:
    """The requests of one table, with the options that its handle was made with."""

    get: Callable[..., _native.RecordBatchReader]
    """Of columns, and of `rows` or `batches`."""
    batch_statistics: Callable[[Sequence[str]], _native.RecordBatchReader | None]
    """Of columns; None: the server doesn't know such requests."""
    list: Callable[[], list[_native.CatalogEntry]]


def ranges_of(places: Sequence[int], most: int = _native.MOST_RANGES) -> list[tuple[int, int]]:
    """Returns ascending numbers as at most so many ranges: the first number, and how many. Too many are joined where
    the fewest others come in."""
    ranges: list[list[int]] = []  # first, end
    for place in places:
        if ranges and ranges[-1][1] == place:
            ranges[-1][1] += 1
        else:
            ranges.append([place, place + 1])
    if len(ranges) > most:
        gaps = sorted(range(1, len(ranges)), key=lambda i: ranges[i][0] - ranges[i - 1][1])
        joined = set(gaps[: len(ranges) - most])
        kept: list[list[int]] = []
        for i, one in enumerate(ranges):
            if i in joined:
                kept[-1][1] = one[1]
            else:
                kept.append(one)
        ranges = kept
    return [(first, end - first) for first, end in ranges]


def _in_rows(known: BatchStatistics, places: Sequence[int], rows: range) -> list[int]:
    """Returns those batches that have some of the rows."""
    starts = [0]
    for count in known.rows:
        starts.append(starts[-1] + count)
    return [place for place in places if starts[place] < rows.stop and starts[place + 1] > rows.start]


def _cut(
    batches: Iterator[Any], known: BatchStatistics, ranges: Sequence[tuple[int, int]], rows: range
) -> Iterator[Any]:
    """Cuts the batches of these ranges to the rows."""
    wanted = {place for first, count in ranges for place in range(first, first + count)}
    start = 0
    for place, count in enumerate(known.rows):
        if place in wanted:
            batch = next(batches, None)
            if batch is None or batch.num_rows != count:
                raise InvalidDataError("the server sends other batches than its batch statistics say")
            first, end = max(rows.start - start, 0), min(rows.stop - start, count)
            if first < end:
                yield batch.slice(first, end - first)
        start += count


def both(one: Any, other: Any) -> Any:
    """Returns the filter that lets through what both let through; None lets everything through."""
    return other if one is None else one if other is None else one & other


def _expect_no_batch(reader: _native.RecordBatchReader) -> None:
    """Reads a stream of no batches to its end, so that its connection can be used again."""
    if next(reader, None) is not None:
        reader.close()
        raise InvalidDataError("the server has sent a batch though none was asked for")


def _fitting(names: Iterable[str]) -> list[str]:
    """Returns as many of the names, each once, as one request takes."""
    fitting: list[str] = []
    size = 0
    for name in dict.fromkeys(names):
        size += len(name.encode())
        if len(fitting) == _native.MOST_COLUMNS or size > _native.MOST_COLUMN_BYTES:
            break
        fitting.append(name)
    return fitting


class Scan:
    """What is known of a table, for all handles of it. Thread-safe."""

    def __init__(self, requests: Requests) -> None:
        self.requests = requests
        self._lock = threading.Lock()
        self._known: tuple[BatchStatistics, Any] | None = None  # with the schema

    def schema(self) -> Any:
        """Asks for the schema of the table as it is now, as pyarrow's, without views."""
        return self._plain_schema()[0]

    def asked_schema(self, columns: list[str] | None = None) -> tuple[_native.Schema, int | None]:
        """Asks for the schema of the table as it is now, and for its version. Uses up no request of a table that can be
        read so often. Raises `UnsupportedError` for a live stream, unless the server knows no parts of tables."""
        try:
            reader = self.requests.get(columns, batches=[])
        except UnsupportedError:
            if self.requests.batch_statistics([]) is not None:
                raise
            reader = self.requests.get(columns)
        else:
            _expect_no_batch(reader)
        with reader:
            return reader.schema, reader.version

    def _plain_schema(self) -> tuple[Any, int | None]:
        """Asks for the same, as pyarrow's, without views."""
        import pyarrow

        from crossdock import _views

        schema, version = self.asked_schema()
        return _views.plain(pyarrow.schema(schema)), version

    def _ask(self, expression: Any) -> tuple[BatchStatistics | None, Any]:
        """Asks for the schema, and for the statistics of the columns that the filter names; None: the server doesn't
        know such requests. Raises `InvalidArgumentError` if it isn't one for this table."""
        import pyarrow

        from crossdock import _batch_statistics, _filter

        for _ in range(_TRIES):
            schema, version = self._plain_schema()
            names = [] if expression is None else _filter.columns_of(expression, schema)
            # The bounds of an extension type would be of what it is stored as, which isn't compared with it.
            names = [name for name in names if not isinstance(schema.field(name).type, pyarrow.BaseExtensionType)]
            kept = self._known_columns(version)
            # Those that were asked before, too, if the server takes so many; at least the numbers of rows.
            for asked in (_fitting([*names, *kept]), _fitting(names), []):
                try:
                    statistics = self.requests.batch_statistics(asked)
                    break
                except ResourceError:
                    continue
            else:
                return None, schema  # A table of too many batches.
            if statistics is None:
                return None, schema
            known = _batch_statistics.read(statistics, asked, schema)
            if known.version == version:
                with self._lock:
                    self._known = known, schema
                return known, schema
        raise TimeoutError(f"the table was replaced {_TRIES} times, each time before its statistics could be requested")

    def _known_columns(self, version: int | None) -> Iterable[str]:
        """Returns the columns whose statistics of this version were asked."""
        with self._lock:
            return [] if self._known is None or self._known[0].version != version else self._known[0].asked

    def _kept(self, expression: Any) -> tuple[BatchStatistics, Any] | None:
        """Returns what was asked before, if it is of all columns that the filter names."""
        from crossdock import _filter

        with self._lock:
            kept = self._known
        if kept is None or expression is None:
            return kept
        known, schema = kept
        try:
            return kept if known.asked.issuperset(_filter.columns_of(expression, schema)) else None
        except InvalidArgumentError:
            return None  # It may fit what is published now.

    def scanner(self, columns: Any, rows: range | None, expression: Any, options: dict[str, Any]) -> Any:
        """Returns a scanner of pyarrow's, which reads once, of the rows that the filter lets through. Its columns have
        no views.

        columns: a list of names, or a dict of expressions; None: all.
        """
        return _scanner(self.batches(columns, rows, expression), columns, expression, options)

    def reader(self, columns: list[str] | None, rows: range | None, expression: Any, hint: Any = None) -> Any:
        """Returns a stream of pyarrow's of the rows that the filter lets through, in the types that they came in.

        hint: another filter, by which batches are left out, but no rows.
        """
        import pyarrow

        from crossdock import _views

        came = self.batches(columns, rows, expression, hint)
        found = _scanner(came, columns, expression, {}).to_reader()
        own = pyarrow.schema([came.schema.field(name) for name in found.schema.names], came.schema.metadata)
        return found if found.schema == own else _views.cast(found, own)

    def batches(self, columns: Any, rows: range | None, expression: Any, hint: Any = None) -> Any:
        """Requests the batches in which rows may match, of one version, as a stream of pyarrow's. It has the columns
        that the filter names, too, but not those that the hint names."""
        import pyarrow

        from crossdock import _batch_statistics, _filter

        prunes = both(expression, hint)
        kept = self._kept(prunes)
        for _ in range(_TRIES):
            was_kept = kept is not None
            known, schema = kept or self._ask(prunes)
            kept = None
            if expression is not None:
                try:
                    _filter.check_bool(expression, schema)
                except InvalidArgumentError:
                    if not was_kept:
                        raise
                    continue  # It may be one of what is published now.
            if columns is None and len(set(schema.names)) < len(schema.names):
                raise InvalidArgumentError(
                    "several columns of the table have one name: select() the others to filter them"
                )
            needed = _needed(columns, expression, schema)
            ranges = None
            if known is not None:
                places: Sequence[int] = range(len(known.rows))
                if prunes is not None:
                    named = known.only(_filter.columns_of(prunes, schema))
                    places = _batch_statistics.matching_batches(named, schema, prunes)
                if rows is not None:
                    places = _in_rows(known, places, rows)
                ranges = ranges_of(places)
                reader = self.requests.get(needed, batches=ranges)
                if reader.version != known.version:
                    reader.close()
                    continue
            else:
                reader = self.requests.get(needed, rows=first_and_count(rows))
            batches: Any = pyarrow.RecordBatchReader.from_stream(reader)
            if known is not None and ranges is not None and rows is not None:
                cut = _cut(iter(batches), known, ranges, rows)
                batches = pyarrow.RecordBatchReader.from_batches(batches.schema, cut)
            return batches
        raise TimeoutError(f"the table was replaced {_TRIES} times, each time before its data could be requested")


def _scanner(batches: Any, columns: Any, expression: Any, options: dict[str, Any]) -> Any:
    import pyarrow.dataset

    from crossdock import _views

    plain = _views.plain(batches.schema)
    stream = batches if plain == batches.schema else _views.cast(batches, plain)
    return pyarrow.dataset.Scanner.from_batches(stream, columns=columns, filter=expression, **options)


def _needed(columns: Any, expression: Any, schema: Any) -> list[str] | None:
    """Returns the columns to ask for; None: all."""
    from crossdock._filter import columns_of

    if columns is None:
        return None
    if isinstance(columns, dict):
        needed = [name for one in columns.values() for name in columns_of(one, schema)]
    else:
        needed = list(columns)
    if expression is not None:
        needed += columns_of(expression, schema)
    return list(dict.fromkeys(needed))
