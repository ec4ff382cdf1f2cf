"""The recipes in packaging/, beside the project. They are built by their own tools."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def cmake_version() -> str:
    found = re.search(r"project\(crossdock VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert found is not None
    return found[1]


def options_of_cmake() -> set[str]:
    files = [ROOT / "CMakeLists.txt", *(ROOT / "cmake").glob("*.cmake"), *(ROOT / "src").rglob("CMakeLists.txt")]
    found = set()
    for file in files:
        found |= set(re.findall(r"\b(CROSSDOCK_\w+)", file.read_text()))
    return found


def test_the_recipes_have_the_version_and_home_of_the_project() -> None:
    yaml = pytest.importorskip("yaml")
    conda = yaml.safe_load((PACKAGING / "conda" / "recipe.yaml").read_text())
    vcpkg = json.loads((PACKAGING / "vcpkg" / "crossdock" / "vcpkg.json").read_text())
    conan = (PACKAGING / "conan" / "conanfile.py").read_text()
    home = PROJECT["project"]["urls"]["Homepage"]
    assert conda["context"]["version"] == vcpkg["version"] == cmake_version()
    assert conda["about"]["homepage"] == vcpkg["homepage"] == home
    assert f'"{home}"' in conan
    assert conda["about"]["license"] == vcpkg["license"] == PROJECT["project"]["license"]


def test_the_conda_recipe_builds_with_what_the_project_says() -> None:
    yaml = pytest.importorskip("yaml")
    host = yaml.safe_load((PACKAGING / "conda" / "recipe.yaml").read_text())["requirements"]["host"]
    assert {one.replace(" ", "") for one in host} >= set(PROJECT["build-system"]["requires"])


def test_the_recipes_name_options_that_there_are() -> None:
    known = options_of_cmake()
    for recipe in PACKAGING.rglob("*"):
        if recipe.is_file() and "test_package" not in recipe.parts:  # a program, which sets no options
            named = set(re.findall(r"\b(CROSSDOCK_\w+)", recipe.read_text()))
            assert named <= known, recipe
