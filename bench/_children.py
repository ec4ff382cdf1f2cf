"""Child processes of a benchmark: each says one line of JSON when it is ready or done, and none outlives its caller."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_LIMIT_SECONDS = 600  # Of a child that measures: far more than any may take.


def build_folder() -> Path:
    """Where the results go."""
    folder = ROOT / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def build_tree() -> Path:
    """Where the C++ programs and tests were built."""
    return Path(os.environ.get("CROSSDOCK_BUILD_DIR", ROOT / "build" / "dev"))


def program(name: str, **arguments: object) -> list[str]:
    """The command line of a C++ program of this folder."""
    path = build_tree() / "bench" / name
    if not path.exists():
        raise SystemExit(f"{path} isn't built; ./dev build builds it")
    return [str(path), *_options(arguments)]


def role(module: str, *words: str, **arguments: object) -> list[str]:
    """The command line of a Python module of this folder."""
    return [sys.executable, "-m", f"bench.{module}", *words, *_options(arguments)]


def _options(arguments: dict[str, object]) -> list[str]:
    return [word for name, value in arguments.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def measure(command: list[str], told: dict[str, Any] | None = None) -> dict[str, Any]:
    """Runs a child to its end and returns what it said. `told`: a line on its standard input."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        input="" if told is None else json.dumps(told) + "\n",
        stdout=subprocess.PIPE,
        text=True,
        timeout=_LIMIT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with status {done.returncode}")
    return json.loads(done.stdout)


def said(child: subprocess.Popen[str]) -> dict[str, Any]:
    """The next line that a child says."""
    assert child.stdout is not None
    line = child.stdout.readline()
    if not line:
        raise RuntimeError(f"a child ended with status {child.wait()} before it said anything")
    return json.loads(line)


def tell(child: subprocess.Popen[str], line: str = "") -> None:
    """Gives a child a line on its standard input."""
    assert child.stdin is not None
    child.stdin.write(f"{line}\n")
    child.stdin.flush()


def ask(child: subprocess.Popen[str]) -> dict[str, Any]:
    """What a child says to a line on its standard input."""
    tell(child)
    return said(child)


@contextlib.contextmanager
def serving(command: list[str]) -> Iterator[tuple[dict[str, Any], subprocess.Popen[str]]]:
    """A child that runs until its standard input is closed, and what it said when it was ready."""
    child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        yield said(child), child
    finally:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
        try:
            child.wait(timeout=30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            raise
        finally:
            child.stdout.close()
