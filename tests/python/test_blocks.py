"""Every code block of the pages is run, built or read by a test, and shell commands name what is there."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.pages import (
    DOCS,
    ROOT,
    Block,
    Claim,
    blocks,
    blocks_of,
    claims,
    every_block,
    pages,
    runs,
    unclaimed,
    unexplained,
    unpasteable,
)

# ---- every block is taken by a test --------------------------------------------------------------------------------


def test_every_block_is_run_by_a_test():
    """A new block is reported here. Let a test run it, which says so by `@runs(language, page)` of tests/pages.py."""
    assert unclaimed(every_block(), claims()) == []
    assert len(every_block()) > 100


def test_a_directive_is_one_of_the_sites():
    """It is no code: the site's extensions make text of it, and `./dev docs` fails if they can't."""
    extensions = "".join(path.read_text() for path in (DOCS / "_ext").glob("*.py"))
    found = [block.language for page in pages() for block in blocks_of(page, (ROOT / page).read_text())]
    directives = {language[1:].partition("}")[0] for language in found if language.startswith("{")}
    assert {name for name in directives if f"```{{{name}}}" not in extensions} == set()
    assert directives


PAGE = """# A page
```python
first
```
- in a list:
  ```sh
  ls
  ```
````text
```python
no block of its own
```
````
```
without a language
```
```python
second
```
"""


def test_a_block_that_no_test_runs_is_reported():
    found = list(blocks_of("p.md", PAGE))
    assert [(block.line, block.language) for block in found] == [
        (2, "python"), (6, "sh"), (9, "text"), (14, ""), (17, "python"),
    ]  # fmt: skip
    claimed = [Claim("python", "*.md", (0,)), Claim("sh", "p.md", ()), Claim("text", "p.md", ())]
    assert unclaimed(found, claimed) == [
        "p.md:14: no test runs this block without a language",
        "p.md:17: no test runs this block 1 in 'python'",
    ]
    claimed += [Claim("python", "p.md", (1, 2)), Claim("", "p.md", ()), Claim("c", "p.md", ())]
    assert unclaimed(found, claimed) == [
        "there is no block 2 of Claim(language='python', page='p.md', numbers=(1, 2))",
        "there is no block None of Claim(language='c', page='p.md', numbers=())",
    ]


def test_a_block_without_an_end_is_reported():
    with pytest.raises(AssertionError, match=r"p\.md:1: this block has no end"):
        list(blocks_of("p.md", "```python\nx = 1\n"))


def test_a_test_that_leaves_out_a_block_fails():
    @runs("python", "docs/how-to/arrays.md")
    def first_alone():
        blocks("python", "docs/how-to/arrays.md")[0]

    @runs("python", "docs/how-to/arrays.md")
    def none():
        blocks("python", "docs/how-to/tensors.md")[0]

    with pytest.raises(AssertionError, match=r"leaves out python block 1 of docs/how-to/arrays\.md, "):
        first_alone()
    with pytest.raises(AssertionError, match="takes no block"):
        none()


# ---- every Python block runs after those before it, and can be pasted ----------------------------------------------


@pytest.mark.parametrize("page", pages())
def test_a_reader_can_run_the_blocks_of_a_page(page):
    """Import what a block uses, or say in a comment what it is: `# accounts: your own object`."""
    assert unexplained(page, (ROOT / page).read_text()) == []


def test_a_block_that_a_reader_cannot_run_is_reported():
    page = """# A page
## A section
```python
import this
first = [this for one in range(3)]
```
```python
# mine, yours: objects of the reader's
def function(argument):
    return argument, first, mine, other
```
This block continues the first one. It needs a GPU.
```python
print(first, function, yours, await queue("gpu"))
```
```python
queue = await first("cuda:0")
```
"""
    assert unexplained("p.md", page) == [
        "p.md:7: nothing says what this is: other",
        "p.md:13: nothing says what this is: queue",
        "p.md:16: nothing says that this block needs those before it",
        "p.md:16: nothing says that this block needs a GPU",
    ]


@pytest.mark.parametrize("page", pages())
def test_the_blocks_of_a_page_can_be_pasted_into_a_prompt(page):
    """Put an empty line behind an indented part, and none into it; or name the file that the block is for."""
    assert unpasteable(page, (ROOT / page).read_text()) == []


def test_a_block_that_no_prompt_takes_is_reported():
    page = """# A page
```python
with this:
    first()
then()
```
```python
with this:
    first(

    )

    second()
then()
```
In a list:

- ```python
  with this:
      await first()

  if second:
      third()
  elif fourth:  # no new statement
      # a comment

  fifth()
  ```

