"""Clients that break every rule, over shm and tcp, while another client must go on as if they weren't there.

A hostile message counts once the server has ended its connection for it, by the server's own count, or has refused its
opening. A rule that is broken ends a connection, so that one of each connection counts at most. Requests that break no
rule are counted apart.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.soak import mutate, peer, promises
from tests.soak.odd_sockets import MutatingSocket, odd_descriptors, rights
from tests.soak.spec_peers import ENDED, shm_carrier, tcp_carrier
from tests.soak.unit import Kind, Unit
from tests.soak.witness import Witness

TICKETS = (b"table", b"live", b"", b"\0", b"no such table", b"\xff\xfe", b"x" * 300, b"table\0", b"t" * 70_000)
THERE = (b"table", b"live", b"")
TOKEN = "a token of the soak"
LOOK_EVERY = 40
# Clients at the same time: one waits for the server while others go on.
THREADS = 6
# Within this the server must have ended the connection of a client that sends no more, however busy the machine.
END_SECONDS = 60
CHECKSUMS = tcp_carrier.KNOWS_CHECKSUMS | tcp_carrier.ASKS_FOR_CHECKSUMS


class _Client:
    """One hostile client: what it does with a carrier that has shaken hands."""

    def __init__(self, unit: Unit, draws: random.Random, carrier: Any) -> None:
        self.unit, self.random, self.carrier = unit, draws, carrier

    def legal_requests(self) -> bool:
        """Requests that a client may send, one after another, also for what isn't there: that ends the connection of a
        client that knows no error messages. False: it did."""
        for _ in range(self.random.randint(1, 4)):
            ticket = self.random.choice(TICKETS)
            self.carrier.send(ticket, self.carrier.want_data)
            self.unit.count("legal requests")
            try:
                while True:
                    tag, message = self.carrier.receive(END_SECONDS)
                    if tag is None and message[:1] == b"\0":
                        break
            except (shm_carrier.Ended, tcp_carrier.Ended):
                if ticket in THERE:
                    raise
                return False
        return True

    def wrong_message(self) -> None:
        payload = self.random.choice(TICKETS) if self.random.random() < 0.5 else self.random.randbytes(
            self.random.choice((0, 1, 4, 5, 8, 16, 17, 400, 5000))
        )  # fmt: skip
        tag = self.random.choice((self.carrier.free_data, self.carrier.free_data, None, mutate.number(self.random)))
        if self.random.random() < 0.3:
            addresses = [mutate.number(self.random, 1 << 48) for _ in range(self.random.randint(1, 8))]
            payload = struct.pack(f"<{len(addresses)}Q", *addresses)
        if self.random.random() < 0.3:
            payload = struct.pack("<BI", self.random.choice((0, 1, 2, 255)), self.random.getrandbits(32)) + payload
        self.carrier.send(payload, tag, by_value=tag is not None and self.random.random() < 0.1)

    def requests_at_once(self) -> None:
        """Each before the end of the stream before it."""
        for _ in range(self.random.randint(2, 12)):
            self.carrier.send(self.random.choice(TICKETS[:7]), self.carrier.want_data)

    def break_rules(self) -> None:
        raise NotImplementedError

    def misbehave(self) -> None:
        """Breaks rules, and waits until the server has ended the connection: it reads all that was sent before it sees
        that no more comes."""
        if self.carrier.role == shm_carrier.BOTH and self.random.random() < 0.1 and not self.legal_requests():
            return
        with contextlib.suppress(*ENDED):  # before all was sent
            self.break_rules()
        if self.random.random() < 0.05:
            return  # gone without a word
        with contextlib.suppress(OSError):  # the server was first
            self.carrier.socket.shutdown(socket.SHUT_WR)
        self.carrier.socket.settimeout(END_SECONDS)
        try:
            while self.carrier.socket.recv(1 << 16):
                pass
        except TimeoutError:
            self.unit.finding(
                f"after {END_SECONDS} s the server still keeps a client that has broken the rules and gone"
            )
        except ConnectionError:
            pass  # it closed before it had read all


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
                self.carrier.socket.sendmsg([packet], rights(descriptors) if self.random.random() < 0.7 else [])

    def break_rules(self) -> None:
        self.random.choice(
            (self.wrong_message, self.wrong_message, self.garbage_in_ring, self.garbage_in_ring, self.odd_packets,
             self.requests_at_once)
        )()  # fmt: skip


class _TcpClient(_Client):
    def odd_frames(self) -> None:
        frames = b""
        for _ in range(self.random.randint(1, 8)):
            payload = self.random.choice(TICKETS[:7])
            kind = self.random.choice((1, 2, 2, 2, 3, 4, 5, 6, 0, 7, 255))
            number = self.random.choice((0, 1, self.carrier.want_data, self.carrier.free_data))
            frame = tcp_carrier.frame(kind, number, payload, checksums=self.carrier.checksums)
            if self.random.random() < 0.1:
                frame = frame[:16] + struct.pack("<Q", mutate.number(self.random, len(payload))) + frame[24:]
            frames += frame
        if self.random.random() < 0.6:
            frames = mutate.some_bytes(self.random, frames)
        self.carrier.socket.sendall(frames)

    def break_rules(self) -> None:
        self.random.choice((self.wrong_message, self.odd_frames, self.odd_frames, self.requests_at_once))()


class _Opening:
    """A connection and its handshake, which goes through a MutatingSocket for every tenth client."""

    def __init__(self, unit: Unit, draws: random.Random, sock: socket.socket) -> None:
        self.unit, self.random, self.socket = unit, draws, sock
        self.honest = draws.random() >= 0.1
        self.sends = sock if self.honest else MutatingSocket(sock, draws)

    def shake_hands(self, carrier: Callable[..., Any]) -> Any | None:
        """The carrier of a right opening. A changed one is all that its client does."""
        try:
            shaken = carrier(self.sends, server=False)
            if self.honest:
                return shaken
            shaken.close(orderly=False)
            self.unit.count("changed openings that were accepted")
        except ENDED as error:
            self.socket.close()
            if self.honest:
                self.unit.finding(f"a right opening got {type(error).__name__}: {error}")
            elif isinstance(error, shm_carrier.Refused | tcp_carrier.Refused):
                self.unit.count("refused openings")
        except BaseException:
            self.socket.close()
            raise
        return None


def _role(draws: random.Random) -> int:
    """The role of a connection."""
    return draws.choice((shm_carrier.BOTH,) * 3 + (shm_carrier.METADATA, shm_carrier.BODIES))


def shm_client(unit: Unit, draws: random.Random, uri: str) -> _ShmClient | None:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(END_SECONDS)
    sock.connect(shm_carrier.socket_path(uri.removeprefix("shm:").partition("?")[0]))
    carrier = _Opening(unit, draws, sock).shake_hands(partial(shm_carrier.ShmCarrier, role=_role(draws)))
    return None if carrier is None else _ShmClient(unit, draws, carrier)


def tcp_client(unit: Unit, draws: random.Random, uri: str, token: str) -> _TcpClient | None:
    host, _, port = uri.removeprefix("tcp://").partition("?")[0].rpartition(":")
    # An address of its own, so that a token's guesses, of which a server takes few from each, hold up nobody else.
    source = (f"127.{draws.randrange(1, 255)}.{draws.randrange(255)}.{draws.randrange(1, 255)}", 0)
    sock = socket.create_connection((host, int(port)), timeout=END_SECONDS, source_address=source)
    features = CHECKSUMS if draws.random() < 0.2 else 0
    connect = partial(tcp_carrier.TcpCarrier, role=_role(draws), token=token.encode() or None, features=features)
    carrier = _Opening(unit, draws, sock).shake_hands(connect)
    return None if carrier is None else _TcpClient(unit, draws, carrier)


class Attackers:
    """Threads with one hostile client after another, until the unit's time is over or one of them finds something."""

    def __init__(self, unit: Unit, client: Callable[[random.Random], _Client | None]) -> None:
        self._unit, self._client = unit, client
        self._clients_since_look = threading.Semaphore(0)
        self._threads = [
            threading.Thread(target=self._attack, args=[random.Random(unit.random.random())]) for _ in range(THREADS)
        ]
        for thread in self._threads:
            thread.start()

    def wait_for_clients(self, number: int) -> bool:
        """False: there won't be so many any more."""
        for _ in range(number):
            while not self._clients_since_look.acquire(timeout=0.1):
                if not any(thread.is_alive() for thread in self._threads):
                    return False
        return True

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _attack(self, draws: random.Random) -> None:
        for _ in self._unit.rounds():
            try:
                client = self._client(draws)
                if client is not None:
                    try:
                        client.misbehave()
                    finally:
                        client.carrier.close(orderly=draws.random() < 0.5)
            except Exception as error:
                self._unit.finding(f"a hostile client got {type(error).__name__}: {error}")
            if self._unit.findings:
                return
            self._unit.count("hostile clients")
            self._clients_since_look.release()


