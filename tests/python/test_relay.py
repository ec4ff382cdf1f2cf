"""`relay()`: what is asked for is fetched once, into memory that all processes of the machine share."""

from __future__ import annotations

import gc
import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.slow_proxy import Slow

import crossdock as xd

ROWS = 1 << 17  # 1 MiB of int64


def table(number: int, rows: int = ROWS) -> pa.Table:
    return pa.table({"n": np.full(rows, number, np.int64)})


def number_of(stream: Any) -> int:
    (only,) = set(pa.table(stream)["n"].unique().to_pylist())
    return int(only)


def streams_of(server: xd.Server, name: str) -> int:
    return next(source["streams"] for source in server.stats()["sources"] if source["name"] == name)


def until(condition: Callable[[], object]) -> None:
    """Waits for what another thread does next: the release of memory whose last owner is gone."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it never happens"
        gc.collect()
        time.sleep(0.005)


@pytest.fixture
def upstream() -> Iterator[xd.Server]:
    with xd.serve({"x": table(1), "y": table(2), "z": table(3)}, "tcp:") as server:
        yield server


def test_one_fetch_for_two_consumers_without_a_copy(upstream):
    with xd.relay(upstream.uri) as relay, xd.connect(relay.uri) as one, xd.connect(relay.uri) as other:
        assert relay.uri.startswith("shm:")
        assert repr(relay) == f"<crossdock.Relay {relay.uri}>"
        first, second = pa.table(one.get("x")), pa.table(other.get("x"))
        assert first == second == table(1)
        stats = relay.stats()
        assert (stats["fetches"], stats["hits"], stats["failures"]) == (1, 1, 0)
        assert stats["bytes_fetched"] == 8 * ROWS
        assert stats["upstream"] == upstream.uri
        (source,) = stats["sources"]
        assert (source["name"], source["kind"], source["bytes_copied"]) == ("x", "arena", 0)
        assert source["streams"] == 2
        assert {consumer["way"] for consumer in stats["consumers"]} == {"map"}
        assert streams_of(upstream, "x") == 1
        assert stats["max_memory"] > 1 << 20
        assert stats["bytes_used"] >= 8 * ROWS


GET = """
import sys
import pyarrow as pa
import crossdock as xd
with xd.connect(sys.argv[1]) as client:
    print("ready", flush=True)
    sys.stdin.readline()
    got = pa.table(client.get("x"))
    address = got["n"].chunk(0).buffers()[1].address
    with open("/proc/self/maps") as maps:
        for line in maps:
            start, _, end = line.split()[0].partition("-")
            if int(start, 16) <= address < int(end, 16):
                print(got["n"][0].as_py(), got.num_rows, *line.split()[4:5], flush=True)
    sys.stdin.readline()
