"""`crossdock.check()` on real libraries: what they break today is written down here, with what was seen.

A library that changes makes its test fail: then this list, and docs/how-to/check.md, are due.
"""

from __future__ import annotations

import array
import mmap
from collections.abc import Callable
from typing import Any

import duckdb
import nanoarrow as na
import nanoarrow.device
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import crossdock as xd
from crossdock.testing import simulated_devices

BATCH = pa.record_batch(
    {
        "x": [1, None, 3],
        "s": ["a", "a text that no view can hold within itself", None],
        "v": pa.array(["short", "a text that no view can hold within itself", None], pa.string_view()),
        "l": [[1, 2], None, []],
        "d": pa.array(["p", "q", "p"]).dictionary_encode(),
        "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
        "t": pa.array([1, 2, None], pa.timestamp("us", "Europe/Zurich")),
        "n": pa.nulls(3),
        "c": pa.array([1, None, 3], pa.decimal128(10, 2)),
        "f": pa.array([[1, 2], [3, 4], None], pa.list_(pa.int16(), 2)),
        "b": [True, None, False],
    }
)
NUMPY_BUFFERS = {"buffer-simple"}
NUMPY_READ_ONLY = {"buffer-writable"}
NANOARROW_REQUESTS = {"arrow-requested-schema"}


def unaligned() -> Any:
    return np.frombuffer(bytearray(33), "f8", 4, 1)


def read_only() -> Any:
    values = np.arange(3)
    values.setflags(write=False)
    return values


def sliced() -> Any:
    return BATCH.slice(1, 2)


def union() -> Any:
    return pa.UnionArray.from_dense(
        pa.array([0, 1, 0], pa.int8()), pa.array([0, 0, 1], pa.int32()), [pa.array([1, 2]), pa.array(["x"])]
    )


def runs() -> Any:
    return pa.RunEndEncodedArray.from_arrays(pa.array([2, 5], pa.int32()), pa.array(["x", None]))


RIGHT: dict[str, Callable[[], Any]] = {
    "array": lambda: array.array("d", [1, 2]),
    "bytes": lambda: bytes(bytearray(b"abc")),
    "no bytes": lambda: b"",
    "bytearray": lambda: bytearray(b"abc"),
    "memoryview": lambda: memoryview(bytearray(12)).cast("i"),
    "memoryview with steps": lambda: memoryview(bytearray(12)).cast("i")[::-2],
    "mmap": lambda: mmap.mmap(-1, 4096),
    "numpy": lambda: np.arange(12.0).reshape(3, 4),
    "numpy scalar": lambda: np.array(3.0),
    "numpy empty": lambda: np.empty((0, 3)),
    "numpy bool": lambda: np.array([True, False]),
    "numpy complex": lambda: np.ones(3, "c16"),
    "numpy big-endian": lambda: np.ones(3, ">i4"),
    "numpy structured": lambda: np.zeros(3, [("a", "i4"), ("b", "f8", (2,))]),
    "numpy text": lambda: np.array(["a", "bc"]),
    "numpy unaligned": unaligned,
    "pyarrow batch": lambda: BATCH,
    "pyarrow slice": sliced,
    "pyarrow table": lambda: pa.table(BATCH),
    "pyarrow chunked": lambda: pa.chunked_array([[1, 2], [3]]),
    "pyarrow stream": lambda: pa.RecordBatchReader.from_batches(BATCH.schema, [BATCH, BATCH]),
    "pyarrow schema": lambda: BATCH.schema.with_metadata({"a": "b"}),
    "pyarrow field": lambda: pa.field("x", pa.int32(), nullable=False),
    "pyarrow type": lambda: pa.struct({"a": pa.list_(pa.int8())}),
    "pyarrow union": union,
    "pyarrow runs": runs,
    "pyarrow buffer": lambda: pa.py_buffer(bytearray(b"abc")),
    "nanoarrow stream": lambda: na.ArrayStream([1, 2, None], na.int32()),
    "nanoarrow schema": lambda: na.schema(na.int32()),
    "nanoarrow c_schema": lambda: na.c_schema(na.struct({"a": na.string()})),
    "polars": lambda: pl.DataFrame(
        {"x": [1, 2, None], "s": ["a", "a text that no view can hold", None], "l": [[1], [], None]}
    ),
    "polars series": lambda: pl.Series([1, 2, 3]),
    "polars categories": lambda: pl.DataFrame({"c": pl.Series(["a", "b", "a"], dtype=pl.Categorical)}),
    "polars schema": lambda: pl.Schema({"a": pl.Int32}),
    "pandas": lambda: pd.DataFrame({"a": [1, 2], "s": ["x", None]}),
    "duckdb": lambda: duckdb.sql("select i, 'x' || i as s, [i] as l from range(10) t(i)"),
}
# The rules that they break; docs/how-to/check.md says more of each.
KNOWN: dict[str, tuple[Callable[[], Any], set[str]]] = {
    "numpy transposed": (lambda: np.arange(12.0).reshape(3, 4)[:, ::2], NUMPY_BUFFERS),
    "numpy backwards": (lambda: np.arange(12.0)[::-1], NUMPY_BUFFERS),
    "numpy read-only": (read_only, NUMPY_READ_ONLY),
    "numpy time": (lambda: np.array(["2024-01-01"], "M8[s]"), {"buffer-raises"}),
    "pyarrow array": (lambda: pa.array([1, 2, 3]), {"dlpack-legacy-readonly"}),
    "nanoarrow": (lambda: na.Array([1, 2, None], na.int32()), NANOARROW_REQUESTS),
    "nanoarrow c_array": (lambda: na.c_array([1, 2], na.int32()), NANOARROW_REQUESTS),
    "nanoarrow device": (
        lambda: na.device.c_device_array(na.c_array([1, 2], na.int32())),
        NANOARROW_REQUESTS | {"arrow-unknown-keyword"},
    ),
}
# pyarrow leaves the reserved bytes as its allocator gave them: they are zero, or not.
BY_CHANCE = {"arrow-device-reserved"}


