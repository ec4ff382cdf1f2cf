"""Work that is put on the queue of SYCL memory after the array was made: every way out comes after it.

What is pending on memory is its event, and whatever is on its queue at the moment of the hand-over.
"""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest
from tests.interop.usm import HOST_WAYS, KINDS, SIZE, SLOW, WAYS, Kept, dpm, sycl_queue

import crossdock as xd


@pytest.fixture(scope="module", params=["in order", "out of order"])
def queue(request):
    return sycl_queue(property="in_order") if request.param == "in order" else sycl_queue()


@pytest.fixture(scope="module")
def slow(queue):
    """Two large allocations, to copy between."""
    return tuple(dpm.MemoryUSMDevice(SLOW, queue=queue) for _ in range(2))


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
