"""Arrow files: what we write is read by pyarrow, polars and nanoarrow, and what pyarrow writes by us."""

from __future__ import annotations

import struct
from pathlib import Path

import nanoarrow.ipc
import numpy as np
import polars
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.interop.every_type import VALUES, column

import crossdock as xd

CODECS = [None, "lz4", "zstd"]
FORMS = ["file", "stream"]


def pyarrow_write(path: Path, table: pa.Table, form: str, codec: str | None, **options) -> None:
    chosen = pa.ipc.IpcWriteOptions(compression=codec, **options)
    new = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
    with new(str(path), table.schema, options=chosen) as sink:
        sink.write_table(table)


def pyarrow_read(path: Path, form: str) -> pa.Table:
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source) if form == "file" else pa.ipc.open_stream(source)
        return reader.read_all()


def all_columns() -> pa.Table:
    return pa.table({name: column(name) for name in VALUES}).replace_schema_metadata({"origin": "tests"})


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", VALUES)
def test_every_type_both_ways(tmp_path, name, form, codec):
    field = pa.field("x", column(name).type, metadata={"k": "v"})
    table = pa.Table.from_arrays([pa.chunked_array([column(name), column(name)[1:]])], schema=pa.schema([field]))
    theirs, ours = tmp_path / "theirs.arrow", tmp_path / "ours.arrow"
    pyarrow_write(theirs, table, form, codec)
    with xd.open(theirs, validation="full") as reader:
        assert reader.form == form
        assert reader.num_rows == 5
        read = pa.table(reader)
    read.validate(full=True)
    assert read.equals(table, check_metadata=True)
    xd.write(table, ours, form=form, compression=codec)
    written = pyarrow_read(ours, form)
    written.validate(full=True)
    assert written.equals(table, check_metadata=True)
    with xd.open(ours, validation="full") as reader:
        assert pa.table(reader).equals(table, check_metadata=True)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("form", FORMS)
def test_all_types_at_once_sliced(tmp_path, form, codec):
    table = pa.concat_tables([all_columns()] * 4).combine_chunks().slice(1, 9)
    path = tmp_path / "x.arrow"
    xd.write(table, path, form=form, compression=codec)
    assert pyarrow_read(path, form).equals(table, check_metadata=True)
    with xd.open(path, validation="full") as reader:
        assert pa.table(reader).equals(table, check_metadata=True)


def test_no_columns_and_no_rows(tmp_path):
    path = tmp_path / "x.arrow"
    for form in FORMS:
        for table in (pa.table({}), pa.table({"x": pa.array([], pa.string())}), all_columns().slice(0, 0)):
            xd.write(table, path, form=form)
            assert pyarrow_read(path, form).equals(table)
            with xd.open(path) as reader:
                assert pa.table(reader).equals(table)


def batches_of(dictionaries: list[list[str]]) -> pa.Table:
    """One batch for each dictionary, whose last value it uses."""
    kind = pa.dictionary(pa.int32(), pa.string())
    arrays = [
        pa.DictionaryArray.from_arrays(pa.array([len(d) - 1, None, 0], pa.int32()), pa.array(d)) for d in dictionaries
    ]
    return pa.table({"d": pa.chunked_array(arrays, kind)})


GROWING = batches_of([["a"], ["a", "b"], ["a", "b"], ["a", "b", "c", "d"]])
REPLACED = batches_of([["a", "b"], ["c"], ["c", "d"], ["x"]])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("codec", CODECS)
def test_dictionaries_that_grow(tmp_path, form, codec):
    ours, theirs = tmp_path / "ours.arrow", tmp_path / "theirs.arrow"
    xd.write(GROWING, ours, form=form, compression=codec)
    assert pyarrow_read(ours, form).to_pydict() == GROWING.to_pydict()
    pyarrow_write(theirs, GROWING, form, codec, emit_dictionary_deltas=True)
    for path in (ours, theirs):
        with xd.open(path, validation="full") as reader:
            assert pa.table(reader).to_pydict() == GROWING.to_pydict()


def test_deltas_are_written_as_such(tmp_path):
    path = tmp_path / "x.arrow"
    xd.write(GROWING, path, form="stream")
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_stream(source)
        reader.read_all()
        stats = reader.stats
    assert (stats.num_dictionary_batches, stats.num_dictionary_deltas, stats.num_replaced_dictionaries) == (3, 2, 0)


