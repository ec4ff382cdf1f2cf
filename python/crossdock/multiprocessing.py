"""Large arrays between processes by shared memory, for `multiprocessing`, `concurrent.futures` and joblib.

After `install()`, what these modules pass to another process (through a `Queue`, a `Pipe`, a `Pool`, a
`ProcessPoolExecutor`, or joblib's loky) carries large NumPy arrays, and the buffers of Arrow data and of pandas frames,
as names of shared memory instead of bytes. Each array is copied once into a pool, or not at all if it is in one. The
receiver may write to it, and so may the sender; neither sees the other's writes.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import itertools
import multiprocessing.reduction
import multiprocessing.util
import os
import sys
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, cast

from crossdock import _native, pool
from crossdock._options import count
from crossdock.client import Client, connect
from crossdock.errors import Error
from crossdock.server import Server, serve

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["install", "uninstall"]

# Memory that was copied into the pool is kept for the next time that the same data is passed: at most so many copies,
# of so many bytes together.
_KEPT_COPIES = 64
_KEPT_BYTES = 1 << 30
_LINGER_SECONDS = 30.0


class _Exchange:
    """What a process needs to pass memory on: its server, and its clients of others. Thread-safe."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.names = itertools.count()
        self.closed = False
        self._server: Server | None = None
        self._clients: dict[str, Client] = {}
        self._copies: OrderedDict[tuple[int, int], _native.PoolBuffer] = OrderedDict()

    def server(self) -> Server:
        with self.lock:
            if self._server is None:
                self._server = serve({}, "shm:")
            return self._server

    def client(self, uri: str) -> Client:
        with self.lock:
            client = self._clients.get(uri)
            if client is None:
                client = self._clients[uri] = connect(uri)
            return client

    def copy(self, address: int, nbytes: int) -> _native.PoolBuffer:
        """Returns a copy of these bytes in the pool: the one from last time, if they are the same still."""
        key = (address, nbytes)
        with self.lock:
            known = self._copies.pop(key, None)
        if known is None or _memcmp(known.address, address, nbytes) != 0:
            known = pool.default().buffer(nbytes)
            ctypes.memmove(known.address, address, nbytes)
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
        with self.lock:
            server, self._server = self._server, None
            self._copies.clear()
        if server is None:
            return
        end = time.monotonic() + _LINGER_SECONDS
        with contextlib.suppress(Error):
            # The names are withdrawn as they are asked for. Nothing else tells of it, and this is the process's end.
            while server.stats()["sources"] and time.monotonic() < end:
                time.sleep(0.002)
        server.close()


_exchange = _Exchange()
_threshold = 1 << 20
# ctypes releases the GIL for both.
_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


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
    if exchange.closed:
        return None
    try:
        source: object = memory
        if not _native.needs_no_copy(address, memory.nbytes):
            source = exchange.copy(address, memory.nbytes)
        server = exchange.server()
        name = str(next(exchange.names))
        server.publish(name, _native.asarray(source), times=1)
    except Error:  # no memory, descriptor or mapping is left, or the process ends
        return None
    return server.uri, name


def _receive(uri: str, name: str) -> _native.Tensor:
    try:
        (batch,) = _exchange.client(uri).get(name, writable="copy-on-write")
    except Error as error:
        error.add_note("The process that passed this object on must live until it is received.")
        raise
    return _native.from_arrow(batch)


def _array_of(uri: str, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], order: str) -> NDArray[Any]:
    import numpy as np

    flat = np.asarray(_receive(uri, name)).view(dtype)
    return flat.reshape(shape, order=cast("Any", order))


def _buffer_of(uri: str, name: str) -> Any:
    import pyarrow as pa

    return pa.py_buffer(_receive(uri, name))


def _reduce_array(array: NDArray[Any]) -> Any:
    flags = array.flags
    order = "C" if flags.c_contiguous else "F" if flags.f_contiguous else ""
    if array.nbytes >= _threshold and order and not array.dtype.hasobject:
        flat = (array if order == "C" else array.T).reshape(-1).view("u1")
        where = _pass_on(array.ctypes.data, flat)
        if where is not None:
            return _array_of, (*where, array.dtype, array.shape, order)
    return array.__reduce__()


def _reduce_buffer(buffer: Any) -> Any:
    if buffer.size >= _threshold and buffer.is_cpu:
        import numpy as np

        where = _pass_on(buffer.address, np.frombuffer(buffer, "u1"))
        if where is not None:
            return _buffer_of, where
    return buffer.__reduce_ex__(4)


def _registers() -> list[Callable[[type, Any], Any]]:
    """The functions by which the picklers of the processes' modules learn of a reducer."""
    found: list[Callable[[type, Any], Any]] = [multiprocessing.reduction.ForkingPickler.register]
    for name in ("joblib.externals.loky.backend.reduction", "loky.backend.reduction"):
        if name in sys.modules:
            found.append(sys.modules[name].register)
    return found


def _types() -> dict[type, Callable[[Any], Any]]:
    import numpy as np

    types: dict[type, Callable[[Any], Any]] = {np.ndarray: _reduce_array}
    with contextlib.suppress(ImportError):
        import pyarrow as pa

        types[pa.Buffer] = _reduce_buffer
        types[pa.ResizableBuffer] = _reduce_buffer
    return types


def install(threshold: int = 1 << 20) -> None:
    """Has processes pass arrays and buffers of at least `threshold` bytes by shared memory from now on.

    Call it in each process that sends: children that are forked afterwards have it, others call it themselves, for
    example as the `initializer` of a pool. A process that only receives needs nothing. For joblib import joblib first.

    Passes NumPy arrays that are contiguous and have no Python objects, and pyarrow's buffers; and so what is made of
    them, such as pandas frames and Arrow tables. Everything else goes as before, and so does what finds no memory. An
    object that is passed again while it is unchanged isn't copied again. A sender that ends waits up to 30 s until
    the receivers have what it passed on. What is never received is kept until then.

    Only between processes of one user on one machine, as these modules are.
    """
    global _threshold
    _threshold = count(threshold, "threshold", "bytes")
    for register in _registers():
        for kind, reduce in _types().items():
            register(kind, reduce)
    _drain_at_exit()


def uninstall() -> None:
    """Has processes pass everything by value again. What was passed on stays valid."""
    global _threshold
    _threshold = sys.maxsize
