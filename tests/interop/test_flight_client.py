"""Our client of Flight servers: pyarrow's, and ours."""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from tests.interop.every_type import VALUES, column

import crossdock as xd

flight = pytest.importorskip("pyarrow.flight")

pytestmark = pytest.mark.usefixtures("each_grpc")

FREE_PORT = "grpc://127.0.0.1:0"


def numbers(rows: int = 1000) -> pa.Table:
    return pa.table({"n": np.arange(rows), "text": [str(i) for i in range(rows)]})


class Theirs(flight.FlightServerBase):
    """pyarrow's server. `tables` by name; `locations` are those of each; what `get` gives is the answer to DoGet."""

    def __init__(self, tables, locations=(), endpoints=1, token=None):
        super().__init__("grpc://127.0.0.1:0", middleware={"token": _Asks(token)} if token else None)
        self.tables = tables
        self.locations = list(locations)
        self.endpoints = endpoints
        self.uri = f"grpc://127.0.0.1:{self.port}"
        self.gets = 0

    def _info(self, name):
        table = self.tables[name]
        schema = table.schema if isinstance(table, pa.Table) else pa.schema({"x": pa.float64()})
        endpoint = flight.FlightEndpoint(name.encode(), self.locations)
        rows = table.num_rows if isinstance(table, pa.Table) else -1
        return flight.FlightInfo(schema, flight.FlightDescriptor.for_path(name), [endpoint] * self.endpoints, rows, -1)

    def list_flights(self, context, criteria):
        for name in self.tables:
            yield self._info(name)
        yield flight.FlightInfo(pa.schema({}), flight.FlightDescriptor.for_command(b"x"), [], -1, -1)

    def get_flight_info(self, context, descriptor):
        return self._info(descriptor.path[0].decode())

    def do_get(self, context, ticket):
        self.gets += 1
        table = self.tables[ticket.ticket.decode()]
        return flight.RecordBatchStream(table) if isinstance(table, pa.Table) else table()


class _Asks(flight.ServerMiddlewareFactory):
    def __init__(self, token):
        self.token = token

    def start_call(self, info, headers):
        if headers.get("authorization") != [f"Bearer {self.token}"]:
            raise flight.FlightUnauthenticatedError("who are you?")


class TestPyarrowsServer:
    def test_sends_everything_and_parts_are_cut_here(self):
        table = numbers()
        with Theirs({"t": table}) as theirs, xd.connect(theirs.uri) as client:
            for _ in range(2):
                assert pa.table(client.get("t", rows=range(10, 20))).equals(table.slice(10, 10))
                some = client.table("t", rows=range(100, 900)).filter([("n", ">", 890)])
                assert some.to_arrow().equals(table.slice(891, 9))
                assert client.table("t").to_dataset().count_rows(filter=None) == 1000
                assert client.table("t").to_lazy().select("n").tail(1).collect().item() == 999

    def test_is_listed_and_read(self):
        table = numbers()
        big = pa.table({"x": np.arange(8 << 20)})
        with Theirs({"numbers": table, "big": big}) as theirs, xd.connect(theirs.uri) as client:
            entries = {entry.name: entry for entry in client.list()}
            assert set(entries) == {"numbers", "big"}
            assert pa.schema(entries["numbers"].schema) == table.schema
            assert (entries["numbers"].rows, entries["numbers"].bytes) == (1000, None)
            reader = client.get("numbers")
            assert (reader.location, reader.passed_over) == (theirs.uri, [])
            assert pa.table(reader).equals(table)
            assert pa.table(client.get("big")).equals(big)
            assert pa.table(client.get("numbers", columns=["text"])).equals(table.select(["text"]))

    @pytest.mark.parametrize("name", VALUES)
    def test_sends_a_type_as_it_is(self, name):
        field = pa.field("x", column(name).type, metadata={b"unit": b"furlongs"})
        batch = pa.record_batch([column(name)], schema=pa.schema([field], metadata={"origin": "here"}))
        table = pa.Table.from_batches([batch])
        with Theirs({"t": table}) as theirs, xd.connect(theirs.uri) as client:
            got = pa.table(client.get("t"))
        got.validate(full=True)
        assert got.equals(table, check_metadata=True)

    def test_sends_many_batches_in_order(self):
        batches = [pa.record_batch({"n": np.arange(rows)}) for rows in (0, 1, 65536, 3, 1 << 20, 0, 7)]
        table = pa.Table.from_batches(batches)
        with Theirs({"t": table}) as theirs, xd.connect(theirs.uri) as client:
            assert pa.table(client.get("t")).equals(table)

    def test_reports_its_errors(self):
        def breaks() -> flight.GeneratorStream:
            def batches() -> Iterator[pa.RecordBatch]:
                yield pa.record_batch({"x": [1.0]})
                raise flight.FlightServerError("the sensor is gone")

            return flight.GeneratorStream(pa.schema({"x": pa.float64()}), batches())

        with Theirs({"breaks": breaks}) as theirs, xd.connect(theirs.uri) as client:
            with pytest.raises(xd.NotFoundError, match="absent"):
                client.get("absent")
            reader = client.get("breaks")
            assert len(next(reader)) == 1
            with pytest.raises(xd.RemoteError, match=r"the sensor is gone.*reported by grpc://127"):
                next(reader)
            assert client.list()  # the client goes on

    def test_asks_for_a_token(self):
        with Theirs({"t": numbers()}, token="secret") as theirs:
            with xd.connect(theirs.uri, token="secret") as client:
                assert pa.table(client.get("t")).equals(numbers())
            for token in (None, "other"):
                with pytest.raises(xd.PermissionError, match="who are you"):
                    xd.connect(theirs.uri, token=token)

    def test_is_left_in_the_middle(self):
        stopped = threading.Event()

        def endless() -> flight.GeneratorStream:
            def batches() -> Iterator[pa.RecordBatch]:
                try:
                    while True:
                        yield pa.record_batch({"x": np.zeros(1 << 17)})
                finally:
                    stopped.set()

            return flight.GeneratorStream(pa.schema({"x": pa.float64()}), batches())

        with Theirs({"t": endless}) as theirs, xd.connect(theirs.uri) as client:
            reader = client.get("t")
            next(reader)
            del reader
            assert stopped.wait(10)
            assert client.list()

    def test_has_several_endpoints(self):
        with (
            Theirs({"t": numbers()}, endpoints=2) as theirs,
            xd.connect(theirs.uri) as client,
            pytest.raises(xd.UnsupportedError, match="has 2 endpoints"),
        ):
            client.get("t")


