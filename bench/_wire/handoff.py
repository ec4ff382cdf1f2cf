"""The hand-over over shm beside what the machine itself needs to tell another process something."""

from __future__ import annotations

from bench import handoff
from bench._children import measure, program
from bench._report import duration, median, size
from bench._wire.part import GIB, KIB, Part


def run(part: Part) -> None:
    plan = handoff.Plan(
        part.plan.rounds, part.plan.pick(2000, handoff.ZERO_COPY_BATCHES), seconds=1, python_batches=0, sum_seconds=1
    )
    sizes = part.plan.pick((64 * KIB,), (64 * KIB, GIB))
    ours: dict[int, list[float]] = {n: [] for n in sizes}
    round_trips: list[float] = []
    for _ in range(plan.rounds):
        # It says half a round trip.
        line = measure(program("latency_limit", wait="spin", batches=plan.zero_copy_batches))["one_way"]["p50"]
        round_trips.append(2 * line)
        for n in sizes:
            with handoff.our_server(n, "spin", plan.zero_copy_batches + 2 * handoff.sets_of(n)) as uri:
                ours[n].append(handoff.run_ours(uri, n, "spin", "first", plan)["period"]["p50"])
    part.fact("a cache line there and back, p50", median(round_trips), "ns")
    for n in sizes:
        part.fact(f"hand-over, {size(n)}, p50", median(ours[n]), "ns", text=duration(median(ours[n])))
        factor = median(mine / limit for mine, limit in zip(ours[n], round_trips, strict=True))
        part.must(f"hand-over, {size(n)}, of a cache line's round trip", factor, at_most=8)
