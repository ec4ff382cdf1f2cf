"""What the packages of the text submit: a kernel's place is taken by a round trip through the host, on the queue.

The simulated devices have no kernels. What counts here is where the work is put and what it is ordered after, and
that is as for a kernel: it runs on the queue, after what its arrays wait for.
"""

import numpy as np

import crossdock as xd


def run(function, queue, *arrays):
    """`function` of NumPy over arrays that the queue reaches; a new array of the queue."""
    for array in arrays:
        assert xd.offload.accessible(array, queue), f"the kernel can't reach {array!r}"
    on_host = [np.asarray(array.to("cpu", queue=queue)) for array in arrays]
    return xd.asarray(np.ascontiguousarray(function(*on_host))).copy_to(queue)


def filled(queue, shape):
    """A new array of the queue with numbers to compute with."""
    size = int(np.prod(shape))
    return xd.asarray(np.arange(1.0, size + 1).reshape(shape)).copy_to(queue)
