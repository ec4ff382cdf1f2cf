"""A server of one of the two hosts: python -m tests.twohosts.server URI

It says "ready" and waits for a line before it serves, so that a test decides when. Then each line of its input lets the
live stream "paced" have one more batch. It ends with its input.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterator

import pyarrow as pa
from tests.twohosts import data

import crossdock as xd


class Paced:
    """Batches that are made one by one, when the test says so."""

    def __init__(self) -> None:
        self._next = threading.Semaphore(0)
        self._over = False

    def stream(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(data.LIVE_SCHEMA, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for number in itertools.count():
            self._next.acquire()
            if self._over:
                return
            yield data.live_batch(number)

    def release(self) -> None:
        self._next.release()

    def end(self) -> None:
        """Ends all streams."""
        self._over = True
        self._next.release(100)


def live() -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(data.LIVE_SCHEMA, data.live_batches())


def large() -> pa.RecordBatchReader:
    batch = data.large()
    return pa.RecordBatchReader.from_batches(batch.schema, [batch])


def main(uri: str) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    paced = Paced()
    with xd.serve(
        {"table": data.table(), "live": live, "paced": paced.stream, "large": large, "wide": data.wide()}, uri
    ) as server:
        print(server.uri, flush=True)
        for _ in sys.stdin:
            paced.release()
        paced.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
