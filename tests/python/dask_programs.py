"""What the programs of the tests for Dask have in common. Each test runs one in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import time

import numpy as np
from distributed.comm import connect, listen
from distributed.comm.core import CommClosedError
from distributed.protocol import to_serialize

import crossdock as xd
import crossdock.dask
from crossdock.dask import _links, _received

__all__ = [
    "CommClosedError", "arrived", "asyncio", "by_address", "connect", "contextlib", "crossdock", "gc", "links",
    "listen", "lists_are_empty", "np", "os", "pair", "pool_is_idle", "read", "serve", "socket", "time",
    "until", "write", "xd",
]  # fmt: skip

MIB = 1 << 20


@contextlib.asynccontextmanager
async def pair(scheme="crossdock", address="127.0.0.1:0"):
    """Both ends of a comm, in one event loop."""
    async with serve(scheme, address) as (contact, accepted):
        near = await connect(contact)
        far = await accepted.get()
        try:
            yield near, far
        finally:
            await near.close()
            await far.close()


@contextlib.asynccontextmanager
async def serve(scheme="crossdock", address="127.0.0.1:0", **arguments):
    accepted = asyncio.Queue()
    listener = await listen(f"{scheme}://{address}", accepted_by(accepted), **arguments)
    try:
        yield listener.contact_address, accepted
    finally:
        listener.stop()


def accepted_by(queue):
    async def handle(comm):
        queue.put_nowait(comm)

    return handle


async def write(comm, *data):
    await comm.write({"data": [to_serialize(one) for one in data]})


async def read(comm):
    return list((await comm.read())["data"])


async def there_and_back(near, far, *data):
    """What the other end gets, after it has sent it back."""
    await write(near, *data)
    await write(far, *await read(far))
    return await read(near)


def links():
    """The links of this event loop."""
    endpoint = _links.current()
    return list(endpoint._links.values()) if endpoint else []


def by_address():
    """How many frames this event loop has sent by address."""
    return sum(link.peer.stats()["frames_by_address"] for link in links())


def arrived(channel=None):
    """How many messages lie there that no comm has asked for."""
    return sum(len(channel._arrived) for channel in _links.current()._channels.values())


async def until(condition, seconds=30):
    """Waits for what no event tells."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        gc.collect()
        await asyncio.sleep(0.002)


def pool_is_idle():
    stats = xd.pool.default().stats()
    return stats["idle_bytes"] == stats["bytes"]


def lists_are_empty():
    return not _links._endpoints and not _links._closing and _received.foreign_bytes() == 0
