"""Custom metadata of messages: what pyarrow writes comes through files and servers, and back to pyarrow."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import crossdock as xd

BATCHES = [pa.record_batch({"x": [1, 2], "s": ["a", "b"]}), pa.record_batch({"x": [3], "s": ["c"]})]
METADATA = [{b"step": b"1", b"bytes": b"\x00\xff"}, {}]
FORMS = ["file", "stream"]


def pyarrow_write(path: Path, form: str, compression: str | None = None) -> None:
    new = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with new(str(path), BATCHES[0].schema, options=options) as sink:
        for batch, metadata in zip(BATCHES, METADATA, strict=True):
            sink.write_batch(batch, custom_metadata=metadata or None)


def pyarrow_read(path: Path, form: str) -> list[tuple[pa.RecordBatch, dict[bytes, bytes]]]:
    with pa.memory_map(str(path)) as source:
        if form == "file":
            opened = pa.ipc.open_file(source)
            pairs = [opened.get_batch_with_custom_metadata(i) for i in range(opened.num_record_batches)]
        else:
            reader = pa.ipc.open_stream(source)
            pairs = [reader.read_next_batch_with_custom_metadata() for _ in BATCHES]
        return [(batch, {} if metadata is None else dict(metadata)) for batch, metadata in pairs]


EXPECTED = list(zip(BATCHES, METADATA, strict=True))


def pairs_of(reader) -> list[tuple[pa.RecordBatch, dict[bytes, bytes]]]:
    return [(pa.record_batch(batch), batch.custom_metadata) for batch in reader]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("compression", [None, "zstd"])
def test_from_pyarrow_to_pyarrow_by_way_of_a_file(tmp_path: Path, form: str, compression: str | None) -> None:
    path, copy = tmp_path / "x.arrow", tmp_path / "copy.arrow"
    pyarrow_write(path, form, compression)
    with xd.open(path) as reader:
        assert pairs_of(reader) == EXPECTED
    with xd.open(path) as reader:
        xd.write(reader, copy, form="file" if form == "stream" else "stream", compression=compression)
    assert pyarrow_read(copy, "file" if form == "stream" else "stream") == EXPECTED
    xd.write(path, copy, form=form)
    assert pyarrow_read(copy, form) == EXPECTED


@pytest.mark.parametrize("uri", ["shm:", "tcp:"])
@pytest.mark.parametrize("form", FORMS)
def test_through_servers(tmp_path: Path, uri: str, form: str) -> None:
    path, copy = tmp_path / "x.arrow", tmp_path / "copy.arrow"
    pyarrow_write(path, form)
    with xd.serve(uri=uri) as server, xd.connect(server.uri) as client:
        server.publish("file", path)
        server.publish("snapshot", path, stable="snapshot")
        server.publish("table", xd.open(path), mode="table")
        server.publish("live", xd.open(path))
        server.publish("callable", lambda: client.get("file"))
        for name in ("file", "snapshot", "table", "callable"):
            assert pairs_of(client.get(name)) == EXPECTED, name
            xd.write(client.get(name), copy)
            assert pyarrow_read(copy, "file") == EXPECTED, name
        assert pairs_of(client.get("live")) == EXPECTED
        assert client.get("table", columns=["x"]).__next__().custom_metadata == METADATA[0]


def test_batches_of_others_get_metadata(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    ours = [xd.RecordBatch(batch, custom_metadata=metadata) for batch, metadata in EXPECTED]
    assert [batch.custom_metadata for batch in ours] == METADATA
    for form in FORMS:
        xd.write(ours, path, form=form)
        assert pyarrow_read(path, form) == EXPECTED
    xd.write(xd.RecordBatch(BATCHES[0], custom_metadata={"text": "ü"}), path)
    assert pyarrow_read(path, "file") == [(BATCHES[0], {b"text": "ü".encode()})]
    with xd.serve({"x": tuple(ours)}) as server, xd.connect(server.uri) as client:
        assert pairs_of(client.get("x")) == EXPECTED


def test_what_becomes_of_it_in_other_hands() -> None:
    marked = xd.RecordBatch(BATCHES[0], custom_metadata=METADATA[0])
    assert xd.RecordBatch(marked).custom_metadata == METADATA[0]
    assert xd.RecordBatch(marked, custom_metadata={}).custom_metadata == {}
    assert xd.RecordBatch(pa.record_batch(marked)).custom_metadata == {}, "pyarrow's batches have no place for it"


def test_what_is_no_batch_and_no_metadata() -> None:
    with pytest.raises(xd.UnsupportedTypeError, match="__arrow_c_array__"):
        xd.RecordBatch(5)
    with pytest.raises(TypeError, match="custom_metadata must be a mapping"):
        xd.RecordBatch(BATCHES[0], custom_metadata={"k": 1})
    with pytest.raises(xd.InvalidArgumentError, match="an empty list"):
        xd.serve({"x": []})
    with pytest.raises(xd.InvalidDataError, match="another schema"):
        xd.serve({"x": [BATCHES[0], pa.record_batch({"y": [1]})]})
