"""Exporters of `__sycl_usm_array_interface__` whose context nobody asks about: right where no run time is there to."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_void_p
from typing import Any, ClassVar

from tests.exporter_samples import tensors
from tests.exporter_samples.capsules import breaks, capsule, right

POINTER = 0x7F55_0000_0000
CPU = "opencl:cpu:0"


class _Shared(ctypes.Structure):
    """How a `sycl::queue` and a `sycl::context` look: a shared pointer."""

    _fields_ = (("held", c_void_p), ("control", c_void_p))


_code = ctypes.CFUNCTYPE(None)(lambda: None)
_held = ctypes.create_string_buffer(64)
_table = (c_void_p * 4)(*[ctypes.cast(_code, c_void_p)] * 4)
_control = (c_void_p * 2)(ctypes.addressof(_table), 1)
NATIVE = _Shared(ctypes.addressof(_held), ctypes.addressof(_control))
EMPTY = _Shared(None, None)
DANGLING = _Shared(8, ctypes.addressof(_control))
NONSENSE = ctypes.create_string_buffer(b"\xa5" * 64)


def queue_ref(name: bytes = b"SyclQueueRef", native: Any = NATIVE) -> object:
    return capsule(ctypes.addressof(native), name, None)


class Interface:
    """Two by three floats, which nobody may look at."""

    more: ClassVar[dict[str, Any]] = {}
    without: tuple[str, ...] = ()

    @property
    def __sycl_usm_array_interface__(self) -> Any:
        interface = {
            "shape": (2, 3),
            "typestr": "<f4",
            "data": (POINTER, False),
            "version": 1,
            "strides": None,
            "offset": 0,
            "syclobj": self.context(),
            **self.more,
        }
        return {key: value for key, value in interface.items() if key not in self.without}

    def context(self) -> Any:
        return CPU


def usm(**changed: Any) -> Any:
    """A dictionary that differs in these entries."""
    return type("Changed", (Interface,), {"more": changed})


def of(context: Any) -> Any:
    """One whose `context()`, called each time, is the syclobj."""
    return type("Bound", (Interface,), {"context": lambda self: context()})


def dpctls(name: str) -> Any:
    """A class named as dpctl's are, which is how they are known."""
    return type(name, (), {"__module__": f"dpctl.{name.lower()}"})


def giving(get: Any) -> Any:
    return type("Holder", (), {"_get_capsule": lambda self: get()})


_STRUCTURED = [("a", "<i4"), ("b", "<f4", (2,))]
for _changed in (
    {},
    {"strides": (3, 1)},
    {"strides": (-3, 1), "offset": 3},
    {"strides": (-3, -1), "offset": 5, "data": (POINTER, True)},
    {"offset": -6},
    {"shape": (0, 3), "data": (0, False)},
    {"shape": (0, 3)},
    {"shape": ()},
    {"typestr": "|b1"},
    {"typestr": "|u1"},
    {"typestr": ">f4"},
    {"typestr": "|V12", "typedescr": _STRUCTURED},
    {"typedescr": [("", "<f4")]},
    {"typedescr": None},
    *({"syclobj": text} for text in ("gpu", "cpu:0", "level_zero:gpu:1", "cuda", "0", "opencl:1", "gpu,cpu")),
):
    right(usm(**_changed))
right(type("Bare", (Interface,), {"without": ("strides", "offset")}))
for _context in (
    dpctls("SyclContext"),
    dpctls("_SyclQueue"),
    type("Mine", (dpctls("SyclQueue"),), {}),
    queue_ref,
    lambda: queue_ref(b"SyclContextRef"),
    giving(queue_ref),
    giving(lambda: queue_ref(b"SyclContextRef")),
):
    right(of(_context))


class OverBytes(bytearray):
    """24 bytes in the place of data, as Python's own types have them."""

    more: ClassVar[dict[str, Any]] = {}
    count = 24

    def __init__(self) -> None:
        super().__init__(self.count)

    @property
    def __sycl_usm_array_interface__(self) -> Any:
        return {"shape": (2, 3), "typestr": "<f4", "version": 1, "syclobj": CPU, **self.more}


def over(**changed: Any) -> Any:
    return type("Over", (OverBytes,), {"more": changed})


right(OverBytes)
right(over(strides=(-3, -1), offset=5))
right(over(shape=(0,), offset=0))

