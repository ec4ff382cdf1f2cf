"""What servers publish in these tests, and clients compare with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

LIVE_BATCHES = 40
LIVE_SCHEMA = pa.schema([("n", pa.int64()), ("noise", pa.int64())])
LIVE_ROWS = 10_000  # 160 KB a batch, 6.4 MB in all.


def table() -> pa.Table:
    """Three batches with numbers, texts, lists and nulls."""
    numbers = range(12_000)
    columns = {
        "n": pa.array(numbers),
        "text": pa.array([None if n % 7 == 0 else f"flight {n}" for n in numbers]),
        "parts": pa.array([[n, -n] if n % 3 else [] for n in numbers]),
        "carrier": pa.array([("LX", "BA", "UA")[n % 3] for n in numbers]).dictionary_encode(),
    }
    return pa.Table.from_batches(pa.table(columns).to_batches(max_chunksize=4_000))


def live_batch(number: int) -> pa.RecordBatch:
    noise = np.random.default_rng(number).integers(-(2**62), 2**62, LIVE_ROWS)
    return pa.record_batch([np.arange(LIVE_ROWS) + number * LIVE_ROWS, noise], schema=LIVE_SCHEMA)


def live_batches() -> Iterator[pa.RecordBatch]:
    return map(live_batch, range(LIVE_BATCHES))


def large() -> pa.RecordBatch:
    """One body of 32 MB."""
    return pa.record_batch({"noise": np.random.default_rng(1).integers(-(2**62), 2**62, 4_000_000)})


def wide() -> pa.RecordBatch:
    """One body of 32 MB in two columns, for reads of one of them."""
    noise = np.random.default_rng(2).integers(-(2**62), 2**62, (2, 2_000_000))
    return pa.record_batch({"a": noise[0], "b": noise[1]})
