"""Memory to build one table in. Publishing the table takes the memory over without a copy."""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from crossdock import _native
from crossdock._numpy import empty_array
from crossdock._options import count, is_copy_on_write
from crossdock.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

    from crossdock._typing import DeviceLike, QueueLike

__all__ = ["Arena"]


def _make_read_only(views: dict[int, weakref.ref[NDArray[Any]]]) -> None:
    for view in list(views.values()):
        array = view()
        if array is not None:
            array.flags.writeable = False
    views.clear()


class Arena:
    """Memory for one table. Fill it and publish the table: no byte of the data is copied.

    Publishing anything whose buffers are in the arena takes the whole arena over and freezes it permanently. The arrays
    that `empty()` returned become read-only, and `empty()` and `buffer()` raise `ArenaFrozenError`. The memory is then
    read-only in this process, too. Other views of it (a slice of such an array, a tensor or buffer made from one) can't
    be marked read-only: writing through one raises SIGSEGV, which ends the process. Release such views before you
    publish.

    The memory lives as long as any array, buffer or batch that points into it.

    reserve: the most bytes that the arena can hold. It only costs address space; 0 means twice the machine's memory. On
        a device it is allocated at once, and handed over as one piece; 0 means that the arena grows, in pieces that are
        each as large as all before.
    writable: False: the memory is read-only once it is published. "copy-on-write": it stays writable; each page that is
        written to afterwards becomes a private copy, and consumers see what was published. Only on the host.
    device: where the memory is, as "cuda:0" or a filter string; None: on the host. `tensor()` allocates memory of a
        device. Publishing a table that lies in it takes the arena over: `tensor()` then raises `ArenaFrozenError`. No
        driver can make the memory read-only: a later write through a tensor changes what consumers see. Raises
        `UnsupportedError` for a device whose memory other processes can't open.
    """

    def __init__(
        self, reserve: int = 0, *, device: DeviceLike | None = None, writable: Literal[False, "copy-on-write"] = False
    ) -> None:
        copy_on_write = is_copy_on_write(writable)
        reserve = count(reserve, "reserve", "bytes", least=0)
        self._views: dict[int, weakref.ref[NDArray[Any]]] = {}  # The arrays of empty(), by id().
        self._native: _native.Arena | _native.DeviceArena
        # Other types may compare element by element, as arrays do.
        if device is None or (isinstance(device, _native.Device | str | tuple) and _native.Device("cpu") == device):
            self._native = _native.Arena(reserve, copy_on_write)
            if not copy_on_write:
                self._native.on_freeze(partial(_make_read_only, self._views))
        elif copy_on_write:
            raise UnsupportedError(f"memory of {device} can't be copied on write; leave writable out")
        else:
            self._native = _native.DeviceArena(device, reserve)

    @property
    def device(self) -> _native.Device:
        """Where the memory is."""
        return _native.Device("cpu") if isinstance(self._native, _native.Arena) else self._native.device

    @property
    def frozen(self) -> bool:
        """True after the arena was published."""
        return self._native.frozen

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self._native.nbytes

    def _of_host(self, what: str) -> _native.Arena:
        if isinstance(self._native, _native.Arena):
            return self._native
        raise UnsupportedError(
            f"{what} needs an Arena of the host; this one is of {self.device}, where tensor() allocates"
        )

    def buffer(self, nbytes: int) -> _native.ArenaBuffer:
        """Allocates zeroed memory with the buffer protocol, for `pyarrow.py_buffer`, `memoryview` and others.

        nbytes: the size of the memory.

        Raises `InvalidArgumentError` for a negative size, `ArenaFrozenError` after the arena was published.
        """
        return self._of_host("buffer()").allocate(count(nbytes, "nbytes", "bytes", least=0))

    def tensor(
        self,
        shape: SupportsIndex | Sequence[SupportsIndex],
        dtype: object = "float64",
        *,
        queue: QueueLike | None = None,
    ) -> _native.Tensor:
        """Allocates a `Tensor` in the arena's memory of a device, in C order, aligned to 64 bytes, not initialized.

        shape, dtype: as for `crossdock.empty()`.
        queue: as for `crossdock.empty()`; None: the device's usual one.

        Raises `UnsupportedError` for an arena of the host, which makes NumPy arrays, and `ArenaFrozenError` after the
        arena was published.
        """
        if isinstance(self._native, _native.Arena):
            raise UnsupportedError(
                "this Arena is of the host, where empty() and buffer() allocate; tensor() is for devices"
            )
        return self._native.tensor(shape, dtype, queue)

    def empty(self, shape: int | Sequence[int], dtype: DTypeLike = "f8") -> NDArray[Any]:
        """Allocates a NumPy array in the arena, in C order, aligned to 64 bytes.

        The memory is zeroed, but don't rely on it. Needs NumPy.

        shape, dtype: as for `numpy.empty()`.

        Raises `InvalidArgumentError` for a negative extent and for types with Python objects, `ArenaFrozenError` after
        the arena was published.
        """
        array = empty_array(lambda nbytes: self._of_host("empty()").allocate(nbytes), shape, dtype)
        views, key = self._views, id(array)
        views[key] = weakref.ref(array, lambda _: views.pop(key, None))
        return array

    def __repr__(self) -> str:
        where = "" if isinstance(self._native, _native.Arena) else f" on {self.device}"
        return f"<crossdock.Arena: {self.nbytes} bytes{where}{', frozen' if self.frozen else ''}>"
