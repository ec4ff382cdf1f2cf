"""What goes wrong while SYCL works: owners and queues that go first, foreign events, threads, forks, the end.

Calls of SYCL that fail are in failing_sycl_calls.py, which runs in a process of its own.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import weakref
from pathlib import Path

import numpy as np
import pytest
from tests.forks import status_in_a_child
from tests.interop.usm import (
    HOST_WAYS,
    KINDS,
    LATER,
    SEVENS,
    SIZE,
    SLOW,
    WAYS,
    Exporter,
    Kept,
    copied_back,
    dpctl,
    dpm,
    in_another_context,
    put_slow_work,
    sycl_queue,
)
from tests.threads import two_while_a_third

import crossdock as xd
from crossdock.testing import simulated_devices

ROOT = Path(__file__).parents[2]
FAILING = Path(os.environ.get("CROSSDOCK_BUILD_DIR", ROOT / "build" / "dev")) / "tests/fakes/sycl/libsycl_failing.so"


@pytest.fixture(scope="module", params=["in order", "out of order"])
def queue(request):
    return sycl_queue(property="in_order") if request.param == "in order" else sycl_queue()


@pytest.fixture(scope="module")
def slow(queue):
    """Two large allocations, to copy between."""
    return tuple(dpm.MemoryUSMDevice(SLOW, queue=queue) for _ in range(2))


def use_what_was_freed(queue):
    """Takes memory of the same size, and fills it: memory that was freed too early has other values then."""
    for _ in range(8):
        KINDS["device"](SIZE, queue=queue).memset(9)


@pytest.mark.parametrize("way", LATER)
@pytest.mark.parametrize("owned", ["theirs", "ours"])
def test_an_owner_that_dies_while_its_work_is_pending(queue, slow, owned, way):
    other = sycl_queue(queue.sycl_context, queue.sycl_device, property="in_order")
    if owned == "theirs":
        memory = KINDS["device"](SIZE, queue=queue)
        owner = Exporter(memory)
        tensor = xd.asarray(owner)
    else:
        tensor = owner = xd.empty(SIZE, "u1", queue=xd.Queue(queue))
        memory = dpm.as_usm_memory(tensor)
    work = put_slow_work(queue, memory, slow)
    states = []
    if owned == "theirs":
        weakref.finalize(owner, lambda: states.append(work[1].execution_status))
    made = LATER[way](tensor, xd.Queue.new(tensor.queue))
    del tensor, memory, owner
    gc.collect()
    use_what_was_freed(other)
    np.testing.assert_array_equal(copied_back(made), SEVENS)
    work[1].wait()
    assert set(states) <= {dpctl.event_status_type.complete}


@pytest.mark.parametrize("way", {**WAYS, **HOST_WAYS})
def test_a_queue_that_is_dropped_before_its_array(queue, slow, way):
    properties = {"property": "in_order"} if queue.is_in_order else {}
    theirs = dpctl.SyclQueue(queue.sycl_context, queue.sycl_device, **properties)
    memory = KINDS["shared"](SIZE, queue=queue)
    tensor = xd.asarray(Exporter(memory, syclobj=theirs))
    work = put_slow_work(theirs, memory, slow)
    del theirs
    gc.collect()
    np.testing.assert_array_equal({**WAYS, **HOST_WAYS}[way](tensor), SEVENS)
    work[1].wait()


def test_an_event_of_another_context(queue, slow):
    there = in_another_context(queue.sycl_device)
    theirs = KINDS["host"](SIZE, queue=there)
    far = xd.asarray(Exporter(theirs))
    tensor = xd.asarray(Exporter(KINDS["device"](SIZE, queue=queue)))
    tensor.copy_from(np.full(SIZE, 7, "u1")).wait()
    work = put_slow_work(there, theirs, tuple(KINDS["device"](SLOW, queue=there) for _ in range(2)))
    after = tensor.after(far.event)
    np.testing.assert_array_equal(copied_back(after), SEVENS)
    assert bytes(theirs) == SEVENS.tobytes()
    work[1].wait()


def test_an_event_of_another_driver_is_waited_for(queue):
    tensor = xd.asarray(Exporter(KINDS["device"](SIZE, queue=queue)))
    tensor.copy_from(np.full(SIZE, 7, "u1")).wait()
    with simulated_devices(1, delay=0.05):
        event = xd.asarray(np.zeros(4)).to("ext_dev:0", queue=xd.Queue.new("ext_dev:0")).event
        assert not event.done
        after = tensor.after(event)
        assert event.done
    np.testing.assert_array_equal(copied_back(after), SEVENS)


def test_two_threads_export_what_a_third_works_on():
    # On an out-of-order queue, Intel's run time for the CPU (2026.22) can hang where several threads wait at once: a
    # wait runs work of the queue, and that work waits again. Here the third thread doesn't wait for its events.
    queue = sycl_queue(property="in_order")
    memory = KINDS["shared"](SIZE, queue=queue)
    source = KINDS["host"](SIZE, queue=queue)
    memory.memset(7)
    source.memset(7)
    tensor = xd.asarray(Exporter(memory))

    def work(over):
        done = 0
        while not over.is_set():
            last = queue.memcpy_async(memory, source, SIZE)
            done += 1
            while done % 64 == 0 and last.execution_status != dpctl.event_status_type.complete:
                os.sched_yield()
        queue.wait()
        return done

    def export():
        return [WAYS[way](tensor) for way in ("to cpu", "copy", "copy_to", "column") for _ in range(20)]

    for values in two_while_a_third(work, export):
        np.testing.assert_array_equal(np.stack(values), np.broadcast_to(SEVENS, (80, SIZE)))


def exports(kind):
    """Every way out that SYCL has a part in, with a queue that is made before."""
    ways = {**WAYS, **(HOST_WAYS if kind != "device" else {})}
    made = xd.Queue.new("sycl")
    return {**ways, **{f"{way} on a queue": lambda t, take=take: take(t, made) for way, take in LATER.items()}}


@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_while_work_is_pending(queue, slow, kind):
    """The child is told that SYCL is its parent's, and nothing there waits or is freed. The parent goes on."""
    kept = Kept(queue, kind, slow)
    ways = exports(kind)
    kept.write(7)

    def use() -> None:
        for way, take in ways.items():
            try:
                take(kept.tensor)
            except (xd.Error, BufferError) as error:
                said = str(error)
            else:
                said = "no error"
            assert "fork" in said, f"{way}: {said}"
        kept.tensor = None
        gc.collect()

    assert status_in_a_child(use) == 0
    np.testing.assert_array_equal(copied_back(kept.tensor), SEVENS)
    queue.wait()


