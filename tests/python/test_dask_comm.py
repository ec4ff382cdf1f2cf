"""Dask's comms over shared memory: what goes which way, faults, and that nothing is lost or mixed up."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

pytest.importorskip("distributed")

HEAD = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from dask_programs import *
from dask_programs import MIB, _links, there_and_back, to_serialize
"""


@pytest.fixture
def run(program, tmp_path):
    """Runs the body of a coroutine in a process of its own, where nothing may be left at its end.

    `functions` is what stands before it. Returns what it wrote on standard error, where the log goes.
    """

    def run(body: str, functions: str = "", *arguments: str) -> str:
        path = tmp_path / "main.py"
        inner = textwrap.indent(textwrap.dedent(body), "    ")
        path.write_text(
            f"{HEAD}\n{textwrap.dedent(functions)}\nasync def main():\n{inner}\n"
            "    await until(lists_are_empty)\n\n"
            "if __name__ == '__main__':\n    asyncio.run(main())\n    print('right', flush=True)\n"
        )
        started = program(sys.executable, "-X", "faulthandler", str(path), *arguments)
        said = started.finish(expect=None, timeout=120)
        assert said.startswith("exit 0\nright\n"), said
        return said.removeprefix("exit 0\nright\n")

    return run


def test_all_kinds_of_frames_arrive_as_over_tcp(run):
    run("""
        import pandas as pd
        rng = np.random.default_rng(1)
        cube = rng.random((30, 40, 50))
        read_only = np.ones(20_000)
        read_only.flags.writeable = False
        records = np.zeros(20_000, [("a", "i4"), ("b", "f8", (3,))])
        objects = np.array([1, "a", None] * 20_000, object)
        data = [
            cube, np.asfortranarray(cube), cube[::2], cube.transpose(1, 2, 0), cube[:, 3], read_only, records, objects,
            np.zeros(0), np.zeros((0, 5)), np.float64(3), np.array(5.0), np.ones(3), np.ones(100_000, ">f4"),
            np.broadcast_to(np.arange(20_000.0), (50, 20_000)), np.arange("1970", "2200", dtype="M8[D]"),
            np.ma.masked_array(np.ones(20_000), np.arange(20_000) % 2), b"a" * 70_000, bytearray(b"b" * 70_000), b"",
            pd.DataFrame({"x": rng.random(20_000), "y": [f"{i}" for i in range(20_000)], "z": [None, {}] * 10_000}),
            "text" * 50_000, list(range(50_000)), {"key": cube}, np.ones(9 * MIB, "u1"), [np.ones(MIB // 8)] * 3,
        ]
        got = {}
        for scheme in ("crossdock", "tcp"):
            async with pair(scheme) as (near, far):
                got[scheme] = await there_and_back(near, far, *data)
                if scheme == "crossdock":
                    assert by_address() > 20, by_address()

        def same(a, b):
            assert type(a) is type(b), (type(a), type(b))
            if isinstance(a, np.ndarray):
                assert a.dtype == b.dtype and a.shape == b.shape and a.strides == b.strides
                assert a.flags.writeable == b.flags.writeable
                np.testing.assert_array_equal(a, b)
            elif isinstance(a, pd.DataFrame):
                pd.testing.assert_frame_equal(a, b)
            elif isinstance(a, (list, dict)):
                assert len(a) == len(b)
                for x, y in zip(a.values(), b.values()) if isinstance(a, dict) else zip(a, b):
                    same(x, y)
            else:
                assert a == b
        for ours, theirs in zip(got["crossdock"], got["tcp"], strict=True):
            same(ours, theirs)
        ours = theirs = None
        got.clear()
        await until(pool_is_idle)
        """)


def test_what_lies_in_a_pool_goes_without_a_copy_also_onward(run):
    run("""
        array = xd.pool.default().empty(MIB)
        array[:] = 1
        async with pair() as (near, far):
            await write(near, array)
            (there,) = await read(far)
            await write(far, there)
            (back,) = await read(near)
            assert (back == 1).all()
            assert sum(link.peer.stats()["bytes_copied"] for link in links()) == 0
            assert xd.pool.default().stats()["blocks"] == 1
            # Neither sees the others' writes, and what was written to goes on as it is then.
            array[0], there[0], back[0] = 2, 3, 4
            await write(far, there)
            (again,) = await read(near)
            assert (array[0], there[0], back[0], again[0]) == (2, 3, 4, 3)
            await write(near, array)
            assert (await read(far))[0][0] == 2
            assert sum(link.peer.stats()["bytes_copied"] for link in links()) == 2 * array.nbytes
            del array, there, back, again
            await until(pool_is_idle)
        """)


