"""The source distribution, and what the package index shows of it. `./dev wheel` builds from it."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
# Where files of the main branch are, as they are: a page of the index shows no other form of a picture.
RAW = PROJECT["project"]["urls"]["Source"].replace("github.com", "raw.githubusercontent.com") + "/main/"
FILES = {"CMakeLists.txt", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
FOLDERS = {"cmake", "include", "python", "src"}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source distribution."""
    folder = tmp_path_factory.mktemp("sdist")
    code = "import sys; from scikit_build_core.build import build_sdist; print(build_sdist(sys.argv[1]))"
    made = subprocess.run(
        [sys.executable, "-c", code, folder], cwd=ROOT, check=True, capture_output=True, text=True, timeout=120
    )
    with tarfile.open(folder / made.stdout.split()[-1]) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (root,) = (folder / "unpacked").iterdir()
    return root


def test_it_has_what_a_build_needs_and_no_more(source: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    wanted = {name for name in listed if (ROOT / name).exists()} | FILES
    assert {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()} == wanted


def test_cmake_finds_all_that_it_asks_for(source: Path, tmp_path: Path) -> None:
    """Configures as a wheel's build does: a source or an included file that isn't there is an error."""
    off = ("CROSSDOCK_BUILD_TESTS", "CROSSDOCK_BUILD_BENCH", "CROSSDOCK_INSTALL")
    on = ("CROSSDOCK_BUILD_PYTHON", "CROSSDOCK_STATIC_CODECS", "CROSSDOCK_STATIC_OPENSSL", "CROSSDOCK_OLDER_LIBSTDCXX")
    options = [f"-DPython_EXECUTABLE={sys.executable}", *(f"-D{name}=OFF" for name in off)]
    done = subprocess.run(
        ["cmake", "-S", source, "-B", tmp_path, "-G", "Ninja", *options, *(f"-D{name}=ON" for name in on)],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def metadata(source: Path) -> Message:
    return BytesParser().parsebytes((source / "PKG-INFO").read_bytes())


def test_nothing_else_is_installed_without_an_extra(metadata: Message) -> None:
    required = metadata.get_all("Requires-Dist", [])
    assert [one for one in required if "extra ==" not in one] == []
    assert set(metadata.get_all("Provides-Extra", [])) == {"all", "cli", "io", "metrics", "top"}


def test_the_extras_bring_what_the_page_on_installation_says(metadata: Message) -> None:
    found = [
        re.fullmatch(r"([\w-]+(?:\[[\w,]+\])?)[^;]*; extra == .(\w+).", one)
        for one in metadata.get_all("Requires-Dist", [])
    ]
    brought = [(one[2], one[1]) for one in found if one is not None]
    assert sorted(brought) == [
        *(("all", "crossdock[cli,io,metrics,top]"), ("cli", "rich"), ("cli", "typer"), ("io", "pyarrow")),
        *(("metrics", "prometheus-client"), ("top", "crossdock[cli]"), ("top", "textual")),
    ]


def test_the_long_description_leads_to_files_that_are_there(metadata: Message) -> None:
    text = metadata.get_payload()
    assert isinstance(text, str)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    home = f"{PROJECT['project']['urls']['Source']}/blob/main/"
    assert [link for link in links if not re.match(r"https://|#", link)] == []
    ours = [link.removeprefix(home).partition("#")[0] for link in links if link.startswith(home)]
    assert len(ours) > 10
    pictures = re.findall(rf"!\[[^]]*\]\({re.escape(RAW)}([^)\s]+)\)", text)
    assert pictures
    assert [link for link in (*ours, *pictures) if not (ROOT / link).exists()] == []


def test_the_addresses_of_the_project_agree() -> None:
    urls = PROJECT["project"]["urls"]
    pictures, links = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]
    assert pictures["replacement"].startswith(rf"\1({RAW}")
    assert links["replacement"].startswith(f"]({urls['Source']}/blob/main/")
    assert all(url.startswith(urls["Homepage"]) for url in urls.values())
