"""How much a file that includes the main header gives the compiler to read. The time that takes is measured by
`./dev bench columns`; what is read doesn't depend on the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("CROSSDOCK_BUILD_DIR", ROOT / "build" / "dev"))

# With g++ 12, whose standard library most of it is. 1.84 MB took 0.7 to 0.9 s of processor time; before
# decision 52 it was 1.27 s.
MOST_BYTES = 1_950_000


def read_by_compiler(source: str) -> int:
    """Bytes after the preprocessor."""
    includes = [f"-I{ROOT / 'include'}", f"-I{BUILD / 'include'}"]
    command = ["g++", "-std=c++20", *includes, "-x", "c++", "-E", "-"]
    return len(subprocess.run(command, input=source.encode(), capture_output=True, check=True).stdout)


@pytest.mark.skipif(
    shutil.which("g++") is None
    or subprocess.run(["g++", "-dumpversion"], capture_output=True, text=True, check=True).stdout.strip() != "12",
    reason="the limit is for g++ 12",
)
def test_the_main_header_brings_little():
    assert read_by_compiler("#include <crossdock/crossdock.hpp>\n") < MOST_BYTES
    # What the headers don't include is what makes the difference.
    assert read_by_compiler("#include <crossdock/crossdock.hpp>\n#include <chrono>\n#include <functional>\n") > (
        MOST_BYTES
    )
