"""xd.Tensor with other libraries on the host, both ways: values and pointers compared."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import crossdock as xd

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
torch = pytest.importorskip("torch")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
na = pytest.importorskip("nanoarrow")
duckdb = pytest.importorskip("duckdb")
ml_dtypes = pytest.importorskip("ml_dtypes")

NUMBERS = "i1 i2 i4 i8 u1 u2 u4 u8 f4 f8".split()


def address(peer: Any) -> int:
    """Where a peer's array begins, asked in its own words."""
    if isinstance(peer, torch.Tensor):
        return int(peer.data_ptr())
    if isinstance(peer, np.ndarray):
        return int(peer.ctypes.data)
    if isinstance(peer, pa.Array):
        storage = getattr(peer, "storage", peer)
        while pa.types.is_fixed_size_list(storage.type):
            storage = storage.values
        return int(storage.buffers()[1].address) + storage.offset * storage.type.bit_width // 8
    return int(peer.unsafe_buffer_pointer())  # JAX


def same(tensor: xd.Tensor, peer: Any) -> None:
    assert tensor.pointer == address(peer)
    np.testing.assert_array_equal(np.asarray(tensor), np.asarray(peer))


# ---- torch ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["M8[ns]", "S8", "V8", "g", [("a", "i4"), ("b", "f4")]], ids=str)
@pytest.mark.parametrize("writable", [True, False])
def test_torch_takes_no_bytes_for_numbers(dtype: Any, writable: bool) -> None:
    """torch asks for the bytes of any object with a buffer, and reads them as float32 if it gets them."""
    source = np.zeros(4, dtype)
    source.flags.writeable = writable
    tensor = xd.asarray(source)
    for take in (torch.asarray, torch.as_tensor, torch.tensor, lambda x: torch.frombuffer(x, dtype=torch.float32)):
        with pytest.raises((RuntimeError, BufferError, TypeError)):
            take(tensor)
    if writable:
        view = torch.frombuffer(np.asarray(tensor).view("u1"), dtype=torch.uint8)
        assert address(view) == tensor.pointer


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn], ids=str)
def test_torch_takes_its_own_types_by_dlpack(dtype: Any) -> None:
    source = torch.ones(4).to(dtype)
    tensor = xd.asarray(source)
    for take in (torch.as_tensor, torch.from_dlpack):
        assert take(tensor).dtype == dtype
    with pytest.raises(RuntimeError):
        torch.asarray(tensor)
    assert hashlib.sha256(tensor).digest() == hashlib.sha256(bytes(source.view(torch.uint8).numpy())).digest()


@pytest.mark.parametrize(
    "dtype", "bool int8 int16 int32 int64 uint8 uint16 float16 float32 float64 complex64 complex128".split()
)
def test_torch_both_ways(dtype: str) -> None:
    source = torch.arange(24).reshape(2, 3, 4).to(getattr(torch, dtype))
    tensor = xd.asarray(source)
    assert tensor.dtype == getattr(torch, dtype)
    same(tensor, source)
    back = torch.from_dlpack(tensor)
    assert address(back) == address(source)
    assert back.dtype == source.dtype
    assert torch.equal(back, source)
    back[0, 0, 0] = 1
    assert source[0, 0, 0] == 1


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_torch_types_that_numpy_hasnt(dtype: str) -> None:
    source = torch.arange(6).to(torch.float32).to(getattr(torch, dtype))
    tensor = xd.asarray(source)
    assert str(tensor.dtype) == dtype
    assert tensor.pointer == address(source)
    back = torch.from_dlpack(tensor)
    assert back.dtype == source.dtype
    assert torch.equal(back.to(torch.float32), source.to(torch.float32))


def test_bfloat16_goes_between_torch_and_ml_dtypes() -> None:
    source = np.arange(6).astype(ml_dtypes.bfloat16)
    tensor = xd.asarray(source)
    assert tensor.dtype == source.dtype
    assert tensor.pointer == address(source)
    assert torch.from_dlpack(tensor).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "float8_e4m3fn"])
