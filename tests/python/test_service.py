"""`crossdock serve` and `crossdock relay` as services: how they end, their service manager, and their log."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.pages import blocks, runs
from tests.service import COMMAND, Manager, Service

import crossdock as xd
from crossdock.cli.running import Running
from crossdock.cli.service_manager import ServiceManager
from crossdock.cli.tables import Changes

LONG = pa.table({"n": list(range(100_000))})


@pytest.fixture
def serve(no_leftovers: None) -> Iterator[type[Service]]:
    started: list[Service] = []

    class Started(Service):
        def __init__(self, *arguments: object, **more: object) -> None:
            super().__init__(*arguments, **more)  # type: ignore[arg-type]
            started.append(self)

    yield Started
    for one in started:
        one.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    made = Manager(str(tmp_path / "notify"))
    yield made
    made.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table of 1,000 batches."""
    with pa.ipc.new_file(str(tmp_path / "t.arrow"), LONG.schema) as sink:
        sink.write_table(LONG, max_chunksize=100)
    return tmp_path / "t.arrow"


# ---- the end ----


@pytest.mark.parametrize("uri", ["shm:t", "tcp:"])
def test_sigterm_lets_a_stream_go_on_and_refuses_others(serve, path, uri):
    service = serve("--log-level", "info", "serve", path, "--uri", uri, "--window", 2, "--grace", 60)
    with xd.connect(service.uri) as client, xd.connect(service.uri) as other, client.get("t") as reader:
        rows = next(reader).num_rows
        service.send(signal.SIGTERM)
        service.read_until("waiting for streams under way, 60 s at most")
        with pytest.raises(xd.Error, match="about to end"):
            other.list()
        with xd.connect(service.uri) as late, pytest.raises(xd.Error, match="about to end"):
            late.get("t")
        rows += sum(batch.num_rows for batch in reader)
        assert rows == 100_000
    assert service.wait() == 0
    assert not any("ended before" in line for line in service.errors)
    # Lines of the library come on a thread of their own, and one may follow.
    assert any(line.endswith("INFO: ended") for line in service.errors)


def test_the_grace_ends_streams_that_take_longer(serve, path):
    service = serve("serve", path, "--window", 2, "--grace", 0.2)
    with xd.connect(service.uri) as client, client.get("t") as reader:
        next(reader)
        service.send(signal.SIGTERM)
        assert service.wait() == 0
        with pytest.raises(xd.Error):
            list(reader)
    (line,) = service.errors
    assert line.endswith("WARNING: ended before 1 consumer had taken all that was sent")


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once(serve, path, first):
    service = serve("--log-level", "info", "serve", path, "--window", 2, "--grace", 3600)
    with xd.connect(service.uri) as client, client.get("t") as reader:
        next(reader)
        service.send(first)
        if first == signal.SIGTERM:
            service.read_until("a second signal ends them at once")
            service.send(signal.SIGTERM)
        assert service.wait() == 0


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_is_sent_twice_is_a_quiet_end(serve, path, number):
    """As by timeout(1). The second one comes while the first one's work is done, or after it."""
    for _ in range(5):
        service = serve("serve", path)
        service.send(number)
        service.send(number)
        assert service.wait() == 0
        assert service.errors == []


def test_a_signal_at_the_very_end_changes_nothing(serve, path):
    service = serve("--log-level", "info", "serve", path)
    service.send(signal.SIGTERM)
    service.read_until("INFO: ended")
    if service.process.poll() is None:
        service.send(signal.SIGTERM)
    assert service.wait() == 0


@pytest.mark.long
def test_sigterm_while_a_file_is_read(serve, path, tmp_path, manager):
    """A named pipe isn't taken, so the file is one whose reading takes long."""
    rows = "".join(f"{n},{n * 7},{n * 13}\n" for n in range(200_000))
    (tmp_path / "big").mkdir()
    for number in range(20):
        (tmp_path / "big" / f"{number:02}.csv").write_text("a,b,c\n" + rows)
    service = serve(
        "--log-level", "info", "serve", path, tmp_path / "big", "--uri", "shm:t",
        env={"NOTIFY_SOCKET": manager.address}, lines=0,
    )  # fmt: skip
    service.read_until("published t")
    with xd.connect("shm:t") as client:
        assert [entry.name for entry in client.list()] == ["t"]
    service.send(signal.SIGTERM)
    assert service.wait() == 0
    assert service.process.stdout.read() == ""
    message = manager.next_with("STOPPING")
    assert message["STOPPING"] == "1"


def test_a_relay_lets_a_stream_go_on(serve, path):
    origin = serve("serve", path, "--uri", "tcp:")
    relay = serve("--log-level", "info", "relay", origin.uri, "--at", "tcp:", "--grace", "60")
    with xd.connect(relay.uri) as client, client.get("t") as reader:
        rows = next(reader).num_rows
        relay.send(signal.SIGTERM)
        relay.read_until("waiting for streams under way")
        rows += sum(batch.num_rows for batch in reader)
    assert rows == 100_000
    assert relay.wait() == 0


