#!/usr/bin/env python3
"""Tries a wheel as somebody would who has Python and nothing else: `./dev wheel` runs it.

    try_wheel.py --wheels FOLDER --python PYTHON --uv UV --work FOLDER

Installs it into new environments, whose PATH has no compiler, and in which no package is built. In the first one there
is no other package. Two processes pass a tensor over shared memory, over tcp with a token and over TLS; the import is
timed in turns with an interpreter that imports nothing. The second one has the extras `cli` and `io`: a table goes from
one process to another, and the command `crossdock` gets it. Prints what was measured, and exits with 1 at the first
thing that is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

MOST_BYTES = 4 << 20
TAG = "manylinux_2_34_"  # of the glibc that README.md names
REFUSED_BY = ["x86_64-unknown-linux-musl", "x86_64-manylinux_2_28"]
TAKEN_BY = ["x86_64-manylinux_2_34", "x86_64-manylinux_2_36"]
MOST_IMPORT_MS = 25.0
MOST_SECONDS_TO_A_TABLE = 60
TURNS = 15
LIMIT_SECONDS = 60
# What the wheel's tag says of a system.
LOADERS = {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", *LOADERS}

SERVE = """
    import sys, array
    import crossdock as xd
    uri, token, certificate, key = sys.argv[1:]
    tls = xd.TLS(certificate=certificate, key=key) if uri.startswith("tcp+tls") else None
    with xd.serve({"numbers": array.array("d", range(1000))}, uri, token=token or None, tls=tls) as server:
        print(server.uri, flush=True)
        sys.stdin.read()
"""
GET = """
    import ssl, sys  # Python's own OpenSSL, beside the wheel's
    import crossdock as xd
    uri, token, roots = sys.argv[1:]
    ssl.create_default_context()
    tls = xd.TLS(roots=roots) if uri.startswith("tcp+tls") else None
    with xd.connect(uri, token=token or None, tls=tls) as client:
        assert client.tensor("numbers").tolist() == [float(number) for number in range(1000)]
    try:
        xd.connect(uri, token="another secret that is long enough", tls=tls).list()
    except xd.Error:
        assert token
    else:
        assert not token
"""
WITHOUT_FLIGHT = """
    import crossdock as xd
    try:
        xd.serve({}, flight="grpc://127.0.0.1:0")
    except xd.SchemeError as error:
        assert "libgrpc++-dev" in str(error), error
    else:
        raise AssertionError("this wheel has Flight")
"""
SERVE_TABLE = """
    import sys
    import pyarrow as pa, pyarrow.fs  # which has an OpenSSL of its own, too
    import crossdock as xd
    weather = pa.table({"station": ["JFK", "LGA", "EWR"], "celsius": [11.5, 12.0, 10.25]})
    xd.write(weather, sys.argv[1])
    with xd.serve({"weather": weather}) as server:
        print(server.uri, flush=True)
        sys.stdin.read()
"""
GET_TABLE = """
    import sys
    import pyarrow as pa
    import crossdock as xd
    with xd.connect(sys.argv[1]) as client:
        assert pa.table(client.get("weather"))["celsius"].to_pylist() == [11.5, 12.0, 10.25]
