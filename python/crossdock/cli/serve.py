"""`crossdock serve`: serves the tables in files."""

from __future__ import annotations

import logging
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

import crossdock as xd
from crossdock import _loading, _options
from crossdock._names import shown_name
from crossdock._text import counted, quoted
from crossdock.cli import serve_options as of
from crossdock.cli import serve_setup
from crossdock.cli.app import app
from crossdock.cli.config import TableSource
from crossdock.cli.files import check_is_no_url
from crossdock.cli.help_texts import EXIT_CODES, TOKEN
from crossdock.cli.observing import MetricsAddress, check_metrics, observed, print_addresses, set_ready
from crossdock.cli.options import SCHEMES, Checksum, RemoteReads, TlsCertificate, TlsKey, name_of
from crossdock.cli.reloading import Reloader, apply_run_time_settings
from crossdock.cli.reporting import reported, say
from crossdock.cli.running import Grace, Running, StoppedError
from crossdock.cli.sections import SectionedCommand
from crossdock.cli.serve_setup import Authenticator, Setup, read_setup, start
from crossdock.cli.settings import given_options
from crossdock.cli.tables import Tables, naming_source, state_of

log = logging.getLogger("crossdock.cli")

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


def _uri_of_tables(setup: Setup) -> str:
    """Returns the URI of a server for which none is given: the first table's name."""
    return f"shm:{_server_name(next(iter(setup.tables), ''))}"


def _server_at_a_name(setup: Setup, authenticator: Authenticator | None) -> xd.Server:
    """Starts a server at the first table's name, or at that name with the first free number, from 2 on."""
    flight = setup.settings.get("flight")
    first = _uri_of_tables(setup)
    for number in range(1, _MOST_NAMES):
        uri = first if number == 1 else f"{first}-{number}"
        try:
            server = start(setup, [uri], authenticator)
        except xd.ConnectionError as error:
            if flight is not None and flight in str(error):
                raise
            continue  # A running server uses this name.
        if number > 1:
            say(f"{first} is in use by another server of yours; this one is {uri}")
        return server
    raise xd.ConnectionError(f"{first} and all of its numbers are in use: choose a name with --uri shm:NAME")


_EXAMPLES = """Examples:

crossdock serve flights.arrow

crossdock serve flights.parquet planes.csv --uri 'tcp://*:7700' --uri shm:data

crossdock serve flights.arrow --flight 'grpc://*:8815'
"""


def _refuse_uri(file: str) -> None:
    """Refuses the URI of a server where a file is expected."""
    if _options.is_uri(file) and _options.scheme_of(file) in SCHEMES and not os.path.exists(file):
        raise xd.InvalidArgumentError(
            f"{file} is the URI of a server, and a file to serve is expected here; to listen at this URI, give the "
            f"file and --uri {file}"
        )


def _named_files(files: list[Path], names: list[str]) -> dict[str | bytes, TableSource]:
    named = [name_of(one, "--name") for one in names] or [_loading.stem_of(path.resolve().name) for path in files]
    if len(named) != len(files):
        raise typer.BadParameter(
            f"{counted(len(named), 'name')} for {counted(len(files), 'file')}; give one for each", param_hint="--name"
        )
    if len(set(named)) != len(named):
        twice = next(one for one in named if named.count(one) > 1)
        raise typer.BadParameter(
            f"{quoted(twice)} would be served twice; give different names with --name", param_hint="--name"
        )
    return {name: TableSource(path, None) for name, path in zip(named, files, strict=True)}


def _check(setup: Setup) -> None:
    """Checks what can be without a server, and says that it is right."""
    serve_setup.check(setup, list(setup.settings.get("uri", ())) or [_uri_of_tables(setup)])
    check_metrics(setup.settings.get("metrics"))
    for source in setup.tables.values():
        state_of(source)
        with naming_source(source):
            if not stat.S_ISREG(mode := os.stat(source.path).st_mode) and not stat.S_ISDIR(mode):
                raise xd.InvalidArgumentError(f"{source.path} is neither a file nor a folder")
            if not os.access(source.path, os.R_OK):
                raise xd.PermissionError(f"{source.path} can't be read: permission denied")
            _loading.is_loadable(source.path, "auto")
    print(f"valid: {counted(len(setup.tables), 'table')}, {counted(len(setup.settings), 'setting')}")


