"""Statistics as a server gives them, made up for tests of what looks at them."""

from __future__ import annotations

from typing import Any


def consumer(number: int, **other: Any) -> dict[str, Any]:
    return {
        "id": number,
        "pid": 4000 + number,
        "peer": f"a client of shm:/run/x.sock (process {4000 + number} of user 0)",
        "name": "flights",
        "previous": "",
        "batches": 0,
        "rows": 0,
        "bytes": 0,
        "window": 64,
        "in_flight": 0,
        "leases": 0,
        "leased_bytes": 0,
        "oldest_lease": None,
        "bytes_by_value": 0,
        "carrier": "shm",
        "way": "map",
        "why": "the consumer maps the server's memory",
    } | other


def source(name: str | bytes, **other: Any) -> dict[str, Any]:
    return {"name": name, "kind": "table", "rows": 10, "bytes": 80, "bytes_copied": 0, "streams": 0} | other


def statistics(
    consumers: list[dict[str, Any]] | None = None, sources: list[dict[str, Any]] | None = None, **other: Any
) -> dict[str, Any]:
    consumers = consumers or []
    totals = {key: sum(one[key] for one in consumers) for key in ("batches", "rows", "bytes", "bytes_by_value")}
    return {
        "version": "0.1.0",
        "pid": 777,
        "uptime": 1.0,
        "uris": ["shm:flights"],
        "connections": len(consumers),
        "accepted_connections": len(consumers),
        "rejected_connections": {},
        "protocol_errors": 0,
        "streams": 0,
        **totals,
        "bytes_copied": 0,
        "bitmap_bytes_copied": 0,
        "leases": sum(one["leases"] for one in consumers),
        "leased_bytes": sum(one["leased_bytes"] for one in consumers),
        "oldest_lease": max((one["oldest_lease"] for one in consumers if one["oldest_lease"]), default=None),
        "consumers": consumers,
        "sources": sources or [],
        "consumers_left_out": 0,
        "sources_left_out": 0,
    } | other


class Server:
    """Gives statistics one after another; the last one goes on. An exception among them is raised."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self.answers = list(answers)
        self.closed = 0

    def server_stats(self) -> dict[str, Any]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.closed += 1
