"""Our client gets tables from a server that follows the letter of the text, and offers nothing else."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import protocol
import pyarrow as pa
import pytest
import shm_carrier

import crossdock as xd

WANT_DATA, FREE_DATA = 0xFEDCBA9876543210, 0x0123456789ABCDEF

TABLE = pa.table(
    {
        "n": pa.array([None if i % 7 == 0 else i for i in range(50)], pa.int64()),
        "s": pa.array([None if i % 5 == 0 else "x" * (i % 11) for i in range(50)]),
        "d": pa.array(["red", "green", None, "blue", "red"] * 10).dictionary_encode(),
    }
)
MESSAGES = protocol.messages_of(TABLE, 10)
assert len(MESSAGES) == 7  # a schema, a dictionary, five batches

Carrier = shm_carrier.ShmCarrier
Act = Callable[[Carrier], None]


class LetterServer:
    """Serves one connection after another, each by one of the acts given; what an act raises, the test raises."""

    def __init__(self, path: str) -> None:
        self.uri = f"shm:{path}"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(path)
        os.chmod(path, 0o600)
        self._listener.listen()
        self._threads: list[threading.Thread] = []
        self._errors: list[BaseException] = []

    def accept(self, act: Act) -> None:
        thread = threading.Thread(target=self._serve, args=[act])
        self._threads.append(thread)
        thread.start()

    def _serve(self, act: Act) -> None:
        try:
            self._listener.settimeout(10)
            sock, _ = self._listener.accept()
            carrier = Carrier(sock, server=True, want_data=WANT_DATA, free_data=FREE_DATA)
            try:
                act(carrier)
            finally:
                carrier.close()
        except BaseException as error:
            self._errors.append(error)

    def finish(self) -> None:
        for thread in self._threads:
            thread.join(timeout=20)
            assert not thread.is_alive(), "the letter-true server still waits"
        self._listener.close()
        if self._errors:
            raise self._errors[0]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LetterServer]:
    path = os.path.join(os.environ["XDG_RUNTIME_DIR"], "letter.sock")
    serving = LetterServer(path)
    yield serving
    serving.finish()
    os.unlink(path)


def expect_request(carrier: Carrier, ticket: bytes = b"t") -> None:
    assert carrier.receive() == (WANT_DATA, ticket)


def until_it_goes(carrier: Carrier) -> Counter[int]:
    """What the client frees until it disconnects, each address as often as it is freed."""
    freed: Counter[int] = Counter()
    with contextlib.suppress(shm_carrier.Ended):
        while True:
            tag, body = carrier.receive()
            assert tag == FREE_DATA
            freed.update(struct.unpack(f"<{len(body) // 8}Q", body))
    return freed


class Sending:
    """A stream's messages as single acts, to be done in any order."""

    def __init__(self, carrier: Carrier, kinds: Callable[[int], int], *, by_value: bool = False) -> None:
        self.carrier = carrier
        self.kinds = kinds
        self.by_value = by_value
        self.sent: Counter[int] = Counter()

    def metadata(self, number: int) -> None:
        self.carrier.send(protocol.metadata_message(number, MESSAGES[number].flatbuffer))

    def body(self, number: int) -> None:
        message = MESSAGES[number]
        if self.kinds(number) == protocol.PACKED:
            tag = protocol.body_tag(number, protocol.PACKED)
            self.carrier.send(message.body, tag, by_value=self.by_value)
            return
        self.carrier.announce(number, bytes(64) + message.body)  # a region for each message
        table, addresses = protocol.table_of_addresses(message, number << 48 | 64)
        self.sent.update(addresses)
        self.carrier.send(table, protocol.body_tag(number, protocol.REMOTE))

    def end(self) -> None:
        self.carrier.send(protocol.end_message(len(MESSAGES)))

    def acts(self) -> list[Callable[[], None]]:
        """As they come: each message, its body behind it, End of Stream."""
        acts: list[Callable[[], None]] = [lambda: self.metadata(0)]
        for number in range(1, len(MESSAGES)):
            acts.append(lambda n=number: self.metadata(n))  # type: ignore[misc]
            acts.append(lambda n=number: self.body(n))  # type: ignore[misc]
        return [*acts, self.end]


