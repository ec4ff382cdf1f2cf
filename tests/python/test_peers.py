"""xd.peers: connections of equals that carry whole messages of buffers, for asyncio."""

from __future__ import annotations

import array
import asyncio
import contextlib
import gc
import os
import threading
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crossdock as xd
from crossdock import peers

KIB, MIB = 1 << 10, 1 << 20
URIS = {"shm": "shm:", "tcp": "tcp://127.0.0.1:0"}
# Some bytes go in the ring, some in a region, some in many records.
SIZES = [0, 1, 63, 64, 1000, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, MIB, 5 * MIB + 3]


@pytest.fixture(autouse=True)
def trimmed() -> Iterator[None]:
    """The process's pool keeps idle memory, which isn't left behind."""
    yield
    gc.collect()
    pool = xd.pool.default()

    def is_empty() -> bool:
        pool.trim()
        return pool.stats()["bytes"] == 0

    until(is_empty, "memory is in use", seconds=5)  # the hub's threads free what they have sent a little later


@pytest.fixture(params=["shm", "tcp"])
def scheme(request: pytest.FixtureRequest) -> str:
    return request.param


def run(main: Coroutine[Any, Any, Any]) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(60):
            return await main

    return asyncio.run(limited())


def until(condition: Callable[[], bool], what: str, *, seconds: float = 1.0) -> None:
    """Other processes and threads of the library have so long."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        os.sched_yield()


async def soon(awaitable: Awaitable[Any], *, seconds: float = 20) -> Any:
    return await asyncio.wait_for(awaitable, seconds)


async def turns(count: int = 100) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def pair(scheme: str = "shm", **options: Any) -> AsyncIterator[tuple[peers.Peer, peers.Peer]]:
    """Two peers in this process."""
    async with await peers.listen(URIS[scheme], **options) as listener:
        one, other = await asyncio.gather(peers.connect(listener.uri, **options), listener.accept())
    async with one, other:
        yield one, other


def content(message: peers.Message) -> list[bytes]:
    return [bytes(frame) for frame in message.frames]


def numbered(size: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size, "u1")


# What programs in other processes begin with: `peer` is connected to the URI that is their argument.
HEAD = """
import asyncio, os, signal, sys
import numpy as np
import crossdock as xd
from crossdock import peers

def say(*words):
    print(*words, flush=True)

async def line():
    return await asyncio.to_thread(sys.stdin.readline)
