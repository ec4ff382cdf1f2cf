"""Exporters of Arrow data by ctypes alone: right ones, and wrong ones that differ from them in one thing each."""

from __future__ import annotations

import ctypes
import struct
from ctypes import c_int, c_int32, c_int64, c_void_p
from dataclasses import dataclass, field
from typing import Any

from tests.exporter_samples.capsules import ALIVE, Destructor, breaks, capsule, keep, pointer, right

Release = ctypes.CFUNCTYPE(None, c_void_p)
GetOut = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)
LastError = ctypes.CFUNCTYPE(c_void_p, c_void_p)


class Schema(ctypes.Structure):
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


class Array(ctypes.Structure):
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


class DeviceArray(ctypes.Structure):
    _fields_ = (
        ("array", Array),
        ("device_id", c_int64),
        ("device_type", c_int32),
        ("sync_event", c_void_p),
        ("reserved", c_int64 * 3),
    )


class Stream(ctypes.Structure):
    _fields_ = (
        ("get_schema", c_void_p),
        ("get_next", c_void_p),
        ("get_last_error", c_void_p),
        ("release", c_void_p),
        ("private_data", c_void_p),
    )


class DeviceStream(ctypes.Structure):
    _fields_ = (("device_type", c_int32), ("_stream", Stream))


def address_of(function: Any) -> int:
    return ctypes.cast(function, c_void_p).value or 0


def nth(kind: Any, parent: Any, index: int) -> Any:
    """A child, in place."""
    return kind.from_address(c_void_p.from_address(parent.children + 8 * index).value or 0)


def nth_buffer(array: Any, index: int) -> Any:
    """A buffer's pointer, in place."""
    return c_void_p.from_address(array.buffers + 8 * index)


# ---- release


def _release_tree(kind: Any, address: int, *, children: bool = True, mark: bool = True) -> None:
    raw = kind.from_address(address)
    if not raw.release:
        return
    below = [c_void_p.from_address(raw.children + 8 * index).value for index in range(raw.n_children)]
    for child in [*below, raw.dictionary] if children else []:
        if child and kind.from_address(child).release:
            Release(kind.from_address(child).release)(child)
    number = raw.private_data
    if mark:
        raw.release = None
    ALIVE.pop(number, None)


release_schema = Release(lambda address: _release_tree(Schema, address))
release_array = Release(lambda address: _release_tree(Array, address))
release_nothing = {
    kind: Release(lambda at, kind=kind: setattr(kind.from_address(at), "release", None)) for kind in (Schema, Array)
}
release_array_unmarked = Release(lambda address: _release_tree(Array, address, mark=False))
release_array_alone = Release(lambda address: _release_tree(Array, address, children=False))


# ---- what is exported


@dataclass
class Node:
    format: bytes
    length: int
    buffers: list[bytes | None]
    null_count: int = 0
    name: bytes = b""
    offset: int = 0
    children: list[Node] = field(default_factory=list)
    dictionary: Node | None = None
    flags: int = 2
    metadata: dict[bytes, bytes] = field(default_factory=dict)


def int32(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}i", *values)


def int64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def numbers(name: bytes = b"x") -> Node:
    return Node(b"i", 3, [b"\x05", int32(1, 0, 3)], 1, name)


def words(name: bytes = b"s") -> Node:
    return Node(b"u", 3, [None, int32(0, 1, 3, 6), b"abbccc"], 0, name)


def lists() -> Node:
    return Node(
        b"+l", 3, [None, int32(0, 2, 2, 3)], 0, b"l", children=[Node(b"l", 3, [None, int64(7, 8, 9)], 0, b"item")]
    )


def codes() -> Node:
    return Node(b"c", 3, [None, bytes([0, 1, 0])], 0, b"d", dictionary=Node(b"u", 2, [None, int32(0, 1, 2), b"pq"]))


def batch() -> Node:
    children = [numbers(), words(), lists(), codes()]
    return Node(b"+s", 3, [None], 0, children=children, flags=0, metadata={b"made by": b"hand"})


def _memory(data: bytes) -> Any:
    """64 bytes aligned, as buffers are recommended to be."""
    raw = ctypes.create_string_buffer(len(data) + 64)
    at = (ctypes.addressof(raw) + 63) // 64 * 64
    ctypes.memmove(at, data, len(data))
    return raw, at


def _pointers(addresses: list[int]) -> Any:
    return (c_void_p * max(1, len(addresses)))(*addresses)


def _fill_schema(raw: Schema, node: Node) -> None:
    children = [Schema() for _ in node.children]
    for child, of in zip(children, node.children, strict=True):
        _fill_schema(child, of)
    table = _pointers([ctypes.addressof(child) for child in children])
    dictionary = Schema() if node.dictionary else None
    if dictionary is not None and node.dictionary is not None:
        _fill_schema(dictionary, node.dictionary)
        raw.dictionary = ctypes.addressof(dictionary)
    text, name = ctypes.create_string_buffer(node.format), ctypes.create_string_buffer(node.name)
    pairs = b"".join(int32(len(k)) + k + int32(len(v)) + v for k, v in node.metadata.items())
    metadata = ctypes.create_string_buffer(int32(len(node.metadata)) + pairs)
    raw.format, raw.name, raw.flags = ctypes.addressof(text), ctypes.addressof(name), node.flags
    raw.metadata = ctypes.addressof(metadata) if node.metadata else None
    raw.n_children, raw.children = len(children), ctypes.addressof(table) if children else None
    raw.private_data = keep(children, table, dictionary, text, name, metadata)
    raw.release = address_of(release_schema)