"""


def test_processes_that_ask_at_the_same_time_share_one_fetch_and_its_pages(upstream, script):
    with xd.relay(upstream.uri) as relay:
        programs = [script(GET, relay.uri) for _ in range(5)]
        for one in programs:
            assert one.read_line() == "ready"
        for one in programs:
            one.write_line()
        said = {one.read_line() for one in programs}
        # The number of the memory file is that of its pages.
        assert len(said) == 1
        assert said.pop().split()[:2] == ["1", str(ROWS)]
        assert relay.stats()["fetches"] == 1
        assert streams_of(upstream, "x") == 1
        for one in programs:
            one.write_line()
            one.finish()


def test_those_who_ask_meanwhile_wait_and_one_who_leaves_breaks_nothing(upstream, script):
    slow = Slow(upstream.uri, after=300_000)
    try:
        with xd.relay(slow.uri) as relay:
            killed = script(GET, relay.uri)
            assert killed.read_line() == "ready"
            killed.write_line()
            assert slow.stopped.wait(30)
            with ThreadPoolExecutor(4) as threads, xd.connect(relay.uri) as client:
                waiting = [threads.submit(lambda: pa.table(client.get("x"))) for _ in range(4)]
                # The schema is there at once, so that the time limit of get() is none for the whole fetch.
                with xd.connect(relay.uri, timeout=5) as hasty, hasty.get("x", timeout=0.1) as reader:
                    assert pa.schema(reader.schema) == table(1).schema
                    with pytest.raises(xd.TimeoutError):
                        next(reader)
                killed.send(signal.SIGKILL)
                killed.process.wait()
                assert not any(one.done() for one in waiting)
                slow.go_on.set()
                assert all(one.result() == table(1) for one in waiting)
            assert relay.stats()["fetches"] == 1
            assert streams_of(upstream, "x") == 1
    finally:
        slow.close()


def test_a_table_that_is_replaced_is_fetched_again_and_the_old_one_stays_readable(upstream):
    with xd.relay(upstream.uri) as relay, xd.connect(relay.uri) as client:
        old = pa.table(client.get("x"))
        for number in (5, 6):
            upstream.publish("x", table(number), replace=True)
            assert number_of(client.get("x")) == number
            assert number_of(client.get("x")) == number
        assert old == table(1)
        assert relay.stats()["fetches"] == 3
        upstream.withdraw("x")
        with pytest.raises(xd.NotFoundError, match="nothing is published as 'x' at tcp:"):
            client.get("x")
        assert [source["name"] for source in relay.stats()["sources"]] == []
        assert old == table(1)


def test_within_max_age_nobody_asks(upstream):
    with xd.relay(upstream.uri, max_age=3600) as relay, xd.connect(relay.uri) as client:
        assert number_of(client.get("x")) == 1
        upstream.publish("x", table(5), replace=True)
        upstream.publish("new", table(6))
        for _ in range(5):
            assert number_of(client.get("x")) == 1
        assert (relay.stats()["catalogs"], relay.stats()["hits"]) == (1, 5)
        assert number_of(client.get("new")) == 6, "a name that isn't in the catalog that it has read is asked for"
        assert number_of(client.get("x")) == 5, "and what it says then of other names counts"


def test_the_catalog_has_the_names_of_the_upstream(upstream):
    upstream.publish("tensor", np.arange(6.0).reshape(2, 3))
    with xd.relay(upstream.uri) as relay, xd.connect(relay.uri) as client, xd.connect(upstream.uri) as direct:
        pa.table(client.get("x"))
        there = {entry.name: entry for entry in direct.list()}
        here = {entry.name: entry for entry in client.list()}
        assert here.keys() == there.keys() == {"x", "y", "z", "tensor"}
        for name, entry in here.items():
            assert (entry.rows, entry.bytes, entry.kind) == (there[name].rows, there[name].bytes, there[name].kind)
            assert entry.version == there[name].version is not None
        assert here["tensor"].shape == (2, 3)
        assert here["x"].why is None
        assert here["y"].why == "the relay fetches it when it is first asked for"


def test_versions_differ_for_other_data_and_other_servers():
    versions = []
    for _ in range(2):
        with xd.serve({"x": table(1, 1), "live": lambda: table(1, 1)}) as server, xd.connect(server.uri) as client:
            for _ in range(2):
                server.publish("x", table(1, 1), replace=True)
                live, x = client.list()
                assert live.version is None
                versions.append(x.version)
                assert client.list()[1].version == x.version
    assert len(set(versions)) == 4


def test_the_least_recently_used_goes_first(upstream):
    with xd.relay(upstream.uri, max_memory=int(2.5 * 8 * ROWS)) as relay, xd.connect(relay.uri) as client:
        for name in ("x", "y", "x", "z"):
            pa.table(client.get(name))
            gc.collect()
            until(lambda: all(consumer["leases"] == 0 for consumer in relay.stats()["consumers"]))
        assert sorted(source["name"] for source in relay.stats()["sources"]) == ["x", "z"]
        stats = relay.stats()
        assert (stats["evictions"], stats["fetches"], stats["hits"]) == (1, 3, 1)
        assert stats["bytes_used"] <= stats["max_memory"]


def test_what_consumers_hold_stays_and_no_room_is_an_error(upstream):
    with xd.relay(upstream.uri, max_memory=int(2.5 * 8 * ROWS)) as relay, xd.connect(relay.uri) as client:
        x, y = pa.table(client.get("x")), pa.table(client.get("y"))
        with pytest.raises(xd.ResourceError, match=r"max_memory is 2621440 bytes.*'z' needs 1048576 more"):
            client.get("z")
        assert x == table(1)
        assert y == table(2)
        upstream.publish("x", table(9), replace=True)
        with pytest.raises(xd.ResourceError):
            client.get("x")  # The old data is held, too.
        assert x == table(1)
        del y
        until(lambda: sum(consumer["leases"] > 0 for consumer in relay.stats()["consumers"]) == 1)
        assert number_of(client.get("x")) == 9
        assert x == table(1)
        assert relay.stats()["bytes_used"] <= relay.stats()["max_memory"]
        del x
        until(lambda: all(consumer["leases"] == 0 for consumer in relay.stats()["consumers"]))
        assert number_of(client.get("z")) == 3


def test_memory_of_a_killed_consumer_is_free_again(upstream, script):
    with xd.relay(upstream.uri, max_memory=12 * ROWS) as relay, xd.connect(relay.uri) as client:
        killed = script(GET, relay.uri)
        killed.read_line()
        killed.write_line()
        killed.read_line()  # It holds the table now.
        with pytest.raises(xd.ResourceError):
            client.get("y")
        killed.send(signal.SIGKILL)
        killed.process.wait()
        until(lambda: all(consumer["leases"] == 0 for consumer in relay.stats()["consumers"]))
        assert number_of(client.get("y")) == 2
        assert relay.stats()["bytes_used"] <= relay.stats()["max_memory"]


def test_larger_than_all_memory_evicts_nothing(upstream):
    with xd.relay(upstream.uri, max_memory=12 * ROWS) as relay, xd.connect(relay.uri) as client:
        pa.table(client.get("x"))
        upstream.publish("large", table(4, 2 * ROWS))
        with pytest.raises(xd.ResourceError, match="max_memory"):
            client.get("large")
        assert [source["name"] for source in relay.stats()["sources"]] == ["x"]
        assert relay.stats()["failures"] == 1


def test_tensors_of_all_kinds_without_a_copy(upstream):
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    model = {"a": {"b": np.arange(4), "c": np.array([True, False])}, "d": np.float64(2.5) * np.ones(())}
    upstream.publish("weight", weight.T)
    upstream.publish("model", model)
    with xd.relay(upstream.uri) as relay, xd.connect(relay.uri) as client:
        for _ in range(2):
            assert np.array_equal(np.asarray(client.tensor("weight")), weight.T)
            got = client.tensors("model")
            assert np.array_equal(np.asarray(got["a"]["b"]), model["a"]["b"])
            assert np.asarray(got["a"]["c"]).tolist() == [True, False]
            assert np.asarray(got["d"]) == 2.5
        assert relay.stats()["fetches"] == 2
        assert {(one["kind"], one["bytes_copied"]) for one in relay.stats()["sources"]} == {("arena", 0)}
        with pytest.raises(xd.InvalidArgumentError, match="tensors"):
            client.tensor("model")


def test_types_with_dictionaries_and_nothing(upstream):
    words = pa.table({"w": pa.array(["a", "b", None, "a"]).dictionary_encode(), "t": ["x", None, "zz", ""]})
    empty = table(1, 0)
    for name, one in {"words": words, "empty": empty, "none": pa.table({})}.items():
        upstream.publish(name, one)
    with xd.relay(upstream.uri) as relay, xd.connect(relay.uri) as client:
        assert pa.table(client.get("words")).to_pydict() == words.to_pydict()
        assert pa.table(client.get("empty")).num_rows == 0
        assert pa.table(client.get("none")).num_columns == 0
        assert pa.table(client.get("words", columns=["t"])).to_pydict() == {"t": ["x", None, "zz", ""]}
        assert relay.stats()["fetches"] == 3


def test_live_streams_are_refused_by_name(upstream):
    upstream.publish("live", iter(table(1).to_batches()))
    upstream.publish("called", lambda: table(1))
    with xd.relay(upstream.uri) as relay, xd.connect(relay.uri) as client:
        for name in ("live", "called"):
            with pytest.raises(xd.UnsupportedError, match=f"'{name}' is a live stream or a callable at tcp:"):
                client.get(name)
    with xd.connect(upstream.uri) as direct:
        assert number_of(direct.get("live")) == 1, "the relay has not taken it"


def test_errors_have_their_names(upstream, caplog):
    caplog.set_level(logging.INFO, "crossdock")
    with xd.relay(upstream.uri) as relay, xd.connect(relay.uri) as client:
        for _ in range(3):
            with pytest.raises(xd.NotFoundError, match="nothing is published as 'absent'"):
                client.get("absent")
        until(lambda: sum("'absent'" in record.getMessage() for record in caplog.records) == 3)
        assert {record.levelname for record in caplog.records} == {"INFO"}, "an ordinary refusal"
        upstream.close()
        with pytest.raises(xd.UpstreamError, match="can't reach its upstream: ConnectionError: "):
            client.get("x")


SERVE = """
import sys
import numpy as np
import pyarrow as pa
import crossdock as xd
number = int(sys.argv[2])
with xd.serve({"x": pa.table({"n": np.full(1 << 17, number)}), "y": pa.table({"n": [number]})}, sys.argv[1]) as server:
    print(server.uri, flush=True)
    sys.stdin.readline()
