"""What strangers don't hear from a Flight server that asks who they are."""

import pyarrow as pa
import pytest

import crossdock as xd

flight = pytest.importorskip("pyarrow.flight")

pytestmark = pytest.mark.usefixtures("each_grpc")

FREE_PORT = "grpc://127.0.0.1:0"
TABLE = pa.table({"n": [1, 2, 3]})
FAILURES = (pa.ArrowException, OSError)


def options(*headers):
    return flight.FlightCallOptions(headers=list(headers))


def test_who_has_a_ticket_for_a_table_that_is_gone_hears_no_other_names():
    token = options((b"authorization", b"Bearer secret"))
    with (
        xd.serve({"t": TABLE, "hidden": TABLE}, flight=FREE_PORT, token="secret") as server,
        flight.connect(server.flight_uri) as client,
    ):
        ticket = client.get_flight_info(flight.FlightDescriptor.for_path("t"), token).endpoints[0].ticket
        assert client.do_get(ticket).read_all().equals(TABLE)
        server.withdraw("t")
        with pytest.raises(FAILURES, match="nothing is published as") as stranger:
            client.do_get(ticket).read_all()
        assert "hidden" not in str(stranger.value)
        with pytest.raises(FAILURES, match="hidden"):
            client.do_get(ticket, token).read_all()


def test_the_reason_why_a_login_cant_be_checked_stays_here():
    def authenticate(user, password):
        raise RuntimeError("the directory at 10.0.0.7 is down")

    with (
        xd.serve({"t": TABLE}, flight=FREE_PORT, authenticate=authenticate) as server,
        flight.connect(server.flight_uri) as client,
    ):
        with pytest.raises(FAILURES, match=r"authenticate\(\) has failed") as told:
            client.authenticate_basic_token("ada", "word")
        assert "10.0.0.7" not in str(told.value)


def test_authenticate_isnt_asked_about_nobody():
    asked = []

    def authenticate(user, password):
        asked.append(user)
        return True

    with (
        xd.serve({"t": TABLE}, flight=FREE_PORT, authenticate=authenticate) as server,
        flight.connect(server.flight_uri) as client,
    ):
        with pytest.raises(FAILURES, match="no user name and no password"):
            client.authenticate_basic_token("", "")
        client.authenticate_basic_token("ada", "")
    assert asked == ["ada"]


def test_an_old_login_doesnt_hide_a_valid_one():
    def authenticate(user, password):
        return True

    def login_at(server):
        with flight.connect(server.flight_uri) as client:
            return client.authenticate_basic_token("ada", "word")[1]

    with (
        xd.serve({"t": TABLE}, flight=FREE_PORT, authenticate=authenticate) as server,
        xd.serve({"t": TABLE}, flight=FREE_PORT, authenticate=authenticate) as another,
        flight.connect(server.flight_uri) as client,
    ):
        old = (b"auth-token-bin", login_at(another).removeprefix(b"Bearer "))
        with pytest.raises(FAILURES, match="log in again"):
            list(client.list_flights(options=options(old)))
        valid = (b"authorization", login_at(server))
        assert len(list(client.list_flights(options=options(old, valid)))) == 1
