"""Batch statistics of a table, as a server sends them (docs/reference/protocol.md), and what follows from them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow
import pyarrow.compute
import pyarrow.dataset

from crossdock import _filter, _native
from crossdock._text import quoted
from crossdock.errors import InvalidDataError

_MOST_CASES = 4
"""Of one batch: of two columns with nulls, for which a filter lets nulls through."""

_FORMAT = pyarrow.dataset.IpcFileFormat()
_NOWHERE = pyarrow.fs.LocalFileSystem()  # fragments want one: no file is opened


@dataclass(frozen=True)
class ColumnStatistics:
    """The nulls and the bounds of a column in each batch. Bounds are null where nothing is known."""

    nulls: list[int]
    min: Any
    max: Any


@dataclass(frozen=True)
class BatchStatistics:
    """What a server says of one version of a table."""

    version: int
    rows: list[int]
    asked: frozenset[str]
    """The columns that the server was asked for."""
    columns: dict[str, ColumnStatistics]
    """Those of them that have statistics."""

    def only(self, names: Iterable[str]) -> BatchStatistics:
        """Returns what is known of some of the columns."""
        columns = {name: self.columns[name] for name in names if name in self.columns}
        return BatchStatistics(self.version, self.rows, self.asked, columns)


def _numbers(table: Any, name: str, most: Sequence[int] | None) -> list[int]:
    """Returns a column of numbers from 0 to the number in `most`."""
    try:
        column = table.column(name)
    except KeyError:
        raise InvalidDataError(f"the server's batch statistics have no column {quoted(name)}") from None
    numbers: list[Any] = column.to_pylist() if column.type == pyarrow.int64() else [None]
    if any(number is None or number < 0 for number in numbers):
        raise InvalidDataError(
            f"the column {quoted(name)} of the server's batch statistics isn't int64 numbers that aren't negative"
        )
    if most is not None and any(number > limit for number, limit in zip(numbers, most, strict=True)):
        raise InvalidDataError(f"the server's batch statistics have a batch with more nulls than rows ({quoted(name)})")
    return numbers


def _bounds(table: Any, name: str, wanted: Any) -> Any:
    """Returns a column of bounds in the type of the column that they are of."""
    if name not in table.column_names:
        raise InvalidDataError(f"the server's batch statistics have no column {quoted(name)}")
    column = table.column(name).combine_chunks()
    if column.type == wanted:
        return column
    of_texts = {pyarrow.string(): pyarrow.types.is_string, pyarrow.binary(): pyarrow.types.is_binary}
    if column.type not in of_texts or not _is_text(wanted, utf8=column.type == pyarrow.string()):
        raise InvalidDataError(f"the server's batch statistics have bounds of {column.type} for a column of {wanted}")
    return column.cast(wanted)


def _is_text(wanted: Any, *, utf8: bool) -> bool:
    types = pyarrow.types
    if utf8:
        return bool(types.is_string(wanted) or types.is_large_string(wanted) or types.is_string_view(wanted))
    return bool(types.is_binary(wanted) or types.is_large_binary(wanted) or types.is_binary_view(wanted))


def read(reader: _native.RecordBatchReader, names: Sequence[str], schema: Any) -> BatchStatistics:
    """Reads a table of statistics of these columns. Trusts nothing in it but the bounds themselves.

    schema: of the table that they are of.
    """
    with reader:
        version = reader.version
        if version is None:
            raise InvalidDataError("the server's batch statistics have no version of their table")
        batch = next(reader, None)
        if batch is None or batch.num_rows > _native.MOST_BATCH_STATISTICS or next(reader, None) is not None:
            raise InvalidDataError(
                f"the server's batch statistics aren't one batch of at most {_native.MOST_BATCH_STATISTICS} rows"
            )
        table = pyarrow.table(batch)
    rows = _numbers(table, "rows", None)
    columns = {}
    for place, name in enumerate(names):
        if f"{place}.nulls" not in table.column_names:
            continue
        wanted = schema.field(name).type
        columns[name] = ColumnStatistics(
            _numbers(table, f"{place}.nulls", rows),
            _bounds(table, f"{place}.min", wanted),
            _bounds(table, f"{place}.max", wanted),
        )
    return BatchStatistics(version, rows, frozenset(names), columns)


def _cases(name: str, nulls: int, rows: int, low: Any, high: Any, *, only_values: bool) -> list[Any]:
    """What holds for a column in each row, as cases: each row is one of them. None holds for all rows.

    only_values: rows in which the column is null don't count.
    """
    field = pyarrow.compute.field(name)
    if nulls == rows:
        return [field.is_null()]
    if not (low.is_valid and high.is_valid):
        return [None]
    within = (field >= low) & (field <= high)
    return [within] if nulls == 0 or only_values else [within, field.is_null()]


def _guarantees(known: BatchStatistics, place: int, needs_values: frozenset[str]) -> list[Any]:
    """What holds in the rows of a batch, as cases."""
    every: list[Any] = [pyarrow.compute.scalar(True)]
    for name, column in known.columns.items():
        cases = _cases(
            name,
            column.nulls[place],
            known.rows[place],
            column.min[place],
            column.max[place],
            only_values=name in needs_values,
        )
        if len(every) * len(cases) <= _MOST_CASES:
            every = [so_far if case is None else so_far & case for so_far in every for case in cases]
    return every


def _needs_values(known: BatchStatistics, schema: Any, expression: Any) -> frozenset[str]:
    """Returns the columns that aren't null in any row that the filter lets through."""
    return frozenset(
        name
        for name in known.columns
        if not _fragments_that_match({name: [pyarrow.compute.field(name).is_null()]}, schema, expression)
    )


