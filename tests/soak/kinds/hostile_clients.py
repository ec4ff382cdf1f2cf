"""Clients that break every rule, over shm and tcp, while another client must go on as if they weren't there."""

from __future__ import annotations

import array
import contextlib
import os
import random
import socket
import struct
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import unquote

from tests.soak import mutate, peer, promises
from tests.soak.spec_peers import ENDED, shm_carrier, tcp_carrier
from tests.soak.unit import Kind, Unit
from tests.soak.witness import Witness

TICKETS = (b"table", b"live", b"", b"\0", b"no such table", b"\xff\xfe", b"x" * 300, b"table\0", b"t" * 70_000)
TOKEN = "a token of the soak"
LOOK_EVERY = 40
# How long a hostile client waits for an answer. One that was cut off in a message gets none.
ANSWER_SECONDS = 0.1


class MutatingSocket:
    """A socket whose first packets or bytes are changed on their way out, for the handshake of a carrier."""

    def __init__(self, sock: socket.socket, draws: random.Random) -> None:
        self._socket, self._random = sock, draws

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def settimeout(self, _: float) -> None:
        """The server may wait for what was cut off; this client doesn't."""
        self._socket.settimeout(ANSWER_SECONDS)

    def sendall(self, data: bytes) -> None:
        self._socket.sendall(mutate.some_bytes(self._random, data))

    def sendmsg(self, parts: list[bytes], ancillary: Any = ()) -> int:
        packet = mutate.some_bytes(self._random, b"".join(parts)) if self._random.random() < 0.7 else b"".join(parts)
        draw = self._random.random()
        if draw < 0.2:
            ancillary = ()
        elif draw < 0.5:
            with odd_descriptors(self._random) as descriptors:
                return self._socket.sendmsg([packet], _rights(descriptors))
        return self._socket.sendmsg([packet or b"\0"], ancillary)


def _rights(descriptors: list[int]) -> list[tuple[int, int, Any]]:
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []


