"""Memory to build one table in. Publishing the table takes the memory over without a copy."""

from __future__ import annotations

import math
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from crossdock import _native
from crossdock.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import DTypeLike, NDArray

__all__ = ["Arena"]


def _make_read_only(views: dict[int, weakref.ref[NDArray[Any]]]) -> None:
    for view in list(views.values()):
        array = view()
        if array is not None:
            array.flags.writeable = False
    views.clear()


class Arena:
    """Memory for one table. Fill it and publish the table: no byte of the data is copied.

    Publishing anything whose buffers are in the arena takes the whole arena over and freezes it permanently: the arrays
    that `empty()` returned become read-only, and `empty()` and `buffer()` raise `ArenaFrozenError`. The memory is then
    read-only in this process, too. Other views of it (a slice of such an array, a tensor or buffer made from one) can't
    be marked read-only: writing through one raises SIGSEGV, which ends the process. Release such views before you
    publish.

    The memory lives as long as any array, buffer or batch that points into it.

    reserve: the most bytes that the arena can hold. It only costs address space; 0 means twice the machine's memory.
    """

    def __init__(self, reserve: int = 0) -> None:
        if reserve < 0:
            raise InvalidArgumentError(f"reserve must be at least 0 bytes; it was {reserve}")
        self._native = _native.Arena(reserve)
        self._views: dict[int, weakref.ref[NDArray[Any]]] = {}  # The arrays of empty(), by id().
        self._native.on_freeze(partial(_make_read_only, self._views))

    @property
    def frozen(self) -> bool:
        """True after the arena was published."""
        return self._native.frozen

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self._native.nbytes

    def buffer(self, nbytes: int) -> _native.ArenaBuffer:
        """Allocates zeroed memory with the buffer protocol, for `pyarrow.py_buffer`, `memoryview` and others.

        Raises `InvalidArgumentError` for a negative size, `ArenaFrozenError` after the arena was published.
        """
        if nbytes < 0:
            raise InvalidArgumentError(f"nbytes must be at least 0; it was {nbytes}")
        return self._native.allocate(nbytes)

    def empty(self, shape: int | Sequence[int], dtype: DTypeLike = "f8") -> NDArray[Any]:
        """Allocates a NumPy array in the arena, in C order, aligned to 64 bytes.

        The memory is zeroed, but don't rely on it. Needs NumPy. Raises `InvalidArgumentError` for a negative
        extent and for types with Python objects, `ArenaFrozenError` after the arena was published.
        """
        import numpy as np

        kind: np.dtype[Any] = np.dtype(dtype)
        if kind.hasobject:
            raise InvalidArgumentError(f"{kind} has Python objects, which another process can't use")
        extents = (shape,) if isinstance(shape, int) else tuple(shape)
        if any(extent < 0 for extent in extents):
            raise InvalidArgumentError(f"the extents of an array must not be negative; shape was {shape!r}")
        memory = self._native.allocate(math.prod(extents) * kind.itemsize)
        array: NDArray[Any] = np.ndarray(extents, kind, buffer=memoryview(memory))
        views, key = self._views, id(array)
        views[key] = weakref.ref(array, lambda _: views.pop(key, None))
        return array

    def __repr__(self) -> str:
        return f"<crossdock.Arena: {self.nbytes} bytes{', frozen' if self.frozen else ''}>"
