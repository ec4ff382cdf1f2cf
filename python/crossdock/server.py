"""The server, which serves tables and tensors by name."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from crossdock import _loading, _native, _nested, _sources
from crossdock._files import encoded_path
from crossdock._options import (
    check_schemes,
    check_tls,
    checked_limits,
    checked_name,
    checked_uri,
    checked_wait,
    count,
    is_uri,
    milliseconds,
    one_of,
    stats_for_all,
    transports,
)
from crossdock._text import class_of, quoted
from crossdock.errors import InvalidArgumentError
from crossdock.table import Table

if TYPE_CHECKING:
    from crossdock._typing import Mode, Source, Stability, Wait
    from crossdock.metrics import Metrics
    from crossdock.tls import TLS

__all__ = ["Server", "serve"]

_Name = TypeVar("_Name", bound=str | bytes)

_KINDS = {"tensor": "an array", "tensors": "a mapping of arrays"}


def _kind(source: object, mode: str) -> Literal["file", "callable", "table", "live", "tensor", "tensors"]:
    """Returns the kind that a source is published as.

    An object with a length, or a single array, is complete: it is a table. A stream without a length may never end, and
    can be read only once: it is live.
    """
    kind = _sources.kind(source)
    if kind == "tensor" and mode == "table" and _sources.is_tensor(source):
        return "table"
    if kind in ("tensor", "tensors") and mode in ("auto", "tensor"):
        return kind
    if kind == "arrow":
        if mode in ("table", "live", "tensor"):
            return mode  # type: ignore[return-value]
        is_table = hasattr(source, "__len__") or _sources.is_array(source) or isinstance(source, Table)
        return "table" if is_table else "live"
    if mode != "auto":
        raise InvalidArgumentError(
            f"mode={quoted(mode)} isn't for this source, which is {_KINDS.get(kind, f'a {kind}')}: leave mode out"
        )
    return kind


class Server:
    """Serves tables and tensors by name to other processes, over shared memory or a network. `serve()` starts a server
    that offers `sources`.

    A source is one of:

    - an object with `__len__` and an Arrow PyCapsule method, or with an Arrow method for arrays (a pyarrow table, a
      polars frame, an array): a table, which is read completely now and shared by all consumers;
    - a list or tuple of batches of one schema: also a table;
    - another object with an Arrow PyCapsule method for streams (a record batch reader), or an iterator of batches of
      one schema (a generator, of which the first batch is taken now): a live stream for one consumer, sent batch by
      batch as it is read; a second consumer gets `ConsumedError`;
    - the path of an uncompressed Arrow IPC file or stream file: its descriptor is passed, without a copy (see
      `stable`);
    - the path of a Parquet, CSV or JSON file (one object a line), or of a folder of such files, also with Hive's
      partitions (`year=2026/`); a pyarrow `Dataset`, `Scanner` or `ParquetFile`; a polars `LazyFrame`; a file that is
      open for reading, such as fsspec's; a dictionary of lists, which are columns: a table. pyarrow reads it;
    - a callable without arguments that returns one of the first three: called for each consumer, on the server's
      threads. Several of these threads may call one stream, one at a time;
    - an array that `asarray()` takes and that has no Arrow methods, a `Tensor`, or an object of a class with `Exports`:
      a tensor, which consumers get by `client.tensor()`. It is copied once, now. It isn't copied if it is in an `Arena`
      or a `Pool` and has no gaps;
    - a mapping from names to such arrays, or to mappings of them, such as torch's `state_dict()`: tensors under one
      name, which consumers get by `client.tensors()`.

    A name is a str, or bytes that needn't be text.

    The data may be on any device that Crossdock has a driver for. It is copied once, from the device into the memory
    that is published.

    uri: the address that consumers connect to. "shm:flights" is a name that belongs to this user, and "shm:" picks a
        name. "shm:/run/user/1000/x.sock" is a path. "tcp:" picks a port of this machine's loopback.
        "tcp://10.0.0.1:7700", or "tcp://*:7700" for all addresses, serves other machines. So do
        "tcp+tls://10.0.0.1:7700" over TLS (see `tls`), "ucx://10.0.0.1:7700" over UCX, and "fabric://10.0.0.1:7700",
        whose data is sent over libfabric. Consumers connect to `server.uri`. Several URIs: the server listens at all of
        them, see `server.uris`.
    window: the number of messages that a consumer may be behind before its stream pauses.
    lease_limit: bytes of live streams' memory that one consumer may hold, over all its streams, at least 1. Two batches
        of one stream are always allowed, the current one and the next. A consumer is a process of this machine, with
        all its connections; over tcp, ucx and fabric, a connection.
    lease_patience: seconds that a consumer that has read all its batches may stay at that limit without freeing
        anything. After that it gets batches by value, in its own memory. None: no limit, the stream waits. The stream
        also waits without limit for a consumer that takes no bodies by value (`connect(way="map")`).
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
    token: over networks (tcp, tcp+tls, ucx and fabric), a secret that clients must know. They prove that they know it;
        it is never sent. None: every client that reaches the port is served. Over shm the user id decides, and no token
        is demanded; a token without any other URI raises `InvalidArgumentError`.
    tls: over tcp+tls, and for a Flight server at grpc+tls, the certificate and key of this server, and, if clients must
        have a certificate, their issuers: `TLS(certificate=..., key=..., client_roots=...)`.
    checksum: over tcp, protect all messages with a CRC-32C: bytes that changed on the way end the connection and are
        never taken for data. None: with clients that ask for it. True: with all clients; a client that doesn't support
        it is rejected (`HandshakeError`), and a URI of ucx or fabric, which have none, or of shm alone, which needs
        none, is an `InvalidArgumentError`. False: never.
    remote_reads: "trusted" lets clients that follow the Dissociated IPC Protocol strictly, over ucx, read tables from
        this process's memory; see `location()`. Every process that reaches the server's address can then read and write
        all memory of this process, and a client that is killed in the middle of a read can end this process. A token is
        no protection from that, and can't be given together with it. Clients of Crossdock's never need it.
    stable: "trust" or "snapshot", for sources that are paths; see `Server.publish()`.
    limits: limits on the size and nesting of such files; None: those of `Limits()`.
    flight: "grpc://127.0.0.1:8815": also listens at this address as an Arrow Flight server. Clients find the tables and
        the URIs above there, and any Flight client can read the same tables. Port 0 is a free one, the host "*" every
        address of the machine; see `server.flight_uri`. "grpc+tls://127.0.0.1:8815" encrypts, and needs `tls`. With a
        token, such clients must send it (as a bearer token, or as the password of a login); without TLS it is sent as
        plain text. It needs the module crossdock_flight.so and gRPC's library; otherwise it raises `SchemeError`.
    authenticate: a callable that the Flight server asks whether a user has a password: authenticate(user, password) ->
        bool. A client logs in by `connect(..., login=(user, password))`, or by `authenticate_basic_token()` of
        pyarrow's, and may then call for `login_lifetime` seconds. It is called on threads of the library's, up to 16 at
        once, and `close()` waits for it. If it raises, the login is refused.
    ticket_keys: the keys that sign tickets, with a token or `authenticate`: bytes objects of 16 to 1024 random bytes,
        up to 16 of them. The first one signs, all of them check. Servers that share a key accept each other's tickets.
        None: a random key.
    ticket_lifetime: seconds for which a ticket may be used, any number of times and by everybody who has it.
    login_lifetime: the same for logins.
    puts: which tables the Flight server takes from clients (`Client.put()`, or Flight's DoPut): "new" under names that
        aren't taken, "replace" also in place of others. None: none. A table is published when all of it has arrived.
    max_put: the most bytes of one such table, which are memory of this process; more is a `ResourceError` at the
        client.
    stats: who may ask for the statistics (`client.server_stats()`). None: over shm, processes of this user and of root;
        over networks, clients that have proved the token or a certificate that the server demands. "any": all clients.
    metrics: "127.0.0.1:9464", or "9464" for short: also answers HTTP requests at this address: `/metrics` for
        Prometheus, `/healthz`, and `/readyz`, which is ready once all `sources` are published. Port 0 is a free one,
        the host "*" every address of the machine; see `server.metrics`. Everybody who reaches the address may ask. It
        needs prometheus-client.

    The server logs to the logger "crossdock", whose level is read when the server starts. If the program has configured
    no logging, warnings are written to stderr, for example about wrong tokens and clients that break the protocol.

    Use it as a context manager, or call `close()`; otherwise it is closed when the interpreter exits. A callable that
    refers to its own server keeps that server alive until then.

    Thread-safe. After a fork it belongs to the parent: in the child its methods raise `ForkError`.
    """

    # Begins to listen. `crossdock serve --check` has a check in its place.
    _listen: Callable[[_native.ServerOptions], _native.Server] = staticmethod(_native.Server)

    def __init__(
        self,
        sources: Mapping[_Name, Source] | None = None,
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
        tls: TLS | None = None,
        stable: Stability = "trust",
        limits: _native.Limits | None = None,
        flight: str | None = None,
        puts: Literal["new", "replace"] | None = None,
        max_put: int = 16 << 30,
        authenticate: Callable[[str, str], bool] | None = None,
        ticket_keys: Iterable[bytes] | None = None,
        ticket_lifetime: float = 300.0,
        login_lifetime: float = 12 * 3600.0,
        stats: Literal["any"] | None = None,
        metrics: str | None = None,
    ) -> None:
        if sources is not None and not isinstance(sources, Mapping):
            raise InvalidArgumentError(
                "sources must be a mapping from names to sources, as in {'flights': table} and {'flights': "
                f"'flights.arrow'}}, not {class_of(sources)}{'; give a URI as uri=' if is_uri(sources) else ''}"
            )
        many = isinstance(uri, Iterable) and not isinstance(uri, (str, bytes))
        uris = [checked_uri(one) for one in (uri if many else (uri,))]  # type: ignore[arg-type]
        if token is not None and flight is None and uris and all(one.lower().startswith("shm:") for one in uris):
            raise InvalidArgumentError(
                "token is for networks, and this server listens only over shm:, where the user id decides: "
                "leave token out; users names the users that may connect"
            )
        check_schemes(uris, checksum, remote_reads, None)
        check_tls([*uris, *([] if flight is None else [checked_uri(flight)])], tls, "tls", "tls")
        self._stable = one_of(stable, "stable", "trust", "snapshot")
        options = _native.ServerOptions()
        options.uris = uris
        options.window = count(window, "window", "messages", bits=32)
        options.lease_limit = count(lease_limit, "lease_limit", "bytes")
        options.lease_patience_ms = milliseconds(lease_patience, "lease_patience")
        options.max_leases = count(max_leases, "max_leases", "buffers")
        options.max_streams = count(max_streams, "max_streams", "streams", bits=32)
        options.max_connections = count(max_connections, "max_connections", "connections", least=0, bits=32)
        options.source_threads = count(source_threads, "source_threads", "threads", bits=16)
        options.wait = checked_wait(wait)
        # One that fetches what is offered connects, too.
        end: Literal["server", "both"] = "server" if puts is None else "both"
        options.transports = transports(users, token, checksum, remote_reads, tls, end=end)
        options.limits = checked_limits(limits)
        options.stats_for_all = stats_for_all(stats)
        if flight is not None:
            options.flight_uri = checked_uri(flight)
            options.flight_token = token or ""
            if tls is not None:
                options.flight_tls = tls._native
            one_of(puts, "puts", "new", "replace", None)
            if puts is not None:
                options.flight_puts = puts
            options.flight_max_put = count(max_put, "max_put", "bytes")
            if authenticate is not None:
                if not callable(authenticate):
                    raise TypeError(f"authenticate must be callable, not {class_of(authenticate)}")
                options.flight_login = authenticate
            if ticket_keys is not None:
                if authenticate is None and token is None:
                    raise InvalidArgumentError("ticket_keys are for a Flight server with token= or authenticate=")
                options.flight_ticket_keys = _checked_keys(ticket_keys)
            options.flight_ticket_lifetime = _whole_seconds(ticket_lifetime, "ticket_lifetime")
            options.flight_login_lifetime = _whole_seconds(login_lifetime, "login_lifetime")
        else:
            for option, given in (("puts", puts), ("authenticate", authenticate), ("ticket_keys", ticket_keys)):
                if given is not None:
                    raise InvalidArgumentError(
                        f"{option} is for a Flight server: give flight= too, or leave {option} out"
                    )
        self._native = self._listen(options)
        self._metrics: Metrics | None = None
        try:
            if metrics is not None:
                from crossdock.metrics import Metrics

                self._metrics = Metrics(self, metrics, ready=False)
            for name, source in (sources or {}).items():
                with _publishing(name):
                    self.publish(name, source)
            if self._metrics is not None:
                self._metrics.set_ready(True)
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
        """The same addresses as location URIs of the Dissociated IPC specification, with want_data and free_data.

        They are for peers that read these two from the URI. They are different at each start of a server.
        """
        return self._native.locations

    @property
    def flight_uri(self) -> str | None:
        """The URI of the Arrow Flight server, as in "grpc://127.0.0.1:8815"; None if there is none."""
        return self._native.flight_uri or None

    @property
    def metrics(self) -> Metrics | None:
        """The HTTP server of `metrics`, with its `uri` and `set_ready()`; None if there is none."""
        return self._metrics

    def location(self, name: str | bytes) -> str:
        """Returns a location URI with a remote_handle, by which clients strictly as specified read the table's bodies.

        It needs `remote_reads="trusted"` and an address of ucx, and a table in one piece of memory of the host;
        otherwise it raises `UnsupportedError`. It is valid until the table is withdrawn or replaced.

        name: the name that the table is published under.
        """
        return self._native.location(checked_name(name))

    @property
    def closed(self) -> bool:
        """True after `close()`."""
        return self._native.closed

    def publish(
        self,
        name: str | bytes,
        source: Source,
        *,
        mode: Mode = "auto",
        stable: Stability | None = None,
        replace: bool = False,
        times: int | None = None,
    ) -> None:
        """Offers `source` under `name`. See `serve()` for what a source may be.

        A table is read completely before this returns. It is copied once into shared memory, also from a device. It
        isn't copied if it is in an `Arena`, which this freezes. A live stream and a callable are read on a thread of
        the server when a consumer asks.

        mode: "table" reads a one-shot stream completely now, takes a `Tensor` as a column, and a dictionary of arrays
            as columns; "live" sends an object that could be a table batch by batch, to one consumer; "tensor" takes an
            Arrow array as a tensor.
        stable: for a path, whether the file may change: "trust" passes its descriptor, without a copy, and relies on an
            unchanged file; "snapshot" copies the file once, now. None: the option of the server.
        replace: replaces the source that is published under that name, if there is one. A consumer that asks gets
            either the old source or the new one; there is no moment without a source. Streams under way continue with
            the old one. If this raises, the old one stays. A client with two connections asks on each of them, and may
            get both sources: use another name for such clients.
        times: how often a table, tensors or a file may be requested, if the number of consumers is known. After the
            last request the name is withdrawn, and the memory is freed with the last batch. None: it stays.
        """
        if not isinstance(replace, bool):
            raise TypeError(f"replace must be True or False, not {class_of(replace)}")
        self._native.commit([self._prepare(name, source, mode, stable, replace, times)], [])

    def update(self, sources: Mapping[_Name, Source], *, withdraw: Iterable[str | bytes] = ()) -> None:
        """Publishes all `sources`, also in place of others, and withdraws the names in `withdraw`, in one step.

        All sources are read before the first change, as `publish()` reads them. A consumer that asks finds all of the
        changes or none, and there is no moment without a source. Streams under way continue with the old sources. This
        raises if one of the sources can't be read, or if a name in `withdraw` isn't published (`NotFoundError`); then
        nothing has changed. During the call both the old sources and the new ones need memory.
        """
        if not isinstance(sources, Mapping):
            raise InvalidArgumentError(f"sources must be a mapping from names to sources, not {class_of(sources)}")
        if isinstance(withdraw, (str, bytes)):
            raise TypeError("withdraw must be a list of names, not one of them")
        withdrawn = [checked_name(name) for name in withdraw]
        prepared = []
        for name, source in sources.items():
            with _publishing(name):
                prepared.append(self._prepare(name, source, "auto", None, True, None))
        self._native.commit(prepared, withdrawn)

    def _prepare(
        self,
        name: str | bytes,
        source: Source,
        mode: str,
        stable: str | None,
        replace: bool,
        times: int | None,
        progress: _loading.Progress | None = None,
    ) -> _native.Prepared:
        """Reads a source for `_native.Server.commit()`. progress: gets how much of a file was read, if it is read."""
        published = checked_name(name)
        one_of(stable, "stable", "trust", "snapshot", None)
        one_of(mode, "mode", "auto", "table", "live", "tensor")
        loads = mode != "tensor" and _loading.is_loadable(source, mode)
        kind = _kind(source, mode) if not loads else "live" if mode == "live" else "table"
        if stable is not None and kind != "file":
            raise InvalidArgumentError(f"stable is for paths of Arrow files; this source is a {kind}")
        uses = 0 if times is None else count(times, "times", "requests")
        if uses and kind in ("callable", "live"):
            raise InvalidArgumentError(f"times is for tables, tensors and files; this source is a {kind}")
        if loads:
            return self._prepare_loaded(published, _loading.load(source, progress), kind == "live", replace, uses)
        if kind == "file":
            path = encoded_path(source)  # type: ignore[arg-type]
            with _loading.naming_ending():
                return self._native.prepare_file(published, path, (stable or self._stable) == "snapshot", replace, uses)
        if kind == "callable":
            return self._native.prepare_callable(published, source, replace)
        if kind == "table":
            with _loading.converting(source):
                return self._native.prepare_table(published, source, replace, uses)
        if kind == "tensor":
            return self._native.prepare_tensor(published, _native.asarray(source), replace, uses)
        if kind == "tensors":
            tensors = _nested.flattened(source)  # type: ignore[arg-type]
            return self._native.prepare_tensors(published, tensors, replace, uses)
        with _loading.converting(source):
            return self._native.prepare_live(published, source, replace)

    def _prepare_loaded(
        self, name: bytes, loaded: _loading.Loaded, live: bool, replace: bool, uses: int
    ) -> _native.Prepared:
        with loaded.reraising():
            if live:
                return self._native.prepare_live(name, loaded.stream, replace)
            return self._native.prepare_table(name, loaded.stream, replace, uses)

    def withdraw(self, name: str | bytes) -> None:
        """Removes `name` from the catalog, so that new consumers don't find it.

        Streams under way continue, and batches stay valid.

        Raises `NotFoundError` if nothing is published as `name`, `ClosedError` after `close()`, `ForkError` in a forked
        child, and `TypeError` or `InvalidArgumentError` for what is no name.
        """
        self._native.withdraw(checked_name(name))

    def replace_ticket_keys(self, keys: Iterable[bytes] | None = None) -> None:
        """Replaces the keys of the Flight server's tickets. From now on the first key signs, and all of them check.

        Tickets of other keys are refused from now on, and so are logins. A client of Crossdock's then asks for a new
        ticket.

        keys: as `ticket_keys` of `serve()`; None: a random key signs from now on, and the key that has signed so far
            still checks.

        Raises `InvalidArgumentError` for a server that signs no tickets, a key of less than 16 bytes, and more than 16
        keys.
        """
        self._native.replace_ticket_keys([] if keys is None else _checked_keys(keys))

    def stats(self) -> dict[str, Any]:
        """Returns the cost of each source, the leases of each consumer, and counts since the server's start: a snapshot
        in plain dicts and lists.

        "sources" has for each source: name, kind, rows (None for tensors), bytes, bytes_copied, and streams (the number
        of those that were started).

        "consumers" has for each connection: id, pid, peer, name, previous (its last stream that has ended), batches,
        rows, bytes, window, in_flight, leases, leased_bytes, oldest_lease (seconds, or None), bytes_by_value, carrier
        (the transport, such as "shm"), way (how the bodies of its stream were sent when it began: "map", "read" or
        "message"; None before the first stream, and for a connection without bodies) and why (the reason for that way).

        About the server: "version", "pid", "uptime" (seconds), "uris", "connections" (those that are open),
        "accepted_connections" (all since the start), "rejected_connections" (clients that were rejected in their
        handshake, by reason: "version", "not_allowed", "malformed", "late", "full", "resources", "protection") and
        "protocol_errors" (connections that were ended because they broke the protocol).

        Sums over all streams since the start, which never decrease: "streams", "batches", "rows", "bytes",
        "bytes_by_value", "bytes_copied", "bitmap_bytes_copied", and two histograms: "first_batch", the time from a
        request to the first batch that was sent, and "batch", the time between two batches of a stream. A histogram has
        "limits" (the upper limits of its buckets in seconds; the last bucket has none), "counts" (of each bucket) and
        "sum" (seconds).

        What all consumers hold now: "leases", "leased_bytes", "oldest_lease" (seconds, or None).

        "sources_left_out" and "consumers_left_out" are 0 here, see `Client.server_stats()`.

        Raises `ClosedError` after `close()`, and `ForkError` in a forked child.
        """
        return self._native.stats()

    def drain(self, timeout: float | None = None) -> bool:
        """Prepares for the end without an error for running consumers, and waits until their streams have ended.
        Returns whether they have ended.

        From now on every request and every `publish()` gets a `ClosedError`; streams under way continue. Requests for
        the server's statistics are still answered: those of `client.server_stats()`, `crossdock top` and metrics. Waits
        for `timeout` seconds at most; None: without limit. Call `close()` afterwards.

        A stream has ended when its consumer has received all of it, and, if bodies are sent by reads, has read them.
        Tables that Flight clients are putting aren't waited for. Ctrl-C ends the wait, and requests are still refused.
        May be called again, to wait longer.

        Raises `ClosedError` after `close()`, `ForkError` in a forked child, and `InvalidArgumentError` for a negative
        timeout, and if a source of this server calls it without one.
        """
        return self._native.drain(milliseconds(timeout, "timeout"))

    def close(self) -> None:
        """Closes the server: ends every stream under way with an error at its consumer, removes the socket, and waits
        for the sources' threads.

        Batches that consumers hold stay valid. May be called twice. Ctrl-C ends the wait for a source; the server is
        closed nevertheless, and a second call continues the wait.

        Raises `InvalidArgumentError` if a source of the server, or `authenticate()`, calls it, and `ForkError` in a
        forked child.
        """
        if self._metrics is None:
            self._native.close()
        else:
            self._metrics._close_with(self._native.close)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<crossdock.Server {self.uri}{' (closed)' if self.closed else ''}>"

    def _repr_html_(self) -> str:
        """For notebooks: the addresses and the first sources."""
        from crossdock import _html

        return _html.of_server(self)


@contextlib.contextmanager
def _publishing(name: str | bytes) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"while publishing {quoted(name)}")
        raise


def _checked_keys(keys: Iterable[bytes]) -> list[bytes]:
    if isinstance(keys, (bytes, str)):
        raise TypeError("ticket keys must be a list of bytes objects, not one of them")
    checked = list(keys)
    for key in checked:
        if not isinstance(key, bytes):
            raise TypeError(f"a ticket key must be bytes, not {class_of(key)}")
        if not 16 <= len(key) <= 1024:
            raise InvalidArgumentError(f"a ticket key has 16 to 1024 random bytes; this one has {len(key)}")
    if not checked:
        raise InvalidArgumentError("there are no ticket keys: give at least one, or None for a random one")
    return checked


def _whole_seconds(seconds: float, what: str) -> int:
    if seconds is None:
        raise TypeError(f"{what} must be a number of seconds, not None")
    if seconds == 0:
        raise InvalidArgumentError(f"{what} must be more than 0 seconds")
    return math.ceil(milliseconds(seconds, what) / 1000)


serve = Server
