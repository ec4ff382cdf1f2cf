"""Options that several commands have, and what they and the environment say about connections."""

from __future__ import annotations

import difflib
import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import crossdock as xd
from crossdock import _loading, _native, _options
from crossdock._names import parsed_name
from crossdock._text import quoted
from crossdock.cli import completion
from crossdock.tls import read_pem

# Titles of sections in the help of commands that have some.
SERVICE, ACCESS = "As a service", "Who may connect"

_NETWORKS = ("tcp", "tcp+tls", "ucx", "fabric", "grpc", "grpc+tls")
SCHEMES = ("shm", *_NETWORKS)


def uri_argument(about: str = "The URI of a server or a relay, as it printed it.", metavar: str = "URI") -> Any:
    """The argument that names a server. about: its help."""
    return typer.Argument(metavar=metavar, help=about, show_default=False, autocompletion=completion.uris)


Uri = Annotated[str, uri_argument()]

Timeout = Annotated[
    float,
    typer.Option(min=0, metavar="SECONDS", help="The time limit for connecting, for each answer and for each batch."),
]

Checksum = Annotated[
    bool | None,
    typer.Option(
        "--checksum/--no-checksum",
        help="Over tcp and tcp+tls, check that the network hasn't changed any bytes (CRC-32C). Default: only if the "
        "other end asks for it.",
        show_default=False,
    ),
]

TlsCertificate = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Over tcp+tls and grpc+tls: this end's certificate (PEM), followed by those of its issuers. A server "
        "needs one, and so does a client if the server requires it.",
        show_default=False,
        rich_help_panel=ACCESS,
    ),
]

TlsKey = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The private key of the certificate (PEM), not encrypted.",
        show_default=False,
        rich_help_panel=ACCESS,
    ),
]

TlsRoots = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Over tcp+tls and grpc+tls: the certificates (PEM) of the issuers to trust. Default: those that the "
        "system trusts.",
        show_default=False,
    ),
]

RemoteReads = Annotated[
    str | None,
    typer.Option(
        metavar="trusted",
        help="'trusted': over ucx, let peers that know only the published protocol transfer bodies by reading memory. "
        "Every process that reaches this one can then read and write all of its memory.",
        show_default=False,
    ),
]


def is_network(uri: str) -> bool:
    return _options.scheme_of(uri) in _NETWORKS


def token_of(uris: Iterable[str]) -> str | None:
    """Returns the token of the environment if one of the URIs is for a network. It isn't an option, because other users
    can see command lines. The variable is set for all commands, and must not be an error where no URI needs it."""
    if not any(is_network(uri) for uri in uris):
        return None
    token = os.environ.get("CROSSDOCK_TOKEN")
    if token == "":
        raise xd.InvalidArgumentError("CROSSDOCK_TOKEN is empty: set it, or unset it")
    return token


def login_of(uris: Iterable[str]) -> tuple[str, str] | None:
    """Returns the login of the environment if one of the URIs is a Flight server's, as `token_of()` does."""
    if not any(_options.scheme_of(uri).startswith("grpc") for uri in uris):
        return None
    login = os.environ.get("CROSSDOCK_LOGIN")
    if login is None:
        return None
    user, colon, password = login.partition(":")
    if not user or not colon:
        raise xd.InvalidArgumentError("CROSSDOCK_LOGIN must be a user name, a colon and a password, as in ada:PASSWORD")
    return user, password


def check_checksum(uris: Iterable[str], checksum: bool | None) -> None:
    _options.check_checksum(uris, checksum, "--checksum", "--checksum")


def tls_of(
    uris: Iterable[str], certificate: Path | None, key: Path | None, *, roots: Path | None = None
) -> xd.TLS | None:
    """Returns what the options of TLS say. They are an error where no URI needs them."""
    given = {"certificate": certificate, "key": key, "roots": roots}
    texts = {part: read_pem(file, f"--tls-{part}") for part, file in given.items() if file is not None}
    if not texts:
        return None
    tls = xd.TLS._of(texts)
    option = f"--tls-{next(iter(texts))}"
    _options.check_tls(uris, tls, option, option)
    return tls