def _fill_array(raw: Array, node: Node) -> None:
    children = [Array() for _ in node.children]
    for child, of in zip(children, node.children, strict=True):
        _fill_array(child, of)
    table = _pointers([ctypes.addressof(child) for child in children])
    dictionary = Array() if node.dictionary else None
    if dictionary is not None and node.dictionary is not None:
        _fill_array(dictionary, node.dictionary)
        raw.dictionary = ctypes.addressof(dictionary)
    memory = [None if data is None else _memory(data) for data in node.buffers]
    buffers = _pointers([0 if one is None else one[1] for one in memory])
    raw.length, raw.null_count, raw.offset = node.length, node.null_count, node.offset
    raw.n_buffers, raw.buffers = len(memory), ctypes.addressof(buffers) if memory else None
    raw.n_children, raw.children = len(children), ctypes.addressof(table) if children else None
    raw.private_data = keep(children, table, dictionary, memory, buffers)
    raw.release = address_of(release_array)


# ---- capsules

_KINDS = {
    b"arrow_schema": (Schema, Schema.release.offset),
    b"arrow_array": (Array, Array.release.offset),
    b"arrow_device_array": (DeviceArray, Array.release.offset),
    b"arrow_array_stream": (Stream, Stream.release.offset),
    b"arrow_device_array_stream": (DeviceStream, DeviceStream._stream.offset + Stream.release.offset),
}
# By address: the structures that capsules own.
_OWNED: dict[int, Any] = {}


def _destroy(dying: int) -> None:
    for name, (_, offset) in _KINDS.items():
        address = pointer(dying, name)
        if address:
            release = c_void_p.from_address(address + offset).value
            if release:
                Release(release)(address)
            _OWNED.pop(address, None)


def _destroy_twice(dying: int) -> None:
    """A destructor that doesn't look whether release is still there."""
    for name, (_, offset) in _KINDS.items():
        address = pointer(dying, name)
        if address:
            release = c_void_p.from_address(address + offset).value
            for _ in range(2 if release else 0):
                Release(release)(address)
            _OWNED.pop(address, None)


def _leak(dying: int) -> None:
    """A destructor that forgets to release."""


def _destroy_moved(dying: int) -> None:
    """A destructor that frees what it exported, whoever has it now."""
    for name in _KINDS:
        address = pointer(dying, name)
        if address:
            raw = _OWNED.pop(address, None)
            for array in [raw] if name == b"arrow_array" else []:
                _overwrite(array)
            if raw is not None and raw.release:
                Release(raw.release)(address)


def _overwrite(array: Any) -> None:
    """As if the memory had been used for something else."""
    for index in range(array.n_buffers):
        if nth_buffer(array, index).value:
            ctypes.memset(nth_buffer(array, index).value, 0xFF, 1)
    for index in range(array.n_children):
        _overwrite(nth(Array, array, index))


destroy, destroy_twice = Destructor(_destroy), Destructor(_destroy_twice)
leak, destroy_moved = Destructor(_leak), Destructor(_destroy_moved)


def owned(raw: Any, name: bytes, destructor: Any = destroy) -> object:
    address = ctypes.addressof(raw)
    _OWNED[address] = raw
    return capsule(address, name, destructor)


# ---- right exporters


class Data:
    """Exports `node()` as schema and array. What is wrong is done by overriding one of the hooks."""

    destructor: Any = destroy
    names = (b"arrow_schema", b"arrow_array")

    def node(self) -> Node:
        return batch()

    def schema(self, raw: Schema) -> None:
        """A hook: what was filled in can be changed."""

    def array(self, raw: Array) -> None:
        """A hook."""

    def make_schema(self) -> Schema:
        raw = Schema()
        _fill_schema(raw, self.node())
        self.schema(raw)
        return raw

    def make_array(self) -> Array:
        raw = Array()
        _fill_array(raw, self.node())
        self.array(raw)
        return raw

    def __arrow_c_schema__(self) -> object:
        return owned(self.make_schema(), self.names[0])

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return (
            owned(self.make_schema(), self.names[0]),
            owned(self.make_array(), self.names[1], self.destructor),
        )


@right
class Batch(Data):
    pass


class Device(Data):
    """The same as a device array of the CPU."""

    __arrow_c_array__ = None  # type: ignore[assignment]
    kind = 1

    def device(self, raw: DeviceArray) -> None:
        """A hook."""

    def make_device(self) -> DeviceArray:
        raw = DeviceArray(device_id=-1 if self.kind == 1 else 0, device_type=self.kind)
        _fill_array(raw.array, self.node())
        self.array(raw.array)
        self.device(raw)
        return raw

    def refuse(self, unknown: dict[str, Any]) -> None:
        for name, value in unknown.items():
            if value is not None:
                raise NotImplementedError(name)

    def __arrow_c_device_array__(self, requested_schema: object = None, **unknown: Any) -> object:
        self.refuse(unknown)
        return (
            owned(self.make_schema(), b"arrow_schema"),
            owned(self.make_device(), b"arrow_device_array", self.destructor),
        )


