"""The examples do what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.children import Child
from tests.gpus import has_gpu

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
BUILD = Path(os.environ.get("CROSSDOCK_BUILD_DIR", ROOT / "build" / "dev"))


@pytest.fixture(params=["fake", "gpu"])
def cuda(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test starts finds the fake of CUDA's library in its place, whose streams are slow; or a GPU."""
    if request.param == "gpu":
        monkeypatch.delenv("CROSSDOCK_CUDA_LIBRARY", raising=False)
        if not has_gpu():
            pytest.skip("needs a GPU with CUDA's driver library")
        return
    monkeypatch.setenv("CROSSDOCK_CUDA_LIBRARY", str(BUILD / "tests/fakes/cuda/libcuda_fake.so"))
    monkeypatch.setenv("CROSSDOCK_CUDA_FAKE_DELAY_US", "5000")


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_serve_and_get():
    serving = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "serve_table.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert serving.stdout is not None
        uri = serving.stdout.readline().strip()
        out = run("get_table.py", uri, "weather")
        assert "'weather': 3 rows" in out
        assert "JFK" in out
    finally:
        serving.communicate("\n", timeout=60)
    assert serving.returncode == 0


def test_relay():
    assert run("relay.py").splitlines() == [
        "one: [21.5, 17.0]",
        "other: [21.5, 17.0]",
        "later: [19.0, 16.0]",
        "fetches: 2 hits: 1",
    ]


def test_tensors():
    assert run("tensors.py").splitlines() == [
        "'embedding': tensor, 256000 bytes",
        "'model': tensors, 44 bytes",
        "'weight': tensor, 24 bytes",
        "rows: 1000 writable: False",
        "bias: [1. 1. 1.]",
        "weight: [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]",
        "copied: {'embedding': 0, 'model': 44, 'weight': 24}",
    ]


@pytest.mark.long
def test_exports():
    pytest.importorskip("torch")
    out = run("exports.py").splitlines()
    assert out[0] == "both write to the same memory: [[0.0, 0.0], [0.5, 1.5], [2.5, 0.0]]"
    assert out[1].endswith("of 3 rows, no copy: True")
    assert re.fullmatch("right by [56] protocols: True", out[3])
    assert [*out[2:3], *out[4:]] == [
        "a host array says nothing of CUDA: True",
        "from malloc(): [0, 0] freed: False",
        "freed: True",
    ]


@pytest.mark.long
def test_dask_cluster():
    pytest.importorskip("distributed")
    out = run("dask_cluster.py")
    assert out.count("station") == 3
    assert "np.float64(1000000.0), np.float64(1000000.0)" in out


@pytest.mark.long
def test_workers():
    out = run("workers.py")
    assert len(out.splitlines()) == 9
    assert "[-1. -1. -1.  9. 16.]" in out


def test_peers():
    assert run("peers.py").splitlines() == [
        "sent by address: 8000000 bytes, copied: 0",
        "received: (1000, 1000), all 42.0: True",
    ]


@pytest.mark.parametrize(
    ("example", "package", "said"),
    [
        ("query_table.py", "duckdb", "this needs DuckDB and polars: pip install duckdb polars\n"),
        ("parts_of_a_table.py", "polars", "this needs DuckDB and polars: pip install duckdb polars\n"),
        ("dask_cluster.py", "distributed", "this needs Dask: pip install distributed\n"),
        ("ray_actors.py", "ray", "this needs Ray: pip install ray\n"),
        ("exports.py", "torch", "this needs torch: pip install torch\n"),
        ("workers.py", "pandas", "this needs pandas: pip install pandas\n"),
    ],
)
def test_an_example_without_its_library_says_what_to_install(example, package, said):
    program = f"import runpy, sys; sys.modules[{package!r}] = None; runpy.run_path({str(EXAMPLES / example)!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


@pytest.mark.long
def test_query_table():
    assert run("query_table.py").splitlines() == [
        "DuckDB: [(99, 26.25)]",
        "polars: [(99, 26.25)]",
        "polars reads the same memory: True",
    ]


@pytest.mark.long
def test_parts_of_a_table():
    assert run("parts_of_a_table.py").splitlines() == [
        f"rows: {list(range(499_995, 500_005))}",
        "filter: 360",
        "DuckDB: [(0, 5), (1, 5)]",
        "polars: 10",
    ]


@pytest.mark.long
def test_twohosts(monkeypatch):
    monkeypatch.setenv("CROSSDOCK_TOKEN", "a secret of both machines")
    serving = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "twohosts/serve.py"), "tcp://127.0.0.1:0"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert serving.stdout is not None
        out = run("twohosts/get.py", serving.stdout.readline().strip())
        assert "JFK" in out
        assert "10.25" in out
    finally:
        serving.communicate("\n", timeout=60)
    assert serving.returncode == 0


