"""`debug()`: says what a fault in shared memory means, before the process dies of it."""

from __future__ import annotations

import faulthandler
import threading

from crossdock import _native

__all__ = ["debug"]

_STDERR = 2  # The report is written there, whatever sys.stderr is.
_changing = threading.Lock()
_enabled_faulthandler = False


def debug(on: bool = True) -> None:
    """Has faults in Crossdock's memory explained on stderr, before the process dies of them as it would without.

    Tables and arrays that came from another process are read-only. Some libraries, torch among them, write into them
    all the same, and the process dies by SIGSEGV without a word. After `debug()` it says first that Crossdock's
    read-only memory was written to, which, and what helps; and of a file that was cut short under its readers (SIGBUS)
    which file. Python's traceback follows, by `faulthandler`, which is enabled for it unless it is already. The process
    dies by the same signal, with a core dump where those are on.

    Faults elsewhere are passed on unchanged. All threads are covered; memory that was mapped before, too. Calling it
    again is fine, and needed after `faulthandler.disable()`, which takes it out. `debug(False)` puts back what was
    there before.
    """
    global _enabled_faulthandler
    with _changing:
        if on:
            # First, so that its handler lies under ours, and enabling it later changes nothing.
            if not faulthandler.is_enabled():
                faulthandler.enable(_STDERR)
                _enabled_faulthandler = True
            _native.report_faults()
        else:
            _native.stop_reporting_faults()
            if _enabled_faulthandler:
                faulthandler.disable()
                _enabled_faulthandler = False