@right
class DeviceBatch(Device):
    pass


@right
class GpuBatch(Device):
    """Pointers of a device that isn't there, which nobody may follow."""

    kind = 2

    def array(self, raw: Array) -> None:
        for index in range(raw.n_buffers):
            if nth_buffer(raw, index).value:
                nth_buffer(raw, index).value = 0x7FFF00000000 + 256 * index
        for index in range(raw.n_children):
            self.array(nth(Array, raw, index))
        if raw.dictionary:
            self.array(Array.from_address(raw.dictionary))


@right
class EventOfRocm(GpuBatch):
    """An event with them, which nobody here can ask."""

    kind = 10

    def device(self, raw: DeviceArray) -> None:
        raw.sync_event = EVENT


@right
class SimulatedBatch(GpuBatch):
    """Of a simulated device, whose events say in a struct how to wait for them."""

    kind = 12

    def device(self, raw: DeviceArray) -> None:
        raw.sync_event = simulated_event()


@right
class GpuBatchOnly(GpuBatch):
    """The method without device is there, and raises: it has no memory of the CPU to give."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        raise ValueError("this memory is a GPU's; copy it first")


def _address_of_event() -> int:
    """Of a pointer to memory, as events are where nobody knows them."""
    event = ctypes.create_string_buffer(64)
    cell = c_void_p(ctypes.addressof(event))
    EVENTS.append((event, cell))
    return ctypes.addressof(cell)


EVENTS: list[Any] = []
EVENT = _address_of_event()

EventCall = ctypes.CFUNCTYPE(c_int32, c_void_p)
EventText = ctypes.CFUNCTYPE(c_void_p, c_void_p)


class SimulatedEvent(ctypes.Structure):
    _fields_ = (
        ("magic", c_int64),
        ("version", c_int32),
        ("size", c_int32),
        ("query", EventCall),
        ("wait", EventCall),
        ("last_error", EventText),
    )


def simulated_event(*, size: int = 40, waited: int = 0, done: int = 1, functions: bool = True) -> int:
    """As crossdock/device/sim_event.h has it."""
    event = SimulatedEvent(magic=int.from_bytes(b"xd-event", "little"), version=1, size=size)
    if functions:
        event.query, event.wait = EventCall(lambda _: done), EventCall(lambda _: waited)
        event.last_error = EventText(lambda _: None)
    EVENTS.append(event)
    return ctypes.addressof(event)


class Batches(Data):
    """Two batches as a stream that each call begins anew."""

    __arrow_c_array__ = None  # type: ignore[assignment]
    count = 2
    status = 0
    """What get_next answers after the batches."""
    text: bytes | None = None

    def stream(self, raw: Stream) -> None:
        """A hook."""

    def fill(self, raw: Stream, make: Any, array_kind: Any) -> None:
        left = [self.count]
        text = ctypes.create_string_buffer(self.text) if self.text is not None else None
        given: list[Any] = []

        def get_schema(_: int, out: int) -> int:
            made = self.make_schema()
            ctypes.memmove(out, ctypes.addressof(made), ctypes.sizeof(Schema))
            return 0

        def get_next(_: int, out: int) -> int:
            if left[0] == 0:
                ctypes.memset(out, 0, ctypes.sizeof(array_kind))
                return self.status
            left[0] -= 1
            made = make()
            given.append(made)
            ctypes.memmove(out, ctypes.addressof(made), ctypes.sizeof(array_kind))
            return 0

        def get_last_error(_: int) -> int | None:
            return ctypes.addressof(text) if text is not None else None

        def release(address: int) -> None:
            stream = Stream.from_address(address)
            self.released(given)
            number, stream.release = stream.private_data, None
            RETIRED.append(ALIVE.pop(number, None))  # This function is among it, and still runs.
            del RETIRED[:-8]

        functions = GetOut(get_schema), GetOut(get_next), LastError(get_last_error), Release(release)
        raw.get_schema, raw.get_next, raw.get_last_error, raw.release = map(address_of, functions)
        raw.private_data = keep(functions, text)
        self.stream(raw)

    def released(self, given: list[Any]) -> None:
        """A hook: the stream goes."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raw = Stream()
        self.fill(raw, self.make_array, Array)
        return owned(raw, b"arrow_array_stream", self.destructor)


RETIRED: list[Any] = []


@right
class BatchStream(Batches):
    pass


class DeviceBatches(Batches, Device):
    __arrow_c_stream__ = None  # type: ignore[assignment]
    __arrow_c_device_array__ = None  # type: ignore[assignment]

    def __arrow_c_device_stream__(self, requested_schema: object = None, **unknown: Any) -> object:
        self.refuse(unknown)
        raw = DeviceStream(device_type=1)
        # The stream's callbacks get the device stream's address; release finds its own members from there.
        self.fill(raw._stream, self.make_device, DeviceArray)
        inner = raw._stream.release

        def release(address: int) -> None:
            Release(inner)(address + DeviceStream._stream.offset)

        outer = Release(release)
        raw._stream.release = address_of(outer)
        ALIVE[raw._stream.private_data] += (outer,)
        self.device_stream(raw)
        return owned(raw, b"arrow_device_array_stream")

    def device_stream(self, raw: DeviceStream) -> None:
        """A hook."""


