"""Checks `__sycl_usm_array_interface__`, a similar dictionary for memory of a SYCL context."""

from __future__ import annotations

import re
from math import prod
from typing import Any

from crossdock._check import buffer, capsule, sycl
from crossdock._check.checker import (
    Checker,
    View,
    attribute,
    contiguous,
    described,
    formatted,
    formatted_address,
)
from crossdock._check.dictionary import (
    are_extents,
    is_address,
    is_integer,
    itemsize_of,
    wrong_descr,
    wrong_shape,
    wrong_strides,
)
from crossdock._text import quoted

ATTRIBUTE = "__sycl_usm_array_interface__"
_KEYS = ("shape", "typestr", "version", "syclobj")
_VERSION = 1
_BACKENDS = "opencl|level_zero|cuda|hip|native_cpu"
_KINDS = "cpu|gpu|accelerator"
_FILTER = re.compile(
    rf"(?:{_BACKENDS})(?::(?:{_KINDS}))?(?::\d+)?|(?:{_KINDS})(?::\d+)?|\d+"  # An omitted part has no colon.
)
_NAMES = (sycl.CONTEXT, sycl.QUEUE)
_SAMPLES = 64  # The number of addresses in an array to ask about, between its first and last byte.


def _ordered(typestr: object) -> object:
    """Replaces dpctl's `|` in a typestr. dpctl writes it for every type, also for types with a byte order; then the
    machine's order is meant."""
    if isinstance(typestr, str) and typestr[:1] == "|" and itemsize_of(typestr) is None:
        ordered = "<" + typestr[1:]
        if itemsize_of(ordered) is not None:
            return ordered
    return typestr