def test_types_of_ml_dtypes(dtype: str) -> None:
    scalar = getattr(ml_dtypes, dtype)
    source = np.arange(6).astype(scalar)
    tensor = xd.asarray(source)
    assert str(tensor.dtype) == dtype
    assert tensor.pointer == address(source)
    assert tensor.dtype == source.dtype == scalar
    assert xd.empty(2, scalar).dtype == xd.empty(2, source.dtype).dtype == tensor.dtype
    one = xd.asarray(source[3])
    assert (one.shape, str(one.dtype), one.readonly) == ((), dtype, True)


def test_types_of_ml_dtypes_that_mean_something_to_it_alone() -> None:
    scalars = [one for one in vars(ml_dtypes).values() if isinstance(one, type) and issubclass(one, np.generic)]
    assert len(scalars) > 10
    refused = []
    for scalar in scalars:
        source = np.ones(3, scalar)
        try:
            taken = xd.asarray(source)
        except xd.UnsupportedTypeError as error:
            message = str(error)
            with pytest.raises(xd.UnsupportedTypeError, match=source.dtype.name):
                xd.empty(3, scalar)
            refused.append(source.dtype.name)
            assert source.dtype.name in message
        else:
            assert str(taken.dtype) == source.dtype.name
            assert taken.dtype == source.dtype
            assert taken.nbytes == source.nbytes
        assert xd.DType(f"V{source.itemsize}") != source.dtype
    assert {"int4", "uint4", "int2"} <= set(refused)
    assert not {"bfloat16", "float8_e5m2", "float8_e4m3fn"} & set(refused)


def test_bfloat16_in_the_other_byte_order() -> None:
    native = np.array([1, 2, 3], ml_dtypes.bfloat16)
    array = native.byteswap().view(native.dtype.newbyteorder(">"))
    assert array.astype("f4").tolist() == [1, 2, 3]
    with pytest.raises(xd.UnsupportedTypeError, match=r"array\.byteswap\(\)\.view\(array\.dtype\.newbyteorder\(\)\)"):
        xd.asarray(array)
    assert xd.DType("bfloat16") != array.dtype
    mended = xd.asarray(array.byteswap().view(array.dtype.newbyteorder()))
    assert np.asarray(torch.from_dlpack(mended).to(torch.float32)).tolist() == [1, 2, 3]


def test_torch_strides() -> None:
    source = torch.arange(24.0).reshape(2, 3, 4)
    for view in (source.permute(2, 0, 1), source[:, ::2], source[1], source[..., 1:]):
        tensor = xd.asarray(view)
        same(tensor, view)
        back = torch.from_dlpack(tensor)
        assert back.stride() == view.stride()
        assert address(back) == address(view)


def test_torch_refuses_what_isnt_memory_alone() -> None:
    learning = torch.zeros(3, requires_grad=True)
    for read in (xd.from_dlpack, xd.asarray):  # torch's C interface gives it, for its own kernels
        for parameter in (learning, torch.nn.Parameter(learning)):
            with pytest.raises(BufferError, match="detach"):
                read(parameter)
    assert xd.asarray(learning.detach()).pointer == address(learning)
    for virtual in (torch.eye(3).to_sparse(), torch.empty(3, device="meta")):
        with pytest.raises(BufferError, match="can't be exported by DLPack: Cannot") as caught:
            xd.asarray(virtual)
        assert "\n" not in str(caught.value)
    conjugate = torch.zeros(3, dtype=torch.complex64).conj()
    with pytest.raises(BufferError, match="is_conj"):
        xd.asarray(conjugate)
    for negated in (conjugate.imag, conjugate.imag[:1], conjugate.imag[0]):
        with pytest.raises(BufferError, match="is_neg"):
            xd.asarray(negated)
    assert xd.asarray(conjugate.imag.resolve_neg()).shape == (3,)


