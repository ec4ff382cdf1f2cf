"""`crossdock ls`: lists the tables and tensors of a server, or servers."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

import crossdock as xd
from crossdock import _native
from crossdock._names import shown_name
from crossdock.cli import inspection, tensor_output
from crossdock.cli.app import app
from crossdock.cli.help_texts import EXIT_CODES, TOKEN
from crossdock.cli.options import (
    Checksum,
    Timeout,
    TlsCertificate,
    TlsKey,
    TlsRoots,
    connected,
    refuse_remote_handle,
    tls_of,
    uri_argument,
)
from crossdock.cli.output import number, print_json, print_left_out, print_table
from crossdock.cli.reporting import reported
from crossdock.cli.sections import Command

_MOST_OF_A_WAIT = 1.0  # The most seconds to wait for one of several servers.


def _list_servers(timeout: float, as_json: bool) -> None:
    """Prints this user's servers that listen at a name, with the names of their tables."""
    rows = []
    servers: list[dict[str, Any]] = []
    for name in _native.shm_names():
        uri = f"shm:{name}"
        try:
            with xd.connect(uri, timeout=min(timeout, _MOST_OF_A_WAIT)) as client:
                tables = [shown_name(entry.name) for entry in client.list()]
        except xd.ConnectionError:
            continue  # The server was killed, or has just ended.
        except xd.Error as error:
            rows.append((uri, "?", type(error).__name__))
            servers.append({"uri": uri, "tables": None, "error": f"{type(error).__name__}: {error}"})
        else:
            rows.append((uri, f"{len(tables):,}", ", ".join(tables)))
            servers.append({"uri": uri, "tables": tables, "error": None})
    if as_json:
        print_json({"servers": servers})
    elif rows:
        print_table(("uri", "tables", "names"), rows, frozenset((1,)))
    else:
        print("No server of this user listens at a name; `crossdock serve FILE` starts one.", file=sys.stderr)


_EXAMPLES = """Examples:

crossdock ls

crossdock ls tcp://host:7700 --json
"""


@app.command(
    cls=Command,
    short_help="Lists the tables and tensors of a server, or your servers.",
    epilog=_EXAMPLES + TOKEN + EXIT_CODES,
)
def ls(
    uri: Annotated[
        str | None,
        uri_argument(
            "The URI of a server or a relay, as it printed it. Default: all of your servers that have a name."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON object.")] = False,
    timeout: Timeout = 10.0,
    checksum: Checksum = None,
    tls_roots: TlsRoots = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Lists the tables and tensors of a server. Without URI, lists this user's servers that listen at a name."""
    if uri is None:
        with reported():
            _list_servers(timeout, as_json)
        return
    with reported():
        refuse_remote_handle(uri)
        tls = tls_of([uri], tls_certificate, tls_key, roots=tls_roots)
    with reported(), connected(uri, timeout, checksum, tls=tls) as client:
        if as_json:
            inspection.show_catalog(uri, client, as_json=True)
            return
        entries = client.list()
        rows = [
            (
                shown_name(entry.name),
                number(entry.rows) if entry.kind == "table" else "",
                number(entry.bytes),
                (number(None if entry.schema is None else len(entry.schema)) if entry.kind == "table" else ""),
                entry.device,
                tensor_output.content_text(entry),
            )
            for entry in entries
        ]
        header: tuple[str, ...] = ("name", "rows", "bytes", "columns", "device", "tensors")
        if all(entry.kind == "table" for entry in entries):
            header, rows = header[:-1], [row[:-1] for row in rows]  # type: ignore[misc]
        left_out = print_table(header, rows, frozenset((1, 2, 3)))
        print_left_out(left_out)
