"""What is too long for a Flight server."""

import pyarrow as pa
import pytest

import crossdock as xd

flight = pytest.importorskip("pyarrow.flight")

pytestmark = pytest.mark.usefixtures("each_grpc")

FREE_PORT = "grpc://127.0.0.1:0"
TABLE = pa.table({"n": [1, 2, 3]})
FAILURES = (pa.ArrowException, OSError)
LONG = "x" * 70_000


@pytest.fixture
def server():
    with xd.serve({"t": TABLE}, flight=FREE_PORT, puts="new") as server:
        yield server


@pytest.fixture
def client(server):
    with flight.connect(server.flight_uri) as client:
        yield client


def test_a_request_is_bounded_where_tables_have_longer_messages(client):
    ticket = flight.Ticket(b"x" * (2 << 20))
    with pytest.raises(FAILURES, match=r"a request of .* bytes is too long"):
        client.do_get(ticket).read_all()
    with pytest.raises(FAILURES, match=r"a request of .* bytes is too long"):
        list(client.do_action(flight.Action("crossdock.offer", b"x" * (2 << 20))))
    assert client.do_get(flight.Ticket("t")).read_all().equals(TABLE)


def names_of(client):
    return [info.descriptor.path for info in client.list_flights()]


def test_a_name_is_bounded_where_it_is_published(server, client):
    with pytest.raises(xd.InvalidArgumentError, match="a name of 70000 bytes is too long"):
        server.publish(LONG, TABLE)
    assert names_of(client) == [[b"t"]]


def test_a_name_is_bounded_where_it_is_sent(client):
    def put():
        writer, _ = client.do_put(flight.FlightDescriptor.for_path(LONG), TABLE.schema)
        with writer:
            writer.write_table(TABLE)

    with pytest.raises(FAILURES, match="a name of 70000 bytes is too long"):
        put()
    assert names_of(client) == [[b"t"]]
