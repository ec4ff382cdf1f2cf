"""The command `crossdock`: a module for each subcommand, and what they share."""

from __future__ import annotations

import importlib

from crossdock.cli.app import app

__all__ = ["main"]

# Each module adds its command to `app`; the help shows them in this order.
for _command in ("serve", "relay", "top", "get", "ls", "inspect", "check", "devices"):
    importlib.import_module(f"crossdock.cli.{_command}")


def main() -> None:
    """The console script."""
    app(prog_name="crossdock")
