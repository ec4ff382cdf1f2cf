"""Asks the SYCL run time about a pointer, by dpctl's C library, if the process has already imported dpctl."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_int, c_void_p
from typing import Any

from crossdock._check import capsule, memory

QUEUE, CONTEXT = b"SyclQueueRef", b"SyclContextRef"
_LIBRARY = "libDPCTLSyclInterface.so"
_KINDS = {1: "device", 2: "shared", 3: "host"}


class RunTime:
    """dpctl and its C library."""

    def __init__(self, dpctl: Any) -> None:
        """Raises AttributeError or OSError if dpctl or its library isn't as expected."""
        self.dpctl = dpctl
        library = ctypes.CDLL(os.path.join(os.path.dirname(dpctl.__file__), _LIBRARY))
        self._context_of_queue = library.DPCTLQueue_GetContext
        self._context_of_queue.restype, self._context_of_queue.argtypes = c_void_p, (c_void_p,)
        self._delete_context = library.DPCTLContext_Delete
        self._delete_context.restype, self._delete_context.argtypes = None, (c_void_p,)
        self._kind = library.DPCTLUSM_GetPointerType
        self._kind.restype, self._kind.argtypes = c_int, (c_void_p, c_void_p)

    def kind(self, pointer: int, context: int) -> str | None:
        """Returns the kind of memory, or None if the pointer isn't a USM pointer of the context."""
        return _KINDS.get(self._kind(pointer, context))

    @contextmanager
    def context(self, syclobj: Any) -> Iterator[int]:
        """Yields the `sycl::context*` that `syclobj` stands for, valid in the block. Raises the errors of dpctl.

        `syclobj` is a filter string, a SyclContext, a SyclQueue, or a capsule for which `leads_to_sycl()` is true.
        """
        if capsule.is_capsule(syclobj):
            address = capsule.pointer_of(syclobj)
            if capsule.name_of(syclobj) == CONTEXT:
                yield address
                return
            owned = self._context_of_queue(address)
            if not owned:
                raise RuntimeError("the queue has no context")
            try:
                yield owned
            finally:
                self._delete_context(owned)
            return
        if isinstance(syclobj, str):
            syclobj = self.dpctl.SyclQueue(self.dpctl.SyclDevice(syclobj))
        held = getattr(syclobj, "sycl_context", syclobj)
        yield held.addressof_ref()


def imported() -> bool:
    """Returns whether the process has tried to import dpctl, successfully or not."""
    return "dpctl" in sys.modules


def run_time() -> RunTime | None:
    """Returns the run time, or None unless dpctl was imported. The checker imports nothing: an unused run time isn't
    needed."""
    dpctl = sys.modules.get("dpctl")
    try:
        return None if dpctl is None else RunTime(dpctl)
    except (AttributeError, OSError, TypeError):
        return None  # dpctl is only partly imported, or another module has its name.


def is_a(thing: object, name: str) -> bool:
    """Returns whether the class of `thing`, or a base of it, is dpctl's class `name`. Imports nothing."""
    return any(
        base.__name__.lstrip("_") == name and str(base.__module__).split(".")[0] == "dpctl"
        for base in type(thing).__mro__
    )


def leads_to_sycl(address: int) -> bool:
    """Returns whether the object at `address` can be a `sycl::queue` or `sycl::context`: each holds one shared pointer.

    Detects unmapped memory and random bytes, but not a shared pointer to another object.
    """
    pair = memory.integers(address, 2, signed=False)
    if pair is None:
        return False
    table = memory.pointer_at(pair[1])  # A control block starts with a pointer to its table of virtual functions.
    return memory.read(pair[0], 8) is not None and table is not None and memory.executable(memory.pointer_at(table))
