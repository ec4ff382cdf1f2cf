"""`crossdock top`, as a user runs it: with real servers, on a terminal and without one."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
import urllib.request
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from rich.cells import cell_len
from tests.browser import Browser
from tests.children import Child
from tests.terminal import on_a_terminal

import crossdock as xd

COMMAND = [sys.executable, "-m", "crossdock", "top"]
TABLE = pa.table({"n": range(1000)})


def top(*arguments: object, expect: int = 0) -> tuple[str, str]:
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout, done.stderr


class Served:
    """A server in a process of its own, which can be killed and started again at its address."""

    CODE = """
import sys, pyarrow as pa, crossdock as xd
options = eval(sys.argv[2])
with xd.serve({"flights": pa.table({"n": range(1000)})}, uri=sys.argv[1], **options) as server:
    print(server.uri, flush=True)
    sys.stdin.read()
"""

    def __init__(self, uri: str, **options: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.CODE, uri, repr(options)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.uri = self.process.stdout.readline().strip()
        assert self.uri

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate(timeout=60)  # It ends with its input, and removes its socket.


@contextlib.contextmanager
def holding(uri: str) -> Iterator[object]:
    """A consumer that has read a table to its end, and holds it."""
    with xd.connect(uri) as client:
        reader = client.get("flights")
        held = (reader, list(reader))
        yield held


# ---- one snapshot ----


def test_without_a_terminal_it_prints_one_snapshot():
    with xd.serve({"flights": TABLE}) as server, holding(server.uri):
        out, err = top(server.uri, "--interval", "0.2")
    assert err == ""
    lines = out.splitlines()
    assert lines[0].startswith(f"server    {server.uri}, up ")
    assert lines[0].endswith(f"process {os.getpid()}")
    assert lines[1] == "now       0 B/s, 0 batches/s, 0 rows/s, 0 streams/s"
    assert re.fullmatch(r"held      7.8 KiB in [12] buffers, the oldest for [0-9.]+ s", lines[3]), lines[3]
    (ours,) = [line for line in lines if line.startswith(f"process {os.getpid()} ")]
    assert "(flights)" in ours  # it has read it to its end, and holds it
    assert "7.8 KiB" in ours
    assert any(line.startswith("flights ") for line in lines)


def test_once_for_programs():
    with xd.serve({"flights": TABLE, b"\xff": TABLE}, uri=["shm:", "tcp:"]) as server, holding(server.uris[1]):
        out, _ = top(server.uri, "--once", "--json", "--interval", "0.2")
    (line,) = out.splitlines()
    value = json.loads(line)
    assert value["uri"] == server.uri
    assert value["error"] is None
    assert value["seconds"] >= 0.199  # a difference of two readings of a clock, in floating point
    assert value["server"]["uris"] == server.uris
    assert {one["carrier"] for one in value["consumers"]} == {"shm", "tcp"}
    assert len({one["id"] for one in value["consumers"]}) == 2
    assert [(one["name"], one["ticket"]) for one in value["tables"]] == [("flights", None), (None, "ff")]
    assert value["tables"][0]["streams"] == 1


@pytest.mark.long
def test_lines_for_programs_go_on_through_a_restart():
    with Served("shm:again") as server:
        process = subprocess.Popen(
            [*COMMAND, server.uri, "--json", "--interval", "0.1", "--timeout", "5"], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert first["server"]["pid"] == server.process.pid
    lost = next(value for value in map(json.loads, process.stdout) if value["error"])
    assert set(lost) == {"uri", "error"}
    assert lost["error"].startswith("ConnectionError: ")
    with Served("shm:again") as server:
        found = next(value for value in map(json.loads, process.stdout) if not value["error"])
        assert found["server"]["pid"] == server.process.pid
        assert found["server"]["bytes_per_second"] is None  # another server's counters aren't compared
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_output_without_a_reader(arguments):
    reads, writes = os.pipe()
    with xd.serve({"flights": TABLE}) as server:
        process = subprocess.Popen(
            [*COMMAND, server.uri, "--interval", "0.1", *arguments], stdout=writes, stderr=subprocess.PIPE
        )
        os.close(writes)
        os.close(reads)
        assert process.communicate(timeout=60)[1] == b""
        assert process.returncode == 141


@pytest.mark.parametrize("columns", [20, 80])
def test_once_fits_a_terminal(columns):
    with xd.serve({"flights": TABLE}) as server, holding(server.uri):
        lines = on_a_terminal([*COMMAND, server.uri, "--once", "--interval", "0.1"], columns=columns).decode()
    assert all(cell_len(line) <= columns for line in lines.splitlines() if " " in line.strip())
    assert "more columns" in " ".join(lines.split())


# ---- errors ----


@pytest.mark.long
def test_errors_say_what_to_do():
    _, err = top("shm:nobody", expect=4)
    assert err.startswith("ConnectionError: ")
    _, err = top("nonsense", expect=2)
    assert "UriError" in err
    with xd.serve({"flights": TABLE}) as server:
        _, err = top(server.uri, "--web", "nonsense", expect=2)
        assert "as 127.0.0.1:8080, [::1]:8080 or *:8080, not 'nonsense'" in " ".join(err.split())
        _, err = top(server.uri, "--web", "0", "--once", expect=2)
        assert "leave --once and --json out" in " ".join(err.split())
        _, err = top(server.uri, "--interval", "0", expect=2)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            _, err = top(server.uri, "--web", port, expect=4)
            at = f"http://127.0.0.1:{port}"
            assert err == f"ConnectionError: can't listen at {at}: another program uses it; port 0 picks a free one\n"


def test_a_server_that_refuses_the_statistics():
    with xd.serve({"flights": TABLE}, uri="tcp:") as server:
        _, err = top(server.uri, expect=1)
        assert err.startswith("PermissionError: ")
        assert 'stats="any" (`crossdock serve --stats any`)' in err
    with xd.serve({"flights": TABLE}, uri="tcp:", stats="any") as server:
        assert top(server.uri, "--interval", "0.1")[0].startswith("server    tcp://")


def test_without_textual_the_error_names_the_extra(tmp_path):
    (tmp_path / "textual.py").write_text("raise ModuleNotFoundError(name='textual')")
    command = ["env", f"PYTHONPATH={tmp_path}", *COMMAND]
    with xd.serve({"flights": TABLE}) as server:
        text = " ".join(on_a_terminal([*command, server.uri], expect=1).decode().split())
        assert text == (
            "MissingPackage: the live view needs textual: pip install 'crossdock[top]'; --once and --web don't need it"
        )
        # The others don't load it.
        out = subprocess.run(
            [*command, server.uri, "--interval", "0.1"], capture_output=True, text=True, timeout=60, check=True
        ).stdout
        assert out.startswith("server    ")


# ---- live, on a terminal ----


class Live:
    """The live view on a pseudo-terminal. Its bytes are kept, of which a test searches those that came last."""

    def __init__(self, *arguments: str, columns: int = 100, lines: int = 30) -> None:
        pytest.importorskip("textual")
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [*COMMAND, *arguments], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env=env | {"TERM": "xterm-256color"},
        )  # fmt: skip
        os.close(slave)
        self.seen = b""

    def wait_for(self, text: str, seconds: float = 30) -> None:
        """Waits until a text is written, after those that were waited for before."""
        wanted = text.encode()
        deadline = time.monotonic() + seconds
        while wanted not in self.seen:
            readable, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
            assert readable, f"{text!r} doesn't come: {self.seen[-3000:]!r}"
            try:
                part = os.read(self.master, 1 << 16)
            except OSError:  # EIO: the other end is closed
                part = b""
            assert part, f"it ended: {self.seen[-3000:]!r}"
            self.seen += part
        self.seen = self.seen[self.seen.index(wanted) + len(wanted) :]

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def end(self, expect: int = 0) -> bytes:
        """Waits until the program has ended; what it wrote meanwhile."""
        deadline = time.monotonic() + 60
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            while (left := deadline - time.monotonic()) > 0 and select.select([self.master], [], [], left)[0]:
                self.seen += os.read(self.master, 1 << 16)
        assert self.process.wait(10) == expect, self.seen[-3000:]
        return self.seen

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.fixture
def live(no_leftovers: None) -> Iterator[Callable[..., Live]]:
    started: list[Live] = []

    def start(*arguments: str, **options: int) -> Live:
        started.append(Live(*arguments, **options))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.mark.long
@pytest.mark.parametrize("end", ["q", "\x03"])
def test_live_until_a_key_is_pressed(live, end):
    with Served("shm:live") as server, holding(server.uri):
        shown = live(server.uri, "--interval", "0.1")
        shown.wait_for("shm:live")
        shown.wait_for("(flights)")
        shown.press("\r")
        shown.wait_for("why this way")
        shown.press("q")  # closes the details; Escape would be part of the next key
        shown.press("2")
        shown.wait_for("streams")
        shown.press(end)
        assert b"\x1b[?1049l" in shown.end()  # the terminal is as it was


@pytest.mark.long
def test_live_with_a_server_that_ends_and_comes_again(live):
    with Served("shm:again") as server:
        shown = live(server.uri, "--interval", "0.1", "--timeout", "5")
        shown.wait_for("shm:again")
    shown.wait_for("No server: ")
    shown.wait_for("Trying again")
    with Served("shm:again") as server:
        shown.wait_for(f"process {server.process.pid}")
        shown.press("q")
        shown.end()


@pytest.mark.long
@pytest.mark.parametrize("size", [(20, 24), (20, 5), (8, 3)])
def test_live_on_a_small_terminal(live, size):
    with Served("shm:small") as server:
        shown = live(server.uri, "--interval", "0.1", columns=size[0], lines=size[1])
        shown.wait_for("\x1b[?25l")  # It hides the cursor when the terminal passes on each key as it is.
        shown.press("\t\t<r/x\x03")  # from the filter
        shown.end()


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_live_until_a_signal(live, number):
    with Served("shm:signal") as server:
        shown = live(server.uri, "--interval", "0.1")
        shown.wait_for("shm:signal")
        shown.process.send_signal(number)
        shown.end(expect=0)


@pytest.mark.long
def test_live_on_a_terminal_that_goes(live):
    """As when the window is closed: it ends, and doesn't go on without one."""
    with Served("shm:window") as server:
        shown = live(server.uri, "--interval", "0.1")
        shown.wait_for("shm:window")
        os.close(shown.master)
        shown.process.send_signal(signal.SIGHUP)
        # 120: Python couldn't write what was left for the terminal.
        assert shown.process.wait(60) in (0, 1, 120)
        shown.master = os.open(os.devnull, os.O_RDONLY)


