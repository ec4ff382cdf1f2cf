"""Dask with large data between workers by shared memory.

A cluster whose addresses begin with `crossdock://` (over TLS: `crossdocks://`) works like one over `tcp://`. Within a
machine, frames of 64 KiB or more are passed through shared memory. If that isn't possible, they are sent over TCP.

    from distributed import Client, LocalCluster

    import crossdock.dask

    if __name__ == "__main__":  # workers import the program
        with LocalCluster(protocol="crossdock://") as cluster, Client(cluster) as client:
            crossdock.dask.install(client)  # arrays lie in shared memory from the start, and count once

Needs `distributed`, which finds the schemes itself if Crossdock is installed.
"""

from __future__ import annotations

import asyncio
from typing import Any

from crossdock._options import count
from crossdock.dask._comm import Backend, SecureBackend
from crossdock.dask._memory import NannyPlugin, WorkerPlugin

__all__ = ["Backend", "NannyPlugin", "SecureBackend", "WorkerPlugin", "install"]


def install(client: Any, threshold: int | None = 1 << 20) -> Any:
    """Makes all workers of a cluster, also later ones, allocate large arrays in shared memory and count it once.

    Everything works without it, too. With it, arrays of `threshold` bytes or more are passed to other processes without
    a copy. Dask then counts memory that several workers share only at the worker that made it. Otherwise Dask counts it
    at each worker, and may pause, spill and restart workers too early. The nannies' limit uses the same count.

    client: a client of the cluster.
    threshold: the least bytes of such an array; None: leave NumPy's allocator as it is. Another call changes it.

    Returns an awaitable if the client is asynchronous. Instead of this call, workers and nannies may be started with
    `--preload crossdock.dask --preload-nanny crossdock.dask`.

    Raises `InvalidArgumentError` for a threshold below 1, `TypeError` for one that is no whole number, and the errors
    of `client.register_plugin()`.
    """
    if threshold is not None:
        threshold = count(threshold, "threshold", "bytes")
    plugins = [WorkerPlugin(threshold), NannyPlugin()]
    registered = [client.register_plugin(plugin) for plugin in plugins]
    return asyncio.gather(*registered) if client.asynchronous else None


def dask_setup(server: Any) -> None:
    """Called by Dask in a worker or nanny that has this module as a preload."""
    if hasattr(server, "memory_manager") and hasattr(server, "monitor"):
        from distributed import Nanny

        plugin = NannyPlugin() if isinstance(server, Nanny) else WorkerPlugin()
        plugin.setup(server)
