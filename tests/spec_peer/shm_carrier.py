"""The shm carrier of docs/reference/protocol-shm.md, either end, over raw sockets and mappings.

Written from that page alone, with none of the library's code, so that a mistake in the library and the same mistake in
its tests can't hide each other. It offers no feature bit: everything that is Crossdock's own is left out.

A mapping's 8-byte words are read and written through memoryview.cast("Q"), one aligned 8-byte access each. On x86 and
ARM64 such accesses are atomic; the fences are those of a lock, which CPython takes with an atomic exchange.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import mmap
import os
import select
import socket
import struct
import threading
import time
from urllib.parse import unquote

PAGE = 4096
RING = 1 << 16
MAGIC = b"XDOCKSHM"
VERSION = 2
HELLO, WELCOME, REFUSED = 1, 2, 3

F_ADD_SEALS, F_GET_SEALS = 1033, 1034
SEAL_SEAL, SEAL_SHRINK, SEAL_GROW, SEAL_WRITE, SEAL_FUTURE_WRITE = 1, 2, 4, 8, 16
SIZE_SEALS = SEAL_SHRINK | SEAL_GROW | SEAL_SEAL
RING_SEALS = SIZE_SEALS | SEAL_FUTURE_WRITE
ALL_SEALS = RING_SEALS | SEAL_WRITE
FROZEN_SEALS = SEAL_SHRINK | SEAL_GROW | SEAL_WRITE | SEAL_SEAL

# Words of a ring memory's first page.
WRITTEN, TAKEN, MESSAGES_TAKEN, STATE, REQUESTS, TAKEN_GOAL, MESSAGES_GOAL = (
    offset // 8 for offset in (0, 128, 136, 256, 384, 392, 400)
)
CLOSED = 1 << 32

# Flags of a frame.
TAGGED, MORE, RETIREMENT, BODY = 1, 2, 4, 8

FROZEN, RECYCLED, FILE = 1, 2, 3

# The role of a connection: the channels that it carries.
BOTH, METADATA, BODIES = 0, 1, 2


class Ended(Exception):
    """The peer closed the connection, or broke its rules."""


class Refused(Ended):
    """The server said so."""


_fence_lock = threading.Lock()


def socket_path(address: str) -> str:
    """docs/reference/protocol-shm.md, "Address": a path, or a name in its user's folder of names."""
    address = unquote(address)
    return address if "/" in address else f"{os.environ['XDG_RUNTIME_DIR']}/crossdock/{address}.sock"


def fence() -> None:
    with _fence_lock:
        pass


