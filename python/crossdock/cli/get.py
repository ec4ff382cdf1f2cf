"""`crossdock get`: gets a table or tensors, into a file or to look at it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import crossdock as xd
from crossdock import _native
from crossdock._names import shown_name
from crossdock._text import shown
from crossdock.cli import inspection, tensor_output
from crossdock.cli.app import app
from crossdock.cli.help_texts import EXIT_CODES, TOKEN
from crossdock.cli.layout import terminal_width, wrapped
from crossdock.cli.options import (
    Checksum,
    RemoteReads,
    TlsCertificate,
    TlsKey,
    TlsRoots,
    connected,
    name_of,
    tls_of,
    trusted_of,
)
from crossdock.cli.output import counted, print_left_out, print_table, pyarrow_for, size
from crossdock.cli.reporting import reported
from crossdock.cli.signals import on_end

_FORMATS = (".arrow", ".arrows", ".feather", ".parquet", ".csv")
_TENSOR_FORMATS = (".npy",)


def _check_format(target: Path) -> None:
    if target.is_dir():
        raise typer.BadParameter(f"{shown(str(target))} is a folder; give a file in it", param_hint="--output")
    if target.suffix.lower() not in _FORMATS + _TENSOR_FORMATS:
        raise typer.BadParameter(
            f"{target} must end in {', '.join(_FORMATS)}, or of a tensor in {_TENSOR_FORMATS[0]}: the ending selects "
            "the format",
            param_hint="--output",
        )


def _check_content(target: Path, kind: str) -> None:
    """Refuses a file whose format is for the other content: tables or tensors."""
    for_tensors = target.suffix.lower() in _TENSOR_FORMATS
    if for_tensors != (kind != "table"):
        formats = _FORMATS if for_tensors else _TENSOR_FORMATS
        what = "a table is" if kind == "table" else "a tensor is" if kind == "tensor" else "several tensors are"
        raise typer.BadParameter(
            f"{target} can't hold what is served: {what} (a file of {', '.join(formats)} may)", param_hint="--output"
        )


def _open(path: Path, suffix: str, schema: Any, pyarrow: Any) -> Any:
    """Opens pyarrow's writer for the format that the suffix names."""
    match suffix:
        case ".arrow" | ".feather":
            return pyarrow.ipc.new_file(str(path), schema)
        case ".arrows":
            return pyarrow.ipc.new_stream(str(path), schema)
        case ".parquet":
            return pyarrow.parquet.ParquetWriter(str(path), schema)
        case _:
            return pyarrow.csv.CSVWriter(str(path), schema)


def _write(target: Path, schema: xd.Schema, batches: Iterable[xd.RecordBatch]) -> None:
    """Writes batches to a file, which gets its final name when it is complete.

    This is one function, not an object with a method for each step: an interrupt may come between any two instructions,
    and the `finally` that removes the partial file must enclose all of them.
    """
    pyarrow = pyarrow_for(target, "writing")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with _open(partial, target.suffix.lower(), pyarrow.schema(schema), pyarrow) as sink:
            for batch in batches:
                sink.write_batch(pyarrow.record_batch(batch))
        partial.replace(target)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError, pyarrow.ArrowTypeError) as error:
        raise xd.UnsupportedTypeError(
            f"{target} can't hold this table: {error}; .arrow holds every type, and --columns A,B leaves columns out"
        ) from error
    except OSError as error:  # of pyarrow: no space, for example
        if isinstance(error, xd.Error):
            raise
        raise xd.SystemError(f"{target} can't be written: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


class _Meter:
    """Counts the received data. Shows a progress bar on a terminal; summary() is a line for the end."""

    def __init__(self, name: str | bytes, rows: int | None) -> None:
        self.rows = self.bytes = self.batches = 0
        self._name = shown_name(name)
        self._start = time.monotonic()
        self._shown = 0.0
        console = Console(stderr=True, emoji=False)
        self._progress = (
            Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:,} rows  {task.fields[size]}  {task.fields[rate]}/s"),
                TimeElapsedColumn(),
                console=console,
                transient=True,
            )
            if console.is_terminal
            else None
        )
        if self._progress is not None:
            self._task = self._progress.add_task(escape(shown(self._name)), total=rows, size="0 B", rate="0 B")

    def add(self, batch: xd.RecordBatch) -> None:
        self.rows += batch.num_rows
        self.bytes += batch.nbytes
        self.batches += 1
        now = time.monotonic()
        if self._progress is not None and now - self._shown > 0.1:
            self._shown = now
            self._progress.update(
                self._task, completed=self.rows, size=size(self.bytes), rate=size(self.bytes / self._seconds())
            )

    def counting(self, batches: Iterable[xd.RecordBatch]) -> Iterator[xd.RecordBatch]:
        for batch in batches:
            self.add(batch)
            yield batch

    def _seconds(self) -> float:
        return max(time.monotonic() - self._start, 1e-6)

    def summary(self) -> str:
        seconds = self._seconds()
        return (
            f"{shown(self._name)}: {counted(self.rows, 'row')} in "
            f"{counted(self.batches, 'batch', 'batches')}, {size(self.bytes)}, "
            f"{seconds:.3f} s, {size(self.bytes / seconds)}/s"
        )

    def __enter__(self) -> _Meter:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()


