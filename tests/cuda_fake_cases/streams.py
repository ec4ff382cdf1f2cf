"""Streams of other libraries on the fake of CUDA's library: which device's they are, whoever shows them, and arrays
whose work is on another device's stream than their memory's.

The exporters are plain Python and ctypes: nothing of ours is in them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_size_t, c_uint64, c_void_p
from types import SimpleNamespace

import numpy as np
import pytest
from tests.cuda_fake_cases.cuda_array import (
    CUDA,
    DeviceArray,
    Memory,
    comes_after,
    in_a_thread,
    interface_of,
    no_faults,
    on_the_fake,
    read,
    two_devices,
)

import crossdock as xd

__all__ = ["no_faults"]


class Stream:
    """As CUDA's Python packages show theirs; `where`: what the object says of its device."""

    def __init__(self, handle: object, version: object = 0, **where: object) -> None:
        self.pair = (version, handle)
        self.__dict__.update(where)

    def __cuda_stream__(self) -> tuple[object, object]:
        return self.pair


@contextmanager
def current(device: int) -> Iterator[None]:
    CUDA("cuCtxPushCurrent_v2", CUDA.contexts[device])
    try:
        yield
    finally:
        CUDA("cuCtxPopCurrent_v2", ctypes.byref(c_void_p()))


@pytest.fixture
def floats() -> np.ndarray:
    return np.arange(12, dtype="f4").reshape(3, 4)


# ---- Queue(stream) --------------------------------------------------------------------------------------------------


@two_devices
@pytest.mark.parametrize("handle", [0, 1, 2])
@pytest.mark.parametrize(
    "where",
    [
        {"device": SimpleNamespace(type="cuda", index=1)},  # torch's
        {"device": SimpleNamespace(device_id=1)},  # cuda.core's
        {"device": SimpleNamespace(id=1)},  # CuPy's
        {"device": 1},
        {"device": "cuda:1"},
        {"device": (2, 1)},
        {"device": xd.Device("cuda:1")},
        {"device_id": 1},
        {"device": SimpleNamespace(type="cuda", index=None), "device_id": np.int64(1)},
    ],
    ids=["torch", "cuda.core", "cupy", "number", "text", "pair", "ours", "device_id", "device_id beside"],
)
def test_a_default_stream_is_its_objects_devices(handle: int, where: dict[str, object]) -> None:
    queue = xd.Queue(Stream(handle, **where))
    assert queue.device == "cuda:1"
    assert queue.native == max(handle, 1)
    with current(1):
        assert xd.Queue(Stream(handle, device=0)).device == "cuda:0"


@two_devices
@pytest.mark.parametrize("handle", [0, 1, 2])
@pytest.mark.parametrize("where", [{}, {"device_id": -1}, {"device": None}, {"device": SimpleNamespace(index=None)}])
def test_a_default_stream_that_says_nothing_is_the_current_devices(handle: int, where: dict[str, object]) -> None:
    stream = Stream(handle, **where)
    assert xd.Queue(stream).device == "cuda:0"
    with current(1):
        assert xd.Queue(stream).device == "cuda:1"


def test_a_default_stream_of_nowhere() -> None:
    def ask() -> None:
        with pytest.raises(ValueError, match="make a context of that device current"):
            xd.Queue(Stream(1))
        assert xd.Queue(Stream(1, device=0)).device == "cuda:0"

    in_a_thread(ask)  # where no context is current


@two_devices
def test_a_stream_is_of_the_device_that_it_was_made_on() -> None:
    for device in (0, 1):
        stream = CUDA.stream(device)
        for queue in (xd.Queue(Stream(stream)), xd.Queue(Stream(stream, device=1 - device))):
            assert (queue.device, queue.native) == (f"cuda:{device}", stream)
        assert in_a_thread(lambda stream=stream: xd.Queue(Stream(stream)).device) == f"cuda:{device}"


