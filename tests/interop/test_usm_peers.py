"""The SYCL USM array interface with dpctl and dpnp, on a real SYCL run time: both ways, values and pointers."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from tests.forks import status_in_a_child
from tests.interop.usm import KINDS, Exporter, dpctl, dpm, dpnp, in_another_context, sycl_queue

import crossdock as xd
from crossdock import offload
from crossdock.testing import simulated_devices


@pytest.fixture(scope="module")
def queue():
    return sycl_queue(property="in_order")


def filled(queue, values, kind="device"):
    values = np.ascontiguousarray(values)
    memory = KINDS[kind](values.nbytes, queue=queue)
    memory.copy_from_host(values.view("u1").reshape(-1))
    return memory


def views(ours):
    """dpnp's arrays of the same memory, by each way that it has. Its asarray() copies what isn't its own."""
    theirs = dpnp.tensor.asarray(ours)
    return dpnp.asarray(theirs, device=theirs.device), dpnp.from_dlpack(ours)


def host(tensor):
    return np.asarray(tensor.to("cpu"))


def wait_for_frees(queue, done):
    """What a copy kept is freed by later calls of the driver: what an out-of-order queue has used, by allocations."""
    deadline = time.monotonic() + 60
    while not done() and time.monotonic() < deadline:
        xd.empty(1, "u1", queue=xd.Queue(queue))


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8", "f4", "f8", "c8", "c16", "?"])
def test_dpnp_arrays_come_in_and_go_out(queue, dtype):
    values = np.arange(24).reshape(2, 3, 4).astype(dtype)
    theirs = dpnp.asarray(values, sycl_queue=queue)
    ours = xd.asarray(theirs)
    assert ours.pointer == theirs.__sycl_usm_array_interface__["data"][0]
    assert ours.shape == theirs.shape
    assert np.dtype(ours.dtype) == np.dtype(dtype)
    assert ours.usm_type == theirs.usm_type == "device"
    assert ours.queue == xd.Queue(queue)
    assert not ours.readonly
    np.testing.assert_array_equal(host(ours), values)
    back, by_dlpack = views(ours)
    assert back.sycl_queue == queue
    for view in (back, by_dlpack):
        assert view.__sycl_usm_array_interface__["data"][0] == ours.pointer
        np.testing.assert_array_equal(dpnp.asnumpy(view), values)
    np.testing.assert_array_equal(dpnp.asnumpy(dpnp.asarray(ours)), values)
    from_dlpack = xd.from_dlpack(theirs)
    assert from_dlpack.pointer == ours.pointer
    assert from_dlpack.device == ours.device
    np.testing.assert_array_equal(host(from_dlpack), values)


@pytest.mark.parametrize("usm_type", ["device", "shared", "host"])
def test_kinds_of_memory(queue, usm_type):
    theirs = dpnp.arange(10, dtype="f4", usm_type=usm_type, sycl_queue=queue)
    ours = xd.asarray(theirs)
    assert ours.usm_type == usm_type
    made = xd.empty(10, "f4", queue=queue, usm_type=usm_type)
    assert made.usm_type == dpnp.asarray(made).usm_type == usm_type
    np.testing.assert_array_equal(host(xd.asarray(theirs, usm_type="shared")), np.arange(10, dtype="f4"))


@pytest.mark.parametrize(
    "index",
    [np.s_[::2], np.s_[::-1], np.s_[1:, ::-2], np.s_[:, 1], np.s_[0:0], np.s_[1:, 1:], np.s_[2, 3]],
    ids=str,
)
def test_strides_and_offsets(queue, index):
    values = np.arange(20, dtype="i4").reshape(4, 5)
    theirs = dpnp.asarray(values, sycl_queue=queue)[index]
    ours = xd.asarray(theirs)
    assert ours.strides == values[index].strides or ours.size == 0
    np.testing.assert_array_equal(host(ours), values[index])
    part = xd.asarray(dpnp.asarray(values, sycl_queue=queue))[index]
    np.testing.assert_array_equal(host(part), values[index])
    taken = []
    if part.size:  # dpnp takes no empty arrays of others by DLPack
        taken.append(dpnp.from_dlpack(part))
    if min(part.strides, default=1) > 0:  # nor negative strides by the dictionary
        taken.append(dpnp.tensor.asarray(part))
    for view in taken:
        np.testing.assert_array_equal(dpnp.asnumpy(view), values[index])
        assert part.size == 0 or xd.asarray(view).pointer == part.pointer


@pytest.mark.parametrize("usm_type", ["device", "shared", "host"])
def test_the_kind_of_memory_of_arrays_without_elements(queue, usm_type):
    whole = dpnp.arange(10, dtype="f4", usm_type=usm_type, sycl_queue=queue)
    for theirs in (dpnp.empty((0, 3), usm_type=usm_type, sycl_queue=queue), whole[10:], whole[5:5], whole[::-1][10:]):
        ours = xd.asarray(theirs)
        assert ours.size == 0
        assert ours.usm_type == usm_type
        assert dpnp.tensor.asarray(ours).usm_type == usm_type
        assert ours.copy().usm_type == usm_type
        assert xd.from_dlpack(theirs).usm_type == usm_type
        by_dictionary = xd.from_sycl_usm_array_interface(theirs.__sycl_usm_array_interface__, owner=theirs)
        assert by_dictionary.usm_type == usm_type
    made = xd.empty((0, 4), queue=queue, usm_type=usm_type)
    assert dpnp.tensor.asarray(made).usm_type == usm_type
    again = xd.asarray(dpnp.tensor.asarray(made))
    assert (again.usm_type, again.shape) == (usm_type, (0, 4))
    assert dpnp.tensor.asarray(xd.asarray(whole)[3:3]).usm_type == usm_type


def test_nothing_is_allocated_or_copied_on_the_way(queue):
    theirs = dpnp.zeros(1 << 20, dtype="f8", sycl_queue=queue)
    pointers = {xd.asarray(theirs).pointer for _ in range(3)}
    assert pointers == {theirs.__sycl_usm_array_interface__["data"][0]}
    back = [view for _ in range(3) for view in views(xd.asarray(theirs))]
    assert {view.__sycl_usm_array_interface__["data"][0] for view in back} == pointers


@pytest.mark.parametrize("kind", KINDS)
def test_dpctl_memory(queue, kind):
    memory = filled(queue, np.arange(8, dtype="u1"), kind)
    ours = xd.asarray(memory)
    assert ours.usm_type == kind
    assert not ours.readonly  # its flag says True of memory that may be written
    np.testing.assert_array_equal(host(ours), np.arange(8, dtype="u1"))
    np.testing.assert_array_equal(host(xd.from_dlpack(xd.asarray(memory))), np.arange(8, dtype="u1"))


def test_the_owner_lives_as_long_as_the_memory_is_looked_at(queue):
    theirs = dpnp.arange(1000, sycl_queue=queue)
    ours = xd.asarray(theirs)
    part = ours[10:20]
    del theirs, ours
    gc.collect()
    np.testing.assert_array_equal(host(part), np.arange(10, 20))


def test_read_only_is_what_the_text_says(queue):
    memory = filled(queue, np.arange(8, dtype="u1"))
    address = memory.__sycl_usm_array_interface__["data"][0]
    assert not xd.asarray(Exporter(memory)).readonly
    ours = xd.asarray(Exporter(memory, data=(address, True)))
    assert ours.readonly
    assert ours.__sycl_usm_array_interface__["data"] == (address, True)


class WithCapsule:
    def __init__(self, of):
        self.of = of

    def _get_capsule(self):
        return self.of._get_capsule()


def test_every_kind_of_syclobj(queue):
    memory = filled(queue, np.arange(8, dtype="u1"))
    root = sycl_queue(queue.sycl_device)
    for syclobj in [
        queue.sycl_device.filter_string,
        queue.sycl_context,
        queue.sycl_context._get_capsule(),
        queue,
        queue._get_capsule(),
        WithCapsule(queue),
        WithCapsule(queue.sycl_context),
        root,
        xd.Queue(queue),
    ]:
        ours = xd.asarray(Exporter(memory, syclobj=syclobj))
        assert ours.device == xd.asarray(memory).device, syclobj
        np.testing.assert_array_equal(host(ours), np.arange(8, dtype="u1"))


def test_a_capsule_is_for_one_consumer(queue):
    memory = filled(queue, np.arange(8, dtype="u1"))
    for capsule in (queue._get_capsule(), queue.sycl_context._get_capsule()):
        xd.asarray(Exporter(memory, syclobj=capsule))
        with pytest.raises(xd.InvalidDataError, match="already used"):
            xd.asarray(Exporter(memory, syclobj=capsule))


def test_a_consumers_stream_is_read_once(queue):
    class CountsCapsules(WithCapsule):
        made = 0

        def _get_capsule(self):
            self.made += 1
            return super()._get_capsule()

    ours = xd.asarray(Exporter(filled(queue, np.arange(8, dtype="u1"))))
    consumer = CountsCapsules(sycl_queue(queue.sycl_context, queue.sycl_device, property="in_order"))
    assert ours.__dlpack__(stream=consumer) is not None
    assert consumer.made == 1
    capsule = queue._get_capsule()
    assert ours.__dlpack__(stream=capsule) is not None
    with pytest.raises(xd.InvalidDataError, match="already used"):
        ours.__dlpack__(stream=capsule)


def test_our_queue_is_dpctls_by_capsule(queue):
    mine = xd.Queue(queue)
    assert dpctl.SyclQueue(mine._get_capsule()) == queue
    assert hash(mine) == hash(xd.Queue(dpctl.SyclQueue(queue._get_capsule())))
    with pytest.raises(AttributeError):
        xd.Queue("host")._get_capsule()


def test_our_default_queue_is_dpctls_cached_one():
    theirs = dpnp.arange(3)
    ours = xd.Queue(f"sycl:{theirs.sycl_device.filter_string.split(':')[1]}")
    assert ours == xd.Queue(theirs.sycl_queue)
    assert xd.asarray(theirs).queue == ours
    assert dpnp.asarray(xd.empty(3, queue=ours)).sycl_queue == theirs.sycl_queue
    assert xd.Queue(theirs.sycl_device.filter_string) == ours


def test_queues_of_dpctls_objects(queue):
    device = queue.sycl_device
    assert xd.Queue(device) == xd.Queue(dpnp.zeros(1).sycl_queue)
    assert xd.Queue(queue.sycl_context).device == xd.Queue(queue).device
    assert dpctl.SyclContext(xd.asarray(dpnp.zeros(1)).sycl_usm_array_interface("context")["syclobj"]) is not None
    assert xd.Queue(queue._get_capsule()) == xd.Queue(WithCapsule(queue)) == xd.Queue(queue)
    try:
        part = device.create_sub_devices(partition=1)[0]
    except Exception:
        return
    on_part = xd.Queue(part)
    assert on_part.device == xd.Queue(device).device
    assert on_part != xd.Queue(device)
    np.testing.assert_array_equal(host(xd.asarray(np.arange(5)).copy_to(on_part)), np.arange(5))


def test_what_syclobj_shows(queue):
    ours = xd.asarray(dpnp.arange(3, dtype="i4", sycl_queue=queue))
    shown = ours.__sycl_usm_array_interface__
    assert shown["version"] == 1
    assert shown["typestr"] == "<i4"
    assert shown["shape"] == (3,)
    assert shown["strides"] is None
    assert shown["offset"] == 0
    assert shown["syclobj"] == xd.Queue(queue)
    assert ours[::-1].__sycl_usm_array_interface__["strides"] == (-1,)
    context = ours.sycl_usm_array_interface(syclobj="context")["syclobj"]
    assert dpctl.SyclContext(context) == queue.sycl_context
    default = xd.asarray(dpnp.arange(3, dtype="i4"))
    assert dpctl.SyclDevice(default.sycl_usm_array_interface("filter")["syclobj"]) == dpnp.arange(3).sycl_device
    with pytest.raises(ValueError, match="'device'"):
        ours.sycl_usm_array_interface("device")
    with pytest.raises(TypeError):
        ours.sycl_usm_array_interface(syclobj=3)
    assert not hasattr(xd.asarray(np.arange(3)), "__sycl_usm_array_interface__")


def test_pending_work_is_waited_for():
    """dpnp's queues aren't in-order, and its calls return while their work runs."""
    big = dpnp.ones((600, 600), dtype="f8")
    product = dpnp.matmul(big, big)
    np.testing.assert_array_equal(host(xd.asarray(product)), np.full((600, 600), 600.0))
    product = dpnp.matmul(big, big)
    shared = dpnp.asarray(product, usm_type="shared")
    np.testing.assert_array_equal(np.asarray(memoryview(xd.asarray(shared))), np.full((600, 600), 600.0))
    product = dpnp.matmul(big, big)
    other = xd.asarray(product).copy_to(xd.Queue.new("sycl"))
    np.testing.assert_array_equal(dpnp.asnumpy(dpnp.asarray(other)), np.full((600, 600), 600.0))


def in_order():
    return sycl_queue(property="in_order")


@pytest.mark.parametrize("other", [in_order, sycl_queue, lambda: dpnp.zeros(1).sycl_queue])
def test_copies_between_queues_keep_their_order(other):
    """While oneMKL's work, which SYCL itself holds back, is under way on the first: barriers alone don't do."""
    busy = in_order()
    first, second = xd.Queue(busy), xd.Queue(other())
    matrix = dpnp.ones((500, 500), sycl_queue=busy)
    values = np.arange(100, dtype="i4")
    source = xd.asarray(dpnp.asarray(values, sycl_queue=busy))
    for way in (
        lambda: source.copy(queue=first).to("cpu", queue=second),
        lambda: source.to("cpu", queue=first).copy_to(second).to("cpu", queue=second),
        lambda: source.copy(queue=first).collocate(second).copy(queue=second).to("cpu", queue=first),
        lambda: source.to("cpu", queue=second),
    ):
        product = dpnp.matmul(matrix, matrix)
        np.testing.assert_array_equal(np.asarray(way()), values)
        assert float(product[0, 0]) == 500.0


def test_the_host_reads_shared_memory(queue):
    values = np.arange(12, dtype="f4").reshape(3, 4)
    for usm_type in ("shared", "host"):
        ours = xd.asarray(dpnp.asarray(values, usm_type=usm_type, sycl_queue=queue))
        np.testing.assert_array_equal(np.asarray(memoryview(ours)), values)
    with pytest.raises(BufferError, match=r'\.to\("cpu"\)'):
        memoryview(xd.asarray(dpnp.asarray(values, sycl_queue=queue)))


class WithoutDictionary:
    def __init__(self, array):
        self.__usm_ndarray__ = array.get_array()

    @property
    def __sycl_usm_array_interface__(self):
        raise AssertionError("its structure says the same")


def test_arrays_of_dpnp_are_read_from_their_structure(queue):
    whole = dpnp.reshape(dpnp.arange(60, dtype="i4", sycl_queue=queue), (3, 4, 5))
    xd.asarray(whole)  # the first one is compared with its dictionary
    arrays = [
        whole, dpnp.transpose(whole), whole[::2, 1:], whole[:, ::-1], whole[1], whole[1, 2, 3], whole[:0],
        whole[::2, :, 3:4],
        dpnp.asarray(whole, order="F"), dpnp.zeros((), sycl_queue=queue), dpnp.zeros((2, 0, 3), sycl_queue=queue),
        dpnp.broadcast_to(whole[0, 0], (7, 5)), dpnp.ones(3, usm_type="shared", sycl_queue=queue),
        dpnp.ones(3, dtype="c8", usm_type="host", sycl_queue=queue),
    ]  # fmt: skip
    arrays[4].flags["W"] = False
    for array in arrays:
        said = xd.from_sycl_usm_array_interface(array.__sycl_usm_array_interface__, array)
        assert xd.asarray(array.get_array()).dtype == said.dtype
        # The dictionary of one without elements says more: the memory's start, which tells its kind.
        read = xd.asarray(WithoutDictionary(array) if array.size else array)
        assert (read.shape, read.dtype, read.readonly) == (said.shape, said.dtype, said.readonly)
        assert (read.device, read.usm_type, read.queue) == (said.device, said.usm_type, said.queue)
        if said.nbytes:
            assert read.strides == said.strides
            assert read.__sycl_usm_array_interface__["data"] == said.__sycl_usm_array_interface__["data"]


def test_who_only_has_the_name_of_dpnp_s_array_is_asked_for_its_dictionary(queue):
    fake = type("usm_ndarray", (), {"__module__": "dpnp.tensor._usmarray"})()
    with pytest.raises(xd.UnsupportedTypeError):
        xd.asarray(fake)
    carrier = type("Carrier", (), {"__usm_ndarray__": fake})()
    with pytest.raises(xd.UnsupportedTypeError):
        xd.asarray(carrier)


def test_the_buffer_of_the_owner_takes_the_place_of_data(queue):
    for kind in ("shared", "host"):
        memory = filled(queue, np.arange(16, dtype="i2"), kind)
        description = {
            "shape": (4,), "typestr": "<i2", "strides": (-2,), "offset": 9, "version": 1, "syclobj": queue,
        }  # fmt: skip
        ours = xd.from_sycl_usm_array_interface(description, memory)
        np.testing.assert_array_equal(host(ours), np.arange(16, dtype="i2")[9:2:-2])
        assert ours.usm_type == kind
        assert not ours.readonly
        with pytest.raises(xd.InvalidDataError, match="buffer of 32 bytes"):
            xd.from_sycl_usm_array_interface(description | {"offset": 16}, memory)
        with pytest.raises(xd.InvalidDataError, match="buffer of 32 bytes"):
            xd.from_sycl_usm_array_interface(description | {"offset": 5}, memory)
    with pytest.raises(xd.InvalidDataError, match="no buffer"):
        xd.from_sycl_usm_array_interface(description)
    with pytest.raises(xd.InvalidDataError, match="not a USM pointer"):
        xd.from_sycl_usm_array_interface(description, bytearray(64))


def test_custom_memory_is_adopted_with_its_owner(queue):
    """Memory of somebody's own allocator: the owner keeps it, and releases it by its own means."""
    released = []

    class Allocation:
        def __init__(self):
            self.memory = filled(queue, np.arange(8.0))

        def __del__(self):
            released.append(True)

    owner = Allocation()
    interface = Exporter(owner.memory, shape=(8,), typestr="<f8").interface
    ours = xd.from_sycl_usm_array_interface(interface, owner)
    del owner
    gc.collect()
    np.testing.assert_array_equal(host(ours), np.arange(8.0))
    assert not released
    del ours
    gc.collect()
    wait_for_frees(queue, lambda: released)
    assert released == [True]


