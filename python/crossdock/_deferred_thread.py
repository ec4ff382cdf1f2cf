"""The thread that does what the library's own threads leave for Python while the program's main thread waits.

Those threads don't take the GIL: they queue log lines for `logging`, and objects of Python's to be dropped. The main
thread takes both between two byte codes. It can't while it waits in `signal.pause()`, `Event.wait()` or `input()`, as
servers do, or in C code, as the workers of some engines do.
"""

from __future__ import annotations

import os
import select
import sys
import threading

from crossdock import _native

# What the counter of the descriptor says: at least this for log lines, less for objects alone.
_LINES = 1 << 32
# The main thread drops objects at less cost, unless it waits. An object may keep another process's memory in use.
_PATIENCE_MS = 50


def start() -> None:
    """Starts the thread once in each process; later calls do nothing. It is a daemon, and ends with the interpreter."""
    descriptor = _native._deferred_descriptor()
    if descriptor >= 0:
        threading.Thread(target=_run, args=(descriptor,), name="crossdock-deferred", daemon=True).start()


def _run(descriptor: int) -> None:
    lines = select.poll()
    lines.register(descriptor, select.POLLIN)
    while count := int.from_bytes(os.read(descriptor, 8), sys.byteorder):
        if count < _LINES:
            lines.poll(_PATIENCE_MS)  # more objects write nothing until they are dropped, so this waits for lines
        _native._drain()
