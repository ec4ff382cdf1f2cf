"""Batches in memory that its producer can still write to: recycled memory of a live stream, and a file under trust.

The producer changes the last offset of a text column after our own checks. Nothing beyond the buffers that were checked
may be read then, whatever way the batch takes.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import crossdock as xd

TEXTS = ["one", "two", "three", "four", "five"] * 200
TABLE = pa.table({"text": pa.array(TEXTS, pa.utf8())})
BYTES = sum(map(len, TEXTS))
WILD = struct.pack("<i", 1 << 30)


def writable_alias(address: int) -> int:
    """Where this process's server can write to the memory that its client maps read-only at `address`."""
    found: dict[str, tuple[int, int]] = {}
    readers: tuple[int, int, str] | None = None
    for line in Path("/proc/self/maps").read_text().splitlines():
        match = re.match(r"(\w+)-(\w+) (\S+) (\w+) \S+ (\d+)", line)
        assert match is not None
        begin, end, offset = int(match[1], 16), int(match[2], 16), int(match[4], 16)
        if begin <= address < end:
            readers = (begin, offset, match[5])
        if match[3] == "rw-s":
            found[match[5]] = (begin, offset)
    assert readers is not None
    begin, offset = found[readers[2]]
    return address - readers[0] + readers[1] - offset + begin


def last_offset_of(batch: Any) -> int:
    column = pa.record_batch(batch).column(0)
    buffer = column.buffers()[1]
    return int(buffer.address) + 4 * (column.offset + len(column))


@pytest.fixture
def live() -> Iterator[tuple[Any, Callable[[], None]]]:
    """A batch in recycled memory, and what changes it."""
    with xd.Server() as server, xd.connect(server.uri) as client:
        server.publish("live", TABLE, mode="live")
        batch = next(client.get("live"))
        writable = writable_alias(last_offset_of(batch))
        yield batch, lambda: ctypes.memmove(writable, WILD, len(WILD))


@pytest.fixture
def in_file(tmp_path: Path) -> tuple[Any, Callable[[], None]]:
    """A batch in a file, and what changes it."""
    path = tmp_path / "t.arrow"
    xd.write(TABLE, path)
    batch = xd.open(path).batch(0)
    at = path.read_bytes().index(struct.pack("<4i", 0, 3, 6, 11)) + 4 * len(TEXTS)

    def change() -> None:
        with path.open("r+b") as file:
            file.seek(at)
            file.write(WILD)

    return batch, change


class Capsules:
    """Nothing but the C structures, so that ours are taken for anybody's."""

    def __init__(self, source: Any) -> None:
        self._capsules = source.__arrow_c_array__()

    def __arrow_c_array__(self, _: object = None) -> Any:
        return self._capsules


def stream_of(batch: Any) -> xd.RecordBatchReader:
    return xd.RecordBatchReader(batch)


def in_pyarrow(batch: Any) -> Any:
    return pa.table(batch)


WAYS = {"batch": lambda it: [it], "capsules": Capsules, "reader": stream_of, "reader of capsules": lambda it: stream_of(
    Capsules(it)), "pyarrow": in_pyarrow}  # fmt: skip


@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("memory", ["live", "in_file"])
def test_write_takes_no_byte_beyond_what_was_checked(
    memory: str, way: str, compression: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    batch, change = request.getfixturevalue(memory)
    source = WAYS[way](batch)
    change()
    with pytest.raises(xd.InvalidDataError, match="text"):
        xd.write(source, tmp_path / "out.arrow", compression=compression)
    assert not (tmp_path / "out.arrow").exists()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("memory", ["live", "in_file"])
def test_publish_takes_no_byte_beyond_what_was_checked(memory: str, way: str, request: pytest.FixtureRequest) -> None:
    batch, change = request.getfixturevalue(memory)
    source = WAYS[way](batch)
    change()
    with xd.Server() as server, pytest.raises(xd.InvalidDataError, match="text"):
        server.publish("t", source, mode="table")


@pytest.mark.parametrize("memory", ["live", "in_file"])
def test_sizes_are_those_of_the_batch(memory: str, request: pytest.FixtureRequest) -> None:
    batch, change = request.getfixturevalue(memory)
    assert batch.nbytes == BYTES + 4 * (len(TEXTS) + 1)
    capsules = Capsules(batch)
    assert xd.RecordBatch(capsules).nbytes == batch.nbytes
    capsules = Capsules(batch)
    change()
    with pytest.raises(xd.InvalidDataError, match="text"):
        xd.RecordBatch(capsules)
