"""Other libraries on a real GPU, both ways: values and pointers compared. Skipped where there is none.

Each library is tested where it is installed with CUDA. What must come before what is tested by a race: work that takes
long on the producer's stream, and a consumer that isn't told of it gets wrong values.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import crossdock as xd


def gpu() -> bool:
    """A real one: the fake has no kernels for these libraries to run."""
    if "CROSSDOCK_CUDA_LIBRARY" in os.environ:
        return False
    try:
        xd.empty(1, device="cuda:0")
    except (NotImplementedError, LookupError):
        return False
    return True


pytestmark = pytest.mark.skipif(not gpu(), reason="needs a GPU with CUDA's driver library")


@pytest.fixture
def source() -> np.ndarray:
    return np.arange(4096.0).reshape(64, 64)


@pytest.fixture
def torch() -> Any:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch was built without CUDA")
    return torch


@pytest.fixture
def cupy() -> Any:
    return pytest.importorskip("cupy")


def test_our_own_copies(source: np.ndarray) -> None:
    there = xd.asarray(source).to("cuda:0")
    np.testing.assert_array_equal(np.asarray(there.to("cpu")), source)
    np.testing.assert_array_equal(np.asarray(there[::2, ::-1].to("cpu")), source[::2, ::-1])


@pytest.mark.parametrize("device", ["cuda_host:0", "cuda_managed:0"])
def test_memory_that_the_host_reads_too(device: str, source: np.ndarray) -> None:
    there = xd.asarray(source, device=device)
    np.testing.assert_array_equal(np.asarray(there), source)
    assert there.pointer_attributes["host_accessible"]


# ---- torch ---------------------------------------------------------------------------------------------------------


def test_torch_both_ways(torch: Any, source: np.ndarray) -> None:
    theirs = torch.from_numpy(source).cuda()
    ours = xd.asarray(theirs)
    assert ours.pointer == theirs.data_ptr()
    assert ours.device == "cuda:0"
    back = torch.from_dlpack(ours)
    assert back.data_ptr() == theirs.data_ptr()
    assert torch.equal(back, theirs)
    np.testing.assert_array_equal(np.asarray(ours.to("cpu")), source)
    made = torch.from_dlpack(xd.asarray(source).to("cuda:0"))
    np.testing.assert_array_equal(made.cpu().numpy(), source)


def busy(torch: Any, into: Any, stream: Any) -> None:
    """Work that takes some 100 ms on a stream, at whose end `into` is all ones."""
    with torch.cuda.stream(stream):
        a = torch.rand(4096, 4096, device="cuda")
        for _ in range(20):
            a = a @ a
            a = a / a.norm()
        into.copy_(torch.ones_like(into) + 0 * a.sum())


@pytest.mark.parametrize("by", ["exchange", "dlpack", "cuda_array"])
def test_the_consumer_waits_for_the_producers_stream(torch: Any, by: str) -> None:
    stream = torch.cuda.Stream()
    theirs = torch.zeros(1 << 20, device="cuda")
    torch.cuda.synchronize()
    busy(torch, theirs, stream)
    with torch.cuda.stream(stream):
        if by == "exchange":
            ours = xd.asarray(theirs)
        elif by == "dlpack":
            ours = xd.from_dlpack(theirs)
        else:
            interface = {**theirs.__cuda_array_interface__, "version": 3, "stream": stream.cuda_stream}
            ours = xd.from_cuda_array_interface(interface, owner=theirs)
    assert np.asarray(ours.to("cpu")).min() == 1


def test_leaving_the_wait_out_gives_wrong_values(torch: Any) -> None:
    """The race that the test above would lose: else it couldn't fail."""
    stream = torch.cuda.Stream()
    theirs = torch.zeros(1 << 20, device="cuda")
    torch.cuda.synchronize()
    busy(torch, theirs, stream)
    interface = {**theirs.__cuda_array_interface__, "version": 3, "stream": stream.cuda_stream}
    ours = xd.from_cuda_array_interface(interface, owner=theirs, sync=False)
    early = np.asarray(ours.to("cpu", queue=xd.Queue.new("cuda:0"))).copy()
    torch.cuda.synchronize()
    assert early.min() == 0


