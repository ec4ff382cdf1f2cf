"""tools/check_names.py: finds words that have a better one, and no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHECK = ROOT / "tools" / "check_names.py"

FOUND = [
    "A Guest comes.",
    "  parked_.sweep();",
    "const ContextPtr& mover)",
    "settle();",
    "void settle_memory(array::Tensor* tensor);",
    "transport::Carries carries",
    "class Rest {",
    "It goes by the letter of the text.",
    "the floor below",
    "Clients are turned away.",
    "memory is given back",
    "void come_home(int lease);",
    "f'{told(shape)}'",
    '#include "doubles/cuda/cuda_double.h"',
]
NOT_FOUND = [
    "std::unordered_map<int, int>",
    "std::chrono::floor<std::chrono::days>(time)",
    "a letter first",
    "the rest of it",
    "they were told",
    "class Restart {",
    "adopt(fd)",
]


def check(tree: Path) -> tuple[int, list[str]]:
    done = subprocess.run([sys.executable, CHECK, "--root", tree], capture_output=True, text=True, check=False)
    *found, summary = done.stdout.splitlines()
    assert summary.endswith(f" files, {len(found)} faults")
    return done.returncode, found


def test_words_that_have_a_better_one_are_found_and_no_others(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "right.cc").write_text("\n".join(NOT_FOUND))
    (tmp_path / "picture").write_bytes(b"\xff\xfe judge")
    assert check(tmp_path) == (0, [])
    (tmp_path / "wrong.cc").write_text("\n".join(FOUND))
    status, found = check(tmp_path)
    assert status == 1
    assert all("docs/reference/glossary.md" in line for line in found)
    assert {line.split(": ")[0] for line in found} == {f"wrong.cc:{i}" for i in range(1, len(FOUND) + 1)}


def test_names_of_files_count(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "judge.py").write_text("")
    assert check(tmp_path) == (1, ['judge.py:1: "judge": say check, checker (docs/reference/glossary.md)'])
