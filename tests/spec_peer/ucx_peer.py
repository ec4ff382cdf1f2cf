"""A client and a server of the ucx transport, strictly as the text specifies, as a program.

    ucx_peer.py client ACT URI TICKET [FILE]
    ucx_peer.py server ACT FILE

FILE is a table as an IPC stream: the client writes what it got there, the server sends what is there. Each prints a
line when it can be answered, and goes on when it hears one.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import struct
import sys
import urllib.parse
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import protocol
import pyarrow as pa
import ucx_carrier

ROWS = 10_000  # of a batch that is sent
WANT_DATA, FREE_DATA = 0xFEDCBA9876543210, 0x0123456789ABCDEF


def say(what: Any) -> None:
    print(json.dumps(what), flush=True)


def hear() -> None:
    sys.stdin.readline()


def until_it_ends(carrier: ucx_carrier.UcxCarrier) -> list[tuple[int | None, bytes]]:
    """What comes until the peer ends the connection."""
    came = []
    with contextlib.suppress(ucx_carrier.Ended):
        while True:
            came.append(carrier.receive())
    return came


# ---- clients -------------------------------------------------------------------------------------------------------


def connect(uri: str) -> ucx_carrier.UcxCarrier:
    query = dict(urllib.parse.parse_qsl(uri.partition("?")[2]))
    handle = query.get("remote_handle")
    carrier = ucx_carrier.UcxCarrier(
        ucx_carrier.Ucx(reads=handle is not None),
        uri=uri,
        want_data=int(query["want_data"]),
        free_data=int(query["free_data"]),
    )
    if handle is not None:
        carrier.use_key(base64.urlsafe_b64decode(handle + "=" * (-len(handle) % 4)))
    return carrier


def get(carrier: ucx_carrier.UcxCarrier, ticket: bytes, path: str) -> None:
    """Reads the stream twice over one connection, and frees each address once, after the last body."""
    client = protocol.LetterClient(carrier, carrier, carrier.fetch)
    for _ in range(2):
        stream = client.get(ticket)
        say({"types": sorted(set(stream.body_types)), "addresses": len(set(stream.addresses))})
        hear()
        if stream.addresses:
            client.free(sorted(set(stream.addresses)))
    table = stream.table()
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)
    say("written")
    hear()


def misbehave(act: Callable[[ucx_carrier.UcxCarrier, bytes], None]) -> Callable[[Any, bytes, str], None]:
    """The server must end the connection after the act. Says how many control messages came: UCX drops them."""

    def run(carrier: ucx_carrier.UcxCarrier, ticket: bytes, _path: str) -> None:
        with contextlib.suppress(ucx_carrier.Ended):
            act(carrier, ticket)
        until_it_ends(carrier)
        say("ended")

    return run


def request_twice(carrier: ucx_carrier.UcxCarrier, ticket: bytes) -> None:
    carrier.send(ticket, carrier.want_data)
    carrier.send(ticket, carrier.want_data)


def free_unsent(carrier: ucx_carrier.UcxCarrier, ticket: bytes) -> None:
    carrier.send(ticket, carrier.want_data)
    carrier.send(struct.pack("<Q", 4096), carrier.free_data)


def send_control_message(carrier: ucx_carrier.UcxCarrier, ticket: bytes) -> None:
    carrier.send(ticket, carrier.want_data)
    carrier.receive()
    carrier.send_control(struct.pack("<IIQ", 3, 0, 1))


def request_and_stay(carrier: ucx_carrier.UcxCarrier, ticket: bytes, _path: str) -> None:
    """Takes nothing after the first message. For a client that is killed."""
    carrier.send(ticket, carrier.want_data)
    carrier.receive()
    say("receiving")
    hear()


def get_late(carrier: ucx_carrier.UcxCarrier, ticket: bytes, _path: str) -> None:
    """Takes nothing after the first message until it hears a line, and then everything."""
    carrier.send(ticket, carrier.want_data)
    carrier.receive()
    say("receiving")
    hear()
    bodies, end = 0, None
    while end is None or bodies < end - 1:
        tag, message = carrier.receive()
        if tag is not None:
            bodies += 1
        elif message[0] == protocol.END_OF_STREAM:
            (end,) = struct.unpack_from("<I", message, 1)
    say(bodies)


def touch(carrier: ucx_carrier.UcxCarrier, ticket: bytes, address: str) -> None:
    """Reads and writes 8 bytes of the server's memory that it never offered. Says what was read."""
    got = None
    with contextlib.suppress(ucx_carrier.Ended, TimeoutError):
        got = carrier.fetch(int(address), 8, timeout=1).decode()
    with contextlib.suppress(ucx_carrier.Ended, TimeoutError):
        carrier.store(int(address), b"overlaid")
        carrier.send(ticket, carrier.want_data)
        carrier.receive(timeout=10)
    say(got)


