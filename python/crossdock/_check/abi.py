"""The C structures of exports, declared for ctypes.

They are declared again because the checker shares no code with the library that it checks.

Layouts: Arrow C data, stream, device and device stream interfaces; DLPack 1.3.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

# Every pointer is declared as a plain address, because the checker tests it before it reads through it.


class ArrowSchema(ctypes.Structure):
    _fields_ = (
        ("format", c_void_p),
        ("name", c_void_p),
        ("metadata", c_void_p),
        ("flags", c_int64),
        ("n_children", c_int64),
        ("children", c_void_p),
        ("dictionary", c_void_p),
        ("release", c_void_p),
        ("private_data", c_void_p),
    )


class ArrowArray(ctypes.Structure):
    _fields_ = (
        ("length", c_int64),
        ("null_count", c_int64),
        ("offset", c_int64),
        ("n_buffers", c_int64),
        ("n_children", c_int64),
        ("buffers", c_void_p),
        ("children", c_void_p),
        ("dictionary", c_void_p),
        ("release", c_void_p),
        ("private_data", c_void_p),
    )


class ArrowArrayStream(ctypes.Structure):
    _fields_ = (
        ("get_schema", c_void_p),
        ("get_next", c_void_p),
        ("get_last_error", c_void_p),
        ("release", c_void_p),
        ("private_data", c_void_p),
    )


class ArrowDeviceArray(ctypes.Structure):
    _fields_ = (
        ("array", ArrowArray),
        ("device_id", c_int64),
        ("device_type", c_int32),
        ("sync_event", c_void_p),
        ("reserved", c_int64 * 3),
    )


class ArrowDeviceArrayStream(ctypes.Structure):
    _fields_ = (
        ("device_type", c_int32),
        ("get_schema", c_void_p),
        ("get_next", c_void_p),
        ("get_last_error", c_void_p),
        ("release", c_void_p),
        ("private_data", c_void_p),
    )


class SimEvent(ctypes.Structure):
    """The target of `sync_event` for simulated devices: crossdock/device/sim_event.h."""

    _fields_ = (
        ("magic", c_uint64),
        ("version", c_uint32),
        ("size", c_uint32),
        ("query", c_void_p),
        ("wait", c_void_p),
        ("last_error", c_void_p),
    )


SIM_EVENT_MAGIC = int.from_bytes(b"xd-event", "little")

assert ctypes.sizeof(c_void_p) != 8 or ctypes.sizeof(ArrowDeviceArray) == 128


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("byte_offset", c_uint64),
    )


class DLManagedTensor(ctypes.Structure):
    _fields_ = (("dl_tensor", DLTensor), ("manager_ctx", c_void_p), ("deleter", c_void_p))


class DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("manager_ctx", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("dl_tensor", DLTensor),
    )


class DLPackExchangeAPI(ctypes.Structure):
    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("prev_api", c_void_p),
        ("managed_tensor_allocator", c_void_p),
        ("managed_tensor_from_py_object_no_sync", c_void_p),
        ("managed_tensor_to_py_object_no_sync", c_void_p),
        ("dltensor_from_py_object_no_sync", c_void_p),
        ("current_work_stream", c_void_p),
    )


class PyBuffer(ctypes.Structure):
    _fields_ = (
        ("buf", c_void_p),
        ("obj", c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_void_p),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("suboffsets", c_void_p),
        ("internal", c_void_p),
    )


# Called with the GIL: an exporter that takes the GIL can do so, and one that forgets to doesn't crash the checker.
Release = ctypes.PYFUNCTYPE(None, c_void_p)
# Called without the GIL, because streams may wait for threads that need it.
GetOut = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)
EventCall = ctypes.CFUNCTYPE(c_int32, c_void_p)
GetLastError = ctypes.CFUNCTYPE(c_void_p, c_void_p)

FromPyObject = ctypes.PYFUNCTYPE(c_int, ctypes.py_object, c_void_p)
ToPyObject = ctypes.PYFUNCTYPE(c_int, c_void_p, c_void_p)
CurrentWorkStream = ctypes.PYFUNCTYPE(c_int, c_int32, c_int32, c_void_p)
SetError = ctypes.CFUNCTYPE(None, c_void_p, ctypes.c_char_p, ctypes.c_char_p)
Allocate = ctypes.PYFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, SetError)

# The numbers of Arrow and DLPack are the same. So far, only DLPack has MAIA and TRAINIUM.
CPU, CUDA, CUDA_HOST, ROCM, ROCM_HOST, EXT_DEV, CUDA_MANAGED, ONEAPI = 1, 2, 3, 10, 11, 12, 13, 14
# Types of memory that the CPU can't read. It can read, or may be able to read, the others: pinned, managed, of an
# extension, of oneAPI.
NOT_FOR_THE_CPU = (2, 4, 7, 8, 9, 10, 15, 16, 17, 18)
DEVICES = {
    1: "CPU",
    2: "CUDA",
    3: "CUDA_HOST",
    4: "OPENCL",
    7: "VULKAN",
    8: "METAL",
    9: "VPI",
    10: "ROCM",
    11: "ROCM_HOST",
    12: "EXT_DEV",
    13: "CUDA_MANAGED",
    14: "ONEAPI",
    15: "WEBGPU",
    16: "HEXAGON",
    17: "MAIA",
    18: "TRAINIUM",
}