"""


@pytest.fixture
def partner(script) -> Callable[..., Any]:
    """Starts a program in another process, which connects to a URI, and runs `code` with `peer`."""

    def start(uri: str, code: str) -> Any:
        body = "\n".join(f"        {one}" for one in code.strip("\n").split("\n"))
        main = f"\nasync def main():\n    async with await peers.connect(sys.argv[1]) as peer:\n{body}\n"
        return script(HEAD + main + "\nasyncio.run(main())\n", uri)

    return start


# ---- messages ----------------------------------------------------------------------------------------------


def test_messages_go_both_ways(scheme):
    async def main():
        async with pair(scheme) as (one, other):
            for sender, receiver in ((one, other), (other, one)):
                frames = [numbered(size, size) for size in SIZES]
                await sender.send(frames, meta=b"first")
                await sender.send([], meta=b"no frames")
                await sender.send([b"no meta"])
                await sender.send([])
                message = await receiver.recv()
                assert message.meta == b"first"
                assert content(message) == [frame.tobytes() for frame in frames]
                assert [len(frame) for frame in message.frames] == SIZES
                assert [frame.nbytes for frame in message.frames] == SIZES
                assert [memoryview(frame).readonly for frame in message.frames] == [True] * len(SIZES)
                assert tuple(await receiver.recv()) == (b"no frames", [])
                assert content(await receiver.recv()) == [b"no meta"]
                assert tuple(await receiver.recv()) == (b"", [])
            assert (one.stats()["sent"], one.stats()["received"]) == (4, 4)
            assert repr(message) == f"<crossdock.peers.Message: 5 bytes of meta, 10 frames of {sum(SIZES)} bytes>"
            del message, frames

    run(main())


def test_what_is_known_of_a_peer(scheme):
    async def main():
        async with pair(scheme) as (one, other):
            for peer in (one, other):
                assert peer.same_machine is (scheme == "shm")
                assert peer.shares_memory is (scheme == "shm")
                assert peer.pid == (os.getpid() if scheme == "shm" else None)
                assert peer.version == xd.__version__
                assert not peer.closed
                assert repr(peer).startswith("<crossdock.peers.Peer ")
                assert peer.stats() == dict.fromkeys(peer.stats(), 0)
        assert one.closed
        assert other.closed

    run(main())


def test_every_kind_of_buffer(scheme):
    base = np.arange(20_000, dtype="f8").reshape(100, 200)
    read_only = base.copy()
    read_only.setflags(write=False)
    in_pool = xd.Pool().buffer(100_000)
    memoryview(in_pool)[:] = b"p" * 100_000
    buffers: list[tuple[Any, bytes]] = [
        (b"bytes", b"bytes"),
        (bytearray(b"bytearray"), b"bytearray"),
        (memoryview(b"memoryview")[3:], b"oryview"),
        (array.array("i", [1, 2, 3]), array.array("i", [1, 2, 3]).tobytes()),
        (base, base.tobytes()),
        (np.asfortranarray(base), base.T.tobytes()),  # in the order of the memory
        (base.T, base.tobytes()),
        (base[10:20], base[10:20].tobytes()),
        (read_only, base.tobytes()),
        (np.float32(1.5), np.float32(1.5).tobytes()),
        (np.array(7), np.array(7).tobytes()),
        (np.empty((0, 3)), b""),
        (np.empty((3, 0), order="F"), b""),
        (np.array(["2020-01-01"], "M8[s]"), np.array(["2020-01-01"], "M8[s]").tobytes()),
        (np.zeros(3, [("O", "M8[D]"), ("x", "i4")]), bytes(36)),
        (np.zeros(2, [("O", "i4")]), bytes(8)),  # a field of that name, and no object
        (pa.py_buffer(b"arrow"), b"arrow"),
        (xd.asarray(base), base.tobytes()),
        (in_pool, b"p" * 100_000),
    ]

    async def main():
        async with pair(scheme) as (one, other):
            await one.send([buffer for buffer, _ in buffers])
            message = await other.recv()
            assert content(message) == [expected for _, expected in buffers]
            await other.send(message.frames)  # frames are buffers, too
            assert content(await one.recv()) == [expected for _, expected in buffers]
            await other.send(iter(message.frames[:2]))  # any iterable
            assert content(await one.recv()) == [b"bytes", b"bytearray"]
            del message

    run(main())


def test_what_cant_be_a_frame(scheme):
    class Failing:
        def __init__(self) -> None:
            self.dtype = np.dtype("O")

    grid = np.zeros((10, 10))
    refused: list[tuple[Any, type[Exception], str]] = [
        (grid[::2], xd.InvalidArgumentError, "frame 1 isn't contiguous memory; send a copy"),
        (grid[:, ::2], xd.InvalidArgumentError, "contiguous"),
        (memoryview(b"0123456789")[::2], xd.InvalidArgumentError, "contiguous"),
        (np.array(["2020-01-01"] * 4, "M8[s]")[::2], xd.InvalidArgumentError, "contiguous"),
        (np.array([object()]), xd.InvalidArgumentError, "frame 1 has Python objects"),
        (np.zeros(2, [("x", "i4"), ("y", "O")]), xd.InvalidArgumentError, "Python objects"),
        ("text", TypeError, "frame 1 must have the buffer protocol, as bytes and arrays have, not str"),
        (None, TypeError, "buffer protocol"),
        (Failing(), TypeError, "buffer protocol"),
        ([b"nested"], TypeError, "not list"),
    ]

    async def main():
        async with pair(scheme) as (one, other):
            first = bytearray(100)
            for frame, kind, text in refused:
                with pytest.raises(kind, match=text):
                    await one.send([first, frame, b"x"])
                first.append(0)  # nothing keeps it
            for frames in (b"bytes", bytearray(3), np.zeros(3), memoryview(b"x")):
                with pytest.raises(TypeError, match=r"frames must be a list of buffers, as in \[buffer\]"):
                    await one.send(frames)
            with pytest.raises(TypeError):
                await one.send(5)  # type: ignore[arg-type]
            for meta in ("text", 5, None):
                with pytest.raises(TypeError, match="meta must be bytes"):
                    await one.send([], meta=meta)  # type: ignore[arg-type]
            # An object whose elements mix both can't say its format; its dtype says that it has objects.
            mixed = np.zeros(2, [("when", "M8[s]"), ("what", "O")])
            with pytest.raises(ValueError, match="buffer") as caught:
                await one.send([mixed])
            assert "frame 0" in caught.value.__notes__
            assert one.stats()["sent"] == 0
            await one.send([b"right"])
            assert content(await other.recv()) == [b"right"]

    run(main())


def test_ten_thousand_frames_in_one_message(scheme):
    async def main():
        async with pair(scheme) as (one, other):
            frames = [i.to_bytes(4, "little") * (i % 50) for i in range(10_000)]
            frames[5000] = bytes(MIB)
            await one.send(frames)
            message = await soon(other.recv())
            assert content(message) == frames
            await other.send(message.frames, meta=message.meta)
            assert content(await soon(one.recv())) == frames
            del message

    run(main())


def test_ten_thousand_frames_by_address():
    pool = xd.Pool()

    async def main():
        async with pair(pool=pool, share_from=1) as (one, other):
            block = pool.empty(10_000 * 100, "u1")
            block[:] = np.arange(block.size) % 251
            await one.send(np.split(block, 10_000))
            message = await soon(other.recv())
            assert b"".join(content(message)) == block.tobytes()
            assert one.stats()["frames_by_address"] == 10_000
            assert one.stats()["bytes_copied"] == 0
            del message

    run(main())


@pytest.mark.long
def test_frames_over_2_gib():
    # From a pool by address, and by value over tcp.
    size = (2 << 30) + 5 * MIB
    pool = xd.Pool(idle=0)
    frame = pool.empty(size, "u1")
    marks = [0, (1 << 31) - 1, 1 << 31, size - 1]
    frame[marks] = [1, 2, 3, 4]

    async def main(scheme):
        async with pair(scheme, pool=pool) as (one, other):
            _, message = await asyncio.gather(one.send([b"before", frame, b"after"]), other.recv())
            assert len(message.frames[1]) == size
            assert list(np.frombuffer(message.frames[1], "u1")[marks]) == [1, 2, 3, 4]
            assert bytes(message.frames[2]) == b"after"
            assert one.stats()["bytes_by_address"] == (size if scheme == "shm" else 0)
            assert one.stats()["bytes_copied"] == 0
            del message

    run(main("shm"))
    run(main("tcp"))


def test_messages_of_many_tasks_stay_whole_and_in_order(scheme):
    async def main():
        async with pair(scheme, window=8) as (one, other):

            async def send(task: int) -> None:
                for i in range(50):
                    await one.send([bytes([task]) * (i * 3000), bytes([task])], meta=f"{task} {i}".encode())

            async def receive() -> None:
                seen = [0] * 8
                for _ in range(8 * 50):
                    message = await other.recv()
                    task, i = map(int, message.meta.split())
                    assert i == seen[task]
                    seen[task] += 1
                    assert content(message) == [bytes([task]) * (i * 3000), bytes([task])]

            await asyncio.gather(receive(), *(send(task) for task in range(8)))

    run(main())


def test_a_sender_waits_for_its_receiver(scheme):
    async def main():
        async with pair(scheme, window=4) as (one, other):
            sent = 0

            async def send() -> None:
                nonlocal sent
                for i in range(20_000):
                    await one.send([i.to_bytes(8, "little")])
                    sent += 1

            task = asyncio.ensure_future(send())
            before = -1
            while sent != before:  # until it stands still
                before = sent
                await turns(2000)
            assert not task.done()
            for i in range(20_000):
                assert content(await soon(other.recv())) == [i.to_bytes(8, "little")]
            await soon(task)

    run(main())


def test_calls_that_never_wait_let_other_tasks_run(scheme):
    async def main():
        async with pair(scheme) as (one, other):
            ran = 0

            async def beside() -> None:
                nonlocal ran
                while True:
                    ran += 1
                    await asyncio.sleep(0)

            task = asyncio.ensure_future(beside())
            for _ in range(640):
                await one.send([b"x"])
                await other.recv()
            assert ran >= 10
            task.cancel()

    run(main())


# ---- memory ------------------------------------------------------------------------------------------------


def test_frames_in_a_pool_arrive_by_address_and_both_ends_may_write():
    pool = xd.Pool()

    async def main():
        async with pair(pool=pool) as (one, other):
            frame = pool.empty(MIB, "u1")
            frame[:] = 1
            await one.send([frame, b"small"])
            frame[:10] = 2  # it may be changed at once
            message = await other.recv(writable="copy-on-write")
            assert [part.mapped for part in message.frames] == [True, False]
            stats = one.stats()
            assert (stats["frames_by_address"], stats["bytes_by_address"]) == (1, MIB)
            assert (stats["bytes_by_value"], stats["bytes_copied"]) == (5, 0)
            received = np.frombuffer(message.frames[0], "u1")
            assert received.flags.writeable
            assert (received == 1).all(), "what was sent, and nothing of later"
            received[10:20] = 3
            assert set(frame[10:20]) == {1}, "nobody sees the writes"
            small = memoryview(message.frames[1])
            small[:2] = b"SM"
            assert bytes(small) == b"SMall"
            assert one.stats()["regions_with_peer"] == other.stats()["regions_of_peer"] == 1
            assert pool.stats()["lent_bytes"] >= MIB
            del message, received, small, frame
            until(lambda: pool.stats()["idle_bytes"] == pool.stats()["bytes"], "the memory comes back")

    run(main())


def test_other_memory_is_copied_once_into_memory_that_is_used_again():
    pool = xd.Pool()

    async def main():
        async with pair(pool=pool) as (one, other):
            frame = numbered(MIB)
            for i in range(1, 11):
                await one.send([frame])
                message = await other.recv()
                assert content(message) == [frame.tobytes()]
                assert message.frames[0].mapped
                assert one.stats()["bytes_copied"] == i * MIB
                assert one.stats()["frames_by_address"] == i
                del message
                until(lambda: pool.stats()["idle_bytes"] == pool.stats()["bytes"], "the memory comes back")
            assert pool.stats()["made"] == 1

    run(main())


def test_the_pool_of_the_process_is_used_if_none_is_named():
    async def main():
        before = xd.pool.default().stats()["made"] + xd.pool.default().stats()["reused"]
        async with pair() as (one, other):
            await one.send([bytes(MIB)])
            await other.recv()
        assert xd.pool.default().stats()["made"] + xd.pool.default().stats()["reused"] == before + 1

    run(main())


def test_small_frames_go_by_value():
    async def main():
        async with pair(share_from=1000) as (one, other):
            await one.send([bytes(999), bytes(1000)])
            assert [frame.mapped for frame in (await other.recv()).frames] == [False, True]
            assert one.stats()["bytes_by_value"] == 999

    run(main())


def test_frames_are_kept_by_what_was_made_of_them(scheme):
    async def main():
        async with pair(scheme) as (one, other):
            frame = numbered(MIB)
            await one.send([frame])
            message = await other.recv()
            array = np.frombuffer(message.frames[0], "u1")[5:]
            column = pa.py_buffer(message.frames[0])
            del message
            await one.send([numbered(MIB, 2)])
            assert (array == frame[5:]).all()
            await one.close()
            await other.close()
        assert (array == frame[5:]).all()
        assert column.to_pybytes() == frame.tobytes()

    run(main())


def test_a_frame_is_dropped_when_send_returns(scheme):
    async def main():
        async with pair(scheme) as (one, other):
            for size in SIZES:
                frame = bytearray(size)
                await one.send([frame])
                frame.append(1)  # refused while anybody has its buffer
                array = np.zeros(size, "u1").view(type("Subclass", (np.ndarray,), {}))
                gone = weakref.ref(array)
                await one.send([array])
                del array
                assert gone() is None
                for _ in range(2):
                    assert content(await other.recv()) == [bytes(size)]

    run(main())


def test_frames_may_be_changed_when_send_returns(scheme):
    """Also while others are on their way."""

    async def main():
        async with pair(scheme) as (one, other):

            async def send(number: int) -> None:
                for size in (8 * MIB, 100_000, 100, 3 * MIB):
                    frame = bytearray([number]) * size
                    await one.send([frame])
                    frame[-1] = ord("x")  # at once, and where the sending ends

            sending = asyncio.gather(*(send(number) for number in range(10)))
            for _ in range(40):
                (frame,) = (await soon(other.recv())).frames
                assert memoryview(frame)[0] == memoryview(frame)[-1]
                del frame
            await sending

    run(main())


def test_frames_of_a_cancelled_send_are_kept_and_then_dropped():
    async def main():
        async with pair() as (one, other):
            frame = numbered(64 * MIB)
            expected = frame.tobytes()
            gone = weakref.ref(frame)
            task = asyncio.ensure_future(one.send([frame]))
            await asyncio.sleep(0)
            del frame
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            del task
            message = await soon(other.recv())
            assert content(message) == [expected], "it was sent nevertheless"
            del message
            while gone() is not None:  # the loop is told to run what drops it
                await asyncio.sleep(0)

    run(main())


def test_frames_that_were_copied_are_dropped_while_send_waits():
    """The event loop, which sleeps, is woken to drop them."""

    async def main():
        async with pair(window=1) as (one, _):
            all_gone, left = asyncio.Event(), 40

            def drop() -> None:
                nonlocal left
                left -= 1
                if left == 0:
                    all_gone.set()

            sending = []
            for _ in range(40):
                frame = np.ones(MIB, "u1")
                weakref.finalize(frame, drop)
                sending.append(asyncio.ensure_future(one.send([frame])))
                await asyncio.sleep(0)  # its turn
            del frame
            start = time.monotonic()
            await soon(all_gone.wait())
            assert time.monotonic() - start < 10, "the time limit woke the loop"
            assert not all(task.done() for task in sending)
            for task in sending:
                task.cancel()
            await asyncio.gather(*sending, return_exceptions=True)
            one.abort()

    run(main())


def test_nothing_large_is_copied_by_the_event_loop():
    async def main():
        async with pair() as (one, other):
            frame = np.zeros(256 * MIB, "u1")
            frame[:] = 1
            start = time.thread_time()
            await one.send([frame])
            message = await other.recv(writable="copy-on-write")
            used = time.thread_time() - start
            assert len(message.frames[0]) == 256 * MIB
            assert used < 0.02  # seconds; a copy needs several times as many
            del message

    run(main())


def test_frames_of_the_same_memory_are_written_to_apart(scheme):
    pool = xd.Pool()

    async def main():
        async with pair(scheme, pool=pool) as (one, other):
            frame = pool.empty(300_000, "u1")
            frame[:] = 0
            await one.send([frame, frame, frame[:200_000], frame[200_000:]])
            message = await other.recv(writable="copy-on-write")
            for number, part in enumerate(message.frames, 1):
                np.frombuffer(part, "u1")[:] = number
            assert [set(bytes(part)) for part in message.frames] == [{1}, {2}, {3}, {4}]
            assert one.stats()["bytes_copied"] == 0
            del message, part

    run(main())


def test_received_frames_are_passed_on_without_a_copy(partner):
    async def main():
        async with await peers.listen("shm:") as listener:
            first = partner(
                listener.uri,
                """
                frame = xd.pool.default().empty(1 << 20, "u1")
                frame[:] = 7
                await peer.send([frame])
                await line()
                """,
            )
            source = await listener.accept()
            second = partner(
                listener.uri,
                """
                for _ in range(2):
                    message = await peer.recv()
                    array = np.frombuffer(message.frames[0], "u1")
                    say(message.frames[0].mapped, array[0], array[1])
                    del message, array
                await peer.send([])
                """,
            )
            target = await listener.accept()
            message = await source.recv(writable="copy-on-write")
            await target.send(message.frames)
            assert await asyncio.to_thread(second.read_line) == "True 7 7"
            stats = target.stats()
            assert (stats["frames_by_address"], stats["bytes_copied"]) == (1, 0)
            memoryview(message.frames[0])[0] = 8  # type: ignore[arg-type]
            await target.send(message.frames)
            assert target.stats()["bytes_copied"] == MIB, "what was written to is copied"
            assert await asyncio.to_thread(second.read_line) == "True 8 7"
            await target.recv()
            first.write_line()
            del message
            await asyncio.to_thread(first.finish)
            await asyncio.to_thread(second.finish)
            await source.close()
            await target.close()

    run(main())


# ---- two processes, one of which ends ----------------------------------------------------------------------


def test_two_processes_exchange_arrays(scheme, partner):
    async def main():
        async with await peers.listen(URIS[scheme]) as listener:
            program = partner(
                listener.uri,
                """
                while (message := await peer.recv(writable="copy-on-write")).meta != b"end":
                    arrays = [np.frombuffer(frame, "f8") for frame in message.frames]
                    for array in arrays:
                        array *= 2
                    await peer.send(arrays, meta=message.meta)
                say(peer.same_machine, peer.pid == os.getppid())
                """,
            )
            peer = await soon(listener.accept())
            assert peer.pid == (program.process.pid if scheme == "shm" else None)
            for i in range(20):
                arrays = [np.arange(size, dtype="f8") for size in (0, 1, 1000, 100_000)]
                await peer.send(arrays, meta=str(i).encode())
                message = await soon(peer.recv())
                assert message.meta == str(i).encode()
                for sent, frame in zip(arrays, message.frames, strict=True):
                    assert (np.frombuffer(frame, "f8") == 2 * sent).all()
                del message, frame
            await peer.send([], meta=b"end")
            await peer.close()
            assert await asyncio.to_thread(program.read_line) == ("True True" if scheme == "shm" else "False False")
            await asyncio.to_thread(program.finish)

    run(main())


@pytest.mark.long
def test_ten_thousand_messages_kept_and_dropped_at_random_leave_nothing(partner):
    """Of 1 MiB each, half of them copied into the pool, in two processes: memory, mappings and descriptors."""
    code = """
    from random import Random
    from tests.python.test_peers import holds

    random, kept, received = Random(1), [], 0
    while (message := await peer.recv(writable="copy-on-write")).meta != b"end":
        if message.meta == b"count":
            kept.clear()
            say(*holds())
            await peer.send([], meta=b"counted")
            continue
        array = np.frombuffer(message.frames[0], "u8")
        assert array[0] == array[-1] == int(message.meta), "what was sent"
        array[0] = 0  # a page of its own
        kept.append((int(message.meta), array))
        del message, array
        if len(kept) > random.randrange(100):
            number, array = kept.pop(random.randrange(len(kept)))
            assert (array[1:] == number).all(), "nobody has used its memory"
            del array
    """
    pool = xd.Pool()

    async def main():
        async with await peers.listen("shm:", pool=pool) as listener:
            program = partner(listener.uri, code)
            peer = await soon(listener.accept())
            number = 0

            async def send(count: int) -> None:
                nonlocal number
                for _ in range(count):
                    number += 1
                    frame = pool.empty(MIB // 8, "u8") if number % 2 else np.empty(MIB // 8, "u8")
                    frame[:] = number
                    await peer.send([frame], meta=str(number).encode())
                    frame[:] = 0
                    del frame

            async def both_hold() -> dict[str, int]:
                """Once nothing is kept. Blocks that are freed are given up one after the other, by other threads."""
                await peer.send([], meta=b"count")
                assert (await soon(peer.recv())).meta == b"counted"
                theirs = (await asyncio.to_thread(program.read_line)).split()
                until(lambda: pool.stats()["idle_bytes"] == pool.stats()["bytes"], "the memory comes back", seconds=5)
                pool.trim()
                what = [f"{whose} {what}" for whose in ("our", "their") for what in ("descriptors", "mappings", "MiB")]
                return dict(zip(what, [*holds(), *map(int, theirs)], strict=True))

            await send(1_000)
            before = await both_hold()
            await send(9_000)
            end = time.monotonic() + 10
            while (after := await both_hold()) and any(after[what] > before[what] + 16 for what in before):
                assert time.monotonic() < end, f"{before}, and then {after}"
            await peer.send([], meta=b"end")
            await peer.close()
            await asyncio.to_thread(program.finish)

    run(main())


def holds() -> list[int]:
    """This process's descriptors, mappings, and MiB of shared memory."""
    status = Path("/proc/self/status").read_text()
    return [
        len(os.listdir("/proc/self/fd")),
        Path("/proc/self/maps").read_text().count("\n"),
        int(status.split("RssShmem:")[1].split()[0]) >> 10,
    ]