def test_torch_empty_and_scalar() -> None:
    assert xd.asarray(torch.zeros(3, 0)).shape == (3, 0)
    assert torch.from_dlpack(xd.asarray(np.zeros((3, 0)))).shape == (3, 0)
    assert xd.asarray(torch.tensor(5.0)).shape == ()
    assert torch.from_dlpack(xd.asarray(np.array(5.0))).item() == 5.0


# ---- JAX -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32", "float16", "float32", "bfloat16", "bool"])
def test_jax_comes_in_without_a_copy(dtype: str) -> None:
    source = jnp.arange(12).reshape(3, 4).astype(dtype)
    tensor = xd.asarray(source)
    assert tensor.pointer == address(source)
    assert str(tensor.dtype) == dtype
    assert tensor.shape == (3, 4)


def test_jax_takes_tensors() -> None:
    import jax

    source = np.arange(1024, dtype="f4").reshape(32, 32)
    taken = jax.dlpack.from_dlpack(xd.asarray(source))
    np.testing.assert_array_equal(np.asarray(taken), source)


# ---- Arrow ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*NUMBERS, "f2", "<M8[ns]", "<M8[s]", "<m8[us]"])
def test_arrow_columns_both_ways(dtype: str) -> None:
    values = np.arange(10).astype(dtype)
    column = pa.array(values)[2:7]
    tensor = xd.asarray(column)
    assert tensor.readonly
    assert tensor.dtype == values.dtype
    assert tensor.pointer == column.buffers()[1].address + 2 * values.itemsize
    np.testing.assert_array_equal(np.asarray(tensor), values[2:7])
    back = pa.array(xd.asarray(values))
    assert address(back) == values.ctypes.data
    assert back.equals(pa.array(values))


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (0, 3), (4, 1, 2, 3)])
def test_more_dimensions_are_fixed_shape_tensors(shape: tuple[int, ...]) -> None:
    source = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    column = pa.array(xd.asarray(source))
    assert column.type == pa.fixed_shape_tensor(pa.int32(), shape[1:])
    if source.size:
        assert address(column) == source.ctypes.data
        np.testing.assert_array_equal(column.to_numpy_ndarray(), source)
        same(xd.asarray(column), source)
    assert xd.asarray(column).shape == shape
    part = column[1:]
    assert xd.asarray(part).shape == (max(shape[0] - 1, 0), *shape[1:])
    np.testing.assert_array_equal(np.asarray(xd.asarray(part)), source[1:])


def test_permuted_fixed_shape_tensors() -> None:
    source = np.arange(24, dtype="i4").reshape(2, 3, 4).transpose(0, 2, 1)
    column = pa.FixedShapeTensorArray.from_numpy_ndarray(source)
    tensor = xd.asarray(column)
    assert tensor.shape == (2, 4, 3)
    np.testing.assert_array_equal(np.asarray(tensor), source)


def test_fixed_size_lists_are_dimensions() -> None:
    column = pa.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], pa.list_(pa.list_(pa.int16(), 2), 2))
    np.testing.assert_array_equal(np.asarray(xd.asarray(column)), [[[1, 2], [3, 4]], [[5, 6], [7, 8]]])
    np.testing.assert_array_equal(np.asarray(xd.asarray(column[1:])), [[[5, 6], [7, 8]]])


def arrow_types() -> dict[str, pa.DataType]:
    n8 = pa.int8()
    kinds = [
        n8, pa.float16(), pa.bool_(), pa.string(), pa.binary(3), pa.binary(0), pa.date32(), pa.time64("ns"),
        pa.timestamp("us", "UTC"), pa.duration("ms"), pa.month_day_nano_interval(), pa.decimal128(10, 2),
        pa.string_view(), pa.list_(n8), pa.list_(n8, 2), pa.list_(n8, 0), pa.list_view(n8), pa.struct([("a", n8)]),
        pa.struct([]), pa.map_(n8, n8), pa.dictionary(n8, pa.string()), pa.list_(pa.list_(n8, 3), 2), pa.null(),
        pa.list_(pa.null(), 2), pa.list_(pa.list_(pa.null(), 1), 2), pa.run_end_encoded(pa.int32(), n8),
        pa.sparse_union([pa.field("a", n8)]), pa.dense_union([pa.field("a", n8)]), pa.list_(pa.string(), 2),
        pa.list_(pa.struct([("a", n8)]), 2), pa.list_(pa.bool_(), 3), pa.uuid(), pa.opaque(pa.null(), "x", "y"),
    ]  # fmt: skip
    return {str(kind): kind for kind in kinds}


