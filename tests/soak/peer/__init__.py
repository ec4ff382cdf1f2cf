"""The program soak_peer: C++ servers and clients, plain and built with sanitizers."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.soak.unit import ROOT, Unit

_TCP_STATES = {"01": "connected", "02": "connecting", "08": "closed by the peer", "0A": "listening"}  # of Linux

BUILDS = ("dev", "tsan", "asan")
_OPTIONS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": f"halt_on_error=1:second_deadlock_stack=1:suppressions={ROOT}/tests/tsan.suppressions",
}


def program(build: str) -> Path:
    return ROOT / "build" / build / "tests" / "soak" / "peer" / "soak_peer"


def missing(build: str) -> str | None:
    """Why the program can't be run, if it can't."""
    return None if program(build).exists() else f"{program(build).relative_to(ROOT)} isn't built"


def environment(token: str = "") -> dict[str, str]:
    return {**os.environ, **_OPTIONS, "CROSSDOCK_TOKEN": token}


class PeerServer:
    """`soak_peer serve`: a server in a process of its own, and what it says of itself."""

    def __init__(self, build: str, uris: list[str], token: str = "") -> None:
        self._process = subprocess.Popen(
            [program(build), "serve", *uris],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(token),
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        self.uris = list(iter(lambda: self._out.readline().strip(), ""))

    def __enter__(self) -> PeerServer:
        return self

    def __exit__(self, _: type[BaseException] | None, raised: BaseException | None, __: TracebackType | None) -> None:
        status = self.close()
        if raised is None and status != 0:
            raise AssertionError(f"the server ended with status {status}")

    def alive(self) -> bool:
        return self._process.poll() is None

    def descriptors(self) -> list[str]:
        """What each of its descriptors is; of a TCP socket also its two ports and its state."""
        process = Path(f"/proc/{self._process.pid}")
        sockets = {}
        for row in (line.split() for name in ("tcp", "tcp6") for line in (process / "net" / name).open()):
            if row[0] != "sl":
                here, there = (int(address.rpartition(":")[2], 16) for address in row[1:3])
                sockets[f"socket:[{row[9]}]"] = f"tcp {here} {there} {_TCP_STATES.get(row[3], row[3])}"
        found = []
        for entry in sorted((process / "fd").iterdir(), key=lambda entry: int(entry.name)):
            with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
                target = os.readlink(entry)
                found.append(f"{entry.name} {sockets.get(target, target)}")
        return found

    def statistics(self) -> dict[str, Any]:
        self._in.write("\n")
        self._in.flush()
        line = self._out.readline()
        if not line:
            raise AssertionError(f"the server ended with status {self._process.wait()}")
        return json.loads(line)

    def close(self) -> int:
        """Ends it in order; its exit code, negative for a signal."""
        self._in.close()
        try:
            return self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError("the server doesn't close") from None
        finally:
            self._out.close()


def drive(unit: Unit, build: str, role: str, *arguments: str) -> None:
    """Runs a driver to its end, and takes over its counts and findings."""
    command = [program(build), role, *arguments, str(unit.seed), str(int(unit.seconds * 1000))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment(), check=False)
    if done.returncode != 0:
        unit.finding(f"the driver of {role} ended with status {done.returncode}")
        return
    said = json.loads(done.stdout)
    for text in said.pop("findings"):
        unit.finding(text)
    for name, number in said.items():
        unit.count(name.replace("_", " "), number)
