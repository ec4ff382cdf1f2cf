"""The spec peers over tcp+tls, whose TLS is Python's own: a client and a server, with certificates of both ends."""

from __future__ import annotations

import socket
import ssl
import threading
from urllib.parse import urlsplit

import protocol
import pyarrow as pa
import pytest
import tcp_carrier
from tests.certificates import Certificates

import crossdock as xd

TABLE = pa.table({"n": range(300_000)})


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def served(no_leftovers: None, certificates: Certificates):
    tls = xd.TLS(
        certificate=certificates.server, key=certificates.key(certificates.server), client_roots=certificates.issuer
    )
    with xd.serve({"table": TABLE}, "tcp+tls:", tls=tls) as serving:
        yield serving


def client_context(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(certificates.issuer))
    context.load_cert_chain(certificates.client, certificates.key(certificates.client))
    context.set_alpn_protocols(["crossdock"])
    return context


def connected(server: xd.Server, context: ssl.SSLContext) -> ssl.SSLSocket:
    parts = urlsplit(server.uri)
    assert parts.hostname is not None
    return context.wrap_socket(
        socket.create_connection((parts.hostname, parts.port), timeout=10), server_hostname=parts.hostname
    )


def test_a_table_comes_whole(served: xd.Server, certificates: Certificates) -> None:
    sock = connected(served, client_context(certificates))
    assert sock.version() == "TLSv1.3"
    assert sock.selected_alpn_protocol() == "crossdock"
    assert not sock.session_reused
    carrier = tcp_carrier.TcpCarrier(sock, server=False)
    try:
        client = protocol.LetterClient(carrier, carrier, lambda *_: pytest.fail("no memory is shared"))
        for _ in range(3):
            assert client.get(b"table").table().equals(TABLE)
    finally:
        carrier.close()


def test_a_client_without_the_protocol_or_a_certificate_is_ended(served: xd.Server, certificates: Certificates) -> None:
    context = ssl.create_default_context(cafile=str(certificates.issuer))
    context.set_alpn_protocols(["http/1.1"])
    with pytest.raises(ssl.SSLError, match=r"(?i)application.protocol"):
        connected(served, context)
    context.set_alpn_protocols(["crossdock"])
    with connected(served, context) as sock, pytest.raises(ssl.SSLError, match=r"(?i)certificate.required"):
        sock.recv(1)  # a client learns that after its own handshake


def test_a_server_without_the_protocol_is_refused(certificates: Certificates) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server, certificates.key(certificates.server))
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with context.wrap_socket(listening.accept()[0], server_side=True) as sock:
                assert sock.recv(1) == b""

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(xd.HandshakeError, match=r"doesn't agree on Crossdock's protocol"):
            xd.connect(f"tcp+tls://127.0.0.1:{listening.getsockname()[1]}", tls=xd.TLS(roots=certificates.issuer))
        thread.join()
