"""Formats in which `crossdock get` writes a table: to a file, or to stdout."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import typer

import crossdock as xd
from crossdock._text import shown
from crossdock.cli.output import json_value, pyarrow_for

FORMATS = (".arrow", ".arrows", ".feather", ".parquet", ".csv", ".jsonl")
TENSOR_FORMATS = (".npy",)
TEXTS = (".jsonl",)  # A terminal can be given these: they are escaped.
_ROWS_AT_ONCE = 4096  # as Python objects


class Sink(Protocol):
    """What batches are written to. Leaving its context completes the output."""

    def write_batch(self, batch: Any) -> None: ...
    def __enter__(self) -> Sink: ...
    def __exit__(self, *error: Any) -> None: ...


def check_format(target: Path) -> None:
    if target.is_dir():
        raise typer.BadParameter(f"{shown(str(target))} is a folder; give a file in it", param_hint="--output")
    if target.suffix.lower() not in FORMATS + TENSOR_FORMATS:
        raise typer.BadParameter(
            f"{shown(str(target))} must end in {', '.join(FORMATS)}, or of a tensor in {TENSOR_FORMATS[0]}: the ending "
            "selects the format",
            param_hint="--output",
        )


def check_content(target: Path, kind: str) -> None:
    """Refuses a file whose format is for the other content: tables or tensors."""
    for_tensors = target.suffix.lower() in TENSOR_FORMATS
    if for_tensors != (kind != "table"):
        formats = FORMATS if for_tensors else TENSOR_FORMATS
        what = "a table is" if kind == "table" else "a tensor is" if kind == "tensor" else "several tensors are"
        raise typer.BadParameter(
            f"{shown(str(target))} can't hold what is served: {what} (a file of {', '.join(formats)} may)",
            param_hint="--output",
        )


class _JsonLines:
    """Writes each row as a JSON object on a line."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink

    def write_batch(self, batch: xd.RecordBatch) -> None:
        for start in range(0, len(batch), _ROWS_AT_ONCE):
            for row in batch[start : start + _ROWS_AT_ONCE].to_pylist():
                text = json.dumps(json_value(row), ensure_ascii=self._sink.isatty())
                self._sink.write(text.encode("utf-8", "backslashreplace") + b"\n")

    def __enter__(self) -> _JsonLines:
        return self

    def __exit__(self, *_: object) -> None:
        if self._sink is sys.stdout.buffer:
            self._sink.flush()
        else:
            self._sink.close()


def open_sink(to: str | BinaryIO, suffix: str, schema: xd.Schema, pyarrow: Any) -> Sink:
    """Returns what writes the format of the suffix to a path or an open file: pyarrow's writer, or ours for JSON
    lines."""
    if suffix == ".jsonl":
        return _JsonLines(open(to, "wb") if isinstance(to, str) else to)
    arrow_schema = pyarrow.schema(schema)
    match suffix:
        case ".arrow" | ".feather":
            sink: Sink = pyarrow.ipc.new_file(to, arrow_schema)
        case ".arrows":
            sink = pyarrow.ipc.new_stream(to, arrow_schema)
        case ".parquet":
            sink = pyarrow.parquet.ParquetWriter(to, arrow_schema)
        case _:
            sink = pyarrow.csv.CSVWriter(to, arrow_schema)
    return sink


def write_to(to: str | BinaryIO, where: str, suffix: str, schema: xd.Schema, batches: Iterable[xd.RecordBatch]) -> None:
    """Writes batches in the format of the suffix. `where` names the output in errors."""
    pyarrow = None if suffix == ".jsonl" else pyarrow_for(Path(f"a{suffix}"), "writing")
    errors = () if pyarrow is None else (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError, pyarrow.ArrowTypeError)
    try:
        with open_sink(to, suffix, schema, pyarrow) as sink:
            for batch in batches:
                sink.write_batch(batch if pyarrow is None else pyarrow.record_batch(batch))
    except errors as error:
        raise xd.UnsupportedTypeError(
            f"{where} can't hold this table: {error}; .arrow holds every type, and --columns A,B leaves columns out"
        ) from error


def write_file(target: Path, schema: xd.Schema, batches: Iterable[xd.RecordBatch]) -> None:
    """Writes batches to a file, which gets its final name when it is complete.

    This is one function, not an object with a method for each step: an interrupt may come between any two instructions,
    and the `finally` that removes the partial file must enclose all of them.
    """
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        write_to(str(partial), str(target), target.suffix.lower(), schema, batches)
        partial.replace(target)
    except OSError as error:
        if isinstance(error, xd.Error):
            raise
        # The texts of pyarrow and of open() name the partial file. pyarrow gives an errno for its own errors, too.
        kind = xd.PermissionError if isinstance(error, PermissionError) else xd.SystemError
        raise kind(f"writing {target} failed: {os.strerror(error.errno) if error.errno else error}") from error
    finally:
        partial.unlink(missing_ok=True)


def check_terminal(suffix: str) -> None:
    """Refuses to write bytes to a terminal."""
    if suffix not in TEXTS and sys.stdout.isatty():
        raise typer.BadParameter(
            f"a terminal isn't for {suffix[1:]}: redirect the output, or give --format jsonl",
            param_hint="--output",
        )


def write_stdout(suffix: str, schema: xd.Schema, batches: Iterable[xd.RecordBatch]) -> None:
    write_to(sys.stdout.buffer, "stdout", suffix, schema, batches)
