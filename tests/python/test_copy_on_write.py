"""Tables that both ends may write to: each sees its own writes alone."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pytest

import crossdock as xd

ROWS = 100_000


def table() -> pa.Table:
    return pa.table({"x": np.arange(ROWS, dtype="f8"), "name": [str(i % 7) for i in range(ROWS)]})


def column(batch: xd.RecordBatch, index: int = 0) -> np.ndarray:
    return np.asarray(xd.asarray(pa.record_batch(batch).column(index)))


@pytest.fixture(params=["shm", "shm by value", "tcp", "ucx"])
def served(request, tmp_path):
    uri = request.param.split()[0] + ":"
    xd.write(table(), tmp_path / "file.arrow")
    sources = {"table": table(), "file": tmp_path / "file.arrow", "live": lambda: iter(table().to_batches())}
    with (
        xd.serve(sources, uri) as server,
        xd.connect(server.uri, way="message" if "value" in request.param else None) as client,
    ):
        yield server, client


@pytest.mark.parametrize("name", ["table", "file", "live"])
def test_a_consumer_writes_and_nobody_else_sees_it(served, name):
    _, client = served
    batch = next(client.get(name, writable="copy-on-write"))
    mine = column(batch)
    assert mine.flags.writeable
    mine[:] = -1
    assert (column(batch) == -1).all(), "the batch is its own"
    again = next(client.get(name, writable="copy-on-write"))
    assert (column(again) == np.arange(ROWS)).all()
    plain = next(client.get(name))
    assert (column(plain) == np.arange(ROWS)).all()
    assert not column(plain).flags.writeable, "writing was not asked for"
    assert pa.record_batch(batch).column(1).to_pylist()[:8] == ["0", "1", "2", "3", "4", "5", "6", "0"]


def test_writes_to_one_batch_of_a_live_stream_do_not_show_in_those_after_it(served):
    server, client = served
    server.publish("numbers", lambda: (pa.record_batch({"x": np.full(5000, i)}) for i in range(50)))
    for i, batch in enumerate(client.get("numbers", writable="copy-on-write")):
        values = column(batch)
        assert (values == i).all()
        values[:] = -1
        del batch, values


def test_dictionaries_and_empty_batches_can_be_written_to(served):
    server, client = served
    words = pa.array(["a", "b", "a", "c"]).dictionary_encode()
    server.publish("words", pa.table({"x": words, "y": pa.array([1, 2, 3, 4])}))
    server.publish("none", pa.table({"x": pa.array([], pa.int64())}))
    batch = next(client.get("words", writable="copy-on-write"))
    assert pa.record_batch(batch).column(0).to_pylist() == ["a", "b", "a", "c"]
    column(batch, 1)[:] = 0
    assert pa.record_batch(batch).column(1).to_pylist() == [0, 0, 0, 0]
    assert pa.table(client.get("none", writable="copy-on-write")).num_rows == 0


def test_compressed_bodies_can_be_written_to(served, tmp_path):
    server, client = served
    xd.write(table(), tmp_path / "compressed.arrow", compression="zstd")
    server.publish("compressed", tmp_path / "compressed.arrow")
    batch = next(client.get("compressed", writable="copy-on-write"))
    column(batch)[:] = 5
    assert (column(batch) == 5).all()


def test_it_costs_nothing_where_nothing_is_written(mapping_of):
    pool = xd.Pool()
    array = pool.empty(1 << 20)
    array[:] = 1
    with xd.serve({"t": pa.table({"x": array})}) as server, xd.connect(server.uri) as client:
        batch = next(client.get("t", writable="copy-on-write"))
        values = column(batch)
        assert values.sum() == 1 << 20
        mapping = mapping_of(values.ctypes.data)
        assert mapping.permissions == "rw-p"
        with open("/proc/self/smaps") as smaps:
            lines = iter(smaps)
            next(line for line in lines if line.startswith(f"{mapping.start:x}-"))
            anonymous = next(line for line in lines if line.startswith("Anonymous:"))
        assert anonymous.split()[1] == "0", "no page was copied"
        values[0] = 2
        with open("/proc/self/smaps") as smaps:
            lines = iter(smaps)
            next(line for line in lines if line.startswith(f"{mapping.start:x}-"))
            anonymous = next(line for line in lines if line.startswith("Anonymous:"))
        assert anonymous.split()[1] == "4", "one page was"
        del batch, values


def test_received_data_is_passed_on_without_a_copy_unless_it_was_written_to():
    with xd.serve({"t": table()}) as first, xd.serve({}) as second, xd.connect(first.uri) as client:
        batch = next(client.get("t", writable="copy-on-write"))
        second.publish("same", batch)
        column(batch)[0] = 9
        second.publish("changed", batch)
        changed, same = second.stats()["sources"]
        assert (same["kind"], same["bytes_copied"]) == ("received", 0)
        assert 0 < changed["bytes_copied"] < changed["bytes"], "only the column that was written to"
        first.withdraw("t")
        del batch
        with xd.connect(second.uri) as onward:
            assert pa.table(onward.get("same")) == table()
            assert pa.table(onward.get("changed"))["x"][0].as_py() == 9
    plain = xd.serve({"t": table()})
    with plain, xd.connect(plain.uri) as client, xd.serve({"on": next(client.get("t"))}) as other:
        assert other.stats()["sources"][0]["bytes_copied"] > 0, "what can't be told from written memory is copied"


def test_a_lease_is_held_as_long_as_what_was_passed_on():
    pool = xd.Pool()
    array = pool.empty(1000)
    array[:] = 3
    with xd.serve({"t": pa.table({"x": array})}) as first, xd.serve({}) as second, xd.connect(first.uri) as client:
        second.publish("on", next(client.get("t", writable="copy-on-write")))
        del array
        first.withdraw("t")
        client.list()
        assert pool.stats()["lent_bytes"] > 0
        other = pool.empty(1000)
        other[:] = 4
        with xd.connect(second.uri) as onward:
            assert set(column(next(onward.get("on")))) == {3.0}
        second.withdraw("on")
        del other
        client.list()
    while pool.stats()["idle_bytes"] != pool.stats()["bytes"]:
        os.sched_yield()


def test_an_arena_stays_writable():
    arena = xd.Arena(writable="copy-on-write")
    array = arena.empty(ROWS)
    array[:] = 1
    with xd.serve({"t": pa.table({"x": array})}) as server, xd.connect(server.uri) as client:
        (source,) = server.stats()["sources"]
        assert (source["kind"], source["bytes_copied"]) == ("arena", 0)
        assert array.flags.writeable
        array[:] = 2
        assert (column(next(client.get("t"))) == 1).all()
        assert (array == 2).all()
        with pytest.raises(xd.ArenaFrozenError):
            arena.empty(1)
    with xd.serve({"t": pa.table({"x": np.arange(3)})}, "tcp:") as server, xd.connect(server.uri) as client:
        assert column(next(client.get("t"))).tolist() == [0, 1, 2]


def test_an_arena_that_is_written_to_goes_by_value_as_it_was():
    arena = xd.Arena(writable="copy-on-write")
    array = arena.empty(ROWS)
    array[:] = 1
    with xd.serve({"t": pa.table({"x": array})}, "tcp:") as server, xd.connect(server.uri) as client:
        array[:] = 2
        assert (column(next(client.get("t"))) == 1).all()


def test_a_killed_server_leaves_what_a_consumer_wrote(script):
    server = script("""
        import sys
        import numpy as np
        import pyarrow as pa
        import crossdock as xd
        with xd.serve({"t": pa.table({"x": np.arange(100_000.0)})}) as server:
            print(server.uri)
            sys.stdin.readline()
    """)
    with xd.connect(server.read_line()) as client:
        batch = next(client.get("t", writable="copy-on-write"))
        values = column(batch)
        values[:10] = -1
        server.stop()
        values[10:20] = -2
        assert values[:21].tolist() == [-1.0] * 10 + [-2.0] * 10 + [20.0]
        del batch, values
    xd.serve({}).close()  # removes the socket that the killed server left


def test_the_option_is_checked():
    with pytest.raises(xd.InvalidArgumentError, match="copy-on-write"):
        xd.Arena(writable=True)
    with xd.serve({"t": table()}) as server, xd.connect(server.uri) as client:
        with pytest.raises(xd.InvalidArgumentError, match="copy-on-write"):
            client.get("t", writable="yes")
        with pytest.raises(xd.InvalidArgumentError, match="copy-on-write"):
            client.aget("t", writable=True)


def test_an_event_loop_can_write_too():
    import asyncio

    async def read() -> float:
        with xd.connect(server.uri) as client:
            async for batch in client.aget("t", writable="copy-on-write"):
                values = column(batch)
                values[:] = 4
                return float(values.sum())
        return 0.0

    with xd.serve({"t": table()}) as server:
        assert asyncio.run(read()) == 4.0 * ROWS
