"""Passes arrays and tables from one library, process or machine to another, without a copy.

`asarray()` imports any array as a `Tensor`, which other libraries can import. `serve()` offers tables by name,
`connect()` gets them in another process, and `relay()` fetches them once for all processes of a machine. `Arena` is
memory to build one table in, `Pool` shared memory that is used again. `open()` and `write()` are for Arrow files.
`check()` checks the exports of any object, and `debug()` explains faults in shared memory. `crossdock.peers` connects
equals, which send each other buffers, `crossdock.offload` selects where work runs, and `crossdock.testing` simulates
devices.
"""

from __future__ import annotations

from crossdock import errors
from crossdock._native import (
    CatalogEntry,
    Column,
    Device,
    DType,
    Event,
    FileReader,
    Limits,
    Queue,
    RecordBatch,
    RecordBatchReader,
    Schema,
    Tensor,
    __version__,
    asarray,
    empty,
    from_array_interface,
    from_arrow,
    from_cuda_array_interface,
    from_dlpack,
    from_sycl_usm_array_interface,
    set_cuda_array_interface_sync,
)
from crossdock.errors import *  # noqa: F403

TYPE_CHECKING = False  # As typing has it, whose import takes longer than all of ours. Type checkers take it for True.
if TYPE_CHECKING:
    from typing import Any

    from crossdock import offload, peers, pool, testing
    from crossdock._exports import Exports
    from crossdock.aio import AsyncRecordBatchReader
    from crossdock.arena import Arena
    from crossdock.checking import CheckFailedError, check
    from crossdock.client import Client, connect
    from crossdock.debugging import debug
    from crossdock.file import open, write
    from crossdock.pool import Pool
    from crossdock.relaying import Relay, relay
    from crossdock.server import Server, serve
    from crossdock.table import Table
    from crossdock.tls import TLS

__all__ = [
    "TLS",
    "Arena",
    "AsyncRecordBatchReader",
    "CatalogEntry",
    "CheckFailedError",
    "Client",
    "Column",
    "DType",
    "Device",
    "Event",
    "Exports",
    "FileReader",
    "Limits",
    "Pool",
    "Queue",
    "RecordBatch",
    "RecordBatchReader",
    "Relay",
    "Schema",
    "Server",
    "Table",
    "Tensor",
    "__version__",
    "asarray",
    "check",
    "connect",
    "debug",
    "empty",
    "from_array_interface",
    "from_arrow",
    "from_cuda_array_interface",
    "from_dlpack",
    "from_sycl_usm_array_interface",
    "offload",
    "open",
    "peers",
    "pool",
    "relay",
    "serve",
    "set_cuda_array_interface_sync",
    "testing",
    "write",
]
__all__ += errors.__all__

# Names that are imported on first use, with their modules: a program that needs arrays alone doesn't wait for servers
# and clients, and the modules of the standard library that these need.
_LATER = {
    "TLS": "tls",
    "Arena": "arena",
    "AsyncRecordBatchReader": "aio",
    "CheckFailedError": "checking",
    "Client": "client",
    "Exports": "_exports",
    "Pool": "pool",
    "Relay": "relaying",
    "Server": "server",
    "Table": "table",
    "check": "checking",
    "connect": "client",
    "debug": "debugging",
    "open": "file",
    "relay": "relaying",
    "serve": "server",
    "write": "file",
}
_MODULES = frozenset({*_LATER.values(), "offload", "peers", "testing"} - {"_exports"})


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"crossdock.{name}")
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"crossdock.{_LATER[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_MODULES})
