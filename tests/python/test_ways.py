"""`connect(way=)`, and what a server says of the ways that its consumers have."""

from __future__ import annotations

import pyarrow as pa
import pytest

import crossdock as xd

BATCH = pa.record_batch({"n": list(range(1000)), "s": [str(n) for n in range(1000)]})


def consumer_of(server: xd.Server, name: str) -> dict[str, object]:
    (found,) = [one for one in server.stats()["consumers"] if one["name"] == name]
    return found


def stopping(batches: list[pa.RecordBatch], server: xd.Server, name: str, seen: list[dict[str, object]]):
    """A live source that looks at the server's statistics when its second batch is asked for."""

    def each():
        yield batches[0]
        seen.append(consumer_of(server, name))
        yield from batches[1:]

    return pa.RecordBatchReader.from_batches(BATCH.schema, each())


@pytest.mark.parametrize(
    ("address", "way", "expected"),
    [
        ("shm:", None, ("map", "shm", "maps the server's memory")),
        ("shm:", "map", ("map", "shm", "maps the server's memory")),
        ("shm:", "message", ("message", "shm", "share no memory")),
        ("tcp:", None, ("message", "tcp", "share no memory")),
    ],
)
def test_the_way_of_a_stream(address, way, expected):
    seen: list[dict[str, object]] = []
    with xd.serve({"t": BATCH}, address) as server:
        server.publish("live", lambda: stopping([BATCH] * 3, server, "live", seen))
        with xd.connect(server.uri, way=way) as client:
            assert pa.table(client.get("t")).to_batches() == [BATCH]
            assert pa.table(client.get("live")).equals(pa.Table.from_batches([BATCH] * 3))
    (one,) = seen
    assert (one["way"], one["carrier"]) == expected[:2]
    assert expected[2] in one["why"]


def test_bytes_that_were_sent_are_the_consumers_own(mapping_of):
    with xd.serve({"t": BATCH}) as server:
        for way, shared in (("map", True), ("message", False)):
            with xd.connect(server.uri, way=way) as client:
                (batch,) = client.get("t")
                address = pa.record_batch(batch)["n"].buffers()[1].address
                assert ("crossdock-table" in mapping_of(address).name) == shared
                assert bool(sum(one["leases"] for one in server.stats()["consumers"])) == shared
                del batch


def test_ways_that_cant_be():
    with xd.serve({"t": BATCH}, "tcp:") as server:
        for way in ("map", "read"):
            with pytest.raises(xd.UnsupportedError, match=rf"it wants \({way}\): this transport has message"):
                xd.connect(server.uri, way=way)
    with xd.serve({"t": BATCH}) as server:
        with pytest.raises(xd.UnsupportedError, match="this transport has map, message"):
            xd.connect(server.uri, way="read")
        with pytest.raises(xd.InvalidArgumentError, match='not "copy"'):
            xd.connect(server.uri, way="copy")
