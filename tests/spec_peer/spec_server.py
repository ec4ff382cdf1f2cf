"""What the tests of our client share: a server that follows the text strictly, whose every act a test decides."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import protocol
import pyarrow as pa
import shm_carrier
import tcp_carrier

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

Carrier = Any  # an ShmCarrier or a TcpCarrier
Act = Callable[[Carrier], None]
ENDED = (shm_carrier.Ended, tcp_carrier.Ended)


def patient_next(reader: Any) -> pa.RecordBatch | None:
    """The next batch, whatever the reader's timeout, or None at the end: for a machine that is busy with other work."""
    while True:
        with contextlib.suppress(xd.TimeoutError):
            batch = next(reader, None)
            return None if batch is None else pa.record_batch(batch)


class SpecServer:
    """Serves one connection after another, each by one of the acts given; what an act raises, the test raises."""

    def __init__(self, uri: str, listener: socket.socket, carrier: Callable[..., Carrier], **options: Any) -> None:
        self.uri = uri
        self._listener = listener
        tags = {"want_data": WANT_DATA, "free_data": FREE_DATA}
        self._carrier = functools.partial(carrier, server=True, **(tags | options))
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
            with sock:  # where the handshake fails, nobody else closes it
                carrier = self._carrier(sock)
                try:
                    act(carrier)
                finally:
                    carrier.close()
        except BaseException as error:
            self._errors.append(error)

    def finish(self) -> None:
        for thread in self._threads:
            thread.join(timeout=20)
            assert not thread.is_alive(), "the spec server still waits"
        self._listener.close()
        if self._errors:
            raise self._errors.pop(0)


@contextlib.contextmanager
def shm_server(path: str, **options: Any) -> Iterator[SpecServer]:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen()
    serving = SpecServer(f"shm:{path}", listener, shm_carrier.ShmCarrier, **options)
    yield serving
    serving.finish()
    os.unlink(path)


@contextlib.contextmanager
def tcp_server(carrier: Callable[..., Carrier] = tcp_carrier.TcpCarrier, **options: Any) -> Iterator[SpecServer]:
    listener = socket.create_server(("127.0.0.1", 0))
    serving = SpecServer(f"tcp://127.0.0.1:{listener.getsockname()[1]}", listener, carrier, **options)
    yield serving
    serving.finish()


def expect_request(carrier: Carrier, ticket: bytes = b"t") -> None:
    assert carrier.receive() == (carrier.want_data, ticket)


def until_it_goes(carrier: Carrier) -> Counter[int]:
    """What the client frees until it disconnects, each address as often as it is freed."""
    freed: Counter[int] = Counter()
    with contextlib.suppress(*ENDED):
        while True:
            tag, body = carrier.receive()
            assert tag == carrier.free_data
            freed.update(struct.unpack(f"<{len(body) // 8}Q", body))
    return freed


class Sending:
    """A stream's messages as single acts, to be done in any order. Bodies go over `data` where that is another one."""

    def __init__(
        self, carrier: Carrier, kinds: Callable[[int], int], *, by_value: bool = False, data: Carrier | None = None
    ) -> None:
        self.carrier = carrier
        self.data = data or carrier
        self.kinds = kinds
        self.by_value = by_value
        self.sent: Counter[int] = Counter()

    def metadata(self, number: int) -> None:
        self.carrier.send(protocol.metadata_message(number, MESSAGES[number].flatbuffer))

    def body(self, number: int) -> None:
        message = MESSAGES[number]
        if self.kinds(number) == protocol.PACKED:
            tag = protocol.body_tag(number, protocol.PACKED)
            self.data.send(message.body, tag, by_value=self.by_value)
            return
        self.data.announce(number, bytes(64) + message.body)  # a region for each message
        table, addresses = protocol.table_of_addresses(message, number << 48 | 64)
        self.sent.update(addresses)
        self.data.send(table, protocol.body_tag(number, protocol.REMOTE))

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
