"""Which rows of a table are wanted: the argument `rows` of several functions."""

from __future__ import annotations

import operator

from crossdock._text import class_of, quoted
from crossdock.errors import InvalidArgumentError

_MOST = 2**63 - 1


def checked_rows(rows: range | slice | None) -> range | None:
    """Returns the rows as a range with the step 1; None: all."""
    if rows is None:
        return None
    if not isinstance(rows, (range, slice)):
        raise TypeError(f"rows must be a range or a slice, not {class_of(rows)}")
    step = 1 if rows.step is None else rows.step
    start = 0 if rows.start is None else rows.start
    stop = _MOST if rows.stop is None else rows.stop
    if any(isinstance(number, bool) or not hasattr(number, "__index__") for number in (start, stop, step)):
        raise TypeError(f"rows must be a range or a slice of whole numbers, not {quoted(rows)}")
    start, stop, step = (operator.index(number) for number in (start, stop, step))
    if step != 1:
        raise InvalidArgumentError(f"rows must follow each other, with the step 1, and not {quoted(rows)}")
    if start < 0 or stop < 0:
        raise InvalidArgumentError(
            f"rows count from the table's start, and can't be negative: {quoted(rows)}; "
            "num_rows says how many there are"
        )
    return range(min(start, _MOST), max(min(stop, _MOST), min(start, _MOST)))


def first_and_count(rows: range | None) -> tuple[int, int] | None:
    """Returns the rows in the form that the library takes."""
    return None if rows is None else (rows.start, len(rows))
