"""Work that is put on the queue of SYCL memory after the array was made: every way out comes after it.

What is pending on memory is its event, and whatever is on its queue at the moment of the hand-over.
"""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pyarrow as pa
import pytest
from tests.interop.test_usm_peers import KINDS, Exporter, dpm, dpnp, sycl_queue

import crossdock as xd

SIZE = 4096
SLOW = 1 << 26


@pytest.fixture(scope="module", params=["in order", "out of order"])
def queue(request):
    return sycl_queue(property="in_order") if request.param == "in order" else sycl_queue()


@pytest.fixture(scope="module")
def slow(queue):
    """Two large allocations, to copy between."""
    return tuple(dpm.MemoryUSMDevice(SLOW, queue=queue) for _ in range(2))


class Kept:
    """Memory that was imported, and whose owner goes on working on its queue: a slow copy, and then ours."""

    def __init__(self, queue, kind, slow):
        self.queue, self.slow = queue, slow
        self.memory = KINDS[kind](SIZE, queue=queue)
        self.memory.memset(1)
        self.source = dpm.MemoryUSMHost(SIZE, queue=queue)
        self.tensor = xd.asarray(Exporter(self.memory))
        self.tensor.wait()
        assert self.tensor.queue == xd.Queue(queue)

    def write(self, value):
        self.source.memset(value)
        first = self.queue.memcpy_async(*self.slow, self.slow[0].nbytes)
        self.queue.memcpy_async(self.memory, self.source, SIZE, [first])


class OnHost:
    """Shows Arrow's interface for the CPU alone."""

    def __init__(self, of):
        self.of = of

    def __arrow_c_array__(self, requested_schema=None):
        return self.of.__arrow_c_array__()


def copied_back(array):
    return np.asarray(array.to("cpu"))


WAYS = {
    "to cpu": copied_back,
    "to cpu on another queue": lambda t: np.asarray(t.to("cpu", queue=xd.Queue.new(t.queue))),
    "to cpu on its queue": lambda t: np.asarray(t.to("cpu", queue=t.queue)),
    "copy": lambda t: copied_back(t.copy()),
    "copy_to": lambda t: copied_back(t.copy_to(xd.Queue.new(t.queue))),
    "copy_from": lambda t: copied_back(xd.empty(SIZE, dtype="u1", device=t.device).copy_from(t)),
    "collocate": lambda t: copied_back(t.collocate(xd.Queue.new(t.queue))),
    "wait": lambda t: (t.wait(), copied_back(t.unsynchronized()))[1],
    "event": lambda t: (t.event.wait(), copied_back(t.unsynchronized()))[1],
    "column": lambda t: copied_back(xd.asarray(t.to_arrow())),
    "arrow on the host": lambda t: pa.array(OnHost(t)).to_numpy(),
    "dpnp": lambda t: dpnp.asnumpy(dpnp.asarray(t)),
    "dlpack to dpnp": lambda t: dpnp.asnumpy(dpnp.from_dlpack(t)),
}
HOST_WAYS = {
    "buffer": lambda t: np.asarray(memoryview(t)),
    "numpy": np.asarray,
    "bytes": lambda t: np.frombuffer(bytes(t), "u1"),
    "tolist": lambda t: np.array(t.tolist(), "u1"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_way_out_comes_after_it(queue, slow, kind, way):
    kept = Kept(queue, kind, slow)
    kept.write(7)
    np.testing.assert_array_equal(WAYS[way](kept.tensor), np.full(SIZE, 7, "u1"))
    queue.wait()


@pytest.mark.parametrize("way", HOST_WAYS)
@pytest.mark.parametrize("kind", ["shared", "host"])
def test_the_host_reads_after_it(queue, slow, kind, way):
    kept = Kept(queue, kind, slow)
    for value in (7, 9):  # The second time with whatever is remembered of the first.
        kept.write(value)
        np.testing.assert_array_equal(HOST_WAYS[way](kept.tensor), np.full(SIZE, value, "u1"))
    queue.wait()


@pytest.mark.parametrize("placed", ["its own queue", "named", "collocated", "another"])
def test_work_on_the_queue_of_a_placement_comes_after_it(queue, slow, placed):
    """Also on a queue that isn't in-order, where nothing else orders a kernel."""
    kept = Kept(queue, "device", slow)
    other = sycl_queue(queue.sycl_context, queue.sycl_device)
    target = dpm.MemoryUSMHost(SIZE, queue=queue)
    kept.write(7)
    if placed == "its own queue":
        assert xd.offload.placement(kept.tensor) == xd.Queue(queue)
    elif placed == "named":
        xd.offload.placement(kept.tensor, queue=queue)
    elif placed == "collocated":
        kept.tensor.collocate(queue)
    else:
        xd.offload.placement(kept.tensor, queue=other)
    (other if placed == "another" else queue).memcpy_async(target, kept.memory, SIZE).wait()
    assert bytes(target.copy_to_host()) == b"\7" * SIZE
    queue.wait()


def test_ctrl_c_ends_a_wait_for_an_out_of_order_queue():
    """Its event can't be recorded before its work is over, and so the wait is for more than an event."""
    dpctl = pytest.importorskip("dpctl")
    queue = sycl_queue()
    slow = tuple(dpm.MemoryUSMDevice(SLOW, queue=queue) for _ in range(2))
    work = None
    for _ in range(200):
        work = queue.memcpy_async(*slow, SLOW, [work] if work is not None else [])
    ours = xd.Queue(queue)
    assert not ours.in_order
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ours.wait()
    timer.join()
    assert work.execution_status != dpctl.event_status_type.complete, "it waited for all work"
    ours.wait()
    assert work.execution_status == dpctl.event_status_type.complete
