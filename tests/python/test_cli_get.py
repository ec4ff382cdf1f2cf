"""`crossdock get` for programs: JSON, the first rows, stdout; and what shells complete."""

from __future__ import annotations

import csv
import datetime
import decimal
import errno
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.terminal import on_a_terminal

import crossdock as xd
from crossdock._names import parsed_name
from crossdock.cli import writing

ROWS = 25
TABLE = pa.table(
    {
        "n": pa.chunked_array([range(10), range(10, ROWS)]),
        "text": ["a\x1b[2J\n"] * ROWS,
        "when": [datetime.datetime(2024, 2, 29, 12)] * ROWS,
        "money": [decimal.Decimal("1.50")] * ROWS,
        "raw": [b"\xff"] * ROWS,
        "items": [[1, None]] * ROWS,
        "float": [float("nan")] * ROWS,
    }
)


@pytest.fixture
def server(no_leftovers: None) -> Iterator[xd.Server]:
    with xd.serve({"t": TABLE, "weights": np.array([[1.5, np.inf]], np.float32)}) as server:
        yield server


def get(*arguments: object, expect: int = 0) -> tuple[bytes, str]:
    command = [sys.executable, "-m", "crossdock", "get", *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert run.returncode == expect, run.stderr
    return run.stdout, run.stderr.decode()


def test_rows_as_json(server):
    out, err = get(server.uri, "t", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (len(rows), err) == (ROWS, "")
    assert rows[3] == {
        "n": 3, "text": "a\x1b[2J\n", "when": "2024-02-29T12:00:00", "money": "1.50", "raw": "/w==", "items": [1, None],
        "float": None,
    }  # fmt: skip


def test_no_columns_are_an_error():
    for columns in ("", " , "):
        _, err = get("shm:absent", "t", "--columns", columns, expect=2)
        assert "Invalid value for --columns: it names no column: write A,B, or leave it out for all of them" in err


@pytest.mark.long
def test_tensors_as_json(server):
    out, _ = get(server.uri, "weights", "--json")
    (about,) = map(json.loads, out.splitlines())
    assert (about["shape"], about["values"]) == ([1, 2], [[1.5, None]])
    for option in (["-n", 1], ["-o", "-"], ["--columns", "a"]):
        _, err = get(server.uri, "weights", *option, expect=2)
        assert "is for tables" in err


@pytest.mark.long
@pytest.mark.parametrize("rows", [1, 10, 12, ROWS, ROWS + 5])
def test_the_first_rows(server, rows, tmp_path):
    out, _ = get(server.uri, "t", "--json", "-n", rows)
    assert [json.loads(line)["n"] for line in out.splitlines()] == list(range(min(rows, ROWS)))
    get(server.uri, "t", "-n", rows, "-o", tmp_path / "t.parquet")
    assert pa.parquet.read_table(tmp_path / "t.parquet").num_rows == min(rows, ROWS)
    out, _ = get(server.uri, "t", "-n", rows)
    assert f"t: {min(rows, ROWS)} row" in out.decode()
    assert len(out.decode().split("\n\n")[1].splitlines()) == 1 + min(rows, ROWS)


def test_rows_of_a_stream_that_never_ends(no_leftovers):
    def endless():
        while True:
            yield pa.record_batch({"n": [1, 2, 3]})

    with xd.serve({"live": endless}) as server:
        out, _ = get(server.uri, "live", "--json", "-n", 7)
    assert out.count(b"\n") == 7


@pytest.mark.parametrize("form", [None, "arrows", "arrow", "feather", "parquet", "csv", "jsonl"])
def test_to_stdout(server, form):
    given = [] if form is None else ["--format", form]
    out, err = get(server.uri, "t", "-o", "-", "--columns", "n,text", *given)
    assert err == ""
    if form == "csv":  # not by pyarrow, whose reader leaves a pipe behind
        header, *rows = csv.reader(io.StringIO(out.decode(), newline=""))
        assert (header, [int(row[0]) for row in rows]) == (["n", "text"], list(range(ROWS)))
        assert {row[1] for row in rows} == {"a\x1b[2J\n"}
        return
    if form == "jsonl":
        assert [json.loads(line)["n"] for line in out.splitlines()] == list(range(ROWS))
        return
    source = io.BytesIO(out)
    read = {
        "arrow": lambda: pa.ipc.open_file(source).read_all(),
        "feather": lambda: pa.ipc.open_file(source).read_all(),
        "parquet": lambda: pa.parquet.read_table(source),
    }.get(form, lambda: pa.ipc.open_stream(source).read_all())
    assert read().to_pydict() == TABLE.select(["n", "text"]).to_pydict()


def test_a_reader_that_ends_first(server):
    command = [sys.executable, "-m", "crossdock", "get", server.uri, "t", "--json"]
    read, write = os.pipe()
    os.close(read)
    run = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(write)
    assert (run.returncode, run.stderr) == (141, b"")


@pytest.mark.long
def test_what_does_not_go_together(server, tmp_path):
    _, err = get(server.uri, "t", "--format", "csv", expect=2)
    assert err.endswith("--format: it is for -o -; the ending of a file selects its format\n")
    _, err = get(server.uri, "t", "-o", "-", "--format", "xls", expect=2)
    assert err.endswith("--format: must be one of arrow, arrows, feather, parquet, csv, jsonl, not 'xls'\n")
    _, err = get(server.uri, "t", "--json", "-o", tmp_path / "x.csv", expect=2)
    assert "FILE.jsonl" in err
    _, err = get(server.uri, "t", "-n", 0, expect=2)
    assert "-n" in err
    _, err = get(server.uri, "t", "-o", "./-", expect=2)  # a file, of no format
    assert "must end in" in err
    _, err = get(server.uri, "t", "-o", "\x1b]0;pwned\x07", expect=2)
    assert r"\x1b]0;pwned\x07 must end in" in err
    assert "\x1b" not in err
    _, err = get(server.uri, "t", "-o", tmp_path / "t.csv", expect=1)
    assert "can't hold this table" in err
    assert list(tmp_path.iterdir()) == []


def test_json_lines_in_a_file(server, tmp_path):
    out, _ = get(server.uri, "t", "-o", tmp_path / "t.jsonl")
    assert "written to" in out.decode()
    assert len((tmp_path / "t.jsonl").read_text().splitlines()) == ROWS


def test_nanoseconds_are_an_error(no_leftovers):
    with xd.serve({"t": pa.table({"x": pa.array([1], pa.timestamp("ns"))})}) as server:
        _, err = get(server.uri, "t", "--json", expect=1)
        assert "nanoseconds" in err
        out, _ = get(server.uri, "t")
        assert "1970-01-01" in out.decode()


def test_a_full_disk_names_the_file(server, tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    for suffix in (".jsonl", ".arrow"):
        target = tmp_path / f"t{suffix}"
        (tmp_path / f".t{suffix}").symlink_to("/dev/full")
        command = (
            "import sys; from pathlib import Path; from crossdock.cli import writing;"
            "import crossdock as xd, os; os.getpid = lambda: 7\n"
            f"os.symlink('/dev/full', {str(tmp_path / f'.t{suffix}.7.partial')!r})\n"
            "with xd.connect(sys.argv[1]) as client:\n"
            "    reader = client.get('t')\n"
            f"    writing.write_file(Path({str(target)!r}), reader.schema, reader)"
        )
        run = subprocess.run([sys.executable, "-c", command, server.uri], capture_output=True, timeout=60, check=False)
        assert run.returncode == 1
        assert f"writing {target} failed" in run.stderr.decode()
        assert "No space left" in run.stderr.decode()
        assert not target.exists()


@pytest.mark.parametrize("suffix", [".arrow", ".parquet", ".csv", ".jsonl"])
def test_a_file_that_cannot_be_made_is_named_alone(server, tmp_path, suffix):
    """Not the partial file beside it."""
    target = tmp_path / f"t{suffix}"
    partial = tmp_path / f".t{suffix}.{os.getpid()}.partial"
    partial.symlink_to(partial)
    with xd.connect(server.uri) as client, client.get("t") as reader, pytest.raises(xd.SystemError) as failed:
        writing.write_file(target, reader.schema, reader)
    assert str(failed.value) == f"writing {target} failed: {os.strerror(errno.ELOOP)}"
    assert not partial.is_symlink()


def test_a_file_that_may_not_be_made_is_a_permission_error(server, tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Failed to open local file '.t.partial'")

    monkeypatch.setattr(writing, "open_sink", refuse)
    target = tmp_path / "t.arrow"
    with xd.connect(server.uri) as client, client.get("t") as reader, pytest.raises(xd.PermissionError) as failed:
        writing.write_file(target, reader.schema, reader)
    assert str(failed.value) == f"writing {target} failed: Permission denied"


@pytest.mark.long
def test_without_a_name(no_leftovers):
    """The only one is got; of several, it says which there are."""
    program = os.path.join(os.path.dirname(sys.executable), "crossdock")

    def get(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, "get", *arguments], capture_output=True, timeout=60, text=True, check=False)

    with xd.serve({"flights": TABLE}, uri="shm:one-table") as server:
        assert get(server.uri).stdout.startswith("flights: ")
        # The bytes of a part of a batch are those of the whole.
        assert "B" not in get(server.uri, "-n", "1").stdout.splitlines()[0]
        assert "did you mean shm:one-table?" in get("shm:one-tabel", "flights").stderr
        server.publish("planes", TABLE)
        several = get(server.uri)
    assert several.returncode == 2
    assert "give the NAME of what to get: shm:one-table has flights, planes" in several.stderr


def completed(line: str) -> list[str]:
    """What is offered for the word at the end. Bash ends words at colons, and hands each on for itself."""
    words = re.findall(r"[^\s:]+|:+", line)
    env = {
        **os.environ,
        "_CROSSDOCK_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - (not line.endswith(" "))),
    }
    program = os.path.join(os.path.dirname(sys.executable), "crossdock")
    run = subprocess.run([program], env=env, capture_output=True, timeout=60, text=True, check=False)
    return run.stdout.split()


@pytest.mark.long
def test_shells_complete_servers_and_names(no_leftovers):
    with xd.serve({"flights": TABLE, "planes": TABLE}, uri="shm:completed-here"):
        assert "shm:completed-here" in completed("crossdock get ")
        assert completed("crossdock get shm:completed-here ") == ["flights", "planes"]
        assert completed("crossdock inspect shm:completed-here ") == ["flights", "planes"]
        assert completed("crossdock get shm:completed-here pl") == ["planes"]
        # What stands before the last colon isn't replaced.
        assert "completed-here" in completed("crossdock get shm:")
        assert completed("crossdock get shm:completed-h") == ["completed-here"]
        assert "shm:completed-here" in completed("crossdock get sh")
    assert completed("crossdock get shm:completed-here ") == []
    assert "serve" in completed("crossdock ")


@pytest.mark.parametrize(
    "command", ["serve", "relay", "top", "get", "ls", "inspect", "check", "devices", "hash-password"]
)
def test_every_help_has_examples(command):
    run = subprocess.run([sys.executable, "-m", "crossdock", command, "-h"], capture_output=True, text=True, check=True)
    assert f"  crossdock {command}" in run.stdout.partition("Examples:")[2]
    assert re.findall(r"<[a-z].*?>|\bElse:", run.stdout) == []  # no types of Python


def test_an_error_shows_names_as_they_are_typed(no_leftovers):
    with xd.serve({"t": TABLE, b"\0\xff": TABLE}) as server:
        for name, said in (("other", "'other'"), (r"b'\x00'", r"b'\x00'")):
            command = [sys.executable, "-m", "crossdock", "get", server.uri, name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (
                3,
                f"NotFoundError: nothing is published as {said}; the catalog has "
                rf"""b'\x00\xff', "t" (reported by {server.uri})""" + "\n",
            )
    assert parsed_name(r"b'\x00\xff'") == b"\0\xff"


def test_the_name_of_bytes_in_the_help_is_one_that_is_read():
    run = subprocess.run([sys.executable, "-m", "crossdock", "get", "-h"], capture_output=True, text=True, check=True)
    (name,) = re.findall(r"b'.*?'", run.stdout)
    assert parsed_name(name) == b"\0"


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_a_terminal_obeys_nothing_that_is_foreign(no_leftovers, form):
    table = pa.table({"a\x1b[2J": ["\x1b]0;owned\x07\x9b31m\u202e"]})
    with xd.serve({"t": table}) as server:
        command = [sys.executable, "-m", "crossdock", "get", server.uri, "t", "-o", "-", "--format", form]
        shown = on_a_terminal(command, expect=0 if form == "jsonl" else 2).decode()
    # The command's own bar is on stderr, and isn't there where rows are on the same terminal.
    assert not set("\x1b\x9b\u202e") & set(shown)
    assert ("owned" in shown) == (form == "jsonl")
