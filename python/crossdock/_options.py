"""Checks of arguments that several classes take."""

from __future__ import annotations

import math
from collections.abc import Iterable

from crossdock.errors import InvalidArgumentError, UriError

_MAX_MS = 2**31 - 1


def milliseconds(seconds: float | None, what: str) -> int:
    """Converts seconds to the library's whole milliseconds, rounded up. None means no limit (-1)."""
    if seconds is None:
        return -1
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"{what} is a number of seconds or None, not {type(seconds).__name__}")
    if math.isnan(seconds) or seconds < 0:
        raise InvalidArgumentError(f"{what} is a number of seconds from 0 on, or None for ever; it was {seconds!r}")
    return min(math.ceil(min(seconds, _MAX_MS) * 1000), _MAX_MS)


def limit(number: int, what: str) -> int:
    """Checks a limit: the library takes an unsigned number of 64 bits."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"{what} is an int, not {type(number).__name__}")
    if not 0 <= number < 2**64:
        raise InvalidArgumentError(f"{what} is a number from 0 to 2**64 - 1; it was {number}")
    return number


def trusted_users(users: str | Iterable[int] | None) -> tuple[bool, list[int]]:
    """Converts the option `users`. Returns whether any user is trusted, and the user ids beside the caller's own."""
    if users is None:
        return False, []
    if isinstance(users, str):
        if users == "any":
            return True, []
        raise InvalidArgumentError(f'users is None, "any" or user ids; it was {users!r}')
    ids = []
    for user in users:
        if isinstance(user, bool) or not isinstance(user, int):
            raise TypeError(f"a user id is an int, not {type(user).__name__}")
        if not 0 <= user < 2**32:
            raise InvalidArgumentError(f"{user} is no user id")
        ids.append(user)
    return False, ids


def checked_uri(uri: str) -> str:
    """Checks that a URI is a str that can be encoded as UTF-8. The library finds all other mistakes."""
    if not isinstance(uri, str):
        raise TypeError(f"a URI is a str, as in 'shm:' or as a server's uri has it, not {type(uri).__name__}")
    try:
        uri.encode()
    except UnicodeEncodeError:
        raise UriError(f"the URI {uri!a} has bytes that are no UTF-8; write them as %XX") from None
    return uri


def checked_name(name: str) -> str:
    """Checks the name of a table: a str that can be encoded as UTF-8."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a table is a str, not {type(name).__name__}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"the name {name!a} of a table has bytes that are no UTF-8") from None
    return name


def secret(token: str | None) -> str:
    """Checks a token. Returns it as the library takes it: an empty text for None."""
    if token is None:
        return ""
    if not isinstance(token, str):
        raise TypeError(f"a token is a str, not {type(token).__name__}")
    if not 1 <= len(token.encode()) <= 1024:
        raise InvalidArgumentError("a token has 1 to 1024 bytes")
    return token


def checked_flag(value: bool | None, what: str) -> bool | None:
    """Checks an option that is True, False, or None. With None the library decides."""
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"{what} is True, False or None, not {type(value).__name__}")
    return value
