"""Paths of files, and files that are read whole, at paths that others may change."""

from __future__ import annotations

import builtins
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from crossdock._text import quoted, shown
from crossdock.errors import Error, InvalidArgumentError, NotFoundError, PermissionError, SystemError

# A private key without the lines around it: the base64 of a DER sequence that begins with a version.
_BARE_KEY = re.compile(r"\s*M[A-Z][A-Za-z0-9+/]{1,4}(?:AgE|CAQ|IBA)")


def is_pem_text(given: str) -> bool:
    """Returns whether this is the text of a PEM file, or the base64 in it, and no path. It may be a private key, so
    errors must not quote it."""
    return "-----BEGIN" in given or _BARE_KEY.match(given) is not None


def shown_path(path: str | os.PathLike[str]) -> str:
    """Returns a path as errors name it. Raises InvalidArgumentError for what is a PEM text, which it doesn't quote."""
    text = os.fsdecode(path)
    if is_pem_text(text):
        raise InvalidArgumentError("a PEM text was given in place of a path: give the path of its file")
    return shown(text, 200)


def encoded_path(path: str | bytes | os.PathLike[Any]) -> bytes:
    """Returns the bytes of a path, as the system takes it. Raises InvalidArgumentError for what it can't be."""
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        raise InvalidArgumentError(
            f"the path {quoted(path)} has surrogates that stand for no bytes: make it of its bytes by os.fsdecode()"
        ) from None
    if b"\0" in encoded:
        raise InvalidArgumentError(f"the path {quoted(path)} has a NUL byte")
    return encoded


@contextmanager
def open_regular(path: str | os.PathLike[str], named: str) -> Iterator[BinaryIO]:
    """Opens a regular file for reading. Anything else raises InvalidArgumentError, which begins with `named`: a named
    pipe without a writer isn't waited for."""
    encoded_path(path)
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise InvalidArgumentError(f"{named} isn't a regular file")
        yield file


def read_small(
    path: str | os.PathLike[str],
    named: str,
    most: int,
    check: Callable[[int], None] | None = None,
    *,
    unopened: str | None = None,
) -> bytes:
    """Returns the content of a regular file of at most `most` bytes. `check` is called with its descriptor before it is
    read. The system's errors are raised as Crossdock's, which begin with `named`.

    unopened: what errors begin with instead if there is no such file: its path may be a secret that was given in place
        of a path. They then name no more than the folder, if there is one.
    """
    try:
        with open_regular(path, named) as file:
            if check is not None:
                check(file.fileno())
            content = file.read(most + 1)
    except Error:
        raise  # some are the system's errors, too
    except FileNotFoundError:
        if unopened is None:
            raise NotFoundError(f"{named} doesn't exist") from None
        folder = os.path.dirname(path)
        where = " in the current folder"
        if folder:
            where = f" in the folder {shown_path(folder)}" if os.path.isdir(folder) else ", nor does its folder"
        raise NotFoundError(f"{unopened} doesn't exist{where}: give the file's path, not its content") from None
    except IsADirectoryError:
        raise InvalidArgumentError(f"{named} is a folder, not a file") from None
    except builtins.PermissionError as error:
        denied = PermissionError(f"{named} can't be read: permission denied")
        denied.errno = error.errno
        raise denied from None
    except OSError as error:
        failed = SystemError(f"{unopened or named} can't be read: {error.strerror}")
        failed.errno = error.errno
        raise failed from None
    if len(content) > most:
        raise InvalidArgumentError(f"{named} has more than {most:,} bytes")
    return content
