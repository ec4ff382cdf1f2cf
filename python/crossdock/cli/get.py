"""`crossdock get`: gets a table or tensors, into a file or to look at it."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

import crossdock as xd
from crossdock import _native, _values
from crossdock._names import shown_name
from crossdock._text import quoted, shown
from crossdock.cli import completion, inspection, tensor_output
from crossdock.cli.app import app
from crossdock.cli.config import shown_names
from crossdock.cli.help_texts import EXIT_CODES, TOKEN
from crossdock.cli.layout import terminal_width, wrapped
from crossdock.cli.meter import Meter
from crossdock.cli.options import (
    Checksum,
    RemoteReads,
    Timeout,
    TlsCertificate,
    TlsKey,
    TlsRoots,
    Uri,
    connected,
    name_of,
    tls_of,
    trusted_of,
)
from crossdock.cli.output import print_left_out, print_table, pyarrow_for
from crossdock.cli.reporting import reported
from crossdock.cli.sections import Command
from crossdock.cli.signals import on_end
from crossdock.cli.writing import FORMATS, check_content, check_format, check_terminal, write_file, write_stdout

_HEAD_ROWS = 10


def _print_head(batches: list[xd.RecordBatch], rows: int) -> None:
    """Prints the first of `rows` rows."""
    if not batches or not len(batches[0].schema):
        return
    names = batches[0].schema.names
    numbers = {i for i, column in enumerate(batches[0]) if column.type.startswith(("int", "uint", "float", "decimal"))}
    # What is cut on a terminal needn't be made whole.
    text_of = _values.text_of if terminal_width() is None else _values.short_text
    shown_rows = [[text_of(column, i) for column in batch] for batch in batches for i in range(len(batch))]
    left_out = print_table(names, shown_rows, numbers)
    if terminal_width() is not None:
        print_left_out(left_out, rows - len(shown_rows), "; --columns A,B chooses" if left_out else "")


def _first(batches: Iterable[xd.RecordBatch], most: int | None) -> Iterator[xd.RecordBatch]:
    """Yields the first `most` rows; None: all."""
    left = most
    for batch in batches:
        if left is None:
            yield batch
            continue
        yield batch[:left]
        left -= min(left, len(batch))
        if not left:
            return


_STDOUT = "-"  # this text alone: './-' is a file


def _check_output(output: str | None, form: str | None, as_json: bool) -> Path | None:
    """Checks the options that say where the data goes, before anything is asked for. Returns the file, if it is one."""
    if form is not None and f".{form}" not in FORMATS:
        raise typer.BadParameter(
            f"must be one of {', '.join(one[1:] for one in FORMATS)}, not {quoted(form)}", param_hint="--format"
        )
    if form is not None and output != _STDOUT:
        raise typer.BadParameter("it is for -o -; the ending of a file selects its format", param_hint="--format")
    if as_json and output is not None:
        raise typer.BadParameter(
            "it prints to stdout: leave -o out, or write -o FILE.jsonl without --json", param_hint="--json"
        )
    if output == _STDOUT:
        check_terminal(f".{form or 'arrows'}")
    if output is None or output == _STDOUT:
        return None
    file = Path(output)
    check_format(file)
    with reported():
        if not file.parent.is_dir():
            raise xd.NotFoundError(f"{file.parent} doesn't exist or is not a folder; create it to write {file.name}")
        if file.suffix.lower() in FORMATS and file.suffix.lower() != ".jsonl":
            pyarrow_for(file, "writing")  # before the clock starts
    return file


def _names_in(columns: str | None) -> list[str] | None:
    """The names that --columns has; None: all columns."""
    if columns is None:
        return None
    names = [column.strip() for column in columns.split(",") if column.strip()]
    if not names:
        raise typer.BadParameter(
            "it names no column: write A,B, or leave it out for all of them", param_hint="--columns"
        )
    return names


_EXAMPLES = """Examples:

crossdock get shm:flights flights -n 5

crossdock get tcp://host:7700 flights -o flights.parquet --columns day,delay

crossdock get shm:flights flights --json | jq .delay

