"""Tables that clients send to a Flight server by DoPut: pyarrow's client and ours, to our server and pyarrow's."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.interop.every_type import VALUES, column

import crossdock as xd

flight = pytest.importorskip("pyarrow.flight")

pytestmark = pytest.mark.usefixtures("each_grpc")

FREE_PORT = "grpc://127.0.0.1:0"
PATH = flight.FlightDescriptor.for_path


def numbers(rows: int = 1000) -> pa.Table:
    return pa.table({"n": np.arange(rows), "text": [str(i) for i in range(rows)]})


def write_and_close(writer: flight.FlightStreamWriter, batch: pa.RecordBatch) -> None:
    writer.write_batch(batch)
    writer.close()


def write_on(writer: flight.FlightStreamWriter, batch: pa.RecordBatch) -> None:
    while True:
        writer.write_batch(batch)


def send(client: flight.FlightClient, name: str, *batches: pa.RecordBatch) -> None:
    writer, _ = client.do_put(PATH(name), batches[0].schema)
    for batch in batches:
        writer.write_batch(batch)
    writer.close()


@pytest.mark.parametrize("name", VALUES)
def test_a_type_arrives_as_it_was_sent(name):
    field = pa.field("x", column(name).type, metadata={b"unit": b"furlongs"})
    batch = pa.record_batch([column(name)], schema=pa.schema([field], metadata={"origin": "here"}))
    table = pa.Table.from_batches([batch])
    with xd.serve({}, flight=FREE_PORT, puts="new") as server, xd.connect(server.flight_uri) as client:
        with flight.connect(server.flight_uri) as theirs:
            send(theirs, "theirs", batch)
        client.put("ours", [batch])
        for which in ("theirs", "ours"):
            got = pa.table(client.get(which))
            got.validate(full=True)
            assert got.equals(table, check_metadata=True)


def test_it_is_received_where_it_is_published():
    """One copy, from gRPC's memory into the arena: publishing it copies nothing."""
    table = pa.table({"x": np.random.default_rng(0).random(1 << 20)})
    with xd.serve({}, flight=FREE_PORT, puts="new") as server, xd.connect(server.flight_uri) as client:
        client.put("t", table)
        (source,) = server.stats()["sources"]
        assert (source["kind"], source["bytes_copied"], source["rows"]) == ("arena", 0, 1 << 20)
        reader = client.get("t")
        assert reader.location.startswith("shm:")
        assert pa.table(reader).equals(table)


def test_who_may_replace_what():
    with (
        xd.serve({"t": numbers(1)}, flight=FREE_PORT, puts="new") as server,
        xd.connect(server.flight_uri) as client,
        flight.connect(server.flight_uri) as theirs,
    ):
        for replace in (False, True):
            with pytest.raises(xd.InvalidArgumentError) as refused:
                client.put("t", numbers(2), replace=replace)
            assert (
                '"t" is already published, and it isn\'t to be replaced: give it with replace=True; a server takes '
                'that from clients with puts="replace" (`crossdock serve --puts replace`)'
            ) in str(refused.value)
        with pytest.raises(pa.ArrowInvalid, match="already published"):
            send(theirs, "t", *numbers(2).to_batches())
        assert pa.table(client.get("t")).num_rows == 1
    with (
        xd.serve({"t": numbers(1)}, flight=FREE_PORT, puts="replace") as server,
        xd.connect(server.flight_uri) as client,
        flight.connect(server.flight_uri) as theirs,
    ):
        with pytest.raises(xd.InvalidArgumentError, match="already published"):
            client.put("t", numbers(2))
        client.put("t", numbers(3), replace=True)
        assert pa.table(client.get("t")).num_rows == 3
        send(theirs, "t", *numbers(4).to_batches())
        assert pa.table(client.get("t")).num_rows == 4