def test_dictionaries_that_are_replaced(tmp_path):
    ours, theirs = tmp_path / "ours.arrow", tmp_path / "theirs.arrow"
    xd.write(REPLACED, ours, form="stream")
    assert pyarrow_read(ours, "stream").to_pydict() == REPLACED.to_pydict()
    pyarrow_write(theirs, REPLACED, "stream", None)
    for path in (ours, theirs):
        with xd.open(path, validation="full") as reader:
            assert pa.table(reader).to_pydict() == REPLACED.to_pydict()
    with pytest.raises(xd.InvalidDataError, match="unify_dictionaries"):
        xd.write(REPLACED, tmp_path / "x.arrow")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["ours.arrow", "theirs.arrow"]
    xd.write(REPLACED.unify_dictionaries(), tmp_path / "x.arrow")


def test_a_dictionary_that_comes_late(tmp_path):
    kind = pa.dictionary(pa.int8(), pa.string())
    none = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), pa.array([], pa.string()))
    some = pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int8()), pa.array(["a"]))
    table = pa.table({"d": pa.chunked_array([none, some], kind)})
    for write in (lambda path: xd.write(table, path, form="stream"),
                  lambda path: pyarrow_write(path, table, "stream", None)):  # fmt: skip
        path = tmp_path / "x.arrow"
        write(path)
        with xd.open(path, validation="full") as reader:
            assert pa.table(reader).to_pydict() == {"d": [None, None, "a", None]}
        assert pyarrow_read(path, "stream").to_pydict() == table.to_pydict()


# Arrow IPC has no place for metadata of a dictionary's values, so an extension type there comes out as its storage.
PLAIN = [name for name in VALUES if not any(word in name for word in ("dictionar", "run_end", "extension"))]


@pytest.mark.parametrize("name", PLAIN)
def test_deltas_of_every_type(tmp_path, name):
    """The values of a dictionary may be of any type; appended ones are put together with those before."""
    values = column(name)
    if pa.types.is_null(values.type):
        pytest.skip("pyarrow makes no dictionary of nulls")
    kind = pa.dictionary(pa.int16(), values.type)
    first = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int16()), values.slice(0, 2))
    second = pa.DictionaryArray.from_arrays(pa.array([2, 0, 1], pa.int16()), values)
    table = pa.table({"d": pa.chunked_array([first, second], kind)})
    path = tmp_path / "x.arrow"
    xd.write(table, path, form="stream")
    with xd.open(path, validation="full") as reader:
        batches = [pa.record_batch(batch) for batch in reader]
    for batch, expected in zip(batches, (first, second), strict=True):
        assert batch.column(0).dictionary.equals(expected.dictionary)
        assert batch.column(0).indices.equals(expected.indices)


def test_polars_and_nanoarrow_read_what_we_write(tmp_path):
    table = pa.table({"i": [1, 2, None], "s": ["a", None, "ccc"], "f": [0.5, 1.5, None], "l": [[1], None, [2, 3]]})
    path = tmp_path / "x.arrow"
    for codec in CODECS:
        xd.write(table, path, compression=codec)
        assert polars.read_ipc(path).to_arrow().to_pydict() == table.to_pydict()
        xd.write(table, path, form="stream", compression=codec)
        assert polars.read_ipc_stream(path).to_arrow().to_pydict() == table.to_pydict()
        if codec != "lz4":  # its stream reader has no LZ4
            with nanoarrow.ipc.InputStream.from_path(path) as stream:
                assert pa.table(nanoarrow.ArrayStream(stream)).to_pydict() == table.to_pydict()


def test_polars_writes_what_we_read(tmp_path):
    frame = polars.DataFrame({"i": [1, 2, None], "s": ["a", None, "a long string, not inline"]})
    for codec in ("uncompressed", "lz4", "zstd"):
        path = tmp_path / "x.arrow"
        frame.write_ipc(path, compression=codec)
        with xd.open(path, validation="full") as reader:
            assert polars.DataFrame(reader).equals(frame)


