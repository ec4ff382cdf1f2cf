"""Several threads: the interpreter lock, slow sources, one reader in two hands."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import numpy as np
import pyarrow as pa
import pytest
from tests.children import Child

import crossdock as xd

BATCH = pa.record_batch({"x": [1, 2, 3]})
WAIT = 60  # Only ever spent by a test that fails.


class Gate:
    """A Python source that gives one batch and then waits for `go_on`."""

    def __init__(self) -> None:
        self.waiting = threading.Event()
        self.go_on = threading.Event()

    def __call__(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(BATCH.schema, self._batches())

    def _batches(self):
        yield BATCH
        self.waiting.set()
        assert self.go_on.wait(WAIT)
        yield BATCH


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.go_on.set()


@pytest.fixture
def client(gate):
    with xd.serve({"slow": gate, "t": BATCH}) as server, xd.connect(server.uri) as client:
        yield client
        gate.go_on.set()


def test_the_lock_is_released_while_next_waits(client, gate):
    reader = client.get("slow")
    next(reader)
    with ThreadPoolExecutor() as pool:
        future = pool.submit(next, reader)
        assert gate.waiting.wait(WAIT)  # This thread and the source's both ran Python meanwhile.
        gate.go_on.set()
        assert pa.record_batch(future.result(WAIT)) == BATCH


def test_the_lock_is_released_while_pyarrow_waits(client, gate):
    reader = pa.RecordBatchReader.from_stream(client.get("slow"))
    assert reader.read_next_batch() == BATCH
    with ThreadPoolExecutor() as pool:
        future = pool.submit(reader.read_all)
        assert gate.waiting.wait(WAIT)
        gate.go_on.set()
        assert future.result(WAIT).to_batches() == [BATCH]


def test_a_c_consumer_that_holds_the_lock_doesnt_stop_a_python_source(client):
    """As some do: get_next() is called with the lock held, on a stream whose source needs it."""

    class Stream(ctypes.Structure):
        _fields_ = (
            ("get_schema", ctypes.c_void_p),
            ("get_next", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
            ("get_last_error", ctypes.c_void_p),
            ("release", ctypes.c_void_p),
            ("private_data", ctypes.c_void_p),
        )

    with xd.serve({"f": lambda: pa.table({"x": list(range(1000))})}) as server, xd.connect(server.uri) as other:
        capsule = other.get("f").__arrow_c_stream__()
        get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
        get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        address = get_pointer(capsule, b"arrow_array_stream")
        array = (ctypes.c_int64 * 10)()  # An ArrowArray: its length first, release ninth.
        assert Stream.from_address(address).get_next(address, ctypes.addressof(array)) == 0
        assert array[0] == 1000
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(array[8])(ctypes.addressof(array))


def test_a_slow_source_delays_no_other_consumer(client, gate):
    slow = client.get("slow")
    next(slow)
    with ThreadPoolExecutor() as pool:
        future = pool.submit(next, slow)
        assert gate.waiting.wait(WAIT)
        for _ in range(20):
            assert pa.table(client.get("t", timeout=WAIT)).to_batches() == [BATCH]
        assert not future.done()
        gate.go_on.set()
        future.result(WAIT)


def test_one_reader_in_two_threads_is_busy(client, gate):
    reader = client.get("slow")
    next(reader)
    with ThreadPoolExecutor() as pool:
        futures = [pool.submit(next, reader) for _ in range(2)]
        (refused,), (waiting,) = wait(futures, WAIT, FIRST_COMPLETED)
        with pytest.raises(xd.StreamBusyError, match="another thread"):
            refused.result()
        with pytest.raises(xd.StreamBusyError, match="another thread"):
            reader.__arrow_c_stream__()
        gate.go_on.set()
        assert pa.record_batch(waiting.result(WAIT)) == BATCH


def test_close_ends_a_next_that_waits_in_another_thread(client, gate):
    reader = client.get("slow")
    next(reader)
    with ThreadPoolExecutor() as pool:
        future = pool.submit(next, reader)
        assert gate.waiting.wait(WAIT)
        reader.close()
        with pytest.raises(xd.ClosedError, match="closed"):
            future.result(WAIT)


def test_close_waits_for_a_producer_that_nothing_tells_and_next_says_closed():
    asked, go_on = threading.Event(), threading.Event()

    def batches():
        asked.set()
        go_on.wait(WAIT)
        yield BATCH

    reader = xd.RecordBatchReader(pa.RecordBatchReader.from_batches(BATCH.schema, batches()))
    with ThreadPoolExecutor() as pool:
        future = pool.submit(next, reader)
        assert asked.wait(WAIT)
        closing = pool.submit(reader.close)
        while True:  # close() has begun as soon as nobody may read any more
            try:
                next(reader)
            except xd.StreamBusyError:
                continue
            except xd.ClosedError:
                break
        assert not closing.done()
        go_on.set()
        closing.result(WAIT)
        with pytest.raises(xd.ClosedError, match="while next"):
            future.result(WAIT)


def read_on(reader):
    while True:
        next(reader, None)


def test_whom_close_comes_before_is_told_so():
    table = pa.Table.from_batches([BATCH] * 2000)
    with xd.serve({"t": table}) as server, xd.connect(server.uri) as client, ThreadPoolExecutor() as pool:
        for _ in range(100):
            reader = client.get("t")
            next(reader)
            closing = pool.submit(reader.close)
            with pytest.raises(xd.ClosedError):  # Never StreamBusyError: nobody else reads.
                read_on(reader)
            closing.result(WAIT)


def test_a_timeout_may_be_tried_again(client, gate):
    reader = client.get("slow", timeout=0.05)

    def patiently():
        while True:
            with contextlib.suppress(xd.TimeoutError):
                return next(reader)

    patiently()
    with pytest.raises(xd.TimeoutError):
        next(reader)
    gate.go_on.set()
    assert pa.record_batch(patiently()) == BATCH
    assert list(reader) == []


def test_closing_the_server_ends_its_streams_with_an_error(gate):
    with xd.serve({"slow": gate}) as server, xd.connect(server.uri) as client:
        reader = client.get("slow")
        batch = next(reader)
        assert gate.waiting.wait(WAIT)
        with ThreadPoolExecutor() as pool:
            closing = pool.submit(server.close)
            # Never a shorter table.
            with pytest.raises((xd.TruncatedStreamError, xd.RemoteError, xd.ClosedError)):
                list(reader)
            gate.go_on.set()
            closing.result(WAIT)
        assert pa.record_batch(batch) == BATCH


def test_many_threads_read_at_once(client):
    def read(_: int) -> bool:
        return pa.table(client.get("t")).to_batches() == [BATCH]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(200)))


def test_publishing_and_reading_at_once():
    with xd.Server() as server, xd.connect(server.uri) as client:

        def cycle(number: int) -> None:
            for turn in range(20):
                name = f"{number}-{turn}"
                server.publish(name, BATCH)
                assert pa.table(client.get(name)).to_batches() == [BATCH]
                server.withdraw(name)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(cycle, range(4)))
        assert client.list() == []


@pytest.mark.parametrize(
    "callable_",
    [lambda: 1 / 0, lambda: pa.RecordBatchReader.from_batches(BATCH.schema, (1 / 0 for _ in [0]))],
    ids=["raises", "raises in its stream"],
)
def test_what_a_python_source_raises_arrives_in_its_words(callable_, caplog):
    with xd.serve({"f": callable_, "t": BATCH}) as server, xd.connect(server.uri) as client:
        with pytest.raises(xd.RemoteError, match="division by zero"):
            list(client.get("f"))
        assert pa.table(client.get("t")).to_batches() == [BATCH]


def test_a_callable_that_gives_nothing_of_use():
    with (
        xd.serve({"f": lambda: 3}) as server,
        xd.connect(server.uri) as client,
        pytest.raises(xd.UnsupportedTypeError, match="type int"),
    ):
        client.get("f")


def test_a_table_whose_producer_fails_isnt_published():
    with xd.Server() as server:
        failing = pa.RecordBatchReader.from_batches(BATCH.schema, (1 / 0 for _ in [0]))
        with pytest.raises(xd.InvalidDataError, match="division by zero"):
            server.publish("t", failing, mode="table")
        assert server.stats()["sources"] == []


def test_a_generator_that_fails_late_doesnt_end_as_a_shorter_table():
    def batches():
        yield BATCH
        raise OSError("the disk is gone")

    def source():
        return pa.RecordBatchReader.from_batches(BATCH.schema, batches())

    with xd.serve({"f": source}) as server, xd.connect(server.uri) as client:
        reader = client.get("f")
        assert pa.record_batch(next(reader)) == BATCH
        with pytest.raises(xd.RemoteError, match="the disk is gone"):
            next(reader)
        stream = pa.RecordBatchReader.from_stream(client.get("f"))
        stream.read_next_batch()
        with pytest.raises(OSError, match=r"RemoteError[^$]*the disk is gone"):
            stream.read_next_batch()


def test_a_source_that_drops_its_own_server():
    """The last reference to the server may go on the server's own thread, which can't wait for itself."""
    holder: list[xd.Server] = []
    refused: list[str] = []

    def source() -> pa.RecordBatch:
        try:
            holder[0].close()
        except xd.InvalidArgumentError as error:
            refused.append(str(error))
        holder.clear()
        return BATCH

    holder.append(xd.serve({"f": source}))
    with xd.connect(holder[0].uri) as client:
        # The server closes while the stream is under way, or just after it.
        outcomes = contextlib.suppress(xd.TruncatedStreamError, xd.RemoteError, xd.ClosedError)
        with outcomes:
            list(client.get("f"))
    assert refused
    assert not holder


def test_the_log_goes_to_logging(log_lines):
    with xd.serve({"t": BATCH}) as server, xd.connect(server.uri) as client:
        with contextlib.suppress(xd.NotFoundError):
            client.get("absent")
        assert any("absent" in log_lines.next() for _ in range(10))


def expect_a_logged_warning(code: str) -> None:
    """Of a program that serves over tcp with a token, prints the URI, and then waits."""
    with Child(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        try:
            uri = server.stdout.readline().strip()
            with pytest.raises(xd.Error, match="token"):
                xd.connect(uri, token="b")
            readable, _, _ = select.select([server.stderr], [], [], WAIT)
            assert readable
            assert "token" in server.stderr.readline()
        finally:
            os.killpg(server.pid, signal.SIGKILL)


@pytest.mark.parametrize("waiting", ["signal.pause()", "threading.Event().wait()", "sys.stdin.read()"])
def test_a_warning_is_seen_while_the_main_thread_waits(waiting):
    expect_a_logged_warning(f"""if True:
        import signal, sys, threading, crossdock as xd
        s = xd.serve({{}}, "tcp:", token="a")
        print(s.uri, flush=True)
        {waiting}
    """)


def test_a_handler_needs_a_lock_that_the_main_thread_has(script):
    """A thread that calls the package, or is between two byte codes, may have a lock that a handler takes."""
    said = script("""
        import logging, threading, time
        import crossdock as xd

        lock, seen = threading.Lock(), threading.Event()

        class Handler(logging.Handler):
            def emit(self, record):
                with lock:
                    print(record.getMessage().count("token"))
                seen.set()

        logging.getLogger("crossdock").addHandler(Handler())
        server = xd.serve({}, "tcp:", token="a")
        with lock:
            try:
                xd.connect(server.uri, token="b")
            except xd.Error:
                pass
            until = time.monotonic() + 0.3
            while time.monotonic() < until:
                server.stats()
        assert seen.wait(20)
    """).finish()
    assert int(said) > 0


def test_objects_are_dropped_while_the_main_thread_waits(program):
    """What a thread of the server's drops must not wait for Python code on the main thread: it may be another
    process's memory."""
    with xd.serve({"x": pa.table({"x": np.ones(1 << 20)})}) as origin:
        passes_on = program(
            sys.executable,
            "-c",
            f"""if True:
            import sys, pyarrow as pa, crossdock as xd
            with xd.connect({origin.uri!r}) as client:
                server = xd.serve({{"x": pa.table(client.get("x", writable="copy-on-write"))}})
            print(server.uri, flush=True)
            sys.stdin.readline()
            server.withdraw("x")  # one consumer has it yet
            print("withdrawn", flush=True)
            sys.stdin.read()
            """,
        )
        with xd.connect(passes_on.read_line()) as client:
            table = pa.table(client.get("x"))
            passes_on.write_line()
            assert passes_on.read_line() == "withdrawn"
            assert sum(consumer["leases"] for consumer in origin.stats()["consumers"]) == 1
            del table  # the server's I/O thread drops what it was made of
            end = time.monotonic() + 20
            while any(consumer["leases"] for consumer in origin.stats()["consumers"]):
                assert time.monotonic() < end
                time.sleep(0.01)  # nobody tells when a lease has ended
        passes_on.finish()


