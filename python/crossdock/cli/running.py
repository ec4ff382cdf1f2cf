"""How commands that serve run and end: signals, the service manager, and the wait for streams under way."""

from __future__ import annotations

import logging
import math
import os
import select
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Annotated, Any, Protocol

import typer

import crossdock as xd
from crossdock._text import counted
from crossdock.cli.options import SERVICE
from crossdock.cli.service_manager import ServiceManager

log = logging.getLogger("crossdock.cli")

GRACE_SECONDS = 5.0

Grace = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="SECONDS",
        help=f"How long streams that are under way may continue after SIGTERM. Default: {GRACE_SECONDS:g}.",
        show_default=False,
        rich_help_panel=SERVICE,
    ),
]


class Served(Protocol):
    """A server or a relay."""

    def stats(self) -> dict[str, Any]: ...
    def drain(self, timeout: float | None = None) -> bool: ...
    def close(self) -> None: ...


class StoppedError(Exception):
    """A signal has come that ends the program."""


class Running:
    """What a command that serves does until its end. Use it as a context manager, on the main thread, around the whole
    of the serving: from then on signals are noted instead of ending the process.

    SIGTERM lets the streams under way go on for `grace` seconds. A second signal, SIGINT (Ctrl-C), and SIGHUP (the
    terminal is closed) end them at once. With `reloads`, SIGHUP asks for a reload instead. SIGHUP that is ignored, as
    nohup does, stays ignored.
    """

    def __init__(self, grace: float = GRACE_SECONDS, *, reloads: bool = False) -> None:
        if not math.isfinite(grace):
            raise xd.InvalidArgumentError(f"--grace must be a number of seconds from 0 on, not {grace}")
        self.manager = ServiceManager()
        self.grace = grace
        self._reloads = reloads
        self._drains = False  # the first signal was SIGTERM
        self._signals = 0  # that end the program
        self._reload_wanted = False
        self._closed = threading.Event()
        self._watching: threading.Thread | None = None
        self._before: dict[int, object] = {}
        self._wake_up = self._woken = -1

    def __enter__(self) -> Running:
        self._woken, self._wake_up = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wake_up_before = signal.set_wakeup_fd(self._wake_up, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        if self._watching is not None:
            self._watching.join()
        for number, handler in self._before.items():
            # The program ends as it was told to: a further signal must not make that look like a failure (143).
            signal.signal(number, signal.SIG_IGN if self._signals else handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._wake_up_before)
        os.close(self._wake_up)
        os.close(self._woken)

    def _note(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGHUP and self._reloads:
            self._reload_wanted = True
            return
        if self._signals == 0:
            self._drains = number == signal.SIGTERM
        self._signals += 1

    def check(self) -> None:
        """Raises StoppedError if a signal has come that ends the program. For work that takes long."""
        if self._signals:
            raise StoppedError

    def serve(self, served: Served, status: Callable[[], str], reload: Callable[[], None] | None = None) -> None:
        """Returns when a signal ends the program. status: what the service manager shows. reload: what SIGHUP calls,
        once for those that come meanwhile."""
        self.manager.ready(status())
        self.watch(served)
        while not self._signals:
            if self._reload_wanted and reload is not None:
                self._reload_wanted = False
                self.manager.reloading()
                reload()
                self.manager.ready(status())
            else:
                self._wait_for_signal()

    def _wait_for_signal(self) -> None:
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        poll.poll()
        os.read(self._woken, 4096)

    def watch(self, served: Served) -> None:
        """Shows the service manager signs of life, each after the server's own thread has answered."""
        if self.manager.watchdog_seconds is None:
            return
        interval = self.manager.watchdog_seconds / 2

        def run() -> None:
            try:
                while not self._closed.wait(interval):
                    served.stats()
                    self.manager.alive()
            except xd.ClosedError:
                pass  # it ends

        self._watching = threading.Thread(target=run, name="crossdock-watchdog", daemon=True)
        self._watching.start()

    def end(self, served: Served) -> None:
        """Ends what is served: at once, or after SIGTERM once its streams have ended."""
        seconds = self.grace if self._drains and self._signals < 2 else 0.0
        status = f"waiting for streams under way, {seconds:g} s at most" if seconds else "ending"
        self.manager.stopping(status, seconds + 30)
        if seconds:
            served.drain(0)  # from here on, others are refused
            log.info("%s; a second signal ends them at once", status)
            self._drain(served, seconds)
        self._closed.set()
        served.close()
        log.info("ended")

    def _drain(self, served: Served, seconds: float) -> None:
        drained: list[bool] = []
        over = threading.Event()

        def run() -> None:
            try:
                drained.append(served.drain(seconds))
            except xd.ClosedError:
                pass  # by a second signal
            finally:
                over.set()
                os.write(self._wake_up, b"\0")

        # On a thread of its own: the main thread must see a second signal.
        thread = threading.Thread(target=run, name="crossdock-drain")
        thread.start()
        while not over.is_set() and self._signals < 2:
            self._wait_for_signal()
        if not any(drained) and (waiting := _waited_for(served)):
            log.warning("ended before %s had taken all that was sent", counted(waiting, "consumer"))
        if self._signals >= 2:
            served.close()  # ends the wait, too
        thread.join()


def _waited_for(served: Served) -> int:
    return sum(1 for one in served.stats()["consumers"] if one["name"] or one["in_flight"])
