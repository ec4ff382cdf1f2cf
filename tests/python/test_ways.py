"""`connect(way=)`, and what a server says of the ways that its consumers have."""

from __future__ import annotations

import contextlib
from pathlib import Path

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
        ("shm:", "message", ("message", "shm", "agreed on messages alone")),
        ("tcp:", None, ("message", "tcp", "tcp has messages alone")),
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
        with pytest.raises(xd.InvalidArgumentError, match="it was 'copy'"):
            xd.connect(server.uri, way="copy")


def said(client: xd.Client) -> dict[str, tuple[str | None, str | None]]:
    return {entry.name: (entry.way, entry.why) for entry in client.list()}


def test_the_catalog_says_by_which_way_and_why(simulated_devices):
    sources = {"t": BATCH, "there": xd.RecordBatch(BATCH).to("sim:0"), "live": lambda: BATCH}
    with xd.serve(sources, ["shm:", "tcp:"]) as server:
        shm, tcp = server.uris
        seen: dict[str, dict[str, tuple[str | None, str | None]]] = {}
        for _ in range(2):  # the second time, from what was kept
            for key, uri, way in (("shm", shm, None), ("tcp", tcp, None), ("message", shm, "message")):
                with xd.connect(uri, way=way) as client:
                    seen.setdefault(key, said(client))
                    assert said(client) == seen[key]
                    for name, (announced, why) in seen[key].items():
                        reader = client.get(name)
                        (batch,) = reader
                        assert pa.record_batch(batch).equals(BATCH)
                        if name != "live":  # its consumer has gone once the end is read
                            assert (announced, why) in {(one["way"], one["why"]) for one in server.stats()["consumers"]}
                        del batch, reader
        assert {key: {name: way for name, (way, _) in of.items()} for key, of in seen.items()} == {
            "shm": {"t": "map", "there": "map", "live": "map"},
            "tcp": {"t": "message", "there": "message", "live": "message"},
            "message": {"t": "message", "there": "message", "live": "message"},
        }
        assert "copy on the host" in str(seen["shm"]["there"][1])
        server.publish("more", BATCH)
        with xd.connect(shm) as client:
            assert said(client)["more"] == ("map", "the consumer maps the server's memory")
        with xd.connect(metadata=shm, data=tcp) as client:
            assert said(client)["t"] == (None, None), "bodies come by the other connection"


def catalogs() -> int:
    """The catalogs that a server of this process keeps."""
    links = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            links.append(str(descriptor.readlink()))
    return sum("crossdock-catalog" in link for link in links)


def test_consumers_of_one_transport_share_a_catalog():
    """A client that asks again and again costs the server no memory; what nobody has any more is gone, but the last."""
    with xd.serve({"t": BATCH}, ["shm:", "tcp:"]) as server:
        for uri in (server.uris[0], server.uris[1], server.uris[0]):
            for _ in range(5):
                with xd.connect(uri) as client:
                    client.list()
                    assert catalogs() <= 2
            for _ in range(100_000):  # the server has yet to see the client go; each question is a round of it
                if catalogs() == 1:
                    break
                server.stats()
            assert catalogs() == 1


@pytest.mark.parametrize("address", ["ucx://127.0.0.1:0", "fabric://127.0.0.1:0"])
@pytest.mark.parametrize("read_ahead", [None, 0, 1 << 16])
def test_read_ahead(address, read_ahead):
    batches = [pa.record_batch({c: [n] * 10_000 for c in "ab"}) for n in range(20)]
    try:
        server = xd.serve({"t": batches}, address)
    except xd.UnsupportedError as error:
        pytest.skip(str(error))
    with server, xd.connect(server.uri) as client:
        assert said(client)["t"][0] == "message"
        server.publish("live", lambda: batches)
        with xd.connect(server.uri, way="read") as reading:
            assert said(reading)["t"] == ("read", "the consumer accepts reads alone")
            assert said(reading)["live"] == (None, "the two ends have no way in common that fits this source")
            with pytest.raises(xd.UnsupportedError):
                reading.get("live")
        got = list(client.get("t", columns=["b"], read_ahead=read_ahead))
        assert [pa.record_batch(batch) for batch in got] == [batch.select(["b"]) for batch in batches]
        for wrong in (-1, 1 << 64):
            with pytest.raises(xd.InvalidArgumentError, match="read_ahead"):
                client.get("t", read_ahead=wrong)


@pytest.mark.parametrize("address", ["ucx://127.0.0.1:0", "fabric://127.0.0.1:0", "UCX://127.0.0.1:0"])
def test_checksums_where_there_are_none(address):
    with pytest.raises(xd.InvalidArgumentError, match="has no checksums"):
        xd.serve({}, ["tcp:", address], checksum=True)
    with pytest.raises(xd.InvalidArgumentError, match="has no checksums"):
        xd.connect(address, checksum=True)
    with pytest.raises(xd.InvalidArgumentError, match=r"checksum=True is for tcp: .* leave checksum out"):
        xd.serve({}, checksum=True)
    with xd.serve({}, ["shm:", "tcp:"], checksum=True) as server:
        shm, tcp = server.uris
        with pytest.raises(xd.InvalidArgumentError, match="is for tcp"):
            xd.connect(shm, checksum=True)
        with xd.connect(metadata=shm, data=tcp, checksum=True), xd.connect(shm, checksum=False):
            pass
