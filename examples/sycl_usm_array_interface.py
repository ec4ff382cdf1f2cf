"""Hand USM memory over by the SYCL USM array interface: show one's own, take somebody's, give an allocator's away.

The dictionary tells where an array lies and, as `syclobj`, to which SYCL context that memory belongs. Strides and
offset count elements, not bytes. There is no event in it: the work goes on an in-order queue that is shown, or somebody
waits.

    python examples/sycl_usm_array_interface.py

It needs dpctl and a device of SYCL's. The CPU is one:

    pip install dpctl intel-opencl-rt
    export OCL_ICD_FILENAMES=$VIRTUAL_ENV/lib/libintelocl.so
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import crossdock as xd

try:
    import dpctl
    import dpctl.memory
except ImportError as error:
    sys.exit(f"{error}; this needs dpctl and a device of SYCL's: the top of this file says how")
if not dpctl.get_devices():
    sys.exit("SYCL has no device here; the top of this file says how the CPU becomes one")
queue = dpctl.SyclQueue(property="in_order")


def pointer_of(memory: Any) -> int:
    return int(memory.__sycl_usm_array_interface__["data"][0])


class Exporter:
    """Numbers in USM memory, as some library might keep them."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.shape, self.typestr = values.shape, values.dtype.str
        self.memory = dpctl.memory.MemoryUSMDevice(values.nbytes, queue=queue)
        self.memory.copy_from_host(np.ascontiguousarray(values).view("u1").reshape(-1))

    @property
    def __sycl_usm_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.typestr,
            "data": (pointer_of(self.memory), False),  # not read-only
            "strides": None,  # in C order
            "offset": 0,
            "version": 1,
            "syclobj": queue,  # or its context, a capsule of either, what has _get_capsule(), a filter string
        }


class Consumer:
    """Somebody's numbers in USM memory, which lives as long as this."""

    def __init__(self, theirs: Any) -> None:
        interface = theirs.__sycl_usm_array_interface__
        if interface["version"] != 1 or interface.get("strides") is not None:
            raise ValueError("only version 1, and only C order")
        self.theirs = theirs
        self.shape, self.dtype = interface["shape"], np.dtype(interface["typestr"])
        self.pointer = interface["data"][0] + interface.get("offset", 0) * self.dtype.itemsize
        self.memory = dpctl.memory.as_usm_memory(theirs)  # without a copy
        # Crossdock shows the array's queue, which has _get_capsule(). Work on it comes after what made the array.
        self.queue = dpctl.SyclQueue(interface["syclobj"]._get_capsule())

    def sum(self) -> float:
        values = np.empty(self.shape, self.dtype)
        self.queue.memcpy(values, self.memory, values.nbytes)
        return float(values.sum())


class Pool:
    """An allocator of its own: places in one large piece of USM memory."""

    PLACE = 4096

    def __init__(self, places: int) -> None:
        self.memory = dpctl.memory.MemoryUSMShared(places * self.PLACE, queue=queue)
        self.free = [pointer_of(self.memory) + i * self.PLACE for i in range(places)]

    def take(self) -> int:
        return self.free.pop()

    def deallocate(self, address: int) -> None:
        self.free.append(address)


def main() -> None:
    theirs = Exporter(np.arange(6, dtype="f4").reshape(2, 3))
    taken = xd.asarray(theirs)
    print(f"taken: {taken.shape} of {taken.dtype}, {taken.usm_type} memory")
    print(f"no copy: {taken.pointer == pointer_of(theirs.memory)}, on its queue: {taken.queue == xd.Queue(queue)}")

    # The tensor shows the interface itself, and so does a part of it.
    given = Consumer(taken[1:])
    print(f"given on, no copy: {given.pointer == taken.pointer + 12}, on its queue: {given.queue == queue}")
    print(f"the sum of the second row: {given.sum()}")

    # Memory of an allocator of its own: freed by its deleter, once, with the last view.
    pool = Pool(places=2)
    place = pool.take()
    described = {"shape": (1024,), "typestr": "<f4", "data": (place, False), "version": 1, "syclobj": queue}
    adopted = xd.from_sycl_usm_array_interface(described, owner=pool, deleter=pool.deallocate)
    np.asarray(adopted)[:] = 1  # shared memory: the host writes it, too
    part = adopted[:10]
    del adopted
    print(f"the sum of a part: {Consumer(part).sum()}, free places: {len(pool.free)}")
    del part
    print(f"after the last view: {len(pool.free)}")


if __name__ == "__main__":
    main()
