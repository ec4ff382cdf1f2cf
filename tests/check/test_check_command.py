"""`crossdock check` and the pytest plug-in `crossdock-check`, as other projects use them: in processes of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

from crossdock._check import PROTOCOLS

ROOT = Path(__file__).resolve().parents[2]

LIBRARY = """
import ctypes

class Right:
    readonly = False
    @property
    def __array_interface__(self):
        self.memory = getattr(self, "memory", None) or ctypes.create_string_buffer(3)
        return {"shape": (3,), "typestr": "|u1", "data": (ctypes.addressof(self.memory), self.readonly), "version": 3}

class Wrong(Right):
    readonly = 0

def fails():
    raise LookupError("nothing\\nhere")

def forgets():
    return missing

class Needs(Right):
    def __init__(self, size):
        pass

class Breaks(Right):
    def __init__(self):
        raise TypeError("not\\ntoday")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "library.py").write_text(LIBRARY)
    return tmp_path


def run(project: Path, *arguments: object, path: Path | None = None) -> tuple[int, str, str]:
    env = dict(os.environ, COLUMNS="200")
    if path is not None:
        env["PYTHONPATH"] = os.pathsep.join([str(path), *filter(None, [env.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        capture_output=True, text=True, timeout=120, check=False, cwd=project, env=env,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_the_command_checks_what_an_expression_gives(project):
    code, out, err = run(project, "crossdock", "check", "library:Right")
    assert (code, err) == (0, "")
    assert out == "Right: exercised array-interface\nno findings\n"
    code, out, _ = run(project, "crossdock", "check", "library:[Wrong()][0]")
    assert code == 1
    assert "1 error" in out
    assert "error: array-data (array-interface)" in out
    assert "found:   data is (" in out
    assert "NumPy array interface 3: data" in out


def test_the_command_answers_programs(project):
    code, out, _ = run(project, "crossdock", "check", "library:Wrong", "--json")
    answer = json.loads(out)
    assert code == 1
    assert (answer["what"], answer["ok"], answer["protocols"]) == ("Wrong", False, ["array-interface"])
    (finding,) = answer["findings"]
    assert set(finding) == {"protocol", "rule", "severity", "section", "wants", "message"}
    assert answer["counts"] == {"error": 1, "warning": 0, "note": 0}
    assert (finding["rule"], finding["severity"]) == ("array-data", "error")


def test_the_command_checks_some_protocols_alone(project):
    code, out, _ = run(project, "crossdock", "check", "builtins:b'abc'", "--protocol", "buffer")
    assert (code, out) == (0, "bytes: exercised buffer\nno findings\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("library",), "not of the form module:expression"),
        (("library:",), "not of the form module:expression"),
        (("library:Right(",), "not a valid expression"),
        (("no_library:x",), "there is no module no_library"),
        (("no_\x1b[2J:x",), r"there is no module no_\x1b[2J"),
        (("./library.py:Right",), "give a module (library:Right), not a path (./library.py)"),
        (("library.py:Right",), "give a module (library:Right), not a path (library.py)"),
        (("sub/arrays.py:x",), "give a module (sub.arrays:x), not a path (sub/arrays.py)"),
        (("/lib.py:Right",), "give a module (arrays:x for x of arrays.py), not a path (/lib.py)"),
        ((".library:Right",), "not a path (.library)"),
        (("library:3",), "int doesn't claim any protocol"),
        (("library:Right", "--protocol", "dl"), "'dl' is not a protocol"),
        (("library:Right", "--protocol", "dlpack"), "Right doesn't claim dlpack"),
        (("library:missing",), "the module library has no missing"),
        (("library:[missing.Right for _ in 'a'][0]",), "the module library has no missing"),
        (("library:Needs",), "write 'library:lambda: Needs(...)'"),
    ],
)
def test_wrong_usage_is_exit_code_2(project, arguments, says):
    code, out, err = run(project, "crossdock", "check", *arguments)
    assert (code, out) == (2, "")
    assert says in err


def test_the_help_has_every_protocol(project):
    code, out, _ = run(project, "crossdock", "check", "--help")
    whole = re.sub(r"-\n +", "-", out)  # lines may end at a hyphen
    words = set(re.findall(r"[a-z]+(?:-[a-z]+)*", whole))
    assert code == 0
    assert set(PROTOCOLS) <= words


@pytest.mark.long
def test_what_the_expression_raises_is_one_line(project):
    code, out, err = run(project, "crossdock", "check", "library:fails()")
    assert (code, out, err) == (1, "", "LookupError: nothing here\n")
    for target in ("library:forgets()", "library:forgets"):
        code, _, err = run(project, "crossdock", "check", target)
        assert (code, err) == (1, "NameError: name 'missing' is not defined\n")
    code, _, err = run(project, "crossdock", "check", "library:Breaks")
    assert (code, err) == (1, "TypeError: not today\n")
    code, _, err = run(project, "crossdock", "--debug", "check", "library:Breaks")
    assert code == 1
    assert "Traceback" in err
    (project / "broken.py").write_text("import not_there_either")
    code, _, err = run(project, "crossdock", "check", "broken:x")
    assert (code, err) == (1, "ModuleNotFoundError: No module named 'not_there_either'\n")


TESTS = """
import crossdock
import library
import pytest

def test_right(crossdock_check):
    report = crossdock_check(library.Right)
    assert report.protocols == ("array-interface",)

def test_wrong(crossdock_check):
    crossdock_check(library.Wrong())

def test_known(crossdock_check):
    assert not crossdock_check(library.Wrong(), allow=["array-data"]).ok

def test_another_is_known(crossdock_check):
    crossdock_check(library.Wrong(), allow=["array-shape"])

def test_misspelt(crossdock_check):
    with pytest.raises(crossdock.InvalidArgumentError, match="not the name of a rule; 'array-data' is"):
        crossdock_check(library.Right(), allow=["aray-data"])

def test_mended_since(crossdock_check):
    with pytest.warns(UserWarning, match="allow= has rules that Right doesn't break: array-data, array-shape$"):
        crossdock_check(library.Right(), allow=["array-shape", "array-data"])
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder in which the plug-in is installed, as far as pytest can tell: by its entry point."""
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    info = tmp_path / "site" / "crossdock_again-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: crossdock-again\nVersion: 0\n")
    lines = [f"{name} = {module}" for name, module in entry_points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines, ""]))
    return tmp_path / "site"


