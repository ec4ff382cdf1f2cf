"""The code of the pages runs: first page, tutorials, notebooks, and guides that no other test runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.pages import DOCS, ROOT, blocks, closed, local, runs

import crossdock as xd

OPERATIONS = "docs/how-to/operations.md"


@runs("python", "docs/index.md")
def test_the_first_page(capsys):
    (block,) = blocks("python", "docs/index.md")
    assert len(block.splitlines()) <= 10
    names: dict[str, Any] = {}
    exec(block, names)
    names["server"].close()
    assert "celsius: double" in capsys.readouterr().out
    assert blocks("sh", "docs/index.md")[0].endswith("pip install 'crossdock[io]'\n")


@runs("python", "docs/tutorials/first-table.md")
def test_the_first_tutorial(tmp_path, monkeypatch):
    """Its two programs, in two processes, and its commands, with a socket in a folder of the test's."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    tmp_path.chmod(0o700)
    serve, read = blocks("python", "docs/tutorials/first-table.md")
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
    _, commands = blocks("sh", "docs/tutorials/first-table.md")
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


@pytest.mark.long
@pytest.mark.parametrize("notebook", sorted(DOCS.glob("**/*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_shows_what_is_stored_in_it(notebook):
    command = [sys.executable, ROOT / "tools" / "notebooks.py", notebook]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@runs("python", "docs/how-to/libraries.md")
def test_the_page_on_libraries():
    names: dict[str, Any] = {}
    needs = {"torch": "torch", "jax": "jax"}
    try:
        for block in blocks("python", "docs/how-to/libraries.md"):
            needed = re.search(r"^import (torch|jax)", block, re.MULTILINE)
            if needed is None or _there(needs[needed[1]]):
                exec(block, names)
        assert names["celsius"].shape == (4,)
    finally:
        names["server"].close()


@runs("python", "docs/reference/api/*.md")
@pytest.mark.parametrize("page", sorted((DOCS / "reference" / "api").glob("*.md")), ids=lambda path: path.stem)
def test_the_examples_of_the_reference(page, tmp_path):
    for block in blocks("python", f"docs/reference/api/{page.name}"):
        if page.stem == "engines":  # a program, whose processes import it
            assert _output_of(block, tmp_path) == ["1000000.0", "1"]
        else:
            exec(block, {"__name__": "example"})


def _there(package: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(package) is not None


@runs("python", "docs/how-to/exports.md", 0)
def test_the_page_on_exports_in_python():
    names: dict[str, Any] = {}
    exec(blocks("python", "docs/how-to/exports.md")[0], names)
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


@runs("c", "docs/how-to/exports.md")
@runs("cpp", "docs/how-to/exports.md", 0, 1)
@runs("python", "docs/how-to/exports.md", 1)
@pytest.mark.parametrize("kind", ["nanobind", "pybind11", "c"])
@pytest.mark.long
def test_the_page_on_exports_in_compiled_languages(kind, tmp_path):
    compiled = {"nanobind": 0, "pybind11": 1}
    if kind == "c":
        compiler, suffix, (source,) = _compiler("gcc"), "c", blocks("c", "docs/how-to/exports.md")
        options, sources = ["-std=c11", "-Wextra"], []
    else:
        compiler, suffix, source = _compiler("g++"), "cc", blocks("cpp", "docs/how-to/exports.md")[compiled[kind]]
        options, sources = _nanobind() if kind == "nanobind" else _pybind11()
        options = [*options, "-std=c++17"]
    (tmp_path / f"samples.{suffix}").write_text(source)
    module = tmp_path / f"samples{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = f"-I{sysconfig.get_path('include')}"
    command = [compiler, *options, "-Wall", "-shared", "-fPIC", "-fvisibility=hidden", include, f"samples.{suffix}"]
    subprocess.run([*command, *sources, "-o", module], cwd=tmp_path, check=True, timeout=300)

    _, derived = blocks("python", "docs/how-to/exports.md")
    use = "import numpy as np\nassert np.asarray(Samples(4)).shape == (4, 2)\nprint(np.asarray(Samples(2)).sum())\n"
    (tmp_path / "program.py").write_text(derived + use)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "0.0\n"), done.stderr


@runs("yaml", "docs/how-to/containers.md")
def test_the_configuration_for_kubernetes_is_yaml():
    """By the reader that Dask has; its fields are those of Kubernetes, which isn't here to say so."""
    yaml = pytest.importorskip("yaml")
    (block,) = blocks("yaml", "docs/how-to/containers.md")
    pod = yaml.safe_load(block)
    folders = {container["volumeMounts"][0]["mountPath"] for container in pod["spec"]["containers"]}
    uri = pod["spec"]["containers"][0]["args"][3]
    assert {f"shm:{folder}/tables.sock" for folder in folders} == {uri}
    assert pod["spec"]["volumes"] == [{"name": "crossdock", "emptyDir": {}}]


@runs("python", "docs/how-to/relay.md")
def test_the_page_on_relays(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda prompt: None)
    (relay,) = blocks("python", "docs/how-to/relay.md")
    with xd.serve({"forecast": pa.table({"x": [1]})}, "tcp:") as server:
        at = f"shm:{tmp_path}/relay.sock"
        exec(local(relay, tcp=server.uri).replace("shm:weather", at), {})
    assert capsys.readouterr().out.strip() == at


@runs("python", "docs/how-to/containers.md")
def test_the_page_on_containers(tmp_path):
    (block,) = blocks("python", "docs/how-to/containers.md")
    xd.write(pa.table({"x": [1]}), tmp_path / "flights.arrow")
    names: dict[str, Any] = {}
    exec(block.replace("/run/crossdock", str(tmp_path)).replace('"/tables/', f'"{tmp_path}/'), names)
    assert pa.table(names["client"].get("flights")).num_rows == 1
    closed(names)


@runs("python", "docs/how-to/dask.md")
@runs("python", "docs/how-to/multiprocessing.md", 0)
@pytest.mark.long
@pytest.mark.parametrize("page", ["dask", "multiprocessing"])
def test_the_pages_on_worker_processes(page, script):
    if page == "dask":
        pytest.importorskip("distributed")
    first, *programs = blocks("python", f"docs/how-to/{page}.md")
    assert script(first).finish() == ""
    assert len(programs) == (page == "multiprocessing")


@runs("python", "docs/how-to/multiprocessing.md", 1)
def test_the_program_of_the_page_on_worker_processes(tmp_path):
    output = _output_of(blocks("python", "docs/how-to/multiprocessing.md")[1], tmp_path)
    assert output == ["4000000.0", "[-1.  1.  4.] 4"]


def _output_of(program: str, folder: Path) -> list[str]:
    """Runs a program that writes no errors, and returns the lines of its output."""
    (folder / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


# ---- configurations and output ----


@runs("toml", "docs/how-to/operations.md", 0, 1)
@pytest.mark.parametrize("number", [0, 1], ids=["service", "container"])
def test_the_configurations_of_the_page_on_operations(tmp_path, number):
    block = blocks("toml", OPERATIONS)[number]
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    block = block.replace('"ada"', f'"{user}"')
    block = block.replace("/run/crossdock/", f"{tmp_path}/").replace('"/tables/', f'"{tmp_path}/')
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


@runs("text", "docs/how-to/operations.md", 0)
def test_the_error_of_the_page_on_operations(tmp_path):
    """A key of the configuration before it that is written wrongly."""
    path = tmp_path / "crossdock.toml"
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    path.write_text(blocks("toml", OPERATIONS)[0].replace("lease_limit", "lease_limt").replace('"ada"', f'"{user}"'))
    command = [sys.executable, "-m", "crossdock", "serve", "--config", path, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.replace(str(path), "/etc/crossdock/crossdock.toml") == blocks("text", OPERATIONS)[0]


@runs("yaml", "docs/how-to/operations.md")
def test_the_configuration_for_prometheus_asks_the_address_of_the_page():
    yaml = pytest.importorskip("yaml")
    (block,) = blocks("yaml", OPERATIONS)
    (job,) = yaml.safe_load(block)["scrape_configs"]
    (target,) = [target for config in job["static_configs"] for target in config["targets"]]
    assert set(job) == {"job_name", "static_configs"}
    assert f"`--metrics {target}`" in (ROOT / OPERATIONS).read_text()


@runs("text", "docs/how-to/operations.md", 1)
def test_the_snapshot_of_the_page_on_operations_has_the_form_of_one():
    """Its lines about the server, and the first columns of its table of consumers."""
    shown = blocks("text", OPERATIONS)[1].split("\n\n")
    with xd.serve({"flights": pa.table({"x": [1]})}) as server:
        command = [sys.executable, "-m", "crossdock", "top", server.uri, "--once", "--interval", "0.1"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    told = done.stdout.split("\n\n")
    lines = [[re.split(r" {2,}", line)[0] for line in part.splitlines()] for part in (shown[0], told[0])]
    assert lines[0] == lines[1]
    columns, every = [re.split(r" {2,}", part.splitlines()[0]) for part in (shown[1], told[1])]
    assert columns == every[: len(columns)]
    assert len({len(re.findall(r" {2,}\S", line)) for line in shown[1].splitlines()}) == 1


@runs("text", "docs/reference/cli.md", 1)
def test_the_messages_of_the_page_on_the_command():
    table = pa.table({"d": pa.array(["a", "b"]).dictionary_encode()})
    with xd.serve({"d": table}) as server:
        command = [sys.executable, "-m", "crossdock", "inspect", server.uri, "d", "--wire"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == blocks("text", "docs/reference/cli.md")[1]
