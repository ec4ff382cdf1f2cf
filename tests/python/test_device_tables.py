"""Tables in memory of a device, handed over without a copy; simulated devices, in one process and in two."""

from __future__ import annotations

import ctypes
import gc
import random
import threading

import pyarrow as pa
import pytest
from tests.device_allocations import live_allocations
from tests.interop.arrow_data import Maker

import crossdock as xd

BATCH = pa.record_batch(
    {
        "n": pa.array([*range(999), None]),
        "s": pa.array([str(n) for n in range(1000)]),
        "d": pa.array(["a", "b"] * 500).dictionary_encode(),
        "l": pa.array([[n, n] for n in range(1000)]),
        "b": pa.array([n % 3 == 0 for n in range(1000)]),
    }
)


def there(batch: pa.RecordBatch, device: str = "sim:1") -> xd.RecordBatch:
    return xd.RecordBatch(batch).to(device)


def here(batch: xd.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch(batch.to("cpu"))


def calls(simulated_devices, *verbs: str) -> dict[str, int]:
    counted = simulated_devices.counters()
    return {verb: counted[verb] for verb in verbs}


def test_a_table_is_opened_not_copied(simulated_devices):
    with xd.serve({"t": [there(BATCH)] * 3}) as server, xd.connect(server.uri) as client:
        (source,) = server.stats()["sources"]
        assert source["bytes_copied"] >= 3 * BATCH.nbytes * 0.9
        assert [entry.device for entry in client.list()] == ["ext_dev:1"]
        before = calls(simulated_devices, "import_memory", "copy", "allocate")
        for _ in range(2):
            reader = client.get("t", device="sim:1")
            batches = list(reader)
            assert [batch.device for batch in batches] == ["sim:1"] * 3
            assert reader.bytes_copied == 0
            after = calls(simulated_devices, "import_memory", "copy", "allocate")
            # The first slab is for the first batch and its dictionary each, later ones are as large as all before.
            # What the first round has opened and still holds stays open.
            assert 1 <= after["import_memory"] - before["import_memory"] <= 4
            assert (after["copy"], after["allocate"]) == (before["copy"], before["allocate"])
            (one,) = [one for one in server.stats()["consumers"] if one["leases"] > 0]
            assert (one["way"], one["carrier"]) == ("map", "shm")
        for batch in batches:
            assert here(batch).equals(BATCH)
        del batches, batch


def test_what_is_handed_over_is_the_servers_memory_of_another_process(simulated_devices, script):
    server = script("""
        import pyarrow as pa, crossdock as xd, sys
        from crossdock.testing import simulated_devices
        with simulated_devices(2) as devices:
            table = pa.table({"n": list(range(100_000)), "s": [str(n) for n in range(100_000)]})
            batches = [xd.RecordBatch(batch).to("sim:1") for batch in table.to_batches(max_chunksize=30_000)]
            with xd.serve({"t": batches}) as server:
                print(server.uri, flush=True)
                copied = devices.counters()["bytes_copied"]
                sys.stdin.readline()
                print(devices.counters()["bytes_copied"] - copied, flush=True)
                sys.stdin.readline()
    """)
    with xd.connect(server.read_line()) as client:
        before = simulated_devices.counters()
        reader = client.get("t", device="sim:1")
        batches = list(reader)
        after = simulated_devices.counters()
        assert after["bytes_copied"] == before["bytes_copied"]
        assert after["allocate"] == before["allocate"]
        assert after["import_memory"] - before["import_memory"] <= 4
        server.write_line()
        assert server.read_line() == "0", "the server copies nothing for a consumer"
        table = pa.Table.from_batches([here(batch) for batch in batches])
        assert table["n"].to_pylist() == list(range(100_000))
        assert table["s"].to_pylist() == [str(n) for n in range(100_000)]
        # The memory stays open after the server has gone.
        held = batches[0]
        del batches
        server.write_line()
        server.finish()
        assert here(held)["n"].to_pylist() == list(range(30_000))
        del held, reader, table
    gc.collect()


def test_others_get_one_copy_on_the_host(simulated_devices):
    with xd.serve({"t": there(BATCH)}, ["shm:", "tcp:"]) as server:
        first = server.stats()["sources"][0]["bytes_copied"]
        seen = set()
        for uri in (server.uris[0], server.uris[0], server.uris[1]):
            with xd.connect(uri) as client:
                reader = client.get("t")
                batch = next(reader)
                assert batch.device == "cpu"
                (one,) = [one for one in server.stats()["consumers"] if one["why"]]
                assert "copy on the host" in one["why"]
                seen.add((one["carrier"], one["way"]))
                assert pa.record_batch(batch).equals(BATCH)
                copied = server.stats()["sources"][0]["bytes_copied"] - first
                assert copied >= BATCH.nbytes * 0.9
                del batch, reader
        assert seen == {("shm", "map"), ("tcp", "message")}
        assert server.stats()["sources"][0]["bytes_copied"] - first == copied, "it is made once"


@pytest.mark.simulated_devices(3)
def test_another_device_gets_a_counted_copy(simulated_devices):
    with xd.serve({"t": there(BATCH), "host": BATCH}) as server, xd.connect(server.uri) as client:
        for name in ("t", "host"):
            reader = client.get(name, device="sim:2")
            (batch,) = reader
            assert batch.device == "sim:2"
            assert reader.bytes_copied == pytest.approx(BATCH.nbytes, rel=0.1)
            assert here(batch).equals(BATCH)
            del batch
        assert client.get("host").bytes_copied == 0
        (selected,) = client.get("t", columns=["s", "d"], device="sim:1")
        assert selected.device == "sim:1"
        assert here(selected).equals(BATCH.select(["s", "d"]))
        del selected


def test_over_tcp_batches_are_copied_to_the_device(simulated_devices):
    with xd.serve({"t": there(BATCH)}, "tcp:") as server, xd.connect(server.uri) as client:
        reader = client.get("t", device="sim:1")
        (batch,) = reader
        assert batch.device == "sim:1"
        assert reader.bytes_copied > 0
        assert here(batch).equals(BATCH)


@pytest.mark.parametrize("start", [0, 8, 13])
def test_slices(simulated_devices, start):
    piece = there(BATCH).slice(start, 500) if hasattr(xd.RecordBatch, "slice") else there(BATCH.slice(start, 500))
    with xd.serve({"t": piece}) as server, xd.connect(server.uri) as client:
        (batch,) = client.get("t", device="sim:1")
        assert batch.device == "sim:1"
        assert here(batch).equals(BATCH.slice(start, 500))


class OnDevice:
    """Hands out a slice of a batch on a device as another library would: with an offset."""

    def __init__(self, batch: pa.RecordBatch, start: int, length: int) -> None:
        self._batch, self._start, self._length = there(batch), start, length

    def __arrow_c_device_array__(self, requested_schema: object = None, **_: object) -> object:
        schema, array = self._batch.__arrow_c_device_array__(requested_schema)
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        fields = ctypes.cast(pointer(array, b"arrow_device_array"), ctypes.POINTER(ctypes.c_int64))
        fields[0], fields[1], fields[2] = self._length, -1, self._start  # length, null_count, offset
        fields[1] = 0
        return schema, array


@pytest.mark.parametrize("start", [8, 13])
def test_offsets_of_another_library(simulated_devices, start):
    flat = BATCH.select(["n", "b", "s"])
    with xd.serve({"t": xd.RecordBatch(OnDevice(flat, start, 500))}) as server, xd.connect(server.uri) as client:
        (batch,) = client.get("t", device="sim:1")
        assert batch.device == "sim:1"
        assert here(batch).equals(flat.slice(start, 500))
        assert bool(server.stats()["bitmap_bytes_copied"]) == (start % 8 != 0)


def test_types(simulated_devices):
    """Every type that Arrow's C interface has on a device; views stay on the host, as their sizes can't be sent."""
    maker = Maker(random.Random(7))
    kinds = [
        pa.int8(), pa.float64(), pa.bool_(), pa.decimal128(30, 5), pa.timestamp("us", "Europe/Paris"), pa.binary(5),
        pa.string(), pa.large_binary(), pa.list_(pa.string()), pa.struct([("a", pa.int32()), ("b", pa.string())]),
        pa.dictionary(pa.int16(), pa.string()), pa.null(), pa.list_(pa.int16(), 3), pa.map_(pa.string(), pa.int64()),
    ]  # fmt: skip
    batch = pa.record_batch({str(kind): maker.array(kind, 100) for kind in kinds})
    views = pa.record_batch({"v": pa.array(["a", "a text longer than a view holds"] * 10, pa.string_view())})
    with (
        xd.serve({"t": there(batch), "views": there(views), "empty": there(batch.slice(0, 0))}) as server,
        xd.connect(server.uri) as client,
    ):
        reader = client.get("t", device="sim:1")
        (got,) = reader
        assert (got.device, reader.bytes_copied) == ("sim:1", 0)
        assert here(got).equals(batch)
        (got,) = client.get("empty", device="sim:1")
        assert here(got).num_rows == 0
        (got,) = client.get("views")
        assert pa.record_batch(got).equals(views)
        reader = client.get("views", device="sim:1")
        (got,) = reader
        assert (got.device, reader.bytes_copied > 0) == ("sim:1", True)
        assert here(got).equals(views)
        del got


def test_dictionaries_without_values_and_beside_views(simulated_devices):
    nothing = pa.record_batch(
        {"n": [1, 2, 3]}
        | {str(kind): pa.array([None] * 3, pa.dictionary(pa.int8(), kind)) for kind in (pa.int64(), pa.string())}
    )
    views = pa.record_batch(
        {"v": pa.array(["a", "b", "a"], pa.string_view()), "d": pa.array(["x", "y", "x"]).dictionary_encode()}
    )
    with xd.serve({"nothing": there(nothing), "views": there(views)}) as server, xd.connect(server.uri) as client:
        for name, expected in (("nothing", nothing), ("views", views)):
            (got,) = client.get(name, device="sim:1")
            assert got.device == "sim:1"
            assert here(got).equals(expected)
            assert pa.table(client.get(name)).to_batches() == [expected]
            del got


def test_the_hosts_copy_waits_for_no_consumer(simulated_devices):
    """A consumer whose sources all wait occupies its share of the threads; others get the copy nevertheless."""
    going = threading.Event()

    def waiting():
        yield BATCH
        going.wait(60)

    with xd.serve({"t": there(BATCH)}, source_threads=4) as server:
        server.publish("live", lambda: pa.RecordBatchReader.from_batches(BATCH.schema, waiting()))
        with xd.connect(server.uri) as client:
            readers = [client.get("live") for _ in range(2)]
            for reader in readers:
                next(reader)
            assert pa.table(client.get("t")).to_batches() == [BATCH]
            going.set()
            del readers, reader


def test_withdrawn_memory_of_a_device_is_freed_though_the_hosts_copy_is_held(simulated_devices):
    before = live_allocations(simulated_devices)
    with xd.serve({"t": there(BATCH)}) as server, xd.connect(server.uri) as client:
        held = pa.table(client.get("t"))
        server.withdraw("t")
        assert live_allocations(simulated_devices) == before
        assert held.to_batches() == [BATCH]
        del held


def test_many_batches_have_few_regions(simulated_devices):
    batches = [there(BATCH.slice(start, 100)) for start in range(0, 1000, 100)] * 10
    before = simulated_devices.counters()["allocate"]
    with xd.serve({"t": batches}) as server, xd.connect(server.uri) as client:
        assert simulated_devices.counters()["allocate"] - before <= 10
        got = list(client.get("t", device="sim:1"))
        assert len(got) == 100
        assert here(got[57]).equals(BATCH.slice(700, 100))
        del got


def test_full_validation_of_a_device_is_refused(simulated_devices):
    with xd.serve({"t": there(BATCH)}) as server, xd.connect(server.uri) as client:
        with pytest.raises(xd.UnsupportedError, match="can't be validated in full"):
            list(client.get("t", device="sim:1", validation="full"))
        (batch,) = client.get("t", validation="full")
        assert pa.record_batch(batch).equals(BATCH)


def test_a_device_that_fails(simulated_devices):
    with xd.serve({"t": there(BATCH)}) as server, xd.connect(server.uri) as client:
        simulated_devices.fail_next("import_memory")
        with pytest.raises(xd.Error):
            list(client.get("t", device="sim:1"))
        (batch,) = client.get("t", device="sim:1")
        assert here(batch).equals(BATCH)
        del batch
        simulated_devices.fail_next("copy")
        with pytest.raises(xd.RemoteError):
            list(client.get("t"))
        (batch,) = client.get("t")
        assert pa.record_batch(batch).equals(BATCH)
    simulated_devices.fail_next("allocate")
    with pytest.raises(xd.Error), xd.serve({"t": there(BATCH)}):
        pass


def test_no_such_device(simulated_devices):
    with xd.serve({"t": BATCH}) as server, xd.connect(server.uri) as client:
        with pytest.raises(xd.NotFoundError):
            client.get("t", device="sim:9")
        (batch,) = client.get("t", device="cpu")
        assert pa.record_batch(batch).equals(BATCH)
