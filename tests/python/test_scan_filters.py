"""Filters of tables: the statistics of the batches decide what is sent, and what comes out is exact."""

from __future__ import annotations

import datetime
import decimal
import math
import random
import threading

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import crossdock as xd

N, EACH = 100, 1000
"""Batches, and the rows of each."""

CLUSTERED = pa.table(
    {
        "x": pa.array(range(N * EACH), pa.int64()),
        "y": np.random.default_rng(1).random(N * EACH),
        "s": [f"key {i // EACH:04}" for i in range(N * EACH)],
        "payload": [f"{i:>20}" for i in range(N * EACH)],
    }
)


def in_batches(table: pa.Table, each: int) -> list[pa.RecordBatch]:
    """The table in batches of so many rows."""
    return table.combine_chunks().to_batches(max_chunksize=each)


def sent(server: xd.Server) -> tuple[int, int]:
    """The batches and the bytes of columns that were sent so far, over all connections."""
    consumers = server.stats()["consumers"]
    return sum(one["batches"] for one in consumers), sum(one["bytes"] for one in consumers)


class Counted:
    """Counts what a server sends in a block."""

    def __init__(self, server: xd.Server) -> None:
        self._server = server

    def __enter__(self) -> Counted:
        self._before = sent(self._server)
        return self

    def __exit__(self, *_: object) -> None:
        self.batches, self.bytes = (now - then for now, then in zip(sent(self._server), self._before, strict=True))


@pytest.fixture(params=["tcp", "shm"])
def server(request):
    with xd.serve(
        {"t": in_batches(CLUSTERED, EACH)}, {"shm": "shm:", "tcp": "tcp://127.0.0.1:0"}[request.param]
    ) as server:
        yield server


@pytest.fixture
def client(server):
    with xd.connect(server.uri) as client:
        yield client


def test_one_percent_of_clustered_rows_costs_few_bytes(server, client):
    """A filter that keeps 1 % of the rows: at most 5 % of the bytes, statistics and all."""
    whole = server.stats()["sources"][0]["bytes"]
    for handle in (client.table("t"), client.table("t")):  # the statistics are computed for the first
        with Counted(server) as counted:
            read = handle.filter((pc.field("x") >= 50_000) & (pc.field("x") < 51_000)).to_arrow()
        assert read.equals(CLUSTERED.slice(50_000, 1000))
        assert counted.bytes <= 0.05 * whole
    with Counted(server) as counted:  # and so by a text
        assert client.table("t").filter([("s", "==", "key 0042")]).to_arrow().equals(CLUSTERED.slice(42_000, 1000))
    assert counted.bytes <= 0.05 * whole


def test_what_is_known_is_kept(server, client):
    handle = client.table("t")
    for number in range(3):
        with Counted(server) as counted:
            assert handle.filter([("x", "=", 7000 + number)]).num_rows == 1
        assert counted.batches == (2 if number == 0 else 1)


def test_every_way_to_read_it_is_exact(client):
    handle = client.table("t", ["y", "s"]).filter((pc.field("x") >= 1500) & (pc.field("x") < 2500))
    wanted = CLUSTERED.slice(1500, 1000).select(["y", "s"])
    assert handle.to_arrow().equals(wanted)
    assert pa.table(handle).equals(wanted)
    assert pa.table(handle.get()).equals(wanted)
    assert sum(len(batch) for batch in handle) == 1000
    assert handle.to_pandas(numpy=True).equals(wanted.to_pandas())
    assert handle.to_polars().equals(pl.from_arrow(wanted))
    assert duckdb.sql("select count(*), sum(y) from handle").fetchall()[0][0] == 1000
    assert handle.num_rows == 1000
    assert handle.columns == ["y", "s"]
    assert pa.schema(handle.schema) == wanted.schema
    assert "filter=((x >= 1500) and (x < 2500))" in repr(handle)


