"""libfabric, messages and reads, beside a bare loop over the same provider."""

from __future__ import annotations

from bench._children import build_tree, measure, program, serving
from bench._places import Place, places, why_no_namespaces
from bench._turns import Cost, with_cpu
from bench._wire.networks import why_not
from bench._wire.part import MIB, Part

SIZES = (MIB, 64 * MIB)


def run(part: Part) -> None:
    if why := why_not("fabric"):
        part.leave_out("all of it", why)
        return
    if not (build_tree() / "bench" / "fabric_transfer").exists():
        part.leave_out("all of it", "the program fabric_transfer isn't built")
        return
    if why := why_no_namespaces():
        part.leave_out("two namespaces", why)
    with places() as all_places:
        for place in all_places:
            for way, parts in (("message", 1), ("message", 8), ("read", 1)):
                for n in SIZES:
                    beside_bare_loop(part, place, way, parts, n)


def beside_bare_loop(part: Part, place: Place, way: str, parts: int, n: int) -> None:
    """With 8 parts, of a batch on the heap; with one, of a published table."""
    count = part.plan.count_of(n)
    shared: dict[str, object] = {
        "what": way, "body_bytes": n, "batches": count, "warm_up": max(4, count // 20), "sets": 1,
        "parts": parts, "wait": "auto",
    }  # fmt: skip

    def transfer(by: str) -> Cost:
        def run() -> float:
            server = program("fabric_transfer", role="serve", way=by, host=place.host, **shared)
            with serving([*place.server, *server]) as (said, _):
                client = program("fabric_transfer", role="consume", way=by, address=said["address"], **shared)
                return float(measure([*place.client, *client])["per_batch"])

        return with_cpu(run, count)

    what = way if parts == 1 else f"{way}, {parts} parts"
    part.compare(
        what, place.name, n, "bare libfabric", lambda: transfer("ours"), lambda: transfer("raw"), at_least=0.9
    )  # fmt: skip
