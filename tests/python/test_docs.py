"""The README's examples run. What can be seen of all pages without running anything, tools/check_docs.py sees."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from tests.pages import ROOT, blocks, runs

import crossdock as xd

BUILD = Path(os.environ.get("CROSSDOCK_BUILD_DIR", ROOT / "build" / "dev"))


@runs("python", "README.md", 0)
def test_the_readmes_first_example_is_that_of_the_first_page():
    """Which test_the_first_page runs."""
    assert blocks("python", "README.md")[0] == blocks("python", "docs/index.md")[0]


@runs("python", "README.md", 1, 2)
def test_the_readmes_arrays():
    arrays, queues = blocks("python", "README.md")[1:3]
    names: dict[str, object] = {}
    exec(arrays, names)
    exec(queues, names)


@runs("python", "docs/how-to/arrays.md")
def test_the_page_on_arrays(tmp_path):
    from crossdock.testing import simulated_devices

    hand_over, order, simulated, tests = blocks("python", "docs/how-to/arrays.md")
    names: dict[str, object] = {}
    exec(hand_over, names)
    with simulated_devices(1):
        exec(order.replace("cuda:0", "sim:0"), names)  # A simulated device in the place of the GPU.
    exec(simulated, {})
    (tmp_path / "test_page.py").write_text(tests)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=tmp_path,
    )
    assert "2 passed" in done.stdout, done.stdout


@runs("python", "docs/how-to/tensors.md")
def test_the_page_on_tensors():
    (block,) = blocks("python", "docs/how-to/tensors.md")
    names: dict[str, object] = {}
    exec(block, names)
    assert str(names["here"]) == str(names["weights"])


@runs("python", "docs/how-to/python*.md")
def test_the_pages_on_python(tmp_path, monkeypatch):
    """Every block, those of a page one after the other."""
    monkeypatch.chdir(tmp_path)
    servers: dict[str, xd.Server] = {}
    try:
        for page in ("python", "python-memory", "python-peers", "python-errors"):
            names: dict[str, object] = {}
            for block in blocks("python", f"docs/how-to/{page}.md"):
                if "torch.cuda" not in block:  # it needs a GPU
                    exec(block, names)
                if isinstance(server := names.get("server"), xd.Server):
                    servers[page] = server
        stats = servers["python"].stats()
        assert {source["name"] for source in stats["sources"]} == {"flights", "live"}
        copied = {source["name"]: source["bytes_copied"] for source in servers["python-memory"].stats()["sources"]}
        assert copied == {"signal": 0}
    finally:
        for server in servers.values():
            server.close()
        pool = xd.pool.default()
        end = time.monotonic() + 20
        while pool.stats()["idle_bytes"] < pool.stats()["bytes"] and time.monotonic() < end:
            os.sched_yield()  # the peers of the page have ended, and what they were sent is on its way back
        pool.trim()
    page = (ROOT / "docs" / "how-to" / "python.md").read_text()
    for key in (*stats, *stats["sources"][0], *(key for consumer in stats["consumers"] for key in consumer)):
        assert f"`{key}`" in page, key


def offload_blocks() -> tuple[str, str, list[str]]:
    """The one with simulated devices of its own, the one with dpctl, and the others."""
    page = blocks("python", "docs/how-to/offload.md")
    (simulated,) = [block for block in page if "simulated_devices" in block]
    (sycl,) = [block for block in page if "import dpctl" in block]
    return simulated, sycl, [block for block in page if block not in (simulated, sycl)]


@runs("python", "docs/how-to/offload.md")
def test_the_page_on_offloading():
    """Every block, one after the other, on three simulated devices in the place of the GPUs that it names."""
    from crossdock.testing import simulated_devices

    simulated, _, others = offload_blocks()
    names: dict[str, object] = {}
    queues, *rest = others
    with simulated_devices(3):
        lines = [line for line in queues.splitlines() if '"cuda:' not in line and '"opencl:' not in line]
        exec("\n".join(lines), names)
    exec(simulated, names)
    with simulated_devices(3):
        for block in rest:
            exec(block, names)
        xd.offload.set_global_queue(None)


@pytest.mark.long
def test_the_page_on_offloading_with_dpctl(script):
    """Its part on dpctl and dpnp, and the function that it gives of the first way."""
    dpctl = pytest.importorskip("dpctl")
    pytest.importorskip("dpnp")
    if not dpctl.get_devices(device_type="cpu"):
        pytest.skip("SYCL has no CPU here")
    _, sycl, others = offload_blocks()
    (scale,) = [block for block in others if "def scale(" in block]
    call = "print(scale(xd.Queue('cpu'), dpnp.arange(3.0), 2).to('cpu').tolist())"
    assert script("\n".join(["import crossdock as xd", sycl, scale, call])).finish() == "[0.0, 2.0, 4.0]\n"


@runs("python", "README.md", 3, 4)
def test_the_readmes_python(tmp_path):
    table = pa.table({"origin": ["JFK", "LGA"]})
    with pa.ipc.new_file(tmp_path / "flights.arrow", table.schema) as writer:
        writer.write(table)
    *_, serve, get = blocks("python", "README.md")
    serving = subprocess.Popen(
        [sys.executable, "-u", "-c", serve], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    try:
        assert serving.stdout is not None
        uri = serving.stdout.readline().strip()
        got = subprocess.run(
            [sys.executable, "-c", get, uri], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        assert "celsius: double" in got
        assert "11.5" in got
    finally:
        serving.communicate("\n", timeout=60)
    assert serving.returncode == 0


@runs("cpp", "docs/how-to/cpp.md")
@runs("cmake", "docs/how-to/cpp.md")
@runs("text", "docs/how-to/cpp.md")
@pytest.mark.long
def test_the_page_on_cpp(tmp_path, monkeypatch):
    """Its project, made of its blocks, and the examples' against the library as a user has it."""
    cmake = shutil.which("cmake")
    if cmake is None or not any(BUILD.glob("src/libcrossdock.*")):
        pytest.skip("needs CMake and the library that the build makes")

    def run(*command: object) -> str:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    prefix = tmp_path / "prefix"
    run(cmake, "--install", BUILD, "--prefix", prefix)
    (project,) = blocks("cmake", "docs/how-to/cpp.md")
    (tmp_path / "CMakeLists.txt").write_text(project)
    (tmp_path / "main.cc").write_text("\n".join(blocks("cpp", "docs/how-to/cpp.md")))
    found = [f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror"]
    for source, folder in ((tmp_path, "app"), (ROOT / "examples" / "cpp", "examples")):
        run(cmake, "-S", source, "-B", tmp_path / folder, *found)
        run(cmake, "--build", tmp_path / folder)
    monkeypatch.delenv("CROSSDOCK_SYCL_LIBRARY", raising=False)
    *lines, error = run(tmp_path / "app" / "app").splitlines()
    about = [line for line in lines if line.startswith(("device ", "no "))]
    assert "device host:cpu:0" in about
    (without_sycl,) = blocks("text", "docs/how-to/cpp.md")
    assert without_sycl.strip() in about
    told = [line for line in lines if line not in about]
    assert told == [
        "JFK 11.5 0 gusts",
        "LGA 12",
        "EWR 10.25 2 gusts",
        "mean 11.25",
        "3 rows",
        "2 tables",
        "6",
        "weight (2, 3)",
        "first weight 1",
        "6",
        "6 elements to work on",
        "6 elements",
    ]
    assert error.startswith("not found: nothing is published as 'wether'")


@runs("cmake", "README.md")
def test_the_readmes_cmake_is_that_of_the_page_on_cpp():
    """Whose project test_the_page_on_cpp builds."""
    (lines,) = blocks("cmake", "README.md")
    (project,) = blocks("cmake", "docs/how-to/cpp.md")
    assert [line for line in project.splitlines() if line in lines.splitlines()] == lines.splitlines()


def test_other_standards_than_cpp_20_are_refused(tmp_path):
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    (tmp_path / "old.cc").write_text("#include <crossdock/core/export.h>\n")
    command = [compiler, "-fsyntax-only", f"-I{ROOT / 'include'}", str(tmp_path / "old.cc")]
    old = subprocess.run([*command, "-std=c++17"], capture_output=True, text=True, check=False, timeout=120)
    assert old.returncode != 0
    assert "compile with -std=c++20" in old.stderr
    subprocess.run([*command, "-std=c++20"], check=True, timeout=120)


@runs("cpp", "README.md")
def test_the_readmes_cpp(tmp_path):
    """Its program, as it stands there, with the library of the build, on the file that the Python example writes."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    library = BUILD / "src/libcrossdock.so"
    if compiler is None or not library.exists():
        pytest.skip("needs a C++ compiler and the library that the build makes")
    (source,) = blocks("cpp", "README.md")
    (tmp_path / "readme.cc").write_text(source)
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}", f"-I{BUILD / 'include'}"]
    linked = [str(library), f"-Wl,-rpath,{library.parent}", "-o", str(tmp_path / "readme")]
    subprocess.run([compiler, *flags, str(tmp_path / "readme.cc"), *linked], check=True, timeout=300)
    table = pa.table({"flight": [1545, 1714], "origin": ["EWR", None]})
    with pa.ipc.new_file(tmp_path / "flights.arrow", table.schema) as writer:
        writer.write(table)
    done = subprocess.run([tmp_path / "readme"], capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path)
    assert done.stdout.splitlines() == ["1545 from EWR", "1714 from nowhere"]
