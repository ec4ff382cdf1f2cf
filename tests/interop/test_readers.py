"""Other libraries read every type from us: C streams, and the streams and files that we write."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import nanoarrow as na
import polars as pl
import pyarrow as pa
import pytest
from nanoarrow.c_array import CArray
from tests.interop import every_type

import crossdock as xd

# Their pools and what those hold are there before a test looks for leftovers.
pl.DataFrame({"x": [1]})
duckdb.sql("select 1").fetchall()


class Stream:
    """Nothing but a C stream, so that no library takes a way of its own with an object that it knows."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._source.__arrow_c_stream__(requested_schema)


# ---- what is read --------------------------------------------------------------------------------------------------


def tables() -> dict[str, tuple[Any, list]]:
    """Each type as a table of one column, x, and its values."""
    found: dict[str, tuple[Any, list]] = {}
    for name in every_type.VALUES:
        column = every_type.column(name)
        plain = column.cast(pa.int64()) if in_nanoseconds(column.type) else column
        found[name] = (pa.table({"x": column}), plain.to_pylist(maps_as_pydicts="strict"))
    for name, (column, values) in every_type.columns_by_hand().items():
        field = na.c_schema(column.schema if isinstance(column, CArray) else column.type)
        whole = na.c_array_from_buffers(na.struct({"x": field}), len(values), [None], children=[column])
        found[name] = (na.Array(whole), values)
    return found


def in_nanoseconds(kind: pa.DataType) -> bool:
    """Python's own times have microseconds: these are compared as numbers."""
    return (pa.types.is_timestamp(kind) or pa.types.is_duration(kind)) and kind.unit == "ns"


TABLES = tables()

# ---- who reads -----------------------------------------------------------------------------------------------------


def of_pyarrow(reader: pa.RecordBatchReader) -> list:
    column = reader.read_all()["x"]
    return (column.cast(pa.int64()) if in_nanoseconds(column.type) else column).to_pylist(maps_as_pydicts="strict")


def of_nanoarrow(stream: na.ArrayStream) -> list:
    if na.c_schema(stream.schema.field(0)).format in ("tsn:", "tDn"):
        (column,) = (chunk.child(0) for chunk in stream)
        cut = column.to_pylist()  # to microseconds, but it says where the nulls are
        return [None if value is None else tick for tick, value in zip(column.buffer(1), cut, strict=True)]
    return [value for (value,) in stream.iter_tuples()]


def of_polars(frame: pl.DataFrame) -> list:
    column = frame["x"]
    return (column.to_physical() if getattr(column.dtype, "time_unit", "") == "ns" else column).to_list()


def of_duckdb(stream: Any) -> list:
    with duckdb.connect() as connection:
        found = connection.sql("select * from stream").to_arrow_table()
        return of_pyarrow(found.to_reader())


READERS: dict[str, tuple[str, Callable[[Any], list]]] = {
    "pyarrow, C stream": ("C", lambda stream: of_pyarrow(pa.RecordBatchReader.from_stream(stream))),
    "pyarrow, IPC stream": ("stream", lambda path: of_pyarrow(pa.ipc.open_stream(path.read_bytes()))),
    "nanoarrow, C stream": ("C", lambda stream: of_nanoarrow(na.ArrayStream(stream))),
    "nanoarrow, IPC stream": ("stream", lambda path: of_nanoarrow(na.ArrayStream.from_path(str(path)))),
    "polars, C stream": ("C", lambda stream: of_polars(pl.DataFrame(stream))),
    "polars, IPC stream": ("stream", lambda path: of_polars(pl.read_ipc_stream(path))),
    "polars, IPC file": ("file", lambda path: of_polars(pl.read_ipc(path))),
    "duckdb, C stream": ("stream", lambda path: of_duckdb(xd.open(path))),
}


# ---- what they can't read: docs/reference/types.md, "What other libraries can't read" --------------------------------


