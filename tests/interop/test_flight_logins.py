"""What authenticate() does with its own server."""

import contextlib
import threading
import time

import pyarrow as pa
import pytest

import crossdock as xd

flight = pytest.importorskip("pyarrow.flight")

pytestmark = pytest.mark.usefixtures("each_grpc")

FREE_PORT = "grpc://127.0.0.1:0"
TABLE = pa.table({"n": [1, 2, 3]})
FAILURES = (pa.ArrowException, OSError)


def test_it_cant_close_it():
    refusals = []

    def authenticate(user, password):
        try:
            server.close()
        except xd.InvalidArgumentError as error:
            refusals.append(str(error))
        return True

    with (
        xd.serve({"t": TABLE}, flight=FREE_PORT, authenticate=authenticate) as server,
        flight.connect(server.flight_uri) as client,
    ):
        bearer = client.authenticate_basic_token("ada", "word")
        assert len(list(client.list_flights(options=flight.FlightCallOptions(headers=[bearer])))) == 1
    assert len(refusals) == 1
    assert "close it from another thread" in refusals[0]


def call_until_it_is_closed(client):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with contextlib.suppress(flight.FlightUnauthenticatedError):
            list(client.list_flights())


def test_it_may_drop_the_last_reference_to_it():
    asked = threading.Event()
    servers = []

    def authenticate(user, password):
        servers.clear()
        asked.set()
        return True

    servers.append(xd.serve({"t": TABLE}, flight=FREE_PORT, authenticate=authenticate))
    with flight.connect(servers[0].flight_uri) as client:
        with contextlib.suppress(*FAILURES):  # the server may be closed before it answers
            client.authenticate_basic_token("ada", "word")
        assert asked.wait(10)
        with pytest.raises(flight.FlightUnavailableError):
            call_until_it_is_closed(client)
