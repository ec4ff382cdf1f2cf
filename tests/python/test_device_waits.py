"""Waiting for devices: Ctrl-C gets through, and the work goes on."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
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


WAITS: dict[str, Callable[[Any, xd.Queue], Any]] = {
    "Tensor.wait": lambda tensor, queue: tensor.wait(),
    "Event.wait": lambda tensor, queue: tensor.event.wait(),
    "Queue.wait": lambda tensor, queue: queue.wait(),
    "to": lambda tensor, queue: tensor.to("cpu"),
    "buffer": lambda tensor, queue: memoryview(tensor.to("cpu", queue=queue)),
    "dlpack": lambda tensor, queue: tensor.__dlpack__(dl_device=(1, 0)),
    "arrow": lambda tensor, queue: tensor.__arrow_c_array__(),
}


@pytest.mark.long
@pytest.mark.simulated_devices(1, delay=SLOW)
def test_ctrl_c_ends_a_wait(simulated_devices: testing.SimulatedDevices, tmp_path: Path) -> None:
    source = np.arange(24.0)
    batch = pa.record_batch({"a": source})
    queue = xd.Queue.new("sim:0")
    there = xd.asarray(source).to("sim:0", queue=queue)
    rows = xd.RecordBatch(batch).to("sim:0", queue=queue)
    for name, wait in WAITS.items():
        with pytest.raises(KeyboardInterrupt), ctrl_c():
            wait(there, queue)
        assert not there.event.done, f"{name} waited all the same"
    with xd.Server() as server:
        for wait_for_rows in (
            lambda: rows.to("cpu"),
            lambda: server.publish("rows", rows),
            lambda: xd.write(rows, tmp_path / "rows.arrow"),
        ):
            with pytest.raises(KeyboardInterrupt), ctrl_c():
                wait_for_rows()
            assert not there.event.done
        assert server.stats()["sources"] == []
    # The work goes on, and may be waited for again.
    work = there.event
    there.wait()
    assert work.done


GIVING_UP = """
    import os, signal, time
    import numpy as np
    import crossdock as xd
    from crossdock.testing import simulated_devices

    class TooLateError(Exception):
        pass

    def give_up(*_):
        raise TooLateError

    signal.signal(signal.SIGALRM, give_up)

    def give_up_again_and_again(*waits):
        for _ in range(15):
            for wait in waits:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.005)  # A busy machine may be late for the wait itself.
                    wait()
                except TooLateError:
                    continue
                raise AssertionError("it didn't wait")

    def threads():
        return len(os.listdir("/proc/self/task"))

    devices = simulated_devices(2, delay=3600)  # Nobody waits for that.
    devices.__enter__()
    queues = [xd.Queue.new(f"sim:{i}") for i in (0, 1)]
    there = [xd.asarray(np.arange(24.0)).to(f"sim:{i}", queue=queues[i]) for i in (0, 1)]
"""


def test_waits_for_the_same_that_are_given_up_hold_one_thread(script: Any) -> None:
    script(
        GIVING_UP
        + """
    before = threads()
    work = [array.event for array in there]
    give_up_again_and_again(work[0].wait)
    assert threads() == before + 1, (before, threads())
    give_up_again_and_again(work[0].wait, work[1].wait)
    assert threads() == before + 2, (before, threads())
    give_up_again_and_again(there[0].wait)  # For an event of its own each time: what is on the queue by then.
    assert threads() <= before + 8, (before, threads())
    """
    ).finish()


def test_waits_that_are_given_up_hold_few_threads(script: Any) -> None:
    script(
        GIVING_UP
        + """
    before = threads()
    # Each of them waits for an event of its own.
    give_up_again_and_again(queues[0].wait, lambda: there[1].to("cpu"), there[0].wait)
    assert threads() <= before + 8 + 1, (before, threads())  # One is of the queue that .to("cpu") works on.
    assert not there[0].event.done
    """
    ).finish()


def test_a_wait_that_found_no_thread_sees_the_end_and_the_failure(script: Any) -> None:
    script(
        GIVING_UP
        + """
    from crossdock import testing
    give_up_again_and_again(queues[0].wait, lambda: there[1].to("cpu"))
    signal.setitimer(signal.ITIMER_REAL, 0)
    from crossdock import _native
    _native.sim_configure(devices=2, delay=0.2, memory=None)
    before = threads()
    soon = xd.asarray(np.arange(24.0)).to("sim:0", queue=xd.Queue.new("sim:0"))
    work = soon.event
    assert not work.done
    soon.wait()
    assert work.done
    np.testing.assert_array_equal(soon.to("cpu"), np.arange(24.0))
    testing.fail_work(error=xd.SystemError("the kernel went wrong"))
    wrong = xd.asarray(np.arange(24.0)).to("sim:0", queue=xd.Queue.new("sim:0"))
    try:
        wrong.wait()
    except xd.SystemError as error:
        assert "the kernel went wrong" in str(error)
    else:
        raise AssertionError("the failure was lost")
    """
    ).finish()


def test_a_program_that_closes_all_descriptors_waits_on(script: Any) -> None:
    script("""
    import os
    import numpy as np
    import crossdock as xd
    from crossdock.testing import simulated_devices
    with simulated_devices(1, delay=0.05):
        for _ in range(2):
            there = xd.asarray(np.arange(24.0)).to("sim:0", queue=xd.Queue.new("sim:0"))
            work = there.event
            there.wait()
            assert work.done
            os.closerange(3, 256)
    """).finish()


def test_one_thread_serves_all_waits(script: Any) -> None:
    # In a process of its own: threads of other libraries start here whenever they like.
    script("""
    import os
    import threading
    import numpy as np
    import crossdock as xd
    from crossdock.testing import simulated_devices

    seen = set()
    ended = threading.Event()

    def watch():
        while not ended.wait(0.001):
            seen.update(os.listdir("/proc/self/task"))

    with simulated_devices(1, delay=0.02):
        queue = xd.Queue.new("sim:0")
        source = xd.asarray(np.arange(24.0))
        source.to("sim:0", queue=queue).wait()
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        before = set(os.listdir("/proc/self/task"))
        for _ in range(20):
            there = source.to("sim:0", queue=queue)
            work = there.event
            there.wait()
            assert work.done
        ended.set()
        watcher.join()
    assert seen
    assert seen <= before, (seen, before)
    """).finish()


@pytest.mark.long
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
            work = [mine.event, others.event]
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            mine.wait()
            assert work[0].done
            while len(under_way) < rounds:
                time.sleep(0.001)  # A signal that is late after all.
            assert work[1].done
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
        if children[-1] == 0:  # It ends, whatever becomes of it.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(30)

    there = xd.asarray(np.arange(24.0)).to("sim:0", queue=xd.Queue.new("sim:0"))
    parent = os.getpid()
    before = signal.signal(signal.SIGALRM, fork)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        there.wait()
        if os.getpid() != parent:
            os._exit(8)
        while not children:
            time.sleep(0.001)  # A signal that is late after all.
    except xd.ForkError:
        if os.getpid() == parent:
            raise
        os._exit(7)
    except BaseException:
        if os.getpid() == parent:
            raise
        os._exit(9)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 7


@pytest.mark.simulated_devices(1, delay=0.02)
def test_other_threads_wait_too(simulated_devices: testing.SimulatedDevices) -> None:
    there = xd.asarray(np.arange(24.0)).to("sim:0", queue=xd.Queue.new("sim:0"))
    done: list[bool] = []

    def wait() -> None:
        work = there.event
        there.wait()
        done.append(work.done)

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
