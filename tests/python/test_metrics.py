"""`serve(metrics=...)`: what Prometheus reads over HTTP, and a bounded server for it."""

from __future__ import annotations

import contextlib
import gc
import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tests.children import Child

import crossdock as xd
from crossdock import _http, metrics

FREE = "127.0.0.1:0"
TABLE = pa.table({"n": range(1000)})
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
DASHBOARD = Path(__file__).resolve().parents[2] / "examples" / "grafana_dashboard.json"


def until(condition: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happens"
        time.sleep(0.01)


def ask(uri: str, path: str = "/metrics", method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(uri).netloc, timeout=30)
    with contextlib.closing(connection):
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()


def scrape(uri: str) -> dict[str, Any]:
    """The samples by name and labels, as Prometheus's own parser of OpenMetrics reads them."""
    status, headers, text = ask(uri, Accept=OPENMETRICS)
    assert status == 200
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    return {
        sample.name + "".join(f" {value}" for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def raw(uri: str, request: bytes) -> bytes:
    """What comes back for these bytes, until the server closes the connection."""
    where = urllib.parse.urlsplit(uri)
    with socket.create_connection((where.hostname, where.port), timeout=30) as connection:
        connection.sendall(request)
        answer = b""
        with contextlib.suppress(ConnectionResetError):  # it didn't read all that was sent
            while more := connection.recv(65536):
                answer += more
        return answer


@pytest.fixture
def server() -> Iterator[xd.Server]:
    with xd.serve({"t": TABLE}, metrics=FREE) as serving:
        yield serving


def test_metrics_are_the_statistics(server):
    with xd.connect(server.uri) as client, xd.connect(server.uri, way="message") as other:
        held = pa.table(client.get("t"))
        pa.table(other.get("t"))
        stats = server.stats()
        found = scrape(server.metrics.uri)
    assert found["crossdock_info " + xd.__version__] == 1
    assert found["crossdock_streams_total"] == 2
    assert found["crossdock_batches_total"] == 2
    assert found["crossdock_rows_total"] == 2000
    assert found["crossdock_sent_bytes_total"] == 2 * TABLE.nbytes
    assert found["crossdock_sent_by_value_bytes_total"] == TABLE.nbytes
    assert found["crossdock_copied_bytes_total"] == TABLE.nbytes
    assert found["crossdock_leases"] == stats["leases"]
    assert found["crossdock_leased_bytes"] == held.nbytes
    assert found["crossdock_oldest_lease_seconds"] >= stats["oldest_lease"]
    assert found["crossdock_connections shm"] == stats["connections"] == 2
    assert found["crossdock_accepted_connections_total"] == stats["accepted_connections"] == 2
    assert found["crossdock_rejected_connections_total full"] == stats["rejected_connections"]["full"] == 0
    assert found["crossdock_sources"] == 1
    assert found["crossdock_source_bytes table t"] == TABLE.nbytes
    assert found["crossdock_source_streams_total table t"] == stats["sources"][0]["streams"] == 2
    assert found["crossdock_first_batch_seconds_count"] == 2
    assert found["crossdock_first_batch_seconds_bucket +Inf"] == 2
    assert found["crossdock_first_batch_seconds_sum"] == stats["first_batch"]["sum"]
    assert found["crossdock_batch_seconds_count"] == 0
    assert found["crossdock_uptime_seconds"] >= stats["uptime"]


def test_prometheus_gets_its_older_text_if_it_asks_for_no_other(server):
    status, headers, text = ask(server.metrics.uri)
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain")
    assert "\ncrossdock_batches_total 0.0\n" in text


def test_a_relay_has_more(server):
    with xd.relay(server.uri, metrics=FREE) as relay:
        with xd.connect(relay.uri) as client:
            assert pa.table(client.get("t")) == TABLE
        found = scrape(relay.metrics.uri)
        assert found["crossdock_relay_fetches_total"] == 1
        assert found["crossdock_relay_fetched_bytes_total"] == TABLE.nbytes
        assert found["crossdock_relay_connected"] == 1
        assert ask(relay.metrics.uri, "/readyz")[0] == 200
    assert not any("relay" in name for name in scrape(server.metrics.uri))


def test_health_and_readiness(server):
    uri = server.metrics.uri
    assert ask(uri, "/healthz")[::2] == (200, "ok\n")
    assert ask(uri, "/readyz")[::2] == (200, "ready\n")
    server.metrics.set_ready(False, "draining")
    assert ask(uri, "/readyz")[::2] == (503, "draining\n")
    assert ask(uri, "/healthz")[0] == 200
    server.metrics.set_ready(True)
    assert ask(uri, "/readyz")[0] == 200
    assert ask(uri, "/elsewhere")[0] == 404


def test_it_is_not_ready_while_sources_are_loaded():
    seen = []

    class Sources(dict[str, pa.Table]):
        def items(self) -> Any:
            (http_server,) = (one for one in _http._servers if one._thread.is_alive())
            seen.append(ask(http_server.url, "/readyz")[::2])
            return super().items()

    with xd.serve(Sources(t=TABLE), metrics=FREE) as server:
        assert seen == [(503, "loading\n")]
        assert ask(server.metrics.uri, "/readyz")[0] == 200


def test_it_is_not_ready_while_it_is_being_closed():
    in_source, goes_on = threading.Event(), threading.Event()

    def waits() -> Iterator[pa.RecordBatch]:
        in_source.set()
        goes_on.wait(60)
        yield from TABLE.to_batches()

    def closes_its_server() -> pa.RecordBatchReader:
        server.close()
        raise AssertionError("it could")

    sources = {"t": lambda: pa.RecordBatchReader.from_batches(TABLE.schema, waits()), "closes": closes_its_server}
    server = xd.serve(sources, metrics=FREE)
    with xd.connect(server.uri) as client:
        with pytest.raises(xd.RemoteError, match="can't close the server"):
            client.get("closes")
        assert ask(server.metrics.uri, "/readyz")[0] == 200
        reader = client.get("t")
        assert in_source.wait(60), "the server asks the source"
        reader.close()
        closing = threading.Thread(target=server.close)
        closing.start()
        until(lambda: ask(server.metrics.uri, "/readyz")[::2] == (503, "closing\n"))
        goes_on.set()
        closing.join()


def test_a_port_that_is_taken_is_named_and_nothing_is_left(server):
    taken = server.metrics.uri.removeprefix("http://").removesuffix("/metrics")
    with pytest.raises(xd.ConnectionError, match=taken):
        xd.serve({"t": TABLE}, "shm:other", metrics=taken)
    with pytest.raises(xd.ConnectionError):
        xd.connect("shm:other")
    with pytest.raises(xd.ConnectionError, match=taken):
        xd.relay(server.uri, "shm:other", metrics=taken)


def test_without_a_thread_nothing_is_left(server, monkeypatch):
    begun = []

    def refuse(thread):
        begun.append(thread._target.__self__)
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            xd.serve({"t": TABLE}, "shm:other", metrics=FREE)
    (http_server,) = begun
    assert http_server._socket.fileno() < 0
    assert http_server._loop.is_closed()
    assert http_server not in _http._servers
    with pytest.raises(xd.ConnectionError):
        xd.connect("shm:other")


def test_at_the_end_all_are_closed_also_after_an_error(monkeypatch):
    serving = [_http.HttpServer(_http.Address.of(FREE), lambda request: _http.Answer(200, b"")) for _ in range(3)]
    close = _http.HttpServer.close

    def close_and_fail(one):
        close(one)
        raise RuntimeError("this one can't")

    with monkeypatch.context() as patched:
        patched.setattr(_http, "_servers", serving)
        patched.setattr(_http.HttpServer, "close", close_and_fail)
        with pytest.raises(RuntimeError, match="this one can't"):
            _http._close_all()
    assert not [one for one in serving if one._thread.is_alive()]


@pytest.mark.parametrize("address", ["", ":9464", "127.0.0.1", "127.0.0.1:http", "a:65536", "::1:80", "[::1]"])
def test_another_form_of_address_is_refused(address):
    with pytest.raises(xd.InvalidArgumentError):
        xd.serve(metrics=address)


def test_a_host_that_is_not_ours_is_named():
    with pytest.raises(xd.ConnectionError, match=r"192\.0\.2\.1:9464"):
        xd.serve(metrics="192.0.2.1:9464")


@pytest.mark.parametrize("address", ["0", "*:0", "localhost:0", "[::1]:0"])
def test_every_form_of_address_is_listened_at(address):
    if "[" in address and not socket.has_dualstack_ipv6():
        pytest.skip("there is no IPv6 here")
    with xd.serve({"t": TABLE}, metrics=address) as server:
        port = server.metrics.uri.removesuffix("/metrics").rpartition(":")[2]
        host = "[::1]" if "[" in address else "127.0.0.1"
        assert ask(f"http://{host}:{port}", "/healthz")[0] == 200


def test_a_hundred_scrape_at_once(server):
    with ThreadPoolExecutor(100) as pool:
        start = threading.Barrier(100)

        def one(_: int) -> float:
            start.wait()
            return scrape(server.metrics.uri)["crossdock_streams_total"]

        assert list(pool.map(one, range(100))) == [0] * 100


def test_slow_clients_are_disconnected_and_hold_nobody_up(server, monkeypatch):
    monkeypatch.setattr(_http, "REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(_http, "ANSWER_SECONDS", 0.5)
    where = urllib.parse.urlsplit(server.metrics.uri)
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection((where.hostname, where.port))) for _ in range(50)]
        for connection in slow:
            connection.sendall(b"GET /metrics HTTP/1.1\r\n")
        assert scrape(server.metrics.uri)["crossdock_streams_total"] == 0, "others are answered meanwhile"
        for connection in slow:
            connection.settimeout(30)
            with contextlib.suppress(ConnectionResetError), connection.makefile("rb") as answer:
                assert answer.read().startswith(b"HTTP/1.1 408 "), "it ended"


def test_a_client_that_reads_nothing_is_disconnected(monkeypatch):
    monkeypatch.setattr(_http, "ANSWER_SECONDS", 0.5)
    answer = _http.Answer(200, bytes(64 << 20))  # no buffers take so much
    serving = _http.HttpServer(_http.Address.of(FREE), lambda request: answer)
    with contextlib.closing(serving), socket.socket() as connection:
        where = urllib.parse.urlsplit(serving.url)
        connection.connect((where.hostname, where.port))
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        until(lambda: len(serving._exchanges) == 1)
        until(lambda: not serving._exchanges)


def test_an_answer_that_raises_is_an_error_without_its_text():
    def fails(request: _http.Request) -> _http.Answer:
        raise ValueError("a secret")

    with contextlib.closing(_http.HttpServer(_http.Address.of(FREE), fails)) as serving:
        status, _, text = ask(serving.url)
    assert status == 500
    assert "secret" not in text


def test_a_client_that_ends_in_the_middle_is_no_fault(server, caplog):
    where = urllib.parse.urlsplit(server.metrics.uri)
    for request in (b"", b"GET /met", b"GET /metrics HTTP/1.1\r\n\r\n"):
        for _ in range(20):
            with socket.create_connection((where.hostname, where.port)) as connection:
                connection.sendall(request)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # closes with a reset
    assert scrape(server.metrics.uri)["crossdock_streams_total"] == 0
    assert not caplog.records


def test_there_is_a_limit_of_connections(server, monkeypatch):
    monkeypatch.setattr(_http, "MOST_CONNECTIONS", 10)
    where = urllib.parse.urlsplit(server.metrics.uri)
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection((where.hostname, where.port))) for _ in range(10)]
        # Who sends no request keeps nobody out: the one that has waited the longest makes room.
        assert ask(server.metrics.uri, "/healthz")[0] == 200
        idle[0].settimeout(30)
        with contextlib.suppress(ConnectionResetError):
            assert idle[0].recv(1) == b""
        idle[-1].sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert idle[-1].recv(12) == b"HTTP/1.1 200"
    until(lambda: ask(server.metrics.uri, "/healthz")[0] == 200)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"DELETE / HTTP/1.1\r\n\r\n", 405),
        (b"GET /metrics HTTP/2.0\r\n\r\n", 505),
        (b"GET metrics HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x00\xff\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET /" + b"x" * 10_000 + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n", 431),
        (b"GET /metrics?x=y HTTP/1.0\r\n\r\n", 200),
        (b"GET //metrics HTTP/1.1\r\n\r\n", 404),
    ],
)
def test_only_get_within_limits_is_answered(server, request_, status):
    assert raw(server.metrics.uri, request_).startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz"])