class Refuses(NamedTuple):
    error: str  # what its error says, a regular expression


class Shows(NamedTuple):
    values: list  # other ones than there are, or of another kind


class Misreads(NamedTuple):
    """It gives values, and not the right ones."""


Quirk = Refuses | Shows | Misreads


def each(quirk: Quirk, *names: str) -> dict[str, Quirk]:
    return dict.fromkeys(names, quirk)


def interval(months: int, days: int, nanoseconds: int) -> pa.MonthDayNano:
    return pa.MonthDayNano([months, days, nanoseconds])


RUNS = ["run_end_encoded int16", "run_end_encoded int32", "run_end_encoded int64", "run_end_encoded of run_end_encoded"]
NEW = "struct of what is new"  # runs of list views, with binary views within

PYARROW: dict[str, Quirk] = {"interval_months": Refuses("21"), "interval_day_time": Refuses("22")}  # no such scalars
PYARROW_C = {"run_end_encoded of run_end_encoded": Refuses("nested run-end encoded")}
STORAGE = Shows([(1).to_bytes(16, "big"), None, b"\xff" * 16])
NANOARROW: dict[str, Quirk] = {
    "extension": STORAGE,
    **each(Refuses("Can't resolve iterator for type 'decimal"), "decimal32", "decimal64"),
    **each(Misreads(), "decimal128", "decimal256"),  # negative numbers, which it takes for ones without a sign
    "empty struct": Shows([]),
    **each(Refuses("iterator for type 'map'"), "map", "sorted map", "struct of everything"),
}
NANOARROW_C = {
    **each(Refuses("iterator for type '(large_)?list_view'"), "list_view", "large_list_view"),
    **each(Refuses("iterator for type 'run_end_encoded'"), *RUNS, NEW),
}
NANOARROW_IPC = {
    **each(Refuses("View not yet supported"), "string_view", "binary_view", "dictionary of views"),
    **each(Refuses("ListView not yet supported"), "list_view", "large_list_view"),
    **each(Refuses("RunEndEncoded not yet supported"), *RUNS, NEW),
}
POLARS: dict[str, Quirk] = {
    "extension": STORAGE,
    "decimal256": Refuses("Int256"),
    "date64": Shows([datetime.datetime(2024, 2, 29), None, datetime.datetime(1969, 1, 1)]),
    "month_day_nano_interval": Refuses("month_day_nano_interval"),
    "interval_months": Refuses("YearMonth"),
    "interval_day_time": Refuses("DaysMs|DayTime"),
    **each(Refuses("Union"), *(name for name in every_type.VALUES if "union" in name)),
}
POLARS_C = {
    **each(Misreads(), "decimal32", "decimal64"),  # as if they were decimal128: over the buffer's end, too
    **each(Refuses("not supported in Rust"), "list_view", "large_list_view", *RUNS, NEW),
}
POLARS_IPC = each(Refuses("not yet implemented"), "list_view", "large_list_view", *RUNS, NEW)
DUCKDB: dict[str, Quirk] = {
    "extension": Shows(["00000000-0000-0000-0000-000000000001", None, "ffffffff-ffff-ffff-ffff-ffffffffffff"]),
    "float16": Refuses("Unsupported Internal Arrow Type e"),
    "decimal256": Refuses("Unsupported Internal Arrow Type for Decimal"),
    "sparse union": Refuses("union tag out of range"),
    **each(Refuses('Unsupported Internal Arrow Type: "d" Union'), "dense union", "dense union in a list"),
    "run_end_encoded of run_end_encoded": Refuses("type mismatch"),
    NEW: Refuses("type mismatch"),
    # An interval of its own, of microseconds.
    "duration[s]": Shows([interval(0, 0, 10**9), None, interval(0, 0, -5 * 10**9)]),
    "duration[ms]": Shows([interval(0, 0, 10**6), None, interval(0, 0, -5 * 10**6)]),
    "duration[us]": Shows([interval(0, 0, 1000), None, interval(0, 0, -5000)]),
    "duration[ns]": Shows([interval(0, 0, 0), None, interval(0, 0, 0)]),
    "month_day_nano_interval": Shows([interval(1, -2, 0), None, interval(0, 0, 0)]),
    "interval_months": Shows([interval(1, 0, 0), None, interval(-2, 0, 0)]),
    "interval_day_time": Misreads(),  # both parts as one number of milliseconds
}