@right
class DeviceBatchStream(DeviceBatches):
    pass


def one(make: Any) -> Any:
    """An exporter of one array of its own type."""

    class One(Data):
        def node(self) -> Node:
            return make()  # type: ignore[no-any-return]

    One.__name__ = One.__qualname__ = make.__name__
    return One


def long_views(at: int = 0) -> Node:
    view = struct.pack("<i12s", 2, b"ab") + struct.pack("<i4sii", 14, b"abcd", 0, at)
    return Node(b"vu", 2, [None, view, b"abcdefghijklmn", int64(14)])


def list_views(size: int = 2) -> Node:
    return Node(
        b"+vl", 2, [None, int32(1, 0), int32(size, 1)], children=[Node(b"i", 3, [None, int32(1, 2, 3)], name=b"item")]
    )


def dense_union(ids: bytes = b"\x05\x07\x05", offsets: bytes | None = None) -> Node:
    children = [Node(b"i", 2, [None, int32(1, 2)], name=b"i"), Node(b"g", 1, [None, bytes(8)], name=b"f")]
    return Node(b"+ud:5,7", 3, [ids, offsets or int32(0, 0, 1)], children=children)


def sparse_union() -> Node:
    children = [Node(b"i", 2, [None, int32(1, 2)], name=b"i"), Node(b"g", 2, [None, bytes(16)], name=b"f")]
    return Node(b"+us:0,1", 2, [b"\0\1"], children=children)


def runs(*ends: int) -> Node:
    children = [
        Node(b"i", 2, [None, int32(*(ends or (2, 5)))], name=b"run_ends", flags=0),
        Node(b"i", 2, [None, int32(7, 8)], name=b"values"),
    ]
    return Node(b"+r", 5, [], children=children)


def pairs() -> Node:
    entries = Node(b"+s", 2, [None], name=b"entries", flags=0, children=[
        Node(b"i", 2, [None, int32(1, 2)], name=b"key", flags=0), Node(b"i", 2, [None, int32(3, 4)], name=b"value"),
    ])  # fmt: skip
    return Node(b"+m", 1, [None, int32(0, 2)], children=[entries])


def fixed_lists() -> Node:
    return Node(b"+w:2", 2, [None], children=[Node(b"s", 4, [None, bytes(8)], name=b"item")])


def nothing() -> Node:
    return Node(b"n", 3, [], 3)


def truths() -> Node:
    return Node(b"b", 5, [b"\xf8", b"\xff"], 0, offset=3)


def none_at_all() -> Node:
    return Node(b"u", 0, [None, int32(0), None])


def decimals() -> Node:
    return Node(b"d:10,2", 2, [None, bytes(32)])


for _made in (
    numbers, words, lists, codes, long_views, list_views, dense_union, sparse_union, runs, pairs, fixed_lists, nothing,
    truths, none_at_all, decimals,
):  # fmt: skip
    right(one(_made))


# ---- wrong ones: calls and capsules


@breaks("arrow-capsule-name", "the capsule of an ArrowArray is named arrow_array")
class NamedOtherwise(Data):
    names = (b"arrow_schema", b"ArrowArray")


@breaks("arrow-capsule-type", "__arrow_c_array__ gives a pair of capsules, schema and array")
class NoPair(Data):
    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return owned(self.make_array(), b"arrow_array")


@breaks("arrow-capsule-type", "__arrow_c_schema__ gives a PyCapsule, not an address")
class SchemaByAddress(Data):
    def __arrow_c_schema__(self) -> object:
        return 4096


@breaks("arrow-raises", "the methods can be called without arguments")
class NeedsAnArgument(Data):
    def __arrow_c_array__(self, requested_schema: object) -> object:  # type: ignore[override]
        return super().__arrow_c_array__()


@breaks("arrow-refuses", "not all data has an Arrow form")
class HasNoForm(Data):
    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        raise ValueError("strides that a column can't have")


@breaks("arrow-requested-schema", "__arrow_c_array__ has the argument requested_schema")
class NoRequests(Data):
    def __arrow_c_array__(self) -> object:  # type: ignore[override]
        return super().__arrow_c_array__()


@breaks("arrow-requested-schema", "what can't be cast is given as it is; its own schema is no reason to raise")
class RefusesRequests(Batches):
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        if requested_schema is not None:
            raise ValueError("no casts here")
        return super().__arrow_c_stream__()


@breaks("arrow-unknown-keyword", "an unknown keyword that isn't None raises NotImplementedError")
class TakesAnyKeyword(Device):
    def refuse(self, unknown: dict[str, Any]) -> None:
        pass


@breaks("arrow-unknown-keyword", "a keyword that the producer doesn't know is ignored when it is None")
class RefusesNone(Device):
    def refuse(self, unknown: dict[str, Any]) -> None:
        if unknown:
            raise NotImplementedError


