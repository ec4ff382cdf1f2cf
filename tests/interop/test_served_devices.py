"""Batches on (simulated) devices are served and written as host data is, with the fewest copies."""

from __future__ import annotations

import ctypes
import pathlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from tests.device_allocations import live_allocations
from tests.interop.every_type import VALUES, column

import crossdock as xd

ROWS = [
    pa.record_batch({"x": pa.array([1, 2, 3]), "t": ["a", None, "ccc"]}),
    pa.record_batch({"x": pa.array([4, None]), "t": ["d", "ee"]}),
]
TABLE = pa.Table.from_batches(ROWS)
# x, and its validity where there are nulls; offsets, bytes and validity of t.
BYTES = (24 + 16 + 4 + 1) + (16 + 1 + 12 + 3)
PADDING = 7 * 63
DEVICE_TYPE = 88  # in an ArrowDeviceArray; 0 in a device stream


class OnDevice:
    """Another library's object, whose methods for the host must not be called: they would copy."""

    def __init__(self, source: Any, device_type: int | None = None) -> None:
        self.source, self.device_type = source, device_type

    def named(self, capsule: object, name: bytes, offset: int) -> object:
        if self.device_type is not None:
            get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
            get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            ctypes.c_int32.from_address(get_pointer(capsule, name) + offset).value = self.device_type
        return capsule


class Batch(OnDevice):
    def __arrow_c_device_array__(self, requested_schema: object = None, **keywords: object) -> object:
        schema, array = self.source.__arrow_c_device_array__()
        return schema, self.named(array, b"arrow_device_array", DEVICE_TYPE)

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        raise AssertionError("that would be a copy on the host")


class Stream(OnDevice):
    def __arrow_c_device_stream__(self, requested_schema: object = None, **keywords: object) -> object:
        capsule = xd.RecordBatchReader(self.source).__arrow_c_device_stream__()
        return self.named(capsule, b"arrow_device_array_stream", 0)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise AssertionError("that would be a copy on the host")


WAYS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "list": (lambda batches: [Batch(batch) for batch in batches], "auto"),
    "stream, whole": (Stream, "table"),
    "reader, whole": (xd.RecordBatchReader, "table"),
    "stream": (Stream, "auto"),
    "reader": (xd.RecordBatchReader, "auto"),
    "list, live": (lambda batches: [Batch(batch) for batch in batches], "live"),
    "callable": (lambda batches: lambda: Stream(batches), "auto"),
    "iterator": (lambda batches: iter([Batch(batch) for batch in batches]), "auto"),
    "callable, list": (lambda batches: lambda: [Batch(batch) for batch in batches], "auto"),
}
ERRORS = (xd.Error, OSError, pa.ArrowException)  # of the publisher, and of pyarrow as the consumer
every_way = pytest.mark.parametrize("way", WAYS)
carriers = pytest.mark.parametrize("uri", ["shm:", "tcp:", "ucx://127.0.0.1:0", "fabric://127.0.0.1:0"])


def there(batches: list[pa.RecordBatch] = ROWS, queue: xd.Queue | None = None) -> list[xd.RecordBatch]:
    return [xd.RecordBatch(batch).to("sim:0", queue=queue) for batch in batches]


def server_at(uri: str) -> xd.Server:
    try:
        return xd.Server(uri=uri)
    except xd.UnsupportedError as error:
        pytest.skip(str(error))


def served(way: str, batches: list[xd.RecordBatch], uri: str = "shm:") -> tuple[pa.Table, dict[str, Any]]:
    make, mode = WAYS[way]
    with server_at(uri) as server:
        server.publish("t", make(batches), mode=mode)
        with xd.connect(server.uri) as client:
            table = pa.table(client.get("t"))
        return table, server.stats()["sources"][0]


@carriers
@every_way
@pytest.mark.simulated_devices(1, delay=0.002)
def test_a_device_is_served_with_the_fewest_copies(simulated_devices, way, uri):
    batches = there(queue=xd.Queue.new("sim:0"))
    before = simulated_devices.counters()
    table, stats = served(way, batches, uri)
    assert table.equals(TABLE)
    copied = simulated_devices.counters()["bytes_copied"] - before["bytes_copied"]
    assert stats["bytes_copied"] == copied
    if stats["kind"] == "table":
        # On the device, for consumers that want it there; and to the host with the padding between buffers.
        assert 2 * BYTES <= copied <= 2 * BYTES + PADDING
    else:
        assert copied == BYTES
    assert stats["kind"] in ("table", "live", "factory")
    del batches
    assert live_allocations(simulated_devices, 0) == 0


