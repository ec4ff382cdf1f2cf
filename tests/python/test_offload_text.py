"""Every example of "Offloading to XPU from Python", with the text's mistakes mended (beyond-the-text.md, section 6).

On simulated devices, where `gpu:1` and `gpu:2` are two devices, and on SYCL's CPU device, where both are `cpu`.
"""

from __future__ import annotations

import numpy as np
import pytest
from offload_text import host_module, pkg1, pkg2, pkg3, pkg4, pkgA, pkgB
from offload_text.ar_lib import arLib1, arLib2
from offload_text.lapack_oneapi import LapackOneAPI

import crossdock as xd
from crossdock import offload, testing


def _has_sycl():
    try:
        xd.Queue("sycl:cpu")
    except xd.NotFoundError:
        return False
    return True


@pytest.fixture(params=["sim", "sycl"])
def gpus(request):
    """The names of the text's two GPUs, and no trace of one test in the next."""
    packages = [pkg2, pkg3, pkgA, pkgB]
    if request.param == "sim":
        with testing.simulated_devices(3):
            yield "sim:1", "sim:2"
            _forget(packages)
    elif not _has_sycl():
        pytest.skip("no SYCL run time with a CPU device here")
    else:
        yield "sycl:cpu", "sycl:cpu"
        _forget(packages)


def _forget(packages):
    for package in packages:
        package.set_default_queue(None)
    offload.set_global_queue(None)


def _numbers(*shape):
    return np.arange(1.0, np.prod(shape) + 1).reshape(shape)


def _values(array):
    return np.asarray(xd.asarray(getattr(array, "tensor", array)).to("cpu"))


PRODUCT = _numbers(50, 10) @ _numbers(10, 30)


def test_pkg1_offloads_to_the_queue_it_is_given(gpus):
    q = xd.Queue(gpus[0])
    A1 = pkg1.allocate(q, (50, 10))
    A2 = pkg1.allocate(q, (10, 30))
    A3 = pkg1.gemm(q, A1, A2)
    assert A3.queue == q
    np.testing.assert_array_equal(_values(A3), PRODUCT)


def test_pkg2_offloads_to_its_default_queue(gpus):
    pkg2.set_default_queue(gpus[0])
    A1 = pkg2.allocate((50, 10))  # allocated on default queue
    A2 = pkg2.allocate((10, 30))
    A3 = pkg2.dot(A1, A2)  # offloaded to default queue
    assert A1.queue == A3.queue == xd.Queue(gpus[0])
    np.testing.assert_array_equal(_values(A3), PRODUCT)
    pkg2.set_default_queue(gpus[1])  # change default queue
    assert pkg2.allocate((2, 2)).queue == xd.Queue(gpus[1])
    assert A3.queue == xd.Queue(gpus[0])


def test_pkg3_infers_the_queue_from_data(gpus):
    pkg3.set_default_queue(gpus[0])
    A1 = pkg3.allocate((50, 10))
    A2 = pkg3.allocate((10, 30))
    pkg3.set_default_queue(gpus[1])  # of no concern to arrays that are there
    A3 = pkg3.dot(A1, A2)  # offloaded to queue inferred from data
    assert A3.queue == xd.Queue(gpus[0])
    np.testing.assert_array_equal(_values(A3), PRODUCT)


def test_pkg4_offloads_to_the_managers_current_queue(gpus):
    offload.set_global_queue(gpus[0])
    A1 = pkg4.allocate((50, 10))  # allocated on manager's current queue
    A2 = pkg4.allocate((10, 30))
    A3 = pkg4.dot(A1, A2)  # offloaded to manager's current queue
    assert A3.queue == xd.Queue(gpus[0])
    np.testing.assert_array_equal(_values(A3), PRODUCT)


def test_pkg1_allocates_and_computes_on_two_queues(gpus):
    alloc_q = xd.Queue(gpus[0])
    compute_q = xd.Queue.new(gpus[0])  # another queue of the same device and context
    A1 = pkg1.allocate(alloc_q, (50, 10))
    A2 = pkg1.allocate(alloc_q, (10, 30))
    A3 = pkg1.compute(compute_q, A1, A2)
    assert A1.queue == alloc_q
    assert A3.queue == compute_q != alloc_q
    np.testing.assert_array_equal(_values(A3), PRODUCT)


def test_pkg2_has_a_current_queue_of_its_own(gpus):
    before = pkg2.current_queue()
    with pkg2.current(gpus[0]):  # alloc device/queue
        A1 = pkg2.allocate((50, 10))
        A2 = pkg2.allocate((10, 30))
    with pkg2.current(gpus[1]):
        A1c = A1.copy_to()
        A2c = A2.copy_to()
        A3 = pkg2.compute(A1c, A2c)
    assert pkg2.current_queue() == before
    assert A1.queue == xd.Queue(gpus[0])
    assert A1c.queue == A3.queue == xd.Queue(gpus[1])
    assert A1c.tensor.pointer != A1.tensor.pointer
    np.testing.assert_array_equal(_values(A3), PRODUCT)


