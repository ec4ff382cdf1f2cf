"""Spans of OpenTelemetry, for programs that use it. Imports nothing: a program that doesn't use it pays nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Span

__all__ = ["StreamSpan", "begin"]


class StreamSpan:
    """The span of one stream. `end()` may be called on any thread."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def fail(self, error: BaseException) -> None:
        """Ends the span with what the request raised."""
        self._end(f"{type(error).__name__}: {error}", None)

    def end(self, batches: int, nbytes: int, time: int, error: str | None) -> None:
        """Ends the span. time: ns since 1970. error: what ended the stream early."""
        self._span.set_attribute("crossdock.batches", batches)
        self._span.set_attribute("crossdock.bytes", nbytes)
        self._end(error, time)

    def _end(self, error: str | None, time: int | None) -> None:
        if error is not None:
            from opentelemetry.trace import Status, StatusCode

            name, _, text = error.partition(": ")
            self._span.add_event("exception", {"exception.type": name, "exception.message": text}, timestamp=time)
            self._span.set_status(Status(StatusCode.ERROR, error))
        self._span.end(time)


def begin(uri: str, name: str | bytes) -> StreamSpan | None:
    """Begins the span of a stream that is asked for, below the caller's span. None if the program has no tracing."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    from crossdock._names import shown_name

    attributes = {"crossdock.name": shown_name(name), "server.address": uri}
    span = trace.get_tracer("crossdock").start_span("crossdock.get", kind=trace.SpanKind.CLIENT, attributes=attributes)
    return StreamSpan(span)
