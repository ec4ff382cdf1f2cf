"""Selects where work runs: queues by name, a current queue, and compute follows data.

A package can let its users choose where its work runs in five ways, after "Offloading to XPU from Python":

1. Each function takes a queue: `gemm(queue, a, b)`.
2. The package has its own current queue: `Package`.
3. Compute follows data: `placement(a, b)` returns the queue of the arrays.
4. All packages ask one manager: `current()`, `current_queue()`, `set_global_queue()`.
5. An object holds the queue, and its methods run there: `Offloaded`.

`docs/how-to/offload.md` says which way suits which package, and how the ways work together.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from crossdock import _native
from crossdock._native import Device, Package, Queue, Scope, Tensor, asarray, empty
from crossdock._text import quoted
from crossdock.errors import ExecutionPlacementError

if TYPE_CHECKING:
    from crossdock._typing import QueueLike, UsmType

__all__ = [
    "DeviceInfo",
    "ExecutionPlacementError",
    "Offloaded",
    "Package",
    "Queue",
    "Scope",
    "accessible",
    "collocate",
    "current",
    "current_queue",
    "devices",
    "placement",
    "set_global_queue",
    "usm_type",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])

current = _native.offload.current
current_queue = _native.offload.current_queue
placement = _native.offload.placement
set_global_queue = _native.offload.set_default_queue


def __dir__() -> list[str]:
    return sorted(__all__)


class DeviceInfo(NamedTuple):
    """A device that work can run on."""

    device: Device
    """The device, as arrays have it."""
    filter: str
    """The complete filter string that selects it, for example "opencl:cpu:0"."""
    driver: str
    """The name of its driver: "cuda", "sycl", "sim" or "host"."""
    device_type: str
    """The class of the device: "cpu", "gpu" or "accelerator"."""
    backend: str
    """The interface that its driver uses. For SYCL: "opencl" or "level_zero"."""
    name: str
    """The name of the device, as its driver says it."""
    memory: int
    """The size of its memory in bytes; 0 if it is unknown."""
    usm_types: tuple[UsmType, ...]
    """The kinds of memory that it supports."""


def devices() -> list[DeviceInfo]:
    """Returns all devices of all drivers, in the order in which filter strings count them. Starts all drivers.

    `crossdock devices` prints them, and the reason why a driver is absent.

    Raises the error of a driver that can't describe a device, such as `SystemError`. A driver that is absent is no
    error.
    """
    found = [
        DeviceInfo(**one | {"driver": driver["driver"], "usm_types": tuple(one["usm_types"])})  # type: ignore[arg-type]
        for driver in _native.devices()
        for one in driver["devices"]
    ]
    return sorted(found, key=lambda one: one.driver == "host")


def accessible(array: Any, queue: QueueLike) -> bool:
    """Returns whether work on this queue may access the array without a copy.

    True if the array's device and context are the queue's, or the queue reaches them. False is no error: make a copy
    with `collocate()` or `copy_to()`. Arrays in ordinary host memory are accessible to no device.

    array: anything that `asarray()` takes.
    queue: any argument of `Queue()`.

    Raises the errors of `Queue()`, such as `NotFoundError`, and those of `asarray()`, such as `UnsupportedTypeError`.
    """
    return _native.accessible(array, queue)


def usm_type(*arrays: Any) -> UsmType | None:
    """Returns the kind of memory for new arrays of a function on these arrays: the first of "device", "shared" and
    "host" that one of them has.

    None: all arrays are in ordinary host memory.

    arrays: anything that `asarray()` takes.

    Raises the errors of `asarray()`, such as `UnsupportedTypeError`.
    """
    kinds = {asarray(array).usm_type for array in arrays}
    return next((kind for kind in ("device", "shared", "host") if kind in kinds), None)


def collocate(*arrays: Any, to: Any = None) -> tuple[Tensor, ...]:
    """Returns the arrays, all on one queue.

    An array that the queue reaches isn't copied: it is associated with the queue, which is ordered after the array's
    pending work. The other arrays are copied. Host arrays are copied, too, unless there is no queue: then all arrays
    are returned unchanged.

    arrays: anything that `asarray()` takes.
    to: the queue: any argument of `Queue()`, or an array, whose queue is used. None: the queue of the first array that
        is on one.

    Raises the errors of `asarray()`, such as `UnsupportedTypeError`, and those of `Tensor.collocate()`, such as
    `InvalidArgumentError` if `to` is an array in host memory.
    """
    tensors = tuple(asarray(array) for array in arrays)
    queue = _native.first_queue_of(*tensors) if to is None else _native.queue_of(to)
    return tensors if queue is None else tuple(tensor.collocate(queue) for tensor in tensors)


class Offloaded:
    """A base of classes whose methods run on one queue (way 5): `class Lapack(Offloaded)`, `Lapack("gpu:1").svd(a)`.

    The queue is chosen when the object is made. Global state isn't used afterwards.
    """

    def __init__(self, queue: QueueLike | None = None) -> None:
        """queue: any argument of Queue(). None: the queue of "gpu,accelerator,cpu", also if another one is current.

        Raises the errors of `Queue()`, such as `NotFoundError`. Other methods raise `RuntimeError` if a class of yours
        hasn't called this constructor.
        """
        self._queue = Queue(_native.DEFAULT_FILTER if queue is None else queue)

    @property
    def queue(self) -> Queue:
        """The queue that the methods submit to."""
        try:
            return self._queue
        except AttributeError:
            raise RuntimeError(f"{type(self).__name__}.__init__() must call super().__init__(queue)") from None

    def __repr__(self) -> str:
        return f"<{type(self).__qualname__} on {self.queue!r}>"

    def empty(self, shape: int | tuple[int, ...], dtype: Any = "float64", *, usm_type: UsmType | None = None) -> Tensor:
        """Returns a new array, with memory that isn't set, for work on the queue.

        shape, dtype, usm_type: as for `crossdock.empty()`.

        Raises the errors of `crossdock.empty()`, such as `ResourceError`.
        """
        return empty(shape, dtype, queue=self.queue, usm_type=usm_type)

    def bring(self, array: Any) -> Tensor:
        """Returns `array`, anything that `asarray()` takes, in memory that the queue reaches. Memory that the queue
        already reaches isn't copied.

        Raises the errors of `asarray()` and of `Tensor.collocate()`, such as `UnsupportedTypeError`.
        """
        return collocate(array, to=self.queue)[0]

    def check(self, *arrays: Any) -> None:
        """Raises `ExecutionPlacementError` if one of `arrays` is on a device and the queue doesn't reach it.

        Host arrays are ignored: `bring()` makes a copy of them that the queue reaches.
        """
        placement(*arrays, queue=self.queue)


def _decorated(scope: Scope, function: _Function) -> _Function:
    """Wraps `function`, so that it is called in the scope.

    The function's result must not run code after the scope has ended: coroutines, generators and other awaitables raise
    TypeError. A Future or Task of asyncio is accepted, because it already runs elsewhere: a task runs with the queue
    that was current when it was made, which is this one for tasks that the function makes; a call in an executor runs
    with the queue of the executor's thread.
    """
    if inspect.isclass(function) or not callable(function):
        raise TypeError(f"current(queue) decorates functions, not {quoted(function)}")
    # The code that runs in the end: the function of a partial, or the class's __call__ of another object.
    run: Any = function
    while isinstance(run, functools.partial):
        run = run.func
    if not inspect.isroutine(run):
        run = type(run).__call__
    if inspect.isgeneratorfunction(run) or inspect.isasyncgenfunction(run):
        raise TypeError(
            f"{_name(function)} is a generator: its caller would run with the queue between two values; "
            "use `with current(...)` inside it, around what doesn't yield"
        )
    if inspect.iscoroutinefunction(run):

        @functools.wraps(function)
        async def awaited(*arguments: Any, **keywords: Any) -> Any:
            with scope:
                return await function(*arguments, **keywords)

        return awaited  # type: ignore[return-value]

    @functools.wraps(function)
    def called(*arguments: Any, **keywords: Any) -> Any:
        with scope:
            result = function(*arguments, **keywords)
        if _runs_later(result):
            if isinstance(result, (Coroutine, Generator)):
                result.close()
            raise TypeError(
                f"{_name(function)} gave a {type(result).__name__}, which would run after the scope of "
                "current(queue); decorate the function that it is of, or use `with current(...)` where it runs"
            )
        return result

    return called  # type: ignore[return-value]


def _runs_later(result: object) -> bool:
    """Returns whether code runs when the caller iterates over the result, awaits it, or enters it as a context manager.

    Compilers have their own types of coroutines and generators, so the methods are checked, not only the types.
    """
    kind = type(result)  # These checks are fast. Most results have none of the methods, and isinstance() is slow here.
    manager = hasattr(kind, "__enter__") or hasattr(kind, "__aenter__")  # contextmanager() wraps a generator.
    if manager and isinstance(getattr(result, "gen", None), (Generator, AsyncGenerator)):
        return True
    if not (hasattr(kind, "__await__") or hasattr(kind, "__next__") or hasattr(kind, "__anext__")):
        return False
    if isinstance(result, (Generator, AsyncGenerator)):
        return True
    if not inspect.isawaitable(result):
        return False
    import asyncio  # Imported here, because it takes longer to import than the package.

    return not asyncio.isfuture(result)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))