def test_custom_memory_is_adopted_with_its_deleter(queue):
    memory = filled(queue, np.arange(8.0))
    interface = Exporter(memory, shape=(8,), typestr="<f8").interface
    freed = []

    def free(address):
        assert kept() is not None, "the owner goes after the memory"
        freed.append(address)

    class Owner:
        pass

    owner = Owner()
    kept = weakref.ref(owner)
    ours = xd.from_sycl_usm_array_interface(interface, owner, deleter=free)
    view = ours[2:]
    del owner, ours
    gc.collect()
    np.testing.assert_array_equal(host(view), np.arange(2.0, 8.0))
    assert not freed
    del view
    gc.collect()
    wait_for_frees(queue, lambda: freed)
    assert freed == [interface["data"][0]]
    assert kept() is None
    # What couldn't be taken in stays its caller's.
    for wrong, error in (
        (interface | {"version": 2}, xd.InvalidDataError),
        (interface | {"data": None}, xd.InvalidDataError),
        ([], xd.InvalidDataError),
        (interface | {"syclobj": "nowhere"}, xd.InvalidDataError),
        (interface | {"syclobj": "cpu:99"}, xd.NotFoundError),
    ):
        with pytest.raises(error):
            xd.from_sycl_usm_array_interface(wrong, deleter=free)
    with pytest.raises(TypeError, match="deleter must be a function"):
        xd.from_sycl_usm_array_interface(interface, deleter=1)
    assert len(freed) == 1


