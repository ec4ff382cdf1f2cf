"""Our Flight server, as pyarrow's client sees it: what pyarrow's own server would give, and more."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest
from tests.interop.every_type import VALUES, column

import crossdock as xd

flight = pytest.importorskip("pyarrow.flight")

pytestmark = pytest.mark.usefixtures("each_grpc")

FREE_PORT = "grpc://127.0.0.1:0"
PATH = flight.FlightDescriptor.for_path


@pytest.fixture
def connect() -> Iterator[Callable[[xd.Server], flight.FlightClient]]:
    clients = []

    def start(server: xd.Server) -> flight.FlightClient:
        clients.append(flight.connect(server.flight_uri))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


def numbers(rows: int = 1000) -> pa.Table:
    return pa.table({"n": np.arange(rows), "text": [str(i) for i in range(rows)]})


def test_tables_are_found_and_read(connect):
    table = numbers()
    with xd.serve({"numbers": table, "live": lambda: table}, ["shm:", "tcp:"], flight=FREE_PORT) as server:
        client = connect(server)
        infos = {info.descriptor.path[0].decode(): info for info in client.list_flights()}
        assert set(infos) == {"numbers", "live"}
        info = client.get_flight_info(PATH("numbers"))
        assert info.schema == table.schema == client.get_schema(PATH("numbers")).schema
        source = next(one for one in server.stats()["sources"] if one["name"] == "numbers")
        assert (info.total_records, info.total_bytes) == (table.num_rows, source["bytes"])
        (endpoint,) = info.endpoints
        assert [one.uri.decode() for one in endpoint.locations] == [
            *server.locations,
            "arrow-flight-reuse-connection://?",
        ]
        assert client.do_get(endpoint.ticket).read_all().equals(table)
        assert client.do_get(infos["live"].endpoints[0].ticket).read_all().equals(table)
        assert infos["live"].total_records == -1


def test_its_locations_lead_to_the_data(connect):
    table = numbers()
    with xd.serve({"numbers": table}, ["tcp:", "shm:"], flight=FREE_PORT) as server:
        (endpoint,) = connect(server).get_flight_info(PATH("numbers")).endpoints
        uris = [one.uri.decode() for one in endpoint.locations]
        assert [uri.partition(":")[0] for uri in uris] == ["shm", "tcp", "arrow-flight-reuse-connection"]
        for uri in uris[:2]:
            with xd.connect(uri) as client:
                assert pa.table(client.get(endpoint.ticket.ticket.decode())).equals(table)


@pytest.mark.parametrize("name", VALUES)
def test_a_type_comes_as_it_went(name, connect):
    field = pa.field("x", column(name).type, metadata={b"unit": b"furlongs"})
    batch = pa.record_batch([column(name)], schema=pa.schema([field], metadata={"origin": "here"}))
    with xd.serve({"t": [batch]}, flight=FREE_PORT) as server:
        got = connect(server).do_get(flight.Ticket("t")).read_all()
    assert got.schema.equals(batch.schema, check_metadata=True)
    got.validate(full=True)
    assert got.equals(pa.Table.from_batches([batch]), check_metadata=True)


def test_many_batches_of_many_sizes_come_in_order(connect):
    batches = [pa.record_batch({"n": np.arange(rows)}) for rows in (0, 1, 65536, 3, 1 << 20, 0, 7)]
    with xd.serve({"t": pa.RecordBatchReader.from_batches(batches[0].schema, batches)}, flight=FREE_PORT) as server:
        reader = connect(server).do_get(flight.Ticket("t"))
        assert [chunk.data for chunk in reader] == batches


def test_no_byte_of_a_body_is_copied_by_us(connect):
    """An arena's memory is published as it lies, and its bodies leave from there: nothing is counted as copied."""
    arena = xd.Arena(64 << 20)
    values = arena.empty(1 << 22, "f8")
    values[:] = np.arange(1 << 22)
    table = pa.table({"x": values})
    with xd.serve({"t": table}, flight=FREE_PORT) as server:
        assert connect(server).do_get(flight.Ticket("t")).read_all().equals(table)
        (source,) = server.stats()["sources"]
        assert source["bytes_copied"] == 0
        assert server.stats()["bitmap_bytes_copied"] == 0


