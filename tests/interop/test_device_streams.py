"""Streams of batches on (simulated) devices, by Arrow's device stream: in, through, and out again."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.device_allocations import live_allocations

import crossdock as xd

SCHEMA = pa.schema([pa.field("x", pa.int64()), pa.field("t", pa.string())], metadata={"origin": "here"})
BATCHES = [
    pa.record_batch({"x": [1, 2, 3], "t": ["a", None, "ccc"]}, schema=SCHEMA),
    pa.record_batch({"x": [4], "t": ["d"]}, schema=SCHEMA),
]
TABLE = pa.Table.from_batches(BATCHES)
SYNC_EVENT = 96  # in an ArrowDeviceArray
NAME = b"arrow_device_array_stream"


class Streams:
    """Another library's object, which has nothing but a device stream."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def __arrow_c_device_stream__(self, requested_schema: object = None, **keywords: object) -> object:
        return self.make()


def pointer_in(capsule: object, name: bytes) -> int:
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get_pointer(capsule, name)


def there(device: str = "sim:0", queue: xd.Queue | None = None) -> list[xd.RecordBatch]:
    return [xd.RecordBatch(batch).to(device, queue=queue) for batch in BATCHES]


def stream_of(batches: Any) -> Streams:
    reader = xd.RecordBatchReader(batches)
    return Streams(reader.__arrow_c_device_stream__)


