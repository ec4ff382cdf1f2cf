"""Tensors served by name: every type and layout, nested dictionaries, memory of the caller's, devices, and names of
bytes; in one process and in two."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import OrderedDict
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest

import crossdock as xd

URIS = ("shm:", "tcp:")


@pytest.fixture(params=URIS)
def server(request):
    with xd.serve(uri=request.param) as server:
        yield server


@pytest.fixture
def client(server):
    with xd.connect(server.uri) as client:
        yield client


def copied(server: xd.Server) -> int:
    return sum(source["bytes_copied"] for source in server.stats()["sources"])


ARRAYS = {
    "bool": np.array([[True, False], [False, True]]),
    "float16": np.arange(5, dtype="f2"),
    "float64": np.arange(24.0).reshape(2, 3, 4),
    "complex64": np.array([1 + 2j, 3 - 4j], "c8"),
    "complex128": np.arange(4) * (1 + 1j),
    "big-endian": np.arange(7, dtype=">i4"),
    "0-d": np.array(7, "u1"),
    "empty": np.empty((3, 0, 2), "f4"),
    "transposed": np.arange(12).reshape(3, 4).T,
    "strided": np.arange(100, dtype="i2")[3::7],
    "a part": np.arange(100).reshape(10, 10)[2:5, 4:8],
    "backwards": np.arange(10)[::-1],
    "broadcast": np.broadcast_to(np.arange(3), (4, 3)),
    "dates": np.array(["2026-11-27", "NaT"], "M8[D]"),
    "durations": np.array([1, 2], "m8[ns]"),
    "bytes": np.array([b"a", b"bcd"]),
    "text": np.array(["ä", "bcd"]),
    "a scalar": np.float32(2.5),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_every_kind(server, client, name):
    array = ARRAYS[name]
    server.publish("it", array)
    tensor = client.tensor("it")
    assert tensor.shape == array.shape
    assert tensor.dtype == array.dtype
    assert tensor.readonly
    result = np.asarray(tensor)
    assert result.dtype == array.dtype
    assert np.array_equal(result, array) or name == "dates"
    assert result.tobytes() == array.tobytes()


def test_what_other_libraries_have(server, client):
    torch = pytest.importorskip("torch")
    for tensor in (
        torch.arange(6, dtype=torch.bfloat16).reshape(2, 3),
        torch.arange(6, dtype=torch.float32).reshape(2, 3).T,
        torch.tensor([1, 2], dtype=torch.float8_e5m2),
        torch.tensor(True),
    ):
        server.publish("it", tensor, replace=True)
        received = torch.from_dlpack(client.tensor("it"))
        assert received.dtype == tensor.dtype
        assert received.shape == tensor.shape
        assert torch.equal(received.view(torch.uint8) if received.dtype.itemsize == 1 else received,
                           tensor.view(torch.uint8) if tensor.dtype.itemsize == 1 else tensor)  # fmt: skip


@pytest.mark.parametrize(
    "source", [memoryview(b"abc"), bytearray(b"abc"), b"abc"], ids=lambda source: type(source).__name__
)
def test_buffers_are_arrays(server, client, source):
    server.publish("it", source)
    assert bytes(client.tensor("it")) == b"abc"


def test_arrays_with_arrow_methods_are_tables_unless_it_is_said(server, client):
    server.publish("column", pa.array([1, 2, 3]))
    server.publish("tensor", pa.array([1, 2, 3]), mode="tensor")
    server.publish("ours", xd.asarray(np.arange(3)))
    server.publish("ours as a column", xd.asarray(np.arange(3)), mode="table")
    assert {entry.name: entry.kind for entry in client.list()} == {
        "column": "table",
        "ours": "tensor",
        "ours as a column": "table",
        "tensor": "tensor",
    }
    assert client.tensor("tensor").tolist() == [1, 2, 3]
    assert pa.table(client.get("ours as a column")).num_rows == 3


def test_a_tensor_is_copied_once_and_an_arenas_not(server, client):
    server.publish("heap", np.arange(1000))
    arena = xd.Arena()
    array = arena.empty(1000, "i8")
    array[:] = np.arange(1000)
    server.publish("arena", array)
    for _ in range(3):
        assert np.array_equal(client.tensor("heap"), client.tensor("arena"))
    sources = {source["name"]: source for source in server.stats()["sources"]}
    assert (sources["heap"]["bytes_copied"], sources["arena"]["bytes_copied"]) == (8000, 0)
    assert sources["heap"]["rows"] is None
    assert sources["heap"]["bytes"] == 8000


def test_nobody_copies_what_is_mapped():
    with xd.serve({"it": np.arange(100_000)}) as server, xd.connect(server.uri) as client:
        _, bytes_copied = client._native.tensor(b"it", None, None, "auto", -1, xd.Limits(), False)
        assert bytes_copied == 0
        one, other = np.asarray(client.tensor("it")), np.asarray(client.tensor("it"))
        assert one.ctypes.data == other.ctypes.data, "both are in the server's memory"
        (consumer,) = {stats["way"] for stats in server.stats()["consumers"]}
        assert consumer == "map"


def test_a_pools_memory_is_lent(server, client):
    array = xd.Pool().empty(1 << 16, "f4")
    array[:] = 1
    server.publish("it", array)
    assert copied(server) == 0
    assert np.asarray(client.tensor("it")).sum() == 1 << 16


MODEL = OrderedDict(
    {
        "layers": {
            "0": {"weight": np.arange(6.0).reshape(2, 3), "bias": np.ones(2)},
            "1": {"weight": np.zeros((2, 2))},
        },
        'odd key.with "dots" [0]': {"": np.array(True), "é\n☃": np.arange(3)},
        "step": np.array(7),
    }
)


def same(one, other) -> bool:
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return np.array_equal(one, other) and np.asarray(one).dtype == np.asarray(other).dtype


def test_a_table_among_arrays_is_told_what_to_do(server):
    table = pa.table({"x": [1], "y": [2]})
    with pytest.raises(xd.ExportError) as caught:
        server.publish("both", {"weights": {"a": np.ones(3), "b": table}})
    notes = " ".join(caught.value.__notes__)
    assert "['weights']['b']" in notes
    assert "a table needs a name of its own" in notes


def test_nested_dictionaries_come_back_in_their_nesting(server, client):
    server.publish("model", MODEL)
    received = client.tensors("model")
    assert type(received) is dict
    assert same(received, dict(MODEL))
    (entry,) = client.list()
    assert (entry.kind, entry.count, entry.dtype, entry.shape) == ("tensors", 6, None, None)
    assert (
        entry.bytes
        == sum(np.asarray(a).nbytes for a in (*received["layers"]["0"].values(), received["step"])) + 32 + 1 + 24
    )


def test_a_state_dict(server, client):
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    server.publish("model", model.state_dict())
    received = {name: torch.from_dlpack(tensor).clone() for name, tensor in client.tensors("model").items()}
    other = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    other.load_state_dict(received)
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True))


@pytest.mark.parametrize(
    ("source", "error", "text"),
    [
        ({}, xd.InvalidArgumentError, "is empty"),
        ({"a": {"b": {}}}, xd.InvalidArgumentError, r"\['a'\]\['b'\] is empty"),
        ({"a": {3: np.ones(1)}}, xd.InvalidArgumentError, r"the key 3 in \['a'\] is no str"),
        ({"a": {"b": "x.arrow"}}, xd.UnsupportedTypeError, r"\['a'\]\['b'\] can't be served"),
        ({"a": np.array([None])}, xd.UnsupportedTypeError, r"\['a'\]"),
        (np.zeros(2, [("x", "i4"), ("y", "f8")]), xd.UnsupportedTypeError, "structures"),
        (np.ma.masked_array([1, 2], [True, False]), xd.UnsupportedError, "mask"),
    ],
)
def test_what_cant_be_served(server, source, error, text):
    with pytest.raises(error, match=text):
        server.publish("it", source)
    assert server.stats()["sources"] == []


def test_a_cycle_is_refused(server):
    cycle: dict[str, object] = {}
    cycle["again"] = cycle
    with pytest.raises(xd.InvalidArgumentError, match="nested more than 64 deep"):
        server.publish("it", cycle)


def sparse_arrays() -> list[object]:
    dense = np.eye(3)
    made: list[object] = [pa.SparseCOOTensor.from_dense_numpy(dense)]
    with suppress(ImportError):
        import torch

        made += [torch.eye(3).to_sparse(), torch.eye(3).to_sparse_csr()]
    # SciPy's and PyData's have no protocol of arrays: they are told by their modules.
    made.append(type("csr_matrix", (), {"__module__": "scipy.sparse._csr"})())
    made.append(type("COO", (), {"__module__": "sparse.numba_backend._coo.core"})())
    return made


def test_sparse_arrays_are_refused_by_name(server):
    for sparse in sparse_arrays():
        with pytest.raises(xd.UnsupportedTypeError, match=r"(?i)sparse"):
            server.publish("it", sparse)
        with pytest.raises(xd.UnsupportedTypeError, match=r"(?i)\['a'\].*sparse"):
            server.publish("it", {"a": sparse})


def test_a_wrong_call_says_which_is_right(server, client):
    server.publish("table", pa.table({"x": [1]}))
    server.publish("tensor", np.ones(3))
    server.publish("model", {"a": np.ones(3)})
    for call, wrong, right in (
        (client.get, "tensor", r"a tensor: tensor\(\)"),
        (client.get, "model", r"several tensors: tensors\(\)"),
        (client.tensor, "table", r"a table: get\(\)"),
        (client.tensors, "table", r"a table: get\(\)"),
        (client.tensor, "model", r"tensors\(\) reads them"),
        (client.tensors, "tensor", r"tensor\(\) reads it"),
    ):
        with pytest.raises(xd.InvalidArgumentError, match=right):
            call(wrong)
    with pytest.raises(xd.NotFoundError):
        client.tensor("nothing")
    assert client.tensor("tensor").tolist() == [1, 1, 1], "the client goes on"


def received_into(client, name: str, out) -> int:
    """Receives into `out`, and returns the bytes that were copied for it."""
    tensor, bytes_copied = client._native.tensor(name.encode(), xd.asarray(out), None, "auto", -1, xd.Limits(), False)
    assert np.shares_memory(np.asarray(tensor), out)
    return bytes_copied


@pytest.mark.parametrize("size", [3, 1000, 250_001])
def test_out_is_received_straight_or_by_one_copy(server, client, size):
    array = np.arange(size, dtype="f4")
    server.publish("it", array)
    out = np.zeros(size, "f4")
    bytes_copied = received_into(client, "it", out)
    assert np.array_equal(out, array)
    assert bytes_copied == (0 if server.uri.startswith("tcp:") else array.nbytes)


def test_out_of_another_order(server, client):
    array = np.arange(60_000).reshape(200, 300)
    server.publish("c", array)
    server.publish("f", np.asfortranarray(array))
    straight = server.uri.startswith("tcp:")
    for name, order, none in (("c", "C", True), ("c", "F", False), ("f", "F", True), ("f", "C", False)):
        out = np.zeros((200, 300), int, order=order)
        bytes_copied = received_into(client, name, out)
        assert np.array_equal(out, array)
        # Received in its own order, or copied once: from the server's memory, or from where it was received.
        assert bytes_copied == (0 if straight and none else array.nbytes), (name, order)
    wide = np.zeros((200, 900), int)
    received_into(client, "c", wide[::-1, 1::3])
    assert np.array_equal(wide[::-1, 1::3], array)
    assert wide[:, 0::3].sum() == wide[:, 2::3].sum() == 0


def test_out_must_fit(server, client):
    server.publish("it", np.arange(100_000.0))
    right = np.full(100_000, -1.0)
    for wrong in (np.zeros((1, 100_000)), np.zeros(100_000, "f4"), np.zeros(100_000, ">f8"), np.zeros(99_999)):
        wrong[...] = -1
        with pytest.raises(xd.InvalidArgumentError, match="but the memory to receive it in is of type"):
            client.tensor("it", out=wrong)
        assert (wrong == -1).all()
    with pytest.raises(xd.InvalidArgumentError, match="read-only"):
        client.tensor("it", out=np.broadcast_to(0.0, (100_000,)))
    with pytest.raises(xd.InvalidArgumentError, match="is wanted on"):
        client.tensor("it", out=right, device="ext_dev:0")
    with pytest.raises(xd.InvalidArgumentError, match="copy on write"):
        client.tensor("it", out=right, writable="copy-on-write")
    with pytest.raises(xd.UnsupportedTypeError):
        client.tensor("it", out=[0.0])
    assert client.tensor("it", out=right).shape == (100_000,)
    assert right[-1] == 99_999


def test_copy_on_write(server, client):
    server.publish("it", np.arange(10_000))
    mine = np.asarray(client.tensor("it", writable="copy-on-write"))
    mine[5] = -1
    assert np.asarray(client.tensor("it"))[5] == 5
    model = {"a": np.arange(10)}
    server.publish("model", model)
    np.asarray(client.tensors("model", writable="copy-on-write")["a"])[:] = 0
    assert client.tensors("model")["a"].tolist() == [*range(10)]
    with pytest.raises(xd.InvalidArgumentError, match="writable"):
        client.tensor("it", writable=True)


def test_times(server, client):
    server.publish("it", np.arange(3), times=1)
    client.tensor("it")
    with pytest.raises(xd.NotFoundError):
        client.tensor("it")


def test_a_tensor_outlives_its_client_and_its_server():
    with xd.serve({"it": np.arange(5000)}) as server, xd.connect(server.uri) as client:
        tensor = client.tensor("it")
    array = np.asarray(tensor)
    del tensor
    assert np.array_equal(array, np.arange(5000))


def test_the_lease_is_the_arrays():
    with xd.serve({"it": np.arange(5000)}) as server, xd.connect(server.uri) as client:
        array = np.asarray(client.tensor("it"))
        (held,) = [one["leases"] for one in server.stats()["consumers"]]
        assert held == 1
        del array
        client.tensor("it")  # what was freed before reaches the server with a request, at the latest
        assert sum(one["leases"] for one in server.stats()["consumers"]) <= 1


def test_limits(server, client):
    server.publish("model", {str(i): np.ones(1) for i in range(10)})
    with pytest.raises(xd.ResourceError, match="more than 9 tensors"):
        client.tensors("model", max_tensors=9)
    assert len(client.tensors("model", max_tensors=10)) == 10


def test_for_asyncio(server, client):
    server.publish("it", np.arange(10))
    server.publish("model", {"a": {"b": np.ones(2)}})

    async def get():
        out = np.zeros(10, int)
        await client.atensor("it", out=out)
        return out, (await client.atensor("it")).tolist(), await client.atensors("model")

    out, values, model = asyncio.run(get())
    assert out.tolist() == values == [*range(10)]
    assert model["a"]["b"].tolist() == [1, 1]


def test_two_connections():
    with xd.serve({"it": np.arange(50_000)}, ["shm:", "tcp:"]) as server:
        shm, tcp = server.uris
        for metadata, data in ((shm, tcp), (tcp, shm)):
            with xd.connect(metadata=metadata, data=data) as client:
                assert np.array_equal(client.tensor("it"), np.arange(50_000))
                out = np.zeros(50_000, int)
                assert received_into(client, "it", out) == (0 if data == tcp else out.nbytes)
                assert out[-1] == 49_999


NAMES = [b"\x00\x01", b"\xff", "\\x00\\x01", "b'\\x00\\x01'", "a b", "ünï ☃", b"a\nb\x00"]


def test_names_of_bytes(server, client):
    for i, name in enumerate(NAMES):
        server.publish(name, pa.table({"x": [i]}) if i % 2 else np.array(i))
    for i, name in enumerate(NAMES):
        got = pa.table(client.get(name))["x"][0].as_py() if i % 2 else client.tensor(name).item()
        assert got == i
    assert {entry.name for entry in client.list()} == set(NAMES)
    assert {source["name"] for source in server.stats()["sources"]} == set(NAMES)
    for name in NAMES:
        server.withdraw(name)
        with pytest.raises(xd.NotFoundError):
            client.get(name)


def test_bytes_that_are_text_are_the_text(server, client):
    server.publish(b"text", np.ones(1))
    assert [entry.name for entry in client.list()] == ["text"]
    assert client.tensor("text").item() == client.tensor(b"text").item() == 1
    with pytest.raises(xd.InvalidArgumentError, match="already"):
        server.publish("text", np.ones(1))
    with pytest.raises(xd.InvalidArgumentError, match="give it as bytes"):
        server.publish("a\0b", np.ones(1))
    with pytest.raises(xd.InvalidArgumentError, match="empty"):
        server.publish(b"", np.ones(1))
    with pytest.raises(xd.InvalidArgumentError, match="empty"):
        client.tensor(b"")


SERVE = """
import sys
import numpy as np
import crossdock as xd
sources = {"it": np.arange(200_000), "model": {"a": {"b": np.ones(3)}}, b"\\x00": np.zeros(2)}
with xd.serve(sources, sys.argv[1]) as server:
    print(server.uri, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("uri", URIS)
def test_from_another_process(uri):
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        with xd.connect(process.stdout.readline().strip()) as client:
            tensor = client.tensor("it")
            out = np.zeros(200_000, int)
            client.tensor("it", out=out)
            assert client.tensors("model")["a"]["b"].tolist() == [1, 1, 1]
            assert client.tensor(b"\x00").shape == (2,)
        process.communicate(timeout=20)  # closes its input, which ends it
    assert np.array_equal(tensor, np.arange(200_000))
    assert np.array_equal(out, np.arange(200_000))


# ---- devices ----


def there(array, device: str = "sim:1") -> xd.Tensor:
    return xd.asarray(array).to(device)


def test_a_tensor_on_a_device_is_opened_there(simulated_devices):
    with xd.serve({"it": there(np.arange(1000).reshape(10, 100))}) as server, xd.connect(server.uri) as client:
        assert copied(server) == 8000
        (entry,) = client.list()
        assert (entry.device, entry.shape) == ("ext_dev:1", (10, 100))
        before = simulated_devices.counters()
        for _ in range(2):
            tensor, bytes_copied = client._native.tensor(b"it", None, "sim:1", "auto", -1, xd.Limits(), False)
            assert tensor.device == "sim:1"
            assert tensor.readonly
            assert bytes_copied == 0
        after = simulated_devices.counters()
        assert (after["copy"], after["allocate"]) == (before["copy"], before["allocate"])
        assert np.array_equal(tensor.to("cpu"), np.arange(1000).reshape(10, 100))


def test_a_devices_arena_is_handed_over(simulated_devices):
    arena = xd.Arena(device="sim:1")
    tensor = arena.tensor((10, 100), "i8").copy_from(np.arange(1000).reshape(10, 100))
    with xd.serve({"it": tensor}) as server, xd.connect(server.uri) as client:
        assert copied(server) == 0
        assert np.array_equal(client.tensor("it", device="sim:1").to("cpu"), np.arange(1000).reshape(10, 100))


@pytest.mark.parametrize("uri", URIS)
def test_others_get_one_copy_on_the_host(simulated_devices, uri):
    with xd.serve({"it": there(np.arange(1000))}, uri) as server, xd.connect(server.uri) as client:
        for _ in range(2):
            tensor = client.tensor("it")
            assert tensor.device == "cpu"
            assert np.array_equal(tensor, np.arange(1000))
        assert copied(server) == 16_000


@pytest.mark.parametrize("uri", URIS)
def test_a_host_tensor_is_brought_to_a_device(simulated_devices, uri):
    with xd.serve({"it": np.arange(1000), "model": {"a": np.ones(3)}}, uri) as server, xd.connect(server.uri) as client:
        tensor = client.tensor("it", device="sim:0")
        assert tensor.device == "sim:0"
        assert np.array_equal(tensor.to("cpu"), np.arange(1000))
        assert client.tensors("model", device="sim:0")["a"].device == "sim:0"


@pytest.mark.parametrize("uri", URIS)
@pytest.mark.parametrize("source", ["host", "device"])
@pytest.mark.parametrize("target", ["cpu", "sim:0", "sim:1"])
def test_out_on_every_device(simulated_devices, uri, source, target):
    array = np.arange(1000).reshape(10, 100)
    with (
        xd.serve({"it": array if source == "host" else there(array)}, uri) as server,
        xd.connect(server.uri) as client,
    ):
        out = xd.empty((10, 100), "i8", device=target)
        tensor, bytes_copied = client._native.tensor(b"it", out, None, "auto", -1, xd.Limits(), False)
        assert tensor.device == target
        assert np.array_equal(tensor.to("cpu"), array)
        straight = uri == "tcp:" and target == "cpu"
        # What comes to the host by value is copied to the device once.
        assert bytes_copied == (0 if straight else array.nbytes)


def test_gaps_on_a_device_are_left_out_by_one_copy(simulated_devices):
    tensor = there(np.arange(1000).reshape(10, 100))[:, ::50]
    transposed = there(np.arange(6).reshape(2, 3)).T
    with xd.serve({"part": tensor, "transposed": transposed}) as server, xd.connect(server.uri) as client:
        assert copied(server) == 20 * 8 + 48
        received = client.tensor("transposed", device="sim:1")
        assert received.strides == (8, 24)
        assert received.to("cpu").tolist() == np.arange(6).reshape(2, 3).T.tolist()
        expected = np.arange(1000).reshape(10, 100)[:, ::50].tolist()
        assert client.tensor("part", device="sim:1").to("cpu").tolist() == expected


def test_pending_work_comes_first(simulated_devices):
    queue = xd.Queue.new("sim:1")
    tensor = xd.asarray(np.arange(100_000)).to("sim:1", queue=queue)
    with xd.serve({"it": tensor}) as server, xd.connect(server.uri) as client:
        assert np.array_equal(client.tensor("it", device="sim:1").to("cpu"), np.arange(100_000))
        out = xd.empty(100_000, "i8", device="sim:1", queue=queue)
        client.tensor("it", out=out)
        assert np.array_equal(out.to("cpu"), np.arange(100_000))


def test_work_that_fails_publishes_nothing(simulated_devices):
    arena = xd.Arena(device="sim:1")
    queue = xd.Queue.new("sim:1")
    simulated_devices.fail_work()
    tensor = arena.tensor(8, "i8", queue=queue).copy_from(np.arange(8), queue=queue)
    with xd.Server() as server:
        with pytest.raises(xd.Error, match="arranged"):
            server.publish("it", tensor)
        assert server.stats()["sources"] == []
    assert not arena.frozen


def test_an_out_with_gaps_on_a_device_is_refused(simulated_devices):
    out = xd.empty(10, "i8", device="sim:0")[::2]
    with (
        xd.serve({"it": np.arange(5)}) as server,
        xd.connect(server.uri) as client,
        pytest.raises(xd.InvalidArgumentError, match="in C order"),
    ):
        client.tensor("it", out=out)