def test_what_was_sent_may_be_changed_and_what_was_received_too(run):
    run("""
        rng = np.random.default_rng(1)
        pool = xd.pool.default()
        async with pair() as (near, far):
            for i in range(30):
                size = int(rng.integers(10_000, 400_000))
                array = pool.empty(size) if i % 2 else np.empty(size)
                array[:] = i
                await write(near, array)
                array[:] = -1
                (there,) = await read(far)
                assert (there == i).all()
                there *= 2
                await write(far, there)
                there[:] = -2
                (back,) = await read(near)
                assert (back == 2 * i).all() and (array == -1).all() and (there == -2).all()
                back += 1
        """)


def test_large_messages_of_many_frames_and_frames_over_64_mib_are_not_split(run):
    run("""
        async with pair() as (near, far):
            big = np.ones(20 * MIB)  # 160 MiB; Dask would make three frames of it
            await write(near, big)
            (there,) = await read(far)
            assert (there == 1).all()
            assert by_address() == 1
            del there
            many = [np.full(10_000, i) for i in range(2000)]
            await write(near, *many)
            back = await read(far)
            assert all((a == b).all() for a, b in zip(many, back, strict=True))
            half = back[::2]
            del back
            assert all((one == 2 * i).all() for i, one in enumerate(half))
        """)


def test_arrow_tables_go_as_their_buffers(run):
    run("""
        import pyarrow as pa
        pool = xd.pool.default()
        column = pool.empty(MIB)
        column[:] = np.arange(MIB)
        table = pa.table({"x": pa.array(column), "y": ["text"] * MIB}).replace_schema_metadata({"a": "b"})
        async with pair() as (near, far):
            (back,) = await there_and_back(near, far, table)
            assert back.equals(table, check_metadata=True)
            (back,) = await there_and_back(near, far, table.to_batches()[0])
            assert back.equals(table.to_batches()[0])
            # The pool's column went as it is; Arrow's own were copied there, once for each message.
            copied = sum(link.peer.stats()["bytes_copied"] for link in links())
            assert 0 < copied < 2.1 * table.column("y").nbytes, copied
        del back
        """)


def test_many_comms_share_one_link_and_each_gets_its_own(run):
    run("""
        rng = np.random.default_rng(1)
        async with serve() as (address, accepted), contextlib.AsyncExitStack() as stack:
            async def echo():
                while True:
                    comm = await accepted.get()
                    tasks.append(asyncio.create_task(serve_one(comm)))

            async def serve_one(comm):
                with contextlib.suppress(CommClosedError):
                    while True:
                        await comm.write(await comm.read())

            async def client(number):
                comm = await connect(address)
                for i in range(10):
                    arrays = [np.full(int(n), number * 1000 + i) for n in rng.integers(1, 40_000, 5)]
                    await write(comm, *arrays)
                    if number % 7 == 3 and i == 5:
                        comm.abort()  # in the middle
                        return
                    back = await read(comm)
                    assert all((a == b).all() and len(a) == len(b) for a, b in zip(arrays, back, strict=True))
                await comm.close()

            tasks = [asyncio.create_task(echo())]
            await asyncio.gather(*(client(number) for number in range(60)))
            assert len(links()) == 2, "the two ends of one link"
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await until(pool_is_idle)
        """)


