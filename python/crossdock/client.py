"""The client, which gets tables and tensors from a server."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Literal

from crossdock import _loading, _native, _nested, _tracing, file
from crossdock._options import (
    check_schemes,
    checked_columns,
    checked_limits,
    checked_name,
    checked_uri,
    checked_wait,
    count,
    file_at,
    is_copy_on_write,
    milliseconds,
    one_of,
    server_hint,
    transports,
)
from crossdock._rows import checked_rows, first_and_count
from crossdock._scan import Requests, Scan
from crossdock._text import class_of, quoted, shown
from crossdock.errors import InvalidArgumentError, UriError
from crossdock.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from crossdock._typing import Array, DeviceLike, Nested, Source, Validation, Wait, Way
    from crossdock.aio import AsyncRecordBatchReader
    from crossdock.arena import Arena
    from crossdock.tls import TLS

__all__ = ["Client", "connect"]


class Client:
    """A connection to a server, made by `connect()`.

    `uri` is the URI that `crossdock serve` prints, or `server.uri`. It may also be that of an Arrow Flight server,
    "grpc://host:port" or "grpc+tls://host:port", Crossdock's or another. Each `get()` then asks the Flight server where
    the table is, and reads it from the cheapest location that can be reached; if there is none, by DoGet. `location` of
    the reader says which location was used, and `passed_over` why the others weren't.

    metadata, data: two URIs instead of `uri`, to receive metadata and bodies over separate connections, from one server
        or from two that publish the same data under the same names. Live streams need a single server.
    timeout: seconds for connecting, and for each answer that `list()` and `get()` wait for; None: no limit.
    users: ids of users whose servers are trusted to send data, beside the own user and root, or "any".
    token: over networks (tcp, tcp+tls, ucx, fabric and Flight), the secret that the server demands. Over Flight it is
        sent as plain text, unless TLS encrypts the connection. Over shm the user ids decide, and it isn't used.
    login: a user name and a password, for a Flight server that has logins (`serve(..., authenticate=...)`, or another
        server). Without TLS they are sent as plain text, once, and again when the server asks for them. With a login,
        `token` isn't sent to that server.
    tls: over tcp+tls and grpc+tls, the trusted certificates, and this client's certificate if the server requires one:
        `TLS(roots=...)`. None: the server's certificate must be one that the system trusts.
    way: how the bodies of batches arrive. "map": as the server's memory itself. "message": as bytes, in memory of this
        process. "read": this process reads the bytes that it wants from the server's memory. None: the best way that
        both ends support. A way that the transport doesn't support raises `UnsupportedError`; so does `get()` for a
        stream that can't be sent in this way. With `data` it is the way of that connection alone. With "map" nothing is
        sent by value instead: a live stream waits while this process keeps batches up to the server's `lease_limit`.
    checksum: over tcp, protect all messages with a CRC-32C: bytes that changed on the way raise `ProtocolError` and are
        never returned as data. None: if the server asks for it. True: always; a server that doesn't support it is
        rejected (`HandshakeError`), and a URI of ucx or fabric, which have none, or of shm, which needs none, is an
        `InvalidArgumentError`. False: never.
    remote_reads: "trusted" lets this client read the memory of a ucx server that follows the published protocol
        strictly, and whose URI has a remote_handle. That server, and every process that reaches this one over UCX, can
        then read and write all memory of this process. Servers of Crossdock's never need it.
    any_location: for a Flight server: True also reads from locations at other hosts than its own. For a server at
        grpc+tls it also reads from locations at other machines that aren't encrypted. The server then decides to which
        addresses this process connects.

    Raises `UriError` or `SchemeError` for a URI that is none or that this build can't use, `InvalidArgumentError` and
    `TypeError` for options that are wrong or for other transports, `ConnectionError` if no server is at the address,
    or it can't be reached, `PermissionError` and `HandshakeError` if one end rejects the other, and
    `TimeoutError` if the server doesn't answer in time.

    Thread-safe. Several readers at once are allowed. Readers and batches outlive the client. After a fork it belongs to
    the parent: in the child its methods raise `ForkError`.
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
        login: tuple[str, str] | None = None,
        checksum: bool | None = None,
        way: Way | None = None,
        remote_reads: Literal["trusted"] | None = None,
        any_location: bool = False,
        tls: TLS | None = None,
    ) -> None:
        if (uri is None) == (metadata is None) or (metadata is None) != (data is None):
            raise InvalidArgumentError("give one URI, or two: metadata= and data=")
        for one in (uri, metadata, data):
            if one is not None:
                _refuse_file(checked_uri(one))
        self._uri = uri if uri is not None else f"{metadata} and {data}"
        self._closed = False
        if not isinstance(any_location, bool):
            raise TypeError(f"any_location must be True or False, not {class_of(any_location)}")
        check_schemes([one for one in (uri, metadata, data) if one is not None], checksum, remote_reads, tls)
        if login is not None and (uri is None or not uri.lower().startswith("grpc")):
            raise InvalidArgumentError("login is for Flight servers, at grpc: URIs")
        first = uri if uri is not None else metadata
        assert first is not None
        self._native = _native.Client(
            first,
            data,
            milliseconds(timeout, "timeout"),
            one_of(way, "way", "map", "read", "message", None),
            transports(users, token, checksum, remote_reads, tls, login, end="client"),
            any_location,
        )

    @property
    def closed(self) -> bool:
        """True after `close()`."""
        return self._closed

    def list(self, *, max_entries: int = 1 << 20, max_bytes: int = 256 << 20) -> list[_native.CatalogEntry]:
        """Returns the server's catalog: name, schema, rows, bytes and device of each table, and the way by which its
        bodies would be sent (`way` and `why`, which are None for a client with two connections).

        `kind` says which call gets the entry: "table" is for `get()`, "tensor" for `tensor()` (`dtype` and `shape`
        describe it), "tensors" for `tensors()` (`count` is their number). A name that isn't text is bytes.

        max_entries, max_bytes: the most entries, and the most memory for their names and schemas, to accept from the
            server. A larger catalog raises `ResourceError`. Text in it that isn't UTF-8 raises `InvalidDataError`,
            which names the row.
        """
        return self._native.list(
            count(max_entries, "max_entries", "entries", least=0), count(max_bytes, "max_bytes", "bytes", least=0)
        )

    def server_stats(self) -> dict[str, Any]:
        """Returns the statistics of the server, or the relay, that the client is connected to: the result of its
        `stats()`, see `Server.stats()`.

        The lists "sources" and "consumers" have at most 256 entries each; "sources_left_out" and "consumers_left_out"
        are the numbers of the others. A server may answer several requests within some milliseconds with the same
        statistics.

        Raises `PermissionError` if this client may not see them. Over shm, processes of the server's own user and root
        may. Over networks, clients may that have proved the token or a certificate that the server demands. All others
        may only if the server was started with `stats="any"`. Raises `UnsupportedError` if the server is too old to
        know the request, or is a Flight server, and `InvalidDataError` if the answer isn't statistics.
        """
        return self._native.server_stats()

    def get(
        self,
        name: str | bytes,
        columns: Iterable[str] | None = None,
        wait: Wait = "auto",
        timeout: float | None = None,
        validation: Validation | None = None,
        limits: _native.Limits | None = None,
        arena: Arena | None = None,
        device: DeviceLike | None = None,
        read_ahead: int | None = None,
        writable: Literal[False, "copy-on-write"] = False,
        rows: range | slice | None = None,
    ) -> _native.RecordBatchReader:
        """Returns a reader of the batches of `name`. Waits until the schema has arrived.

        columns: top-level fields to keep, in this order; None: all.
        wait: how reading waits: "block" sleeps while no data arrives, "spin" never sleeps (and uses a whole core),
            "auto" spins for a short time before it sleeps.
        timeout: seconds that each batch may take; None: no limit. After a `TimeoutError` reading may be tried again.
            The wait for the schema, in this call, is limited by the `timeout` of `connect()`.
        validation: "structure" ensures that lengths, and first and last offsets, don't lead out of bounds; "full"
            checks every offset, index and text; None: full if the data comes from another user or another machine,
            otherwise structure.
        limits: limits on the size and nesting of the data that the server sends; None: those of `Limits()`.
        arena: memory for batches that are received over a network, so that publishing them copies nothing. Over shared
            memory the batches stay where they are. More data than its `reserve` raises `ResourceError`. Don't publish
            the arena while this stream is being read.
        device: where batches are wanted, as "cuda:0" or a filter string; None: the host. Memory of that device that a
            server of this machine has published is opened, without a copy. Over `ucx:`, if UCX reaches the device,
            batches are received into its memory. All others are copied there, each by one copy that is complete when
            the batch is returned; `bytes_copied` of the reader counts them.
        read_ahead: for the way "read": how many bytes of bodies may be read before they are asked for; one body always
            may. None: 64 MiB.
        writable: "copy-on-write": the data may be written to. It lies in the server's memory as usual. Each page that
            is written to becomes a private copy, and nobody else sees the writes. `asarray()` of a column is writable
            then. Arrow's own libraries, and what they export, treat all data as read-only. Publishing such data copies
            only what was written to. Batches of one stream may share memory, such as dictionaries.
        rows: the rows of a table that are wanted, as range(100, 200) or slice(100, None); None: all. Rows after the end
            don't exist, and are left out. If the server supports it, only the batches that have some of the rows are
            sent; the first and the last are sliced here, without a copy. All rows are of one version of the table. If
            the table is replaced meanwhile, the request is repeated; after 8 times it raises `TimeoutError`. For a live
            stream and a callable it raises `UnsupportedError`.

        Raises `NotFoundError` if nothing is published as `name`, or if a column doesn't exist, `ConsumedError` for a
        stream that another consumer has read, `InvalidArgumentError` if tensors are published there, `ClosedError`
        after `close()`, `ConnectionError` if the server can't be reached any more, `TimeoutError` if it doesn't answer
        in time, and `TypeError` or `InvalidArgumentError` for wrong options.
        """
        return self._start(
            name,
            columns,
            wait,
            timeout,
            validation,
            limits,
            arena,
            device,
            read_ahead,
            is_copy_on_write(writable),
            rows=first_and_count(checked_rows(rows)),
        )

    def table(
        self,
        name: str | bytes,
        columns: Iterable[str] | None = None,
        *,
        wait: Wait = "auto",
        timeout: float | None = None,
        validation: Validation | None = None,
        limits: _native.Limits | None = None,
        read_ahead: int | None = None,
        rows: range | slice | None = None,
    ) -> Table:
        """Returns a handle of the table `name`, which can be read again and again.

        Any library that takes Arrow streams can read it, and so can `to_arrow()`, `to_pandas()` and `to_polars()`. This
        call sends no request to the server. `filter()` of the handle selects rows by their values. The options are
        those of `get()`.

        Raises `TypeError` or `InvalidArgumentError` for wrong `name`, `columns` or `rows`. Everything else is checked
        when the table is read.
        """
        asked = checked_name(name)

        def get(columns: Iterable[str] | None, **part: Any) -> _native.RecordBatchReader:
            return self._start(name, columns, wait, timeout, validation, limits, None, None, read_ahead, False, **part)

        def batch_statistics(columns: Sequence[str]) -> _native.RecordBatchReader | None:
            return self._native.batch_statistics(asked, columns, milliseconds(timeout, "timeout"))

        return Table(name, columns, Scan(Requests(get, batch_statistics, self.list)), rows=checked_rows(rows))

    def aget(
        self,
        name: str | bytes,
        columns: Iterable[str] | None = None,
        *,
        validation: Validation | None = None,
        limits: _native.Limits | None = None,
        arena: Arena | None = None,
        device: DeviceLike | None = None,
        read_ahead: int | None = None,
        writable: Literal[False, "copy-on-write"] = False,
        rows: range | slice | None = None,
    ) -> AsyncRecordBatchReader:
        """The same as `get()`, for asyncio: `async for batch in client.aget(name)`.

        The request is sent when the first batch is asked for. Cancelling the waiting task ends the wait at once. The
        stream can then be read further, or closed with `aclose()`.
        """
        copy_on_write = is_copy_on_write(writable)
        wanted = first_and_count(checked_rows(rows))
        from crossdock.aio import AsyncRecordBatchReader  # asyncio takes longer to import than the whole package

        return AsyncRecordBatchReader(
            lambda interrupt: self._start(
                name,
                columns,
                "auto",
                None,
                validation,
                limits,
                arena,
                device,
                read_ahead,
                copy_on_write,
                interrupt=interrupt,
                rows=wanted,
            )
        )

    def tensor(
        self,
        name: str | bytes,
        *,
        out: Array | None = None,
        device: DeviceLike | None = None,
        writable: Literal[False, "copy-on-write"] = False,
        wait: Wait = "auto",
        timeout: float | None = None,
        limits: _native.Limits | None = None,
    ) -> _native.Tensor:
        """Returns the tensor that is served as `name`, without a copy wherever a table would need none.

        The tensor then lies in the server's memory. The memory stays valid as long as the tensor, or an array of
        another library that shares it. Raises `InvalidArgumentError` if a table or several tensors are served as
        `name`: `get()` and `tensors()` are for those.

        out: a writable array that `asarray()` takes, of the same shape and type. The elements are stored there, and a
            tensor of that memory is returned. A body that is sent by value over tcp or fabric, or read, is received
            straight into it, if the array has the order in which the body is sent, for example C order; otherwise one
            copy is made. On a device `out` must be in C order. Another shape, type or device is an
            `InvalidArgumentError` before anything is written. After another error, a part may be written.
        device: where the tensor is wanted, as for `get()`; None: the host, or the device of `out`.
        writable: "copy-on-write": the tensor may be written to, as for `get()`.
        wait, limits: as for `get()`.
        timeout: seconds that each wait for the tensor may take; None: no limit.
        """
        return self._tensor(name, out, device, writable, wait, timeout, limits)

    def tensors(
        self,
        name: str | bytes,
        *,
        device: DeviceLike | None = None,
        writable: Literal[False, "copy-on-write"] = False,
        wait: Wait = "auto",
        timeout: float | None = None,
        limits: _native.Limits | None = None,
        max_tensors: int = 1 << 20,
    ) -> Nested:
        """Returns the tensors that are served as `name`, in nested dictionaries as they were served. The options are
        those of `tensor()`.

        max_tensors: the most tensors to accept from the server. More raise `ResourceError`.
        """
        return self._tensors(name, device, writable, wait, timeout, limits, max_tensors)

    async def atensor(
        self,
        name: str | bytes,
        *,
        out: Array | None = None,
        device: DeviceLike | None = None,
        writable: Literal[False, "copy-on-write"] = False,
        limits: _native.Limits | None = None,
    ) -> _native.Tensor:
        """The same as `tensor()`, for asyncio. A thread of the event loop waits; cancelling the task ends its wait."""
        from crossdock.aio import in_thread

        return await in_thread(
            lambda interrupt: self._tensor(name, out, device, writable, "auto", None, limits, interrupt=interrupt)
        )

    async def atensors(
        self,
        name: str | bytes,
        *,
        device: DeviceLike | None = None,
        writable: Literal[False, "copy-on-write"] = False,
        limits: _native.Limits | None = None,
        max_tensors: int = 1 << 20,
    ) -> Nested:
        """The same as `tensors()`, for asyncio. A thread of the event loop waits; cancelling the task ends its wait."""
        from crossdock.aio import in_thread

        return await in_thread(
            lambda interrupt: self._tensors(
                name, device, writable, "auto", None, limits, max_tensors, interrupt=interrupt
            )
        )

    def _tensor(
        self,
        name: str | bytes,
        out: Array | None,
        device: DeviceLike | None,
        writable: Literal[False, "copy-on-write"],
        wait: str,
        timeout: float | None,
        limits: _native.Limits | None,
        *,
        log: _native.StreamLog | None = None,
        interrupt: _native.Interrupt | None = None,
    ) -> _native.Tensor:
        tensor, _ = self._native.tensor(
            checked_name(name),
            None if out is None else _native.asarray(out),
            device,
            checked_wait(wait),
            milliseconds(timeout, "timeout"),
            checked_limits(limits),
            is_copy_on_write(writable),
            log,
            interrupt,
        )
        return tensor

    def _tensors(
        self,
        name: str | bytes,
        device: DeviceLike | None,
        writable: Literal[False, "copy-on-write"],
        wait: str,
        timeout: float | None,
        limits: _native.Limits | None,
        max_tensors: int,
        *,
        log: _native.StreamLog | None = None,
        interrupt: _native.Interrupt | None = None,
    ) -> Nested:
        tensors, _ = self._native.tensors(
            checked_name(name),
            count(max_tensors, "max_tensors", "tensors", least=0),
            device,
            checked_wait(wait),
            milliseconds(timeout, "timeout"),
            checked_limits(limits),
            is_copy_on_write(writable),
            log,
            interrupt,
        )
        return _nested.nested(tensors)

    def _watch(self, name: str | bytes, log: _native.StreamLog, timeout: float | None) -> _native.RecordBatchReader:
        """The same as `get()`. `log` records the messages or batches of the stream."""
        return self._start(name, None, "auto", timeout, None, None, None, None, None, False, log=log)

    def _watch_tensors(self, name: str | bytes, single: bool, log: _native.StreamLog, timeout: float | None) -> None:
        """Gets tensors and drops them. `log` records the messages."""
        if single:
            self._tensor(name, None, None, False, "auto", timeout, None, log=log)
        else:
            self._tensors(name, None, False, "auto", timeout, None, 1 << 20, log=log)

    def _start(
        self,
        name: str | bytes,
        columns: Iterable[str] | None,
        wait: str,
        timeout: float | None,
        validation: str | None,
        limits: _native.Limits | None,
        arena: Arena | None,
        device: DeviceLike | None,
        read_ahead: int | None,
        copy_on_write: bool,
        *,
        log: _native.StreamLog | None = None,
        interrupt: _native.Interrupt | None = None,
        rows: tuple[int, int] | None = None,
        batches: Sequence[tuple[int, int]] | None = None,
    ) -> _native.RecordBatchReader:
        names = checked_columns(columns)
        own = None if arena is None else _native_arena(arena)
        asked = checked_name(name)
        span = _tracing.begin(self._uri, name)
        try:
            reader = self._native.get(
                asked,
                names,
                checked_wait(wait),
                milliseconds(timeout, "timeout"),
                one_of(validation, "validation", "structure", "full", None),
                checked_limits(limits),
                own,
                device,
                None if read_ahead is None else count(read_ahead, "read_ahead", "bytes", least=0),
                copy_on_write,
                log,
                interrupt,
                rows,
                batches,
            )
        except BaseException as error:
            if span is not None:
                span.fail(error)
            raise
        if span is not None:
            reader._trace(span.end)
        return reader

    def put(self, name: str | bytes, source: Source, *, replace: bool = False) -> None:
        """Sends a table to an Arrow Flight server, which publishes it as `name`. Returns when the server has published
        it.

        The server must allow it: `serve(..., flight=..., puts="new")`, or another server with DoPut. Bodies on the host
        are sent from their place in memory; those on a device need one copy each.

        source: an object with an Arrow PyCapsule method, batches, a file or a folder, or another source that `serve()`
            takes for a table.
        replace: whether the table may replace another one of this name, if the server allows that. Otherwise a name
            that is taken is an `InvalidArgumentError`. A server that isn't Crossdock's decides itself.
        """
        if not isinstance(replace, bool):
            raise TypeError(f"replace must be True or False, not {class_of(replace)}")
        published = checked_name(name)
        with _table_of(source) as stream:
            self._native.put(published, stream, replace)

    def offer(self, name: str | bytes, source: Source, *, replace: bool = False) -> None:
        """Lets an Arrow Flight server of Crossdock's fetch a table from this process and publish it as `name`. Returns
        when the server has published it.

        The bodies aren't sent through gRPC: this process listens, and the server fetches them over shared memory or
        tcp, as fast as any consumer. Memory of an arena or a pool isn't copied here. The server copies what it maps
        once, into memory of its own. The parameters are those of `put()`.

        The server must allow `put()`, and must be able to connect to this process; otherwise this raises
        `ConnectionError`, which says what was tried. Over grpc+tls a table is offered only to a server at this machine;
        for others this raises `UnsupportedError`.
        """
        if not isinstance(replace, bool):
            raise TypeError(f"replace must be True or False, not {class_of(replace)}")
        published = checked_name(name)
        with _table_of(source) as stream:
            self._native.offer(published, stream, replace)

    def close(self) -> None:
        """Closes the client: no new request starts. Open readers continue. Each connection stays open until its last
        batch is released.

        May be called twice. Raises `ForkError` in a forked child.
        """
        self._closed = True
        self._native.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<crossdock.Client {shown(self._uri)}{' (closed)' if self._closed else ''}>"


