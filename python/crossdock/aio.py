"""Streams for asyncio."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

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

    Waiting needs no thread: the event loop watches the connection. Only one task at a time may use it. A stream that
    was begun in an event loop that was closed may be read further in another one. Close it with `aclose()`, or use it
    as an asynchronous context manager; dropping it also closes it.
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
        """Returns the schema. Starts the stream if it wasn't started yet.

        Raises the errors of `Client.get()` if it starts the stream, `ClosedError` after `aclose()`, and
        `StreamBusyError` if a task of another event loop is starting it.
        """
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
                if not _loop_is_closed(self._waiting):
                    raise StreamBusyError("another task is reading from this AsyncRecordBatchReader")
                self._end_wait()
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
            await self._readable(descriptor)

    async def aclose(self) -> None:
        """Ends the stream, and tells the source so. Batches that were returned before stay valid.

        A task that waits for the stream gets a `ClosedError`. Raises `StreamBusyError`, and closes nothing, if that
        task is of another event loop, which runs in another thread: call it there.
        """
        for wait in (self._waiting, self._opening):
            if wait is not None and wait.get_loop().is_running() and wait.get_loop() is not asyncio.get_running_loop():
                raise StreamBusyError(
                    "a task of another event loop is reading from this AsyncRecordBatchReader: close it there, by "
                    "asyncio.run_coroutine_threadsafe(reader.aclose(), loop)"
                )
        self._closed = True
        waiting = self._waiting
        self._end_wait()  # first: the loop must not watch a closed descriptor, whose number may be reused
        if waiting is not None and not waiting.done() and not _loop_is_closed(waiting):
            waiting.set_exception(ClosedError("this AsyncRecordBatchReader was closed"))
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        self._end_opening()

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
            if self._opening is not None and not self._opening.done():
                if _loop_is_closed(self._opening):
                    self._end_opening()
                elif self._opening.get_loop() is not asyncio.get_running_loop():
                    raise StreamBusyError("a task of another event loop is opening this AsyncRecordBatchReader")
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

        self._waiting, self._watched = came, descriptor
        try:
            loop.add_reader(descriptor, note)
            await came
        finally:
            if self._waiting is came:
                self._end_wait()

    def _end_wait(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        if not _loop_is_closed(waiting):
            waiting.get_loop().remove_reader(self._watched)
        if self._reader is not None:
            self._reader._awake()

    def _end_opening(self) -> None:
        opening, self._opening = self._opening, None
        if opening is None:
            return
        if opening.done():
            _close_result(opening)
        elif _loop_is_closed(opening):
            coroutine = opening.get_coro()
            assert coroutine is not None
            coroutine.close()
        else:
            opening.add_done_callback(_close_result)
            opening.cancel()


async def in_thread(call: Callable[[_native.Interrupt], T]) -> T:
    """Runs a call that waits in a thread of the event loop."""
    interrupt = _native.Interrupt()
    try:
        return await asyncio.to_thread(call, interrupt)
    except (asyncio.CancelledError, GeneratorExit):  # the latter if the loop was closed before
        interrupt.cancel()  # Ends the thread: a loop that ends cancels its tasks, and then waits for its threads.
        raise


def _loop_is_closed(future: asyncio.Future[Any]) -> bool:
    """Whether nothing wakes those who wait for the future any more. Its loop takes no more calls then."""
    return future.get_loop().is_closed()


def _close_result(opening: asyncio.Future[RecordBatchReader]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
