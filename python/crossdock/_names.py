"""Names of what is published, as the command shows and reads them: text as it is, bytes as Python writes them.

What is shown stands for one name alone: a text that could be read as a literal of Python's is shown as one, too.
"""

from __future__ import annotations

import ast
import re

from crossdock._text import quoted, shown
from crossdock.errors import InvalidArgumentError

_LITERAL = re.compile(r"b?['\"]")


def shown_name(name: str | bytes) -> str:
    return repr(name) if isinstance(name, bytes) or _LITERAL.match(name) else name


def parsed_name(text: str) -> str | bytes:
    """Reads a name as `shown_name()` writes it. Raises `InvalidArgumentError` for what begins as a literal and is
    none."""
    if not _LITERAL.match(text):
        return text
    try:
        name = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        name = None
    if not isinstance(name, (str, bytes)):
        raise InvalidArgumentError(
            f"the name {shown(text, 200)} begins as a literal of Python's, and is none: quote it, {quoted(text)}"
        )
    return name