def test_at_the_loopback_a_name_that_others_can_point_here_is_refused(server, path):
    for host in ("localhost", "127.0.0.1:9464", "[::1]:9464"):
        assert ask(server.metrics.uri, path, Host=host)[0] == 200, host
    for host in ("evil.example", "evil.example:9464", ""):
        assert ask(server.metrics.uri, path, Host=host)[0] == 403, host


def test_at_other_addresses_metrics_are_asked_for_by_any_name():
    with xd.serve({"t": TABLE}, metrics="*:0") as server:
        port = urllib.parse.urlsplit(server.metrics.uri).port
        status, _, text = ask(f"http://127.0.0.1:{port}", Host="crossdock.monitoring.svc:9464")
        assert status == 200
        assert "crossdock_batches_total" in text


def test_head_has_no_body(server):
    status, headers, text = ask(server.metrics.uri, method="HEAD")
    assert (status, text) == (200, "")
    assert int(headers["Content-Length"]) > 1000


def test_huge_names_and_bytes_are_cut_labels(server):
    names = ["x" * 60_000 + "1", "x" * 60_000 + "2", b"\xff" * 1000, 'a\nb"c\\d\u20ac']
    for name in names:
        server.publish(name, TABLE)
    found = [name for name in scrape(server.metrics.uri) if name.startswith("crossdock_source_bytes")]
    assert len(found) == len(set(found)) == 5
    assert max(map(len, found)) < 200
    assert 'crossdock_source_bytes table a\nb"c\\d\u20ac' in found


