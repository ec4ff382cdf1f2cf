"""Shows notebooks as pages, with the outputs that are stored in them. tools/notebooks.py runs them."""

from __future__ import annotations

from typing import Any

from myst_parser.parsers.sphinx_ import MystParser
from notebooks import as_markdown


class NotebookParser(MystParser):
    supported = ("notebook",)

    def parse(self, inputstring: str, document: Any) -> None:
        super().parse(as_markdown(inputstring), document)


def setup(app: Any) -> dict[str, Any]:
    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True}