def test_filters_add_up_and_keep_rows_and_columns(client):
    handle = client.table("t", rows=range(1200, 5000)).filter(pc.field("x") < 1300).filter([("x", "not in", [1250])])
    assert handle.select(["x"]).to_arrow()["x"].to_pylist() == [*range(1200, 1250), *range(1251, 1300)]
    assert client.table("t", rows=range(1200, 5000)).filter(pc.field("x") < 100).num_rows == 0
    either = client.table("t").filter([[("x", "<", 3)], [("x", ">=", N * EACH - 2)]])
    assert either.select(["x"]).to_arrow()["x"].to_pylist() == [0, 1, 2, N * EACH - 2, N * EACH - 1]


def test_a_filter_that_nothing_matches_sends_nothing(server, client):
    handle = client.table("t").filter(pc.field("x") < 0)
    with Counted(server) as counted:
        read = handle.to_arrow()
    assert read.num_rows == 0
    assert read.schema == CLUSTERED.schema
    assert counted.batches == 1, "the statistics"


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        (pc.field("absent") > 5, "No match for FieldRef.Name(absent)"),
        (pc.field("x") > "text", "input types"),
        (pc.field("s") > 5, "input types"),
        (pc.field(0) > 5, "by its position"),
        (pc.field("x") + 1, "bool"),
        (pc.field("x", "inner") > 5, "isn't for this table"),
    ],
)
def test_a_filter_that_isnt_one_for_the_table(client, expression, says):
    handle = client.table("t").filter(expression)
    for read in (handle.to_arrow, handle.get, lambda: handle.num_rows):
        with pytest.raises(xd.InvalidArgumentError) as error:
            read()
        assert says in str(error.value)


@pytest.mark.parametrize("given", [[("x", "like", 5)], [("x",)], [("x", ">", 5, 6)], []])
def test_tuples_that_are_no_filter(client, given):
    with pytest.raises(xd.InvalidArgumentError, match="isn't a list of tuples"):
        client.table("t").filter(given)


@pytest.mark.parametrize("given", ["x > 5", 5, None, {"x": 5}])
def test_what_is_no_filter(client, given):
    with pytest.raises(TypeError, match="a filter must be an expression"):
        client.table("t").filter(given)


# ---- types and values ------------------------------------------------------------------------------------------------

UTC = datetime.UTC
TYPES = {
    "int8": (pa.int8(), lambda i: i - 100),
    "uint64": (pa.uint64(), lambda i: 2**64 - 1 - i),
    "float32": (pa.float32(), lambda i: i / 4 - 20),
    "float64": (pa.float64(), lambda i: (-1) ** i * i),
    "decimal128": (pa.decimal128(20, 3), lambda i: decimal.Decimal(i - 50) / 8),
    "decimal256": (pa.decimal256(50, 2), lambda i: decimal.Decimal((i - 50) * 10**40)),
    "decimal32": (pa.decimal32(6, 1), lambda i: decimal.Decimal(i) / 2),
    "date": (pa.date32(), lambda i: datetime.date(1960, 1, 1) + datetime.timedelta(days=100 * i)),
    "time": (pa.time64("us"), lambda i: datetime.time(i % 24, i % 60)),
    "timestamp": (pa.timestamp("ns"), lambda i: np.datetime64(10**9 * (i - 50), "ns")),
    "zoned": (pa.timestamp("us", "Europe/Rome"), lambda i: datetime.datetime(2020, 1, 1 + i % 28, i % 24, tzinfo=UTC)),
    "duration": (pa.duration("ms"), lambda i: datetime.timedelta(hours=i - 50)),
    "string": (pa.string(), lambda i: "ä" * (i % 50) + str(i)),
    "large_string": (pa.large_string(), lambda i: f"{i:03}"),
    "string_view": (pa.string_view(), lambda i: f"{i:03} which is a long one"),
    "binary": (pa.binary(), lambda i: bytes([255] * (i % 60)) + bytes([i])),
    "large_binary": (pa.large_binary(), lambda i: bytes([i])),
    "bool": (pa.bool_(), lambda i: i > 60),
}


