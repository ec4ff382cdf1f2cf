"""Filters of tables: pyarrow's expressions, or tuples as pyarrow.parquet takes them."""

from __future__ import annotations

import re
from typing import Any

from crossdock._optional import needed
from crossdock._text import class_of, quoted, shown
from crossdock.errors import InvalidArgumentError

_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')


def as_expression(given: Any) -> Any:
    """Returns a filter as an expression of pyarrow's."""
    with needed("filter() needs pyarrow", "pyarrow"):
        import pyarrow.compute
        import pyarrow.dataset
        import pyarrow.parquet
    if isinstance(given, pyarrow.compute.Expression):
        return given
    if not isinstance(given, (list, tuple)):
        raise TypeError(
            'a filter must be an expression, as pyarrow.compute.field("x") > 5, or a list of tuples, as '
            f'[("x", ">", 5)], not {class_of(given)}'
        )
    try:
        return pyarrow.parquet.filters_to_expression([given] if isinstance(given, tuple) else given)
    except (ValueError, TypeError, pyarrow.ArrowException) as wrong:
        raise InvalidArgumentError(
            f"the filter {quoted(given)} isn't a list of tuples (column, operator, value): {shown(str(wrong), 500)}"
        ) from None


def check_bool(expression: Any, schema: Any) -> None:
    """Raises `InvalidArgumentError` if an expression, which fits the schema, isn't true or false."""
    import pyarrow
    import pyarrow.dataset

    named = pyarrow.schema([schema.field(name) for name in columns_of(expression, schema)])
    try:
        pyarrow.dataset.Scanner.from_batches([], schema=named, filter=expression).to_table()
    except (pyarrow.ArrowException, NotImplementedError) as wrong:
        raise InvalidArgumentError(f"{expression} is no filter: {str(wrong).splitlines()[0]}") from None


def without_texts(expression: Any) -> str:
    """Returns the text of an expression, without what stands in its constants of text."""
    return _STRINGS.sub("", str(expression))


def columns_of(expression: Any, schema: Any) -> list[str]:
    """Returns the top-level columns that an expression refers to. Raises `InvalidArgumentError` if it doesn't fit the
    schema.

    pyarrow doesn't say which these are. But without such a column the expression doesn't fit any more.
    """
    import pyarrow
    import pyarrow.dataset
    import pyarrow.fs

    text = str(expression)
    if "FieldPath(" in without_texts(expression):
        raise InvalidArgumentError(f"the expression {text} refers to a column by its position: name it instead")
    form, nowhere = pyarrow.dataset.IpcFileFormat(), pyarrow.fs.LocalFileSystem()

    def why_not(fields: Any) -> str | None:
        try:
            list(pyarrow.dataset.FileSystemDataset([], fields, form, nowhere).get_fragments(filter=expression))
        except (pyarrow.ArrowException, NotImplementedError) as wrong:
            return str(wrong).splitlines()[0]
        return None

    if (wrong := why_not(schema)) is not None:
        columns = ", ".join(f"{quoted(field.name)}: {field.type}" for field in schema)
        raise InvalidArgumentError(f"{text} isn't for this table, whose columns are {columns}: {wrong}")
    # A name that might be printed otherwise than it is counts as one that may be in the text.
    candidates = [
        i for i, name in enumerate(schema.names) if name in text or not (name.isascii() and name.isprintable())
    ]
    return [schema.names[i] for i in candidates if why_not(schema.remove(i)) is not None]
