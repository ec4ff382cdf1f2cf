"""Text of others, on its way to a terminal."""

from __future__ import annotations


def shown(text: str, limit: int | None = None) -> str:
    """On one line, without what a terminal would obey; cut at `limit` characters."""
    cut = text if limit is None else text[:limit]
    safe = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in cut)
    return safe if cut == text else f"{safe}... ({len(text):,} characters)"
