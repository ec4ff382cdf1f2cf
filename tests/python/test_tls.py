"""tcp+tls in the package and in the command: certificates of both ends, and what is said of bad ones."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.certificates import Certificates

import crossdock as xd

TABLE = pa.table({"n": range(100_000)})
CLI = [sys.executable, "-m", "crossdock"]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def of_server(certificates: Certificates) -> xd.TLS:
    return xd.TLS(certificate=certificates.server, key=certificates.key(certificates.server))


@pytest.fixture
def server(of_server: xd.TLS) -> Iterator[xd.Server]:
    with xd.serve({"t": TABLE}, ["shm:", "tcp+tls:"], tls=of_server, token="a token") as serving:
        yield serving


def _uri(server: xd.Server) -> str:
    return next(uri for uri in server.uris if uri.startswith("tcp+tls:"))


def test_tables_cross_and_the_statistics_say_what_carries_them(server: xd.Server, certificates: Certificates) -> None:
    with xd.connect(_uri(server), tls=xd.TLS(roots=certificates.issuer), token="a token") as client:
        assert client.list()[0].way == "message"
        assert pa.table(client.get("t")) == TABLE
        assert [one["carrier"] for one in server.stats()["consumers"]] == ["tcp+tls"]


def test_a_pem_text_may_be_given_as_bytes(server: xd.Server, certificates: Certificates) -> None:
    roots = certificates.issuer.read_bytes()
    with xd.connect(_uri(server), tls=xd.TLS(roots=roots), token="a token") as client:
        assert pa.table(client.get("t")) == TABLE


class _Named:
    """A path of a class of its own."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __fspath__(self) -> str:
        return self._path


@pytest.mark.parametrize("before", ["", "\n", " ", "\ufeff", "Bag Attributes\n    localKeyID: 01\n"])
@pytest.mark.parametrize("kind", [str, Path, _Named])
def test_a_pem_text_in_place_of_a_path_is_not_quoted(
    certificates: Certificates, before: str, kind: Callable[[str], Any]
) -> None:
    pem = certificates.key(certificates.server).read_text()
    secret = pem.splitlines()[2]
    for text in (before + pem, before.strip("\ufeff") + "".join(pem.splitlines()[1:-1])):
        if before.startswith("Bag") and text.startswith("Bag") and "BEGIN" not in text:
            continue
        with pytest.raises(xd.InvalidArgumentError) as error:
            xd.TLS(certificate=certificates.server, key=kind(text))
        assert secret not in str(error.value) + repr(error.value.__cause__) + repr(error.value.__context__)
        as_bytes = "it as bytes, or " if kind is str else ""
        assert str(error.value) == f"key of xd.TLS is a PEM text: give {as_bytes}the path of its file"


def test_files_and_live_streams_cross(of_server: xd.TLS, certificates: Certificates, tmp_path: Path) -> None:
    xd.write(TABLE, tmp_path / "t.arrow")
    live = pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(max_chunksize=1000))
    with (
        xd.serve({"file": tmp_path / "t.arrow", "live": live}, "tcp+tls:", tls=of_server) as server,
        xd.connect(server.uri, tls=xd.TLS(roots=certificates.issuer)) as client,
    ):
        assert pa.table(client.get("file")) == TABLE
        assert pa.table(client.get("live")) == TABLE


def test_a_file_that_is_cut_off_ends_a_stream_and_not_the_server(
    of_server: xd.TLS, certificates: Certificates, tmp_path: Path
) -> None:
    path = tmp_path / "t.arrow"
    xd.write(pa.table({"n": np.arange(8_000_000)}), path)
    with (
        # A file that is open for writing gets no lease, by which the system would have truncate() wait for 45 s.
        path.open("r+b") as writer,
        xd.serve({"t": path}, "tcp+tls:", tls=of_server) as server,
        xd.connect(server.uri, tls=xd.TLS(roots=certificates.issuer)) as client,
    ):
        reader = client.get("t")
        writer.truncate(10_000_000)
        with pytest.raises((xd.TruncatedStreamError, xd.FileChangedError)):
            for _ in reader:
                pass
        assert server.stats()["accepted_connections"] >= 1, "it lives"


def test_certificates_are_checked(server: xd.Server, certificates: Certificates) -> None:
    with pytest.raises(xd.PermissionError, match=r"signed itself|issuer isn't trusted"):
        xd.connect(_uri(server), tls=xd.TLS(roots=certificates.other), token="a token")
    with pytest.raises(xd.PermissionError, match="isn't trusted by this system"):
        xd.connect(_uri(server), token="a token")
    with pytest.raises(xd.PermissionError, match=r"another name than other\.example"):
        xd.connect(_uri(server), tls=xd.TLS(roots=certificates.issuer, server_name="other.example"), token="a token")
    with pytest.raises(xd.PermissionError, match="the token is wrong"):
        xd.connect(_uri(server), tls=xd.TLS(roots=certificates.issuer), token="another")
    with pytest.raises(xd.HandshakeError, match="speaks no TLS"):
        xd.connect(_uri(server).replace("tcp+tls", "tcp"), token="a token")


