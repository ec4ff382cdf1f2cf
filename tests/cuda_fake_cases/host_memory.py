"""Memory of CUDA's that the host can read, pinned, managed and registered: it is shared on its way to the CPU, and
keeps its device where a protocol can say it.
"""

from __future__ import annotations

import ctypes
from ctypes import c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.cuda_fake_cases.cuda_array import (
    CUDA,
    DeviceArray,
    Memory,
    interface_of,
    no_faults,
    on_the_fake,
    two_devices,
)
from tests.cuda_fake_cases.pending_work import DEVICES, FILLED, ArrowOnHost, Kept

import crossdock as xd

__all__ = ["no_faults"]

HOST_KINDS = pytest.mark.parametrize("kind", ["pinned", "managed"])
FLOATS = np.arange(12, dtype="f4").reshape(3, 4)


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


@HOST_KINDS
def test_it_is_shared_on_its_way_to_the_cpu(kind: str) -> None:
    theirs = DeviceArray(FLOATS, kind=kind)
    tensor = xd.asarray(theirs)
    assert tensor.device == DEVICES[kind]
    for here in (
        tensor.to("cpu"),
        xd.asarray(tensor, device="cpu"),
        xd.asarray(tensor, device="cpu", copy=False),
        xd.from_dlpack(tensor, device="cpu"),
        xd.from_dlpack(tensor, device="cpu", copy=False),
        tensor.collocate("host"),
    ):
        assert (here.device, here.pointer, here.usm_type, here.queue) == ("cpu", theirs.memory.pointer, None, None)
        np.testing.assert_array_equal(np.asarray(here), FLOATS)
    for view in (np.from_dlpack(tensor, device="cpu"), np.from_dlpack(tensor, device="cpu", copy=False)):
        assert address(view) == theirs.memory.pointer
    for copied in (
        xd.asarray(tensor, device="cpu", copy=True),
        xd.from_dlpack(tensor, device="cpu", copy=True),
        tensor.to("cpu", queue=xd.Queue.new("cuda:0")),
    ):
        assert copied.device == "cpu"
        assert copied.pointer != theirs.memory.pointer
        np.testing.assert_array_equal(np.asarray(copied), FLOATS)


@HOST_KINDS
def test_as_arrow_data_of_the_cpu_it_is_shared_too(kind: str) -> None:
    theirs = DeviceArray(FLOATS, kind=kind)
    column = pa.array(ArrowOnHost(xd.asarray(theirs)))
    assert column.storage.values.buffers()[1].address == theirs.memory.pointer
    np.testing.assert_array_equal(column.to_numpy_ndarray(), FLOATS)


@on_the_fake
@HOST_KINDS
def test_it_is_shared_after_what_is_pending(kind: str) -> None:
    kept = Kept(kind)
    here = kept.tensor.to("cpu")
    assert here.event is None
    np.testing.assert_array_equal(np.frombuffer(here, "f4").reshape(3, 4), FILLED)
    kept.write(1)
    assert np.from_dlpack(kept.tensor, device="cpu", copy=False).tobytes() == b"\1" * 48


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("kind", DEVICES)
def test_it_is_served_and_written_after_what_is_pending(kind: str, live: bool, tmp_path: Path) -> None:
    """So is a device's memory: one copy to the host, and for a table one on the device before it."""
    kept = Kept(kind)
    source: Any = (lambda: kept.tensor) if live else kept.tensor
    with xd.serve() as server, xd.connect(server.uri) as client:
        server.publish("t", source, mode="auto" if live else "table")
        column = pa.table(client.get("t"))[0].combine_chunks()
        assert server.stats()["sources"][0]["bytes_copied"] == (96 if kind == "device" and not live else 48)
    np.testing.assert_array_equal(column.to_numpy_ndarray(), FILLED)
    kept.write(1)
    xd.write(source, tmp_path / "t.arrow")
    written = pa.table(xd.open(tmp_path / "t.arrow"))[0].combine_chunks()
    assert written.to_numpy_ndarray().tobytes() == b"\1" * 48


def test_registered_memory_is_read_where_the_host_has_it() -> None:
    memory = np.arange(64, dtype="u1")
    CUDA("cuMemHostRegister_v2", c_void_p(address(memory)), c_size_t(64), c_uint(2))
    on_device = c_uint64()
    CUDA("cuMemHostGetDevicePointer_v2", ctypes.byref(on_device), c_void_p(address(memory)), c_uint(0))

    interface = {"shape": (64,), "typestr": "|u1", "data": (on_device.value, False), "version": 3}
    try:
        tensor = xd.from_cuda_array_interface(interface)
        assert tensor.device == "cuda_host:0"
        assert np.shares_memory(np.asarray(tensor), memory)
        np.testing.assert_array_equal(np.asarray(tensor[::2]), memory[::2])
        assert tensor[3:].__cuda_array_interface__["data"] == (on_device.value + 3, False)
        np.testing.assert_array_equal(np.asarray(tensor.to("cuda:0").to("cpu")), memory)
        del tensor
    finally:
        CUDA("cuMemHostUnregister", c_void_p(address(memory)))


@HOST_KINDS
def test_its_device_protocol_comes_before_its_buffer(kind: str) -> None:
    """numba's managed and mapped arrays are NumPy arrays that have the CUDA Array Interface, too."""
    theirs = DeviceArray(FLOATS, kind=kind, stream=CUDA.stream())

    class Mapped(np.ndarray[Any, Any]):
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return theirs.__cuda_array_interface__

    buffer = (ctypes.c_float * 12).from_address(theirs.memory.pointer or 0)
    mapped = np.frombuffer(buffer, "f4").reshape(3, 4).view(Mapped)
    tensor = xd.asarray(mapped)
    assert (tensor.device, tensor.pointer) == (DEVICES[kind], theirs.memory.pointer)
    assert tensor.queue is not None
    assert tensor.queue.native == theirs.stream
    plain = xd.asarray(FLOATS)
    assert (plain.device, plain.queue) == ("cpu", None)


@HOST_KINDS
def test_without_elements_it_keeps_its_device(kind: str) -> None:
    memory = Memory(np.zeros(4, "f4"), kind=kind)

    interface = interface_of(memory, shape=(0, 3))
    assert xd.from_cuda_array_interface(interface, memory).device == DEVICES[kind]


@two_devices
def test_without_elements_and_pointer_the_stream_tells_the_device() -> None:
    stream = CUDA.stream(1)
    interface = {"shape": (0,), "typestr": "<f4", "data": (0, False), "version": 3, "stream": stream}
    assert xd.from_cuda_array_interface(interface).device == "cuda:1"
