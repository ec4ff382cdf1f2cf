"""Tables that clients offer to a Flight server, which fetches them over the data plane."""

from __future__ import annotations

import socket
import threading

import numpy as np
import pyarrow as pa
import pytest
from tests.interop.every_type import VALUES, column

import crossdock as xd

flight = pytest.importorskip("pyarrow.flight")

pytestmark = pytest.mark.usefixtures("each_grpc")

FREE_PORT = "grpc://127.0.0.1:0"
TABLE = pa.table({"n": np.arange(1000), "text": [str(i) for i in range(1000)]})


def varint_field(number: int, text: bytes) -> bytes:
    """A protobuf field of less than 128 bytes."""
    return bytes([number << 3 | 2, len(text)]) + text


def offer_of(name: bytes) -> flight.Action:
    return flight.Action("crossdock.offer", varint_field(1, name))


def fetch_of(ticket: bytes, *locations: str, token: str = "") -> flight.Action:
    body = varint_field(1, ticket) + b"".join(varint_field(2, one.encode()) for one in locations)
    return flight.Action("crossdock.fetch", body + (varint_field(3, token.encode()) if token else b""))


@pytest.fixture
def server():
    with xd.serve({"taken": TABLE}, ["shm:", "tcp:"], flight=FREE_PORT, puts="new") as server:
        yield server


@pytest.fixture
def client(server):
    with xd.connect(server.flight_uri) as client:
        yield client


@pytest.fixture
def theirs(server):
    with flight.connect(server.flight_uri) as client:
        yield client


def ticket_from(theirs, name: bytes = b"t") -> bytes:
    (result,) = theirs.do_action(offer_of(name))
    return result.body.to_pybytes()


def test_a_table_is_fetched_and_published(server, client):
    client.offer("t", TABLE)
    assert pa.table(client.get("t")).equals(TABLE)
    with xd.connect(server.uri) as other:
        assert pa.table(other.get("t")).equals(TABLE)


def test_memory_in_an_arena_is_copied_once_by_the_server(server, client):
    arena = xd.Arena()
    values = arena.empty(1 << 20, "f8")
    np.asarray(values)[:] = np.arange(1 << 20)
    client.offer("t", pa.table({"x": pa.array(np.asarray(values))}))
    (source,) = [one for one in server.stats()["sources"] if one["name"] == "t"]
    assert source["bytes_copied"] == values.nbytes
    (batch,) = client.get("t")
    np.testing.assert_array_equal(pa.record_batch(batch)[0].to_numpy(), np.arange(1 << 20))


@pytest.mark.parametrize("name", VALUES)
def test_every_type_arrives_as_it_is(client, name):
    table = pa.table({"c": column(name)}).replace_schema_metadata({"key": "value"})
    client.offer("t", table)
    assert pa.table(client.get("t")).equals(table, check_metadata=True)


def test_the_table_stays_when_the_client_has_gone(server, script):
    program = script(
        """
        import sys, pyarrow as pa, crossdock as xd
        with xd.connect(sys.argv[1]) as client:
            client.offer("t", pa.table({"n": list(range(1000))}))
        print("offered", flush=True)
        """,
        server.flight_uri,
    )
    assert program.read_line() == "offered"
    program.finish()
    with xd.connect(server.uri) as client:
        assert pa.table(client.get("t"))["n"].to_pylist() == list(range(1000))


def test_names_that_are_taken_are_refused_unless_both_say_otherwise(client):
    with pytest.raises(xd.InvalidArgumentError, match='"taken" is already published') as refused:
        client.offer("taken", TABLE)
    assert (
        'it isn\'t to be replaced: give it with replace=True; a server takes that from clients with puts="replace" '
        "(`crossdock serve --puts replace`)"
    ) in str(refused.value)
    with pytest.raises(xd.InvalidArgumentError, match='"taken" is already published'):
        client.offer("taken", TABLE, replace=True)

    def never_read():
        raise AssertionError("the server refuses before anything is copied")
        yield

    with pytest.raises(xd.InvalidArgumentError, match='"taken" is already published'):
        client.offer("taken", pa.RecordBatchReader.from_batches(TABLE.schema, never_read()))
    other = pa.table({"other": [1]})
    with xd.serve({"t": TABLE}, flight=FREE_PORT, puts="replace") as server, xd.connect(server.flight_uri) as of_that:
        with pytest.raises(xd.InvalidArgumentError, match='"t" is already published'):
            of_that.offer("t", other)
        of_that.offer("t", other, replace=True)
        assert pa.table(of_that.get("t")).equals(other)


def test_a_server_that_takes_nothing_says_so():
    with (
        xd.serve({}, flight=FREE_PORT) as server,
        xd.connect(server.flight_uri) as client,
        pytest.raises(xd.UnsupportedError, match="takes no tables"),
    ):
        client.offer("t", TABLE)
    with xd.serve({}) as server, xd.connect(server.uri) as client, pytest.raises(xd.UnsupportedError, match="grpc:"):
        client.offer("t", TABLE)


