"""A server that everybody who reaches it may use says so in its log, once for each such address."""

from __future__ import annotations

import signal
import subprocess
import sys

import pyarrow as pa
import pytest
from tests.children import Child

import crossdock as xd

OPEN = "is open to everybody who reaches it"


def log_of(tmp_path, *options: str, token: str | None = None) -> str:
    """What `crossdock serve` writes to standard error until it is told to end."""
    xd.write(pa.table({"x": [1]}), tmp_path / "t.arrow")
    if token is not None:
        secret = tmp_path / "token"
        secret.write_text(token)
        secret.chmod(0o600)
        options = (*options, "--token-file", str(secret))
    command = [sys.executable, "-m", "crossdock", "serve", str(tmp_path / "t.arrow"), *options]
    with Child(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        first = serving.stdout.readline()
        serving.send_signal(signal.SIGTERM)
        log = serving.communicate(timeout=60)[1]
    assert first, log
    assert serving.returncode == 0, log
    return log


@pytest.mark.parametrize("uri", ["tcp://*:0", "tcp://0.0.0.0:0", "tcp://[::]:0"])
def test_an_address_for_other_machines_without_a_token(tmp_path, uri):
    log = log_of(tmp_path, "--uri", uri, "--uri", "shm:")
    assert log.count(OPEN) == 1
    assert "Set a token" in log


@pytest.mark.parametrize("uri", ["tcp://*:0", "tcp://0.0.0.0:0"])
def test_a_token_is_asked_for(tmp_path, uri):
    assert OPEN not in log_of(tmp_path, "--uri", uri, token="a long secret")


@pytest.mark.parametrize("uri", ["shm:", "tcp:", "tcp://127.0.0.2:0", "tcp://localhost:0"])
def test_only_this_machine_reaches_it(tmp_path, uri):
    assert OPEN not in log_of(tmp_path, "--uri", uri)


def test_each_address_is_named(tmp_path):
    log = log_of(tmp_path, "--uri", "tcp://*:0", "--uri", "tcp://0.0.0.0:0", "--uri", "tcp:")
    assert log.count(OPEN) == 2


def available(scheme: str) -> bool:
    try:
        xd.serve(uri=f"{scheme}://127.0.0.1:0").close()
    except (xd.UnsupportedError, xd.SchemeError):
        return False
    return True


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["ucx", "fabric"])
def test_other_networks(tmp_path, scheme):
    if not available(scheme):
        pytest.skip(f"{scheme} isn't available")
    assert log_of(tmp_path, "--uri", f"{scheme}://0.0.0.0:0").count(OPEN) == 1
    assert OPEN not in log_of(tmp_path, "--uri", f"{scheme}://0.0.0.0:0", token="a long secret")
    assert OPEN not in log_of(tmp_path, "--uri", f"{scheme}://127.0.0.1:0")


@pytest.mark.long
def test_flight(tmp_path):
    try:
        xd.serve(flight="grpc://127.0.0.1:0").close()
    except (xd.SchemeError, xd.UnsupportedError):
        pytest.skip("Flight isn't available")
    assert log_of(tmp_path, "--flight", "grpc://*:0").count(OPEN) == 1
    assert OPEN not in log_of(tmp_path, "--flight", "grpc://*:0", token="a long secret")
    for loopback in ("127.0.0.1", "[::1]", "localhost"):
        assert OPEN not in log_of(tmp_path, "--flight", f"grpc://{loopback}:0")
