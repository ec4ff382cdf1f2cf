"""Writes the reference of the command from its help. In a page, this block stands for the help of all subcommands:

```{command-help}
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

BLOCK = re.compile(r"^```\{command-help\}\n```$", re.MULTILINE)
COLUMNS = 84  # as wide as a page shows it


def _parts() -> Iterator[str]:
    import typer

    from crossdock.cli import application

    command = typer.main.get_command(application())
    settings = {"terminal_width": COLUMNS, "max_content_width": COLUMNS}
    top = command.make_context("crossdock", [], resilient_parsing=True, **settings)
    yield f"```text\n{command.get_help(top)}\n```"
    for name in command.list_commands(top):  # type: ignore[attr-defined]
        one = command.get_command(top, name)  # type: ignore[attr-defined]
        context = one.make_context(name, [], parent=top, resilient_parsing=True, **settings)
        yield f"## `crossdock {name}`\n```text\n{one.get_help(context)}\n```"


def setup(app: Any) -> dict[str, Any]:
    def fill(_app: Any, _docname: str, source: list[str]) -> None:
        source[0] = BLOCK.sub(lambda _: "\n\n".join(_parts()), source[0])

    app.connect("source-read", fill)
    return {"parallel_read_safe": True}
