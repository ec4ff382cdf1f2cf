"""Rows of a table: `rows=` of `Client.get()`, `aget()` and `table()`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import crossdock as xd

ROWS = 1000
SIZES = [300, 0, 1, 250, 449]
TABLE = pa.table(
    {
        "n": pa.array(range(ROWS), pa.int64()),
        "s": [None if i % 7 == 0 else f"row {i}" for i in range(ROWS)],
        "b": [i % 3 == 0 for i in range(ROWS)],
        "l": [[i] * (i % 4) for i in range(ROWS)],
        "d": pa.array([f"kind {i % 5}" for i in range(ROWS)]).dictionary_encode(),
        "st": [{"a": i, "b": str(i)} for i in range(ROWS)],
    }
)


def in_batches(table: pa.Table, sizes: list[int]) -> list[pa.RecordBatch]:
    """The table in batches of these sizes."""
    whole = table.combine_chunks().to_batches()[0]
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return [whole.slice(end - size, size) for end, size in zip(ends, sizes, strict=True)]


@pytest.fixture(params=["shm", "tcp"])
def server(request):
    tables = {"t": in_batches(TABLE, SIZES), "tensor": np.arange(3), "empty": TABLE.slice(0, 0)}
    with xd.serve(tables, {"shm": "shm:", "tcp": "tcp://127.0.0.1:0"}[request.param]) as server:
        server.publish("live", lambda: TABLE.to_reader())
        yield server


@pytest.fixture
def client(server):
    with xd.connect(server.uri) as client:
        yield client


def sent(server: xd.Server) -> tuple[int, int]:
    """The batches and the bytes of columns that were sent so far, over all connections."""
    consumers = server.stats()["consumers"]
    return sum(one["batches"] for one in consumers), sum(one["bytes"] for one in consumers)


@pytest.mark.parametrize(
    "rows",
    [
        range(1000),
        range(0),
        range(5, 5),
        range(1),
        range(299, 302),
        range(300, 301),
        range(301, 302),
        range(310, 320),
        range(999, 1000),
        range(700, 5000),
        range(5000, 6000),
        slice(None),
        slice(998, None),
        slice(None, 10),
        slice(20, 10),
        slice(3, 2**70),
    ],
)
def test_they_are_those_of_the_table(client, rows):
    part = slice(rows.start, rows.stop)
    wanted = TABLE.slice(*part.indices(ROWS)[:1], max(len(range(*part.indices(ROWS))), 0))
    assert pa.table(client.get("t", rows=rows)).equals(wanted)
    handle = client.table("t", ["s", "n"], rows=rows)
    for _ in range(2):
        assert handle.to_arrow().equals(wanted.select(["s", "n"]))
    assert handle.num_rows == wanted.num_rows
    assert sum(len(batch) for batch in client.get("t", rows=rows)) == wanted.num_rows
    assert all(len(batch) > 0 for batch in client.get("t", rows=rows))


def test_only_their_batches_are_sent(server, client):
    before = sent(server)[0]
    assert pa.table(client.get("t", rows=range(400, 450)))["n"].to_pylist() == list(range(400, 450))
    assert sent(server)[0] - before == 3, "the numbers of rows, a dictionary, and one batch"


def test_nothing_is_copied_over_shared_memory():
    table = pa.table({"n": np.arange(1 << 20)})
    with xd.serve({"t": table}) as server, xd.connect(server.uri) as client:
        part = next(client.get("t", rows=range(1000, 2000)))
        reads = pa.record_batch(part)["n"]
        assert reads.to_pylist() == list(range(1000, 2000))
        assert reads.offset == 1000
        (consumer,) = server.stats()["consumers"]
        assert consumer["bytes_by_value"] == 0


def test_the_repr_and_the_rows_of_a_handle(client):
    handle = client.table("t", rows=slice(10, 20))
    assert handle.rows == range(10, 20)
    assert handle.select(["n"]).rows == range(10, 20)
    assert repr(handle) == "<crossdock.Table 't', rows=range(10, 20)>"
    assert client.table("t").rows is None


def test_asyncio(client):
    async def read() -> list[int]:
        return [len(batch) async for batch in client.aget("t", rows=range(290, 310))]

    assert asyncio.run(read()) == [10, 1, 9]


def test_a_table_without_rows(client):
    assert pa.table(client.get("empty", rows=range(10))).num_rows == 0
    assert client.table("empty", rows=range(5, 10)).to_arrow().schema == TABLE.schema


@pytest.mark.parametrize("rows", [range(-1, 5), slice(-5, None), slice(0, -1), range(0, 10, 2), range(10, 0, -1)])
def test_negative_rows_and_steps_are_refused(client, rows):
    with pytest.raises(xd.InvalidArgumentError, match="rows"):
        client.get("t", rows=rows)
    with pytest.raises(xd.InvalidArgumentError, match="rows"):
        client.aget("t", rows=rows)
    with pytest.raises(xd.InvalidArgumentError, match="rows"):
        client.table("t", rows=rows)


@pytest.mark.parametrize("rows", [5, [1, 2], "1:2", slice("a", None), slice(0.5, 2), (0, 5)])
def test_what_is_no_range(client, rows):
    with pytest.raises(TypeError, match="range or a slice"):
        client.get("t", rows=rows)


def test_what_has_no_rows_says_so(client):
    with pytest.raises(xd.UnsupportedError, match=r'"live" is a live stream, or a callable: .* get it as a whole'):
        client.get("live", rows=range(5))
    with pytest.raises(xd.UnsupportedError, match='"tensor" has tensors'):
        client.get("tensor", rows=range(1))
    with pytest.raises(xd.NotFoundError, match="absent"):
        client.get("absent", rows=range(1))
    assert pa.table(client.get("t")).equals(TABLE), "the connection goes on"


def test_files(tmp_path):
    path = tmp_path / "t.arrow"
    with pa.ipc.new_file(path, TABLE.schema) as writer:
        for batch in TABLE.to_batches(max_chunksize=100):
            writer.write_batch(batch)
    for stable in ("trust", "snapshot"):
        with xd.serve({"t": path}, stable=stable) as server, xd.connect(server.uri) as client:
            assert client.table("t", rows=range(250, 750)).to_arrow().equals(TABLE.slice(250, 500))


def test_a_relay_answers_from_what_it_holds():
    with (
        xd.serve({"t": in_batches(TABLE, SIZES)}, "tcp://127.0.0.1:0") as source,
        xd.relay(source.uri) as relay,
        xd.connect(relay.uri) as client,
    ):
        for _ in range(2):
            assert client.table("t", rows=range(290, 560)).to_arrow().equals(TABLE.slice(290, 270))
        assert relay.stats()["fetches"] == 1


def test_two_connections(server):
    with xd.connect(metadata=server.uri, data=server.uri) as client:
        assert pa.table(client.get("t", rows=range(290, 560))).equals(TABLE.slice(290, 270))


def test_flight():
    with (
        xd.serve({"t": in_batches(TABLE, SIZES)}, flight="grpc://127.0.0.1:0") as server,
        xd.connect(server.flight_uri) as client,
    ):
        assert pa.table(client.get("t", rows=range(290, 560))).equals(TABLE.slice(290, 270))


def test_parts_of_tables_wait_for_no_source():
    """The server's only thread for sources is in a call that doesn't return before the end of the test."""
    in_source, goes_on = threading.Event(), threading.Event()

    def waits() -> Iterator[pa.RecordBatch]:
        in_source.set()
        goes_on.wait(60)
        yield from TABLE.to_batches()

    def live() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(TABLE.schema, waits())

    tables = {"t": in_batches(TABLE, SIZES), "live": live}
    with xd.serve(tables, source_threads=1) as server, xd.connect(server.uri) as client, client.get("live"):
        assert in_source.wait(60)
        table = client.table("t")
        try:
            assert pa.table(client.get("t", rows=range(290, 560))).equals(TABLE.slice(290, 270))
            assert table.filter([("n", "<", 5)]).to_arrow().equals(TABLE.slice(0, 5))
            assert table.filter([("n", ">=", 0)]).num_rows == ROWS
        finally:
            goes_on.set()


def test_the_version_is_one(server, client):
    """A table is replaced again and again while its rows are read: they are all of one version."""
    stop = threading.Event()

    def replace() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            sizes = [1 + number % 5] * 20
            rows = sum(sizes)
            server.publish(
                "moving", in_batches(pa.table({"v": [number] * rows, "i": range(rows)}), sizes), replace=True
            )

    server.publish("moving", pa.table({"v": [0] * 20, "i": range(20)}))
    thread = threading.Thread(target=replace)
    thread.start()
    try:
        versions = set()
        for _ in range(200):
            try:
                read = client.table("moving", rows=range(7, 19)).to_arrow()
            except xd.TimeoutError:  # it was replaced 8 times
                continue
            assert read["i"].to_pylist() == list(range(7, 19))
            assert len(set(read["v"].to_pylist())) == 1
            versions.add(read["v"][0].as_py())
        assert len(versions) > 1
    finally:
        stop.set()
        thread.join()


def test_it_needs_no_pyarrow(server):
    program = """
import sys
sys.modules["pyarrow"] = None
import crossdock as xd
with xd.connect(sys.argv[1]) as client:
    print([len(batch) for batch in client.table("t", rows=range(290, 310))])
    try:
        client.table("t").filter([("n", ">", 5)])
    except ImportError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program, server.uri], capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    assert lines[0] == "[10, 1, 9]", done.stderr
    assert lines[1] == "filter() needs pyarrow: pip install pyarrow"
