"""Certificates for tests, which the command `openssl` makes when they run."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Certificates:
    """An issuer, a server at 127.0.0.1 and a client, as files that `openssl` makes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.issuer = self._self_signed("issuer", "basicConstraints=critical,CA:TRUE")
        self.server = self._issued("server", "subjectAltName=IP:127.0.0.1,DNS:localhost")
        self.client = self._issued("client", "subjectAltName=DNS:client.example")
        self.other = self._self_signed("other", "basicConstraints=critical,CA:TRUE")

    def named(self, name: str) -> Path:
        """Makes the certificate of a server at another host."""
        return self._issued(name, f"subjectAltName=DNS:{name}")

    def expired(self) -> Path:
        """Makes the certificate of a server at 127.0.0.1 that was valid until yesterday."""
        return self._issued("expired", "subjectAltName=IP:127.0.0.1", days=-1)

    def expired_client(self) -> Path:
        """Makes the certificate of a client that was valid until yesterday."""
        return self._issued("expired-client", "subjectAltName=DNS:client.example", days=-1)

    def key(self, certificate: Path) -> Path:
        return certificate.with_suffix(".key")

    def _openssl(self, *arguments: str | Path) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=self._folder)

    def _self_signed(self, name: str, extension: str) -> Path:
        made = self._folder / f"{name}.pem"
        new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.key(made))
        self._openssl(
            "req", "-x509", *new_key, "-days", "1", "-subj", f"/CN={name}", "-addext", extension, "-out", made
        )  # fmt: skip
        return made

    def _issued(self, name: str, extension: str, days: int = 1) -> Path:
        made = self._folder / f"{name}.pem"
        request = self._folder / f"{name}.csr"
        (self._folder / f"{name}.ext").write_text(extension)
        new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.key(made))
        self._openssl("req", *new_key, "-subj", f"/CN={name}", "-out", request)
        issuer = ("-CA", self.issuer, "-CAkey", self.key(self.issuer), "-CAcreateserial")
        self._openssl(
            "x509", "-req", "-in", request, *issuer, "-days", str(days), "-extfile", f"{name}.ext", "-out", made
        )
        return made
