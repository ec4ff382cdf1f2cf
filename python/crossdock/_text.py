"""Texts for people: foreign text made safe for a terminal, and counts."""

from __future__ import annotations


def shown(text: str, limit: int | None = None) -> str:
    """Returns `text` on one line, without control sequences of terminals, cut at `limit` characters."""
    cut = text if limit is None else text[:limit]
    safe = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in cut)
    return safe if cut == text else f"{safe}... ({len(text):,} characters)"


def quoted(value: object, limit: int = 200) -> str:
    """Returns `repr(value)`, for what error messages quote. A long value is cut, and its length follows."""
    if isinstance(value, str | bytes):  # cut first: the text is then no longer than its part
        if len(value) <= limit:
            return repr(value)
        return f"{value[:limit]!r}... ({counted(len(value), 'character' if isinstance(value, str) else 'byte')})"
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text):,} characters)"


def counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
