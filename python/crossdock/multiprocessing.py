"""Large arrays between processes by shared memory, for `multiprocessing`, `concurrent.futures` and joblib.

After `install()`, these modules pass large NumPy arrays, and the buffers of Arrow data and of pandas frames, to another
process as names of shared memory instead of bytes. This applies to a `Queue`, a `Pipe`, a `Pool`, a
`ProcessPoolExecutor`, and joblib's loky. Each array is copied once into a pool, or not at all if it is in one. The
receiver may write to it, and so may the sender; neither sees the other's writes.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import multiprocessing
import multiprocessing.reduction
import multiprocessing.util
import os
import sys
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, cast

from crossdock import _native, _pandas, pool
from crossdock._exchange import Exchange, descriptors_are_few
from crossdock._optional import needed
from crossdock._options import count
from crossdock.errors import ConnectionError, Error, NotFoundError, TruncatedStreamError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from crossdock.server import Server

__all__ = ["install", "stats", "uninstall"]

_log = logging.getLogger("crossdock")

# Memory that was copied into the pool is kept for the next time that the same data is passed: at most so many copies,
# of so many bytes together.
_KEPT_COPIES = 64
_KEPT_BYTES = 1 << 30
_LINGER_SECONDS = 30.0
# The same where no process is known that could receive: no child, no parent, and nobody is connected.
_LINGER_ALONE_SECONDS = 1.0
_QUIET_SECONDS = 1.0


class _Exchange(Exchange):
    """The exchange of worker processes: it keeps copies in the pool, and drains. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False
        self._copies: OrderedDict[tuple[int, int], _native.PoolBuffer] = OrderedDict()
        self._sent = dict.fromkeys(("by_name", "bytes_by_name", "bytes_copied", "by_value", "bytes_by_value"), 0)

    def note(self, **sent: int) -> None:
        with self.lock:
            for what, number in sent.items():
                self._sent[what] += number

    def stats(self) -> dict[str, int]:
        with self.lock:
            return dict(self._sent)

    def copy(self, address: int, nbytes: int) -> _native.PoolBuffer:
        """Returns a copy of these bytes in the pool: the one from last time, if they are the same still."""
        key = (address, nbytes)
        with self.lock:
            known = self._copies.pop(key, None)
        if known is None or not _native.same_memory(known.address, address, nbytes):
            known = pool.default().buffer(nbytes)
            _native.copy_memory(known.address, address, nbytes)
            self.note(bytes_copied=nbytes)
        with self.lock:
            self._copies[key] = known
            while len(self._copies) > _KEPT_COPIES or sum(size for _, size in self._copies) > _KEPT_BYTES:
                self._copies.popitem(last=False)
        return known

    def drain(self) -> None:
        """Waits until the receivers have asked for everything that this process has passed on, and ends.

        What is passed on later goes by value.
        """
        self.closed = True
        server = self.take_server()
        with self.lock:
            self._copies.clear()
        if server is None:
            return
        try:
            _wait_for_receivers(server)
        except KeyboardInterrupt:
            _log.warning("crossdock: what other processes haven't received yet is lost")
        server.close()


def _wait_for_receivers(server: Server) -> None:
    """Returns when everything was asked for, or nobody is expected to ask any more."""
    if isinstance(getattr(sys, "last_value", None), KeyboardInterrupt):
        return  # Ctrl-C has ended the program
    start = time.monotonic()
    told = False
    # The names are withdrawn as they are asked for. Nothing else tells of it, and this is the process's end.
    while left := len(server.stats()["sources"]):
        waited = time.monotonic() - start
        limit = _LINGER_SECONDS if _somebody_may_receive(server) else _LINGER_ALONE_SECONDS
        if waited >= limit:
            _log.warning("crossdock: %d arrays were not received within %.0f s, and are lost", left, waited)
            return
        if waited >= _QUIET_SECONDS and not told:
            _log.warning(
                "crossdock: waiting up to %.0f s until other processes have received %d arrays; Ctrl-C ends the wait",
                limit, left,
            )  # fmt: skip
            told = True
        time.sleep(0.002)


def _somebody_may_receive(server: Server) -> bool:
    parent = multiprocessing.parent_process()
    return (
        # Leaving a Pool receives here what its workers haven't.
        any(consumer["pid"] != os.getpid() for consumer in server.stats()["consumers"])
        or bool(multiprocessing.active_children())
        or (parent is not None and parent.is_alive())
    )


_exchange = _Exchange()
_threshold = 1 << 20
_pandas_registered = False


def _start_anew_in_child() -> None:
    global _exchange
    _exchange = _Exchange()  # the parent's server and clients are the parent's


os.register_at_fork(after_in_child=_start_anew_in_child)


def _drain() -> None:
    _exchange.drain()


def _drain_at_exit(_: object = None) -> None:
    """Has this process drain when it ends.

    A process of multiprocessing's calls its finalizers then, and nothing of atexit's. The threads that write to its
    queues have written everything by then: their priority is -5.
    """
    multiprocessing.util.Finalize(None, _drain, exitpriority=-100)
    atexit.unregister(_drain)
    atexit.register(_drain)


# A process that multiprocessing forks forgets its parent's finalizers.
multiprocessing.util.register_after_fork(_drain, _drain_at_exit)