QUIRKS = {
    "pyarrow, C stream": PYARROW | PYARROW_C,
    "pyarrow, IPC stream": PYARROW,
    "nanoarrow, C stream": NANOARROW | NANOARROW_C,
    "nanoarrow, IPC stream": NANOARROW | NANOARROW_IPC,
    "polars, C stream": POLARS | POLARS_C,
    "polars, IPC stream": POLARS | POLARS_IPC,
    "polars, IPC file": POLARS | POLARS_IPC,
    "duckdb, C stream": DUCKDB,
}


def check(read: Callable[[], list], values: list, quirk: Quirk | None) -> None:
    match quirk:
        case None:
            assert read() == values
        case Refuses(error):
            with pytest.raises((Exception, pl.exceptions.PanicException), match=error):
                read()
        case Shows(other):
            assert read() == other != values
        case Misreads():
            assert read() != values


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("reader", READERS)
def test_it_reads_what_we_give(reader, name, tmp_path):
    source, values = TABLES[name]
    form, read = READERS[reader]
    quirk = QUIRKS[reader].get(name)
    with xd.serve({"t": source}) as server, xd.connect(server.uri) as client:
        ours = client.get("t")
        if form != "C":
            xd.write(ours, tmp_path / "ours", form=form)
        check(lambda: read(Stream(ours) if form == "C" else tmp_path / "ours"), values, quirk)
    if quirk is None or name not in every_type.VALUES:
        return
    # It isn't ours: pyarrow's stream of the same meets the same.
    if form != "C":
        new = pa.ipc.new_stream if form == "stream" else pa.ipc.new_file
        with new(tmp_path / "theirs", source.schema) as writer:
            writer.write_table(source)
    check(lambda: read(Stream(source) if form == "C" else tmp_path / "theirs"), values, quirk)


def test_the_page_says_so():
    """docs/reference/types.md, "What other libraries read": a cell for each type and reader, and no other type."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "types.md").read_text()
    _, _, section = page.partition("## What other libraries read\n")
    titles, _, *rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    said = {
        (reader, name): cell
        for names, *cells in rows
        for name in names.split(", ")
        for reader, cell in zip(titles[1:], cells, strict=True)
    }
    columns = {reader: reader.replace("C stream", "C").replace("IPC stream", "IPC") for reader in QUIRKS}
    columns["polars, IPC file"] = "polars, IPC"
    assert said.keys() == {(column, name) for column in columns.values() for name in TABLES}
    for (reader, quirks), name in itertools.product(QUIRKS.items(), TABLES):
        cell = said[columns[reader], name]
        match quirks.get(name):
            case None:
                assert cell == "yes"
            case Refuses():
                assert cell in ("no", "no values")
            case Misreads():
                assert cell == "wrong values"
            case Shows():
                assert cell not in ("yes", "no", "wrong values")


def test_nanoarrow_cannot_hold_views(script):
    """Its own memory is at stake, so in a process of its own; pyarrow's stream, since the fault isn't ours."""
    held = script(
        """
        import nanoarrow as na
        import pyarrow as pa

        for length in range(100):
            table = pa.table({"x": pa.array(["no view holds as much as this"] * length, pa.string_view())})
            na.ArrayStream(table).read_all().to_pylist()
        """
    )
    held.process.wait(60)
    # By which signal depends on what lies where; it may also be an exception.
    assert held.process.returncode != 0, held.finish(expect=None)
