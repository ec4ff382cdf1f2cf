"""The Python processes of `./dev bench wire`. Each says a line of JSON when it is ready, and then one for each line of
its standard input, with whose end it ends.

  python -m bench._wire.ends serve URI --batch-bytes N --batches N [--device NAME] [--wait MODE]
      the table "batches", and a live stream "silent" whose first batch never comes
  python -m bench._wire.ends read URI --rounds N [--columns N] [--device NAME] [--wait MODE]
  python -m bench._wire.ends connect URI --clients N
  python -m bench._wire.ends watch URI --name TABLE [--columns N] [--timeout SECONDS]
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from bench._samples import COLUMNS, make_batches

import crossdock as xd
from crossdock import testing

MEMORY = 16 << 30  # of each device that isn't real, in bytes


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


@contextlib.contextmanager
def devices(name: str | None) -> Iterator[None]:
    if name is None or not name.startswith("sim"):
        yield
        return
    with testing.simulated_devices(2, memory=MEMORY):
        yield


def counts(device: str | None) -> dict[str, int]:
    """How often the device's driver opened another process's memory, copied and allocated."""
    if device is None:
        return {}
    if device.startswith("sim"):
        counted = testing.counters()
        return {"opened": counted["import_memory"], "copied": counted["copy"], "allocated": counted["allocate"]}
    calls = ctypes.CDLL(os.environ["CROSSDOCK_CUDA_LIBRARY"]).crossdockCudaFakeCalls
    calls.restype = ctypes.c_uint64
    copies = ("cuMemcpyAsync", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2", "cuMemcpyHtoDAsync_v2")
    return {
        "opened": calls(b"cuIpcOpenMemHandle_v2"), "copied": sum(calls(name.encode()) for name in copies),
        "allocated": calls(b"cuMemAlloc_v2"),
    }  # fmt: skip


def received() -> dict[str, int]:
    """The bytes that have come in so far, by interface."""
    lines = Path("/proc/self/net/dev").read_text().splitlines()[2:]
    return {name: int(count) for name, count in re.findall(r"^ *(\S+): *(\d+)", "\n".join(lines), re.MULTILINE)}


def columns_of(given: argparse.Namespace) -> list[str] | None:
    return [f"f{i}" for i in range(given.columns)] if given.columns else None


def mappings() -> set[str]:
    """Where tables of another process are in this one."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split("-")[0] for line in lines if "/memfd:crossdock-table" in line}


def serve(given: argparse.Namespace) -> None:
    over = threading.Event()

    def silent() -> pa.RecordBatchReader:
        def wait() -> Iterator[pa.RecordBatch]:
            over.wait()
            yield from ()

        return pa.RecordBatchReader.from_batches(make_batches(COLUMNS * 8, 1)[0].schema, wait())

    with devices(given.device):
        batches: list[Any] = make_batches(given.batch_bytes, 1) * given.batches
        if given.device:
            batches = [xd.RecordBatch(batches[0]).to(given.device)] * given.batches
        tables = {"batches": batches, "silent": silent}
        with xd.serve(tables, given.uri, wait=given.wait) as server:
            del batches, tables
            say(uri=server.uri)
            for _ in sys.stdin:
                stats = server.stats()
                say(
                    ways=[[one["carrier"], one["way"], one["why"]] for one in stats["consumers"]],
                    **counts(given.device),
                )  # fmt: skip
            over.set()


def read(given: argparse.Namespace) -> None:
    """Reads all batches, round after round. Those of the round before are held, and with them their memory."""
    options: dict[str, Any] = {"wait": given.wait, "columns": columns_of(given), "device": given.device}
    with devices(given.device), xd.connect(given.uri) as client:
        say(ready=True)
        held: list[Any] = []
        for _ in sys.stdin:
            rounds, between = [], []
            before, bytes_before = counts(given.device), received()
            copied, mapped = 0, set()
            for _ in range(given.rounds):
                start = time.perf_counter_ns()
                reader = client.get("batches", **options)
                batches, last = [], 0
                for batch in reader:
                    now = time.perf_counter_ns()
                    if last:
                        between.append(now - last)
                    last = now
                    batches.append(batch)
                rounds.append(time.perf_counter_ns() - start)
                copied += reader.bytes_copied
                mapped |= mappings()  # those of the round before are still there
                held = batches
            after, bytes_after = counts(given.device), received()
            say(
                rounds=rounds, between=between, batches=len(held), bytes_copied=copied, mapped=len(mapped),
                received={name: bytes_after[name] - was for name, was in bytes_before.items()},
                driver={name: after[name] - was for name, was in before.items()},
            )  # fmt: skip
        held.clear()


def connect(given: argparse.Namespace) -> None:
    """One connection, and at the next line all others; each has asked for the catalog once."""
    clients = []
    for wanted in (1, given.clients):
        while len(clients) < wanted:
            clients.append(xd.connect(given.uri))
            clients[-1].list()
        say(clients=len(clients))
        sys.stdin.readline()
    sys.stdin.read()


def watch(given: argparse.Namespace) -> None:
    """Says when it begins to wait for a batch, and then how the wait ended and when (CLOCK_MONOTONIC, in seconds)."""
    with xd.connect(given.uri) as client:
        reader = client.get(given.name, columns=columns_of(given), timeout=given.timeout)
        say(at=time.monotonic())
        try:
            while True:
                next(reader)
        except (xd.Error, KeyboardInterrupt, StopIteration) as error:
            say(at=time.monotonic(), error=type(error).__name__, text=str(error))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench._wire.ends")
    parser.add_argument("what", choices=["serve", "read", "connect", "watch"])
    parser.add_argument("uri")
    parser.add_argument("--batch-bytes", type=int, default=64 << 10)
    parser.add_argument("--batches", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--columns", type=int, default=0, help=f"how many of {COLUMNS}; 0: all, as none is named")
    parser.add_argument("--device")
    parser.add_argument("--wait", default="auto")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--name", choices=["batches", "silent"])
    parser.add_argument("--timeout", type=float)
    given = parser.parse_args()
    {"serve": serve, "read": read, "connect": connect, "watch": watch}[given.what](given)


if __name__ == "__main__":
    main()
