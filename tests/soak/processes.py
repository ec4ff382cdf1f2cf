"""Units as processes: started, watched, ended; and whatever they leave behind, found and ended too."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.soak.unit import ROOT, Kind

PR_SET_CHILD_SUBREAPER = 36
# How long a unit may take beyond its time before it counts as hanging.
GRACE_SECONDS = 150
LOG_LINES = 60


def adopt_orphans() -> None:
    """A process whose parent has gone becomes this one's child, and is seen."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _processes_of_session(session: int) -> list[tuple[int, str]]:
    """Number and command of each process of a session that hasn't ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            text = (entry / "stat").read_text()
            state, _parent, _group, of = text[text.rindex(")") + 2 :].split()[:4]
            if int(of) == session and state not in "ZX":
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                found.append((int(entry.name), command))
    return found


@dataclass
class Result:
    counts: dict[str, int] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    log: str = ""
    seconds: float = 0


class Running:
    """A unit under way."""

    def __init__(self, kind: Kind, seed: int, seconds: float) -> None:
        self.kind, self.seed, self.seconds = kind, seed, seconds
        self._folder = Path(tempfile.mkdtemp(prefix="xs-", dir="/tmp"))  # Short: a socket's path has 107 bytes.
        self._sockets = self._folder / "run"
        self._sockets.mkdir(mode=0o700)
        self._log = self._folder / "log"
        self._started = time.monotonic()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", "tests.soak.unit", kind.name, str(seed), str(seconds),
                 str(self._folder)],
                cwd=ROOT, env={**os.environ, "XDG_RUNTIME_DIR": str(self._sockets)}, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self.descriptor = os.pidfd_open(self._process.pid)
        """Readable once the process has ended."""

    def late(self) -> bool:
        return time.monotonic() - self._started > self.seconds + GRACE_SECONDS

    def finish(self) -> Result:
        """Ends it if it still runs, and tells what came of it."""
        result = Result()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGABRT)  # Its stacks go to the log.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=10)
            result.findings.append(f"still ran {GRACE_SECONDS} s after its time")
        result.findings += self._processes_left()
        status = self._process.wait()
        os.close(self.descriptor)
        result.seconds = time.monotonic() - self._started
        told = self._folder / "result.json"
        if told.exists():
            said = json.loads(told.read_text())
            result.counts = said["counts"]
            result.findings += said["findings"]
        if status != 0:
            result.findings.append(f"ended with {signal_name(status) if status < 0 else f'exit code {status}'}")
        result.findings += [
            f"left behind: {path.relative_to(self._sockets)} in the run-time folder"
            for path in self._sockets.rglob("*")
            if not path.is_dir()
        ]
        if not result.findings:  # else those say why
            result.findings += [
                f"did no work: it added nothing to {name!r}" for name in self.kind.works if not result.counts.get(name)
            ]
        if result.findings:
            result.log = "\n".join(self._log.read_text(errors="replace").splitlines()[-LOG_LINES:])
        shutil.rmtree(self._folder)
        return result

    def end(self) -> None:
        """Throws it away, with all that it started."""
        self._process.kill()
        self._processes_left()
        self._process.wait()
        os.close(self.descriptor)
        shutil.rmtree(self._folder)

    def _processes_left(self) -> list[str]:
        """Ends the processes that the unit left; says which. Those that were told to end are given some time to."""
        deadline = time.monotonic() + 5
        while True:
            if self._process.poll() is None:
                self._process.kill()
            left = _processes_of_session(self._process.pid)
            if not left:
                break
            if time.monotonic() > deadline:
                for pid, _ in left:
                    os.kill(pid, signal.SIGKILL)
                break
            time.sleep(0.02)
        self._reap()
        return [f"left behind: process {pid}: {command}" for pid, command in left]

    def _reap(self) -> None:
        """Orphans of the unit that have become this process's children and have ended."""
        with contextlib.suppress(ChildProcessError):
            for child in _children():
                if child != self._process.pid and _session_of(child) == self._process.pid:
                    os.waitpid(child, os.WNOHANG)


def _children() -> list[int]:
    found = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found += [int(pid) for pid in (task / "children").read_text().split()]
    return found


def _session_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return os.getsid(pid)
    return 0


def signal_name(status: int) -> str:
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