@pytest.mark.parametrize("name", ["serve.py", "get.py"])
def test_twohosts_without_an_address(name):
    command = [sys.executable, str(EXAMPLES / "twohosts" / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert re.fullmatch(rf"usage: CROSSDOCK_TOKEN=SECRET python {name} .*\n", done.stderr)


@pytest.mark.parametrize("name", ["serve.py", "get.py"])
def test_twohosts_without_a_token(name, monkeypatch):
    monkeypatch.delenv("CROSSDOCK_TOKEN", raising=False)
    command = [sys.executable, str(EXAMPLES / "twohosts" / name), "tcp://127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (
        1,
        "CROSSDOCK_TOKEN isn't set: set it to the same secret on both machines, as this folder's README.md says\n",
    )


def test_arena():
    assert run("arena.py").splitlines() == ["8000000 bytes served, 0 copied", "read-only now: True", "equal: True"]


def test_live_stream():
    lines = run("live_stream.py").splitlines()
    assert len(lines) == 5
    assert lines[-1] == "10 rows, the last is 2401"


def test_files(tmp_path):
    assert run("files.py", str(tmp_path)).splitlines() == [
        "compressed is smaller: True",
        "5 batches, 5000 rows",
        "the last value: 4999",
        "equal: True",
        "equal: True",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain.arrow", "small.arrow"]


def test_cuda_array_interface(cuda):
    assert run("cuda_array_interface.py").splitlines() == [
        "the kernel's values: True",
        "no copy: True, on its stream: True",
        "kept by asarray: True",
        "kept by from_cuda_array_interface: True",
        "still there: True",
        "gone with its last view: True",
    ]


def test_cuda_producer(cuda):
    program = BUILD / "examples/cpp/cuda_producer"
    done = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == ["array: 1000 rows, 1", "chunk: 1 2 3", "chunk: 4 5", "chunk: 6 7 8 9"]


CPP = BUILD / "examples/cpp"


def run_cpp(name: str, *arguments: str) -> list[str]:
    command = [str(CPP / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()


@pytest.mark.long
def test_cpp_server_and_clients():
    server = [str(CPP / "table_server")]
    with Child(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        uri = serving.stdout.readline().strip()
        rows = ["JFK 12:0 11.5", "LGA 12:0 unknown", "EWR 12:30 10.25", "JFK 12:30 12"]
        assert run_cpp("table_client", uri) == ["weather: 4 rows", *rows, "mean 11.25"]
        assert run_cpp("coroutines", uri) == ["4 rows, and 4 rows"]
        assert "JFK" in run("get_table.py", uri, "weather")
        serving.communicate("\n", timeout=60)
    assert serving.returncode == 0


def test_cpp_two_processes():
    assert run_cpp("two_processes") == ["5000 rows, the last 24990001"]


def _has_sycl() -> bool:
    try:
        import dpctl
    except ImportError:
        return False
    return bool(dpctl.get_devices())


needs_sycl = pytest.mark.skipif(not _has_sycl(), reason="no SYCL run time with a device here")


@needs_sycl
def test_sycl_usm_array_interface():
    assert run("sycl_usm_array_interface.py").splitlines() == [
        "taken: (2, 3) of float32, device memory",
        "no copy: True, on its queue: True",
        "given on, no copy: True, on its queue: True",
        "the sum of the second row: 12.0",
        "the sum of a part: 10.0, free places: 1",
        "after the last view: 2",
    ]


@needs_sycl
def test_offload():
    lines = run("offload/tour.py").splitlines()
    calls = [line for line in lines if " on " in line and "copied: " in line]
    assert len(calls) == 15
    copied = [line for line in calls if "copied: nothing" not in line]
    assert len(copied) == 1  # the array of the host, on purpose
    assert "NumPy's array" in copied[0]
    assert any("ExecutionPlacementError: array 0 is on queue" in line for line in lines)
    assert any("BufferError" in line and '.to("cpu")' in line for line in lines)
    assert lines[-1].startswith("Next: ")


@needs_sycl
def test_offload_sees_what_is_copied():
    """A package that copies what it is given is found out, by the addresses that it computes from."""
    script = """
import dpkit, dpnp, tour
dpkit._view = lambda array, view=dpkit._view: dpnp.copy(view(array))
tour.main()
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLES / "offload"), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=env)
    (line,) = [line for line in done.stdout.splitlines() if "1: gemm(queue, a, b)" in line][:1]
    assert "copied: array 1, 2" in line


@needs_sycl
@pytest.mark.parametrize(("where", "why"), [("host", "both packages are SYCL's"), ("cpu:99", "no device matches")])
def test_offload_elsewhere_ends_with_one_line(where, why):
    command = [sys.executable, str(EXAMPLES / "offload/tour.py"), where]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert why in line


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["offlaod"], "./dev run knows offload, not 'offlaod'"),
        (["offload", "gpux"], "'gpux' is unknown"),
        (["offload", "cuda:1,host"], "names no device of SYCL"),
        (["offload", ":"], "all of its parts are empty"),
        (["offload", "cpu", "gpu"], "one filter string"),
    ],
)
def test_dev_run_refuses_before_it_builds(arguments, why):
    done = subprocess.run(
        [sys.executable, ROOT / "dev", "run", *arguments], capture_output=True, text=True, check=False, timeout=20
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert why in done.stderr
    assert len(done.stderr.splitlines()) == 1


@needs_sycl
def test_clkit_in_all_five_ways():
    done = subprocess.run(
        [BUILD / "examples/offload/clkit/clkit_ways"], capture_output=True, text=True, check=True, timeout=60
    )
    assert [line.split(":")[1] for line in done.stdout.splitlines()] == [" right"] * 5
