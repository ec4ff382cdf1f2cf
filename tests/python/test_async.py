"""aget(): streams for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pyarrow as pa
import pytest

import crossdock as xd

TABLE = pa.table({"n": range(1000)})


def batches(count: int) -> list[pa.RecordBatch]:
    return [pa.record_batch({"n": [i]}) for i in range(count)]


def numbers(batch: xd.RecordBatch) -> list[int]:
    return pa.record_batch(batch)["n"].to_pylist()


class Gate:
    """A source that gives a batch each time it is opened once more."""

    def __init__(self) -> None:
        self.tickets = threading.Semaphore(0)
        self.ended = threading.Event()

    def __call__(self) -> pa.RecordBatchReader:
        def produce():
            try:
                for batch in batches(1000):
                    self.tickets.acquire()
                    yield batch
            finally:
                self.ended.set()

        return pa.RecordBatchReader.from_batches(batches(1)[0].schema, produce())


def watched() -> asyncio.Event:
    """Of the running loop: some reader has it watch its connection from now on, so its task waits."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    add_reader = loop.add_reader

    def add_and_tell(*arguments):
        add_reader(*arguments)
        event.set()

    loop.add_reader = add_and_tell
    return event


@pytest.fixture
def served():
    gate = Gate()
    many = pa.Table.from_batches(batches(500))
    with xd.serve({"t": TABLE, "many": many, "gate": gate}) as server, xd.connect(server.uri) as client:
        yield client, gate
        for _ in range(1000):
            gate.tickets.release()


def test_a_table_comes_whole(served):
    client, _ = served

    async def main():
        async with client.aget("t") as reader:
            assert (await reader.schema()).names == ["n"]
            assert [n async for batch in reader for n in numbers(batch)] == list(range(1000))
            with pytest.raises(StopAsyncIteration):
                await anext(reader)
        return [n async for batch in client.aget("many", columns=["n"]) for n in numbers(batch)]

    assert asyncio.run(main()) == list(range(500))


def test_many_streams_at_once(served):
    client, _ = served

    async def rows() -> int:
        return sum([batch.num_rows async for batch in client.aget("many")])

    async def main():
        return await asyncio.gather(*(rows() for _ in range(20)))

    assert asyncio.run(main()) == [500] * 20


def test_waiting_leaves_the_loop_to_others(served):
    client, gate = served

    async def main():
        reader = client.aget("gate")
        sleeps = watched()
        waiting = asyncio.ensure_future(anext(reader))
        await asyncio.wait_for(sleeps.wait(), 20)
        sleeps.clear()
        for _ in range(100):
            await asyncio.sleep(0)  # a turn of the loop
        assert not waiting.done()
        assert not sleeps.is_set(), "it took turns itself"
        gate.tickets.release()
        assert numbers(await asyncio.wait_for(waiting, 20)) == [0]
        await reader.aclose()

    asyncio.run(main())


def test_a_cancelled_wait_loses_nothing(served):
    client, gate = served

    async def main():
        reader = client.aget("gate")
        gate.tickets.release()
        assert numbers(await anext(reader)) == [0]
        sleeps = watched()
        for _ in range(3):
            sleeps.clear()
            waiting = asyncio.ensure_future(anext(reader))
            await asyncio.wait_for(sleeps.wait(), 20)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        gate.tickets.release()
        assert numbers(await asyncio.wait_for(anext(reader), 20)) == [1]
        await reader.aclose()

    asyncio.run(main())


def test_closing_lets_the_source_go(served):
    client, gate = served

    async def main():
        async with client.aget("gate") as reader:
            gate.tickets.release()
            kept = await anext(reader)
            gate.tickets.release()  # it is in its producer, waiting for the next
        return kept

    kept = asyncio.run(main())
    gate.tickets.release()
    assert gate.ended.wait(20)
    assert numbers(kept) == [0]


def test_closing_ends_the_wait_of_another_task(served):
    client, gate = served

    async def main():
        reader = client.aget("gate")
        gate.tickets.release()
        await anext(reader)
        sleeps = watched()
        waiting = asyncio.ensure_future(anext(reader))
        await asyncio.wait_for(sleeps.wait(), 20)
        await reader.aclose()
        with pytest.raises(xd.ClosedError):
            await asyncio.wait_for(waiting, 20)
        # While it is being opened, too.
        opening = client.aget("gate")
        waiting = asyncio.ensure_future(anext(opening))
        await asyncio.sleep(0)  # its turn: it asks a thread to open, and waits for that
        await opening.aclose()
        with pytest.raises(xd.ClosedError):
            await asyncio.wait_for(waiting, 20)

    asyncio.run(main())
    gate.tickets.release()


def test_closing_after_the_loop_that_waited(served):
    client, gate = served
    loop = asyncio.new_event_loop()
    gate.tickets.release()
    reader = client.aget("gate")
    assert len(loop.run_until_complete(reader.__anext__())) == 1

    async def begin_to_wait() -> asyncio.Task:
        waits = watched()
        task = asyncio.ensure_future(reader.__anext__())
        await waits.wait()
        return task

    task = loop.run_until_complete(begin_to_wait())
    loop.close()
    asyncio.run(reader.aclose())
    gate.tickets.release()
    assert gate.ended.wait(20)
    with contextlib.suppress(xd.Error, RuntimeError):
        task.get_coro().close()


