"""The Dissociated IPC protocol, both ends, as the text specifies and no further.

Written from the published page alone over any carrier of tagged and untagged messages, with none of the library's code.
Sections of the text are named where they are followed. pyarrow makes and interprets IPC messages; where their buffers
lie is read from the flatbuffers by hand.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

END_OF_STREAM, METADATA = 0, 1
PACKED, REMOTE = 0, 1
SEQUENCE_MASK = 0x00000000FFFFFFFF

SCHEMA, DICTIONARY_BATCH, RECORD_BATCH, TENSOR = 1, 2, 3, 4


class Carrier(Protocol):
    """What the text asks of a transport ("Requirements"): delimited messages, and tagged ones."""

    want_data: int
    free_data: int

    def send(self, payload: bytes, tag: int | None = None, *, by_value: bool = False) -> None: ...
    def receive(self, timeout: float = 10) -> tuple[int | None, bytes]: ...
    def close(self) -> None: ...


# ---- flatbuffers, by hand ------------------------------------------------------------------------------------------


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a table lies; 0 if it is absent."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", data, vtable)[0]:
        return 0
    offset = struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0]
    return table + offset if offset else 0


def _follow(data: bytes, at: int) -> int:
    return at + struct.unpack_from("<I", data, at)[0]


@dataclass
class Header:
    """What a receiver needs to know of an IPC message (Message.fbs)."""

    kind: int
    body_length: int
    buffers: list[tuple[int, int]]  # offset in a packed body, length


def read_header(flatbuffer: bytes) -> Header:
    message = _follow(flatbuffer, 0)
    kind = flatbuffer[_field(flatbuffer, message, 1)]
    header = _follow(flatbuffer, _field(flatbuffer, message, 2))
    at = _field(flatbuffer, message, 3)
    body_length = struct.unpack_from("<q", flatbuffer, at)[0] if at else 0
    if kind == SCHEMA:
        return Header(kind, body_length, [])
    if kind == TENSOR:  # Tensor.fbs: `data` is a struct, in the table itself
        return Header(kind, body_length, [struct.unpack_from("<qq", flatbuffer, _field(flatbuffer, header, 4))])
    if kind == DICTIONARY_BATCH:
        header = _follow(flatbuffer, _field(flatbuffer, header, 1))
    vector = _follow(flatbuffer, _field(flatbuffer, header, 2))
    (count,) = struct.unpack_from("<I", flatbuffer, vector)
    buffers = [struct.unpack_from("<qq", flatbuffer, vector + 4 + 16 * i) for i in range(count)]
    return Header(kind, body_length, buffers)


# ---- the client ("Client Sequence") --------------------------------------------------------------------------------


@dataclass
class Stream:
    """What came of one stream, in its order."""

    messages: list[tuple[bytes, bytes]] = field(default_factory=list)  # flatbuffer, packed body
    addresses: list[int] = field(default_factory=list)  # each as often as it came
    body_types: list[int] = field(default_factory=list)
    end_number: int = -1

    def table(self) -> pa.Table:
        """pyarrow's reading of it, as an IPC stream."""
        out = bytearray()
        for flatbuffer, body in self.messages:
            padded = flatbuffer + bytes(-len(flatbuffer) % 8)
            out += struct.pack("<Ii", 0xFFFFFFFF, len(padded)) + padded + body
        out += struct.pack("<Ii", 0xFFFFFFFF, 0)
        return pa.ipc.open_stream(bytes(out)).read_all()

    def tensors(self) -> list[pa.Tensor]:
        """pyarrow's reading of tensors, which it takes one by one. They begin at a multiple of 64 bytes."""
        read = []
        for flatbuffer, body in self.messages[1:]:
            padded = flatbuffer + bytes(-(len(flatbuffer) + 8) % 64)
            message = struct.pack("<Ii", 0xFFFFFFFF, len(padded)) + padded + body
            read.append(pa.ipc.read_tensor(pa.BufferReader(message)))
        return read


