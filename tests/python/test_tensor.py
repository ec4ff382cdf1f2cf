"""xd.Tensor over host memory: what comes in, what goes out, and that nothing is copied on the way."""

from __future__ import annotations

import array
import ctypes
import gc
import mmap
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import crossdock as xd
from crossdock import _native

DTYPES = "bool i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split()


# ---- in and out ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_goes_in_and_out_without_a_copy(dtype: str) -> None:
    source = np.arange(24).astype(dtype).reshape(2, 3, 4)
    tensor = xd.asarray(source)
    assert tensor.shape == (2, 3, 4)
    assert tensor.strides == source.strides
    assert tensor.dtype == source.dtype
    assert tensor.pointer == source.ctypes.data
    assert tensor.nbytes == source.nbytes
    for back in (np.asarray(tensor), np.from_dlpack(tensor)):
        assert back.ctypes.data == source.ctypes.data
        assert back.dtype == source.dtype
        assert back.strides == source.strides
        np.testing.assert_array_equal(back, source)


@pytest.mark.parametrize(
    "view",
    [
        np.s_[::-1],
        np.s_[:, ::2],
        np.s_[1:, ::-1, ::3],
        np.s_[0],
        np.s_[:, 1],
        np.s_[0, 0, 0],
        np.s_[2:],
    ],
)
def test_strides_of_any_kind_are_kept(view: Any) -> None:
    source = np.asarray(np.arange(60.0).reshape(3, 4, 5)[view])
    tensor = xd.asarray(source)
    back = np.asarray(tensor)
    np.testing.assert_array_equal(back, source)
    assert back.strides == source.strides or source.size == 0 or source.ndim == 0
    assert tensor.pointer == (source.ctypes.data if source.size else 0)
    np.testing.assert_array_equal(np.from_dlpack(tensor), source)


def test_read_only_stays_so_in_every_protocol() -> None:
    source = np.arange(4.0)
    source.flags.writeable = False
    tensor = xd.asarray(source)
    assert tensor.readonly
    assert not np.asarray(tensor).flags.writeable
    assert not np.from_dlpack(tensor).flags.writeable
    assert memoryview(tensor).readonly
    assert tensor.__array_interface__["data"][1] is True
    assert tensor[1:].readonly
    assert tensor.T.readonly
    with pytest.raises(BufferError, match="read-only"):
        tensor.__dlpack__()  # the legacy form can't say so
    with pytest.raises(TypeError, match="not writable"):
        (ctypes.c_char * 32).from_buffer(tensor)


def test_what_is_writable_is_written_through() -> None:
    source = np.zeros(3)
    np.asarray(xd.asarray(source))[1] = 5
    assert source[1] == 5


@pytest.mark.parametrize("dtype", [">f4", ">i8", "<M8[ns]", "<m8[s]", "S3", "U2"])
def test_types_that_dlpack_hasnt_go_by_the_array_interface(dtype: str) -> None:
    source = np.zeros(5, dtype)
    tensor = xd.asarray(source)
    assert tensor.dtype == source.dtype
    assert np.asarray(tensor).dtype == source.dtype
    assert np.asarray(tensor).ctypes.data == source.ctypes.data
    with pytest.raises(BufferError, match="DLPack can't describe"):
        tensor.__dlpack__(max_version=(1, 3))


def test_structured_types_are_carried() -> None:
    dtype = np.dtype([("x", "<f4"), ("at", "<i2", (2, 3)), ("in", [("a", "u1"), ("b", ">f8")])])
    source = np.zeros(4, dtype)
    source["at"][2] = 7
    tensor = xd.asarray(source)
    assert tensor.dtype == dtype
    back = np.asarray(tensor)
    assert back.dtype == dtype
    assert back.ctypes.data == source.ctypes.data
    np.testing.assert_array_equal(back["at"], source["at"])


def test_python_objects_arent() -> None:
    with pytest.raises(TypeError, match="Python objects"):
        xd.asarray(np.array([object()], dtype=object))


@pytest.mark.parametrize(
    "source",
    [b"bytes", bytearray(b"array"), array.array("d", [1, 2, 3]), memoryview(b"view"), (ctypes.c_int32 * 3)(1, 2, 3)],
    ids=lambda source: type(source).__name__,
)
def test_buffers_of_any_kind(source: Any) -> None:
    tensor = xd.asarray(source)
    expected = memoryview(source)
    assert tensor.nbytes == expected.nbytes
    assert tensor.readonly == expected.readonly
    assert bytes(memoryview(tensor)) == expected.tobytes()


def test_a_mapped_file() -> None:
    with mmap.mmap(-1, 4096) as mapped:
        tensor = xd.asarray(mapped)
        np.asarray(tensor)[5] = 9
        assert mapped[5] == 9
        with pytest.raises(BufferError):
            mapped.close()  # the tensor looks at it
        del tensor
        gc.collect()