def test_clients_may_have_to_have_a_certificate(certificates: Certificates) -> None:
    tls = xd.TLS(
        certificate=certificates.server, key=certificates.key(certificates.server), client_roots=certificates.issuer
    )
    with xd.serve({"t": TABLE}, "tcp+tls:", tls=tls) as server:
        with pytest.raises(xd.PermissionError, match="requires a certificate"):
            xd.connect(server.uri, tls=xd.TLS(roots=certificates.issuer))
        own = xd.TLS(
            roots=certificates.issuer, certificate=certificates.client, key=certificates.key(certificates.client)
        )
        with xd.connect(server.uri, tls=own) as client:
            assert pa.table(client.get("t")) == TABLE


def test_options_that_can_not_work_are_named(certificates: Certificates, of_server: xd.TLS) -> None:
    for wrong, call in (
        (xd.TLS(roots=certificates.issuer), lambda tls: xd.serve({}, "tcp+tls:", tls=tls)),
        (xd.TLS(server_name="x"), lambda tls: xd.serve({}, "tcp+tls:", tls=tls)),
        (xd.TLS(client_roots=certificates.issuer), lambda tls: xd.connect("tcp+tls://127.0.0.1:1", tls=tls)),
    ):
        with pytest.raises(xd.InvalidArgumentError, match="for the other end"):
            call(wrong)
    with pytest.raises(xd.InvalidArgumentError, match="a server over TLS needs a certificate and its key"):
        xd.serve({}, "tcp+tls:")
    with pytest.raises(xd.InvalidArgumentError, match=r"tls is for tcp\+tls"):
        xd.serve({}, "tcp:", tls=of_server)
    with pytest.raises(xd.InvalidArgumentError, match=r"tls is for tcp\+tls"):
        xd.connect("tcp://127.0.0.1:1", tls=of_server)
    with pytest.raises(xd.UriError, match=r"'tcp\+tls://\.\.\.@127\.0\.0\.1:1': it has a user, but a token must"):
        xd.connect("tcp+tls://secret@127.0.0.1:1")
    with pytest.raises(TypeError, match=r"roots of xd\.TLS must be the path"):
        xd.TLS(roots=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"tls must be a crossdock\.TLS"):
        xd.connect("tcp+tls://127.0.0.1:1", tls="roots.pem")  # type: ignore[arg-type]
    assert "PRIVATE" not in repr(of_server)


def test_wrong_texts_and_files_are_named_by_their_argument(certificates: Certificates, tmp_path: Path) -> None:
    text = tmp_path / "text.pem"
    text.write_text("no PEM")
    (tmp_path / "empty.pem").touch()
    garbled = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    server, key, other = (
        certificates.server,
        certificates.key(certificates.server),
        certificates.key(certificates.other),
    )
    no_certificate = "has no certificate: give a PEM text with -----BEGIN CERTIFICATE-----"
    wrong: list[tuple[dict[str, Any], type[xd.Error], str]] = [
        ({"roots": "/nowhere/r.pem"}, xd.NotFoundError, "roots of xd.TLS: the file /nowhere/r.pem doesn't exist"),
        ({"roots": tmp_path}, xd.InvalidArgumentError, f"roots of xd.TLS: the file {tmp_path} is a folder, not a file"),
        (
            {"client_roots": tmp_path / "empty.pem"},
            xd.InvalidArgumentError,
            f"client_roots of xd.TLS: the file {tmp_path}/empty.pem is empty",
        ),
        ({"roots": text / "x"}, xd.SystemError, f"roots of xd.TLS: the file {text}/x can't be read: Not a directory"),
        ({"roots": b""}, xd.InvalidArgumentError, "roots of xd.TLS is empty"),
        (
            {"roots": ""},
            xd.InvalidArgumentError,
            "roots of xd.TLS is an empty path: give the path of a PEM file, or its",
        ),
        (
            {"roots": "a\x1b[31mb\nc"},
            xd.NotFoundError,
            "roots of xd.TLS: the file a\\x1b[31mb\\nc doesn't exist",
        ),
        (
            {"roots": "x" * 5000},
            xd.SystemError,
            f"roots of xd.TLS: the file {'x' * 200}... (5,000 characters) can't be read: File name too long",
        ),
        ({"roots": text}, xd.InvalidArgumentError, f"roots of xd.TLS: the file {text} {no_certificate}"),
        ({"roots": b"x"}, xd.InvalidArgumentError, f"roots of xd.TLS {no_certificate}"),
        ({"client_roots": text}, xd.InvalidArgumentError, f"client_roots of xd.TLS: the file {text} {no_certificate}"),
        (
            {"roots": garbled},
            xd.InvalidArgumentError,
            "roots of xd.TLS has a certificate that can't be read: ",
        ),
        (
            {"certificate": text, "key": key},
            xd.InvalidArgumentError,
            f"certificate of xd.TLS: the file {text} {no_certificate}",
        ),
        (
            {"certificate": server, "key": text},
            xd.InvalidArgumentError,
            f"key of xd.TLS: the file {text} is no private key in PEM: ",
        ),
        (
            {"certificate": server, "key": other},
            xd.InvalidArgumentError,
            f"key of xd.TLS: the file {other} isn't the key of the first certificate that is given: ",
        ),
        (
            {"certificate": server},
            xd.InvalidArgumentError,
            f"certificate of xd.TLS: the file {server} is given without a key: give both",
        ),
        ({"key": key}, xd.InvalidArgumentError, f"key of xd.TLS: the file {key} is given without a certificate: "),
    ]
    for arguments, kind, words in wrong:
        with pytest.raises(kind) as error:
            xd.TLS(**arguments)
        assert str(error.value).startswith(words)
        assert "TlsOptions" not in str(error.value)


