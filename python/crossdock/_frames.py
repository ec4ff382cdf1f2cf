"""What batches, readers and files become in other libraries: the methods of their native classes for that.

The import of crossdock reads this module, which therefore imports nothing itself.
"""

from __future__ import annotations

TYPE_CHECKING = False  # As typing has it, whose import takes longer than all of ours. Type checkers take it for True.
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import polars

__all__ = ["METHODS", "pandas_of", "polars_of"]


def pandas_of(to_arrow: Callable[[], Any], numpy: bool, options: dict[str, Any]) -> Any:
    """to_arrow: returns a table or a batch of pyarrow's. It isn't called without pandas: what it reads would be lost.
    options: those of `to_pandas()` of that."""
    from crossdock._optional import needed

    with needed("to_pandas() needs pandas", "pandas"):
        import pandas  # type: ignore[import-untyped]
    with needed("to_pandas() needs pyarrow", "pyarrow"):
        import pyarrow

    if options:  # a wrong name is told before anything is read
        import inspect

        inspect.signature(pyarrow.Table.to_pandas).bind(None, **options)
    if not numpy and "types_mapper" not in options:
        options["types_mapper"] = pandas.ArrowDtype
    return to_arrow().to_pandas(**options)


def polars_of(to_arrow: Callable[[], Any]) -> polars.DataFrame:
    """to_arrow: as in `pandas_of()`."""
    from crossdock._optional import needed

    with needed("to_polars() needs polars", "polars"):
        import polars

    frame = polars.from_arrow(to_arrow(), rechunk=False)  # one chunk of each column would be a copy
    assert isinstance(frame, polars.DataFrame)
    return frame


class _Host:
    """A batch without its export for devices, of which pyarrow would ask first."""

    def __init__(self, batch: Any) -> None:
        self.__arrow_c_array__ = batch.__arrow_c_array__


def to_arrow(self: Any) -> Any:
    """Returns a batch as a pyarrow `RecordBatch`, or reads a whole reader or file into a pyarrow `Table`.

    pyarrow uses host memory where it is, and keeps it alive. Memory of a device is copied to the host. Waits for
    pending work on the memory.

    Raises `ConsumedError` for a reader whose batches were already read, the error of failed work, pyarrow's own error
    if a stream ends with one, and `ImportError` without pyarrow.
    """
    from crossdock._optional import needed

    with needed("to_arrow() needs pyarrow", "pyarrow"):
        import pyarrow

    return pyarrow.record_batch(_Host(self)) if hasattr(self, "__arrow_c_array__") else pyarrow.table(self)


def to_pandas(self: Any, *, numpy: bool = False, **options: Any) -> Any:
    """Returns a batch as a pandas `DataFrame`, or reads a whole reader or file into one.

    numpy: False: the columns are Arrow's, as pandas' `ArrowDtype`, which pandas doesn't copy. True: the columns are
        NumPy's, which pandas copies.
    options: those of pyarrow's `Table.to_pandas()`.

    Raises the errors of `to_arrow()`, those of pyarrow's `Table.to_pandas()`, and `ImportError` without pandas.
    """
    return pandas_of(lambda: to_arrow(self), numpy, options)


def to_polars(self: Any) -> polars.DataFrame:
    """Returns a batch as a polars `DataFrame`, or reads a whole reader or file into one. polars copies texts into a
    form of its own, and copies nothing else.

    Raises the errors of `to_arrow()`, those of `polars.from_arrow()`, and `ImportError` without polars.
    """
    return polars_of(lambda: to_arrow(self))


METHODS = (to_arrow, to_pandas, to_polars)
