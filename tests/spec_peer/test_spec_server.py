"""Our client gets tables from a server that follows the text strictly, and offers nothing else, over shm."""

from __future__ import annotations

import gc
import os
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import protocol
import pyarrow as pa
import pytest
from spec_server import (
    FREE_DATA,
    MESSAGES,
    ORDERS,
    TABLE,
    WANT_DATA,
    Act,
    Carrier,
    Sending,
    SpecServer,
    end_first,
    expect_request,
    in_order,
    metadata_first,
    mixed,
    packed,
    patient_next,
    remote,
    shm_server,
    until_it_goes,
)

import crossdock as xd


@pytest.fixture
def server(no_leftovers: None) -> Iterator[SpecServer]:
    with shm_server(os.path.join(os.environ["XDG_RUNTIME_DIR"], "spec.sock")) as serving:
        yield serving


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kinds", [packed, remote, mixed])
def test_a_stream_comes_whole_in_any_order(server: SpecServer, kinds, order) -> None:
    def act(carrier: Carrier) -> None:
        expect_request(carrier)
        sending = Sending(carrier, kinds)
        for one in order(sending):
            one()
        assert until_it_goes(carrier) == sending.sent

    server.accept(act)
    with xd.connect(server.uri) as client:
        table = pa.table(client.get("t"))
        assert table.equals(TABLE)
        table.validate(full=True)
        del table
        gc.collect()


def test_bodies_by_value_may_come_with_their_length_before_them(server: SpecServer) -> None:
    def act(carrier: Carrier) -> None:
        expect_request(carrier)
        for one in Sending(carrier, packed, by_value=True).acts():
            one()
        until_it_goes(carrier)

    server.accept(act)
    with xd.connect(server.uri) as client:
        assert pa.table(client.get("t")).equals(TABLE)


def test_a_body_by_value_may_be_larger_than_the_ring(server: SpecServer) -> None:
    table = pa.table({"n": list(range(100_000))})
    schema, batch = protocol.messages_of(table)

    def act(carrier: Carrier) -> None:
        expect_request(carrier)
        carrier.send(protocol.metadata_message(0, schema.flatbuffer))
        carrier.send(protocol.metadata_message(1, batch.flatbuffer))
        carrier.send(batch.body, protocol.body_tag(1, protocol.PACKED), by_value=True)
        carrier.send(protocol.end_message(2))
        until_it_goes(carrier)

    server.accept(act)
    with xd.connect(server.uri) as client:
        assert pa.table(client.get("t")).equals(table)


def test_the_uri_may_say_what_the_handshake_says(server: SpecServer) -> None:
    def act(carrier: Carrier) -> None:
        expect_request(carrier)
        for one in Sending(carrier, packed).acts():
            one()
        until_it_goes(carrier)

    server.accept(act)
    with xd.connect(f"{server.uri}?want_data={WANT_DATA}&free_data={FREE_DATA:#x}") as client:
        assert pa.table(client.get("t")).equals(TABLE)


def test_streams_come_one_after_another(server: SpecServer) -> None:
    def act(carrier: Carrier) -> None:
        for _ in range(5):
            expect_request(carrier)
            for one in end_first(Sending(carrier, packed)):
                one()
        until_it_goes(carrier)

    server.accept(act)
    with xd.connect(server.uri) as client:
        for _ in range(5):
            assert pa.table(client.get("t")).equals(TABLE)


def test_every_address_is_freed_as_often_as_it_was_sent(server: SpecServer) -> None:
    """One region for all; the same body under three numbers, so that each address comes three times."""
    table = pa.table({"n": [1, 2, 3], "s": ["a", None, "c"]})
    schema, batch = protocol.messages_of(table)
    addresses: Counter[int] = Counter()
    freed: Counter[int] = Counter()

    def act(carrier: Carrier) -> None:
        expect_request(carrier)
        carrier.announce(9, bytes(64) + batch.body)
        body, own = protocol.table_of_addresses(batch, 9 << 48 | 64)
        carrier.send(protocol.metadata_message(0, schema.flatbuffer))
        for number in (1, 2, 3):
            carrier.send(protocol.metadata_message(number, batch.flatbuffer))
            carrier.send(body, protocol.body_tag(number, protocol.REMOTE))
            addresses.update(own)
        carrier.send(protocol.end_message(4))
        freed.update(until_it_goes(carrier))

    server.accept(act)
    with xd.connect(server.uri) as client:
        assert pa.table(client.get("t")).equals(pa.concat_tables([table] * 3))
        gc.collect()
    server.finish()
    assert addresses
    assert freed == addresses


def test_an_announcement_may_trail_the_message_that_names_it(server: SpecServer) -> None:
    schema, batch = protocol.messages_of(pa.table({"n": [1, 2, 3]}))
    asked = threading.Event()

    def act(carrier: Carrier) -> None:
        expect_request(carrier)
        body, _ = protocol.table_of_addresses(batch, 1 << 48 | 64)
        carrier.send(protocol.metadata_message(0, schema.flatbuffer))
        carrier.send(protocol.metadata_message(1, batch.flatbuffer))
        carrier.send(body, protocol.body_tag(1, protocol.REMOTE))
        carrier.send(protocol.end_message(2))
        assert asked.wait(10)
        carrier.announce(1, bytes(64) + batch.body)
        until_it_goes(carrier)

    server.accept(act)
    with xd.connect(server.uri) as client:
        reader = client.get("t")
        asked.set()
        assert pa.table(reader)["n"].to_pylist() == [1, 2, 3]
        del reader
        gc.collect()


