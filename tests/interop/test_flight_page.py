"""The code of docs/how-to/flight.md runs, with addresses of this machine."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.pages import blocks, closed, local, runs

import crossdock as xd

pytestmark = pytest.mark.usefixtures("each_encrypted_grpc")


@runs("python", "docs/how-to/flight.md")
def test_the_page_on_flight(certificates):
    get, serve, stranger, put, offer, logins, tls = blocks("python", "docs/how-to/flight.md")

    names: dict[str, Any] = {"xd": xd}  # the first block imports it, and runs after the second one
    exec(local(serve), names)
    uri, table = names["server"].flight_uri, names["table"]
    exec(local(get, grpc=uri), names)
    assert names["reader"].location == names["server"].uri
    exec(local(stranger, grpc=uri), names)
    assert names["table"] == table
    names.pop("client").close()

    serve_puts, put_table = local(put).split("\n\n")
    connect, put_call = put_table.strip().rsplit("\n", 1)
    for call in (put_call, offer):
        exec(serve_puts, names)
        exec(local(connect, grpc=names["server"].flight_uri), names)
        exec(call, names)
        assert [entry.name for entry in names["client"].list()] == ["weather"]
        names.pop("client").close()

    class accounts:
        @staticmethod
        def check(user: str, password: str) -> bool:
            return (user, password) == ("ada", "her password")

    names["accounts"] = accounts
    serve_logins, log_in = local(logins).rsplit("\n\n", 1)
    exec(serve_logins, names)
    exec(local(log_in, grpc=names["server"].flight_uri), names)
    assert pa.table(names["client"].get("weather")) == table
    names.pop("client").close()

    serve_tls, connect_tls = local(tls).split("\n\n")
    for said, path in (("server.pem", certificates.server), ("server.key", certificates.key(certificates.server))):
        serve_tls = serve_tls.replace(said, str(path))
    exec(serve_tls, names)
    connect_tls = connect_tls.replace("issuer.pem", str(certificates.issuer))
    exec(local(connect_tls, grpc=names["server"].flight_uri), names)
    assert pa.table(names["client"].get("weather")) == table
    closed(names)