class TestLocations:
    def test_of_ours_are_used_and_kept(self):
        table = numbers()
        with xd.serve({"t": table}, ["tcp:", "shm:"], flight=FREE_PORT) as server:
            with xd.connect(server.flight_uri) as client:
                for _ in range(3):
                    reader = client.get("t")
                    assert reader.location.startswith("shm:")
                    assert reader.passed_over == []
                    assert pa.table(reader).equals(table)
            assert server.stats()["accepted_connections"] == 1

    def test_of_ours_handed_out_by_pyarrows_server(self):
        table = numbers()
        with (
            xd.serve({"t": table}, ["shm:", "tcp:"]) as server,
            Theirs({"t": numbers(1)}, server.locations) as theirs,
            xd.connect(theirs.uri) as client,
        ):
            reader = client.get("t")
            assert reader.location == server.uri
            assert pa.table(reader).equals(table)
            assert theirs.gets == 0

    def test_that_fail_are_named(self):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        wrong = {
            f"tcp://127.0.0.1:{port}?want_data=1": "no server listens",
            "shm:absent?want_data=1": "no server listens at shm:absent",
            "shm:absent": "no want_data",
            "smoke://signals": "smoke",
            "tcp://10.255.255.1:1?want_data=1": "at another host than 127.0.0.1",
        }
        with Theirs({"t": numbers()}, wrong) as theirs, xd.connect(theirs.uri) as client:
            reader = client.get("t")
            assert reader.location == theirs.uri
            assert pa.table(reader).equals(numbers())
            passed_over = dict(reader.passed_over)
            assert set(passed_over) == set(wrong)
            for location, why in wrong.items():
                assert why in passed_over[location]

    def test_of_an_earlier_server_are_passed_over(self):
        with xd.serve({"t": numbers(1)}, "shm:found") as server:
            old = server.locations[0]
        with (
            xd.serve({"t": numbers(2)}, "shm:found") as server,
            Theirs({"t": numbers(3)}, [old, server.locations[0]]) as theirs,
            xd.connect(theirs.uri) as client,
        ):
            reader = client.get("t")
            assert pa.table(reader).num_rows == 2
            ((location, why),) = reader.passed_over
            assert location == old
            assert "earlier server" in why

    def test_that_nobody_serves_and_no_flight_server_either(self):
        """The error lists what was tried."""

        class NoDoGet(Theirs):
            def do_get(self, context, ticket):
                raise NotImplementedError("no DoGet here")

        many = [f"shm:absent-{i}?want_data=1" for i in range(100)]
        with (
            NoDoGet({"t": numbers()}, many) as theirs,
            xd.connect(theirs.uri) as client,
            pytest.raises(xd.UnsupportedError, match=r"no DoGet here(.|\n)*tried before(.|\n)*shm:absent-0"),
        ):
            client.get("t")

    def test_whose_server_dies_are_left_for_doget(self, program, tmp_path):
        path = tmp_path / "t.arrow"
        with pa.ipc.new_file(path, numbers().schema) as writer:
            writer.write_table(numbers())
        serving = program(sys.executable, "-m", "crossdock", "serve", str(path), "--uri", "tcp:")
        uri = serving.read_line()
        with Theirs({"t": numbers(2)}, [uri]) as theirs, xd.connect(theirs.uri) as client:
            reader = client.get("t")
            assert reader.location == uri
            assert pa.table(reader).equals(numbers())
            serving.stop()
            reader = client.get("t")
            assert reader.location == theirs.uri
            assert pa.table(reader).num_rows == 2

    def test_at_any_host_if_allowed(self):
        with (
            xd.serve({"t": numbers()}, "tcp://127.0.0.1:0") as server,
            Theirs({"t": numbers(1)}, server.locations) as theirs,
        ):
            # A name that isn't this machine's, as far as the client can tell.
            unknown = server.locations[0].replace("127.0.0.1", "no.such.host.invalid")
            theirs.locations = [unknown]
            with xd.connect(theirs.uri) as client:
                assert client.get("t").passed_over[0][1].startswith("it is at another host")
            with xd.connect(theirs.uri, any_location=True) as client:
                assert client.get("t").passed_over[0][1].startswith("ConnectionError: tcp: no address was found")


