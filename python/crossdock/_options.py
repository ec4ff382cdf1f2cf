"""Checks of arguments that several classes take."""

from __future__ import annotations

import math
import operator
import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, TypeVar

from crossdock import _native
from crossdock._text import check_utf8, class_of, quoted
from crossdock.errors import InvalidArgumentError, UriError
from crossdock.tls import TLS

if TYPE_CHECKING:
    from crossdock._typing import NetworkAbout

T = TypeVar("T")

_MAX_MS = 2**31 - 1


def milliseconds(seconds: float | None, what: str) -> int:
    """Converts seconds to the library's whole milliseconds, rounded up. None means no limit (-1)."""
    if seconds is None:
        return -1
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"{what} must be a number of seconds or None, not {class_of(seconds)}")
    if seconds != seconds or seconds < 0:
        raise InvalidArgumentError(f"{what} must be at least 0 seconds, or None for no limit; it was {quoted(seconds)}")
    return min(math.ceil(min(seconds, _MAX_MS) * 1000), _MAX_MS)


def count(number: int, what: str, of: str, *, least: int = 1, bits: int = 64) -> int:
    """Checks a number of things: the library takes an unsigned number of so many bits."""
    try:
        number = operator.index(number)
    except TypeError:
        raise TypeError(f"{what} must be a whole number of {of}, not {quoted(number)}") from None
    if not least <= number < 2**bits:
        raise InvalidArgumentError(
            f"{what} must be a number of {of} from {least} to 2**{bits} - 1; it was {quoted(number)}"
        )
    return number


def one_of(given: T, what: str, *choices: str | bool | None) -> T:
    """Checks an option that is one of some texts, or None or False."""
    if (given is None or isinstance(given, (str, bool))) and given in choices:  # an array can't be compared with a text
        return given
    *most, last = [f'"{choice}"' if isinstance(choice, str) else str(choice) for choice in choices]
    text = f"{what} must be {', '.join(most)} or {last}; it was {quoted(given)}"
    raise (InvalidArgumentError if isinstance(given, (str, bool)) else TypeError)(text)


def is_copy_on_write(writable: object) -> bool:
    """Checks an option that is False or "copy-on-write"."""
    return one_of(writable, "writable", "copy-on-write", False) is not False


def stats_for_all(stats: object) -> bool:
    """Checks the option that says who may ask for statistics."""
    return one_of(stats, "stats", "any", None) is not None


def checked_wait(wait: str) -> str:
    """Checks how a server, or reading, waits."""
    return one_of(wait, "wait", "auto", "spin", "block")


def checked_limits(limits: _native.Limits | None) -> _native.Limits:
    """Checks limits on the size and nesting of data; None: the usual ones."""
    if limits is None:
        return _native.Limits()
    if not isinstance(limits, _native.Limits):
        raise TypeError(f"limits must be a crossdock.Limits or None; it was {quoted(limits)}")
    return limits


def checked_columns(columns: Iterable[str] | None) -> list[str] | None:
    """Checks the names of columns. None means all."""
    if columns is None:
        return None
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names, not one name; give [{quoted(columns)}]")
    if isinstance(columns, bytes) or not isinstance(columns, Iterable):
        raise TypeError(f"columns must be a list of names, or None for all; it was {quoted(columns)}")
    names = [*columns]
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"a name in columns must be a str, not {class_of(name)}")
        check_utf8(name, f"the column's name {quoted(name)}")
    return names


def ucx_libraries() -> list[str]:
    """Returns the paths of UCX's library in the package libucx (of libucx-cu12 and others), which isn't imported."""
    import importlib.util

    spec = importlib.util.find_spec("libucx")
    folders = () if spec is None else spec.submodule_search_locations or ()
    return [path for folder in folders if os.path.exists(path := os.path.join(folder, "lib", "libucp.so.0"))]


def fabric_provider() -> str | None:
    """Returns libfabric's provider that the environment names; None: the library's default."""
    return os.environ.get("CROSSDOCK_FABRIC_PROVIDER") or None


def networks() -> list[NetworkAbout]:
    """Returns what is known of each library of a network: whether it was found, and what was tried."""
    return _native.networks(fabric_provider(), ucx_libraries())


