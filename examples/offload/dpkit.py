"""A package on dpnp, whose products are oneMKL's, in each of the five ways of saying where its work runs.

dpnp runs where its arrays are; so each way chooses a queue, brings the arrays to it, which copies nothing where the
queue reaches them, and lets dpnp work on the same memory.
"""

from __future__ import annotations

from typing import Any

import dpnp

import crossdock as xd
from crossdock import offload

Shape = tuple[int, ...]


def _view(array: xd.Tensor) -> dpnp.ndarray:
    """dpnp's array of the same memory, on the same queue. (dpnp.asarray() alone copies what isn't its own.)"""
    view = dpnp.tensor.asarray(array)
    return dpnp.asarray(view, device=view.device)


def _new(queue: xd.Queue, shape: Shape) -> xd.Tensor:
    """Numbers to compute with, made by dpnp on this queue."""
    ours = xd.empty(shape, queue=queue)
    theirs = _view(ours)
    theirs[...] = dpnp.reshape(dpnp.arange(theirs.size, dtype=theirs.dtype, sycl_queue=theirs.sycl_queue), shape)
    return xd.asarray(theirs)


def _product(queue: xd.Queue, a: Any, b: Any) -> xd.Tensor:
    mine = [_view(array) for array in offload.collocate(a, b, to=queue)]
    return xd.asarray(dpnp.matmul(*mine))


def _sum_of_products(queue: xd.Queue, a: Any, b: Any) -> xd.Tensor:
    mine = [_view(array) for array in offload.collocate(a, b, to=queue)]
    return xd.asarray(dpnp.dot(dpnp.ravel(mine[0]), dpnp.ravel(mine[1])))


class ByArgument:
    """Way 1: each function is given its queue."""

    def allocate(self, queue: xd.Queue, shape: Shape) -> xd.Tensor:
        return _new(queue, shape)

    def gemm(self, queue: xd.Queue, a: Any, b: Any) -> xd.Tensor:
        return _product(offload.placement(a, b, queue=queue), a, b)

    def dot(self, queue: xd.Queue, a: Any, b: Any) -> xd.Tensor:
        return _sum_of_products(offload.placement(a, b, queue=queue), a, b)


class ByPackage:
    """Way 2: the package has a current queue of its own."""

    def __init__(self) -> None:
        self._package = offload.Package("dpkit")
        self.current = self._package.current
        self.set_default_queue = self._package.set_default_queue

    def allocate(self, shape: Shape) -> xd.Tensor:
        return _new(self._package.current_queue(), shape)

    def gemm(self, a: Any, b: Any) -> xd.Tensor:
        return _product(self._package.current_queue(), a, b)

    def dot(self, a: Any, b: Any) -> xd.Tensor:
        return _sum_of_products(self._package.current_queue(), a, b)


class ByData:
    """Way 3: compute follows data."""

    def gemm(self, a: Any, b: Any) -> xd.Tensor:
        return _product(offload.placement(a, b), a, b)

    def dot(self, a: Any, b: Any) -> xd.Tensor:
        return _sum_of_products(offload.placement(a, b), a, b)


class ByManager:
    """Way 4: the manager that all packages share is asked."""

    def allocate(self, shape: Shape) -> xd.Tensor:
        return _new(offload.current_queue(), shape)

    def gemm(self, a: Any, b: Any) -> xd.Tensor:
        return _product(offload.current_queue(), a, b)

    def dot(self, a: Any, b: Any) -> xd.Tensor:
        return _sum_of_products(offload.current_queue(), a, b)


class ByObject(offload.Offloaded):
    """Way 5: the object holds the queue."""

    def allocate(self, shape: Shape) -> xd.Tensor:
        return _new(self.queue, shape)

    def gemm(self, a: Any, b: Any) -> xd.Tensor:
        return _product(self.queue, a, b)

    def dot(self, a: Any, b: Any) -> xd.Tensor:
        return _sum_of_products(self.queue, a, b)
