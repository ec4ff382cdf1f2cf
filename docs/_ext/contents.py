"""Makes the tree of pages from the links of the index pages, which read as lists on GitHub, too; has links to files
outside of docs/ lead to the repository; and shows the title of a page in place of the name of its file.
"""

from __future__ import annotations

import os.path
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = re.compile(r"\]\(([\w./-]+)\.(?:md|ipynb)\)")
LINK = re.compile(r"\[([^][]*(?:\[[^][]*\][^][]*)*)\]\((\.\.?/[^)\s#]+)(#[^)\s]*)?\)")
NAME = re.compile(r"\[([\w-]+\.md)\]\(((?:[\w./-]*/)?\1(?:#[\w-]+)?)\)")
# Folders whose index lists no pages: all are shown, in the order of their names.
WHOLE = ("decisions",)


def add_toctree(_app: Any, docname: str, source: list[str]) -> None:
    folder, _, name = docname.rpartition("/")
    if name != "index":
        return
    options, pages = ":hidden:", [page for page in dict.fromkeys(PAGE.findall(source[0])) if not page.startswith("..")]
    if not folder:
        pages = [page for page in pages if page.endswith("/index")]
    if folder in WHOLE:
        options, pages = ":glob:", ["0*"]
    source[0] += f"\n\n```{{toctree}}\n{options}\n\n" + "\n".join(pages) + "\n```\n"


def lead_out(repository: str | None, docname: str, text: str) -> str:
    """Replaces links that leave docs/: without a repository's address, by their text alone."""

    def replaced(match: re.Match[str]) -> str:
        target = os.path.normpath(os.path.join("docs", os.path.dirname(docname), match[2]))
        if target.startswith("docs/"):
            return match[0]
        return match[1] if repository is None else f"[{match[1]}]({repository}/blob/main/{target}{match[3] or ''})"

    return LINK.sub(replaced, text)


def show_titles(text: str) -> str:
    """Leaves out a link's text that is the name of the page's file: MyST then writes the title of what it leads to."""
    return NAME.sub(r"[](\2)", text)


def setup(app: Any) -> dict[str, Any]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    repository = project.get("urls", {}).get("Source")

    def links(_app: Any, docname: str, source: list[str]) -> None:
        source[0] = show_titles(lead_out(repository, docname, source[0]))

    app.connect("source-read", links)
    app.connect("source-read", add_toctree)
    return {"parallel_read_safe": True}
