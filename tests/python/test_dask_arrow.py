"""Arrow tables and batches through Dask's serialization, as buffers."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("distributed")

from distributed.protocol import deserialize, dumps, loads, serialize, to_serialize

from crossdock.dask import _arrow

CONTEXT = {"pickle-protocol": 5, "crossdock-arrow": _arrow.FORMAT}


@pytest.fixture(autouse=True)
def registered():
    _arrow.register()


def there_and_back(data, context=CONTEXT):
    frames = dumps({"data": to_serialize(data)}, context=context, frame_split_size=1 << 60)
    return loads([bytearray(frame) for frame in frames])["data"]


def sample() -> pa.Table:
    rng = np.random.default_rng(1)
    number = 1000
    words = pa.array(random.Random(1).choices(["a", "bb", None, "cccc"], k=number))
    return pa.table(
        {
            "int": pa.array(rng.integers(0, 9, number), mask=rng.random(number) < 0.1),
            "float": rng.random(number),
            "bool": rng.random(number) < 0.5,
            "text": words,
            "view": words.cast(pa.string_view()),
            "dictionary": words.dictionary_encode(),
            "list": pa.array([[1, 2, 3][: i % 4] for i in range(number)]),
            "fixed": pa.array([[i, i] for i in range(number)], pa.list_(pa.int32(), 2)),
            "struct": pa.array([{"x": i, "y": {"z": str(i)}} if i % 7 else None for i in range(number)]),
            "struct of dictionary": pa.StructArray.from_arrays([words.dictionary_encode()], ["d"]),
            "map": pa.array([[(str(i), i)] for i in range(number)], pa.map_(pa.string(), pa.int64())),
            "decimal": pa.array(range(number), pa.decimal128(20, 3)),
            "time": pa.array(range(number), pa.timestamp("us", "Europe/Berlin")),
            "null": pa.nulls(number),
            "union": pa.UnionArray.from_sparse(
                pa.array([i % 2 for i in range(number)], pa.int8()), [pa.array(range(number)), words]
            ),
            "runs": pa.RunEndEncodedArray.from_arrays([400, number], ["x", "y"]),
            "uuid": pa.ExtensionArray.from_storage(
                pa.uuid(), pa.array([bytes([i % 256] * 16) for i in range(number)], pa.binary(16))
            ),
        }
    ).replace_schema_metadata({"made": "here"})  # fmt: skip


@pytest.mark.parametrize(
    "cut",
    [
        lambda table: table,
        lambda table: table.slice(13, 700),
        lambda table: table.slice(13, 7),
        lambda table: table.slice(0, 0),
        lambda table: pa.concat_tables([table, table.slice(3, 500), table]),
        lambda table: pa.table({}),
        lambda table: table.select([]),
        lambda table: pa.table({"x": pa.chunked_array([], pa.int64())}),
        lambda table: pa.table([[1], [2]], names=["same", "same"]),
    ],
    ids=["whole", "slice", "small slice", "empty slice", "chunks", "nothing", "no columns", "no chunks", "same names"],
)
def test_tables_and_batches_stay_what_they_are(cut):
    table = cut(sample())
    back = there_and_back(table)
    assert back.equals(table, check_metadata=True)
    back.validate(full=True)
    assert [column.num_chunks for column in back.columns] == [column.num_chunks for column in table.columns]
    for batch in table.to_batches():
        back = there_and_back(batch)
        assert back.equals(batch, check_metadata=True)


def test_frames_are_the_buffers_themselves():
    table = sample()
    header, frames = serialize(table, context=CONTEXT)
    ours = {
        buffer.address for column in table.columns for chunk in column.chunks for buffer in chunk.buffers() if buffer
    }
    addresses = [pa.py_buffer(frame).address for frame in frames[1:]]
    assert ours <= set(addresses)
    assert len(addresses) == len(set(addresses)), "what several columns share is a frame once"
    back = deserialize(header, frames)
    theirs = {
        buffer.address for column in back.columns for chunk in column.chunks for buffer in chunk.buffers() if buffer
    }
    assert theirs == ours


def test_small_slices_do_not_bring_whole_buffers():
    table = pa.table({"x": np.arange(1_000_000), "y": ["text"] * 1_000_000})
    _, frames = serialize(table.slice(1000, 100), context=CONTEXT)
    assert sum(memoryview(frame).nbytes for frame in frames) < 10_000
    _, frames = serialize(table.slice(1000, 900_000), context=CONTEXT)
    assert sum(memoryview(frame).nbytes for frame in frames) > 8_000_000


@pytest.mark.parametrize("context", [None, {}, {"pickle-protocol": 5}, {**CONTEXT, "pickle-protocol": 4}])
def test_readers_that_do_not_know_the_format_get_what_distributed_makes(context):
    header, frames = serialize(sample(), context=context)
    assert "crossdock-arrow" not in header["sub-header"]
    assert pa.ipc.open_stream(frames[0]).read_all().equals(sample())
    assert deserialize(header, frames).equals(sample())


def test_a_newer_format_is_an_error_that_says_so():
    header, frames = serialize(sample(), context=CONTEXT)
    header["sub-header"]["crossdock-arrow"] = _arrow.FORMAT + 1
    with pytest.raises(TypeError, match=r"format 2 of a newer Crossdock; this is Crossdock .* which knows format 1"):
        deserialize(header, frames)


def test_frames_that_are_not_aligned_are_copied():
    table = pa.table({"x": np.arange(100_000)})
    header, frames = serialize(table, context=CONTEXT)
    shifted = memoryview(bytearray(b"." + bytes(frames[1])))[1:]
    back = deserialize(header, [frames[0], shifted])
    assert back.column(0).chunk(0).buffers()[1].address % 64 == 0
    assert back.equals(table)


def test_buffers_that_are_too_short_for_the_lengths_are_refused():
    """For each buffer in turn. What a pickle says is trusted, as Dask trusts it; lengths are checked."""
    table = sample()
    header, frames = serialize(table, context=CONTEXT)
    refused = 0
    for i in range(1, len(frames)):
        frame = memoryview(frames[i]).cast("B")
        short = [*frames[:i], frame[: frame.nbytes // 2], *frames[i + 1 :]]
        try:
            back = deserialize(header, short)
            back.validate(full=True)
        except (pa.ArrowInvalid, pa.ArrowIndexError):
            refused += 1
    assert refused >= 20, "some buffers are longer than they need be"
    with pytest.raises(IndexError):
        deserialize(header, frames[:3])
    with pytest.raises((pickle.UnpicklingError, EOFError)):
        deserialize(header, [frames[0][:100], *frames[1:]])
