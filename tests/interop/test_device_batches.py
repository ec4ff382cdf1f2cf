"""Record batches on (simulated) devices: copies, events, and what goes through Arrow's device methods."""

from __future__ import annotations

import ctypes

import nanoarrow as na
import nanoarrow.device as na_device
import pyarrow as pa
import pytest
from tests.interop.every_type import VALUES, column, columns_by_hand

import crossdock as xd

DEVICE_ID, DEVICE_TYPE, SYNC_EVENT, RESERVED = 80, 88, 96, 104  # behind an 80 byte ArrowArray; 128 bytes in all


def address_of(capsule: object, name: bytes = b"arrow_device_array") -> int:
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get_pointer(capsule, name)


class Gives:
    """Another library's object: what it was told to give, once."""

    def __init__(self, pair: tuple[object, object]) -> None:
        self.pair = pair

    def __arrow_c_device_array__(self, requested_schema: object = None, **kwargs: object) -> tuple[object, object]:
        return self.pair


def handed_over(batch: xd.RecordBatch) -> xd.RecordBatch:
    """By way of the C structures: what another library makes of it."""
    return xd.RecordBatch(Gives(batch.__arrow_c_device_array__()))


def in_pyarrow(batch: xd.RecordBatch) -> pa.RecordBatch:
    """Of the method for the host, which copies: pyarrow prefers the device's, and knows no simulated devices."""
    got = pa.RecordBatch._import_from_c_capsule(*batch.__arrow_c_array__())
    got.validate(full=True)
    return got


@pytest.mark.simulated_devices(2, delay=0.001)
@pytest.mark.parametrize("name", VALUES)
def test_a_type_comes_back_from_a_device(simulated_devices, name):
    schema = pa.schema([pa.field("x", column(name).type, metadata={"unit": "furlongs"})], metadata={"origin": "here"})
    whole = pa.record_batch([column(name)], schema=schema)
    for part in (whole, whole.slice(1), whole.slice(0, 1), whole.slice(2), whole.slice(0, 0)):
        there = xd.RecordBatch(part).to("sim:0")
        assert str(there.device) == "ext_dev:0"
        assert in_pyarrow(there).equals(part, check_metadata=True)
        assert in_pyarrow(handed_over(there).to("cpu")).equals(part, check_metadata=True)
        assert in_pyarrow(handed_over(there).to("sim:1").to("cpu")).equals(part, check_metadata=True)


@pytest.mark.parametrize("name", columns_by_hand())
def test_what_pyarrow_cannot_make_comes_back_too(simulated_devices, name):
    array, _ = columns_by_hand()[name]
    batch = xd.RecordBatch(array)
    back = batch.to("sim:0").to("cpu")
    assert back.schema == batch.schema
    assert back.nbytes == batch.nbytes


@pytest.mark.simulated_devices(1, delay=0.002)
def test_all_types_in_one_batch_cost_one_allocation(simulated_devices):
    whole = pa.record_batch([column(name) for name in VALUES], names=list(VALUES))
    batch = xd.RecordBatch(whole)
    queue = xd.Queue.new("sim:0")
    before = simulated_devices.counters()
    there = batch.to("sim:0", queue=queue)
    after = simulated_devices.counters()
    assert after["allocate"] - before["allocate"] == 1
    assert after["copy"] - before["copy"] == 1, "small buffers go together"
    assert after["wait"] == before["wait"]
    assert in_pyarrow(there).equals(whole)


@pytest.mark.simulated_devices(1, delay=0.05)
def test_the_event_goes_along_and_is_waited_for(simulated_devices):
    queue = xd.Queue.new("sim:0")
    there = xd.RecordBatch(pa.record_batch({"x": [1, 2, 3]})).to("sim:0", queue=queue)
    _, capsule = there.__arrow_c_device_array__()
    address = address_of(capsule)
    event = ctypes.c_void_p.from_address(address + SYNC_EVENT).value
    assert event
    assert bytes((ctypes.c_char * 8).from_address(event)) == b"xd-event"
    assert (ctypes.c_int64 * 3).from_address(address + RESERVED)[:] == [0, 0, 0]
    # Another one each time: an event stands for what is on the queue at the moment of the hand-over.
    _, again = there.__arrow_c_device_array__()
    assert ctypes.c_void_p.from_address(address_of(again) + SYNC_EVENT).value not in (None, event)
    # Through another hand, the same event.
    other = handed_over(there)
    events = []
    for _ in range(2):
        _, capsule = other.__arrow_c_device_array__()
        events.append(ctypes.c_void_p.from_address(address_of(capsule) + SYNC_EVENT).value)
    assert events[0] == events[1] is not None
    there.wait()
    _, later = there.__arrow_c_device_array__()
    assert ctypes.c_void_p.from_address(address_of(later) + SYNC_EVENT).value is not None, "it stays on its queue"
    other.wait()
    _, ready = other.__arrow_c_device_array__()
    assert ctypes.c_void_p.from_address(address_of(ready) + SYNC_EVENT).value is None


