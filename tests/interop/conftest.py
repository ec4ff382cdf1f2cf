"""What the tests of Flight share."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.certificates import Certificates

import crossdock as xd


@pytest.fixture(scope="session")
def each_grpc() -> None:
    """Uses each gRPC once: it keeps some descriptors for the rest of the process."""
    flight = pytest.importorskip("pyarrow.flight")
    try:
        with xd.serve({"t": pa.table({"n": [1]})}, flight="grpc://127.0.0.1:0") as server:
            with xd.connect(server.flight_uri) as client:
                client.get("t")
            with flight.connect(server.flight_uri) as theirs:
                list(theirs.list_flights())
    except xd.SchemeError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def each_encrypted_grpc(each_grpc: None, certificates: Certificates) -> None:
    """Uses the TLS of each gRPC once, for the same reason."""
    from tests.interop.encrypted_flight import connect, serve, theirs

    with serve(certificates) as server, theirs(certificates, server) as client, connect(certificates, server):
        list(client.list_flights())
