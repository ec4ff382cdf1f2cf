"""`Exports`: a class that describes its memory once, and has every protocol that the memory allows."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import nanoarrow
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import crossdock as xd
from crossdock.testing import simulated_devices

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

OF_TORCH: list[Any] = [] if torch is None else [torch.from_dlpack]
needs_torch = pytest.mark.skipif(torch is None, reason="needs torch")
DICTIONARIES = ("__cuda_array_interface__", "__sycl_usm_array_interface__")
ARROW = ("__arrow_c_array__", "__arrow_c_device_array__", "__arrow_c_schema__")


class Given(xd.Exports):
    """Describes itself as whatever it was given."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def __crossdock_array__(self) -> Any:
        return self.given


class Described(xd.Exports):
    """Describes its memory by a dict."""

    def __init__(self, array: np.ndarray, **entries: Any) -> None:
        self.array, self.entries = array, entries

    def __crossdock_array__(self) -> dict[str, Any]:
        interface = self.array.__array_interface__
        return {key: interface[key] for key in ("shape", "typestr", "data", "strides")} | self.entries


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


# What makes an array, and whether Arrow has it.
ARRAYS: dict[str, tuple[Callable[[], np.ndarray], bool]] = {
    "floats": (lambda: np.arange(6, dtype="f4").reshape(2, 3), True),
    "read-only": (lambda: read_only(np.arange(4.0)), True),
    "backwards": (lambda: np.arange(6, dtype="i2")[::-1], False),
    "a part": (lambda: np.arange(12).reshape(3, 4)[1:, ::2], False),
    "Fortran order": (lambda: np.asfortranarray(np.arange(6.0).reshape(2, 3)), False),
    "no dimensions": (lambda: np.array(3.5), False),
    "no elements": (lambda: np.zeros((0, 3), "u1"), True),
    "truth values": (lambda: np.array([True, False]), False),
    "complex": (lambda: np.ones(3, "c16"), False),
    "swapped bytes": (lambda: np.arange(3, dtype=">i4"), False),
    "text": (lambda: np.array(["ab", "c"]), False),
}


@pytest.mark.parametrize("kind", [Given, Described])
@pytest.mark.parametrize("name", ARRAYS)
def test_it_passes_the_checker(name, kind):
    make, in_arrow = ARRAYS[name]
    for report in (xd.check(lambda: kind(make())), xd.check(kind(make()))):
        assert list(report) == [], str(report)
        wanted = {"dlpack", "array-interface"}
        if in_arrow:
            wanted |= {"arrow-array", "arrow-device-array", "arrow-schema"}
        if sys.version_info >= (3, 12):
            wanted.add("buffer")
        assert set(report.protocols) == wanted


@pytest.mark.parametrize("kind", [Given, Described])
@pytest.mark.parametrize("name", ARRAYS)
def test_libraries_get_the_same_memory(name, kind):
    array = ARRAYS[name][0]()
    thing = kind(array)
    for taken in (np.asarray(thing), np.asarray(xd.asarray(thing)), np.asarray(thing.__array__(copy=False))):
        assert taken.dtype == array.dtype
        assert taken.__array_interface__ == array.__array_interface__ or array.size == 0
        assert taken.flags.writeable == array.flags.writeable
        assert np.array_equal(taken, array)
    for attribute in DICTIONARIES:
        assert not hasattr(thing, attribute)
    assert {hasattr(thing, attribute) for attribute in ARROW} == {ARRAYS[name][1]}


@needs_torch
def test_torch_pyarrow_polars_and_nanoarrow_take_it():
    array = np.arange(4, dtype="f4")
    thing = Given(array)
    assert torch.from_dlpack(thing).data_ptr() == array.ctypes.data
    assert np.from_dlpack(thing).ctypes.data == array.ctypes.data
    column = pa.array(thing)
    assert column.buffers()[1].address == array.ctypes.data
    assert column.to_pylist() == [0, 1, 2, 3]
    assert pa.array(Given(np.ones((2, 3)))).type == pa.fixed_shape_tensor(pa.float64(), [3])
    assert pl.Series(thing).to_list() == [0, 1, 2, 3]
    assert nanoarrow.Array(thing).to_pylist() == [0, 1, 2, 3]


