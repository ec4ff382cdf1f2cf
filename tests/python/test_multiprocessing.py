"""Large arrays through multiprocessing, concurrent.futures and joblib, by shared memory."""

from __future__ import annotations

import io
import pickle
import signal
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pytest

HEAD = """
import gc, os, signal, sys, threading
import multiprocessing as mp
import numpy as np
import crossdock as xd
import crossdock.multiprocessing as xm

N = 1 << 18  # 2 MiB of float64
pool = xd.pool.default()

def copies():
    return pool.stats()["made"] + pool.stats()["reused"]

def wait_for_idle():
    while pool.stats()["lent_bytes"]:
        os.sched_yield()
"""


@pytest.fixture
def run(program, tmp_path):
    """Runs a program in a process of its own, from a file, as processes that are spawned import it again."""

    def run(functions: str, main: str, *arguments: str) -> None:
        path = tmp_path / "main.py"
        body = textwrap.indent(textwrap.dedent(main), "    ")
        path.write_text(
            f"{HEAD}\n{textwrap.dedent(functions)}\nif __name__ == '__main__':\n{body}\n    print('right')\n"
        )
        started = program(sys.executable, "-X", "faulthandler", str(path), *arguments)
        assert started.read_line(timeout=120) == "right"
        started.finish()

    return run


ECHO = """
def echo(inbox, outbox):
    xm.install(threshold=1 << 16)
    while (item := inbox.get()) is not None:
        outbox.put(item)
"""


@pytest.mark.parametrize("context", ["spawn", "fork", "forkserver"])
def test_arrays_go_there_and_back(run, context):
    run(
        ECHO,
        f"""
        xm.install(threshold=1 << 16)
        ctx = mp.get_context("{context}")
        inbox, outbox = ctx.Queue(), ctx.Queue()
        process = ctx.Process(target=echo, args=(inbox, outbox))
        process.start()

        def there_and_back(item):
            inbox.put(item)
            return outbox.get()

        rng = np.random.default_rng(1)
        cube = rng.random((20, 30, 500))
        dates = np.arange("1970-01-01", "2200-01-01", dtype="M8[h]")
        records = np.zeros(20_000, [("a", "i4"), ("b", "f8", (3,))])
        records["a"] = np.arange(20_000)
        for array in [
            rng.random(N), cube, np.asfortranarray(cube), cube[::2], cube.transpose(1, 2, 0), cube[:, 3],
            dates, records,
            np.ones(100_000, ">f4"), np.ones(N, bool), np.ones(N, complex), np.zeros(0), np.float64(3.5), np.ones(3),
            np.array([1, "a", None] * 50_000, object), cube[0:0], np.broadcast_to(np.arange(1000.0), (1000, 1000)),
        ]:
            back = there_and_back(array)
            assert type(back) is type(array) and back.dtype == array.dtype and back.shape == array.shape
            assert np.array_equal(back, array)
            if isinstance(back, np.ndarray) and back.nbytes >= 1 << 16:
                assert back.flags.writeable
                assert back.flags.f_contiguous == array.flags.f_contiguous or not array.flags.contiguous
        del back, array
        inbox.put(None)
        process.join()
        assert process.exitcode == 0
        """,
    )


def test_everybody_sees_their_own_writes_alone(run):
    run(
        """
        def write(inbox, outbox):
            array = inbox.get()
            array[:] += 1
            outbox.put(float(array.sum()))
            inbox.get()
            outbox.put(float(array.sum()))
        """,
        """
        xm.install(threshold=1 << 16)
        ctx = mp.get_context("spawn")
        inbox, outbox = ctx.SimpleQueue(), ctx.SimpleQueue()
        process = ctx.Process(target=write, args=(inbox, outbox))
        process.start()
        for array in [pool.empty(N)]:
            array[:] = 1
            inbox.put(array)
            array[:] = 5
            assert outbox.get() == 2.0 * N
            array[:] = 6
            inbox.put(None)
            assert outbox.get() == 2.0 * N
            assert (array == 6).all()
        process.join()
        """,
    )


