"""What people have, as Arrow batches: Parquet, CSV and JSON files, folders of them, and objects of other libraries that
have no Arrow methods. pyarrow reads all of it, and is imported here alone."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from crossdock.errors import InvalidArgumentError, InvalidDataError, NotFoundError, UnsupportedTypeError

# By the end of a file's name.
_FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
}
_COMPRESSIONS = (".gz", ".bz2", ".zst")  # of CSV and JSON files

# Gets the part that has been read, from 0 to 1.
Progress = Callable[[float], object]


def format_of(path: str) -> str | None:
    """The format of a file by its name: "parquet", "csv", "json" or "arrow"; None of another name."""
    stem, suffix = os.path.splitext(path.lower())
    if suffix in _COMPRESSIONS:
        inner = _FORMATS.get(os.path.splitext(stem)[1])
        return inner if inner in ("csv", "json") else None
    return _FORMATS.get(suffix)


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuses URLs of object stores and the web."""
    text = os.fspath(path)
    text = os.fsdecode(text)
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]+)://", text)
    if found is None or os.path.exists(text):
        return
    help_ = (
        f"give the path alone, {text[len(found[0]) :]!r}"
        if found[1].lower() == "file"
        else f"give the object that fsspec.open({text!r}) returns, or a pyarrow.dataset of it"
    )
    raise InvalidArgumentError(f"{text!r} is a URL, and only files of this machine are opened by their path: {help_}")


def _module(source: object) -> str:
    return type(source).__module__.partition(".")[0]


def _is_readable(source: object) -> bool:
    """Whether it is a file that is open for reading bytes, or an OpenFile of fsspec, which opens one."""
    if _module(source) == "fsspec" and hasattr(source, "open") and hasattr(source, "path"):
        return True
    return all(hasattr(source, name) for name in ("read", "seek", "tell")) and not isinstance(source, io.TextIOBase)


def _has_columns(source: object) -> bool:
    """Whether it is a mapping of which a value is a list: columns, and no arrays."""
    return isinstance(source, Mapping) and any(isinstance(value, (list, tuple)) for value in source.values())


def is_loadable(source: object, mode: str) -> bool:
    """Whether `load()` makes batches of a source: one that nothing else here takes."""
    if isinstance(source, (str, os.PathLike)):
        check_path(source)
        return format_of(os.fsdecode(os.fspath(source))) not in ("arrow", None) or os.path.isdir(source)
    if isinstance(source, type):
        return False
    if isinstance(source, Mapping):
        return mode in ("table", "live") or _has_columns(source)
    if any(hasattr(source, name) for name in ("__arrow_c_stream__", "__arrow_c_device_stream__")):
        return False
    return _reader_of(source) is not None or _is_readable(source)


def _reader_of(source: Any) -> Callable[[], Any] | None:
    """Returns what reads an object of pyarrow's or polars' that has no Arrow methods; None of others."""
    kind = type(source).__name__
    if _module(source) == "pyarrow":
        if hasattr(source, "to_reader"):  # a Scanner
            return lambda: source.to_reader()
        if hasattr(source, "scanner"):  # a Dataset
            return lambda: source.scanner().to_reader()
        if hasattr(source, "iter_batches"):  # a ParquetFile
            return lambda: _of_parquet(source, None)
    if _module(source) == "polars" and kind == "LazyFrame":
        return lambda: source.collect()
    return None


def load(source: Any, progress: Progress | None = None) -> Any:
    """Returns an object with Arrow methods that gives the batches of a source; see `is_loadable()`.

    Raises ModuleNotFoundError without pyarrow, InvalidDataError (the file isn't what its name says), NotFoundError,
    UnsupportedTypeError, and what other libraries raise. A stream that it returns may raise the same later.
    """
    if isinstance(source, (str, os.PathLike)):
        path = os.fsdecode(os.fspath(source))
        file = os.path.abspath(path)  # pyarrow reads URLs, too
        return (
            _load_folder(path, file, progress)
            if os.path.isdir(path)
            else _load_file(path, file, format_of(path) or "", progress)
        )
    if isinstance(source, Mapping):
        return _load_columns(source)
    reader = _reader_of(source)
    return reader() if reader is not None else _load_readable(source)


def _pyarrow(what: str, part: str = "") -> Any:
    try:
        import pyarrow

        if part:
            __import__(f"pyarrow.{part}")
    except ImportError as error:
        raise ModuleNotFoundError(f"reading {what} needs pyarrow: pip install pyarrow", name="pyarrow") from error
    return pyarrow


def _load_columns(columns: Mapping[str, Any]) -> Any:
    pa = _pyarrow("a dictionary of columns")
    try:
        return pa.table(dict(columns))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise UnsupportedTypeError(
            f"a mapping with lists is a table whose columns are its values, and pyarrow makes none of it: {error}; to "
            "serve tensors, give arrays, as numpy.asarray(list)"
        ) from error


