"""Work that is put on an array's own queue after the array was made: every way out comes after it.

What is pending on memory is its event, and whatever is on its queue at the moment of the hand-over. The fake's streams
are slow here, and the fake reports each access without an order.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_int64, c_uint, c_void_p
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.cuda_fake_cases.cuda_array import (
    CUDA,
    DeviceArray,
    Memory,
    counted,
    in_a_thread,
    interface_of,
    no_faults,
    on_the_fake,
    read,
)

import crossdock as xd

__all__ = ["no_faults"]

Array = np.ndarray[Any, Any]

FILLED = np.full((3, 4), np.frombuffer(b"\7" * 4, "f4")[0])
DEVICES = {"device": "cuda:0", "pinned": "cuda_host:0", "managed": "cuda_managed:0"}


class Kept:
    """An array that was imported, and whose producer goes on working on its stream."""

    def __init__(self, kind: str = "device") -> None:
        self.stream = CUDA.stream()
        self.array = DeviceArray(np.zeros((3, 4), "f4"), stream=self.stream, kind=kind)
        self.tensor = xd.asarray(self.array)
        assert self.tensor.queue is not None
        assert self.tensor.queue.native == self.stream
        assert self.tensor.device == DEVICES[kind]
        self.tensor.wait()
        self.write(7)

    def write(self, value: int) -> None:
        """Leaves work under way. A test may lose the processor for longer than the work takes: then there is more."""
        CUDA.slow_down(0.03)
        for _ in range(20):
            self.array.memory.fill(value, self.stream)
            if CUDA.under_way(xd.Queue("cuda:0", native=self.stream).record()):
                return
        raise AssertionError("the work was never slow enough")


def values_on(stream: int, pointer: int) -> Array:
    """Reads 12 floats as a consumer that orders its work on its own stream."""
    values = np.empty((3, 4), "f4")
    CUDA("cuMemcpyAsync", c_void_p(values.ctypes.data), c_void_p(pointer), ctypes.c_size_t(48), c_void_p(stream))
    CUDA("cuStreamSynchronize", c_void_p(stream))
    return values


class DeviceArrayStruct(ctypes.Structure):
    """Arrow's ArrowDeviceArray, with the array as bytes."""

    _fields_ = [
        ("array", c_int64 * 10),
        ("device_id", c_int64),
        ("device_type", ctypes.c_int32),
        ("sync_event", c_void_p),
        ("reserved", c_int64 * 3),
    ]


def by_sync_event(exporter: Any, pointer: int) -> Array:
    """As a consumer of Arrow's device interface: its stream waits for the event."""
    _, capsule = exporter.__arrow_c_device_array__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c_void_p, [ctypes.py_object, ctypes.c_char_p]
    exported = DeviceArrayStruct.from_address(get(capsule, b"arrow_device_array"))
    stream = CUDA.stream()
    if exported.sync_event:
        event = c_void_p.from_address(exported.sync_event)
        CUDA("cuStreamWaitEvent", c_void_p(stream), event, c_uint(0))
    return values_on(stream, pointer)


def by_dlpack_stream(tensor: xd.Tensor) -> Array:
    stream = CUDA.stream()
    capsule = tensor.__dlpack__(stream=stream, max_version=(1, 0))
    found = values_on(stream, tensor.pointer)
    del capsule
    return found


