"""Puts SVG pictures into the page itself, so that they have the colours of the page's theme, light or dark.

A picture's own <style> is for where it stands alone, as on GitHub; in the page _static/site.css takes its place.
"""

from __future__ import annotations

import os.path
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
IMAGE = re.compile(r"^!\[([^]]*)\]\(([\w./-]+\.svg)\)$", re.MULTILINE)
STYLE = re.compile(r" *<style>.*?</style>\n", re.DOTALL)


def inlined(docname: str, text: str) -> str:
    def picture(match: re.Match[str]) -> str:
        svg = (DOCS / os.path.dirname(docname) / match[2]).read_text()
        return f'```{{raw}} html\n<div class="wide">\n{STYLE.sub("", svg)}</div>\n```'

    return IMAGE.sub(picture, text)


def setup(app: Any) -> dict[str, Any]:
    def fill(_app: Any, docname: str, source: list[str]) -> None:
        source[0] = inlined(docname, source[0])

    app.connect("source-read", fill)
    return {"parallel_read_safe": True}
