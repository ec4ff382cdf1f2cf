"""Exporters of a tensor that is an Arrow array, too."""

from __future__ import annotations

from typing import Any

from tests.exporter_samples import arrow, tensors
from tests.exporter_samples.capsules import breaks, right


@right
class Both:
    """Each side is an exporter of its own."""

    tensor: Any = tensors.Floats
    column: Any = arrow.DeviceBatch

    def __init__(self) -> None:
        self.as_tensor, self.as_column = self.tensor(), self.column()

    def __dlpack_device__(self) -> Any:
        return self.as_tensor.__dlpack_device__()

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.as_tensor.__dlpack__(**keywords)

    def __arrow_c_device_array__(self, requested_schema: object = None, **unknown: Any) -> object:
        return self.as_column.__arrow_c_device_array__(requested_schema, **unknown)


@right
class BothOnGpu(Both):
    tensor, column = tensors.CudaFloats, arrow.GpuBatch


@breaks("across-device", "an array is on one device")
class TornApart(Both):
    column = arrow.GpuBatch
