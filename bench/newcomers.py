"""How long a newcomer waits for its connection while others are busy, and what one client can cost the others.

  ./dev bench newcomers [--quick] [--readers N] [--connects N] [--out FOLDER]

The readers are threads of two processes, which read streams of 64 KiB batches without a pause; the newcomer connects,
leaves, and connects again. Beside it stands what the machine needs under the same load: a connection to a plain socket
whose server answers one byte. Then a client sends messages of 1 MiB that free nothing, and another one, connected long
before, asks for the catalog. Writes build/bench/newcomers.json.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench import _report
from bench._children import build_folder, role, serving
from bench._report import Target, duration

import crossdock as xd

TOKEN = "a token that is long and random enough for a benchmark"
WAYS = [("shm", "shm:", None), ("tcp", "tcp:", None), ("tcp, token", "tcp:", TOKEN)]


def options(token: str | None) -> dict[str, object]:
    return {} if token is None else {"token": token}


@contextlib.contextmanager
def reading(uri: str, token: str | None, readers: int) -> Iterator[None]:
    with contextlib.ExitStack() as processes:
        for n in (readers // 2, readers - readers // 2):
            processes.enter_context(serving(role("_crowd", "read", uri=uri, readers=n, **options(token))))
        time.sleep(0.5)  # until each has its stream
        yield


def measure(once: Callable[[], None], times: int) -> dict[str, float]:
    """Quantiles of how long `once` took, in ns."""
    took = []
    for _ in range(times):
        start = time.perf_counter_ns()
        once()
        took.append(time.perf_counter_ns() - start)
        time.sleep(0.001)
    took.sort()
    return {"p50": took[times // 2], "p99": took[min(times * 99 // 100, times - 1)], "max": took[-1]}


def connect_to(uri: str, token: str | None) -> Callable[[], None]:
    def once() -> None:
        xd.connect(uri, token=token).close()

    return once


def accept_at(port: int) -> Callable[[], None]:
    def once() -> None:
        with socket.create_connection(("127.0.0.1", port)) as plain:
            plain.recv(1)

    return once


def measure_newcomers(readers: int, connects: int) -> list[dict[str, Any]]:
    rows = []
    with serving(role("_crowd", "accept")) as (plain, _):
        for name, uri, token in WAYS:
            with serving(role("_crowd", "serve", uri=uri, **options(token))) as (server, _):
                once = connect_to(server["uri"], token)
                measure(once, 10)
                row: dict[str, Any] = {"way": name, "alone": measure(once, connects)}
                with reading(server["uri"], token, readers):
                    row["busy"] = measure(once, connects)
                    row["plain"] = measure(accept_at(plain["port"]), connects)
                rows.append(row)
    return rows


def measure_zeros(requests: int) -> dict[str, Any]:
    """What a client pays for another one that sends 1 MiB of zeros again and again."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(role("_crowd", "serve", uri=f"shm:{folder}/zeros.sock")) as (server, _),
        xd.connect(server["uri"]) as client,
    ):
        measure(client.list, 10)
        alone = measure(client.list, requests)
        with serving(role("_crowd", "zeros", uri=server["uri"])):
            return {"alone": alone, "beside": measure(client.list, requests)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench newcomers", description=__doc__.split("\n\n")[0])
    parser.add_argument("--readers", type=int, default=64)
    parser.add_argument("--connects", type=int, default=500)
    parser.add_argument("--out", type=Path, help="the folder for the results; build/bench if it isn't given")
    parser.add_argument("--quick", action="store_true", help="8 readers, 20 connects")
    given = parser.parse_args()
    if given.quick:
        given.readers, given.connects = 8, 20
    info = _report.machine()
    _report.print_machine(info)
    rows = measure_newcomers(given.readers, given.connects)
    _report.print_table(
        f"a newcomer's connect beside {given.readers} busy readers, p50 and p99",
        ["way", "no readers", "busy readers", "a plain socket beside them"],
        (
            [row["way"], *(f"{duration(row[k]['p50'])}, {duration(row[k]['p99'])}" for k in ("alone", "busy", "plain"))]
            for row in rows
        ),
    )
    zeros = measure_zeros(given.connects)
    _report.print_table(
        "a request of one client, while another sends 1 MiB of zeros again and again",
        ["", "p50", "p99", "max"],
        ([name, *(duration(zeros[name][q]) for q in ("p50", "p99", "max"))] for name in ("alone", "beside")),
    )
    targets = [
        Target(f"connect beside {given.readers} readers, {row['way']}, p99", row["busy"]["p99"] / 1e6, 50, True, "ms")
        for row in rows
    ]
    _report.print_targets(targets)
    result = {"machine": info, "readers": given.readers, "connects": given.connects, "rows": rows, "zeros": zeros}
    _report.write_json((given.out or build_folder()) / "newcomers.json", result, targets)


if __name__ == "__main__":
    main()
