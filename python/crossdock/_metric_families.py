"""The statistics of a server as the metrics of Prometheus."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

__all__ = ["Families"]

MOST_LABEL = 128  # Characters of a label's value.
MOST_SOURCES = 256  # Names that have metrics of their own: those with the most streams.

# Each is the metric's name, the key in the statistics, and what it means.
_COUNTERS = (
    ("crossdock_accepted_connections", "accepted_connections", "Connections since the start."),
    ("crossdock_protocol_errors", "protocol_errors", "Connections that were ended because they broke the protocol."),
    ("crossdock_streams", "streams", "Streams that were opened, also of the catalog."),
    ("crossdock_batches", "batches", "Batches that were sent."),
    ("crossdock_rows", "rows", "Rows of the batches that were sent."),
    ("crossdock_sent_bytes", "bytes", "Bytes of the batches that were sent, by whatever way."),
    ("crossdock_sent_by_value_bytes", "bytes_by_value", "The part of these bytes that was sent by value."),
    ("crossdock_copied_bytes", "bytes_copied", "Bytes that were copied to publish sources."),
    (
        "crossdock_copied_bitmap_bytes",
        "bitmap_bytes_copied",
        "Bytes that were copied for bitmaps of slices that don't start at a byte.",
    ),
)
_GAUGES = (
    ("crossdock_leases", "leases", "Buffers that consumers hold."),
    ("crossdock_leased_bytes", "leased_bytes", "Bytes of these buffers."),
    ("crossdock_uptime_seconds", "uptime", "Seconds since the start."),
)
_HISTOGRAMS = (
    ("crossdock_first_batch_seconds", "first_batch", "Time from a request to the first batch that was sent."),
    ("crossdock_batch_seconds", "batch", "Time between two batches of a stream."),
)
_RELAY_COUNTERS = (
    ("crossdock_relay_hits", "hits", "Requests that were answered with what was held and current."),
    ("crossdock_relay_stale_hits", "stale_hits", "Requests that were answered while the upstream was gone."),
    ("crossdock_relay_fetches", "fetches", "Tables and tensors that were fetched completely."),
    ("crossdock_relay_failures", "failures", "Fetches that failed."),
    ("crossdock_relay_catalogs", "catalogs", "Reads of the upstream's catalog."),
    ("crossdock_relay_evictions", "evictions", "Names that were dropped to make room."),
    ("crossdock_relay_fetched_bytes", "bytes_fetched", "Bytes of what was fetched."),
)
_RELAY_GAUGES = (
    ("crossdock_relay_used_bytes", "bytes_used", "Bytes in use for what was fetched."),
    ("crossdock_relay_max_bytes", "max_memory", "The limit of these bytes."),
)


class Families(Collector):
    """A collector of prometheus_client. Thread-safe."""

    def __init__(self, stats: Callable[[], dict[str, Any]]) -> None:
        """stats: as `Server.stats()`; what it raises, `collect()` raises."""
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        stats = self._stats()
        yield InfoMetricFamily("crossdock", "The version of Crossdock.", {"version": stats["version"]})
        yield from _simple(stats, _COUNTERS, _GAUGES)
        yield GaugeMetricFamily(
            "crossdock_oldest_lease_seconds",
            "Age of the oldest buffer that a consumer holds; 0: there is none.",
            value=stats["oldest_lease"] or 0.0,
        )
        for name, key, text in _HISTOGRAMS:
            yield _histogram(name, text, stats[key])
        connections = GaugeMetricFamily(
            "crossdock_connections", "Connections that are there, by their carrier.", labels=["carrier"]
        )
        for carrier, n in Counter(one["carrier"] for one in stats["consumers"]).items():
            connections.add_metric([carrier], n)
        yield connections
        rejected = CounterMetricFamily(
            "crossdock_rejected_connections", "Clients that were rejected in their handshake.", labels=["reason"]
        )
        for reason, n in stats["rejected_connections"].items():
            rejected.add_metric([reason], n)
        yield rejected
        yield from _of_sources(stats["sources"])
        if "upstream" in stats:
            yield from _simple(stats, _RELAY_COUNTERS, _RELAY_GAUGES)
            yield GaugeMetricFamily(
                "crossdock_relay_connected",
                "1: the relay is connected to its upstream.",
                value=stats["upstream"] is not None,
            )


def _simple(
    stats: dict[str, Any], counters: tuple[tuple[str, str, str], ...], gauges: tuple[tuple[str, str, str], ...]
) -> Iterator[Metric]:
    for name, key, text in counters:
        yield CounterMetricFamily(name, text, value=stats[key])
    for name, key, text in gauges:
        yield GaugeMetricFamily(name, text, value=stats[key])


def _histogram(name: str, text: str, histogram: dict[str, Any]) -> HistogramMetricFamily:
    limits = [*(f"{limit:g}" for limit in histogram["limits"]), "+Inf"]
    buckets = list(zip(limits, map(float, accumulate(histogram["counts"])), strict=True))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=histogram["sum"])


def _of_sources(sources: list[dict[str, Any]]) -> Iterator[Metric]:
    yield GaugeMetricFamily("crossdock_sources", "Names that are published.", value=len(sources))
    size = GaugeMetricFamily(
        "crossdock_source_bytes", "Bytes of what is published under a name.", labels=["name", "kind"]
    )
    streams = CounterMetricFamily(
        "crossdock_source_streams",
        "Streams that were started of what is published under a name.",
        labels=["name", "kind"],
    )
    for source in sorted(sources, key=lambda one: one["streams"], reverse=True)[:MOST_SOURCES]:
        labels = [_label(source["name"]), source["kind"]]
        streams.add_metric(labels, source["streams"])
        if source["bytes"] is not None:
            size.add_metric(labels, source["bytes"])
    yield size
    yield streams


def _label(name: str | bytes) -> str:
    """Returns a label for a name. One that is long or isn't text is cut, with a hash that tells it from others."""
    if isinstance(name, str) and len(name) <= MOST_LABEL:
        return name
    raw = name if isinstance(name, bytes) else name.encode()
    digest = hashlib.blake2s(raw, digest_size=4).hexdigest()
    return f"{raw.decode('utf-8', 'backslashreplace')[: MOST_LABEL - 9]}~{digest}"
