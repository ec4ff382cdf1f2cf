"""Reads and checks a whole ArrowSchema, before any data is read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from crossdock._check import abi, memory
from crossdock._check.checker import Checker, formatted
from crossdock._text import quoted

DEPTH, FIELDS = 64, 1 << 16  # The limits of one schema. A larger one isn't meant seriously.
TEXTS = 1 << 26  # The most bytes of all formats, names and metadata of one schema.
MOST_POINTERS = 1 << 16  # The most pointers in one array of pointers.
ORDERED, NULLABLE, KEYS_SORTED = 1, 2, 4

_WIDTHS = {
    **dict.fromkeys(("c", "C"), 1),
    **dict.fromkeys(("s", "S", "e"), 2),
    **dict.fromkeys(("i", "I", "f", "tdD", "tts", "ttm", "tiM"), 4),
    **dict.fromkeys(("l", "L", "g", "tdm", "ttu", "ttn", "tDs", "tDm", "tDu", "tDn", "tiD"), 8),
    "tin": 16,
}
_N = r"\d{1,18}"  # Limited, because Python raises ValueError for a number with thousands of digits.
_INDICES = frozenset("cCsSiIlL")


@dataclass(frozen=True)
class Layout:
    """The buffers and children of a type, as its format string says."""

    kind: str
    """null, bool, fixed, binary, view, list, list view, fixed list, struct, map, sparse or dense union, run ends."""
    width: int = 0
    """Of an element; of an offset; of a fixed-size list, its length."""
    buffers: int = 2
    """Views have as many more as they like."""
    children: int | None = 0
    """None: any number."""
    ids: tuple[int, ...] = ()


def layout_of(text: str) -> Layout | None:
    """Returns the layout of a format string, or None if `text` isn't one."""
    if text in _WIDTHS or re.fullmatch(r"ts[smun]:.*", text, re.DOTALL):
        return Layout("fixed", _WIDTHS.get(text, 8))
    simple = {
        "n": Layout("null", buffers=0),
        "b": Layout("bool"),
        "z": Layout("binary", 4, 3),
        "u": Layout("binary", 4, 3),
        "Z": Layout("binary", 8, 3),
        "U": Layout("binary", 8, 3),
        "vz": Layout("view", 16, 3),
        "vu": Layout("view", 16, 3),
        "+l": Layout("list", 4, 2, 1),
        "+L": Layout("list", 8, 2, 1),
        "+vl": Layout("list view", 4, 3, 1),
        "+vL": Layout("list view", 8, 3, 1),
        "+s": Layout("struct", 0, 1, None),
        "+m": Layout("map", 4, 2, 1),
        "+r": Layout("run ends", 0, 0, 2),
    }
    if text in simple:
        return simple[text]
    if match := re.fullmatch(rf"d:({_N}),-?({_N})(?:,({_N}))?", text):
        bits = int(match[3] or 128)
        return Layout("fixed", bits // 8) if bits in (32, 64, 128, 256) else None
    if match := re.fullmatch(rf"w:({_N})", text):
        return Layout("fixed", int(match[1]))
    if match := re.fullmatch(rf"\+w:({_N})", text):
        return Layout("fixed list", int(match[1]), 1, 1)
    if match := re.fullmatch(rf"\+u([ds]):((?:{_N}(?:,{_N})*)?)", text):
        ids = tuple(int(one) for one in match[2].split(",") if one)
        if any(one > 127 for one in ids) or len(set(ids)) != len(ids):
            return None
        dense = match[1] == "d"
        return Layout("dense union" if dense else "sparse union", 0, 2 if dense else 1, len(ids), ids)
    return None


@dataclass
class Field:
    path: str
    format: str
    name: str
    metadata: tuple[tuple[bytes, bytes], ...]
    flags: int
    layout: Layout
    children: list[Field] = field(default_factory=list)
    dictionary: Field | None = None

    def comparable(self) -> object:
        """Returns the parts to compare between methods. An empty name and no name are equal."""
        return (
            self.format,
            self.name,
            self.metadata,
            self.flags,
            [child.comparable() for child in self.children],
            self.dictionary and self.dictionary.comparable(),
        )


class _TooLongError(Exception):
    """The texts of a schema are longer than the limit."""


class _Examiner:
    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self._fields = 0
        self._texts = 0  # bytes
        self._stopped = False

    def field(self, address: int, path: str, depth: int, top: int | None) -> Field | None:
        """Checks a field and its children. Returns None if the field is incomplete; it is checked as far as possible
        nevertheless."""
        checker, place = self.checker, address + abi.ArrowSchema.release.offset
        top = place if top is None else top
        # Limits the number of fields: a structure that is a child of several parents, or of itself, may expand to any
        # number of them.
        self._fields += depth > 0  # The top struct isn't a field of a batch.
        if self._fields > FIELDS:
            self._too_many(path)
        if self._stopped:
            return None
        raw = memory.load(abi.ArrowSchema, address)
        if raw is None:
            checker.add("arrow-struct-memory", f"{path}: the ArrowSchema can't be read")
            return None
        if not raw.release:
            checker.add(
                "arrow-child-released" if depth else "arrow-capsule-released", f"{path}: the ArrowSchema is released"
            )
            return None
        if defused(checker, place, path, top):
            return None
        try:
            known, name, metadata = self._format(raw, path), self._name(raw, path), self._metadata(raw, path)
        except _TooLongError:
            checker.add(
                "arrow-schema-metadata", f"{path}: formats, names and metadata have more than {TEXTS} bytes so far"
            )
            self._stopped = True
            return None
        layout = None if known is None else layout_of(known)
        _flags(checker, path, raw, known)
        # If the format is invalid, the children are checked as those of a struct.
        result = Field(path, known or "+s", name, metadata, raw.flags, layout or Layout("struct", 0, 1, None))
        whole = self._children(result, raw, depth, top) and layout is not None
        if raw.dictionary:
            if known is not None and known not in _INDICES:
                checker.add("arrow-schema-dictionary", f"{path}: indices of a dictionary are {quoted(known)}")
            result.dictionary = self.field(raw.dictionary, f"{path}'s dictionary", depth + 1, top)
            whole = whole and result.dictionary is not None
        return result if whole else None

    def _text(self, address: int) -> bytes | None:
        text = memory.string(address)
        self._take(len(text or b""))
        return text

    def _take(self, size: int) -> None:
        self._texts += size
        if self._texts > TEXTS:
            raise _TooLongError

    def _format(self, raw: abi.ArrowSchema, path: str) -> str | None:
        text = self._text(raw.format) if raw.format else None
        try:
            known = None if text is None else text.decode()
        except UnicodeDecodeError:
            known = None
        if known is None or layout_of(known) is None:
            self.checker.add("arrow-schema-format", f"{path}: the format is {formatted(text)}")
            return None
        return known

    def _name(self, raw: abi.ArrowSchema, path: str) -> str:
        name = self._text(raw.name) if raw.name else b""
        try:
            return (name if name is not None else b"\xff").decode()
        except UnicodeDecodeError:
            self.checker.add("arrow-schema-name", f"{path}: the name is {formatted(name)}")
            return ""

    def _metadata(self, raw: abi.ArrowSchema, path: str) -> tuple[tuple[bytes, bytes], ...]:
        if not raw.metadata:
            return ()
        pairs: list[tuple[bytes, bytes]] = []
        at = raw.metadata

        def piece(at: int) -> bytes | None:
            found = memory.integers(at, 1, 4)
            if not found or found[0] < 0:
                return None
            self._take(4 + found[0])
            return memory.read(at + 4, found[0])

        found = memory.integers(at, 1, 4)
        at += 4
        for _ in range(found[0] if found else -1):
            key = piece(at)
            value = None if key is None else piece(at + 4 + len(key))
            if key is None or value is None:
                found = None
                break
            pairs.append((key, value))
            at += 8 + len(key) + len(value)
        if not found or found[0] < 0:
            self.checker.add("arrow-schema-metadata", f"{path}: the metadata's counts and lengths lead out of it")
            return ()
        return tuple(pairs)

    def _children(self, of: Field, raw: abi.ArrowSchema, depth: int, top: int) -> bool:
        """Checks the children. Returns whether they are complete, and as many as the type has."""
        checker, path, layout = self.checker, of.path, of.layout
        if raw.n_children > FIELDS - self._fields or (depth == DEPTH and raw.n_children):
            self._too_many(path)
            return False
        children = pointers(raw.children, raw.n_children)
        whole = children is not None and layout.children in (None, len(children))
        if not whole:
            wanted = "a number" if layout.children is None else str(layout.children)
            checker.add(
                "arrow-schema-children",
                f"{path}: format {quoted(of.format)} has {wanted}, n_children is {raw.n_children}",
            )
        for index, child in enumerate(children or []):
            if not child:
                checker.add("arrow-schema-children", f"{path}: child {index} is null")
            one = self.field(child, f"{path}'s child {index}", depth + 1, top) if child else None
            if one is None:
                whole = False
            else:
                of.children.append(one)
            if self._stopped:
                return False
        if not whole:
            return False
        if layout.kind == "map" and (of.children[0].layout.kind != "struct" or len(of.children[0].children) != 2):
            checker.add("arrow-schema-children", f"{path}: a map's child is a struct of two")
        if layout.kind == "run ends" and of.children[0].format not in ("s", "i", "l"):
            checker.add(
                "arrow-schema-children",
                f"{path}: run ends are {quoted(of.children[0].format)}, not integers of 16 to 64 bits",
            )
        return True

    def _too_many(self, path: str) -> None:
        self._stopped = True
        self.checker.add(
            "arrow-schema-children",
            f"{path}: the schema has more than {FIELDS} fields, those of all levels and dictionaries counted, "
            f"or more than {DEPTH} levels",
        )


def examine(checker: Checker, address: int) -> Field | None:
    """Checks a schema and adds findings. Returns None if the schema is incomplete."""
    return _Examiner(checker).field(address, "the schema", 0, None)


def _flags(checker: Checker, path: str, raw: abi.ArrowSchema, known: str | None) -> None:
    if raw.flags & ~(ORDERED | NULLABLE | KEYS_SORTED):
        checker.add("arrow-schema-flags", f"{path}: flags are {raw.flags:#x}; 1, 2 and 4 have a meaning")
    if raw.flags & ORDERED and not raw.dictionary:
        checker.add("arrow-schema-flags", f"{path}: an ordered dictionary is said to be there, and none is")
    if raw.flags & KEYS_SORTED and known not in ("+m", None):
        checker.add("arrow-schema-flags", f"{path}: the flag for sorted keys is set, but this is not a map")


def defused(checker: Checker, place: int, what: str, top: int) -> bool:
    """Returns whether the release callback at `place` is invalid: not null, and no function. Adds a finding then.

    In this case it also sets the callback at `top` to null, which releases the whole export: the exporter would crash
    by calling it. It doesn't write to any other place, because a pointer to a child may be wrong and lead to memory of
    another owner.
    """
    callback = memory.pointer_at(place)
    if not callback or memory.executable(callback):
        return False
    checker.add("arrow-struct-memory", f"{what}: release, {callback:#x}, is not a function")
    memory.store_pointer(top, 0)
    return True


def pointers(address: int | None, count: int) -> list[int] | None:
    """Returns an array of pointers, with 0 for null, or None if it can't be read."""
    if count == 0:
        return []
    if not 0 < count <= MOST_POINTERS or not address:
        return None
    return memory.integers(address, count, signed=False)
