"""pyproject.toml, beside what is in the tree."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = [ROOT / name for name in PROJECT["tool"]["pytest"]["ini_options"]["testpaths"]]
OURS = {"crossdock", "bench"}


def imported(path: Path) -> set[str]:
    """The packages that a Python file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


def test_the_folders_of_tests_are_there_and_hold_tests():
    for folder in FOLDERS:
        assert list(folder.rglob("test_*.py")), f"{folder} holds no test"


@pytest.mark.long
def test_the_test_group_has_whatever_the_tests_import():
    # The tests run the benchmarks, in processes of their own; mypy is run, too.
    files = [ROOT / "tests" / "conftest.py", *(ROOT / "bench").glob("*.py")]
    # Another test, which may run at the same time, makes a folder for a moment.
    files += [path for folder in FOLDERS for path in folder.rglob("*.py") if "test-of-tests" not in str(path)]
    shared = [ROOT / name for name in PROJECT["tool"]["pytest"]["ini_options"]["pythonpath"]]
    files += [path for folder in shared for path in folder.rglob("*.py")]
    # What tests share among themselves.
    beside = {path.stem for path in files} | {path.name for folder in shared for path in folder.iterdir()} | {"tests"}
    needed = set.union(*map(imported, files)) - sys.stdlib_module_names - OURS - beside | {"mypy"}
    groups = PROJECT["dependency-groups"]
    listed = [
        *(one for name in ("test", "engines", "peers", "sycl") for one in groups[name]),
        *PROJECT["project"]["optional-dependencies"]["cli"],
    ]
    names = {re.split(r"[^\w.-]", requirement)[0] for requirement in listed if isinstance(requirement, str)}
    # A package may be imported by another name than its own, which has several spellings.
    providers = {
        module: {re.sub("[-_.]+", "-", one) for one in all_} for module, all_ in packages_distributions().items()
    }
    assert {module for module in needed - names if not names & providers.get(module, set())} == set()


def test_pytest_plug_ins_are_named_alike():
    plugins = PROJECT["project"]["entry-points"]["pytest11"]
    assert set(plugins) == {"crossdock-check", "crossdock-testing"}
