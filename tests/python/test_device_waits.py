"""Waiting for devices: Ctrl-C gets through, and the work goes on."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crossdock as xd
from crossdock import testing

SLOW = 3.0  # seconds; long against what it takes to interrupt


@contextmanager
def ctrl_c(after: float = 0.03) -> Iterator[None]:
    """Sent from another thread, as a terminal sends it while the main thread is in a call."""
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        yield
    finally:
        timer.join()


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


WAITS: dict[str, Callable[[Any, xd.Queue], Any]] = {
    "Tensor.wait": lambda tensor, queue: tensor.wait(),
    "Event.wait": lambda tensor, queue: tensor.event.wait(),
    "Queue.wait": lambda tensor, queue: queue.wait(),
    "to": lambda tensor, queue: tensor.to("cpu"),
    "buffer": lambda tensor, queue: memoryview(tensor.to("cpu", queue=queue)),
    "dlpack": lambda tensor, queue: tensor.__dlpack__(dl_device=(1, 0)),
    "arrow": lambda tensor, queue: tensor.__arrow_c_array__(),
}


@pytest.mark.simulated_devices(1, delay=SLOW)
def test_ctrl_c_ends_a_wait(simulated_devices: testing.SimulatedDevices) -> None:
    source = np.arange(24.0)
    batch = pa.record_batch({"a": source})
    queue = xd.Queue.new("sim:0")
    there = xd.asarray(source).to("sim:0", queue=queue)
    rows = xd.RecordBatch(batch).to("sim:0", queue=queue)
    for name, wait in WAITS.items():
        with pytest.raises(KeyboardInterrupt), ctrl_c():
            wait(there, queue)
        assert not there.event.done, f"{name} waited all the same"
    with pytest.raises(KeyboardInterrupt), ctrl_c():
        rows.to("cpu")
    assert not there.event.done
    # The work goes on, and may be waited for again.
    there.wait()
    assert there.event.done


@pytest.mark.simulated_devices(1, delay=SLOW)
def test_waits_that_are_given_up_again_and_again_hold_one_thread(
    simulated_devices: testing.SimulatedDevices,
) -> None:
    class TooLateError(Exception):
        pass

    def give_up(*_: object) -> None:
        raise TooLateError

    there = xd.asarray(np.arange(24.0)).to("sim:0", queue=xd.Queue.new("sim:0"))
    before = signal.signal(signal.SIGALRM, give_up)
    try:
        for _ in range(50):
            signal.setitimer(signal.ITIMER_REAL, 0.005)
            with pytest.raises(TooLateError):
                there.wait()
        before_more = threads()
        for _ in range(50):
            signal.setitimer(signal.ITIMER_REAL, 0.005)
            with pytest.raises(TooLateError):
                there.wait()
        assert threads() <= before_more
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    there.wait()


@pytest.mark.simulated_devices(1, delay=0.01)
def test_one_thread_serves_all_waits(simulated_devices: testing.SimulatedDevices) -> None:
    queue = xd.Queue.new("sim:0")
    source = xd.asarray(np.arange(24.0))
    source.to("sim:0", queue=queue).wait()
    before = set(os.listdir("/proc/self/task"))
    for _ in range(20):
        there = source.to("sim:0", queue=queue)
        there.wait()
        assert there.event.done
    assert set(os.listdir("/proc/self/task")) <= before


@pytest.mark.simulated_devices(1, delay=0.3)
def test_a_handler_that_waits_itself_disturbs_no_wait(simulated_devices: testing.SimulatedDevices) -> None:
    source = xd.asarray(np.arange(24.0))
    under_way: list[bool] = []

    def wait_too(*_: object) -> None:
        under_way.append(not mine.event.done)
        others.wait()
        mine.wait()

    before = signal.signal(signal.SIGALRM, wait_too)
    try:
        for rounds in range(1, 4):
            mine, others = (source.to("sim:0", queue=xd.Queue.new("sim:0")) for _ in range(2))
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            mine.wait()
            assert mine.event.done
            while len(under_way) < rounds:
                time.sleep(0.001)  # A signal that is late after all.
            assert others.event.done
            np.testing.assert_array_equal(others.to("cpu"), np.arange(24.0))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert any(under_way)


@pytest.mark.simulated_devices(1, delay=0.5)
@pytest.mark.parametrize("after", [False, True], ids=["while it waits", "after it has ended"])
def test_a_fork_in_a_handler_leaves_the_child_without_the_wait(
    simulated_devices: testing.SimulatedDevices, after: bool
) -> None:
    children: list[int] = []

    def fork(*_: object) -> None:
        while after and not there.event.done:
            time.sleep(0.001)  # To wait for it is what the handler interrupts.
        children.append(os.fork())

    there = xd.asarray(np.arange(24.0)).to("sim:0", queue=xd.Queue.new("sim:0"))
    parent = os.getpid()
    before = signal.signal(signal.SIGALRM, fork)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        try:
            there.wait()
        except xd.ForkError:
            if os.getpid() == parent:
                raise
            os._exit(7)
        if os.getpid() != parent:
            os._exit(8)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 7


@pytest.mark.simulated_devices(1, delay=0.1)
def test_without_descriptors_or_threads_a_wait_goes_on_in_the_driver(
    simulated_devices: testing.SimulatedDevices,
) -> None:
    there = xd.asarray(np.arange(24.0)).to("sim:0", queue=xd.Queue.new("sim:0"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        there.wait()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert there.event.done


@pytest.mark.simulated_devices(1, delay=0.02)
def test_other_threads_wait_too(simulated_devices: testing.SimulatedDevices) -> None:
    there = xd.asarray(np.arange(24.0)).to("sim:0", queue=xd.Queue.new("sim:0"))
    done: list[bool] = []

    def wait() -> None:
        there.wait()
        done.append(there.event.done)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    assert done == [True]


@pytest.mark.simulated_devices(1)
def test_failures_are_raised_by_waits(simulated_devices: testing.SimulatedDevices) -> None:
    testing.fail_work(error=xd.SystemError("the kernel went wrong"))
    queue = xd.Queue.new("sim:0")
    xd.asarray(b"1234").to("sim:0", queue=queue)
    with pytest.raises(xd.SystemError, match="the kernel went wrong"):
        queue.wait()
