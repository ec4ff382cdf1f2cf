"""Tables, arrays and streams of batches between Ray's actors, by shared memory and over tcp."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
import textwrap

import pytest
from tests.pages import ROOT, blocks, runs

import crossdock as xd

pytestmark = pytest.mark.long

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="ray isn't installed: pip install --group engines"
)

# A cluster takes some seconds to start, so each program has one, and many checks.
HEAD = """
import contextlib, gc, logging, os, signal, sys, threading, time
import numpy as np
import pyarrow as pa
import ray
import crossdock as xd
import crossdock.ray

crossdock.ray.register()

N = 1 << 18  # 2 MiB of float64
DRIVER_PUTS = tuple(map(int, ray.__version__.split(".")[:2])) >= (2, 60)  # not 2.55 and 2.56


class Base:
    def pid(self):
        return os.getpid()

    def published(self):
        from crossdock import _ray_transport

        server = _ray_transport.local().exchange.running()
        return [] if server is None else [source["name"] for source in server.stats()["sources"]]

    def connections(self):
        from crossdock import _ray_transport

        return _ray_transport.local().exchange.server().stats()["consumers"]

    def copies(self):
        stats = xd.pool.default().stats()
        return stats["made"] + stats["reused"]

    def busy_bytes(self):
        gc.collect()
        stats = xd.pool.default().stats()
        return stats["bytes"] - stats["idle_bytes"]


def wait_until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():  # Ray tells nobody when it has freed an object
        assert time.monotonic() < end
        gc.collect()  # Ray may leave references of ours in cycles, and they keep what the actors have
        os.sched_yield()


@contextlib.contextmanager
def raises(kind, text, seconds=None):
    start = time.monotonic()
    try:
        yield
    except kind as error:
        assert text in str(error) + "".join(getattr(error, "__notes__", [])), error
    else:
        raise AssertionError("no error")
    assert seconds is None or time.monotonic() - start < seconds, time.monotonic() - start


def end():
    # Ray kills its workers. Their sockets are removed when the next server of this user starts.
    ray.shutdown()
    xd.serve({}).close()
"""


@pytest.fixture
def run(program, tmp_path, monkeypatch):
    """Runs a program with a cluster of Ray's, from a file."""
    folder = tempfile.mkdtemp(prefix="xr-", dir="/tmp")  # Short: a socket's path has 107 bytes.
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # It would write a file to the home folder.
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")

    def run(classes: str, main: str) -> None:
        path = tmp_path / "main.py"
        start = (
            f"ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False, _temp_dir={folder!r},"
            " object_store_memory=200 << 20, logging_level='ERROR')"
        )
        body = textwrap.indent(f"{start}\n{textwrap.dedent(main)}\nend()\nprint('right')\n", "    ")
        path.write_text(f"{HEAD}\n{textwrap.dedent(classes)}\nif __name__ == '__main__':\n{body}")
        started = program(sys.executable, "-X", "faulthandler", str(path))
        while (line := started.read_line(timeout=120)) != "right":
            assert "(raylet)" in line  # of processes that were killed
        started.finish()

    yield run
    shutil.rmtree(folder, ignore_errors=True)


ACTORS = """
@ray.remote
class Producer(Base):
    @ray.method(tensor_transport="crossdock")
    def make(self, function, *arguments):
        return function(*arguments)


@ray.remote(enable_tensor_transport=True)
class Consumer(Base):
    def use(self, function, value):
        return function(value)

    @ray.method(tensor_transport="crossdock")
    def forward(self, value):
        return value
"""


