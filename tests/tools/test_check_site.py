"""The check of the site's search finds a name that the index lacks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import reference

ROOT = Path(__file__).resolve().parents[2]


def index_of(names: list[str]) -> str:
    """As Sphinx writes it: for each prefix the objects' page, type, priority, anchor and name."""
    objects: dict[str, list[list[object]]] = {}
    for name in names:
        prefix, _, last = name.rpartition(".")
        objects.setdefault(prefix, []).append([0, 0, 1, "", last])
    return f"Search.setIndex({json.dumps({'docnames': ['index'], 'objects': objects})})"


def check(folder: Path, index: str | None) -> tuple[int, list[str]]:
    if index is not None:
        (folder / "searchindex.js").write_text(index)
    command = [sys.executable, ROOT / "tools" / "check_site.py", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def test_an_index_with_every_name_passes(tmp_path: Path) -> None:
    names = reference.entries()
    assert "crossdock.serve" in names
    assert check(tmp_path, index_of([*names, "alone"])) == (0, [f"{len(names)} names, 0 that the search doesn't know"])


def test_a_name_that_the_index_lacks_is_found(tmp_path: Path) -> None:
    names = reference.entries()
    assert check(tmp_path, index_of([name for name in names if name != "crossdock.serve"])) == (
        1,
        ["the search doesn't know crossdock.serve", f"{len(names)} names, 1 that the search doesn't know"],
    )


def test_no_site_at_all_is_no_success(tmp_path: Path) -> None:
    status, lines = check(tmp_path, None)
    assert status == 1
    assert "isn't there" in lines[0]