def test_a_buffer_stays_locked_as_long_as_anybody_looks() -> None:
    source = bytearray(8)
    out = np.asarray(xd.asarray(source))
    with pytest.raises(BufferError):
        source.append(1)
    del out
    source.append(1)


def test_no_elements_have_no_pointer() -> None:
    tensor = xd.asarray(np.zeros((3, 0)))
    assert tensor.pointer == 0
    assert np.asarray(tensor).shape == (3, 0)
    assert np.from_dlpack(tensor).shape == (3, 0)


def test_eight_and_sixty_four_dimensions() -> None:
    for ndim in (0, 8, 9, 64):
        source = np.zeros((1,) * ndim)
        assert xd.asarray(source).shape == source.shape
        assert np.asarray(xd.asarray(source)).ctypes.data == source.ctypes.data


# ---- lifetimes -----------------------------------------------------------------------------------------------------


class Watched(np.ndarray):
    """An array that can be watched go."""


@pytest.mark.parametrize("consume", [np.asarray, np.from_dlpack, memoryview, lambda t: t[1:], lambda t: t.T])
def test_the_owner_lives_as_long_as_any_view(consume: Any) -> None:
    source = np.arange(6.0).reshape(2, 3).view(Watched)
    gone = weakref.ref(source)
    out = consume(xd.asarray(source))
    del source
    gc.collect()
    assert gone() is not None
    del out
    gc.collect()
    assert gone() is None


def test_the_last_owner_may_go_on_another_thread() -> None:
    source = np.arange(6.0).view(Watched)
    gone = weakref.ref(source)
    held = [np.from_dlpack(xd.asarray(source))]
    del source
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert gone() is None


def test_a_dlpack_capsule_that_nobody_takes_lets_go() -> None:
    source = np.arange(6.0).view(Watched)
    gone = weakref.ref(source)
    capsule = xd.asarray(source).__dlpack__(max_version=(1, 0))
    del source
    assert gone() is not None
    del capsule
    assert gone() is None


# ---- DLPack --------------------------------------------------------------------------------------------------------


def capsule_name(capsule: Any) -> str:
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return get_name(capsule).decode()


def test_which_capsule_is_asked_for() -> None:
    tensor = xd.asarray(np.arange(3.0))
    assert capsule_name(tensor.__dlpack__()) == "dltensor"
    assert capsule_name(tensor.__dlpack__(max_version=(0, 8))) == "dltensor"
    assert capsule_name(tensor.__dlpack__(max_version=(1, 0))) == "dltensor_versioned"
    assert capsule_name(tensor.__dlpack__(max_version=(7, 0))) == "dltensor_versioned"
    assert tensor.__dlpack_device__() == (1, 0)


def test_arguments_of_dlpack() -> None:
    tensor = xd.asarray(np.arange(3.0))
    tensor.__dlpack__(stream=None, max_version=None, dl_device=(1, 0), copy=False)
    tensor.__dlpack__(stream=-1)
    for wrong in ({"stream": 1}, {"stream": 0}, {"stream": -2}):
        with pytest.raises(ValueError, match="stream"):
            tensor.__dlpack__(**wrong)
    with pytest.raises(TypeError, match="tuple of two"):
        tensor.__dlpack__(max_version=1)
    with pytest.raises(TypeError, match="tuple of two"):
        tensor.__dlpack__(dl_device=[1, 0])
    with pytest.raises(TypeError, match="unexpected"):
        tensor.__dlpack__(steam=None)
    with pytest.raises(TypeError, match="keyword"):
        tensor.__dlpack__(None)


def test_a_copy_is_made_where_it_is_asked_for_and_nowhere_else() -> None:
    source = np.arange(6.0).reshape(2, 3)[:, ::-1]
    source.flags.writeable = False
    tensor = xd.asarray(source)
    copied = np.from_dlpack(tensor, copy=True)
    assert copied.ctypes.data != source.ctypes.data
    assert copied.flags.writeable
    np.testing.assert_array_equal(copied, source)
    assert xd.asarray(source, copy=False).pointer == source.ctypes.data
    mine = xd.asarray(source, copy=True)
    assert not mine.readonly
    assert mine.pointer != source.ctypes.data
    np.testing.assert_array_equal(np.asarray(mine), source)
    assert xd.asarray(tensor) is tensor


def test_another_device_needs_its_driver() -> None:
    tensor = xd.asarray(np.arange(3.0))
    with pytest.raises(BufferError, match="no driver"):
        tensor.__dlpack__(dl_device=(17, 0), max_version=(1, 3))
    with pytest.raises(BufferError, match="copy=False"):
        tensor.__dlpack__(dl_device=(2, 0), max_version=(1, 3), copy=False)


