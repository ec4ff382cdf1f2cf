"""xd.Tensor in the memory of devices, simulated ones: nothing is read by the host, nothing is forgotten on the way."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.device_allocations import live_allocations
from tests.python.test_tensor import allocate, release

import crossdock as xd
from crossdock import testing


@pytest.fixture
def source() -> np.ndarray:
    return np.arange(24.0).reshape(2, 3, 4)


def test_there_and_back(simulated_devices: testing.SimulatedDevices, source: np.ndarray) -> None:
    there = xd.asarray(source).to("sim:0")
    assert there.device == "sim:0"
    assert (there.shape, there.strides, there.dtype) == (source.shape, source.strides, np.float64)
    np.testing.assert_array_equal(np.asarray(there.to("cpu")), source)
    across = there.to("sim:1")
    assert across.device == "sim:1"
    np.testing.assert_array_equal(np.asarray(across.to("cpu")), source)
    assert there.to("sim:0") is there


@pytest.mark.parametrize(
    "key", [np.s_[::-1], np.s_[:, ::2], np.s_[1, :, ::3], np.s_[0, 0, 0], np.s_[2:], np.s_[..., 1:], np.s_[:, 1]]
)
def test_views_of_device_memory(simulated_devices: testing.SimulatedDevices, source: np.ndarray, key: Any) -> None:
    there = xd.asarray(source).to("sim:0")
    np.testing.assert_array_equal(np.asarray(there[key].to("cpu")), source[key])
    np.testing.assert_array_equal(np.asarray(there.T[...].to("sim:1").to("cpu")), source.T)
    np.testing.assert_array_equal(np.asarray(xd.asarray(source[key]).to("sim:0").to("cpu")), source[key])


def test_views_with_large_gaps_are_copied_in_runs(simulated_devices: testing.SimulatedDevices) -> None:
    source = np.arange(4000.0).reshape(40, 100)
    there = xd.asarray(source).to("sim:0")
    before = simulated_devices.counters()
    back = there[::20, :5].to("cpu")
    after = simulated_devices.counters()
    np.testing.assert_array_equal(np.asarray(back), source[::20, :5])
    assert after["copy"] - before["copy"] == 2
    assert after["bytes_copied"] - before["bytes_copied"] == 2 * 5 * 8


@pytest.mark.simulated_devices(1, delay=0.05)
def test_an_event_travels_with_the_array(simulated_devices: testing.SimulatedDevices, source: np.ndarray) -> None:
    queue = xd.Queue.new("sim:0")
    there = xd.asarray(source).to("sim:0", queue=queue)
    assert there.event is not None
    assert not there.event.done
    assert there.queue == queue
    assert there[0].event is not None
    back = there.to("cpu", queue=queue)
    copied = back.event
    assert copied is not None
    assert not copied.done
    np.testing.assert_array_equal(np.asarray(back), source)  # waits: a buffer can carry nothing
    assert copied.done
    back.wait()


@pytest.mark.simulated_devices(1, delay=0.02)
def test_queues_are_ordered_after_each_other(simulated_devices: testing.SimulatedDevices, source: np.ndarray) -> None:
    first, second = xd.Queue.new("sim:0"), xd.Queue.new("sim:0")
    assert first != second
    there = xd.asarray(source).to("sim:0", queue=first)
    again = there.copy(queue=second)
    np.testing.assert_array_equal(np.asarray(again.to("cpu", queue=second)), source)
    # The source's queue comes after the copy: it may be freed on it at once.
    del there
    gc.collect()
    first.wait()
    event = second.record()
    first.wait_for(event)
    event.wait()
    assert event.done
    assert event.device == "sim:0"


def test_the_host_reads_no_device_memory(simulated_devices: testing.SimulatedDevices, source: np.ndarray) -> None:
    there = xd.asarray(source).to("sim:0")
    assert "ext_dev:0" in repr(there)
    there._repr_html_()
    with pytest.raises(BufferError, match=r"\.to\(\"cpu\"\)"):
        memoryview(there)
    for read in (np.asarray, np.array, lambda tensor: tensor.__array__("f4")):
        with pytest.raises(BufferError, match=r"ext_dev:0.*\.to\(\"cpu\"\)"):
            read(there)
    assert not hasattr(there, "__array_interface__")
    assert not hasattr(there, "__cuda_array_interface__")
    attributes = there.pointer_attributes
    assert attributes["device"] == "sim:0"
    assert not attributes["host_accessible"]
    assert attributes["allocation"] == (there.pointer, 192)


# ---- DLPack --------------------------------------------------------------------------------------------------------


class Hop:
    """Hands a tensor on, and keeps what it was asked."""

    def __init__(self, tensor: xd.Tensor) -> None:
        self.tensor = tensor
        self.asked: dict[str, Any] = {}

    def __dlpack__(self, **asked: Any) -> Any:
        self.asked = asked
        return self.tensor.__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


@pytest.mark.simulated_devices(1, delay=0.02)
def test_dlpack_orders_the_consumers_queue(simulated_devices: testing.SimulatedDevices, source: np.ndarray) -> None:
    theirs = xd.Queue.new("sim:0")
    there = xd.asarray(source).to("sim:0", queue=theirs)
    hop = Hop(there)
    taken = xd.asarray(hop)
    assert taken.queue is not None
    assert hop.asked["stream"] == taken.queue.native != theirs.native
    assert taken.pointer == there.pointer
    np.testing.assert_array_equal(np.asarray(taken.to("cpu")), source)


def test_dlpack_to_a_named_stream_and_to_none(simulated_devices: testing.SimulatedDevices, source: np.ndarray) -> None:
    there = xd.asarray(source).to("sim:0", queue=xd.Queue.new("sim:0"))
    mine = xd.Queue.new("sim:0")
    orders = simulated_devices.counters()["order_after"]
    capsule = there.__dlpack__(stream=mine.native)
    assert simulated_devices.counters()["order_after"] == orders + 1
    del capsule
    there.__dlpack__(stream=-1)
    assert simulated_devices.counters()["order_after"] == orders + 1
    assert there.__dlpack_device__() == (12, 0)


@pytest.mark.parametrize("stream", [1, 2, 8, 1 << 40])
def test_streams_that_the_device_hasnt(
    simulated_devices: testing.SimulatedDevices, source: np.ndarray, stream: int
) -> None:
    there = xd.asarray(source).to("sim:0", queue=xd.Queue.new("sim:0"))
    with pytest.raises(ValueError, match="native queue that it didn't make"):
        there.__dlpack__(stream=stream)
    with pytest.raises(ValueError, match="native queue that it didn't make"):
        xd.Queue("sim:0", native=stream)


def test_many_runs_come_to_another_device(simulated_devices: testing.SimulatedDevices) -> None:
    source = np.arange(4096.0).reshape(2048, 2)
    across = xd.asarray(source).to("sim:0")[:, :1].to("sim:1")
    assert across.device == "sim:1"
    np.testing.assert_array_equal(np.asarray(across.to("cpu")), source[:, :1])


def test_dlpack_copies_to_the_host_where_asked(simulated_devices: testing.SimulatedDevices, source: np.ndarray) -> None:
    there = xd.asarray(source).to("sim:0")
    np.testing.assert_array_equal(np.from_dlpack(there, device="cpu"), source)
    with pytest.raises(BufferError, match="copy=False"):
        np.from_dlpack(there, device="cpu", copy=False)
    back = xd.from_dlpack(xd.asarray(source), device="sim:0")
    assert back.device == "sim:0"


def test_options_of_asarray(simulated_devices: testing.SimulatedDevices, source: np.ndarray) -> None:
    queue = xd.Queue.new("sim:1")
    there = xd.asarray(source, queue=queue)
    assert there.device == "sim:1"
    assert there.queue == queue
    with pytest.raises(BufferError, match="copy=False"):
        xd.asarray(there, "cpu", copy=False)
    again = xd.asarray(there, copy=True)
    assert again.device == "sim:1"
    assert again.pointer != there.pointer
    with pytest.raises(ValueError, match="queue of ext_dev:0"):
        xd.asarray(source, "sim:0", queue=queue)
    with pytest.raises(TypeError, match=r"crossdock\.Queue"):
        xd.asarray(source, queue=5)  # type: ignore[arg-type]
    with pytest.raises(LookupError, match="ext_dev:7"):
        xd.asarray(source, "sim:7")


def test_a_queue_is_right_also_where_nothing_is_copied(
    simulated_devices: testing.SimulatedDevices, source: np.ndarray
) -> None:
    there = xd.asarray(source).to("sim:0")
    right, wrong = xd.Queue("sim:0"), xd.Queue("sim:1")
    assert there.to("sim:0") is there
    associated = there.to("sim:0", queue=right)
    assert associated.pointer == there.pointer
    assert associated.queue == right
    assert xd.asarray(there, "sim:0", queue=right).pointer == there.pointer
    batch = xd.RecordBatch(pa.record_batch({"x": [1]})).to("sim:0")
    for use in (
        lambda: there.to("sim:0", queue=wrong),
        lambda: xd.asarray(there, "sim:0", queue=wrong),
        lambda: batch.to("sim:0", queue=wrong),
    ):
        with pytest.raises(ValueError, match="queue is one of ext_dev:1"):
            use()
    with pytest.raises(ValueError, match="queue is one of ext_dev:1"):
        xd.asarray(source).to("cpu", queue=wrong)


def test_a_masked_tensor_on_a_device_as_arrow(simulated_devices: testing.SimulatedDevices) -> None:
    class Masked:
        def __init__(self) -> None:
            self.values, self.valid = np.arange(4.0), np.array([True, False, True, True])
            self.__array_interface__ = {**self.values.__array_interface__, "mask": self.valid}

    there = xd.asarray(Masked()).to("sim:0")
    before = simulated_devices.counters()
    assert pa.DataType._import_from_c_capsule(there.__arrow_c_schema__()) == pa.float64()
    assert simulated_devices.counters() == before, "a type is said without a look at the mask"
    schema, array = there.__arrow_c_array__()
    assert pa.Array._import_from_c_capsule(schema, array).to_pylist() == [0, None, 2, 3]
    with pytest.raises(BufferError, match="mask as Arrow validity"):
        there.__arrow_c_device_array__()


@pytest.mark.simulated_devices(1, delay=0.02)
def test_the_allocator_makes_memory_of_a_device(simulated_devices: testing.SimulatedDevices) -> None:
    answer, made, said = allocate(2, 3, device=12)
    assert (answer, said) == (0, "")
    assert made is not None
    assert (made.tensor.device_type, made.tensor.device_id) == (12, 0)
    assert simulated_devices.counters()["live_allocations"] == 1
    release(made)
    after = xd.asarray(b"x").to("sim:0")  # on the queue that gives the memory back, and waited for
    assert simulated_devices.counters()["live_allocations"] == 1
    assert after.nbytes == 1


def test_empty(simulated_devices: testing.SimulatedDevices) -> None:
    there = xd.empty((3, 4), "f4", device="sim:1")
    assert (there.shape, there.dtype, there.device) == ((3, 4), "f4", "sim:1")
    assert simulated_devices.counters()["live_allocations"] == 1
    queue = xd.Queue.new("sim:0")
    assert xd.empty(5, queue=queue).device == "sim:0"
    assert xd.empty((0,), device="sim:0").pointer == 0
    assert xd.empty(()).shape == ()
    for wrong in (-1, (3, -1), (1 << 62,), (1 << 40, 1 << 40)):
        with pytest.raises(ValueError, match=r"negative|exceeds the address space"):
            xd.empty(wrong, device="sim:0")
    with pytest.raises(TypeError):
        xd.empty("x")  # type: ignore[arg-type]


# ---- memory --------------------------------------------------------------------------------------------------------


@pytest.mark.simulated_devices(1, delay=1)  # to collect garbage takes a while, in a process that has run other tests
def test_sources_are_kept_until_the_copy_is_done(simulated_devices: testing.SimulatedDevices) -> None:
    class Watched(np.ndarray):
        pass

    array = np.arange(8.0).view(Watched)
    gone = weakref.ref(array)
    queue = xd.Queue.new("sim:0")
    there = xd.asarray(array).to("sim:0", queue=queue)
    del array
    gc.collect()
    assert gone() is not None, "the queue still reads it"
    back = there.to("cpu")
    np.testing.assert_array_equal(np.asarray(back), np.arange(8.0))
    queue.wait()
    # The queue's thread drops its last owner, which a Python thread then finds.
    deadline = threading.Event()
    for _ in range(500):
        xd.asarray(b"")  # any call drains what other threads left
        if gone() is None:
            break
        deadline.wait(0.01)
    assert gone() is None


def test_nothing_stays_allocated(simulated_devices: testing.SimulatedDevices, source: np.ndarray) -> None:
    for _ in range(20):
        there = xd.asarray(source).to("sim:0")
        across = there.to("sim:1")[1:]
        across.to("cpu")
    del there, across
    assert live_allocations(simulated_devices, 0) == 0


# ---- failures ------------------------------------------------------------------------------------------------------


def test_failing_work_reaches_whoever_needs_it(simulated_devices: testing.SimulatedDevices, source: np.ndarray) -> None:
    testing.fail_work(error=xd.SystemError("the kernel went wrong"))
    queue = xd.Queue.new("sim:0")
    there = xd.asarray(source).to("sim:0", queue=queue)
    with pytest.raises(xd.SystemError, match="the kernel went wrong"):
        there.wait()
    for use in (lambda: there.to("cpu"), lambda: there.__dlpack__(max_version=(1, 3)), lambda: there.to("sim:1")):
        with pytest.raises(xd.SystemError, match="the kernel went wrong"):
            use()
    # Others go on.
    np.testing.assert_array_equal(np.asarray(xd.asarray(source).to("sim:0").to("cpu")), source)


@pytest.mark.parametrize("verb", ["allocate", "copy", "record"])
def test_verbs_that_fail_leak_nothing(
    simulated_devices: testing.SimulatedDevices, source: np.ndarray, verb: str
) -> None:
    xd.asarray(source).to("sim:0").to("cpu")
    gc.collect()
    testing.fail_next(verb, error=xd.ResourceError("no more"))
    with pytest.raises(xd.ResourceError, match="no more"):
        xd.asarray(source).to("sim:0")
    assert live_allocations(simulated_devices, 0) == 0
    np.testing.assert_array_equal(np.asarray(xd.asarray(source).to("sim:0").to("cpu")), source)


@pytest.mark.simulated_devices(2, delay=0.001)
def test_many_threads(simulated_devices: testing.SimulatedDevices) -> None:
    wrong: list[Any] = []

    def work(seed: int) -> None:
        array = np.random.default_rng(seed).random((64, 64))
        for _ in range(10):
            there = xd.asarray(array).to(f"sim:{seed % 2}")
            back = there[::2].to(f"sim:{(seed + 1) % 2}").to("cpu")
            if not np.array_equal(np.asarray(back), array[::2]):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


class ByArrow:
    """Through the C structures, where nothing but memory and an event goes."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __arrow_c_device_array__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.of.__arrow_c_device_array__(*arguments, **keywords)


