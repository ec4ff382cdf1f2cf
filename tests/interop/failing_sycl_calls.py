"""Calls of SYCL that fail, one after the other, through a double of dpctl's library. test_usm_faults.py runs this."""

from __future__ import annotations

import contextlib
import ctypes
import os
import weakref

import numpy as np
import pyarrow as pa
import pytest
from dpctl._sycl_queue_manager import get_device_cached_queue
from tests.interop.usm import (
    HOST_WAYS,
    KINDS,
    LATER,
    SEVENS,
    SIZE,
    WAYS,
    Exporter,
    Kept,
    copied_back,
    dpm,
    put_slow_work,
    sycl_queue,
)

import crossdock as xd

DOUBLE = ctypes.CDLL(os.environ["CROSSDOCK_SYCL_LIBRARY"])

# Of dpctl's functions, those whose failure an export can meet.
FAILING = (
    "DPCTLDeviceMgr_GetCachedContext",
    "DPCTLDevice_HasAspect",
    "DPCTLContext_Copy",
    "DPCTLContext_GetDevices",
    "DPCTLDeviceVector_GetAt",
    "DPCTLQueue_Create",
    "DPCTLQueue_CreateForDevice",
    "DPCTLQueue_Copy",
    "DPCTLQueue_GetContext",
    "DPCTLQueue_GetDevice",
    "DPCTLQueue_Memcpy",
    "DPCTLQueue_SubmitBarrier",
    "DPCTLQueue_SubmitBarrierForEvents",
    "DPCTLQueue_Wait",
    "DPCTLEvent_GetCommandExecutionStatus",
    "DPCTLEvent_WaitAndThrow",
    "DPCTLaligned_alloc_device",
    "DPCTLaligned_alloc_host",
    "DPCTLaligned_alloc_shared",
    "DPCTLUSM_GetPointerType",
    "DPCTLUSM_GetPointerDevice",
)


def exports(kind):
    on_a_queue = {
        f"{way} on a queue": lambda t, take=take: copied_back(take(t, xd.Queue.new(t.queue)))
        for way, take in LATER.items()
    }
    return {**WAYS, **on_a_queue, **(HOST_WAYS if kind != "device" else {})}


WAIT = "DPCTLEvent_WaitAndThrow"
STATUS = "DPCTLEvent_GetCommandExecutionStatus"
BARRIER = "DPCTLQueue_SubmitBarrier"
ORDER = "DPCTLQueue_SubmitBarrierForEvents"


class Failing:
    """Makes `count` calls of a function fail, from the nth in the block."""

    def __init__(self, function, nth, count=1):
        self.function, self.nth, self.count = function.encode(), nth, count

    def __enter__(self):
        self.before = DOUBLE.crossdockSyclCalls(self.function)
        DOUBLE.crossdockSyclFail(self.function, self.nth, self.count)
        return self

    def __exit__(self, *error):
        self.reached = DOUBLE.crossdockSyclCalls(self.function) >= self.before + self.nth
        DOUBLE.crossdockSyclFail(self.function, 1, 0)


@pytest.fixture(scope="module", params=["in order", "out of order"])
def queue(request):
    return sycl_queue(property="in_order") if request.param == "in order" else sycl_queue()


@pytest.fixture(scope="module")
def slow(queue):
    """Two large allocations, to copy between."""
    return tuple(dpm.MemoryUSMDevice(1 << 24, queue=queue) for _ in range(2))


COUNTS = {"one": 1, "all": 1000}


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", ["device", "shared"])
def test_each_call_fails_in_turn(queue, kind, count):
    """Either the values are right, or an error is raised. Afterwards every way works again."""
    frees = DOUBLE.crossdockSyclEarlyFrees()
    kept = Kept(queue, kind, tuple(KINDS["device"](1 << 20, queue=queue) for _ in range(2)))
    ways = exports(kind)
    met = set()
    for way, take in ways.items():
        for function in FAILING:
            if count == "all" and function == WAIT:
                continue  # each such wait takes a second
            for nth in range(1, 100):
                value = nth % 2 + 7
                kept.write(value)
                where = f"{way}: {function} {nth}"
                with Failing(function, nth, COUNTS[count]) as failing:
                    try:
                        np.testing.assert_array_equal(take(kept.tensor), np.full_like(SEVENS, value), err_msg=where)
                    except (xd.Error, BufferError, MemoryError):
                        met.add(function)
                if not failing.reached:
                    break
            else:
                raise AssertionError(f"{where}: no end")
    for way, take in ways.items():
        kept.write(9)
        np.testing.assert_array_equal(take(kept.tensor), np.full_like(SEVENS, 9), err_msg=way)
    queue.wait()
    assert DOUBLE.crossdockSyclEarlyFrees() == frees
    assert len(met) > 10


