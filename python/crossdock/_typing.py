"""Types of arguments and results, for type checkers. The package itself never imports them at run time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import EllipsisType
from typing import Any, Literal, NotRequired, Protocol, SupportsIndex, TypeAlias, TypedDict

from crossdock._native import Device, Queue

Wait = Literal["auto", "spin", "block"]
Way = Literal["map", "read", "message"]
Mode = Literal["auto", "table", "live", "tensor"]
Stability = Literal["trust", "snapshot"]
Validation = Literal["structure", "full"]
Compression = Literal["lz4", "zstd"]
Form = Literal["file", "stream"]


class StreamExporter(Protocol):
    """An object with `__arrow_c_stream__()`."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


class DeviceStreamExporter(Protocol):
    """An object with `__arrow_c_device_stream__()`."""

    def __arrow_c_device_stream__(self, requested_schema: Any = None, **kwargs: Any) -> Any: ...


class ArrayExporter(Protocol):
    """An object with `__arrow_c_array__()`."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any: ...


class DeviceArrayExporter(Protocol):
    """An object with `__arrow_c_device_array__()`."""

    def __arrow_c_device_array__(self, requested_schema: Any = None, **kwargs: Any) -> Any: ...


Exporter = StreamExporter | DeviceStreamExporter | ArrayExporter | DeviceArrayExporter
"""An object with one of the methods of the Arrow PyCapsule interface."""
Batches = (
    Sequence[ArrayExporter] | Sequence[DeviceArrayExporter] | Iterator[ArrayExporter] | Iterator[DeviceArrayExporter]
)
"""Batches of one schema, in a sequence or from an iterator."""


class DLPackExporter(Protocol):
    def __dlpack__(self) -> Any: ...


class CudaArrayExporter(Protocol):
    @property
    def __cuda_array_interface__(self) -> Any: ...


class UsmArrayExporter(Protocol):
    @property
    def __sycl_usm_array_interface__(self) -> Any: ...


class ArrayInterfaceExporter(Protocol):
    @property
    def __array_interface__(self) -> Any: ...


class BufferExporter(Protocol):
    def __buffer__(self, flags: int, /) -> memoryview: ...


# What asarray() takes, as far as it has no Arrow methods.
Array = DLPackExporter | CudaArrayExporter | UsmArrayExporter | ArrayInterfaceExporter | BufferExporter
# A mapping of arrays, which may be nested. Its values can't be said: mappings of arrays of one library are invariant.
Arrays = Mapping[str, Any]


class Scanner(Protocol):
    """pyarrow's."""

    def to_reader(self) -> Any: ...


class Dataset(Protocol):
    """pyarrow's."""

    def scanner(self, *arguments: Any, **options: Any) -> Any: ...


class ParquetFile(Protocol):
    """pyarrow's."""

    def iter_batches(self, *arguments: Any, **options: Any) -> Any: ...


class LazyFrame(Protocol):
    """polars'."""

    def collect(self, *arguments: Any, **options: Any) -> Any: ...


