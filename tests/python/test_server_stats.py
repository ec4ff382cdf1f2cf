"""`client.server_stats()`: what a server counts, for those who may ask."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.certificates import Certificates

import crossdock as xd

TABLE = pa.table({"n": range(1000)})
NOBODY = 65534


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it never happens"
        time.sleep(0.005)


def without_time(stats: dict[str, Any]) -> dict[str, Any]:
    """What is equal in two answers of an idle server."""
    kept = {key: value for key, value in stats.items() if key not in ("uptime", "oldest_lease", "streams")}
    kept["consumers"] = [
        {key: value for key, value in one.items() if key not in ("oldest_lease", "in_flight")}
        for one in stats["consumers"]
    ]
    return kept


@pytest.fixture
def server() -> Iterator[xd.Server]:
    with xd.serve({"t": TABLE, b"\xff\x00": TABLE}) as serving:
        yield serving


def test_a_client_gets_what_the_server_says_of_itself(server):
    with xd.connect(server.uri) as client:
        table = pa.table(client.get("t"))
        received = pa.table(client.get(b"\xff\x00"))
        stats = client.server_stats()
        assert without_time(stats) == without_time(server.stats())
        assert stats["version"] == xd.__version__
        assert stats["pid"] == os.getpid()
        assert stats["uris"] == server.uris
        assert 0 <= stats["uptime"] <= server.stats()["uptime"]
        assert [one["name"] for one in stats["sources"]] == ["t", b"\xff\x00"]
        assert stats["leases"] == stats["consumers"][0]["leases"] > 0
        assert stats["leased_bytes"] == table.nbytes + received.nbytes
        assert 0 <= stats["oldest_lease"] <= stats["uptime"]
        assert (stats["accepted_connections"], stats["connections"]) == (1, 1)
        assert stats["consumers"][0]["name"] == "", "it reads no stream"
        assert stats["consumers"][0]["previous"] == b"\xff\x00"
        assert stats["consumers"][0]["id"] == 1
        json.dumps({**stats, "sources": [], "consumers": []})


def test_sums_stay_when_consumers_and_sources_are_gone():
    with xd.serve({"t": TABLE}) as server:
        for n in (1, 2):
            with xd.connect(server.uri) as client:
                assert pa.table(client.get("t")) == TABLE
            until(lambda: server.stats()["connections"] == 0)
            stats = server.stats()
            assert stats["consumers"] == []
            assert stats["accepted_connections"] == stats["batches"] == stats["streams"] == n
            assert (stats["rows"], stats["bytes"]) == (1000 * n, TABLE.nbytes * n)
            assert sum(stats["first_batch"]["counts"]) == n
            assert stats["leases"] == stats["leased_bytes"] == 0
            assert stats["oldest_lease"] is None
        copied = server.stats()["bytes_copied"]
        assert copied == TABLE.nbytes
        server.publish("t", TABLE, replace=True)
        assert server.stats()["bytes_copied"] == 2 * copied
        server.withdraw("t")
        assert server.stats()["bytes_copied"] == 2 * copied


def test_what_is_copied_for_a_live_stream_counts_after_its_name_is_gone():
    batches = TABLE.to_batches(max_chunksize=100)
    with xd.serve() as server, xd.connect(server.uri) as client:
        server.publish("live", pa.RecordBatchReader.from_batches(TABLE.schema, batches))
        reader = client.get("live")
        server.withdraw("live")
        assert sum(batch.num_rows for batch in map(pa.record_batch, reader)) == 1000
        until(lambda: server.stats()["bytes_copied"] == TABLE.nbytes)
        server.publish("other", lambda: pa.RecordBatchReader.from_batches(TABLE.schema, batches))
        server.withdraw("other")
        assert server.stats()["bytes_copied"] == TABLE.nbytes


def test_histograms_count_each_batch_once(server):
    batches = TABLE.to_batches(max_chunksize=10)
    server.publish("many", pa.Table.from_batches(batches), mode="table")
    with xd.connect(server.uri) as client:
        assert pa.table(client.get("many")) == TABLE
        stats = client.server_stats()
    assert stats["batches"] == 100
    assert sum(stats["first_batch"]["counts"]) == 1
    assert sum(stats["batch"]["counts"]) == 99
    for histogram in (stats["first_batch"], stats["batch"]):
        limits = histogram["limits"]
        assert len(histogram["counts"]) == len(limits) + 1
        assert limits == sorted(limits)
        # Each of the durations is at most its bucket's limit, and more than the one before.
        least = sum(n * limit for n, limit in zip(histogram["counts"], [0, *limits], strict=True))
        assert least <= histogram["sum"] + 1e-4
        assert 0 < histogram["sum"] < stats["uptime"]


def test_bytes_by_value_are_counted(server):
    with xd.connect(server.uri, way="message") as client:
        assert pa.table(client.get("t")) == TABLE
        assert client.server_stats()["bytes_by_value"] == TABLE.nbytes


def test_rejected_clients_are_counted_by_reason():
    with xd.serve({"t": TABLE}, ["shm:", "tcp:"], token="right", max_connections=1) as server:
        assert set(server.stats()["rejected_connections"].values()) == {0}
        with pytest.raises(xd.PermissionError):
            xd.connect(server.uris[1], token="wrong")
        with xd.connect(server.uri) as client, pytest.raises(xd.ConnectionError, match="max_connections"):
            xd.connect(server.uri)
        until(lambda: server.stats()["connections"] == 0)
        with xd.connect(server.uri) as client:
            rejected = client.server_stats()["rejected_connections"]
        assert {reason: n for reason, n in rejected.items() if n} == {"not_allowed": 1, "full": 1}


def test_over_networks_a_token_opens_them():
    with xd.serve({"t": TABLE}, "tcp:", token="right") as server, xd.connect(server.uri, token="right") as client:
        assert client.server_stats()["accepted_connections"] == 1


def test_over_networks_nobody_sees_them_without_one():
    with xd.serve({"t": TABLE}, "tcp:") as server, xd.connect(server.uri) as client:
        with pytest.raises(xd.PermissionError, match='stats="any"'):
            client.server_stats()
        assert pa.table(client.get("t")) == TABLE, "the connection goes on"
    with xd.serve({"t": TABLE}, "tcp:", stats="any") as server, xd.connect(server.uri) as client:
        assert client.server_stats()["accepted_connections"] == 1


def test_over_tls_a_certificate_opens_them_if_the_server_demands_one(tmp_path: Path):
    certificates = Certificates(tmp_path)
    own = {"certificate": certificates.server, "key": certificates.key(certificates.server)}
    of_client = xd.TLS(
        roots=certificates.issuer, certificate=certificates.client, key=certificates.key(certificates.client)
    )
    for demanded, allowed in (({"client_roots": certificates.issuer}, True), ({}, False)):
        with (
            xd.serve({"t": TABLE}, "tcp+tls:", tls=xd.TLS(**own, **demanded)) as server,
            xd.connect(server.uri, tls=of_client if demanded else xd.TLS(roots=certificates.issuer)) as client,
        ):
            if allowed:
                assert client.server_stats()["accepted_connections"] == 1
            else:
                with pytest.raises(xd.PermissionError):
                    client.server_stats()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("stats", [None, "any"])
def test_another_user_does_not_see_them(stats):
    program = """if True:
        import importlib.util, os, sys
        import crossdock as xd

        connect = xd.connect  # All is imported now: another user may not be able to read where Python is.
        os.setgid(65534)
        os.setuid(65534)
        with connect(sys.argv[1], users="any") as client:
            assert client.list()
            try:
                print(client.server_stats()["accepted_connections"])
            except xd.PermissionError as error:
                print("refused:", error)
    """
    with xd.serve({"t": TABLE}, "shm:", users=[NOBODY], stats=stats) as server:
        done = subprocess.run(
            [sys.executable, "-c", program, server.uri], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.stdout.startswith("refused: the statistics" if stats is None else "1"), done.stderr


def test_an_answer_has_so_many_sources_and_counts_the_others():
    with xd.serve({f"t{i}": pa.table({"n": [i]}) for i in range(300)}) as server, xd.connect(server.uri) as client:
        client.get("t299").close()
        stats = client.server_stats()
        assert len(stats["sources"]) == 256
        assert stats["sources_left_out"] == 44
        assert stats["sources"][0]["name"] == "t299", "those that are asked for come first"
        assert len(server.stats()["sources"]) == 300


def test_an_answer_has_so_many_consumers_and_counts_the_others():
    with xd.serve({"t": TABLE}) as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(xd.connect(server.uri)) for _ in range(260)]
        held = pa.table(clients[-1].get("t"))
        stats = clients[0].server_stats()
        assert (len(stats["consumers"]), stats["consumers_left_out"], stats["connections"]) == (256, 4, 260)
        assert stats["consumers"][0]["leased_bytes"] == held.nbytes, "those that hold something come first"


def test_names_that_take_too_much_room_are_left_out():
    with xd.serve({"x" * 60_000 + str(i): TABLE for i in range(10)}) as server, xd.connect(server.uri) as client:
        stats = client.server_stats()
        assert len(stats["sources"]) + stats["sources_left_out"] == 10
        assert 0 < len(stats["sources"]) < 5


def test_a_relay_answers_with_its_own(server):
    with xd.relay(server.uri, "shm:") as relay, xd.connect(relay.uri) as client:
        assert pa.table(client.get("t")) == TABLE
        stats = client.server_stats()
        assert stats["fetches"] == 1
        assert stats["uris"] == relay.uris
        assert stats["upstream"] == server.uri
        assert without_time(stats) == without_time(relay.stats())
        assert "fetches" not in server.stats()


def test_they_go_over_two_connections_and_by_any_way(server):
    with xd.serve({"t": TABLE}) as other:
        for client in (xd.connect(metadata=server.uri, data=other.uri), xd.connect(server.uri, way="map")):
            with client:
                assert client.server_stats()["uris"] == server.uris


def test_names_that_begin_as_the_request_are_reserved(server):
    for name in (b"\0crossdock:", b"\0crossdock:statistics"):
        with pytest.raises(xd.InvalidArgumentError, match="reserved"):
            server.publish(name, TABLE)
    server.publish(b"\0crossdock", TABLE)


def test_streams_go_on_while_others_ask_all_the_time(server):
    """An answer that was just made is used again, so requests can't take the server's thread for themselves."""
    with xd.connect(server.uri) as asking, xd.connect(server.uri) as reading:
        for _ in range(200):
            asking.server_stats()
            assert pa.table(reading.get("t")) == TABLE


def test_a_closed_server_and_a_closed_client_say_so(server):
    with xd.connect(server.uri) as client:
        client.server_stats()
        server.close()
        with pytest.raises(xd.ConnectionError):
            client.server_stats()
    with pytest.raises(xd.ClosedError):
        client.server_stats()


@pytest.mark.parametrize(
    ("wrong", "error"), [("all", xd.InvalidArgumentError), (True, xd.InvalidArgumentError), (1, TypeError)]
)
def test_a_wrong_option_is_refused(wrong, error):
    with pytest.raises(error, match="stats must be"):
        xd.serve({}, stats=wrong)
