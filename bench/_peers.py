"""Libraries that Crossdock is measured beside and doesn't depend on, in an environment of their own: build/peers.

They are installed on request only (`./dev bench wire --install-peers`).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench._children import ROOT

FOLDER = ROOT / "build" / "peers"
PYTHON = FOLDER / "bin" / "python"
# NIXL names torch as a requirement too, but imports it for tensors of torch's only.
PACKAGES = ("nixl-cu12==1.5.1", "libucx-cu12==1.22.0", "numpy")
HOW = "./dev bench wire --install-peers installs it"


def install() -> None:
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(FOLDER)], check=True)
    subprocess.run([str(PYTHON), "-m", "pip", "install", "--quiet", "--no-deps", *PACKAGES], check=True)


def why_no_nixl() -> str:
    """Empty where NIXL can be used."""
    if not PYTHON.exists():
        return f"NIXL isn't installed; {HOW}"
    tried = subprocess.run(
        [str(PYTHON), "-c", "import nixl_cu12._api"], capture_output=True, text=True, check=False, timeout=60
    )
    return "" if tried.returncode == 0 else f"NIXL can't be imported: {tried.stderr.strip().splitlines()[-1]}"


def ucx_version() -> tuple[int, ...]:
    """Of the UCX that Crossdock finds. There must be one."""
    from crossdock import _options

    (version,) = (one["version"] for one in _options.networks() if one["transport"] == "ucx")
    return tuple(map(int, version.split(".")))


def newer_ucx() -> Path | None:
    """The library of the package libucx, which is newer than the system's."""
    return next(FOLDER.glob("lib/python*/site-packages/libucx/lib/libucp.so.0"), None)
