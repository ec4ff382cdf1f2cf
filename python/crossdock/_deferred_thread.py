"""The thread that does what the library's own threads leave for Python.

Those threads don't take the GIL: they queue log lines for `logging`, and objects of Python's to be dropped. This thread
alone logs the lines: a handler may need a lock that another thread has while it calls the package, or between any two
of its byte codes. The main thread drops objects between two byte codes, and this one does while the main thread waits
in `signal.pause()`, `Event.wait()` or `input()`, as servers do, or in C code, as the workers of some engines do.
"""

from __future__ import annotations

import os
import select
import sys
import threading

from crossdock import _native

# The main thread drops objects at less cost, unless it waits. An object may keep another process's memory in use.
_PATIENCE_MS = 50


def start() -> None:
    """Starts the thread once in each process; later calls do nothing. Raises RuntimeError if there can be no more
    threads; the next call then tries again.

    The module _native ends it before the interpreter ends, after it has closed the servers. Python stops daemons that
    still run anywhere: one that writes a log line keeps the lock of stderr, which Python needs to end, and the process
    is aborted.
    """
    descriptor = _native._deferred_descriptor()
    if descriptor >= 0:
        thread = threading.Thread(target=_run, args=(descriptor,), name="crossdock-deferred", daemon=True)
        try:
            thread.start()
        except BaseException:
            _native._forget_deferred_thread()
            raise
        _native._set_deferred_thread(thread)


def _run(descriptor: int) -> None:
    lines = select.poll()
    lines.register(descriptor, select.POLLIN)
    count = 0
    while count < _native._DEFERRED_END:
        count = int.from_bytes(os.read(descriptor, 8), sys.byteorder)
        if count < _native._DEFERRED_LINES:
            lines.poll(_PATIENCE_MS)  # more objects write nothing until they are dropped, so this waits for lines
        _native._drain()