def test_what_is_unchanged_is_not_copied_again(run):
    run(
        ECHO,
        """
        xm.install(threshold=1 << 16)
        ctx = mp.get_context("spawn")
        inbox, outbox = ctx.Queue(), ctx.Queue()
        process = ctx.Process(target=echo, args=(inbox, outbox))
        process.start()
        array = np.arange(float(N))
        backs = []
        for _ in range(5):
            inbox.put(array)
            backs.append(outbox.get())
        assert copies() == 1
        array[7] = -1
        inbox.put(array)
        back = outbox.get()
        assert copies() == 2
        assert back[7] == -1 and backs[0][7] == 7
        inbox.put(back)  # what was received, and nobody has written to, goes on as it is
        assert (outbox.get() == array).all()
        assert copies() == 2
        back[0] = 9
        inbox.put(back)
        assert outbox.get()[0] == 9
        assert copies() == 3
        del back, backs
        inbox.put(None)
        process.join()
        """,
    )


@pytest.mark.long
def test_pools_and_executors_pass_frames_and_tables(run):
    run(
        """
        import pandas as pd
        import pyarrow as pa

        def total(frame, column):
            return float(frame[column].sum())

        def words(frame):
            return frame["word"].str.len().sum()

        def rows(table):
            return table.num_rows, table["x"].to_numpy().sum()

        def make(n):
            return np.full(N, float(n))
        """,
        """
        from concurrent.futures import ProcessPoolExecutor

        xm.install(threshold=1 << 16)
        frame = pd.DataFrame(np.random.default_rng(1).random((100_000, 4)), columns=list("abcd"))
        text = pd.DataFrame({"x": np.arange(100_000.0), "word": [f"word {i % 100}" for i in range(100_000)]})
        table = pa.table({"x": np.arange(100_000.0), "word": [f"word {i}" for i in range(100_000)]})
        ctx = mp.get_context("spawn")
        with ProcessPoolExecutor(2, mp_context=ctx, initializer=xm.install, initargs=(1 << 16,)) as executor:
            before = copies()
            sums = [executor.submit(total, frame, "b") for _ in range(8)]
            assert {future.result() for future in sums} == {float(frame["b"].sum())}
            assert copies() - before == 1, "one frame of floats is one array, which is copied once"
            assert executor.submit(words, text).result() == text["word"].str.len().sum()
            assert executor.submit(rows, table).result() == (100_000, table["x"].to_numpy().sum())
            for n, array in enumerate(executor.map(make, range(6))):
                assert (array == n).all()
                array[:] = -1
        with ctx.Pool(2, xm.install, (1 << 16,)) as workers:
            assert all((array == n).all() for n, array in enumerate(workers.imap(make, range(6))))
            workers.close()
            workers.join()  # leaving the block would kill them, and so their sockets would stay
        """,
    )


@pytest.mark.long
def test_joblib_passes_what_it_does_not_map(run):
    pytest.importorskip("joblib")
    run(
        """
        import joblib
        import pandas as pd

        def words(frame):
            return int(frame["word"].str.len().sum())
        """,
        """
        xm.install(threshold=1 << 16)
        text = pd.DataFrame({"word": [f"word {i % 100}" for i in range(100_000)]})
        expected = int(text["word"].str.len().sum())
        before = copies()
        results = joblib.Parallel(n_jobs=2)(joblib.delayed(words)(text) for _ in range(4))
        assert results == [expected] * 4
        assert copies() > before, "it went by shared memory"
        """,
    )


def test_memory_is_freed_with_what_was_received(run):
    run(
        ECHO,
        """
        xm.install(threshold=1 << 16)
        ctx = mp.get_context("spawn")
        inbox, outbox = ctx.Queue(), ctx.Queue()
        process = ctx.Process(target=echo, args=(inbox, outbox))
        process.start()
        rng = np.random.default_rng(1)
        kept = []
        for i in range(300):
            array = pool.empty(int(rng.integers(1 << 14, 1 << 16)))
            array[:] = i
            inbox.put(array)
            kept.append((i, outbox.get()))
            if len(kept) > 10:
                number, back = kept.pop(int(rng.integers(len(kept))))
                assert (back == number).all()
        del array, back
        kept.clear()
        inbox.put(None)
        process.join()
        wait_for_idle()
        stats = pool.stats()
        assert stats["idle_bytes"] == stats["bytes"], stats
        """,
    )


