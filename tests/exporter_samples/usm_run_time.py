"""Exporters of `__sycl_usm_array_interface__` that a SYCL run time is needed to find out: on dpctl's own memory.

dpctl is imported by who makes one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.exporter_samples.capsules import Wrong

WRONG: list[Wrong] = []
RIGHT: list[Callable[[], object]] = []
CONTEXTS = ("queue", "context", "filter", "queue capsule", "context capsule", "holder")
_HOST = ctypes.create_string_buffer(4096)


def _right(make: Any) -> Any:
    RIGHT.append(make)
    return make


def _breaks(rule: str, says: str) -> Callable[[Any], Any]:
    def register(make: Any) -> Any:
        WRONG.append(Wrong(rule, says, make, True))
        return make

    return register


class Floats:
    """Two by three floats in a dpctl allocation."""

    kind = "device"
    context = "queue"
    size = 24
    foreign = False
    """Whether the syclobj is of another context than the memory's."""

    def __init__(self) -> None:
        import dpctl
        import dpctl.memory

        self.queue = dpctl.SyclQueue("cpu")
        kinds = {
            "device": dpctl.memory.MemoryUSMDevice,
            "shared": dpctl.memory.MemoryUSMShared,
            "host": dpctl.memory.MemoryUSMHost,
        }
        self.memory = kinds[self.kind](self.size, queue=self.queue)
        self.named = self.queue
        if self.foreign:
            device = self.queue.sycl_device
            # Of a list of one: of the device itself it would be the default context.
            self.named = dpctl.SyclQueue(dpctl.SyclContext([device]), device)

    def syclobj(self) -> Any:
        match self.context:
            case "queue":
                return self.named
            case "context":
                return self.named.sycl_context
            case "filter":
                return "cpu"
            case "queue capsule":
                return self.named._get_capsule()
            case "context capsule":
                return self.named.sycl_context._get_capsule()
            case _:
                return type("Holder", (), {"_get_capsule": lambda _: self.named._get_capsule()})()

    @property
    def pointer(self) -> int:
        return int(self.memory.__sycl_usm_array_interface__["data"][0])

    @property
    def __sycl_usm_array_interface__(self) -> Any:
        interface = {
            "shape": (2, 3),
            "typestr": "<f4",
            "data": (self.pointer, False),
            "version": 1,
            "syclobj": self.syclobj(),
        }
        return interface | self.changed()

    def changed(self) -> dict[str, Any]:
        return {}


def _floats(name: str, **attributes: Any) -> Any:
    return type(name, (Floats,), attributes)


for _kind in ("device", "shared", "host"):
    _right(_floats(f"In{_kind.capitalize()}Memory", kind=_kind))
for _context in CONTEXTS:
    _right(_floats(f"By{_context.title().replace(' ', '')}", context=_context))
for _context in CONTEXTS:
    if _context != "filter":
        _breaks("usm-pointer", "the pointer is bound to the context")(
            _floats(f"OfAnother{_context.title().replace(' ', '')}", context=_context, foreign=True)
        )


@_right
class Backwards(Floats):
    def changed(self) -> dict[str, Any]:
        return {"strides": (-3, -1), "offset": 5}


@_right
class InTheMiddle(Floats):
    size = 4096

    def changed(self) -> dict[str, Any]:
        return {"strides": (12, 4), "offset": 100}


@_right
class Empty(Floats):
    def changed(self) -> dict[str, Any]:
        return {"shape": (0, 3), "data": (0, False)}


@_breaks("usm-pointer", "ordinary memory is no USM memory")
class OrdinaryMemory(Floats):
    def changed(self) -> dict[str, Any]:
        return {"data": (ctypes.addressof(_HOST), False)}


@_breaks("usm-pointer", "a pointer is nothing made up")
class MadeUp(Floats):
    def changed(self) -> dict[str, Any]:
        return {"data": (0x1000, False)}


@_breaks("usm-bounds", "the array ends where the memory ends")
class TooLong(Floats):
    def changed(self) -> dict[str, Any]:
        return {"shape": (1 << 30,)}


@_breaks("usm-bounds", "the array starts where the memory starts")
class TooEarly(Floats):
    def changed(self) -> dict[str, Any]:
        return {"offset": -(1 << 30)}


@_breaks("usm-bounds", "strides count elements, not bytes")
class StridesInBytes(Floats):
    size = 4 << 20

    def changed(self) -> dict[str, Any]:
        return {"shape": (1024, 1024), "strides": (4096, 4)}


@_breaks("usm-filter", "the device is there")
class OnNoDevice(Floats):
    def changed(self) -> dict[str, Any]:
        return {"syclobj": "cpu:99"}


class _Bytes(np.ndarray):
    """A buffer of where the floats lie, which on a CPU can be had."""

    floats: Any

    @property
    def __sycl_usm_array_interface__(self) -> Any:
        return self.floats.__sycl_usm_array_interface__ | {"shape": (24,), "typestr": "|u1"}


def _shown(memory: str) -> Any:
    def make() -> object:
        floats = _floats("Hidden", kind=memory)()
        shown = np.frombuffer((ctypes.c_uint8 * 24).from_address(floats.pointer), "u1").view(_Bytes)
        shown.floats = floats
        return shown

    return make


_breaks("usm-device-buffer", "memory that the host can't read has no buffer")(_shown("device"))
_right(_shown("shared"))
_right(_shown("host"))