@breaks("arrow-unknown-keyword", "and it is NotImplementedError that is raised")
class RaisesAnother(DeviceBatches):
    def refuse(self, unknown: dict[str, Any]) -> None:
        if any(value is not None for value in unknown.values()):
            raise ValueError("what is that?")


@breaks("arrow-capsule-released", "a structure that is handed over has its release callback")
class Released(Data):
    def array(self, raw: Array) -> None:
        raw.release = None


@breaks("arrow-capsule-released", "a capsule is used once, so each call makes its own")
class SameCapsules(Data):
    def __init__(self) -> None:
        self.made = super().__arrow_c_array__()

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self.made


@breaks("arrow-capsule-leaks", "the destructor calls release where it isn't null")
class Leaks(Data):
    destructor = leak


@breaks("arrow-released-twice", "release is called once")
class ReleasesTwice(Data):
    destructor = destroy_twice


@breaks("arrow-capsule-releases-moved", "what was moved out is no more the capsule's to release")
class ReleasesMoved(Data):
    destructor = destroy_moved


@breaks("arrow-struct-memory", "the arrays of pointers in a structure belong to it")
class NoTableOfBuffers(Data):
    def array(self, raw: Array) -> None:
        raw.buffers = 8


@breaks("arrow-schema-differs", "the schema method tells the schema that the data has")
class OtherSchema(Data):
    def __arrow_c_schema__(self) -> object:
        raw = Schema()
        _fill_schema(raw, numbers())
        return owned(raw, b"arrow_schema")


@breaks("arrow-schema-differs", "the metadata of a record batch is that of its schema, in every method")
class LosesMetadata(Device):
    def __arrow_c_schema__(self) -> object:
        node = batch()
        node.metadata = {}
        raw = Schema()
        _fill_schema(raw, node)
        return owned(raw, b"arrow_schema")


# ---- wrong ones: ArrowSchema


@breaks("arrow-schema-format", "format is one of the strings of the text")
class StrangeFormat(Data):
    def node(self) -> Node:
        node = batch()
        node.children[0].format = b"int32"
        return node


@breaks("arrow-schema-format", "format is mandatory")
class NoFormat(Data):
    def schema(self, raw: Schema) -> None:
        raw.format = None


@breaks("arrow-schema-name", "name is UTF-8")
class LatinName(Data):
    def node(self) -> Node:
        node = batch()
        node.children[0].name = b"caf\xe9"
        return node


@breaks("arrow-schema-metadata", "metadata begins with the number of its pairs, which isn't negative")
class EndlessMetadata(Data):
    def schema(self, raw: Schema) -> None:
        ctypes.memmove(raw.metadata, int32(-2), 4)


@breaks("arrow-schema-flags", "flags are three bits")
class FlagOfTheFuture(Data):
    def schema(self, raw: Schema) -> None:
        raw.flags |= 64


@breaks("arrow-schema-flags", "only maps have sorted keys")
class SortedStruct(Data):
    def schema(self, raw: Schema) -> None:
        raw.flags |= 4


@breaks("arrow-schema-children", "a list has one child")
class ListOfNothing(Data):
    def schema(self, raw: Schema) -> None:
        nth(Schema, raw, 2).n_children = 0


@breaks("arrow-schema-children", "n_children isn't negative")
class FewerThanNoChildren(Data):
    def schema(self, raw: Schema) -> None:
        raw.n_children = -1


@breaks("arrow-schema-dictionary", "a dictionary's indices are integers")
class WordsAsIndices(Data):
    def schema(self, raw: Schema) -> None:
        codes, words = nth(Schema, raw, 3), nth(Schema, raw, 1)
        codes.format = words.format

    def node(self) -> Node:
        node = batch()
        node.children[3].buffers = [None, int32(0, 1, 1, 1), b"a"]
        return node

    __arrow_c_array__ = None  # type: ignore[assignment]


@breaks("arrow-child-released", "children are alive when their parent is handed over")
class SchemaOfTheDead(Data):
    def schema(self, raw: Schema) -> None:
        nth(Schema, raw, 1).release = None


# ---- wrong ones: ArrowArray


@breaks("arrow-array-length", "length isn't negative")
class NegativeLength(Data):
    def array(self, raw: Array) -> None:
        raw.length = -3


@breaks("arrow-array-length", "length and offset are a number of elements together")
class OffsetOverflows(Data):
    def array(self, raw: Array) -> None:
        raw.offset = (1 << 63) - 2


@breaks("arrow-array-null-count", "null_count is the number of nulls, or -1 for unknown")
class MoreNullsThanSaid(Data):
    def array(self, raw: Array) -> None:
        nth(Array, raw, 0).null_count = 2


@breaks("arrow-array-null-count", "null_count is -1 at the least")
class NullCountOfMinusTwo(Data):
    def array(self, raw: Array) -> None:
        nth(Array, raw, 0).null_count = -2


@breaks("arrow-array-n-buffers", "a string array has three buffers")
class TwoBuffersOfWords(Data):
    def array(self, raw: Array) -> None:
        nth(Array, raw, 1).n_buffers = 2


@breaks("arrow-array-n-buffers", "an array of nulls has no buffer")
class BufferOfNothing(Data):
    def node(self) -> Node:
        return Node(b"n", 3, [None], 3)


