"""A package that knows nothing of devices."""

import numpy as np

import crossdock as xd


def compute(a, b):
    return np.asarray(memoryview(xd.asarray(a))) + np.asarray(memoryview(xd.asarray(b)))
