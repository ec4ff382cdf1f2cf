"""`crossdock relay`: fetches tables once for all processes of a machine."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

import crossdock as xd
from crossdock.cli.app import app
from crossdock.cli.help_texts import EXIT_CODES, TOKEN
from crossdock.cli.observing import MetricsAddress, observed, print_addresses, set_ready
from crossdock.cli.options import (
    Checksum,
    Timeout,
    TlsCertificate,
    TlsKey,
    TlsRoots,
    bytes_of,
    check_checksum,
    login_of,
    network_hint,
    refuse_file,
    refuse_remote_handle,
    stats_option,
    tls_of,
    token_of,
)
from crossdock.cli.reporting import reported, say
from crossdock.cli.running import GRACE_SECONDS, Grace, Running
from crossdock.cli.sections import Command
from crossdock.cli.serve_options import Stats

log = logging.getLogger("crossdock.cli")

_EXAMPLES = """Examples:

crossdock relay tcp://host:7700 --at shm:flights --max-memory 8G
"""


@app.command(
    cls=Command,
    short_help="Fetches tables once for all processes of this machine.",
    epilog=_EXAMPLES + TOKEN + EXIT_CODES,
)
def relay(
    upstream: Annotated[
        list[str],
        typer.Argument(
            metavar="URI",
            help="The URI of the server to fetch from, as it printed it. Of several, the first one that answers is "
            "used, and another one if that server ends.",
            show_default=False,
        ),
    ],
    at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URI",
            help="Where to listen, as with `crossdock serve --uri`; may be given more than once. Relays of other "
            "machines can fetch from a relay that listens at a network address. Default: 'shm:', which picks a name.",
            show_default=False,
        ),
    ] = None,
    max_memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="The most memory for tables: a number of bytes, or such as 800M or 64G (K, M, G and T are powers of "
            "1024). Above that, the relay drops the table whose last request is the oldest. Default: a quarter "
            "of the machine's memory.",
            show_default=False,
        ),
    ] = None,
    max_age: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="How long a table is served without asking the server whether it has changed.",
        ),
    ] = 0.0,
    stale: Annotated[
        bool, typer.Option("--stale/--no-stale", help="Serve the tables in memory while the server can't be reached.")
    ] = True,
    timeout: Timeout = 10.0,
    grace: Grace = None,
    checksum: Checksum = None,
    tls_roots: TlsRoots = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    stats: Stats = None,
    metrics: MetricsAddress = None,
) -> None:
    """Fetches tables from a server when processes of this machine request them, each table once, and serves it to all
    of them, until Ctrl-C, SIGTERM or SIGHUP. Prints the URI to connect to. Each URI is on a line of its own; the
    address of --metrics is on the last line."""
    uris = at or ["shm:"]
    memory = None if max_memory is None else bytes_of(max_memory, "--max-memory")
    # Before the URI is printed: a program that reads the URI may stop the relay at once.
    with reported(), Running(GRACE_SECONDS if grace is None else grace) as running:
        for uri in upstream:
            refuse_file(uri)
            refuse_remote_handle(uri)
        tls = tls_of([*upstream, *uris], tls_certificate, tls_key, roots=tls_roots)
        check_checksum(upstream, checksum)
        try:
            made = xd.relay(
                upstream,
                uris,
                max_memory=memory,
                max_age=max_age,
                stale=stale,
                timeout=timeout,
                token=token_of([*upstream, *uris]),
                login=login_of(upstream),
                checksum=checksum,
                tls=tls,
                stats=stats_option(stats),
            )
        except (xd.SchemeError, xd.UriError) as error:
            raise type(error)(f"{error}{next(filter(None, map(network_hint, [*upstream, *uris])), '')}") from None
        with made, observed(made, metrics) as health:
            set_ready(health, True)
            for one in made.uris:
                log.info("listening at %s", one)
            print_addresses(made.uris, health)
            if sys.stderr.isatty():
                say(f"Ctrl-C ends it. From another shell: crossdock ls {made.uri}")
            running.serve(made, lambda: f"relaying {upstream[0]} at {' '.join(made.uris)}")
            set_ready(health, False, "draining")
            running.end(made)