class ReadableFile(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...
    def seek(self, offset: int, whence: int = 0, /) -> int: ...
    def tell(self) -> int: ...


Loadable = Scanner | Dataset | ParquetFile | LazyFrame | ReadableFile
Source = Exporter | Batches | str | os.PathLike[str] | Callable[[], Exporter | Batches] | Array | Arrays | Loadable
"""What can be served: see `Server`."""
# What Client.tensors() returns: tensors, and dictionaries of this type. Said so, `model["layer"]["bias"]` would be an
# error to type checkers.
Nested: TypeAlias = dict[str, Any]


DeviceLike: TypeAlias = Device | str | tuple[int, int]
"""Names a device: a `Device`, its text, or DLPack's pair of numbers."""


class CudaStream(Protocol):
    def __cuda_stream__(self) -> tuple[int, int]: ...


class SyclQueue(Protocol):
    """dpctl's SyclQueue and SyclContext, and similar objects."""

    def _get_capsule(self) -> Any: ...


QueueLike: TypeAlias = Queue | DeviceLike | CudaStream | SyclQueue
"""Names a queue: a `Queue`, a filter string, a device, or another library's stream or queue."""
UsmType: TypeAlias = Literal["device", "shared", "host"]
"""A kind of SYCL's device memory."""

# An index of a Tensor.
Index: TypeAlias = SupportsIndex | slice | EllipsisType


class DeviceAbout(TypedDict):
    device: Device
    filter: str
    device_type: Literal["cpu", "gpu", "accelerator"]
    backend: str
    name: str
    memory: int
    usm_types: list[UsmType]


class DriverAbout(TypedDict):
    driver: str
    found: bool
    version: str
    tried: list[str]
    devices: list[DeviceAbout]


class NetworkAbout(TypedDict):
    transport: str
    found: bool
    library: str
    version: str
    provider: NotRequired[str]  # of libfabric
    tried: list[str]


class PointerAttributes(TypedDict):
    device: Device
    device_pointer: int
    context: int
    host_accessible: bool
    managed: bool
    allocation: tuple[int, int] | None


# The output of `crossdock inspect --json`, as described in docs/reference/cli.md.
class FieldAbout(TypedDict):
    path: str
    depth: int
    type: str
    nullable: bool
    dictionary: int | None
    index_type: str | None
    ordered: bool
    extension: str | None
    metadata: list[list[str]]


class SchemaAbout(TypedDict):
    schema_metadata: list[list[str]]
    fields: list[FieldAbout]


class FileAbout(SchemaAbout):
    form: Literal["file", "stream"]
    size: int
    version: int
    endianness: Literal["little", "big"]
    compressed: bool
    rows: int
    batches: int
    dictionaries: int
    metadata: list[list[str]]


class BufferAbout(TypedDict):
    kind: str
    variadic: int | None
    size: int
    decompressed: int | None
    offset: int
    address: NotRequired[int]
    region: NotRequired[int | None]


class NodeAbout(TypedDict):
    path: str
    type: str
    rows: int
    nulls: int | None
    buffers: list[BufferAbout]


class BatchAbout(TypedDict):
    kind: Literal["record batch", "dictionary"]
    version: int
    rows: int
    nulls: int | None
    body_bytes: int
    data_bytes: int | None
    compression: Literal["lz4", "zstd"] | None
    dictionary: int | None
    delta: bool
    replaces: bool
    metadata: list[list[str]]
    nodes: NotRequired[list[NodeAbout]]
    # Only for a file:
    metadata_offset: NotRequired[int]
    metadata_bytes: NotRequired[int]
    body_offset: NotRequired[int]
    # Only for a stream:
    number: NotRequired[int]
    body: NotRequired[Literal["bytes", "addresses"]]
    message_bytes: NotRequired[int]
    regions: NotRequired[list[int]]


class WireAbout(TypedDict):
    direction: Literal["sent", "received"]
    tagged: bool
    connection: Literal["both", "metadata", "data"]
    kind: str
    size: int
    text: str
    tag: NotRequired[int]
    number: NotRequired[int]
    ticket: NotRequired[str]
    reason: NotRequired[str]
    metadata: NotRequired[str]
    version: NotRequired[int]
    custom_metadata: NotRequired[int]
    fields: NotRequired[int]
    rows: NotRequired[int]
    nodes: NotRequired[int]
    buffers: NotRequired[int]
    body_bytes: NotRequired[int]
    compression: NotRequired[Literal["lz4", "zstd"] | None]
    dictionary: NotRequired[int]
    delta: NotRequired[bool]
    body_type: NotRequired[int]
    total: NotRequired[int]
    nbuf: NotRequired[int]
    count: NotRequired[int]
    first_addresses: NotRequired[list[int]]
