"""Tables of a device over UCX, straight from its memory and into it: two processes, on the fake of CUDA's driver, whose
memory crashes the process that touches it by the host. UCX's own code for CUDA works on the fake as on a device."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench import _peers
from bench._children import build_tree

from crossdock import _options

DRIVER = build_tree() / "tests/fakes/cuda/driver"

SERVER = """
import ctypes, os, pathlib, sys, tempfile
import pyarrow as pa, crossdock as xd

def columns(n):
    return {
        "n": list(range(n)),
        "b": [i % 3 == 0 for i in range(n)],
        "s": [str(i) for i in range(n)],
        "d": pa.array(["a", "bb"] * (n // 2)).dictionary_encode(),
    }

def there(table, rows):
    return [xd.RecordBatch(batch).to("cuda:0") for batch in table.to_batches(max_chunksize=rows)]

table = pa.table(columns(100_000))
wide = [pa.table({f"c{i}": [i] for i in range(n)}) for n in (1500, 2500)]
# 300 columns just too small for pieces of their own, in 64 batches that a window has room for: 1.2 GB.
narrow = xd.RecordBatch(pa.record_batch({f"k{i}": [i] * 8000 for i in range(300)})).to("cuda:0")
deltas = pa.BufferOutputStream()
texts = [pa.array([f"v{i}" for i in range(n)]) for n in (3, 3, 5, 5, 9)]
words = [pa.record_batch({"w": pa.DictionaryArray.from_arrays(pa.array(range(len(t))), t)}) for t in texts]
with pa.ipc.new_stream(deltas, words[0].schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as to:
    for one in words:
        to.write_batch(one)
deltas_file = pathlib.Path(tempfile.mkdtemp(dir=sys.argv[1])) / "deltas.arrows"
deltas_file.write_bytes(deltas.getvalue())
tables = {
    "t": there(table, 30_000), "small": there(pa.table(columns(10)), 3),
    "empty": [xd.RecordBatch(pa.record_batch(columns(0))).to("cuda:0")],
    "wide": there(wide[0], 1), "wider": there(wide[1], 1),
    "views": there(pa.table({"v": pa.array(["x" * 20] * 5, pa.string_view())}), 5),
    "host": table, "large": there(pa.table(columns(1_000_000)), 125_000),
    "narrow": [narrow] * 70, "deltas": deltas_file,
}
fake = ctypes.CDLL(os.environ["CROSSDOCK_CUDA_LIBRARY"])
fake.crossdockCudaFakeFaults.restype = ctypes.c_uint64
with xd.serve(tables, "ucx://127.0.0.1:0") as server:
    first = {one["name"]: one["bytes_copied"] for one in server.stats()["sources"]}
    print(server.uri, flush=True)
    for line in sys.stdin:
        command, _, name = line.strip().partition(" ")
        if command == "copied":
            now = {one["name"]: one["bytes_copied"] for one in server.stats()["sources"]}
            print(now[name] - first[name], flush=True)
        elif command == "withdraw":
            server.withdraw(name)
            print("withdrawn", flush=True)
        elif command == "break":
            context = ctypes.c_void_p()
            assert fake.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
            fake.crossdockCudaFakeBreak(context, 700)
            print("broken", flush=True)
        elif command == "faults":
            text = ctypes.create_string_buffer(1000)
            print(fake.crossdockCudaFakeFaults(text, ctypes.c_uint64(1000)), text.value.decode(), flush=True)
"""

CLIENT = """
import ctypes, json, os, sys
import pyarrow as pa, pyarrow.compute as pc, crossdock as xd
uri, name, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
fake = ctypes.CDLL(os.environ["CROSSDOCK_CUDA_LIBRARY"])
fake.crossdockCudaFakeFaults.restype = ctypes.c_uint64
with xd.connect(uri, timeout=30) as client:
    why = {entry.name: entry.why for entry in client.list()}[name]
    if sys.argv[4:] == ["before"]:
        print("connected", flush=True)
        sys.stdin.readline()
    try:
        reader = client.get(name, **options)
        batches = [next(reader)]
        if sys.argv[4:] == ["after one"]:
            print("has one", flush=True)
            sys.stdin.readline()
        batches += reader
    except xd.Error as error:
        print(json.dumps({"error": type(error).__name__, "text": str(error)}))
        sys.exit()
    if name == "narrow":
        sums = [pc.sum(pa.record_batch(batch.to("cpu")).column(299)).as_py() for batch in batches]
        print(json.dumps({"batches": len(sums), "sums": sorted(set(sums)), "copied": reader.bytes_copied}))
        sys.exit()
    devices = sorted({str(batch.device) for batch in batches})
    copied = reader.bytes_copied
    table = pa.Table.from_batches([pa.record_batch(batch.to("cpu")) for batch in batches])
    del batches, reader
    faults = fake.crossdockCudaFakeFaults(None, ctypes.c_uint64(0))
    n = table.num_rows
    expected = {
        "n": list(range(n)), "b": [i % 3 == 0 for i in range(n)], "s": [str(i) for i in range(n)],
        "d": ["a", "bb"] * (n // 2), "v": ["x" * 20] * n, **{f"c{i}": [i] for i in range(2500)},
        "w": [f"v{i}" for k in (3, 3, 5, 5, 9) for i in range(k)],
    }
    wrong = [column for column in table.column_names if table[column].to_pylist() != expected[column]]
    print(json.dumps({
        "why": why, "devices": devices, "copied": copied, "rows": n, "bytes": table.nbytes, "wrong": wrong,
        "faults": faults,
    }))
"""


class Ends:
    """A server, and clients of it."""

    def __init__(self, script: Callable[..., Any], folder: Path) -> None:
        self.script = script
        self.server = script(SERVER, str(folder))
        self.uri = self.server.read_line()

    def ask(self, command: str) -> str:
        self.server.write_line(command)
        line: str = self.server.read_line()
        return line

    def client(self, name: str, *more: str, **options: Any) -> Any:
        return self.script(CLIENT, self.uri, name, json.dumps(options), *more)

    def get(self, name: str, **options: Any) -> dict[str, Any]:
        got: dict[str, Any] = json.loads(self.client(name, **options).finish())
        return got


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Those of processes that have the fake of CUDA's driver."""
    if not (DRIVER / "libcuda.so.1").exists():
        pytest.skip(f"no fake of CUDA's driver in {DRIVER}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(DRIVER))
    monkeypatch.setenv("CROSSDOCK_CUDA_LIBRARY", str(DRIVER / "libcuda.so.1"))
    return monkeypatch


@pytest.fixture
def ends(script: Callable[..., Any], variables: pytest.MonkeyPatch, tmp_path: Path) -> Ends:
    if (newer := _peers.newer_ucx()) is None:
        pytest.skip(f"no UCX that knows CUDA; {_peers.HOW}")
    if not (newer.parent / "ucx" / "libuct_cuda.so.0").exists():
        pytest.skip(f"the UCX in {newer.parent} knows no CUDA")
    variables.setenv("CROSSDOCK_UCX_LIBRARY", str(newer))
    return Ends(script, tmp_path)


@pytest.fixture
def ends_without(script: Callable[..., Any], variables: pytest.MonkeyPatch, tmp_path: Path) -> Ends:
    """With a UCX that knows no CUDA."""
    found = next(one for one in _options.networks() if one["transport"] == "ucx")
    if not found["found"] or not str(found["library"]).startswith(("/lib", "/usr")):
        pytest.skip(f"the system has no UCX of its own: {found}")
    variables.setenv("CROSSDOCK_UCX_LIBRARY", str(found["library"]))
    return Ends(script, tmp_path)


STRAIGHT = "straight from the memory of the source's device"


def check(got: dict[str, Any], *, device: str, copied: bool, rows: int = 100_000) -> None:
    assert "error" not in got, got
    assert got["wrong"] == []
    assert (got["devices"], got["rows"], got["faults"]) == ([device], rows, 0)
    if copied:
        assert got["copied"] >= 0.9 * got["bytes"]
    else:
        assert got["copied"] == 0


def test_bodies_go_from_device_to_device_without_a_copy_of_ours(ends: Ends) -> None:
    got = ends.get("t", device="cuda:0", validation="structure")
    check(got, device="cuda:0", copied=False)
    assert STRAIGHT in got["why"]
    assert ends.ask("copied t") == "0"
    assert ends.ask("faults").startswith("0")


def test_full_validation_looks_at_a_counted_copy(ends: Ends) -> None:
    """What comes from another machine is validated in full unless the caller says otherwise."""
    check(ends.get("t", device="cuda:0"), device="cuda:0", copied=True)


def test_a_client_without_a_device_gets_the_host_and_the_server_copies_nothing(ends: Ends) -> None:
    check(ends.get("t"), device="cpu", copied=False)
    assert ends.ask("copied t") == "0"


def test_a_table_of_the_host_is_received_on_the_device(ends: Ends) -> None:
    check(ends.get("host", device="cuda:0", validation="structure"), device="cuda:0", copied=False)


@pytest.mark.parametrize("device", ["cuda:0", None])
@pytest.mark.parametrize(("name", "rows"), [("small", 10), ("empty", 0), ("views", 5)])
def test_small_bodies(ends: Ends, device: str | None, name: str, rows: int) -> None:
    got = ends.get(name, device=device, validation="structure")
    check(got, device=device or "cpu", copied=False, rows=rows)
    assert ends.ask(f"copied {name}") == "0"


def test_another_device_than_the_servers(ends: Ends) -> None:
    check(ends.get("t", device="cuda:1", validation="structure"), device="cuda:1", copied=False)


def test_columns_are_read_from_a_copy_on_the_host(ends: Ends) -> None:
    check(ends.get("t", columns=["n"], device="cuda:0"), device="cuda:0", copied=True)
    assert int(ends.ask("copied t")) > 0


@pytest.mark.parametrize(("name", "goes_through_the_host"), [("wide", False), ("wider", True)])
def test_more_buffers_than_pieces_go_through_the_host(ends: Ends, name: str, goes_through_the_host: bool) -> None:
    check(ends.get(name, device="cuda:0", validation="structure"), device="cuda:0", copied=False, rows=1)
    assert (int(ends.ask(f"copied {name}")) > 0) == goes_through_the_host


@pytest.mark.long
def test_memory_that_ucx_does_not_reach_goes_through_the_host(ends_without: Ends) -> None:
    got = ends_without.get("t", device="cuda:0", validation="structure")
    check(got, device="cuda:0", copied=True)
    assert "a copy on the host is sent" in got["why"]
    copied = int(ends_without.ask("copied t"))
    assert copied > 0
    check(ends_without.get("t"), device="cpu", copied=False)
    assert int(ends_without.ask("copied t")) == copied, "it is made once"


def test_a_dictionary_that_grows_is_put_together_on_the_host(ends: Ends) -> None:
    """Its batches are where they were sent to, and each state of it is copied there once."""
    got = ends.get("deltas", device="cuda:0", validation="structure")
    assert got.pop("copied") > 0
    check(got | {"copied": 0}, device="cuda:0", copied=False, rows=25)
    check(ends.get("deltas"), device="cpu", copied=False, rows=25)


def test_many_small_columns_wait_for_a_slow_consumer(ends: Ends) -> None:
    """None of their bodies is over a limit of what waits, though a window has room for 1.2 GB of them."""
    client = ends.client("narrow", "after one", device="cuda:0", validation="structure")
    assert client.read_line() == "has one"
    time.sleep(2)  # so slow
    client.write_line()
    got = json.loads(client.finish())
    assert got == {"batches": 70, "sums": [299 * 8000], "copied": 0}


def test_a_lost_device_ends_its_streams_with_an_error(ends: Ends) -> None:
    """UCX ends the process if it finds that out itself, in the middle of a copy."""
    client = ends.client("t", "before", device="cuda:0", validation="structure")
    assert client.read_line() == "connected"
    assert ends.ask("break") == "broken"
    client.write_line()
    got = json.loads(client.finish())
    assert got["error"] == "RemoteError", got
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in got["text"]
    assert int(ends.ask("faults").split()[0]) == 0, "the server lives"


def test_a_table_that_is_withdrawn_lives_until_its_bodies_are_sent(ends: Ends) -> None:
    client = ends.client("large", "after one", device="cuda:0", validation="structure")
    assert client.read_line() == "has one"
    assert ends.ask("withdraw large") == "withdrawn"
    client.write_line()
    check(json.loads(client.finish()), device="cuda:0", copied=False, rows=1_000_000)
    assert ends.ask("faults").startswith("0")
