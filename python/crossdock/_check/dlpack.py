"""Checks DLPack's `__dlpack__` and `__dlpack_device__`, in all their call forms."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from math import prod
from typing import Any

from crossdock._check import abi, capsule, memory
from crossdock._check.checker import Checker, View, attribute, collect, contiguous, described, formatted
from crossdock._text import quoted

READ_ONLY, COPIED, PADDED = 1, 2, 4
ASKED = (1, 3)
MOST_DIMENSIONS = 64
# A device that no exporter has. The exporter must raise BufferError for it.
NOWHERE = (abi.EXT_DEV, 255)

_LEGACY, _VERSIONED = b"dltensor", b"dltensor_versioned"
_INT, _UINT, _FLOAT, _OPAQUE, _BFLOAT, _COMPLEX, _BOOL = range(7)
_BITS = {
    _INT: (1, 2, 4, 8, 16, 32, 64, 128),
    _UINT: (1, 2, 4, 8, 16, 32, 64, 128),
    _FLOAT: (16, 32, 64, 80, 96, 128),
    _BFLOAT: (16,),
    _COMPLEX: (32, 64, 128, 160, 192, 256),
    _BOOL: (8,),
    **dict.fromkeys(range(7, 15), (8,)),
    15: (6,),
    16: (6,),
    17: (4,),
}
_LAST_CODE = 17
Device = tuple[int, int]


@dataclass
class Tensor:
    """A DLTensor that was checked and can be read."""

    device: Device
    view: View | None
    """None if the size of an element isn't a whole number of bytes, or if a member is wrong."""


def examine(checker: Checker, tensor: abi.DLTensor, version: tuple[int, int] | None, flags: int) -> Tensor | None:
    """Checks the members of a DLTensor. Returns None if it can't be used."""
    device = (tensor.device_type, tensor.device_id)
    before = checker.errors
    if device[0] not in abi.DEVICES:
        checker.add("dlpack-device-number", f"device type {device[0]} isn't in the specification")
    if device[0] in (abi.CPU, abi.CUDA_HOST, abi.CUDA_MANAGED) and device[1]:
        checker.add("dlpack-device-id", f"device_id is {device[1]} for {abi.DEVICES[device[0]]}, which has 0 alone")
    width = tensor.bits * tensor.lanes
    if tensor.code > _LAST_CODE or tensor.lanes == 0 or tensor.bits == 0:
        checker.add("dlpack-dtype", f"code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes is not a type")
    elif tensor.code != _OPAQUE and tensor.bits not in _BITS[tensor.code]:
        checker.add("dlpack-dtype", f"code {tensor.code} has no type of {tensor.bits} bits")
    if flags & PADDED and not (tensor.bits < 8):
        checker.add("dlpack-flags", f"the flag for padded sub-byte types is set for one of {tensor.bits} bits")
    if not 0 <= tensor.ndim <= MOST_DIMENSIONS:
        checker.add("dlpack-ndim", f"ndim is {tensor.ndim}; it must be 0 to {MOST_DIMENSIONS}")
        return None  # The length of shape and strides isn't known.
    shape: list[int] | None = []
    strides: list[int] | None = []
    if tensor.ndim:
        if not tensor.shape:
            checker.add("dlpack-shape", f"shape is null for ndim {tensor.ndim}")
        else:
            shape = memory.integers(tensor.shape, tensor.ndim)
        if not tensor.strides:
            known = "unversioned" if version is None else f"{version[0]}.{version[1]}"
            late = version is not None and version >= (1, 2)
            checker.add(
                "dlpack-strides-null" if late else "dlpack-strides-null-before",
                f"strides are null for ndim {tensor.ndim} in a tensor of version {known}",
            )
        else:
            strides = memory.integers(tensor.strides, tensor.ndim)
        for which, numbers in (("shape", shape), ("strides", strides)):
            if numbers is None:
                checker.add(
                    "dlpack-struct-memory", f"{which} can't be read; expected {tensor.ndim} integers of 64 bits"
                )
        if shape and min(shape) < 0:
            checker.add("dlpack-shape", f"shape {tuple(shape)} is negative")
            return None
        if not shape or strides is None:
            return None
    count = prod(tuple(shape or ()))
    if count * max(width, 1) // 8 >= 1 << 63:
        checker.add("dlpack-shape", f"shape {tuple(shape or ())} of {width} bits is more than 2^63 bytes")
        return None
    if count and not tensor.data:
        checker.add("dlpack-null-data", f"data is null for {count} elements")
    if not count and tensor.data:
        checker.add("dlpack-zero-size", "data isn't null for a tensor without elements")
    if width % 8 or checker.errors != before:
        return Tensor(device, None)
    itemsize = width // 8
    given = tuple(shape or ())
    steps = tuple(one * itemsize for one in strides) if strides else contiguous(given, itemsize)
    view = View(
        checker.protocol,
        (tensor.data or 0) + tensor.byte_offset,
        given,
        steps,
        itemsize,
        None if version is None else bool(flags & READ_ONLY),
        bool(flags & COPIED),
        device[0],
    )
    start, end = view.extent()
    if count and not 0 < start < end <= 1 << 64:
        checker.add("dlpack-extent", f"elements lie from {start:#x} to {end:#x} by strides {steps} and offset")
        return Tensor(device, None)
    if count and view.on_host and (memory.read(start, 1) is None or memory.read(end - 1, 1) is None):
        checker.add("dlpack-memory", f"{start:#x} to {end:#x} should be memory of the CPU, but can't be read")
    return Tensor(device, view)