ENDS = {
    "an array that is kept": "kept = tensor",
    "an array that goes": "del tensor, memory",
    "copies under way": "kept = [tensor.copy(queue=xd.Queue.new('sycl')), tensor.copy(), tensor.copy_to(theirs)]",
    "exports": "kept = [tensor.to_arrow().__arrow_c_device_array__(), tensor.__dlpack__(max_version=(1, 0))]",
    "a cycle": "kept = [tensor, tensor.copy()]; kept.append(kept); del kept, tensor",
    "an event": "kept = tensor.event",
}


@pytest.mark.parametrize("end", ENDS)
def test_the_interpreter_ends_while_work_is_pending(end):
    code = f"""
        import dpctl
        import dpctl.memory as dpm
        import crossdock as xd

        theirs = dpctl.SyclQueue()
        large = [dpm.MemoryUSMDevice({SLOW}, queue=theirs) for _ in range(2)]
        memory = dpm.MemoryUSMDevice({SIZE}, queue=theirs)
        tensor = xd.asarray(memory)
        first = theirs.memcpy_async(*large, {SLOW})
        last = theirs.memcpy_async(memory, large[0], {SIZE}, [first])
        {ENDS[end]}
        print("ends", flush=True)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")


@pytest.mark.long
def test_calls_of_sycl_that_fail():
    assert FAILING.exists(), f"{FAILING} is built with the C++ tests: ./dev build"
    library = Path(dpctl.__file__).parent / "libDPCTLSyclInterface.so"
    tests = Path(__file__).parent / "failing_sycl_calls.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [*command, str(tests)],
        env={**os.environ, "CROSSDOCK_SYCL_LIBRARY": str(FAILING), "CROSSDOCK_SYCL_FAILING_OF": str(library)},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