class OldProducer:
    """From before DLPack 1.0: knows `stream` alone."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.array.__dlpack__()


def test_a_stream_that_nobody_here_can_wait_for(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without CUDA an array's stream goes on where a protocol carries it, and is never dropped."""
    monkeypatch.setenv("CROSSDOCK_CUDA_LIBRARY", "/nonexistent")
    script(
        """
        import pytest
        import crossdock as xd

        def array(stream):
            class Array:
                __cuda_array_interface__ = dict(
                    shape=(4,), typestr="<f4", data=(0x1000, False), version=3, stream=stream)
            return xd.asarray(Array())

        tensor = array(7)
        assert tensor.__cuda_array_interface__["stream"] == 7
        assert tensor[1:].__cuda_array_interface__["stream"] == 7
        for stream in (None, 1, 9):
            with pytest.raises(BufferError, match="can't be waited for"):
                tensor.__dlpack__(stream=stream, max_version=(1, 3))
        for more in ({}, {"copy": False}, {"dl_device": (2, 0)}, {"max_version": (1, 3)}):
            tensor.__dlpack__(stream=-1, **more)  # no order is asked for
            tensor[1:].__dlpack__(stream=-1, **more)
        for copied in ({"copy": True}, {"dl_device": (1, 0)}):  # but a copy reads what the work writes
            with pytest.raises(BufferError):
                tensor.__dlpack__(stream=-1, **copied)
        tensor.__dlpack__(stream=7, max_version=(1, 3))  # the very same: there is nothing to order
        with pytest.raises(BufferError, match="can't be waited for"):
            tensor.__arrow_c_device_array__()
        with pytest.raises(BufferError, match="can't be waited for"):
            tensor.wait()
        tensor.unsynchronized().__dlpack__(max_version=(1, 3))
        assert array(None).__cuda_array_interface__["stream"] is None
        array(None).__dlpack__(stream=9, max_version=(1, 3))

        class Producer:
            def __dlpack_device__(self):
                return (2, 0)
            def __dlpack__(self, *, max_version):
                return array(None).__dlpack__(max_version=max_version)

        taken = xd.from_dlpack(Producer())
        assert taken.__cuda_array_interface__["stream"] == 1, "who is asked for no stream uses the default one"
        taken.__dlpack__(max_version=(1, 3))
        taken.__dlpack__(stream=1, max_version=(1, 3))
        taken.__dlpack__(stream=-1, max_version=(1, 3))
        for stream in (2, 9):
            with pytest.raises(BufferError, match="can't be waited for"):
                taken.__dlpack__(stream=stream, max_version=(1, 3))
        """
    ).finish()


def test_producers_without_the_new_keywords() -> None:
    source = np.arange(5.0)
    assert xd.from_dlpack(OldProducer(source)).pointer == source.ctypes.data
    with pytest.raises(TypeError):
        xd.from_dlpack(OldProducer(source), copy=True)