class Export:
    """One capsule that `__dlpack__` returned."""

    def __init__(self, checker: Checker, given: object) -> None:
        """Checks the capsule and its content. `tensor` is None if the content can't be used."""
        self._j = checker
        self.tensor: Tensor | None = None
        self.version: tuple[int, int] | None = None
        self.flags = 0
        self.name: bytes | None = None
        self._capsule: object = given
        self._address = self._deleter = 0
        if not capsule.is_capsule(given):
            checker.add("dlpack-capsule-type", f"__dlpack__ gave {type(given).__name__}, not a PyCapsule")
            return
        name = capsule.name_of(given)
        if name not in (_LEGACY, _VERSIONED):
            checker.add("dlpack-capsule-name", f"the capsule is named {quoted(name)}")
            return
        self._address = capsule.pointer_of(given)
        self._struct = abi.DLManagedTensor if name == _LEGACY else abi.DLManagedTensorVersioned
        managed: Any = memory.load(self._struct, self._address)
        if managed is None:
            checker.add("dlpack-struct-memory", "the structure of the capsule can't be read")
            return
        self.name = name
        self._deleter = managed.deleter or 0
        if self._deleter and not memory.executable(self._deleter):
            checker.add("dlpack-struct-memory", f"the deleter, {self._deleter:#x}, is not a function")
            self._deleter = 0
            memory.store_pointer(self._address + self._struct.deleter.offset, 0)  # The exporter's own call would crash.
        if name == _VERSIONED:
            self.version, self.flags = (managed.major, managed.minor), managed.flags
            if managed.major != 1:
                checker.add("dlpack-version", f"the version is {managed.major}.{managed.minor}; 1.3 was requested")
                return
            if self.flags & ~(READ_ONLY | COPIED | PADDED):
                checker.add("dlpack-flags", f"flags are {self.flags:#x}; only 1, 2 and 4 are defined")
        self.tensor = examine(checker, managed.dl_tensor, self.version, self.flags)

    @property
    def view(self) -> View | None:
        return None if self.tensor is None else self.tensor.view

    def consume(self, *, checked: bool = False) -> None:
        """Consumes the capsule and frees the tensor. The export can't be used afterwards. `checked`: reports a capsule
        that calls the deleter although it was consumed."""
        if self.name is None:
            self._capsule = None
            return
        probe = (
            capsule.CallbackProbe(self._address, self._struct.deleter.offset, frees_itself=True) if checked else None
        )
        capsule.mark_used(self._capsule, self.name)
        self._capsule = None
        if probe is not None and probe.installed:
            if probe.calls:
                self._j.add(
                    "dlpack-capsule-deletes-used", "the deleter was called when the renamed capsule was destroyed"
                )
                return
            probe.remove()
        if self._deleter:
            abi.Release(self._deleter)(self._address)

    @property
    def address(self) -> int:
        return self._address

    def drop(self, *, thoroughly: bool) -> bool:
        """Drops the capsule without consuming it. Returns whether the release of the tensor was observed. The export
        can't be used afterwards."""
        probe = None
        if self._deleter:
            probe = capsule.CallbackProbe(self._address, self._struct.deleter.offset, frees_itself=True)
        self._capsule = None
        if probe is None or not probe.installed:
            return True
        if thoroughly and probe.intact:
            collect()
        if probe.calls > 1:
            self._j.add("dlpack-capsule-leaks", f"the deleter was called {probe.calls} times for one unused capsule")
        return not probe.intact


