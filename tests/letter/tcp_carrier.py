"""The tcp carrier of docs/protocol-tcp.md, either end, over a raw socket: no feature bit, with a token or none.

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
# What a connection carries.
BOTH, METADATA, BODIES = 0, 1, 2
MESSAGE, TAGGED, BODY, TAKEN, WINDOW, GOODBYE = range(1, 7)

MOST_MESSAGE, MOST_BODY = 1 << 20, 64 << 20


class Ended(Exception):
    """The peer closed the connection."""


class Refused(Ended):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"refused with code {code}: {reason}")
        self.code = code


class Unproved(Exception):
    """The peer doesn't know the token, or there is none to ask for."""


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
        carries: int = BOTH,
        token: bytes | None = None,
    ) -> None:
        self.socket = sock
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
            self._say_hello(carries, token)

    # ---- handshake ----

    _LIMITS = struct.pack("<QQQ", 0, MOST_MESSAGE, MOST_BODY)  # no feature

    def _say_hello(self, carries: int, token: bytes | None) -> None:
        hello = self._write_record(
            HELLO, self._LIMITS + struct.pack("<II", carries, token is not None) + os.urandom(32)
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
        self.want_data, self.free_data = struct.unpack_from("<QQ", welcome, 48)
        if token is None:
            assert welcome[64:96] == bytes(32), "a proof of a token that nobody has"
        elif not hmac.compare_digest(welcome[64:96], proof(token, "server", seen, welcome[:64])):
            raise Unproved("the server doesn't know the token")

    def _welcome(self, want_data: int, free_data: int, token: bytes | None) -> None:
        kind, hello = self._read_record()
        assert kind == HELLO
        assert len(hello) >= 88
        assert struct.unpack_from("<Q", hello, 32)[0] > 0
        self.carries, self.client_has_token = struct.unpack_from("<II", hello, 48)
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
        rest = self._LIMITS + struct.pack("<QQ", want_data, free_data)
        ours = bytes(32) if token is None else proof(token, "server", seen, self._record(WELCOME, rest, 32))
        self._write_record(WELCOME, rest + ours)
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

    def _write_record(self, kind: int, rest: bytes) -> bytes:
        record = self._record(kind, rest)
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
        frame = struct.pack("<BxxxxxxxQQ", kind, number, len(payload)) + payload + bytes(-len(payload) % 8)
        try:
            self.socket.sendall(frame)
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
            kind, number, length = struct.unpack("<BxxxxxxxQQ", header)
            assert header[1:8] == bytes(7), "bytes that must be zero"
            assert kind in (MESSAGE, TAGGED, BODY) or length == 0, "a payload where there is none"
            payload = self._read(length)
            assert self._read(-length % 8) == bytes(-length % 8), "padding that isn't zeros"
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
