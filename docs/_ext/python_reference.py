"""Writes the entries of the Python reference. In a page, this block stands for the entries of its names:

```{python-entries}
crossdock.Server
```
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

import reference
from docstrings import as_rst
from docutils import nodes
from sphinx import addnodes

# Variables in docstrings, and the classes that they stand for.
VARIABLES = {
    "client": "Client",
    "server": "Server",
    "reader": "RecordBatchReader",
    "tensor": "Tensor",
    "relay": "Relay",
}


class Writer:
    def __init__(self) -> None:
        entries = reference.entries()
        self._known = {*entries, *(member for entry in entries for member in reference.members(entry))}

    def link(self, near: str, code: str) -> str | None:
        """The entry that code in the docstring of another one stands for: a call, a member or a class."""
        name = code.removesuffix("()").removeprefix("xd.").removeprefix("crossdock.")
        first, _, rest = name.partition(".")
        if not (code.endswith("()") or rest or name[:1].isupper()):
            return None  # as a rule a parameter
        if rest and first in VARIABLES:
            name = f"{VARIABLES[first]}.{rest}"
        parts = near.split(".")
        scopes = [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
        found = next((f"{scope}.{name}" for scope in scopes if f"{scope}.{name}" in self._known), None)
        return None if found == near else found

    def block(self, names: list[str]) -> str:
        return "```{eval-rst}\n" + "\n".join(line for name in names for line in self.entry(name)) + "\n```"

    def entry(self, name: str) -> Iterator[str]:
        thing = reference.thing_of(name)
        if reference.is_alias(name):
            yield f".. py:function:: {name}(...)"
            yield from ("", f"   Makes a :py:class:`crossdock.{thing.__name__}`, which describes the parameters.", "")
            return
        yield from self.described(name, name)
        if isinstance(thing, type) and issubclass(thing, BaseException):
            bases = [f"``{base.__name__}``" for base in thing.__bases__ if base is not Exception]
            if bases:
                yield from (f"   Also: {', '.join(bases)}.", "")
        for member in reference.members(name):
            yield from (f"   {line}" if line else "" for line in self.described(member, member.rpartition(".")[2]))

    def described(self, name: str, shown: str) -> Iterator[str]:
        kind = reference.kind_of(name)
        yield f".. py:{kind}:: {shown}{reference.signature(name)}"
        node = reference.callable_of(name)
        if node is not None and type(node).__name__ == "AsyncFunctionDef":
            yield "   :async:"
        type_ = reference.type_of(name)
        value = reference.value_of(name) if kind == "data" else None
        if value is not None:
            yield f"   :value: {value}"
        elif type_ is not None:
            yield f"   :type: {type_}"
        yield ""
        text = reference.docstring(name)
        lines = as_rst(text, reference.parameters(name), lambda code: self.link(name, code))
        yield from (f"   {line}" if line else "" for line in lines)
        yield ""


def unlink_builtins(_app: Any, doctree: nodes.document) -> None:
    """Takes the links from Python's own types in signatures: `str` is no property of that name in the reference."""
    for reference_ in list(doctree.findall(addnodes.pending_xref)):
        if reference_.get("refdomain") == "py" and hasattr(builtins, reference_.get("reftarget", "")):
            reference_.replace_self(reference_.children)


def setup(app: Any) -> dict[str, Any]:
    writer = Writer()

    def fill(_app: Any, _docname: str, source: list[str]) -> None:
        source[0] = reference.BLOCK.sub(lambda match: writer.block(match[1].split()), source[0])

    app.connect("source-read", fill)
    app.connect("doctree-read", unlink_builtins)
    return {"parallel_read_safe": True}
