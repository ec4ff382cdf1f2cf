"""The code of the pages runs: first page, tutorials, notebooks, and guides that no other test runs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.pages import DOCS, ROOT, blocks, closed, local

import crossdock as xd


def test_the_first_page(capsys):
    (block,) = blocks("python", "index.md")
    assert len(block.splitlines()) <= 10
    names: dict[str, Any] = {}
    exec(block, names)
    names["server"].close()
    assert "celsius: double" in capsys.readouterr().out
    assert "pip install 'crossdock[io]'" in blocks("sh", "index.md")[0]


def test_the_first_tutorial(tmp_path, monkeypatch):
    """Its two programs, in two processes, and its commands, with a socket in a folder of the test's."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    tmp_path.chmod(0o700)
    serve, read = blocks("python", "tutorials/first-table.md")
    options: dict[str, Any] = {"text": True, "cwd": tmp_path}
    serving = subprocess.Popen(
        [sys.executable, "-u", "-c", serve], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options
    )
    try:
        assert serving.stdout is not None
        assert serving.stdout.readline().strip() == "serving shm:airport"
        got = subprocess.run(
            [sys.executable, "-c", read], capture_output=True, timeout=60, check=True, **options
        ).stdout
    finally:
        serving.communicate("\n", timeout=60)
    assert serving.returncode == 0
    assert got.startswith("flights 4 rows\n")
    assert got.endswith("[{'flight': 1714, 'origin': 'LGA', 'delay': 4.0}]\n")

    pa.parquet.write_table(pa.table({"flight": [1545]}), tmp_path / "flights.parquet")
    _, commands = blocks("sh", "tutorials/first-table.md")
    serve_command, get_command = [[sys.executable, "-m", *line.split()] for line in commands.splitlines()]
    serving = subprocess.Popen(serve_command, stdout=subprocess.PIPE, **options)
    try:
        assert serving.stdout is not None
        assert serving.stdout.readline().strip() == "shm:airport"
        got = subprocess.run(get_command, capture_output=True, timeout=60, check=True, **options).stdout
    finally:
        serving.terminate()
        serving.communicate(timeout=60)
    assert "1545" in got


