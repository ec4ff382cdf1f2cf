"""Tables found by Flight, and read from it by pyarrow's client, beside pyarrow's own server.

  ./dev bench flight [--quick] [--tls] [--out FOLDER]

Both servers have the same tables; each is a process of its own, and they take turns. Found: `get()` of one batch over
shared memory by way of the Flight server, beside the same `get()` without it and one GetFlightInfo of pyarrow's client,
connections kept. Read: whole tables by DoGet, with the processor time of both ends. Idle: the processor time of our
server while a client is connected and asks nothing. Checked: a signed ticket, by the processor alone. `--tls`: the same
over grpc+tls, with a certificate that openssl makes. Writes build/bench/flight.json (flight-tls.json).
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.flight as flight
from bench import _report
from bench._children import ask, build_folder, measure, program, role, serving
from bench._flight import TABLES
from bench._report import Target, duration, median

import crossdock as xd

PATH = flight.FlightDescriptor.for_path


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - start


def in_turns(calls: list[Callable[[], object]], count: int) -> list[list[float]]:
    """The times of each call, in ns; the first rounds aren't counted."""
    times: list[list[float]] = [[] for _ in calls]
    for i in range(count + 3):
        for call, taken in zip(calls, times, strict=True):
            spent = timed(call)
            if i >= 3:
                taken.append(spent)
    return times


def first_batch(client: xd.Client) -> None:
    reader = client.get("64 KiB")
    if next(reader).num_rows != TABLES["64 KiB"][0] // 8:
        raise ValueError("another batch came than the one that was published")
    list(reader)


def read_all(client: flight.FlightClient, name: str) -> None:
    rows = 0
    for chunk in client.do_get(flight.Ticket(name)):
        rows += chunk.data.num_rows
    size, count = TABLES[name]
    if rows != size // 8 * count:
        raise ValueError(f"{rows} rows came")


def found(client: xd.Client, plain: xd.Client, info: Callable[[], object], count: int) -> dict[str, float]:
    by_flight, without, bare = in_turns([lambda: first_batch(client), lambda: first_batch(plain), info], count)
    if not client.get("64 KiB").location.startswith("shm:"):
        raise ValueError("it wasn't read over shared memory")
    return {"by Flight": median(by_flight), "without": median(without), "GetFlightInfo": median(bare)}


def whole_table(name: str, ends: list[tuple[flight.FlightClient, Any]], rounds: int) -> list[list[dict[str, float]]]:
    """Wall clock and processor time of each round, of our server and of theirs."""
    costs: list[list[dict[str, float]]] = [[], []]
    for i in range(rounds + 1):
        for which in (0, 1) if i % 2 else (1, 0):
            client, child = ends[which]
            before = ask(child)["cpu"] + time.process_time()
            wall = timed(lambda client=client: read_all(client, name))
            cpu = ask(child)["cpu"] + time.process_time() - before
            if i:
                costs[which].append({"wall": wall, "cpu": cpu * 1e9})
    return costs


def ratio(costs: list[list[dict[str, float]]], what: str) -> float:
    """Theirs divided by ours: the median of the rounds."""
    return median(theirs[what] / ours[what] for ours, theirs in zip(*costs, strict=True))


