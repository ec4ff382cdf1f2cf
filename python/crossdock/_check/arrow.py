"""Checks the Arrow PyCapsule methods: capsules, releases, moves, streams and devices."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from crossdock._check import abi, array, capsule, event, memory, schema
from crossdock._check.checker import Checker, attribute, collect, described, formatted
from crossdock._check.schema import Field
from crossdock._text import quoted

SCHEMA, ARRAY, STREAM = "__arrow_c_schema__", "__arrow_c_array__", "__arrow_c_stream__"
DEVICE_ARRAY, DEVICE_STREAM = "__arrow_c_device_array__", "__arrow_c_device_stream__"
MOST_BATCHES = 64  # The most batches of a stream to check.
UNKNOWN = "a_keyword_of_the_future"

_SCHEMA_RELEASE = abi.ArrowSchema.release.offset
_ARRAY_RELEASE = abi.ArrowArray.release.offset
_RELEASE = {
    b"arrow_schema": _SCHEMA_RELEASE,
    b"arrow_array": _ARRAY_RELEASE,
    b"arrow_device_array": _ARRAY_RELEASE,
    b"arrow_array_stream": abi.ArrowArrayStream.release.offset,
    b"arrow_device_array_stream": abi.ArrowDeviceArrayStream.release.offset,
}


class Moved:
    """A structure that was moved out of its place into memory of the checker."""

    def __init__(self, kind: type[ctypes.Structure], address: int, release: int) -> None:
        """Moves the structure at `address`, and marks the source as released. `release` is the callback's offset."""
        raw = memory.read(address, ctypes.sizeof(kind)) or b"\0" * ctypes.sizeof(kind)
        self._memory = ctypes.create_string_buffer(raw, ctypes.sizeof(kind))
        self.address = ctypes.addressof(self._memory)
        self._release = release
        memory.store_pointer(address + release, 0)

    def release(self, checker: Checker, what: str) -> None:
        """Calls the release callback, if there is one."""
        callback = memory.pointer_at(self.address + self._release)
        if not callback or not memory.executable(callback):
            return  # A callback that is no function was reported before.
        abi.Release(callback)(self.address)
        if memory.pointer_at(self.address + self._release):
            checker.add(
                "arrow-release-unmarked",
                f"{what}: release isn't null after it was called, at the address it was moved to",
            )


class _Pair:
    """The result of one call: capsules by their names, each with a readable structure."""

    def __init__(self, checker: Checker, given: object, names: tuple[bytes, ...]) -> None:
        """Checks the capsules. `addresses` is empty if they can't be used. `given`: None if the call has failed."""
        self.addresses: dict[bytes, int] = {}
        self._capsules: list[object] = list(given) if isinstance(given, tuple) and len(names) > 1 else [given]
        if given is None:
            return  # The error was reported before.
        shapes = [type(one).__name__ for one in self._capsules]
        if not all(map(capsule.is_capsule, self._capsules)) or len(self._capsules) != len(names):
            checker.add("arrow-capsule-type", f"it gave {', '.join(shapes)}; expected {len(names)} PyCapsules")
            return
        for one, name in zip(self._capsules, names, strict=True):
            known = capsule.name_of(one)
            if known != name:
                checker.add(
                    "arrow-capsule-name", f"a capsule is named {quoted(known)} instead of {quoted(name.decode())}"
                )
                self.addresses.clear()
                return
            address = capsule.pointer_of(one)
            place = address + _RELEASE[name]
            if schema.defused(checker, place, name.decode(), place):
                self.addresses.clear()
                return
            self.addresses[name] = address

    def drop(self) -> None:
        self._capsules.clear()


