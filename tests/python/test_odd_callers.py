"""Callers who do what Python allows, and hardly anybody does: objects without an __init__(), numbers and texts without
measure, classes with any name."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crossdock as xd
from crossdock import _native

LONG = "x" * 1_000_000
NASTY = "a\x1b[31m\u202e\x85\nb"
HUGE = 10**5000  # more digits than Python writes


class Uninitialized(xd.RecordBatch):
    def __init__(self) -> None:  # calls no super().__init__()
        pass


@pytest.mark.parametrize("key", [0, "a", slice(0, 1)])
@pytest.mark.parametrize("make", [Uninitialized, lambda: xd.RecordBatch.__new__(xd.RecordBatch)])
def test_a_batch_without_its_init_is_a_type_error(make: Callable[[], Any], key: Any) -> None:
    with pytest.raises(TypeError, match=r"super\(\).__init__\(\)"):
        make()[key]


def test_a_batch_whose_init_has_failed_is_a_type_error() -> None:
    made: list[Any] = []

    class Kept(xd.RecordBatch):
        def __init__(self) -> None:
            made.append(self)
            super().__init__(3)

    with pytest.raises(xd.UnsupportedTypeError):
        Kept()
    with pytest.raises(TypeError, match="isn't initialized"):
        made[0][0]


@pytest.mark.parametrize("kind", [_native.ArenaBuffer, _native.PoolBuffer, _native.PeerFrame])
def test_a_buffer_that_was_never_made_has_no_bytes(kind: Any) -> None:
    with pytest.raises(TypeError, match="isn't initialized"):
        memoryview(kind.__new__(kind))


NUMBERS: dict[str, Callable[[int], object]] = {
    "window": lambda number: xd.serve(window=number),
    "lease_limit": lambda number: xd.serve(lease_limit=number),
    "lease_patience": lambda number: xd.serve(lease_patience=-abs(number)),
    "user id": lambda number: xd.serve(users=[number]),
    "reserve": lambda number: xd.Arena(number),
    "nbytes": lambda number: xd.Arena().buffer(number),
    "the size of an array": lambda number: xd.pool.Pool().empty(abs(number)),
    "limit": lambda number: xd.pool.Pool(number),
}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_without_measure_are_refused_in_few_words(name: str, sign: int) -> None:
    with pytest.raises(xd.InvalidArgumentError, match=r"a number of 16,61\d bits") as caught:
        NUMBERS[name](sign * HUGE)
    assert name in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_time_without_measure_is_the_longest() -> None:
    with xd.serve({"x": pa.table({"a": [1]})}) as server, xd.connect(server.uri, timeout=HUGE) as client:
        assert [len(batch) for batch in client.get("x", timeout=HUGE)] == [1]


def named(name: str) -> object:
    return type(name, (), {})()


def written(text: str, base: type = object, *, error: bool = False) -> object:
    """An object that says `text` of itself, or that raises an error and has a class of that name."""

    def repr_(_: object) -> str:
        if error:
            raise RuntimeError
        return text

    return type(text, (base,), {"__repr__": repr_})()


TEXTS: dict[str, Callable[[str, Any, xd.Client], object]] = {
    "wait": lambda text, _, client: client.get("x", wait=text),  # type: ignore[arg-type]
    "validation": lambda text, _, client: client.get("x", validation=text),  # type: ignore[arg-type]
    "way": lambda text, _, client: xd.connect("shm:x", way=text),  # type: ignore[arg-type]
    "form": lambda text, path, _: xd.write(pa.table({"a": [1]}), path, form=text),  # type: ignore[arg-type]
    "compression": lambda text, path, _: xd.write(pa.table({"a": [1]}), path, compression=text),  # type: ignore[arg-type]
    "usm_type": lambda text, _, __: xd.asarray(np.arange(3), usm_type=text),  # type: ignore[arg-type]
    "device": lambda text, _, __: xd.Device(text),
    "filter": lambda text, _, client: client.table("x").filter([("a", text, 1)]),
    "a class": lambda text, _, client: client.get("x", wait=named(text)),  # type: ignore[arg-type]
    "a type": lambda text, _, client: client.get(named(text)),  # type: ignore[arg-type]
    "a path": lambda text, path, _: xd.open(named(text)),  # type: ignore[arg-type]
    "a value": lambda text, _, client: client.get("x", wait=written(text)),  # type: ignore[arg-type]
    "a text": lambda text, _, client: client.get("x", wait=written(text, str)),  # type: ignore[arg-type]
    "a value that can't be written": lambda text, _, client: client.get("x", wait=written(text, error=True)),  # type: ignore[arg-type]
    "Flight server": lambda text, _, __: xd.connect(f"grpc://{text}:1"),
    "asarray": lambda text, _, __: xd.asarray(named(text)),  # type: ignore[arg-type]
    "RecordBatch": lambda text, _, __: xd.RecordBatch(named(text)),  # type: ignore[arg-type]
    "a list": lambda text, _, __: xd.RecordBatchReader([named(text)]),  # type: ignore[arg-type]
    "write": lambda text, path, _: xd.write(named(text), path),  # type: ignore[arg-type]
    "an index": lambda text, _, __: xd.asarray(np.arange(3))[named(text)],  # type: ignore[index]
}


@pytest.mark.parametrize("text", [LONG, NASTY, "a\u202eb"], ids=["long", "nasty", "without a shape"])
@pytest.mark.parametrize("name", TEXTS)
def test_foreign_texts_are_quoted_cut_and_printable(name: str, text: str, tmp_path: Any) -> None:
    table = pa.table({"a": [1]})
    with (
        xd.serve({"x": table}) as server,
        xd.connect(server.uri) as client,
        pytest.raises((xd.Error, TypeError)) as caught,
    ):
        TEXTS[name](text, tmp_path / "x.arrow", client)
    message = str(caught.value)
    assert len(message) < 2000
    assert [character for character in message if not character.isprintable()] == []


def write(path: Any, **options: Any) -> None:
    xd.write(pa.table({"a": [1]}), path, **options)


# By what the error must name: each takes one option, which gets a value of another type.
OPTIONS: dict[str, Callable[[Any, Any, xd.Client], object]] = {
    "limits of serve": lambda value, _, __: xd.serve(limits=value),
    "limits of get": lambda value, _, client: client.get("x", limits=value),
    "limits of tensor": lambda value, _, client: client.tensor("y", limits=value),
    "limits of tensors": lambda value, _, client: client.tensors("y", limits=value),
    "limits of open": lambda value, path, _: xd.open(path, limits=value),
    "wait of serve": lambda value, _, __: xd.serve(wait=value),
    "wait of get": lambda value, _, client: client.get("x", wait=value),
    "wait of tensor": lambda value, _, client: client.tensor("y", wait=value),
    "wait of tensors": lambda value, _, client: client.tensors("y", wait=value),
    "validation of get": lambda value, _, client: client.get("x", validation=value),
    "validation of open": lambda value, path, _: xd.open(path, validation=value),
    "way": lambda value, _, __: xd.connect("shm:x", way=value),
    "columns of get": lambda value, _, client: client.get("x", columns=[value]),
    "columns of table": lambda value, _, client: client.table("x", columns=[value]),
    "form": lambda value, path, _: write(path, form=value),
    "compression": lambda value, path, _: write(path, compression=value),
    "level": lambda value, path, _: write(path, compression="zstd", level=value),
    "server_name": lambda value, _, __: xd.TLS(server_name=value),
    "arena": lambda value, _, client: client.get("x", arena=value),
    "stable of serve": lambda value, _, __: xd.serve(stable=value),
    "stable of publish": lambda value, path, _: xd.serve().publish("z", path, stable=value),
    "mode": lambda value, path, _: xd.serve().publish("z", path, mode=value),
    "stats": lambda value, _, __: xd.serve(stats=value),
    "puts": lambda value, _, __: xd.serve(flight="grpc://127.0.0.1:0", puts=value),
    "remote_reads": lambda value, _, __: xd.connect("ucx://localhost:1", remote_reads=value),
    "users": lambda value, _, __: xd.serve(users=value),
    "writable of get": lambda value, _, client: client.get("x", writable=value),
    "writable of an arena": lambda value, _, __: xd.Arena(writable=value),
}


@pytest.fixture(scope="module")
def offering(tmp_path_factory: Any) -> Any:
    path = tmp_path_factory.mktemp("offering") / "x.arrow"
    write(path)
    with xd.serve({"x": path, "y": np.arange(3)}) as server, xd.connect(server.uri) as client:
        yield path, client


TAKEN = [("level", "a number"), ("users", "an array")]
VALUES = {"a number": 5, "an array": np.zeros(3)}


@pytest.mark.parametrize(("name", "value"), [each for each in itertools.product(OPTIONS, VALUES) if each not in TAKEN])
def test_an_option_of_another_type_is_named(name: str, value: str, offering: Any) -> None:
    option, *_ = name.split()
    with pytest.raises(TypeError, match=rf"\b{option}\b") as caught:
        OPTIONS[name](VALUES[value], *offering)
    assert "incompatible function arguments" not in str(caught.value)


@pytest.mark.parametrize("columns", [5, b"a", "a"])
def test_columns_are_a_list(columns: Any, offering: Any) -> None:
    _, client = offering
    for ask in (client.get, client.table):
        with pytest.raises(TypeError, match="columns must be a list of names"):
            ask("x", columns=columns)


def test_a_level_that_no_codec_has_is_named(tmp_path: Any) -> None:
    with pytest.raises(xd.InvalidArgumentError, match=f"^level must be .*; it was {2**40}"):
        write(tmp_path / "x.arrow", compression="zstd", level=2**40)


def test_an_array_is_no_device() -> None:
    device: Any = np.zeros(3)
    with pytest.raises(xd.InvalidArgumentError, match="a device must be"):
        xd.Arena(device=device)
    assert xd.Arena(device="cpu").device == xd.Arena(device=(1, 0)).device == xd.Device("cpu")


SURROGATES: dict[str, Callable[[str], object]] = {
    "the token": lambda text: xd.serve({}, "tcp:", token=text),
    "the user name of login": lambda text: xd.connect("grpc://127.0.0.1:1", login=(text, "a")),
    "the password of login": lambda text: xd.connect("grpc://127.0.0.1:1", login=("a", text)),
    "server_name": lambda text: xd.TLS(server_name=text),
    "the column's name '\\ud800'": lambda text: xd.connect("shm:x").table("x", columns=[text]),
}


@pytest.mark.parametrize("name", SURROGATES)
def test_texts_that_are_not_utf8_are_named(name: str) -> None:
    with xd.serve({}, "shm:x"), pytest.raises(xd.InvalidArgumentError) as caught:
        SURROGATES[name]("\ud800")
    assert str(caught.value).startswith(f"{name} has surrogates, which aren't UTF-8")


@pytest.mark.parametrize("path", ["\ud800", "\ud800.csv", "a\0b"])
def test_paths_that_no_file_can_have_are_quoted(path: str) -> None:
    with xd.serve() as server:
        for use in (xd.open, write, lambda path: server.publish("x", path), lambda path: xd.TLS(roots=path)):
            with pytest.raises(xd.InvalidArgumentError) as caught:
                use(path)
            assert (
                str(caught.value)
                .removeprefix("roots of xd.TLS: ")
                .startswith(f"the path {path!r} has a NUL" if "\0" in path else f"the path {path!r} has sur")
            )


def test_names_are_quoted_once() -> None:
    with xd.serve({"n" * 60_000: pa.table({"a": [1]}), b"a\n": pa.table({"a": [1]})}) as server:
        client = xd.connect(server.uri)
        with pytest.raises(xd.InvalidArgumentError, match=r"^\"n{200}... \(60000 bytes\)\" of shm:.* is a table"):
            client.tensor("n" * 60_000)
        with pytest.raises(xd.InvalidArgumentError, match=r'^"a\\n" of shm:.* is a table'):
            client.tensor(b"a\n", out=np.zeros(1))


def test_long_names_of_columns_are_cut() -> None:
    batch = xd.RecordBatch(pa.record_batch({LONG: [1], NASTY: [2]}))
    with pytest.raises(xd.NotFoundError, match=r"\(1000000 bytes\), a\\x1b") as caught:
        batch["none"]
    assert len(str(caught.value)) < 400