@pytest.mark.simulated_devices(1, delay=0.005)
def test_a_failure_reaches_whoever_needs_the_data(simulated_devices):
    batch = xd.RecordBatch(pa.record_batch({"x": ["a", "b"]}))
    simulated_devices.fail_work(error=xd.SystemError("the copy engine burnt"))
    there = handed_over(batch.to("sim:0", queue=xd.Queue.new("sim:0")))
    for needs in (there.wait, there.__arrow_c_array__, lambda: there.to("cpu")):
        with pytest.raises(xd.SystemError, match="burnt"):
            needs()


def test_where_a_batch_is(simulated_devices):
    batch = xd.RecordBatch(pa.record_batch({"x": [1]}))
    assert batch.device == xd.Device("cpu")
    assert batch.to("cpu").__arrow_c_array__() is not None
    there = batch.to(xd.Device("sim:1"))
    assert there.device == "sim:1"
    assert "on ext_dev:1" in repr(there)
    assert "on " not in repr(batch).split("bytes")[1]
    with pytest.raises(TypeError, match="queue"):
        batch.to("sim:0", queue=object())
    with pytest.raises(ValueError, match="one of ext_dev:1"):
        batch.to("sim:0", queue=xd.Queue.new("sim:1"))
    queue = xd.Queue.new("sim:0")
    assert pa.record_batch(batch.to("sim:0", queue=queue).to("cpu", queue=queue)).equals(pa.record_batch(batch))
    with pytest.raises(xd.NotFoundError):
        batch.to("sim:7")


def test_keywords_of_the_device_method(simulated_devices):
    there = xd.RecordBatch(pa.record_batch({"x": [1]})).to("sim:0")
    assert len(there.__arrow_c_device_array__(None, later=None)) == 2
    with pytest.raises(NotImplementedError, match="later"):
        there.__arrow_c_device_array__(later=1)
    requested, _ = pa.record_batch({"x": [2]}).__arrow_c_array__()
    assert len(there.__arrow_c_device_array__(requested_schema=requested)) == 2


def test_an_unknown_device_is_carried_and_only_its_bytes_are_refused():
    pair = pa.record_batch({"x": [1, 2], "t": ["a", "b"], "v": pa.array(["x" * 20, "y"], pa.string_view())})
    schema, capsule = pair.__arrow_c_device_array__()
    address = address_of(capsule)
    ctypes.c_int32.from_address(address + DEVICE_TYPE).value = 77
    ctypes.c_int64.from_address(address + DEVICE_ID).value = 5
    (ctypes.c_int64 * 3).from_address(address + RESERVED)[:] = [1, 2, 3]
    batch = xd.RecordBatch(Gives((schema, capsule)))
    assert str(batch.device) == "device type 77:5"
    assert batch.num_rows == 2
    for needs in (lambda: batch.to("cpu"), batch.__arrow_c_array__):
        with pytest.raises(xd.UnsupportedError, match="77"):
            needs()
    _, out = batch.__arrow_c_device_array__()
    assert ctypes.c_int32.from_address(address_of(out) + DEVICE_TYPE).value == 77
    assert ctypes.c_int64.from_address(address_of(out) + DEVICE_ID).value == 5
    assert (ctypes.c_int64 * 3).from_address(address_of(out) + RESERVED)[:] == [0, 0, 0]
    # It was host memory all the time, which makes the round trip visible.
    ctypes.c_int32.from_address(address_of(out) + DEVICE_TYPE).value = 1
    got = pa.RecordBatch._import_from_c_device_capsule(batch.__arrow_c_schema__(), out)
    assert got.equals(pair)


