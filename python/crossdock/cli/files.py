"""Files that a command is given: small ones, read whole and checked before, and those to serve."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import crossdock as xd
from crossdock import _loading
from crossdock._files import open_regular


def read_small(path: Path, named: str, kind: str, most: int, check: Callable[[int], None]) -> bytes:
    """Returns the content of a regular file of at most `most` bytes. `check` is called with its descriptor before it is
    read. The system's errors are raised as Crossdock's, which begin with `named`, or say what `kind` is wanted."""
    try:
        with open_regular(path, named) as file:
            check(file.fileno())
            content = file.read(most + 1)
    except xd.Error:
        raise  # some are the system's errors, too
    except FileNotFoundError:
        raise xd.NotFoundError(f"{named} doesn't exist") from None
    except IsADirectoryError:
        raise xd.InvalidArgumentError(f"{path} is a folder, not a {kind}") from None
    except PermissionError:
        raise xd.PermissionError(f"{named} can't be read: permission denied") from None
    if len(content) > most:
        raise xd.InvalidArgumentError(f"{named} has more than {most:,} bytes")
    return content


def check_is_no_url(path: str) -> None:
    """Raises InvalidArgumentError for a URL of a file to serve."""
    _loading.check_path(path, "serve", "download it first, and serve the file")
