"""docs/reference/compatibility.md: its versions are those of the sources, and ends of other versions are told both."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.certificates import Certificates

import crossdock as xd
from crossdock._options import networks

ROOT = Path(__file__).resolve().parent.parent.parent
HELLO, WELCOME, REFUSED = 1, 2, 3
OTHER_VERSION = 1
OTHER = 77


def table() -> dict[str, str]:
    """The version of each row, by what the row is about."""
    rows = re.findall(r"^\| (.+?) \| (.+?) \| .+ \|$", (ROOT / "docs/reference/compatibility.md").read_text(), re.M)
    return {about: version for about, version in rows if version not in ("version", "---")}


def constant(header: str, pattern: str) -> str:
    (found,) = re.findall(pattern, (ROOT / header).read_text())
    return found


# By the begin of a row: where the sources have its version.
SOURCES = {
    "handshake of `shm`": ("src/transport/shm/packets.h", r"kProtocolVersion = (\d+);"),
    "handshake of `tcp`": ("src/transport/net/records.h", r"kProtocolVersion = (\d+);"),
    "messages between peers": ("src/peers/wire.h", r"kVersion = (\d+);"),
    "DLPack": ("include/crossdock/array/dlpack_abi.h", r"#define DLPACK_MAJOR_VERSION (\d+)"),
    "CUDA Array Interface": ("include/crossdock/exchange/cuda_array.h", r"kCudaArrayVersion = (\d+);"),
    "SYCL USM array interface": ("include/crossdock/exchange/usm_array.h", r"kUsmArrayVersion = (\d+);"),
    "`libcrossdock_c.so`": ("src/c_api/CMakeLists.txt", r"SOVERSION (\d+)"),
    "`libcrossdock.so` (C++)": ("CMakeLists.txt", r"project\(crossdock VERSION (\d+\.\d+)"),
}


@pytest.mark.parametrize("about", SOURCES)
def test_the_table_has_the_versions_of_the_sources(about):
    (version,) = [version for row, version in table().items() if row.startswith(about)]
    assert version == constant(*SOURCES[about])


def test_every_row_with_a_number_is_compared():
    numbered = [row for row, version in table().items() if re.fullmatch(r"[\d.]+", version)]
    assert len(numbered) == len(SOURCES)


def handshake(scheme: str, kind: int, rest: bytes = b"") -> bytes:
    """A packet or record of version OTHER, as both ends begin theirs."""
    if scheme == "shm":
        return struct.pack("<8sII", b"XDOCKSHM", kind, OTHER) + rest
    return struct.pack("<8sIIII", b"XDOCKTCP", kind, OTHER, 24 + len(rest), 0) + rest


def ours(scheme: str) -> str:
    return constant(*SOURCES[f"handshake of `{'shm' if scheme == 'shm' else 'tcp'}`"])


@contextlib.contextmanager
def connected(uri: str) -> Iterator[socket.socket]:
    scheme, address = uri.split(":", 1)
    if scheme == "shm":
        end, where = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET), address
    else:
        host, port = address.removeprefix("//").split(":")
        end, where = socket.socket(), (host, int(port))
    with end:
        end.settimeout(20)
        end.connect(where)
        yield end


@pytest.mark.parametrize("scheme", ["shm", "tcp", "tcp+tls", "fabric"])
def test_a_client_of_another_version_is_told_both(scheme, tmp_path):
    """ucx, whose handshake is in its own messages: tests/unit/transport/ucx/handshake_test.cc."""
    uri, tls = f"{scheme}://127.0.0.1:0", None
    if scheme == "shm":
        uri = f"shm:{tmp_path / 'socket'}"
    elif scheme == "tcp+tls":
        certificates = Certificates(tmp_path)
        tls = xd.TLS(certificate=certificates.server, key=certificates.key(certificates.server))
    elif scheme == "fabric" and not any(one["transport"] == "fabric" and one["found"] for one in networks()):
        pytest.skip("needs libfabric")
    with contextlib.ExitStack() as ends:
        server = ends.enter_context(xd.serve({}, uri, tls=tls))
        client = ends.enter_context(connected(server.uri))
        if tls is not None:
            context = ssl.create_default_context(cafile=str(certificates.issuer))
            context.set_alpn_protocols(["crossdock"])
            client = ends.enter_context(context.wrap_socket(client, server_hostname="127.0.0.1"))
        client.sendall(handshake(scheme, HELLO, bytes(72)))
        answer = client.recv(4096)
        start = 16 if scheme == "shm" else 24
        assert struct.unpack_from("<I", answer, 8) == (REFUSED,)
        code, length = struct.unpack_from("<II", answer, start)
        reason = answer[start + 8 : start + 8 + length].decode()
        assert code == OTHER_VERSION
        assert f"version {OTHER}" in reason
        assert f"version {ours(scheme)}" in reason


@pytest.mark.parametrize("refuses", [True, False])
@pytest.mark.parametrize("scheme", ["shm", "tcp"])
def test_a_server_of_another_version_is_an_error_with_both(scheme, refuses, tmp_path):
    """It refuses, or answers as if it hadn't seen the version."""
    if scheme == "shm":
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(tmp_path / "socket"))
        uri = f"shm:{tmp_path / 'socket'}"
    else:
        listener = socket.create_server(("127.0.0.1", 0))
        uri = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    listener.listen()
    listener.settimeout(20)

    def serve() -> None:
        end, _ = listener.accept()
        with end:
            end.recv(4096)
            kind, rest = (REFUSED, struct.pack("<II", OTHER_VERSION, 0)) if refuses else (WELCOME, bytes(76))
            end.sendall(handshake(scheme, kind, rest))
            end.settimeout(20)
            assert end.recv(4096) == b"", "the client sends nothing else"

    with listener:
        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(xd.HandshakeError) as raised:
            xd.connect(uri)
        thread.join()
    assert f"version {OTHER}" in str(raised.value)
    assert f"version {ours(scheme)}" in str(raised.value)
