"""Statistics of servers that aren't ours: what breaks docs/reference/protocol.md is refused, within little memory."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator

import protocol
import pyarrow as pa
import pytest
from spec_server import Carrier, SpecServer, expect_request, tcp_server, until_it_goes

import crossdock as xd

TICKET = b"\0crossdock:statistics"
KEY = "crossdock:statistics"
KNOWS_ERRORS = 1


@pytest.fixture
def server(no_leftovers: None) -> Iterator[SpecServer]:
    with tcp_server(features=KNOWS_ERRORS) as serving:
        yield serving


def answer(server: SpecServer, table: pa.Table) -> None:
    def act(carrier: Carrier) -> None:
        expect_request(carrier, TICKET)
        messages = protocol.messages_of(table)
        for number, message in enumerate(messages):
            carrier.send(protocol.metadata_message(number, message.flatbuffer))
            if number:
                carrier.send(message.body, protocol.body_tag(number, protocol.PACKED))
        carrier.send(protocol.end_message(len(messages)))
        until_it_goes(carrier)

    server.accept(act)


def statistics(text: str | bytes) -> pa.Table:
    return pa.table({}).replace_schema_metadata({KEY: text})


def test_a_text_as_specified_is_read(server: SpecServer) -> None:
    said = {
        "version": "9.9",
        "uptime_ms": 1500,
        "consumers": [{"pid": 1, "name": ["_w"], "oldest_lease_ms": 250, "of_later_versions": [[]]}],
        "rejected_connections": {"full": 2, "of_later_versions": 3},
        "batch": {"counts": list(range(13)), "sum_ns": 10**9},
    }
    answer(server, statistics(json.dumps(said)))
    with xd.connect(server.uri) as client:
        stats = client.server_stats()
    assert (stats["version"], stats["uptime"]) == ("9.9", 1.5)
    assert stats["consumers"][0]["name"] == b"\xff"
    assert stats["consumers"][0]["oldest_lease"] == 0.25
    assert stats["rejected_connections"] == {"full": 2, "of_later_versions": 3}
    assert stats["batch"]["counts"] == list(range(13))
    assert stats["batch"]["sum"] == 1.0
    assert stats["sources"] == []


@pytest.mark.parametrize(
    "table",
    [
        statistics(""),
        statistics("[" * 500_000),
        statistics('{"consumers": [' + "{}," * 100_000 + "{}]}"),
        statistics('{"connections": -1}'),
        statistics(b'{"version": "\xff"}'),
        pa.table({}),
        pa.table({"x": [1]}),
        pa.table({"x": [1]}).replace_schema_metadata({KEY: "{}"}),
        statistics('{"x": "' + "y" * (2 << 20) + '"}'),
    ],
    ids=["empty", "deep", "many", "negative", "no text", "no statistics", "table", "both", "long"],
)
def test_another_answer_is_refused(server: SpecServer, table: pa.Table) -> None:
    answer(server, table)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with xd.connect(server.uri) as client, pytest.raises(xd.InvalidDataError):
        client.server_stats()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10, "in KiB"


def test_a_server_that_does_not_know_the_request_is_named(server: SpecServer) -> None:
    def act(carrier: Carrier) -> None:
        expect_request(carrier, TICKET)
        carrier.send(b"\xff" + (0).to_bytes(4, "little") + b"NotFoundError: nothing is published as that")
        until_it_goes(carrier)

    server.accept(act)
    with xd.connect(server.uri) as client, pytest.raises(xd.UnsupportedError, match="doesn't know the request"):
        client.server_stats()


def test_a_server_without_error_messages_is_not_asked(no_leftovers: None) -> None:
    with tcp_server() as server:

        def act(carrier: Carrier) -> None:
            assert not until_it_goes(carrier), "nothing came"

        server.accept(act)
        with xd.connect(server.uri) as client, pytest.raises(xd.UnsupportedError, match="doesn't know the request"):
            client.server_stats()
