"""What the judges of all protocols share: where findings go, and how objects are had."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from crossdock._check.report import Finding
from crossdock._check.rules import RULES


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


class Judge:
    """Collects findings, and knows how to have the object that is judged."""

    def __init__(self, make: Callable[[], object] | None, one: object) -> None:
        """`make` gives a fresh object each time; without it there is only `one`."""
        self._make, self._one = make, one
        self.protocol = ""
        self.exercised: list[str] = []
        self.views: list[View] = []
        self.findings: list[Finding] = []
        self._errors = 0

    @property
    def fresh(self) -> bool:
        """Whether objects can be thrown away."""
        return self._make is not None

    def object(self) -> object:
        return self._one if self._make is None else self._make()

    def add(self, rule: str, message: str) -> None:
        known = RULES[rule]
        finding = Finding(self.protocol, rule, known.severity, known.section, message)
        self._errors += known.severity == "error"
        if finding not in self.findings:
            self.findings.append(finding)

    def errors(self) -> int:
        """How often there was one so far, the same ones included."""
        return self._errors

    @contextmanager
    def exercising(self, protocol: str) -> Iterator[None]:
        self.protocol = protocol
        self.exercised.append(protocol)
        yield


def attribute(thing: object, name: str) -> Any:
    """None where it isn't there; an exception where reading it raised one."""
    try:
        return getattr(thing, name, None)
    except Exception as error:
        return error


def described(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}{f': {text[:200]}' if text else ''}"


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
