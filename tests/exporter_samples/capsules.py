"""What the exporters here share: capsules made by ctypes, what is kept alive for consumers, the list of wrong ones."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from ctypes import c_char_p, c_int, c_void_p, py_object
from typing import Any, NamedTuple

ALIVE: dict[int, Any] = {}
"""By a number that the consumer's structure carries: what is released takes its entry out."""
_numbers = itertools.count(1)


def keep(*things: Any) -> int:
    number = next(_numbers)
    ALIVE[number] = things
    return number


def _api(name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


# A dying capsule is an address only: a reference to it would bring it back to life.
Destructor = ctypes.PYFUNCTYPE(None, c_void_p)
_new = _api("PyCapsule_New", py_object, c_void_p, c_char_p, c_void_p)
_is_valid = _api("PyCapsule_IsValid", c_int, c_void_p, c_char_p)
_pointer = _api("PyCapsule_GetPointer", c_void_p, c_void_p, c_char_p)


def capsule(address: int, name: bytes, destructor: Any) -> object:
    """`name` and `destructor` are to live as long as the module."""
    return _new(address, name, ctypes.cast(destructor, c_void_p))


def pointer(dying: int, name: bytes) -> int | None:
    """None when the capsule isn't, or is no longer, named so."""
    return _pointer(dying, name) if _is_valid(dying, name) else None


class Wrong(NamedTuple):
    rule: str
    says: str
    make: Callable[[], object]
    once: bool
    """Whether it shows with a single object, too."""


WRONG: list[Wrong] = []
RIGHT: list[Callable[[], object]] = []


def right(make: Any) -> Any:
    RIGHT.append(make)
    return make


def breaks(rule: str, says: str, *, once: bool = True) -> Callable[[Any], Any]:
    """The exporter breaks this one rule of ours, and what the text says, in short."""

    def register(make: Any) -> Any:
        WRONG.append(Wrong(rule, says, make, once))
        return make

    return register
