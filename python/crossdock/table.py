"""A table of a server's that can be read again and again: `Client.table()`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, final

from crossdock import _columns, _frames, _native
from crossdock._filter import as_expression
from crossdock._optional import needed
from crossdock._options import checked_columns, checked_name
from crossdock._rows import first_and_count
from crossdock._scan import Scan, both
from crossdock._text import quoted
from crossdock.errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    import polars
    import pyarrow

__all__ = ["Table"]


@final
class Table:
    """A table that a server offers under a name, or a part of it: `client.table(name)`.

    It is an Arrow stream that can be exported any number of times. Each export asks the server for the table again, and
    reads what is published then. So `pyarrow.table(t)`, `polars.DataFrame(t)` and DuckDB's queries
    (`duckdb.sql("select * from t")`) can read it as often as they need. Within a machine nothing is copied before these
    libraries do so.

    `select()`, `filter()` and `rows=` of `Client.table()` select a part of the table. They also decide which batches
    are sent: for rows, those that have them; for a filter, those in which a row may match by their statistics (the
    lowest and the highest value, the nulls). The result is always exact. `to_dataset()` and `to_lazy()` pass on to the
    server what DuckDB and polars need of a table.

    Thread-safe, as the client is. It keeps the client alive. Its methods raise what `Client.get()` raises. An error in
    the middle of a table is raised by another library as that library's own error, with the text of ours.
    """

    __slots__ = ("_columns", "_expression", "_name", "_rows", "_scan")

    def __init__(
        self,
        name: str | bytes,
        columns: Iterable[str] | None,
        scan: Scan,
        *,
        rows: range | None = None,
        expression: Any = None,
    ) -> None:
        self._name = name
        self._columns = checked_columns(columns)
        self._scan = scan
        self._rows = rows
        self._expression = expression

    @property
    def name(self) -> str | bytes:
        """The name that the table is served under."""
        return self._name

    @property
    def columns(self) -> list[str] | None:
        """The columns that are read, in this order; None: all."""
        return None if self._columns is None else [*self._columns]

    @property
    def rows(self) -> range | None:
        """The rows that are read, before a filter; None: all."""
        return self._rows

    @property
    def schema(self) -> _native.Schema:
        """The schema of what is published now."""
        if self._expression is None:
            try:
                return self._scan.asked_schema(self._columns)[0]
            except UnsupportedError:  # a live stream
                pass
        with self.get() as reader:
            return reader.schema

    @property
    def num_rows(self) -> int:
        """The number of rows, by the server's catalog at this moment. With a filter, the rows that pass it are counted.

        Raises `InvalidArgumentError` for a live stream.
        """
        if self._expression is not None:
            return int(self._scan.scanner([], self._rows, self._expression, {}).count_rows())
        name = checked_name(self._name)
        entry = next((entry for entry in self._scan.requests.list() if checked_name(entry.name) == name), None)
        if entry is None or entry.kind != "table":
            self.get().close()  # raises what is wrong
        elif entry.rows is not None:
            return entry.rows if self._rows is None else len(range(entry.rows)[self._rows.start : self._rows.stop])
        raise InvalidArgumentError(
            f"{quoted(self._name)} has no number of rows: it is live, or made when it is asked for"
        )

    def get(self) -> _native.RecordBatchReader:
        """Asks for the table, and returns a reader of its batches, as `Client.get()` does.

        Raises the errors of `Client.get()`, such as `NotFoundError`. With a filter, raises also `InvalidArgumentError`
        if the filter doesn't fit the table, and `UnsupportedError` for a live stream and a callable.
        """
        if self._expression is not None:
            return _native.RecordBatchReader(self._filtered())
        return self._scan.requests.get(self._columns, rows=first_and_count(self._rows))

    def select(self, columns: Iterable[str]) -> Table:
        """Returns the same table with only these `columns`, in this order.

        Raises `TypeError` unless they are texts, and `InvalidArgumentError` for a text that can't be encoded as UTF-8.
        Whether they exist is checked when the table is read.
        """
        return Table(self._name, columns, self._scan, rows=self._rows, expression=self._expression)

    def filter(self, expression: Any) -> Table:
        """Returns the same table with only the rows that pass a filter.

        The filter may use columns that aren't selected, and is added to an earlier filter. Needs pyarrow, by whose
        rules values are compared.

        Only batches with rows that may match are sent. The lowest and the highest value of a column in each batch
        decide this, so it helps if rows with similar values lie together. The server has these values for numbers,
        bools, decimals, dates, times, and texts. It doesn't have them for dictionaries, for nested columns and for a
        batch with a NaN. It reads a column for them at the first request. A server that doesn't support such requests
        sends everything. All rows are of one version of the table.

        expression: as `pyarrow.compute.field("x") > 5`, or tuples, as `[("x", ">", 5)]`, which pyarrow.parquet
            describes as `filters`.

        Raises `ImportError` without pyarrow, `TypeError` for another type, and `InvalidArgumentError` for wrong tuples.
        Whether the filter fits the table is checked when the table is read.
        """
        return Table(
            self._name,
            self._columns,
            self._scan,
            rows=self._rows,
            expression=both(self._expression, as_expression(expression)),
        )

    def _filtered(self) -> Any:
        return self._scan.reader(self._columns, self._rows, self._expression)

    def to_dataset(self) -> Any:
        """Returns a dataset of pyarrow's (`pyarrow.dataset.Dataset`) that is read from the server.

        Columns and filters of a reader of the dataset are passed on to the server, as those of `select()` and
        `filter()` are. DuckDB passes them for a query on it. Columns of views have the large types instead, since
        pyarrow can't filter views.

        Asks for the schema, which the dataset keeps. Needs pyarrow.

        Raises the errors of `Client.get()`, such as `NotFoundError`, `UnsupportedError` for a live stream and a
        callable, `KeyError` for a selected column that doesn't exist, and `ImportError` without pyarrow.
        """
        with needed("to_dataset() needs pyarrow", "pyarrow"):
            from crossdock._dataset import TableDataset

        return TableDataset(self._scan, self._scan.schema(), self._columns, self._rows, self._expression)

    def to_lazy(self) -> polars.LazyFrame:
        """Returns a LazyFrame of polars that is read from the server when it is collected.

        The columns, filters and limits of the query decide what is sent. polars filters the received rows, by its own
        rules.

        Asks for the schema. Needs polars and pyarrow.

        Raises the errors of `to_dataset()`, and `ImportError` also without polars.
        """
        with needed("to_lazy() needs polars and pyarrow", "polars pyarrow"):
            from crossdock import _lazy

        return _lazy.lazy(self._scan, self._columns, self._rows, self._expression)

    def __iter__(self) -> Iterator[_native.RecordBatch]:
        return iter(self.get())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.get().__arrow_c_stream__(requested_schema)

    def __arrow_c_device_stream__(self, requested_schema: Any = None, **kwargs: Any) -> Any:
        return self.get().__arrow_c_device_stream__(requested_schema, **kwargs)

    def to_arrow(self) -> pyarrow.Table:
        """Reads the table into a pyarrow `Table`. Within a machine its columns are the server's memory.

        Raises the errors of `get()`, pyarrow's own error if the stream ends with one in the middle of the table, and
        `ImportError` without pyarrow.
        """
        with needed("to_arrow() needs pyarrow", "pyarrow"):
            import pyarrow

        if self._expression is not None:
            table: pyarrow.Table = self._filtered().read_all()
            return table
        return pyarrow.table(self)

    def to_pandas(self, *, numpy: bool = False, **options: Any) -> Any:
        """Reads the table into a pandas `DataFrame`, with the index that it had if it was made of one.

        numpy: False: the columns are Arrow's, as pandas' `ArrowDtype`, which pandas doesn't copy. True: the columns are
            NumPy's, which pandas copies.
        options: those of pyarrow's `Table.to_pandas()`.

        Raises the errors of `to_arrow()`, those of pyarrow's `Table.to_pandas()`, and `ImportError` without pandas.
        """
        return _frames.pandas_of(self.to_arrow, numpy, options)

    def to_polars(self) -> polars.DataFrame:
        """Reads the table into a polars `DataFrame`. polars copies texts into a form of its own, and copies nothing
        else.

        Raises the errors of `to_arrow()`, those of `polars.from_arrow()`, and `ImportError` without polars.
        """
        return _frames.polars_of(self.to_arrow)

    __array__, __dlpack__, __dlpack_device__ = _columns.METHODS

    def __repr__(self) -> str:
        chosen = "" if self._columns is None else f", columns={self._columns!r}"
        if self._rows is not None:
            chosen += f", rows={self._rows!r}"
        if self._expression is not None:
            chosen += f", filter={self._expression}"
        return f"<crossdock.Table {self._name!r}{chosen}>"

    def _repr_html_(self) -> str:
        """For notebooks. Asks the server for nothing."""
        from crossdock import _html

        return _html.of_table(self)
