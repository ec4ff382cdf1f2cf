"""Arrays and streams of a CUDA context that isn't the primary one, as a program has them that makes its own.

The fake refuses what CUDA refuses: events on streams of other contexts, and device memory of other contexts.
"""

from __future__ import annotations

import ctypes
import gc
import time
import weakref
from collections.abc import Iterator
from ctypes import c_int, c_uint, c_void_p
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.cuda_fake_cases.cuda_array import (
    CUDA,
    DeviceArray,
    ForeignArray,
    Memory,
    eventually,
    in_a_thread,
    interface_of,
    no_faults,
    on_the_fake,
    read,
    two_devices,
    wait_for_frees,
)
from tests.cuda_fake_cases.pending_work import values_on
from tests.cuda_fake_cases.streams import Stream, current

import crossdock as xd
from crossdock import offload

__all__ = ["no_faults"]

pytestmark = on_the_fake

OWN = 100  # the number under which CUDA.on() finds the context
FLOATS = np.arange(12, dtype="f4").reshape(3, 4)
FILLED = np.full((3, 4), np.frombuffer(b"\7" * 4, "f4")[0])


@pytest.fixture(autouse=True)
def own_context() -> Iterator[int]:
    """A context of the device 0 that is current nowhere."""
    context = c_void_p()
    CUDA("cuCtxCreate_v2", ctypes.byref(context), c_uint(0), c_int(0))
    CUDA("cuCtxPopCurrent_v2", ctypes.byref(c_void_p()))
    CUDA.contexts[OWN] = context
    yield OWN
    gc.collect()
    CUDA.on(OWN, "cuCtxSynchronize")
    wait_for_frees()
    del CUDA.contexts[OWN]
    CUDA("cuCtxDestroy_v2", context)


def array(stream: int | None = None, kind: str = "device") -> DeviceArray:
    return DeviceArray(FLOATS, stream=stream, kind=kind, device=OWN)


@pytest.mark.parametrize("stream", ["own", "legacy", "none"])
def test_an_array_comes_in_and_is_read(stream: str) -> None:
    exporter = array({"own": CUDA.stream(OWN), "legacy": 1, "none": None}[stream])
    tensor = xd.asarray(exporter)
    assert tensor.device == "cuda:0"
    assert tensor.pointer == exporter.memory.pointer
    assert tensor.pointer_attributes["context"] == CUDA.contexts[OWN].value
    np.testing.assert_array_equal(read(tensor), FLOATS)
    np.testing.assert_array_equal(read(tensor[::-1, ::2]), FLOATS[::-1, ::2])
    np.testing.assert_array_equal(np.asarray(tensor.to("cpu")), FLOATS)


@pytest.mark.parametrize("stream", ["own", "legacy"])
@pytest.mark.parametrize("kind", ["device", "pinned", "managed"])
def test_work_on_its_stream_is_waited_for(stream: str, kind: str) -> None:
    handle = CUDA.stream(OWN) if stream == "own" else 1
    exporter = array(handle, kind)
    tensor = xd.asarray(exporter)
    CUDA.slow_down(0.03)
    exporter.memory.fill(7, handle)
    np.testing.assert_array_equal(read(tensor), FILLED)


def test_default_streams_are_those_of_the_pointers_context() -> None:
    here = DeviceArray(FLOATS, stream=1)
    there = array(1)
    mine, theirs = xd.asarray(here).queue, xd.asarray(there).queue
    assert mine is not None
    assert theirs is not None
    assert mine.native == theirs.native == 1
    assert mine != theirs, "two streams of one handle"
    assert theirs == xd.asarray(there).queue
    assert xd.asarray(there).__cuda_array_interface__["stream"] == 1


def test_a_stream_alone() -> None:
    stream = CUDA.stream(OWN)
    queue = xd.Queue(Stream(stream))
    assert (queue.native, queue.device) == (stream, "cuda:0")
    assert queue == xd.Queue(Stream(stream))
    event = queue.record()
    event.wait()
    assert event.done
    xd.Queue("cuda:0").wait_for(event)
    queue.wait_for(xd.Queue("cuda:0").record())
    queue.wait()


