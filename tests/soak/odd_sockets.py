"""What a hostile client's handshake goes through: a socket that changes it, and descriptors that nobody asked for."""

from __future__ import annotations

import array
import contextlib
import os
import random
import socket
from collections.abc import Callable, Iterator
from typing import Any

from tests.soak import mutate
from tests.soak.spec_peers import shm_carrier


class MutatingSocket:
    """A socket that changes one packet or write of a handshake, the first or the second, and sends no more after it:
    the server must answer, refuse, or end the connection, and has no rest to wait for."""

    def __init__(self, sock: socket.socket, draws: random.Random) -> None:
        self._socket, self._random = sock, draws
        self._honest = draws.choice((0, 0, 1))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def _turn_of_honest(self) -> bool:
        self._honest -= 1
        return self._honest >= 0

    def sendall(self, data: bytes) -> None:
        if self._turn_of_honest():
            self._socket.sendall(data)
            return
        self._socket.sendall(mutate.some_bytes(self._random, data))
        self._socket.shutdown(socket.SHUT_WR)

    def sendmsg(self, parts: list[bytes], ancillary: Any = ()) -> int:
        if self._turn_of_honest():
            return self._socket.sendmsg(parts, ancillary)
        packet = b"".join(parts)
        with odd_descriptors(self._random) as descriptors:
            if self._random.random() < 0.7:
                packet = mutate.some_bytes(self._random, packet) or b"\0"
                descriptors = descriptors if self._random.random() < 0.3 else []
            sent = self._socket.sendmsg([packet], rights(descriptors))
        self._socket.shutdown(socket.SHUT_WR)
        return sent


def rights(descriptors: list[int]) -> list[tuple[int, int, Any]]:
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []


@contextlib.contextmanager
def odd_descriptors(draws: random.Random) -> Iterator[list[int]]:
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
