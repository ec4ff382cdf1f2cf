"""Packages that chose different ways of saying where their work runs, working on each other's arrays.

    ./dev run offload [FILTER STRING]

`clkit` is in C++ with kernels in OpenCL C, `dpkit` in Python on dpnp. Shows the queue that each call ran on, and
whether its arrays were copied to get there: that is seen by the addresses that dpnp and clkit's library were given.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import clkit
import dpkit
import numpy as np

import crossdock as xd
from crossdock import offload

names: dict[xd.Queue, str] = {}
given: list[int] = []
"""The addresses that the call was computed from."""


def watch() -> None:
    """From here on, `given` has the address of each array as dpnp and clkit's library are given it."""
    library: Any = clkit._library
    view, gemm = dpkit._view, library.clkit_gemm

    def viewed(array: xd.Tensor) -> Any:
        result = view(array)
        given.append(xd.asarray(result).pointer)
        return result

    def multiplied(queue: int, *managed: int) -> Any:
        for tensor in managed:  # DLManagedTensorVersioned: its DLTensor begins at byte 32 with the pointer
            pointer = ctypes.c_uint64.from_address(tensor + 32).value
            byte_offset = ctypes.c_uint64.from_address(tensor + 32 + 40).value
            given.append(pointer + byte_offset)
        return gemm(queue, *managed)

    dpkit._view, library.clkit_gemm = viewed, multiplied


def show(call: str, compute: Callable[[], xd.Tensor], *arrays: Any) -> xd.Tensor:
    """One line: what was called, where it ran, and which of its arrays weren't used where they were."""
    given.clear()
    result = compute()
    if len(given) < len(arrays):
        raise SystemExit(f"{call}: {len(given)} arrays were seen of {len(arrays)}")
    copied = [str(i) for i, array in enumerate(arrays, 1) if xd.asarray(array).pointer not in given]
    what = f"copied: array {', '.join(copied)}" if copied else "copied: nothing"
    print(f"  {call:<48} on {names.get(result.queue, '?') if result.queue else 'the host':<22} {what}")
    return result


def check(name: str, result: xd.Tensor, expected: np.ndarray[Any, Any]) -> None:
    if not np.allclose(np.asarray(result.to("cpu")), expected):
        raise SystemExit(f"{name}: wrong values")


def main(where: str = "sycl:cpu") -> None:
    try:
        first, second = xd.Queue(where), xd.Queue(where, name="second")
    except xd.Error as error:
        raise SystemExit(str(error)) from None
    if first.device.type != "oneapi":
        raise SystemExit(f"{where}: that is {first.device}, and both packages are SYCL's; take sycl:cpu, for example")
    watch()
    names.update({first: f"the {where} queue", second: "a second queue"})
    print(f"Work on {where}: two queues of one device, which share a context\n")
    numbers = np.arange(500.0).reshape(50, 10), np.arange(300.0).reshape(10, 30)
    product = numbers[0] @ numbers[1]

    by_argument, by_package, by_data = dpkit.ByArgument(), dpkit.ByPackage(), dpkit.ByData()
    by_manager, by_object = dpkit.ByManager(), dpkit.ByObject(second)

    print("Each way, in dpkit (Python, dpnp, oneMKL):")
    a = by_argument.allocate(first, (50, 10))
    b = by_argument.allocate(first, (10, 30))
    check("way 1", show("1: gemm(queue, a, b)", lambda: by_argument.gemm(first, a, b), a, b), product)
    with by_package.current(first):
        check("way 2", show("2: with dpkit.current(queue): gemm(a, b)", lambda: by_package.gemm(a, b), a, b), product)
    check("way 3", show("3: gemm(a, b), where a and b are", lambda: by_data.gemm(a, b), a, b), product)
    with offload.current(first):
        check("way 4", show("4: with offload.current(queue): gemm(a, b)", lambda: by_manager.gemm(a, b), a, b), product)
    check("way 5", show("5: Engine(second queue).gemm(a, b)", lambda: by_object.gemm(a, b), a, b), product)

    print("\nEach way, in clkit (C++, OpenCL C):")
    check("way 1", show("1: gemm(queue, a, b)", lambda: clkit.gemm(first, a, b), a, b), product)
    with clkit.current(first):
        check("way 2", show("2: with clkit.current(queue): gemm(a, b)", lambda: clkit.gemm_here(a, b), a, b), product)
    check("way 3", show("3: gemm(a, b), where a and b are", lambda: clkit.gemm_there(a, b), a, b), product)
    with offload.current(first):
        check(
            "way 4",
            show("4: with offload.current(queue): gemm(a, b)", lambda: clkit.gemm_anywhere(a, b), a, b),
            product,
        )
    engine = clkit.Engine(second)
    check("way 5", show("5: Engine(second queue).gemm(a, b)", lambda: engine.gemm(a, b), a, b), product)

    print("\nThe one calls the other:")
    c = show("clkit's product ...", lambda: clkit.gemm_there(a, b), a, b)
    total = show("... goes into dpkit's dot, as it is", lambda: by_data.dot(c, c), c)
    check("dot", total, np.asarray((product * product).sum()))
    theirs = show("dpkit's product on the second queue ...", lambda: by_object.gemm(a, b), a, b)
    c = by_argument.allocate(first, (30, 10))
    one = show("... goes into clkit on the first, by collocate()", lambda: clkit.gemm(first, theirs, c), theirs, c)
    check("collocated", one, product @ np.arange(300.0).reshape(30, 10))

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
    check(
        "from host", show("clkit.gemm(queue, NumPy's array, b)", lambda: clkit.gemm(first, host, b), host, b), product
    )


if __name__ == "__main__":
    main(*sys.argv[1:2])
    print(
        "\nNext: docs/how-to/offload.md, for authors. `. .venv/bin/activate`, then `crossdock devices` lists devices."
    )