@needs_torch
def test_bfloat16_by_each_description():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.arange(3).astype(ml_dtypes.bfloat16)
    bits = array.view("u2")
    entries = {"shape": (3,), "data": (bits.ctypes.data, False), "dtype": "bfloat16"}
    for given in (
        array,
        entries,
        entries | {"typestr": "<V2"},
        xd.from_dlpack(torch.from_numpy(bits).view(torch.bfloat16)),
    ):
        thing = Given(given)
        assert xd.check(thing).ok
        assert torch.from_dlpack(thing).tolist() == [0.0, 1.0, 2.0]
        assert xd.asarray(thing).dtype == "bfloat16"
        assert not hasattr(thing, "__array_interface__")
        assert not hasattr(thing, "__arrow_c_array__")
        with pytest.raises(BufferError, match=r"^Given: NumPy has no elements of type bfloat16"):
            np.asarray(thing)
    with pytest.raises(xd.InvalidDataError, match="bfloat16 has 2 bytes, and its typestr has 4"):
        xd.asarray(Given(entries | {"typestr": "<f4"}))


class Counted:
    """Memory of C's, which is given out by address, and which says whether it was freed."""

    def __init__(self) -> None:
        self.memory = (ctypes.c_double * 3)(1, 2, 3)


class OfMemory(Counted, xd.Exports):
    def __crossdock_array__(self) -> dict[str, Any]:
        return {"shape": (3,), "typestr": "<f8", "data": (ctypes.addressof(self.memory), False)}


@pytest.mark.parametrize(
    "take",
    [
        np.asarray,
        np.from_dlpack,
        *OF_TORCH,
        pa.array,
        xd.asarray,
        xd.from_dlpack,
        xd.from_arrow,
    ],
)
def test_each_consumer_keeps_the_object(take):
    thing = OfMemory()
    alive = weakref.ref(thing)
    taken = take(thing)
    del thing
    gc.collect()
    assert alive() is not None
    assert xd.asarray(taken).tolist() == [1.0, 2.0, 3.0]
    del taken
    gc.collect()
    assert alive() is None


def test_a_class_with_slots_and_one_in_between():
    class Between(xd.Exports):
        __slots__ = ()

    class Slots(Between):
        __slots__ = ("memory",)

        def __init__(self) -> None:
            self.memory = np.arange(3)

        def __crossdock_array__(self) -> np.ndarray:
            return self.memory

    assert np.asarray(Slots()).tolist() == [0, 1, 2]
    assert not hasattr(Slots(), "__dict__")
    with pytest.raises(
        NotImplementedError, match=r"Between derives from crossdock.Exports, and must define __crossdock_array__"
    ):
        np.asarray(Between())


def test_what_consumers_write_arrives():
    array = np.zeros(3)
    thing = Described(array)
    np.asarray(thing)[0] = 1
    np.from_dlpack(thing)[1] = 2
    np.asarray(xd.asarray(thing))[2] = 3
    assert array.tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(Described(read_only(np.zeros(3))))[0] = 1
    with pytest.raises(BufferError, match=r"^Described: .*read-only"):
        Described(read_only(np.zeros(3))).__dlpack__()


# ---- What a description must not be ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "again",
    [
        np.asarray, np.array, xd.asarray, xd.from_dlpack, np.from_dlpack, *OF_TORCH, pa.array, xd.from_arrow,
        lambda thing: thing, lambda thing: thing.__array_interface__, lambda thing: hasattr(thing, "__arrow_c_array__"),
    ],
)  # fmt: skip
def test_one_that_asks_for_itself_has_an_end(again):
    class Endless(xd.Exports):
        def __crossdock_array__(self) -> Any:
            return again(self)

    for take in (xd.asarray, np.asarray, np.from_dlpack, *OF_TORCH, lambda thing: thing.__cuda_array_interface__):
        with pytest.raises(
            xd.InvalidDataError, match=r"Endless\.__crossdock_array__\(\) asks for the array of the same object"
        ):
            take(Endless())


