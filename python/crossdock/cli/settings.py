"""What `crossdock serve` can be set to: each option of the command, its key in the configuration file, and how a value
is read from either."""

from __future__ import annotations

import difflib
import math
import pwd
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import crossdock as xd
from crossdock import _options
from crossdock._files import is_pem_text
from crossdock._http import Address
from crossdock._text import class_of, quoted, without_user
from crossdock.cli.logs import LEVELS
from crossdock.cli.options import is_port, network_hint, size_in

_LONGEST_LIFETIME = 100 * 365 * 24 * 3600  # seconds

Reader = Callable[[object], Any]


class WrongValueError(Exception):
    """A value of the wrong type or out of its range. The text goes on after the name of the setting, and after that of
    the part of it that is wrong, if it is a table."""

    def __init__(self, text: str, part: str | None = None) -> None:
        super().__init__(text)
        self.part = part


def _of_type(value: object, kind: type | tuple[type, ...], called: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise WrongValueError(f"must be {called}, not {quoted(value)}")
    return value


def refuse_pem_text(value: object) -> None:
    """Raises WrongValueError for a PEM text, also in a list or a table. It may be a private key, and isn't quoted."""
    if isinstance(value, Mapping):
        refuse_pem_text([*value, *value.values()])
    elif isinstance(value, (list, tuple)):
        for one in value:
            refuse_pem_text(one)
    elif isinstance(value, str | Path) and is_pem_text(str(value)):
        raise WrongValueError("is a PEM text: give the path of its file")


def meant(name: str, known: Iterable[str]) -> str:
    """Returns what may have been meant by a name that isn't known."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, 1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"


def _number_of(things: str, *, least: int = 1, bits: int = 64) -> Reader:
    def read(value: object) -> int:
        number: int = _of_type(value, int, f"a whole number of {things}")
        if not least <= number < 2**bits:
            raise WrongValueError(f"must be a number of {things} from {least} to 2**{bits} - 1, not {quoted(number)}")
        return number

    return read


def _bytes(value: object) -> int:
    if isinstance(value, str):
        value = size_in(value)
        if value is None:
            raise WrongValueError("must be a number of bytes from 1 on, or a text such as 800M or 64G")
    number: int = _number_of("bytes")(value)
    return number


def _seconds(value: object) -> float:
    seconds: float = _of_type(value, (int, float), "a number of seconds")
    try:
        in_range = math.isfinite(seconds) and seconds >= 0
    except OverflowError:  # an int that is no float
        in_range = False
    if not in_range:
        raise WrongValueError(f"must be a finite number of seconds from 0 on, not {quoted(seconds)}")
    return seconds


def _lifetime(value: object) -> float:
    if not 0 < (seconds := _seconds(value)) <= _LONGEST_LIFETIME:
        raise WrongValueError(f"must be more than 0 seconds, and at most 100 years; it is {seconds}")
    return seconds


class OrNone(NamedTuple):
    """None has a meaning of its own: without limit."""

    seconds: float | None


def _patience(value: object) -> OrNone:
    if value == "none":
        return OrNone(None)
    if isinstance(value, str) and re.fullmatch(r"[0-9]+(\.[0-9]*)?|\.[0-9]+", value):
        return OrNone(_seconds(float(value)))
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
    """Paths are those of secrets, so no text is quoted: it may be the secret itself."""
    if not isinstance(value, str | Path):
        raise WrongValueError(f"must be the path of a file, not {class_of(value)}")
    text = _text(str(value))
    if re.search(r"[\0\r\n]", text):
        raise WrongValueError("must be the path of a file; it has a line end or a NUL, and isn't shown")
    return Path(text)


def _user(value: object) -> int:
    if isinstance(value, str) and not re.fullmatch("[0-9]{1,40}", value):
        try:
            return pwd.getpwnam(value).pw_uid
        except (KeyError, ValueError):  # a NUL is the latter
            raise WrongValueError(f"has {quoted(value)}, which is no user of this machine") from None
    number = int(_of_type(value, (int, str), "user ids and names"))
    if not 0 <= number < 2**32:
        raise WrongValueError(f"has {quoted(number)}, which isn't a user id")
    return number


def _users(value: object) -> str | tuple[int, ...]:
    if value in ("any", ["any"]):
        return "any"
    return tuple(_user(one) for one in _of_type(value, (list, tuple), 'user ids and names, or "any"'))


_LIMITS: Mapping[str, Reader] = {
    "max_depth": _number_of("levels", bits=31),
    "max_fields": _number_of("fields", bits=31),
    "max_buffers": _number_of("buffers", bits=31),
    "max_metadata_bytes": _number_of("bytes", bits=63),
    "max_decompressed_bytes": _number_of("bytes", bits=63),
}


def _limits(value: object) -> tuple[tuple[str, int], ...]:
    """From the command line, texts such as max_depth=32; from the file, a table."""
    if isinstance(value, Mapping):
        given = dict(value)
    else:
        given = {}
        for text in _of_type(value, (list, tuple), "a table"):
            name, _, number = text.partition("=")
            given[name] = int(number) if re.fullmatch("[0-9]{1,40}", number) else number
    for name, number in given.items():
        if name not in _LIMITS:
            raise WrongValueError(f"is no limit: {meant(name, _LIMITS)}", name)
        try:
            _LIMITS[name](number)
        except WrongValueError as error:
            raise WrongValueError(str(error), name) from None
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
            network = next(scheme for scheme in schemes if scheme != "shm")
            if is_port(text):
                meant = f"; did you mean {network}://localhost:{text}?"
            elif ":" in text:
                meant = network_hint(text, network)
            elif "shm" in schemes:
                meant = f"; did you mean shm:{text}?"
            else:
                meant = "" if text.isdigit() else f"; did you mean {network}://{text}:PORT?"
            raise WrongValueError(f"must be a URI whose scheme is {known}, not {quoted(without_user(text))}{meant}")
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

    def value_of(self, given: object) -> Any:
        """Reads a value. Raises WrongValueError, which doesn't quote what may be a secret."""
        refuse_pem_text(given)
        return self.read(given)


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
    Setting("ticket_lifetime", "flight.ticket_lifetime", _lifetime),
    Setting("login_lifetime", "flight.login_lifetime", _lifetime),
    Setting("log_level", "log.level", _one_of(*LEVELS), reloads=True),
    Setting("log_json", "log.json", _flag, reloads=True),
)

