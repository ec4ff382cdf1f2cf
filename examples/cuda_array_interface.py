"""Hand CUDA arrays over by the CUDA Array Interface: two streams, and whose memory it is.

An array of a library of its own (here a few lines on CUDA's driver interface) is worked on in one stream and says that
it belongs to another. An event orders the second after the first, and then whoever takes the array by
__cuda_array_interface__ is right without knowing of either. After that: who keeps the memory, and who doesn't.

    python examples/cuda_array_interface.py

It needs a GPU of NVIDIA's, or the fake of CUDA's library that the tests have: build that with `cmake --preset dev`
and `cmake --build build/dev --target cuda_fake`, and name it in the environment,
CROSSDOCK_CUDA_LIBRARY=build/dev/tests/fakes/cuda/libcuda_fake.so.
"""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from ctypes import c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from typing import Any

import numpy as np

import crossdock as xd

try:
    library = ctypes.CDLL(os.environ.get("CROSSDOCK_CUDA_LIBRARY", "libcuda.so.1"))
except OSError as error:
    sys.exit(f"{error}: this needs a GPU of NVIDIA's, or the fake of CUDA's library; the top of this file says how")


def cuda(function: str, *arguments: Any) -> None:
    if result := library[function](*arguments):
        raise RuntimeError(f"{function} gave {result}")


class DeviceArray:
    """Bytes on the first GPU, which some other library might have made."""

    def __init__(self, size: int, stream: xd.Queue) -> None:
        pointer = c_uint64()
        cuda("cuMemAlloc_v2", ctypes.byref(pointer), c_size_t(size))
        self.pointer, self.size = pointer.value, size
        self.stream = stream  # the array keeps it: it lives as long as what shows it

    def __del__(self) -> None:
        cuda("cuMemFree_v2", c_uint64(self.pointer))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self.size,),
            "typestr": "|u1",
            "data": (self.pointer, False),
            "strides": None,
            "stream": self.stream.native,
            "version": 3,
        }


def launch(array: DeviceArray, value: int, stream: xd.Queue) -> None:
    """The kernel: sets every byte, some time later."""
    cuda("cuMemsetD8Async", c_uint64(array.pointer), c_ubyte(value), c_size_t(array.size), c_void_p(stream.native))


def main() -> None:
    context = c_void_p()
    cuda("cuInit", c_uint(0))
    cuda("cuDevicePrimaryCtxRetain", ctypes.byref(context), c_int(0))
    cuda("cuCtxPushCurrent_v2", context)

    # Two streams: the array's, and the one in which the kernel runs.
    array_stream = xd.Queue.new("cuda:0")
    kernel_stream = xd.Queue.new("cuda:0")
    array = DeviceArray(16384, array_stream)
    launch(array, 7, kernel_stream)

    # A consumer only knows array_stream: that must come after the kernel.
    event = kernel_stream.record()
    array_stream.wait_for(event)

    # Now it may be handed over. Nobody has waited yet; the copy is ordered after array_stream, and the host after it.
    taken = xd.asarray(array)
    values = np.asarray(taken.to("cpu"))
    print(f"the kernel's values: {(values == 7).all()}")
    print(f"no copy: {taken.pointer == array.pointer}, on its stream: {taken.queue == array_stream}")

    # asarray keeps the object that it took the array from.
    array = DeviceArray(16384, array_stream)
    alive = weakref.ref(array)
    interface = array.__cuda_array_interface__
    taken = xd.asarray(array)
    del array
    print(f"kept by asarray: {alive() is not None}")

    # A dictionary alone keeps nothing: an owner may be named, or the caller sees to it.
    again = xd.from_cuda_array_interface(interface, owner=alive())
    del taken
    print(f"kept by from_cuda_array_interface: {alive() is not None}")
    print(f"still there: {again.pointer_attributes['allocation'] == (again.pointer, 16384)}")
    del again
    print(f"gone with its last view: {alive() is None}")


if __name__ == "__main__":
    main()
