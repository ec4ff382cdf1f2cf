"""Makes foreign text safe for a terminal."""

from __future__ import annotations


def shown(text: str, limit: int | None = None) -> str:
    """Returns `text` on one line, without control sequences of terminals, cut at `limit` characters."""
    cut = text if limit is None else text[:limit]
    safe = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in cut)
    return safe if cut == text else f"{safe}... ({len(text):,} characters)"
