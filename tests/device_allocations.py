"""What is left on simulated devices once their queues have done all that they had to do."""

from __future__ import annotations

import gc

import crossdock as xd
from crossdock import testing

# A copy that ends frees what it kept, which may free memory in its turn, by a later call of the queue's.
ROUNDS = 4


def live_allocations(devices: testing.SimulatedDevices) -> int:
    """Of work on the devices' default queues."""
    gc.collect()
    for _ in range(ROUNDS):
        for name in devices.names:
            xd.Queue(name).wait()
    return devices.counters()["live_allocations"]
