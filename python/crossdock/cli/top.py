"""`crossdock top`: looks at a running server."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

import crossdock as xd
from crossdock.cli.app import app
from crossdock.cli.help_texts import EXIT_CODES, HTTP_ADDRESS, TOKEN
from crossdock.cli.layout import terminal_width
from crossdock.cli.monitor import text
from crossdock.cli.monitor.look import Observed
from crossdock.cli.options import (
    Checksum,
    Timeout,
    TlsCertificate,
    TlsKey,
    TlsRoots,
    Uri,
    connected,
    refuse_remote_handle,
    tls_of,
)
from crossdock.cli.reporting import MissingPackageError, reported
from crossdock.cli.sections import Command


def _print_once(uri: str, server: Observed, interval: float, as_json: bool) -> None:
    """Prints one snapshot. Rates need two, an interval apart."""
    server.snapshot()
    time.sleep(interval)
    snapshot = server.snapshot()
    if as_json:
        text.print_object(uri, snapshot)
        return
    for line in text.text_lines(uri, snapshot, terminal_width()):
        print(line)


def _print_objects(uri: str, server: Observed, interval: float) -> None:
    """Prints a snapshot on each line until it is interrupted. One that has no server says so."""
    server.snapshot()  # A server that isn't there at first is an error.
    while True:
        time.sleep(interval)
        look = server.look()
        if look.error is None and look.snapshot is not None:
            text.print_object(uri, look.snapshot)
        else:
            text.print_error_object(uri, look.error or "")


def _show(server: Observed, interval: float) -> None:
    try:
        from crossdock.cli.monitor import screen
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise MissingPackageError(
            "the live view needs textual: pip install 'crossdock[top]'; --once and --web don't need it"
        ) from None
    server.snapshot()
    screen.run(server, interval)


def _serve_page(server: Observed, interval: float, address: str) -> None:
    from crossdock._http import Address
    from crossdock.cli.monitor import web

    try:
        at = Address.of(address)
    except xd.InvalidArgumentError as error:
        raise typer.BadParameter(str(error), param_hint="--web") from None
    server.snapshot()
    if not at.is_loopback:
        print(f"Everybody who reaches {address} can see this server's statistics.", file=sys.stderr)
    web.run(server, interval, at, lambda url: print(url, flush=True))


_EXAMPLES = """Examples:

crossdock top shm:flights

crossdock top tcp://host:7700 --once

crossdock top shm:flights --web 127.0.0.1:8080
"""

# The live view draws a whole terminal for each look.
_SECONDS, _LIVE_SECONDS = 1.0, 3.0


@app.command(
    cls=Command,
    short_help="Shows what a running server does: rates, leases, rejected clients.",
    epilog=_EXAMPLES + TOKEN + EXIT_CODES,
)
def top(
    uri: Uri,
    once: Annotated[
        bool, typer.Option("--once", help="Print the statistics once and end. Without a terminal, this is the default.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="For programs: a JSON object on a line at each interval; with --once, one.")
    ] = False,
    web: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help=f"Serve a page for browsers instead, and print its URL. {HTTP_ADDRESS}.",
            show_default=False,
        ),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            max=3600,
            metavar="SECONDS",
            help=f"The time between two updates. Default: {_LIVE_SECONDS:g} for the live view on a terminal, otherwise "
            f"{_SECONDS:g}.",
            show_default=False,
        ),
    ] = None,
    timeout: Timeout = 10.0,
    checksum: Checksum = None,
    tls_roots: TlsRoots = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Shows what a running server does: who reads what and how fast, who holds what and for how long, and who was
    rejected. On a terminal it goes on until you press q."""
    if web is not None and (once or as_json):
        raise typer.BadParameter("it serves a page, until it is ended: leave --once and --json out", param_hint="--web")
    with reported():
        refuse_remote_handle(uri)
        tls = tls_of([uri], tls_certificate, tls_key, roots=tls_roots)

    def connect() -> xd.Client:
        return connected(uri, timeout, checksum, tls=tls)

    with reported():
        server = Observed(uri, connect)
        seconds = interval or _SECONDS
        try:
            if web is not None:
                _serve_page(server, seconds, web)
            elif as_json and not once:
                _print_objects(uri, server, seconds)
            elif once or as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
                _print_once(uri, server, seconds, as_json)
            else:
                _show(server, interval or _LIVE_SECONDS)
        finally:
            server.close()