def test_what_is_refused_is_named(connect):
    with xd.serve({"t": numbers(), "once": numbers(3).to_reader()}, flight=FREE_PORT) as server:
        client = connect(server)
        with pytest.raises(KeyError, match='nothing is published as \'other\'; the catalog has "once", "t"'):
            client.get_flight_info(PATH("other"))
        with pytest.raises(KeyError, match="nothing is published as 'other'"):
            client.do_get(flight.Ticket("other")).read_all()
        with pytest.raises(pa.ArrowInvalid, match="this path has 2"):
            client.get_flight_info(PATH("a", "b"))
        with pytest.raises(NotImplementedError, match="no commands, such as Flight SQL's"):
            client.get_flight_info(flight.FlightDescriptor.for_command(b"SELECT 1"))
        with pytest.raises(NotImplementedError, match="no action 'drop'"):
            list(client.do_action("drop"))
        assert list(client.list_actions()) == []
        client.do_get(flight.Ticket("once")).read_all()
        with pytest.raises(pa.ArrowException, match='ConsumedError: "once" is a stream that can be read once'):
            client.do_get(flight.Ticket("once")).read_all()


def test_an_error_in_the_middle_reaches_the_reader(connect):
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [1]})
        raise ValueError("the sensor is gone")

    schema = pa.schema({"n": pa.int64()})
    with xd.serve({"t": lambda: pa.RecordBatchReader.from_batches(schema, batches())}, flight=FREE_PORT) as server:
        reader = connect(server).do_get(flight.Ticket("t"))
        assert reader.read_chunk().data.num_rows == 1
        with pytest.raises(pa.ArrowException, match="the sensor is gone"):
            reader.read_chunk()


class TestToken:
    SECRET = "a long secret"

    def test_as_a_header(self, connect):
        with xd.serve({"t": numbers()}, flight=FREE_PORT, token=self.SECRET) as server:
            client = connect(server)
            right = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer " + self.SECRET.encode())])
            assert client.do_get(flight.Ticket("t"), right).read_all().equals(numbers())
            with pytest.raises(flight.FlightUnauthenticatedError, match="call has none: give it as token="):
                list(client.list_flights())
            for header in (b"Bearer other", b"Basic " + self.SECRET.encode(), b""):
                wrong = flight.FlightCallOptions(headers=[(b"authorization", header)])
                with pytest.raises(flight.FlightUnauthenticatedError, match="token"):
                    list(client.list_flights(options=wrong))
                with pytest.raises(flight.FlightUnauthenticatedError, match="token"):
                    client.do_get(flight.Ticket("t"), wrong).read_all()

    def test_as_a_password(self, connect):
        with xd.serve({"t": numbers()}, flight=FREE_PORT, token=self.SECRET) as server:
            client = connect(server)
            header = client.authenticate_basic_token("ada", self.SECRET)
            options = flight.FlightCallOptions(headers=[header])
            assert client.do_get(flight.Ticket("t"), options).read_all().equals(numbers())
            with pytest.raises(flight.FlightUnauthenticatedError, match="password"):
                client.authenticate_basic_token("ada", "other")

    def test_by_a_handler(self, connect):
        class Login(flight.ClientAuthHandler):
            def __init__(self, password: str) -> None:
                super().__init__()
                self.password = password
                self.token = b""

            def authenticate(self, outgoing, incoming):
                outgoing.write(flight.BasicAuth("ada", self.password).serialize())
                self.token = incoming.read()

            def get_token(self):
                return self.token

        with xd.serve({"t": numbers()}, flight=FREE_PORT, token=self.SECRET) as server:
            client = connect(server)
            with pytest.raises(flight.FlightUnauthenticatedError, match="password"):
                client.authenticate(Login("other"))
            client.authenticate(Login(self.SECRET))
            assert client.do_get(flight.Ticket("t")).read_all().equals(numbers())

    def test_a_login_without_a_token_to_know(self, connect):
        with xd.serve({"t": numbers()}, flight=FREE_PORT) as server:
            client = connect(server)
            client.authenticate_basic_token("ada", "anything")
            assert client.do_get(flight.Ticket("t")).read_all().equals(numbers())


class Theirs(flight.FlightServerBase):
    def do_get(self, context, ticket):
        return flight.RecordBatchStream(numbers())


def test_beside_pyarrows_own_server_in_one_process(connect):
    with (
        Theirs("grpc://127.0.0.1:0") as theirs,
        xd.serve({"t": numbers()}, flight=FREE_PORT) as ours,
        flight.connect(f"grpc://127.0.0.1:{theirs.port}") as client,
    ):
        assert client.do_get(flight.Ticket("x")).read_all().equals(numbers())
        assert connect(ours).do_get(flight.Ticket("t")).read_all().equals(numbers())
        assert client.do_get(flight.Ticket("x")).read_all().equals(numbers())


