"""`from_array_interface()`: host memory by a dictionary, its owner, and what frees it."""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crossdock as xd

LIBC = ctypes.CDLL(None)
LIBC.malloc.restype = ctypes.c_void_p
LIBC.malloc.argtypes = [ctypes.c_size_t]
LIBC.free.argtypes = [ctypes.c_void_p]


class Heap:
    """Memory of malloc(), and how often it was freed."""

    def __init__(self, nbytes: int = 24) -> None:
        self.address = LIBC.malloc(nbytes)
        ctypes.memset(self.address, 0, nbytes)
        self.freed: list[int] = []
        self.freed_on: list[int] = []

    def free(self, address: int) -> None:
        self.freed.append(address)
        self.freed_on.append(threading.get_ident())
        LIBC.free(address)

    def interface(self, **entries: Any) -> dict[str, Any]:
        return {"shape": (3,), "typestr": "<f8", "data": (self.address, False), "version": 3, **entries}


def test_the_deleter_is_called_once_when_the_last_user_is_gone():
    heap = Heap()
    tensor = xd.from_array_interface(heap.interface(), deleter=heap.free)
    array = np.asarray(tensor)
    array[:] = [1, 2, 3]
    column = pa.array(tensor[1:])
    del tensor
    gc.collect()
    assert array.tolist() == [1, 2, 3]
    del array
    assert column.to_pylist() == [2, 3]
    assert heap.freed == []
    del column
    gc.collect()
    assert heap.freed == [heap.address]


def test_it_is_called_on_the_thread_that_drops_the_last_user():
    heap = Heap()
    held = [xd.from_array_interface(heap.interface(), deleter=heap.free)]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert heap.freed == [heap.address]
    assert heap.freed_on != [threading.get_ident()]


def test_the_owner_is_kept_until_the_deleter_was_called():
    heap = Heap()

    class Owner:
        pass

    owner = Owner()
    alive = weakref.ref(owner)
    seen: list[bool] = []

    def free(address: int) -> None:
        seen.append(alive() is not None)
        heap.free(address)

    tensor = xd.from_array_interface(heap.interface(), owner, deleter=free)
    del owner
    gc.collect()
    assert alive() is not None
    del tensor
    assert seen == [True]
    assert alive() is None


def test_an_owner_without_a_deleter():
    memory = (ctypes.c_int32 * 4)(1, 2, 3, 4)
    alive = weakref.ref(memory)
    tensor = xd.from_array_interface(
        {"shape": (2, 2), "typestr": "<i4", "data": (ctypes.addressof(memory), True), "strides": (4, 8), "version": 3},
        owner=memory,
    )
    del memory
    assert tensor.readonly
    assert tensor.tolist() == [[1, 3], [2, 4]]
    assert tensor.strides == (4, 8)
    del tensor
    gc.collect()
    assert alive() is None


def test_nothing_is_kept_without_an_owner():
    array = np.arange(3.0)
    references = sys.getrefcount(array)
    tensor = xd.from_array_interface(array.__array_interface__)
    assert tensor.pointer == array.ctypes.data
    assert sys.getrefcount(array) == references


def test_an_owners_buffer_or_one_in_data_is_the_memory():
    interface = {"shape": (2,), "typestr": "<u2", "version": 3}
    assert xd.from_array_interface(interface, owner=b"\1\0\2\0").tolist() == [1, 2]
    assert xd.from_array_interface(interface | {"data": b"\0\0\3\0\4\0", "offset": 2}).tolist() == [3, 4]
    assert not xd.from_array_interface(interface | {"data": bytearray(4)}).readonly
    for short in (b"abc", b""):
        with pytest.raises(xd.InvalidDataError, match=f"in its buffer of {len(short)} bytes"):
            xd.from_array_interface(interface, owner=short)
    with pytest.raises(xd.InvalidDataError, match="must be a pair of address and read-only flag, or a buffer"):
        xd.from_array_interface(interface)
    for data in (None, b"\1\0\2\0"):
        with pytest.raises(xd.InvalidDataError, match='a deleter needs the entry "data" with the address'):
            xd.from_array_interface(interface | {"data": data}, owner=b"\1\0\2\0", deleter=print)


