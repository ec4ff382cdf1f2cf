"""Whom a client of grpc+tls trusts that names no issuers: whom one of tcp+tls trusts, which is OpenSSL's choice."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pyarrow as pa
import pytest
from tests.interop.encrypted_flight import TABLE, serve

import crossdock as xd

pytestmark = pytest.mark.usefixtures("each_encrypted_grpc")

READ = """
import sys
import pyarrow as pa
import crossdock as xd

for uri in sys.argv[1:]:
    try:
        with xd.connect(uri) as client:
            print(pa.table(client.get("t")).num_rows, "rows")
    except xd.Error as error:
        print(type(error).__name__, error)
"""


@pytest.fixture
def server(certificates):
    with serve(certificates, uri="tcp+tls:") as serving:
        yield serving


@pytest.fixture
def empty(tmp_path):
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


@pytest.fixture
def read(program, server, monkeypatch):
    """Returns what clients of tcp+tls and of grpc+tls print, a line each, that run with these trusted issuers."""

    def run(file, directory) -> list[str]:
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        monkeypatch.setenv("SSL_CERT_DIR", str(directory))
        return program(sys.executable, "-c", READ, server.uri, server.flight_uri).finish().splitlines()

    return run


def _hash(certificate) -> str:
    command = ["openssl", "x509", "-noout", "-subject_hash", "-in", str(certificate)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.long
def test_a_file(certificates, read, empty, tmp_path):
    assert read(certificates.issuer, empty) == ["3 rows"] * 2
    many = tmp_path / "many.pem"
    many.write_bytes(b"a comment\n" + certificates.other.read_bytes() + certificates.issuer.read_bytes())
    assert read(many, empty) == ["3 rows"] * 2
    assert "3 rows" not in read(certificates.other, empty)


@pytest.mark.parametrize(
    ("name", "trusted"),
    [("{hash}.0", True), ("{hash}.1", False), ("issuer.pem", False), ("{hash}.r0", False), ("01234567.0", False)],
)
def test_a_directory_whose_files_have_hashes_as_names(certificates, read, empty, tmp_path, name, trusted):
    shutil.copy(certificates.issuer, empty / name.format(hash=_hash(certificates.issuer)))
    # Else there would be no issuer at all.
    shutil.copy(certificates.other, empty / f"{_hash(certificates.other)}.0")
    (tmp_path / "before").mkdir()
    answers = read(tmp_path / "none.pem", os.pathsep.join([str(tmp_path / "before"), str(empty), "/nowhere"]))
    assert [answer == "3 rows" for answer in answers] == [trusted] * 2, answers


def test_files_of_one_hash_are_numbered(certificates, read, empty):
    name = _hash(certificates.issuer)
    shutil.copy(certificates.other, empty / f"{name}.0")
    shutil.copy(certificates.issuer, empty / f"{name}.1")
    assert read("/nowhere.pem", empty) == ["3 rows"] * 2


def test_a_file_with_a_fault_is_left_out_whole(certificates, read, empty, tmp_path):
    shutil.copy(certificates.other, empty / f"{_hash(certificates.other)}.0")
    bad = tmp_path / "bad.pem"
    bad.write_text(certificates.issuer.read_text() + "-----BEGIN CERTIFICATE-----\n????\n-----END CERTIFICATE-----\n")
    answers = read(bad, empty)
    assert "isn't trusted by this system" in answers[0]
    assert "a certificate wasn't accepted" in answers[1]


def test_without_any_the_places_are_named(read, empty):
    text = read("/nowhere.pem", empty)[1]
    assert text.startswith("InvalidArgumentError this system has no trusted issuers")
    assert re.search(rf"'/nowhere.pem' \(SSL_CERT_FILE\).*'{empty}' \(SSL_CERT_DIR\).*TLS\(roots=\)", text)


def test_issuers_that_are_named_replace_them(certificates, read, server, empty, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")
    monkeypatch.setenv("SSL_CERT_DIR", str(empty))
    with xd.connect(server.flight_uri, tls=xd.TLS(roots=certificates.issuer)) as client:
        assert pa.table(client.get("t")).equals(TABLE)
