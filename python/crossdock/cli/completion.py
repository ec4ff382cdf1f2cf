"""What a shell offers for an argument that isn't complete: URIs of this user's servers, and names in their catalogs."""

from __future__ import annotations

import typer

import crossdock as xd
from crossdock import _native
from crossdock._names import shown_name

_MOST_SECONDS = 1.0  # A shell waits for this.


def uris(incomplete: str) -> list[str]:
    """Returns the URIs of this user's servers that have a name."""
    return [uri for name in _native.shm_names() if (uri := f"shm:{name}").startswith(incomplete)]


def names(context: typer.Context, incomplete: str) -> list[str]:
    """Returns the names in the catalog of the server whose URI stands before; none if it can't be asked, because a
    shell shows no errors."""
    uri = context.params.get("uri") or context.params.get("target")
    if not isinstance(uri, str):
        return []
    try:
        with xd.connect(uri, timeout=_MOST_SECONDS) as client:
            found = [shown_name(entry.name) for entry in client.list()]
    except xd.Error:
        return []
    return [name for name in found if name.startswith(incomplete)]
