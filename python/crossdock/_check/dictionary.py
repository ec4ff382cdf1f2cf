"""Checks `__cuda_array_interface__` and `__array_interface__`, which have similar dictionaries.

The checker of SYCL's interface, the third one, also uses the checks of single entries.
"""

from __future__ import annotations

import re
from math import prod
from typing import Any, TypeGuard

from crossdock._check import memory
from crossdock._check.checker import (
    Checker,
    View,
    attribute,
    contiguous,
    described,
    formatted,
    formatted_address,
    is_contiguous,
)

CUDA, NUMPY = "__cuda_array_interface__", "__array_interface__"
# The number of digits is limited, because Python raises ValueError for a number with thousands of digits.
_TYPESTR = re.compile(r"([<>|])([tbiufcmMOSUV])(\d{1,18})(\[\d*[a-zA-Zμ]+(?:/\d+)?\])?")
_SIZES = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8, 10, 12, 16), "c": (4, 8, 16, 20, 24, 32)}
_PREFIX = {CUDA: "cai", NUMPY: "array"}
LAST_CUDA_VERSION = 3
MOST_DIMENSIONS = 64
MOST_FIELDS, MOST_LEVELS = 4096, 16  # The limits of one descr. A larger one isn't meant seriously.


def is_integer(thing: object) -> bool:
    return isinstance(thing, int) and not isinstance(thing, bool)


def are_integers(thing: object) -> bool:
    return isinstance(thing, tuple) and all(map(is_integer, thing))


def are_extents(thing: object) -> TypeGuard[tuple[int, ...]]:
    """Returns whether `shape` is a valid shape: at most MOST_DIMENSIONS numbers of 64 bits, so that their product can
    be computed."""
    return (
        isinstance(thing, tuple)
        and len(thing) <= MOST_DIMENSIONS
        and are_integers(thing)
        and all(0 <= one < 1 << 63 for one in thing)
    )


def wrong_shape(shape: object) -> str:
    """Returns the message for a shape that are_extents() rejects."""
    if isinstance(shape, tuple) and len(shape) > MOST_DIMENSIONS:
        return f"shape has {len(shape)} dimensions"
    return f"shape is {formatted(shape)}"


def wrong_strides(strides: object, shape: tuple[int, ...] | None) -> str | None:
    """Checks strides, and their number if there is a shape. Returns a message, or None if they are right."""
    if strides is None:
        return None
    if not are_integers(strides) or (shape is not None and len(strides) != len(shape)):  # type: ignore[arg-type]
        return f"strides are {formatted(strides)}{'' if shape is None else f' for shape {formatted(shape)}'}"
    return None


def itemsize_of(typestr: object) -> int | None:
    """Returns the size of an element in bytes, or None if `typestr` isn't a valid typestr."""
    match = _TYPESTR.fullmatch(typestr) if isinstance(typestr, str) else None
    if match is None:
        return None
    kind, size = match[2], int(match[3])
    if kind in _SIZES and size not in _SIZES[kind]:
        return None
    if (kind in "mM") != (match[4] is not None) and match[4] is not None:
        return None
    if match[1] == "|" and kind in "iufc" and size > 1:
        return None  # This type needs a byte order.
    return size * 4 if kind == "U" else size


class _EndlessError(Exception):
    """A descr has more fields or levels than the limits allow."""


def _size_of_descr(descr: object, depth: int, left: list[int]) -> int | None:
    """Returns the bytes of one element, or None if `descr` isn't a valid descr. `left` holds the number of fields that
    may follow: a few lists that share items may expand to any number of fields."""
    if not isinstance(descr, list):
        return None
    if depth == MOST_LEVELS:
        raise _EndlessError(f"more than {MOST_LEVELS} levels")
    total = 0
    for field in descr:
        left[0] -= 1
        if left[0] < 0:
            raise _EndlessError(f"more than {MOST_FIELDS} fields, those of all levels counted")
        if not isinstance(field, tuple) or len(field) not in (2, 3):
            return None
        name, kind = field[0], field[1]
        if not isinstance(name, str) and not (isinstance(name, tuple) and len(name) == 2):
            return None
        size = _size_of_descr(kind, depth + 1, left) if isinstance(kind, list) else itemsize_of(kind)
        if size is None:
            return None
        if len(field) == 3:
            if not are_extents(field[2]):
                return None
            size *= prod(field[2])
        total += size
    return total


