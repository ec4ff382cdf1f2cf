"""Exporters that raise half way: where their attribute is read, or called. What they raise is what is seen."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from tests.exporter_samples import arrow, tensors
from tests.exporter_samples.capsules import ALIVE

import crossdock as xd

OF_ARRAYS = ["__dlpack__", "__cuda_array_interface__", "__array_interface__", "__array__"]
OF_BATCHES = ["__arrow_c_device_array__", "__arrow_c_array__"]
OF_STREAMS = ["__arrow_c_device_stream__", "__arrow_c_stream__"]
CONSUMERS: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "asarray": (xd.asarray, [*OF_ARRAYS, *OF_BATCHES, *OF_STREAMS]),
    "from_dlpack": (xd.from_dlpack, ["__dlpack__"]),
    "from_arrow": (xd.from_arrow, [*OF_BATCHES, *OF_STREAMS]),
    "RecordBatch": (xd.RecordBatch, [*OF_BATCHES, *OF_STREAMS]),
    "RecordBatchReader": (xd.RecordBatchReader, [*OF_BATCHES, *OF_STREAMS]),
    "list": (lambda obj: xd.RecordBatchReader([obj]), OF_BATCHES),
    "write": (lambda obj: xd.write(obj, "/dev/null"), [*OF_BATCHES, *OF_STREAMS]),
}
CASES = [(consumer, name) for consumer, (_, names) in CONSUMERS.items() for name in names]


class Interrupted(BaseException):
    """As KeyboardInterrupt is, which pytest takes for itself."""


def at_the_attribute(name: str, error: type[BaseException]) -> Any:
    def get(_: object) -> Any:
        raise error("half way")

    return type("Raises", (), {name: property(get)})()


def at_the_call(name: str, error: type[BaseException]) -> Any:
    def call(*_: object, **__: object) -> Any:
        raise error("half way")

    return type("Raises", (), {name: call})()


@pytest.mark.parametrize("error", [RuntimeError, MemoryError, KeyError, Interrupted], ids=lambda error: error.__name__)
@pytest.mark.parametrize(("consumer", "name"), CASES)
def test_at_the_attribute(consumer: str, name: str, error: type[BaseException]) -> None:
    with pytest.raises(error, match="half way"):
        CONSUMERS[consumer][0](at_the_attribute(name, error))


@pytest.mark.parametrize("error", [RuntimeError, Interrupted], ids=lambda error: error.__name__)
@pytest.mark.parametrize(("consumer", "name"), [case for case in CASES if "interface" not in case[1]])
def test_at_the_call(consumer: str, name: str, error: type[BaseException]) -> None:
    with pytest.raises(error, match="half way"):
        CONSUMERS[consumer][0](at_the_call(name, error))


def test_at_the_table_of_the_type() -> None:
    class Meta(type):
        @property
        def __dlpack_c_exchange_api__(cls) -> Any:
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        xd.asarray(Meta("Raises", (), {})())


def test_at_is_cpu() -> None:
    class Raises:
        @property
        def is_cpu(self) -> bool:
            raise RuntimeError("half way")

        def __arrow_c_array__(self, requested_schema: object = None) -> object:
            return pa.array([1]).__arrow_c_array__()

        __arrow_c_device_array__ = __arrow_c_array__

    for read in (xd.asarray, xd.RecordBatch):
        with pytest.raises(RuntimeError, match="half way"):
            read(Raises())


def test_at_the_dtype_of_an_array_interface() -> None:
    memory = bytearray(8)

    class Raises:
        def __init__(self) -> None:
            self.__array_interface__ = {"shape": (2,), "typestr": "|V4", "data": memory, "version": 3}

        @property
        def dtype(self) -> Any:
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        xd.asarray(Raises())


def test_producers_in_python_let_go_while_an_error_is_raised() -> None:
    """Their release and deleter run in the midst of it, and must neither see nor lose it."""
    before = len(ALIVE)
    for use in (
        lambda: xd.asarray(tensors.Floats()).to("gpu 7"),
        lambda: xd.asarray(tensors.Floats())[9],
        lambda: xd.RecordBatch(arrow.Batch()).to("gpu 7"),
        lambda: next(xd.RecordBatchReader(arrow.BatchStream())).to("gpu 7"),
    ):
        with pytest.raises((ValueError, IndexError), match=r"gpu 7|out of|9"):
            use()
    assert len(ALIVE) == before


def test_a_missing_attribute_is_none() -> None:
    with pytest.raises(TypeError, match="is not an array"):
        xd.asarray(at_the_attribute("__arrow_c_array__", AttributeError))


# ---- tables of C functions


@pytest.mark.parametrize("missing", ["get_schema", "get_next"])
@pytest.mark.parametrize("base", [arrow.Batches, arrow.DeviceBatches])
def test_a_stream_without_its_callbacks_is_refused_and_stays_its_producers(base: Any, missing: str) -> None:
    class Lacks(base):  # type: ignore[misc]
        def stream(self, raw: arrow.Stream) -> None:
            setattr(raw, missing, None)

    before = set(ALIVE)
    with pytest.raises(xd.InvalidDataError, match="get_schema or get_next"):
        xd.RecordBatchReader(Lacks())
    gc.collect()
    assert set(ALIVE) <= before, "the capsule's destructor released it"


@pytest.mark.parametrize("base", [arrow.Batches, arrow.DeviceBatches])
def test_a_stream_that_fails_without_a_callback_for_the_text_says_the_number(base: Any) -> None:
    class Fails(base):  # type: ignore[misc]
        status = 5

        def stream(self, raw: arrow.Stream) -> None:
            raw.get_last_error = None

    # Its release is Python, and runs while the error is raised: the reader goes then.
    with pytest.raises(xd.SystemError, match="Input/output error"):
        list(xd.RecordBatchReader(Fails()))


def subject() -> Any:
    class Subject(tensors.Tensor):
        pass

    return Subject


@pytest.mark.parametrize("table", [{"null": "from_py"}, {"major": 2}], ids=["no function", "of another version"])
def test_without_a_function_for_it_the_protocol_in_python_serves(table: dict[str, Any]) -> None:
    asked = []

    class Subject(tensors.Tensor):
        def __dlpack__(self, **keywords: Any) -> object:
            asked.append(keywords)
            return super().__dlpack__(**keywords)

    assert xd.asarray(tensors.exchange(Subject, **table)()).ndim > 0
    assert asked


def test_older_tables_that_lead_in_a_circle_are_left() -> None:
    kind = tensors.exchange(subject(), major=2)
    table = tensors.FOREVER[-1][1]
    table.prev_api = ctypes.addressof(table)
    assert xd.asarray(kind()).ndim > 0


def test_a_function_that_fails_without_an_error_says_so() -> None:
    kind = tensors.exchange(subject(), from_py=lambda _thing, _out: -1)
    with pytest.raises(xd.ExportError, match="failed without an error"):
        xd.asarray(kind())