@needs_ray
def test_tables_arrays_and_frames_arrive_as_they_were(run):
    run(
        ACTORS,
        """
        import pandas as pd

        producer, consumer = Producer.remote(), Consumer.remote()
        rng = np.random.default_rng(1)
        n = 40_000
        table = pa.table({
            "x": rng.random(n), "word": [f"word {i}" if i % 7 else None for i in range(n)],
            "kind": pa.array([f"kind {i % 9}" for i in range(n)]).dictionary_encode(),
            "list": [[i, i + 1] for i in range(n)], "pair": [{"a": i, "b": str(i)} for i in range(n)],
        }).replace_schema_metadata({"of": "the schema"})
        cube = rng.random((20, 30, 500))
        records = np.zeros(20_000, [("a", "i4"), ("b", "f8", (3,))])
        records["a"] = np.arange(20_000)
        values = [
            table, table.slice(30_001, 9_000), pa.concat_tables([table, table.slice(7)]), table.slice(0, 0),
            rng.random(N), cube, np.asfortranarray(cube), cube[::2], cube.transpose(1, 2, 0), records, cube[0:0],
            np.arange("1970-01-01", "2200-01-01", dtype="M8[h]"), np.ones(100_000, ">f4"), np.ones(N, bool), np.ones(3),
            np.array([1, "a", None] * 50_000, object), np.broadcast_to(np.arange(1000.0), (1000, 1000)), "text", 3.5,
            {"a": [rng.random(N), table], "b": np.ones(2), "c": "text"}, [],
            pd.DataFrame(rng.random((n, 4)), columns=list("abcd")), pd.DataFrame({"x": range(n), "y": ["a"] * n}),
        ]

        def is_equal(a, b):
            if type(a) is not type(b):
                return False
            if isinstance(a, np.ndarray):
                return a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
            if isinstance(a, pa.Table):
                b.validate(full=True)
                return a.equals(b, check_metadata=True)
            if isinstance(a, pd.DataFrame):
                return a.equals(b)
            if isinstance(a, dict):
                return a.keys() == b.keys() and all(is_equal(a[key], b[key]) for key in a)
            return len(a) == len(b) and all(map(is_equal, a, b)) if isinstance(a, list) else a == b

        def identity(value):
            return value

        for value in values:
            made = producer.make.remote(identity, value)
            forwarded = consumer.forward.remote(made)
            assert is_equal(value, ray.get(made)), value  # the driver receives, too
            assert is_equal(value, ray.get(forwarded)), value
            assert ray.get(consumer.use.remote(lambda got, value=value: is_equal(value, got), made)), value
            # Ray hangs if it finds nothing for the transport in what is put.
            is_taken = isinstance(value, (pa.Table, np.ndarray, dict)) and getattr(value, "dtype", None) != object
            if DRIVER_PUTS and is_taken:
                put = ray.put(value, _tensor_transport="crossdock")
                assert ray.get(consumer.use.remote(lambda got, value=value: is_equal(value, got), put)), value

        # Beside these, such types go in Ray's own way.
        assert is_equal(table, ray.get(ray.put(table)))
        assert (ray.get(ray.put(cube)) == cube).all()
        assert not ray.get(ray.put(cube)).flags.writeable, "out of Ray's object store, without a copy"

        # What goes back to the actor that made it is the object itself.
        assert is_equal(cube, ray.get(producer.make.remote(identity, producer.make.remote(identity, cube))))
        """,
    )


