"""The rows of `./dev bench engines` for Dask: the same work on clusters that differ in their scheme alone.

"tcp" is Dask's own way, "heap" is `crossdock://`, and "pool" is that with NumPy's large arrays in the pool. A hand-over
lasts from the submission of a task that needs what another worker has until its result is there; Dask needs some 13 ms
of these for a task that does nothing.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

MIB = 1 << 20
Costs = dict[str, list[tuple[float, float]]]

NAME = "distributed"
_ALL = ("tcp", "heap", "pool")


def available() -> bool:
    return importlib.util.find_spec("distributed") is not None


# ---- what runs in workers -------------------------------------------------------------------------------------------


def _array(nbytes: int) -> Any:
    return np.ones(nbytes // 8)


def _floats(nbytes: int) -> Any:
    import pandas as pd

    return pd.DataFrame(np.ones((nbytes // 8 // 8, 8)), columns=list("abcdefgh"))


def _mixed(nbytes: int) -> Any:
    """Four columns of integers, and one of some 11 letters: 51 bytes a row."""
    import pandas as pd
    import pyarrow as pa

    rows = nbytes // 51
    words = pa.array([f"word {i:06}" for i in range(1000)]).take(pa.array(np.arange(rows) % 1000))
    frame = pd.DataFrame({name: np.arange(rows) for name in "abcd"})
    frame["word"] = pd.array(words, dtype="str")
    return frame


def _table(nbytes: int) -> Any:
    import pyarrow as pa

    return pa.table({name: np.ones(nbytes // 32) for name in "abcd"})


def _first(data: Any) -> Any:
    if isinstance(data, np.ndarray):
        return float(data[0])
    return data.column(0)[0].as_py() if hasattr(data, "column") else data.iloc[0, 0]


def _read(data: Any) -> float:
    return float(data.sum())


def _proportional_set() -> int:
    """Bytes of memory of this process, of which what n processes share counts as one n-th."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) << 10
    raise RuntimeError("the kernel doesn't say it")


def _trim() -> None:
    import ctypes

    import crossdock as xd

    gc.collect()
    xd.pool.default().trim()
    ctypes.CDLL(None).malloc_trim(0)


# ---- clusters -------------------------------------------------------------------------------------------------------


