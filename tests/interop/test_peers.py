"""Other libraries take our streams, with equal values, and without a copy where this process can tell."""

from __future__ import annotations

import duckdb
import nanoarrow as na
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import crossdock as xd

ROWS = 10_000
TABLE = pa.table(
    {
        "n": pa.array(range(ROWS), pa.int64()),
        "f": pa.array([i / 4 if i % 10 else None for i in range(ROWS)]),
        "s": pa.array([f"row {i}" if i % 7 else None for i in range(ROWS)]),
    }
)

# The mappings of a test's server hold what it served; peers start threads and pools that aren't ours to check.
pl.DataFrame(TABLE)
duckdb.sql("select 1").fetchall()


def arena_batch(arena: xd.Arena) -> pa.RecordBatch:
    array = arena.empty(ROWS)
    array[:] = np.arange(ROWS)
    return pa.record_batch([pa.Array.from_buffers(pa.float64(), ROWS, [None, pa.py_buffer(array)])], ["x"])


@pytest.fixture(params=["table", "file", "arena", "live"])
def source(request, tmp_path):
    """(what is served, the table that it is, part of the name of the mapping that must hold its bytes)"""
    if request.param == "file":
        path = tmp_path / "served.arrow"
        with pa.ipc.new_file(str(path), TABLE.schema) as sink:
            sink.write_table(TABLE, max_chunksize=ROWS // 3)
        return path, TABLE, "served.arrow"
    if request.param == "arena":
        batch = arena_batch(xd.Arena())
        return batch, pa.Table.from_batches([batch]), "memfd:"
    if request.param == "live":
        return pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(ROWS // 3)), TABLE, "memfd:"
    return TABLE, TABLE, "memfd:"


@pytest.fixture
def reader(source):
    with xd.serve({"t": source[0]}) as server, xd.connect(server.uri) as client:
        yield client.get("t")


def addresses(table: pa.Table) -> list[int]:
    return [
        buffer.address
        for column in table.columns
        for chunk in column.chunks
        for buffer in chunk.buffers()
        if buffer is not None and buffer.size
    ]


def test_pyarrow(reader, source, mapping_of):
    _, table, where = source
    got = pa.RecordBatchReader.from_stream(reader).read_all()
    got.validate(full=True)
    assert got.equals(table)
    for address in addresses(got):
        mapping = mapping_of(address)
        assert where in mapping.name
        assert mapping.permissions.startswith("r--")


def test_pyarrow_batch_by_batch(reader, source, mapping_of):
    _, table, where = source
    batches = [pa.record_batch(batch) for batch in reader]
    got = pa.Table.from_batches(batches)
    assert got.equals(table)
    assert all(where in mapping_of(address).name for address in addresses(got))


def test_two_consumers_see_the_same_pages_of_a_file(tmp_path):
    path = tmp_path / "served.arrow"
    with pa.ipc.new_file(str(path), TABLE.schema) as sink:
        sink.write_table(TABLE)
    with xd.serve({"t": path}) as server:
        tables = []
        for _ in range(2):
            with xd.connect(server.uri) as client:
                tables.append(pa.table(client.get("t")))
        assert server.stats()["sources"][0]["bytes_copied"] == 0
    assert tables[0].equals(tables[1])


def test_polars(reader, source, mapping_of):
    _, table, where = source
    frame = pl.DataFrame(reader)
    assert frame.equals(pl.DataFrame(table))
    if where == "memfd:" and table.num_columns == 1:
        # One chunk without nulls is a view in polars: the arena's own memory.
        assert where in mapping_of(frame["x"].to_numpy(allow_copy=False).ctypes.data).name


def test_polars_takes_a_batch(reader, source):
    batches = list(reader)
    assert pl.concat([pl.DataFrame(batch) for batch in batches]).equals(pl.DataFrame(source[1]))


def test_duckdb(reader, source):
    table = source[1]
    stream = pa.RecordBatchReader.from_stream(reader)
    column = table.column_names[0]
    with duckdb.connect() as connection:
        connection.register("stream", stream)
        rows, total = connection.sql(f"select count(*), sum({column}) from stream").fetchall()[0]
        connection.unregister("stream")
    assert rows == table.num_rows
    assert total == sum(table.column(column).to_pylist())


def test_nanoarrow(reader, source):
    table = source[1]
    array = na.ArrayStream(reader).read_all()
    assert array.to_pylist() == table.to_pylist()


def test_nanoarrow_without_a_copy(source, mapping_of):
    data, _, where = source
    with xd.serve({"t": data}) as server, xd.connect(server.uri) as client:
        batch = next(client.get("t"))
        view = na.c_array(batch).view()
        assert where in mapping_of(view.child(0).buffer(1)._addr()).name


def test_pandas(reader, source):
    frame = pd.DataFrame.from_arrow(reader) if hasattr(pd.DataFrame, "from_arrow") else pa.table(reader).to_pandas()
    expected = source[1].to_pandas()
    assert len(frame) == len(expected)
    for name in expected.columns:
        left, right = frame[name], expected[name]
        assert left.isna().equals(right.isna())
        assert (left.dropna() == right.dropna()).all()


def test_numpy_without_a_copy(reader, source, mapping_of):
    _, _, where = source
    column = pa.record_batch(next(reader)).column(0)
    array = column.to_numpy(zero_copy_only=True)
    assert where in mapping_of(array.ctypes.data).name
    assert not array.flags.writeable


@pytest.mark.parametrize(
    "make",
    [
        lambda table: pl.DataFrame(table),
        lambda table: pl.DataFrame(table)["s"],
        lambda table: table.to_pandas(),
        lambda table: na.Array(table.to_batches()[0]),
        lambda table: na.ArrayStream(table),
    ],
    ids=["polars", "polars series", "pandas", "nanoarrow", "nanoarrow stream"],
)
def test_their_data_is_served(make):
    data = make(TABLE)
    with xd.Server() as server, xd.connect(server.uri) as client:
        server.publish("t", data)
        got = pa.table(client.get("t"))
    assert got.num_rows == ROWS
    if got.num_columns == 3:
        assert got.column(0).to_pylist() == TABLE.column(0).to_pylist()


def test_a_duckdb_relation_is_served():
    with duckdb.connect() as connection:
        relation = connection.sql("select range as n, range * 2 as m from range(1000)")
        with xd.serve({"t": relation}) as server, xd.connect(server.uri) as client:
            got = pa.table(client.get("t"))
    assert got.num_rows == 1000
    assert got.column("m").to_pylist() == list(range(0, 2000, 2))