OUR_SERVER = """
    import sys, pyarrow as pa, crossdock as xd
    with xd.serve({"t": pa.table({"x": [1]})}, "tcp:", flight=sys.argv[1]) as server:
        print(server.flight_uri, flush=True)
        sys.stdin.readline()
    """


def test_a_server_that_goes_away(script):
    server = script(OUR_SERVER, FREE_PORT)
    with xd.connect(server.read_line()) as client:
        assert pa.table(client.get("t")).num_rows == 1
        server.stop()
        with pytest.raises(xd.ConnectionError, match="no Flight server answers"):
            client.get("t")


FLIGHT_SERVER = """
    import sys, pyarrow as pa, pyarrow.flight as flight

    class Server(flight.FlightServerBase):
        def get_flight_info(self, context, descriptor):
            endpoint = flight.FlightEndpoint(b"t", [sys.argv[1]])
            return flight.FlightInfo(pa.schema({"x": pa.int64()}), descriptor, [endpoint], -1, -1)

    with Server("grpc://127.0.0.1:0") as server:
        print(f"grpc://127.0.0.1:{server.port}", flush=True)
        sys.stdin.readline()
    """


@pytest.mark.parametrize("answers", [True, False])
def test_a_server_that_is_killed_between_its_info_and_the_data(script, answers):
    killed = []

    def kill_it():
        killed.append(1)
        server.send(signal.SIGKILL)
        server.process.wait()
        if not answers:
            raise ValueError("the data is gone, too")
        return pa.table({"x": [1, 2]}).to_reader()

    with xd.serve({"t": kill_it}, "tcp:") as data:
        server = script(FLIGHT_SERVER, data.uri)
        with xd.connect(server.read_line()) as client:
            if answers:
                reader = client.get("t")
                assert reader.location == data.uri
                assert pa.table(reader).num_rows == 2
            else:
                with pytest.raises((xd.ConnectionError, xd.TruncatedStreamError)) as raised:
                    client.get("t")
                assert "no Flight server answers" in str(raised.value)
                assert data.uri in str(raised.value), "what was tried before"
                assert "the data is gone, too" in str(raised.value)
            assert killed


def test_our_server_is_killed_between_its_info_and_doget(script):
    server = script(OUR_SERVER, FREE_PORT)
    with flight.connect(server.read_line()) as theirs:
        info = theirs.get_flight_info(flight.FlightDescriptor.for_path("t"))
        server.send(signal.SIGKILL)
        server.process.wait()
        with pytest.raises(flight.FlightUnavailableError):
            theirs.do_get(info.endpoints[0].ticket).read_all()


def test_a_closed_client_does_nothing_more():
    with xd.serve({"t": numbers()}, "tcp:", flight=FREE_PORT, puts="new") as server:
        client = xd.connect(server.flight_uri)
        client.get("t").close()
        client.close()
        for call in (
            client.list,
            lambda: client.get("t"),
            lambda: client.tensor("t"),
            lambda: client.put("u", numbers()),
            lambda: client.offer("u", numbers()),
        ):
            with pytest.raises(xd.ClosedError, match=r"this client of grpc://.* was closed"):
                call()


@pytest.mark.long
def test_a_server_that_is_back_is_found_soon(script):
    first = script(OUR_SERVER, FREE_PORT)
    uri = first.read_line()
    with xd.connect(uri) as client:
        assert client.list()
        first.stop()
        # Long enough for gRPC to make its pauses long.
        until = time.monotonic() + 4
        while time.monotonic() < until:
            with pytest.raises(xd.ConnectionError):
                client.list()
        second = script(OUR_SERVER, uri)
        assert second.read_line() == uri
        start = time.monotonic()
        while True:
            try:
                client.list()
                break
            except xd.ConnectionError:
                assert time.monotonic() - start < 10
        second.stop()


