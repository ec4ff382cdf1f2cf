"""Streams for asyncio."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from crossdock import _native
from crossdock.errors import ClosedError, StreamBusyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from crossdock._native import RecordBatch, RecordBatchReader, Schema

__all__ = ["AsyncRecordBatchReader"]

T = TypeVar("T")

# The most batches that are returned in a row, if they are ready, before the event loop may run other tasks.
_BATCHES_IN_A_ROW = 64


class AsyncRecordBatchReader:
    """One stream of batches for asyncio: iterate over it with `async for`. Made by `Client.aget()`.

    Waiting needs no thread: the event loop watches the connection. Only one task at a time may use it. Close it with
    `aclose()`, or use it as an asynchronous context manager; dropping it also closes it.
    """

    def __init__(self, start: Callable[[_native.Interrupt], RecordBatchReader]) -> None:
        self._start = start
        self._opening: asyncio.Task[RecordBatchReader] | None = None
        self._reader: RecordBatchReader | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._watched = -1
        self._closed = False
        self._in_a_row = 0

    async def schema(self) -> Schema:
        """Returns the schema. Starts the stream if it wasn't started yet."""
        return (await self._opened()).schema

    def __aiter__(self) -> AsyncRecordBatchReader:
        return self

    async def __anext__(self) -> RecordBatch:
        reader = await self._opened()
        self._in_a_row += 1
        if self._in_a_row >= _BATCHES_IN_A_ROW:
            self._in_a_row = 0
            await asyncio.sleep(0)
        while True:
            if self._waiting is not None:
                raise StreamBusyError("another task is reading from this AsyncRecordBatchReader")
            there, batch = reader._try_next()
            if there:
                if batch is None:
                    raise StopAsyncIteration
                return batch
            self._in_a_row = 0
            descriptor = reader._prepare_sleep()
            if descriptor < 0:
                await asyncio.sleep(0)  # a long body arrives in pieces; other tasks run meanwhile
                continue
            try:
                await self._readable(descriptor)
            finally:
                reader._awake()

    async def aclose(self) -> None:
        """Ends the stream, and tells the source so. Batches that were returned before stay valid."""
        self._closed = True
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            # The loop must not watch a closed descriptor: its number may be reused for another file.
            waiting.get_loop().remove_reader(self._watched)
            if not waiting.done():
                waiting.set_exception(ClosedError("this AsyncRecordBatchReader was closed"))
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.add_done_callback(_close_result)
            opening.cancel()

    async def __aenter__(self) -> AsyncRecordBatchReader:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _opened(self) -> RecordBatchReader:
        if self._closed:
            raise ClosedError("this AsyncRecordBatchReader was closed; aget() the table again")
        if self._reader is None:
            # Connecting and waiting for the schema may take long, so a thread of the loop does it. If the waiting task
            # is cancelled, the opening goes on for the next task.
            if self._opening is None or self._opening.cancelled():
                self._opening = asyncio.ensure_future(in_thread(self._start))
            opening = self._opening
            try:
                reader = await asyncio.shield(opening)
            except asyncio.CancelledError:
                if self._closed and opening.cancelled():
                    raise ClosedError("this AsyncRecordBatchReader was closed while it was being opened") from None
                raise
            except Exception:
                if opening.done():
                    self._opening = None
                raise
            self._opening = None
            if self._closed:
                reader.close()  # aclose() may have run before the reader was opened
                raise ClosedError("this AsyncRecordBatchReader was closed while it was being opened")
            self._reader = reader
        return self._reader

    async def _readable(self, descriptor: int) -> None:
        loop = asyncio.get_running_loop()
        came: asyncio.Future[None] = loop.create_future()

        def note() -> None:
            if not came.done():
                came.set_result(None)

        loop.add_reader(descriptor, note)
        self._waiting, self._watched = came, descriptor
        try:
            await came
        finally:
            if self._waiting is came:
                loop.remove_reader(descriptor)
                self._waiting = None


async def in_thread(call: Callable[[_native.Interrupt], T]) -> T:
    """Runs a call that waits in a thread of the event loop."""
    interrupt = _native.Interrupt()
    try:
        return await asyncio.to_thread(call, interrupt)
    except asyncio.CancelledError:
        interrupt.cancel()  # Ends the thread: a loop that ends cancels its tasks, and then waits for its threads.
        raise


def _close_result(opening: asyncio.Future[RecordBatchReader]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