@breaks("arrow-array-children", "an array has the children of its schema")
class OneChildLess(Data):
    def array(self, raw: Array) -> None:
        raw.n_children = 3


@breaks("arrow-array-children", "the children of a struct are as long as the struct")
class ShortChild(Data):
    def array(self, raw: Array) -> None:
        raw.length = 4


@breaks("arrow-array-children", "pointers to children aren't null")
class NullChild(Data):
    def array(self, raw: Array) -> None:
        c_void_p.from_address(raw.children).value = None


@breaks("arrow-array-dictionary", "an encoded array has its dictionary with it")
class NoDictionary(Data):
    def array(self, raw: Array) -> None:
        nth(Array, raw, 3).dictionary = None


@breaks("arrow-child-released", "children are alive when their parent is handed over")
class DeadChild(Data):
    def array(self, raw: Array) -> None:
        nth(Array, raw, 2).release = None


@breaks("arrow-buffer-null", "the bitmap is null only where there are no nulls")
class NoBitmap(Data):
    def array(self, raw: Array) -> None:
        nth_buffer(nth(Array, raw, 0), 0).value = None


@breaks("arrow-buffer-null", "a buffer is null only where it would have no bytes")
class NoValues(Data):
    def array(self, raw: Array) -> None:
        nth_buffer(nth(Array, raw, 2).__class__.from_address(ctypes.addressof(nth(Array, raw, 2))), 1).value = None


@breaks("arrow-buffer-memory", "a buffer is as large as length and offset say")
class HugeLength(Data):
    def node(self) -> Node:
        return Node(b"i", 3, [None, int32(1, 2, 3)])

    def array(self, raw: Array) -> None:
        raw.length = 1 << 45


@breaks("arrow-buffer-memory", "memory of the CPU can be read by the CPU")
class BufferInTheNullPage(Device):
    def array(self, raw: Array) -> None:
        nth_buffer(nth(Array, raw, 0), 1).value = 64


@breaks("arrow-buffer-alignment", "it is recommended that buffers are aligned")
class OddAddress(Data):
    def node(self) -> Node:
        return Node(b"i", 3, [None, int32(1, 2, 3, 4)])

    def array(self, raw: Array) -> None:
        nth_buffer(raw, 1).value += 1


@breaks("arrow-offsets", "offsets don't fall")
class FallingOffsets(Data):
    def node(self) -> Node:
        node = batch()
        node.children[1].buffers[1] = int32(0, 3, 1, 6)
        return node


@breaks("arrow-offsets", "offsets end within the child")
class OffsetsPastTheChild(Data):
    def node(self) -> Node:
        node = batch()
        node.children[2].buffers[1] = int32(0, 2, 2, 9)
        return node


@breaks("arrow-offsets", "offsets of a dense union lie in the child")
class UnionPastTheChild(Data):
    def node(self) -> Node:
        return dense_union(offsets=int32(0, 1, 1))


@breaks("arrow-type-ids", "type ids are those of the format")
class StrangeTypeId(Data):
    def node(self) -> Node:
        return dense_union(b"\x05\x06\x05")


@breaks("arrow-run-ends", "run ends rise")
class RunsBackwards(Data):
    def node(self) -> Node:
        return runs(5, 5)


@breaks("arrow-run-ends", "the last run reaches the array's length")
class RunsTooShort(Data):
    def node(self) -> Node:
        return runs(2, 4)


@breaks("arrow-views", "a view lies within its buffer")
class ViewPastItsBuffer(Data):
    def node(self) -> Node:
        return long_views(1)


@breaks("arrow-views", "a view of a list lies within the child")
class ListViewPastTheChild(Data):
    def node(self) -> Node:
        return list_views(3)


@breaks("arrow-dictionary-index", "indices are inside the dictionary")
class IndexPastTheDictionary(Data):
    def node(self) -> Node:
        node = batch()
        node.children[3].buffers[1] = bytes([0, 2, 0])
        return node


# ---- wrong ones: release and lifetime


@breaks("arrow-release-unmarked", "release sets the release member of the structure to null")
class StaysUnmarked(Data):
    def array(self, raw: Array) -> None:
        raw.release = address_of(release_array_unmarked)


@breaks("arrow-release-unmarked", "release takes the structure that it is given, which may have been moved")
class MarksWhereItWas(Data):
    def array(self, raw: Array) -> None:
        def release(address: int) -> None:
            _release_tree(Array, address, mark=False)
            raw.release = None

        function = Release(release)
        FOREVER.append((function, raw))
        raw.release = address_of(function)


FOREVER: list[Any] = []


@breaks("arrow-relocatable", "private_data doesn't point into the structure")
class PointsIntoItself(Data):
    def array(self, raw: Array) -> None:
        number, raw.private_data = raw.private_data, ctypes.addressof(raw)

        def release(address: int) -> None:
            Array.from_address(address).private_data = number
            _release_tree(Array, address)

        function = Release(release)
        FOREVER.append(function)
        raw.release = address_of(function)


@breaks("arrow-release-children", "release calls the release of every child")
class ForgetsChildren(Data):
    def array(self, raw: Array) -> None:
        raw.release = address_of(release_array_alone)


