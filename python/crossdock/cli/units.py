"""Numbers as people read them. In a column of right-aligned cells the decimal points stand below each other."""

from __future__ import annotations

UNKNOWN = "-"
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_COUNTS = ("", "k", "M", "G", "T", "P")


def in_bytes(count: float | None) -> str:
    """As in "12.3 MiB" and "512   B  ": units are three letters wide, and whole numbers leave the decimal's place."""
    return _scaled(count, 1024, _BYTES, 3)


def in_counts(count: float | None) -> str:
    """As in "12.3 k" and "512    "."""
    return _scaled(count, 1000, _COUNTS, 1)


def _scaled(count: float | None, base: int, units: tuple[str, ...], width: int) -> str:
    if count is None:
        return f"{UNKNOWN}   {'':{width}}"
    if count == 0:
        return f"0   {'':{width}}"
    if round(count, 1) < base:
        whole = float(count).is_integer() or count >= 100
        number = f"{count:.0f}  " if whole else f"{count:.1f}"
        return f"{number} {units[0]:<{width}}"
    power = 0
    while round(count, 1) >= base and power < len(units) - 1:
        count /= base
        power += 1
    return f"{count:,.1f} {units[power]:<{width}}"


def in_full(count: int | None) -> str:
    return UNKNOWN if count is None else f"{count:,}"


def in_prose(text: str) -> str:
    """Removes what aligns a number in a column."""
    return " ".join(text.split())


def bytes_in_prose(count: float | None) -> str:
    return "0 B" if count == 0 else in_prose(in_bytes(count))


def in_time(seconds: float | None) -> str:
    """As in "0.3 s", "4 min 05 s" and "3 d 02 h"."""
    if seconds is None:
        return UNKNOWN
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 59.95 else "1 min 00 s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days:,} d {hours:02} h"
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s"


_LEVELS = "▁▂▃▄▅▆▇█"


def sparkline(values: list[float], width: int) -> str:
    """The last `width` values as bars, of which the highest is full. A value of 0 has the lowest bar."""
    shown = values[-width:] if width > 0 else []
    highest = max(shown, default=0.0)
    return "".join(_LEVELS[min(7, int(value / highest * 7.999))] if highest > 0 else _LEVELS[0] for value in shown)
