"""`crossdock inspect`: shows what is in a file, or what a server sends."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import crossdock as xd
from crossdock._text import shown
from crossdock.cli import completion, inspection
from crossdock.cli.app import app
from crossdock.cli.help_texts import EXIT_CODES, TOKEN
from crossdock.cli.options import (
    Checksum,
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

_EXAMPLES = """Examples:

crossdock inspect flights.arrow --buffers

crossdock inspect shm:flights flights --wire
"""


@app.command(short_help="Shows what is in a file, or what a server sends.", epilog=_EXAMPLES + TOKEN + EXIT_CODES)
def inspect(
    target: Annotated[
        str,
        uri_argument(
            "A server, or an Arrow IPC file or stream file. A file whose name looks like a URI: './name:of'.",
            "URI|FILE",
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            autocompletion=completion.names,
            help="Of a server: the table or tensors to look at; else all of them, without batches.",
        ),
    ] = None,
    buffers: Annotated[bool, typer.Option("--buffers", help="Show each buffer: kind, size, where it is.")] = False,
    wire: Annotated[bool, typer.Option("--wire", help="Show the protocol's messages instead, as they pass.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="For programs: one JSON object; of a stream, one on each line.")
    ] = False,
    limit: Annotated[int, typer.Option(min=0, help="Show at most so many batches, and dictionaries; 0: all.")] = 10,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to connect in, and that each batch may take.")] = 10.0,
    checksum: Checksum = None,
    tls_roots: TlsRoots = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Shows what is in a file, or what a server sends: schema, batches, dictionaries, buffers, messages."""
    if not inspection.is_uri(target):
        for given, option in ((name, "NAME"), (wire or None, "--wire")):
            if given is not None:
                raise typer.BadParameter(f"{shown(target)} is not a URI; {option} is for the URI of a server")
        with reported():
            try:
                inspection.show_file(Path(target), buffers=buffers, as_json=as_json, limit=limit)
            except xd.InvalidDataError as error:
                if Path(target).suffix.lower() not in (".parquet", ".csv"):
                    raise
                raise xd.InvalidDataError(
                    f"{error}; inspect looks into Arrow files: `crossdock serve` reads {Path(target).suffix}, and "
                    f"`crossdock get URI NAME -o FILE.arrow` makes an Arrow file of what is served"
                ) from None
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