Save this as `this.py`:
```python
with this:
    first()

    second()
then()
```
A function, and a class:
```python
def function():
    first()

    second()
function()
```
```python
class Class:
    first = 1

    def second(self):
        pass
```
```python
def function():
    first()
function()
```
```python
if this:
    first()

else:
    second()
```
"""
    assert unpasteable("p.md", page) == [
        "p.md:5: in a prompt, this line needs an empty line before it: then()",
        "p.md:13: in a prompt, this line can't be behind an empty line: second()",
        "p.md:56: in a prompt, this line needs an empty line before it: function()",
        "p.md:62: in a prompt, this line can't be behind an empty line: else:",
    ]


# ---- commands of shells --------------------------------------------------------------------------------------------

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DEV = (ROOT / "dev").read_text()
# A command whose output is a part of another one.
WITHIN = re.compile(r"\$\(((?:'[^']*'|[^()'])*)\)")


def commands(line: str) -> Iterator[list[str]]:
    """Yields the words of each command of a line of a shell, without assignments and without where its output goes."""
    for match in WITHIN.finditer(line):
        yield from commands(match[1])
    lexer = shlex.shlex(WITHIN.sub("OUTPUT", line), posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    words: list[str] = []
    before = ""
    for word in [*lexer, ";"]:
        if set(word) <= set("();|&"):
            if words:
                yield words
            words = []
        elif not set(word) <= set("<>") and not set(before) & set("<>") and (words or not re.match(r"\w+=", word)):
            words.append(word)
        before = word


def requirements() -> set[str]:
    """The names of the packages of pyproject.toml."""
    groups = [*PROJECT["dependency-groups"].values(), *PROJECT["project"]["optional-dependencies"].values()]
    texts = [one for group in groups for one in group if isinstance(one, str)]
    return {match[0] for text in texts if (match := re.match(r"[\w-]+", text))}


def check_crossdock(words: list[str], folder: Path) -> None:
    import typer

    from crossdock.cli import application

    name, *arguments = words[1:]
    top = typer.main.get_command(application())
    context = top.make_context("crossdock", [], resilient_parsing=True)
    command = top.get_command(context, name)  # type: ignore[attr-defined]
    assert command is not None, f"there is no command {name}"
    wrong_usage = typer.BadParameter.__bases__[0]
    try:
        command.make_context(name, arguments, parent=context)
    except wrong_usage as error:
        if "does not exist" not in str(error):  # a file that isn't here
            raise


def check_pip(words: list[str], folder: Path) -> None:
    """Packages are those of pyproject.toml, and extras are ours."""
    assert words[1] == "install"
    if words[2:5] == ["--no-index", "--find-links", "dist"]:  # which ./dev wheel makes
        words = [*words[:2], *words[5:]]
    arguments = words[2 : words.index("-C")] if "-C" in words else words[2:]
    extras = PROJECT["project"]["optional-dependencies"].keys()
    for argument in arguments:
        match = re.fullmatch(r"(?P<name>[\w-]+|\.)(?:\[(?P<extras>[\w,]+)\])?", argument)
        assert match, argument
        assert match["name"] in {".", "crossdock", *requirements()}, f"no requirement of pyproject.toml: {argument}"
        assert set((match["extras"] or "").split(",")) - {""} <= set(extras), argument
        assert not match["extras"] or match["name"] in (".", "crossdock"), argument
    for option in words[len(arguments) + 2 :: 2]:
        assert option == "-C"
    for setting in words[len(arguments) + 3 :: 2]:
        name = setting.removeprefix("cmake.define.").partition("=")[0]
        lists = [*ROOT.glob("cmake/*.cmake"), *ROOT.glob("src/*/CMakeLists.txt"), ROOT / "CMakeLists.txt"]
        assert any(re.search(rf"\b{name}\b", path.read_text()) for path in lists), setting


def check_apt(words: list[str], folder: Path) -> None:
    """Packages are among those that `./dev` installs."""
    for package in words[2:] if words[1] == "install" else []:
        assert f'"{package}"' in DEV, f"./dev doesn't install {package}"
    assert words[1] in ("install", "update")


def check_dev(words: list[str], folder: Path) -> None:
    """tools/check_docs.py checks the commands' names; CI runs them."""
    assert re.search(rf"^  \./dev (?:\w+ \| )*{words[1]}\b", DEV, re.MULTILINE), words


