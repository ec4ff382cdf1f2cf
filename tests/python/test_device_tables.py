"""Tables in memory of a device, handed over without a copy; simulated devices, in one process and in two."""

from __future__ import annotations

import ctypes
import gc
import random
import threading

import numpy as np
import pyarrow as pa
import pytest
from tests.device_allocations import live_allocations
from tests.interop.arrow_data import Maker

import crossdock as xd
from crossdock import _native

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


def test_a_lost_device_ends_its_own_tables_alone(simulated_devices):
    """Of a server and a client in one process, which both lose it."""
    with (
        xd.serve({"lost": there(BATCH), "kept": there(BATCH, "sim:0"), "host": BATCH}) as server,
        xd.connect(server.uri) as client,
    ):
        _native.sim_configure(devices=1, delay=0.0, memory=None)
        for device in ("sim:1", None):  # to be opened there; a copy on the host
            with pytest.raises(xd.Error, match=r"no device sim:1 \(ext_dev:1\)"):
                list(client.get("lost", device=device))
        for name, device in (("kept", "sim:0"), ("kept", None), ("host", None), ("host", "sim:0")):
            (batch,) = client.get(name, device=device)
            assert here(batch).equals(BATCH)
            del batch
        with pytest.raises(xd.NotFoundError, match=r"no device sim:1 \(ext_dev:1\)"):
            list(client.get("host", device="sim:1"))


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


@pytest.mark.parametrize("uri", ["tcp:", "ucx://127.0.0.1:0", "fabric://127.0.0.1:0"])
@pytest.mark.parametrize("columns", [None, ["n", "d"]])
def test_over_networks_batches_are_copied_to_the_device(simulated_devices, uri, columns):
    try:
        server = xd.serve({"device": there(BATCH), "host": BATCH}, uri)
    except xd.UnsupportedError as error:
        pytest.skip(str(error))
    with server, xd.connect(server.uri) as client:
        for name in ("device", "host"):
            reader = client.get(name, device="sim:1", columns=columns)
            (batch,) = reader
            assert batch.device == "sim:1"
            assert reader.bytes_copied > 0
            assert here(batch).equals(BATCH.select(columns) if columns else BATCH)
            del batch, reader


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
        assert live_allocations(simulated_devices, before) == before
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


def column(tensor: xd.Tensor) -> xd.RecordBatch:
    return xd.RecordBatch(tensor.to_arrow())


def test_an_arena_is_published_without_a_copy(simulated_devices):
    arena = xd.Arena(device="sim:1")
    tensor = arena.tensor(1000, "i8")
    assert (tensor.device, arena.device, arena.nbytes) == ("sim:1", "sim:1", 8000)
    tensor.copy_from(np.arange(1000)).wait()
    before = calls(simulated_devices, "copy", "allocate", "import_memory")
    with xd.serve({"t": column(tensor)}) as server, xd.connect(server.uri) as client:
        (source,) = server.stats()["sources"]
        assert (source["kind"], source["bytes"], source["bytes_copied"]) == ("arena", 8000, 0)
        assert arena.frozen
        reader = client.get("t", device="sim:1")
        (batch,) = reader
        assert reader.bytes_copied == 0
        after = calls(simulated_devices, "copy", "allocate", "import_memory")
        assert after == before | {"import_memory": before["import_memory"] + 1}
        assert here(batch)[0].to_pylist() == list(range(1000))
        # A device can't make memory read-only: docs/how-to/python-memory.md says what a write does.
        tensor.copy_from(np.full(1000, 7)).wait()
        assert here(batch)[0].to_pylist() == [7] * 1000
        assert pa.table(client.get("t"))[0].to_pylist() == [7] * 1000, "the host gets its one copy"
        del batch, reader
    with pytest.raises(xd.ArenaFrozenError):
        arena.tensor(1)
    with xd.Server() as server, pytest.raises(xd.ArenaFrozenError, match="one table"):
        server.publish("again", tensor)


