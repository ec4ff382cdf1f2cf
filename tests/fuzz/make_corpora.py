"""Makes the seed corpora of the fuzz targets: small, valid inputs of each kind, and a few that are nearly so.

./dev python tests/fuzz/make_corpora.py

What a fuzzer finds is added to a corpus by hand, under the name of what went wrong; such files are left alone here.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.flight

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "spec_peer"))

import protocol  # noqa: E402
import tcp_carrier  # noqa: E402
from tcp_carrier import crc32c, frame  # noqa: E402

import crossdock as xd  # noqa: E402

SMALL = {
    "int64": pa.table({"x": pa.array([1, None, 3], pa.int64())}),
    "text": pa.table({"s": pa.array(["a", None, "ccc"]), "b": pa.array([b"", b"xy", None])}),
    "nested": pa.table({"l": pa.array([[1], None, []], pa.list_(pa.int8())), "t": pa.array([{"a": 1}] * 3)}),
    "dictionary": pa.table({"d": pa.array(["r", "g", None]).dictionary_encode()}),
    "view": pa.table({"v": pa.array(["short", "longer than twelve bytes", None], pa.string_view())}),
    "metadata": pa.table({"x": pa.array([True, None])}).replace_schema_metadata({"key": "value"}),
    "empty": pa.table({"x": pa.array([], pa.int32())}),
}


def put(target: str, name: str, data: bytes) -> None:
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def with_length(data: bytes) -> bytes:
    return struct.pack("<H", len(data)) + data


def messages() -> None:
    for name, table in SMALL.items():
        schema, *others = protocol.messages_of(table)
        put("message", name, with_length(schema.flatbuffer) + (others[-1].flatbuffer if others else b""))
        if len(others) == 2:
            put("message", f"{name}_values", with_length(schema.flatbuffer) + others[0].flatbuffer)


def peer_messages() -> None:
    """An opening byte, then steps: a kind and what it takes (fuzz_peer_messages.cc)."""

    def control(message: bytes) -> bytes:
        return bytes([0, len(message)]) + message

    def body(content: bytes) -> bytes:
        return b"\x01" + struct.pack("<H", len(content)) + content

    def frames(*entries: tuple[int, int, int]) -> bytes:
        return bytes([2, len(entries)]) + b"".join(struct.pack("<HHB", *entry) for entry in entries)

    announce, receive, drop, copies = b"\x03", b"\x05", b"\x06", b"\x07"
    send = b"\x04" + struct.pack("<H", 1000)
    value = struct.pack("<IIQ", 1, 0, 4) + struct.pack("<QQII", 5, 0, 0, 0) + b"meta"
    value += bytes(-len(value) % 64) + b"frame"
    returned = struct.pack("<IIQQII", 2, 1, 1, 0, 0, 1)
    opening = struct.pack("<IIQIIQQII", 1, 1, 0, 4, 8, 4096, 4096, 4, 3) + b"0.1"
    put("peer_messages", "by_value", b"\x01" + body(value) + receive + drop)
    put("peer_messages", "by_address", b"\x01" + announce + frames((100, 64, 0), (8000, 100, 0)) + receive + drop)
    put("peer_messages", "outside", b"\x01" + announce + frames((65535, 64, 0)) + receive)
    put("peer_messages", "lends", b"\x01" + send + copies + control(returned) + send + copies)
    put("peer_messages", "twice", b"\x01" + send + copies + control(returned) + control(returned))
    put("peer_messages", "opens", b"\x00" + control(opening) + send + copies + control(struct.pack("<II", 3, 0)))
    put("peer_messages", "window", b"\x01" + body(value) * 5 + receive)


def files() -> None:
    for name, table in SMALL.items():
        for form, new in (("file", pa.ipc.new_file), ("stream", pa.ipc.new_stream)):
            sink = pa.BufferOutputStream()
            with new(sink, table.schema) as writer:
                writer.write_table(table)
            put("file", f"{name}_{form}", sink.getvalue().to_pybytes())
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(use_legacy_format=True)
    with pa.ipc.new_stream(sink, SMALL["int64"].schema, options=options) as writer:
        writer.write_table(SMALL["int64"])
    put("file", "no_continuation_marker", sink.getvalue().to_pybytes())


def conversions() -> None:
    """Columns in the form of fuzz_convert.cc: buffers one after another, with sizes where no length says them."""

    def column(array: pa.Array) -> bytes:
        array = pa.concat_arrays([array])
        buffers = [bytes(buffer) if buffer else b"\xff" * -(-len(array) // 8) for buffer in array.buffers()]
        exact = [-(-len(array) // 8)]
        if pa.types.is_dictionary(array.type):
            exact.append(len(array) * array.type.index_type.bit_width // 8)
            rest = bytes([len(array.dictionary)]) + column(array.dictionary)
        elif array.type == pa.string_view():
            exact.append(len(array) * 16)
            data = [*buffers, b""][2]
            rest = bytes([len(data)]) + data + b"\0\0"
        elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
            exact.append((len(array) + 1) * (4 if pa.types.is_list(array.type) else 8))
            rest = bytes([len(array.values)]) + column(array.values)
        else:
            exact.append((len(array) + 1) * (4 if array.type == pa.utf8() else 8))
            rest = bytes([len(buffers[2])]) + buffers[2] + b"\0"
        return (
            b"\0"
            + b"".join(buffer[:size].ljust(size, b"\0") for buffer, size in zip(buffers, exact, strict=False))
            + rest
        )

    words = pa.array(["short", None, "longer than twelve bytes", "short"])
    encodings = [words, words.cast(pa.large_utf8()), words.cast(pa.string_view())]
    for index, kind in ((pa.int8(), pa.utf8()), (pa.uint64(), pa.large_utf8()), (pa.int16(), pa.string_view())):
        encoded = words.dictionary_encode()
        encodings.append(pa.DictionaryArray.from_arrays(encoded.indices.cast(index), encoded.dictionary.cast(kind)))
    for which, array in enumerate(encodings):
        put("convert", f"text_{which}", bytes([0, which, (which + 2) % 6, len(array)]) + column(array))
        lists = pa.ListArray.from_arrays(pa.array([0, 1, 1, 4], pa.int32()), array)
        put("convert", f"lists_{which}", bytes([1, which, 0x80 + (which + 1) % 6, len(lists)]) + column(lists))


def compressed_bodies() -> None:
    table = pa.table({"x": pa.array([7] * 300 + [None], pa.int64()), "s": pa.array(["same"] * 300 + ["z"])})
    for codec in ("lz4", "zstd"):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
            writer.write_table(table)
        source = pa.BufferReader(sink.getvalue())
        schema, batch = pa.ipc.read_message(source), pa.ipc.read_message(source)
        put(
            "compressed_body",
            codec,
            with_length(schema.metadata.to_pybytes())
            + with_length(batch.metadata.to_pybytes())
            + batch.body.to_pybytes(),
        )


def wire() -> None:
    put("prefix_and_tag", "metadata", b"\x01\x05\x00\x00\x00flatbuffer")
    put("prefix_and_tag", "end", b"\x00\xff\xff\xff\xff")
    put("prefix_and_tag", "error", b"\xff\x02\x00\x00\x00RemoteError: \xc3\xa9")
    put("prefix_and_tag", "packed_tag", struct.pack("<Q", 7))
    put("prefix_and_tag", "remote_tag", struct.pack("<Q", 7 | 1 << 56))
    put("remote_table", "none", struct.pack("<QQ", 0, 0))
    put("remote_table", "two", struct.pack("<6Q", 24, 2, 0, 0, 0x0003000000000040, 24))
    put("remote_table", "overflow", struct.pack("<6Q", 0, 2, 64, 2**64 - 1, 128, 1))
    lend, free, free_one, stream = 0, 1, 2, 3
    twice = bytes([stream, lend, 1, 3, 1, lend, 1, 3, 1])
    after, both = bytes([stream, free_one, 1]), bytes([free, 16]) + struct.pack("<QQ", 64, 64)
    for rule, name in enumerate(("counted", "as_specified")):
        put("free_data", f"{name}_once_after_the_end", bytes([rule]) + twice + after)
        put("free_data", f"{name}_twice", bytes([rule]) + twice + bytes([free_one, 1]) + after + after[1:])
        put("free_data", f"{name}_in_one_message", bytes([rule]) + twice + both)


def streams() -> None:
    def untagged(data: bytes) -> bytes:
        return struct.pack("<BH", 0, len(data)) + data

    def tagged(tag: int, data: bytes, kind: int = 1) -> bytes:
        return struct.pack("<BHQ", kind, len(data), tag) + data

    take = b"\x03\x00\x00"
    for name in ("int64", "dictionary"):
        schema, *others = protocol.messages_of(SMALL[name])
        metadata = [untagged(protocol.metadata_message(0, schema.flatbuffer))]
        packed, remote = [], []
        for number, message in enumerate(others, 1):
            metadata.append(untagged(protocol.metadata_message(number, message.flatbuffer)))
            packed.append(tagged(number, message.body, kind=number % 2 + 1))
            remote.append(tagged(number | 1 << 56, protocol.table_of_addresses(message, 64)[0]))
        end = untagged(protocol.end_message(1 + len(others)))
        put("stream", f"{name}_in_order", b"".join(metadata) + take + b"".join(packed) + end)
        put("stream", f"{name}_end_first", end + b"".join(remote) + take + b"".join(metadata))
    put("stream", "error", metadata[0] + untagged(b"\xff\x01\x00\x00\x00no"))


def tensors() -> None:
    """An opening byte, how the client asks; then messages: a kind, a number and what it takes (fuzz_tensors.cc)."""

    def served(source: object) -> list[tuple[bytes, bytes]]:
        with xd.serve({"t": source}, "tcp://127.0.0.1:0") as server:
            address = urlsplit(server.uri)
            carrier = tcp_carrier.connect(address.hostname, address.port)
            stream = protocol.LetterClient(carrier, carrier, lambda _address, _length: b"").get(b"t")
            carrier.close()
        return stream.messages

    def metadata(number: int, flatbuffer: bytes) -> bytes:
        return struct.pack("<BBH", 0, number, len(flatbuffer)) + flatbuffer

    def by_value(number: int, body: bytes) -> bytes:
        return struct.pack("<BBH", 2, number, len(body)) + body

    def by_address(number: int, *buffers: tuple[int, int]) -> bytes:
        return struct.pack("<BBB", 1, number, len(buffers)) + b"".join(struct.pack("<HI", *one) for one in buffers)

    several, single, into, into_columns = 0, 2, 3, 7
    matrix = np.arange(6, dtype="i2").reshape(2, 3)
    sources = {
        "matrix": (single, matrix),
        "columns": (single, np.asfortranarray(matrix)),
        "flags": (single, np.array([True, False])),
        "swapped": (single, matrix.astype(">i4")),
        "complex": (single, np.array(1 + 2j)),
        "dates": (single, np.array(["2026"], "M8[D]")),
        "nothing": (single, np.empty((0, 3))),
        "nested": (several, {"a": {"b": matrix, "c": np.array(True)}, '"': np.ones(1)}),
        "into": (into, matrix),
        "into_columns": (into_columns, np.asfortranarray(matrix)),
    }
    for name, (how, source) in sources.items():
        (schema, _), *messages = served(source)
        for form in ("by_value", "by_address"):
            out = bytes([how]) + metadata(0, schema)
            for number, (flatbuffer, body) in enumerate(messages, 1):
                address = (64 if body else 0, len(body))
                out += metadata(number, flatbuffer)
                out += by_value(number, body) if form == "by_value" else by_address(number, address)
            put("tensors", f"{name}_{form}", out + struct.pack("<BB", 3, 1 + len(messages)))
        if how == into:
            (flatbuffer, body) = messages[0]
            start = bytes([how]) + metadata(0, schema)
            put("tensors", "body_first", start + by_value(1, body) + metadata(1, flatbuffer) + b"\x03\x02")
            put("tensors", "body_twice", start + metadata(1, flatbuffer) + by_value(2, body) + by_value(1, body))
            put("tensors", "outside", start + metadata(1, flatbuffer) + by_address(1, (4090, len(body))))


def tcp() -> None:
    def some(checksums: bool) -> bytes:
        contents = [(1, 0, b"untagged"), (2, 7, b"tagged"), (4, 1, b""), (5, 8, b""), (3, 1 << 56, b"b" * 99)]
        return b"".join(frame(*content, checksums=checksums) for content in contents)

    frames = some(checksums=False)
    for name, cuts in (("one_piece", b""), ("bytes", b"\x01"), ("pieces", b"\x18\x00\x07\xff")):
        put("tcp_frames", name, bytes([len(cuts)]) + cuts + frames + frame(6, 0))
        summed = some(checksums=True) + frame(6, 0, checksums=True)
        put("tcp_frames", f"{name}_with_checksums", bytes([16 + len(cuts)]) + cuts + summed)
    put("tcp_frames", "cut_short", b"\x01\x40" + frames[:-4])
    put("tcp_frames", "large", b"\x01\xff" + frame(3, 5, bytes(9000)) + frame(1, 0, b"after it"))

    def record(kind: int, rest: bytes) -> bytes:
        return struct.pack("<8sIIII", b"XDOCKTCP", kind, 1, 24 + len(rest), 0) + rest

    limits = struct.pack("<QQQ", 7, 1 << 20, 1 << 30)

    def with_checksum(kind: int, rest: bytes) -> bytes:
        start = record(kind, rest + bytes(4))[:-4]
        return start + struct.pack("<I", crc32c(start))

    hello = limits + struct.pack("<II", 2, 1) + bytes(range(32))
    welcome = limits + struct.pack("<QQ", 3, 4) + bytes(32)
    put("tcp_handshake", "hello", with_checksum(1, hello))
    put("tcp_handshake", "welcome", with_checksum(2, welcome))
    put("tcp_handshake", "hello_without_checksum", record(1, hello))
    put("tcp_handshake", "welcome_without_checksum", record(2, welcome))
    put("tcp_handshake", "refused", record(3, struct.pack("<II", 2, 5) + b"token"))
    put("tcp_handshake", "challenge", record(4, bytes(range(32))))
    put("tcp_handshake", "proof", record(5, bytes(range(32))))


def uris() -> None:
    for name, uri in {
        "shm": "shm:/run/user/0/x.sock?want_data=1&free_data=0x2",
        "tcp": "tcp://[::1]:9000?want_data=18446744073709551615&stream=data",
        "handle": "ucx://host:1?want_data=1&remote_handle=-_8A%2F&other=a%20b",
    }.items():
        put("uri", name, uri.encode())


def requests() -> None:
    def parameter(kind: int, content: bytes = b"") -> bytes:
        return struct.pack("<II", kind, len(content)) + content

    magic = b"\0XDREQ\0\1"
    ranges = struct.pack("<IIII", 0, 3, 7, 1)
    columns = b"".join(struct.pack("<I", len(name)) + name for name in (b"x", b"", "\u00e4".encode()))
    put("request", "ticket", b"flights")
    put("request", "batches", magic + parameter(1, ranges) + parameter(0) + b"flights")
    put("request", "no_batches", magic + parameter(1) + parameter(0) + b"flights")
    put("request", "statistics", magic + parameter(2, columns) + parameter(0) + b"flights")


def flight_messages() -> None:
    """The first byte names the message, as in fuzz_flight_messages.cc. Those that pyarrow can write are its own."""
    flight = pyarrow.flight
    table = SMALL["int64"]
    path = flight.FlightDescriptor.for_path("flights", "2026")
    endpoint = flight.FlightEndpoint(b"a ticket", ["shm:/run/x?want_data=1", "arrow-flight-reuse-connection://?"])
    info = flight.FlightInfo(table.schema, path, [endpoint], 3, 24)
    for kind, name, message in (
        (0, "path", path.serialize()),
        (0, "command", flight.FlightDescriptor.for_command(b"SELECT 1").serialize()),
        (1, "ticket", flight.Ticket(b"flights").serialize()),
        (2, "endpoint", endpoint.serialize()),
        (3, "info", info.serialize()),
        (6, "action", flight.Action("type", b"body").serialize()),
        (7, "action_type", b"\x0a\x04type\x12\x04what"),
        (8, "result", flight.Result(b"body").serialize()),
        (9, "handshake", b"\x08\x07\x12\x05token"),
        (10, "login", flight.BasicAuth("user", "secret").serialize()),
        (12, "poll", b"\x0a\x02\x20\x05\x12\x02\x08\x01\x19" + struct.pack("<d", 0.5) + b"\x22\x02\x08\x01"),
        (13, "data", b"\x12\x06header\x1a\x01m\xc2\x3e\x04body"),
        (14, "schema", table.schema.serialize().to_pybytes()),
    ):
        put("flight_messages", name, bytes([kind]) + message)


def statistics() -> None:
    histogram = {"counts": list(range(13)), "sum_ns": 1_000_000}
    consumer = {"pid": 7, "peer": "tcp://host:1", "name": ["_w"], "leases": 2, "oldest_lease_ms": -1, "way": "map"}
    server = {
        "version": "0.1.0",
        "uptime_ms": 12,
        "uris": ["shm:a", "tcp://host:1"],
        "rejected_connections": {"full": 1},
        "first_batch": histogram,
        "batch": histogram,
        "sources": [{"name": 'a "name"\n\u20ac', "kind": "table", "rows": -1, "bytes": 8}],
        "consumers": [consumer],
        "consumers_left_out": 3,
    }
    for name, members in {
        "server": server,
        "relay": {**server, "relay": {"hits": 1, "upstream": "tcp://host:2"}},
        "later_version": {"connections": 1, "new": [{"a": [None, 1.5, "x"]}, {}]},
        "empty": {},
        "wrong_count": {"batch": {"counts": [1]}},
        "negative": {"leases": -1},
    }.items():
        put("statistics", name, json.dumps(members).encode())


if __name__ == "__main__":
    messages()
    flight_messages()
    peer_messages()
    files()
    conversions()
    compressed_bodies()
    wire()
    streams()
    tensors()
    tcp()
    uris()
    requests()
    statistics()