def test_two_servers_in_one_process(connect):
    with (
        xd.serve({"a": numbers(1)}, flight=FREE_PORT) as one,
        xd.serve({"a": numbers(2)}, flight=FREE_PORT) as other,
    ):
        assert one.flight_uri != other.flight_uri
        for server, rows in ((one, 1), (other, 2)):
            assert connect(server).do_get(flight.Ticket("a")).read_all().num_rows == rows
        for uri in (one.flight_uri, one.flight_uri.replace("127.0.0.1", "*")):
            with pytest.raises(xd.ConnectionError) as raised:
                xd.serve({}, flight=uri)
            help_ = "another process listens there; use port 0 to get a free port"
            assert str(raised.value) == f"can't listen at {uri}: {help_}"


@pytest.mark.parametrize(
    ("host", "why"),
    [("203.0.113.1", "this machine has no such address"), ("no.such.host.invalid", "Name or service not known")],
)
def test_an_address_at_which_no_server_can_listen(host, why):
    with pytest.raises(xd.ConnectionError) as raised:
        xd.serve({}, flight=f"grpc://{host}:8815")
    assert str(raised.value) == f"can't listen at grpc://{host}:8815: {why}"


def read_on(reader: flight.FlightStreamReader) -> None:
    while True:
        reader.read_chunk()


def wait_for(true: Callable[[], bool]) -> None:
    """The server's threads tell nobody when they have dropped a call."""
    for _ in range(1000):
        if true():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it didn't happen within 10 s")