def test_the_error_of_a_file_that_cannot_be_read_has_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(xd.SystemError) as error:
        xd.TLS(roots=tmp_path / "loop")
    assert error.value.errno == errno.ELOOP

    def deny(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", deny)
        with pytest.raises(xd.PermissionError, match="can't be read: permission denied") as denied:
            xd.TLS(roots=tmp_path / "loop")
    assert denied.value.errno == errno.EACCES


async def _exchange(certificates: Certificates, of_server: xd.TLS) -> None:
    async with await xd.peers.listen("tcp+tls:", tls=of_server) as listener:
        accepting = asyncio.create_task(listener.accept())
        with pytest.raises(xd.PermissionError, match=r"issuer isn't trusted|signed itself"):
            await xd.peers.connect(listener.uris[0], tls=xd.TLS(roots=certificates.other))
        async with (
            await xd.peers.connect(listener.uris[0], tls=xd.TLS(roots=certificates.issuer)) as one,
            await accepting as other,
        ):
            assert not one.same_machine
            await one.send([b"forth", bytes(1 << 20)])
            assert [bytes(memoryview(frame)) for frame in (await other.recv()).frames] == [b"forth", bytes(1 << 20)]
            await other.send([b"back"])
            assert [bytes(memoryview(frame)) for frame in (await one.recv()).frames] == [b"back"]
    with pytest.raises(xd.InvalidArgumentError, match=r"tls is for tcp\+tls"):
        await xd.peers.listen("tcp:", tls=of_server)


def test_peers_exchange_messages(certificates: Certificates, of_server: xd.TLS) -> None:
    asyncio.run(_exchange(certificates, of_server))


def test_the_command_serves_and_gets(certificates: Certificates, tmp_path: Path) -> None:
    xd.write(TABLE, tmp_path / "t.arrow")
    own = ["--tls-certificate", str(certificates.server), "--tls-key", str(certificates.key(certificates.server))]
    serving = subprocess.Popen(
        [*CLI, "serve", "t.arrow", "--uri", "tcp+tls:", *own], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        assert serving.stdout is not None
        uri = serving.stdout.readline().strip()
        assert uri.startswith("tcp+tls://127.0.0.1:")

        def run(*arguments: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run([*CLI, *arguments], cwd=tmp_path, capture_output=True, text=True)

        roots = ["--tls-roots", str(certificates.issuer)]
        got = run("get", uri, "t", "-o", "copy.arrow", *roots)
        assert got.returncode == 0, got.stderr
        assert pa.table(xd.open(tmp_path / "copy.arrow")) == TABLE
        assert run("ls", uri, *roots).returncode == 0
        assert run("inspect", uri, "t", *roots).returncode == 0
        refused = run("ls", uri)
        assert refused.returncode == 1
        assert "PermissionError" in refused.stderr
        assert "--tls-roots" in refused.stderr
        absent = run("ls", uri, "--tls-roots", "absent.pem")
        assert absent.returncode == 3
        assert absent.stderr == "NotFoundError: --tls-roots: the file absent.pem doesn't exist\n"
        wrong = run("ls", uri, "--tls-roots", "t.arrow")
        assert wrong.returncode == 2
        assert wrong.stderr.startswith("InvalidArgumentError: --tls-roots: the file t.arrow has no certificate")
        wrong = run("ls", "tcp://127.0.0.1:1", *roots)
        assert wrong.returncode == 2
        assert "--tls-roots is for tcp+tls" in wrong.stderr
    finally:
        serving.terminate()
        assert serving.wait(10) == 0