class Gives:
    """Its __dlpack__ gives what one likes."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **_: Any) -> Any:
        if isinstance(self.capsule, Exception):
            raise self.capsule
        return self.capsule


def test_capsules_are_used_once() -> None:
    source = np.arange(5.0)
    once = Gives(source.__dlpack__(max_version=(1, 0)))
    assert xd.from_dlpack(once).pointer == source.ctypes.data
    assert capsule_name(once.capsule) == "used_dltensor_versioned"
    with pytest.raises(ValueError, match="already consumed"):
        xd.from_dlpack(once)
    legacy = Gives(source.__dlpack__())
    xd.from_dlpack(legacy)
    assert capsule_name(legacy.capsule) == "used_dltensor"


def test_wrong_producers() -> None:
    for nonsense in (None, 5, "dltensor", np.arange(3.0), xd.RecordBatch.__doc__):
        with pytest.raises(ValueError, match="not a capsule"):
            xd.from_dlpack(Gives(nonsense))
    with pytest.raises(KeyError, match="mine"):
        xd.from_dlpack(Gives(KeyError("mine")))
    with pytest.raises(TypeError, match="has no __dlpack__"):
        xd.from_dlpack(object())
    with pytest.raises(TypeError, match="is not an array"):
        xd.asarray(object())
    for values in ([1, 2, 3], (1.5, 2.5), 7, [[1], [2]]):
        with pytest.raises(TypeError, match=r"has values.*as in numpy\.asarray\(x\)"):
            xd.asarray(values)
    with pytest.raises(TypeError):
        xd.asarray()  # type: ignore[call-arg]


# ---- the array interface -------------------------------------------------------------------------------------------


class Interface:
    def __init__(self, source: np.ndarray, **changes: Any) -> None:
        self.source = source
        self.__array_interface__ = {**source.__array_interface__, **changes}
        for key, value in changes.items():
            if value is ...:
                del self.__array_interface__[key]


def test_the_array_interface_is_read() -> None:
    source = np.arange(12.0).reshape(3, 4)
    assert xd.asarray(Interface(source)).pointer == source.ctypes.data
    flipped = xd.asarray(Interface(source[::-1, ::2]))
    np.testing.assert_array_equal(np.asarray(flipped), source[::-1, ::2])
    owner = Interface(source)
    gone = weakref.ref(owner)
    tensor = xd.asarray(owner)
    del owner
    assert gone() is not None
    del tensor
    assert gone() is None


def test_the_array_interface_over_a_buffer() -> None:
    memory = bytearray(np.arange(6.0).tobytes())
    tensor = xd.asarray(Interface(np.zeros(4), data=memory, offset=16))
    np.testing.assert_array_equal(np.asarray(tensor), [2, 3, 4, 5])
    for wrong in ({"offset": 24}, {"offset": -8}, {"strides": (-8,)}, {"shape": (1 << 60,), "strides": (0,)}):
        with pytest.raises(ValueError, match=r"in its buffer|exceeds the address space"):
            xd.asarray(Interface(np.zeros(4), **{"data": memory, **wrong}))


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"shape": ...}, ValueError, "shape"),
        ({"typestr": ...}, ValueError, "typestr"),
        ({"version": ...}, ValueError, "version"),
        ({"version": 2}, ValueError, "version 2"),
        ({"version": "3"}, TypeError, "version"),
        ({"shape": [4]}, TypeError, "shape"),
        ({"shape": (4.0,)}, TypeError, "shape"),
        ({"shape": (True,)}, TypeError, "shape"),
        ({"shape": (-4,)}, ValueError, "negative"),
        ({"shape": (1 << 70,)}, ValueError, "64 bits"),
        ({"shape": (1 << 61,)}, ValueError, "exceeds the address space"),
        ({"strides": (8, 8)}, ValueError, "2 strides"),
        ({"strides": [8]}, TypeError, "strides"),
        ({"strides": (1 << 62,)}, ValueError, "exceeds the address space"),
        ({"typestr": 5}, TypeError, "typestr"),
        ({"typestr": "f8"}, ValueError, "typestr"),
        ({"typestr": "|O8"}, TypeError, "Python objects"),
        ({"typestr": "<f8", "descr": [("", "<f4")]}, ValueError, "disagree"),
        ({"descr": "<f8"}, ValueError, "list"),
        ({"data": (-1, False)}, ValueError, "not an address"),
        ({"data": (1 << 64, False)}, ValueError, "not an address"),
        ({"data": ("x", False)}, TypeError, "data"),
        ({"data": (8, 0)}, TypeError, "bool"),
        ({"data": (8,)}, ValueError, "pair"),
        ({"data": (0, False)}, ValueError, "null pointer"),
        ({"mask": np.zeros(3, bool)}, ValueError, "mask"),
    ],
)
def test_wrong_array_interfaces(changes: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        xd.asarray(Interface(np.arange(4.0), **changes))


def test_masks_are_carried_and_never_lost() -> None:
    source = np.arange(6.0).reshape(2, 3)
    valid = np.array([[True, False, True], [True, True, False]])
    tensor = xd.asarray(Interface(source, mask=valid))
    assert tensor.mask is not None
    np.testing.assert_array_equal(np.asarray(tensor.mask), valid)
    np.testing.assert_array_equal(np.asarray(tensor[:, 1:].mask), valid[:, 1:])
    with pytest.raises(NotImplementedError, match="mask"):
        np.asarray(tensor)
    with pytest.raises(NotImplementedError, match="valid"):
        tensor.__dlpack__(max_version=(1, 0))
    row = xd.asarray(Interface(source, mask=np.array([True, False, True])))
    np.testing.assert_array_equal(np.asarray(row.mask), [[True, False, True]] * 2)


def test_array_is_the_last_resort() -> None:
    class Wrapped:
        def __array__(self) -> np.ndarray:
            return np.arange(3.0)

    np.testing.assert_array_equal(np.asarray(xd.asarray(Wrapped())), [0, 1, 2])


# ---- views and what they say ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key", [0, -1, np.s_[1:], np.s_[::-2], np.s_[..., 1], np.s_[1, ..., ::2], np.s_[:, 1, -1], np.s_[...], np.s_[5:2]]
)
def test_slices_are_views(key: Any) -> None:
    source = np.arange(24.0).reshape(2, 3, 4)
    part = xd.asarray(source)[key]
    np.testing.assert_array_equal(np.asarray(part), source[key])
    if part.size:
        assert part.pointer == np.asarray(source[key]).ctypes.data or part.ndim == 0


def test_transposes_are_views() -> None:
    source = np.arange(24.0).reshape(2, 3, 4)
    tensor = xd.asarray(source)
    np.testing.assert_array_equal(np.asarray(tensor.T), source.T)
    np.testing.assert_array_equal(np.asarray(tensor.transpose(1, 2, 0)), source.transpose(1, 2, 0))
    np.testing.assert_array_equal(np.asarray(tensor.transpose((0, -1, 1))), source.transpose(0, -1, 1))
    assert tensor.T.pointer == tensor.pointer
    for wrong in [(0, 1), (0, 0, 1), (0, 1, 3)]:
        with pytest.raises(ValueError, match="axes"):
            tensor.transpose(*wrong)


def test_wrong_indices() -> None:
    tensor = xd.asarray(np.zeros((2, 3)))
    for key in (2, -3, (0, 3), (0, 0, 0), (..., ...)):
        with pytest.raises(IndexError):
            tensor[key]
    for key in (None, [0], True, "x", 1.0):
        with pytest.raises(TypeError):
            tensor[key]
    with pytest.raises(ValueError, match="step"):
        tensor[::0]
    with pytest.raises(TypeError, match="no length"):
        len(tensor[0, 0])


def test_repr_says_what_it_is() -> None:
    tensor = xd.asarray(np.zeros((2, 3), "f4"))
    assert repr(tensor) == "<crossdock.Tensor: shape (2, 3), float32, cpu>"
    assert "strides (4, 12)" in repr(tensor.T)
    assert len(tensor) == 2
    assert (tensor.ndim, tensor.size, tensor.itemsize) == (2, 6, 4)


def test_names_of_types() -> None:
    assert xd.DType("float32") == np.float32 == xd.DType("<f4")
    assert xd.DType("float32") == "f4"
    assert xd.DType("float32") != "f8"
    assert xd.DType("float32") != 5
    assert xd.DType(float) == "float64"
    assert np.dtype(xd.DType("i2")) == np.int16
    assert xd.DType("bfloat16").str is None
    assert xd.DType("bfloat16").dlpack == (4, 16, 1)
    assert hash(xd.DType("f4")) == hash(xd.DType("float32"))
    assert str(xd.DType("f4")) == "float32"
    assert repr(xd.DType("f4")) == "crossdock.DType('float32')"
    with pytest.raises(ValueError, match="unknown element type"):
        xd.DType("floaty")


def test_names_of_devices() -> None:
    assert xd.Device("cpu") == "cpu" == str(xd.Device("cpu"))
    assert xd.Device((2, 1)) == "cuda:1"
    assert xd.Device("cuda:1").type == "cuda"
    assert xd.Device("cuda:1").type_id == 2
    assert xd.Device("cuda:1").id == 1
    assert xd.Device("cuda") != "cuda:1"
    assert xd.Device("cpu") != 5
    assert len({xd.Device("cpu"), xd.Device((1, 0)), xd.Device("cuda:1")}) == 2
    with pytest.raises(ValueError, match="gpu 7"):
        xd.Device("gpu 7")


def test_it_cant_be_made_up() -> None:
    with pytest.raises(TypeError):
        xd.Tensor()  # type: ignore[call-arg]
    # By the stable ABI a module can make its types immutable since Python 3.14.
    if not str(_native.__file__).endswith(".abi3.so") or sys.version_info >= (3, 14):
        with pytest.raises(TypeError):
            xd.Tensor.shape = 5  # type: ignore[misc]


# ---- NumPy's own ways ----------------------------------------------------------------------------------------------


class Celsius(np.ma.MaskedArray):
    """A class that somebody made from NumPy's."""


