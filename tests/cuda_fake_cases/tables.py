"""Tables in CUDA memory, handed to another process by CUDA's memory handles."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from tests.children import Child
from tests.cuda_fake_cases.cuda_array import CUDA, counted, no_faults

import crossdock as xd

__all__ = ["no_faults"]

pytestmark = counted

BATCH = pa.record_batch({"n": list(range(5000)), "s": [str(n) for n in range(5000)]})

SERVER = """if True:
    import sys, pyarrow as pa, crossdock as xd
    batch = pa.record_batch({"n": list(range(5000)), "s": [str(n) for n in range(5000)]})
    with xd.serve({"t": [xd.RecordBatch(batch).to("cuda:0")] * 8}) as server:
        print(server.uri, flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def uri():
    with Child([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()


def test_each_region_is_opened_once_and_nothing_is_copied(uri):
    copies = ("cuMemcpyAsync", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2", "cuMemcpyHtoDAsync_v2", "cuMemAlloc_v2")
    with xd.connect(uri) as client:
        before = {name: CUDA.calls(name) for name in copies}
        opened = CUDA.calls("cuIpcOpenMemHandle_v2")
        for round_ in range(3):
            reader = client.get("t", device="cuda:0")
            batches = list(reader)
            assert [batch.device for batch in batches] == ["cuda:0"] * 8
            assert reader.bytes_copied == 0
            # Memory for one batch, for as much again, twice that, and so on.
            first, opened = opened, CUDA.calls("cuIpcOpenMemHandle_v2")
            assert opened - first == (4 if round_ == 0 else 3), "that of the held batch stays open"
            held = batches[5]
            del batches, reader
        assert {name: CUDA.calls(name) for name in copies} == before
        assert pa.record_batch(held.to("cpu")).equals(BATCH)


def test_what_is_held_isnt_opened_again(uri):
    with xd.connect(uri) as client:
        first = list(client.get("t", device="cuda:0"))
        opened = CUDA.calls("cuIpcOpenMemHandle_v2")
        second = list(client.get("t", device="cuda:0"))
        assert CUDA.calls("cuIpcOpenMemHandle_v2") == opened
        for one, other in zip(first, second, strict=True):
            assert pa.record_batch(one.to("cpu")).equals(pa.record_batch(other.to("cpu")))


def test_a_consumer_without_the_device_gets_the_hosts_copy(uri):
    with xd.connect(uri) as client:
        opened = CUDA.calls("cuIpcOpenMemHandle_v2")
        assert pa.table(client.get("t")).to_batches() == [BATCH] * 8
        assert CUDA.calls("cuIpcOpenMemHandle_v2") == opened


ARENA_SERVER = """if True:
    import ctypes, sys, crossdock as xd
    arena = xd.Arena(1 << 20, device="cuda:0")
    columns = [arena.tensor(5000, "i8") for _ in range(4)]
    for n, column in enumerate(columns):
        column.copy_from((ctypes.c_int64 * 5000)(*range(n, n + 5000)))
    assert columns[0].__cuda_array_interface__["data"] == (columns[0].pointer, False)
    with xd.serve({"t": [xd.RecordBatch(column.to_arrow()) for column in columns]}) as server:
        print(server.stats()["sources"][0]["bytes_copied"], flush=True)
        print(server.uri, flush=True)
        sys.stdin.read()
"""


def test_a_table_in_an_arena_is_one_region_and_never_copied():
    with Child(
        [sys.executable, "-c", ARENA_SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline().strip() == "0"
        with xd.connect(server.stdout.readline().strip()) as client:
            opened = CUDA.calls("cuIpcOpenMemHandle_v2")
            reader = client.get("t", device="cuda:0")
            batches = list(reader)
            assert CUDA.calls("cuIpcOpenMemHandle_v2") - opened == 1
            assert reader.bytes_copied == 0
            for n, batch in enumerate(batches):
                assert pa.record_batch(batch.to("cpu"))[0].to_pylist() == list(range(n, n + 5000))
