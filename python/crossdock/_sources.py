"""Classifies sources, for all functions that take one."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from typing import Literal

from crossdock import _native
from crossdock._text import shown
from crossdock.errors import UnsupportedTypeError

_STREAMS = ("__arrow_c_stream__", "__arrow_c_device_stream__")
_ARRAYS = ("__arrow_c_array__", "__arrow_c_device_array__")


def is_array(source: object) -> bool:
    """Returns whether an object with Arrow methods is a single array or batch."""
    return any(hasattr(source, method) for method in _ARRAYS)


def is_tensor(source: object) -> bool:
    """Returns whether an object is a Tensor or of a class with `Exports`: an array that may have Arrow methods, too."""
    return isinstance(source, _native.Tensor) or hasattr(type(source), "__crossdock_array__")


_OTHER_ARRAYS = (
    "__dlpack__",
    "__array_interface__",
    "__cuda_array_interface__",
    "__sycl_usm_array_interface__",
    "__array__",
)


def _is_other_array(source: object) -> bool:
    """Returns whether an object is an array of a protocol without tables: one that asarray() takes."""
    if is_tensor(source):
        return True
    if isinstance(source, type):
        return False
    if any(hasattr(source, name) for name in _OTHER_ARRAYS):
        return True
    try:
        memoryview(source).release()  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def is_sparse(source: object) -> bool:
    """Returns whether an object is a sparse array of SciPy, PyData, CuPy, JAX, torch, pandas or pyarrow."""
    kind = type(source)
    if "sparse" in kind.__module__.split(".") or kind.__name__.startswith("Sparse"):
        return True
    return kind.__module__ == "torch" and str(getattr(source, "layout", "")).startswith("torch.sparse")


def name_of_type(source: object) -> str:
    return shown(f"{type(source).__module__}.{type(source).__qualname__}", 200)


def refuse_sparse(source: object) -> None:
    if is_sparse(source):
        raise UnsupportedTypeError(
            f"{name_of_type(source)} is a sparse array, which can't be served: make it dense, or serve its parts"
        )


def kind_of_batches(source: object, taker: str) -> Literal["file", "arrow", "callable"]:
    """The same as `kind()`, for what takes batches alone: a Tensor may be a column of them. Raises UnsupportedTypeError
    for other arrays and for mappings. taker: what takes it, as in "write()"."""
    found = _found_kind(source)
    if found == "tensor" and is_tensor(source) and is_array(source):
        return "arrow"
    if found == "tensor":
        raise UnsupportedTypeError(
            f"{name_of_type(source)} has none of {', '.join(_STREAMS + _ARRAYS)}, which batches come by: xd.asarray() "
            "makes a column of an array, if it has one dimension at least"
        )
    if found == "tensors" or found is None:
        help_ = ": give pyarrow.table(it), if its values are columns" if found else _help_for(source)
        raise UnsupportedTypeError(
            f"{taker} takes an object with one of {', '.join(_STREAMS + _ARRAYS)}, such as a table of pyarrow's, a "
            "list or iterator of batches, the path of an Arrow file, or a callable that gives such an object; this is "
            f"{name_of_type(source)}{help_}"
        )
    return found


def _is_file(thing: object) -> bool:
    """Returns whether an object is a path, or a file that is open or can be opened."""
    return isinstance(thing, (str, os.PathLike)) or hasattr(thing, "read") or hasattr(thing, "open")


def _help_for(source: object) -> str:
    """What to call instead, of an object that has something to give."""
    calls = [f"{name}()" for name in ("collect", "to_arrow", "to_arrow_table", "fetch_arrow_table", "to_reader")
             if callable(getattr(source, name, None))]  # fmt: skip
    if not isinstance(source, type) and (hasattr(source, "read") or hasattr(source, "open")):
        return ", an open file: give what pyarrow.ipc.open_file(file) or another reader makes of it"
    return f": give what its {' or '.join(calls)} returns" if calls and not isinstance(source, type) else ""


def kind(source: object) -> Literal["file", "arrow", "callable", "tensor", "tensors"]:
    """Returns the kind of a source: the path of a file; an object with Arrow methods, or a list or iterator of such
    objects; a callable that makes one; an array without Arrow methods; or a mapping of arrays. Raises
    UnsupportedTypeError for other objects."""
    if found := _found_kind(source):
        return found
    raise UnsupportedTypeError(
        f"a source is an object with one of {', '.join(_STREAMS + _ARRAYS)}, a list or iterator of batches, the path "
        f"of an Arrow, Parquet, CSV or JSON file or of a folder of them, a callable that gives such an object, an "
        f"array that asarray() takes, or a mapping of arrays; this is {name_of_type(source)}{_help_for(source)}"
    )


def _found_kind(source: object) -> Literal["file", "arrow", "callable", "tensor", "tensors"] | None:
    """Returns the same, and None for other objects."""
    if isinstance(source, (str, os.PathLike)):
        return "file"
    refuse_sparse(source)
    # A class also has the methods of its instances, but it is a callable.
    is_class = isinstance(source, type)
    is_arrow = not is_class and any(hasattr(source, method) for method in _STREAMS + _ARRAYS)
    if is_arrow and not is_tensor(source):
        return "arrow"
    is_iterator = isinstance(source, Iterator) and not is_class and not isinstance(source, io.IOBase)  # one of lines
    if isinstance(source, (list, tuple)) or is_iterator:
        if isinstance(source, (list, tuple)) and source and isinstance(source[0], Mapping):
            raise UnsupportedTypeError("a list of dictionaries has rows, not batches: give pa.Table.from_pylist(rows)")
        if isinstance(source, (list, tuple)) and source and _is_file(source[0]):
            raise UnsupportedTypeError(
                "a list of files isn't one table: give the path of their folder, or pyarrow.dataset.dataset(paths)"
            )
        return "arrow"
    if isinstance(source, Mapping):
        return "tensors"
    if _is_other_array(source):
        return "tensor"
    if callable(source):
        return "callable"
    return None
