"""A client that follows the text strictly, and offers nothing else, gets tables from our server."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Iterator

import numpy as np
import protocol
import pyarrow as pa
import pytest
import shm_carrier

import crossdock as xd

DICTIONARY = pa.array(["red", "green", "blue", None, "red"] * 40).dictionary_encode()
TABLE = pa.table(
    {
        "n": pa.array([None if i % 7 == 0 else i for i in range(200)], pa.int64()),
        "s": pa.array([None if i % 5 == 0 else "x" * (i % 11) for i in range(200)]),
        "b": pa.array([i % 3 == 0 for i in range(200)]),
        "l": pa.array([list(range(i % 4)) for i in range(200)], pa.list_(pa.int32())),
        "d": DICTIONARY,
    }
)
LONG = pa.Table.from_batches(pa.table({"n": list(range(2000))}).to_batches(2))
EMPTY = pa.table({"n": pa.array([], pa.int64())})


def eventually(condition: Callable[[], bool]) -> None:
    """For what the server's own thread does without telling anybody: stats() shows it, and no event says when."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)


@pytest.fixture
def server() -> Iterator[xd.Server]:
    # Two columns that are one: what lies in an arena isn't copied, so the stream has each address twice.
    values = xd.Arena().empty(100, "i8")
    values[:] = np.arange(100)
    column = pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])
    twice = pa.table({"a": column, "b": column})
    tables = {"table": pa.Table.from_batches(TABLE.to_batches(60)), "empty": EMPTY, "twice": twice, "long": LONG}
    with xd.serve(tables) as serving:
        yield serving


class Connected:
    def __init__(self, location: str) -> None:
        address, _, query = location.removeprefix("shm:").partition("?")
        self.carrier = shm_carrier.connect(shm_carrier.socket_path(address))
        parameters = dict(part.split("=") for part in query.split("&"))
        # "URI Specification": the two tags are also in the URI.
        assert int(parameters["want_data"]) == self.carrier.want_data
        assert int(parameters["free_data"]) == self.carrier.free_data
        self.client = protocol.LetterClient(self.carrier, self.carrier, self.fetch)

    def fetch(self, address: int, length: int) -> bytes:
        # docs/reference/protocol.md, "Addresses over shm": the region's number in the top 16 bits, the offset in the
        # low 48.
        assert address & 0xFFFFFFFFFFFF != 0, "offset 0 of a region is never used"
        return self.carrier.regions[address >> 48].read(address & 0xFFFFFFFFFFFF, length)


@pytest.fixture
def connected(server: xd.Server) -> Iterator[Connected]:
    one = Connected(server.locations[0])
    yield one
    one.carrier.close()


def leases(server: xd.Server) -> int:
    (consumer,) = server.stats()["consumers"]
    return consumer["leases"]


def sync(connected: Connected, server: xd.Server) -> int:
    """Leases that are out once the server has taken all that this client sent before: it answers in order."""
    stream = connected.client.get(b"empty")
    assert stream.addresses == []
    return leases(server)


def test_a_table_comes_whole(connected: Connected) -> None:
    stream = connected.client.get(b"table")
    assert stream.table().equals(TABLE)
    assert stream.end_number == len(stream.messages)
    assert set(stream.body_types) == {protocol.REMOTE}


def test_an_empty_table_has_a_schema_and_an_end(connected: Connected) -> None:
    stream = connected.client.get(b"empty")
    assert stream.table().equals(EMPTY)


def test_the_catalog_is_a_stream_like_any_other(connected: Connected) -> None:
    assert connected.client.get(b"").table()["name"].to_pylist() == ["empty", "long", "table", "twice"]


def test_each_distinct_address_freed_once_after_the_last_body_is_enough(
    connected: Connected, server: xd.Server
) -> None:
    stream = connected.client.get(b"table")
    again = connected.client.get(b"table")
    assert again.addresses == stream.addresses, "a published table is the same memory for every stream"
    assert leases(server) == 2 * len(stream.addresses)
    connected.client.free(sorted(set(stream.addresses)))
    assert sync(connected, server) == 0
    assert server.stats()["protocol_errors"] == 0