def test_what_was_passed_on_stays_when_the_one_between_has_ended(run):
    """Its maker isn't told that a third process has it, and must not use it again."""
    run(
        """
        def pass_on(inbox, outbox):
            xm.install()
            outbox.put(inbox.get())

        def look(inbox, go, outbox):
            array = inbox.get()
            outbox.put(float(array.sum()))
            go.get()
            outbox.put(float(array.sum()))
        """,
        """
        xm.install()
        ctx = mp.get_context("spawn")
        first, second, go, sums = (ctx.Queue() for _ in range(4))
        between = ctx.Process(target=pass_on, args=(first, second))
        last = ctx.Process(target=look, args=(second, go, sums))
        between.start()
        last.start()
        array = pool.empty(N)
        array[:] = 1
        first.put(array)
        assert sums.get() == N
        between.join()
        assert between.exitcode == 0
        wait_for_idle()
        del array
        fresh = pool.empty(N)
        fresh[:] = 2
        go.put(None)
        assert sums.get() == N, "nobody wrote to it"
        last.join()
        """,
    )


@pytest.mark.long
def test_processes_that_have_ended_cost_no_descriptors(run):
    run(
        """
        def send(outbox):
            xm.install()
            outbox.put(np.ones(N))
        """,
        """
        xm.install()
        ctx = mp.get_context("spawn")
        counts = []
        for _ in range(6):
            outbox = ctx.Queue()
            process = ctx.Process(target=send, args=(outbox,))
            process.start()
            assert outbox.get().sum() == N
            process.join()
            outbox.close()
            outbox.join_thread()
            counts.append(len(os.listdir("/proc/self/fd")))
        assert counts[-1] <= counts[0] + 1, counts  # that of the last one may be closed a little later
        """,
    )


def test_a_sender_that_ends_waits_for_its_receivers(run):
    run(
        """
        def send(queue):
            xm.install(threshold=1 << 16)
            queue.put(np.full(N, 7.0))  # and ends
        """,
        """
        for context in ("spawn", "fork"):
            ctx = mp.get_context(context)
            queue = ctx.Queue()
            process = ctx.Process(target=send, args=(queue,))
            process.start()
            assert (queue.get() == 7).all()
            process.join()
            assert process.exitcode == 0
        """,
    )


def test_a_killed_receiver_frees_what_it_held_and_a_killed_sender_is_named(run):
    run(
        """
        def hold(inbox, outbox):
            array = inbox.get()
            outbox.put("here")
            inbox.get()

        def send(queue, inbox):
            xm.install(threshold=1 << 16)
            queue.put(np.full(N, 7.0))
            inbox.get()
        """,
        """
        xm.install(threshold=1 << 16)
        ctx = mp.get_context("spawn")
        inbox, outbox = ctx.Queue(), ctx.Queue()
        process = ctx.Process(target=hold, args=(inbox, outbox))
        process.start()
        array = pool.empty(N)
        array[:] = 1
        inbox.put(array)
        assert outbox.get() == "here"
        assert pool.stats()["lent_bytes"] > 0
        process.kill()
        process.join()
        wait_for_idle()
        assert (array == 1).all()

        inbox, outbox = ctx.Queue(), ctx.Queue()  # a process that is killed keeps the locks of its queues
        process = ctx.Process(target=send, args=(outbox, inbox))
        process.start()
        reader = outbox._reader
        assert reader.poll(60)
        process.kill()
        process.join()
        try:
            outbox.get()
        except xd.ConnectionError as error:
            assert "must live until it is received" in str(error)
        else:
            raise AssertionError("no error")
        xd.serve({}).close()  # removes the socket of the killed one
        """,
    )


def test_nobody_waits_for_receivers_that_are_gone(script):
    """A program that ends while nobody can receive what it has passed on says so, and ends within seconds."""
    said = script(
        HEAD
        + """
def double(array):
    return array * 2

if __name__ == "__main__":
    xm.install(threshold=1 << 16)
    with mp.get_context("fork").Pool(2) as workers:
        for result in workers.imap_unordered(double, [np.ones(N)] * 16):
            break
    # The workers were killed, with what was sent to them.
    import threading, time
    xm._exchange.server().publish("not asked for", xd.asarray(np.ones(N)))
    start = time.monotonic()
    xm._exchange.drain()
    assert time.monotonic() - start < 15, "not the 30 s for processes that are there"
    xd.serve({}).close()  # removes the sockets of the killed ones
"""
    ).process
    out, error = said.communicate(timeout=60)
    assert said.returncode == 0, out
    assert "were not received within 1 s, and are lost" in out + (error or "")


