"""The spec peers, client and server, over tcp, where bodies go by value: both ways, every order, every loss."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import numpy as np
import protocol
import pyarrow as pa
import pytest
import tcp_carrier
from spec_server import (
    MESSAGES,
    ORDERS,
    TABLE,
    Carrier,
    Sending,
    SpecServer,
    end_first,
    expect_request,
    in_order,
    metadata_first,
    packed,
    tcp_server,
    until_it_goes,
)

import crossdock as xd

CHECKSUMS = tcp_carrier.KNOWS_CHECKSUMS | tcp_carrier.ASKS_FOR_CHECKSUMS
FEATURES = pytest.mark.parametrize("features", [0, CHECKSUMS], ids=["plain", "checksums"])

# ---- their client, our server --------------------------------------------------------------------------------------


@pytest.fixture
def served(no_leftovers: None) -> Iterator[xd.Server]:
    tables = {"table": pa.Table.from_batches(TABLE.to_batches(7)), "empty": TABLE.slice(0, 0)}
    with xd.serve(tables, "tcp://127.0.0.1:0") as serving:
        yield serving


@contextlib.contextmanager
def connected(server: xd.Server, features: int = 0) -> Iterator[protocol.LetterClient]:
    parts = urlsplit(server.locations[0])
    assert parts.hostname is not None
    assert parts.port is not None
    carrier = tcp_carrier.connect(parts.hostname, parts.port, features=features)
    assert carrier.checksums == (features == CHECKSUMS)
    parameters = parse_qs(parts.query)
    assert parameters["want_data"] == [str(carrier.want_data)]
    try:
        yield protocol.LetterClient(carrier, carrier, nothing_to_fetch)
    finally:
        carrier.close()


def nothing_to_fetch(_address: int, _length: int) -> bytes:
    raise AssertionError("no memory is shared over tcp")


@FEATURES
def test_a_table_comes_whole_and_by_value(served: xd.Server, features: int) -> None:
    with connected(served, features) as client:
        for _ in range(5):
            stream = client.get(b"table")
            assert stream.table().equals(TABLE)
            assert set(stream.body_types) == {protocol.PACKED}
        assert client.get(b"empty").table().num_rows == 0
        assert client.get(b"").table()["name"].to_pylist() == ["empty", "table"]


def test_a_large_body_comes_whole(served: xd.Server) -> None:
    table = pa.table({"n": np.arange(1_000_000), "s": ["x" * (i % 7) for i in range(1_000_000)]})
    served.publish("large", table)
    with connected(served) as client:
        assert client.get(b"large").table().equals(table)


def test_a_large_body_comes_whole_with_checksums(served: xd.Server) -> None:
    table = pa.table({"n": np.arange(100_001, dtype=np.int64)})  # more than is summed at once
    served.publish("large", table)
    with connected(served, CHECKSUMS) as client:
        assert client.get(b"large").table().equals(table)


def test_a_damaged_frame_ends_its_connection(served: xd.Server) -> None:
    with connected(served, CHECKSUMS) as client:
        request = tcp_carrier.frame(tcp_carrier.TAGGED, client.data.want_data, b"table", checksums=True)
        for at in range(len(request)):
            with connected(served, CHECKSUMS) as other:
                carrier = other.data
                carrier.socket.sendall(request[:at] + bytes([request[at] ^ 4]) + request[at + 1 :])
                with pytest.raises(tcp_carrier.Ended):
                    carrier.receive()
        assert served.stats()["protocol_errors"] == len(request)
        assert client.get(b"table").table().equals(TABLE)


@FEATURES
def test_a_live_stream_comes_whole(served: xd.Server, features: int) -> None:
    batches = [pa.record_batch({"n": np.arange(i, i + 100)}) for i in range(0, 2000, 100)]
    served.publish("live", lambda: pa.RecordBatchReader.from_batches(batches[0].schema, batches))
    with connected(served, features) as client:
        assert client.get(b"live").table()["n"].to_pylist() == list(range(2000))


def test_an_offence_ends_this_connection_and_no_other(served: xd.Server) -> None:
    offences = [
        (b"", 12345),  # an unknown tag
        (protocol.end_message(0), None),  # no untagged message is the client's
        (bytes(7), "free_data"),
        (bytes(7) + b"\x01", "free_data"),  # nothing is lent
    ]
    with connected(served) as bystander:
        for count, (payload, tag) in enumerate(offences, 1):
            with connected(served) as client:
                carrier = client.data
                carrier.send(payload, carrier.free_data if tag == "free_data" else tag)
                with pytest.raises(tcp_carrier.Ended):
                    carrier.receive()
            assert served.stats()["protocol_errors"] == count
            assert bystander.get(b"table").table().equals(TABLE)


# ---- their server, our client --------------------------------------------------------------------------------------


@pytest.fixture
def server(no_leftovers: None) -> Iterator[SpecServer]:
    with tcp_server() as serving:
        yield serving


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("by_value", [True, False], ids=["body frames", "tagged messages"])
def test_a_stream_comes_whole_in_any_order(server: SpecServer, order, by_value: bool) -> None:
    def act(carrier: Carrier) -> None:
        for _ in range(3):
            expect_request(carrier)
            for one in order(Sending(carrier, packed, by_value=by_value)):
                one()
        until_it_goes(carrier)
        assert carrier.said_goodbye

    server.accept(act)
    with xd.connect(server.uri) as client:
        for _ in range(3):
            assert pa.table(client.get("t")).equals(TABLE)


@pytest.mark.parametrize("order", ORDERS)
def test_a_stream_comes_whole_with_checksums(no_leftovers: None, order) -> None:
    def act(carrier: Carrier) -> None:
        assert carrier.checksums
        expect_request(carrier)
        for one in order(Sending(carrier, packed, by_value=True)):
            one()
        until_it_goes(carrier)
        assert carrier.said_goodbye

    with tcp_server(features=CHECKSUMS) as server:
        server.accept(act)
        with xd.connect(server.uri) as client:
            assert pa.table(client.get("t")).equals(TABLE)


@pytest.mark.parametrize("orderly", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("order", [in_order, end_first, metadata_first])
@pytest.mark.parametrize("count", range(2 * len(MESSAGES) - 1))
def test_a_connection_lost_at_any_step_is_a_truncated_stream(
    server: SpecServer, order, count: int, orderly: bool
) -> None:
    def act(carrier: Carrier) -> None:
        expect_request(carrier)
        for one in order(Sending(carrier, packed, by_value=True))[:count]:
            one()
        carrier.close(orderly=orderly)

    server.accept(act)
    with xd.connect(server.uri) as client, pytest.raises(xd.TruncatedStreamError, match="before End of Stream"):
        list(client.get("t"))


def test_a_part_of_a_frame_is_none(server: SpecServer) -> None:
    def act(carrier: Carrier) -> None:
        expect_request(carrier)
        *acts, _end = in_order(Sending(carrier, packed, by_value=True))
        for one in acts:
            one()
        carrier.socket.sendall(b"\x01" + bytes(15) + b"\x05")  # the header of an End of Stream, cut short
        carrier.close(orderly=False)

    server.accept(act)
    with xd.connect(server.uri) as client, pytest.raises(xd.TruncatedStreamError):
        list(client.get("t"))