class _Interface:
    def __init__(self, checker: Checker, thing: object) -> None:
        self.checker, self.thing = checker, thing

    def add(self, rule: str, message: str) -> None:
        self.checker.add(f"usm-{rule}", message)

    def examine(self, given: object) -> None:
        checker, before = self.checker, self.checker.errors
        if not isinstance(given, dict):
            self.add("dict", f"{ATTRIBUTE} is {type(given).__name__}")
            return
        given = dict(dict.items(given))  # reads the items as consumers in C do, even if a subclass overrides methods
        missing = [key for key in _KEYS if key not in given]
        if "data" not in given and not buffer.claimed(self.thing):
            missing.append("data")
        if missing:
            self.add("missing", f"not there: {', '.join(missing)}")
        # Checks each entry by itself first, so that the report lists all errors at once.
        if "version" in given:
            with checker.checking_one():
                version = given["version"]
                if not is_integer(version) or version != _VERSION:
                    self.add("version", f"version is {formatted(version)}")
        context = None
        if "syclobj" in given:
            with checker.checking_one():
                context = self._syclobj(given["syclobj"])
        view = self._view(given)
        if view is None or checker.errors != before:
            return
        if context is not None:
            self._located(view, context, given)
        # If a buffer replaces data, it only has bytes, while the dictionary has shape and type: the view can't be
        # compared with the buffer's own view.
        if "data" in given or any(one.protocol != "buffer" for one in checker.views):
            checker.views.append(view)

    # ---- the array

    def _view(self, given: dict[Any, Any]) -> View | None:
        """Returns None if an entry that says where the elements are is wrong or missing."""
        checker = self.checker
        shape, strides, offset = given.get("shape"), given.get("strides"), given.get("offset", 0)
        itemsize: int | None = None
        known: tuple[int, ...] | None = None
        if "shape" in given:
            with checker.checking_one():
                if are_extents(shape):
                    known = shape
                else:
                    self.add("shape", wrong_shape(shape))
        with checker.checking_one():
            itemsize = self._type(given.get("typestr"), given.get("typedescr"), there="typestr" in given)
        placed = False
        with checker.checking_one():
            problem = wrong_strides(strides, known)
            if problem:
                self.add("strides", problem)
            placed = problem is None
        with checker.checking_one():
            if not is_integer(offset):
                self.add("offset", f"offset is {formatted(offset)}")
                placed = False
        address: tuple[int, bool | None] | None = None
        if "data" in given:
            with checker.checking_one():
                address = self._address(given["data"])
        if known is None or itemsize is None:
            return None
        if prod(known) * itemsize >= 1 << 63:
            self.add("shape", f"shape {formatted(known)} of {itemsize} bytes is more than 2^63 bytes")
            return None
        if not placed:
            return None
        steps = contiguous(known, itemsize) if strides is None else tuple(step * itemsize for step in strides)
        if address is not None:
            return self._data(address, known, steps, itemsize, offset)
        if "data" in given or not buffer.claimed(self.thing):
            return None
        return self._buffer(known, steps, itemsize, offset)

    def _type(self, typestr: object, descr: object, *, there: bool) -> int | None:
        ordered = _ordered(typestr)
        itemsize = itemsize_of(ordered)
        if itemsize is None or not isinstance(ordered, str):
            if there:
                self.add("typestr", f"typestr is {formatted(typestr)}")
            itemsize = None
        elif ordered[1] == "O":
            self.add("typestr", f"typestr is {formatted(typestr)}: Python objects don't live in USM memory")
            itemsize = None
        elif ordered != typestr:
            self.add(
                "typestr-order",
                f"typestr is {formatted(typestr)}, without the order of {itemsize} bytes, as in {formatted(ordered)}",
            )
        match descr:
            case [(name, kind)]:
                descr = [(name, _ordered(kind))]
        problem = wrong_descr(descr, ordered, itemsize, "typedescr")
        if problem:
            self.add("typedescr", problem)
        return itemsize

    def _address(self, data: Any) -> tuple[int, bool | None] | None:
        """Returns the pointer, and whether the memory is read-only (None: unknown). Returns None for invalid data."""
        if not is_address(data) or not 0 <= data[0] < 1 << 64:
            self.add("data", f"data is {formatted(data)}")
            return None
        if not sycl.is_a(self.thing, "Memory"):
            return data
        if data[1]:
            self.add(
                "read-only-unsure", "data is marked as read-only; dpctl.memory always does this, so it isn't checked"
            )
        return data[0], None

    def _data(
        self,
        address: tuple[int, bool | None],
        shape: tuple[int, ...],
        steps: tuple[int, ...],
        itemsize: int,
        offset: int,
    ) -> View | None:
        pointer, readonly = address
        if prod(shape) * itemsize and not pointer:
            self.add("null-pointer", f"the pointer is 0 for {prod(shape)} elements")
            return None
        start = pointer + offset * itemsize if pointer else 0
        view = View(self.checker.protocol, start, shape, steps, itemsize, readonly, device=None)
        first, end = view.extent()
        if view.size and itemsize and not 0 < first < end <= 1 << 64:
            self.add(
                "extent",
                f"elements lie from {formatted_address(first)} to {formatted_address(end)} "
                f"by strides {formatted(steps)} in bytes, "
                f"offset {formatted(offset)}",
            )
            return None
        return view

    def _buffer(self, shape: tuple[int, ...], steps: tuple[int, ...], itemsize: int, offset: int) -> View | None:
        try:
            pointer, size, readonly = buffer.contiguous_bytes(self.thing)
        except Exception as error:
            self.add("buffer", f"data isn't there, and the buffer raised {described(error)}")
            return None
        view = View(self.checker.protocol, pointer + offset * itemsize, shape, steps, itemsize, readonly, device=None)
        first, end = (one - pointer for one in view.extent())
        if view.size and not 0 <= first <= end <= size:
            self.add(
                "buffer",
                f"elements lie from byte {formatted(first)} to byte {formatted(end)} of a buffer of {size} bytes",
            )
            return None
        return view

    # ---- the context

    def _syclobj(self, syclobj: Any) -> Any:
        """Checks `syclobj`. Returns an object that stands for the context, to ask the run time with, or None if nothing
        more can be checked."""
        if isinstance(syclobj, str):
            return self._filter(syclobj)
        if sycl.is_a(syclobj, "SyclContext") or sycl.is_a(syclobj, "SyclQueue"):
            return syclobj
        if capsule.is_capsule(syclobj):
            again = attribute(self.thing, ATTRIBUTE)
            if isinstance(again, dict) and again.get("syclobj") is syclobj:
                self.add("capsule-shared", "the next reading gives the same capsule")
            return self._capsule(syclobj)
        get_capsule = attribute(syclobj, "_get_capsule")
        if get_capsule is None:
            self.add("syclobj", f"syclobj is {type(syclobj).__name__}, which is not a context")
            return None
        try:
            got, other = get_capsule(), get_capsule()
        except Exception as error:
            self.add("get-capsule", f"_get_capsule() of {type(syclobj).__name__} raised {described(error)}")
            return None
        if not capsule.is_capsule(got):
            self.add("get-capsule", f"_get_capsule() gave {type(got).__name__}")
            return None
        if other is got:
            self.add("capsule-shared", "_get_capsule() gives the same capsule the next time")
        return self._capsule(got)

    def _filter(self, text: str) -> str | None:
        wrong = [one for one in text.split(",") if not _FILTER.fullmatch(one)]
        if wrong:
            self.add(
                "filter",
                f"{formatted(text)}: {formatted(wrong[0])} is not of the form backend:device_type:number, "
                "in lower case, without spaces",
            )
            return None
        return text

    def _capsule(self, given: object) -> object:
        name = capsule.name_of(given)
        if name in [b"used_" + one for one in _NAMES]:
            self.add("capsule-used", f"the capsule is named {quoted(name)}: its content was already consumed")
        elif name not in _NAMES:
            self.add("capsule-name", f"the capsule is named {quoted(name)}")
        elif not sycl.leads_to_sycl(capsule.pointer_of(given)):
            self.add(
                "capsule-memory", f"{capsule.pointer_of(given):#x} leads to no {name[4:-3].decode().lower()} of SYCL"
            )
        else:
            return given
        return None

    # ---- with a run time

    def _located(self, view: View, syclobj: Any, given: dict[Any, Any]) -> None:
        """Checks the pointer with the run time, if there is one in this process."""
        if not view.size or not view.itemsize:
            return
        run_time = sycl.run_time()
        if run_time is None:
            why = "dpctl's library isn't found" if sycl.imported() else "import dpctl first"
            self.add("pointer-unchecked", f"{view.pointer:#x} wasn't checked by the SYCL run time: {why}")
            return
        try:
            with run_time.context(syclobj) as context:
                self._bounds(view, run_time, context, given)
        except Exception as error:
            rule = "filter" if isinstance(syclobj, str) else "syclobj"
            self.add(rule, f"{formatted(syclobj)} is not a context of this process: {described(error)}")

    def _bounds(self, view: View, run_time: sycl.RunTime, context: int, given: dict[Any, Any]) -> None:
        kind = run_time.kind(view.pointer, context)
        base = given["data"][0] if "data" in given else view.pointer
        if kind is None and (base == view.pointer or run_time.kind(base, context) is None):
            self.add("pointer", f"{base:#x} is not a USM pointer of the context of {type(given['syclobj']).__name__}")
            return
        kind_of_base = run_time.kind(base, context)
        start, end = view.extent()
        step = max(1, (end - start) // _SAMPLES)
        for address in (start, end - 1, *range(start, end, step)):
            if run_time.kind(address, context) != kind_of_base:
                hint = ""
                if given.get("strides") == contiguous(view.shape, view.itemsize) and view.itemsize > 1:
                    hint = "; strides look like bytes, and count elements"
                shown = f"from {start:#x} on {end - start} bytes are shown"
                self.add("bounds", f"{shown}, which aren't all {kind_of_base or 'USM'} memory of that context{hint}")
                return
        if kind == "device" and buffer.granted(self.thing):
            self.add("device-buffer", f"{type(self.thing).__name__} shows a buffer of memory of kind device")


def check(checker: Checker) -> None:
    thing = checker.object()
    it = _Interface(checker, thing)
    try:
        given = getattr(thing, ATTRIBUTE)
    except Exception as error:
        it.add("raises", f"{ATTRIBUTE} raised {described(error)}")
        return
    it.examine(given)
