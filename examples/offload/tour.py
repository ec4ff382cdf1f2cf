"""Packages that chose different ways of saying where their work runs, working on each other's arrays.

    ./dev run offload [FILTER STRING]

`clkit` is in C++ with kernels in OpenCL C, `dpkit` in Python on dpnp. Shows the queue that each call ran on, and
whether its arrays were copied to get there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import clkit
import dpkit
import numpy as np

import crossdock as xd
from crossdock import offload

names: dict[xd.Queue, str] = {}


def show(call: str, result: xd.Tensor, *arrays: Any) -> xd.Tensor:
    """One line: what was called, where it ran, and which of its arrays the queue couldn't use where they were."""
    queue = result.queue
    copied = [str(i) for i, array in enumerate(arrays, 1) if queue and not offload.accessible(array, queue)]
    what = f"copied: array {', '.join(copied)}" if copied else "copied: nothing"
    print(f"  {call:<48} on {names.get(queue, '?') if queue else 'the host':<22} {what}")
    return result


def check(name: str, result: xd.Tensor, expected: np.ndarray[Any, Any]) -> None:
    if not np.allclose(np.asarray(result.to("cpu")), expected):
        raise SystemExit(f"{name}: wrong values")


def main(where: str = "sycl:cpu") -> None:
    first, second = xd.Queue(where), xd.Queue(where, name="second")
    names.update({first: f"the {where} queue", second: "a second queue"})
    print(f"Work on {where}: two queues of one device, which share a context\n")
    numbers = np.arange(500.0).reshape(50, 10), np.arange(300.0).reshape(10, 30)
    product = numbers[0] @ numbers[1]

    by_argument, by_package, by_data = dpkit.ByArgument(), dpkit.ByPackage(), dpkit.ByData()
    by_manager, by_object = dpkit.ByManager(), dpkit.ByObject(second)

    print("Each way, in dpkit (Python, dpnp, oneMKL):")
    a = by_argument.allocate(first, (50, 10))
    b = by_argument.allocate(first, (10, 30))
    check("way 1", show("1: gemm(queue, a, b)", by_argument.gemm(first, a, b), a, b), product)
    with by_package.current(first):
        check("way 2", show("2: with dpkit.current(queue): gemm(a, b)", by_package.gemm(a, b), a, b), product)
    check("way 3", show("3: gemm(a, b), where a and b are", by_data.gemm(a, b), a, b), product)
    with offload.current(first):
        check("way 4", show("4: with offload.current(queue): gemm(a, b)", by_manager.gemm(a, b), a, b), product)
    check("way 5", show("5: Engine(second queue).gemm(a, b)", by_object.gemm(a, b), a, b), product)

    print("\nEach way, in clkit (C++, OpenCL C):")
    check("way 1", show("1: gemm(queue, a, b)", clkit.gemm(first, a, b), a, b), product)
    with clkit.current(first):
        check("way 2", show("2: with clkit.current(queue): gemm(a, b)", clkit.gemm_here(a, b), a, b), product)
    check("way 3", show("3: gemm(a, b), where a and b are", clkit.gemm_there(a, b), a, b), product)
    with offload.current(first):
        check("way 4", show("4: with offload.current(queue): gemm(a, b)", clkit.gemm_anywhere(a, b), a, b), product)
    engine = clkit.Engine(second)
    check("way 5", show("5: Engine(second queue).gemm(a, b)", engine.gemm(a, b), a, b), product)

    print("\nThe one calls the other:")
    c = show("clkit's product ...", clkit.gemm_there(a, b), a, b)
    total = show("... goes into dpkit's dot, as it is", by_data.dot(c, c), c)
    check("dot", total, np.asarray((product * product).sum()))
    theirs = show("dpkit's product on the second queue ...", by_object.gemm(a, b), a, b)
    one = show("... goes into clkit on the first, by collocate()", clkit.gemm(first, a, b), theirs)
    check("collocated", one, product)

    print("\nWhat is refused, and how it says so:")
    refused: dict[str, Callable[[], object]] = {
        "arrays on two queues": lambda: by_data.gemm(a, b.collocate(second)),
        "device memory for a host-only package": lambda: memoryview(a),
    }
    for what, wrong in refused.items():
        try:
            wrong()
        except (xd.ExecutionPlacementError, BufferError) as error:
            print(f"  {what}:\n    {type(error).__name__}: {error}")
        else:
            raise SystemExit(f"{what}: nothing was raised")

    print("\nArrays of the host are copied once, on purpose:")
    host = np.asarray(a.to("cpu"))
    check("from host", show("clkit.gemm(queue, NumPy's array, b)", clkit.gemm(first, host, b), host, b), product)


if __name__ == "__main__":
    main(*sys.argv[1:])
