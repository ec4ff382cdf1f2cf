"""UCX over tcp, beside ucx_perftest with the same library, transports and sizes, and beside Flight."""

from __future__ import annotations

import itertools
import shutil
import socket
import subprocess

from bench._children import measure, program, serving
from bench._places import Place, places, why_no_namespaces
from bench._transfers import bodies, flight_table, our_table
from bench._turns import Cost, with_cpu
from bench._wire.networks import why_not
from bench._wire.part import MIB, Part

SIZES = (MIB, 64 * MIB)
SMALL = 64


def run(part: Part) -> None:
    if why := why_not("ucx"):
        part.leave_out("all of it", why)
        return
    if shutil.which("ucx_perftest") is None:
        part.leave_out("what is beside ucx_perftest", "it isn't installed (package ucx-utils)")
    if why := why_no_namespaces():
        part.leave_out("two namespaces", why)
    with places() as all_places:
        for place in all_places:
            if shutil.which("ucx_perftest"):
                for parts, n in itertools.product((1, 8), SIZES):
                    beside_perftest(part, place, n, parts)
                there_and_back(part, place)
            for n in SIZES:
                beside_flight(part, place, n)


def beside_perftest(part: Part, place: Place, n: int, parts: int) -> None:
    """A published table's body is one part; 8 parts are what a batch of 8 columns on the heap has."""
    count = part.plan.count_of(n)
    # ucx_perftest sends the same memory again and again.
    shared: dict[str, object] = {
        "body_bytes": n, "parts": parts, "batches": count, "warm_up": max(4, count // 20), "sets": 1, "wait": "auto"
    }  # fmt: skip

    def ours() -> Cost:
        return with_cpu(lambda: bodies(place, f"ucx://{place.host}:0", shared).wall, count)

    def theirs() -> Cost:
        return with_cpu(lambda: perftest(place, "tag_bw", n, count)["avg_lat"], count)

    what = "connection" if parts == 1 else f"connection, {parts} parts"
    part.compare(what, place.name, n, "ucx_perftest", ours, theirs, at_least=0.9)


def there_and_back(part: Part, place: Place) -> None:
    count = part.plan.pick(1000, 5000)
    shared: dict[str, object] = {
        "body_bytes": SMALL, "parts": 1, "batches": count, "warm_up": count // 20, "sets": 1, "wait": "spin"
    }  # fmt: skip

    def ours() -> Cost:
        server = program("bodies", role="pong", uri=f"ucx://{place.host}:0", **shared)
        with serving([*place.server, *server]) as (said, _):
            run = measure([*place.client, *program("bodies", role="ping", uri=said["uri"], **shared)])
            return Cost(float(run["period"]["p50"]), None)

    def theirs() -> Cost:
        return Cost(2 * perftest(place, "ucp_am_lat", SMALL, count)["50.0_percentile_lat"], None)

    part.compare("there and back", place.name, SMALL, "ucx_perftest", ours, theirs, at_most=3.0)


def beside_flight(part: Part, place: Place, n: int) -> None:
    count = part.plan.count_of(n)
    part.compare(
        "table, Server to Client", place.name, n, "Flight",
        lambda: with_cpu(lambda: our_table(f"ucx://{place.host}:0", n, count, wait="auto", place=place), count),
        lambda: with_cpu(lambda: flight_table(place, n, count), count), at_least=3.0,
    )  # fmt: skip


def perftest(place: Place, test: str, n: int, count: int) -> dict[str, float]:
    """What ucx_perftest says of one test, in ns where it says microseconds."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    options = f"-t {test} -s {n} -n {count} -w {max(4, count // 20)} -p {port} -f -v".split()
    place = place.with_variables({"UCX_TLS": "tcp", "UCX_NET_DEVICES": place.interface})
    server = subprocess.Popen(
        [*place.server, "stdbuf", "-oL", "ucx_perftest", *options],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        if "Waiting for connection" not in (line := server.stdout.readline()):
            raise RuntimeError(f"ucx_perftest said {line!r}")
        done = subprocess.run(
            [*place.client, "ucx_perftest", place.host, *options],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        server.communicate(timeout=30)
    finally:
        server.kill()
        server.communicate()
    names, values = done.stdout.strip().splitlines()[-2:]
    numbers = dict(zip(names.split(","), map(float, values.split(",")), strict=True))
    return {name: value * 1000 if name.endswith("_lat") else value for name, value in numbers.items()}
