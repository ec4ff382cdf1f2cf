"""Flight over TLS between ours and pyarrow's: peers that say nothing, certificates of clients, names, and puts."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pyarrow as pa
import pytest
from tests.interop.encrypted_flight import REASONS, REFUSED, TABLE, Theirs, connect, refused, serve, theirs

import crossdock as xd

flight = pytest.importorskip("pyarrow.flight")

pytestmark = pytest.mark.usefixtures("each_encrypted_grpc")

HANDSHAKE = 22  # the type of a record of TLS
FIRST_BYTES = bytes([HANDSHAKE, 3, 1, 2, 0])  # of a record of 512 bytes


def _address(server) -> tuple[str, int]:
    host, port = server.flight_uri.removeprefix("grpc+tls://").rsplit(":", 1)
    return host, int(port)


class TestAHandshakeThatStalls:
    @pytest.mark.parametrize("sent", [b"", FIRST_BYTES])
    def test_keeps_no_other_client_waiting_and_no_server_open(self, certificates, sent):
        with contextlib.ExitStack() as strangers:
            with serve(certificates) as server:
                for _ in range(64):
                    stranger = strangers.enter_context(socket.create_connection(_address(server)))
                    stranger.sendall(sent)
                with connect(certificates, server, timeout=30) as client:
                    assert pa.table(client.get("t")).equals(TABLE)
                with theirs(certificates, server) as client:
                    options = flight.FlightCallOptions(timeout=30)
                    assert client.do_get(flight.Ticket("t"), options).read_all().equals(TABLE)
                begin = time.monotonic()
            assert time.monotonic() - begin < 20, "gRPC gives a handshake 120 s"

    @pytest.mark.parametrize("said", [b"", FIRST_BYTES])
    def test_ends_at_the_clients_time_limit(self, certificates, said):
        tls = xd.TLS(roots=certificates.issuer)
        heard = []
        with socket.create_server(("127.0.0.1", 0)) as silent, contextlib.ExitStack() as stack:
            silent.settimeout(30)

            def accept() -> None:
                peer = stack.enter_context(silent.accept()[0])
                peer.sendall(said)
                heard.append(peer.recv(1)[0])

            accepting = threading.Thread(target=accept)
            accepting.start()
            begin = time.monotonic()
            with pytest.raises(xd.TimeoutError, match=r"didn't answer within 0\.5 s"):
                xd.connect(f"grpc+tls://127.0.0.1:{silent.getsockname()[1]}", tls=tls, timeout=0.5)
            assert 0.4 < time.monotonic() - begin < 20
            accepting.join()
        assert heard == [HANDSHAKE]


class TestTheNameOfTheServer:
    def test_may_be_overridden_by_pyarrows_client(self, certificates):
        name = "other.example"
        with serve(certificates, certificates.named(name)) as server:
            with theirs(certificates, server, override_hostname=name) as client:
                assert client.do_get(flight.Ticket("t")).read_all().equals(TABLE)
            for options in ({}, {"override_hostname": "another.example"}):
                with theirs(certificates, server, **options) as client, pytest.raises(flight.FlightUnavailableError):
                    client.do_get(flight.Ticket("t")).read_all()


class TestPyarrowsServerThatVerifiesClients:
    def test_is_read_with_a_certificate(self, certificates):
        with (
            Theirs(certificates, client_roots=certificates.issuer) as server,
            connect(certificates, server, certificates.client) as client,
        ):
            assert pa.table(client.get("t")).equals(TABLE)
            client.put("u", TABLE)
            assert server.received["u"].equals(TABLE)

    @pytest.mark.parametrize("which", REFUSED)
    def test_refuses_others(self, certificates, which):
        with (
            Theirs(certificates, client_roots=certificates.issuer) as server,
            pytest.raises(xd.ConnectionError, match=f"no Flight server answers.*{REASONS}"),
        ):
            connect(certificates, server, refused(certificates, which))


class TestPuts:
    BATCHES = pa.table({"n": range(1 << 20)}).to_batches(max_chunksize=1 << 17)

    def test_of_pyarrow_to_ours(self, certificates):
        with serve(certificates, puts="new") as server:
            with theirs(certificates, server) as client:
                writer, _ = client.do_put(flight.FlightDescriptor.for_path("u"), self.BATCHES[0].schema)
                for batch in self.BATCHES:
                    writer.write_batch(batch)
                writer.close()
            with connect(certificates, server) as client:
                assert pa.table(client.get("u")).to_batches() == self.BATCHES

    def test_of_ours_to_pyarrow(self, certificates):
        with Theirs(certificates) as server, connect(certificates, server) as client:
            client.put("u", pa.Table.from_batches(self.BATCHES))
            assert server.received["u"].to_batches() == self.BATCHES

    def test_of_ours_to_ours(self, certificates):
        with serve(certificates, puts="new") as server, connect(certificates, server) as client:
            client.put("u", pa.Table.from_batches(self.BATCHES))
            assert pa.table(client.get("u")).to_batches() == self.BATCHES
            with theirs(certificates, server) as reader:
                assert reader.do_get(flight.Ticket("u")).read_all().to_batches() == self.BATCHES
