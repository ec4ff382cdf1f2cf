"""The command `crossdock`: a module for each subcommand, and what they share."""

from __future__ import annotations

import importlib
import os
import sys

from crossdock.cli.app import app
from crossdock.cli.completion import join_words_of_bash

__all__ = ["main"]

# Each module adds its command to `app`; the help shows them in this order.
for _command in ("serve", "relay", "top", "get", "ls", "inspect", "check", "devices", "hash_password"):
    importlib.import_module(f"crossdock.cli.{_command}")


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


def main() -> None:
    """The console script."""
    _open_standard_descriptors()
    join_words_of_bash(os.environ)
    app(prog_name="crossdock")