def test_a_server_takes_none_unless_it_says_so():
    with xd.serve({}, flight=FREE_PORT) as server:
        with (
            xd.connect(server.flight_uri) as client,
            pytest.raises(xd.UnsupportedError, match="takes no tables"),
        ):
            client.put("t", numbers())
        with flight.connect(server.flight_uri) as theirs, pytest.raises(NotImplementedError, match="takes no tables"):
            send(theirs, "t", *numbers().to_batches())
        with xd.connect(server.uri) as client, pytest.raises(xd.UnsupportedError, match="Flight"):
            client.put("t", numbers())
    with pytest.raises(xd.InvalidArgumentError, match="flight="):
        xd.serve({}, puts="new")
    with pytest.raises(xd.InvalidArgumentError, match="puts must be"):
        xd.serve({}, flight=FREE_PORT, puts="all")


def test_names_that_cannot_be():
    with xd.serve({}, flight=FREE_PORT, puts="new") as server, flight.connect(server.flight_uri) as theirs:
        batch = pa.record_batch({"x": [1]})
        for descriptor, what in (
            (PATH("a", "b"), "this path has 2"),
            (flight.FlightDescriptor.for_command(b"x"), "no commands"),
            (PATH(""), "can't be empty"),
        ):
            writer, _ = theirs.do_put(descriptor, batch.schema)
            with pytest.raises(pa.ArrowException, match=what):
                write_and_close(writer, batch)
        assert server.stats()["sources"] == []


def test_a_token_is_needed_to_send():
    with xd.serve({}, flight=FREE_PORT, puts="new", token="secret") as server:
        with pytest.raises(xd.PermissionError, match="token"):
            xd.connect(server.flight_uri, token="other")
        with flight.connect(server.flight_uri) as theirs, pytest.raises(flight.FlightUnauthenticatedError):
            send(theirs, "t", *numbers().to_batches())
        with xd.connect(server.flight_uri, token="secret") as client:
            client.put("t", numbers())
        assert [source["name"] for source in server.stats()["sources"]] == ["t"]


def test_more_than_the_limit_is_refused():
    with xd.serve({}, flight=FREE_PORT, puts="new", max_put=1 << 20) as server:
        with xd.connect(server.flight_uri) as client:
            with pytest.raises(xd.ResourceError, match=r"reserve"):
                client.put("t", pa.table({"x": np.zeros(1 << 18)}))
            client.put("t", pa.table({"x": np.zeros(1 << 16)}))
        assert [source["rows"] for source in server.stats()["sources"]] == [1 << 16]


def test_batches_without_rows_are_counted():
    empty = pa.record_batch({"x": pa.array([], pa.int64())})
    with (
        xd.serve({}, "tcp:", flight=FREE_PORT, puts="new", max_put=1 << 20) as server,
        xd.connect(server.flight_uri) as client,
    ):
        for send_it in (client.put, client.offer):
            with pytest.raises(xd.ResourceError, match=r"1048576 bytes with its messages \(max_put\)"):
                send_it("t", pa.RecordBatchReader.from_batches(empty.schema, [empty] * 20_000))
        assert server.stats()["sources"] == []


def test_files_and_other_sources_are_sent(tmp_path):
    table = numbers()
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    xd.write(table, tmp_path / "t.arrow")
    with (
        xd.serve({}, "tcp:", flight=FREE_PORT, puts="new") as server,
        xd.connect(server.flight_uri) as client,
    ):
        for number, send_it in enumerate((client.put, client.offer)):
            sources = (tmp_path / "t.parquet", str(tmp_path / "t.arrow"), table.to_pydict())
            for kind, source in enumerate(sources):
                send_it(f"{number} {kind}", source)
                assert pa.table(client.get(f"{number} {kind}")).to_pydict() == table.to_pydict()
            with pytest.raises(xd.NotFoundError, match=r"absent\.parquet"):
                send_it("absent", tmp_path / "absent.parquet")


