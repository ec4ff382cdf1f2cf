"""Foreign text in messages is bounded: crossdock._text.quoted() quotes it, and not `!r` or `!a`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from crossdock._text import quoted

PACKAGE = Path(__file__).parents[2] / "python" / "crossdock"
# These make no messages of errors. The last one is given a text that was cut.
OTHERS = {"__repr__", "__getattr__", "column_text"}


def unbounded(source: str) -> list[int]:
    """The lines of `!r` and `!a` in f-strings, outside of functions that make no messages of errors."""
    lines: list[int] = []

    def look(node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef) and node.name in OTHERS:
            return
        if isinstance(node, ast.FormattedValue) and node.conversion in (ord("r"), ord("a")):
            lines.append(node.lineno)
        for child in ast.iter_child_nodes(node):
            look(child)

    look(ast.parse(source))
    return lines


def test_the_package_quotes_by_one_function():
    found = {
        str(path.relative_to(PACKAGE)): lines
        for path in PACKAGE.rglob("*.py")
        if path.name != "_text.py" and (lines := unbounded(path.read_text()))
    }
    assert found == {}


def test_what_is_found():
    for conversion in ("r", "a"):
        assert unbounded(f'def f(x):\n    raise ValueError(f"{{x!{conversion}}}")\n') == [2]
    assert unbounded('def __repr__(self):\n    return f"{self.x!r}"\n') == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("it's", '"it\'s"'),
        ("a" * (1 << 20), repr("a" * 200) + "... (1,048,576 characters)"),
        (b"a" * (1 << 20), repr(b"a" * 200) + "... (1,048,576 bytes)"),
        (list(range(100_000)), str(list(range(100_000)))[:200] + "... (688,890 characters)"),
        ("é" * 201, repr("é" * 200) + "... (201 characters)"),
        (10**5000, "a number of 16,610 bits"),
        (slice(10**5000), "an object of type slice"),
    ],
    ids=["short", "long", "bytes", "a list", "cut between characters", "a number", "what has no repr()"],
)
def test_long_values_are_cut(value, text):
    assert quoted(value) == text