@breaks("arrow-moved-child", "a child moved out lives on when its parent is released")
class TakesMovedChildren(Data):
    def array(self, raw: Array) -> None:
        def release(address: int) -> None:
            _overwrite(Array.from_address(address))
            _release_tree(Array, address)

        function = Release(release)
        FOREVER.append(function)
        raw.release = address_of(function)


@breaks("arrow-lifetime", "exported memory is kept by the structure, not by the object it came from", once=False)
class DiesWithTheObject(Data):
    def __init__(self) -> None:
        self.given: list[Array] = []

    def array(self, raw: Array) -> None:
        copy = Array.from_buffer_copy(raw)
        self.given.append(copy)

    def __del__(self) -> None:
        for raw in self.given:
            if raw.private_data in ALIVE:
                _overwrite(raw)


# ---- wrong ones: streams


@breaks("arrow-stream-callbacks", "get_last_error is there")
class NoLastError(Batches):
    def stream(self, raw: Stream) -> None:
        raw.get_last_error = None


@breaks("arrow-stream-error", "a stream that fails can't be checked further")
class Fails(Batches):
    status = 5
    text = b"the source is gone"


@breaks("arrow-stream-error-code", "errors are errno's positive numbers")
class NegativeErrors(Batches):
    status = -1


@breaks("arrow-stream-error-text", "the text of an error is UTF-8")
class LatinErrors(Batches):
    status = 5
    text = b"caf\xe9 closed"


@breaks("arrow-stream-batch-lifetime", "batches live independently of their stream")
class BatchesDieWithTheStream(Batches):
    def released(self, given: list[Any]) -> None:
        for raw in given:
            if raw.private_data in ALIVE:
                _overwrite(raw)


@breaks("arrow-capsule-name", "the capsule of a stream is named arrow_array_stream")
class StreamNamedOtherwise(Batches):
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raw = Stream()
        self.fill(raw, self.make_array, Array)
        return owned(raw, b"stream")


@breaks("arrow-capsule-leaks", "a stream's capsule that nobody took releases the stream", once=False)
class StreamLeaks(Batches):
    destructor = leak


@breaks("arrow-array-length", "every batch of a stream is checked")
class SecondBatchIsWrong(Batches):
    def __init__(self) -> None:
        self.made = 0

    def array(self, raw: Array) -> None:
        self.made += 1
        if self.made % 2 == 0:
            raw.length = -1


# ---- wrong ones: devices


@breaks("arrow-device-event", "the CPU has no events")
class EventOfTheCpu(Device):
    def device(self, raw: DeviceArray) -> None:
        raw.sync_event = 4096


@breaks("arrow-device-event-memory", "the event is in memory of the producer's")
class EventNowhere(GpuBatch):
    def device(self, raw: DeviceArray) -> None:
        raw.sync_event = 0x1000


@breaks("arrow-device-event-memory", "whatever the device")
class SimulatedEventNowhere(GpuBatch):
    kind = 12

    def device(self, raw: DeviceArray) -> None:
        raw.sync_event = 0x1000


@breaks("arrow-device-event-handle", "sync_event points to an event, and isn't the event itself")
class NullEvent(GpuBatch):
    def device(self, raw: DeviceArray) -> None:
        cell = c_void_p(None)
        EVENTS.append(cell)
        raw.sync_event = ctypes.addressof(cell)


@breaks("arrow-device-event-handle", "its struct is as large as it says")
class SmallSimulatedEvent(GpuBatch):
    kind = 12

    def device(self, raw: DeviceArray) -> None:
        raw.sync_event = simulated_event(size=16)


@breaks("arrow-device-event-handle", "it has functions to wait with")
class SimulatedEventWithoutFunctions(GpuBatch):
    kind = 12

    def device(self, raw: DeviceArray) -> None:
        raw.sync_event = simulated_event(functions=False)


@breaks("arrow-device-event-handle", "after a wait it is done")
class SimulatedEventThatDoesntWait(GpuBatch):
    kind = 12

    def device(self, raw: DeviceArray) -> None:
        raw.sync_event = simulated_event(done=0)


@breaks("arrow-device-id", "-1 is recommended for the CPU")
class CpuZero(Device):
    def device(self, raw: DeviceArray) -> None:
        raw.device_id = 0


@breaks("arrow-device-reserved", "the reserved bytes are zero")
class UsesReserved(Device):
    def device(self, raw: DeviceArray) -> None:
        raw.reserved[2] = 1


@breaks("arrow-device-type", "device types are those of the text")
class DeviceZero(Device):
    def device(self, raw: DeviceArray) -> None:
        raw.device_type = 0


@breaks("arrow-device-stream-type", "all arrays of a stream are of its device")
class ChangesDevice(DeviceBatches):
    def device(self, raw: DeviceArray) -> None:
        raw.device_type = 3


@breaks("arrow-device-type", "the stream's device type is one of the text, too")
class StreamOfNoDevice(DeviceBatches):
    def device_stream(self, raw: DeviceStream) -> None:
        raw.device_type = 99

    count = 0