def test_a_deleter_that_raises_is_reported(queue, monkeypatch):
    memory = filled(queue, np.arange(8.0))
    interface = Exporter(memory, shape=(8,), typestr="<f8").interface
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: reported.append(str(what.exc_value)))

    def free(address):
        raise RuntimeError("not so")

    ours = xd.from_sycl_usm_array_interface(interface, memory, deleter=free)
    del ours
    assert reported == ["not so"]


def test_a_deleter_runs_on_a_thread_of_python(slow):
    """The last owner of the memory may be the driver, which releases it on a thread without the interpreter lock."""
    queue = sycl_queue(property="in_order")
    memory = filled(queue, np.arange(8, dtype="i8"), "shared")
    interface = Exporter(memory, shape=(8,), typestr="<i8", syclobj=queue).interface
    called = []
    slow(queue, memory)
    ours = xd.from_sycl_usm_array_interface(
        interface, memory, deleter=lambda address: called.append(threading.current_thread())
    )
    copied = ours.copy_to(queue)
    del ours
    assert not called, "the copy that isn't done has it"
    copied.wait()
    for _ in range(1000):
        if called:
            break
        time.sleep(0.01)  # what the driver leaves to Python runs between two steps of it
        xd.Queue(queue).wait()
    assert called == [threading.main_thread()]