@needs_ray
def test_everybody_sees_their_own_writes_alone_and_memory_is_returned(run):
    run(
        """
        @ray.remote
        class Producer(Base):
            @ray.method(tensor_transport="crossdock")
            def make(self, where):
                self.array = (xd.pool.default().empty if where == "pool" else np.empty)(N)
                self.array[:] = 1
                return self.array

            @ray.method(tensor_transport="crossdock")
            def table(self, where):
                values = (xd.pool.default().empty if where == "pool" else np.empty)(N)
                values[:] = 1
                self.array = None
                return pa.table({"x": values, "y": np.arange(10.0).repeat(N // 10 + 1)[:N]})

            def change(self):
                self.array[:] = 7

            def forget(self):
                self.array = None


        @ray.remote(enable_tensor_transport=True)
        class Consumer(Base):
            def hold(self, array):
                assert (array == 1).all()
                self.array = array
                self.array[:10] += 1

            def sum(self):
                return float(self.array.sum())

            @ray.method(tensor_transport="crossdock")
            def forward(self, value):
                return value

            def forget(self):
                self.array = None
        """,
        """
        producer, first, second = Producer.remote(), Consumer.remote(), Consumer.remote()
        for where in ("heap", "pool"):
            before = ray.get(producer.copies.remote())
            made = producer.make.remote(where)
            ray.get([first.hold.remote(made), second.hold.remote(made)])
            ray.get(producer.change.remote())
            assert ray.get([first.sum.remote(), second.sum.remote()]) == [N + 10.0] * 2
            assert ray.get(producer.copies.remote()) - before == 1  # the copy, or the array itself
            assert (ray.get(made) == 1).all(), "what was sent is what it was then"
            assert len(ray.get(producer.published.remote())) == 1
            del made
            wait_until(lambda: not ray.get(producer.published.remote()))
            assert ray.get([first.sum.remote(), second.sum.remote()]) == [N + 10.0] * 2
            ray.get([actor.forget.remote() for actor in (producer, first, second)])
            wait_until(lambda: ray.get(producer.busy_bytes.remote()) == 0)

        # A table's columns in the pool aren't copied, and those outside are. What was received goes on without a copy.
        before = ray.get(producer.copies.remote())
        table = producer.table.remote("pool")
        total = ray.get(first.forward.remote(second.forward.remote(table)))
        assert float(total["x"].to_numpy().sum()) == N
        assert ray.get(producer.copies.remote()) - before == 2
        assert ray.get([first.copies.remote(), second.copies.remote()]) == [0, 0]
        del table, total
        wait_until(lambda: not any(ray.get([actor.published.remote() for actor in (producer, first, second)])))
        wait_until(lambda: ray.get(producer.busy_bytes.remote()) == 0)

        for i in range(50):  # nothing stays
            assert ray.get(first.forward.remote(producer.table.remote("heap"))).num_rows == N
        wait_until(lambda: not any(ray.get([actor.published.remote() for actor in (producer, first, second)])))
        wait_until(lambda: ray.get(producer.busy_bytes.remote()) == 0)
        if DRIVER_PUTS:
            put = ray.put(np.ones(N), _tensor_transport="crossdock")
            assert len(Base().published()) == 1
            del put
        wait_until(lambda: not Base().published() and Base().busy_bytes() == 0)
        """,
    )


@needs_ray
def test_tensors_arrive_as_they_were(run):
    pytest.importorskip("torch")
    run(
        ACTORS,
        """
        import torch

        producer, consumer = Producer.remote(), Consumer.remote()
        base = torch.arange(100_000, dtype=torch.float32)
        for tensor in [
            base, base.reshape(100, 1000).T, base[::2], base.to(torch.bfloat16), base > 5, base.to(torch.complex64),
            base.clone().requires_grad_(), base[:3], base[:0],
        ]:
            def check(got, tensor=tensor):
                got.detach()[:1] = got.detach()[:1].clone()  # it can be written to
                return (torch.equal(got, tensor), got.dtype, got.shape, got.requires_grad)

            made = producer.make.remote(lambda tensor=tensor: {"weights": tensor})
            result = ray.get(consumer.use.remote(lambda got, check=check: check(got["weights"]), made))
            assert result == (True, tensor.dtype, tensor.shape, tensor.requires_grad), tensor
        """,
    )


