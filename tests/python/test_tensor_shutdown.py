"""Owners that go on other threads, and as the interpreter ends."""

from __future__ import annotations

import pytest

SET_UP = """
import atexit, ctypes, sys
import numpy as np
import crossdock as xd
source = np.arange(1000.0)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "left",
    [
        "left = xd.asarray(source)",
        "left = np.asarray(xd.asarray(source))",
        "import torch; left = torch.from_dlpack(xd.asarray(source))",
        "import torch; left = xd.asarray(torch.arange(5.0))",
        "left = xd.asarray(source).__dlpack__(max_version=(1, 3))",
        "import pyarrow as pa; left = pa.array(xd.asarray(source))",
        "import pyarrow as pa; left = xd.asarray(pa.array(source))",
        "left = xd.asarray(source).__arrow_c_array__()",
        "sys.left = [xd.asarray(source)]; sys.left.append(sys.left)",
        "left = xd.asarray(source); atexit.register(lambda: np.asarray(left).sum())",
    ],
)
def test_what_is_left_at_the_end_does_no_harm(script, left: str) -> None:
    script(SET_UP + left + "\nprint('end')").finish(expect=0)


def test_devices_that_are_busy_at_the_end(script) -> None:
    script(
        SET_UP
        + """
from crossdock.testing import simulated_devices
with simulated_devices(1, delay=0.2):
    queue = xd.Queue.new("sim:0")
    left = xd.asarray(source).to("sim:0", queue=queue)
    also = left.to("cpu", queue=queue)
    del source
    sys.exit(0)  # the copy is still under way
"""
    ).finish(expect=0)


# A consumer in C holds the interpreter lock or not, as it likes, when it calls a deleter.
CALL_ON_A_THREAD_OF_C = """
class Managed(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32 * 2), ("ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

class Watched(np.ndarray):
    pass

def pointer(capsule, name):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, name)

import weakref
array = np.arange(5.0).view(Watched)
gone = weakref.ref(array)
capsule = xd.asarray(array).__dlpack__(max_version=(1, 3))
rename = ctypes.pythonapi.PyCapsule_SetName
rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
address = pointer(capsule, b"dltensor_versioned")
used = b"used_dltensor_versioned"
rename(capsule, used)
del array, capsule
managed = Managed.from_address(address)
assert gone() is not None

# pthread_create(..., deleter, managed): a thread that Python has never seen calls it without the lock.
libc = ctypes.CDLL(None)
thread = ctypes.c_ulong()
deleter = managed.deleter
assert libc.pthread_create(ctypes.byref(thread), None, ctypes.c_void_p(deleter), ctypes.c_void_p(address)) == 0
assert libc.pthread_join(thread, None) == 0
xd.asarray(b"")  # a call into the package runs what other threads left
assert gone() is None
print("gone")
"""


def test_a_deleter_called_on_a_thread_that_python_never_saw(script) -> None:
    assert script(SET_UP + CALL_ON_A_THREAD_OF_C).finish(expect=0).split() == ["gone"]


def test_a_deleter_called_after_the_interpreter(script) -> None:
    """A C library's atexit handlers run after Python is gone."""
    script(
        SET_UP
        + """
class Managed(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32 * 2), ("ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

capsule = xd.asarray(source).__dlpack__(max_version=(1, 3))
get = ctypes.pythonapi.PyCapsule_GetPointer
get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
address = get(capsule, b"dltensor_versioned")
managed = Managed.from_address(address)
rename = ctypes.pythonapi.PyCapsule_SetName
rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
used = b"used_dltensor_versioned"
rename(capsule, used)
del capsule
# What a C library registers so is called with the one argument that a deleter wants.
libc = ctypes.CDLL(None)
libc.__cxa_atexit.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
assert libc.__cxa_atexit(managed.deleter, address, None) == 0
print("end")
"""
    ).finish(expect=0)