class Endless:
    """A source without end, which counts its batches."""

    def __init__(self) -> None:
        self.made = 0
        self.stopped = threading.Event()

    def __call__(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(pa.schema({"x": pa.float64()}), self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        batch = pa.record_batch({"x": np.zeros(1 << 17)})
        try:
            while True:
                self.made += 1
                yield batch
        finally:
            self.stopped.set()


class TestReadersThat:
    def test_stop_reading_stop_the_source(self, connect):
        source = Endless()
        with xd.serve({"t": source}, flight=FREE_PORT) as server:
            reader = connect(server).do_get(flight.Ticket("t"))
            reader.read_chunk()
            seen = -1
            while seen != source.made:  # until gRPC takes no more
                seen = source.made
                threading.Event().wait(0.3)
            assert seen < 200  # 1 MiB each: what gRPC, the window and the queue hold
            (consumer,) = server.stats()["consumers"]
            assert consumer["carrier"] == "grpc"
            assert consumer["way"] == "message"
            reader.cancel()
            assert source.stopped.wait(10)
            wait_for(lambda: not server.stats()["consumers"])

    @pytest.mark.long
    def test_cancel_cost_nothing_afterwards(self, connect):
        with xd.serve({"t": pa.table({"x": np.zeros(1 << 23)})}, flight=FREE_PORT) as server:
            client = connect(server)
            for _ in range(50):
                reader = client.do_get(flight.Ticket("t"))
                reader.cancel()
            wait_for(lambda: not server.stats()["consumers"])
            assert client.do_get(flight.Ticket("t")).read_all().num_rows == 1 << 23

    def test_vanish_end_only_their_own_stream(self, connect, script):
        source = Endless()
        with xd.serve({"t": source, "n": numbers()}, flight=FREE_PORT) as server:
            reader = script(
                """
                import sys, pyarrow.flight as flight
                reader = flight.connect(sys.argv[1]).do_get(flight.Ticket("t"))
                reader.read_chunk()
                print("reading", flush=True)
                sys.stdin.readline()
                """,
                server.flight_uri,
            )
            assert reader.read_line() == "reading"
            reader.stop()
            assert source.stopped.wait(10)
            assert connect(server).do_get(flight.Ticket("n")).read_all().equals(numbers())

    def test_are_in_the_middle_when_the_server_closes(self, connect):
        source = Endless()
        server = xd.serve({"t": source}, flight=FREE_PORT)
        reader = connect(server).do_get(flight.Ticket("t"))
        reader.read_chunk()
        server.close()
        with pytest.raises((pa.ArrowException, OSError), match=r"closed|unavailable|cancel"):
            read_on(reader)

    def test_are_one_too_many(self, connect):
        with xd.serve({"t": Endless(), "n": numbers()}, flight=FREE_PORT, max_connections=1) as server:
            client = connect(server)
            first = client.do_get(flight.Ticket("t"))
            first.read_chunk()
            with pytest.raises((pa.ArrowException, OSError), match="max_connections"):
                client.do_get(flight.Ticket("n")).read_all()
            first.cancel()

            def is_let_in():
                try:
                    return client.do_get(flight.Ticket("n")).read_all().equals(numbers())
                except (pa.ArrowException, OSError) as error:
                    if "max_connections" not in str(error):
                        raise
                    return False  # the source of the first is still in a call

            wait_for(is_let_in)


def test_memory_of_a_device_comes_from_a_copy(script):
    """The simulated device ends the process at an access of the host to its memory."""
    program = script(
        """
        import pyarrow as pa, pyarrow.flight as flight, crossdock as xd
        from crossdock.testing import simulated_devices
        batch = pa.record_batch({"n": list(range(1000))})
        with simulated_devices(1):
            on_device = xd.RecordBatch(batch).to("sim:0")
            with xd.serve({"device": on_device}, flight="grpc://127.0.0.1:0") as server:
                with flight.connect(server.flight_uri) as client:
                    assert client.do_get(flight.Ticket("device")).read_all().to_batches() == [batch]
        print("equal")
        """
    )
    assert program.read_line() == "equal"
    program.finish()


def test_a_file_that_becomes_shorter_ends_its_stream_alone(tmp_path, connect):
    path = tmp_path / "f.arrow"
    table = pa.table({"x": np.zeros(1 << 23)})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=1 << 17)
    with xd.serve({"f": path, "n": numbers()}, flight=FREE_PORT) as server:
        client = connect(server)
        assert client.do_get(flight.Ticket("f")).read_all().equals(table)
        reader = client.do_get(flight.Ticket("f"))
        reader.read_chunk()
        with path.open("r+b") as file:
            file.truncate(1000)
        with pytest.raises((pa.ArrowException, OSError)):
            read_on(reader)
        assert connect(server).do_get(flight.Ticket("n")).read_all().equals(numbers())


@pytest.mark.parametrize(
    ("uri", "what"),
    [
        ("grpc://127.0.0.1", "isn't grpc://HOST:PORT"),
        ("grpc:8815", "isn't grpc://HOST:PORT"),
        ("grpc://127.0.0.1:99999", "isn't grpc://HOST:PORT"),
        ("grpc://127.0.0.1:1/t", "isn't grpc://HOST:PORT"),
        ("grpc://:8815", "isn't grpc://HOST:PORT"),
        ("tcp://127.0.0.1:8815", "listens at grpc://HOST:PORT"),
        ("8815", "no scheme"),
    ],
)
def test_uris_that_are_none(uri, what):
    with pytest.raises(xd.Error, match=what):
        xd.serve({}, flight=uri)


@pytest.mark.parametrize(
    ("module", "what"),
    [("/nowhere/crossdock_flight.so", "cannot open shared object"), ("libz.so.1", "it is no module of Crossdock's")],
)
def test_without_the_module_everything_else_works(script, module, what, monkeypatch):
    monkeypatch.setenv("CROSSDOCK_FLIGHT", module)
    program = script(
        """
        import sys, pyarrow as pa, crossdock as xd
        table = pa.table({"n": [1, 2]})
        try:
            xd.serve({}, flight="grpc://127.0.0.1:0")
        except xd.SchemeError as error:
            assert "scheme grpc: needs" in str(error) and "libgrpc++" in str(error), error
            print(str(error).replace(chr(10), " "), flush=True)
        with xd.serve({"t": table}) as server, xd.connect(server.uri) as client:
            assert pa.table(client.get("t")) == table
        """
    )
    assert what in program.read_line()
    program.finish()


def test_the_command(tmp_path, program, connect):
    path = tmp_path / "t.arrow"
    with pa.ipc.new_file(path, numbers().schema) as writer:
        writer.write_table(numbers())
    served = program(sys.executable, "-m", "crossdock", "serve", str(path), "--flight", FREE_PORT)
    assert served.read_line() == "shm:t"
    with flight.connect(served.read_line()) as client:
        assert client.do_get(flight.Ticket("t")).read_all().equals(numbers())
    served.send(signal.SIGINT)
    served.finish(expect=None)


def test_a_table_that_one_key_covers_has_a_location_of_its_own(connect):
    """For clients strictly as specified, which read its memory over UCX."""
    try:
        server = xd.serve({"one": numbers()}, ["tcp:", "ucx:"], flight=FREE_PORT, remote_reads="trusted")
    except xd.SchemeError as error:
        pytest.skip(str(error))
    with server:
        server.publish("live", lambda: numbers().to_reader())
        client = connect(server)
        uris = [one.uri.decode() for one in client.get_flight_info(PATH("one")).endpoints[0].locations]
        assert uris[-2] == server.location("one")
        assert "remote_handle=" in uris[-2]
        assert [uri.split(":")[0] for uri in uris] == ["ucx", "tcp", "ucx", "arrow-flight-reuse-connection"]
        live = client.get_flight_info(PATH("live")).endpoints[0].locations
        assert not any(b"remote_handle" in one.uri for one in live)
        with xd.connect(server.flight_uri) as ours:
            assert pa.table(ours.get("one")).equals(numbers())
