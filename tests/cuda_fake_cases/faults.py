"""What goes wrong while work is pending: owners and streams that go first, calls that fail, threads, forks, the end."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from ctypes import c_int, c_size_t, c_uint64, c_void_p
from typing import Any

import numpy as np
import pytest
from tests.cuda_fake_cases.cuda_array import (
    CUDA,
    Memory,
    in_a_thread,
    interface_of,
    no_faults,
    on_the_fake,
    read,
    two_devices,
    wait_for_frees,
)
from tests.cuda_fake_cases.pending_work import DEVICES, FILLED, HOST_WAYS, WAYS, Array, Kept
from tests.forks import status_in_a_child
from tests.threads import two_while_a_third

import crossdock as xd

__all__ = ["no_faults"]

pytestmark = on_the_fake

LATER: dict[str, Callable[[xd.Tensor, xd.Queue], xd.Tensor]] = {
    "copy": lambda t, queue: t.copy(queue=queue),
    "copy_to": lambda t, queue: t.copy_to(queue),
    "copy_from": lambda t, queue: xd.empty((3, 4), "f4", queue=queue).copy_from(t, queue=queue),
    "collocate": lambda t, queue: t.collocate(queue),
    "a part": lambda t, queue: t[::-1].copy(queue=queue)[::-1],
    "to the host": lambda t, queue: t.to("cpu", queue=queue),
}


@pytest.mark.parametrize("way", LATER)
def test_an_owner_that_dies_while_its_work_is_pending(way: str) -> None:
    kept = Kept()
    made = LATER[way](kept.tensor, xd.Queue.new("cuda:0"))
    del kept
    gc.collect()
    np.testing.assert_array_equal(read(made), FILLED)


@pytest.mark.parametrize("way", LATER)
def test_memory_of_our_own_that_dies_while_work_is_pending(way: str) -> None:
    queue = xd.Queue.new("cuda:0")
    mine = xd.asarray(np.zeros((3, 4), "f4")).to("cuda:0", queue=queue)
    CUDA.slow_down(0.03)
    CUDA("cuMemsetD8Async", c_uint64(mine.pointer), ctypes.c_ubyte(7), c_size_t(48), c_void_p(queue.native))
    made = LATER[way](mine, xd.Queue.new("cuda:0"))
    del mine, queue
    gc.collect()
    np.testing.assert_array_equal(read(made), FILLED)


ON_ANOTHER_QUEUE: dict[str, Callable[[xd.Tensor, xd.Queue], xd.Tensor]] = {
    "collocate": lambda t, queue: t.collocate(queue),
    "asarray": lambda t, queue: xd.asarray(t, queue=queue),
    "to": lambda t, queue: t.to("cuda:0", queue=queue),
    "twice": lambda t, queue: t.collocate(queue).collocate(xd.Queue.new("cuda:0")).collocate(queue),
    "a part": lambda t, queue: t.collocate(queue)[::2],
    "copy_from": lambda t, queue: t.copy_from(xd.asarray(np.zeros((3, 4), "f4")), queue=queue),
    "on a thread": lambda t, queue: in_a_thread(lambda: t.collocate(queue)),
}


@pytest.mark.parametrize("way", ON_ANOTHER_QUEUE)
def test_memory_of_our_own_that_dies_under_work_on_the_queue_that_it_was_given(way: str) -> None:
    """It is freed after that work, too: the allocation queue alone knows nothing of it."""
    first, queue = xd.Queue.new("cuda:0"), xd.Queue.new("cuda:0")
    before = alive()["allocations"]
    mine = xd.empty((3, 4), "f4", queue=first)
    given = ON_ANOTHER_QUEUE[way](mine, queue)
    assert (given.pointer, given.queue) == (mine.pointer, queue)
    CUDA.slow_down(0.03)
    CUDA("cuMemsetD8Async", c_uint64(mine.pointer), ctypes.c_ubyte(7), c_size_t(48), c_void_p(queue.native))
    del mine, given
    gc.collect()
    again = xd.empty((3, 4), "f4", queue=first)
    CUDA("cuMemsetD8Async", c_uint64(again.pointer), ctypes.c_ubyte(1), c_size_t(48), c_void_p(first.native))
    assert read(again).tobytes() == b"\1" * 48
    queue.wait()
    del again
    CUDA.slow_down(0)
    assert alive()["allocations"] == before


def test_an_owner_that_dies_under_work_on_the_queue_that_its_array_was_given() -> None:
    """Another library's memory is kept until then."""
    released: list[bool] = []

    class Owner:
        def __del__(self) -> None:
            released.append(event.done)

    memory = Memory(np.zeros((3, 4), "f4"))
    queue = xd.Queue.new("cuda:0")
    given = xd.from_cuda_array_interface(interface_of(memory), Owner()).collocate(queue)
    CUDA.slow_down(0.03)
    memory.fill(7, queue.native)
    event = queue.record()
    del given
    gc.collect()
    queue.wait()
    alive()
    assert released == [True]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", DEVICES)
