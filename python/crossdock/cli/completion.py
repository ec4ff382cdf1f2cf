"""What a shell offers for an argument that isn't complete: URIs of this user's servers, and names in their catalogs."""

from __future__ import annotations

import re
from collections.abc import Iterable, MutableMapping

import typer

import crossdock as xd
from crossdock import _native
from crossdock._names import shown_name

# As the shell has it: quotes may be open at the end.
_WORD = re.compile(r"""(?:[^\s'"\\]|\\.|'[^']*'?|"(?:[^"\\]|\\.)*"?)+""")
_MOST_SECONDS = 1.0  # A shell waits for this.

_kept = ""  # The part of the incomplete word that the shell keeps.


def join_words_of_bash(environ: MutableMapping[str, str]) -> None:
    """Undoes that bash ends a word at each colon. Of the word to complete it keeps what stands before the last one, and
    completes the rest."""
    global _kept
    if environ.get("_CROSSDOCK_COMPLETE") != "complete_bash":
        return
    words: list[str] = []
    at, joins = int(environ["COMP_CWORD"]), False
    current = at
    for number, word in enumerate(_WORD.findall(environ["COMP_WORDS"])):
        is_colon = not word.strip(":")
        if words and (is_colon or joins):
            words[-1] += word
            current -= number <= at
        else:
            words.append(word)
        joins = is_colon
    incomplete = words[current] if current < len(words) else ""
    _kept = incomplete[: incomplete.rfind(":") + 1]
    environ["COMP_WORDS"] = " ".join((*words[:current], incomplete[len(_kept) :]))
    environ["COMP_CWORD"] = str(current)


def _beginning_with(incomplete: str, found: Iterable[str]) -> list[str]:
    return [one.removeprefix(_kept) for one in found if one.startswith(_kept + incomplete)]


def uris(incomplete: str) -> list[str]:
    """Returns the URIs of this user's servers that have a name."""
    return _beginning_with(incomplete, (f"shm:{name}" for name in _native.shm_names()))


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
    return _beginning_with(incomplete, found)
