"""A worker's memory figure, in which each shared byte counts once: at the process that made it.

Dask reads a process's RSS, in which shared memory counts at each process that has looked at it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from distributed.diagnostics.plugin import NannyPlugin as _NannyPlugin
from distributed.diagnostics.plugin import WorkerPlugin as _WorkerPlugin

from crossdock import pool
from crossdock.dask import _received
from crossdock.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NannyPlugin", "WorkerPlugin", "uncounted_bytes"]

# In a worker's folder: bytes of its RSS that are another process's memory, or counted twice. For its nanny.
_FILE = "crossdock-uncounted"
_figure = struct.Struct("<Q")


def _shared_resident() -> int:
    with open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(b"RssShmem:"):
                return int(line.split()[1]) << 10
    return 0  # a kernel before 4.5


def uncounted_bytes() -> int:
    """Returns how many bytes of this process's RSS are others' memory, or its own for a second time.

    The RSS has: the process's own pool, of which pages that were lent are mapped twice; what it has touched of the
    memory that it received; and other shared memory. Which page is which is known to the kernel alone, which takes
    some ms for each GiB to say so. So the pool counts as large as it is, received memory doesn't count, and other
    shared memory counts as far as there is more than these two can explain.
    """
    resident = _shared_resident()
    own = pool.default().stats()["bytes"]
    unexplained = max(0, resident - _received.foreign_bytes() - 2 * own)
    return max(0, resident - own - unexplained)


class WorkerPlugin(_WorkerPlugin):
    """Has a worker allocate large arrays in shared memory, and count shared memory once.

    threshold: the size in bytes from which on NumPy's arrays lie in the pool; None: only the memory figure changes.

    The constructor raises nothing. In the worker, `setup()` raises `InvalidArgumentError` for a threshold below 1, and
    `TypeError` for one that is no whole number.
    """

    name = "crossdock"

    def __init__(self, threshold: int | None = 1 << 20) -> None:
        self.threshold = threshold

    def setup(self, worker: Any) -> None:
        if self.threshold is not None:
            with contextlib.suppress(ImportError, UnsupportedError):
                pool.install_numpy(self.threshold)
        monitor = worker.monitor
        # Dask's own hook: everything in a worker that reads the figure calls this method.
        monitor.get_process_memory = _Figure(
            type(monitor).get_process_memory.__get__(monitor), _start_of_pressure(worker), worker.local_directory
        )

    def teardown(self, worker: Any) -> None:
        if self.threshold is not None:
            pool.uninstall_numpy()
        vars(worker.monitor).pop("get_process_memory", None)


def _start_of_pressure(worker: Any) -> float:
    """The bytes from which on a worker looks for memory to free."""
    manager = worker.memory_manager
    fraction = manager.memory_target_fraction or manager.memory_spill_fraction or manager.memory_pause_fraction
    return fraction * manager.memory_limit if manager.memory_limit and fraction else float("inf")


class _Figure:
    """Says how much memory a worker takes."""

    def __init__(self, rss: Callable[[], int], pressure: float, folder: str) -> None:
        self._rss = rss
        self._pressure = pressure
        self._shown: mmap.mmap | None = None
        with contextlib.suppress(OSError):
            descriptor = os.open(Path(folder, _FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.ftruncate(descriptor, _figure.size)
                self._shown = mmap.mmap(descriptor, _figure.size)
            finally:
                os.close(descriptor)

    def __call__(self) -> int:
        figure = self._look()
        # Memory that waits in the pool for the next array is the first to go. What Dask has spilled is there, too.
        if figure > self._pressure and pool.default().trim():
            figure = self._look()
        return figure

    def _look(self) -> int:
        uncounted = uncounted_bytes()
        if self._shown is not None:
            _figure.pack_into(self._shown, 0, uncounted)
        return max(0, self._rss() - uncounted)


class NannyPlugin(_NannyPlugin):
    """Has a nanny look at its worker's own figure before it ends a worker for its memory."""

    name = "crossdock-nanny"
    idempotent = True

    def setup(self, nanny: Any) -> None:
        callback = nanny.periodic_callbacks.get("memory_monitor")
        if callback is not None and not isinstance(callback.callback, _Nanny):
            callback.callback = _Nanny(nanny, callback.callback)

    def teardown(self, nanny: Any) -> None:
        callback = nanny.periodic_callbacks.get("memory_monitor")
        if callback is not None and isinstance(callback.callback, _Nanny):
            callback.callback = callback.callback.theirs


class _Nanny:
    """Calls the nanny's own check where the worker's figure is too large, and not only its RSS."""

    def __init__(self, nanny: Any, theirs: Callable[[], None]) -> None:
        self._nanny = nanny
        self.theirs = theirs

    def __call__(self) -> None:
        manager = self._nanny.memory_manager
        try:
            rss = psutil.Process(self._nanny.process.process.pid).memory_info().rss
            uncounted = _figure.unpack(Path(self._nanny.worker_dir, _FILE).read_bytes())[0]
        except (AttributeError, TypeError, OSError, struct.error, psutil.Error):
            self.theirs()  # there is no worker, or one without the plug-in
            return
        if rss - uncounted > manager.memory_limit * manager.memory_terminate_fraction:
            self.theirs()
