"""What Doxygen finds in the public C++ headers, and which names there have no text. Without Sphinx:
tests/tools/test_headers.py uses it, too.

Every public or protected name needs a text, except those whose definition says all: aliases and macros, defaulted and
deleted functions, destructors, what copies and moves, the names that the standard asks of iterators. Where moving
changes who owns something, the text of the class says so. The C structures of Arrow and DLPack (`*_abi.h`) are
described by their specifications.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import xml.etree.ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]

# Writes specializations of templates of the standard library so that this version of Doxygen can read them; they are
# left out below. Removes a keyword of g++ that Sphinx doesn't know.
FILTER = "s,^struct std::hash<,struct hash<,; s,std::ranges::enable_view<.*> =,enable_view =,; s,^__extension__ ,,"

# What differs from Doxygen's defaults. `///` comments begin with a brief sentence.
SETTINGS = """
PROJECT_NAME = crossdock
INPUT = {include}
FILE_PATTERNS = *.h *.hpp
RECURSIVE = YES
STRIP_FROM_PATH = {include}
OUTPUT_DIRECTORY = {xml.parent}
GENERATE_XML = YES
XML_OUTPUT = {xml.name}
GENERATE_HTML = NO
GENERATE_LATEX = NO
XML_PROGRAMLISTING = NO
JAVADOC_AUTOBRIEF = YES
EXTRACT_ALL = YES
EXTRACT_STATIC = YES
HIDE_FRIEND_COMPOUNDS = YES
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = CROSSDOCK_EXPORT= CROSSDOCK_API=
AUTOLINK_SUPPORT = NO
INPUT_FILTER = "sed -e '{filter}'"
EXCLUDE_SYMBOLS = hash* enable_view*
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
WARN_AS_ERROR = FAIL_ON_WARNINGS
"""

TYPES = frozenset(("class", "struct", "union"))
KINDS = TYPES | {"enum", "typedef", "function", "variable", "define"}

# Kinds whose definition says what they are.
SAID_BY_DEFINITION = frozenset(("typedef", "define"))
# What std::ranges asks of an iterator, besides operators that do as a pointer's do.
OF_ITERATORS = re.compile(r"operator(?:\+\+|--|[-+]=?|==|<=>)|(?:iterator|value|difference)_\w+|reference")

Element = xml.etree.ElementTree.Element


class HeadersError(Exception):
    """Doxygen can't be run, or found something wrong."""


class Name(NamedTuple):
    """A name that is declared outside of classes, or a member of a class or an enumeration."""

    header: str
    line: int
    kind: str
    name: str
    text: str


