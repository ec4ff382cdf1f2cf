"""Batch statistics at the client: damaged ones, wrong ones, many of them; and which batches follow."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import crossdock as xd
from crossdock import _batch_statistics
from crossdock._scan import Requests, Scan, ranges_of

TABLE = pa.table({"x": range(100), "s": [f"{i:03}" for i in range(100)]})
BATCHES = TABLE.to_batches(max_chunksize=10)

GOOD = {
    "rows": pa.array([10] * 10, pa.int64()),
    "0.nulls": pa.array([0] * 10, pa.int64()),
    "0.min": pa.array(range(0, 100, 10), pa.int64()),
    "0.max": pa.array(range(9, 100, 10), pa.int64()),
}


class Says:
    """A server's answer, with a version that a test chooses."""

    def __init__(self, batches: list[pa.RecordBatch], schema: pa.Schema, version: int | None = 7) -> None:
        self.version = version
        self.schema = schema
        self._batches = [xd.RecordBatch(batch) for batch in batches]
        self._stream = pa.RecordBatchReader.from_batches(schema, batches)

    def __iter__(self) -> Says:
        return self

    def __next__(self) -> Any:
        if not self._batches:
            raise StopIteration
        return self._batches.pop(0)

    def __enter__(self) -> Says:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._stream.__arrow_c_stream__(requested_schema)


def statistics(columns: dict[str, pa.Array], version: int | None = 7, copies: int = 1) -> Says:
    batch = pa.record_batch(columns)
    return Says([batch] * copies, batch.schema, version)


def read(says: Says) -> _batch_statistics.BatchStatistics:
    return _batch_statistics.read(says, ["x"], TABLE.schema)  # type: ignore[arg-type]


def scan(
    says: dict[str, pa.Array], *, sends: list[pa.RecordBatch] | None = None, versions: list[int] | None = None
) -> Scan:
    """A scan of a server that says this of `TABLE`. sends: instead of the batches that are requested."""
    told = iter(versions or [])

    def get(columns: Any, *, rows: Any = None, batches: Any = None) -> Says:
        wanted = [place for first, count in batches for place in range(first, first + count)]
        chosen = [BATCHES[place] for place in wanted if place < 10] if sends is None or not wanted else sends
        return Says(chosen, TABLE.schema, next(told, 7))

    return Scan(Requests(get, lambda _: statistics(says), list))  # type: ignore[arg-type]


def test_what_is_read():
    known = read(statistics(GOOD))
    assert (known.version, known.rows) == (7, [10] * 10)
    assert known.columns["x"].min.to_pylist() == list(range(0, 100, 10))
    assert scan(GOOD).reader(None, None, pc.field("x") == 57).read_all().to_pylist() == [{"x": 57, "s": "057"}]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rows": None}, "no column 'rows'"),
        ({"rows": pa.array([10] * 9 + [-1], pa.int64())}, "'rows' of the server's batch statistics isn't"),
        ({"rows": pa.array([10] * 9 + [None], pa.int64())}, "'rows' of the server's batch statistics isn't"),
        ({"rows": pa.array([10] * 10, pa.int32())}, "'rows' of the server's batch statistics isn't"),
        ({"0.nulls": pa.array([11] + [0] * 9, pa.int64())}, "more nulls than rows"),
        ({"0.nulls": pa.array(["a"] * 10)}, r"'0\.nulls' of the server's batch statistics isn't"),
        ({"0.min": None}, r"no column '0\.min'"),
        ({"0.max": pa.array(["9"] * 10)}, "bounds of string for a column of int64"),
        ({"0.max": pa.array([9.5] * 10)}, "bounds of double for a column of int64"),
    ],
)
def test_damaged_statistics_are_an_error(change, says):
    columns = {name: column for name, column in (GOOD | change).items() if column is not None}
    with pytest.raises(xd.InvalidDataError, match=says):
        read(statistics(columns))
    with pytest.raises(xd.InvalidDataError, match=says):
        scan(columns).reader(None, None, pc.field("x") == 57)


def test_statistics_that_arent_one_batch_of_a_version():
    for copies in (0, 2):
        with pytest.raises(xd.InvalidDataError, match="aren't one batch"):
            read(statistics(GOOD, copies=copies))
    with pytest.raises(xd.InvalidDataError, match="no version"):
        read(statistics(GOOD, version=None))


