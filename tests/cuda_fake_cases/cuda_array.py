"""xd.Tensor and the CUDA Array Interface: what tests/python/test_cuda_array.py runs with the fake of CUDA's library,
and where there is a GPU, like most files here, on that. Slow streams, forgotten orders and what is alive are seen on
the fake alone.

The exporters are plain Python and ctypes on CUDA's driver interface: nothing of ours is in them.
"""

from __future__ import annotations

import ctypes
import gc
import os
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import crossdock as xd
from crossdock import offload

# ---- CUDA, as another library in the process uses it ----------------------------------------------------------------


class Live(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in ("allocations", "streams", "events", "contexts")]


class Cuda:
    """CUDA's driver interface, and the fake's own."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(os.environ.get("CROSSDOCK_CUDA_LIBRARY", "libcuda.so.1"))
        self.is_fake = hasattr(self.library, "crossdockCudaFakeReset")
        self.counts = hasattr(self.library, "crossdockCudaFakeCalls")
        self.contexts: dict[int, c_void_p] = {}
        self("cuInit", c_uint(0))
        count = c_int()
        self("cuDeviceGetCount", ctypes.byref(count))
        self.devices = min(count.value, 2)
        for device in reversed(range(self.devices)):
            context = c_void_p()
            self("cuDevicePrimaryCtxRetain", ctypes.byref(context), c_int(device))
            self.contexts[device] = context
        self("cuCtxPushCurrent_v2", self.contexts[0])

    def __call__(self, function: str, *arguments: Any) -> None:
        result = self.library[function](*arguments)
        assert result == 0, f"{function} gave {result}"

    def on(self, device: int, function: str, *arguments: Any) -> None:
        self("cuCtxPushCurrent_v2", self.contexts[device])
        self(function, *arguments)
        self("cuCtxPopCurrent_v2", ctypes.byref(c_void_p()))

    def stream(self, device: int = 0) -> int:
        made = c_void_p()
        self.on(device, "cuStreamCreate", ctypes.byref(made), c_uint(1))
        assert made.value is not None
        return made.value

    def slow_down(self, seconds: float) -> None:
        if self.is_fake:
            self.library.crossdockCudaFakeSetDelay(c_uint64(int(seconds * 1e6)))

    def under_way(self, event: xd.Event) -> bool:
        """Whether slow work isn't done; of a GPU's that can't be said."""
        return not event.done or not self.is_fake

    def reset(self) -> None:
        if self.is_fake:
            self.library.crossdockCudaFakeReset()

    def faults(self) -> int:
        if not self.is_fake:
            return 0
        self.library.crossdockCudaFakeFaults.restype = c_uint64
        return int(self.library.crossdockCudaFakeFaults(None, c_uint64(0)))

    def calls(self, function: str) -> int:
        self.library.crossdockCudaFakeCalls.restype = c_uint64
        return int(self.library.crossdockCudaFakeCalls(function.encode()))

    def watch_gil(self) -> None:
        """Counts calls that are made with the GIL held."""
        self.library.crossdockCudaFakeWatchLock(ctypes.cast(ctypes.pythonapi.PyGILState_Check, c_void_p))

    def calls_with_gil(self, function: str) -> int:
        self.library.crossdockCudaFakeCallsWithLock.restype = c_uint64
        return int(self.library.crossdockCudaFakeCallsWithLock(function.encode()))

    def live(self) -> Live:
        live = Live()
        self.library.crossdockCudaFakeLive(ctypes.byref(live))
        return live


CUDA = Cuda()

on_the_fake = pytest.mark.skipif(not CUDA.is_fake, reason="needs the fake: its controls, or what it counts")
counted = pytest.mark.skipif(not CUDA.counts, reason="needs a library that counts its calls, as the fake")
two_devices = pytest.mark.skipif(CUDA.devices < 2, reason="needs two devices")
each_device = pytest.mark.parametrize("device", [0, pytest.param(1, marks=two_devices)])


class Memory:
    """Bytes that a producer owns."""

    def __init__(self, content: np.ndarray, kind: str = "device", device: int = 0) -> None:
        self.kind, self.device, self.size = kind, device, content.nbytes
        pointer = c_uint64()
        match kind:
            case "device":
                CUDA.on(device, "cuMemAlloc_v2", ctypes.byref(pointer), c_size_t(self.size))
            case "managed":
                CUDA.on(device, "cuMemAllocManaged", ctypes.byref(pointer), c_size_t(self.size), c_uint(1))
            case "pinned":
                CUDA.on(device, "cuMemHostAlloc", ctypes.byref(pointer), c_size_t(self.size), c_uint(0))
        self.pointer = pointer.value
        self.content = np.ascontiguousarray(content)
        CUDA.on(device, "cuMemcpyHtoD_v2", pointer, c_void_p(self.content.ctypes.data), c_size_t(self.size))
        # CUDA's own function returns once it has read pageable memory, while the device may still write.
        CUDA.on(device, "cuStreamSynchronize", c_void_p(1))

    def fill(self, value: int, stream: int) -> None:
        """Work on a stream: sets every byte."""
        CUDA.on(
            self.device,
            "cuMemsetD8Async",
            c_uint64(self.pointer),
            c_ubyte(value),
            c_size_t(self.size),
            c_void_p(stream),
        )

    def __del__(self) -> None:
        # As CUDA's own function does, and the fake's doesn't: wait for the device.
        CUDA.on(self.device, "cuCtxSynchronize")
        function = "cuMemFreeHost" if self.kind == "pinned" else "cuMemFree_v2"
        CUDA.on(self.device, function, c_uint64(self.pointer))


