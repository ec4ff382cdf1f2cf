"""Dask's clusters over `crossdock://`, in processes: results, memory, spilling, and processes that are killed."""

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
import os, signal, time
import numpy as np
import dask
from distributed import Client, Event, LocalCluster, Nanny, Scheduler, wait
import crossdock as xd
import crossdock.dask
from dask_programs import MIB

dask.config.set({{
    "distributed.admin.system-monitor.interval": "50ms",
    # Every two seconds it drops all copies of a value but one, which may be the one that a task has changed.
    "distributed.scheduler.active-memory-manager.start": False,
}})

def cluster(workers=2, **arguments):
    return LocalCluster(
        n_workers=workers, threads_per_worker=1, protocol="crossdock://", dashboard_address=":0", **arguments
    )

def addresses(client):
    return list(client.scheduler_info(n_workers=-1)["workers"])

def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)

def sent_by_address(dask_worker):
    endpoint = crossdock.dask._links._endpoints[dask_worker.loop.asyncio_loop]
    return sum(link.peer.stats()["frames_by_address"] for link in endpoint._links.values())

def ones(nbytes):
    return np.ones(nbytes // 8)
"""


@pytest.fixture
def run(program, tmp_path):
    """Runs a program in a process of its own, from a file, as workers import it again."""

    def run(main: str, functions: str = "") -> None:
        path = tmp_path / "main.py"
        body = textwrap.indent(textwrap.dedent(main), "    ")
        path.write_text(
            f"{HEAD}\n{textwrap.dedent(functions)}\nif __name__ == '__main__':\n{body}\n"
            "    xd.serve({}).close()  # removes the sockets of killed processes\n    print('right', flush=True)\n"
        )
        started = program(sys.executable, "-X", "faulthandler", str(path))
        said = started.finish(expect=None, timeout=120)
        assert said.startswith("exit 0\nright\n"), said

    return run


def test_a_cluster_works_as_over_tcp_and_shares_memory(run):
    run(
        """
        with cluster(3) as local, Client(local) as client:
            a, b, c = addresses(client)
            assert a.startswith("crossdock://")
            array = client.submit(ones, 8 * MIB, workers=[a])
            sums = [client.submit(np.sum, array, workers=[one], pure=False) for one in (b, c)]
            assert client.gather(sums) == [MIB, MIB]
            assert client.run(sent_by_address, workers=[a])[a] == 2
            got = array.result()
            assert got.flags.writeable
            got[:] = 2

            # A task that changes what it was given changes it for itself, as where each worker has a copy.
            changed = client.submit(change, array, workers=[b])
            assert changed.result() == -MIB
            assert client.submit(np.sum, array, workers=[c], pure=False).result() == MIB
            assert client.submit(np.sum, array, workers=[a], pure=False).result() == MIB

            data = np.arange(float(MIB))
            everywhere = client.scatter(data, broadcast=True)
            data[:] = 0
            for one in (a, b, c):
                assert client.submit(np.sum, everywhere, workers=[one], pure=False).result() == MIB * (MIB - 1) / 2
            # In a task's arguments, too, which wait at the scheduler here.
            data, go = np.ones(MIB), Event()
            first = client.submit(go.wait, workers=[a])
            total = client.submit(lambda array, _: array.sum(), data, first, workers=[a])
            client.submit(int, workers=[b]).result()  # the scheduler has the one before it, too
            data[:] = 7
            go.set()
            assert total.result() == MIB

            table = client.submit(make_table, workers=[a])
            assert client.submit(rows, table, workers=[b]).result() == (100_000, 4_999_950_000)
            assert table.result().schema.metadata == {b"made": b"here"}

            import dask.array as da
            x = da.ones((1000, 1000), chunks=(250, 250))
            assert (x + x.T).sum().compute() == 2_000_000

            import dask.dataframe as dd
            import pandas as pd
            frame = dd.from_map(part, range(4), meta=part(0))
            for method in ("tasks", "p2p"):
                with dask.config.set({"dataframe.shuffle.method": method}):
                    shuffled = frame.shuffle("key").compute()
                expected = pd.concat(part(i) for i in range(4))
                pd.testing.assert_frame_equal(
                    shuffled.sort_values(["key", "value"], ignore_index=True),
                    expected.sort_values(["key", "value"], ignore_index=True),
                    check_dtype=False,  # of text: Dask's choice
                )
        """,
        """
        def change(array):
            array[:] = -1
            return array.sum()

        def make_table():
            import pyarrow as pa
            table = pa.table({"x": np.arange(100_000), "word": [f"word {i % 100}" for i in range(100_000)]})
            return table.replace_schema_metadata({"made": "here"})

        def rows(table):
            return table.num_rows, table.column("x").to_numpy().sum()

        def part(number):
            import pandas as pd
            rng = np.random.default_rng(number)
            return pd.DataFrame({"key": rng.integers(0, 100, 20_000), "value": rng.random(20_000), "word": "some text"})
        """,
    )


def test_shared_memory_counts_once_with_the_plugin(run):
    run(
        """
        # Else Dask removes replicas whenever it finds time for it.
        dask.config.set({"distributed.scheduler.active-memory-manager.start": False})
        with cluster(3) as local, Client(local) as client:
            for _ in range(2):
                crossdock.dask.install(client)  # again does nothing
            a, b, c = addresses(client)
            before = client.run(memory)
            size = 128 * MIB
            array = client.submit(ones, size, workers=[a])
            sums = [client.submit(np.sum, array, workers=[one], pure=False) for one in (a, b, c)]
            assert client.gather(sums) == [size // 8] * 3
            after = client.run(memory)
            grown = {one: (after[one][0] - before[one][0]) / size for one in after}
            by_rss = {one: (after[one][1] - before[one][1]) / size for one in after}
            assert sum(by_rss.values()) > 2.9, by_rss
            assert 0.9 < grown[a] < 1.2, grown
            assert grown[b] < 0.2 and grown[c] < 0.2, grown

            # Once its maker is gone, memory is theirs who hold it.
            client.retire_workers([a], close_workers=True)
            until(lambda: len(addresses(client)) == 2)
            until(lambda: client.run(memory, workers=[b])[b][0] - before[b][0] > 0.9 * size)
        """,
        """
        def memory(dask_worker):
            import psutil
            return dask_worker.monitor.get_process_memory(), psutil.Process().memory_info().rss
        """,
    )


def test_another_install_changes_the_threshold(run):
    run(
        """
        with cluster(1) as local, Client(local) as client:
            for threshold, pooled in ((1 << 20, True), (None, False), (8 * MIB, False), (MIB, True)):
                crossdock.dask.install(client, threshold=threshold)
                assert client.submit(in_pool, 4 * MIB, pure=False).result() == pooled, threshold
            for wrong in ("1MB", 1e6, 0):
                try:
                    crossdock.dask.install(client, threshold=wrong)
                except (TypeError, ValueError) as error:
                    assert "threshold" in str(error)
                else:
                    raise AssertionError(wrong)
        """,
        """
        def in_pool(nbytes):
            before = xd.pool.default().stats()
            array = ones(nbytes)
            after = xd.pool.default().stats()
            return after["made"] + after["reused"] > before["made"] + before["reused"]
        """,
    )


def test_the_nanny_does_not_end_workers_for_memory_of_others(run):
    run(
        """
        with dask.config.set({"distributed.worker.memory.monitor-interval": "20ms",
                              "distributed.worker.memory.target": False, "distributed.worker.memory.spill": False}):
            with cluster(2, memory_limit=600 * MIB) as local, Client(local) as client:
                crossdock.dask.install(client)
                a, b = addresses(client)
                pids = client.run(os.getpid)
                arrays = [client.submit(ones, 64 * MIB, workers=[a], pure=False) for _ in range(5)]
                # Each has 320 MiB of them mapped, and one has made them. Python and its packages take the rest.
                client.submit(hold, arrays, workers=[b]).result()
                assert client.run(os.getpid) == pids

                # What a worker allocates by itself counts, and it is ended for it.
                with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
                    task = client.submit(fill, 900 * MIB, workers=[b])
                    until(lambda: client.run(os.getpid, on_error="ignore").get(b) != pids[b])
                    task.cancel()
        """,
        """
        def hold(arrays):
            total = sum(array.sum() for array in arrays)
            time.sleep(0.3)  # some looks of the nanny
            return total

        def fill(nbytes):
            data = bytearray(b"1" * nbytes)
            time.sleep(30)
        """,
    )


def test_twice_the_limit_is_spilled_and_comes_back(run):
    run(
        """
        limit = 400 * MIB  # of which Python and its packages take some 110
        with cluster(2, memory_limit=limit) as local, Client(local) as client:
            crossdock.dask.install(client)
            a, b = addresses(client)
            pids = client.run(os.getpid)
            size = 16 * MIB
            arrays = [client.submit(numbered, i, size, workers=[(a, b)[i % 2]]) for i in range(50)]
            wait(arrays)
            # Each worker needs what the other has.
            sums = [client.submit(total, one, workers=[(a, b)[(i + 1) % 2]]) for i, one in enumerate(arrays)]
            assert client.gather(sums) == [i * size // 8 for i in range(50)]
            del sums
            spilled = client.run(lambda dask_worker: len(dask_worker.data.disk))
            assert sum(spilled.values()) > 10, spilled
            assert client.run(os.getpid) == pids
            again = client.submit(total, arrays[:3], workers=[b]).result()
            assert again == 3 * size // 8
            del arrays
            until(lambda: all(held < 150 * MIB for held in client.run(pool_bytes).values()))
        """,
        """
        def numbered(i, nbytes):
            return np.full(nbytes // 8, float(i))

        def total(data):
            return float(sum(one.sum() for one in data) if isinstance(data, list) else data.sum())

        def pool_bytes():
            stats = xd.pool.default().stats()
            return stats["bytes"] - stats["idle_bytes"]
        """,
    )


def test_a_killed_worker_loses_nothing_that_another_has(run):
    run(
        """
        with cluster(3) as local, Client(local) as client:
            crossdock.dask.install(client)
            a, b, c = addresses(client)
            pids = client.run(os.getpid)
            shared = client.submit(ones, 32 * MIB, workers=[a], allow_other_workers=True)
            lost = client.submit(count, workers=[a], allow_other_workers=True)
            views = client.submit(keep, shared, workers=[b])  # the received memory itself
            wait([views, lost])
            mine = shared.result()

            # Of the maker: who has its memory keeps it, and what only it had is computed again.
            os.kill(pids[a], signal.SIGKILL)
            start = time.monotonic()
            assert client.submit(np.sum, views, workers=[b]).result() == 4 * MIB
            assert client.submit(np.sum, views, workers=[c]).result() == 4 * MIB
            assert (mine == 1).all()
            assert client.submit(abs, lost, workers=[b]).result() == 5

            # Of a receiver: what it held is used again.
            until(lambda: len(client.run(os.getpid)) == 3)
            array = client.submit(ones, 32 * MIB, workers=[b], pure=False)
            held = client.submit(keep, array, workers=[c])
            wait(held)
            assert client.run(lent, workers=[b])[b] > 0
            os.kill(pids[c], signal.SIGKILL)
            until(lambda: client.run(lent_to_others, workers=[b])[b] == 0)
            assert client.submit(np.sum, array, workers=[b]).result() == 4 * MIB
        """,
        """
        def keep(array):
            return array[:]

        def count():
            return 5

        def lent():
            return xd.pool.default().stats()["lent_bytes"]

        def lent_to_others():
            return lent()
        """,
    )


def test_a_killed_scheduler_or_nanny_leaves_nothing(run):
    run(
        """
        import asyncio

        async def main():
            start = lambda *words: asyncio.create_subprocess_exec(sys.executable, __file__, *words, stdout=-1)
            scheduler = await start("scheduler")
            address = (await scheduler.stdout.readline()).decode().strip()
            nannies = [await start("nanny", address) for _ in range(2)]
            pids = [int(await nanny.stdout.readline()) for nanny in nannies]
            async with Client(address, asynchronous=True) as client:
                await client.wait_for_workers(2)
                a, b = client.scheduler_info()["workers"]
                array = client.submit(ones, 16 * MIB, workers=[a], allow_other_workers=True)
                assert await client.submit(np.sum, array, workers=[b], allow_other_workers=True) == 2 * MIB
                # A nanny: its worker ends with it, and its work is done by the other.
                nannies[0].kill()
                await nannies[0].wait()
                await gone(pids[0])
                assert await client.submit(np.sum, array, pure=False) == 2 * MIB
                # The scheduler: workers and their nannies end by themselves.
                scheduler.kill()
                await scheduler.wait()
                await gone(pids[1])
                await nannies[1].wait()

        async def gone(pid):
            try:
                while not open(f"/proc/{pid}/stat").read().rpartition(")")[2].startswith(" Z"):
                    await asyncio.sleep(0.01)
            except OSError:
                pass

        asyncio.run(main())
        """,
        """
        dask.config.set({"distributed.comm.timeouts.connect": "2s", "distributed.worker.lifetime.restart": False})

        async def scheduler():
            async with Scheduler(protocol="crossdock://", host="127.0.0.1", dashboard_address=":0") as server:
                print(server.address, flush=True)
                await server.finished()

        async def nanny(address):
            async with Nanny(address, nthreads=1, host="127.0.0.1", dashboard_address=":0") as server:
                print(server.pid, flush=True)
                await server.finished()

        if __name__ == "__main__" and len(sys.argv) > 1:
            import asyncio
            asyncio.run(scheduler() if sys.argv[1] == "scheduler" else nanny(sys.argv[2]))
            sys.exit()
        """,
    )


def test_workers_may_start_with_the_plugin_as_a_preload(run):
    run(
        """
        with cluster(1, preload=["crossdock.dask"], preload_nanny=["crossdock.dask"]) as local, Client(local) as client:
            (a,) = addresses(client)
            assert client.submit(is_in_pool).result()
            (nanny,) = local.workers.values()
            assert type(nanny.periodic_callbacks["memory_monitor"].callback).__name__ == "_Nanny"
        """,
        """
        def is_in_pool():
            array = ones(8 * MIB)
            return xd._native.needs_no_copy(array.ctypes.data, array.nbytes)
        """,
    )
