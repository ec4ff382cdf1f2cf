"""What the package takes, for type checkers; never imported at run time."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal, Protocol

Wait = Literal["auto", "spin", "block"]
Mode = Literal["auto", "table", "live"]
Stability = Literal["trust", "snapshot"]
Validation = Literal["structure", "full"]
Compression = Literal["lz4", "zstd"]
Form = Literal["file", "stream"]


class StreamExporter(Protocol):
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


class DeviceStreamExporter(Protocol):
    def __arrow_c_device_stream__(self, requested_schema: Any = None, **kwargs: Any) -> Any: ...


class ArrayExporter(Protocol):
    def __arrow_c_array__(self, requested_schema: Any = None) -> Any: ...


class DeviceArrayExporter(Protocol):
    def __arrow_c_device_array__(self, requested_schema: Any = None, **kwargs: Any) -> Any: ...


Exporter = StreamExporter | DeviceStreamExporter | ArrayExporter | DeviceArrayExporter
Source = Exporter | str | os.PathLike[str] | Callable[[], Exporter]
