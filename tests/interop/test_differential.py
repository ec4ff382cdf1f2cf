"""What pyarrow makes goes through every path of ours and must come out equal, by pyarrow's own comparison.

CROSSDOCK_EXAMPLES says how many schemas with data are tried, for a nightly run (20000).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.children import Child
from tests.interop import arrow_data

import crossdock as xd

ROOT = Path(__file__).parents[2]
EXAMPLES = int(os.environ.get("CROSSDOCK_EXAMPLES", "500"))

tables = st.builds(
    lambda schema, rows, seed, sliced: [
        arrow_data.batch(schema, n, seed + i, sliced) for i, n in enumerate(rows)
    ] or schema.empty_table().to_batches(),
    arrow_data.schemas(),
    st.lists(st.sampled_from([0, 1, 2, 7, 30]), min_size=1, max_size=3),
    st.integers(0, 2**32),
    st.booleans(),
)  # fmt: skip

few = settings(
    max_examples=max(1, EXAMPLES // 5), deadline=None, database=None, derandomize=EXAMPLES <= 500, print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)  # fmt: skip


def check(got: Any, expected: list[pa.RecordBatch]) -> None:
    reader = pa.RecordBatchReader.from_stream(got) if not isinstance(got, pa.RecordBatchReader) else got
    assert reader.schema.equals(expected[0].schema, check_metadata=True), f"{reader.schema}\n{expected[0].schema}"
    batches = list(reader)
    assert len(batches) == len(expected)
    for ours, theirs in zip(batches, expected, strict=True):
        ours.validate(full=True)
        assert ours.equals(theirs, check_metadata=True), f"{ours.to_pydict()}\n{theirs.to_pydict()}"


def stream_of(batches: list[pa.RecordBatch]) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(batches[0].schema, batches)


@few
@given(tables)
def test_capsules(batches):
    """C stream in, C stream out: nothing but the structures."""
    for batch in batches:
        with xd.serve() as server:
            server.publish("t", stream_of([batch]), mode="table")
            with xd.connect(server.uri) as client:
                (ours,) = client.get("t")
            check(stream_of([pa.record_batch(ours)]), [batch])


@pytest.mark.parametrize("uri", ["shm:", "tcp:"])
@pytest.mark.parametrize("mode", ["table", "live"])
def test_transports(uri, mode):
    with xd.serve(uri=uri) as server, xd.connect(server.uri) as client:

        @few
        @given(tables, st.sampled_from(["structure", "full"]))
        def each(batches, validation):
            server.publish("t", stream_of(batches), mode=mode)
            try:
                check(client.get("t", validation=validation), batches)
            finally:
                server.withdraw("t")

        each()


@pytest.mark.parametrize("uri", ["shm:", "tcp:"])
def test_two_connections(uri):
    """Metadata over one, bodies over the other; live streams need both in one."""
    with xd.serve(uri=uri) as server, xd.connect(metadata=server.uri, data=server.uri) as client:

        @settings(few, max_examples=max(1, EXAMPLES // 10))
        @given(tables, st.sampled_from(["structure", "full"]))
        def each(batches, validation):
            server.publish("t", stream_of(batches), mode="table")
            try:
                check(client.get("t", validation=validation), batches)
            finally:
                server.withdraw("t")

        each()


@pytest.mark.parametrize(
    ("mode", "way"), [("table", "map"), ("table", "read"), ("table", "message"), ("live", "map"), ("live", "message")]
)
def test_in_process(tmp_path, mode, way):
    """Over memory:, which is for C++ alone: a program takes files through it."""
    program = Path(os.environ.get("CROSSDOCK_BUILD_DIR", ROOT / "build" / "dev")) / "tests/interop/through_memory"
    if not program.exists():
        pytest.skip(f"needs {program.name}, which ./dev build makes")
    from_, to = tmp_path / "from.arrows", tmp_path / "to.arrows"
    command = [program, from_, to, mode, way]
    with Child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as child:

        @settings(few, max_examples=max(1, EXAMPLES // 10))
        @given(tables)
        def each(batches):
            with pa.ipc.new_stream(str(from_), batches[0].schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            child.stdin.write("\n")
            assert child.stdout.readline() == "done\n"
            check(opened(to, "stream"), list(opened(from_, "stream")))

        each()


@pytest.mark.parametrize("form", ["file", "stream"])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_ours_to_pyarrow(tmp_path, form, compression):
    path = tmp_path / "t.arrow"

    @settings(few, max_examples=max(1, EXAMPLES // 10))
    @given(tables)
    def each(batches):
        try:
            xd.write(stream_of(batches), path, form=form, compression=compression)
        except xd.InvalidDataError as error:
            if form == "file" and "which the file form doesn't support" in str(error):
                return  # a dictionary that changes
            raise
        check(opened(path, form), batches)

    each()


@pytest.mark.parametrize("form", ["file", "stream"])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_pyarrow_to_ours(tmp_path, form, compression):
    path = tmp_path / "t.arrow"
    make = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
    options = pa.ipc.IpcWriteOptions(compression=compression, emit_dictionary_deltas=form == "stream")

    @settings(few, max_examples=max(1, EXAMPLES // 10))
    @given(tables, st.sampled_from(["structure", "full"]))
    def each(batches, validation):
        try:
            with make(str(path), batches[0].schema, options=options) as writer:
                for batch in batches:
                    writer.write_batch(batch)
        except pa.ArrowInvalid as error:
            if "Dictionary replacement detected" in str(error):
                return  # a file of theirs can't hold it
            raise
        # What pyarrow reads of its own file is what it wrote: not always what it was given.
        check(xd.open(path, validation=validation), list(opened(path, form)))

    each()


def opened(path: Path, form: str) -> pa.RecordBatchReader:
    if form == "stream":
        return pa.ipc.open_stream(path.read_bytes())
    file = pa.ipc.open_file(path.read_bytes())
    return pa.RecordBatchReader.from_batches(file.schema, [file.get_batch(i) for i in range(file.num_record_batches)])
