"""Bounds on what files and servers may ask of us."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pyarrow as pa
import pytest

import crossdock as xd

NESTED = pa.table({"n": [[[1]]], "text": ["a" * 10_000]})


def test_defaults_and_bad_ones() -> None:
    assert xd.Limits().max_depth == 64
    assert "max_decompressed_bytes=4294967296" in repr(xd.Limits())
    assert xd.Limits(max_fields=2).max_fields == 2
    for name in ("max_depth", "max_fields", "max_buffers", "max_metadata_bytes", "max_decompressed_bytes"):
        with pytest.raises(xd.InvalidArgumentError, match=f"{name} must be at least 1; it was 0"):
            xd.Limits(**{name: 0})


OVER = [
    (xd.Limits(max_depth=2), "nested deeper than 2 levels"),
    (xd.Limits(max_fields=3), "more than 3 fields"),
    (xd.Limits(max_buffers=7), "limit of 7"),
    (xd.Limits(max_metadata_bytes=64), "64"),
]


@pytest.mark.parametrize(("limits", "words"), OVER)
def test_files_over_a_limit_are_refused(tmp_path: Path, limits: xd.Limits, words: str) -> None:
    path = tmp_path / "x.arrow"
    xd.write(NESTED, path)
    with pytest.raises(xd.InvalidDataError, match=words):
        xd.open(path, limits=limits)
    with xd.serve(limits=limits) as server, pytest.raises(xd.InvalidDataError, match=words):
        server.publish("x", path)
    with xd.serve({"x": path}, limits=xd.Limits(max_depth=4, max_fields=4, max_buffers=9)) as server:
        assert xd.connect(server.uri).list()[0].rows == 1


def test_compressed_files_over_the_limit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    xd.write(NESTED, path, compression="zstd")
    limits = xd.Limits(max_decompressed_bytes=5000)
    over = pytest.raises(xd.InvalidDataError, match="limit of 5000")
    with xd.open(path, limits=limits) as reader, over:
        next(reader)
    with xd.serve(limits=limits) as server, over:
        server.publish("x", path)


@pytest.mark.parametrize("uri", ["shm:", "tcp:"])
@pytest.mark.parametrize(("limits", "words"), OVER)
def test_streams_over_a_limit_are_refused(uri: str, limits: xd.Limits, words: str) -> None:
    with xd.serve({"x": NESTED}, uri) as server, xd.connect(server.uri) as client:
        with pytest.raises(xd.InvalidDataError, match=words):
            next(client.get("x", limits=limits))
        assert pa.table(client.get("x")).equals(NESTED)


async def take(client: xd.Client, limits: xd.Limits) -> None:
    async for _ in client.aget("x", limits=limits):
        pass


def test_async_streams_have_limits() -> None:
    over = pytest.raises(xd.InvalidDataError, match="more than 1 fields")
    with xd.serve({"x": NESTED}) as server, xd.connect(server.uri) as client, over:
        asyncio.run(take(client, xd.Limits(max_fields=1)))


def test_a_name_that_no_server_takes() -> None:
    for uri in ("shm:", "tcp:"):
        with xd.serve({"x": NESTED}, uri) as server, xd.connect(server.uri) as client:
            with pytest.raises(xd.InvalidArgumentError, match="over the limit of 1048576 bytes"):
                client.get("x" * (1 << 20) + "y")
            assert pa.table(client.get("x")).equals(NESTED)