def test_the_end_of_a_process_ends_its_connections(scheme, partner):
    async def main():
        async with await peers.listen(URIS[scheme]) as listener:
            program = partner(listener.uri, "await peer.send([b'last'])\nawait peer.recv()\nos._exit(3)")
            peer = await soon(listener.accept())
            assert content(await soon(peer.recv())) == [b"last"]
            await peer.send([])
            for _ in range(2):
                with pytest.raises(ConnectionError):
                    await soon(peer.recv())
            with pytest.raises(xd.ConnectionError):
                await peer.send([b"x"])
            await soon(peer.close())
            await asyncio.to_thread(program.finish, expect=3)

    run(main())


def test_a_maker_that_is_killed_leaves_its_frames(partner):
    async def main():
        async with await peers.listen("shm:") as listener:
            program = partner(
                listener.uri,
                """
                frame = np.full(1 << 20, 5, "u1")
                await peer.send([frame, frame[:100]])
                await peer.recv()
                """,
            )
            peer = await soon(listener.accept())
            message = await soon(peer.recv())
            waiting = asyncio.ensure_future(peer.recv())
            await turns()
            start = time.monotonic()
            program.process.kill()
            with pytest.raises(xd.ConnectionError):
                await soon(waiting)
            assert time.monotonic() - start < 1
            assert [set(np.frombuffer(frame, "u1")) for frame in message.frames] == [{5}, {5}]
            program.stop()
            assert set(np.frombuffer(message.frames[0], "u1")) == {5}

    run(main())


