"""What tests of `crossdock serve` as a service share: the command in a process of its own, and its service manager."""

from __future__ import annotations

import fcntl
import os
import queue
import signal
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping
from pathlib import Path

COMMAND = [sys.executable, "-m", "crossdock"]
SECONDS = 60


class Service:
    """A command that serves. Its lines on stderr are collected while it runs."""

    def __init__(
        self, *arguments: object, before: tuple[str, ...] = (), env: Mapping[str, str] | None = None, lines: int = 1
    ) -> None:
        self.process = subprocess.Popen(
            [*before, *COMMAND, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONFAULTHANDLER": "1"} | (env or {}),
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.errors: list[str] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()
        assert self.process.stdout is not None
        self.uris = [self.process.stdout.readline().strip() for _ in range(lines)]
        self.uri = self.uris[0] if self.uris else ""

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors.append(line.rstrip("\n"))
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def read_until(self, part: str) -> str:
        """Waits for a line on stderr that has this part."""
        while (line := self._lines.get(timeout=SECONDS)) is not None:
            if part in line:
                return line
        raise AssertionError(f"it ended without {part!r}: {self.errors}")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Waits for the end. Returns the exit code. A crash is an error, with what it said."""
        code = self.process.wait(SECONDS)
        self._reading.join(SECONDS)
        if -code in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL):
            raise AssertionError(f"it crashed, with {signal.Signals(-code).name}:\n" + "\n".join(self.errors))
        return code

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.send(number)
        return self.wait()

    def close(self) -> None:
        """Ends it if it still runs, at once if it takes long, and closes what it had."""
        limit = threading.Timer(SECONDS / 2, self.process.kill)
        limit.start()
        self.stop()
        limit.cancel()
        limit.join()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


class Manager:
    """A service manager: a datagram socket at a path or, beginning with '@', at an abstract name."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.settimeout(SECONDS)

    def next(self) -> dict[str, str]:
        """Waits for the next message: its lines, which are assignments."""
        text = self._socket.recv(65536).decode()
        return dict(line.split("=", 1) for line in text.splitlines())

    def next_with(self, key: str) -> dict[str, str]:
        while key not in (message := self.next()):
            pass
        return message

    def waiting(self) -> int:
        """The number of bytes of messages that have come."""
        return int.from_bytes(fcntl.ioctl(self._socket, termios.FIONREAD, b"\0" * 4), sys.byteorder)

    def close(self) -> None:
        self._socket.close()
        if not self.address.startswith("@"):
            Path(self.address).unlink()