def test_a_stream_that_is_destroyed_before_its_array(way: str, kind: str) -> None:
    kept = Kept(kind)
    CUDA("cuStreamSynchronize", c_void_p(kept.stream))
    CUDA("cuStreamDestroy_v2", c_void_p(kept.stream))
    found: Any = None
    try:
        found = WAYS[way](kept.tensor)
    except (xd.Error, BufferError, AssertionError) as error:
        found = str(error)
    match found:
        case str() if way == "cuda array":  # the handle goes on as it came, and the consumer finds that it is none
            assert "cuMemcpyAsync gave 400" in found
        case str():
            assert "CUDA_ERROR_INVALID_HANDLE" in found
        case _:  # a new stream has the handle
            np.testing.assert_array_equal(found, FILLED)
    np.testing.assert_array_equal(read(kept.tensor.unsynchronized()), FILLED)


@two_devices
def test_an_event_of_another_device_is_waited_for() -> None:
    kept = Kept()
    CUDA("cuStreamSynchronize", c_void_p(kept.stream))
    CUDA.slow_down(0.03)
    there = xd.Queue.new("cuda:1")
    far = xd.asarray(np.zeros(12, "f4")).to("cuda:1", queue=there)
    event = far.copy(queue=there).event
    after = kept.tensor.after(event)
    assert event.done
    np.testing.assert_array_equal(read(after), FILLED)


def exports(kind: str, queue: xd.Queue | None = None) -> dict[str, Callable[[xd.Tensor], Any]]:
    """Every way out, without calls of CUDA by the consumer. Makes a new queue each time, unless one is given."""

    def on_a_queue(take: Callable[[xd.Tensor, xd.Queue], xd.Tensor]) -> Callable[[xd.Tensor], Any]:
        return lambda t: take(t, queue or xd.Queue.new("cuda:0"))

    return {
        **{way: on_a_queue(take) for way, take in LATER.items()},
        **(HOST_WAYS if kind != "device" else {}),
        "wait": xd.Tensor.wait,
        "dlpack": lambda t: t.__dlpack__(stream=1, max_version=(1, 0)),
        "arrow": lambda t: t.__arrow_c_device_array__(),
        "arrow on the host": lambda t: t.to_arrow().__arrow_c_array__(),
        "read": read,
    }


def failure_of(take: Callable[[xd.Tensor], Any], tensor: xd.Tensor) -> str:
    """The text of the error; empty if there was none."""
    try:
        take(tensor)
    except (xd.Error, BufferError, MemoryError) as error:
        return str(error)
    return ""


# Of CUDA's functions, those whose failure an export can meet.
FAILING = (
    "cuEventCreate",
    "cuEventRecord",
    "cuStreamWaitEvent",
    "cuEventSynchronize",
    "cuEventQuery",
    "cuStreamCreate",
    "cuMemAlloc_v2",
    "cuMemAllocFromPoolAsync",
    "cuMemcpyAsync",
    "cuMemHostAlloc",
    "cuPointerGetAttributes",
    "cuCtxPushCurrent_v2",
)


@pytest.mark.parametrize("kind", DEVICES)
def test_each_call_fails_in_turn(kind: str) -> None:
    """Either a way out works, or an error is raised. Afterwards nothing is lost, and the way works again."""
    kept = Kept(kind)
    CUDA.slow_down(0)
    met = 0
    for way, take in exports(kind).items():
        take(kept.tensor)
        before = alive()
        for function in FAILING:
            for nth in range(1, 20):
                kept.array.memory.fill(7, kept.stream)
                first = CUDA.calls(function) + nth
                CUDA.library.crossdockCudaFakeFail(function.encode(), c_int(nth), c_int(2))
                failure = failure_of(take, kept.tensor)
                assert "CUDA_ERROR_OUT_OF_MEMORY" in failure or not failure, f"{way}: {function} {nth}: {failure}"
                met += failure != ""
                reached = CUDA.calls(function) >= first
                CUDA.library.crossdockCudaFakeFail(function.encode(), c_int(0), c_int(0))
                if not reached:
                    break
        take(kept.tensor)
        assert alive() == before, way
    assert met > 20
    np.testing.assert_array_equal(read(kept.tensor), FILLED)


def alive() -> dict[str, int]:
    """What is alive once the work is over, and what it needed is freed: then two looks find the same."""
    before: dict[str, int] = {}
    while True:
        CUDA("cuCtxSynchronize")
        wait_for_frees()
        live = CUDA.live()
        now = {name: getattr(live, name) for name in ("allocations", "streams", "contexts")}
        if now == before:
            return now
        before = now


