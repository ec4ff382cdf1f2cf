"""How long a tree of relays takes to bring a table to many machines, computed from the bandwidth of one machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """A table that has reached all machines."""

    seconds: float  # until the last machine has it
    depth: int  # levels of machines below the source
    sent_by_source: float  # bytes


def spread(machines: int, fan_out: int, size: float, bandwidth: float, latency: float, copies: int = 1) -> Spread:
    """Machines in levels below a source: each machine, and the source, sends to `fan_out` machines of the next level.

    All children of a machine ask at the same time and share its bandwidth (bytes a second), and a machine sends on when
    it has all of the table. `latency`: seconds from a request to the first byte. `copies`: how often each machine
    fetches the table, which is the number of its processes where no relay is.
    """
    seconds, depth, left, level = 0.0, 0, machines, 1
    sent_by_source = 0.0
    while left > 0:
        children = min(left, level * fan_out)
        most = -(-children // level)  # of one machine
        seconds += latency + most * copies * size / bandwidth
        if depth == 0:
            sent_by_source = children * copies * size
        depth, left, level = depth + 1, left - children, children
    return Spread(seconds, depth, sent_by_source)
