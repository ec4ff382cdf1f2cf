"""The reference of the public C++ headers: Doxygen reads them, Breathe shows what it found.

In a page, this block stands for all headers of a folder of include/crossdock/, each with what it declares in its order:

    ```{cpp-headers} session
    ```
"""

from __future__ import annotations

import re
import shutil
import subprocess
import xml.etree.ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.errors import ExtensionError

ROOT = Path(__file__).parents[2]
INCLUDE = ROOT / "include"
XML = ROOT / "build" / "doxygen" / "xml"
BLOCK = re.compile(r"^```\{cpp-headers\} (\w+)\n```$", re.MULTILINE)

# What differs from Doxygen's defaults. `///` comments begin with a brief sentence. std::hash<> is written so that this
# version of Doxygen can read it, and then left out: it has no text of its own.
SETTINGS = f"""
PROJECT_NAME = crossdock
INPUT = {INCLUDE}
FILE_PATTERNS = *.h *.hpp
RECURSIVE = YES
STRIP_FROM_PATH = {INCLUDE}
OUTPUT_DIRECTORY = {XML.parent}
GENERATE_XML = YES
GENERATE_HTML = NO
GENERATE_LATEX = NO
XML_PROGRAMLISTING = NO
JAVADOC_AUTOBRIEF = YES
EXTRACT_ALL = YES
EXTRACT_STATIC = YES
HIDE_FRIEND_COMPOUNDS = YES
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = CROSSDOCK_EXPORT=
AUTOLINK_SUPPORT = NO
INPUT_FILTER = "sed -e 's,^struct std::hash<,struct hash<,'"
EXCLUDE_SYMBOLS = hash*
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
WARN_AS_ERROR = FAIL_ON_WARNINGS
"""

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

Element = xml.etree.ElementTree.Element


class Headers:
    """What Doxygen found in the public headers."""

    def __init__(self) -> None:
        doxygen = shutil.which("doxygen")
        if doxygen is None:
            raise ExtensionError("doxygen isn't installed, which reads the C++ headers: ./dev docs installs it")
        shutil.rmtree(XML.parent, ignore_errors=True)
        XML.mkdir(parents=True)
        done = subprocess.run([doxygen, "-"], input=SETTINGS, capture_output=True, text=True, check=False, cwd=ROOT)
        if done.returncode != 0:
            raise ExtensionError(f"doxygen failed: {done.stderr.strip()}")
        paths = [path for path in sorted(XML.glob("*.xml")) if path.name not in ("index.xml", "Doxyfile.xml")]
        self.compounds = [
            compound for path in paths for compound in xml.etree.ElementTree.parse(path).iterfind("compounddef")
        ]

    def declared(self, header: str) -> Iterator[tuple[int, str, str]]:
        """Yields the line, the kind and the name of each thing that a header declares outside of classes.

        One without a text is an error, unless its definition says all, or Arrow's and DLPack's specifications do.
        """
        for line, kind, name, text in self._found(header):
            if not text and kind not in ("typedef", "define") and not header.endswith("_abi.h"):
                raise ExtensionError(f"include/{header}:{line}: {name} has no comment that says what it is")
            yield line, kind, name

    def _found(self, header: str) -> Iterator[tuple[int, str, str, str]]:
        names = {_text(compound, "compoundname") for compound in self.compounds if compound.get("kind") in DIRECTIVES}
        for compound in self.compounds:
            kind, name = compound.get("kind", ""), _text(compound, "compoundname")
            if kind in DIRECTIVES:
                if name.rpartition("::")[0] not in names and _place(compound)[0] == header:
                    yield _place(compound)[1], kind, name, _said(compound)
            elif kind in ("namespace", "file"):
                for member in compound.iterfind("sectiondef/memberdef"):
                    name = member.findtext("qualifiedname") or _text(member, "name")
                    if _place(member)[0] == header and name not in names:  # C's `typedef struct X {} X` is one name
                        arguments = _text(member, "argsstring") if member.get("kind") == "function" else ""
                        yield _place(member)[1], member.get("kind", ""), name + arguments, _said(member)

    def page(self, folder: str) -> str:
        """Returns the Markdown of the headers of a folder."""
        parts = []
        for path in sorted((INCLUDE / "crossdock" / folder).glob("*.h")):
            header = str(path.relative_to(INCLUDE))
            parts.append(f"## `{header}`\n")
            for _, kind, name in sorted(self.declared(header)):
                directive, options = DIRECTIVES[kind]
                parts.append(f"```{{{directive}}} {name}\n{options}```\n")
        if not parts:
            raise ExtensionError(f"include/crossdock/{folder}/ has no header")
        return "\n".join(parts)


def _text(element: Element, tag: str) -> str:
    return element.findtext(tag) or ""


def _said(element: Element) -> str:
    parts = [element.find("briefdescription"), element.find("detaileddescription")]
    return "".join(text for part in parts if part is not None for text in part.itertext()).strip()


def _place(element: Element) -> tuple[str, int]:
    location = element.find("location")
    return ("", 0) if location is None else (location.get("file", ""), int(location.get("line", 0)))


def setup(app: Any) -> dict[str, Any]:
    app.setup_extension("breathe")
    app.config.breathe_projects = {"crossdock": str(XML)}
    app.config.breathe_default_project = "crossdock"
    headers: list[Headers] = []
    app.connect("builder-inited", lambda _app: headers.append(Headers()), priority=1)

    def fill(_app: Any, _docname: str, source: list[str]) -> None:
        source[0] = BLOCK.sub(lambda match: headers[0].page(match[1]), source[0])

    app.connect("source-read", fill)
    return {"parallel_read_safe": True}
