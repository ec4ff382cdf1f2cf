"""A table of a server's that can be read again and again: `Client.table()`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, final

from crossdock import _columns, _native
from crossdock._options import checked_name
from crossdock.errors import InvalidArgumentError

if TYPE_CHECKING:
    import polars
    import pyarrow

__all__ = ["Table"]


@final
class Table:
    """A table that a server offers under a name: `client.table(name)`.

    It is an Arrow stream that can be exported any number of times: each time, the server is asked for the table anew,
    and what is published then is read. So `pyarrow.table(t)`, `polars.DataFrame(t)` and DuckDB's queries
    (`duckdb.sql("select * from t")`) take it as often as they like. Within a machine nothing is copied before those
    libraries do.

    Thread-safe, as the client is, which it keeps. Its methods raise what `Client.get()` raises. Errors in the middle of
    a table come out of other libraries as theirs, with our text.
    """

    __slots__ = ("_client_list", "_columns", "_get", "_name")

    def __init__(
        self,
        name: str | bytes,
        columns: Iterable[str] | None,
        get: Callable[[list[str] | None], _native.RecordBatchReader],
        client_list: Callable[[], list[_native.CatalogEntry]],
    ) -> None:
        if isinstance(columns, (str, bytes)):
            raise TypeError(f"columns must be a list of names, not one name; give [{columns!r}]")
        self._name = name
        self._columns = None if columns is None else [*columns]
        for column in self._columns or ():
            if not isinstance(column, str):
                raise TypeError(f"a column's name must be a str, not {type(column).__name__}")
        self._get = get
        self._client_list = client_list

    @property
    def name(self) -> str | bytes:
        return self._name

    @property
    def columns(self) -> list[str] | None:
        """The columns that are read, in this order; None: all."""
        return None if self._columns is None else [*self._columns]

    @property
    def schema(self) -> _native.Schema:
        """The schema of what is published now."""
        with self.get() as reader:
            return reader.schema

    @property
    def num_rows(self) -> int:
        """The number of rows, by the server's catalog as it is now. Raises `InvalidArgumentError` for a live stream."""
        name = checked_name(self._name)
        entry = next((entry for entry in self._client_list() if checked_name(entry.name) == name), None)
        if entry is None or entry.kind != "table":
            self.get().close()  # raises what is wrong
        elif entry.rows is not None:
            return entry.rows
        raise InvalidArgumentError(f"{self._name!r} has no number of rows: it is live, or made when it is asked for")

    def get(self) -> _native.RecordBatchReader:
        """Asks for the table, and returns a reader of its batches, as `Client.get()` does."""
        return self._get(self._columns)

    def select(self, columns: Iterable[str]) -> Table:
        """Returns the same table with these columns alone, in this order."""
        return Table(self._name, columns, self._get, self._client_list)

    def __iter__(self) -> Iterator[_native.RecordBatch]:
        return iter(self.get())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.get().__arrow_c_stream__(requested_schema)

    def __arrow_c_device_stream__(self, requested_schema: Any = None, **kwargs: Any) -> Any:
        return self.get().__arrow_c_device_stream__(requested_schema, **kwargs)

    def to_arrow(self) -> pyarrow.Table:
        """Reads the table into a pyarrow `Table`. Within a machine its columns are the server's memory."""
        import pyarrow

        return pyarrow.table(self)

    def to_pandas(self, *, numpy: bool = False, **options: Any) -> Any:
        """Reads the table into a pandas `DataFrame`, with the index that it had if it was made of one.

        The columns are Arrow's, as pandas' `ArrowDtype`, which pandas doesn't copy. numpy=True: NumPy's, which pandas
        copies. options: those of pyarrow's `Table.to_pandas()`.
        """
        table = self.to_arrow()
        if not numpy and "types_mapper" not in options:
            import pandas  # type: ignore[import-untyped]

            options["types_mapper"] = pandas.ArrowDtype
        return table.to_pandas(**options)

    def to_polars(self) -> polars.DataFrame:
        """Reads the table into a polars `DataFrame`. polars copies texts, in a form of its own, and nothing else."""
        import polars

        frame = polars.from_arrow(self.to_arrow(), rechunk=False)  # one chunk of each column would be a copy
        assert isinstance(frame, polars.DataFrame)
        return frame

    __array__, __dlpack__, __dlpack_device__ = _columns.METHODS

    def __repr__(self) -> str:
        chosen = "" if self._columns is None else f", columns={self._columns!r}"
        return f"<crossdock.Table {self._name!r}{chosen}>"

    def _repr_html_(self) -> str:
        """For notebooks. Asks the server for nothing."""
        from crossdock import _html

        return _html.of_table(self)
