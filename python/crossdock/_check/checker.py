"""What the checkers of all protocols share: where findings go, and how objects are had."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from crossdock._check.report import Finding
from crossdock._check.rules import RULES
from crossdock._text import shown

MOST_OF_A_RULE = 20  # Findings of one rule by one protocol that are listed.
_LONGEST = 200  # Characters of a text that isn't ours.


@dataclass(frozen=True)
class View:
    """What a protocol tells of an array, for comparison; strides are bytes."""

    protocol: str
    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    readonly: bool | None
    copied: bool = False
    device: int | None = 1
    """By the numbers of DLPack; None where the protocol doesn't say."""

    @property
    def on_host(self) -> bool:
        """Whether it may be read."""
        return self.device == 1

    @property
    def size(self) -> int:
        return product(self.shape)

    def extent(self) -> tuple[int, int]:
        """The first byte, and the one after the last, that elements lie in."""
        if self.size == 0:
            return self.pointer, self.pointer
        low = sum(min(0, (count - 1) * step) for count, step in zip(self.shape, self.strides, strict=True))
        high = sum(max(0, (count - 1) * step) for count, step in zip(self.shape, self.strides, strict=True))
        return self.pointer + low, self.pointer + high + self.itemsize


def product(shape: tuple[int, ...]) -> int:
    result = 1
    for count in shape:
        result *= count
    return result