def test_a_receiver_that_is_killed_frees_what_it_had(partner):
    pool = xd.Pool()

    async def main():
        async with await peers.listen("shm:", pool=pool) as listener:
            program = partner(
                listener.uri,
                """
                kept = await peer.recv()
                await peer.send([])
                await peer.recv()
                """,
            )
            peer = await soon(listener.accept())
            frame = pool.empty(MIB, "u1")
            await peer.send([frame, bytes(MIB)])
            await soon(peer.recv())
            del frame
            assert pool.stats()["lent_bytes"] >= 2 * MIB
            await asyncio.to_thread(program.stop)
            until(lambda: pool.stats()["idle_bytes"] == pool.stats()["bytes"], "the memory comes back")
            with pytest.raises(xd.ConnectionError):
                await soon(peer.recv())

    run(main())


def test_a_process_may_end_with_open_connections(scheme, script):
    """Whatever is under way: no error is printed, and the other end is told."""
    program = script(
        HEAD
        + """
async def main():
    listener = await peers.listen(sys.argv[1])
    one, other = await asyncio.gather(peers.connect(listener.uri), listener.accept())
    await one.send([bytes(1 << 20), b"x"])
    kept = await other.recv()
    sending = asyncio.ensure_future(one.send([bytes(64 << 20)]))
    receiving = asyncio.ensure_future(one.recv())
    await asyncio.sleep(0)
    globals().update(locals())

asyncio.run(main())
say("right")
""",
        URIS[scheme],
    )
    assert program.read_line() == "right"
    assert program.finish() == ""


