"""The examples of docstrings and of the public headers run.

An example is an indented part behind an empty line. Nothing lists them: each one that is found is run, so a new one
has to run as it stands. In Python `xd`, `np`, `asyncio` and `pytest` are imported already.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.pages import ROOT
from tests.python.test_blocks import check_line

import crossdock as xd
from crossdock import _native

PACKAGE = ROOT / "python" / "crossdock"
INCLUDE = ROOT / "include"
BUILD = Path(os.environ.get("CROSSDOCK_BUILD_DIR", ROOT / "build" / "dev"))
IMPORTED = "import asyncio\n\nimport numpy as np\nimport pytest\n\nimport crossdock as xd\n"


class Example(NamedTuple):
    place: str
    code: str


def indented(text: str) -> str:
    """The indented paragraphs of a text, as one piece of code; empty: there is none."""
    parts = [re.match(r"(?: {4}.*(?:\n|$))*", part) for part in re.split(r"\n[ \t]*\n", text)]
    found = [part[0].rstrip() for part in parts if part and part[0]]
    return textwrap.dedent("\n\n".join(found)) + "\n" if found else ""


def given(examples: list[Example]) -> list[Any]:
    return [pytest.param(one, id=one.place) for one in examples]


# ---- Python --------------------------------------------------------------------------------------------------------


def docstrings_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yields each text of a file that is an expression by itself, and its line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield f"{path.relative_to(ROOT).as_posix()}:{node.lineno}", inspect.cleandoc(node.value.value)


def docstrings_of_native() -> Iterator[tuple[str, str]]:
    """Those that are written in C++."""
    for name, thing in vars(_native).items():
        members = vars(thing).items() if isinstance(thing, type) else ()
        for part, one in ((name, thing), *((f"{name}.{member}", one) for member, one in members)):
            if isinstance(text := getattr(one, "__doc__", None), str) and not isinstance(one, (str, int, dict)):
                yield f"_native.{part}", inspect.cleandoc(text)


def docstrings() -> list[tuple[str, str]]:
    paths = [*sorted(PACKAGE.rglob("*.py")), *sorted(PACKAGE.rglob("*.pyi"))]
    return [*(one for path in paths for one in docstrings_of(path)), *docstrings_of_native()]


PYTHON = [Example(place, code) for place, text in docstrings() if (code := indented(text))]
OF_CLUSTERS = [one for one in PYTHON if "__main__" in one.code]


def run_tests(code: str, folder: Path) -> None:
    (folder / "test_example.py").write_text(f"{IMPORTED}\n{code}")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=folder)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def run_here(code: str) -> None:
    names: dict[str, Any] = {"__name__": "example", "xd": xd, "np": np, "asyncio": asyncio, "pytest": pytest}
    compiled = compile(code, "example", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    coroutine = eval(compiled, names)
    if coroutine is not None:
        asyncio.run(asyncio.wait_for(coroutine, 30))


@pytest.mark.parametrize("example", given([one for one in PYTHON if one not in OF_CLUSTERS]))
def test_the_example_of_a_docstring(example, tmp_path):
    if re.search(r"^def test_", example.code, re.MULTILINE):
        run_tests(example.code, tmp_path)
    else:
        run_here(example.code)


@pytest.mark.long
@pytest.mark.parametrize("example", given(OF_CLUSTERS))
def test_the_example_of_a_docstring_that_starts_processes(example, script):
    """As a program, which its worker processes import."""
    if "distributed" in example.code:
        pytest.importorskip("distributed")
    started = script(f"{IMPORTED}\n{example.code}\nprint('ended')")
    assert started.read_line() == "ended"
    started.finish()


def test_there_are_examples_in_docstrings():
    assert len(PYTHON) > 3
    assert len(docstrings()) > 1000
    assert {place.partition(".")[0] for place, _ in docstrings()} >= {"_native", "python/crossdock/peers"}


def test_examples_of_docstrings_are_indented():
    """And in no other form, which the site and these tests wouldn't see."""
    assert [place for place, text in docstrings() if re.search(r"^ *(?:>>> |```|\.\. code)|::$", text, re.M)] == []


def test_an_example_is_found_and_fails():
    code = indented("Does it:\n\n    x = 1\n\n    assert x == 2\n\nfirst: not an example,\n    but text.\n")
    assert code == "x = 1\n\nassert x == 2\n"
    with pytest.raises(AssertionError):
        run_here(code)
    with pytest.raises(ZeroDivisionError):
        run_here("await asyncio.sleep(0)\n1 / 0\n")