for _rule, _says, _changed in (
    ("usm-version", "version is 1, and no other", {"version": 3}),
    ("usm-version", "version is an integer", {"version": "1"}),
    ("usm-version", "version is no bool", {"version": True}),
    ("usm-shape", "shape is a tuple", {"shape": [2, 3]}),
    ("usm-shape", "shape isn't negative", {"shape": (2, -3)}),
    ("usm-shape", "the array has a size", {"shape": (1 << 40, 1 << 40)}),
    ("usm-typestr", "typestr is kind and size", {"typestr": "f4"}),
    ("usm-typestr", "the size exists", {"typestr": "|f5"}),
    ("usm-typestr", "typestr is a string", {"typestr": b"<f4"}),
    ("usm-typestr", "Python objects don't live in USM memory", {"typestr": "|O8"}),
    ("usm-typestr-order", "the order of bytes is told where there is one", {"typestr": "|f4"}),
    ("usm-typestr-order", "so it is in typedescr", {"typestr": "|f4", "typedescr": [("", "|f4")]}),
    ("usm-typedescr", "typedescr has the size of typestr", {"typestr": "|V8", "typedescr": _STRUCTURED}),
    ("usm-typedescr", "typedescr says what typestr says", {"typedescr": [("", "<i4")]}),
    ("usm-typedescr", "typedescr is a list of tuples", {"typedescr": "a, b"}),
    ("usm-strides", "strides are integers", {"strides": (3.0, 1)}),
    ("usm-strides", "there are as many strides as dimensions", {"strides": (1,)}),
    ("usm-strides", "strides are a tuple", {"strides": [3, 1]}),
    ("usm-offset", "offset is an integer", {"offset": 1.0}),
    ("usm-offset", "offset isn't None: it may be left out", {"offset": None}),
    ("usm-data", "the read-only flag is a bool", {"data": (POINTER, 0)}),
    ("usm-data", "data is a pair", {"data": POINTER}),
    ("usm-data", "without data the key isn't there", {"data": None}),
    ("usm-data", "the pointer isn't negative", {"data": (-8, False)}),
    ("usm-null-pointer", "the pointer is 0 only for size zero", {"data": (0, False)}),
    ("usm-extent", "strides lead to addresses", {"strides": (-(1 << 60), 1)}),
    ("usm-extent", "the offset leads to addresses", {"offset": -(1 << 60)}),
    ("usm-syclobj", "syclobj is one of six kinds", {"syclobj": 3}),
    ("usm-syclobj", "syclobj isn't None", {"syclobj": None}),
    ("usm-syclobj", "a filter string is a str", {"syclobj": b"gpu"}),
    ("usm-syclobj", "a queue of somebody's own has _get_capsule()", {"syclobj": type("SyclQueue", (), {})()}),
    ("usm-filter", "a filter string isn't empty", {"syclobj": ""}),
    ("usm-filter", "no device type is called graphics", {"syclobj": "graphics"}),
    ("usm-filter", "the parts are in order", {"syclobj": "gpu:opencl"}),
    ("usm-filter", "there are no spaces", {"syclobj": "opencl: cpu"}),
    ("usm-filter", "it is in lower case", {"syclobj": "CPU"}),
    ("usm-filter", "each alternative is one", {"syclobj": "gpu,"}),
    ("usm-filter", "a number isn't negative", {"syclobj": "gpu:-1"}),
    ("usm-capsule-shared", "each reading gives a capsule of its own", {"syclobj": queue_ref()}),
):
    breaks(_rule, _says)(usm(**_changed))

_KEPT = queue_ref(b"SyclContextRef")


def _raises() -> object:
    raise RuntimeError("no queue today")


for _rule, _says, _context in (
    ("usm-capsule-name", "a device isn't a context", lambda: queue_ref(b"SyclDeviceRef")),
    ("usm-capsule-name", "a name is as the text spells it", giving(lambda: queue_ref(b"syclqueueref"))),
    ("usm-capsule-used", "a capsule that was used is of no use", lambda: queue_ref(b"used_SyclQueueRef")),
    ("usm-capsule-used", "a context's, too", giving(lambda: queue_ref(b"used_SyclContextRef"))),
    ("usm-capsule-shared", "each call gives a capsule of its own", giving(lambda: _KEPT)),
    ("usm-capsule-memory", "the capsule leads to a queue", lambda: queue_ref(native=EMPTY)),
    ("usm-capsule-memory", "the queue is still there", lambda: queue_ref(native=DANGLING)),
    ("usm-capsule-memory", "the capsule leads to memory", lambda: capsule(64, b"SyclQueueRef", None)),
    ("usm-capsule-memory", "the queue isn't nonsense", giving(lambda: queue_ref(native=NONSENSE))),
    ("usm-get-capsule", "_get_capsule() can be called", giving(_raises)),
    ("usm-get-capsule", "_get_capsule() gives a capsule", giving(lambda: "SyclQueueRef")),
):
    breaks(_rule, _says)(of(_context))

