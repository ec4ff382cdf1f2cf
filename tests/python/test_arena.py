"""Arenas: memory that is built in and handed over without a copy."""

from __future__ import annotations

import asyncio
import gc
import signal

import numpy as np
import pyarrow as pa
import pytest

import crossdock as xd


def column(array: np.ndarray) -> pa.Array:
    return pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), len(array), [None, pa.py_buffer(array)])


def test_arrays_are_numpys_and_start_at_zero():
    arena = xd.Arena()
    array = arena.empty((3, 4), "i4")
    assert (array.shape, array.dtype, array.flags.c_contiguous) == ((3, 4), np.int32, True)
    assert array.flags.writeable
    assert array.ctypes.data % 64 == 0
    assert not array.any()
    array[:] = 7
    assert arena.empty(5).dtype == np.float64
    assert arena.empty(0).shape == (0,)
    assert arena.empty(()).shape == ()
    assert arena.nbytes >= 3 * 4 * 4 + 5 * 8
    assert repr(arena).startswith("<crossdock.Arena: ")


def test_arguments_are_checked():
    arena = xd.Arena()
    with pytest.raises(xd.InvalidArgumentError, match="Python objects"):
        arena.empty(3, object)
    with pytest.raises(xd.InvalidArgumentError, match="negative"):
        arena.empty((2, -1))
    with pytest.raises(xd.InvalidArgumentError, match="nbytes"):
        arena.buffer(-1)
    with pytest.raises(xd.InvalidArgumentError, match="reserve"):
        xd.Arena(-1)


def test_an_arena_has_an_end():
    arena = xd.Arena(reserve=1 << 20)
    arena.empty(1000)
    with pytest.raises(xd.ResourceError, match=r"."):
        arena.empty(1 << 20)
    assert arena.empty(10).shape == (10,)


def test_publishing_copies_nothing_and_freezes(mapping_of):
    arena = xd.Arena()
    array, untouched = arena.empty(1000), arena.empty(3)
    array[:] = np.arange(1000)
    batch = pa.record_batch([column(array)], ["x"])
    with xd.serve({"t": batch}) as server:
        (source,) = server.stats()["sources"]
        assert (source["kind"], source["bytes_copied"]) == ("arena", 0)
        assert arena.frozen
        assert "frozen" in repr(arena)
        for one in (array, untouched):
            assert not one.flags.writeable
            with pytest.raises(ValueError, match="read-only"):
                one[0] = 1
        for more in (lambda: arena.empty(1), lambda: arena.buffer(1)):
            with pytest.raises(xd.ArenaFrozenError):
                more()
        assert mapping_of(array.ctypes.data).permissions.startswith("r--")
        with xd.connect(server.uri) as client:
            assert pa.record_batch(next(client.get("t"))) == batch
    assert array.sum() == 499500


def test_buffers_need_no_numpy():
    arena = xd.Arena()
    buffer = arena.buffer(80)
    assert (len(buffer), buffer.nbytes) == (80, 80)
    with memoryview(buffer) as view:
        assert not view.readonly
        view.cast("q")[3] = 5
    wrapped = pa.py_buffer(buffer)
    assert (wrapped.address, wrapped.size) == (buffer.address, 80)
    batch = pa.record_batch([pa.Array.from_buffers(pa.int64(), 10, [None, wrapped])], ["x"])
    with xd.serve({"t": batch}) as server, xd.connect(server.uri) as client:
        assert server.stats()["sources"][0]["bytes_copied"] == 0
        assert pa.record_batch(next(client.get("t"))).column(0).to_pylist() == [0, 0, 0, 5, 0, 0, 0, 0, 0, 0]
        assert memoryview(buffer).readonly


def test_memory_lives_as_long_as_its_last_view():
    arena = xd.Arena()
    array = arena.empty(100)
    array[:] = 1
    view = array[50:]
    del arena, array
    gc.collect()
    assert view.sum() == 50


def test_an_arena_is_for_one_table():
    arena = xd.Arena()
    array = arena.empty(100)
    first, second = (pa.record_batch([column(array)], [name]) for name in "xy")
    with xd.serve({"a": first}) as server, pytest.raises(xd.ArenaFrozenError, match="one table"):
        server.publish("b", second)


