"""Sends a stream batch by batch, as it is made, to each consumer that asks: here, a thread of the same process.

python examples/live_stream.py
"""

from collections.abc import Iterator

import pyarrow as pa

import crossdock as xd

SCHEMA = pa.schema([("n", pa.int64()), ("square", pa.int64())])


def measurements() -> pa.RecordBatchReader:
    """Called once for each consumer, on a thread of the server's own."""

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 50, 10):
            numbers = range(start, start + 10)
            yield pa.record_batch([list(numbers), [n * n for n in numbers]], schema=SCHEMA)

    return pa.RecordBatchReader.from_batches(SCHEMA, batches())


def main() -> None:
    with (
        xd.serve({"measurements": measurements}) as server,
        xd.connect(server.uri) as client,
        client.get("measurements", columns=["square"], timeout=10) as reader,
    ):
        for batch in reader:
            print(batch.num_rows, "rows, the last is", pa.record_batch(batch).column(0)[-1])


if __name__ == "__main__":
    main()