def test_a_relay_tells_the_manager(serve, path, manager):
    origin = serve("serve", path, "--uri", "tcp:")
    env = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "100000"}
    relay = serve("relay", origin.uri, "--at", "shm:relay", env=env)
    assert manager.next() == {"READY": "1", "STATUS": f"relaying {origin.uri} at shm:relay"}
    assert manager.next() == {"WATCHDOG": "1"}
    assert relay.stop() == 0
    assert manager.next_with("STOPPING")["STOPPING"] == "1"


# ---- the service manager ----


@pytest.mark.parametrize("abstract", [False, True])
def test_the_manager_is_told_the_beginning_and_the_end(serve, path, tmp_path, abstract):
    manager = Manager(f"@crossdock-test-{os.getpid()}" if abstract else str(tmp_path / "s"))
    service = serve("serve", path, env={"NOTIFY_SOCKET": manager.address})
    assert manager.next() == {"STATUS": "reading 1 table"}
    assert manager.next() == {"READY": "1", "STATUS": f"serving 1 table at {service.uri}"}
    service.send(signal.SIGTERM)
    message = manager.next()
    assert message["STOPPING"] == "1"
    assert int(message["EXTEND_TIMEOUT_USEC"]) >= 5_000_000
    assert service.wait() == 0
    assert service.errors == []
    manager.close()


def test_signs_of_life_come_while_the_server_answers(serve, path, manager):
    service = serve("serve", path, env={"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "100000"})
    for _ in range(3):
        assert manager.next_with("WATCHDOG") == {"WATCHDOG": "1"}
    assert service.stop() == 0


def test_a_server_whose_thread_answers_no_more_shows_no_sign_of_life(manager, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    monkeypatch.setenv("WATCHDOG_USEC", "1000")
    answers, asked = threading.Event(), threading.Event()

    class Stuck:
        calls = 0

        def stats(self) -> dict[str, object]:
            self.calls += 1
            if self.calls == 3:
                asked.set()
                assert answers.wait(60)
            return {"consumers": []}

        def drain(self, timeout: float | None = None) -> bool:
            return True

        def close(self) -> None:
            answers.set()

    served = Stuck()
    with Running() as running:
        running.watch(served)
        for _ in range(2):
            manager.next_with("WATCHDOG")
        assert asked.wait(60)
        assert manager.waiting() == 0
        answers.set()
        manager.next_with("WATCHDOG")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "3000000"}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "-1"}, None),
    ],
)
def test_who_is_watched(environment, expected):
    assert ServiceManager(environment).watchdog_seconds == expected


def test_a_manager_that_isnt_there_is_logged(serve, path, tmp_path):
    service = serve("serve", path, env={"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    with xd.connect(service.uri) as client:
        assert client.list()
    assert service.stop() == 0
    assert "takes no message" in service.errors[0]
    service = serve("serve", path, env={"NOTIFY_SOCKET": "vsock:2:1234"})
    assert service.stop() == 0
    assert "it is ignored" in service.errors[0]


# ---- the log ----


@runs("json", "docs/how-to/operations.md")
def test_the_log_as_json(serve, path):
    service = serve("--log-level", "info", "--log-json", "serve", path, "--name", "a\x1b[31mb")
    assert service.stop() == 0
    lines = [json.loads(line) for line in service.errors]
    assert all(set(line) == {"time", "level", "logger", "message"} for line in lines)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)
    messages = [line["message"] for line in lines if line["logger"] == "crossdock.cli"]
    assert [message.split()[0] for message in messages] == ["listening", "published", "waiting", "ended"]
    assert not any(character in line for line in service.errors for character in "\x1b\x07")
    (shown,) = blocks("json", "docs/how-to/operations.md")
    line = json.loads(shown)
    assert list(line) == list(lines[0])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
    assert (line["level"], line["logger"]) == ("info", "crossdock.cli")
    assert line["message"] == f"reloaded: {Changes(added=1, replaced=0, withdrawn=0, unchanged=12)}"


def test_errors_are_lines_of_the_json_log(path, tmp_path):
    done = subprocess.run(
        [*COMMAND, "--log-json", "serve", str(tmp_path / "absent.arrow")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    (line,) = map(json.loads, done.stderr.splitlines())
    assert line["level"] == "error"
    assert line["message"].startswith("NotFoundError: ")


def test_a_log_level_that_isnt_one(path):
    done = subprocess.run([*COMMAND, "--log-level", "loud", "ls"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "debug, info, warning, error" in done.stderr


def test_the_default_log_has_no_more_than_warnings(serve, path):
    service = serve("serve", path)
    assert service.stop() == 0
    assert service.errors == []