def test_writing_through_a_view_that_couldnt_be_reached_is_answered_by_the_system(script):
    process = script("""
        import pyarrow as pa
        import crossdock as xd
        arena = xd.Arena()
        array = arena.empty(1000)
        slice_ = array[10:]
        column = pa.Array.from_buffers(pa.float64(), 1000, [None, pa.py_buffer(array)])
        server = xd.serve({"t": pa.record_batch([column], ["x"])})
        server.close()
        print("published", flush=True)
        slice_[0] = 1
    """)
    assert process.read_line() == "published"
    process.finish(expect=-signal.SIGSEGV)


def test_arrays_that_went_before_arent_missed():
    arena = xd.Arena()
    keep = arena.empty(10)
    for _ in range(100):
        arena.empty(10)
    with xd.serve({"t": pa.record_batch([column(keep)], ["x"])}):
        assert not keep.flags.writeable


TABLE = pa.table({"n": np.arange(100_000), "s": [str(i % 7) for i in range(100_000)]}).combine_chunks()


def addresses(batch: pa.RecordBatch) -> list[int]:
    return [buffer.address for column in batch.columns for buffer in column.buffers() if buffer is not None]


def test_batches_of_a_network_are_received_into_an_arena_and_served_from_it():
    with xd.serve({"t": TABLE}, "tcp:") as server, xd.connect(server.uri) as client:
        arena = xd.Arena(64 << 20)
        batches = list(client.get("t", arena=arena))
        start = arena.buffer(1).address  # behind the batches
        used = arena.nbytes
        assert TABLE.nbytes <= used < TABLE.nbytes + 4096
        for batch in batches:
            assert all(start - used <= address < start for address in addresses(pa.record_batch(batch)))
        with xd.serve({"t": batches}) as second, xd.connect(second.uri) as other:
            (source,) = second.stats()["sources"]
            assert (source["kind"], source["bytes_copied"]) == ("arena", 0)
            assert pa.table(other.get("t")).equals(TABLE)
            assert arena.frozen
            with pytest.raises(xd.ArenaFrozenError):
                list(client.get("t", arena=arena))


def test_an_arena_bounds_what_is_received():
    with xd.serve({"t": TABLE}, "tcp:") as server, xd.connect(server.uri) as client:
        with pytest.raises(xd.ResourceError, match="larger `reserve`"):
            list(client.get("t", arena=xd.Arena(100_000)))
        assert pa.table(client.get("t")).equals(TABLE)


def test_over_shared_memory_batches_stay_where_they_are():
    arena = xd.Arena()
    before = arena.nbytes
    with xd.serve({"t": TABLE}) as server, xd.connect(server.uri) as client:
        assert pa.table(client.get("t", arena=arena)).equals(TABLE)
    assert arena.nbytes == before


def test_async_streams_are_received_into_an_arena():
    arena = xd.Arena()

    async def take(client: xd.Client) -> list[xd.RecordBatch]:
        return [batch async for batch in client.aget("t", arena=arena)]

    with xd.serve({"t": TABLE}, "tcp:") as server, xd.connect(server.uri) as client:
        assert pa.Table.from_batches(map(pa.record_batch, asyncio.run(take(client)))).equals(TABLE)
    assert arena.nbytes >= TABLE.nbytes


def test_a_table_in_two_regions_is_read_again_while_a_batch_of_one_is_held():
    arena = xd.Arena()
    built = arena.empty(1000, "f8")
    np.asarray(built)[:] = 1.0
    schema = pa.schema([("x", pa.float64())])
    batches = [
        pa.record_batch([pa.array(built)], schema=schema),
        pa.record_batch([pa.array(np.full(1000, 2.0))], schema),
    ]
    with xd.serve({"t": pa.Table.from_batches(batches)}) as server, xd.connect(server.uri) as client:
        for held in (0, 1, 0):
            got = list(client.get("t"))
            kept = got[held]
            del got
            assert pa.table(client.get("t")).to_batches() == batches
            assert pa.record_batch(kept) == batches[held]
        del kept
