"""A column of every Arrow type of this version, with nulls where it can have them."""

from __future__ import annotations

import datetime
import decimal
import struct
import uuid
from typing import Any

import nanoarrow as na
import pyarrow as pa

D = decimal.Decimal
NOW = datetime.datetime(2024, 2, 29, 12, 34, 56, 789012)

VALUES: dict[str, tuple[pa.DataType, list]] = {
    "null": (pa.null(), [None, None, None]),
    "bool": (pa.bool_(), [True, None, False]),
    **{str(t): (t, [0, None, 100]) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(t): (t, [0, None, 200]) for t in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    "float16": (pa.float16(), [0.5, None, -1.25]),
    "float32": (pa.float32(), [0.5, None, -1.25]),
    "float64": (pa.float64(), [0.5, None, -1.25]),
    "decimal32": (pa.decimal32(7, 2), [D("1.25"), None, D("-99999.99")]),
    "decimal64": (pa.decimal64(15, 3), [D("1.125"), None, D("-1")]),
    "decimal128": (pa.decimal128(30, 10), [D("1.25"), None, D("-3")]),
    "decimal256": (pa.decimal256(60, 20), [D("1.25"), None, D("-3")]),
    "date32": (pa.date32(), [NOW.date(), None, datetime.date(1969, 1, 1)]),
    "date64": (pa.date64(), [NOW.date(), None, datetime.date(1969, 1, 1)]),
    "time32[s]": (pa.time32("s"), [1, None, 86399]),
    "time32[ms]": (pa.time32("ms"), [1, None, 86399999]),
    "time64[us]": (pa.time64("us"), [1, None, 5]),
    "time64[ns]": (pa.time64("ns"), [1, None, 5]),
    **{f"timestamp[{u}]": (pa.timestamp(u), [1, None, -5]) for u in ("s", "ms", "us", "ns")},
    "timestamp with zone": (pa.timestamp("us", "Europe/Berlin"), [1, None, -5]),
    **{f"duration[{u}]": (pa.duration(u), [1, None, -5]) for u in ("s", "ms", "us", "ns")},
    "utf8": (pa.string(), ["", None, "ünï ☃"]),
    "large_utf8": (pa.large_string(), ["", None, "ünï ☃"]),
    "binary": (pa.binary(), [b"", None, b"\0\xff"]),
    "large_binary": (pa.large_binary(), [b"", None, b"\0\xff"]),
    "fixed_size_binary": (pa.binary(3), [b"abc", None, b"\0\0\0"]),
    "list": (pa.list_(pa.int32()), [[1, None], None, []]),
    "large_list": (pa.large_list(pa.string()), [["a", None], None, []]),
    "fixed_size_list": (pa.list_(pa.float32(), 2), [[1, 2], None, [None, 4]]),
    "struct": (pa.struct([("a", pa.int8()), ("b", pa.string())]), [{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
    "empty struct": (pa.struct([]), [{}, None, {}]),
    "map": (pa.map_(pa.string(), pa.int32()), [[("a", 1), ("b", None)], None, []]),
    "sorted map": (pa.map_(pa.string(), pa.int32(), keys_sorted=True), [[("a", 1)], None, []]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["a", None, "a"]),
    "ordered dictionary": (pa.dictionary(pa.uint16(), pa.string(), ordered=True), ["a", None, "b"]),
    "dictionary of integers": (pa.dictionary(pa.int64(), pa.int32()), [7, None, 8]),
    "list of dictionaries": (pa.list_(pa.dictionary(pa.int32(), pa.string())), [["a", "b"], None, ["a"]]),
    "month_day_nano_interval": (pa.month_day_nano_interval(), [(1, -2, 3), None, (0, 0, 0)]),
    "string_view": (pa.string_view(), ["", None, "too long to be inline, ☃"]),
    "binary_view": (pa.binary_view(), [b"\0short", None, b"too long to be inline"]),
    "list_view": (pa.list_view(pa.int32()), [[1, None], None, []]),
    "large_list_view": (pa.large_list_view(pa.string_view()), [["a", None, "x" * 40], None, []]),
    "run_end_encoded int16": (pa.run_end_encoded(pa.int16(), pa.string()), ["a", "a", None]),
    "run_end_encoded int32": (pa.run_end_encoded(pa.int32(), pa.int64()), [None, None, 1]),
    "run_end_encoded int64": (pa.run_end_encoded(pa.int64(), pa.string_view()), ["x" * 20, "x" * 20, "x" * 20]),
    "sparse union": (pa.sparse_union([pa.field("i", pa.int32()), pa.field("s", pa.string())], [5, 0]), [1, "a", None]),
    "sparse union of ids in order": (
        pa.sparse_union([pa.field("i", pa.int32()), pa.field("s", pa.string())]),
        [1, "a", None],
    ),
    "dense union": (pa.dense_union([pa.field("i", pa.int32()), pa.field("s", pa.string())], [0, 127]), [1, "a", None]),
    "dense union in a list": (pa.list_(pa.dense_union([pa.field("i", pa.int8())])), [[1, 2], None, []]),
    "dictionary of structs": (pa.dictionary(pa.int8(), pa.struct([("a", pa.int8())])), [{"a": 1}, None, {"a": 2}]),
    "dictionary of views": (pa.dictionary(pa.int8(), pa.string_view()), ["a", None, "not inline at all"]),
    "extension": (pa.uuid(), [uuid.UUID(int=1), None, uuid.UUID(int=2**128 - 1)]),
    "struct of what is new": (
        pa.struct([("r", pa.run_end_encoded(pa.int32(), pa.list_view(pa.struct([("v", pa.binary_view())]))))]),
        [{"r": [{"v": b"x"}, None]}, None, {"r": None}],
    ),
    "struct of everything": (
        pa.struct([("l", pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.int64())))])))]),
        [{"l": [{"m": [("k", [1, None])]}, None]}, None, {"l": None}],
    ),
}


