"""Metadata and bodies over a connection each; servers that listen at several places."""

from __future__ import annotations

import pyarrow as pa
import pytest

import crossdock as xd

TABLE = pa.table({"n": range(1000), "s": [str(n) for n in range(1000)]})


def table_of(client: xd.Client) -> pa.Table:
    return pa.table(client.get("t"))


def test_of_one_server():
    with xd.serve({"t": TABLE}) as server, xd.connect(metadata=server.uri, data=server.uri) as client:
        assert [entry.name for entry in client.list()] == ["t"]
        for _ in range(3):
            assert table_of(client) == TABLE
        connections = server.stats()["accepted_connections"]
    assert connections == 5, "one for metadata, one for the catalog, and one for the bodies of each stream"


def test_of_two_servers():
    with xd.serve({"t": TABLE}) as one, xd.serve({"t": TABLE}) as other:
        with xd.connect(metadata=one.uri, data=other.uri) as client:
            assert table_of(client) == TABLE
        (bodies,) = [source["streams"] for source in other.stats()["sources"]]
        assert bodies == 1


def test_the_way_is_that_of_the_bodies_alone():
    """The server of the metadata needn't have it, and no way is said of its connection."""
    with xd.serve({"t": TABLE}, ["shm:", "tcp:"]) as server:
        shm, tcp = server.uris
        for metadata, data, way in ((tcp, shm, "map"), (shm, tcp, "message")):
            with xd.connect(metadata=metadata, data=data, way=way) as client, client.get("t") as reader:
                batch = next(iter(reader))
                ways = [(one["way"], bool(one["why"])) for one in server.stats()["consumers"]]
                assert sorted(ways, key=str) == sorted([(None, False), (way, True)], key=str)
                assert {(entry.way, entry.why) for entry in client.list()} == {(None, None)}
                assert pa.record_batch(batch).num_rows == 1000
                del batch
            with pytest.raises(xd.UnsupportedError, match=r"it wants \(read\)"):
                xd.connect(metadata=metadata, data=data, way="read")


def test_live_streams_need_one_connection():
    with (
        xd.serve({"live": lambda: TABLE.to_reader()}) as server,
        xd.connect(metadata=server.uri, data=server.uri) as client,
        pytest.raises(xd.UnsupportedError, match="one connection"),
    ):
        client.get("live")


@pytest.mark.parametrize(
    "uris", [{}, {"metadata": "shm:/x"}, {"data": "shm:/x"}, {"uri": "shm:/x", "metadata": "shm:/x", "data": "shm:/x"}]
)
def test_one_uri_or_both(uris):
    with pytest.raises(xd.InvalidArgumentError, match="one URI, or two"):
        xd.connect(**uris)


def test_several_places(tmp_path):
    with xd.serve({"t": TABLE}, ["shm:", f"shm:{tmp_path}/x.sock"]) as server:
        assert len(server.uris) == 2
        assert server.uri == server.uris[0]
        for uri in server.uris:
            with xd.connect(uri) as client:
                assert table_of(client) == TABLE
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("validation", ["structure", "full", None])
def test_validation_is_chosen_per_reader(validation):
    with xd.serve({"t": TABLE}) as server, xd.connect(server.uri) as client:
        assert pa.table(client.get("t", validation=validation)) == TABLE


def test_data_from_elsewhere_is_looked_at_in_full():
    """Over tcp nothing says who the other end is; metadata alone from there is enough to doubt all of it."""
    text = pa.StringArray.from_buffers(2, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xff"))
    with xd.serve({"bad": pa.table({"s": text})}, ["shm:", "tcp:"]) as server:
        shm, tcp = server.uris
        for uris in ({"uri": tcp}, {"metadata": tcp, "data": shm}, {"metadata": shm, "data": tcp}):
            with xd.connect(**uris) as client:
                with pytest.raises(xd.InvalidDataError, match="UTF-8"):
                    list(client.get("bad"))
                assert pa.table(client.get("bad", validation="structure")).num_rows == 2


def test_full_validation_finds_what_structure_leaves():
    text = pa.StringArray.from_buffers(2, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xff"))
    bad = pa.table({"s": text})
    with xd.serve({"bad": bad}) as server, xd.connect(server.uri) as client:
        assert pa.table(client.get("bad")).num_rows == 2
        with pytest.raises(xd.InvalidDataError, match="UTF-8"):
            list(client.get("bad", validation="full"))
        with pytest.raises(xd.InvalidArgumentError, match="validation"):
            client.get("bad", validation="half")
