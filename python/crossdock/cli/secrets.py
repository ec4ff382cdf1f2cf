"""Files with secrets: the token, the keys of tickets, and the logins."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import stat
from pathlib import Path
from typing import NamedTuple

import crossdock as xd
from crossdock._files import read_small, shown_path
from crossdock._text import shown

_MOST_BYTES = 1 << 20


def check_owner_alone(descriptor: int, path: Path, what: str) -> None:
    """Refuses a secret of this user's that others can read, as ssh does with keys. Files of other users, as a service
    manager hands them over, are taken as they are."""
    info = os.fstat(descriptor)
    if info.st_uid == os.geteuid() and info.st_mode & 0o077:
        raise xd.PermissionError(
            f"others can read the file of the {what}, {shown_path(path)} (its mode is "
            f"{stat.S_IMODE(info.st_mode):04o}): chmod 600 {shown_path(path)}"
        )


def _read(path: Path, what: str) -> bytes:
    return read_small(
        path,
        f"the file of the {what}, {shown_path(path)},",
        _MOST_BYTES,
        lambda descriptor: check_owner_alone(descriptor, path, what),
        unopened=f"the file of the {what}",
    )


def read_secret(path: Path, what: str) -> str:
    """Returns the text of a file, as check_owner_alone() demands it."""
    try:
        return _read(path, what).decode()
    except UnicodeDecodeError:
        raise xd.InvalidArgumentError(f"the file of the {what}, {shown_path(path)}, isn't UTF-8") from None


def read_token(path: Path) -> str:
    """The file's text without the line end."""
    token = read_secret(path, "token").rstrip("\r\n")
    if not 1 <= len(token.encode()) <= 1024 or "\n" in token:
        raise xd.InvalidArgumentError(
            f"the file of the token, {shown_path(path)}, must have one line of 1 to 1024 bytes"
        )
    return token


def _lines(path: Path, what: str) -> list[tuple[int, str]]:
    """The lines that have something, with their numbers. Those that begin with # are comments."""
    lines = enumerate((line.strip() for line in read_secret(path, what).splitlines()), 1)
    return [(number, line) for number, line in lines if line and not line.startswith("#")]


def read_ticket_keys(path: Path) -> tuple[bytes, ...]:
    """The keys, one a line in hexadecimal digits."""
    keys = []
    for number, line in _lines(path, "ticket keys"):
        try:
            key = bytes.fromhex(line)
        except ValueError:
            key = b""
        if not 16 <= len(key) <= 1024:
            raise xd.InvalidArgumentError(
                f"{shown_path(path)}, line {number}: a ticket key is 32 to 2048 hexadecimal digits, as of "
                "`openssl rand -hex 32`"
            )
        keys.append(key)
    if not 1 <= len(keys) <= 16:
        raise xd.InvalidArgumentError(
            f"{shown_path(path)} must have 1 to 16 ticket keys, one a line; it has {len(keys)}"
        )
    return tuple(keys)


# scrypt with 16 MiB for each check: some 50 ms.
_COST, _BLOCK, _PARALLEL = 1 << 14, 8, 1
_MOST_MEMORY = 256 << 20


class _Hash(NamedTuple):
    cost: int
    block: int
    parallel: int
    salt: bytes
    digest: bytes

    def fits(self, password: str) -> bool:
        made = hashlib.scrypt(
            password.encode(),
            salt=self.salt,
            n=self.cost,
            r=self.block,
            p=self.parallel,
            maxmem=_MOST_MEMORY,
            dklen=len(self.digest),
        )
        return hmac.compare_digest(made, self.digest)


# What is compared for a user who isn't there, so that it takes as long.
_NOBODY = _Hash(_COST, _BLOCK, _PARALLEL, bytes(16), bytes(32))


def hashed_login(user: str, password: str) -> str:
    """A line for the file of logins."""
    check_user(user)
    salt = os.urandom(16)
    digest = hashlib.scrypt(password.encode(), salt=salt, n=_COST, r=_BLOCK, p=_PARALLEL, maxmem=_MOST_MEMORY, dklen=32)
    parts = (base64.b64encode(part).decode() for part in (salt, digest))
    return f"{user}:scrypt:{_COST}:{_BLOCK}:{_PARALLEL}:{':'.join(parts)}"


def check_user(user: str) -> None:
    """Raises InvalidArgumentError, which doesn't quote the name: its password may be in it, after a colon."""
    if not user or ":" in user or user != user.strip() or user.startswith("#") or not user.isprintable():
        raise xd.InvalidArgumentError(
            "a user's name must not be empty, begin with #, begin or end with a blank, or contain a colon or control "
            "characters"
        )


def _parsed_login(line: str) -> tuple[str, _Hash]:
    user, kind, cost, block, parallel, salt, digest = line.split(":")
    check_user(user)
    made = _Hash(
        int(cost),
        int(block),
        int(parallel),
        base64.b64decode(salt, validate=True),
        base64.b64decode(digest, validate=True),
    )
    if kind != "scrypt" or not made.salt or not 16 <= len(made.digest) <= 64:
        raise ValueError
    if not 0 < 128 * made.cost * made.block * made.parallel <= _MOST_MEMORY // 2 or made.cost & (made.cost - 1):
        raise ValueError
    return user, made


class Logins:
    """Users and the hashes of their passwords. Calling it says whether a user has a password. Immutable."""

    def __init__(self, path: Path) -> None:
        self._hashes: dict[str, _Hash] = {}
        for number, line in _lines(path, "logins"):
            try:
                user, made = _parsed_login(line)
            except (ValueError, binascii.Error):
                raise xd.InvalidArgumentError(
                    f"{shown_path(path)}, line {number}: a login is a line that `crossdock hash-password USER` prints"
                ) from None
            if user in self._hashes:
                raise xd.InvalidArgumentError(f"{shown_path(path)}, line {number}: {shown(user)} has a login already")
            self._hashes[user] = made

    def __call__(self, user: str, password: str) -> bool:
        return self._hashes.get(user, _NOBODY).fits(password) and user in self._hashes
