"""What consumers hold: a file of 1 GiB read by 10 processes at once, and 1,000,000 batches through one connection.

  ./dev bench memory [--quick] [--out FOLDER]

The file: every consumer imports the package, connects, says so, then reads all of the file and keeps it until all have
been looked at; the growth is that of the proportional set size (PSS) and of the private pages of all of them and of the
server, from /proc/PID/smaps_rollup. The batches: resident memory (RSS) and descriptors of both ends, sampled over the
last nine tenths. Writes build/bench/memory.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bench import _report
from bench._children import ROOT, build_folder, measure, program, role, said, serving, tell
from bench._report import Target

MIB = 1 << 20
CONSUMERS = 10
COLUMNS = 8
SAMPLES = 20


# ---- the processes --------------------------------------------------------------------------------------------------


def rollup(pid: int | str) -> dict[str, int]:
    """PSS and private memory of a process, in bytes."""
    fields = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, amount, *_ = line.split()
        fields[name.rstrip(":")] = int(amount) * 1024
    return {"pss": fields["Pss"], "private": fields["Private_Clean"] + fields["Private_Dirty"]}


def serve_file(path: str) -> None:
    import crossdock as xd

    with xd.serve({"file": path}) as server:
        print(json.dumps({"uri": server.uri}), flush=True)
        sys.stdin.read()


def read_file(uri: str) -> None:
    """Goes on at each line of standard input: reads, then ends."""
    import crossdock as xd

    with xd.connect(uri) as client:
        client.list()
        # What pyarrow and NumPy take when they are first used isn't the table's.
        values = np.frombuffer(pa.array([1.0, 2.0]).buffers()[1], "f8")
        print(json.dumps({"sum": float(np.add.reduce(values))}), flush=True)
        sys.stdin.readline()
        table = pa.RecordBatchReader.from_stream(client.get("file")).read_all()
        total = sum(
            float(np.add.reduce(np.frombuffer(chunk.buffers()[1], "f8", len(chunk))))
            for column in table.columns for chunk in column.chunks
        )  # fmt: skip
        print(json.dumps({"sum": total}), flush=True)
        sys.stdin.readline()


# ---- a file, ten consumers ------------------------------------------------------------------------------------------


def write_file(path: Path, total: int) -> float:
    """An Arrow file of batches of 64 MiB at most; returns the sum of all its values."""
    rows = min(total, 64 * MIB) // COLUMNS // 8
    names = [f"f{i}" for i in range(COLUMNS)]
    batch = pa.record_batch([pa.array(np.full(rows, i + 1.0)) for i in range(COLUMNS)], names=names)
    n_batches = total // (rows * COLUMNS * 8)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        for _ in range(n_batches):
            writer.write_batch(batch)
    return float(n_batches * rows * sum(range(1, COLUMNS + 1)))


def run_file(total: int) -> dict[str, Any]:
    children: list[subprocess.Popen[str]] = []
    with tempfile.TemporaryDirectory(prefix="memory-", dir=build_folder()) as folder:
        path = Path(folder) / "table.arrow"
        expected = write_file(path, total)
        with serving(role("memory", "serve-file", address=path)) as (server, server_process):
            try:
                for _ in range(CONSUMERS):
                    command = role("memory", "read-file", address=server["uri"])
                    children.append(
                        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                    )
                for child in children:
                    said(child)
                pids = [child.pid for child in children]
                before = [rollup(pid) for pid in [*pids, server_process.pid]]
                for child in children:
                    tell(child)
                for child in children:
                    found = said(child)["sum"]
                    if found != expected:
                        raise RuntimeError(f"a consumer read a sum of {found} where {expected} was written")
                after = [rollup(pid) for pid in [*pids, server_process.pid]]
                for child in children:
                    tell(child)
            finally:
                for child in children:
                    try:
                        child.communicate(timeout=30)
                    except subprocess.TimeoutExpired:
                        child.kill()
                        child.communicate()
    growth = [{key: b[key] - a[key] for key in a} for a, b in zip(before, after, strict=True)]
    return {
        "file_bytes": total, "consumers": CONSUMERS, "pss_growth": sum(one["pss"] for one in growth),
        "private_growth": [one["private"] for one in growth[:-1]], "server_private_growth": growth[-1]["private"],
    }  # fmt: skip


# ---- a million batches ----------------------------------------------------------------------------------------------


def run_batches(batches: int) -> dict[str, Any]:
    """Through one stream of one connection, batches of 64 KiB in 64 places."""
    command = program("handoff_server", source="arena", batches=batches + 128, wait="auto")
    with serving(command) as (server, process):
        run = measure(
            program(
                "handoff_client", uri=server["uri"], wait="auto", warm_up=128, batches=batches,
                memory_of=process.pid, memory_samples=SAMPLES,
            )
        )  # fmt: skip
    late = [sample for sample in run["memory"] if sample[0] >= batches // 10]
    at = np.array([sample[0] for sample in late], float)
    slopes = {}
    for end, column in (("client", 1), ("server", 3)):
        kib = np.array([sample[column] for sample in late], float)
        slopes[end] = float(np.polyfit(at, kib, 1)[0] * 1024 * (batches - batches // 10))
    descriptors = [{sample[column] for sample in late} for column in (2, 4)]
    return {
        "batches": run["batches"], "rss_growth": slopes,
        "descriptors_constant": all(len(seen) == 1 for seen in descriptors),
        "samples": [
            dict(zip(("batches", "client_kib", "client_fds", "server_kib", "server_fds"), sample, strict=True))
            for sample in run["memory"]
        ],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench memory", description=__doc__.split("\n\n")[0])
    parser.add_argument("part", nargs="?", choices=["serve-file", "read-file"], help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="a smaller file and fewer batches")
    parser.add_argument("--out", type=Path, help="the folder for the results; build/bench if it isn't given")
    given = parser.parse_args()
    if given.part == "serve-file":
        return serve_file(given.address)
    if given.part == "read-file":
        return read_file(given.address)

    out = given.out or build_folder()
    info = _report.machine()
    _report.print_machine(info)
    file = run_file((16 if given.quick else 1024) * MIB)
    many = run_batches(20_000 if given.quick else 1_000_000)
    share = file["pss_growth"] / file["file_bytes"]
    _report.console.print(
        f"{CONSUMERS} consumers of a file of {_report.size(file['file_bytes'])}, all of it read and held: PSS of all "
        f"and the server grew by {file['pss_growth'] / MIB:,.1f} MiB; private memory by "
        f"{max(file['private_growth']) / MIB:.2f} MiB at most in a consumer, "
        f"{file['server_private_growth'] / MIB:.2f} in the server\n"
        f"{many['batches']:,} batches through one connection: RSS grew by "
        f"{many['rss_growth']['client'] / 1024:,.0f} KiB in the client, {many['rss_growth']['server'] / 1024:,.0f} KiB "
        f"in the server over the last nine tenths (fitted line)"
    )
    targets = [
        Target(f"{CONSUMERS} consumers: total PSS growth, in sizes of the file", share, 1.1, True, "x"),
        Target("private growth of the worst consumer", max(file["private_growth"]) / MIB, 8, True, "MiB"),
        Target("RSS growth over the last nine tenths, client", many["rss_growth"]["client"] / MIB, 1, True, "MiB"),
        Target("RSS growth over the last nine tenths, server", many["rss_growth"]["server"] / MIB, 1, True, "MiB"),
        Target("descriptors change", float(not many["descriptors_constant"]), 0, True, ""),
    ]
    _report.print_targets(targets)
    result = {"machine": info, "quick": given.quick, "file": file, "batches": many}
    _report.write_json(out / "memory.json", result, targets)
    return None


if __name__ == "__main__":
    main()
