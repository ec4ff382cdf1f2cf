"""Certificates and keys for connections over TLS."""

from __future__ import annotations

import os
from typing import TypeAlias, final

from crossdock import _native
from crossdock._files import open_regular
from crossdock._text import check_utf8, class_of
from crossdock.errors import InvalidArgumentError

__all__ = ["TLS"]

Pem: TypeAlias = str | os.PathLike[str] | bytes

_MOST = 16 << 20  # bytes of a file: more than any store of roots has


def read_pem(source: Pem | None, what: str) -> bytes:
    """Returns the PEM text that is given, or that is in the file at a path."""
    if source is None:
        return b""
    if isinstance(source, bytes):
        return source
    if not isinstance(source, str | os.PathLike):
        raise TypeError(f"{what} must be the path of a PEM file, or its bytes, not {class_of(source)}")
    if isinstance(source, str) and source.startswith("-----BEGIN"):
        raise InvalidArgumentError(f"{what} is a PEM text: give it as bytes, or the path of its file")
    with open_regular(source, f"{what}: {os.fspath(source)}") as file:
        text = file.read(_MOST + 1)
    if not 0 < len(text) <= _MOST:
        raise InvalidArgumentError(f"{what}: {os.fspath(source)} is {'too long' if text else 'empty'} for a PEM file")
    return text


@final
class TLS:
    """The certificates and keys of an end of `tcp+tls:` or `grpc+tls:`: what it proves, and whom it trusts.

    Each is the path of a PEM file, or the bytes of such a file. Files are read once, when the object is made.

    certificate: this end's certificate, and after it those of its issuers up to a root, which may be left out. A server
        needs it; a client only if the server requires one.
    key: the private key of the certificate, not encrypted.
    roots: for clients: the certificates of the issuers that are trusted. None: those that OpenSSL trusts by default, or
        those of SSL_CERT_FILE and SSL_CERT_DIR in the environment.
    client_roots: for servers: the certificates of the issuers of clients' certificates. Every client must then have a
        certificate of one of them. None: clients need none.
    server_name: for clients: the name or the address that the server's certificate must have. None: the URI's host.

    Immutable. A file with wrong content raises `InvalidArgumentError` in `serve()` or `connect()`; one that can't be
    read raises `OSError` here.
    """

    __slots__ = ("_given", "_native")

    def __init__(
        self,
        *,
        certificate: Pem | None = None,
        key: Pem | None = None,
        roots: Pem | None = None,
        client_roots: Pem | None = None,
        server_name: str | None = None,
    ) -> None:
        if not isinstance(server_name, str | None):
            raise TypeError(f"server_name must be a str, not {class_of(server_name)}")
        if server_name is not None:
            check_utf8(server_name, "server_name")
        options = {"roots": roots, "client_roots": client_roots, "server_name": server_name}
        self._given = frozenset(name for name, value in options.items() if value is not None)
        self._native = _native.TlsOptions(
            read_pem(certificate, "certificate"),
            read_pem(key, "key"),
            read_pem(roots, "roots"),
            read_pem(client_roots, "client_roots"),
            server_name or "",
        )

    def _check(self, *, serves: bool) -> None:
        """Refuses what is for the other end: one that was meant to check certificates must not be open to all."""
        wrong = self._given & ({"roots", "server_name"} if serves else {"client_roots"})
        if wrong:
            help_ = "client_roots= has the issuers of clients" if serves else "roots= has the issuers of servers"
            raise InvalidArgumentError(
                f"{' and '.join(sorted(wrong))} of xd.TLS {'is' if len(wrong) == 1 else 'are'} for the other end: "
                f"{help_}; leave {'it' if len(wrong) == 1 else 'them'} out here"
            )

    def __repr__(self) -> str:  # without the key
        return "<crossdock.TLS>"