def _fragments_that_match(cases: dict[str, list[Any]], schema: Any, expression: Any) -> list[str]:
    """Returns the keys for which the filter may let through a row, by what holds in its rows."""
    fragments = [
        _FORMAT.make_fragment(key, _NOWHERE, partition_expression=case)
        for key, all_of in cases.items()
        for case in all_of
    ]
    every = pyarrow.dataset.FileSystemDataset(fragments, schema, _FORMAT, _NOWHERE)
    return list(dict.fromkeys(fragment.path for fragment in every.get_fragments(filter=expression)))


def _can_match(
    known: BatchStatistics, places: Iterable[int], schema: Any, expression: Any, needs_values: frozenset[str]
) -> list[int]:
    """Returns those batches in which rows can match, by what is known of them."""
    cases = {str(place): _guarantees(known, place, needs_values) for place in places if known.rows[place] > 0}
    return [int(key) for key in _fragments_that_match(cases, schema, expression)]


def _extremes(column: ColumnStatistics, rows: Sequence[int], size: int) -> tuple[Any, Any] | None:
    """The lowest and the highest value of each group of `size`; null where nothing is known of one of the group. None:
    the type doesn't allow it."""
    of_type = column.min.type
    bounds = [column.min, column.max]
    if pyarrow.types.is_temporal(of_type):
        bounds = [values.view(pyarrow.int64() if of_type.bit_width == 64 else pyarrow.int32()) for values in bounds]
    valid = [one and other for one, other in zip(*(values.is_valid().to_pylist() for values in bounds), strict=True)]
    unknown = [not has and nulls < n for has, nulls, n in zip(valid, column.nulls, rows, strict=True)]
    found = []
    try:
        for at in range(0, len(rows), size):
            if any(unknown[at : at + size]):
                found.append((None, None))
            else:
                low, high = (pyarrow.compute.min_max(values.slice(at, size)) for values in bounds)
                found.append((low["min"].as_py(), high["max"].as_py()))
    except pyarrow.ArrowNotImplementedError:
        return None
    lowest, highest = (pyarrow.array([pair[i] for pair in found], bounds[i].type) for i in (0, 1))
    return (lowest, highest) if lowest.type == of_type else (lowest.view(of_type), highest.view(of_type))


def _grouped(known: BatchStatistics, size: int) -> BatchStatistics | None:
    """The same statistics of groups of batches. None: the type of a column doesn't allow it."""
    rows = [sum(known.rows[at : at + size]) for at in range(0, len(known.rows), size)]
    columns = {}
    for name, column in known.columns.items():
        extremes = _extremes(column, known.rows, size)
        if extremes is None:
            return None
        nulls = [sum(column.nulls[at : at + size]) for at in range(0, len(known.rows), size)]
        columns[name] = ColumnStatistics(nulls, *extremes)
    return BatchStatistics(known.version, rows, known.asked, columns)


_PLAIN_FUNCTIONS = {"and", "or", "is_in", "is_null", "is_valid", "is_nan", "invert", "cast"}


def _is_plain(expression: Any) -> bool:
    """Whether an expression compares with constants that are no NaN, and computes none."""
    text = _filter.without_texts(expression)
    functions = set(re.findall(r"(\w+)\(", text))
    return functions <= _PLAIN_FUNCTIONS and re.search(r"\bnan\b", text, re.IGNORECASE) is None


def matching_batches(known: BatchStatistics, schema: Any, expression: Any) -> list[int]:
    """Returns the batches in which rows can match the filter, in ascending order. Only those without a matching row may
    be missing.

    pyarrow's own datasets decide it, which know what follows from the bounds for an expression. But they take a
    comparison with NaN for one with a number.
    """
    if any(pyarrow.types.is_floating(schema.field(name).type) for name in known.columns) and not _is_plain(expression):
        return list(range(len(known.rows)))
    needs_values = _needs_values(known, schema, expression)
    size = math.isqrt(len(known.rows))
    groups = _grouped(known, size) if size > 16 else None
    places: Iterable[int] = range(len(known.rows))
    if groups is not None:  # few expressions of few groups cost less than one of each batch
        found = _can_match(groups, range(len(groups.rows)), schema, expression, needs_values)
        places = [place for group in found for place in range(group * size, min((group + 1) * size, len(known.rows)))]
    return _can_match(known, places, schema, expression, needs_values)
