"""What counts as a source, wherever one is given."""

from __future__ import annotations

import os
from typing import Literal

from crossdock.errors import UnsupportedTypeError

_STREAMS = ("__arrow_c_stream__", "__arrow_c_device_stream__")
_ARRAYS = ("__arrow_c_array__", "__arrow_c_device_array__")


def is_array(source: object) -> bool:
    """Whether an object with Arrow methods is one array, or one batch."""
    return any(hasattr(source, method) for method in _ARRAYS)


def kind(source: object) -> Literal["file", "arrow", "callable"]:
    """The path of a file; an object with Arrow methods, or a list of such; or a callable that makes one."""
    if isinstance(source, (str, os.PathLike)):
        return "file"
    # A class has its objects' methods too, but it is a callable.
    is_class = isinstance(source, type)
    is_arrow = not is_class and any(hasattr(source, method) for method in _STREAMS + _ARRAYS)
    if is_arrow or isinstance(source, (list, tuple)):
        return "arrow"
    if callable(source):
        return "callable"
    raise UnsupportedTypeError(
        f"a source is an object with one of {', '.join(_STREAMS + _ARRAYS)}, a list of batches, the path of an Arrow "
        f"file, or a callable that gives such an object; this is "
        f"{type(source).__module__}.{type(source).__qualname__}"
    )