def by_exchange_api(tensor: xd.Tensor) -> Array:
    """As a consumer of DLPack's C functions: it works on the stream that the exporter calls its current one."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = (c_void_p * 7).from_address(get(type(tensor).__dlpack_c_exchange_api__, b"dlpack_exchange_api"))
    from_object = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, c_void_p)(table[3])
    current_stream = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, c_void_p)(table[6])
    managed, stream = c_void_p(), c_void_p()
    assert from_object(tensor, ctypes.addressof(managed)) == 0
    assert current_stream(2, 0, ctypes.addressof(stream)) == 0
    found = values_on(stream.value or 1, tensor.pointer)
    deleter = c_void_p.from_address((managed.value or 0) + 16)
    ctypes.PYFUNCTYPE(None, c_void_p)(deleter.value)(managed)
    return found


def waited(tensor: xd.Tensor) -> Array:
    tensor.wait()
    return read(tensor.unsynchronized())


def copied_into(tensor: xd.Tensor, queue: xd.Queue | None = None) -> Array:
    target = xd.empty((3, 4), dtype="f4", device="cuda:0", queue=xd.Queue.new("cuda:0"))
    return read(target.copy_from(tensor, queue=queue))


def on_another_queue(copied: Callable[[xd.Queue], xd.Tensor]) -> Array:
    queue = xd.Queue.new("cuda:0")
    made = copied(queue)
    assert made.queue == queue
    return read(made)


WAYS: dict[str, Callable[[xd.Tensor], Array]] = {
    "wait": waited,
    "to cpu": read,
    "to cpu on a queue": lambda t: np.asarray(t.to("cpu", queue=xd.Queue.new("cuda:0"))),
    "to cpu on its queue": lambda t: np.asarray(t.to("cpu", queue=t.queue)),
    "copy": lambda t: read(t.copy()),
    "copy on a queue": lambda t: on_another_queue(lambda queue: t.copy(queue=queue)),
    "copy_to": lambda t: on_another_queue(lambda queue: t.copy_to(queue)),
    "copy_from": copied_into,
    "copy_from on a queue": lambda t: copied_into(t, xd.Queue.new("cuda:0")),
    "a part": lambda t: read(t[:, ::-1])[:, ::-1],
    "collocate": lambda t: on_another_queue(lambda queue: t.collocate(queue)),
    "dlpack": by_dlpack_stream,
    "exchange": by_exchange_api,
    "arrow": lambda t: by_sync_event(t, t.pointer),
    "column": lambda t: by_sync_event(t.to_arrow(), t.pointer),
    "arrow on the host": lambda t: np.asarray(xd.from_arrow(ArrowOnHost(t))),
    "cuda array": lambda t: values_on(t.__cuda_array_interface__["stream"], t.pointer),
}


# Of CUDA's functions, those that an export calls, or must not.
CALLS = {
    "cuEventRecord": 1,
    "cuStreamWaitEvent": 1,
    "cuEventSynchronize": 0,
    "cuStreamSynchronize": 0,
    "cuEventQuery": 0,
    "cuMemAlloc_v2": 0,
    "cuMemAllocFromPoolAsync": 0,
}


class ArrowOnHost:
    """Shows Arrow's interface for the CPU alone."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self.of.__arrow_c_array__()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", DEVICES)
def test_every_way_out_comes_after_it(way: str, kind: str) -> None:
    kept = Kept(kind)
    np.testing.assert_array_equal(WAYS[way](kept.tensor), FILLED)


HOST_WAYS: dict[str, Callable[[xd.Tensor], Array]] = {
    "buffer": lambda t: np.asarray(memoryview(t)),
    "numpy": np.asarray,
    "array interface": lambda t: np.asarray(OnlyInterface(t)),
    "tolist": lambda t: np.array(t.tolist(), "f4"),
    "bytes": lambda t: np.frombuffer(bytes(t), "f4").reshape(3, 4),
    "dlpack to the host": lambda t: np.from_dlpack(t),
}


class OnlyInterface:
    def __init__(self, of: Any) -> None:
        self.__array_interface__ = of.__array_interface__


@pytest.mark.parametrize("way", HOST_WAYS)
@pytest.mark.parametrize("kind", ["pinned", "managed"])
def test_the_host_reads_after_it(way: str, kind: str) -> None:
    kept = Kept(kind)
    first = HOST_WAYS[way](kept.tensor).copy()
    np.testing.assert_array_equal(first, FILLED)
    kept.write(1)  # and again, with whatever is remembered of the first time
    again = HOST_WAYS[way](kept.tensor).copy()
    assert again.tobytes() == b"\1" * 48


@counted
def test_no_order_is_asked_for() -> None:
    kept = Kept()
    recorded = CUDA.calls("cuEventRecord")
    kept.tensor.__dlpack__(stream=-1, max_version=(1, 0))
    assert CUDA.calls("cuEventRecord") == recorded
    kept.tensor.wait()


@on_the_fake
def test_an_export_records_one_event_and_waits_for_nothing() -> None:
    kept = Kept()
    stream = CUDA.stream()
    before = {name: CUDA.calls(name) for name in CALLS}
    kept.tensor.__dlpack__(stream=stream, max_version=(1, 0))
    assert {name: CUDA.calls(name) - count for name, count in before.items()} == CALLS
    kept.tensor.wait()