# ---- the page ----


def serving_page(*arguments: object) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_page_until_a_signal(number):
    with xd.serve({"flights": TABLE}) as server:
        process, url = serving_page(server.uri, "--web", "0")
        assert url.startswith("http://127.0.0.1:")
        connection = urllib.request.urlopen(f"{url}events", timeout=30)
        assert connection.readline() == b"retry: 1000\n"
        process.send_signal(number)
        assert process.communicate(timeout=60) == ("", "")
        assert process.returncode == 0
        connection.close()


@pytest.mark.long
def test_a_page_of_a_server_that_is_killed_and_comes_again():
    with Browser("--window-size=1300,800") as browser, Served("shm:page") as server:
        process, url = serving_page(server.uri, "--web", "localhost:0", "--interval", "0.1", "--timeout", "5")
        browser.open(url)
        with holding(server.uri):
            browser.wait_for("document.querySelectorAll('#rows tr').length === 2")
            browser.wait_for("document.querySelector('#rows').innerText.includes('(flights)')")
        browser.wait_for("document.querySelectorAll('#rows tr').length === 1")
        server.process.kill()
        browser.wait_for("document.getElementById('state').classList.contains('lost')")
        server.process.communicate()
        with Served("shm:page") as again:
            browser.wait_for("document.getElementById('state').hidden")
            browser.wait_for(f"document.getElementById('about').innerText.includes('{again.process.pid}')")
            assert browser.problems() == []
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 0


