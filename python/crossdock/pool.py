"""Shared memory that is used again, for arrays that other processes will read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crossdock import _native
from crossdock._numpy import empty_array
from crossdock._optional import needed
from crossdock._options import count
from crossdock._text import class_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

__all__ = ["Pool", "default", "install_numpy", "uninstall_numpy"]


class Pool:
    """Shared memory that is used again, for arrays that other processes will read.

    New shared memory costs as much as a copy through a socket, because the system clears each page and maps it at the
    first access. Memory that was used before has neither cost. Publishing an array that lies in a pool copies nothing:
    the pool lends the memory. It uses the memory again when the array is gone and no consumer reads it any more.

    The producer may continue to write to an array that was published. It then has private copies of the pages that it
    writes to, and consumers see what was published. Publishing the array again copies it, if it was written to.

    Each array is a memory file of its own, so a consumer that gets one can read no other. It can read the whole array,
    even if only a slice was published. Memory that consumers had is used again for other consumers of the same user;
    see security.md. Other users get copies.

    After a fork both processes have the arrays as they were, each with its own writes.

    limit: the most bytes that the pool may have, used and idle; None: no limit.
    idle: the most bytes of unused memory that it keeps for the next arrays.

    Raises `InvalidArgumentError` for a limit below 1 and a negative `idle`, and `TypeError` unless they are whole
    numbers.

    Thread-safe. Memory that is in use outlives the pool.
    """

    def __init__(self, limit: int | None = None, idle: int = 1 << 30) -> None:
        most = 0 if limit is None else count(limit, "limit", "bytes")
        self._native = _native.Pool(most, count(idle, "idle", "bytes", least=0))

    def empty(self, shape: int | Sequence[int], dtype: DTypeLike = "f8") -> NDArray[Any]:
        """Allocates a NumPy array in the pool, in C order, aligned to 64 bytes, not initialized.

        Memory is taken from the system at once. (`numpy.empty()` takes it page by page, when it is written to.) Needs
        NumPy.

        shape, dtype: as for `numpy.empty()`.

        Raises `InvalidArgumentError` for a negative extent and for types with Python objects. Raises `ResourceError`
        beyond the pool's limit, and if the machine, or a cgroup, doesn't have enough memory left.
        """
        return empty_array(self._native.allocate, shape, dtype)

    def buffer(self, nbytes: int) -> _native.PoolBuffer:
        """Allocates memory with the buffer protocol, for `pyarrow.py_buffer`, `memoryview` and others.

        It isn't initialized.

        nbytes: the size of the memory.

        Raises `InvalidArgumentError` for a negative size, `ResourceError` over the pool's limit.
        """
        return self._native.allocate(count(nbytes, "nbytes", "bytes", least=0))

    def stats(self) -> dict[str, int]:
        """Returns what the pool has.

        `blocks` and `bytes`: memory of the system, used and idle; `idle_bytes`: the idle part, for the next arrays;
        `lent_bytes`: memory that other processes may be reading; `made` and `reused`: the allocations since the pool
        was made that needed new memory, and those that used memory again. Raises nothing.
        """
        return self._native.stats()

    def trim(self, keep: int = 0) -> int:
        """Frees idle memory until at most `keep` bytes are left; returns the bytes that were freed.

        Raises `InvalidArgumentError` for a negative `keep`, and `TypeError` unless it is a whole number.
        """
        return self._native.trim(count(keep, "keep", "bytes", least=0))

    def __repr__(self) -> str:
        stats = self.stats()
        return f"<crossdock.Pool: {stats['bytes']} bytes, {stats['idle_bytes']} of them idle>"


_default: Pool | None = None


def default() -> Pool:
    """Returns the pool of this process, which is made at the first call. It has no limit and keeps 1 GiB idle.

    Raises nothing.
    """
    global _default
    if _default is None:
        _default = Pool()
    return _default


def install_numpy(threshold: int = 1 << 20, pool: Pool | None = None) -> None:
    """Makes NumPy allocate its large arrays in a pool from now on, in every thread and context.

    This applies to all arrays with `threshold` bytes or more that own their data, for example results of operations,
    and columns of pandas frames. Earlier arrays stay as they are. If the pool can't allocate an array, NumPy's previous
    allocator does. Call it again with another pool or threshold to change them, and `uninstall_numpy()` to end it.

    pool: None: `default()`. A pool that NumPy was given lives as long as the process.

    Raises `UnsupportedError` for a NumPy whose allocator can't be extended in this way, `InvalidArgumentError` for a
    threshold below 1, `TypeError` for arguments of another type, and `ModuleNotFoundError` without NumPy.
    """
    with needed("install_numpy() needs numpy", "numpy"):
        import numpy as np

    threshold = count(threshold, "threshold", "bytes")
    if not isinstance(pool, Pool | None):
        raise TypeError(f"pool must be a crossdock.Pool or None, not {class_of(pool)}")
    core: Any = getattr(np, "_core", None) or np.core
    (pool or default())._native.install_numpy(core._multiarray_umath._ARRAY_API, threshold)


def uninstall_numpy() -> None:
    """Makes NumPy allocate as before. Arrays that are in a pool stay there. Raises nothing."""
    _native.uninstall_numpy()
