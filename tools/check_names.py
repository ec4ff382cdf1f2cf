#!/usr/bin/env python3
"""Checks that code and documents use the words of docs/reference/glossary.md: the field's, one for each thing.

Prints `file:line: what is wrong` for each word that has a better one, and exits with 1 if there is any. A name that is
replaced throughout the project gets an entry here, so that it doesn't come back.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from checking import main

# A regular expression of the word: what to say instead. Words are matched whole, capitals count.
WORDS = {
    r"[Hh]ouse": "project, architecture",
    r"[Ff]loors?(?![<(])|crossdock_floor": "layer",  # std::floor() is what it is
    r"[Tt]wins?": "in-process implementation",
    r"[Gg]uests?|guests_": "PendingHandshake",
    r"[Gg]reets?": "advance",
    r"turn_away\w*|turn(s|ed|ing)? (\w+ ){0,2}away|Turned": "reject, Rejection",
    r"[Kk]nocks?": "arrive",
    r"say_goodbye": "close",
    r"Patience": "Deadline",
    r"(class|struct) Rest": "back-off, PendingWrite",
    r"[Ss]helf|Shelves": "Catalog",
    r"[Cc]atalogues?": "catalog",
    r"Puller|bury|\w*buried\w*": "SourceReader, defer_release",
    r"Parked|parked?_?|sweeps?|sweeping_?": "deferred-free list, reclaim",
    r"LastingQueue|keep_for_good|KeptForGood": "OwningQueue, leak",
    r"mover": "copy executor",
    r"unordered": "without_event, without order",
    r"[Vv]otes?": "is ignored",
    r"Lent|Adopted": "BufferView, ExternalMemory",
    r"Asked|Wanted|Looked|Bools": "options, request, NodeView, BoolPolicy",
    r"Hired|Waiters?": "wait-thread lease, WaitThread",
    r"[Ss]ettle(s|d|_\w+)?": "resolve, apply, flush, wait",
    r"Carries|StreamRole": "ChannelRole",
    r"\w*on_double|\w*cuda_double\w*|CUDA_DOUBLE\w*|tests/doubles": "fake",
    r"wrong_exporters|planted\w*|metadata_surgeon": "exporter_samples, mutants, metadata_mutator",
    r"[Jj]udg\w+": "check, checker",
    r"told\(|Spy|[Ss]pies|spy": "formatted(), CallbackProbe",
    r"by the letter|letter_server|letter-true|kLetter": "as specified, spec_server, kAsSpecified",
    r"(come|comes|came)[ _]home": "is freed",
    r"(give|gives|gave|given|giving) (\w+ )?back|give_back\w*": "free, release, return",
    r"(let|lets|letting) go|let_go\w*|letting_go": "release",
}
# The history of names, and texts that aren't ours.
EXEMPT = ("docs/reference/glossary.md", "tools/check_names.py", "tests/tools/test_check_names.py", "tests/fuzz/corpus/")

# The start of a word is looked for first: any other position costs one look instead of one for each word.
_EACH = "|".join(f"(?P<w{i}>{word})" for i, word in enumerate(WORDS))
_ANY = re.compile(rf"(?<!\w)(?=\w)(?:{_EACH})(?:(?<=\()|(?!\w))")
_INSTEAD = list(WORDS.values())


def findings(path: str, text: str) -> Iterator[str]:
    """`path:line: what is wrong` for each word in the path and the text."""
    for number, line in [(1, path), *enumerate(text.splitlines(), 1)]:
        for match in _ANY.finditer(line):
            instead = _INSTEAD[int((match.lastgroup or "w0")[1:])]
            yield f'{path}:{number}: "{match[0]}": say {instead} (docs/reference/glossary.md)'


class Checker:
    """The files of `root` that git knows, new ones included."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.checked = 0

    def run(self) -> Iterator[str]:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=self.root, capture_output=True, text=True, check=True,
        ).stdout.split("\0")  # fmt: skip
        for name in listed:
            path = self.root / name
            if not name or name.startswith(EXEMPT) or not path.is_file():
                continue
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue  # no text
            self.checked += 1
            yield from findings(name, text)


if __name__ == "__main__":
    sys.exit(main(__doc__, Checker))