def usage() -> list[Example]:
    """How the examples' docstrings say that they are started."""
    texts = [one for path in sorted((ROOT / "examples").rglob("*.py")) for one in docstrings_of(path)]
    return [Example(place, code) for place, text in texts if (code := indented(text))]


@pytest.mark.parametrize("example", given(usage()))
def test_the_usage_in_the_docstring_of_an_example(example):
    for line in example.code.splitlines():
        check_line(line.replace("[FILTER STRING]", ""), ROOT)


# ---- C++ and C -----------------------------------------------------------------------------------------------------

COMMENT = re.compile(r"(?:^[ \t]*//[^\n]*\n)+|/\*.*?\*/", re.MULTILINE | re.DOTALL)
# Not code, but the form of a text; by the beginning of the line.
FORMS = {"crossdock/device/registry.h": "backend:device_type:number"}


def comments(text: str) -> Iterator[str]:
    """Yields the text of each comment that has lines of its own."""
    for match in COMMENT.finditer(text):
        yield re.sub(r"^[ \t]*(?:///?|/\*\*?|\*/|\*) ?", "", match[0], flags=re.MULTILINE)


def of_headers() -> Iterator[tuple[str, str]]:
    """Yields the text of each comment of the public headers."""
    for path in sorted(INCLUDE.rglob("*.h*")):
        header = path.relative_to(INCLUDE).as_posix()
        for text in comments(path.read_text()):
            yield header, text


HEADERS = [
    Example(header, code)
    for header, text in of_headers()
    if (code := indented(text)) and not code.startswith(FORMS.get(header, "\0"))
]


def test_examples_of_headers_are_indented():
    assert [header for header, text in of_headers() if re.search(r"[@\\]code|^ *```", text, re.MULTILINE)] == []
    assert {header for header, text in of_headers() if indented(text).startswith(FORMS.get(header, "\0"))} == {*FORMS}
    assert len(list(of_headers())) > 1000
    text = "/// Does it:\n///\n///     x();\n///\n///     y();\n/// More.\n\n/* In C:\n *\n *     z();\n */\n"
    assert [indented(one) for one in comments(text)] == ["x();\n\ny();\n", "z();\n"]


def program_of(examples: list[Example]) -> str:
    """A program that runs each example in a function of its own, with the names of the header's layer."""
    functions = [
        f"void example_{number}() {{\n  using namespace crossdock::{Path(one.place).parts[1]};\n"
        f"{textwrap.indent(one.code, '  ')}}}\n"
        for number, one in enumerate(examples)
    ]
    includes = "".join(f"#include <{one.place}>\n" for one in examples)
    calls = "".join(f"  example_{number}();\n" for number in range(len(examples)))
    return f"#include <crossdock/crossdock.hpp>\n{includes}\n{''.join(functions)}\nint main() {{\n{calls}}}\n"


def compiled(compiler: str, source: Path, standard: str, *more: str) -> None:
    include = [f"-I{ROOT / 'include'}", f"-I{BUILD / 'include'}"]
    command = [compiler, f"-std={standard}", "-Wall", "-Wno-unused", "-Werror", *include, str(source), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


def need(name: str, variable: str) -> str:
    path = shutil.which(os.environ.get(variable, name))
    if path is None or not (BUILD / "src" / "libcrossdock.so").exists():
        pytest.skip(f"needs {name} and the library that the build makes")
    return path


@pytest.mark.long
def test_the_examples_of_the_headers_of_cpp(tmp_path):
    examples = [one for one in HEADERS if "/c_api/" not in one.place]
    assert examples
    source, library = tmp_path / "examples.cc", BUILD / "src" / "libcrossdock.so"
    compiler = need("g++", "CXX")
    source.write_text(program_of(examples))
    program = tmp_path / "examples"
    compiled(compiler, source, "c++20", str(library), f"-Wl,-rpath,{library.parent}", "-o", str(program))
    subprocess.run([program], check=True, timeout=60)


def test_the_examples_of_the_headers_of_c(tmp_path):
    """They are compiled; the functions that they call are tested in tests/unit/c_api/."""
    examples = [one for one in HEADERS if "/c_api/" in one.place]
    assert examples
    source = tmp_path / "examples.c"
    functions = [
        f"void example_{number}(void) {{\n{textwrap.indent(one.code, '  ')}}}\n" for number, one in enumerate(examples)
    ]
    compiler = need("gcc", "CC")
    source.write_text("#include <crossdock/crossdock.h>\n\n" + "".join(functions))
    compiled(compiler, source, "c99", "-fsyntax-only")
