"""Texts for people: foreign text made safe for a terminal, and counts."""

from __future__ import annotations


def shown(text: str, limit: int | None = None) -> str:
    """Returns `text` on one line, without control sequences of terminals, cut at `limit` characters."""
    cut = text if limit is None else text[:limit]
    safe = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in cut)
    return safe if cut == text else f"{safe}... ({len(text):,} characters)"


def counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