@pytest.mark.parametrize("kind", [np.ma.MaskedArray, Celsius, type("Deeper", (Celsius,), {})])
def test_masked_arrays_of_numpy_keep_no_mask_and_are_refused(kind: type) -> None:
    masked = kind(np.arange(3.0), mask=[False, True, False])
    with pytest.raises(NotImplementedError, match="filled"):
        xd.asarray(masked)
    np.testing.assert_array_equal(np.asarray(xd.asarray(masked.filled(0))), [0, 0, 2])


def test_the_array_method() -> None:
    source = np.arange(6, dtype="i4").reshape(2, 3)
    tensor = xd.asarray(source)
    assert tensor.__array__().ctypes.data == source.ctypes.data
    assert tensor.__array__(copy=False).ctypes.data == source.ctypes.data
    copied = tensor.__array__(copy=True)
    assert copied.ctypes.data != source.ctypes.data
    assert tensor.__array__(np.float64).dtype == tensor.__array__(dtype="f8").dtype == np.float64
    np.testing.assert_array_equal(copied, source)
    dates = np.array(["2024-01-01"], "M8[D]")
    assert xd.asarray(dates).__array__().ctypes.data == dates.ctypes.data
    with pytest.raises(TypeError, match="multiple values"):
        tensor.__array__("f8", dtype="f8")
    with pytest.raises(TypeError, match="unexpected"):
        tensor.__array__(order="C")