def test_a_process_may_end_while_a_thread_runs_an_event_loop(script):
    program = script(
        HEAD
        + """
import threading
running = threading.Event()

async def main():
    async with await peers.listen() as listener:
        one, other = await asyncio.gather(peers.connect(listener.uri), listener.accept())
        while True:
            await one.send([bytes(1 << 20), b"x"])
            await other.recv()
            running.set()

threading.Thread(target=lambda: asyncio.run(main()), daemon=True).start()
running.wait()
say("right")
"""
    )
    assert program.read_line() == "right"
    assert program.finish() == ""


def test_a_message_that_finds_no_memory_stays(script):
    """recv() for writing needs mappings; without them the message is there for the next call."""
    program = script(
        HEAD
        + """
import resource

async def main():
    async with await peers.listen() as listener:
        one, other = await asyncio.gather(peers.connect(listener.uri), listener.accept())
    async with one, other:
        frame = xd.pool.default().empty(256 << 20, "u1")
        frame[:] = 7
        await one.send([frame], meta=b"large")
        await one.send([], meta=b"next")
        await arrived(other, 2)
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), hard))
        for _ in range(2):
            try:
                await other.recv(writable="copy-on-write")
            except xd.ResourceError:
                say("ResourceError")
        message = await other.recv()
        say(message.meta, memoryview(message.frames[0]).readonly, np.frombuffer(message.frames[0], "u1")[-1])
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        say((await other.recv(writable="copy-on-write")).meta)

async def arrived(peer, count):
    while peer.stats()["received"] < count:
        await asyncio.sleep(0)

asyncio.run(main())
"""
    )
    assert [program.read_line() for _ in range(4)] == [
        "ResourceError",
        "ResourceError",
        "b'large' True 7",
        "b'next'",
    ]
    program.finish()


def test_without_descriptors_frames_go_by_value(script):
    program = script(
        HEAD
        + """
import resource

async def main():
    async with await peers.listen() as listener:
        one, other = await asyncio.gather(peers.connect(listener.uri), listener.accept())
    async with one, other:
        await one.send([bytes(100_000)])
        say((await other.recv()).frames[0].mapped)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        frame = np.full(3 << 20, 7, "u1")
        await one.send([frame])
        message = await other.recv(writable="copy-on-write")
        say(message.frames[0].mapped, (np.frombuffer(message.frames[0], "u1") == 7).all())
        try:
            await peers.connect(listener.uri)
        except xd.ResourceError:
            say("ResourceError")
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await one.send([frame])
        say((await other.recv()).frames[0].mapped)

asyncio.run(main())
"""
    )
    assert [program.read_line() for _ in range(4)] == ["True", "False True", "ResourceError", "True"]
    program.finish()


# ---- the other end is something else -----------------------------------------------------------------------


@pytest.mark.parametrize("token", [None, "another secret"])
def test_a_wrong_token(token):
    async def main():
        async with await peers.listen(["tcp://127.0.0.1:0"], token="a secret") as listener:
            with pytest.raises(xd.PermissionError, match="token"):
                await peers.connect(listener.uri, token=token)
            one, other = await asyncio.gather(peers.connect(listener.uri, token="a secret"), listener.accept())
            await one.close()
            await other.close()

    run(main())


def test_a_server_of_tables_is_no_peer(scheme):
    async def main():
        with xd.serve({"t": pa.table({"x": [1]})}, URIS[scheme]) as server:
            with pytest.raises(xd.HandshakeError) as caught:
                await peers.connect(server.uri, timeout=10)
            assert server.uri.partition(":")[2] in str(caught.value)
            assert "this server serves tables" in str(caught.value)
            with xd.connect(server.uri) as client:
                assert pa.table(client.get("t"))["x"].to_pylist() == [1]

    run(main())


