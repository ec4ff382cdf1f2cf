"""Getting tables from a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from crossdock import _native
from crossdock._options import (
    checked_flag,
    checked_name,
    checked_uri,
    limit,
    milliseconds,
    secret,
    trusted_users,
)
from crossdock.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from crossdock._typing import Validation, Wait
    from crossdock.aio import AsyncRecordBatchReader
    from crossdock.arena import Arena

__all__ = ["Client", "connect"]


class Client:
    """A connection to a server. Made by `connect()`.

    Thread-safe; several readers at once are fine. Readers and batches outlive it. After a fork it belongs to the
    parent: in the child its methods raise `ForkError`.
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        metadata: str | None = None,
        data: str | None = None,
        timeout: float | None = 10.0,
        users: Literal["any"] | Iterable[int] | None = None,
        token: str | None = None,
        checksum: bool | None = None,
    ) -> None:
        if (uri is None) == (metadata is None) or (metadata is None) != (data is None):
            raise InvalidArgumentError("give one URI, or two: metadata= and data=")
        for one in (uri, metadata, data):
            if one is not None:
                checked_uri(one)
        any_user, other_users = trusted_users(users)
        self._uri = uri if uri is not None else f"{metadata} and {data}"
        self._closed = False
        first = uri if uri is not None else metadata
        assert first is not None
        timeout_ms = milliseconds(timeout, "timeout")
        self._native = _native.Client(
            first, data, timeout_ms, any_user, other_users, secret(token), checked_flag(checksum, "checksum")
        )

    @property
    def closed(self) -> bool:
        """True after `close()`."""
        return self._closed

    def list(self, *, max_entries: int = 1 << 20, max_bytes: int = 256 << 20) -> list[_native.CatalogEntry]:
        """The server's catalog: name, schema, rows, bytes and device of each table.

        max_entries, max_bytes: what to take from the server at most, in entries and in memory for their names and
            schemas. A catalog that is larger is a `ResourceError`. Text in it that isn't UTF-8 is an
            `InvalidDataError` that names the row.
        """
        return self._native.list(limit(max_entries, "max_entries"), limit(max_bytes, "max_bytes"))

    def get(
        self,
        name: str,
        columns: Iterable[str] | None = None,
        wait: Wait = "auto",
        timeout: float | None = None,
        validation: Validation | None = None,
        limits: _native.Limits | None = None,
        arena: Arena | None = None,
    ) -> _native.RecordBatchReader:
        """A stream of the batches of `name`. Returns when its schema is there.

        columns: top-level fields to keep, in this order; None: all.
        wait: how reading waits: "block" sleeps when nothing comes, "spin" never (a whole core), "auto" spins a
        little first.
        timeout: seconds that each batch may take; None: for ever. After a `TimeoutError` reading may be tried again.
            The wait for the schema, in this call, is bounded by the `timeout` of `connect()`.
        validation: "structure" makes sure that nothing out of bounds is reached by way of lengths and of first and last
            offsets; "full" looks at every offset, index and text; None: full, if the data comes from another user or
            another machine.
        limits: how large and how deep what the server sends may be; None: as `Limits()` has it.
        arena: where batches that come over a network are received, so that publishing them copies nothing; over shared
            memory they stay where they are. More than its `reserve` is a `ResourceError`. Don't publish it while this
            stream is being read.
        """
        return self._start(name, columns, wait, timeout, validation, limits, arena)

    def aget(
        self,
        name: str,
        columns: Iterable[str] | None = None,
        *,
        validation: Validation | None = None,
        limits: _native.Limits | None = None,
        arena: Arena | None = None,
    ) -> AsyncRecordBatchReader:
        """As `get()`, for asyncio: `async for batch in client.aget(name)`. Nothing is asked for before the first batch
        is. Cancelling the task that waits ends the wait at once; the stream may be read on, or closed with `aclose()`.
        """
        from crossdock.aio import AsyncRecordBatchReader  # asyncio takes longer to import than all the rest

        return AsyncRecordBatchReader(
            lambda interrupt: self._start(name, columns, "auto", None, validation, limits, arena, interrupt=interrupt)
        )

    def _watch(self, name: str, log: _native.StreamLog, timeout: float | None) -> _native.RecordBatchReader:
        """As `get()`, with `log` looking on."""
        return self._start(name, None, "auto", timeout, None, None, None, log=log)

    def _start(
        self,
        name: str,
        columns: Iterable[str] | None,
        wait: str,
        timeout: float | None,
        validation: str | None,
        limits: _native.Limits | None,
        arena: Arena | None,
        *,
        log: _native.StreamLog | None = None,
        interrupt: _native.Interrupt | None = None,
    ) -> _native.RecordBatchReader:
        if isinstance(columns, str):
            raise TypeError(f"columns is a list of names, not one name; give [{columns!r}]")
        return self._native.get(
            checked_name(name),
            None if columns is None else [*columns],
            wait,
            milliseconds(timeout, "timeout"),
            validation,
            limits or _native.Limits(),
            None if arena is None else arena._native,
            log,
            interrupt,
        )

    def close(self) -> None:
        """Nothing new starts. Readers under way go on; each connection stays until its last batch is released."""
        self._closed = True
        self._native.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<crossdock.Client {self._uri}{' (closed)' if self._closed else ''}>"


def connect(
    uri: str | None = None,
    *,
    metadata: str | None = None,
    data: str | None = None,
    timeout: float | None = 10.0,
    users: Literal["any"] | Iterable[int] | None = None,
    token: str | None = None,
    checksum: bool | None = None,
) -> Client:
    """Connects to the server at `uri`, as `crossdock serve` prints it or `server.uri` says it.

    metadata, data: instead of `uri`, where metadata and bodies are to come over a connection each, from one server or
        from two that publish the same under the same names; live streams need one.
    timeout: seconds for connecting, and for each answer that `list()` and `get()` wait for; None: for ever.
    users: user ids whose servers are trusted to feed us, beside our own and root, or "any".
    token: over tcp, the secret that the server asks for; over shm: the user ids decide, and it isn't used.
    checksum: over tcp, a CRC-32C of all that passes; bytes changed on the way raise `ProtocolError` and are never given
        out. None: where the server asks for it. True: always, and a server that knows of none is refused
        (`HandshakeError`). False: never.
    """
    return Client(uri, metadata=metadata, data=data, timeout=timeout, users=users, token=token, checksum=checksum)
