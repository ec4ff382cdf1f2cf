"""tools/check_names.py: finds words that have a better one, and no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import check_names  # noqa: E402


@pytest.mark.parametrize(
    "line",
    [
        "A Guest comes.",
        "  parked_.sweep();",
        "const ContextPtr& mover)",
        "settle();",
        "void settle_memory(array::Tensor* tensor);",
        "transport::Carries carries",
        "class Rest {",
        "It goes by the letter of the text.",
        "Clients are turned away.",
        "memory is given back",
        "f'{told(shape)}'",
        '#include "doubles/cuda/cuda_double.h"',
    ],
)
def test_words_that_have_a_better_one_are_found(line: str) -> None:
    (found,) = list(check_names.findings("src/x.cc", f"\n{line}\n"))[:1]
    assert found.startswith("src/x.cc:2: ")
    assert "docs/glossary.md" in found


@pytest.mark.parametrize(
    "line",
    [
        "std::unordered_map<int, int>",
        "a letter first",
        "the rest of it",
        "they were told",
        "class Restart {",
        "adopt(fd)",
    ],
)
def test_words_of_the_field_are_not(line: str) -> None:
    assert list(check_names.findings("src/x.cc", line)) == []


def test_names_of_files_count() -> None:
    assert len(list(check_names.findings("tests/doubles/x.cc", ""))) == 1


def test_the_command_fails_where_there_is_one(tmp_path: Path) -> None:
    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, check_names.__file__, tmp_path], capture_output=True, text=True, check=False
        )

    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "right.md").write_text("A pending handshake.\n")
    (tmp_path / "picture").write_bytes(b"\xff\xfe judge")
    assert (run().returncode, run().stdout) == (0, "")
    (tmp_path / "wrong.md").write_text("Fine.\nThe judge of it.\n")
    assert run().returncode == 1
    assert run().stdout.startswith('wrong.md:2: "judge": say check')


def test_this_repository_has_none() -> None:
    assert check_names.check(ROOT) == []
