"""Arrays and tables from one library, process or machine to another, without a copy.

`serve()` offers tables by name, `connect()` gets them in another process, and `Arena` is memory to build them in.
`open()` and `write()` are for Arrow files.
"""

from crossdock._native import (
    CatalogueEntry,
    FileReader,
    Limits,
    RecordBatch,
    RecordBatchReader,
    Schema,
    __version__,
)
from crossdock.aio import AsyncRecordBatchReader
from crossdock.arena import Arena
from crossdock.client import Client, connect
from crossdock.errors import (
    ArenaFrozenError,
    ClosedError,
    ConnectionError,
    ConsumedError,
    Error,
    FileChangedError,
    ForkError,
    HandshakeError,
    InterruptedError,
    InvalidArgumentError,
    InvalidDataError,
    LeaseLimitError,
    NotFoundError,
    PermissionError,
    ProtocolError,
    RemoteError,
    ResourceError,
    SchemeError,
    StreamBusyError,
    SystemError,
    TimeoutError,
    TruncatedStreamError,
    UnsupportedError,
    UnsupportedTypeError,
    UriError,
)
from crossdock.file import open, write
from crossdock.server import Server, serve

__all__ = [
    "Arena",
    "ArenaFrozenError",
    "AsyncRecordBatchReader",
    "CatalogueEntry",
    "Client",
    "ClosedError",
    "ConnectionError",
    "ConsumedError",
    "Error",
    "FileChangedError",
    "FileReader",
    "ForkError",
    "HandshakeError",
    "InterruptedError",
    "InvalidArgumentError",
    "InvalidDataError",
    "LeaseLimitError",
    "Limits",
    "NotFoundError",
    "PermissionError",
    "ProtocolError",
    "RecordBatch",
    "RecordBatchReader",
    "RemoteError",
    "ResourceError",
    "Schema",
    "SchemeError",
    "Server",
    "StreamBusyError",
    "SystemError",
    "TimeoutError",
    "TruncatedStreamError",
    "UnsupportedError",
    "UnsupportedTypeError",
    "UriError",
    "__version__",
    "connect",
    "open",
    "serve",
    "write",
]
