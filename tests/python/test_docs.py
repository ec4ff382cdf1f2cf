"""The README's examples run. What can be seen of all pages without running anything, tools/check_docs.py sees."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import crossdock as xd

ROOT = Path(__file__).parents[2]


def blocks(language: str, page: str = "README.md") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)


def test_the_readmes_arrays():
    exec(blocks("python")[0], {})


def test_the_page_on_arrays():
    import numpy as np

    hand_over, _, simulated = blocks("python", "docs/arrays.md")
    exec(hand_over, {})
    exec(simulated, {"xd": xd, "array": np.zeros(3)})


def test_the_readmes_python(tmp_path):
    table = pa.table({"origin": ["JFK", "LGA"]})
    with pa.ipc.new_file(tmp_path / "flights.arrow", table.schema) as writer:
        writer.write(table)
    _, serve, get = blocks("python")
    serving = subprocess.Popen(
        [sys.executable, "-u", "-c", serve], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    try:
        assert serving.stdout is not None
        uri = serving.stdout.readline().strip()
        got = subprocess.run(
            [sys.executable, "-c", get, uri], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        assert "celsius: double" in got
        assert "11.5" in got
    finally:
        serving.communicate("\n", timeout=60)
    assert serving.returncode == 0


def test_the_readmes_cpp_compiles(tmp_path):
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    generated = Path(os.environ.get("CROSSDOCK_BUILD_DIR", ROOT / "build" / "dev")) / "include"
    if compiler is None or not generated.exists():
        pytest.skip("needs a C++ compiler and the headers that the build makes")
    (source,) = blocks("cpp")
    (tmp_path / "readme.cc").write_text(source)
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{ROOT / 'include'}", f"-I{generated}"]
    subprocess.run([compiler, *flags, str(tmp_path / "readme.cc")], check=True, timeout=120)
