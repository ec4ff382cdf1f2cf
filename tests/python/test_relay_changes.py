"""Relays of relays, whose source changes, goes, or stands still: nobody keeps old data for new."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from tests.slow_proxy import Slow

import crossdock as xd

ROWS = 1 << 17  # 1 MiB of int64


def table(number: int, rows: int = ROWS) -> pa.Table:
    return pa.table({"n": np.full(rows, number, np.int64)})


def number_of(client: xd.Client, name: str = "x") -> int:
    (only,) = set(pa.table(client.get(name))["n"].unique().to_pylist())
    return int(only)


def version_of(client: xd.Client, name: str = "x") -> int | None:
    return next(entry.version for entry in client.list() if entry.name == name)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it never happens"
        time.sleep(0.002)


def readers_of(relay: xd.Relay, name: str) -> int:
    return sum(consumer["name"] == name for consumer in relay.stats()["consumers"])


@pytest.fixture
def source() -> Iterator[xd.Server]:
    with xd.serve({"x": table(1), "y": table(2, 10)}, "tcp:") as server:
        yield server


@pytest.fixture
def slow(source: xd.Server) -> Iterator[Slow]:
    proxy = Slow(source.uri, after=300_000)
    yield proxy
    proxy.close()


def test_a_leaf_that_joins_the_fetch_of_older_data_fetches_again(source, slow):
    with (
        xd.relay(slow.uri, "tcp:") as near,
        xd.relay(near.uri) as leaf,
        xd.connect(near.uri) as early,
        xd.connect(leaf.uri) as late,
        ThreadPoolExecutor(2) as threads,
    ):
        first = threads.submit(number_of, early)
        assert slow.stopped.wait(20)
        source.publish("x", table(5), replace=True)
        second = threads.submit(number_of, late)
        until(lambda: readers_of(near, "x") == 2)
        slow.go_on.set()
        assert first.result() == 1
        assert second.result() in (1, 5)
        assert number_of(late) == 5
        assert number_of(late) == 5
        assert version_of(late) == version_of(early)


def test_the_catalog_has_the_version_of_what_is_held_when_the_source_is_gone(source):
    with xd.relay(source.uri) as relay, xd.connect(relay.uri) as client:
        assert number_of(client) == 1
        first = version_of(client)
        source.publish("x", table(5, 20), replace=True)
        assert version_of(client) != first
        source.close()
        assert number_of(client) == 1
        (x, y) = client.list()
        assert (x.name, x.rows, x.why) == ("x", ROWS, None)
        assert y.why == "the relay doesn't hold it, and can't reach its upstream"
        told = version_of(client)
        assert number_of(client) == 1
        assert version_of(client) == told, "the same data"


@pytest.mark.parametrize("levels", [1, 2])
def test_a_leaf_that_was_given_old_data_for_new_fetches_the_new_when_it_can(source, levels):
    first = Slow(source.uri)
    port = int(first.uri.rpartition(":")[2])
    with contextlib.ExitStack() as stack:
        uri = first.uri
        for _ in range(levels):
            near = stack.enter_context(xd.relay(uri, "tcp:"))
            uri = near.uri
        leaf = stack.enter_context(xd.relay(near.uri))
        client = stack.enter_context(xd.connect(near.uri))
        late = stack.enter_context(xd.connect(leaf.uri))
        assert number_of(client) == 1
        old = version_of(late)
        source.publish("x", table(5), replace=True)
        assert version_of(late) != old, "the leaf knows that there is other data"
        first.close()
        for _ in range(4):
            assert number_of(late) == 1, "it is all that there is"
        assert version_of(late) == old
        assert leaf.stats()["fetches"] == 1, "it knows what it has"
        again = Slow(source.uri, port=port)
        try:
            until(lambda: number_of(late) == 5)
        finally:
            again.close()


def test_a_leaf_keeps_what_the_relay_in_between_has_withdrawn(source):
    with (
        xd.relay(source.uri, "tcp:", max_memory=1_100_000) as near,
        xd.relay(near.uri) as leaf,
        xd.connect(near.uri) as client,
        xd.connect(leaf.uri) as late,
    ):
        assert number_of(late) == 1
        source.publish("z", table(3, 1000 * 100), replace=True)
        assert number_of(client, "z") == 3
        assert near.stats()["evictions"] == 1
        source.publish("x", table(5), replace=True)
        assert version_of(client) is not None
        source.close()
        assert number_of(late) == 1, "the relay in between holds nothing"
        assert [entry.name for entry in late.list()] == ["x", "y", "z"]
        with pytest.raises(xd.UpstreamError, match="can't reach its upstream"):
            number_of(late, "y")


@pytest.mark.long
def test_a_slow_table_keeps_nobody_from_others(slow):
    with xd.relay(slow.uri, timeout=3.0) as relay, xd.connect(relay.uri) as client:
        with pytest.raises(xd.UpstreamError, match="TimeoutError"):
            next(client.get("x"))
        assert relay.stats()["upstream"] == slow.uri
        assert number_of(client, "y") == 2


def test_a_server_that_refuses_is_there(source):
    with xd.relay(source.uri) as relay, xd.connect(relay.uri) as client:
        assert number_of(client) == 1
        source.close()
        with (
            xd.serve({"x": table(5)}, source.uri, token="a-token-of-its-own-000000000000"),
            pytest.raises(xd.PermissionError, match="token"),
        ):
            number_of(client)


@pytest.mark.long
def test_one_request_at_a_time_looks_for_an_upstream_that_hangs(source):
    with xd.relay(source.uri, timeout=3.0) as relay, xd.connect(relay.uri) as first:
        assert number_of(first) == 1
        uri = source.uri
        source.close()
        host, _, port = uri.removeprefix("tcp://").rpartition(":")
        accepted: list[socket.socket] = []
        with socket.create_server((host, int(port))) as silent:

            def accept() -> None:
                while True:
                    try:
                        accepted.append(silent.accept()[0])
                    except OSError:
                        return

            accepting = threading.Thread(target=accept)
            accepting.start()

            def ask(_: int) -> str:
                with xd.connect(relay.uri) as client, pytest.raises(xd.UpstreamError) as raised:
                    client.get("y")
                return str(raised.value)

            with ThreadPoolExecutor(8) as threads:
                errors = list(threads.map(ask, range(8)))
                assert all("Error" in error for error in errors)
                connections = len(accepted)
                # While another request tries it again, what is held is served at once.
                trying: list[Future[str]] = []

                def tries() -> bool:
                    if not trying or trying[-1].done():
                        trying.append(threads.submit(ask, 0))
                    return len(accepted) > connections

                until(tries)
                for _ in range(3):
                    assert number_of(first) == 1
                assert not trying[-1].done()
                trying[-1].result()
            silent.shutdown(socket.SHUT_RDWR)
            accepting.join()
        for one in accepted:
            one.close()
        assert 1 <= connections < 4, "each of the 8 would have tried it"


def test_those_who_ask_at_the_same_time_share_the_reads_of_the_catalog():
    sources = {f"{number:05}": table(number, 1) for number in range(3000)}
    with xd.serve(sources, "tcp:") as server:
        slow = Slow(server.uri, after=100_000)
        try:
            with (
                xd.relay(slow.uri) as relay,
                ThreadPoolExecutor(8) as threads,
            ):

                def ask(_: int) -> None:
                    with xd.connect(relay.uri) as client, pytest.raises(xd.NotFoundError):
                        client.get(f"absent {_}")

                answers = [threads.submit(ask, number) for number in range(8)]
                until(
                    lambda: sum(consumer["name"].startswith("absent") for consumer in relay.stats()["consumers"]) == 8
                )
                assert slow.stopped.wait(20)
                slow.go_on.set()
                for answer in answers:
                    answer.result()
                assert relay.stats()["catalogs"] < 5, "each of the 8 would have read it"
        finally:
            slow.close()


def test_batches_without_rows_are_counted():
    empty = pa.record_batch({"n": pa.array([], pa.int64())})
    with (
        xd.serve({}, "tcp:") as server,
        xd.relay(server.uri, max_memory=1 << 20) as relay,
        xd.connect(relay.uri) as client,
    ):
        server.publish("many", pa.RecordBatchReader.from_batches(empty.schema, [empty] * 50_000), mode="table")
        with pytest.raises(xd.ResourceError, match="max_memory is 1048576 bytes"):
            next(client.get("many"))
        assert relay.stats()["bytes_used"] == 0


FEW = """
import resource, sys
import pyarrow as pa
import crossdock as xd
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
with xd.relay(sys.argv[1]) as relay, xd.connect(relay.uri) as client:
    for number in range(120):
        assert pa.table(client.get(f"t{number}"))["n"][0].as_py() == number
    stats = relay.stats()
    print(stats["fetches"], stats["failures"], stats["evictions"], flush=True)
"""


def test_more_names_than_descriptors(script):
    with xd.serve({f"t{number}": table(number, 1) for number in range(120)}, "tcp:") as server:
        program = script(FEW, server.uri)
        fetches, failures, evictions = map(int, program.read_line().split())
        program.finish()
    assert (fetches, failures) == (120, 0)
    assert evictions >= 70
