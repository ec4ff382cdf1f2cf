"""The form of the package's docstrings, for the site and for the test of the reference.

A docstring is a brief first sentence, text, and for each parameter a line `name: what it is`, whose text goes on in
indented lines. Backticks hold code. "The same as `get()`", "those of `get()`" and "as for `get()`" leave the
parameters to another docstring. Without Sphinx: tests/tools/test_reference.py uses it, too.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator

_FIELD = re.compile(r"((?:\*{0,2}\w+, )*\*{0,2}\w+): (.*)")
_CODE = re.compile(r"(?<![`:])`([^`]+)`(?![`_])")
_LEFT_TO = re.compile(r"(?:the same as|those of|as for|see|as) `([\w.]+)(?:\(\))?`", re.IGNORECASE)
_SIGNATURE = re.compile(r"\w+\(.*\)( -> .*)?")


def text_of(thing: object) -> str:
    """The docstring that is the object's own, without the signature that nanobind puts in front."""
    text = inspect.getdoc(thing) or ""
    first, _, rest = text.partition("\n")
    if _SIGNATURE.fullmatch(first) or re.fullmatch(r"\(self\) -> .*", first):
        text = rest.strip()
    return text


def fields(text: str, parameters: Collection[str]) -> Iterator[tuple[int, int, list[str], str]]:
    """Yields each description of a parameter: its first line, the line behind its last one, names and text."""
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        match = _FIELD.fullmatch(lines[number])
        names = [name.lstrip("*") for name in match[1].split(", ")] if match else []
        number += 1
        if match is None or not set(names) <= set(parameters):
            continue
        end = number
        while end < len(lines) and lines[end].startswith("    "):
            end += 1
        yield number - 1, end, names, "\n".join([match[2], *(line[4:] for line in lines[number:end])])
        number = end


def undescribed(text: str, parameters: Collection[str]) -> list[str]:
    """The parameters that neither have a line of their own nor are named in the text."""
    there = {name for _, _, names, _ in fields(text, parameters) for name in names}
    there |= set(re.findall(r"\w+", " ".join(_CODE.findall(text)))) | set(re.findall(r"\b(\w+)=", text))
    return [name for name in parameters if name not in there]


def left_to(text: str) -> list[str]:
    """The functions by whose docstrings a docstring describes its parameters, as they are named there."""
    return _LEFT_TO.findall(text)


def as_rst(text: str, parameters: Collection[str], link: Callable[[str], str | None]) -> list[str]:
    """The docstring as reStructuredText: descriptions as fields, and code as code.

    link: returns the full name of what a name in backticks stands for; None if the reference has no such entry.
    """
    lines = text.splitlines()
    out: list[str] = []
    done = 0
    for start, end, names, described in fields(text, parameters):
        _add(out, _prose(lines[done:start], link))
        body = _prose(described.splitlines(), link)
        block = [f":param {names[-1]}: {body[0]}", *(f"    {line}" if line else "" for line in body[1:])]
        _add(out, [*(f":param {name}:" for name in names[:-1]), *block])
        done = end
    _add(out, _prose(lines[done:], link))
    return out


def _add(out: list[str], lines: list[str]) -> None:
    """Adds a block, behind an empty line unless field follows field."""
    if not any(lines):
        return
    last = next((line for line in reversed(out) if line and not line.startswith(" ")), "")
    while not lines[0]:
        lines = lines[1:]
    if out and out[-1] and not (lines[0].startswith(":param") and last.startswith(":param")):
        out.append("")
    out += lines


def _prose(lines: list[str], link: Callable[[str], str | None]) -> list[str]:
    """Text, in which a name in backticks is code and a link, and an indented part behind an empty line an example."""

    def code(match: re.Match[str]) -> str:
        full = link(match[1])
        return f"``{match[1]}``" if full is None else f":py:obj:`{match[1]} <{full}>`"

    out: list[str] = []
    for paragraph in re.split(r"\n{2,}", "\n".join(lines)):
        if paragraph.startswith("    "):
            if out and out[-1] == "" and out[:-1] and out[-2].startswith("    "):
                out += [paragraph, ""]  # the same example goes on
            else:
                out += ["::", "", *paragraph.splitlines(), ""]
            continue
        text = _CODE.sub(code, re.sub(r"(`[^`]+`)|([*\\])", lambda m: m[1] or f"\\{m[2]}", paragraph))
        out += [*text.splitlines(), ""]
    while out and not out[-1]:
        out.pop()
    return out