class _Cluster:
    """A cluster of one way, with a worker of one thread each."""

    def __init__(self, way: str, workers: int, stack: contextlib.ExitStack) -> None:
        from distributed import Client, LocalCluster

        import crossdock.dask

        scheme = "tcp://" if way == "tcp" else "crossdock://"
        self.cluster = stack.enter_context(
            LocalCluster(
                n_workers=workers, threads_per_worker=1, protocol=scheme, dashboard_address=":0", memory_limit=0
            )
        )
        self.client = stack.enter_context(Client(self.cluster, set_as_default=False))
        if way == "pool":
            crossdock.dask.install(self.client)
        self.workers = list(self.client.scheduler_info(n_workers=-1)["workers"])
        self.pids = list(self.client.run(os.getpid).values())

    def make(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Makes data on the first worker."""
        from distributed import wait

        with self.client.as_current():
            future = self.client.submit(function, *arguments, workers=self.workers[:1], pure=False)
            wait(future)
        return future


@contextlib.contextmanager
def _clusters(ways: tuple[str, ...], workers: int) -> Iterator[dict[str, _Cluster]]:
    with contextlib.ExitStack() as stack:
        yield {way: _Cluster(way, workers, stack) for way in ways}


def _in_turns(
    clusters: dict[str, _Cluster],
    rounds: int,
    cpu_seconds: Callable[[list[int]], float],
    run: Callable[[_Cluster, Any], None],
    prepare: Callable[[_Cluster], Any] = lambda _: None,
) -> Costs:
    costs: Costs = {way: [] for way in clusters}
    for number in range(rounds + 1):
        for way, cluster in clusters.items():
            data = prepare(cluster)
            cpu, start = cpu_seconds(cluster.pids), time.perf_counter()
            with cluster.client.as_current():
                run(cluster, data)
            wall = time.perf_counter() - start
            if number:  # the first is not counted
                costs[way].append((wall, cpu_seconds(cluster.pids) - cpu))
            del data
            # Nothing tells when the workers have dropped it. The next way has its own cluster meanwhile.
            time.sleep(0.05)
    return costs


def _to_others(cluster: _Cluster, data: Any) -> None:
    """Has each worker but the first need the data."""
    client = cluster.client
    client.gather([client.submit(_first, data, workers=[one], pure=False) for one in cluster.workers[1:]])


# ---- the rows -------------------------------------------------------------------------------------------------------


def costs(rounds: int, scale: int, cpu_seconds: Callable[[list[int]], float]) -> dict[str, tuple[Costs, str]]:
    """Returns the samples of each row, in seconds by the clock and of processors, with the name of Dask's own way."""
    import dask
    import distributed  # noqa: F401 # so that its defaults are there before one is changed

    size = 256 * MIB // scale
    results: dict[str, Costs] = {}
    with _clusters(_ALL, 2) as clusters:
        for name, make, nbytes in (
            ("256 MiB NumPy array", _array, size),
            ("256 MiB frame of floats", _floats, size),
            ("369 MiB frame, integers and text", _mixed, 369 * MIB // scale),
            ("256 MiB table", _table, size),
        ):
            results[f"Dask, {name}, worker to worker"] = _in_turns(
                clusters, rounds, cpu_seconds, _to_others, lambda one, f=make, n=nbytes: one.make(f, n)
            )
        results["Dask, 1,000 tiny tasks"] = _in_turns(
            clusters, rounds, cpu_seconds, lambda one, _: _tiny(one, 1000 // scale)
        )
        results["Dask, (x + x.T).sum() of 512 MiB"] = _in_turns(
            clusters, rounds, cpu_seconds, lambda one, _: _transposed(one, 512 * MIB // scale)
        )
        for method, name in (("tasks", "tasks"), ("p2p", "P2P")):
            results[f"Dask, shuffle of 500 MB by {name}"] = _in_turns(
                clusters, rounds, cpu_seconds, lambda one, _, m=method: _shuffle(one, m, 500_000_000 // scale)
            )
    with _clusters(_ALL, 4) as clusters:
        results["Dask, 256 MiB needed by 3 others"] = _in_turns(
            clusters, rounds, cpu_seconds, _to_others, lambda one: one.make(_array, size)
        )
        results["Dask, 256 MiB broadcast to 4"] = _broadcast(clusters, rounds, size, cpu_seconds)
    # What goes to another machine goes as it does where shared memory isn't to be used.
    with dask.config.set({"crossdock.shared-memory": False}), _clusters(("tcp", "heap"), 2) as clusters:
        clusters = {"tcp": clusters["tcp"], "other machine": clusters["heap"]}
        results["Dask, 256 MiB NumPy array, other machine"] = _in_turns(
            clusters, rounds, cpu_seconds, _to_others, lambda one: one.make(_array, size)
        )
    return {name: (samples, "tcp") for name, samples in results.items()}


def _tiny(cluster: _Cluster, number: int) -> None:
    client = cluster.client
    client.gather(client.map(_identity, range(number), pure=False))


def _identity(value: int) -> int:
    return value


def _transposed(cluster: _Cluster, nbytes: int) -> None:
    import dask.array as da

    side = int((nbytes // 8) ** 0.5)
    x = da.ones((side, side), chunks=(side // 8, side // 8))
    cluster.client.compute((x + x.T).sum()).result()


def _shuffle(cluster: _Cluster, method: str, nbytes: int) -> None:
    import dask
    import dask.dataframe as dd

    parts, width = 16, 8
    rows = nbytes // 8 // width // parts
    frame = dd.from_map(_part, range(parts), rows=rows, width=width, meta=_part(0, 1, width))
    with dask.config.set({"dataframe.shuffle.method": method}):
        cluster.client.compute(frame.shuffle("key").map_partitions(len, meta=("n", int)).sum()).result()


def _part(number: int, rows: int, width: int) -> Any:
    import pandas as pd

    rng = np.random.default_rng(number)
    data = {f"c{i}": rng.random(rows) for i in range(width - 1)}
    return pd.DataFrame({"key": rng.integers(0, 1 << 20, rows), **data})


def _broadcast(
    clusters: dict[str, _Cluster], rounds: int, nbytes: int, cpu_seconds: Callable[[list[int]], float]
) -> Costs:
    import crossdock as xd

    heap = np.ones(nbytes // 8)
    lies_in_pool = xd.pool.default().empty(nbytes // 8)
    lies_in_pool[:] = 1

    def scatter(cluster: _Cluster, _: Any) -> None:
        data = lies_in_pool if cluster is clusters["pool"] else heap
        cluster.client.scatter(data, broadcast=True, hash=False)

    return _in_turns(clusters, rounds, cpu_seconds, scatter)


def growth_of_memory(scale: int) -> dict[str, float]:
    """How much the proportional sets of 4 workers grow when all read one array of 512 MiB, by its size."""
    import dask
    import distributed  # noqa: F401 # so that its defaults are there before one is changed

    nbytes = 512 * MIB // scale
    found = {}
    # Else Dask drops what has been read, after a while, everywhere but at one worker.
    keep = dask.config.set({"distributed.scheduler.active-memory-manager.start": False})
    with keep, _clusters(_ALL, 4) as clusters:
        for way, cluster in clusters.items():
            client = cluster.client
            small = cluster.make(_array, MIB)
            client.gather([client.submit(_read, small, workers=[one], pure=False) for one in cluster.workers])
            client.run(_trim)
            before = sum(client.run(_proportional_set).values())
            data = cluster.make(_array, nbytes)
            client.gather([client.submit(_read, data, workers=[one], pure=False) for one in cluster.workers])
            client.run(_trim)
            found[way] = (sum(client.run(_proportional_set).values()) - before) / nbytes
            del data, small
    return found


# The row, the way, and how many times faster than Dask's own it has to be.
GOALS = [
    ("Dask, 256 MiB NumPy array, worker to worker", "heap", 3),
    ("Dask, 256 MiB NumPy array, worker to worker", "pool", 8),
    ("Dask, 256 MiB frame of floats, worker to worker", "heap", 3),
    ("Dask, 256 MiB frame of floats, worker to worker", "pool", 5),
    ("Dask, 369 MiB frame, integers and text, worker to worker", "heap", 5),
    ("Dask, 369 MiB frame, integers and text, worker to worker", "pool", 5),
    ("Dask, 256 MiB table, worker to worker", "heap", 5),
    ("Dask, 256 MiB needed by 3 others", "heap", 4),
    ("Dask, 256 MiB needed by 3 others", "pool", 10),
    ("Dask, 256 MiB broadcast to 4", "heap", 15),
    ("Dask, 256 MiB broadcast to 4", "pool", 15),
    ("Dask, (x + x.T).sum() of 512 MiB", "heap", 1.1),
    ("Dask, (x + x.T).sum() of 512 MiB", "pool", 1.15),
    ("Dask, shuffle of 500 MB by tasks", "heap", 1.05),
    ("Dask, shuffle of 500 MB by tasks", "pool", 1.5),
    ("Dask, shuffle of 500 MB by P2P", "heap", 0.95),
    ("Dask, 1,000 tiny tasks", "heap", 0.95),
    ("Dask, 256 MiB NumPy array, other machine", "other machine", 0.95),
]

# Of growth_of_memory(), in a pool.
MOST_GROWTH = 1.05
