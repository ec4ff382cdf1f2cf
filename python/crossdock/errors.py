"""What goes wrong, as classes: one for each error code of the C++ library, under one root.

Each is also the built-in exception that fits it best, so that code that knows nothing of Crossdock can catch it too.
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
    "UriError",
]


class Error(Exception):
    """The root of every error that Crossdock raises."""


class InvalidArgumentError(Error, ValueError):
    """A caller's argument is wrong; nothing was done."""


class UriError(Error, ValueError):
    """A URI is malformed, or lacks what its scheme needs."""


class SchemeError(Error, ValueError):
    """No transport speaks this scheme, here or at all."""


class NotFoundError(Error, LookupError):
    """A name isn't in the catalog, or a file or address isn't there."""


class UnsupportedTypeError(Error, TypeError):
    """An Arrow type, or an object, that this version can't carry."""


class InvalidDataError(Error, ValueError):
    """Arrow data that breaks its own rules, or a producer that said so: its words are in the text."""


class ProtocolError(Error, builtins.ConnectionError):
    """The peer broke the protocol; its connection ends, and no other."""


class HandshakeError(Error, builtins.ConnectionError):
    """The peer is something else, or of another version."""


class TruncatedStreamError(Error, EOFError):
    """The connection was lost before the end of the stream.

    What came before it is valid, but it isn't the whole table.
    """


class FileChangedError(Error, OSError):
    """A served file changed under its readers."""


class ArenaFrozenError(Error, BufferError):
    """The arena was published; it takes no more data."""


class ForkError(Error, RuntimeError):
    """The object belongs to the parent process."""


class LeaseLimitError(Error, RuntimeError):
    """The consumer holds more of the stream than its limit, or more of all streams."""


class TimeoutError(Error, builtins.TimeoutError):
    """The time given by the caller is over. Reading may be tried again."""


class ClosedError(Error, ValueError):
    """The object, or the server behind it, was closed."""


class PermissionError(Error, builtins.PermissionError):
    """Another user, or a file that may not be opened."""


class ResourceError(Error, OSError):
    """Out of memory, descriptors, mappings or region numbers."""


class OutOfMemoryError(ResourceError, MemoryError):
    """Out of memory: the `ResourceError` whose `errno` is `ENOMEM`."""


class SystemError(Error, OSError):
    """A system call, or another library's stream, failed in a way that has no name of its own; `errno` has its number.

    Every error of ours that is an `OSError` has the `errno` of what failed, where it is known.
    """


class InterruptedError(Error, builtins.InterruptedError):
    """A wait was interrupted. Python code sees what its signal handler raised instead, as a rule KeyboardInterrupt."""


class ConsumedError(Error, RuntimeError):
    """A one-shot stream was given to somebody already, or read in part."""


class ConnectionError(Error, builtins.ConnectionError):
    """No connection: nobody listens, or it was refused or lost."""


class RemoteError(Error, RuntimeError):
    """The other end reported an error; its words are in the text."""


class StreamBusyError(Error, RuntimeError):
    """A stream is under way on this object, in another thread; finish or close it first."""


class UnsupportedError(Error, NotImplementedError):
    """A driver, or this system, can't do what was asked; the text names it."""


class ExportError(Error, BufferError):
    """An array can't be handed over by this protocol as it is; the text says what to do."""


class ExecutionPlacementError(Error, ValueError):
    """Arrays of one call lie where no one queue may work on them; the text names both sides, and what to do."""