def test_a_table_of_every_kind_of_buffer_is_copied_into_an_arena_alone(simulated_devices):
    """Text, nulls, bits, lists and dictionaries; what a batch shares with the one before is there once."""
    arena = xd.Arena(1 << 20, device="sim:1")
    batches = [xd.RecordBatch(BATCH).to(arena) for _ in range(3)]
    before = calls(simulated_devices, "allocate", "import_memory")
    with xd.serve({"t": batches}) as server, xd.connect(server.uri) as client:
        (source,) = server.stats()["sources"]
        assert (source["kind"], source["bytes_copied"]) == ("arena", 0)
        reader = client.get("t", device="sim:1")
        got = list(reader)
        after = calls(simulated_devices, "allocate", "import_memory")
        assert after["allocate"] == before["allocate"]
        assert after["import_memory"] - before["import_memory"] == 1, "what is reserved is one region"
        assert reader.bytes_copied == 0
        assert all(here(batch).equals(BATCH) for batch in got)
        del got, reader
        assert pa.table(client.get("t")).to_batches() == [BATCH] * 3


def test_an_arena_of_another_process(simulated_devices, script):
    server = script("""
        import numpy as np, crossdock as xd, sys
        from crossdock.testing import simulated_devices
        with simulated_devices(2) as devices:
            arena = xd.Arena(device="sim:1")
            tensors = [arena.tensor(10_000, "i4").copy_from(np.arange(10_000, dtype="i4")) for _ in range(4)]
            copied = devices.counters()["copy"]
            with xd.serve({"t": [xd.RecordBatch(tensor.to_arrow()) for tensor in tensors]}) as server:
                print(server.uri, flush=True)
                sys.stdin.readline()
                print(devices.counters()["copy"] - copied, server.stats()["sources"][0]["bytes_copied"], flush=True)
                sys.stdin.readline()
    """)
    with xd.connect(server.read_line()) as client:
        before = simulated_devices.counters()
        batches = list(client.get("t", device="sim:1"))
        after = simulated_devices.counters()
        assert (after["copy"], after["allocate"]) == (before["copy"], before["allocate"])
        assert after["import_memory"] - before["import_memory"] == 3, "pieces for 1, 1 and 2 of the columns"
        assert [here(batch)[0].to_pylist() for batch in batches] == [list(range(10_000))] * 4
        server.write_line()
        assert server.read_line() == "0 0"
        del batches
        server.write_line()
        server.finish()
    gc.collect()


def test_what_isnt_wholly_in_an_arena_is_copied_and_leaves_it_open(simulated_devices):
    arena = xd.Arena(device="sim:1")
    inside, outside = (xd.empty(8, "i8", device="sim:1"), arena.tensor(8, "i8"))
    for tensor in (inside, outside):
        tensor.copy_from(np.arange(8)).wait()
    with xd.serve({"t": column(inside)}) as server:
        assert server.stats()["sources"][0]["kind"] == "table"
        assert not arena.frozen
        server.publish("mixed", [column(inside), column(outside)])
        stats = {source["name"]: source for source in server.stats()["sources"]}
        assert (stats["mixed"]["kind"], stats["mixed"]["bytes_copied"]) == ("arena", 64)
        assert arena.frozen
        with xd.connect(server.uri) as client:
            assert [here(batch)[0].to_pylist() for batch in client.get("mixed", device="sim:1")] == [[*range(8)]] * 2


def test_slices_of_an_arena(simulated_devices):
    arena = xd.Arena(device="sim:1")
    tensor = arena.tensor(1000, "i4")
    tensor.copy_from(np.arange(1000, dtype="i4")).wait()
    for start, copied in ((100, 400), (160, 0)):  # a buffer begins at a multiple of 64 bytes, or is copied
        with xd.serve({"t": column(tensor[start : start + 100])}) as server, xd.connect(server.uri) as client:
            assert server.stats()["sources"][0]["bytes_copied"] == copied
            (batch,) = client.get("t", device="sim:1")
            assert here(batch)[0].to_pylist() == list(range(start, start + 100))
            del batch
    other = xd.Arena(device="sim:1")
    part = xd.RecordBatch(OnDevice(BATCH.select(["b"]), 3, 100))
    with xd.serve({"t": xd.RecordBatch(part).to(other)}) as server, xd.connect(server.uri) as client:
        assert server.stats()["sources"][0]["bytes_copied"] > 0, "bits that begin within a byte are shifted"
        assert pa.table(client.get("t")).to_batches() == [BATCH.select(["b"]).slice(3, 100)]