def test_what_numpy_hasnt_isnt_made_an_object() -> None:
    tensor = xd.empty((2,), "bfloat16")
    for read in (tensor.__array__, lambda: np.asarray(tensor)):
        with pytest.raises(BufferError, match="bfloat16"):
            read()


# ---- DLPack's allocator --------------------------------------------------------------------------------------------


class Prototype(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Prototype),
    ]


def allocate(*shape: int, device: int = 1, told: bool = True, **changes: Any) -> tuple[int, Managed | None, str]:
    """By the function in the type's table: its answer, what it made, and the error that it told, if it can be told."""
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = get_pointer(xd.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    tell = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
    function = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, tell)
    extents = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    prototype = Prototype(
        device_type=device, ndim=len(shape), code=2, bits=32, lanes=1, shape=ctypes.addressof(extents), strides=1
    )
    for name, value in changes.items():
        setattr(prototype, name, value)
    out = ctypes.c_void_p()
    said: list[str] = []
    address = ctypes.c_void_p.from_address(table + 16).value
    assert address is not None
    set_error = tell(lambda _, kind, text: said.append(f"{kind.decode()}: {text.decode()}")) if told else tell()
    answer = function(address)(ctypes.addressof(prototype), ctypes.addressof(out), None, set_error)
    return answer, Managed.from_address(out.value) if out.value else None, "".join(said)


def release(managed: Managed) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)(ctypes.addressof(managed))


@pytest.mark.parametrize("shape", [(2, 3), (5,), (), (0, 4), (1,) * 10])
def test_the_allocator_of_the_exchange_api(shape: tuple[int, ...]) -> None:
    answer, made, said = allocate(*shape)
    assert (answer, said) == (0, "")
    assert made is not None
    tensor = made.tensor
    assert (tensor.device_type, tensor.ndim, tensor.code, tensor.bits) == (1, len(shape), 2, 32)
    if shape:
        assert tuple((ctypes.c_int64 * len(shape)).from_address(tensor.shape)) == shape
    if 0 in shape:
        assert tensor.data is None
    else:
        ctypes.memset(tensor.data, 0xFF, 4 * int(np.prod(shape)))
    release(made)


def test_prototypes_that_are_refused_say_why() -> None:
    for shape, changes, text in [
        ((2, 3), {"shape": None}, "shape"),
        ((2,), {"ndim": -1}, "shape"),
        ((-1,), {}, "negative"),
        ((1 << 40, 1 << 40), {}, "exceeds the address space"),
        ((2,), {"bits": 0}, "no bits"),
        ((2,), {"device_type": 8}, "metal"),
        ((1,) * 70, {}, "64 dimensions"),
    ]:
        answer, made, said = allocate(*shape, **changes)
        assert (answer, made) == (-1, None), text
        assert text in said
        assert allocate(*shape, told=False, **changes)[:2] == (-1, None), "a caller that doesn't want to know why"


# ---- arguments -----------------------------------------------------------------------------------------------------


def test_an_argument_is_given_once() -> None:
    for wrong in (
        lambda: xd.asarray(b"x", "cpu", device="sim:0"),
        lambda: xd.asarray(b"x", None, False, copy=True),
        lambda: xd.asarray(b"x").to("cpu", device="sim:0"),
        lambda: xd.empty(3, "f4", dtype="f8"),
    ):
        with pytest.raises(TypeError, match=r"multiple values|incompatible function arguments"):
            wrong()


def test_types_are_keys_of_their_own_kind() -> None:
    """As NumPy's: equal to names, but not found by them."""
    assert xd.DType("f4") == "f4" == np.dtype("f4")
    assert len({xd.DType("f4"), xd.DType("float32"), xd.DType("<f4")}) == 1


def test_objects_that_lack_one_method_are_asked_for_the_other() -> None:
    """torch's lazy bits: a type without is_neg() may have is_conj()."""

    class Lazy:
        def __init__(self, conjugated: bool) -> None:
            self.array, self.conjugated = np.ones(3, "c8"), conjugated

        def __dlpack__(self, **keywords: Any) -> Any:
            return self.array.__dlpack__(**keywords)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

        def is_conj(self) -> bool:
            return self.conjugated

    for _ in range(2):
        xd.from_dlpack(Lazy(False))
        with pytest.raises(BufferError, match="resolve_conj"):
            xd.from_dlpack(Lazy(True))


