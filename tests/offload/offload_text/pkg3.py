"""Way 3: a queue of the package to allocate on, and compute follows data."""

import numpy as np

import crossdock as xd
from offload_text import kernels

_package = xd.offload.Package("pkg3")
current = _package.current
set_default_queue = _package.set_default_queue


def allocate(shape):
    return kernels.filled(_package.current_queue(), shape)


def dot(a, b):
    a, b = xd.asarray(a), xd.asarray(b)
    return kernels.run(np.matmul, _package.placement(a, b), a, b)


def compute(a, b=None):
    """Of one array its product with itself, transposed."""
    a = xd.asarray(a)
    return dot(a, a.T if b is None else b)
