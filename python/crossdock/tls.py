"""Certificates and keys for connections over TLS."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias, final

from crossdock import _native
from crossdock._files import is_pem_text, read_small, shown_path
from crossdock._text import check_utf8, class_of, naming
from crossdock.errors import InvalidArgumentError

__all__ = ["TLS"]

Pem: TypeAlias = str | os.PathLike[str] | bytes

_PARTS = ("certificate", "key", "roots", "client_roots")
_MOST = 16 << 20  # bytes of a file: more than any store of roots has


class PemText(NamedTuple):
    """A PEM text, and how errors name it."""

    text: bytes
    named: str


def read_pem(source: Pem, what: str, check: Callable[[int], None] | None = None) -> PemText:
    """Returns the PEM text that is given, or that is in the file at a path. what: how errors name it, to which the file
    is added. check: is called with the file's descriptor before it is read."""
    if isinstance(source, bytes):
        found = PemText(source, what)
    elif not isinstance(source, str | os.PathLike):
        raise TypeError(f"{what} must be the path of a PEM file, or its bytes, not {class_of(source)}")
    elif is_pem_text(path := os.fsdecode(source)):
        as_bytes = "it as bytes, or " if isinstance(source, str) else ""
        raise InvalidArgumentError(f"{what} is a PEM text: give {as_bytes}the path of its file")
    elif not path:
        raise InvalidArgumentError(f"{what} is an empty path: give the path of a PEM file, or its bytes")
    else:
        file = f"the file {shown_path(path)}"
        with naming(what):
            found = PemText(read_small(path, file, _MOST, check), f"{what}: {file}")
    if not found.text:
        raise InvalidArgumentError(f"{found.named} is empty")
    return found


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

    Immutable.

    Raises `InvalidArgumentError` for wrong content, for a certificate without its key and the reverse, and for a key of
    another certificate; `NotFoundError`, `PermissionError` or `SystemError` for a file that can't be read. The error
    names the argument and the file.
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
        given = {"certificate": certificate, "key": key, "roots": roots, "client_roots": client_roots}
        texts = {part: read_pem(source, f"{part} of xd.TLS") for part, source in given.items() if source is not None}
        self._set(texts, server_name)

    @classmethod
    def _of(cls, texts: Mapping[str, PemText]) -> TLS:
        """Makes one of texts that errors name as these do. Their keys are the names of the arguments."""
        made = cls.__new__(cls)
        made._set(texts, None)
        return made

    def _set(self, texts: Mapping[str, PemText], server_name: str | None) -> None:
        self._given = frozenset([*texts, *([] if server_name is None else ["server_name"])])
        certificate, key, roots, client_roots = (texts.get(part, PemText(b"", "")) for part in _PARTS)
        self._native = _native.TlsOptions(
            certificate.text,
            key.text,
            roots.text,
            client_roots.text,
            server_name or "",
            (certificate.named, key.named, roots.named, client_roots.named),
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
