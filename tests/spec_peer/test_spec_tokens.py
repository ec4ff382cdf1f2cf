"""Tokens over tcp, both ways, from docs/reference/protocol-tcp.md alone: with the token, without it, and pretending."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import protocol
import pyarrow as pa
import pytest
import tcp_carrier
from spec_server import TABLE, Carrier, Sending, expect_request, in_order, packed, tcp_server, until_it_goes
from tcp_carrier import CHALLENGE, HELLO, MAGIC, PLAIN, PROOF, REFUSED, VERSION, WELCOME, WRONG_TOKEN

import crossdock as xd

TOKEN, OTHER = "the token ä", "another one"  # its bytes are those of UTF-8


# ---- their client, our server --------------------------------------------------------------------------------------


@pytest.fixture
def served(no_leftovers: None) -> Iterator[xd.Server]:
    with xd.serve({"t": TABLE}, "tcp://127.0.0.1:0", token=TOKEN) as serving:
        yield serving


def address(server: xd.Server) -> tuple[str, int]:
    parts = urlsplit(server.uri)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def get(server: xd.Server, token: str | None) -> pa.Table:
    carrier = tcp_carrier.connect(*address(server), token=token and token.encode())
    try:
        return protocol.LetterClient(carrier, carrier, lambda *_: pytest.fail("no memory is shared")).get(b"t").table()
    finally:
        carrier.close()


def test_who_knows_the_token_is_served_and_sees_that_the_server_knows_it(served: xd.Server) -> None:
    assert get(served, TOKEN).equals(TABLE)


@pytest.mark.parametrize("token", [OTHER, TOKEN + " ", TOKEN.upper(), "x"])
def test_another_token_is_refused_after_a_second(served: xd.Server, token: str) -> None:
    start = time.monotonic()
    with pytest.raises(tcp_carrier.Refused) as refused:
        get(served, token)
    assert refused.value.code == WRONG_TOKEN
    assert time.monotonic() - start > 0.9
    assert get(served, TOKEN).equals(TABLE)


def test_no_token_is_refused(served: xd.Server) -> None:
    with pytest.raises(tcp_carrier.Refused) as refused:
        get(served, None)
    assert refused.value.code == WRONG_TOKEN


def test_a_server_without_a_token_proves_nothing(no_leftovers: None) -> None:
    with xd.serve({"t": TABLE}, "tcp://127.0.0.1:0") as server, pytest.raises(tcp_carrier.Unproved, match="no token"):
        get(server, TOKEN)


def test_a_proof_is_of_one_handshake(served: xd.Server) -> None:
    """What somebody overheard, the client's HELLO and its PROOF, opens nothing: the CHALLENGE is another one."""
    overheard = Overheard()
    sock = overheard.connect(*address(served))
    carrier = tcp_carrier.TcpCarrier(sock, server=False, token=TOKEN.encode())
    carrier.close()
    hello, proof = overheard.sent[:2]
    with socket.create_connection(address(served), timeout=10) as again:
        again.sendall(hello)
        assert kind_of(again.recv(512)) == CHALLENGE
        again.sendall(proof)
        assert kind_of(again.recv(512)) == REFUSED


class Overheard:
    """A socket whose sent records are kept."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def connect(self, host: str, port: int) -> socket.socket:
        sent = self.sent

        class Listening(socket.socket):
            def sendall(self, data, *flags):
                sent.append(bytes(data))
                super().sendall(data, *flags)

        sock = Listening(socket.AF_INET, socket.SOCK_STREAM)
        sock.connect((host, port))
        return sock


def kind_of(record: bytes) -> int:
    magic, kind = struct.unpack_from("<8sI", record)
    assert magic == MAGIC
    return kind


@pytest.mark.parametrize("instead", [WELCOME, HELLO, CHALLENGE])
def test_a_client_that_answers_with_something_else_is_refused(served: xd.Server, instead: int) -> None:
    with socket.create_connection(address(served), timeout=10) as sock:
        sock.sendall(record(HELLO, struct.pack("<QQQII", 0, 1 << 20, 64 << 20, 0, 1) + os.urandom(32)))
        assert kind_of(sock.recv(512)) == CHALLENGE
        sock.sendall(record(instead, os.urandom(32)))
        answer = sock.recv(512)
        assert answer == b"" or kind_of(answer) == REFUSED
    assert get(served, TOKEN).equals(TABLE)


def record(kind: int, rest: bytes) -> bytes:
    return struct.pack("<8sIIII", MAGIC, kind, VERSION, 24 + len(rest), PLAIN) + rest


# ---- their server, our client --------------------------------------------------------------------------------------


def serve_once(carrier: Carrier) -> None:
    assert carrier.client_has_token == 1
    expect_request(carrier)
    for one in in_order(Sending(carrier, packed, by_value=True)):
        one()
    until_it_goes(carrier)


def nothing_is_asked(carrier: Carrier) -> None:
    with pytest.raises(tcp_carrier.Ended):
        carrier.receive()


def test_our_client_proves_its_token_and_wants_proof(no_leftovers: None) -> None:
    with tcp_server(token=TOKEN.encode()) as server:
        server.accept(serve_once)
        with xd.connect(server.uri, token=TOKEN) as client:
            assert pa.table(client.get("t")).equals(TABLE)


@pytest.mark.parametrize("token", [OTHER, None])
def test_our_client_is_told_that_its_token_is_wrong(no_leftovers: None, token: str | None) -> None:
    with tcp_server(token=TOKEN.encode()) as server:
        server.accept(lambda carrier: pytest.fail("it was let in"))
        with pytest.raises(xd.PermissionError, match="token"):
            xd.connect(server.uri, token=token)
        with pytest.raises(tcp_carrier.Unproved, match="token"):
            server.finish()


def test_our_client_leaves_a_server_that_asks_for_no_token(no_leftovers: None) -> None:
    with tcp_server() as server:
        server.accept(nothing_is_asked)
        with pytest.raises(xd.PermissionError, match="token"):
            xd.connect(server.uri, token=TOKEN)


class Pretender(tcp_carrier.TcpCarrier):
    """A server that doesn't know the token: it takes any proof, and makes up its own."""

    def _welcome(self, want_data: int, free_data: int, token: bytes | None) -> None:
        kind, _ = self._read_record()
        assert kind == HELLO
        self._write_record(CHALLENGE, os.urandom(32))
        kind, proof = self._read_record()
        assert kind == PROOF
        made_up = self.make_up(proof[24:56])
        self._write_record(WELCOME, self._limits() + struct.pack("<QQ", want_data, free_data) + made_up)

    def make_up(self, _proof: bytes) -> bytes:
        return os.urandom(32)


class Mirror(Pretender):
    """It gives the client's own proof back."""

    def make_up(self, proof: bytes) -> bytes:
        return proof


class Silent(Pretender):
    """It leaves the proof out, as a server without a token does."""

    def make_up(self, _proof: bytes) -> bytes:
        return bytes(32)


@pytest.mark.parametrize("pretender", [Pretender, Mirror, Silent])
def test_our_client_leaves_a_server_that_proves_nothing(no_leftovers: None, pretender) -> None:
    with tcp_server(pretender) as server:
        server.accept(nothing_is_asked)
        with pytest.raises(xd.PermissionError, match="token"):
            xd.connect(server.uri, token=TOKEN)
