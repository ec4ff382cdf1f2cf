"""What a SYCL run time knows of a pointer, by dpctl's C library, where the process has loaded dpctl already."""

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
    """dpctl, and its C library."""

    def __init__(self, dpctl: Any) -> None:
        """Raises AttributeError and OSError where either is not as it should be."""
        self.dpctl = dpctl
        library = ctypes.CDLL(os.path.join(os.path.dirname(dpctl.__file__), _LIBRARY))
        self._context_of_queue = library.DPCTLQueue_GetContext
        self._context_of_queue.restype, self._context_of_queue.argtypes = c_void_p, (c_void_p,)
        self._delete_context = library.DPCTLContext_Delete
        self._delete_context.restype, self._delete_context.argtypes = None, (c_void_p,)
        self._kind = library.DPCTLUSM_GetPointerType
        self._kind.restype, self._kind.argtypes = c_int, (c_void_p, c_void_p)

    def kind(self, pointer: int, context: int) -> str | None:
        """None for what is no USM pointer of the context."""
        return _KINDS.get(self._kind(pointer, context))

    @contextmanager
    def context(self, syclobj: Any) -> Iterator[int]:
        """The `sycl::context*` that it stands for, as long as it is held. Raises what dpctl raises.

        `syclobj` is a filter string, a SyclContext, a SyclQueue, or a capsule that `leads_to_sycl()`.
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
    """Whether the process has dpctl, whatever came of it."""
    return "dpctl" in sys.modules


def run_time() -> RunTime | None:
    """None unless dpctl was imported: the checker imports nothing, and what nobody uses needs no run time."""
    dpctl = sys.modules.get("dpctl")
    try:
        return None if dpctl is None else RunTime(dpctl)
    except (AttributeError, OSError, TypeError):
        return None  # Half imported, or something else of that name.


def is_a(thing: object, name: str) -> bool:
    """Whether its class, or one that it derives from, is dpctl's `name`: nothing is imported to know."""
    return any(
        base.__name__.lstrip("_") == name and str(base.__module__).split(".")[0] == "dpctl"
        for base in type(thing).__mro__
    )


def leads_to_sycl(address: int) -> bool:
    """Whether what lies there can be a `sycl::queue` or `sycl::context`: each holds one shared pointer.

    It can be told from nothing and from nonsense, not from the shared pointer to something else.
    """
    pair = memory.integers(address, 2, signed=False)
    if pair is None:
        return False
    table = memory.pointer_at(pair[1])  # A control block starts with the pointer to its virtual functions.
    return memory.read(pair[0], 8) is not None and table is not None and memory.executable(memory.pointer_at(table))