def test_types():
    array = np.zeros(4, dtype=[("a", "<i4"), ("b", "S4")])
    structured = xd.from_array_interface(array.__array_interface__, array)
    assert np.asarray(structured).dtype == array.dtype
    dates = np.array(["2026-01-01"], "M8[D]")
    assert np.asarray(xd.from_array_interface(dates.__array_interface__, dates)).tolist() == dates.tolist()
    bits = np.array([0x3F80, 0x4000], "<u2")
    entries = {"shape": (2,), "data": (bits.ctypes.data, False), "version": 3, "dtype": "bfloat16"}
    assert xd.from_array_interface(entries, bits).tolist() == [1.0, 2.0]
    assert xd.from_array_interface(entries | {"typestr": "<V2"}, bits).dtype == "bfloat16"
    assert xd.from_array_interface(entries | {"dtype": np.dtype("<u2")}, bits).tolist() == [0x3F80, 0x4000]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,) * 64])
def test_without_dimensions_and_without_elements(shape):
    array = np.zeros(shape)
    tensor = xd.from_array_interface(array.__array_interface__, array)
    assert np.array_equal(np.asarray(tensor), array)
    if array.size == 0:
        none = array.__array_interface__ | {"data": (0, False)}
        assert xd.from_array_interface(none).shape == shape


# ---- Hostile dictionaries -------------------------------------------------------------------------------------------