# ---- the others ----------------------------------------------------------------------------------------------------


def test_cupy_both_ways(cupy: Any, source: np.ndarray) -> None:
    theirs = cupy.asarray(source)
    ours = xd.asarray(theirs)
    assert ours.pointer == theirs.data.ptr
    for back in (cupy.asarray(ours), cupy.from_dlpack(ours)):
        assert back.data.ptr == theirs.data.ptr
        cupy.testing.assert_array_equal(back, theirs)
    strided = theirs[::2, ::-1]
    np.testing.assert_array_equal(np.asarray(xd.asarray(strided).to("cpu")), source[::2, ::-1])


def test_numba_both_ways(source: np.ndarray) -> None:
    cuda = pytest.importorskip("numba.cuda")
    theirs = cuda.to_device(source)
    ours = xd.asarray(theirs)
    assert ours.pointer == theirs.__cuda_array_interface__["data"][0]
    back = cuda.as_cuda_array(ours)
    np.testing.assert_array_equal(back.copy_to_host(), source)


def test_jax_both_ways(source: np.ndarray) -> None:
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX was built without CUDA")
    theirs = jax.numpy.asarray(source.astype("f4"))
    ours = xd.asarray(theirs)
    np.testing.assert_array_equal(np.asarray(ours.to("cpu")), source.astype("f4"))
    back = jax.dlpack.from_dlpack(xd.asarray(source.astype("f4")).to("cuda:0"))
    np.testing.assert_array_equal(np.asarray(back), source.astype("f4"))


def test_rmm_buffers() -> None:
    rmm = pytest.importorskip("rmm", reason="needs RMM")
    theirs = rmm.DeviceBuffer.to_device(bytes(range(256)))
    ours = xd.asarray(theirs)
    assert (ours.pointer, ours.nbytes, ours.dtype) == (theirs.ptr, 256, "u1")
    assert bytes(np.asarray(ours.to("cpu"))) == bytes(range(256))
    back = rmm.DeviceBuffer(ptr=ours.pointer, size=ours.nbytes)
    assert back.tobytes() == bytes(range(256))


def test_cudf_both_ways() -> None:
    cudf = pytest.importorskip("cudf", reason="needs cuDF")
    frame = cudf.DataFrame({"x": [1, 2, 3], "y": [1.5, 2.5, 3.5]})
    batch = xd.RecordBatch(frame)
    assert batch.device == "cuda:0"
    back = cudf.DataFrame.from_arrow(batch.to("cpu"))
    assert back.equals(frame)
    ours = xd.asarray(frame["y"])
    assert ours.pointer == frame["y"].__cuda_array_interface__["data"][0]
    np.testing.assert_array_equal(np.asarray(ours.to("cpu")), [1.5, 2.5, 3.5])
    series = cudf.Series(xd.asarray(np.arange(4.0)).to("cuda:0"))
    assert series.to_arrow().to_pylist() == [0, 1, 2, 3]


def test_pycuda_both_ways(source: np.ndarray) -> None:
    pytest.importorskip("pycuda", reason="needs PyCUDA")
    pytest.importorskip("pycuda.autoprimaryctx")
    gpuarray = pytest.importorskip("pycuda.gpuarray")
    theirs = gpuarray.to_gpu(source)
    ours = xd.asarray(theirs)
    assert ours.pointer == int(theirs.gpudata)
    np.testing.assert_array_equal(np.asarray(ours.to("cpu")), source)
    there = xd.asarray(source).to("cuda:0")
    back = gpuarray.GPUArray(there.shape, source.dtype, gpudata=there.pointer)
    np.testing.assert_array_equal(back.get(), source)
