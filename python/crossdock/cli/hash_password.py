"""`crossdock hash-password`: makes a line for the file of logins."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated

import typer

import crossdock as xd
from crossdock._text import check_utf8
from crossdock.cli.app import app
from crossdock.cli.help_texts import EXIT_CODES
from crossdock.cli.reporting import reported
from crossdock.cli.secrets import hashed_login
from crossdock.cli.sections import Command

_EXAMPLES = """Examples:

crossdock hash-password ada >> logins
"""


@app.command(cls=Command, short_help="Makes a line for the file of `serve --logins`.", epilog=_EXAMPLES + EXIT_CODES)
def hash_password(
    user: Annotated[str, typer.Argument(metavar="USER", help="The user's name.", show_default=False)],
) -> None:
    """Reads a password from the terminal or from stdin. Prints a line for the file of `crossdock serve --logins`: the
    name of the user and the hash of the password (scrypt)."""
    with reported():
        if sys.stdin is not None and sys.stdin.isatty():
            password = getpass.getpass("Password: ")
            if getpass.getpass("Again: ") != password:
                raise xd.InvalidArgumentError("the two passwords differ")
        else:
            password = "" if sys.stdin is None else sys.stdin.readline().rstrip("\r\n")
        check_utf8(password, "the password")
        if not 1 <= len(password.encode()) <= 1024:
            raise xd.InvalidArgumentError("a password has 1 to 1024 bytes")
        print(hashed_login(user, password))
