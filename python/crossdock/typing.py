"""Types of the package's arguments, for annotations.

from crossdock.typing import QueueLike

def dot(a: xd.Tensor, b: xd.Tensor, *, queue: QueueLike | None = None) -> xd.Tensor: ...
"""

from crossdock._typing import (
    ArrayExporter,
    Batches,
    DeviceArrayExporter,
    DeviceLike,
    DeviceStreamExporter,
    Exporter,
    QueueLike,
    Source,
    StreamExporter,
    UsmType,
)

__all__ = [
    "ArrayExporter",
    "Batches",
    "DeviceArrayExporter",
    "DeviceLike",
    "DeviceStreamExporter",
    "Exporter",
    "QueueLike",
    "Source",
    "StreamExporter",
    "UsmType",
]