def test_of_many_names_those_have_metrics_that_are_asked_for(server):
    for i in range(300):
        server.publish(f"s{i}", pa.table({"n": [i]}))
    with xd.connect(server.uri) as client:
        client.get("s299").close()
    found = scrape(server.metrics.uri)
    assert found["crossdock_sources"] == 301
    assert sum(name.startswith("crossdock_source_streams_total") for name in found) == 256
    assert found["crossdock_source_streams_total table s299"] == 1


def test_the_port_is_free_once_the_server_is_closed():
    with xd.serve(metrics=FREE) as server:
        uri = server.metrics.uri
        address = uri.removeprefix("http://").removesuffix("/metrics")
    with pytest.raises(ConnectionRefusedError):
        ask(uri)
    with xd.serve(metrics=address) as server:
        assert ask(uri, "/healthz")[0] == 200
        server.metrics.close()
        server.metrics.close()
    assert xd.serve().metrics is None


def test_metrics_of_a_server_that_was_closed_say_so():
    server = xd.serve({"t": TABLE})
    observed = metrics.Metrics(server, FREE)
    assert scrape(observed.uri)["crossdock_sources"] == 1
    server.close()
    for path in ("/metrics", "/healthz", "/readyz"):
        assert ask(observed.uri, path)[::2] == (503, "closed\n")
    observed.close()


