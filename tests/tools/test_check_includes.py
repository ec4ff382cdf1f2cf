"""The include check fails where it should: one small tree per kind of violation."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECK = ROOT / "tools" / "check_includes.py"


def check(root: Path) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, CHECK, "--root", root], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_this_tree_keeps_its_layers() -> None:
    status, lines = check(ROOT)
    assert (status, lines[:-1]) == (0, [])
    assert int(lines[-1].split()[0]) > 50


# name of the case: (file, its text, the line of the fault, words of the message)
FAULTS = {
    "core sees nothing above it": (
        "src/core/error.cc",
        '#include <string>\n#include "crossdock/device/region.h"\n',
        2,
        "core may not include device",
    ),
    "device doesn't see array": (
        "include/crossdock/device/region.h",
        '#include "crossdock/array/schema.h"\n',
        1,
        "device may not include array",
    ),
    "array doesn't see ipc": (
        "src/array/type.cc",
        '#include "crossdock/ipc/metadata.h"\n',
        1,
        "array may not include ipc",
    ),
    "dissociated knows no network": (
        "src/dissociated/sender.cc",
        '#include "crossdock/transport/transport.h"\n',
        1,
        "dissociated may not include transport",
    ),
    "the network knows no protocol": (
        "src/transport/shm/channel.cc",
        '#include "crossdock/dissociated/wire.h"\n',
        1,
        "transport may not include dissociated",
    ),
    "transport doesn't see array": (
        "src/transport/wait.cc",
        '#include "crossdock/array/schema.h"\n',
        1,
        "transport may not include array",
    ),
    "transports don't know each other, private headers": (
        "src/transport/shm/channel.cc",
        '#include "transport/memory/link.h"\n',
        1,
        "transport/shm may not include transport/memory",
    ),
    "transports don't know each other, beside": (
        "src/transport/memory/link.h",
        '#include "../shm/ring.h"\n',
        1,
        "transport/memory may not include transport/shm",
    ),
    "transports don't know each other, public headers": (
        "include/crossdock/transport/memory.h",
        '#include "crossdock/transport/shm.h"\n',
        1,
        "transport/memory may not include transport/shm",
    ),
    "drivers don't know each other": (
        "src/device/sim/driver.cc",
        '#include "crossdock/device/cuda/driver.h"\n',
        1,
        "device/sim may not include device/cuda",
    ),
    "array sees no driver": (
        "src/array/record_batch.cc",
        '#include "crossdock/device/host/driver.h"\n',
        1,
        "it sees device through its interface",
    ),
    "a header for other layers, seen from below": (
        "src/core/error.cc",
        '#include "device/memfd.h"\n',
        1,
        "core may not include device (device/memfd.h)",
    ),
    "another layer's private header": (
        "src/session/server.cc",
        '#include "device/internal/number.h"\n',
        1,
        "session may not include src/device/internal/number.h, which is private to device",
    ),
    "another layer's private header, through ..": (
        "src/session/server.cc",
        '#include "../device/internal/number.h"\n',
        1,
        "private to device",
    ),
    "a header for other layers that names a transport": (
        "src/dissociated/uri.cc",
        '#include "transport/shm.h"\n',
        1,
        "dissociated may not include transport",
    ),
    "a public header seen by its file's path": (
        "src/session/server.cc",
        '#include "../../include/crossdock/core/error.h"\n',
        1,
        'is named as "crossdock/<layer>/..."',
    ),
    "FlatBuffers outside ipc": (
        "src/session/server.cc",
        "#include <flatbuffers/flatbuffers.h>\n",
        1,
        "seen in src/ipc only",
    ),
    "FlatBuffers in a public header of ipc": (
        "include/crossdock/ipc/metadata.h",
        "#include <flatbuffers/flatbuffers.h>\n",
        1,
        "seen in src/ipc only",
    ),
    "generated accessors outside ipc": (
        "src/dissociated/sender.cc",
        '#include "Message_generated.h"\n',
        1,
        "seen in src/ipc only",
    ),
    "a vendor's header in a public one": (
        "include/crossdock/device/region.h",
        "#include <cuda.h>\n",
        1,
        "<cuda.h> is no header of the language or the system",
    ),
    "a vendor's header in a source": ("src/device/region.cc", "#include <cuda.h>\n", 1, "<cuda.h>"),
    "a library of a transport elsewhere": (
        "src/transport/tcp/frames.cc",
        "#include <ucp/api/ucp.h>\n",
        1,
        "seen in src/transport/ucx only",
    ),
    "a system header in a public one": (
        "include/crossdock/device/region.h",
        "#include <sys/mman.h>\n",
        1,
        "not the system's <sys/mman.h>",
    ),
    "a private header in a public one": (
        "include/crossdock/device/region.h",
        '#include "memfd.h"\n',
        1,
        "and no private one",
    ),
    "nanobind outside python/": ("src/session/server.cc", "#include <nanobind/nanobind.h>\n", 1, "seen in python only"),
    "python/ sees no private header": (
        "python/src/module.cc",
        '#include "device/internal/number.h"\n',
        1,
        "python/ may not include src/device/internal/number.h, which is private to device",
    ),
    "the protocol has no sockets": ("src/dissociated/wire.cc", "#include <sys/socket.h>\n", 1, "is pure"),
    "the protocol has no clock": ("include/crossdock/dissociated/wire.h", "#include <chrono>\n", 1, "is pure"),
    "the protocol has no clock, by our own header": (
        "src/dissociated/wire.cc",
        '#include "crossdock/core/chrono.h"\n',
        1,
        "is pure",
    ),
    "parts of libstdc++ are seen by our headers for them": (
        "include/crossdock/array/column.h",
        "#include <bits/chrono.h>\n",
        1,
        "bits/chrono.h is seen in include/crossdock/core/chrono.h and include/crossdock/core/function.h only",
    ),
    "parts of libstdc++ in another header of core": (
        "include/crossdock/core/time_limit.h",
        "#include <bits/chrono.h>\n",
        1,
        "bits/chrono.h is seen in include/crossdock/core/chrono.h and include/crossdock/core/function.h only",
    ),
    "parts of libstdc++ in a file of a similar name": (
        "include/crossdock/core/chrono.hpp",
        "#include <bits/chrono.h>\n",
        1,
        "bits/chrono.h is seen in",
    ),
    "a header above all layers": ("src/core/error.cc", '#include "crossdock/crossdock.hpp"\n', 1, "above all layers"),
    "a layer that isn't there": ("src/session/server.cc", '#include "crossdock/magic/wand.h"\n', 1, "of no layer"),
    "a source of no layer": ("src/magic/wand.cc", "#include <string>\n", 1, "src/magic is no layer"),
    "a header of no layer": ("include/crossdock/magic/wand.h", "", 1, "include/crossdock/<layer>"),
    "a header beside crossdock/": ("include/other/wand.h", "", 1, "include/crossdock/<layer>"),
    "a header that isn't there": (
        "src/core/error.cc",
        '#include "absent.h"\n',
        1,
        "neither beside the file nor under src/",
    ),
    "a computed include": ("src/core/error.cc", "#define H <string>\n#include H\n", 2, "can't be checked"),
    "odd spacing": ("src/core/error.cc", '  #  include  "crossdock/ipc/metadata.h"\n', 1, "core may not include ipc"),
    "after a block comment": (
        "src/core/error.cc",
        '/* one\n   two */\n#include "crossdock/ipc/metadata.h"\n',
        3,
        "core may not include ipc",
    ),
    "after a string that looks like a comment's opening": (
        "src/core/error.cc",
        'auto a = "/*";\n#include "crossdock/ipc/metadata.h"\nauto b = "*/";\n',
        2,
        "core may not include ipc",
    ),
}

# Private headers that the cases above reach for.
OTHERS = {
    "src/device/memfd.h": "",
    "src/device/internal/number.h": "",
    "src/transport/shm.h": "",
    "src/transport/memory/link.h": "",
    "src/transport/shm/ring.h": "",
    "include/crossdock/core/error.h": "",
}


@pytest.mark.parametrize("case", FAULTS)
def test_fault_is_found(tmp_path: Path, case: str) -> None:
    file, text, line, words = FAULTS[case]
    write(tmp_path, {**OTHERS, file: text})
    status, lines = check(tmp_path)
    assert status == 1
    assert len(lines) == 2, lines
    assert lines[0].startswith(f"{file}:{line}: ")
    assert words in lines[0]
    assert lines[1].endswith(" 1 includes that are not allowed")


def test_what_is_allowed_passes(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            **OTHERS,
            "include/crossdock/crossdock.hpp": '#include "crossdock/session/server.h"\n',
            "include/crossdock/array/c_abi.h": "#include <stdint.h>\n",
            "include/crossdock/core/chrono.h": "#include <bits/chrono.h>\n",
            "include/crossdock/core/function.h": "#include <bits/std_function.h>\n",
            "src/core/version.cc": '#include "crossdock/version.h"\n',
            "src/device/region.cc": '#include <sys/mman.h>\n#include "memfd.h"\n#include "device/memfd.h"\n',
            "src/ipc/encode.cc": '#include <flatbuffers/flatbuffers.h>\n#include "Message_generated.h"\n'
            '#include "crossdock/device/region.h"\n#include "crossdock/core/error.h"\n',
            "src/transport/shm/channel.cc": '#include "ring.h"\n#include "crossdock/transport/transport.h"\n',
            "src/session/server.cc": '#include "crossdock/transport/shm.h"\n#include "transport/shm.h"\n'
            '#include "device/memfd.h"\n',
            "python/src/module.cc": '#include <nanobind/nanobind.h>\n#include "crossdock/session/server.h"\n'
            '#include "holder.h"\n#include "device/memfd.h"\n',
            "python/src/holder.h": "",
            "src/core/comment.cc": '/*\n#include "crossdock/session/server.h"\n*/\n// #include "crossdock/x/y.h"\n',
        },
    )
    assert check(tmp_path) == (0, ["18 files, 0 includes that are not allowed"])


def test_every_fault_is_reported_at_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "src/core/a.cc": '#include "crossdock/ipc/x.h"\n#include "crossdock/array/y.h"\n',
            "src/core/b.cc": "#include <cuda.h>\n",
        },
    )
    status, lines = check(tmp_path)
    assert status == 1
    assert [line.split(": ")[0] for line in lines[:-1]] == ["src/core/a.cc:1", "src/core/a.cc:2", "src/core/b.cc:1"]


def test_an_empty_tree_is_no_success(tmp_path: Path) -> None:
    status, lines = check(tmp_path)
    assert status == 1
    assert "nothing was checked" in lines[0]