CLIENTS: dict[str, Callable[[ucx_carrier.UcxCarrier, bytes, str], None]] = {
    "get": get,
    "request": misbehave(lambda carrier, ticket: carrier.send(ticket, carrier.want_data)),
    "untagged": misbehave(lambda carrier, ticket: carrier.send(ticket)),
    "other tag": misbehave(lambda carrier, ticket: carrier.send(ticket, carrier.want_data ^ 1)),
    "free first": misbehave(lambda carrier, _: carrier.send(bytes(8), carrier.free_data)),
    "request twice": misbehave(request_twice),
    "free unsent": misbehave(free_unsent),
    "control message": misbehave(send_control_message),
    "silence": misbehave(lambda _carrier, _ticket: None),
    "stay": request_and_stay,
    "late": get_late,
    "touch": touch,
}


# ---- servers -------------------------------------------------------------------------------------------------------


class Server:
    def __init__(self, path: str, kinds: Callable[[int], int], *, reads: bool, frees: bool = True) -> None:
        self.messages = protocol.messages_of(pa.ipc.open_stream(Path(path).read_bytes()).read_all(), ROWS)
        self.kinds = kinds
        self.ucx = ucx_carrier.Ucx(reads=reads)
        self.listener = ucx_carrier.Listener(self.ucx)
        self.sent: Counter[int] = Counter()
        self.freed: Counter[int] = Counter()
        query = f"want_data={WANT_DATA}"
        if frees:
            query += f"&free_data={FREE_DATA}"
        if reads:
            # One region with all bodies: a URI has one key.
            bodies = b"".join(message.body for message in self.messages)
            self.memory = ctypes.create_string_buffer(bodies, len(bodies))
            key = self.ucx.register(self.memory)
            query += "&remote_handle=" + base64.urlsafe_b64encode(key).decode().rstrip("=")
        say(f"ucx://127.0.0.1:{self.listener.port}?{query}")
        self.carrier = self.listener.accept()

    def serve(self) -> None:
        """Sends the stream once, after the request for it."""
        while (message := self.carrier.receive())[0] == FREE_DATA:
            self._free(message[1])
        assert message == (WANT_DATA, b"t")
        base = ctypes.addressof(self.memory) if hasattr(self, "memory") else 0
        for number, message in enumerate(self.messages):
            self.carrier.send(protocol.metadata_message(number, message.flatbuffer))
            kind = self.kinds(number)
            if message.header.kind != protocol.SCHEMA and kind == protocol.PACKED:
                self.carrier.send(message.body, protocol.body_tag(number, kind))
            elif message.header.kind != protocol.SCHEMA:
                table, addresses = protocol.table_of_addresses(message, base)
                self.sent.update(addresses)
                self.carrier.send(table, protocol.body_tag(number, kind))
            base += len(message.body)
        self.carrier.send(protocol.end_message(len(self.messages)))

    def until_it_goes(self) -> None:
        """Says how many addresses were sent, and how many of them were freed."""
        for tag, body in until_it_ends(self.carrier):
            assert tag == FREE_DATA, f"a message with the tag {tag}"
            self._free(body)
        say({"sent": self.sent.total(), "freed": self.freed.total()})

    def _free(self, body: bytes) -> None:
        self.freed.update(struct.unpack(f"<{len(body) // 8}Q", body))
        assert not self.freed - self.sent, "what wasn't sent was freed"


def serve_twice(path: str, kinds: Callable[[int], int], **how: bool) -> None:
    server = Server(path, kinds, **how)
    for _ in range(2):
        server.serve()
    server.until_it_goes()


def serve_control_message(path: str) -> None:
    server = Server(path, lambda _: protocol.PACKED, reads=False)
    server.carrier.receive()
    server.carrier.send_control(struct.pack("<IIQ", 3, 0, 0))
    until_it_ends(server.carrier)
    say("ended")


def serve_half(path: str) -> None:
    """Closes the connection after the first bodies."""
    server = Server(path, lambda _: protocol.PACKED, reads=False)
    server.messages = server.messages[:3]
    server.carrier.receive()
    for number, message in enumerate(server.messages):
        server.carrier.send(protocol.metadata_message(number, message.flatbuffer))
        if number > 0:
            server.carrier.send(message.body, protocol.body_tag(number, protocol.PACKED))
    server.carrier.close()
    say("closed")


SERVERS: dict[str, Callable[[str], None]] = {
    "packed": lambda path: serve_twice(path, lambda _: protocol.PACKED, reads=False),
    "remote": lambda path: serve_twice(path, lambda _: protocol.REMOTE, reads=True),
    "mixed": lambda path: serve_twice(path, lambda number: number % 2, reads=True),
    "never freed": lambda path: serve_twice(path, lambda _: protocol.REMOTE, reads=True, frees=False),
    "control message": serve_control_message,
    "half": serve_half,
}


if __name__ == "__main__":
    if sys.argv[1] == "client":
        act, uri, ticket, *rest = sys.argv[2:]
        CLIENTS[act](connect(uri), ticket.encode(), *(rest or [""]))
    else:
        SERVERS[sys.argv[2]](sys.argv[3])
