"""What the command line and the configuration file of `crossdock serve` say together, and the server that it makes."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import crossdock as xd
from crossdock import _native
from crossdock.cli.config import Config, TableSource, read_config, shown_names
from crossdock.cli.options import tls_of, token_of
from crossdock.cli.secrets import Logins, read_key, read_ticket_keys, read_token
from crossdock.cli.settings import SETTINGS, check_schemes
from crossdock.tls import read_pem

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
    tables: Mapping[str | bytes, TableSource]
    token: str | None
    tls: xd.TLS | None
    tls_digests: tuple[bytes, ...]
    logins: Logins | None
    ticket_keys: tuple[bytes, ...] | None


def read_setup(config_file: Path | None, options: Mapping[str, Any], files: Mapping[str | bytes, TableSource]) -> Setup:
    """options, files: of the command line, which wins over the file. The same table in both is an error."""
    config = Config({}, {}) if config_file is None else read_config(config_file)
    settings = {**config.settings, **options}
    if twice := config.tables.keys() & files.keys():
        raise xd.InvalidArgumentError(
            f"{shown_names(sorted(twice, key=repr))} would be served twice: a table of {config_file} and a file of the "
            "command line have that name"
        )
    check_schemes(settings)
    flight = settings.get("flight")
    uris = [*settings.get("uri", ("shm:",)), *([flight] if flight else [])]
    token_file, logins, keys = (settings.get(name) for name in ("token_file", "logins", "ticket_keys"))
    stable = settings.get("stable", "trust")
    certificate, key, client_roots = (
        _pem_of(settings.get(f"tls_{name}"), name) for name in ("certificate", "key", "client_roots")
    )
    return Setup(
        settings=settings,
        tables={
            name: replace(source, stable=source.stable or stable) for name, source in {**config.tables, **files}.items()
        },
        token=token_of(uris) if token_file is None else read_token(token_file),
        tls=tls_of(uris, certificate, key, client_roots=client_roots),
        tls_digests=tuple(hashlib.sha256(pem or b"").digest() for pem in (certificate, key, client_roots)),
        logins=None if logins is None else Logins(logins),
        ticket_keys=None if keys is None else read_ticket_keys(keys),
    )


def _pem_of(file: Path | None, name: str) -> bytes | None:
    if file is None:
        return None
    return read_key(file) if name == "key" else read_pem(file, name)


class Authenticator:
    """Checks logins by those that were read last."""

    def __init__(self, logins: Logins) -> None:
        self.logins = logins

    def __call__(self, user: str, password: str) -> bool:
        return self.logins(user, password)


class _NothingWrongError(Exception):
    pass


def _check_only(options: _native.ServerOptions) -> NoReturn:
    _native.check_server(options)
    raise _NothingWrongError


class _NeverStarted(xd.Server):
    """Raises what a server would raise, or `_NothingWrongError` where that would begin to listen."""

    _listen = staticmethod(_check_only)


def check(setup: Setup, uris: list[str]) -> None:
    """Raises what `start()` would raise, as far as that can be said without listening."""
    with contextlib.suppress(_NothingWrongError):
        start(setup, uris, None if setup.logins is None else Authenticator(setup.logins), _NeverStarted)


def start(
    setup: Setup, uris: list[str], authenticator: Authenticator | None, server: type[xd.Server] = xd.Server
) -> xd.Server:
    """Starts a server without tables."""
    options = {name: setup.settings[name] for name in _PASSED if name in setup.settings}
    if "lease_patience" in setup.settings:
        options["lease_patience"] = setup.settings["lease_patience"].seconds
    if "limits" in setup.settings:
        options["limits"] = xd.Limits(**dict(setup.settings["limits"]))
    token = setup.token
    return server(
        uri=uris, token=token, tls=setup.tls, authenticate=authenticator, ticket_keys=setup.ticket_keys, **options
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
