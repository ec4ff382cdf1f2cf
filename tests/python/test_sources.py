"""Every kind of thing that can be served, and what it costs."""

from __future__ import annotations

import contextlib
import ctypes
import pathlib
import threading
import time
import weakref
from collections.abc import Callable, Iterator

import nanoarrow as na
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import crossdock as xd

TABLE = pa.table({"n": pa.array([1, 2, None, 4], pa.int32()), "s": ["a", None, "ccc", ""]})


def read(server: xd.Server, name: str, **options: object) -> pa.Table:
    with xd.connect(server.uri) as client:
        return pa.table(client.get(name, **options))  # type: ignore[arg-type]


def kind_of(server: xd.Server, name: str) -> str:
    return next(source["kind"] for source in server.stats()["sources"] if source["name"] == name)


BATCHES_OF_8_KIB = [pa.record_batch({"n": np.full(1024, i, "i8")}) for i in range(50)]


def hoard(reader: xd.RecordBatchReader) -> Iterator[xd.RecordBatch]:
    """Whatever comes, until a wait for more of it is over."""
    with contextlib.suppress(xd.TimeoutError):
        yield from reader


def reader_of(table: pa.Table) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches())


class OnlyDeviceStream:
    """A producer that has the device method alone."""

    def __init__(self, uri: str, name: str) -> None:
        self._client = xd.connect(uri)
        self._name = name

    def __arrow_c_device_stream__(self, requested_schema: object = None, **kwargs: object) -> object:
        return self._client.get(self._name).__arrow_c_device_stream__(requested_schema, **kwargs)


class OnlyDeviceArray:
    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __arrow_c_device_array__(self, requested_schema: object = None, **kwargs: object) -> object:
        return self._batch.__arrow_c_device_array__(requested_schema, **kwargs)


def test_a_table_is_copied_once_and_shared_by_all_consumers():
    with xd.serve({"t": TABLE}) as server:
        for _ in range(3):
            assert read(server, "t").equals(TABLE)
        (source,) = server.stats()["sources"]
        assert source["kind"] == "table"
        assert source["rows"] == 4
        assert source["streams"] == 3
        assert 0 < source["bytes_copied"] <= 2 * TABLE.nbytes + 1024


def test_a_record_batch_is_a_table():
    batch = TABLE.to_batches()[0]
    with xd.serve({"t": batch}) as server:
        assert read(server, "t").to_batches()[0].equals(batch)
        assert kind_of(server, "t") == "table"


@pytest.mark.parametrize(
    ("array", "values"),
    [
        (pa.array([1, None, 3]), [1, None, 3]),
        (pa.array(["x", "yy"]).slice(1), ["yy"]),
        (pa.chunked_array([[1], [2, 3]]), [1, 2, 3]),
        (na.Array([7, 8], na.int32()), [7, 8]),
        (pa.array(["p", "q", "p"]).dictionary_encode(), ["p", "q", "p"]),
    ],
    ids=["array", "slice", "chunked", "nanoarrow", "dictionary"],
)
def test_an_array_is_a_table_of_one_column(array, values):
    with xd.serve({"a": array}) as server:
        table = read(server, "a")
        assert table.num_columns == 1
        assert table.column(0).to_pylist() == values
        assert kind_of(server, "a") == "table"


def test_a_struct_array_is_a_batch():
    array = pa.array([{"x": 1, "y": "a"}, {"x": 2, "y": None}])
    with xd.serve({"a": array}) as server:
        assert read(server, "a").to_pylist() == array.to_pylist()


def test_producers_with_device_methods_alone():
    with xd.serve({"t": TABLE, "array": OnlyDeviceArray(TABLE.to_batches()[0])}) as server:
        server.publish("stream", OnlyDeviceStream(server.uri, "t"))
        assert kind_of(server, "array") == "table"
        assert kind_of(server, "stream") == "live"
        assert read(server, "array").equals(TABLE)
        assert read(server, "stream").equals(TABLE)


