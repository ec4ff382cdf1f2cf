"""Bodies over our connections, and whole tables by ours and by Flight: one measurement each."""

from __future__ import annotations

from collections.abc import Sequence

from bench._children import build_folder, measure, program, role, said, serving
from bench._places import Place
from bench._turns import Cost

MIB = 1 << 20
WARM_UP = 8
# More than are ever under way: so many more batches has a table than are read, so that at the end of a measurement as
# many are under way as at its start.
BEYOND = 128


def sets_of(body_bytes: int) -> int:
    return max(2, 64 * MIB // body_bytes // 8)


def shared_arguments(body_bytes: int, batches: int) -> dict[str, object]:
    """Those of both ends of programs that send bodies."""
    return {
        "body_bytes": body_bytes, "batches": batches, "warm_up": max(4, batches // 20), "sets": sets_of(body_bytes),
        "wait": "block",
    }  # fmt: skip


def bodies(place: Place, uri: str, shared: dict[str, object], **of_server: object) -> Cost:
    """What a body costs over a connection, as bodies.cc measures it; without the start of the processes."""
    server = program("bodies", role="serve", uri=uri, **of_server, **shared)
    with serving([*place.server, *server]) as (ready, child):
        run = measure([*place.client, *program("bodies", role="consume", uri=ready["uri"], **shared)])
        return Cost(float(run["per_batch"]), float(run["cpu"]) + float(said(child)["cpu"]))


def our_table(uri: str, batch_bytes: int, batches: int, *, wait: str = "block", place: Place | None = None) -> float:
    """What a batch of a table costs from Server to Client, in ns."""
    within: tuple[Sequence[str], Sequence[str]] = (place.server, place.client) if place else ((), ())
    server = program(
        "handoff_server", uri=uri, source="arena", batch_bytes=batch_bytes, sets=sets_of(batch_bytes),
        batches=batches + WARM_UP + BEYOND, wait=wait,
    )  # fmt: skip
    with serving([*within[0], *server]) as (ready, _):
        client = program("handoff_client", uri=ready["uri"], wait=wait, warm_up=WARM_UP, batches=batches)
        return float(measure([*within[1], *client])["per_batch"])


def flight_table(place: Place, batch_bytes: int, batches: int) -> float:
    """The same by pyarrow Flight over TCP."""
    sets = sets_of(batch_bytes)
    server = role(
        "_roles", "serve", "flight-tcp", folder=build_folder(), host=place.host, batch_bytes=batch_bytes, sets=sets,
        batches=batches + WARM_UP + BEYOND,
    )  # fmt: skip
    with serving([*place.server, *server]) as (ready, _):
        client = role(
            "_roles", "consume", "flight-tcp", address=ready["address"], folder=build_folder(), read="first", sets=sets,
            warm_up=WARM_UP, batches=batches, seconds=60,
        )  # fmt: skip
        return float(measure([*place.client, *client])["per_batch"])
