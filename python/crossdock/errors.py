"""The exceptions: one class for each error code of the C++ library, under one root class.

Each class also derives from the built-in exception that fits best, so that code that doesn't know Crossdock can catch
it.
"""

from __future__ import annotations

import builtins

__all__ = [
    "ArenaFrozenError",
    "ClosedError",
    "ConnectionError",
    "ConsumedError",
    "Error",
    "ExecutionPlacementError",
    "ExportError",
    "FileChangedError",
    "ForkError",
    "HandshakeError",
    "InterruptedError",
    "InvalidArgumentError",
    "InvalidDataError",
    "LeaseLimitError",
    "NotFoundError",
    "OutOfMemoryError",
    "PermissionError",
    "ProtocolError",
    "RemoteError",
    "ResourceError",
    "SchemeError",
    "StreamBusyError",
    "SystemError",
    "TimeoutError",
    "TruncatedStreamError",
    "UnsupportedError",
    "UnsupportedTypeError",
    "UpstreamError",
    "UriError",
]


class Error(Exception):
    """The root of every error that Crossdock raises."""


class InvalidArgumentError(Error, ValueError):
    """An argument of the caller is wrong. The call had no effect."""


class UriError(Error, ValueError):
    """A URI is malformed, or lacks what its scheme needs."""


class SchemeError(Error, ValueError):
    """No transport supports this scheme, on this system or in general."""


class NotFoundError(Error, LookupError):
    """A name isn't in the catalog, or a file, a folder or a device doesn't exist."""


class UnsupportedTypeError(Error, TypeError):
    """An Arrow type, or an object, that this version doesn't support."""


class InvalidDataError(Error, ValueError):
    """Arrow data is invalid, or a producer reported that; then its message is in the text."""


class ProtocolError(Error, builtins.ConnectionError):
    """The peer broke the protocol. Only its connection is closed."""


class HandshakeError(Error, builtins.ConnectionError):
    """The peer is another program, or has another version."""


class TruncatedStreamError(Error, EOFError):
    """The connection was lost before the end of the stream.

    The batches before the error are valid, but they aren't the whole table.
    """


class FileChangedError(Error, OSError):
    """A file changed while it was being read or served."""


class ArenaFrozenError(Error, BufferError):
    """The arena was published and accepts no more data."""


class ForkError(Error, RuntimeError):
    """The object belongs to the parent process."""


class LeaseLimitError(Error, RuntimeError):
    """The consumer holds more of a stream, or of all streams together, than its limit."""


class TimeoutError(Error, builtins.TimeoutError):
    """The caller's timeout has expired. Reading may be tried again."""


class ClosedError(Error, ValueError):
    """The object, or the server behind it, was closed."""


class PermissionError(Error, builtins.PermissionError):
    """The peer belongs to another user, or a file may not be opened."""


class ResourceError(Error, OSError):
    """The process or the system is out of memory, descriptors, mappings or region numbers, or a limit was exceeded."""


class OutOfMemoryError(ResourceError, MemoryError):
    """Out of memory: the `ResourceError` whose `errno` is `ENOMEM`."""


class SystemError(Error, OSError):
    """A system call, or another library's stream, failed, and no other class fits. `errno` has the error's number.

    Every error of Crossdock that is an `OSError` has the `errno` of the failed call, if it is known.
    """


class InterruptedError(Error, builtins.InterruptedError):
    """A wait was interrupted. If a Python signal handler raised an exception, that is raised instead, usually
    KeyboardInterrupt."""


class ConsumedError(Error, RuntimeError):
    """A stream that can be read only once was already given to a consumer, or partly read."""


class ConnectionError(Error, builtins.ConnectionError):
    """There is no connection: no server listens at the address, or the connection was refused, rejected or lost."""


class RemoteError(Error, RuntimeError):
    """The peer reported an error. Its message is in the text."""


class UpstreamError(RemoteError):
    """A relay can't reach the server that it fetches from, and doesn't have the table that was asked for."""


class StreamBusyError(Error, RuntimeError):
    """Another thread is reading a stream from this object. Finish or close that stream first."""


class UnsupportedError(Error, NotImplementedError):
    """A driver, or this system, doesn't support the operation. The text names it."""


class ExportError(Error, BufferError):
    """An array can't be exported by this protocol without a change. The text says what to do."""


class ExecutionPlacementError(Error, ValueError):
    """The arrays of one call are in memory that no single queue can access. The text names both sides, and says what to
    do."""
