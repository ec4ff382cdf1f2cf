"""Ends with UCX of two series reject each other, say why, and go on with peers of their own series."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench import _peers

from crossdock import _options

SERVER = """
import sys
import pyarrow as pa, crossdock as xd
with xd.serve({"t": pa.table({"n": list(range(100_000))})}, "ucx://127.0.0.1:0") as server:
    print(server.uri, flush=True)
    sys.stdin.readline()
"""

CLIENT = """
import sys
import pyarrow as pa, crossdock as xd
try:
    with xd.connect(sys.argv[1], timeout=20) as client:
        assert pa.table(client.get("t")) == pa.table({"n": list(range(100_000))})
except xd.Error as error:
    print(f"{type(error).__name__}: {error}")
else:
    print("got it")
"""


@pytest.fixture
def libraries() -> dict[str, str]:
    """UCX of each series: the system's and the newer one."""
    found = next(one for one in _options.networks() if one["transport"] == "ucx")
    if not found["found"]:
        pytest.skip(f"no UCX: {found['tried']}")
    if (newer := _peers.newer_ucx()) is None:
        pytest.skip(f"UCX {found['version']} alone is here; {_peers.HOW}")
    if Path(found["library"]).resolve() == newer.resolve():
        pytest.skip(f"UCX {found['version']} alone is here")
    return {"system": str(found["library"]), "newer": str(newer)}


@pytest.mark.parametrize(("server_has", "client_has"), [("system", "newer"), ("newer", "system")])
def test_another_series_is_rejected_and_ends_nobody_else(
    libraries: dict[str, str],
    script: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    server_has: str,
    client_has: str,
) -> None:
    monkeypatch.setenv("CROSSDOCK_UCX_LIBRARY", libraries[server_has])
    server = script(SERVER)
    uri = server.read_line()
    for has, expected in ((client_has, "ConnectionError: "), (server_has, "got it")) * 2:
        monkeypatch.setenv("CROSSDOCK_UCX_LIBRARY", libraries[has])
        said = script(CLIENT, uri).finish()
        assert said.startswith(expected)
        if has == client_has:
            assert "both ends need UCX of the same series" in said
            assert libraries[client_has] in said
    server.write_line()
    server.finish()
