"""Way 2: the package has a default queue of its own, and everything is allocated and runs there."""

import numpy as np

import crossdock as xd
from offload_text import kernels

_package = xd.offload.Package("pkg2")
current = _package.current
current_queue = _package.current_queue
set_default_queue = _package.set_default_queue


class Array:
    """The package's own container: other packages see it by DLPack."""

    def __init__(self, tensor):
        self.tensor = tensor

    @property
    def queue(self):
        return self.tensor.queue

    def copy_to(self, queue=None):
        return Array(self.tensor.copy_to(queue if queue is not None else current_queue()))

    def __dlpack__(self, **keywords):
        return self.tensor.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def allocate(shape):
    return Array(kernels.filled(current_queue(), shape))


def dot(a, b):
    queue = _package.placement(a.tensor, b.tensor, queue=current_queue())
    return Array(kernels.run(np.matmul, queue, a.tensor, b.tensor))


compute = dot
