"""The log of a command: lines on stderr."""

from __future__ import annotations

import logging
import time

from crossdock._text import shown
from crossdock.cli.output import counted


class _LogLine(logging.Formatter):
    """Formats a record on one line, without control sequences of terminals, because it may contain text of peers."""

    def format(self, record: logging.LogRecord) -> str:
        return shown(super().format(record))


class _LogLimit(logging.Filter):
    """Passes at most `MOST` records in `SECONDS`, and then says how many were dropped: a peer must not fill a disk."""

    MOST = 20
    SECONDS = 10.0

    def __init__(self) -> None:
        super().__init__()
        self._start = time.monotonic()
        self._count = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._start >= self.SECONDS:
            left_out = self._count - self.MOST
            self._start, self._count = now, 0
            if left_out > 0:
                record.msg = f"{record.getMessage()} (before it {counted(left_out, 'more line')} not shown)"
                record.args = ()
        self._count += 1
        return self._count <= self.MOST


def set_up_logging(debug: bool) -> None:
    """Logs to stderr: warnings, or with `debug` everything."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        _LogLine("%(asctime)s %(name)s %(levelname)s %(message)s")
        if debug
        else _LogLine("%(asctime)s %(levelname)s: %(message)s", "%Y-%m-%d %H:%M:%S")
    )
    if not debug:
        handler.addFilter(_LogLimit())
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, handlers=[handler])