def test_two_threads_may_ask_at_once():
    inside = threading.Barrier(2, timeout=30)

    class Slow(xd.Exports):
        memory = np.arange(3)

        def __crossdock_array__(self) -> Any:
            inside.wait()
            return self.memory

    thing, taken = Slow(), []
    threads = [threading.Thread(target=lambda: taken.append(xd.asarray(thing).tolist())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert taken == [[0, 1, 2]] * 2


def test_memory_that_is_made_for_each_call():
    class Fresh(xd.Exports):
        def __crossdock_array__(self) -> Any:
            return np.arange(1000)

    assert xd.asarray(Fresh()).tolist() == [*range(1000)]
    assert np.from_dlpack(Fresh()).sum() == 499500
    if sys.version_info >= (3, 12):
        assert np.asarray(Fresh()).sum() == 499500, "a buffer keeps the array"
    takes: list[Callable[[Any], Any]] = [lambda thing: thing.__array_interface__]
    for take in takes if sys.version_info >= (3, 12) else [np.asarray, *takes]:
        with pytest.raises(
            xd.InvalidDataError, match=r"Fresh\.__crossdock_array__\(\) describes other memory each time"
        ):
            take(Fresh())


def test_an_attribute_error_in_it_isnt_taken_for_a_missing_protocol():
    class Typo(xd.Exports):
        def __crossdock_array__(self) -> Any:
            return self.memry  # type: ignore[attr-defined]

    for take in (
        lambda thing: hasattr(thing, "__array_interface__"),
        np.asarray,
        xd.asarray,
        np.from_dlpack,
        *OF_TORCH,
    ):
        with pytest.raises(xd.InvalidDataError, match=r"Typo\.__crossdock_array__\(\) raised AttributeError: .*memry"):
            take(Typo())


def test_what_it_raises_is_raised():
    class Raises(xd.Exports):
        def __crossdock_array__(self) -> Any:
            raise ZeroDivisionError("of its own")

    for take in (np.asarray, xd.asarray, np.from_dlpack, *OF_TORCH):
        with pytest.raises(ZeroDivisionError, match="of its own"):
            take(Raises())
    with pytest.raises(ZeroDivisionError):
        xd.asarray(Raises())
    assert np.asarray(Given(np.arange(2))).tolist() == [0, 1], "the guard against recursion is free again"


RIGHT: dict[str, Any] = {"shape": (2,), "typestr": "<f4", "data": (1 << 20, False)}


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (None, xd.UnsupportedTypeError, "NoneType is not an array"),
        ([1, 2], xd.UnsupportedTypeError, "list is not an array: it has values"),
        ({}, xd.InvalidDataError, '"data" is missing'),
        (
            RIGHT | {"stride": (4,)},
            xd.InvalidDataError,
            "entry 'stride' isn't known for memory of cpu; the entries are shape",
        ),
        (RIGHT | {3: 4}, xd.InvalidDataError, "entry '3' isn't known"),
        (RIGHT | {"stream": 1}, xd.InvalidDataError, "entry 'stream' isn't known .* which the entry \"device\" names"),
        (RIGHT | {"typestr": None}, TypeError, "typestr must be a str"),
        (RIGHT | {"data": (0, False)}, xd.InvalidDataError, "null"),
        (RIGHT | {"data": b"12345678"}, None, ""),
        (RIGHT | {"shape": (-1,)}, xd.InvalidDataError, "-1"),
        (
            RIGHT | {"device": "sim:0"},
            xd.UnsupportedError,
            "a dict can't describe memory of ext_dev:0: return a Tensor",
        ),
        (RIGHT | {"device": "nonsense:0"}, xd.Error, "nonsense"),
        (RIGHT | {"device": 7}, xd.InvalidArgumentError, "a device must be"),
        (RIGHT | {"mask": np.ones(2, bool)}, xd.UnsupportedError, "reads no mask"),
        (RIGHT | {"dtype": "nonsense"}, xd.InvalidArgumentError, 'unknown element type "nonsense"'),
        (RIGHT | {"version": 2}, xd.InvalidDataError, "version 2"),
    ],
    ids=lambda given: str(given)[:30] if isinstance(given, dict) else None,
)
def test_a_wrong_description_names_the_class(given, error, text):
    if error is None:
        assert xd.asarray(Given(given)).readonly
        return
    for take in (xd.asarray, np.from_dlpack, np.asarray, *OF_TORCH):
        with pytest.raises(error, match=rf"(?s)^Given\.__crossdock_array__\(\): .*{text}"):
            take(Given(given))


