"""The tcp carrier of docs/reference/protocol-tcp.md, either end, over a raw socket, with a token or none, with
checksums or as an end that doesn't know them.

Written from that page alone, with none of the library's code.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import socket
import struct
from typing import Any, NoReturn

MAGIC = b"XDOCKTCP"
VERSION = 1
HELLO, WELCOME, REFUSED, CHALLENGE, PROOF = range(1, 6)
PLAIN = 0
# Why it is refused.
WRONG_TOKEN = 2
# The role of a connection: the channels that it carries.
BOTH, METADATA, BODIES = 0, 1, 2
MESSAGE, TAGGED, BODY, TAKEN, WINDOW, GOODBYE = range(1, 7)

# Feature bits.
KNOWS_CHECKSUMS, ASKS_FOR_CHECKSUMS = 1 << 3, 1 << 4

MOST_MESSAGE, MOST_BODY = 1 << 20, 64 << 20


class Ended(Exception):
    """The peer closed the connection."""


class Refused(Ended):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"refused with code {code}: {reason}")
        self.code = code


class Unproved(Exception):
    """The peer doesn't know the token, or there is none to ask for."""


class Damaged(Exception):
    """A checksum isn't that of the bytes before it."""


def _crc32c_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc32c_table()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def frame(kind: int, number: int, payload: bytes = b"", *, checksums: bool = False) -> bytes:
    header = struct.pack("<BxxxxxxxQQ", kind, number, len(payload))
    if not checksums:
        return header + payload + bytes(-len(payload) % 8)
    header = header[:4] + struct.pack("<I", crc32c(header)) + header[8:]
    if not payload:
        return header
    summed = payload + bytes(-(len(payload) + 4) % 8)
    return header + summed + struct.pack("<I", crc32c(summed))


def proof(token: bytes, who: str, *records: bytes) -> bytes:
    return hmac.new(token, f"crossdock tcp 1 {who}".encode() + b"".join(records), hashlib.sha256).digest()


