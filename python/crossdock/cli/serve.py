"""`crossdock serve`: serves the tables in files."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

import crossdock as xd
from crossdock import _loading
from crossdock._names import shown_name
from crossdock._options import checked_name
from crossdock._text import shown
from crossdock.cli.app import app
from crossdock.cli.help_texts import EXIT_CODES, TOKEN
from crossdock.cli.observing import MetricsAddress, observed, set_ready
from crossdock.cli.options import (
    Checksum,
    RemoteReads,
    TlsCertificate,
    TlsKey,
    check_checksum,
    is_network,
    name_of,
    tls_of,
    token_of,
    trusted_of,
)
from crossdock.cli.output import pyarrow_for
from crossdock.cli.reporting import reported
from crossdock.cli.signals import on_end


class _StoppedError(Exception):
    """The program is to end."""


def _publish(server: xd.Server, name: str | bytes, path: Path, stable: str, stop: threading.Event) -> None:
    """Publishes a file. Shows on a terminal how much of it was read, and how long the rest may take, if it isn't passed
    as it lies. Returns early when the program is to end."""
    if not _loading.is_loadable(path, "auto"):
        server.publish(name, path, stable=stable)  # type: ignore[arg-type]
        return
    console = Console(stderr=True, emoji=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown_progress:
        task = shown_progress.add_task(escape(f"reading {shown(path.name)}"), total=1.0)

        def said(part: float) -> None:
            if stop.is_set():
                raise _StoppedError
            shown_progress.update(task, completed=part)

        try:
            pyarrow_for(path, "reading").enable_signal_handlers(False)  # ours end the reading
            server._publish_loaded(checked_name(name), _loading.load(path, said))
        except _StoppedError:
            return


_MOST_OF_A_NAME = 40  # A server's name has at most 48 bytes, and a number may be appended.
_MOST_NAMES = 100


def _server_name(table: str | bytes) -> str:
    """Makes a server's name from a table's: letters, digits, '.', '_' and '-', of which the first is a letter or
    digit."""
    name = (
        re.sub(r"[^A-Za-z0-9._]+", "-", table if isinstance(table, str) else "")
        .lstrip("._-")[:_MOST_OF_A_NAME]
        .rstrip("-")
    )
    return name or "tables"


def _server_at(
    uris: list[str],
    checksum: bool | None,
    remote_reads: Literal["trusted"] | None,
    flight: str | None,
    tls: xd.TLS | None,
) -> xd.Server:
    check_checksum(uris, checksum)
    token = token_of([*uris, flight] if flight else uris)
    try:
        return xd.serve(uri=uris, token=token, checksum=checksum, remote_reads=remote_reads, flight=flight, tls=tls)
    except xd.NotFoundError as error:
        # A host that isn't there, or an address that this machine doesn't have, as of the commands that connect: the
        # text begins with the scheme. Else it is the folder of a socket.
        if not is_network(str(error)):
            raise
        raise xd.ConnectionError(str(error)) from None


def _server_at_a_name(table: str | bytes, checksum: bool | None, flight: str | None, tls: xd.TLS | None) -> xd.Server:
    """Starts a server at the table's name, or at that name with the first free number, from 2 on."""
    check_checksum(["shm:"], checksum)
    name = _server_name(table)
    token = token_of([flight]) if flight else None
    for number in range(1, _MOST_NAMES):
        uri = f"shm:{name}" if number == 1 else f"shm:{name}-{number}"
        try:
            server = xd.serve(uri=uri, token=token, flight=flight, tls=tls)
        except xd.ConnectionError as error:
            if flight is not None and flight in str(error):
                raise
            continue  # A running server uses this name.
        if number > 1:
            print(f"shm:{name} is in use by another server of yours; this one is {uri}", file=sys.stderr)
        return server
    raise xd.ConnectionError(f"shm:{name} and all of its numbers are in use: choose a name with --uri shm:NAME")


_EXAMPLES = """Examples:

crossdock serve flights.arrow

crossdock serve flights.parquet planes.csv --uri tcp://*:7700 --uri shm:data

crossdock serve flights.arrow --flight 'grpc://*:8815'
"""


