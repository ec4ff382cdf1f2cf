"""The unit for systemd and the file for containers in examples/service, with the tools that read them."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.service import COMMAND, Service

import crossdock as xd

FOLDER = Path(__file__).parents[2] / "examples" / "service"
ANALYZE = shutil.which("systemd-analyze")
STRACE = shutil.which("strace")


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit, with a command that is there."""
    text = (FOLDER / "crossdock.service").read_text()
    copy = tmp_path / "crossdock.service"
    copy.write_text(text.replace("/usr/local/bin/crossdock", sys.executable))
    return copy


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze isn't here: Debian's package systemd has it")
def test_systemd_takes_the_unit(unit):
    assert ANALYZE is not None
    done = subprocess.run([ANALYZE, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze isn't here: Debian's package systemd has it")
def test_the_unit_is_well_protected(unit):
    assert ANALYZE is not None
    done = subprocess.run(
        [ANALYZE, "security", "--offline=true", "--threshold=20", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def allowed(group: str) -> set[str]:
    """The system calls of a group of systemd's."""
    listed = subprocess.run([str(ANALYZE), "syscall-filter", group], capture_output=True, text=True, check=True).stdout
    names = [line.strip() for line in listed.splitlines()[1:] if line.strip() and not line.strip().startswith("#")]
    return set().union(*(allowed(name) if name.startswith("@") else {name} for name in names))


@pytest.mark.long
@pytest.mark.skipif(ANALYZE is None or STRACE is None, reason="needs systemd-analyze and strace, of Debian's packages")
def test_the_unit_allows_the_system_calls_that_are_made(tmp_path, no_leftovers):
    """Of a service that starts, serves, reloads, and ends. Calls that systemd has no name for fail there."""
    assert STRACE is not None
    for name in ("a.arrow", "b.parquet"):
        table = pa.table({"n": [1]})
        pa.parquet.write_table(table, tmp_path / name) if name.endswith("parquet") else xd.write(table, tmp_path / name)
    (tmp_path / "c.toml").write_text('[tables]\na = "a.arrow"\nb = "b.parquet"\n')
    calls = tmp_path / "calls"
    service = Service(
        "--log-level", "info", "serve", "--config", tmp_path / "c.toml", "--uri", "tcp:", "--uri", "shm:traced",
        before=(STRACE, "-f", "-D", "-o", str(calls)), lines=2,
    )  # fmt: skip
    try:
        if not service.uri:
            pytest.skip("this system lets no process trace another")
        for uri in service.uris:
            with xd.connect(uri) as client:
                assert pa.table(client.get("b")).num_rows == 1
        service.send(signal.SIGHUP)
        service.read_until("reloaded")
        assert service.stop() == 0
    finally:
        service.close()
    made = set(re.findall(r"^\d+ +(\w+)\(", calls.read_text(), re.MULTILINE))
    assert {"memfd_create", "sendmsg", "epoll_wait"} <= made
    unknown = {name for name in made if name.startswith("syscall_0x")}
    assert made - unknown - (allowed("@system-service") - allowed("@privileged")) == set()


def test_the_configuration_is_valid():
    done = subprocess.run(
        [*COMMAND, "serve", "--config", str(FOLDER / "crossdock.toml"), "--check"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("valid: 0 tables")


def test_the_unit_has_options_that_there_are():
    (command,) = re.findall(r"^ExecStart=\S+ (.*)$", (FOLDER / "crossdock.service").read_text(), re.MULTILINE)
    help_ = subprocess.run([*COMMAND, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    for option in re.findall(r"--[a-z-]+", command):
        assert option in help_


def test_the_container_has_the_socket_of_the_configuration():
    uris = tomllib.loads((FOLDER / "crossdock.toml").read_text())["server"]["uri"]
    text = (FOLDER / "Containerfile").read_text()
    assert f'"crossdock", "ls", "{uris[0]}"' in text
    assert f"EXPOSE {uris[1].rpartition(':')[2]}" in text


def test_a_container_tool_takes_the_file():
    docker = shutil.which("docker")
    if docker is None:
        pytest.skip("docker isn't here, which checks container files")
    done = subprocess.run(
        [docker, "build", "--check", "--file", str(FOLDER / "Containerfile"), str(FOLDER.parents[1])],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    if "Cannot connect to the Docker daemon" in done.stderr or "unknown flag" in done.stderr:
        pytest.skip("docker can't check container files here")
    assert done.returncode == 0, done.stderr