class TcpCarrier:
    """One connection: tagged and untagged messages in both directions."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        server: bool,
        want_data: int = 0,
        free_data: int = 0,
        role: int = BOTH,
        token: bytes | None = None,
        features: int = 0,
    ) -> None:
        """`features`: 0 is an end that doesn't know of checksums, and so has none in its records either."""
        self.socket = sock
        self._features = features
        self.checksums = False
        sock.settimeout(10)
        self.bodies_by_value = 0
        self.said_goodbye = False
        self.taken_by_peer = 0
        self.windows: list[int] = []
        self._sent = 0
        self._taken = 0
        if server:
            self._welcome(want_data, free_data, token)
        else:
            self.role = role
            self._say_hello(role, token)

    # ---- handshake ----

    def _limits(self) -> bytes:
        return struct.pack("<QQQ", self._features, MOST_MESSAGE, MOST_BODY)

    def _agree(self, record: bytes, end: int) -> None:
        """What the peer's opening says of checksums. `end`: where its own stands."""
        features = struct.unpack_from("<Q", record, 24)[0]
        if len(record) >= end + 4:
            if crc32c(record[:end]) != struct.unpack_from("<I", record, end)[0]:
                raise Damaged("a record of the handshake")
        else:
            assert not features & KNOWS_CHECKSUMS, "it knows checksums, and its record has none"
        common, either = features & self._features, features | self._features
        self.checksums = bool(common & KNOWS_CHECKSUMS and either & ASKS_FOR_CHECKSUMS)

    def _say_hello(self, role: int, token: bytes | None) -> None:
        hello = self._write_record(
            HELLO,
            self._limits() + struct.pack("<II", role, token is not None) + os.urandom(32),
            checksum=bool(self._features & KNOWS_CHECKSUMS),
        )
        seen = hello
        if token is not None:
            kind, challenge = self._read_record()
            if kind != CHALLENGE:
                raise Unproved("the server asks for no token")
            assert len(challenge) >= 56
            seen += challenge
            self._write_record(PROOF, proof(token, "client", seen))
        kind, welcome = self._read_record()
        assert kind == WELCOME
        assert len(welcome) >= 96
        self._agree(welcome, 96)
        self.want_data, self.free_data = struct.unpack_from("<QQ", welcome, 48)
        if token is None:
            assert welcome[64:96] == bytes(32), "a proof of a token that nobody has"
        elif not hmac.compare_digest(welcome[64:96], proof(token, "server", seen, welcome[:64])):
            raise Unproved("the server doesn't know the token")

    def _welcome(self, want_data: int, free_data: int, token: bytes | None) -> None:
        kind, hello = self._read_record()
        assert kind == HELLO
        assert len(hello) >= 88
        self._agree(hello, 88)
        assert struct.unpack_from("<Q", hello, 32)[0] > 0
        self.role, self.client_has_token = struct.unpack_from("<II", hello, 48)
        seen = hello
        if token is not None:
            if not self.client_has_token & 1:
                self.refuse(WRONG_TOKEN, "a token is needed")
            seen += self._write_record(CHALLENGE, os.urandom(32))
            kind, answer = self._read_record()
            assert kind == PROOF
            assert len(answer) >= 56
            if not hmac.compare_digest(answer[24:56], proof(token, "client", seen)):
                self.refuse(WRONG_TOKEN, "not this token")
        rest = self._limits() + struct.pack("<QQ", want_data, free_data)
        checksum = bool(self._features & KNOWS_CHECKSUMS)
        start = self._record(WELCOME, rest, 32 + 4 * checksum)
        ours = bytes(32) if token is None else proof(token, "server", seen, start)
        self._write_record(WELCOME, rest + ours, checksum=checksum)
        self.want_data, self.free_data = want_data, free_data

    def refuse(self, code: int, reason: str) -> NoReturn:
        said = reason.encode()
        self._write_record(REFUSED, struct.pack("<II", code, len(said)) + said)
        self.socket.close()
        raise Unproved(reason)

    @staticmethod
    def _record(kind: int, rest: bytes, more: int = 0) -> bytes:
        """A record of which `more` bytes follow."""
        return struct.pack("<8sIIII", MAGIC, kind, VERSION, 24 + len(rest) + more, PLAIN) + rest

    def _write_record(self, kind: int, rest: bytes, *, checksum: bool = False) -> bytes:
        record = self._record(kind, rest, 4 * checksum)
        if checksum:
            record += struct.pack("<I", crc32c(record))
        self.socket.sendall(record)
        return record

    def _read_record(self) -> tuple[int, bytes]:
        start = self._read(24)
        magic, kind, version, size, mode = struct.unpack("<8sIIII", start)
        assert (magic, version, mode) == (MAGIC, VERSION, PLAIN)
        assert 24 <= size <= 512
        record = start + self._read(size - 24)
        if kind == REFUSED:
            code, length = struct.unpack_from("<II", record, 24)
            raise Refused(code, record[32 : 32 + length].decode())
        return kind, record

    # ---- frames ----

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                part = self.socket.recv(size - len(data))
            except ConnectionError as error:
                raise Ended("the connection was reset") from error
            if not part:
                raise Ended("the connection is over")
            data += part
        return bytes(data)

    def _write_frame(self, kind: int, number: int, payload: bytes = b"") -> None:
        try:
            self.socket.sendall(frame(kind, number, payload, checksums=self.checksums))
        except ConnectionError as error:
            raise Ended("the peer is gone") from error

    def send(self, payload: bytes, tag: int | None = None, *, by_value: bool = False) -> None:
        """Untagged without a tag. `by_value`: as a frame of kind body, which is a tagged message too."""
        assert not (by_value and tag is None)
        self._write_frame(MESSAGE if tag is None else BODY if by_value else TAGGED, tag or 0, payload)
        self._sent += 1

    def receive(self, timeout: float = 10) -> tuple[int | None, bytes]:
        """The next message: its tag, None for an untagged one, and its bytes. Raises Ended at the end."""
        self.socket.settimeout(timeout)
        while True:
            header = self._read(24)
            kind, checksum, number, length = struct.unpack("<BxxxIQQ", header)
            if self.checksums and crc32c(header[:4] + bytes(4) + header[8:]) != checksum:
                raise Damaged("a frame's header")
            assert self.checksums or checksum == 0
            assert header[1:4] == bytes(3), "bytes that must be zero"
            assert kind in (MESSAGE, TAGGED, BODY) or length == 0, "a payload where there is none"
            payload = self._read(length)
            zeros = self._read(-(length + 4) % 8 if self.checksums and length else -length % 8)
            assert zeros == bytes(len(zeros)), "padding that isn't zeros"
            if self.checksums and length and crc32c(payload + zeros) != struct.unpack("<I", self._read(4))[0]:
                raise Damaged("a payload")
            if kind == TAKEN:
                assert self.taken_by_peer <= number <= self._sent
                self.taken_by_peer = number
            elif kind == WINDOW:
                assert number > 0
                self.windows.append(number)
            elif kind == GOODBYE:
                assert number == 0
                self.said_goodbye = True
            else:
                assert kind in (MESSAGE, TAGGED, BODY), f"a frame of kind {kind}"
                assert not self.said_goodbye, "a message after the goodbye"
                assert length <= (MOST_BODY if kind == BODY else MOST_MESSAGE)
                assert kind != MESSAGE or number == 0
                self.bodies_by_value += kind == BODY
                self._taken += 1
                with contextlib.suppress(Ended):  # who has said goodbye needn't know
                    self._write_frame(TAKEN, self._taken)
                return (None if kind == MESSAGE else number), payload

    def close(self, *, orderly: bool = True) -> None:
        """Not `orderly`: as if this process had been killed."""
        if self.socket.fileno() < 0:
            return
        if orderly:
            with contextlib.suppress(Ended, OSError):
                self._write_frame(GOODBYE, 0)
                self.socket.shutdown(socket.SHUT_WR)
        self.socket.close()


def connect(host: str, port: int, **options: Any) -> TcpCarrier:
    sock = socket.create_connection((host, port), timeout=10)
    try:
        return TcpCarrier(sock, server=False, **options)
    except BaseException:
        sock.close()
        raise
