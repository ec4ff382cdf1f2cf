"""Packages that Crossdock doesn't need itself, and that some calls need."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def needed(text: str, install: str) -> Iterator[None]:
    """Says what to install if an import of its block finds no such package.

    text: what needs which package, as "to_polars() needs polars".
    install: what pip is given.

    Raises `ModuleNotFoundError`.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{text}: pip install {install}", name=error.name) from error