def test_an_address_that_came_twice_in_one_stream_may_be_freed_once(connected: Connected, server: xd.Server) -> None:
    stream = connected.client.get(b"twice")
    assert len(stream.addresses) == 2 * len(set(stream.addresses)) == leases(server)
    connected.client.free(set(stream.addresses))
    assert sync(connected, server) == 0


def test_frees_that_are_counted_do_as_well(connected: Connected, server: xd.Server) -> None:
    stream = connected.client.get(b"table")
    connected.client.get(b"table")
    for address in stream.addresses + stream.addresses:
        connected.client.free([address])
    assert sync(connected, server) == 0
    assert server.stats()["protocol_errors"] == 0


def test_frees_before_the_end_of_the_next_stream_do_as_well(connected: Connected, server: xd.Server) -> None:
    first = connected.client.get(b"table")
    connected.carrier.send(b"table", connected.carrier.want_data)
    connected.client.free(sorted(set(first.addresses)))  # while the next one is under way
    second = receive_what_was_asked_for(connected)
    assert second.table().equals(TABLE)
    connected.client.free(sorted(set(second.addresses)))
    assert sync(connected, server) == 0


def receive_what_was_asked_for(connected: Connected) -> protocol.Stream:
    """get() without its request."""

    class AlreadyAsked:
        def __init__(self, carrier: shm_carrier.ShmCarrier) -> None:
            self.want_data, self.free_data = carrier.want_data, carrier.free_data
            self.receive, self.close = carrier.receive, carrier.close

        def send(self, payload: bytes, tag: int | None = None, *, by_value: bool = False) -> None:
            assert tag == self.want_data

    carrier = AlreadyAsked(connected.carrier)
    return protocol.LetterClient(carrier, carrier, connected.fetch).get(b"")


def test_a_client_that_never_frees_gives_all_back_by_going(server: xd.Server) -> None:
    one = Connected(server.locations[0])
    assert one.client.get(b"table").addresses
    assert leases(server) > 0
    one.carrier.close()
    eventually(lambda: server.stats()["consumers"] == [])
    with xd.connect(server.uri) as ours:
        assert pa.table(ours.get("table")).equals(TABLE)


def test_a_client_that_is_killed_gives_all_back_too(server: xd.Server) -> None:
    one = Connected(server.locations[0])
    one.client.get(b"table")
    one.carrier.close(orderly=False)
    eventually(lambda: server.stats()["consumers"] == [])


def test_many_streams_go_over_one_connection(connected: Connected, server: xd.Server) -> None:
    for _ in range(20):
        stream = connected.client.get(b"table")
        assert stream.table().equals(TABLE)
        connected.client.free(sorted(set(stream.addresses)))
    assert sync(connected, server) == 0


def test_a_client_that_stops_reading_for_a_while_loses_nothing(server: xd.Server) -> None:
    one = Connected(server.locations[0])
    try:
        one.carrier.send(b"long", one.carrier.want_data)
        # Far more messages than the window and the ring hold: the server has to wait for this end.
        eventually(lambda: server.stats()["consumers"][0]["in_flight"] > 8)
        assert receive_what_was_asked_for(one).table()["n"].to_pylist() == list(range(2000))
    finally:
        one.carrier.close()


def test_a_live_stream_comes_whole(server: xd.Server) -> None:
    batches = [pa.record_batch({"n": np.arange(i, i + 100)}) for i in range(0, 2000, 100)]
    server.publish("live", lambda: pa.RecordBatchReader.from_batches(batches[0].schema, batches))
    one = Connected(server.locations[0])
    try:
        stream = one.client.get(b"live")
        assert stream.table()["n"].to_pylist() == list(range(2000))
        one.client.free(sorted(set(stream.addresses)))
        assert sync(one, server) == 0
    finally:
        one.carrier.close()


