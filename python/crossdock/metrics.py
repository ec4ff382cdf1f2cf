"""Metrics of a server or a relay over HTTP, in the form of Prometheus: `serve(metrics="127.0.0.1:9464")`."""

from __future__ import annotations

import weakref
from types import ModuleType
from typing import TYPE_CHECKING, Any

from crossdock._http import Address, Answer, HttpServer, Request
from crossdock._optional import needed
from crossdock.errors import ClosedError, ForkError

if TYPE_CHECKING:
    from collections.abc import Callable

    from crossdock.relaying import Relay
    from crossdock.server import Server

__all__ = ["Metrics"]


def import_prometheus() -> ModuleType:
    """Raises `ModuleNotFoundError`, which says what to install, without prometheus-client."""
    with needed("metrics need prometheus-client", "'crossdock[metrics]'"):
        import prometheus_client.exposition
    return prometheus_client


class Metrics:
    """Answers HTTP requests about a server or a relay, on a thread of its own.

    - `/metrics`: its statistics, as OpenMetrics or as Prometheus's older text, whichever the client prefers.
      docs/how-to/operations.md lists them;
    - `/healthz`: 200 while the server isn't closed;
    - `/readyz`: 200 while it is ready for requests, else 503 with the reason.

    Everybody who reaches the address may ask. `serve()` and `relay()` make one, if they are given `metrics`. It refers
    to the server weakly, and is closed with it.

    Thread-safe. After a fork it belongs to the parent: its methods do nothing in the child.
    """

    def __init__(self, of: Server | Relay, address: str, *, ready: bool = True) -> None:
        """Listens before it returns.

        address: "PORT" of the loopback, "HOST:PORT", "[::1]:PORT", or "*:PORT" for every address of the machine. Port 0
            is a free one. At the loopback, a request is answered only if its Host header names the machine.
        ready: whether `/readyz` answers 200 from the start; see `set_ready()`.

        Raises `ModuleNotFoundError` without prometheus-client (`pip install 'crossdock[metrics]'`),
        `InvalidArgumentError` for another form of address, and `ConnectionError`, which names the address, if it can't
        listen there.
        """
        prometheus = import_prometheus()
        from crossdock._metric_families import Families

        self._of = weakref.ref(of)
        self._not_ready = "" if ready else "loading"
        self._registry = prometheus.CollectorRegistry(auto_describe=False)
        self._registry.register(Families(self._stats))
        self._choose_encoder = prometheus.exposition.choose_encoder
        at = Address.of(address)
        # Prometheus and probes ask other machines by whatever name an operator has given them.
        self._http = HttpServer(at, _WeakAnswer(self), any_host=not at.is_loopback)
        weakref.finalize(of, self._http.close)
        weakref.finalize(self, self._http.close)

    @property
    def uri(self) -> str:
        """Where the metrics are, as "http://127.0.0.1:9464/metrics"."""
        return f"{self._http.url}/metrics"

    def set_ready(self, ready: bool, why: str = "") -> None:
        """Sets what `/readyz` answers from now on.

        ready: whether it answers 200, or 503.
        why: the reason for which the server isn't ready, as "draining".

        Raises nothing.
        """
        self._not_ready = "" if ready else why or "not ready"

    def close(self) -> None:
        """Stops listening. May be called twice. Raises nothing."""
        self._http.close()

    def _close_with(self, close: Callable[[], None]) -> None:
        """Closes the server by `close()`, and then this, unless the server stays open. Meanwhile it isn't ready."""
        before, self._not_ready = self._not_ready, "closing"
        try:
            close()
        finally:
            if self._closed():
                self.close()
            else:
                self._not_ready = before

    def _stats(self) -> dict[str, Any]:
        of = self._of()
        if of is None:
            raise ClosedError("the server was closed")
        return of.stats()

    def _closed(self) -> bool:
        of = self._of()
        return of is None or of.closed

    def _answer(self, request: Request) -> Answer:
        path = request.path
        if path not in ("/metrics", "/healthz", "/readyz"):
            return Answer(404, b"there are /metrics, /healthz and /readyz\n")
        if self._closed():
            return Answer(503, b"closed\n")
        if path == "/healthz":
            return Answer(200, b"ok\n")
        if path == "/readyz":
            why = self._not_ready
            return Answer(503, f"{why}\n".encode()) if why else Answer(200, b"ready\n")
        encode, content_type = self._choose_encoder(request.headers.get("accept", ""))
        try:
            return Answer(200, encode(self._registry), content_type)
        except (ClosedError, ForkError):
            return Answer(503, b"closed\n")

    def __repr__(self) -> str:
        return f"<crossdock.Metrics {self.uri}>"


class _WeakAnswer:
    """Passes requests on without keeping the `Metrics` alive, which would otherwise never be released."""

    def __init__(self, of: Metrics) -> None:
        self._of = weakref.ref(of)

    def __call__(self, request: Request) -> Answer:
        of = self._of()
        return Answer(503, b"closed\n") if of is None else of._answer(request)
