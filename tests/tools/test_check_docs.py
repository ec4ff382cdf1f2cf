"""The check of the pages fails where it should: one small tree per kind of fault."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECK = ROOT / "tools" / "check_docs.py"

DEV = '"""\n  ./dev test                    every test\n  ./dev asan | tsan [ARG...]    under sanitizers\n"""\n'
GOOD = """# A title, with `code` (and more)
[Another page](docs/other.md), [a part of it](docs/other.md#the-second-part), [this one](#a-title-with-code-and-more),
[a link
over two lines](https://example.org/nowhere), [a folder](docs/decisions/), `docs/*.md` and `./dev tsan`.
```sh
A=1 ./dev test cpp   # and what follows
```
```python
async for batch in reader:
    ...
```
```
[no link](nowhere.md) in here, and no `docs/nowhere.md`
```
"""
OTHER = "# Other\n## The second part\n"


def check(root: Path, pages: dict[str, str]) -> tuple[int, list[str]]:
    tree = {"dev": DEV, "README.md": GOOD, "docs/other.md": OTHER, "docs/decisions/1.md": ""}
    for name, text in (tree | pages).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = subprocess.run(
        [sys.executable, CHECK, "--root", root], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def test_these_pages_are_right() -> None:
    done = subprocess.run([sys.executable, CHECK], capture_output=True, text=True, check=False, timeout=60)
    *faults, count = done.stdout.splitlines()
    assert (done.returncode, faults) == (0, [])
    assert int(count.split()[0]) > 15


def test_what_is_right_passes(tmp_path: Path) -> None:
    assert check(tmp_path, {}) == (0, ["3 files, 0 faults"])
    link = f"[{'b' * 150}](other.md#the-second-part)"  # as long as it may be, since its target isn't shown
    fences = "```{python-entries}\ncrossdock.serve\n```\n"
    page = f"{OTHER}[x](x.md)\n\n| a | b |\n| --- | --- |\n| {'c ' * 70} | {link} |\n{fences}"
    assert check(tmp_path, {"docs/other.md": page, "docs/x.md": OTHER}) == (0, ["4 files, 0 faults"])


def test_notebooks_are_pages(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "[x](nowhere.md)"]},
        {"cell_type": "code", "source": ["x = 1"], "outputs": [{"text": ["1\n"]}]},
    ]
    page = f"{OTHER}[a notebook](x.ipynb)\n"
    status, lines = check(tmp_path, {"docs/other.md": page, "docs/x.ipynb": json.dumps({"cells": cells})})
    assert (status, lines[0]) == (1, "docs/x.ipynb:2: nowhere.md leads nowhere")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("\n[x](nowhere.md)\n", "2: nowhere.md leads nowhere"),
        ("[x\ny](../nowhere/)\n", "1: ../nowhere/ leads nowhere"),
        ("[x](other.md#the-third-part)\n", "1: other.md#the-third-part: that page has no such heading"),
        ("[x](#nothing)\n", "1: #nothing: that page has no such heading"),
        ("Text\nand `docs/gone.md`\n", "2: docs/gone.md isn't there"),
        ("`docs/gone_*.md`\n", "1: docs/gone_*.md isn't there"),
        ("`packaging/gone/`\n", "1: packaging/gone/ isn't there"),
        ("Text\nand docs/gone.md has the details.\n", "2: docs/gone.md isn't there"),
        ("`./dev tset`\n", "1: ./dev has no command tset"),
        ("```sh\n\nA=1 ./dev tset cpp\n```\n", "3: ./dev has no command tset"),
        ("```python\nx = 1\nfor x\n```\n", "3: not Python: "),
        ("\n```python\nx = 1\n", "2: this code block has no end"),
        (f"| a |\n| --- |\n| [{'b' * 151}](other.md) |\n", "3: a cell of 151 characters"),
    ],
)
def test_a_fault_is_found(tmp_path: Path, text: str, fault: str) -> None:
    status, lines = check(tmp_path, {"docs/other.md": f"{OTHER}[bad](bad.md)\n", "docs/bad.md": text})
    assert status == 1
    assert len(lines) == 2
    assert lines[0].startswith(f"docs/bad.md:{fault}")


def test_pages_of_examples_are_checked(tmp_path: Path) -> None:
    page = f"{OTHER}[an example](../examples/a/README.md), tests/fuzz and https://example.org/docs/x.html\n"
    status, lines = check(tmp_path, {"docs/other.md": page, "examples/a/README.md": "\n[x](gone.py)\n"})
    assert (status, lines[:-1]) == (1, ["examples/a/README.md:2: gone.py leads nowhere"])


def test_a_path_in_the_changelog_is_checked(tmp_path: Path) -> None:
    page = f"{OTHER}[changes](../CHANGELOG.md)\n"
    changes = "- A thing. docs/other.md has the details.\n- Another. docs/c.md has the details.\n"
    status, lines = check(tmp_path, {"docs/other.md": page, "CHANGELOG.md": changes})
    assert (status, lines[:-1]) == (1, ["CHANGELOG.md:2: docs/c.md isn't there"])


def test_a_page_that_none_leads_to_is_found(tmp_path: Path) -> None:
    assert check(tmp_path, {"docs/lost.md": "[itself](lost.md)\n"}) == (
        1,
        ["docs/lost.md: no page leads here", "4 files, 1 faults"],
    )


def test_no_page_at_all_is_no_success(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, CHECK, "--root", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "nothing was checked" in done.stdout
