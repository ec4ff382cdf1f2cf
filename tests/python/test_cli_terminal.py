"""What the command prints on a terminal of 80 columns, and into a pipe."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from rich.cells import cell_len
from tests import terminal

import crossdock as xd
from crossdock.cli.layout import fitted, table_lines

COMMAND = [sys.executable, "-m", "crossdock"]
WIDE = pa.table(
    {f"column {i}": pa.array([i * 1000 + row for row in range(15)], pa.int64()) for i in range(20)}
    | {"text": [f"{'word ' * 40}{row}" for row in range(15)]}
)
LONG = pa.table({"text": ["日本語のとても長いテキスト" * 10, "short", None], "n": [1, 22, None]})


def on_a_terminal(*arguments: object, columns: int = 80, expect: int = 0) -> list[str]:
    """The lines that the command sends to a terminal."""
    command = [*COMMAND, *map(str, arguments)]
    return terminal.on_a_terminal(command, columns=columns, expect=expect).decode().splitlines()


def piped(*arguments: object) -> list[str]:
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


def fits(lines: list[str], columns: int = 80) -> bool:
    """Whether no line is longer than the terminal, and none has a colour; the bar on stderr is taken off again."""
    return all(cell_len(line) <= columns for line in lines if "\x1b" not in line)


@pytest.mark.long
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_get_fits_and_says_what_it_leaves_out(columns):
    with xd.serve({"wide": WIDE}) as server:
        lines = on_a_terminal("get", server.uri, "wide", columns=columns)
        whole = piped("get", server.uri, "wide")
    assert fits(lines, columns)
    (header,) = [i for i, line in enumerate(lines) if line.startswith("column 0 ")]
    names = lines[header].split("  ")
    assert names[:2] == ["column 0", "column 1"]
    assert lines[header + 1].split()[:2] == ["0", "1000"]
    left_out = WIDE.num_columns - len([name for name in names if name])
    said = " ".join(line.strip() for line in lines[header + 11 :])
    assert said == f"... and 5 more rows, {left_out} more columns; --columns A,B chooses"
    assert "\x1b" not in "".join(lines[header:])
    # Into a pipe all of it.
    (header,) = [i for i, line in enumerate(whole) if line.startswith("column 0 ")]
    assert whole[header].split("  ")[-1].strip() == "text"
    assert whole[-1].endswith("9")
    assert len(whole) == header + 11
    assert not any("…" in line or "more" in line for line in whole)


@pytest.mark.long
def test_long_cells_are_cut_between_characters():
    with xd.serve({"long": LONG}) as server:
        lines = on_a_terminal("get", server.uri, "long")
        whole = piped("get", server.uri, "long")
    assert fits(lines)
    (cut,) = [line for line in lines if "…" in line]
    assert cut.startswith("日本語")
    assert "… " in cut
    assert cut.endswith(" 1")
    assert cell_len(cut) == 80
    assert any(LONG["text"][0].as_py() in line for line in whole)
    assert not any("more" in line for line in lines)


@pytest.mark.long
def test_ls_and_devices_fit(tmp_path):
    with xd.serve({"t" * 200: LONG, "u": LONG}) as server:
        for arguments in (("ls", server.uri), ("ls",), ("devices",)):
            lines = on_a_terminal(*arguments)
            assert fits(lines), lines
            assert not any("\x1b" in line for line in lines)
        assert "t" * 200 in "\n".join(piped("ls", server.uri))
        assert lines[0].split()[:3] == ["driver", "device", "filter"]


def test_inspect_breaks_lines_between_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # A long path is no word that could be broken.
    path = "wide.arrow"
    xd.write(WIDE, path)
    lines = on_a_terminal("inspect", path)
    assert fits(lines), lines
    joined = " ".join(" ".join(lines).split())
    assert "1 batch, 0 dictionaries" in joined
    assert "body at" in joined
    assert any("batch 0" in line and "body at" in line for line in piped("inspect", path))


def test_errors_are_broken_between_words():
    lines = on_a_terminal("ls", "shm:nobody", expect=4)
    assert len(lines) > 1
    assert fits(lines)
    assert all(line.startswith("  ") for line in lines[1:])


@pytest.mark.parametrize("command", [(), ("serve",), ("ls",), ("get",), ("inspect",), ("check",), ("devices",)])
def test_help_fits(command):
    assert fits(on_a_terminal(*command, "--help"))


def test_serve_says_how_it_ends_to_people_only(tmp_path):
    path = tmp_path / "t.arrow"
    xd.write(LONG, path)
    master, slave = pty.openpty()
    serving = subprocess.Popen([*COMMAND, "serve", str(path)], stdin=slave, stdout=subprocess.PIPE, stderr=slave)
    os.close(slave)
    assert serving.stdout is not None
    assert serving.stdout.readline() == b"shm:t\n"
    assert b"Ctrl-C ends it. From another shell: crossdock ls shm:t" in os.read(master, 4096)
    os.write(master, b"")
    serving.terminate()
    assert serving.communicate(timeout=60)[0] == b""
    os.close(master)


# ---- the arithmetic ----


def test_columns_share_the_width():
    assert fitted([3, 4], 80) == [3, 4]
    assert fitted([100, 4], 80) == [74, 4]  # What is left over goes to what was cut.
    assert fitted([100, 100], 80) == [54, 24]
    assert fitted([10] * 20, 80) == [10] * 6  # 10 + 5 * 12, and no more
    assert fitted([100], 10) == [10]
    assert fitted([30, 30], 5) == [5]
    assert fitted([30, 30], 34) == [24, 8]  # The last one is cut to what is left,
    assert fitted([30, 30], 33) == [30]  # if that is worth it.
    assert fitted([10, 24, 24, 60], 80) == [10, 24, 24, 16]


@pytest.mark.parametrize("width", [1, 2, 5, 20, 80])
def test_no_line_is_longer_than_the_width(width):
    header = ["a" * n for n in (1, 30, 5, 90)]
    rows = [["é" * 40, "日本" * 30, "x", ""], ["", "", "", "y" * 300]]
    lines, left_out = table_lines(header, rows, right=frozenset((1,)), width=width)
    assert all(cell_len(line) <= width for line in lines)
    assert 0 <= left_out < 4
    assert len(lines) == 3


def test_what_is_piped_has_a_line_for_each_row(tmp_path: Path):
    lines, left_out = table_lines(["a"], [["x" * 10_000]], width=None)
    assert (lines[1], left_out) == ("x" * 10_000, 0)