for _rule, _says, _changed in (
    ("usm-buffer", "all elements lie in the buffer", {"shape": (7,)}),
    ("usm-buffer", "offset counts from the buffer's start", {"offset": 1}),
    ("usm-buffer", "nothing lies before the buffer", {"offset": -1}),
    ("usm-buffer", "strides count elements, not bytes", {"strides": (12, 4)}),
):
    breaks(_rule, _says)(over(**_changed))


@breaks("usm-missing", "the context must be told")
class WithoutContext(Interface):
    without = ("syclobj",)


@breaks("usm-missing", "version must be told")
class WithoutVersion(Interface):
    without = ("version",)


@breaks("usm-missing", "without data there is a buffer")
class WithoutData(Interface):
    without = ("data",)


@breaks("usm-dict", "the attribute is a dict, not a method")
class ByMethod:
    def __sycl_usm_array_interface__(self) -> Any:
        return {}


@breaks("usm-raises", "the attribute can be read")
class RaisesHalfWay:
    @property
    def __sycl_usm_array_interface__(self) -> Any:
        raise RuntimeError("no SYCL today")


@breaks("usm-read-only-unsure", "True of memory that may be written says nothing")
class LikeDpctl(usm(data=(POINTER, True)), type("_Memory", (), {"__module__": "dpctl.memory._memory"})):  # type: ignore[misc]
    pass


@breaks("usm-pointer-unchecked", "nobody knows whose memory it is where no run time can be asked")
class MadeUp(Interface):
    pass


# ---- beside other protocols


class Both(tensors.Tensor):
    """DLPack, and SYCL's interface beside it."""

    device = (14, 0)

    def pointer(self, memory: Any) -> int | None:
        return POINTER + 4096 * (memory is not self.memory)

    @property
    def __sycl_usm_array_interface__(self) -> Any:
        data = (POINTER, self.readonly)
        interface = {"shape": self.shape, "typestr": "<f4", "data": data, "version": 1, "syclobj": CPU}
        return interface | self.changed()

    def changed(self) -> dict[str, Any]:
        return {}


@right
class BothWays(Both):
    pass


@right
class BothWaysByOffset(Both):
    """The interface tells the allocation, and DLPack where the array starts."""

    def changed(self) -> dict[str, Any]:
        return {"data": (POINTER - 32, False), "offset": 8}


@breaks("across-readonly", "what DLPack says is read-only isn't writable elsewhere")
class LaundersUsm(Both):
    readonly = True

    def changed(self) -> dict[str, Any]:
        return {"data": (POINTER, False)}


@breaks("across-pointer", "offset counts elements, not bytes")
class OffsetInBytes(Both):
    def changed(self) -> dict[str, Any]:
        return {"data": (POINTER - 32, False), "offset": 32}


@breaks("across-strides", "strides count elements, not bytes")
class StridesInBytes(Both):
    def changed(self) -> dict[str, Any]:
        return {"strides": (12, 4)}


@breaks("across-shape", "all protocols have the same shape")
class FlatInUsm(Both):
    def changed(self) -> dict[str, Any]:
        return {"shape": (6,)}


class Shared(tensors.Floats):
    """Memory that the host reads as well."""

    @property
    def __array_interface__(self) -> Any:
        return {"shape": (2, 3), "typestr": "<f4", "data": (self.pointer(self.memory), False), "version": 3}

    @property
    def __sycl_usm_array_interface__(self) -> Any:
        data = (ctypes.addressof(self.other()), False)
        return {"shape": (2, 3), "typestr": "<f4", "data": data, "version": 1, "syclobj": CPU}

    def other(self) -> Any:
        return self.memory


@right
class SharedEveryWay(Shared):
    pass


@breaks("across-pointer", "all protocols export the same memory")
class OtherMemory(Shared):
    ELSEWHERE = (c_float * 6)()

    def other(self) -> Any:
        return self.ELSEWHERE