class Changing(str):
    """A key that is equal to another one, and whose comparison raises."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError("a key's comparison")

    __hash__ = str.__hash__


class Raising:
    def __index__(self) -> int:
        raise ZeroDivisionError("an extent's value")


DATA, BIG = xd.InvalidDataError, 1 << 62
BAD = (xd.InvalidDataError, xd.InvalidArgumentError, xd.UnsupportedTypeError)
PAIR = "pair of address and read-only flag|address that it frees and the read-only flag"

WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"shape": [3]}, TypeError, "shape must be a tuple of ints, not list"),
    ({"shape": 3}, TypeError, "shape must be a tuple"),
    ({"shape": "3"}, TypeError, "shape must be a tuple"),
    ({"shape": (3.0,)}, TypeError, "shape must be an int, not float"),
    ({"shape": (True,)}, TypeError, "shape must be an int, not bool"),
    ({"shape": (Raising(),)}, ZeroDivisionError, "an extent's value"),
    ({"shape": (-1,)}, DATA, "negative|-1"),
    ({"shape": (1 << 64,)}, DATA, "shape is beyond 64 bits"),
    ({"shape": (1 << 61,)}, DATA, "__array_interface__"),
    ({"shape": (BIG, BIG)}, DATA, "__array_interface__"),
    ({"shape": (BIG, BIG, 0)}, DATA, "exceeds the address space"),
    ({"shape": (1,) * 65}, DATA, "65 dimensions; at most 64"),
    ({"strides": (8, 8)}, DATA, "2 strides for 1 dimensions"),
    ({"strides": [8]}, TypeError, "strides must be None or a tuple"),
    ({"strides": (BIG,)}, DATA, "__array_interface__"),
    ({"strides": (-BIG,)}, DATA, "__array_interface__"),
    ({"strides": (-(1 << 63),)}, DATA, "__array_interface__"),
    ({"data": (0, False)}, DATA, "null"),
    ({"data": (-8, False)}, DATA, "is not an address"),
    ({"data": (1 << 64, False)}, DATA, "is not an address"),
    ({"data": ((1 << 64) - 8, False)}, DATA, "__array_interface__"),
    ({"data": ("0x1000", False)}, TypeError, r"data\[0\] must be an int, not str"),
    ({"data": (True, False)}, TypeError, r"data\[0\] must be an int, not bool"),
    ({"data": (4096, 0)}, TypeError, r"data\[1\] must be a bool, not int"),
    ({"data": (4096,)}, DATA, PAIR),
    ({"data": [4096, False]}, DATA, PAIR),
    ({"data": 4096}, DATA, PAIR),
    ({"typestr": "|O"}, BAD, "O"),
    ({"typestr": "|O8"}, xd.UnsupportedTypeError, "O8|object"),
    ({"typestr": "i4,f8"}, BAD, "i4,f8"),
    ({"typestr": "{'names': ['a']}"}, BAD, "names"),
    ({"typestr": "T{i:a:}"}, BAD, "T{i:a:}"),
    ({"typestr": "<f" + "9" * 5000}, BAD, "typestr|type"),
    ({"typestr": "float64"}, BAD, "float64"),
    ({"typestr": b"<f8"}, TypeError, "typestr must be a str, not bytes"),
    ({"typestr": np.float64}, TypeError, "typestr must be a str"),
    ({"typestr": "\ud800"}, UnicodeEncodeError, "surrogates"),
    ({"dtype": object()}, BAD, "type"),
    ({"dtype": "f4"}, DATA, "float32 has 4 bytes, and its typestr has 8; remove one"),
    ({"descr": [("a", "<i4")]}, BAD, "descr|typestr"),
    ({"mask": np.ones(3, bool)}, xd.UnsupportedError, "reads no mask; give an object .* to asarray"),
    ({"version": 2}, DATA, "version 2; it must be 3"),
    ({"version": "3"}, TypeError, "version must be an int"),
]


@pytest.mark.parametrize(
    ("entries", "error", "text"), WRONG, ids=[f"{i}-{next(iter(one[0]))}" for i, one in enumerate(WRONG)]
)
def test_a_wrong_dictionary_leaves_the_memory_to_its_owner(entries, error, text):
    heap = Heap()
    for options in ({"deleter": heap.free}, {}):
        with pytest.raises(error, match=text):
            xd.from_array_interface(heap.interface(**entries), **options)
    gc.collect()
    assert heap.freed == []
    heap.free(heap.address)


@pytest.mark.parametrize("key", ["shape", "typestr", "version"])
def test_a_missing_entry(key):
    heap = Heap()
    interface = heap.interface()
    del interface[key]
    with pytest.raises(xd.InvalidDataError, match=f'its entry "{key}" is missing'):
        xd.from_array_interface(interface, deleter=heap.free)
    assert heap.freed == []
    interface = heap.interface()
    interface[Changing(key)] = interface.pop(key)
    with pytest.raises(ZeroDivisionError, match="a key's comparison"):
        xd.from_array_interface(interface, deleter=heap.free)
    assert heap.freed == []
    heap.free(heap.address)


def test_what_is_no_dictionary_and_no_deleter():
    for what in (None, [], "shape", np.arange(3)):
        with pytest.raises(TypeError, match="dict"):
            xd.from_array_interface(what, deleter=print)  # type: ignore[arg-type]
    heap = Heap()
    with pytest.raises(TypeError, match="deleter must be a function that takes the address"):
        xd.from_array_interface(heap.interface(), deleter=3)  # type: ignore[arg-type]
    heap.free(heap.address)


def test_what_a_deleter_raises_goes_to_the_hook(monkeypatch):
    heap, raised = Heap(), []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: raised.append(unraisable.exc_value))

    def free(address: int) -> None:
        heap.free(address)
        raise ZeroDivisionError("of a deleter")

    xd.from_array_interface(heap.interface(), deleter=free)  # which nobody keeps
    assert [str(error) for error in raised] == ["of a deleter"]
    assert heap.freed == [heap.address]


def test_a_forked_child_and_the_end_of_the_interpreter_dont_free(script):
    out = script(
        """
        import mmap, os, sys
        import crossdock as xd

        memory = mmap.mmap(-1, 4096)
        view = xd.asarray(memory)
        interface = {"shape": (512,), "typestr": "<f8", "data": (view.pointer, False), "version": 3}
        tensor = xd.from_array_interface(interface, memory, deleter=lambda address: os.write(1, b"freed\\n"))
        child = os.fork()
        if child == 0:
            del tensor
            os._exit(0)
        os.waitpid(child, 0)
        os.write(1, b"parent\\n")
        del tensor
        last = xd.from_array_interface(interface, memory, deleter=lambda address: os.write(1, b"too late\\n"))
        sys.kept = last
        """
    ).finish()
    assert out.splitlines()[:2] == ["parent", "freed"]


def test_memory_of_the_file_system_is_served_and_read_back(tmp_path):
    path = tmp_path / "values"
    path.write_bytes(np.arange(1000.0).tobytes())
    with path.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    address = xd.asarray(mapped).pointer
    interface = {"shape": (1000,), "typestr": "<f8", "data": (address, True), "version": 3}
    unmapped: list[int] = []

    def deleter(where: int) -> None:
        unmapped.append(where)
        mapped.close()

    with (
        xd.serve({"x": xd.from_array_interface(interface, deleter=deleter)}) as server,
        xd.connect(server.uri) as client,
    ):
        assert client.tensor("x").tolist()[-1] == 999.0
    assert unmapped == [address]


def test_a_dictionary_that_changes_while_it_is_read():
    heap = Heap()
    interface = heap.interface()

    class Changes:
        def __index__(self) -> int:
            interface.update(data=(4096, True), typestr="|O8", strides=(1 << 40,))
            return 3

    interface["shape"] = (Changes(),)
    tensor = xd.from_array_interface(interface, deleter=heap.free)
    assert (tensor.pointer, tensor.readonly, tensor.tolist()) == (heap.address, False, [0, 0, 0])
    del tensor
    assert heap.freed == [heap.address]