def test_a_reader_is_a_live_stream_for_one_consumer():
    with xd.serve({"s": reader_of(TABLE)}) as server:
        assert kind_of(server, "s") == "live"
        assert read(server, "s").equals(TABLE)
        with pytest.raises(xd.ConsumedError, match="s"):
            read(server, "s")


def test_our_own_reader_can_be_served_on():
    with (
        xd.serve({"t": TABLE}) as first,
        xd.connect(first.uri) as client,
        xd.serve({"again": client.get("t")}) as second,
    ):
        assert kind_of(second, "again") == "live"
        assert read(second, "again").equals(TABLE)


def test_mode_overrides_the_rule():
    with xd.Server() as server:
        server.publish("whole", reader_of(TABLE), mode="table")
        server.publish("once", TABLE, mode="live")
        assert kind_of(server, "whole") == "table"
        assert kind_of(server, "once") == "live"
        assert read(server, "whole").equals(read(server, "whole"))
        assert read(server, "once").equals(TABLE)
        with pytest.raises(xd.ConsumedError):
            read(server, "once")


def test_a_callable_is_called_for_each_consumer_on_a_thread_of_the_servers():
    threads = []

    def make():
        threads.append(threading.get_ident())
        return reader_of(TABLE)

    with xd.serve({"f": make}) as server:
        assert not threads
        for _ in range(2):
            assert read(server, "f").equals(TABLE)
        assert kind_of(server, "f") == "factory"
    assert len(threads) == 2
    assert threading.get_ident() not in threads


def numbers(*, fail_at: int = -1, last: object = None, n: int = 5) -> Iterator[object]:
    for i in range(n):
        if i == fail_at:
            raise LookupError("no such batch")
        yield pa.record_batch({"n": [i]})
    if last is not None:
        yield last


def test_an_iterator_is_a_live_stream_and_a_generator_function_makes_one_for_each():
    with xd.serve({"once": numbers(), "each": numbers}) as server:
        server.publish("whole", numbers(), mode="table")
        assert [kind_of(server, name) for name in ("once", "each", "whole")] == ["live", "factory", "table"]
        for name in ("once", "each", "each", "whole", "whole"):
            assert read(server, name)["n"].to_pylist() == [0, 1, 2, 3, 4]
        with pytest.raises(xd.ConsumedError):
            read(server, "once")
    assert [len(batch) for batch in xd.RecordBatchReader(numbers())] == [1] * 5


def test_an_iterator_is_released_where_python_may_run_and_when_its_stream_is_left():
    closed = threading.Event()

    def endless() -> Iterator[pa.RecordBatch]:
        try:
            while True:
                yield pa.record_batch({"n": [1]})
        finally:
            closed.set()

    with xd.serve({"t": endless}) as server, xd.connect(server.uri) as client:
        with client.get("t") as reader:
            next(reader)
        while not closed.wait(0.01):
            server.stats()  # Python's objects are dropped where Python runs in the package


def test_iterators_that_fail():
    with xd.serve({"late": lambda: numbers(fail_at=3), "at once": lambda: numbers(fail_at=0)}) as server:
        for name in ("late", "at once"):
            with pytest.raises((xd.RemoteError, OSError), match="raised LookupError: no such batch"):
                read(server, name)
        for wrong, error in ((5, "an iterator must give record batches"), (TABLE, "pass it by itself")):
            server.publish("wrong", numbers(last=wrong), replace=True)
            with pytest.raises(pa.ArrowException, match=error):
                read(server, "wrong")
        server.publish("other", numbers(last=pa.record_batch({"x": [1.0]})))
        with pytest.raises(pa.ArrowInvalid, match="differs from the schema"):
            read(server, "other")
        with pytest.raises(LookupError, match="no such batch"):
            server.publish("x", numbers(fail_at=0))
        with pytest.raises(xd.InvalidArgumentError, match="an iterator without batches has no schema"):
            server.publish("x", iter(()))
        with pytest.raises(xd.RemoteError, match="raised LookupError"):
            server.publish("x", numbers(fail_at=3), mode="table")