def test_a_deleter_doesnt_run_in_a_forked_child(queue):
    memory = filled(queue, np.arange(8.0))
    interface = Exporter(memory, shape=(8,), typestr="<f8").interface
    called = []
    ours = xd.from_sycl_usm_array_interface(interface, memory, deleter=called.append)
    kept = [ours]
    del ours

    def release() -> None:
        kept.clear()
        assert called == []

    assert status_in_a_child(release) == 0
    kept.clear()
    assert len(called) == 1


def test_adopted_shared_memory_shows_as_dlpack_and_arrow(queue):
    pa = pytest.importorskip("pyarrow")
    ours = xd.asarray(dpnp.arange(5, dtype="f8", usm_type="shared", sycl_queue=queue))
    assert ours.__dlpack_device__()[0] == 14
    column = ours.to_arrow()
    assert str(column.device) == str(ours.device)
    np.testing.assert_array_equal(host(xd.from_arrow(column)), np.arange(5.0))
    assert pa.array(ours.to("cpu")).to_pylist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_two_contexts(queue):
    """Of one device: memory of the one is out of the other's reach, and copies go by way of the host."""
    device = queue.sycl_device
    other = in_another_context(device)
    theirs = dpnp.arange(100, dtype="i4", sycl_queue=other)
    ours = xd.asarray(theirs)
    assert offload.accessible(ours, other)
    assert not offload.accessible(ours, queue)
    with pytest.raises(xd.ExecutionPlacementError, match="contexts differ"):
        offload.placement(ours, xd.asarray(dpnp.arange(3, sycl_queue=queue)))
    with pytest.raises(xd.ExecutionPlacementError):
        offload.placement(ours, queue=queue)
    moved = ours.collocate(xd.Queue(queue))
    assert moved.pointer != ours.pointer
    assert moved.queue == xd.Queue(queue)
    np.testing.assert_array_equal(host(moved), np.arange(100))
    np.testing.assert_array_equal(host(ours), np.arange(100))
    near = xd.Queue.new(queue)
    assert near != xd.Queue(queue)
    assert moved.collocate(near).pointer == moved.pointer


def test_batches_of_another_context_are_refused_by_arrow(queue):
    """It has no place for the context. On the host they are what they are."""
    pa = pytest.importorskip("pyarrow")
    rows = pa.record_batch({"x": [1, 2, 3]})
    batch = xd.RecordBatch(rows).to("sycl:0", queue=xd.Queue(in_another_context(queue.sycl_device)))
    with pytest.raises(xd.ExportError, match="in another context"):
        batch.__arrow_c_device_array__()
    assert pa.record_batch(batch.to("cpu")).equals(rows)


def test_memory_of_another_context_that_came_without_a_queue_stays_there(queue):
    other = in_another_context(queue.sycl_device)
    near = xd.asarray(dpnp.arange(8.0, sycl_queue=other))
    near.wait()  # dpnp's arange() may be under way, and what is taken without a queue waits for nothing
    far = near.unsynchronized()
    again = xd.from_sycl_usm_array_interface(far.__sycl_usm_array_interface__, far)
    np.testing.assert_array_equal(host(again), np.arange(8.0))
    assert offload.accessible(far, offload.placement(far))
    gc.collect()
    for _ in range(12):  # more than the driver remembers
        xd.Queue(sycl_queue())
    np.testing.assert_array_equal(host(far), np.arange(8.0))


def test_a_copy_to_another_driver_is_over_before_its_source_changes(simulated_devices, queue):
    """The source's queue can't be ordered after a copy of another driver."""
    first = xd.asarray(np.ones(1 << 16)).copy_to(queue)
    second = xd.asarray(np.full(1 << 16, 2.0)).copy_to(queue)
    source = first.to("cpu", queue=xd.Queue(queue))
    there = source.copy_to(xd.Queue("sim:0"))
    source.copy_from(second, queue=xd.Queue(queue))
    np.testing.assert_array_equal(host(there), np.ones(1 << 16))


def test_without_a_queue_an_array_shows_one_of_its_context(queue):
    other = in_another_context(queue.sycl_device)
    memory = dpm.MemoryUSMDevice(48, queue=other)
    ours = xd.asarray(memory).unsynchronized()
    assert ours.queue is None
    shown = dpctl.SyclQueue(ours.__sycl_usm_array_interface__["syclobj"]._get_capsule())
    assert shown.sycl_context == other.sycl_context
    assert dpm.as_usm_memory(ours).get_usm_type() == "device"
    with pytest.raises(BufferError, match="another context"):
        ours.sycl_usm_array_interface("filter")
    event = xd.Queue(other).record()
    after = ours.after(event).after(event)
    assert after.queue is not None
    assert dpctl.SyclQueue(after.queue._get_capsule()).sycl_context == other.sycl_context
    placed = offload.placement(ours, xd.asarray(memory).unsynchronized())
    assert offload.accessible(ours, placed)


def test_the_last_reference_goes_in_a_host_task(script):
    """While the main thread waits for that task, and SYCL lets nobody submit anything."""
    script("""
    import dpctl, dpctl.memory, numpy as np
    import crossdock as xd
    queue = dpctl.SyclQueue()
    to, of = (dpctl.memory.MemoryUSMDevice(1 << 24, queue=queue) for _ in range(2))
    for _ in range(10):
        ours = xd.asarray(np.arange(1000.0), queue=xd.Queue(queue))
        ours.wait()
        slow = queue.memcpy_async(to, of, to.nbytes)
        task = queue._submit_keep_args_alive([ours], [slow])
        del ours
        queue.memcpy_async(to, of, 64, [task]).wait()
    """).finish()