@pytest.mark.parametrize("name", RIGHT)
def test_these_export_as_specified(name):
    for report in (xd.check(RIGHT[name]), xd.check(RIGHT[name]())):
        assert {one.rule for one in report.errors} - BY_CHANCE == set(), str(report)


@pytest.mark.parametrize("name", KNOWN)
def test_these_have_known_findings(name):
    make, rules = KNOWN[name]
    for report in (xd.check(make), xd.check(make())):
        assert {one.rule for one in report.errors} - BY_CHANCE == rules, str(report)


def test_torch():
    torch = pytest.importorskip("torch")
    for make in (
        lambda: torch.arange(6.0).reshape(2, 3),
        lambda: torch.ones(3, 4).T,
        lambda: torch.ones(3, dtype=torch.bfloat16),
        lambda: torch.tensor(True),
    ):
        report = xd.check(make)
        # copy=True clones, and doesn't set the flag for copies; a device that it doesn't have is a RuntimeError.
        assert {one.rule for one in report.errors} == {"dlpack-copied-flag", "dlpack-dl-device-error"}, str(report)
        assert report.protocols == ("dlpack", "dlpack-exchange")
    assert {one.rule for one in xd.check(lambda: torch.ones(0, 3)).errors} == {"dlpack-dl-device-error"}
    for make in (lambda: torch.ones(3, requires_grad=True), lambda: torch.ones(3, dtype=torch.complex64).conj()):
        assert list(xd.check(make)) == [], "what can't be exported raises BufferError"


def test_jax():
    jax = pytest.importorskip("jax")
    for make in (lambda: jax.numpy.arange(6.0).reshape(2, 3), lambda: jax.numpy.arange(3)):
        for report in (xd.check(make), xd.check(make())):
            assert report.errors == (), str(report)
            assert {one.rule for one in report} == {"dlpack-versioned"}, "unversioned, whatever is asked for"


def test_our_own():
    with xd.serve({"t": BATCH}) as server, xd.connect(server.uri) as client:
        for make in (
            lambda: client.get("t"),
            lambda: client.get("t").schema,
            lambda: next(client.get("t")),
            lambda: xd.RecordBatch(BATCH, custom_metadata={"a": "b"}),
        ):
            for report in (xd.check(make), xd.check(make())):
                assert [one for one in report if one.severity != "note"] == [], str(report)
        protocols = xd.check(lambda: client.get("t")).protocols
        assert protocols == ("dlpack", "arrow-schema", "arrow-device-stream", "arrow-stream")  # DLPack is refused
    assert list(xd.check(lambda: xd.Arena().buffer(100))) == []


@pytest.mark.parametrize(
    "of",
    [
        lambda: np.arange(6.0).reshape(2, 3),
        lambda: np.arange(6.0).reshape(2, 3).T,
        lambda: np.arange(6.0)[::-2],
        lambda: np.empty((0, 3)),
        lambda: np.array(3.0),
        lambda: np.arange(3, dtype=">i4"),
        read_only,
        lambda: b"abc",
    ],
)
def test_our_own_arrays(of):
    for report in (xd.check(lambda: xd.asarray(of())), xd.check(xd.asarray(of()))):
        # Not every array is a column.
        assert {one.rule for one in report} <= {"arrow-refuses"}, str(report)
        assert report.protocols[:4] == ("dlpack", "dlpack-exchange", "array-interface", "buffer")


def test_memory_of_devices_is_not_read():
    """A simulated device's can't be: whoever touches it ends with SIGSEGV."""
    with simulated_devices(1) as devices:
        before = devices.counters()
        for make in (
            lambda: xd.asarray(np.arange(6.0).reshape(2, 3), device="ext_dev:0"),
            lambda: xd.asarray(np.arange(3), device="ext_dev:0"),
        ):
            for report in (xd.check(make), xd.check(make())):
                assert report.ok, str(report)
                assert "dlpack" in report.protocols
        assert devices.counters() != before
        assert devices.take_faults() == []
