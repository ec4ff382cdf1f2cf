"""Arrow IPC files: opening them where they lie, and writing them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crossdock import _native, _sources
from crossdock.errors import InvalidArgumentError

if TYPE_CHECKING:
    from crossdock._typing import Compression, Form, Source, Validation

__all__ = ["open", "write"]


def open(
    path: str | os.PathLike[str], *, validation: Validation = "structure", limits: _native.Limits | None = None
) -> _native.FileReader:
    """Opens an Arrow IPC file or stream file.

    The file is memory-mapped: batches that aren't compressed are views of it, without a copy, and keep the mapping
    alive by themselves. Compressed ones (LZ4, ZSTD) are decompressed as they are read, large ones on several threads;
    files of big-endian writers are swapped. All metadata is read and checked here.

    The file is yours to keep as it is. Once its size or modification time has changed, reading on raises
    `FileChangedError`; batches that you hold show what is written into the file, and touching one whose part of the
    file was cut off ends the process (SIGBUS), as with any mapping. Replacing it as a whole disturbs no reader: who
    opened the old file keeps it when a new one is renamed over it, as `write()` does, or when it is removed. The same
    holds for a file that is served: its consumers get the file that was published, until it is published again.
    To serve a file, give its path to `serve()` or `publish()`, which pass its descriptor on without a copy; what this
    returns would be read through, batch by batch.

    validation: "structure" makes sure that lengths, sizes and first and last offsets fit each other, which costs no
    time to speak of; "full" looks at every element as well: offsets in order, UTF-8, indices of dictionaries, union
    ids, run ends, views. Choose it for files of somebody whom you don't trust.
    limits: how large and how deep what the file holds may be; None: as `Limits()` has it.
    """
    return _native.FileReader(_encoded(path), validation, limits or _native.Limits())


def write(
    source: Source,
    path: str | os.PathLike[str],
    *,
    compression: Compression | None = None,
    level: int | None = None,
    form: Form = "file",
) -> None:
    """Writes `source` as an Arrow IPC file.

    source: anything with an Arrow PyCapsule method (a pyarrow Table, a polars DataFrame, our own readers and batches),
    a list of batches, the path of an Arrow file, or a callable that gives such an object. It is read to its end, batch
    by batch. Batches that come from our own readers, and `RecordBatch(source, custom_metadata=...)`, take their
    messages' custom metadata with them.
    path: where to. A new file is written beside it and renamed once it is whole: readers of an older file of that name
    keep what they have, and after an error nothing has changed.
    compression: "lz4" or "zstd", buffer by buffer; a buffer that wouldn't get smaller is stored as it is.
    level: as the codec counts it; None: LZ4's 0, ZSTD's 1.
    form: "file" has a footer, so that its batches can be read in any order; "stream" can hold dictionaries that are
    replaced from batch to batch.
    """
    suffix = os.path.splitext(os.fsdecode(path))[1].lower()
    if suffix in (".parquet", ".csv"):
        raise InvalidArgumentError(f"{os.fsdecode(path)!r}: this writes Arrow files, whose names don't end in {suffix}")
    kind = _sources.kind(source)
    if kind == "file":
        with open(source) as reader:  # type: ignore[arg-type]
            _native.write_file(reader, _encoded(path), form, compression, level)
        return
    if kind == "callable":
        source = source()  # type: ignore[operator]
    _native.write_file(source, _encoded(path), form, compression, level)


def _encoded(path: str | os.PathLike[str]) -> bytes:
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise InvalidArgumentError(f"the path {path!r} has a NUL byte in it")
    return encoded
