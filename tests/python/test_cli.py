"""The command, as a user runs it: in processes of its own."""

from __future__ import annotations

import dis
import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.terminal import on_a_terminal

import crossdock as xd
from crossdock._names import parsed_name, shown_name
from crossdock.cli import output, reporting, writing

TABLE = pa.table({"n": pa.array([1, 2, None], pa.int64()), "s": ["a", "b[c]", None]})
# pyarrow makes a pipe for Ctrl-C with the first CSV that it reads, and keeps it.
pa.csv.read_csv(io.BytesIO(b"x\n1\n"))
COMMAND = [sys.executable, "-m", "crossdock"]


def crossdock(*arguments: object, expect: int = 0) -> tuple[str, str]:
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout, done.stderr


@pytest.fixture
def files(tmp_path: Path) -> Path:
    with pa.ipc.new_file(str(tmp_path / "flights.arrow"), TABLE.schema) as sink:
        sink.write_table(TABLE)
    pa.parquet.write_table(TABLE, tmp_path / "planes.parquet")
    pa.csv.write_csv(TABLE, tmp_path / "weather.csv")
    return tmp_path


class Serving:
    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "serve", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.uri = self.process.stdout.readline().strip()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            out, err = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()  # or it would run on, and others would find it
            raise
        return self.process.returncode, out, err


@pytest.fixture
def serving(no_leftovers: None, files: Path) -> Iterator[Serving]:
    serving = Serving(files / "flights.arrow", files / "planes.parquet", files / "weather.csv")
    yield serving
    assert serving.stop() == (0, "", "")


def test_first_rows_are_a_line_each_where_nobody_looks():
    """Many columns are not broken at the width of a terminal that isn't there."""
    wide = pa.table({f"column {i}": [f"value {i} of {row}" for row in range(3)] for i in range(20)})
    with xd.serve({"wide": wide}) as server:
        out, _ = crossdock("get", server.uri, "wide")
    for row in range(3):
        (line,) = [line for line in out.splitlines() if f"value 0 of {row}" in line]
        assert f"value 19 of {row}" in line


