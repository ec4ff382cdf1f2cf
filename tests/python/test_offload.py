"""crossdock.offload: queues by name, current queues under threads and tasks, placement, collocation."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import gc
import inspect
import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import crossdock as xd
from crossdock import offload, testing


@pytest.fixture(autouse=True)
def _forget():
    yield
    offload.set_global_queue(None)


pytestmark = pytest.mark.simulated_devices(3)

NO_FILTER = [
    "", ",", ":", "GPU", " gpu", "gpu ", "gpu: 1", "sim:GPU:0", "gpu:-1", "gpu:1:2", "0:gpu", "gpu,", "fpga", "sim:sim",
    "rocm:gpu:0", "gpu,fpga", "sim:fpga",
]  # fmt: skip


def test_the_same_selector_is_the_same_queue(simulated_devices):
    queue = xd.Queue("gpu:1")
    assert queue == xd.Queue("sim:gpu:1") == xd.Queue("sim:1") == xd.Queue(xd.Device("sim:1")) == xd.Queue(queue)
    assert hash(queue) == hash(xd.Queue("sim:1"))
    assert queue != xd.Queue("sim:2")
    assert xd.Queue("ext_dev:1") == queue
    assert str(xd.Queue("sim:7,sim:2").device) == "ext_dev:2"
    assert str(xd.Queue("host").device) == "cpu"
    assert queue != xd.Queue.new("sim:1")
    assert xd.Queue("sim:1", name="copies") == xd.Queue("gpu:1", name="copies") != queue


@pytest.mark.parametrize("text", NO_FILTER)
def test_what_is_no_filter_string_is_refused(simulated_devices, text):
    with pytest.raises(ValueError, match="is not a filter string") as caught:
        xd.Queue(text)
    assert "opencl:cpu:0" in str(caught.value)


def test_a_backend_that_nobody_knows_is_refused_with_those_that_are(simulated_devices):
    with pytest.raises(ValueError, match=r'"rocm" is not a backend \(the backends are host, .*sim, .*opencl.*hip\)'):
        xd.Queue("rocm:gpu:0")


def test_every_device_listed_is_the_one_that_its_filter_string_chooses(simulated_devices):
    for one in offload.devices():
        assert xd.Queue(one.filter).device == one.device


def test_a_device_that_isnt_there_is_named_with_those_that_are(simulated_devices):
    with pytest.raises(xd.NotFoundError, match=r'"sim:3".*sim:gpu:0.*sim:gpu:2.*host:cpu:0'):
        xd.Queue("sim:3")
    with pytest.raises(xd.NotFoundError):
        xd.Queue("accelerator:9")


@pytest.mark.parametrize("wrong", [None, 3, b"gpu", object(), ("a", "b"), 1.5])
def test_what_names_no_queue_is_refused(simulated_devices, wrong):
    with pytest.raises((ValueError, TypeError)):
        xd.Queue(wrong)
    with pytest.raises((ValueError, TypeError)):
        offload.current(wrong)


def test_a_queue_whose_device_vanished_says_so():
    with xd.testing.simulated_devices(2):
        queue = xd.Queue("sim:1")
        with offload.current(queue):
            assert xd.empty(3).queue == queue
    with pytest.raises(xd.NotFoundError, match="ext_dev:1"):
        xd.empty(3, queue=queue)


def test_the_default_is_the_first_gpu(simulated_devices):
    assert offload.current_queue().device.type in ("cuda", "oneapi", "ext_dev")
    offload.set_global_queue("sim:2")
    assert offload.current_queue() == xd.Queue("sim:2")
    offload.set_global_queue(None)
    assert offload.current_queue() == xd.Queue("gpu,accelerator,cpu")


def test_scopes_nest_and_end(simulated_devices):
    before = offload.current_queue()
    with offload.current("sim:1") as one:
        assert one == offload.current_queue() == xd.Queue("sim:1")
        with offload.current("sim:2"):
            assert offload.current_queue() == xd.Queue("sim:2")
        assert offload.current_queue() is one
        with pytest.raises(KeyError), offload.current("sim:2"):
            raise KeyError
        assert offload.current_queue() is one
    assert offload.current_queue() == before


def test_one_scope_may_be_entered_again(simulated_devices):
    scope = offload.current("sim:1")
    assert scope.queue == xd.Queue("sim:1")
    with scope, offload.current("sim:2"), scope:
        assert offload.current_queue() == xd.Queue("sim:1")
    assert offload.current_queue() == xd.Queue("gpu,accelerator,cpu")


def test_a_scope_out_of_order_is_an_error(simulated_devices):
    first, second, third = (offload.current(f"sim:{i}") for i in range(3))
    outside = offload.current_queue()
    with pytest.raises(RuntimeError, match="isn't in"):
        first.__exit__(None, None, None)
    for scope in (first, second, third):
        scope.__enter__()
    # It ends all the same, from among the others: none may stay current for good.
    with pytest.raises(RuntimeError, match="reverse order"):
        first.__exit__(None, None, None)
    assert offload.current_queue() == third.queue
    third.__exit__(None, None, None)
    assert offload.current_queue() == second.queue
    second.__exit__(None, None, None)
    assert offload.current_queue() == outside
    with pytest.raises(RuntimeError, match="isn't in"):
        first.__exit__(None, None, None)
    # Nor may what the others remember of their entries lead back to it.
    for _ in range(20):
        first.__enter__()
        second.__enter__()
        with pytest.raises(RuntimeError, match="reverse order"):
            first.__exit__(None, None, None)
        with second:
            assert offload.current_queue() == second.queue
        assert offload.current_queue() == second.queue
        second.__exit__(None, None, None)
        assert offload.current_queue() == outside
    # A scope that was dropped while it was entered isn't the next one that comes to its address.
    context = contextvars.copy_context()
    context.run(lambda: offload.current("sim:2").__enter__())
    for _ in range(5):
        with pytest.raises(RuntimeError, match="isn't in"):
            context.run(lambda: offload.current("sim:1").__exit__(None, None, None))


def test_a_generator_that_is_closed_in_another_scope_leaves_none_behind(simulated_devices):
    def within():
        with offload.current("sim:1"):
            yield

    outside = offload.current_queue()
    generator = within()
    next(generator)
    with offload.current("sim:2"):
        with pytest.raises(RuntimeError, match="reverse order"):
            generator.close()
        assert offload.current_queue() == xd.Queue("sim:2")
    assert offload.current_queue() == outside


def test_scopes_that_are_never_left_end_with_their_context(simulated_devices):
    scope = offload.current("sim:1")
    queue = scope.queue

    def enter_many(entered):
        for _ in range(200_000):
            entered.__enter__()
        return sys.getrefcount(queue)

    context = contextvars.copy_context()
    before = sys.getrefcount(queue)
    assert context.run(enter_many, scope) > before + 199_000
    del context, scope  # one entry after another, and not by recursion
    gc.collect()
    assert sys.getrefcount(queue) <= before
    assert offload.current_queue() == xd.Queue("gpu,accelerator,cpu")


def test_what_is_put_into_the_variable_of_a_package_is_no_scope(simulated_devices):
    package = offload.Package("somebody's")

    def forge():
        with package.current("sim:1"):
            variable = next(one for one in contextvars.copy_context() if one.name == "somebody's")
            variable.set((1, 2, 3))
            default = package.current_queue()
            with pytest.raises(RuntimeError, match="isn't in"):
                package.current("sim:2").__exit__(None, None, None)
            variable.set(None)
            return default

    with pytest.raises(RuntimeError, match="isn't in"):
        contextvars.copy_context().run(forge)
    assert package.current_queue() == package.default_queue


def test_as_a_decorator(simulated_devices):
    @offload.current("sim:1")
    def where(extra):
        """Says where."""
        return offload.current_queue(), extra

    assert where(extra=3) == (xd.Queue("sim:1"), 3)
    assert where.__doc__ == "Says where."

    @offload.current("sim:2")
    async def awaited():
        await asyncio.sleep(0)
        return offload.current_queue()

    assert inspect.iscoroutinefunction(awaited)
    assert asyncio.run(awaited()) == xd.Queue("sim:2")

    class Callable:
        async def __call__(self):
            await asyncio.sleep(0)
            return offload.current_queue()

    assert asyncio.run(offload.current("sim:2")(Callable())()) == xd.Queue("sim:2")
    assert asyncio.run(offload.current("sim:1")(functools.partial(Callable()))()) == xd.Queue("sim:1")

    def values():
        yield 1

    async def later_values():
        yield 1

    managed = contextlib.contextmanager(values), contextlib.asynccontextmanager(later_values)
    for later in (lambda: Callable()(), lambda: values(), lambda: later_values(), *managed):
        with pytest.raises(TypeError, match="would run after the scope"):
            offload.current("sim:1")(later)()
    for none in (Callable, 3, None, classmethod(lambda cls: 1)):
        with pytest.raises(TypeError, match="decorates functions"):
            offload.current("sim:1")(none)
    with pytest.raises(TypeError, match="generator"):
        offload.current("sim:1")(functools.partial(values))
    with pytest.raises(TypeError, match="generator"):

        @offload.current("sim:1")
        def generator():
            yield

    with pytest.raises(TypeError):
        offload.current("sim:1")()


def test_a_decorated_function_gives_nothing_that_runs_later(simulated_devices):
    """Also where it is of a type of its own, as those of compilers are."""
    closed = []

    class Compiled:
        def send(self, value):
            raise StopIteration(offload.current_queue())

        def throw(self, *error):
            raise error[0]

        def close(self):
            closed.append(type(self).__name__)

    class CompiledCoroutine(Compiled):
        def __await__(self):
            return iter(())

    class CompiledGenerator(Compiled):
        def __iter__(self):
            return self

        def __next__(self):
            return self.send(None)

    class CompiledAsyncGenerator:
        def __aiter__(self):
            return self

        async def __anext__(self):
            raise StopAsyncIteration

        asend = athrow = aclose = __anext__

    class Awaitable:
        def __await__(self):
            yield from asyncio.sleep(0).__await__()
            return offload.current_queue()

    class AwaitableManager(Awaitable):
        async def __aenter__(self):
            return self

        async def __aexit__(self, *error):
            pass

    for kind in (CompiledCoroutine, CompiledGenerator, CompiledAsyncGenerator, Awaitable, AwaitableManager):
        with pytest.raises(TypeError, match=f"gave a {kind.__name__}, which would run after the scope"):
            offload.current("sim:1")(lambda kind=kind: kind())()
    assert closed == ["CompiledCoroutine", "CompiledGenerator"]


def test_a_decorated_function_may_give_what_runs_already(simulated_devices):
    async def where():
        await asyncio.sleep(0)
        return offload.current_queue()

    @offload.current("sim:1")
    def task():
        return asyncio.create_task(where())

    @offload.current("sim:1")
    def future():
        return asyncio.get_running_loop().run_in_executor(None, offload.current_queue)

    async def main():
        return await task(), await future(), offload.current_queue()

    queue, in_thread, default = asyncio.run(main())
    assert queue == xd.Queue("sim:1")
    assert in_thread == default != queue


def test_threads_begin_with_the_default(simulated_devices):
    offload.set_global_queue("sim:2")
    seen = []
    with offload.current("sim:1"):
        thread = threading.Thread(target=lambda: seen.append(offload.current_queue()))
        thread.start()
        thread.join()
        context = contextvars.copy_context()
        thread = threading.Thread(target=lambda: seen.append(context.run(offload.current_queue)))
        thread.start()
        thread.join()
    assert seen == [xd.Queue("sim:2"), xd.Queue("sim:1")]


def test_tasks_inherit_and_never_leak(simulated_devices):
    async def child():
        inherited = offload.current_queue()
        with offload.current("sim:2"):
            await asyncio.sleep(0)
            assert offload.current_queue() == xd.Queue("sim:2")
        return inherited

    async def leaves_it_entered():
        offload.current("sim:2").__enter__()

    async def main():
        with offload.current("sim:1") as mine:
            assert await asyncio.gather(*(asyncio.create_task(child()) for _ in range(5))) == [mine] * 5
            await asyncio.create_task(leaves_it_entered())
            assert offload.current_queue() == mine
            inside = asyncio.create_task(child())
        return await inside, mine

    first, second = asyncio.run(main())
    assert first == second  # a task keeps what was current when it was made
    assert offload.current_queue() == xd.Queue("gpu,accelerator,cpu")


def test_eight_threads_of_eight_tasks_see_their_own(simulated_devices):
    switches = 1500  # of each task: nearly 10^5 in all
    wrong = []

    def thread(number):
        async def task(index):
            mine = xd.Queue("sim:0", name=f"{number} {index}")
            other = xd.Queue(f"sim:{index % 3}")
            for turn in range(switches):
                with offload.current(mine):
                    if turn % 16 == 0:
                        await asyncio.sleep(0)
                    if offload.current_queue() != mine:
                        wrong.append((number, index))
                    with offload.current(other):
                        if offload.current_queue() != other:
                            wrong.append((number, index))

        async def main():
            await asyncio.gather(*(task(index) for index in range(8)))

        asyncio.run(main())

    threads = [threading.Thread(target=thread, args=(number,)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


def test_packages_dont_see_each_other(simulated_devices):
    first, second = offload.Package("first"), offload.Package("second")
    assert first.name == "first"
    assert repr(first) == "<crossdock.offload.Package 'first'>"
    first.set_default_queue("sim:1")
    with second.current("sim:2"), offload.current("sim:0"):
        assert first.current_queue() == first.default_queue == xd.Queue("sim:1")
        assert second.current_queue() == xd.Queue("sim:2")
        assert offload.current_queue() == xd.Queue("sim:0")
        assert second.default_queue == xd.Queue("gpu,accelerator,cpu")
    assert second.current_queue() == second.default_queue


def test_new_arrays_go_to_the_current_queue(simulated_devices):
    assert str(xd.empty(3).device) == "cpu"  # nobody chose anything
    with offload.current("sim:1") as queue:
        made = xd.empty(3, "f4")
        assert made.queue == queue
        assert made.usm_type == "device"
        assert str(xd.empty(3, device="cpu").device) == "cpu"
        assert str(xd.empty(3, device="sim:2").device) == "ext_dev:2"
        assert xd.empty(3, queue="sim:0").queue == xd.Queue("sim:0")
        assert str(xd.asarray(np.arange(3)).device) == "cpu"  # stays where it is
        copy = xd.asarray(np.arange(3)).copy_to()
        assert copy.queue == queue
    offload.set_global_queue("sim:2")
    assert xd.empty(3).queue == xd.Queue("sim:2")
    with xd.offload.Package("other").current("sim:0"):
        assert xd.empty(3).queue == xd.Queue("sim:2")


@pytest.mark.parametrize("usm_type", ["device", "shared", "host"])
def test_kinds_of_memory(simulated_devices, usm_type):
    made = xd.empty((2, 3), "i2", queue="sim:1", usm_type=usm_type)
    assert made.usm_type == usm_type
    values = np.arange(6, dtype="i2").reshape(2, 3)
    there = xd.asarray(values, queue="sim:1", usm_type=usm_type)
    assert there.usm_type == usm_type
    np.testing.assert_array_equal(np.asarray(there.to("cpu")), values)
    for other in ("device", "shared", "host"):
        moved = xd.asarray(there, usm_type=other)
        assert moved.usm_type == other
        assert (moved.pointer == there.pointer) == (other == usm_type)
        np.testing.assert_array_equal(np.asarray(moved.to("cpu")), values)
    with pytest.raises(BufferError):
        xd.asarray(there, usm_type="device" if usm_type != "device" else "shared", copy=False)


def test_kinds_that_there_arent(simulated_devices):
    with pytest.raises(ValueError, match="'managed'"):
        xd.empty(3, queue="sim:0", usm_type="managed")
    with pytest.raises(TypeError):
        xd.empty(3, queue="sim:0", usm_type=1)
    for of_the_host in (
        lambda: xd.empty(3, usm_type="device"),
        lambda: xd.empty(3, device="cpu", usm_type="host"),
        lambda: xd.asarray(np.arange(3), usm_type="shared"),
    ):
        with pytest.raises(xd.InvalidArgumentError, match="give a queue or a device"):
            of_the_host()
    assert xd.asarray(np.arange(3)).usm_type is None


def test_asarray_and_to_associate_with_the_queue_that_is_named(simulated_devices):
    mine, other = xd.Queue("sim:1"), xd.Queue("sim:1", name="other")
    array = xd.empty(3, queue=mine)
    for associated in (xd.asarray(array, queue=other), array.to("sim:1", queue=other), array.collocate(other)):
        assert associated.queue == other
        assert associated.pointer == array.pointer
        assert offload.placement(associated, xd.empty(3, queue=other)) == other
    assert xd.asarray(array, queue=mine, copy=False).queue == mine
    with pytest.raises(xd.InvalidArgumentError, match="queue is one of"):
        array.to("sim:1", queue="sim:2")
    assert xd.asarray(array, queue="sim:2").queue == xd.Queue("sim:2")
    with pytest.raises(BufferError):
        xd.asarray(array, queue="sim:2", copy=False)


@pytest.mark.parametrize("shape", [0, (2, 0, 3)])
def test_arrays_without_elements_are_on_their_queue(simulated_devices, shape):
    queue, other = xd.Queue("sim:1", name="other"), xd.Queue("sim:2")
    nothing = xd.empty(shape, queue=queue)
    assert nothing.queue == queue
    assert offload.placement(xd.empty(3, queue=queue), nothing) == queue
    assert nothing.copy_to(other).queue == other
    assert nothing.collocate(other).queue == other
    assert nothing.to("cpu").queue is None


def test_host_arrays_are_ignored_wherever_they_came_from(simulated_devices):
    there = xd.empty(3, queue="sim:1")
    here = there.to("cpu", queue="sim:1")
    assert offload.placement(here, xd.empty(3, queue="sim:2")) == xd.Queue("sim:2")
    (back,) = offload.collocate(there, to="host")
    assert back.device == "cpu"
    np.asarray(back)
    (kept,) = offload.collocate(np.arange(3.0), to="host")
    assert kept.queue is None
    np.testing.assert_array_equal(np.asarray(kept), np.arange(3.0))
    assert offload.placement(kept, there) == xd.Queue("sim:1")


def test_what_names_a_queue_names_where_to_collocate(simulated_devices):
    array, other = xd.empty(3, queue="sim:1"), xd.empty(3, queue="sim:2")
    for to in ("sim:2", xd.Queue("sim:2"), xd.Device("ext_dev:2"), (12, 2), other):
        assert array.collocate(to).queue == other.queue
        assert offload.collocate(array, to=to)[0].queue == other.queue
    for wrong in (3, object()):
        with pytest.raises(xd.UnsupportedTypeError, match="neither an array nor a queue"):
            array.collocate(wrong)
    for nowhere in (array.collocate, lambda to: offload.collocate(array, to=to)):
        with pytest.raises(xd.InvalidArgumentError, match="on no queue"):
            nowhere(np.arange(3))
    for among in (lambda: offload.placement("sim:1", array), lambda: offload.placement(array, xd.Queue("sim:1"))):
        with pytest.raises(xd.InvalidArgumentError, match="pass the queue as queue="):
            among()


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("to", ["cpu", "sim:1"])
@pytest.mark.parametrize("of", ["cpu", "sim:1", "sim:2"])
def test_copy_from_puts_elements_into_memory_that_is_there(simulated_devices, of, to):
    values = np.arange(24.0).reshape(4, 6)
    target = xd.asarray(np.zeros((4, 6))).to(to)
    if to == "cpu":
        target = xd.asarray(np.zeros((4, 6)))
    source = xd.asarray(values).to(of)
    before = simulated_devices.counters()
    filled = target.copy_from(source)
    assert filled.pointer == target.pointer
    assert simulated_devices.counters()["allocate"] == before["allocate"]
    np.testing.assert_array_equal(np.asarray(filled.to("cpu")), values)
    again = filled[:2].copy_from(source[1::2])
    np.testing.assert_array_equal(np.asarray(again.to("cpu")), values[1::2])
    np.testing.assert_array_equal(np.asarray(filled.to("cpu"))[2:], values[2:])


def test_copy_from_comes_after_what_is_pending_and_before_what_comes(simulated_devices):
    queue = xd.Queue("sim:1", name="copies")
    target, source = xd.empty(1000, queue="sim:1"), xd.asarray(np.ones(1000)).copy_to("sim:1")
    for factor in range(1, 20):
        source = source.copy_from(np.full(1000, float(factor)), queue="sim:1")
        target = target.copy_from(source, queue=queue)
        assert target.queue == queue
    np.testing.assert_array_equal(np.asarray(target.to("cpu")), 19.0)
    assert not simulated_devices.take_faults()


@pytest.mark.parametrize("make", [
    lambda values: xd.asarray(values).to("sim:0"),
    lambda values: xd.asarray(values).to("sim:0", queue=xd.Queue("sim:0", name="made")),
    lambda values: xd.empty(values.shape, queue="sim:0").copy_from(values),
])  # fmt: skip
@pytest.mark.parametrize("read", [
    lambda array: array.to("sim:1"),
    lambda array: array.copy(queue=xd.Queue("sim:0", name="read")),
    lambda array: xd.empty(array.shape, queue="sim:0").copy_from(array, queue=xd.Queue("sim:0", name="into")),
])  # fmt: skip
@pytest.mark.parametrize("write", [None, "sim:0", "another"])
def test_copy_from_comes_after_copies_that_still_read(simulated_devices, make, read, write):
    simulated_devices.delay = 0.01
    before, after = np.arange(1000.0), np.zeros(1000)
    array = make(before)
    copy = read(array)
    array = array.copy_from(after, queue=xd.Queue("sim:0", name=write) if write == "another" else write)
    assert not simulated_devices.take_faults()
    np.testing.assert_array_equal(np.asarray(copy.to("cpu")), before)
    np.testing.assert_array_equal(np.asarray(array.to("cpu")), after)


@pytest.mark.parametrize("place", ["cpu", "sim:1"])
@pytest.mark.parametrize("count", [4, 5, 4000])
def test_copy_from_memory_that_is_shared_is_refused(simulated_devices, place, count):
    values = np.arange(float(count))
    array = xd.asarray(values.copy(), place) if place != "cpu" else xd.asarray(values.copy())
    for source in (array[::-1], array):
        with pytest.raises(xd.InvalidArgumentError, match="source and target of a copy overlap"):
            array.copy_from(source)
    np.testing.assert_array_equal(np.asarray(array.to("cpu")), values)


def test_copy_from_into_the_host_is_done_and_is_the_hosts(simulated_devices):
    target = np.zeros(4)
    there = xd.asarray(np.arange(4.0)).copy_to("sim:1")
    here = xd.asarray(target).copy_from(there)
    assert here.queue is None
    assert here.event is None
    np.testing.assert_array_equal(target, np.arange(4.0))
    under_way = xd.asarray(target).copy_from(there, queue="sim:1")
    assert under_way.queue == xd.Queue("sim:1")
    under_way.wait()  # `here` knows nothing of it
    read, other = offload.collocate(here, xd.empty(4, queue="sim:2"))
    assert read.queue == other.queue == xd.Queue("sim:2")
    read.wait()  # nor of who reads it
    assert offload.collocate(here)[0].device == "cpu"
    nothing = xd.empty(0, queue="sim:1").copy_from(np.empty(0), queue=xd.Queue("sim:1", name="other"))
    assert nothing.queue == xd.Queue("sim:1", name="other")
    assert here.copy_from(there, queue="host").queue is None


@pytest.mark.simulated_devices(3, delay=1.0)
def test_an_interrupted_copy_from_gives_the_hosts_memory_back_when_it_is_done(simulated_devices):
    there = xd.asarray(np.ones(4)).copy_to("sim:1")
    target = np.zeros(4)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        xd.asarray(target).copy_from(there)
    timer.join()
    np.testing.assert_array_equal(target, 1.0)


def test_copy_from_refuses(simulated_devices):
    target = xd.empty((2, 3), queue="sim:1")
    for wrong, error in (
        (np.zeros((3, 2)), xd.InvalidArgumentError),
        (np.zeros((2, 3), "f4"), xd.InvalidArgumentError),
        (3, xd.UnsupportedTypeError),
    ):
        with pytest.raises(error):
            target.copy_from(wrong)
    with pytest.raises(xd.UnsupportedError, match="C order"):
        target.T.copy_from(np.zeros((3, 2)))
    with pytest.raises(xd.InvalidArgumentError, match="queue of"):
        target.copy_from(np.zeros((2, 3)), queue="sim:2")
    with pytest.raises(xd.InvalidArgumentError, match="read-only"):
        xd.asarray(b"abc").copy_from(np.zeros(3, "u1"))
    memory = xd.asarray(np.arange(8))
    with pytest.raises(xd.InvalidArgumentError, match="source and target of a copy overlap"):
        memory[:4].copy_from(memory[2:6])
    for call in (lambda: target.copy_from(), lambda: target.copy_from(target, target)):
        with pytest.raises(TypeError):
            call()
    assert xd.empty(0, queue="sim:1").copy_from(np.empty(0)).shape == (0,)


def test_going_to_and_fro_keeps_each_queue_once(simulated_devices):
    one, two = xd.Queue("sim:1"), xd.Queue("sim:1", name="two")
    array = xd.empty(3, queue=one)

    def go(times: int) -> None:
        nonlocal array
        for _ in range(times):
            for _ in range(100):
                array = array.collocate(two).collocate(one)
            one.wait()  # Work that waits for its turn takes memory too.
            two.wait()

    go(10)
    before = resident_bytes()
    go(200)
    assert resident_bytes() - before < 1 << 20


def test_devices_and_what_queues_say_of_themselves(simulated_devices):
    found = {one.filter: one for one in offload.devices()}
    assert found["sim:gpu:1"].device == "sim:1"
    assert (found["sim:gpu:1"].driver, found["sim:gpu:1"].device_type) == ("sim", "gpu")
    assert "shared" in found["sim:gpu:1"].usm_types
    assert offload.devices()[-1].driver == "host"
    named = xd.Queue("sim:1", name="copies")
    assert (named.filter, named.name, named.in_order) == ("sim:gpu:1", "copies", True)
    assert xd.Queue(named.filter) == xd.Queue("sim:1")
    assert xd.Queue("sim:1").name is None
    for part in ("ext_dev:1", "sim:gpu:1", "copies", hex(named.native)):
        assert part in repr(named)
    assert r"'\x1b[31m\n'" in repr(xd.Queue("sim:1", name="\x1b[31m\n"))
    assert "sim:gpu:1" in repr(offload.current("sim:1"))
    assert "ext_dev:1" in repr(named.record())
    assert "shared" in repr(xd.empty(3, queue="sim:1", usm_type="shared"))


def test_filter_strings_name_devices_everywhere(simulated_devices):
    host = xd.asarray(np.arange(3.0))
    assert host.to("sim:gpu:1").device == "sim:1"
    assert host.to("cpu") is host
    assert xd.from_dlpack(host, device="sim:gpu:2").device == "sim:2"
    pa = pytest.importorskip("pyarrow")
    batch = xd.RecordBatch(pa.record_batch({"a": [1, 2]}))
    assert batch.to("sim:gpu:1").device == "sim:1"
    with pytest.raises(xd.InvalidArgumentError, match=r"copy_to\(\)"):
        host.to(xd.Queue("sim:1"))


def test_texts_that_are_none(simulated_devices):
    for wrong in (
        lambda: xd.Queue("\ud800"),
        lambda: xd.empty(3, queue="\ud800"),
        lambda: xd.empty(3, device="\ud800"),
        lambda: xd.empty(3, "\ud800"),
        lambda: xd.Device("\ud800"),
        lambda: offload.Package("\ud800"),
    ):
        with pytest.raises(UnicodeEncodeError):
            wrong()
    for empty in ("", None):
        with pytest.raises(TypeError):
            offload.Package(empty)
    with pytest.raises(xd.InvalidArgumentError, match="handle"):
        xd.Queue("sim:1", native=-1)


def test_a_class_that_forgets_its_base(simulated_devices):
    class Forgets(offload.Offloaded):
        def __init__(self):
            pass

    with pytest.raises(RuntimeError, match=r"super\(\).__init__"):
        Forgets().empty(3)
    assert "sim:gpu:2" in repr(offload.Offloaded("sim:2"))


def test_compute_follows_data(simulated_devices):
    one, two = xd.empty(3, queue="sim:1"), xd.empty(3, queue="sim:2")
    host = np.arange(3.0)
    assert offload.placement(one, one, host) == xd.Queue("sim:1")
    with offload.current("sim:2"):
        assert offload.placement(one) == xd.Queue("sim:1")
        assert offload.placement(host, host) == xd.Queue("sim:2")
        assert offload.placement() == xd.Queue("sim:2")
    with pytest.raises(
        xd.ExecutionPlacementError, match=r"array 1 .*ext_dev:1.* array 2 .*ext_dev:2.*collocate"
    ) as caught:
        offload.placement(host, one, two)
    assert isinstance(caught.value, ValueError)
    mine = xd.Queue.new("sim:1")
    assert offload.placement(one, host, queue=mine) == mine
    with pytest.raises(xd.ExecutionPlacementError, match="array 1"):
        offload.placement(one, two, queue=mine)
    with pytest.raises(TypeError):
        offload.placement(one, where=mine)
    with pytest.raises(xd.UnsupportedTypeError):
        offload.placement(object())


def test_accessible(simulated_devices):
    one = xd.empty(3, queue="sim:1")
    assert offload.accessible(one, xd.Queue.new("sim:1"))
    assert not offload.accessible(one, "sim:2")
    assert not offload.accessible(one, "host")
    assert offload.accessible(xd.empty(3, queue="sim:1", usm_type="shared"), "host")
    assert not offload.accessible(np.arange(3), "sim:1")


def test_collocating_copies_only_where_it_must(simulated_devices):
    simulated_devices.delay = 0.005
    values = np.arange(12.0).reshape(3, 4)
    one = xd.asarray(values).copy_to("sim:1")
    near, far = xd.Queue.new("sim:1"), xd.Queue("sim:2")
    same = one.collocate(near)
    assert same.queue == near
    assert same.pointer == one.pointer
    np.testing.assert_array_equal(np.asarray(same.to("cpu", queue=near)), values)
    moved = one.collocate(far)
    assert moved.queue == far
    assert moved.pointer != one.pointer
    np.testing.assert_array_equal(np.asarray(moved.to("cpu")), values)
    assert one.collocate(one).pointer == one.pointer
    a, b, c = offload.collocate(np.arange(3.0), one, moved)
    assert a.queue == b.queue == c.queue == one.queue
    assert b.pointer == one.pointer
    (a, b) = offload.collocate(np.arange(3.0), one, to="sim:2")
    assert a.queue == b.queue == far
    (a,) = offload.collocate(np.arange(3.0))
    assert a.queue is None
    (a,) = offload.collocate(np.arange(3.0), to=moved)
    assert a.queue == far
    with pytest.raises(ValueError, match="host"):
        one.collocate(np.arange(3.0))


def test_collocating_orders_the_queue(simulated_devices):
    """The new queue works on the memory at once: without an order the simulated device would find out."""
    simulated_devices.delay = 0.01
    first, second = xd.Queue.new("sim:0"), xd.Queue.new("sim:0")
    values = np.arange(1000.0)
    there = xd.asarray(values).copy_to(first)
    mine = there.collocate(second)
    copy = mine.copy(queue=second)
    np.testing.assert_array_equal(np.asarray(copy.to("cpu", queue=second)), values)


def test_offloaded_keeps_its_queue(simulated_devices):
    class Lapack(offload.Offloaded):
        pass

    lapack = Lapack("sim:1")
    with offload.current("sim:2"):
        assert lapack.queue == lapack.empty(3).queue == xd.Queue("sim:1")
        assert Lapack().queue == xd.Queue("gpu,accelerator,cpu")
        mine = lapack.bring(np.arange(3.0))
    assert mine.queue == lapack.queue
    lapack.check(mine)
    with pytest.raises(xd.ExecutionPlacementError):
        lapack.check(mine, xd.empty(3, queue="sim:2"))
    assert lapack.empty(3, usm_type="shared").usm_type == "shared"


def test_a_cuda_stream_without_cuda_is_refused(simulated_devices):
    class Stream:
        def __cuda_stream__(self):
            return (0, 0)

    class Newer:
        __cuda_stream__ = (7, 0)

    class Broken:
        __cuda_stream__ = 7

    with pytest.raises((xd.UnsupportedError, ValueError)):
        xd.Queue(Stream())
    with pytest.raises(xd.UnsupportedError, match="version 7"):
        xd.Queue(Newer())
    with pytest.raises(xd.InvalidDataError):
        xd.Queue(Broken())


def test_the_error_is_where_the_guide_names_it() -> None:
    assert offload.ExecutionPlacementError is xd.ExecutionPlacementError
    assert "ExecutionPlacementError" in offload.__all__
    assert "ExecutionPlacementError" in dir(offload)


# ---- order, and the arrays of a package ------------------------------------------------------------------------------


@pytest.mark.simulated_devices(2, delay=0.01)
def test_a_packages_scope_reaches_its_arrays(simulated_devices: testing.SimulatedDevices) -> None:
    """As the offloading text has it: `with pkg2.current("gpu:2"): A1c = A1.copy_to()`."""
    package = offload.Package("pkg2")
    with package.current("gpu:0"):
        a1 = package.asarray(xd.empty((3, 4), queue=package.current_queue()))
    with package.current("gpu:1"), offload.current("gpu:0"):
        assert xd.asarray(a1, copy=True).copy_to().device == "ext_dev:1"
        here = [a1.copy_to(), a1[1:].copy_to(), a1.T.copy_to(), a1.copy().copy_to(), a1.unsynchronized().copy_to()]
        assert [copy.device for copy in here] == ["ext_dev:1"] * 5
        assert xd.empty((3, 4), queue="gpu:1").copy_to().device == "ext_dev:0", "one of nobody's"
        assert a1.copy_to("gpu:0").device == "ext_dev:0", "a queue that is named comes first"
    assert [copy.copy_to().device for copy in here] == ["ext_dev:0"] * 5, "outside: the package's default queue"
    del package
    gc.collect()
    assert a1.copy_to().device == "ext_dev:0"
    with pytest.raises(xd.UnsupportedTypeError):
        offload.Package("x").asarray(5)


@pytest.mark.simulated_devices(1, delay=0.01)
def test_the_kind_of_new_arrays(simulated_devices: testing.SimulatedDevices) -> None:
    of = {kind: xd.empty(3, queue="gpu:0", usm_type=kind) for kind in ("device", "shared", "host")}
    assert offload.usm_type(np.zeros(3)) is None
    assert offload.usm_type(of["host"], np.zeros(3)) == "host"
    assert offload.usm_type(of["host"], of["shared"]) == "shared"
    assert offload.usm_type(of["shared"], of["device"], of["host"]) == "device"


@pytest.mark.simulated_devices(1, delay=0.02)
def test_the_queue_of_a_placement_comes_after_the_arrays(simulated_devices: testing.SimulatedDevices) -> None:
    source = np.arange(6.0)
    one, other = xd.Queue.new("gpu:0"), xd.Queue.new("gpu:0")
    array = xd.asarray(source).to("gpu:0", queue=one)
    counted = simulated_devices.counters()
    assert offload.placement(array, array) == one
    assert simulated_devices.counters() == counted, "it is the arrays' own queue"
    assert offload.placement(array, queue=other) == other
    # As a kernel there: nothing orders this copy.
    np.testing.assert_array_equal(np.asarray(array.unsynchronized().to("cpu", queue=other)), source)
    brought = array.to("cpu", queue=one)
    assert offload.placement(brought) == offload.current_queue()
    np.testing.assert_array_equal(np.frombuffer(brought.unsynchronized()), source)