def test_two_hundred_event_loops_connect_to_one_at_once(run):
    run(
        """
        import resource
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 1 << 16), hard))
        async with serve() as (address, accepted):
            threads = [
                threading.Thread(target=asyncio.run, args=(worker(address, i),), daemon=True) for i in range(200)
            ]
            for thread in threads:
                thread.start()
            comms = [await accepted.get() for _ in threads]
            got = sorted([int((await read(comm))[0][-1]) for comm in comms])
            assert got == list(range(200))
            assert len(links()) == 200, "one for each event loop"
            for comm in comms:
                await write(comm, np.ones(10_000))
            await asyncio.to_thread(lambda: [thread.join() for thread in threads])
            for comm in comms:
                comm.abort()
            del comms, comm
        """,
        """
        import threading

        async def worker(address, number):
            comm = await connect(address, timeout=60)
            await write(comm, np.full(10_000, float(number)))
            assert ((await read(comm))[0] == 1).all()
            await comm.close()
        """,
    )


def test_both_ends_may_begin_at_once(run):
    run("""
        async with pair() as (near, far):
            await asyncio.gather(write(near, np.full(100_000, 1)), write(far, np.full(100_000, 2)))
            assert (await read(near))[0][0] == 2 and (await read(far))[0][0] == 1
        """)


def test_what_was_written_before_the_end_arrives_and_what_nobody_reads_is_dropped(run):
    run("""
        async with serve() as (address, accepted):
            near = await connect(address)
            far = await accepted.get()
            for i in range(5):
                await write(near, np.full(200_000, i))
            await near.close()
            for i in range(3):
                assert (await read(far))[0][-1] == i
            await until(lambda: arrived() == 2)
            await far.close()
            assert arrived() == 0
            await until(pool_is_idle)
            try:
                await read(far)
            except CommClosedError:
                pass
            else:
                raise AssertionError("it is closed")
        """)


def test_a_read_that_waits_for_its_frames_ends_with_the_comm_or_the_link(run):
    run(
        """
        async with serve() as (address, accepted):
            other, far_other = await connect(address), await accepted.get()
            for end in (lambda comm: comm.abort(), lambda _: [link.peer.abort() for link in links()]):
                near, far = await connect(address), await accepted.get()
                await write(near, np.ones(10_000))
                await read(far)
                await hold_back(near, np.ones(10_000))
                task = asyncio.create_task(far.read())
                await until(lambda: far._channel._awaited)
                end(far)
                start = time.monotonic()
                try:
                    await task
                except CommClosedError:
                    assert time.monotonic() - start < 1
                else:
                    raise AssertionError("nothing was sent")
                assert far.closed()
                near.abort()
                # Another comm goes on, over a new link if need be.
                await write(other, np.full(10_000, 7))
                assert (await read(far_other))[0][0] == 7
            other.abort(), far_other.abort()
        """,
        """
        async def hold_back(comm, *data):
            '''Writes what names frames that don't come.'''
            link = await comm._channel.endpoint.link_to(comm._far())
            link.send = lambda *_: asyncio.sleep(0)
            await write(comm, *data)
            del link.send
        """,
    )


def test_cancelling_closes_the_comm_and_no_other(run):
    run("""
        async with pair() as (near, far), pair() as (other, far_other):
            task = asyncio.create_task(far.read())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled() and far.closed()

            big = np.ones(8 * MIB)
            task = asyncio.create_task(write(other, big))
            await until(lambda: other._channel.endpoint._connecting or links())
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled() and other.closed()
            big[:] = 2  # the library may be reading it still, for nobody
            try:
                await read(far_other)
            except CommClosedError:
                pass
            else:
                raise AssertionError("half a message is none")
            async with pair() as (near, far):
                (back,) = await there_and_back(near, far, big)
                assert (back == 2).all()
                del back
        await until(pool_is_idle)
        """)


def test_a_process_that_is_killed_ends_what_waits_for_it(run):
    run(
        """
        async with serve() as (address, accepted):
            child = await asyncio.create_subprocess_exec(sys.executable, __file__, address, stdout=-1)
            comm = await accepted.get()
            (kept,) = await read(comm)
            await write(comm, np.full(500_000, 8))  # which it never reads
            waiting = asyncio.create_task(comm.read())
            assert await child.stdout.readline() == b"half\\n"
            await until(lambda: comm._channel._awaited)  # the message names frames that never came
            child.kill()
            start = time.monotonic()
            try:
                await waiting
            except CommClosedError:
                assert time.monotonic() - start < 1
            else:
                raise AssertionError("half a message is none")
            await child.wait()
            assert (kept == 5).all()
            kept += 1
            assert (kept == 6).all()
            del kept
            await until(pool_is_idle, 2)  # what the dead one had is free
            xd.serve({}).close()  # removes the socket of the killed one
        """,
        """
        async def child():
            comm = await connect(sys.argv[1])
            array = xd.pool.default().empty(500_000)
            array[:] = 5
            await write(comm, array)
            link = await comm._channel.endpoint.link_to(comm._far())
            link.send = lambda *_: asyncio.sleep(0)
            await write(comm, array)
            print("half", flush=True)
            await asyncio.sleep(60)

        if len(sys.argv) > 1:
            asyncio.run(child())
        """,
    )


