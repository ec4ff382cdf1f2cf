"""What `crossdock serve` can be set to: each option of the command, its key in the configuration file, and how a value
is read from either."""

from __future__ import annotations

import math
import pwd
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import crossdock as xd
from crossdock import _options
from crossdock._http import Address
from crossdock._text import quoted
from crossdock.cli.logs import LEVELS
from crossdock.cli.options import size_in, tcp_hint

Reader = Callable[[object], Any]


class WrongValueError(Exception):
    """A value of the wrong type or out of its range. The text goes on after the name of the setting."""


def _of_type(value: object, kind: type | tuple[type, ...], called: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise WrongValueError(f"must be {called}, not {quoted(value)}")
    return value


def _number_of(things: str, *, least: int = 1, bits: int = 64) -> Reader:
    def read(value: object) -> int:
        number: int = _of_type(value, int, f"a whole number of {things}")
        if not least <= number < 2**bits:
            raise WrongValueError(f"must be a number of {things} from {least} to 2**{bits} - 1, not {number}")
        return number

    return read


def _bytes(value: object) -> int:
    if isinstance(value, str):
        value = size_in(value)
        if value is None:
            raise WrongValueError("must be a number of bytes from 1 on, or such as 800M or 64G")
    number: int = _number_of("bytes")(value)
    return number


def _seconds(value: object) -> float:
    seconds: float = _of_type(value, (int, float), "a number of seconds")
    if not math.isfinite(seconds) or seconds < 0:
        raise WrongValueError(f"must be at least 0 seconds, and not without end; it is {seconds}")
    return seconds


def _positive_seconds(value: object) -> float:
    if (seconds := _seconds(value)) == 0:
        raise WrongValueError("must be more than 0 seconds")
    return seconds


class OrNone(NamedTuple):
    """None has a meaning of its own: without limit."""

    seconds: float | None


def _patience(value: object) -> OrNone:
    if value == "none":
        return OrNone(None)
    if isinstance(value, str) and re.fullmatch(r"[0-9]+(\.[0-9]*)?|\.[0-9]+", value):
        return OrNone(float(value))
    if isinstance(value, str):
        raise WrongValueError(f'must be a number of seconds, or "none", not {quoted(value)}')
    return OrNone(_seconds(value))


def _one_of(*words: str) -> Reader:
    def read(value: object) -> str:
        if value not in words:
            raise WrongValueError(f"must be {' or '.join(repr(word) for word in words)}, not {quoted(value)}")
        return str(value)

    return read


def _flag(value: object) -> bool:
    return bool(_of_type(value, bool, "true or false"))


def _text(value: object) -> str:
    text: str = _of_type(value, str, "a text")
    if not text:
        raise WrongValueError("must not be empty")
    return text


def _texts(value: object) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else _of_type(value, (list, tuple), "a text or a list of texts")
    if not given:
        raise WrongValueError("must not be empty")
    return tuple(_text(one) for one in given)


def _path(value: object) -> Path:
    return value if isinstance(value, Path) else Path(_text(value))


def _user(value: object) -> int:
    if isinstance(value, str) and not (value.isascii() and value.isdigit()):
        try:
            return pwd.getpwnam(value).pw_uid
        except KeyError:
            raise WrongValueError(f"has {quoted(value)}, which is no user of this machine") from None
    number = int(_of_type(value, (int, str), "user ids and names"))
    if not 0 <= number < 2**32:
        raise WrongValueError(f"has {number}, which is no user id")
    return number


def _users(value: object) -> str | tuple[int, ...]:
    if value in ("any", ["any"]):
        return "any"
    return tuple(_user(one) for one in _of_type(value, (list, tuple), 'user ids and names, or "any"'))


_LIMITS = ("max_depth", "max_fields", "max_buffers", "max_metadata_bytes", "max_decompressed_bytes")


def _limits(value: object) -> tuple[tuple[str, int], ...]:
    """From the command line, texts such as max_depth=32; from the file, a table."""
    if isinstance(value, Mapping):
        given = dict(value)
    else:
        given = {}
        for text in _of_type(value, (list, tuple), "a table"):
            name, _, number = text.partition("=")
            given[name] = int(number) if re.fullmatch("[0-9]{1,18}", number) else number
    for name, number in given.items():
        if name not in _LIMITS:
            raise WrongValueError(f"has no {quoted(name)}; it has {', '.join(_LIMITS)}")
        try:
            _number_of("things")(number)
        except WrongValueError:
            raise WrongValueError(f"has {name}={quoted(number)}; it must be a number from 1 on") from None
    return tuple(sorted(given.items()))


def _address(value: object) -> str:
    text = _text(value)
    try:
        Address.of(text)
    except xd.InvalidArgumentError as error:
        raise WrongValueError(f"is wrong: {error}") from None
    return text


def _uri_of(*schemes: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        text = _text(value)
        if _options.scheme_of(text) not in schemes:
            known = f"{', '.join(schemes[:-1])} or {schemes[-1]}"
            if ":" not in text:
                meant = f"; did you mean {schemes[0]}:{text}?"
            else:
                meant = tcp_hint(text) if "tcp" in schemes else ""
            raise WrongValueError(f"must be a URI whose scheme is {known}, not {quoted(text)}{meant}")
        return text

    return read


def _served_uris(value: object) -> tuple[str, ...]:
    read = _uri_of("shm", "tcp", "tcp+tls", "ucx", "fabric")
    return tuple(read(one) for one in _texts(value))


class Setting(NamedTuple):
    """One option. Its name is that of the command's option, with '_' for '-'; `key` is where it is in the file."""

    name: str
    key: str
    read: Reader
    reloads: bool = False  # whether SIGHUP changes it


SETTINGS = (
    Setting("uri", "server.uri", _served_uris),
    Setting("window", "server.window", _number_of("messages", bits=32)),
    Setting("lease_limit", "server.lease_limit", _bytes),
    Setting("lease_patience", "server.lease_patience", _patience),
    Setting("max_leases", "server.max_leases", _number_of("buffers")),
    Setting("max_streams", "server.max_streams", _number_of("streams", bits=32)),
    Setting("max_connections", "server.max_connections", _number_of("connections", least=0, bits=32)),
    Setting("source_threads", "server.source_threads", _number_of("threads", bits=16)),
    Setting("wait", "server.wait", _one_of("auto", "block", "spin")),
    Setting("users", "server.users", _users),
    Setting("token_file", "server.token_file", _path),
    Setting("checksum", "server.checksum", _flag),
    Setting("remote_reads", "server.remote_reads", _one_of("trusted")),
    Setting("stats", "server.stats", _one_of("any")),
    Setting("metrics", "metrics.address", _address),
    Setting("stable", "server.stable", _one_of("trust", "snapshot"), reloads=True),
    Setting("grace", "server.grace", _seconds, reloads=True),
    Setting("limits", "limits", _limits),
    Setting("tls_certificate", "tls.certificate", _path),
    Setting("tls_key", "tls.key", _path),
    Setting("tls_client_roots", "tls.client_roots", _path),
    Setting("flight", "flight.uri", _uri_of("grpc", "grpc+tls")),
    Setting("puts", "flight.puts", _one_of("new", "replace")),
    Setting("max_put", "flight.max_put", _bytes),
    Setting("logins", "flight.logins", _path, reloads=True),
    Setting("ticket_keys", "flight.ticket_keys", _path, reloads=True),
    Setting("ticket_lifetime", "flight.ticket_lifetime", _positive_seconds),
    Setting("login_lifetime", "flight.login_lifetime", _positive_seconds),
    Setting("log_level", "log.level", _one_of(*LEVELS), reloads=True),
    Setting("log_json", "log.json", _flag, reloads=True),
)

# Options of `xd.serve()` that have another name or form here, and which options of the command make them.
MADE_OF: Mapping[str, tuple[str, ...]] = {
    "sources": ("files", "name", "config"),
    "token": ("token_file",),
    "tls": ("tls_certificate", "tls_key", "tls_client_roots"),
    "authenticate": ("logins",),
}


def given_options(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Reads what was given on the command line."""
    found = {}
    for setting in SETTINGS:
        value = parameters.get(setting.name)
        if value is None or value in ([], ()):
            continue
        option = f"--{setting.name.replace('_', '-')}"
        try:
            found[setting.name] = setting.read(value)
        except WrongValueError as error:
            kind = xd.UriError if setting.name in ("uri", "flight") else xd.InvalidArgumentError
            raise kind(f"{option} {error}") from None
    return found


def check_schemes(settings: Mapping[str, Any]) -> None:
    """Refuses what is for other transports, as `xd.serve()` does, with the names of the options."""
    uris = list(settings.get("uri", ("shm:",)))
    flight = settings.get("flight")
    _options.check_checksum(uris, settings.get("checksum"), "--checksum", "--checksum")
    if settings.get("remote_reads") and not any(_options.scheme_of(uri) == "ucx" for uri in uris):
        raise xd.InvalidArgumentError("--remote-reads is for ucx: give --uri ucx://...")
    for name in ("puts", "max_put", "logins", "ticket_keys", "ticket_lifetime", "login_lifetime"):
        if name in settings and flight is None:
            raise xd.InvalidArgumentError(f"--{name.replace('_', '-')} is for a Flight server: give --flight URI, too")
