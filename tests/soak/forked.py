"""Children of a unit: forked from a process that has imported everything and has one thread."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable

from tests.soak.unit import Unit, wait_until


def fork(body: Callable[[], None]) -> int:
    """A child that runs `body`; what that raises ends it with code 1, its traceback in the log."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        body()
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def expect_end(unit: Unit, pid: int, who: str) -> None:
    status = 0

    def ended() -> bool:
        nonlocal status
        reaped, status = os.waitpid(pid, os.WNOHANG)
        return reaped == pid

    if not wait_until(ended, 60):
        unit.finding(f"{who} hangs")
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    elif status:
        unit.finding(f"{who} ended with status {os.waitstatus_to_exitcode(status)}")