def in_pyarrow(batch: xd.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch._import_from_c_capsule(*batch.__arrow_c_array__())


def test_batches_come_from_any_stream():
    for source in (TABLE, TABLE.to_reader(), BATCHES, TABLE.to_batches(), BATCHES[0]):
        reader = xd.RecordBatchReader(source)
        assert pa.schema(reader.schema).names == ["x", "t"]
        assert [pa.record_batch(batch) for batch in reader] == (BATCHES if source is not BATCHES[0] else BATCHES[:1])
        assert list(reader) == []
    assert pa.table(xd.RecordBatchReader(TABLE)) == TABLE
    column = xd.RecordBatchReader(pa.chunked_array([[1, 2], [3]]))
    assert [len(batch) for batch in column] == [2, 1]
    with pytest.raises(
        TypeError, match=r"has none of __arrow_c_stream__, __arrow_c_device_stream__, __arrow_c_array__"
    ):
        xd.RecordBatchReader(5)
    for wrong in ([5], [BATCHES[0], "x"], [TABLE]):
        with pytest.raises(TypeError, match=r"a list must hold record batches"):
            xd.RecordBatchReader(wrong)
    with pytest.raises(ValueError, match="has no schema"):
        xd.RecordBatchReader([])


@pytest.mark.simulated_devices(1, delay=0.05)
def test_a_devices_stream_keeps_device_and_events(simulated_devices):
    queue = xd.Queue("sim:0")
    batches = there(queue=queue)
    before = simulated_devices.counters()
    # Twice through the C structures.
    reader = xd.RecordBatchReader(stream_of(stream_of(batches)))
    taken = list(reader)
    assert [str(batch.device) for batch in taken] == ["ext_dev:0", "ext_dev:0"]
    for batch in taken:
        _, capsule = batch.__arrow_c_device_array__()
        address = pointer_in(capsule, b"arrow_device_array")
        assert ctypes.c_void_p.from_address(address + SYNC_EVENT).value is not None
    after = simulated_devices.counters()
    assert (after["copy"], after["wait"]) == (before["copy"], before["wait"]), "nothing is copied, nothing waited for"
    del batches, reader
    gc.collect()
    for batch, expected in zip(taken, BATCHES, strict=True):
        assert in_pyarrow(batch.to("cpu")).equals(expected, check_metadata=True)


@pytest.mark.simulated_devices(1, delay=0.01)
def test_the_cpus_method_copies_to_the_host(simulated_devices):
    assert pa.table(xd.RecordBatchReader(there(queue=xd.Queue("sim:0")))).equals(TABLE, check_metadata=True)
    with xd.serve({"t": xd.RecordBatchReader(there())}) as server, xd.connect(server.uri) as client:
        assert pa.table(client.get("t")).equals(TABLE)


def test_an_array_of_another_device_than_its_stream_is_refused(simulated_devices):
    reader = xd.RecordBatchReader(there())
    capsule = reader.__arrow_c_device_stream__()
    ctypes.c_int32.from_address(pointer_in(capsule, NAME)).value = 2
    wrong = xd.RecordBatchReader(Streams(lambda: capsule))
    for _ in range(2):
        with pytest.raises(ValueError, match=r"an array on ext_dev:0 in a stream of device type 2"):
            next(wrong)


def test_a_stream_is_read_once(simulated_devices):
    capsule = xd.RecordBatchReader(there()).__arrow_c_device_stream__()
    reader = xd.RecordBatchReader(Streams(lambda: capsule))
    with pytest.raises(ValueError, match="already consumed"):
        xd.RecordBatchReader(Streams(lambda: capsule))
    whole = reader.__arrow_c_device_stream__()
    with pytest.raises(xd.ConsumedError):
        next(reader)
    begun = xd.RecordBatchReader(Streams(lambda: whole))
    assert len(next(begun)) == 3
    with pytest.raises(xd.ConsumedError):
        begun.__arrow_c_device_stream__()
    assert [len(batch) for batch in begun] == [1]
    with pytest.raises(NotImplementedError, match="later"):
        xd.RecordBatchReader(there()).__arrow_c_device_stream__(later=1)


def test_closing_lets_go_of_the_source(simulated_devices):
    with xd.RecordBatchReader(stream_of(there())) as reader:
        batch = next(reader)
    with pytest.raises(xd.ClosedError):
        next(reader)
    assert "closed" in repr(reader)
    assert in_pyarrow(batch.to("cpu")).equals(BATCHES[0])
    del batch, reader
    assert live_allocations(simulated_devices, 0) == 0


def test_a_device_without_a_driver_is_carried():
    capsule = xd.RecordBatchReader(BATCHES).__arrow_c_device_stream__()
    ctypes.c_int32.from_address(pointer_in(capsule, NAME)).value = 8
    reader = xd.RecordBatchReader(Streams(lambda: capsule))
    with pytest.raises(ValueError, match="an array on cpu"):
        next(reader)
    empty = xd.RecordBatchReader([BATCHES[0].slice(0, 0)])
    assert [len(batch) for batch in xd.RecordBatchReader(Streams(empty.__arrow_c_device_stream__))] == [0]


def test_a_stream_of_one_batch_is_a_batch_and_of_one_column_a_tensor(simulated_devices):
    assert in_pyarrow(xd.RecordBatch(stream_of(there()[:1]))).equals(BATCHES[0])
    assert xd.RecordBatch(stream_of(there()[:1])).device == "sim:0"
    assert pa.record_batch(xd.RecordBatch(pa.table(TABLE[:2]))).equals(BATCHES[0][:2])
    with pytest.raises(BufferError, match="2 chunks"):
        xd.RecordBatch(stream_of(there()))
    column = xd.RecordBatch(pa.record_batch({"x": [1.5, 2.5]})).to("sim:0", queue=xd.Queue("sim:0"))
    for read in (xd.asarray, xd.from_arrow):
        tensor = read(stream_of([column]))
        assert (tensor.device, tensor.readonly, tensor.shape) == ("sim:0", True, (2,))
        assert tensor.event is not None
        np.testing.assert_array_equal(np.asarray(tensor.to("cpu")), [1.5, 2.5])


def test_the_checker_finds_nothing_wrong(simulated_devices):
    queue = xd.Queue("sim:0")
    report = xd.check(lambda: xd.RecordBatchReader(there(queue=queue)))
    assert set(report.protocols) == {"dlpack", "arrow-schema", "arrow-device-stream", "arrow-stream"}
    assert list(report) == [], str(report)
    report = xd.check(lambda: there(queue=queue)[0])
    assert list(report) == [], str(report)
