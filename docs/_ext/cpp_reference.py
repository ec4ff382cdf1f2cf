"""The reference of the public C++ and C headers: Doxygen reads them (tools/headers.py), Breathe shows what it found.

A public name without a text is an error. In a page, this block stands for all headers of a folder of
include/crossdock/, each with what it declares in its order:

    ```{cpp-headers} session
    ```
"""

from __future__ import annotations

import re
from typing import Any

import headers
from sphinx.errors import ExtensionError

INCLUDE = headers.ROOT / "include"
XML = headers.ROOT / "build" / "doxygen" / "xml"
BLOCK = re.compile(r"^```\{cpp-headers\} (\w+)\n```$", re.MULTILINE)

# Doxygen's kinds, and Breathe's directives for them with their options.
DIRECTIVES = {
    "class": ("doxygenclass", ":members:\n:undoc-members:\n"),
    "struct": ("doxygenstruct", ":members:\n:undoc-members:\n"),
    "union": ("doxygenunion", ":members:\n:undoc-members:\n"),
    "enum": ("doxygenenum", ""),
    "typedef": ("doxygentypedef", ""),
    "function": ("doxygenfunction", ""),
    "variable": ("doxygenvariable", ""),
    "define": ("doxygendefine", ""),
}


def read() -> headers.Headers:
    """Reads the headers. Throws for names that have no text."""
    try:
        found = headers.Headers(INCLUDE, XML)
    except headers.HeadersError as error:
        raise ExtensionError(str(error)) from error
    if lacking := found.lacking():
        raise ExtensionError("\n".join(["names of include/ have no text:", *lacking]))
    leave_out(found)
    return found


def leave_out(found: headers.Headers) -> None:
    """Removes from the XML what Sphinx can't read or would show twice: values that are requires-expressions, and
    members that are defined apart from their declaration.
    """
    for path, tree in found.files.items():
        for compound in tree.iterfind("compounddef"):
            for section in compound.iterfind("sectiondef"):
                for member in section.findall("memberdef"):
                    value = member.find("initializer")
                    if value is not None and "requires" in "".join(value.itertext()):
                        member.remove(value)
                    if compound.get("kind") in headers.TYPES and headers.is_definition(compound, member):
                        section.remove(member)
        tree.write(path, encoding="utf-8", xml_declaration=True)


def page(found: headers.Headers, folder: str) -> str:
    """Returns the Markdown of the headers of a folder."""
    parts = []
    for path in sorted((INCLUDE / "crossdock" / folder).glob("*.h")):
        header = str(path.relative_to(INCLUDE))
        parts.append(f"## `{header}`\n")
        for name in sorted(found.declared(), key=lambda name: name.line):
            if name.header == header:
                directive, options = DIRECTIVES[name.kind]
                parts.append(f"```{{{directive}}} {name.name}\n{options}```\n")
    if not parts:
        raise ExtensionError(f"include/crossdock/{folder}/ has no header")
    return "\n".join(parts)


def setup(app: Any) -> dict[str, Any]:
    app.setup_extension("breathe")
    app.config.breathe_projects = {"crossdock": str(XML)}
    app.config.breathe_default_project = "crossdock"
    read_headers: list[headers.Headers] = []
    app.connect("builder-inited", lambda _app: read_headers.append(read()), priority=1)

    def fill(_app: Any, _docname: str, source: list[str]) -> None:
        source[0] = BLOCK.sub(lambda match: page(read_headers[0], match[1]), source[0])

    app.connect("source-read", fill)
    return {"parallel_read_safe": True}
