"""The common part of the checkers of all protocols: collects findings, and makes the objects to check."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

from crossdock._check.report import Finding
from crossdock._check.rules import RULES
from crossdock._text import shown

MOST_OF_A_RULE = 20  # The most findings to list for one rule and one protocol.
_LONGEST = 200  # The most characters to show of a foreign text.


@dataclass(frozen=True)
class View:
    """The description of an array by one protocol, for comparison. Strides are in bytes."""

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
        """True if the memory is host memory, which may be read."""
        return self.device == 1

    @property
    def size(self) -> int:
        return prod(self.shape)

    def extent(self) -> tuple[int, int]:
        """Returns the address of the first byte of the elements, and the address after the last."""
        if self.size == 0:
            return self.pointer, self.pointer
        low = sum(min(0, (count - 1) * step) for count, step in zip(self.shape, self.strides, strict=True))
        high = sum(max(0, (count - 1) * step) for count, step in zip(self.shape, self.strides, strict=True))
        return self.pointer + low, self.pointer + high + self.itemsize


def contiguous(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Returns the strides of C order, in bytes."""
    steps: list[int] = []
    for count in reversed(shape):
        steps.append(itemsize)
        itemsize *= max(count, 1)
    return tuple(reversed(steps))


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Returns whether the strides are C order. A dimension of one element may have any stride."""
    natural = contiguous(shape, itemsize)
    return 0 in shape or all(
        count <= 1 or step == right for count, step, right in zip(shape, strides, natural, strict=True)
    )


class Checker:
    """Collects findings, and makes the object to check."""

    def __init__(self, make: Callable[[], object] | None, one: object) -> None:
        """`make` returns a new object each time. Without it, `one` is the only object."""
        self._make, self._one = make, one
        self.protocol = ""
        self.exercised: list[str] = []
        self.views: list[View] = []
        self.findings: list[Finding] = []
        self.buffers_read = 0
        """Buffers that were looked at by the protocol under way."""
        self._known: set[Finding] = set()
        self._counts: dict[tuple[str, str], int] = {}
        self.errors = 0
        """The number of errors so far, including repeated ones."""
        self._make_error: Exception | None = None

    @property
    def fresh(self) -> bool:
        """True if a new object is made for each test, so that tests may destroy it."""
        return self._make is not None

    def object(self) -> object:
        """Returns the object to check. Raises the errors of `make`, which aren't findings: there is no object then."""
        if self._make is None:
            return self._one
        try:
            return self._make()
        except Exception as error:
            self._make_error = error
            raise

    def add(self, rule: str, message: str) -> None:
        known = RULES[rule]
        finding = Finding(self.protocol, rule, known.severity, known.section, known.asks, message)
        self.errors += known.severity == "error"
        if finding in self._known:
            return
        count = self._counts.get((self.protocol, rule), 0) + 1
        self._counts[self.protocol, rule] = count
        if count <= MOST_OF_A_RULE:
            self._known.add(finding)
            self.findings.append(finding)

    def all_findings(self) -> list[Finding]:
        """Returns all findings, with an additional one for each rule that has more than are listed."""
        found = list(self.findings)
        for (protocol, rule), count in self._counts.items():
            if count > MOST_OF_A_RULE:
                known, more = RULES[rule], f"the same {count - MOST_OF_A_RULE} times more, which isn't listed"
                found.append(Finding(protocol, rule, known.severity, known.section, known.asks, more))
        return found

    @contextmanager
    def exercising(self, protocol: str) -> Iterator[None]:
        self.exercised.append(protocol)
        self.buffers_read = 0
        with self.checking(protocol):
            yield

    @contextmanager
    def checking(self, protocol: str) -> Iterator[None]:
        """Turns an exception in the block into a finding, for example of code in a value that was read.

        The block ends, but the other checks are made. Without this, the whole report would be lost.
        """
        self.protocol = protocol
        with self.checking_one():
            yield

    @contextmanager
    def checking_one(self) -> Iterator[None]:
        """The same as checking(), for one entry or member: the other ones are checked nevertheless."""
        try:
            yield
        except Exception as error:
            if error is self._make_error:
                raise
            self.stopped(error)

    def stopped(self, error: Exception) -> None:
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        # The place shows whether the fault is in the object's code or in the checker.
        code = None if at is None else at.tb_frame.f_code
        where = f", in {code.co_qualname} of {os.path.basename(code.co_filename)}" if code is not None else ""
        self.add("values-raise", f"{described(error)}{where}; what needs it isn't checked")


def attribute(thing: object, name: str) -> Any:
    """Returns an attribute, None if there is none, or the exception that reading it raised."""
    try:
        return getattr(thing, name, None)
    except Exception as error:
        return error


def kind_of(thing: object) -> str:
    """Returns the real name of an object's class, even if its metaclass overrides the name."""
    return str(type.__dict__["__name__"].__get__(type(thing)))


_LONGEST_NUMBER = 512  # bits


def formatted_address(address: int) -> str:
    """Formats an address, or an invalid number in the place of one, for a message."""
    bits = address.bit_length()
    return f"{address:#x}" if bits <= _LONGEST_NUMBER else f"a number of {bits} bits"


_DEEPEST = 8  # The most levels of nested containers to show.
_CONTAINERS: tuple[tuple[type, str, str], ...] = (
    (list, "[", "]"),
    (tuple, "(", ")"),
    (dict, "{", "}"),
    (set, "{", "}"),
    (frozenset, "{", "}"),
)


def _pieces(thing: Any, depth: int) -> Iterator[str]:
    """Yields the text of repr() in pieces. The caller stops when it has enough: nested lists may share items, so that
    the whole text is larger than memory."""
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
    # Uses the iterator of the base class: the one of a subclass may have no end.
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
    """Formats `thing` for a message, with a limited length and limited work. Its repr() is foreign code, which may
    fail."""
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
    """Formats an exception for a message, in the same way."""
    try:
        text = " ".join(str(error).split())
    except Exception as another:
        text = f"its str() raised {kind_of(another)}"
    return f"{kind_of(error)}{f': {text[:_LONGEST]}' if text else ''}"


@contextmanager
def quick_collections() -> Iterator[None]:
    """Makes garbage collections fast: they ignore the objects that existed before the block."""
    if gc.get_freeze_count():
        yield  # Other code has frozen objects, which couldn't be told apart from ours afterwards.
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def collect() -> None:
    """Collects garbage, so that objects in reference cycles are destroyed, too. Call it after the last reference is
    dropped."""
    gc.collect()