def pass_by(queue: xd.Queue) -> None:
    """Comes back when the queue is done, of which the host learns nothing by an event."""
    last = np.zeros(1)
    gone = weakref.ref(last)
    xd.asarray(last).to(queue.device, queue=queue)
    del last
    while gone() is not None:
        xd.asarray(b"")  # what is left to Python threads is done here


def tensor_there(source: np.ndarray) -> Any:
    return xd.asarray(source.ravel()).to("sim:0", queue=xd.Queue.new("sim:0"))


def batch_there(source: np.ndarray) -> Any:
    table = pa.record_batch({"a": source.ravel(), "b": source.ravel() + 1})
    return xd.RecordBatch(table).to("sim:0", queue=xd.Queue.new("sim:0"))


@pytest.mark.parametrize("drops", ["under the copy", "after it"])
@pytest.mark.parametrize("target", ["cpu", "sim:1"])
@pytest.mark.parametrize("hop", [False, True], ids=["here", "by Arrow"])
@pytest.mark.parametrize("make", [tensor_there, batch_there])
@pytest.mark.simulated_devices(2, delay=0.01)
def test_a_source_may_go_whenever_its_owner_likes(
    simulated_devices: testing.SimulatedDevices, source: np.ndarray, make: Any, hop: bool, target: str, drops: str
) -> None:
    """The copy keeps it, whatever queue frees it: none of that is a fault."""
    there = make(source)
    if hop:
        there = type(there)(ByArrow(there)) if make is batch_there else xd.asarray(ByArrow(there))
    queue = xd.Queue.new("sim:0" if target == "cpu" else target)
    made = there.to(target, queue=queue)
    if drops == "after it":
        pass_by(queue)
    del there
    gc.collect()
    made.wait()
    queue.wait()
    xd.asarray(b"")  # what was left to a Python thread is done now
    xd.Queue.new("sim:0").wait()
    assert simulated_devices.take_faults() == []


@pytest.mark.simulated_devices(2, delay=0.2)
def test_a_copy_between_devices_waits_for_nothing(
    simulated_devices: testing.SimulatedDevices, source: np.ndarray
) -> None:
    there = xd.asarray(source).to("sim:0").unsynchronized()
    across = there.to("sim:1")
    assert across.event is not None
    assert not across.event.done
    del there
    gc.collect()
    np.testing.assert_array_equal(np.asarray(across.to("cpu")), source)
    assert simulated_devices.take_faults() == []


def test_a_column_of_the_cpu_has_no_event(source: np.ndarray) -> None:
    """Of somebody who says otherwise nobody could wait for it."""
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

    class Wrong:
        def __arrow_c_device_array__(self, *_: Any, **__: Any) -> Any:
            schema, capsule = xd.asarray(source.ravel()).__arrow_c_device_array__()
            at_event = get_pointer(capsule, b"arrow_device_array") + 80 + 8 + 8  # after the array, device id and type
            ctypes.c_void_p.from_address(at_event).value = 4096
            return schema, capsule

    for read in (xd.asarray, xd.RecordBatch):
        with pytest.raises(ValueError, match="sync_event"):
            read(Wrong())
