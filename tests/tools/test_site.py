"""What the site's extensions make of pages. That they fit together, `./dev docs` sees, where a warning is an error."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import notebooks

EXTENSIONS = Path(__file__).resolve().parents[2] / "docs" / "_ext"


def extension(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXTENSIONS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_that_leave_the_pages_lead_to_the_repository() -> None:
    lead_out = extension("contents").lead_out
    text = "[a](../../examples/a.py), [b](b.md), [c](../how-to/c.md#d), [README.md](../../README.md#use-it)."
    there = "https://example.org/r/blob/main"
    assert lead_out("https://example.org/r", "how-to/page", text) == (
        f"[a]({there}/examples/a.py), [b](b.md), [c](../how-to/c.md#d), [README.md]({there}/README.md#use-it)."
    )
    assert lead_out(None, "how-to/page", text) == "a, [b](b.md), [c](../how-to/c.md#d), README.md."


def test_names_of_files_become_titles() -> None:
    show_titles = extension("contents").show_titles
    text = "[b.md](../how-to/b.md#c), [b.md](b.md), [c.md](b.md) and [the page](b.md)"
    assert show_titles(text) == "[](../how-to/b.md#c), [](b.md), [c.md](b.md) and [the page](b.md)"


def test_the_tree_of_pages_is_that_of_the_lists() -> None:
    add_toctree = extension("contents").add_toctree

    def tree(docname: str, text: str) -> list[str]:
        source = [text]
        add_toctree(None, docname, source)
        return source[0].removeprefix(text).split()

    text = "- [B](b.md)\n- [N](n.ipynb): a notebook\n- [B again](b.md#c)\n- [elsewhere](../x/y.md)\n"
    assert tree("how-to/index", text) == ["```{toctree}", ":hidden:", "b", "n", "```"]
    assert tree("how-to/b", text) == []
    assert tree("index", "[a](how-to/a.md), [b](how-to/index.md)") == [
        "```{toctree}",
        ":hidden:",
        "how-to/index",
        "```",
    ]
    assert tree("decisions/index", "") == ["```{toctree}", ":glob:", "0*", "```"]


def test_pictures_lose_their_own_style_in_a_page() -> None:
    page = extension("pictures").inlined("index", "A\n![What it is](pictures/handoff.svg)\nB ![no](x.svg) line")
    assert "<style>" not in page
    assert page.startswith('A\n```{raw} html\n<div class="wide">\n<svg ')
    assert page.endswith("</div>\n```\nB ![no](x.svg) line")


def test_a_notebook_that_shows_something_else_is_found(tmp_path: Path) -> None:
    cell = '{"cell_type": "code", "metadata": {}, "source": ["print(1)\\n", "1 + 1"], "outputs": []}'
    path = tmp_path / "n.ipynb"
    path.write_text(f'{{"cells": [{cell}]}}')
    assert notebooks.run(path, write=False) == ["n.ipynb: cell 1: stored is '', and it shows '1\\n\\n2'"]
    assert notebooks.run(path, write=True) == []
    assert notebooks.run(path, write=False) == []
    assert "```{code-block} text\n:class: output\n\n1\n```" in notebooks.as_markdown(path.read_text())