def test_metadata_and_bodies_may_have_a_connection_each(server: xd.Server) -> None:
    """The text's first possibility: want_data goes to both, the frees to the one that the bodies came from."""
    path = shm_carrier.socket_path(server.uri.removeprefix("shm:"))
    metadata = shm_carrier.connect(path, shm_carrier.METADATA)
    data = shm_carrier.connect(path, shm_carrier.BODIES)

    def fetch(address: int, length: int) -> bytes:
        return data.regions[address >> 48].read(address & 0xFFFFFFFFFFFF, length)

    def leases_by_connection() -> list[int]:
        return sorted(consumer["leases"] for consumer in server.stats()["consumers"])

    try:
        client = protocol.LetterClient(metadata, data, fetch)
        for ticket, rows in [(b"table", 200), (b"empty", 0), (b"empty", 0), (b"twice", 100), (b"table", 200)]:
            stream = client.get(ticket)
            assert stream.table().num_rows == rows
            if rows:
                assert leases_by_connection() == [0, len(stream.addresses)]
                client.free(set(stream.addresses))
            eventually(lambda: leases_by_connection() == [0, 0])
        assert metadata.regions == {}, "regions are announced to the connection of the bodies alone"
        assert server.stats()["protocol_errors"] == 0
    finally:
        metadata.close()
        data.close()


def test_at_the_lease_limit_bodies_come_by_value() -> None:
    """A client that frees after the last body holds all of a live stream: what is over the limit becomes its own."""
    batches = [pa.record_batch({"n": np.arange(i, i + 1000)}) for i in range(0, 50_000, 1000)]

    def live() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(batches[0].schema, batches)

    with xd.serve({"live": live, "empty": EMPTY}, lease_limit=30_000) as server:
        one = Connected(server.locations[0])
        try:
            for _ in range(2):
                stream = one.client.get(b"live")
                assert stream.table()["n"].to_pylist() == list(range(50_000))
                assert set(stream.body_types) == {protocol.REMOTE, protocol.PACKED}
                assert 0 < len(stream.addresses) * 8000 <= 32_000
                one.client.free(set(stream.addresses))
                assert sync(one, server) == 0
        finally:
            one.carrier.close()


# What ends a connection, and no other: docs/reference/protocol.md, "Starting a stream" and "Freeing addresses".


def free_of_nothing_lent(one: Connected) -> None:
    one.client.free([0x0003_0000_0000_1000])


def free_too_often(one: Connected) -> None:
    addresses = one.client.get(b"table").addresses
    one.client.free(addresses * 2)


def part_of_an_address(one: Connected) -> None:
    one.carrier.send(bytes(7), one.carrier.free_data)


def unknown_tag(one: Connected) -> None:
    one.carrier.send(b"", one.carrier.want_data ^ one.carrier.free_data ^ 1)


def untagged(one: Connected) -> None:
    one.carrier.send(protocol.end_message(0))


def second_request(one: Connected) -> None:
    for _ in range(2):  # one stream is more than the server may send ahead, so it can't be over
        one.carrier.send(b"long", one.carrier.want_data)


def frame_of_unknown_flags(one: Connected) -> None:
    one.carrier._send_frame(1 << 7, 0, b"", 5)


def until_it_ends(one: Connected) -> None:
    with contextlib.suppress(shm_carrier.Ended):
        while True:
            one.carrier.receive()


@pytest.mark.parametrize(
    "offence",
    [
        free_of_nothing_lent,
        free_too_often,
        part_of_an_address,
        unknown_tag,
        untagged,
        second_request,
        frame_of_unknown_flags,
    ],
)
def test_an_offence_ends_this_connection_and_no_other(server: xd.Server, offence) -> None:
    bystander = Connected(server.locations[0])
    one = Connected(server.locations[0])
    try:
        kept = bystander.client.get(b"table")
        offence(one)
        until_it_ends(one)
        eventually(lambda: len(server.stats()["consumers"]) == 1)
        assert server.stats()["protocol_errors"] == 1
        assert leases(server) == len(kept.addresses)
        assert bystander.client.get(b"table").table().equals(TABLE)
    finally:
        one.carrier.close()
        bystander.carrier.close()


def test_an_unknown_name_closes_the_connection_for_it_knows_no_error_messages(server: xd.Server) -> None:
    one = Connected(server.locations[0])
    try:
        one.carrier.send(b"nothing of this name", one.carrier.want_data)
        with pytest.raises(shm_carrier.Ended):
            one.carrier.receive()
    finally:
        one.carrier.close()


def test_the_bytes_of_a_free_are_little_endian(connected: Connected, server: xd.Server) -> None:
    stream = connected.client.get(b"table")
    for address in sorted(set(stream.addresses)):
        connected.carrier.send(struct.pack("<Q", address), connected.carrier.free_data)
    assert sync(connected, server) == 0
