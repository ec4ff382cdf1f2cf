"""Whether there is a real GPU."""

from __future__ import annotations

import functools
import subprocess
import sys

# In a process of its own: CUDA's library keeps descriptors once it has started.
_COUNT = """
import ctypes
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
print(count.value)
"""


@functools.cache
def has_gpu() -> bool:
    """Whether CUDA's own library has a device."""
    done = subprocess.run([sys.executable, "-c", _COUNT], capture_output=True, text=True, check=False)
    return done.returncode == 0 and int(done.stdout) > 0
