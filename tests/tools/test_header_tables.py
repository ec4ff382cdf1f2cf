"""The pages on C++ and C name every public header, and say rightly what the main header includes."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include" / "crossdock"
HOW_TO = ROOT / "docs" / "how-to"
ALL_IN_ONE = {"crossdock.hpp", "crossdock.h"}  # what the pages begin with
MADE = "version.h"  # by cmake, of cmake/version.h.in


def headers_in(cell: str) -> list[str]:
    """The headers that a cell names: a name without a folder is of the folder of the name before it."""
    names: list[str] = []
    folder = ""
    for name in re.findall(r"`([^`]+\.h)`", cell):
        if "/" in name:
            folder = name.rpartition("/")[0] + "/"
        names.append(name if "/" in name else folder + name)
    return names


def table(page: str) -> list[str]:
    """The headers of a page's table of headers."""
    rows = re.search(r"^\| header \| content \|\n\| --- \| --- \|\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert rows is not None
    return [name for row in rows[1].splitlines() for name in headers_in(row.split("|")[1])]


def public() -> set[str]:
    assert (ROOT / "cmake" / f"{MADE}.in").is_file()
    found = {path.relative_to(INCLUDE).as_posix() for path in INCLUDE.rglob("*") if path.is_file()}
    return found - ALL_IN_ONE | {MADE}


def included_by(header: str) -> set[str]:
    """The headers of ours that a header includes, itself or by others."""
    found: set[str] = set()
    todo = [header]
    while todo:
        name = todo.pop()
        if name in found or name == MADE:
            continue
        found.add(name)
        todo += re.findall(r'^#include "crossdock/([^"]+)"', (INCLUDE / name).read_text(), re.MULTILINE)
    return found - {header} | {MADE}


def test_every_public_header_is_in_one_table() -> None:
    cpp = table((HOW_TO / "cpp.md").read_text())
    c = table((HOW_TO / "c.md").read_text())
    assert sorted(cpp + c) == sorted(public())
    assert {name.split("/")[0] for name in c} == {"c_api"}


def test_the_main_header_includes_what_the_page_says() -> None:
    page = (HOW_TO / "cpp.md").read_text()
    said = re.search(r"includes all headers of this table but (.*?)\. ", page, re.DOTALL)
    assert said is not None
    assert set(table(page)) - included_by("crossdock.hpp") == set(headers_in(said[1]))


def test_the_main_header_says_the_same() -> None:
    text = (INCLUDE / "crossdock.hpp").read_text()
    said = re.search(r"public headers all but (.*?)\.$", text, re.DOTALL | re.MULTILINE)
    assert said is not None
    names = re.findall(r"[a-z_]+/[a-z_]+\.h", said[1])
    assert set(table((HOW_TO / "cpp.md").read_text())) - included_by("crossdock.hpp") == set(names)


def test_the_c_header_includes_its_table() -> None:
    assert set(table((HOW_TO / "c.md").read_text())) <= included_by("crossdock.h")


def test_the_decision_on_headers_names_the_limit_that_is_tested() -> None:
    (decision,) = (ROOT / "docs" / "decisions").glob("0021-*.md")
    said = re.search(r"fails beyond (\d+) headers", decision.read_text())
    limit = re.search(r"count GREATER (\d+)", (ROOT / "tests" / "package" / "check.cmake").read_text())
    assert said is not None
    assert limit is not None
    assert said[1] == limit[1]
