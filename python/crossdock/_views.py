"""Types without views: pyarrow can't filter views of texts and binaries, which polars' tables have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow


def _plain_type(of: Any) -> Any:
    types = pyarrow.types
    if types.is_string_view(of):
        return pyarrow.large_string()
    if types.is_binary_view(of):
        return pyarrow.large_binary()
    if types.is_struct(of):
        return pyarrow.struct([_plain_field(field) for field in of])
    if types.is_list(of):
        return pyarrow.list_(_plain_field(of.value_field))
    if types.is_large_list(of):
        return pyarrow.large_list(_plain_field(of.value_field))
    if types.is_fixed_size_list(of):
        return pyarrow.list_(_plain_field(of.value_field), of.list_size)
    return of


def _plain_field(field: Any) -> Any:
    return field.with_type(_plain_type(field.type))


def plain(schema: Any) -> Any:
    """Returns a schema with large texts and binaries in place of their views."""
    return pyarrow.schema([_plain_field(field) for field in schema], schema.metadata)


def cast(batches: Iterable[Any], schema: Any) -> Any:
    """Returns a stream of the batches in the types of a schema. Columns that have them already aren't copied."""

    def each() -> Iterator[Any]:
        for batch in batches:
            yield batch.cast(schema)

    return pyarrow.RecordBatchReader.from_batches(schema, each())