class ForeignArray:
    """As Numba wraps a pointer of others: the dictionary, and nothing else."""

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__cuda_array_interface__ = interface


class DeviceArray:
    """As Numba's DeviceNDArray, CuPy's ndarray and torch's Tensor export themselves."""

    def __init__(self, array: np.ndarray, style: str = "numba", stream: int | None = None, **where: Any) -> None:
        self.memory = Memory(array, **where)
        self.array, self.style, self.stream = array, style, stream

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        interface = {
            "shape": self.array.shape,
            "typestr": self.array.dtype.str,
            "data": (self.memory.pointer, False),
            "strides": None,
        }
        match self.style:
            case "numba":
                return {**interface, "stream": self.stream, "version": 3}
            case "cupy":
                interface["descr"] = self.array.dtype.descr
                return {**interface, "stream": 1 if self.stream is None else self.stream, "version": 3}
            case _:  # torch, which knows no streams here and shows strides always
                return {**interface, "strides": self.array.strides, "version": 2}


@pytest.fixture(autouse=True)
def no_faults() -> Iterator[None]:
    CUDA.reset()
    yield
    CUDA.slow_down(0)
    wait_for_frees()
    CUDA("cuCtxSynchronize")
    faults = CUDA.faults()
    CUDA.reset()
    assert faults == 0, "streams met without an order between them"


@pytest.fixture
def floats() -> np.ndarray:
    return np.arange(12, dtype="f4").reshape(3, 4)


def interface_of(memory: Memory, **changes: Any) -> dict[str, Any]:
    entries = {
        "shape": (memory.size // 4,),
        "typestr": "<f4",
        "data": (memory.pointer, False),
        "version": 3,
        **changes,
    }
    return {key: value for key, value in entries.items() if value is not ...}


def read(tensor: Any) -> np.ndarray:
    return np.asarray(xd.asarray(tensor).to("cpu"))


def wait_for_frees() -> None:
    """Memory that was handed to a queue goes when its driver is next asked for something, and the work is done."""
    gc.collect()
    for device in [f"cuda:{number}" for number in range(CUDA.devices)]:
        xd.Queue.new(device).wait()
        xd.asarray(b"x").to(device).wait()


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 5
    while not condition():
        if time.monotonic() > deadline:
            return False
        wait_for_frees()
    return True


# ---- what comes in --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["numba", "cupy", "torch"])
@each_device
def test_arrays_of_other_libraries(floats: np.ndarray, style: str, device: int) -> None:
    array = DeviceArray(floats, style, device=device)
    tensor = xd.asarray(array)
    assert tensor.device == f"cuda:{device}"
    assert tensor.pointer == array.memory.pointer
    assert (tensor.shape, tensor.dtype, tensor.readonly) == ((3, 4), "f4", False)
    np.testing.assert_array_equal(read(tensor), floats)
    np.testing.assert_array_equal(read(tensor[::-1, ::2]), floats[::-1, ::2])
    if CUDA.devices > 1:
        np.testing.assert_array_equal(read(tensor.to(f"cuda:{1 - device}")), floats)


@pytest.mark.parametrize("kind", ["managed", "pinned"])
def test_pinned_and_managed_memory(floats: np.ndarray, kind: str) -> None:
    array = DeviceArray(floats, kind=kind)
    tensor = xd.asarray(array)
    assert tensor.device == {"managed": "cuda_managed:0", "pinned": "cuda_host:0"}[kind]
    attributes = tensor.pointer_attributes
    assert attributes["host_accessible"]
    assert attributes["managed"] == (kind == "managed")
    np.testing.assert_array_equal(read(tensor), floats)
    np.testing.assert_array_equal(np.asarray(tensor), floats)
    assert tensor.__cuda_array_interface__["data"] == (array.memory.pointer, False)
    queue = xd.Queue.new("cuda:0")
    there = xd.asarray(floats).to(tensor.device, queue=queue)
    assert there.device == tensor.device
    assert there.queue == queue
    np.testing.assert_array_equal(np.asarray(there.to("cpu", queue=queue)), floats)


def test_pointer_attributes(floats: np.ndarray) -> None:
    array = DeviceArray(floats)
    attributes = xd.asarray(array)[1].pointer_attributes
    assert attributes["device"] == "cuda:0"
    assert attributes["device_pointer"] == array.memory.pointer + 16
    assert attributes["context"] == CUDA.contexts[0].value
    assert not attributes["host_accessible"]
    assert not attributes["managed"]
    assert attributes["allocation"] == (array.memory.pointer, 48)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_versions(floats: np.ndarray, version: int) -> None:
    memory = Memory(floats)
    tensor = xd.asarray(ForeignArray(interface_of(memory, version=version)))
    assert (tensor.event is None) == (version == 3), "only version 3 says that nothing is to be waited for"
    np.testing.assert_array_equal(read(tensor), floats.ravel())
    masked = ForeignArray(interface_of(memory, version=version, mask=DeviceArray(np.ones(12, "?"))))
    if version == 0:
        with pytest.warns(UserWarning, match='version 0 has no masks, so the entry "mask" is ignored'):
            assert xd.asarray(masked).mask is None
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match="version 0"):
                xd.asarray(masked)
            xd.asarray(ForeignArray(interface_of(memory, version=0, mask=None)))  # nothing is ignored there
    else:
        assert xd.asarray(masked).mask is not None


