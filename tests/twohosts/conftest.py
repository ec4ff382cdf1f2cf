"""Two hosts for each test, and programs in them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bench import _peers
from tests.twohosts import hosts as support

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("CROSSDOCK_BUILD_DIR", ROOT / "build" / "dev"))

TRANSPORTS = ["tcp", "ucx", "fabric"]  # Each test runs over each of them.
PORT = 7700

# What clients begin with.
PRELUDE = """
import sys
import pyarrow as pa
import crossdock as xd
from tests.twohosts import data
uri = sys.argv[1]
checksum = True if uri.startswith("tcp:") else None  # The others have none.
def say(text):
    print(text, flush=True)
def say_error(call):
    try:
        call()
    except (xd.Error, KeyboardInterrupt) as error:
        say(f"{type(error).__name__}: {error}")
    else:
        say("no error")
"""


@pytest.fixture
def hosts(no_leftovers: None) -> Iterator[support.TwoHosts]:
    if why := support.why_not():
        pytest.skip(why)
    with support.TwoHosts() as two:
        yield two


@pytest.fixture
def only_tcp(uri: str) -> None:
    """For networks that a proxy of one port makes: UCX and libfabric open ports of their own."""
    if not uri.startswith("tcp:"):
        pytest.skip("the proxy passes one port on, and this transport has more")


@pytest.fixture
def notices_lost_peers(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """UCX knows a time limit for acknowledgements since 1.22: the programs of such a test use the newer one."""
    if uri.startswith("ucx:"):
        version = _peers.ucx_version()
        if version >= (1, 22):
            return
        if (newer := _peers.newer_ucx()) is None:
            pytest.skip(f"UCX {'.'.join(map(str, version))} has no time limit for acknowledgements; {_peers.HOW}")
        monkeypatch.setenv("CROSSDOCK_UCX_LIBRARY", str(newer))


@pytest.fixture(params=TRANSPORTS)
def uri(request: pytest.FixtureRequest) -> str:
    """Where servers listen."""
    return f"{request.param}://{support.SERVER_ADDRESS}:{PORT}"


@pytest.fixture
def prepare(hosts: support.TwoHosts, program: Callable[..., Any], uri: str) -> Callable[[], Any]:
    """Starts a program in the server's host that serves once it gets a line."""

    def start() -> Any:
        server = program(*hosts.server.within, sys.executable, "-m", "tests.twohosts.server", uri)
        assert server.read_line() == "ready"
        return server

    return start


@pytest.fixture
def serve(prepare: Callable[[], Any], uri: str) -> Callable[[], Any]:
    """Starts a server in its host: tests/twohosts/server.py."""

    def start() -> Any:
        server = prepare()
        server.write_line()
        assert server.read_line() == uri
        return server

    return start


@pytest.fixture
def client(hosts: support.TwoHosts, script: Callable[..., Any], uri: str) -> Callable[..., Any]:
    """Starts Python code in the client's host, after PRELUDE: client(code, *arguments)."""
    return lambda code, *arguments: script(PRELUDE + code, uri, *arguments, within=hosts.client.within)


@pytest.fixture
def peer(hosts: support.TwoHosts, program: Callable[..., Any], uri: str) -> Callable[..., Any]:
    """Starts peer.cc in a host: peer("get", name), peer("serve")."""

    def start(role: str, *arguments: str) -> Any:
        host = hosts.server if role == "serve" else hosts.client
        return program(*host.within, str(BUILD / "tests/twohosts/twohosts_peer"), role, uri, *arguments)

    return start