# ---- exporters that say less than they should ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "scalar",
    [np.longdouble(1.5), np.clongdouble(2 + 1j), np.str_("text"), np.void(b"bytes"), np.datetime64("2020-01-02"),
     np.timedelta64(5, "s"), np.array([(1, 2.0)], dtype="i4,f8")[0]],
    ids=lambda scalar: type(scalar).__name__,
)  # fmt: skip
def test_scalars_of_numpy_are_their_value(scalar: Any) -> None:
    tensor = xd.asarray(scalar)
    others = [np.full(16, 0x41, np.uint8) for _ in range(50)]  # where a temporary of NumPy's was
    read = np.asarray(tensor)
    assert (read.shape, read.dtype, read[()]) == ((), scalar.dtype, scalar)
    assert tensor.readonly
    if isinstance(scalar, np.number) and not isinstance(scalar, np.timedelta64):
        np.testing.assert_array_equal(np.asarray(xd.asarray(scalar, copy=False)), scalar)  # its buffer says what it is
    else:
        with pytest.raises(BufferError, match="copy=False"):
            xd.asarray(scalar, copy=False)
    del others


def test_masks_arent_lost_by_other_ways_either() -> None:
    masked = np.ma.array([1.0, 2.0], mask=[False, True])

    class Gives:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return masked

    for lose in (lambda: xd.from_dlpack(masked), lambda: xd.asarray(Gives())):
        with pytest.raises(NotImplementedError, match="filled"):
            lose()


def test_what_array_gives_is_an_array() -> None:
    class Gives:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return None

    with pytest.raises(ValueError, match=r"__array__.*NoneType"):
        xd.asarray(Gives())


class Careless:
    """A producer that overlooks what it is asked for."""

    def __init__(self) -> None:
        self.array = np.arange(3.0)

    def __dlpack__(self, **_: Any) -> Any:
        return self.array.__dlpack__(max_version=(1, 0))

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_from_dlpack_doesnt_believe_its_producer(simulated_devices: Any) -> None:
    careless = Careless()
    copied = xd.from_dlpack(careless, copy=True)
    assert copied.pointer != careless.array.ctypes.data
    np.testing.assert_array_equal(np.asarray(copied), careless.array)
    there = xd.from_dlpack(careless, device="sim:0")
    assert there.device == "sim:0"
    np.testing.assert_array_equal(np.asarray(there.to("cpu")), careless.array)
    with pytest.raises(BufferError, match="copy=False"):
        xd.from_dlpack(careless, device="sim:0", copy=False)
    with pytest.raises(BufferError, match="no driver"):
        xd.from_dlpack(careless, device="metal:0")
    assert xd.from_dlpack(careless).pointer == careless.array.ctypes.data


def test_a_producers_copy_isnt_copied_again() -> None:
    class Copies:
        def __dlpack__(self, **keywords: Any) -> Any:
            self.made = xd.asarray(np.arange(3.0)).__dlpack__(**keywords)
            self.pointer = managed_of(self.made).tensor.data
            return self.made

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    producer = Copies()
    assert xd.from_dlpack(producer, copy=True).pointer == producer.pointer


def managed_of(capsule: object) -> Managed:
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return Managed.from_address(get_pointer(capsule, b"dltensor_versioned"))


@pytest.mark.parametrize(("code", "bits"), [(2, 24), (2, 128), (0, 128), (2, 8), (5, 48)])
def test_numbers_of_no_typestr_have_none(code: int, bits: int) -> None:
    """A float of 128 bits, say, isn't the long double that NumPy calls <f16."""
    answer, made, _ = allocate(2, code=code, bits=bits)
    assert answer == 0
    assert made is not None
    capsule_new = ctypes.pythonapi.PyCapsule_New
    capsule_new.restype, capsule_new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule = capsule_new(ctypes.addressof(made), b"dltensor_versioned", None)

    class Gives:
        def __dlpack__(self, **_: Any) -> Any:
            return capsule

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    tensor = xd.from_dlpack(Gives())
    assert tensor.dtype.str is None
    assert not hasattr(tensor, "__array_interface__")
    with pytest.raises(BufferError):
        np.asarray(tensor)


def test_buffers_that_are_none_say_why() -> None:
    view = memoryview(b"abc")
    view.release()
    with pytest.raises(ValueError, match="released memoryview"):
        xd.asarray(view)
    mapped = mmap.mmap(-1, 100)
    mapped.close()
    with pytest.raises(ValueError, match="mmap closed"):
        xd.asarray(mapped)

    class Pair(ctypes.Structure):
        _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_double)]

    class Packed(ctypes.Structure):
        _pack_ = 1
        _fields_ = [("a", ctypes.c_byte), ("b", ctypes.c_double)]

    for source, text in [
        (Pair(), 'format "T{<i:a:'),
        ((ctypes.c_wchar * 3)(), 'format "<u"'),
        (Packed(), "packed structures"),
    ]:
        with pytest.raises(TypeError, match=text):
            xd.asarray(source)