@breaks("arrow-cpu-method", "__arrow_c_array__ hands out memory of the CPU, or raises")
class GpuMemoryAsCpu(Data):
    """The memory is the CPU's in truth, so that the test survives whoever believes the method without device."""

    def __init__(self) -> None:
        self.shared = [_memory(int32(1, 2, 3))]

    def node(self) -> Node:
        return Node(b"i", 3, [None, int32(1, 2, 3)])

    def array(self, raw: Array) -> None:
        nth_buffer(raw, 1).value = SHARED_MEMORY[1]

    def __arrow_c_device_array__(self, requested_schema: object = None, **unknown: Any) -> object:
        Device.refuse(self, unknown)  # type: ignore[arg-type]
        raw = DeviceArray(device_id=0, device_type=2)
        _fill_array(raw.array, self.node())
        self.array(raw.array)
        return owned(self.make_schema(), b"arrow_schema"), owned(raw, b"arrow_device_array")


SHARED_MEMORY = _memory(int32(1, 2, 3))


# ---- wrong ones: the same rules, broken in other places


@breaks("arrow-array-children", "there is a value for each run")
class MoreRunsThanValues(Data):
    def node(self) -> Node:
        node = runs()
        node.children[1].length = 1
        return node


@breaks("arrow-views", "sizes of buffers aren't negative")
class BufferOfNegativeSize(Data):
    def node(self) -> Node:
        node = long_views()
        node.buffers[3] = int64(-14)
        return node


@breaks("arrow-buffer-null", "a buffer is null only where it would have no bytes")
class NoLetters(Data):
    def node(self) -> Node:
        node = words()
        node.buffers[2] = None
        return node


@breaks("arrow-buffer-null", "a buffer of views is null only where its size is 0")
class NoBufferOfViews(Data):
    def node(self) -> Node:
        node = long_views()
        node.buffers[2] = None
        return node


@breaks("arrow-capsule-released", "each call gives a schema of its own")
class SameSchema(Data):
    def __init__(self) -> None:
        self.made = super().__arrow_c_schema__()

    def __arrow_c_schema__(self) -> object:
        return self.made

    __arrow_c_array__ = None  # type: ignore[assignment]


def _spoil(dying: int) -> None:
    """A destructor that takes the strings back, whoever has the schema."""
    address = pointer(dying, b"arrow_schema")
    raw = _OWNED.pop(address or 0, None)
    if raw is not None:
        ctypes.memset(raw.format, 0xFF, 1)
        if raw.release:
            Release(raw.release)(address)


spoil = Destructor(_spoil)


@breaks("arrow-capsule-releases-moved", "a schema that was moved out is the consumer's")
class SpoilsMovedSchema(Data):
    def __arrow_c_schema__(self) -> object:
        return owned(self.make_schema(), b"arrow_schema", spoil)

    __arrow_c_array__ = None  # type: ignore[assignment]


@breaks("arrow-schema-differs", "both methods give the same array")
class ShorterOnDevice(Device, Data):
    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        raw = Array()
        _fill_array(raw, words())
        return owned(self.make_schema(), b"arrow_schema"), owned(raw, b"arrow_array")

    def node(self) -> Node:
        node = words()
        node.length = 2
        return node


@breaks("arrow-capsule-released", "a stream that is handed over isn't released yet")
class ReleasedStream(Batches):
    def stream(self, raw: Stream) -> None:
        raw.release = None


@breaks("arrow-released-twice", "release of a child is called once")
class ReleasesChildrenTwice(Data):
    def array(self, raw: Array) -> None:
        def release(address: int) -> None:
            parent = Array.from_address(address)
            children = [nth(Array, parent, index) for index in range(parent.n_children)]
            for child in children:
                callback = child.release
                for _ in range(2 if callback else 0):
                    Release(callback)(ctypes.addressof(child))
            _release_tree(Array, address)

        function = Release(release)
        FOREVER.append(function)
        raw.release = address_of(function)


@breaks("arrow-release-unmarked", "release of a child sets its release member to null")
class LeavesAChildUnmarked(Data):
    def node(self) -> Node:
        node = batch()
        node.children = node.children[:1]
        return node

    def array(self, raw: Array) -> None:
        child = nth(Array, raw, 0)
        child.release = address_of(release_array_unmarked)

        def release(address: int) -> None:
            if child.release:
                Release(child.release)(ctypes.addressof(child))
            _release_tree(Array, address, children=False)

        function = Release(release)
        FOREVER.append((function, child))
        raw.release = address_of(function)


@breaks("arrow-schema-children", "the child of a map is a struct of key and value")
class MapOfNumbers(Data):
    def node(self) -> Node:
        return Node(b"+m", 1, [None, int32(0, 2)], children=[Node(b"i", 2, [None, int32(1, 2)], name=b"entries")])


@breaks("arrow-schema-children", "run ends are integers of 16, 32 or 64 bits")
class RunsOfBytes(Data):
    def node(self) -> Node:
        node = runs()
        node.children[0] = Node(b"c", 2, [None, bytes([2, 5])], name=b"run_ends", flags=0)
        return node


@breaks("arrow-schema-children", "pointers to children aren't null")
class NoChildSchema(Data):
    def schema(self, raw: Schema) -> None:
        c_void_p.from_address(raw.children + 8).value = None
