"""Errors of commands: one line on stderr, and an exit code."""

from __future__ import annotations

import logging
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import typer

import crossdock as xd
from crossdock._text import shown
from crossdock.cli.layout import terminal_width, wrapped

OK, FAILED, USAGE, NOT_FOUND, NO_CONNECTION, DAMAGED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
NO_READER = 128 + signal.SIGPIPE


# The first class that matches decides.
_CODE_OF: tuple[tuple[type[BaseException], int], ...] = (
    (xd.TruncatedStreamError, DAMAGED),
    (xd.FileChangedError, DAMAGED),
    (xd.NotFoundError, NOT_FOUND),
    (xd.UriError, USAGE),
    (xd.SchemeError, USAGE),
    (xd.InvalidArgumentError, USAGE),
    (xd.ConnectionError, NO_CONNECTION),
    (xd.HandshakeError, NO_CONNECTION),
    (xd.TimeoutError, NO_CONNECTION),
    (xd.Error, FAILED),
    (FileNotFoundError, NOT_FOUND),
    (OSError, FAILED),
    (ValueError, FAILED),  # pyarrow's errors, among others
)


show_tracebacks = False  # --debug
logs_errors = False  # --log-json: what is printed on stderr goes to the log, as one JSON object a line

log = logging.getLogger("crossdock.cli")


class MissingPackageError(Exception):
    """An optional package is needed."""


def one_line(text: str) -> str:
    """Joins the lines of a text. An indented line is an item of a list."""
    joined = ""
    for line in text.splitlines():
        words = " ".join(line.split())
        if joined and words and joined[-1] not in ".,:;!?":
            if line[0].isspace():
                joined += ";"
            elif words[0].isupper():
                joined += "."
        joined += f" {words}" if joined and words else words
    return joined


def say(text: str) -> None:
    """Prints a line for people on stderr. Where programs read it, it goes to the log."""
    if logs_errors:
        log.warning("%s", text)
    else:
        print(shown(text), file=sys.stderr, flush=True)


def error_line(name: str, error: object) -> None:
    text = f"{name}: {shown(one_line(str(error)))}"
    if logs_errors:
        log.error("%s", text)
    else:
        print(wrapped(text, terminal_width(sys.stderr)), file=sys.stderr)


def report_error(error: BaseException) -> None:
    """Prints an error in one line, or with --debug its traceback."""
    if show_tracebacks and logs_errors:
        log.error("%s: %s", type(error).__name__, error, exc_info=error)
        return
    if not show_tracebacks:
        error_line(type(error).__name__, error)
        return
    for line in "".join(traceback.format_exception(error)).splitlines():
        print(shown(line), file=sys.stderr)


@contextmanager
def reported() -> Iterator[None]:
    """Turns errors into one line on stderr and an exit code."""
    try:
        yield
        sys.stdout.flush()  # Raises BrokenPipeError if the output has no reader any more.
    except KeyboardInterrupt:
        with suppress(OSError):  # After SIGHUP the terminal may be closed.
            say("Interrupted")
        raise typer.Exit(INTERRUPTED) from None
    except MissingPackageError as error:
        error_line("MissingPackage", error)
        raise typer.Exit(FAILED) from None
    except BrokenPipeError:
        # The output has no reader any more: print nothing, and flush nothing to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(NO_READER) from None
    except tuple(kind for kind, _ in _CODE_OF) as error:
        report_error(error)
        raise typer.Exit(next(code for kind, code in _CODE_OF if isinstance(error, kind))) from None
