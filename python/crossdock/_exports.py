"""`Exports`: every protocol for arrays, for a class that describes its memory once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from crossdock import _native
from crossdock._text import quoted
from crossdock.errors import Error, InvalidDataError, UnsupportedError

if TYPE_CHECKING:
    from crossdock._native import Tensor

__all__ = ["Exports", "described"]

_HOST, _DEVICE = ("shape", "typestr", "dtype", "descr", "strides", "data", "mask", "version"), ("device", "stream")
# Of each family of devices: the entries of a description, its version, and what reads it.
_FAMILIES: dict[str, tuple[tuple[str, ...], int, Callable[..., Tensor]]] = {
    "cpu": ((*_HOST, "offset", "device"), 3, _native.from_array_interface),
    "cuda": ((*_HOST, *_DEVICE), 3, _native.from_cuda_array_interface),
    "oneapi": (
        ("shape", "typestr", "dtype", "typedescr", "strides", "data", "offset", "version", "syclobj", "device"),
        1,
        _native.from_sycl_usm_array_interface,
    ),
}


class _UnderWay(threading.local):
    """The objects whose description this thread is asking for, by id()."""

    def __init__(self) -> None:
        self.ids: set[int] = set()


_under_way = _UnderWay()


def _name(thing: object) -> str:
    return type(thing).__qualname__


def _renamed(error: Exception, thing: object, place: str = "") -> Exception:
    """The same error, with the name of the object's class. Classes of others may take other arguments."""
    kind = type(error) if isinstance(error, Error) else TypeError if isinstance(error, TypeError) else BufferError
    renamed = kind(f"{_name(thing)}{place}: {error}")
    if isinstance(error, OSError) and isinstance(renamed, OSError):
        renamed.errno = error.errno
    return renamed


def _of_dictionary(thing: object, given: dict[str, Any]) -> Tensor:
    entries = dict(given)
    device = _native.Device(entries.pop("device", "oneapi" if "syclobj" in entries else "cpu"))
    family = device.type.partition("_")[0]
    if family not in _FAMILIES:
        raise UnsupportedError(f"a dict can't describe memory of {device}: return a Tensor, as asarray() makes it")
    known, version, read = _FAMILIES[family]
    for key in entries:
        if key not in known:
            help_ = ', or the memory is of a device, which the entry "device" names' if key == "stream" else ""
            raise InvalidDataError(
                f"the entry {quoted(str(key), 80)} isn't known for memory of {device}; "
                f"the entries are {', '.join(known)}{help_}"
            )
    if "data" not in entries:
        raise InvalidDataError('the entry "data" is missing: a pair of address and read-only flag')
    entries.setdefault("version", version)
    tensor = read(entries, thing)
    if tensor.device.type == device.type and tensor.device.id != device.id:
        raise InvalidDataError(f"the memory is of {tensor.device}, but the entry device says {device}")
    return tensor


def described(thing: Any) -> Tensor:
    """Calls `thing.__crossdock_array__()`, and returns what it describes. The errors name the class."""
    place = ".__crossdock_array__()"
    if id(thing) in _under_way.ids:
        raise InvalidDataError(
            f"{_name(thing)}{place} asks for the array of the same object again, which would have no end: describe the "
            "memory itself, by a dict with shape, typestr and data, or return the array that the object keeps"
        )
    _under_way.ids.add(id(thing))
    try:
        try:
            given = thing.__crossdock_array__()
        except AttributeError as error:  # would say that the object hasn't got the protocol
            raise InvalidDataError(f"{_name(thing)}{place} raised AttributeError: {error}") from error
        try:
            return _of_dictionary(thing, given) if isinstance(given, dict) else _native.asarray(given)
        except (Error, TypeError) as error:
            raise _renamed(error, thing, place) from error
    finally:
        _under_way.ids.discard(id(thing))


def _dictionary(thing: object, attribute: str) -> dict[str, Any]:
    """Returns the dictionary of an array interface, whose consumer keeps the object alone."""
    tensor = described(thing)
    try:
        dictionary: dict[str, Any] = getattr(tensor, attribute)
    except AttributeError as error:
        raise AttributeError(f"{_name(thing)}: {error}", name=attribute, obj=thing) from None
    except Error as error:
        raise _renamed(error, thing) from error
    # Memory that is made for each call can't be at one address twice, while the first is alive.
    if sys.getrefcount(tensor) <= 2 and tensor.pointer != described(thing).pointer:
        raise InvalidDataError(
            f"{_name(thing)}.__crossdock_array__() describes other memory each time, which a consumer of this protocol "
            "doesn't keep: make the array once, and keep it in the object"
        )
    return dictionary


