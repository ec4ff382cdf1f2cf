"""Serving tables by name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from crossdock import _log_thread, _native, _sources
from crossdock._options import checked_flag, checked_name, checked_uri, milliseconds, secret, trusted_users
from crossdock.errors import Error, InvalidArgumentError

if TYPE_CHECKING:
    from types import TracebackType

    from crossdock._typing import Mode, Source, Stability, Wait

__all__ = ["Server", "serve"]

_MODES = ("auto", "table", "live")
_STABILITIES = ("trust", "snapshot")


def _kind(source: object, mode: str) -> Literal["file", "callable", "table", "live"]:
    """What a source is published as.

    Anything that can tell its length, or is one array, is there already: a table. A stream without a length may never
    end, and can be read once: live.
    """
    if mode not in _MODES:
        raise InvalidArgumentError(f"mode is one of {', '.join(_MODES)}; it was {mode!r}")
    kind = _sources.kind(source)
    if kind == "arrow":
        if mode != "auto":
            return "table" if mode == "table" else "live"
        return "table" if hasattr(source, "__len__") or _sources.is_array(source) else "live"
    if mode != "auto":
        raise InvalidArgumentError(f"mode={mode!r} is for Arrow objects; this source is a {kind}: leave mode out")
    return kind


class Server:
    """Serves tables by name to other processes, over shared memory or TCP. Made by `serve()`.

    Use it as a context manager, or `close()` it; at the latest it is closed when the interpreter exits. A callable
    that refers to its own server keeps that server alive until then.

    Thread-safe. After a fork it belongs to the parent: in the child its methods raise `ForkError`.
    """

    def __init__(
        self,
        uri: str | Iterable[str] = "shm:",
        *,
        window: int = 64,
        lease_limit: int = 1 << 30,
        lease_patience: float | None = 0.01,
        max_leases: int = 1 << 20,
        max_streams: int = 1024,
        max_connections: int = 1024,
        source_threads: int = 64,
        wait: Wait = "auto",
        users: Literal["any"] | Iterable[int] | None = None,
        token: str | None = None,
        checksum: bool | None = None,
        stable: Stability = "trust",
        limits: _native.Limits | None = None,
    ) -> None:
        if not 1 <= window < 2**32:
            raise InvalidArgumentError(f"window is a number of messages from 1 on; it was {window}")
        if not 1 <= lease_limit < 2**64:
            raise InvalidArgumentError(f"lease_limit is a number of bytes from 1 on; it was {lease_limit}")
        if not 1 <= max_leases < 2**64:
            raise InvalidArgumentError(f"max_leases is a number of buffers from 1 on; it was {max_leases}")
        if not 1 <= max_streams < 2**32:
            raise InvalidArgumentError(f"max_streams is a number of streams from 1 on; it was {max_streams}")
        if not 0 <= max_connections < 2**32:
            raise InvalidArgumentError(f"max_connections is a number from 0, no limit, on; it was {max_connections}")
        if not 1 <= source_threads < 2**16:
            raise InvalidArgumentError(f"source_threads is a number of threads from 1 on; it was {source_threads}")
        self._stable = _checked_stability(stable)
        any_user, other_users = trusted_users(users)
        patience_ms = milliseconds(lease_patience, "lease_patience")
        many = isinstance(uri, Iterable) and not isinstance(uri, (str, bytes))
        uris = [checked_uri(one) for one in (uri if many else (uri,))]  # type: ignore[arg-type]
        if token is not None and uris and all(one.lower().startswith("shm:") for one in uris):
            raise InvalidArgumentError(
                "token is for tcp, and this server listens only over shm:, where the user id decides: leave token out; "
                "users names the users that may connect"
            )
        self._native = _native.Server(
            uris,
            window,
            lease_limit,
            patience_ms,
            max_leases,
            max_streams,
            max_connections,
            source_threads,
            wait,
            any_user,
            other_users,
            secret(token),
            checked_flag(checksum, "checksum"),
            limits or _native.Limits(),
        )
        _log_thread.start()

    @property
    def uri(self) -> str:
        """What consumers connect to, as in "shm:flights": the first, if the server listens at several.

        It is an address alone, and the same for every server that is started at that address.
        """
        return self._native.uri

    @property
    def uris(self) -> list[str]:
        """The URIs of all places that the server listens at."""
        return self._native.uris

    @property
    def locations(self) -> list[str]:
        """The same as location URIs, as the Dissociated IPC specification defines them: with want_data and free_data.

        For peers that read these from the URI. Each start of a server has others.
        """
        return self._native.locations

    @property
    def closed(self) -> bool:
        """True after `close()`."""
        return self._native.closed

    def publish(
        self,
        name: str,
        source: Source,
        *,
        mode: Mode = "auto",
        stable: Stability | None = None,
        replace: bool = False,
    ) -> None:
        """Offers `source` under `name`. See `serve()` for what a source may be.

        A table is read whole before this returns: copied once into shared memory, or not at all if it lies in an
        `Arena`, which is frozen by that. A live stream and a callable are read on a thread of the server's own, once
        a consumer asks.

        mode: "table" reads a one-shot stream whole now; "live" sends an object that could be a table batch by batch,
        to one consumer.
        stable: for a path, how far the file may be relied on: "trust" passes its descriptor, without a copy;
        "snapshot" copies it once, now. None: as the server was told.
        replace: take the place of what is published under that name, if anything is. Consumers that ask find either
        the old source or the new one, never neither; streams under way go on with the old one. If this raises, the old
        one stays. A client with two connections asks on each, and may meet both: use another name for such clients.
        """
        checked_name(name)
        if not isinstance(replace, bool):
            raise TypeError(f"replace is True or False, not {type(replace).__name__}")
        kind = _kind(source, mode)
        if stable is not None:
            _checked_stability(stable)
            if kind != "file":
                raise InvalidArgumentError(f"stable is for paths; this source is a {kind}")
        if kind == "file":
            path = os.fsencode(source)  # type: ignore[arg-type]
            if b"\0" in path:
                raise InvalidArgumentError(f"the path {source!r} has a NUL byte in it")
            self._native.publish_file(name, path, (stable or self._stable) == "snapshot", replace)
        elif kind == "callable":
            self._native.publish_callable(name, source, replace)
        elif kind == "table":
            self._native.publish_table(name, source, replace)
        else:
            self._native.publish_live(name, source, replace)

    def withdraw(self, name: str) -> None:
        """New consumers no longer find `name`. Streams under way go on, and batches stay valid."""
        self._native.withdraw(checked_name(name))

    def stats(self) -> dict[str, Any]:
        """What each source cost and what each consumer holds: a snapshot in plain dicts and lists.

        "sources": name, kind, rows, bytes, bytes_copied, consumers. "consumers": pid, peer, name, batches, rows,
        bytes, window, in_flight, leases, leased_bytes, oldest_lease (seconds, or None), bytes_by_value. And the counts
        "connections" (all that there were, also those that have ended), "protocol_errors", "bitmap_bytes_copied".
        """
        return self._native.stats()

    def close(self) -> None:
        """Ends every stream under way with an error at its consumer, removes the socket, and waits for the sources'
        threads.

        Batches that consumers hold stay valid. May be called twice. Ctrl-C ends the wait for a source; the server is
        closed then all the same, and closing again waits on.
        """
        self._native.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<crossdock.Server {self.uri}{' (closed)' if self.closed else ''}>"


def _checked_stability(stable: str) -> str:
    if stable not in _STABILITIES:
        raise InvalidArgumentError(f"stable is one of {', '.join(_STABILITIES)}; it was {stable!r}")
    return stable


def serve(
    sources: Mapping[str, Source] | None = None,
    uri: str | Iterable[str] = "shm:",
    *,
    window: int = 64,
    lease_limit: int = 1 << 30,
    lease_patience: float | None = 0.01,
    max_leases: int = 1 << 20,
    max_streams: int = 1024,
    max_connections: int = 1024,
    source_threads: int = 64,
    wait: Wait = "auto",
    users: Literal["any"] | Iterable[int] | None = None,
    token: str | None = None,
    checksum: bool | None = None,
    stable: Stability = "trust",
    limits: _native.Limits | None = None,
) -> Server:
    """Starts a server that offers `sources` by name, and returns it.

    A source is one of:

    - an object with `__len__` and an Arrow PyCapsule method, or with one for arrays (a pyarrow table, a polars frame,
      an array): a table, read whole now and shared by all consumers;
    - a list or tuple of batches of one schema: a table, too;
    - another object with an Arrow PyCapsule method for streams (a record batch reader): a live stream for one
      consumer, batch by batch as it comes; a second consumer gets `ConsumedError`;
    - the path of an uncompressed Arrow IPC file or stream file: its descriptor is passed, without a copy (see
      `stable`);
    - a callable without arguments that gives one of the first three: called for each consumer, on the server's
      threads: calls for one stream may come from several of these, one at a time.

    uri: "shm:flights" is a name of this user's own, and "shm:" picks one; "shm:/run/user/1000/x.sock" is a path;
        "tcp:" picks a port of this machine's loopback; "tcp://10.0.0.1:7700", or "tcp://*:7700" for all addresses,
        serves other machines. `server.uri` is what consumers connect to.
        Several URIs: the server listens at all of them, see `server.uris`.
    window: messages that a consumer may be behind before its stream pauses.
    lease_limit: bytes of live streams' memory that one consumer may hold, over all its streams, from 1 on; of one
        stream two batches always fit, the one in hand and the next. A consumer is a process of this machine, with all
        its connections; over tcp, a connection.
    lease_patience: seconds that a consumer which took everything may sit at that limit until batches come to it by
        value, into its own memory, as long as it frees nothing; None: for ever, the stream waits.
    max_leases: buffers, of tables and files too, that one connection may hold when it asks for another stream, from 1
        on; at the limit that stream is a `LeaseLimitError`.
    max_streams: streams that one consumer may have at once, from 1 on: those that it reads, those of which it holds
        batches, and those that it has left while their source is in a call; another one is a `LeaseLimitError`.
    max_connections: connections, of all clients together, beyond which newcomers are rejected with a
        `ConnectionError` that says so; 0: no limit. A client has one, and one more for each stream it reads at once. A
        stream whose consumer has gone counts as one until its source is out of the call that it is in.
    source_threads: threads that read live sources, from 1 on: how many feeds can wait for their next event at once.
        One consumer's take half of them at most. A stream whose source can't begin for 3 s, because no call returns,
        ends with a `ResourceError`.
    wait: how the server's thread waits: "block" sleeps when nothing comes, "spin" never (a whole core), "auto" spins a
        little first.
    users: user ids that may connect beside our own, or "any".
    token: over tcp, a secret that clients must know; it is proved, never sent. None: all who reach the port are
        served. Over shm: the user id decides, and no token is asked for; where no URI is of tcp, giving one is an
        `InvalidArgumentError`.
    checksum: over tcp, a CRC-32C of all that passes, so that bytes changed on the way end the connection and aren't
        taken for data. None: with clients that ask for it. True: with all; a client that knows of none is refused
        (`HandshakeError`). False: never.
    stable: "trust" or "snapshot", for sources that are paths; see `Server.publish()`.
    limits: how large and how deep what such files hold may be; None: as `Limits()` has it.

    The server logs to the logger "crossdock", whose level is read when it starts. Warnings, such as wrong tokens and
    clients that break the protocol, go to stderr where the program has set up no logging.
    """
    if sources is not None and not isinstance(sources, Mapping):
        raise InvalidArgumentError(
            "sources are names with what they name, as in {'flights': 'flights.arrow'}; "
            f"this is a {type(sources).__name__}"
        )
    server = Server(
        uri,
        window=window,
        lease_limit=lease_limit,
        lease_patience=lease_patience,
        max_leases=max_leases,
        max_streams=max_streams,
        max_connections=max_connections,
        source_threads=source_threads,
        wait=wait,
        users=users,
        token=token,
        checksum=checksum,
        stable=stable,
        limits=limits,
    )
    try:
        for name, source in (sources or {}).items():
            try:
                server.publish(name, source)
            except Error as error:
                error.add_note(f"while publishing {name!r}")
                raise
    except BaseException:
        server.close()
        raise
    return server
