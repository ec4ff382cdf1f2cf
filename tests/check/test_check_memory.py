"""What the checker reads and writes memory with: never a crash, whatever the address."""

from __future__ import annotations

import ctypes
import mmap
import os
import zlib

import pytest

from crossdock._check import abi, capsule, memory

WORDS = ctypes.create_string_buffer(b"one\0two\0" + b"x" * 9000)
AT = ctypes.addressof(WORDS)


@pytest.fixture(params=["kernel", "pipe"])
def way(request, monkeypatch):
    """Both ways of reading: the second is for sandboxes that forbid the first."""
    if request.param == "pipe":
        monkeypatch.setattr(memory, "_readv", None)


@pytest.mark.usefixtures("way")
def test_memory_is_read():
    assert memory.read(AT, 7) == b"one\0two"
    assert memory.read(AT, 9000) == WORDS.raw[:9000]
    assert memory.read(AT, 0) == b""
    assert memory.string(AT) == b"one"
    assert memory.string(AT + 8) == b"x" * 9000
    assert memory.checksum(AT, 7) == zlib.crc32(b"one\0two")
    numbers = (ctypes.c_int64 * 2)(-1, 5)
    assert memory.integers(ctypes.addressof(numbers), 2) == [-1, 5]
    assert memory.integers(ctypes.addressof(numbers), 1, 4, signed=False) == [(1 << 32) - 1]
    array = abi.ArrowArray(length=7)
    loaded = memory.load(abi.ArrowArray, ctypes.addressof(array))
    assert loaded is not None
    assert loaded.length == 7


@pytest.mark.usefixtures("way")
def test_what_is_no_memory_is_none():
    for address in (-1, 0, 1, 4095, (1 << 64) - 8, 1 << 64, 1 << 70, 0x7FFF_FFFF_F000):
        assert memory.read(address, 8) is None
        assert memory.string(address) is None
    assert memory.read(AT, -1) is None
    assert memory.load(abi.ArrowArray, None) is None
    with mmap.mmap(-1, 2 * mmap.PAGESIZE) as mapping:
        view = ctypes.c_char.from_buffer(mapping)
        start = ctypes.addressof(view)
        libc = ctypes.CDLL(None)
        assert libc.mprotect(ctypes.c_void_p(start + mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0
        assert memory.read(start, mmap.PAGESIZE) == bytes(mmap.PAGESIZE)
        assert memory.read(start, mmap.PAGESIZE + 1) is None, "the second page may not be read"
        mapping[: mmap.PAGESIZE] = b"y" * mmap.PAGESIZE
        assert memory.string(start) is None, "there is no end before what may not be read"
        assert libc.mprotect(ctypes.c_void_p(start), mmap.PAGESIZE, mmap.PROT_READ) == 0
        assert not memory.write(start, b"z"), "and this one not written"
        assert memory.read(start, 1) == b"y"
        del view


def test_memory_is_written():
    assert memory.write(AT + 100, b"abc")
    assert WORDS.raw[99:104] == b"xabcx"
    pointer = ctypes.c_void_p(3)
    assert memory.store_pointer(ctypes.addressof(pointer), 1 << 40)
    assert pointer.value == 1 << 40
    for address in (0, 64, (1 << 64) - 4):
        assert not memory.write(address, b"12345678")


def test_code_is_told_from_data():
    libc = ctypes.CDLL(None)
    assert memory.executable(ctypes.cast(libc.free, ctypes.c_void_p).value)
    assert memory.executable(ctypes.cast(ctypes.CFUNCTYPE(None)(os.getpid), ctypes.c_void_p).value)
    for address in (None, 0, 64, AT, (1 << 64) - 1):
        assert not memory.executable(address)


def test_a_spy_counts_and_calls_once():
    calls: list[int] = []
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda address: calls.append(address))
    array = abi.ArrowArray(release=ctypes.cast(release, ctypes.c_void_p))
    address, field = ctypes.addressof(array), abi.ArrowArray.release.offset
    before = array.release
    probe = capsule.CallbackProbe(address, field)
    assert probe.installed
    assert probe.intact
    for _ in range(3):
        abi.Release(array.release)(address)
    assert (probe.calls, calls) == (3, [address])
    assert probe.left_unmarked
    assert not probe.intact
    probe.remove()
    assert array.release == before
    array.release = 64
    assert not capsule.CallbackProbe(address, field).installed, "what can't be called isn't watched"