@pytest.mark.parametrize("uri", ["shm:", "tcp:"])
def test_buffers_of_an_arena_may_overlap(simulated_devices, uri):
    tensor = xd.Arena(device="sim:1").tensor(1_000_000, "i8")
    tensor.copy_from(np.arange(1_000_000)).wait()
    parts = [slice(0, 1_000_000), slice(8, 16), slice(999_992, 1_000_000), slice(16, 24)]
    with xd.serve({"t": [tensor[part] for part in parts]}, uri) as server, xd.connect(server.uri) as client:
        assert server.stats()["sources"][0]["bytes_copied"] == 0
        for place in ("cpu", "sim:1"):
            batches = list(client.get("t", device=place))
            assert [here(batch)[0].to_pylist() for batch in batches] == [[*range(1_000_000)[part]] for part in parts]
            del batches


@pytest.mark.simulated_devices(2, delay=0.002)
def test_work_that_is_pending_on_an_arena_is_waited_for(simulated_devices):
    arena = xd.Arena(device="sim:1")
    queue = xd.Queue.new("sim:1")
    tensor = arena.tensor(100_000, "i8", queue=queue).copy_from(np.arange(100_000), queue=queue)
    with xd.serve({"t": column(tensor)}) as server, xd.connect(server.uri) as client:
        (batch,) = client.get("t", device="sim:1")
        assert here(batch)[0].to_numpy().sum() == 99_999 * 50_000
        del batch
    simulated_devices.fail_work()
    arena = xd.Arena(device="sim:1")
    tensor = arena.tensor(8, "i8", queue=queue).copy_from(np.arange(8), queue=queue)
    with xd.Server() as server, pytest.raises(xd.Error, match="arranged"):
        server.publish("t", column(tensor))
    assert not arena.frozen
    simulated_devices.reset_counters()
    with pytest.raises(xd.Error, match="arranged"):
        xd.Queue("sim:1").wait()  # it was ordered after the work that failed


def test_memory_of_an_arena_lives_as_long_as_its_table_or_a_tensor(simulated_devices):
    before = live_allocations(simulated_devices)
    arena = xd.Arena(1 << 16, device="sim:1")
    tensor = arena.tensor(8, "i8")
    with xd.serve({"t": tensor}) as server:
        del arena
        assert live_allocations(simulated_devices, before + 1) == before + 1
        del tensor
        assert live_allocations(simulated_devices, before + 1) == before + 1
        server.withdraw("t")
        assert live_allocations(simulated_devices, before) == before
    tensor = xd.Arena(device="sim:1").tensor(8, "i8")
    assert live_allocations(simulated_devices, before + 1) == before + 1
    del tensor
    assert live_allocations(simulated_devices, before) == before


def test_what_arenas_of_devices_refuse(simulated_devices):
    arena = xd.Arena(1 << 16, device="sim:1")
    for call in (lambda: arena.empty(1), lambda: arena.buffer(1)):
        with pytest.raises(xd.UnsupportedError, match="tensor\\(\\) allocates"):
            call()
    with pytest.raises(xd.UnsupportedError, match=r"empty\(\) and buffer\(\)"):
        xd.Arena().tensor(1)
    assert xd.Arena(device="cpu").empty(1).nbytes == 8
    with pytest.raises(xd.InvalidArgumentError, match="must not be negative"):
        arena.tensor((2, -1))
    with pytest.raises(xd.InvalidArgumentError):
        xd.Arena(-1, device="sim:1")
    with pytest.raises(xd.ResourceError, match="larger `reserve`"):
        arena.tensor(1 << 16)
    with pytest.raises(xd.InvalidArgumentError, match="queue"):
        arena.tensor(1, queue="sim:0")
    with pytest.raises(xd.NotFoundError):
        xd.Arena(device="sim:9")
    with (
        xd.serve({"t": BATCH}) as server,
        xd.connect(server.uri) as client,
        pytest.raises(xd.UnsupportedError, match="of the host"),
    ):
        client.get("t", arena=arena)
    assert "on ext_dev:1" in repr(arena)
    simulated_devices.fail_next("allocate")
    with pytest.raises(xd.Error):
        xd.Arena(1, device="sim:1")


