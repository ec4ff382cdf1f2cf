"""What it costs to say where work runs, and to hand SYCL's arrays over, beside dpctl's own ways.

  ./dev bench offload [--quick] [--rounds N] [--out FOLDER]

SYCL's figures are of its first device; without one they are left out, and said to be. Copies are made in pairs with
dpctl's own, so that both meet the same moments of the machine. Writes build/bench/offload.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bench import _report
from bench._children import build_folder, program
from bench._report import Target
from bench.exchange import in_turns

import crossdock as xd
from crossdock import offload
from crossdock.testing import simulated_devices

Call = Callable[[], Any]
MIB = 1 << 20


def medians(calls: dict[str, Call], rounds: int, seconds: float) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in in_turns(calls, rounds, seconds).items()}


def current_queues(rounds: int, seconds: float) -> dict[str, float]:
    """Nanoseconds, on a simulated device: none of it does anything there."""
    with simulated_devices(2):
        queue = xd.Queue("sim:1")
        arrays = [xd.empty(3, queue=queue) for _ in range(4)]

        def enter(of: xd.Queue | str) -> Call:
            def call() -> None:
                with offload.current(of):
                    pass

            return call

        lock = threading.Lock()

        def locked() -> None:
            with lock:
                pass

        current, placement = offload.current_queue, offload.placement
        a, b, c, d = arrays
        calls: dict[str, Call] = {
            "enter and leave current(queue)": enter(queue),
            'enter and leave current("sim:1")': enter("sim:1"),
            "with a lock of threading": locked,
            "placement of 4 arrays": lambda: placement(a, b, c, d),
            "an empty call": lambda: None,
        }
        with offload.current(queue):
            inside = medians({"current_queue() in a scope": lambda: current()}, rounds, seconds)
        found = medians(calls | {"current_queue() outside": lambda: current()}, rounds, seconds) | inside
    nothing = found.pop("an empty call")
    # The lambda around a call that is measured for itself is no part of it.
    for name in ("placement of 4 arrays", "current_queue() outside", "current_queue() in a scope"):
        found[name] -= nothing
    return found


def in_cpp() -> dict[str, float]:
    done = subprocess.run(program("offload_current"), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def sycl_arrays(rounds: int, seconds: float) -> dict[str, Any]:
    """Nanoseconds for arrays of dpnp on an in-order queue, small and large."""
    import dpctl
    import dpnp

    queue = dpctl.SyclQueue(property="in_order")
    calls: dict[str, Call] = {}
    for name, size in (("24 numbers", 24), ("64 MiB", 64 * MIB // 8)):
        theirs = dpnp.zeros(size, sycl_queue=queue)
        ours = xd.asarray(theirs)
        calls[f"xd.asarray(dpnp), {name}"] = lambda theirs=theirs: xd.asarray(theirs)
        calls[f"its __sycl_usm_array_interface__ alone, {name}"] = lambda theirs=theirs: (
            theirs.__sycl_usm_array_interface__
        )
        calls[f"xd's __sycl_usm_array_interface__, {name}"] = lambda ours=ours: ours.__sycl_usm_array_interface__
        calls[f"dpnp.asarray(xd), {name}"] = lambda ours=ours: dpnp.asarray(ours)
        calls[f"dpnp.from_dlpack(xd), {name}"] = lambda ours=ours: dpnp.from_dlpack(ours)
        calls[f"dpnp.from_dlpack(dpnp), {name}"] = lambda theirs=theirs: dpnp.from_dlpack(theirs)
        calls[f"xd's __dlpack__, {name}"] = lambda ours=ours: ours.__dlpack__(max_version=(1, 3))
    return medians(calls, rounds, seconds)


def sycl_copies(rounds: int, nbytes: int) -> dict[str, Any]:
    """Between host memory and USM device memory, in GB/s and as a share of dpctl's own copies: medians of pairs.

    Into memory that is there: what a copy costs. Into new memory: what the first touch of its pages costs besides,
    which is more, and which NumPy, whose memory dpctl copies to, has done in huge pages.
    """
    import dpctl
    import dpctl.memory as dpm

    queue = dpctl.SyclQueue(property="in_order")
    host, back = np.ones(nbytes, "u1"), np.zeros(nbytes, "u1")
    memory = dpm.MemoryUSMDevice(nbytes, queue=queue)
    ours, there, here = xd.Queue(queue), xd.asarray(memory), xd.asarray(back)
    pairs: dict[str, tuple[Call, Call]] = {
        "to the device": (
            lambda: there.copy_from(host),
            lambda: memory.copy_from_host(host),
        ),
        "to the host": (
            lambda: here.copy_from(there),
            lambda: memory.copy_to_host(back),
        ),
        "to new memory of the device": (
            lambda: xd.asarray(host).copy_to(ours).wait(),
            lambda: dpm.MemoryUSMDevice(nbytes, queue=queue).copy_from_host(host),
        ),
        "to new memory of the host": (
            lambda: there.to("cpu", queue=ours).wait(),
            lambda: memory.copy_to_host(np.empty_like(back)),
        ),
    }
    found: dict[str, Any] = {"bytes": nbytes}
    for name, (mine, theirs) in pairs.items():
        times = in_turns({"ours": mine, "dpctl": theirs}, rounds, 0.0)
        found[name] = {
            "ours": nbytes / statistics.median(times["ours"]),
            "dpctl": nbytes / statistics.median(times["dpctl"]),
            "ratio": statistics.median(b / a for a, b in zip(times["ours"], times["dpctl"], strict=True)),
        }
    return found


def has_sycl() -> bool:
    try:
        import dpctl
        import dpnp  # noqa: F401
    except ImportError:
        return False
    return bool(dpctl.get_devices())


def print_results(result: dict[str, Any]) -> None:
    rows = [[name, f"{value:,.0f}"] for name, value in result["current"].items()]
    rows += [
        [f"C++: {name.replace('_', ' ')}", f"{value:,.1f}"] for name, value in result["cpp"].items() if name != "seen"
    ]
    _report.print_table("Current queues, and placement", ["call", "ns"], rows)
    of_a_lock = result["current"]["enter and leave current(queue)"] / result["current"]["with a lock of threading"]
    _report.console.print(f"entering and leaving current(queue), of the time for `with lock:`: {of_a_lock:.2f}")
    if result["sycl"] is None:
        _report.console.print("[yellow]SYCL has no device here: its figures are left out.[/]")
        return
    _report.print_table("Arrays of SYCL", ["call", "µs"], [[n, f"{v / 1e3:.2f}"] for n, v in result["sycl"].items()])
    for way, one in result["copies"].items():
        if way == "bytes":
            continue
        _report.console.print(f"{way}: ours {one['ours']:.2f} GB/s, dpctl {one['dpctl']:.2f}, ratio {one['ratio']:.2f}")


def targets_of(result: dict[str, Any]) -> list[Target]:
    current, cpp, sycl = result["current"], result["cpp"], result["sycl"]
    targets = [
        Target("entering and leaving current()", current["enter and leave current(queue)"] / 1e3, 0.5, True, "µs"),
        Target("the current queue in Python", current["current_queue() in a scope"], 150, True, "ns"),
        Target("the current queue in C++", max(cpp["read_default"], cpp["read_in_scope"]), 60, True, "ns"),
        Target("placement of 4 arrays", current["placement of 4 arrays"] / 1e3, 0.5, True, "µs"),
    ]
    if sycl is not None:
        copies, out = result["copies"], sycl["xd's __sycl_usm_array_interface__, 24 numbers"]
        large, small = sycl["xd.asarray(dpnp), 64 MiB"], sycl["xd.asarray(dpnp), 24 numbers"]
        targets += [
            Target("xd.asarray(dpnp)", small / 1e3, 3, True, "µs"),
            Target("the way back: its interface, from xd", out / 1e3, 3, True, "µs"),
            Target("xd.asarray(dpnp) of 64 MiB, against 24 numbers", large / small, 1.2, True, "x"),
            Target("a copy to the device, against dpctl's", copies["to the device"]["ratio"], 0.95, False, "x"),
            Target("a copy to the host, against dpctl's", copies["to the host"]["ratio"], 0.95, False, "x"),
        ]  # fmt: skip
    return targets


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench offload", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--out", type=Path, help="the folder for the results; build/bench if it isn't given")
    parser.add_argument("--quick", action="store_true", help="few rounds, and 1 MiB to copy")
    given = parser.parse_args()
    rounds, seconds, nbytes = given.rounds, 0.01, 64 * MIB
    if given.quick:
        rounds, seconds, nbytes = 3, 0.001, MIB
    info = {**_report.machine(), "numpy": np.__version__}
    _report.print_machine(info)
    sycl = has_sycl()
    result = {
        "machine": info,
        "rounds": rounds,
        "current": current_queues(rounds, seconds),
        "cpp": in_cpp(),
        "sycl": sycl_arrays(rounds, seconds) if sycl else None,
        "copies": sycl_copies(max(rounds // 3, 2), nbytes) if sycl else None,
    }
    print_results(result)
    targets = targets_of(result)
    _report.print_targets(targets)
    _report.write_json((given.out or build_folder()) / "offload.json", result, targets)


if __name__ == "__main__":
    main()