def contiguous(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides of C order, in bytes."""
    steps: list[int] = []
    for count in reversed(shape):
        steps.append(itemsize)
        itemsize *= max(count, 1)
    return tuple(reversed(steps))


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Whether that is C order; a dimension of one element may have any stride."""
    natural = contiguous(shape, itemsize)
    return 0 in shape or all(
        count <= 1 or step == right for count, step, right in zip(shape, strides, natural, strict=True)
    )


class Checker:
    """Collects findings, and knows how to have the object that is checked."""

    def __init__(self, make: Callable[[], object] | None, one: object) -> None:
        """`make` gives a fresh object each time; without it there is only `one`."""
        self._make, self._one = make, one
        self.protocol = ""
        self.exercised: list[str] = []
        self.views: list[View] = []
        self.findings: list[Finding] = []
        self.walked = 0
        """Buffers that were looked at by the protocol under way."""
        self._known: set[Finding] = set()
        self._counts: dict[tuple[str, str], int] = {}
        self._errors = 0
        self._unmade: Exception | None = None

    @property
    def fresh(self) -> bool:
        """Whether objects can be thrown away."""
        return self._make is not None

    def object(self) -> object:
        """Raises what `make` raises, which is no finding: there is nothing to check then."""
        if self._make is None:
            return self._one
        try:
            return self._make()
        except Exception as error:
            self._unmade = error
            raise

    def add(self, rule: str, message: str) -> None:
        known = RULES[rule]
        finding = Finding(self.protocol, rule, known.severity, known.section, known.asks, message)
        self._errors += known.severity == "error"
        if finding in self._known:
            return
        count = self._counts.get((self.protocol, rule), 0) + 1
        self._counts[self.protocol, rule] = count
        if count <= MOST_OF_A_RULE:
            self._known.add(finding)
            self.findings.append(finding)

    def all_findings(self) -> list[Finding]:
        """With a last one for each rule of which there were too many to list."""
        found = list(self.findings)
        for (protocol, rule), count in self._counts.items():
            if count > MOST_OF_A_RULE:
                known, more = RULES[rule], f"the same {count - MOST_OF_A_RULE} times more, which isn't listed"
                found.append(Finding(protocol, rule, known.severity, known.section, known.asks, more))
        return found

    def errors(self) -> int:
        """How often there was one so far, the same ones included."""
        return self._errors

    @contextmanager
    def exercising(self, protocol: str) -> Iterator[None]:
        self.exercised.append(protocol)
        self.walked = 0
        with self.checking(protocol):
            yield

    @contextmanager
    def checking(self, protocol: str) -> Iterator[None]:
        """What the object has raised, by the code of a value that was looked at, ends this and is a finding.

        Without that, the report on all the rest would be lost.
        """
        self.protocol = protocol
        try:
            yield
        except Exception as error:
            if error is self._unmade:
                raise
            self.stopped(error)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """As checking(), of one entry or member: the others are checked all the same."""
        try:
            yield
        except Exception as error:
            if error is self._unmade:
                raise
            self.stopped(error)

    def stopped(self, error: Exception) -> None:
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        # It tells the object's code from ours, whose fault it may be.
        code = None if at is None else at.tb_frame.f_code
        where = f", in {code.co_qualname} of {os.path.basename(code.co_filename)}" if code is not None else ""
        self.add("values-raise", f"{described(error)}{where}; what needs it isn't checked")


def attribute(thing: object, name: str) -> Any:
    """None where it isn't there; an exception where reading it raised one."""
    try:
        return getattr(thing, name, None)
    except Exception as error:
        return error


def kind_of(thing: object) -> str:
    """The name of its class, whatever a metaclass makes of that."""
    return str(type.__dict__["__name__"].__get__(type(thing)))


_LONGEST_NUMBER = 512  # bits


def formatted_address(address: int) -> str:
    """An address in a text, or what should be one."""
    bits = address.bit_length()
    return f"{address:#x}" if bits <= _LONGEST_NUMBER else f"a number of {bits} bits"


_DEEPEST = 8  # Levels of lists and so on that are shown.
_CONTAINERS: tuple[tuple[type, str, str], ...] = (
    (list, "[", "]"),
    (tuple, "(", ")"),
    (dict, "{", "}"),
    (set, "{", "}"),
    (frozenset, "{", "}"),
)


def _pieces(thing: Any, depth: int) -> Iterator[str]:
    """What repr() gives, piece by piece. Lists may be shared, and nest to more than memory holds: who asks stops."""
    if type(thing) is int and thing.bit_length() > _LONGEST_NUMBER:
        yield f"a number of {thing.bit_length()} bits"
        return
    if type(thing) in (str, bytes):
        yield repr(thing[: _LONGEST + 1])
        return
    container = next((one for one in _CONTAINERS if isinstance(thing, one[0])), None)
    if container is None:
        yield repr(thing)
        return
    base, before, after = container
    yield before if type(thing) is base else f"{kind_of(thing)}{before}"
    # By the base's own iterator: a subclass's may have no end.
    for number, one in enumerate(base.__iter__(thing)):  # type: ignore[attr-defined]
        yield ", " if number else ""
        if depth == _DEEPEST:
            yield "..."
            break
        yield from _pieces(one, depth + 1)
        if base is dict:
            yield ": "
            yield from _pieces(dict.__getitem__(thing, one), depth + 1)
    yield ",)" if base is tuple and tuple.__len__(thing) == 1 else after


def formatted(thing: object) -> str:
    """`thing` in a text, of a bounded length and after bounded work. Its repr() is code that isn't ours."""
    text = ""
    try:
        for piece in _pieces(thing, 0):
            text += piece
            if len(text) > _LONGEST:
                return f"{shown(text[:_LONGEST])}..."
        return shown(text)
    except Exception as error:
        return f"a {kind_of(thing)}, whose repr() raised {kind_of(error)}"


def described(error: BaseException) -> str:
    """The same of what was raised."""
    try:
        text = " ".join(str(error).split())
    except Exception as another:
        text = f"its str() raised {kind_of(another)}"
    return f"{kind_of(error)}{f': {text[:_LONGEST]}' if text else ''}"


@contextmanager
def quick_collections() -> Iterator[None]:
    """Collections look at what was made meanwhile, and leave what was there before alone."""
    if gc.get_freeze_count():
        yield  # Somebody else's; it can't be told from ours afterwards.
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def collect() -> None:
    """After the last reference: what lies in cycles goes, too."""
    gc.collect()