def test_metadata_of_footers(tmp_path):
    path = tmp_path / "x.arrow"
    batch = pa.record_batch({"x": [1]})
    with pa.ipc.new_file(str(path), batch.schema, metadata={"foot": "er"}) as sink:
        sink.write_batch(batch)
    with xd.open(path) as reader:
        assert reader.metadata == {b"foot": b"er"}
        assert pa.table(reader).to_pydict() == {"x": [1]}


def test_large_bodies_on_several_threads(tmp_path):
    rng = np.random.default_rng(1)
    table = pa.table({f"c{i}": rng.integers(0, 100, 300_000) for i in range(8)})
    for codec in ("lz4", "zstd"):
        path = tmp_path / "x.arrow"
        pyarrow_write(path, table, "file", codec)
        with xd.open(path) as reader:
            assert pa.table(reader).equals(table)
        xd.write(table, path, compression=codec, level=3)
        assert pyarrow_read(path, "file").equals(table)


def arrays(kinds):
    return st.one_of([
        st.lists(st.one_of(st.none(), values), max_size=20).map(lambda items, kind=kind: pa.array(items, kind))
        for kind, values in kinds
    ])  # fmt: skip


LEAVES = [
    (pa.int32(), st.integers(-5, 5)),
    (pa.string(), st.text(max_size=20)),
    (pa.string_view(), st.text(max_size=20)),
    (pa.bool_(), st.booleans()),
    (pa.list_(pa.int16()), st.lists(st.integers(0, 9), max_size=4)),
    (pa.list_view(pa.string()), st.lists(st.text(max_size=3), max_size=4)),
    (pa.struct([("a", pa.int8()), ("b", pa.list_(pa.string()))]),
     st.fixed_dictionaries({"a": st.integers(0, 9), "b": st.lists(st.text(max_size=3), max_size=3)})),
]  # fmt: skip


@pytest.mark.long
@given(array=arrays(LEAVES), data=st.data(), form=st.sampled_from(FORMS), codec=st.sampled_from(CODECS))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_made_up_columns(tmp_path, array, data, form, codec):
    start = data.draw(st.integers(0, len(array)))
    cut = array.slice(start, data.draw(st.integers(0, len(array) - start)))
    table = pa.table({"x": pa.chunked_array([cut, array], array.type)})
    path = tmp_path / "x.arrow"
    xd.write(table, path, form=form, compression=codec)
    assert pyarrow_read(path, form).equals(table)
    pyarrow_write(path, table, form, codec)
    with xd.open(path, validation="full") as reader:
        assert pa.table(reader).equals(table)


def swap_dictionaries(path: Path) -> None:
    """Has the footer of a file with two dictionaries list them the other way round."""
    content = bytearray(path.read_bytes())
    (length,) = struct.unpack("<i", content[-10:-6])
    footer = len(content) - 10 - length
    blocks = struct.Struct("<qixxxxq")
    for at in range(footer, len(content) - 10 - 2 * blocks.size, 4):
        (count,) = struct.unpack_from("<I", content, at)
        first, second = blocks.unpack_from(content, at + 4), blocks.unpack_from(content, at + 4 + blocks.size)
        if count == 2 and first[0] + first[1] + first[2] == second[0] and 0 < first[0] < second[0] < footer:
            blocks.pack_into(content, at + 4, *second)
            blocks.pack_into(content, at + 4 + blocks.size, *first)
            path.write_bytes(content)
            return
    raise AssertionError("the footer's two dictionaries weren't found")


@pytest.mark.parametrize("stable", ["trust", "snapshot"])
@pytest.mark.parametrize("codec", [None, "lz4"])
def test_a_footer_may_list_a_dictionary_before_those_in_its_values(tmp_path, stable, codec):
    inner = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), ["x", "y"])
    values = pa.ListArray.from_arrays([0, 2, 3], inner)
    table = pa.table({"o": pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], pa.int8()), values)})
    path = tmp_path / "x.arrow"
    xd.write(table, path, compression=codec)
    swap_dictionaries(path)
    with xd.open(path, validation="full") as reader:
        assert pa.table(reader).to_pydict() == table.to_pydict()
    with xd.serve({"x": path}, stable=stable) as server, xd.connect(server.uri) as client:
        assert pa.table(client.get("x", validation="full")).to_pydict() == table.to_pydict()
