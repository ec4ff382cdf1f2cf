"""The look-out for leftovers of tests/conftest.py: it finds what a test left, and only that."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import devshm

ROOT = Path(__file__).resolve().parents[2]

# Makes and removes files under /dev/shm until it is ended; every other one it keeps for a while, open or not.
OTHER_PROGRAM = """
import itertools, os
for number in itertools.count():
    path = f"/dev/shm/other-program-{number}"
    with open(path, "w"):
        if number == 0:
            print("at work", flush=True)
    if number >= 50:
        os.unlink(f"/dev/shm/other-program-{number - 50}")
"""

LEAVES_A_FILE = """
def test_it(tmp_path):
    open("/dev/shm/left-by-a-test", "w").close()
"""

HOLDS_A_FILE = """
KEPT = []
def test_it(tmp_path):
    KEPT.append(open("/dev/shm/held-by-a-test", "w"))
"""

LEAVES_NOTHING = """
import time
def test_it(tmp_path):
    time.sleep(0.2)  # the other program makes some files
"""


@pytest.fixture
def other_program() -> Iterator[None]:
    """A program that uses /dev/shm, for the tests that pytest runs below: they have a namespace of their own."""
    started = subprocess.Popen([sys.executable, "-c", OTHER_PROGRAM], stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    assert started.stdout.readline() == "at work\n"
    yield
    started.kill()
    started.communicate()
    for path in devshm.FOLDER.glob("other-program-*"):
        path.unlink()


def run_test(code: str, *, private: bool) -> subprocess.CompletedProcess[str]:
    """Has pytest run this test with the tree's conftest. Not `private`: as where no namespace may be made."""
    with tempfile.TemporaryDirectory(prefix="test-of-tests-", dir=ROOT / "tests" / "python") as folder:
        (Path(folder) / "test_it.py").write_text(code)
        program = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
        program = f"from tests import leftovers; leftovers.PATIENCE_SECONDS = 0.5; {program}"
        if not private:
            program = f"from tests import devshm; devshm.make_private = lambda: False; {program}"
        return subprocess.run(
            [sys.executable, "-c", program, "-q", "-p", "no:cacheprovider", folder],
            cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("private", [True, False])
def test_other_programs_files_are_no_leftovers(other_program: None, private: bool) -> None:
    done = run_test(LEAVES_NOTHING, private=private)
    assert done.returncode == 0, done.stdout


@pytest.mark.long
@pytest.mark.parametrize("private", [True, False])
def test_a_file_that_a_test_holds_is_found(other_program: None, private: bool) -> None:
    done = run_test(HOLDS_A_FILE, private=private)
    (devshm.FOLDER / "held-by-a-test").unlink(missing_ok=True)
    assert done.returncode == 1
    assert "/dev/shm/held-by-a-test" in done.stdout


@pytest.mark.long
def test_a_file_that_nobody_holds_is_found_too_where_dev_shm_is_ours(other_program: None) -> None:
    done = run_test(LEAVES_A_FILE, private=True)
    if (devshm.FOLDER / "left-by-a-test").exists():
        (devshm.FOLDER / "left-by-a-test").unlink()
        pytest.skip("this system lets nobody make a mount namespace here")
    assert done.returncode == 1
    assert "/dev/shm/left-by-a-test" in done.stdout
