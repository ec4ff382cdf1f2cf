"""The buffer protocol of xd.Tensor, request by request, and of what isn't a number: formats, bytes, padding."""

from __future__ import annotations

import array
import ctypes
import hashlib
import io
from typing import Any

import numpy as np
import pytest

import crossdock as xd

SIMPLE, WRITABLE, FORMAT, ND, STRIDES = 0, 1, 4, 8, 0x10 | 8
C_ORDER, F_ORDER, ANY_ORDER = 0x20 | STRIDES, 0x40 | STRIDES, 0x80 | STRIDES


class View(ctypes.Structure):
    """A Py_buffer."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


def request(obj: Any, flags: int) -> dict[str, Any]:
    """What a consumer in C gets who asks like this."""
    view = View()
    ctypes.pythonapi.PyObject_GetBuffer.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
    ctypes.pythonapi.PyObject_GetBuffer(obj, ctypes.addressof(view), flags)
    try:
        return {
            "bytes": ctypes.string_at(view.buf, view.len) if flags & STRIDES != STRIDES else view.len,
            "itemsize": view.itemsize,
            "readonly": bool(view.readonly),
            "ndim": view.ndim,
            "format": view.format,
            "shape": tuple(view.shape[: view.ndim]) if view.shape else None,
            "strides": tuple(view.strides[: view.ndim]) if view.strides else None,
        }
    finally:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))


def tensor_of(dtype: Any, shape: Any = (3, 2)) -> tuple[np.ndarray, xd.Tensor]:
    count = int(np.prod(shape))
    raw = np.arange(count * np.dtype(dtype).itemsize, dtype="u1") % 2  # of a bool, too, each byte is one
    source = raw.view(dtype).reshape(shape) if count else np.zeros(shape, dtype)
    return source, xd.asarray(source)


ALIGNED = np.dtype([("a", "u1"), ("b", "<i4")], align=True)
NESTED = np.dtype([("in", ALIGNED), ("z", "u1")], align=True)
FORMATS: list[tuple[Any, str]] = [
    ("S3", "3s"),
    ("<U2", "2w"),
    (">U2", ">2w"),
    ("g", "g"),
    ("G", "Zg"),
    ([("a", "u1"), ("b", "<i4")], "T{B:a:=i:b:}"),
    (ALIGNED, "T{B:a:xxxi:b:}"),
    (np.dtype([("a", "<i4"), ("b", "u1")], align=True), "T{i:a:B:b:}"),
    (NESTED, "T{T{B:a:xxxi:b:}:in:B:z:}"),
    ([("x", "<f4"), ("at", "<i2", (2, 3)), ("in", [("a", "u1"), ("b", ">f8")])], "T{=f:x:(2,3)h:at:T{B:a:>d:b:}:in:}"),
    ([("s", "S3"), ("b", "?"), ("c", "<c8"), ("t", "<U2")], "T{3s:s:?:b:Zf:c:2w:t:}"),
    ([("v", "V3"), ("i", "<i4")], "T{3x:v:=i:i:}"),
    ([("u", "u1"), ("g", "g")], "T{B:u:^g:g:}"),
    ([("n", [("k", "<i2", (2,))], (3,))], "T{(3)T{(2)h:k:}:n:}"),
    ([("é", "<i4")], "T{i:é:}"),
    ([("e", "<f2"), ("q", "<i8")], "T{=e:e:q:q:}"),
]
GAPS: list[Any] = [
    {"names": ["a"], "formats": ["u1"], "offsets": [1000], "itemsize": 2000},
    {"names": ["b", "z"], "formats": ["<i2", "<f8"], "offsets": [2, 16], "itemsize": 32},
    {"names": ["b", "z"], "formats": [">i2", ALIGNED], "offsets": [1, 7], "itemsize": 16},
    [("in", [("a", "<i4"), ("b", "u1")]), ("c", "u1"), ("d", "u1"), ("e", "u1")],
    [("q", ">i8"), ("r", "<i8")],
]
WITHOUT: list[Any] = [
    "M8[ns]",
    "m8[s]",
    "V5",
    ">g",
    [("d", "M8[s]")],
    [("a:b", "i4")],
    [(("title", "name"), "i4")],
    [("z", "i4", (0,)), ("y", "i4")],
]


def memory_of(array: np.ndarray) -> int:
    return int(array.ctypes.data)


@pytest.mark.parametrize(("dtype", "text"), FORMATS, ids=lambda case: case if isinstance(case, str) else "")
def test_formats_of_what_isnt_one_number(dtype: Any, text: str) -> None:
    source, tensor = tensor_of(dtype)
    assert memoryview(tensor).format == text
    back = np.asarray(tensor)
    assert back.dtype == source.dtype
    assert memory_of(back) == memory_of(source)


@pytest.mark.parametrize("dtype", [dtype for dtype, _ in FORMATS] + GAPS + WITHOUT, ids=str)
@pytest.mark.parametrize("aligned", [True, False])
def test_every_dtype_comes_back(dtype: Any, aligned: bool) -> None:
    """Structures with gaps too, and where the memory isn't aligned."""
    itemsize = np.dtype(dtype).itemsize
    first = 0 if aligned else 1
    source = np.zeros(itemsize * 4 + first, "u1")[first:].view(dtype)
    for part in (source, source[::-2], source[:0], source.reshape(2, 2).T):
        tensor = xd.asarray(part)
        assert tensor.dtype == part.dtype
        back = np.asarray(tensor)
        assert back.dtype == part.dtype
        assert back.shape == part.shape
        assert part.size == 0 or (memory_of(back), back.strides) == (memory_of(part), part.strides)
        again = np.asarray(xd.asarray(back))
        assert again.dtype == part.dtype