def _print_locations(server: xd.Server, names: Mapping[str | bytes, object]) -> None:
    for one in names:
        try:
            location = server.location(one)
        except xd.UnsupportedError as error:
            location = str(error)
        say(f"{shown_name(one)}: {location}")


@app.command(
    cls=SectionedCommand, short_help="Serves the tables in files, until Ctrl-C.", epilog=_EXAMPLES + TOKEN + EXIT_CODES
)
def serve(
    context: typer.Context,
    files: Annotated[
        list[str] | None,  # a Path of a URL would lose its slashes
        typer.Argument(
            metavar="FILE",
            help="Arrow IPC files, which are served without a copy if they aren't compressed; Parquet, CSV and "
            "JSON-lines files; or folders with files of one of these formats. pyarrow reads all but single Arrow files "
            "into shared memory.",
            show_default=False,
        ),
    ] = None,
    name: of.Name = None,
    uri: of.Uri = None,
    stable: of.Stable = None,
    checksum: Checksum = None,
    remote_reads: RemoteReads = None,
    config: of.ConfigFile = None,
    check: of.Check = False,
    grace: Grace = None,
    users: of.Users = None,
    token_file: of.TokenFile = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_client_roots: of.TlsClientRoots = None,
    stats: of.Stats = None,
    metrics: MetricsAddress = None,
    flight: of.Flight = None,
    puts: of.Puts = None,
    max_put: of.MaxPut = None,
    logins: of.LoginsFile = None,
    ticket_keys: of.TicketKeys = None,
    ticket_lifetime: of.TicketLifetime = None,
    login_lifetime: of.LoginLifetime = None,
    window: of.Window = None,
    lease_limit: of.LeaseLimit = None,
    lease_patience: of.LeasePatience = None,
    max_leases: of.MaxLeases = None,
    max_streams: of.MaxStreams = None,
    max_connections: of.MaxConnections = None,
    source_threads: of.SourceThreads = None,
    wait: of.Wait = None,
    limits: of.LimitsOf = None,
) -> None:
    """Serves the tables in files, and those of a configuration file, until Ctrl-C or SIGTERM. Prints the URI to
    connect to. Each URI is on a line of its own; the address of --metrics is on the last line."""
    if not files and config is None:
        raise typer.BadParameter("give a file, or --config", param_hint="FILE")
    given = _named_files([Path(file) for file in files or []], name or [])

    def read() -> Setup:
        return read_setup(config, given_options(context.params), given)

    with reported():
        for file in files or []:
            _refuse_uri(file)
            check_is_no_url(file)
        setup = read()
        if check:
            _check(setup)
            return
        # Before the URI is printed: a program that reads the URI may stop the server at once.
        with Running(reloads=config is not None) as running:
            apply_run_time_settings(setup, running)
            running.manager.status(f"reading {counted(len(setup.tables), 'table')}")
            _serve(setup, read, running)


def _serve(setup: Setup, read: Callable[[], Setup], running: Running) -> None:
    authenticator = None if setup.logins is None else Authenticator(setup.logins)
    uris = setup.settings.get("uri")
    with (
        start(setup, list(uris), authenticator) if uris else _server_at_a_name(setup, authenticator) as server,
        observed(server, setup.settings.get("metrics")) as health,
    ):
        tables = Tables(server, running.check)
        reloader = Reloader(server, tables, setup, read, authenticator, running)
        try:
            addresses = (*server.uris, *([server.flight_uri] if server.flight_uri else []))
            for one in addresses:
                log.info("listening at %s", one)
            tables.publish(setup.tables)
            running.check()
            set_ready(health, True)
            print_addresses(addresses, health)
            if setup.settings.get("remote_reads"):
                _print_locations(server, setup.tables)
            if sys.stderr.isatty():
                say(f"Ctrl-C ends it. From another shell: crossdock ls {server.uri}")
            running.serve(server, reloader.status, reloader)
        except StoppedError:
            pass
        set_ready(health, False, "draining")
        running.end(server)
