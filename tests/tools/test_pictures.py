"""The pictures of the pages are those of the numbers that stand beside them."""

import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLOT = ROOT / "tools" / "plot_handoff.py"
TABLE = "| way | 64 KiB | 1 MiB | 64 MiB | 1 GiB |\n| --- | --- | --- | --- | --- |\n"
ROWS = [
    "pyarrow Flight, Unix socket", "pyarrow IPC stream, Unix socket", "memcpy, one thread", "Crossdock, Python, spin",
    "Crossdock, C++, spin",
]  # fmt: skip


def plot(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, PLOT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)  # type: ignore[arg-type]


def test_the_plot_is_that_of_the_table() -> None:
    done = plot("--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_plot_of_other_numbers_is_found(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "explanation" / "performance.md"
    page.parent.mkdir(parents=True)
    (tmp_path / "docs" / "pictures").mkdir()
    page.write_text(TABLE + "".join(f"| {row} | 1 µs | 20 µs | 3 ms | 1.5 s |\n" for row in ROWS))
    assert plot("--root", tmp_path, "--check").returncode == 1
    assert plot("--root", tmp_path).returncode == 0
    assert plot("--root", tmp_path, "--check").returncode == 0
    page.write_text(page.read_text().replace("20 µs", "21 µs"))
    done = plot("--root", tmp_path, "--check")
    assert (done.returncode, done.stdout) == (
        1,
        "docs/pictures/handoff.svg isn't that of the table: run tools/plot_handoff.py\n",
    )


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "pictures").glob("*.svg")), ids=lambda path: path.stem)
def test_a_picture_says_what_it_shows(picture: Path) -> None:
    root = xml.etree.ElementTree.parse(picture).getroot()
    title = root.find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert title.text
    assert root.get("aria-labelledby") == title.get("id")
