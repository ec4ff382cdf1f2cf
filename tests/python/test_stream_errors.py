"""Failures of Arrow streams keep their class and their errno, from other libraries to us and from us to them."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nanoarrow as na
import pyarrow as pa
import pytest
from tests.exporter_samples import arrow

import crossdock as xd

BATCH = pa.record_batch({"x": [1, 2, 3]})

# Status, our class, and the built-in class that Python code catches.
STATUS: list[tuple[int, type[xd.Error], type[BaseException]]] = [
    (errno.EINVAL, xd.InvalidDataError, ValueError),
    (errno.ENOSYS, xd.UnsupportedError, NotImplementedError),
    (errno.ENOTSUP, xd.UnsupportedError, NotImplementedError),
    (errno.ENOMEM, xd.OutOfMemoryError, MemoryError),
    (errno.EMFILE, xd.ResourceError, OSError),
    (errno.ENOSPC, xd.ResourceError, OSError),
    (errno.EACCES, xd.PermissionError, PermissionError),
    (errno.ENOENT, xd.NotFoundError, LookupError),
    (errno.ETIMEDOUT, xd.TimeoutError, TimeoutError),
    (errno.EINTR, xd.InterruptedError, InterruptedError),
    (errno.ECANCELED, xd.ClosedError, ValueError),
    (errno.ECONNRESET, xd.ConnectionError, ConnectionError),
    (errno.EIO, xd.SystemError, OSError),
    (errno.EBADF, xd.SystemError, OSError),
    (-1, xd.InvalidDataError, ValueError),
]


def failing(base: Any, number: int, words: bytes | None = b"words of its own") -> Any:
    class Fails(base):  # type: ignore[misc]
        status = number
        text = words

    return Fails()


def read_all(source: Any) -> Any:
    return list(xd.RecordBatchReader(source))


def to_file(source: Any) -> Any:
    return xd.write(source, "/dev/null")


READS = {
    "read": (arrow.Batches, read_all),
    "read from a device": (arrow.DeviceBatches, read_all),
    "write": (arrow.Batches, to_file),
}


@pytest.mark.parametrize(("base", "read"), READS.values(), ids=READS)
@pytest.mark.parametrize(("status", "ours", "builtin"), STATUS, ids=lambda it: str(it) if isinstance(it, int) else "")
def test_a_producers_status_has_its_class(
    base: Any, read: Callable[[Any], Any], status: int, ours: type[xd.Error], builtin: type[BaseException]
) -> None:
    with pytest.raises(ours, match="words of its own") as caught:
        read(failing(base, status))
    assert type(caught.value) is ours
    assert isinstance(caught.value, builtin)
    if isinstance(caught.value, OSError):
        assert caught.value.errno == status
    assert not str(caught.value).startswith("[Errno"), "the text is ours"


# What a Python source raises reaches us as the status that pyarrow gives it.
RAISED: list[tuple[BaseException, type[xd.Error]]] = [
    (OSError(errno.EIO, "on fire"), xd.SystemError),
    (NotImplementedError("on fire"), xd.UnsupportedError),
    (MemoryError("on fire"), xd.OutOfMemoryError),
    (ValueError("on fire"), xd.InvalidDataError),
    (TypeError("on fire"), xd.InvalidDataError),
]


@pytest.mark.parametrize(("raised", "expected"), RAISED, ids=lambda it: type(it).__name__)
def test_what_a_python_source_raises_goes_through_pyarrow(raised: BaseException, expected: type[xd.Error]) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield BATCH
        raise raised

    reader = xd.RecordBatchReader(pa.RecordBatchReader.from_batches(BATCH.schema, batches()))
    next(reader)
    with pytest.raises(expected, match="on fire"):
        next(reader)


# pyarrow knows four errno by name; every other is an OSError.
IN_PYARROW: dict[int, type[BaseException]] = {
    errno.EINVAL: pa.ArrowInvalid,
    errno.ENOSYS: NotImplementedError,
    errno.ENOMEM: MemoryError,
    errno.EIO: OSError,
    errno.ETIMEDOUT: OSError,
    errno.ECONNRESET: OSError,
}


@pytest.mark.parametrize(("status", "expected"), IN_PYARROW.items())
def test_pyarrow_sees_the_class_that_we_got(status: int, expected: type[BaseException]) -> None:
    reader = pa.RecordBatchReader.from_stream(xd.RecordBatchReader(failing(arrow.Batches, status)))
    with pytest.raises(expected, match="words of its own"):
        reader.read_all()


@pytest.mark.parametrize("status", [errno.EINVAL, errno.ENOSYS, errno.ENOMEM, errno.EIO])
def test_nanoarrow_sees_the_number_that_we_got(status: int) -> None:
    stream = na.c_array_stream(xd.RecordBatchReader(failing(arrow.Batches, status)))
    with pytest.raises(Exception, match=f"{status}.*words of its own"):
        list(stream)


def test_an_error_of_ours_goes_through_our_own_stream_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "t.arrow"
    xd.write([BATCH, BATCH], path)

    reader = xd.RecordBatchReader(xd.open(path))
    with path.open("r+b") as file:
        file.seek(0, 2)
        file.write(b"!")
    with pytest.raises(xd.FileChangedError):
        xd.write(reader, tmp_path / "other.arrow")


def test_a_failing_source_is_a_remote_error_at_its_consumers() -> None:
    with xd.Server() as server, xd.connect(server.uri) as client:
        for status in (errno.ENOENT, errno.ENOMEM, errno.EIO, errno.EINVAL):
            server.publish("live", failing(arrow.Batches, status), mode="live")
            with pytest.raises(xd.RemoteError, match="words of its own"):
                list(client.get("live"))
            server.withdraw("live")
