"""The code of the pages, for the tests that run it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def blocks(language: str, page: str) -> list[str]:
    """The code blocks of a language in a page under docs/."""
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


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