@pytest.mark.parametrize("dtype", WITHOUT, ids=str)
def test_types_without_a_format(dtype: Any) -> None:
    _, tensor = tensor_of(dtype, 4)
    with pytest.raises(BufferError, match="no format for elements of type"):
        memoryview(tensor)


@pytest.mark.parametrize(
    "dtype", [*WITHOUT, *GAPS, *(dtype for dtype, _ in FORMATS), "f8", ">i4", "?", "c16", "f2"], ids=str
)
@pytest.mark.parametrize("shape", [(4,), (3, 2), (), (0,)], ids=str)
def test_who_asks_for_no_format_gets_bytes(dtype: Any, shape: tuple[int, ...]) -> None:
    source, tensor = tensor_of(dtype, shape)
    expected = source.tobytes()
    assert hashlib.sha256(tensor).digest() == hashlib.sha256(expected).digest()
    file = io.BytesIO()
    assert file.write(tensor) == len(expected)
    assert file.getvalue() == expected
    assert bytearray(b"").join([tensor]) == expected  # type: ignore[list-item]
    simple = request(tensor, SIMPLE)
    assert (simple["bytes"], simple["itemsize"]) == (expected, source.itemsize)
    assert (simple["ndim"], simple["format"], simple["shape"], simple["strides"]) == (1, None, None, None)
    whole = request(tensor, ANY_ORDER)  # as MPI asks where the type is named beside the array
    assert (whole["bytes"], whole["shape"], whole["format"]) == (len(expected), shape or None, None)


@pytest.mark.parametrize("flags", [SIMPLE, WRITABLE, ND, STRIDES, C_ORDER, ANY_ORDER, FORMAT | ND, FORMAT | STRIDES])
@pytest.mark.parametrize("shape", [(6,), (3, 2), ()], ids=str)
def test_what_each_request_gets(flags: int, shape: tuple[int, ...]) -> None:
    source = np.arange(max(int(np.prod(shape)), 1), dtype="i4").reshape(shape)
    got = request(xd.asarray(source), flags)
    assert got["format"] == (b"i" if flags & FORMAT else None)
    assert got["shape"] == (shape or None if flags & ND else None)
    assert got["strides"] == (source.strides or None if flags & STRIDES == STRIDES else None)
    assert got["ndim"] == (len(shape) if flags & ND else 1)
    assert (got["itemsize"], got["readonly"]) == (4, False)


def test_requests_that_the_memory_doesnt_fit() -> None:
    source = np.arange(24, dtype="i4").reshape(2, 3, 4)
    rows, columns, gaps = xd.asarray(source), xd.asarray(source.T), xd.asarray(source[:, ::2])
    refused = {
        rows: [F_ORDER],
        columns: [SIMPLE, ND, C_ORDER],
        gaps: [SIMPLE, ND, C_ORDER, F_ORDER, ANY_ORDER],
    }
    for tensor, wrong in refused.items():
        for flags in (SIMPLE, ND, STRIDES, C_ORDER, F_ORDER, ANY_ORDER):
            for more in (0, FORMAT, WRITABLE, FORMAT | WRITABLE):
                if flags in wrong:
                    with pytest.raises(BufferError, match="contiguous"):
                        request(tensor, flags | more)
                else:
                    request(tensor, flags | more)
    source.flags.writeable = False
    for flags in (SIMPLE, STRIDES, FORMAT | STRIDES):
        assert request(xd.asarray(source), flags)["readonly"]
        with pytest.raises(BufferError, match="read-only"):
            request(xd.asarray(source), flags | WRITABLE)


@pytest.mark.parametrize("dtype", ["M8[ns]", "S8", "V8", "g", ALIGNED], ids=str)
def test_bytes_that_nobody_named_arent_written(dtype: Any) -> None:
    """Torch asks for writable bytes without a format, and takes what it gets for float32."""
    source, tensor = tensor_of(dtype, 4)
    before = source.tobytes()
    with pytest.raises(BufferError, match=r"can't be exported as writable bytes.*numpy\.asarray"):
        request(tensor, WRITABLE)
    with pytest.raises((BufferError, TypeError)):
        io.BytesIO(bytes(64)).readinto(tensor)  # type: ignore[arg-type]
    assert source.tobytes() == before
    io.BytesIO(bytes(source.nbytes)).readinto(np.asarray(tensor).view("u1"))
    assert source.tobytes() == bytes(source.nbytes)
    assert not request(tensor, WRITABLE | ANY_ORDER)["readonly"], "who asks for more than bytes knows what they are"


@pytest.mark.parametrize("dtype", ["S3", "<U2", ">U2", "V5", "g", "G"])
def test_formats_of_other_exporters_come_in(dtype: str) -> None:
    source, _ = tensor_of(dtype)
    tensor = xd.asarray(memoryview(source))
    assert tensor.dtype == source.dtype
    assert tensor.pointer == memory_of(source)
    assert tensor.shape == source.shape


def test_text_of_the_array_module_comes_in() -> None:
    tensor = xd.asarray(array.array("u", "häß"))
    assert tensor.dtype == "<U1"
    assert np.asarray(tensor).tolist() == ["h", "ä", "ß"]


def test_a_format_lives_as_long_as_its_view() -> None:
    view = memoryview(xd.asarray(np.zeros(3, ALIGNED)))
    np.asarray(xd.asarray(np.zeros(3, NESTED)))
    assert view.format == "T{B:a:xxxi:b:}"
    assert view[1:].format == "T{B:a:xxxi:b:}"
