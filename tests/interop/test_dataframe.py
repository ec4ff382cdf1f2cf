"""`RecordBatch.__dataframe__()`, read by pyarrow and pandas."""

from __future__ import annotations

import datetime
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.interchange
import pytest

import crossdock as xd

NUMBERS = {str(kind): pa.array([1, None, 3, 4], kind) for kind in (
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float32(),
    pa.float64(),
)}  # fmt: skip
TABLE = pa.record_batch(
    {
        **NUMBERS,
        "plain": [1, 2, 3, 4],
        "bool": pa.array([True, None, False, True]),
        "text": ["a", None, "ccc", ""],
        "large": pa.array(["a", "bb", None, "d"], pa.large_string()),
        "when": pa.array([datetime.datetime(2024, 1, 1, i) for i in range(4)], pa.timestamp("us")),
        "word": pa.array(["x", "y", None, "x"]).dictionary_encode(),
    }
)


@pytest.mark.parametrize("rows", [slice(None), slice(1, 3)])
def test_pyarrow_reads_every_column(rows):
    batch = xd.RecordBatch(TABLE)[rows]
    got = pa.interchange.from_dataframe(batch)
    assert got.to_pydict() == {name: TABLE[name].to_pylist()[rows] for name in TABLE.schema.names}


def test_nothing_is_copied():
    batch = xd.RecordBatch(TABLE)
    frame = batch.__dataframe__(allow_copy=False)
    for name in ("plain", "text", "when"):
        buffers = frame.get_column_by_name(name).get_buffers()
        assert buffers["data"][0].ptr == TABLE[name].buffers()[-1].address
    assert frame.get_column_by_name("plain").describe_null == (0, None)
    assert frame.get_column_by_name("text").null_count == 1


def test_pandas_reads_it():
    """But for dictionaries, of which it takes its own alone."""
    pandas = pytest.importorskip("pandas")
    if not hasattr(pandas.api, "interchange"):
        pytest.skip("this pandas has no dataframe interchange protocol any more")
    with warnings.catch_warnings():  # pandas has announced the end of the protocol
        warnings.simplefilter("ignore")
        frame = pandas.api.interchange.from_dataframe(xd.RecordBatch(TABLE.select(["plain", "text", "when"])))
    assert frame["plain"].tolist() == [1, 2, 3, 4]
    assert frame["text"].tolist()[2] == "ccc"


KINDS = {"s": pa.string(), "l": pa.large_string()}
EMPTY = {
    "no rows": pa.record_batch(
        {"n": pa.array([], pa.int8()), **{name: pa.array([], of) for name, of in KINDS.items()}}
    ),
    "no offsets": pa.record_batch(
        {name: pa.Array.from_buffers(of, 0, [None, None, pa.py_buffer(b"")]) for name, of in KINDS.items()}
    ),
    "no characters": pa.record_batch({name: pa.array(["", ""], of) for name, of in KINDS.items()}),
}


@pytest.mark.parametrize("batch", EMPTY.values(), ids=EMPTY.keys())
@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars"])
def test_buffers_without_bytes_have_an_address(batch, library):
    frame = xd.RecordBatch(batch).__dataframe__()
    for column in frame.get_columns():
        buffers = column.get_buffers()
        assert all(buffers[one] is None or buffers[one][0].ptr != 0 for one in ("data", "offsets"))
    if library == "pyarrow":
        got = pa.interchange.from_dataframe(frame).to_pydict()
    elif library == "pandas":
        pandas = pytest.importorskip("pandas")
        if not hasattr(pandas.api, "interchange"):
            pytest.skip("this pandas has no dataframe interchange protocol any more")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = pandas.api.interchange.from_dataframe(frame).to_dict("list")
    else:
        polars = pytest.importorskip("polars")
        got = polars.from_dataframe(xd.RecordBatch(batch)).to_dict(as_series=False)  # since 2.0 by Arrow's protocol
    assert got == batch.to_pydict()


def test_chunks_and_selections():
    frame = xd.RecordBatch(TABLE).__dataframe__()
    assert (frame.num_columns(), frame.num_rows(), frame.num_chunks()) == (len(TABLE.schema), 4, 1)
    assert frame.column_names() == TABLE.schema.names
    assert [chunk.num_rows() for chunk in frame.get_chunks(3)] == [2, 2, 0]
    assert [chunk.size() for chunk in frame.get_column(0).get_chunks(2)] == [2, 2]
    chosen = frame.select_columns_by_name(["text", "plain"])
    assert chosen.column_names() == ["text", "plain"]
    assert pa.interchange.from_dataframe(chosen).to_pydict() == TABLE.select(["text", "plain"]).to_pydict()
    with pytest.raises(xd.InvalidArgumentError, match="at least 1"):
        frame.get_chunks(0)
    with pytest.raises(TypeError, match="not dictionary-encoded"):
        _ = frame.get_column_by_name("text").describe_categorical


def test_what_the_protocol_lacks_is_said(simulated_devices):
    batch = xd.RecordBatch(pa.record_batch({"l": [[1]], "n": [1]}))
    with pytest.raises(xd.UnsupportedTypeError, match=r"column 'l' of type list.*pyarrow"):
        pa.interchange.from_dataframe(batch)
    with pytest.raises(BufferError, match=r'to\("cpu"\)'):
        batch.to("sim:0").__dataframe__().get_column_by_name("n")
    assert np.asarray(batch["n"]).tolist() == [1]
