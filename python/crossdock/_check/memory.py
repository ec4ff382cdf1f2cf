"""Reading and writing memory that others say is there, without a crash where it isn't.

The kernel copies, and says EFAULT where a plain load would end the process. Only host memory is ever asked for.
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
HEAD = 1 << 20  # Of a buffer so many bytes are looked at.

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
    """Where the sandbox forbids process_vm_readv."""
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
    """`size` bytes at `address`; None where not all of them can be read."""
    if not _sane(address, size):
        return b"" if size == 0 else None
    if size == 0:
        return b""
    if _readv is None:
        return _read_by_pipe(address, size)
    into = ctypes.create_string_buffer(size)
    here, there = _Span(ctypes.addressof(into), size), _Span(address, size)
    got = _readv(os.getpid(), ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    if got < 0 and ctypes.get_errno() in (errno.ENOSYS, errno.EPERM):
        return _read_by_pipe(address, size)
    return into.raw if got == size else None


def write(address: int, data: bytes) -> bool:
    """Whether `data` could be written to `address`."""
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
    """A copy of the structure at `address`."""
    data = read(address, ctypes.sizeof(kind)) if address else None
    return None if data is None else kind.from_buffer_copy(data)


def pointer_at(address: int) -> int | None:
    data = read(address, ctypes.sizeof(c_void_p))
    return None if data is None else int.from_bytes(data, "little")


def store_pointer(address: int, value: int) -> bool:
    return write(address, value.to_bytes(ctypes.sizeof(c_void_p), "little"))


def integers(address: int, count: int, width: int = 8, *, signed: bool = True) -> list[int] | None:
    """`count` integers of `width` bytes."""
    data = read(address, count * width)
    if data is None:
        return None
    code = {1: "b", 2: "h", 4: "i", 8: "q"}[width]
    return memoryview(data).cast(code if signed else code.upper()).tolist()  # type: ignore[call-overload, no-any-return]


def string(address: int) -> bytes | None:
    """The bytes up to the first zero; None where there is none that can be read."""
    found = b""
    while len(found) < LONGEST_STRING:
        piece = read(address, _PAGE - address % _PAGE)  # Never past a page that may be the last one.
        if piece is None:
            return None
        end = piece.find(0)
        if end >= 0:
            return found + piece[:end]
        found += piece
        address += len(piece)
    return None


def checksum(address: int, size: int) -> int | None:
    """Of the first bytes, HEAD at most; None where they can't be read."""
    data = read(address, min(size, HEAD))
    return None if data is None else zlib.crc32(data)


_executable: list[tuple[int, int]] = []


def executable(address: int | None) -> bool:
    """Whether `address` may be called: whether it lies in memory that holds code."""
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
        return True  # No way to know.
    _executable[:] = found
    return any(start <= address < end for start, end in found)
