"""The Python face of clkit, a package in C++ whose kernels are written in OpenCL C (clkit/).

Arrays cross by DLPack, in both directions without a copy; the queue crosses as a `sycl::queue*`.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import crossdock as xd
from crossdock import offload

_BUILD = Path(os.environ.get("CROSSDOCK_BUILD_DIR", Path(__file__).parents[2] / "build" / "dev"))
_library = ctypes.CDLL(str(_BUILD / "examples/offload/clkit/libclkit.so"))
_library.clkit_gemm.restype = ctypes.c_void_p
_library.clkit_gemm.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
_library.clkit_error.restype = ctypes.c_char_p

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
_NAME, _USED = b"dltensor_versioned", b"used_dltensor_versioned"


class _Given:
    """What clkit gave, for asarray()."""

    def __init__(self, managed: int, device: tuple[int, int]) -> None:
        self._managed, self._device = managed, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, **keywords: Any) -> Any:
        return _new_capsule(self._managed, _NAME, None)


def gemm(queue: xd.Queue, a: Any, b: Any) -> xd.Tensor:
    """The product, on this queue, which must reach both (way 1; the others choose a queue and come here)."""
    arrays = offload.collocate(a, b, to=queue)
    capsules = [array.__dlpack__(max_version=(1, 3)) for array in arrays]
    managed = [_pointer(capsule, _NAME) for capsule in capsules]
    made = _library.clkit_gemm(queue.native, *managed)
    for capsule in capsules:
        _rename(capsule, _USED)  # clkit has taken both, also where it failed
    if not made:
        raise RuntimeError(_library.clkit_error().decode())
    return xd.asarray(_Given(made, arrays[0].__dlpack_device__())).collocate(queue)


_package = offload.Package("clkit")
current = _package.current
set_default_queue = _package.set_default_queue


def gemm_here(a: Any, b: Any) -> xd.Tensor:
    """Way 2: on the package's current queue."""
    return gemm(_package.current_queue(), a, b)


def gemm_there(a: Any, b: Any) -> xd.Tensor:
    """Way 3: where the arrays are."""
    return gemm(offload.placement(a, b), a, b)


def gemm_anywhere(a: Any, b: Any) -> xd.Tensor:
    """Way 4: on the queue that is current for everybody."""
    return gemm(offload.current_queue(), a, b)


class Engine(offload.Offloaded):
    """Way 5: on the engine's queue."""

    def gemm(self, a: Any, b: Any) -> xd.Tensor:
        return gemm(self.queue, a, b)