def test_a_source_that_fails_publishes_nothing():
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"x": [1]})
        raise ValueError("the sensor is gone")

    with xd.serve({}, flight=FREE_PORT, puts="new") as server, xd.connect(server.flight_uri) as client:
        source = pa.RecordBatchReader.from_batches(pa.schema({"x": pa.int64()}), batches())
        with pytest.raises(Exception, match="the sensor is gone"):
            client.put("t", source)
        client.put("u", numbers())
        assert [one["name"] for one in server.stats()["sources"]] == ["u"]


def test_a_client_that_is_killed_publishes_nothing(script):
    with xd.serve({}, flight=FREE_PORT, puts="new") as server:
        sender = script(
            """
            import sys, pyarrow as pa, pyarrow.flight as flight
            batch = pa.record_batch({"x": list(range(1000))})
            client = flight.connect(sys.argv[1])
            writer, _ = client.do_put(flight.FlightDescriptor.for_path("t"), batch.schema)
            writer.write_batch(batch)
            print("sent", flush=True)
            sys.stdin.readline()
            """,
            server.flight_uri,
        )
        assert sender.read_line() == "sent"
        sender.stop()
        # The server has taken the end for what it is once another table can have the name.
        with xd.connect(server.flight_uri) as client:
            client.put("t", numbers(5))
            assert pa.table(client.get("t")).num_rows == 5


def test_a_server_that_closes_in_the_middle():
    server = xd.serve({}, flight=FREE_PORT, puts="new")
    with flight.connect(server.flight_uri) as theirs:
        batch = pa.record_batch({"x": np.zeros(1 << 17)})
        writer, _ = theirs.do_put(PATH("t"), batch.schema)
        writer.write_batch(batch)
        server.close()
        with pytest.raises((pa.ArrowException, OSError)):
            write_on(writer, batch)
        with pytest.raises((pa.ArrowException, OSError)):
            writer.close()


def test_many_at_once():
    with xd.serve({}, flight=FREE_PORT, puts="new") as server:

        def put(number: int) -> None:
            with xd.connect(server.flight_uri) as client:
                client.put(f"t{number}", numbers(number))

        threads = [threading.Thread(target=put, args=(number,)) for number in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {source["name"]: source["rows"] for source in server.stats()["sources"]} == {
            f"t{number}": number for number in range(1, 9)
        }


class Theirs(flight.FlightServerBase):
    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.tables: dict[str, pa.Table] = {}

    def do_put(self, context, descriptor, reader, writer):
        if descriptor.path[0] == b"refused":
            raise flight.FlightServerError("not this one")
        self.tables[descriptor.path[0].decode()] = reader.read_all()


def test_to_pyarrows_server():
    table = pa.table({"n": range(1000), "d": pa.array(["x", "y"] * 500).dictionary_encode()})
    with Theirs() as theirs, xd.connect(f"grpc://127.0.0.1:{theirs.port}") as client:
        client.put("t", table)
        assert theirs.tables["t"].equals(table)
        batches = [pa.record_batch({"n": np.arange(rows)}) for rows in (0, 1, 65536, 3, 1 << 20, 0, 7)]
        client.put("many", pa.RecordBatchReader.from_batches(batches[0].schema, batches))
        assert theirs.tables["many"].to_batches() == batches
        with pytest.raises(xd.RemoteError, match="not this one"):
            client.put("refused", table)


@pytest.mark.long
def test_memory_of_a_device_is_copied_once(script):
    program = script(
        """
        import pyarrow as pa, crossdock as xd
        from crossdock.testing import simulated_devices
        batch = pa.record_batch({"n": list(range(1000)), "d": pa.array(["x", "y"] * 500).dictionary_encode()})
        with simulated_devices(1):
            on_device = xd.RecordBatch(batch).to("sim:0")
            with (
                xd.serve({}, flight="grpc://127.0.0.1:0", puts="new") as server,
                xd.connect(server.flight_uri) as client,
            ):
                client.put("t", on_device)
                assert pa.table(client.get("t")).to_batches() == [batch]
        print("equal")
        """
    )
    assert program.read_line() == "equal"
    program.finish()
