"""A terminal of a set size, on which tests run programs."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Sequence


def on_a_terminal(command: Sequence[str], *, columns: int = 80, expect: int = 0) -> bytes:
    """Runs a program on a terminal of 24 lines. Returns the bytes that the terminal receives."""
    master, slave = pty.openpty()
    env = os.environ | {"TERM": "xterm", "COLUMNS": str(columns), "LINES": "24"}
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env)
    os.close(slave)
    received = b""
    try:
        while part := os.read(master, 4096):
            received += part
    except OSError:  # EIO: the other end is closed
        pass
    finally:
        os.close(master)
    assert process.wait(60) == expect
    return received