def packed(_number: int) -> int:
    return protocol.PACKED


def remote(_number: int) -> int:
    return protocol.REMOTE


def mixed(number: int) -> int:
    return number % 2


def in_order(sending: Sending) -> list[Callable[[], None]]:
    return sending.acts()


def bodies_first(sending: Sending) -> list[Callable[[], None]]:
    acts = sending.acts()
    return acts[2:-1:2] + acts[0:1] + acts[1:-1:2] + acts[-1:]


def metadata_first(sending: Sending) -> list[Callable[[], None]]:
    acts = sending.acts()
    return acts[0:1] + acts[1:-1:2] + acts[-1:] + acts[2:-1:2]


def end_first(sending: Sending) -> list[Callable[[], None]]:
    acts = sending.acts()
    return acts[-1:] + acts[:-1]


def reversed_(sending: Sending) -> list[Callable[[], None]]:
    return sending.acts()[::-1]


def shuffled(sending: Sending) -> list[Callable[[], None]]:
    acts = sending.acts()
    random.Random(20).shuffle(acts)
    return acts


ORDERS = [in_order, bodies_first, metadata_first, end_first, reversed_, shuffled]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kinds", [packed, remote, mixed])
def test_a_stream_comes_whole_in_any_order(server: LetterServer, kinds, order) -> None:
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


def test_bodies_by_value_may_come_with_their_length_before_them(server: LetterServer) -> None:
    def act(carrier: Carrier) -> None:
        expect_request(carrier)
        for one in Sending(carrier, packed, by_value=True).acts():
            one()
        until_it_goes(carrier)

    server.accept(act)
    with xd.connect(server.uri) as client:
        assert pa.table(client.get("t")).equals(TABLE)


def test_a_body_by_value_may_be_larger_than_the_ring(server: LetterServer) -> None:
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


def test_the_uri_may_say_what_the_handshake_says(server: LetterServer) -> None:
    def act(carrier: Carrier) -> None:
        expect_request(carrier)
        for one in Sending(carrier, packed).acts():
            one()
        until_it_goes(carrier)

    server.accept(act)
    with xd.connect(f"{server.uri}?want_data={WANT_DATA}&free_data={FREE_DATA:#x}") as client:
        assert pa.table(client.get("t")).equals(TABLE)


def test_streams_come_one_after_another(server: LetterServer) -> None:
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


def test_every_address_is_freed_as_often_as_it_was_sent(server: LetterServer) -> None:
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


def test_an_announcement_may_trail_the_message_that_names_it(server: LetterServer) -> None:
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


# A lost connection is never a shorter table: "Truncated", docs/protocol.md.


@pytest.mark.parametrize("orderly", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("order", [in_order, end_first, metadata_first])
@pytest.mark.parametrize("count", range(2 * len(MESSAGES) - 1))
def test_a_connection_lost_at_any_step_is_a_truncated_stream(
    server: LetterServer, order, count: int, orderly: bool
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
def test_what_no_server_may_send_is_a_protocol_error(server: LetterServer, act: Act, error: str) -> None:
    server.accept(act)
    with xd.connect(server.uri) as client, pytest.raises(xd.ProtocolError, match=error):
        list(client.get("t"))
    gc.collect()


def test_a_gap_is_no_error_while_the_connection_lives(server: LetterServer) -> None:
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
        batches = [pa.record_batch(batch) for batch in itertools.islice(reader, 4)]
        with pytest.raises(xd.TimeoutError):
            next(reader)
        waited.set()
        batches += [pa.record_batch(batch) for batch in reader]
        assert pa.Table.from_batches(batches).equals(TABLE)
