"""Pools: shared memory that is used again, and that its owner may write to after it was published."""

from __future__ import annotations

import gc
import os
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crossdock as xd

MIB = 1 << 20


def published(server: xd.Server, name: str) -> dict[str, object]:
    (source,) = (source for source in server.stats()["sources"] if source["name"] == name)
    return source


def wait_for_idle(pool: xd.Pool) -> None:
    """Waits until consumers have freed all memory of the pool: their messages are on their way."""
    for _ in range(100_000):
        if pool.stats()["idle_bytes"] == pool.stats()["bytes"]:
            return
        os.sched_yield()
    raise AssertionError(pool.stats())


def test_arrays_are_numpys():
    pool = xd.Pool()
    array = pool.empty((3, 4), "i4")
    assert (array.shape, array.dtype, array.flags.c_contiguous) == ((3, 4), np.int32, True)
    assert array.flags.writeable
    assert array.ctypes.data % 64 == 0
    array[:] = 7
    assert pool.empty(5).dtype == np.float64
    assert pool.empty(0).shape == (0,)
    assert pool.empty(()).shape == ()
    assert repr(pool).startswith("<crossdock.Pool: ")


def test_arguments_are_checked():
    pool = xd.Pool()
    with pytest.raises(xd.InvalidArgumentError, match="Python objects"):
        pool.empty(3, object)
    with pytest.raises(xd.InvalidArgumentError, match="negative"):
        pool.empty((2, -1))
    with pytest.raises(xd.InvalidArgumentError, match="nbytes"):
        pool.buffer(-1)
    with pytest.raises(xd.InvalidArgumentError, match="keep"):
        pool.trim(-1)
    with pytest.raises(xd.InvalidArgumentError, match="limit"):
        xd.Pool(limit=0)
    with pytest.raises(xd.InvalidArgumentError, match="idle"):
        xd.Pool(idle=-1)
    with pytest.raises(xd.InvalidArgumentError, match="threshold"):
        xd.pool.install_numpy(threshold=0)
    wrong: Any = "1 GB"
    for what, call in {
        "limit": lambda: xd.Pool(limit=wrong),
        "idle": lambda: xd.Pool(idle=wrong),
        "threshold": lambda: xd.pool.install_numpy(wrong),
        "nbytes": lambda: pool.buffer(wrong),
        "shape": lambda: pool.empty(1e6),  # type: ignore[arg-type]
        "pool must be a crossdock.Pool": lambda: xd.pool.install_numpy(1 << 20, wrong),
    }.items():
        with pytest.raises(TypeError, match=what):
            call()
    assert pool.empty(np.int64(3)).shape == (3,)


def test_more_than_the_machine_has_is_an_error_at_once():
    pool = xd.Pool()
    with pytest.raises(xd.ResourceError, match=r"needs 1\.0 TiB, but (this machine|the cgroup)"):
        pool.empty(1 << 40, "u1")
    assert pool.stats()["bytes"] == 0


def test_memory_is_used_again_and_freed():
    pool = xd.Pool(limit=4 * MIB, idle=2 * MIB)
    array = pool.empty(MIB, "u1")
    address = array.ctypes.data
    view = array[10:]
    del array
    assert pool.stats()["idle_bytes"] == 0, "a view of it is still there"
    del view
    assert pool.stats()["idle_bytes"] == pool.stats()["bytes"] > MIB
    assert pool.empty(MIB, "u1").ctypes.data == address
    assert (pool.stats()["made"], pool.stats()["reused"]) == (1, 1)
    with pytest.raises(xd.ResourceError, match="limit is 4194304 bytes"):
        pool.empty(5 * MIB, "u1")
    assert pool.trim() > MIB
    assert pool.stats()["bytes"] == 0


def test_memory_outlives_its_pool():
    pool = xd.Pool()
    array = pool.empty(1000)
    array[:] = 1
    buffer = pool.buffer(80)
    del pool
    gc.collect()
    assert array.sum() == 1000
    with memoryview(buffer) as view:
        assert (len(buffer), buffer.nbytes, view.readonly) == (80, 80, False)
        view.cast("q")[3] = 5