@contextlib.contextmanager
def odd_descriptors(draws: random.Random):
    """One to three descriptors that are no ring and no region, or nearly one."""
    made: list[int] = []

    def memory(size: int, seals: int) -> int:
        fd = os.memfd_create("soak", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        os.ftruncate(fd, size)
        if seals:
            shm_carrier.fcntl.fcntl(fd, shm_carrier.F_ADD_SEALS, seals)
        return fd

    def pipe() -> int:
        one, other = os.pipe()
        os.close(other)
        return one

    choices: tuple[Callable[[], int], ...] = (
        lambda: os.open("/dev/null", os.O_RDWR),
        lambda: os.open("/dev/zero", os.O_RDONLY),
        lambda: os.open("/proc/self/maps", os.O_RDONLY),
        lambda: os.open("/", os.O_RDONLY),
        pipe,
        lambda: memory(0, 0),
        lambda: memory(draws.choice((1, 4096, 69632, 1 << 20)), 0),
        lambda: memory(draws.choice((4096, 69632, 1 << 30, 1 << 40)), shm_carrier.RING_SEALS),  # full of holes
        lambda: memory(draws.choice((4096, 1 << 30)), shm_carrier.FROZEN_SEALS),
    )
    try:
        for _ in range(draws.choice((1, 1, 1, 2, 3))):
            made.append(draws.choice(choices)())
        yield made
    finally:
        for fd in made:
            os.close(fd)


def _settle(carrier: Any) -> None:
    """Until the server has looked at what was sent: it answers in order, or ends the connection, or waits for more."""
    carrier.send(b"", carrier.want_data)
    while True:
        tag, message = carrier.receive(timeout=ANSWER_SECONDS)
        if tag is None and message[:1] == b"\0":
            return


class _Client:
    """One hostile client: what it does with a carrier that has shaken hands."""

    def __init__(self, unit: Unit, carrier: Any) -> None:
        self.unit, self.random, self.carrier = unit, unit.random, carrier

    def odd_messages(self) -> None:
        """Some messages that a client may send, though no sensible one does."""
        for _ in range(self.random.randint(0, 12)):
            self.carrier.send(self.random.choice(TICKETS[3:7]), self.carrier.want_data)
            self.unit.count("hostile messages")

    def wrong_message(self) -> None:
        payload = self.random.choice(TICKETS) if self.random.random() < 0.5 else self.random.randbytes(
            self.random.choice((0, 1, 4, 5, 8, 16, 17, 400, 5000))
        )  # fmt: skip
        tag = self.random.choice((self.carrier.want_data, self.carrier.free_data, None, mutate.number(self.random)))
        if self.random.random() < 0.3:
            addresses = [mutate.number(self.random, 1 << 48) for _ in range(self.random.randint(1, 8))]
            payload = struct.pack(f"<{len(addresses)}Q", *addresses)
        if self.random.random() < 0.3:
            payload = struct.pack("<BI", self.random.choice((0, 1, 2, 255)), self.random.getrandbits(32)) + payload
        self.carrier.send(payload, tag, by_value=tag is not None and self.random.random() < 0.1)
        self.unit.count("hostile messages")


class _ShmClient(_Client):
    def garbage_in_ring(self) -> None:
        memory = self.carrier._own_memory
        ring = len(memory) - shm_carrier.PAGE
        for _ in range(self.random.randint(1, 4)):
            data = self.random.randbytes(self.random.choice((16, 64, 4096)))
            if self.random.random() < 0.6:  # a frame that is nearly right
                frame = struct.pack("<IIQ", self.random.choice((4, 5, 8, 300, mutate.number(self.random) % (1 << 32))),
                                    self.random.choice((0, 1, 2, 3, 4, 8, 9, 16)), self.carrier.want_data)  # fmt: skip
                data = mutate.some_bytes(self.random, frame + data, in_place=True)
            at = shm_carrier.PAGE + self.carrier._written % ring
            data = data[: len(memory) - at]
            memory[at : at + len(data)] = data
            step = self.random.choice((16, 32, len(data) // 16 * 16, ring, mutate.number(self.random)))
            self.carrier._written = (self.carrier._written + step) % (1 << 64)
            self.carrier._own[shm_carrier.WRITTEN] = self.carrier._written
            self.unit.count("hostile messages")
        for word in self.random.sample(
            (shm_carrier.TAKEN, shm_carrier.MESSAGES_TAKEN, shm_carrier.STATE, shm_carrier.REQUESTS,
             shm_carrier.TAKEN_GOAL, shm_carrier.MESSAGES_GOAL), self.random.randint(0, 2),
        ):  # fmt: skip
            self.carrier._own[word] = mutate.number(self.random, self.carrier._own[word])
        self.carrier._doorbell()

    def odd_packets(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            kinds = self.random.choice((0, 1, 2, 3, 255)), self.random.randrange(5)
            size = mutate.number(self.random, 4096)
            packet = struct.pack("<BBHIQ", *kinds, self.random.getrandbits(16), 0, size) + bytes(40)
            if self.random.random() < 0.5:
                packet = mutate.some_bytes(self.random, packet) or b"\1"
            with odd_descriptors(self.random) as descriptors:
                rights = _rights(descriptors) if self.random.random() < 0.7 else []
                self.carrier.socket.sendmsg([packet], rights)
            self.unit.count("hostile messages")

    def misbehave(self) -> None:
        self.odd_messages()
        self.random.choice((self.wrong_message, self.wrong_message, self.garbage_in_ring, self.odd_packets))()


class _TcpClient(_Client):
    def odd_frames(self) -> None:
        frames = b""
        for _ in range(self.random.randint(1, 8)):
            payload = self.random.choice(TICKETS[:7])
            kind = self.random.choice((1, 2, 2, 2, 3, 4, 5, 6, 0, 7, 255))
            number = self.random.choice((0, 1, self.carrier.want_data, self.carrier.free_data))
            length = len(payload) if self.random.random() < 0.9 else mutate.number(self.random, len(payload))
            frames += struct.pack("<BxxxxxxxQQ", kind, number, length) + payload + bytes(-len(payload) % 8)
            self.unit.count("hostile messages")
        if self.random.random() < 0.6:
            frames = mutate.some_bytes(self.random, frames)
        self.carrier.socket.sendall(frames)

    def misbehave(self) -> None:
        self.odd_messages()
        self.random.choice((self.wrong_message, self.odd_frames, self.odd_frames))()


def _connect_shm(unit: Unit, uri: str) -> _ShmClient:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        sock.settimeout(20)
        sock.connect(unquote(uri.removeprefix("shm:").partition("?")[0]))
        wrapped = MutatingSocket(sock, unit.random) if unit.random.random() < 0.2 else sock
        return _ShmClient(
            unit, shm_carrier.ShmCarrier(wrapped, server=False, carries=unit.random.choice((0, 0, 0, 1, 2)))
        )
    except BaseException:
        sock.close()
        raise


def _connect_tcp(unit: Unit, uri: str, token: str) -> _TcpClient:
    host, _, port = uri.removeprefix("tcp://").partition("?")[0].rpartition(":")
    # An address of its own, so that a token's guesses, of which a server takes few from each, hold up nobody else.
    source = (f"127.{unit.random.randrange(1, 255)}.{unit.random.randrange(255)}.{unit.random.randrange(1, 255)}", 0)
    sock = socket.create_connection((host, int(port)), timeout=20, source_address=source)
    try:
        wrapped = MutatingSocket(sock, unit.random) if unit.random.random() < 0.2 else sock
        return _TcpClient(unit, tcp_carrier.TcpCarrier(wrapped, server=False, token=token.encode() or None))
    except BaseException:
        sock.close()
        raise


def attack(unit: Unit, build: str, scheme: str) -> None:
    token = TOKEN if scheme == "tcp" and unit.random.random() < 0.3 else ""
    with peer.PeerServer(build, [f"{scheme}:"], token) as server:
        (uri,) = server.uris
        witness = Witness(unit, uri, token or None)
        witness.look()
        witness.close()
        fresh = server.statistics()
        witness = Witness(unit, uri, token or None)
        connect = partial(_connect_tcp, token=token) if scheme == "tcp" else _connect_shm
        number = 0
        while unit.left():
            number += 1
            client: Any = None
            with contextlib.suppress(*ENDED, AssertionError, struct.error, ValueError, KeyError):
                unit.count("hostile clients")
                client = connect(unit, uri)
                client.misbehave()
                if unit.random.random() < 0.9:
                    _settle(client.carrier)
            if client is not None:
                client.carrier.close(orderly=unit.random.random() < 0.5)
            if number % LOOK_EVERY == 0 and not (server.alive() and witness.look()):
                break
        witness.close()
        promises.check_nothing_stays(unit, server, fresh)


def _kind(build: str, scheme: str) -> Kind:
    return Kind(
        f"hostile-{scheme}-clients{'' if build == 'dev' else f'-{build}'}",
        f"clients that break the rules over {scheme}, against a server ({build})",
        partial(attack, build=build, scheme=scheme),
        partial(peer.missing, build),
        ("hostile messages",),
        build,
    )


KINDS = [_kind(build, scheme) for build in peer.BUILDS for scheme in ("shm", "tcp")]
