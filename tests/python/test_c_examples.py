"""The examples in C, Rust and Go, against the library as a user has it, and a server in Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from tests.pages import ROOT, blocks, runs

import crossdock as xd

EXAMPLES = ROOT / "examples"
BUILD = Path(os.environ.get("CROSSDOCK_BUILD_DIR", ROOT / "build" / "dev"))
WEATHER = "JFK 11.5\nLGA 12\nEWR 10.25\n"


def run(*command: object, **options: object) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        **options,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def need(tool: str) -> str:
    path = shutil.which(tool)
    if path is None:
        pytest.skip(f"needs {tool}")
    return path


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `cmake --install` makes."""
    if not any(BUILD.glob("src/c_api/libcrossdock_c.*")):
        pytest.skip("needs the library that the build makes")
    folder = tmp_path_factory.mktemp("prefix")
    run(need("cmake"), "--install", BUILD, "--prefix", folder)
    return folder


def environment(prefix: Path) -> dict[str, str]:
    (found,) = prefix.glob("lib*/**/crossdock_c.pc")
    return {**os.environ, "PKG_CONFIG_PATH": str(found.parent), "LD_LIBRARY_PATH": str(found.parent.parent)}


def built_c(prefix: Path, folder: Path) -> Path:
    cmake = need("cmake")
    need(os.environ.get("CC", "cc"))
    flags = "-Wall -Wextra -Wpedantic -Werror"
    run(cmake, "-S", EXAMPLES / "c", "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_C_FLAGS={flags}")
    run(cmake, "--build", folder)
    return folder / "c_get_table"


def built_rust(prefix: Path, folder: Path) -> Path:
    cargo = need("cargo")
    need("pkg-config")
    command = [cargo, "build", "--offline", "--locked", "--quiet", "--manifest-path", EXAMPLES / "rust/Cargo.toml"]
    run(*command, "--target-dir", folder, env={**environment(prefix), "RUSTFLAGS": "-Dwarnings"})
    return folder / "debug" / "get_table"


def built_go(prefix: Path, folder: Path) -> Path:
    go = need("go")
    need("pkg-config")
    # Without the network, and without anything in the user's own folders.
    env = {**environment(prefix), "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOCACHE": str(folder / "cache")}
    run(go, "build", "-o", folder / "get_table", ".", cwd=EXAMPLES / "go", env=env)
    return folder / "get_table"


@contextmanager
def serving(*command: object, **options: object) -> Iterator[str]:
    """The URI that a program prints, which serves until it reads a line."""
    server = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.communicate("\n", timeout=60)
    assert server.returncode == 0


@pytest.mark.long
@pytest.mark.parametrize("build", [built_c, built_rust, built_go], ids=["c", "rust", "go"])
def test_a_table_of_python(build: Callable[[Path, Path], Path], prefix: Path, tmp_path: Path) -> None:
    program = build(prefix, tmp_path)
    env = environment(prefix)
    with serving(sys.executable, EXAMPLES / "serve_table.py") as uri:
        assert run(program, uri, env=env) == WEATHER
    gone = subprocess.run([program, uri], capture_output=True, text=True, check=False, timeout=60, env=env)
    assert gone.returncode == 1
    assert gone.stderr.startswith("ConnectionError: ")
    wrong = subprocess.run([program], capture_output=True, text=True, check=False, timeout=60, env=env)
    assert wrong.returncode == 2


def test_nulls_in_c(prefix: Path, tmp_path: Path) -> None:
    table = pa.table({"station": ["JFK", None, ""], "celsius": [None, 12.0, 10.25]})
    with xd.serve({"weather": table}) as server:
        assert run(built_c(prefix, tmp_path), server.uri, env=environment(prefix)) == "JFK null\nnull 12\n 10.25\n"


@runs("c", "docs/how-to/c.md")
@runs("cmake", "docs/how-to/c.md")
def test_the_page_on_c(prefix: Path, tmp_path: Path) -> None:
    cmake = need("cmake")
    program, stopped = blocks("c", "docs/how-to/c.md")
    (project,) = blocks("cmake", "docs/how-to/c.md")
    (tmp_path / "CMakeLists.txt").write_text(project)
    (tmp_path / "main.c").write_text(program + stopped)
    flags = "-std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Wpedantic -Werror"
    build = tmp_path / "build"
    run(cmake, "-S", tmp_path, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_C_FLAGS={flags}")
    run(cmake, "--build", build)
    xd.write(pa.table({"flight": [1545, 1714, 1141]}), tmp_path / "flights.arrow")
    assert run(build / "app", tmp_path / "flights.arrow") == "3 rows\n"
    missing = subprocess.run(
        [build / "app", tmp_path / "nothing.arrow"], capture_output=True, text=True, check=False, timeout=60
    )
    assert missing.returncode == 1
    assert missing.stderr.startswith("crossdock_server_publish: ")


@pytest.mark.long
def test_a_table_of_c(prefix: Path, tmp_path: Path) -> None:
    program = built_c(prefix, tmp_path)
    env = environment(prefix)
    with serving(program.with_name("c_serve_table"), env=env) as uri:
        got = run(sys.executable, EXAMPLES / "get_table.py", uri, "weather")
        assert "'weather': 3 rows" in got
        assert '"JFK","LGA","EWR"' in got
        assert "11.5,12,10.25" in got
        assert run(program, uri, env=env) == WEATHER