_KEYS = {setting.name: setting.key for setting in SETTINGS}


class Place(NamedTuple):
    """Where a setting was given, with which an error about its value begins: an option, or a line of a file and a
    key."""

    name: str  # of the setting
    line: str | None = None  # as in "crossdock.toml, line 5"; None: the command line

    def called(self, name: str) -> str:
        """Returns what a setting is called where this one was given."""
        return f"--{name.replace('_', '-')}" if self.line is None else _KEYS[name]

    def __str__(self) -> str:
        called = self.called(self.name)
        return called if self.line is None else f"{self.line}: {called}"


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
        try:
            found[setting.name] = setting.value_of(value)
        except WrongValueError as error:
            kind = xd.UriError if setting.name in ("uri", "flight") else xd.InvalidArgumentError
            part = "" if error.part is None else f" {error.part}"
            raise kind(f"{Place(setting.name)}{part} {error}") from None
    return found


def check_together(settings: Mapping[str, Any], places: Mapping[str, Place], has_token: bool) -> None:
    """Refuses settings that need others, exclude others, or are for other transports, as `xd.serve()` does, by their
    places. has_token: of a file, or of the environment."""
    uris = list(settings.get("uri", ("shm:",)))
    flight = settings.get("flight")
    schemes = {_options.scheme_of(uri) for uri in uris}

    def refuse(name: str, why: str) -> NoReturn:
        raise xd.InvalidArgumentError(f"{places[name]} {why}, or leave {places[name].called(name)} out")

    if settings.get("users") and "uri" not in settings:
        uri = places["users"].called("uri")
        refuse("users", f"is for an address that other users can reach: give {uri} with a path, as in shm:/run/t.sock")

    if "checksum" in settings:
        place = places["checksum"]
        _options.check_checksum(uris, settings["checksum"], str(place), place.called("checksum"))
    if "remote_reads" in settings and "ucx" not in schemes:
        refuse("remote_reads", "is for ucx: give a URI ucx://...")
    if "remote_reads" in settings and has_token:
        refuse("remote_reads", "lets every process read all memory, also without the token: give no token")
    if "token_file" in settings and schemes == {"shm"} and flight is None:
        refuse("token_file", "is for networks, and over shm: the user id decides: give a URI of a network")
    for name in ("puts", "max_put", "logins", "ticket_keys", "ticket_lifetime", "login_lifetime"):
        if name in settings and flight is None:
            refuse(name, f"is for a Flight server: give {places[name].called('flight')}")
    if "ticket_keys" in settings and not has_token and "logins" not in settings:
        token, logins = (places["ticket_keys"].called(name) for name in ("token_file", "logins"))
        refuse("ticket_keys", f"is for a Flight server with a token or logins: give {token} or {logins}")
    if "tls_certificate" in settings or "tls_key" in settings:
        return
    for name, scheme, given in (
        ("uri", "tcp+tls", schemes),
        ("flight", "grpc+tls", {_options.scheme_of(flight or "")}),
    ):
        if scheme in given:
            certificate, key = (places[name].called(needed) for needed in ("tls_certificate", "tls_key"))
            raise xd.InvalidArgumentError(f"{places[name]}: {scheme}: needs {certificate} and {key}")
