"""Batches outlive everything; nothing outlives the batches; whatever order, thread or process ends first."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import threading
import weakref
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import crossdock as xd

BATCH = pa.record_batch({"x": np.arange(1000.0), "s": [str(i) for i in range(1000)]})
SOURCES = {
    "table": lambda: BATCH,
    "live": lambda: pa.RecordBatchReader.from_batches(BATCH.schema, [BATCH] * 3),
    "callable": lambda: lambda: pa.RecordBatchReader.from_batches(BATCH.schema, [BATCH] * 3),
}

SERVER = """
    import sys
    import pyarrow as pa
    import crossdock as xd
    batch = pa.record_batch({"x": list(range(1000))})
    def many():
        return pa.RecordBatchReader.from_batches(batch.schema, (batch for _ in range(10**9)))
    with xd.serve({"t": batch, "many": many}) as server:
        print(server.uri, flush=True)
        sys.stdin.readline()
"""


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("order", list(itertools.permutations(("reader", "batch", "client", "server"))), ids="-".join)
def test_dropped_in_any_order(source, order):
    held = {"server": xd.serve({"t": SOURCES[source]()})}
    held["client"] = xd.connect(held["server"].uri)
    held["reader"] = held["client"].get("t")
    held["batch"] = next(held["reader"])
    imported = pa.record_batch(held["batch"])
    for name in order:
        del held[name]
        if "batch" in held:
            assert pa.record_batch(held["batch"]) == BATCH
        assert imported == BATCH


@pytest.mark.parametrize("order", list(itertools.permutations(("reader", "client", "server"))), ids="-".join)
def test_closed_in_any_order(order):
    held = {"server": xd.serve({"t": SOURCES["callable"]()})}
    held["client"] = xd.connect(held["server"].uri)
    held["reader"] = held["client"].get("t")
    batch = next(held["reader"])
    for name in order:
        held[name].close()
        assert pa.record_batch(batch) == BATCH


def test_dropped_on_other_threads():
    for source in SOURCES.values():
        server = xd.serve({"t": source()})
        client = xd.connect(server.uri)
        reader = client.get("t")
        held = [pa.record_batch(next(reader)), reader, client, server]
        del server, client, reader
        while held:
            one = [held.pop(0)]
            thread = threading.Thread(target=one.clear)
            thread.start()
            thread.join()
            assert not one


def test_what_was_imported_keeps_a_column_alone():
    with xd.serve({"t": BATCH}) as server, xd.connect(server.uri) as client:
        column = pa.record_batch(next(client.get("t"))).column(0)
    gc.collect()
    assert column.to_pylist() == BATCH.column(0).to_pylist()


def test_a_callable_is_let_go_when_it_is_withdrawn_and_when_the_server_closes():
    class Source:
        def __call__(self) -> pa.RecordBatch:
            return BATCH

    for end in ("withdraw", "close"):
        source = Source()
        gone = weakref.ref(source)
        server = xd.serve({"f": source})
        del source
        with xd.connect(server.uri) as client:
            list(client.get("f"))
        assert gone() is not None
        server.withdraw("f") if end == "withdraw" else server.close()
        for _ in range(1000):
            server.closed or server.stats()  # What the server's threads drop is dropped by calls of Python threads.
            if gone() is None:
                break
        assert gone() is None
        server.close()


def test_the_copied_table_is_let_go_at_once():
    array = np.arange(10.0)
    gone = weakref.ref(array)
    with xd.serve({"t": pa.record_batch({"x": array})}):
        del array
        gc.collect()
        assert gone() is None


# ---- processes ----


def test_a_killed_producer_leaves_batches_valid_and_never_a_shorter_table(script):
    process = script(SERVER)
    uri = process.read_line()
    with xd.connect(uri) as client:
        table, many = client.get("t"), client.get("many")
        first, second = next(table), next(many)
        process.send(signal.SIGKILL)
        process.finish(expect=-signal.SIGKILL)
        with pytest.raises(xd.TruncatedStreamError):
            for _ in many:
                pass
        for batch in (first, second):
            assert pa.record_batch(batch).column(0).to_pylist() == list(range(1000))
        with pytest.raises((xd.ConnectionError, xd.TruncatedStreamError)):
            client.list()
    # Its socket is stale, and lies in our run-time folder: the next server of that name takes it over.
    with xd.serve({"t": BATCH}, uri) as server, xd.connect(server.uri) as client:
        assert pa.table(client.get("t")).to_batches() == [BATCH]


def test_a_killed_consumer_gives_its_leases_back(script):
    with xd.serve(
        {"t": BATCH, "many": lambda: pa.RecordBatchReader.from_batches(BATCH.schema, [BATCH] * 1000)}
    ) as server:
        consumer = script(
            """
            import sys
            import crossdock as xd
            client = xd.connect(sys.argv[1])
            reader = client.get("many")
            held = [next(reader) for _ in range(3)]
            print("holding", flush=True)
            sys.stdin.readline()
            """,
            server.uri,
        )
        assert consumer.read_line() == "holding"
        assert sum(one["leases"] for one in server.stats()["consumers"]) > 0
        consumer.send(signal.SIGKILL)
        consumer.finish(expect=-signal.SIGKILL)
        with xd.connect(server.uri) as client:
            while any(one["pid"] == consumer.process.pid for one in server.stats()["consumers"]):
                client.list()
            assert len(list(client.get("many"))) == 1000


AT_EXIT = {
    "everything held by globals": """
        server = xd.serve({"t": batch, "live": stream(), "f": stream})
        client = xd.connect(server.uri)
        readers = [client.get(name) for name in ("t", "live", "f")]
        batches = [next(reader) for reader in readers]
        imported = [pa.record_batch(one) for one in batches]
        handed_over = pa.RecordBatchReader.from_stream(client.get("f"))
    """,
    "a cycle through the server": """
        server = xd.Server()
        server.publish("f", lambda: (server, stream())[1])
        client = xd.connect(server.uri)
        reader = client.get("f")
        next(reader)
        server.me = server
    """,
    "an arena": """
        arena = xd.Arena()
        array = arena.empty(1000)
        table = pa.record_batch({"x": array})
        server = xd.serve({"t": table})
        held = next(xd.connect(server.uri).get("t"))
    """,
    "a daemon thread in next()": """
        import threading
        go_on = threading.Event()
        waiting = threading.Event()
        def batches():
            yield batch
            waiting.set()
            go_on.wait()
        server = xd.serve({"f": lambda: pa.RecordBatchReader.from_batches(batch.schema, batches())})
        client = xd.connect(server.uri)
        def read():
            try:
                list(client.get("f"))
            except xd.Error:
                pass
        threading.Thread(target=read, daemon=True).start()
        waiting.wait()
        import atexit
        atexit.register(go_on.set)
    """,
    "a batch in a daemon thread": """
        import threading
        server = xd.serve({"t": batch, "f": stream})
        ready = threading.Event()
        def hold():
            held = [next(xd.connect(server.uri).get(name)) for name in ("t", "f")]
            ready.set()
            threading.Event().wait()
        threading.Thread(target=hold, daemon=True).start()
        ready.wait()
    """,
    "sys.exit in a with block": """
        with xd.serve({"f": stream}) as server, xd.connect(server.uri) as client:
            for one in client.get("f"):
                sys.exit(0)
    """,
}


@pytest.mark.long
@pytest.mark.parametrize("how", AT_EXIT)
def test_interpreter_exit(script, how):
    import textwrap

    code = """
