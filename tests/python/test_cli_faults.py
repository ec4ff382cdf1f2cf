"""What the command does where something else fails: disks, ports, terminals, outputs."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from rich.cells import cell_len
from tests.service import COMMAND, Service
from tests.terminal import on_a_terminal

import crossdock as xd

BIG = pa.table({"n": list(range(500_000))})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    xd.write(pa.table({"n": [1, 2, 3]}), tmp_path / "t.arrow")
    return tmp_path / "t.arrow"


@pytest.fixture
def on_a_small_disk(tmp_path: Path) -> Iterator[object]:
    """Runs a shell command with a file system of 1 MiB at $DISK, which no other process sees."""
    disk = tmp_path / "disk"
    disk.mkdir()
    within = ["unshare", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=1m none {disk} || exit 99; "
    if not shutil.which("unshare") or subprocess.run([*within, mount], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here: that needs the program unshare, and root")

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*within, mount + command],
            capture_output=True, text=True, check=False, timeout=120, env=os.environ | {"DISK": str(disk)},
        )  # fmt: skip

    return run  # type: ignore[return-value]


@pytest.mark.parametrize("suffix", ["arrow", "arrows", "parquet", "csv"])
def test_a_full_disk_is_an_error_with_the_files_name(on_a_small_disk, suffix):
    with xd.serve({"big": BIG}) as server:
        command = (
            f'{" ".join(COMMAND)} get {server.uri} big -o "$DISK/out.{suffix}"; code=$?; ls -A "$DISK"; exit $code'
        )
        done = on_a_small_disk(command)
    assert done.returncode == 1
    assert done.stdout == "", "a part of the file was left"
    (line,) = done.stderr.splitlines()
    assert f"/disk/out.{suffix}" in line
    assert "No space left on device" in line


def test_a_full_disk_while_a_tensor_is_written(on_a_small_disk):
    np = pytest.importorskip("numpy")
    with xd.serve({"big": np.zeros(1 << 20)}) as server:
        done = on_a_small_disk(f'{" ".join(COMMAND)} get {server.uri} big -o "$DISK/out.npy"')
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "/disk/out.npy can't be written" in line


def test_a_port_that_is_taken_is_named(path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        uri = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            [*COMMAND, "serve", str(path), "--uri", "shm:t", "--uri", uri], capture_output=True, text=True, check=False
        )
    assert done.returncode == 4
    (line,) = done.stderr.splitlines()
    assert uri.removeprefix("tcp://") in line
    assert not (Path(os.environ["XDG_RUNTIME_DIR"]) / "crossdock" / "t.sock").exists()


@pytest.mark.long
def test_a_narrow_terminal(path, tmp_path):
    for arguments, code in ((("serve", tmp_path / "absent.arrow"), 3), (("serve", "--help"), 0), (("ls", "shm:no"), 4)):
        out = on_a_terminal([*COMMAND, *map(str, arguments)], columns=20, expect=code).decode()
        assert "Traceback" not in out
        assert out.strip()
    for line in on_a_terminal([*COMMAND, "ls", "shm:no"], columns=20, expect=4).decode().splitlines():
        assert cell_len(line.strip()) <= 20 or len(line.split()) == 1  # a word stays whole


@pytest.mark.parametrize("descriptor", [1, 2])
def test_an_output_that_is_closed(path, no_leftovers, descriptor):
    """The shell has closed it: its number must not become that of a socket."""
    command = " ".join([*COMMAND, "--log-level", "info", "serve", str(path), "--uri", "shm:closed", f"{descriptor}>&-"])
    serving = subprocess.Popen(
        ["sh", "-c", f"exec {command}"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert serving.stdout is not None
        assert serving.stderr is not None
        if descriptor == 2:
            assert serving.stdout.readline() == b"shm:closed\n"
        else:
            while b"published t" not in (line := serving.stderr.readline()):
                assert line
        with xd.connect("shm:closed") as client:
            assert pa.table(client.get("t")).num_rows == 3
    finally:
        serving.send_signal(signal.SIGTERM)
        out, err = serving.communicate(timeout=60)
    assert serving.returncode == 0
    assert out == b""
    assert b"Traceback" not in err


def test_a_reader_of_the_uri_that_has_ended(path, no_leftovers):
    receiving, sending = os.pipe()
    os.close(receiving)
    done = subprocess.run([*COMMAND, "serve", str(path)], stdout=sending, stderr=subprocess.PIPE, check=False)
    os.close(sending)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_terminal_that_is_closed_ends_it(path, no_leftovers):
    master, slave = pty.openpty()
    serving = subprocess.Popen(
        ["setsid", "--ctty", *COMMAND, "serve", str(path)], stdin=slave, stdout=subprocess.PIPE, stderr=slave
    )
    os.close(slave)
    assert serving.stdout is not None
    assert serving.stdout.readline() == b"shm:t\n"
    os.close(master)
    assert serving.wait(60) == 0
    serving.stdout.close()


def test_a_service_without_a_terminal_says_nothing_beside_the_uri(path, no_leftovers):
    service = Service("serve", path)
    assert service.stop() == 0
    assert service.errors == []
    service.close()