def column(name: str) -> pa.Array:
    kind, values = VALUES[name]
    if name == "dictionary of structs":
        return pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.int8()), pa.array(values[::2], kind.value_type))
    if pa.types.is_dictionary(kind):
        if pa.types.is_string_view(kind.value_type):
            plain = pa.array(values).dictionary_encode()
            return pa.DictionaryArray.from_arrays(
                plain.indices.cast(kind.index_type), plain.dictionary.cast(kind.value_type)
            )
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_list(kind) and pa.types.is_dictionary(kind.value_type):
        flat = pa.array(["a", "b", "a"]).dictionary_encode()
        return pa.ListArray.from_arrays(pa.array([0, None, 2, 3], pa.int32()), flat)
    return array_of(values, kind)


def union_of(values: list, kind: pa.UnionType) -> pa.UnionArray:
    """Of a union of a type for numbers and perhaps one for text; None is a null of the first child."""
    ids = pa.array([kind.type_codes[isinstance(value, str)] for value in values], pa.int8())
    names, codes = [field.name for field in kind], list(kind.type_codes)
    if kind.mode == "sparse":
        children = [
            pa.array([v if isinstance(v, str) == text else None for v in values], field.type)
            for text, field in zip((False, True), kind, strict=False)
        ]
        return pa.UnionArray.from_sparse(ids, children, names, codes)
    of = [[v for v in values if isinstance(v, str) == text] for text in (False, True)]
    offsets = [sum(isinstance(v, str) == isinstance(values[i], str) for v in values[:i]) for i in range(len(values))]
    children = [pa.array(part, field.type) for part, field in zip(of, kind, strict=False)]
    return pa.UnionArray.from_dense(ids, pa.array(offsets, pa.int32()), children, names, codes)


def array_of(values: list, kind: pa.DataType) -> pa.Array:
    """As pa.array, which can't make unions or runs."""
    if pa.types.is_union(kind):
        return union_of(values, kind)
    if pa.types.is_run_end_encoded(kind):
        runs = [i for i in range(1, len(values) + 1) if i == len(values) or values[i] != values[i - 1]]
        ends = pa.array(runs, kind.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(ends, array_of([values[i - 1] for i in runs], kind.value_type), kind)
    if pa.types.is_list(kind) and pa.types.is_union(kind.value_type):
        flat = union_of([v for value in values if value for v in value], kind.value_type)
        ends = [sum(len(value or []) for value in values[:i]) for i in range(len(values) + 1)]
        mask = pa.array([value is None for value in values])
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), flat, type=kind, mask=mask)
    if pa.types.is_struct(kind) and any(pa.types.is_run_end_encoded(field.type) for field in kind):
        mask = pa.array([value is None for value in values])
        children = [array_of([value and value[field.name] for value in values], field.type) for field in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    return pa.array(values, kind)


def columns_by_hand() -> dict[str, tuple[Any, list]]:
    """What pyarrow can't make, or not take back, as objects with __arrow_c_array__, and their values."""
    months = struct.pack("<3i", 1, 0, -2)
    days = struct.pack("<6i", 1, 2, 0, 0, -1, 5)
    inner = pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int16()), pa.array(["a", None]))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), inner)
    valid = b"\x05"  # all but the one in the middle
    return {
        "interval_months": (na.c_array_from_buffers(na.interval_months(), 3, [valid, months]), [1, None, -2]),
        "interval_day_time": (
            na.c_array_from_buffers(na.interval_day_time(), 3, [valid, days]),
            [(1, 2), None, (-1, 5)],
        ),
        "run_end_encoded of run_end_encoded": (runs, ["a", "a", None]),
    }
