"""A Flight server in the other host: tables are found by it, sent to it, and fetched by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.twohosts.hosts import CLIENT_ADDRESS, SERVER_ADDRESS, TwoHosts

import crossdock as xd

SERVE = """
import sys
import crossdock as xd
from tests.twohosts import data
def log_in(user, password):
    return (user, password) == ("ada", "lace")
address, port = sys.argv[1], sys.argv[2]
with xd.serve({"table": data.table()}, f"tcp://{address}:{port}", flight=f"grpc://{address}:0", puts="new",
              authenticate=log_in) as server:
    print(server.flight_uri, flush=True)
    sys.stdin.readline()
    with xd.connect(server.flight_uri, login=("ada", "lace")) as client:
        print(sorted(entry.name for entry in client.list()), flush=True)
    sys.stdin.readline()
"""

CLIENT = """
import sys
import pyarrow as pa
import crossdock as xd
from tests.twohosts import data
with xd.connect(sys.argv[1], login=("ada", "lace")) as client:
    reader = client.get("table")
    assert pa.table(reader).equals(data.table())
    print(reader.location.split("?")[0], flush=True)
    client.put("put", data.table())
    client.offer("offered", data.table())
    for name in ("put", "offered"):
        assert pa.table(client.get(name)).equals(data.table())
    print("sent", flush=True)
"""


@pytest.fixture(autouse=True)
def _flight() -> None:
    try:
        xd.serve({}, flight="grpc://127.0.0.1:0").close()
    except xd.SchemeError as error:
        pytest.skip(str(error))


def test_tables_are_found_sent_and_fetched(hosts: TwoHosts, script: Callable[..., Any]):
    server = script(SERVE, SERVER_ADDRESS, "7700", within=hosts.server.within)
    uri = server.read_line()
    assert uri.startswith(f"grpc://{SERVER_ADDRESS}:")
    client = script(CLIENT, uri, within=hosts.client.within)
    assert client.read_line() == f"tcp://{SERVER_ADDRESS}:7700"
    assert client.read_line() == "sent"
    client.finish()
    server.write_line()
    assert server.read_line() == "['offered', 'put', 'table']"
    server.write_line()
    server.finish()


@pytest.mark.long
def test_an_offer_of_another_host_is_refused(hosts: TwoHosts, script: Callable[..., Any]):
    """The server connects to the host that asked, and to no other."""
    server = script(SERVE, SERVER_ADDRESS, "7700", within=hosts.server.within)
    uri = server.read_line()
    client = script(
        """
        import sys
        import pyarrow as pa
        import pyarrow.flight as flight
        def field(number, text):
            return bytes([number << 3 | 2, len(text)]) + text
        with flight.connect(sys.argv[1]) as client:
            options = flight.FlightCallOptions(headers=[client.authenticate_basic_token("ada", "lace")])
            (ticket,) = client.do_action(flight.Action("crossdock.offer", field(1, b"t")), options)
            body = field(1, ticket.body.to_pybytes()) + field(2, sys.argv[2].encode())
            try:
                list(client.do_action(flight.Action("crossdock.fetch", body), options))
            except (pa.ArrowException, OSError) as error:
                print(str(error).replace(chr(10), " "), flush=True)
        """,
        uri,
        f"tcp://{SERVER_ADDRESS}:7700",
        within=hosts.client.within,
    )
    assert f"it is at '{SERVER_ADDRESS}', and the request came from {CLIENT_ADDRESS}" in client.read_line()
    client.finish()
    server.write_line()
    server.read_line()
    server.write_line()
    server.finish()
