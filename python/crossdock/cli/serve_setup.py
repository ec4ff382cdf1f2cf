"""What the command line and the configuration file of `crossdock serve` say together, and the server that it makes."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

import crossdock as xd
from crossdock import _native, _options
from crossdock._text import naming
from crossdock.cli.config import Config, TableSource, read_config, shown_names
from crossdock.cli.options import token_of
from crossdock.cli.secrets import Logins, check_owner_alone, read_ticket_keys, read_token
from crossdock.cli.settings import SETTINGS, Place, check_together
from crossdock.tls import PemText, read_pem

_PASSED = (
    "window",
    "lease_limit",
    "max_leases",
    "max_streams",
    "max_connections",
    "source_threads",
    "wait",
    "users",
    "checksum",
    "remote_reads",
    "stats",
    "flight",
    "puts",
    "max_put",
    "ticket_lifetime",
    "login_lifetime",
)


class Setup(NamedTuple):
    """Everything is read: files with secrets, too."""

    settings: Mapping[str, Any]
    places: Mapping[str, Place]  # of these settings
    tables: Mapping[str | bytes, TableSource]
    token: str | None
    tls: xd.TLS | None
    tls_digests: Mapping[str, bytes]
    logins: Logins | None
    ticket_keys: tuple[bytes, ...] | None


T = TypeVar("T")


def read_setup(config_file: Path | None, options: Mapping[str, Any], files: Mapping[str | bytes, TableSource]) -> Setup:
    """options, files: of the command line, which replace those of the file. The same table in both is an error."""
    config = Config({}, {}, {}) if config_file is None else read_config(config_file)
    settings = {**config.settings, **options}
    places = {**config.places, **{name: Place(name) for name in options}}
    if twice := [name for name in config.tables if name in files]:
        raise xd.InvalidArgumentError(
            f"{config.tables[twice[0]].where}: {shown_names(twice)} would be served twice: also as a file of the "
            "command line"
        )
    flight = settings.get("flight")
    uris = [*settings.get("uri", ("shm:",)), *([flight] if flight else [])]
    stable = settings.get("stable", "trust")
    token = _read("token_file", read_token, settings, places)
    if token is None:
        token = token_of(uris)
    check_together(settings, places, token is not None)
    logins = _read("logins", Logins, settings, places)
    keys = _read("ticket_keys", read_ticket_keys, settings, places)
    texts = _read_tls(settings, places)
    tls = xd.TLS._of(texts) if texts else None
    if texts:
        place = places[f"tls_{next(iter(texts))}"]
        _options.check_tls(uris, tls, str(place), place.called(place.name))
    return Setup(
        settings=settings,
        places=places,
        tables={
            name: replace(source, stable=source.stable or stable) for name, source in {**config.tables, **files}.items()
        },
        token=token,
        tls=tls,
        tls_digests={part: hashlib.sha256(pem.text).digest() for part, pem in texts.items()},
        logins=logins,
        ticket_keys=keys,
    )


def _read(name: str, read: Callable[[Path], T], settings: Mapping[str, Any], places: Mapping[str, Place]) -> T | None:
    """Reads the file that a setting names. None: it isn't set."""
    if name not in settings:
        return None
    with naming(places[name]):
        return read(settings[name])


def _read_tls(settings: Mapping[str, Any], places: Mapping[str, Place]) -> dict[str, PemText]:
    texts = {}
    for part in ("certificate", "key", "client_roots"):
        if (name := f"tls_{part}") in settings:
            path: Path = settings[name]
            check = partial(check_owner_alone, path=path, what="private key") if part == "key" else None
            texts[part] = read_pem(path, str(places[name]), check)
    return texts


class Authenticator:
    """Checks logins by those that were read last."""

    def __init__(self, logins: Logins) -> None:
        self.logins = logins

    def __call__(self, user: str, password: str) -> bool:
        return self.logins(user, password)


class _NothingWrongError(Exception):
    pass


def check(setup: Setup, uris: list[str]) -> None:
    """Raises what is wrong with the addresses, as far as that can be said without listening. The other settings were
    checked when they were read."""

    def place_of(name: str) -> AbstractContextManager[None]:
        return naming(setup.places[name]) if name in setup.places else contextlib.nullcontext()

    def check_only(options: _native.ServerOptions) -> NoReturn:
        with place_of("uri"):
            _native.check_uris(options)
        with place_of("flight"):
            _native.check_server(options)
        raise _NothingWrongError

    class NeverStarted(xd.Server):
        _listen = staticmethod(check_only)

    with contextlib.suppress(_NothingWrongError):
        _server(setup, uris, None if setup.logins is None else Authenticator(setup.logins), NeverStarted)


def start(setup: Setup, uris: list[str], authenticator: Authenticator | None) -> xd.Server:
    """Starts a server without tables."""
    try:
        return _server(setup, uris, authenticator, xd.Server)
    except xd.Error:
        check(setup, uris)  # says the same with the place of the setting, if it sees what is wrong
        raise


def _server(setup: Setup, uris: list[str], authenticator: Authenticator | None, kind: type[xd.Server]) -> xd.Server:
    options = {name: setup.settings[name] for name in _PASSED if name in setup.settings}
    if "lease_patience" in setup.settings:
        options["lease_patience"] = setup.settings["lease_patience"].seconds
    if "limits" in setup.settings:
        options["limits"] = xd.Limits(**dict(setup.settings["limits"]))
    return kind(
        uri=uris, token=setup.token, tls=setup.tls, authenticate=authenticator, ticket_keys=setup.ticket_keys, **options
    )


def needing_restart(started: Setup, now: Setup) -> list[str]:
    """Keys of the file whose values differ, and that a running server can't change."""
    changed = [
        setting.key
        for setting in SETTINGS
        if not setting.reloads and started.settings.get(setting.name) != now.settings.get(setting.name)
    ]
    if started.token != now.token:
        changed.append("the token")
    if started.tls_digests != now.tls_digests:
        changed.append("the files of tls")
    for name in ("logins", "ticket_keys"):
        if (name in started.settings) != (name in now.settings):
            changed.append(f"flight.{name}, which is new or gone")
    return changed
