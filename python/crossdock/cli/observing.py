"""`--metrics` of the commands that serve."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

import crossdock as xd
from crossdock.cli.help_texts import HTTP_ADDRESS
from crossdock.cli.reporting import MissingPackageError

if TYPE_CHECKING:
    from crossdock.metrics import Metrics

__all__ = ["MetricsAddress", "check_metrics", "observed", "print_addresses", "set_ready"]

log = logging.getLogger("crossdock.cli")

MetricsAddress = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="ADDRESS",
        help="Also answer HTTP requests: /metrics for Prometheus, /healthz, and /readyz, which says when everything is "
        f"served. {HTTP_ADDRESS}. Needs prometheus-client.",
        show_default=False,
    ),
]


def check_metrics(address: str | None) -> None:
    """Raises MissingPackageError if what the metrics need isn't installed. Without an address, does nothing."""
    if address is None:
        return
    from crossdock.metrics import import_prometheus

    try:
        import_prometheus()
    except ModuleNotFoundError as error:
        raise MissingPackageError(str(error)) from error


@contextlib.contextmanager
def observed(of: xd.Server | xd.Relay, address: str | None) -> Iterator[Metrics | None]:
    """Serves the metrics of a server or a relay, which isn't ready yet. Without an address, does nothing."""
    if address is None:
        yield None
        return
    try:
        from crossdock.metrics import Metrics

        metrics = Metrics(of, address, ready=False)
    except ModuleNotFoundError as error:
        raise MissingPackageError(str(error)) from error
    log.info("metrics at %s", metrics.uri)
    try:
        yield metrics
    finally:
        metrics.close()


def print_addresses(uris: Iterable[str], metrics: Metrics | None) -> None:
    """Prints where clients connect to, and last where the metrics are: each on a line, for programs to read."""
    for one in (*uris, *(() if metrics is None else (metrics.uri,))):
        print(one, flush=True)


def set_ready(metrics: Metrics | None, ready: bool, why: str = "") -> None:
    """Says whether /readyz is to answer that the server is ready."""
    if metrics is not None:
        metrics.set_ready(ready, why)