"""


@pytest.mark.long
def test_an_upstream_that_is_killed_and_started_again(script, log_lines):
    first = script(SERVE, "tcp:", "1")
    uri = first.read_line()
    with (
        xd.relay(uri) as relay,
        xd.relay(uri, stale=False) as strict,
        xd.connect(relay.uri) as client,
        xd.connect(strict.uri) as strictly,
    ):
        assert number_of(client.get("x")) == number_of(strictly.get("x")) == 1
        first.send(signal.SIGKILL)
        first.process.wait()
        for _ in range(2):
            assert number_of(client.get("x")) == 1
        assert [(entry.name, entry.why) for entry in client.list()] == [
            ("x", None),
            ("y", "the relay doesn't hold it, and can't reach its upstream"),
        ]
        with pytest.raises(xd.UpstreamError, match="Error: "):
            client.get("y")
        for call in (lambda: strictly.get("x"), strictly.list):
            with pytest.raises(xd.UpstreamError, match="Error: "):
                call()
        assert relay.stats()["stale_hits"] == 2
        assert relay.stats()["upstream"] is None
        second = script(SERVE, uri, "2")
        assert second.read_line() == uri

        def new(of: xd.Client) -> bool:
            try:
                return number_of(of.get("x")) == 2
            except xd.UpstreamError:
                return False

        until(lambda: new(client))
        until(lambda: new(strictly))
        assert [entry.name for entry in client.list()] == ["x", "y"]
        assert relay.stats()["upstream"] == uri
        second.write_line()
        second.finish()
    lines: list[str] = []
    while not any("has reached" in line for line in lines):
        lines.append(log_lines.next())
    assert sum("the relay serves what it holds: its upstream is gone" in line for line in lines) == 1
    assert lines[-1] == f"the relay has reached {uri} again"


def is_stopped(pid: int) -> bool:
    """A signal only asks for it."""
    threads = [task.joinpath("stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    return all(thread.rpartition(")")[2].split()[0] == "T" for thread in threads)


@pytest.mark.long
def test_an_upstream_that_stands_still_costs_its_time_limit_once(script):
    server = script(SERVE, "tcp:", "1")
    with xd.relay(server.read_line(), timeout=2.0) as relay, xd.connect(relay.uri) as client:
        assert number_of(client.get("x")) == 1
        server.send(signal.SIGSTOP)
        until(lambda: is_stopped(server.process.pid))
        start = time.monotonic()
        assert number_of(client.get("x")) == 1
        first = time.monotonic() - start
        assert first >= 1.9
        start = time.monotonic()
        assert number_of(client.get("x")) == 1
        assert time.monotonic() - start < first / 2
        assert relay.stats()["stale_hits"] == 2
        server.send(signal.SIGCONT)

        def is_back() -> bool:
            client.get("x").close()
            return relay.stats()["upstream"] is not None

        until(is_back)
        server.write_line()
        server.finish()


@pytest.mark.long
def test_an_upstream_that_is_restarted_between_two_requests(script):
    first = script(SERVE, "tcp:", "1")
    uri = first.read_line()
    with xd.relay(uri, stale=False) as relay, xd.connect(relay.uri) as client:
        assert number_of(client.get("x")) == 1
        first.send(signal.SIGKILL)
        first.process.wait()
        second = script(SERVE, uri, "2")
        assert second.read_line() == uri
        assert number_of(client.get("x")) == 2
        second.write_line()
        second.finish()


def test_another_upstream_takes_over(upstream):
    with xd.serve({"x": table(7)}, "tcp:") as other:
        absent = "tcp://127.0.0.1:1"
        with xd.relay([absent, upstream.uri, other.uri]) as relay, xd.connect(relay.uri) as client:
            assert number_of(client.get("x")) == 1
            upstream.close()
            assert number_of(client.get("x")) == 7
            assert relay.stats()["upstream"] == other.uri
    with pytest.raises(xd.ConnectionError, match="none of the relay's upstreams can be reached") as raised:
        xd.relay([absent, "shm:absent-server"])
    assert absent in str(raised.value)
    assert "absent-server" in str(raised.value)


def test_a_relay_of_a_relay(upstream):
    with (
        xd.relay(upstream.uri, "tcp:") as near,
        xd.relay(near.uri) as here,
        xd.relay(near.uri) as there,
        xd.connect(here.uri) as one,
        xd.connect(there.uri) as other,
    ):
        for number in (1, 5):
            upstream.publish("x", table(number), replace=True)
            assert number_of(one.get("x")) == number_of(other.get("x")) == number
            assert number_of(one.get("x")) == number
        assert [relay.stats()["fetches"] for relay in (near, here, there)] == [2, 2, 2]
        with pytest.raises(xd.NotFoundError):
            one.get("absent")


def test_over_shm_the_relay_has_one_copy_of_its_own():
    with xd.serve({"x": table(1)}) as server, xd.relay(server.uri) as relay, xd.connect(relay.uri) as client:
        assert number_of(client.get("x")) == 1
        assert relay.stats()["sources"][0]["bytes_copied"] == 8 * ROWS
        assert 8 * ROWS < relay.stats()["bytes_used"] < 8 * ROWS + 8192, "with its messages"


def test_fetches_of_many_names_at_once():
    names = [f"t{number}" for number in range(24)]
    sources = {name: table(number, 1000) for number, name in enumerate(names)}
    with xd.serve(sources, "tcp:") as server, xd.relay(server.uri) as relay:

        def get(name: str) -> int:
            with xd.connect(relay.uri) as client:
                return number_of(client.get(name))

        with ThreadPoolExecutor(12) as threads:
            assert list(threads.map(get, names * 3)) == [*range(24)] * 3
        assert relay.stats()["fetches"] == 24
        assert all(streams_of(server, name) == 1 for name in names)


def test_closing_in_the_middle_of_a_fetch(upstream):
    slow = Slow(upstream.uri, after=300_000)
    try:
        relay = xd.relay(slow.uri, timeout=None)
        with ThreadPoolExecutor(1) as threads, xd.connect(relay.uri) as client:
            waiting = threads.submit(lambda: next(client.get("x")))
            assert slow.stopped.wait(30)
            relay.close()
            relay.close()
            assert relay.closed
            # The relay may still have told the reason.
            with pytest.raises((xd.ClosedError, xd.TruncatedStreamError, xd.RemoteError)):
                waiting.result()
    finally:
        slow.close()


def test_what_was_received_outlives_the_relay(upstream):
    with xd.relay(upstream.uri) as relay, xd.connect(relay.uri) as client:
        got = pa.table(client.get("x"))
    assert got == table(1)


def test_forked_child(upstream, script):
    said = script(
        """
        import os, sys, crossdock as xd
        with xd.relay(sys.argv[1]) as relay:
            child = os.fork()
            if child == 0:
                try:
                    relay.stats()
                except xd.ForkError:
                    os._exit(7)
                os._exit(1)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            with xd.connect(relay.uri) as client:
                print(len(list(client.get("x"))))
        """,
        upstream.uri,
    ).finish()
    assert said == "7\n1\n"


def test_arguments(upstream):
    for wrong, error in (
        ({"stale": "no"}, TypeError),
        ({"max_age": None}, xd.InvalidArgumentError),
        ({"max_age": -1}, xd.InvalidArgumentError),
        ({"max_memory": 0}, xd.InvalidArgumentError),
        ({"uri": []}, xd.InvalidArgumentError),
        ({"uri": "nonsense:"}, xd.SchemeError),
        ({"tls": xd.TLS()}, xd.InvalidArgumentError),
        ({"timeout": "long"}, TypeError),
    ):
        with pytest.raises(error):
            xd.relay(upstream.uri, **wrong)  # type: ignore[arg-type]
    for nothing in ([], "shm:absent-server", "tcp://127.0.0.1:1", "nonsense", 7):
        with pytest.raises((xd.Error, TypeError)):
            xd.relay(nothing)  # type: ignore[arg-type]


def crossdock(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "crossdock", *arguments]


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_the_command(upstream, program, end):
    relay = program(*crossdock("relay", upstream.uri, "--at", "shm:", "--at", "tcp:", "--max-memory", "64M"))
    uris = [relay.read_line(), relay.read_line()]
    assert [uri.partition(":")[0] for uri in uris] == ["shm", "tcp"]
    for uri in uris:
        with xd.connect(uri) as client:
            assert number_of(client.get("x")) == 1
    assert streams_of(upstream, "x") == 1
    relay.send(end)
    relay.finish()
    with pytest.raises(xd.Error):
        xd.connect(uris[0])


@pytest.mark.long
def test_the_command_says_what_is_wrong(program):
    for arguments, code, text in (
        (("relay",), 2, "Missing argument"),
        (("relay", "tcp://127.0.0.1:1"), 4, "ConnectionError"),
        (("relay", "shm:absent-server"), 4, "ConnectionError"),
        (("relay", "shm:absent-server", "--max-memory", "0"), 2, "--max-memory"),
        (("relay", "shm:absent-server", "--max-memory", "12X"), 2, "--max-memory"),
        (("relay", "nonsense"), 2, "UriError"),
    ):
        failed = program(*crossdock(*arguments))
        failed.process.wait()
        assert failed.process.returncode == code, arguments
        assert text in failed.process.stderr.read()
