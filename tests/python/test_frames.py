"""`to_arrow()`, `to_pandas()` and `to_polars()` of batches, readers, files and handles; pandas beside tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import crossdock as xd
from crossdock import testing

TABLE = pa.table({"n": pa.array(range(1000), pa.int64()), "x": np.linspace(0, 1, 1000), "s": ["a", "b"] * 500})


@pytest.fixture
def client() -> Iterator[xd.Client]:
    with xd.serve({"t": TABLE}) as server, xd.connect(server.uri) as client:
        yield client


# Each in the client's process, of the same table.
KINDS: dict[str, Callable[[xd.Client, Path], Any]] = {
    "batch": lambda client, _: next(client.get("t")),
    "reader": lambda client, _: client.get("t"),
    "file": lambda _, path: xd.open(path),
    "handle": lambda client, _: client.table("t"),
}


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, client: xd.Client, tmp_path: Path) -> Callable[[], Any]:
    xd.write(TABLE, tmp_path / "t.arrow")
    return lambda: KINDS[request.param](client, tmp_path / "t.arrow")


def address(array: Any) -> int:
    """Where the values of an array of pyarrow's are; of the first chunk, if it has several."""
    return int((array.chunk(0) if isinstance(array, pa.ChunkedArray) else array).buffers()[1].address)


def test_arrow(make: Callable[[], Any]) -> None:
    thing = make()
    got = thing.to_arrow()
    assert isinstance(got, pa.RecordBatch if isinstance(thing, xd.RecordBatch) else pa.Table)
    assert pa.table(got).equals(TABLE)


def test_pandas(make: Callable[[], Any]) -> None:
    frame = make().to_pandas()
    assert set(map(str, frame.dtypes)) == {"int64[pyarrow]", "double[pyarrow]", "string[pyarrow]"}
    assert frame["n"].sum() == 499500
    assert make().to_pandas(numpy=True).equals(TABLE.to_pandas())
    assert make().to_pandas(types_mapper=None)["n"].dtype == np.int64


def test_polars(make: Callable[[], Any]) -> None:
    assert make().to_polars().equals(pl.from_arrow(TABLE))


def test_the_memory_is_that_of_the_batch(client: xd.Client) -> None:
    batch = next(client.get("t"))
    there = batch["x"].values.pointer
    assert address(batch.to_arrow()["x"]) == there
    assert address(pa.array(batch.to_pandas()["x"].array)) == there
    assert batch.to_polars()["x"].to_numpy(allow_copy=False).ctypes.data == there


def test_a_reader_is_passed_on_as_a_whole(client: xd.Client) -> None:
    with client.get("t") as reader:
        next(reader)
        with pytest.raises(xd.ConsumedError, match=r"get\(\) the table again"):
            reader.to_polars()


@pytest.mark.simulated_devices(1)
def test_memory_of_a_device_is_copied_to_the_host(simulated_devices: testing.SimulatedDevices) -> None:
    batch = xd.RecordBatch(pa.record_batch({"n": [1, 2]})).to("sim:0")
    assert batch.to_arrow()["n"].to_pylist() == [1, 2]
    assert batch.to_pandas()["n"].tolist() == batch.to_polars()["n"].to_list() == [1, 2]


def test_pandas_takes_tensors() -> None:
    values = np.arange(4.0)
    tensor = xd.asarray(values)
    series = pd.Series(tensor)
    assert series.dtype == np.float64
    assert series.tolist() == values.tolist()
    assert np.shares_memory(series.to_numpy(), values)
    assert pd.DataFrame({"v": tensor})["v"].tolist() == values.tolist()
    assert pd.DataFrame(xd.asarray(values.reshape(2, 2))).shape == (2, 2)


def test_pandas_asks_for_an_array_where_it_would_take_elements() -> None:
    """Elements are tensors, which are equal to nothing: their search would find nothing, without an error."""
    tensor = xd.asarray(np.arange(3))
    series = pd.Series([0, 1, 5])
    for take in (series.isin, series.to_frame("v").isin, pd.Index(series).isin, pd.Categorical):
        with pytest.raises(TypeError, match=r"numpy\.asarray\(tensor\)"):
            take(tensor)
    assert (series == tensor).tolist() == [True, True, False]
    assert (series + tensor).tolist() == [0, 2, 7]
    assert series.isin(np.asarray(tensor)).tolist() == [True, True, False]


def test_pandas_takes_the_type_of_an_empty_tensor_when_it_is_given() -> None:
    empty = xd.empty((0,), "float64")
    assert pd.Series(empty).dtype == object  # pandas' rule for whatever has no length, but for NumPy's arrays
    assert pd.Series(np.asarray(empty)).dtype == pd.Series(empty, dtype="float64").dtype == np.float64


def test_a_wrong_option_is_told_before_anything_is_read(make: Callable[[], Any]) -> None:
    thing = make()
    with pytest.raises(TypeError, match="unexpected keyword argument 'typo'"):
        thing.to_pandas(typo=1)
    assert len(thing.to_pandas()) == 1000


def test_a_tensor_is_iterated_over_its_first_dimension() -> None:
    values = np.arange(6.0).reshape(3, 2)
    rows = [*xd.asarray(values)]
    assert [row.shape for row in rows] == [(2,)] * 3
    assert [row.pointer for row in rows] == [values[i].ctypes.data for i in range(3)]
    first, _, last = xd.asarray(values)
    assert (first.tolist(), last.tolist()) == ([0.0, 1.0], [4.0, 5.0])
    assert [*xd.empty((0, 2))] == []
    for elements in (np.arange(3), np.float64(3)):
        with pytest.raises(TypeError, match=r"use \.tolist\(\), or numpy\.asarray\(tensor\)"):
            iter(xd.asarray(elements))
    with pytest.raises(TypeError, match=r"use `value in numpy\.asarray\(tensor\)`"):
        _ = 1.0 in xd.asarray(values)
