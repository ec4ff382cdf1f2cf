"""crossdock.testing: simulated devices, and the fixture that other projects' tests get."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import textwrap

import pytest

import crossdock as xd
from crossdock import _native, testing


def test_devices_are_there_as_long_as_the_block():
    assert _native.sim_devices() == 0
    with testing.simulated_devices(3, delay=0.001) as devices:
        assert _native.sim_devices() == 3
        assert len(devices) == 3
        assert devices.names == ["ext_dev:0", "ext_dev:1", "ext_dev:2"]
        assert "ext_dev:2" in repr(devices)
    assert _native.sim_devices() == 0


def test_devices_go_when_the_block_raises():
    with pytest.raises(RuntimeError, match="inside"), testing.simulated_devices(1):
        raise RuntimeError("inside")
    assert _native.sim_devices() == 0


def test_without_the_block_the_error_says_how_to_get_devices():
    with pytest.raises(xd.NotFoundError, match=r"it has 0 now.*crossdock\.testing\.simulated_devices\(\)"):
        xd.empty(3, device="sim:0")
    with testing.simulated_devices(1), pytest.raises(xd.NotFoundError, match=r"it has 1 now$"):
        xd.empty(3, device="sim:1")


def test_blocks_cant_be_nested():
    with (
        testing.simulated_devices(2),
        pytest.raises(xd.InvalidArgumentError, match="already"),
        testing.simulated_devices(1),
    ):
        pass
    assert _native.sim_devices() == 0


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((0,), {}),
        ((-1,), {}),
        ((2,), {"delay": -1}),
        ((2,), {"delay": float("nan")}),
        ((2,), {"delay": 1e9}),
        ((2,), {"memory": 0}),
    ],
)
def test_wrong_settings(arguments, options):
    with pytest.raises(xd.InvalidArgumentError), testing.simulated_devices(*arguments, **options):
        pass
    assert _native.sim_devices() == 0


def test_counters_start_at_0_and_know_every_verb():
    with testing.simulated_devices() as devices:
        found = devices.counters()
        assert found == testing.counters()
        assert {"allocate", "copy", "record", "wait", "order_after", "total", "bytes_copied"} <= set(found)
        assert not any(value for name, value in found.items() if not name.startswith("live_"))


def test_failures_take_crossdocks_errors_only():
    with testing.simulated_devices() as devices:
        for error in (None, xd.ResourceError, xd.ResourceError("no memory")):
            devices.fail_next("allocate", error=error)
            devices.fail_work(error=error)
        for error in (ValueError, ValueError("x"), xd.Error, 3):
            with pytest.raises(xd.InvalidArgumentError, match=r"crossdock\.errors"):
                devices.fail_next("allocate", error=error)
        with pytest.raises(xd.InvalidArgumentError, match="order_after"):
            devices.fail_next("synchronise")
        with pytest.raises(xd.InvalidArgumentError, match="after must be"):
            devices.fail_work(after=-1)


def test_importing_crossdock_imports_neither_testing_nor_pytest():
    code = "import sys, crossdock; print([m for m in ('pytest', 'crossdock.testing') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_forgotten_order_fails_the_block(monkeypatch):
    faults = ["queue 2 reads memory that queue 1 writes"]
    monkeypatch.setattr(_native, "sim_faults", lambda: faults)
    with pytest.raises(AssertionError, match="queue 2 reads memory"), testing.simulated_devices(1):
        pass
    assert _native.sim_devices() == 0


def test_the_plugin_is_installed():
    names = {entry.value for entry in importlib.metadata.entry_points(group="pytest11")}
    assert "crossdock.testing_plugin" in names


@pytest.mark.simulated_devices(1, delay=0.002)
def test_the_fixture_reads_its_marker(simulated_devices):
    assert len(simulated_devices) == 1


def test_another_projects_tests_get_the_fixture(tmp_path):
    (tmp_path / "test_theirs.py").write_text(
        textwrap.dedent("""
            def test_two(simulated_devices):
                assert len(simulated_devices) == 2
        """)
    )
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 passed" in run.stdout