def _drop(
    checker: Checker,
    given: list[object | None],
    names: tuple[bytes, ...],
    *,
    held: frozenset[int] = frozenset(),
    thoroughly: bool = False,
) -> dict[bytes, int]:
    """Drops the result of one call without consuming it. Returns the addresses of the structures whose release wasn't
    observed.

    Takes the result out of the list `given`, because a reference in the caller would keep it alive. `held`: addresses
    of structures that another call returned.
    """
    pair = _Pair(checker, given.pop(), names)
    if held & set(pair.addresses.values()):
        checker.add("arrow-capsule-released", "two calls gave the same structure, which can be consumed only once")
        return {}
    probes = {}
    for name, address in pair.addresses.items():
        if memory.pointer_at(address + _RELEASE[name]) == 0:
            checker.add(
                "arrow-capsule-released", f"{name.decode()}: a later call gave a structure that was already used"
            )
        probe = capsule.CallbackProbe(address, _RELEASE[name])
        if probe.installed:
            probes[name] = probe
    addresses = dict(pair.addresses)
    pair.drop()
    if thoroughly and any(probe.intact for probe in probes.values()):
        collect()
    left = {}
    for name, probe in probes.items():
        if probe.intact:
            left[name] = addresses[name]
        elif probe.calls > 1:
            checker.add(
                "arrow-released-twice", f"{name.decode()}: release was called {probe.calls} times for one capsule"
            )
        elif probe.left_unmarked:
            checker.add("arrow-release-unmarked", f"{name.decode()}: release isn't null after it was called")
    return left


def _unused(checker: Checker, call: Callable[[], object | None], names: tuple[bytes, ...]) -> None:
    """Checks capsules that aren't consumed: they must release their structures, once, and release must mark these as
    released."""
    seen: dict[bytes, set[int]] = {name: set() for name in names}
    left: dict[bytes, int] = {}
    for number in range(capsule.TRIES):
        dropped = _drop(checker, [call()], names, thoroughly=number == 0)
        left = {name: address for name, address in dropped.items() if address not in seen[name]}
        if not left:
            return
        for name, address in left.items():
            seen[name].add(address)
    for name in left:
        checker.add("arrow-capsule-leaks", f"{name.decode()}: release isn't called when an unused capsule is destroyed")


def _compare_schema(checker: Checker, known: dict[str, Field], method: str, field: Field) -> None:
    for other, before in known.items():
        if before.comparable() != field.comparable():
            checker.add("arrow-schema-differs", f"{method} has {_short(field)}, but {other} has {_short(before)}")
            return
    known[method] = field


def _short(field: Field, depth: int = 0) -> str:
    shown_children = field.children[:6] if depth < 3 else []
    inside = ", ".join(f"{formatted(child.name)}: {_short(child, depth + 1)}" for child in shown_children)
    more = f" and {len(field.metadata)} metadata" if field.metadata else ""
    return f"{formatted(field.format)[1:-1]}{f'({inside})' if inside else ''}{more}"


