"""Threads that use one thing at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Found = TypeVar("Found")


def two_while_a_third(work: Callable[[threading.Event], int], export: Callable[[], Found]) -> list[Found]:
    """What `export` gives on two threads while a third calls `work`.

    `work` goes on until its event is set, and tells how often it did something.
    """
    over = threading.Event()
    with ThreadPoolExecutor(3) as threads:
        worker = threads.submit(work, over)
        exports = [threads.submit(export) for _ in range(2)]
        try:
            found = [one.result() for one in exports]
        finally:
            over.set()
        assert worker.result() > 0
    return found
