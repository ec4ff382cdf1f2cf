"""Values of a xd.Tensor as Python's: item(), tolist(), float(), int(), bool()."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

import crossdock as xd
from crossdock import testing

NUMBERS = "bool i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split()


def assert_same(ours: Any, numpys: Any) -> None:
    assert ours == numpys
    assert type(ours) is type(numpys)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("dtype", NUMBERS)
def test_values_are_numpys(dtype: str, order: str) -> None:
    source = np.array([[0, 1, 53], [-1, 127, -2]]).astype(dtype).astype(np.dtype(dtype).newbyteorder(order))
    if np.dtype(dtype).kind in "fc":
        source /= 3
    if np.dtype(dtype).kind == "c":
        source *= 1 - 2j
    tensor = xd.asarray(source)
    for view in (np.s_[...], np.s_[::-1, ::2], np.s_[1], np.s_[:0], np.s_[1, 2]):
        assert_same(tensor[view].tolist(), source[view].tolist())
    assert_same(tensor[1, 0].item(), source[1, 0].item())
    assert_same(tensor[1:, :1].item(), source[1, 0].item())
    assert [type(value) for value in tensor[0].tolist()] == [type(source[0, 0].item())] * 3


@pytest.mark.parametrize("dtype", ["i1", "i2", "u8", "f4", ">f8", "?"])
def test_a_number_is_the_value_and_never_the_bytes_as_text(dtype: str) -> None:
    # 0x31 and 0x32 are digits in ASCII.
    source = np.frombuffer(b"\x31\x32" * 8, "u1").view(dtype) if dtype != "?" else np.array([True, False])
    one = xd.asarray(source)[0]
    assert_same(float(one), float(source[0]))
    assert_same(int(one), int(source[0]))
    assert bool(one) is bool(source[0])
    assert bool(xd.asarray(np.zeros(1))) is False


def test_special_values() -> None:
    values = np.array([np.nan, np.inf, -np.inf, -0.0, 6e-8, 65504], "f2")
    assert str(xd.asarray(values).tolist()) == str(values.tolist())
    large = np.array([2**64 - 1], "u8")
    assert xd.asarray(large).item() == 2**64 - 1
    with pytest.raises(OverflowError):
        int(xd.asarray(np.array([np.inf])))
    with pytest.raises(TypeError, match="complex"):
        float(xd.asarray(np.array([1j])))


def test_more_empty_rows_than_memory_has_room_for():
    with pytest.raises(MemoryError):
        xd.asarray(np.empty((1 << 50, 0))).tolist()


def test_bfloat16() -> None:
    torch = pytest.importorskip("torch")
    source = torch.tensor([1.5, -2.0, 3.140625, float("inf")], dtype=torch.bfloat16)
    assert xd.asarray(source).tolist() == source.tolist()
    assert float(xd.asarray(source)[2]) == 3.140625


def test_more_than_one_element_is_no_number() -> None:
    tensor = xd.asarray(np.arange(3))
    for convert in (float, int, bool):
        with pytest.raises(TypeError, match=rf"{convert.__name__}\(\) needs a tensor of one element.*\(3,\).*tolist"):
            convert(tensor)
        with pytest.raises(TypeError, match="one element"):
            convert(tensor[:0])
    with pytest.raises(xd.InvalidArgumentError, match="one element"):
        tensor.item()


def test_what_has_no_values_here() -> None:
    with pytest.raises(xd.UnsupportedTypeError, match=r"M8.*numpy\.asarray"):
        xd.asarray(np.array(["2013-01-01"], "M8[D]")).item()
    with pytest.raises(xd.UnsupportedTypeError, match=r"numpy\.asarray"):
        xd.asarray(np.zeros(2, "f8,i4")).tolist()

    class Masked:
        def __init__(self) -> None:
            self.values = np.arange(2)
            self.__array_interface__ = {**self.values.__array_interface__, "mask": np.array([True, False])}

    with pytest.raises(xd.UnsupportedError, match="mask"):
        xd.asarray(Masked()).tolist()


@pytest.mark.simulated_devices(1, delay=0.02)
def test_of_devices(simulated_devices: testing.SimulatedDevices) -> None:
    queue = xd.Queue.new("sim:0")
    there = xd.asarray(np.arange(4.0)).to("sim:0", queue=queue)
    for read in (there.tolist, there[1].item, lambda: float(there[1]), lambda: bool(there[1])):
        with pytest.raises(xd.ExportError, match=r'\.to\("cpu"\)'):
            read()
    back = there.to("cpu", queue=queue)
    assert back.event is not None
    assert back.tolist() == [0.0, 1.0, 2.0, 3.0]  # waits


def test_of_work_that_failed(simulated_devices: testing.SimulatedDevices) -> None:
    queue = xd.Queue.new("sim:0")
    there = xd.asarray(np.arange(4.0)).to("sim:0", queue=queue)
    simulated_devices.fail_work()
    broken = there.to("cpu", queue=queue)
    with pytest.raises(xd.SystemError, match="arranged"):
        broken.tolist()
    del there, broken
    with contextlib.suppress(xd.SystemError):  # told again, unless a wait was what told it first
        queue.wait()