def test_a_server_that_is_dropped_is_closed_with_its_metrics():
    server = xd.serve({"t": TABLE}, metrics=FREE)
    uri, at = server.metrics.uri, server.uri
    del server
    gc.collect()
    with pytest.raises(ConnectionRefusedError):
        ask(uri)
    with pytest.raises(xd.ConnectionError):
        xd.connect(at)


def test_a_forked_child_leaves_the_port_to_the_parent(script):
    forked = script("""
        import os, sys, crossdock as xd
        server = xd.serve({}, metrics="127.0.0.1:0")
        if (child := os.fork()) == 0:
            server.metrics.close()
            print("closed", flush=True)
            sys.stdin.readline()
            os._exit(0)
        print(server.metrics.uri, flush=True)
        sys.stdin.readline()
        server.close()
        print("server closed", flush=True)
        print(os.waitpid(child, 0)[1])
    """)
    uri = next(line for line in (forked.read_line(), forked.read_line()) if line != "closed")
    assert ask(uri, "/healthz")[0] == 200
    forked.write_line("")
    assert forked.read_line() == "server closed"
    with pytest.raises(ConnectionRefusedError):
        ask(uri)
    forked.write_line("")
    assert forked.finish() == "0\n"


def test_without_prometheus_client_it_says_what_to_install():
    program = "import sys; sys.modules['prometheus_client'] = None; import crossdock as xd; xd.serve(metrics='[::1]:0')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "pip install 'crossdock[metrics]'" in done.stderr


def test_nothing_of_it_is_imported_without_metrics():
    program = "import sys, crossdock as xd; xd.serve().close(); print('asyncio' in sys.modules, *sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    first, *names = done.stdout.split()
    assert first == "False"
    assert not [name for name in names if name.startswith(("prometheus", "opentelemetry", "crossdock._http"))]