# ---- arguments of other types --------------------------------------------------------------------------------------


def test_streams_are_integers() -> None:
    tensor = xd.asarray(np.arange(3.0))
    tensor.__dlpack__(stream=np.int64(-1))
    for wrong in ("a", 1.0, True):
        with pytest.raises(TypeError, match="stream must be an int or None"):
            tensor.__dlpack__(stream=wrong)
    with pytest.raises(ValueError, match="64 bits"):
        tensor.__dlpack__(stream=1 << 64)


def test_devices_and_queues_of_nothing(simulated_devices: Any) -> None:
    queue: Any = xd.Queue.new("sim:0")
    for wrong, text in [
        (lambda: xd.Device(None), "a device must be"),  # type: ignore[arg-type]
        (lambda: xd.Queue("sim:0", native="x"), "native must be a queue's handle"),  # type: ignore[arg-type]
        (lambda: queue.wait_for(None), "takes a crossdock.Event, not NoneType"),
    ]:
        with pytest.raises((TypeError, ValueError), match=text):
            wrong()


def test_units_of_time_and_orders_of_bytes() -> None:
    for unit in ("", "[ns]", "[25s]", "[generic]", "[Y]"):
        xd.DType(f"<M8{unit}")
    for unit in ("[bogus]", "[0s]", "[25]", "[s/2]"):
        with pytest.raises(ValueError, match="M8"):
            xd.DType(f"<M8{unit}")
    assert xd.DType("V4") == xd.DType("|V4") == xd.DType("<V4")
    assert str(xd.empty(3, "V0").dtype) == "|V0"


def test_scalars_of_numpy_have_no_dimensions() -> None:
    for scalar in (
        np.bytes_(b"ab"),
        np.str_("ab"),
        np.float32(2),
        np.bool_(True),
        np.void(b"ab"),
        np.datetime64("2020"),
    ):
        tensor = xd.asarray(scalar)
        assert tensor.shape == ()
        assert tensor.readonly
        assert np.dtype(tensor.dtype) == scalar.dtype
        assert np.asarray(tensor)[()] == scalar


def test_aligned_structures_keep_their_gaps() -> None:
    inner = np.dtype([("e", "i2"), ("f", "i8")], align=True)
    dtype = np.dtype([("a", "i1"), ("b", "i8"), ("c", "f4", (2,)), ("d", inner)], align=True)
    assert dtype.itemsize > sum(np.dtype(kind).itemsize for kind in ("i1", "i8", "(2,)f4", inner))
    tensor = xd.asarray(np.zeros(2, dtype))
    assert tensor.dtype == dtype
    assert np.dtype(tensor.dtype) == dtype
    assert np.dtype(tensor.dtype).names == ("a", "b", "c", "d")


def test_a_dtype_that_says_nothing_is_overlooked() -> None:
    source = np.zeros(3, "V2")

    class Exporter:
        __array_interface__ = source.__array_interface__

    class LikeADtype:
        str, itemsize, name, fields = "|V2", 2, 5, None

    for dtype in (None, 5, object(), LikeADtype(), np.dtype("f8"), np.dtype([("a", "i2")]), np.dtype([("a", "f8")])):
        Exporter.dtype = dtype
        tensor = xd.asarray(Exporter())
        assert str(tensor.dtype) == "|V2"
        assert tensor.nbytes == source.nbytes
    fields = np.zeros(3, [("a", "i4")])
    Exporter.__array_interface__, Exporter.dtype = fields.__array_interface__, np.dtype("f4")
    assert xd.asarray(Exporter()).dtype == fields.dtype


def test_classes_that_are_no_types() -> None:
    class HasADtype:
        dtype = "f8"

    for wrong in (HasADtype, xd.Tensor, np.ndarray, dict):
        with pytest.raises(xd.InvalidArgumentError, match="is not an element type"):
            xd.DType(wrong)


def test_a_copy_that_the_producer_owns_up_to_is_none_without_copies() -> None:
    ours = xd.asarray(np.arange(3.0))

    class Copies:
        def __dlpack__(self, *, max_version=None, dl_device=None, copy=None, stream=None):
            return ours.__dlpack__(max_version=(1, 3), copy=True)

        def __dlpack_device__(self):
            return ours.__dlpack_device__()

    assert xd.from_dlpack(Copies()).tolist() == [0, 1, 2]
    for take in (xd.from_dlpack, xd.asarray):
        with pytest.raises(BufferError, match="copy=False"):
            take(Copies(), copy=False)
