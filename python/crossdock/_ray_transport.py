"""Arrow tables, NumPy arrays and torch tensors between Ray's actors: what `crossdock.ray` registers with Ray.

Ray's pickler meets each object of a result. A reducer of ours takes large ones out, and leaves a number in their place.
Ray then asks for metadata, which the receiver gets: the objects are published on a server of this process, and the
metadata says where. The receiver requests them, and Ray puts them in the place of the numbers. When no reference is
left, Ray says so, and the names are withdrawn.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import pickle
import secrets
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import ray
from ray.experimental import (
    CommunicatorMetadata,
    TensorTransportManager,
    TensorTransportMetadata,
    register_tensor_transport,
)

from crossdock import _native, _sources, pool
from crossdock._exchange import Exchange, descriptors_are_few
from crossdock.errors import (
    ConnectionError,
    ConsumedError,
    Error,
    HandshakeError,
    PermissionError,
    TimeoutError,
    TruncatedStreamError,
    UnsupportedError,
    UnsupportedTypeError,
)
from crossdock.server import serve

if TYPE_CHECKING:
    from collections.abc import Callable

    from crossdock.server import Server

NAME = "crossdock"
_log = logging.getLogger("crossdock")

# ---------------------------------------------------------------------------------------------------------------------
# Where processes reach each other.


class Place(NamedTuple):
    """Where the server of a process is reached: by all processes of its machine, and over tcp by others."""

    machine: str
    uris: tuple[str, ...]
    token: str

    def __repr__(self) -> str:  # without the token
        return f"Place(machine={self.machine!r}, uris={self.uris!r})"


def _machine() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class _Local:
    """What this process has: its exchange, and the secret of its server."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(16)
        # A process that was started later may listen at the same address: it must not have the same names.
        self.prefix = secrets.token_hex(8)
        self.exchange = Exchange(self._start)

    def _start(self) -> Server:
        address = ray.util.get_node_ip_address()
        host = f"[{address}]" if ":" in address else address
        # It sleeps while it waits, as clients do: Ray has processes for all cores, and spinning takes time from them.
        return serve({}, ["shm:", f"tcp://{host}:0"], token=self.token, window=_WINDOW, wait="block")

    def place(self) -> Place:
        return Place(_machine(), tuple(self.exchange.server().uris), self.token)

    def new_name(self) -> str:
        return f"{self.prefix}-{next(self.exchange.names)}"


_local = _Local()
# What a process that has ended, or a machine that can't be reached, leads to.
_UNREACHABLE = (ConnectionError, HandshakeError, TruncatedStreamError, PermissionError, TimeoutError)
# Messages that the consumer of a stream may be behind. The more it is, the more new memory a stream needs.
_WINDOW = 8
# Less than this isn't copied into the pool before it is published, which copies it as well.
_SMALL_BYTES = 1 << 14


def _start_anew_in_child() -> None:
    global _local
    _local = _Local()  # the parent's server and clients are the parent's


os.register_at_fork(after_in_child=_start_anew_in_child)


def local() -> _Local:
    """Returns what this process has."""
    return _local


def request(place: Place, name: str, writable: Literal[False, "copy-on-write"] = False) -> _native.RecordBatchReader:
    """Requests `name` over shm, if the server is on this machine and can be reached so, else over tcp.

    Raises `ConnectionError` if the process that published it has ended or can't be reached, and `NotFoundError` if it
    has withdrawn the name.
    """
    exchange = _local.exchange
    problem: Error | None = None
    for uri in place.uris:
        if uri.startswith("shm:") and place.machine != _machine():
            continue
        token = None if uri.startswith("shm:") else place.token
        try:
            return exchange.get(uri, name, token, wait="block", writable=writable)
        except _UNREACHABLE as error:
            problem = problem or error
    raise ConnectionError(
        "the process that sent this object has ended, or can't be reached; it must live until it is received: "
        f"{problem}"
    ) from problem


