"""`crossdock.check()` on USM memory, with a real SYCL run time to ask: deliberate mistakes, dpctl, dpnp, our own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.exporter_samples import usm_run_time
from tests.exporter_samples.capsules import Wrong

import crossdock as xd
from crossdock import checking

dpctl = pytest.importorskip("dpctl")
dpm = pytest.importorskip("dpctl.memory")
dpnp = pytest.importorskip("dpnp")

if not dpctl.get_devices(device_type="cpu"):
    pytest.skip("SYCL has no CPU here", allow_module_level=True)

USM = "sycl-usm-array-interface"


def rules(report: checking.Report) -> set[str]:
    return {one.rule for one in report}


def each_way(make: Callable[[], Any]) -> tuple[checking.Report, checking.Report]:
    return xd.check(make), xd.check(make())


@pytest.mark.parametrize("make", usm_run_time.RIGHT, ids=lambda make: make.__name__)
def test_right_exporters_have_no_finding(make):
    for report in each_way(make):
        assert list(report) == [], str(report)
        assert report.protocols[-1] == USM


@pytest.mark.parametrize("wrong", usm_run_time.WRONG, ids=lambda wrong: f"{wrong.rule}-{wrong.make.__name__}")
def test_each_wrong_exporter_breaks_its_rule_and_no_other(wrong: Wrong):
    for report in each_way(wrong.make):
        assert rules(report) == {wrong.rule}, str(report)
        assert not report.ok


def test_strides_in_bytes_are_told_as_such():
    assert "look like bytes" in str(xd.check(usm_run_time.StridesInBytes))
    assert "look like bytes" not in str(xd.check(usm_run_time.TooLong))


ARRAYS: dict[str, tuple[Callable[[], Any], set[str]]] = {
    "bytes": (lambda: dpnp.ones(3, dtype="i1"), set()),
    "truth values": (lambda: dpnp.ones(3, dtype="?"), set()),
    "floats": (lambda: dpnp.arange(6, dtype="f4").reshape(2, 3), {"usm-typestr-order"}),
    "complex": (lambda: dpnp.ones(3, dtype="c16"), {"usm-typestr-order"}),
    "transposed": (lambda: dpnp.ones((2, 3)).T, {"usm-typestr-order"}),
    "backwards": (lambda: dpnp.ones((2, 3))[::-1, ::-2], {"usm-typestr-order"}),
    "a part": (lambda: dpnp.ones((20, 30))[3:4, 5:], {"usm-typestr-order"}),
    "shared": (lambda: dpnp.ones(3, usm_type="shared"), {"usm-typestr-order"}),
    "host": (lambda: dpnp.ones(3, usm_type="host"), {"usm-typestr-order"}),
    "nothing": (lambda: dpnp.ones((0, 3)), {"usm-typestr-order", "dlpack-zero-size"}),
    # Read-only by DLPack, though it can be written, and flags.writable says so.
    "no dimensions": (
        lambda: dpnp.ones((), dtype="f8"),
        {"usm-typestr-order", "dlpack-legacy-readonly", "across-readonly"},
    ),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_dpnp(name):
    make, known = ARRAYS[name]
    for report in each_way(make):
        assert report.protocols == ("dlpack", USM)
        assert rules(report) == known, str(report)


@pytest.mark.parametrize("kind", [dpm.MemoryUSMDevice, dpm.MemoryUSMShared, dpm.MemoryUSMHost])
def test_dpctls_memory(kind):
    for report in each_way(lambda: kind(64)):
        assert rules(report) == {"usm-read-only-unsure"}, str(report)
        assert report.ok
        assert ("buffer" in report.protocols) == (kind is not dpm.MemoryUSMDevice)


def tensor(usm_type: str) -> xd.Tensor:
    return xd.empty((4, 3), "f4", queue="cpu", usm_type=usm_type)  # type: ignore[arg-type]


@pytest.mark.parametrize("usm_type", ["device", "shared", "host"])
def test_our_own(usm_type):
    for make in (
        lambda: tensor(usm_type),
        lambda: tensor(usm_type)[1:, ::-1],
        lambda: tensor(usm_type)[::-2],
        lambda: tensor(usm_type)[0, 0],
        lambda: tensor(usm_type)[2:2],
        lambda: xd.asarray(dpnp.arange(6, dtype="f4", usm_type=usm_type).reshape(2, 3)),
    ):
        for report in each_way(make):
            assert rules(report) <= {"arrow-refuses"}, str(report)
            assert USM in report.protocols


@pytest.mark.parametrize("syclobj", ["queue", "context", "filter"])
def test_our_own_in_each_context(syclobj):
    class Shows:
        def __init__(self) -> None:
            self.tensor = tensor("shared")

        @property
        def __sycl_usm_array_interface__(self) -> dict[str, Any]:
            return self.tensor.sycl_usm_array_interface(syclobj)

    for report in each_way(Shows):
        assert list(report) == [], str(report)


def test_nothing_is_asked_where_nobody_loaded_dpctl(script):
    """The checker imports nothing, and a made-up pointer is checked against the text alone."""
    out = script("""
        import sys, crossdock as xd
        class Told:
            __sycl_usm_array_interface__ = {
                "shape": (3,), "typestr": "<f4", "data": (0x1000, False), "version": 1, "syclobj": "cpu",
            }
        report = xd.check(Told())
        print([str(one) for one in report], report.ok, "dpctl" in sys.modules)
        import dpctl
        print([one.rule for one in xd.check(Told())])
    """).finish()
    without, with_dpctl = out.splitlines()
    assert without.startswith(
        f"[\"note: usm-pointer-unchecked ({USM})\\n  found:   0x1000 wasn't checked by the SYCL run time: import dpctl"
    )
    assert without.endswith(" True False")
    assert with_dpctl == "['usm-pointer']"


def test_nobody_is_asked_about_no_elements(script):
    out = script("""
        import crossdock as xd
        class Empty:
            __sycl_usm_array_interface__ = {
                "shape": (0, 3), "typestr": "<f4", "data": (0, False), "version": 1, "syclobj": "cpu",
            }
        print(xd.check(Empty()))
    """).finish()
    assert out == f"Empty: exercised {USM}\nno findings\n"


def test_what_lies_outside_is_told_with_its_size():
    report = xd.check(usm_run_time.TooLong())
    assert re.search(
        r"from 0x[0-9a-f]+ on \d+ bytes are shown, which aren't all \w+ memory of that context", str(report)
    )


@pytest.mark.parametrize("kind", ["device", "shared", "host"])
def test_a_class_that_exports_usm_memory(kind):
    class Samples(xd.Exports):
        """Strides count elements, as in the SYCL USM array interface."""

        def __init__(self) -> None:
            self.memory = getattr(dpm, f"MemoryUSM{kind.capitalize()}")(24)

        def __crossdock_array__(self) -> dict[str, Any]:
            interface = self.memory.__sycl_usm_array_interface__
            return {
                "shape": (3,), "strides": (2,), "typestr": "<f4", "data": (interface["data"][0], False),
                "syclobj": self.memory.sycl_queue,
            }  # fmt: skip

    for report in each_way(Samples):
        assert report.ok, str(report)
        assert {"dlpack", USM} <= {*report.protocols}
        assert ("array-interface" in report.protocols) == (kind != "device")
    assert xd.asarray(Samples()).strides == (8,)
    assert not hasattr(Samples(), "__cuda_array_interface__")
    assert hasattr(Samples(), "__array_interface__") == (kind != "device")
