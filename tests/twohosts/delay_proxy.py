"""Distance: python -m tests.twohosts.delay_proxy ADDRESS PORT MILLISECONDS

Passes connections on to the server at ADDRESS:PORT, all bytes after this time, in both directions. Prints its own port.
"""

from __future__ import annotations

import asyncio
import sys


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def deliver() -> None:
        while True:
            due, piece = await on_the_way.get()
            await asyncio.sleep(due - loop.time())
            if not piece:
                writer.close()
                return
            writer.write(piece)
            await writer.drain()

    delivery = asyncio.create_task(deliver())
    piece = b"begin"
    while piece:
        piece = await reader.read(1 << 16)
        on_the_way.put_nowait((loop.time() + seconds, piece))
    await delivery


async def main(address: str, port: str, milliseconds: str) -> None:
    seconds = int(milliseconds) / 1000

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(address, int(port))
        await asyncio.gather(carry(reader, there[1], seconds), carry(there[0], writer, seconds))

    server = await asyncio.start_server(connected, address, 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