def test_an_event_that_nobody_here_can_wait_for_goes_on_by_arrow_alone():
    numbers = pa.array([1, 2, 3])
    assert numbers.null_count == 0  # counted, so that it is told
    schema, capsule = numbers.__arrow_c_device_array__()
    address = address_of(capsule)
    event = ctypes.create_string_buffer(8)
    ctypes.c_int32.from_address(address + DEVICE_TYPE).value = 8  # Metal
    ctypes.c_int64.from_address(address + DEVICE_ID).value = 0
    ctypes.c_void_p.from_address(address + SYNC_EVENT).value = ctypes.addressof(event)
    tensor = xd.asarray(Gives((schema, capsule)))
    assert tensor.device == "metal:0"
    for wish in ({}, {"stream": -1}, {"copy": True}, {"dl_device": (1, 0)}):
        with pytest.raises(BufferError, match=r"only be exported by Arrow: .*metal"):
            tensor.__dlpack__(max_version=(1, 3), **wish)
    _, out = tensor.__arrow_c_device_array__()
    assert ctypes.c_void_p.from_address(address_of(out) + SYNC_EVENT).value == ctypes.addressof(event)


def test_the_devices_method_is_preferred_for_a_device(simulated_devices):
    there = xd.RecordBatch(pa.record_batch({"x": [1]})).to("sim:0")

    class Both(Gives):
        def __arrow_c_array__(self, requested_schema: object = None) -> object:
            raise AssertionError("that would be a copy on the host")

    assert xd.RecordBatch(Both(there.__arrow_c_device_array__())).device == "sim:0"


def test_nanoarrows_device_arrays_both_ways(simulated_devices):
    table = pa.record_batch({"x": [1, None, 3], "t": ["a", None, "ccc"]})
    batch = xd.RecordBatch(na_device.c_device_array(table))
    assert in_pyarrow(batch).equals(table)
    there = batch.to("sim:0")
    there.wait()
    seen = na_device.c_device_array(there)
    assert (seen.device_type_id, seen.device_id) == (12, 0)
    assert in_pyarrow(xd.RecordBatch(seen)).equals(table)
    back = na_device.c_device_array(there.to("cpu"))
    assert back.device_type_id == 1
    assert na.Array(back.array).to_pylist() == table.to_pylist()


HOSTILE = {
    "released": (64, 0, xd.InvalidDataError),
    "length below 0": (0, -1, xd.InvalidDataError),
    "length beyond its children": (0, 4, xd.InvalidDataError),
    "null count": (8, 1, xd.InvalidDataError),
    "offset below 0": (16, -1, xd.InvalidDataError),
    "offset beyond": (16, 1, xd.InvalidDataError),
    "no buffers": (24, 0, xd.InvalidDataError),
    "three buffers": (24, 3, xd.InvalidDataError),
    "no children": (32, 0, xd.InvalidDataError),
    "more children": (32, 9, xd.InvalidDataError),
    "no pointer to buffers": (40, 0, xd.InvalidDataError),
    "no pointer to children": (48, 0, xd.InvalidDataError),
}


@pytest.mark.parametrize("device", [1, 12, 77])
@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_structs_are_refused_and_released_once(what, device):
    schema, capsule = pa.record_batch({"x": [1, 2, 3], "t": ["a", "b", "c"]}).__arrow_c_device_array__()
    address = address_of(capsule)
    at, value, error = HOSTILE[what]
    field = ctypes.c_int64.from_address(address + at)
    right, field.value = field.value, value
    ctypes.c_int32.from_address(address + DEVICE_TYPE).value = device
    # The producer's own release needs its fields: the copy that we were given is put right before it runs.
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    theirs = ctypes.cast(ctypes.c_void_p.from_address(address + 64).value or right, release)
    released = []

    @release
    def counting(array: int) -> None:
        released.append(array)
        ctypes.c_int64.from_address(array + at).value = right
        ctypes.c_void_p.from_address(array + 64).value = ctypes.cast(theirs, ctypes.c_void_p).value
        theirs(array)

    if at != 64:
        ctypes.c_void_p.from_address(address + 64).value = ctypes.cast(counting, ctypes.c_void_p).value
    with pytest.raises(error):
        xd.RecordBatch(Gives((schema, capsule)))
    if at == 64:
        field.value = right
    else:
        del capsule
        assert len(released) == 1
