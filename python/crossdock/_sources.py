"""Classifies sources, for all functions that take one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Literal

from crossdock.errors import UnsupportedTypeError

_STREAMS = ("__arrow_c_stream__", "__arrow_c_device_stream__")
_ARRAYS = ("__arrow_c_array__", "__arrow_c_device_array__")


def is_array(source: object) -> bool:
    """Returns whether an object with Arrow methods is a single array or batch."""
    return any(hasattr(source, method) for method in _ARRAYS)


def _is_other_array(source: object) -> bool:
    """Returns whether an object without Arrow methods is an array of another protocol."""
    return any(hasattr(source, name) for name in ("__dlpack__", "__array_interface__", "__cuda_array_interface__"))


def kind(source: object) -> Literal["file", "arrow", "callable"]:
    """Returns the kind of a source: the path of a file; an object with Arrow methods, or a list or iterator of such
    objects; or a callable that makes one. Raises UnsupportedTypeError for other objects."""
    if isinstance(source, (str, os.PathLike)):
        return "file"
    # A class also has the methods of its instances, but it is a callable.
    is_class = isinstance(source, type)
    is_arrow = not is_class and any(hasattr(source, method) for method in _STREAMS + _ARRAYS)
    if is_arrow or isinstance(source, (list, tuple)) or (isinstance(source, Iterator) and not is_class):
        return "arrow"
    if callable(source):
        return "callable"
    raise UnsupportedTypeError(
        f"a source is an object with one of {', '.join(_STREAMS + _ARRAYS)}, a list or iterator of batches, the path "
        f"of an Arrow file, or a callable that gives such an object; this is "
        f"{type(source).__module__}.{type(source).__qualname__}"
        + (", of which xd.asarray() makes one, if it has one dimension" if _is_other_array(source) else "")
    )
