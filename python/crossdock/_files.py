"""Files that are read whole, at paths that others may change."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from crossdock.errors import InvalidArgumentError


@contextmanager
def open_regular(path: str | os.PathLike[str], named: str) -> Iterator[BinaryIO]:
    """Opens a regular file for reading. Anything else raises InvalidArgumentError, which begins with `named`: a named
    pipe without a writer isn't waited for."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise InvalidArgumentError(f"{named} isn't a regular file")
        yield file