def test_a_listener_for_peers_serves_no_tables(scheme):
    async def main():
        async with await peers.listen(URIS[scheme]) as listener:
            with pytest.raises(xd.HandshakeError) as caught:
                await asyncio.to_thread(xd.connect, listener.uri, timeout=10)
            assert "peers" in str(caught.value)
            one, other = await asyncio.gather(peers.connect(listener.uri), listener.accept())
            await one.close()
            await other.close()

    run(main())


def test_nobody_listens():
    async def main():
        with pytest.raises(xd.Error):
            await peers.connect("shm:nobody")
        for _ in range(50):
            listener = await peers.listen("tcp://127.0.0.1:0")
            listener.close()
            with pytest.raises((xd.ConnectionError, xd.HandshakeError)):
                await peers.connect(listener.uri)
        with pytest.raises(xd.UriError):
            await peers.connect("tcp://127.0.0.1")
        for scheme in ("ucx", "fabric"):
            with pytest.raises(xd.UnsupportedError, match=scheme):
                await peers.connect(f"{scheme}://127.0.0.1:7700")
            with pytest.raises(xd.UnsupportedError, match=scheme):
                await peers.listen(["shm:", f"{scheme}://127.0.0.1:0"])
        with pytest.raises(xd.SchemeError):
            await peers.connect("carrier-pigeon:")
        async with await peers.listen("shm:taken"):
            with pytest.raises(xd.ConnectionError):
                await peers.listen("shm:taken")

    run(main())


def test_a_listener_takes_no_more_connections_than_it_says():
    async def main():
        async with await peers.listen("shm:", max_connections=1) as listener, await peers.connect(listener.uri):
            with pytest.raises(xd.ConnectionError, match="limit of connections"):
                await peers.connect(listener.uri)

    run(main())


def test_a_peer_is_lent_no_more_than_the_limit():
    async def main():
        async with (
            await peers.listen("shm:", lease_limit=1 << 20) as listener,
            await peers.connect(listener.uri) as near,
            await listener.accept() as far,
        ):
            received = []
            for _ in range(3):
                await far.send([bytes(1 << 20)])
                received.append(await near.recv())
            assert [message.frames[0].mapped for message in received] == [True, False, False]

    run(main())


def test_closing_ends_though_the_peer_takes_nothing():
    async def main():
        async with await peers.listen("shm:", window=1) as listener:
            near = await peers.connect(listener.uri, timeout=1)
            async with await listener.accept():
                for _ in range(3):
                    await near.send([], meta=b"x")
                with pytest.raises(xd.TimeoutError, match="took nothing"):
                    await near.close()

    run(main())


def test_options_are_checked():
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"share_from": 0}, xd.InvalidArgumentError, "share_from"),
        ({"max_message": 0}, xd.InvalidArgumentError, "max_message"),
        ({"max_frames": 1 << 32}, xd.InvalidArgumentError, "max_frames"),
        ({"window": 0}, xd.InvalidArgumentError, "window"),
        ({"window_bytes": -1}, xd.InvalidArgumentError, "window_bytes"),
        ({"max_regions": 0}, xd.InvalidArgumentError, "max_regions"),
        ({"lease_limit": 0}, xd.InvalidArgumentError, "lease_limit"),
        ({"lease_limit": 1.5}, TypeError, "whole number"),
        ({"timeout": -1}, xd.InvalidArgumentError, "timeout"),
        ({"timeout": "soon"}, TypeError, "timeout"),
        ({"window": "many"}, TypeError, "whole number"),
        ({"token": ""}, xd.InvalidArgumentError, "token"),
        ({"token": b"x"}, TypeError, "token"),
        ({"users": "all"}, xd.InvalidArgumentError, "users"),
        ({"users": ["root"]}, TypeError, "user id"),
        ({"checksum": 1}, TypeError, "checksum"),
        ({"pool": "large"}, TypeError, "pool"),
    ]

    async def main():
        for options, kind, text in wrong:
            with pytest.raises(kind, match=text):
                await peers.connect("tcp://127.0.0.1:1", **options)
            with pytest.raises(kind, match=text):
                await peers.listen("tcp:", **options)
        for wrong_number in (0, -1, 1 << 32):
            with pytest.raises(xd.InvalidArgumentError, match="max_connections"):
                await peers.listen("tcp:", max_connections=wrong_number)
        with pytest.raises(xd.InvalidArgumentError, match="token is for tcp"):
            await peers.listen("shm:", token="secret")
        with pytest.raises(xd.InvalidArgumentError, match="checksum=True"):
            await peers.listen("shm:", checksum=True)
        with pytest.raises(xd.InvalidArgumentError, match="at least one URI"):
            await peers.listen([])
        for uri in (5, [5], b"shm:"):
            with pytest.raises(TypeError):
                await peers.listen(uri)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            await peers.connect(["shm:"])  # type: ignore[arg-type]
        async with pair() as (one, _):
            with pytest.raises(xd.InvalidArgumentError, match="writable"):
                await one.recv(writable=True)  # type: ignore[arg-type]

    run(main())


def test_several_uris_and_checksums():
    async def main():
        async with await peers.listen(["shm:", "tcp://*:0"], token="secret", users="any", checksum=True) as listener:
            assert listener.uri == listener.uris[0]
            assert [uri.partition(":")[0] for uri in listener.uris] == ["shm", "tcp"]
            assert repr(listener).startswith("<crossdock.peers.Listener shm:")
            port = listener.uris[1].rpartition(":")[2]
            for uri in (listener.uri, f"tcp://127.0.0.1:{port}"):
                one, other = await asyncio.gather(peers.connect(uri, token="secret", users="any"), listener.accept())
                await one.send([numbered(MIB)])
                assert content(await other.recv()) == [numbered(MIB).tobytes()]
                await one.close()
                await other.close()

    run(main())


@pytest.mark.parametrize("options", [{"max_message": 1000}, {"max_frames": 10}])
def test_messages_that_are_too_large_are_refused_by_their_sender(scheme, options):
    async def main():
        async with pair(scheme, share_from=1 << 40, **options) as (one, other):
            with pytest.raises(xd.InvalidArgumentError, match="over the limit"):
                await one.send([bytes(100)] * 11)
            await one.send([bytes(100)] * 5)
            assert len((await other.recv()).frames) == 5

    run(main())


# ---- tasks and loops ---------------------------------------------------------------------------------------


