"""Catalogs of servers that aren't ours: what isn't UTF-8, and what has no end, is refused by name."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import protocol
import pyarrow as pa
import pytest
from spec_server import ENDED, Carrier, SpecServer, expect_request, shm_server, until_it_goes

import crossdock as xd


@pytest.fixture
def server(no_leftovers: None) -> Iterator[SpecServer]:
    with shm_server(os.path.join(os.environ["XDG_RUNTIME_DIR"], "catalog.sock")) as serving:
        yield serving


def texts(*values: bytes) -> pa.Array:
    """A column of UTF-8 that nobody looked at."""
    return pa.Array.from_buffers(pa.utf8(), len(values), pa.array(values, pa.binary()).buffers())


def catalog(names: list[bytes], *, device: bytes = b"cpu", schema: pa.Schema | None = None) -> pa.Table:
    written = None if schema is None else schema.serialize().to_pybytes()[8:]  # without the prefix of streams
    nothing = pa.nulls(len(names), pa.int64())
    return pa.table(
        [texts(*names), pa.array([written] * len(names), pa.binary()), nothing, nothing, texts(*[device] * len(names))],
        ["name", "schema", "rows", "bytes", "device"],
    )


def send(carrier: Carrier, number: int, message: protocol.Message) -> None:
    carrier.send(protocol.metadata_message(number, message.flatbuffer))
    if number:
        carrier.send(message.body, protocol.body_tag(number, protocol.PACKED))


def offer(server: SpecServer, table: pa.Table) -> None:
    def act(carrier: Carrier) -> None:
        expect_request(carrier, b"")
        messages = protocol.messages_of(table)
        for number, message in enumerate(messages):
            send(carrier, number, message)
        carrier.send(protocol.end_message(len(messages)))
        until_it_goes(carrier)

    server.accept(act)


def offer_without_end(server: SpecServer, table: pa.Table, *, empty: bool = False) -> None:
    def act(carrier: Carrier) -> None:
        expect_request(carrier, b"")
        schema, batch = protocol.messages_of(table)
        if empty:
            written = pa.ipc.read_message(table.to_batches()[0].slice(0, 0).serialize())
            batch = protocol.Message(written.metadata.to_pybytes(), written.body.to_pybytes())
        send(carrier, 0, schema)
        with contextlib.suppress(*ENDED, OSError):
            for number in range(1, 1 << 30):
                send(carrier, number, batch)

    server.accept(act)


def test_a_catalog_is_read(server: SpecServer) -> None:
    offer(server, catalog([b"one", "zwei \u00fc".encode()], schema=pa.schema([("x", pa.int64())])))
    with xd.connect(server.uri) as client:
        one, two = client.list()
    assert (one.name, two.name, one.device) == ("one", "zwei \u00fc", "cpu")
    assert one.schema is not None
    assert one.schema.names == ["x"]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (catalog([b"right", b"a\xffb"]), r"the name in row 1 isn't UTF-8: 'a\xffb'"),
        (catalog([b"right"], device=b"\xc0\x80"), r"the device in row 0 isn't UTF-8: '\xc0\x80'"),
        (catalog([b"\xed\xa0\x80"]), r"the name in row 0 isn't UTF-8"),
    ],
    ids=["name", "device", "surrogate"],
)
def test_text_that_is_not_utf8_is_refused_with_its_place(server: SpecServer, table: pa.Table, says: str) -> None:
    offer(server, table)
    with xd.connect(server.uri) as client, pytest.raises(xd.InvalidDataError) as caught:
        client.list()
    assert says in str(caught.value)


def test_a_catalog_without_end_is_refused_by_its_entries(server: SpecServer) -> None:
    offer_without_end(server, catalog([b"name"] * 100))
    with (
        xd.connect(server.uri) as client,
        pytest.raises(xd.ResourceError, match=r"more than 1000 entries .*max_entries"),
    ):
        client.list(max_entries=1000)


def test_a_catalog_without_end_is_refused_by_its_bytes(server: SpecServer) -> None:
    offer_without_end(server, catalog([b"n" * 10_000], schema=pa.schema([(str(i), pa.int8()) for i in range(100)])))
    with xd.connect(server.uri) as client, pytest.raises(xd.ResourceError, match=r"1000000 bytes.*max_bytes"):
        client.list(max_bytes=1_000_000)


def test_a_catalog_of_endless_empty_batches_is_refused(server: SpecServer) -> None:
    offer_without_end(server, catalog([b"name"]), empty=True)
    with xd.connect(server.uri) as client, pytest.raises(xd.ResourceError, match=r"more than 50 entries"):
        client.list(max_entries=50)


def test_a_catalog_with_dictionaries_is_none(server: SpecServer) -> None:
    table = catalog([b"name"]).append_column("more", pa.array(["x"]).dictionary_encode())
    offer(server, table)
    with xd.connect(server.uri) as client, pytest.raises(xd.InvalidDataError, match="dictionary"):
        client.list()


def test_the_limits_let_pass_what_is_within_them(server: SpecServer) -> None:
    offer(server, catalog([b"%d" % i for i in range(10)]))
    with xd.connect(server.uri) as client:
        assert len(client.list(max_entries=10, max_bytes=10_000)) == 10


def test_names_of_fields_that_are_not_utf8_are_shown_without_an_error(server: SpecServer) -> None:
    def act(carrier: Carrier) -> None:
        expect_request(carrier)
        schema = protocol.messages_of(pa.table({"abcd": [1]}))[0]
        assert schema.flatbuffer.count(b"abcd") == 1
        carrier.send(protocol.metadata_message(0, schema.flatbuffer.replace(b"abcd", b"a\xff\xc0d")))
        carrier.send(protocol.end_message(1))
        until_it_goes(carrier)

    server.accept(act)
    with xd.connect(server.uri) as client:
        schema = client.get("t").schema
        assert schema.names == ["a\ufffd\ufffdd"]
        for text in (str(schema), repr(schema)):
            assert "a\\xff\\xc0d: int64" in text
        assert isinstance(hash(schema), int)