@app.command(short_help="Serves the tables in files, until Ctrl-C.", epilog=_EXAMPLES + TOKEN + EXIT_CODES)
def serve(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Arrow IPC files (served as they lie: no copy), or Parquet, CSV and JSON-lines files and folders of "
            "them (read with pyarrow, into shared memory).",
            show_default=False,
        ),
    ],
    name: Annotated[
        list[str] | None,
        typer.Option(help="The name of a file's table; once for each file, in their order. Else: the file's stem."),
    ] = None,
    uri: Annotated[
        list[str] | None,
        typer.Option(
            help="Where to listen, may be given more than once: 'shm:NAME' is a name of this user's own, "
            "'shm:/run/x.sock' a path; 'tcp:' picks a port of the loopback, 'tcp://*:7700' serves other machines, as "
            "'tcp+tls://*:7700', 'ucx://*:7700' and 'fabric://*:7700' do. Else: 'shm:' and the first table's name.",
            show_default=False,
        ),
    ] = None,
    stable: Annotated[
        str,
        typer.Option(help="'trust' that Arrow files don't change while they are served, or 'snapshot' them: one copy."),
    ] = "trust",
    flight: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            help="'grpc://127.0.0.1:8815': also listens there as an Arrow Flight server, by which any Flight client "
            "finds and reads the tables; 'grpc://*:8815' at every address; 'grpc+tls:' encrypts.",
            show_default=False,
        ),
    ] = None,
    checksum: Checksum = None,
    remote_reads: RemoteReads = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_client_roots: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Over tcp+tls and grpc+tls: the certificates (PEM) of the issuers of clients; every client must have "
            "one of them.",
            show_default=False,
        ),
    ] = None,
    metrics: MetricsAddress = None,
) -> None:
    """Serves the tables in FILE... until Ctrl-C, SIGTERM or SIGHUP. Prints the URI to connect to; each of several on a
    line."""
    names = [name_of(one, "--name") for one in name or ()] or [path.resolve().stem for path in files]
    if len(names) != len(files):
        raise typer.BadParameter(f"{len(files)} files need as many names, not {len(names)}", param_hint="--name")
    if len(set(names)) != len(names):
        twice = next(one for one in names if names.count(one) > 1)
        raise typer.BadParameter(
            f"{twice!r} would be served twice; give different names with --name", param_hint="--name"
        )
    if stable not in ("trust", "snapshot"):
        raise typer.BadParameter(f"'trust' or 'snapshot', not {stable!r}", param_hint="--stable")
    trusted = trusted_of(remote_reads)
    if trusted and not any(one.lower().startswith("ucx:") for one in uri or ()):
        raise typer.BadParameter("is for ucx: give --uri ucx://...", param_hint="--remote-reads")

    with reported():
        tls = tls_of(
            [*(uri or ["shm:"]), *([flight] if flight else [])], tls_certificate, tls_key, client_roots=tls_client_roots
        )

    stop = threading.Event()
    # Set before the URI is printed: a program that reads the URI may stop the server at once.
    on_end(lambda *_: stop.set())
    with (
        reported(),
        _server_at(uri, checksum, trusted, flight, tls)
        if uri
        else _server_at_a_name(names[0], checksum, flight, tls) as server,
        observed(server, metrics) as health,
    ):
        for one, path in zip(names, files, strict=True):
            if stop.is_set():
                return
            _publish(server, one, path, stable, stop)
        if stop.is_set():
            return
        set_ready(health, True)
        for one in (*server.uris, *([server.flight_uri] if server.flight_uri else [])):
            print(one, flush=True)
        for one in names if trusted else ():
            try:
                location = server.location(one)
            except xd.UnsupportedError as error:
                location = str(error)
            print(f"{shown(shown_name(one))}: {shown(location)}", file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            print(f"Ctrl-C ends it. From another shell: crossdock ls {server.uri}", file=sys.stderr)
        # Wakes regularly, so that log lines of the server's thread are delivered.
        while not stop.wait(0.5):
            pass
        set_ready(health, False, "draining")