@pytest.mark.long
def test_many_consumers_are_all_counted():
    """More than an answer has room for."""
    with xd.serve({f"table {i}": TABLE for i in range(400)}, max_connections=600) as server:
        clients = [xd.connect(server.uri) for _ in range(300)]
        try:
            value = json.loads(top(server.uri, "--once", "--json", "--interval", "0.1")[0])
        finally:
            for one in clients:
                one.close()
    assert value["server"]["connections"] == 301
    assert len(value["consumers"]) + value["server"]["consumers_left_out"] == 301
    assert len(value["tables"]) + value["server"]["sources_left_out"] == 400
    assert len(value["consumers"]) <= 256


def test_a_terminal_that_is_gone_ends_it():
    """One that isn't the process's own sends no SIGHUP when it is closed."""
    with xd.serve({"t": TABLE}) as server:
        ours, theirs = pty.openpty()
        command = [*COMMAND, server.uri, "--interval", "0.1"]
        environment = {**os.environ, "TERM": "xterm-256color"}
        with Child(
            command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env=environment
        ) as process:
            os.close(theirs)
            seen = b""
            while b"consumers" not in seen.lower():
                seen += os.read(ours, 1 << 16)
            os.close(ours)
            assert process.wait(30) in (0, 120)  # 120: Python couldn't write what was left for the terminal
