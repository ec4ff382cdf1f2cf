"""Full validation refuses what pyarrow's refuses, and takes what it takes."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

import crossdock as xd

DAY = 86_400


def column(kind: pa.DataType, values: list[int], validity: bytes | None = None) -> pa.Array:
    form = "i" if kind.bit_width == 32 else "q"
    data = pa.py_buffer(struct.pack(f"<{len(values)}{form}", *values))
    return pa.Array.from_buffers(kind, len(values), [None if validity is None else pa.py_buffer(validity), data])


def taken_by_pyarrow(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def taken_by_us(array: pa.Array) -> bool:
    with xd.serve({"x": pa.record_batch([array], ["x"])}) as server, xd.connect(server.uri) as client:
        try:
            list(client.get("x", validation="full"))
        except xd.InvalidDataError:
            return False
        return True


TIMES = [(pa.time32("s"), 1), (pa.time32("ms"), 10**3), (pa.time64("us"), 10**6), (pa.time64("ns"), 10**9)]


@pytest.mark.parametrize(("kind", "units"), TIMES, ids=str)
def test_times(kind: pa.DataType, units: int) -> None:
    for value in (0, 1, DAY * units - 1, DAY * units, -1, -DAY * units):
        for validity in (None, b"\x03", b"\x01"):
            array = column(kind, [0, value], validity)
            assert taken_by_us(array) == taken_by_pyarrow(array), (value, validity)


def test_dates() -> None:
    day = DAY * 1000
    for value in (0, 1, -1, day, -day, day + 1, 2**63 - 1, -(2**63), (2**63 - 1) // day * day):
        for validity in (None, b"\x03", b"\x01"):
            array = column(pa.date64(), [day, value], validity)
            assert taken_by_us(array) == taken_by_pyarrow(array), (value, validity)
    assert taken_by_us(column(pa.date32(), [-(2**31), 2**31 - 1]))


def test_other_numbers_may_be_anything() -> None:
    for kind in (pa.timestamp("s"), pa.timestamp("ns", "UTC"), pa.duration("us")):
        array = column(kind, [-(2**63), 2**63 - 1])
        assert taken_by_us(array)
        assert taken_by_pyarrow(array)


def test_the_error_names_the_way_without_it() -> None:
    array = column(pa.time32("s"), [0, DAY])
    with xd.serve({"x": pa.record_batch([array], ["x"])}) as server, xd.connect(server.uri) as client:
        with pytest.raises(xd.InvalidDataError, match='validation="structure"'):
            list(client.get("x", validation="full"))
        (batch,) = client.get("x", validation="structure")
        assert batch.num_rows == 2