def test_publishing_copies_nothing_and_its_owner_goes_on_writing():
    pool = xd.Pool()
    array = pool.empty(MIB // 8)
    array[:] = 1
    with xd.serve({"t": pa.table({"x": array})}) as server:
        source = published(server, "t")
        assert (source["kind"], source["bytes_copied"]) == ("pool", 0)
        array[:] = 2
        with xd.connect(server.uri) as client:
            assert set(pa.table(client.get("t"))["x"].to_numpy()) == {1.0}
        assert set(array) == {2.0}
        server.publish("again", pa.table({"x": array}))
        assert published(server, "again")["bytes_copied"] == MIB, "what was written to is copied"
    del array, source
    wait_for_idle(pool)


def test_memory_goes_back_without_another_call_of_the_consumer(script):
    consumer = script("""
        import os
        import sys
        import pyarrow as pa
        import crossdock as xd
        client = xd.connect(sys.stdin.readline().strip())
        table = pa.table(client.get("t"))
        print(table["x"][5])
        sys.stdin.readline()
        del table
        while any("memfd:crossdock-pool" in line for line in open("/proc/self/maps")):
            os.sched_yield()  # a thread of the library unmaps it
        print("unmapped")
        sys.stdin.readline()
    """)
    pool = xd.Pool()
    array = pool.empty(MIB // 8)
    array[:] = 3
    with xd.serve({"t": pa.table({"x": array})}) as server:
        consumer.write_line(server.uri)
        assert consumer.read_line() == "3.0"
        del array
        server.withdraw("t")
        assert pool.stats()["lent_bytes"] > 0
        consumer.write_line()
        assert consumer.read_line() == "unmapped"
        wait_for_idle(pool)
        consumer.write_line()
        consumer.finish()


def test_a_killed_consumer_frees_what_it_held(script):
    consumer = script("""
        import sys
        import pyarrow as pa
        import crossdock as xd
        client = xd.connect(sys.stdin.readline().strip())
        table = pa.table(client.get("t"))
        print("got it")
        sys.stdin.readline()
    """)
    pool = xd.Pool()
    array = pool.empty(MIB // 8)
    array[:] = 3
    with xd.serve({"t": pa.table({"x": array})}) as server:
        consumer.write_line(server.uri)
        assert consumer.read_line() == "got it"
        del array
        server.withdraw("t")
        assert pool.stats()["lent_bytes"] > 0
        consumer.stop()
        wait_for_idle(pool)


def test_a_killed_owner_leaves_its_consumers_what_they_have(script):
    owner = script("""
        import sys
        import pyarrow as pa
        import crossdock as xd
        array = xd.Pool().empty(1 << 17)
        array[:] = 4
        with xd.serve({"t": pa.table({"x": array})}) as server:
            print(server.uri)
            sys.stdin.readline()
    """)
    with xd.connect(owner.read_line()) as client:
        table = pa.table(client.get("t"))
        owner.stop()
        assert set(table["x"].to_numpy()) == {4.0}
        del table
    xd.serve({}).close()  # removes the socket that the killed server left


def test_a_fork_leaves_both_what_they_had(script):
    said = script("""
        import os, crossdock as xd
        pool = xd.Pool()
        array = pool.empty(1 << 17)
        array[:] = 1
        child = os.fork()
        if child == 0:
            right = set(array) == {1.0}
            array[:] = 2
            right = right and set(array) == {2.0} and pool.empty(10).size == 10
            os._exit(0 if right else 1)
        print(os.waitpid(child, 0)[1], set(array) == {1.0})
    """).finish()
    assert said == "0 True\n"


def test_thousands_of_tables_of_many_sizes_leave_nothing():
    pool = xd.Pool(idle=8 * MIB)
    rng = np.random.default_rng(1)
    kept = []
    with xd.serve({}) as server, xd.connect(server.uri) as client:
        for i in range(2000):
            array = pool.empty(int(rng.integers(1, 20_000)))
            array[:] = i
            server.publish("t", pa.table({"x": array}), replace=True)
            kept.append((i, pa.table(client.get("t"))))
            if len(kept) > 20:
                number, table = kept.pop(int(rng.integers(len(kept))))
                assert (table["x"].to_numpy() == number).all()
        server.withdraw("t")
        del array, table
        kept.clear()
        wait_for_idle(pool)
        assert pool.stats()["bytes"] <= 8 * MIB
        assert pool.stats()["reused"] > pool.stats()["made"]


# ---- NumPy's allocator, in processes of their own: it stays installed ----


def test_numpys_large_arrays_lie_in_a_pool(script):
    program = script("""
        import contextvars, threading
        import numpy as np
        import crossdock as xd

        before = np.arange(1 << 20)
        context = contextvars.copy_context()
        xd.pool.install_numpy()
        pool = xd.pool.default()
        pool_of = lambda: pool.stats()["bytes"] - pool.stats()["idle_bytes"]

        a = np.ones(1 << 20)
        assert pool_of() > a.nbytes
        assert np.get_include and np._core.multiarray.get_handler_name(a) == "default_allocator"
        made = []
        thread = threading.Thread(target=lambda: made.append(a + 1))
        thread.start()
        thread.join()
        made.append(context.run(lambda: a * 2))  # A context from before, as engines have.
        assert pool_of() > 3 * a.nbytes
        assert (made[0] == 2).all() and (made[1] == 2).all()
        made.clear()
        assert pool_of() < 2 * a.nbytes
        zeros = np.zeros(1 << 20)
        assert not zeros.any(), "of memory that was used before"

        small = pool.stats()["blocks"]
        b = np.ones(1000)
        assert pool.stats()["blocks"] == small
        a.resize(1 << 21, refcheck=False)
        assert (a[: 1 << 20] == 1).all() and a.size == 1 << 21
        a.resize(100, refcheck=False)
        assert (a == 1).all()
        before.resize(1 << 21, refcheck=False)
        assert (before[: 1 << 20] == np.arange(1 << 20)).all()
        del before

        own = xd.Pool()
        xd.pool.install_numpy(threshold=1000, pool=own)
        c = np.ones(200)
        assert own.stats()["blocks"] == 1
        xd.pool.uninstall_numpy()
        d = np.ones(1 << 20)
        assert own.stats()["blocks"] == 1
        assert (c == 1).all() and (d == 1).all()
        del a, zeros, made, c
        assert pool_of() == 0
        assert own.stats()["idle_bytes"] == own.stats()["bytes"]
        print("right")
    """)
    assert program.read_line() == "right"
    program.finish()


def test_what_the_pool_cannot_allocate_comes_from_the_heap(script):
    program = script("""
        import numpy as np
        import crossdock as xd

        pool = xd.Pool(limit=4 << 20)
        xd.pool.install_numpy(pool=pool)
        arrays = [np.full(1 << 17, i) for i in range(10)]
        assert pool.stats()["blocks"] == 3
        assert all((array == i).all() for i, array in enumerate(arrays))
        lazy = np.zeros(1 << 34, "u1")  # 16 GiB, of which one page is used
        lazy[-1] = 1
        print("right")
    """)
    assert program.read_line() == "right"
    program.finish()


def test_pandas_frames_lie_in_a_pool_and_are_published_without_a_copy(script):
    program = script("""
        import numpy as np
        import pandas as pd
        import pyarrow as pa
        import crossdock as xd

        xd.pool.install_numpy(threshold=1 << 16)
        frame = pd.DataFrame(np.random.default_rng(1).random((100_000, 4)), columns=list("abcd"))
        picked = pd.concat([frame[frame.a > 0.5], frame[frame.a <= 0.5]]).reset_index(drop=True)
        table = pa.Table.from_pandas(picked)
        with xd.serve({"t": table}) as server, xd.connect(server.uri) as client:
            assert server.stats()["sources"][0]["bytes_copied"] == 0, server.stats()["sources"]
            picked.loc[:, "a"] = 0.0
            assert pa.table(client.get("t"))["a"].to_numpy().max() > 0
        print("right")
    """)
    assert program.read_line() == "right"
    program.finish()


def test_arrays_of_the_pool_are_made_and_freed_by_many_threads(script):
    program = script("""
        import os, threading
        import numpy as np
        import crossdock as xd

        xd.pool.install_numpy(threshold=1 << 16)
        failed = []

        def work(number):
            kept = []
            for i in range(300):
                kept.append(np.full(10_000 + 100 * (i % 7), number))
                if len(kept) > 5:
                    if not (kept.pop(i % 5) == number).all():
                        failed.append(number)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for _ in range(10):
            child = os.fork()
            if child == 0:
                array = np.full(10_000, 5)
                os._exit(0 if (array == 5).all() else 1)
            if os.waitpid(child, 0)[1] != 0:
                failed.append("fork")
        for thread in threads:
            thread.join()
        stats = xd.pool.default().stats()
        print(failed, stats["bytes"] == stats["idle_bytes"])
    """)
    assert program.read_line() == "[] True"
    program.finish()


def test_threads_publish_from_one_pool():
    pool = xd.Pool()
    failed = []
    with xd.serve({}) as server:

        def work(number: int) -> None:
            with xd.connect(server.uri) as client:
                for i in range(30):
                    array = pool.empty(5000 + i)
                    array[:] = number
                    server.publish(f"t{number}", pa.table({"x": array}), replace=True)
                    array[:] = -1
                    if not (pa.table(client.get(f"t{number}"))["x"].to_numpy() == number).all():
                        failed.append((number, i))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed
    wait_for_idle(pool)
