"""tools/check_abi.py: libcrossdock_c has the ABI that is described, and changes of it are found."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("CROSSDOCK_BUILD_DIR", ROOT / "build" / "dev"))
LIBRARY = BUILD / "src" / "c_api" / "libcrossdock_c.so"
STORED = ROOT / "tests" / "abi" / "crossdock_c.abi"

pytestmark = [
    pytest.mark.skipif(shutil.which("abidiff") is None, reason="needs abidiff (Debian's abigail-tools)"),
    pytest.mark.skipif(not LIBRARY.exists(), reason="needs the library that the build makes"),
]


def check(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "tools" / "check_abi.py", *arguments, LIBRARY]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=120)


def changed(folder: Path, old: str, new: str) -> Path:
    """Another description than the stored one, whose functions or types differ."""
    text, count = re.subn(old, new, STORED.read_text(), count=1, flags=re.DOTALL)
    assert count == 1
    path = folder / "changed.abi"
    path.write_text(text)
    return path


def test_the_library_has_the_abi_that_is_described() -> None:
    done = check()
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_the_handles_are_made_of_is_not_described() -> None:
    assert "std::" not in STORED.read_text()
    assert "interrupted" not in STORED.read_text()


def test_an_added_function_is_found(tmp_path: Path) -> None:
    line = r"[^\n]*<elf-symbol name='crossdock_server_withdraw'[^\n]*\n"
    done = check("--stored", changed(tmp_path, line, ""))
    assert done.returncode == 1
    assert "crossdock_server_withdraw" in done.stdout
    assert "./dev abi --update" in done.stdout


def test_a_removed_function_breaks_programs(tmp_path: Path) -> None:
    line = r"([^\n]*<elf-symbol name='crossdock_)server_withdraw('[^\n]*\n)"
    done = check("--stored", changed(tmp_path, line, r"\1server_withdraw\2\1server_forget\2"))
    assert done.returncode == 1
    assert "crossdock_server_forget" in done.stdout
    assert "soname" in done.stdout


def test_a_member_of_another_type_is_found(tmp_path: Path) -> None:
    member = r"(<data-member access='public' layout-offset-in-bits=')64('>\s*<var-decl name='times')"
    done = check("--stored", changed(tmp_path, member, r"\g<1>128\2"))
    assert done.returncode == 1
    assert "times" in done.stdout


def test_an_update_is_written(tmp_path: Path) -> None:
    line = r"[^\n]*<elf-symbol name='crossdock_server_withdraw'[^\n]*\n"
    stored = changed(tmp_path, line, "")
    done = check("--update", "--stored", stored)
    assert done.returncode == 0
    assert "written" in done.stdout
    assert check("--stored", stored).returncode == 0


def test_a_library_without_debug_information_is_refused(tmp_path: Path) -> None:
    strip = shutil.which("strip")
    if strip is None:
        pytest.skip("needs strip")
    stripped = tmp_path / "libcrossdock_c.so"
    subprocess.run([strip, "--strip-debug", "-o", stripped, LIBRARY.resolve()], check=True)
    command = [sys.executable, ROOT / "tools" / "check_abi.py", stripped]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode != 0
    assert "no description" in done.stderr