def test_a_default_stream_is_that_of_the_current_context() -> None:
    with current(OWN):
        queue = xd.Queue(Stream(1))
    assert queue != xd.Queue(Stream(1)), "here the primary one is current"
    queue.wait()


def test_events_of_two_contexts_order_each_others_streams() -> None:
    stream = CUDA.stream(OWN)
    exporter = array(stream)
    tensor = xd.asarray(exporter)
    CUDA.slow_down(0.03)
    exporter.memory.fill(7, stream)
    copy = tensor.copy_to(xd.Queue("cuda:0"))
    np.testing.assert_array_equal(read(copy), FILLED)


def test_new_memory_on_its_queue() -> None:
    queue = xd.Queue(Stream(CUDA.stream(OWN)))
    made = xd.empty((3, 4), "f4", queue=queue)
    made.copy_from(xd.asarray(FLOATS))
    assert made.queue == queue
    np.testing.assert_array_equal(read(made), FLOATS)
    np.testing.assert_array_equal(read(made.copy()), FLOATS)
    sent = xd.asarray(FLOATS).to("cuda:0", queue=queue)
    np.testing.assert_array_equal(read(sent), FLOATS)


@pytest.mark.parametrize("stream", ["own", "none"])
def test_both_ways_between_two_contexts(stream: str) -> None:
    there = xd.asarray(array(CUDA.stream(OWN) if stream == "own" else None))
    here = xd.asarray(FLOATS + 1).to("cuda:0")
    np.testing.assert_array_equal(read(there.copy_to(xd.Queue("cuda:0"))), FLOATS)
    np.testing.assert_array_equal(read(there.collocate(xd.Queue("cuda:0"))), FLOATS)
    there.copy_from(here)
    np.testing.assert_array_equal(read(there), FLOATS + 1)
    here.copy_from(xd.asarray(array(CUDA.stream(OWN))))
    np.testing.assert_array_equal(read(here), FLOATS)


@two_devices
def test_to_another_device() -> None:
    there = xd.asarray(array(CUDA.stream(OWN)))
    np.testing.assert_array_equal(read(there.to("cuda:1")), FLOATS)


def test_a_queue_of_the_other_context_does_not_reach_it() -> None:
    there = xd.asarray(array(CUDA.stream(OWN)))
    with pytest.raises(xd.ExecutionPlacementError, match="can't be used by work on"):
        offload.placement(there, queue=xd.Queue("cuda:0"))
    assert offload.placement(there) == there.queue


@pytest.mark.parametrize("export", ["__dlpack__", "__arrow_c_device_array__"])
def test_protocols_that_cannot_tell_the_context_refuse_it(export: str) -> None:
    tensor = xd.asarray(array(CUDA.stream(OWN)))[0]
    with pytest.raises((BufferError, xd.ExportError), match="in another context"):
        getattr(tensor, export)()
    pinned: Any = xd.asarray(array(CUDA.stream(OWN), "pinned"))
    assert pinned.__dlpack__() is not None, "every context reaches pinned memory"


def values_in_own_context(stream: int, pointer: int) -> np.ndarray[Any, Any]:
    """As a consumer reads that works in that context."""
    with current(OWN):
        return values_on(stream, pointer)


def work_of(exporter: DeviceArray, stream: int) -> xd.Event:
    CUDA.slow_down(0.03)
    exporter.memory.fill(7, stream)
    return xd.Queue(Stream(stream)).record()


def test_an_array_with_an_event_alone_shows_a_stream_of_its_context() -> None:
    exporter = array()
    event = work_of(exporter, CUDA.stream(OWN))
    tensor = xd.asarray(exporter).unsynchronized().after(event)
    assert tensor.queue is None
    stream = tensor.__cuda_array_interface__["stream"]
    np.testing.assert_array_equal(values_in_own_context(stream, tensor.pointer), FILLED)
    np.testing.assert_array_equal(read(ForeignArray(tensor.__cuda_array_interface__)), FILLED)
    both = tensor.after(xd.Queue.new("cuda:0").record())
    stream = both.__cuda_array_interface__["stream"]
    np.testing.assert_array_equal(values_in_own_context(stream, tensor.pointer), FILLED)


