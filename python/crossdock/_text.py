"""Texts for people: foreign text made safe for a terminal, and counts. Texts of people, which must be UTF-8."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from crossdock.errors import Error, InvalidArgumentError

# Python refuses to write numbers that are much longer (sys.get_int_max_str_digits()), and nobody reads them.
_MOST_BITS = 512


def shown(text: str, limit: int | None = None) -> str:
    """Returns `text` on one line, without control sequences of terminals, cut at `limit` characters."""
    cut = text if limit is None else text[:limit]
    safe = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in cut)
    return safe if cut == text else f"{safe}... ({len(text):,} characters)"


def without_user(url: str) -> str:
    """Returns a URL without its user and password, which errors don't show. Also without slashes or a scheme, as
    somebody may write it; the same as without_user() in core/user_info.h."""
    begin = url.index("//") + 2 if "//" in url else url.partition("@")[0].find(":") + 1
    host = url[begin:].partition("/")[0].partition("?")[0]
    return url if "@" not in host else f"{url[:begin]}...{url[begin + host.rindex('@') :]}"


def quoted(value: object, limit: int = 200) -> str:
    """Returns `repr(value)` as `shown()`, for what error messages quote. A long value is cut, and its length follows. A
    value that Python can't write is described."""
    if isinstance(value, str | bytes):  # cut first: the text is then no longer than its part
        as_text = str.__repr__ if isinstance(value, str) else bytes.__repr__  # a subclass may write anything else
        if len(value) <= limit:
            return as_text(value)
        return f"{as_text(value[:limit])}... ({counted(len(value), 'character' if isinstance(value, str) else 'byte')})"
    if isinstance(value, int) and int.bit_length(value) > _MOST_BITS:
        return f"a number of {int.bit_length(value):,} bits"
    try:
        text = repr(value)
    except Exception:  # its own error would hide ours
        text = f"an object of type {type(value).__name__}"
    return shown(text, limit)


def class_of(value: object) -> str:
    """Returns the name of the value's class, for error messages."""
    return shown(type(value).__name__, 200)


def check_utf8(text: str, what: str) -> None:
    """Raises InvalidArgumentError for a text that can't be encoded as UTF-8. It isn't quoted: it may be a secret."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(
            f"{what} has surrogates, which aren't UTF-8: decode its bytes by the encoding that they have"
        ) from None


@contextmanager
def naming(place: object) -> Iterator[None]:
    """Has Crossdock's errors begin with where the value was given: an argument, an option, or a line and key of a
    file."""
    try:
        yield
    except Error as error:
        named = type(error)(f"{place}: {error}")
        if isinstance(error, OSError) and isinstance(named, OSError):
            named.errno = error.errno
        raise named from error


def counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
