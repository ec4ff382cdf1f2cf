"""Exporters of the buffer protocol: types made through PyType_FromSpec, with a getbuffer that ctypes calls back."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int, c_ssize_t, c_uint, c_void_p
from typing import Any

from tests.exporter_samples.capsules import breaks, right

GETBUFFER, FINALIZE = 1, 80  # Py_bf_getbuffer and Py_tp_finalize, of typeslots.h.
WRITABLE, FORMAT, ND, STRIDES = 0x1, 0x4, 0x8, 0x18


class Info(ctypes.Structure):
    _fields_ = (
        ("buf", c_void_p),
        ("obj", c_void_p),
        ("len", c_ssize_t),
        ("itemsize", c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_void_p),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("suboffsets", c_void_p),
        ("internal", c_void_p),
    )


class _Slot(ctypes.Structure):
    _fields_ = (("slot", c_int), ("function", c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (("name", c_char_p), ("basicsize", c_int), ("itemsize", c_int), ("flags", c_uint), ("slots", c_void_p))


Finalize = ctypes.PYFUNCTYPE(None, c_void_p)
GetBuffer = ctypes.PYFUNCTYPE(c_int, c_void_p, c_void_p, c_int)
_from_spec = ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p)(("PyType_FromSpec", ctypes.pythonapi))
_inc = ctypes.PYFUNCTYPE(None, c_void_p)(("Py_IncRef", ctypes.pythonapi))
FOREVER: list[Any] = []


def buffer_type(change: Any = None, *, dies: bool = False) -> Any:
    """A type of three writable int32; `change(info, flags)` is done to what a consumer gets.

    With `dies`, the memory is another's once the object is gone.
    """
    memory = (ctypes.c_int32 * 3)()
    shape, strides = (c_ssize_t * 1)(3), (c_ssize_t * 1)(4)
    code = ctypes.create_string_buffer(b"i")

    def get(thing: int, out: int, flags: int) -> int:
        info = Info.from_address(out)
        memory[:] = [1, 2, 3]
        info.buf, info.obj, info.len, info.itemsize = ctypes.addressof(memory), thing, 12, 4
        info.readonly, info.ndim = 0, 1
        info.format = ctypes.addressof(code) if flags & FORMAT else None
        info.shape = ctypes.addressof(shape) if flags & ND else None
        info.strides = ctypes.addressof(strides) if flags & STRIDES == STRIDES else None
        info.suboffsets = info.internal = None
        if change is not None:
            refused = change(info, flags)
            if refused:
                return -1
        if info.obj:
            _inc(info.obj)
        return 0

    function, last = GetBuffer(get), Finalize(lambda _: memory.__setitem__(0, -1))
    slots = (_Slot * 3)((GETBUFFER, ctypes.cast(function, c_void_p)))
    if dies:
        slots[1].slot, slots[1].function = FINALIZE, ctypes.cast(last, c_void_p).value
    spec = _Spec(b"wrong.Buffer", 16, 0, 1 << 18, ctypes.addressof(slots))
    FOREVER.append((function, last, slots, spec, memory, shape, strides, code))
    return _from_spec(ctypes.addressof(spec))


FALLING, NOWHERE = (c_ssize_t * 1)(-3), (c_ssize_t * 1)(8)
DOUBLES = ctypes.create_string_buffer(b"d")
right(buffer_type())


def wrong(rule: str, says: str, **members: Any) -> None:
    def change(info: Info, flags: int) -> None:
        for name, value in members.items():
            setattr(info, name, value)

    breaks(rule, says)(buffer_type(change))


wrong("buffer-obj", "obj is the exporter, with a reference", obj=None)
wrong("buffer-null", "buf is null only for length zero", buf=None)
wrong("buffer-len", "len is the product of shape times itemsize", len=16)
wrong("buffer-ndim", "ndim is 64 at most", ndim=65)
wrong("buffer-memory", "buf points to memory", buf=64)


@lambda change: breaks("buffer-itemsize", "itemsize is that of format")(buffer_type(change))
def format_of_doubles(info: Info, flags: int) -> None:
    if flags & FORMAT:
        info.format = ctypes.addressof(DOUBLES)


@lambda change: breaks("buffer-shape", "shape isn't negative")(buffer_type(change))
def falling_shape(info: Info, flags: int) -> None:
    if flags & ND:
        info.shape = ctypes.addressof(FALLING)


@lambda change: breaks("buffer-shape", "who asks for a shape gets it")(buffer_type(change))
def no_shape(info: Info, flags: int) -> None:
    info.shape = None


@lambda change: breaks("buffer-strides", "who asks for strides gets them")(buffer_type(change))
def no_strides(info: Info, flags: int) -> None:
    info.strides = None


SIX = (ctypes.c_int32 * 6)()


@lambda change: breaks("buffer-simple", "who can't take strides isn't given what needs them")(buffer_type(change))
def steps_unsaid(info: Info, flags: int) -> None:
    info.buf = ctypes.addressof(SIX)
    if flags & STRIDES == STRIDES:
        info.strides = ctypes.addressof(NOWHERE)


@lambda change: breaks("buffer-writable", "who asks for a writable buffer gets one, or BufferError")(
    buffer_type(change)
)
def read_only_for_writers(info: Info, flags: int) -> None:
    info.readonly = 1


@lambda change: breaks("buffer-readonly-varies", "readonly is the same for all consumers")(buffer_type(change))
def writable_on_request(info: Info, flags: int) -> None:
    info.readonly = 0 if flags & WRITABLE else 1


def _owned_by_none(info: Info, flags: int) -> None:
    info.obj = id(None)


def _fails(info: Info, flags: int) -> bool:
    info.obj = None
    return True


breaks("buffer-lifetime", "obj keeps the memory", once=False)(buffer_type(_owned_by_none, dies=True))
breaks("buffer-raises", "a request that can't be granted raises BufferError")(buffer_type(_fails))


@lambda change: breaks("buffer-len", "len is the same, however much is asked for")(buffer_type(change))
def shorter_in_short(info: Info, flags: int) -> None:
    if flags == 0:
        info.len = 8