@contextlib.contextmanager
def certificate(wanted: bool) -> Iterator[tuple[Path, Path] | None]:
    if not wanted:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        made, key = Path(folder) / "server.pem", Path(folder) / "server.key"
        what = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost")
        name = ("-addext", "subjectAltName=IP:127.0.0.1")
        subprocess.run(
            ["openssl", "req", "-x509", *what, *name, "-days", "1", "-keyout", key, "-out", made],
            check=True, capture_output=True,
        )  # fmt: skip
        yield made, key


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="./dev bench flight", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few rounds: shows that it works")
    parser.add_argument("--tls", action="store_true", help="over grpc+tls")
    parser.add_argument("--out", type=Path, help="the folder for the results; build/bench if it isn't given")
    given = parser.parse_args()
    count, rounds, idle_seconds = (5, 2, 1) if given.quick else (500, 11, 10)
    info = _report.machine()
    _report.print_machine(info)
    with certificate(given.tls) as pair:
        files = {} if pair is None else {"certificate": pair[0], "key": pair[1]}
        theirs_options = {} if pair is None else {"tls_root_certs": pair[0].read_bytes()}
        tls = None if pair is None else xd.TLS(roots=pair[0])
        with (
            serving(role("_flight", "ours", **files)) as (ours, our_child),
            serving(role("_flight", "theirs", **files)) as (theirs, their_child),
            flight.FlightClient(ours["uri"], **theirs_options) as at_ours,
            flight.FlightClient(theirs["uri"], **theirs_options) as at_theirs,
            xd.connect(ours["uri"], tls=tls) as by_flight,
            xd.connect(ours["plain"]) as plain,
        ):
            times = found(by_flight, plain, lambda: at_ours.get_flight_info(PATH("64 KiB")), count)
            our_info, their_info = in_turns(
                [lambda: at_ours.get_flight_info(PATH("1 MiB")), lambda: at_theirs.get_flight_info(PATH("1 MiB"))],
                count,
            )
            ends = [(at_ours, our_child), (at_theirs, their_child)]
            read = {name: whole_table(name, ends, rounds) for name in TABLES if name != "64 KiB"}
            copied = ask(our_child)["copied"]
            before = ask(our_child)["cpu"]
            time.sleep(idle_seconds)
            idle = (ask(our_child)["cpu"] - before) / idle_seconds
    tickets = measure(program("tickets"))
    _report.print_table(
        "get() to the first batch over shared memory, p50",
        ["way", "time"],
        [[name, duration(value)] for name, value in times.items()],
    )
    infos = [median(our_info), median(their_info)]
    _report.print_table(
        "GetFlightInfo, pyarrow's client, p50",
        ["server", "time"],
        [["ours", duration(infos[0])], ["pyarrow's", duration(infos[1])]],
    )
    for name, costs in read.items():
        total = TABLES[name][0] * TABLES[name][1]
        rows = []
        for server, rounds_of in zip(("ours", "pyarrow's"), costs, strict=True):
            wall, cpu = (median(one[what] for one in rounds_of) for what in ("wall", "cpu"))
            rows.append([server, f"{total / wall:.2f}", f"{cpu / 1e6:.0f}"])
        _report.print_table(
            f"DoGet of {_report.size(total)} in batches of {name}, pyarrow's client",
            ["server", "GB/s", "ms of processors"],
            rows,
        )
    targets = [
        Target("get() by Flight to the first batch", times["by Flight"] / 1e6, 5, True, "ms"),
        Target(
            "the same, over get() without and GetFlightInfo together",
            (times["by Flight"] - times["without"] - times["GetFlightInfo"]) / 1e6,
            1,
            True,
            "ms",
        ),
        Target("GetFlightInfo, against pyarrow's server", infos[0] / infos[1], 1, True, "x the time"),
        *(
            Target(f"DoGet in batches of {name}, against pyarrow's server", ratio(costs, "wall"), 0.95, False, "x")
            for name, costs in read.items()
        ),
        Target("bytes of bodies copied by our server meanwhile", copied, 0, True, "B"),
        Target("checking a signed ticket", tickets["check"] / 1e3, 10, True, "µs"),
        Target("our server with nothing to do", idle * 100, 1, True, "% of a core"),
    ]
    _report.print_targets(targets)
    result = {"machine": info, "found": times, "info": infos, "read": read, "copied": copied, "idle": idle}
    result["tickets"] = tickets
    _report.write_json(
        (given.out or build_folder()) / ("flight-tls.json" if given.tls else "flight.json"), result, targets
    )


if __name__ == "__main__":
    main()