def check_python(words: list[str], folder: Path) -> None:
    if words[1] == "-c":
        compile(words[2], "-c", "exec")
    elif words[1] == "-m":
        assert words[2] == "venv"
    else:
        assert (folder / words[1]).is_file(), f"{words[1]} isn't in {folder}"


def check_files(words: list[str], folder: Path) -> None:
    """Files of ours that are installed: those of examples/service, where the page tells the reader to be."""
    options = {"-D", "-d", "-m", "-o"}
    names = [word for word, before in zip(words[1:], words, strict=False) if word not in options]
    for name in names:
        if name.endswith((".toml", ".service")) and "/" not in name:
            assert (ROOT / "examples" / "service" / name).is_file(), name


def check_containers(words: list[str], folder: Path) -> None:
    """Needs an engine of containers and an image. Its files are there, and what it runs in the image is a command."""
    if "-f" in words:
        assert (ROOT / words[words.index("-f") + 1]).is_file(), words
    known = {"volume", "run", "build", "kill", "stop"}
    assert words[1] in known, words
    if words[1] == "run" and (behind := words[len(words) - words[::-1].index("crossdock") :]):
        check_crossdock(["crossdock", *behind], folder)


def check_cmake(words: list[str], folder: Path) -> None:
    if words[1] == "--preset":
        assert f'"name": "{words[2]}"' in (ROOT / "CMakePresets.json").read_text(), words
    else:
        assert words[1:3] in (["--build", "build/release"], ["--install", "build/release"]), words


def check_paths(words: list[str], folder: Path) -> None:
    """Paths below examples/ are there."""
    for word in words[1:]:
        assert not word.startswith("examples/") or (ROOT / word).exists(), word


def checks_nothing(words: list[str], folder: Path) -> None:
    """A program of the system, whose arguments are the reader's."""


# What can be said of a command without running it, by its program. The commands of the first tutorial do run, in
# tests/python/test_pages.py. `pip`, `apt-get` and the like would change this machine, or need the network.
OF_THE_SYSTEM = (".", "chmod", "export", "go", "head", "ldconfig", "ln", "openssl", "systemctl", "umask", "useradd")
CHECKS: dict[str, Callable[[list[str], Path], None]] = {
    "crossdock": check_crossdock,
    "./dev": check_dev,
    "pip": check_pip,
    "apt-get": check_apt,
    "python": check_python,
    "python3": check_python,
    "install": check_files,
    "docker": check_containers,
    "podman": check_containers,
    "cmake": check_cmake,
    "cargo": check_paths,
    "cd": check_paths,
    **dict.fromkeys(OF_THE_SYSTEM, checks_nothing),
}


def check_line(line: str, folder: Path) -> None:
    for words in commands(line):
        assert words[0] in CHECKS, f"this test knows nothing of {words[0]}: {line}"
        CHECKS[words[0]](words, folder)


def check_block(block: Block) -> None:
    parsed = subprocess.run(["bash", "-n"], input=block.code, capture_output=True, text=True, check=False, timeout=60)
    assert parsed.returncode == 0, parsed.stderr
    for line in block.code.replace("\\\n", " ").splitlines():
        check_line(line, (ROOT / block.page).parent)


def shell_blocks() -> list[Any]:
    found = [block for block in every_block() if block.language == "sh"]
    return [pytest.param(block, id=f"{block.page}:{block.line}") for block in found]


@runs("sh", "*")
@pytest.mark.parametrize("block", shell_blocks())
def test_the_commands_of_a_block_are_right(block):
    assert block.code in list(blocks("sh", block.page))
    check_block(block)


@pytest.mark.parametrize(
    "line",
    [
        "crossdock sreve x.arrow",
        "crossdock ls --jsno",
        "A=1 crossdock get",
        "pip install 'crossdock[iio]'",
        "pip install cross-dock",
        "pip install . -C cmake.define.CROSSDOCK_NOTHING=1",
        "apt-get update && apt-get install libnothing-dev",
        "python nothing.py",
        "install -m 644 nothing.service /etc/systemd/system/",
        "docker run --rm crossdock gte shm:flights x",
        "podman build -f examples/nothing/Containerfile .",
        "cmake --preset nothing",
        "(cd examples/nothing && go run .)",
        "A=1 ./dev tset",
        "nothing --at all",
        "export X=$(nothing)",
    ],
)
def test_a_command_that_is_wrong_is_found(line):
    with pytest.raises(Exception, match=r"."):
        check_line(line, ROOT)


def test_a_block_that_no_shell_reads_is_found():
    with pytest.raises(AssertionError, match="unexpected EOF"):
        check_block(Block("README.md", 1, "sh", "export X=$(\n"))
