"""Checks an ArrowArray against its schema. Reads buffers only if they are in memory of the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from crossdock._check import abi, memory
from crossdock._check.checker import Checker
from crossdock._check.schema import Field, defused, pointers
from crossdock._text import quoted

LOOKED_AT = 1 << 16  # Elements of one buffer of offsets, indices etc. to check, from the first on. The last is, too.
ELEMENTS = 1 << 22  # The same for one array with all its children; 64 bits of a bitmap count as one element.
CHECKSUMMED = 1 << 26  # Bytes to checksum in one array with all its children.
BUFFERS = 1 << 20  # Buffers to check in one array with all its children.
_LARGEST = (1 << 63) - 1


@dataclass
class Contents:
    """The content of an array and all its children."""

    length: int = 0
    buffers: list[tuple[int, int]] = field(default_factory=list)
    """Address and size of those that are the CPU's."""
    addresses: set[int] = field(default_factory=set)
    """Of all buffers."""

    def checksums(self) -> list[int | None]:
        left = CHECKSUMMED
        sums: list[int | None] = []
        for address, size in self.buffers:
            sums.append(memory.checksum(address, min(size, left)))
            left -= min(size, memory.HEAD, left)
        return sums


class _Examiner:
    def __init__(self, checker: Checker, on_host: bool) -> None:
        self.checker, self.on_host = checker, on_host
        self.found = Contents()
        self._buffers_met = 0  # Counted, because views have any number. The schema's fields limit the arrays.
        self._left = ELEMENTS

    # ---- the structure

    def array(
        self, address: int, of: Field, path: str, depth: int = 0, top: int | None = None
    ) -> abi.ArrowArray | None:
        place = address + abi.ArrowArray.release.offset
        top = place if top is None else top
        raw = memory.load(abi.ArrowArray, address)
        if raw is None:
            self.checker.add("arrow-struct-memory", f"{path}: the ArrowArray can't be read")
            return None
        if not raw.release:
            self.checker.add(
                "arrow-child-released" if depth else "arrow-capsule-released", f"{path}: the ArrowArray is released"
            )
            return None
        if defused(self.checker, place, path, top):
            return None
        for member in ("buffers", "children", "dictionary", "private_data"):
            if address <= (getattr(raw, member) or 0) < address + ctypes.sizeof(abi.ArrowArray):
                self.checker.add("arrow-relocatable", f"{path}: {member} points into the structure, which may be moved")
        sized = raw.length >= 0 and raw.offset >= 0 and raw.length + raw.offset <= _LARGEST
        if not sized:
            self.checker.add("arrow-array-length", f"{path}: length {raw.length}, offset {raw.offset}")
        elif not -1 <= raw.null_count <= raw.length:
            self.checker.add("arrow-array-null-count", f"{path}: null_count {raw.null_count} of length {raw.length}")
        buffers = self._buffers(raw, of, path, sized=sized)
        loaded = self._children(raw, of, path, depth, top)
        entries, placed = self._dictionary(raw, of, path, depth, top)
        if not sized or buffers is None or loaded is None or not placed:
            return None
        self._lengths(raw, of, path, loaded)
        if self.on_host and raw.length:
            self._contents(raw, of, path, buffers, loaded, entries)
        return raw

    def _children(self, raw: abi.ArrowArray, of: Field, path: str, depth: int, top: int) -> list[abi.ArrowArray] | None:
        """Returns the children, or None if one of them is missing or unusable."""
        children = pointers(raw.children, raw.n_children)
        if children is None or len(children) != len(of.children) or not all(children):
            self.checker.add(
                "arrow-array-children",
                f"{path}: n_children is {raw.n_children}, the schema has {len(of.children)}; none null",
            )
        loaded = [
            self.array(child, field, f"{path}'s child {index}", depth + 1, top) if child else None
            for index, (child, field) in enumerate(zip(children or [], of.children, strict=False))
        ]
        found = [one for one in loaded if one is not None]
        return found if children is not None and len(children) == len(of.children) == len(found) else None

    def _dictionary(
        self, raw: abi.ArrowArray, of: Field, path: str, depth: int, top: int
    ) -> tuple[abi.ArrowArray | None, bool]:
        """Returns the dictionary, or None if the schema has none, and whether that is correct."""
        if bool(raw.dictionary) != (of.dictionary is not None):
            where = "the array" if raw.dictionary else "the schema"
            self.checker.add("arrow-array-dictionary", f"{path}: there is a dictionary in {where} alone")
            return None, False
        if of.dictionary is None:
            return None, True
        entries = self.array(raw.dictionary, of.dictionary, f"{path}'s dictionary", depth + 1, top)
        return entries, entries is not None

    def _buffers(self, raw: abi.ArrowArray, of: Field, path: str, *, sized: bool) -> list[int] | None:
        """Returns the buffers' addresses, or None if one of them is unusable. Doesn't check their sizes if the array's
        length is invalid."""
        wanted = of.layout.buffers
        if raw.n_buffers < wanted or (raw.n_buffers > wanted and of.layout.kind != "view"):
            self.checker.add(
                "arrow-array-n-buffers",
                f"{path}: n_buffers is {raw.n_buffers}, format {quoted(of.format)} has {wanted}",
            )
            return None
        self._buffers_met += raw.n_buffers
        self.checker.buffers_read += raw.n_buffers
        if self._buffers_met > BUFFERS:
            self.checker.add(
                "arrow-array-n-buffers", f"{path}: the array has more than {BUFFERS} buffers, with all under it"
            )
            return None
        found = pointers(raw.buffers, raw.n_buffers)
        if found is None:
            self.checker.add("arrow-struct-memory", f"{path}: the pointers to {raw.n_buffers} buffers can't be read")
            return None
        has_bitmap = of.layout.kind not in ("null", "run ends", "sparse union", "dense union")
        if has_bitmap and not found[0] and raw.null_count != 0:
            self.checker.add("arrow-buffer-null", f"{path}: the bitmap is null, and null_count is {raw.null_count}")
        self.found.addresses.update(one for one in found if one)
        usable = True
        for index, size in enumerate(self._sizes(raw, of) if sized else []):
            if size and not found[index] and not (index == 0 and has_bitmap):
                self.checker.add("arrow-buffer-null", f"{path}: buffer {index} is null, and should have {size} bytes")
                usable = False
            if size and found[index] and self.on_host:
                usable = self._readable(found[index], size, f"{path}: buffer {index}") and usable
        self._alignment(found, of, path)
        return found if usable else None

    def _alignment(self, found: list[int], of: Field, path: str) -> None:
        if len(found) > 1 and found[1] and of.layout.kind in ("fixed", "binary", "list", "map", "view"):
            width = 8 if of.layout.kind == "view" else of.layout.width
            if width in (2, 4, 8, 16, 32) and of.format[0] != "w" and found[1] % min(width, 8):
                self.checker.add(
                    "arrow-buffer-alignment", f"{path}: buffer 1 is at {found[1]:#x}, for elements of {width} bytes"
                )

    def _readable(self, address: int, size: int, path: str) -> bool:
        if memory.read(address, 1) is None or memory.read(address + size - 1, 1) is None:
            self.checker.add("arrow-buffer-memory", f"{path}: {size} bytes at {address:#x} can't be read")
            return False
        self.found.buffers.append((address, size))
        return True

    @staticmethod
    def _sizes(raw: abi.ArrowArray, of: Field) -> list[int]:
        """Returns the size in bytes of each buffer whose size is known from the array's length."""
        count = raw.length + raw.offset
        if raw.length == 0:
            return []
        bits, width = (count + 7) // 8, of.layout.width
        return {
            "bool": [bits, bits],
            "fixed": [bits, count * width],
            "binary": [bits, (count + 1) * width],
            "view": [bits, count * 16],
            "list": [bits, (count + 1) * width],
            "map": [bits, (count + 1) * width],
            "list view": [bits, count * width, count * width],
            "fixed list": [bits],
            "struct": [bits],
            "sparse union": [count],
            "dense union": [count, count * 4],
        }.get(of.layout.kind, [])

    def _lengths(self, raw: abi.ArrowArray, of: Field, path: str, children: list[abi.ArrowArray]) -> None:
        count = raw.length + raw.offset
        needed = {"struct": count, "sparse union": count, "fixed list": count * of.layout.width}.get(of.layout.kind, 0)
        for index, child in enumerate(children):
            if child.length < needed:
                self.checker.add(
                    "arrow-array-children", f"{path}: child {index} has {child.length} elements; {needed} are needed"
                )
        if of.layout.kind == "run ends" and children[0].length != children[1].length:
            self.checker.add(
                "arrow-array-children", f"{path}: {children[0].length} run ends for {children[1].length} values"
            )

    # ---- the content of the buffers

    def _contents(
        self,
        raw: abi.ArrowArray,
        of: Field,
        path: str,
        buffers: list[int],
        children: list[abi.ArrowArray],
        entries: abi.ArrowArray | None,
    ) -> None:
        valid = self._bitmap(raw, of, path, buffers)
        match of.layout.kind:
            case "binary":
                last = self._offsets(raw, of, path, buffers[1], None)
                if last and not buffers[2]:
                    self.checker.add("arrow-buffer-null", f"{path}: buffer 2 is null, and should have {last} bytes")
                elif last:
                    self._readable(buffers[2], last, f"{path}: buffer 2")
            case "list" | "map":
                self._offsets(raw, of, path, buffers[1], children[0].length)
            case "list view":
                self._list_views(raw, of, path, buffers, children[0].length)
            case "sparse union" | "dense union":
                self._union(raw, of, path, buffers, children)
            case "run ends":
                self._run_ends(raw, of, path, children[0])
            case "view":
                self._views(raw, path, buffers, valid)
        if entries is not None:
            self._indices(raw, of, path, buffers[1], entries.length, valid)

    def _bitmap(self, raw: abi.ArrowArray, of: Field, path: str, buffers: list[int]) -> Callable[[int], bool]:
        """Returns a function that says whether an element is valid, for the first LOOKED_AT elements."""
        if of.layout.kind in ("null", "run ends", "sparse union", "dense union") or not buffers[0]:
            return lambda _: True
        end = raw.offset + raw.length
        data = memory.read(buffers[0], (end + 7) // 8) if end <= memory.HEAD * 8 and end // 64 <= self._left else None
        self._left -= min(end // 64, self._left)
        if data is None:
            return lambda _: False
        bits = (int.from_bytes(data, "little") >> raw.offset) & ((1 << raw.length) - 1)
        nulls = raw.length - bits.bit_count()
        if raw.null_count not in (-1, nulls):
            self.checker.add(
                "arrow-array-null-count", f"{path}: null_count is {raw.null_count}, the bitmap has {nulls} zeros"
            )
        return lambda index: bool(bits >> index & 1)

    def _some(self, address: int, first: int, count: int, width: int, *, signed: bool = True) -> list[int]:
        count = min(count, LOOKED_AT, self._left)
        self._left -= count
        return memory.integers(address + first * width, count, width, signed=signed) or []

    def _offsets(self, raw: abi.ArrowArray, of: Field, path: str, address: int, limit: int | None) -> int:
        """Checks the offsets. Returns the last one, or 0 if they are wrong."""
        width = of.layout.width
        some = self._some(address, raw.offset, raw.length + 1, width)
        some += memory.integers(address + (raw.offset + raw.length) * width, 1, width) or []
        for index, (one, next_) in enumerate(pairwise(some)):
            if one < 0 or next_ < one:
                self.checker.add("arrow-offsets", f"{path}: offset {index} is {one}, the next one {next_}")
                return 0
        if limit is not None and some and some[-1] > limit:
            self.checker.add("arrow-offsets", f"{path}: the last offset is {some[-1]}, the child has {limit} elements")
        return some[-1] if some else 0

    def _list_views(self, raw: abi.ArrowArray, of: Field, path: str, buffers: list[int], limit: int) -> None:
        starts, sizes = (self._some(buffers[i], raw.offset, raw.length, of.layout.width) for i in (1, 2))
        for index, (start, size) in enumerate(zip(starts, sizes, strict=False)):
            if start < 0 or size < 0 or start + size > limit:
                self.checker.add("arrow-views", f"{path}: view {index} is {size} from {start} of a child of {limit}")
                return

    def _union(
        self, raw: abi.ArrowArray, of: Field, path: str, buffers: list[int], children: list[abi.ArrowArray]
    ) -> None:
        ids = self._some(buffers[0], raw.offset, raw.length, 1)
        where = self._some(buffers[1], raw.offset, raw.length, 4) if of.layout.kind == "dense union" else []
        for index, one in enumerate(ids):
            if one not in of.layout.ids:
                self.checker.add("arrow-type-ids", f"{path}: type id {index} is {one}; {of.layout.ids} are the union's")
                return
            if where:
                limit = children[of.layout.ids.index(one)].length
                if not 0 <= where[index] < limit:
                    self.checker.add(
                        "arrow-offsets", f"{path}: offset {index} is {where[index]}, that child has {limit} elements"
                    )
                    return

    def _run_ends(self, raw: abi.ArrowArray, of: Field, path: str, ends: abi.ArrowArray) -> None:
        width = of.children[0].layout.width
        addresses = pointers(ends.buffers, ends.n_buffers)
        some = self._some(addresses[1], ends.offset, ends.length, width) if addresses and ends.length else []
        if any(next_ <= one for one, next_ in pairwise([0, *some])):
            self.checker.add("arrow-run-ends", f"{path}: the run ends {some[:8]} don't rise")
        last = (
            memory.integers(addresses[1] + (ends.offset + ends.length - 1) * width, 1, width)
            if addresses and ends.length
            else [0]
        )
        if not last or last[0] < raw.offset + raw.length:
            self.checker.add(
                "arrow-run-ends", f"{path}: the last run ends at {last}, the array at {raw.offset + raw.length}"
            )

    def _views(self, raw: abi.ArrowArray, path: str, buffers: list[int], valid: Callable[[int], bool]) -> None:
        variadic = buffers[2:-1]
        sizes = memory.integers(buffers[-1], len(variadic)) if variadic else []
        if sizes is None or any(size < 0 for size in sizes):
            self.checker.add(
                "arrow-views", f"{path}: the sizes of {len(variadic)} buffers, in the last one, are {sizes}"
            )
            return
        for address, size in zip(variadic, sizes, strict=True):
            if size and (not address or not self._readable(address, size, f"{path}: a buffer of views")):
                if not address:
                    self.checker.add("arrow-buffer-null", f"{path}: a buffer of {size} bytes for views is null")
                return
        words = self._some(buffers[1], raw.offset * 4, min(raw.length, LOOKED_AT // 4) * 4, 4)
        for index in range(len(words) // 4):
            size, _, which, start = words[index * 4 : index * 4 + 4]
            wrong = size > 12 and not (0 <= which < len(sizes) and start >= 0 and start + size <= sizes[which])
            if valid(index) and (size < 0 or wrong):
                self.checker.add("arrow-views", f"{path}: view {index} is {size} bytes from {start} of buffer {which}")
                return

    def _indices(
        self, raw: abi.ArrowArray, of: Field, path: str, address: int, limit: int, valid: Callable[[int], bool]
    ) -> None:
        some = self._some(address, raw.offset, raw.length, of.layout.width, signed=of.format.islower())
        for index, one in enumerate(some):
            if valid(index) and not 0 <= one < limit:
                self.checker.add(
                    "arrow-dictionary-index", f"{path}: index {index} is {one}, the dictionary has {limit} entries"
                )
                return


def examine(checker: Checker, address: int, of: Field, *, on_host: bool) -> Contents | None:
    """Checks an array and adds findings. Returns its content, or None if the structure can't be traversed."""
    examiner = _Examiner(checker, on_host)
    raw = examiner.array(address, of, "the array")
    if raw is None:
        return None
    examiner.found.length = raw.length
    return examiner.found