def _pass_on(address: int, memory: NDArray[np.uint8]) -> tuple[str, str] | None:
    """Returns the URI and the name under which a receiver finds these bytes; None where they must go by value.

    `memory` starts at `address`, and keeps what keeps it: memory that was received must stay received.
    """
    exchange = _exchange
    where = None if exchange.closed or descriptors_are_few() else _published(exchange, address, memory)
    way = "by_value" if where is None else "by_name"
    exchange.note(**{way: 1, f"bytes_{way}": memory.nbytes})
    return where


def _published(exchange: _Exchange, address: int, memory: NDArray[np.uint8]) -> tuple[str, str] | None:
    try:
        source: object = memory
        if not _native.needs_no_copy(address, memory.nbytes):
            source = exchange.copy(address, memory.nbytes)
        server = exchange.server()
        name = str(next(exchange.names))
        server.publish(name, _native.asarray(source), mode="table", times=1)
    except Error:  # no memory, descriptor or mapping is left, or the process ends
        return None
    return server.uri, name


def _receive(uri: str, name: str) -> _native.Tensor:
    try:
        (batch,) = _exchange.get(uri, name, writable="copy-on-write")
    except (NotFoundError, ConnectionError, TruncatedStreamError) as error:
        raise ConnectionError(
            "the process that sent this array has ended, or can't be reached; it must live until it is received: "
            f"{error}"
        ) from error
    return _native.from_arrow(batch)


def _array_of(uri: str, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], order: str) -> NDArray[Any]:
    import numpy as np

    flat = np.asarray(_receive(uri, name)).view(dtype)
    return flat.reshape(shape, order=cast("Any", order))


def _buffer_of(uri: str, name: str) -> Any:
    import pyarrow as pa

    return pa.py_buffer(_receive(uri, name))


def _reduce_array(array: NDArray[Any]) -> Any:
    _register_pandas()
    flags = array.flags
    order = "C" if flags.c_contiguous else "F" if flags.f_contiguous else ""
    if array.nbytes >= _threshold and order and not array.dtype.hasobject:
        flat = (array if order == "C" else array.T).reshape(-1).view("u1")
        where = _pass_on(array.ctypes.data, flat)
        if where is not None:
            return _array_of, (*where, array.dtype, array.shape, order)
    return array.__reduce__()


def _reduce_buffer(buffer: Any) -> Any:
    _register_pandas()
    if buffer.size >= _threshold and buffer.is_cpu:
        import numpy as np

        where = _pass_on(buffer.address, np.frombuffer(buffer, "u1"))
        if where is not None:
            return _buffer_of, where
    return buffer.__reduce_ex__(4)


def _register_pandas() -> None:
    """Registers pandas' classes once pandas is there: it may be imported after install()."""
    global _pandas_registered
    if not _pandas_registered and (found := _pandas.reducers()):
        _pandas_registered = True
        for register in _registers():
            for kind, reduce in found.items():
                register(kind, reduce)


def _registers() -> list[Callable[[type, Any], Any]]:
    """The functions by which the picklers of the processes' modules learn of a reducer."""
    found: list[Callable[[type, Any], Any]] = [multiprocessing.reduction.ForkingPickler.register]
    for name in ("joblib.externals.loky.backend.reduction", "loky.backend.reduction"):
        if name in sys.modules:
            found.append(sys.modules[name].register)
    return found


def _types() -> dict[type, Callable[[Any], Any]]:
    with needed("crossdock.multiprocessing needs numpy", "numpy"):
        import numpy as np

    types: dict[type, Callable[[Any], Any]] = {np.ndarray: _reduce_array}
    with contextlib.suppress(ImportError):
        import pyarrow as pa

        types[pa.Buffer] = _reduce_buffer
        types[pa.ResizableBuffer] = _reduce_buffer
    return types


def install(threshold: int = 1 << 20) -> None:
    """Makes this process pass arrays and buffers of at least `threshold` bytes by shared memory from now on.

    Call it in each process that sends. Children that are forked afterwards have it; others call it themselves, for
    example as the `initializer` of a pool. A process that only receives needs no call. For joblib, import joblib first.

    It applies to NumPy arrays that are contiguous and have no Python objects, and to pyarrow's buffers. So it applies
    to objects that contain these, such as pandas frames and Arrow tables. Everything else is passed as before; so are
    arrays for which there is no memory. An object that is passed again while it is unchanged isn't copied again. A
    sender that ends waits up to 30 s until the receivers have what it passed on. Data that is never received is kept
    until then.

    Only between processes of one user on one machine, as these modules are.

    Raises `InvalidArgumentError` for a threshold below 1, `TypeError` for one that is no whole number, and
    `ModuleNotFoundError` without NumPy.
    """
    global _threshold, _pandas_registered
    _threshold = count(threshold, "threshold", "bytes")
    for register in _registers():
        for kind, reduce in _types().items():
            register(kind, reduce)
    _pandas_registered = False  # another module's pickler may have come since
    _register_pandas()
    _drain_at_exit()


def stats() -> dict[str, int]:
    """Returns what this process has passed on, of arrays and buffers that are large enough for shared memory.

    `by_name` and `bytes_by_name`: by shared memory; `bytes_copied`: the bytes of these that were first copied into the
    pool; `by_value` and `bytes_by_value`: as bytes, because memory or descriptors were low, or the process was ending.
    All are 0 in a process that hasn't called `install()`, and for joblib if it was imported after that. Raises nothing.
    """
    return _exchange.stats()


def uninstall() -> None:
    """Makes this process pass everything by value again. What was passed on stays valid. Raises nothing."""
    global _threshold
    _threshold = sys.maxsize
