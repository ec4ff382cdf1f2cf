"""Schemas and data of every Arrow type, made up from a seed: what the differential tests send round."""

from __future__ import annotations

import decimal
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

UNITS = ["s", "ms", "us", "ns"]

PLAIN: list[pa.DataType] = [
    pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(),
    pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.decimal32(7, 2), pa.decimal64(15, -3),
    pa.decimal128(30, 5), pa.decimal256(70, 10), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"),
    pa.time64("us"), pa.time64("ns"), *(pa.timestamp(unit) for unit in UNITS), pa.timestamp("us", "Europe/Paris"),
    *(pa.duration(unit) for unit in UNITS), pa.month_day_nano_interval(), pa.utf8(), pa.large_utf8(), pa.binary(),
    pa.large_binary(), pa.binary(0), pa.binary(5), pa.string_view(), pa.binary_view(),
]  # fmt: skip

# pyarrow can't build or compare a dictionary's values of these, or not with nulls among them.
DICTIONARY_VALUES: list[pa.DataType] = [pa.int32(), pa.float64(), pa.utf8(), pa.large_utf8(), pa.binary(), pa.date32()]

WORDS = ["", "a", "twelve bytes", "thirteen bytes", "ä" * 7, "a text that is longer than any view holds within", "\0"]


def metadata() -> st.SearchStrategy[dict[str, str] | None]:
    return st.none() | st.dictionaries(
        st.sampled_from(["k", "", "ARROW:extension:name", "ä"]), st.text(max_size=5), max_size=2
    )


def types(depth: int = 4) -> st.SearchStrategy[pa.DataType]:
    """Any type, nested up to `depth` deep."""
    if depth == 0:
        return st.sampled_from(PLAIN)
    inner = types(depth - 1)
    field = st.builds(
        lambda kind, name, nullable, extra: pa.field(name, kind, nullable, extra),
        inner, st.sampled_from(["a", "b", "", "a field"]), st.just(True), metadata(),
    )  # fmt: skip
    fields = st.lists(field, max_size=3)
    some_fields = st.lists(field, min_size=1, max_size=3)

    def union(fields: list[pa.Field], codes: list[int], dense: bool) -> pa.DataType:
        make = pa.dense_union if dense else pa.sparse_union
        return make(fields, codes[: len(fields)])

    nested = st.one_of(
        field.map(pa.list_),
        field.map(pa.large_list),
        field.map(pa.list_view),
        field.map(pa.large_list_view),
        st.builds(pa.list_, field, st.integers(0, 3)),
        fields.map(pa.struct),
        st.builds(lambda value, ordered: pa.map_(pa.utf8(), value, ordered), inner, st.booleans()),
        st.builds(union, some_fields, st.permutations([0, 1, 5]), st.booleans()),
        # pyarrow refuses to import runs of runs.
        st.builds(
            pa.run_end_encoded, st.sampled_from([pa.int16(), pa.int32(), pa.int64()]),
            inner.filter(lambda kind: not pa.types.is_run_end_encoded(kind)),
        ),
        st.builds(
            pa.dictionary, st.sampled_from([pa.int8(), pa.uint16(), pa.int32(), pa.int64()]),
            st.sampled_from(DICTIONARY_VALUES), st.booleans(),
        ),
    )  # fmt: skip
    return st.one_of(st.sampled_from(PLAIN), nested)


def schemas() -> st.SearchStrategy[pa.Schema]:
    def build(kinds: list[tuple[str, pa.DataType, dict[str, str] | None]], extra: dict[str, str] | None) -> pa.Schema:
        return pa.schema([pa.field(name, kind, metadata=about) for name, kind, about in kinds], extra)

    column = st.tuples(st.sampled_from(["a", "b", "", "x y", "ß"]), types(), metadata())
    return st.builds(build, st.lists(column, max_size=4), metadata())


def batch(schema: pa.Schema, rows: int, seed: int, sliced: bool) -> pa.RecordBatch:
    """A batch of `schema`; a slice out of the middle of a larger one if `sliced`."""
    make = Maker(random.Random(seed))
    before, after = (make.random.randrange(20), make.random.randrange(20)) if sliced else (0, 0)
    arrays = [make.array(field.type, before + rows + after) for field in schema]
    whole = pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else None
    if whole is None:
        # A batch of no columns has rows all the same.
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([]))).replace_schema_metadata(
            schema.metadata
        )
    return whole.slice(before, rows)