def withdraw(name: str) -> None:
    """Withdraws a name of this process. Other names, and names that were withdrawn before, are left alone."""
    server = _local.exchange.running()
    if server is not None:
        with contextlib.suppress(Error):
            server.withdraw(name)


def offer(source: Any) -> tuple[Place, str]:
    """Publishes a source of batches for one consumer; returns where."""
    kind = _sources.kind_of_batches(source, "a stream")
    if kind == "file":
        raise UnsupportedTypeError("a stream takes batches, or what makes them; serve() serves files")
    name = _local.new_name()
    begun = threading.Lock()

    def begin() -> Any:
        if not begun.acquire(blocking=False):
            raise ConsumedError("this stream is for one consumer, and another one reads it")
        withdraw(name)  # the consumer that has begun keeps it
        return source() if kind == "callable" else source

    _local.exchange.server().publish(name, begin)
    return _local.place(), name


# ---------------------------------------------------------------------------------------------------------------------
# From objects to what is published, and back.


class Part(NamedTuple):
    """An object that was published: its kind, its name, and what the bytes don't say; or a small one itself."""

    kind: str
    name: str
    shape: tuple[int, ...]
    dtype: Any = None
    order: str = "C"
    requires_grad: bool = False
    pickled: bytes = b""


def _table_in_pool(table: Any) -> Any:
    """Returns the table with those buffers copied into the pool, into one piece of memory, that aren't in it yet."""
    import pyarrow as pa

    if table.get_total_buffer_size() > 2 * table.nbytes:
        return _copy_of_rows(table)
    pickled: list[pickle.PickleBuffer] = []
    structure = pickle.dumps(table, protocol=5, buffer_callback=pickled.append)
    buffers = [pa.py_buffer(buffer) for buffer in pickled]
    outside = [i for i, one in enumerate(buffers) if one.size and not _native.needs_no_copy(one.address, one.size)]
    nbytes = sum(_aligned(buffers[i].size) for i in outside)
    if nbytes < _SMALL_BYTES:
        return table  # publishing copies them
    memory = pa.py_buffer(pool.default().buffer(nbytes))
    offset = 0
    for i in outside:
        one = buffers[i]
        _native.copy_memory(memory.address + offset, one.address, one.size)
        buffers[i] = memory.slice(offset, one.size)
        offset += _aligned(one.size)
    return pickle.loads(structure, buffers=buffers)