@pytest.mark.parametrize("stream", [0, -1])
def test_without_order_no_stream_is_wrong(floats: np.ndarray, stream: int) -> None:
    memory = Memory(floats)
    theirs = ForeignArray(interface_of(memory, stream=stream))
    with pytest.raises(ValueError, match=f"stream {stream}"):
        xd.asarray(theirs)
    tensor = xd.asarray(theirs, sync=False)
    assert tensor.event is None
    np.testing.assert_array_equal(read(tensor), floats.ravel())
    xd.set_cuda_array_interface_sync(False)
    try:
        np.testing.assert_array_equal(read(xd.asarray(theirs)), floats.ravel())
        with pytest.raises(ValueError, match=f"stream {stream}"):
            xd.asarray(theirs, sync=True)
    finally:
        xd.set_cuda_array_interface_sync(True)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("stream", [0, "x", -1, True, 1 << 64])
def test_before_version_3_a_stream_means_nothing(floats: np.ndarray, version: int, stream: Any) -> None:
    memory = Memory(floats)
    tensor = xd.asarray(ForeignArray(interface_of(memory, version=version, stream=stream)))
    assert tensor.queue is not None
    assert tensor.queue.native == 1
    np.testing.assert_array_equal(read(tensor), floats.ravel())


def test_offset_into_an_allocation(floats: np.ndarray) -> None:
    memory = Memory(floats)
    part = ForeignArray(interface_of(memory, shape=(2, 3), strides=(16, 4), data=(memory.pointer + 20, False)))
    np.testing.assert_array_equal(read(part), floats[1:, 1:])
    reverse = ForeignArray(interface_of(memory, strides=(-4,), data=(memory.pointer + 44, False)))
    np.testing.assert_array_equal(read(reverse), floats.ravel()[::-1])


def test_read_only_is_kept(floats: np.ndarray) -> None:
    memory = Memory(floats)
    tensor = xd.asarray(ForeignArray(interface_of(memory, data=(memory.pointer, True))))
    assert tensor.readonly
    assert tensor.__cuda_array_interface__["data"] == (memory.pointer, True)
    assert tensor[1:].__cuda_array_interface__["data"] == (memory.pointer + 4, True)
    assert xd.asarray(ForeignArray(tensor.__cuda_array_interface__)).readonly


@pytest.mark.parametrize("typestr", [">f4", "|V4", "<M8[s]", "|S4"])
def test_types_that_only_a_typestr_names(typestr: str) -> None:
    memory = Memory(np.zeros(8, "i8"))
    tensor = xd.asarray(ForeignArray(interface_of(memory, typestr=typestr, shape=(4,))))
    assert tensor.__cuda_array_interface__["typestr"] == typestr
    with pytest.raises(BufferError):
        tensor.__dlpack__()


def test_structured_types() -> None:
    descr = [("a", "<i4"), ("b", "<f8"), ("", "|V4")]
    memory = Memory(np.zeros(8, "i8"))
    tensor = xd.asarray(ForeignArray(interface_of(memory, typestr="|V16", descr=descr, shape=(4,))))
    assert tensor.__cuda_array_interface__["descr"] == descr
    wrong = ForeignArray(interface_of(memory, typestr="|V12", descr=descr, shape=(4,)))
    with pytest.raises(ValueError, match="16"):
        xd.asarray(wrong)
    with pytest.raises(ValueError, match=r"<i4|<f4"):
        xd.asarray(ForeignArray(interface_of(memory, descr=[("", "<i4")], shape=(4,))))


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 5)])
@pytest.mark.parametrize("pointer", [0, 0x1000])
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_zero_size(shape: tuple[int, ...], pointer: int, version: int) -> None:
    interface = {"shape": shape, "typestr": "<f4", "data": (pointer, False), "version": version, "stream": 1}
    tensor = xd.asarray(ForeignArray(interface))
    assert (tensor.shape, tensor.pointer, tensor.event) == (shape, 0, None)
    shown = tensor.__cuda_array_interface__
    assert (shown["data"], shown["strides"], shown["stream"]) == ((0, False), None, None)
    assert read(tensor).shape == shape


class RaisingKey(str):
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError(f"comparing {self}")