@carriers
@pytest.mark.simulated_devices(2, delay=0.002)
def test_a_live_stream_of_a_device_goes_through_the_host_by_one_copy_each(simulated_devices, uri):
    """Batches are made while they are read, on a queue of the producer's; no more of them than the consumer takes."""
    queue = xd.Queue.new("sim:0")
    made = 0

    def batches():
        nonlocal made
        for n in range(40):
            made += 1
            yield xd.RecordBatch(pa.record_batch({"n": [n] * 1000, "t": [str(n)] * 1000})).to("sim:0", queue=queue)

    with server_at(uri) as server:
        server.publish("t", batches)
        with xd.connect(server.uri) as client:
            before = simulated_devices.counters()["bytes_copied"]
            expected = 0
            for device in (None, "sim:1"):
                reader = client.get("t", device=device)
                for n, batch in enumerate(reader):
                    assert batch.device == (device or "cpu")
                    rows = pa.record_batch(batch.to("cpu"))
                    assert rows.to_pydict() == {"n": [n] * 1000, "t": [str(n)] * 1000}
                    expected += rows.nbytes + 4  # pyarrow leaves the last offset out
                assert n == 39
                assert bool(reader.bytes_copied) == (device is not None)
                del batch, reader
            assert made == 80
            assert server.stats()["sources"][0]["bytes_copied"] == expected
            # To the device, to the host, and for device="sim:1" there and back.
            copied = simulated_devices.counters()["bytes_copied"] - before
            assert copied == pytest.approx(3 * expected, rel=0.05)
        assert server.stats()["protocol_errors"] == 0
    assert live_allocations(simulated_devices, 0) == 0


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("way", ["list", "stream"])
def test_every_type_and_every_slice_is_served(simulated_devices, name, way):
    whole = pa.record_batch({"x": column(name)})
    for batch in (whole, whole.slice(1), whole.slice(1, 1), whole.slice(0, 0)):
        (on_device,) = there([batch])
        here, _ = served(way, [xd.RecordBatch(batch)])
        table, _ = served(way, [on_device])
        table.validate(full=True)
        assert table.equals(here)


def test_what_a_slice_on_a_device_needs_is_cut(simulated_devices):
    """A bitmap that begins within a byte and offsets that begin above 0 are written anew, where the copy lies."""
    batch = pa.record_batch({"x": [1, None, 3, None], "t": ["aaaaaaaa", "bb", "c", None]}).slice(1)
    got, stats = served("list", [xd.RecordBatch(batch)])
    same, of_device = served("list", there([batch]))
    assert got.equals(same)
    assert (of_device["bytes"], of_device["rows"]) == (stats["bytes"], 3)


@pytest.mark.parametrize("way", ["list", "stream", "callable"])
def test_a_dictionary_that_batches_share_is_copied_once(simulated_devices, way):
    values = pa.array(["x" * 1000, "y" * 1000])
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1], pa.int32()), values)
    whole = xd.RecordBatch(pa.record_batch({"d": column})).to("sim:0")
    before = simulated_devices.counters()["bytes_copied"]
    table, stats = served(way, [whole, whole, whole])
    assert table == pa.table({"d": pa.chunked_array([column] * 3)})
    copied = simulated_devices.counters()["bytes_copied"] - before
    assert stats["bytes_copied"] == copied
    times = 2 if stats["kind"] == "table" else 1  # on the device, and to the host
    assert 0 <= copied - times * (2000 + 12 + 3 * 16) <= (PADDING if times == 2 else 0)


def test_a_batch_alone_and_a_tensor_are_tables(simulated_devices):
    for source, expected in (
        (there()[0], TABLE[:3]),
        (Batch(there()[0]), TABLE[:3]),
        (xd.asarray(memoryview(b"abc")).to("sim:0"), pa.table({"": pa.array([97, 98, 99], pa.uint8())})),
    ):
        with xd.serve({}) as server, xd.connect(server.uri) as client:
            server.publish("t", source, mode="table")
            assert pa.table(client.get("t")).to_pydict() == expected.to_pydict()
            assert server.stats()["sources"][0]["kind"] == "table"


@pytest.mark.simulated_devices(1, delay=0.002)
@every_way
def test_a_device_is_written_to_a_file(simulated_devices, way, tmp_path):
    make, _ = WAYS[way]
    path = tmp_path / "t.arrow"
    batches = there(queue=xd.Queue.new("sim:0"))
    before = simulated_devices.counters()["bytes_copied"]
    xd.write(make(batches), path)
    assert pa.table(xd.open(path)).equals(TABLE)
    assert simulated_devices.counters()["bytes_copied"] - before == BYTES


@every_way
def test_a_failure_of_the_device_reaches_the_publisher_or_the_consumer(simulated_devices, way):
    """Nothing is served in place of what failed: neither before the copy, nor in the copy."""
    for fail_first in (True, False):
        batches = there(queue=xd.Queue.new("sim:0"))
        if fail_first:
            simulated_devices.fail_work()
            batches[1] = xd.RecordBatch(ROWS[1]).to("sim:0", queue=xd.Queue.new("sim:0"))
        else:
            simulated_devices.fail_work(after=2)
        with pytest.raises(ERRORS, match=r"arranged by crossdock\.testing"):
            served(way, batches)
        batches.clear()
        simulated_devices.reset_counters()


