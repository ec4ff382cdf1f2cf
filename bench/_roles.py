"""The Python processes of the hand-over benchmark, each started by handoff.py as one end of a pair.

  python -m bench._roles serve WAY --batch-bytes N --sets N --batches N [--folder PATH] [--host ADDRESS]
  python -m bench._roles consume WAY --address TEXT --read first|sum|columns --sets N --warm-up N
                                     --batches N --seconds N [--wait MODE] [--folder PATH]

The ways: crossdock and here (consumers only), flight-unix, flight-tcp, ipc-socket, ipc-file. `here` has no other end:
it is what a C stream costs in pyarrow alone, within one process.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from bench._samples import consume, make_batches

# Files that the producer may be ahead: it writes one while the consumer reads another.
FILES_AHEAD = 2
_NUMBER = struct.Struct("<I")


def repeated(batches: list[pa.RecordBatch], count: int) -> Iterator[pa.RecordBatch]:
    return itertools.islice(itertools.cycle(batches), count)


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


# ---- Flight ---------------------------------------------------------------------------------------------------------


def serve_flight(location: str, batches: list[pa.RecordBatch], count: int) -> None:
    import pyarrow.flight as flight

    table = pa.Table.from_batches(list(repeated(batches, count)))

    class Server(flight.FlightServerBase):  # type: ignore[misc]
        def do_get(self, context: Any, ticket: Any) -> Any:
            return flight.RecordBatchStream(table)

    with Server(location) as server:
        # A Unix location has no port, and is taken as it was given.
        say(address=location if location.startswith("grpc+unix") else f"{location.rpartition(':')[0]}:{server.port}")
        sys.stdin.read()


@contextlib.contextmanager
def read_flight(address: str) -> Iterator[Iterator[pa.RecordBatch]]:
    import pyarrow.flight as flight

    with flight.connect(address) as client:
        stream = client.do_get(flight.Ticket(b""))
        yield (chunk.data for chunk in stream)
        stream.cancel()


# ---- the IPC stream over a Unix socket ------------------------------------------------------------------------------


def listen(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    say(address=path)
    return listener


def each_client(listener: socket.socket, serve_one: Any) -> None:
    """One client after another, until standard input ends."""

    def loop() -> None:
        while True:
            peer, _ = listener.accept()
            # A consumer goes when it has enough.
            with peer, contextlib.suppress(BrokenPipeError, ConnectionResetError):
                serve_one(peer)

    threading.Thread(target=loop, daemon=True).start()
    sys.stdin.read()


def serve_ipc_socket(path: str, batches: list[pa.RecordBatch], count: int) -> None:
    def serve_one(peer: socket.socket) -> None:
        sink = peer.makefile("wb", buffering=1 << 20)
        writer = pa.ipc.new_stream(sink, batches[0].schema)
        try:
            for batch in repeated(batches, count):
                writer.write_batch(batch)
            writer.close()
            sink.flush()
        finally:
            with contextlib.suppress(OSError):
                sink.close()

    each_client(listen(path), serve_one)


@contextlib.contextmanager
def read_ipc_socket(address: str) -> Iterator[Iterator[pa.RecordBatch]]:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(address)
        yield iter(pa.ipc.open_stream(peer.makefile("rb", buffering=1 << 20)))


# ---- IPC files in shared memory -------------------------------------------------------------------------------------


def serve_ipc_file(path: str, folder: Path, batches: list[pa.RecordBatch], count: int) -> None:
    def serve_one(peer: socket.socket) -> None:
        for i, batch in enumerate(repeated(batches, count)):
            if i >= FILES_AHEAD:
                peer.recv(1)  # the consumer is done with one
            with pa.OSFile(str(folder / str(i)), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
                writer.write_batch(batch)
            peer.sendall(_NUMBER.pack(i))

    each_client(listen(path), serve_one)


@contextlib.contextmanager
def read_ipc_file(address: str, folder: Path) -> Iterator[Iterator[pa.RecordBatch]]:
    def batches(peer: socket.socket) -> Iterator[pa.RecordBatch]:
        while number := peer.recv(_NUMBER.size, socket.MSG_WAITALL):
            path = folder / str(_NUMBER.unpack(number)[0])
            with pa.memory_map(str(path)) as source:
                yield pa.ipc.open_file(source).get_batch(0)
            path.unlink()
            peer.sendall(b"\0")

    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(address)
        yield batches(peer)
    for left in folder.iterdir():
        left.unlink()


# ---- ours -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def read_crossdock(address: str, wait: str, own: bool) -> Iterator[Iterator[Any]]:
    """Our batches as they come, or taken by pyarrow."""
    import crossdock as xd

    with xd.connect(address) as client:
        reader = client.get("batches", wait=wait)
        yield reader if own else iter(pa.RecordBatchReader.from_stream(reader))


@contextlib.contextmanager
def read_here(batch_bytes: int, sets: int, count: int) -> Iterator[Iterator[pa.RecordBatch]]:
    batches = make_batches(batch_bytes, sets)
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, repeated(batches, count))
    yield iter(pa.RecordBatchReader.from_stream(reader))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("end", choices=["serve", "consume"])
    parser.add_argument("way", choices=["crossdock", "here", "flight-unix", "flight-tcp", "ipc-socket", "ipc-file"])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--host", default="127.0.0.1", help="where flight-tcp listens")
    parser.add_argument("--address")
    parser.add_argument("--batch-bytes", type=int, default=64 << 10)
    parser.add_argument("--sets", type=int, default=64)
    parser.add_argument("--batches", type=int, default=100_000)
    parser.add_argument("--read", default="first")
    parser.add_argument("--wait", default="auto")
    parser.add_argument("--warm-up", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=3600)
    given = parser.parse_args()

    if given.end == "serve":
        batches = make_batches(given.batch_bytes, given.sets)
        path = str(given.folder / "socket")
        if given.way == "flight-unix":
            serve_flight(f"grpc+unix://{path}", batches, given.batches)
        elif given.way == "flight-tcp":
            serve_flight(f"grpc+tcp://{given.host}:0", batches, given.batches)
        elif given.way == "ipc-socket":
            serve_ipc_socket(path, batches, given.batches)
        elif given.way == "ipc-file":
            files = given.folder / "files"
            files.mkdir()
            serve_ipc_file(path, files, batches, given.batches)
        return

    ways = {
        "crossdock": lambda: read_crossdock(given.address, given.wait, given.read == "columns"),
        "here": lambda: read_here(given.batch_bytes, given.sets, given.batches + given.warm_up),
        "flight-unix": lambda: read_flight(given.address),
        "flight-tcp": lambda: read_flight(given.address),
        "ipc-socket": lambda: read_ipc_socket(given.address),
        "ipc-file": lambda: read_ipc_file(given.address, given.folder / "files"),
    }
    with ways[given.way]() as stream:
        say(**consume(stream, given.read, given.sets, given.warm_up, given.batches, given.seconds))


if __name__ == "__main__":
    main()