CALLS = [
    "theirs.event.done",
    "theirs.wait()",
    "theirs.__array_interface__",
    "theirs.tolist()",
    "memoryview(theirs)",
    "np.asarray(theirs)",
    "theirs.sycl_usm_array_interface('context')",
    "xd.offload.placement(theirs, queue=ours.queue)",
    "theirs.after(ours.queue.record())",
    "theirs.event.native",
    "ours.queue.wait()",
    "ours.queue.record().done",
    "ours.queue.wait_for(theirs.event)",
    "theirs.__arrow_c_device_array__()",
    "theirs.to_arrow()",
    "theirs.__dlpack__()",
    "theirs.to('cpu')",
    "theirs.collocate(ours)",
    "ours.copy_from(np.arange(100.0))",
    "xd.empty(10, queue=ours.queue)",
    "xd.asarray(array, queue=ours.queue)",
    "globals().pop('ours')",
]


@pytest.mark.parametrize("call", CALLS)
def test_no_call_holds_the_lock_that_a_host_task_wants(script, call):
    """Another thread waits behind that task, and SYCL lets nobody submit anything before it is done."""
    script(
        """
    import sys, threading
    import dpctl, dpctl.memory, dpnp, numpy as np
    import crossdock as xd
    queue, in_order = dpctl.SyclQueue(), dpctl.SyclQueue(property="in_order")
    to, of = (dpctl.memory.MemoryUSMDevice(1 << 26, queue=queue) for _ in range(2))
    ours = xd.asarray(np.arange(100.0), queue=xd.Queue.new(in_order))
    array = dpnp.arange(100, usm_type="shared", sycl_queue=in_order)
    ours.wait()
    for each in (queue, in_order):
        each.wait()
    theirs = xd.asarray(array)

    class Behind(threading.Thread):  # Waits behind a host task, which comes after a slow copy.
        def __init__(self):
            super().__init__()
            self.submitted = threading.Event()

        def run(self):
            self.slow = queue.memcpy_async(to, of, to.nbytes)
            task = queue._submit_keep_args_alive([object()], [self.slow])
            last = queue.memcpy_async(to, of, 64, [task])
            self.submitted.set()
            last.wait()

    for _ in range(50):
        behind = Behind()
        behind.start()
        behind.submitted.wait()
        in_time = behind.slow.execution_status != dpctl.event_status_type.complete
        if in_time:
            eval(sys.argv[1])
        behind.join()
        if in_time:
            break
    else:
        raise AssertionError("the copy was never slow enough")
    """,
        call,
    ).finish()


def test_sub_devices(queue):
    try:
        parts = queue.sycl_device.create_sub_devices(partition=1)
    except Exception:  # each backend has its own way to say that it can't
        pytest.skip("this device can't be divided")
    for part in parts:
        on_part = sycl_queue(part, property="in_order")
        ours = xd.asarray(dpnp.arange(10, sycl_queue=on_part))
        assert ours.queue == xd.Queue(on_part)
        np.testing.assert_array_equal(host(ours), np.arange(10))
        np.testing.assert_array_equal(dpnp.tensor.asnumpy(dpnp.tensor.asarray(ours)), np.arange(10))
        if not offload.accessible(ours, xd.Queue(f"sycl:{queue.sycl_device.filter_string.split(':')[1]}")):
            with pytest.raises(BufferError, match="context"):
                ours.__dlpack__()


# Bad input

WRONG = {
    "version 0": ({"version": 0}, xd.InvalidDataError),
    "version 2": ({"version": 2}, xd.InvalidDataError),
    "no version": ({"version": ...}, xd.InvalidDataError),
    "version as text": ({"version": "1"}, TypeError),
    "no shape": ({"shape": ...}, xd.InvalidDataError),
    "shape as list": ({"shape": [8]}, TypeError),
    "negative shape": ({"shape": (-1,)}, xd.InvalidDataError),
    "huge shape": ({"shape": (1 << 40, 1 << 40)}, xd.InvalidDataError),
    "no typestr": ({"typestr": ...}, xd.InvalidDataError),
    "typestr of objects": ({"typestr": "|O8"}, xd.UnsupportedTypeError),
    "typestr as bytes": ({"typestr": b"|u1"}, TypeError),
    "typestr nonsense": ({"typestr": "hello"}, ValueError),
    "strides as list": ({"strides": [1]}, TypeError),
    "too many strides": ({"strides": (1, 1)}, xd.InvalidDataError),
    "huge strides": ({"strides": (1 << 62,), "typestr": "<i8", "shape": (1,)}, xd.InvalidDataError),
    "offset as text": ({"offset": "0"}, TypeError),
    "huge offset": ({"offset": 1 << 63}, xd.InvalidDataError),
    "data as list": ({"data": [1, False]}, xd.InvalidDataError),
    "data as int": ({"data": 1}, xd.InvalidDataError),
    "data of three": ({"data": (1, False, 2)}, xd.InvalidDataError),
    "negative address": ({"data": (-1, False)}, xd.InvalidDataError),
    "flag as int": ({"data": (1, 0)}, TypeError),
    "made-up address": ({"data": (0x1000, False)}, xd.InvalidDataError),
    "no syclobj": ({"syclobj": ...}, xd.InvalidDataError),
    "syclobj None": ({"syclobj": None}, xd.InvalidDataError),
    "syclobj int": ({"syclobj": 3}, xd.InvalidDataError),
    "syclobj bytes": ({"syclobj": b"cpu"}, xd.InvalidDataError),
    "syclobj filter nonsense": ({"syclobj": "nonsense"}, ValueError),
    "syclobj filter empty": ({"syclobj": ""}, ValueError),
    "syclobj filter out of range": ({"syclobj": "cpu:99"}, xd.NotFoundError),
    "syclobj device": ({"syclobj": "the device"}, xd.InvalidDataError),
    "syclobj host queue": ({"syclobj": xd.Queue("host")}, xd.InvalidDataError),
}


@pytest.mark.parametrize(("entries", "error"), WRONG.values(), ids=WRONG)
def test_wrong_dictionaries_are_refused(queue, entries, error):
    memory = filled(queue, np.arange(8, dtype="u1"))
    if entries.get("syclobj") == "the device":
        entries = {"syclobj": queue.sycl_device}
    with pytest.raises(error) as caught:
        xd.asarray(Exporter(memory, **entries))
    assert len(str(caught.value)) > 10


