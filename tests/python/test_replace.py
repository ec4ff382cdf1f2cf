"""`publish(replace=True)`: another source under the same name, in one step."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import crossdock as xd


def version(number: int, batches: int = 1) -> pa.Table:
    return pa.Table.from_batches([pa.record_batch({"n": [number] * 5}) for _ in range(batches)])


def reader(number: int) -> pa.RecordBatchReader:
    table = version(number)
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches())


def test_every_kind_of_source_takes_the_place_of_every_other(tmp_path):
    path = tmp_path / "v.arrow"
    xd.write(version(0), path)
    sources = [lambda: version(0), lambda: path, lambda: reader(0), lambda: lambda: reader(0)]
    with xd.serve({"x": version(9)}) as server, xd.connect(server.uri) as client:
        for make in sources * 2:
            server.publish("x", version(9), replace=True)
            server.publish("x", make(), replace=True)
            assert [entry.name for entry in client.list()] == ["x"]
            assert pa.table(client.get("x")) == version(0)


def test_it_is_true_or_false():
    with (
        xd.serve({"x": version(1)}) as server,
        pytest.raises(TypeError, match="replace must be True or False, not str"),
    ):
        server.publish("x", version(2), replace="bad")


def test_without_it_the_error_says_so():
    with xd.serve({"x": version(1)}) as server:
        with pytest.raises(xd.InvalidArgumentError) as raised:
            server.publish("x", version(2))
        assert str(raised.value) == (
            '"x" is already published, and it isn\'t to be replaced: withdraw it first, or publish it with replace=True'
        )
        server.publish("y", version(2), replace=True)  # There is nothing to replace.


def test_a_source_that_fails_leaves_the_old_one(tmp_path):
    def batches():
        yield version(2).to_batches()[0]
        raise OSError("the disk is gone")

    failing = pa.RecordBatchReader.from_batches(version(2).schema, batches())
    with xd.serve({"x": version(1)}) as server, xd.connect(server.uri) as client:
        with pytest.raises(Exception, match="the disk is gone"):
            server.publish("x", failing, mode="table", replace=True)
        with pytest.raises(xd.NotFoundError):
            server.publish("x", tmp_path / "absent.arrow", replace=True)
        with pytest.raises(xd.InvalidArgumentError):
            server.publish("x", version(2), mode="sideways", replace=True)
        assert pa.table(client.get("x")) == version(1)


def test_streams_under_way_keep_the_old_one():
    with xd.serve({"x": version(1, 200)}, window=1) as server, xd.connect(server.uri) as client:
        stream = client.get("x")
        first = next(stream)
        server.publish("x", version(2), replace=True)
        assert pa.table(client.get("x")) == version(2)
        rest = [pa.record_batch(batch).column(0).to_pylist() for batch in stream]
        assert rest == [[1] * 5] * 199
        assert pa.record_batch(first).column(0).to_pylist() == [1] * 5


def test_consumers_never_find_neither():
    done = threading.Event()
    failures = []

    def consume(uri: str) -> None:
        newest = 0
        try:
            with xd.connect(uri) as client:
                while not done.is_set():
                    (number,) = set(pa.table(client.get("x"))["n"].to_pylist())
                    assert number >= newest
                    newest = number
                    assert len(client.list()) == 1
        except BaseException as error:
            failures.append(error)

    with xd.serve({"x": version(0)}) as server:
        threads = [threading.Thread(target=consume, args=(server.uri,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(1, 200):
            server.publish("x", version(number, 3), replace=True)
        done.set()
        for thread in threads:
            thread.join()
    assert failures == []


def test_texts_that_are_no_utf8_are_named():
    with xd.serve({}) as server:
        for call in (
            lambda: server.publish("\udcff", version(1)),
            lambda: server.withdraw("\udcff"),
        ):
            with pytest.raises(xd.InvalidArgumentError, match="aren't UTF-8"):
                call()
    with pytest.raises(xd.UriError, match="aren't UTF-8"):
        xd.connect("shm:\udcff")
