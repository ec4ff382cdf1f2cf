"""A table of a server's as a LazyFrame of polars: `Table.to_lazy()`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import polars
import polars.io.plugins
import pyarrow

if TYPE_CHECKING:
    from crossdock._scan import Scan

_ROWS = 1 << 17
_MOST_GATHERED = 10_000  # Batches of one frame, however few rows they have.
"""Of a frame, unless the last batch has more."""

_NAN = re.compile(r"\bnan\b", re.IGNORECASE)


class _Recorder:
    """A dataset of no rows, which keeps the filter that polars gives it."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.filter: Any = None

    def to_batches(self, filter: Any = None, **_: Any) -> list[Any]:
        self.filter = filter
        return []


def _as_pyarrow(predicate: polars.Expr, schema: Any) -> Any:
    """Returns an expression of pyarrow's for a predicate; None: polars has none for it.

    It decides which batches are read, and no more: polars and pyarrow differ in what they say of NaN.
    """
    recorder = _Recorder(schema)
    polars.scan_pyarrow_dataset(recorder).filter(predicate).collect()
    # To polars each number is below NaN.
    return None if recorder.filter is None or _NAN.search(str(recorder.filter)) else recorder.filter


def _frames(batches: Iterable[Any]) -> Iterator[polars.DataFrame]:
    """Makes frames of several batches each, since each costs something, however small it is."""
    gathered: list[Any] = []
    rows = 0
    for batch in batches:
        gathered.append(batch)
        rows += batch.num_rows
        if rows >= _ROWS or len(gathered) >= _MOST_GATHERED:
            yield _frame(gathered)
            gathered, rows = [], 0
    if gathered:
        yield _frame(gathered)


def _frame(batches: list[Any]) -> polars.DataFrame:
    frame = polars.from_arrow(pyarrow.Table.from_batches(batches), rechunk=False)  # one chunk would be a copy
    assert isinstance(frame, polars.DataFrame)
    return frame


def lazy(scan: Scan, columns: list[str] | None, rows: range | None, expression: Any) -> polars.LazyFrame:
    """Returns a LazyFrame whose projections and filters are pushed down to the server's table."""
    schema = scan.schema()
    if columns is not None:
        schema = pyarrow.schema([schema.field(name) for name in columns], schema.metadata)
    empty = polars.from_arrow(schema.empty_table())
    assert isinstance(empty, polars.DataFrame)

    def source(
        with_columns: list[str] | None, predicate: polars.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[polars.DataFrame]:
        wanted = list(schema.names) if with_columns is None else with_columns
        read = wanted if predicate is None else list(dict.fromkeys([*wanted, *predicate.meta.root_names()]))
        hint = None if predicate is None else _as_pyarrow(predicate, schema)
        left = n_rows
        batches = (
            scan.batches(read, rows, None, hint) if expression is None else scan.reader(read, rows, expression, hint)
        )
        for frame in _frames(batches):
            if left == 0:
                return
            if predicate is not None:
                frame = frame.filter(predicate)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield frame.select(wanted)

    return polars.io.plugins.register_io_source(source, schema=empty.schema)