class Maker:
    def __init__(self, source: random.Random) -> None:
        self.random = source

    def mask(self, n: int) -> np.ndarray[Any, Any]:
        """True: null. Every third array has none."""
        if self.random.randrange(3) == 0:
            return np.zeros(n, bool)
        return np.array([self.random.randrange(4) == 0 for _ in range(n)], bool)

    def bitmap(self, n: int) -> pa.Buffer | None:
        mask = self.mask(n)
        return pa.py_buffer(np.packbits(~mask, bitorder="little").tobytes()) if mask.any() else None

    def values(self, n: int, make: Callable[[], Any]) -> list[Any]:
        return [None if null else make() for null in self.mask(n)]

    def array(self, kind: pa.DataType, n: int) -> pa.Array:
        of = pa.types
        if of.is_null(kind):
            return pa.nulls(n)
        if of.is_struct(kind):
            return pa.Array.from_buffers(
                kind, n, [self.bitmap(n)], children=[self.array(field.type, n) for field in kind]
            )
        if of.is_map(kind):
            offsets = self.offsets(n)
            keys = pa.array([self.random.choice(WORDS) for _ in range(offsets[-1])], kind.key_type)
            items = self.array(kind.item_type, offsets[-1])
            return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=kind)
        if of.is_fixed_size_list(kind):
            # from_arrays() divides by the size, which may be 0.
            child = self.array(kind.value_type, n * kind.list_size)
            return pa.Array.from_buffers(kind, n, [self.bitmap(n)], children=[child])
        if of.is_list(kind) or of.is_large_list(kind):
            offsets = self.offsets(n)
            child = self.array(kind.value_type, offsets[-1])
            cls, width = (pa.LargeListArray, pa.int64()) if of.is_large_list(kind) else (pa.ListArray, pa.int32())
            return cls.from_arrays(pa.array(offsets, width), child, type=kind, mask=pa.array(self.mask(n)))
        if of.is_list_view(kind) or of.is_large_list_view(kind):
            child_length = self.random.randrange(2 * n + 1)
            child = self.array(kind.value_type, child_length)
            sizes = [self.random.randrange(min(4, child_length + 1)) for _ in range(n)]
            starts = [self.random.randrange(child_length - size + 1) for size in sizes]
            large = of.is_large_list_view(kind)
            cls, width = (pa.LargeListViewArray, pa.int64()) if large else (pa.ListViewArray, pa.int32())
            return cls.from_arrays(
                pa.array(starts, width), pa.array(sizes, width), child, type=kind, mask=pa.array(self.mask(n))
            )
        if of.is_union(kind):
            return self.union(kind, n)
        if of.is_run_end_encoded(kind):
            ends: list[int] = []
            while not ends or ends[-1] < n:
                ends.append((ends[-1] if ends else 0) + self.random.randrange(1, 5))
            ends = ends if n else []
            if ends:
                ends[-1] = n
            values = self.array(kind.value_type, len(ends))
            return pa.RunEndEncodedArray.from_arrays(pa.array(ends, kind.run_end_type), values, kind)
        if of.is_dictionary(kind):
            words = self.array(kind.value_type, self.random.randrange(1, 6))
            indices = self.values(n, lambda: self.random.randrange(len(words)))
            return pa.DictionaryArray.from_arrays(pa.array(indices, kind.index_type), words, ordered=kind.ordered)
        return self.plain(kind, n)

    def offsets(self, n: int) -> list[int]:
        offsets = [0]
        for _ in range(n):
            offsets.append(offsets[-1] + self.random.randrange(4))
        return offsets

    def union(self, kind: pa.DataType, n: int) -> pa.Array:
        which = [self.random.randrange(kind.num_fields) for _ in range(n)]
        ids = pa.array([kind.type_codes[i] for i in which], pa.int8())
        names = [field.name for field in kind]
        if kind.mode == "sparse":
            children = [self.array(field.type, n) for field in kind]
            made = pa.UnionArray.from_sparse(ids, children, names, kind.type_codes)
        else:
            counts = [0] * kind.num_fields
            places = []
            for i in which:
                places.append(counts[i])
                counts[i] += 1
            children = [self.array(field.type, count) for field, count in zip(kind, counts, strict=True)]
            made = pa.UnionArray.from_dense(ids, pa.array(places, pa.int32()), children, names, kind.type_codes)
        # Names and codes are all that from_sparse() and from_dense() know; the fields' metadata is in the type.
        buffers = made.buffers()[: 2 if kind.mode == "sparse" else 3]
        return pa.Array.from_buffers(kind, n, buffers, 0, children=children)

    def plain(self, kind: pa.DataType, n: int) -> pa.Array:
        of, r = pa.types, self.random
        if of.is_boolean(kind):
            return pa.array(self.values(n, lambda: r.random() < 0.5), kind)
        if of.is_decimal(kind):
            digits = decimal.Context(prec=kind.precision)
            return pa.array(
                self.values(n, lambda: decimal.Decimal(r.randrange(-9999, 9999)).scaleb(-kind.scale, digits)), kind
            )
        if of.is_string(kind) or of.is_large_string(kind) or kind == pa.string_view():
            return pa.array(self.values(n, lambda: r.choice(WORDS)), kind)
        if of.is_fixed_size_binary(kind):
            return pa.array(self.values(n, lambda: r.randbytes(kind.byte_width)), kind)
        if of.is_binary(kind) or of.is_large_binary(kind) or kind == pa.binary_view():
            return pa.array(self.values(n, lambda: r.randbytes(r.choice([0, 1, 12, 13, 40]))), kind)
        if of.is_floating(kind):
            numbers = np.array([r.uniform(-1000, 1000) for _ in range(n)]).astype(kind.to_pandas_dtype())
            return pa.array(numbers, kind, mask=self.mask(n))
        if kind == pa.month_day_nano_interval():
            return pa.array(
                self.values(n, lambda: pa.MonthDayNano([r.randrange(99), r.randrange(99), r.randrange(10**9)])), kind
            )
        # What is left are numbers of days, ticks and plain ones.
        top = min(2 ** (kind.bit_width - 1), 80_000)
        step = 86_400_000 if kind == pa.date64() else 1
        numbers = self.values(n, lambda: r.randrange(top) * step)
        if of.is_temporal(kind):
            return pa.array(numbers, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
        return pa.array(numbers, kind)