def attack(unit: Unit, build: str, scheme: str) -> None:
    token = TOKEN if scheme == "tcp" and unit.random.random() < 0.3 else ""
    with peer.PeerServer(build, [f"{scheme}:"], token) as server:
        (uri,) = server.uris
        witness = Witness(unit, uri, token or None)
        witness.look()
        witness.close()
        fresh = server.statistics()
        witness = Witness(unit, uri, token or None)
        client = partial(tcp_client, token=token) if scheme == "tcp" else shm_client
        attackers = Attackers(unit, lambda draws: client(unit, draws, uri))
        while attackers.wait_for_clients(LOOK_EVERY) and server.alive() and witness.look():
            pass
        attackers.join()
        witness.look()
        witness.close()
        ended = server.statistics()["protocol_errors"] - fresh["protocol_errors"]
        unit.count("connections that the server ended", ended)
        unit.count("hostile messages", ended + unit.counts["refused openings"])
        promises.check_nothing_stays(unit, server, fresh)


def _kind(build: str, scheme: str) -> Kind:
    return Kind(
        f"hostile-{scheme}-clients{'' if build == 'dev' else f'-{build}'}",
        f"clients that break the rules over {scheme}, against a server ({build})",
        partial(attack, build=build, scheme=scheme),
        ("hostile messages", "tables beside them"),
        partial(peer.missing, build),
        build,
    )


KINDS = [_kind(build, scheme) for build in peer.BUILDS for scheme in ("shm", "tcp")]
