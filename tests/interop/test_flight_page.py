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
    table = pa.table({"celsius": [11.5, 12.0]})
    get, serve, stranger, put, offer, logins, tls = blocks("python", "docs/how-to/flight.md")

    names: dict[str, Any] = {"xd": xd, "table": table}
    exec(local(serve), names)
    uri = names["server"].flight_uri
    exec(local(get, grpc=uri), names)
    assert names["reader"].location == names["server"].uri
    exec(local(stranger, grpc=uri), names)
    assert names["table"] == table
    closed(names)

    serve_puts, put_table = put.split("\n\n")
    exec(local(serve_puts), names)  # which closes it again
    for instead in ("", offer):
        with xd.serve({}, flight="grpc://127.0.0.1:0", puts="new") as server, xd.connect(server.flight_uri) as client:
            exec(instead or local(put_table, grpc=server.flight_uri), names | {"client": client})
            assert [entry.name for entry in client.list()] == ["weather"]

    class accounts:
        @staticmethod
        def check(user: str, password: str) -> bool:
            return (user, password) == ("ada", "her password")

    names["accounts"] = accounts
    serve_logins, log_in = local(logins).rsplit("\n\n", 1)
    exec(serve_logins, names)
    exec(local(log_in, grpc=names["server"].flight_uri), names)
    assert pa.table(names["client"].get("weather")) == table
    closed(names)

    serve_tls, connect_tls = local(tls).strip().rsplit("\n", 1)
    for said, path in (("server.pem", certificates.server), ("server.key", certificates.key(certificates.server))):
        serve_tls = serve_tls.replace(said, str(path))
    exec(serve_tls, names)
    connect_tls = connect_tls.replace("issuer.pem", str(certificates.issuer))
    exec(local(connect_tls, grpc=names["server"].flight_uri), names)
    assert pa.table(names["client"].get("weather")) == table
    closed(names)