class LetterClient:
    """`data` is the carrier of the bodies, and gets the frees; the same as `metadata` where one connection has both.

    `fetch` turns an address and a length into bytes: "memory can then be retrieved via shared or remote memory routines
    based on the underlying transport".
    """

    def __init__(self, metadata: Carrier, data: Carrier, fetch: Callable[[int, int], bytes]) -> None:
        self.metadata = metadata
        self.data = data
        self.fetch = fetch

    def get(self, ticket: bytes) -> Stream:
        # 1. "If the metadata and data servers are separate, then a <want_data> message needs to be sent separately"
        self.metadata.send(ticket, self.metadata.want_data)
        if self.data is not self.metadata:
            self.data.send(ticket, self.data.want_data)
        headers: dict[int, bytes] = {}
        bodies: dict[int, tuple[int, bytes]] = {}
        end: int | None = None
        while end is None or len(headers) < end:
            end = self._take(self.metadata, headers, bodies, end)
        wanted = [number for number, flatbuffer in headers.items() if read_header(flatbuffer).kind != SCHEMA]
        while not all(number in bodies for number in wanted):
            assert self._take(self.data, headers, bodies, end) == end
        return self._assemble(headers, bodies, end)

    def _take(
        self, carrier: Carrier, headers: dict[int, bytes], bodies: dict[int, tuple[int, bytes]], end: int | None
    ) -> int | None:
        tag, message = carrier.receive()
        if tag is not None:
            number = tag & SEQUENCE_MASK
            assert (tag >> 32) & 0xFFFFFF == 0, "reserved bits of a tag are set"
            assert number not in bodies
            bodies[number] = (tag >> 56, message)
            return end
        # 2. "The first byte of the message indicates [...] The next 4 bytes are the sequence number"
        kind, number = struct.unpack_from("<BI", message)
        if kind == END_OF_STREAM:
            assert len(message) == 5, "an End of Stream of another size than exactly 5 bytes"
            assert end is None
            return number
        assert kind == METADATA, f"an untagged message of type {kind}"
        assert number not in headers
        headers[number] = message[5:]
        return end

    def _assemble(self, headers: dict[int, bytes], bodies: dict[int, tuple[int, bytes]], end: int) -> Stream:
        stream = Stream(end_number=end)
        assert sorted(headers) == list(range(end)), "numbers start at 0 and have no gaps"
        assert read_header(headers[0]).kind == SCHEMA, "the first message MUST always be a schema message"
        for number in range(end):
            header = read_header(headers[number])
            if header.kind == SCHEMA:
                assert number == 0
                assert number not in bodies, "a schema has no body"
                stream.messages.append((headers[number], b""))
                continue
            kind, body = bodies[number]
            stream.body_types.append(kind)
            if kind == REMOTE:
                body = self._retrieve(header, body, stream)
            else:
                assert kind == PACKED
            assert len(body) == header.body_length
            stream.messages.append((headers[number], body))
        return stream

    def _retrieve(self, header: Header, body: bytes, stream: Stream) -> bytes:
        """3. "a series of pairs of unsigned, 64-bit integers"; total, then nbuf, then address and length of each."""
        total, nbuf = struct.unpack_from("<QQ", body)
        assert len(body) == 16 + 16 * nbuf
        assert nbuf == len(header.buffers)
        packed = bytearray(header.body_length)
        lengths = 0
        for i, (offset, wanted) in enumerate(header.buffers):
            address, length = struct.unpack_from("<QQ", body, 16 + 16 * i)
            assert length == wanted, "a pair's length isn't the metadata's"
            lengths += length
            if length == 0:
                assert address == 0
                continue
            packed[offset : offset + length] = self.fetch(address, length)
            stream.addresses.append(address)
        assert total == lengths, "the total isn't the sum of the lengths"
        return bytes(packed)

    def free(self, addresses: Iterable[int]) -> None:
        """5. "an arbitrary number of unsigned 64-bit integer values"."""
        values = list(addresses)
        self.data.send(struct.pack(f"<{len(values)}Q", *values), self.data.free_data)


# ---- the server ("Server Sequence") --------------------------------------------------------------------------------


@dataclass
class Message:
    """One IPC message of a stream that is served."""

    flatbuffer: bytes
    body: bytes

    @property
    def header(self) -> Header:
        return read_header(self.flatbuffer)


def messages_of(table: pa.Table, rows: int | None = None) -> list[Message]:
    """A table as pyarrow writes it."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    source = pa.BufferReader(sink.getvalue())
    found = []
    while True:
        try:
            message = pa.ipc.read_message(source)
        except EOFError:
            return found
        body = message.body.to_pybytes() if message.body is not None else b""
        found.append(Message(message.metadata.to_pybytes(), body))


def metadata_message(number: int, flatbuffer: bytes) -> bytes:
    return struct.pack("<BI", METADATA, number) + flatbuffer


def end_message(number: int) -> bytes:
    return struct.pack("<BI", END_OF_STREAM, number)


def body_tag(number: int, kind: int) -> int:
    return number | kind << 56


def table_of_addresses(message: Message, base: int) -> tuple[bytes, list[int]]:
    """The body of type 1 for a message whose packed body lies at the address `base`; and the addresses in it."""
    pairs, addresses, total = [], [], 0
    for offset, length in message.header.buffers:
        pairs += [base + offset if length else 0, length]
        total += length
        if length:
            addresses.append(base + offset)
    return struct.pack(f"<{2 + len(pairs)}Q", total, len(pairs) // 2, *pairs), addresses
