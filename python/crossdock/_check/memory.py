"""Reads and writes memory at foreign addresses, without a crash if the memory isn't mapped.

The kernel copies the bytes, and returns EFAULT where a plain load would end the process. Only host memory is accessed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import zlib
from ctypes import c_size_t, c_ssize_t, c_ulong, c_void_p
from typing import TypeVar

_PAGE = 4096
LONGEST_STRING = 1 << 20
HEAD = 1 << 20  # The most bytes of a buffer to read.

Struct = TypeVar("Struct", bound=ctypes.Structure)


class _Span(ctypes.Structure):
    _fields_ = (("base", c_void_p), ("size", c_size_t))


_libc = ctypes.CDLL(None, use_errno=True)
_write = _libc.write
_write.restype, _write.argtypes = c_ssize_t, (ctypes.c_int, c_void_p, c_size_t)
_read = _libc.read
_read.restype, _read.argtypes = c_ssize_t, (ctypes.c_int, c_void_p, c_size_t)
_readv = getattr(_libc, "process_vm_readv", None)
if _readv is not None:
    _readv.restype = c_ssize_t
    _readv.argtypes = (ctypes.c_int, c_void_p, c_ulong, c_void_p, c_ulong, c_ulong)


def _sane(address: int, size: int) -> bool:
    return address > 0 and size >= 0 and address + size <= 1 << 64


def _read_by_pipe(address: int, size: int) -> bytes | None:
    """Implements read() for sandboxes that forbid process_vm_readv."""
    reader, writer = os.pipe()
    try:
        parts = []
        for at in range(address, address + size, _PAGE):
            count = min(_PAGE, address + size - at)
            if _write(writer, at, count) != count:
                return None
            parts.append(os.read(reader, count))
        return b"".join(parts)
    finally:
        os.close(reader)
        os.close(writer)


def read(address: int, size: int) -> bytes | None:
    """Returns `size` bytes at `address`, or None if not all of them can be read."""
    if size == 0:
        return b""
    if not _sane(address, size):
        return None
    if _readv is None:
        return _read_by_pipe(address, size)
    into = ctypes.create_string_buffer(size)
    here, there = _Span(ctypes.addressof(into), size), _Span(address, size)
    got = _readv(os.getpid(), ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    if got < 0 and ctypes.get_errno() in (errno.ENOSYS, errno.EPERM):
        return _read_by_pipe(address, size)
    return into.raw if got == size else None


def write(address: int, data: bytes) -> bool:
    """Writes `data` to `address`. Returns whether that succeeded."""
    if not _sane(address, len(data)) or len(data) > _PAGE:
        return False
    reader, writer = os.pipe()
    try:
        os.write(writer, data)
        return bool(_read(reader, address, len(data)) == len(data))
    finally:
        os.close(reader)
        os.close(writer)


def load(kind: type[Struct], address: int | None) -> Struct | None:
    """Returns a copy of the structure at `address`, or None if it can't be read."""
    data = read(address, ctypes.sizeof(kind)) if address else None
    return None if data is None else kind.from_buffer_copy(data)


def pointer_at(address: int) -> int | None:
    data = read(address, ctypes.sizeof(c_void_p))
    return None if data is None else int.from_bytes(data, "little")


def store_pointer(address: int, value: int) -> bool:
    return write(address, value.to_bytes(ctypes.sizeof(c_void_p), "little"))


def integers(address: int, count: int, width: int = 8, *, signed: bool = True) -> list[int] | None:
    """Returns `count` integers of `width` bytes, or None if they can't be read."""
    data = read(address, count * width)
    if data is None:
        return None
    code = {1: "b", 2: "h", 4: "i", 8: "q"}[width]
    return memoryview(data).cast(code if signed else code.upper()).tolist()  # type: ignore[call-overload, no-any-return]


def string(address: int) -> bytes | None:
    """Returns the bytes up to the first zero, or None if no zero can be reached."""
    found = b""
    while len(found) < LONGEST_STRING:
        piece = read(address, _PAGE - address % _PAGE)  # Reads page by page: the next page may not be mapped.
        if piece is None:
            return None
        end = piece.find(0)
        if end >= 0:
            return found + piece[:end]
        found += piece
        address += len(piece)
    return None


def checksum(address: int, size: int) -> int | None:
    """Returns the checksum of the first bytes, HEAD at most, or None if they can't be read."""
    data = read(address, min(size, HEAD))
    return None if data is None else zlib.crc32(data)


_executable: list[tuple[int, int]] = []


def executable(address: int | None) -> bool:
    """Returns whether `address` may be called: whether it is in executable memory."""
    if not address:
        return False
    if any(start <= address < end for start, end in _executable):
        return True
    found = []
    try:
        with open("/proc/self/maps") as maps:
            for line in maps:
                span, permissions, _ = line.split(" ", 2)
                if "x" in permissions:
                    start, _, end = span.partition("-")
                    found.append((int(start, 16), int(end, 16)))
    except OSError:
        return True  # It can't be found out.
    _executable[:] = found
    return any(start <= address < end for start, end in found)
