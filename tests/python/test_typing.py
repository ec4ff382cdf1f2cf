"""The types that users see: mypy --strict over the package and over code that uses it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import crossdock as xd

pytestmark = pytest.mark.long

pytest.importorskip("mypy")

USER = """
import os
from collections.abc import Callable
import numpy as np
from numpy.typing import NDArray
import crossdock as xd

class Producer:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

def use(path: os.PathLike[str], make: Callable[[], Producer]) -> int:
    arena = xd.Arena(1 << 20)
    array: NDArray[np.float64] = arena.empty((3, 4))
    buffer = memoryview(arena.buffer(10))
    with xd.serve({"a": Producer(), "b": path, "c": "x.arrow", "d": make}, wait="block", users="any") as server:
        server.publish("e", Producer(), mode="live")
        uri: str = server.uri
        xd.serve(window=8, lease_limit=1 << 20, lease_patience=None).close()
        with xd.connect(uri, timeout=None) as client:
            for entry in client.list():
                rows: int | None = entry.rows
            try:
                client.tensor("w", out=np.zeros(3)).tolist(), client.tensors("m")["a"]["b"]
                server.publish(b"\\x00", {"w": np.zeros(3)})
                with client.get("a", columns=["x"], timeout=3) as reader:
                    names: list[str] = reader.schema.names
                    return sum(batch.num_rows for batch in reader) + array.size + len(buffer)
            except xd.TruncatedStreamError as error:
                raise xd.Error(str(error)) from error

async def talk(uri: str) -> bytes:
    async with await xd.peers.connect(uri, timeout=None) as peer:
        await peer.send([b"x", np.zeros(3)], meta=b"meta")
        message = await peer.recv(writable="copy-on-write")
        return message.meta + bytes(message.frames[0])
"""

WRONG = """
import crossdock as xd
xd.serve({"a": 3})                      # no source
xd.connect("shm:", timeout="soon")      # no number
xd.connect("shm:").get("a", wait="no")  # no wait mode
"""


def mypy(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_code_that_uses_the_package_is_checked(tmp_path: Path) -> None:
    package = Path(xd.__file__).parent
    assert (package / "py.typed").exists()
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(USER)
    wrong.write_text(WRONG)
    done = mypy(str(right))
    assert done.returncode == 0, done.stdout + done.stderr
    done = mypy(str(wrong))
    assert [line.split(":")[1] for line in done.stdout.splitlines() if ": error:" in line] == ["3", "4", "5"], (
        done.stdout
    )


# What is nanobind's own: its metaclass and function type, its __init__ that refuses, a buffer below Python 3.12.
NANOBINDS = r"""
crossdock\._native\.\w+
crossdock\._native\.\w+\.__init__
crossdock\._native\.\w+\.__buffer__
crossdock\._native\.Queue\.new
"""


def test_the_stub_says_what_the_native_module_has(tmp_path: Path) -> None:
    """mypy's stubtest compares names and signatures."""
    allowed = tmp_path / "allowed"
    allowed.write_text(NANOBINDS)
    command = [sys.executable, "-m", "mypy.stubtest", "crossdock._native", "--allowlist", str(allowed)]
    settings = Path(__file__).resolve().parents[2] / "pyproject.toml"  # which libraries have no types
    done = subprocess.run(
        [
            *command,
            "--mypy-config-file",
            str(settings),
            "--ignore-positional-only",
            "--ignore-disjoint-bases",
            "--ignore-unused-allowlist",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