@pytest.mark.parametrize("kind", [10, 4, 99], ids=["rocm", "opencl", "unknown"])
def test_a_device_without_a_driver_is_one_error_everywhere(tmp_path: pathlib.Path, kind: int) -> None:
    text = r"no driver for memory of (rocm|opencl|device type 99); drivers: host"
    batches = [xd.RecordBatch(batch) for batch in ROWS]
    sources: list[Callable[[], Any]] = [
        lambda: Batch(batches[0], kind),
        lambda: [Batch(batch, kind) for batch in batches],
        lambda: Stream(batches, kind),
        lambda: xd.RecordBatchReader(Stream(batches, kind)),
        lambda: xd.RecordBatch(Batch(batches[0], kind)),
    ]
    with xd.Server() as server:
        for make in sources:
            for mode in ("table", "live"):
                with pytest.raises(xd.UnsupportedError, match=text):
                    server.publish("t", make(), mode=mode)
            with pytest.raises(xd.UnsupportedError, match=text):
                xd.serve({"t": make()})
            with pytest.raises(xd.UnsupportedError, match=text):
                xd.write(make(), tmp_path / "t.arrow")
            server.publish("t", make, replace=True)
            with xd.connect(server.uri) as client, pytest.raises(xd.RemoteError, match=text):
                pa.table(client.get("t"))


def test_the_producer_copies_where_no_driver_does(tmp_path: pathlib.Path) -> None:
    class BatchOfBoth(Batch):
        def __arrow_c_array__(self, requested_schema: object = None) -> Any:
            return ROWS[0].__arrow_c_array__()

    class StreamOfBoth(Stream):
        def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
            return TABLE.__arrow_c_stream__()

    batches = [xd.RecordBatch(batch) for batch in ROWS]
    for source, expected in (
        (BatchOfBoth(batches[0], 10), TABLE[:3]),
        ([BatchOfBoth(batches[0], 10)], TABLE[:3]),
        (StreamOfBoth(batches, 10), TABLE),
    ):
        with xd.serve({"t": source}) as server, xd.connect(server.uri) as client:
            assert pa.table(client.get("t")) == expected
        xd.write(source, tmp_path / "t.arrow")
        assert pa.table(xd.open(tmp_path / "t.arrow")) == expected


def test_batches_of_two_kinds_of_memory_are_an_error(simulated_devices, tmp_path):
    with xd.Server() as server:
        for mixed, text in (
            ([there()[0], xd.RecordBatch(ROWS[1])], "a batch on cpu after one on ext_dev:0"),
            (Stream(there(), 13), "ext_dev:0 in a stream of device type 13"),
        ):
            with pytest.raises(ValueError, match=text):
                server.publish("t", mixed, mode="table")
            with pytest.raises(ValueError, match=text):
                xd.write(mixed, tmp_path / "t.arrow")
        server.publish("t", lambda: Stream(there(), 13))
        with xd.connect(server.uri) as client, pytest.raises(OSError, match="in a stream of device type 13"):
            pa.table(client.get("t"))


SYNC_EVENT = 96  # in an ArrowDeviceArray


class Event(Batch):
    """A batch with an event that nobody here can wait for."""

    def __arrow_c_device_array__(self, requested_schema: object = None, **keywords: object) -> object:
        schema, array = super().__arrow_c_device_array__()
        get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
        get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        ctypes.c_void_p.from_address(get_pointer(array, b"arrow_device_array") + SYNC_EVENT).value = 64
        return schema, array


@every_way
@pytest.mark.parametrize("kind", [3, 11, 13], ids=["cuda_host", "rocm_host", "cuda_managed"])
def test_memory_that_the_host_reads_needs_no_driver(way: str, kind: int, tmp_path: pathlib.Path) -> None:
    batches = [xd.RecordBatch(Batch(xd.RecordBatch(batch), kind)) for batch in ROWS]
    assert str(batches[0].device) == f"{('cuda_host', 'rocm_host', 'cuda_managed')[(3, 11, 13).index(kind)]}:-1"
    table, stats = served(way, batches)
    assert (table, stats["bytes_copied"]) == (TABLE, BYTES)
    xd.write(WAYS[way][0](batches), tmp_path / "t.arrow")
    assert pa.table(xd.open(tmp_path / "t.arrow")) == TABLE


@every_way
def test_an_event_that_nobody_can_wait_for_is_an_error(way: str, tmp_path: pathlib.Path) -> None:
    batches = [xd.RecordBatch(Event(xd.RecordBatch(batch), 11)) for batch in ROWS]
    with pytest.raises(ERRORS, match="no driver for memory of rocm_host"):
        served(way, batches)
    with pytest.raises(xd.Error, match="no driver for memory of rocm_host"):
        xd.write(WAYS[way][0](batches), tmp_path / "t.arrow")