def device_of(checker: Checker, thing: Any) -> Device | None:
    try:
        given = thing.__dlpack_device__()
    except Exception as error:
        checker.add("dlpack-device-result", f"__dlpack_device__ raised {described(error)}")
        return None
    try:
        if not isinstance(given, tuple):
            raise TypeError
        kind, number = map(operator.index, given)
    except Exception:  # Includes the exceptions of foreign number types.
        checker.add("dlpack-device-result", f"__dlpack_device__ gave {formatted(given)}")
        return None
    if kind not in abi.DEVICES:
        checker.add(
            "dlpack-device-number",
            f"__dlpack_device__ has device type {formatted(kind)}, which isn't in the specification",
        )
    return kind, number


class _SharedError(Exception):
    """Two calls returned the same tensor, so neither can be used."""


class _Exporter:
    """Calls `__dlpack__` in its several forms."""

    def __init__(self, checker: Checker, thing: Any) -> None:
        self.checker, self.thing = checker, thing
        self.held: set[int] = set()
        """The addresses of the exported tensors that weren't consumed yet."""

    def call(self, **keywords: Any) -> Export | Exception:
        try:
            export = Export(self.checker, self.thing.__dlpack__(**keywords))
        except Exception as error:
            return error
        if export.address in self.held:
            raise _SharedError
        return export

    def hold(self, export: Export | Exception) -> None:
        if isinstance(export, Export) and export.name is not None:
            self.held.add(export.address)

    def gives(self, **keywords: Any) -> bool:
        """Returns whether a call with these keywords exports a tensor, which is freed at once."""
        export = self.call(**keywords)
        if isinstance(export, Exception):
            return False
        export.consume()
        return True


def check(checker: Checker) -> None:
    thing: Any = checker.object()
    method, device_method = attribute(thing, "__dlpack__"), attribute(thing, "__dlpack_device__")
    for one in (method, device_method):
        if isinstance(one, Exception):
            checker.add("dlpack-raises", f"reading the attribute raised {described(one)}")
    if isinstance(method, Exception) or isinstance(device_method, Exception):
        if device_method is not None and not isinstance(device_method, Exception):
            device_of(checker, thing)
        return
    has_device = device_method is not None
    if method is None or not has_device:
        missing = "__dlpack__" if has_device else "__dlpack_device__"
        checker.add("dlpack-methods", f"{missing} is missing")
        if has_device:
            device_of(checker, thing)
            return
    device = device_of(checker, thing) if has_device else None
    it = _Exporter(checker, thing)
    try:
        modern = _exports(it, device)
    except _SharedError:
        checker.add("dlpack-capsule-shared", "two calls gave the same tensor, which can be consumed only once")
        return
    del thing, it
    if checker.fresh:
        _lifetime(checker, {"max_version": ASKED} if modern else {})


