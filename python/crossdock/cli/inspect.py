"""`crossdock inspect`: shows what is in a file, or what a server sends."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

import crossdock as xd
from crossdock import _loading, _options
from crossdock._text import shown
from crossdock.cli import completion, inspection
from crossdock.cli.app import app
from crossdock.cli.help_texts import EXIT_CODES, TOKEN
from crossdock.cli.options import (
    Checksum,
    Timeout,
    TlsCertificate,
    TlsKey,
    TlsRoots,
    connected,
    name_of,
    refuse_remote_handle,
    tls_of,
    uri_argument,
)
from crossdock.cli.reporting import reported
from crossdock.cli.sections import Command

# Files that inspect doesn't read, by their format.
_OTHERS = {"parquet": "a Parquet file", "csv": "a CSV file", "json": "a JSON file"}

_EXAMPLES = """Examples:

crossdock inspect flights.arrow --buffers

crossdock inspect shm:flights flights --wire
"""


@app.command(
    cls=Command, short_help="Shows what is in a file, or what a server sends.", epilog=_EXAMPLES + TOKEN + EXIT_CODES
)
def inspect(
    target: Annotated[
        str,
        uri_argument(
            "The URI of a server, or an Arrow IPC file or stream file. If a file's name looks like a URI, write './' "
            "before it: './name:of'.",
            "URI|FILE",
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            autocompletion=completion.names,
            help="The table or tensors of a server to look at. Default: the schemas of all of them.",
        ),
    ] = None,
    buffers: Annotated[
        bool, typer.Option("--buffers", help="Show each buffer: its kind, its size and where it is.")
    ] = False,
    wire: Annotated[
        bool, typer.Option("--wire", help="Show the messages of the protocol instead, as they are sent and received.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="For programs: one JSON object; with NAME, one on each line.")
    ] = False,
    limit: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Show at most N batches, and at most N dictionaries; 0: all of them."),
    ] = 10,
    timeout: Timeout = 10.0,
    checksum: Checksum = None,
    tls_roots: TlsRoots = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Shows what is in a file, or what a server sends: schema, batches, dictionaries, buffers, messages."""
    if not _options.is_uri(target):
        for given, option in ((name, "NAME"), (wire or None, "--wire")):
            if given is not None:
                raise typer.BadParameter(f"{shown(target)} is not a URI; {option} is for the URI of a server")
        with reported():
            try:
                inspection.show_file(Path(target), buffers=buffers, as_json=as_json, limit=limit)
            except (xd.InvalidDataError, xd.InvalidArgumentError) as error:
                what = "a folder" if Path(target).is_dir() else _OTHERS.get(_loading.format_of(target) or "")
                if what is None:
                    raise
                raise type(error)(
                    f"{target} is {what}, and `crossdock inspect` reads Arrow IPC files only; `crossdock serve "
                    f"{shlex.quote(target)}` serves it and prints a URI, and `crossdock get URI` shows the schema and "
                    "the first rows"
                ) from None
            except xd.NotFoundError as error:
                raise xd.NotFoundError(f"{error}{_options.server_hint(target)}") from None
        return
    if name is None and (wire or buffers):
        option = "--wire" if wire else "--buffers"
        raise typer.BadParameter(f"{option} needs the NAME of a table; see `crossdock ls`")
    if wire and buffers:
        raise typer.BadParameter("--wire shows messages, --buffers shows the content of batches: give only one of them")
    with reported():
        refuse_remote_handle(target)
        tls = tls_of([target], tls_certificate, tls_key, roots=tls_roots)
    wanted = None if name is None else name_of(name, "NAME")
    with reported(), connected(target, timeout, checksum, tls=tls) as client:
        if wanted is None:
            inspection.show_catalog(target, client, as_json=as_json)
        elif wire:
            inspection.show_wire(wanted, client, as_json=as_json, limit=limit, timeout=timeout)
        else:
            inspection.show_stream(wanted, client, buffers=buffers, as_json=as_json, limit=limit, timeout=timeout)