@needs_ray
def test_streams_go_from_actor_to_actor(run):
    run(
        """
        @ray.remote
        class Producer(Base):
            def make(self, number, fails_at=None, kind="generator"):
                self.closed = False

                def batches():
                    try:
                        for i in range(number):
                            if i == fails_at:
                                raise ValueError("the source is tired")
                            yield pa.record_batch({"i": np.full(10_000, i)})
                    finally:
                        self.closed = True

                if kind == "function":
                    return crossdock.ray.stream(batches)
                if kind == "reader":
                    schema = pa.schema({"i": pa.int64()})
                    return crossdock.ray.stream(pa.RecordBatchReader.from_batches(schema, batches()))
                if kind == "table":
                    return crossdock.ray.stream(pa.Table.from_batches(list(batches())))
                if kind == "list":
                    return crossdock.ray.stream(list(batches()))
                return crossdock.ray.stream(batches())

            def is_closed(self):
                return self.closed

            def close(self, stream):
                stream.close()
                stream.close()


        @ray.remote
        class Consumer(Base):
            def numbers(self, stream, stop=None):
                found = []
                for batch in stream:
                    column = pa.record_batch(batch)["i"].to_numpy()
                    assert (column == column[0]).all()
                    found.append(int(column[0]))
                    if len(found) == stop:
                        break
                return found

            def rows(self, stream):
                return pa.RecordBatchReader.from_stream(stream).read_all().num_rows

            def ends(self, stream, started):
                numbers = iter(stream)
                next(numbers)
                started.set()
                for batch in numbers:
                    pass


        @ray.remote
        def count(stream):
            return sum(1 for _ in stream)
        """,
        """
        producer, consumer = Producer.remote(), Consumer.remote()
        for kind in ("generator", "function", "reader", "table", "list"):
            handle = producer.make.remote(300, kind=kind)
            assert ray.get(consumer.numbers.remote(handle)) == list(range(300)), kind
            with raises(xd.ConsumedError, "for one consumer"):
                list(ray.get(handle))
        assert ray.get(consumer.rows.remote(producer.make.remote(30))) == 300_000
        assert ray.get(count.remote(producer.make.remote(30))) == 30, "a task may read one, too"
        assert sum(1 for _ in ray.get(producer.make.remote(30))) == 30, "and so may the driver"
        assert ray.get(producer.published.remote()) == []

        # A consumer that leaves ends the source.
        assert ray.get(consumer.numbers.remote(producer.make.remote(10**9), 5)) == [0, 1, 2, 3, 4]
        wait_until(lambda: ray.get(producer.is_closed.remote()))

        with raises(ray.exceptions.RayTaskError, "the source is tired", 5):
            ray.get(consumer.numbers.remote(producer.make.remote(20, 10)))
        handle = ray.get(producer.make.remote(20))
        handle.close()  # elsewhere: nothing
        assert len(ray.get(producer.published.remote())) == 1
        ray.get(producer.close.remote(handle))
        assert ray.get(producer.published.remote()) == []
        with raises(xd.ConsumedError, "closed"):
            list(handle)
        with raises(TypeError, "stream"):
            crossdock.ray.stream("a path")
        with raises(TypeError, "a stream takes"):
            crossdock.ray.stream(3)

        # A killed source is an error at once, before the stream and in it.
        handle, begun = ray.get([producer.make.remote(20), producer.make.remote(10**9)])
        begun = iter(begun)
        next(begun)
        os.kill(ray.get(producer.pid.remote()), signal.SIGKILL)
        with raises((xd.ConnectionError, xd.TruncatedStreamError), "", 10):
            for _ in begun:
                pass
        with raises(xd.ConnectionError, "must live until it is received", 10):
            list(handle)
        del begun
        """,
    )


@needs_ray
def test_faults_have_names(run):
    run(
        ACTORS
        + """
@ray.remote
class Plain(Base):
    def use(self, value):
        return float(value[0])

@ray.remote
def task(value):
    return float(value[0])

class Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []
        self.came = threading.Event()

    def emit(self, record):
        self.lines.append(record.getMessage())
        self.came.set()
""",
        """
        producer, consumer, plain = Producer.remote(), Consumer.remote(), Plain.remote()
        ones = lambda: np.ones(N)

        # An actor without enable_tensor_transport: an error where the data is ready, else a line of the log at once.
        made = producer.make.remote(ones)
        ray.get([made, plain.pid.remote()])
        with raises(xd.UnsupportedError, "was made without enable_tensor_transport=True", 20):  # Ray waits for 60 s
            plain.use.remote(made)
        lines = Lines()
        logging.getLogger("crossdock").addHandler(lines)
        go = ray.put(1)
        waiting = plain.use.remote(producer.make.remote(lambda: time.sleep(0.2) or np.ones(N)))
        assert lines.came.wait(20)
        assert "was made without enable_tensor_transport=True" in lines.lines[0]
        ray.kill(plain)

        # A task.
        with raises(ray.exceptions.RayTaskError, "a task can't have it as an argument", 20):
            ray.get(task.remote(made))

        # A killed source: what was received stays, what wasn't is an error.
        made = producer.make.remote(ones)
        here = ray.get(made)
        later = producer.make.remote(ones)
        ray.wait([later])
        os.kill(ray.get(producer.pid.remote()), signal.SIGKILL)
        with raises((ray.exceptions.RayTaskError, ray.exceptions.RayActorError), "must live until it is received", 20):
            ray.get(consumer.use.remote(lambda array: float(array[0]), later))
        with raises(xd.ConnectionError, "must live until it is received", 10):
            ray.get(later)
        assert (here == 1).all()
        """,
    )