def test_a_cancelled_recv_loses_nothing(scheme):
    async def main():
        async with pair(scheme) as (one, other):
            for i in range(200):
                waiting = asyncio.ensure_future(other.recv())
                await turns(i % 5)
                sending = asyncio.ensure_future(one.send([bytes([i])]))
                await turns(i % 3)
                waiting.cancel()
                try:
                    message = await waiting
                except asyncio.CancelledError:
                    message = await soon(other.recv())
                assert content(message) == [bytes([i])]
                await sending
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await other.recv()
            await one.send([b"after"])
            assert content(await other.recv()) == [b"after"]

    run(main())


def test_a_second_task_is_told_that_the_peer_is_busy():
    async def main():
        async with await peers.listen() as listener:
            accepting = asyncio.ensure_future(listener.accept())
            await turns()
            with pytest.raises(xd.StreamBusyError, match="another task"):
                await listener.accept()
            one, other = await asyncio.gather(peers.connect(listener.uri), accepting)
            waiting = asyncio.ensure_future(other.recv())
            await turns()
            with pytest.raises(xd.StreamBusyError, match="another task"):
                await other.recv()
            await one.send([b"x"])
            assert content(await soon(waiting)) == [b"x"]
            await one.close()
            await other.close()

    run(main())


def test_a_cancelled_accept_loses_no_peer(scheme):
    async def main():
        async with await peers.listen(URIS[scheme]) as listener:
            for i in range(20):
                waiting = asyncio.ensure_future(listener.accept())
                await turns(i % 4)
                connecting = asyncio.ensure_future(peers.connect(listener.uri))
                await turns(i % 3)
                waiting.cancel()
                try:
                    other = await waiting
                except asyncio.CancelledError:
                    other = await soon(listener.accept())
                one = await soon(connecting)
                await one.send([b"x"])
                assert content(await soon(other.recv())) == [b"x"]
                await one.close()
                await other.close()

    run(main())


def test_a_cancelled_connect_leaves_nothing():
    async def main():
        import socket

        with socket.create_server(("127.0.0.1", 0)) as silent:
            uri = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
            task = asyncio.ensure_future(peers.connect(uri, timeout=None))
            client, _ = await asyncio.to_thread(silent.accept)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await soon(asyncio.get_running_loop().shutdown_default_executor())
            client.close()

    run(main())


def test_connecting_has_a_time_limit():
    async def main():
        import socket

        with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(xd.TimeoutError):
            await peers.connect(f"tcp://127.0.0.1:{silent.getsockname()[1]}", timeout=0.05)

    run(main())


def test_closing_ends_the_waits_of_other_tasks(scheme):
    async def main():
        async with pair(scheme) as (one, other):
            waiting = asyncio.ensure_future(one.recv())
            await turns()
            await one.close()
            with pytest.raises(xd.ClosedError):
                await soon(waiting)
            with pytest.raises(xd.ClosedError):
                await one.send([])
            with pytest.raises(xd.ClosedError):
                await one.recv()
            await soon(one.close())
            with pytest.raises(xd.ConnectionError):
                await soon(other.recv())
            waiting = asyncio.ensure_future(other.recv())
            other.abort()
            with pytest.raises((xd.ClosedError, xd.ConnectionError)):
                await soon(waiting)
            assert other.closed
            other.abort()
            await soon(other.close())

    run(main())


def test_closing_a_listener_ends_the_wait(scheme):
    async def main():
        listener = await peers.listen(URIS[scheme])
        one, other = await asyncio.gather(peers.connect(listener.uri), listener.accept())
        waiting = asyncio.ensure_future(listener.accept())
        await turns()
        listener.close()
        with pytest.raises(xd.ClosedError):
            await soon(waiting)
        with pytest.raises(xd.ClosedError):
            await listener.accept()
        listener.close()
        assert listener.closed
        await one.send([b"peers stay connected"])
        assert content(await other.recv()) == [b"peers stay connected"]
        await one.close()
        await other.close()

    run(main())


def test_what_was_sent_before_close_arrives(scheme):
    async def main():
        async with pair(scheme) as (one, other):
            for i in range(30):
                await one.send([numbered(i * 10_000, i)])
            closing = asyncio.ensure_future(one.close())
            for i in range(30):
                assert content(await soon(other.recv())) == [numbered(i * 10_000, i).tobytes()]
            await soon(closing)
            with pytest.raises(xd.ConnectionError):
                await soon(other.recv())

    run(main())


def test_abort_drops_what_waits(scheme):
    async def main():
        async with pair(scheme, window=2, window_bytes=1) as (one, other):
            tasks = [asyncio.ensure_future(one.send([bytes(100_000)])) for _ in range(200)]
            await turns()
            one.abort()
            errors = [error for error in await soon(asyncio.gather(*tasks, return_exceptions=True)) if error]
            assert errors
            assert all(isinstance(error, xd.ClosedError) for error in errors)
            with contextlib.suppress(xd.ConnectionError):
                while True:
                    assert content(await soon(other.recv())) == [bytes(100_000)]

    run(main())


def test_a_peer_that_is_dropped_is_aborted(scheme):
    async def main():
        async with await peers.listen(URIS[scheme]) as listener:
            one, other = await asyncio.gather(peers.connect(listener.uri), listener.accept())
            del one
            with pytest.raises(xd.ConnectionError):
                await soon(other.recv())

    run(main())


def test_a_peer_outlives_an_event_loop(scheme):
    async def begin():
        async with await peers.listen(URIS[scheme]) as listener:
            one, other = await asyncio.gather(peers.connect(listener.uri), listener.accept())
        # The loop ends while these wait.
        waits = [asyncio.ensure_future(other.recv()), asyncio.ensure_future(one.send([numbered(32 * MIB)]))]
        await asyncio.sleep(0)
        return one, other, waits

    async def go_on(one, other):
        frame = bytearray(MIB)
        await one.send([frame], meta=b"second")
        frame.append(1)
        messages = [await soon(other.recv()) for _ in range(2)]
        assert content(messages[0]) == [numbered(32 * MIB).tobytes()]
        assert content(messages[1]) == [bytes(MIB)]
        await one.close()
        await other.close()

    one, other, waits = run(begin())
    assert all(wait.cancelled() for wait in waits)
    run(go_on(one, other))