def test_ctrl_c_ends_the_wait(script):
    program = script(
        HEAD
        + """
import logging
logging.basicConfig(stream=sys.stdout, format="%(message)s")
if __name__ == "__main__":
    xm.install(threshold=1 << 16)
    ctx = mp.get_context("fork")
    inbox = ctx.Queue()
    keeper = ctx.Process(target=signal.pause)  # somebody who might receive
    keeper.start()
    xm._exchange.server().publish("not asked for", xd.asarray(np.ones(N)))
    print("ends", flush=True)  # the log is flushed line by line
    xm._exchange.drain()
    print("ended", flush=True)
    keeper.kill()
    keeper.join()
"""
    )
    assert program.read_line(timeout=30) == "ends"
    while "waiting up to 30 s" not in (line := program.read_line(timeout=30)):
        assert line
    program.process.send_signal(signal.SIGINT)
    while (line := program.read_line(timeout=15)) != "ended":
        assert "lost" in line
    program.finish()


@pytest.mark.long
def test_more_arrays_than_descriptors_arrive(run):
    """Of one message, the first one: the receiver connects when the sender has lent what it may."""
    run(
        """
        def total(arrays):
            return float(sum(array.sum() for array in arrays))
        """,
        """
        import resource
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        xm.install(threshold=1 << 16)
        with mp.get_context("spawn").Pool(1) as workers:
            arrays = [np.full(1 << 14, float(i)) for i in range(400)]
            assert workers.map(total, [arrays]) == [sum(range(400)) * (1 << 14)]
            workers.close()
            workers.join()
        sent = xm.stats()
        assert sent["by_name"] + sent["by_value"] == 400
        assert 100 < sent["by_name"] < 256
        assert sent["bytes_copied"] == sent["bytes_by_name"] == sent["by_name"] << 17
        assert sent["bytes_by_value"] == sent["by_value"] << 17
        """,
    )


def test_pandas_text_goes_by_its_own_buffers():
    import pandas as pd

    from crossdock import _pandas

    class Pickler(pickle.Pickler):
        dispatch_table = _pandas.reducers()

    def pickled(array):
        buffers, file = [], io.BytesIO()
        Pickler(file, protocol=5, buffer_callback=buffers.append).dump(array)
        # Loaded by pandas alone.
        assert pickle.loads(file.getvalue(), buffers=buffers).tolist() == array.tolist()
        return [np.frombuffer(buffer, "u1").ctypes.data for buffer in buffers], sum(len(b.raw()) for b in buffers)

    words = pa.array([f"word {i}" if i % 5 else None for i in range(10_000)])
    for array in (pd.array(words, dtype="str"), pd.array(words, dtype=pd.ArrowDtype(pa.string()))):
        assert type(array) in Pickler.dispatch_table
        (chunk,) = array._pa_array.chunks
        assert pickled(array)[0] == [buffer.address for buffer in chunk.buffers()], "nothing is copied"
        assert pickled(array[5:20])[1] < 1000, "nor is the whole sent for a part"
        assert pickled(pd.concat([pd.Series(array)] * 2).array)[1] > 0
        assert pickled(array[:0])[1] < 1000


@pytest.mark.long
def test_what_finds_no_memory_goes_by_value(run):
    run(
        ECHO,
        """
        import resource
        xm.install(threshold=1 << 16)
        ctx = mp.get_context("spawn")
        inbox, outbox = ctx.Queue(), ctx.Queue()
        process = ctx.Process(target=echo, args=(inbox, outbox))
        process.start()
        inbox.put(np.ones(N))
        assert (outbox.get() == 1).all()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        inbox.put(np.full(N, 2.0))
        from multiprocessing.reduction import ForkingPickler
        assert len(ForkingPickler.dumps(np.full(N, 3.0))) > 8 * N
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert (outbox.get() == 2).all()
        xm.uninstall()
        before = copies()
        inbox.put(np.full(N, 4.0))
        assert (outbox.get() == 4).all()
        assert copies() == before
        inbox.put(None)
        process.join()
        """,
    )


def test_importing_the_package_imports_none_of_it(script):
    program = script("""
        import sys
        import crossdock
        others = ("multiprocessing", "numpy", "pyarrow", "crossdock.multiprocessing")
        print([name for name in others if name in sys.modules])
    """)
    assert program.read_line() == "[]"
    program.finish()