_HEAD_ROWS = 10


def _print_head(batches: list[xd.RecordBatch], rows: int) -> None:
    """Prints the first of `rows` rows, if pyarrow is installed, which is needed to read them."""
    try:
        import pyarrow
    except ImportError:
        print("(the first rows are shown where pyarrow is installed: pip install pyarrow)")
        return
    if not batches or not len(batches[0].schema):
        return
    head = pyarrow.Table.from_batches([pyarrow.record_batch(batch) for batch in batches]).slice(0, _HEAD_ROWS)
    numbers = {
        i for i, kind in enumerate(head.schema.types)
        if pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_decimal(kind)
    }  # fmt: skip
    values = zip(*(column.to_pylist() for column in head.columns), strict=True)
    left_out = print_table(
        head.column_names, [["null" if value is None else str(value) for value in row] for row in values], numbers
    )
    if terminal_width() is None:
        return
    print_left_out(left_out, rows - head.num_rows, "; --columns A,B chooses" if left_out else "")


@app.command(short_help="Gets a table or tensors: into a file, or to look at it.", epilog=TOKEN + EXIT_CODES)
def get(
    uri: Annotated[str, typer.Argument(metavar="URI", help="As `crossdock serve` printed it.", show_default=False)],
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="The name of a table or tensors, as `crossdock ls` shows it; of bytes: b'\\\\x00'.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Write it here: .arrow or .feather (Arrow file), .arrows (Arrow stream), .parquet, .csv; of a tensor "
            ".npy.",
        ),
    ] = None,
    columns: Annotated[str | None, typer.Option(help="Only these columns, in this order: a,b,c.")] = None,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to connect in, and that each batch may take.")] = 10.0,
    checksum: Checksum = None,
    remote_reads: RemoteReads = None,
    tls_roots: TlsRoots = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Gets a table or tensors; writes it to a file, or says what it is and shows its first rows or its values."""
    on_end(signal.default_int_handler)  # All signals act as Ctrl-C, so that a partial file is removed.
    if output is not None:
        _check_format(output)
    with reported():
        if output is not None:
            if not output.parent.is_dir():
                raise xd.NotFoundError(
                    f"{output.parent} doesn't exist or is not a folder; create it to write {output.name}"
                )
            if output.suffix.lower() in _FORMATS:
                pyarrow_for(output, "writing")  # before the clock starts
    trusted = trusted_of(remote_reads)
    wanted = name_of(name, "NAME")
    with reported():
        tls = tls_of([uri], tls_certificate, tls_key, roots=tls_roots)
    with reported(), connected(uri, timeout, checksum, trusted, tls) as client:
        entry = next((entry for entry in client.list() if entry.name == wanted), None)
        if output is not None and entry is not None:
            _check_content(output, entry.kind)
        if entry is not None and entry.kind != "table":
            if columns is not None:
                raise xd.InvalidArgumentError(
                    f"--columns is for tables: {shown(name)} is {tensor_output.content_text(entry)}"
                )
            tensor_output.get(client, entry, output, timeout)
            return
        rows = None if entry is None else entry.rows
        names = None if columns is None else [column for column in columns.split(",") if column]
        with client.get(wanted, columns=names, timeout=timeout) as reader, _Meter(wanted, rows) as meter:
            head: list[xd.RecordBatch] = []
            if output is None:
                kept = 0
                for batch in reader:
                    meter.add(batch)
                    if kept < _HEAD_ROWS and batch.num_rows:
                        head.append(batch)
                        kept += batch.num_rows
            else:
                _write(output, reader.schema, meter.counting(reader))
        if output is None:
            print(wrapped(meter.summary(), terminal_width()))
            inspection.print_schema(_native.describe_schema(reader.schema), "  ")
            print()
            _print_head(head, meter.rows)
        else:
            print(f"{meter.summary()}, written to {shown(str(output))}")