@pytest.mark.parametrize("key", ["shape", "typestr", "data", "version", "stream"])
def test_what_a_key_raises_is_raised(key: str) -> None:
    memory = Memory(np.zeros(4, "f4"))
    entries = interface_of(memory, stream=1)
    raising = {RaisingKey(name) if name == key else name: value for name, value in entries.items()}
    with pytest.raises(RuntimeError, match=f"comparing {key}"):
        xd.from_cuda_array_interface(raising, memory)


# ---- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        *[({key: ...}, ValueError) for key in ("shape", "typestr", "data", "version")],
        ({"shape": None}, TypeError),
        ({"shape": 12}, TypeError),
        ({"shape": [12]}, TypeError),
        ({"shape": (12.0,)}, TypeError),
        ({"shape": (True,)}, TypeError),
        ({"shape": ("12",)}, TypeError),
        ({"shape": (-1,)}, ValueError),
        ({"shape": (1 << 63,)}, ValueError),
        ({"shape": (1 << 62,)}, ValueError),
        ({"shape": (1 << 40, 1 << 40)}, ValueError),
        ({"shape": (1,) * 65}, ValueError),
        ({"typestr": None}, TypeError),
        ({"typestr": b"<f4"}, TypeError),
        ({"typestr": 4}, TypeError),
        ({"typestr": ""}, ValueError),
        ({"typestr": "f"}, ValueError),
        ({"typestr": "<f3"}, ValueError),
        ({"typestr": "<f-4"}, ValueError),
        ({"typestr": "<f99999999999999999999"}, ValueError),
        ({"typestr": "|O"}, (ValueError, TypeError)),
        ({"typestr": "|O8"}, (ValueError, TypeError)),
        ({"typestr": "|t3"}, (ValueError, TypeError)),
        ({"data": None}, ValueError),
        ({"data": 5}, ValueError),
        ({"data": (5,)}, ValueError),
        ({"data": ("5", False)}, TypeError),
        ({"data": (True, False)}, TypeError),
        ({"data": (5.0, False)}, TypeError),
        ({"data": (-5, False)}, ValueError),
        ({"data": (1 << 64, False)}, ValueError),
        ({"data": (0, False)}, ValueError),
        ({"data": (5, 0)}, TypeError),
        ({"data": (5, None)}, TypeError),
        ({"data": ((1 << 64) - 4, False)}, ValueError),
        ({"version": None}, TypeError),
        ({"version": "3"}, TypeError),
        ({"version": 3.0}, TypeError),
        ({"version": True}, TypeError),
        ({"version": -1}, ValueError),
        ({"version": 4}, ValueError),
        ({"version": 1 << 64}, ValueError),
        ({"strides": 4}, TypeError),
        ({"strides": [4]}, TypeError),
        ({"strides": ()}, ValueError),
        ({"strides": (4, 4)}, ValueError),
        ({"strides": (4.0,)}, TypeError),
        ({"strides": (8,)}, ValueError),
        ({"strides": (-4,)}, ValueError),
        ({"strides": (1 << 62,)}, ValueError),
        ({"strides": (1 << 64,)}, ValueError),
        ({"stream": 0}, ValueError),
        ({"stream": -1}, ValueError),
        ({"stream": "1"}, TypeError),
        ({"stream": True}, TypeError),
        ({"stream": 1.0}, TypeError),
        ({"stream": 1 << 64}, ValueError),
        ({"descr": 5}, (ValueError, TypeError)),
        ({"descr": [("a", "<f8")]}, ValueError),
        ({"descr": [("a",)]}, (ValueError, TypeError)),
        ({"descr": [("a", "|O")]}, (ValueError, TypeError)),
        ({"mask": 5}, TypeError),
    ],
    ids=repr,
)
def test_entries_that_are_wrong(floats: np.ndarray, changes: dict[str, Any], error: Any) -> None:
    memory = Memory(floats)
    xd.asarray(ForeignArray(interface_of(memory)))
    array = ForeignArray(interface_of(memory, **changes))
    with pytest.raises(error):
        xd.asarray(array)
    gone = weakref.ref(array)
    del array
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("interface", [None, 5, (), [("shape", (1,))], "text"])
def test_no_dictionary(interface: Any) -> None:
    with pytest.raises(TypeError):
        xd.asarray(ForeignArray(interface))
    with pytest.raises(TypeError):
        xd.from_cuda_array_interface(interface)


def test_exporters_that_raise() -> None:
    class Raises:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        xd.asarray(Raises())


def test_a_pointer_that_the_driver_doesnt_know(floats: np.ndarray) -> None:
    interface = {"shape": (12,), "typestr": "<f4", "data": (floats.ctypes.data, False), "version": 3}
    with pytest.raises(ValueError, match="doesn't know the pointer"):
        xd.asarray(ForeignArray(interface))


def test_elements_outside_the_allocation(floats: np.ndarray) -> None:
    memory = Memory(floats)
    with pytest.raises(ValueError, match="allocation of 48 bytes"):
        xd.asarray(ForeignArray(interface_of(memory, shape=(13,))))
    with pytest.raises(ValueError, match="from byte -4"):
        xd.asarray(ForeignArray(interface_of(memory, shape=(2,), strides=(-4,))))


