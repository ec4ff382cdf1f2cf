"""The code of the pages, for the tests that run it.

Tests get code blocks from `blocks()`, and say by `@runs(language, page)` whose blocks they take. So
tests/python/test_blocks.py finds a block that no test takes. It also finds a Python block that a reader can't run, by
`unexplained()`, and one that can't be pasted into Python's prompt, by `unpasteable()`.
"""

from __future__ import annotations

import ast
import builtins
import codeop
import collections
import fnmatch
import functools
import re
import symtable
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, overload

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^ *(`{3,}|~{3,}) *(.*?) *$")

Test = TypeVar("Test", bound=Callable[..., None])


class Block(NamedTuple):
    """A fenced block of a page."""

    page: str
    """From the root on."""
    line: int
    language: str
    """What stands behind the fence; empty: nothing."""
    code: str


def blocks_of(page: str, text: str) -> Iterator[Block]:
    """Yields the fenced blocks of a text in the order of the page, in lists and in longer fences too."""
    fence, begin, language, code = "", 0, "", ""
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        match = FENCE.match(line.rstrip("\n"))
        if not fence and match:
            fence, begin, language, code = match[1], number, match[2], ""
        elif fence and match and match[1].startswith(fence) and not match[2]:
            yield Block(page, begin, language, code)
            fence = ""
        elif fence:
            code += line
    assert not fence, f"{page}:{begin}: this block has no end"


def pages() -> list[str]:
    """The pages that are checked; notebooks have a test of their own."""
    paths = [*ROOT.glob("*.md"), *DOCS.glob("**/*.md"), *(ROOT / "examples").glob("**/*.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in paths)


@functools.cache
def every_block() -> tuple[Block, ...]:
    """The blocks of all pages, without the directives: these call an extension of the site."""
    found = [block for page in pages() for block in blocks_of(page, (ROOT / page).read_text())]
    return tuple(block for block in found if not block.language.startswith("{"))


class _Taken(Sequence[str]):
    """The blocks of a language in a page. Notes which of them are taken out."""

    def __init__(self, codes: list[str]) -> None:
        self._codes = codes
        self.taken: set[int] = set()

    def __len__(self) -> int:
        return len(self._codes)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        numbers = range(len(self._codes))[at]
        self.taken |= {numbers} if isinstance(numbers, int) else set(numbers)
        return self._codes[at]


_asked: list[tuple[str, str, _Taken]] = []


def blocks(language: str, page: str) -> Sequence[str]:
    """The code blocks of a language in a page, whose path is from the root on."""
    found = _Taken([block.code for block in every_block() if (block.language, block.page) == (language, page)])
    _asked.append((language, page, found))
    return found


class Claim(NamedTuple):
    """What a test says that it runs: these blocks of a language in a page, or in the pages of a pattern."""

    language: str
    page: str
    numbers: tuple[int, ...]
    """Empty: all blocks."""

    def fits(self, language: str, page: str) -> bool:
        return self.language == language and fnmatch.fnmatchcase(page, self.page)

    def covers(self, block: Block, number: int) -> bool:
        return self.fits(block.language, block.page) and (not self.numbers or number in self.numbers)


def runs(language: str, page: str, *numbers: int) -> Callable[[Test], Test]:
    """Marks a test that runs, builds or reads the blocks of a language in a page; `*` stands for any characters.

    numbers: of the blocks, from 0 on. Without them it is all blocks, and the test fails if it leaves one out.

    The arguments are literals: claims() reads them from the source.
    """
    claim = Claim(language, page, numbers)

    def mark(test: Test) -> Test:
        if hasattr(test, "claims"):
            test.claims.append(claim)
            return test
        claimed = [claim]

        @functools.wraps(test)
        def checked(*arguments: Any, **options: Any) -> None:
            before = len(_asked)
            test(*arguments, **options)
            left = [fault for one in claimed for fault in _left_out(one, _asked[before:])]
            assert not left, f"this test leaves out {', '.join(left)}"
            assert any(one.fits(*asked[:2]) for one in claimed for asked in _asked[before:]), "this test takes no block"

        checked.claims = claimed  # type: ignore[attr-defined]
        return checked  # type: ignore[return-value]

    return mark


def _left_out(claim: Claim, asked: list[tuple[str, str, _Taken]]) -> Iterator[str]:
    """Yields the blocks that a test claims without numbers, and hasn't taken of the pages that it asked for."""
    found = [(page, taken) for language, page, taken in asked if claim.fits(language, page) and not claim.numbers]
    for page in {page for page, _ in found}:
        of_page = [taken for name, taken in found if name == page]
        for number in sorted(set(range(len(of_page[0]))) - set().union(*(one.taken for one in of_page))):
            yield f"{claim.language} block {number} of {page}"


def claims(folder: Path = ROOT / "tests") -> list[Claim]:
    """The claims of all tests, from their sources."""
    found = []
    for path in sorted(folder.glob("**/test_*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "@runs(" in text else ():
            for decorator in getattr(node, "decorator_list", ()):
                if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "runs":
                    language, page, *numbers = [ast.literal_eval(argument) for argument in decorator.args]
                    found.append(Claim(language, page, tuple(numbers)))
    return found


def unclaimed(blocks: Sequence[Block], claimed: Sequence[Claim]) -> list[str]:
    """The blocks that no claim covers, and the claims that cover no block, as lines of a report."""
    before: collections.Counter[tuple[str, str]] = collections.Counter()
    report = []
    needed = {(claim, number) for claim in claimed for number in claim.numbers or [None]}
    for block in blocks:
        number = before[block.page, block.language]
        before[block.page, block.language] += 1
        covering = [claim for claim in claimed if claim.covers(block, number)]
        needed -= {(claim, number if claim.numbers else None) for claim in covering}
        if not covering:
            kind = f"block {number} in {block.language!r}" if block.language else "block without a language"
            report.append(f"{block.page}:{block.line}: no test runs this {kind}")
    return report + sorted(f"there is no block {number} of {claim}" for claim, number in needed)


# A comment that says what a name is which the reader brings, as `# accounts: your own object`. Commas separate names.
EXPLAINED = re.compile(r"^ *# (\w+(?:, \w+)*): \S", re.MULTILINE)
COMMENT = re.compile(r"#.*")
# A filter string or a device, in code.
OF_A_GPU = re.compile(r"""["'](?:cuda|gpu)(?![\w,])|\btorch\.cuda\b""")
CONTINUES = re.compile(r"\b(?:continues?|after the)\b", re.IGNORECASE)
OF_PYTHON = frozenset(dir(builtins)) | {"__name__"}


def names_of(code: str) -> tuple[set[str], set[str]]:
    """The names that a block uses outside of its functions' own, and the names that it makes or explains."""
    code = textwrap.dedent(code)
    try:
        table = symtable.symtable(code, "block", "exec")
    except SyntaxError:  # `await` outside of a function, as in a notebook
        (table,) = symtable.symtable(
            f"async def block():\n{textwrap.indent(code, ' ')}", "block", "exec"
        ).get_children()
    used = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    made = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    inner = table.get_children()
    while inner:
        scope = inner.pop()
        inner += scope.get_children()
        used |= {symbol.get_name() for symbol in scope.get_symbols() if symbol.is_global() and symbol.is_referenced()}
    return used, made.union(*(match[1].split(", ") for match in EXPLAINED.finditer(code)))


def with_paragraph(page: str, text: str) -> Iterator[tuple[Block, str]]:
    """Yields the Python blocks of a page, each with the paragraph before it, which is empty behind another block."""
    lines, at = text.splitlines(), 0
    for block in blocks_of(page, text):
        before = "\n".join(lines[at : block.line - 1]).strip().rpartition("\n\n")[2]
        at = block.line + block.code.count("\n") + 1
        if block.language == "python":
            yield block, before


def unexplained(page: str, text: str) -> list[str]:
    """What keeps a reader from running the Python blocks of a page, as lines of a report.

    These are names that no block has made so far; a block that needs earlier ones, if neither the text before the
    page's first section nor the paragraph before the block says so; and a block for a GPU, if neither that paragraph
    nor a comment of the block says so.
    """
    report = []
    made: set[str] = set()
    beginning = text.partition("\n## ")[0]
    for block, before in with_paragraph(page, text):
        where = f"{page}:{block.line}: nothing says"
        used, own = names_of(block.code)
        needed = used - own - OF_PYTHON
        if needed - made:
            report.append(f"{where} what this is: {', '.join(sorted(needed - made))}")
        elif needed and not CONTINUES.search(beginning + before):
            report.append(f"{where} that this block needs those before it")
        if OF_A_GPU.search(COMMENT.sub("", block.code)) and "GPU" not in before + "".join(COMMENT.findall(block.code)):
            report.append(f"{where} that this block needs a GPU")
        made |= own
    return report


# A file of Python that a paragraph names, as in: Save this as `get.py`.
OF_A_FILE = re.compile(r"`\w+\.py`")


def has_gaps(code: str) -> bool:
    """Whether a function or class of a block has an empty line in it, at which a prompt ends it."""
    lines = code.splitlines()
    return any(
        not line.strip()
        for node in ast.walk(ast.parse(code))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        for line in lines[node.lineno : node.end_lineno]
    )


def unpasteable(page: str, text: str) -> list[str]:
    """The Python blocks of a page that can't be pasted into Python's prompt, as lines of a report.

    A prompt reads line by line: an empty line ends an indented part of the code, and nothing else does. Two kinds of
    blocks are for a file instead: those whose paragraph names one, and those with an empty line in a function or class.
    """
    report = []
    for block, before in with_paragraph(page, text):
        code = textwrap.dedent(block.code)
        if OF_A_FILE.search(before) or has_gaps(code):
            continue
        compiler = codeop.CommandCompiler()
        compiler.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # as in a notebook
        statement = ""
        for number, line in enumerate([*code.splitlines(), ""], block.line + 1):
            try:
                complete = compiler(statement + line, symbol="single")
            except SyntaxError:
                fault = "needs an empty line before it" if statement else "can't be behind an empty line"
                report.append(f"{page}:{number}: in a prompt, this line {fault}: {line.strip()}")
                break
            statement = "" if complete else f"{statement}{line}\n"
    return report


def local(block: str, **instead: str) -> str:
    """The block with addresses of this machine in the place of those that it names."""
    block = block.replace("//*:7700", "//127.0.0.1:0").replace("//*:8815", "//127.0.0.1:0")
    for name, address in instead.items():
        block = re.sub(rf"\"{name}(\+tls)?://[\w.]+:\d+\"", f'"{address}"', block)
    return block


def closed(names: dict[str, Any]) -> None:
    """Closes the client and the server that a block has made."""
    for name in ("client", "server"):
        if hasattr(names.get(name), "close"):
            names.pop(name).close()