crossdock get shm:flights flights -o - --format csv | head
"""


@app.command(
    cls=Command,
    short_help="Gets a table or tensors: into a file, or to look at it.",
    epilog=_EXAMPLES + TOKEN + EXIT_CODES,
)
def get(
    uri: Uri,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            autocompletion=completion.names,
            help="The name of a table or of tensors, as `crossdock ls` shows it; a name of bytes is written as in "
            "Python, in a shell with quotes around it: \"b'\\x00'\". May be left out if the server has only one.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write to this file. Its ending selects the format: .arrow or .feather (Arrow file), .arrows (Arrow "
            "stream), .parquet, .csv, .jsonl (a JSON object for each row); for a tensor .npy. '-' is stdout, to which "
            "an Arrow stream is written if --format doesn't say otherwise.",
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="The format of -o -: arrows, arrow, feather, parquet, csv or jsonl.",
            show_default=False,
        ),
    ] = None,
    rows: Annotated[
        int | None, typer.Option("-n", "--rows", min=1, metavar="ROWS", help="Only the first ROWS rows.")
    ] = None,
    columns: Annotated[str | None, typer.Option(metavar="A,B", help="Only these columns, in this order.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="For programs: a JSON object on a line for each row, or for each tensor.")
    ] = False,
    timeout: Timeout = 10.0,
    checksum: Checksum = None,
    remote_reads: RemoteReads = None,
    tls_roots: TlsRoots = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Gets a table or tensors, and writes them to a file. Without a file, shows the schema and the first rows, or the
    values of the tensors."""
    on_end(signal.default_int_handler)  # All signals act as Ctrl-C, so that a partial file is removed.
    file = _check_output(output, form, as_json)
    names = _names_in(columns)
    trusted = trusted_of(remote_reads)
    wanted = None if name is None else name_of(name, "NAME")
    with reported():
        tls = tls_of([uri], tls_certificate, tls_key, roots=tls_roots)
    with reported(), connected(uri, timeout, checksum, trusted, tls) as client:
        catalog = client.list()
        if wanted is None:
            wanted = _only_name(uri, catalog)
        entry = next((entry for entry in catalog if entry.name == wanted), None)
        if entry is not None and entry.kind != "table":
            _refuse_for_tensors(entry, {"--columns": columns, "-n": rows, "-o -": output == _STDOUT or None})
            if file is not None:
                check_content(file, entry.kind)
            tensor_output.get(client, entry, file, timeout, as_json)
            return
        if file is not None:
            check_content(file, "table")
        known = None if entry is None else entry.rows
        total = known if rows is None else rows if known is None else min(rows, known)
        to_stdout = as_json or output == _STDOUT
        with (
            client.get(wanted, columns=names, timeout=timeout) as reader,
            Meter(wanted, total, to_stdout, parts=rows is not None) as meter,
        ):
            batches = meter.counting(_first(reader, rows))
            if to_stdout:
                write_stdout(".jsonl" if as_json else f".{form or 'arrows'}", reader.schema, batches)
                return
            if file is not None:
                write_file(file, reader.schema, batches)
            else:
                head = list(_first(batches, rows or _HEAD_ROWS))
                for _ in batches:  # what is left is taken, too: the summary is about all of it
                    pass
        if file is None:
            print(wrapped(meter.summary(), terminal_width()))
            inspection.print_schema(_native.describe_schema(reader.schema), "  ")
            print()
            _print_head(head, meter.rows)
        else:
            print(f"{meter.summary()}, written to {shown(str(file))}")


def _only_name(uri: str, catalog: list[_native.CatalogEntry]) -> str | bytes:
    """The name that there is, where no other is asked for."""
    if len(catalog) != 1:
        known = shown_names(entry.name for entry in catalog) or "nothing"
        raise xd.InvalidArgumentError(f"give the NAME of what to get: {shown(uri)} has {known}")
    return catalog[0].name


def _refuse_for_tensors(entry: _native.CatalogEntry, given: dict[str, object]) -> None:
    option = next((option for option, value in given.items() if value is not None), None)
    if option is not None:
        raise xd.InvalidArgumentError(
            f"{option} is for tables: {shown(shown_name(entry.name))} is {tensor_output.content_text(entry)}"
        )
