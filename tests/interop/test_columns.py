"""Columns of batches, element by element: what pyarrow says of every type, whole and sliced."""

from __future__ import annotations

import ctypes
import datetime
import decimal
import gc
import math
import random
import signal
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import crossdock as xd

from . import arrow_data, every_type


def of_pyarrow(array: pa.Array | pa.ChunkedArray) -> list:
    """pyarrow's Python objects, with what only pandas' classes can hold as the same moment with microseconds."""
    return [normal(value) for value in array.to_pylist()]


def normal(value):
    if isinstance(value, dict):
        return {key: normal(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return tuple(map(normal, value))
    if isinstance(value, list):
        return list(map(normal, value))
    if hasattr(value, "to_pydatetime"):
        return value.to_pydatetime()
    if hasattr(value, "to_pytimedelta"):
        return value.to_pytimedelta()
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def storage(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def values_of(column: xd.Column) -> list:
    return list(map(normal, column.to_pylist()))


def outcome(call: Callable[[Any], list], argument: Any) -> list | str:
    """What the call returns, or the text of its error."""
    try:
        return call(argument)
    except (ValueError, OverflowError, TypeError) as error:
        return str(error)


WHOLE_MICROSECONDS = {name: kind for name, (kind, _) in every_type.VALUES.items() if "ns]" not in name}


@pytest.mark.parametrize("name", WHOLE_MICROSECONDS)
def test_every_type_is_what_pyarrow_says(name):
    array = storage(every_type.column(name))
    batch = xd.RecordBatch(pa.record_batch({"before": pa.array(["x"] * len(array)), "c": array}))
    column = batch["c"]
    assert column.to_pylist() == of_pyarrow(array)
    assert [column[i] for i in range(len(column))] == of_pyarrow(array)
    assert list(column[1:]) == of_pyarrow(array)[1:]
    assert pa.array(column).equals(array)
    assert pa.array(column[1:]).equals(array[1:])
    assert column.null_count == pa.array(column).null_count
    assert repr(column).startswith("<crossdock.Column 'c': ")


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(arrow_data.schemas(), st.integers(0, 40), st.integers(0, 2**32), st.booleans(), st.data())
def test_any_nesting_is_what_pyarrow_says(schema, rows, seed, sliced, data):
    given_batch = arrow_data.batch(schema, rows, seed, sliced)
    batch = xd.RecordBatch(given_batch)
    start = data.draw(st.integers(0, rows))
    for i, array in enumerate(given_batch.columns):
        expected, got = outcome(of_pyarrow, array), outcome(values_of, batch[i])
        if isinstance(got, str):
            # pyarrow has pandas' classes for nanoseconds, and takes the last of two fields of one name.
            assert isinstance(expected, str) or "nanoseconds" in got or "two fields" in got, got
            continue
        if isinstance(expected, str):
            assert "duplicate field names" in expected, expected  # an empty column, of which we have no dict to make
            continue
        assert got == expected, (array.type, i)
        assert list(map(normal, batch[i][start:])) == expected[start:]


def test_keys():
    batch = xd.RecordBatch(pa.record_batch([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "b", "b"]))
    assert [column.name for column in batch] == ["a", "b", "b"]
    assert (batch["a"][0], batch[1][0], batch[-1][-1], batch[np.int64(2)][0]) == (1, 2, 3, 3)
    with pytest.raises(xd.InvalidArgumentError, match="columns 1 and 2 both have the name 'b': give an index"):
        batch["b"]
    with pytest.raises(xd.NotFoundError, match=r"no column 'c\\x1b'; there are a, b, b"):
        batch["c\x1b"]
    for key in (3, -4, 2**70):
        with pytest.raises(IndexError):
            batch[key]
    for key in (True, 1.5, None, b"a"):
        with pytest.raises(TypeError, match="name or the index of a column"):
            batch[key]
    column = batch[0]
    for key in (1, -2, 2**70):
        with pytest.raises(IndexError):
            column[key]
    for key in (True, "a", 0.5):
        with pytest.raises(TypeError, match="integers and slices"):
            column[key]
    with pytest.raises(ValueError, match="step 1"):
        column[::2]
    assert column[5:].to_pylist() == []
    assert 1 in column


def test_slices_of_rows():
    given_batch = pa.record_batch({"n": pa.array([1, None, 3, 4]), "s": ["a", "b", None, "d"]})
    batch = xd.RecordBatch(given_batch)
    for rows in (slice(1, 3), slice(-2, None), slice(None), slice(9, 12), slice(3, 1)):
        expected = given_batch.to_pylist()[rows]
        assert batch[rows].to_pylist() == expected
        assert pa.record_batch(batch[rows]).to_pylist() == expected
        assert len(batch[rows]) == batch[rows].num_rows == len(expected)
    assert batch[1:][1:]["n"].to_pylist() == [3, 4]
    with pytest.raises(ValueError, match="step 1"):
        batch[::-1]


def test_numbers_are_arrays_without_a_copy():
    values = pa.array(np.arange(10, dtype=np.float32))
    batch = xd.RecordBatch(pa.record_batch({"x": values, "s": ["a"] * 10}))
    address = values.buffers()[1].address
    array = np.asarray(batch["x"])
    assert (array.ctypes.data, array.dtype, array.flags.writeable) == (address, np.float32, False)
    assert np.asarray(batch["x"][3:5]).ctypes.data == address + 12
    assert np.from_dlpack(batch["x"]).ctypes.data == address
    assert batch["x"].__dlpack_device__() == (1, 0)
    tensor = xd.asarray(batch["x"])
    assert (tensor.pointer, tensor.shape, batch["x"].values.pointer) == (address, (10,), address)
    assert np.asarray(batch["x"], dtype=np.float64).dtype == np.float64
    assert batch["x"].validity is None
    with pytest.raises(BufferError, match=r"column 's' of type utf8 has no elements of fixed size; to_pylist\(\)"):
        np.asarray(batch["s"])


def test_nulls_are_values_and_validity():
    batch = xd.RecordBatch(pa.record_batch({"x": pa.array([1, None, 3, None, 5], pa.int16())}))
    column = batch["x"][1:]
    assert column.null_count == 2
    assert np.asarray(column.validity).tolist() == [False, True, False, True]
    values = np.asarray(column.values)
    assert (values.dtype, values[1], values[3]) == (np.int16, 3, 5)
    with pytest.raises(BufferError, match=r"column 'x' has 2 nulls, which.*\.values.*\.validity"):
        np.asarray(column)
    with pytest.raises(BufferError, match="2 nulls"):
        column.__dlpack__()
    assert np.asarray(column[1:2]).tolist() == [3]


def test_values_of_types_that_arrays_lack():
    days = pa.array([datetime.date(1970, 1, 2), None])
    moments = pa.array([1_000_000], pa.timestamp("us", "Europe/Paris"))
    words = pa.array(["a", "b", "a", None]).dictionary_encode()
    batch = xd.RecordBatch(
        pa.record_batch(
            {
                "days": days.take([0, 0, 0, 1]),
                "moments": pa.array([1_000_000] * 4, moments.type),
                "words": words,
                "flags": [True, False, None, True],
                "money": pa.array([decimal.Decimal("1.25")] * 4, pa.decimal64(9, 2)),
                "big": pa.array([decimal.Decimal("1.25")] * 4, pa.decimal128(9, 2)),
                "pairs": pa.array([[1, 2], [3, None], None, [5, 6]], pa.list_(pa.int8(), 2)),
            }
        )
    )
    assert np.asarray(batch["days"].values).tolist()[:3] == [1, 1, 1]
    assert np.asarray(batch["moments"].values).dtype == np.dtype("M8[us]")
    assert np.asarray(batch["words"].values)[:3].tolist() == [0, 1, 0]
    assert batch["words"].dictionary.to_pylist() == ["a", "b"]
    assert batch["days"].dictionary is None
    assert batch["words"].to_pylist() == ["a", "b", "a", None]
    assert np.asarray(batch["flags"].values)[[0, 1, 3]].tolist() == [True, False, True]
    assert np.asarray(batch["flags"].validity).tolist() == [True, True, False, True]
    assert np.asarray(batch["money"].values).tolist() == [125] * 4
    assert batch["big"].values.dtype.str == "|V16"
    assert np.asarray(batch["pairs"].values)[0].tolist() == [1, 2]
    with pytest.raises(BufferError, match="dictionary-encoded"):
        np.asarray(batch["words"])
    assert batch["moments"][0].isoformat() == "1970-01-01T01:00:01+01:00"


def test_times_that_python_does_not_have():
    batch = xd.RecordBatch(
        pa.record_batch(
            {
                "ns": pa.array([1_000, 1_001], pa.timestamp("ns")),
                "far": pa.array([2**62, 0], pa.timestamp("s")),
                "days": pa.array([2**30, 0], pa.int32()).view(pa.date32()),
                "long": pa.array([2**62, 0], pa.duration("s")),
                "zone": pa.array([0, 0], pa.timestamp("s", "No/Where")),
                "offset": pa.array([0, 0], pa.timestamp("s", "-05:30")),
            }
        )
    )
    assert batch["ns"][0] == datetime.datetime(1970, 1, 1, microsecond=1)
    with pytest.raises(ValueError, match=r"element 1 of column 'ns'.*nanoseconds.*column\.values"):
        batch["ns"][1]
    assert "1970-01-01 00:00:00.000001" in repr(batch["ns"])
    for name in ("far", "days"):
        with pytest.raises(ValueError, match="years 1 to 9999"):
            batch[name][0]
    with pytest.raises(ValueError, match="timedelta"):
        batch["long"][0]
    with pytest.raises(xd.InvalidDataError, match=r"'No/Where' isn't known.*\.values"):
        batch["zone"][0]
    assert batch["offset"][0].isoformat() == "1969-12-31T18:30:00-05:30"
    first, last = datetime.date(1, 1, 1), datetime.date(9999, 12, 31)
    assert xd.RecordBatch(pa.record_batch({"d": [first, last]}))["d"].to_pylist() == [first, last]
    rng = random.Random(1)
    moments = [datetime.datetime.fromtimestamp(rng.uniform(-6e10, 2.5e11), datetime.UTC) for _ in range(2000)]
    column = xd.RecordBatch(pa.record_batch({"m": pa.array(moments, pa.timestamp("us", "UTC"))}))["m"]
    assert column.to_pylist() == moments


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_lowest_number_of_a_time(unit):
    """NumPy's NaT, which isn't null in Arrow."""
    lowest = pa.array([-(2**63)], pa.int64())
    for kind in (pa.timestamp(unit), pa.timestamp(unit, "UTC"), pa.duration(unit)):
        column = xd.RecordBatch(pa.record_batch({"t": lowest.view(kind)}))["t"]
        assert "t" in repr(column)
        if kind == pa.duration("us"):
            assert column[0].days == -106751992
            continue
        with pytest.raises(ValueError, match="column 't'"):
            column[0]


def test_a_column_of_nulls_alone():
    batch = xd.RecordBatch(pa.record_batch({"x": pa.nulls(5)}))
    assert np.asarray(batch["x"][1:].validity).tolist() == [False] * 4
    assert batch["x"].null_count == 5
    assert batch.__dataframe__().get_column(0).describe_null == (0, None)


def test_a_time_that_no_zone_has():
    first = pa.array([-62135596800], pa.int64()).view(pa.timestamp("s", "America/New_York"))
    column = xd.RecordBatch(pa.record_batch({"t": first}))["t"]
    with pytest.raises(ValueError, match="outside of the years"):
        column[0]
    assert "0001-01-01" in repr(column)


def test_lists_that_are_being_filled_are_seen_by_nobody():
    """Python's garbage collector would show other code their empty places."""
    column = xd.RecordBatch(pa.record_batch({"l": [[decimal.Decimal(i)] * 50 for i in range(4000)]}))["l"]
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            for one in gc.get_objects():
                if type(one) is list and one:
                    assert one[-1] is not stop

    looking = threading.Thread(target=look)
    looking.start()
    try:
        assert column.to_pylist()[-1][-1] == 3999
    finally:
        stop.set()
        looking.join()


def test_ctrl_c_ends_lists_of_lists():
    """Each list is short, and all of them together are long."""
    column = xd.RecordBatch(pa.record_batch({"l": [[*range(1000)]] * 20_000}))["l"]

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    gc.disable()  # The collector runs callbacks, those of Hypothesis among them, and what is raised in one is lost.
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with pytest.raises(KeyboardInterrupt):
            column.to_pylist()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        gc.enable()
        signal.signal(signal.SIGALRM, before)


def test_rows_as_dicts():
    batch = xd.RecordBatch(pa.record_batch({"n": [1, None], "s": ["a", "b"]}))
    assert batch.to_pylist() == [{"n": 1, "s": "a"}, {"n": None, "s": "b"}]
    assert batch.to_pydict() == {"n": [1, None], "s": ["a", "b"]}
    twice = xd.RecordBatch(pa.record_batch([pa.array([1]), pa.array([2])], names=["a", "a"]))
    for call in (twice.to_pylist, twice.to_pydict):
        with pytest.raises(xd.UnsupportedTypeError, match="two columns have the name 'a'"):
            call()
    none = xd.RecordBatch(pa.record_batch([pa.array([1, 2])], names=["a"]).select([]))
    assert none.to_pylist() == [{}] * len(none)


def test_a_batch_shows_its_first_rows():
    batch = xd.RecordBatch(
        pa.record_batch({"number": list(range(12)), "text\x1b[2J": ["x" * 100] * 12, "l": [list(range(50))] * 12})
    )
    lines = repr(batch).splitlines()
    assert lines[0].startswith("<crossdock.RecordBatch: 12 rows, 3 columns, ")
    assert lines[1].split()[:2] == ["number", r"text\x1b[2J"]
    assert len(lines) == 13
    assert lines[-1] == "... and 2 more rows"
    assert max(map(len, lines)) < 100
    wide = xd.RecordBatch(pa.record_batch({f"c{i}": [i] for i in range(20)}))
    assert repr(wide).splitlines()[-1] == "... and 12 more columns"
    eleven = xd.RecordBatch(pa.record_batch({"n": list(range(11))}))
    assert repr(eleven).splitlines()[-1] == "... and 1 more row"
    assert repr(xd.RecordBatch(pa.record_batch({"n": pa.array([], pa.int8())}))).endswith("\nn")


def test_columns_keep_the_memory():
    array = pa.array(np.arange(1000))
    owner = np.arange(1000)
    batch = xd.RecordBatch(pa.record_batch({"x": pa.array(owner)}))
    alive = weakref.ref(owner)
    column = batch["x"][10:20]
    values = column.values
    del array, owner, batch, column
    gc.collect()
    assert alive() is not None
    assert np.asarray(values).tolist() == list(range(10, 20))
    del values
    gc.collect()
    assert alive() is None


def test_damaged_memory_is_an_error():
    """Offsets, indices, views, type ids and run ends that point elsewhere, as another process may send them."""

    def damaged(array: pa.Array, buffer: int, numbers: np.ndarray) -> xd.Column:
        # The import reads the first and the last offset, so what is damaged is between them, and later.
        batch = xd.RecordBatch(pa.record_batch({"c": array}))
        memory = array.buffers()[buffer]
        size = 1 + len(numbers)
        target = (ctypes.c_uint8 * (size * numbers.itemsize)).from_address(memory.address)
        np.frombuffer(target, numbers.dtype)[1:] = numbers
        return batch["c"]

    cases = [
        (pa.array(["ab", "cd", "ef"]), 1, np.array([-5], np.int32)),
        (pa.array(["ab", "cd", "ef"]), 1, np.array([100], np.int32)),
        (pa.array(["ab", "cd", "ef"], pa.large_string()), 1, np.array([2**62], np.int64)),
        (pa.array([[1], [2, 3], [4]]), 1, np.array([2**30], np.int32)),
        (pa.array([[1], [2, 3], [4]], pa.large_list(pa.int64())), 1, np.array([-(2**63)], np.int64)),
        (pa.array([[1], [2, 3], [4]], pa.list_view(pa.int64())), 2, np.array([77], np.int32)),
        (pa.array(["x", "y", "z"]).dictionary_encode(), 1, np.array([9], np.int32)),
        (pa.array(["x", "y", "z"]).dictionary_encode(), 1, np.array([-1], np.int32)),
        (pa.array(["a long text for a view", "another long one, too", "z"], pa.string_view()), 1,
         np.array([0] * 3 + [20, 0, 5, 77], np.int32)),
        (pa.array(["a long text for a view", "another long one, too", "z"], pa.string_view()), 1,
         np.array([0] * 3 + [-20, 0, 0, 0], np.int32)),
        (pa.UnionArray.from_sparse(pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array([4, 5, 6])]), 1,
         np.array([9], np.int8)),
        (pa.UnionArray.from_dense(pa.array([0, 1, 0], pa.int8()), pa.array([0, 0, 1], pa.int32()),
                                  [pa.array([1, 2]), pa.array([4])]), 2, np.array([3], np.int32)),
    ]  # fmt: skip
    for array, buffer, numbers in cases:
        column = damaged(array, buffer, numbers)
        with pytest.raises(xd.InvalidDataError, match=r"element \d is damaged"):
            column.to_pylist()
        assert "(" in repr(column)
    batch = xd.RecordBatch(pa.record_batch({"c": pa.array([b"\xff\xfe"]).view(pa.string())}))
    with pytest.raises(xd.InvalidDataError, match="element 0 of column 'c' is not UTF-8"):
        batch["c"][0]
    assert "not UTF-8" in repr(batch)


def test_on_a_device(simulated_devices):
    batch = xd.RecordBatch(pa.record_batch({"x": [1, 2, 3]})).to("sim:0")
    column = batch["x"]
    assert (column.device, len(column), column.type) == ("sim:0", 3, "int64")
    for read in (lambda: column[0], column.to_pylist, lambda: column.null_count, lambda: column.validity):
        with pytest.raises(BufferError, match=r'batch.to\("cpu"\)'):
            read()
    assert 'batch.to("cpu")' in repr(column)
    assert 'batch.to("cpu")' in repr(batch)
    assert column.values.device == "sim:0"
    assert batch.to("cpu")["x"].to_pylist() == [1, 2, 3]


def test_of_a_stream():
    table = pa.table({"n": pa.chunked_array([[1, 2], [3]]), "s": pa.chunked_array([["a", None], ["c"]])})
    with xd.serve({"t": table}) as server, xd.connect(server.uri) as client:
        batches = list(client.get("t"))
    assert [batch["n"].to_pylist() for batch in batches] == [[1, 2], [3]]
    assert [value for batch in batches for value in batch["s"]] == ["a", None, "c"]


def test_a_tensor_gives_a_column():
    column = xd.asarray(np.arange(3)).to_arrow()
    assert (type(column), column.name, column.to_pylist()) == (xd.Column, "", [0, 1, 2])
