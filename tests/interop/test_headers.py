"""Our plain C headers beside other projects' copies of the same structures, in either order."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPILER = shutil.which(os.environ.get("CXX", "g++"))

ARROW_CHECKS = """
static_assert(sizeof(ArrowSchema) == 72);
static_assert(sizeof(ArrowArray) == 80);
static_assert(sizeof(ArrowDeviceArray) == 128);
static_assert(sizeof(ArrowDeviceArrayStream) == 48);
static_assert(ARROW_DEVICE_CUDA_MANAGED == 13);
"""
DLPACK_CHECKS = """
static_assert(sizeof(DLTensor) == 48);
static_assert(sizeof(DLManagedTensorVersioned) == 80);
static_assert(kDLCUDAManaged == 13);
static_assert(DLPACK_FLAG_BITMASK_READ_ONLY == 1);
"""


def arrow_of_pyarrow() -> tuple[str, str]:
    return pytest.importorskip("pyarrow").get_include(), "arrow/c/abi.h"


def arrow_of_nanoarrow() -> tuple[str, str]:
    folder = Path(pytest.importorskip("nanoarrow").__file__).parent
    for header in folder.rglob("nanoarrow.h"):
        return str(header.parent.parent), f"{header.parent.name}/{header.name}"
    pytest.skip("the nanoarrow package brings no C header")


def dlpack_of_pyarrow() -> tuple[str, str]:
    return pytest.importorskip("pyarrow").get_include(), "arrow/c/dlpack_abi.h"


def dlpack_of_torch() -> tuple[str, str]:
    folder = Path(pytest.importorskip("torch").__file__).parent / "include"
    return str(folder), "ATen/dlpack.h"


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("ours_first", [True, False])
@pytest.mark.parametrize(
    ("theirs", "ours", "checks"),
    [
        (arrow_of_pyarrow, "crossdock/array/c_abi.h", ARROW_CHECKS),
        (arrow_of_nanoarrow, "crossdock/array/c_abi.h", ARROW_CHECKS),
        (dlpack_of_pyarrow, "crossdock/array/dlpack_abi.h", DLPACK_CHECKS),
        (dlpack_of_torch, "crossdock/array/dlpack_abi.h", DLPACK_CHECKS),
    ],
)
def test_headers_compile_beside_each_other(tmp_path, theirs, ours: str, checks: str, ours_first: bool) -> None:
    folder, header = theirs()
    both = [f"#include <{ours}>", f"#include <{header}>"]
    source = tmp_path / "both.cc"
    source.write_text("\n".join(both if ours_first else reversed(both)) + checks)
    command = [str(COMPILER), "-std=c++20", "-fsyntax-only", f"-I{ROOT / 'include'}", f"-isystem{folder}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
def test_an_old_dlpack_header_that_comes_first_is_told(tmp_path) -> None:
    source = tmp_path / "old.cc"
    source.write_text("#define DLPACK_DLPACK_H_\n#define DLPACK_VERSION 80\n#include <crossdock/array/dlpack_abi.h>\n")
    command = [str(COMPILER), "-std=c++20", "-fsyntax-only", f"-I{ROOT / 'include'}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode != 0
    assert "include this header first" in done.stderr
