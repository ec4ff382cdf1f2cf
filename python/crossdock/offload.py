"""Where work runs: queues by name, a current queue, and compute follows data.

Five ways for a package to let its users say where its work runs, after "Offloading to XPU from Python":

1. Each function takes a queue: `gemm(queue, a, b)`.
2. The package has a current queue of its own: `Package`.
3. Compute follows data: `placement(a, b)` is where the arrays are.
4. All packages ask one manager: `current()`, `current_queue()`, `set_global_queue()`.
5. An object holds the queue, and its methods run there: `Offloaded`.

`docs/offload.md` says which suits which package, and how they work together.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from crossdock._native import Package, Queue, Scope, Tensor, accessible, asarray, empty
from crossdock._native import offload as _manager

if TYPE_CHECKING:
    from crossdock._typing import UsmType

__all__ = [
    "Offloaded",
    "Package",
    "Queue",
    "Scope",
    "accessible",
    "collocate",
    "current",
    "current_queue",
    "placement",
    "set_global_queue",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])

current = _manager.current
current_queue = _manager.current_queue
placement = _manager.placement
set_global_queue = _manager.set_default_queue


def collocate(*arrays: Any, to: Any = None) -> tuple[Tensor, ...]:
    """The arrays, all on one queue: that of `to`, a queue or an array, else that of the first array that is on one.

    An array that the queue reaches isn't copied: it is associated with the queue, which is ordered after the work
    that is pending on it. The others are copied there. Arrays of the host are copied if there is a queue to come to.
    """
    tensors = tuple(asarray(array) for array in arrays)
    if to is None:
        queue = next((tensor.queue for tensor in tensors if tensor.queue is not None), None)
        queue = queue or next((placement(tensor) for tensor in tensors if tensor.usm_type is not None), None)
    elif isinstance(to, Queue | str):
        queue = Queue(to)
    else:
        queue = placement(to)
    return tensors if queue is None else tuple(tensor.collocate(queue) for tensor in tensors)


class Offloaded:
    """A base for classes whose methods run on one queue (way 5): `class Lapack(Offloaded)`, `Lapack("gpu:1").svd(a)`.

    The queue is settled when the object is made, and no global state is looked at afterwards.
    """

    def __init__(self, queue: Any = None) -> None:
        """queue: whatever Queue() takes. None: the first GPU's, else the first accelerator's, else a CPU's."""
        self._queue = Queue(queue) if queue is not None else Queue("gpu,accelerator,cpu")

    @property
    def queue(self) -> Queue:
        """The queue that the methods submit to."""
        return self._queue

    def empty(self, shape: int | tuple[int, ...], dtype: Any = "float64", *, usm_type: UsmType | None = None) -> Tensor:
        """A new array for work on the queue."""
        return empty(shape, dtype, queue=self._queue, usm_type=usm_type)

    def bring(self, array: Any) -> Tensor:
        """The array where the queue reaches it: without a copy if it does already."""
        return collocate(array, to=self._queue)[0]

    def check(self, *arrays: Any) -> None:
        """Raises ExecutionPlacementError for arrays that the queue doesn't reach."""
        placement(*arrays, queue=self._queue)


def _decorated(scope: Scope, function: _Function) -> _Function:
    """`function`, called in the scope."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{function.__qualname__} is a generator: its caller would run with the queue between two values; "
            "use `with current(...)` inside it, around what doesn't yield"
        )
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*arguments: Any, **keywords: Any) -> Any:
            with scope:
                return await function(*arguments, **keywords)

        return awaited  # type: ignore[return-value]

    @functools.wraps(function)
    def called(*arguments: Any, **keywords: Any) -> Any:
        with scope:
            return function(*arguments, **keywords)

    return called  # type: ignore[return-value]
