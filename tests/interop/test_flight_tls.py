"""Flight over TLS: ours and pyarrow's, each with the other, and who is refused."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import sys

import numpy as np
import pyarrow as pa
import pytest
from tests.interop.encrypted_flight import (
    FREE_PORT,
    REASONS,
    REFUSED,
    TABLE,
    Theirs,
    connect,
    refused,
    serve,
    theirs,
)

import crossdock as xd

flight = pytest.importorskip("pyarrow.flight")

pytestmark = pytest.mark.usefixtures("each_encrypted_grpc")


class TestReads:
    def test_of_ours_from_ours(self, certificates):
        with serve(certificates, uri=["shm:", "tcp:"]) as server, connect(certificates, server) as client:
            assert server.flight_uri.startswith("grpc+tls://127.0.0.1:")
            reader = client.get("t")
            assert reader.location.startswith("shm:")
            assert pa.table(reader).equals(TABLE)
            client_of_plain_text = xd.connect(server.uris[1])
            with client_of_plain_text:
                assert pa.table(client_of_plain_text.get("t")).equals(TABLE)

    def test_of_pyarrow_from_ours(self, certificates):
        with serve(certificates) as server, theirs(certificates, server) as client:
            assert client.do_get(flight.Ticket("t")).read_all().equals(TABLE)

    def test_of_ours_from_pyarrow(self, certificates):
        with Theirs(certificates) as server, connect(certificates, server) as client:
            assert pa.table(client.get("t")).equals(TABLE)

    def test_go_over_tls_for_tcp_too(self, certificates):
        with serve(certificates, uri="tcp+tls:") as server, connect(certificates, server) as client:
            reader = client.get("t")
            assert reader.location.startswith("tcp+tls:")
            assert pa.table(reader).equals(TABLE)

    def test_of_many_batches(self, certificates):
        batch = pa.record_batch({"x": np.arange(1 << 17, dtype="f8")})
        with serve(certificates) as server:
            server.publish("many", pa.Table.from_batches([batch] * 64))
            with theirs(certificates, server) as client:
                table = client.do_get(flight.Ticket("many")).read_all()
            assert table.to_batches() == [batch] * 64
            (source,) = [one for one in server.stats()["sources"] if one["name"] == "many"]
            assert source["bytes_copied"] == source["bytes"], "once, when it was published"

    @pytest.mark.parametrize("leases", [True, False])
    def test_of_a_file_that_becomes_shorter_end_their_own_stream_alone(self, certificates, tmp_path, leases):
        path = tmp_path / "x.arrow"
        batch = pa.record_batch({"x": np.arange(1 << 20, dtype="f8")})
        table = pa.Table.from_batches([batch] * 32)
        xd.write(table, path, form="file")
        with (
            # The system grants no lease of a file that somebody has open for writing.
            contextlib.nullcontext() if leases else path.open("r+b"),
            serve(certificates) as server,
            theirs(certificates, server) as client,
        ):
            server.publish("x", path)
            assert client.do_get(flight.Ticket("x")).read_all().equals(table)
            reader = client.do_get(flight.Ticket("x"))
            os.truncate(path, 1 << 20)
            with pytest.raises((pa.ArrowException, OSError), match="FileChangedError"):
                reader.read_all()
            assert client.do_get(flight.Ticket("t")).read_all().equals(TABLE)


def test_puts_are_encrypted_too(certificates):
    with (
        serve(certificates, puts="new", token="secret") as server,
        connect(certificates, server, token="secret") as client,
    ):
        client.put("u", TABLE)
        assert pa.table(client.get("u")).equals(TABLE)


def test_a_login_is_encrypted_too(certificates):
    check = lambda user, password: (user, password) == ("ada", "lace")  # noqa: E731
    with (
        serve(certificates, uri="tcp+tls:", authenticate=check) as server,
        connect(certificates, server, login=("ada", "lace")) as client,
    ):
        assert pa.table(client.get("t")).equals(TABLE)


class TestClientsCertificates:
    def test_are_asked_for(self, certificates):
        with serve(certificates, client_roots=certificates.issuer) as server:
            with connect(certificates, server, certificates.client) as client:
                assert pa.table(client.get("t")).equals(TABLE)
            with theirs(certificates, server, certificates.client) as client:
                assert client.do_get(flight.Ticket("t")).read_all().equals(TABLE)

    @pytest.mark.parametrize("which", REFUSED)
    def test_of_others_are_refused(self, certificates, which):
        certificate = refused(certificates, which)
        with serve(certificates, client_roots=certificates.issuer) as server:
            with pytest.raises(xd.ConnectionError, match=f"no Flight server answers.*{REASONS}"):
                connect(certificates, server, certificate)
            with (
                theirs(certificates, server, certificate) as client,
                pytest.raises(flight.FlightUnavailableError),
            ):
                client.do_get(flight.Ticket("t")).read_all()


class TestAServersCertificate:
    @pytest.mark.parametrize("wrong", ["expired", "of another name", "of another issuer", "its own issuer"])
    def test_is_refused(self, certificates, wrong):
        certificate, roots = {
            "expired": (certificates.expired(), None),
            "of another name": (certificates.named("other.example"), None),
            "of another issuer": (certificates.server, certificates.other),
            "its own issuer": (certificates.other, None),
        }[wrong]
        with (
            serve(certificates, certificate) as server,
            pytest.raises(xd.ConnectionError, match=f"no Flight server answers.*{REASONS}"),
        ):
            connect(certificates, server, roots=roots)

    def test_may_have_the_name_that_the_client_says(self, certificates):
        with serve(certificates, certificates.named("other.example"), uri="tcp+tls:") as server:
            tls = xd.TLS(roots=certificates.issuer, server_name="other.example")
            with xd.connect(server.flight_uri, tls=tls) as client:
                reader = client.get("t")
                assert reader.location.startswith("tcp+tls:")
                assert pa.table(reader).equals(TABLE)

    def test_is_needed(self):
        with pytest.raises(xd.InvalidArgumentError, match="a server over TLS needs a certificate and its key"):
            xd.serve({}, flight=FREE_PORT)


def test_a_plain_client_at_a_server_with_tls_is_told_of_the_other_scheme(certificates):
    with serve(certificates) as server:
        plain = server.flight_uri.replace("grpc+tls", "grpc")
        with pytest.raises(xd.ConnectionError, match=r"a server that encrypts is at grpc\+tls:"):
            xd.connect(plain)


def test_a_client_with_tls_at_a_plain_server_is_told_so(certificates):
    with xd.serve({"t": TABLE}, flight="grpc://127.0.0.1:0") as server:
        tls = xd.TLS(roots=certificates.issuer)
        with pytest.raises(xd.ConnectionError, match="or the server is a plain grpc: one"):
            xd.connect(server.flight_uri.replace("grpc:", "grpc+tls:"), tls=tls)


@pytest.mark.parametrize("scheme", ["grpc", "grpc+tls"])
@pytest.mark.parametrize(
    ("host", "reason"), [("127.0.0.1", "Connection refused"), ("nowhere.invalid", "DNS resolution failed")]
)
def test_where_nobody_is_no_certificate_is_suspected(scheme, host, reason):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # it doesn't listen, and nobody else gets the port
        with pytest.raises(xd.ConnectionError, match=f"no Flight server answers.*{reason}") as raised:
            xd.connect(f"{scheme}://{host}:{bound.getsockname()[1]}", timeout=30)
    text = str(raised.value)
    assert "certificate" not in text
    assert "a server that encrypts" not in text


@pytest.mark.parametrize("scheme", ["grpc", "grpc+tcp", "grpc+tls"])
def test_a_bad_uri_is_named_with_its_own_scheme(scheme):
    with pytest.raises(xd.UriError, match=re.escape(f"is at {scheme}://HOST:PORT, not at {scheme}://127.0.0.1")):
        xd.connect(f"{scheme}://127.0.0.1")


def test_tls_is_for_uris_that_encrypt(certificates):
    tls = xd.TLS(roots=certificates.issuer)
    with pytest.raises(xd.InvalidArgumentError, match=r"tls is for tcp\+tls and grpc\+tls"):
        xd.connect("grpc://127.0.0.1:1", tls=tls)
    with pytest.raises(xd.InvalidArgumentError, match=r"tls is for tcp\+tls and grpc\+tls"):
        xd.serve({}, flight="grpc://127.0.0.1:0", tls=tls)


def test_two_servers_in_one_process_one_plain(certificates):
    with (
        serve(certificates) as private,
        xd.serve({"t": TABLE}, flight="grpc://127.0.0.1:0") as plain,
        theirs(certificates, private) as one,
        flight.connect(plain.flight_uri) as other,
    ):
        for client in (one, other):
            assert client.do_get(flight.Ticket("t")).read_all().equals(TABLE)


def test_the_commands(certificates, program):
    def run(*arguments: str) -> str:
        return program(sys.executable, "-m", "crossdock", *arguments).finish()

    with serve(certificates) as server:
        roots = ("--tls-roots", str(certificates.issuer))
        assert "t" in run("ls", server.flight_uri, *roots)
        assert "3" in run("get", server.flight_uri, "t", *roots)


@pytest.fixture
def serving(certificates, tmp_path, program):
    """Returns the URI of the command `serve`, which is ended when the test has ended."""
    path = tmp_path / "t.arrow"
    xd.write(TABLE, path)
    pair = ("--tls-certificate", str(certificates.server), "--tls-key", str(certificates.key(certificates.server)))
    started = []

    def start(*options: str) -> str:
        command = (sys.executable, "-m", "crossdock", "serve", str(path), "--flight", FREE_PORT)
        started.append(program(*command, *pair, *options))
        started[-1].read_line()
        return started[-1].read_line().split()[-1]

    yield start
    for one in started:
        one.send(signal.SIGTERM)
        one.finish()


def test_the_command_serve(certificates, serving):
    uri = serving()
    with xd.connect(uri, tls=xd.TLS(roots=certificates.issuer)) as client:
        assert pa.table(client.get("t")).equals(TABLE)


def test_the_command_serve_may_demand_certificates(certificates, serving, program):
    uri = serving("--tls-client-roots", str(certificates.issuer))
    get = (sys.executable, "-m", "crossdock", "get", uri, "t", "--tls-roots", str(certificates.issuer))
    own = ("--tls-certificate", str(certificates.client), "--tls-key", str(certificates.key(certificates.client)))
    assert "3" in program(*get, *own).finish()
    text = program(*get).finish(expect=None)
    assert text.startswith("exit 4\n")
    assert REASONS in text
