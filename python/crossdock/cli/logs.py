"""The log of a command: lines on stderr."""

from __future__ import annotations

import json
import logging
import sys
import time
from datetime import UTC, datetime
from typing import Literal, get_args

from crossdock import _native
from crossdock._text import counted, shown
from crossdock.cli import reporting

Level = Literal["debug", "info", "warning", "error"]
LEVELS: tuple[Level, ...] = get_args(Level)


class _LogLine(logging.Formatter):
    """Formats a record on one line, without control sequences of terminals, because it may contain text of peers."""

    def format(self, record: logging.LogRecord) -> str:
        return shown(super().format(record))


class _JsonLine(logging.Formatter):
    """Formats a record as a JSON object on one line, in ASCII: control characters are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        time_ = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {
            "time": time_.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields)


class _LogLimit(logging.Filter):
    """Passes at most `MOST` records in `SECONDS`, and then says how many were dropped: a peer must not fill a disk.
    What the command itself says doesn't count."""

    MOST = 20
    SECONDS = 10.0

    def __init__(self) -> None:
        super().__init__()
        self._start = time.monotonic()
        self._count = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == "crossdock.cli":
            return True
        now = time.monotonic()
        if now - self._start >= self.SECONDS:
            left_out = self._count - self.MOST
            self._start, self._count = now, 0
            if left_out > 0:
                record.msg = f"{record.getMessage()} (before it {counted(left_out, 'more line')} not shown)"
                record.args = ()
        self._count += 1
        return self._count <= self.MOST


class _Log:
    """The handler of this process, and what the command line says about it."""

    def __init__(self) -> None:
        self.handler = logging.StreamHandler()
        self.limit = _LogLimit()
        self.debug = False
        self.level: Level | None = None
        self.json: bool | None = None


_log = _Log()


def set_up_logging(debug: bool, level: Level | None, json_lines: bool | None) -> None:
    """Logs to stderr: warnings, or from another level on; with `debug` everything. None: not said."""
    _log.debug, _log.level, _log.json = debug, level, json_lines
    _log.handler.setStream(sys.stderr)
    logging.basicConfig(handlers=[_log.handler])
    change_logging(None, None)


def change_logging(level: Level | None, json_lines: bool | None) -> None:
    """Applies what a configuration file says, where the command line says nothing."""
    chosen = "debug" if _log.debug else _log.level or level or "warning"
    as_json = bool(json_lines if _log.json is None else _log.json)
    if as_json:
        _log.handler.setFormatter(_JsonLine())
    elif chosen == "debug":
        _log.handler.setFormatter(_LogLine("%(asctime)s %(name)s %(levelname)s %(message)s"))
    else:
        _log.handler.setFormatter(_LogLine("%(asctime)s %(levelname)s: %(message)s", "%Y-%m-%d %H:%M:%S"))
    if chosen == "debug":
        _log.handler.removeFilter(_log.limit)
    else:
        _log.handler.addFilter(_log.limit)
    reporting.logs_errors = as_json
    logging.getLogger().setLevel(chosen.upper())
    _native._refresh_log_level()