def column_of(kind: str, nulls: bool) -> pa.Array:
    of_type, make = TYPES[kind]
    values = [make(i) for i in range(120)]
    return pa.array([None if nulls and (i % 10 == 3 or 40 <= i < 60) else v for i, v in enumerate(values)], of_type)


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("kind", TYPES)
def test_no_row_is_lost(kind, nulls):
    """For values of each type, in batches of all kinds, the filter returns what pyarrow returns of the whole table."""
    table = pa.table({"v": column_of(kind, nulls), "i": range(120)})
    field = pc.field("v")
    chosen = [table["v"][i] for i in (0, 5, 45, 60, 119) if table["v"][i].is_valid]
    own = table.schema
    if kind == "string_view":  # which pyarrow itself can't filter
        chosen = [value.as_py() for value in chosen]
        table = table.cast(pa.schema({"v": pa.large_string(), "i": pa.int64()}))
    with xd.serve({"t": in_batches(table.cast(own), 10)}) as server, xd.connect(server.uri) as client:
        handle = client.table("t")
        for value in chosen:
            for expression in (field == value, field != value, field < value, field >= value, ~(field > value)):
                try:
                    wanted = table.filter(expression).cast(own)
                except pa.ArrowNotImplementedError:  # pyarrow doesn't compare values of this type
                    continue
                assert handle.filter(expression).to_arrow().combine_chunks().equals(wanted.combine_chunks()), expression
        for expression in (field.is_null(), field.is_valid(), field.is_null() | (pc.field("i") > 115)):
            wanted = table.filter(expression).cast(own)
            assert handle.filter(expression).to_arrow().combine_chunks().equals(wanted.combine_chunks())


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind not in ("binary", "string", "time", "decimal32")])
def test_batches_are_left_out_for_each_type(kind):
    of_type, make = TYPES[kind]
    values = sorted(make(i) for i in range(120))
    table = pa.table({"v": pa.array(values, of_type)})
    with xd.serve({"t": in_batches(table, 10)}) as server, xd.connect(server.uri) as client:
        with Counted(server) as counted:
            least = table["v"][119].as_py() if kind == "string_view" else table["v"][119]
            read = client.table("t").filter(pc.field("v") >= least).to_arrow()
        assert read.num_rows >= 1
        assert counted.batches <= 1 + (6 if kind == "bool" else 2)


def test_nan_and_zeros():
    nan, inf = math.nan, math.inf
    groups = [[1.0, 2.0], [nan, 1.5], [nan, nan], [0.0], [-0.0], [None, nan], [None, None], [-inf, inf], [3.0, None]]
    batches = [
        pa.record_batch({"v": pa.array(group, pa.float64()), "g": [i] * len(group)}) for i, group in enumerate(groups)
    ]
    table = pa.Table.from_batches(batches)
    v = pc.field("v")
    expressions = [v > 1, v < 1, ~(v > 1), ~(v <= 100), v == 0.0, v == -0.0, v != 0.0, v >= -0.0, v > 0.0, pc.is_nan(v)]
    expressions += [v.is_null(), v.is_null(nan_is_null=True), v == nan, v != nan, v < inf, v >= inf, v.isin([0.0, 3.0])]
    with xd.serve({"t": table}) as server, xd.connect(server.uri) as client:
        for expression in expressions:
            read, wanted = client.table("t").filter(expression).to_arrow(), table.filter(expression)
            assert str(read.to_pylist()) == str(wanted.to_pylist()), expression


def test_long_texts_have_short_bounds():
    texts = ["a" * 10_000, "a" * 10_000 + "b", "\U0010ffff" * 100, "m" * 31 + "ä" * 100, "", "é" * 16, "é" * 17]
    table = pa.table({"v": texts, "w": [text.encode() for text in texts]})
    with xd.serve({"t": in_batches(table, 1)}) as server, xd.connect(server.uri) as client:
        for text in texts:
            for value, name in ((text, "v"), (text.encode(), "w")):
                for expression in (pc.field(name) == value, pc.field(name) > value, pc.field(name) <= value):
                    assert client.table("t").filter(expression).to_arrow().equals(table.filter(expression))
        statistics = pa.table(client._native.batch_statistics(b"t", ["v", "w"], -1))
        assert max(len(text or "") for text in statistics["0.max"].to_pylist()) <= 32
        assert statistics["0.max"].to_pylist()[2] is None
        assert statistics["0.max"].to_pylist()[0] == "a" * 31 + "b"