def test_pkg3_copies_to_the_queue_that_is_named(gpus):
    with pkg3.current(gpus[0]):  # alloc device/queue
        A1 = pkg3.allocate((50, 10))
        A2 = pkg3.allocate((10, 30))
    A1c = A1.copy_to(gpus[1])
    A2c = A2.copy_to(gpus[1])
    A3 = pkg3.compute(A1c, A2c)
    assert A3.queue == xd.Queue(gpus[1])
    np.testing.assert_array_equal(_values(A3), PRODUCT)
    if gpus[0] != gpus[1]:
        with pytest.raises(xd.ExecutionPlacementError, match=r"array 0 .* array 1 .*collocate"):
            pkg3.compute(A1, A2c)


def test_pkg4_is_the_same_as_pkg2_by_the_manager(gpus):
    with offload.current(gpus[0]):
        A1 = pkg4.allocate((50, 10))
        A2 = pkg4.allocate((10, 30))
    with offload.current(gpus[1]):
        A1c = A1.copy_to()
        A2c = A2.copy_to()
        A3 = pkg4.compute(A1c, A2c)
    assert A3.queue == xd.Queue(gpus[1])
    np.testing.assert_array_equal(_values(A3), PRODUCT)


def test_pkgB_takes_the_arrays_of_pkgA(gpus):
    pkgA.set_default_queue(gpus[0])
    pkgB.set_default_queue(gpus[0])
    A = pkgA.allocate((50, 10))  # allocated on default queue
    B = pkgB.func(A)  # for computational queue pkgB uses data in A must be accessible
    assert not pkgB.func.copied
    np.testing.assert_array_equal(_values(B), -_numbers(50, 10))
    pkgB.set_default_queue(xd.Queue(gpus[0], name="pkgB"))  # a queue of its own, in the same context
    np.testing.assert_array_equal(_values(pkgB.func(A)), -_numbers(50, 10))
    assert not pkgB.func.copied
    pkgB.set_default_queue(gpus[1])
    np.testing.assert_array_equal(_values(pkgB.func(A)), -_numbers(50, 10))
    assert pkgB.func.copied == (gpus[0] != gpus[1])


def test_packages_that_chose_different_ways_work_together(gpus):
    pkg2.set_default_queue(gpus[0])
    pkg3.set_default_queue(gpus[0])
    A4 = pkg3.allocate((4, 4))
    assert A4.queue == xd.Queue(gpus[0])
    with pkg2.current(gpus[0]):  # alloc device/queue for pkg2
        A1 = pkg2.allocate((4, 4))
        A5 = pkg3.compute(A1)  # pkg3 works where the data is
        with pytest.raises(BufferError, match=r'\.to\("cpu"\)'):
            host_module.compute(A1.tensor, A5)  # device memory given to a host-only package: it says which copy to make
        A6 = host_module.compute(A1.tensor.to("cpu"), A5.to("cpu"))
        A2 = pkg2.allocate((4, 4))
    with pkg2.current(gpus[1]):
        A1c = A1.copy_to()
        A2c = A2.copy_to()
        A3 = pkg2.compute(A1c, A2c)
    four = _numbers(4, 4)
    np.testing.assert_array_equal(_values(A5), four @ four.T)
    np.testing.assert_array_equal(A6, four + four @ four.T)
    assert A3.queue == xd.Queue(gpus[1])
    np.testing.assert_array_equal(_values(A3), four @ four)


def test_lapack_with_a_queue(gpus):
    lapack = LapackOneAPI(queue=gpus[0])
    matrix = xd.asarray(_numbers(5, 3))
    values = lapack.svd(matrix)
    assert values.queue == lapack.queue == xd.Queue(gpus[0])
    np.testing.assert_allclose(_values(values), np.linalg.svd(_numbers(5, 3), compute_uv=False))


def test_array_libraries_convert_each_others_arrays(gpus):
    q_used_by_arLib2 = xd.Queue(gpus[0], name="arLib2")
    with arLib1.package.current(gpus[0]):
        A1 = arLib1.empty((3, 4))
    A1c = arLib1.asarray(A1, queue=q_used_by_arLib2)
    assert A1c.queue == q_used_by_arLib2
    assert A1c.pointer == A1.pointer
    A2 = arLib2.array(A1, device=gpus[1])
    assert A2.queue == xd.Queue(gpus[1])
    assert A2.pointer != A1.pointer
    (back,) = offload.collocate(A2, to=A1)  # func(ar1, ar2.collocate(ar1))
    assert back.queue == A1.queue
    assert A2.collocate(A1).queue == A1.queue
