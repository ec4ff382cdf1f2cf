"""`debug()`: explains a fault in shared memory before the process dies of it."""

from __future__ import annotations

import faulthandler
import threading

from crossdock import _native

__all__ = ["debug"]

_STDERR = 2  # The report is written to this descriptor, even if sys.stderr is another one.
_changing = threading.Lock()
_enabled_faulthandler = False


def debug(on: bool = True) -> None:
    """Explains faults in Crossdock's memory on stderr, before the process dies of them.

    Tables and arrays that came from another process are read-only. Some libraries, for example torch, write to them
    nevertheless, and the process dies by SIGSEGV without any message. After `debug()` a message says that Crossdock's
    read-only memory was written to, which memory, and how to avoid it. If a file was truncated while it was mapped
    (SIGBUS), the message names the file. Python's traceback follows, by `faulthandler`, which this enables if it isn't
    enabled yet. The process then dies by the same signal, with a core dump if core dumps are enabled.

    Other faults are passed on unchanged. All threads are covered, and memory that was mapped before the call, too.
    `faulthandler.disable()` removes the handlers; call `debug()` again after it.

    on: False restores the previous handlers.

    Raises `SystemError` if the handlers can't be installed.
    """
    global _enabled_faulthandler
    with _changing:
        if on:
            # Enabled first, so that our handler runs before it, and enabling it again later has no effect.
            if not faulthandler.is_enabled():
                faulthandler.enable(_STDERR)
                _enabled_faulthandler = True
            _native.report_faults()
        else:
            _native.stop_reporting_faults()
            if _enabled_faulthandler:
                faulthandler.disable()
                _enabled_faulthandler = False