def sealed_memory(name: str, size: int, seals: int, content: bytes = b"") -> tuple[int, mmap.mmap | None]:
    """A memfd with these seals. Under SEAL_WRITE nothing may be mapped writable, so it is written to instead."""
    fd = os.memfd_create(name, os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(fd, size)
    os.posix_fallocate(fd, 0, size)
    mapping = None
    if seals & SEAL_WRITE:
        os.pwrite(fd, content, 0)
    else:
        mapping = mmap.mmap(fd, size)
    fcntl.fcntl(fd, F_ADD_SEALS, seals)
    return fd, mapping


class Region:
    """Memory that the peer handed over."""

    def __init__(self, fd: int, kind: int, size: int) -> None:
        self.kind = kind
        if kind != FILE:
            wanted = FROZEN_SEALS if kind == FROZEN else RING_SEALS
            assert fcntl.fcntl(fd, F_GET_SEALS) & wanted == wanted, "a region without the seals of its kind"
        status = os.fstat(fd)
        assert status.st_size == size, "a region of another size than announced"
        self.memory = mmap.mmap(fd, size, prot=mmap.PROT_READ)
        os.close(fd)

    def read(self, offset: int, length: int) -> bytes:
        assert offset + length <= len(self.memory), "a buffer outside of its region"
        return self.memory[offset : offset + length]


class ShmCarrier:
    """One connection: tagged and untagged messages in both directions, and regions."""

    def __init__(
        self, sock: socket.socket, *, server: bool, want_data: int = 0, free_data: int = 0, role: int = BOTH
    ) -> None:
        self.socket = sock
        if server:
            self._welcome_client(want_data, free_data)
        else:
            self.role = role
            self._join_server(role)
        self._own = memoryview(self._own_memory).cast("Q")
        self._peer = memoryview(self._peer_memory).cast("Q")
        self._written = 0
        self._read = 0
        self._messages_sent = 0
        self._messages_read = 0
        self._rung_epoch = -1
        self._answered = 0
        self._ended = False
        self._partial = b""
        self._body_length: int | None = None
        self.regions: dict[int, Region] = {}
        self.retired: list[int] = []
        self._announced_early: dict[int, list[Region]] = {}
        self.bodies_by_value = 0

    # ---- handshake ----

    def _welcome_client(self, want_data: int, free_data: int) -> None:
        """The server's part: it makes both rings, and maps the client's read-only."""
        packet, descriptors = self._read_opening(HELLO)
        assert not descriptors
        self.role = struct.unpack_from("<I", packet, 48)[0]
        self._ring = self._peer_ring = RING
        own_fd, own_memory = sealed_memory("spec-ring", PAGE + RING, RING_SEALS)
        peer_fd, writable = sealed_memory("spec-ring", PAGE + RING, SIZE_SEALS)
        assert own_memory is not None
        assert writable is not None
        writable.close()
        self._own_memory = own_memory
        self._peer_memory = mmap.mmap(peer_fd, PAGE + RING, prot=mmap.PROT_READ)
        try:
            opening = self._opening(WELCOME, RING) + struct.pack("<QQ", want_data, free_data)
            self._send_packet(opening, own_fd, peer_fd)
        finally:
            os.close(own_fd)
            os.close(peer_fd)
        self.want_data, self.free_data = want_data, free_data

    def _join_server(self, role: int) -> None:
        """The client's part: it takes both rings, and maps its own writable."""
        self._send_packet(self._opening(HELLO, 0) + struct.pack("<II", role, 0))
        packet, (peer_fd, own_fd) = self._read_opening(WELCOME)
        (ring,) = struct.unpack_from("<Q", packet, 24)
        self.want_data, self.free_data = struct.unpack_from("<QQ", packet, 48)
        self._ring = self._peer_ring = ring
        for fd, seals in ((peer_fd, RING_SEALS), (own_fd, SIZE_SEALS)):
            assert fcntl.fcntl(fd, F_GET_SEALS) & ALL_SEALS == seals, "a ring with other seals than its own"
            assert os.fstat(fd).st_size == PAGE + ring, "a ring of another size than the welcome says"
        self._own_memory = mmap.mmap(own_fd, PAGE + ring)
        self._peer_memory = mmap.mmap(peer_fd, PAGE + ring, prot=mmap.PROT_READ)
        os.close(own_fd)
        os.close(peer_fd)

    def _opening(self, kind: int, ring: int) -> bytes:
        # No feature; messages and bodies of at most 1 MiB and 64 MiB.
        return struct.pack("<8sII", MAGIC, kind, VERSION) + struct.pack("<QQQQ", 0, ring, 1 << 20, 64 << 20)

    def _send_packet(self, packet: bytes, *fds: int) -> None:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([packet], ancillary)

    def _receive_packet(self) -> tuple[bytes, list[int]]:
        descriptors = array.array("i")
        packet, ancillary, flags, _ = self.socket.recvmsg(512, socket.CMSG_SPACE(8 * descriptors.itemsize))
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
        assert not flags & socket.MSG_CTRUNC, "descriptors were cut off in passing"
        return packet, list(descriptors)

    def _read_opening(self, wanted: int) -> tuple[bytes, list[int]]:
        packet, descriptors = self._receive_packet()
        if not packet:
            raise Ended("the peer closed the connection before its opening")
        magic, kind, version = struct.unpack_from("<8sII", packet)
        assert (magic, version) == (MAGIC, VERSION)
        if kind == REFUSED:
            code, length = struct.unpack_from("<II", packet, 16)
            raise Refused(f"refused with code {code}: {packet[24 : 24 + length].decode()}")
        assert kind == wanted
        assert len(packet) >= (56 if wanted == HELLO else 64)
        return packet, descriptors

    # ---- the socket ----

    def _ring_if_asleep(self) -> None:
        fence()
        epoch = self._peer[STATE] & 0xFFFFFFFF
        if epoch % 2 == 1 and epoch != self._rung_epoch:
            self._rung_epoch = epoch
            self._doorbell()

    def _doorbell(self) -> None:
        try:
            self.socket.send(b"\x01", socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass  # the socket is readable at the other end anyway
        except OSError:
            self._ended = True

    def _answer(self, *, look_at_goals: bool = True) -> None:
        fence()
        requests = self._peer[REQUESTS]
        if requests == self._answered:
            return
        taken_goal, messages_goal = self._peer[TAKEN_GOAL], self._peer[MESSAGES_GOAL]
        reached = (taken_goal and self._read >= taken_goal) or (messages_goal and self._messages_read >= messages_goal)
        if reached or not look_at_goals:
            self._answered = requests
            self._doorbell()

    def _read_packets(self) -> None:
        while select.select([self.socket], [], [], 0)[0]:
            try:
                packet, descriptors = self._receive_packet()
            except OSError:
                packet, descriptors = b"", []
            if not packet:
                self._ended = True
                return
            if packet[0] == 2:
                kind, number = packet[1], struct.unpack_from("<H", packet, 2)[0]
                (size,) = struct.unpack_from("<Q", packet, 8)
                (fd,) = descriptors
                # A number in use is announced anew once its retirement is in the ring, which may not be read yet.
                region = Region(fd, kind, size)
                if number in self.regions:
                    self._announced_early.setdefault(number, []).append(region)
                else:
                    self.regions[number] = region
            else:
                assert packet == b"\x01", f"an unknown packet: {packet!r}"
        self._answer(look_at_goals=False)

    def _sleep(self, ready, deadline: float) -> None:
        """Sleeps until the socket is readable, unless ready() says that there is something to do."""
        self._own[STATE] += 1
        fence()
        try:
            if ready() or self._peer[STATE] & CLOSED:
                return
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("the peer says nothing")
            select.select([self.socket], [], [], left)
        finally:
            self._own[STATE] += 1
        self._read_packets()

    # ---- sending ----

    def send(self, payload: bytes, tag: int | None = None, *, by_value: bool = False, timeout: float = 10) -> None:
        """Untagged without a tag. `by_value`: a body with its length before it, flag 8."""
        flags = 0 if tag is None else TAGGED
        if by_value:
            flags |= BODY
            payload = struct.pack("<Q", len(payload)) + payload
        most = self._ring // 4 - 16
        parts = [payload[at : at + most] for at in range(0, len(payload), most)] or [b""]
        for part in parts[:-1]:
            self._send_frame(flags | MORE, tag or 0, part, timeout)
        self._send_frame(flags, tag or 0, parts[-1], timeout)
        self._messages_sent += 1

    def _send_frame(self, flags: int, tag: int, part: bytes, timeout: float) -> None:
        frame = struct.pack("<IIQ", len(part), flags, tag) + part
        frame += bytes(-len(frame) % 16)
        deadline = time.monotonic() + timeout

        def room() -> bool:
            return self._written - self._peer[TAKEN] + len(frame) <= self._ring

        while not room():
            if self._ended or self._peer[STATE] & CLOSED:
                raise Ended("the peer is gone")
            self._own[TAKEN_GOAL] = self._written + len(frame) - self._ring
            self._own[MESSAGES_GOAL] = 0
            self._own[REQUESTS] += 1
            self._sleep(room, deadline)
        start = self._written % self._ring
        first = min(len(frame), self._ring - start)
        self._own_memory[PAGE + start : PAGE + start + first] = frame[:first]
        self._own_memory[PAGE : PAGE + len(frame) - first] = frame[first:]
        self._written += len(frame)
        self._own[WRITTEN] = self._written
        self._ring_if_asleep()

    def announce(self, number: int, content: bytes) -> None:
        """Hands frozen memory over under a number."""
        fd, _ = sealed_memory("spec-region", len(content), FROZEN_SEALS, content)
        try:
            self._send_packet(struct.pack("<BBHIQ", 2, FROZEN, number, 0, len(content)) + bytes(40), fd)
        finally:
            os.close(fd)

    # ---- receiving ----

    def receive(self, timeout: float = 10) -> tuple[int | None, bytes]:
        """The next message: its tag, None for an untagged one, and its bytes. Raises Ended at the end."""
        deadline = time.monotonic() + timeout
        while True:
            while self._peer[WRITTEN] != self._read:
                message = self._take_frame()
                if message is not None:
                    return message
            if self._ended or self._peer[STATE] & CLOSED:
                self._read_packets()
                if self._peer[WRITTEN] == self._read:
                    raise Ended("the connection is over")
                continue
            self._sleep(lambda: self._peer[WRITTEN] != self._read, deadline)

    def _bytes_at(self, position: int, length: int) -> bytes:
        start = position % self._peer_ring
        first = min(length, self._peer_ring - start)
        return self._peer_memory[PAGE + start : PAGE + start + first] + self._peer_memory[PAGE : PAGE + length - first]

    def _take_frame(self) -> tuple[int | None, bytes] | None:
        written = self._peer[WRITTEN]
        assert written % 16 == 0
        assert written - self._read <= self._peer_ring
        length, flags, tag = struct.unpack("<IIQ", self._bytes_at(self._read, 16))
        size = (16 + length + 15) // 16 * 16
        assert self._read + size <= written, "a frame is visible only as a whole"
        assert size <= self._peer_ring // 4
        payload = self._bytes_at(self._read + 16, length)
        self._read += size
        message = None
        if flags == RETIREMENT:
            assert length == 0
            self.retired.append(tag)
            self.regions.pop(tag).memory.close()
            if self._announced_early.get(tag):
                self.regions[tag] = self._announced_early[tag].pop(0)
        else:
            assert flags & ~(TAGGED | MORE | BODY) == 0, f"unknown flags {flags}"
            if flags & BODY and self._body_length is None:
                (self._body_length,) = struct.unpack_from("<Q", payload)
                payload = payload[8:]
            self._partial += payload
            if not flags & MORE:
                if self._body_length is not None:
                    assert len(self._partial) == self._body_length
                    self.bodies_by_value += 1
                message = (tag if flags & TAGGED else None, self._partial)
                self._partial, self._body_length = b"", None
        self._own[TAKEN] = self._read
        if message is not None:
            self._messages_read += 1
            self._own[MESSAGES_TAKEN] = self._messages_read
        self._read_packets()  # the region that the message names was announced before it
        self._answer()
        return message

    def close(self, *, orderly: bool = True) -> None:
        """Not `orderly`: as if this process had been killed."""
        if self.socket.fileno() < 0:
            return
        if orderly:
            self._own[STATE] |= CLOSED
            with contextlib.suppress(OSError):  # the peer was first
                self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self._own.release()
        self._peer.release()
        self._own_memory.close()
        self._peer_memory.close()
        for region in self.regions.values():
            region.memory.close()


def connect(path: str, role: int = BOTH) -> ShmCarrier:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        sock.settimeout(10)
        sock.connect(path)
        return ShmCarrier(sock, server=False, role=role)
    except BaseException:
        sock.close()
        raise
