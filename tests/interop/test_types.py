"""Every Arrow type of this version, there and back, equal to the last byte of metadata."""

from __future__ import annotations

import datetime
import decimal
import string

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import crossdock as xd

D = decimal.Decimal
NOW = datetime.datetime(2024, 2, 29, 12, 34, 56, 789012)

VALUES: dict[str, tuple[pa.DataType, list]] = {
    "null": (pa.null(), [None, None, None]),
    "bool": (pa.bool_(), [True, None, False]),
    **{str(t): (t, [0, None, 100]) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(t): (t, [0, None, 200]) for t in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    **{str(t): (t, [0.5, None, -1.25]) for t in (pa.float16(), pa.float32(), pa.float64())},
    "decimal32": (pa.decimal32(7, 2), [D("1.25"), None, D("-99999.99")]),
    "decimal64": (pa.decimal64(15, 3), [D("1.125"), None, D("-1")]),
    "decimal128": (pa.decimal128(30, 10), [D("1.25"), None, D("-3")]),
    "decimal256": (pa.decimal256(60, 20), [D("1.25"), None, D("-3")]),
    "date32": (pa.date32(), [NOW.date(), None, datetime.date(1969, 1, 1)]),
    "date64": (pa.date64(), [NOW.date(), None, datetime.date(1969, 1, 1)]),
    "time32s": (pa.time32("s"), [1, None, 86399]),
    "time32ms": (pa.time32("ms"), [1, None, 86399999]),
    "time64us": (pa.time64("us"), [1, None, 5]),
    "time64ns": (pa.time64("ns"), [1, None, 5]),
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
    "dense union": (pa.dense_union([pa.field("i", pa.int32()), pa.field("s", pa.string())], [0, 127]), [1, "a", None]),
    "dense union in a list": (pa.list_(pa.dense_union([pa.field("i", pa.int8())])), [[1, 2], None, []]),
    "dictionary of views": (pa.dictionary(pa.int8(), pa.string_view()), ["a", None, "not inline at all"]),
    "struct of what is new, deep": (
        pa.struct([("r", pa.run_end_encoded(pa.int32(), pa.list_view(pa.struct([("v", pa.binary_view())]))))]),
        [{"r": [{"v": b"x"}, None]}, None, {"r": None}],
    ),
    "struct of everything deep": (
        pa.struct([("l", pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.int64())))])))]),
        [{"l": [{"m": [("k", [1, None])]}, None]}, None, {"l": None}],
    ),
}


def column(name: str) -> pa.Array:
    kind, values = VALUES[name]
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


def round_trip(batch: pa.RecordBatch, mode: str = "table") -> pa.RecordBatch:
    # A reader keeps an empty batch, which the stream of a pyarrow batch or table leaves out.
    reader = pa.RecordBatchReader.from_batches(batch.schema, [batch])
    with xd.Server() as server, xd.connect(server.uri) as client:
        server.publish("t", reader, mode=mode)
        (got,) = pa.RecordBatchReader.from_stream(client.get("t"))
    got.validate(full=True)
    return got


@pytest.mark.parametrize("mode", ["table", "live"])
@pytest.mark.parametrize("name", VALUES)
def test_a_type_comes_back_as_it_went(name, mode):
    metadata = {b"unit": b"furlongs", b"\xff\0": b"\0any bytes\xff"}
    field = pa.field("x", column(name).type, metadata=metadata)
    schema = pa.schema([field], metadata={"origin": "here"})
    whole = pa.record_batch([column(name)], schema=schema)
    assert round_trip(whole, mode).equals(whole, check_metadata=True)
    for part in (whole.slice(1), whole.slice(0, 1), whole.slice(2), whole.slice(0, 0)):
        assert round_trip(part, mode).equals(part, check_metadata=True)


@pytest.mark.parametrize("mode", ["table", "live"])
def test_all_of_them_in_one_table(mode):
    whole = pa.record_batch([column(name) for name in VALUES], names=list(VALUES))
    assert round_trip(whole, mode).equals(whole, check_metadata=True)