"""


class Trial:
    def __init__(self, wheels: Path, python: str, uv: str, work: Path) -> None:
        self.wheels, self.python, self.uv, self.work = wheels, python, uv, work

    def environment(self, name: str, requirement: str, *options: str) -> Environment:
        folder = self.work / name
        shutil.rmtree(folder, ignore_errors=True)
        run([self.uv, "venv", "--quiet", "--python", self.python, str(folder)])
        run(
            [
                *(self.uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python")),
                *("--only-binary", ":all:", "--find-links", str(self.wheels), "--reinstall-package", "crossdock"),
                *("--refresh-package", "crossdock", *options, requirement),
            ]
        )
        return Environment(folder)


class Environment:
    """A new environment. What runs in it finds its own programs alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = str(folder / "bin" / "python")
        self.variables = {"PATH": str(folder / "bin"), "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}

    def run(self, *command: str, expect: int = 0) -> str:
        return run([self.python, *command], env=self.variables, expect=expect, cwd=self.folder)

    def code(self, code: str, *arguments: str) -> str:
        return self.run("-c", textwrap.dedent(code), *arguments)

    def command(self, *arguments: str, expect: int = 0) -> str:
        command = str(self.folder / "bin" / "crossdock")
        return run([command, *arguments], env=self.variables, expect=expect, cwd=self.folder)

    @contextlib.contextmanager
    def serving(self, *command: str) -> Iterator[str]:
        """Runs a server, and gives the first line that it prints. It ends when its standard input does."""
        server = subprocess.Popen(
            command, env=self.variables, cwd=self.folder, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            line = server.stdout.readline().strip()
            assert line, f"{command} printed nothing"
            yield line
            server.stdin.close()
            assert server.wait(timeout=LIMIT_SECONDS) == 0
        finally:
            server.kill()
            server.wait()
            server.stdout.close()


def run(command: list[str], *, env: dict[str, str] | None = None, expect: int = 0, cwd: Path | None = None) -> str:
    done = subprocess.run(
        command, env=env, cwd=cwd, text=True, capture_output=True, check=False, timeout=10 * LIMIT_SECONDS
    )
    said = done.stdout + done.stderr
    assert done.returncode == expect, f"{' '.join(command)}\nended with {done.returncode}:\n{said}"
    return said


def check_files(installed: Path) -> None:
    """One file of machine code, which needs what its tag says, and shows one function."""
    (module,) = installed.rglob("*.so")
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", run(["readelf", "--dynamic", str(module)])))
    assert needed <= SYSTEM_LIBRARIES, f"{module.name} needs {needed - SYSTEM_LIBRARIES}"
    symbols = run(["readelf", "--dyn-syms", "--wide", str(module)])
    shown = {line.split()[7] for line in symbols.splitlines() if re.search(r"\b(GLOBAL|WEAK)\b.*DEFAULT +\d+ ", line)}
    assert shown == {"PyInit__native"}, f"{module.name} shows {shown}"
    sections = run(["readelf", "--section-headers", "--wide", str(module)])
    assert ".debug_info" not in sections, f"{module.name} isn't stripped"
    assert ".symtab" not in sections, f"{module.name} isn't stripped"
    assert (installed / "py.typed").exists()
    assert (installed / "_native.pyi").exists()


def certificate_in(folder: Path) -> tuple[Path, Path]:
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-keyout", str(key), "-out", str(certificate), "-days", "1", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ]
    )
    return certificate, key


def import_ms(environment: Environment) -> tuple[float, float]:
    """The least time of an import, beyond that of an interpreter's start and end, and the median; in turns."""

    def seconds(code: str) -> float:
        start = time.perf_counter()
        environment.run("-c", code)
        return time.perf_counter() - start

    pairs = [(seconds("import crossdock"), seconds("pass")) for _ in range(TURNS)]
    ours, bare = zip(*pairs, strict=True)
    return (min(ours) - min(bare)) * 1e3, (statistics.median(ours) - statistics.median(bare)) * 1e3


def try_bare(trial: Trial) -> str:
    environment = trial.environment("bare", "crossdock", "--no-index")
    (installed,) = environment.folder.glob("lib/python3*/site-packages/crossdock")
    check_files(installed)
    environment.code(WITHOUT_FLIGHT)
    said = environment.command(expect=1)
    assert said.strip() == (
        "crossdock: the command needs typer, which isn't installed: pip install 'crossdock[cli]'"
    ), said
    certificate, key = certificate_in(environment.folder)
    token = "a token that is long enough for a test"
    for uri, secret in (("shm:", ""), ("tcp:", token), ("tcp+tls://127.0.0.1:0", token)):
        with environment.serving(
            environment.python, "-c", textwrap.dedent(SERVE), uri, secret, str(certificate), str(key)
        ) as there:
            environment.code(GET, there, secret, str(certificate))
    least, median = import_ms(environment)
    assert least <= MOST_IMPORT_MS, f"the import takes {least:.1f} ms, and should take {MOST_IMPORT_MS} at most"
    return f"import {least:.1f} ms at least, {median:.1f} in the middle (target: {MOST_IMPORT_MS:.0f})"


def try_tag(trial: Trial) -> None:
    """Systems with an older C library, or another one, refuse the wheel; others take it."""
    if platform.machine() != "x86_64":  # for which the names are
        return
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    assert f"glibc {TAG.removeprefix('manylinux_').strip('_').replace('_', '.')}" in readme
    assert all(TAG in wheel.name for wheel in trial.wheels.glob("*.whl"))
    for system in (*REFUSED_BY, *TAKEN_BY):
        run(
            [
                *(trial.uv, "pip", "install", "--dry-run", "--no-deps", "--no-index", "--only-binary", ":all:"),
                *("--find-links", str(trial.wheels), "--python", trial.python, "--target", str(trial.work / "none")),
                *("--python-platform", system, "crossdock"),
            ],
            expect=1 if system in REFUSED_BY else 0,
        )


def try_with_extras(trial: Trial) -> str:
    start = time.monotonic()
    environment = trial.environment("extras", "crossdock[cli,io]")
    installed = time.monotonic() - start
    assert "serve" in environment.command("--help")
    file = str(environment.folder / "weather.arrow")
    with environment.serving(environment.python, "-c", textwrap.dedent(SERVE_TABLE), file) as uri:
        environment.code(GET_TABLE, uri)
        arrived = time.monotonic() - start
        assert "12.0" in environment.command("get", uri, "weather")
    assert arrived <= MOST_SECONDS_TO_A_TABLE, f"it took {arrived:.1f} s until a table was in another process"
    return (
        f"installed with extras in {installed:.1f} s; a table was in another process {arrived:.1f} s "
        f"after the begin (target: {MOST_SECONDS_TO_A_TABLE})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--uv", required=True)
    parser.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    for wheel in options.wheels.glob("*.whl"):
        size = wheel.stat().st_size
        assert size <= MOST_BYTES, f"{wheel.name} has {size} bytes, and should have {MOST_BYTES} at most"
    options.work.mkdir(parents=True, exist_ok=True)
    trial = Trial(options.wheels.resolve(), options.python, options.uv, options.work.resolve())
    try_tag(trial)
    print("; ".join([try_bare(trial), try_with_extras(trial)]))


if __name__ == "__main__":
    os.umask(0o077)  # as a private run-time folder has it
    try:
        main()
    except AssertionError as error:
        sys.exit(f"try_wheel.py: {error}")
