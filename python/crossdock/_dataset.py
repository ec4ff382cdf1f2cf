"""A table of a server's as a dataset of pyarrow's: `Table.to_dataset()`."""

from __future__ import annotations

from typing import Any, NoReturn, final

import pyarrow
import pyarrow.dataset
import pyarrow.fs

from crossdock._scan import Scan, both

_NOT_HERE = "a crossdock.Table: its rows come by the scanner() of its dataset, and from no file"


def _nothing(schema: Any) -> Any:
    """Returns a dataset of one file that isn't there: what would read its files finds out, and doesn't find no rows."""
    form, files = pyarrow.dataset.IpcFileFormat(), pyarrow.fs.LocalFileSystem()
    return pyarrow.dataset.FileSystemDataset([form.make_fragment(_NOT_HERE, files)], schema, form, files)


@final
class TableDataset(pyarrow.dataset.UnionDataset):  # type: ignore[misc]
    """A dataset that is read from a server: `scanner()` asks for the columns and batches that it needs alone.

    Made by `Table.to_dataset()`. What reads a dataset by its `scanner()`, as DuckDB does, and `to_table()`,
    `to_batches()`, `head()` and `count_rows()`, reads it; it has no fragments.
    """

    def __init__(self, scan: Scan, schema: Any, columns: list[str] | None, rows: range | None, expression: Any) -> None:
        if columns is not None:
            schema = pyarrow.schema([schema.field(name) for name in columns], schema.metadata)
        super().__init__(schema, [_nothing(schema)])
        self._scan = scan
        self._columns = columns
        self._rows = rows
        self._expression = expression

    def scanner(self, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        """Returns a scanner, which reads once. Its options are those of pyarrow's."""
        names = self.schema.names  # those that were promised, also if the table has others by now
        every = self._columns if self._columns is not None or len(set(names)) < len(names) else names
        both_filters = both(self._expression, filter)
        return self._scan.scanner(every if columns is None else columns, self._rows, both_filters, options)

    def filter(self, expression: Any) -> TableDataset:
        """Returns the same dataset, with the rows alone that the filter lets through, too."""
        return TableDataset(self._scan, self.schema, self._columns, self._rows, both(self._expression, expression))

    @property
    def partition_expression(self) -> Any:
        return pyarrow.compute.scalar(True)

    def get_fragments(self, filter: Any = None) -> NoReturn:
        raise NotImplementedError("the dataset of a crossdock.Table has no fragments: scanner() reads it")

    def replace_schema(self, schema: Any) -> NoReturn:
        raise NotImplementedError("the dataset of a crossdock.Table has the schema of its server's table")

    def __reduce__(self) -> NoReturn:
        raise TypeError("the dataset of a crossdock.Table can't be pickled: it holds a connection")
