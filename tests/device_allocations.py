"""What is left on simulated devices once their queues have done all that they had to do."""

from __future__ import annotations

import gc
import time

from tests.leftovers import PATIENCE_SECONDS

import crossdock as xd
from crossdock import testing

# A copy that ends frees what it kept, which may free memory in its turn, by a later call of the queue's.
ROUNDS = 4


def live_allocations(devices: testing.SimulatedDevices, awaited: int | None = None) -> int:
    """Of work on the devices' default queues. Waits until there are `awaited`, for some seconds at most: what the
    library's threads drop is dropped a little later."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        gc.collect()
        for _ in range(ROUNDS):
            for name in devices.names:
                xd.Queue(name).wait()
        live = devices.counters()["live_allocations"]
        if awaited in (None, live) or time.monotonic() > end:
            return live
        time.sleep(0.005)  # nobody tells