@pytest.mark.parametrize(
    "uri",
    ["grpc:8815", "grpc://", "grpc://:1", "grpc://host", "grpc://h:74362", "grpc://h:-1", "grpc://h:1/t", "grpc://h:x"],
)
def test_uris_that_are_none(uri):
    with pytest.raises(xd.UriError, match="grpc://HOST:PORT"):
        xd.connect(uri)


def test_what_a_client_of_flight_cannot_do():
    with xd.serve({"t": numbers()}, flight=FREE_PORT) as server:
        with pytest.raises(xd.ConnectionError, match="no Flight server answers"):
            xd.connect("grpc://127.0.0.1:1", timeout=5)
        with pytest.raises(xd.UnsupportedError, match="one connection"):
            xd.connect(metadata=server.flight_uri, data=server.uri)
        with pytest.raises(xd.UnsupportedError, match="flight="):
            xd.serve({}, server.flight_uri)


def test_the_commands(program):
    def run(*arguments: str) -> str:
        return program(sys.executable, "-m", "crossdock", *arguments).finish()

    with xd.serve({"numbers": numbers()}, flight=FREE_PORT) as server:
        assert "numbers" in run("ls", server.flight_uri)
        assert "1,000" in run("get", server.flight_uri, "numbers")


class TestTensors:
    def test_are_found_and_come_from_the_best_location(self):
        array = np.arange(24.0).reshape(2, 3, 4)
        with xd.serve({"weights": xd.asarray(array)}, ["shm:", "tcp:"], flight=FREE_PORT) as server:
            with xd.connect(server.flight_uri) as client:
                (entry,) = client.list()
                assert (entry.name, entry.kind) == ("weights", "tensor")
                np.testing.assert_array_equal(np.asarray(client.tensor("weights")), array)
                with pytest.raises(xd.InvalidArgumentError, match="tensor"):
                    client.get("weights")
            assert server.stats()["accepted_connections"] == 1

    def test_come_by_value_into_memory_that_is_there(self):
        array = np.arange(24.0).reshape(2, 3, 4)
        with (
            xd.serve({"weights": xd.asarray(array)}, flight=FREE_PORT) as server,
            xd.connect(server.flight_uri, way="message") as client,
        ):
            out = np.zeros_like(array)
            client.tensor("weights", out=out)
            np.testing.assert_array_equal(out, array)

    def test_come_by_doget_where_nothing_else_does(self, monkeypatch, tmp_path):
        model = {"layer": {"bias": np.ones(3), "weight": np.asfortranarray(np.arange(6).reshape(2, 3))}}
        tables = {"model": model, "one": xd.asarray(np.arange(5, dtype=">f4")), "t": numbers()}
        with xd.serve(tables, flight=FREE_PORT) as server, xd.connect(server.flight_uri) as client:
            monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # the server's name isn't found there
            assert client.get("t").location == server.flight_uri
            np.testing.assert_array_equal(
                np.asarray(client.tensors("model")["layer"]["weight"]), model["layer"]["weight"]
            )
            out = np.zeros(5, dtype=">f4")
            client.tensor("one", out=out)
            np.testing.assert_array_equal(out, np.arange(5, dtype="f4"))

    def test_several_come_in_their_nesting(self):
        model = {"layer": {"bias": np.ones(3), "weight": np.eye(3)}}
        with xd.serve({"model": model}, flight=FREE_PORT) as server, xd.connect(server.flight_uri) as client:
            got = client.tensors("model")
            np.testing.assert_array_equal(np.asarray(got["layer"]["weight"]), np.eye(3))


def test_names_that_are_no_text():
    name = b"\x00\xff"
    with xd.serve({name: numbers()}, flight=FREE_PORT, puts="new") as server:
        with xd.connect(server.flight_uri) as client:
            assert [entry.name for entry in client.list()] == [name]
            assert pa.table(client.get(name)).equals(numbers())
            client.put(b"\xfe", numbers(2))
            assert pa.table(client.get(b"\xfe")).num_rows == 2
        with flight.connect(server.flight_uri) as theirs:
            (info,) = [one for one in theirs.list_flights() if one.descriptor.command == name]
            assert theirs.do_get(info.endpoints[0].ticket).read_all().equals(numbers())


def test_statistics_are_asked_of_the_other_uris():
    with xd.serve({"t": numbers(1)}, flight=FREE_PORT) as server, xd.connect(server.flight_uri) as client:
        with pytest.raises(xd.UnsupportedError, match="statistics don't go by Flight"):
            client.server_stats()
        with xd.connect(server.uri) as other:
            assert other.server_stats()["pid"] == server.stats()["pid"]
