"""Relays of upstreams that aren't plain servers over tcp: Flight servers, devices, TLS, tokens, two connections."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.certificates import Certificates
from tests.interop.every_type import VALUES, column

import crossdock as xd

flight = pytest.importorskip("pyarrow.flight")

TABLE = pa.table({"n": [*range(1000)], "t": [None if n % 5 == 0 else str(n) for n in range(1000)]})


class Theirs(flight.FlightServerBase):
    """pyarrow's server, with one table."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.uri = f"grpc://127.0.0.1:{self.port}"
        self.table = TABLE
        self.gets = 0

    def _info(self) -> flight.FlightInfo:
        endpoint = flight.FlightEndpoint(b"t", [])
        return flight.FlightInfo(self.table.schema, flight.FlightDescriptor.for_path("t"), [endpoint], -1, -1)

    def list_flights(self, context, criteria):
        yield self._info()

    def get_flight_info(self, context, descriptor):
        return self._info()

    def do_get(self, context, ticket):
        self.gets += 1
        return flight.RecordBatchStream(self.table)


@pytest.mark.usefixtures("each_grpc")
def test_pyarrows_flight_server():
    with Theirs() as server:
        with xd.relay(server.uri, max_age=3600) as relay, xd.connect(relay.uri) as client:
            for _ in range(3):
                assert pa.table(client.get("t")) == TABLE
            assert server.gets == 1
            assert relay.stats()["sources"][0]["bytes_copied"] == 0, "DoGet's bodies come into the arena"
            with pytest.raises(xd.NotFoundError):
                client.get("absent")
        with xd.relay(server.uri) as relay, xd.connect(relay.uri) as client:
            assert client.list()[0].version is None
            for number in range(1, 4):  # It can't say whether the table has changed.
                server.table = TABLE.slice(number)
                assert pa.table(client.get("t")) == server.table
            assert relay.stats()["fetches"] == 3
        with xd.relay(server.uri, max_memory=4096) as relay, xd.connect(relay.uri) as client:
            with pytest.raises(xd.ResourceError, match="max_memory is 4096 bytes"):
                next(client.get("t"))
            assert relay.stats()["bytes_used"] == 0


@pytest.mark.usefixtures("each_grpc")
def test_our_flight_server():
    with (
        xd.serve({"t": TABLE, "a": np.arange(3)}, flight="grpc://127.0.0.1:0") as server,
        xd.relay(server.flight_uri) as relay,
        xd.connect(relay.uri) as client,
    ):
        assert pa.table(client.get("t")) == TABLE
        assert np.asarray(client.tensor("a")).tolist() == [0, 1, 2]
        assert relay.stats()["upstream"] == server.flight_uri


@pytest.mark.usefixtures("each_grpc")
def test_our_flight_server_with_logins():
    def authenticate(user: str, password: str) -> bool:
        return (user, password) == ("ada", "secret")

    with xd.serve({"t": TABLE}, "tcp:", flight="grpc://127.0.0.1:0", authenticate=authenticate) as server:
        with xd.relay(server.flight_uri, login=("ada", "secret")) as relay, xd.connect(relay.uri) as client:
            for _ in range(2):
                assert pa.table(client.get("t")) == TABLE
        with pytest.raises(xd.Error):
            xd.relay(server.flight_uri, login=("ada", "wrong"))
        with pytest.raises(xd.InvalidArgumentError, match="login is for Flight servers"):
            xd.relay(server.uri, login=("ada", "secret"))


def test_tables_and_tensors_of_a_device(simulated_devices):
    batch = pa.record_batch({"n": [*range(1000)], "s": [str(n) for n in range(1000)]})
    on_device = xd.asarray(np.arange(6.0)).to("sim:1")
    sources = {"t": xd.RecordBatch(batch).to("sim:1"), "a": on_device}
    with xd.serve(sources, "tcp:") as server, xd.relay(server.uri) as relay, xd.connect(relay.uri) as client:
        for _ in range(2):
            assert pa.table(client.get("t")) == pa.Table.from_batches([batch])
            assert np.asarray(client.tensor("a")).tolist() == [*range(6)]
        assert {entry.device for entry in client.list()} == {"cpu"}
        assert relay.stats()["fetches"] == 2


@pytest.mark.long
def test_over_tls_with_a_token_at_both_ends(tmp_path):
    made = Certificates(tmp_path)
    proof = xd.TLS(certificate=made.server, key=made.key(made.server))
    tls = xd.TLS(certificate=made.server, key=made.key(made.server), roots=made.issuer)
    with (
        xd.serve({"t": TABLE}, "tcp+tls:", tls=proof, token="secret") as server,
        xd.relay(server.uri, ["shm:", "tcp+tls:"], tls=tls, token="secret") as relay,
        xd.connect(relay.uri) as client,
        xd.connect(relay.uris[1], tls=xd.TLS(roots=made.issuer), token="secret") as remote,
    ):
        assert pa.table(client.get("t")) == pa.table(remote.get("t")) == TABLE
        assert relay.stats()["fetches"] == 1
        with pytest.raises(xd.PermissionError):
            xd.connect(relay.uris[1], tls=xd.TLS(roots=made.issuer), token="wrong")
        with pytest.raises(xd.PermissionError):
            xd.relay(server.uri, tls=tls, token="wrong")


def test_a_client_with_two_connections():
    with xd.serve({"t": TABLE}, "tcp:") as server, xd.relay(server.uri) as relay:
        with xd.connect(metadata=relay.uri, data=relay.uri) as client:
            assert pa.table(client.get("t")) == TABLE
            assert pa.table(client.get("t")) == TABLE
        assert relay.stats()["fetches"] == 1


def test_a_client_that_wants_messages():
    with (
        xd.serve({"t": TABLE}, "tcp:") as server,
        xd.relay(server.uri) as relay,
        xd.connect(relay.uri, way="message") as client,
    ):
        assert pa.table(client.get("t")) == TABLE
        (consumer,) = relay.stats()["consumers"]
        assert (consumer["way"], consumer["why"]) == ("message", "the two ends agreed on messages alone")


def test_every_type_and_its_metadata():
    batches = {}
    for name in VALUES:
        field = pa.field("x", column(name).type, metadata={b"unit": b"furlongs"})
        batches[name] = pa.record_batch([column(name)], schema=pa.schema([field], metadata={"origin": "here"}))
    with xd.serve(batches, "tcp:") as server, xd.relay(server.uri) as relay, xd.connect(relay.uri) as client:
        for name, batch in batches.items():
            for _ in range(2):
                (got,) = client.get(name)
                received = pa.record_batch(got)
                assert received.schema.equals(batch.schema, check_metadata=True), name
                assert received.equals(batch), name
        assert relay.stats()["fetches"] == len(VALUES)
        assert relay.stats()["bitmap_bytes_copied"] == 0
        assert all(source["bytes_copied"] == 0 for source in relay.stats()["sources"])
