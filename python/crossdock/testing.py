"""Simulated asynchronous devices, to test code for GPUs without one.

    from crossdock.testing import simulated_devices

    def test_my_code():
        with simulated_devices(2, delay=0.01) as devices:  # "sim:0" and "sim:1" are devices now
            there = xd.asarray(np.arange(3.0)).to("sim:1")
            assert devices.counters()["copy"] == 1

The host can't access their memory of kind device (SIGSEGV). Each queue works on its own thread. Work of two queues on
the same memory that isn't ordered fails every time. With pytest, use the fixture `simulated_devices`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from crossdock import _native
from crossdock._text import quoted
from crossdock.errors import Error, InvalidArgumentError, SystemError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SimulatedDevices", "counters", "fail_next", "fail_work", "simulated_devices"]


def _code_and_text(error: Error | type[Error] | None) -> tuple[int, str]:
    kind = SystemError if error is None else error if isinstance(error, type) else type(error)
    if kind not in _native.error_classes[1:]:
        raise InvalidArgumentError(
            f"error must be a class of crossdock.errors, or an instance of one; it was {quoted(error)}"
        )
    text = str(error) if isinstance(error, Error) else ""
    return _native.error_classes.index(kind), text or "this failure was arranged by crossdock.testing"


def _check_after(after: int) -> None:
    if after < 0:
        raise InvalidArgumentError(f"after must be at least 0 calls; it was {after}")


def fail_next(verb: str, after: int = 0, error: Error | type[Error] | None = None) -> None:
    """Makes a call to the simulated driver fail: `after` calls of `verb` succeed, and the next one fails.

    verb: a name from `counters()`, such as "allocate", "copy", "record", "wait".
    error: the error to raise, an exception of crossdock.errors or its class. None: a SystemError.

    Raises `InvalidArgumentError` for an unknown verb, a negative `after` and another class of error, and
    `UnsupportedError` if the build has no simulated devices.
    """
    _check_after(after)
    _native.sim_fail_next(verb, after, *_code_and_text(error))


def fail_work(after: int = 0, error: Error | type[Error] | None = None) -> None:
    """Makes a copy fail when its queue runs it: `after` copies succeed, and the next one that is submitted fails.

    The error is raised in calls that need the copy's result, not in the call that starts the copy. `error`: see
    `fail_next()`.

    Raises `InvalidArgumentError` for a negative `after` and another class of error, and `UnsupportedError` if the build
    has no simulated devices.
    """
    _check_after(after)
    _native.sim_fail_work(after, *_code_and_text(error))


def counters() -> dict[str, int]:
    """Returns how often each function of the driver was called since the devices were made, and the bytes allocated and
    copied.

    Raises `UnsupportedError` if the build has no simulated devices.
    """
    return _native.sim_counters()


class SimulatedDevices:
    """The result of `simulated_devices()`: the devices, their counters, and functions that cause failures."""

    counters = staticmethod(counters)
    fail_next = staticmethod(fail_next)
    fail_work = staticmethod(fail_work)

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    @property
    def names(self) -> list[str]:
        """The names of the devices, as arrays show them: "ext_dev:0" is the first. "sim:0" is the same device."""
        return [f"ext_dev:{number}" for number in range(self._count)]

    def reset_counters(self) -> None:
        """Sets all counters to 0, and cancels arranged failures that haven't happened yet. Raises nothing."""
        _native.sim_reset()

    def take_faults(self) -> list[str]:
        """Returns the missing orders between queues that were found so far. They don't fail the test any more.

        Raises nothing.
        """
        faults = _native.sim_faults()
        _native.sim_forget_faults()
        return faults

    def __repr__(self) -> str:
        return f"<crossdock.testing.SimulatedDevices: {', '.join(self.names) or 'none'}>"


@contextmanager
def simulated_devices(n: int = 2, *, delay: float = 0.0, memory: int | None = None) -> Iterator[SimulatedDevices]:
    """Makes `n` simulated devices in this process for the duration of the block. They are EXT_DEV 0 to n - 1.

    Raises AssertionError at the end if an order between queues was missing, unless `take_faults()` has returned it.
    Blocks can't be nested. Arrays may outlive the block, but new work on their memory then raises an error.

    delay: the least number of seconds before work starts; with 0 work is asynchronous, too.
    memory: bytes of memory of one device; None: 8 GiB.

    At the start, raises `InvalidArgumentError` for less than one device, a delay that isn't from 0 to 3600 seconds,
    less than one byte of memory and a nested block, and `UnsupportedError` if the build has no simulated devices.
    """
    if n < 1:
        raise InvalidArgumentError(f"n must be at least 1 device; it was {n}")
    if memory is not None and memory < 1:
        raise InvalidArgumentError(f"memory must be at least 1 byte; it was {memory}")
    if _native.sim_devices() != 0:
        raise InvalidArgumentError("simulated devices already exist: leave the other block first")
    _native.sim_reset()
    _native.sim_configure(devices=n, delay=delay, memory=memory)
    devices = SimulatedDevices(n)
    try:
        yield devices
        faults = devices.take_faults()
        if faults:
            raise AssertionError(f"work of queues wasn't ordered ({len(faults)} times): " + "; ".join(faults))
    finally:
        _native.sim_reset()
        _native.sim_configure(devices=0, delay=0.0, memory=None)