def _load_file(what: str, file: Any, kind: str, progress: Progress | None) -> Any:
    """`file`: a path, or an open file. `what` names it."""
    pa = _pyarrow(what, {"parquet": "parquet", "csv": "csv", "json": "json"}.get(kind, ""))
    try:
        if kind == "parquet":
            return _of_parquet(pa.parquet.ParquetFile(file), progress, what)
        if kind == "arrow":
            return pa.ipc.open_file(file)
        counted = _Counted(file, progress) if progress is not None and isinstance(file, str) else file
        if counted is not file:
            with pa.PythonFile(counted, "r") as python_file, _decompressed(pa, python_file, what) as stream:
                return getattr(getattr(pa, kind), f"read_{kind}")(stream)
        return getattr(getattr(pa, kind), f"read_{kind}")(file)
    except FileNotFoundError as error:
        raise NotFoundError(f"{what}: {error.strerror or error}") from error
    except pa.ArrowInvalid as error:
        hint = "; each line of a JSON file must be an object" if kind == "json" else ""
        raise InvalidDataError(f"{what} can't be read as {kind}: {error}{hint}") from error


def _decompressed(pa: Any, file: Any, what: str) -> Any:
    suffix = os.path.splitext(what.lower())[1]
    if suffix not in _COMPRESSIONS:
        return file
    return pa.CompressedInputStream(file, {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}[suffix])


class _Counted(io.RawIOBase):
    """A file that tells how much of it was read."""

    def __init__(self, path: str, progress: Progress) -> None:
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115
        self._size = max(os.fstat(self._file.fileno()).st_size, 1)
        self._progress = progress

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        count = self._file.readinto(buffer)
        self._progress(min(self._file.tell() / self._size, 1.0))
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def _of_parquet(file: Any, progress: Progress | None, what: str = "the Parquet file") -> Any:
    """A stream of a Parquet file's row groups, so that one of them at a time has a second copy."""
    pa = _pyarrow(what)

    def batches() -> Iterator[Any]:
        rows = 0
        for number in range(file.num_row_groups):
            try:
                group = file.read_row_group(number)
            except (pa.ArrowInvalid, OSError) as error:
                raise ValueError(f"{what}, row group {number}: {error}") from error
            yield from group.to_batches()
            rows += group.num_rows
            if progress is not None:
                progress(rows / max(file.metadata.num_rows, 1))

    return pa.RecordBatchReader.from_batches(file.schema_arrow, batches())


def _load_folder(what: str, path: str, progress: Progress | None) -> Any:
    pa = _pyarrow(what, "dataset")
    files = [
        file
        for folder, _, names in os.walk(path)
        for file in (os.path.join(folder, name) for name in names)
        if not re.search(r"/[._]", file[len(path) :])  # as pyarrow.dataset ignores them
    ]
    kinds = {format_of(file) for file in files}
    if len(kinds) != 1 or kinds == {None}:
        named = ", ".join(sorted({Path(file).suffix or Path(file).name for file in files})) or "nothing"
        raise InvalidArgumentError(
            f"{what} is a folder with {named}: a folder that is served as one table has files of one format, whose "
            f"names end in {', '.join(_FORMATS)}"
        )
    (kind,) = kinds
    try:
        dataset = pa.dataset.dataset(path, format="ipc" if kind == "arrow" else kind, partitioning="hive")
        schemas = [dataset.schema, *(fragment.physical_schema for fragment in dataset.get_fragments())]
        try:
            dataset = dataset.replace_schema(pa.unify_schemas(schemas, promote_options="default"))
        except pa.ArrowException as error:
            raise InvalidDataError(f"the files of {what} have columns that don't fit together: {error}") from error
        total = max(dataset.count_rows(), 1) if progress is not None and kind in ("parquet", "arrow") else 0
    except pa.ArrowInvalid as error:
        raise InvalidDataError(f"the files of {what} can't be read as {kind}: {error}") from error
    reader = dataset.scanner().to_reader()
    if progress is None or total == 0:
        return reader

    def counted() -> Iterator[Any]:
        rows = 0
        for batch in reader:
            yield batch
            rows += batch.num_rows
            progress(min(rows / total, 1.0))

    return pa.RecordBatchReader.from_batches(reader.schema, counted())


def _load_readable(source: Any) -> Any:
    opened = source.open() if hasattr(source, "open") and _module(source) == "fsspec" else source
    name = next((str(given) for given in (getattr(source, "path", None), getattr(source, "name", None)) if given), "")
    kind = format_of(name)
    if kind is None:
        raise InvalidArgumentError(
            f"an open file whose name is {name or 'not known'!r} may have any format: give the table that "
            "pyarrow.parquet.read_table(file) or another reader makes of it"
        )
    what = f"the open file {name}"
    compressed = kind in ("csv", "json") and os.path.splitext(name.lower())[1] in _COMPRESSIONS
    if compressed:
        pa = _pyarrow(what)
        opened = _decompressed(pa, pa.PythonFile(opened, "r"), name)
    return _load_file(what, opened, kind, None)
