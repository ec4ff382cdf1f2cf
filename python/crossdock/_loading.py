"""What people have, as Arrow batches: Parquet, CSV and JSON files, folders of them, and objects of other libraries that
have no Arrow methods. pyarrow reads all of it, and is imported here alone."""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
import re
import stat
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, Literal

from crossdock._files import encoded_path
from crossdock._optional import needed
from crossdock._sources import name_of_type
from crossdock._text import quoted, shown, without_user
from crossdock.errors import (
    Error,
    FileChangedError,
    InvalidArgumentError,
    InvalidDataError,
    NotFoundError,
    PermissionError,
    SystemError,
    UnsupportedTypeError,
)

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
# Of CSV and JSON files: pyarrow's name of it, and how such a file begins.
_COMPRESSIONS = {".gz": ("gzip", b"\x1f\x8b"), ".bz2": ("bz2", b"BZh"), ".zst": ("zstd", b"\x28\xb5\x2f\xfd")}

# Gets the part that has been read, from 0 to 1.
Progress = Callable[[float], object]


def format_of(path: str) -> str | None:
    """The format of a file by its name: "parquet", "csv", "json" or "arrow"; None of another name."""
    stem, suffix = os.path.splitext(path.lower())
    if suffix in _COMPRESSIONS:
        inner = _FORMATS.get(os.path.splitext(stem)[1])
        return inner if inner in ("csv", "json") else None
    return _FORMATS.get(suffix)


def stem_of(name: str) -> str:
    """A file's name without the suffixes that say its format."""
    stem, suffix = os.path.splitext(name)
    return os.path.splitext(stem)[0] if suffix.lower() in _COMPRESSIONS and format_of(name) else stem


# By what is done with the file: what helps if it isn't one of this machine.
_ELSEWHERE = {
    "serve": "give the object that fsspec.open(url) returns, or pyarrow.dataset.dataset(path, filesystem=...) with a "
    "file system of pyarrow.fs",
    "open": "pyarrow.ipc.open_file(fsspec.open(url).open()) reads it; to serve it, give serve() the object that "
    "fsspec.open(url) returns",
    "write": "write it through pyarrow.ipc.new_file(file, schema), where file is what fsspec.open(url, 'wb').open() "
    "returns",
}
_OPEN = {
    "serve": "",
    "open": "; pyarrow.ipc.open_file(file) reads an open file",
    "write": "; pyarrow.ipc.new_file(file, schema) writes to an open file",
}