def test_sources_have_names():
    text = "sources must be a mapping from names to sources, as in {'flights': table} and {'flights': 'flights.arrow'}"
    for given, end in ((TABLE, ", not Table"), ("flights.arrow", ", not str"), (5, ", not int")):
        with pytest.raises(xd.InvalidArgumentError) as raised:
            xd.serve(given)  # type: ignore[arg-type]
        assert str(raised.value) == text + end
    with pytest.raises(xd.InvalidArgumentError) as raised:
        xd.serve("shm:flights")  # type: ignore[arg-type]
    assert str(raised.value) == text + ", not str; give a URI as uri="


def test_what_is_no_table_is_not_written(tmp_path):
    says = (
        "write() takes an object with one of __arrow_c_stream__, __arrow_c_device_stream__, __arrow_c_array__, "
        "__arrow_c_device_array__, such as a table of pyarrow's, a list or iterator of batches, the path of an Arrow "
        "file, or a callable that gives such an object; this is builtins."
    )
    for source, end in ((5, "int"), ({"a": [1]}, "dict: give pyarrow.table(it), if its values are columns")):
        with pytest.raises(xd.UnsupportedTypeError) as raised:
            xd.write(source, tmp_path / "x.arrow")  # type: ignore[arg-type]
        assert str(raised.value) == says + end
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "kind", "help_"),
    [("t.arrow", "file", "xd.open(path) reads it, and "), ("t.parquet", "file", ""), ("folder", "folder", "")],
)
def test_a_client_does_not_connect_to_a_file(name, kind, help_, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    xd.write(TABLE, "t.arrow")
    pathlib.Path("t.parquet").touch()
    pathlib.Path("folder").mkdir()
    text = (
        f"'{name}' is a {kind}, and the URI of a server is expected here, such as shm:flights; {help_}"
        "xd.serve({'name': path}) serves it"
    )
    with pytest.raises(xd.UriError) as raised:
        xd.connect(name)
    assert str(raised.value) == text
    with xd.serve({}, f"shm:{name}"), pytest.raises(xd.UriError) as raised:
        xd.connect(name)
    assert str(raised.value) == f"{text}; did you mean shm:{name}?"


def test_a_class_is_a_callable():
    class Source:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return TABLE.__arrow_c_stream__(requested_schema)

    with xd.serve({"f": Source}) as server:
        assert kind_of(server, "f") == "factory"
        assert read(server, "f").equals(TABLE)


@pytest.mark.parametrize("as_path", [str, pathlib.Path])
@pytest.mark.parametrize("form", ["file", "stream"])
def test_an_arrow_file_is_passed_without_a_copy(tmp_path, as_path, form):
    path = tmp_path / "t.arrow"
    with (pa.ipc.new_file if form == "file" else pa.ipc.new_stream)(str(path), TABLE.schema) as sink:
        sink.write_table(TABLE)
    with xd.serve({"t": as_path(path)}) as server:
        assert read(server, "t").equals(TABLE)
        (source,) = server.stats()["sources"]
        assert (source["kind"], source["bytes_copied"]) == ("file", 0)


def test_a_snapshot_doesnt_follow_its_file(tmp_path):
    path = tmp_path / "t.arrow"
    with pa.ipc.new_file(str(path), TABLE.schema) as sink:
        sink.write_table(TABLE)
    with xd.serve({"t": path}, stable="snapshot") as server:
        path.unlink()
        assert read(server, "t").equals(TABLE)
        assert kind_of(server, "t") == "snapshot"


def test_a_changed_file_is_told_to_its_readers(tmp_path):
    path = tmp_path / "t.arrow"
    with pa.ipc.new_file(str(path), TABLE.schema) as sink:
        sink.write_table(TABLE)
    with xd.serve({"t": path}) as server:
        assert read(server, "t").equals(TABLE)
        with path.open("r+b") as file:
            file.seek(0, 2)
            file.write(b"more")
        with xd.connect(server.uri) as client, pytest.raises(xd.FileChangedError, match=r"t\.arrow"):
            for _ in client.get("t"):
                pass


@pytest.mark.parametrize(
    ("content", "error"),
    [(b"", xd.InvalidArgumentError), (b"not an Arrow file at all", xd.InvalidDataError), (None, xd.NotFoundError)],
    ids=["empty", "text", "absent"],
)
def test_a_path_that_is_no_arrow_file_is_refused(tmp_path, content, error):
    path = tmp_path / "bad.arrow"
    if content is not None:
        path.write_bytes(content)
    with xd.Server() as server:
        with pytest.raises(error, match=r"bad\.arrow"):
            server.publish("bad", path)
        with xd.connect(server.uri) as client:
            assert client.list() == []


def test_a_truncated_file_is_refused(tmp_path):
    path = tmp_path / "cut.arrow"
    with pa.ipc.new_file(str(path), TABLE.schema) as sink:
        sink.write_table(TABLE)
    path.write_bytes(path.read_bytes()[:-20])
    with xd.Server() as server, pytest.raises(xd.InvalidDataError, match=r"cut\.arrow"):
        server.publish("cut", path)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize("stable", ["trust", "snapshot"])
def test_a_compressed_file_is_decoded_once(tmp_path, codec, stable):
    path = tmp_path / "x.arrow"
    table = pa.table({"n": np.zeros(10000)})
    with pa.ipc.new_file(str(path), table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as sink:
        sink.write_table(table)
    with xd.serve({"z": path}, stable=stable) as server, xd.connect(server.uri) as client:
        for _ in range(2):
            assert pa.table(client.get("z")).equals(table)
        (stats,) = server.stats()["sources"]
    assert stats["kind"] == "snapshot"
    assert stats["bytes_copied"] == 80_000


def test_a_file_with_deltas_is_served_as_it_lies(tmp_path):
    path = tmp_path / "x.arrow"
    kind = pa.dictionary(pa.int8(), pa.string())
    arrays = [pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array(["a", "b"][: n + 1])) for n in range(2)]
    arrays.append(pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), pa.array(["a", "b"])))
    table = pa.table({"d": pa.chunked_array(arrays, kind)})
    with pa.ipc.new_file(str(path), table.schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as sink:
        sink.write_table(table)
    with xd.serve({"d": path}) as server, xd.connect(server.uri) as client:
        assert pa.table(client.get("d")).to_pydict() == table.to_pydict()
        assert server.stats()["sources"][0]["bytes_copied"] == 0


@pytest.mark.parametrize("source", [None, 3, object(), {"a", "b"}], ids=["None", "int", "object", "set"])
def test_other_objects_are_refused(source):
    with xd.Server() as server, pytest.raises(xd.UnsupportedTypeError, match="__arrow_c_stream__"):
        server.publish("x", source)


def test_a_list_is_one_of_batches():
    with xd.Server() as server:
        for wrong in (TABLE, reader_of(TABLE)):
            with pytest.raises(xd.UnsupportedTypeError, match=r"must hold record batches.* a table or stream: pass it"):
                server.publish("x", [*TABLE.to_batches(), wrong])
        with pytest.raises(xd.UnsupportedTypeError, match=r"must hold record batches.*\bint\b"):
            server.publish("x", [1])
        server.publish("x", TABLE.to_batches())


def test_a_uri_and_a_name_are_texts():
    for wrong in (5, b"shm:", ["shm:", 5]):
        with pytest.raises(TypeError, match=r"a URI must be a str, .* not (int|bytes)"):
            xd.serve(uri=wrong)
    with pytest.raises(TypeError, match=r"a URI must be a str, .* not int"):
        xd.connect(5)
    with pytest.raises(TypeError, match=r"a URI must be a str, .* not bytes"):
        xd.connect(metadata="shm:/x", data=b"shm:/x")
    with xd.serve({"t": TABLE}) as server, xd.connect(server.uri) as client:
        for use in (lambda: server.publish(5, TABLE), lambda: server.withdraw(5), lambda: client.get(5)):
            with pytest.raises(TypeError, match="a published name must be a str or bytes, not int"):
                use()


def test_a_type_that_cant_be_carried_names_its_field():
    array = pa.array([1, 1, 2])
    twice = pa.DictionaryArray.from_arrays([0, 1, 1], pa.array(["a", "b"]).dictionary_encode())
    table = pa.table({"fine": array, "twice": twice})
    with xd.Server() as server, pytest.raises(xd.UnsupportedTypeError, match=r'"twice": .* a dictionary whose values'):
        server.publish("x", table)


def test_names(tmp_path):
    with xd.serve({"t": TABLE, "ünï cødé/☃": TABLE}) as server:
        assert read(server, "ünï cødé/☃").equals(TABLE)
        for bad in ("", "t", "a\0b"):
            with pytest.raises(xd.InvalidArgumentError):
                server.publish(bad, TABLE)
        with pytest.raises(xd.InvalidArgumentError, match="NUL"):
            server.publish("p", str(tmp_path) + "\0")


def test_arguments_that_dont_fit_their_source(tmp_path):
    with xd.Server() as server:
        with pytest.raises(xd.InvalidArgumentError, match="mode"):
            server.publish("x", TABLE, mode="both")
        with pytest.raises(xd.InvalidArgumentError, match="callable"):
            server.publish("x", lambda: TABLE, mode="live")
        with pytest.raises(xd.InvalidArgumentError, match="path"):
            server.publish("x", TABLE, stable="trust")
        with pytest.raises(xd.InvalidArgumentError, match="stable"):
            server.publish("x", tmp_path, stable="maybe")


def test_publish_and_withdraw():
    with xd.Server() as server, xd.connect(server.uri) as client:
        assert client.list() == []
        server.publish("t", TABLE)
        reader = client.get("t")
        server.withdraw("t")
        with pytest.raises(xd.NotFoundError, match="t"):
            client.get("t")
        with pytest.raises(xd.NotFoundError):
            server.withdraw("t")
        assert pa.table(reader).equals(TABLE)
        server.publish("t", TABLE.slice(1))
        assert pa.table(client.get("t")).equals(TABLE.slice(1))


def test_serve_that_fails_says_which_source_and_leaves_no_server():
    with pytest.raises(xd.UnsupportedTypeError) as caught:
        xd.serve({"good": TABLE, "bad": object()})
    assert any("'bad'" in note for note in caught.value.__notes__)


def test_a_consumer_at_its_lease_limit_gets_the_rest_by_value():
    table = pa.Table.from_batches(BATCHES_OF_8_KIB)
    sources = {"t": lambda: reader_of(table)}
    with (
        xd.serve(sources, lease_limit=64 << 10) as server,
        xd.connect(server.uri) as client,
    ):
        held = list(client.get("t", timeout=30))
        (consumer,) = server.stats()["consumers"]
        assert 0 < consumer["leased_bytes"] <= 64 << 10
        assert consumer["leased_bytes"] + consumer["bytes_by_value"] == consumer["bytes"]
        assert [pa.record_batch(batch)["n"][0].as_py() for batch in held] == list(range(len(BATCHES_OF_8_KIB)))


def test_with_endless_patience_a_consumer_at_its_limit_is_waited_for():
    table = pa.Table.from_batches(BATCHES_OF_8_KIB)
    sources = {"t": lambda: reader_of(table)}
    with (
        xd.serve(sources, lease_limit=64 << 10, lease_patience=None) as server,
        xd.connect(server.uri) as client,
    ):
        reader = client.get("t", timeout=0.5)
        held = list(hoard(reader))
        assert 0 < len(held) < len(BATCHES_OF_8_KIB)
        # That time is over, and then another: nothing ends the stream but its consumer.
        held += hoard(reader)
        assert len(held) < len(BATCHES_OF_8_KIB)
        values = [pa.record_batch(batch)["n"][0].as_py() for batch in held]
        held.clear()
        # From here on each batch goes back before the next is asked for.
        values += [pa.record_batch(batch)["n"][0].as_py() for batch in hoard(reader)]
        assert values == list(range(len(BATCHES_OF_8_KIB)))


@pytest.mark.parametrize("sources", ["flights.arrow", ["flights.arrow"], pa.table({"x": [1]})])
def test_sources_without_names_are_refused_by_an_example(sources):
    with pytest.raises(xd.InvalidArgumentError, match=r"\{'flights': 'flights.arrow'\}"):
        xd.serve(sources)


@pytest.mark.parametrize("uri", ["shm:", "shm:t", ["shm:", "shm:t"]])
def test_a_token_that_nobody_would_ask_for_is_refused(uri):
    with pytest.raises(xd.InvalidArgumentError, match="token is for networks"):
        xd.serve({"t": TABLE}, uri, token="a secret")
    with xd.serve({"t": TABLE}, ["shm:", "tcp:"], token="a secret") as server:
        for one in server.uris:
            with xd.connect(one, token="a secret") as client:
                assert pa.table(client.get("t")) == TABLE


def test_a_failure_is_told_with_line_ends_and_once():
    def fails():
        raise ValueError("one\ntwo")

    def fails_later():
        def batches():
            yield from TABLE.to_batches()
            raise ValueError("one\ntwo")

        return pa.RecordBatchReader.from_batches(TABLE.schema, batches())

    with xd.serve({"t": fails, "later": fails_later}) as server, xd.connect(server.uri) as client:
        with pytest.raises(xd.RemoteError, match=r"ValueError: one\\ntwo"):
            list(client.get("t"))
        with (
            xd.serve({"relayed": lambda: client.get("later")}) as second,
            xd.connect(second.uri) as other,
            pytest.raises(xd.RemoteError) as caught,
        ):
            list(other.get("relayed"))
        assert "one\\ntwo" in str(caught.value)
        assert "RemoteError" not in str(caught.value)


def test_connections_are_counted_from_the_start():
    with xd.serve({"t": TABLE}) as server:
        for _ in range(3):
            with xd.connect(server.uri) as client:
                client.list()
        assert server.stats()["accepted_connections"] == 3


@pytest.mark.parametrize("suffix", [".parquet", ".CSV"])
def test_write_makes_no_arrow_file_of_another_formats_name(tmp_path, suffix):
    with pytest.raises(xd.InvalidArgumentError, match=f"must not end in {suffix.lower()}"):
        xd.write(pa.table({"x": [1]}), tmp_path / f"x{suffix}")
    assert list(tmp_path.iterdir()) == []


def soon(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def threads() -> int:
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("Threads:")[1].split()[0])


def test_one_consumer_has_a_limit_of_streams():
    with xd.serve({"t": TABLE}, max_streams=3) as server, xd.connect(server.uri) as client:
        held = [list(client.get("t")) for _ in range(3)]
        with pytest.raises(xd.LeaseLimitError, match="max_streams is 3"):
            client.get("t")
        held.pop()
        assert pa.table(client.get("t")).equals(TABLE)


@pytest.mark.long
def test_abandoned_streams_of_a_source_that_stands_still_leave_few_threads():
    go_on = threading.Event()

    def stands_still() -> pa.RecordBatchReader:
        go_on.wait()
        return reader_of(TABLE)

    before = threads()
    with xd.serve({"still": stands_still}, max_connections=40, source_threads=6) as server:
        try:
            for _ in range(100):
                with xd.connect(server.uri, timeout=0.05) as client, contextlib.suppress(xd.TimeoutError):
                    client.get("still")
            assert threads() <= before + 1 + 6 + 1  # the server's own, the pool's, and one that unmaps
        finally:
            go_on.set()


def test_abandoned_streams_whose_sources_never_began_are_no_connections():
    go_on = threading.Event()
    calls = []

    def stands_still() -> pa.RecordBatchReader:
        calls.append(1)
        go_on.wait()
        return reader_of(TABLE)

    with xd.serve({"still": stands_still, "t": TABLE}, max_connections=10, source_threads=2) as server:
        try:
            for _ in range(20):
                with xd.connect(server.uri, timeout=0.05) as client, contextlib.suppress(xd.TimeoutError):
                    client.get("still")
            assert len(calls) == 1, "one consumer's sources have half of the threads"
            assert read(server, "t").equals(TABLE)
        finally:
            go_on.set()
    assert len(calls) == 1, "a source was called for a stream that had ended"


def test_a_stream_whose_source_never_began_is_dropped_once_a_thread_is_free():
    go_on = threading.Event()

    def stands_still() -> pa.RecordBatchReader:
        go_on.wait()
        return reader_of(TABLE)

    class Rows:
        def __init__(self) -> None:
            self.n = 10

        def __iter__(self) -> Iterator[pa.RecordBatch]:
            yield from TABLE.to_batches()

    rows = Rows()
    alive = weakref.ref(rows)
    one_shot = pa.RecordBatchReader.from_batches(TABLE.schema, rows)
    del rows
    with xd.serve({"still": stands_still, "one-shot": one_shot}, source_threads=1) as server:
        del one_shot
        for name in ("still", "one-shot"):
            with xd.connect(server.uri, timeout=0.2) as client, contextlib.suppress(xd.TimeoutError):
                client.get(name)
        assert alive() is not None
        go_on.set()
        assert soon(lambda: alive() is None)


def counting_reader() -> pa.RecordBatchReader:
    """Each batch says how many its thread has made, as far as Python knows the thread."""
    mine = threading.local()

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(10):
            mine.calls = getattr(mine, "calls", 0) + 1
            yield pa.record_batch({"n": [mine.calls]})

    return pa.RecordBatchReader.from_batches(pa.schema({"n": pa.int64()}), batches())


@pytest.mark.parametrize("source", [counting_reader, counting_reader()], ids=["callable", "stream"])
def test_a_thread_that_reads_python_sources_stays_the_same_for_python(source):
    with xd.serve({"counting": source}, source_threads=1) as server:
        assert read(server, "counting")["n"].to_pylist() == list(range(1, 11)), "a state for each call"


def thread_states() -> int:
    """The threads that Python knows."""
    python = ctypes.pythonapi
    for function in (python.PyInterpreterState_Get, python.PyInterpreterState_ThreadHead, python.PyThreadState_Next):
        function.restype = ctypes.c_void_p
    count = 0
    state = python.PyInterpreterState_ThreadHead(ctypes.c_void_p(python.PyInterpreterState_Get()))
    while state is not None:
        count += 1
        state = python.PyThreadState_Next(ctypes.c_void_p(state))
    return count


def read_by_an_engine(stream: pa.RecordBatchReader) -> pa.Table:
    """What Arrow's own threads read from the stream, by way of our reader."""
    ours = pa.RecordBatchReader.from_stream(xd.RecordBatchReader(stream))
    return ds.Scanner.from_batches(ours).to_table()


def test_an_engines_threads_get_no_thread_state_of_ours():
    # Such a thread would take the GIL when it ends, where its owner may join it with the GIL held.
    before = thread_states()
    assert read_by_an_engine(reader_of(TABLE)).equals(TABLE)
    assert thread_states() == before


def test_an_engines_threads_get_the_producers_own_error():
    def batches() -> Iterator[pa.RecordBatch]:
        yield from TABLE.to_batches()
        raise NotImplementedError("no more than that")

    with pytest.raises(NotImplementedError, match="no more than that") as caught:
        read_by_an_engine(pa.RecordBatchReader.from_batches(TABLE.schema, batches()))
    assert "RemoteError" not in str(caught.value)


def test_an_error_lists_those_that_begin_like_the_name_first():
    names = ["trips", "trip-days", "train", "a", "b", "zebra", *(f"n{i}" for i in range(10)), "t", "tripods"]
    with xd.serve({name: pa.table({"n": [1]}) for name in names}, "shm:") as server, xd.connect(server.uri) as client:

        def listed(name: str) -> list[str]:
            with pytest.raises(xd.NotFoundError) as error:
                client.get(name)
            return str(error.value).partition("the catalog has ")[2].partition(" (")[0].split(", ")

        rest = ['"a"', '"b"', '"n0"', '"n1"', '"n2"', '"n3"', '"n4"', '"n5"']
        assert listed("trip") == ['"trip-days"', '"tripods"', '"trips"', '"train"', '"t"', *rest[:5], "..."]
        assert listed("zz") == ['"zebra"', *rest, '"n6"', "..."]
        assert listed("0") == [*rest, '"n6"', '"n7"', "..."]
        server.update({}, withdraw=[name for name in names if name.startswith(("n", "t"))])
        assert listed("b2") == ['"b"', '"a"', '"zebra"']
