"""The thread that has log lines of a server's threads reach `logging` while the program's main thread waits.

A server's own threads take no interpreter lock, so they leave their lines to Python threads. The main thread takes them
between two byte codes; in `signal.pause()`, `Event.wait()` or `input()`, as servers wait, it doesn't get there.
"""

from __future__ import annotations

import os
import threading

from crossdock import _native


def start() -> None:
    """Once in each process; later calls do nothing. The thread is a daemon: it ends with the interpreter."""
    descriptor = _native._log_descriptor()
    if descriptor >= 0:
        threading.Thread(target=_drain, args=(descriptor,), name="crossdock-log", daemon=True).start()


def _drain(descriptor: int) -> None:
    while os.read(descriptor, 8):
        _native._drain()
