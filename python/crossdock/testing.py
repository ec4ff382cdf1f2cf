"""Simulated asynchronous devices, to test code for GPUs without one.

    from crossdock.testing import simulated_devices

    def test_my_code():
        with simulated_devices(2, delay=0.01) as devices:
            ...  # "sim:0" and "sim:1" are devices now
            assert devices.counters()["copy"] == 1

Their memory of kind device can't be touched by the host (SIGSEGV), their queues work on threads of their own, and work
of two queues on the same memory that nobody ordered fails, every time. With pytest the fixture `simulated_devices` does
the same.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from crossdock import _native
from crossdock.errors import Error, InvalidArgumentError, SystemError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SimulatedDevices", "counters", "fail_next", "fail_work", "simulated_devices"]


def _code_and_text(error: Error | type[Error] | None) -> tuple[int, str]:
    kind = SystemError if error is None else error if isinstance(error, type) else type(error)
    if kind not in _native.error_classes[1:]:
        raise InvalidArgumentError(f"error is one of the classes of crossdock.errors, or made of one; it was {error!r}")
    text = str(error) if isinstance(error, Error) else ""
    return _native.error_classes.index(kind), text or "this failure was arranged by crossdock.testing"


def _check_after(after: int) -> None:
    if after < 0:
        raise InvalidArgumentError(f"after is a number of calls from 0 on; it was {after}")


def fail_next(verb: str, after: int = 0, error: Error | type[Error] | None = None) -> None:
    """Makes a call to the simulated driver fail: the next one of `verb` after `after` more.

    verb: a name from `counters()`, such as "allocate", "copy", "record", "wait".
    error: what it fails with, an exception of crossdock.errors or its class; a SystemError if none is given.
    """
    _check_after(after)
    _native.sim_fail_next(verb, after, *_code_and_text(error))


def fail_work(after: int = 0, error: Error | type[Error] | None = None) -> None:
    """Makes a copy fail when a queue comes to it: the next one that is put on a queue after `after` more.

    The failure is raised at whoever needs the copy's result, not by the call that starts it.
    """
    _check_after(after)
    _native.sim_fail_work(after, *_code_and_text(error))


def counters() -> dict[str, int]:
    """How often each verb was called since the devices were made, and the bytes allocated and copied."""
    return _native.sim_counters()


class SimulatedDevices:
    """What `simulated_devices()` gives: the devices, their counters, and failures to arrange."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    @property
    def names(self) -> list[str]:
        """The devices by name, "ext_dev:0" first, as arrays show theirs; "sim:0" is the same one."""
        return [f"ext_dev:{number}" for number in range(self._count)]

    def counters(self) -> dict[str, int]:
        """See `crossdock.testing.counters`."""
        return counters()

    def reset_counters(self) -> None:
        """Counts from 0 on again; arranged failures that haven't happened are forgotten too."""
        _native.sim_reset()

    def fail_next(self, verb: str, after: int = 0, error: Error | type[Error] | None = None) -> None:
        """See `crossdock.testing.fail_next`."""
        fail_next(verb, after, error)

    def fail_work(self, after: int = 0, error: Error | type[Error] | None = None) -> None:
        """See `crossdock.testing.fail_work`."""
        fail_work(after, error)

    def take_faults(self) -> list[str]:
        """The forgotten orders found so far, which don't count against the test from now on."""
        faults = _native.sim_faults()
        _native.sim_forget_faults()
        return faults

    def __repr__(self) -> str:
        return f"<crossdock.testing.SimulatedDevices: {', '.join(self.names) or 'none'}>"


@contextmanager
def simulated_devices(n: int = 2, *, delay: float = 0.0, memory: int | None = None) -> Iterator[SimulatedDevices]:
    """`n` simulated devices, for this process, as long as the block lasts. They are EXT_DEV 0 to n - 1.

    Raises AssertionError at the end if an order between queues was forgotten and nobody took note: see `take_faults()`.
    Blocks can't be nested. Arrays may outlive the block; new work on their memory is refused then.

    delay: seconds after which work starts at the earliest; 0 is asynchronous too.
    memory: bytes that one device has; 8 GiB if none is given.
    """
    if n < 1:
        raise InvalidArgumentError(f"n is a number of devices from 1 on; it was {n}")
    if memory is not None and memory < 1:
        raise InvalidArgumentError(f"memory is a number of bytes from 1 on; it was {memory}")
    if _native.sim_devices() != 0:
        raise InvalidArgumentError("there are simulated devices already: leave that block first")
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
