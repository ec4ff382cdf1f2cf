"""The relay, which fetches tables and tensors from another server once, for all processes of a machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from crossdock import _native
from crossdock._options import check_schemes, checked_uri, count, milliseconds, scheme_of, stats_for_all, transports
from crossdock._text import class_of
from crossdock.errors import InvalidArgumentError

if TYPE_CHECKING:
    from crossdock.metrics import Metrics
    from crossdock.tls import TLS

__all__ = ["Relay", "relay"]


def _uris(given: str | Iterable[str]) -> list[str]:
    many = isinstance(given, Iterable) and not isinstance(given, (str, bytes))
    return [checked_uri(one) for one in (given if many else (given,))]  # type: ignore[arg-type]


class Relay:
    """Fetches tables and tensors from another server, the upstream, when its consumers ask for them, and serves them to
    all consumers. `relay()` starts one.

    Each table is fetched once. Over `shm:` that is one fetch for all processes of a machine, which then share its
    memory.

    Consumers connect to `relay.uri` as to any server: the catalog has the upstream's names. A table is served when all
    of it has arrived, its schema before. Consumers that ask for it meanwhile wait for that fetch, which continues if
    they leave. It is fetched again when a consumer asks for it and the upstream has published other data. Live streams
    and callables are refused with an `UnsupportedError`. The consumer gets errors of the upstream as they are, and
    errors of the connection to the upstream as a `RemoteError`.

    upstream: the URI of a server, of any scheme that `connect()` takes. Several: the first that answers is used, and
        another one if its server ends.
    uri: where consumers find the relay, one URI or several, as for `serve()`. A relay that listens at a network can be
        the upstream of others.
    max_memory: the most bytes that may be in use for tables and tensors: those that are kept, those that consumers
        still hold, and those that are being received. If more is needed, the relay drops tables that no consumer holds,
        those first that were not asked for the longest. If that isn't enough, the request fails with a `ResourceError`.
        None: a quarter of the machine's memory, or of the limit that this process has.
    max_age: seconds for which a table that the relay has is served without asking the upstream whether it has changed.
        0: each request asks, which takes one round trip. Some servers, such as an Arrow Flight server, can't say
        whether a table has changed; their tables are fetched again after this time.
    stale: whether tables that the relay has are served while the upstream can't be reached. False: requests fail then.
    timeout: seconds for connecting to the upstream, and for each of its answers and batches; None: no limit.
    max_connections: connections of all consumers together, as for `serve()`.
    users: ids of users that may connect to the relay, and whose servers are trusted, beside the own user, or "any".
    token: over networks, the secret that the upstream demands, and that the relay demands of its consumers there.
    login: a user name and a password, for upstreams that are Flight servers with logins.
    checksum: over tcp, as for `connect()` and `serve()`.
    tls: over tcp+tls, the certificates that are trusted, and those of the relay itself, as for `connect()` and
        `serve()`.
    stats: who may ask for the relay's statistics, as for `serve()`.
    metrics: where the relay's metrics are, as for `serve()`.

    The relay logs to the logger "crossdock", for example when the upstream can't be reached. After a failure to connect
    it waits a second, and tries again at the next request.

    Use it as a context manager, or call `close()`; otherwise it is closed when the interpreter exits. Thread-safe.
    After a fork it belongs to the parent: in the child its methods raise `ForkError`.
    """

    def __init__(
        self,
        upstream: str | Iterable[str],
        uri: str | Iterable[str] = "shm:",
        *,
        max_memory: int | None = None,
        max_age: float = 0.0,
        stale: bool = True,
        timeout: float | None = 10.0,
        max_connections: int = 1024,
        users: Literal["any"] | Iterable[int] | None = None,
        token: str | None = None,
        login: tuple[str, str] | None = None,
        checksum: bool | None = None,
        tls: TLS | None = None,
        stats: Literal["any"] | None = None,
        metrics: str | None = None,
    ) -> None:
        from_uris, uris = _uris(upstream), _uris(uri)
        if not isinstance(stale, bool):
            raise TypeError(f"stale must be True or False, not {class_of(stale)}")
        if max_age is None:
            raise InvalidArgumentError("max_age must be a number of seconds: without a limit no change would be seen")
        check_schemes([*from_uris, *uris], None, None, tls)
        if checksum is True:
            check_schemes(from_uris, checksum, None, None)
        if login is not None and not all(scheme_of(one) == "grpc" for one in from_uris):
            raise InvalidArgumentError("login is for Flight servers, at grpc: URIs")
        if isinstance(users, Iterable) and not isinstance(users, str):
            users = [*users]
        options = _native.ServerOptions()
        options.uris = uris
        options.max_connections = count(max_connections, "max_connections", "connections", least=0, bits=32)
        options.transports = transports(users, token, checksum, None, tls)
        options.stats_for_all = stats_for_all(stats)
        self._native = _native.Relay(
            from_uris,
            options,
            transports(users, token, checksum, None, tls, login),
            milliseconds(timeout, "timeout"),
            0 if max_memory is None else count(max_memory, "max_memory", "bytes"),
            milliseconds(max_age, "max_age"),
            stale,
        )
        self._metrics: Metrics | None = None
        if metrics is not None:
            try:
                from crossdock.metrics import Metrics

                self._metrics = Metrics(self, metrics)
            except BaseException:
                self.close()
                raise

    @property
    def uri(self) -> str:
        """The URI that consumers connect to, as in "shm:flights". The first one, if the relay listens at several."""
        return self._native.uris[0]

    @property
    def uris(self) -> list[str]:
        """All URIs that the relay listens at."""
        return self._native.uris

    @property
    def closed(self) -> bool:
        """True after `close()`."""
        return self._native.closed

    @property
    def metrics(self) -> Metrics | None:
        """The HTTP server of `metrics`, with its `uri` and `set_ready()`; None if there is none."""
        return self._metrics

    def stats(self) -> dict[str, Any]:
        """Returns what `Server.stats()` returns, and counts of the relay.

        The counts are "hits" (requests that were answered with a current table that the relay had), "stale_hits" (the
        same while the upstream couldn't be reached), "fetches", "failures" (fetches that failed), "catalogs" (reads of
        the upstream's catalog), "evictions", "bytes_fetched", "bytes_used", "max_memory", and "upstream" (the URI that
        it is connected to, or None).

        Raises `ClosedError` after `close()`, and `ForkError` in a forked child.
        """
        return self._native.stats()

    def drain(self, timeout: float | None = None) -> bool:
        """Refuses requests from now on, and waits until the streams under way have ended, as `Server.drain()` does.
        Tables that these streams wait for are still fetched.

        Raises `ClosedError` after `close()`, `ForkError` in a forked child, and `InvalidArgumentError` for a negative
        timeout.
        """
        return self._native.drain(milliseconds(timeout, "timeout"))

    def close(self) -> None:
        """Ends every stream and fetch under way with an error at its consumer, and removes the socket.

        Batches that consumers hold stay valid. May be called twice. Raises `ForkError` in a forked child.
        """
        if self._metrics is None:
            self._native.close()
        else:
            self._metrics._close_with(self._native.close)

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<crossdock.Relay {self.uri}{' (closed)' if self.closed else ''}>"


relay = Relay
