"""`Client.table()`: a handle that is read again and again, by whichever library."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import crossdock as xd

TABLE = pa.table({"n": pa.array(range(1000), pa.int64()), "x": np.linspace(0, 1, 1000), "s": ["a", "b"] * 500})


@pytest.fixture
def server():
    with xd.serve({"t": TABLE, "live": lambda: TABLE.to_reader(), "tensor": np.arange(3)}) as server:
        yield server


@pytest.fixture
def client(server):
    with xd.connect(server.uri) as client:
        yield client


def test_it_is_read_again_and_again(client):
    handle = client.table("t")
    for _ in range(3):
        assert pa.table(handle).equals(TABLE)
        assert handle.to_arrow().equals(TABLE)
    assert [len(batch) for batch in handle] == [1000]
    assert pa.table(handle.get()).equals(TABLE)
    assert repr(handle) == "<crossdock.Table 't'>"
    assert (handle.name, handle.columns, handle.num_rows) == ("t", None, 1000)
    assert client.table(b"t").num_rows == 1000
    assert [len(batch) for batch in [*handle]] == [1000]
    assert pa.schema(handle.schema) == TABLE.schema


def test_nothing_is_asked_before_it_is_read(server, client):
    handle = client.table("later")
    assert handle
    server.publish("later", TABLE)
    assert handle.to_arrow().equals(TABLE)
    server.publish("later", TABLE.slice(0, 10), replace=True)
    assert handle.to_arrow().num_rows == handle.num_rows == 10


def test_some_columns(client):
    handle = client.table("t", ["x", "n"])
    assert handle.to_arrow().equals(TABLE.select(["x", "n"]))
    one = handle.select(["s"])
    assert one.to_arrow().equals(TABLE.select(["s"]))
    assert one.columns == ["s"]
    assert repr(one) == "<crossdock.Table 't', columns=['s']>"
    one.columns.clear()
    assert one.columns == ["s"]
    with pytest.raises(TypeError, match="a list of names"):
        handle.select("s")
    with pytest.raises(xd.Error, match="absent"):
        handle.select(["absent"]).to_arrow()


def test_pandas_has_arrows_columns_without_a_copy(client):
    frame = client.table("t").to_pandas()
    assert set(map(str, frame.dtypes)) == {"int64[pyarrow]", "double[pyarrow]", "string[pyarrow]"}
    assert frame["n"].sum() == 499500
    of_numpy = client.table("t").to_pandas(numpy=True)
    assert of_numpy["n"].dtype == np.int64
    assert of_numpy.equals(TABLE.to_pandas())
    assert client.table("t", ["n"]).to_pandas(types_mapper=None)["n"].dtype == np.int64


def test_pandas_has_the_index_again(server, client):
    frame = pd.DataFrame({"v": [1.5, 2.5]}, index=pd.Index(["a", "b"], name="key"))
    server.publish("frame", frame)
    assert client.table("frame").to_pandas(numpy=True).equals(frame)
    assert list(client.table("frame").to_pandas().index) == ["a", "b"]


def test_polars(client):
    handle = client.table("t")
    for frame in (handle.to_polars(), pl.DataFrame(handle)):
        assert isinstance(frame, pl.DataFrame)
        assert frame["n"].sum() == 499500
        assert frame["s"].to_list()[:3] == ["a", "b", "a"]


def test_duckdb_queries_it_twice(server, client):
    handle = client.table("t")  # noqa: F841
    for _ in range(2):
        assert duckdb.sql("select sum(n), count(distinct s) from handle").fetchall() == [(499500, 2)]
    server.publish("t", pa.table({"other": [1.5]}), replace=True)
    assert duckdb.sql("select * from handle").fetchall() == [(1.5,)]


def test_it_is_a_source(server, client):
    with xd.serve({"again": client.table("t")}) as second, xd.connect(second.uri) as reads:
        assert reads.list()[0].rows == 1000
        for _ in range(2):
            assert pa.table(reads.get("again")).equals(TABLE)


def test_a_live_stream_has_no_number_of_rows(client):
    handle = client.table("live")
    with pytest.raises(xd.InvalidArgumentError, match="'live' has no number of rows"):
        _ = handle.num_rows
    assert sum(len(batch) for batch in [*handle]) == 1000
    for _ in range(2):
        assert handle.to_arrow().equals(TABLE), "it is made anew each time"


def test_what_is_no_table(client):
    with pytest.raises(xd.NotFoundError, match="absent"):
        client.table("absent").to_arrow()
    with pytest.raises(xd.NotFoundError, match="absent"):
        _ = client.table("absent").num_rows
    with pytest.raises(xd.NotFoundError, match="absent"):
        _ = client.table("absent").schema
    with pytest.raises(xd.InvalidArgumentError, match="tensor"):
        client.table("tensor").to_arrow()
    with pytest.raises(xd.InvalidArgumentError, match="tensor"):
        _ = client.table("tensor").num_rows
    with pytest.raises(TypeError, match="a list of names"):
        client.table("t", "n")
    with pytest.raises(TypeError, match="must be a str, not int"):
        client.table("t", [1])  # type: ignore[list-item]
    client.close()
    with pytest.raises(xd.ClosedError):
        client.table("t").to_arrow()


@pytest.mark.parametrize("take", [np.asarray, pd.DataFrame])
def test_it_isnt_taken_for_an_array_in_silence(client, take):
    """NumPy and pandas would make one cell of it, or one for each batch."""
    with pytest.raises(TypeError, match=r"to_pandas\(\)"):
        take(client.table("t"))
    with client.get("t") as reader, pytest.raises(TypeError, match=r"to_pandas\(\)"):
        take(reader)
    batch = next(client.get("t"))
    with pytest.raises(TypeError, match=r"batch\['name'\]"):
        np.asarray(batch)


# What makes each, and the expression for a column that its errors name, of the batch or of its first batch.
NO_ARRAYS: dict[str, Callable[[xd.Client, Path], Any]] = {
    "batch": lambda client, _: next(client.get("t")),
    "reader": lambda client, _: client.get("t"),
    "table": lambda client, _: client.table("t"),
    "file": lambda _, path: xd.open(path),
}


@pytest.mark.parametrize("name", NO_ARRAYS)
def test_who_takes_it_for_one_array_is_told_what_to_call(client, tmp_path, name):
    xd.write(TABLE, tmp_path / "t.arrow")
    thing = NO_ARRAYS[name](client, tmp_path / "t.arrow")
    help_ = "batch['name']"
    for take in (np.asarray, np.array, lambda thing: np.stack([thing])):
        with pytest.raises(TypeError, match=re.escape(help_)):
            take(thing)
    takes = [np.from_dlpack, xd.from_dlpack]
    torch = pytest.importorskip("torch")
    for take in (*takes, torch.from_dlpack, torch.as_tensor):
        with pytest.raises(BufferError, match=re.escape(help_)):
            take(thing)
    with pytest.raises(TypeError, match=r"to_pandas\(\)"):
        pd.DataFrame(thing)
    table = pa.table(thing)
    assert table.equals(TABLE), "nothing was consumed"


@pytest.mark.parametrize("name", NO_ARRAYS)
def test_the_calls_that_it_names_help(client, tmp_path, name):
    xd.write(TABLE, tmp_path / "t.arrow")
    thing = NO_ARRAYS[name](client, tmp_path / "t.arrow")
    batch = thing if name == "batch" else next(iter(thing))
    with pytest.raises(TypeError, match=re.escape("batch['name']")):
        np.asarray(batch)
    assert np.asarray(batch["n"]).tolist() == [*range(len(batch))]


def test_a_table_of_one_column_is_an_array_for_us(server, client):
    server.publish("one", TABLE.select(["x"]))
    for thing in (client.table("one"), client.get("one"), next(client.get("one"))):
        assert xd.asarray(thing).tolist() == TABLE["x"].to_pylist()


@pytest.mark.parametrize("name", ["batch", "reader", "table"])
def test_the_checker_has_nothing_against_it(client, tmp_path, name):
    report = xd.check(lambda: NO_ARRAYS[name](client, tmp_path))
    assert report.ok, str(report)


def test_the_versions_are_those_of_the_catalog(server, client):
    def version() -> int | None:
        return next(entry.version for entry in client.list() if entry.name == "t")

    reader = client.get("t")
    assert reader.version == version() is not None
    assert pa.table(reader).equals(TABLE)
    server.publish("t", TABLE, replace=True)
    assert client.get("t").version == version() != reader.version
    assert client.get("live").version is None
