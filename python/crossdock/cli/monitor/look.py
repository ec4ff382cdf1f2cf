"""Looks at a server again and again, and connects again where it was lost."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from crossdock._text import shown
from crossdock.cli.monitor.rates import Rates, Snapshot, per_second

_HISTORY = 300  # Rates that are kept: five minutes at one look a second.
_LONGEST_ERROR = 500


class Connection(Protocol):
    """What is needed of a client."""

    def server_stats(self) -> dict[str, Any]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Look:
    """What a look found. Where it found no server, the last snapshot is there still, and `error` says why."""

    uri: str
    snapshot: Snapshot | None
    history: tuple[float, ...]
    """Bytes a second of the last looks, the newest last."""
    error: str | None = None
    age: float = 0.0
    """Seconds since the snapshot; 0 where there was none."""


class Observed:
    """A server that is looked at by one thread."""

    def __init__(self, uri: str, connect: Callable[[], Connection]) -> None:
        self._uri = uri
        self._connect = connect
        self._client: Connection | None = None
        self._rates = Rates()
        self._history: deque[float] = deque(maxlen=_HISTORY)
        self._snapshot: Snapshot | None = None
        self._at = 0.0

    def snapshot(self) -> Snapshot:
        """Returns the server's statistics. Connects first, if that is needed. Raises the errors of `connect()` and of
        `Client.server_stats()`, after which the next call connects again."""
        try:
            if self._client is None:
                self._client = self._connect()
            snapshot = self._rates.add(self._client.server_stats())
        except BaseException:
            self.close()
            raise
        self._snapshot, self._at = snapshot, time.monotonic()
        rate = snapshot.totals[per_second("bytes")]
        if rate is not None:
            self._history.append(rate)
        return snapshot

    def look(self) -> Look:
        """Does the same, and returns the error of a server that isn't there or doesn't answer."""
        error = None
        try:
            self.snapshot()
        except Exception as raised:  # whatever it is, it is shown: this thread's end would go unnoticed
            error = shown(f"{type(raised).__name__}: {raised}", _LONGEST_ERROR)
        age = time.monotonic() - self._at if self._snapshot is not None else 0.0
        return Look(self._uri, self._snapshot, tuple(self._history), error, age)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


class Watcher:
    """Looks at a server once in an interval, on a thread of its own, which calls `found` with each look."""

    def __init__(self, server: Observed, interval: float, found: Callable[[Look], None]) -> None:
        self._server = server
        self._interval = interval
        self._found = found
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="crossdock-top")

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._found(self._server.look())
                self._stop.wait(self._interval)
        finally:
            self._server.close()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread. Waits for a look under way, which takes the connection's timeout at most."""
        self._stop.set()
        self._thread.join()
