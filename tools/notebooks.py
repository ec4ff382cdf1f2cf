#!/usr/bin/env python3
"""Runs the notebooks of docs/, and compares what their cells show with what is stored in them.

    tools/notebooks.py [NOTEBOOK...] [--write]

Prints `notebook: cell n: ...` for each difference, and exits with 1 if there is any. With --write it stores what the
cells show. It runs each notebook in a process of its own, with the interpreter that it has been started with, and needs
nothing of Jupyter's.
"""

import argparse
import ast
import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent / "docs"


def as_markdown(text: str) -> str:
    """The cells of a notebook as one page, with what they show behind them."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "text/html" in data:
                parts.append(f'```{{raw}} html\n<div class="output">{"".join(data["text/html"])}</div>\n```')
            else:
                shown = "".join(output.get("text") or data["text/plain"])
                parts.append(f"```{{code-block}} text\n:class: output\n\n{shown.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def as_text(outputs: list[dict[str, Any]]) -> str:
    """What the outputs show without HTML, which changes with the versions of other libraries."""
    return "\n".join("".join(one.get("text") or one["data"]["text/plain"]) for one in outputs)


def shown_by(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs a cell, and returns its outputs in the format of notebooks: what it prints, then its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        html = value._repr_html_() if hasattr(value, "_repr_html_") else None
        if html is not None:
            data["text/html"] = html.splitlines(keepends=True)
        outputs.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return outputs


def run(path: Path, write: bool) -> list[str]:
    """Runs a notebook in this process, and returns the differences."""
    notebook = json.loads(path.read_text())
    names: dict[str, Any] = {"__name__": "__main__"}
    faults = []
    for number, cell in enumerate(notebook["cells"], 1):
        if cell["cell_type"] != "code":
            continue
        shown = shown_by("".join(cell["source"]), names)
        stored, now = as_text(cell["outputs"]), as_text(shown)
        if stored != now:
            faults.append(f"{path.name}: cell {number}: stored is {stored!r}, and it shows {now!r}")
        cell["outputs"] = shown
    if write:
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
        return []
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("notebooks", type=Path, nargs="*", metavar="NOTEBOOK")
    parser.add_argument("--write", action="store_true", help="store what the cells show")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # in this process
    arguments = parser.parse_args()
    paths = arguments.notebooks or sorted(DOCS.glob("**/*.ipynb"))
    if arguments.here:
        faults = [fault for path in paths for fault in run(path, arguments.write)]
        print(*faults, sep="\n", end="\n" if faults else "")
        return 1 if faults else 0
    options = ["--here", *(["--write"] if arguments.write else [])]
    statuses = [
        subprocess.run([sys.executable, __file__, path, *options], check=False, timeout=300).returncode
        for path in paths
    ]
    return 1 if any(statuses) or not statuses else 0


if __name__ == "__main__":
    sys.exit(main())