@pytest.mark.parametrize("shape", [(11,), (2, 12), (12, 1), (0,)])
def test_a_mask_of_the_wrong_shape(floats: np.ndarray, shape: tuple[int, ...]) -> None:
    memory = Memory(floats)
    mask = np.ones(shape, "?") if 0 not in shape else None
    given = DeviceArray(mask) if mask is not None else ForeignArray(interface_of(memory, shape=shape))
    with pytest.raises(ValueError, match="mask of shape"):
        xd.asarray(ForeignArray(interface_of(memory, mask=given)))


def test_masks_are_carried(floats: np.ndarray) -> None:
    memory = Memory(floats)
    valid = np.arange(12) % 3 != 0
    tensor = xd.asarray(ForeignArray(interface_of(memory, mask=DeviceArray(valid))))
    assert tensor.mask is not None
    np.testing.assert_array_equal(read(tensor.mask), valid)
    shown = tensor.__cuda_array_interface__["mask"]
    assert shown.__cuda_array_interface__["shape"] == (12,)
    with pytest.raises(NotImplementedError):
        tensor.__dlpack__()
    back = tensor.to("cpu")
    np.testing.assert_array_equal(np.asarray(back.mask), valid)


# ---- order ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["own", "legacy", "per thread"])
def test_the_producers_stream_is_heeded(floats: np.ndarray, which: str) -> None:
    stream = {"own": CUDA.stream, "legacy": lambda: 1, "per thread": lambda: 2}[which]()
    array = DeviceArray(floats, stream=stream)
    CUDA.slow_down(0.02)
    array.memory.fill(0, stream)
    tensor = xd.asarray(array)
    assert tensor.queue is not None
    assert tensor.queue.native == stream
    assert tensor.event is not None
    assert CUDA.under_way(tensor.event), "nothing is waited for here"
    there = tensor.copy(queue=xd.Queue.new("cuda:0"))
    # What its producer does next comes after our copy.
    array.memory.fill(0xFF, stream)
    np.testing.assert_array_equal(read(there), np.zeros((3, 4)))


@two_devices
def test_another_devices_copy_is_before_the_producers_next_work(floats: np.ndarray) -> None:
    stream = CUDA.stream()
    array = DeviceArray(floats, stream=stream)
    CUDA.slow_down(0.02)
    there = xd.asarray(array).to("cuda:1")
    array.memory.fill(0, stream)
    np.testing.assert_array_equal(read(there), floats)


@on_the_fake
@pytest.mark.parametrize("how", ["asarray", "from_cuda_array_interface", "everywhere"])
def test_leaving_out_the_wait_is_a_race(floats: np.ndarray, how: str) -> None:
    stream = CUDA.stream()
    array = DeviceArray(floats, stream=stream)
    CUDA.slow_down(0.05)
    array.memory.fill(0, stream)
    match how:
        case "asarray":
            tensor = xd.asarray(array, sync=False)
        case "from_cuda_array_interface":
            tensor = xd.from_cuda_array_interface(array.__cuda_array_interface__, owner=array, sync=False)
        case _:
            xd.set_cuda_array_interface_sync(False)
            try:
                tensor = xd.asarray(array)
            finally:
                xd.set_cuda_array_interface_sync(True)
    assert tensor.event is None
    assert tensor.queue is None
    with pytest.raises(xd.SystemError, match="CUDA_ERROR_LAUNCH_FAILED"):
        tensor.to("cpu")
    assert CUDA.faults() == 1
    CUDA.reset()
    # With it, it is none.
    np.testing.assert_array_equal(read(array), np.zeros((3, 4)))


def test_a_call_knows_better_than_the_switch(floats: np.ndarray) -> None:
    array = DeviceArray(floats, stream=CUDA.stream())
    xd.set_cuda_array_interface_sync(False)
    try:
        assert xd.asarray(array).event is None
        assert xd.asarray(array, sync=True).event is not None
        interface = array.__cuda_array_interface__
        assert xd.from_cuda_array_interface(interface, owner=array).event is None
        assert xd.from_cuda_array_interface(interface, owner=array, sync=True).event is not None
    finally:
        xd.set_cuda_array_interface_sync(True)
    assert xd.asarray(array, sync=None).event is not None


@pytest.mark.parametrize(("value", "heeded"), [("0", False), ("1", True), (None, True)])
def test_the_environments_switch(script: Any, monkeypatch: pytest.MonkeyPatch, value: str | None, heeded: bool) -> None:
    name = "CROSSDOCK_CUDA_ARRAY_INTERFACE_SYNC"
    if value is None:
        monkeypatch.delenv(name, raising=False)
    else:
        monkeypatch.setenv(name, value)
    out = script(
        """
        import crossdock as xd

        source = xd.asarray(b"abcd").to("cuda:0")
        class Array:
            __cuda_array_interface__ = {**source.__cuda_array_interface__, "stream": 1}
        print(xd.asarray(Array()).event is not None)
        """
    ).finish()
    assert out.strip() == str(heeded)


# ---- what goes out --------------------------------------------------------------------------------------------------