def test_columns_without_statistics_are_filtered_all_the_same():
    table = pa.table(
        {
            "dictionary": pa.array(["a", "b", "c", "a"] * 25).dictionary_encode(),
            "nested": [{"i": i} for i in range(100)],
            "list": [[i] for i in range(100)],
            "null": pa.nulls(100),
            "half": pa.array(np.arange(100, dtype=np.float16)),
            "x": range(100),
        }
    )
    with xd.serve({"t": in_batches(table, 10)}) as server, xd.connect(server.uri) as client:
        for expression in (pc.field("dictionary") == "b", pc.field("nested", "i") > 90, pc.field("null").is_null()):
            assert (
                client.table("t")
                .filter(expression)
                .to_arrow()
                .combine_chunks()
                .equals(table.filter(expression).combine_chunks())
            )
        with Counted(server) as counted:
            both = client.table("t").filter((pc.field("dictionary") == "b") & (pc.field("x") > 85)).to_arrow()
        assert both["x"].to_pylist() == [89, 93, 97]
        assert counted.batches == 4, "statistics, a dictionary, and two batches"
        statistics = pa.table(
            client._native.batch_statistics(b"t", ["dictionary", "nested", "null", "half", "absent", "x"], -1)
        )
        assert statistics.column_names == ["rows", "5.nulls", "5.min", "5.max"]


def test_dictionaries_come_with_their_batches(tmp_path):
    """Each batch has another dictionary, and a file has deltas: what isn't requested may be left out."""
    batches = [pa.record_batch({"d": pa.array([f"{i}", "x"]).dictionary_encode(), "i": [i, i]}) for i in range(20)]
    table = pa.Table.from_batches(batches)
    path = tmp_path / "deltas.arrows"
    growing, values = [], []
    for i in range(20):
        values.append(f"value {i}")
        column = pa.DictionaryArray.from_arrays(pa.array([i, 0], pa.int32()), pa.array(values))
        growing.append(pa.record_batch({"d": column, "i": [i, i]}))
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(path, growing[0].schema, options=options) as writer:
        for batch in growing:
            writer.write_batch(batch)
    nested = pa.record_batch({"n": pa.array([["a"], ["b"]]), "i": [0, 1]})
    with xd.serve({"t": table, "deltas": path, "nested": nested}) as server, xd.connect(server.uri) as client:
        for name, whole in (("t", table), ("deltas", pa.Table.from_batches(growing))):
            for place in (0, 7, 19):
                read = client.table(name).filter(pc.field("i") == place).to_arrow()
                assert read.to_pylist() == whole.slice(2 * place, 2).to_pylist()
            assert client.table(name, rows=range(11, 23)).to_arrow().to_pylist() == whole.slice(11, 12).to_pylist()


def test_ambiguous_names():
    table = pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4]), pa.array([5, 6])], ["a", "a", "b"])
    with xd.serve({"t": table}) as server, xd.connect(server.uri) as client:
        assert client.table("t", ["b"]).filter(pc.field("b") > 5).to_arrow()["b"].to_pylist() == [6]
        with pytest.raises(xd.InvalidArgumentError, match="Multiple matches"):
            client.table("t").filter(pc.field("a") > 5).to_arrow()
        with pytest.raises(xd.InvalidArgumentError, match="several columns of the table have one name"):
            client.table("t").filter(pc.field("b") > 5).to_arrow()