@pytest.mark.parametrize("take", [xd.asarray, xd.from_arrow, lambda column: xd.from_arrow(column, bits=True)])
@pytest.mark.parametrize("kind", arrow_types().values(), ids=arrow_types())
def test_nulls_of_every_type_are_refused(take, kind) -> None:
    nulls = pa.nulls(9, kind)
    for column in (nulls, nulls.slice(2, 3), pa.chunked_array([nulls]), pa.table({"a": nulls})):
        with pytest.raises((xd.ExportError, xd.UnsupportedTypeError, xd.InvalidDataError)):  # the last: null structs
            take(column)


def test_nulls_that_a_slice_doesnt_show_dont_count() -> None:
    lists = pa.FixedSizeListArray.from_arrays(pa.array([1, None, 3, 4, 5, None], pa.int32()), 2)
    np.testing.assert_array_equal(np.asarray(xd.asarray(lists[1:2])), [[3, 4]])
    nested = pa.FixedSizeListArray.from_arrays(lists, 1)
    np.testing.assert_array_equal(np.asarray(xd.asarray(nested[1:2])), [[[3, 4]]])
    for shown in (lists, lists[:2], lists[1:], nested[2:]):
        with pytest.raises(BufferError, match=r"[0-9] nulls?\b"):
            xd.asarray(shown)
    with pytest.raises(BufferError, match="1 null, "):
        xd.asarray(lists[1:])


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array([1, None]), "1 null, "),
        (pa.array([[1], None], pa.list_(pa.int8(), 1)), "1 null, "),
        (pa.array(["a"]), "cast it"),
        (pa.array([[1]]), "cast it"),
        (pa.array([True]), "bits=True"),
        (pa.array(["a"]).dictionary_encode(), "decode it"),
        (pa.record_batch({"a": [1], "b": [2]}), "2 columns"),
        (pa.array([], pa.decimal128(5)), "cast it"),
    ],
    ids=str,
)
def test_columns_that_are_no_tensors_say_what_to_do(column: Any, text: str) -> None:
    with pytest.raises(BufferError, match=text):
        xd.from_arrow(column)


def test_tensors_that_are_no_columns_say_what_to_do() -> None:
    for source, text in [
        (np.zeros((3, 4)).T, "contiguous"),
        (np.zeros(8)[::2], "contiguous"),
        (np.array(1.0), "dimension"),
        (np.zeros(3, ">f4"), "native byte order"),
        (np.zeros(3, "c8"), "no type"),
        (np.zeros(3, bool), "bits=True"),
        (np.zeros(3, "<M8[D]"), "no type"),
    ]:
        with pytest.raises(BufferError, match=text):
            xd.asarray(source).__arrow_c_array__()


def test_what_a_type_means_is_never_lost() -> None:
    zoned = pa.array([1, 2], pa.timestamp("us", "Europe/Zurich"))
    truths = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1], pa.int8()))
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"x" * 16], pa.binary(16)))
    inside = pa.FixedSizeListArray.from_arrays(pa.array([1, 2, 3, 4], zoned.type), 2)
    for column, text in [(zoned, "Europe/Zurich"), (truths, "arrow.bool8"), (ids, "arrow.uuid"), (inside, "Zurich")]:
        for read in (xd.asarray, xd.from_arrow):
            with pytest.raises(BufferError, match=text):
                read(column)
    assert xd.from_arrow(zoned.cast(pa.timestamp("us"))).dtype == "<M8[us]"
    assert xd.from_arrow(truths.storage).dtype == "int8"
    shaped = pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int8(), [2]), pa.array([[1, 2]], pa.list_(pa.int8(), 2))
    )
    assert xd.from_arrow(shaped).shape == (1, 2)


