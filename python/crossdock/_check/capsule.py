"""Access to foreign PyCapsules, and a probe that replaces callbacks that free memory."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_void_p, py_object
from typing import Any

from crossdock._check import abi, memory


def _api(name: str, result: Any, *arguments: Any) -> Any:
    # Makes a new function object: the attributes of pythonapi are shared with other code, which sets other types.
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_get_name = _api("PyCapsule_GetName", c_void_p, py_object)
_set_name = _api("PyCapsule_SetName", c_int, py_object, c_void_p)
_get_pointer = _api("PyCapsule_GetPointer", c_void_p, py_object, c_void_p)
_new = _api("PyCapsule_New", py_object, c_void_p, c_void_p, c_void_p)

# A capsule holds the address of its name, so these names live as long as the process.
_USED = {name: ctypes.create_string_buffer(b"used_" + name) for name in (b"dltensor", b"dltensor_versioned")}
_PROBE = ctypes.create_string_buffer(b"probe")
CapsuleType = type(_new(ctypes.addressof(_PROBE), ctypes.addressof(_PROBE), None))


# Some exporters free a structure by their own function, not by the callback, which the probe can't see. Then a later
# structure gets the same address. If this many structures all have different addresses, the exporter leaks them.
TRIES = 16


def is_capsule(thing: object) -> bool:
    return type(thing) is CapsuleType


def name_of(capsule: object) -> bytes | None:
    """Returns the name of a capsule, or None if it has none or one that can't be read."""
    address = _get_name(capsule)
    return memory.string(address) if address else None


def pointer_of(capsule: object) -> int:
    return int(_get_pointer(capsule, _get_name(capsule)))


def mark_used(capsule: object, name: bytes) -> None:
    """Renames a capsule as a consumer does."""
    _set_name(capsule, ctypes.addressof(_USED[name]))


class CallbackProbe:
    """Replaces the callback in a structure. Counts the calls, and calls the original callback at the first.

    `address` is the structure, which the callback gets as its argument, and `field` the offset of the callback in it.
    DLPack's deleters free the structure itself: with `frees_itself`, the probe doesn't read the structure afterwards.
    """

    def __init__(self, address: int, field: int, *, frees_itself: bool = False) -> None:
        self.calls = 0
        self.left_unmarked = False
        self._address, self._field, self._frees_itself = address, field, frees_itself
        self._original = memory.pointer_at(address + field) or 0
        self.installed = bool(
            memory.executable(self._original) and memory.store_pointer(address + field, _callback_address)
        )
        self._before = memory.read(address, field + 8)
        if self.installed:
            _live[address] = self

    @property
    def intact(self) -> bool:
        """True if the callback wasn't called and the structure is unchanged. It may have been freed nevertheless."""
        return self.calls == 0 and memory.read(self._address, self._field + 8) == self._before

    def called(self) -> None:
        self.calls += 1
        if self.calls == 1:
            abi.Release(self._original)(self._address)
            if not self._frees_itself:
                self.left_unmarked = memory.pointer_at(self._address + self._field) != 0

    def remove(self) -> None:
        """Restores the original callback. The structure must still exist."""
        if _live.get(self._address) is self:
            del _live[self._address]
            memory.store_pointer(self._address + self._field, self._original)


# The installed probes, by address. A probe that isn't called stays forever: a leaked structure still has its callback.
_live: dict[int, CallbackProbe] = {}


def _called(address: int | None) -> None:
    probe = _live.get(address or 0)
    if probe is not None:
        probe.called()


_callback = ctypes.CFUNCTYPE(None, c_void_p)(_called)
_callback_address = ctypes.cast(_callback, c_void_p).value or 0