def test_another_threads_stream_is_shown_as_one_of_its_context() -> None:
    exporter = array(2)
    CUDA.slow_down(0.03)
    exporter.memory.fill(7, 2)
    tensor = xd.asarray(exporter)

    def elsewhere() -> np.ndarray[Any, Any]:
        return values_in_own_context(tensor.__cuda_array_interface__["stream"], tensor.pointer)

    np.testing.assert_array_equal(in_a_thread(elsewhere), FILLED)


def test_pinned_memory_is_ordered_on_the_default_stream_of_its_context() -> None:
    stream = CUDA.stream(OWN)
    exporter = array(stream, "pinned")
    tensor = xd.asarray(exporter)
    CUDA.slow_down(0.03)
    exporter.memory.fill(7, stream)
    with current(OWN):
        capsule = tensor.__dlpack__(stream=1, max_version=(1, 0))
        found = values_on(1, tensor.pointer)
    assert capsule is not None
    np.testing.assert_array_equal(found, FILLED)


def test_arrays_without_a_queue_are_placed_in_their_context() -> None:
    one, other = (xd.asarray(array()).unsynchronized() for _ in range(2))
    placed = offload.placement(one, other)
    assert offload.accessible(one, placed)
    np.testing.assert_array_equal(values_in_own_context(placed.native, other.pointer), FLOATS)
    with pytest.raises(xd.ExecutionPlacementError, match="copy them to one queue"):
        offload.placement(one, xd.asarray(FLOATS).to("cuda:0"))


def test_a_mask_in_another_context_is_refused() -> None:
    data = Memory(FLOATS, device=OWN)
    for mask in (DeviceArray(np.ones((3, 4), "?")), DeviceArray(np.ones((3, 4), "?"), device=OWN)):
        masked = ForeignArray(interface_of(data, shape=(3, 4), mask=mask))
        if mask.memory.device == OWN:
            assert xd.asarray(masked).to("cpu").mask is not None
            continue
        with pytest.raises(ValueError, match=r"its mask is in memory of cuda:0, but its data .* in another context"):
            xd.asarray(masked)


class DeviceStream:
    def __init__(self, source: Any) -> None:
        self.source = source

    def __arrow_c_device_stream__(self, requested_schema: object = None, **keywords: object) -> Any:
        return self.source.__arrow_c_device_stream__()


def test_a_batch_goes_by_way_of_the_host_alone() -> None:
    """Arrow can't tell its context."""
    rows = pa.record_batch({"x": [1, 2, 3], "d": pa.array(["a", "b", "a"]).dictionary_encode()})
    queue = xd.Queue(Stream(CUDA.stream(OWN)))
    batch = xd.RecordBatch(rows).to("cuda:0", queue=queue)
    with pytest.raises(BufferError, match="in another context"):
        batch.__arrow_c_device_array__()
    with pytest.raises(BufferError, match="in another context"):
        next(iter(xd.RecordBatchReader(DeviceStream(xd.RecordBatchReader([batch])))))
    assert pa.table(xd.RecordBatchReader([batch])) == pa.table(rows)
    usual = batch.to("cuda:0", queue=xd.Queue.new("cuda:0"))
    assert usual.__arrow_c_device_array__() is not None
    pinned = xd.RecordBatch(rows).to("cuda_host:0", queue=queue)
    assert pinned.__arrow_c_device_array__() is not None
    with xd.Server() as server:
        server.publish("table", [batch], mode="table")
        server.publish("live", [batch], mode="live")
        with xd.connect(server.uri) as client:
            assert [pa.table(client.get(name)) for name in ("table", "live")] == [pa.table(rows)] * 2


def test_dropping_its_last_array_waits_for_nothing() -> None:
    """What its work still reads is freed by later work in any context."""
    queue = xd.Queue(Stream(CUDA.stream(OWN)))
    source = FLOATS.copy()
    read_by_work = weakref.ref(source)
    CUDA.slow_down(0.5)
    sent = xd.asarray(source).to("cuda:0", queue=queue)
    before = time.monotonic()
    del source, sent
    assert time.monotonic() - before < 0.4
    assert read_by_work() is not None
    assert eventually(lambda: read_by_work() is None)