@pytest.mark.parametrize("value", [None, 3, [], "text"])
def test_what_is_no_dictionary_is_refused(value):
    class Wrong:
        __sycl_usm_array_interface__ = value

    with pytest.raises(TypeError, match="must be a dict"):
        xd.asarray(Wrong())


def test_wrong_capsules_are_refused(queue):
    memory = filled(queue, np.arange(8, dtype="u1"))
    import ctypes

    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    name = b"SyclDeviceRef"
    with pytest.raises(xd.InvalidDataError, match="SyclDeviceRef"):
        xd.asarray(Exporter(memory, syclobj=new(1, name, None)))
    with pytest.raises(xd.InvalidDataError, match="without a name"):
        xd.asarray(Exporter(memory, syclobj=new(1, None, None)))

    class GivesNone:
        def _get_capsule(self):
            return None

    class Raises:
        def _get_capsule(self):
            raise RuntimeError("half way")

    with pytest.raises(xd.InvalidDataError, match="return a capsule"):
        xd.asarray(Exporter(memory, syclobj=GivesNone()))
    with pytest.raises(RuntimeError, match="half way"):
        xd.asarray(Exporter(memory, syclobj=Raises()))


def test_a_pointer_of_another_context_is_refused(queue):
    device = queue.sycl_device
    other = in_another_context(device)
    memory = filled(queue, np.arange(8, dtype="u1"))
    for syclobj in (other, other.sycl_context):
        with pytest.raises((xd.InvalidDataError, ValueError), match=r"bound|context"):
            xd.asarray(Exporter(memory, syclobj=syclobj))


def test_freed_memory_and_host_memory_are_refused(queue):
    values = np.arange(8, dtype="u1")
    memory = filled(queue, values)
    with pytest.raises(xd.InvalidDataError, match="not a USM pointer"):
        xd.asarray(Exporter(memory, data=(values.ctypes.data, False)))


def test_empty_arrays(queue):
    ours = xd.asarray(dpnp.empty((0, 3), sycl_queue=queue))
    assert ours.shape == (0, 3)
    assert ours.pointer == 0
    assert dpnp.asarray(ours).shape == (0, 3)
    assert dpnp.tensor.asarray(ours).shape == (0, 3)
    memory = filled(queue, np.arange(8, dtype="u1"))
    assert xd.asarray(Exporter(memory, shape=(0,), data=(0, False))).size == 0


def test_copies_between_kinds_and_to_the_host(queue):
    values = np.arange(1000.0).reshape(10, 100)
    there = xd.asarray(values, queue=queue)
    assert there.device == xd.asarray(dpnp.arange(1, sycl_queue=queue)).device
    np.testing.assert_array_equal(host(there), values)
    np.testing.assert_array_equal(host(there[::2, ::-3]), values[::2, ::-3])
    np.testing.assert_array_equal(dpnp.asnumpy(dpnp.asarray(there) + 1), values + 1)
    for usm_type in KINDS:
        np.testing.assert_array_equal(host(xd.asarray(there, usm_type=usm_type, copy=True)), values)


def test_tables_go_to_sycl_and_back(queue):
    pa = pytest.importorskip("pyarrow")
    batch = pa.record_batch({"a": [1, 2, None], "b": ["x", None, "zz"], "c": [[1.0], [], None]})
    there = xd.RecordBatch(batch).to(xd.Queue(queue).device, queue=queue)
    assert there.device == xd.Queue(queue).device
    assert pa.record_batch(there.to("cpu")).equals(batch)


SLOW = """
kernel void slow(global long *out, long rounds) {
  long sum = out[0];
  for (long i = 0; i < rounds; i++) sum = sum * 6364136223846793005L + i;
  out[0] = sum | 1;
}
"""


@pytest.fixture(scope="module")
def slow():
    """Puts work of a fraction of a second on a queue that writes an odd number to the memory."""
    compiled = {}

    def submit(queue, memory, rounds=1_000_000_000):
        if queue not in compiled:
            compiled[queue] = dpctl.program.create_program_from_source(queue, SLOW).get_sycl_kernel("slow")
        event = queue.submit_async(compiled[queue], [memory, ctypes.c_longlong(rounds)], [1])
        # As dpnp does with everything it submits: a task on the host that takes the interpreter lock.
        return queue._submit_keep_args_alive([memory], [event])

    return submit


@pytest.mark.parametrize("syclobj", ["queue", "context", "filter"])
def test_what_stands_for_no_queue_comes_with_finished_work(slow, syclobj):
    queue = sycl_queue(property="in_order")
    memory = filled(queue, np.zeros(8, "i8"))
    interface = Exporter(memory, shape=(8,), typestr="<i8", syclobj=queue).interface
    slow(queue, memory)
    ours = xd.from_sycl_usm_array_interface(interface, memory)
    shown = type("Shown", (), {"__sycl_usm_array_interface__": ours.sycl_usm_array_interface(syclobj)})()
    seen = np.empty(64, "u1")
    dpm.as_usm_memory(shown).copy_to_host(seen)
    assert seen.view("i8")[0] % 2 == 1


@pytest.mark.parametrize("way", ["dlpack", "dlpack to dpctl's", "asarray", "collocate", "interface", "wait_for"])
def test_waits_for_work_that_wants_the_interpreter_lock_dont_hold_it(slow, way):
    """On queues without order a wait of the host stands for the order: it must let that work, and others, go on."""
    one, two = sycl_queue(), sycl_queue()
    memory = filled(one, np.zeros(8, "i8"))
    slow(one, memory)
    ours = xd.asarray(Exporter(memory, shape=(8,), typestr="<i8", syclobj=one))
    cached = dpctl._sycl_queue_manager.get_device_cached_queue(one.sycl_device)
    {
        "dlpack": lambda: ours.__dlpack__(stream=two),
        "dlpack to dpctl's": lambda: ours.__dlpack__(stream=cached),
        "asarray": lambda: xd.asarray(ours, queue=two),
        "collocate": lambda: ours.collocate(two),
        "interface": lambda: ours.__sycl_usm_array_interface__,
        "wait_for": lambda: xd.Queue(two).wait_for(xd.Queue(one).record()),
    }[way]()
    assert host(ours)[0] % 2 == 1


def test_asarray_brings_an_array_where_the_queue_reaches_it(queue):
    far = in_another_context(queue.sycl_device)
    array = xd.asarray(dpnp.arange(4, sycl_queue=queue))
    there = xd.asarray(array, queue=far)
    assert offload.accessible(there, far)
    assert there.queue == xd.Queue(far)
    assert there.to(there.device, queue=queue).queue == xd.Queue(queue)
    np.testing.assert_array_equal(host(there), np.arange(4))
    with pytest.raises(BufferError, match="context"):
        xd.asarray(array, queue=far, copy=False)
    beside = sycl_queue(property="in_order")
    assert xd.asarray(array, queue=beside, copy=False).queue == xd.Queue(beside)


