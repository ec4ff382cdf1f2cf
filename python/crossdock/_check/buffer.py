"""Checks the buffer protocol by its C function, because memoryview tolerates too many errors."""

from __future__ import annotations

import ctypes
import struct
from ctypes import c_int, c_void_p, py_object
from math import prod

from crossdock._check import abi, memory
from crossdock._check.checker import Checker, View, collect, described, is_contiguous
from crossdock._text import quoted

SIMPLE, WRITABLE, FORMAT, ND, STRIDES, INDIRECT = 0, 0x1, 0x4, 0x8, 0x18, 0x118
FULL_RO = INDIRECT | FORMAT
FULL = FULL_RO | WRITABLE
MOST_DIMENSIONS = 64

_get = ctypes.PYFUNCTYPE(c_int, py_object, c_void_p, c_int)(("PyObject_GetBuffer", ctypes.pythonapi))
_release = ctypes.PYFUNCTYPE(None, c_void_p)(("PyBuffer_Release", ctypes.pythonapi))
_check = ctypes.PYFUNCTYPE(c_int, py_object)(("PyObject_CheckBuffer", ctypes.pythonapi))


def claimed(thing: object) -> bool:
    return bool(_check(thing))


class _Held:
    """A buffer that was requested from an object."""

    def __init__(self, thing: object, flags: int) -> None:
        self.info = abi.PyBuffer()
        if _get(thing, ctypes.addressof(self.info), flags) != 0:
            raise SystemError("getbuffer failed without an exception")

    def release(self) -> None:
        if self.info.obj:
            _release(ctypes.addressof(self.info))


def granted(thing: object) -> bool:
    """Returns whether the most general request succeeds: a type may have the protocol, and refuse it for an object."""
    try:
        _Held(thing, FULL_RO).release()
    except Exception:
        return False
    return True


def contiguous_bytes(thing: object) -> tuple[int, int, bool]:
    """Returns the address and the number of an object's bytes, and whether they are read-only. Raises the errors of the
    exporter."""
    held = _Held(thing, SIMPLE)
    try:
        return held.info.buf or 0, held.info.len, bool(held.info.readonly)
    finally:
        held.release()


def _examine(checker: Checker, info: abi.PyBuffer) -> View | None:
    """Checks a buffer that was requested with all its properties."""
    before = checker.errors
    if not info.obj:
        checker.add("buffer-obj", "obj is null, so nothing keeps the memory alive, and the buffer can't be released")
    code = memory.string(info.format) if info.format else b"B"
    size = None
    if code is not None:
        try:
            size = struct.calcsize(code.decode())
        except (struct.error, UnicodeDecodeError):
            size = info.itemsize  # The format extends the syntax of the module struct, as NumPy's formats do.
    if (info.itemsize <= 0 and info.len) or size is None or (info.format and size != info.itemsize):
        checker.add("buffer-itemsize", f"itemsize is {info.itemsize}, format {quoted(code)}, which has {size}")
    if info.len and not info.buf:
        checker.add("buffer-null", f"buf is null for {info.len} bytes")
    if not 0 <= info.ndim <= MOST_DIMENSIONS:
        checker.add("buffer-ndim", f"ndim is {info.ndim}")
        return None  # The length of shape and strides isn't known.
    shape: list[int] | None = []
    strides: list[int] | None = []
    if info.ndim:
        shape = memory.integers(info.shape, info.ndim) if info.shape else None
        strides = memory.integers(info.strides, info.ndim) if info.strides else None
        if shape is None or min(shape) < 0:
            checker.add("buffer-shape", f"shape is {shape and tuple(shape)} for ndim {info.ndim}")
            shape = None
        if strides is None:
            checker.add("buffer-strides", f"strides are not there for ndim {info.ndim}")
    given, steps = tuple(shape or ()), tuple(strides or ())
    if shape is not None and info.len != prod(given) * info.itemsize:
        checker.add(
            "buffer-len",
            f"len is {info.len}, shape {given} of {info.itemsize} bytes has {prod(given) * info.itemsize}",
        )
    if info.suboffsets or checker.errors != before:
        return None
    view = View(checker.protocol, info.buf or 0, given, steps, info.itemsize, bool(info.readonly))
    start, end = view.extent()
    if view.size and (start <= 0 or memory.read(start, 1) is None or memory.read(end - 1, 1) is None):
        checker.add("buffer-memory", f"{start:#x} to {end:#x} can't be read")
    return view


def check(checker: Checker) -> None:
    thing = checker.object()
    try:
        held = _Held(thing, FULL_RO)
    except BufferError:
        return
    except Exception as error:
        checker.add("buffer-raises", f"the request for everything raised {described(error)}")
        return
    view = _examine(checker, held.info)
    readonly = bool(held.info.readonly)
    _writable(checker, thing, readonly)
    if view is not None:
        checker.views.append(view)
        _simple(checker, thing, view)
    held.release()
    del thing, held
    if checker.fresh and view is not None and view.size:
        _lifetime(checker)


def _writable(checker: Checker, thing: object, readonly: bool) -> None:
    try:
        held = _Held(thing, FULL)
    except BufferError:
        if not readonly:
            checker.add(
                "buffer-writable", "the buffer is marked as writable, but a request for a writable buffer is refused"
            )
        return
    except Exception as error:
        checker.add("buffer-writable", f"the request to write raised {described(error)}")
        return
    if held.info.readonly:
        checker.add(
            "buffer-writable", "a request for a writable buffer returns a read-only one instead of raising BufferError"
        )
    elif readonly:
        checker.add(
            "buffer-readonly-varies",
            "the buffer is read-only by default, but writable if a writable buffer is requested",
        )
    held.release()


def _simple(checker: Checker, thing: object, view: View) -> None:
    try:
        held = _Held(thing, SIMPLE)
    except BufferError:
        return
    except Exception as error:
        checker.add("buffer-simple", f"the simplest request raised {described(error)}")
        return
    in_order = is_contiguous(view.shape, view.strides, view.itemsize) or is_contiguous(
        view.shape[::-1], view.strides[::-1], view.itemsize
    )
    if not in_order:
        checker.add("buffer-simple", f"strides {view.strides} of shape {view.shape} aren't contiguous, and go unsaid")
    elif held.info.len != view.size * view.itemsize:
        checker.add(
            "buffer-len", f"len is {held.info.len} in the simplest request, {view.size * view.itemsize} in full"
        )
    held.release()


def _lifetime(checker: Checker) -> None:
    thing = checker.object()
    try:
        held = _Held(thing, FULL_RO)
    except Exception:
        return
    view = _examine(Checker(None, None), held.info)
    start, end = view.extent() if view is not None else (0, 0)
    before = memory.checksum(start, end - start)
    del thing
    collect()
    if before is not None and memory.checksum(start, end - start) != before:
        checker.add("buffer-lifetime", "the memory changed, or went, with the object, while its buffer was held")
        return  # Not released, because it isn't known whether the buffer can still be released.
    held.release()