def test_a_forked_server_logs_too():
    expect_a_logged_warning("""if True:
        import os, signal, sys, crossdock as xd
        xd.serve({}, "tcp:", token="a").close()
        if os.fork() != 0:
            os.wait()
            sys.exit()
        s = xd.serve({}, "tcp:", token="a")
        print(s.uri, flush=True)
        signal.pause()
    """)


def test_a_thread_that_could_not_be_started_is_started_by_the_next_server():
    expect_a_logged_warning("""if True:
        import signal, threading, crossdock as xd
        start = threading.Thread.start
        def refuse(thread):
            raise RuntimeError("can't start new thread")
        threading.Thread.start = refuse
        for begin in (xd.serve, lambda: xd.relay("shm:none")):
            try:
                begin()
            except RuntimeError:
                continue
            raise AssertionError("no error")
        threading.Thread.start = start
        s = xd.serve({}, "tcp:", token="a")
        print(s.uri, flush=True)
        signal.pause()
    """)


def test_no_thread_runs_python_as_the_interpreter_ends(script):
    """Python stops such a thread anywhere: with the lock of stderr, if it writes a log line, and then aborts."""
    process = script("""
        import atexit, threading
        @atexit.register  # before all others, so that it is called last
        def last():
            print(*(thread.name for thread in threading.enumerate()))
        import crossdock as xd
        @atexit.register
        def of_the_application():
            print("drained:", server.drain(10))
        server = xd.serve({}, metrics="127.0.0.1:0")
        relay = xd.relay(server.uri)
        print(*sorted(thread.name for thread in threading.enumerate()))
    """)
    assert process.read_line() == "MainThread crossdock-deferred crossdock-http"
    assert process.read_line() == "drained: True"
    assert process.read_line() == "MainThread"
    process.finish()


@pytest.mark.long
def test_a_log_handler_that_hangs_does_not_keep_the_process(script):
    script("""
        import contextlib, logging, threading
        import crossdock as xd
        inside = threading.Event()
        class Hangs(logging.Handler):
            def handle(self, record):
                if threading.current_thread().name == "crossdock-deferred":
                    inside.set()
                    threading.Event().wait()
        logger = logging.getLogger("crossdock")
        logger.addHandler(Hangs())
        logger.setLevel(logging.INFO)
        server = xd.serve({})
        def ask():  # until the package's thread writes what the server says about it
            with xd.connect(server.uri) as client:
                while not inside.is_set():
                    with contextlib.suppress(xd.NotFoundError):
                        client.get("absent")
        threading.Thread(target=ask).start()
        inside.wait()
    """).finish()
