"""The command `crossdock`: a module for each subcommand, and what they share."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

__all__ = ["application", "main"]

# Each is a module, which adds its command to the application; the help shows them in this order.
_COMMANDS = ("serve", "relay", "top", "get", "ls", "inspect", "check", "devices", "hash_password")
# The packages of the extra `cli`, by the names that they are imported by.
_PACKAGES = ("typer", "rich")


def _open_standard_descriptors() -> None:
    """Opens what was closed of stdin, stdout and stderr: else a socket would get its number, and what is printed."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, "w", encoding="utf-8", errors="replace", closefd=False))  # noqa: SIM115


def application(asked: str | None = None) -> typer.Typer:
    """Returns the application with all of its commands. With the name of one of them as `asked`, it has that one alone:
    the others' modules take longer to import than most commands take to run.

    Raises ModuleNotFoundError without the packages that it needs.
    """
    from crossdock.cli.app import app

    module = (asked or "").replace("-", "_")
    for command in [module] if module in _COMMANDS else _COMMANDS:
        importlib.import_module(f"crossdock.cli.{command}")
    return app


def main() -> None:
    """The console script."""
    _open_standard_descriptors()
    try:
        app = application(sys.argv[1] if len(sys.argv) > 1 else None)
        from crossdock.cli.completion import join_words_of_bash
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _PACKAGES:
            raise
        sys.exit(f"crossdock: the command needs {missing}, which isn't installed: pip install 'crossdock[cli]'")
    join_words_of_bash(os.environ)
    app(prog_name="crossdock")