COPIES = {**LATER, "rows": lambda t, queue: t[::512].copy(queue=queue)}


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("then", ["their queue goes on", "they drop it"])
def test_copies_are_over_before_their_memory_is_used_again(queue, slow, then, way, count):
    """Neither theirs nor ours is freed while a copy is under way, and their queue goes on behind it, whatever fails."""
    properties = {"property": "in_order"} if queue.is_in_order else {}
    behind = sycl_queue(queue.sycl_context, queue.sycl_device, **properties)
    ours = xd.Queue(behind)
    slower = tuple(KINDS["device"](1 << 25, queue=behind) for _ in range(2))
    frees = DOUBLE.crossdockSyclEarlyFrees()
    under_way = []
    together = [(one,) for one in FAILING] + [(BARRIER, ORDER)]
    # Where neither a mark nor a wait for the queue works, nothing orders their queue. But the memory is kept.
    if then == "they drop it":
        together.append((BARRIER, "DPCTLQueue_Wait"))
    for functions in together:
        if count == "all" and WAIT in functions:
            continue
        for nth in range(1, 100):
            memory = KINDS["device"](SIZE, queue=queue)
            owner = Exporter(memory)
            tensor = xd.asarray(owner)
            its = ctypes.c_void_p(tensor.pointer), ctypes.c_size_t(SIZE)
            weakref.finalize(owner, lambda its=its: under_way.append(DOUBLE.crossdockSyclCopiesUnderWay(*its)))
            work = put_slow_work(queue, memory, slow)
            behind.memcpy_async(*slower, slower[0].nbytes)
            with contextlib.ExitStack() as stack:
                failing = [stack.enter_context(Failing(one, nth, COUNTS[count])) for one in functions]
                with contextlib.suppress(xd.Error):
                    COPIES[way](tensor, ours)
                if then == "their queue goes on":
                    queue.memcpy_async(memory, work[0], SIZE).wait()
                    under_way.append(DOUBLE.crossdockSyclCopiesUnderWay(*its))
                del tensor, owner, memory
                for _ in range(2):  # each frees what it takes for due
                    with contextlib.suppress(xd.Error):
                        xd.empty(1, queue=ours)
            behind.wait()
            work[1].wait()
            where = f"{functions} {nth}"
            assert not any(under_way), where
            assert DOUBLE.crossdockSyclEarlyFrees() == frees, where
            if not failing[0].reached:
                break
        else:
            raise AssertionError(f"{where}: no end")


class DeviceArrow:
    """Shows Arrow's interface for devices alone, so that its memory is imported without its queue."""

    def __init__(self, of):
        self.of = of

    def __arrow_c_device_array__(self, requested_schema=None, **keywords):
        return self.of.__arrow_c_device_array__(requested_schema, **keywords)


BATCHES = {
    "to the host": lambda rows, queue: rows.to("cpu"),
    "to the host on a queue": lambda rows, queue: rows.to("cpu", queue=queue),
    "to a queue": lambda rows, queue: rows.to("sycl", queue=queue).to("cpu"),
}


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("way", BATCHES)
def test_copies_of_batches_fail(queue, slow, way, count):
    """Either the values are right, or an error is raised. The memory isn't freed while a copy is under way."""
    ours = xd.Queue(queue)
    theirs = xd.Queue.new("sycl")
    usual = get_device_cached_queue(queue.sycl_device)
    rows = pa.record_batch({"x": np.arange(1000), "y": ["a", "bc"] * 500, "z": np.arange(1000.0)})
    frees = DOUBLE.crossdockSyclEarlyFrees()
    met = set()
    for functions in [(one,) for one in FAILING] + [(BARRIER, ORDER)]:
        if count == "all" and WAIT in functions:
            continue
        for nth in range(1, 100):
            there = xd.RecordBatch(DeviceArrow(xd.RecordBatch(rows).to("sycl", queue=theirs)))
            for slowed in (queue, usual):
                slowed.memcpy_async(*slow, slow[0].nbytes)
            where = f"{functions} {nth}"
            with contextlib.ExitStack() as stack:
                failing = [stack.enter_context(Failing(one, nth, COUNTS[count])) for one in functions]
                try:
                    assert pa.record_batch(BATCHES[way](there, ours)).equals(rows), where
                except (xd.Error, BufferError, MemoryError):
                    met.add(functions)
                del there
                for _ in range(2):
                    with contextlib.suppress(xd.Error):
                        xd.empty(1, queue=ours)
            queue.wait()
            usual.wait()
            assert DOUBLE.crossdockSyclEarlyFrees() == frees, where
            if not failing[0].reached:
                break
        else:
            raise AssertionError(f"{where}: no end")
    assert len(met) > 3


@pytest.mark.parametrize("kind", ["device", "shared"])
def test_failed_work_reaches_every_way_out(queue, kind):
    kept = Kept(queue, kind, ())
    event = kept.tensor.event
    tensor = kept.tensor.unsynchronized().after(event)
    with Failing(STATUS, 1, 1000), pytest.raises(xd.SystemError, match="couldn't wait"):
        event.wait()
    ours = xd.Queue.new(kept.tensor.queue)
    ways = {way: lambda t, take=take: copied_back(take(t, ours)) for way, take in LATER.items()}
    ways |= {way: WAYS[way] for way in ("to cpu", "wait", "event", "column", "arrow on the host", "dlpack to dpnp")}
    passed = []
    for way, take in {**ways, **(HOST_WAYS if kind == "shared" else {})}.items():
        with contextlib.suppress(xd.SystemError, BufferError):
            passed.append((way, take(tensor)))
    assert not passed
    np.testing.assert_array_equal(copied_back(tensor.unsynchronized()), copied_back(kept.tensor))
