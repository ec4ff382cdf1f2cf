"""`xd.Exports` on memory of CUDA: described by a dict with its device and stream, and by a Tensor."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from tests.cuda_fake_cases.cuda_array import CUDA, Memory, each_device, no_faults, read, two_devices

import crossdock as xd

__all__ = ["no_faults"]


class Samples(xd.Exports):
    def __init__(self, array: np.ndarray, stream: int | None = None, kind: str = "device", device: int = 0) -> None:
        self.memory = Memory(array, kind, device)
        self.array, self.entries = array, {"device": f"cuda:{device}"}
        if stream is not None:
            self.entries["stream"] = stream

    def __crossdock_array__(self) -> dict[str, Any]:
        interface = self.array.__array_interface__
        described = {key: interface[key] for key in ("shape", "typestr")}
        return {**described, "data": (self.memory.pointer, False), **self.entries}


@each_device
def test_it_passes_the_checker(device):
    array = np.arange(6, dtype="f4").reshape(2, 3)
    for report in (xd.check(lambda: Samples(array, device=device)), xd.check(Samples(array, device=device))):
        assert report.ok, str(report)
        assert {"dlpack", "cuda-array-interface", "arrow-array", "arrow-device-array"} <= {*report.protocols}
        assert "array-interface" not in report.protocols
    thing = Samples(array, device=device)
    assert thing.__dlpack_device__() == (2, device)
    for attribute in ("__array_interface__", "__sycl_usm_array_interface__"):
        assert not hasattr(thing, attribute)


def test_the_stream_goes_along():
    stream = CUDA.stream()
    thing = Samples(np.zeros(16, "u1"), stream)
    assert thing.__cuda_array_interface__["stream"] == stream
    CUDA.slow_down(0.05)
    thing.memory.fill(7, stream)
    taken = xd.asarray(thing)
    assert taken.queue.native == stream
    assert read(taken).tolist() == [7] * 16


def test_each_export_keeps_the_object():
    for take in (
        xd.asarray,
        xd.from_dlpack,
        lambda thing: xd.from_cuda_array_interface(thing.__cuda_array_interface__, thing),
    ):
        thing = Samples(np.arange(3.0))
        alive = weakref.ref(thing)
        taken = take(thing)
        del thing
        gc.collect()
        assert alive() is not None
        assert read(taken).tolist() == [0, 1, 2]
        del taken
        gc.collect()
        assert alive() is None


def test_bfloat16():
    thing = Samples(np.array([0x3F80, 0x4000], "<u2"))
    thing.entries["dtype"] = "bfloat16"
    tensor = xd.asarray(thing)
    assert tensor.dtype == "bfloat16"
    assert tensor.to("cpu").tolist() == [1.0, 2.0]
    assert not hasattr(thing, "__cuda_array_interface__")
    assert xd.from_dlpack(thing).dtype == "bfloat16"


def test_a_tensor_on_a_device():
    class OfTensor(xd.Exports):
        tensor = xd.asarray(np.arange(3.0)).to("cuda:0")

        def __crossdock_array__(self) -> xd.Tensor:
            return self.tensor

    assert xd.check(OfTensor()).ok
    assert read(xd.from_dlpack(OfTensor())).tolist() == [0, 1, 2]
    with pytest.raises(BufferError, match=r"OfTensor: NumPy can't read memory of cuda:0; copy it to the host first"):
        np.asarray(OfTensor())


def test_pinned_memory():
    thing = Samples(np.arange(3.0), kind="pinned")
    assert xd.asarray(thing).device == "cuda_host:0"
    assert np.asarray(thing).tolist() == [0, 1, 2]


@two_devices
def test_another_device_than_that_of_the_memory():
    thing = Samples(np.arange(3.0))
    thing.entries["device"] = "cuda:1"
    with pytest.raises(
        xd.InvalidDataError, match=r"^Samples.*the memory is of cuda:0, but the entry device says cuda:1"
    ):
        xd.asarray(thing)


def test_memory_of_the_host_isnt_cudas():
    class OnTheHost(xd.Exports):
        array = np.arange(3.0)

        def __crossdock_array__(self) -> dict[str, Any]:
            interface = self.array.__array_interface__
            return {"shape": (3,), "typestr": "<f8", "data": interface["data"], "device": "cuda:0"}

    with pytest.raises(xd.Error, match=r"OnTheHost\.__crossdock_array__\(\): "):
        xd.asarray(OnTheHost())
