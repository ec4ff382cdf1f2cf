"""Two processes that pass a NumPy array to each other: one listens, the other connects, and both send.

python peers.py
"""

import asyncio
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

import crossdock as xd


def received(message: xd.peers.Message) -> NDArray[Any]:
    """The array that a message of `send()` has."""
    dtype, rows = message.meta.decode().split()
    return np.frombuffer(memoryview(message.frames[0]), dtype).reshape(int(rows), -1)


async def send(peer: xd.peers.Peer, array: NDArray[Any]) -> None:
    await peer.send([array], meta=f"{array.dtype.str} {len(array)}".encode())


async def connect(uri: str) -> None:
    """The other process: adds 1 to what it is sent, and returns it."""
    async with await xd.peers.connect(uri) as peer:
        array = received(await peer.recv(writable="copy-on-write"))
        array += 1  # in private copies of the pages: the sender doesn't see it
        await send(peer, array)


async def main() -> None:
    async with await xd.peers.listen("shm:") as listener:
        worker = await asyncio.create_subprocess_exec(sys.executable, __file__, listener.uri)
        async with await listener.accept() as peer:
            array = xd.pool.default().empty((1000, 1000))  # shared memory that is used again: sent without a copy
            array[:] = 41
            await send(peer, array)
            array[:] = 0  # it may be changed at once
            result = received(await peer.recv())
            print(f"sent by address: {peer.stats()['bytes_by_address']} bytes, copied: {peer.stats()['bytes_copied']}")
            print(f"received: {result.shape}, all {result[0, 0]}: {bool((result == 42).all())}")
        await worker.wait()


if __name__ == "__main__":
    asyncio.run(connect(sys.argv[1]) if len(sys.argv) > 1 else main())
