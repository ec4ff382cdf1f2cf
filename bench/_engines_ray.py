"""The rows of `./dev bench engines` for Ray: tables and streams of batches from one actor to another.

Ray's own way for a table is its object store, and for batches a streaming generator. Each step is one call to the
consumer, which answers when it has read one byte of each column; of a stream, of each batch.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import crossdock as xd

NAME = "Ray"
MIB = 1 << 20
Costs = dict[str, list[tuple[float, float]]]


def available() -> bool:
    return importlib.util.find_spec("ray") is not None


def _table(nbytes: int, pool: Any = None) -> pa.Table:
    """Four columns of floats, in the pool if there is one."""
    columns = {}
    for name in "abcd":
        values = np.empty(nbytes // 32) if pool is None else pool.empty(nbytes // 32)
        values[:] = 1.5
        columns[name] = pa.array(values)  # of the same memory
    return pa.table(columns)


def _touch(table: Any) -> float:
    return float(sum(column.chunk(0)[0].as_py() for column in table.columns))


def _actors() -> tuple[Any, Any]:
    import ray

    import crossdock as xd
    import crossdock.ray

    crossdock.ray.register()

    @ray.remote(enable_tensor_transport=True)
    class Producer:
        def __init__(self, nbytes: int) -> None:
            self.heap = _table(nbytes)
            self.pool = _table(nbytes, xd.pool.default())
            self.batch = _table(1)

        def prepare(self, nbytes: int) -> None:
            self.batch = _table(nbytes)

        def ready(self) -> int:
            return os.getpid()

        def plasma(self) -> Any:
            return self.heap

        @ray.method(tensor_transport="crossdock")
        def from_heap(self) -> Any:
            return self.heap

        @ray.method(tensor_transport="crossdock")
        def from_pool(self) -> Any:
            return self.pool

        def batches(self, number: int) -> Iterator[Any]:
            (batch,) = self.batch.to_batches()
            for _ in range(number):
                yield batch

        def generator(self, number: int) -> Iterator[Any]:
            yield from self.batches(number)

        def stream(self, number: int) -> Any:
            return crossdock.ray.stream(self.batches(number))

    @ray.remote(enable_tensor_transport=True)
    class Consumer:
        def ready(self) -> int:
            return os.getpid()

        def take(self, table: Any) -> float:
            return _touch(table)

        def drain_generator(self, producer: Any, number: int) -> int:
            references = producer.generator.options(num_returns="streaming").remote(number)
            return sum(batch.column(0)[0].as_py() == 1.5 for batch in map(ray.get, references))

        def drain_stream(self, producer: Any, number: int) -> int:
            handle = ray.get(producer.stream.remote(number))
            return sum(pa.record_batch(batch).column(0)[0].as_py() == 1.5 for batch in handle)

    return Producer, Consumer


def _in_turns(ways: dict[str, Callable[[], None]], rounds: int, cpu_seconds: Callable[[], float]) -> Costs:
    costs: Costs = {way: [] for way in ways}
    for number in range(rounds + 1):
        for way, run in ways.items():
            cpu, start = cpu_seconds(), time.perf_counter()
            run()
            wall = time.perf_counter() - start
            if number:  # the first is not counted
                costs[way].append((wall, cpu_seconds() - cpu))
            time.sleep(0.05)  # Ray frees the last object meanwhile, of each way
    return costs


def _descendants() -> list[int]:
    """The processes of Ray's that this one has started, with theirs: raylet, object store, workers."""
    found, more = [], [os.getpid()]
    while more:
        for task in Path(f"/proc/{more.pop()}/task").glob("*/children"):
            children = [int(pid) for pid in task.read_text().split()]
            found += children
            more += children
    return found


def costs(rounds: int, scale: int, cpu_seconds: Callable[[list[int]], float]) -> dict[str, tuple[Costs, str]]:
    """Returns the samples of each row, in seconds by the clock and of processors, with the name of Ray's own way."""
    import ray

    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    folder = tempfile.mkdtemp(prefix="xr-", dir="/tmp")  # short: a socket's path has 107 bytes
    ray.init(
        num_cpus=4, include_dashboard=False, log_to_driver=False, _temp_dir=folder, object_store_memory=2048 * MIB,
        runtime_env={"env_vars": {"PYTHONPATH": str(Path(__file__).resolve().parent.parent)}},
    )  # fmt: skip
    try:
        size = 256 * MIB // scale
        producer_class, consumer_class = _actors()
        producer, consumer = producer_class.remote(size), consumer_class.remote()
        ray.get([producer.ready.remote(), consumer.ready.remote()])
        pids = _descendants()

        def used() -> float:
            return cpu_seconds(pids)

        results: dict[str, tuple[Costs, str]] = {}
        ways: dict[str, Callable[[], None]] = {
            "plasma": lambda: ray.get(consumer.take.remote(producer.plasma.remote())),
            "heap": lambda: ray.get(consumer.take.remote(producer.from_heap.remote())),
            "pool": lambda: ray.get(consumer.take.remote(producer.from_pool.remote())),
        }
        results["Ray, 256 MiB table, actor to actor"] = (_in_turns(ways, rounds, used), "plasma")
        for name, nbytes, number in (("64 KiB", MIB // 16, 1600), ("1 MiB", MIB, 400), ("4 MiB", 4 * MIB, 400)):
            number //= scale
            ray.get(producer.prepare.remote(nbytes))
            ways = {
                "generator": lambda k=number: ray.get(consumer.drain_generator.remote(producer, k)),
                "stream": lambda k=number: ray.get(consumer.drain_stream.remote(producer, k)),
            }
            each = _in_turns(ways, rounds, used)
            results[f"Ray, batch of {name}, actor to actor"] = (
                {way: [(wall / number, cpu / number) for wall, cpu in samples] for way, samples in each.items()},
                "generator",
            )
        return results
    finally:
        ray.shutdown()
        xd.serve({}).close()  # removes the sockets of the workers, which Ray kills
        shutil.rmtree(folder, ignore_errors=True)


GOALS = [
    ("Ray, 256 MiB table, actor to actor", "heap", 0.9),
    ("Ray, 256 MiB table, actor to actor", "pool", 2),
    ("Ray, batch of 64 KiB, actor to actor", "stream", 10),
    ("Ray, batch of 1 MiB, actor to actor", "stream", 10),
    ("Ray, batch of 4 MiB, actor to actor", "stream", 6),
]
