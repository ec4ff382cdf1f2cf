"""Checks DLPack's C exchange API: the table of functions on the type."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p
from typing import Any

from crossdock._check import abi, capsule, dlpack, memory
from crossdock._check.checker import Checker, attribute, described
from crossdock._text import quoted

NAME = b"dlpack_exchange_api"
ATTRIBUTE = "__dlpack_c_exchange_api__"
_MUST = (
    "managed_tensor_allocator",
    "managed_tensor_from_py_object_no_sync",
    "managed_tensor_to_py_object_no_sync",
    "current_work_stream",
)


def check(checker: Checker) -> None:
    thing = checker.object()
    given = attribute(type(thing), ATTRIBUTE)
    if given is None:
        checker.add("exchange-on-type", f"{ATTRIBUTE} is on the object, not on {type(thing).__name__}")
        return
    if not capsule.is_capsule(given):
        checker.add("exchange-capsule", f"{ATTRIBUTE} is {type(given).__name__}, not a PyCapsule")
        return
    name = capsule.name_of(given)
    if name != NAME:
        checker.add("exchange-capsule", f"the capsule is named {quoted(name)}")
        return
    api = memory.load(abi.DLPackExchangeAPI, capsule.pointer_of(given))
    if api is None:
        checker.add("exchange-capsule", "the table can't be read")
        return
    if api.major != 1 or api.minor < 3:
        checker.add("exchange-version", f"the version is {api.major}.{api.minor}; the table is of 1.3")
        if api.major != 1:
            return
    broken = [one for one in _MUST if not memory.executable(getattr(api, one))]
    optional = api.dltensor_from_py_object_no_sync
    if optional and not memory.executable(optional):
        broken.append("dltensor_from_py_object_no_sync")
    if broken:
        checker.add("exchange-functions", f"null, or not a function: {', '.join(broken)}")
    reference, device = _by_method(checker, thing)
    # The two functions are tested together: one takes the result of the other.
    if not {"managed_tensor_from_py_object_no_sync", "managed_tensor_to_py_object_no_sync"} & set(broken):
        with checker.checking_one():
            _managed(checker, api, thing, reference)
    if optional and "dltensor_from_py_object_no_sync" not in broken:
        with checker.checking_one():
            _borrowed(checker, api, thing, reference)
    if device is not None and device[0] == abi.CPU:
        if "current_work_stream" not in broken:
            with checker.checking_one():
                _stream(checker, api, device)
        if "managed_tensor_allocator" not in broken:
            with checker.checking_one():
                _allocator(checker, api)


def _by_method(checker: Checker, thing: Any) -> tuple[dlpack.Tensor | None, dlpack.Device | None]:
    """Returns the tensor of `__dlpack__` and its device. Reports nothing, because another check does."""
    silent = Checker(None, thing)
    try:
        export = dlpack.Export(silent, thing.__dlpack__(max_version=dlpack.ASKED))
    except Exception:
        return None, None
    tensor = export.tensor
    export.consume()
    return tensor, None if tensor is None else tensor.device


def _compare(checker: Checker, rule: str, got: dlpack.Tensor | None, reference: dlpack.Tensor | None) -> None:
    if got is None or got.view is None:
        checker.add(rule, "the tensor that it gave can't be used")
    elif reference is not None and reference.view is not None:
        for what in ("shape", "itemsize", "strides", "pointer"):
            mine, theirs = getattr(got.view, what), getattr(reference.view, what)
            if mine != theirs and not (what in ("strides", "pointer") and (not got.view.size or reference.view.copied)):
                checker.add(rule, f"its {what} is {mine}, but that of __dlpack__ is {theirs}")
        if got.device != reference.device:
            checker.add(rule, f"its device is {got.device}, but that of __dlpack__ is {reference.device}")


def _managed(checker: Checker, api: abi.DLPackExchangeAPI, thing: object, reference: dlpack.Tensor | None) -> None:
    out = c_void_p()
    try:
        status = abi.FromPyObject(api.managed_tensor_from_py_object_no_sync)(thing, ctypes.addressof(out))
    except BufferError:
        return
    except Exception as error:
        checker.add("exchange-tensor", f"it failed with {described(error)}")
        return
    managed: Any = memory.load(abi.DLManagedTensorVersioned, out.value)
    if status != 0 or managed is None:
        checker.add("exchange-tensor", f"it answered {status} and gave {out.value or 0:#x}, without an exception")
        return
    silent = Checker(None, thing)
    version = (managed.major, managed.minor)
    got = dlpack.examine(silent, managed.dl_tensor, version, managed.flags) if managed.major == 1 else None
    _compare(checker, "exchange-tensor", got, reference)
    result = c_void_p()
    try:
        status = abi.ToPyObject(api.managed_tensor_to_py_object_no_sync)(out.value, ctypes.addressof(result))
    except Exception as error:
        checker.add("exchange-to-object", f"it failed with {described(error)}")
        return
    if status != 0 or not result.value:
        checker.add("exchange-to-object", f"it answered {status} and gave no object, without an exception")
        return
    made = ctypes.cast(result, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(made))  # Drops the reference that the function returned.
    if not isinstance(thing, type(made)) and not isinstance(made, type(thing)):
        checker.add("exchange-to-object", f"it gave a {type(made).__name__} instead of a {type(thing).__name__}")


def _borrowed(checker: Checker, api: abi.DLPackExchangeAPI, thing: object, reference: dlpack.Tensor | None) -> None:
    out = abi.DLTensor()
    try:
        status = abi.FromPyObject(api.dltensor_from_py_object_no_sync)(thing, ctypes.addressof(out))
    except Exception as error:
        checker.add("exchange-dltensor", f"it failed with {described(error)}")
        return
    if status != 0:
        checker.add("exchange-dltensor", f"it answered {status} without an exception")
        return
    _compare(checker, "exchange-dltensor", dlpack.examine(Checker(None, thing), out, (1, 3), 0), reference)


def _stream(checker: Checker, api: abi.DLPackExchangeAPI, device: dlpack.Device) -> None:
    out = c_void_p()
    try:
        status = abi.CurrentWorkStream(api.current_work_stream)(*device, ctypes.addressof(out))
    except Exception as error:
        checker.add("exchange-stream", f"it failed with {described(error)}")
        return
    if status != 0 or out.value:
        checker.add("exchange-stream", f"for the CPU it answered {status} and gave {out.value or 0:#x}")


def _allocator(checker: Checker, api: abi.DLPackExchangeAPI) -> None:
    """Allocates a tensor of 2 by 3 floats on the CPU, which every library with CPU tensors can make."""
    shape = (c_int64 * 2)(2, 3)
    prototype = abi.DLTensor(device_type=abi.CPU, ndim=2, code=2, bits=32, lanes=1, shape=ctypes.addressof(shape))
    out = c_void_p()
    said: list[str] = []

    def tell(_: int | None, kind: bytes | None, message: bytes | None) -> None:
        said.append(f"{(kind or b'').decode(errors='replace')}: {(message or b'').decode(errors='replace')}")

    try:
        status = abi.Allocate(api.managed_tensor_allocator)(
            ctypes.addressof(prototype), ctypes.addressof(out), None, abi.SetError(tell)
        )
    except Exception as error:
        checker.add("exchange-allocator", f"it failed with {described(error)}")
        return
    managed: Any = memory.load(abi.DLManagedTensorVersioned, out.value)
    if status != 0 or managed is None:
        reported = f"and reported {said[0]}" if said else "and reported no error"
        checker.add("exchange-allocator", f"it answered {status} and gave {out.value or 0:#x}, {reported}")
        return
    got = dlpack.examine(Checker(None, None), managed.dl_tensor, (managed.major, managed.minor), managed.flags)
    if got is None or got.view is None or got.view.shape != (2, 3) or got.view.itemsize != 4:
        checker.add("exchange-allocator", f"asked for 2 by 3 floats, it gave {got and got.view and got.view.shape}")
    if memory.executable(managed.deleter):
        abi.Release(managed.deleter)(out.value)
