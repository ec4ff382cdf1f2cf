"""DLPack and Arrow's device streams on the fake of CUDA's library: exporters as torch's, streams of every number.

The exporters are plain Python and ctypes: nothing of ours is in them.
"""

from __future__ import annotations

import ctypes
import gc
from ctypes import (
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    py_object,
)
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from tests.cuda_fake_cases.cuda_array import CUDA, Memory, eventually, no_faults, on_the_fake, read

import crossdock as xd

__all__ = ["no_faults"]

# ---- a library like torch -------------------------------------------------------------------------------------------


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("byte_offset", c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [
        ("version", c_uint32 * 2),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", DLTensor),
    ]


class Table(ctypes.Structure):
    _fields_ = [
        ("version", c_uint32 * 2),
        ("previous", c_void_p),
        ("allocator", c_void_p),
        ("from_object", c_void_p),
        ("to_object", c_void_p),
        ("borrow", c_void_p),
        ("current_stream", c_void_p),
    ]


ALIVE: dict[int, Any] = {}
Deleter = ctypes.PYFUNCTYPE(None, c_void_p)


@Deleter
def delete(address: int) -> None:
    del ALIVE[address]


def new_capsule(address: int, name: bytes) -> Any:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = py_object, [c_void_p, c_char_p, c_void_p]
    return new(address, name, None)


def record(stream: int) -> c_void_p:
    event = c_void_p()
    CUDA("cuEventCreate", ctypes.byref(event), ctypes.c_uint(2))
    CUDA("cuEventRecord", event, c_void_p(stream))
    return event


class TorchLike:
    """Floats on a device, and the stream that its library works on."""

    current: ClassVar[int] = 1
    """What its library calls the current stream: the legacy default one, or another."""

    def __init__(self, array: np.ndarray) -> None:
        self.memory, self.array = Memory(array), array
        self.asked: list[Any] = []

    def managed(self) -> int:
        shape = (c_int64 * self.array.ndim)(*self.array.shape)
        strides = (c_int64 * self.array.ndim)(*(step // 4 for step in self.array.strides))
        made = Managed(version=(1, 3), deleter=ctypes.cast(delete, c_void_p))
        made.tensor = DLTensor(
            data=self.memory.pointer, device_type=2, device_id=0, ndim=self.array.ndim, code=2, bits=32, lanes=1,
            shape=ctypes.addressof(shape), strides=ctypes.addressof(strides),
        )  # fmt: skip
        ALIVE[ctypes.addressof(made)] = (made, shape, strides, self.memory)
        return ctypes.addressof(made)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, **more: Any) -> Any:
        self.asked.append(stream)
        if stream != -1:
            event = record(self.current)
            CUDA("cuStreamWaitEvent", c_void_p(1 if stream is None else stream), event, ctypes.c_uint(0))
            CUDA("cuEventDestroy_v2", event)
        return new_capsule(self.managed(), b"dltensor_versioned")


def with_exchange_api(kind: type[TorchLike]) -> type[TorchLike]:
    """The type with the table of C functions, as torch's."""

    def from_object(thing: TorchLike, out: int) -> int:
        c_void_p.from_address(out).value = thing.managed()
        return 0

    def current_stream(device: int, number: int, out: int) -> int:
        c_void_p.from_address(out).value = kind.current
        return 0

    functions = {
        "from_object": ctypes.PYFUNCTYPE(c_int, py_object, c_void_p)(from_object),
        "current_stream": ctypes.PYFUNCTYPE(c_int, c_int32, c_int32, c_void_p)(current_stream),
    }
    table = Table(version=(1, 3), **{name: ctypes.cast(function, c_void_p) for name, function in functions.items()})
    ALIVE[id(kind)] = (functions, table)
    return type("Exchanging", (kind,), {"__dlpack_c_exchange_api__": new_capsule(ctypes.addressof(table), API)})


API = b"dlpack_exchange_api"
Exchanging = with_exchange_api(TorchLike)


@pytest.fixture
def floats() -> np.ndarray:
    return np.arange(12, dtype="f4").reshape(3, 4)


@pytest.mark.parametrize("current", ["legacy", "its own"])
@pytest.mark.parametrize("by", ["dlpack", "exchange"])
def test_exporters_like_torch(floats: np.ndarray, by: str, current: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = 1 if current == "legacy" else CUDA.stream()
    monkeypatch.setattr(TorchLike, "current", stream)
    before = len(ALIVE)
    theirs = (TorchLike if by == "dlpack" else Exchanging)(floats)
    CUDA.slow_down(0.02)
    theirs.memory.fill(0, stream)
    ours = xd.asarray(theirs)
    assert (ours.pointer, ours.shape, ours.dtype) == (theirs.memory.pointer, (3, 4), "f4")
    assert ours.device == "cuda:0"
    assert ours.queue is not None
    assert ours.event is not None
    if by == "dlpack":
        assert theirs.asked == [ours.queue.native], "our queue is the stream that it was asked for"
    else:
        assert theirs.asked == [], "the table comes before the method"
        assert ours.queue.native == stream, "the current one of its library"
    np.testing.assert_array_equal(read(ours[::-1]), np.zeros((3, 4)))
    del ours, theirs
    assert eventually(lambda: len(ALIVE) == before)


def test_from_dlpack_asks_the_table_unless_it_has_options(floats: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TorchLike, "current", CUDA.stream())
    theirs = Exchanging(floats)
    CUDA.slow_down(0.02)
    theirs.memory.fill(0, TorchLike.current)
    ours = xd.from_dlpack(theirs)
    assert theirs.asked == []
    assert (ours.pointer, ours.queue.native) == (theirs.memory.pointer, TorchLike.current)
    np.testing.assert_array_equal(read(ours), np.zeros((3, 4)))
    for options in ({"device": "cuda:0"}, {"copy": False}):
        theirs.asked.clear()
        assert xd.from_dlpack(theirs, **options).pointer == theirs.memory.pointer
        assert len(theirs.asked) == 1, "by the method, which takes them"


@on_the_fake
@pytest.mark.parametrize("by", ["dlpack", "exchange"])
def test_an_exporter_that_orders_nothing_is_a_race(
    floats: np.ndarray, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the test above would lose: else it couldn't fail."""
    stream = CUDA.stream()
    monkeypatch.setattr(TorchLike, "current", CUDA.stream())  # another than the one that it works on
    theirs = (TorchLike if by == "dlpack" else Exchanging)(floats)
    CUDA.slow_down(0.02)
    theirs.memory.fill(0, stream)
    with pytest.raises(xd.SystemError):
        xd.asarray(theirs).to("cpu")
    assert CUDA.faults() >= 1
    CUDA.library.cuCtxSynchronize()
    CUDA.reset()


# ---- `stream` of our own __dlpack__ ---------------------------------------------------------------------------------


def pointer_of(capsule: Any) -> int:
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = c_void_p, [py_object, c_char_p]
    return Managed.from_address(get_pointer(capsule, b"dltensor_versioned")).tensor.data


def consume(capsule: Any, stream: int, like: np.ndarray) -> np.ndarray:
    """What a consumer reads that works on this stream, and waits for nothing else."""
    out = np.full_like(like, -1)
    there = c_uint64(pointer_of(capsule))
    CUDA("cuMemcpyDtoHAsync_v2", c_void_p(out.ctypes.data), there, c_size_t(out.nbytes), c_void_p(stream))
    CUDA("cuStreamSynchronize", c_void_p(stream))
    return out


@pytest.mark.parametrize("stream", [None, 1, 2, "its own"])
def test_the_consumers_stream_comes_after_our_work(floats: np.ndarray, stream: Any) -> None:
    theirs = CUDA.stream() if stream == "its own" else stream
    queue = xd.Queue("cuda:0")
    CUDA.slow_down(0.3)
    there = xd.asarray(floats).to("cuda:0", queue=queue)
    assert there.event is not None
    assert CUDA.under_way(there.event)
    capsule = there.__dlpack__(stream=theirs, max_version=(1, 3))
    assert CUDA.under_way(there.event), "nothing is waited for"
    np.testing.assert_array_equal(consume(capsule, theirs or 1, floats), floats)


@on_the_fake
def test_minus_one_asks_for_no_order(floats: np.ndarray) -> None:
    queue = xd.Queue("cuda:0")
    stream = CUDA.stream()
    CUDA.slow_down(0.03)
    there = xd.asarray(floats).to("cuda:0", queue=queue)
    capsule = there.__dlpack__(stream=-1, max_version=(1, 3))
    out = np.full_like(floats, -1)
    memory = c_uint64(pointer_of(capsule))
    CUDA("cuMemcpyDtoHAsync_v2", c_void_p(out.ctypes.data), memory, c_size_t(out.nbytes), c_void_p(stream))
    CUDA.library.cuStreamSynchronize(c_void_p(stream))
    assert CUDA.faults() >= 1, "the consumer was to see to it, and didn't"
    CUDA.library.cuCtxSynchronize()
    CUDA.reset()


@pytest.mark.parametrize("stream", [0, -2, True, 1.0, "1", 1 << 64])
def test_streams_that_cuda_hasnt(floats: np.ndarray, stream: Any) -> None:
    there = xd.asarray(floats).to("cuda:0")
    with pytest.raises((ValueError, TypeError, OverflowError)):
        there.__dlpack__(stream=stream)


# ---- Arrow's events -------------------------------------------------------------------------------------------------

SYNC_EVENT = 96  # in an ArrowDeviceArray


def status_of_event(exported: Any) -> int | None:
    """What CUDA says of the event that sync_event points to; it lives as long as the exported array."""
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = c_void_p, [py_object, c_char_p]
    _, capsule = exported.__arrow_c_device_array__()
    cell = c_void_p.from_address(get_pointer(capsule, b"arrow_device_array") + SYNC_EVENT).value
    return None if cell is None else int(CUDA.library.cuEventQuery(c_void_p.from_address(cell)))


def test_sync_event_is_one_of_cudas(floats: np.ndarray) -> None:
    queue = xd.Queue("cuda:0")
    CUDA.slow_down(0.05)
    tensor = xd.asarray(floats.ravel()).to("cuda:0", queue=queue)
    batch = xd.RecordBatch(pa.record_batch({"x": [1, 2, 3]})).to("cuda:0", queue=queue)
    for exported in (tensor, batch):
        assert status_of_event(exported) in ((600,) if CUDA.is_fake else (0, 600)), "CUDA_ERROR_NOT_READY"
    queue.wait()


def test_the_checker_asks_cuda_about_events(floats: np.ndarray) -> None:
    queue = xd.Queue("cuda:0")
    for make in (
        lambda: xd.asarray(floats.ravel()).to("cuda:0", queue=queue),
        lambda: xd.RecordBatch(pa.record_batch({"x": [1, 2, 3]})).to("cuda:0", queue=queue),
    ):
        report = xd.check(make, protocols=["arrow-device-array"])
        assert list(report) == [], str(report)


@on_the_fake  # CUDA itself may look into what it is given
def test_the_checker_finds_events_that_arent_cudas() -> None:
    queue = xd.Queue("cuda:0")

    class EventOfNobody:
        """The event that its array shows isn't CUDA's."""

        def __init__(self) -> None:
            self.batch = xd.RecordBatch(pa.record_batch({"x": [1]})).to("cuda:0", queue=queue)
            self.event = ctypes.create_string_buffer(64)
            self.cell = c_void_p(ctypes.addressof(self.event))

        def __arrow_c_device_array__(self, requested_schema: object = None, **keywords: object) -> Any:
            pair = self.batch.__arrow_c_device_array__(requested_schema, **keywords)
            get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
            get_pointer.restype, get_pointer.argtypes = c_void_p, [py_object, c_char_p]
            address = get_pointer(pair[1], b"arrow_device_array")
            c_void_p.from_address(address + SYNC_EVENT).value = ctypes.addressof(self.cell)
            return pair

    wrong = EventOfNobody()
    rules = {finding.rule for finding in xd.check(wrong).errors}
    assert rules == {"arrow-device-event-handle"}


def test_a_device_stream_with_events_of_cudas() -> None:
    queue = xd.Queue("cuda:0")
    table = pa.table({"x": list(range(1000)), "t": [str(number) for number in range(1000)]})
    CUDA.slow_down(0.02)
    batches = [xd.RecordBatch(batch).to("cuda:0", queue=queue) for batch in table.to_batches(max_chunksize=300)]
    reader = xd.RecordBatchReader(batches)

    class Producer:
        def __arrow_c_device_stream__(self, requested_schema: object = None, **keywords: object) -> Any:
            return reader.__arrow_c_device_stream__(requested_schema, **keywords)

    taken = list(xd.RecordBatchReader(Producer()))
    assert all(status_of_event(batch) in (0, 600) for batch in taken)
    assert all(batch.device == "cuda:0" for batch in taken)
    del batches
    gc.collect()
    across = [batch.to(f"cuda:{CUDA.devices - 1}") for batch in taken]
    assert pa.table(xd.RecordBatchReader(across)).equals(table)
    assert pa.table(xd.RecordBatchReader(taken)).equals(table)
