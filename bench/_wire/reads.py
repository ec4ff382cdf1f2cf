"""One of eight columns by remote read, beside all of them by the way that is picked for them."""

from __future__ import annotations

from typing import Any

from bench._children import ask, role, serving
from bench._places import LOOPBACK, Place, two_namespaces, why_no_namespaces
from bench._report import median
from bench._wire.networks import SCHEMES, uri, why_not
from bench._wire.part import MIB, Part

BATCHES = 4


def run(part: Part) -> None:
    can_read = []
    for scheme in SCHEMES:
        if why := why_not(scheme):
            part.leave_out(scheme, why)
        else:
            can_read.append(scheme)
    if not can_read:
        return
    if why := why_no_namespaces():
        part.leave_out("two namespaces", f"{why}; the loopback, whose bytes are everybody's, is in their place")
        for scheme in can_read:
            measure(part, LOOPBACK, scheme)
        return
    with two_namespaces() as place:
        for scheme in can_read:
            measure(part, place, scheme)


def measure(part: Part, place: Place, scheme: str) -> None:
    rounds = part.plan.pick(3, 10)
    server = role("_wire.ends", "serve", uri(scheme, place.host), batch_bytes=64 * MIB, batches=BATCHES)

    def read(server_uri: str, columns: int) -> list[str]:
        return [*place.client, *role("_wire.ends", "read", server_uri, columns=columns, rounds=rounds)]

    shares_of_bytes, shares_of_time = [], []
    with serving([*place.server, *server]) as (said, child):
        for _ in range(part.plan.rounds):
            runs: dict[int, dict[str, Any]] = {}
            for columns in (0, 1):
                with serving(read(said["uri"], columns)) as (_, reader):
                    ask(reader)  # regions become known, and memory is there
                    runs[columns] = ask(reader)
                    carriers = {(carrier.split()[0], way) for carrier, way, *_ in ask(child)["ways"]}
                if columns and (scheme, "read") not in carriers:
                    part.leave_out(scheme, f"the column wasn't read but came as {sorted(map(str, carriers))}")
                    return
            shares_of_bytes.append(runs[1]["received"][place.interface] / runs[0]["received"][place.interface])
            shares_of_time.append(median(runs[1]["rounds"]) / median(runs[0]["rounds"]))
    name = f"1 of 8 columns of 64 MiB, {scheme}"
    part.must(f"{name}, of the bytes of all", 100 * median(shares_of_bytes), at_most=12.5 + 1, unit="%")
    part.must(f"{name}, of the time of all", 100 * median(shares_of_time), at_most=25, unit="%")
