"""What hand-overs and copies cost on a GPU with CUDA: within a process by every protocol, and to another process.

  ./dev bench gpu [--quick] [--rounds N] [--out FOLDER]

Needs a CUDA device and torch; CuPy and JAX are measured too where they are installed. Compared ways take turns.
To another process: a tensor in an arena that is published and opened by its memory handle, beside torch.multiprocessing
and beside a copy through shared memory of the host. Writes build/bench/gpu.json.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import multiprocessing
import sys
import time
import timeit
from collections.abc import Callable, Iterator
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import numpy as np
from bench import _report
from bench._children import build_folder
from bench._report import duration, median, size

import crossdock as xd

Call = Callable[[], Any]
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
ANSWER_SECONDS = 60


def need_device() -> Any:
    """Returns torch. Ends the program where there is no CUDA device, or torch can't use it."""
    try:
        xd.empty(1, device="cuda:0").wait()
    except (xd.Error, NotImplementedError, LookupError) as error:
        sys.exit(f"there is no CUDA device: {error}")
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        sys.exit("torch is missing: it is what this benchmark compares with")
    if not torch.cuda.is_available():
        sys.exit("torch is built without CUDA, or sees no device")
    return torch


def optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


# ---- within a process -----------------------------------------------------------------------------------------------


def in_turns(calls: dict[str, Call], rounds: int, seconds: float) -> dict[str, float]:
    """Nanoseconds a call of each: the median of the rounds."""
    n = {}
    for name, call in calls.items():
        n[name] = 1
        while timeit.timeit(call, number=n[name]) < seconds / 4 and n[name] < 1 << 18:
            n[name] *= 2
    times: dict[str, list[float]] = {name: [] for name in calls}
    gc.collect()
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(timeit.timeit(call, number=n[name]) / n[name] * 1e9)
    return {name: median(values) for name, values in times.items()}


def handovers(torch: Any) -> dict[str, Call]:
    theirs = torch.zeros(2, 3, 4, device="cuda")
    interface = theirs.__cuda_array_interface__
    imported = xd.asarray(theirs)
    ours = xd.asarray(np.zeros((2, 3, 4))).to("cuda:0")
    flat = xd.asarray(np.zeros(24)).to("cuda:0")
    calls: dict[str, Call] = {
        "xd.asarray(torch)": lambda: xd.asarray(theirs),
        "xd.from_dlpack(torch)": lambda: xd.from_dlpack(theirs),
        "xd.from_cuda_array_interface(torch's)": lambda: xd.from_cuda_array_interface(interface, owner=theirs),
        "torch.from_dlpack(xd), torch's memory": lambda: torch.from_dlpack(imported),
        "torch.from_dlpack(xd)": lambda: torch.from_dlpack(ours),
        "xd.__cuda_array_interface__": lambda: ours.__cuda_array_interface__,
        "xd.__arrow_c_device_array__": lambda: flat.__arrow_c_device_array__(),
    }
    if cupy := optional("cupy"):
        array = cupy.zeros((2, 3, 4))
        calls |= {
            "xd.asarray(cupy)": lambda: xd.asarray(array),
            "cupy.from_dlpack(xd)": lambda: cupy.from_dlpack(ours),
            "cupy.asarray(xd)": lambda: cupy.asarray(ours),
            "peers: torch.from_dlpack(cupy)": lambda: torch.from_dlpack(array),
            "peers: cupy.from_dlpack(torch)": lambda: cupy.from_dlpack(theirs),
        }
    if jax := optional("jax"):
        of_jax = jax.numpy.zeros((2, 3, 4)).block_until_ready()
        if jax.default_backend() == "gpu":
            calls |= {
                "xd.asarray(jax)": lambda: xd.asarray(of_jax),
                "peers: torch.from_dlpack(jax)": lambda: torch.from_dlpack(of_jax),
            }
    return calls