def test_another_version_is_one_line_in_the_log_and_goes_over_tcp(run):
    said = run(
        """
        async with serve() as (address, accepted):
            for way in ("newer", "newer", "without"):
                child = await asyncio.create_subprocess_exec(sys.executable, __file__, address, way)
                comm = await accepted.get()
                (got,) = await read(comm)
                assert (got == 5).all() and got.flags.writeable
                await write(comm, got)
                assert await child.wait() == 0
                comm.abort()
            assert not links()
        """,
        """
        async def child():
            if sys.argv[2] == "newer":
                _links.PROTOCOL = 77
                _links.logger.disabled = True
            else:  # distributed's own classes, under our scheme
                from distributed.comm import backends, tcp

                class Plain(tcp.TCPConnector):
                    prefix = "crossdock://"

                class PlainBackend(tcp.TCPBackend):
                    _connector_class = Plain

                backends["crossdock"] = PlainBackend()
            comm = await connect(sys.argv[1])
            await write(comm, np.full(500_000, 5))
            assert ((await read(comm))[0] == 5).all()
            assert not links()
            await comm.close()

        if len(sys.argv) > 1:
            asyncio.run(child())
            sys.exit()
        """,
    )
    lines = [line for line in said.splitlines() if line]
    assert len(lines) == 1, said
    assert "protocol 77" in lines[0]
    assert "protocol 1" in lines[0]
    assert "this is Crossdock" in lines[0]


def test_what_cannot_be_reached_goes_over_tcp_with_one_line_in_the_log(run):
    """As in another container with the same host name: the socket isn't there, or is another process's."""
    said = run("""
        async with serve() as (address, accepted), serve() as (other, _):
            another = await xd.peers.listen(["shm:"])
            for wrong in ("shm:/tmp/there-is-no-such-socket", another.uri):
                endpoint = _links.current()
                uri, endpoint._uri = endpoint._uri, wrong
                for _ in range(2):
                    near = await connect(address)
                    far = await accepted.get()
                    (back,) = await there_and_back(near, far, np.ones(100_000))
                    assert (back == 1).all() and back.flags.writeable
                    assert not links()
                    near.abort(), far.abort()
                endpoint._uri = uri
                endpoint._unreachable.clear()
            # Another machine, or another user.
            for name, value in (("_machine", lambda: str(time.monotonic())),):
                setattr(_links, name, value)
                near = await connect(address)
                far = await accepted.get()
                (back,) = await there_and_back(near, far, np.ones(100_000))
                assert (back == 1).all()
                assert not links()
                near.abort(), far.abort()
        """)
    lines = [line for line in said.splitlines() if line]
    assert len(lines) == 2, said
    assert "there-is-no-such-socket go over TCP" in lines[0]


def test_a_link_that_ends_before_its_answer_is_forgotten(run):
    run("""
        import types

        class Gone:  # in the place of a peer: its process ends after its first message
            async def recv(self, **_):
                hello = _links._hello.pack(_links._HELLO, _links.PROTOCOL, 5, bytes(endpoint.id[::-1]), endpoint.id)
                return types.SimpleNamespace(meta=hello)

            async def send(self, *_, **__):
                raise xd.ConnectionError("it has ended")

            def abort(self):
                self.aborted = True

        async with serve():
            endpoint, gone = _links.current(), Gone()
            await endpoint._welcome(gone)
            assert gone.aborted
            assert not endpoint._links and not endpoint._to
        """)


def test_shared_memory_can_be_forbidden(run):
    run("""
        import dask
        with dask.config.set({"crossdock.shared-memory": False}):
            async with pair() as (near, far):
                (back,) = await there_and_back(near, far, np.ones(100_000))
                assert (back == 1).all()
                assert _links.current() is None
        """)