def wrong_descr(descr: object, typestr: object, itemsize: int | None, name: str = "descr") -> str | None:
    """Checks a descr against the typestr. Returns a message, or None if they agree or there is no descr.

    `name` is the name of the entry. If the typestr is invalid, `itemsize` is None and only the descr itself is checked.
    """
    if descr is None:
        return None
    try:
        size = _size_of_descr(descr, 0, [MOST_FIELDS])
    except _EndlessError as error:
        return f"{name} has {error}: {formatted(descr)}"
    if size is None:
        return f"{name} is {formatted(descr)}, not a list of (name, type[, shape])"
    if itemsize is None or not isinstance(typestr, str):
        return None
    if size != itemsize:
        return f"{name} has {size} bytes, typestr {formatted(typestr)} has {itemsize}"
    if isinstance(descr, list) and len(descr) == 1 and descr[0][0] == "" and typestr[1] != "V":
        if descr[0][1] != typestr and len(descr[0]) == 2:
            return f"{name} says {formatted(descr[0][1])}, typestr {formatted(typestr)}"
    elif typestr[1] != "V":
        return f"{name} has fields, and typestr {formatted(typestr)} isn't a structured type"
    return None


def is_address(data: object) -> TypeGuard[tuple[int, bool]]:
    """Returns whether `data` is a pair of an integer and a read-only flag. The integer may be no valid pointer."""
    return isinstance(data, tuple) and len(data) == 2 and is_integer(data[0]) and isinstance(data[1], bool)


