"""Getting tables from a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from crossdock import _native
from crossdock._options import milliseconds, trusted_users

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from crossdock._typing import Wait

__all__ = ["Client", "connect"]


class Client:
    """A connection to a server. Made by `connect()`.

    Thread-safe; several readers at once are fine. Readers and batches outlive it. After a fork it belongs to the
    parent: in the child its methods raise `ForkError`.
    """

    def __init__(
        self, uri: str, *, timeout: float | None = 10.0, users: Literal["any"] | Iterable[int] | None = None
    ) -> None:
        any_user, other_users = trusted_users(users)
        self._uri = uri
        self._closed = False
        self._native = _native.Client(uri, milliseconds(timeout, "timeout"), any_user, other_users)

    @property
    def closed(self) -> bool:
        """True after `close()`."""
        return self._closed

    def list(self) -> list[_native.CatalogueEntry]:
        """The server's catalogue: name, schema, rows, bytes and device of each table."""
        return self._native.list()

    def get(
        self,
        name: str,
        columns: Iterable[str] | None = None,
        wait: Wait = "auto",
        timeout: float | None = None,
    ) -> _native.RecordBatchReader:
        """A stream of the batches of `name`. Returns when its schema is there.

        columns: top-level fields to keep, in this order; None: all.
        wait: how reading waits: "block" sleeps at once, "spin" never (a whole core), "auto" spins a little first.
        timeout: seconds that each batch may take; None: for ever. After a `TimeoutError` reading may be tried again.
        """
        if isinstance(columns, str):
            raise TypeError(f"columns is a list of names, not one name; give [{columns!r}]")
        names = None if columns is None else [*columns]
        return self._native.get(name, names, wait, milliseconds(timeout, "timeout"))

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


def connect(uri: str, *, timeout: float | None = 10.0, users: Literal["any"] | Iterable[int] | None = None) -> Client:
    """Connects to the server at `uri`, as `crossdock serve` prints it or `server.uri` says it.

    timeout: seconds for connecting, and for each answer that `list()` and `get()` wait for; None: for ever.
    users: user ids whose servers are trusted to feed us, beside our own and root, or "any".
    """
    return Client(uri, timeout=timeout, users=users)
