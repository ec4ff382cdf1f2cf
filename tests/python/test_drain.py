"""`Server.drain()` and `Server.update()`."""

from __future__ import annotations

import io
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.csv
import pytest

import crossdock as xd


def test_a_generator_that_never_ends_is_cut_off_by_the_end():
    batch = pa.record_batch({"n": [1]})

    def forever() -> Iterator[pa.RecordBatch]:
        while True:
            yield batch

    server = xd.serve({"forever": forever})
    with xd.connect(server.uri) as client, client.get("forever") as reader:
        assert next(reader).num_rows == 1
        assert not server.drain(0.1)
        with xd.connect(server.uri) as other, pytest.raises(xd.Error, match="about to end"):
            other.get("forever")
        with xd.connect(server.uri) as other:
            assert sum(one["name"] == "forever" for one in other.server_stats()["consumers"]) == 1
        assert next(reader).num_rows == 1
        server.close()
        with pytest.raises(xd.Error):
            for _ in reader:
                pass


def test_a_server_that_ends_while_a_source_is_read_publishes_nothing_more():
    with xd.serve({"t": pa.table({"n": [1]})}) as server:
        assert server.drain(60)
        with pytest.raises(xd.ClosedError, match="about to end"):
            server.publish("u", pa.table({"n": [1]}))
        with pytest.raises(xd.ClosedError, match="about to end"):
            server.update({"u": pa.table({"n": [1]})})
        with pytest.raises(TypeError):
            server.drain("soon")  # type: ignore[arg-type]
        with pytest.raises(xd.InvalidArgumentError):
            server.drain(-1)


def test_update_changes_all_or_nothing():
    one, two = (pa.table({"n": [number]}) for number in (1, 2))
    with xd.serve({"a": one, "b": one}) as server, xd.connect(server.uri) as client:
        server.update({"a": two, "c": two}, withdraw=["b"])
        assert [entry.name for entry in client.list()] == ["a", "c"]
        assert pa.table(client.get("a")) == two
        with pytest.raises(xd.UnsupportedTypeError) as error:
            server.update({"a": one, "d": object()})
        assert error.value.__notes__ == ["while publishing 'd'"]
        with pytest.raises(xd.NotFoundError):
            server.update({"a": one}, withdraw=["nobody"])
        with pytest.raises(xd.InvalidArgumentError):
            server.update({"a": one}, withdraw=["a"])
        with pytest.raises(TypeError):
            server.update({"a": one}, withdraw="c")
        with pytest.raises(xd.InvalidArgumentError):
            server.update([("a", one)])  # type: ignore[arg-type]
        assert [entry.name for entry in client.list()] == ["a", "c"]
        assert pa.table(client.get("a")) == two


def test_a_signal_that_ends_a_drain():
    """A handler that raises ends the wait, as it does in all calls that wait."""
    batch = pa.record_batch({"n": list(range(1000))})

    class Alarm(Exception):
        pass

    def ring(*_: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        table = pa.Table.from_batches([batch] * 1000)
        with xd.serve({"t": table}, window=2) as server, xd.connect(server.uri) as client, client.get("t") as reader:
            next(reader)
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(Alarm):
                server.drain()
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module", autouse=True)
def _a_first_csv() -> None:
    """pyarrow makes a pipe for Ctrl-C with the first thing that it reads, and keeps it."""
    pa.csv.read_csv(io.BytesIO(b"a\n1\n"))


STREAM = pa.Table.from_batches([pa.record_batch({"n": list(range(10_000))})] * 100)


@pytest.mark.parametrize("uri", ["shm:", "tcp:", "ucx:", "fabric:"])
def test_streams_and_idle_clients_of_each_transport(uri):
    try:
        server = xd.serve({"t": STREAM}, uri, window=4)
    except xd.SchemeError as error:
        pytest.skip(str(error))
    with server, xd.connect(server.uri) as idle, xd.connect(server.uri) as client:
        assert idle.list()
        reader = client.get("t")
        rows = next(reader).num_rows
        assert not server.drain(0)
        with ThreadPoolExecutor() as threads:
            drained = threads.submit(server.drain, 60)
            rows += sum(batch.num_rows for batch in reader)
            assert drained.result()
        assert rows == STREAM.num_rows


def test_streams_of_flight_go_on():
    flight = pytest.importorskip("pyarrow.flight")
    try:
        server = xd.serve({"t": STREAM}, "tcp:", flight="grpc://127.0.0.1:0", window=4)
    except xd.SchemeError as error:
        pytest.skip(str(error))
    with server, flight.connect(server.flight_uri.replace("grpc:", "grpc+tcp:")) as client:
        reader = client.do_get(flight.Ticket(b"t"))
        rows = reader.read_chunk().data.num_rows
        server.drain(0)
        with ThreadPoolExecutor() as threads:
            drained = threads.submit(server.drain, 60)
            rows += sum(chunk.data.num_rows for chunk in reader)
            assert drained.result()
        assert rows == STREAM.num_rows
        for call in (lambda: list(client.list_flights()), lambda: next(client.do_get(flight.Ticket(b"t")))):
            with pytest.raises(flight.FlightUnavailableError, match="about to end"):
                call()