class _Dictionary:
    def __init__(self, checker: Checker, attribute: str) -> None:
        self.checker, self.attribute = checker, attribute
        self.cuda = attribute == CUDA
        self.version = 0

    def add(self, rule: str, message: str) -> None:
        self.checker.add(f"{_PREFIX[self.attribute]}-{rule}", message)

    def examine(self, given: object) -> View | None:
        """Checks all entries. Returns the view that the dictionary describes, or None if a rule is broken."""
        checker, before = self.checker, self.checker.errors
        if not isinstance(given, dict):
            self.add("dict", f"{self.attribute} is {type(given).__name__}")
            return None
        given = dict(dict.items(given))  # reads the items as consumers in C do, even if a subclass overrides methods
        keys = ("shape", "typestr", "data", "version") if self.cuda else ("shape", "typestr", "version")
        missing = [key for key in keys if key not in given]
        if missing:
            self.add("missing", f"not there: {', '.join(missing)}")
        # Checks each entry by itself first, so that the report lists all errors at once.
        if "version" in given:
            with checker.checking_one():
                self._version(given["version"])
        shape: tuple[int, ...] | None = None
        itemsize: int | None = None
        if "shape" in given:
            with checker.checking_one():
                shape = self._shape(given["shape"])
        if "typestr" in given:
            with checker.checking_one():
                itemsize = self._type(given["typestr"])
        strided = False
        with checker.checking_one():
            problem = wrong_strides(given.get("strides"), shape)
            if problem:
                self.add("strides", problem)
            strided = problem is None
        with checker.checking_one():
            problem = wrong_descr(given.get("descr"), given.get("typestr"), itemsize)
            if problem:
                self.add("descr", problem)
        with checker.checking_one():
            self._mask(given.get("mask"), shape)
        if self.cuda:
            with checker.checking_one():
                self._stream(given.get("stream"))
        address: tuple[int, bool] | None = None
        with checker.checking_one():
            address = self._address(given)
        if shape is None or itemsize is None:
            return None
        if prod(shape) * itemsize >= 1 << 63:
            self.add("shape", f"shape {formatted(shape)} of {itemsize} bytes is more than 2^63 bytes")
            return None
        if address is None or not strided:
            return None
        view = self._view(address, shape, given.get("strides"), itemsize)
        return view if checker.errors == before else None

    def _shape(self, shape: Any) -> tuple[int, ...] | None:
        if are_extents(shape):
            return shape
        self.add("shape", wrong_shape(shape))
        return None

    def _version(self, version: object) -> None:
        right = is_integer(version) and (0 <= version <= LAST_CUDA_VERSION if self.cuda else version == 3)  # type: ignore[operator]
        if not right:
            self.add("version", f"version is {formatted(version)}")
        self.version = version if right else LAST_CUDA_VERSION  # type: ignore[assignment]

    def _type(self, typestr: object) -> int | None:
        itemsize = itemsize_of(typestr)
        if itemsize is None:
            self.add("typestr", f"typestr is {formatted(typestr)}")
        elif self.cuda and isinstance(typestr, str) and typestr[1] == "O":
            self.add("typestr", f"typestr is {formatted(typestr)}: Python objects can't be in memory of a GPU")
            return None
        return itemsize

    def _mask(self, mask: object, shape: tuple[int, ...] | None) -> None:
        if mask is None:
            return
        given = attribute(mask, self.attribute)
        masks: Any = given.get("shape") if isinstance(given, dict) else None
        if masks is None and not self.cuda and isinstance(mask, (bytes, bytearray, memoryview)):
            masks = memoryview(mask).shape
        if not are_integers(masks):
            self.add("mask", f"mask is {type(mask).__name__}, without a usable {self.attribute}")
            return
        # The mask may be broadcast to the array's shape.
        fits = shape is None or (
            len(masks) <= len(shape)
            and all(one in (1, other) for one, other in zip(reversed(masks), reversed(shape), strict=False))
        )
        if not fits:
            self.add("mask", f"the mask's shape {formatted(masks)} doesn't fit {formatted(shape)}")
        if isinstance(given, dict) and itemsize_of(given.get("typestr")) is None:
            self.add("mask", f"the mask's typestr is {formatted(given.get('typestr'))}")

    def _stream(self, stream: object) -> None:
        if stream is None:
            return
        if not is_integer(stream) or stream < 0:  # type: ignore[operator]
            self.add("stream", f"stream is {formatted(stream)}")
        elif stream == 0:
            self.add(
                "stream-zero", "stream is 0, which is ambiguous: use None (no stream), 1 or 2 (the default streams)"
            )

    def _address(self, given: dict[Any, Any]) -> tuple[int, bool] | None:
        """Returns the entry data, or None if it is invalid or if the memory is the object's buffer."""
        data = given.get("data")
        if data is None and (not self.cuda or "data" not in given):
            return None
        if not isinstance(data, tuple) and not self.cuda:
            try:
                memoryview(data).release()  # type: ignore[arg-type]
                return None
            except TypeError:
                pass
        if not is_address(data):
            self.add("data", f"data is {formatted(data)}")
            return None
        if not 0 <= data[0] < 1 << 64:
            self.add("data", f"the pointer is {formatted(data[0])}")
            return None
        return data

    def _view(self, address: tuple[int, bool], shape: tuple[int, ...], strides: Any, itemsize: int) -> View | None:
        pointer, readonly = address
        count = prod(shape)
        steps = contiguous(shape, itemsize) if strides is None else strides
        if self.cuda and self.version >= 2:
            if count == 0 and pointer:
                self.add("zero-size", f"the pointer is {pointer:#x} for an array without elements")
            if count and strides is not None and is_contiguous(shape, steps, itemsize):
                self.add(
                    "strides-contiguous",
                    f"strides {formatted(strides)} of shape {formatted(shape)} are those of C order, which is None",
                )
        if count and itemsize and not pointer:
            self.add("null-pointer", f"the pointer is 0 for {count} elements")
            return None
        view = View(self.checker.protocol, pointer, shape, steps, itemsize, readonly, device=None if self.cuda else 1)
        start, end = view.extent()
        if count and itemsize:
            if not 0 < start < end <= 1 << 64:
                self.add(
                    "extent",
                    f"elements lie from {formatted_address(start)} to {formatted_address(end)} "
                    f"by strides {formatted(steps)}",
                )
                return None
            if not self.cuda and (memory.read(start, 1) is None or memory.read(end - 1, 1) is None):
                self.add("memory", f"{start:#x} to {end:#x} can't be read")
        return view


def check(checker: Checker, attribute: str) -> None:
    thing = checker.object()
    it = _Dictionary(checker, attribute)
    try:
        given = getattr(thing, attribute)
    except Exception as error:
        it.add("raises", f"{attribute} raised {described(error)}")
        return
    view = it.examine(given)
    if view is not None:
        checker.views.append(view)