def test_errors_of_an_export_name_the_class():
    with pytest.raises(BufferError, match=r"^Given: "):
        Given(np.array(["a"])).__dlpack__(max_version=(1, 3))
    with pytest.raises(
        AttributeError, match=r"^Given: a tensor of float64 in memory of cpu has no __cuda_array_interface__"
    ):
        _ = Given(np.ones(2)).__cuda_array_interface__
    with pytest.raises(AttributeError, match=r"^Given has no __arrow_c_array__: "):
        _ = Given(np.array(True)).__arrow_c_array__
    with pytest.raises(TypeError):
        Given(np.ones(2)).__dlpack__(nonsense=1)


def test_masks_go_where_they_can():
    class Masked:
        mask = np.array([True, False])
        values = np.array([1.0, 2.0])
        __array_interface__ = values.__array_interface__ | {"mask": mask}

    thing = Given(xd.asarray(Masked()))
    assert pa.array(thing).to_pylist().count(None) == 1
    for take in (np.asarray, np.from_dlpack):
        with pytest.raises((xd.UnsupportedError, BufferError), match=r"^Given: "):
            take(thing)


def test_memory_of_a_device():
    with simulated_devices(1):
        thing = Given(xd.asarray(np.arange(3.0)).to("sim:0"))
        assert not hasattr(thing, "__array_interface__")
        assert not hasattr(thing, "__cuda_array_interface__")
        assert thing.__dlpack_device__() == (12, 0)
        assert xd.asarray(thing).device == xd.Device("sim:0")
        assert xd.asarray(thing).to("cpu").tolist() == [0, 1, 2]
        with pytest.raises(BufferError, match=r"^Given: .*can't read memory of ext_dev:0"):
            np.asarray(thing)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python 3.12 has __buffer__")
def test_before_python_3_12_it_has_no_buffer():
    with pytest.raises(TypeError, match="bytes-like"):
        memoryview(Given(np.ones(2)))  # type: ignore[arg-type]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="needs Python 3.12's __buffer__")
def test_the_buffer_protocol():
    array = np.arange(6.0).reshape(2, 3)
    with memoryview(Given(array)) as view:  # type: ignore[arg-type]
        assert (view.shape, view.format, view.readonly) == ((2, 3), "d", False)
        view[1, 2] = 7
    assert array[1, 2] == 7
    assert bytes(Given(b"abc")) == b"abc"  # type: ignore[call-overload]
    with pytest.raises(BufferError, match=r"^Given: .*contiguous"):
        hashlib.sha256(Given(array[:, ::2]))  # type: ignore[arg-type]
    with pytest.raises(BufferError, match=r"^Given: .*no format"):
        memoryview(Given(np.array(["2026-01-01"], "M8[D]")))  # type: ignore[arg-type]


def test_it_is_served_as_a_tensor():
    thing = OfMemory()
    with xd.serve({"a": thing, "nested": {"b": thing}}) as server, xd.connect(server.uri) as client:
        assert client.tensor("a").tolist() == [1.0, 2.0, 3.0]
        assert client.tensors("nested")["b"].tolist() == [1.0, 2.0, 3.0]
        server.publish("column", thing, mode="table")
        assert pa.table(client.get("column")).num_rows == 3


def test_it_is_written_as_a_column(tmp_path):
    xd.write(OfMemory(), tmp_path / "a.arrow")
    assert pa.table(xd.open(tmp_path / "a.arrow")).column(0).to_pylist() == [1.0, 2.0, 3.0]
    with pytest.raises(xd.UnsupportedTypeError, match="has none of __arrow_c_stream__"):
        xd.write(Given(np.array(["a"])), tmp_path / "b.arrow")
