"""What a test could leave behind: descriptors, mappings of shared memory, processes, files under /dev/shm."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

from tests import devshm

PRIVATE_DEVSHM = devshm.make_private()
# How long other processes and threads that were told to end are given.
PATIENCE_SECONDS = 20.0


def _descriptors() -> dict[int, str]:
    found = {}
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # The descriptor of the listing itself.
            found[int(entry)] = os.readlink(f"/proc/self/fd/{entry}")
    return found


def _shared_mappings() -> list[str]:
    """Mappings of memfds; pages of ours that nobody freed. CUDA's and other libraries' have other names."""
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if "memfd:crossdock" in line]


def _children() -> set[int]:
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # A thread that has just ended.
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


class Leftovers(NamedTuple):
    """What a test could leave behind."""

    descriptors: dict[int, str]
    mappings: int
    children: set[int]
    shared_files: set[str]

    @classmethod
    def now(cls) -> Leftovers:
        files = devshm.files_of_ours(private=PRIVATE_DEVSHM)
        return cls(_descriptors(), len(_shared_mappings()), _children(), files)

    def since(self, before: Leftovers) -> list[str]:
        found = [
            f"descriptor {fd}: {target}"
            for fd, target in self.descriptors.items()
            # Pools that peers' libraries start once and keep have event descriptors; ours are sockets, memfds, files.
            # CUDA keeps the device's files from its first call on.
            if before.descriptors.get(fd) != target and not target.startswith(("anon_inode:", "/dev/nvidia"))
        ]
        if self.mappings > before.mappings:
            found.append(f"{self.mappings - before.mappings} mappings: {_shared_mappings()}")
        found += [f"process {pid}" for pid in self.children - before.children]
        found += [f"/dev/shm/{name}" for name in self.shared_files - before.shared_files]
        return found