def transports(
    users: str | Iterable[int] | None,
    token: str | None,
    checksum: bool | None,
    remote_reads: str | None,
    tls: TLS | None,
    login: tuple[str, str] | None = None,
    *,
    end: Literal["server", "client", "both"] = "both",
) -> _native.TransportOptions:
    """Checks the options of connections, which servers and clients have in common. end: what they are for."""
    any_user = isinstance(users, str)
    if any_user and users != "any":
        raise InvalidArgumentError(f'users must be None, "any" or user ids; it was {quoted(users)}')
    ids: list[int] = []
    if not isinstance(users, Iterable | None):
        raise TypeError(f'users must be None, "any" or user ids; it was {quoted(users)}')
    for user in () if users is None or any_user else users:
        if isinstance(user, bool) or not isinstance(user, int):
            raise TypeError(f"a user id must be an int, not {class_of(user)}")
        if not 0 <= user < 2**32:
            raise InvalidArgumentError(f"{quoted(user)} is not a user id")
        ids.append(user)
    if not isinstance(token, str | None):
        raise TypeError(f"a token must be a str, not {class_of(token)}")
    if token is not None:
        check_utf8(token, "the token")
        if not 1 <= len(token.encode()) <= 1024:
            raise InvalidArgumentError("a token must have 1 to 1024 bytes")
    if not isinstance(checksum, bool | None):
        raise TypeError(f"checksum must be True, False or None, not {class_of(checksum)}")
    one_of(remote_reads, "remote_reads", "trusted", None)
    if not isinstance(tls, TLS | None):
        raise TypeError(f"tls must be a crossdock.TLS, not {class_of(tls)}")
    if tls is not None and end != "both":
        tls._check(serves=end == "server")
    if login is not None:
        if not (isinstance(login, tuple) and len(login) == 2 and all(isinstance(part, str) for part in login)):
            raise TypeError("login must be a pair of a user name and a password, two str")
        for part, what in zip(login, ("the user name of login", "the password of login"), strict=True):
            check_utf8(part, what)
        if not login[0] or ":" in login[0]:
            raise InvalidArgumentError("a user name must not be empty, and has no colon")
        if any(len(part.encode()) > 1024 for part in login):
            raise InvalidArgumentError("a user name and a password have 1024 bytes at most")
    return _native.TransportOptions(
        any_user,
        ids,
        token or "",
        login or ("", ""),
        checksum,
        ucx_libraries(),
        fabric_provider(),
        remote_reads is not None,
        None if tls is None else tls._native,
    )


def scheme_of(uri: str) -> str:
    """Returns what is before the first colon, in lower case."""
    return uri.partition(":")[0].lower()


_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def is_uri(given: object) -> bool:
    """Returns whether it is a text that begins with a scheme. A file whose name looks like that is given as
    `./name:of`."""
    return isinstance(given, str) and _URI.match(given) is not None


def file_at(uri: str) -> Literal["file", "folder"] | None:
    """Returns what is at the path, where a server's URI is expected; None: nothing, or the text is a URI."""
    if is_uri(uri):
        return None
    return "folder" if os.path.isdir(uri) else "file" if os.path.isfile(uri) else None


def server_hint(name: str) -> str:
    """Returns a question for the name of one of this user's servers without the scheme; of anything else, nothing."""
    return f"; did you mean shm:{name}?" if name in _native.shm_names() else ""


def check_checksum(uris: Iterable[str], checksum: bool | None, given: str, option: str) -> None:
    """Raises InvalidArgumentError if checksums are demanded of ucx or fabric, which have none, or of shm alone.

    given, option: how the caller writes the demand, with its place, and the option, as in "checksum=True" and
        "checksum".
    """
    schemes = [scheme_of(uri) for uri in uris]
    if checksum is not True:
        return
    for scheme in schemes:
        if scheme in ("ucx", "fabric"):
            raise InvalidArgumentError(
                f"{given}: {scheme} has no checksums, so bytes that the network changed would be given out; use tcp, "
                f"or leave {option} out"
            )
    if schemes and all(scheme == "shm" for scheme in schemes):
        raise InvalidArgumentError(
            f"{given} is for tcp: over shm: no network is between the two ends; leave {option} out"
        )


def check_tls(uris: Iterable[str], tls: TLS | None, given: str, option: str) -> None:
    """Raises InvalidArgumentError if certificates are given and none of the URIs is for TLS: a connection that is
    thought to be encrypted must not be plain. given, option: as of `check_checksum()`."""
    schemes = [scheme_of(uri) for uri in uris]
    if tls is not None and schemes and not {"tcp+tls", "grpc+tls"} & set(schemes):
        raise InvalidArgumentError(
            f"{given} is for tcp+tls and grpc+tls: give such a URI, as in tcp+tls://..., or leave {option} out"
        )


def check_schemes(uris: Iterable[str], checksum: bool | None, remote_reads: str | None, tls: TLS | None) -> None:
    """Raises InvalidArgumentError if an option is for other transports than these: checksums, as `check_checksum()`
    does; certificates, as `check_tls()` does; remote reads, if none is ucx."""
    uris = list(uris)
    check_tls(uris, tls, "tls", "tls")
    check_checksum(uris, checksum, "checksum=True", "checksum")
    schemes = [scheme_of(uri) for uri in uris]
    if remote_reads is not None and schemes and "ucx" not in schemes:
        raise InvalidArgumentError("remote_reads is for ucx: give a URI ucx://..., or leave remote_reads out")


def checked_uri(uri: str) -> str:
    """Checks that a URI is a str that can be encoded as UTF-8. The library finds all other mistakes."""
    if not isinstance(uri, str):
        raise TypeError(f"a URI must be a str, for example 'shm:' or server.uri, not {class_of(uri)}")
    try:
        uri.encode()
    except UnicodeEncodeError:
        raise UriError(f"the URI {quoted(uri)} has bytes that aren't UTF-8; write them as %XX") from None
    return uri


def checked_name(name: str | bytes) -> bytes:
    """Checks the name of something published: a str that can be encoded as UTF-8, or bytes. Returns its bytes."""
    if isinstance(name, bytes):
        return name
    if not isinstance(name, str):
        raise TypeError(f"a published name must be a str or bytes, not {class_of(name)}")
    if "\0" in name:
        raise InvalidArgumentError(
            f"the name {quoted(name)} has a NUL character: give it as bytes, as which it is listed"
        )
    try:
        return name.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"the name {quoted(name)} has bytes that aren't UTF-8; give them as bytes") from None