def test_reading_on_after_the_loop_that_waited(served):
    client, gate = served
    reader = client.aget("gate")

    async def begin_to_wait() -> asyncio.Task:
        waits = watched()
        task = asyncio.ensure_future(anext(reader))
        await asyncio.wait_for(waits.wait(), 20)
        return task

    loop = asyncio.new_event_loop()
    task = loop.run_until_complete(begin_to_wait())
    loop.close()

    async def read_on() -> list[int]:
        waits = watched()
        waiting = asyncio.ensure_future(anext(reader))
        await asyncio.wait_for(waits.wait(), 20)
        task.get_coro().close()  # as when it is dropped: the wait of the new loop stays
        gate.tickets.release()
        return numbers(await asyncio.wait_for(waiting, 20))

    assert asyncio.run(read_on()) == [0]
    asyncio.run(reader.aclose())


def test_a_second_task_is_told_that_the_reader_is_busy(served):
    client, gate = served

    async def main():
        reader = client.aget("gate")
        sleeps = watched()
        waiting = asyncio.ensure_future(anext(reader))
        await asyncio.wait_for(sleeps.wait(), 20)
        with pytest.raises(xd.StreamBusyError, match="another task"):
            await anext(reader)
        gate.tickets.release()
        assert numbers(await asyncio.wait_for(waiting, 20)) == [0]
        await reader.aclose()

    asyncio.run(main())


class Slow:
    """A source that doesn't say its schema until `go_on` is set."""

    def __init__(self) -> None:
        self.called = threading.Event()
        self.go_on = threading.Event()

    def __call__(self) -> pa.Table:
        self.called.set()
        assert self.go_on.wait(20)
        return TABLE


@pytest.fixture
def slow():
    slow = Slow()
    with xd.serve({"slow": slow}) as server, xd.connect(server.uri) as client:
        yield client, slow
        slow.go_on.set()


async def opening(reader, slow) -> asyncio.Future:
    task = asyncio.ensure_future(anext(reader))
    await asyncio.to_thread(slow.called.wait, 20)
    return task


def test_a_loop_ends_while_a_stream_is_being_opened(slow):
    client, source = slow

    async def main():
        task = await opening(client.aget("slow"), source)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())  # Waits for its threads.
    assert not source.go_on.is_set()


def test_the_loop_was_closed_while_a_stream_was_being_opened(slow):
    client, source = slow
    loop = asyncio.new_event_loop()
    reader, other = client.aget("slow"), client.aget("slow")
    tasks = []

    async def begin():
        tasks.append(await opening(reader, source))
        source.called.clear()
        tasks.append(await opening(other, source))

    loop.run_until_complete(begin())
    loop.close()
    asyncio.run(reader.aclose())
    source.go_on.set()

    async def read_on():
        return numbers(await asyncio.wait_for(anext(other), 20))

    assert asyncio.run(read_on()) == list(range(1000))
    asyncio.run(other.aclose())


@pytest.mark.parametrize("name", ["slow", "gate"])
def test_closing_in_another_loop_is_refused_while_one_waits(served, slow, name):
    client, gate = served if name == "gate" else (slow[0], None)
    source = slow[1]
    reader = client.aget(name)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def there(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(20)

    async def begin() -> list[asyncio.Task]:
        if gate is None:
            return [await opening(reader, source)]
        waits = watched()
        task = asyncio.ensure_future(anext(reader))
        await asyncio.wait_for(waits.wait(), 20)
        return [task]

    async def rows(task) -> int:
        return (await task).num_rows

    try:
        (task,) = there(begin())
        with pytest.raises(xd.StreamBusyError, match="close it there, by asyncio"):
            asyncio.run(reader.aclose())
        with pytest.raises(xd.StreamBusyError, match="another"):
            asyncio.run(reader.__anext__())
        source.go_on.set()
        if gate is not None:
            gate.tickets.release()
        assert there(rows(task)) > 0
        there(reader.aclose())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_closing_ends_the_opening(slow):
    client, source = slow

    async def main():
        reader = client.aget("slow")
        task = await opening(reader, source)
        await reader.aclose()
        with pytest.raises(xd.ClosedError):
            await task
        await asyncio.get_running_loop().shutdown_default_executor()

    asyncio.run(main())
    assert not source.go_on.is_set()


def test_a_cancelled_opening_is_left_to_the_next_wait(slow):
    client, source = slow

    async def main():
        reader = client.aget("slow")
        task = await opening(reader, source)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        source.called.clear()
        source.go_on.set()
        assert numbers(await asyncio.wait_for(anext(reader), 20)) == list(range(1000))
        await reader.aclose()

    asyncio.run(main())
    assert not source.called.is_set()


def test_errors(served):
    client, _ = served

    async def main():
        reader = client.aget("nothing")
        for _ in range(2):  # asked for anew each time
            with pytest.raises(xd.NotFoundError, match="nothing"):
                await anext(reader)
        await reader.aclose()
        with pytest.raises(xd.ClosedError, match="closed"):
            await anext(reader)

    asyncio.run(main())


def test_a_server_that_closes_in_the_middle():
    gate = Gate()

    async def main(server, client):
        reader = client.aget("gate")
        gate.tickets.release()
        await anext(reader)
        sleeps = watched()
        waiting = asyncio.ensure_future(anext(reader))
        await asyncio.wait_for(sleeps.wait(), 20)
        closing = asyncio.create_task(asyncio.to_thread(server.close))
        with pytest.raises(xd.ClosedError):
            await asyncio.wait_for(waiting, 20)
        gate.tickets.release()  # closing waits for the source, which is in its producer
        await closing

    with xd.serve({"gate": gate}) as server, xd.connect(server.uri) as client:
        asyncio.run(main(server, client))