def test_odd_names():
    names = ["", "a.b", "x", "xx", '"', "FieldPath(0)", "naïve", "new\nline", "x > 5"]
    table = pa.table({name: range(i, i + 10) for i, name in enumerate(names)})
    with xd.serve({"t": in_batches(table, 2)}) as server, xd.connect(server.uri) as client:
        for name in names:
            if name == "FieldPath(0)":
                continue  # taken for a position
            with Counted(server) as counted:
                read = client.table("t", ["x"]).filter(pc.field(name) > table[name][8].as_py()).to_arrow()
            assert read["x"].to_pylist() == [table["x"][9].as_py()], name
            assert counted.batches == 2, name


@pytest.mark.long
def test_random_filters_find_what_pyarrow_finds():
    random.seed(5)
    rows = 3000
    table = pa.table(
        {
            "a": [None if random.random() < 0.1 else i // 7 + random.randrange(10) for i in range(rows)],
            "b": [None if random.random() < 0.3 else random.choice(["x", "y", f"{i // 300}"]) for i in range(rows)],
            "c": [math.nan if random.random() < 0.001 else i / 3 for i in range(rows)],
        }
    )

    def leaf() -> pc.Expression:
        name = random.choice("abc")
        value = {"a": random.randrange(-5, 450), "b": str(random.randrange(12)), "c": random.random() * 1000}[name]
        field = pc.field(name)
        return random.choice(
            [field < value, field <= value, field == value, field != value, field > value, field.is_null(),
             field.is_valid(), field.isin([value]), pc.if_else(field > value, True, False)]
        )  # fmt: skip

    def tree(depth: int) -> pc.Expression:
        if depth == 0:
            return leaf()
        one, other = tree(depth - 1), tree(depth - 1)
        return random.choice([one & other, one | other, ~one])

    # 600 batches are more than the few that are looked at one by one.
    with xd.serve({"t": in_batches(table, 5)}) as server, xd.connect(server.uri) as client:
        handle = client.table("t")
        for _ in range(150):
            expression = tree(random.randrange(4))
            wanted = table.filter(expression)
            assert str(handle.filter(expression).to_arrow().to_pylist()) == str(wanted.to_pylist()), expression


# ---- sources ---------------------------------------------------------------------------------------------------------


def test_files(tmp_path):
    path = tmp_path / "t.arrow"
    with pa.ipc.new_file(path, CLUSTERED.schema) as writer:
        for batch in in_batches(CLUSTERED, EACH):
            writer.write_batch(batch)
    for stable in ("trust", "snapshot"):
        with xd.serve({"t": path}, stable=stable) as server, xd.connect(server.uri) as client:
            for expression in (pc.field("x") == 77_777, pc.field("payload") == f"{77_777:>20}"):
                with Counted(server) as counted:
                    read = client.table("t").filter(expression).to_arrow()
                assert read.equals(CLUSTERED.slice(77_777, 1))
                assert counted.batches == 2


def test_a_file_that_was_truncated_is_an_error(tmp_path):
    path = tmp_path / "t.arrow"
    with pa.ipc.new_file(path, CLUSTERED.schema) as writer:
        for batch in in_batches(CLUSTERED, EACH):
            writer.write_batch(batch)
    with xd.serve({"t": path}) as server, xd.connect(server.uri) as client:
        handle = client.table("t")
        assert handle.schema
        with open(path, "r+b") as file:
            file.truncate(path.stat().st_size // 2)
        with pytest.raises(xd.FileChangedError):
            handle.filter(pc.field("y") > 5).to_arrow()


def test_memory_of_a_device(simulated_devices):
    """There are no statistics of it, so that all batches come; the rows are right, there and on the host."""
    batches = [xd.RecordBatch(batch).to("sim:1") for batch in in_batches(CLUSTERED.slice(0, 5000), EACH)]
    with xd.serve({"t": batches}) as server, xd.connect(server.uri) as client:
        found = client.table("t").filter(pc.field("x") == 3210).to_arrow()
        assert found.equals(CLUSTERED.slice(3210, 1))
        assert client.table("t", rows=range(2900, 3100)).to_arrow().equals(CLUSTERED.slice(2900, 200))
        there = list(client.get("t", device="sim:1", rows=range(2900, 3100)))
        assert [batch.device for batch in there] == ["sim:1"] * 2
        here = pa.Table.from_batches([pa.record_batch(batch.to("cpu")) for batch in there])
        assert here.equals(CLUSTERED.slice(2900, 200))
        statistics = pa.table(client._native.batch_statistics(b"t", ["x"], -1))
        assert statistics.column_names == ["rows"]
        assert statistics["rows"].to_pylist() == [EACH] * 5


def test_live_streams_and_tensors_say_so(server, client):
    server.publish("live", lambda: CLUSTERED.to_reader())
    server.publish("tensor", np.arange(3))
    for name, says in (("live", "live stream, or a callable"), ("tensor", "tensors")):
        handle = client.table(name).filter(pc.field("x") > 5)
        with pytest.raises(xd.UnsupportedError, match=says):
            handle.to_arrow()
        with pytest.raises(xd.UnsupportedError, match=says):
            handle.to_dataset()
    server.withdraw("live")
    server.withdraw("tensor")


def test_a_relay_answers_from_what_it_holds():
    with (
        xd.serve({"t": in_batches(CLUSTERED, EACH)}, "tcp://127.0.0.1:0") as source,
        xd.relay(source.uri) as relay,
        xd.connect(relay.uri) as client,
    ):
        for _ in range(2):
            read = client.table("t").filter(pc.field("x") == 5).to_arrow()
            assert read.equals(CLUSTERED.slice(5, 1))
        assert relay.stats()["fetches"] == 1
        assert sum(one["batches"] for one in relay.stats()["consumers"]) == 4


def test_two_connections(server):
    with xd.connect(metadata=server.uri, data=server.uri) as client:
        assert client.table("t").filter(pc.field("x") == 5).to_arrow().equals(CLUSTERED.slice(5, 1))


def test_flight():
    with xd.serve({"t": in_batches(CLUSTERED, EACH)}, flight="grpc://127.0.0.1:0") as server:
        with xd.connect(server.flight_uri) as client:
            assert client.table("t").filter(pc.field("x") == 5).to_arrow().equals(CLUSTERED.slice(5, 1))
        with Counted(server) as counted, xd.connect(server.flight_uri) as client:
            assert client.table("t").filter(pc.field("x") == 5).num_rows == 1
        assert counted.batches <= 3


def test_a_table_that_is_replaced_is_read_as_one_version(server, client):
    stop = threading.Event()

    def replace() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            table = pa.table({"v": [number] * 100, "k": [(i + number) % 100 for i in range(100)]})
            server.publish("moving", in_batches(table, 1 + number % 30), replace=True)

    server.publish("moving", pa.table({"v": [0] * 100, "k": range(100)}))
    thread = threading.Thread(target=replace)
    thread.start()
    try:
        handle = client.table("moving").filter((pc.field("k") >= 20) & (pc.field("k") < 30))
        versions = set()
        for _ in range(100):
            try:
                read = handle.to_arrow()
            except xd.TimeoutError:  # it was replaced 8 times
                continue
            assert sorted(read["k"].to_pylist()) == list(range(20, 30))
            versions.add(*set(read["v"].to_pylist()))
        assert len(versions) > 1
    finally:
        stop.set()
        thread.join()
        server.withdraw("moving")


# ---- datasets and lazy frames ----------------------------------------------------------------------------------------


def test_duckdb_pushes_down_into_a_dataset(server, client):
    t = client.table("t").to_dataset()  # noqa: F841
    assert duckdb.sql("select count(*) from t").fetchall() == [(N * EACH,)]
    with Counted(server) as counted:
        rows = duckdb.sql(
            "select s, count(*), sum(x) from t where x between 41500 and 42499 group by s order by s"
        ).fetchall()
    assert rows == [("key 0041", 500, sum(range(41500, 42000))), ("key 0042", 500, sum(range(42000, 42500)))]
    assert counted.batches <= 3
    assert duckdb.sql("select max(y) from t").fetchall() == [(max(CLUSTERED["y"].to_pylist()),)]
    assert duckdb.sql("select a.x from t a join t b on a.x = b.x + 1 where a.x < 3 order by 1").fetchall() == [
        (1,),
        (2,),
    ]
    part = client.table("t", ["x"], rows=range(10, 90)).filter(pc.field("x") > 15).to_dataset()  # noqa: F841
    assert duckdb.sql("select min(x), max(x), count(*) from part where x < 50").fetchall() == [(16, 49, 34)]


def test_a_dataset_is_one_of_pyarrows(client):
    dataset = client.table("t").to_dataset()
    assert isinstance(dataset, ds.Dataset)
    assert dataset.schema == CLUSTERED.schema
    some = pc.field("x") < 10
    assert dataset.to_table(filter=some).equals(CLUSTERED.slice(0, 10))
    assert dataset.to_table(columns=["s", "x"], filter=some).equals(CLUSTERED.slice(0, 10).select(["s", "x"]))
    doubled = dataset.to_table(columns={"twice": pc.field("x") * 2}, filter=some)
    assert doubled["twice"].to_pylist() == [2 * i for i in range(10)]
    assert dataset.count_rows(filter=some) == 10
    assert dataset.head(5, columns=["x"])["x"].to_pylist() == [0, 1, 2, 3, 4]
    assert sum(batch.num_rows for batch in dataset.to_batches(columns=["x"])) == N * EACH
    assert dataset.filter(some).filter(pc.field("x") > 7).to_table(columns=["x"])["x"].to_pylist() == [8, 9]
    assert dataset.scanner(columns=["x"], filter=some).to_reader().read_all()["x"].to_pylist() == list(range(10))


def test_what_a_dataset_cant_do_is_an_error(client, tmp_path):
    import pickle

    dataset = client.table("t").to_dataset()
    with pytest.raises(NotImplementedError, match=r"scanner\(\) reads it"):
        dataset.get_fragments()
    with pytest.raises(NotImplementedError, match="schema of its server's table"):
        dataset.replace_schema(dataset.schema)
    with pytest.raises(TypeError, match="can't be pickled"):
        pickle.dumps(dataset)
    with pytest.raises(FileNotFoundError, match=r"scanner\(\) of its dataset"):
        ds.Scanner.from_dataset(dataset).to_table()
    with pytest.raises(xd.InvalidArgumentError, match="absent"):
        dataset.to_table(filter=pc.field("absent") > 5)
    ds.write_dataset(dataset, tmp_path / "written", format="ipc")
    assert ds.dataset(tmp_path / "written", format="ipc").count_rows() == N * EACH


def test_polars_pushes_down_into_a_lazy_frame(server, client):
    lazy = client.table("t").to_lazy()
    assert lazy.collect_schema() == pl.from_arrow(CLUSTERED).schema
    with Counted(server) as counted:
        read = lazy.filter((pl.col("x") >= 41_500) & (pl.col("x") < 42_500)).select("s", "y").collect()
    assert read.equals(pl.from_arrow(CLUSTERED.slice(41_500, 1000)).select("s", "y"))
    assert counted.batches <= 3
    with Counted(server) as counted:
        assert lazy.filter(pl.col("s") == "key 0099").select(pl.len()).collect().item() == EACH
    assert counted.batches <= 2
    assert lazy.select("x").head(5).collect()["x"].to_list() == [0, 1, 2, 3, 4]
    assert lazy.filter(pl.col("x") % 1000 == 7).head(3).collect()["x"].to_list() == [7, 1007, 2007]
    assert lazy.select(pl.col("y").max()).collect().item() == max(CLUSTERED["y"].to_pylist())
    assert lazy.collect().equals(pl.from_arrow(CLUSTERED))
    part = client.table("t", ["x"], rows=range(10, 90)).filter(pc.field("x") > 15).to_lazy()
    assert part.filter(pl.col("x") < 50).select(pl.len()).collect().item() == 34


def test_polars_rules_for_nan_hold():
    groups = [[1.0, 2.0], [math.nan, 1.5], [None, 0.5], [-0.0]]
    table = pa.Table.from_batches([pa.record_batch({"v": pa.array(group, pa.float64())}) for group in groups])
    frame = pl.from_arrow(table)
    v = pl.col("v")
    predicates = [v > 1, v < 1, v == 0.0, v == math.nan, v < math.nan, v > math.nan, v.is_nan(), v.is_null(),
                  v.is_in([0.5, math.nan]), ~(v > 1), v.eq_missing(None), v.is_between(0.5, 1.5)]  # fmt: skip
    with xd.serve({"t": table}) as server, xd.connect(server.uri) as client:
        for predicate in predicates:
            assert client.table("t").to_lazy().filter(predicate).collect().equals(frame.filter(predicate)), predicate


def test_asking_for_the_schema_uses_up_no_request(server, client):
    server.publish("once", pa.table({"n": [1, 2, 3]}), times=1)
    table = client.table("once")
    assert table.schema.names == table.select(["n"]).schema.names == table.to_dataset().schema.names == ["n"]
    assert {one["name"]: one["streams"] for one in server.stats()["sources"]}["once"] == 0
    assert table.filter([("n", "==", 2)]).to_arrow().num_rows == 1
    with pytest.raises(xd.NotFoundError):
        client.get("once")


@pytest.mark.long
def test_more_columns_than_the_server_has_room_for():
    """Filters on one column after another: earlier ones are left out of a request that would be too large."""
    names = [f"c{i}" for i in range(6)]
    rows = 200_000
    batch = pa.record_batch({name: [1] for name in names})
    with xd.serve({"t": [batch] * rows}) as server, xd.connect(server.uri) as client:
        table = client.table("t")
        for name in names:  # six columns of 200,000 batches are more than a million entries
            assert table.filter([(name, "==", 2)]).to_arrow().num_rows == 0


@pytest.mark.parametrize(
    "expression",
    [
        ~(pc.field("x") < math.nan),
        ~(pc.field("x") <= math.nan),
        (pc.field("x") < math.nan) == False,  # noqa: E712
        ~(pc.scalar(math.nan) > pc.field("x")),
        ~(pc.field("x") < pc.divide(pc.scalar(0.0), pc.scalar(0.0))),
        ~pc.field("x").isin([math.nan]),
        pc.if_else(pc.field("x") < math.nan, False, True),
    ],
)
def test_comparisons_with_nan_lose_no_rows(server, client, expression):
    """pyarrow takes them for comparisons with a number, when it decides what can match."""
    table = pa.table({"x": [1.0, 2.0, 3.0], "n": [1, 2, 3]})
    server.publish("floats", table)
    assert client.table("floats").filter(expression).to_arrow() == table.filter(expression)


def test_a_handle_follows_the_columns_of_its_table(server, client):
    server.publish("follows", pa.table({"x": [1, 2, 3]}))
    handle = client.table("follows")
    assert handle.filter(pc.field("x") > 1).to_arrow().num_rows == 2
    dataset = handle.to_dataset()
    server.publish("follows", pa.table({"x": ["a", "b", "c"], "new": [1, 2, 3]}), replace=True)
    assert handle.filter(pc.field("new") > 1).to_arrow().num_rows == 2
    assert handle.filter(pc.field("x") > "a").to_arrow().num_rows == 2
    assert dataset.to_table().column_names == ["x"]


def test_columns_of_extension_types(server, client):
    table = pa.table({"c": pa.array(["1", None, "3"], pa.json_()), "n": [1, 2, 3]})
    server.publish("extended", table)
    assert client.table("extended").filter(pc.field("c").is_valid()).to_arrow()["n"].to_pylist() == [1, 3]
    assert client.table("extended").filter(pc.field("n") > 2).to_arrow()["c"].to_pylist() == ["3"]
