"""How much memory of other processes this one has."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import Any

__all__ = ["Ledger", "foreign_bytes"]

_lock = threading.Lock()
_foreign = 0
# Frames are dropped on any thread, and in the garbage collector, where no lock may be waited for.
_dropped: deque[tuple[Ledger, int]] = deque()


def foreign_bytes() -> int:
    """Bytes of received frames that are in use, and whose maker lives: they are its memory."""
    with _lock:
        _subtract_dropped()
        return _foreign


def _subtract_dropped() -> None:
    global _foreign
    while _dropped:
        ledger, size = _dropped.popleft()
        if not ledger.ended:
            ledger.nbytes -= size
            _foreign -= size


class Ledger:
    """The frames that were received from one process, as long as they are in use and that process lives."""

    def __init__(self) -> None:
        self.nbytes = 0
        self.ended = False

    def enter(self, frame: Any, size: int) -> None:
        """Counts a frame until its last owner has dropped it."""
        global _foreign
        with _lock:
            _subtract_dropped()
            self.nbytes += size
            _foreign += size
        weakref.finalize(frame, _dropped.append, (self, size)).atexit = False

    def peer_ended(self) -> None:
        """From now on these frames are nobody else's memory."""
        global _foreign
        with _lock:
            _subtract_dropped()
            self.ended = True
            _foreign -= self.nbytes
            self.nbytes = 0