def test_strides_are_none_if_and_only_if_c_contiguous(floats: np.ndarray) -> None:
    there = xd.asarray(floats).to("cuda:0")
    assert there.__cuda_array_interface__["strides"] is None
    assert there[1:].__cuda_array_interface__["strides"] is None
    assert there.T.__cuda_array_interface__["strides"] == (4, 16)
    assert there[:, ::2].__cuda_array_interface__["strides"] == (16, 8)
    assert there[::-1].__cuda_array_interface__["strides"] == (-16, 4)
    assert there[:1, :].__cuda_array_interface__["strides"] is None
    shown = there.__cuda_array_interface__
    assert (shown["version"], shown["typestr"], shown["shape"], shown["mask"]) == (3, "<f4", (3, 4), None)


def test_the_stream_shown(floats: np.ndarray) -> None:
    queue = xd.Queue.new("cuda:0")
    there = xd.asarray(floats).to("cuda:0", queue=queue)
    assert there.__cuda_array_interface__["stream"] == queue.native
    assert xd.empty(4, device="cuda:0", queue=queue).__cuda_array_interface__["stream"] == queue.native
    array = DeviceArray(floats)
    assert xd.asarray(array).__cuda_array_interface__["stream"] is None
    array.stream = 1
    assert xd.asarray(array).__cuda_array_interface__["stream"] == 1
    array.stream = CUDA.stream()
    assert xd.asarray(array)[1:].__cuda_array_interface__["stream"] == array.stream
    there.wait()
    assert there.unsynchronized().__cuda_array_interface__["stream"] is None


def test_the_shown_stream_is_enough(floats: np.ndarray) -> None:
    CUDA.slow_down(0.02)
    there = xd.asarray(floats).to("cuda:0", queue=xd.Queue.new("cuda:0"))
    shown = there.__cuda_array_interface__
    out = np.zeros_like(floats)
    size = c_size_t(out.nbytes)
    stream = c_void_p(shown["stream"])
    CUDA("cuMemcpyDtoHAsync_v2", c_void_p(out.ctypes.data), c_uint64(shown["data"][0]), size, stream)
    CUDA("cuStreamSynchronize", stream)
    np.testing.assert_array_equal(out, floats)


@two_devices
def test_there_and_back_by_the_interface(floats: np.ndarray) -> None:
    there = xd.asarray(floats).to("cuda:1")
    again = xd.from_cuda_array_interface(there.__cuda_array_interface__, owner=there)
    assert again.pointer == there.pointer
    assert again.device == "cuda:1"
    np.testing.assert_array_equal(read(again), floats)


def test_whose_memory_isnt_cudas_has_no_interface(floats: np.ndarray) -> None:
    assert not hasattr(xd.asarray(floats), "__cuda_array_interface__")


# ---- DLPack ---------------------------------------------------------------------------------------------------------


def comes_after(event: xd.Event, stream: int, device: int = 0) -> bool:
    """Whether what is put on a stream now comes after the work before an event, which is under way."""
    assert CUDA.under_way(event)
    there = xd.Queue(f"cuda:{device}", native=stream).record()
    waits = CUDA.under_way(there)
    there.wait()
    return waits and bool(event.done)


@pytest.mark.parametrize(("stream", "ordered"), [(None, 1), (1, 1), (2, 2), ("own", "own"), (-1, None)])
def test_the_streams_that_dlpack_knows(floats: np.ndarray, stream: Any, ordered: Any) -> None:
    own = CUDA.stream()
    CUDA.slow_down(0.05)
    there = xd.asarray(floats).to("cuda:0", queue=xd.Queue.new("cuda:0"))
    work = there.event
    there.__dlpack__(stream=own if stream == "own" else stream, max_version=(1, 0))
    for number in (1, 2, own):
        if number == (own if ordered == "own" else ordered):
            assert comes_after(work, number)
            break
    else:
        assert ordered is None
        assert not CUDA.is_fake or all(xd.Queue("cuda:0", native=number).record().done for number in (2, own))
    there.wait()


@pytest.mark.parametrize("stream", [0, -2, 1 << 64, 1.0, "1", True])
def test_streams_that_dlpack_hasnt(floats: np.ndarray, stream: Any) -> None:
    there = xd.asarray(floats).to("cuda:0")
    with pytest.raises(ValueError if type(stream) is int else TypeError, match="stream"):
        there.__dlpack__(stream=stream)


@pytest.mark.parametrize("device", [pytest.param("cuda:1", marks=two_devices), "cuda_host:0", "cpu"])
def test_from_dlpack_to_another_device(floats: np.ndarray, device: str) -> None:
    CUDA.slow_down(0.02)
    there = xd.asarray(floats).to("cuda:0", queue=xd.Queue.new("cuda:0"))
    taken = xd.from_dlpack(there, device=device)
    assert taken.device == device
    np.testing.assert_array_equal(read(taken), floats)


@two_devices
def test_another_devices_copy_comes_before_the_stream_that_was_named(floats: np.ndarray) -> None:
    stream = CUDA.stream()
    CUDA.slow_down(0.05)
    there = xd.asarray(floats).to("cuda:0", queue=xd.Queue.new("cuda:0"))
    work = there.event
    capsule = there.__dlpack__(stream=stream, dl_device=(2, 1), max_version=(1, 0))
    assert comes_after(work, stream)
    del capsule


