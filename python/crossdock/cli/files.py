"""Files that a command is given to serve."""

from __future__ import annotations

from crossdock import _loading


def check_is_no_url(path: str) -> None:
    """Raises InvalidArgumentError for a URL of a file to serve."""
    _loading.check_path(path, "serve", "download it first, and serve the file")
