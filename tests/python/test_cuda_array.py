"""The CUDA Array Interface, on the double of CUDA's library.

A process opens its drivers once, so these tests run in one of their own, which finds the double in CUDA's place.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOUBLE = Path(os.environ.get("CROSSDOCK_BUILD_DIR", ROOT / "build" / "dev")) / "tests/doubles/cuda/libcuda_double.so"


def test_on_the_double() -> None:
    assert DOUBLE.exists(), f"{DOUBLE} is built with the C++ tests: ./dev build"
    tests = ROOT / "tests" / "on_double" / "cuda_array.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [*command, str(tests)],
        env={**os.environ, "CROSSDOCK_CUDA_LIBRARY": str(DOUBLE)},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
