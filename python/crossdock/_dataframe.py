"""The dataframe interchange protocol, for `RecordBatch.__dataframe__()`: views of a batch's buffers, without a copy.

https://data-apis.org/dataframe-protocol/latest/API.html has the methods, whose names are fixed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NoReturn

from crossdock._text import quoted
from crossdock.errors import InvalidArgumentError, UnsupportedTypeError

if TYPE_CHECKING:
    from crossdock._native import Column, RecordBatch

_HOST = (1, None)  # DLPack's number of the CPU


class _Kind(IntEnum):
    INT = 0
    UINT = 1
    FLOAT = 2
    BOOL = 20
    STRING = 21
    DATETIME = 22
    CATEGORICAL = 23


class _Null(IntEnum):
    NON_NULLABLE = 0
    USE_BITMASK = 3


_Dtype = tuple[_Kind, int, str, str]  # kind, bits, format of Arrow's C data interface, byte order

_NUMBERS: dict[str, tuple[_Kind, int]] = {
    **{one: (_Kind.INT, bits) for one, bits in (("c", 8), ("s", 16), ("i", 32), ("l", 64))},
    **{one: (_Kind.UINT, bits) for one, bits in (("C", 8), ("S", 16), ("I", 32), ("L", 64))},
    **{one: (_Kind.FLOAT, bits) for one, bits in (("e", 16), ("f", 32), ("g", 64))},
    "b": (_Kind.BOOL, 1),
    "u": (_Kind.STRING, 8),
    "U": (_Kind.STRING, 8),
    "tdD": (_Kind.DATETIME, 32),
    "tdm": (_Kind.DATETIME, 64),
}
_ZEROS = ctypes.c_int64(0)
_ZEROS_AT = ctypes.addressof(_ZEROS)
_VALIDITY: _Dtype = (_Kind.BOOL, 1, "b", "=")
_OFFSETS: dict[str, _Dtype] = {"u": (_Kind.INT, 32, "i", "="), "U": (_Kind.INT, 64, "l", "=")}


def _dtype(column: Column, form: str) -> _Dtype:
    if form.startswith("ts"):
        return _Kind.DATETIME, 64, form, "="
    if form not in _NUMBERS:
        raise UnsupportedTypeError(
            f"the dataframe interchange protocol has no type for column {quoted(column.name)} of type {column.type}; "
            "Arrow's protocol has: pyarrow.record_batch(batch)"
        )
    return *_NUMBERS[form], form, "="


class _Buffer:
    """Memory of the batch, which it keeps alive."""

    def __init__(self, owner: object, address: int, size: int) -> None:
        self._owner = owner
        self._address = address
        self._size = size

    @property
    def bufsize(self) -> int:
        return self._size

    @property
    def ptr(self) -> int:
        return self._address

    def __dlpack__(self) -> NoReturn:
        raise NotImplementedError("DLPack has no bits and texts: read ptr and bufsize, or batch[name] by DLPack")

    def __dlpack_device__(self) -> tuple[int, None]:
        return _HOST

    def __deepcopy__(self, _: object) -> _Buffer:
        """pandas copies buffers with a frame that it made of them, to keep their memory: this one is immutable."""
        return self

    def __repr__(self) -> str:
        return f"<Buffer of {self._size:,} bytes at {self._address:#x}>"


class _Column:
    def __init__(self, column: Column) -> None:
        self._column = column
        self._form, self._offset, self._buffers = column._buffers()

    def size(self) -> int:
        return len(self._column)

    @property
    def offset(self) -> int:
        return self._offset

    @property
    def dtype(self) -> _Dtype:
        kind, bits, form, order = _dtype(self._column, self._form)
        return (kind if self._column.dictionary is None else _Kind.CATEGORICAL), bits, form, order

    @property
    def describe_categorical(self) -> dict[str, Any]:
        values = self._column.dictionary
        if values is None:
            raise TypeError(f"column {quoted(self._column.name)} is not dictionary-encoded")
        return {"is_ordered": self._column._ordered, "is_dictionary": True, "categories": _Column(values)}

    @property
    def describe_null(self) -> tuple[_Null, int | None]:
        return (_Null.USE_BITMASK, 0) if self._buffers[0][0] else (_Null.NON_NULLABLE, None)

    @property
    def null_count(self) -> int:
        return self._column.null_count

    @property
    def metadata(self) -> dict[str, Any]:
        return {}

    def num_chunks(self) -> int:
        return 1

    def get_chunks(self, n_chunks: int | None = None) -> Iterable[_Column]:
        return [_Column(self._column[part]) for part in _parts(len(self._column), n_chunks)]

    def get_buffers(self) -> dict[str, tuple[_Buffer, _Dtype] | None]:
        dtype = _dtype(self._column, self._form)
        validity, *others = self._buffers
        offsets = _OFFSETS.get(self._form)
        return {
            "data": (self._buffer(others[-1], 0), dtype),
            "validity": (_Buffer(self._column, *validity), _VALIDITY) if validity[0] else None,
            # A column without rows may have no offsets; the protocol's consumers read the first one all the same.
            "offsets": None if offsets is None else (self._buffer(others[0], offsets[1] // 8), offsets),
        }

    def _buffer(self, place: tuple[int, int], least: int) -> _Buffer:
        """Returns a buffer; in place of one that isn't there, so many zeros: consumers refuse the address 0."""
        address, size = place
        return _Buffer(self._column, address, size) if address and size >= least else _Buffer(_ZEROS, _ZEROS_AT, least)


def _parts(rows: int, count: int | None) -> list[slice]:
    if count is None:
        count = 1
    if count < 1:
        raise InvalidArgumentError(f"n_chunks must be at least 1; it was {count}")
    step = max(1, -(-rows // count))
    return [slice(min(i * step, rows), min((i + 1) * step, rows)) for i in range(count)]


class DataFrame:
    """A batch as the protocol's data frame."""

    version = 0

    def __init__(self, batch: RecordBatch) -> None:
        self._batch = batch

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> DataFrame:
        return self

    @property
    def metadata(self) -> dict[str, Any]:
        return {}

    def num_columns(self) -> int:
        return self._batch.num_columns

    def num_rows(self) -> int:
        return self._batch.num_rows

    def num_chunks(self) -> int:
        return 1

    def column_names(self) -> list[str]:
        return self._batch.schema.names

    def get_column(self, i: int) -> _Column:
        return _Column(self._batch[i])

    def get_column_by_name(self, name: str) -> _Column:
        return _Column(self._batch[name])

    def get_columns(self) -> Iterable[_Column]:
        return [_Column(column) for column in self._batch]

    def select_columns(self, indices: Sequence[int]) -> DataFrame:
        return DataFrame(self._batch._select(list(indices)))

    def select_columns_by_name(self, names: Sequence[str]) -> DataFrame:
        return self.select_columns([self._batch[name]._index for name in names])

    def get_chunks(self, n_chunks: int | None = None) -> Iterable[DataFrame]:
        return [DataFrame(self._batch[part]) for part in _parts(self._batch.num_rows, n_chunks)]
