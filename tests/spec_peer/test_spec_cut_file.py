"""A served file that is cut off while a client stalls in the middle of a body: over tcp that ends this connection, by
name, and nothing else; whether its bytes are sent from the mapping or through a checksum."""

from __future__ import annotations

import re
import select
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pytest
import tcp_carrier

import crossdock as xd

CHECKSUMS = tcp_carrier.KNOWS_CHECKSUMS | tcp_carrier.ASKS_FOR_CHECKSUMS
# More than the system keeps of a connection.
ROWS = 6_000_000
KEPT = 40 << 20
OTHER = pa.table({"n": [1, 2, 3]})

SERVE = """
import logging, pathlib, sys
import pyarrow as pa
import crossdock as xd
logging.basicConfig(level=logging.INFO)
source = pathlib.Path(sys.argv[1])
if sys.argv[2] == "live":
    source = lambda: xd.open(sys.argv[1])
with xd.serve({"file": source, "other": pa.table({"n": [1, 2, 3]})}, "tcp:") as server:
    print(server.uri, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "f.arrow"
    xd.write(pa.table({"n": np.arange(ROWS)}), path)
    with path.open("r+b"):  # somebody has it open for writing, so that the system grants the server no lease
        yield path


class Stalling:
    """A connection whose server is in the middle of the file's only body."""

    def __init__(self, uri: str, features: int) -> None:
        parts = urlsplit(uri)
        assert parts.hostname is not None
        assert parts.port is not None
        carrier = tcp_carrier.connect(parts.hostname, parts.port, features=features)
        self.socket = carrier.socket
        self.socket.settimeout(60)
        carrier.send(b"file", carrier.want_data)
        while True:
            kind, _, _, self.length = struct.unpack("<BxxxIQQ", carrier._read(24))
            if kind == tcp_carrier.BODY:
                break
            trailer = -(self.length + 4) % 8 + 4 if carrier.checksums and self.length else -self.length % 8
            carrier._read(self.length + trailer)

    def rest(self) -> int:
        """How many bytes of the body, and after it, still come until the server ends the connection."""
        got = 0
        while True:
            try:
                part = self.socket.recv(1 << 20)
            except ConnectionError:
                part = b""
            if not part:
                self.socket.close()
                return got
            got += len(part)


@pytest.mark.long
@pytest.mark.parametrize("source", ["published", "live"])
@pytest.mark.parametrize("features", [0, CHECKSUMS], ids=["plain", "checksums"])
def test_a_file_that_is_cut_off_ends_the_connection_alone(path: Path, source: str, features: int) -> None:
    server = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(path), source],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    assert select.select([server.stdout], [], [], 60)[0]
    uri = server.stdout.readline().strip()
    stalling = Stalling(uri, features)
    assert stalling.length == ROWS * 8
    with path.open("r+b") as file:
        file.truncate(KEPT)
    assert stalling.rest() < KEPT
    with xd.connect(uri, timeout=60, checksum=True if features else None) as client:
        assert pa.table(client.get("other")).equals(OTHER)
    _, said = server.communicate(timeout=60)
    assert server.returncode == 0
    # Either the bytes are missed first, or the file is looked at again first.
    assert re.search("(a connection|the stream 'file' to .*) ended: FileChangedError: ", said), said