@needs_ray
def test_actors_of_other_machines_receive_over_tcp(run):
    run(
        ACTORS,
        """
        def move(self):
            from crossdock import _ray_transport

            _ray_transport._machine = lambda: "another machine"

        producer, consumer = Producer.remote(), Consumer.remote()
        ray.get(consumer.__ray_call__.remote(move))
        made = producer.make.remote(lambda: {"a": np.arange(N), "t": pa.table({"x": np.ones(N)})})

        def use(value):
            value["a"][0] = 5
            return int(value["a"].sum()), float(value["t"]["x"].to_numpy().sum())

        assert ray.get(consumer.use.remote(use, made)) == (N * (N - 1) // 2 + 5, N)
        assert {one["carrier"] for one in ray.get(producer.connections.remote())} == {"tcp"}

        # The port is of no use without the token, which only Ray's messages have.
        place = ray.get(producer.__ray_call__.remote(lambda self: crossdock.ray._ray_transport.local().place()))
        assert place.token not in repr(place)
        (uri,) = [uri for uri in place.uris if uri.startswith("tcp:")]
        for token in (None, "a guess"):
            with raises(xd.Error, ""):
                xd.connect(uri, token=token)

        # A machine whose shared memory can't be reached, as in a container: over tcp, too.
        place = place._replace(uris=("shm:nobody-is-here", uri))
        stream = ray.get(producer.__ray_call__.remote(
            lambda self: crossdock.ray.stream([pa.record_batch({"x": np.ones(N)})] * 3)
        ))
        stream._place = place
        assert sum(batch.num_rows for batch in stream) == 3 * N
        """,
    )


@runs("python", "docs/how-to/ray.md")
@needs_ray
def test_the_page_runs(run):
    register, actors, moving, streams = blocks("python", "docs/how-to/ray.md")
    run(f"{register}\n{actors}", f"{moving}\n{streams}")


@needs_ray
def test_the_example_runs(program, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    started = program(sys.executable, str(ROOT / "examples" / "ray_actors.py"))
    assert [started.read_line() for _ in range(3)] == ["sum: 499999500000.0", "changed: 300000.0", "rows: 100000"]
    started.finish()
    xd.serve({}).close()  # removes the sockets of the workers, which Ray kills


def test_importing_the_package_imports_no_ray(script):
    started = script("""
        import sys
        import crossdock
        print([name for name in ("ray", "crossdock.ray") if name in sys.modules])
    """)
    assert started.read_line() == "[]"
    started.finish()


def test_an_older_ray_is_named(script, tmp_path):
    (tmp_path / "ray" / "experimental").mkdir(parents=True)
    (tmp_path / "ray" / "__init__.py").write_text("__version__ = '2.54.0'\n")
    (tmp_path / "ray" / "experimental" / "__init__.py").write_text(
        "def register_tensor_transport(name, devices, manager): pass\n"
    )
    started = script(f"""
        import sys
        sys.path.insert(0, {os.fspath(tmp_path)!r})
        import crossdock as xd
        try:
            import crossdock.ray
        except xd.UnsupportedError as error:
            print(error)
    """)
    assert started.read_line() == "crossdock.ray needs Ray 2.55 or later; this is Ray 2.54.0"
    started.finish()