def test_bool_is_converted_on_request() -> None:
    source = np.arange(20) % 3 == 0
    column = xd.asarray(source).to_arrow(bits=True)
    assert len(column) == 20
    assert pa.array(column).to_pylist() == source.tolist()
    back = xd.from_arrow(pa.array(source)[3:], bits=True)
    np.testing.assert_array_equal(np.asarray(back), source[3:])
    assert pa.array(xd.asarray(source[::-1]).to_arrow(bits=True)).to_pylist() == source[::-1].tolist()


def test_chunks() -> None:
    assert xd.from_arrow(pa.chunked_array([[1, 2]])).shape == (2,)
    with pytest.raises(BufferError, match="2 chunks"):
        xd.from_arrow(pa.chunked_array([[1], [2]]))
    with pytest.raises(TypeError, match="not an Arrow column"):
        xd.from_arrow(np.zeros(3))
    for kind, shape, dtype in [
        (pa.int32(), (0,), "i4"),
        (pa.list_(pa.float64(), 3), (0, 3), "f8"),
        (pa.timestamp("ns"), (0,), "<M8[ns]"),
    ]:
        none = xd.from_arrow(pa.chunked_array([], type=kind))
        assert (none.shape, none.dtype) == (shape, dtype)
    with pytest.raises(BufferError, match="0 chunks"):
        xd.from_arrow(pa.chunked_array([], type=pa.utf8()))


def test_conversions_of_bool_let_others_run() -> None:
    source = xd.asarray(np.zeros(1 << 24, bool))
    interval = sys.getswitchinterval()
    ticks = [0]
    over = threading.Event()

    def tick() -> None:
        while not over.wait(0.0005):
            ticks[0] += 1

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        sys.setswitchinterval(100)  # nobody is made to give the lock up
        before = ticks[0]
        column = source.to_arrow(bits=True)
        between = ticks[0]
        xd.from_arrow(column, bits=True)
        after = ticks[0]
    finally:
        sys.setswitchinterval(interval)
        over.set()
        thread.join()
    assert before < between < after


def test_arrow_methods_hold_to_the_text() -> None:
    tensor = xd.asarray(np.arange(3))
    tensor.__arrow_c_array__(None)
    tensor.__arrow_c_array__(requested_schema=pa.int64().__arrow_c_schema__())
    tensor.__arrow_c_device_array__(requested_schema=None, future=None)
    with pytest.raises(NotImplementedError, match="future"):
        tensor.__arrow_c_device_array__(future=1)
    assert pa.DataType._import_from_c_capsule(tensor.__arrow_c_schema__()) == pa.int64()


def test_masks_become_validity() -> None:
    class Masked:
        def __init__(self) -> None:
            self.values, self.valid = np.arange(4.0), np.array([True, False, True, True])
            self.__array_interface__ = {**self.values.__array_interface__, "mask": self.valid}

    assert pa.array(xd.asarray(Masked())).to_pylist() == [0, None, 2, 3]
    assert pa.array(xd.asarray(Masked())[::-1][:1].copy()).to_pylist() == [3]


# ---- others --------------------------------------------------------------------------------------------------------


def test_polars_series() -> None:
    series = pl.Series([1.0, 2.0, 3.0])
    tensor = xd.asarray(series)
    assert tensor.pointer == series.to_numpy().ctypes.data
    np.testing.assert_array_equal(np.asarray(tensor), [1, 2, 3])
    assert pl.Series(pa.array(xd.asarray(np.arange(3)))).to_list() == [0, 1, 2]


def test_nanoarrow() -> None:
    source = na.c_array([1, 2, 3], na.int32())
    tensor = xd.asarray(source)
    assert tensor.pointer == source.buffers[1]
    assert tensor.readonly
    values = np.arange(5, dtype="f8")
    back = na.c_array(xd.asarray(values))
    assert back.buffers[1] == values.ctypes.data
    buffer = na.c_buffer(values)
    assert xd.asarray(buffer).pointer == values.ctypes.data


