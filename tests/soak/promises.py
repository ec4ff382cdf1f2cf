"""What must hold for a server once everybody who attacked it has gone."""

from __future__ import annotations

from typing import Any

from tests.soak.peer import PeerServer
from tests.soak.unit import Unit, wait_until

# What a server keeps for later use, and may have more of than when it was new: a mapping and a descriptor of a pool.
SLACK = {"descriptors": 2, "mappings": 2, "threads": 1}


def holds_nothing(now: dict[str, Any], fresh: dict[str, Any]) -> bool:
    """Whether a server has no consumer, no lease, and no more of anything else than when it was new."""
    if now["consumers"] or now["leases"]:
        return False
    return all(now[name] <= fresh[name] + more for name, more in SLACK.items())


def check_nothing_stays(unit: Unit, server: PeerServer, fresh: dict[str, Any]) -> None:
    """Waits until the server has released everything."""
    last = fresh

    def holds() -> bool:
        nonlocal last
        last = server.statistics()
        return holds_nothing(last, fresh)

    if not wait_until(holds):
        unit.finding(
            f"left behind in the server: {last}; when it was new: {fresh}; its descriptors: {server.descriptors()}"
        )