@pytest.mark.parametrize("version", [pa.ipc.MetadataVersion.V4, pa.ipc.MetadataVersion.V5], ids=["V4", "V5"])
@pytest.mark.parametrize("new", [pa.ipc.new_file, pa.ipc.new_stream], ids=["file", "stream"])
def test_files_of_both_metadata_versions(tmp_path, new, version):
    """V4 has a bitmap before a union's other buffers."""
    whole = pa.record_batch([column(name) for name in VALUES], names=list(VALUES))
    path = tmp_path / "all.arrow"
    with new(path, whole.schema, options=pa.ipc.IpcWriteOptions(metadata_version=version)) as writer:
        writer.write_batch(whole)
    with xd.serve({"f": path}) as server, xd.connect(server.uri) as client:
        (got,) = pa.RecordBatchReader.from_stream(client.get("f"))
    got.validate(full=True)
    assert got.equals(whole, check_metadata=True)


@pytest.mark.parametrize("mode", ["table", "live"])
def test_slices_that_start_inside_a_byte_of_a_bitmap(mode):
    length = 1000
    whole = pa.record_batch(
        {
            "b": pa.array([i % 3 == 0 if i % 7 else None for i in range(length)]),
            "s": pa.array([str(i) if i % 5 else None for i in range(length)]),
            "l": pa.array([[i, None] if i % 4 else None for i in range(length)]),
        }
    )
    for start, count in ((1, 10), (7, 993), (8, 64), (13, 1), (500, 0), (999, 1)):
        part = whole.slice(start, count)
        assert round_trip(part, mode).equals(part)


@pytest.mark.parametrize("mode", ["table", "live"])
def test_no_columns(mode):
    table = pa.record_batch({"x": [1, 2, 3]}).select([])
    assert table.num_rows == 3
    got = round_trip(table, mode)
    assert (got.num_rows, got.num_columns) == (3, 0)


def test_no_rows_and_no_batches():
    schema = pa.schema([("x", pa.int32()), ("s", pa.string())])
    sources = {"none": schema.empty_table(), "empty": pa.record_batch([[], []], schema=schema)}
    with xd.serve(sources) as server, xd.connect(server.uri) as client:
        for name in sources:
            got = pa.table(client.get(name))
            assert got.schema.equals(schema)
            assert got.num_rows == 0


def test_dictionaries_that_change_from_batch_to_batch():
    def batches():
        for values in (["a", "b"], ["c", "d", "c"], ["c", "d"], ["e"]):
            yield pa.record_batch({"d": pa.array(values).dictionary_encode(), "n": pa.array(range(len(values)))})

    schema = next(batches()).schema
    sources = {"f": lambda: pa.RecordBatchReader.from_batches(schema, batches()), "t": pa.Table.from_batches(batches())}
    with xd.serve(sources) as server, xd.connect(server.uri) as client:
        for name in sources:
            assert list(pa.RecordBatchReader.from_stream(client.get(name))) == list(batches())


def test_an_extension_type_keeps_its_metadata():
    array = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0123456789abcdef", None], pa.binary(16)))
    batch = pa.record_batch({"id": array})
    assert round_trip(batch).equals(batch, check_metadata=True)


TEXT = st.text(string.printable, max_size=5)
COLUMNS = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=10),
    pa.large_binary(): st.binary(max_size=10),
    pa.list_(pa.int16()): st.lists(st.none() | st.integers(-(2**15), 2**15 - 1), max_size=4),
    pa.struct([("a", pa.int8()), ("b", pa.string())]): st.fixed_dictionaries(
        {"a": st.none() | st.integers(-128, 127), "b": st.none() | TEXT}
    ),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(0, 40))
    kinds = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=4))
    columns = [
        pa.array(draw(st.lists(st.none() | COLUMNS[kind], min_size=rows, max_size=rows)), kind) for kind in kinds
    ]
    table = pa.table(columns, names=[f"c{i}" for i in range(len(kinds))])
    start = draw(st.integers(0, rows))
    return table.slice(start, draw(st.integers(0, rows - start)))


@pytest.fixture
def exchange():
    with xd.Server() as server, xd.connect(server.uri) as client:

        def exchange(table: pa.Table) -> pa.Table:
            server.publish("t", table)
            try:
                return pa.table(client.get("t"))
            finally:
                server.withdraw("t")

        yield exchange


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables())
def test_any_table(exchange, table):
    got = exchange(table)
    got.validate(full=True)
    assert got.equals(table, check_metadata=True)
