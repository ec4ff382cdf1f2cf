"""Children that are forked from the process of the tests, with all that it has: threads, locks, garbage."""

from __future__ import annotations

import gc
import os
import signal
import traceback
from collections.abc import Callable

SECONDS = 60


def status_in_a_child(work: Callable[[], object]) -> int:
    """Calls `work` in a forked child. Returns the child's exit code: 0, or 1 where `work` raised, or that of a signal.

    What other tests left for the collector is collected before: its owners' libraries may wait in a child for threads
    that it doesn't have.
    """
    gc.collect()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(SECONDS)
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
