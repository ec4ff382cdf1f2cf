"""NumPy arrays in memory of ours."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

from crossdock._optional import needed
from crossdock._options import count
from crossdock._text import quoted
from crossdock.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import DTypeLike, NDArray

    from crossdock import _native


def _extents(shape: Any) -> tuple[int, ...]:
    try:
        return (operator.index(shape),)
    except TypeError:
        pass
    try:
        return tuple(map(operator.index, shape))
    except TypeError:
        raise TypeError(f"shape must be a whole number, or a sequence of them, not {quoted(shape)}") from None


def empty_array(
    allocate: Callable[[int], _native.ArenaBuffer | _native.PoolBuffer], shape: int | Sequence[int], dtype: DTypeLike
) -> NDArray[Any]:
    """Returns an array in C order in the memory that `allocate` returns for its bytes.

    Raises `InvalidArgumentError` for a negative extent and for types with Python objects, and the errors of `allocate`.
    """
    with needed("empty() needs numpy", "numpy"):
        import numpy as np

    kind: np.dtype[Any] = np.dtype(dtype)
    if kind.hasobject:
        raise InvalidArgumentError(f"{kind} has Python objects, which another process can't use")
    extents = _extents(shape)
    if any(extent < 0 for extent in extents):
        raise InvalidArgumentError(f"the extents of an array must not be negative; shape was {quoted(shape)}")
    size = count(math.prod(extents) * kind.itemsize, "the size of an array", "bytes", least=0)
    return np.ndarray(extents, kind, buffer=memoryview(allocate(size)))