class _Examination:
    """Checks all Arrow methods of one object."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.known: dict[str, Field] = {}
        self.lengths: dict[str, int] = {}
        self.addresses: dict[str, set[int]] = {}
        self.device: int | None = None

    # ---- calls

    def call(self, thing: Any, method: str, **keywords: Any) -> object | None:
        given, error = self._tried(thing, method, keywords)
        if error is not None:
            self.refused(method, error)
        return given

    def refused(self, method: str, error: Exception) -> None:
        """Reports the error of a call without special arguments."""
        if type(error) is TypeError:  # Subclasses of TypeError in libraries have another meaning.
            self.checker.add("arrow-raises", f"{method}() raised {described(error)}")
        elif not self._may_refuse(method):
            self.checker.add("arrow-refuses", f"{method}() raised {described(error)}")

    def _consumed(self, method: str, error: Exception) -> None:
        self.checker.add(
            "arrow-stream-consumed", f"{method}() raised {described(error)}, after another stream was read"
        )

    def _may_refuse(self, method: str) -> bool:
        """Returns whether the method is for memory of the CPU, and the object has other memory."""
        return method in (ARRAY, STREAM) and self.device not in (None, abi.CPU)

    def unknown_keywords(self, thing: Any, method: str, *, consumed: bool = False) -> object | None:
        """Calls the method with an unknown keyword, which must fail. Returns the result if it doesn't, so that a stream
        isn't lost."""
        try:
            given: object = getattr(thing, method)(**{UNKNOWN: 1})
        except NotImplementedError:
            return None
        except Exception as error:
            if not consumed:  # A stream that was read before may be the reason.
                self.checker.add("arrow-unknown-keyword", f"{method}({UNKNOWN}=1) raised {described(error)}")
            return None
        self.checker.add("arrow-unknown-keyword", f"{method}({UNKNOWN}=1) was accepted")
        return given

    def requested(
        self, thing: Any, method: str, names: tuple[bytes, ...], wish: object, *, consumed: bool = False
    ) -> object | None:
        keywords: dict[str, Any] = {"requested_schema": wish}
        if names[-1].startswith(b"arrow_device"):
            keywords[UNKNOWN] = None
        given, error = self._tried(thing, method, keywords)
        if UNKNOWN in keywords and error is not None:
            # Finds out which of the two keywords caused the error.
            del keywords[UNKNOWN]
            given, second = self._tried(thing, method, keywords)
            if not consumed and (second is None or type(second) is not type(error)):
                self.checker.add("arrow-unknown-keyword", f"{method}({UNKNOWN}=None) raised {described(error)}")
            error = second
        if error is not None and consumed:
            self._consumed(method, error)
        elif error is not None and not self._may_refuse(method):
            self.checker.add(
                "arrow-requested-schema", f"{method} with its own schema requested raised {described(error)}"
            )
        return given

    def _tried(self, thing: Any, method: str, keywords: dict[str, Any]) -> tuple[object | None, Exception | None]:
        bound = attribute(thing, method)
        if isinstance(bound, Exception):
            self.checker.add("arrow-raises", f"reading {method} raised {described(bound)}")
            return None, None
        try:
            given = bound(**keywords)
        except Exception as error:
            return None, error
        if given is None:
            self.checker.add("arrow-capsule-type", f"{method} gave None")
        return given, None

    # ---- __arrow_c_schema__

    def check_schema(self) -> None:
        checker, names = self.checker, (b"arrow_schema",)
        thing = checker.object()
        pair = _Pair(checker, self.call(thing, SCHEMA), names)
        if not pair.addresses:
            return
        field = schema.examine(checker, pair.addresses[b"arrow_schema"])
        if field is None:
            # The schema isn't consumed. The checks that don't need this are still made.
            pair.drop()
            _unused(checker, lambda: self.call(checker.object(), SCHEMA), names)
            return
        self.known[SCHEMA] = field
        _drop(checker, [self.call(thing, SCHEMA)], names, held=frozenset(pair.addresses.values()))
        moved = Moved(abi.ArrowSchema, pair.addresses[b"arrow_schema"], _SCHEMA_RELEASE)
        pair.drop()
        del thing
        if checker.fresh:
            collect()
        again = schema.examine(Checker(None, None), moved.address)
        if again is None or again.comparable() != field.comparable():
            checker.add(
                "arrow-capsule-releases-moved",
                "the consumed schema was released or changed when its capsule was destroyed",
            )
            return
        probes = self._install_probes(moved.address, abi.ArrowSchema)
        moved.release(checker, "the schema")
        self._check_children(probes, "the schema")
        _unused(checker, lambda: self.call(checker.object(), SCHEMA), names)

    @staticmethod
    def _install_probes(
        address: int, kind: type[abi.ArrowSchema] | type[abi.ArrowArray]
    ) -> dict[str, capsule.CallbackProbe]:
        """Installs probes in the release callbacks of the children and of the dictionary."""
        raw: Any = memory.load(kind, address)
        probes = {}
        places = {
            f"child {index}": child for index, child in enumerate(schema.pointers(raw.children, raw.n_children) or [])
        }
        if raw.dictionary:
            places["the dictionary"] = raw.dictionary
        for what, place in places.items():
            if memory.pointer_at(place + kind.release.offset):
                probe = capsule.CallbackProbe(place, kind.release.offset)
                if probe.installed:
                    probes[what] = probe
        return probes

    def _check_children(self, probes: dict[str, capsule.CallbackProbe], what: str) -> None:
        for which, probe in probes.items():
            if probe.calls == 0:
                self.checker.add("arrow-release-children", f"{what}: releasing it didn't release {which}")
            elif probe.calls > 1:
                self.checker.add("arrow-released-twice", f"{what}: releasing it released {which} {probe.calls} times")
            elif probe.left_unmarked:
                self.checker.add("arrow-release-unmarked", f"{what}: release of {which} isn't null after it was called")

    # ---- __arrow_c_array__ and __arrow_c_device_array__

    def check_array(self, method: str) -> None:
        checker = self.checker
        device = method == DEVICE_ARRAY
        names = (b"arrow_schema", b"arrow_device_array" if device else b"arrow_array")
        thing: Any = checker.object()
        pair = _Pair(checker, self.call(thing, method), names)
        if not pair.addresses:
            return
        field = schema.examine(checker, pair.addresses[names[0]])
        if field is not None:
            _compare_schema(checker, self.known, method, field)
        address = pair.addresses[names[1]]
        on_host = self._device(address) if device else True
        contents = None if field is None else array.examine(checker, address, field, on_host=on_host)
        taken = frozenset(pair.addresses.values())
        if device:
            _drop(checker, [self.unknown_keywords(thing, method)], names, held=taken)
        if field is None or contents is None:
            return  # A structure that can't be traversed isn't consumed.
        self.lengths[method], self.addresses[method] = contents.length, contents.addresses
        wish = self.call(thing, SCHEMA) if SCHEMA in self.known else None
        if wish is None:
            wish = pair._capsules[0]
        _drop(checker, [self.requested(thing, method, names, wish)], names, held=taken)
        del wish
        held = [thing]
        del thing
        if self._moves(pair, field, contents, names[1], held):
            self._children(method, names, field)

    def _device(self, address: int) -> bool:
        """Checks the members of ArrowDeviceArray. Returns whether its buffers may be read."""
        checker = self.checker
        raw = memory.load(abi.ArrowDeviceArray, address)
        if raw is None:
            checker.add("arrow-struct-memory", "the 128 bytes of the ArrowDeviceArray can't be read")
            return False
        self.device = raw.device_type
        if raw.device_type not in abi.DEVICES:
            checker.add("arrow-device-type", f"device_type is {raw.device_type}")
        if any(raw.reserved):
            checker.add("arrow-device-reserved", f"reserved is {list(raw.reserved)}")
        if raw.device_type != abi.CPU:
            if raw.sync_event:
                event.check(checker, raw.device_type, raw.sync_event)
            return False
        if raw.sync_event:
            checker.add("arrow-device-event", f"sync_event is {raw.sync_event:#x} for the CPU, which has none")
        if raw.device_id != -1:
            checker.add("arrow-device-id", f"device_id is {raw.device_id} for the CPU; -1 is recommended")
        return True

    def _moves(self, pair: _Pair, field: Field, contents: array.Contents, name: bytes, held: list[object]) -> bool:
        """Moves the array out of its capsule, drops the capsules, drops the object in `held`, and releases the array.

        Checks that the array is unchanged after each step. Returns False if it changed: then it isn't released, as it
        may have been released already.
        """
        checker = self.checker
        before = contents.checksums()
        kind = abi.ArrowDeviceArray if name == b"arrow_device_array" else abi.ArrowArray
        moved_schema = Moved(abi.ArrowSchema, pair.addresses[b"arrow_schema"], _SCHEMA_RELEASE)
        moved = Moved(kind, pair.addresses[name], _ARRAY_RELEASE)
        pair.drop()
        moved_schema.release(checker, "the schema")
        for rule, gone in (("arrow-capsule-releases-moved", "capsule"), ("arrow-lifetime", "object")):
            again = array.examine(Checker(None, None), moved.address, field, on_host=bool(contents.buffers))
            if again is None or again.addresses != contents.addresses or contents.checksums() != before:
                checker.add(
                    rule, f"the array or its memory was changed or freed with the {gone}, while the array was held"
                )
                return False
            held.clear()
            if checker.fresh:
                collect()
        probes = self._install_probes(moved.address, abi.ArrowArray)
        moved.release(checker, "the array")
        self._check_children(probes, "the array")
        return True

    def _children(self, method: str, names: tuple[bytes, ...], field: Field) -> None:
        """Checks that the first child can be moved out and outlives its parent."""
        checker = self.checker
        if not field.children or field.layout.kind == "run ends":
            _unused(checker, lambda: self.call(checker.object(), method), names)
            return
        pair = _Pair(checker, self.call(checker.object(), method), names)
        if not pair.addresses:
            return
        raw = memory.load(abi.ArrowArray, pair.addresses[names[1]])
        if raw is None or not raw.release:
            checker.add("arrow-capsule-released", f"another call of {method} gave a structure that was already used")
            return
        places = schema.pointers(raw.children, raw.n_children)
        if not places or not places[0]:
            return
        silent = Checker(None, None)
        on_host = self.device in (None, abi.CPU) or names[1] == b"arrow_array"
        if array.examine(silent, pair.addresses[names[1]], field, on_host=False) is None:
            return
        child = Moved(abi.ArrowArray, places[0], _ARRAY_RELEASE)
        held = array.examine(silent, child.address, field.children[0], on_host=on_host)
        before = held.checksums() if held else []
        # The capsule releases the rest of the array.
        pair.drop()
        again = array.examine(silent, child.address, field.children[0], on_host=on_host)
        if held is None:
            return
        if again is None or again.addresses != held.addresses or held.checksums() != before:
            checker.add(
                "arrow-moved-child", "a child that was moved out was freed or changed when its parent was released"
            )
            return
        child.release(checker, "a child that was moved out")
        _unused(checker, lambda: self.call(checker.object(), method), names)

    # ---- __arrow_c_stream__ and __arrow_c_device_stream__

    def check_stream(self, method: str, *, consumed: bool) -> None:
        """Checks a stream method. `consumed`: another stream of the same object was read before."""
        checker = self.checker
        device = method == DEVICE_STREAM
        name = b"arrow_device_array_stream" if device else b"arrow_array_stream"
        thing: Any = checker.object()
        given = self.unknown_keywords(thing, method, consumed=consumed) if device else None
        wish = None
        if given is None and SCHEMA in self.known:
            wish = self.call(thing, SCHEMA)
        if given is None and wish is not None:
            given = self.requested(thing, method, (name,), wish, consumed=consumed)
        elif given is None:
            given, error = self._tried(thing, method, {})
            if error is not None and consumed:
                self._consumed(method, error)
            elif error is not None:
                self.refused(method, error)
        pair = _Pair(checker, given, (name,))
        del given, wish
        if not pair.addresses:
            return
        _Reading(self, method, pair, device).check(thing)
        del thing
        if checker.fresh:
            _unused(checker, lambda: self.call(checker.object(), method), (name,))

    # ---- several methods

    def across(self) -> None:
        checker = self.checker
        for view in checker.views:
            if view.protocol == "dlpack" and self.device not in (None, view.device):
                checker.protocol = "across"
                checker.add("across-device", f"device type {view.device} by dlpack, {self.device} by {DEVICE_ARRAY}")
        lengths = {length for method, length in self.lengths.items() if method in (ARRAY, DEVICE_ARRAY)}
        if len(lengths) > 1:
            checker.protocol = "arrow-device-array"
            checker.add("arrow-schema-differs", f"lengths are {self.lengths}")
        if self.device in abi.NOT_FOR_THE_CPU and self.addresses.get(ARRAY, set()) & self.addresses.get(
            DEVICE_ARRAY, set()
        ):
            checker.protocol = "arrow-array"
            checker.add(
                "arrow-cpu-method",
                f"{ARRAY} exports buffers that, by {DEVICE_ARRAY}, are memory of {abi.DEVICES[self.device or 0]}",
            )