def test_encryption_is_required_where_it_is_asked_for(run):
    pytest.importorskip("cryptography")
    run("""
        from distributed.security import Security
        security = Security.temporary()
        for arguments in (security.get_connection_args("client"),):
            async with serve() as (address, _):
                try:
                    await connect(address, **arguments)
                except RuntimeError as error:
                    assert "encryption required" in str(error)
                else:
                    raise AssertionError("it wasn't encrypted")
        try:
            await listen("crossdock://127.0.0.1:0", print, **security.get_listen_args("scheduler"))
        except RuntimeError as error:
            assert "encryption required" in str(error)
        else:
            raise AssertionError("it wouldn't be encrypted")

        async with serve("crossdocks", **security.get_listen_args("scheduler")) as (address, accepted):
            assert address.startswith("crossdocks://")
            near = await connect(address, **security.get_connection_args("client"))
            far = await accepted.get()
            assert "cipher" in near.extra_info and "cipher" in far.extra_info
            (back,) = await there_and_back(near, far, np.ones(2 * MIB))
            assert (back == 1).all()
            assert by_address() == 2
            del back
            await near.close()
            await far.close()
        """)


def test_a_fork_leaves_the_comms_to_the_parent(run):
    run(
        """
        async with pair() as (near, far):
            await there_and_back(near, far, np.ones(100_000))
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    gc.collect()
                    # A loop of its own; the parent's belongs to the parent.
                    asyncio.events._set_running_loop(None)
                    asyncio.run(child_comm())
                    status = 0
                finally:
                    os._exit(status)
            assert await asyncio.to_thread(lambda: os.waitpid(child, 0)[1]) == 0
            (back,) = await there_and_back(near, far, np.ones(100_000))
            assert (back == 1).all()
            assert by_address() == 4
            del back
        """,
        """
        async def child_comm():
            async with pair() as (near, far):
                (back,) = await there_and_back(near, far, np.full(100_000, 3))
                assert (back == 3).all()
        """,
    )


def test_an_event_loop_that_ends_takes_its_links_along(run):
    run(
        """
        kept = await asyncio.to_thread(lambda: [asyncio.run(leave(i)) for i in range(3)])
        assert all((array == i).all() for i, array in enumerate(kept))
        """,
        """
        async def leave(number):
            listening = serve()
            address, accepted = await listening.__aenter__()
            near = await connect(address)
            far = await accepted.get()
            (array,) = await there_and_back(near, far, np.full(100_000, number))
            left.append((listening, near, far))  # open
            return array

        left = []
        import logging
        logging.getLogger("asyncio").disabled = True
        """,
    )


def test_where_descriptors_run_out_frames_go_by_value(run):
    run(
        """
        import resource
        async with serve() as (address, accepted):
            child = await asyncio.create_subprocess_exec(sys.executable, __file__, address)
            comm = await accepted.get()
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            kept = []
            for i in range(1500):
                kept += await read(comm)
                await comm.write("OK")
            assert all((array == i).all() for i, array in enumerate(kept))
            received = sum(array.nbytes for array in kept)
            kept[7] += 1
            del kept
            for _ in range(10):
                await write(comm, np.ones(20_000))
                assert await comm.read() == "OK"
            assert await child.wait() == 0
            comm.abort()
        """,
        """
        async def child():
            import resource
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            comm = await connect(sys.argv[1])
            pool = xd.pool.default()
            for i in range(1500):
                try:
                    array = pool.empty(10_000)
                except xd.Error:
                    array = np.empty(10_000)
                array[:] = i
                await write(comm, array)
                assert await comm.read() == "OK"
            for _ in range(10):
                await read(comm)
                await comm.write("OK")
            await comm.close()

        if len(sys.argv) > 1:
            asyncio.run(child())
            sys.exit()
        """,
    )


def test_importing_the_package_imports_none_of_it(script):
    program = script("""
        import sys
        import crossdock
        print([name for name in ("dask", "distributed", "crossdock.dask", "crossdock.peers") if name in sys.modules])
    """)
    assert program.read_line() == "[]"
    program.finish()
