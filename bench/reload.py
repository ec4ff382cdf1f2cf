"""`crossdock serve --config` with many tables: how long SIGHUP takes until all of them have changed, and what readers
notice of it.

  ./dev bench reload [--quick] [--out FOLDER]

The tables are Arrow files of 100 rows. One client reads a table after the other all the time, on a connection for each;
a read is a request with its answer. A reload begins when the signal is sent, and ends when the service has told its
manager that it is ready again. Computed: the CPU time of the service's main thread,
which says what a busy machine adds. Writes build/bench/reload.json.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pyarrow as pa
from bench import _report
from bench._children import build_folder
from bench._report import Target, duration, median

import crossdock as xd


def write(path: Path, value: int) -> None:
    table = pa.table({"n": [value] * 100})
    partial = path.with_suffix(".partial")
    with pa.ipc.new_file(str(partial), table.schema) as sink:
        sink.write_table(table)
    partial.replace(path)


def cpu_ns(process: int) -> int:
    """What the main thread of a process has computed so far, which reloads."""
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0])


class Reader:
    """A thread that reads tables until close(), and notes how long each read took and what failed."""

    def __init__(self, uri: str, names: list[str]) -> None:
        self.times: list[tuple[float, float]] = []  # when a read began, and how long it took, in s
        self.failures: list[str] = []
        self._uri = uri
        self._names = names
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with xd.connect(self._uri) as client:
            while not self._stop.is_set():
                for name in self._names:
                    begin = time.perf_counter()
                    try:
                        if pa.table(client.get(name)).num_rows != 100:
                            self.failures.append(f"{name} has other rows")
                    except xd.Error as error:
                        self.failures.append(str(error))
                    self.times.append((begin, time.perf_counter() - begin))

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


def next_state(manager: socket.socket, state: bytes) -> None:
    while state not in manager.recv(65536):
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few tables and reloads: shows that it works")
    parser.add_argument("--out", type=Path, default=build_folder())
    given = parser.parse_args()
    count, rounds = (50, 2) if given.quick else (1000, 9)

    kinds = {"none changed": 0, "10 changed": 10, "all changed": count}
    reloads: dict[str, list[float]] = {kind: [] for kind in kinds}
    computed: dict[str, list[int]] = {kind: [] for kind in kinds}
    spans: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as name, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        folder = Path(name)
        manager.bind(str(folder / "notify"))
        names = [f"table{number}" for number in range(count)]
        for number, table in enumerate(names):
            write(folder / f"{table}.arrow", number)
        (folder / "c.toml").write_text("[tables]\n" + "".join(f'{table} = "{table}.arrow"\n' for table in names))
        service = subprocess.Popen(
            [sys.executable, "-m", "crossdock", "serve", "--config", str(folder / "c.toml"),
             "--uri", f"shm:{folder}/socket"],
            stdout=subprocess.PIPE, text=True, env=os.environ | {"NOTIFY_SOCKET": str(folder / "notify")},
        )  # fmt: skip
        assert service.stdout is not None
        uri = service.stdout.readline().strip()
        next_state(manager, b"READY=1")
        reader = Reader(uri, names[:100])
        for turn in range(rounds):
            for kind, changed in kinds.items():
                for table in names[:changed]:
                    write(folder / f"{table}.arrow", turn)
                computed_before = cpu_ns(service.pid)
                begin = time.perf_counter()
                service.send_signal(signal.SIGHUP)
                next_state(manager, b"READY=1")
                end = time.perf_counter()
                computed[kind].append(cpu_ns(service.pid) - computed_before)
                spans.append((begin, end))
                reloads[kind].append(end - begin)
        reader.close()
        service.send_signal(signal.SIGTERM)
        if service.wait() != 0:
            raise RuntimeError(f"the service ended with {service.returncode}")
        service.stdout.close()

    during = [took for at, took in reader.times if any(at < end and at + took > begin for begin, end in spans)]
    beside = [took for at, took in reader.times if not any(at < end and at + took > begin for begin, end in spans)]
    _report.print_table(
        f"Reloads of {count:,} tables, and one reader",
        ["", "median", "longest", "number"],
        [
            [kind, duration(median(times) * 1e9), duration(max(times) * 1e9), str(len(times))]
            for kind, times in {
                **reloads,
                **{f"{kind}, computed": [spent / 1e9 for spent in spent_all] for kind, spent_all in computed.items()},
                "reads, meanwhile": during or [0.0],
                "reads, at other times": beside or [0.0],
            }.items()
        ],
    )
    targets = [Target(f"reload, {kind}", median(times) * 1e3, 100, True, "ms") for kind, times in reloads.items()] + [
        Target("reads that failed", len(reader.failures), 0, True, "")
    ]
    _report.print_targets(targets)
    result = {
        "machine": _report.machine(), "quick": given.quick, "tables": count, "reloads_s": reloads,
        "computed_ns": computed, "reads": {"meanwhile_s": during, "else_s": beside, "failures": reader.failures[:10]},
    }  # fmt: skip
    _report.write_json(given.out / "reload.json", result, targets)


if __name__ == "__main__":
    main()
