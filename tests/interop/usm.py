"""What tests of SYCL's memory share: queues, exporters, work that is pending, and every way out. Skips the tests that
import it where SYCL isn't here."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import crossdock as xd

dpctl = pytest.importorskip("dpctl")
dpm = pytest.importorskip("dpctl.memory")
dpnp = pytest.importorskip("dpnp")
pytest.importorskip("dpctl.program")
pytest.importorskip("dpctl._sycl_queue_manager")

if not dpctl.get_devices():
    pytest.skip("SYCL has no devices here", allow_module_level=True)

_KEPT = []


def sycl_queue(*arguments, **keywords):
    """A queue that lives as long as the process: the CPU's run time can hang where one ends together with its work."""
    _KEPT.append(dpctl.SyclQueue(*arguments, **keywords))
    return _KEPT[-1]


KINDS = {"device": dpm.MemoryUSMDevice, "shared": dpm.MemoryUSMShared, "host": dpm.MemoryUSMHost}


SIZE = 4096
SLOW = 1 << 26
SEVENS = np.full(SIZE, 7, "u1")


class Exporter:
    """An object with the interface, whose memory is dpctl's."""

    def __init__(self, memory, shape=None, typestr="|u1", strides=None, **entries):
        self.memory = memory
        address, _ = memory.__sycl_usm_array_interface__["data"]
        self.interface = {
            "data": (address, False),
            "shape": (memory.nbytes,) if shape is None else shape,
            "typestr": typestr,
            "strides": strides,
            "version": 1,
            "syclobj": memory.sycl_queue,
        } | entries
        for key in [key for key, value in self.interface.items() if value is ...]:
            del self.interface[key]

    @property
    def __sycl_usm_array_interface__(self):
        return self.interface


def in_another_context(device):
    """A queue of this device in a context that isn't the default one: of its parts, which every backend keeps apart."""
    try:
        parts = device.create_sub_devices(partition=1)
    except Exception:  # each backend has its own way to say that it can't
        pytest.skip("this device can't be divided, and has one context")
    return sycl_queue(dpctl.SyclContext(parts), parts[0], property="in_order")


def put_slow_work(on, memory, slow, value=7):
    """Fills `memory` behind a slow copy. Returns what must live as long as that work."""
    source = dpm.MemoryUSMHost(SIZE, queue=on)
    source.memset(value)
    first = on.memcpy_async(*slow, slow[0].nbytes)
    return source, on.memcpy_async(memory, source, SIZE, [first])


class Kept:
    """Memory that was imported, and whose owner goes on working on its queue: a slow copy, and then ours."""

    def __init__(self, queue, kind, slow):
        self.queue, self.slow = queue, slow
        self.memory = KINDS[kind](SIZE, queue=queue)
        self.memory.memset(1)
        self.source = dpm.MemoryUSMHost(SIZE, queue=queue)
        self.tensor = xd.asarray(Exporter(self.memory))
        self.tensor.wait()
        assert self.tensor.queue == xd.Queue(queue)

    def write(self, value):
        self.source.memset(value)
        first = self.queue.memcpy_async(*self.slow, self.slow[0].nbytes)
        self.queue.memcpy_async(self.memory, self.source, SIZE, [first])


class OnHost:
    """Shows Arrow's interface for the CPU alone."""

    def __init__(self, of):
        self.of = of

    def __arrow_c_array__(self, requested_schema=None):
        return self.of.__arrow_c_array__()


def copied_back(array):
    return np.asarray(array.to("cpu"))


WAYS = {
    "to cpu": copied_back,
    "to cpu on another queue": lambda t: np.asarray(t.to("cpu", queue=xd.Queue.new(t.queue))),
    "to cpu on its queue": lambda t: np.asarray(t.to("cpu", queue=t.queue)),
    "copy": lambda t: copied_back(t.copy()),
    "copy_to": lambda t: copied_back(t.copy_to(xd.Queue.new(t.queue))),
    "copy_from": lambda t: copied_back(xd.empty(SIZE, dtype="u1", device=t.device).copy_from(t)),
    "collocate": lambda t: copied_back(t.collocate(xd.Queue.new(t.queue))),
    "wait": lambda t: (t.wait(), copied_back(t.unsynchronized()))[1],
    "event": lambda t: (t.event.wait(), copied_back(t.unsynchronized()))[1],
    "column": lambda t: copied_back(xd.asarray(t.to_arrow())),
    "arrow on the host": lambda t: pa.array(OnHost(t)).to_numpy(),
    "dpnp": lambda t: dpnp.asnumpy(dpnp.asarray(t)),
    "dlpack to dpnp": lambda t: dpnp.asnumpy(dpnp.from_dlpack(t)),
}
HOST_WAYS = {
    "buffer": lambda t: np.asarray(memoryview(t)),
    "numpy": np.asarray,
    "bytes": lambda t: np.frombuffer(bytes(t), "u1"),
    "tolist": lambda t: np.array(t.tolist(), "u1"),
}

LATER = {
    "copy": lambda t, queue: t.copy(queue=queue),
    "copy_to": lambda t, queue: t.copy_to(queue),
    "copy_from": lambda t, queue: xd.empty(SIZE, "u1", queue=queue).copy_from(t, queue=queue),
    "collocate": lambda t, queue: t.collocate(queue),
    "a part": lambda t, queue: t[::-1].copy(queue=queue)[::-1],
    "to the host": lambda t, queue: t.to("cpu", queue=queue),
}