def test_two_threads_export_what_a_third_works_on() -> None:
    kept = Kept()
    CUDA.slow_down(0)

    def work(over: threading.Event) -> int:
        done = 0
        here = np.empty(12, "f4")
        while not over.is_set():
            arguments = (c_void_p(here.ctypes.data), c_uint64(kept.tensor.pointer), c_size_t(48))
            CUDA.on(0, "cuMemcpyAsync", *arguments, c_void_p(kept.stream))
            done += 1
        CUDA.on(0, "cuStreamSynchronize", c_void_p(kept.stream))
        return done

    def export() -> Array:
        CUDA("cuCtxPushCurrent_v2", CUDA.contexts[0])
        return np.stack([WAYS[way](kept.tensor) for way in ("to cpu", "dlpack", "copy", "arrow") for _ in range(20)])

    for values in two_while_a_third(work, export):
        np.testing.assert_array_equal(values, np.broadcast_to(FILLED, (80, 3, 4)))


@pytest.mark.parametrize("kind", DEVICES)
def test_a_fork_while_work_is_pending(kind: str) -> None:
    """The child is told that it has no CUDA, and nothing there waits or is freed. The parent goes on."""
    kept = Kept(kind)
    queue = xd.Queue.new("cuda:0")
    ways = exports(kind, queue)

    def use() -> None:
        for way, take in ways.items():
            assert "fork" in failure_of(take, kept.tensor), way
        del kept.tensor
        gc.collect()

    assert status_in_a_child(use) == 0
    np.testing.assert_array_equal(read(kept.tensor), FILLED)


ENDS = {
    "an array that is kept": "kept = made",
    "a copy under way": "kept = made.copy(queue=xd.Queue.new('cuda:0'))",
    "a batch": "kept = xd.RecordBatch(pa.record_batch({'x': [1, 2]})).to('cuda:0', queue=queue)",
    "an export": "kept = made.__dlpack__(stream=1, max_version=(1, 0))",
    "pinned memory": "kept = made.to('cuda_host:0', queue=xd.Queue.new('cuda:0'))",
    "a cycle": "kept = [made]; kept.append(kept); del kept",
}


@pytest.mark.parametrize("end", ENDS)
def test_the_interpreter_ends_while_work_is_pending(end: str) -> None:
    code = f"""
        import numpy as np
        import pyarrow as pa
        import crossdock as xd

        queue = xd.Queue.new("cuda:0")
        made = xd.asarray(np.arange(12.0)).to("cuda:0", queue=queue)
        {ENDS[end]}
        print("ends", flush=True)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "CROSSDOCK_CUDA_FAKE_DELAY_US": "50000"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")


# The first use of a device opens it. What is called then, and from where.
SLOW: dict[str, tuple[str, str]] = {
    "dlpack": ("cuDevicePrimaryCtxRetain", "xd.from_dlpack(theirs)"),
    "the exchange API": ("cuDevicePrimaryCtxRetain", "xd.asarray(Exchanging(array))"),
    "a current stream": ("cuDevicePrimaryCtxRetain", "current_stream(2, 0, ctypes.addressof(ctypes.c_void_p()))"),
    "the kind of memory": ("cuPointerGetAttributes", "xd.asarray(array).to('cuda:0'), xd.from_dlpack(Pinned(array))"),
    "attributes": ("cuPointerGetAttributes", "xd.from_dlpack(theirs).pointer_attributes"),
}


@pytest.mark.parametrize("use", SLOW)
def test_slow_calls_are_made_without_the_gil(use: str) -> None:
    function, code = SLOW[use]
    program = f"""
        import ctypes
        import numpy as np
        import crossdock as xd
        from tests.cuda_fake_cases.cuda_array import CUDA
        from tests.cuda_fake_cases.dlpack import API, Exchanging, Managed, Memory, Table, TorchLike

        class Pinned(TorchLike):
            def managed(self):
                address = super().managed()
                Managed.from_address(address).tensor.device_type = 3
                return address

            def __dlpack_device__(self):
                return (3, 0)

        array = np.arange(12, dtype="f4").reshape(3, 4)
        theirs = TorchLike(array)
        pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_in.restype, pointer_in.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        table = Table.from_address(pointer_in(xd.Tensor.__dlpack_c_exchange_api__, API))
        prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)
        current_stream = prototype(table.current_stream)
        xd.offload.devices()
        CUDA.watch_gil()
        before = CUDA.calls("{function}")
        {code}
        assert CUDA.calls("{function}") > before
        assert CUDA.calls_with_gil("{function}") == 0, CUDA.calls_with_gil("{function}")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
