"""A server of `bench.flight`: ours or pyarrow's own, with the same tables, until its input is closed.

python -m bench._flight ours|theirs [--certificate FILE --key FILE]

Says its URI. To each line on its input, it says what processor time it has used, and what it has copied.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight

import crossdock as xd

# Bytes of a table's batches, by its name, and how many there are.
TABLES = {"64 KiB": (64 << 10, 1), "1 MiB": (1 << 20, 256), "64 MiB": (64 << 20, 8)}


def table_of(batch_bytes: int, count: int) -> pa.Table:
    batch = pa.record_batch({"x": np.ones(batch_bytes // 8)})
    return pa.Table.from_batches([batch] * count)


class Theirs(flight.FlightServerBase):  # type: ignore[misc]
    """What pyarrow's documentation shows."""

    def __init__(self, tables: dict[str, pa.Table], uri: str, **options: Any) -> None:
        super().__init__(uri, **options)
        self._tables = tables

    def get_flight_info(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        name = descriptor.path[0]
        table = self._tables[name.decode()]
        endpoint = flight.FlightEndpoint(name, [])
        return flight.FlightInfo(table.schema, descriptor, [endpoint], table.num_rows, table.nbytes)

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.RecordBatchStream:
        return flight.RecordBatchStream(self._tables[ticket.ticket.decode()])


def answers() -> Iterator[None]:
    for _ in sys.stdin:
        yield


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("which", choices=["ours", "theirs"])
    parser.add_argument("--certificate", type=Path)
    parser.add_argument("--key", type=Path)
    given = parser.parse_args()
    tables = {name: table_of(*form) for name, form in TABLES.items()}
    uri = f"{'grpc+tls' if given.certificate else 'grpc'}://127.0.0.1:0"
    if given.which == "ours":
        tls = xd.TLS(certificate=given.certificate, key=given.key) if given.certificate else None
        with xd.serve(tables, flight=uri, tls=tls) as server:
            published = sum(source["bytes_copied"] for source in server.stats()["sources"])
            say(uri=server.flight_uri, plain=server.uri)
            for _ in answers():
                copied = sum(source["bytes_copied"] for source in server.stats()["sources"])
                say(cpu=time.process_time(), copied=copied - published)
        return
    options = {}
    if given.certificate:
        options["tls_certificates"] = [(given.certificate.read_bytes(), given.key.read_bytes())]
    with Theirs(tables, uri, **options) as server:
        say(uri=f"{uri.rpartition(':')[0]}:{server.port}")
        for _ in answers():
            say(cpu=time.process_time(), copied=None)


if __name__ == "__main__":
    main()