def _exports(it: _Exporter, device: Device | None) -> bool:
    """Checks all call forms. Returns whether the exporter knows those of DLPack 1.0."""
    checker = it.checker
    plain = it.call()
    it.hold(plain)
    if type(plain) is TypeError:  # Subclasses of TypeError in libraries have another meaning.
        checker.add("dlpack-raises", f"__dlpack__() raised {described(plain)}")
    elif isinstance(plain, Exception) and not isinstance(plain, BufferError):
        checker.add(
            "dlpack-error-kind",
            f"__dlpack__() raised {described(plain)}; expected BufferError for an array that can't be exported",
        )
    elif isinstance(plain, Export) and plain.version is not None:
        checker.add("dlpack-max-version", "__dlpack__() gave a versioned tensor to a consumer that may not know it")
    export = it.call(max_version=ASKED)
    modern = True
    if type(export) is TypeError:
        checker.add("dlpack-keywords", f"__dlpack__(max_version={ASKED}) raised {described(export)}")
        modern, export = False, plain
    elif isinstance(export, Export) and export.name == _LEGACY:
        checker.add("dlpack-versioned", f"__dlpack__(max_version={ASKED}) gave an unversioned tensor")
    elif isinstance(export, Exception) and not isinstance(export, BufferError):
        checker.add("dlpack-error-kind", f"__dlpack__(max_version={ASKED}) raised {described(export)}")
    if export is not plain:
        it.hold(export)
    if isinstance(export, Export) and export.tensor is None and modern:
        _old_versions(it)
        _streams(it, device)
    if isinstance(export, Export) and export.tensor is not None:
        if device is not None and export.tensor.device != device:
            checker.add(
                "dlpack-device-differs",
                f"__dlpack_device__ has {formatted(device)}, but the tensor has {export.tensor.device}",
            )
        if isinstance(plain, Export) and plain.name == _LEGACY and export.flags & READ_ONLY:
            checker.add(
                "dlpack-legacy-readonly", "the versioned tensor is read-only, but an unversioned one can be exported"
            )
        if export.view is not None:
            checker.views.append(export.view)
            if isinstance(plain, Export) and plain.view is not None and plain is not export:
                _same_memory(checker, export.view, plain.view)
        if modern:
            if _knows_keywords(it):
                _copies(it, export)
                if device == export.tensor.device:
                    _devices(it, device)
            _streams(it, device)
            _old_versions(it)
    it.held.clear()
    if isinstance(plain, Export) and plain is not export:
        plain.consume()
    if isinstance(export, Export):
        export.consume(checked=True)
        _unused(it, {"max_version": ASKED} if modern else {})
    if isinstance(plain, Export) and modern:
        _unused(it, {})
    return modern


def _unused(it: _Exporter, keywords: dict[str, Any]) -> None:
    """Checks that capsules that aren't consumed free their tensors."""
    seen: set[int] = set()
    for number in range(capsule.TRIES):
        export = it.call(**keywords)
        if isinstance(export, Exception) or export.address in seen:
            return
        seen.add(export.address)
        if export.drop(thoroughly=number == 0):
            return
    it.checker.add(
        "dlpack-capsule-leaks",
        "the deleter isn't called when an unused capsule is destroyed, and its memory isn't reused",
    )


def _same_memory(checker: Checker, one: View, other: View) -> None:
    if one.size == 0:
        return
    if one.copied and one.pointer == other.pointer:
        checker.add("dlpack-copied-flag", "two exports that are marked as copies share their memory")
    elif not one.copied and one.pointer != other.pointer:
        checker.add("dlpack-copied-flag", "two exports are in different memory, but none is marked as a copy")


def _knows_keywords(it: _Exporter) -> bool:
    export = it.call(stream=None, max_version=ASKED, dl_device=None, copy=None)
    if isinstance(export, Exception):
        it.checker.add("dlpack-keywords", f"with all keywords, __dlpack__ raised {described(export)}")
        return False
    export.consume()
    return True