def test_more_than_the_server_takes_is_refused():
    with (
        xd.serve({}, "tcp:", flight=FREE_PORT, puts="new", max_put=1 << 20) as server,
        xd.connect(server.flight_uri) as client,
        xd.Server(uri="tcp:", token="s") as listener,
        flight.connect(server.flight_uri) as theirs,
    ):
        ticket = ticket_from(theirs)
        listener.publish(ticket, pa.table({"x": np.zeros(1 << 20)}))
        with pytest.raises(pa.ArrowException, match="ResourceError"):
            list(theirs.do_action(fetch_of(ticket, *listener.locations, token="s")))
        assert [entry.name for entry in client.list()] == []


def test_the_actions_are_listed(theirs):
    assert {action.type for action in theirs.list_actions()} == {"crossdock.offer", "crossdock.fetch"}


class TestHostileFetches:
    def refused(self, theirs, action: flight.Action, what: str) -> None:
        with pytest.raises((pa.ArrowException, OSError), match=what):
            list(theirs.do_action(action))

    def test_with_tickets_that_the_server_did_not_make(self, theirs):
        for ticket in (b"", b"t", bytes(32)):
            self.refused(theirs, fetch_of(ticket, "tcp://127.0.0.1:1"), "there is no offer with this ticket")

    def test_with_a_ticket_that_was_used(self, server, theirs):
        ticket = ticket_from(theirs)
        with xd.Server(uri="tcp:", token="s") as listener:
            listener.publish(ticket, TABLE)
            list(theirs.do_action(fetch_of(ticket, *listener.locations, token="s")))
            self.refused(theirs, fetch_of(ticket, *listener.locations, token="s"), "there is no offer with this ticket")
        with xd.connect(server.uri) as client:
            assert pa.table(client.get("t")).equals(TABLE)

    @pytest.mark.parametrize(
        ("location", "what"),
        [
            ("tcp://127.0.0.2:1", "it is at '127.0.0.2', and the request came from 127.0.0.1"),
            ("tcp://localhost:1", "it is at 'localhost', and the request came from 127.0.0.1"),
            ("tcp://10.0.0.1:1", "the request came from"),
            ("tcp://[::1]:1", "the request came from"),
            ("ucx://127.0.0.1:1", "fetched over shm, tcp and"),
            ("grpc://127.0.0.1:1", "fetched over shm, tcp and"),
            ("telegraph:1", "fetched over shm, tcp and"),
            ("shm:nobody-here", "ConnectionError"),
            ("no uri", "UriError"),
        ],
    )
    def test_that_lead_elsewhere(self, theirs, location, what):
        self.refused(theirs, fetch_of(ticket_from(theirs), location), what)

    def test_of_nowhere(self, theirs):
        self.refused(theirs, fetch_of(ticket_from(theirs)), "it named no location")
        self.refused(theirs, fetch_of(ticket_from(theirs), *["tcp://127.0.0.1:1"] * 9), "9 locations are too many")
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            location = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
            self.refused(theirs, fetch_of(ticket_from(theirs), location), "ConnectionError")

    def test_of_what_a_third_process_serves(self, theirs):
        """It has no table of the server's ticket."""
        with xd.serve({"t": TABLE}, ["shm:", "tcp:"]) as third:
            self.refused(theirs, fetch_of(ticket_from(theirs), *third.locations), "NotFoundError")

    def test_with_a_wrong_token(self, theirs):
        ticket = ticket_from(theirs)
        with xd.Server(uri="tcp:", token="right") as listener:
            listener.publish(ticket, TABLE)
            self.refused(theirs, fetch_of(ticket, *listener.locations, token="wrong"), "PermissionError")

    def test_that_never_end_stop_with_the_server(self):
        begun, go_on = threading.Event(), threading.Event()

        def slow():
            yield TABLE.to_batches()[0]
            begun.set()
            go_on.wait()

        failures = []
        with xd.Server(uri="tcp:", token="s") as listener:
            locations = listener.locations

            def fetch() -> None:
                try:
                    list(theirs.do_action(fetch_of(ticket, *locations, token="s")))
                except (pa.ArrowException, OSError) as error:
                    failures.append(error)

            with xd.serve({}, flight=FREE_PORT, puts="new") as server, flight.connect(server.flight_uri) as theirs:
                ticket = ticket_from(theirs)
                listener.publish(ticket, slow)
                thread = threading.Thread(target=fetch)
                thread.start()
                assert begun.wait(30)
                server.close()
                thread.join(30)
            go_on.set()
        assert failures

    @pytest.mark.parametrize("body", [b"\xff", b"\x0a\x7f", b"\x12\x01\xff", b"\x10"])
    def test_that_are_no_messages(self, theirs, body):
        for action in ("crossdock.offer", "crossdock.fetch"):
            self.refused(theirs, flight.Action(action, body), "ProtocolError|must not be empty|no offer")

    def test_of_too_many_offers(self, theirs):
        tickets = {ticket_from(theirs) for _ in range(32)}
        assert len(tickets) == 32
        self.refused(theirs, offer_of(b"t"), "32 tables were offered")