def _refuse_file(uri: str) -> None:
    """Refuses a file or a folder where a server's URI is expected, and says which calls take it."""
    there = file_at(uri)
    if there is None:
        return
    helps = ["xd.serve({'name': path}) serves it"]
    if there == "file" and _loading.format_of(uri) in ("arrow", None):
        helps.insert(0, "xd.open(path) reads it")
    raise UriError(
        f"{quoted(uri)} is a {there}, and the URI of a server is expected here, such as shm:flights; "
        f"{', and '.join(helps)}{server_hint(uri)}"
    )


def _native_arena(arena: object) -> _native.Arena:
    from crossdock.arena import Arena  # whoever has one has imported it

    if not isinstance(arena, Arena):
        raise TypeError(f"arena must be a crossdock.Arena or None; it was {quoted(arena)}")
    return arena._of_host("get()")


@contextlib.contextmanager
def _table_of(source: Source) -> Iterator[Any]:
    """Gives the stream of a source that is sent as a table. Raises what ended the reading of a file, with its class."""
    if not _loading.is_loadable(source, "table"):
        if isinstance(source, (str, os.PathLike)):
            with file.open(source) as stream:
                yield stream
        else:
            with _loading.converting(source):
                yield source
        return
    loaded = _loading.load(source)
    with loaded.reraising():
        yield loaded.stream


connect = Client
