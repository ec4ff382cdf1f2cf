"""The oldest versions of the engines that are supported run a part of the tests that the newest ones run."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("CROSSDOCK_BUILD_DIR", ROOT / "build" / "dev"))
OLDEST = BUILD.parent / "oldest-engines"


def test_they_are_the_lower_bounds():
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    bounds = [requirement.split(">=") for requirement in groups["engines"]]
    lowest = {name.split("[")[0]: bound for name, bound in bounds}
    oldest = dict(requirement.split("==") for requirement in groups["oldest-engines"])
    assert oldest == {name: f"{lowest[name]}.*" for name in ("distributed", "dask", "ray")}


@pytest.mark.parametrize(
    ("engine", "tests"),
    [
        ("distributed", ["test_dask_arrow.py"]),
        ("distributed", ["test_dask_comm.py", "-k", "frames or changed or tables or many_comms or encryption"]),
        ("distributed", ["test_dask.py::test_a_killed_worker_loses_nothing_that_another_has"]),
        ("ray", ["test_ray.py::test_tables_arrays_and_frames_arrive_as_they_were"]),
    ],
)
def test_the_oldest(engine, tests):
    if not (OLDEST / engine).is_dir():
        pytest.skip("`./dev test all` installs the oldest engines")
    environment = {**os.environ, "PYTHONPATH": str(OLDEST)}
    version = f"import {engine} as one; print(one.__version__)"
    said = subprocess.run([sys.executable, "-c", version], env=environment, capture_output=True, text=True, check=True)
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    assert any(f"{engine}=={said.stdout.rsplit('.', 1)[0]}.*" == one for one in groups["oldest-engines"]), said.stdout
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        env=environment, capture_output=True, text=True, check=False, timeout=240, cwd=Path(__file__).parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:]
    assert "skipped" not in done.stdout.splitlines()[-1], done.stdout