def test_a_copy_by_way_of_the_host_says_so(queue, log_lines):
    far = in_another_context(queue.sycl_device)
    array = xd.asarray(dpnp.arange(4.0, sycl_queue=queue))
    with simulated_devices(1):
        there = array.copy_to(far)
        there.copy_from(array)
        array.collocate(far)
        array.copy_to("sim:0")
        array.to("cpu")
        xd.Queue(far).wait()
        xd.asarray(dpnp.arange(5.0, sycl_queue=queue)).copy_to(far)
    told = [log_lines.next() for _ in range(5)]
    start = "copying 32 bytes from oneapi:0 to "
    assert all(text.startswith(start) and "through the host" in text for text in told[:4])
    assert "no driver reaches both" in told[3]
    assert told[4].startswith("copying 40 bytes"), "a copy to the host has no line"


def test_dlpack_copies_what_is_in_another_context(queue):
    far = in_another_context(queue.sycl_device)
    there = xd.asarray(dpnp.arange(4.0, sycl_queue=far))
    with pytest.raises(BufferError, match="another"):
        there.__dlpack__(max_version=(1, 3))
    np.testing.assert_array_equal(np.from_dlpack(there, device="cpu"), np.arange(4.0))
    copied = there.__dlpack__(max_version=(1, 3), copy=True)
    assert "dltensor_versioned" in str(copied)


@pytest.mark.parametrize("other", ["sim:1", "sycl"])
def test_memory_of_the_host_goes_from_one_drivers_queue_to_anothers(queue, other):
    """Its queue is one driver's, and the copy's event another's."""
    values = np.arange(4.0)
    with simulated_devices(2):
        on = "sycl" if other == "sim:1" else "sim:1"
        there = xd.asarray(values).copy_to(other)
        here = xd.asarray(values).copy_to(on)
        between = here.to("cpu", queue=here.queue)
        np.testing.assert_array_equal(host(between.copy_to(other)), values)
        target = here.to("cpu", queue=here.queue)
        np.testing.assert_array_equal(host(target.copy_from(there, queue=there.queue)), values)
        np.testing.assert_array_equal(host(here.copy_from(there)), values)
        np.testing.assert_array_equal(host(there.copy_from(between)), values)
        for _ in range(2):
            target = target.copy_from(here).copy_from(there)
        np.testing.assert_array_equal(np.asarray(target), values)


def test_a_named_queue_comes_after_what_another_had_to_do(slow):
    near = sycl_queue(property="in_order")
    far = in_another_context(near.sycl_device)
    memory = filled(far, np.zeros(8, "i8"))
    slow(far, memory)
    there = xd.asarray(Exporter(memory, shape=(8,), typestr="<i8", syclobj=far))
    target = np.zeros(8, "i8")
    xd.asarray(target).copy_from(there, queue=near)
    xd.Queue(near).wait()
    assert target[0] % 2 == 1
    assert xd.asarray(there).to("cpu", queue=near).tolist()[0] % 2 == 1


def test_usm_memory_that_the_host_reaches_is_the_hosts_there(queue):
    array = dpnp.arange(4.0, usm_type="shared", sycl_queue=queue)
    (here,) = offload.collocate(array, to="host")
    assert here.device == "cpu"
    assert here.pointer == xd.asarray(array).pointer
    assert here.queue is None
    np.testing.assert_array_equal(np.from_dlpack(here), np.arange(4.0))


def test_copy_from_between_kinds_and_contexts(queue):
    far = in_another_context(queue.sycl_device)
    values = np.arange(8.0)
    for on in (queue, far):
        for usm_type in KINDS:
            target = xd.empty(8, queue=on, usm_type=usm_type)
            for source in (values, dpnp.asarray(values, sycl_queue=queue), xd.asarray(values).copy_to(far)):
                filled = target.copy_from(source)
                assert filled.pointer == target.pointer
                np.testing.assert_array_equal(host(filled), values)
    back = np.zeros(8)
    xd.asarray(back).copy_from(dpnp.asarray(values, sycl_queue=far))
    np.testing.assert_array_equal(back, values)


def parts_of(device):
    try:
        return device.create_sub_devices(partition=1)
    except Exception:  # each backend has its own way to say that it can't
        pytest.skip("this device can't be divided")


def test_every_part_of_a_device_in_one_context(queue):
    parts = parts_of(queue.sycl_device)
    context = dpctl.SyclContext(parts)
    for part in parts:
        on = sycl_queue(context, part, property="in_order")
        theirs = dpnp.arange(4, sycl_queue=on)
        ours = xd.asarray(theirs)
        assert ours.queue == xd.Queue(on)
        np.testing.assert_array_equal(host(ours), np.arange(4))
        made = xd.empty(4, queue=on)
        assert offload.accessible(made, on)
        assert offload.placement(made, queue=on) == xd.Queue(on)
        again = type("Again", (), {"__sycl_usm_array_interface__": made.__sycl_usm_array_interface__})()
        assert xd.asarray(again).pointer == made.pointer
        assert offload.accessible(xd.empty(4, queue=xd.Queue.new(on)), on)
        with pytest.raises(xd.InvalidArgumentError, match=r"Queue\.new"):
            xd.Queue(on, name="named")
        fresh = sycl_queue(part)
        assert xd.Queue(part) == xd.Queue(part)
        assert offload.placement(xd.empty(4, queue=part), xd.empty(4, queue=part)) == xd.Queue(part)
        assert xd.Queue(fresh) != xd.Queue(part)


def test_whatever_names_the_default_context_is_one_queue(queue):
    own = xd.Queue("sycl:cpu") if queue.sycl_device.is_cpu else xd.Queue(queue.sycl_device)
    device = dpctl.select_default_device() if not queue.sycl_device.is_cpu else dpctl.SyclDevice("cpu")
    default = dpctl._sycl_queue_manager.get_device_cached_queue(device)
    memory = filled(default, np.arange(8.0))
    named = [
        xd.asarray(Exporter(memory, shape=(8,), typestr="<f8", syclobj=syclobj))
        for syclobj in (default, default.sycl_context, device.filter_string)
    ]
    assert xd.Queue(default) == own
    assert offload.placement(*named) == own


@pytest.mark.parametrize(
    "entries", [{"shape": (17,)}, {"shape": (1 << 30,)}, {"strides": (1 << 36,)}, {"offset": 1}, {"offset": (1 << 60)}]
)
def test_elements_outside_of_others_memory_are_refused(queue, entries):
    memory = dpm.MemoryUSMShared(64, queue=queue)
    good = {"shape": (16,), "typestr": "<f4"}
    assert xd.asarray(Exporter(memory, **good)).nbytes == 64
    with pytest.raises(xd.InvalidDataError):
        xd.asarray(Exporter(memory, **good | entries))


