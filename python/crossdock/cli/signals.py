"""Signals that end a command."""

from __future__ import annotations

import signal
from typing import Any


def on_end(handler: Any) -> None:
    """Sets the handler of SIGINT (Ctrl-C), SIGTERM and SIGHUP (the terminal is closed). Leaves SIGHUP ignored if nohup
    has set that."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)
