"""Give a class of your own every protocol for arrays, by one method.

A ring of samples in memory of C's, as a driver of an instrument has it: the class says where its memory is, and NumPy,
torch and pyarrow read it where it lies, without knowing the class. The checker agrees.

    python examples/exports.py
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
import pyarrow as pa

import crossdock as xd

try:
    import torch
except ModuleNotFoundError:
    sys.exit("this needs torch: pip install torch")


class Samples(xd.Exports):
    """Rows of two channels, in memory that this object keeps."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.memory = (ctypes.c_float * (2 * rows))()

    def __crossdock_array__(self) -> dict[str, Any]:
        return {"shape": (self.rows, 2), "typestr": "<f4", "data": (ctypes.addressof(self.memory), False)}


def main() -> None:
    samples = Samples(3)

    in_numpy = np.asarray(samples)
    in_torch = torch.from_dlpack(samples)
    in_numpy[1] = [0.5, 1.5]
    in_torch[2, 0] = 2.5
    print("both write to the same memory:", in_numpy.tolist())

    column = pa.array(samples)
    print(
        "in Arrow:",
        column.type,
        "of",
        len(column),
        "rows, no copy:",
        xd.from_arrow(column).pointer == ctypes.addressof(samples.memory),
    )

    print("a host array says nothing of CUDA:", not hasattr(samples, "__cuda_array_interface__"))
    print("right by", len(xd.check(samples).protocols), "protocols:", xd.check(samples).ok)

    # What comes from C's malloc() is freed when its last reader is gone.
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    address = libc.malloc(16)
    ctypes.memset(address, 0, 16)
    interface = {"shape": (2,), "typestr": "<i8", "data": (address, False), "version": 3}
    freed: list[int] = []

    def free(at: int) -> None:
        libc.free(at)
        freed.append(at)

    in_numpy = np.asarray(xd.from_array_interface(interface, deleter=free))
    print("from malloc():", in_numpy.tolist(), "freed:", freed == [address])
    del in_numpy
    print("freed:", freed == [address])


if __name__ == "__main__":
    main()