class _Reading:
    """Reads one stream, to its end or to the limit of batches."""

    def __init__(self, examination: _Examination, method: str, pair: _Pair, device: bool) -> None:
        self.examination, self.checker, self.method, self.pair = examination, examination.checker, method, pair
        self.kind = abi.ArrowDeviceArrayStream if device else abi.ArrowArrayStream
        self.device = device
        self.raw: Any = None
        self.address = 0

    def check(self, thing: object) -> None:
        checker, name = self.checker, next(iter(self.pair.addresses))
        source = self.pair.addresses[name]
        self.raw = memory.load(self.kind, source)
        if self.raw is None:
            checker.add("arrow-struct-memory", "the stream's structure can't be read")
            return
        if not self.raw.release:
            checker.add("arrow-capsule-released", "the stream is released")
            return
        callbacks = ("get_schema", "get_next", "get_last_error", "release")
        broken = [one for one in callbacks if not memory.executable(getattr(self.raw, one))]
        if self.device and self.raw.device_type not in abi.DEVICES:
            checker.add("arrow-device-type", f"the stream's device_type is {self.raw.device_type}")
        if broken:
            checker.add("arrow-stream-callbacks", f"null, or not a function: {', '.join(broken)}")
            return
        if self.device and self.examination.device is None:
            self.examination.device = self.raw.device_type
        moved = Moved(self.kind, source, _RELEASE[name])
        self.address = moved.address
        self.pair.drop()
        del thing
        if checker.fresh:
            collect()
        field = self._schema()
        first = self._batches(field) if field is not None else None
        moved.release(checker, "the stream")
        if first is not None:
            batch, contents, before = first
            if contents.checksums() != before:
                checker.add("arrow-stream-batch-lifetime", "the first batch was changed or freed with its stream")
                return
            batch.release(checker, "a batch")

    def _failed(self, what: str, status: int) -> None:
        checker = self.checker
        if status < 0:
            checker.add("arrow-stream-error-code", f"{what} answered {status}")
        address = abi.GetLastError(self.raw.get_last_error)(self.address)
        text = memory.string(address) if address else b""
        try:
            message = (b"\xff" if text is None else text).decode()
        except UnicodeDecodeError:
            checker.add("arrow-stream-error-text", f"the text of the error is {quoted(text)}")
            return
        checker.add("arrow-stream-error", f"{what} answered {status}: {message or 'no text'}")

    def _schema(self) -> Field | None:
        out = abi.ArrowSchema()
        status = abi.GetOut(self.raw.get_schema)(self.address, ctypes.addressof(out))
        if status:
            self._failed("get_schema", status)
            return None
        field = schema.examine(self.checker, ctypes.addressof(out))
        moved = Moved(abi.ArrowSchema, ctypes.addressof(out), _SCHEMA_RELEASE)
        if field is not None:
            _compare_schema(self.checker, self.examination.known, self.method, field)
        moved.release(self.checker, "the schema")
        return field

    def _batches(self, field: Field) -> tuple[Moved, array.Contents, list[int | None]] | None:
        """Checks the batches. Returns the first valid one, which isn't released yet; releases the others at once."""
        first = None
        kind = abi.ArrowDeviceArray if self.device else abi.ArrowArray
        for _ in range(MOST_BATCHES):
            if self.checker.buffers_read > array.BUFFERS:
                break
            out: Any = kind()
            status = abi.GetOut(self.raw.get_next)(self.address, ctypes.addressof(out))
            if status:
                self._failed("get_next", status)
                break
            if not (out.array if self.device else out).release:
                break
            on_host = True
            if self.device:
                on_host = self.examination._device(ctypes.addressof(out))
                if out.device_type != self.raw.device_type:
                    self.checker.add(
                        "arrow-device-stream-type",
                        f"an array is of device type {out.device_type}, the stream of {self.raw.device_type}",
                    )
            contents = array.examine(self.checker, ctypes.addressof(out), field, on_host=on_host)
            batch = Moved(kind, ctypes.addressof(out), _ARRAY_RELEASE)
            if contents is not None and first is None:
                first = batch, contents, contents.checksums()
            else:
                batch.release(self.checker, "a batch")
        return first


def check(checker: Checker, methods: list[str]) -> None:
    """Checks `methods`, which are those that the object claims and the caller asked for."""
    examination = _Examination(checker)
    read = False
    # Checks the device methods first: they say whether the data is in memory of the CPU, which the others need.
    for method in (SCHEMA, DEVICE_ARRAY, ARRAY, DEVICE_STREAM, STREAM):
        if method not in methods:
            continue
        with checker.exercising(method.strip("_").replace("_c_", "_").replace("_", "-")):
            if method == SCHEMA:
                examination.check_schema()
            elif method in (ARRAY, DEVICE_ARRAY):
                examination.check_array(method)
            else:
                examination.check_stream(method, consumed=read and not checker.fresh)
                read = True
    with checker.checking("across"):
        examination.across()
