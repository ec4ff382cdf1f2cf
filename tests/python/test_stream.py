"""Clients, readers, batches: what they say, give away, and refuse."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest

import crossdock as xd

BATCHES = [pa.record_batch({"x": [1, 2], "y": ["a", None]}), pa.record_batch({"x": [3], "y": ["c"]})]
SCHEMA = BATCHES[0].schema
TABLE = pa.Table.from_batches(BATCHES)


@pytest.fixture
def server():
    with xd.serve({"t": TABLE}) as server:
        yield server


@pytest.fixture
def client(server):
    with xd.connect(server.uri) as client:
        yield client


def test_the_catalog(server, client):
    server.publish("f", lambda: TABLE)
    by_name = {entry.name: entry for entry in client.list()}
    assert sorted(by_name) == ["f", "t"]
    entry = by_name["t"]
    assert (entry.rows, entry.device) == (3, "cpu")
    assert entry.bytes is not None
    assert entry.bytes > 0
    assert pa.schema(entry.schema) == SCHEMA
    assert repr(entry).startswith("<crossdock.CatalogEntry 't': 3 rows")
    assert by_name["f"].schema is None
    assert by_name["f"].rows is None
    assert by_name["f"].bytes is None


def test_iteration_gives_the_batches_and_then_ends_for_good(client):
    reader = client.get("t")
    batches = list(reader)
    assert [pa.record_batch(batch) for batch in batches] == BATCHES
    assert list(reader) == []
    with pytest.raises(StopIteration):
        next(reader)


def test_a_batch_tells_its_shape_without_reading_data(client):
    batch = next(client.get("t"))
    assert (len(batch), batch.num_rows, batch.num_columns) == (2, 2, 2)
    assert batch.nbytes > 0
    assert batch.schema.names == ["x", "y"]
    assert repr(batch).splitlines()[0] == f"<crossdock.RecordBatch: 2 rows, 2 columns, {batch.nbytes} bytes>"


def test_one_of_a_thing_is_no_plural(tmp_path):
    one = pa.table({"x": pa.array([True])})
    xd.write(one, tmp_path / "one.arrow")
    with xd.open(tmp_path / "one.arrow") as file:
        assert repr(file) == f"<crossdock.FileReader {tmp_path}/one.arrow: 1 batch, 1 row>"
    assert repr(xd.RecordBatchReader(one)).startswith("<crossdock.RecordBatchReader: 1 column, ")
    batch = xd.RecordBatch(pa.record_batch({"x": pa.array([7], pa.int8())}))
    assert repr(batch).splitlines()[0] == "<crossdock.RecordBatch: 1 row, 1 column, 1 byte>"
    sources = {"t": one, "one": {"a": np.zeros(1, "i1")}, "two": {"a": np.zeros(2), "b": np.zeros(2)}, "f": lambda: one}
    with xd.serve(sources) as server, xd.connect(server.uri) as client:
        entries = {entry.name: repr(entry) for entry in client.list()}
    assert entries["t"].startswith("<crossdock.CatalogEntry 't': 1 row, ")
    assert entries["one"].startswith("<crossdock.CatalogEntry 'one': 1 tensor, ")
    assert entries["two"].startswith("<crossdock.CatalogEntry 'two': 2 tensors, ")
    assert entries["f"].startswith("<crossdock.CatalogEntry 'f': ? rows, ? bytes, ")


def test_a_schema(client):
    schema = client.get("t").schema
    assert schema.names == ["x", "y"]
    assert len(schema) == 2
    assert pa.schema(schema) == SCHEMA
    assert schema == client.get("t").schema
    assert schema != client.get("t", columns=["x"]).schema
    assert schema != "x"
    assert "x" in str(schema)
    assert str(schema) in repr(schema)


def test_foreign_texts_are_shown_without_what_terminals_obey(server, client, tmp_path):
    obeyed = "\x1b\x9b\x85\u2028\u202e\u200b\n"
    name = f"n{obeyed}"
    server.publish(name, pa.table({name: [1], "other": [2]}))
    xd.write(pa.table({"x": [1]}), path := tmp_path / f"{name}.arrow")
    schema = client.get(name).schema
    assert schema.names == [name, "other"]
    texts = [*str(schema).split("\n"), *repr(schema).split("\n"), *(repr(entry) for entry in client.list())]
    with xd.open(path) as file:
        texts.append(repr(file))
    with pytest.raises(xd.NotFoundError) as raised:
        client.get(name, columns=["absent"])
    texts.append(str(raised.value))
    assert not set(obeyed) & set("".join(texts))
    assert texts[0] == "n\\x1b\\u009b\\u0085\\u2028\\u202e\\u200b\\n: int64"


def test_columns(client):
    assert pa.table(client.get("t", columns=["y"])).equals(TABLE.select(["y"]))
    assert pa.table(client.get("t", columns=("y", "x"))).equals(TABLE.select(["y", "x"]))
    none = pa.table(client.get("t", columns=[]))
    assert none.num_columns == 0
    with pytest.raises(xd.NotFoundError, match="z"):
        client.get("t", columns=["x", "z"])
    with pytest.raises(TypeError, match=r"\['x'\]"):
        client.get("t", columns="x")
    assert pa.table(client.get("t")).equals(TABLE)  # The connection is as good as before.


@pytest.mark.parametrize("wait", ["auto", "spin", "block"])
def test_wait_modes(client, wait):
    assert pa.table(client.get("t", wait=wait)).equals(TABLE)


def test_arguments_are_checked(server, client):
    with pytest.raises(xd.InvalidArgumentError, match="wait"):
        client.get("t", wait="never")
    for timeout in (-1, math.nan):
        with pytest.raises(xd.InvalidArgumentError, match="timeout"):
            client.get("t", timeout=timeout)
    with pytest.raises(TypeError, match="timeout"):
        client.get("t", timeout="1")
    with pytest.raises(xd.InvalidArgumentError, match="window"):
        xd.Server(window=0)
    with pytest.raises(xd.InvalidArgumentError, match="lease_limit"):
        xd.Server(lease_limit=0)
    with pytest.raises(xd.InvalidArgumentError, match="lease_patience"):
        xd.Server(lease_patience=-1)
    with pytest.raises(xd.InvalidArgumentError, match="max_leases"):
        xd.Server(max_leases=0)
    with pytest.raises(xd.InvalidArgumentError, match="max_streams"):
        xd.Server(max_streams=0)
    with pytest.raises(xd.InvalidArgumentError, match="source_threads"):
        xd.Server(source_threads=0)
    with pytest.raises(xd.InvalidArgumentError, match="max_connections"):
        xd.Server(max_connections=-1)
    with pytest.raises(xd.InvalidArgumentError, match="wait"):
        xd.Server(wait="never")
    with pytest.raises(xd.InvalidArgumentError, match="stable"):
        xd.Server(stable="perhaps")
    for users in ("all", [-1], [2**32]):
        with pytest.raises(xd.InvalidArgumentError, match="user"):
            xd.connect(server.uri, users=users)
    with pytest.raises(TypeError, match="user id"):
        xd.Server(users=["root"])


def test_a_name_that_isnt_there_lists_near_ones(server, client):
    server.publish("flights", TABLE)
    with pytest.raises(xd.NotFoundError, match="flights"):
        client.get("flight")


def test_a_reader_is_handed_over_once(client):
    reader = client.get("t")
    whole = pa.RecordBatchReader.from_stream(reader)
    for use in (lambda: next(reader), lambda: reader.__arrow_c_stream__(), lambda: reader.__arrow_c_device_stream__()):
        with pytest.raises(xd.ConsumedError, match="already exported"):
            use()
    reader.close()  # Does nothing to the stream that is pyarrow's now.
    assert reader.schema.names == ["x", "y"]
    assert whole.read_all().to_batches() == BATCHES
    assert "exported" in repr(reader)


@pytest.mark.parametrize("taken", [1, None], ids=["one batch", "all"])
def test_what_iteration_left_is_never_handed_over_for_the_whole(client, tmp_path, taken):
    reader = client.get("t")
    batches = [pa.record_batch(batch) for batch in itertools.islice(reader, taken)]
    path = tmp_path / "t.arrow"
    for use in (reader.__arrow_c_stream__, reader.__arrow_c_device_stream__, lambda: xd.write(reader, path)):
        with pytest.raises(xd.ConsumedError, match="by iteration"):
            use()
    with pytest.raises(xd.ConsumedError, match="batches were already read"):
        pa.table(reader)
    assert not path.exists()
    # Whoever iterates has the rest.
    assert batches + [pa.record_batch(batch) for batch in reader] == BATCHES


@pytest.mark.parametrize("form", ["file", "stream"])
def test_a_files_batches_go_to_the_first_that_takes_one(tmp_path, form):
    path = tmp_path / "t.arrow"
    table = pa.Table.from_batches(BATCHES)
    xd.write(table, path, form=form)

    reader = xd.open(path)
    if form == "file":
        assert pa.record_batch(reader.batch(1)) == BATCHES[1]  # Moves nothing.
    waiting = pa.RecordBatchReader.from_stream(reader)
    assert pa.table(reader) == table, "some consumers ask for the stream, and ask again to read it"
    with pytest.raises(xd.ConsumedError, match="batches were already read"):
        pa.table(reader)
    with pytest.raises(xd.ConsumedError, match="a consumer of its Arrow stream"):
        next(reader)
    with pytest.raises(Exception, match="ConsumedError: batches were already read"):
        waiting.read_all()

    reader = xd.open(path)
    first = pa.record_batch(next(reader))
    with pytest.raises(xd.ConsumedError, match="by iteration"):
        reader.__arrow_c_stream__()
    with pytest.raises(xd.ConsumedError, match="by iteration"):
        reader.__arrow_c_device_stream__()
    assert [first, *map(pa.record_batch, reader)] == BATCHES


def test_a_closed_reader_says_so(client):
    with client.get("t") as reader:
        batch = next(reader)
    assert "closed" in repr(reader)
    with pytest.raises(xd.ClosedError):
        next(reader)
    with pytest.raises(xd.ClosedError):
        reader.__arrow_c_stream__()
    reader.close()
    assert pa.record_batch(batch) == BATCHES[0]


def test_a_closed_client_says_so_and_its_readers_go_on(server):
    client = xd.connect(server.uri)
    reader = client.get("t")
    assert not client.closed
    client.close()
    client.close()
    assert client.closed
    assert "closed" in repr(client)
    for use in (client.list, lambda: client.get("t")):
        with pytest.raises(xd.ClosedError):
            use()
    assert pa.table(reader).equals(TABLE)


def test_a_closed_server_says_so():
    server = xd.serve({"t": TABLE})
    uri = server.uri
    assert uri in repr(server)
    server.close()
    server.close()
    assert server.closed
    assert "closed" in repr(server)
    with pytest.raises(xd.ClosedError):
        server.publish("u", TABLE)
    with pytest.raises(xd.ConnectionError):
        xd.connect(uri, timeout=1)


@pytest.mark.parametrize(
    "uri",
    ["", "nonsense", "shm:/x?want_data=z", "shm:/x?want_data=1&want_data=2", "shm:" + "/long" * 50, "shm:@abstract"],
)
def test_malformed_uris(uri):
    with pytest.raises((xd.UriError, xd.SchemeError)):
        xd.connect(uri, timeout=1)


def test_unknown_schemes():
    for make in (lambda: xd.connect("carrier-pigeon:/x", timeout=1), lambda: xd.serve(uri="carrier-pigeon:/x")):
        with pytest.raises(xd.SchemeError, match="carrier-pigeon"):
            make()


def test_nobody_listens(tmp_path):
    with pytest.raises(xd.ConnectionError, match=r"absent\.sock"):
        xd.connect(f"shm:{tmp_path}/absent.sock", timeout=1)


def test_several_readers_of_one_client_at_once(client):
    first, second = client.get("t"), client.get("t")
    pairs = list(zip(first, second, strict=True))
    assert [pa.record_batch(one) for one, _ in pairs] == BATCHES
    assert [pa.record_batch(two) for _, two in pairs] == BATCHES


def test_stats(server, client):
    reader = client.get("t")
    batch = next(reader)
    stats = server.stats()
    assert stats["accepted_connections"] >= 1
    assert stats["protocol_errors"] == 0
    assert [source["name"] for source in stats["sources"]] == ["t"]
    assert any(consumer["name"] == "t" or consumer["leases"] > 0 for consumer in stats["consumers"])
    del batch
