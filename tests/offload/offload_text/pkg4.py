"""Way 4: the package asks the manager that all packages share."""

import numpy as np

import crossdock as xd
from offload_text import kernels


def allocate(shape):
    return kernels.filled(xd.offload.current_queue(), shape)


def dot(a, b):
    queue = xd.offload.placement(a, b, queue=xd.offload.current_queue())
    return kernels.run(np.matmul, queue, a, b)


compute = dot
