"""The processes of the newcomers' benchmark, each started by newcomers.py. Each says a line of JSON when it is ready,
and runs until its standard input ends.

  python -m bench._crowd serve --uri URI [--token TOKEN] [--metrics ADDRESS]
  python -m bench._crowd read --uri URI --readers N [--token TOKEN]
  python -m bench._crowd accept
  python -m bench._crowd zeros --uri URI
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import sys
import threading
from typing import Any

from bench._samples import make_batches

import crossdock as xd

BATCH_BYTES = 64 << 10
ZEROS = 1 << 20


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def serve(uri: str, token: str | None, metrics: str | None) -> None:
    batches = make_batches(BATCH_BYTES, 16)
    with xd.serve({"batches": batches * 64}, uri, token=token, metrics=metrics) as server:
        say(uri=server.uri, metrics=server.metrics and server.metrics.uri)
        sys.stdin.read()


def read(uri: str, readers: int, token: str | None) -> None:
    """All readers in this one process, a thread each: 64 processes would measure the scheduler."""

    def run(client: xd.Client) -> None:
        with contextlib.suppress(xd.Error):  # the end of it all
            while True:
                for _ in client.get("batches", wait="block"):
                    pass

    for _ in range(readers):
        threading.Thread(target=run, args=(xd.connect(uri, token=token),), daemon=True).start()
    say(readers=readers)
    sys.stdin.read()
    os._exit(0)  # the threads are in mid-stream


def accept() -> None:
    """A plain server: it accepts, and answers one byte."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)

    def run() -> None:
        while True:
            peer, _ = listener.accept()
            with peer:
                peer.sendall(b"x")

    threading.Thread(target=run, daemon=True).start()
    say(port=listener.getsockname()[1])
    sys.stdin.read()
    os._exit(0)


def zeros(uri: str) -> None:
    """A client that frees nothing, in messages as long as the server takes them: 131,072 addresses that are 0."""
    from pathlib import Path

    # The client that the tests have written from the specification: ours sends no such thing.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "spec_peer"))
    import shm_carrier

    carrier = shm_carrier.connect(shm_carrier.socket_path(uri.removeprefix("shm:")))

    def run() -> None:
        with contextlib.suppress(shm_carrier.Ended):
            while True:
                carrier.send(bytes(ZEROS), carrier.free_data, timeout=60)

    threading.Thread(target=run, daemon=True).start()
    say(bytes=ZEROS)
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench._crowd")
    parser.add_argument("what", choices=["serve", "read", "accept", "zeros"])
    parser.add_argument("--uri", default="shm:")
    parser.add_argument("--readers", type=int, default=64)
    parser.add_argument("--token")
    parser.add_argument("--metrics")
    given = parser.parse_args()
    if given.what == "serve":
        serve(given.uri, given.token, given.metrics)
    elif given.what == "read":
        read(given.uri, given.readers, given.token)
    elif given.what == "accept":
        accept()
    else:
        zeros(given.uri)


if __name__ == "__main__":
    main()
