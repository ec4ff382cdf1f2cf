#!/usr/bin/env python3
"""Checks the pages as they are, without building the site: links, code blocks, names of files and commands, tables.

    tools/check_docs.py [--root FOLDER]

Reads the pages beside the README, below docs/ and below examples/, notebooks too. Prints `page:line: what is wrong` for
each link that leads nowhere (pages and their headings), code block that isn't closed or isn't Python where it says so,
file of this tree that isn't there, in backticks or in plain text, `./dev` command that doesn't exist, and cell of a
table that is too long to be read; and `page: ...` for a page that no other one leads to. Exits with 1 where there is
any. tests/python/test_blocks.py checks that tests run the code blocks.
"""

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from checking import main
from notebooks import as_markdown

# Where somebody begins to read. Whoever is led to a folder is led to the pages in it.
START = "README.md"
# Code in a text that begins like this is a file of this tree; `*` stands for any name.
TOP = r"(?:docs|src|include|tests|python|bench|examples|tools|cmake|packaging)/"
OF_THE_TREE = re.compile(TOP + r"[\w./*-]*$")
# In plain text, only what has a suffix is a file: "tests/fuzz" may be two words.
IN_TEXT = re.compile(rf"(?<![\w/.:-]){TOP}[\w./-]*\.\w+")

FENCE = re.compile(r"^```(\w*|\{[\w-]+\}.*)$")
LINK = re.compile(r"\[[^][]*(?:\[[^][]*\][^][]*)*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`]+)`")
CELL = re.compile(r"(?<!\\)\|")
MOST_IN_A_CELL = 150  # as they are shown: without the targets of links
DEV = re.compile(r"(?:^|\s)\./dev ([a-z]\w*)")


def without(pattern: re.Pattern[str], text: str) -> str:
    """The text with blanks in place of what the pattern matches; its line ends stay."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


class Page:
    """A page in parts: its prose, and its code blocks with their languages, each with the line it begins at."""

    def __init__(self, root: Path, path: Path) -> None:
        self.name = str(path.relative_to(root))
        self.folder = path.parent
        self.prose = ""  # with empty lines for the blocks
        self.blocks: list[tuple[int, str, str]] = []
        self.open_since = 0
        language, block = "", ""
        text = path.read_text()
        for number, line in enumerate((as_markdown(text) if path.suffix == ".ipynb" else text).splitlines(), 1):
            fence = FENCE.match(line)
            if fence and not self.open_since:
                self.open_since, language, block = number, fence[1], ""
            elif fence:
                self.blocks.append((self.open_since, language, block))
                self.open_since = 0
            elif self.open_since:
                block += line + "\n"
            self.prose += ("" if fence or self.open_since else line) + "\n"

    def headings(self) -> set[str]:
        """The names by which GitHub knows them."""
        found = re.findall(r"^#+ +(.*?) *$", self.prose, re.MULTILINE)
        return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}

    def line_of(self, match: re.Match[str]) -> int:
        return self.prose.count("\n", 0, match.start()) + 1


class Checker:
    def __init__(self, root: Path) -> None:
        self.root = root
        patterns = ("*.md", "docs/**/*.md", "docs/**/*.ipynb", "examples/**/*.md")
        paths = sorted(path for pattern in patterns for path in root.glob(pattern))
        self.pages = {path.resolve(): Page(root, path) for path in paths}
        self.checked = len(self.pages)
        dev = root / "dev"
        help_ = re.findall(r"^  \./dev ([a-z]+(?: \| [a-z]+)*)", dev.read_text() if dev.exists() else "", re.MULTILINE)
        self.commands = {name for names in help_ for name in names.split(" | ")}

    def run(self) -> Iterator[str]:
        reached = {(self.root / START).resolve()}
        for path, page in self.pages.items():
            yield from (f"{page.name}:{line}: {what}" for line, what in self.of_page(page))
            reached |= {self.target(page, match) for match in LINK.finditer(page.prose)} - {path}
        for path, page in self.pages.items():
            if not reached & {path, path.parent}:
                yield f"{page.name}: no page leads here"

    def of_page(self, page: Page) -> Iterator[tuple[int, str]]:
        if page.open_since:
            yield page.open_since, "this code block has no end"
        for match in LINK.finditer(page.prose):
            yield from ((page.line_of(match), what) for what in self.of_link(page, match))
        for match in CODE.finditer(page.prose):
            code = " ".join(match[1].split())
            if OF_THE_TREE.match(code) and not any(self.root.glob(code)):
                yield page.line_of(match), f"{code} isn't there"
            yield from ((page.line_of(match), what) for what in self.of_commands(code))
        for match in IN_TEXT.finditer(without(LINK, without(CODE, page.prose))):
            if not (self.root / match[0]).exists():
                yield page.line_of(match), f"{match[0]} isn't there"
        for number, line in enumerate(page.prose.splitlines(), 1):
            for cell in CELL.split(line)[1:-1] if line.startswith("|") else ():
                length = len(LINK.sub(lambda match: match[0][1 : match[0].index("](")], cell.strip()))
                if length > MOST_IN_A_CELL:
                    yield number, f"a cell of {length} characters, of which at most {MOST_IN_A_CELL} can be read well"
        for start, language, block in page.blocks:
            if language == "python":
                try:
                    compile(textwrap.dedent(block), page.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                except SyntaxError as error:
                    yield start + (error.lineno or 0), f"not Python: {error.msg}"
            for number, line in enumerate(block.splitlines() if language == "sh" else [], start + 1):
                yield from ((number, what) for what in self.of_commands(line))

    def target(self, page: Page, match: re.Match[str]) -> Path:
        path = match[1].partition("#")[0]
        return (page.folder / path).resolve() if path else (self.root / page.name).resolve()

    def of_link(self, page: Page, match: re.Match[str]) -> Iterator[str]:
        if "://" in match[1]:
            return  # the network's
        target, heading = self.target(page, match), match[1].partition("#")[2]
        if not target.exists():
            yield f"{match[1]} leads nowhere"
        elif heading and target in self.pages and heading not in self.pages[target].headings():
            yield f"{match[1]}: that page has no such heading"

    def of_commands(self, code: str) -> Iterator[str]:
        for name in DEV.findall(code):
            if name not in self.commands:
                yield f"./dev has no command {name}"


if __name__ == "__main__":
    sys.exit(main(__doc__, Checker))