@pytest.mark.parametrize(
    ("stream", "error", "match"),
    [
        (Stream(-1), ValueError, "-1 is not a valid handle"),
        (Stream(1, version=1), xd.UnsupportedError, "version 1"),
        (Stream(1, version=10**30), xd.InvalidDataError, "two integers"),
        (Stream("x", version=10**30), xd.InvalidDataError, "two integers"),
        (Stream("x"), xd.InvalidDataError, "two integers"),
        (Stream(10**30), xd.InvalidDataError, "two integers"),
        (Stream(True), xd.InvalidDataError, "two integers"),
        (Stream(1, device=1000), xd.NotFoundError, "cuda:1000"),
        (Stream(1, device=3.5), xd.InvalidDataError, "of type float; it must be a number"),
        (Stream(1, device="x"), ValueError, "device"),
        (Stream(1, device="cpu"), ValueError, "cpu"),
        pytest.param(Stream(0x1234560), ValueError, "destroyed, or is not a stream", marks=on_the_fake),
    ],
)
def test_what_is_no_stream(stream: Stream, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        xd.Queue(stream)


def test_an_object_that_raises() -> None:
    class Broken:
        @property
        def device(self) -> object:
            raise RuntimeError("no device today")

        def __cuda_stream__(self) -> tuple[int, int]:
            return (0, 1)

    with pytest.raises(RuntimeError, match="today"):
        xd.Queue(Broken())


# ---- arrays ---------------------------------------------------------------------------------------------------------


@two_devices
@pytest.mark.parametrize("kind", ["pinned", "managed", "device"])
def test_the_producers_stream_may_be_another_devices(floats: np.ndarray, kind: str) -> None:
    """Pinned and managed memory, and a peer's, are every device's to work on."""
    across = CUDA.stream(1)
    array = DeviceArray(np.zeros_like(floats), kind=kind, stream=across)
    source = Memory(floats, device=1)
    CUDA.slow_down(0.02)
    to, size = (c_uint64(array.memory.pointer), CUDA.contexts[0]), c_size_t(source.size)
    CUDA.on(1, "cuMemcpyPeerAsync", *to, c_uint64(source.pointer), CUDA.contexts[1], size, c_void_p(across))
    taken = xd.asarray(array)
    assert taken.device.id == 0
    assert taken.queue is not None
    assert (taken.queue.device, taken.queue.native) == ("cuda:1", across)
    assert taken.__cuda_array_interface__["stream"] == across
    np.testing.assert_array_equal(read(taken), floats)


@two_devices
@pytest.mark.parametrize("kind", ["cuda_host:0", "cuda_managed:0"])
def test_the_stream_shown_of_an_array_that_another_device_works_on(floats: np.ndarray, kind: str) -> None:
    mine = xd.asarray(floats).to(kind).collocate("cuda:1")
    assert mine.queue is not None
    assert mine.queue.device == "cuda:1"
    assert mine.__cuda_array_interface__["stream"] == mine.queue.native
    CUDA.slow_down(0.02)
    mine = xd.asarray(floats).to(kind, queue=xd.Queue.new("cuda:0")).collocate("cuda:1")
    stream = mine.__cuda_array_interface__["stream"]
    assert stream == mine.queue.native
    np.testing.assert_array_equal(read(mine), floats)


@two_devices
def test_a_consumers_stream_on_a_peer(floats: np.ndarray) -> None:
    stream = CUDA.stream(1)
    CUDA.slow_down(0.05)
    there = xd.asarray(floats).to("cuda:0", queue=xd.Queue.new("cuda:0"))
    work = there.event
    there.__dlpack__(stream=stream, max_version=(1, 0))
    assert comes_after(work, stream, 1)


def test_a_stream_that_has_ended_is_refused(floats: np.ndarray) -> None:
    array = DeviceArray(floats)
    if not CUDA.is_fake:
        pytest.skip("CUDA may look into what it is given")
    with pytest.raises(ValueError):  # noqa: PT011 - CUDA's own words
        xd.from_cuda_array_interface(interface_of(array.memory, stream=0x1234560), owner=array)
    with pytest.raises(ValueError):  # noqa: PT011
        xd.asarray(floats).to("cuda:0", queue=xd.Queue.new("cuda:0")).__dlpack__(stream=0x1234560)
