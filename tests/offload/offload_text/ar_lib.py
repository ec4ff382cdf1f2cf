"""Two array libraries of the data-API kind. The text's `arLib1` and `arLib2`."""

import crossdock as xd


class _Library:
    def __init__(self, name):
        self.package = xd.offload.Package(name)

    def empty(self, shape, dtype="float64"):
        return xd.empty(shape, dtype, queue=self.package.current_queue())

    def asarray(self, array, *, queue=None, device=None):
        """On the queue: the same memory, where that reaches it."""
        to = queue if queue is not None else device if device is not None else self.package.current_queue()
        return xd.offload.collocate(array, to=to)[0]

    def array(self, array, *, device=None):
        """Always new memory."""
        return xd.asarray(array).copy_to(device if device is not None else self.package.current_queue())


arLib1, arLib2 = _Library("arLib1"), _Library("arLib2")