def test_duckdb_reads_a_tensor_as_a_column() -> None:
    numbers = pa.table({"x": pa.array(xd.asarray(np.arange(10)))})
    assert duckdb.from_arrow(numbers).sum("x").fetchall() == [(45,)]


def test_duckdbs_columns_are_tensors() -> None:
    with duckdb.connect() as connection:
        relation = connection.sql("select (i * 1.5)::double as x from range(1000) t(i)")
        tensor = xd.asarray(relation)
        assert (tensor.shape, tensor.dtype, tensor.readonly) == ((1000,), "f8", True)
        np.testing.assert_array_equal(np.asarray(tensor), np.arange(1000) * 1.5)
        column = connection.sql("select i::integer as i from range(5) t(i)").to_arrow_table()["i"].chunk(0)
        assert xd.asarray(column).pointer == address(column)
        with pytest.raises(BufferError, match="2 columns"):
            xd.asarray(connection.sql("select 1 as a, 2 as b"))
        # And back, by the stream: DuckDB reads the memory itself.
        batch = xd.RecordBatch(pa.record_batch({"x": pa.array(xd.asarray(np.arange(7)))}))
        stream = xd.RecordBatchReader([batch, batch])  # noqa: F841 DuckDB finds it by its name
        assert connection.sql("select sum(x)::int from stream").fetchall() == [(42,)]


@pytest.mark.parametrize("dtype", ["f4", "i4", "u1", "f2", "bool"])
def test_jax_takes_the_memory_itself(dtype: str) -> None:
    # JAX copies what isn't at a multiple of 64 bytes.
    memory = np.zeros(64 * 64 * np.dtype(dtype).itemsize + 64, "u1")
    aligned = memory[-memory.ctypes.data % 64 :][: 64 * 64 * np.dtype(dtype).itemsize].view(dtype).reshape(64, 64)
    aligned[...] = source = np.eye(64, dtype=dtype)
    tensor = xd.asarray(aligned)
    out = jax.dlpack.from_dlpack(tensor)
    assert out.unsafe_buffer_pointer() == tensor.pointer == aligned.ctypes.data
    np.testing.assert_array_equal(np.asarray(out), source)
    # And in again: the same memory, by whichever protocol. Only the buffer says that JAX's arrays are read-only.
    assert xd.asarray(out).pointer == aligned.ctypes.data
    assert xd.asarray(out).readonly
    assert xd.from_dlpack(out).pointer == aligned.ctypes.data
    assert not xd.from_dlpack(out).readonly


def test_pyarrow_buffers_and_tensors() -> None:
    buffer = pa.py_buffer(b"12345678")
    assert xd.asarray(buffer).pointer == buffer.address
    assert xd.asarray(buffer).readonly
    source = np.arange(6.0).reshape(2, 3)
    tensor = xd.asarray(pa.Tensor.from_numpy(source))
    assert tensor.pointer == source.ctypes.data
    assert tensor.shape == (2, 3)


# ---- on and on -----------------------------------------------------------------------------------------------------

HOPS: dict[str, Callable[[xd.Tensor], Any]] = {
    "numpy": np.asarray,
    "dlpack": np.from_dlpack,
    "torch": torch.from_dlpack,
    "memoryview": memoryview,
    "arrow": pa.array,
}


@pytest.mark.parametrize("first", HOPS)
@pytest.mark.parametrize("second", HOPS)
def test_two_hops_end_where_they_began(first: str, second: str) -> None:
    source = np.arange(6.0)
    there = HOPS[first](xd.asarray(source))
    back = xd.asarray(HOPS[second](xd.asarray(there)))
    assert back.pointer == source.ctypes.data
    # What was Arrow's once is read-only for good; torch alone doesn't know such memory, and warns.
    assert back.readonly == ("arrow" in (first, second) and second != "torch")
