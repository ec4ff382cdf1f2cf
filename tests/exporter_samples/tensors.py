"""Exporters of arrays by ctypes and dictionaries alone: right ones, and wrong ones that differ in one thing each."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_float, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any, ClassVar

from tests.exporter_samples.capsules import ALIVE, Destructor, breaks, capsule, keep, pointer, right

Deleter = ctypes.CFUNCTYPE(None, c_void_p)
READ_ONLY, COPIED, PADDED = 1, 2, 4
CPU, CUDA, ROCM = (1, 0), (2, 0), (10, 0)
GPU_POINTER = 0x7F1200000000  # Nobody may follow it.


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


class Managed(ctypes.Structure):
    _fields_ = (("dl_tensor", DLTensor), ("manager_ctx", c_void_p), ("deleter", c_void_p))


class Versioned(ctypes.Structure):
    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("manager_ctx", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("dl_tensor", DLTensor),
    )


_KINDS: dict[bytes, Any] = {b"dltensor": Managed, b"dltensor_versioned": Versioned}
_NUMBER_OF: dict[int, int] = {}


def _delete(address: int) -> None:
    ALIVE.pop(_NUMBER_OF.pop(address, 0), None)


def _destroy(dying: int) -> None:
    for name, kind in _KINDS.items():
        address = pointer(dying, name)
        if address and kind.from_address(address).deleter:
            Deleter(kind.from_address(address).deleter)(address)


def _destroy_used(dying: int) -> None:
    for name, kind in _KINDS.items():
        address = pointer(dying, name) or pointer(dying, b"used_" + name)
        if address and kind.from_address(address).deleter:
            Deleter(kind.from_address(address).deleter)(address)


delete = Deleter(_delete)


def _destroy_twice(dying: int) -> None:
    for name, kind in _KINDS.items():
        address = pointer(dying, name)
        deleter = kind.from_address(address).deleter if address else None
        for _ in range(2 if deleter else 0):
            Deleter(deleter)(address)


destroy_twice = Destructor(_destroy_twice)
destroy, destroy_used = Destructor(_destroy), Destructor(_destroy_used)
leak = Destructor(lambda _: None)


class Tensor:
    """Two by three floats. What is wrong is done by overriding one of the hooks."""

    device = CPU
    readonly = False
    shape: tuple[int, ...] = (2, 3)
    destructor: Any = destroy
    names: tuple[bytes, bytes] = (b"dltensor", b"dltensor_versioned")

    def __init__(self) -> None:
        self.memory = (c_float * 6)(0, 1, 2, 3, 4, 5)

    # ---- hooks

    def pointer(self, memory: Any) -> int | None:
        return ctypes.addressof(memory) if 0 not in self.shape else None

    def tensor(self, raw: DLTensor) -> None:
        pass

    def managed(self, raw: Any) -> None:
        pass

    def check_stream(self, stream: int | None) -> None:
        if stream is not None:
            raise BufferError("the CPU has no streams")

    def copy_of(self, memory: Any) -> Any:
        return type(memory).from_buffer_copy(memory)

    def flags(self, copied: bool) -> int:
        return (READ_ONLY if self.readonly else 0) | (COPIED if copied else 0)

    def refuse_legacy(self) -> None:
        if self.readonly:
            raise BufferError("read-only, which an unversioned tensor can't say")

    def refuse_device(self, device: Any) -> None:
        if device not in (None, self.device):
            raise BufferError("no other device")

    def wants_versioned(self, max_version: tuple[int, int] | None) -> bool:
        return max_version is not None and max_version[0] >= 1

    # ---- the protocol

    def make(self, versioned: bool, copy: bool) -> Any:
        memory = self.copy_of(self.memory) if copy else self.memory
        shape = (c_int64 * len(self.shape))(*self.shape)
        steps = [1] * len(self.shape)
        for axis in range(len(steps) - 2, -1, -1):
            steps[axis] = steps[axis + 1] * max(1, self.shape[axis + 1])
        strides = (c_int64 * len(steps))(*steps)
        raw = Versioned(major=1, minor=3, flags=self.flags(copy)) if versioned else Managed()
        tensor = raw.dl_tensor
        tensor.data = self.pointer(memory)
        tensor.device_type, tensor.device_id = self.device
        tensor.ndim, tensor.code, tensor.bits, tensor.lanes = len(self.shape), 2, 32, 1
        tensor.shape, tensor.strides = ctypes.addressof(shape), ctypes.addressof(strides)
        raw.deleter = ctypes.cast(delete, c_void_p)
        self.tensor(tensor)
        self.managed(raw)
        _NUMBER_OF[ctypes.addressof(raw)] = keep(raw, shape, strides, memory)
        return raw

    def __dlpack_device__(self) -> Any:
        return self.device

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        self.check_stream(stream)
        self.refuse_device(dl_device)
        versioned = self.wants_versioned(max_version)
        if not versioned:
            self.refuse_legacy()
        raw = self.make(versioned, copy is True)
        return capsule(ctypes.addressof(raw), self.names[versioned], self.destructor)


@right
class Floats(Tensor):
    pass


@right
class ReadOnlyFloats(Tensor):
    readonly = True


@right
class NoFloats(Tensor):
    shape = (0, 3)


@right
class ScalarFloat(Tensor):
    shape = ()

    def tensor(self, raw: DLTensor) -> None:
        raw.shape = raw.strides = None


class OnGpu(Tensor):
    device = CUDA

    def pointer(self, memory: Any) -> int | None:
        return GPU_POINTER + 4096 * (memory is not self.memory)

    def check_stream(self, stream: int | None) -> None:
        if stream is not None and (stream < -1 or stream == 0):
            raise ValueError("no stream")


@right
class CudaFloats(OnGpu):
    pass


@right
class RocmFloats(OnGpu):
    device = ROCM

    def check_stream(self, stream: int | None) -> None:
        if stream is not None and (stream < -1 or stream in (1, 2)):
            raise ValueError("no stream")


# ---- wrong ones: calls


@breaks("dlpack-methods", "__dlpack__ has __dlpack_device__ beside it")
class NoDeviceMethod(Tensor):
    __dlpack_device__ = None  # type: ignore[assignment]


@breaks("dlpack-raises", "__dlpack__ can be called without arguments")
class NeedsStream(Tensor):
    def __dlpack__(self, *, stream: Any, max_version: Any = None, dl_device: Any = None, copy: Any = None) -> Any:
        return super().__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def check_stream(self, stream: int | None) -> None:
        pass


@breaks("dlpack-error-kind", "an array that can't be exported raises BufferError")
class RaisesAnother(Tensor):
    def refuse_legacy(self) -> None:
        raise ValueError("no old ones")


@breaks("dlpack-keywords", "max_version, dl_device and copy are keywords, too")
class OfBefore(Tensor):
    def __dlpack__(self, *, stream: Any = None) -> Any:  # type: ignore[override]
        return super().__dlpack__(stream=stream)


@breaks("dlpack-keywords", "dl_device and copy are keywords since 2023")
class OfTheFirstVersion(Tensor):
    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:  # type: ignore[override]
        return super().__dlpack__(stream=stream, max_version=max_version)


@breaks("dlpack-versioned", "a request for 1.0 or later gives a versioned tensor")
class OldAlthoughAsked(Tensor):
    def wants_versioned(self, max_version: tuple[int, int] | None) -> bool:
        return False


@breaks("dlpack-device-result", "__dlpack_device__ gives a tuple of two integers")
class DeviceByName(Tensor):
    def __dlpack_device__(self) -> Any:
        return "cpu"


@breaks("dlpack-device-result", "__dlpack_device__ can be called")
class DeviceFails(Tensor):
    def __dlpack_device__(self) -> Any:
        raise RuntimeError("unknown yet")


@breaks("dlpack-device-number", "the first of them is one of DLDeviceType")
class DeviceOfNoKind(OnGpu):
    device = (5, 0)


@breaks("dlpack-device-differs", "the tensor is where __dlpack_device__ says")
class ElsewhereThanSaid(OnGpu):
    def tensor(self, raw: DLTensor) -> None:
        raw.device_id = 1


@breaks("dlpack-device-id", "there is one CPU, and it is number 0")
class SecondCpu(Tensor):
    device = (1, 1)


@breaks("dlpack-capsule-type", "__dlpack__ gives a PyCapsule")
class GivesAnAddress(Tensor):
    def __dlpack__(self, **keywords: Any) -> Any:
        return ctypes.addressof(self.memory)


@breaks("dlpack-capsule-name", "it is named dltensor")
class NamedDLTensor(Tensor):
    names = (b"DLTensor", b"DLTensor_versioned")


@breaks("dlpack-max-version", "without max_version the tensor is unversioned")
class AlwaysVersioned(Tensor):
    def wants_versioned(self, max_version: tuple[int, int] | None) -> bool:
        return True


@breaks("dlpack-max-version", "below 1.0 there are unversioned tensors only")
class VersionedForOldOnes(Tensor):
    def wants_versioned(self, max_version: tuple[int, int] | None) -> bool:
        return max_version is not None


@breaks("dlpack-version", "a versioned tensor's version is at least 1.0")
class VersionZero(Tensor):
    def managed(self, raw: Any) -> None:
        if isinstance(raw, Versioned):
            raw.major = 0


# ---- wrong ones: the tensor


@breaks("dlpack-ndim", "ndim is not negative")
class NegativeDimensions(Tensor):
    def tensor(self, raw: DLTensor) -> None:
        raw.ndim = -1


@breaks("dlpack-shape", "shape is there where there are dimensions")
class NoShape(Tensor):
    def tensor(self, raw: DLTensor) -> None:
        raw.shape = None


@breaks("dlpack-shape", "shape is not negative")
class NegativeShape(Tensor):
    shape = (2, -3)


@breaks("dlpack-shape", "the tensor has a size")
class OverflowingShape(Tensor):
    shape = (1 << 40, 1 << 40)


@breaks("dlpack-struct-memory", "shape points to ndim integers")
class ShapeInTheNullPage(Tensor):
    def tensor(self, raw: DLTensor) -> None:
        raw.shape = 16


@breaks("dlpack-strides-null", "strides are not null since 1.2")
class NoStrides(Tensor):
    def tensor(self, raw: DLTensor) -> None:
        raw.strides = None


@breaks("dlpack-strides-null-before", "before 1.2 strides may be null, and better aren't")
class NoStridesInOne(Tensor):
    def tensor(self, raw: DLTensor) -> None:
        raw.strides = None

    def managed(self, raw: Any) -> None:
        if isinstance(raw, Versioned):
            raw.minor = 0


@breaks("dlpack-zero-size", "a tensor of size zero has a null pointer")
class SomewhereForNothing(Tensor):
    shape = (0, 3)

    def pointer(self, memory: Any) -> int | None:
        return ctypes.addressof(memory)


@breaks("dlpack-dtype", "floats have 16 bits or more")
class FloatOfEightBits(Tensor):
    def tensor(self, raw: DLTensor) -> None:
        raw.bits = 8


@breaks("dlpack-dtype", "there is at least one lane")
class NoLanes(Tensor):
    def tensor(self, raw: DLTensor) -> None:
        raw.lanes = 0


@breaks("dlpack-null-data", "data is null only for size zero")
class NoData(Tensor):
    def tensor(self, raw: DLTensor) -> None:
        raw.data = None


@breaks("dlpack-extent", "data, byte_offset and strides lead to addresses")
class OffsetBeyondMemory(OnGpu):
    def tensor(self, raw: DLTensor) -> None:
        raw.byte_offset = (1 << 64) - 1


@breaks("dlpack-memory", "memory of the CPU is the CPU's to read")
class DataInTheNullPage(Tensor):
    def pointer(self, memory: Any) -> int | None:
        return 64 if memory is self.memory else ctypes.addressof(memory)


@breaks("dlpack-flags", "flags are three bits")
class FlagOfTheFuture(Tensor):
    def flags(self, copied: bool) -> int:
        return super().flags(copied) | 64


@breaks("dlpack-flags", "only a type below a byte is padded")
class PaddedFloats(Tensor):
    def flags(self, copied: bool) -> int:
        return super().flags(copied) | PADDED


# ---- wrong ones: copies, devices, streams


@breaks("dlpack-copy-true", "copy=True copies")
class NeverCopies(Tensor):
    def copy_of(self, memory: Any) -> Any:
        return memory


@breaks("dlpack-copy-true", "a copy can be had, or BufferError is raised")
class RefusesCopies(Tensor):
    def copy_of(self, memory: Any) -> Any:
        raise ValueError("no copies")


@breaks("dlpack-copy-false", "copy=False gives the memory itself")
class CopiesInSecret(Tensor):
    secret = False

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        self.secret = copy is False
        return super().__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def pointer(self, memory: Any) -> int | None:
        if self.secret:
            self.other = self.copy_of(memory)
            return ctypes.addressof(self.other)
        return ctypes.addressof(memory)


@breaks("dlpack-copied-flag", "a copy is said to be one")
class CopiesInSilence(Tensor):
    def flags(self, copied: bool) -> int:
        return 0


@breaks("dlpack-copied-flag", "what shares its memory isn't said to be a copy")
class SaysItCopied(Tensor):
    def flags(self, copied: bool) -> int:
        return COPIED

    def make(self, versioned: bool, copy: bool) -> Any:
        return super().make(versioned, copy)

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        if copy is False:
            raise BufferError
        return super().__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)


@breaks("dlpack-copy-false", "copy=False never copies")
class CopiesAnyway(Tensor):
    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        return super().__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device, copy=True if copy is False else copy
        )


@breaks("dlpack-copy-false", "where there must be a copy, copy=False raises BufferError")
class RaisesValueError(Tensor):
    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        if copy is False:
            raise ValueError("can't")
        return super().__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)


@breaks("dlpack-dl-device", "a tensor is on the device that was asked for, or not given")
class IgnoresDevice(Tensor):
    def refuse_device(self, device: Any) -> None:
        pass


@breaks("dlpack-dl-device", "a tensor is on the device that was asked for, its own too")
class MovesAway(OnGpu):
    asked = False

    def refuse_device(self, device: Any) -> None:
        super().refuse_device(device)
        self.asked = device is not None

    def tensor(self, raw: DLTensor) -> None:
        raw.device_id = int(self.asked)


@breaks("dlpack-dl-device-own", "its own device can be asked for")
class RefusesItsDevice(Tensor):
    def refuse_device(self, device: Any) -> None:
        if device is not None:
            raise BufferError


@breaks("dlpack-dl-device-error", "a device that isn't available raises BufferError")
class NoSuchDevice(Tensor):
    def refuse_device(self, device: Any) -> None:
        if device not in (None, self.device):
            raise ValueError("no such device")


@breaks("dlpack-stream-cpu", "for the CPU, stream is None")
class StreamsOfTheCpu(Tensor):
    def check_stream(self, stream: int | None) -> None:
        pass


@breaks("dlpack-stream-zero", "stream 0 is ambiguous for CUDA")
class TakesStreamZero(OnGpu):
    def check_stream(self, stream: int | None) -> None:
        if stream is not None and stream < -1:
            raise ValueError


@breaks("dlpack-stream-zero", "streams 1 and 2 are CUDA's, not ROCm's")
class TakesCudasStreams(OnGpu):
    device = ROCM

    def check_stream(self, stream: int | None) -> None:
        if stream is not None and stream < -1:
            raise ValueError


@breaks("dlpack-stream-negative", "-1 is the only negative one")
class TakesNegativeStreams(OnGpu):
    def check_stream(self, stream: int | None) -> None:
        if stream == 0:
            raise ValueError


@breaks("dlpack-stream-taken", "-1 asks for no synchronisation, and is taken")
class RefusesMinusOne(OnGpu):
    def check_stream(self, stream: int | None) -> None:
        if stream is not None and stream <= 0:
            raise ValueError


@breaks("dlpack-legacy-readonly", "an unversioned tensor can't say that it is read-only")
class LaundersByAge(Tensor):
    readonly = True

    def refuse_legacy(self) -> None:
        pass


# ---- wrong ones: capsules and lifetime


@breaks("dlpack-capsule-leaks", "the destructor of an unused capsule calls the deleter")
class Leaks(Tensor):
    destructor = leak


@breaks("dlpack-capsule-leaks", "and calls it once")
class DeletesTwice(Tensor):
    destructor = destroy_twice


@breaks("dlpack-capsule-shared", "a capsule is used once, so each call makes its own")
class SameCapsule(Tensor):
    def __init__(self) -> None:
        super().__init__()
        self.made: dict[bool, Any] = {}

    def __dlpack__(self, **keywords: Any) -> Any:
        versioned = self.wants_versioned(keywords.get("max_version"))
        if versioned not in self.made:
            self.made[versioned] = super().__dlpack__(**keywords)
        return self.made[versioned]


@breaks("dlpack-capsule-deletes-used", "the destructor of a used capsule doesn't")
class DeletesUsed(Tensor):
    destructor = destroy_used


@breaks("dlpack-lifetime", "the deleter ends the memory's life, not the object's end", once=False)
class DiesWithTheObject(Tensor):
    def __del__(self) -> None:
        ctypes.memset(self.memory, 0xFF, ctypes.sizeof(self.memory))


# ---- the C exchange API

FromPy = ctypes.PYFUNCTYPE(c_int, ctypes.py_object, c_void_p)
ToPy = ctypes.PYFUNCTYPE(c_int, c_void_p, c_void_p)
WorkStream = ctypes.PYFUNCTYPE(c_int, c_int32, c_int32, c_void_p)
Allocator = ctypes.PYFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p)


class Exchange(ctypes.Structure):
    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("prev_api", c_void_p),
        ("allocator", c_void_p),
        ("from_py", c_void_p),
        ("to_py", c_void_p),
        ("borrow", c_void_p),
        ("stream", c_void_p),
    )


FOREVER: list[Any] = []


def _store(out: int, address: int | None) -> None:
    c_void_p.from_address(out).value = address


def _from_py(thing: Any, out: int) -> int:
    _store(out, ctypes.addressof(thing.make(True, False)))
    return 0


def _to_py(kind: type) -> Any:
    def to_py(managed: int, out: int) -> int:
        _delete(managed)
        made = kind()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
        _store(out, id(made))
        return 0

    return to_py


def _borrow(thing: Any, out: int) -> int:
    raw = thing.make(True, False)
    FOREVER.append(raw)
    ctypes.memmove(out, ctypes.addressof(raw.dl_tensor), ctypes.sizeof(DLTensor))
    return 0


def _stream(kind: int, number: int, out: int) -> int:
    _store(out, None)
    return 0


def _allocate(prototype: int, out: int, context: int | None, tell: int | None) -> int:
    wanted = DLTensor.from_address(prototype)

    class New(Tensor):
        shape = tuple((c_int64 * wanted.ndim).from_address(wanted.shape))

    _store(out, ctypes.addressof(New().make(True, False)))
    return 0


def exchange(kind: Any, *, name: bytes = b"dlpack_exchange_api", on_type: bool = True, **other: Any) -> Any:
    """`kind` with the table; `other` replaces functions, and the version."""
    functions: dict[str, Any] = {
        "allocator": Allocator(other.pop("allocator", _allocate)),
        "from_py": FromPy(other.pop("from_py", _from_py)),
        "to_py": ToPy(other.pop("to_py", _to_py(kind))),
        "borrow": FromPy(other.pop("borrow", _borrow)),
        "stream": WorkStream(other.pop("stream", _stream)),
    }
    table = Exchange(major=1, minor=3, **{key: ctypes.cast(value, c_void_p) for key, value in functions.items()})
    if "null" in other:
        setattr(table, other["null"], None)
    table.major, table.minor = other.get("major", 1), other.get("minor", 3)
    kept = c_char_p(name)
    FOREVER.append((functions, table, kept))
    made = other.get("value", capsule(ctypes.addressof(table), name, None))
    if on_type:
        kind.__dlpack_c_exchange_api__ = made
    else:
        kind.__init__ = lambda self: (Tensor.__init__(self), setattr(self, "__dlpack_c_exchange_api__", made))[0]
    return kind


def _subject() -> Any:
    class Subject(Tensor):
        pass

    return Subject


right(exchange(_subject()))
right(exchange(_subject(), major=1, minor=4))


def _elsewhere(thing: Any, out: int) -> int:
    return _from_py(Floats(), out)


def _borrow_other(thing: Any, out: int) -> int:
    return _borrow(NoFloats(), out)


def _busy_stream(kind: int, number: int, out: int) -> int:
    _store(out, 4096)
    return 0


def _silent_failure(*_: Any) -> int:
    return -1


def _reported_failure(prototype: int, out: int, context: int | None, tell: int | None) -> int:
    text = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)(tell or 0)
    text(context, b"BufferError", b"a null pointer to elements")
    return -1


def _keeps_failing(managed: int, out: int) -> int:
    _delete(managed)
    return -1


def _allocate_flat(prototype: int, out: int, context: int | None, tell: int | None) -> int:
    _store(out, ctypes.addressof(NoFloats().make(True, False)))
    return 0


def _gives(kind: Any, **members: int) -> Any:
    """The tensor with something changed."""

    def from_py(thing: Any, out: int) -> int:
        raw = (kind() if kind is not None else thing).make(True, False)
        for name, value in members.items():
            setattr(raw.dl_tensor, name, value)
        _store(out, ctypes.addressof(raw))
        return 0

    return from_py


breaks("exchange-on-type", "the table is an attribute of the type")(exchange(_subject(), on_type=False))
breaks("exchange-capsule", "its capsule is named dlpack_exchange_api")(exchange(_subject(), name=b"dlpack"))
breaks("exchange-capsule", "it is a PyCapsule")(exchange(_subject(), value=4096))
breaks("exchange-version", "the table is of version 1.3 or later")(exchange(_subject(), minor=1))
breaks("exchange-functions", "current_work_stream isn't null")(exchange(_subject(), null="stream"))
breaks("exchange-tensor", "it exports the object that it is given")(exchange(_subject(), from_py=_elsewhere))
breaks("exchange-dltensor", "it shows the object that it is given")(exchange(_subject(), borrow=_borrow_other))
breaks("exchange-stream", "the CPU has no stream to give")(exchange(_subject(), stream=_busy_stream))
breaks("exchange-allocator", "what fails tells the error")(exchange(_subject(), allocator=_silent_failure))
breaks("exchange-allocator", "two by three floats can be had")(exchange(_subject(), allocator=_reported_failure))
breaks("exchange-tensor", "a failure has an exception")(exchange(_subject(), from_py=_silent_failure))
breaks("exchange-tensor", "it gives a tensor that can be used")(exchange(_subject(), from_py=_gives(NoFloats, ndim=-1)))
breaks("exchange-tensor", "it gives the tensor's device")(exchange(_subject(), from_py=_gives(None, device_type=3)))
breaks("exchange-dltensor", "a failure has an exception")(exchange(_subject(), borrow=_silent_failure))
breaks("exchange-allocator", "the tensor has the shape of its prototype")(
    exchange(_subject(), allocator=_allocate_flat)
)
breaks("exchange-to-object", "a failure has an exception")(exchange(_subject(), to_py=_keeps_failing))
breaks("exchange-to-object", "it gives an object of the library's type")(exchange(_subject(), to_py=_to_py(dict)))


# ---- dictionaries


class Dictionary:
    """`__cuda_array_interface__` of two by three floats, which nobody may look at."""

    pointer, shape, strides, readonly = GPU_POINTER, (2, 3), None, False
    more: ClassVar[dict[str, Any]] = {}
    without: tuple[str, ...] = ()

    @property
    def __cuda_array_interface__(self) -> Any:
        interface = {
            "shape": self.shape,
            "typestr": "<f4",
            "data": (self.pointer, self.readonly),
            "version": 3,
            "strides": self.strides,
            "stream": None,
            **self.more,
        }
        return {key: value for key, value in interface.items() if key not in self.without}


def cai(**changed: Any) -> Any:
    """A dictionary that differs in these entries."""
    return type("Changed", (Dictionary,), {"more": changed})


class ArrayInterface:
    """`__array_interface__` of two by three floats."""

    more: ClassVar[dict[str, Any]] = {}
    without: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.memory = (c_float * 6)(0, 1, 2, 3, 4, 5)

    @property
    def __array_interface__(self) -> Any:
        data = (ctypes.addressof(self.memory), False)
        interface = {"shape": (2, 3), "typestr": "<f4", "data": data, "version": 3, **self.more}
        return {key: value for key, value in interface.items() if key not in self.without}


def npy(**changed: Any) -> Any:
    return type("Changed", (ArrayInterface,), {"more": changed})


_STRUCTURED = [("a", "<i4"), ("b", "<f4", (2,))]
for _changed in (
    {},
    {"strides": (24, 4)},
    {"strides": (-12, 4), "data": (GPU_POINTER + 12, True)},
    {"shape": (0, 3), "data": (0, False)},
    {"stream": 1},
    {"stream": 0x55550000},
    {"shape": (6,), "mask": cai(shape=(6,), typestr="|b1")()},
    {"typestr": "|V12", "descr": _STRUCTURED},
    {"version": 1, "strides": (12, 4)},
    {"version": 0, "shape": (0,), "data": (GPU_POINTER, False)},
    {"descr": [("", "<f4")]},
    {"typestr": ">f4"},
    {"typestr": "<M8[ns]"},
):
    right(cai(**_changed))
right(ArrayInterface)
right(npy(strides=(12, 4), descr=[("", "<f4")]))


@right
class OverABuffer(ArrayInterface):
    more: ClassVar[dict[str, Any]] = {"data": bytearray(24)}


for _rule, _says, _changed in (
    ("cai-shape", "shape is a tuple", {"shape": [2, 3]}),
    ("cai-shape", "shape isn't negative", {"shape": (2, -3)}),
    ("cai-shape", "the array has a size", {"shape": (1 << 40, 1 << 40)}),
    ("cai-typestr", "typestr has a byte order", {"typestr": "f4"}),
    ("cai-typestr", "typestr has a size that exists", {"typestr": "<f5"}),
    ("cai-typestr", "Python objects can't be in memory of a GPU", {"typestr": "|O8"}),
    ("cai-typestr", "a size above one byte has an order", {"typestr": "|f4"}),
    ("cai-typestr", "the order of bytes is said, and not 'native'", {"typestr": "=f4"}),
    ("cai-data", "the read-only flag is a bool", {"data": (GPU_POINTER, 0)}),
    ("cai-data", "the pointer is an integer", {"data": (None, False)}),
    ("cai-data", "the pointer isn't negative", {"data": (-8, False)}),
    ("cai-version", "there is no version 4", {"version": 4}),
    ("cai-version", "version is an integer", {"version": "3"}),
    ("cai-strides", "strides are integers", {"strides": (24, 4.0)}),
    ("cai-strides", "there are as many strides as dimensions", {"strides": (4,)}),
    ("cai-strides-contiguous", "strides in C order are not given", {"strides": (12, 4)}),
    ("cai-zero-size", "the pointer is 0 for size zero", {"shape": (0, 3)}),
    ("cai-null-pointer", "the pointer is 0 only for size zero", {"data": (0, False)}),
    ("cai-extent", "strides lead to addresses", {"strides": (-(1 << 62), 4)}),
    ("cai-stream-zero", "stream 0 is disallowed", {"stream": 0}),
    ("cai-stream", "stream is an integer", {"stream": "legacy"}),
    ("cai-stream", "a stream isn't negative", {"stream": -1}),
    ("cai-descr", "descr has the size of typestr", {"typestr": "|V8", "descr": _STRUCTURED}),
    ("cai-descr", "descr is a list of tuples", {"typestr": "|V12", "descr": "a, b"}),
    ("cai-descr", "descr says what typestr says", {"descr": [("", "<i4")]}),
    ("cai-descr", "fields are those of a structured type", {"typestr": "<f8", "descr": [("a", "<f4"), ("b", "<f4")]}),
    ("cai-mask", "the mask has a type", {"mask": cai(shape=(2, 3), typestr="b1")()}),
    ("cai-mask", "mask exports the interface", {"mask": [True] * 6}),
    ("cai-mask", "mask has the array's shape", {"mask": cai(shape=(4,), typestr="|b1")()}),
):
    breaks(_rule, _says)(cai(**_changed))


@breaks("cai-missing", "version is one of the four that must be there")
class WithoutVersion(Dictionary):
    without = ("version",)


@breaks("cai-dict", "the attribute is a dict, not a method")
class ByMethod:
    def __cuda_array_interface__(self) -> Any:
        return {}


@breaks("cai-raises", "the attribute can be read")
class RaisesHalfWay:
    @property
    def __cuda_array_interface__(self) -> Any:
        raise RuntimeError("no GPU today")


for _rule, _says, _changed in (
    ("array-shape", "shape is a tuple of integers", {"shape": (2.0, 3)}),
    ("array-typestr", "typestr is a string", {"typestr": 4}),
    ("array-data", "data is a tuple of two, or a buffer", {"data": 4096}),
    ("array-version", "version is 3", {"version": 2}),
    ("array-strides", "there are as many strides as dimensions", {"strides": (4,)}),
    ("array-null-pointer", "the pointer is 0 only for size zero", {"data": (0, False)}),
    ("array-extent", "strides lead to addresses", {"strides": (-(1 << 62), 4)}),
    ("array-memory", "the memory is there", {"data": (64, False)}),
    ("array-descr", "descr has the size of typestr", {"descr": [("", "<f8")]}),
    ("array-mask", "mask has the array's shape", {"mask": npy(shape=(5,), typestr="|b1")()}),
):
    breaks(_rule, _says)(npy(**_changed))


@breaks("array-raises", "the attribute can be read")
class RaisesOnTheHost:
    @property
    def __array_interface__(self) -> Any:
        raise RuntimeError("no array today")


@breaks("array-missing", "typestr must be there")
class WithoutType(ArrayInterface):
    without = ("typestr",)


@breaks("array-dict", "the attribute is a dict")
class ListOfPairs:
    __array_interface__: ClassVar[Any] = [("version", 3)]


# ---- every protocol


class NoNumber(int):
    """One whose own code fails wherever it is looked at."""

    def __repr__(self, *_: object) -> str:
        raise ZeroDivisionError("looked at")

    __eq__ = __lt__ = __str__ = __index__ = __repr__  # type: ignore[assignment]
    __hash__ = int.__hash__


class NoTuple(tuple[Any, ...]):
    def __iter__(self, *_: object) -> Any:
        raise ZeroDivisionError("gone through")

    __len__ = __getitem__ = __iter__  # type: ignore[assignment]


class ShapeOfNoNumbers(ArrayInterface):
    more: ClassVar[dict[str, Any]] = {"shape": (NoNumber(2), 3)}


class ShapeOfNoTuple(ArrayInterface):
    more: ClassVar[dict[str, Any]] = {"shape": NoTuple((2, 3))}


breaks("values-raise", "numbers can be compared")(ShapeOfNoNumbers)
breaks("values-raise", "tuples can be gone through")(ShapeOfNoTuple)
breaks("values-raise", "and so it is on a GPU")(cai(shape=(NoNumber(2), 3)))


# ---- several protocols


class Both(Tensor):
    """DLPack, and the NumPy array interface beside it."""

    @property
    def __array_interface__(self) -> Any:
        data = (self.pointer(self.memory), self.readonly)
        return {"shape": self.shape, "typestr": "<f4", "data": data, "version": 3, **self.changed()}

    def changed(self) -> dict[str, Any]:
        return {}


@right
class BothWays(Both):
    pass


@right
class BothWaysReadOnly(Both):
    readonly = True


@breaks("across-readonly", "what DLPack says is read-only isn't writable elsewhere")
class LaundersByDictionary(Both):
    readonly = True

    def changed(self) -> dict[str, Any]:
        return {"data": (self.pointer(self.memory), False)}


@breaks("across-readonly", "what the dictionary says is read-only isn't writable elsewhere")
class LaundersByDLPack(Both):
    def changed(self) -> dict[str, Any]:
        return {"data": (self.pointer(self.memory), True)}


@breaks("across-shape", "all protocols have the same shape")
class FlatInOne(Both):
    def changed(self) -> dict[str, Any]:
        return {"shape": (6,)}


@breaks("across-strides", "all protocols have the same strides")
class BackwardsInOne(Both):
    def changed(self) -> dict[str, Any]:
        return {"strides": (4, 8)}


@breaks("across-itemsize", "all protocols have the same type")
class HalfInOne(Both):
    def changed(self) -> dict[str, Any]:
        return {"typestr": "<f2", "strides": (12, 4)}


@breaks("across-device", "memory of a GPU is not for the protocols of the CPU")
class OnBothSides(Both):
    device = CUDA

    def check_stream(self, stream: int | None) -> None:
        if stream is not None and (stream < -1 or stream == 0):
            raise ValueError


@breaks("across-pointer", "all protocols export the same memory")
class OtherMemory(Both):
    def __init__(self) -> None:
        super().__init__()
        self.other = (c_float * 6)()

    def changed(self) -> dict[str, Any]:
        return {"data": (ctypes.addressof(self.other), False)}


class Gpu(OnGpu):
    @property
    def __cuda_array_interface__(self) -> Any:
        return {"shape": (2, 3), "typestr": "<f4", "data": (GPU_POINTER, self.cai_readonly), "version": 3}

    cai_readonly = False


@right
class GpuBothWays(Gpu):
    pass


@breaks("across-readonly", "what the CUDA Array Interface says is read-only isn't writable elsewhere")
class LaundersGpuMemory(Gpu):
    cai_readonly = True