def test_serve_ls_and_get(serving, tmp_path):
    assert serving.uri == "shm:flights"
    out, _ = crossdock("ls", serving.uri)
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["name", "rows", "bytes", "columns", "device"]
    assert [(line[0], line[1], line[3], line[4]) for line in lines[1:]] == [
        (name, "3", "2", "cpu") for name in ("flights", "planes", "weather")
    ]

    out, err = crossdock("get", serving.uri, "flights")
    assert "flights: 3 rows in 1 batch, " in out
    assert "b[c]" in out
    assert "null" in out
    assert err == ""

    for name, suffix in (("flights", "parquet"), ("planes", "arrow"), ("flights", "feather"), ("flights", "arrows")):
        target = tmp_path / f"out-{name}.{suffix}"
        out, _ = crossdock("get", serving.uri, name, "-o", target)
        assert f"written to {target}" in out
        match suffix:
            case "parquet":
                written = pa.parquet.read_table(target)
            case "arrows":
                written = pa.ipc.open_stream(str(target)).read_all()
            case _:
                written = pa.ipc.open_file(str(target)).read_all()
        assert written.equals(TABLE)
    target = tmp_path / "out.csv"
    crossdock("get", serving.uri, "flights", "-o", target, "--columns", "s,n")
    assert pa.csv.read_csv(target).column_names == ["s", "n"]
    assert not list(tmp_path.glob(".*partial"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_serve_ends_cleanly(no_leftovers, files, number):
    serving = Serving(files / "flights.arrow", "--uri", f"shm:{files}/my.sock", "--stable", "snapshot", "--name", "x")
    assert serving.uri == f"shm:{files}/my.sock"
    assert (files / "my.sock").is_socket()
    with xd.connect(serving.uri) as client:
        assert [entry.name for entry in client.list()] == ["x"]
    assert serving.stop(number) == (0, "", "")
    assert not (files / "my.sock").exists()


@pytest.mark.long
def test_exit_codes(serving, files, tmp_path):
    _, err = crossdock("get", serving.uri, "flight", expect=3)
    assert err.startswith("NotFoundError: ")
    assert "flights" in err
    assert err.count("\n") == 1
    _, err = crossdock("get", serving.uri, "flights", "--columns", "n,z", expect=3)
    assert err.startswith("NotFoundError: ")
    _, err = crossdock("ls", f"shm:{tmp_path}/nobody.sock", "--timeout", "1", expect=4)
    assert err.startswith("ConnectionError: ")
    _, err = crossdock("ls", "shm:/x?want_data=zz", expect=2)
    assert err.startswith("UriError: ")
    crossdock("get", serving.uri, "flights", "-o", tmp_path / "x.xlsx", expect=2)
    crossdock("get", serving.uri, expect=2)
    crossdock("serve", files / "flights.arrow", files / "flights.arrow", expect=2)
    _, err = crossdock("serve", files / "flights.arrow", "--name", "a", "--name", "b", expect=2)
    assert "2 names for 1 file; give one for each" in err
    crossdock("serve", files / "flights.arrow", "--stable", "maybe", expect=2)
    _, err = crossdock("serve", files / "absent.arrow", expect=3)
    assert "absent.arrow" in err
    _, err = crossdock("serve", files / "absent.parquet", expect=3)
    assert "absent.parquet" in err
    (files / "bad.arrow").write_text("not an Arrow file, by any means")
    _, err = crossdock("serve", files / "bad.arrow", expect=1)
    assert err.startswith("InvalidDataError: ")
    _, err = crossdock("get", serving.uri, "flights", "-o", tmp_path / "no" / "such" / "folder.arrow", expect=3)
    assert err.count("\n") == 1


def test_a_file_of_another_format_must_be_named_for_it(files):
    for name, content, ends in (
        ("flights.txt", "a,b\n1,2\n3,4\n5,6\n7,8\n", ".csv, or .json, .jsonl or .ndjson (an object on each line)"),
        ("planes.arrow", (files / "planes.parquet").read_bytes(), ".parquet"),
    ):
        path = files / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        _, err = crossdock("serve", path, "--uri", "tcp:", expect=1)
        assert err.startswith(f"InvalidDataError: {path} isn't an Arrow IPC file: this looks like ")
        assert err.endswith(f". To be served, its name must end in {ends}\n")
        with pytest.raises(xd.InvalidDataError, match=re.escape(f"must end in {ends}")):
            xd.serve({"x": path})


@pytest.mark.parametrize(
    ("url", "help_"),
    [
        ("https://example.com/a.parquet", "download it first, and serve the file"),
        ("s3:/a.parquet", "download it first, and serve the file"),
        ("file:/a//b.arrow", "give the path alone, '/a//b.arrow'"),
    ],
)
def test_a_url_is_quoted_as_it_was_given(url, help_):
    for check in ((), ("--check",)):
        _, err = crossdock("serve", url, "--uri", "tcp:", *check, expect=2)
        assert err == (f"InvalidArgumentError: '{url}' is a URL, and only files of this machine have a path: {help_}\n")


def test_a_stream_that_is_cut_off_leaves_no_file(tmp_path):
    batch = TABLE.to_batches()[0]

    def failing():
        def batches():
            yield batch
            raise OSError("the disk is gone")

        return pa.RecordBatchReader.from_batches(batch.schema, batches())

    with xd.serve({"f": failing}) as server:
        target = tmp_path / "out.arrow"
        _, err = crossdock("get", server.uri, "f", "-o", target, expect=1)
        assert err.startswith("RemoteError: ")
        assert "the disk is gone" in err
        assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_killed_server_is_exit_code_5(script, tmp_path):
    server = script("""
        import sys
        import pyarrow as pa
        import crossdock as xd
        batch = pa.record_batch({"x": [1]})
        def batches():
            yield batch
            print("under way", flush=True)
            sys.stdin.readline()
        with xd.serve({"f": lambda: pa.RecordBatchReader.from_batches(batch.schema, batches())}) as server:
            print(server.uri, flush=True)
            sys.stdin.readline()
    """)
    uri = server.read_line()
    getting = subprocess.Popen(
        [*COMMAND, "get", uri, "f", "-o", str(tmp_path / "out.arrow")], stderr=subprocess.PIPE, text=True
    )
    assert server.read_line() == "under way"
    server.send(signal.SIGKILL)
    _, err = getting.communicate(timeout=60)
    assert getting.returncode == 5, err
    assert err.startswith("TruncatedStreamError: ")
    assert list(tmp_path.iterdir()) == []
    for stale in (
        Path(os.environ["XDG_RUNTIME_DIR"]) / "crossdock"
    ).iterdir():  # Nobody is there to take its socket away.
        stale.unlink()


@pytest.mark.long
def test_ctrl_c_in_get_is_exit_code_130(script):
    server = script("""
        import sys
        import pyarrow as pa
        import crossdock as xd
        batch = pa.record_batch({"x": [1]})
        def batches():
            yield batch
            print("under way", flush=True)
            sys.stdin.readline()
        with xd.serve({"f": lambda: pa.RecordBatchReader.from_batches(batch.schema, batches())}) as server:
            print(server.uri, flush=True)
            sys.stdin.readline()
    """)
    getting = subprocess.Popen(
        [*COMMAND, "get", server.read_line(), "f", "--timeout", "60"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.read_line() == "under way"
    getting.send_signal(signal.SIGINT)
    _, err = getting.communicate(timeout=60)
    assert (getting.returncode, err) == (130, "Interrupted\n")
    server.write_line()
    server.write_line()
    server.finish()


@pytest.mark.parametrize(
    ("suffix", "number"),
    [
        *((suffix, signal.SIGTERM) for suffix in (".arrow", ".arrows", ".feather", ".parquet", ".csv")),
        (".arrow", signal.SIGHUP),
    ],
)
def test_a_signal_in_get_leaves_no_file(tmp_path, suffix, number):
    batch = TABLE.to_batches()[0]
    go_on = threading.Event()

    def batches():
        yield batch
        go_on.wait()

    target = tmp_path / f"out{suffix}"
    target.write_text("what stood there before")
    with xd.serve({"f": lambda: pa.RecordBatchReader.from_batches(batch.schema, batches())}) as server:
        getting = subprocess.Popen(
            [*COMMAND, "get", server.uri, "f", "-o", str(target)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while len(list(tmp_path.iterdir())) == 1:  # It hasn't begun to write; nothing else tells.
            assert getting.poll() is None
            time.sleep(0.01)
        getting.send_signal(number)
        _, err = getting.communicate(timeout=60)
        go_on.set()
    assert (getting.returncode, err) == (130, "Interrupted\n")
    assert list(tmp_path.iterdir()) == [target]
    assert target.read_text() == "what stood there before"


def test_an_interrupt_anywhere_leaves_no_file(tmp_path):
    # At each instruction of what writes the file in turn, where Python would raise it.
    target = tmp_path / "out.csv"
    target.write_text("what stood there before")
    batches = [xd.RecordBatch(batch) for batch in TABLE.to_batches()]
    steps = (writing.write_file, writing.write_to, writing.open_sink, output.pyarrow_for)
    inside = {step.__code__ for step in steps}
    for at in itertools.count():
        left = at

        def trace(frame, event, _argument):
            nonlocal left
            if frame.f_code not in inside:
                return None
            frame.f_trace_opcodes = True
            # CPython leaves a NOP out of what `with` covers, and never looks for signals there.
            if event == "opcode" and frame.f_code.co_code[frame.f_lasti] != dis.opmap["NOP"]:
                if left == 0:
                    left -= 1
                    raise KeyboardInterrupt
                left -= 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            writing.write_file(target, batches[0].schema, batches)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        assert target.read_text() in ("what stood there before", '"n","s"\n1,"a"\n2,"b[c]"\n,\n')
        assert list(tmp_path.iterdir()) == [target]
        if left >= 0:
            break
    assert target.read_text() != "what stood there before"
    assert at > 100


def test_a_terminal_gets_a_progress_bar(serving):
    shown = on_a_terminal([*COMMAND, "get", serving.uri, "flights"], columns=100)
    assert b"\x1b[" in shown
    assert b"flights: 3 rows" in shown


def test_a_terminal_obeys_nothing_that_a_server_says():
    evil = "\x1b]0;pwned\x07\n"
    table = pa.table({f"column{evil}": [f"cell{evil}"], "list": [[evil]]})
    with xd.serve({f"name{evil}": table}) as server:
        for arguments in (("ls", server.uri), ("get", server.uri, f"name{evil}")):
            shown = on_a_terminal([*COMMAND, *arguments], columns=100)
            assert b"\x1b]" not in shown
            assert b"\x07" not in shown
            assert rb"name\x1b]0;pwned\x07\n" in shown
        assert rb"cell\x1b]0;pwned\x07\n" in shown
        assert rb"column\x1b]0;pwned\x07\n" in shown
        _, err = crossdock("get", server.uri, "absent", expect=3)
        assert "\x1b" not in err
        assert r"name\x1b]0;pwned" in err


def test_over_tcp_with_a_token(no_leftovers, files, monkeypatch):
    monkeypatch.setenv("CROSSDOCK_TOKEN", "a secret of some length")
    serving = Serving(files / "flights.arrow", "--uri", "tcp:", "--uri", "shm:")
    assert serving.uri.startswith("tcp://127.0.0.1:")
    assert serving.process.stdout.readline().startswith("shm:crossdock-")
    out, _ = crossdock("ls", serving.uri)
    assert "flights" in out
    crossdock("get", serving.uri, "flights", "-o", files / "out.arrow")
    assert pa.ipc.open_file(str(files / "out.arrow")).read_all() == TABLE
    monkeypatch.setenv("CROSSDOCK_TOKEN", "a guess")
    _, err = crossdock("ls", serving.uri, expect=1)
    assert err.startswith("PermissionError: ")
    code, out, err = serving.stop()
    assert (code, out) == (0, "")
    assert len(err.splitlines()) == 1
    assert re.search(r"WARNING: .* gave a wrong token$", err)


@pytest.mark.long
def test_an_empty_token(no_leftovers, files, monkeypatch):
    """It is a mistake where a token is asked for. Over shm none is."""
    monkeypatch.setenv("CROSSDOCK_TOKEN", "")
    serving = Serving(files / "flights.arrow", "--uri", f"shm:{files}/x.sock")
    try:
        for command in (("ls", serving.uri), ("get", serving.uri, "flights"), ("inspect", serving.uri)):
            crossdock(*command)
    finally:
        assert serving.stop()[0] == 0
    for command in (("serve", files / "flights.arrow", "--uri", "tcp:"), ("ls", "tcp://127.0.0.1:7700")):
        _, err = crossdock(*command, expect=2)
        assert err == "InvalidArgumentError: CROSSDOCK_TOKEN is empty: set it, or unset it\n"


@pytest.mark.long
def test_help_and_version():
    out, _ = crossdock("--version")
    assert out == f"crossdock {xd.__version__}\n"
    out, _ = crossdock("--help")
    for word in ("serve", "get", "ls", "inspect", "devices", "CROSSDOCK_TOKEN", "Exit codes", "130"):
        assert word in out
    for planned in ("bench",):
        assert planned not in out
    for command in ("serve", "get", "ls", "inspect"):
        out, _ = crossdock(command, "--help")
        assert "Exit codes" in out
        assert "CROSSDOCK_TOKEN" in out
        assert "<bool>" not in out  # what a flag doesn't take


def test_debug_shows_a_traceback(tmp_path):
    _, err = crossdock("--debug", "ls", f"shm:{tmp_path}/nobody.sock", expect=4)
    assert "Traceback" in err
    _, err = crossdock("--debug", "get", "newcomer", "t", expect=2)
    assert "Traceback" in err
    assert "did you mean shm:newcomer?" in err


@pytest.mark.long
def test_a_folder_is_no_file(files, monkeypatch):
    monkeypatch.chdir(files)
    for folder in (".", "/", files):
        _, err = crossdock("serve", folder, "--name", "t", expect=2)
        assert f"{folder} is a folder with" in err
        _, err = crossdock("get", "shm:nobody", "t", "-o", folder, expect=2)
        assert f"{folder} is a folder" in err
    _, err = crossdock("get", "shm:nobody", "t", "-o", files / "nowhere" / "x.arrow", expect=3)
    assert err.startswith(f"NotFoundError: {files / 'nowhere'} doesn't exist or is not a folder")


def test_a_type_that_the_format_lacks_is_named(tmp_path):
    table = pa.table({"n": [1], "l": pa.array([[1]])})
    target = tmp_path / "x.csv"
    with xd.serve({"t": table}) as server:
        _, err = crossdock("get", server.uri, "t", "-o", target, expect=1)
        assert err.startswith(f"UnsupportedTypeError: {target} can't hold this table: ")
        assert "list" in err
        assert "--columns" in err
        assert not list(tmp_path.iterdir())
        crossdock("get", server.uri, "t", "-o", target, "--columns", "n")


def test_a_reader_that_ends_first_is_exit_code_141():
    wide = pa.table({"n": range(10), "text": ["x" * 200_000] * 10})
    with xd.serve({"t": wide}) as server:
        get = subprocess.Popen([*COMMAND, "get", server.uri, "t"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert get.stdout is not None
        get.stdout.readline()
        get.stdout.close()
        get.stdout = None
        _, err = get.communicate(timeout=60)
        assert (get.returncode, err) == (141, b"")


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["ucx", "fabric", "shm"])
def test_checksum_where_there_is_none_names_the_option(files, scheme):
    uri = "shm:nobody" if scheme == "shm" else f"{scheme}://127.0.0.1:7700"
    commands = [("serve", files / "flights.arrow", "--uri", uri), ("ls", uri), ("get", uri, "t"), ("inspect", uri)]
    if scheme == "shm":
        commands.append(("serve", files / "flights.arrow"))
    for command in commands:
        _, err = crossdock(*command, "--checksum", expect=2)
        assert err.startswith("InvalidArgumentError: --checksum")
        assert err.endswith("leave --checksum out\n")


def test_a_remote_handle_is_for_get():
    for command in ("ls", "inspect"):
        _, err = crossdock(command, "ucx://127.0.0.1:7?want_data=7&free_data=9&remote_handle=00", expect=1)
        assert err.startswith("UnsupportedError: the URI has a remote_handle, which only `crossdock get")


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["tcp", "ucx", "fabric"])
def test_addresses_that_arent_there_have_one_exit_code(files, scheme):
    try:
        xd.serve({}, f"{scheme}://127.0.0.1:0").close()
    except xd.UnsupportedError as error:
        pytest.skip(str(error))
    for host in ("192.0.2.1", "nobody.invalid"):  # an address of no machine, and no host
        _, err = crossdock("serve", files / "flights.arrow", "--uri", f"{scheme}://{host}:0", expect=4)
        assert err.startswith("ConnectionError: ")
    _, err = crossdock("ls", f"{scheme}://nobody.invalid:7700", expect=4)
    assert err.startswith("ConnectionError: ")


def test_an_error_of_several_lines_is_one_sentence_after_the_other():
    text = "no library can be used:\n  a.so: cannot open\n  b.so lacks x\nInstall it, or name it.\nThis is so\nbecause."
    assert reporting.one_line(text) == (
        "no library can be used: a.so: cannot open; b.so lacks x. Install it, or name it. This is so because."
    )
    assert reporting.one_line("one   line\n") == "one line"
    assert reporting.one_line("") == ""


@pytest.mark.long
def test_the_commands_that_connect_take_checksum(no_leftovers, files):
    serving = Serving(files / "flights.arrow", "--uri", "tcp:", "--no-checksum")
    try:
        for command in (("ls", serving.uri), ("get", serving.uri, "flights"), ("inspect", serving.uri)):
            crossdock(*command)
            _, err = crossdock(*command, "--checksum", expect=4)
            assert "checksum" in err
    finally:
        assert serving.stop()[0] == 0


@pytest.mark.long
def test_a_token_in_the_environment_is_for_tcp(no_leftovers, files, monkeypatch):
    monkeypatch.setenv("CROSSDOCK_TOKEN", "a token for other commands")
    for uri in ("shm:mine", None):
        serving = Serving(files / "flights.arrow", *(("--uri", uri) if uri else ()))
        try:
            crossdock("ls", serving.uri)
        finally:
            assert serving.stop() == (0, "", "")


@pytest.mark.long
def test_writing_needs_pyarrow(serving, tmp_path):
    (tmp_path / "pyarrow").mkdir()
    (tmp_path / "pyarrow" / "__init__.py").write_text("raise ImportError('no pyarrow here')")
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [*COMMAND, "get", serving.uri, "flights", "-o", str(tmp_path / "x.arrow")],
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("MissingPackage: ")
    assert done.stderr.rstrip().endswith("pip install pyarrow")
    done = subprocess.run(
        [*COMMAND, "get", serving.uri, "flights"], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 0
    assert "3 rows" in done.stdout


@pytest.mark.long
def test_remote_reads_are_said_in_so_many_words(files: Path) -> None:
    """Over ucx, for peers strictly as specified; it says where they find each table's bodies."""
    for arguments in (("serve", files / "flights.arrow", "--uri", "ucx:"), ("get", "shm:x", "flights")):
        _, err = crossdock(*arguments, "--remote-reads", "yes", expect=2)
        assert "--remote-reads" in err
    for uri in ((), ("--uri", "tcp:")):
        _, err = crossdock("serve", files / "flights.arrow", *uri, "--remote-reads", "trusted", expect=2)
        assert "is for ucx" in err
    try:
        xd.serve({}, "ucx://127.0.0.1:0").close()
    except xd.UnsupportedError as error:
        pytest.skip(str(error))
    serving = Serving(
        files / "planes.parquet", files / "flights.arrow", "--uri", "ucx://127.0.0.1:0", "--remote-reads", "trusted"
    )
    out, _ = crossdock("get", serving.uri, "planes")
    assert f"{len(TABLE)} rows" in out
    code, _, err = serving.stop()
    assert code == 0
    (location,) = re.findall(r"^planes: (ucx://\S+)$", err, re.MULTILINE)
    assert "remote_handle=" in location
    assert re.search(r"^flights: .+", err, re.MULTILINE)


# ---- tensors, and names of bytes ----


@pytest.fixture
def tensors(no_leftovers: None) -> Iterator[xd.Server]:
    matrix = np.arange(6, dtype="f4").reshape(2, 3)
    sources = {"weights": matrix, "model": {"a": {"b": matrix}, "c d": np.array(True)}, "t": TABLE, b"\x00\x01": matrix}
    with xd.serve(sources) as server:
        yield server


def test_ls_shows_tensors_and_names_of_bytes(tensors):
    out, _ = crossdock("ls", tensors.uri)
    assert [line.split() for line in out.splitlines()] == [
        ["name", "rows", "bytes", "columns", "device", "tensors"],
        [r"b'\x00\x01'", "24", "cpu", "float32", "(2,", "3)"],
        ["model", "25", "cpu", "2", "tensors"],
        ["t", "3", str(next(s["bytes"] for s in tensors.stats()["sources"] if s["name"] == "t")), "2", "cpu"],
        ["weights", "24", "cpu", "float32", "(2,", "3)"],
    ]
    out, _ = crossdock("ls")
    assert r"b'\x00\x01', model, t, weights" in out


def test_ls_for_programs(tensors):
    out, _ = crossdock("ls", tensors.uri, "--json")
    said = json.loads(out)
    assert said["uri"] == tensors.uri
    tables = {entry["name"] or entry["ticket"]: entry for entry in said["tables"]}
    assert set(tables) == {"0001", "model", "t", "weights"}
    assert tables["t"]["rows"] == 3
    assert isinstance(tables["t"]["version"], int)
    out, _ = crossdock("ls", "--json")
    servers = {server["uri"]: server for server in json.loads(out)["servers"]}
    assert servers[tensors.uri]["tables"] == [r"b'\x00\x01'", "model", "t", "weights"]
    assert servers[tensors.uri]["error"] is None


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_its_packages_the_command_says_what_to_install(package, script):
    out = script(
        """
        import sys
        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] == sys.argv[1]:
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        sys.meta_path.insert(0, Refuse())
        from crossdock.cli import main
        main()
        """,
        package,
    ).finish(expect=None)
    said = f"crossdock: the command needs {package}, which isn't installed: pip install 'crossdock[cli]'"
    assert out == f"exit 1\n\n{said}\n"


def test_h_is_help():
    for command in ((), ("ls",), ("serve",)):
        assert crossdock(*command, "-h") == crossdock(*command, "--help")


@pytest.mark.long
def test_get_shows_tensors(tensors, tmp_path):
    for name in ("weights", r"b'\x00\x01'"):
        out, _ = crossdock("get", tensors.uri, name)
        assert f"{name}: float32 (2, 3), 24 bytes" in out
        assert "[[0. 1. 2.]" in out
    out, _ = crossdock("get", tensors.uri, "model")
    assert "model: 2 tensors, 25 bytes" in out
    assert [line.split()[:2] for line in out.splitlines()[2:]] == [['"a"', '"b"'], ['"c', 'd"']]
    crossdock("get", tensors.uri, "weights", "-o", tmp_path / "w.npy")
    assert np.load(tmp_path / "w.npy").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert [path.name for path in tmp_path.iterdir()] == ["w.npy"]


@pytest.mark.long
def test_what_tensors_have_no_place_for(tensors, tmp_path):
    for name, file in (("weights", "w.arrow"), ("t", "t.npy")):
        _, err = crossdock("get", tensors.uri, name, "-o", tmp_path / file, expect=2)
        assert "can't hold what is served" in err
    _, err = crossdock("get", tensors.uri, "model", "-o", tmp_path / "m.npy", expect=1)
    assert "holds one array" in err
    _, err = crossdock("get", tensors.uri, "weights", "--columns", "a", expect=2)
    assert "--columns is for tables" in err
    _, err = crossdock("get", tensors.uri, "b'", expect=2)
    assert "begins as a literal" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_inspect_shows_tensors(tensors):
    out, _ = crossdock("inspect", tensors.uri)
    assert "1 table and 3 names of tensors" in out
    assert "weights: float32 (2, 3), 24 bytes, cpu" in out
    out, _ = crossdock("inspect", tensors.uri, "--json")
    tables = {one["name"]: one for one in json.loads(out)["tables"]}
    assert tables[None]["ticket"] == "0001"
    assert tables["weights"]["shape"] == [2, 3]
    assert (tables["model"]["kind"], tables["model"]["count"], tables["t"]["kind"]) == ("tensors", 2, "table")
    out, _ = crossdock("inspect", tensors.uri, "model")
    assert "bodies: map" in out
    assert "float32  (2, 3)  (12, 4)" in out
    out, _ = crossdock("inspect", tensors.uri, "model", "--json")
    first, second, third = map(json.loads, out.splitlines())
    assert first["kind"] == "tensors"
    assert (second["path"], second["shape"], third["path"]) == (["a", "b"], [2, 3], ["c d"])
    for name, count in (("model", 2), ("weights", 1)):
        out, _ = crossdock("inspect", tensors.uri, name, "--wire")
        lines = out.splitlines()
        assert lines[0] == f"-> tagged    want_data  ticket '{name}'"
        assert sum("metadata  tensor: body" in line for line in lines) == count
        assert sum("free_data" in line for line in lines) == count


def test_serve_takes_a_name_of_bytes(no_leftovers, files):
    serving = Serving(files / "flights.arrow", "--name", r"b'\xff'")
    with xd.connect(serving.uri) as client:
        assert [entry.name for entry in client.list()] == [b"\xff"]
        assert pa.table(client.get(b"\xff")).equals(TABLE)
    out, _ = crossdock("get", serving.uri, r"b'\xff'")
    assert "3 rows" in out
    assert serving.stop() == (0, "", "")


@pytest.mark.parametrize("name", ["plain", "b'x'", '"x"', "'", "b", b"x\0", b"'", b'"', "ünï"])
def test_a_name_that_is_shown_is_read_back(name):
    assert parsed_name(shown_name(name)) == name


def test_different_names_are_shown_differently():
    names = ["x", b"x\0", r"b'x\x00'", "'x'", repr("'x'"), repr(repr("'x'"))]
    assert len({shown_name(name) for name in names}) == len(names)