def test_event_loops_leave_no_descriptors(scheme):
    async def main():
        async with pair(scheme) as (one, other):
            for _ in range(10):
                sending = asyncio.ensure_future(one.send([bytes(200_000)]))
                sending.add_done_callback(lambda task: task.cancelled() or task.exception())  # it may be cut off
            await other.recv()
            sending.cancel()

    def descriptors() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    run(main())
    xd.pool.default().trim()
    before = descriptors()
    for _ in range(30):
        run(main())
        xd.pool.default().trim()
    until(lambda: descriptors() <= before + 2, "descriptors are left", seconds=5)


def test_loops_of_two_threads():
    uris: asyncio.Queue[str] = asyncio.Queue()
    failures = []

    async def echo(loop, done):
        async with await peers.listen() as listener:
            loop.call_soon_threadsafe(uris.put_nowait, listener.uri)
            async with await listener.accept() as peer:
                with contextlib.suppress(xd.ConnectionError):
                    while True:
                        message = await peer.recv()
                        await peer.send(message.frames, message.meta)
                        del message

    def work(loop):
        try:
            asyncio.run(echo(loop, None))
        except BaseException as error:
            failures.append(error)

    async def main():
        thread = threading.Thread(target=work, args=(asyncio.get_running_loop(),))
        thread.start()
        async with await peers.connect(await soon(uris.get())) as peer:
            for i in range(300):
                await peer.send([bytes([i % 256]) * (i * 1000)])
                assert content(await soon(peer.recv())) == [bytes([i % 256]) * (i * 1000)]
        await asyncio.to_thread(thread.join)

    run(main())
    assert not failures


def test_two_hundred_connections_at_once(scheme):
    async def main():
        threads = len(os.listdir("/proc/self/task"))
        async with await peers.listen(URIS[scheme]) as listener:

            async def accept():
                return [await listener.accept() for _ in range(200)]

            connecting = [peers.connect(listener.uri, timeout=60) for _ in range(200)]
            accepted, *connected = await soon(asyncio.gather(accept(), *connecting), seconds=60)
            await asyncio.gather(
                *(peer.send([bytes(100_000)], meta=str(i).encode()) for i, peer in enumerate(connected))
            )
            metas = {(await soon(peer.recv())).meta for peer in accepted}
            assert metas == {str(i).encode() for i in range(200)}
            # The loop's executor, the hub's threads: none for each connection.
            assert len(os.listdir("/proc/self/task")) < threads + 50
            await asyncio.gather(*(peer.close() for peer in [*accepted, *connected]))

    run(main())


# ---- fork and Ctrl-C ---------------------------------------------------------------------------------------


def test_fork(scheme, script):
    """While messages are under way: the parent goes on, and a child makes connections of its own."""
    program = script(
        HEAD
        + """
async def talk(uri):
    async with await peers.listen(uri) as listener:
        one, other = await asyncio.gather(peers.connect(listener.uri), listener.accept())
    async with one, other:
        for i in range(20):
            await one.send([bytes([i]) * (i * 10_000)])
            assert bytes((await other.recv()).frames[0]) == bytes([i]) * (i * 10_000)

def refused(call):
    try:
        asyncio.run(call())
    except xd.ForkError:
        return True
    return False

async def stats(peer):
    return peer.stats()

def child():
    right = [
        refused(lambda: one.send([b"x"])), refused(lambda: other.recv()), refused(lambda: one.close()),
        refused(lambda: listener.accept()), refused(lambda: stats(one)), one.closed,
        received.frames[0].mapped or bytes(received.frames[0]) == bytes(200_000),
    ]
    one.abort()
    listener.close()
    asyncio.run(talk(sys.argv[1]))
    return 0 if all(right) else print(right, file=sys.stderr, flush=True) or 1

async def begin():
    listener = await peers.listen(sys.argv[1])
    one, other = await asyncio.gather(peers.connect(listener.uri), listener.accept())
    sending = [asyncio.ensure_future(one.send([bytes(200_000)], meta=b"%d" % i)) for i in range(20)]
    received = await other.recv()
    return listener, one, other, sending, received

async def end():
    for i in range(1, 20):
        message = await other.recv()
        assert (message.meta, len(message.frames[0])) == (b"%d" % i, 200_000)
    await asyncio.gather(*sending)
    await one.close()
    await other.close()
    listener.close()

with asyncio.Runner() as runner:
    listener, one, other, sending, received = runner.run(begin())
    children = []
    for _ in range(10):
        children.append(os.fork())
        if children[-1] == 0:
            asyncio.events._set_running_loop(None)
            status = 2
            try:
                status = child()
            finally:
                if status == 2:
                    sys.excepthook(*sys.exc_info())
                os._exit(status)
    runner.run(end())
    runner.run(talk(sys.argv[1]))
say([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
""",
        URIS[scheme],
    )
    codes, out = program.read_line(), program.finish(expect=None)
    assert codes == str([0] * 10), out


@pytest.mark.parametrize(
    "call", ["one.recv()", "one.send([bytes(1 << 20)])", "listener.accept()", "peers.connect(silent)"]
)
def test_ctrl_c(script, call):
    """asyncio.run() cancels the main task, and raises KeyboardInterrupt."""
    program = script(
        HEAD
        + f"""
import contextlib, socket
server = socket.create_server(("127.0.0.1", 0))
silent = "tcp://127.0.0.1:%d" % server.getsockname()[1]

async def talk():
    async with await peers.listen() as listener:
        one, other = await asyncio.gather(peers.connect(listener.uri), listener.accept())
        async with one, other:
            await one.send([b"right"])
            return bytes((await other.recv()).frames[0])

async def main():
    async with await peers.listen("tcp://127.0.0.1:0", window=2) as listener:
        one, other = await asyncio.gather(peers.connect(listener.uri, window=2), listener.accept())
        asyncio.get_running_loop().call_later(0.05, say, "waiting")
        while True:
            await {call}

try:
    asyncio.run(main())
except KeyboardInterrupt:
    say("interrupted")
say(asyncio.run(talk()))
"""
    )
    assert program.read_line() == "waiting"
    program.process.send_signal(2)
    assert program.read_line() == "interrupted"
    assert program.read_line() == "b'right'"
    program.finish()


def test_importing_the_package_imports_none_of_it(script):
    program = script("""
        import sys
        import crossdock as xd
        print([name for name in ("asyncio", "crossdock.peers") if name in sys.modules], "peers" in dir(xd))
        print(xd.peers.listen.__name__)
    """)
    assert program.read_line() == "[] True"
    assert program.read_line() == "listen"
    program.finish()
