"""Signals that end a command."""

from __future__ import annotations

import signal
from typing import Any


def end_signals() -> list[signal.Signals]:
    """Returns SIGINT (Ctrl-C), SIGTERM and SIGHUP (the terminal is closed); not SIGHUP if nohup has had it ignored."""
    numbers = [signal.SIGINT, signal.SIGTERM]
    return numbers if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [*numbers, signal.SIGHUP]


def on_end(handler: Any) -> None:
    """Sets the handler of these signals."""
    for number in end_signals():
        signal.signal(number, handler)