def check_path(path: object, use: Literal["serve", "open", "write"], instead: str | None = None) -> None:
    """Refuses what is no path, and URLs of object stores and the web. instead: what helps with a URL; None: a call."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(
            f"{use}() takes the path of a file, not {shown(f'{type(path).__module__}.{type(path).__qualname__}', 200)}"
            + (_OPEN[use] if any(hasattr(path, name) for name in ("read", "write", "open")) else "")
        )
    text = os.fsdecode(encoded_path(path))
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", text)
    if found is None or os.path.exists(text):
        return
    if isinstance(path, PurePath):  # it keeps one slash of several
        text = f"{found[0]}{'//' if found[1].lower() == 'file' else '/'}{text[len(found[0]) :]}"
    help_ = (
        f"give the path alone, {quoted('/' + text[len(found[0]) :].lstrip('/'))}"
        if found[1].lower() == "file"
        else instead or _ELSEWHERE[use]
    )
    raise InvalidArgumentError(
        f"{quoted(without_user(text))} is a URL, and only files of this machine have a path: {help_}"
    )


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
        check_path(source, "serve")
        return format_of(os.fsdecode(os.fspath(source))) not in ("arrow", None) or os.path.isdir(source)
    if isinstance(source, type):
        return False
    if isinstance(source, Mapping):
        return mode in ("table", "live") or _has_columns(source)
    if any(hasattr(source, name) for name in ("__arrow_c_stream__", "__arrow_c_device_stream__")):
        return False
    return _reader_of(source) is not None or _is_readable(source)


def _reader_of(source: Any) -> Callable[[Loaded], Any] | None:
    """Returns what reads an object of pyarrow's or polars' that has no Arrow methods; None of others."""
    if _module(source) == "pyarrow":
        if hasattr(source, "to_reader"):  # a Scanner
            return lambda _: source.to_reader()
        if hasattr(source, "scanner"):  # a Dataset
            return lambda _: source.scanner().to_reader()
        if hasattr(source, "iter_batches"):  # a ParquetFile
            return lambda loaded: _of_parquet(source, None, loaded)
    if _module(source) == "polars" and type(source).__name__ == "LazyFrame":
        return lambda _: source.collect()
    return None


class Loaded:
    """A source that pyarrow reads: `stream` has Arrow methods. `failures` has what ended the reading, of which an Arrow
    stream gives the text alone."""

    def __init__(self) -> None:
        self.stream: Any = None
        self.failures: list[BaseException] = []

    @contextlib.contextmanager
    def reraising(self) -> Iterator[None]:
        """Around the reading of `stream`: raises the failure itself, a Ctrl-C for example."""
        try:
            yield
        except Exception:
            if self.failures:
                raise self.failures[0] from None
            raise

    def noting(self, batches: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from batches
        except BaseException as failure:
            self.failures.append(failure)
            raise


def load(source: Any, progress: Progress | None = None) -> Loaded:
    """Returns an object with Arrow methods that gives the batches of a source; see `is_loadable()`.

    Raises ModuleNotFoundError without pyarrow, InvalidDataError (the file isn't what its name says), NotFoundError,
    PermissionError, FileChangedError, UnsupportedTypeError, and polars' own errors. Its stream may raise the same.
    """
    loaded = Loaded()
    with converting(source):
        _load(source, loaded, progress)
    return loaded


def _load(source: Any, loaded: Loaded, progress: Progress | None) -> None:
    if isinstance(source, (str, os.PathLike)):
        path = os.fsdecode(os.fspath(source))
        file = os.path.abspath(path)  # pyarrow reads URLs, too
        if os.path.isdir(path):
            loaded.stream = _load_folder(path, file, progress, loaded)
        else:
            loaded.stream = _load_path(path, file, progress, loaded)
    elif isinstance(source, Mapping):
        loaded.stream = _load_columns(source)
    else:
        read = _reader_of(source) or (lambda loaded: _load_readable(source, loaded))
        loaded.stream = read(loaded)


def _pyarrow(what: str, part: str = "") -> Any:
    with needed(f"reading {what} needs pyarrow", "pyarrow"):
        import pyarrow

        if part:
            __import__(f"pyarrow.{part}")
    return pyarrow


# What a library raises of data that it can't convert. pyarrow's errors are mostly such, too.
_USUAL = (ValueError, TypeError, NotImplementedError, LookupError, ArithmeticError)


def _text_of(error: Exception) -> str:
    """The error's text, also of pyarrow's errors, which may have several."""
    return shown("; ".join(error.args) if all(isinstance(one, str) for one in error.args) else str(error), 4096)


def _is_of(thing: object, *libraries: str) -> bool:
    return any(one.__module__.partition(".")[0] in libraries for one in type(thing).__mro__)


@contextlib.contextmanager
def converting(source: object) -> Iterator[None]:
    """Around the conversion of a source to Arrow data. Raises what objects of pandas, polars and pyarrow raise as ours,
    and pyarrow's errors from any object. Polars' own errors stay, and so do those of other objects."""
    try:
        yield
    except (Error, MemoryError):
        raise
    except Exception as error:
        known = _is_of(source, "pandas", "polars", "pyarrow")
        what = name_of_type(source)
        if known and isinstance(error, OSError):
            with _named(what, "Arrow data"):
                raise
        if not _is_of(error, "pyarrow") and not (known and isinstance(error, _USUAL)):
            raise
        ours = UnsupportedTypeError if isinstance(error, (TypeError, NotImplementedError)) else InvalidDataError
        raise ours(f"{what} can't be read as Arrow data: {_text_of(error)}") from error


@contextlib.contextmanager
def _named(what: str, kind: str = "", hint: Callable[[], str] = str) -> Iterator[None]:
    """Raises errors of pyarrow and of the system as ours, which name the file, and end with a hint."""
    try:
        yield
    except Error:
        raise
    except OSError as error:  # pyarrow's has no errno where a file's content is wrong
        text = error.strerror or str(error)
        # Those of fsspec have no errno.
        if isinstance(error, FileNotFoundError) or error.errno == errno.ENOTDIR:
            raise NotFoundError(f"{what}: {text}") from error
        if isinstance(error, builtins.PermissionError):
            raise PermissionError(f"{what}: {text}") from error
        if error.errno is not None:
            raise SystemError(f"{what}: {text}") from error
        raise InvalidDataError(f"{what} can't be read as {kind}: {text}{hint()}") from error
    except _USUAL as error:
        raise InvalidDataError(f"{what} can't be read as {kind}: {_text_of(error)}{hint()}") from error


# How the library begins when a file's content is of a format that only pyarrow reads. Advice follows.
_NOT_ARROW = re.compile(
    r"(.* isn't an Arrow IPC file: this looks like (Parquet|text \(CSV or JSON\?\)))[;.] .*", re.DOTALL
)


@contextlib.contextmanager
def naming_ending() -> Iterator[None]:
    """Around the serving of an Arrow file: of one with another content, the error says how its name must end."""
    try:
        yield
    except InvalidDataError as error:
        found = _NOT_ARROW.fullmatch(str(error))
        if found is None:
            raise
        endings = ".parquet" if found[2] == "Parquet" else ".csv, or .json, .jsonl or .ndjson (an object on each line)"
        raise InvalidDataError(f"{found[1]}. To be served, its name must end in {endings}") from error


def state_of(path: str | os.PathLike[str]) -> tuple[object, ...]:
    """What changes when a file, or one in a folder, is written or replaced. Raises NotFoundError, PermissionError."""
    what = os.fspath(path)

    def of(file: str, info: os.stat_result) -> tuple[object, ...]:
        return (file, info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)

    def stat_of(file: str) -> os.stat_result:
        with _named(file):
            return os.stat(file)

    if not stat.S_ISDIR((info := stat_of(what)).st_mode):
        return of(what, info)
    files, kinds = _files_of_one_format(what, what)
    return (
        () if len(kinds) != 1 or None in kinds else tuple(of(file, stat_of(file)) for file in files)
    )  # a folder that is refused


def _load_columns(columns: Mapping[str, Any]) -> Any:
    pa = _pyarrow("a dictionary of columns")
    try:
        return pa.table(dict(columns))
    except (pa.ArrowException, TypeError, ValueError, ArithmeticError) as error:
        raise UnsupportedTypeError(
            f"a mapping with lists is a table whose columns are its values, and pyarrow makes none of it: {error}; to "
            "serve tensors, give arrays, as numpy.asarray(list)"
        ) from error


def _check_regular(what: str, file: str) -> None:
    """Anything else than a file may have no end, or wait for ever."""
    with _named(what):
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise InvalidArgumentError(f"{what} isn't a regular file")


def _load_path(what: str, file: str, progress: Progress | None, loaded: Loaded) -> Any:
    kind = format_of(file) or ""
    _check_regular(what, file)
    if kind == "parquet":
        pa = _pyarrow(what, "parquet")
        with _named(what, kind):
            opened = pa.parquet.ParquetFile(file)
        return _of_parquet(opened, progress, loaded, what)
    return _read_text(what, file, kind, progress)


def _hint(kind: str, file: str) -> str:
    """What helps if a file can't be read, by how it begins."""
    with open(file, "rb") as opened:
        begin = opened.read(4096)
    if kind == "json" and begin.lstrip().startswith(b"["):
        return (
            "; it is one JSON array: write an object on each line, or serve pyarrow.Table.from_pylist(json.load(file))"
        )
    if kind == "json" and begin.strip() and not begin.lstrip().startswith(b"{"):
        return "; each line of a JSON file must be an object"
    if kind == "csv":
        try:
            begin[:-4].decode()  # a character may be cut
        except UnicodeDecodeError:
            return "; its text must be UTF-8"
    return ""


def _read_text(what: str, file: str, kind: str, progress: Progress | None) -> Any:
    """Reads a CSV or JSON file."""
    pa = _pyarrow(what, kind)
    with _named(what, kind, lambda: _hint(kind, file)), _Counted(file, what, progress) as counted:
        return _read_stream(pa, kind, pa.PythonFile(counted, "r"), os.path.splitext(file.lower())[1])


def _read_stream(pa: Any, kind: str, stream: Any, suffix: str) -> Any:
    if suffix in _COMPRESSIONS:
        stream = pa.CompressedInputStream(stream, _COMPRESSIONS[suffix][0])
    table = getattr(getattr(pa, kind), f"read_{kind}")(stream)
    _ = table.column_names  # raises where they aren't UTF-8
    return table


class _Counted(io.RawIOBase):
    """A file that tells how much of it was read, and finds that it became shorter meanwhile."""

    def __init__(self, path: str, what: str, progress: Progress | None) -> None:
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115
        self._size = os.fstat(self._file.fileno()).st_size
        self._what = what
        self._progress = progress

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        count = self._file.readinto(buffer)
        at = self._file.tell()
        if not count and len(buffer) and at < self._size:
            raise FileChangedError(f"{self._what} became shorter while it was read: publish it again")
        if self._progress is not None:
            self._progress(min(at / max(self._size, 1), 1.0))
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def _of_parquet(file: Any, progress: Progress | None, loaded: Loaded, what: str = "the Parquet file") -> Any:
    """A stream of a Parquet file's row groups, so that one of them at a time has a second copy."""
    pa = _pyarrow(what)

    def batches() -> Iterator[Any]:
        rows = 0
        for number in range(file.num_row_groups):
            with _named(f"{what}, row group {number},", "parquet"):
                group = file.read_row_group(number)
            yield from group.to_batches()
            rows += group.num_rows
            if progress is not None:
                progress(rows / max(file.metadata.num_rows, 1))

    return pa.RecordBatchReader.from_batches(file.schema_arrow, loaded.noting(batches()))


def _files_in(what: str, path: str) -> Iterator[str]:
    """The files of a folder, without those that pyarrow.dataset ignores, too. Links to folders aren't followed."""

    def refuse(error: OSError) -> None:
        with _named(os.path.join(what, os.path.relpath(error.filename, path))):
            raise error

    for folder, folders, names in os.walk(path, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        for name in sorted(names):
            if not name.startswith((".", "_")):
                yield os.path.join(folder, name)


def _files_of_one_format(what: str, path: str) -> tuple[list[str], set[str | None]]:
    """The files of a folder up to the first of another format or of none, and their formats."""
    files: list[str] = []
    kinds: set[str | None] = set()
    for file in _files_in(what, path):
        files.append(file)
        kinds.add(format_of(file))
        if len(kinds) > 1 or None in kinds:
            break  # the rest may be a whole disk
    return files, kinds


def _load_folder(what: str, path: str, progress: Progress | None, loaded: Loaded) -> Any:
    pa = _pyarrow(what, "dataset")
    files, kinds = _files_of_one_format(what, path)
    if len(kinds) != 1 or None in kinds:
        named = " and ".join(sorted({os.path.relpath(file, path) for file in (*files[:1], *files[-1:])})) or "nothing"
        raise InvalidArgumentError(
            f"{what} is a folder with {named}: a folder that is served as one table has files of one format, whose "
            f"names end in {', '.join(_FORMATS)}; names that begin with '.' or '_' are left out"
        )
    for file in files:
        _check_regular(os.path.join(what, os.path.relpath(file, path)), file)
    (kind,) = kinds
    if kind in ("csv", "json"):
        return _read_texts(pa, what, path, files, kind, progress)
    hint = "; the Arrow files of a folder must be in file form, not in stream form" if kind == "arrow" else ""
    with _named(f"the folder {what}", kind or "", lambda: hint):
        dataset = pa.dataset.dataset(
            files, format="ipc" if kind == "arrow" else kind, partitioning="hive", partition_base_dir=path
        )
        schemas = [dataset.schema]
        for fragment in dataset.get_fragments():
            with _named(fragment.path, kind or "", lambda: hint):
                schemas.append(fragment.physical_schema)
        dataset = dataset.replace_schema(_united(pa, what, schemas))
        total = max(dataset.count_rows(), 1)
        reader = dataset.scanner().to_reader()

    def batches() -> Iterator[Any]:
        rows = 0
        with _named(f"the folder {what}", kind or ""):
            for batch in reader:
                yield batch
                rows += batch.num_rows
                if progress is not None:
                    progress(min(rows / total, 1.0))

    return pa.RecordBatchReader.from_batches(reader.schema, loaded.noting(batches()))


def _united(pa: Any, what: str, schemas: list[Any]) -> Any:
    try:
        return pa.unify_schemas(schemas, promote_options="default")
    except pa.ArrowException as error:
        raise InvalidDataError(f"the files of {what} have columns that don't fit together: {error}") from error


def _read_texts(pa: Any, what: str, path: str, files: list[str], kind: str, progress: Progress | None) -> Any:
    """Reads each file as if it were alone: pyarrow.dataset would take the types of a file's beginning for all of it."""
    tables = []
    for number, file in enumerate(files):
        inside = os.path.relpath(file, path)
        table = _read_text(os.path.join(what, inside), file, kind, None)
        for part in Path(inside).parts[:-1]:
            key, equals, value = part.partition("=")
            if not equals:
                continue
            if key in table.column_names:
                raise InvalidDataError(
                    f"{os.path.join(what, inside)} has a column {quoted(key)}, and so has its folder"
                )
            text = urllib.parse.unquote(value)
            values = pa.scalar(int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else text)
            table = table.append_column(key, pa.repeat(values, table.num_rows))
        tables.append(table)
        if progress is not None:
            progress((number + 1) / len(files))
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidDataError(f"the files of {what} have columns that don't fit together: {error}") from error


def _of_arrow(file: Any, loaded: Loaded, what: str) -> Any:
    """A stream of the batches of an open Arrow file or stream file."""
    pa = _pyarrow(what)
    at = file.tell()
    is_file = file.read(6) == b"ARROW1"
    file.seek(at)
    if not is_file:
        return pa.ipc.open_stream(file)
    reader = pa.ipc.open_file(file)

    def batches() -> Iterator[Any]:
        for number in range(reader.num_record_batches):
            with _named(f"{what}, batch {number},", "arrow"):
                batch = reader.get_batch(number)
            yield batch

    return pa.RecordBatchReader.from_batches(reader.schema, loaded.noting(batches()))


def _load_readable(source: Any, loaded: Loaded) -> Any:
    names = (getattr(source, "path", None), getattr(source, "name", None))
    name = next((str(given) for given in names if given), "")
    what = f"the open file {name}"
    kind = format_of(name)
    if kind is None:
        raise InvalidArgumentError(
            f"an open file whose name {f'is {quoted(name)}' if name else 'is not known'} may have any format: give the "
            "table that pyarrow.parquet.read_table(file) or another reader makes of it"
        )
    pa = _pyarrow(what, {"parquet": "parquet", "csv": "csv", "json": "json"}.get(kind, ""))
    with _named(what, kind):
        opened = source.open() if hasattr(source, "open") and _module(source) == "fsspec" else source
        if kind == "parquet":
            return _of_parquet(pa.parquet.ParquetFile(opened), None, loaded, what)
        if kind == "arrow":
            return _of_arrow(opened, loaded, what)
        # It may have been opened so that it is decompressed already.
        suffix = os.path.splitext(name.lower())[1]
        if suffix in _COMPRESSIONS:
            at = opened.tell()
            begins = opened.read(4)
            opened.seek(at)
            suffix = suffix if begins.startswith(_COMPRESSIONS[suffix][1]) else ""
        return _read_stream(pa, kind, pa.PythonFile(opened, "r"), suffix)
