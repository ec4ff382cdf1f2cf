"""Arrays and streams of a CUDA context that isn't the primary one, as a program has them that makes its own.

The fake refuses what CUDA refuses: events on streams of other contexts, and device memory of other contexts.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from ctypes import c_int, c_uint, c_void_p
from typing import Any

import numpy as np
import pytest
from tests.cuda_fake_cases.cuda_array import CUDA, DeviceArray, no_faults, on_the_fake, read, two_devices
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
