"""The CUDA Array Interface, DLPack and Arrow's events, on the fake of CUDA's library.

A process opens its drivers once, so these tests run in one of their own, which finds the fake in CUDA's place.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.gpus import has_gpu

ROOT = Path(__file__).parents[2]
FAKE = Path(os.environ.get("CROSSDOCK_BUILD_DIR", ROOT / "build" / "dev")) / "tests/fakes/cuda/libcuda_fake.so"
FILES = sorted((ROOT / "tests" / "cuda_fake_cases").glob("*.py"))
ON_A_GPU = [path for path in FILES if path.stem not in ("contexts", "faults")]  # which need the fake throughout


def marked(path: Path) -> Any:
    long = path.stem in ("contexts", "faults", "pending_work")
    return pytest.param(path, id=path.stem, marks=[pytest.mark.long] if long else [])


@pytest.mark.parametrize("tests", map(marked, FILES))
def test_on_the_fake(tests: Path) -> None:
    assert FAKE.exists(), f"{FAKE} is built with the C++ tests: ./dev build"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [*command, str(tests)],
        env={**os.environ, "CROSSDOCK_CUDA_LIBRARY": str(FAKE)},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_cudas_library(script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    missing = tmp_path / "libcuda-of-nobody.so"
    monkeypatch.setenv("CROSSDOCK_CUDA_LIBRARY", str(missing))
    out = script(
        """
        import pyarrow as pa
        import crossdock as xd

        class Array:
            __cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (1 << 40, False), "version": 3}

        for use in (
            lambda: xd.empty(3, device="cuda:0"),
            lambda: xd.asarray(b"abcd").to("cuda:0"),
            lambda: xd.asarray(b"abcd", "cuda_host:0"),
            lambda: xd.RecordBatch(pa.record_batch({"x": [1]})).to("cuda:0"),
            lambda: xd.asarray(Array()).to("cpu"),
        ):
            try:
                use()
            except xd.UnsupportedError as error:
                print(isinstance(error, NotImplementedError), error)
            else:
                print("no error")
        # Who looks for a device finds none, and is told why.
        try:
            xd.Queue("cuda:0")
        except xd.NotFoundError as error:
            print(isinstance(error, LookupError), error)
        # What is on the host goes on without it.
        print(bytes(xd.asarray(b"abcd")))
        """
    ).finish()
    *told, last = out.splitlines()
    assert last == "b'abcd'"
    assert len(told) == 6
    for line in told:
        assert line.startswith("True "), out
        assert str(missing) in line, out


@pytest.mark.skipif(not has_gpu(), reason="needs a GPU of NVIDIA's")
@pytest.mark.parametrize("tests", ON_A_GPU, ids=lambda path: path.stem)
def test_on_a_gpu(tests: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    environment = {name: value for name, value in os.environ.items() if name != "CROSSDOCK_CUDA_LIBRARY"}
    done = subprocess.run([*command, str(tests)], env=environment, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
