"""The networks whose memory a client can read, and why one can't be here."""

from __future__ import annotations

SCHEMES = ("ucx", "fabric")


def uri(scheme: str, host: str = "127.0.0.1") -> str:
    return f"{scheme}://{host}:0"


def why_not(scheme: str) -> str:
    """Empty where a server can listen."""
    import crossdock as xd

    try:
        xd.serve({}, uri(scheme)).close()
    except xd.Error as error:
        return str(error)
    return ""
