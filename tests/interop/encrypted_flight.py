"""Ours and pyarrow's servers and clients of Flight over TLS, with the certificates of the tests."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.certificates import Certificates

import crossdock as xd

flight = pytest.importorskip("pyarrow.flight")

FREE_PORT = "grpc+tls://127.0.0.1:0"
TABLE = pa.table({"n": [1, 2, 3]})
REASONS = "a certificate wasn't accepted"
REFUSED = ["none", "of another issuer", "expired"]


def serve(
    certificates: Certificates, certificate=None, uri="shm:", flight=FREE_PORT, client_roots=None, **options
) -> xd.Server:
    certificate = certificate or certificates.server
    tls = xd.TLS(certificate=certificate, key=certificates.key(certificate), client_roots=client_roots)
    return xd.serve({"t": TABLE}, uri, flight=flight, tls=tls, **options)


def connect(certificates: Certificates, server, certificate=None, roots=None, **options) -> xd.Client:
    """Returns our client. `certificate`: that of the client."""
    key = certificates.key(certificate) if certificate else None
    tls = xd.TLS(roots=roots or certificates.issuer, certificate=certificate, key=key)
    return xd.connect(server.flight_uri, tls=tls, **options)


def theirs(certificates: Certificates, server, certificate=None, **options) -> flight.FlightClient:
    """Returns pyarrow's client. `certificate`: that of the client."""
    if certificate:
        options["cert_chain"] = certificate.read_bytes()
        options["private_key"] = certificates.key(certificate).read_bytes()
    return flight.FlightClient(server.flight_uri, tls_root_certs=certificates.issuer.read_bytes(), **options)


def refused(certificates: Certificates, which: str):
    """Returns the certificate of a client, one of REFUSED, that a server with the issuer's as its roots refuses."""
    if which == "none":
        return None
    return certificates.other if which == "of another issuer" else certificates.expired_client()


class Theirs(flight.FlightServerBase):
    """pyarrow's server with one table, which keeps what it is sent. `client_roots`: of certificates that it demands."""

    def __init__(self, certificates: Certificates, client_roots=None) -> None:
        pair = (certificates.server.read_bytes(), certificates.key(certificates.server).read_bytes())
        verified = {"verify_client": True, "root_certificates": client_roots.read_bytes()} if client_roots else {}
        super().__init__(FREE_PORT, tls_certificates=[pair], **verified)
        self.flight_uri = f"grpc+tls://127.0.0.1:{self.port}"
        self.received: dict[str, pa.Table] = {}

    def list_actions(self, context):
        return []

    def get_flight_info(self, context, descriptor):
        endpoint = flight.FlightEndpoint(b"t", [])
        return flight.FlightInfo(TABLE.schema, descriptor, [endpoint], TABLE.num_rows, TABLE.nbytes)

    def do_get(self, context, ticket):
        return flight.RecordBatchStream(TABLE)

    def do_put(self, context, descriptor, reader, writer):
        self.received[descriptor.path[0].decode()] = reader.read_all()