import sys
import pyarrow as pa
import crossdock as xd
batch = pa.record_batch({"x": list(range(1000))})
def stream():
    return pa.RecordBatchReader.from_batches(batch.schema, (batch for _ in range(100)))
""" + textwrap.dedent(AT_EXIT[how])
    process = script(code)
    _, err = process.process.communicate(timeout=60)
    assert process.process.returncode == 0, err
    assert err == ""


IN_A_DAEMON = {
    "the text of a batch": "repr(read)",
    "publishing": "server.publish('t', table, replace=True)",
    "a property": "xd.asarray(WithProperty())",
    "a method": "xd.asarray(WithMethod())",
    "the end of an owner": "xd.from_array_interface(INTERFACE, Owner())",
}


@pytest.mark.parametrize("work", IN_A_DAEMON.values(), ids=IN_A_DAEMON)
def test_daemons_call_python_through_the_package_as_the_interpreter_ends(script, work):
    """Python before 3.14 ends such a thread by unwinding its stack, in which the module has frames."""
    script(
        """
        import sys, threading, time
        import numpy as np, pyarrow as pa
        import crossdock as xd
        sys.setswitchinterval(1e-5)
        VALUES = np.arange(3.0)
        INTERFACE = VALUES.__array_interface__
        def work_a_little():
            for _ in range(100):
                pass
        class WithProperty:
            @property
            def __array_interface__(self):
                work_a_little()
                return INTERFACE
        class WithMethod:
            def __dlpack_device__(self):
                work_a_little()
                return VALUES.__dlpack_device__()
            def __dlpack__(self, **keywords):
                work_a_little()
                return VALUES.__dlpack__()
        class Owner:
            def __del__(self):
                work_a_little()
        table = pa.table({"a": range(1000)})
        read = xd.RecordBatch(table.to_batches()[0])
        server = xd.serve({"t": table})
        begun = threading.Barrier(3)
        def run():
            begun.wait()
            while True:
                eval(sys.argv[1])
        for _ in range(2):
            threading.Thread(target=run, daemon=True).start()
        begun.wait()
        time.sleep(0.2)
        """,
        work,
    ).finish()


def test_ctrl_c_ends_the_exit_though_a_source_runs_python(script):
    process = script(
        """
        import atexit, os, signal, sys, threading
        import pyarrow as pa
        begun = threading.Event()
        SCHEMA = pa.schema([("a", pa.int64())])
        def never():
            begun.set()
            while True:
                sum(range(1000))
            yield
        def interrupt():
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        import crossdock as xd
        server = xd.serve({"f": lambda: pa.RecordBatchReader.from_batches(SCHEMA, never())})
        def read():
            try:
                next(xd.connect(server.uri).get("f"))
            except xd.Error:
                pass
        threading.Thread(target=read, daemon=True).start()
        begun.wait()
        atexit.register(interrupt)  # called before the servers are closed
        """
    )
    said = process.finish(expect=None)
    assert said.startswith("exit 0\n"), said
    assert "Fatal Python error" not in said


def test_the_socket_goes_with_its_server():
    folder = Path(os.environ["XDG_RUNTIME_DIR"]) / "crossdock"
    with xd.Server() as server:
        path = folder / f"{server.uri.removeprefix('shm:')}.sock"
        assert path.is_socket()
        assert folder.stat().st_mode & 0o077 == 0
        assert path.stat().st_mode & 0o077 == 0
    assert not path.exists()


# ---- fork ----


CONNECTIONS = [
    ("shm:", None),
    ("tcp:", None),
    ("ucx://127.0.0.1:0", None),
    ("ucx://127.0.0.1:0", "read"),
    ("fabric://127.0.0.1:0", None),
    ("fabric://127.0.0.1:0", "read"),
]


def skip_without(uri: str) -> None:
    try:
        xd.serve({}, uri).close()
    except xd.UnsupportedError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("uri", sorted({uri for uri, _ in CONNECTIONS}))
@pytest.mark.parametrize("how", ["closed", "killed"])
def test_a_client_connects_again_to_a_server_that_was_started_again(script, uri, how):
    skip_without(uri)
    serve = """
        import sys
        import pyarrow as pa
        import crossdock as xd
        with xd.serve({"t": pa.table({"x": [int(sys.argv[2])]})}, sys.argv[1]) as server:
            print(server.uri, flush=True)
            sys.stdin.read()
    """
    process = script(serve, uri, "1")
    uri = process.read_line()
    with xd.connect(uri) as client:
        table = client.table("t")
        assert table.to_arrow()["x"].to_pylist() == [1]
        if how == "killed":
            process.send(signal.SIGKILL)
            process.finish(expect=-signal.SIGKILL)
        else:
            process.finish()
        process = script(serve, uri, "2")
        assert process.read_line() == uri
        assert table.to_arrow()["x"].to_pylist() == [2]
        process.finish()
        with pytest.raises(xd.ConnectionError):
            table.to_arrow()


@pytest.mark.parametrize(("uri", "way"), CONNECTIONS)
def test_fork(script, uri, way):
    skip_without(uri)
    out = script(
        """
        import os, sys, warnings
        import pyarrow as pa
        import crossdock as xd
        warnings.simplefilter("ignore", DeprecationWarning)  # Python's own, about forks beside threads
        uri, way = sys.argv[1], sys.argv[2] or None
        batch = pa.record_batch({"x": list(range(1000))})
        with xd.serve({"t": batch, "u": [batch] * 3}, uri) as server, xd.connect(server.uri, way=way) as client:
            frozen = next(client.get("t"))
            reader = client.get("u")
            first = next(reader)
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    assert pa.record_batch(frozen) == batch
                    for use in (server.stats, lambda: server.publish("v", batch), client.list,
                                lambda: client.get("t"), lambda: next(reader)):
                        try:
                            use()
                        except xd.ForkError:
                            continue
                        raise AssertionError("no ForkError")
                    with xd.serve({"own": batch}) as own, xd.connect(own.uri) as mine:  # New ones work.
                        assert pa.table(mine.get("own")).to_batches() == [batch]
                    try:
                        with xd.serve({"own": batch}, uri) as own, xd.connect(own.uri) as mine:
                            assert pa.table(mine.get("own")).to_batches() == [batch]
                    except xd.ForkError as error:
                        assert uri.startswith("ucx:") and "was started before a fork" in str(error)
                    else:
                        assert not uri.startswith("ucx:")
                    del frozen, reader, first
                    code = 0
                except BaseException:
                    import traceback
                    traceback.print_exc()
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert [pa.record_batch(one) for one in (first, *reader)] == [batch] * 3
            assert pa.table(client.get("t")).to_batches() == [batch]
        print("done")
        """,
        uri,
        way or "",
    ).finish()
    assert out == "done\n"


@pytest.mark.long
@pytest.mark.parametrize(("uri", "way"), CONNECTIONS)
def test_a_forked_child_that_exits_by_itself(script, uri, way):
    """In the middle of a body, with copies of the server's and the client's objects."""
    skip_without(uri)
    out = script(
        """
        import os, sys, time, warnings
        import pyarrow as pa
        import crossdock as xd
        warnings.simplefilter("ignore", DeprecationWarning)
        uri, way = sys.argv[1], sys.argv[2] or None
        batches = [pa.record_batch({"x": pa.array(range(n, 1_000_000 + n))}) for n in range(4)]  # More than is buffered
        server = xd.serve({"t": batches}, uri)
        client = xd.connect(server.uri, way=way)
        reader = client.get("t", read_ahead=1 << 20)
        held = next(reader)
        deadline = time.monotonic() + 20
        while not any(one["in_flight"] + one["leases"] for one in server.stats()["consumers"]):
            assert time.monotonic() < deadline, "no further body has begun"
        child = os.fork()
        if child:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert [pa.record_batch(one) for one in (held, *reader)] == batches
            assert pa.table(client.get("t")).to_batches() == batches
            print("done")
        """,
        uri,
        way or "",
    ).finish()
    assert out == "done\n"


def test_forks_in_two_threads_that_wait_for_each_other_in_hooks_of_other_modules(script):
    out = script("""
        import concurrent.futures.thread  # Its hook lets one fork through at a time, so it must run after ours.
        import os, threading, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        both = threading.Barrier(2, timeout=20)
        os.register_at_fork(before=lambda: both.wait())  # Those that are registered first run last.
        import crossdock

        def fork():
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)

        threads = [threading.Thread(target=fork) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not both.broken
        print("done")
    """).finish()
    assert out == "done\n"


def test_a_child_of_several_forks_at_once_reads_sources(script):
    out = script("""
        import concurrent.futures.thread  # Its hook lets one fork through at a time, so it must run after ours.
        import os, threading, warnings
        import pyarrow as pa
        warnings.simplefilter("ignore", DeprecationWarning)
        both = threading.Barrier(2, timeout=20)
        os.register_at_fork(before=lambda: both.wait())
        import crossdock as xd
        table = pa.table({"x": list(range(1000))})

        def fork():
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    with xd.serve({"f": lambda: table}) as server, xd.connect(server.uri) as client:
                        assert pa.table(client.get("f", timeout=20)).equals(table)
                    code = 0
                except BaseException:
                    import traceback
                    traceback.print_exc()
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            done.append(child)

        done = []
        threads = [threading.Thread(target=fork) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not both.broken
        print(len(done))
    """).finish()
    assert out == "2\n"


def test_a_fork_while_another_thread_reads(script):
    out = script("""
        import os, threading, warnings
        import pyarrow as pa
        import crossdock as xd
        warnings.simplefilter("ignore", DeprecationWarning)
        batch = pa.record_batch({"x": list(range(1000))})
        waiting, go_on = threading.Event(), threading.Event()
        def batches():
            yield batch
            waiting.set()
            go_on.wait()
            yield batch
        def source():
            return pa.RecordBatchReader.from_batches(batch.schema, batches())
        with xd.serve({"f": source}) as server, xd.connect(server.uri) as client:
            reader = client.get("f")
            next(reader)
            rest = []
            def read():
                while True:
                    try:
                        rest.extend(reader)
                        return
                    except xd.StreamBusyError:  # We looked just then.
                        pass
            thread = threading.Thread(target=read)
            thread.start()
            waiting.wait()
            while True:  # The source waits: the thread is in next(), or is about to be.
                try:
                    reader._try_next()
                except xd.StreamBusyError:
                    break
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    for use in (lambda: next(reader), reader._try_next, reader.__arrow_c_stream__):
                        try:
                            use()
                        except xd.ForkError:
                            continue
                        raise AssertionError("no ForkError")
                    reader.close()  # The parent's reader goes on.
                    del reader
                    code = 0
                except BaseException:
                    import traceback
                    traceback.print_exc()
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            go_on.set()
            thread.join()
            assert [pa.record_batch(one) for one in rest] == [batch]
        print("done")
    """).finish()
    assert out == "done\n"
