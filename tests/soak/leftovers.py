"""What a unit's own process may not keep once its work is done."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

from tests.leftovers import Leftovers
from tests.soak.unit import Unit, wait_until


@contextlib.contextmanager
def none_of(unit: Unit) -> Iterator[None]:
    """A finding for each descriptor, mapping of shared memory, and process that is there afterwards and wasn't."""
    before = Leftovers.now()
    yield
    found: list[str] = []

    def gone() -> bool:
        gc.collect()
        found[:] = Leftovers.now().since(before)
        return not found

    wait_until(gone, 10)
    for text in found:
        unit.finding(f"left behind in this process: {text}")