def test_a_copy_on_a_queue_is_an_array_of_that_queue() -> None:
    """What is on that queue later is pending on the copy, too: in pinned memory and in the host's."""
    queue = xd.Queue.new("cuda:0")
    for device in ("cuda_host:0", "cuda_managed:0"):
        CUDA.slow_down(0)
        made = xd.asarray(np.zeros((3, 4), "f4")).to(device, queue=queue)
        made.wait()
        CUDA.slow_down(0.03)
        CUDA("cuMemsetD8Async", c_void_p(made.pointer), ctypes.c_ubyte(7), ctypes.c_size_t(48), c_void_p(queue.native))
        np.testing.assert_array_equal(np.asarray(made), FILLED)


def test_a_column_comes_after_it() -> None:
    column = Kept().tensor.to_arrow()
    np.testing.assert_array_equal(read(column), FILLED)


@on_the_fake
def test_on_another_thread_than_a_per_thread_stream() -> None:
    """That thread alone can say what is on its stream: the event at the import is what others wait for."""
    array = DeviceArray(np.zeros((3, 4), "f4"), stream=2)
    memory = array.memory
    CUDA.slow_down(0.03)
    memory.fill(7, 2)
    tensor = xd.asarray(array)
    np.testing.assert_array_equal(in_a_thread(lambda: read(tensor)), FILLED)
    memory.fill(1, 2)
    assert read(tensor).tobytes() == b"\1" * 48


@on_the_fake
def test_the_queue_of_a_placement_comes_after_the_arrays() -> None:
    kept = Kept()
    before = CUDA.calls("cuEventRecord")
    assert xd.offload.placement(kept.tensor, kept.tensor) == kept.tensor.queue
    assert CUDA.calls("cuEventRecord") == before, "it is the arrays' own queue"
    other = xd.Queue.new("cuda:0")
    assert xd.offload.placement(kept.tensor, queue=other) == other
    np.testing.assert_array_equal(values_on(other.native, kept.tensor.pointer), FILLED)


@on_the_fake
def test_work_that_is_on_no_queue_of_the_arrays() -> None:
    """As a package says that its result is ready when an event is."""
    memory = Memory(np.zeros((3, 4), "f4"))
    plain = xd.from_cuda_array_interface(interface_of(memory, shape=(3, 4)), memory)
    assert (plain.queue, plain.event) == (None, None)
    queue = xd.Queue.new("cuda:0")
    CUDA.slow_down(0.03)
    memory.fill(7, queue.native)
    result = plain.after(queue.record())
    assert result.pointer == plain.pointer
    np.testing.assert_array_equal(read(result), FILLED)
    later = xd.Queue.new("cuda:0")
    memory.fill(1, queue.native)
    both = result.after(queue.record()).after(later.record())
    assert read(both).tobytes() == b"\1" * 48
    with pytest.raises(TypeError):
        result.after(None)


@on_the_fake
def test_an_event_of_another_device_isnt_handed_on() -> None:
    with xd.testing.simulated_devices(1):
        foreign = xd.Queue.new("sim:0").record()
        tensor = Kept().tensor.after(foreign)
        assert tensor.event is not None
        assert tensor.event.device == "cuda:0"
        stream = tensor.__cuda_array_interface__["stream"]
        assert stream == tensor.queue.native
        column = xd.from_arrow(tensor.to_arrow())
        assert column.after(foreign).event.device == "cuda:0"
        here = xd.asarray(np.zeros(3)).after(foreign)
        assert here.event is not None
        assert here.event.device == "ext_dev:0"
        here.wait()
        np.testing.assert_array_equal(np.asarray(here), np.zeros(3))
        here.after(xd.Queue.new("cuda:0").record()).wait()


@on_the_fake
def test_after_on_another_thread_than_a_per_thread_stream() -> None:
    array = DeviceArray(np.zeros((3, 4), "f4"), stream=2)
    CUDA.slow_down(0.03)
    array.memory.fill(7, 2)
    tensor = xd.asarray(array)
    queue = xd.Queue.new("cuda:0")
    result = in_a_thread(lambda: tensor.after(queue.record()))
    np.testing.assert_array_equal(in_a_thread(lambda: read(result)), FILLED)


def test_another_drivers_queue_is_waited_for_once() -> None:
    kept = Kept()
    here = kept.tensor.to("cpu", queue=kept.tensor.queue)
    with xd.testing.simulated_devices(1):
        before = CUDA.calls("cuEventRecord") if CUDA.is_fake else 0
        there = here.to("sim:0")
        assert not CUDA.is_fake or CUDA.calls("cuEventRecord") - before == 1
        np.testing.assert_array_equal(np.asarray(there.to("cpu")), FILLED)


