"""`requested_schema` of every export: the same data in the encoding that the consumer asks for."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nanoarrow as na
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.interop.arrow_data import Maker

import crossdock as xd

WORDS = ["", "a", None, "twelve bytes", "a text longer than any view holds within", "a"]
BATCH = pa.record_batch({"i": pa.array(range(6)), "s": pa.array(WORDS), "l": pa.array([[w] for w in WORDS])})
WIDE = pa.schema([("i", pa.int64()), ("s", pa.large_string()), ("l", pa.large_list(pa.string_view()))])
TEXTS = [
    pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.uint64(), pa.large_string()), pa.dictionary(pa.int32(), pa.string_view()),
]  # fmt: skip
FLAT = [
    pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.decimal128(30, 5),
    pa.decimal256(70, 10), pa.date32(), pa.timestamp("us", "Europe/Paris"), pa.binary(5), pa.binary(0), pa.binary(),
]  # fmt: skip


def arrays(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch._import_from_c_capsule(*xd.RecordBatch(batch).__arrow_c_array__(schema.__arrow_c_schema__()))


def device_arrays(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    pair = xd.RecordBatch(batch).__arrow_c_device_array__(schema.__arrow_c_schema__())
    return pa.RecordBatch._import_from_c_device_capsule(*pair)


def streams(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return next(pa.RecordBatchReader.from_stream(xd.RecordBatchReader(batch), schema=schema))


def device_streams(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    class Asks:  # Stands for a consumer of device streams, which pyarrow isn't.
        def __arrow_c_device_stream__(self, **_: object) -> object:
            return xd.RecordBatchReader(batch).__arrow_c_device_stream__(schema.__arrow_c_schema__())

    return next(pa.RecordBatchReader.from_stream(xd.RecordBatchReader(Asks())))


EXPORTS = [arrays, device_arrays, streams, device_streams]
Export = Callable[[pa.RecordBatch, pa.Schema], pa.RecordBatch]


def texts(kind: pa.DataType) -> pa.Array:
    if not pa.types.is_dictionary(kind):
        return pa.array(WORDS * 10, kind)
    encoded = pa.array(WORDS * 10).dictionary_encode()
    values = encoded.dictionary.cast(kind.value_type)
    return pa.DictionaryArray.from_arrays(encoded.indices.cast(kind.index_type), values)


def one(array: pa.Array, kind: pa.DataType) -> pa.Array:
    batch = arrays(pa.record_batch({"x": array}), pa.schema([("x", kind)]))
    batch.validate(full=True)
    return batch.column(0)


@pytest.mark.parametrize("to", TEXTS, ids=str)
@pytest.mark.parametrize("of", TEXTS, ids=str)
def test_text_is_what_pyarrow_makes_of_it(of, to):
    for array in (texts(of), texts(of)[3:50], texts(of)[:0]):
        got = one(array, to)
        assert got.type == to
        assert got.to_pylist() == array.to_pylist()
        with contextlib.suppress(pa.ArrowNotImplementedError):  # It has no cast between some of them.
            assert got.equals(array.cast(to))


@pytest.mark.parametrize("kind", FLAT, ids=str)
@given(seed=st.integers(0, 2**32), start=st.integers(0, 20), length=st.integers(0, 40))
def test_flat_types_as_dictionaries_and_back(kind, seed, start, length):
    array = Maker(random.Random(seed)).array(kind, 60)[start : start + length]
    encoded = one(array, pa.dictionary(pa.int16(), kind))
    assert encoded.to_pylist() == array.to_pylist()
    assert len(set(encoded.dictionary.to_pylist())) == len(encoded.dictionary) == len(set(array.to_pylist()) - {None})
    assert one(encoded, kind).equals(array)


@pytest.mark.parametrize("export", EXPORTS)
def test_every_export_converts(export):
    got = export(BATCH, WIDE)
    got.validate(full=True)
    assert got.schema == WIDE
    assert got.equals(BATCH.cast(WIDE))
    assert got["i"].buffers()[1].address == BATCH["i"].buffers()[1].address, "what stays as it is, isn't copied"
    assert got["s"].buffers()[2].address == BATCH["s"].buffers()[2].address, "only offsets are new"


@pytest.mark.parametrize("export", EXPORTS)
def test_only_copied_bytes_are_logged(export, log_lines):
    for schema in (BATCH.schema, BATCH.schema.with_metadata({"k": "v"})):
        got = export(BATCH, schema)
        assert got.schema.equals(schema, check_metadata=True)
        for ours, theirs in zip(got.columns, BATCH.columns, strict=True):
            assert [b and b.address for b in ours.buffers()] == [b and b.address for b in theirs.buffers()]
    export(BATCH, WIDE)
    # 7 offsets of 8 bytes for each of two columns, and 6 views. The log's first line: the others copied nothing.
    copied = 7 * 8 * 2 + 6 * 16
    assert log_lines.next() == f"copying {copied} bytes: a consumer requested 6 rows in another encoding"


@pytest.mark.parametrize("export", EXPORTS)
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.list_(pa.string()), 'field "s" .*it is utf8, not list'),
        (pa.struct([("s", pa.string())]), "it is utf8, not struct"),
    ],
    ids=str,
)
def test_another_type_is_refused(export, kind, text):
    with pytest.raises(xd.UnsupportedTypeError, match=text):
        export(BATCH, BATCH.schema.set(1, pa.field("s", kind)))


def test_pyarrow_casts_to_another_type():
    batch = xd.RecordBatch(BATCH)
    narrow = pa.schema([("i", pa.int8()), ("s", pa.large_string()), *list(BATCH.schema)[2:]])
    assert pa.record_batch(batch, schema=narrow).equals(BATCH.cast(narrow))
    assert pa.table(batch, schema=narrow).equals(pa.Table.from_batches([BATCH]).cast(narrow))
    nothing = xd.RecordBatch(pa.record_batch({"n": pa.nulls(2), "s": ["a", "b"]}))
    wanted = pa.schema([("n", pa.int32()), ("s", pa.binary())])
    assert pa.record_batch(nothing, schema=wanted).to_pydict() == {"n": [None, None], "s": [b"a", b"b"]}


@pytest.mark.parametrize("export", EXPORTS)
def test_other_columns_are_refused(export):
    with pytest.raises(xd.UnsupportedTypeError, match="it has 3 fields, not 2"):
        export(BATCH, BATCH.schema.remove(0))
    with pytest.raises(xd.UnsupportedTypeError, match=r'field "s" .*"t" is requested'):
        export(BATCH, BATCH.schema.set(1, pa.field("t", pa.string())))
    with pytest.raises(xd.UnsupportedTypeError, match="request a struct of its columns"):
        export(BATCH, pa.int64())


def exporters(tmp_path: Path) -> Iterator[Any]:
    with pa.ipc.new_file(tmp_path / "f.arrow", BATCH.schema) as writer:
        writer.write_batch(BATCH)
    tensor = xd.asarray(memoryview(b"abc"))
    yield from (xd.RecordBatch(BATCH), xd.RecordBatchReader(BATCH), xd.open(tmp_path / "f.arrow"))
    yield from (tensor, tensor.to_arrow())


def test_what_is_no_schema_is_a_type_error(tmp_path):
    for exporter in exporters(tmp_path):
        methods = [name for name in dir(exporter) if name.startswith("__arrow_c_") and name != "__arrow_c_schema__"]
        assert len(methods) == 2
        for name in methods:
            for wrong in (5, "int64", BATCH.schema, BATCH.__arrow_c_array__()[1]):
                with pytest.raises(TypeError, match='must be a capsule "arrow_schema" or None, not '):
                    getattr(exporter, name)(wrong)
            assert getattr(exporter, name)(exporter.__arrow_c_schema__()), "and it wasn't consumed"
            if hasattr(exporter, "__arrow_c_stream__"):
                break


def test_a_capsule_that_was_used_is_refused():
    used = BATCH.schema.__arrow_c_schema__()
    pa.Schema._import_from_c_capsule(used)
    with pytest.raises(xd.InvalidDataError, match="requested_schema"):
        xd.RecordBatch(BATCH).__arrow_c_array__(used)


def test_files_and_served_tables_convert(tmp_path):
    whole = pa.Table.from_batches([BATCH, BATCH.slice(2), BATCH.slice(0, 0)])
    with pa.ipc.new_file(tmp_path / "f.arrow", BATCH.schema) as writer:
        writer.write_table(whole)
    with xd.open(tmp_path / "f.arrow") as file:
        assert pa.table(file, schema=WIDE).equals(whole.cast(WIDE))
    with xd.serve({"t": whole}) as server, xd.connect(server.uri) as client:
        assert pa.table(client.get("t"), schema=WIDE).equals(whole.cast(WIDE))
        reader = client.get("t")
        with pytest.raises(xd.UnsupportedTypeError):
            pa.RecordBatchReader.from_stream(reader, schema=pa.schema([("i", pa.int64())]))
        assert pa.table(reader).equals(whole), "a request that is refused doesn't consume the reader"


def test_a_stream_whose_data_does_not_fit_fails_at_its_batch():
    numbers = pa.array(range(200), pa.int64())
    reader = xd.RecordBatchReader(pa.table({"x": pa.chunked_array([numbers[:5], numbers])}))
    narrow = pa.schema([("x", pa.dictionary(pa.int8(), pa.int64()))])
    theirs = pa.RecordBatchReader.from_stream(reader, schema=narrow)
    assert next(theirs).column(0).to_pylist() == list(range(5))
    for _ in range(2):
        with pytest.raises(OSError, match="128 doesn't fit the 8 bits"):
            next(theirs)


def test_nulls_in_a_column_that_is_requested_without():
    schema = pa.schema([pa.field("x", pa.large_string(), nullable=False)])
    assert arrays(pa.record_batch({"x": ["a"]}), schema).schema == schema
    with pytest.raises(xd.InvalidDataError, match='field "x": elements are null'):
        arrays(pa.record_batch({"x": ["a", None]}), schema)


def test_columns_are_requested_by_their_type():
    column = xd.asarray(memoryview(b"abca")).to_arrow()
    got = pa.array(column, pa.dictionary(pa.int8(), pa.uint8()))
    assert got.type == pa.dictionary(pa.int8(), pa.uint8())
    assert got.to_pylist() == list(b"abca")
    with pytest.raises(xd.UnsupportedTypeError, match="another type is requested"):
        pa.array(column, pa.uint16())
    with pytest.raises(xd.UnsupportedTypeError, match="it is uint8, not list"):
        column.__arrow_c_array__(pa.list_(pa.uint8()).__arrow_c_schema__())
    with pytest.raises(xd.UnsupportedTypeError, match="a struct is requested"):
        column.__arrow_c_device_array__(BATCH.schema.__arrow_c_schema__())


def test_other_libraries_request():
    batch = xd.RecordBatch(BATCH)
    assert pa.record_batch(batch, schema=WIDE).equals(BATCH.cast(WIDE))
    large = pa.schema([("i", pa.int64()), ("s", pa.large_string()), ("l", pa.large_list(pa.large_string()))])
    # Without views: pyarrow crashes when it reads views from nanoarrow, pyarrow's own ones too.
    assert pa.record_batch(na.c_array(batch, large)).equals(BATCH.cast(large))
    stream = na.c_array_stream(xd.RecordBatchReader(BATCH), large)
    assert pa.table(stream).equals(pa.Table.from_batches([BATCH]).cast(large))


def test_data_of_a_device_is_not_converted(simulated_devices):
    there = xd.RecordBatch(BATCH).to("sim:0")
    schema = WIDE.__arrow_c_schema__
    with pytest.raises(xd.UnsupportedError, match=r'copy the data first \(RecordBatch.to\("cpu"\)\)'):
        there.__arrow_c_device_array__(schema())
    assert there.__arrow_c_device_array__(BATCH.schema.with_metadata({"k": "v"}).__arrow_c_schema__())
    got = pa.RecordBatch._import_from_c_capsule(*there.__arrow_c_array__(schema()))
    assert got.equals(BATCH.cast(WIDE)), "the method for the CPU copies and converts"
