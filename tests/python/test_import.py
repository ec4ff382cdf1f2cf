"""What importing the package costs, and what it offers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import crossdock as xd
from crossdock import _native, errors

ROOT = Path(__file__).resolve().parents[2]


def test_import_needs_no_other_package(script):
    out = script("""
        import sys
        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in ("numpy", "pyarrow", "typer", "rich", "click", "pydantic", "pandas", "polars"):
                    raise ImportError(name + " must not be imported")
        sys.meta_path.insert(0, Refuse())
        import crossdock
        print(crossdock.__version__)
    """).finish()
    assert out.strip() == xd.__version__


def test_import_leaves_for_later_what_arrays_do_not_need(script):
    """Modules of the standard library that cost more than ours, and ours that need them."""
    late = "asyncio ast concurrent contextlib dataclasses datetime inspect logging pathlib re socket ssl typing".split()
    late += ["urllib.parse", "zoneinfo"]
    late += [f"crossdock.{name}" for name in ("aio", "client", "server", "relaying", "peers", "offload", "testing")]
    out = script(f"""
        import sys
        before = set(sys.modules)  # what the environment's own .pth files import
        import crossdock
        print(*sorted(set({late}) & (set(sys.modules) - before)))
    """).finish()
    assert out.split() == []


@pytest.mark.long
def test_a_command_imports_its_own_module_alone(script):
    out = script("""
        import sys
        from crossdock.cli import application
        application("ls")
        print(*sorted(name for name in sys.modules if name in ("crossdock.cli.ls", "crossdock.cli.serve", "pyarrow")))
        application("no such command")
        print("crossdock.cli.serve" in sys.modules)
    """).finish()
    assert out.split("\n")[:2] == ["crossdock.cli.ls", "True"], "and all of them to say what there is"


def test_import_is_quick(script):
    """Processor time beyond that of an interpreter that imports nothing, which hardly depends on what else runs: some
    7 ms. The best of some, in turns."""
    out = script("""
        import os, subprocess, sys
        def seconds(code):
            child = subprocess.Popen([sys.executable, "-c", code])
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            assert child.returncode == 0
            return used.ru_utime + used.ru_stime
        both = [(seconds("import crossdock"), seconds("pass")) for _ in range(7)]
        print(min(ours for ours, _ in both) - min(bare for _, bare in both))
    """).finish()
    assert float(out) <= 0.025


def test_modules_that_import_left_out_are_there_as_attributes(script):
    """As if it had imported them: programs write crossdock.server.Server, and star imports get every name."""
    script("""
        import crossdock
        assert crossdock.server.Server is crossdock.Server
        assert crossdock.client.Client is crossdock.Client is crossdock.connect
        assert crossdock.tls.TLS is crossdock.TLS
        assert {"serve", "server", "testing"} <= set(dir(crossdock))
        names = {}
        exec("from crossdock import *", names)
        assert set(crossdock.__all__) <= set(names)
        try:
            crossdock.nothing
        except AttributeError as error:
            assert str(error) == "module 'crossdock' has no attribute 'nothing'"
        else:
            raise AssertionError
    """).finish()


def test_everything_that_is_offered_is_there():
    assert len(xd.__all__) == len(set(xd.__all__))
    for name in xd.__all__:
        assert getattr(xd, name) is not None
    assert set(errors.__all__) <= set(xd.__all__)


def test_every_error_is_one_of_ours_and_has_its_own_class():
    classes = [getattr(errors, name) for name in errors.__all__]
    assert len(set(classes)) == len(classes)
    for one in classes:
        assert issubclass(one, xd.Error)
        assert one.__doc__
    assert issubclass(xd.TimeoutError, TimeoutError)
    assert issubclass(xd.ConnectionError, ConnectionError)
    assert issubclass(xd.PermissionError, PermissionError)
    assert issubclass(xd.NotFoundError, LookupError)
    assert issubclass(xd.UriError, ValueError)
    assert issubclass(xd.InvalidArgumentError, ValueError)
    assert issubclass(xd.UnsupportedTypeError, TypeError)
    assert issubclass(xd.UnsupportedError, NotImplementedError)
    assert issubclass(xd.TruncatedStreamError, EOFError)
    assert issubclass(xd.FileChangedError, OSError)


def test_every_error_code_of_the_library_has_its_class():
    """The header is the list; what the native module looked up by code is what it raises."""
    header = (ROOT / "include" / "crossdock" / "core" / "error.h").read_text()
    body = re.search(r"enum class ErrorCode[^{]*{(.*?)\n};", header, re.DOTALL)
    assert body is not None
    codes = {int(number): name for name, number in re.findall(r"^  k(\w+) = (\d+),", body[1], re.MULTILINE)}
    assert len(codes) == body[1].count("///<")
    expected = ["Error", *(f"{codes[code]}Error" for code in range(1, len(codes) + 1))]
    assert [one.__name__ for one in _native.error_classes] == expected
    assert [getattr(xd, name) for name in expected] == list(_native.error_classes)
    # One class more has no code of its own: a ResourceError by its errno.
    assert sorted([*expected, "OutOfMemoryError"]) == errors.__all__
    assert issubclass(xd.OutOfMemoryError, xd.ResourceError)
    assert issubclass(xd.OutOfMemoryError, MemoryError)


def test_the_documentation_names_every_error():
    table = (ROOT / "docs" / "how-to" / "python-errors.md").read_text()
    assert [name for name in errors.__all__ if name != "Error" and f"`{name}`" not in table] == []


def test_a_sub_interpreter_is_refused_and_disturbs_nobody(script):
    # Once there was one, CPython's own "do I hold the lock?" says yes on every thread.
    pytest.importorskip("_xxsubinterpreters")
    script(
        """
        import _xxsubinterpreters
        import pyarrow as pa
        import crossdock as xd
        from crossdock import testing

        other = _xxsubinterpreters.create()
        _xxsubinterpreters.run_string(
            other,
            "try:\\n    import crossdock\\nexcept ImportError as error:\\n"
            "    assert 'main interpreter only' in str(error), error\\nelse:\\n    raise AssertionError",
        )
        _xxsubinterpreters.destroy(other)
        assert str(xd.asarray(bytearray(3)).device) == "cpu"
        with testing.simulated_devices(1):
            there = xd.asarray(bytearray(b"abc")).to("sim:0")
            assert bytes(there.to("cpu")) == b"abc"
        table = pa.table({"x": [1, 2]})
        with xd.serve({"t": table}) as server, xd.connect(server.uri) as client:
            assert pa.table(client.get("t")) == table
        """
    ).finish()