def copies(torch: Any, nbytes: int, rounds: int) -> dict[str, float]:
    """GB/s of a copy that is waited for, whose result is dropped: the median of the rounds, in turns."""
    host = np.ones(nbytes, "u1")
    pinned = torch.ones(nbytes, dtype=torch.uint8).pin_memory()
    theirs = torch.ones(nbytes, dtype=torch.uint8, device="cuda")
    ours, target = xd.asarray(theirs), xd.empty(nbytes, "u1", device="cuda:0")
    ours_pinned = xd.asarray(pinned.numpy(), device="cuda_host:0")
    calls: dict[str, Call] = {
        "to the device, pageable: xd .to()": lambda: xd.asarray(host).to("cuda:0"),
        "to the device, pageable: torch .cuda()": lambda: torch.from_numpy(host).cuda(),
        "to the device, pinned: xd copy_from()": lambda: target.copy_from(ours_pinned),
        "to the device, pinned: torch copy_()": lambda: theirs.copy_(pinned, non_blocking=True),
        "to the host, pageable: xd .to()": lambda: ours.to("cpu"),
        "to the host, pageable: torch .cpu()": lambda: theirs.cpu(),
        "on the device: xd .copy()": lambda: ours.copy(),
        "on the device: torch .clone()": lambda: theirs.clone(),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):  # the first one isn't counted
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            torch.cuda.synchronize()
            if turn > 0:
                times[name].append(time.perf_counter() - begin)
    return {name: nbytes / median(values) / 1e9 for name, values in times.items()}


def allocations(torch: Any) -> dict[str, Call]:
    queue = xd.Queue("cuda:0")

    def waited(nbytes: int) -> None:
        xd.empty(nbytes, "u1", device="cuda:0")
        queue.wait()

    calls: dict[str, Call] = {}
    for n in (4 * KIB, 64 * MIB):
        calls |= {
            f"xd.empty({size(n)})": lambda n=n: xd.empty(n, "u1", device="cuda:0"),
            f"xd.empty({size(n)}), and a wait": lambda n=n: waited(n),
            f"torch.empty({size(n)})": lambda n=n: torch.empty(n, dtype=torch.uint8, device="cuda"),
        }
    return calls


# ---- to another process ---------------------------------------------------------------------------------------------