def refuse_file(uri: str) -> None:
    """Refuses a file or a folder where a server's URI is expected, and says which commands take it."""
    there = _options.file_at(uri)
    if there is None:
        return
    file = shlex.quote(uri)
    helps = [f"`crossdock serve {file}` serves it"]
    if there == "file" and _loading.format_of(uri) in ("arrow", None):
        helps.insert(0, f"`crossdock inspect {file}` shows what is in it")
    raise xd.UriError(
        f"{uri} is a {there}, and the URI of a server is expected here, such as "
        f"shm:flights; {', '.join(helps)}{_options.server_hint(uri)}"
    )


def refuse_remote_handle(uri: str) -> None:
    """Refuses a URI with a remote_handle, for commands that have no --remote-reads."""
    if "remote_handle=" in uri.partition("?")[2]:
        raise xd.UnsupportedError(
            "the URI has a remote_handle, which only `crossdock get --remote-reads trusted` takes; of a server of "
            "Crossdock's, give the URI that `crossdock serve` prints"
        )


def stats_option(stats: str | None) -> Literal["any"] | None:
    if stats not in (None, "any"):
        raise typer.BadParameter(f"'any', not {quoted(stats)}", param_hint="--stats")
    return "any" if stats else None


def trusted_of(remote_reads: str | None) -> Literal["trusted"] | None:
    if remote_reads not in (None, "trusted"):
        raise typer.BadParameter(f"'trusted', not {quoted(remote_reads)}", param_hint="--remote-reads")
    return "trusted" if remote_reads else None


def connected(
    uri: str,
    timeout: float,
    checksum: bool | None = None,
    remote_reads: Literal["trusted"] | None = None,
    tls: xd.TLS | None = None,
) -> xd.Client:
    check_checksum([uri], checksum)
    refuse_file(uri)
    try:
        return xd.connect(
            uri,
            timeout=timeout,
            token=token_of([uri]),
            login=login_of([uri]),
            checksum=checksum,
            remote_reads=remote_reads,
            tls=tls,
        )
    except xd.ConnectionError as error:
        raise type(error)(f"{error}{_servers_hint(uri)}") from None
    except (xd.SchemeError, xd.UriError) as error:
        raise type(error)(f"{error}{network_hint(uri)}") from None


def is_port(text: str) -> bool:
    return re.fullmatch("[0-9]{1,5}", text) is not None and 1 <= int(text) <= 65535


def network_hint(uri: str, scheme: str = "tcp") -> str:
    """Returns a question for a host and a port, without a scheme or with that of a web page; of others, nothing."""
    found = re.fullmatch(r"(?:https?://)?([A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]):([0-9]+)/?", uri)
    if not found or not is_port(found[2]) or found[1].lower() in (*SCHEMES, "http", "https"):
        return ""
    return f"; did you mean {scheme}://{found[1]}:{found[2]}?"


def _servers_hint(uri: str) -> str:
    names = _native.shm_names() if _options.scheme_of(uri) == "shm" else []
    if near := difflib.get_close_matches(uri.partition(":")[2], names, 1):
        return f"; did you mean shm:{near[0]}?"
    return "; `crossdock ls` lists your servers" if names else ""


_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def size_in(text: str) -> int | None:
    """Converts a size such as 64G to bytes; None: it is no size."""
    found = re.fullmatch(r"([0-9]{1,18})([KMGT]?)", text.strip().upper())
    return None if found is None else int(found[1]) << _UNITS[found[2]] or None


def bytes_of(text: str, hint: str) -> int:
    size = size_in(text)
    if size is None:
        raise typer.BadParameter(
            f"a size is a number of bytes from 1 on, or a text such as 800M or 64G, not {quoted(text)}", param_hint=hint
        )
    return size


def name_of(text: str, hint: str) -> str | bytes:
    try:
        return parsed_name(text)
    except xd.InvalidArgumentError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from None
