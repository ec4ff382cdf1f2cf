"""Compares the exports of one object by several protocols."""

from __future__ import annotations

from crossdock._check import abi
from crossdock._check.checker import Checker, View, formatted


def check(checker: Checker) -> None:
    """Compares all views of the object with the first one."""
    first, *others = checker.views
    for view in others:
        _shapes(checker, first, view)
    known = [view for view in checker.views if view.readonly is not None and not view.copied]
    devices = {view.device: view.protocol for view in checker.views if view.device is not None}
    alien = next((kind for kind in devices if kind in abi.NOT_FOR_THE_CPU), None)
    if alien is not None and abi.CPU in devices:
        checker.add(
            "across-device", f"memory of the CPU by {devices[abi.CPU]}, of {abi.DEVICES[alien]} by {devices[alien]}"
        )
    refusing = [view.protocol for view in known if view.readonly]
    allowing = [view.protocol for view in known if not view.readonly]
    if refusing and allowing:
        checker.add("across-readonly", f"read-only by {', '.join(refusing)}, and writable by {', '.join(allowing)}")


def _shapes(checker: Checker, one: View, other: View) -> None:
    names = f"by {one.protocol}, and {{}} by {other.protocol}"
    if one.itemsize != other.itemsize:
        checker.add("across-itemsize", f"elements have {one.itemsize} bytes {names.format(other.itemsize)}")
    if one.shape != other.shape:
        checker.add("across-shape", f"the shape is {formatted(one.shape)} {names.format(formatted(other.shape))}")
        return
    if one.size == 0:
        return
    long = [axis for axis, count in enumerate(one.shape) if count > 1]
    copied = one.copied or other.copied
    if not copied and any(one.strides[axis] != other.strides[axis] for axis in long):
        checker.add("across-strides", f"strides are {formatted(one.strides)} {names.format(formatted(other.strides))}")
    if not copied and one.pointer != other.pointer:
        checker.add("across-pointer", f"the memory is at {one.pointer:#x} {names.format(hex(other.pointer))}")
