"""The thread that delivers log lines of a server's threads to `logging` while the program's main thread waits.

A server's own threads don't take the GIL, so they queue their lines for Python threads. The main thread delivers them
between two byte codes. It can't while it waits in `signal.pause()`, `Event.wait()` or `input()`, as servers do.
"""

from __future__ import annotations

import os
import threading

from crossdock import _native


def start() -> None:
    """Starts the thread once in each process; later calls do nothing. It is a daemon, and ends with the interpreter."""
    descriptor = _native._log_descriptor()
    if descriptor >= 0:
        threading.Thread(target=_drain, args=(descriptor,), name="crossdock-log", daemon=True).start()


def _drain(descriptor: int) -> None:
    while os.read(descriptor, 8):
        _native._drain()