@pytest.mark.long
def test_the_plug_in_fails_a_test_with_the_report(project, site):
    (project / "test_library.py").write_text(TESTS)
    code, out, _ = run(project, "pytest", "-p", "no:cacheprovider", "-rA", "-W", "error", path=site)
    assert code == 1, out
    assert "2 failed, 4 passed" in out
    assert "allow= has rules that Wrong doesn't break: array-shape" in out
    assert "PASSED test_library.py::test_right" in out
    assert "FAILED test_library.py::test_wrong" in out
    assert "FAILED test_library.py::test_another_is_known" in out
    assert "error: array-data (array-interface)" in out
    assert "found:   data is (" in out
    assert "Traceback" not in out


@pytest.mark.long
def test_the_plug_in_loads_no_checker(project, site):
    (project / "test_nothing.py").write_text(
        textwrap.dedent("""
            import sys
            def test_nothing():
                assert "crossdock.pytest_check" in sys.modules
                assert "crossdock._check" not in sys.modules
        """)
    )
    code, out, _ = run(project, "pytest", "-p", "no:cacheprovider", path=site)
    assert code == 0, out
    code, out, _ = run(project, "pytest", "-p", "no:cacheprovider", "-p", "no:crossdock-check", path=site)
    assert code == 1, "and can be turned off"
