"""Tables, arrays and batches from one of Ray's actors to another, through shared memory. Experimental.

`register()` makes Ray carry `pyarrow` tables, NumPy arrays and torch tensors of the CPU by its transport "crossdock":
through shared memory on one machine, over tcp between machines. `stream()` passes batches from one actor to another
while they are made.

Ray calls the interface that this module uses alpha: it may change with each release of Ray, and then this module
changes too. It needs Ray 2.55 or later.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from crossdock._options import count
from crossdock.errors import ConsumedError, NotFoundError, UnsupportedError

try:
    import ray.experimental

    _parameters = inspect.signature(ray.experimental.register_tensor_transport).parameters
    if "data_type" not in _parameters:
        raise AttributeError("data_type")
except AttributeError as _missing:
    raise UnsupportedError(f"crossdock.ray needs Ray 2.55 or later; this is Ray {ray.__version__}") from _missing

from crossdock import _ray_transport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crossdock import _native
    from crossdock._typing import Source

__all__ = ["Stream", "register", "stream"]


def register(threshold: int = 1 << 16) -> None:
    """Registers the transport "crossdock" with Ray. Experimental.

    Call it in the module that defines the actors, after the imports: the decorator
    `@ray.method(tensor_transport="crossdock")` needs it, and so do actors that Ray starts again. It may be called
    again. Ray registers the transport in the actors that this process makes afterwards.

    It applies to each `pyarrow.Table`, NumPy array and torch tensor of the CPU in the value of such a method, also
    inside dicts, lists and pandas frames. Each is published on a server of the actor, and passed to the receiving
    actor, or to `ray.get()`, by shared memory. Objects of fewer than `threshold` bytes, NumPy arrays of Python objects,
    and everything else are passed in Ray's own way. The receiving actor must be made with
    `enable_tensor_transport=True`.

    Ownership: data that lies in a pool (`crossdock.Pool`) isn't copied; other data is copied into the pool once. The
    sender may change it afterwards, and receivers may change the arrays and tensors that they get: nobody sees the
    others' writes. Tables are read-only, as pyarrow's are. The sender keeps the data until Ray has no reference to the
    value. Receivers keep what they have got, also if the sender ends.

    Thread-safe. Raises `InvalidArgumentError` for a threshold below 1. A `ConnectionError` at the receiver says that
    the sender has ended. A `ResourceError` at the sender says that there is no memory.
    """
    _ray_transport.register(count(threshold, "threshold", "bytes"))


class Stream:
    """Batches of another process, for one consumer. `stream()` makes it. Experimental.

    Ray can pass it to another process, where it can be read once: `for batch in stream` returns a
    `crossdock.RecordBatch` each time. Everything that takes Arrow streams can read it whole. Batches are leased: the
    memory of one is used again when it is dropped.

    Reading raises `ConsumedError` if it was read before or closed, `ConnectionError` or `TruncatedStreamError` if the
    process that made it has ended, and the error of the source, if that failed. Use it on one thread at a time.
    """

    def __init__(self, place: _ray_transport.Place, name: str) -> None:
        self._place = place
        self._name = name

    def _read(self) -> _native.RecordBatchReader:
        try:
            return _ray_transport.request(self._place, self._name)
        except NotFoundError as error:
            raise ConsumedError(
                f"the stream {self._name} was read before, or closed: it is for one consumer"
            ) from error

    def __iter__(self) -> Iterator[_native.RecordBatch]:
        return iter(self._read())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._read().__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """Withdraws the stream, in the process that made it, if nobody has begun to read it. In other processes it does
        nothing.

        It may be called again. A consumer that has begun to read continues. Raises nothing.
        """
        _ray_transport.withdraw(self._name)

    def __reduce__(self) -> Any:
        return Stream, (self._place, self._name)

    def __repr__(self) -> str:
        return f"<crossdock.ray.Stream {self._name}>"


def stream(source: Source | Callable[[], Source]) -> Stream:
    """Offers batches to one consumer in another process of Ray's, and returns a handle to pass to it. Experimental.

    Call it in an actor, and return the handle from a method, or pass it on as an argument. The consumer reads it with
    `for batch in handle`.

    source: an iterator of batches of one schema, such as a generator, an Arrow stream such as a
        `pyarrow.RecordBatchReader`, a table, a list of batches, or a function without arguments that returns one of
        these. It is read when the consumer asks, on another thread than the actor's methods.

    Ownership: the source belongs to the stream from now on. Each batch is copied once, into memory that is used again.
    The producer waits when the consumer is behind. The actor must live until the stream is read to its end, so keep its
    handle. A stream that nobody reads stays until `close()`, or until the actor ends.

    Thread-safe. Raises `TypeError` if `source` is none of these.
    """
    return Stream(*_ray_transport.offer(source))