class CopiesOnTheStream:
    """Another library's array on device 0, which is copied to device 1 on the stream that the consumer names."""

    def __init__(self, array: np.ndarray) -> None:
        self.memory, self.copy = Memory(array), Memory(np.zeros_like(array), device=1)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, *, stream: int, dl_device: tuple[int, int], max_version: tuple[int, int]) -> Any:
        assert dl_device == (2, 1)
        to, size = c_uint64(self.copy.pointer), c_size_t(self.memory.size)
        source = c_uint64(self.memory.pointer), CUDA.contexts[0]
        CUDA.on(0, "cuMemcpyPeerAsync", to, CUDA.contexts[1], *source, size, c_void_p(stream))
        made = xd.from_cuda_array_interface(interface_of(self.copy), owner=self)
        return made.__dlpack__(max_version=max_version)


@two_devices
def test_a_foreign_producers_copy_is_waited_for_where_it_runs(floats: np.ndarray) -> None:
    producer = CopiesOnTheStream(floats)
    CUDA.slow_down(0.02)
    taken = xd.from_dlpack(producer, device="cuda:1")
    assert taken.device == "cuda:1"
    assert CUDA.under_way(taken.event)
    np.testing.assert_array_equal(read(taken), floats.ravel())


@pytest.mark.parametrize("kind", ["managed", "pinned"])
@pytest.mark.parametrize("device", [0, 1])
@two_devices
def test_streams_for_memory_that_every_device_reaches(floats: np.ndarray, kind: str, device: int) -> None:
    """DLPack says device 0 of it, whichever it is, so that a consumer's stream may be another's."""
    produced = CUDA.stream(1)
    array = DeviceArray(floats, kind=kind, device=1, stream=produced)
    stream = CUDA.stream(device)
    CUDA.slow_down(0.05)
    array.memory.fill(0, produced)
    tensor = xd.asarray(array)
    assert tensor.__dlpack_device__() == ({"managed": 13, "pinned": 3}[kind], 0)
    work = tensor.event
    tensor.__dlpack__(stream=stream, max_version=(1, 0))
    assert comes_after(work, stream, device)
    tensor.wait()
    tensor.__dlpack__(stream=1, max_version=(1, 0))


# ---- between devices ------------------------------------------------------------------------------------------------


@two_devices
@pytest.mark.parametrize("target", ["cuda:1", "cuda_host:1", "cuda_managed:1", "cuda_host:0"])
def test_many_runs_come_to_another_device(target: str) -> None:
    source = np.arange(4096.0).reshape(2048, 2)
    there = xd.asarray(source).to("cuda:0")[:, :1]
    CUDA.slow_down(0.002)
    across = there.to(target)
    assert across.device == target
    np.testing.assert_array_equal(read(across), source[:, :1])


@two_devices
@pytest.mark.parametrize("target", ["cuda_host:0", "cuda_managed:0"])
def test_to_another_devices_pinned_and_managed_memory(floats: np.ndarray, target: str) -> None:
    CUDA.slow_down(0.002)
    there = xd.asarray(floats).to("cuda:1")
    across = there.to(target)
    assert across.device == target
    np.testing.assert_array_equal(read(across), floats)
    np.testing.assert_array_equal(read(across.to("cuda:1")), floats)
    pa = pytest.importorskip("pyarrow")
    batch = pa.record_batch({"a": floats.ravel(), "s": [str(i) for i in range(12)]})
    back = xd.RecordBatch(batch).to("cuda:1").to(target).to("cpu")
    assert pa.record_batch(back).equals(batch)


@two_devices
def test_a_mask_on_another_device_is_refused(floats: np.ndarray) -> None:
    memory = Memory(floats)
    with pytest.raises(ValueError, match="its mask is in memory of cuda:1"):
        xd.asarray(ForeignArray(interface_of(memory, mask=DeviceArray(np.ones(12, "?"), device=1))))


@two_devices
@pytest.mark.parametrize("device", ["cuda:1", "cuda_host:0", "cuda_managed:1"])
def test_attributes_of_no_pointer(device: str) -> None:
    attributes = xd.empty((0, 3), device=device).pointer_attributes
    assert attributes["device"] == device
    assert attributes["host_accessible"] == (not device.startswith("cuda:"))
    assert attributes["managed"] == device.startswith("cuda_managed")
    assert attributes["allocation"] is None


# ---- the per-thread default stream ----------------------------------------------------------------------------------


