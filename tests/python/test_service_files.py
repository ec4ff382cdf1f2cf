"""The unit for systemd and the file for containers in examples/service, with the tools that read them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.service import COMMAND

FOLDER = Path(__file__).parents[2] / "examples" / "service"
ANALYZE = shutil.which("systemd-analyze")


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