@pytest.mark.parametrize("source", ["cpu", "sim:0", "sim:1"])
def test_batches_go_into_an_arena_from_anywhere(simulated_devices, source):
    batch = there(BATCH, source) if source != "cpu" else xd.RecordBatch(BATCH)
    arena = xd.Arena(device="sim:1")
    moved = batch.to(arena, queue=xd.Queue.new("sim:1"))
    assert moved.device == "sim:1"
    assert here(moved).equals(BATCH)
    with xd.serve({"t": moved}) as server:
        assert server.stats()["sources"][0]["bytes_copied"] == 0


@pytest.mark.parametrize("uri", ["shm:", "tcp:"])
def test_a_dictionary_that_batches_share_comes_to_the_device_once(simulated_devices, uri):
    values = pa.array([c * 1000 for c in "abcdefgh"])
    batches = [
        pa.record_batch({"n": [n] * 64, "d": pa.DictionaryArray.from_arrays(pa.array([0, n] * 32, pa.int8()), values)})
        for n in range(8)
    ]
    with xd.serve({"t": batches}, uri) as server, xd.connect(server.uri) as client:
        before = simulated_devices.counters()["bytes_copied"]
        reader = client.get("t", device="sim:1")
        got = list(reader)
        assert simulated_devices.counters()["bytes_copied"] - before == pytest.approx(reader.bytes_copied, rel=0.05)
        assert reader.bytes_copied == 8 * 64 * (8 + 1) + 8000 + 9 * 4
        assert [here(batch) for batch in got] == batches
        del reader
        gc.collect()
        assert [here(batch) for batch in got[3:]] == batches[3:], "the batches keep it"
        del got


def test_dictionaries_that_change_and_those_in_dictionaries(simulated_devices):
    def batch(*texts: str) -> pa.RecordBatch:
        inner = pa.array(texts).dictionary_encode()
        nested = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.StructArray.from_arrays([inner], ["t"]))
        return pa.record_batch({"d": pa.array(texts).dictionary_encode(), "nested": nested})

    batches = [batch("a", "b"), batch("a", "b"), batch("c", "d"), batch("a", "b")]
    source = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    with xd.serve({"t": source}) as server, xd.connect(server.uri) as client:
        assert [here(one) for one in client.get("t", device="sim:1")] == batches


def test_copies_are_counted_when_a_c_consumer_reads(simulated_devices):
    with xd.serve({"t": [BATCH] * 3}) as server, xd.connect(server.uri) as client:
        reader = client.get("t", device="sim:1")
        assert reader.bytes_copied == 0
        table = pa.table(reader)
        assert table.to_batches() == [BATCH] * 3
        assert reader.bytes_copied == pytest.approx(3 * BATCH.nbytes, rel=0.1)


def test_what_is_said_of_a_device_that_isnt_there(script, tmp_path):
    """Of another process, whose driver of CUDA isn't found for certain."""
    process = script(
        """
import os, sys
os.environ["CROSSDOCK_CUDA_LIBRARY"] = sys.argv[1]
import pyarrow as pa, crossdock as xd
with xd.serve({"t": pa.table({"n": [1]})}) as server, xd.connect(server.uri) as client:
    for device in ("cuda:0", "sim:3", "ext_dev:3"):
        try:
            client.get("t", device=device)
        except (xd.UnsupportedError, xd.NotFoundError) as error:
            print(error, flush=True)
""",
        str(tmp_path / "libnobody.so"),
    )
    assert process.read_line().endswith("library, or leave device out, to get the data on the host")
    for device in ("sim:3", "ext_dev:3"):
        assert device in process.read_line()
    process.finish()
