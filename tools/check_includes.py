#!/usr/bin/env python3
"""Checks the #include lines of include/, src/ and python/ against the layers.

    tools/check_includes.py [--root FOLDER]

Prints `file:line: what is wrong` for each include that a layer may not have, and exits with 1 where there is any. The
table is the one of docs/explanation/architecture.md; a new layer, driver, transport or library is entered in both.

A header is public (include/crossdock/<layer>/x.h, installed), for other layers (src/<layer>/x.h), or private to its
layer (in a folder under src/<layer>/).
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from checking import main

# layer: the layers that it may include. What those may include in their turn is allowed too.
LAYERS = {
    "core": [],
    "device": ["core"],
    "array": ["core", "device"],
    "exchange": ["array", "device"],
    "ipc": ["array"],
    "dissociated": ["ipc", "core"],
    "transport": ["core", "device"],
    "flight": ["ipc", "core"],
    "offload": ["device", "array", "exchange"],
    "session": ["core", "device", "array", "exchange", "ipc", "dissociated", "transport", "flight", "offload"],
    "peers": ["session"],
    "c_api": ["session"],
}

# Parts of a layer that must not know each other. What lies in none of them is the layer's own, for all.
PARTS = {
    "device": {"host", "sim", "cuda", "sycl", "rocm"},
    "transport": {"memory", "shm", "tcp", "ucx", "fabric"},
}
# Only these layers may name a part of another layer; the others get it through the layer's interface.
BINDS_PARTS = {"session"}

# Headers of other projects: the folders and files that may see them.
LIBRARIES = {
    "flatbuffers/": ["src/ipc"],
    "grpc/": ["src/flight/grpc"],
    "grpcpp/": ["src/flight/grpc"],
    "lz4": ["src/ipc"],
    "zstd": ["src/ipc"],
    "nanobind/": ["python"],
    "openssl/crypto.h": ["src/core"],  # before the folder: the first entry counts
    "openssl/hmac.h": ["src/core"],
    # libstdc++'s parts of large headers
    "bits/": ["include/crossdock/core/chrono.h", "include/crossdock/core/function.h"],
    "openssl/": ["src/transport/net"],
    "rdma/": ["src/transport/fabric"],
    "ucp/": ["src/transport/ucx"],
    "Python.h": ["python"],
    "datetime.h": ["python"],
    "structmember.h": ["python"],
}

# Pure layers are state machines: what would give them a clock, a thread or a socket.
PURE = {"ipc", "dissociated"}
IMPURE_STANDARD = {
    "chrono", "ctime", "thread", "mutex", "shared_mutex", "condition_variable", "future", "semaphore", "latch",
    "barrier", "fstream", "iostream", "filesystem", "cstdio", "random",
}  # fmt: skip

# Public headers that stand for one of these.
IMPURE_PUBLIC = {"crossdock/core/chrono.h"}

CXX_STANDARD = set(
    """algorithm any array atomic barrier bit bitset charconv chrono codecvt compare complex concepts
    condition_variable coroutine deque exception execution filesystem format forward_list fstream functional future
    initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map memory
    memory_resource mutex new numbers numeric optional ostream queue random ranges ratio regex scoped_allocator
    semaphore set shared_mutex source_location span sstream stack stdexcept stop_token streambuf string string_view
    syncstream system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility
    valarray variant vector version cassert cctype cerrno cfenv cfloat cinttypes climits clocale cmath csetjmp
    csignal cstdarg cstddef cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype""".split()
)
# C's own, for headers that C programs read too.
C_STANDARD = {"stddef.h", "stdint.h", "stdbool.h", "string.h", "errno.h", "limits.h", "inttypes.h", "stdlib.h"}
SYSTEM = {"dlfcn.h", "endian.h", "fcntl.h", "poll.h", "pthread.h", "sched.h", "semaphore.h", "signal.h", "time.h",
          "unistd.h", "immintrin.h", "x86intrin.h", "arm_acle.h", "emmintrin.h", "ftw.h", "dirent.h", "pwd.h",
          "cxxabi.h", "unwind.h", "netdb.h", "ifaddrs.h"}  # fmt: skip
SYSTEM_FOLDERS = ("sys/", "linux/", "netinet/", "arpa/", "net/")

INCLUDE = re.compile(r'^\s*#\s*include(?:_next)?\b\s*(?:"(?P<quoted>[^"]*)"|<(?P<angled>[^>]*)>|(?P<other>.*))')
SUFFIXES = {".h", ".hh", ".hpp", ".inc", ".c", ".cc", ".cpp", ".cu", ".in"}


def reachable(layer: str) -> set[str]:
    """The layer itself, what it may include, and what that may include."""
    seen = {layer}
    todo = [layer]
    while todo:
        for lower in LAYERS[todo.pop()]:
            if lower not in seen:
                seen.add(lower)
                todo.append(lower)
    return seen


@dataclass(frozen=True)
class Place:
    """The layer, side and part of a file."""

    side: str  # "include", "src" or "python"
    layer: str | None  # None: python/, or a header above all layers (include/crossdock/crossdock.hpp)
    part: str | None

    @property
    def name(self) -> str:
        if self.layer is None:
            return "python/" if self.side == "python" else "include/crossdock"
        return f"{self.layer}/{self.part}" if self.part else self.layer


def part_of(layer: str | None, below: tuple[str, ...]) -> str | None:
    """The part that a path below its layer's folder belongs to: its first folder, or its file's name (shm.h)."""
    parts = PARTS.get(layer or "", set())
    if not below:
        return None
    first = below[0] if len(below) > 1 else PurePosixPath(below[0]).stem
    return first if first in parts else None


def public(header: str) -> Place:
    """The place of the public header "crossdock/<layer>/..."; "crossdock/version.h" is core's."""
    below = PurePosixPath(header).parts[1:]
    if len(below) > 1:
        return Place("include", below[0], part_of(below[0], below[1:]))
    return Place("include", "core" if below == ("version.h",) else None, None)