@pytest.mark.parametrize("notebook", sorted(DOCS.glob("**/*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_shows_what_is_stored_in_it(notebook):
    command = [sys.executable, ROOT / "tools" / "notebooks.py", notebook]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_page_on_libraries():
    names: dict[str, Any] = {}
    needs = {"torch": "torch", "jax": "jax"}
    try:
        for block in blocks("python", "how-to/libraries.md"):
            needed = re.search(r"^import (torch|jax)", block, re.MULTILINE)
            if needed is None or _there(needs[needed[1]]):
                exec(block, names)
        assert names["celsius"].shape == (4,)
    finally:
        names["server"].close()


@pytest.mark.parametrize("page", sorted((DOCS / "reference" / "api").glob("*.md")), ids=lambda path: path.stem)
def test_the_examples_of_the_reference(page):
    for block in blocks("python", f"reference/api/{page.name}"):
        exec(block, {"__name__": "example"})


def _there(package: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(package) is not None


def test_the_page_on_exports_in_python():
    names: dict[str, Any] = {}
    exec(blocks("python", "how-to/exports.md")[0], names)
    assert xd.asarray(names["Samples"](4)).shape == (4, 2)


def _compiler(name: str) -> str:
    path = shutil.which(os.environ.get({"g++": "CXX", "gcc": "CC"}[name], name))
    if path is None or not Path(sysconfig.get_path("include"), "Python.h").exists():
        pytest.skip("needs a compiler and Python's headers")
    return path


def _nanobind() -> tuple[list[str], list[str]]:
    nanobind = pytest.importorskip("nanobind")
    source = Path(nanobind.source_dir())
    robin_map = source.parent / "ext" / "robin_map" / "include"
    return [f"-I{nanobind.include_dir()}", f"-I{robin_map}"], [str(source / "nb_combined.cpp")]


def _pybind11() -> tuple[list[str], list[str]]:
    return [f"-I{pytest.importorskip('pybind11').get_include()}"], []


@pytest.mark.parametrize("kind", ["nanobind", "pybind11", "c"])
@pytest.mark.long
def test_the_page_on_exports_in_compiled_languages(kind, tmp_path):
    compiled = {"nanobind": 0, "pybind11": 1}
    if kind == "c":
        compiler, suffix, (source,) = _compiler("gcc"), "c", blocks("c", "how-to/exports.md")
        options, sources = ["-std=c11", "-Wextra"], []
    else:
        compiler, suffix, source = _compiler("g++"), "cc", blocks("cpp", "how-to/exports.md")[compiled[kind]]
        options, sources = _nanobind() if kind == "nanobind" else _pybind11()
        options = [*options, "-std=c++17"]
    (tmp_path / f"samples.{suffix}").write_text(source)
    module = tmp_path / f"samples{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = f"-I{sysconfig.get_path('include')}"
    command = [compiler, *options, "-Wall", "-shared", "-fPIC", "-fvisibility=hidden", include, f"samples.{suffix}"]
    subprocess.run([*command, *sources, "-o", module], cwd=tmp_path, check=True, timeout=300)

    _, derived = blocks("python", "how-to/exports.md")
    use = "import numpy as np\nassert np.asarray(Samples(4)).shape == (4, 2)\nprint(np.asarray(Samples(2)).sum())\n"
    (tmp_path / "program.py").write_text(derived + use)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "0.0\n"), done.stderr


def test_the_configuration_for_kubernetes_is_yaml():
    """By the reader that Dask has; its fields are those of Kubernetes, which isn't here to say so."""
    yaml = pytest.importorskip("yaml")
    (block,) = blocks("yaml", "how-to/containers.md")
    pod = yaml.safe_load(block)
    folders = {container["volumeMounts"][0]["mountPath"] for container in pod["spec"]["containers"]}
    uri = pod["spec"]["containers"][0]["args"][3]
    assert {f"shm:{folder}/tables.sock" for folder in folders} == {uri}
    assert pod["spec"]["volumes"] == [{"name": "crossdock", "emptyDir": {}}]


def test_the_page_on_relays(tmp_path, capsys):
    (relay,) = blocks("python", "how-to/relay.md")
    with xd.serve({"forecast": pa.table({"x": [1]})}, "tcp:") as server:
        names: dict[str, Any] = {"xd": xd}
        at = f"shm:{tmp_path}/relay.sock"
        exec(local(relay, tcp=server.uri).replace("shm:weather", at), names)
    assert capsys.readouterr().out.strip() == at


def test_the_page_on_containers(tmp_path):
    (block,) = blocks("python", "how-to/containers.md")
    names: dict[str, Any] = {"xd": xd, "tables": {"t": pa.table({"x": [1]})}}
    exec(block.replace("/run/crossdock", str(tmp_path)), names)
    assert pa.table(names["client"].get("t")).num_rows == 1
    closed(names)


@pytest.mark.parametrize("page", ["dask", "multiprocessing"])
def test_the_pages_on_worker_processes(page, script):
    if page == "dask":
        pytest.importorskip("distributed")
    first, *programs = blocks("python", f"how-to/{page}.md")
    assert script(first).finish() == ""
    assert len(programs) == (page == "multiprocessing")


def test_the_program_of_the_page_on_worker_processes(tmp_path):
    (tmp_path / "program.py").write_text(blocks("python", "how-to/multiprocessing.md")[1])
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["4000000.0", "[-1.  1.  4.] 4"]


# Pages whose code other tests run.
RUN_BY = {
    "how-to/flight.md": "tests/interop/test_flight_page.py",
    "how-to/arrays.md": "tests/python/test_docs.py",
    "how-to/check.md": "tests/check/test_check.py",
    "how-to/cpp.md": "tests/python/test_docs.py",
    "how-to/offload.md": "tests/python/test_docs.py",
    "how-to/python.md": "tests/python/test_docs.py",
    "how-to/python-memory.md": "tests/python/test_docs.py",
    "how-to/python-peers.md": "tests/python/test_docs.py",
    "how-to/ray.md": "tests/python/test_ray.py",
    "how-to/tensors.md": "tests/python/test_docs.py",
}


def test_every_page_with_code_is_run():
    code = re.compile(r"^```(python|cpp|c|cmake|rust|go)$", re.MULTILINE)
    pages = {str(path.relative_to(DOCS)) for path in DOCS.glob("**/*.md") if code.search(path.read_text())}
    here = Path(__file__).read_text()
    parametrized = {"how-to/dask.md", "how-to/multiprocessing.md"}
    parametrized |= {page for page in pages if page.startswith("reference/api/")}
    for page in pages - parametrized:
        text = (ROOT / RUN_BY[page]).read_text() if page in RUN_BY else here.partition("RUN_BY = ")[0]
        assert f'"{page}"' in text or Path(page).name in text or f'"{Path(page).stem}"' in text, page


# ---- commands and configurations -----------------------------------------------------------------------------------


def command_lines() -> list[str]:
    """The lines of all pages that call the command, without those that show its forms (`[--json]`)."""
    pages = [ROOT / "README.md", *sorted(DOCS.glob("**/*.md"))]
    texts = [block for page in pages for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.M | re.S)]
    lines = [line for text in texts for line in text.splitlines() if line.startswith("crossdock ")]
    return [line for line in lines if not re.search(r"\[-|\[\w+ |\.\.\.", line) and "USER" not in line]


@pytest.mark.parametrize("line", sorted(set(command_lines())))
def test_a_command_of_a_page_is_one(line):
    import typer

    from crossdock.cli import application

    words = shlex.split(line, comments=True)
    end = next((at for at, word in enumerate(words) if word in ("|", ">", ">>", "&&")), len(words))
    top = typer.main.get_command(application())
    context = top.make_context("crossdock", [], resilient_parsing=True)
    name, *arguments = words[1:end]
    command = top.get_command(context, name)  # type: ignore[attr-defined]
    assert command is not None, f"there is no command {name}"
    wrong_usage = typer.BadParameter.__bases__[0]
    try:
        command.make_context(name, arguments, parent=context)
    except wrong_usage as error:
        if "does not exist" not in str(error):  # a file that isn't here
            raise


def test_there_are_commands_in_the_pages():
    assert len(command_lines()) > 20


def test_the_configuration_of_the_page_on_operations(tmp_path):
    (block,) = blocks("toml", "how-to/operations.md")
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    block = block.replace('"ada"', f'"{user}"').replace("/run/crossdock", str(tmp_path))
    (tmp_path / "crossdock.toml").write_text(block)
    (tmp_path / "token").write_text("a secret of the test's, long enough")
    (tmp_path / "token").chmod(0o600)
    table = pa.table({"x": [1]})
    xd.write(table, tmp_path / "flights.arrow")
    xd.write(table, tmp_path / "planes.arrow")
    pa.parquet.write_table(table, tmp_path / "weather.parquet")
    command = [sys.executable, "-m", "crossdock", "serve", "--config", "crossdock.toml", "--check"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
