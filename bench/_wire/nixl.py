"""Beside NIXL's reads of host memory over UCX: between two processes by the way that is picked, and over tcp between
two namespaces."""

from __future__ import annotations

from bench import _peers
from bench._children import measure, serving
from bench._places import LOOPBACK, Place, two_namespaces, why_no_namespaces
from bench._transfers import our_table
from bench._turns import with_cpu
from bench._wire.networks import why_not
from bench._wire.part import KIB, MIB, Part


def run(part: Part) -> None:
    if why := _peers.why_no_nixl():
        part.leave_out("all of it", why)
        return
    for n in (64 * KIB, 64 * MIB):
        compare(part, LOOPBACK, "shm:", n, {}, {}, 3.0)
    if why := why_no_namespaces() or why_not("ucx"):
        part.leave_out("over tcp between two namespaces", why)
        return
    with two_namespaces() as place:
        libraries = {"the system's UCX": {}}
        if newer := _peers.newer_ucx():
            libraries["a newer UCX"] = {"CROSSDOCK_UCX_LIBRARY": str(newer)}
        for name, ours in libraries.items():
            theirs = {"UCX_TLS": "tcp", "UCX_NET_DEVICES": place.interface}
            compare(part, place, f"ucx://{place.host}:0", 64 * MIB, ours, theirs, 1.0, by=f", {name}")


def compare(part: Part, place: Place, uri: str, n: int, ours: dict[str, str], theirs: dict[str, str], at_least: float,
            by: str = "") -> None:  # fmt: skip
    count = part.plan.count_of(n)
    ours_at, theirs_at = place.with_variables(ours), place.with_variables(theirs)
    part.compare(
        f"table by {uri.partition(':')[0]}{by}", place.name if place.two else "two processes", n, "NIXL",
        lambda: with_cpu(lambda: our_table(uri, n, count, wait="spin", place=ours_at), count),
        lambda: with_cpu(lambda: nixl_read(theirs_at, n, count), count), at_least=at_least,
    )  # fmt: skip


def nixl_read(place: Place, n: int, count: int) -> float:
    """What a read takes, in ns."""

    def end(name: str, *options: object) -> list[str]:
        return [str(_peers.PYTHON), "-m", "bench._nixl_ends", name, "--bytes", str(n), *map(str, options)]

    with serving([*place.server, *end("serve")]) as (said, _):
        reader = end("read", "--batches", count, "--warm-up", max(4, count // 20))
        return float(measure([*place.client, *reader], said)["per_batch"])
