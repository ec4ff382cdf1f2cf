"""What the service manager is told, and asks for, by the protocol of sd_notify(3): datagrams to the socket that it
names in NOTIFY_SOCKET. systemd is one, and so is what runs containers with `--sdnotify`."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping

from crossdock._text import shown

log = logging.getLogger("crossdock.cli")

_SECONDS = 5.0  # that a manager may take to receive a message


class ServiceManager:
    """Sends what happens. Without NOTIFY_SOCKET its methods do nothing. They never raise: a service goes on without its
    manager. Thread-safe."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        self.watchdog_seconds = _watchdog_seconds(environment)

    def ready(self, status: str) -> None:
        self._send(f"READY=1\nSTATUS={shown(status)}")

    def reloading(self) -> None:
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send(f"RELOADING=1\nMONOTONIC_USEC={now}\nSTATUS=reading the configuration")

    def stopping(self, status: str, seconds: float) -> None:
        """seconds: how long the end may take."""
        self._send(f"STOPPING=1\nEXTEND_TIMEOUT_USEC={int(seconds * 1e6)}\nSTATUS={shown(status)}")

    def status(self, status: str) -> None:
        self._send(f"STATUS={shown(status)}")

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.settimeout(_SECONDS)
                sender.sendto(message.encode(errors="surrogateescape"), self._address)
        except OSError as error:
            log.warning("the service manager's socket %s takes no message: %s", shown(str(self._address)), error)


def _address(given: str) -> str | bytes | None:
    if not given:
        return None
    if given[0] == "@":  # a name without a file
        return b"\0" + os.fsencode(given[1:])
    if given[0] == "/":
        return given
    log.warning("NOTIFY_SOCKET is %s, which is neither a path nor begins with @: it is ignored", shown(given))
    return None


def _watchdog_seconds(environment: Mapping[str, str]) -> float | None:
    """How often the manager waits for a sign of life at least; None: it doesn't."""
    given = environment.get("WATCHDOG_USEC")
    if given is None:
        return None
    process = environment.get("WATCHDOG_PID", str(os.getpid()))
    if not (given.isascii() and given.isdigit() and int(given) > 0 and process.isascii() and process.isdigit()):
        log.warning("WATCHDOG_USEC and WATCHDOG_PID are %s and %s: they are ignored", shown(given), shown(process))
        return None
    return int(given) / 1e6 if int(process) == os.getpid() else None