def _copies(it: _Exporter, shared: Export) -> None:
    checker, view = it.checker, shared.view
    copy = it.call(max_version=ASKED, copy=True)
    if isinstance(copy, Export):
        made = copy.view
        if made is not None and view is not None and view.size and copy.version is not None:
            if made.pointer == view.pointer:
                checker.add("dlpack-copy-true", f"copy=True gave the memory at {made.pointer:#x} again")
            elif not made.copied:
                checker.add("dlpack-copied-flag", "copy=True gave other memory without the flag for copies")
        copy.consume()
    elif not isinstance(copy, BufferError):
        checker.add("dlpack-copy-true", f"copy=True raised {described(copy)}")
    same = it.call(max_version=ASKED, copy=False)
    if isinstance(same, Export):
        kept = same.view
        if same.flags & COPIED:
            checker.add("dlpack-copy-false", "copy=False gave a tensor that is marked as a copy")
        elif kept and view and view.size and not view.copied and kept.pointer != view.pointer:
            checker.add("dlpack-copy-false", f"copy=False gave other memory: {kept.pointer:#x}, not {view.pointer:#x}")
        same.consume()
    elif not isinstance(same, BufferError):
        checker.add(
            "dlpack-copy-false", f"copy=False raised {described(same)}; expected BufferError if a copy is needed"
        )


def _devices(it: _Exporter, device: Device) -> None:
    checker = it.checker
    own = it.call(max_version=ASKED, dl_device=device)
    if isinstance(own, Exception):
        checker.add("dlpack-dl-device-own", f"dl_device={device} raised {described(own)}")
    else:
        if own.tensor is not None and own.tensor.device != device:
            checker.add("dlpack-dl-device", f"dl_device={device} gave a tensor on {own.tensor.device}")
        own.consume()
    if device == NOWHERE:
        return
    other = it.call(max_version=ASKED, dl_device=NOWHERE)
    if isinstance(other, Export):
        if other.tensor is not None and other.tensor.device != NOWHERE:
            checker.add("dlpack-dl-device", f"dl_device={NOWHERE} gave a tensor on {other.tensor.device}")
        other.consume()
    elif not isinstance(other, BufferError):
        checker.add("dlpack-dl-device-error", f"dl_device={NOWHERE} raised {described(other)}, not BufferError")


def _streams(it: _Exporter, device: Device | None) -> None:
    kind = 0 if device is None else device[0]
    cuda, rocm = kind in (abi.CUDA, abi.CUDA_MANAGED), kind == abi.ROCM
    if kind == abi.CPU and it.gives(max_version=ASKED, stream=1):
        it.checker.add("dlpack-stream-cpu", "stream=1 was accepted, but the CPU has no streams")
    if not cuda and not rocm:
        return
    name = abi.DEVICES[kind]
    for stream in (0,) if cuda else (1, 2):
        if it.gives(max_version=ASKED, stream=stream):
            it.checker.add("dlpack-stream-zero", f"stream={stream} was accepted, but is ambiguous for {name}")
    if it.gives(max_version=ASKED, stream=-2):
        it.checker.add("dlpack-stream-negative", "stream=-2 was accepted")
    for stream in (-1, 1, 2) if cuda else (-1, 0):
        if not it.gives(max_version=ASKED, stream=stream):
            it.checker.add("dlpack-stream-taken", f"stream={stream} was refused, but is a stream of {name}")


def _old_versions(it: _Exporter) -> None:
    old = it.call(max_version=(0, 8))
    if isinstance(old, Export):
        if old.version is not None:
            it.checker.add("dlpack-max-version", "max_version=(0, 8) gave a versioned tensor")
        old.consume()


def _lifetime(checker: Checker, keywords: dict[str, Any]) -> None:
    thing: Any = checker.object()
    try:
        given = thing.__dlpack__(**keywords)
    except Exception:
        return  # The error was reported before.
    export = Export(checker, given)
    del given
    view = export.view
    if view is None or not view.on_host or not view.size:
        export.consume()
        return
    start, end = view.extent()
    before = memory.checksum(start, end - start)
    del thing
    collect()
    if memory.checksum(start, end - start) != before:
        checker.add("dlpack-lifetime", "the memory was changed or freed with the object, while the export was held")
    export.consume()
