"""Spans of OpenTelemetry for what a client gets."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest

import crossdock as xd

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

TABLE = pa.table({"n": range(1000)})
BATCHES = TABLE.to_batches(max_chunksize=100)


@pytest.fixture(scope="module")
def exporter() -> Iterator[InMemorySpanExporter]:
    """Imported here, and forgotten afterwards: other tests in this process are to run without it."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporting = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporting))
    trace.set_tracer_provider(provider)
    yield exporting
    provider.shutdown()
    for name in [one for one in sys.modules if one.partition(".")[0] == "opentelemetry"]:
        del sys.modules[name]


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Iterator[InMemorySpanExporter]:
    exporter.clear()
    yield exporter
    exporter.clear()


@pytest.fixture
def server(no_leftovers: None) -> Iterator[xd.Server]:
    with xd.serve({"t": pa.Table.from_batches(BATCHES)}) as serving:
        yield serving


def only(exporter: InMemorySpanExporter) -> ReadableSpan:
    """The one span that ended. Python is told of a stream's end a moment later."""
    deadline = time.monotonic() + 10
    while not (found := exporter.get_finished_spans()):
        assert time.monotonic() < deadline, "no span ended"
        time.sleep(0.001)
    (span,) = found
    return span


def read_by_iteration(reader: xd.RecordBatchReader) -> None:
    assert sum(pa.record_batch(batch).num_rows for batch in reader) == 1000


def read_as_a_whole(reader: xd.RecordBatchReader) -> None:
    assert pa.table(reader) == TABLE


@pytest.mark.parametrize("read", [read_by_iteration, read_as_a_whole])
def test_a_stream_is_a_span_until_its_end(server, spans, read):
    with xd.connect(server.uri) as client:
        reader = client.get("t")
        assert not spans.get_finished_spans()
        read(reader)
        span = only(spans)
        assert span.name == "crossdock.get"
        assert span.kind.name == "CLIENT"
        assert span.status.status_code.name == "UNSET"
        assert span.attributes == {
            "crossdock.name": "t",
            "server.address": server.uri,
            "crossdock.batches": 10,
            "crossdock.bytes": TABLE.nbytes,
        }
        assert span.start_time < span.end_time <= time.time_ns()


def test_a_handle_of_a_table_makes_one_for_each_read(server, spans):
    with xd.connect(server.uri) as client:
        assert client.table("t").to_arrow() == TABLE
        assert only(spans).attributes["crossdock.batches"] == 10


def test_it_is_below_the_callers_span(server, spans):
    from opentelemetry import trace

    with xd.connect(server.uri) as client, trace.get_tracer("test").start_as_current_span("outer") as outer:
        read_as_a_whole(client.get("t"))
        assert only(spans).parent.span_id == outer.get_span_context().span_id


@pytest.mark.parametrize("how", ["close", "drop"])
def test_a_stream_that_is_left_early_ends_its_span(server, spans, how):
    with xd.connect(server.uri) as client:
        reader = client.get("t")
        next(reader)
        if how == "close":
            reader.close()
        del reader
        gc.collect()
        span = only(spans)
        assert span.attributes["crossdock.batches"] == 1
        assert span.status.status_code.name == "UNSET"


def test_a_request_that_is_refused_is_an_error(server, spans):
    with xd.connect(server.uri) as client:
        with pytest.raises(xd.NotFoundError):
            client.get(b"\xff")
        span = only(spans)
        assert span.status.status_code.name == "ERROR"
        assert span.attributes["crossdock.name"] == "b'\\xff'"
        (event,) = span.events
        assert event.name == "exception"
        assert event.attributes["exception.type"] == "NotFoundError"
        assert "nothing is published" in event.attributes["exception.message"]


@pytest.mark.parametrize("read", [list, pa.table])
def test_a_stream_that_fails_is_an_error(server, spans, read):
    def fails():
        yield BATCHES[0]
        raise ValueError("the sensor is gone")

    server.publish("fails", lambda: pa.RecordBatchReader.from_batches(TABLE.schema, fails()))
    with xd.connect(server.uri) as client:
        with pytest.raises((xd.RemoteError, OSError)):
            read(client.get("fails"))
        span = only(spans)
        assert span.status.status_code.name == "ERROR"
        assert span.attributes["crossdock.batches"] == 1
        assert "the sensor is gone" in span.status.description


def test_a_timeout_ends_no_span(server, spans):
    goes_on = threading.Event()

    def slow():
        yield BATCHES[0]
        goes_on.wait(60)

    server.publish("slow", lambda: pa.RecordBatchReader.from_batches(TABLE.schema, slow()))
    with xd.connect(server.uri) as client:
        reader = client.get("slow", timeout=0.2)
        while True:
            try:
                next(reader)
                break
            except xd.TimeoutError:
                pass  # the machine is busy
        with pytest.raises(xd.TimeoutError):
            next(reader)
        assert not spans.get_finished_spans()
        goes_on.set()
        while True:
            try:
                assert next(reader, None) is None
                break
            except xd.TimeoutError:
                pass
        assert only(spans).status.status_code.name == "UNSET"


def test_asyncio(server, spans):
    async def read() -> int:
        with xd.connect(server.uri) as client:
            return sum([pa.record_batch(batch).num_rows async for batch in client.aget("t")])

    assert asyncio.run(read()) == 1000
    assert only(spans).attributes["crossdock.batches"] == 10


def test_a_consumer_on_other_threads(server, spans):
    with xd.connect(server.uri) as client:
        reader = client.get("t")
        with duckdb.connect() as database:
            assert database.sql("select count(*) from reader").fetchall() == [(1000,)]
        del reader
        assert only(spans).attributes["crossdock.bytes"] == TABLE.nbytes


def test_a_program_without_it_imports_nothing(server):
    program = """if True:
        import sys
        import crossdock as xd
        with xd.connect(sys.argv[1]) as client:
            print(sum(1 for _ in client.get("t")), any(name.startswith("opentelemetry") for name in sys.modules))
    """
    done = subprocess.run(
        [sys.executable, "-c", program, server.uri], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["10", "False"]
