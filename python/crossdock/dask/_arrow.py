"""Serializers for Arrow tables and batches whose frames are the buffers themselves.

distributed's own write an IPC stream, which copies everything. These pickle the table, with its buffers out of band.
"""

from __future__ import annotations

import functools
import pickle
import sys
from typing import TYPE_CHECKING, Any

from distributed.protocol.serialize import dask_deserialize, dask_serialize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["FORMAT", "register"]

# Of a header's "crossdock-arrow": a pickle of protocol 5, and its buffers.
FORMAT = 1

# What an element of any of Arrow's types needs. NumPy's memory has no more, either.
_ALIGNMENT = 16


# distributed's own serializers, for readers that don't know this format.
_theirs: dict[type, tuple[Any, Any]] = {}


def _serialize(data: Any, context: dict[str, Any] | None = None) -> tuple[dict[str, Any], list[Any]]:
    """Serializes for a reader whose handshake said that it knows this format; for others as distributed does."""
    context = context or {}
    known = context.get("crossdock-arrow") == FORMAT and context.get("pickle-protocol", 0) >= 5
    if not known or not data.num_columns:  # a pickle of no columns has no rows
        return _theirs[type(data)][0](data)  # type: ignore[no-any-return]
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(_compact(data), protocol=5, buffer_callback=buffers.append)
    # Chunks that share a dictionary have it several times.
    frames: list[memoryview] = []
    places: dict[tuple[int, int], int] = {}
    order = []
    for buffer in buffers:
        frame = buffer.raw()
        key = (_address(frame), frame.nbytes)
        if key not in places:
            places[key] = len(frames)
            frames.append(frame)
        order.append(places[key])
    return {"crossdock-arrow": FORMAT, "order": order}, [pickled, *frames]


def _deserialize(header: dict[str, Any], frames: Sequence[Any]) -> Any:
    found = header["crossdock-arrow"]
    if found != FORMAT:
        import crossdock

        raise TypeError(
            f"Arrow data in format {found} of a newer Crossdock; this is Crossdock {crossdock.__version__}, "
            f"which knows format {FORMAT}"
        )
    buffers = [_aligned(frame) for frame in frames[1:]]
    data = pickle.loads(frames[0], buffers=[buffers[i] for i in header["order"]])
    # Each buffer must have the size that the lengths in the pickle demand.
    data.validate()
    return data


def _compact(data: Any) -> Any:
    """Copies what uses less than half of its buffers, as slices do. Pickling takes whole buffers."""
    import pyarrow as pa

    if 2 * data.nbytes >= data.get_total_buffer_size():
        return data
    if isinstance(data, pa.RecordBatch):
        columns = [_compact_array(column) for column in data.columns]
        return pa.RecordBatch.from_arrays(columns, schema=data.schema)
    columns = [
        pa.chunked_array([_compact_array(chunk) for chunk in column.chunks], column.type) for column in data.columns
    ]
    return pa.Table.from_arrays(columns, schema=data.schema)


def _compact_array(array: Any) -> Any:
    import pyarrow as pa

    if 2 * array.nbytes >= array.get_total_buffer_size():
        return array
    return pa.concat_arrays([array])


def _address(frame: memoryview) -> int:
    import pyarrow as pa

    return pa.py_buffer(frame).address  # type: ignore[no-any-return]


def _aligned(frame: Any) -> Any:
    """Returns the frame as a buffer of Arrow's; a copy of one that starts where no buffer of Arrow's may."""
    import pyarrow as pa

    buffer = pa.py_buffer(frame)
    if buffer.address % _ALIGNMENT == 0 or buffer.size == 0:
        return buffer
    copy = pa.allocate_buffer(buffer.size)
    memoryview(copy).cast("B")[:] = memoryview(buffer).cast("B")
    return copy


def _register() -> None:
    import distributed.protocol.arrow  # noqa: F401 # registers its own, which would replace these if it came later
    import pyarrow as pa

    for kind in (pa.Table, pa.RecordBatch):
        theirs = dask_serialize.dispatch(kind), dask_deserialize.dispatch(kind)
        if theirs[0] is _serialize:
            continue
        _theirs[kind] = theirs
        dask_serialize.register(kind, _serialize)
        dask_deserialize.register(kind, functools.partial(_deserialize_either, theirs[1]))


def _deserialize_either(theirs: Callable[..., Any], header: dict[str, Any], frames: Sequence[Any]) -> Any:
    return (_deserialize if "crossdock-arrow" in header else theirs)(header, frames)


def register() -> None:
    """Has distributed use these serializers. Imports pyarrow only when the first table needs it."""
    if "pyarrow" in sys.modules:
        _register()
    else:
        dask_serialize.register_lazy("pyarrow", _register)
        dask_deserialize.register_lazy("pyarrow", _register)