class Headers:
    """The headers below a folder, as Doxygen has read them."""

    def __init__(self, include: Path = ROOT / "include", xml_folder: Path = ROOT / "build" / "doxygen" / "xml") -> None:
        doxygen = shutil.which("doxygen")
        if doxygen is None:
            raise HeadersError("doxygen isn't installed, which reads the C++ headers: ./dev docs installs it")
        shutil.rmtree(xml_folder, ignore_errors=True)
        xml_folder.mkdir(parents=True)
        settings = SETTINGS.format(include=include, xml=xml_folder, filter=FILTER)
        done = subprocess.run([doxygen, "-"], input=settings, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise HeadersError(f"doxygen failed: {done.stderr.strip()}")
        paths = [path for path in sorted(xml_folder.glob("*.xml")) if path.name not in ("index.xml", "Doxyfile.xml")]
        self.files = {path: xml.etree.ElementTree.parse(path) for path in paths}
        self.compounds = [compound for tree in self.files.values() for compound in tree.iterfind("compounddef")]
        self._types = {
            _text(compound, "compoundname"): compound
            for compound in self.compounds
            if compound.get("kind") in TYPES and compound.get("prot") != "private"
        }
        self._short_names = {_short(name) for name in self._types}

    def declared(self) -> Iterator[Name]:
        """Yields what is declared outside of classes; of the specializations of a template those that have a text."""
        for compound in self.compounds:
            kind, name = compound.get("kind", ""), _text(compound, "compoundname")
            if name in self._types:
                text = _said(compound)
                if _owner(name) not in self._types and (text or "<" not in name):
                    yield Name(*_place(compound), kind, name, text)
            elif kind in ("namespace", "file"):
                for member in compound.iterfind("sectiondef/memberdef"):
                    name = member.findtext("qualifiedname") or _text(member, "name")
                    # C's `typedef struct X {} X` is one name. Members that are defined elsewhere aren't names there.
                    known = name in self._types or _owner(name) in self._types
                    if member.get("kind") in KINDS and not known:
                        arguments = _text(member, "argsstring") if member.get("kind") == "function" else ""
                        yield Name(*_place(member), member.get("kind", ""), name + arguments, _said(member))

    def members(self) -> Iterator[Name]:
        """Yields the public and protected members of classes, and the values of enumerations, that need a text."""
        for compound in self.compounds:
            owner = _text(compound, "compoundname")
            if owner not in self._types:
                owner = ""
                if compound.get("kind") not in ("namespace", "file"):
                    continue
            elif _owner(owner) in self._types:
                yield Name(*_place(compound), compound.get("kind", ""), owner, _said(compound))
            for member in compound.iterfind("sectiondef/memberdef"):
                short = _text(member, "name")
                name = f"{owner}::{short}" if owner else member.findtext("qualifiedname") or short
                if owner and member.get("prot") != "private" and not self._is_clear(compound, member):
                    text = _said(member) or self._said_by_primary(owner, short)
                    yield Name(*_place(member), member.get("kind", ""), name + _text(member, "argsstring"), text)
                for value in member.iterfind("enumvalue"):
                    yield Name(*_place(member), "enumvalue", f"{name}::{_text(value, 'name')}", _said(value))

    def lacking(self) -> list[str]:
        """Returns `header:line: name ...` for each name that needs a text and has none."""
        return sorted(
            f"{name.header}:{name.line}: {name.name} has no comment that says what it is"
            for name in {*self.declared(), *self.members()}
            if not name.text and name.kind not in SAID_BY_DEFINITION and not name.header.endswith("_abi.h")
        )

    def _is_clear(self, compound: Element, member: Element) -> bool:
        name, arguments = _text(member, "name"), _text(member, "argsstring")
        own = _short(_text(compound, "compoundname"))
        itself = rf"\((?:const )?{own}(?:<[^()]*>)? ?&&?\s*\w*\)"
        return bool(
            (name in (own, "operator=") and re.match(itself, arguments))
            or (name in self._short_names and name != own)  # a constructor of a base class that is used
            or is_definition(compound, member)
            or (OF_ITERATORS.fullmatch(name) and compound.find(".//memberdef[name='iterator_concept']") is not None)
            or name.startswith("~")
            or re.search(r"=\s*(?:default|delete)$", arguments)
        )

    def _said_by_primary(self, owner: str, name: str) -> str:
        """A member of a specialization is described by that of the primary template, or by a text with its name as
        code.
        """
        primary = self._types.get(owner.partition("<")[0].strip()) if "<" in owner else None
        if primary is None:
            return ""
        members = "".join(_said(member) for member in primary.iterfind(f"sectiondef/memberdef[name='{name}']"))
        code = ["".join(element.itertext()) for part in _texts(primary) for element in part.iter("computeroutput")]
        return members or " ".join(text for text in code if text.removesuffix("()") == name)


def is_definition(compound: Element, member: Element) -> bool:
    """Whether a member is the definition, in another header, of one that its class declares."""
    return _place(member)[0] != _place(compound)[0]


def _short(name: str) -> str:
    """The last part of a qualified name, without a template's arguments."""
    return re.sub(r"<.*>", "", name).rpartition("::")[2].strip()


def _owner(name: str) -> str:
    """What a qualified name is a member of: `a::B< c::D >` of `a`, `a::B< c::D >::E` of `a::B< c::D >`."""
    arguments = re.search(r"<.*>", name)
    if arguments is None or arguments.end() != len(name):
        return name.rpartition("::")[0]
    return name[: arguments.start()].rpartition("::")[0]


def _text(element: Element, tag: str) -> str:
    return element.findtext(tag) or ""


def _said(element: Element) -> str:
    return "".join(text for part in _texts(element) for text in part.itertext()).strip()


def _texts(element: Element) -> list[Element]:
    return element.findall("briefdescription") + element.findall("detaileddescription")


def _place(element: Element) -> tuple[str, int]:
    location = element.find("location")
    return ("", 0) if location is None else (location.get("file", ""), int(location.get("line", 0)))
