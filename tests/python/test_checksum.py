"""Bytes that change on the way over tcp: with checksums none of them is taken for data, whatever byte it is."""

from __future__ import annotations

import contextlib
import random
import selectors
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import crossdock as xd

TABLE = pa.table({"n": range(300), "s": [f"row {i}" for i in range(300)], "b": [i % 3 == 0 for i in range(300)]})
TO_SERVER, TO_CLIENT = 0, 1
TOKEN = "a token that is long enough"


@dataclass(frozen=True)
class Flip:
    """One bit of one byte, counted from the start of a connection."""

    direction: int
    at: int

    @property
    def mask(self) -> int:
        return 1 << self.at % 8


class Network:
    """Stands between one client and a server, and may change a byte."""

    def __init__(self, server: str, flip: Flip | None = None) -> None:
        parts = urlsplit(server)
        assert parts.hostname is not None
        self._server = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.uri = server.replace(str(parts.port), str(self._listener.getsockname()[1]), 1)
        self.passed = [0, 0]
        self._flip = flip
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):  # the client never came
            client, _ = self._listener.accept()
            with client, socket.create_connection(self._server) as server, selectors.DefaultSelector() as selector:
                selector.register(client, selectors.EVENT_READ, (TO_SERVER, server))
                selector.register(server, selectors.EVENT_READ, (TO_CLIENT, client))
                while selector.get_map():
                    for key, _ in selector.select():
                        source = key.fileobj
                        assert isinstance(source, socket.socket)
                        self._pass(selector, source, *key.data)

    def _pass(
        self, selector: selectors.BaseSelector, source: socket.socket, direction: int, target: socket.socket
    ) -> None:
        try:
            data = bytearray(source.recv(1 << 16))
            if self._flip is not None and self._flip.direction == direction:
                at = self._flip.at - self.passed[direction]
                if 0 <= at < len(data):
                    data[at] ^= self._flip.mask
            self.passed[direction] += len(data)
            target.sendall(data)
        except OSError:
            data = bytearray()
        if not data:
            selector.unregister(source)
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_WR)

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def served(no_leftovers: None) -> Iterator[xd.Server]:
    with xd.serve({"t": pa.Table.from_batches(TABLE.to_batches(200))}, "tcp:") as server:
        yield server


def outcome(
    server: xd.Server, flip: Flip | None, *, checksum: bool, token: str | None = None
) -> tuple[pa.Table | xd.Error, list[int]]:
    """What a client gets through that network, and how many bytes passed each way."""
    with Network(server.uri, flip) as network:
        got: pa.Table | xd.Error
        try:
            # A damaged length has both ends wait for what never comes.
            with xd.connect(network.uri, timeout=0.5, checksum=checksum, token=token) as client:
                reader = client.get("t", timeout=0.5)
                batches = [pa.record_batch(batch) for batch in reader]  # by our reader, whose errors are ours
                got = pa.Table.from_batches(batches, pa.schema(reader.schema))
        except xd.Error as error:
            got = error
    return got, network.passed


def sample(passed: list[int], count: int, seed: int) -> list[Flip]:
    """All of the handshakes, and some of the rest."""
    chosen = random.Random(seed)
    flips = []
    for direction, opening in ((TO_SERVER, 92), (TO_CLIENT, 100)):
        rest = range(opening, passed[direction])
        flips += [Flip(direction, at) for at in range(opening)]
        flips += [Flip(direction, at) for at in sorted(chosen.sample(rest, min(len(rest), count)))]
    return flips


@pytest.mark.long
def test_no_changed_byte_is_taken_for_data(served: xd.Server) -> None:
    whole, passed = outcome(served, None, checksum=True)
    assert isinstance(whole, pa.Table)
    assert whole.equals(TABLE)
    found = 0
    for flip in sample(passed, 150, seed=20260731):
        got, _ = outcome(served, flip, checksum=True)
        if isinstance(got, xd.Error):
            found += "damaged" in str(got)
        else:  # a byte of what is said at the end, when everything is there
            assert got.equals(TABLE), flip
    assert found > 150
    with xd.connect(served.uri, checksum=True) as client:  # the server goes on
        assert pa.table(client.get("t")).equals(TABLE)


def test_without_checksums_changed_bytes_are_taken_for_data(served: xd.Server) -> None:
    """What checksums are for, and that this network does change bytes."""
    _, passed = outcome(served, None, checksum=False)
    others = 0
    for at in range(passed[TO_CLIENT] - 1500, passed[TO_CLIENT] - 500, 50):
        got, _ = outcome(served, Flip(TO_CLIENT, at), checksum=False)
        others += isinstance(got, pa.Table) and not got.equals(TABLE)
    assert others > 0


def test_a_damaged_body_is_named_and_nothing_of_it_comes_out(served: xd.Server) -> None:
    _, passed = outcome(served, None, checksum=True)
    got, _ = outcome(served, Flip(TO_CLIENT, passed[TO_CLIENT] - 1000), checksum=True)
    assert isinstance(got, xd.ProtocolError)
    assert "arrived damaged: its CRC-32C is 0x" in str(got)
    assert "tcp://127.0.0.1:" in str(got)


@pytest.mark.long
def test_with_a_token_a_changed_handshake_is_refused(no_leftovers: None) -> None:
    with xd.serve({"t": TABLE}, "tcp:", token=TOKEN, checksum=True) as server:
        whole, _ = outcome(server, None, checksum=True, token=TOKEN)
        assert isinstance(whole, pa.Table)
        # HELLO and PROOF, but for PROOF, whose answer takes a second, one byte only; CHALLENGE and WELCOME.
        flips = [Flip(TO_SERVER, at) for at in (*range(0, 92, 7), 92 + 30)]
        flips += [Flip(TO_CLIENT, at) for at in range(0, 56 + 100, 7)]
        for flip in flips:
            got, _ = outcome(server, flip, checksum=True, token=TOKEN)
            assert isinstance(got, xd.Error), flip


def test_a_server_that_demands_checksums_refuses_a_client_without() -> None:
    with xd.serve({"t": TABLE}, "tcp:", checksum=True) as server:
        with pytest.raises(xd.HandshakeError, match="requires checksums"):
            xd.connect(server.uri, checksum=False)
        with xd.connect(server.uri) as client:
            assert pa.table(client.get("t")).equals(TABLE)
    without = xd.serve({"t": TABLE}, "tcp:", checksum=False)
    with without, pytest.raises(xd.HandshakeError, match="offers no checksums"):
        xd.connect(without.uri, checksum=True)


def test_checksum_is_a_bool_or_none() -> None:
    with pytest.raises(TypeError, match="checksum must be True, False or None"):
        xd.serve(checksum="yes")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="checksum must be True, False or None"):
        xd.connect("tcp://127.0.0.1:1", checksum=1)  # type: ignore[arg-type]