# A lost connection is never a shorter table: "Truncated", docs/reference/protocol.md.


@pytest.mark.parametrize("orderly", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("order", [in_order, end_first, metadata_first])
@pytest.mark.parametrize("count", range(2 * len(MESSAGES) - 1))
def test_a_connection_lost_at_any_step_is_a_truncated_stream(
    server: SpecServer, order, count: int, orderly: bool
) -> None:
    def act(carrier: Carrier) -> None:
        expect_request(carrier)
        for one in order(Sending(carrier, mixed))[:count]:
            one()
        carrier.close(orderly=orderly)

    server.accept(act)
    with xd.connect(server.uri) as client, pytest.raises(xd.TruncatedStreamError, match="before End of Stream"):
        list(client.get("t"))
    gc.collect()


# What no server may send: each is a named error, and the client can connect again.


def untagged(*messages: bytes) -> Act:
    def act(carrier: Carrier) -> None:
        expect_request(carrier)
        carrier.send(protocol.metadata_message(0, MESSAGES[0].flatbuffer))
        for message in messages:
            carrier.send(message)
        until_it_goes(carrier)

    return act


def tagged(tag: int, body: bytes, number: int = 1) -> Act:
    def act(carrier: Carrier) -> None:
        expect_request(carrier)
        carrier.announce(1, bytes(64) + MESSAGES[number].body)
        carrier.send(protocol.metadata_message(0, MESSAGES[0].flatbuffer))
        carrier.send(protocol.metadata_message(1, MESSAGES[number].flatbuffer))
        carrier.send(body, tag)
        until_it_goes(carrier)

    return act


def damaged_table(change: Callable[[list[int]], None]) -> bytes:
    body, _ = protocol.table_of_addresses(MESSAGES[1], 1 << 48 | 64)
    words = list(struct.unpack(f"<{len(body) // 8}Q", body))
    change(words)
    return struct.pack(f"<{len(words)}Q", *words)


def total_wrong(words: list[int]) -> None:
    words[0] += 1


def count_wrong(words: list[int]) -> None:
    words[1] += 1


def pair_missing(words: list[int]) -> None:
    words[1] -= 1
    words[0] -= words.pop()
    words.pop()


def length_wrong(words: list[int]) -> None:
    words[0] += 8
    words[-1] += 8


def outside_its_region(words: list[int]) -> None:
    words[-2] = 1 << 48 | 1 << 40


def address_without_length(words: list[int]) -> None:
    words[0] -= words[-1]
    words[-1] = 0


REMOTE_1 = protocol.body_tag(1, protocol.REMOTE)


@pytest.mark.parametrize(
    ("act", "error"),
    [
        pytest.param(untagged(b"\x09\x01\x00\x00\x00"), "type 9", id="message type 9"),
        pytest.param(untagged(b"\x00\x01\x00\x00\x00\x00"), "exactly 5", id="End of Stream of 6 bytes"),
        pytest.param(untagged(b"\x01\x01\x00"), "3 bytes", id="half a prefix"),
        pytest.param(untagged(protocol.metadata_message(0, b"")), "number 0", id="number 0 twice"),
        pytest.param(untagged(protocol.metadata_message(1, MESSAGES[0].flatbuffer)), "second schema", id="two schemas"),
        pytest.param(tagged(REMOTE_1 | 1 << 32, b""), "reserved bits", id="reserved bit 32"),
        pytest.param(tagged(REMOTE_1 | 1 << 55, b""), "reserved bits", id="reserved bit 55"),
        pytest.param(tagged(1 | 2 << 56, b""), "body type 2", id="body type 2"),
        pytest.param(tagged(1, MESSAGES[1].body[:-1]), "packed body", id="a packed body too short"),
        *(
            pytest.param(tagged(REMOTE_1, damaged_table(change)), error, id=change.__name__)
            for change, error in [
                (total_wrong, "in total"),
                (count_wrong, "buffers"),
                (pair_missing, "buffers"),
                (length_wrong, "metadata says"),
                (outside_its_region, "outside its region"),
                (address_without_length, "length 0"),
            ]
        ),
    ],
)
def test_what_no_server_may_send_is_a_protocol_error(server: SpecServer, act: Act, error: str) -> None:
    server.accept(act)
    with xd.connect(server.uri) as client, pytest.raises(xd.ProtocolError, match=error):
        list(client.get("t"))
    gc.collect()


def test_a_gap_is_no_error_while_the_connection_lives(server: SpecServer) -> None:
    """All but one message, and the end; the reader times out, and has it all once the last one comes."""
    waited = threading.Event()

    def act(carrier: Carrier) -> None:
        expect_request(carrier)
        *acts, last = end_first(Sending(carrier, packed))
        for one in acts:
            one()
        assert waited.wait(10)
        last()
        until_it_goes(carrier)

    server.accept(act)
    with xd.connect(server.uri) as client:
        reader = client.get("t", timeout=0.2)
        batches = [patient_next(reader) for _ in range(4)]
        with pytest.raises(xd.TimeoutError):
            next(reader)
        waited.set()
        while (batch := patient_next(reader)) is not None:
            batches.append(batch)
        assert pa.Table.from_batches(batches).equals(TABLE)