@pytest.mark.long
def test_the_command_has_them(tmp_path):
    xd.write(TABLE, tmp_path / "t.arrow")
    command = [sys.executable, "-m", "crossdock", "serve", str(tmp_path / "t.arrow"), "--metrics"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run([*command, address], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 4
        assert address in done.stderr
    with Child([*command, address], stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        with xd.connect(serving.stdout.readline().strip()) as client:
            assert ask(f"http://{address}", "/readyz")[0] == 200
            assert pa.table(client.get("t")) == TABLE
            assert scrape(f"http://{address}")["crossdock_batches_total"] == 1
            relaying = [sys.executable, "-m", "crossdock", "relay", client.server_stats()["uris"][0], "--metrics", FREE]
            with Child(relaying, stdout=subprocess.PIPE, text=True) as relay:
                assert relay.stdout is not None
                assert relay.stdout.readline().startswith("shm:")
                assert relay.stdout.readline().startswith("http:")
                relay.send_signal(signal.SIGTERM)
            assert relay.returncode == 0
        serving.send_signal(signal.SIGTERM)
    assert serving.returncode == 0


@pytest.mark.parametrize("command", ["serve", "relay"])
def test_the_command_prints_the_port_that_it_got(tmp_path, server, command):
    xd.write(TABLE, tmp_path / "t.arrow")
    what = str(tmp_path / "t.arrow") if command == "serve" else server.uri
    program = [sys.executable, "-m", "crossdock", command, what, "--metrics", "0"]
    with Child(program, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("shm:")
        address = running.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        assert ask(address, "/readyz")[0] == 200
        assert "crossdock_batches_total" in scrape(address)
        running.send_signal(signal.SIGTERM)
    assert running.returncode == 0


def dashboard_metrics() -> set[str]:
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(queries) > 5
    words = "".join(letter if letter.isalnum() or letter == "_" else " " for query in queries for letter in f"{query} ")
    return {word for word in words.split() if word.startswith("crossdock_")}


def names_of(found: dict[str, Any]) -> set[str]:
    return {name.split(" ")[0] for name in found}


def test_the_dashboard_names_metrics_that_exist(server):
    with xd.relay(server.uri, metrics=FREE) as relay, xd.connect(relay.uri) as client:
        pa.table(client.get("t"))
        assert dashboard_metrics() - names_of(scrape(relay.metrics.uri)) == set()


def test_the_page_lists_all_of_them(server):
    page = (DASHBOARD.parents[1] / "docs" / "how-to" / "operations.md").read_text()
    with xd.relay(server.uri, metrics=FREE) as relay, xd.connect(relay.uri) as client:
        pa.table(client.get("t"))
        for name in names_of(scrape(relay.metrics.uri)):
            base = name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum")
            assert f"| `{name}` |" in page or f"| `{base}` |" in page, name


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus isn't installed (Debian: prometheus)")
@pytest.mark.long
def test_a_real_prometheus_scrapes_them(server, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    target = server.metrics.uri.removeprefix("http://").removesuffix("/metrics")
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 200ms, scrape_timeout: 200ms}\n"
        f"scrape_configs: [{{job_name: crossdock, static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    prometheus = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address={address}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def query(expression: str) -> list[Any]:
        asked = f"http://{address}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it has just started
                return []
            raise AssertionError(f"{expression}: {error.read().decode()}") from None
        except OSError:  # it starts
            return []

    try:
        with xd.connect(server.uri) as client:
            for _ in range(3):
                assert pa.table(client.get("t")) == TABLE
            until(lambda: [one["value"][1] for one in query("crossdock_batches_total")] == ["3"], seconds=60)
            assert [one["value"][1] for one in query('up{job="crossdock"}')] == ["1"]
            (source,) = query("crossdock_source_streams_total")
            assert (source["metric"]["name"], source["value"][1]) == ("t", "3")
            (median,) = query("histogram_quantile(0.5, crossdock_first_batch_seconds_bucket)")
            assert 0 < float(median["value"][1]) < 100
            for panel in json.loads(DASHBOARD.read_text())["panels"]:
                for target_ in panel["targets"]:
                    expression = target_["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*")
                    query(expression)  # which raises for one that Prometheus doesn't understand
    finally:
        prometheus.terminate()
        prometheus.wait()