def place(path: PurePosixPath) -> Place:
    if path.parts[0] == "python":
        return Place("python", None, None)
    if path.parts[0] == "include":
        return public("/".join(path.parts[1:]))
    below = path.parts[1:]
    return Place("src", below[0] if len(below) > 1 else None, part_of(below[0], below[1:]))


class Checker:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.checked = 0

    def sources(self) -> Iterator[PurePosixPath]:
        for side in ("include", "src", "python"):
            for path in sorted((self.root / side).rglob("*")):
                if path.is_file() and path.suffix in SUFFIXES:
                    yield PurePosixPath(path.relative_to(self.root).as_posix())

    def run(self) -> Iterator[str]:
        for path in self.sources():
            self.checked += 1
            here = place(path)
            if here.side == "src" and here.layer not in LAYERS:
                yield f"{path}:1: {'/'.join(path.parts[:2])} is no layer; the layers are: {' '.join(LAYERS)}"
                continue
            if here.side == "include" and (path.parts[1] != "crossdock" or here.layer not in {None, *LAYERS}):
                yield f"{path}:1: public headers stand in include/crossdock/<layer>; the layers are: {' '.join(LAYERS)}"
                continue
            text = (self.root / path).read_text(errors="replace")
            for number, line in enumerate(without_comments(text).splitlines(), start=1):
                match = INCLUDE.match(line)
                fault = match and self.fault(path, here, match)
                if fault:
                    yield f"{path}:{number}: {fault}"

    def fault(self, path: PurePosixPath, here: Place, match: re.Match[str]) -> str | None:
        header = match["quoted"] or match["angled"]
        if not header:
            return f"#include {(match['other'] or '').strip()} can't be checked: name the header"
        for library, places in LIBRARIES.items():
            if header.startswith(library):
                seen = any(path.is_relative_to(one) for one in places)
                return None if seen else f"{header} is seen in {' and '.join(places)} only"
        if header.endswith("_generated.h"):
            return None if here == Place("src", "ipc", None) else f"{header} is made by flatc: seen in src/ipc only"
        if header.startswith("crossdock/"):
            return self.public_fault(here, header)
        if match["angled"]:
            return self.system_fault(here, header)
        return self.private_fault(path, here, header)

    def public_fault(self, here: Place, header: str) -> str | None:
        there = public(header)
        if here.layer is None:
            return None  # Python and the header above all layers see every public header.
        if there.layer is None:
            return f"{here.name} may not include {header}, which stands above all layers"
        if there.layer not in LAYERS:
            return f"{header} is of no layer; the layers are: {' '.join(LAYERS)}"
        if here.layer in PURE and header in IMPURE_PUBLIC:
            return f"{here.layer} is pure (no clocks, threads, files or output), so it may not include {header}"
        return self.layer_fault(here, there, header)

    def layer_fault(self, here: Place, there: Place, header: str) -> str | None:
        layer = here.layer or ""
        allowed = reachable(layer)
        if there.layer not in allowed:
            others = ", ".join(sorted(allowed - {layer})) or "the standard library only"
            return f"{layer} may not include {there.layer} ({header}); it may include: {others}"
        if there.part is None or there.part == here.part:
            return None
        if there.layer == layer and here.part is not None:
            return f"{here.name} may not include {there.name} ({header}): the parts of {layer} don't know each other"
        if there.layer != layer and layer not in BINDS_PARTS:
            return f"{layer} may not include {there.name} ({header}): it sees {there.layer} through its interface"
        return None

    def system_fault(self, here: Place, header: str) -> str | None:
        if header in CXX_STANDARD or header in C_STANDARD:
            if here.layer in PURE and header in IMPURE_STANDARD:
                return f"{here.layer} is pure (no clocks, threads, files or output), so it may not include <{header}>"
            return None
        if header not in SYSTEM and not header.startswith(SYSTEM_FOLDERS):
            return f"<{header}> is no header of the language or the system; another project's is entered in LIBRARIES"
        if here.side == "include":
            return f"public headers include the standard library and our own, not the system's <{header}>"
        if here.layer in PURE:
            return f"{here.layer} is pure, so it may not include the system's <{header}>"
        return None

    def private_fault(self, path: PurePosixPath, here: Place, header: str) -> str | None:
        """Quoted, and not "crossdock/...": beside the file, or from src/ (in python/: python/src/) on."""
        if here.side == "include":
            return f'a public header names headers as "crossdock/<layer>/...", and no private one: {header}'
        bases = ["python/src", "src"] if here.side == "python" else ["src"]
        for folder in (path.parent, *map(PurePosixPath, bases)):
            target = normal(folder / header)
            if target is None or not (self.root / target).is_file():
                continue
            return None if target.parts[0] == "python" else self.inner_fault(here, target)
        return f"{header} is neither beside the file nor under {' or '.join(f'{folder}/' for folder in bases)}"

    def inner_fault(self, here: Place, target: PurePosixPath) -> str | None:
        """`target` has no public header's name."""
        if target.parts[0] != "src":
            return f'{target} is named as "crossdock/<layer>/..." or not at all'
        there = place(target)
        if there.layer != here.layer and len(target.parts) > len(("src", "layer", "header.h")):
            return f"{here.name} may not include {target}, which is private to {there.layer}"
        return None if here.layer is None else self.layer_fault(here, there, target.relative_to("src").as_posix())


def normal(path: PurePosixPath) -> PurePosixPath | None:
    """`path` without its "..", or None where it leaves the tree."""
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        else:
            parts.append(part)
    return PurePosixPath(*parts)


def without_comments(text: str) -> str:
    """Block comments blanked, their line ends kept: an #include in one is no include. A comment's opening in a string
    or in a line comment opens none."""
    tokens = r"""//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|/\*.*?\*/"""
    blank = lambda token: "\n" * token[0].count("\n") if token[0].startswith("/*") else token[0]  # noqa: E731
    return re.sub(tokens, blank, text, flags=re.DOTALL)


if __name__ == "__main__":
    sys.exit(main(__doc__, Checker, "includes that are not allowed"))