def _copy_of_rows(table: Any) -> Any:
    """Returns a copy of a table in the pool. Of a table that is a slice of another one it has its own rows alone."""
    import pyarrow as pa

    counter = pa.MockOutputStream()
    with pa.ipc.new_stream(counter, table.schema) as writer:
        writer.write_table(table)
    memory = pa.py_buffer(pool.default().buffer(counter.size()))
    with pa.ipc.new_stream(pa.FixedSizeBufferWriter(memory), table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_stream(memory).read_all()


def _aligned(nbytes: int) -> int:
    return (nbytes + 63) // 64 * 64


def _array_in_pool(array: Any) -> Any:
    """Returns the bytes of a NumPy array, in its own order, as an array in the pool."""
    import numpy as np

    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        copy = pool.default().empty(array.shape, array.dtype)
        np.copyto(copy, array)
        return copy.reshape(-1).view("u1")
    flat = (array if array.flags.c_contiguous else array.T).reshape(-1).view("u1")
    if _native.needs_no_copy(flat.ctypes.data, flat.nbytes):
        return flat
    copy = pool.default().empty(flat.shape, "u1")
    _native.copy_memory(copy.ctypes.data, flat.ctypes.data, flat.nbytes)
    return copy


def _publish(value: Any) -> Part:
    """Publishes an object of a type that is passed on, and returns what its receiver needs to know."""
    if value.nbytes < _threshold or descriptors_are_few():
        return Part("small", "", tuple(value.shape), pickled=pickle.dumps(value, protocol=5))
    server, name = _local.exchange.server(), _local.new_name()
    kind = type(value).__name__
    if kind == "Table":
        server.publish(name, _table_in_pool(value))
        return Part("table", name, value.shape)
    if kind == "ndarray":
        server.publish(name, _native.asarray(_array_in_pool(value)), mode="table")
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        return Part("array", name, value.shape, value.dtype, order)
    import torch

    tensor = value.detach().contiguous()
    server.publish(name, _native.asarray(_array_in_pool(tensor.reshape(-1).view(torch.uint8).numpy())), mode="table")
    return Part("tensor", name, tuple(value.shape), value.dtype, requires_grad=value.requires_grad)


def _receive(place: Place, part: Part) -> Any:
    """Returns the object that `part` names."""
    if part.kind == "small":
        return pickle.loads(part.pickled)
    reader = request(place, part.name, "copy-on-write")  # of a table, too: it can then be sent on without a copy
    if part.kind == "table":
        import pyarrow as pa

        return pa.table(reader)
    import numpy as np

    (batch,) = reader
    flat = np.asarray(_native.from_arrow(batch))
    if part.kind == "array":
        return flat.view(part.dtype).reshape(part.shape, order=part.order)
    import torch

    tensor = torch.from_numpy(flat).view(part.dtype).reshape(part.shape)
    return tensor.requires_grad_(part.requires_grad)


# ---------------------------------------------------------------------------------------------------------------------
# What Ray's pickler calls.

_threshold = 1 << 16
_earlier: dict[type, Callable[[Any], Any]] = {}


def _thread_local() -> Any:
    # Not public in Ray: where it keeps the objects that it takes out of a value and puts back.
    return ray._private.worker.global_worker.get_serialization_context()._thread_local


def _is_supported(value: Any) -> bool:
    kind = type(value).__name__
    if kind == "Table":
        return True
    if kind == "ndarray":
        return not value.dtype.hasobject
    import torch

    return bool(
        value.device.type == "cpu"
        and value.layout == torch.strided
        and not value.is_quantized
        and not value.is_conj()
        and not value.is_neg()
    )


def _reduce(value: Any) -> Any:
    if ray._private.worker.global_worker.connected:
        state = _thread_local()
        if getattr(state, "use_external_transport", False) and _is_supported(value):
            objects = state.rdt_tensors
            # The first one in any case: without any, ray.put() marks the reference for a transport, and forgets it.
            if value.nbytes >= _threshold or not objects:
                objects.append(value)
                return _put_back, (len(objects) - 1,)
    earlier = _earlier.get(type(value))
    return earlier(value) if earlier is not None else value.__reduce_ex__(5)


def _put_back(index: int) -> Any:
    objects = getattr(_thread_local(), "rdt_tensors", None)
    if not objects or index >= len(objects):
        raise UnsupportedError(
            "this object came by the transport 'crossdock', and Ray delivers nothing of it here. It is delivered to "
            "methods of actors that were made with enable_tensor_transport=True, and by ray.get(): a task can't have "
            "it as an argument"
        )
    return objects[index]


@functools.cache
def _types() -> list[type]:
    types: list[type] = []
    with contextlib.suppress(ImportError):
        import numpy as np

        types.append(np.ndarray)
    with contextlib.suppress(ImportError):
        import pyarrow as pa

        types.append(pa.Table)
    with contextlib.suppress(ImportError):
        import torch

        types.append(torch.Tensor)
    return types


def install_reducers() -> None:
    """Has Ray's pickler in this process call the reducers. What isn't for our transport is pickled as before."""
    table: dict[type, Callable[[Any], Any]] = ray.cloudpickle.CloudPickler.dispatch
    for kind in _types():
        earlier = table.get(kind)
        if earlier is not _reduce:
            if earlier is not None:
                _earlier[kind] = earlier
            table[kind] = _reduce


# ---------------------------------------------------------------------------------------------------------------------
# What is registered with Ray.


class Taken:
    """The data type that Ray is told: Ray takes one for each transport, and the reducers are for several."""


class Devices(list[str]):
    """The devices of the transport. Ray sends them to each actor when it registers the transport there, and to unpickle
    them installs the reducers."""

    def __reduce__(self) -> Any:
        return _devices_here, (_threshold,)


def _devices_here(threshold: int) -> Devices:
    global _threshold
    _threshold = threshold
    install_reducers()
    return Devices(["cpu"])


@dataclass
class Metadata(TensorTransportMetadata):  # type: ignore[misc]
    """What Ray carries from the sender to the receiver."""

    place: Place | None = None
    parts: list[Part] = field(default_factory=list)


class Transport(TensorTransportManager):  # type: ignore[misc]
    """Ray makes one for each process. Its methods are called on several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[str, list[str]] = {}

    def tensor_transport_backend(self) -> str:
        return NAME.upper()

    @staticmethod
    def is_one_sided() -> bool:
        # ray.init() sets reducers of its own for some types. ray.put() calls this before it pickles.
        install_reducers()
        return True

    @staticmethod
    def can_abort_transport() -> bool:
        return True  # else Ray kills both actors if a transfer fails

    def actor_has_tensor_transport(self, actor: Any) -> bool:
        return True

    def extract_tensor_transport_metadata(self, obj_id: str, rdt_object: list[Any]) -> Metadata:
        parts: list[Part] = []
        if not rdt_object:
            return Metadata([], "cpu")
        try:
            for value in rdt_object:
                parts.append(_publish(value))
        except BaseException:
            for part in parts:
                if part.name:
                    withdraw(part.name)
            raise
        with self._lock:
            self._names.setdefault(obj_id, []).extend(part.name for part in parts if part.name)
        return Metadata([(part.shape, part.dtype) for part in parts], "cpu", _local.place(), parts)

    def get_communicator_metadata(self, src_actor: Any, dst_actor: Any, backend: str | None = None) -> Any:
        if (
            dst_actor is not None
            and getattr(dst_actor, "_ray_original_handle", False)
            and not getattr(dst_actor, "_ray_enable_tensor_transport", True)
        ):
            text = (
                f"{dst_actor} was made without enable_tensor_transport=True, and so Ray doesn't deliver what comes by "
                "the transport 'crossdock': the call waits for 60 s and fails"
            )
            # Ray calls this on the caller's thread, or on one of its own, where an exception may end the process.
            if isinstance(threading.current_thread(), threading._DummyThread):
                _log.error("%s", text)
            else:
                raise UnsupportedError(text)
        return CommunicatorMetadata()

    def recv_multiple_tensors(
        self,
        obj_id: str,
        tensor_transport_metadata: Metadata,
        communicator_metadata: Any,
        target_buffers: list[Any] | None = None,
    ) -> list[Any]:
        if target_buffers:
            raise UnsupportedError("the transport 'crossdock' doesn't receive into buffers that are there already")
        place = tensor_transport_metadata.place
        if place is None:
            return []
        return [_receive(place, part) for part in tensor_transport_metadata.parts]

    def send_multiple_tensors(self, *_: Any) -> None:
        raise NotImplementedError("the receiver requests what it is to get")

    def garbage_collect(self, obj_id: str, tensor_transport_meta: Any, tensors: Any = None) -> None:
        with self._lock:
            names = self._names.pop(obj_id, [])
        for name in names:
            withdraw(name)

    def abort_transport(self, obj_id: str, communicator_metadata: Any) -> None:
        pass  # A request ends by itself, with the sender's connection.


def register(threshold: int) -> None:
    """Registers the transport with Ray in this process, unless it is registered."""
    global _threshold
    _threshold = threshold
    install_reducers()
    try:
        register_tensor_transport(NAME, Devices(["cpu"]), Transport, Taken)
    except ValueError as error:
        if "already registered" not in str(error):
            raise