def produce(pipe: Any, queue: Any) -> None:
    """The other process: makes what it is asked for."""
    torch = need_device()
    server = xd.serve({}, "shm:")
    pipe.send(server.uri)
    kept: dict[str, Any] = {}
    while (order := pipe.recv()) is not None:
        what, name, nbytes = order
        answer: Any = None
        match what:
            case "publish":
                arena = xd.Arena(nbytes, device="cuda:0")
                tensor = arena.tensor(nbytes // 8, "f8")
                torch.from_dlpack(tensor).fill_(3)
                torch.cuda.synchronize()
                begin = time.perf_counter()
                server.publish(name, tensor, mode="table")
                answer = time.perf_counter() - begin
                kept[name] = (tensor, arena)
            case "withdraw":
                server.withdraw(name)
                del kept[name]
            case "make":
                kept[name] = torch.full((nbytes // 8,), 3.0, dtype=torch.float64, device="cuda")
                torch.cuda.synchronize()
            case "put":
                queue.put(kept[name])
                continue
            case "to host":
                memory = shared_memory.SharedMemory(name)
                theirs = kept["theirs"]
                torch.frombuffer(memory.buf, dtype=theirs.dtype, count=theirs.numel()).copy_(theirs)
                memory.close()
            case "drop":
                kept.pop(name)
                torch.cuda.ipc_collect()
        pipe.send(answer)
    server.close()


class Producer:
    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.queue = context.Queue()
        self.process = context.Process(target=produce, args=(theirs, self.queue), daemon=True)
        self.process.start()
        self.uri = self.answer()

    def answer(self) -> Any:
        if not self.pipe.poll(ANSWER_SECONDS):
            raise TimeoutError("the producer doesn't answer")
        return self.pipe.recv()

    def ask(self, what: str, name: str = "", nbytes: int = 0) -> Any:
        self.pipe.send((what, name, nbytes))
        return self.answer()

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self.pipe.send(None)
        self.process.join(10)
        if self.process.is_alive():
            self.process.kill()


@contextlib.contextmanager
def producer() -> Iterator[Producer]:
    made = Producer()
    try:
        yield made
    finally:
        made.end()


def timed(call: Call) -> tuple[Any, float]:
    begin = time.perf_counter()
    result = call()
    return result, (time.perf_counter() - begin) * 1e9


def check(tensor: Any, nbytes: int) -> None:
    assert tensor.is_cuda
    assert tensor.numel() == nbytes // 8
    assert tensor[0].item() == tensor[-1].item() == 3


def by_crossdock(torch: Any, other: Producer, nbytes: int, rounds: int) -> dict[str, float]:
    published = other.ask("publish", "t", nbytes) * 1e9
    with xd.connect(other.uri) as client:

        def get() -> Any:
            (batch,) = client.get("t", device="cuda:0")
            return torch.from_dlpack(xd.asarray(batch))

        held, first = timed(get)
        check(held, nbytes)
        while_held = [timed(get)[1] for _ in range(rounds)]
        del held
        anew = []
        for _ in range(rounds // 5 + 1):
            gc.collect()
            anew.append(timed(get)[1])
    other.ask("withdraw", "t")
    return {
        "xd: publish from an arena": published,
        "xd: first get of a client": first,
        "xd: get, opened anew": median(anew),
        "xd: get, while it is held": median(while_held),
    }


def by_torch(torch: Any, other: Producer, nbytes: int, rounds: int) -> dict[str, float]:
    other.ask("make", "theirs", nbytes)

    def get() -> Any:
        other.pipe.send(("put", "theirs", 0))
        return other.queue.get(timeout=ANSWER_SECONDS)

    held, first = timed(get)
    check(held, nbytes)
    while_held = [timed(get)[1] for _ in range(rounds)]
    del held
    anew = []
    for _ in range(rounds // 5 + 1):
        gc.collect()
        torch.cuda.ipc_collect()
        anew.append(timed(get)[1])
    return {
        "torch.multiprocessing: first": first,
        "torch.multiprocessing: opened anew": median(anew),
        "torch.multiprocessing: while it is held": median(while_held),
    }


def by_the_host(torch: Any, other: Producer, nbytes: int, rounds: int) -> dict[str, float]:
    memory = shared_memory.SharedMemory(create=True, size=nbytes)

    def get() -> Any:
        other.ask("to host", memory.name)
        tensor = torch.frombuffer(memory.buf, dtype=torch.float64, count=nbytes // 8).cuda()
        torch.cuda.synchronize()
        return tensor

    try:
        check(get(), nbytes)
        return {"through the host": median(timed(get)[1] for _ in range(max(2, rounds // 20)))}
    finally:
        gc.collect()
        memory.close()
        memory.unlink()


def to_another_process(torch: Any, sizes: list[int], rounds: int) -> dict[str, dict[str, float]]:
    """Nanoseconds of each way, by size."""
    found: dict[str, dict[str, float]] = {}
    with producer() as other:
        for nbytes in sizes:
            row = by_crossdock(torch, other, nbytes, rounds)
            row |= by_torch(torch, other, nbytes, rounds)
            row |= by_the_host(torch, other, nbytes, rounds)
            other.ask("drop", "theirs")
            found[size(nbytes)] = row
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench gpu", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", type=int, help="how often each way has its turn")
    parser.add_argument("--out", type=Path, help="the folder for the results; build/bench if it isn't given")
    parser.add_argument("--quick", action="store_true", help="few rounds, and 16 MiB to copy")
    options = parser.parse_args()
    rounds = options.rounds or (2 if options.quick else 7)
    seconds = 0.01 if options.quick else 0.05
    copied = 16 * MIB if options.quick else 256 * MIB

    torch = need_device()
    info = {**_report.machine(), "device": torch.cuda.get_device_name(0), "torch": torch.__version__}
    _report.print_machine(info)
    _report.console.print(f"{info['device']}, torch {info['torch']}")

    result: dict[str, Any] = {"machine": info}
    for title, calls in (("Hand-overs", handovers(torch)), ("Allocations", allocations(torch))):
        result[title] = in_turns(calls, rounds, seconds)
        _report.print_table(title, ["", "a call"], [[name, duration(ns)] for name, ns in result[title].items()])
    result["Copies"] = copies(torch, copied, rounds)
    rows = [[name, f"{speed:,.1f} GB/s"] for name, speed in result["Copies"].items()]
    _report.print_table(f"Copies of {size(copied)}", ["", "speed"], rows)
    sizes = [64 * KIB, 16 * MIB] if options.quick else [64 * KIB, 64 * MIB, GIB]
    result["To another process"] = to_another_process(torch, sizes, 10 if options.quick else 100)
    names = list(next(iter(result["To another process"].values())))
    rows = [[name, *(duration(row[name]) for row in result["To another process"].values())] for name in names]
    _report.print_table("To another process", ["", *result["To another process"]], rows)
    _report.write_json((options.out or build_folder()) / "gpu.json", result, [])


if __name__ == "__main__":
    main()
