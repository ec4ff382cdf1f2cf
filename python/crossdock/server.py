"""The server, which serves tables by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from crossdock import _deferred_thread, _native, _sources
from crossdock._options import check_schemes, checked_name, checked_uri, count, milliseconds, transports
from crossdock.errors import Error, InvalidArgumentError
from crossdock.file import _encoded

if TYPE_CHECKING:
    from crossdock._typing import Mode, Source, Stability, Wait

__all__ = ["Server", "serve"]

_MODES = ("auto", "table", "live")
_STABILITIES = ("trust", "snapshot")


def _kind(source: object, mode: str) -> Literal["file", "callable", "table", "live"]:
    """Returns the kind that a source is published as.

    An object with a length, or a single array, is complete: it is a table. A stream without a length may never end, and
    can be read only once: it is live.
    """
    if mode not in _MODES:
        raise InvalidArgumentError(f"mode must be one of {', '.join(_MODES)}; it was {mode!r}")
    kind = _sources.kind(source)
    if kind == "arrow":
        if mode != "auto":
            return "table" if mode == "table" else "live"
        return "table" if hasattr(source, "__len__") or _sources.is_array(source) else "live"
    if mode != "auto":
        raise InvalidArgumentError(f"mode={mode!r} is for Arrow objects; this source is a {kind}: leave mode out")
    return kind


class Server:
    """Serves tables by name to other processes, over shared memory or a network: `serve()` starts one that offers
    `sources`.

    A source is one of:

    - an object with `__len__` and an Arrow PyCapsule method, or with an Arrow method for arrays (a pyarrow table, a
      polars frame, an array): a table, which is read completely now and shared by all consumers;
    - a list or tuple of batches of one schema: also a table;
    - another object with an Arrow PyCapsule method for streams (a record batch reader), or an iterator of batches of
      one schema (a generator, of which the first batch is taken now): a live stream for one consumer, sent batch by
      batch as it is read; a second consumer gets `ConsumedError`;
    - the path of an uncompressed Arrow IPC file or stream file: its descriptor is passed, without a copy (see
      `stable`);
    - a callable without arguments that returns one of the first three: called for each consumer, on the server's
      threads. Several of these threads may call one stream, one at a time.

    The data may be on any device that Crossdock has a driver for: it is copied once, from the device into the memory
    that is published.

    uri: "shm:flights" is a name that belongs to this user, and "shm:" picks a name; "shm:/run/user/1000/x.sock" is a
        path; "tcp:" picks a port of this machine's loopback; "tcp://10.0.0.1:7700", or "tcp://*:7700" for all
        addresses, serves other machines, and so do "ucx://10.0.0.1:7700", over UCX, and "fabric://10.0.0.1:7700",
        whose data goes over libfabric. Consumers connect to `server.uri`.
        Several URIs: the server listens at all of them, see `server.uris`.
    window: the number of messages that a consumer may be behind before its stream pauses.
    lease_limit: bytes of live streams' memory that one consumer may hold, over all its streams, at least 1. Two batches
        of one stream are always allowed, the current one and the next. A consumer is a process of this machine, with
        all its connections; over tcp, ucx and fabric, a connection.
    lease_patience: seconds that a consumer that has read all its batches may stay at that limit without freeing
        anything, before it gets batches by value, in its own memory. None: no limit, the stream waits. It also waits
        without limit for a consumer that takes no bodies by value (`connect(way="map")`).
    max_leases: buffers, also of tables and files, that one connection may hold when it asks for another stream, at
        least 1. At the limit, that stream fails with `LeaseLimitError`.
    max_streams: streams that one consumer may have at once, at least 1: those that it reads, those of which it holds
        batches, and those that it has closed while their source is still in a call. Another stream fails with
        `LeaseLimitError`.
    max_connections: connections of all clients together. New clients beyond this are rejected with a `ConnectionError`
        that says so. 0: no limit. A client has one connection, and one more for each stream that it reads at the same
        time. A stream whose consumer has disconnected counts as one until the current call of its source returns.
    source_threads: threads that read live sources, at least 1. This is the number of sources that can wait for data at
        the same time. The sources of one consumer use at most half of them. A stream whose source can't start for 3 s,
        because no call returns, ends with `ResourceError`.
    wait: how the server's thread waits: "block" sleeps while nothing arrives, "spin" never sleeps (and uses a whole
        core), "auto" spins for a short time before it sleeps.
    users: ids of users that may connect beside the own user, or "any".
    token: over tcp, ucx and fabric, a secret that clients must know. They prove that they know it; it is never sent.
        None: every client that reaches the port is served. Over shm the user id decides, and no token is demanded; a
        token without any other URI raises `InvalidArgumentError`.
    checksum: over tcp, protect all messages with a CRC-32C: bytes that changed on the way end the connection and are
        never taken for data. None: with clients that ask for it. True: with all clients; a client that doesn't support
        it is rejected (`HandshakeError`), and a URI of ucx or fabric, which have none, or of shm alone, which needs
        none, is an `InvalidArgumentError`. False: never.
    remote_reads: "trusted" lets clients that follow the Dissociated IPC Protocol strictly, over ucx, read tables from
        this process's memory; see `location()`. Every process that reaches the server's address can then read and
        write all memory of this process, and a client that is killed in the middle of a read can end it. A token is no
        protection from that, and can't be given together with it. Clients of Crossdock's never need it.
    stable: "trust" or "snapshot", for sources that are paths; see `Server.publish()`.
    limits: limits on the size and nesting of such files; None: those of `Limits()`.

    The server logs to the logger "crossdock", whose level is read when the server starts. If the program has configured
    no logging, warnings are written to stderr, for example about wrong tokens and clients that break the protocol.

    Use it as a context manager, or call `close()`; otherwise it is closed when the interpreter exits. A callable that
    refers to its own server keeps that server alive until then.

    Thread-safe. After a fork it belongs to the parent: in the child its methods raise `ForkError`.
    """

    def __init__(
        self,
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
        remote_reads: Literal["trusted"] | None = None,
        stable: Stability = "trust",
        limits: _native.Limits | None = None,
    ) -> None:
        if sources is not None and not isinstance(sources, Mapping):
            raise InvalidArgumentError(
                "sources must be a mapping from names to sources, as in {'flights': 'flights.arrow'}, not "
                f"{type(sources).__name__}; give a URI as uri="
            )
        many = isinstance(uri, Iterable) and not isinstance(uri, (str, bytes))
        uris = [checked_uri(one) for one in (uri if many else (uri,))]  # type: ignore[arg-type]
        if token is not None and uris and all(one.lower().startswith("shm:") for one in uris):
            raise InvalidArgumentError(
                "token is for tcp, ucx and fabric, and this server listens only over shm:, where the user id decides: "
                "leave token out; users names the users that may connect"
            )
        check_schemes(uris, checksum, remote_reads)
        self._stable = _checked_stability(stable)
        options = _native.ServerOptions()
        options.uris = uris
        options.window = count(window, "window", "messages", bits=32)
        options.lease_limit = count(lease_limit, "lease_limit", "bytes")
        options.lease_patience_ms = milliseconds(lease_patience, "lease_patience")
        options.max_leases = count(max_leases, "max_leases", "buffers")
        options.max_streams = count(max_streams, "max_streams", "streams", bits=32)
        options.max_connections = count(max_connections, "max_connections", "connections", least=0, bits=32)
        options.source_threads = count(source_threads, "source_threads", "threads", bits=16)
        options.wait = wait
        options.transports = transports(users, token, checksum, remote_reads)
        options.limits = limits or _native.Limits()
        self._native = _native.Server(options)
        _deferred_thread.start()
        try:
            for name, source in (sources or {}).items():
                try:
                    self.publish(name, source)
                except Error as error:
                    error.add_note(f"while publishing {name!r}")
                    raise
        except BaseException:
            self.close()
            raise

    @property
    def uri(self) -> str:
        """The URI that consumers connect to, as in "shm:flights". The first one, if the server listens at several.

        It is only an address, and the same for every server that is started at that address.
        """
        return self._native.uri

    @property
    def uris(self) -> list[str]:
        """All URIs that the server listens at."""
        return self._native.uris

    @property
    def locations(self) -> list[str]:
        """The same as location URIs of the Dissociated IPC specification, with want_data and free_data.

        For peers that read these two from the URI. They are different at each start of a server.
        """
        return self._native.locations

    def location(self, name: str) -> str:
        """Returns a location URI with a remote_handle: clients strictly as specified read the table's bodies by it.

        It needs `remote_reads="trusted"` and an address of ucx, and a table in one piece of memory of the host; else it
        raises `UnsupportedError`. It is good until the table is withdrawn or replaced.
        """
        return self._native.location(checked_name(name))

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
        times: int | None = None,
    ) -> None:
        """Offers `source` under `name`. See `serve()` for what a source may be.

        A table is read completely before this returns. It is copied once into shared memory, also from a device, or not
        at all if it is in an `Arena`, which this freezes. A live stream and a callable are read on a thread of the
        server when a consumer asks.

        mode: "table" reads a one-shot stream completely now; "live" sends an object that could be a table batch by
            batch, to one consumer.
        stable: for a path, whether the file may change: "trust" passes its descriptor, without a copy, and relies on an
            unchanged file; "snapshot" copies the file once, now. None: the option of the server.
        replace: replaces the source that is published under that name, if there is one. A consumer that asks gets
            either the old source or the new one; there is no moment without a source. Streams under way continue with
            the old one. If this raises, the old one stays. A client with two connections asks on each of them, and may
            get both sources: use another name for such clients.
        times: for a table or a file that a known number of consumers is to get: once it was requested so often, the
            name is withdrawn, and the memory is freed with the last batch. None: it stays.
        """
        checked_name(name)
        if not isinstance(replace, bool):
            raise TypeError(f"replace must be True or False, not {type(replace).__name__}")
        kind = _kind(source, mode)
        if stable is not None:
            _checked_stability(stable)
            if kind != "file":
                raise InvalidArgumentError(f"stable is for paths; this source is a {kind}")
        uses = 0 if times is None else count(times, "times", "requests")
        if uses and kind not in ("file", "table"):
            raise InvalidArgumentError(f"times is for tables and files; this source is a {kind}")
        if kind == "file":
            path = _encoded(source)  # type: ignore[arg-type]
            self._native.publish_file(name, path, (stable or self._stable) == "snapshot", replace, uses)
        elif kind == "callable":
            self._native.publish_callable(name, source, replace)
        elif kind == "table":
            self._native.publish_table(name, source, replace, uses)
        else:
            self._native.publish_live(name, source, replace)

    def withdraw(self, name: str) -> None:
        """Removes `name` from the catalog, so that new consumers don't find it. Streams under way continue, and batches
        stay valid."""
        self._native.withdraw(checked_name(name))

    def stats(self) -> dict[str, Any]:
        """Returns the cost of each source and the leases of each consumer: a snapshot in plain dicts and lists.

        "sources": name, kind, rows, bytes, bytes_copied, consumers. "consumers": pid, peer, name, batches, rows,
        bytes, window, in_flight, leases, leased_bytes, oldest_lease (seconds, or None), bytes_by_value, carrier (what
        moves the bytes, as "shm"), way (how the bodies of its stream went when it began: "map", "read" or "message";
        None before the first, and of a connection without bodies) and why (the reason for that way). The counts
        "connections" (all since the start, including closed ones), "protocol_errors", "bitmap_bytes_copied".
        """
        return self._native.stats()

    def close(self) -> None:
        """Closes the server: ends every stream under way with an error at its consumer, removes the socket, and waits
        for the sources' threads.

        Batches that consumers hold stay valid. May be called twice. Ctrl-C ends the wait for a source; the server is
        closed nevertheless, and a second call continues the wait.
        """
        self._native.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<crossdock.Server {self.uri}{' (closed)' if self.closed else ''}>"


def _checked_stability(stable: str) -> str:
    if stable not in _STABILITIES:
        raise InvalidArgumentError(f"stable must be one of {', '.join(_STABILITIES)}; it was {stable!r}")
    return stable


serve = Server
