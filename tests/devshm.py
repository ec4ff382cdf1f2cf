"""Which files under /dev/shm a test left: other programs of the machine use that folder, too.

Where the system allows it, a test process gets a mount namespace with a /dev/shm of its own, so that every file there
was made by the process or its children. Elsewhere a file counts if this process or one of its descendants holds it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

FOLDER = Path("/dev/shm")

CLONE_NEWNS = 0x20000
MS_REC, MS_PRIVATE = 0x4000, 0x40000


def make_private() -> bool:
    """Gives this process, and the children that it starts from now on, a /dev/shm of its own. False: it may not."""
    libc = ctypes.CDLL(None)
    return (
        libc.unshare(CLONE_NEWNS) == 0
        and libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0
        and libc.mount(b"tmpfs", bytes(FOLDER), b"tmpfs", 0, b"mode=1777") == 0
    )


def descendants(pid: int) -> set[int]:
    """The processes that `pid` started, and those that they started."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # A thread that has just ended.
            for child in map(int, (task / "children").read_text().split()):
                found.add(child)
                with contextlib.suppress(OSError):
                    found |= descendants(child)
    return found


def _held_by(pid: int) -> set[str]:
    """Targets of its descriptors and mappings."""
    found = set()
    with contextlib.suppress(OSError):  # It has just ended.
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(os.readlink(entry))
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            found.add(line.split(maxsplit=5)[-1])
    return found


def files_of_ours(*, private: bool) -> set[str]:
    """Names of the files that count as this process's and its descendants'."""
    names = set(os.listdir(FOLDER))
    if private or not names:
        return names
    pid = os.getpid()
    held = set().union(*(_held_by(one) for one in {pid, *descendants(pid)}))
    return {name for name in names if str(FOLDER / name) in held}
