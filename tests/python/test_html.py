"""What notebooks show: `_repr_html_()`."""

from __future__ import annotations

import datetime
import decimal
import re
import subprocess
import sys
import textwrap
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crossdock as xd
from crossdock import _html
from crossdock.testing import simulated_devices

HOSTILE = "<script>alert('x')</script>\"&\u202e\x1b[31m\n"


class Page(HTMLParser):
    """The texts and tags of a page. Fails for a tag or an attribute that isn't ours, and for one that isn't closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.cells: list[list[str]] = []
        self.text = ""
        self.open: list[str] = []
        assert len(html) < 300_000
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("div", "table", "thead", "tbody", "tr", "th", "td", "b", "span", "br"), tag
        assert [name for name, _ in attrs] in ([], ["style"])
        if tag != "br":
            self.open.append(tag)
        if tag == "tr":
            self.cells.append([])
        if tag in ("th", "td"):
            self.cells[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        assert data.isprintable()
        self.text += data
        if "th" in self.open or "td" in self.open:
            self.cells[-1][-1] += data


def page(thing: Any) -> Page:
    return Page(thing._repr_html_())


def test_a_batch_shows_its_first_rows():
    batch = xd.RecordBatch(pa.record_batch({"n": pa.array(range(1000), pa.int32()), "s": [None, "b"] * 500}))
    shown = page(batch)
    assert shown.text.startswith("crossdock.RecordBatch 1,000 rows, 2 columns, ")
    assert shown.cells[0] == ["nint32", "sutf8"]
    assert shown.cells[1:3] == [["0", "null"], ["1", "b"]]
    assert len(shown.cells) == 11
    assert shown.text.endswith("and 990 rows more")


def test_a_batch_of_many_columns_shows_the_first():
    shown = page(xd.RecordBatch(pa.record_batch({f"c{i}": [i] for i in range(3000)})))
    assert shown.cells[0] == [f"c{i}int64" for i in range(20)]
    assert shown.cells[1] == [str(i) for i in range(20)]
    assert shown.text.endswith("and 2,980 columns more")
    schema = page(xd.RecordBatch(pa.record_batch({f"c{i}": [i] for i in range(3000)})).schema)
    assert schema.cells[:2] == [["column", "type"], ["c0", "int64"]]
    assert len(schema.cells) == 51
    assert schema.text.endswith("and 2,950 columns more")


def test_without_rows_and_without_columns():
    assert page(xd.RecordBatch(pa.record_batch({"a": pa.array([], pa.int8())}))).cells == [["aint8"]]
    none = pa.record_batch([pa.array([{}, {}], pa.struct([]))], ["a"])
    assert page(xd.RecordBatch(none)).cells[1] == ["{}"]
    empty = xd.RecordBatch(pa.RecordBatch.from_struct_array(none.column(0)))
    assert page(empty).text.startswith("crossdock.RecordBatch 2 rows, 0 columns")
    assert page(empty.schema).text.startswith("crossdock.Schema 0 columns")


VALUES: list[tuple[pa.Array, str]] = [
    (pa.array([1.5]), "1.5"),
    (pa.array([b"\xff" * 1_000_000]), "0x" + "f" * 38 + "…"),
    (pa.array([True]), "True"),
    (pa.array([decimal.Decimal("1.50")]), "1.50"),
    (pa.array([datetime.date(2026, 1, 2)]), "2026-01-02"),
    (pa.array([1 << 62], pa.timestamp("s")), str(1 << 62)),
    (pa.array([0], pa.timestamp("s", tz="Nowhere/At_all")), "1970-01-01 00:00:00+00:00"),
    (pa.array([b"\0\xff"]), "0x00ff"),
    (pa.array([b"abc"], pa.binary(3)), "0x616263"),
    (pa.array(["text"], pa.large_string()), "text"),
    (pa.array(["text"], pa.string_view()), "text"),
    (pa.array(["é" * 1_000_000]), "é" * 40 + "…"),
    (pa.array([[1, None]]), "[1, null]"),
    (pa.array([[*range(1_000_000)]]), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12…"[:40] + "…"),
    (pa.array([[[[[1]]]]]), "[[[…]]]"),
    (pa.array([[1, 2]], pa.list_(pa.int8(), 2)), "[1, 2]"),
    (pa.array([[1]], pa.large_list(pa.int8())), "[1]"),
    (pa.array([[1]], pa.list_view(pa.int8())), "[1]"),
    (pa.array([[1]], pa.large_list_view(pa.int8())), "[1]"),
    (pa.array([[None]], pa.list_(pa.null())), "[null]"),
    (pa.array([b"ab"], pa.binary_view()), "0x6162"),
    (pa.array([pa.MonthDayNano([1, 2, 3])]), "(1, 2, 3)"),
    (pa.array([datetime.time(1, 2)], pa.time64("ns")), "01:02:00"),
    (pa.array([1.5], pa.float16()), "1.5"),
    (pa.array([None], pa.dictionary(pa.int8(), pa.string())), "null"),
    (pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array(["u"])]), "u"),
    (pa.array([{"a": 1, "b": "x"}]), "{a: 1, b: x}"),
    (pa.array([{f"f{i}": i for i in range(100)}]), "{f0: 0, f1: 1, f2: 2, f3: 3, f4: 4, f5: 5, "[:40] + "…"),
    (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), "[(k, 1)]"),
    (pa.array(["x"]).dictionary_encode(), "x"),
    (pa.array([None], pa.null()), "null"),
    (pa.array([5], pa.duration("us")), "0:00:00.000005"),
    (pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([7])]), "7"),
    (pa.RunEndEncodedArray.from_arrays([1], ["run"]), "run"),
    (
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16))),
        "0x30303030303030303030303030303030",
    ),
]


@pytest.mark.parametrize(
    ("array", "text"), VALUES, ids=lambda value: str(value.type)[:30] if isinstance(value, pa.Array) else ""
)
def test_values(array, text):
    (row,) = page(xd.RecordBatch(pa.record_batch([array], ["c"]))).cells[1:]
    assert row[0] == text


def test_foreign_texts_are_escaped_and_cut():
    long = "x" * 1_000_000
    schema = pa.schema([
        (HOSTILE, pa.string()),
        (long, pa.timestamp("us", tz=HOSTILE)),
        ("s", pa.struct([(HOSTILE, pa.string()), (long, pa.string())])),
    ])  # fmt: skip
    row = {HOSTILE: HOSTILE, long: None, "s": {HOSTILE: HOSTILE, long: long}}
    batch = xd.RecordBatch(pa.RecordBatch.from_pylist([row], schema))
    for thing in (batch, batch.schema, xd.RecordBatchReader(batch)):
        shown = page(thing)
        assert "<script>alert('x')</script>\"&\\u202e\\" in shown.text
        assert "x" * 81 not in shown.text
        assert len(thing._repr_html_()) < 10_000


def test_names_that_arent_text():
    """As a peer may send them."""
    inner = pa.StructArray.from_arrays([pa.array([1], pa.int8())], fields=[pa.field(b"\xff", pa.int8())])
    schema = pa.schema([pa.field(b"\xfe<b>", inner.type), ("n", pa.int8())])
    batch = xd.RecordBatch(pa.RecordBatch.from_arrays([inner, pa.array([7], pa.int8())], schema=schema))
    assert page(batch).cells == [["\ufffd<b>struct", "nint8"], ["{\ufffd: 1}", "7"]]
    assert page(batch.schema).cells[1] == ["\ufffd<b>", "struct"]


def test_a_reader_isnt_consumed():
    reader = xd.RecordBatchReader(pa.table({"a": [1, 2]}))
    assert page(reader).text.startswith("crossdock.RecordBatchReader 1 column, open")
    assert pa.table(reader).num_rows == 2
    assert "exported" in page(reader).text
    assert page(reader).cells[1] == ["a", "int64"]
    reader = xd.RecordBatchReader(pa.table({"a": [1, 2]}))
    reader.close()
    assert "closed" in page(reader).text


def test_a_reader_of_a_server_says_where_it_reads():
    with xd.serve({"t": pa.table({"a": [1]})}) as server, xd.connect(server.uri) as client, client.get("t") as reader:
        assert f"from {server.uri}" in page(reader).text
        assert len(next(reader)) == 1


def test_a_file(tmp_path):
    path = tmp_path / "t.arrow"
    xd.write(pa.table({"a": [1, 2]}), path)
    with xd.open(path) as reader:
        assert page(reader).text.startswith("crossdock.FileReader 2 rows, 1 batch")
        assert page(reader).cells[1] == ["a", "int64"]
    assert page(reader).text == "crossdock.FileReader closed"


def test_a_tensor():
    tensor = xd.asarray(np.arange(6.0).reshape(2, 3))
    shown = page(tensor)
    assert shown.cells == [["shape", "(2, 3)"], ["dtype", "float64"], ["device", "cpu"], ["bytes", "48"]]
    assert ["strides", "(8, 24)"] in page(tensor.T).cells
    assert ["read-only", "yes"] in page(xd.asarray(b"ab")).cells
    fields = np.zeros(2, [(HOSTILE, "f4"), ("y" * 100_000, "f4")])
    assert ["dtype", "|V8"] in page(xd.asarray(fields)).cells


def test_memory_of_a_device_is_neither_read_nor_waited_for():
    batch = xd.RecordBatch(pa.record_batch({"a": [1, 2, 3]}))
    with simulated_devices(1, delay=0.2) as devices:
        queue = xd.Queue.new("sim:0")
        there = batch.to("sim:0", queue=queue)
        back = there.to("cpu", queue=queue)
        tensor = xd.asarray(np.arange(3.0)).to("sim:0", queue=queue)
        devices.reset_counters()
        assert "on ext_dev:0" in page(there).text
        for thing in (there, back):
            assert page(thing).cells == [["column", "type"], ["a", "int64"]], "no row: it would be waited for"
        assert ["device", "ext_dev:0"] in page(tensor).cells
        counters = devices.counters()
        assert counters["copy"] == counters["wait"] == 0
        for thing in (there, back, tensor):
            thing.wait()
        done = xd.RecordBatch(pa.record_batch(back))
        assert page(done).cells[1:] == [["1"], ["2"], ["3"]]


def test_a_table_asks_for_nothing():
    with xd.serve({"t": pa.table({"a": [1]})}) as server, xd.connect(server.uri) as client:
        table = client.table("t")
        assert page(table).text.startswith("crossdock.Table t, all columns")
        assert "to_pandas()" in page(table).text
        assert page(table.select(["a", HOSTILE])).cells[1] == ["a"]
        hostile = client.table(HOSTILE)
    assert "script" in page(hostile).text
    assert "all columns" in page(table).text, "the server is gone"


def test_a_server():
    with xd.serve({"t": pa.table({"a": [1, 2]}), HOSTILE: np.arange(3), b"\xff": np.arange(3)}) as server:
        shown = page(server)
        assert server.uri in shown.text
        assert shown.cells[0] == ["name", "kind", "rows", "bytes", "streams"]
        assert ["t", "table", "2", "16", "0"] in shown.cells
        assert any(row[0] == r"b'\xff'" for row in shown.cells)
        for number in range(60):
            server.publish(f"n{number}", np.arange(3))
        assert page(server).text.endswith("and 13 sources more")
    assert page(server).text == "crossdock.Server closed"


def test_a_report_of_the_checker():
    class Wrong:
        __array_interface__ = {"shape": [HOSTILE], "typestr": "<f4", "data": (1 << 12, False), "version": 3}  # noqa: RUF012

    report = xd.check(Wrong())
    shown = page(report)
    assert shown.text.startswith(
        "crossdock.check of test_a_report_of_the_checker.<locals>.Wrong: wrong, 1 error, of 1 rule"
    )
    assert shown.cells[1][:3] == ["error", "array-shape", "array-interface"]
    right = page(xd.check(np.arange(3)))
    assert "right, no findings" in right.text
    assert right.cells == []


def test_without_pyarrow(tmp_path):
    program = """
        import sys
        sys.modules["pyarrow"] = None
        import numpy as np
        import crossdock as xd
        batch = xd.RecordBatch(xd.asarray(np.arange(3)).to_arrow()) if len(sys.argv) > 9 else None
        with xd.open(sys.argv[1]) as reader:
            html = reader[0]._repr_html_()
        assert "int64" in html and "2 rows" in html, html
    """
    xd.write(pa.table({"a": [1, 2]}), tmp_path / "t.arrow")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "t.arrow")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_it_has_no_colours_and_asks_for_no_other_file():
    """So that it can be read on a dark page and on a light one."""
    html = xd.RecordBatch(pa.record_batch({"a": [1]}))._repr_html_() + xd.asarray(b"ab")._repr_html_()
    assert set(re.findall(r"(?<!-)color:([^;\"]*)", html)) == {"inherit"}
    assert not re.search(r"src=|href=|url\(|@import|<style", html)


def test_the_rows_can_be_replaced(monkeypatch):
    monkeypatch.setattr(_html, "_rows", lambda batch, columns, rows: [["<b>"]])
    assert page(xd.RecordBatch(pa.record_batch({"a": [1]}))).cells == [["aint64"], ["<b>"]]