def test_a_lie_never_gives_wrong_rows():
    """What a server says of its batches may cost rows, but every row that comes out matches."""
    random.seed(3)
    for _ in range(50):
        lie = GOOD | {
            "0.min": pa.array([random.randrange(-50, 150) for _ in range(10)], pa.int64()),
            "0.max": pa.array([random.choice([None, random.randrange(-50, 150)]) for _ in range(10)], pa.int64()),
            "0.nulls": pa.array([random.randrange(11) for _ in range(10)], pa.int64()),
        }
        found = scan(lie).reader(["x"], None, (pc.field("x") >= 25) & (pc.field("x") < 35)).read_all()["x"].to_pylist()
        assert set(found) <= set(range(25, 35))


@pytest.mark.parametrize("sends", [[], BATCHES[:1], [BATCHES[3].slice(2)]])
def test_batches_that_arent_those_of_the_statistics(sends):
    """With rows=, fewer batches than the statistics say, or others, are an error; a filter alone is exact anyway."""
    stream = scan(GOOD, sends=sends).reader(["x"], range(33, 44), pc.field("x") >= 0)
    with pytest.raises(xd.InvalidDataError, match="other batches than its batch statistics say"):
        stream.read_all()
    found = scan(GOOD, sends=sends).reader(["x"], None, pc.field("x") == 33).read_all()["x"].to_pylist()
    assert found == ([33] if sends and sends[0].num_rows == 8 else [])


def test_a_table_that_is_replaced_each_time_is_given_up():
    with pytest.raises(xd.TimeoutError, match="was replaced 8 times, each time before its statistics"):
        scan(GOOD, versions=list(range(100, 200))).reader(None, None, pc.field("x") == 3)
    with pytest.raises(xd.TimeoutError, match="was replaced 8 times, each time before its data"):
        scan(GOOD, versions=[7, 8] * 20).reader(None, None, pc.field("x") == 3)
    found = scan(GOOD, versions=[7, 8, 8, 7, 7, 7]).reader(["x"], None, pc.field("x") == 3)
    assert found.read_all()["x"].to_pylist() == [3]


def test_ranges():
    assert ranges_of([]) == []
    assert ranges_of([3]) == [(3, 1)]
    assert ranges_of([0, 1, 2, 5, 7, 8]) == [(0, 3), (5, 1), (7, 2)]
    assert ranges_of([0, 10, 12, 40], most=2) == [(0, 13), (40, 1)]
    assert ranges_of([0, 10, 12, 40], most=1) == [(0, 41)]
    many = ranges_of(range(0, 20_000, 2))
    assert len(many) == 4096
    assert {place for first, count in many for place in range(first, first + count)} >= set(range(0, 20_000, 2))


def test_groups_of_batches_give_the_same_batches():
    random.seed(4)
    n = 2000
    low = [random.randrange(1000) for _ in range(n)]
    high = [one + random.randrange(20) for one in low]
    nulls = [random.choice([0, 0, 5, 10]) for _ in range(n)]
    rows = [random.choice([0, 10, 10]) for _ in range(n)]
    known = _batch_statistics.BatchStatistics(
        1,
        rows,
        frozenset("x"),
        {
            "x": _batch_statistics.ColumnStatistics(
                [min(a, b) for a, b in zip(nulls, rows, strict=True)],
                pa.array([None if i % 50 == 0 or nulls[i] == 10 else one for i, one in enumerate(low)], pa.int64()),
                pa.array([None if i % 50 == 0 or nulls[i] == 10 else one for i, one in enumerate(high)], pa.int64()),
            )
        },
    )
    for value in range(0, 1020, 60):
        found = _batch_statistics.matching_batches(known, TABLE.schema, pc.field("x") == value)
        bounds = known.columns["x"]
        wanted = [
            i
            for i in range(n)
            if rows[i] > bounds.nulls[i] and (bounds.min[i].as_py() is None or low[i] <= value <= high[i])
        ]
        assert found == wanted


def test_ten_thousand_batches():
    table = pa.table({"x": range(40_000)})
    with xd.serve({"t": table.to_batches(max_chunksize=4)}) as server, xd.connect(server.uri) as client:
        for value in (0, 17_777, 39_999):
            found = client.table("t").filter(pc.field("x") == value).to_arrow()
            assert found["x"].to_pylist() == [value]
        odd = client.table("t").filter(pc.field("x").isin(pa.array(range(0, 40_000, 16)))).to_arrow()
        assert odd["x"].to_pylist() == list(range(0, 40_000, 16))
