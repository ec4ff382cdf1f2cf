"""Checks the target of `sync_event` in an array of a device."""

from __future__ import annotations

import ctypes
import os

from crossdock._check import abi, memory
from crossdock._check.checker import Checker

_CUDA = (abi.CUDA, abi.CUDA_HOST, abi.CUDA_MANAGED)
# The devices for which the specification says "a pointer to an event". The event is a pointer itself.
_HANDLES = (*_CUDA, abi.ROCM, abi.ROCM_HOST)
_NO_EVENT = {1: "CUDA_ERROR_INVALID_VALUE", 400: "CUDA_ERROR_INVALID_HANDLE"}
_LOADED_ONLY = getattr(os, "RTLD_NOLOAD", 0) | os.RTLD_NOW


def check(checker: Checker, device_type: int, address: int) -> None:
    """Checks the event at `address`. `address` must not be null, and the device must not be the CPU."""
    handle = memory.pointer_at(address)
    if handle is None:
        checker.add("arrow-device-event-memory", f"sync_event is {address:#x}, which is not readable memory")
    elif device_type in _HANDLES and not handle:
        checker.add("arrow-device-event-handle", f"the event that sync_event {address:#x} points to is null")
    elif device_type in _CUDA:
        _cuda(checker, handle)
    elif device_type == abi.EXT_DEV and handle == abi.SIM_EVENT_MAGIC:
        _simulated(checker, address)


def _driver() -> ctypes.CDLL | None:
    """Returns CUDA's driver library if the process has already loaded it. Loads nothing."""
    for name in (os.environ.get("CROSSDOCK_CUDA_LIBRARY"), "libcuda.so.1"):
        if name:
            try:
                return ctypes.CDLL(name, mode=_LOADED_ONLY)
            except OSError:
                continue
    return None


def _cuda(checker: Checker, handle: int) -> None:
    driver = _driver()
    if driver is None or not hasattr(driver, "cuEventQuery"):
        return
    if memory.read(handle, 1) is None:  # The library would read there, and crash.
        checker.add("arrow-device-event-handle", f"the event is {handle:#x}, which is not readable memory")
        return
    answer = driver.cuEventQuery(ctypes.c_void_p(handle))
    if answer in _NO_EVENT:
        checker.add("arrow-device-event-handle", f"cuEventQuery says {_NO_EVENT[answer]} of the event {handle:#x}")


def _simulated(checker: Checker, address: int) -> None:
    event = memory.load(abi.SimEvent, address)
    if event is None or event.size < ctypes.sizeof(abi.SimEvent) or event.version < 1:
        state = "can't be read" if event is None else f"says version {event.version}, {event.size} bytes"
        checker.add("arrow-device-event-handle", f"the simulated device's event {state}")
        return
    broken = [name for name in ("query", "wait", "last_error") if not memory.executable(getattr(event, name))]
    if broken:
        checker.add(
            "arrow-device-event-handle", f"the simulated device's event: null, or not a function: {', '.join(broken)}"
        )
        return
    # A result below 0 means that the work failed, which is no error of the export.
    waited = abi.EventCall(event.wait)(address)
    asked = abi.EventCall(event.query)(address)
    if waited > 0 or (waited == 0 and asked != 1):
        checker.add("arrow-device-event-handle", f"wait() of the event returned {waited}, but query() after it {asked}")