def in_a_thread(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def test_memory_made_on_the_per_thread_stream_goes_on_any_thread(floats: np.ndarray) -> None:
    CUDA.slow_down(0.02)
    there = in_a_thread(lambda: xd.asarray(floats).to("cuda:0", queue=xd.Queue("cuda:0", native=2)))
    assert there.queue.native not in (1, 2)
    np.testing.assert_array_equal(read(there), floats)
    in_a_thread(lambda: xd.empty(100, device="cuda:0", queue=xd.Queue("cuda:0", native=2)))
    del there


def test_an_array_of_another_threads_own_stream(floats: np.ndarray) -> None:
    array = DeviceArray(floats, stream=2)
    CUDA.slow_down(0.02)

    def produced() -> Any:
        array.memory.fill(0, 2)
        return xd.asarray(array)

    tensor = in_a_thread(produced)
    np.testing.assert_array_equal(read(tensor.copy()), np.zeros_like(floats))
    shown = tensor.__cuda_array_interface__["stream"]
    assert shown not in (None, 1, 2), "here 2 would be another one"
    with pytest.raises(ValueError, match="another thread"):
        tensor.queue.record()


# ---- lifetimes ------------------------------------------------------------------------------------------------------


def test_asarray_keeps_the_owner_and_from_interface_only_if_told(floats: np.ndarray) -> None:
    array = DeviceArray(floats, stream=CUDA.stream())
    gone = weakref.ref(array)
    interface = array.__cuda_array_interface__
    plain = xd.from_cuda_array_interface(interface)
    kept = xd.from_cuda_array_interface(interface, owner=array)
    taken = xd.asarray(array)
    view = taken[1:]
    del array, taken
    gc.collect()
    assert gone() is not None
    del kept
    gc.collect()
    assert gone() is not None
    np.testing.assert_array_equal(read(view), floats[1:])
    del view
    assert eventually(lambda: gone() is None)
    assert plain.shape == (3, 4)


@on_the_fake
def test_an_exported_stream_lives_as_long_as_the_object(floats: np.ndarray) -> None:
    before = CUDA.live().streams
    queue = xd.Queue.new("cuda:0")
    there = xd.asarray(floats).to("cuda:0", queue=queue)
    stream = there.__cuda_array_interface__["stream"]
    del queue
    gc.collect()
    CUDA("cuStreamSynchronize", c_void_p(stream))
    there.unsynchronized()
    assert CUDA.live().streams > before
    del there
    assert eventually(lambda: CUDA.live().streams <= before + 1), "a default queue may have been made"


@on_the_fake
@two_devices
def test_nothing_stays_allocated(floats: np.ndarray) -> None:
    read(xd.asarray(floats).to("cuda:0").to("cuda:1"))
    assert eventually(lambda: CUDA.live().allocations == 0)
    for kind in ("device", "managed", "pinned"):
        array = DeviceArray(floats, kind=kind, stream=CUDA.stream())
        read(xd.asarray(array).to("cuda:1")[1:])
        read(xd.asarray(array).T)
    del array
    assert eventually(lambda: CUDA.live().allocations == 0)


def test_pinned_memory_on_no_queue_says_nothing_of_where_work_runs(floats: np.ndarray) -> None:
    pinned = xd.asarray(DeviceArray(floats, kind="pinned"))
    pinned.wait()
    pinned = pinned.unsynchronized()
    there = xd.asarray(floats, queue=xd.Queue("cuda:0", name="work"))
    assert pinned.queue is None
    assert [one.queue for one in xd.offload.collocate(pinned, there)] == [there.queue] * 2
    (stays,) = xd.offload.collocate(pinned)
    assert (stays.queue, stays.pointer) == (None, pinned.pointer)


@two_devices
@pytest.mark.parametrize("usm_type", ["shared", "host"])
def test_a_mask_that_the_queue_doesnt_reach_is_copied_with_its_data(usm_type: str) -> None:
    data = xd.asarray(np.arange(6.0), queue="cuda:1", usm_type=usm_type)
    mask = xd.asarray(np.array([1, 0, 1, 0, 1, 0], "?"), queue="cuda:1")
    both = SimpleNamespace(__cuda_array_interface__={**data.__cuda_array_interface__, "mask": mask}, data=data)
    masked = xd.asarray(both)
    for queue in ("host", "cuda:0"):
        assert not offload.accessible(masked, queue)
        with pytest.raises(xd.ExecutionPlacementError):
            offload.placement(masked, queue=queue)
    brought = masked.collocate(xd.Queue("host"))
    assert brought.mask.pointer != masked.mask.pointer
    assert brought.mask.tolist() == [True, False, True, False, True, False]
    assert brought.pointer != masked.pointer


@two_devices
@pytest.mark.parametrize("usm_type", ["shared", "host"])
def test_dlpack_numbers_such_memory_0_whatever_made_it(usm_type: str) -> None:
    ours = xd.asarray(np.arange(5.0), queue="cuda:1", usm_type=usm_type)
    ours.wait()
    assert ours.__dlpack_device__()[1] == 0
    back = xd.from_dlpack(ours)
    assert back.device == ours.device
    np.testing.assert_array_equal(back.to("cpu"), np.arange(5.0))


@pytest.mark.parametrize("usm_type", ["shared", "host", "device"])
def test_a_copy_beside_its_source_is_of_its_kind(usm_type: str) -> None:
    ours = xd.empty(3, queue="cuda:0", usm_type=usm_type)
    for copy in (ours.copy(), xd.asarray(ours, copy=True), xd.from_dlpack(ours, copy=True)):
        assert copy.usm_type == usm_type
        assert copy.pointer != ours.pointer
