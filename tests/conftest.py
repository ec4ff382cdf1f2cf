"""What the Python tests share: a private run-time folder, a look-out for leftovers, other processes."""

from __future__ import annotations

import contextlib
import gc
import logging
import logging.handlers
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from tests import leftovers

TESTS = Path(__file__).parent
PACKAGE_TESTS = ("python", "check", "interop", "spec_peer", "twohosts")

_FAILED = pytest.StashKey[bool]()

# UCX 1.13 replaces the process's munmap() and keeps a mapping that was freed: a leftover for the tests that come later.
os.environ.setdefault("UCX_MEM_EVENTS", "no")

# A shell's background jobs ignore Ctrl-C, and jobs under nohup a hang-up, and so would what they start: tests of these
# signals send them themselves.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


@pytest.fixture(scope="module", autouse=True)
def little_to_collect(request: pytest.FixtureRequest) -> None:
    """Takes what is there at the start of a file out of the collector's sight: the imported libraries make so much that
    a collection would take 20 to 300 ms, and many tests collect. xd.check() does so itself, unless others have."""
    if request.path.parent.name == "check":
        gc.unfreeze()
    else:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.fixture(autouse=True)
def no_leftovers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test of the package starts with an empty run-time folder, and leaves nothing behind.

    That is: no socket, descriptor, mapping of shared memory, process, or file under /dev/shm.
    """
    if request.path.relative_to(TESTS).parts[0] not in PACKAGE_TESTS:
        yield
        return
    runtime = Path(tempfile.mkdtemp(prefix="xd-", dir="/tmp"))  # Short: a socket's path has 107 bytes.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    before = leftovers.Leftovers.now()
    yield
    if request.node.stash.get(_FAILED, False):
        shutil.rmtree(runtime)
        return  # Its traceback keeps its objects; one report is enough.
    request.node.funcargs.clear()  # pytest would keep the fixtures' values a little longer.
    # Other processes and threads that were told to end are given time to; what is still there then is a leftover.
    # Nothing tells when the last of them was released, so it is looked at again for some seconds.
    deadline = time.monotonic() + leftovers.PATIENCE_SECONDS
    while True:
        found = leftovers.Leftovers.now().since(before)
        found += [f"file {path}" for path in runtime.rglob("*") if not path.is_dir()]
        if not found or time.monotonic() > deadline:
            break
        gc.collect()
        time.sleep(0.02)
    shutil.rmtree(runtime)
    assert not found, "left behind:\n" + "\n".join(found)


class Program:
    """A command in a process, and a process group, of its own."""

    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
        )

    def read_line(self, *, timeout: float = 60) -> str:
        """The next line that it prints. A process that prints none for so long is ended, which is an error."""
        assert self.process.stdout is not None
        limit = threading.Timer(timeout, self.kill)
        limit.start()
        try:
            line = self.process.stdout.readline()
        finally:
            limit.cancel()
            limit.join()
        if not line:
            raise AssertionError(f"the process ended early: {self.finish(expect=None)}")
        return line.rstrip("\n")

    def write_line(self, text: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def finish(self, *, expect: int | None = 0, timeout: float = 60) -> str:
        """Waits for its end; the rest of what it printed. Another exit code than the expected one is an error."""
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # with -X faulthandler, it says what its threads do
            out, err = self._rest()
            raise AssertionError(f"it still ran after {timeout} s\n{out}\n{err}") from None
        if expect is not None:
            assert self.process.returncode == expect, f"exit {self.process.returncode}\n{out}\n{err}"
            return out
        return f"exit {self.process.returncode}\n{out}\n{err}"

    def kill(self) -> None:
        """With all that it started. As long as one of them, or the process, wasn't waited for, the number is theirs."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def stop(self) -> None:
        if self.process.returncode is None:
            self.kill()
        self._rest()

    def _rest(self) -> tuple[str, str]:
        """Waits for the end of the process, and of those that have its pipes: after 20 s these are ended."""
        try:
            return self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.process.communicate(timeout=20)


@pytest.fixture
def program(no_leftovers: None) -> Iterator[type[Program]]:
    """Starts a command in another process: program(*command). What still runs at the test's end is ended."""
    started: list[Program] = []

    class Started(Program):
        def __init__(self, *command: str) -> None:
            super().__init__(*command)
            started.append(self)

    yield Started
    for one in started:
        one.stop()


@pytest.fixture
def script(program: type[Program]) -> Callable[..., Program]:
    """Starts Python code in another process: script(code, *arguments). `within`: a command that starts a command."""

    def start(code: str, *arguments: str, within: Sequence[str] = ()) -> Program:
        return program(*within, sys.executable, "-u", "-X", "faulthandler", "-c", textwrap.dedent(code), *arguments)

    return start


class LogLines:
    """What the logger "crossdock" gets, from level INFO on. Another thread may deliver a line after its call's end."""

    def __init__(self) -> None:
        self._records: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
        self.handler = logging.handlers.QueueHandler(self._records)

    def next(self) -> str:
        """Waits for the next line."""
        return self._records.get(timeout=30).getMessage()


@pytest.fixture
def log_lines() -> Iterator[LogLines]:
    """The log's lines, in the order of their calls. To test that a call writes none: test that another's is next."""
    lines, logger = LogLines(), logging.getLogger("crossdock")
    level = logger.level
    logger.addHandler(lines.handler)
    logger.setLevel(logging.INFO)
    yield lines
    logger.setLevel(level)
    logger.removeHandler(lines.handler)


class Mapping(NamedTuple):
    start: int
    end: int
    permissions: str
    name: str


@pytest.fixture
def mapping_of() -> object:
    """Says which mapping of this process an address is in: what tells shared memory from a copy."""

    def find(address: int) -> Mapping:
        for line in Path("/proc/self/maps").read_text().splitlines():
            fields = line.split(maxsplit=5)
            start, end = (int(part, 16) for part in fields[0].split("-"))
            if start <= address < end:
                return Mapping(start, end, fields[1], fields[5] if len(fields) > 5 else "")
        raise AssertionError(f"{address:#x} is not mapped")

    return find