def test_the_flag_of_dpctls_memory_is_overlooked_only_where_it_is_dpctls(queue):
    array = dpnp.arange(4, sycl_queue=queue)
    array.flags["W"] = False
    memory = array.get_array().usm_data
    assert xd.asarray(array).readonly
    assert xd.from_sycl_usm_array_interface(array.__sycl_usm_array_interface__, memory).readonly
    assert not xd.asarray(memory).readonly


def test_a_capsule_is_used_up_by_success_only(queue):
    memory = filled(queue, np.arange(8.0))
    for capsule in (queue._get_capsule(), queue.sycl_context._get_capsule()):
        interface = Exporter(memory, shape=(8,), typestr="<f8", syclobj=capsule).interface
        for wrong in ({"version": 7}, {"data": (64, False)}, {"shape": (1 << 40,)}):
            with pytest.raises(xd.InvalidDataError):
                xd.from_sycl_usm_array_interface(interface | wrong, memory)
        assert xd.from_sycl_usm_array_interface(interface, memory).shape == (8,)
        with pytest.raises(xd.InvalidDataError, match="already used"):
            xd.from_sycl_usm_array_interface(interface, memory)


def test_keys_that_raise_are_heard(queue):
    class Raises(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            raise ZeroDivisionError

    memory = filled(queue, np.arange(8.0))
    interface = Exporter(memory, shape=(8,), typestr="<f8").interface
    with pytest.raises(ZeroDivisionError):
        xd.from_sycl_usm_array_interface({Raises("offset"): 3} | interface, memory)


def run_alone(program, *arguments):
    """Runs a program in a process that has to find SYCL by itself."""
    variables = {name: value for name, value in os.environ.items() if name != "CROSSDOCK_SYCL_LIBRARY"}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


def test_threads_that_start_sycl_at_once_agree_with_dpctl():
    program = """
import sys, threading
import crossdock as xd
sys.setswitchinterval(1e-6)
start, failures = threading.Barrier(4), []
def use(i):
    start.wait()
    try:
        if i % 2: xd.Queue("sycl")
        else: import dpctl
    except BaseException as error: failures.append(error)
threads = [threading.Thread(target=use, args=(i,)) for i in range(4)]
for one in threads: one.start()
for one in threads: one.join()
import dpctl
import dpctl._sycl_queue_manager as manager
assert not failures, failures
device = dpctl.get_devices()[0]
assert xd.Queue("sycl") == xd.Queue(manager.get_device_cached_queue(device))
"""
    for _ in range(3):
        run_alone(program)


@pytest.mark.parametrize("first", ["wait", "read a stream", "ask for a stream without the GIL"])
def test_the_first_use_of_drivers_finds_dpctls(first):
    program = """
import ctypes, sys
import dpctl, dpctl.memory
import dpctl._sycl_queue_manager as manager
import pyarrow as pa
import crossdock as xd

queue = dpctl.SyclQueue(property="in_order")
memory = dpctl.memory.MemoryUSMShared(24, queue=queue)
memory.copy_from_host(bytes(range(24)))
event = queue.submit_barrier()
values = pa.Array.from_buffers(pa.uint8(), 24, [None, pa.foreign_buffer(memory._pointer, 24, memory)])
batch = pa.record_batch({"x": values})
pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
pointer_in.restype, pointer_in.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

class Producer:
    def __arrow_c_device_array__(self, requested_schema=None, **keywords):
        schema, array = batch.__arrow_c_device_array__()
        address = pointer_in(array, b"arrow_device_array")
        ctypes.c_int64.from_address(address + 80).value = 0  # the device
        ctypes.c_int32.from_address(address + 88).value = 14  # its type: oneAPI
        ctypes.c_void_p.from_address(address + 96).value = event.addressof_ref()
        return schema, array

default = manager.get_device_cached_queue(dpctl.get_devices()[0])
if sys.argv[1] == "wait":
    xd.RecordBatch(Producer()).wait()
elif sys.argv[1] == "read a stream":
    assert pa.table(pa.RecordBatchReader.from_stream(xd.RecordBatchReader([Producer()]))) == pa.table(batch)
else:
    table = pointer_in(xd.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    address = ctypes.c_void_p.from_address(table + 48).value
    current_work_stream = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.c_void_p)(address)
    stream = ctypes.c_void_p()
    assert current_work_stream(14, 0, ctypes.addressof(stream)) == 0  # ctypes releases the GIL
    assert stream.value == xd.Queue(default).native
assert xd.Queue("sycl") == xd.Queue(default)
"""
    run_alone(program, first)


def test_a_forked_child_of_a_process_that_used_sycl_has_the_host():
    program = """
import os
import crossdock as xd
queue = xd.offload.current_queue()
assert queue.device == "oneapi:0"
child = os.fork()
if child == 0:
    ok = xd.Queue("cpu").device == "cpu" and xd.offload.current_queue().device == "cpu"
    ok = ok and xd.empty(3).copy_to().device == "cpu"
    ok = ok and [one.driver for one in xd.offload.devices()] == ["host"]
    try:
        queue.wait()
        ok = False
    except xd.ForkError:
        pass
    os._exit(0 if ok else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    run_alone(program)


def test_an_interrupt_while_dpctl_is_imported_is_heard_and_leaves_nothing_behind():
    program = """
import sys
import crossdock as xd

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "dpctl._sycl_queue_manager" and sys.argv[1:]:
            del sys.argv[1:]
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupts())
try:
    xd.Queue("sycl")
    raise SystemExit("nobody heard it")
except KeyboardInterrupt:
    pass
import dpctl._sycl_queue_manager as manager
assert xd.Queue("sycl") == xd.Queue(manager.get_device_cached_queue(__import__("dpctl").get_devices()[0]))
"""
    run_alone(program, "interrupt")


class By:
    """One protocol of a tensor, and no other."""

    def __init__(self, tensor, *names):
        for name in names:
            setattr(type(self), name, staticmethod(getattr(tensor, name)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("protocol", ["DLPack", "Arrow"])
def test_the_kind_of_memory_comes_along_by_every_protocol(queue, kind, protocol):
    ours = xd.asarray(Exporter(filled(queue, np.arange(3.0), kind), shape=(3,), typestr="<f8"))
    names = {"DLPack": ["__dlpack__", "__dlpack_device__"], "Arrow": ["__arrow_c_device_array__"]}[protocol]
    there = xd.asarray(type("Only", (By,), {})(ours, *names))
    assert (there.pointer, there.usm_type) == (ours.pointer, kind)
    if kind == "device":
        with pytest.raises(BufferError):
            memoryview(there)
    else:
        np.testing.assert_array_equal(np.asarray(there), np.arange(3.0))
