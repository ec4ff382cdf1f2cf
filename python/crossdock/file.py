"""Arrow IPC files: opening them by memory mapping, and writing them."""

from __future__ import annotations

import operator
import os
from typing import TYPE_CHECKING

from crossdock import _loading, _native, _sources
from crossdock._files import encoded_path
from crossdock._options import checked_limits, one_of
from crossdock._text import quoted
from crossdock.errors import InvalidArgumentError

if TYPE_CHECKING:
    from crossdock._typing import Compression, Form, Source, Validation

__all__ = ["open", "write"]


def open(
    path: str | os.PathLike[str], *, validation: Validation = "structure", limits: _native.Limits | None = None
) -> _native.FileReader:
    """Opens an Arrow IPC file or stream file.

    The file is memory-mapped: batches that aren't compressed are views of it, without a copy, and keep the mapping
    alive. Compressed batches (LZ4, ZSTD) are decompressed when they are read, large ones on several threads. Bytes are
    swapped in files of big-endian writers. All metadata is read and checked in this call.

    You must not change the file while it is open. After its size or modification time has changed, reading raises
    `FileChangedError`. Batches that you hold show data that is written to the file, and accessing a batch in a
    truncated part of the file ends the process (SIGBUS), as with any mapping.

    Replacing the whole file is safe: a reader that opened the old file keeps it when another file is renamed over it,
    as `write()` does, or when it is removed. The same is true for a file that is served: its consumers get the file
    that was published, until it is published again. To serve a file, give its path to `serve()` or `publish()`, which
    pass its descriptor on without a copy. If you serve the reader that this function returns, it is read batch by
    batch.

    validation: "structure" ensures that lengths, sizes and first and last offsets are consistent, which takes hardly
        any time; "full" also checks every element: order of offsets, UTF-8, indices of dictionaries, union ids, run
        ends, views. Choose "full" for files from untrusted sources.
    limits: limits on the size and nesting of the file's content; None: those of `Limits()`.

    Raises `NotFoundError` and `PermissionError` for a file that can't be opened, `InvalidArgumentError` for what is no
    regular file, `InvalidDataError` for what is no Arrow file or breaks the format, `UnsupportedTypeError` for types
    that Crossdock doesn't know, and `TypeError` for what is no path.
    """
    _loading.check_path(path, "open")
    one_of(validation, "validation", "structure", "full")
    return _native.FileReader(encoded_path(path), validation, checked_limits(limits))


def write(
    source: Source,
    path: str | os.PathLike[str],
    *,
    compression: Compression | None = None,
    level: int | None = None,
    form: Form = "file",
) -> None:
    """Writes `source` as an Arrow IPC file.

    source: anything with an Arrow PyCapsule method (a pyarrow Table, a polars DataFrame, Crossdock's own readers and
        batches), a list of batches, the path of an Arrow file, or a callable that returns such an object. It is read to
        its end, batch by batch. The custom metadata of messages is written too, for batches from Crossdock's readers
        and from `RecordBatch(source, custom_metadata=...)`.
    path: the file to write. A new file is written beside it, and renamed when it is complete: readers of an older file
        of that name keep their data, and after an error nothing has changed.
    compression: "lz4" or "zstd", for each buffer; a buffer that wouldn't become smaller is stored uncompressed.
    level: the compression level of the codec; None: 0 for LZ4, 1 for ZSTD.
    form: "file" has a footer, so that its batches can be read in any order; "stream" can hold dictionaries that are
        replaced between batches.

    Raises `InvalidArgumentError` for a path that is a folder or ends in .parquet or .csv, and for options that don't
    exist, `UnsupportedTypeError` for a source without Arrow data, `InvalidDataError` for a DataFrame whose values don't
    fit into Arrow columns, `NotFoundError` if the folder doesn't exist, `PermissionError`, `ResourceError` if there
    isn't enough space, and the errors of the source.
    """
    _loading.check_path(path, "write")
    suffix = os.path.splitext(os.fsdecode(path))[1].lower()
    if suffix in (".parquet", ".csv"):
        raise InvalidArgumentError(
            f"{quoted(os.fsdecode(path))}: write() writes Arrow files, and their names must not end in {suffix}"
        )
    one_of(compression, "compression", "lz4", "zstd", None)
    level = _checked_level(level)
    one_of(form, "form", "file", "stream")
    kind = _sources.kind_of_batches(source, "write()")
    if kind == "file":
        with open(source) as reader:  # type: ignore[arg-type]
            _native.write_file(reader, encoded_path(path), form, compression, level)
        return
    if kind == "callable":
        source = source()  # type: ignore[operator]
    target = encoded_path(path)
    with _loading.converting(source):
        _native.write_file(source, target, form, compression, level)


def _checked_level(level: int | None) -> int | None:
    """Checks that the library takes the number. It knows which levels a codec has."""
    if level is None:
        return None
    try:
        level = operator.index(level)
    except TypeError:
        raise TypeError(
            f"level must be a whole number, or None for the codec's usual one; it was {quoted(level)}"
        ) from None
    if not -(2**31) <= level < 2**31:
        raise InvalidArgumentError(f"level must be a compression level of the codec; it was {quoted(level)}")
    return level