def _call(thing: object, tensor: Tensor, method: str, /, *arguments: Any, **keywords: Any) -> Any:
    try:
        return getattr(tensor, method)(*arguments, **keywords)
    except (Error, BufferError) as error:
        raise _renamed(error, thing) from error


def _arrow(thing: object, method: str) -> Any:
    """Returns a method of the Arrow PyCapsule interface. Raises AttributeError if Arrow can't describe the array."""
    tensor = described(thing)
    try:
        tensor.__arrow_c_schema__()
    except Error as error:
        raise AttributeError(f"{_name(thing)} has no {method}: {error}", name=method, obj=thing) from None
    return partial(_call, thing, tensor, method)


class Exports:
    """Gives a class every protocol for arrays. Derive from it, and define `__crossdock_array__()`.

    `__crossdock_array__()` returns what the object's memory is, in one of three forms:

    - a `Tensor`, such as `xd.empty()` or `xd.asarray()` made it;
    - an array of another library, which `asarray()` takes without a copy;
    - a dict with the entries of `__array_interface__`: `shape`, `typestr`, `data` (a pair of address and read-only
      flag), and, if needed, `strides` (in bytes) and `descr`. An entry `dtype` ("bfloat16") replaces `typestr` for
      types that `typestr` can't express. `version` may be left out. Memory of CUDA has an entry `device` ("cuda:0"),
      and `stream` if work may be pending, as in the CUDA Array Interface. Memory of SYCL has `syclobj`, and its strides
      in elements, as in the SYCL USM array interface. Each export keeps the object alive.

    It is called for each export, and must describe the same memory each time. It must not ask for an export of the
    object itself, as `numpy.asarray(self)` does; that is an error.

    The class then has `__dlpack__`, `__dlpack_device__` and `__array__`. An object has `__array_interface__`,
    `__cuda_array_interface__`, `__sycl_usm_array_interface__`, `__arrow_c_array__`, `__arrow_c_device_array__` and
    `__arrow_c_schema__` if its memory and its type allow them; for the others `hasattr()` is False. From Python 3.12 on
    it has the buffer protocol. Before 3.12 a class in Python can't have it, and NumPy uses `__array_interface__`.
    `asarray()` takes the description itself.

    The errors are those of `Tensor`, with the name of the class. Thread-safe if `__crossdock_array__()` is.
    """

    __slots__ = ()

    def __crossdock_array__(self) -> object:
        raise NotImplementedError(
            f"{_name(self)} derives from crossdock.Exports, and must define __crossdock_array__()"
        )

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return _call(
            self,
            described(self),
            "__dlpack__",
            stream=stream,
            max_version=max_version,
            dl_device=dl_device,
            copy=copy,
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return _call(self, described(self), "__dlpack_device__")  # type: ignore[no-any-return]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return _call(self, described(self), "__array__", dtype, copy)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return _dictionary(self, "__array_interface__")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return _dictionary(self, "__cuda_array_interface__")

    @property
    def __sycl_usm_array_interface__(self) -> dict[str, Any]:
        return _dictionary(self, "__sycl_usm_array_interface__")

    @property
    def __arrow_c_schema__(self) -> Callable[[], Any]:
        return _arrow(self, "__arrow_c_schema__")  # type: ignore[no-any-return]

    @property
    def __arrow_c_array__(self) -> Callable[..., tuple[Any, Any]]:
        return _arrow(self, "__arrow_c_array__")  # type: ignore[no-any-return]

    @property
    def __arrow_c_device_array__(self) -> Callable[..., tuple[Any, Any]]:
        return _arrow(self, "__arrow_c_device_array__")  # type: ignore[no-any-return]

    if sys.version_info >= (3, 12):

        def __buffer__(self, flags: int, /) -> memoryview:
            return _call(self, described(self), "__buffer__", flags)  # type: ignore[no-any-return]
