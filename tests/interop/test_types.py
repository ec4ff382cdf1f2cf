"""Every Arrow type of this version, there and back, equal to the last byte of metadata."""

from __future__ import annotations

import string

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.interop.every_type import VALUES, column

import crossdock as xd


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