def numbers_of(batch: Any) -> Array:
    found: Array = pa.record_batch(ArrowOnHost(batch)).column(0).to_numpy()
    return found


BATCH_WAYS: dict[str, Callable[[xd.RecordBatch], Array]] = {
    "to cpu": lambda batch: numbers_of(batch.to("cpu")),
    "to cpu on a queue": lambda batch: numbers_of(batch.to("cpu", queue=xd.Queue.new("cuda:0"))),
    "arrow on the host": numbers_of,
    "reader": lambda batch: pa.table(xd.RecordBatchReader([batch]))["x"].to_numpy(),
}


@on_the_fake
@pytest.mark.parametrize("waited", [False, True])
@pytest.mark.parametrize("way", BATCH_WAYS)
def test_a_batch_comes_after_it_too(way: str, waited: bool) -> None:
    """Also after a wait: a batch stays on its queue."""
    queue = xd.Queue.new("cuda:0")
    batch = xd.RecordBatch(pa.record_batch({"x": np.zeros(12, "f4")})).to("cuda:0", queue=queue)
    if waited:
        batch.wait()
    _, capsule = batch.__arrow_c_device_array__()
    pointer = first_values(capsule)
    CUDA.slow_down(0.03)
    CUDA("cuMemsetD8Async", c_void_p(pointer), ctypes.c_ubyte(7), ctypes.c_size_t(48), c_void_p(queue.native))
    np.testing.assert_array_equal(BATCH_WAYS[way](batch), FILLED.reshape(12))
    queue.wait()


def first_values(capsule: Any) -> int:
    """The address of the values of a batch's first column."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c_void_p, [ctypes.py_object, ctypes.c_char_p]
    batch = (c_int64 * 10).from_address(get(capsule, b"arrow_device_array"))
    column = (c_int64 * 10).from_address(c_int64.from_address(batch[6]).value)
    return c_int64.from_address(column[5] + 8).value


@on_the_fake
def test_a_queue_that_a_batch_is_brought_to_comes_after_it() -> None:
    """As that of a tensor does, where nothing is copied."""
    first, other = xd.Queue.new("cuda:0"), xd.Queue.new("cuda:0")
    batch = xd.RecordBatch(pa.record_batch({"x": np.zeros(12, "f4")})).to("cuda:0", queue=first)
    _, capsule = batch.__arrow_c_device_array__()
    pointer = first_values(capsule)
    CUDA.slow_down(0.03)
    CUDA("cuMemsetD8Async", c_void_p(pointer), ctypes.c_ubyte(7), ctypes.c_size_t(48), c_void_p(first.native))
    assert batch.to("cuda:0", queue=other) is not None
    np.testing.assert_array_equal(values_on(other.native, pointer), FILLED)


@on_the_fake
def test_a_producers_queue_goes_on_after_a_batchs_copy() -> None:
    queue = xd.Queue.new("cuda:0")
    batch = xd.RecordBatch(pa.record_batch({"x": np.zeros(12, "f4")})).to("cuda:0", queue=queue)
    _, capsule = batch.__arrow_c_device_array__()
    pointer = first_values(capsule)
    CUDA.slow_down(0.03)
    copied = batch.to("cpu", queue=xd.Queue.new("cuda:0"))
    CUDA("cuMemsetD8Async", c_void_p(pointer), ctypes.c_ubyte(7), ctypes.c_size_t(48), c_void_p(queue.native))
    np.testing.assert_array_equal(numbers_of(copied), np.zeros(12, "f4"))
    queue.wait()


@on_the_fake
@pytest.mark.parametrize("result", [2, 719], ids=["out of memory", "the kernel failed"])
@pytest.mark.parametrize(
    "way", ["wait", "copy on a queue", "copy_to", "copy_from on a queue", "collocate", "dlpack", "exchange", "arrow"]
)
def test_a_failure_to_record_reaches_every_way_out(way: str, result: int) -> None:
    kept = Kept()
    CUDA.library.crossdockCudaFakeFail(b"cuEventRecord", ctypes.c_int(1), ctypes.c_int(result))
    with pytest.raises((xd.SystemError, xd.ResourceError, MemoryError, BufferError)):
        WAYS[way](kept.tensor)
    CUDA("cuStreamSynchronize", c_void_p(kept.stream))
